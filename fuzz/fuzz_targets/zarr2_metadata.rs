#![no_main]

#[path = "../bodies/zarr2_metadata.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
