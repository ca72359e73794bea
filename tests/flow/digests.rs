//! Digests of samples: the same however a batch was made, and what they cost where nobody asks.

use crate::common::digest::{self, batch_digest, check};
use crate::common::drive::{PATIENCE_NS, in_hook_mode};
use crate::common::fixtures::Scratch;
use crate::common::store::{self, Spec};
use std::array;
use wavetrain::config::*;
use wavetrain::engine::open;
use wavetrain::loader::{Batch, Loader, Pop, Request, memory_need};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::setup::allotted::Allotted;
use wavetrain::setup::settings::settings_from_config;
use wavetrain::status::{Status, Why};

const SPEC: Spec = Spec { seed: 9, edge: 64, shard: 32, chunk: 8, zstd: true, sparse: true };
const RAW: Spec = Spec { zstd: false, ..SPEC };

/// Samples of 40^3 f32 are a quarter of a piece, those of 70^3 are two pieces.
fn config(edge: u64, dtype: Dtype, samples_per_batch: u32) -> Config {
    let mut config = Config {
        samples_per_batch,
        sample_rank: 3,
        n_decode_threads: 2,
        n_io_threads: 2,
        n_batch_slots: 2,
        dtype: dtype as u32,
        pad_mode: PAD_CONSTANT,
        pad_value: 3.0,
        pad_value_set: 1,
        digest: 1,
        ..Config::default()
    };
    config.sample_shape[..3].fill(edge);
    config
}

fn sparse_array(scratch: &Scratch) -> String {
    let path = scratch.path("a");
    store::write(&path, &SPEC);
    path.to_str().unwrap().to_owned()
}

/// Corner of a sample: some reach outside.
fn begin(tag: u64) -> [i64; 3] {
    [tag * 7 % 40, tag * 11 % 50, tag * 13 % 60].map(|at| at as i64 - 4)
}

fn push(loader: &Loader, uri: &str, edge: u64, tag: u64) {
    let begin = begin(tag);
    let end = begin.map(|at| at + edge as i64);
    let request = Request { uri, begin: &begin, end: &end, tag };
    assert_eq!(loader.push(&[request], PATIENCE_NS).unwrap(), 1);
}

fn pop(loader: &Loader) -> Batch<'_> {
    match loader.pop(PATIENCE_NS).unwrap() {
        Pop::Batch(batch) => batch,
        _ => panic!("no batch"),
    }
}

/// Looks at a batch whose first sample was pushed as number `position`.
fn check_batch(batch: &Batch<'_>, position: u64) {
    let field = batch.field(0).unwrap();
    let bytes = batch.data().len() / batch.tags().len();
    check(&field, true, batch.data().chunks_exact(bytes), position, "");
    assert_eq!((batch.digests(), batch.digest()), (field.digests(), field.digest()));
}

/// Digests of a stream, and the sum of its batches.
fn stream(config: &Config, uri: &str, count: u64) -> (Vec<u64>, u64) {
    let edge = config.sample_shape[0];
    // With workers of the test's own, which a safe open refuses.
    let loader = Loader::open_on(&SYSTEM, config).unwrap();
    let (mut pushed, mut digests, mut sum) = (0, Vec::new(), 0u64);
    while (digests.len() as u64) < count {
        let ahead = u64::from(config.samples_per_batch).min(count - digests.len() as u64);
        while pushed < digests.len() as u64 + ahead {
            push(&loader, uri, edge, pushed);
            pushed += 1;
        }
        if pushed == count {
            loader.flush().unwrap();
        }
        let batch = pop(&loader);
        check_batch(&batch, digests.len() as u64);
        digests.extend(batch.digests().unwrap());
        sum = sum.wrapping_add(batch.digest());
    }
    loader.close(PATIENCE_NS).unwrap();
    assert_eq!(sum, batch_digest(&digests, 0));
    (digests, sum)
}

#[test]
fn digests_are_the_same_whatever_threads_make_the_batches() {
    let scratch = Scratch::new();
    let uri = sparse_array(&scratch);
    for (edge, dtype, samples, count) in
        [(5, Dtype::U16, 7, 100), (40, Dtype::F32, 9, 16), (70, Dtype::F32, 2, 5)]
    {
        let config = config(edge, dtype, samples);
        let want = stream(&config, &uri, count);
        for threads in [1, 8] {
            let config = Config { n_decode_threads: threads, ..config };
            assert_eq!(stream(&config, &uri, count), want, "{threads} threads");
        }
        let config = Config { samples_per_batch: 4, ..config };
        assert_eq!(stream(&config, &uri, count), want, "other batches");
        let pumped = Config { thread_mode: THREADS_PUMP, ..config };
        assert_eq!(stream(&pumped, &uri, count), want, "pumped");
        assert_eq!(stream(&in_hook_mode(&config), &uri, count), want, "as jobs of the host");
    }
}

/// What `damage` does to the array: the samples whose digests are others then.
fn changed_by(damage: impl FnOnce(&str)) -> Vec<u64> {
    let scratch = Scratch::new();
    let path = scratch.path("raw");
    // No checksum finds the change.
    store::write(&path, &RAW);
    let uri = path.to_str().unwrap();
    let config = config(34, Dtype::U16, 4);
    let (before, sum) = stream(&config, uri, 100);
    damage(uri);
    let (after, sum_after) = stream(&config, uri, 100);
    assert_ne!(sum, sum_after);
    (0..100).filter(|at| before[*at as usize] != after[*at as usize]).collect()
}

