//! What takes longer than all other tests of this program together: `cargo fast` leaves it out.

pub mod augmented;
mod codecs;
mod crops;
mod lz4;
mod samples;
mod units;
mod zstd;
