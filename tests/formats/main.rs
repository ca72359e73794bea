//! What stores may hold: every format, codec and type bit for bit, on the host and on the simulated
//! device, and everything that is refused or damaged, by name.

mod affine;
mod asked;
mod bad_chunks;
mod bad_data;
mod bad_metadata;
mod bad_requests;
mod bz2;
mod cf;
mod cf_fields;
mod clamps;
#[path = "../common/mod.rs"]
mod common;
mod documents;
mod extremes;
mod filters;
mod flat;
mod forms;
mod groups;
mod identity;
mod levels;
mod lzma;
mod metadata_files;
mod nan;
mod nested_bad;
mod npy_structs;
mod oracle;
mod packing;
mod padding;
mod partial;
mod parts;
mod samples;
mod shards;
mod small;
mod sparse;
mod spec_edges;
mod special_files;
mod structs;
mod values;
mod writers;
mod zarr2;
