//! Listings of hostile bytes: the first byte chooses the kind of store.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wavetrain_remote::list_hostile(data));
