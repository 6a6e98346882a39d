//! What survives what, on every store that is to survive it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the lints spare tests, but not what they share; how much was tried is told"
)]

mod bank;
mod consent;
mod control;
mod corruption;
mod crash;
mod decisions;
mod faults;
mod fleet;
mod full_disk;
mod hammer;
mod leasing;
mod nested;
mod numbers;
mod places;
mod resume;
mod steering;
mod workers;
