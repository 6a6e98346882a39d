//! All example programs as one: `every-example NAME` does what `cargo run -p loopwright --example NAME` does.
//!
//! Linking each of them takes longer than all tests of the facade, so `scripts/examples` runs this program. Each example
//! stays a program of its own for those who read it, and the lints check it as that.

use std::process::{ExitCode, Termination};

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    run(&name).unwrap_or_else(|| {
        // Examples with a sandbox start this program again as their helper. It is only then made ready to be one, so
        // that an example which forgets its own first line fails here as it fails alone.
        loopwright::sandbox::init();
        ExitCode::from(2)
    })
}
