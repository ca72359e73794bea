#![no_main]

#[path = "../bodies/described.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
