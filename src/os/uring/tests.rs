//! The ring against the kernel that runs the tests, over files whose bytes tell their offset.
//! Where the kernel has no io_uring the tests say so.

use super::kernel::*;
use super::*;
use crate::base::arena::Claim;
use crate::os::SYSTEM;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::boxed::Box;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::vec;
use std::vec::Vec;
use std::{format, fs, path::PathBuf};

pub(super) const POISON: u8 = 0xA5;
/// Odd, and no multiple of a page.
const FILE_BYTES: u64 = 300_007;

/// Byte `at` of every painted file.
fn paint(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

pub(super) fn painted(at: u64, bytes: u64) -> Vec<u8> {
    (at..at + bytes).map(paint).collect()
}

/// A painted file, removed at the end of the test.
pub(super) struct Painted {
    file: fs::File,
    path: PathBuf,
}

impl Painted {
    pub(super) fn new(name: &str) -> Painted {
        let name = format!("wavetrain_uring_{}_{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, painted(0, FILE_BYTES)).unwrap();
        Painted { file: fs::File::open(&path).unwrap(), path }
    }

    pub(super) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

impl Drop for Painted {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

/// Memory that outlives every ring, as the arena does, poisoned.
pub(super) fn block(bytes: u64) -> Region {
    let layout = std::alloc::Layout::from_size_align(bytes as usize, 4096).unwrap();
    // SAFETY: the layout has bytes, and the block is never freed.
    unsafe {
        let start = NonNull::new(std::alloc::alloc(layout)).unwrap();
        start.as_ptr().write_bytes(POISON, bytes as usize);
        Region::over(start, bytes)
    }
}

/// Bytes of a block that no read is under way to.
pub(super) fn seen(block: &Region, offset: u64, bytes: u64) -> &'static [u8] {
    // SAFETY: the block is never freed, and its reads have ended.
    unsafe { block.part(offset, bytes).view() }
}

/// The same, to be written.
fn claimed(block: Region) -> &'static mut [u8] {
    // SAFETY: as in `seen`; and each test writes from one place at a time.
    unsafe { Claim::new(block) }.into_bytes()
}

pub(super) fn ring_on(os: &'static Os, depth: u32) -> Option<Ring> {
    match Ring::open(os, depth) {
        Ok(ring) => Some(ring),
        Err(errno @ Errno(libc::ENOSYS | libc::EPERM)) => {
            std::eprintln!("skipped: no io_uring here: {errno}");
            None
        }
        Err(errno) => panic!("io_uring_setup: {errno}"),
    }
}

/// A ring, over the system unless said otherwise, or the end of the test.
macro_rules! ring {
    ($depth:expr) => {
        ring!(&SYSTEM, $depth)
    };
    ($os:expr, $depth:expr) => {
        match ring_on($os, $depth) {
            Some(ring) => ring,
            None => return,
        }
    };
}
pub(super) use ring;

/// Reading and writing end; a read of it waits for a write.
pub(super) fn pipe() -> (fs::File, fs::File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let file = |fd: std::os::fd::OwnedFd| fs::File::from(fd);
    (file(reader.into()), file(writer.into()))
}

/// Waits for the next event that is a read.
pub(super) fn next_read(ring: &mut Ring) -> Completion {
    loop {
        match ring.next_event() {
            Some(Event::Read(completion)) => return completion,
            Some(Event::Woken) => {}
            None => ring.wait().unwrap(),
        }
    }
}

/// Streams `count` pieces of odd places and sizes through `depth` targets and checks each.
pub(super) fn stream(ring: &mut Ring, fd: i32, slab: &Region, count: u64) {
    let depth = u64::from(ring.depth());
    let piece_bytes = slab.bytes() / depth;
    let range = |piece: u64| {
        let at = piece.wrapping_mul(7919) % (FILE_BYTES - piece_bytes);
        (at, 1 + piece.wrapping_mul(104_729) % piece_bytes)
    };
    let mut places: Vec<Option<u64>> = vec![None; depth as usize];
    let (mut queued, mut done) = (0, 0);
    while done < count {
        while let Some(place) = places.iter().position(Option::is_none)
            && queued < count
        {
            let (at, bytes) = range(queued);
            claimed(slab.part(place as u64 * piece_bytes, piece_bytes)).fill(POISON);
            let target = slab.part(place as u64 * piece_bytes, bytes);
            assert!(ring.read(fd, target, at, place as u64));
            places[place] = Some(queued);
            queued += 1;
        }
        let completion = next_read(ring);
        let place = completion.user_data;
        let (at, bytes) = range(places[place as usize].take().unwrap());
        assert_eq!(completion.result, Ok(bytes as u32));
        let found = seen(slab, place * piece_bytes, piece_bytes);
        assert_eq!(found[..bytes as usize], painted(at, bytes));
        assert!(found[bytes as usize..].iter().all(|byte| *byte == POISON));
        done += 1;
    }
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn reads_at_odd_offsets_bring_the_bytes_of_the_file() {
    for (depth, is_fixed) in [(1, false), (1, true), (64, false), (64, true)] {
        let file = Painted::new(&format!("odd_{depth}_{is_fixed}"));
        let mut ring = ring!(depth);
        let slab = block(u64::from(depth) * 5003);
        if is_fixed {
            ring.register_buffer(slab).unwrap();
        }
        stream(&mut ring, file.fd(), &slab, 200);
        ring.close().unwrap();
    }
}

#[test]
fn many_laps_around_both_queues_lose_nothing() {
    let file = Painted::new("laps");
    let mut ring = ring!(3);
    let entries = u64::from(ring.memory.complete.entries);
    stream(&mut ring, file.fd(), &block(3 * 64), 500 * entries);
    ring.close().unwrap();
}

/// A ring of plain memory whose counters begin just below their end, and no kernel behind it.
pub(super) fn simulated_open(entries: u32) -> Result<RingMemory, Errno> {
    fn leak<T: Clone>(count: u32, value: T) -> NonNull<T> {
        NonNull::from(vec![value; count as usize].leak()).cast()
    }
    let entries = entries.next_power_of_two();
    let counter = || NonNull::from(Box::leak(Box::new(AtomicU32::new(u32::MAX - 2))));
    Ok(RingMemory {
        fd: -1,
        event: -1,
        submit: SubmitQueue {
            head: counter(),
            tail: counter(),
            flags: NonNull::from(Box::leak(Box::new(AtomicU32::new(0)))),
            slots: leak(entries, SubmitSlot::default()),
            entries,
        },
        complete: CompleteQueue {
            head: counter(),
            tail: counter(),
            slots: leak(2 * entries, CompleteSlot::default()),
            entries: 2 * entries,
        },
        event_count: NonNull::from(Box::leak(Box::new(AtomicU64::new(0)))),
        mappings: [Mapping::NONE; 3],
    })
}

/// Does the requests on the spot, the last one first; the eventfd is never read.
pub(super) fn simulated_enter(ring: &RingMemory, submit: u32, _: u32) -> Result<u32, Errno> {
    // SAFETY: the queues are plain memory that only this thread uses, and the requests name parts
    // of the test's slab.
    unsafe {
        let first = ring.submit.head.as_ref().load(Ordering::Relaxed);
        for turn in (0..submit).rev() {
            let slot = first.wrapping_add(turn) & (ring.submit.entries - 1);
            let request = ring.submit.slots.add(slot as usize).read();
            if request.user_data == WAKE {
                continue;
            }
            let start = NonNull::new(request.address as *mut u8).unwrap();
            let target = Region::over(start, u64::from(request.bytes));
            let target = claimed(target);
            let got = (SYSTEM.read)(request.fd, target, request.offset, false);
            let tail = ring.complete.tail.as_ref().load(Ordering::Relaxed);
            let slot = tail & (ring.complete.entries - 1);
            ring.complete.slots.add(slot as usize).write(CompleteSlot {
                user_data: request.user_data,
                result: got.map_or_else(|errno| -errno.0, |bytes| bytes as i32),
                flags: 0,
            });
            ring.complete.tail.as_ref().store(tail.wrapping_add(1), Ordering::Relaxed);
        }
        ring.submit.head.as_ref().store(first.wrapping_add(submit), Ordering::Relaxed);
    }
    Ok(submit)
}

static SIMULATED: Os =
    Os { ring_open: simulated_open, ring_enter: simulated_enter, ring_close: |_| (), ..SYSTEM };

#[test]
fn counters_run_over_the_end_of_u32() {
    let file = Painted::new("counters");
    let mut ring = Ring::open(&SIMULATED, 7).unwrap();
    stream(&mut ring, file.fd(), &block(7 * 64), 100);
    // The simulated eventfd's read would never end, so the ring is left open.
    assert_eq!(ring.with_kernel(), 1);
}

#[test]
fn a_read_past_the_end_of_the_file_is_short_and_then_empty() {
    let file = Painted::new("end");
    let mut ring = ring!(1);
    let slab = block(4096);
    for (at, expected) in [(FILE_BYTES - 10, 10), (FILE_BYTES, 0), (FILE_BYTES + 5, 0)] {
        claimed(slab.part(0, 4096)).fill(POISON);
        assert!(ring.read(file.fd(), slab, at, 5));
        assert_eq!(next_read(&mut ring), Completion { user_data: 5, result: Ok(expected) });
        let bytes = u64::from(expected);
        assert_eq!(seen(&slab, 0, bytes), painted(at, bytes));
        assert!(seen(&slab, bytes, 4096 - bytes).iter().all(|byte| *byte == POISON));
    }
    ring.close().unwrap();
}

#[test]
fn a_bad_descriptor_is_the_result_of_its_read_alone() {
    let file = Painted::new("bad_fd");
    let mut ring = ring!(3);
    let slab = block(300);
    assert!(ring.read(file.fd(), slab.part(0, 100), 3, 0));
    assert!(ring.read(-1, slab.part(100, 100), 3, 1));
    assert!(ring.read(file.fd(), slab.part(200, 100), 5, 2));
    let mut results = [Ok(0); 3];
    for _ in 0..3 {
        let completion = next_read(&mut ring);
        results[completion.user_data as usize] = completion.result;
    }
    assert_eq!(results, [Ok(100), Err(Errno(libc::EBADF)), Ok(100)]);
    assert_eq!(seen(&slab, 200, 100), painted(5, 100));
    ring.close().unwrap();
}

#[test]
fn an_offset_that_no_file_reaches_is_einval_and_never_the_descriptors_position() {
    let file = Painted::new("offset");
    let mut ring = ring!(1);
    let slab = block(100);
    for offset in [u64::MAX, u64::MAX - 1, i64::MAX as u64, 1 << 63] {
        assert!(ring.read(file.fd(), slab, offset, 0));
        assert_eq!(next_read(&mut ring).result, Err(Errno(libc::EINVAL)));
    }
    assert!(seen(&slab, 0, 100).iter().all(|byte| *byte == POISON));
    ring.close().unwrap();
}

#[test]
fn a_full_ring_refuses_a_read_until_a_completion_was_taken() {
    let file = Painted::new("full");
    let mut ring = ring!(5);
    let slab = block(600);
    for turn in 0..5 {
        assert!(ring.read(file.fd(), slab.part(turn * 100, 100), 0, turn));
    }
    assert!(!ring.read(file.fd(), slab.part(500, 100), 0, 5));
    ring.submit().unwrap();
    assert!(!ring.read(file.fd(), slab.part(500, 100), 0, 5));
    assert_eq!(ring.in_flight(), 5);
    next_read(&mut ring);
    assert!(ring.read(file.fd(), slab.part(500, 100), 0, 5));
    (0..5).for_each(|_| assert_eq!(next_read(&mut ring).result, Ok(100)));
    ring.close().unwrap();
}

#[test]
fn a_submitted_read_completes_without_a_wait() {
    let file = Painted::new("submit");
    let mut ring = ring!(1);
    let slab = block(100);
    assert!(ring.read(file.fd(), slab, 0, 9));
    assert_eq!(ring.next_event(), None);
    let event = loop {
        ring.submit().unwrap();
        if let Some(event) = ring.next_event() {
            break event;
        }
    };
    assert_eq!(event, Event::Read(Completion { user_data: 9, result: Ok(100) }));
    ring.close().unwrap();
}

#[test]
fn a_wake_from_another_thread_ends_every_wait() {
    let mut ring = ring!(4);
    let waker = ring.waker();
    let (ask, asked) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || asked.iter().for_each(|()| waker.wake()));
    for _ in 0..2000 {
        ask.send(()).unwrap();
        ring.wait().unwrap();
        assert_eq!(ring.next_event(), Some(Event::Woken));
        assert_eq!(ring.next_event(), None);
    }
    drop(ask);
    thread.join().unwrap();
    ring.close().unwrap();
}

#[test]
fn wakes_before_a_wait_are_kept_and_count_as_one() {
    let mut ring = ring!(1);
    (0..3).for_each(|_| ring.waker().wake());
    ring.wait().unwrap();
    assert_eq!(ring.next_event(), Some(Event::Woken));
    assert_eq!(ring.next_event(), None);
    // The wake read is idle now: this one has only the eventfd to keep it.
    ring.waker().wake();
    ring.wait().unwrap();
    assert_eq!(ring.next_event(), Some(Event::Woken));
    ring.close().unwrap();
}

#[test]
fn a_wake_is_seen_by_the_next_wait_though_reads_are_complete() {
    let file = Painted::new("woken");
    let mut ring = ring!(2);
    let slab = block(200);
    for _ in 0..100 {
        assert!(ring.read(file.fd(), slab.part(0, 100), 0, 0));
        ring.wait().unwrap();
        assert!(ring.read(file.fd(), slab.part(100, 100), 0, 1));
        ring.waker().wake();
        ring.wait().unwrap();
        let events: Vec<Event> = core::iter::from_fn(|| ring.next_event()).collect();
        assert!(events.contains(&Event::Woken), "{events:?}");
        while ring.in_flight() > 0 {
            ring.wait().unwrap();
            while ring.next_event().is_some() {}
        }
    }
    ring.close().unwrap();
}

#[test]
fn direct_reads_bring_the_same_bytes() {
    let file = Painted::new("direct");
    let mut path = file.path.to_str().unwrap().as_bytes().to_vec();
    path.push(0);
    let (fd, align) = match (SYSTEM.open_direct)(&path) {
        Ok(opened) => opened,
        Err(Errno(libc::EINVAL)) => return std::eprintln!("skipped: no O_DIRECT here"),
        Err(errno) => panic!("{errno}"),
    };
    let mut ring = ring!(8);
    let slab = block(8 * 65_536);
    ring.register_buffer(slab).unwrap();
    for turn in 0..64u64 {
        let (offset, bytes) = (turn * 4657, 1 + turn * 100);
        let unit = u64::from(align.offset);
        let (start, limit) = (offset / unit * unit, (offset + bytes).next_multiple_of(unit));
        let target = slab.part((turn % 8) * 65_536, limit - start);
        assert!((target.as_ptr() as u64).is_multiple_of(u64::from(align.memory)));
        assert!(ring.read(fd, target, start, turn));
        let got = next_read(&mut ring).result.unwrap();
        assert_eq!(u64::from(got), limit.min(FILE_BYTES) - start);
        assert_eq!(seen(&target, 0, u64::from(got)), painted(start, u64::from(got)));
        assert_eq!(seen(&target, offset - start, bytes), painted(offset, bytes));
    }
    ring.close().unwrap();
    (SYSTEM.close)(fd);
}

#[test]
fn direct_reads_of_a_missing_file_are_enoent() {
    assert_eq!((SYSTEM.open_direct)(b"/nonexistent/x\0"), Err(Errno(libc::ENOENT)));
}

#[test]
fn a_read_whose_thread_ended_still_comes_back() {
    let file = Painted::new("ended");
    let (reader, mut writer) = pipe();
    let mut ring = ring!(4);
    let slab = block(200);
    let mut ring = std::thread::spawn(move || {
        assert!(ring.read(reader.as_raw_fd(), slab.part(0, 100), 0, 0));
        ring.submit().unwrap();
        (ring, reader)
    })
    .join()
    .unwrap();
    writer.write_all(b"bytes").unwrap();
    let completion = next_read(&mut ring.0);
    assert!(matches!(completion.result, Ok(5) | Err(Errno(libc::ECANCELED))), "{completion:?}");
    // The ring works on for this thread.
    assert!(ring.0.read(file.fd(), slab.part(100, 100), 1, 1));
    assert_eq!(next_read(&mut ring.0), Completion { user_data: 1, result: Ok(100) });
    ring.0.close().unwrap();
}

#[test]
fn the_smallest_and_the_largest_depth_open() {
    for depth in [1, 2, 3, DEPTH_MAX] {
        let mut ring = ring!(depth);
        assert_eq!(ring.depth(), depth);
        assert!(ring.bytes() >= u64::from(depth) * 64);
        ring.close().unwrap();
    }
}
