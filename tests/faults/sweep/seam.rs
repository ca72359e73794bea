//! A table of system calls that counts every call, keeps a ledger of what is taken and given back,
//! and lets the n-th call of a kind go wrong.
//!
//! In: a [`Plan`]. Out: a [`Record`] of what was met and left. One sweep runs at a time, because a
//! table has no room for state of its own: all of it is behind the one lock here, which is never
//! held while the system works.
//!
//! Invariant: what a faulty call leaves of its target is overwritten, so that a byte that nobody
//! brought is a wrong byte.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED};
use wavetrain::base::arena::Region;
use wavetrain::os::{Errno, FileStat, Os, SYSTEM, Thread, ThreadMain};

/// The kinds of calls that can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Call {
    Map,
    /// Addresses for mapped files.
    Reserve,
    /// A file that is mapped to them.
    MapFile,
    Thread,
    Open,
    OpenDirectory,
    ReadDirectory,
    Stat,
    StatPath,
    StatLink,
    /// A read that only the page cache answers.
    Probe,
    Read,
    /// The allocator of the host.
    Alloc,
    /// The files hook of the host.
    HookSize,
    HookRead,
    HookReadAsync,
}

pub const CALLS: [Call; 16] = [
    Call::Map,
    Call::Reserve,
    Call::MapFile,
    Call::Thread,
    Call::Open,
    Call::OpenDirectory,
    Call::ReadDirectory,
    Call::Stat,
    Call::StatPath,
    Call::StatLink,
    Call::Probe,
    Call::Read,
    Call::Alloc,
    Call::HookSize,
    Call::HookRead,
    Call::HookReadAsync,
];

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// An errno.
    Fails(i32),
    /// One byte comes.
    OneByte,
    /// Half of the bytes come.
    Half,
    /// No byte comes: the file ends.
    Ends,
    /// This call and the next ones, so many in all, are interrupted.
    Interrupted(u64),
    /// The call ends once others went on, or once no other does.
    Slow,
    /// The file is a byte longer than it is.
    Longer,
    /// It has half of its bytes.
    Shorter,
    /// It was written a moment later than it was.
    Later,
    /// A block that is not aligned.
    Misaligned,
    /// The hook of the host says that there is no such file.
    Absent,
    /// A read that the host has begun ends in a failure.
    EndsFailed,
    /// The same, and there is no such file.
    EndsAbsent,
    /// It ends before read_async has returned.
    AtOnce,
    /// It is completed twice.
    Twice,
    /// It ends when close waits for it, and not before.
    Held,
}

/// Which calls of the kind go wrong, from number n on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Extent {
    /// The n-th alone.
    Once,
    /// The n-th, and all calls of any kind on the same descriptor until it is closed.
    Descriptor,
    /// The n-th, and all of its kind for the same file.
    File,
    /// The n-th and all behind it.
    Onward,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub call: Call,
    pub number: u64,
    pub fault: Fault,
    pub extent: Extent,
}

/// What a run met and left behind.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Calls of each kind.
    pub counts: BTreeMap<Call, u64>,
    /// Paths that a faulty call was for; empty names for calls that are for none.
    pub hit: BTreeSet<String>,
    /// Calls that went wrong.
    pub hits: u64,
    /// The n-th call was the first of any kind for its file.
    pub is_first_of_file: bool,
}

#[derive(Default)]
struct Seam {
    plan: Option<Plan>,
    is_cold: bool,
    record: Record,
    total: u64,
    /// The file that `Extent::File` is about.
    file: Option<String>,
    /// The descriptor that `Extent::Descriptor` is about.
    descriptor: Option<i32>,
    seen: BTreeSet<String>,
    open: HashMap<i32, String>,
    blocks: HashMap<usize, u64>,
    allocated: HashMap<usize, u64>,
    threads: i64,
    wrongs: Vec<String>,
    last: VecDeque<String>,
}

static SEAM: Mutex<Option<Seam>> = Mutex::new(None);

