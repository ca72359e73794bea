//! Memory between pages that nobody may touch, so that a read or write past either end of a buffer
//! ends the program, in the replay of the seeds too; and a decoder to use it with.

use std::cell::RefCell;
use wavetrain::decode::Decoder;
use wavetrain::decode::inflate::Inflater;
use wavetrain::decode::zstd::Context;

/// What buffers hold before they are written.
pub const POISON: u8 = 0xA5;

/// Bytes of a bench's room.
pub const ROOM_BYTES: usize = 1 << 20;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Memory with a forbidden page on either side.
pub struct Room {
    first: *mut u8,
    bytes: usize,
}

impl Room {
    /// One of so many bytes, which are whole pages.
    pub fn of(room_bytes: usize) -> Room {
        assert!(room_bytes.is_multiple_of(PAGE_BYTES));
        let bytes = room_bytes + 2 * PAGE_BYTES;
        // SAFETY: a fresh private mapping, of which all but the pages at its ends is opened.
        let first = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
            assert!(map != libc::MAP_FAILED);
            let first = map.cast::<u8>().add(PAGE_BYTES);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(first.cast(), room_bytes, access), 0);
            first
        };
        Room { first, bytes: room_bytes }
    }

    /// `bytes` bytes of poison that end (or begin) where nobody may go on.
    pub fn poisoned(&mut self, bytes: usize, at_end: bool) -> &mut [u8] {
        assert!(bytes <= self.bytes);
        let skip = if at_end { self.bytes - bytes } else { 0 };
        // SAFETY: inside the opened pages, which live as long as the thread, and borrowed from the
        // only owner.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.first.add(skip), bytes) };
        buffer.fill(POISON);
        buffer
    }

    /// A copy of `bytes` that ends where nobody may go on.
    pub fn copy_of(&mut self, bytes: &[u8]) -> &[u8] {
        let copy = self.poisoned(bytes.len(), true);
        copy.copy_from_slice(bytes);
        copy
    }
}

/// What decoding takes.
pub struct Bench {
    pub decoder: Decoder,
    pub context: Context,
    pub inflater: Inflater,
    pub source: Room,
    pub target: Room,
    pub scratch: Room,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench {
        decoder: Decoder::new(workspace(), Box::leak(Box::new(Inflater::new()))).unwrap(),
        context: Context::new(workspace()).unwrap(),
        inflater: Inflater::new(),
        source: Room::of(ROOM_BYTES),
        target: Room::of(ROOM_BYTES),
        scratch: Room::of(ROOM_BYTES),
    });
}

fn workspace() -> &'static mut [u8] {
    let bytes = Context::workspace_bytes() as usize;
    let workspace = vec![0; bytes + 8].leak();
    let skip = workspace.as_ptr().align_offset(8);
    &mut workspace[skip..]
}

/// Runs `body` with the bench of this thread.
pub fn with_bench<R>(body: impl FnOnce(&mut Bench) -> R) -> R {
    BENCH.with_borrow_mut(body)
}
