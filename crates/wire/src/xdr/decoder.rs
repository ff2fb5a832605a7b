//! Decoder of values in one record.

use bytes::Bytes;
use thiserror::Error;

/// Error of decoding a record. Answered with GARBAGE_ARGS or NFS4ERR_BADXDR; never a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The record ends inside a value.
    #[error("record ends inside a value")]
    Short,
    /// A length exceeds its bound, or the rest of the record.
    #[error("length {0} is beyond its bound")]
    Length(u32),
    /// A discriminant or enum value that the protocol does not define.
    #[error("value {0} is not one of the enum")]
    Enum(u32),
    /// A boolean that is neither 0 nor 1 (RFC 4506, section 4.4).
    #[error("boolean is {0}")]
    Bool(u32),
    /// A well-formed value outside its range, such as a time of 10^9 nanoseconds.
    #[error("value out of range")]
    Range,
}

/// Type that can be decoded from XDR.
pub trait Decode: Sized {
    /// Decodes one value and advances past it.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not such a value.
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError>;
}

/// Cursor over one record. Opaque data are slices of the record, without a copy.
#[derive(Debug, Clone)]
pub struct Decoder {
    rest: Bytes,
}

impl Decoder {
    /// Decoder at the first byte of `record`.
    #[must_use]
    pub fn new(record: Bytes) -> Self {
        Self { rest: record }
    }

    /// Number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Bytes left, as a slice of the record.
    #[must_use]
    pub fn rest(&self) -> Bytes {
        self.rest.clone()
    }

    fn take(&mut self, n: usize) -> Result<Bytes, DecodeError> {
        if n > self.rest.len() {
            return Err(DecodeError::Short);
        }
        Ok(self.rest.split_to(n))
    }

    /// Reads exactly `N` bytes and skips the padding.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end of the record.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let padded = N.next_multiple_of(4);
        let bytes = self.take(padded)?;
        let mut out = [0; N];
        out.copy_from_slice(&bytes[..N]);
        Ok(out)
    }

    /// Reads an unsigned 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Short`] at the end of the record.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        match self.rest.first_chunk::<4>() {
            Some(bytes) => {
                let value = u32::from_be_bytes(*bytes);
                self.rest = self.rest.slice(4..);
                Ok(value)
            }
            None => Err(DecodeError::Short),
        }
    }

    /// Reads a variable-length opaque or string of at most `max` bytes, as a slice of the record.
    ///
    /// # Errors
    /// [`DecodeError::Length`] beyond `max`, [`DecodeError::Short`] beyond the record.
    pub fn opaque(&mut self, max: usize) -> Result<Bytes, DecodeError> {
        let len = self.u32()?;
        let n = len as usize;
        if n > max {
            return Err(DecodeError::Length(len));
        }
        if n.next_multiple_of(4) > self.rest.len() {
            return Err(DecodeError::Short);
        }
        let mut padded = self.take(n.next_multiple_of(4))?;
        padded.truncate(n);
        Ok(padded)
    }

    /// Reads a variable-length array of at most `max` elements. Every element has at least four bytes, so the
    /// allocation is bounded by the rest of the record.
    ///
    /// # Errors
    /// [`DecodeError`] of the length or of an element.
    pub fn array<T: Decode>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        let len = self.u32()?;
        let n = len as usize;
        if n > max {
            return Err(DecodeError::Length(len));
        }
        if n > self.rest.len() / 4 {
            return Err(DecodeError::Short);
        }
        let mut out = Vec::with_capacity(n.min(64));
        for _ in 0..n {
            out.push(T::decode(self)?);
        }
        Ok(out)
    }
}

impl Decode for u32 {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        d.u32()
    }
}

impl Decode for i32 {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(i32::from_be_bytes(d.fixed()?))
    }
}

impl Decode for u64 {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(u64::from_be_bytes(d.fixed()?))
    }
}

impl Decode for i64 {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(i64::from_be_bytes(d.fixed()?))
    }
}

impl Decode for bool {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        match d.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Bool(other)),
        }
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        d.fixed()
    }
}

/// Opaque data bounded by the record alone; operations check their own bounds.
impl Decode for Bytes {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        d.opaque(usize::MAX)
    }
}

/// A list bounded by the record alone; see [`Decoder::array`].
impl<T: Decode> Decode for Vec<T> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        d.array(usize::MAX)
    }
}

/// XDR's optional data: a boolean, then the value if it is true.
impl<T: Decode> Decode for Option<T> {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        if bool::decode(d)? { Ok(Some(T::decode(d)?)) } else { Ok(None) }
    }
}

impl Decode for () {
    fn decode(_: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(())
    }
}
