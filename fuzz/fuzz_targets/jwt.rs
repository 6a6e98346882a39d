//! Only tokens that the issuer has signed are believed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| loopwright_fuzz::tokens::check(data));
