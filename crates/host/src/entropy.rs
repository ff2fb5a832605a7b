//! Randomness: from the kernel, or from a seed.

use parking_lot::Mutex;

/// Source of random bits.
pub trait Entropy: Send + Sync + 'static {
    /// 32 random bytes; only the kernel's are good enough for keys.
    fn bytes(&self) -> [u8; 32];

    /// 64 random bits.
    fn u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Randomness of the kernel.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    /// When the kernel gives no randomness: no secret would be safe.
    fn bytes(&self) -> [u8; 32] {
        let mut out = [0; 32];
        let mut filled = 0;
        while filled < out.len() {
            let got = rustix::rand::getrandom(&mut out[filled..], rustix::rand::GetRandomFlags::empty());
            filled += got.expect("getrandom");
        }
        out
    }
}

/// Deterministic bits from a seed. For tests; never for keys.
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// Starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    /// One step of SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn bytes(&self) -> [u8; 32] {
        let mut state = self.state.lock();
        let mut out = [0; 32];
        for chunk in out.chunks_exact_mut(8) {
            chunk.copy_from_slice(&Self::next(&mut state).to_le_bytes());
        }
        out
    }
}
