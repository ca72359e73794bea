//! wavetrain-remote: hooks of wavetrain for data that lies far away.
//!
//! A loader of wavetrain reads files through `wavetrain_files_hook`. This crate fills that hook and
//! `wavetrain_store_hook` with functions that read s3, gs, az, http, https and local files, and
//! archives (zip) in any of them.
//!
//! ```text
//! c        the functions of wavetrain_remote.h: pointers become slices and texts here
//! client   threads, calls, cancel and close      completer  the thread of completions
//! core     sizes, reads, ends and lists of a name; what is known of objects
//! archive  entries of zip archives              zip      their directories, without I/O
//! fetch    requests for one object              retry    what a failure means, and waits
//! stores   open object_store clients            transport  the wire below them
//! gate     requests in flight                   flight   what many ask for is done once
//! cache    what is kept                         file     files of this machine
//! ```

#![deny(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

pub mod abi;
mod archive;
pub mod c;
mod cache;
mod client;
mod completer;
mod config;
mod core;
mod error;
mod fetch;
mod file;
mod flight;
mod gate;
#[cfg(any(test, fuzzing))]
mod hostile;
mod name;
#[cfg(feature = "profiles")]
mod profiles;
mod retry;
mod stats;
mod stores;
mod target;
mod transport;
mod version;
mod zip;

#[cfg(fuzzing)]
pub use hostile::list_hostile;
#[cfg(fuzzing)]
pub use name::parse_hostile;
#[cfg(fuzzing)]
pub use zip::read_hostile;

pub use client::{Callbacks, Client, OnError, Tail, code_of, expect_from};
pub use config::{Config, READS_MAX, THREADS_MAX, statuses_from_text};
pub use core::Expect;
pub use error::{Error, Kind, Result};
pub use stats::StatsView;
pub use target::Target;
pub use version::{VERSION_BYTES, Version};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock; a panic under it leaves tables whole, because each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
