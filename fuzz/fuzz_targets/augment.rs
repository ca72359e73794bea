#![no_main]

#[allow(dead_code)] // each target uses another part of it
#[path = "../../tests/common/affine_model.rs"]
mod affine_model;
#[path = "../augment_model.rs"]
mod augment_model;
#[path = "../bodies/augment.rs"]
mod body;
#[path = "../box_loader.rs"]
mod box_loader;
#[path = "../box_model.rs"]
#[allow(dead_code)] // each target uses another part of it
mod box_model;
#[path = "../choices.rs"]
mod choices;
#[path = "../column_model.rs"]
mod column_model;
#[allow(dead_code)] // each target uses another part of it
#[path = "../guard.rs"]
mod guard;
#[allow(dead_code)] // each target uses another part of it
#[path = "../map_model.rs"]
mod map_model;
#[allow(dead_code)] // each target uses another part of it
#[path = "../memory_store.rs"]
mod memory_store;
#[allow(dead_code)] // the oracle of all tests
#[path = "../../tests/common/oracle.rs"]
mod oracle;
#[allow(dead_code)] // each target uses another part of it
#[path = "../sources.rs"]
mod sources;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
