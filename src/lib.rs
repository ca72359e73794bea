//! wavetrain streams N-dimensional boxes out of chunked array stores into fixed-shape typed
//! batches, and allocates nothing after it was opened.
//!
//! ```text
//!  caller   push ──▶ queue ──▶ (planner)────────────────────────────▶ batch ──▶ pop, release
//!                      │           │                                    ▲ │
//!             uris     ▼           ▼ chunks of each box, each once rows │ └─────▶ tensors
//!                   arrays       plan ──▶ wave ──▶ read ──▶ decode ──▶ assemble
//!                      │           ▲       ▲        │          │ ▲ those kept
//!  zarr.json, .zarray  ▼           │       │        ▼          ▼ │ and used again
//!                   source  uses that are  │      files     chunk_cache
//!                          foreseen   shard_index
//! ```
//!
//! Samples wait in the queue of `intake`, each run of an index list as a box of its own; their
//! arrays' metadata is loaded ahead (`source`), or was looked up before by another process. The
//! planner binds the next samples to a batch slot, walks the chunks of all their boxes at once
//! (`plan`), looks up where each lies (`read`) and cuts the stream into `wave`s of fixed capacity.
//! A worker that finds a chunk's bytes in the page cache reads and decodes them in its own scratch
//! at once; what has to be waited for is read into the staging slab by io threads, or by the host
//! in its own time, and decoded from there. As far as nothing checks a chunk as a whole, only what
//! the boxes need of it is read and decoded. Each chunk is decoded once and scattered, cast, into
//! every sample that touches it; with a `chunk_cache` it stays, if the samples that wait need it
//! again sooner than others. The voxels of a box with an affine map are scattered into staging, and
//! once its last chunk is there workers `resample` them into the sample. Passes (`finish`) go over
//! a batch whose last chunk is there: failed samples are filled, digests are made. Then it is
//! popped in push order; `batch` shows it to other libraries as DLPack tensors. If other processes
//! take batches, slots lie in memory of all of them. A thread that makes one ready puts it into the
//! list of its consumer (`state::publish`). A consumer is a loader of its own that takes from the
//! list in the place of filling slots (`engine::attach`). For a `device` chunks that workers
//! decoded, and streams that it decodes by itself, are copied there in waves; a chunk that it
//! refuses is planned again, for a worker. All of it is bounded `jobs`, of which a worker takes one
//! at a time; threads, wavetrain's or the host's, only loop over that (`engine`).
//!
//! Start at [`loader`] (Rust) or include/wavetrain.h (C, and the manual of both).
//!
//! The rooms, top to bottom. Each names only rooms below it; tests/layers.rs has the list, and
//! CONTRIBUTING.md says where a new thing goes.
//!
//! ```text
//! surface    c  loader  batch  handles  info  entries       what callers touch
//! engine     open  close  calls  schedule  run  threads     who works, and when
//! jobs       plan/  read/  load  look_up  assemble  sink    one file per kind of work:
//!            device/  release  tensors  failures            take it, do it, settle it
//! finish     patch  digest  kernels                         passes over full batches
//! state      lock  work  job  flights  claims  consumers    what the lock guards
//! setup      config  settings  geometry  backend            decided once, at open
//! intake     queue  arrays                                  samples, and what they name
//! source     find  nodes  levels  parts  files  asked       a name becomes a record: each file
//!            paths  flat/  zarr/  json/                     reads one kind of source
//! stages     assemble batch chunk_cache decode device       pure; they share records and
//!            plan read resample wave                        never name each other
//! recipes    moves  arithmetic  erases  affine  draws      beside the flow: what a caller draws
//!            fixed                                         for a box
//! sampler    epoch  chunk_shuffle  boxes  tables  cost      beside the flow: in which order a
//!            random                                         caller pushes
//! floor      cuda  os  simd  loops  records  base
//! ```
#![no_std]
#![cfg_attr(not(feature = "internals"), warn(missing_docs))]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("wavetrain supports Linux on x86-64 (tested) and aarch64 (should build)");

// Tests, benches and fuzz targets see every room, other crates what is re-exported here.
#[cfg(feature = "internals")]
pub use rooms::*;
#[cfg(not(feature = "internals"))]
use rooms::*;

pub use base::{abi, status};
pub use rooms::{recipes, sampler};
pub use setup::config;
pub use surface::loader;

#[path = ""]
mod rooms {
    pub mod surface;

    pub mod engine;
    pub mod finish;
    pub mod jobs;
    pub mod state;

    pub mod intake;
    pub mod setup;
    pub mod source;

    pub mod assemble;
    pub mod batch;
    pub mod chunk_cache;
    pub mod decode;
    pub mod device;
    pub mod plan;
    pub mod read;
    pub mod recipes;
    pub mod records;
    pub mod resample;
    pub mod sampler;
    pub mod wave;

    pub mod base;
    pub mod cuda;
    pub mod loops;
    pub mod os;
    pub mod simd;
}

#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../docs/quickstart/rust.md")]
struct QuickStart;

/// Safe code cannot do any of this. Each example compiled before its function became unsafe.
///
/// A caller's event is a pointer that nobody can check:
/// ```compile_fail,E0133
/// let event = core::ptr::dangling_mut();
/// wavetrain::surface::c::wavetrain_release(0, 0, event);
/// ```
///
/// So are hooks, blocks of memory and streams in a config:
/// ```compile_fail,E0133
/// let mut config = wavetrain::config::Config::default();
/// config.memory.host_block = core::ptr::dangling_mut();
/// wavetrain::loader::Loader::open_trusting(&config);
/// ```
/// ```compile_fail,E0133
/// let mut config = wavetrain::config::Config::default();
/// config.files.user = core::ptr::dangling_mut();
/// wavetrain::loader::config_fit_trusting(&mut config, &[], &mut []);
/// ```
#[cfg(all(doctest, feature = "internals"))]
struct HolesThatWere;
