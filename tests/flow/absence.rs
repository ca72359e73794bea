//! Files that are absent for another reason than that a chunk is missing: keys that are spelled
//! otherwise, links to nothing, files in the place of folders, stores that come and go.

use crate::common::drive::{Job, config, first_failure, open, stream_through};
use crate::common::fixtures::{self, Scratch};
use crate::common::hook::with_hook;
use crate::common::synth::{self, EDGE, Meta, chunk_bytes, chunk_job as job};
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::abi::{FILE_ABSENT, FilesHook, PACKING_UNKNOWN};
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::{Loader, SCRATCH_BYTES, array_info};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// A spelling of keys: the name of the encoding, and the separator.
type Spelling = (&'static str, char);

const SPELLINGS: [Spelling; 4] = [("default", '/'), ("default", '.'), ("v2", '/'), ("v2", '.')];

fn key((encoding, separator): Spelling, y: u64, x: u64) -> String {
    let prefix = if encoding == "default" { format!("c{separator}") } else { String::new() };
    format!("{prefix}{y}{separator}{x}")
}

/// A document of 16 chunks that says that keys are spelled so.
fn document((encoding, separator): Spelling) -> String {
    Meta::u16(&[16, 16], &[EDGE; 2], None).text().replacen(
        r#"{"name":"default","configuration":{"separator":"/"}}"#,
        &format!(r#"{{"name":"{encoding}","configuration":{{"separator":"{separator}"}}}}"#),
        1,
    )
}

/// An array whose chunks at (0, 0) and (1, 1) are there, spelled as `files`.
fn array(scratch: &Scratch, name: &str, says: Spelling, files: Spelling) -> String {
    let uri = synth::write_text(scratch, name, &document(says));
    for (number, at) in [(1, 0), (2, 1)] {
        put(&uri, &key(files, at, at), number);
    }
    uri
}

fn put(uri: &str, key: &str, number: u16) {
    let path = format!("{uri}/{key}");
    fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    fs::write(path, chunk_bytes(number)).unwrap();
}

fn one() -> Config {
    config(Dtype::U16, &[EDGE; 2], 1)
}

fn refused(loader: &Loader, job: &Job, status: Status, parts: &[&str]) {
    let (before, failure) = first_failure(loader, std::slice::from_ref(job));
    assert_eq!((before, failure.status), (0, status), "{failure}");
    for part in parts {
        assert!(failure.text.as_str().contains(part), "{part}: {failure}");
    }
    loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_v2_array_without_its_separator_is_refused_with_the_fix_and_read_once_it_is_given() {
    for (store, member, fix) in [
        ("v2_rank2_F_slash", ", \"dimension_separator\": \"/\"", "\"dimension_separator\": \"/\""),
        ("v2_rank3_C_slash", ", \"dimension_separator\": \"/\"", "\"dimension_separator\": \"/\""),
        ("v2_rank2_F_dot", "", "\"dimension_separator\": \".\""),
    ] {
        for change in [|config| config, with_hook as fn(Config) -> Config] {
            let scratch = Scratch::new();
            let store = fixtures::store(store);
            let folder = scratch.copy_of(store, "array");
            let right = fs::read(folder.join(".zarray")).unwrap();
            let mut says: serde_json::Value = serde_json::from_slice(&right).unwrap();
            let members = says.as_object_mut().unwrap();
            match member {
                "" => {
                    members.insert("dimension_separator".into(), "/".into());
                }
                _ => {
                    members.remove("dimension_separator");
                }
            }
            fs::write(folder.join(".zarray"), says.to_string()).unwrap();
            let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
            let job = Job::of(store, (vec![0; end.len()], end), store.image.dtype);
            let job = Job { uri: scratch.uri("array"), ..job };
            let config = change(config(store.image.dtype, &job.extents(), 1));
            let loader = open(&config);
            refused(&loader, &job, Status::Decode, &["/.zarray: ", fix]);
            refused(&loader, &job, Status::Decode, &["/.zarray: ", fix]);
            fs::write(folder.join(".zarray"), right).unwrap();
            loader.reset().unwrap();
            stream_through(&loader, &config, &[job], 0);
        }
    }
}

#[test]
fn files_in_any_other_spelling_are_a_refusal_that_names_it() {
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        for says in SPELLINGS {
            for files in SPELLINGS.into_iter().filter(|files| *files != says) {
                let scratch = Scratch::new();
                let uri = array(&scratch, "array", says, files);
                let loader = open(&Config { thread_mode, ..one() });
                let fix = format!(
                    "\"chunk_key_encoding\": {{\"name\": \"{}\", \"configuration\": \
                     {{\"separator\": \"{}\"}}}}",
                    files.0, files.1
                );
                let parts = ["/zarr.json: ", &key(says, 0, 3), &key(files, 0, 3), &fix];
                refused(&loader, &job(&uri, [0, 3], None), Status::Decode, &parts);
            }
        }
    }
}

#[test]
fn a_hook_is_asked_for_the_other_separator() {
    for says in SPELLINGS {
        let files = (says.0, if says.1 == '/' { '.' } else { '/' });
        let scratch = Scratch::new();
        let uri = array(&scratch, "array", says, files);
        let loader = open(&with_hook(one()));
        let parts = [&*key(says, 1, 1), &*key(files, 1, 1)];
        refused(&loader, &job(&uri, [1, 1], None), Status::Decode, &parts);
    }
}

#[test]
fn an_array_without_files_and_one_that_shows_a_file_read_as_fill() {
    for change in [|config| config, with_hook as fn(Config) -> Config] {
        for says in SPELLINGS {
            let scratch = Scratch::new();
            let config = change(one());
            let empty = synth::write_text(&scratch, "empty", &document(says));
            fs::create_dir_all(format!("{empty}/attic/0")).unwrap();
            fs::write(format!("{empty}/0.0.0"), "of no key").unwrap();
            stream_through(&open(&config), &config, &[job(&empty, [0, 3], None)], 0);
            // Its own spelling beside another: of a hook only a file that was found shows it.
            let both = array(&scratch, "both", says, says);
            let other = SPELLINGS.into_iter().find(|other| *other != says).unwrap();
            put(&both, &key(other, 3, 3), 9);
            let loader = open(&config);
            let (own, absent) = (job(&both, [0, 0], Some(1)), job(&both, [3, 3], None));
            let is_hook = config.files.size.is_some();
            let jobs = if is_hook { [own, absent] } else { [absent, own] };
            for (batch, job) in jobs.iter().enumerate() {
                stream_through(&loader, &config, std::slice::from_ref(job), batch as u64);
            }
        }
    }
}

#[test]
fn spelling_is_no_question_where_keys_have_no_separator() {
    let scratch = Scratch::new();
    let text = Meta::u16(&[16], &[EDGE], None).text();
    for change in [|config| config, with_hook as fn(Config) -> Config] {
        for separator in ['.', '/'] {
            let from = r#"{"name":"default","configuration":{"separator":"/"}}"#;
            let to = format!(r#"{{"name":"v2","configuration":{{"separator":"{separator}"}}}}"#);
            let uri = synth::write_text(&scratch, "bare", &text.replacen(from, &to, 1));
            fs::write(format!("{uri}/0"), &chunk_bytes(1)[..8]).unwrap();
            let config = change(config(Dtype::U16, &[EDGE], 1));
            let fill = Job::new(&uri, (vec![8], vec![12]), 7u16.to_le_bytes().repeat(4));
            stream_through(&open(&config), &config, &[fill], 0);
        }
    }
}

static LISTED: AtomicU64 = AtomicU64::new(0);
static LISTING: Os = Os {
    open_directory: |path| {
        LISTED.fetch_add(1, SeqCst);
        (SYSTEM.open_directory)(path)
    },
    ..SYSTEM
};

#[test]
fn a_folder_is_listed_at_the_first_absence_alone_and_not_where_a_file_was_found() {
    let scratch = Scratch::new();
    let says = SPELLINGS[0];
    let config = Config { n_io_threads: 1, n_decode_threads: 1, ..one() };
    let listed = |uri: &str, first: Option<u16>| {
        let loader = Loader::open_on(&LISTING, &config).unwrap_or_else(|why| panic!("{why}"));
        let before = LISTED.load(SeqCst);
        let absent = (0..8).map(|n| job(uri, [2 + n / 4, n % 4], None));
        let first = first.map(|number| job(uri, [0, 0], Some(number)));
        for (batch, job) in first.into_iter().chain(absent).enumerate() {
            stream_through(&loader, &config, &[job], batch as u64);
        }
        LISTED.load(SeqCst) - before
    };
    let empty = synth::write_text(&scratch, "empty", &document(says));
    assert_eq!(listed(&empty, None), 1);
    let uri = array(&scratch, "array", says, says);
    assert_eq!(listed(&uri, Some(1)), 0);
}

static UNLISTED: Os = Os { open_directory: |_| Err(Errno(libc::EACCES)), ..SYSTEM };

#[test]
fn a_folder_that_nobody_may_list_is_asked_for_the_other_separator() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "array", SPELLINGS[0], SPELLINGS[1]);
    let loader = Loader::open_on(&UNLISTED, &one()).unwrap_or_else(|why| panic!("{why}"));
    refused(&loader, &job(&uri, [0, 0], None), Status::Decode, &["c.0.0"]);
    let uri = array(&scratch, "right", SPELLINGS[0], SPELLINGS[0]);
    stream_through(&loader, &one(), &[job(&uri, [0, 1], None)], 0);
}

static ASKED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn counted_size(_user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    ASKED.fetch_add(u64::from(name.contains("/c.")), SeqCst);
    fs::metadata(name).map_or(FILE_ABSENT, |found| found.len() as i64)
}

#[test]
fn a_hook_is_asked_for_64_chunks_at_most_and_what_it_said_stays() {
    const SIDE: u64 = 20;
    let scratch = Scratch::new();
    let text = Meta::u16(&[SIDE * EDGE; 2], &[EDGE; 2], None).text();
    let uri = synth::write_text(&scratch, "array", &text);
    let files = with_hook(one()).files;
    let files = FilesHook { size: Some(counted_size), ..files };
    let config = Config { files, on_error: ON_ERROR_SKIP, ..one() };
    let loader = open(&config);
    let mut at = 0;
    let mut stream = |count: u64, want: Result<(), Status>| {
        let jobs: Vec<Job> = (at..at + count)
            .map(|n| job(&uri, [n / SIDE, n % SIDE], None))
            .map(|job| Job { want: want.map_or_else(Err, |()| job.want.clone()), ..job })
            .collect();
        stream_through(&loader, &config, &jobs, at);
        at += count;
        ASKED.load(SeqCst)
    };
    assert_eq!(stream(50, Ok(())), 50);
    // Found at the 51st: what is absent after that is refused, asked for or not.
    put(&uri, "c.2.10", 3);
    assert_eq!(stream(1, Err(Status::Decode)), 51);
    assert_eq!(stream(100, Err(Status::Decode)), 51);
    loader.reset().unwrap();
    drop(loader);
    fs::remove_file(format!("{uri}/c.2.10")).unwrap();
    let loader = open(&config);
    for n in 0..100 {
        stream_through(&loader, &config, &[job(&uri, [n / SIDE, n % SIDE], None)], n);
    }
    assert_eq!(ASKED.load(SeqCst), 51 + 64);
}

#[test]
fn a_file_where_a_folder_of_chunks_must_be_is_an_error_and_not_fill() {
    for (says, file, [y, x]) in [
        (("default", '/'), "c", [2, 2]),
        (("default", '/'), "c/2", [2, 2]),
        (("v2", '/'), "2", [2, 2]),
    ] {
        let scratch = Scratch::new();
        let uri = synth::write_text(&scratch, "array", &document(says));
        let path = format!("{uri}/{file}");
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(&path, "no folder").unwrap();
        let parts = [&*format!("{path}: is not a folder"), "not missing data"];
        refused(&open(&one()), &job(&uri, [y, x], None), Status::Io, &parts);
    }
}

#[test]
fn links_to_nothing_are_errors_and_links_to_something_are_read() {
    for (link, [y, x]) in [("c", [2, 2]), ("c/2", [2, 2]), ("c/2/2", [2, 2])] {
        let scratch = Scratch::new();
        let uri = array(&scratch, "array", SPELLINGS[0], SPELLINGS[0]);
        if link == "c" {
            fs::remove_dir_all(format!("{uri}/c")).unwrap();
        }
        let path = format!("{uri}/{link}");
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        symlink("nowhere", &path).unwrap();
        let loader = open(&one());
        let parts = [&*format!("{path}: is a link to nothing"), "git annex get"];
        refused(&loader, &job(&uri, [y, x], None), Status::Io, &parts);
        // Its content is fetched.
        let target = Path::new(&path).parent().unwrap().join("nowhere");
        let folders = ["c", "2", "2"];
        let depth = link.split('/').count();
        let below: String = folders[depth..].iter().map(|name| format!("/{name}")).collect();
        let file = format!("{}{below}", target.to_str().unwrap());
        fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
        fs::write(&file, chunk_bytes(5)).unwrap();
        let jobs = [job(&uri, [2, 2], Some(5)), job(&uri, [2, 3], None)];
        stream_through(&loader, &one(), &jobs, 0);
    }
    // One array knows a link to a folder, and what is absent in it is missing.
    let scratch = Scratch::new();
    let uri = synth::write_text(&scratch, "array", &document(SPELLINGS[0]));
    fs::create_dir_all(scratch.path("elsewhere")).unwrap();
    symlink(scratch.path("elsewhere"), format!("{uri}/c")).unwrap();
    stream_through(&open(&one()), &one(), &[job(&uri, [0, 0], None)], 0);
}

#[test]
fn a_document_that_is_a_link_to_nothing_is_not_passed_over() {
    let scratch = Scratch::new();
    let store = fixtures::store("v2_rank2_F_slash");
    let folder = scratch.copy_of(store, "array");
    symlink("nowhere", folder.join("zarr.json")).unwrap();
    let job =
        Job { uri: scratch.uri("array"), ..Job::of(store, (vec![0; 2], vec![4; 2]), Dtype::U16) };
    let loader = open(&one());
    refused(&loader, &job, Status::Io, &["/zarr.json: is a link to nothing"]);
    // Attributes refuse nothing: what they say is not known.
    fs::rename(folder.join("zarr.json"), folder.join(".zattrs")).unwrap();
    let info = array_info(&job.uri, &mut vec![0; SCRATCH_BYTES]);
    assert_eq!(info.unwrap_or_else(|why| panic!("{why}")).packing, PACKING_UNKNOWN);
}

static LINKS: AtomicU64 = AtomicU64::new(0);
static COUNTED: Os = Os {
    stat_link: |path| {
        LINKS.fetch_add(1, SeqCst);
        (SYSTEM.stat_link)(path)
    },
    ..SYSTEM
};

#[test]
fn absent_chunks_cost_one_look_each_and_one_per_folder_and_batch() {
    const SIDE: u64 = 40;
    let scratch = Scratch::new();
    let extent = SIDE * EDGE;
    let uri = Meta::u16(&[extent; 2], &[EDGE; 2], None).write(&scratch, "array", None);
    let config = Config { n_io_threads: 1, ..config(Dtype::U16, &[extent; 2], 1) };
    let loader = Loader::open_on(&COUNTED, &config).unwrap_or_else(|failure| panic!("{failure}"));
    let fill = 7u16.to_le_bytes().repeat((extent * extent) as usize);
    let span = (vec![0, 0], vec![extent as i64; 2]);
    // The document is looked for once more than it is found, under another name.
    for batch in 0..3 {
        let before = LINKS.load(SeqCst);
        stream_through(&loader, &config, &[Job::new(&uri, span.clone(), fill.clone())], batch);
        let looks = LINKS.load(SeqCst) - before;
        let (least, most) = (SIDE * SIDE, SIDE * SIDE + 2 * (SIDE + 1));
        assert!((least..=most).contains(&looks), "{looks} looks in batch {batch}");
    }
}

/// Says once that a path that ends so does not exist, when it is armed.
macro_rules! absent_once {
    ($name:ident, $entry:ident, $end:literal) => {
        mod $name {
            use super::*;
            pub static ARMED: AtomicU64 = AtomicU64::new(0);
            pub static OS: Os = Os {
                $entry: |path| {
                    let is_meant = path.ends_with(concat!($end, "\0").as_bytes());
                    let take = |left: u64| left.checked_sub(1);
                    if is_meant && ARMED.fetch_update(SeqCst, SeqCst, take).is_ok() {
                        return Err(Errno(libc::ENOENT));
                    }
                    (SYSTEM.$entry)(path)
                },
                ..SYSTEM
            };
        }
    };
}

absent_once!(chunk_flaps, open, "flaps/c/1/1");
absent_once!(document_flaps, stat_path, "flaps/zarr.json");
absent_once!(folder_flaps, stat_path, "flaps/c/0");

#[test]
fn a_chunk_that_is_there_again_is_an_error_and_not_fill() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "flaps", SPELLINGS[0], SPELLINGS[0]);
    let loader = Loader::open_on(&chunk_flaps::OS, &one()).unwrap_or_else(|why| panic!("{why}"));
    stream_through(&loader, &one(), &[job(&uri, [0, 0], Some(1))], 0);
    chunk_flaps::ARMED.store(1, SeqCst);
    refused(&loader, &job(&uri, [1, 1], None), Status::Io, &["c/1/1", "is there again"]);
    stream_through(&loader, &one(), &[job(&uri, [1, 1], Some(2))], 0);
}

