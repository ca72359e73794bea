//! Folders that are away for a moment, renamed or unmounted: what lies in them is not missing data.

use crate::common::drive::{Job, config, first_failure, open, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::synth::{self, EDGE, Meta, chunk_bytes, chunk_job as job};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// 16 chunks of which each is a file; those at (0, 0) and (1, 1) are there.
fn array(scratch: &Scratch, name: &str, [prefix, separator]: [&str; 2]) -> String {
    let mut meta = Meta::u16(&[16, 16], &[EDGE; 2], None).text();
    let (name_of, from) =
        if prefix.is_empty() { ("v2", "default") } else { ("default", "default") };
    meta = meta.replacen(
        &format!(r#"{{"name":"{from}","configuration":{{"separator":"/"}}}}"#),
        &format!(r#"{{"name":"{name_of}","configuration":{{"separator":"{separator}"}}}}"#),
        1,
    );
    let uri = synth::write_text(scratch, name, &meta);
    for (number, at) in [(1, 0), (2, 1)] {
        let path = format!("{uri}/{prefix}{at}{separator}{at}");
        fs::create_dir_all(Path::new(&path).parent().expect("a folder")).expect("folders");
        fs::write(path, chunk_bytes(number)).expect("a chunk");
    }
    uri
}

fn refused(loader: &Loader, job: &Job, folder: &str) {
    let (before, failure) = first_failure(loader, std::slice::from_ref(job));
    assert_eq!((before, failure.status), (0, Status::Io), "{failure}");
    let text = failure.text.as_str();
    assert!(text.contains(&format!("{}/{folder}: ", job.uri)), "{failure}");
    assert!(text.contains("was there and is gone"), "{failure}");
    loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
}

/// Reads a chunk, takes `away` from the array, reads a chunk that never was, and puts it back.
/// `folder`: what the refusal names.
fn taken_away(key: [&str; 2], away: &str, folder: &str) {
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let scratch = Scratch::new();
        let uri = array(&scratch, "array", key);
        let config = Config { thread_mode, ..config(Dtype::U16, &[EDGE; 2], 1) };
        let loader = open(&config);
        stream_through(&loader, &config, &[job(&uri, [0, 0], Some(1))], 0);
        let (there, elsewhere) = (format!("{uri}/{away}"), format!("{uri}/away"));
        fs::rename(&there, &elsewhere).expect("taken away");
        refused(&loader, &job(&uri, [0, 1], None), folder);
        fs::rename(&elsewhere, &there).expect("put back");
        stream_through(&loader, &config, &[job(&uri, [0, 1], None)], 0);
    }
}

#[test]
fn the_folder_of_all_chunks_that_is_gone_is_an_error_and_not_fill() {
    taken_away(["c/", "/"], "c", "c/0");
}

#[test]
fn the_folder_of_a_chunk_that_is_gone_is_an_error_and_not_fill() {
    taken_away(["c/", "/"], "c/0", "c/0");
    taken_away(["", "/"], "0", "0");
}

#[test]
fn a_file_in_the_place_of_a_folder_that_was_there_is_an_error_and_not_fill() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "array", ["c/", "/"]);
    let config = config(Dtype::U16, &[EDGE; 2], 1);
    let loader = open(&config);
    stream_through(&loader, &config, &[job(&uri, [0, 0], Some(1))], 0);
    fs::rename(format!("{uri}/c/0"), format!("{uri}/away")).expect("taken away");
    fs::write(format!("{uri}/c/0"), b"no folder").expect("a file");
    refused(&loader, &job(&uri, [0, 1], None), "c/0");
}

#[test]
fn beside_a_folder_that_is_gone_what_never_was_there_is_still_missing() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "array", ["c/", "/"]);
    let config = config(Dtype::U16, &[EDGE; 2], 1);
    let loader = open(&config);
    stream_through(&loader, &config, &[job(&uri, [0, 0], Some(1))], 0);
    fs::rename(format!("{uri}/c/0"), format!("{uri}/away")).expect("taken away");
    let jobs = [job(&uri, [2, 0], None), job(&uri, [1, 0], None), job(&uri, [1, 1], Some(2))];
    stream_through(&loader, &config, &jobs[..2], 1);
    stream_through(&loader, &config, &jobs[2..], 3);
    refused(&loader, &job(&uri, [0, 3], None), "c/0");
}

