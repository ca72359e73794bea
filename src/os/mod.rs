//! Every call into the operating system, behind one table of functions.
//!
//! In: plain numbers and byte strings. Out: results with the errno. Nothing above this module calls
//! libc, so a test that replaces one entry sees, fails or delays every such call of a loader.

pub mod allotted;
pub mod asked;
#[cfg(any(test, all(wavetrain_archive, not(wavetrain_panic_texts))))]
pub mod calls;
pub mod cancel;
pub mod cgroup;
mod clocks;
pub mod directory;
pub mod fatal;
pub mod folder;
pub mod futex;
pub mod loaded;
mod mapping;
pub mod memory;
pub mod numa;
#[cfg(wavetrain_archive)]
mod panic;
pub mod profiler;
pub mod segment;
pub mod sink;
pub mod socket;
pub mod store;
pub mod sync;
pub mod system_files;
pub mod thread_locals;
mod threads;
pub mod workers;

use crate::base::arena::Region;
use crate::base::cpus::CpuSet;
use crate::base::version::Version;
use crate::os::clocks::{now_ns, tick_ns, wall_tick_ns};
use crate::os::numa::Policy;
use crate::os::threads::{be_batch, name_thread, thread_join, thread_start};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU32;

pub use threads::{Thread, ThreadMain, ThreadStart, start_thread};

/// A failed system call's errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = match self.0 {
            libc::ENOENT => "no such file or directory",
            libc::EACCES => "permission denied",
            libc::EPERM => "operation not permitted",
            libc::EIO => "input/output error",
            libc::EISDIR => "is a directory",
            libc::ENOTDIR => "not a directory",
            libc::EMFILE => "too many open files in this process",
            libc::ENFILE => "too many open files in the system",
            libc::ELOOP => "too many symbolic links",
            libc::ENAMETOOLONG => "name too long",
            libc::ENOMEM => "out of memory",
            libc::ESTALE => "stale file handle",
            libc::EAGAIN => "resource temporarily unavailable",
            libc::EINTR => "interrupted",
            libc::EINVAL => "invalid argument",
            libc::ENOSPC => "no space left",
            libc::ENOSYS => "function not implemented",
            libc::EADDRINUSE => "address in use",
            libc::ECONNREFUSED => "no process listens",
            _ => return write!(f, "errno {}", self.0),
        };
        write!(f, "{name} (errno {})", self.0)
    }
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// Device that it lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of its contents, in nanoseconds; it wraps in 2262.
    pub modified_ns: i64,
    /// Last bytes of the version of an object; 0 of a file.
    pub tag: u64,
    /// What it is.
    pub kind: FileKind,
}

impl FileStat {
    /// A regular file of which nothing but the size is known.
    pub const fn of_bytes(bytes: u64) -> FileStat {
        FileStat { device: 0, inode: 0, bytes, modified_ns: 0, tag: 0, kind: FileKind::REGULAR }
    }

    /// A file that nobody looked at before it is read.
    pub const UNSEEN: FileStat = FileStat { kind: FileKind::UNSEEN, ..FileStat::of_bytes(0) };

    /// An object of that version.
    pub fn of_object(version: &Version) -> FileStat {
        let Version { device, inode, bytes, modified_ns, tag } = *version;
        FileStat { device, inode, bytes, modified_ns, tag, kind: FileKind::REGULAR }
    }

    /// The version, which tells this state of the file from others.
    pub fn version(&self) -> Version {
        let FileStat { device, inode, bytes, modified_ns, tag, .. } = *self;
        Version { device, inode, bytes, modified_ns, tag }
    }
}

/// What lies at a path, by the kernel's bits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileKind(libc::mode_t);

impl FileKind {
    /// It was not looked at: its first read does that.
    pub const UNSEEN: FileKind = FileKind(0);
    /// Bytes that end: all that is ever read.
    pub const REGULAR: FileKind = FileKind(libc::S_IFREG);
    /// A folder.
    pub const FOLDER: FileKind = FileKind(libc::S_IFDIR);
    /// A socket, which processes connect to.
    pub const SOCKET: FileKind = FileKind(libc::S_IFSOCK);
    /// A link, where it is looked at itself.
    pub const LINK: FileKind = FileKind(libc::S_IFLNK);
}

