//! "Does not exist" reads as the fill value; every other failure is an error.

use crate::common::drive::{
    self, Job, PATIENCE_NS, Span, check_batch, config, first_failure, open, stream, stream_boxes,
};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::hook::with_hook;
use crate::common::synth::{Meta, write_text};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use wavetrain::config::{Config, MISSING_ERROR, ON_ERROR_SKIP};
use wavetrain::loader::Pop;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn whole(store: &Store) -> Vec<Span> {
    vec![store.image.shape.iter().map(|&extent| (0, extent as i64)).unzip()]
}

/// Overlapping quarters, so that boxes lie wholly in, partly in and wholly out of missing chunks.
fn pieces(store: &Store) -> Vec<Span> {
    let piece = |n: i64| {
        let axes = store.image.shape.iter();
        axes.map(|&extent| {
            let (extent, length) = (extent as i64, (extent as i64 / 3).max(1));
            let begin = (extent - length) * n / 4;
            (begin, begin + length)
        })
        .unzip()
    };
    (0..5).map(piece).collect()
}

#[test]
fn missing_chunks_and_shards_read_as_the_fill_bits() {
    let count = stream_boxes(fixtures::family("sparse"), whole, None);
    assert_eq!(count, fixtures::family("sparse").count());
    stream_boxes(fixtures::family("sparse"), pieces, None);
}

#[test]
fn missing_chunks_cast_as_present_ones_do() {
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        stream_boxes(fixtures::family("sparse"), whole, Some(dtype));
        stream_boxes(fixtures::family("sparse"), pieces, Some(dtype));
    }
}

#[test]
fn the_sparse_fixtures_hold_fills_that_zeroed_memory_cannot_fake() {
    let has = |dtype: Dtype, fill: &[u8]| {
        fixtures::family("sparse")
            .any(|store| store.image.dtype == dtype && store.image.fill == fill)
    };
    assert!(has(Dtype::U16, &42u16.to_le_bytes()));
    assert!(has(Dtype::I16, &(-1i16).to_le_bytes()));
    assert!(has(Dtype::F32, &0x7FC0_0000u32.to_le_bytes()));
    assert!(has(Dtype::F32, &0x7FC0_0123u32.to_le_bytes()));
    assert!(has(Dtype::F64, &f64::NEG_INFINITY.to_le_bytes()));
    assert!(has(Dtype::F16, &1u16.to_le_bytes()));
}

#[test]
fn missing_chunks_are_counted() {
    let store = fixtures::store("sparse_u16_42_some_shard");
    let job = Job::of(store, whole(store).remove(0), Dtype::U16);
    let config = config(Dtype::U16, &job.extents(), 1);
    let loader = open(&config);
    drive::stream_through(&loader, &config, &[job], 0);
    let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.chunks_missing > 0);
    assert_eq!(stats.chunks_planned, stats.chunks_to_load + stats.chunks_missing);
}

#[test]
fn a_missing_chunk_is_not_found_where_the_config_says_so() {
    for name in ["sparse_u16_42_some_shard", "sparse_u16_42_some_plain"] {
        let store = fixtures::store(name);
        let span = whole(store).remove(0);
        let job = Job::failing(&store.uri, span, Status::NotFound);
        let mut config = config(Dtype::U16, &job.extents(), 1);
        config.missing_chunks = MISSING_ERROR;
        let (before, failure) = first_failure(&open(&config), std::slice::from_ref(&job));
        assert_eq!((before, failure.status), (0, Status::NotFound), "{failure}");
        assert!(failure.text.as_str().contains(&store.uri), "{failure}");
        assert_eq!(failure.chunk.len(), store.chunk.len(), "the chunk is named");
        config.on_error = ON_ERROR_SKIP;
        stream(&config, &[job]);
    }
}

