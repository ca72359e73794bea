//! The life of a stream on the host: order, waits, reads, caches, hooks, memory and threads, in a
//! world that stands still or changes meanwhile.

mod absence;
mod allotted;
mod bill;
mod changes;
mod chunk_cache;
#[path = "../common/mod.rs"]
mod common;
mod descriptors;
mod digests;
mod early;
mod held;
mod hook_stacks;
mod host;
mod host_hooks;
mod idle;
mod in_flight;
mod kept;
mod known;
mod latency;
mod lend;
mod life;
mod limits;
mod listing;
mod mapped;
mod numa;
mod objects;
mod once_more;
mod os_seam;
mod plan;
mod read_into;
mod reads;
mod replay;
mod stacks;
mod tables;
mod trace;
mod vanishing;
mod versions;
mod waits;
mod wakeups;
mod ways_out;
