//! The stacks of own threads, and the guards below them.
//!
//! In: settings. Out: one region, a guard and a stack for each thread in turn: decoding threads
//! first, that of a device last. Invariant: a thread that runs out of its stack, or a hook of the
//! host that it calls, meets a guard and not the stack of another thread.
//!
//! A guard is a part of the block that open makes inaccessible (`Os::guard`) after all stacks were
//! touched: so huge pages serve them, and a large page of a stack has its guard's bytes, too.

use crate::base::arena::{Carver, Region};
use crate::base::bill::Item;
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::math::align_up;
use crate::os::sink::{Level, Sink};
use crate::os::{Errno, Os, thread_locals};
use crate::setup::settings::Settings;
use core::ptr::NonNull;

/// Bytes that AddressSanitizer adds to the frames of each stack. The threads that wait for storage
/// run out of stack without these. Its thread-local tables, and TSan's, are counted with the
/// program's.
const SANITIZER_STACK_BYTES: u64 = if cfg!(wavetrain_sanitizer) { 512 << 10 } else { 0 };
/// Stack of a thread that decodes: zstd and the planner take most of it.
const DECODE_STACK_BYTES: u64 = (192 << 10) + SANITIZER_STACK_BYTES;
/// Stack of a thread that waits for storage: paths, records and the metadata parser.
const IO_STACK_BYTES: u64 = (96 << 10) + SANITIZER_STACK_BYTES;
/// Stack of the thread that calls the CUDA driver: as much as a program's first thread has, because
/// how much a driver takes is its own affair, and its compiler takes most.
const DEVICE_STACK_BYTES: u64 = (8 << 20) + SANITIZER_STACK_BYTES;
/// Most that a thread has taken of its stack when it calls a hook, thread-local variables of the
/// program included. tests/flow/hook_stacks.rs measures it.
const ABOVE_HOOK_BYTES: u64 = (64 << 10) + SANITIZER_STACK_BYTES;
/// Bytes that must be left of a stack when its thread begins: two thirds, more than a thread takes
/// (tests/flow/stacks.rs). libc puts the thread-local variables of the program there as well: the
/// last third is for a few of them, and a program with more gets larger stacks. This is the net
/// below.
const DECODE_NEED_BYTES: u64 = DECODE_STACK_BYTES / 3 * 2;
const IO_NEED_BYTES: u64 = IO_STACK_BYTES / 3 * 2;
/// Below each stack. A thread of ours takes its stack in steps of less than a page.
const GUARD_BYTES: u64 = MEMORY_PAGE_BYTES;
/// Below a stack that a hook may run on: a hook may take a buffer as large as this in one step, and
/// a compiler that does not probe its pages would step over a smaller guard.
const HOOK_GUARD_BYTES: u64 = 128 << 10;

/// The stack of a thread, by its number.
#[derive(Clone, Copy)]
pub struct Stack {
    /// Its bytes, the guard below them not included.
    pub bytes: u64,
    /// Bytes of it that must be left when the thread begins.
    pub need_bytes: u64,
}

impl Stack {
    /// The stack of thread `number`. Each has room for the thread-local variables of the program.
    pub fn of(settings: &Settings, number: u32) -> Stack {
        let is_last = number + 1 == settings.thread_count();
        let (own, need) = match number {
            _ if settings.is_cuda() && is_last => (DEVICE_STACK_BYTES, IO_NEED_BYTES),
            _ if number < settings.decode_threads => (DECODE_STACK_BYTES, DECODE_NEED_BYTES),
            _ => (IO_STACK_BYTES, IO_NEED_BYTES),
        };
        let hooks = align_up(settings.hook_stack_bytes(), MEMORY_PAGE_BYTES);
        let (above, least) = match hooks {
            0 => (0, 0),
            // Variables and libc's own record are less than half of what is taken above a hook.
            hooks => (ABOVE_HOOK_BYTES + hooks, ABOVE_HOOK_BYTES / 2 + hooks),
        };
        let bytes = own.max(above) + thread_locals::stack_bytes();
        Stack { bytes, need_bytes: need.max(least) }
    }
}

/// Bytes of the guard below each stack.
fn guard_bytes(settings: &Settings) -> u64 {
    if settings.hook_stack_bytes() > 0 { HOOK_GUARD_BYTES } else { GUARD_BYTES }
}

/// The stacks of all threads.
#[derive(Clone, Copy)]
pub struct Stacks {
    /// Guards and stacks in turn; empty while counting.
    region: Region,
    /// There are guards to lift.
    is_guarded: bool,
    /// Why there is no guard, or none below the later stacks.
    refused: Option<Errno>,
}

impl Stacks {
    /// Takes them, and sets the guards. A caller's memory may know no such thing, as that of huge
    /// pages: then the threads go without.
    #[inline(never)] // as said of `layout`
    pub fn carve(carver: &mut Carver, os: &Os, settings: &Settings) -> Stacks {
        let guard_bytes = guard_bytes(settings);
        let (mut is_guarded, mut refused) = (false, None);
        let sizes = (0..settings.thread_count()).map(|number| Stack::of(settings, number).bytes);
        let region = carver.guarded(Item::ThreadStacks, guard_bytes, sizes, |guard| {
            if refused.is_none() {
                refused = (os.guard)(guard, guard_bytes, true).err();
                is_guarded |= refused.is_none();
            }
        });
        Stacks { region, is_guarded, refused }
    }

    /// The stack of thread `number`; all of them, which are none, while counting.
    pub fn part(&self, carver: &Carver, settings: &Settings, number: u32) -> Region {
        if carver.is_counting() {
            return self.region;
        }
        let guard = guard_bytes(settings);
        let before = (0..number).map(|number| guard + Stack::of(settings, number).bytes);
        let offset = before.sum::<u64>() + guard;
        self.region.part(offset, Stack::of(settings, number).bytes)
    }

    /// Says so where guards are missing.
    pub fn tell(&self, sink: &Sink) {
        if let Some(errno) = self.refused {
            let text = format_args!("the stacks of wavetrain's threads have no guard: {errno}");
            sink.log(Level::Warn, 0, text);
        }
    }

    /// Makes the guards accessible again: whose the block is gets it back as it was.
    pub fn lift(&self, os: &Os) {
        if let Some(start) = NonNull::new(self.region.as_ptr()).filter(|_| self.is_guarded) {
            let lifted = (os.guard)(start, self.region.bytes(), false);
            assert!(lifted.is_ok());
        }
    }
}
