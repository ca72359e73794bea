//! Runs every fuzz body over its seeds, its regressions and a few thousand mutants of the seeds, so
//! that `cargo test` finds again what a fuzzer once found.

use std::path::{Path, PathBuf};

#[path = "../fuzz/bodies/affine.rs"]
mod affine;
#[path = "common/affine_model.rs"]
mod affine_model;
#[path = "../fuzz/bodies/api_sequence.rs"]
mod api_sequence;
#[path = "../fuzz/bodies/augment.rs"]
mod augment;
#[path = "../fuzz/augment_model.rs"]
mod augment_model;
#[path = "../fuzz/bodies/blosc1_chunk.rs"]
mod blosc1_chunk;
#[path = "../fuzz/bodies/blosc1_header.rs"]
mod blosc1_header;
#[path = "../fuzz/bodies/blosclz.rs"]
mod blosclz;
#[path = "../fuzz/box_loader.rs"]
mod box_loader;
#[path = "../fuzz/box_model.rs"]
mod box_model;
#[path = "../fuzz/bodies/boxes.rs"]
mod boxes;
#[path = "../fuzz/bodies/casts.rs"]
mod casts;
#[path = "common/cc.rs"]
mod cc;
#[path = "../fuzz/choices.rs"]
mod choices;
#[path = "../fuzz/bodies/chunk.rs"]
mod chunk;
#[path = "../fuzz/column_model.rs"]
mod column_model;
#[path = "../fuzz/bodies/consumer_memory.rs"]
mod consumer_memory;
#[path = "../fuzz/bodies/consumer_page.rs"]
mod consumer_page;
#[path = "../fuzz/bodies/crc32c.rs"]
mod crc32c;
#[path = "../fuzz/bodies/described.rs"]
mod described;
#[path = "../fuzz/bodies/filters.rs"]
mod filters;
#[path = "../fuzz/bodies/flat.rs"]
mod flat;
#[path = "../fuzz/bodies/group.rs"]
mod group;
#[path = "../fuzz/guard.rs"]
mod guard;
#[path = "../fuzz/bodies/gzip.rs"]
mod gzip;
#[path = "../fuzz/host.rs"]
mod host;
#[path = "../fuzz/hostile_consumer.rs"]
mod hostile_consumer;
#[path = "../fuzz/bodies/json.rs"]
mod json;
#[path = "common/lane_kernel.rs"]
mod lane_kernel;
#[path = "../fuzz/loader_model.rs"]
mod loader_model;
#[path = "../fuzz/bodies/lz4.rs"]
mod lz4;
#[path = "../fuzz/bodies/lz4_kernel.rs"]
mod lz4_kernel;
#[path = "../fuzz/map_model.rs"]
mod map_model;
#[path = "../fuzz/memory_store.rs"]
mod memory_store;
#[path = "../fuzz/bodies/ngff.rs"]
mod ngff;
#[path = "../fuzz/bodies/numbered.rs"]
mod numbered;
#[allow(dead_code)] // the oracle of all tests
#[path = "common/oracle.rs"]
mod oracle;
#[path = "../fuzz/packed.rs"]
mod packed;
#[path = "../fuzz/bodies/plan.rs"]
mod plan;
#[path = "../fuzz/reads.rs"]
mod reads;
#[path = "../fuzz/bodies/selection.rs"]
mod selection;
#[path = "../fuzz/bodies/shard_index.rs"]
mod shard_index;
#[path = "../fuzz/sources.rs"]
mod sources;
#[path = "../fuzz/structs.rs"]
mod structs;
#[path = "../fuzz/bodies/unshuffle.rs"]
mod unshuffle;
#[path = "../fuzz/bodies/uri.rs"]
mod uri;
#[path = "../fuzz/whole_shards.rs"]
mod whole_shards;
#[path = "../fuzz/bodies/zarr2_metadata.rs"]
mod zarr2_metadata;
#[path = "../fuzz/bodies/zarr_metadata.rs"]
mod zarr_metadata;
#[path = "../fuzz/bodies/zlib.rs"]
mod zlib;
#[path = "../fuzz/bodies/zstd_chunk.rs"]
mod zstd_chunk;
#[path = "../fuzz/bodies/zstd_kernel.rs"]
mod zstd_kernel;