#[test]
fn one_absence_that_is_refused_does_not_make_the_next_one_missing() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "array", ["c/", "/"]);
    let four = config(Dtype::U16, &[EDGE; 2], 4);
    let config = Config { on_error: wavetrain::config::ON_ERROR_SKIP, ..four };
    let loader = open(&config);
    let present = vec![job(&uri, [0, 0], Some(1)); 4];
    stream_through(&loader, &config, &present, 0);
    fs::rename(format!("{uri}/c"), format!("{uri}/away")).expect("taken away");
    let gone: Vec<Job> =
        (0..4).map(|x| Job { want: Err(Status::Io), ..job(&uri, [2, x], None) }).collect();
    stream_through(&loader, &config, &gone, 1);
}

#[test]
fn keys_without_folders_and_arrays_without_chunks_read_as_fill() {
    let scratch = Scratch::new();
    let config = config(Dtype::U16, &[EDGE; 2], 1);
    for (name, key) in [("default", ["c.", "."]), ("v2", ["", "."])] {
        let uri = array(&scratch, name, key);
        let jobs = [job(&uri, [0, 0], Some(1)), job(&uri, [0, 1], None), job(&uri, [3, 3], None)];
        stream_through(&open(&config), &config, &jobs, 0);
    }
    let uri = Meta::u16(&[16, 16], &[EDGE; 2], None).write(&scratch, "empty", None);
    let jobs = [job(&uri, [0, 1], None), job(&uri, [3, 3], None)];
    stream_through(&open(&config), &config, &jobs, 0);
}

static LOOKS: AtomicU64 = AtomicU64::new(0);

static COUNTED: Os = Os {
    stat_path: |path| {
        LOOKS.fetch_add(1, SeqCst);
        (SYSTEM.stat_path)(path)
    },
    ..SYSTEM
};

#[test]
fn absent_chunks_cost_one_look_per_array_and_one_per_folder_that_was_there() {
    const SIDE: u64 = 40;
    let scratch = Scratch::new();
    let extent = SIDE * EDGE;
    let uri = Meta::u16(&[extent; 2], &[EDGE; 2], None).write(&scratch, "array", None);
    let mut config = config(Dtype::U16, &[extent; 2], 1);
    config.max_chunks_per_wave = 512;
    // Two threads may look at the same moment.
    config.n_io_threads = 1;
    let mut want = vec![7u16; (extent * extent) as usize];
    let loader = Loader::open_on(&COUNTED, &config).unwrap_or_else(|failure| panic!("{failure}"));
    let looks_of = |want: &[u16], batch: u64| {
        let bytes = want.iter().flat_map(|value| value.to_le_bytes()).collect();
        let span = (vec![0, 0], vec![extent as i64; 2]);
        let before = LOOKS.load(SeqCst);
        stream_through(&loader, &config, &[Job::new(&uri, span, bytes)], batch);
        LOOKS.load(SeqCst) - before
    };
    for batch in 0..3 {
        // At the document before the first absence; at the one of a used array before that too.
        let most = if batch == 0 { 1 } else { 2 };
        assert_eq!(looks_of(&want, batch), most, "nothing was ever there");
    }
    // A chunk in every second folder, 1,580 of 1,600 are absent.
    for y in (0..SIDE).step_by(2) {
        fs::create_dir_all(format!("{uri}/c/{y}")).expect("a folder");
        fs::write(format!("{uri}/c/{y}/0"), chunk_bytes(3)).expect("a chunk");
        for at in 0..16 {
            let place = (y * EDGE + at / EDGE) * extent + at % EDGE;
            want[place as usize] = 300 + at as u16;
        }
    }
    for batch in 3..6 {
        let looks = looks_of(&want, batch);
        assert!(looks <= 3 + SIDE / 2 + SIDE / 2, "{looks} looks in batch {batch}");
    }
}
