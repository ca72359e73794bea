#![no_main]

#[path = "../bodies/chunk.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;
#[path = "../guard.rs"]
mod guard;
#[path = "../whole_shards.rs"]
mod whole_shards;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
