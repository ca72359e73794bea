//! Hands the bytes of libFuzzer to the body that FUZZ_BODY names.
#![no_main]

#[path = "../bodies/mod.rs"]
mod bodies;
#[path = "../lane_kernel.rs"]
mod lane_kernel;

use bodies::{Body, TARGETS};
use std::sync::LazyLock;

static BODY: LazyLock<Body> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_BODY").expect("FUZZ_BODY is the name of a body");
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("FUZZ_BODY={name} is no body: see bodies/mod.rs")).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| BODY(data));