struct Lock(MutexGuard<'static, Option<Seam>>);

impl std::ops::Deref for Lock {
    type Target = Seam;
    fn deref(&self) -> &Seam {
        self.0.as_ref().expect("a run")
    }
}

impl std::ops::DerefMut for Lock {
    fn deref_mut(&mut self) -> &mut Seam {
        self.0.as_mut().expect("a run")
    }
}

fn seam() -> Lock {
    let mut guard = SEAM.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_default();
    Lock(guard)
}

/// Begins a run: nothing was counted, nothing is open. `is_cold`: no byte is in the page cache.
pub fn begin(plan: Option<Plan>, is_cold: bool) {
    *seam() = Seam { plan, is_cold, ..Seam::default() };
}

/// From here on nothing goes wrong; what was met until now.
pub fn disarm() -> Record {
    let seam = &mut *seam();
    seam.plan = None;
    seam.record.clone()
}

/// What was taken and not given back, and what was given back that was not taken.
pub fn leftovers() -> Vec<String> {
    let seam = &*seam();
    let mut found = seam.wrongs.clone();
    found.extend(seam.open.values().map(|path| format!("{path} is open")));
    found.extend(seam.blocks.values().map(|bytes| format!("{bytes} bytes are mapped")));
    found.extend(seam.allocated.values().map(|bytes| format!("{bytes} bytes are allocated")));
    if seam.threads != 0 {
        found.push(format!("{} threads", seam.threads));
    }
    found
}

/// Everything that is known, for a run that hangs. Does not wait for the lock.
pub fn dump() -> String {
    let Ok(guard) = SEAM.try_lock() else { return "the seam is locked".to_string() };
    let Some(seam) = guard.as_ref() else { return "no run".to_string() };
    let last: Vec<&str> = seam.last.iter().map(String::as_str).collect();
    format!(
        "{:?}\n{:?}\nopen: {:?}\nthreads {}\nlast calls:\n  {}",
        seam.plan,
        seam.record,
        seam.open,
        seam.threads,
        last.join("\n  ")
    )
}

/// Counts a call and says what is to go wrong with it. A slow call has been waited for.
pub fn meet(call: Call, path: &str) -> Option<Fault> {
    meet_on(call, path, None)
}

/// The same for a call on a descriptor.
fn meet_on(call: Call, path: &str, fd: Option<i32>) -> Option<Fault> {
    let fault = {
        let seam = &mut *seam();
        let number = *seam.record.counts.entry(call).and_modify(|n| *n += 1).or_insert(1) - 1;
        seam.total += 1;
        if seam.last.len() == 24 {
            seam.last.pop_front();
        }
        seam.last.push_back(format!("{call:?} {number} {path}"));
        let is_first = !path.is_empty() && seam.seen.insert(path.to_string());
        let plan = seam.plan?;
        if plan.call == call && number == plan.number {
            seam.file = Some(path.to_string());
            seam.descriptor = fd;
            seam.record.is_first_of_file = is_first;
        }
        let is_descriptor = plan.extent == Extent::Descriptor;
        if plan.call != call && !is_descriptor {
            return None;
        }
        let limit = match plan.fault {
            Fault::Interrupted(count) => plan.number + count,
            _ => plan.number + 1,
        };
        let is_met = match plan.extent {
            Extent::Once => (plan.number..limit).contains(&number),
            Extent::Onward => number >= plan.number,
            Extent::Descriptor => fd.is_some() && seam.descriptor == fd,
            Extent::File => number >= plan.number && seam.file.as_deref() == Some(path),
        };
        if !is_met {
            return None;
        }
        seam.record.hit.insert(path.to_string());
        seam.record.hits += 1;
        plan.fault
    };
    match fault {
        Fault::Slow => {
            let_others_go_on();
            None
        }
        Fault::Interrupted(_) => Some(Fault::Fails(libc::EINTR)),
        fault => Some(fault),
    }
}

/// Ends once eight other calls came, or none in three hundred turns of the scheduler.
fn let_others_go_on() {
    let first = seam().total;
    let (mut before, mut idle) = (first, 0);
    while before < first + 8 && idle < 300 {
        std::thread::yield_now();
        let now = seam().total;
        idle = if now == before { idle + 1 } else { 0 };
        before = now;
    }
}

fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Fails(errno) => Errno(errno),
        fault => panic!("{fault:?} is no errno"),
    }
}

/// A path without its NUL.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path.strip_suffix(&[0]).unwrap_or(path)).into_owned()
}

fn path_of(fd: i32) -> String {
    let seam = &mut *seam();
    if !seam.open.contains_key(&fd) {
        seam.wrongs.push(format!("descriptor {fd} is used and not open"));
    }
    seam.open.get(&fd).cloned().unwrap_or_default()
}

fn note_open(fd: i32, path: String) {
    let before = seam().open.insert(fd, path);
    assert!(before.is_none(), "the system gave a descriptor twice");
}

