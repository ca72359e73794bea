//! Metadata that was looked up before a loader was opened: the requests that are left, changes, and
//! bytes that are none.

use crate::common::drive::{Job, config, first_failure, open, stream_through};
use crate::common::npy;
use crate::common::objects::{Kind, Objects, Request};
use crate::common::synth::{self, EDGE, Meta, chunk_bytes, chunk_job};
use std::fs;
use std::path::{Path, PathBuf};
use wavetrain::config::{Config, MetadataTable};
use wavetrain::loader::{
    Loader, Metadata, SCRATCH_BYTES, memory_need, metadata, metadata_trusting,
};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const ARRAY: &str = "mem://bucket/array";
const CHUNK_BYTES: u64 = EDGE * EDGE * 2;
const INDEX_BYTES: u64 = 4 * 16 + 4;

/// A new folder of the test's own.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("known").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn document() -> String {
    Meta::u16(&[16, 8], &[4, 4], Some(&[8, 8])).text()
}

/// A shard of 2 x 2 uncompressed chunks, whose numbers begin at `first`.
fn shard(first: u16) -> Vec<u8> {
    let chunks: Vec<u8> = (first..first + 4).flat_map(chunk_bytes).collect();
    let entries: Vec<_> = (0..4).map(|n| (n * CHUNK_BYTES, CHUNK_BYTES)).collect();
    synth::shard_bytes(&chunks, &entries)
}

/// An array of two shards, 10 to 13 and 20 to 23.
fn put_array(objects: &Objects) {
    objects.put(&format!("{ARRAY}/zarr.json"), document());
    objects.put(&format!("{ARRAY}/c/0/0"), shard(10));
    objects.put(&format!("{ARRAY}/c/1/0"), shard(20));
}

fn chunk_config() -> Config {
    config(Dtype::U16, &[EDGE, EDGE], 1)
}

fn look_up(config: &Config, uri: &str, shards: std::ops::Range<u64>) -> (Vec<u8>, Metadata) {
    let (mut scratch, mut room) = (vec![0; SCRATCH_BYTES], vec![0xEE; 4096]);
    // SAFETY: the objects live as long as the test.
    let made = unsafe { metadata_trusting(uri, config, shards, &mut scratch, &mut room) };
    let made = made.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(room[made.written..].iter().all(|byte| *byte == 0xEE));
    room.truncate(made.written);
    (room, made)
}

/// The config with this metadata.
fn with(config: Config, known: &[u8]) -> Config {
    // SAFETY: each caller keeps it until its loaders are closed.
    Config { metadata: unsafe { MetadataTable::over(known) }, ..config }
}

fn brief(requests: &[Request]) -> Vec<(Kind, &str, u64)> {
    requests.iter().map(|r| (r.kind, &r.name[ARRAY.len() + 1..], r.bytes)).collect()
}

#[test]
fn an_object_is_looked_at_once_in_place_of_a_read() {
    let objects = Objects::default();
    put_array(&objects);
    let config = objects.versioned(chunk_config());
    let (known, made) = look_up(&config, ARRAY, 0..2);
    assert_eq!(made.shards, 2);
    let looked = objects.take_requests();
    assert_eq!(
        brief(&looked)[1..],
        [(Kind::Tail, "c/0/0", INDEX_BYTES), (Kind::Tail, "c/1/0", INDEX_BYTES)]
    );
    let config = with(config, &known);
    let loader = open(&config);
    let chunk =
        |at: u64| chunk_job(ARRAY, [at / 2, at % 2], Some([10, 11, 12, 13, 20, 21][at as usize]));
    stream_through(&loader, &config, &[chunk(1)], 0);
    let requests = objects.take_requests();
    // One byte of the end has the version and the size.
    assert_eq!(
        brief(&requests),
        [
            (Kind::Tail, "zarr.json", 1),
            (Kind::Tail, "c/0/0", 1),
            (Kind::Version, "c/0/0", CHUNK_BYTES)
        ]
    );
    stream_through(&loader, &config, &[chunk(2)], 1);
    assert_eq!(brief(&objects.take_requests()), [(Kind::Version, "c/0/0", CHUNK_BYTES)]);
    assert_eq!(loader.stats().unwrap().metadata_backend_read_jobs, 0);
}

#[test]
fn an_object_of_another_version_is_refused() {
    for name in ["zarr.json", "c/1/0"] {
        let objects = Objects::default();
        put_array(&objects);
        let config = objects.versioned(chunk_config());
        let (known, _) = look_up(&config, ARRAY, 0..2);
        let again = if name == "zarr.json" { document().into_bytes() } else { shard(20) };
        objects.put(&format!("{ARRAY}/{name}"), again);
        let loader = open(&with(config, &known));
        let (_, failure) = first_failure(&loader, &[chunk_job(ARRAY, [2, 0], Some(20))]);
        assert_eq!(failure.status, Status::Io, "{failure}");
        let text = failure.to_string();
        assert!(
            text.contains(name) && text.contains("has changed since wavetrain_metadata"),
            "{text}"
        );
    }
}