impl core::fmt::Display for FileKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            libc::S_IFREG => "a regular file",
            libc::S_IFDIR => "a folder",
            libc::S_IFLNK => "a link",
            libc::S_IFIFO => "a FIFO",
            libc::S_IFSOCK => "a socket",
            libc::S_IFCHR => "a character device",
            libc::S_IFBLK => "a block device",
            _ => "something else",
        })
    }
}

macro_rules! table {
    ($($(#[$note:meta])* $entry:ident: $type:ty = $real:expr;)*) => {
        /// The table. [`SYSTEM`] is the real one; every entry may be called from any thread.
        #[derive(Clone, Copy)]
        pub struct Os {
            $($(#[$note])* pub $entry: $type,)*
        }

        /// The real system.
        pub static SYSTEM: Os = Os { $($entry: $real,)* };
    };
}

table! {
    /// Maps `bytes` bytes of zeroed private memory, in huge pages where the system gives them.
    map: fn(bytes: u64) -> Result<NonNull<u8>, Errno> = map;
    /// Gives a mapping back.
    unmap: fn(block: NonNull<u8>, bytes: u64) = unmap;
    /// Gives the memory of whole pages of a mapping back before the rest of it. Their addresses
    /// stay taken until `unmap`, and an access to them ends the process. Their memory stays until
    /// then as well if the system refuses.
    vacate: fn(pages: NonNull<u8>, bytes: u64) = vacate;
    /// Refuses or allows, again, every access to whole pages. Not all memory of a caller knows it:
    /// EINVAL where its pages are huge.
    guard: fn(pages: NonNull<u8>, bytes: u64, is_on: bool) -> Result<(), Errno> = guard;
    /// Reserves addresses, and no memory, until `unmap`. An access to them ends the process.
    reserve: fn(bytes: u64) -> Result<Region, Errno> = mapping::reserve;
    /// Maps an open file from byte `first` on to WINDOW_BYTES reserved addresses, instead of what
    /// is there. An access to what the file does not have ends the process.
    map_file: fn(place: Region, fd: i32, first: u64) -> Result<(), Errno> = mapping::map_file;
    /// Whether an open file is of a file system whose files are mapped.
    is_mappable: fn(fd: i32) -> bool = mapping::is_mappable;
    /// A file without a name, of so many bytes that are all reserved, for memory that processes
    /// share.
    share_memory: fn(bytes: u64) -> Result<i32, Errno> = segment::share_memory;
    /// Called before each write into memory that processes share: for tests, which end the process
    /// there.
    before_store: fn() = || {};
    /// Opens a NUL-terminated path for reading, without waiting for whoever is at its other end.
    open: fn(path: &[u8]) -> Result<i32, Errno> = |path| open_with(path, 0);
    /// Opens a NUL-terminated path of a directory for reading its entries.
    open_directory: fn(path: &[u8]) -> Result<i32, Errno> =
        |path| open_with(path, libc::O_DIRECTORY);
    /// Reads the next entries of a directory as the kernel lays them out (getdents64), as many as
    /// fit; 0 behind the last.
    read_directory: fn(fd: i32, target: &mut [u8]) -> Result<usize, Errno> =
        directory::read_directory;
    /// Closes a descriptor.
    close: fn(fd: i32) = close;
    /// Looks at an open file.
    stat: fn(fd: i32) -> Result<FileStat, Errno> = stat;
    /// Looks at a NUL-terminated path.
    stat_path: fn(path: &[u8]) -> Result<FileStat, Errno> = stat_path;
    /// Looks at a NUL-terminated path, and not at what a link at its end leads to.
    stat_link: fn(path: &[u8]) -> Result<FileStat, Errno> = stat_link;
    /// Reads at an offset; may be short. With `cached_only` it gives EAGAIN or EOPNOTSUPP instead
    /// of waiting for storage.
    read: fn(fd: i32, target: &mut [u8], offset: u64, cached_only: bool) -> Result<usize, Errno> =
        read;
    /// Nanoseconds of a clock that never goes back.
    now_ns: fn() -> u64 = now_ns;
    /// The same clock at its last tick, a few milliseconds ago at most: for half the cost.
    tick_ns: fn() -> u64 = tick_ns;
    /// Sleeps while a word is 0, until the clock of `now_ns` shows a time at the latest.
    sleep: fn(word: &AtomicU32, deadline_ns: u64) = futex::sleep;
    /// The time of day at its last tick, from which file systems take times of change: nanoseconds
    /// since 1970.
    wall_tick_ns: fn() -> i64 = wall_tick_ns;
    /// Starts a thread with all signals blocked, on a stack of so many bytes.
    thread_start: fn(ThreadMain, argument: *mut c_void, *mut u8, u64) -> Result<Thread, Errno> =
        thread_start;
    /// Waits for a thread that is about to end.
    thread_join: fn(thread: Thread) = thread_join;
    /// This process.
    process_id: fn() -> i32 = process_id;
    /// The calling thread; never 0: no C library has a thread at address 0. Another thread may get
    /// the number once this one has ended.
    thread_id: fn() -> u64 = thread_id;
    /// The same by the kernel's number, which goes through all others before it is given out again;
    /// a system call, by its number, because older C libraries have no function for it.
    thread_number: fn() -> u64 = thread_number;
    /// Writes the path of the process's current folder; its bytes, without a NUL. ERANGE where it
    /// does not fit.
    current_folder: fn(target: &mut [u8]) -> Result<usize, Errno> = folder::current_folder;
    /// Reads a part of a file in which the system describes itself, by its NUL-terminated path; 0
    /// bytes at its end. Tests put files of another machine there.
    read_system: fn(path: &[u8], target: &mut [u8], offset: u64) -> Result<usize, Errno> =
        system_files::read_system;
    /// Writes the value of a variable of the environment, of a NUL-terminated name; its bytes. None
    /// if it is not set, or longer.
    variable: fn(name: &[u8], target: &mut [u8]) -> Option<usize> = allotted::variable;
    /// CPUs that this thread may run on; none if they are not known.
    cpus: fn() -> CpuSet = threads::cpus;
    /// Lets this thread run on these CPUs alone; the system leaves out those that the process may
    /// not use.
    keep_to_cpus: fn(cpus: &CpuSet) -> Result<(), Errno> = threads::keep_to_cpus;
    /// Soft limit of addresses; u64::MAX: no limit.
    address_bytes_max: fn() -> u64 = allotted::address_bytes_max;
    /// Soft limit of open files.
    open_files_max: fn() -> u64 = allotted::open_files_max;
    /// Lets another thread run.
    yield_now: fn() = yield_now;
    /// Makes the calling thread one that computes and lets others go first: SCHED_BATCH. A policy
    /// that somebody chose for it stays.
    be_batch: fn() -> Result<(), Errno> = be_batch;
    /// Names the calling thread, for debuggers and top. The name ends with a NUL, which is its 16th
    /// byte at the latest.
    name_thread: fn(name: &[u8]) -> Result<(), Errno> = name_thread;
    /// Has pages that are touched from now on taken from the nodes of a policy.
    bind_memory: fn(pages: NonNull<u8>, bytes: u64, policy: &Policy) -> Result<(), Errno> =
        numa::bind_memory;
    /// The policy by which the calling thread takes pages.
    memory_policy: fn() -> Result<Policy, Errno> = numa::memory_policy;
    /// Sets it.
    set_memory_policy: fn(policy: &Policy) -> Result<(), Errno> = numa::set_memory_policy;
    /// The NUMA node of the CPU that the calling thread runs on.
    current_node: fn() -> Result<u32, Errno> = numa::current_node;
    /// Writes to stderr, as much as goes.
    write_stderr: fn(text: &[u8]) = write_stderr;
}

/// Makes a call of the table, again for as long as a signal ends it. On a disk only waits are ended
/// so. File systems that ask a process or a server, as FUSE and NFS do, give EINTR for any call,
/// fstat too. Ends: signals do not come without end.
pub fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) => {}
            result => return result,
        }
    }
}

