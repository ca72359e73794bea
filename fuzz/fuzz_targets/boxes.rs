#![no_main]

#[allow(dead_code)] // each target uses another part of it
#[path = "../../tests/common/affine_model.rs"]
mod affine_model;
#[path = "../bodies/boxes.rs"]
mod body;
#[path = "../box_loader.rs"]
#[allow(dead_code)] // each target uses another part of it
mod box_loader;
#[path = "../box_model.rs"]
#[allow(dead_code)] // each target uses another part of it
mod box_model;
#[path = "../choices.rs"]
mod choices;
#[allow(dead_code)] // each target uses another part of it
#[path = "../map_model.rs"]
mod map_model;
#[allow(dead_code)] // the oracle of all tests
#[path = "../../tests/common/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
