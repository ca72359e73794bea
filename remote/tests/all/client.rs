//! Completions, threads, fork, files, and the C functions as a loader calls them.

use crate::common::server::{Fault, Server};
use crate::common::{open, painted, quick, read, text};
use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use wavetrain_remote::abi::{FILE_FAILED, FilesHook, StoreHook};
use wavetrain_remote::c::*;
use wavetrain_remote::{Client, Config, Kind, StatsView};

/// Loader, ticket and result of a completion.
type Done = (u64, u64, i64);

static DONE: (Mutex<Vec<Done>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());

unsafe extern "C" fn note_done(loader: u64, ticket: u64, result: i64) -> i32 {
    DONE.0.lock().unwrap().push((loader, ticket, result));
    DONE.1.notify_all();
    0
}

/// The completions of a loader, once there are so many.
fn completions(loader: u64, count: usize) -> Vec<(u64, i64)> {
    let mut done = DONE.0.lock().unwrap();
    loop {
        let ours: Vec<_> =
            done.iter().filter(|entry| entry.0 == loader).map(|entry| (entry.1, entry.2)).collect();
        if ours.len() >= count {
            return ours;
        }
        let waited = DONE.1.wait_timeout(done, Duration::from_secs(20)).unwrap();
        assert!(!waited.1.timed_out(), "{} of {count} completions", ours.len());
        done = waited.0;
    }
}

/// A client that was opened through C, with its hooks.
struct Opened {
    client: *mut Client,
    files: FilesHook,
    store: StoreHook,
}

fn opened(change: impl FnOnce(&mut RemoteConfig)) -> Opened {
    let mut config = RemoteConfig {
        read_done: Some(note_done),
        retries_max: 2,
        backoff_min_ns: 1_000_000,
        backoff_max_ns: 2_000_000,
        ..RemoteConfig::default()
    };
    change(&mut config);
    let mut client = std::ptr::null_mut();
    let mut files: FilesHook = unsafe { std::mem::zeroed() };
    let mut store: StoreHook = unsafe { std::mem::zeroed() };
    let mut text = [0; 300];
    unsafe {
        let opened = wavetrain_remote_open(&config, &mut client, text.as_mut_ptr(), text.len());
        assert_eq!(opened, 0, "{:?}", std::ffi::CStr::from_ptr(text.as_ptr()));
        assert_eq!(wavetrain_remote_files_hook(client, &mut files), 0);
        assert_eq!(wavetrain_remote_store_hook(client, &mut store), 0);
    }
    Opened { client, files, store }
}

