//! The block of memory that a loader lives in: the caller's, its allocator's, or the system's.
//!
//! Taken once at open, given back once after close; of the system's what nobody uses any more may
//! go before that.

use crate::base::abi::MemoryHook;
use crate::base::arena::Carver;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::os::numa::Policy;
use crate::os::{Errno, Os};
use core::ops::Range;
use core::ptr::NonNull;

/// Alignment of the block.
pub const BLOCK_ALIGN: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Caller,
    Hook,
    System,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Block {
    start: NonNull<u8>,
    bytes: u64,
    source: Source,
}

impl Block {
    /// Takes `bytes` bytes: the hook's block, else its alloc, else the system.
    pub fn take(os: &Os, hook: &MemoryHook, bytes: u64, why: &mut Why) -> Result<Block, Status> {
        let block = match (NonNull::new(hook.host_block.cast::<u8>()), hook.alloc) {
            (Some(start), _) => {
                Block { start, bytes: hook.host_block_bytes, source: Source::Caller }
            }
            (None, Some(alloc)) => {
                // SAFETY: the hook's contract is that it may be called here, on open's thread.
                let start = unsafe { alloc(hook.user, bytes, BLOCK_ALIGN) };
                let Some(start) = NonNull::new(start.cast()) else {
                    return Err(fail!(why, OutOfMemory, "memory.alloc gave no {bytes} bytes"));
                };
                Block { start, bytes, source: Source::Hook }
            }
            (None, None) => match (os.map)(bytes) {
                Ok(start) => Block { start, bytes, source: Source::System },
                Err(errno) => {
                    return Err(fail!(why, OutOfMemory, "mapping {bytes} bytes: {errno}"));
                }
            },
        };
        if block.bytes < bytes {
            return Err(fail!(
                why,
                Budget,
                "memory.host_block has {} bytes, this config needs {bytes}: give a larger one, or \
                 set max_host_memory_bytes to what it has",
                block.bytes
            ));
        }
        if !(block.start.as_ptr() as u64).is_multiple_of(BLOCK_ALIGN) {
            block.give_back(os, hook);
            return Err(fail!(why, Invalid, "memory: the block is not aligned to {BLOCK_ALIGN}"));
        }
        Ok(Block { bytes, ..block })
    }

    /// Bytes of the block.
    #[cfg(feature = "internals")]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A carver over the whole block. Once per block.
    pub fn carver(&self) -> Carver {
        // SAFETY: `take` checked alignment and size; whoever owns the block gives it to nobody
        // else until `give_back`, which its user calls last.
        unsafe { Carver::over(self.start, self.bytes) }
    }

    /// Whether it is the system's.
    pub fn is_systems(&self) -> bool {
        self.source == Source::System
    }

    /// Has pages that are touched from now on taken from a NUMA node, unless a caller
    /// gave the block, and has placed it.
    pub fn prefer_node(&self, os: &Os, node: u32) -> Result<(), Errno> {
        if !self.is_systems() {
            return Ok(());
        }
        (os.bind_memory)(self.start, self.bytes, &Policy::preferred(node))
    }

    /// Gives the system's memory back but for the pages of some addresses, which `kept` names, in
    /// any order and as often as it is asked. A block of the caller's stays whole.
    ///
    /// Worked example: of pages 0 to 9 bytes of 2, 3 and 7 are kept: 0 to 1, 4 to 6 and 8 to 9 go.
    pub fn give_back_rest(&self, os: &Os, kept: impl Fn(&mut dyn FnMut(Range<usize>))) {
        if !self.is_systems() {
            return;
        }
        let page = BLOCK_ALIGN as usize;
        let start = self.start.as_ptr().addr();
        let (mut at, limit) = (start, start + self.bytes as usize);
        // Ends: each turn goes behind a range of `kept`, or to the end.
        while at < limit {
            let mut next = limit..limit;
            kept(&mut |range| {
                let pages = range.start / page * page..range.end.next_multiple_of(page);
                if !range.is_empty() && pages.end > at && pages.start < next.start {
                    next = pages;
                }
            });
            if next.start > at {
                let pages = self.start.map_addr(|address| address.saturating_add(at - start));
                (os.vacate)(pages, (next.start - at) as u64);
            }
            at = next.end;
        }
    }

    /// Gives the block back to where it came from.
    pub fn give_back(&self, os: &Os, hook: &MemoryHook) {
        match (self.source, hook.free) {
            (Source::System, _) => (os.unmap)(self.start, self.bytes),
            // SAFETY: the block came from this hook's alloc, with this size and alignment.
            (Source::Hook, Some(free)) => unsafe {
                free(hook.user, self.start.as_ptr().cast(), self.bytes, BLOCK_ALIGN);
            },
            (Source::Hook, None) | (Source::Caller, _) => {}
        }
    }
}

/// A value in pages of its own, so that it does not stand on the stack of all that hand it on.
pub struct Paged<T: 'static> {
    place: &'static T,
}

impl<T> Paged<T> {
    /// Takes pages for a value. If there are none, `end` gets the value.
    pub fn new(os: &Os, value: T, end: impl FnOnce(&T)) -> Result<Paged<T>, Errno> {
        assert!(align_of::<T>() <= BLOCK_ALIGN as usize);
        let mapped = (os.map)(size_of::<T>() as u64);
        let place = mapped.inspect_err(|_| end(&value))?.cast::<T>();
        // SAFETY: the pages are new, large enough, aligned, and used by nothing else.
        unsafe {
            place.write(value);
            Ok(Paged { place: place.as_ref() })
        }
    }

    /// Gives the pages back. The value is used no more, and is not dropped.
    pub fn end(&self, os: &Os) {
        (os.unmap)(NonNull::from(self.place).cast(), size_of::<T>() as u64);
    }
}

impl<T> core::ops::Deref for Paged<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.place
    }
}