#[test]
fn parts_are_those_of_the_shards_that_are_asked_for() {
    let objects = Objects::default();
    put_array(&objects);
    let config = objects.versioned(chunk_config());
    let (whole, _) = look_up(&config, ARRAY, 0..u64::MAX);
    let (documents, made) = look_up(&config, ARRAY, 0..0);
    assert_eq!(made.shards, 2);
    let (first, _) = look_up(&config, ARRAY, 0..1);
    let (second, _) = look_up(&config, ARRAY, 1..2);
    assert!(documents.len() < first.len() && first.starts_with(&documents));
    assert_eq!([&first[..], &second[..]].concat(), whole);
    for shards in [2..3, u64::MAX..u64::MAX] {
        assert_eq!(look_up(&config, ARRAY, shards).1, Metadata { written: 0, shards: 2 });
    }
    // Documents alone: the index is read.
    let config = with(config, &documents);
    let loader = open(&config);
    stream_through(&loader, &config, &[chunk_job(ARRAY, [0, 0], Some(10))], 0);
    assert_eq!(loader.stats().unwrap().metadata_backend_read_jobs, 1);
}

#[test]
fn a_place_that_is_too_small_is_refused_whatever_its_size() {
    let folder = folder("small");
    fs::write(folder.join("zarr.json"), document()).unwrap();
    fs::create_dir_all(folder.join("c/0")).unwrap();
    fs::write(folder.join("c/0/0"), shard(10)).unwrap();
    let uri = folder.to_str().unwrap().to_owned();
    let (mut scratch, mut room) = (vec![0; SCRATCH_BYTES], vec![0; 4096]);
    let all = metadata(&uri, &Config::DEFAULT, 0..2, &mut scratch, &mut room).unwrap().written;
    for bytes in (0..all).step_by(5).chain([all - 1]) {
        let target = &mut room[..bytes];
        let refused = metadata(&uri, &Config::DEFAULT, 0..2, &mut scratch, target).unwrap_err();
        assert_eq!(refused.status, Status::Budget, "{bytes}: {refused}");
        assert!(refused.to_string().contains(&format!("out_bytes = {bytes} is too little")));
    }
    let refused = metadata(&uri, &Config::DEFAULT, 0..2, &mut scratch[1..], &mut room).unwrap_err();
    assert_eq!(refused.status, Status::Invalid, "{refused}");
}

#[test]
fn a_part_of_a_document_that_is_not_known_is_read() {
    let data: Vec<u8> = (0..10u16).flat_map(u16::to_le_bytes).collect();
    let file = npy::file("<u2", false, &[10], &data);
    let path = folder("part").join("a.npy");
    fs::write(&path, &file).unwrap();
    let array = path.to_str().unwrap();
    let (mut scratch, mut room) = (vec![0; SCRATCH_BYTES], vec![0; 4096]);
    let made = metadata(array, &Config::DEFAULT, 0..1, &mut scratch, &mut room).unwrap();
    let mut known = room[..made.written].to_vec();
    // The part gets another offset: what is at 0 is not known then, but the file is.
    let head: Vec<u8> = [0, file.len() as u64].into_iter().flat_map(u64::to_le_bytes).collect();
    let at = known.windows(16).position(|bytes| bytes == head).expect("a part");
    known[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let config = with(config(Dtype::U16, &[4], 1), &known);
    let loader = open(&config);
    let job = Job::new(array, (vec![2], vec![6]), data[4..12].to_vec());
    stream_through(&loader, &config, &[job], 0);
    assert_eq!(loader.stats().unwrap().metadata_backend_read_jobs, 1);
}

#[test]
fn changed_bytes_of_it_never_end_the_process() {
    let objects = Objects::default();
    put_array(&objects);
    let config = objects.versioned(chunk_config());
    let (whole, _) = look_up(&config, ARRAY, 0..2);
    let mut refused = 0;
    for at in 0..whole.len() {
        for mask in [1, 0x80] {
            let mut known = whole.clone();
            known[at] ^= mask;
            let config = with(config, &known);
            match memory_need(&Config { metadata: config.metadata, ..chunk_config() }) {
                Ok(_) => {}
                Err(failure) => {
                    assert_eq!(failure.status, Status::Invalid, "{failure}");
                    refused += 1;
                    continue;
                }
            }
            if at % 7 == 0 {
                let loader: Loader = open(&config);
                let _ = loader.push(&[chunk_job(ARRAY, [0, 0], None).request(0)], 0);
                let _ = loader.flush();
                let _ = loader.pop(2_000_000_000);
            }
        }
    }
    assert!(refused > 0);
}
