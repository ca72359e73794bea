//! Files by name: the system's, or the host's own through its hook.
//!
//! In: NUL-terminated paths. Out: bytes, or a [`Fault`] that tells a file that does not exist from
//! every other failure, because only the first is data (a missing chunk). EINTR and short reads go
//! on here, so that callers see whole reads only.

use crate::base::abi::{FILE_ABSENT, FilesHook};
use crate::base::arena::Region;
use crate::base::limits::{DIRECT_ALIGN, PATH_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, scheme};
use crate::fail;
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
    /// It is a folder, a FIFO, a device.
    NotRegular(FileKind),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Absent => f.write_str("no such file"),
            Fault::WouldBlock => f.write_str("would block"),
            Fault::Ended(at) => write!(f, "the file ends at byte {at}"),
            Fault::Failed(errno) => errno.fmt(f),
            Fault::HookFailed => f.write_str("the files hook reports a failure"),
            Fault::NotRegular(kind) => write!(f, "is {kind}, not a regular file"),
        }
    }
}

fn fault_from(errno: Errno) -> Fault {
    match errno.0 {
        libc::ENOENT | libc::ENOTDIR => Fault::Absent,
        _ => Fault::Failed(errno),
    }
}

/// A network file system no longer knows the file of a descriptor or a name: it is opened again.
pub const STALE: Fault = Fault::Failed(Errno(libc::ESTALE));

/// Descriptor of a file that a hook reads.
pub const HOOK_FD: i32 = -1;

/// What is open of a data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// For reads through the page cache.
    pub fd: i32,
    /// For reads past it, aligned to DIRECT_ALIGN, where the store opens such and the file has
    /// them.
    pub direct: Option<i32>,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Store {
    os: &'static Os,
    hook: FilesHook,
    reads_direct: bool,
}

// SAFETY: the hook's contract is that its functions may be called from any thread.
unsafe impl Send for Store {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Store {}

impl Store {
    /// Files of the hook where it has functions, else of the system; `reads_direct` asks that data
    /// files are opened for direct reads as well.
    pub fn new(os: &'static Os, hook: FilesHook, reads_direct: bool) -> Store {
        Store { os, hook, reads_direct }
    }

    /// Whether reads go to the host, where waiting cannot be avoided.
    pub fn uses_hook(&self) -> bool {
        self.hook.size.is_some()
    }

    /// Refuses a path with a scheme, which no file system of ours reads: UNSUPPORTED. A hook gets
    /// it as it is.
    pub fn refuse_scheme(&self, path: &str, why: &mut Why) -> Result<(), Status> {
        let Some(name) = scheme(path).filter(|_| !self.uses_hook()) else { return Ok(()) };
        Err(fail!(
            why,
            Unsupported,
            "{}: scheme {}:// is not read: mount the store and give its path, or answer for its \
             files in config.files",
            Tail(path, 200),
            Tail(name, 20)
        ))
    }

    /// Whether reads of chunk data can be begun now and end later.
    #[cfg(feature = "internals")]
    pub fn reads_async(&self) -> bool {
        self.hook.read_async.is_some()
    }

    /// Begins a read that fills `target`, which is the host's from here to its completion. `loader`
    /// and `ticket` are what it comes back with. Err: the host takes no such read, and there is no
    /// completion.
    pub fn begin_read(
        &self,
        (loader, ticket): (u64, u64),
        path: &Path,
        target: Region,
        offset: u64,
    ) -> Result<(), Fault> {
        let Some(begin) = self.hook.read_async else { return Err(Fault::HookFailed) };
        let name = path.as_bytes_nul().as_ptr().cast();
        let (start, bytes) = (target.as_ptr().cast(), target.bytes());
        // SAFETY: the path is NUL-terminated and outlives the call; the target is writable for
        // `bytes` bytes and nobody else touches it until the completion, or for good.
        let taken = unsafe { begin(self.hook.user, loader, ticket, name, offset, start, bytes) };
        if taken == 0 { Ok(()) } else { Err(Fault::HookFailed) }
    }