#[test]
fn batches_of_nothing_but_missing_chunks_come_where_reads_may_block() {
    let scratch = Scratch::new();
    let uri = Meta::u16(&[8, 8], &[4, 4], None).write(&scratch, "array", None);
    let want = 7u16.to_le_bytes().repeat(64);
    let jobs = vec![Job::new(&uri, (vec![0, 0], vec![8, 8]), want); 200];
    stream(&with_hook(config(Dtype::U16, &[8, 8], 1)), &jobs);
}

#[test]
fn missing_and_present_chunks_come_through_a_files_hook() {
    for store in fixtures::family("sparse").filter(|store| store.image.dtype == Dtype::U16) {
        let job = Job::of(store, whole(store).remove(0), Dtype::U16);
        stream(&with_hook(config(Dtype::U16, &job.extents(), 1)), &vec![job; 10]);
    }
}

#[test]
fn present_chunks_are_found_where_missing_ones_are_errors() {
    let store = fixtures::store("rank2_u16");
    let job = Job::of(store, whole(store).remove(0), Dtype::U16);
    let config = Config { missing_chunks: MISSING_ERROR, ..config(Dtype::U16, &[37, 29], 1) };
    stream(&config, &[job]);
}

/// u16, 8 x 8, chunks of 4 x 4, each file a chunk, one file present: the others are free for tests.
fn plain_array(scratch: &Scratch, name: &str) -> String {
    let chunk: Vec<u8> = (100u16..116).flat_map(u16::to_le_bytes).collect();
    Meta::u16(&[8, 8], &[4, 4], None).write(scratch, name, Some(&chunk))
}

fn far_corner() -> Span {
    (vec![4, 4], vec![8, 8])
}

/// Reads the chunk (1, 1) of `plain_array`.
fn far_corner_fails(uri: &str, status: Status) {
    let loader = open(&config(Dtype::U16, &[4, 4], 1));
    let near: Vec<u8> = (100u16..116).flat_map(u16::to_le_bytes).collect();
    let jobs =
        [Job::new(uri, (vec![0, 0], vec![4, 4]), near), Job::failing(uri, far_corner(), status)];
    let (before, failure) = first_failure(&loader, &jobs);
    assert_eq!((before, failure.status), (1, status), "{failure}");
    assert!(failure.text.as_str().contains(uri), "{failure}");
}

fn far_corner_is_fill(uri: &str) {
    let want = 7u16.to_le_bytes().repeat(16);
    stream(&config(Dtype::U16, &[4, 4], 1), &[Job::new(uri, far_corner(), want)]);
}

#[test]
fn a_file_that_does_not_exist_is_missing() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "enoent");
    far_corner_is_fill(&uri);
    fs::create_dir(scratch.path("enoent/c/1")).expect("a folder");
    far_corner_is_fill(&uri);
}

#[test]
fn a_file_in_place_of_a_folder_of_the_key_is_an_io_error() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "enotdir");
    fs::write(scratch.path("enotdir/c/1"), b"not a folder").expect("a file");
    far_corner_fails(&uri, Status::Io);
}

#[test]
fn a_dangling_symlink_is_an_io_error() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "dangling");
    fs::create_dir(scratch.path("dangling/c/1")).expect("a folder");
    symlink("nowhere", scratch.path("dangling/c/1/1")).expect("a link");
    far_corner_fails(&uri, Status::Io);
}

#[test]
fn a_folder_in_place_of_a_file_is_an_io_error() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "folder");
    fs::create_dir_all(scratch.path("folder/c/1/1")).expect("a folder");
    far_corner_fails(&uri, Status::Io);
}

#[test]
fn a_loop_of_symlinks_is_an_io_error() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "eloop");
    fs::create_dir(scratch.path("eloop/c/1")).expect("a folder");
    symlink("1", scratch.path("eloop/c/1/1")).expect("a link");
    far_corner_fails(&uri, Status::Io);
}

#[test]
fn a_file_without_permission_is_an_io_error() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "eacces");
    fs::create_dir(scratch.path("eacces/c/1")).expect("a folder");
    let file = scratch.path("eacces/c/1/1");
    fs::write(&file, [1; 32]).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("permissions");
    if fs::read(&file).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    far_corner_fails(&uri, Status::Io);
}

