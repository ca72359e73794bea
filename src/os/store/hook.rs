//! The row of files that only the host can read: `config.files`, and `config.store` beside it.
//!
//! The host knows names, sizes and bytes: no links, no times of change, and no folders, unless it
//! lists them (`store.list`). It may tell versions of its objects: reads then ask for the one that
//! is known. Whatever it answers, bytes of two versions never meet.

use crate::base::abi::{FILE_ABSENT, FILE_CHANGED, StoreHook};
use crate::base::arena::Region;
use crate::base::version::{TOLD_BYTES, Version};
use crate::os::store::{Fault, NO_FD, Opened, Path, Row, Store, children};
use crate::os::{Errno, FileStat};

/// The row of a host that has these functions beside those of its files hook.
pub fn row(more: &StoreHook) -> Row {
    Row {
        has_tails: more.read_tail.is_some(),
        asks_versions: more.read_version.is_some(),
        merges: (more.merge_gap_bytes, more.merge_bytes_max),
        ..ROW
    }
}

const ROW: Row = Row {
    open: |store, path| Ok((NO_FD, stat_path(store, path)?)),
    stat: |store, _, path| store.once_more(|| stat_path(store, path)),
    stat_path,
    stat_link: |_, _| Err(Errno(libc::ENOENT)),
    list: children::list,
    read,
    tail,
    begin_read,
    waits: true,
    has_descriptors: false,
    has_folders: false,
    has_paths: false,
    shows_changes: false,
    has_tails: false,
    asks_versions: false,
    merges: (0, 0),
};

fn read(
    store: &Store,
    (_, stat): Opened,
    path: &Path,
    target: &mut [u8],
    offset: u64,
    _: bool,
) -> Result<(), Fault> {
    if store.more.read_version.is_some() {
        return read_version(store, path, &stat.version().told(), target, offset).map(|_| ());
    }
    let Some(read) = store.hook.read else { return Err(Fault::HookFailed) };
    let name = path.as_bytes_nul().as_ptr().cast();
    let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
    // SAFETY: the path is NUL-terminated; `target` is writable for `bytes` bytes; both outlive the
    // call.
    outcome(unsafe { read(store.hook.user, name, offset, start, bytes) })
}

/// Reads of the version that is asked for; zeros: of any. The version that was read.
fn read_version(
    store: &Store,
    path: &Path,
    asked: &[u8; TOLD_BYTES],
    target: &mut [u8],
    offset: u64,
) -> Result<[u8; TOLD_BYTES], Fault> {
    let Some(read) = store.more.read_version else { return Err(Fault::HookFailed) };
    let (name, mut told) = (path.as_bytes_nul().as_ptr().cast(), *asked);
    let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
    // SAFETY: the path is NUL-terminated; `target` is writable for `bytes` bytes, and the version
    // for its own; all outlive the call.
    let answer = unsafe { read(store.hook.user, name, told.as_mut_ptr(), offset, start, bytes) };
    outcome(answer)?;
    // A host that reads another version than it was asked for is not believed.
    if *asked != [0; TOLD_BYTES] && told != *asked { Err(Fault::Changed) } else { Ok(told) }
}

fn tail(store: &Store, path: &Path, target: &mut [u8]) -> Result<(FileStat, usize), Fault> {
    let Some(read_tail) = store.more.read_tail else { return Err(Fault::HookFailed) };
    let (user, name) = (store.hook.user, path.as_bytes_nul().as_ptr().cast());
    let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
    let (mut got, mut size, mut told) = (0, 0, [0; TOLD_BYTES]);
    // SAFETY: the path is NUL-terminated; `target` is writable for `bytes` bytes, the numbers and
    // the version for their own; all outlive the call.
    let answer = unsafe {
        read_tail(user, name, start, bytes, &raw mut got, &raw mut size, told.as_mut_ptr())
    };
    outcome(answer)?;
    if got != size.min(bytes) || size > i64::MAX as u64 {
        return Err(Fault::BadTail(got, size));
    }
    Ok((FileStat::of_object(&Version::of_object(size, &told)), got as usize))
}

fn begin_read(
    store: &Store,
    (loader, ticket): (u64, u64),
    (path, stat): (&Path, FileStat),
    target: Region,
    offset: u64,
) -> Result<(), Fault> {
    let (name, user) = (path.as_bytes_nul().as_ptr().cast(), store.hook.user);
    let (start, bytes) = (target.as_ptr().cast(), target.bytes());
    if let Some(begin) = store.more.read_version_async {
        let mut asked = stat.version().told();
        let asked = asked.as_mut_ptr();
        // SAFETY: the path is NUL-terminated; it and the version outlive the call; the target is
        // writable for `bytes` bytes and nobody else touches it until the completion, or for good.
        return outcome(unsafe { begin(user, loader, ticket, name, asked, offset, start, bytes) });
    }
    let Some(begin) = store.hook.read_async else { return Err(Fault::HookFailed) };
    // SAFETY: as before.
    outcome(unsafe { begin(user, loader, ticket, name, offset, start, bytes) })
}

fn stat_path(store: &Store, path: &Path) -> Result<FileStat, Fault> {
    if store.more.read_tail.is_some() {
        return tail(store, path, &mut [0]).map(|(stat, _)| stat);
    }
    let Some(size) = store.hook.size else { return Err(Fault::HookFailed) };
    // The size is asked for after the version: if the object is replaced between the two, reads
    // of that version fail.
    let told = match store.more.read_version {
        None => Ok([0; TOLD_BYTES]),
        Some(_) => read_version(store, path, &[0; TOLD_BYTES], &mut [0], 0),
    };
    if told.is_err_and(|fault| fault != Fault::HookFailed) {
        told?;
    }
    // SAFETY: the path is NUL-terminated and outlives the call, as the hook's contract asks.
    let answer = unsafe { size(store.hook.user, path.as_bytes_nul().as_ptr().cast()) };
    outcome(answer.min(0))?;
    // An empty file has no first byte to read.
    let told = if answer == 0 { [0; TOLD_BYTES] } else { told? };
    Ok(FileStat::of_object(&Version::of_object(answer as u64, &told)))
}

/// The meaning of the host's answer.
pub fn outcome(answer: i64) -> Result<(), Fault> {
    match answer {
        0 => Ok(()),
        FILE_ABSENT => Err(Fault::Absent),
        FILE_CHANGED => Err(Fault::Changed),
        _ => Err(Fault::HookFailed),
    }
}