fn open(path: &[u8]) -> Result<i32, Errno> {
    match meet(Call::Open, &shown(path)) {
        Some(fault) => Err(errno(fault)),
        None => (SYSTEM.open)(path).inspect(|fd| note_open(*fd, shown(path))),
    }
}

fn open_directory(path: &[u8]) -> Result<i32, Errno> {
    match meet(Call::OpenDirectory, &shown(path)) {
        Some(fault) => Err(errno(fault)),
        None => (SYSTEM.open_directory)(path).inspect(|fd| note_open(*fd, shown(path))),
    }
}

fn read_directory(fd: i32, target: &mut [u8]) -> Result<usize, Errno> {
    match meet_on(Call::ReadDirectory, &path_of(fd), Some(fd)) {
        Some(fault) => Err(errno(fault)),
        None => (SYSTEM.read_directory)(fd, target),
    }
}

fn close(fd: i32) {
    {
        // Removed first, because another thread may be given the number at once.
        let seam = &mut *seam();
        seam.descriptor.take_if(|descriptor| *descriptor == fd);
        if seam.open.remove(&fd).is_none() {
            seam.wrongs.push(format!("descriptor {fd} is closed and was not open"));
            return;
        }
    }
    (SYSTEM.close)(fd);
}

fn bent(stat: FileStat, fault: Option<Fault>) -> Result<FileStat, Errno> {
    match fault {
        None => Ok(stat),
        Some(Fault::Longer) => Ok(FileStat { bytes: stat.bytes + 1, ..stat }),
        Some(Fault::Shorter) => Ok(FileStat { bytes: stat.bytes / 2, ..stat }),
        Some(Fault::Later) => Ok(FileStat { modified_ns: stat.modified_ns + 1, ..stat }),
        Some(fault) => Err(errno(fault)),
    }
}

fn stat(fd: i32) -> Result<FileStat, Errno> {
    let fault = meet_on(Call::Stat, &path_of(fd), Some(fd));
    (SYSTEM.stat)(fd).and_then(|stat| bent(stat, fault))
}

fn stat_path(path: &[u8]) -> Result<FileStat, Errno> {
    let fault = meet(Call::StatPath, &shown(path));
    (SYSTEM.stat_path)(path).and_then(|stat| bent(stat, fault))
}

fn stat_link(path: &[u8]) -> Result<FileStat, Errno> {
    let fault = meet(Call::StatLink, &shown(path));
    (SYSTEM.stat_link)(path).and_then(|stat| bent(stat, fault))
}

fn read(fd: i32, target: &mut [u8], offset: u64, cached_only: bool) -> Result<usize, Errno> {
    let call = if cached_only { Call::Probe } else { Call::Read };
    let fault = meet_on(call, &path_of(fd), Some(fd));
    let most = match fault {
        None => target.len(),
        Some(Fault::OneByte) => 1,
        Some(Fault::Half) => target.len().div_ceil(2),
        Some(_) => 0,
    };
    let most = most.min(target.len());
    target[most..].fill(0xEE);
    match fault {
        Some(Fault::Ends) => Ok(0),
        Some(fault @ Fault::Fails(_)) => Err(errno(fault)),
        _ if cached_only && seam().is_cold => Err(Errno(libc::EAGAIN)),
        _ => (SYSTEM.read)(fd, &mut target[..most], offset, cached_only),
    }
}

fn map(bytes: u64) -> Result<std::ptr::NonNull<u8>, Errno> {
    if let Some(fault) = meet(Call::Map, "") {
        return Err(errno(fault));
    }
    (SYSTEM.map)(bytes).inspect(|block| {
        seam().blocks.insert(block.as_ptr() as usize, bytes);
    })
}

fn unmap(block: std::ptr::NonNull<u8>, bytes: u64) {
    let before = seam().blocks.remove(&(block.as_ptr() as usize));
    if before != Some(bytes) {
        seam().wrongs.push(format!("unmap of {bytes} bytes, mapped were {before:?}"));
        return;
    }
    (SYSTEM.unmap)(block, bytes);
}

fn reserve(bytes: u64) -> Result<Region, Errno> {
    if let Some(fault) = meet(Call::Reserve, "") {
        return Err(errno(fault));
    }
    (SYSTEM.reserve)(bytes).inspect(|place| {
        seam().blocks.insert(place.as_ptr() as usize, bytes);
    })
}

