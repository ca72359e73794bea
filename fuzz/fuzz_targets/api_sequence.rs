#![no_main]

#[allow(dead_code)] // each target uses another part of it
#[path = "../../tests/common/affine_model.rs"]
mod affine_model;
#[path = "../bodies/api_sequence.rs"]
mod body;
#[path = "../box_model.rs"]
mod box_model;
#[path = "../choices.rs"]
mod choices;
#[path = "../host.rs"]
mod host;
#[path = "../loader_model.rs"]
mod loader_model;
#[allow(dead_code)] // each target uses another part of it
#[path = "../map_model.rs"]
mod map_model;
#[path = "../memory_store.rs"]
mod memory_store;
#[allow(dead_code)] // the oracle of all tests
#[path = "../../tests/common/oracle.rs"]
mod oracle;
#[path = "../reads.rs"]
mod reads;
#[path = "../sources.rs"]
mod sources;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
