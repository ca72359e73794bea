//! The row of files that only the host can read: `config.files`.
//!
//! The host knows names, sizes and bytes: no folders, no links, no times of change.

use crate::base::abi::FILE_ABSENT;
use crate::os::store::{Fault, NO_FD, Path, Row, Store};
use crate::os::{Errno, FileStat};

pub const ROW: Row = Row {
    open: |store, path| Ok((NO_FD, stat_path(store, path)?)),
    stat: |store, _, path| store.once_more(|| stat_path(store, path)),
    stat_path,
    stat_link: |_, _| Err(Errno(libc::ENOENT)),
    list: |_, _, _, _| Err(Fault::Unlisted),
    read: |store, _, path, target, offset, _| {
        let Some(read) = store.hook.read else { return Err(Fault::HookFailed) };
        let name = path.as_bytes_nul().as_ptr().cast();
        let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
        // SAFETY: the path is NUL-terminated; `target` is writable for `bytes` bytes; both outlive
        // the call.
        outcome(unsafe { read(store.hook.user, name, offset, start, bytes) })
    },
    begin_read: |store, (loader, ticket), (path, _), target, offset| {
        let Some(begin) = store.hook.read_async else { return Err(Fault::HookFailed) };
        let (name, user) = (path.as_bytes_nul().as_ptr().cast(), store.hook.user);
        let (start, bytes) = (target.as_ptr().cast(), target.bytes());
        // SAFETY: the path is NUL-terminated and outlives the call; the target is writable for
        // `bytes` bytes and nobody else touches it until the completion, or for good.
        outcome(unsafe { begin(user, loader, ticket, name, offset, start, bytes) })
    },
    waits: true,
    has_descriptors: false,
    has_folders: false,
    has_paths: false,
    shows_changes: false,
    merges: (0, u64::MAX),
};

fn stat_path(store: &Store, path: &Path) -> Result<FileStat, Fault> {
    let Some(size) = store.hook.size else { return Err(Fault::HookFailed) };
    // SAFETY: the path is NUL-terminated and outlives the call, as the hook's contract asks.
    let answer = unsafe { size(store.hook.user, path.as_bytes_nul().as_ptr().cast()) };
    outcome(answer.min(0)).map(|()| FileStat::of_bytes(answer as u64))
}

/// The meaning of the host's answer.
pub fn outcome(answer: i64) -> Result<(), Fault> {
    match answer {
        0 => Ok(()),
        FILE_ABSENT => Err(Fault::Absent),
        _ => Err(Fault::HookFailed),
    }
}
