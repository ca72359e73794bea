//! What the kernel fixes about io_uring: its structures, its numbers and its three system calls.
//!
//! In: a number of entries. Out: a [`RingMemory`], the addresses at which the kernel and
//! [`Ring`](super::Ring) meet. Everything is mapped here, once. Sources: linux/io_uring.h,
//! io_uring_setup(2), io_uring_enter(2), io_uring_register(2).
//!
//! Linux 5.7 is the oldest that is used: reads into plain memory came with 5.6, and only since 5.7
//! does a read that waits for an eventfd not hold a kernel thread. Older ones count as ENOSYS.

use crate::base::arena::Region;
use crate::base::math::index;
use crate::os::{Errno, close, last_errno, system_call};
use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, AtomicU64};
use static_assertions::const_assert;

/// Reads into a registered buffer.
pub const OP_READ_FIXED: u8 = 4;
/// Reads into any memory.
pub const OP_READ: u8 = 22;

/// Bit of [`SubmitQueue::flags`]: completions wait in the kernel for the next system call.
pub const SQ_TASKRUN: u32 = 1 << 2;

const SETUP_SUBMIT_ALL: u32 = 1 << 7;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
const SETUP_TASKRUN_FLAG: u32 = 1 << 9;

/// Flags to try, best first. Since 5.19 the kernel may leave completions until the submitting
/// thread enters it anyway, instead of interrupting it in the middle of a decode, and says in
/// SQ_TASKRUN that it did.
///
/// IORING_SETUP_SINGLE_ISSUER is left out on purpose: it ties the ring to one thread for life, but
/// with `thread_mode` pump or hook the thread that steps the loader is whichever the host sends.
const SETUP_FLAGS: [u32; 2] = [SETUP_COOP_TASKRUN | SETUP_TASKRUN_FLAG | SETUP_SUBMIT_ALL, 0];

const FEATURE_SINGLE_MMAP: u32 = 1 << 0;
const FEATURE_SUBMIT_STABLE: u32 = 1 << 2;
const FEATURE_FAST_POLL: u32 = 1 << 5;

/// One mapping for both queues (5.4), entries that the kernel has read once it took them (5.5), and
/// polled reads (5.7).
const FEATURES_NEEDED: u32 = FEATURE_SINGLE_MMAP | FEATURE_SUBMIT_STABLE | FEATURE_FAST_POLL;

const ENTER_GETEVENTS: usize = 1 << 0;
const REGISTER_BUFFERS: usize = 0;
const UNREGISTER_BUFFERS: usize = 1;
const OFFSET_QUEUES: i64 = 0;
const OFFSET_SLOTS: i64 = 0x1000_0000;

/// One request, `struct io_uring_sqe`. Fields that no read uses are `unused`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubmitSlot {
    /// OP_READ or OP_READ_FIXED.
    pub opcode: u8,
    /// IOSQE_*; none.
    pub flags: u8,
    /// Priority; none.
    pub priority: u16,
    /// Descriptor to read.
    pub fd: i32,
    /// Offset in the file.
    pub offset: u64,
    /// Address of the target.
    pub address: u64,
    /// Bytes to read.
    pub bytes: u32,
    /// RWF_*; none.
    pub read_flags: u32,
    /// Comes back with the completion.
    pub user_data: u64,
    /// Registered buffer, for OP_READ_FIXED.
    pub buffer: u16,
    /// Zeroes.
    pub unused: [u16; 11],
}

/// One completion, `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompleteSlot {
    /// Of the request.
    pub user_data: u64,
    /// Bytes that were read, or a negated errno.
    pub result: i32,
    /// IORING_CQE_F_*; none for reads.
    pub flags: u32,
}

const_assert!(size_of::<SubmitSlot>() == 64);
const_assert!(offset_of!(SubmitSlot, fd) == 4);
const_assert!(offset_of!(SubmitSlot, offset) == 8);
const_assert!(offset_of!(SubmitSlot, address) == 16);
const_assert!(offset_of!(SubmitSlot, bytes) == 24);
const_assert!(offset_of!(SubmitSlot, user_data) == 32);
const_assert!(offset_of!(SubmitSlot, buffer) == 40);
const_assert!(size_of::<CompleteSlot>() == 16);
const_assert!(offset_of!(CompleteSlot, result) == 8);

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SubmitOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    unused: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CompleteOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    slots: u32,
    flags: u32,
    unused: [u32; 3],
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Params {
    submit_entries: u32,
    complete_entries: u32,
    flags: u32,
    thread_cpu: u32,
    thread_idle: u32,
    features: u32,
    workers_fd: u32,
    unused: [u32; 3],
    submit: SubmitOffsets,
    complete: CompleteOffsets,
}

const_assert!(size_of::<SubmitOffsets>() == 40);
const_assert!(offset_of!(SubmitOffsets, array) == 24);
const_assert!(size_of::<CompleteOffsets>() == 40);
const_assert!(offset_of!(CompleteOffsets, slots) == 20);
const_assert!(size_of::<Params>() == 120);
const_assert!(offset_of!(Params, features) == 20);
const_assert!(offset_of!(Params, submit) == 40);
const_assert!(offset_of!(Params, complete) == 80);

