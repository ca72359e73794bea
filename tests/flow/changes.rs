//! Stores that change under an open loader: never a mixture of old and new bytes.

use crate::common::drive::{Job, PATIENCE_NS, config, first_failure, open, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::store;
use crate::common::store::Spec;
use crate::common::synth::{Meta, index_bytes};
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};
use wavetrain::config::Config;
use wavetrain::loader::{Failure, Loader};
use wavetrain::os::{FileStat, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Shards of 16^3 chunks: an index of 16 pages.
const SPEC: Spec = Spec { seed: 5, edge: 64, shard: 32, chunk: 2, zstd: false, sparse: false };

/// The box of one chunk.
fn chunk_job(array: &Path, chunk: [u64; 3]) -> Job {
    let begin = chunk.map(|at| at * SPEC.chunk);
    let places = store::places(SPEC.chunk);
    let value = |d: [u64; 3]| store::value(SPEC.seed, std::array::from_fn(|n| begin[n] + d[n]));
    let want = places.flat_map(|d| value(d).to_le_bytes()).collect();
    let span = begin.iter().map(|&at| (at as i64, (at + SPEC.chunk) as i64)).unzip();
    Job::new(array.to_str().expect("UTF-8"), span, want)
}

fn chunk_config() -> Config {
    config(Dtype::U16, &[SPEC.chunk; 3], 1)
}

fn stream_one(loader: &Loader, config: &Config, job: &Job, batch: u64) {
    stream_through(loader, config, std::slice::from_ref(job), batch);
}

fn fail_one(loader: &Loader, job: &Job) -> Failure {
    let (before, failure) = first_failure(loader, std::slice::from_ref(job));
    assert_eq!((before, failure.status), (0, Status::Io), "{failure}");
    assert!(failure.text.as_str().contains(&job.uri), "{failure}");
    failure
}

/// Rewrites a shard through `change`, with another time of change.
fn rewrite(shard: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(shard).expect("the shard");
    change(&mut bytes);
    fs::write(shard, bytes).expect("the shard");
    let later = SystemTime::now() + Duration::from_secs(100);
    let file = File::options().write(true).open(shard).expect("the shard");
    file.set_times(FileTimes::new().set_modified(later)).expect("a time");
}

#[test]
fn the_index_of_a_shard_that_changed_is_read_and_checked_anew() {
    let scratch = Scratch::new();
    let array = scratch.path("a");
    store::write(&array, &SPEC);
    let config = chunk_config();
    let loader = open(&config);
    let job = chunk_job(&array, [0, 0, 0]);
    stream_one(&loader, &config, &job, 0);
    // The entry of the chunk is cached and the descriptor open; its bytes are elsewhere now, and
    // so is the index.
    rewrite(&store::shard_path(&array, [0, 0, 0]), |bytes| bytes.rotate_right(16));
    let (_, failure) = first_failure(&loader, std::slice::from_ref(&job));
    assert_eq!(failure.status, Status::Decode, "{failure}");
    assert!(failure.text.as_str().contains("crc mismatch"), "{failure}");
}

#[test]
fn a_changed_shard_is_read_as_it_is_now_with_and_without_a_reset() {
    for is_reset in [false, true] {
        let scratch = Scratch::new();
        let array = scratch.path("a");
        store::write(&array, &SPEC);
        let config = Config { n_shard_index_cache: 1, ..chunk_config() };
        let loader = open(&config);
        stream_one(&loader, &config, &chunk_job(&array, [0, 0, 0]), 0);
        // The chunks move by ten bytes and the index with them.
        rewrite(&store::shard_path(&array, [0, 0, 0]), |bytes| {
            let payload = bytes.len() - 4096 * 16 - 4;
            let entries: Vec<(u64, u64)> = (0..4096).map(|n| (10 + n * 16, 16)).collect();
            *bytes = [&[0xEE; 10], &bytes[..payload], &index_bytes(&entries)[..]].concat();
        });
        if is_reset {
            loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
        }
        let first = if is_reset { 0 } else { 1 };
        for (batch, chunk) in (first..).zip([[15; 3], [0; 3], [15, 0, 3]]) {
            stream_one(&loader, &config, &chunk_job(&array, chunk), batch);
        }
    }
}

/// Files whose time of change says nothing.
static TIMELESS: Os = Os {
    stat: |fd| (SYSTEM.stat)(fd).map(|stat| FileStat { modified_ns: 0, ..stat }),
    stat_path: |path| (SYSTEM.stat_path)(path).map(|stat| FileStat { modified_ns: 0, ..stat }),
    ..SYSTEM
};

#[test]
fn an_index_page_that_changed_since_its_check_is_an_io_error_when_it_is_fetched_again() {
    let scratch = Scratch::new();
    let array = scratch.path("a");
    store::write(&array, &SPEC);
    let config = Config { n_shard_index_cache: 1, ..chunk_config() };
    let loader = Loader::open_on(&TIMELESS, &config).unwrap_or_else(|f| panic!("{f}"));
    let first = chunk_job(&array, [0, 0, 0]);
    stream_one(&loader, &config, &first, 0);
    stream_one(&loader, &config, &chunk_job(&array, [15, 15, 15]), 1);
    stream_one(&loader, &config, &first, 2);
    stream_one(&loader, &config, &chunk_job(&array, [15, 15, 15]), 3);
    // Chunk 0 now claims the bytes of chunk 1; size, crc and all other pages stay.
    rewrite(&store::shard_path(&array, [0, 0, 0]), |bytes| {
        let entry = bytes.len() - 4096 * 16 - 4;
        bytes[entry] ^= 16;
    });
    let failure = fail_one(&loader, &first);
    assert!(failure.text.as_str().contains("changed since it was checked"), "{failure}");
}

#[test]
fn an_array_that_was_missing_and_is_there_now_is_found_after_reset() {
    let scratch = Scratch::new();
    let want = 7u16.to_le_bytes().repeat(16);
    let job = Job::new(&scratch.uri("late"), (vec![0, 0], vec![4, 4]), want);
    let config = config(Dtype::U16, &[4, 4], 1);
    let loader = open(&config);
    for _ in 0..2 {
        let (_, failure) = first_failure(&loader, std::slice::from_ref(&job));
        assert_eq!(failure.status, Status::NotFound, "{failure}");
        loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
    }
    Meta::u16(&[4, 4], &[4, 4], None).write(&scratch, "late", None);
    stream_one(&loader, &config, &job, 0);
}

#[test]
fn a_chunk_that_appears_is_found_by_the_next_batch() {
    let scratch = Scratch::new();
    let meta = Meta::u16(&[4, 4], &[4, 4], None);
    let uri = meta.write(&scratch, "a", None);
    let config = config(Dtype::U16, &[4, 4], 1);
    let loader = open(&config);
    let job = |want: Vec<u8>| Job::new(&uri, (vec![0, 0], vec![4, 4]), want);
    stream_one(&loader, &config, &job(7u16.to_le_bytes().repeat(16)), 0);
    let chunk: Vec<u8> = (50u16..66).flat_map(u16::to_le_bytes).collect();
    meta.write(&scratch, "a", Some(&chunk));
    stream_one(&loader, &config, &job(chunk), 1);
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
}
