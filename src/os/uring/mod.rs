//! Many reads in flight from one thread, over the kernel's io_uring.
//!
//! In: reads of open files into parts of the arena, each with a number of the caller's. Out: the
//! numbers with what became of the reads, in any order, and word of wakes. One thread at a time
//! uses a [`Ring`]; it need not be the same one always. Other threads reach it by [`Waker`] only.
//!
//! ```text
//!  read ──▶ queued ──(submit, wait)──▶ with the kernel ──▶ complete ──(next_event)──▶ given
//! ```
//!
//! Invariants. At most `depth` reads are between `read` and `next_event`, plus one read of the
//! eventfd that wakes the ring; the request queue holds more than that and the completion queue
//! twice as many, so neither can overflow. From `read` to its completion a read owns its target:
//! nobody else takes a byte of it, and [`Ring::close`] must have returned Ok before the arena is
//! given back. After `open` nothing of ours is mapped or allocated; the kernel may start worker
//! threads of its own (`iou-wrk`) for reads that its file systems cannot do without waiting.
//!
//! Completions are worked off by the thread that submitted the reads, whenever it enters the
//! kernel. So the thread that waits should be the one that submitted; another one waits until the
//! submitter enters the kernel next, which a busy one does at the scheduler's next tick.
//!
//! A buffered read that hits the page cache is copied by the thread that calls `submit` or `wait`;
//! one that misses is copied by that thread too, once the storage is done and the thread enters
//! the kernel. A direct read ([`Os::open_direct`]) is copied by nobody.

pub mod kernel;

use crate::base::arena::Region;
use crate::base::math::index;
use crate::os::{Errno, Os};
use core::sync::atomic::Ordering;
use kernel::{CompleteSlot, OP_READ, OP_READ_FIXED, RingMemory, SQ_TASKRUN, SubmitSlot};
use static_assertions::const_assert;

/// The number of the eventfd's read; a caller's numbers are below it.
const WAKE: u64 = u64::MAX;

/// Most reads in flight: the kernel's cap of 32,768 entries, less the read that wakes.
pub const DEPTH_MAX: u32 = 32_767;

const_assert!((DEPTH_MAX + 1).is_power_of_two());

/// What became of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The caller's number.
    pub user_data: u64,
    /// Bytes that were read, fewer than asked for where the file ends or for no reason at all, 0 at
    /// the end; or the errno. EINTR, EAGAIN and ECANCELED (the thread that submitted it has ended)
    /// say nothing about the file: such a read is queued again.
    pub result: Result<u32, Errno>,
}

/// What a ring has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A read is done; its target is the caller's again.
    Read(Completion),
    /// Somebody called `wake`, once or several times, since the last `Woken`. It may also come for
    /// no reason.
    Woken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WakeRead {
    /// The next `wait` queues it.
    Idle,
    /// Queued or with the kernel.
    Armed,
    /// It gave an errno that queueing it again would only repeat: nobody could wake a waiter.
    Failed(Errno),
}

/// Wakes the thread that waits in a ring, or the next one to wait. Not to be used after the ring
/// was closed: its descriptor may then be another file's.
#[derive(Clone, Copy)]
pub struct Waker {
    os: &'static Os,
    event: i32,
}

impl Waker {
    /// Makes the ring's current or next `wait` return, with [`Event::Woken`] among its events.
    ///
    /// No wake is lost: the eventfd counts it, and the ring's read of the eventfd ends at once
    /// when it finds a count, whenever it was queued. Wakes before that read count as one. What
    /// the waiter is to look at was written before `wake` (under the lock that guards it), and is
    /// looked at after `Woken`.
    pub fn wake(&self) {
        (self.os.ring_wake)(self.event);
    }
}

/// See the module.
pub struct Ring {
    os: &'static Os,
    memory: RingMemory,
    depth: u32,
    /// Reads from `read` until `next_event` gave them.
    in_flight: u32,
    /// Our copy of the request queue's tail, which only we write.
    submit_tail: u32,
    /// Our copy of the completion queue's head, which only we write.
    complete_head: u32,
    registered: Option<Region>,
    wake: WakeRead,
    is_open: bool,
}

