//! What the integration tests share: the fixtures, the oracle that says what a box holds, the
//! driver that streams boxes through a loader, and the writer of stores that no sane tool writes.

// Each test program compiles all of this and uses a part of it.
#![allow(dead_code)]

pub mod alone;
pub mod arithmetic;
pub mod asked;
pub mod blosc;
pub mod cc;
pub mod cuda_sim;
pub mod damage;
pub mod digest;
pub mod drive;
pub mod effort;
pub mod fixtures;
#[cfg(target_arch = "x86_64")]
pub mod float_control;
pub mod gpu;
pub mod header;
pub mod hook;
pub mod layers;
pub mod lender;
pub mod loans;
pub mod machine;
pub mod mailbox;
pub mod mapped;
pub mod npy;
pub mod objects;
pub mod oracle;
pub mod pack;
pub mod pages;
pub mod platform;
pub mod read_boxes;
pub mod replay;
pub mod samples;
pub mod store;
pub mod surface;
pub mod synth;
pub mod two_nodes;
pub mod workers;