/// What a target checks of one input.
type Body = fn(&[u8]);

/// The targets by name.
const TARGETS: &[(&str, Body)] = &[
    ("affine", affine::run),
    ("api_sequence", api_sequence::run),
    ("augment", augment::run),
    ("blosc1_chunk", blosc1_chunk::run),
    ("blosc1_header", blosc1_header::run),
    ("blosclz", blosclz::run),
    ("boxes", boxes::run),
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
    ("ngff", ngff::run),
    ("numbered", numbered::run),
    ("plan", plan::run),
    ("selection", selection::run),
    ("shard_index", shard_index::run),
    ("unshuffle", unshuffle::run),
    ("uri", uri::run),
    ("zarr2_metadata", zarr2_metadata::run),
    ("zarr_metadata", zarr_metadata::run),
    ("zlib", zlib::run),
    ("zstd_chunk", zstd_chunk::run),
    ("zstd_kernel", zstd_kernel::run),
];

/// Mutants of each seed, and of all seeds of a target, of which some take a while each.
const MUTANTS: usize = 400;
const TARGET_MUTANTS: usize = 6000;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder in the order of their names.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut seeds = files(&root().join("fuzz/seeds").join(name));
    if name.starts_with("zarr_metadata") || name == "json" {
        seeds.extend(files(&root().join("tests/data/metadata")));
    }
    if name == "zarr2_metadata" {
        seeds.extend(files(&root().join("tests/data/metadata_v2")));
    }
    seeds
}

/// Runs `body` and names the input if it fails.
fn replay(name: &str, path: &Path, body: Body, data: &[u8]) {
    let outcome = std::panic::catch_unwind(|| body(data));
    assert!(outcome.is_ok(), "target {name}, from {}: {}", path.display(), data.escape_ascii());
}

/// How long an input takes, in shares of a target that reads a few bytes.
fn weight(name: &str) -> usize {
    match name {
        "consumer_memory" | "consumer_page" => 100,
        "api_sequence" | "augment" | "boxes" | "chunk" => 10,
        "affine" | "casts" | "plan" | "unshuffle" => 3,
        _ => 1,
    }
}

/// One xorshift step.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `data` with one to four bytes replaced, removed, repeated or cut off.
fn mutant(data: &[u8], state: &mut u64) -> Vec<u8> {
    let interesting = br#"{}[]",:\0129-+.eEun/ x"#;
    let mut bytes = data.to_vec();
    for _ in 0..1 + next(state) % 4 {
        if bytes.is_empty() {
            break;
        }
        let at = next(state) as usize % bytes.len();
        match next(state) % 6 {
            0 => bytes[at] = next(state) as u8,
            1 => bytes[at] = interesting[next(state) as usize % interesting.len()],
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, interesting[next(state) as usize % interesting.len()]),
            4 => bytes.insert(at, bytes[at]),
            _ if next(state).is_multiple_of(8) => bytes.truncate(at),
            _ => bytes[at] ^= 1 << (next(state) % 8),
        }
    }
    bytes
}

#[test]
fn seeds_and_regressions_pass() {
    for (name, body) in TARGETS.iter().copied() {
        let seeds = seeds(name);
        assert!(seeds.len() >= 4, "{name} has {} seeds", seeds.len());
        let regressions = files(&root().join("fuzz/regressions").join(name));
        for (path, data) in seeds.iter().chain(&regressions) {
            replay(name, path, body, data);
        }
    }
}

#[test]
fn mutants_of_the_seeds_pass() {
    let mut state = 0x2545_f491_4f6c_dd1d;
    for (name, body) in TARGETS.iter().copied() {
        let seeds = seeds(name);
        let mutants = MUTANTS.min(TARGET_MUTANTS / seeds.len() / weight(name));
        for (path, data) in seeds {
            for _ in 0..mutants {
                replay(name, &path, body, &mutant(&data, &mut state));
            }
        }
    }
}

