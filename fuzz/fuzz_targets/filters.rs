#![no_main]

#[path = "../bodies/filters.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;
#[path = "../guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