#[test]
fn an_empty_file_is_damaged_and_not_missing() {
    let scratch = Scratch::new();
    let uri = plain_array(&scratch, "empty");
    fs::create_dir(scratch.path("empty/c/1")).expect("a folder");
    fs::write(scratch.path("empty/c/1/1"), b"").expect("a file");
    far_corner_fails(&uri, Status::Decode);
}

#[test]
fn an_array_that_vanishes_in_mid_run_is_an_error_and_not_fill() {
    let scratch = Scratch::new();
    let store = fixtures::store("variant_checksum_plain");
    let copy = scratch.copy_of(store, "vanishing");
    let uri = copy.to_str().expect("UTF-8").to_string();
    let config = config(Dtype::U16, &[4, 5, 3], 1);
    let loader = open(&config);
    let near: Span = (vec![0, 0, 0], vec![4, 5, 3]);
    let mut job = Job::of(store, near, Dtype::U16);
    job.uri = uri.clone();
    push_one(&loader, &job, 0);
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => {
            check_batch(&config, &batch, std::slice::from_ref(&job), 0);
        }
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
    fs::remove_dir_all(&copy).expect("gone");
    let far = (vec![4, 5, 3], vec![8, 10, 6]);
    push_one(&loader, &Job::failing(&uri, far, Status::Io), 1);
    let failure = loader.pop(PATIENCE_NS).err().expect("an error");
    assert_eq!(failure.status, Status::Io, "{failure}");
    assert!(failure.text.as_str().contains(&uri), "{failure}");
}

fn push_one(loader: &wavetrain::loader::Loader, job: &Job, number: usize) {
    let taken = loader.push(&[job.request(number)], 0);
    assert_eq!(taken.unwrap_or_else(|failure| panic!("push: {failure}")), 1);
}

#[test]
fn an_array_that_never_was_is_not_found_and_not_fill() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).expect("a folder");
    fs::write(scratch.path("file"), b"plain").expect("a file");
    for name in ["nothing", "folder", "file", "file/below"] {
        let uri = scratch.uri(name);
        let loader = open(&config(Dtype::U16, &[4, 4], 1));
        let (before, failure) =
            first_failure(&loader, &[Job::failing(&uri, far_corner(), Status::NotFound)]);
        assert_eq!((before, failure.status), (0, Status::NotFound), "{failure}");
        assert!(failure.text.as_str().contains(&uri), "{failure}");
    }
}

#[test]
fn a_group_is_not_an_array() {
    let scratch = Scratch::new();
    let uri = write_text(&scratch, "group", r#"{"zarr_format":3,"node_type":"group"}"#);
    let loader = open(&config(Dtype::U16, &[4, 4], 1));
    let (_, failure) =
        first_failure(&loader, &[Job::failing(&uri, far_corner(), Status::Unsupported)]);
    assert!(matches!(failure.status, Status::Unsupported | Status::NotFound), "{failure}");
    assert!(failure.text.as_str().contains("group"), "{failure}");
}

#[test]
fn a_missing_shard_beside_present_ones_is_fill() {
    let scratch = Scratch::new();
    let store = fixtures::store("rank2_u16");
    let copy = scratch.copy_of(store, "holed");
    let shard = Path::new("c/1/0");
    assert!(copy.join(shard).is_file());
    fs::remove_file(copy.join(shard)).expect("gone");
    let mut want = store.image.inside(&[0, 0], &[37, 29]);
    for y in 16..32 {
        for x in 0..18 {
            let at = (y * 29 + x) * 2;
            want[at..at + 2].copy_from_slice(&store.image.fill);
        }
    }
    let uri = copy.to_str().expect("UTF-8");
    let job = Job::new(uri, (vec![0, 0], vec![37, 29]), want);
    stream(&config(Dtype::U16, &[37, 29], 1), &[job]);
}
