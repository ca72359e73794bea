//! Whoever sleeps is woken: each test is a moment at which a sleeper could miss its event. They run
//! many rounds, because the moment is short; a missed event shows as a pop that does not return.

use crate::common::store;
use crate::common::store::Spec;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};

const FOREVER: u64 = u64::MAX;
const SPEC: Spec = Spec { seed: 5, edge: 16, shard: 8, chunk: 4, zstd: false, sparse: false };
const CROP: u64 = 4;

fn array(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wakeups").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    store::write(&folder, &SPEC);
    folder
}

fn config(samples_per_batch: u32) -> Config {
    let mut config = Config {
        samples_per_batch,
        sample_rank: 3,
        n_decode_threads: 1,
        n_io_threads: 1,
        max_chunk_uncompressed_bytes: 4096,
        dtype: wavetrain::records::Dtype::U16 as u32,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&[CROP; 3]);
    config
}

fn push(loader: &Loader, array: &Path) {
    let uri = array.to_str().unwrap();
    let request = Request { uri, begin: &[1; 3], end: &[5; 3], tag: 0 };
    assert_eq!(loader.push(&[request], FOREVER).unwrap(), 1);
}

/// Runs `case` on a thread of its own and fails where it does not end: a hang must not take the
/// whole test run with it.
fn in_time(case: impl FnOnce() + Send + 'static) {
    let (done, ends) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        case();
        done.send(()).unwrap();
    });
    match ends.recv_timeout(Duration::from_secs(300)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a sleeper was not woken"),
        _ => runner.join().unwrap(),
    }
}

#[test]
fn a_pop_that_waits_while_drop_last_discards_the_rest_sees_the_end() {
    let array = array("drop_last");
    in_time(move || {
        let loader = Loader::open(&Config { drop_last: 1, ..config(2) }).unwrap();
        for _ in 0..200 {
            push(&loader, &array);
            let (entered, waits) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    entered.send(()).unwrap();
                    assert!(matches!(loader.pop(FOREVER).unwrap(), Pop::End));
                });
                waits.recv().unwrap();
                std::thread::yield_now();
                loader.flush().unwrap();
            });
        }
    });
}

#[test]
fn pops_that_share_one_worker_context_all_return() {
    let array = array("pump");
    in_time(move || {
        let config = Config { thread_mode: THREADS_PUMP, n_batch_slots: 4, ..config(1) };
        let loader = Loader::open(&config).unwrap();
        for _ in 0..3000 {
            (0..2).for_each(|_| push(&loader, &array));
            loader.flush().unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| while let Pop::Batch(_) = loader.pop(FOREVER).unwrap() {});
                }
            });
        }
    });
}

#[test]
fn two_resets_at_once_both_succeed() {
    let array = array("resets");
    in_time(move || {
        let loader = Loader::open(&config(1)).unwrap();
        for _ in 0..300 {
            push(&loader, &array);
            std::thread::scope(|scope| {
                scope.spawn(|| loader.reset().unwrap());
                scope.spawn(|| loader.reset().unwrap());
            });
            push(&loader, &array);
            assert!(matches!(loader.pop(FOREVER).unwrap(), Pop::Batch(_)));
        }
    });
}

#[test]
fn a_chunk_that_appears_before_a_reset_is_read_after_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wakeups").join("appears");
    let _ = std::fs::remove_dir_all(&folder);
    store::write(&folder, &SPEC);
    let shard = store::shard_path(&folder, [0; 3]);
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::remove_file(&shard).unwrap();
    let loader = Loader::open(&config(1)).unwrap();
    let missing = |loader: &Loader| {
        push(loader, &folder);
        let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() else { panic!("no batch") };
        batch.data().chunks_exact(2).filter(|pair| **pair == store::FILL.to_le_bytes()).count()
    };
    assert_eq!(missing(&loader), 64);
    std::fs::write(&shard, bytes).unwrap();
    loader.reset().unwrap();
    assert!(missing(&loader) < 64);
}