    /// Opens a file and looks at it, once more where a network file system lost it between the two.
    /// The descriptor is HOOK_FD for a hook's file.
    pub fn open(&self, path: &Path) -> Result<(i32, FileStat), Fault> {
        if self.uses_hook() {
            return Ok((HOOK_FD, self.hook_stat(path)?));
        }
        match self.open_once(path) {
            Err(STALE) => self.open_once(path),
            opened => opened,
        }
    }

    fn open_once(&self, path: &Path) -> Result<(i32, FileStat), Fault> {
        let fd = match uninterrupted(|| (self.os.open)(path.as_bytes_nul())) {
            // A socket, or a device that there is no driver for, cannot be opened at all.
            Err(Errno(libc::ENXIO)) => return Err(self.no_such_device(path)),
            opened => opened.map_err(fault_from)?,
        };
        match self.look_at(fd) {
            Ok(FileStat { kind, .. }) if kind != FileKind::REGULAR => {
                (self.os.close)(fd);
                Err(Fault::NotRegular(kind))
            }
            Ok(stat) => Ok((fd, stat)),
            Err(errno) => {
                (self.os.close)(fd);
                Err(Fault::Failed(errno))
            }
        }
    }

    fn no_such_device(&self, path: &Path) -> Fault {
        match self.look_at_path(path) {
            Ok(FileStat { kind, .. }) if kind != FileKind::REGULAR => Fault::NotRegular(kind),
            _ => Fault::Failed(Errno(libc::ENXIO)),
        }
    }

    /// Opens a folder for [`Store::read_directory`]. A hook lists none.
    pub fn open_directory(&self, path: &Path) -> Result<i32, Fault> {
        if self.uses_hook() {
            return Err(Fault::HookFailed);
        }
        let open_once = || (self.os.open_directory)(path.as_bytes_nul());
        let open = || uninterrupted(open_once).map_err(fault_from);
        match open() {
            Err(STALE) => open(),
            opened => opened,
        }
    }

    /// Looks at what is open, a folder or a file of the system.
    pub fn stat_open(&self, fd: i32) -> Result<FileStat, Fault> {
        self.look_at(fd).map_err(Fault::Failed)
    }

    /// The next entries of a folder, for [`crate::os::directory::Entries`]; 0 bytes behind the
    /// last.
    pub fn read_directory(&self, fd: i32, buffer: &mut [u8]) -> Result<usize, Fault> {
        uninterrupted(|| (self.os.read_directory)(fd, buffer)).map_err(Fault::Failed)
    }

    /// Opens a data file and looks at it.
    pub fn open_data(&self, path: &Path) -> Result<(Descriptors, FileStat), Fault> {
        let (fd, stat) = self.open(path)?;
        if !self.reads_direct || self.uses_hook() {
            return Ok((Descriptors { fd, direct: None }, stat));
        }
        Ok((Descriptors { fd, direct: self.open_direct(path, stat) }, stat))
    }

    /// None where the file has no direct reads, where no descriptor is left for them, or where it
    /// is another file by now: it is then read through the page cache, which always works.
    fn open_direct(&self, path: &Path, stat: FileStat) -> Option<i32> {
        let (fd, align) = uninterrupted(|| (self.os.open_direct)(path.as_bytes_nul())).ok()?;
        let is_fine = u64::from(align.memory.max(align.offset)) <= DIRECT_ALIGN
            && self.look_at(fd) == Ok(stat);
        if !is_fine {
            (self.os.close)(fd);
        }
        is_fine.then_some(fd)
    }

    /// Looks at an open file again.
    pub fn stat(&self, fd: i32, path: &Path) -> Result<FileStat, Fault> {
        if self.uses_hook() { self.hook_stat(path) } else { self.stat_open(fd) }
    }

    fn look_at(&self, fd: i32) -> Result<FileStat, Errno> {
        uninterrupted(|| (self.os.stat)(fd))
    }

    fn look_at_path(&self, path: &Path) -> Result<FileStat, Errno> {
        uninterrupted(|| (self.os.stat_path)(path.as_bytes_nul()))
    }

