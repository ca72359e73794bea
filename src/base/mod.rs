//! Helpers without a stage of their own: text in fixed buffers, checked arithmetic, the arena and
//! what stands in it.

pub mod abi;
pub mod arena;
pub mod bill;
pub mod cache;
pub mod cpus;
pub mod indexes;
pub mod limits;
pub mod math;
pub mod shelf;
pub mod snapshot;
pub mod stats;
pub mod status;
pub mod text;
pub mod trace;
pub mod version;

#[cfg(test)]
mod arena_tests;
