//! Synthetic latency of metadata: which requests sleep, for how long, and what ends or hides it.

use crate::common::drive::{Job, PATIENCE_NS, config, mixed_jobs, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::store::{self, Spec, value};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use wavetrain::abi::{MetadataLatency, Stats};
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::loops::lognormal::lognormal;
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;

const NONE: MetadataLatency = MetadataLatency {
    baseline_ns: 0,
    lognormal_mu_ln_ns: 0.0,
    lognormal_sigma_ln_ns: 0.0,
    cap_ns: 0,
    seed: 0,
};

static CLOCK: AtomicU64 = AtomicU64::new(1);

/// A system in which time passes by sleeps alone.
static TIMELESS: Os = Os {
    now_ns: || CLOCK.load(SeqCst),
    sleep: |_, deadline_ns| CLOCK.store(deadline_ns, SeqCst),
    ..SYSTEM
};

fn stream_on(os: &'static Os, config: &Config, jobs: &[Job]) -> Stats {
    let loader = Loader::open_on(os, config).unwrap_or_else(|failure| panic!("open: {failure}"));
    stream_through(&loader, config, jobs, 0);
    loader.stats().unwrap()
}

#[test]
fn each_request_sleeps_for_what_its_number_draws_and_is_counted() {
    let (mu, sigma, baseline_ns, seed) = (13.0, 0.5, 1000, 77);
    let latency = MetadataLatency {
        baseline_ns,
        lognormal_mu_ln_ns: mu,
        lognormal_sigma_ln_ns: sigma,
        cap_ns: 500_000,
        seed,
    };
    let mut config = config(Dtype::F32, &[16, 16], 3);
    config.thread_mode = THREADS_PUMP;
    let jobs = mixed_jobs(30);
    let quick = stream_on(&SYSTEM, &config, &jobs);
    let figures = |stats: &Stats| {
        let of = stats;
        assert_eq!((of.metadata_latency_active, of.metadata_backend_read_active), (0, 0));
        assert_eq!(of.metadata_backend_read_max_active, 1);
        of.metadata_backend_read_jobs
    };
    assert!(figures(&quick) > 10 && quick.metadata_latency_ops == 0);
    assert_eq!((quick.metadata_latency_max_active, quick.metadata_latency_max_sleep_ns), (0, 0));
    config.metadata_latency = latency;
    let before = CLOCK.load(SeqCst);
    let late = stream_on(&TIMELESS, &config, &jobs);
    assert_eq!(late.metadata_latency_submit_ops, figures(&late));
    let ops = late.metadata_latency_ops;
    assert_eq!(ops, late.metadata_latency_stat_ops + late.metadata_latency_submit_ops);
    let draw = |n| baseline_ns + lognormal((seed, n), mu, sigma).min(500_000);
    let (sum, most) = (0..ops).map(draw).fold((0, 0), |(s, m), ns| (s + ns, u64::max(m, ns)));
    assert_eq!(late.metadata_latency_total_sleep_ns, sum);
    assert_eq!((late.metadata_latency_max_sleep_ns, late.metadata_latency_max_active), (most, 1));
    assert_eq!(CLOCK.load(SeqCst) - before, sum, "time passed by sleeps alone");
}

/// Writes arrays that no index and nothing compresses, of 64 files each; a box of all of each.
fn whole_arrays(scratch: &Scratch, count: u64) -> Vec<Job> {
    let arrays = (0..count).map(|seed| {
        let spec = Spec { seed, edge: 16, shard: 4, chunk: 4, zstd: false, sparse: false };
        let name = format!("a{seed}");
        store::write(&scratch.path(&name), &spec);
        let want = store::places(16).flat_map(|at| value(seed, at).to_le_bytes());
        Job::new(&scratch.uri(&name), (vec![0; 3], vec![16; 3]), want.collect())
    });
    arrays.collect()
}

#[test]
fn reads_of_chunks_do_not_sleep() {
    let scratch = Scratch::new();
    let jobs = whole_arrays(&scratch, 2);
    let mut config = config(Dtype::U16, &[16, 16, 16], 1);
    config.metadata_latency = MetadataLatency { baseline_ns: 1, ..NONE };
    let stats = stream_on(&SYSTEM, &config, &jobs);
    // A document and 64 indexes of each array; an index is read, and then its checksum.
    assert_eq!(stats.metadata_latency_submit_ops, stats.metadata_backend_read_jobs);
    assert_eq!(stats.metadata_backend_read_jobs, 2 * (1 + 2 * 64));
    assert_eq!(stats.decode.count, 2 * 64);
    // Each file is opened or looked at once, and so is the document.
    assert!(stats.metadata_latency_stat_ops >= 2 * (1 + 64));
    assert_eq!(stats.metadata_latency_total_sleep_ns, stats.metadata_latency_ops);
}

#[test]
fn a_close_ends_sleeps() {
    let scratch = Scratch::new();
    let jobs = whole_arrays(&scratch, 3);
    let mut config = config(Dtype::U16, &[16, 16, 16], 1);
    config.metadata_latency = MetadataLatency { baseline_ns: 3_600_000_000_000, ..NONE };
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    assert_eq!(loader.push(&requests, 0).unwrap(), 3);
    let begun = Instant::now();
    while loader.stats().unwrap().metadata_latency_active < 2 {
        assert!(begun.elapsed() < Duration::from_nanos(PATIENCE_NS), "nobody sleeps");
        std::thread::yield_now();
    }
    let begun = Instant::now();
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    assert!(begun.elapsed() < Duration::from_secs(10), "close took {:?}", begun.elapsed());
}

/// Those who sleep, and those whom that woke.
static SLEEPERS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

/// So many are to sleep at a time before the first of them wakes.
const TOGETHER: u32 = 4;

/// A system whose sleeps end once enough threads sleep at a time.
static JOINED: Os = Os {
    sleep: |_, _| {
        let mut sleepers = SLEEPERS.0.lock().unwrap();
        *sleepers += 1;
        SLEEPERS.1.notify_all();
        let wait = Duration::from_nanos(PATIENCE_NS);
        let few = |sleepers: &mut u32| *sleepers < TOGETHER;
        let (sleepers, waited) = SLEEPERS.1.wait_timeout_while(sleepers, wait, few).unwrap();
        drop(sleepers);
        assert!(!waited.timed_out(), "{TOGETHER} requests never sleep at a time");
    },
    ..SYSTEM
};

#[test]
fn requests_for_samples_ahead_sleep_at_the_same_time() {
    let scratch = Scratch::new();
    let jobs = whole_arrays(&scratch, 8);
    let mut config = config(Dtype::U16, &[16, 16, 16], 1);
    config.n_io_threads = 8;
    config.metadata_latency = MetadataLatency { baseline_ns: 1, ..NONE };
    let stats = stream_on(&JOINED, &config, &jobs);
    assert!(stats.metadata_latency_max_active >= u64::from(TOGETHER));
}

#[test]
fn figures_begin_again_by_stats_reset_and_draws_do_not() {
    let scratch = Scratch::new();
    let jobs = whole_arrays(&scratch, 2);
    let mut config = config(Dtype::U16, &[16, 16, 16], 1);
    config.thread_mode = THREADS_PUMP;
    let (mu, seed) = (5.0, 3);
    config.metadata_latency =
        MetadataLatency { lognormal_mu_ln_ns: mu, lognormal_sigma_ln_ns: 1.0, seed, ..NONE };
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs[..1], 0);
    let first = loader.stats().unwrap().metadata_latency_ops;
    loader.stats_reset().unwrap();
    let stats = loader.stats().unwrap();
    assert_eq!((stats.metadata_latency_ops, stats.metadata_latency_max_sleep_ns), (0, 0));
    assert_eq!((stats.metadata_backend_read_jobs, stats.metadata_latency_max_active), (0, 0));
    stream_through(&loader, &config, &jobs[1..], 1);
    let stats = loader.stats().unwrap();
    let after = first..first + stats.metadata_latency_ops;
    let sum: u64 = after.map(|n| lognormal((seed, n), mu, 1.0)).sum();
    assert_eq!(stats.metadata_latency_total_sleep_ns, sum);
}
