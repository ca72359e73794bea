//! Runs every fuzz body over its seeds, its regressions and a few thousand mutants of the seeds, so
//! that `cargo test` finds again what a fuzzer once found.

use std::path::{Path, PathBuf};

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
#[path = "common/cc.rs"]
mod cc;
#[path = "common/lane_kernel.rs"]
mod lane_kernel;

use bodies::{Body, TARGETS, affine, augment, casts, zarr_metadata, zarr2_metadata};

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
    let mut bodies: Vec<PathBuf> =
        files(&root().join("fuzz/bodies")).into_iter().map(|(path, _)| path).collect();
    bodies.retain(|path| path.file_name() != Some("mod.rs".as_ref()));
    let names: Vec<&str> =
        bodies.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    let targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(targets, names, "bodies/mod.rs lists them in the order of their files");
}
