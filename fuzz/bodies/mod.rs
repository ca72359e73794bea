//! The bodies of the fuzz targets, and all that they share. fuzz_targets/body.rs hands them the
//! bytes of libFuzzer, tests/fuzz_replay.rs those of seeds and regressions.

pub mod affine;
#[path = "../../tests/common/affine_model.rs"]
mod affine_model;
mod api_sequence;
pub mod augment;
#[path = "../augment_model.rs"]
mod augment_model;
mod blosc1_chunk;
mod blosc1_header;
mod blosclz;
#[path = "../box_loader.rs"]
mod box_loader;
#[path = "../box_model.rs"]
mod box_model;
mod boxes;
mod bz2;
pub mod casts;
#[path = "../choices.rs"]
mod choices;
mod chunk;
#[path = "../column_model.rs"]
mod column_model;
mod consumer_memory;
mod consumer_page;
mod crc32c;
mod described;
mod filters;
mod flat;
mod group;
#[path = "../guard.rs"]
mod guard;
mod gzip;
#[path = "../host.rs"]
mod host;
#[path = "../hostile_consumer.rs"]
mod hostile_consumer;
mod json;
#[path = "../loader_model.rs"]
mod loader_model;
mod lz4;
mod lz4_kernel;
mod lzma;
#[path = "../map_model.rs"]
mod map_model;
#[path = "../memory_store.rs"]
mod memory_store;
mod ngff;
mod numbered;
#[allow(dead_code)] // the oracle of all tests
#[path = "../../tests/common/oracle.rs"]
mod oracle;
#[path = "../packed.rs"]
mod packed;
mod plan;
#[path = "../reads.rs"]
mod reads;
mod selection;
mod shard_index;
mod snapshot;
#[path = "../sources.rs"]
mod sources;
#[path = "../structs.rs"]
mod structs;
mod unshuffle;
mod uri;
#[path = "../whole_shards.rs"]
mod whole_shards;
pub mod zarr2_metadata;
pub mod zarr_metadata;
mod zlib;
mod zstd_chunk;
mod zstd_kernel;

// As the program has it that these are part of.
use crate::lane_kernel;

/// What a target checks of one input.
pub type Body = fn(&[u8]);

/// The targets by name.
pub const TARGETS: &[(&str, Body)] = &[
    ("affine", affine::run),
    ("api_sequence", api_sequence::run),
    ("augment", augment::run),
    ("blosc1_chunk", blosc1_chunk::run),
    ("blosc1_header", blosc1_header::run),
    ("blosclz", blosclz::run),
    ("boxes", boxes::run),
    ("bz2", bz2::run),
    ("casts", casts::run),
    ("chunk", chunk::run),
    ("consumer_memory", consumer_memory::run),
    ("consumer_page", consumer_page::run),
    ("crc32c", crc32c::run),
    ("described", described::run),
    ("filters", filters::run),
    ("flat", flat::run),
    ("group", group::run),
    ("gzip", gzip::run),
    ("json", json::run),
    ("lz4", lz4::run),
    ("lz4_kernel", lz4_kernel::run),
    ("lzma", lzma::run),
    ("ngff", ngff::run),
    ("numbered", numbered::run),
    ("plan", plan::run),
    ("selection", selection::run),
    ("shard_index", shard_index::run),
    ("snapshot", snapshot::run),
    ("unshuffle", unshuffle::run),
    ("uri", uri::run),
    ("zarr2_metadata", zarr2_metadata::run),
    ("zarr_metadata", zarr_metadata::run),
    ("zlib", zlib::run),
    ("zstd_chunk", zstd_chunk::run),
    ("zstd_kernel", zstd_kernel::run),
];
