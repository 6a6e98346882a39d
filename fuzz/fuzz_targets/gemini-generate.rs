//! Answers on the wire `gemini-generate` are read alike however their bytes arrive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopwright_fuzz::answer("gemini-generate", data));
