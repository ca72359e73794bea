#![no_main]

#[path = "../bodies/zstd_chunk.rs"]
mod body;
#[path = "../guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
