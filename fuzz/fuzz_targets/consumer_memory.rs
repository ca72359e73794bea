#![no_main]

#[path = "../bodies/consumer_memory.rs"]
mod body;
#[path = "../choices.rs"]
mod choices;
#[allow(dead_code)] // each target uses another part of it
#[path = "../hostile_consumer.rs"]
mod hostile_consumer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