fn last_errno() -> Errno {
    // SAFETY: glibc and musl give a valid thread-local address.
    Errno(unsafe { *libc::__errno_location() })
}

/// What a call said that gives a negative number where it fails.
fn checked(result: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| last_errno())
}

/// A system call by its number, for which old C libraries have no function.
///
/// # Safety
/// The arguments are what the call asks for: what it reads and writes through them is there.
unsafe fn system_call(number: libc::c_long, arguments: [usize; 5]) -> Result<usize, Errno> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the caller vouches for the arguments; a sixth that is 0 means nothing to any call.
    checked(unsafe { libc::syscall(number, a, b, c, d, e, 0usize) })
}

fn map(bytes: u64) -> Result<NonNull<u8>, Errno> {
    // SAFETY: an anonymous private mapping touches no existing memory.
    unsafe {
        let block = libc::mmap(
            ptr::null_mut(),
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if block == libc::MAP_FAILED {
            return Err(last_errno());
        }
        // Only advice: where huge pages are off the small ones serve as well.
        libc::madvise(block, bytes as usize, libc::MADV_HUGEPAGE);
        NonNull::new(block.cast()).ok_or(Errno(libc::ENOMEM))
    }
}

fn unmap(block: NonNull<u8>, bytes: u64) {
    // SAFETY: the pair came from `map`.
    let failed = unsafe { libc::munmap(block.as_ptr().cast(), bytes as usize) };
    assert!(failed == 0);
}

/// Not munmap: another mapping could come to the addresses, and whoever used one by mistake would
/// read or write that. Not MADV_DONTNEED: it refuses locked pages (mlockall), and what reads them
/// by mistake would read zeros.
fn vacate(pages: NonNull<u8>, bytes: u64) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let (start, bytes) = (pages.as_ptr().cast(), bytes as usize);
    // SAFETY: the pages are of a mapping from `map`, and nobody uses them any more.
    let mapped = unsafe { libc::mmap(start, bytes, libc::PROT_NONE, flags, -1, 0) };
    // A system that has no room for one more mapping refuses, and has changed nothing.
    assert!(mapped == start || mapped == libc::MAP_FAILED);
}

