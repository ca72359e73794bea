//! Zip archives of hostile bytes: the first two bytes are the size of a part.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((part, bytes)) = data.split_first_chunk::<2>() {
        wavetrain_remote::read_hostile(bytes, usize::from(u16::from_le_bytes(*part)));
    }
});
