//! What open says where the system has not what a config asks for: which fields ask for less.
//!
//! In: a bill, an errno. Out: texts.

use crate::base::arena::{Bill, Kind};
use crate::base::status::{Status, Why};
use crate::os::Errno;
use core::fmt::Write;

/// Adds the way out to the text of memory that was not to be had.
#[inline(never)]
pub fn name_largest_line(status: Status, bill: &Bill, why: &mut Why) {
    let lines = bill.lines().iter().filter(|line| line.kind == Kind::Host);
    if let (Status::OutOfMemory, Some(line)) = (status, lines.max_by_key(|line| line.bytes)) {
        let (name, bytes) = (line.name, line.bytes);
        // A text that is cut at its capacity is still the best there is.
        let _ = write!(why, "; {bytes} of them are for {name}: lower {}", fields_of_line(name));
    }
}

/// The fields of a config that make a line of the bill smaller.
fn fields_of_line(name: &str) -> &'static str {
    match name {
        "batch slots" => "samples_per_batch, sample_shape or n_batch_slots",
        "staging slabs" | "common scratch" => {
            "max_chunk_uncompressed_bytes, or max_host_memory_bytes"
        }
        "decode scratch" | "decoders" => "n_decode_threads or max_chunk_uncompressed_bytes",
        "io buffers" => "n_io_threads",
        "workers" | "thread stacks" => "n_io_threads or n_decode_threads",
        "chunk cache" | "chunk cache tables" => "chunk_cache_bytes",
        "array metadata" => "n_array_meta_cache",
        "file layouts" => "n_chunk_layout_cache",
        "index pages" => "n_shard_index_cache",
        "index lookups" => "metadata_io_concurrency",
        "sample queue" | "uris" => "lookahead_samples",
        _ => "samples_per_batch, max_chunks_per_wave or host_buffer_waves",
    }
}

/// Why there is no ring, and what to do without one.
pub fn no_ring(errno: Errno, why: &mut Why) -> Status {
    let status = match errno.0 {
        libc::ENOMEM | libc::EMFILE | libc::ENFILE => Status::OutOfMemory,
        _ => Status::Unsupported,
    };
    why.fail(
        status,
        format_args!("reader: the system gives no io_uring: {errno}; use auto or threads"),
    )
}
