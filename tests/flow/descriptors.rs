//! How many descriptors a loader keeps: an eighth of what the process may have, so that several
//! loaders and the trainer fit beside each other, or what the config says.

use crate::common::drive::{Job, config, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use wavetrain::config::Config;
use wavetrain::loader::Loader;
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;

const FILES: u16 = 300;

static LIMIT: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicI64 = AtomicI64::new(0);
/// The counters are for one loader at a time.
static TURN: Mutex<()> = Mutex::new(());

static COUNTED: Os = Os {
    open: |path| (SYSTEM.open)(path).inspect(|_| _ = OPEN.fetch_add(1, SeqCst)),
    open_directory: |path| (SYSTEM.open_directory)(path).inspect(|_| _ = OPEN.fetch_add(1, SeqCst)),
    close: |fd| {
        OPEN.fetch_sub(1, SeqCst);
        (SYSTEM.close)(fd);
    },
    open_files_max: || LIMIT.load(SeqCst),
    ..SYSTEM
};

/// One box over rows that lie in a file each.
fn wide_job(scratch: &Scratch) -> Job {
    let rows = u64::from(FILES);
    let uri = Meta::u16(&[rows, 4], &[1, 4], None).write(scratch, "wide", None);
    let row = |y: u16| (0..4).flat_map(move |x| (y * 4 + x + 1).to_le_bytes());
    for y in 0..FILES {
        fs::create_dir_all(scratch.path(&format!("wide/c/{y}"))).expect("a folder");
        let file = scratch.path(&format!("wide/c/{y}/0"));
        fs::write(file, row(y).collect::<Vec<u8>>()).expect("a chunk");
    }
    Job::new(&uri, (vec![0, 0], vec![rows as i64, 4]), (0..FILES).flat_map(row).collect())
}

/// Descriptors that a loader keeps when it has read all files.
fn kept(job: &Job, limit: u64, more: &Config) -> i64 {
    LIMIT.store(limit, SeqCst);
    let config = Config {
        n_chunk_layout_cache: more.n_chunk_layout_cache,
        max_open_files: more.max_open_files,
        ..config(Dtype::U16, &[u64::from(FILES), 4], 1)
    };
    let loader = Loader::open_on(&COUNTED, &config).unwrap_or_else(|failure| panic!("{failure}"));
    stream_through(&loader, &config, &vec![job.clone(); 2], 0);
    let kept = OPEN.load(SeqCst);
    drop(loader);
    assert_eq!(OPEN.load(SeqCst), 0);
    kept
}

#[test]
fn a_loader_keeps_an_eighth_of_the_descriptors_64_at_least_or_what_the_config_says() {
    let _turn = TURN.lock().unwrap();
    let scratch = Scratch::new();
    let job = wide_job(&scratch);
    let default = Config::default();
    let given = |max_open_files| Config { max_open_files, ..Config::default() };
    for (limit, config, expected) in [
        (1024, default, 128),
        (2048, default, 256),
        (1 << 20, default, i64::from(FILES)),
        // The host keeps half of few descriptors, and those that it has open anyway.
        (256, default, 64),
        (128, default, 48),
        (1024, given(10), 10),
        (1024, given(1), 1),
        (64, given(200), 200),
        (1024, Config { n_chunk_layout_cache: 32, ..given(200) }, 32),
    ] {
        assert_eq!(kept(&job, limit, &config), expected, "{limit} {}", config.max_open_files);
    }
}
