//! An owner of a small cube, and consumers of it that check every element.

use crate::common::drive::PATIENCE_NS;
use crate::common::store::{self, Spec, value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use wavetrain::config::Config;
use wavetrain::loader::{Batch, Failure, Loader, Pop, Request};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// A cube of 16^3 elements.
pub const SPEC: Spec = Spec { seed: 3, edge: 16, shard: 8, chunk: 4, zstd: false, sparse: false };
/// Extents of a sample.
pub const SHAPE: [u64; 3] = [2, 5, 16];
/// Samples of a batch.
pub const SAMPLES: usize = 2;

/// A cube of the test's own.
pub fn cube(test: &str) -> PathBuf {
    store::of_test("node", test, &SPEC)
}

/// A name that no other test of this process, or of another, has.
pub fn own_name(test: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{test}.{}.{}", std::process::id(), COUNT.fetch_add(1, SeqCst))
}

/// Batches of two samples.
pub fn config() -> Config {
    let mut config = Config {
        samples_per_batch: SAMPLES as u32,
        sample_rank: 3,
        dtype: Dtype::U16 as u32,
        n_decode_threads: 2,
        n_io_threads: 2,
        max_chunk_uncompressed_bytes: 1 << 16,
        digest: 1,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&SHAPE);
    config
}

/// The start of the box of a sample.
pub fn place(tag: u64) -> [i64; 3] {
    let most = [14, 11, 0];
    [0, 1, 2].map(|axis| (tag.wrapping_mul([7, 5, 3][axis]) % (most[axis] + 1)) as i64)
}

/// Pushes samples with these tags, all of them.
pub fn push(owner: &Loader, cube: &std::path::Path, tags: std::ops::Range<u64>) {
    let uri = cube.to_str().unwrap();
    for tag in tags {
        let begin = place(tag);
        let end = [0, 1, 2].map(|axis| begin[axis] + SHAPE[axis] as i64);
        let request = Request { uri, begin: &begin, end: &end, tag };
        let taken = owner.push(&[request], PATIENCE_NS).unwrap();
        assert_eq!(taken, 1, "tag {tag} finds no room");
    }
}

/// Checks every element of a batch; its number and its tags.
pub fn check(batch: &Batch<'_>) -> (u64, Vec<u64>) {
    assert_eq!(batch.shape()[1..], SHAPE);
    assert!(batch.statuses().iter().all(|status| *status == 0));
    let elements = SHAPE.iter().product::<u64>() as usize;
    for (sample, tag) in batch.tags().iter().enumerate() {
        let begin = place(*tag).map(|at| at as u64);
        let bytes = &batch.data()[sample * elements * 2..][..elements * 2];
        let mut got = bytes.chunks(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        for z in 0..SHAPE[0] {
            for y in 0..SHAPE[1] {
                for x in 0..SHAPE[2] {
                    let at = [begin[0] + z, begin[1] + y, begin[2] + x];
                    assert_eq!(got.next(), Some(value(SPEC.seed, at)), "tag {tag} at {at:?}");
                }
            }
        }
    }
    (batch.batch_id(), batch.tags().to_vec())
}

/// The entry that a consumer got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Got {
    Batch(u64, Vec<u64>),
    End,
    Reset,
    Failed(Status),
}

/// The next of a consumer's list, checked and given back.
pub fn next(consumer: &Loader) -> Got {
    match consumer.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => {
            let (number, tags) = check(&batch);
            Got::Batch(number, tags)
        }
        Ok(Pop::End) => Got::End,
        Ok(Pop::Reset) => Got::Reset,
        Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("nothing within two minutes: {why}"),
        Err(Failure { status, .. }) => Got::Failed(status),
    }
}

/// The batches of a consumer up to the end.
pub fn epoch(consumer: &Loader) -> Vec<(u64, Vec<u64>)> {
    let mut batches = Vec::new();
    loop {
        match next(consumer) {
            Got::Batch(number, tags) => batches.push((number, tags)),
            Got::End => return batches,
            other => panic!("{other:?} after {batches:?}"),
        }
    }
}

/// Attaches.
pub fn attach(name: &str, number: u32) -> Loader {
    Loader::attach(name, number, PATIENCE_NS).unwrap()
}

/// Closes a loader without held batches.
pub fn close(loader: Loader) {
    loader.close(PATIENCE_NS).unwrap();
}