impl Opened {
    fn last_error(&self) -> String {
        let mut text = vec![0u8; 2000];
        let bytes =
            unsafe { wavetrain_remote_last_error(self.client, text.as_mut_ptr().cast(), 2000) };
        String::from_utf8(text[..bytes].to_vec()).unwrap()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        assert_eq!(unsafe { wavetrain_remote_close(self.client) }, 0);
    }
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

#[test]
fn asynchronous_reads_complete_once_each() {
    let server = Server::start();
    let data = painted(100_000);
    server.put("/a", &data, "\"v\"");
    let opened = opened(|_| ());
    let name = c(&server.url("/a"));
    let mut targets = vec![[0u8; 100]; 300];
    for (ticket, target) in targets.iter_mut().enumerate() {
        let begun = unsafe {
            let read_async = opened.files.read_async.unwrap();
            let target = target.as_mut_ptr().cast();
            read_async(
                opened.files.user,
                7,
                ticket as u64,
                name.as_ptr(),
                ticket as u64 * 9,
                target,
                100,
            )
        };
        assert_eq!(begun, 0);
    }
    let done = completions(7, 300);
    assert_eq!(done.len(), 300);
    assert_eq!(done.iter().map(|entry| entry.0).collect::<HashSet<_>>().len(), 300);
    assert!(done.iter().all(|entry| entry.1 == 0));
    for (ticket, target) in targets.iter().enumerate() {
        assert_eq!(target[..], data[ticket * 9..ticket * 9 + 100]);
    }
}

#[test]
fn asynchronous_reads_of_files_and_absent_objects_complete() {
    let server = Server::start();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain_file");
    std::fs::write(&path, b"0123456789").unwrap();
    let opened = opened(|_| ());
    let mut targets = [[0u8; 4]; 3];
    let names = [c(path.to_str().unwrap()), c("/no/such/file"), c(&server.url("/none"))];
    for (ticket, name) in names.iter().enumerate() {
        let target = targets[ticket].as_mut_ptr().cast();
        let begun = unsafe {
            let read_async = opened.store.read_version_async.unwrap();
            let version = std::ptr::null_mut();
            read_async(opened.files.user, 8, ticket as u64, name.as_ptr(), version, 3, target, 4)
        };
        assert_eq!(begun, 0);
    }
    let mut done = completions(8, 3);
    done.sort_unstable();
    assert_eq!(done, [(0, 0), (1, -1), (2, -1)]);
    assert_eq!(&targets[0], b"3456");
}

#[test]
fn close_completes_what_is_in_flight_within_a_second() {
    let server = Server::start();
    server.put("/a", &painted(100), "\"v\"");
    server.fail(&[Fault::Silent, Fault::Silent]);
    let opened = opened(|_| ());
    let name = c(&server.url("/a"));
    let mut targets = [[0u8; 100]; 2];
    for (ticket, target) in targets.iter_mut().enumerate() {
        let (user, target) = (opened.files.user, target.as_mut_ptr().cast());
        let read_async = opened.files.read_async.unwrap();
        let begun = unsafe { read_async(user, 9, ticket as u64, name.as_ptr(), 0, target, 100) };
        assert_eq!(begun, 0);
    }
    while server.requests().len() < 2 {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    drop(opened);
    assert!(begin.elapsed() < Duration::from_secs(1));
    let mut done = completions(9, 2);
    done.sort_unstable();
    assert_eq!(done, [(0, FILE_FAILED), (1, FILE_FAILED)]);
}

unsafe extern "C" fn collect(context: *mut c_void, child: *const c_char, is_folder: c_int) {
    let list = unsafe { &mut *context.cast::<Vec<(String, c_int)>>() };
    let child = unsafe { std::ffi::CStr::from_ptr(child) };
    list.push((child.to_str().unwrap().to_owned(), is_folder));
}

#[test]
fn the_hooks_of_c_read_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hooks");
    std::fs::create_dir_all(folder.join("child")).unwrap();
    let data = painted(1000);
    std::fs::write(folder.join("a"), &data).unwrap();
    let opened = opened(|_| ());
    let user = opened.files.user;
    let name = c(&format!("file://{}/a", folder.display()));
    let (mut part, mut got, mut size, mut version) = ([0u8; 50], 0, 0, [0u8; 32]);
    unsafe {
        assert_eq!(opened.files.size.unwrap()(user, name.as_ptr()), 1000);
        let target = part.as_mut_ptr().cast();
        assert_eq!(opened.files.read.unwrap()(user, name.as_ptr(), 9, target, 50), 0);
        assert_eq!(part, data[9..59]);
        let read_tail = opened.store.read_tail.unwrap();
        let tail =
            read_tail(user, name.as_ptr(), target, 50, &mut got, &mut size, version.as_mut_ptr());
        assert_eq!((tail, got, size), (0, 50, 1000));
        assert_eq!(part, data[950..]);
        let read_version = opened.store.read_version.unwrap();
        assert_eq!(read_version(user, name.as_ptr(), version.as_mut_ptr(), 1, target, 50), 0);
        version[0] ^= 1;
        assert_eq!(read_version(user, name.as_ptr(), version.as_mut_ptr(), 1, target, 50), -3);
        let mut list: Vec<(String, c_int)> = Vec::new();
        let listed = opened.store.list.unwrap()(
            user,
            c(folder.to_str().unwrap()).as_ptr(),
            Some(collect),
            (&raw mut list).cast(),
        );
        list.sort();
        assert_eq!((listed, list), (0, vec![("a".to_owned(), 0), ("child".to_owned(), 1)]));
        let folder = c(folder.to_str().unwrap());
        assert_eq!(opened.files.size.unwrap()(user, folder.as_ptr()), -1, "a folder is no file");
    }
    assert_eq!(opened.store.retries_itself, 1);
    assert!(opened.last_error().contains("changed"));
    let mut stats = StatsView { struct_size: size_of::<StatsView>(), ..StatsView::default() };
    assert_eq!(unsafe { wavetrain_remote_stats(opened.client, &mut stats) }, 0);
    assert_eq!((stats.requests, stats.sizes, stats.changed, stats.absent), (0, 2, 1, 1));
    assert_eq!(stats.bytes_read, 150);
}

#[test]
fn arguments_of_c_are_checked_with_a_text() {
    let opened = opened(|_| ());
    let user = opened.files.user;
    let latin = CString::new(vec![0xE4]).unwrap();
    unsafe {
        assert_eq!(opened.files.size.unwrap()(user, std::ptr::null()), FILE_FAILED);
        assert!(opened.last_error().contains("NULL"), "{}", opened.last_error());
        assert_eq!(opened.files.size.unwrap()(user, latin.as_ptr()), FILE_FAILED);
        assert!(opened.last_error().contains("UTF-8"), "{}", opened.last_error());
        let read = opened.files.read.unwrap();
        assert_eq!(read(user, c("/a").as_ptr(), 0, std::ptr::null_mut(), 5), FILE_FAILED);
        assert!(opened.last_error().contains("target"), "{}", opened.last_error());
    }
}

#[test]
fn configs_of_c_have_sizes_and_limits() {
    let mut config = RemoteConfig::default();
    let mut client = std::ptr::null_mut();
    let mut text = [0u8; 200];
    let mut fails = |config: &RemoteConfig, wanted: &str| unsafe {
        let opened = wavetrain_remote_open(config, &mut client, text.as_mut_ptr().cast(), 200);
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8_lossy(&text[..end]).into_owned();
        assert_eq!(opened, 1, "{text}");
        assert!(text.contains(wanted), "{text}");
    };
    config.reads_max = 0;
    fails(&config, "reads_max = 0");
    config = RemoteConfig { anonymous: 2, ..RemoteConfig::default() };
    fails(&config, "anonymous = 2");
    config = RemoteConfig { struct_size: 3, ..RemoteConfig::default() };
    fails(&config, "struct_size = 3");
    let option = c("aws_secret_access_key");
    let options = [option.as_ptr()];
    config = RemoteConfig { n_options: 1, options: options.as_ptr(), ..RemoteConfig::default() };
    fails(&config, "options[0]");
    let ca_file = c("/no/such/file");
    config = RemoteConfig { ca_file: ca_file.as_ptr(), ..RemoteConfig::default() };
    fails(&config, "ca_file = /no/such/file");
    // A caller with an older header has fewer members; its bytes after them are not looked at.
    config =
        RemoteConfig { struct_size: 48, reads_max: 9, anonymous: 77, ..RemoteConfig::default() };
    unsafe {
        assert_eq!(wavetrain_remote_open(&config, &mut client, std::ptr::null_mut(), 0), 0);
        assert_eq!((*client).config().reads_max, 9);
        assert_eq!(wavetrain_remote_close(client), 0);
    }
}

static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn report(user: *mut c_void, text: *const c_char) {
    assert_eq!(user as usize, 5);
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    REPORTED.lock().unwrap().push(text.to_str().unwrap().to_owned());
}

#[test]
fn failures_are_reported_as_they_happen() {
    let opened = opened(|config| {
        config.on_error = Some(report);
        config.on_error_user = 5 as *mut c_void;
    });
    let name = c("ftp://reported/a");
    assert_eq!(unsafe { opened.files.size.unwrap()(opened.files.user, name.as_ptr()) }, -2);
    assert!(REPORTED.lock().unwrap().iter().any(|text| text.contains("ftp://")));
}

#[test]
fn threads_have_names_and_a_bounded_number() {
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).filter(|name| name.starts_with("wtremote")).count()
    };
    // In a process of its own: other tests have clients too.
    if std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "client::threads_have_names_and_a_bounded_number"])
            .env("WAVETRAIN_REMOTE_ALONE", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let server = Server::start();
    server.put("/a", &painted(1000), "\"v\"");
    let opened = opened(|config| config.n_threads = 3);
    let client = unsafe { &*opened.client };
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(read(client, &server.url("/a"), 0, 1000).unwrap().len(), 1000);
                }
            });
        }
    });
    assert!((1..=3 + 3 + 1).contains(&names()), "{} threads", names());
    drop(opened);
    assert_eq!(names(), 0, "close joins them");
}

