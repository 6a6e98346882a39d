//! Numbers at random, the same for each seed.

/// Numbers that a seed gives (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Begins with a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let number = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (number ^ (number >> 31)) % end.max(1)
    }
}