/// Seeds and their mutants reach few pairs of types with values that round.
#[test]
fn casts_of_every_pair_of_types_pass() {
    let mut state = 0x6a09_e667_f3bc_c909;
    for pair in 0..256 {
        for turn in 0..8 {
            let mut data: Vec<u8> = (0..40).map(|_| (next(&mut state) >> 32) as u8).collect();
            (data[0], data[1]) = ((pair / 16) as u8, (pair % 16) as u8);
            if turn % 2 == 0 {
                // Long rows, elements side by side, values at ties.
                (data[2], data[5], data[11]) = (11, 0, 1);
            }
            replay("casts", Path::new("a pair of types"), casts::run, &data);
        }
    }
}

/// Seeds and their mutants reach few maps.
#[test]
fn affine_maps_of_random_choices_pass() {
    let (mut state, mut resampled) = (0xbb67_ae85_84ca_a73b, 0);
    for _ in 0..10_000 {
        let data: Vec<u8> = (0..160).map(|_| (next(&mut state) >> 32) as u8).collect();
        let outcome = std::panic::catch_unwind(|| affine::is_resampled(&data));
        resampled += outcome.unwrap_or_else(|_| panic!("choices {data:?}")) as usize;
    }
    assert!(resampled > 5_000, "{resampled} of 10,000 were resampled");
}

/// Seeds and their mutants reach few structs.
#[test]
fn augments_of_random_choices_pass() {
    let (mut state, mut augmented, mut maps) = (0x3c6e_f372_fe94_f82b, 0, [0; 2]);
    for _ in 0..2_000 {
        let data: Vec<u8> = (0..1000).map(|_| (next(&mut state) >> 32) as u8).collect();
        let outcome = std::panic::catch_unwind(|| augment::seen(&data));
        let seen = outcome.unwrap_or_else(|_| panic!("choices {}", data.escape_ascii()));
        augmented += usize::from(seen.is_augmented);
        (0..2).for_each(|kind| maps[kind] += seen.maps[kind]);
    }
    assert!(augmented > 500, "{augmented} of 2,000 had arithmetic");
    assert!(
        maps.iter().all(|boxes| *boxes > 200),
        "{maps:?} boxes, in samples and rows, had a map"
    );
}

/// Documents of the menus with `choices` choices, of which most take the first entry of their
/// menu, the sound one. What fails names itself by its choices.
fn records_of_the_menus(run: fn(&[u8]) -> bool, first: u8, choices: usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut records = 0;
    for _ in 0..20_000 {
        let mut data = [0; 23];
        for byte in &mut data {
            let value = next(&mut state);
            *byte = if value.is_multiple_of(6) { (value >> 8) as u8 % 120 } else { 0 };
        }
        data[0] = first;
        let outcome = std::panic::catch_unwind(|| run(&data[..choices]));
        records += outcome.unwrap_or_else(|_| panic!("choices {data:?}")) as usize;
    }
    records
}

#[test]
fn random_choices_of_the_menus_pass_and_often_become_records() {
    // More choices than a document has would overwrite bytes of it.
    let records =
        |first, choices| records_of_the_menus(zarr_metadata::becomes_record, first, choices);
    let (plain, sharded) = (records(1, 15), records(0, 23));
    assert!(plain > 2_000 && sharded > 2_000, "{plain} plain and {sharded} sharded records");
    let v2 = records_of_the_menus(zarr2_metadata::becomes_record, 0, 10);
    assert!(v2 > 2_000, "{v2} records of zarr v2");
}

#[test]
fn every_fuzz_body_is_a_target_and_is_replayed() {
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let bodies = files(&root().join("fuzz/bodies"));
    assert_eq!(bodies.len(), TARGETS.len());
    for (path, _) in bodies {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name} is not replayed");
        let target = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&format!("path = \"{target}\"")), "{name} has no [[bin]]");
        assert!(root().join("fuzz").join(target).is_file());
    }
}
