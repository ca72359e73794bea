//! wavetrain streams N-dimensional boxes out of chunked array stores into fixed-shape typed batches.
#![no_std]

pub mod abi;
pub mod assemble;
pub mod base;
pub mod cache;
pub mod config;
pub mod decode;
pub mod limits;
pub mod os;
pub mod plan;
pub mod queue;
pub mod records;
pub mod settings;
pub mod shard_index;
pub mod simd;
pub mod status;

#[cfg(test)]
extern crate std;
