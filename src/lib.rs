//! wavetrain streams N-dimensional boxes out of chunked array stores into fixed-shape typed
//! batches, and allocates nothing after it was opened.
//!
//! ```text
//!  caller   push ──▶ queue ──▶ (planner)────────────────────────────▶ batch ──▶ pop, release
//!                      │           │                                    ▲
//!             uris     ▼           ▼ chunks of each box, each once      │ rows
//!                   arrays       plan ──▶ wave ──▶ read ──▶ decode ──▶ assemble
//!                      │                   ▲        │ bytes in the      │ scratch in
//!          zarr.json   ▼                   │        ▼ staging slab      ▼ a worker's cache
//!                    meta          shard_index    files            zstd, blosc, crc32c
//! ```
//!
//! Samples wait in the `queue`; their arrays' metadata is loaded ahead (`arrays`, `meta`). The
//! planner binds the next samples to a batch slot, walks the chunks of all their boxes at once
//! (`plan`), looks up where each lies (`read`, `shard_index`) and cuts the stream into `wave`s of
//! fixed capacity. Workers read the waves' bytes into the slab, decode each chunk once and scatter
//! it, cast, into every sample that touches it. A batch whose last chunk is there is popped in
//! push order. All of it is bounded jobs that `pipeline` takes and runs one step at a time;
//! threads only loop over that.
//!
//! Start at [`loader`] (Rust) or include/wavetrain.h (C, and the manual of both).
//!
//! Modules, top to bottom; each names only modules below it (`ffi` and `loader` share the handles):
//!
//! ```text
//! surface    ffi loader info            control    pipeline geometry settings config
//! data path  queue arrays meta json plan wave read shard_index decode assemble batch
//! floor      os chunk_cache cache records stats abi status simd base limits
//! ```
#![no_std]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("wavetrain supports Linux on x86-64 (tested) and aarch64 (should build)");

pub mod ffi;
pub mod info;
pub mod loader;

pub mod config;
pub mod geometry;
pub mod pipeline;
pub mod settings;

pub mod arrays;
pub mod assemble;
pub mod batch;
pub mod decode;
pub mod json;
pub mod meta;
pub mod plan;
pub mod queue;
pub mod read;
pub mod shard_index;
pub mod wave;

pub mod abi;
pub mod base;
pub mod cache;
pub mod chunk_cache;
pub mod limits;
pub mod os;
pub mod records;
pub mod simd;
pub mod stats;
pub mod status;

#[cfg(wavetrain_archive)]
mod panic;

#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