/// Requests on their way to the kernel. Counters run freely; a counter modulo `entries`, which is a
/// power of two, is a slot.
#[derive(Clone, Copy, Debug)]
pub struct SubmitQueue {
    /// Requests that the kernel has taken. Only it writes.
    pub head: NonNull<AtomicU32>,
    /// Requests that were queued. Only the ring writes.
    pub tail: NonNull<AtomicU32>,
    /// SQ_TASKRUN. Only the kernel writes.
    pub flags: NonNull<AtomicU32>,
    /// `entries` requests; request n is in slot n modulo `entries`.
    pub slots: NonNull<SubmitSlot>,
    /// How many.
    pub entries: u32,
}

/// Completions on their way back, counted like requests.
#[derive(Clone, Copy, Debug)]
pub struct CompleteQueue {
    /// Completions that were taken. Only the ring writes.
    pub head: NonNull<AtomicU32>,
    /// Completions that are there. Only the kernel writes.
    pub tail: NonNull<AtomicU32>,
    /// `entries` completions.
    pub slots: NonNull<CompleteSlot>,
    /// How many.
    pub entries: u32,
}

/// Mapped bytes.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Address of the first.
    pub start: NonNull<u8>,
    /// How many; 0 where nothing is mapped.
    pub bytes: u64,
}

impl Mapping {
    /// Nothing is mapped.
    pub const NONE: Mapping = Mapping { start: NonNull::dangling(), bytes: 0 };
}

/// An open ring: its descriptors and the memory that it shares with the kernel. Plain addresses,
/// so that a replaced table can look at requests and change completions.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory {
    /// Descriptor of the ring.
    pub fd: i32,
    /// Descriptor of an eventfd; a write to it wakes whoever waits in the ring.
    pub event: i32,
    /// Requests.
    pub submit: SubmitQueue,
    /// Completions.
    pub complete: CompleteQueue,
    /// Where the read of the eventfd puts its count. It lies in a page of its own and not in the
    /// ring's struct, which may be moved while the read is in flight.
    pub event_count: NonNull<AtomicU64>,
    /// What `ring_close` unmaps: both queues, the requests, the page of `event_count`.
    pub mappings: [Mapping; 3],
}

/// The entry `Os::ring_open` of the real system.
pub fn ring_open(entries: u32) -> Result<RingMemory, Errno> {
    let (fd, params) = setup(entries)?;
    let mut mappings = [Mapping::NONE; 3];
    let opened = map_all(fd, &params, &mut mappings).and_then(|()| open_event());
    match opened {
        Ok(event) => Ok(memory_from(fd, event, &params, mappings)),
        Err(errno) => {
            unmap_all(&mappings);
            close(fd);
            Err(errno)
        }
    }
}

/// The entry `Os::ring_close` of the real system.
pub fn ring_close(ring: &RingMemory) {
    unmap_all(&ring.mappings);
    close(ring.event);
    close(ring.fd);
}

/// The entry `Os::ring_enter` of the real system.
pub fn ring_enter(ring: &RingMemory, submit: u32, complete_min: u32) -> Result<u32, Errno> {
    // GETEVENTS in any case: with a minimum of 0 it hands out what is complete and does not wait.
    let (fd, submit, complete_min) = (ring.fd as usize, submit as usize, complete_min as usize);
    let arguments = [fd, submit, complete_min, ENTER_GETEVENTS, 0];
    // SAFETY: the kernel reads and writes the ring's own mappings, and the targets of the requests,
    // which their owners leave alone until the completion.
    unsafe { system_call(libc::SYS_io_uring_enter, arguments) }.map(|taken| taken as u32)
}

/// The entry `Os::ring_register` of the real system.
pub fn ring_register(ring: &RingMemory, block: Option<Region>) -> Result<(), Errno> {
    let iovec = block.map(|block| libc::iovec {
        iov_base: block.as_ptr().cast(),
        iov_len: index(block.bytes()),
    });
    let (operation, start, count) = match &iovec {
        Some(iovec) => (REGISTER_BUFFERS, ptr::from_ref(iovec).expose_provenance(), 1),
        None => (UNREGISTER_BUFFERS, 0, 0),
    };
    let arguments = [ring.fd as usize, operation, start, count, 0];
    // SAFETY: the kernel reads one iovec, which lives here, and pins the pages of the block, which
    // lives until the ring was closed.
    unsafe { system_call(libc::SYS_io_uring_register, arguments) }.map(drop)
}

/// The entry `Os::ring_waits` of the real system.
pub fn ring_waits(fd: i32) {
    // SAFETY: changes a flag of a descriptor that is ours, and no memory.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
}

