//! Answers on the wire `anthropic-messages` are read alike however their bytes arrive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopwright_fuzz::answer("anthropic-messages", data));
