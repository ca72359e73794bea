//! wavetrain streams N-dimensional boxes out of chunked array stores into fixed-shape typed batches.
#![no_std]

pub mod abi;
pub mod arrays;
pub mod assemble;
pub mod base;
pub mod batch;
pub mod cache;
pub mod config;
pub mod decode;
pub mod ffi;
pub mod info;
pub mod json;
pub mod limits;
pub mod loader;
pub mod meta;
pub mod os;
#[cfg(wavetrain_archive)]
mod panic;
pub mod pipeline;
pub mod plan;
pub mod queue;
pub mod read;
pub mod records;
pub mod settings;
pub mod shard_index;
pub mod simd;
pub mod stats;
pub mod status;
pub mod wave;

#[cfg(test)]
extern crate std;
