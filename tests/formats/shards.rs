//! Shards that are decoded whole, as zarr-python, zarrs and tensorstore write them
//! (tests/data/make_shards.py): those that codecs follow, and those in two other shards.

use crate::common::drive::{Dice, Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::{self, Scratch, Store};
use std::fs;
use std::path::Path;
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn stores(prefix: &str) -> Vec<Store> {
    let mut stores = fixtures::apart("shards");
    assert_eq!(stores.len(), 72);
    stores.retain(|store| store.name.starts_with(prefix));
    assert!(!stores.is_empty(), "{prefix}");
    stores
}

/// The whole, and boxes somewhere in it.
fn spans(store: &Store, dice: &mut Dice) -> Vec<(Vec<i64>, Vec<i64>)> {
    let shape: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let mut spans = vec![(vec![0; shape.len()], shape.clone())];
    for _ in 0..4 {
        let drawn = |extent: &i64| {
            let begin = dice.range(0, *extent);
            (begin, dice.range(begin + 1, *extent + 1))
        };
        spans.push(shape.iter().map(drawn).unzip());
    }
    spans
}

#[test]
fn boxes_of_whole_shards_are_those_of_the_array() {
    let mut dice = Dice(0x5AAD_0000);
    for store in stores("") {
        for span in spans(&store, &mut dice) {
            let job = Job::of(&store, span, store.image.dtype);
            let config = config(store.image.dtype, &job.extents(), 1);
            stream_as_configured(&config, std::slice::from_ref(&job));
        }
    }
}

#[test]
fn whole_shards_are_cast_and_kept_and_read_with_others() {
    let mut dice = Dice(0x5AAD_0001);
    for store in stores("").iter().filter(|store| store.image.dtype == Dtype::U16) {
        for span in spans(store, &mut dice) {
            let job = Job::of(store, span, Dtype::F32);
            let config = config(Dtype::F32, &job.extents(), 2);
            stream(&config, &[job.clone(), job.clone()]);
            let kept = Config { chunk_cache_bytes: 1 << 20, ..config };
            stream(&kept, &[job.clone(), job.clone(), job.clone(), job]);
        }
    }
}

#[test]
fn array_info_names_shards_and_the_codecs_that_follow_each() {
    for (name, says, chunk) in [
        (
            "after_zstd_zstd_crc",
            "sharding_indexed[bytes(little) zstd](index at end, crc32c) zstd crc32c",
            [8, 12],
        ),
        (
            "nested_inner",
            "sharding_indexed[sharding_indexed[bytes(little) zstd](index at end, crc32c) zstd]\
             (index at end, crc32c)",
            [8, 12],
        ),
        (
            "nested_three_plain",
            "sharding_indexed[sharding_indexed[sharding_indexed[bytes(little)](index at end, \
             crc32c)](index at end, crc32c)](index at end, crc32c)",
            [4, 6],
        ),
        (
            "scaled",
            "sharding_indexed[scale_offset cast_value(uint8) bytes zstd](index at end, crc32c) \
             zstd",
            [8, 12],
        ),
    ] {
        let store = stores(name).remove(0);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let info = loader::array_info(&store.uri, &mut scratch);
        let info = info.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let codecs: Vec<u8> = info.codecs.iter().map(|byte| *byte as u8).collect();
        let end = codecs.iter().position(|byte| *byte == 0).unwrap();
        assert_eq!(std::str::from_utf8(&codecs[..end]), Ok(says), "{name}");
        assert_eq!(info.chunk_shape[..2], chunk, "{name}");
    }
}

/// The failure of the first chunk of a copy of a store, whose bytes are changed.
fn failure_of(store: &Store, change: impl Fn(Vec<u8>) -> Vec<u8>) -> String {
    let scratch = Scratch::new();
    let folder = scratch.path("changed");
    fixtures::copy_folder(Path::new(&store.uri), &folder);
    let file = folder.join("c/0/0");
    let bytes = change(fs::read(&file).unwrap());
    fs::write(&file, bytes).unwrap();
    let job = Job::failing(folder.to_str().unwrap(), (vec![0, 0], vec![3, 4]), Status::Decode);
    let (_, failure) = first_failure(&open(&config(store.image.dtype, &[3, 4], 1)), &[job]);
    assert_eq!(failure.status, Status::Decode, "{failure}");
    failure.to_string()
}

/// The same with a change to the shard that zstd makes the file of.
fn failure_inside(store: &Store, change: impl Fn(&mut Vec<u8>)) -> String {
    failure_of(store, |bytes| {
        let mut shard = zstd::decode_all(&bytes[..]).unwrap();
        change(&mut shard);
        zstd::encode_all(&shard[..], 1).unwrap()
    })
}

#[test]
fn damaged_whole_shards_fail_with_their_reason() {
    let checked = stores("after_plain_zstd").remove(0);
    let bare = stores("index_end_bare_little").remove(0);
    let front = stores("index_start_bare_little").remove(0);
    let word = |at: usize, value: u64| {
        move |shard: &mut Vec<u8>| {
            let first = shard.len() - 64 + 8 * at;
            shard[first..first + 8].copy_from_slice(&value.to_le_bytes());
        }
    };
    for (found, says) in [
        (failure_of(&checked, |bytes| bytes[..bytes.len() - 1].to_vec()), "zstd data of"),
        (failure_of(&checked, |_| vec![7; 40]), "zstd data of 40 bytes does not decode"),
        (
            failure_inside(&checked, |shard| *shard.last_mut().unwrap() ^= 1),
            "index crc mismatch: stored",
        ),
        (
            failure_inside(&checked, |shard| {
                shard.remove(0);
            }),
            "lies in the index itself",
        ),
        (
            failure_inside(&checked, |shard| shard.truncate(67)),
            "shard of 67 bytes is shorter than its",
        ),
        (failure_inside(&bare, word(0, 1 << 40)), "lies beyond its shard of"),
        (failure_inside(&bare, word(1, u64::MAX - 9)), "lies beyond its shard of"),
        (failure_inside(&bare, word(1, 0)), "has 0 bytes"),
        (failure_inside(&bare, word(1, u64::MAX)), "is half empty"),
        (failure_inside(&bare, word(1, 5)), "zstd data of 5 bytes does not decode to 48 bytes"),
        (
            failure_inside(&front, |shard| shard[..8].fill(0)),
            "lies in the index itself, 64 bytes at 0",
        ),
    ] {
        assert!(found.contains(says), "{found}, not {says}");
    }
}

#[test]
fn a_cap_that_whole_shards_exceed_is_named_and_config_fit_raises_it() {
    let store = stores("after_zstd_zstd").remove(0);
    let job = Job::failing(&store.uri, (vec![0, 0], vec![3, 4]), Status::Budget);
    // Four cells of 48 bytes, each with 256 more, and an index.
    let small = Config { max_chunk_uncompressed_bytes: 1000, ..config(Dtype::U16, &[3, 4], 1) };
    let (_, failure) = first_failure(&open(&small), &[job]);
    let says =
        " with the shard that it is decoded from exceeds max_chunk_uncompressed_bytes = 1000";
    assert!(failure.to_string().contains(says), "{failure}");
    let mut fitted = Config { max_host_memory_bytes: 0, ..small };
    let mut scratch = vec![0; SCRATCH_BYTES];
    loader::config_fit(&mut fitted, &[&store.uri], &mut scratch).unwrap();
    assert!(fitted.max_chunk_uncompressed_bytes > 1000);
    let job = Job::of(&store, (vec![1, 2], vec![4, 6]), Dtype::U16);
    stream_as_configured(&fitted, &[job]);
}
