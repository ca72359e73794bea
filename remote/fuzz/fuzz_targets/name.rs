//! Names of hostile text: one that is understood has an address, and shows no user and no query.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| wavetrain_remote::parse_hostile(text));
