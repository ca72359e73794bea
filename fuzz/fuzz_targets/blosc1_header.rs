#![no_main]

#[path = "../bodies/blosc1_header.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
