//! The time that a batch takes from an owner to a consumer in another process.
//!
//! `ready`: a pop that finds a batch, at home and in a consumer, in turn. `waits`: a consumer
//! sleeps in pop, and the owner makes a batch ready; the time is from the owner's first store into
//! shared memory, right after that, until pop has returned. Consumers are forked processes, and
//! samples values of 64 bytes, so that nothing is read and decoded.
//!
//!     cargo bench --bench node -- --rounds 2000
//!
//! Out: median, 99th of 100 and most, in microseconds. `--flat N` streams N batches of one sample
//! in its place, and prints the resident memory of both processes after a tenth of them and after
//! all.

mod common;

use common::flag_value;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use wavetrain::config::Config;
use wavetrain::loader::{Feed, Loader, Part, Pop, Sample};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;

const PATIENCE_NS: u64 = 60_000_000_000;
/// Batches that are ready at a time.
const READY: u64 = 32;

/// The time of the owner's first store since this was set to 0.
static STORED_NS: AtomicU64 = AtomicU64::new(0);

/// The system of an owner whose first store is timed.
static TIMED: Os = Os {
    before_store: || {
        let now = (SYSTEM.now_ns)();
        let _ = STORED_NS.compare_exchange(0, now, Relaxed, Relaxed);
    },
    ..SYSTEM
};

fn config() -> Config {
    let mut config = Config {
        samples_per_batch: 1,
        sample_rank: 1,
        dtype: Dtype::U64 as u32,
        max_boxes_per_sample: 1,
        n_batch_slots: READY as u32,
        n_decode_threads: 1,
        n_io_threads: 1,
        ..Config::default()
    };
    config.sample_shape[0] = 8;
    config
}

fn push(loader: &Loader, count: u64) {
    for tag in 0..count {
        let feed = Feed::Value(Dtype::U64, &[8], &[7; 64]);
        let part = Part { feed, begin: &[0], end: &[8], ..Part::default() };
        let (taken, _) = loader.push_samples(&[Sample { parts: &[part], tag }], PATIENCE_NS);
        assert_eq!(taken, 1);
    }
}

fn emitted(loader: &Loader) -> u64 {
    loader.stats().map(|stats| stats.batches_emitted).unwrap_or(0)
}

/// Memory that both processes share: a time, and the number of the turn.
struct Board {
    turn: AtomicU64,
    popped_ns: AtomicU64,
    waits: AtomicBool,
}

fn board() -> &'static Board {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of zeros, which stays; zeros are a value of atomics.
    unsafe { &*libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0).cast() }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn pop_ns(loader: &Loader) -> u64 {
    let start = (SYSTEM.now_ns)();
    let popped = loader.pop(PATIENCE_NS).unwrap_or_else(|why| panic!("{why}"));
    let end = (SYSTEM.now_ns)();
    assert!(matches!(popped, Pop::Batch(_)));
    end - start
}

/// The consumer: pops all batches of a turn, and then one at a time, and reports the times.
fn consume(name: &str, board: &Board, rounds: u64) {
    let consumer = Loader::attach(name, 0, PATIENCE_NS).unwrap_or_else(|why| panic!("{why}"));
    for turn in 0..rounds.div_ceil(READY) {
        until(|| board.turn.load(SeqCst) == 2 * turn + 1);
        for _ in 0..READY {
            board.popped_ns.store(pop_ns(&consumer), SeqCst);
            until(|| board.popped_ns.load(SeqCst) == 0);
        }
        board.turn.store(2 * turn + 2, SeqCst);
    }
    for _ in 0..rounds {
        board.waits.store(true, SeqCst);
        pop_ns(&consumer);
        board.popped_ns.store((SYSTEM.now_ns)(), SeqCst);
        until(|| board.popped_ns.load(SeqCst) == 0);
    }
    consumer.close(PATIENCE_NS).unwrap_or_else(|why| panic!("{why}"));
}

fn print(name: &str, times: &mut [u64]) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100] as f64 / 1e3;
    println!("{name:>16}: median {:7.2} us, p99 {:7.2}, most {:8.2}", at(50), at(99), at(100));
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// Streams so many batches to one consumer.
fn stream(name: &str, batches: u64) {
    let tell = |who: &str, count: u64| {
        if count == batches / 10 || count == batches {
            println!("{who:>8} after {count:>8} batches: {} KiB", resident() >> 10);
        }
    };
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let consumer = Loader::attach(name, 0, PATIENCE_NS).unwrap_or_else(|why| panic!("{why}"));
        for count in 1..=batches {
            pop_ns(&consumer);
            tell("consumer", count);
        }
        // SAFETY: nothing of this process is to run.
        unsafe { libc::_exit(0) };
    }
    let owner = Loader::open_shared(&config(), name, 1).expect("an owner");
    for count in 1..=batches {
        push(&owner, 1);
        tell("owner", count);
    }
    let mut status = 0;
    // SAFETY: it writes the status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}

fn main() {
    if let Some(batches) = flag_value("--flat") {
        let name = format!("bench.{}", std::process::id());
        return stream(&name, batches.parse().expect("--flat N"));
    }
    let rounds = flag_value("--rounds").map_or(2000, |text| text.parse().expect("--rounds N"));
    let (name, board) = (format!("bench.{}", std::process::id()), board());
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        consume(&name, board, rounds);
        // SAFETY: nothing of this process is to run.
        unsafe { libc::_exit(0) };
    }
    let home = Loader::open(&config()).unwrap_or_else(|why| panic!("{why}"));
    let owner = Loader::open_shared_on(&TIMED, &config(), &name, 1).expect("an owner");
    let (mut at_home, mut ready, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let mut published = 0;
    for turn in 0..rounds.div_ceil(READY) {
        push(&owner, READY);
        push(&home, READY);
        published += READY;
        until(|| emitted(&owner) == published);
        until(|| home.stats().is_ok_and(|stats| stats.assemble.count >= published));
        std::thread::sleep(Duration::from_millis(2));
        board.turn.store(2 * turn + 1, SeqCst);
        for _ in 0..READY {
            until(|| board.popped_ns.load(SeqCst) != 0);
            ready.push(board.popped_ns.load(SeqCst));
            at_home.push(pop_ns(&home));
            board.popped_ns.store(0, SeqCst);
        }
        until(|| board.turn.load(SeqCst) == 2 * turn + 2);
    }
    for _ in 0..rounds {
        until(|| board.waits.swap(false, SeqCst));
        std::thread::sleep(Duration::from_millis(1));
        STORED_NS.store(0, SeqCst);
        push(&owner, 1);
        until(|| board.popped_ns.load(SeqCst) != 0);
        waits.push(board.popped_ns.load(SeqCst) - STORED_NS.load(SeqCst));
        board.popped_ns.store(0, SeqCst);
    }
    let mut status = 0;
    // SAFETY: it writes the status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    print("ready, at home", &mut at_home);
    print("ready, consumer", &mut ready);
    print("waits", &mut waits);
}