/// Streams four absent chunks in a batch of which the first look says that something is gone.
fn gone_and_back(os: &'static Os, armed: &AtomicU64, absent: [[u64; 2]; 4]) {
    let scratch = Scratch::new();
    let uri = array(&scratch, "flaps", SPELLINGS[0], SPELLINGS[0]);
    let four = config(Dtype::U16, &[EDGE; 2], 4);
    let config = Config { on_error: ON_ERROR_SKIP, n_io_threads: 1, n_decode_threads: 1, ..four };
    let loader = Loader::open_on(os, &config).unwrap_or_else(|why| panic!("{why}"));
    stream_through(&loader, &config, &vec![job(&uri, [0, 0], Some(1)); 4], 0);
    armed.store(1, SeqCst);
    let gone = absent.map(|at| Job { want: Err(Status::Io), ..job(&uri, at, None) });
    stream_through(&loader, &config, &gone, 1);
    assert_eq!(armed.load(SeqCst), 0);
    stream_through(&loader, &config, &absent.map(|at| job(&uri, at, None)), 2);
}

#[test]
fn an_array_that_is_gone_and_back_makes_every_absence_of_its_batch_an_error() {
    gone_and_back(&document_flaps::OS, &document_flaps::ARMED, [[2, 0], [2, 1], [3, 2], [3, 3]]);
}

