//! Folders that a host lists: numbered files and groups, and the answers of hosts that are wrong.

use crate::common::drive::{Job, config, first_failure, open, stream_through};
use crate::common::npy;
use crate::common::objects::{Kind, Objects};
use crate::common::synth::Meta;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, FILE_UNLISTED, FoundChild, StoreHook};
use wavetrain::config::Config;
use wavetrain::loader::{Node, SCRATCH_BYTES, array_info_trusting, node_info_trusting};
use wavetrain::records::Dtype;
use wavetrain::status::{Failure, Status};

/// A folder of files of two rows of four u16 each, whose elements count on.
fn put_rows(objects: &Objects, files: u16) {
    for file in 0..files {
        let data: Vec<u8> = (file * 8..file * 8 + 8).flat_map(u16::to_le_bytes).collect();
        let bytes = npy::file("<u2", false, &[2, 4], &data);
        objects.put(&format!("mem://bucket/rows/part_{file}.npy"), bytes);
    }
}

/// Row `row` of these.
fn row(uri: &str, row: u16) -> Job {
    let want = (row * 4..row * 4 + 4).flat_map(u16::to_le_bytes).collect();
    Job::new(uri, (vec![i64::from(row), 0], vec![i64::from(row) + 1, 4]), want)
}

fn rows_config() -> Config {
    Config { max_npy_files: 64, ..config(Dtype::U16, &[1, 4], 1) }
}

/// The failure of a box of 4 x 4 there.
fn failure_of(config: &Config, uri: &str) -> Failure {
    let loader = open(config);
    first_failure(&loader, &[Job::new(uri, (vec![0, 0], vec![1, 4]), vec![])]).1
}

#[test]
fn numbered_files_of_a_host_that_lists_are_one_array() {
    for uri in ["mem://bucket/rows/part_*.npy", "mem://bucket/rows"] {
        let objects = Objects::default();
        put_rows(&objects, 12);
        let config = objects.listed(rows_config());
        let loader = open(&config);
        let jobs: Vec<Job> = (0..24).map(|number| row(uri, number)).collect();
        stream_through(&loader, &config, &jobs, 0);
        let requests = objects.take_requests();
        let lists: Vec<&str> = requests
            .iter()
            .filter(|request| request.kind == Kind::List)
            .map(|request| request.name.as_str())
            .collect();
        // A folder is listed for its names, and once more as what they stand for.
        let count = if uri.ends_with("npy") { 1 } else { 2 };
        assert_eq!(lists, vec!["mem://bucket/rows"; count]);
    }
}

#[test]
fn a_reset_lists_a_folder_again() {
    let objects = Objects::default();
    put_rows(&objects, 2);
    let (config, uri) = (objects.listed(rows_config()), "mem://bucket/rows/part_*.npy");
    let loader = open(&config);
    stream_through(&loader, &config, &[row(uri, 3)], 0);
    put_rows(&objects, 3);
    loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
    objects.take_requests();
    stream_through(&loader, &config, &[row(uri, 5)], 0);
    assert!(objects.take_requests().iter().any(|request| request.kind == Kind::List));
}

#[test]
fn a_folder_that_is_absent_is_not_found_and_one_that_fails_is_io() {
    let objects = Objects::default();
    let uri = "mem://bucket/none/part_*.npy";
    for (config, answers, status, lists) in [
        (rows_config(), vec![FILE_ABSENT], Status::NotFound, 1),
        (rows_config(), vec![FILE_FAILED; 2], Status::Io, 2),
        (rows_config(), vec![77; 2], Status::Io, 2),
        (rows_config(), vec![FILE_ABSENT, FILE_FAILED], Status::NotFound, 2),
        (
            Config { store: StoreHook { retries_itself: 1, ..StoreHook::NONE }, ..rows_config() },
            vec![FILE_FAILED],
            Status::Io,
            1,
        ),
    ] {
        *objects.list_answers.lock().unwrap() = answers;
        let failure = failure_of(&objects.listed(config), uri);
        assert_eq!(failure.status, status, "{failure}");
        assert!(failure.text.as_str().starts_with("mem://bucket/none/part_*.npy"), "{failure}");
        assert_eq!(objects.take_requests().iter().filter(|r| r.kind == Kind::List).count(), lists);
    }
}

