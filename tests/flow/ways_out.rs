//! What open cannot have is said with the way out: which field, how much, which limit.

use crate::common::alone::alone;
use crate::common::drive::config;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::base::limits::INSTANCES_MAX;
use wavetrain::config::Config;
use wavetrain::loader::{Loader, memory_need};
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
