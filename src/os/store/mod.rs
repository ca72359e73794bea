//! Files by name: the system's, or the host's own through its hook.
//!
//! In: NUL-terminated paths. Out: bytes, or a [`Fault`] that tells a file that does not exist from
//! every other failure, because only the first is data (a missing chunk). This module continues
//! after EINTR and short reads, so that callers see whole reads only.
//!
//! A store is a [`Row`], and no other place knows which one it has: a new store is a file beside
//! `hook` with its row, and a line of [`Store::new`].

mod children;
mod hook;
mod metadata;
mod system;

pub use children::ChildName;
pub use hook::outcome;
pub use metadata::Metadata;

use crate::base::abi::{FilesHook, StoreHook};
use crate::base::arena::Region;
use crate::base::limits::PATH_BYTES_MAX;
use crate::base::snapshot::Snapshot;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, scheme};
use crate::base::version::{TOLD_BYTES, Version};
use crate::fail;
use crate::os::directory::Entry;
use crate::os::{Errno, FileKind, FileStat, Os, uninterrupted};
use core::fmt;

/// A path with its NUL.
pub type Path = Text<{ PATH_BYTES_MAX + 1 }>;

/// Why a file could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It does not exist (ENOENT, ENOTDIR, or the hook says so).
    Absent,
    /// It would have to be waited for.
    WouldBlock,
    /// It ends at this offset, before the last byte asked for.
    Ended(u64),
    /// The system says no.
    Failed(Errno),
    /// The host's hook says no.
    HookFailed,
    /// It is of another version than the one that is asked for.
    Changed,
    /// It is of another version than when its metadata was looked up for this loader.
    Outdated,
    /// The host gave so many bytes of the end of a file of so many.
    BadTail(u64, u64),
    /// It is a folder, a FIFO, a device.
    NotRegular(FileKind),
    /// The store does not list this folder, or any.
    Unlisted,
    /// The host lists a child that no path can have.
    BadChild(ChildName),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Absent => f.write_str("no such file"),
            Fault::WouldBlock => f.write_str("would block"),
            Fault::Ended(at) => write!(f, "the file ends at byte {at}"),
            Fault::Failed(errno) => errno.fmt(f),
            Fault::HookFailed => f.write_str("the files hook reports a failure"),
            Fault::Changed => f.write_str("it is of another version than before"),
            Fault::Outdated => f.write_str(
                "it has changed since wavetrain_metadata looked it up: look it up again",
            ),
            Fault::BadTail(got, bytes) => {
                write!(f, "store.read_tail gives {got} bytes of the end of a file of {bytes}")
            }
            Fault::NotRegular(kind) => write!(f, "is {kind}, not a regular file"),
            Fault::Unlisted => f.write_str("the store does not list folders"),
            Fault::BadChild(name) => write!(f, "store.list gives {name}"),
        }
    }
}

/// A network file system no longer knows the file of a descriptor or a name: it is opened again.
pub const STALE: Fault = Fault::Failed(Errno(libc::ESTALE));

/// Stands for a descriptor if a store has none.
pub const NO_FD: i32 = -1;

/// An open file: its descriptor or NO_FD, and what it looked like.
pub type Opened = (i32, FileStat);

/// How a listing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// Every name was seen.
    Whole,
    /// It has more names, or names that no text can show: not UTF-8, or control characters.
    Cut,
}

/// Gets the entries of a folder, one by one.
pub type Visit<'a> = dyn FnMut(&Entry<'_>) + 'a;