#[test]
fn without_list_nothing_is_listed_and_the_texts_say_so() {
    let objects = Objects::default();
    put_rows(&objects, 2);
    objects.put("mem://bucket/group/zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#);
    let config = objects.files(rows_config());
    let failure = failure_of(&config, "mem://bucket/rows/part_*.npy");
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    let failure = failure_of(&config, "mem://bucket/group");
    assert!(failure.text.as_str().ends_with("(a files hook lists no folders)"), "{failure}");
    assert!(objects.take_requests().iter().all(|request| request.kind != Kind::List));
}

#[test]
fn numbered_files_of_a_store_without_listings_are_asked_for_by_name() {
    for (name, first) in [("part_*.npy", 0), ("part_*.npy#first=5", 5)] {
        let objects = Objects::default();
        put_rows(&objects, 12);
        *objects.list_answers.lock().unwrap() = vec![FILE_UNLISTED; 64];
        let (config, uri) = (objects.listed(rows_config()), format!("mem://bucket/rows/{name}"));
        let loader = open(&config);
        let jobs: Vec<Job> = (first * 2..24)
            .map(|number| {
                let from = i64::from(number - first * 2);
                Job { begin: vec![from, 0], end: vec![from + 1, 4], ..row(&uri, number) }
            })
            .collect();
        stream_through(&loader, &config, &jobs, 0);
    }
}

#[test]
fn a_hole_among_files_that_are_asked_for_by_name_is_found() {
    let objects = Objects::default();
    put_rows(&objects, 12);
    objects.remove("mem://bucket/rows/part_3.npy");
    *objects.list_answers.lock().unwrap() = vec![FILE_UNLISTED; 64];
    let config = objects.listed(rows_config());
    let failure = failure_of(&config, "mem://bucket/rows/part_*.npy");
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    assert!(failure.text.as_str().contains("part_3.npy"), "{failure}");
    let failure = failure_of(&config, "mem://bucket/rows/other_*.npy");
    assert_eq!(failure.status, Status::NotFound, "{failure}");
}

#[test]
fn node_info_lists_groups_and_numbered_files_through_the_hooks_of_a_config() {
    let objects = Objects::default();
    put_rows(&objects, 3);
    put_group(&objects);
    let config = objects.listed(rows_config());
    let mut scratch = vec![0; SCRATCH_BYTES];
    // SAFETY: the hooks are those of `objects`, which lives as long.
    let array = unsafe { array_info_trusting("mem://bucket/rows", &config, &mut scratch) };
    let array = array.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(array.shape[..2], [6, 4]);
    // SAFETY: as before.
    let node = unsafe { node_info_trusting("mem://bucket/group", &config, &mut scratch) };
    let Ok(Node::Group(group)) = node else { panic!("no group") };
    let names: Vec<_> = group.entries().map(|entry| entry.path().to_owned()).collect();
    assert_eq!(names, ["a", "b"]);
}

/// A group of arrays a and b, which keeps no list of its own.
fn put_group(objects: &Objects) {
    objects.put("mem://bucket/group/zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#);
    for name in ["a", "b"] {
        let document = Meta::u16(&[4, 4], &[4, 4], None).text();
        objects.put(&format!("mem://bucket/group/{name}/zarr.json"), document);
    }
}

#[test]
fn a_group_names_the_arrays_that_its_host_lists() {
    let objects = Objects::default();
    put_group(&objects);
    let failure = failure_of(&objects.listed(rows_config()), "mem://bucket/group");
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    let text = failure.text.as_str();
    assert!(text.contains("a, b") && !text.contains("lists no folders"), "{text}");
}

#[test]
fn a_folder_of_any_number_of_children_is_looked_at_in_part() {
    let objects = Objects::default();
    put_group(&objects);
    let children = (0..200_000).map(|number| format!("n{number}").into_bytes()).collect();
    *objects.children.lock().unwrap() = Some(children);
    let failure = failure_of(&objects.listed(rows_config()), "mem://bucket/group");
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    assert!(failure.text.as_str().contains("more were not looked at"), "{failure}");
}

#[test]
fn a_child_that_no_path_can_have_is_an_error_that_names_it() {
    for (child, text) in [
        (b"a/b".to_vec(), "a child 'a/b' whose name has a '/'"),
        (b"a\xff".to_vec(), "a child 'a\u{fffd}' whose name is not UTF-8"),
        (vec![], "a child without a name"),
        (vec![b'x'; 5000], "a child 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..' whose name makes a path"),
    ] {
        let objects = Objects::default();
        put_group(&objects);
        *objects.children.lock().unwrap() = Some(vec![b"part_0.npy".to_vec(), child]);
        let config = objects.listed(rows_config());
        for uri in ["mem://bucket/group", "mem://bucket/rows", "mem://bucket/rows/part_*.npy"] {
            let failure = failure_of(&config, uri);
            assert_eq!(failure.status, Status::Io, "{failure}");
            assert!(failure.text.as_str().contains(text), "{failure}");
        }
    }
}

/// What `list` was called with, for calls that come too late.
type Kept = Mutex<Vec<(FoundChild, usize)>>;

static KEPT: Kept = Mutex::new(Vec::new());
static LISTS: AtomicU64 = AtomicU64::new(0);

/// Calls found with a child that would be refused, now and from another thread, for listings that
/// are over and for the one that is made elsewhere.
fn call_kept() {
    for (found, context) in KEPT.lock().unwrap().iter().copied() {
        let context = std::ptr::with_exposed_provenance_mut::<c_void>(context);
        // SAFETY: the child is a text with a NUL.
        unsafe { found.expect("a function")(context, c"no/child".as_ptr(), 1) };
    }
}

unsafe extern "C" fn late_list(
    _user: *mut c_void,
    name: *const c_char,
    found: FoundChild,
    context: *mut c_void,
) -> i64 {
    // SAFETY: the name is a text with a NUL.
    assert!(unsafe { CStr::from_ptr(name) }.to_bytes().ends_with(b"rows"));
    LISTS.fetch_add(1, SeqCst);
    KEPT.lock().unwrap().push((found, context.expose_provenance()));
    std::thread::spawn(call_kept).join().unwrap();
    0
}

#[test]
fn found_after_list_or_from_another_thread_is_not_heard() {
    let objects = Objects::default();
    let mut config = objects.files(rows_config());
    config.store.list = Some(late_list);
    for _ in 0..3 {
        let failure = failure_of(&config, "mem://bucket/rows/part_*.npy");
        assert_eq!(failure.status, Status::NotFound, "{failure}");
        assert!(failure.text.as_str().contains("there is no such file"), "{failure}");
        call_kept();
    }
    assert_eq!(LISTS.load(SeqCst), 3);
}
