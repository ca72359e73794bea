#![no_main]

#[path = "../bodies/zstd_kernel.rs"]
mod body;
#[path = "../guard.rs"]
mod guard;
#[path = "../lane_kernel.rs"]
mod lane_kernel;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