/// The entry `Os::ring_wake` of the real system.
pub fn ring_wake(event: i32) {
    let one = 1u64;
    // SAFETY: reads eight bytes of a local.
    let written = unsafe { libc::write(event, ptr::from_ref(&one).cast(), size_of::<u64>()) };
    // Only a full counter would wait or fail: 2^64 wakes that no ring has read.
    assert!(written == size_of::<u64>() as isize);
}

fn setup(entries: u32) -> Result<(i32, Params), Errno> {
    let mut refused = Errno(libc::EINVAL);
    for flags in SETUP_FLAGS {
        let mut params = Params { flags, ..Params::default() };
        let arguments = [entries as usize, (&raw mut params).expose_provenance(), 0, 0, 0];
        // SAFETY: the kernel reads and writes one io_uring_params, whose layout is asserted above.
        match unsafe { system_call(libc::SYS_io_uring_setup, arguments) } {
            Ok(fd) if params.features & FEATURES_NEEDED == FEATURES_NEEDED => {
                return Ok((fd as i32, params));
            }
            Ok(fd) => {
                close(fd as i32);
                return Err(Errno(libc::ENOSYS));
            }
            Err(errno) => refused = errno,
        }
        if refused.0 != libc::EINVAL {
            break;
        }
    }
    Err(refused)
}

fn open_event() -> Result<i32, Errno> {
    // Not EFD_NONBLOCK: the ring would end a read of it with EAGAIN instead of waiting.
    let arguments = [0, libc::EFD_CLOEXEC as usize, 0, 0, 0];
    // SAFETY: eventfd2 takes two numbers.
    unsafe { system_call(libc::SYS_eventfd2, arguments) }.map(|event| event as i32)
}

fn map_all(fd: i32, params: &Params, mappings: &mut [Mapping; 3]) -> Result<(), Errno> {
    let submit_bytes = u64::from(params.submit.array) + u64::from(params.submit_entries) * 4;
    let complete_bytes = u64::from(params.complete.slots)
        + u64::from(params.complete_entries) * size_of::<CompleteSlot>() as u64;
    let slot_bytes = u64::from(params.submit_entries) * size_of::<SubmitSlot>() as u64;
    let shared = libc::MAP_SHARED | libc::MAP_POPULATE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    mappings[0] = map(submit_bytes.max(complete_bytes), shared, fd, OFFSET_QUEUES)?;
    mappings[1] = map(slot_bytes, shared, fd, OFFSET_SLOTS)?;
    mappings[2] = map(size_of::<u64>() as u64, private, -1, 0)?;
    Ok(())
}

fn map(bytes: u64, flags: i32, fd: i32, offset: i64) -> Result<Mapping, Errno> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), index(bytes), access, flags, fd, offset) };
    if start == libc::MAP_FAILED {
        return Err(last_errno());
    }
    let start = NonNull::new(start.cast()).ok_or(Errno(libc::ENOMEM))?;
    Ok(Mapping { start, bytes })
}

fn unmap_all(mappings: &[Mapping; 3]) {
    for mapping in mappings.iter().filter(|mapping| mapping.bytes > 0) {
        // SAFETY: the pair came from `map`, and the ring that used it is being closed.
        let failed = unsafe { libc::munmap(mapping.start.as_ptr().cast(), index(mapping.bytes)) };
        assert!(failed == 0);
    }
}

fn memory_from(fd: i32, event: i32, params: &Params, mappings: [Mapping; 3]) -> RingMemory {
    assert!(params.submit_entries.is_power_of_two());
    assert!(params.complete_entries.is_power_of_two());
    let (submit, complete) = (&params.submit, &params.complete);
    // The kernel takes requests through an array of slot numbers. Request n is always in slot n
    // modulo the entries, so the array is written once.
    let array = at::<u32>(&mappings[0], submit.array);
    for slot in 0..params.submit_entries {
        // SAFETY: `map_all` mapped submit_entries numbers from this offset.
        unsafe { array.add(index(u64::from(slot))).write(slot) };
    }
    RingMemory {
        fd,
        event,
        submit: SubmitQueue {
            head: at(&mappings[0], submit.head),
            tail: at(&mappings[0], submit.tail),
            flags: at(&mappings[0], submit.flags),
            slots: at(&mappings[1], 0),
            entries: params.submit_entries,
        },
        complete: CompleteQueue {
            head: at(&mappings[0], complete.head),
            tail: at(&mappings[0], complete.tail),
            slots: at(&mappings[0], complete.slots),
            entries: params.complete_entries,
        },
        event_count: at(&mappings[2], 0),
        mappings,
    }
}

/// Address of a T inside a mapping.
fn at<T>(mapping: &Mapping, offset: u32) -> NonNull<T> {
    assert!(u64::from(offset) + size_of::<T>() as u64 <= mapping.bytes);
    assert!(index(u64::from(offset)).is_multiple_of(align_of::<T>()));
    // SAFETY: in bounds by the first assertion; T is aligned by the second, as mappings start at a
    // page.
    unsafe { mapping.start.add(index(u64::from(offset))).cast() }
}
