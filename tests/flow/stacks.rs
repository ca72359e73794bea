//! How deep the stacks of our threads get. They lie in the arena, a guard below each, so that one
//! that is too small would end the process.
//!
//! Stacks are painted before their threads start, and looked at when everything was streamed.

use crate::common::store;
use crate::common::store::{Spec, value};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use wavetrain::config::{Config, ON_ERROR_SKIP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;

const PAINT: u8 = 0xA5;
const PATIENCE_NS: u64 = 120_000_000_000;
const CROP: i64 = 5;

/// First address and bytes of every stack, in the order of the starts: decoding threads first.
static STACKS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

static PAINTED: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        // SAFETY: the stack is the new thread's, which has not started.
        unsafe { stack.write_bytes(PAINT, bytes as usize) };
        STACKS.lock().unwrap().push((stack as usize, bytes as usize));
        (SYSTEM.thread_start)(main, argument, stack, bytes)
    },
    ..SYSTEM
};

fn config() -> Config {
    let mut config = Config {
        samples_per_batch: 2,
        sample_rank: 3,
        n_decode_threads: 2,
        n_io_threads: 2,
        on_error: ON_ERROR_SKIP,
        dtype: Dtype::F16 as u32,
        max_chunk_uncompressed_bytes: 4096,
        max_host_memory_bytes: 64 << 20,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&[CROP as u64; 3]);
    config
}

/// Arrays that are read, and one for every document that the tests have: most of those fail, which
/// takes the longest texts.
fn arrays() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stacks");
    let _ = std::fs::remove_dir_all(&folder);
    let mut arrays = Vec::new();
    for (seed, zstd) in [(1, true), (2, false)] {
        let array = folder.join(format!("good {seed}"));
        store::write(&array, &Spec { seed, edge: 16, shard: 8, chunk: 4, zstd, sparse: true });
        arrays.push(array);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/data/metadata", "tests/data/metadata_v2", "fuzz/seeds/zarr_metadata"];
    for (number, source) in folders.into_iter().enumerate() {
        let key = if number == 1 { ".zarray" } else { "zarr.json" };
        for entry in std::fs::read_dir(root.join(source)).unwrap() {
            let path = entry.unwrap().path();
            let array = folder.join(format!("{number} {}", path.file_name().unwrap().display()));
            std::fs::create_dir_all(&array).unwrap();
            std::fs::copy(path, array.join(key)).unwrap();
            arrays.push(array);
        }
    }
    arrays
}

fn stream(loader: &Loader, arrays: &[PathBuf]) -> usize {
    let mut good = 0;
    for array in arrays {
        for tag in 0..2u64 {
            let begin = [tag as i64 * 7; 3];
            let end = begin.map(|at| at + CROP);
            let uri = array.to_str().unwrap();
            let request = Request { uri, begin: &begin, end: &end, tag };
            assert_eq!(loader.push(&[request], PATIENCE_NS).ok(), Some(1));
        }
        let batch = match loader.pop(PATIENCE_NS) {
            Ok(Pop::Batch(batch)) => batch,
            Ok(_) => panic!("no batch of {}", array.display()),
            Err(failure) => panic!("{failure}"),
        };
        good += batch.statuses().iter().filter(|status| **status == 0).count();
    }
    good
}

/// Bytes of a stack that were ever written, its paint being looked for from its far end.
fn used(start: usize, bytes: usize) -> usize {
    // SAFETY: the stack is alive; its thread sleeps near the other end.
    let stack = unsafe { std::slice::from_raw_parts(start as *const u8, bytes) };
    bytes - stack.iter().take_while(|byte| **byte == PAINT).count()
}

#[test]
fn threads_use_less_than_two_thirds_of_their_stacks() {
    let loader = Loader::open_on(&PAINTED, &config()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stream(&loader, &arrays()) >= 4, "the good arrays are read");
    assert!(value(1, [0; 3]) > 0);
    let stacks = STACKS.lock().unwrap().clone();
    assert_eq!(stacks.len(), 4);
    for (start, bytes) in stacks {
        let used = used(start, bytes);
        println!("{used} of {bytes} bytes");
        assert!(used * 3 < bytes * 2, "{used} of {bytes} bytes");
    }
}
