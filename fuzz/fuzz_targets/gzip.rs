#![no_main]

#[path = "../bodies/gzip.rs"]
mod body;
#[path = "../guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
