//! Answers on the wire `bedrock-converse` are read alike however their bytes arrive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopwright_fuzz::answer("bedrock-converse", data));
