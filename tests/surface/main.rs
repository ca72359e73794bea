//! The C surface: its structs, its tensors, and what the header says of both.

mod abi;
#[path = "../common/mod.rs"]
mod common;
mod dlpack;
mod fed_extents;
mod recipes;
mod struct_sizes;
mod trust;