#[test]
fn a_child_of_fork_fails_with_a_text_and_never_hangs() {
    let server = Server::start();
    server.put("/a", &painted(10), "\"v\"");
    let client = open(quick());
    let url = server.url("/a");
    client.size(&url).unwrap();
    let child = unsafe { libc::fork() };
    if child == 0 {
        let first = client.size(&url);
        let second = client.size("/etc/hostname");
        let said = client.last_error();
        client.cancel();
        let stats = client.view();
        drop(client);
        let is_said = |text: &str| text.contains("child of fork");
        let fails = first.is_err_and(|error| is_said(&error.to_string()))
            && second.is_err_and(|error| is_said(&error.to_string()));
        let code = i32::from(!(fails && is_said(&said) && stats.sizes == 1));
        unsafe { libc::_exit(code) };
    }
    let begin = Instant::now();
    loop {
        let mut status = 0;
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
        if ended == child {
            assert_eq!(status, 0);
            break;
        }
        if begin.elapsed() > Duration::from_secs(20) {
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.size(&url).unwrap(), 10, "the parent goes on");
}

#[test]
fn a_changed_file_is_found() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("changing");
    std::fs::write(&path, b"first").unwrap();
    let name = path.to_str().unwrap();
    let client = open(quick());
    let version = client.read_tail(name, &mut [0; 5]).unwrap().version;
    std::fs::write(&path, b"longer").unwrap();
    let error = client.read_version(name, version, 0, &mut [0; 5]).unwrap_err();
    assert_eq!(error.kind, Kind::Changed);
    assert!(text(read(&client, name, 0, 7)).contains("6 bytes"));
}

#[test]
fn without_credentials_the_failure_says_so_soon() {
    let endpoint = Some("http://127.0.0.1:1".to_owned());
    let options = vec![("aws_metadata_endpoint".to_owned(), "http://127.0.0.1:1".to_owned())];
    let config = Config { endpoint, allow_http: true, options, retries_max: 50, ..quick() };
    let client = open(config);
    let begin = Instant::now();
    let error = text(client.size("s3://bucket/a"));
    assert!(error.contains("set credentials"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10));
}