// SAFETY: the addresses are those of mappings that belong to this ring alone, and the kernel takes
// requests from whichever thread enters it.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for up to `depth` reads in flight, 1 to DEPTH_MAX. The errno where the kernel
    /// has none (ENOSYS), a seccomp filter or sysctl forbids it (EPERM), or limits are reached.
    pub fn open(os: &'static Os, depth: u32) -> Result<Ring, Errno> {
        assert!(depth > 0);
        assert!(depth <= DEPTH_MAX);
        // One more for the read of the eventfd.
        let memory = (os.ring_open)(depth + 1)?;
        assert!(memory.submit.entries > depth);
        assert!(memory.complete.entries > depth);
        // SAFETY: both counters lie in the ring's mapping. Nobody else writes these two.
        let (tail, head) = unsafe { (memory.submit.tail.as_ref(), memory.complete.head.as_ref()) };
        Ok(Ring {
            os,
            memory,
            depth,
            in_flight: 0,
            submit_tail: tail.load(Ordering::Relaxed),
            complete_head: head.load(Ordering::Relaxed),
            registered: None,
            wake: WakeRead::Idle,
            is_open: true,
        })
    }

    /// Most reads in flight.
    #[cfg(feature = "internals")]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Reads from `read` until `next_event` gave them.
    #[cfg(feature = "internals")]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Bytes that the ring has mapped.
    #[cfg(feature = "internals")]
    pub fn bytes(&self) -> u64 {
        self.memory.mappings.iter().map(|mapping| mapping.bytes).sum()
    }

    /// Pins `block` in memory, so that reads into it need not look its pages up. Once per ring.
    ///
    /// Err changes nothing but speed: reads into the block are then plain ones. ENOMEM: the block
    /// is more than RLIMIT_MEMLOCK; EFAULT: it is more than the kernel's cap of 1 GiB.
    pub fn register_buffer(&mut self, block: Region) -> Result<(), Errno> {
        assert!(self.is_open);
        assert!(self.registered.is_none());
        (self.os.ring_register)(&self.memory, Some(block))?;
        self.registered = Some(block);
        Ok(())
    }

    /// Queues a read of up to `target.bytes()` bytes (1 to u32::MAX) of `fd` from `file_offset`
    /// into `target`, which is the read's until its completion. False, and nothing happens, while
    /// `depth` reads are in flight. `user_data` is below u64::MAX.
    #[must_use]
    pub fn read(&mut self, fd: i32, target: Region, file_offset: u64, user_data: u64) -> bool {
        assert!(self.is_open);
        assert!(user_data != WAKE);
        assert!(target.bytes() > 0);
        assert!(target.bytes() <= u64::from(u32::MAX));
        if self.in_flight == self.depth {
            return false;
        }
        self.in_flight += 1;
        self.push(SubmitSlot {
            opcode: if self.is_registered(&target) { OP_READ_FIXED } else { OP_READ },
            fd,
            // An offset of -1 means the descriptor's own position. No file reaches i64::MAX, so
            // that offsets from bad data end in the read's own EINVAL.
            offset: file_offset.min(i64::MAX as u64),
            address: target.as_ptr() as u64,
            bytes: target.bytes() as u32,
            user_data,
            ..SubmitSlot::default()
        });
        true
    }

    /// Hands what is queued to the kernel and does not wait. Err(EAGAIN): the kernel is short of
    /// memory; what is still queued stays queued.
    pub fn submit(&mut self) -> Result<(), Errno> {
        assert!(self.is_open);
        let mut must_enter = self.has_work_in_kernel();
        // Ends: every turn hands over at least one of at most `depth` + 1 requests, or was
        // interrupted by a signal.
        while must_enter || self.queued() > 0 {
            let queued = self.queued();
            match (self.os.ring_enter)(&self.memory, queued, 0) {
                Ok(0) if queued > 0 => return Err(Errno(libc::EAGAIN)),
                Ok(_) => must_enter = false,
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Hands what is queued to the kernel and waits until there is an event, at once where there is
    /// one. There is no larger minimum than one event, because a wake has to end every wait. Err:
    /// nothing was waited for; what is queued or in flight stays so.
    pub fn wait(&mut self) -> Result<(), Errno> {
        assert!(self.is_open);
        self.arm_wake()?;
        // A wake may be among the work that is left there; a stream of other events must not keep
        // it from being seen.
        let mut must_enter = self.has_work_in_kernel();
        // Ends: every turn but the first hands over a request or ends with an event, or was
        // interrupted by a signal.
        loop {
            let (queued, ready) = (self.queued(), self.ready());
            if queued == 0 && ready > 0 && !must_enter {
                return Ok(());
            }
            must_enter = false;
            match (self.os.ring_enter)(&self.memory, queued, u32::from(ready == 0)) {
                Ok(taken) if taken > 0 || queued == 0 => {}
                Err(Errno(libc::EINTR)) => {}
                Ok(_) | Err(Errno(libc::EAGAIN | libc::EBUSY)) => {
                    // The kernel is short of memory for requests. A completion gives some back.
                    if self.ready() > 0 {
                        return Ok(());
                    }
                    self.wait_for_older_reads()?;
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The next event, if there is one. Never enters the kernel.
    pub fn next_event(&mut self) -> Option<Event> {
        assert!(self.is_open);
        let complete = self.take_complete()?;
        if complete.user_data == WAKE {
            return Some(Event::Woken);
        }
        let result = match u32::try_from(complete.result) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(Errno(complete.result.saturating_neg())),
        };
        Some(Event::Read(Completion { user_data: complete.user_data, result }))
    }

    /// What other threads wake this ring with.
    pub fn waker(&self) -> Waker {
        assert!(self.is_open);
        Waker { os: self.os, event: self.memory.event }
    }

    /// Forgets what is queued, waits for what the kernel has, drops all events, and gives
    /// everything back. After Ok the targets of all reads are the caller's and no other call of
    /// this ring or its wakers is allowed. Err: the kernel would not say that it is done, so the
    /// targets are still its; close again.
    pub fn close(&mut self) -> Result<(), Errno> {
        assert!(self.is_open);
        self.forget_queued();
        if self.wake == WakeRead::Armed {
            self.waker().wake();
        }
        // Ends: every turn takes at least one of at most `depth` + 1 completions, or was
        // interrupted by a signal.
        while self.with_kernel() > 0 {
            while self.take_complete().is_some() {}
            if self.with_kernel() > 0 {
                match (self.os.ring_enter)(&self.memory, 0, 1) {
                    Ok(_) | Err(Errno(libc::EINTR)) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
        assert!(self.in_flight == 0);
        if self.registered.is_some() {
            // Closing the descriptor unpins as well, but later, from a thread of the kernel's: the
            // next ring would find the memory still counted against RLIMIT_MEMLOCK.
            let _ = (self.os.ring_register)(&self.memory, None);
        }
        (self.os.ring_close)(&self.memory);
        self.is_open = false;
        Ok(())
    }

    fn is_registered(&self, target: &Region) -> bool {
        self.registered.is_some_and(|block| {
            let (start, limit) = (target.as_ptr() as u64, target.as_ptr() as u64 + target.bytes());
            let first = block.as_ptr() as u64;
            start >= first && limit <= first + block.bytes()
        })
    }

    fn arm_wake(&mut self) -> Result<(), Errno> {
        match self.wake {
            WakeRead::Armed => Ok(()),
            WakeRead::Failed(errno) => Err(errno),
            WakeRead::Idle => {
                self.wake = WakeRead::Armed;
                self.push(SubmitSlot {
                    opcode: OP_READ,
                    fd: self.memory.event,
                    address: self.memory.event_count.as_ptr() as u64,
                    bytes: size_of::<u64>() as u32,
                    user_data: WAKE,
                    ..SubmitSlot::default()
                });
                Ok(())
            }
        }
    }

    /// The kernel takes nothing more for now: waits for one event where a read is sure to bring it.
    fn wait_for_older_reads(&mut self) -> Result<(), Errno> {
        // One of them may be the read of the eventfd, which may never end.
        if self.with_kernel() < 2 {
            return Err(Errno(libc::EAGAIN));
        }
        match (self.os.ring_enter)(&self.memory, 0, 1) {
            Ok(_) | Err(Errno(libc::EINTR)) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Requests that the kernel has taken and whose completion we have not.
    fn with_kernel(&self) -> u32 {
        self.in_flight + u32::from(self.wake == WakeRead::Armed) - self.queued()
    }

    /// Whether completions wait in the kernel for a thread to enter it.
    fn has_work_in_kernel(&self) -> bool {
        // SAFETY: the flags lie in the ring's mapping, which lives until close.
        let flags = unsafe { self.memory.submit.flags.as_ref() };
        // Written by the kernel. Relaxed: it is a hint to enter the kernel and orders nothing.
        flags.load(Ordering::Relaxed) & SQ_TASKRUN != 0
    }

    /// Requests that the kernel has not taken.
    fn queued(&self) -> u32 {
        // SAFETY: the head lies in the ring's mapping, which lives until close.
        let head = unsafe { self.memory.submit.head.as_ref() };
        // Written by the kernel. Acquire: it has read the slots before its head, so that we may
        // write them again.
        self.submit_tail.wrapping_sub(head.load(Ordering::Acquire))
    }

    /// Completions that are there.
    fn ready(&self) -> u32 {
        // SAFETY: the tail lies in the ring's mapping, which lives until close.
        let tail = unsafe { self.memory.complete.tail.as_ref() };
        // Written by the kernel. Acquire: the completions before its tail, and the bytes that the
        // reads brought, are seen as it wrote them.
        tail.load(Ordering::Acquire).wrapping_sub(self.complete_head)
    }

    fn push(&mut self, request: SubmitSlot) {
        assert!(self.queued() < self.memory.submit.entries);
        let slot = self.submit_tail & (self.memory.submit.entries - 1);
        // SAFETY: the slot is below `entries`, and the kernel has taken what it held by the
        // assertion.
        unsafe { self.memory.submit.slots.add(index(u64::from(slot))).write(request) };
        self.set_submit_tail(self.submit_tail.wrapping_add(1));
    }

    fn set_submit_tail(&mut self, tail: u32) {
        self.submit_tail = tail;
        // SAFETY: the tail lies in the ring's mapping, which lives until close.
        let shared = unsafe { self.memory.submit.tail.as_ref() };
        // Written by us, read by the kernel. Release: it sees the slots before the tail complete.
        shared.store(tail, Ordering::Release);
    }

    /// Takes a completion and notes that its request has ended.
    fn take_complete(&mut self) -> Option<CompleteSlot> {
        if self.ready() == 0 {
            return None;
        }
        let slot = self.complete_head & (self.memory.complete.entries - 1);
        // SAFETY: the slot is below `entries`; the kernel has written it by `ready` and leaves it
        // alone until the head has moved past it.
        let complete = unsafe { self.memory.complete.slots.add(index(u64::from(slot))).read() };
        self.complete_head = self.complete_head.wrapping_add(1);
        // SAFETY: the head lies in the ring's mapping, which lives until close.
        let head = unsafe { self.memory.complete.head.as_ref() };
        // Written by us, read by the kernel. Release: our read of the slot comes before its next
        // write.
        head.store(self.complete_head, Ordering::Release);
        if complete.user_data == WAKE {
            assert!(self.wake == WakeRead::Armed);
            self.wake = match complete.result.saturating_neg() {
                // Signals, and the end of the thread that submitted it, say nothing.
                ..=0 | libc::EINTR | libc::EAGAIN | libc::ECANCELED => WakeRead::Idle,
                errno => WakeRead::Failed(Errno(errno)),
            };
        } else {
            assert!(self.in_flight > 0);
            self.in_flight -= 1;
        }
        Some(complete)
    }

    /// Takes back the requests that the kernel has not taken. It takes some only inside of
    /// `ring_enter`, so nothing moves meanwhile.
    fn forget_queued(&mut self) {
        let first = self.submit_tail.wrapping_sub(self.queued());
        // Ends: at most `depth` + 1 requests are queued.
        for turn in 0..self.queued() {
            let slot = first.wrapping_add(turn) & (self.memory.submit.entries - 1);
            // SAFETY: the slot is below `entries` and was written by `push`.
            let request = unsafe { self.memory.submit.slots.add(index(u64::from(slot))).read() };
            if request.user_data == WAKE {
                self.wake = WakeRead::Idle;
            } else {
                self.in_flight -= 1;
            }
        }
        self.set_submit_tail(first);
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
