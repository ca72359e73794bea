#![no_main]

#[path = "../../tests/common/affine_model.rs"]
mod affine_model;
#[path = "../bodies/affine.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;
#[allow(dead_code)] // the oracle of all tests
#[path = "../../tests/common/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