    /// Looks at a file that is not open.
    pub fn stat_path(&self, path: &Path) -> Result<FileStat, Fault> {
        if self.uses_hook() {
            return self.hook_stat(path);
        }
        let looked = match self.look_at_path(path) {
            Err(Errno(libc::ESTALE)) => self.look_at_path(path),
            looked => looked,
        };
        looked.map_err(fault_from)
    }

    /// Looks at a path, and not at what a link at its end leads to. A hook knows no links: nothing
    /// lies there.
    pub fn stat_link(&self, path: &Path) -> Result<FileStat, Errno> {
        if self.uses_hook() {
            return Err(Errno(libc::ENOENT));
        }
        match (self.os.stat_link)(path.as_bytes_nul()) {
            Err(Errno(libc::ESTALE)) => (self.os.stat_link)(path.as_bytes_nul()),
            looked => looked,
        }
    }

    /// Gives a descriptor back.
    pub fn close(&self, fd: i32) {
        if fd != HOOK_FD {
            (self.os.close)(fd);
        }
    }

    /// Gives the descriptors of a data file back.
    pub fn close_data(&self, open: Descriptors) {
        self.close(open.fd);
        open.direct.into_iter().for_each(|fd| self.close(fd));
    }

    /// Fills `target` from `offset`, or says why not. With `cached_only` it never waits for
    /// storage and gives WouldBlock instead; `target` may then be partly written.
    pub fn read_exact(
        &self,
        fd: i32,
        path: &Path,
        target: &mut [u8],
        offset: u64,
        cached_only: bool,
    ) -> Result<(), Fault> {
        if self.uses_hook() {
            return self.hook_read(path, target, offset);
        }
        let mut done = 0usize;
        // Ends: every turn reads at least a byte, or returns.
        while done < target.len() {
            let at = offset.checked_add(done as u64).ok_or(Fault::Ended(u64::MAX))?;
            let rest = &mut target[done..];
            match uninterrupted(|| (self.os.read)(fd, rest, at, cached_only)) {
                Ok(0) => return Err(Fault::Ended(at)),
                Ok(got) => done += got,
                Err(Errno(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS)) if cached_only => {
                    return Err(Fault::WouldBlock);
                }
                Err(errno) => return Err(Fault::Failed(errno)),
            }
        }
        Ok(())
    }

    /// The same, and it may wait; where the descriptor went stale, through another one that is
    /// opened for this read alone, if the file still looks like `stat`.
    pub fn read_again(
        &self,
        (fd, stat): (i32, FileStat),
        path: &Path,
        target: &mut [u8],
        offset: u64,
    ) -> Result<(), Fault> {
        let result = self.read_exact(fd, path, target, offset, false);
        if result != Err(STALE) {
            return result;
        }
        let (again, now) = self.open(path)?;
        let result = match now == stat {
            true => self.read_exact(again, path, target, offset, false),
            false => Err(STALE),
        };
        self.close(again);
        result
    }

    fn hook_stat(&self, path: &Path) -> Result<FileStat, Fault> {
        let Some(size) = self.hook.size else { return Err(Fault::HookFailed) };
        // SAFETY: the path is NUL-terminated and outlives the call, as the hook's contract asks.
        let bytes = unsafe { size(self.hook.user, path.as_bytes_nul().as_ptr().cast()) };
        match bytes {
            FILE_ABSENT => Err(Fault::Absent),
            bytes if bytes < 0 => Err(Fault::HookFailed),
            bytes => Ok(FileStat::of_bytes(bytes as u64)),
        }
    }

    fn hook_read(&self, path: &Path, target: &mut [u8], offset: u64) -> Result<(), Fault> {
        let Some(read) = self.hook.read else { return Err(Fault::HookFailed) };
        let name = path.as_bytes_nul().as_ptr().cast();
        let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
        // SAFETY: the path is NUL-terminated; `target` is writable for `bytes` bytes; both outlive
        // the call.
        match unsafe { read(self.hook.user, name, offset, start, bytes) } {
            0 => Ok(()),
            FILE_ABSENT => Err(Fault::Absent),
            _ => Err(Fault::HookFailed),
        }
    }
}