#[test]
fn a_bit_that_flips_is_seen_in_the_samples_that_show_its_element_and_in_no_other() {
    let chunk = [2u64, 1, 3];
    assert!(!store::chunk_is_absent(chunk));
    // The middle of 8^3 elements.
    let place: [u64; 3] = array::from_fn(|axis| chunk[axis] * RAW.chunk + [4, 0, 0][axis]);
    let shows = |tag: &u64| {
        let begin = begin(*tag);
        (0..3).all(|axis| (begin[axis]..begin[axis] + 34).contains(&(place[axis] as i64)))
    };
    let expected: Vec<u64> = (0..100).filter(shows).collect();
    assert!(expected.len() > 1 && expected.len() < 40, "{expected:?}");
    let changed = changed_by(|uri| {
        // All of them are in the first shard: 32 / 8 = 4 chunks along an axis.
        let inner = (chunk[0] * 4 + chunk[1]) * 4 + chunk[2];
        store::flip_chunk(uri.as_ref(), &RAW, [0, 0, 0], inner);
    });
    assert_eq!(changed, expected);
}

#[test]
fn positions_count_pushes_since_open_or_reset_whatever_became_of_them() {
    let scratch = Scratch::new();
    let uri = sparse_array(&scratch);
    let config = Config { drop_last: 1, ..config(6, Dtype::I32, 4) };
    let loader = Loader::open(&config).unwrap();
    for round in 0..3 {
        // Six samples, of which two are discarded; then four more.
        (0..6).for_each(|tag| push(&loader, &uri, 6, tag));
        loader.flush().unwrap();
        (6..10).for_each(|tag| push(&loader, &uri, 6, tag));
        let first = pop(&loader);
        check_batch(&first, 0);
        drop(first);
        let second = pop(&loader);
        assert_eq!(second.tags(), [6, 7, 8, 9]);
        check_batch(&second, 6);
        drop(second);
        // Some are on their way when the stream is dropped, in every other round none.
        (0..round % 2 * 7).for_each(|tag| push(&loader, &uri, 6, tag));
        loader.reset().unwrap();
    }
}

#[test]
fn samples_that_failed_have_the_digest_of_what_is_in_their_place() {
    let scratch = Scratch::new();
    let uri = sparse_array(&scratch);
    let config = Config { on_error: ON_ERROR_SKIP, ..config(6, Dtype::F32, 3) };
    let loader = Loader::open(&config).unwrap();
    for tag in 0..9 {
        let name = if tag % 4 == 1 { "/nowhere" } else { &uri };
        push(&loader, name, 6, tag);
    }
    let pad = digest::digest(&3f32.to_le_bytes().repeat(216));
    for number in 0..3 {
        let batch = pop(&loader);
        check_batch(&batch, 3 * number);
        for (at, tag) in batch.tags().iter().enumerate() {
            let has_failed = batch.statuses()[at] == Status::NotFound as i32;
            assert_eq!(has_failed, tag % 4 == 1);
            assert_eq!(batch.digests().unwrap()[at] == pad, has_failed, "tag {tag}");
        }
    }
}

#[test]
fn a_stream_is_reset_and_closed_while_its_batches_are_read_for_digests() {
    let scratch = Scratch::new();
    let uri = sparse_array(&scratch);
    // A sample is two pieces, so steps of a pump end between them.
    for thread_mode in [THREADS_PUMP, THREADS_OWN] {
        let config = Config { thread_mode, ..config(70, Dtype::F32, 2) };
        for (pieces, is_reset) in (0..=8).flat_map(|pieces| [(pieces, true), (pieces, false)]) {
            let loader = Loader::open(&config).unwrap();
            (0..4).for_each(|tag| push(&loader, &uri, 70, tag));
            // Both slots together are eight pieces, and nothing is popped.
            while loader.stats().unwrap().digest.count < pieces {
                assert_eq!(loader.pump(0).is_ok(), thread_mode == THREADS_PUMP);
            }
            if is_reset {
                loader.reset().unwrap();
                (7..9).for_each(|tag| push(&loader, &uri, 70, tag));
                check_batch(&pop(&loader), 0);
            }
            loader.close(PATIENCE_NS).unwrap();
        }
    }
}

/// The least host memory that a config takes.
fn floor(config: &Config) -> u64 {
    let mut why = Why::new();
    open::floor(&settings_from_config(config, &Allotted::of(2), &mut why).unwrap()).bytes
}

#[test]
fn digests_are_billed_where_they_are_asked_for_and_nowhere_else() {
    let asked = config(6, Dtype::F32, 50);
    let more = floor(&asked) - floor(&Config { digest: 0, ..asked });
    // Two slots of 50 digests and a sum each, among rows that end at a multiple of 64 bytes.
    assert!((2 * 51 * 8 - 63..2 * 51 * 8 + 64).contains(&more), "{more}");
    let need = |config: &Config| memory_need(config).unwrap().host_bytes;
    assert!(need(&asked) >= need(&Config { digest: 0, ..asked }));
}