fn guard(pages: NonNull<u8>, bytes: u64, is_on: bool) -> Result<(), Errno> {
    let access = if is_on { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
    // SAFETY: the pages are of a loader's block, which is readable and writable whenever somebody
    // uses it; the guard stands where nobody does.
    let result = unsafe { libc::mprotect(pages.as_ptr().cast(), bytes as usize, access) };
    checked(result.into()).map(|_| ())
}

/// Opens for reads of regular files. Of anything else the open returns as well: a FIFO that nobody
/// writes to, a terminal, which stays nobody's.
fn open_with(path: &[u8], flags: i32) -> Result<i32, Errno> {
    assert!(path.last() == Some(&0));
    let common = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | flags;
    let mut at_once = libc::O_NONBLOCK;
    loop {
        // SAFETY: the path is NUL-terminated by the assertion.
        let fd = unsafe { libc::open(path.as_ptr().cast(), common | at_once) };
        if fd >= 0 {
            return Ok(fd);
        }
        match last_errno() {
            // Somebody who holds a lease on the file, a Samba server, is told to give it up. That
            // is waited for, where nothing else would be.
            Errno(libc::EAGAIN) if at_once != 0 && is_regular(path) => at_once = 0,
            errno => return Err(errno),
        }
    }
}

fn is_regular(path: &[u8]) -> bool {
    stat_path(path).is_ok_and(|stat| stat.kind == FileKind::REGULAR)
}

fn close(fd: i32) {
    // SAFETY: the descriptor is ours. A failing close of a read-only file loses nothing.
    unsafe { libc::close(fd) };
}

fn stat(fd: i32) -> Result<FileStat, Errno> {
    // SAFETY: fstat writes the struct that it is given.
    stat_by(|found| unsafe { libc::fstat(fd, found) })
}

fn stat_path(path: &[u8]) -> Result<FileStat, Errno> {
    assert!(path.last() == Some(&0));
    // SAFETY: the path is NUL-terminated; stat writes the struct that it is given.
    stat_by(|found| unsafe { libc::stat(path.as_ptr().cast(), found) })
}

fn stat_link(path: &[u8]) -> Result<FileStat, Errno> {
    assert!(path.last() == Some(&0));
    // SAFETY: the path is NUL-terminated; lstat writes the struct that it is given.
    stat_by(|found| unsafe { libc::lstat(path.as_ptr().cast(), found) })
}

/// What `look` finds, which fills the whole struct where it gives 0.
fn stat_by(look: impl FnOnce(*mut libc::stat) -> i32) -> Result<FileStat, Errno> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    checked(look(found.as_mut_ptr()).into())?;
    // SAFETY: all bytes were zeroed, and zeroes are a valid struct stat.
    let stat = unsafe { found.assume_init() };
    Ok(FileStat {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size.max(0) as u64,
        modified_ns: stat.st_mtime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec),
        tag: 0,
        kind: FileKind(stat.st_mode & libc::S_IFMT),
    })
}