#[test]
fn a_folder_that_is_gone_and_back_makes_every_absence_of_its_batch_an_error() {
    gone_and_back(&folder_flaps::OS, &folder_flaps::ARMED, [[0, 1], [0, 2], [0, 3], [3, 3]]);
}

static SHARDS_ASKED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn flapping_size(_user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    if name.ends_with("/c/0/0") && SHARDS_ASKED.fetch_add(1, SeqCst) == 0 {
        return FILE_ABSENT;
    }
    fs::metadata(name).map_or(FILE_ABSENT, |found| found.len() as i64)
}

#[test]
fn a_shard_that_one_lookup_finds_and_another_does_not_is_an_error_and_no_mixture() {
    let scratch = Scratch::new();
    // 512 chunks of one element: two pages of the index.
    let entries: Vec<(u64, u64)> = (0..512).map(|n| (2 * n, 2)).collect();
    let payload: Vec<u8> = (0..512u16).flat_map(u16::to_le_bytes).collect();
    let shard = synth::shard_bytes(&payload, &entries);
    let meta = Meta::u16(&[16, 32], &[1, 1], Some(&[16, 32]));
    let uri = meta.write(&scratch, "array", Some(&shard));
    let files = FilesHook { size: Some(flapping_size), ..with_hook(one()).files };
    let config = Config { files, ..config(Dtype::U16, &[2, 4], 1) };
    let loader = open(&config);
    // The last row on the first page and the first on the second.
    let rows = [7 * 32, 8 * 32].map(|first| 2 * first..2 * (first + 4));
    let want = rows.map(|row| payload[row].to_vec()).concat();
    let job = Job::new(&uri, (vec![7, 0], vec![9, 4]), want);
    refused(&loader, &job, Status::Io, &["c/0/0", "in the same batch"]);
    stream_through(&loader, &config, &[job], 0);
}
