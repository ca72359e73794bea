#![no_main]

#[path = "../bodies/zarr2_metadata.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;
#[path = "../packed.rs"]
mod packed;
#[path = "../structs.rs"]
mod structs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
