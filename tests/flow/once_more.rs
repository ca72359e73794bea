//! Requests of a files hook that fail once, as those of a network do.
//!
//! Every file fails its first size and its first read: documents, indexes of shards, chunks that
//! are files. All samples are right nonetheless, unless the host makes requests again itself.

use crate::common::drive::{config, first_failure, mixed_jobs, open, stream_as_configured};
use crate::common::hook;
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use wavetrain::abi::{FILE_FAILED, FilesHook};
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// The requests that were made: names, and whether they are for the size.
type Seen = Mutex<HashSet<(Vec<u8>, bool)>>;

/// Whether a request is made for the first time.
///
/// # Safety
/// As the hook's caller says; `user` is a [`Seen`].
unsafe fn is_first(user: *mut c_void, name: *const c_char, is_size: bool) -> bool {
    // SAFETY: as the caller says.
    let (seen, name) = unsafe { (&*user.cast::<Seen>(), CStr::from_ptr(name)) };
    seen.lock().unwrap().insert((name.to_bytes().to_vec(), is_size))
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as the hook's caller says.
    unsafe { if is_first(user, name, true) { FILE_FAILED } else { hook::size(user, name) } }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as the hook's caller says.
    unsafe {
        match is_first(user, name, false) {
            true => FILE_FAILED,
            false => hook::read(user, name, offset, target, bytes),
        }
    }
}

fn failing_once(seen: &Seen, thread_mode: u32) -> Config {
    let user = std::ptr::from_ref(seen).cast_mut().cast();
    let files = FilesHook { size: Some(size), read: Some(read), user, ..FilesHook::NONE };
    Config { files, thread_mode, ..config(Dtype::F32, &[16, 16], 3) }
}

#[test]
fn documents_indexes_sizes_and_chunks_are_asked_for_once_more() {
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let seen = Seen::default();
        stream_as_configured(&failing_once(&seen, thread_mode), &mixed_jobs(30));
        let names = seen.into_inner().unwrap();
        let is_document =
            |name: &[u8]| name.ends_with(b"/zarr.json") || name.ends_with(b"/.zarray");
        let failed_reads = |document| {
            names.iter().filter(|(name, is_size)| !is_size && is_document(name) == document).count()
        };
        assert!(failed_reads(true) > 5 && failed_reads(false) > 50, "{}", names.len());
    }
}

#[test]
fn a_host_that_makes_requests_again_itself_is_asked_once() {
    let (seen, jobs) = (Seen::default(), mixed_jobs(3));
    let mut config = failing_once(&seen, THREADS_OWN);
    config.store.retries_itself = 1;
    let loader = open(&config);
    let (_, failure) = first_failure(&loader, &jobs);
    assert_eq!(failure.status, Status::Io);
    assert!(failure.text.as_str().contains("files hook reports a failure"), "{failure}");
    drop(loader);
}
