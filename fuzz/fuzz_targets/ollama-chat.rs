//! Answers on the wire `ollama-chat` are read alike however their bytes arrive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopwright_fuzz::answer("ollama-chat", data));
