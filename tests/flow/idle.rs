//! While a read does not come back, nobody burns a CPU. Alone in its program, because it looks at
//! the CPU time of the whole process.

use crate::common::alone::alone;
use crate::common::fixtures::Scratch;
use crate::common::hook;
use crate::common::store;
use crate::common::store::Spec;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wavetrain::abi::FilesHook;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::SYSTEM;

static IS_BLOCKED: AtomicBool = AtomicBool::new(false);
static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the name is NUL-terminated, as the hook's contract says.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    while IS_BLOCKED.load(SeqCst) && !name.to_bytes().ends_with(b".json") {
        HAS_ENTERED.store(true, SeqCst);
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: the arguments are handed on as they came.
    unsafe { hook::read(user, name.as_ptr(), offset, target, bytes) }
}

fn cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// In a process of its own, because CPU time is counted per process.
#[test]
fn threads_and_pops_sleep_while_a_read_is_out() {
    alone(|| {
        let scratch = Scratch::new();
        let spec = Spec { seed: 1, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: true };
        store::write(&scratch.path("a"), &spec);
        let uri = scratch.uri("a");
        for thread_mode in [0, THREADS_PUMP] {
            let hooked = hook::with_hook(Config::default());
            let files = FilesHook { read: Some(read), ..hooked.files };
            let mut config = Config {
                samples_per_batch: 1,
                sample_rank: 3,
                n_decode_threads: 4,
                n_io_threads: 4,
                n_batch_slots: 4,
                thread_mode,
                dtype: wavetrain::records::Dtype::U16 as u32,
                max_chunk_uncompressed_bytes: 4096,
                files,
                ..hooked
            };
            config.sample_shape[..3].copy_from_slice(&[5; 3]);
            let loader = Loader::open_on(&SYSTEM, &config).unwrap();
            IS_BLOCKED.store(true, SeqCst);
            HAS_ENTERED.store(false, SeqCst);
            for at in [1, 5] {
                let request = Request { uri: &uri, begin: &[at; 3], end: &[at + 5; 3], tag: 0 };
                assert_eq!(loader.push(&[request], 0).unwrap(), 1);
            }
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| assert!(matches!(loader.pop(u64::MAX).unwrap(), Pop::Batch(_))));
                }
                while !HAS_ENTERED.load(SeqCst) {
                    std::thread::yield_now();
                }
                // What can still be done is done.
                std::thread::sleep(Duration::from_millis(200));
                let (before, begun) = (cpu_ns(), Instant::now());
                std::thread::sleep(Duration::from_millis(400));
                let (used, elapsed) = (u128::from(cpu_ns() - before), begun.elapsed().as_nanos());
                IS_BLOCKED.store(false, SeqCst);
                // One spinning thread would take ten times as much.
                assert!(used < elapsed / 10, "{used} of {elapsed} ns, mode {thread_mode}");
            });
        }
    });
}
