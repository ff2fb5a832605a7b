//! bitmap4: a set of small numbers, such as attributes or operations.

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Words of a bitmap: attributes and operations end below 100; the bound leaves room for minor versions to
/// come.
const WORDS_MAX: usize = 8;

/// bitmap4: bit n is in word n / 32 (RFC 8881, section 3.3.7). Trailing zero words are not sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bitmap([u32; WORDS_MAX]);

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS_MAX]);
    /// Number of bits.
    pub const BITS: u32 = 32 * WORDS_MAX as u32;

    /// Set of `bits`, without those of [`Self::BITS`] or more. Usable at compile time.
    #[must_use]
    pub const fn of(bits: &[u32]) -> Self {
        let mut words = [0; WORDS_MAX];
        let mut i = 0;
        while i < bits.len() {
            if bits[i] < Self::BITS {
                words[bits[i] as usize / 32] |= 1 << (bits[i] % 32);
            }
            i += 1;
        }
        Self(words)
    }

    /// Adds `bit`, unless it is [`Self::BITS`] or more.
    pub fn set(&mut self, bit: u32) {
        if let Some(word) = self.0.get_mut(bit as usize / 32) {
            *word |= 1 << (bit % 32);
        }
    }

    /// Removes `bit`.
    pub fn clear(&mut self, bit: u32) {
        if let Some(word) = self.0.get_mut(bit as usize / 32) {
            *word &= !(1 << (bit % 32));
        }
    }

    /// True if `bit` is in the set.
    #[must_use]
    pub fn contains(&self, bit: u32) -> bool {
        self.0.get(bit as usize / 32).is_some_and(|word| word & (1 << (bit % 32)) != 0)
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Bits of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let words = self.0;
        words.into_iter().zip((0..).step_by(32)).flat_map(|(word, base)| {
            (0..32).filter(move |bit| word & (1 << bit) != 0).map(move |bit| base + bit)
        })
    }

    /// Bits in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Bits in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Bits in this set but not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }
}

impl FromIterator<u32> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u32>>(bits: I) -> Self {
        let mut set = Self::EMPTY;
        bits.into_iter().for_each(|bit| set.set(bit));
        set
    }
}

impl std::fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Encode for Bitmap {
    fn encode(&self, e: &mut Encoder) {
        let words = WORDS_MAX - self.0.iter().rev().take_while(|word| **word == 0).count();
        e.array(&self.0[..words]);
    }
}

impl Decode for Bitmap {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        let len = d.u32()?;
        let mut set = Self::EMPTY;
        let words = set.0.get_mut(..len as usize).ok_or(DecodeError::Length(len))?;
        for word in words {
            *word = d.u32()?;
        }
        Ok(set)
    }
}
