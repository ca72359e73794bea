//! Whoever sleeps is woken: each test is a moment at which a sleeper could miss its event. They run
//! many rounds, because the moment is short; a missed event shows as a pop that does not return.

use crate::common::fixtures::is_chunk_path;
use crate::common::hook::{self, with_hook};
use crate::common::store;
use crate::common::store::Spec;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, mpsc};
use std::time::Duration;
use wavetrain::abi::FilesHook;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::SYSTEM;
use wavetrain::status::Status;

const FOREVER: u64 = u64::MAX;
const SPEC: Spec = Spec { seed: 5, edge: 16, shard: 8, chunk: 4, zstd: false, sparse: false };
const CROP: u64 = 4;

fn array(test: &str) -> PathBuf {
    store::of_test("wakeups", test, &SPEC)
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
        let loader = Loader::open_on(&SYSTEM, &Config { drop_last: 1, ..config(2) }).unwrap();
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
        let loader = Loader::open_on(&SYSTEM, &config).unwrap();
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
        let loader = Loader::open_on(&SYSTEM, &config(1)).unwrap();
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
    let array = array("appears");
    let shard = store::shard_path(&array, [0; 3]);
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::remove_file(&shard).unwrap();
    let loader = Loader::open_on(&SYSTEM, &config(1)).unwrap();
    let missing = |loader: &Loader| {
        push(loader, &array);
        let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() else { panic!("no batch") };
        batch.data().chunks_exact(2).filter(|pair| **pair == store::FILL.to_le_bytes()).count()
    };
    assert_eq!(missing(&loader), 64);
    std::fs::write(&shard, bytes).unwrap();
    loader.reset().unwrap();
    assert!(missing(&loader) < 64);
}

/// A files hook whose reads of chunks stay inside until they are let go.
#[derive(Default)]
struct Gate {
    /// Reads that came, and whether they may go on.
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Gate {
    fn config(&'static self, config: Config) -> Config {
        let config = with_hook(config);
        let files = FilesHook {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            read: Some(Gate::read),
            ..config.files
        };
        Config { files, ..config }
    }

    fn wait_for_read(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(reads, _)| *reads == 0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    unsafe extern "C" fn read(
        user: *mut c_void,
        name: *const c_char,
        offset: u64,
        target: *mut c_void,
        bytes: u64,
    ) -> i64 {
        // SAFETY: `config` gives a gate that lives as long as the process, and the library hands
        // over a NUL-terminated name.
        let (gate, path) = unsafe { (&*user.cast::<Gate>(), CStr::from_ptr(name)) };
        if is_chunk_path(path.to_bytes()) {
            let mut state = gate.state.lock().unwrap();
            state.0 += 1;
            gate.changed.notify_all();
            drop(gate.changed.wait_while(state, |(_, is_open)| !*is_open).unwrap());
        }
        // SAFETY: the arguments are the library's own.
        unsafe { hook::read(user, name, offset, target, bytes) }
    }
}

/// Uris of 4,000 bytes, of which no two are the same, and where nothing is.
fn long_uri(number: usize) -> String {
    format!("/{}{number:06}", "no/".repeat(1331))
}

/// A batch that is filled holds no uri, so it is nothing that a push without room can wait for.
#[test]
fn a_push_whose_uris_do_not_fit_is_refused_while_a_batch_is_filled() {
    let array = array("uris");
    in_time(move || {
        static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);
        let gate: &'static Gate = &GATE;
        let samples = 2048;
        let config = Config { lookahead_samples: samples, ..config(samples) };
        let loader = Loader::open_on(&SYSTEM, &gate.config(config)).unwrap();
        // Boxes of one chunk: they are planned at once, and their uris are given back.
        let uri = array.to_str().unwrap();
        let request = Request { uri, begin: &[0; 3], end: &[4; 3], tag: 0 };
        let batch = vec![request; samples as usize];
        assert_eq!(loader.push(&batch, FOREVER).unwrap(), batch.len());
        gate.wait_for_read();
        let uris: Vec<String> = (0..samples as usize).map(long_uri).collect();
        let mut requests = Vec::new();
        for uri in &uris {
            requests.push(Request { uri, begin: &[1; 3], end: &[5; 3], tag: 7 });
        }
        let mut taken = 0;
        for timeout_ns in [FOREVER, 0, 1_000_000] {
            let (count, result) = loader.push_counted(&requests[taken..], timeout_ns);
            taken += count;
            let failure = result.unwrap_err();
            assert_eq!((failure.status, failure.tag), (Status::Invalid, 7), "{failure}");
            let text = format!("the uris of one batch do not fit 4587520 bytes ({taken} of 2048");
            assert!(failure.text.as_str().starts_with(&text), "{failure}");
        }
        assert!((1140..1150).contains(&taken), "{taken}");
        gate.open();
        // Samples that were pushed before are streamed all the same.
        let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() else { panic!("no batch") };
        assert!(batch.statuses().iter().all(|status| *status == 0));
        drop(batch);
        loader.reset().unwrap();
        assert_eq!(loader.push(&requests[..1], 0).unwrap(), 1);
    });
}
