//! What open cannot have is said with the way out: which field, how much, which limit.

use crate::common::alone::alone;
use crate::common::drive::config;
use crate::common::surface::Lines;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::base::limits::INSTANCES_MAX;
use wavetrain::config::Config;
use wavetrain::loader::{Loader, memory_need};
use wavetrain::os::sink::Level;
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::{Failure, Status};

static NO_MEMORY: Os = Os { map: |_| Err(Errno(libc::ENOMEM)), ..SYSTEM };

static STARTED: AtomicU32 = AtomicU32::new(0);

static FEW_THREADS: Os = Os {
    thread_start: |main, argument, stack, bytes| match STARTED.fetch_add(1, SeqCst) {
        0..3 => (SYSTEM.thread_start)(main, argument, stack, bytes),
        _ => Err(Errno(libc::EAGAIN)),
    },
    ..SYSTEM
};

fn refused(os: &'static Os, config: &Config) -> Failure {
    let failure = Loader::open_on(os, config).err().expect("a refusal");
    assert_eq!(failure.status, Status::OutOfMemory, "{failure}");
    failure
}

#[test]
fn memory_that_is_not_there_is_said_with_the_largest_line_and_its_field() {
    type Change = fn(&mut Config);
    let changes: [(&str, &str, Change); 6] = [
        ("batch slots", "n_batch_slots", |c| c.samples_per_batch = 60_000),
        ("chunk cache", "chunk_cache_bytes", |c| c.chunk_cache_bytes = 500 << 20),
        ("array metadata", "n_array_meta_cache", |c| c.n_array_meta_cache = 7_500),
        ("index pages", "n_shard_index_cache", |c| c.n_shard_index_cache = 40_000),
        ("thread stacks", "n_io_threads", |c| c.n_io_threads = 1_000),
        ("common scratch", "max_chunk_uncompressed_bytes", |_| {}),
    ];
    for (line, field, change) in changes {
        let base = config(Dtype::F32, &[32, 32], 1);
        let mut config =
            Config { max_chunk_uncompressed_bytes: 16 << 20, max_host_memory_bytes: 0, ..base };
        change(&mut config);
        let need = memory_need(&config).unwrap_or_else(|failure| panic!("{line}: {failure}"));
        let lines = &need.lines[..need.line_count as usize];
        let most = lines.iter().map(|line| line.bytes).max().expect("lines");
        let failure = refused(&NO_MEMORY, &config);
        let text = failure.text.as_str();
        assert!(text.contains(&format!("{} bytes", need.host_bytes)), "{failure}");
        assert!(text.contains(&format!("{most} of them are for {line}: lower ")), "{failure}");
        assert!(text.contains(field), "{failure}");
    }
}

#[test]
fn a_budget_that_is_refused_is_logged_line_by_line_and_so_is_what_was_solved() {
    let bytes_of = |text: &str| -> u64 {
        text.strip_prefix("memory: ").unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let lines = Lines::default();
    let base = config(Dtype::F32, &[32, 32], 4);
    let small = Config { log: lines.hook(), max_host_memory_bytes: 1 << 20, ..base };
    let refused = Loader::open_on(&SYSTEM, &small).err().expect("a refusal");
    assert_eq!(refused.status, Status::Budget);
    let logged = lines.take();
    let (all, each): (Vec<_>, Vec<_>) =
        logged.iter().partition(|(.., text)| text.ends_with(", host: all"));
    assert!(logged.iter().all(|(level, tag, _)| (*level, *tag) == (Level::Warn as u32, 0)));
    let sum: u64 = each.iter().map(|(.., text)| bytes_of(text)).sum();
    assert_eq!((all.len(), bytes_of(&all[0].2)), (1, sum));
    assert!(refused.text.as_str().contains(&format!("at least {sum} ")), "{refused}");
    assert!(each.iter().any(|(.., text)| text.ends_with(", host: staging slabs")), "{each:?}");

    let debug = Config { log: lines.hook(), log_level: Level::Debug as u32, ..base };
    let loader = Loader::open_on(&SYSTEM, &debug).unwrap();
    let logged = lines.take();
    let text = |start: &str| logged.iter().find(|(.., text)| text.starts_with(start)).unwrap();
    let slots = debug.n_batch_slots;
    assert!(text("geometry: ").2.contains(&format!("{slots} batch slots of 16384 bytes")));
    let committed = loader.stats().unwrap().host_bytes_committed;
    assert_eq!(text(&format!("memory: {committed} bytes, host: all")).0, Level::Debug as u32);
    loader.close(1_000_000_000).unwrap();
    let quiet = Config { log: lines.hook(), ..base };
    Loader::open_on(&SYSTEM, &quiet).unwrap().close(1_000_000_000).unwrap();
    assert!(!lines.take().iter().any(|(.., text)| text.contains("memory: ")));
}

#[test]
fn threads_that_the_system_refuses_are_counted_and_their_fields_named() {
    let config = Config { n_io_threads: 7, ..config(Dtype::F32, &[8], 1) };
    let failure = refused(&FEW_THREADS, &config);
    let text = failure.text.as_str();
    for words in ["3 of 9 ", "n_io_threads = 7", "n_decode_threads", "RLIMIT_NPROC", "pump"] {
        assert!(text.contains(words), "{words}: {failure}");
    }
}

/// In a process of its own: no other test could open a loader meanwhile.
#[test]
fn one_loader_too_many_is_told_how_many_there_can_be() {
    alone(|| {
        // With little memory, for there are many.
        let config = Config {
            thread_mode: wavetrain::config::THREADS_PUMP,
            max_chunk_uncompressed_bytes: 4096,
            max_host_memory_bytes: 8 << 20,
            ..config(Dtype::F32, &[8], 1)
        };
        let mut loaders = Vec::new();
        let failure = loop {
            match Loader::open_on(&SYSTEM, &config) {
                Ok(loader) => loaders.push(loader),
                Err(failure) => break failure,
            }
        };
        assert_eq!(loaders.len(), INSTANCES_MAX);
        assert_eq!(failure.status, Status::OutOfMemory, "{failure}");
        let text = failure.text.as_str();
        assert!(
            text.contains(&format!("{INSTANCES_MAX} loaders")) && text.contains("close one"),
            "{text}"
        );
    });
}