fn map_file(place: Region, fd: i32, first: u64) -> Result<(), Errno> {
    match meet_on(Call::MapFile, &path_of(fd), Some(fd)) {
        Some(fault) => Err(errno(fault)),
        None => (SYSTEM.map_file)(place, fd, first),
    }
}

fn vacate(pages: std::ptr::NonNull<u8>, bytes: u64) {
    let at = pages.as_ptr() as u64;
    let holds = |(start, size): (&usize, &u64)| {
        let limit = *start as u64 + size.next_multiple_of(4096);
        (*start as u64..limit).contains(&at) && at + bytes <= limit
    };
    if !seam().blocks.iter().any(holds) {
        seam().wrongs.push(format!("vacates {bytes} bytes at {at:#x}, which are of no block"));
        return;
    }
    (SYSTEM.vacate)(pages, bytes);
}

fn thread_start(
    main: ThreadMain,
    argument: *mut c_void,
    stack: *mut u8,
    stack_bytes: u64,
) -> Result<Thread, Errno> {
    if let Some(fault) = meet(Call::Thread, "") {
        return Err(errno(fault));
    }
    (SYSTEM.thread_start)(main, argument, stack, stack_bytes).inspect(|_| seam().threads += 1)
}

fn thread_join(thread: Thread) {
    (SYSTEM.thread_join)(thread);
    seam().threads -= 1;
}

/// The table.
pub static OS: Os = Os {
    map,
    unmap,
    reserve,
    map_file,
    vacate,
    open,
    open_directory,
    read_directory,
    close,
    stat,
    stat_path,
    stat_link,
    read,
    thread_start,
    thread_join,
    ..SYSTEM
};

/// `MemoryHook::alloc` over mappings of the system.
pub unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    assert_eq!(align, 4096);
    let fault = meet(Call::Alloc, "");
    if matches!(fault, Some(Fault::Fails(_))) {
        return std::ptr::null_mut();
    }
    let shift = if fault.is_some() { 64 } else { 0 };
    let start = (SYSTEM.map)(bytes + 4096).expect("memory").as_ptr() as usize + shift;
    seam().allocated.insert(start, bytes);
    start as *mut c_void
}

/// `MemoryHook::free`.
pub unsafe extern "C" fn free(_: *mut c_void, block: *mut c_void, bytes: u64, _: u64) {
    let start = block as usize;
    let before = seam().allocated.remove(&start);
    if before != Some(bytes) {
        seam().wrongs.push(format!("free of {bytes} bytes, allocated were {before:?}"));
        return;
    }
    let first = std::ptr::NonNull::new((start & !4095) as *mut u8).expect("a block");
    (SYSTEM.unmap)(first, bytes + 4096);
}

pub unsafe fn hook_path(name: *const c_char) -> String {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8").to_string()
}

pub fn hook_fault(fault: Fault) -> i64 {
    if fault == Fault::Absent { FILE_ABSENT } else { FILE_FAILED }
}

/// `FilesHook::size` over std.
pub unsafe extern "C" fn hook_size(_: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as `hook_path` says.
    let path = unsafe { hook_path(name) };
    let fault = meet(Call::HookSize, &path);
    match (fault, std::fs::metadata(&path)) {
        (Some(fault @ (Fault::Fails(_) | Fault::Absent)), _) => hook_fault(fault),
        (Some(Fault::Longer), Ok(found)) => found.len() as i64 + 1,
        (Some(Fault::Shorter), Ok(found)) => found.len() as i64 / 2,
        (_, Ok(found)) => found.len() as i64,
        (_, Err(_)) => FILE_ABSENT,
    }
}

/// `FilesHook::read` over std.
pub unsafe extern "C" fn hook_read(
    _: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as `hook_path` says.
    let path = unsafe { hook_path(name) };
    // SAFETY: the library hands over a target of this many bytes.
    let target = unsafe { std::slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize) };
    target.fill(0xEE);
    if let Some(fault) = meet(Call::HookRead, &path) {
        return hook_fault(fault);
    }
    read_file(&path, offset, target)
}

/// What a read of a hook returns that does its work.
pub fn read_file(path: &str, offset: u64, target: &mut [u8]) -> i64 {
    let Ok(file) = std::fs::File::open(path) else { return FILE_ABSENT };
    match std::os::unix::fs::FileExt::read_exact_at(&file, target, offset) {
        Ok(()) => 0,
        Err(_) => FILE_FAILED,
    }
}