fn read(fd: i32, target: &mut [u8], offset: u64, cached_only: bool) -> Result<usize, Errno> {
    let Ok(offset) = i64::try_from(offset) else { return Err(Errno(libc::EOVERFLOW)) };
    // SAFETY: the vector describes `target`, which is writable for its whole length.
    let got = unsafe {
        if cached_only {
            let part = libc::iovec { iov_base: target.as_mut_ptr().cast(), iov_len: target.len() };
            // By its number: musl has preadv2 from 1.2.5 on. The high half of the offset is of
            // machines of 32 bits.
            libc::syscall(libc::SYS_preadv2, fd, &part, 1usize, offset, 0usize, libc::RWF_NOWAIT)
                as isize
        } else {
            libc::pread(fd, target.as_mut_ptr().cast(), target.len(), offset)
        }
    };
    checked(got as libc::c_long)
}

/// Stops the calling thread until the process ends.
pub fn sleep_forever() -> ! {
    loop {
        // SAFETY: has no preconditions. A signal handler that returns ends it, so it is a loop.
        unsafe { libc::pause() };
    }
}

fn process_id() -> i32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() }
}

fn thread_id() -> u64 {
    // SAFETY: pthread_self has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

fn thread_number() -> u64 {
    // SAFETY: gettid has no arguments and always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

fn yield_now() {
    // SAFETY: has no preconditions.
    unsafe { libc::sched_yield() };
}

fn write_stderr(text: &[u8]) {
    // SAFETY: reads `text` only. A closed stderr is no fault of the data path.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_enoent_and_a_directory_is_not_regular() {
        assert_eq!(open_with(b"/nonexistent/x\0", 0), Err(Errno(libc::ENOENT)));
        assert_eq!(stat_path(b"/\0").unwrap().kind, FileKind::FOLDER);
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now_ns();
        assert!(now_ns() >= first);
        assert!(threads::cpus().count() >= 1);
    }

    #[test]
    fn a_guard_goes_on_and_off_whole_pages_alone() {
        let block = map(2 * 4096).unwrap();
        assert_eq!(guard(block, 4096, true), Ok(()));
        // SAFETY: the second page is readable and writable, like both once the guard is off.
        unsafe {
            block.add(4096).write_volatile(7);
            assert_eq!(guard(block, 4096, false), Ok(()));
            block.write_volatile(7);
            assert_eq!(guard(block.add(1), 4096, true), Err(Errno(libc::EINVAL)));
        }
        unmap(block, 2 * 4096);
    }
}