/// A kind of store: its functions, and what holds for it. A place that treats stores differently
/// asks for its reason.
#[derive(Clone, Copy)]
pub struct Row {
    /// Opens a file and looks at it.
    open: fn(&Store, &Path) -> Result<Opened, Fault>,
    /// Looks at an open file again.
    stat: fn(&Store, i32, &Path) -> Result<FileStat, Fault>,
    /// Looks at a file that is not open.
    stat_path: fn(&Store, &Path) -> Result<FileStat, Fault>,
    /// See [`Store::stat_link`].
    stat_link: fn(&Store, &Path) -> Result<FileStat, Errno>,
    /// See [`Store::list`].
    list: fn(&Store, &str, u32, &mut Visit<'_>) -> Result<(Listing, Version), Fault>,
    /// Fills the target from an offset of an open file, or says why not. With true at the end it
    /// never waits for storage and gives WouldBlock instead; the target may then be partly written.
    pub read: fn(&Store, Opened, &Path, &mut [u8], u64, bool) -> Result<(), Fault>,
    /// Fills the target with the last bytes of a file, or its start with all of a shorter one: what
    /// the file looks like, and how many bytes, in one request. Only if `has_tails`.
    tail: fn(&Store, &Path, &mut [u8]) -> Result<(FileStat, usize), Fault>,
    /// Begins a read that fills the target from an offset; it is the host's from here to its
    /// completion, which names the loader and the ticket. Err: the host takes no such read, and
    /// does not complete it.
    pub begin_read: fn(&Store, (u64, u64), (&Path, FileStat), Region, u64) -> Result<(), Fault>,
    /// Any read may take long: it cannot be tried in a page cache first.
    pub waits: bool,
    /// An open file is read by a descriptor of the system, wherever its path leads by now. A look
    /// at a path costs less than opening a file.
    pub has_descriptors: bool,
    /// Files lie in folders, and links may lead to them; both can be looked at themselves.
    pub has_folders: bool,
    /// Names are paths of the system: their lengths are limited, a relative one begins at the
    /// current folder, and none has a scheme.
    pub has_paths: bool,
    /// A look shows that a file has changed, and costs little. Else the version may be a round trip
    /// away: it is asked for when a file is opened.
    pub shows_changes: bool,
    /// The end of a file, its size and its version are one request.
    pub has_tails: bool,
    /// A read asks for the version of a file that is known, and fails if that is gone, so that
    /// nobody looks before it.
    asks_versions: bool,
    /// Reads so many bytes apart, at the most, become one, which has so many bytes at the most; 0:
    /// as many as the config says.
    pub merges: (u64, u64),
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Store {
    pub row: Row,
    os: &'static Os,
    hook: FilesHook,
    /// Functions that the files hook lacks.
    more: StoreHook,
    /// The host makes failed requests again itself: its no is final.
    pub retries_itself: bool,
    /// It counts the requests, and may make them late; None: nothing does.
    metadata: Option<&'static Metadata>,
    /// Metadata that is known.
    snapshot: Snapshot<'static>,
}

// SAFETY: the hook's contract is that its functions may be called from any thread.
unsafe impl Send for Store {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Store {}

/// Makes a call once more if a network file system lost the handle that it gave a moment ago.
fn twice<T, E: PartialEq>(stale: E, call: impl Fn() -> Result<T, E>) -> Result<T, E> {
    match call() {
        Err(fault) if fault == stale => call(),
        result => result,
    }
}

impl Store {
    /// Files of the hook if it has functions, else of the system.
    pub fn new(os: &'static Os, hook: FilesHook, more: StoreHook) -> Store {
        let row = if hook.size.is_some() { hook::row(&more) } else { system::ROW };
        let retries_itself = more.retries_itself != 0;
        Store { row, os, hook, more, retries_itself, metadata: None, snapshot: Snapshot::NONE }
    }

    /// The same files, for requests that are counted, and may be late.
    pub fn for_metadata(self, metadata: &'static Metadata) -> Store {
        Store { row: metadata.row(), metadata: Some(metadata), ..self }
    }

    /// The same files. Of what the snapshot has they are only looked at.
    pub fn with(self, snapshot: Snapshot<'static>) -> Store {
        Store { snapshot, ..self }
    }

    /// Ends all sleeps of late requests, and those to come.
    pub fn end_sleeps(&self) {
        self.metadata.into_iter().for_each(Metadata::end_sleeps);
    }

    /// Whether a request that failed is made once more: one to a network may fail by chance.
    fn makes_again(&self, fault: Fault) -> bool {
        fault == Fault::HookFailed && !self.retries_itself
    }

    /// Makes a request, once more if that may help.
    fn once_more<T>(&self, request: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        self.once_more_of(&mut [], |_| request())
    }

    /// The same of a request that has a target.
    fn once_more_of<T>(
        &self,
        target: &mut [u8],
        request: impl Fn(&mut [u8]) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let result = request(target);
        let is_again = |fault: Fault| fault == STALE || self.makes_again(fault);
        if result.as_ref().is_err_and(|fault| is_again(*fault)) { request(target) } else { result }
    }

    /// Refuses a path with a scheme, which no file system of ours reads: UNSUPPORTED. A hook gets
    /// it as it is.
    pub fn refuse_scheme(&self, path: &str, why: &mut Why) -> Result<(), Status> {
        let Some(name) = scheme(path).filter(|_| self.row.has_paths) else { return Ok(()) };
        Err(fail!(
            why,
            Unsupported,
            "{}: scheme {}:// is not read: mount the store and give its path, or answer for its \
             files in config.files",
            Tail(path, 200),
            Tail(name, 20)
        ))
    }

    /// Whether folders can be asked for their names, which may not be answered.
    pub fn has_listings(&self) -> bool {
        self.row.has_paths || self.more.list.is_some()
    }

    /// Opens a file and looks at it, once more if a network file system lost it between the two, or
    /// if that failed.
    pub fn open(&self, path: &Path) -> Result<Opened, Fault> {
        let (fd, stat) = self.once_more(|| (self.row.open)(self, path))?;
        self.check_known(path, stat).inspect_err(|_| self.close(fd))?;
        Ok((fd, stat))
    }

    /// Refuses a file that has changed since it was looked up.
    fn check_known(&self, path: &Path, now: FileStat) -> Result<(), Fault> {
        let has_changed =
            self.snapshot.has_changed(path.as_bytes(), now.version(), self.row.has_descriptors);
        if has_changed { Err(Fault::Outdated) } else { Ok(()) }
    }

    /// Opens a file for reads of metadata. One that is known is only looked at, and stays closed.
    pub fn open_document(&self, path: &Path) -> Result<Opened, Fault> {
        if !self.snapshot.knows(path.as_bytes()) {
            return self.open(path);
        }
        let stat = self.stat_path(path)?;
        if stat.kind != FileKind::REGULAR {
            return Err(Fault::NotRegular(stat.kind));
        }
        self.check_known(path, stat).map(|()| (NO_FD, stat))
    }

    /// Hands the entries of a folder to `visit`, in the order of the store; at most `names_max`
    /// of them. The version is that of the folder before it was listed: a name that is added
    /// meanwhile makes another one. A hook's folder has the names of its children for a version.
    /// [`Fault::Unlisted`]: nothing was visited or asked of the store.
    pub fn list(
        &self,
        folder: &str,
        names_max: u32,
        visit: &mut Visit<'_>,
    ) -> Result<(Listing, Version), Fault> {
        (self.row.list)(self, folder, names_max, visit)
    }

    /// The last bytes of a file that is not open, which is not empty: see [`Row::has_tails`]. How
    /// many they are; all of the file, if it is shorter than the target.
    pub fn read_tail(&self, path: &Path, target: &mut [u8]) -> Result<(FileStat, usize), Fault> {
        // Hosts ask for so many bytes of the end, and 0 of them is no such request.
        assert!(self.row.has_tails && !target.is_empty());
        if self.snapshot.knows(path.as_bytes()) {
            let stat = self.stat_path(path)?;
            self.check_known(path, stat)?;
            let got = usize::try_from(stat.bytes).map_or(target.len(), |all| all.min(target.len()));
            if let Some(known) = self.snapshot.bytes(path.as_bytes(), stat.bytes - got as u64, got)
            {
                target[..got].copy_from_slice(known);
                return Ok((stat, got));
            }
        }
        self.once_more_of(target, |target| (self.row.tail)(self, path, target))
    }

    /// Whether a read of a file that looked so fails if it is of another version.
    pub fn asks_for(&self, stat: FileStat) -> bool {
        self.row.asks_versions && stat.version().told() != [0; TOLD_BYTES]
    }

    /// Looks at what is open, a folder or a file of the system.
    pub fn stat_open(&self, fd: i32) -> Result<FileStat, Fault> {
        uninterrupted(|| (self.os.stat)(fd)).map_err(Fault::Failed)
    }

    /// Looks at an open file again.
    pub fn stat(&self, fd: i32, path: &Path) -> Result<FileStat, Fault> {
        (self.row.stat)(self, fd, path)
    }

    /// Looks at a file that is not open.
    pub fn stat_path(&self, path: &Path) -> Result<FileStat, Fault> {
        self.once_more(|| (self.row.stat_path)(self, path))
    }

    /// Looks at a path, and not at what a link at its end leads to. In a store without links it
    /// finds nothing.
    pub fn stat_link(&self, path: &Path) -> Result<FileStat, Errno> {
        (self.row.stat_link)(self, path)
    }

    /// Gives a descriptor back.
    pub fn close(&self, fd: i32) {
        if fd != NO_FD {
            (self.os.close)(fd);
        }
    }

    /// Reads, and may wait, once more if that failed; if the descriptor went stale, through another
    /// one that is opened for this read alone, if the file still looks like `stat`.
    pub fn read_again(
        &self,
        (fd, stat): Opened,
        path: &Path,
        target: &mut [u8],
        offset: u64,
    ) -> Result<(), Fault> {
        if let Some(known) = self.snapshot.bytes(path.as_bytes(), offset, target.len()) {
            target.copy_from_slice(known);
            return self.check_known(path, stat);
        }
        if fd == NO_FD && self.row.has_descriptors {
            // It was only looked at, and not all that is asked for is known.
            return self.read_through_another(stat, path, target, offset, Fault::Changed);
        }
        let mut read = || (self.row.read)(self, (fd, stat), path, target, offset, false);
        let mut result = read();
        if result.is_err_and(|fault| self.makes_again(fault)) {
            result = read();
        }
        if result != Err(STALE) {
            return result;
        }
        self.read_through_another(stat, path, target, offset, STALE)
    }

    /// Reads through a descriptor that is opened for this read alone; `fault`: the file does not
    /// look like `stat` any more.
    fn read_through_another(
        &self,
        stat: FileStat,
        path: &Path,
        target: &mut [u8],
        offset: u64,
        fault: Fault,
    ) -> Result<(), Fault> {
        let (again, now) = self.open(path)?;
        let result = match now == stat {
            true => (self.row.read)(self, (again, now), path, target, offset, false),
            false => Err(fault),
        };
        self.close(again);
        result
    }
}

#[cfg(test)]
mod tests;
