//! How much is tried, and at which instants.

use std::env;

pub(crate) use loopwright_survival::numbers::Numbers;

/// Tells whether tests with a long form take it.
pub(crate) fn is_long() -> bool {
    env::var_os("LOOPWRIGHT_LONG").is_some()
}

/// Returns the numbers of the seed that the environment has.
pub(crate) fn numbers_of_env() -> Numbers {
    let seed = env::var("LOOPWRIGHT_SEED").ok().map(|it| it.parse().unwrap());
    let seed = seed.unwrap_or(0x5EED);
    println!("LOOPWRIGHT_SEED={seed}");
    Numbers::from_seed(seed)
}
