//! How much is tried, and at which instants.

use std::env;

/// Tells whether tests with a long form take it.
pub(crate) fn is_long() -> bool {
    env::var_os("LOOPWRIGHT_LONG").is_some()
}

/// Numbers that a seed gives (`SplitMix64`).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn from_env() -> Self {
        let seed = env::var("LOOPWRIGHT_SEED").ok().map(|it| it.parse().unwrap());
        let seed = seed.unwrap_or(0x5EED);
        println!("LOOPWRIGHT_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let number = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (number ^ (number >> 31)) % end.max(1)
    }
}
