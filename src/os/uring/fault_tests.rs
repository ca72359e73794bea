//! The ring against kernels that interrupt, refuse or fail at a chosen call, and what it asks of
//! them: every case replaces entries of the table around the system's own.

use super::kernel::*;
use super::tests::*;
use super::*;
use crate::os::SYSTEM;
use core::cell::Cell;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::thread_local;

thread_local! {
    /// Opcodes that `ring_enter` saw, and what the hooks below are to do.
    static OPCODES: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static FAULT: Cell<i32> = const { Cell::new(0) };
    static PIPE: Cell<i32> = const { Cell::new(-1) };
}

fn each_queued(ring: &RingMemory, submit: u32, mut see: impl FnMut(&SubmitSlot)) {
    // SAFETY: the test's thread is the only one that writes the queue.
    unsafe {
        let tail = ring.submit.tail.as_ref().load(Ordering::Relaxed);
        for turn in 1..=submit {
            let slot = tail.wrapping_sub(turn) & (ring.submit.entries - 1);
            see(ring.submit.slots.add(slot as usize).as_ref());
        }
    }
}

static SEEN: Os = Os {
    ring_enter: |ring, submit, complete_min| {
        each_queued(ring, submit, |request| {
            if request.user_data != WAKE {
                let [plain, fixed] = OPCODES.get();
                OPCODES.set(match request.opcode {
                    OP_READ => [plain + 1, fixed],
                    OP_READ_FIXED => [plain, fixed + 1],
                    other => panic!("opcode {other}"),
                });
            }
        });
        (SYSTEM.ring_enter)(ring, submit, complete_min)
    },
    ring_register: |ring, block| match FAULT.get() {
        0 => (SYSTEM.ring_register)(ring, block),
        errno => Err(Errno(errno)),
    },
    ..SYSTEM
};

#[test]
fn only_targets_that_lie_wholly_in_the_registered_block_are_fixed_reads() {
    let file = Painted::new("wholly");
    let mut ring = ring!(&SEEN, 4);
    let whole = block(3 * 4096);
    ring.register_buffer(whole.part(4096, 4096)).unwrap();
    let targets = [(4096, 4096), (8191, 1), (8191, 2), (4095, 2), (0, 4096), (8192, 10)];
    let expected = [[0, 1], [0, 2], [1, 2], [2, 2], [3, 2], [4, 2]];
    for ((offset, bytes), expected) in targets.into_iter().zip(expected) {
        assert!(ring.read(file.fd(), whole.part(offset, bytes), 77, 0));
        assert_eq!(next_read(&mut ring).result, Ok(bytes as u32));
        assert_eq!(seen(&whole, offset, bytes), painted(77, bytes));
        assert_eq!(OPCODES.get(), expected);
    }
    ring.close().unwrap();
}

#[test]
fn a_block_that_is_not_registered_is_reported_and_read_plainly() {
    let file = Painted::new("memlock");
    let mut ring = ring!(&SEEN, 4);
    let slab = block(4 * 5003);
    FAULT.set(libc::ENOMEM);
    assert_eq!(ring.register_buffer(slab), Err(Errno(libc::ENOMEM)));
    stream(&mut ring, file.fd(), &slab, 20);
    assert_eq!(OPCODES.get(), [20, 0]);
    ring.close().unwrap();
}

static NO_RING: Os = Os { ring_open: |_| Err(Errno(libc::ENOSYS)), ..SYSTEM };

#[test]
fn a_kernel_without_io_uring_gives_its_errno() {
    assert_eq!(Ring::open(&NO_RING, 8).err(), Some(Errno(libc::ENOSYS)));
}

/// Interrupts, shortages and partial submissions in turn; one request at a time gets through.
static ROUGH: Os = Os {
    ring_enter: |ring, submit, complete_min| {
        CALLS.set(CALLS.get() + 1);
        match (CALLS.get() % 5, submit) {
            (0, _) => Err(Errno(libc::EINTR)),
            (1, 1..) => Err(Errno(libc::EAGAIN)),
            (2, 1..) => Err(Errno(libc::EBUSY)),
            (3, 2..) => (SYSTEM.ring_enter)(ring, 1, 0),
            _ => (SYSTEM.ring_enter)(ring, submit, complete_min),
        }
    },
    ..SYSTEM
};

#[test]
fn interrupts_shortages_and_partial_submissions_lose_no_read() {
    let file = Painted::new("rough");
    let mut ring = ring!(&ROUGH, 8);
    let slab = block(8 * 100);
    let (mut queued, mut done) = (0, 0);
    while done < 500 {
        while queued < 500 && ring.read(file.fd(), slab.part(queued % 8 * 100, 100), 0, queued) {
            queued += 1;
        }
        match ring.wait() {
            Ok(()) | Err(Errno(libc::EAGAIN)) => {}
            Err(errno) => panic!("{errno}"),
        }
        while let Some(event) = ring.next_event() {
            if let Event::Read(completion) = event {
                assert_eq!(completion.result, Ok(100));
                done += 1;
            }
        }
    }
    assert_eq!(ring.in_flight(), 0);
    ring.close().unwrap();
}

static SHORT: Os = Os {
    ring_enter: |ring, submit, complete_min| match FAULT.get() {
        0 => (SYSTEM.ring_enter)(ring, submit, complete_min),
        errno => Err(Errno(errno)),
    },
    ..SYSTEM
};

#[test]
fn a_kernel_that_takes_nothing_is_reported_and_the_reads_stay_queued() {
    let file = Painted::new("short");
    let mut ring = ring!(&SHORT, 2);
    let slab = block(100);
    assert!(ring.read(file.fd(), slab, 11, 4));
    for errno in [libc::EAGAIN, libc::EPERM] {
        FAULT.set(errno);
        assert_eq!(ring.submit(), Err(Errno(errno)));
        assert_eq!(ring.wait(), Err(Errno(errno)));
        assert_eq!(ring.next_event(), None);
    }
    FAULT.set(0);
    assert_eq!(next_read(&mut ring), Completion { user_data: 4, result: Ok(100) });
    assert_eq!(seen(&slab, 0, 100), painted(11, 100));
    ring.close().unwrap();
}

static COUNTED: Os = Os {
    ring_open: simulated_open,
    ring_enter: |ring, submit, complete_min| {
        CALLS.set(CALLS.get() + 1);
        simulated_enter(ring, submit, complete_min)
    },
    ..SYSTEM
};

#[test]
fn the_kernel_is_entered_when_it_says_that_completions_wait_there_and_not_otherwise() {
    let file = Painted::new("counted");
    let mut ring = Ring::open(&COUNTED, 4).unwrap();
    assert!(ring.read(file.fd(), block(100), 0, 0));
    ring.wait().unwrap();
    assert_eq!(CALLS.get(), 1);
    ring.submit().unwrap();
    ring.wait().unwrap();
    assert_eq!(CALLS.get(), 1);
    // SAFETY: the flags are plain memory of the simulated ring.
    unsafe { ring.memory.submit.flags.as_ref().store(SQ_TASKRUN, Ordering::Relaxed) };
    ring.submit().unwrap();
    assert_eq!(CALLS.get(), 2);
    ring.wait().unwrap();
    assert_eq!(CALLS.get(), 3);
}

/// Takes no request while FAULT is set, but lets the ring wait.
static STARVED: Os = Os {
    ring_enter: |ring, submit, complete_min| match (submit, FAULT.get()) {
        (0, _) | (_, 0) => (SYSTEM.ring_enter)(ring, submit, complete_min),
        (_, errno) => Err(Errno(errno)),
    },
    ..SYSTEM
};

#[test]
fn a_shortage_is_waited_out_only_where_a_read_is_sure_to_end_it() {
    let (reader, mut writer) = pipe();
    let mut ring = ring!(&STARVED, 4);
    let slab = block(200);
    ring.arm_wake().unwrap();
    ring.submit().unwrap();
    assert!(ring.read(reader.as_raw_fd(), slab.part(0, 100), 0, 0));
    FAULT.set(libc::EAGAIN);
    // The kernel has the read of the eventfd alone.
    assert_eq!(ring.wait(), Err(Errno(libc::EAGAIN)));
    FAULT.set(0);
    ring.submit().unwrap();
    FAULT.set(libc::EAGAIN);
    assert!(ring.read(reader.as_raw_fd(), slab.part(100, 100), 0, 1));
    writer.write_all(b"first").unwrap();
    ring.wait().unwrap();
    let first = Completion { user_data: 0, result: Ok(5) };
    assert_eq!(ring.next_event(), Some(Event::Read(first)));
    FAULT.set(0);
    writer.write_all(b"next").unwrap();
    assert_eq!(next_read(&mut ring), Completion { user_data: 1, result: Ok(4) });
    ring.close().unwrap();
}

/// Changes what the read of the eventfd gave to FAULT.
static BAD_WAKE: Os = Os {
    ring_enter: |ring, submit, complete_min| {
        // SAFETY: the test's thread is the only one that enters the kernel, so nobody writes the
        // completions here.
        let tail = || unsafe { ring.complete.tail.as_ref().load(Ordering::Acquire) };
        let first = tail();
        let taken = (SYSTEM.ring_enter)(ring, submit, complete_min);
        for position in 0..tail().wrapping_sub(first) {
            let slot = first.wrapping_add(position) & (ring.complete.entries - 1);
            // SAFETY: the memory is mapped while the ring is open; the slot is below the entries.
            let complete = unsafe { ring.complete.slots.add(slot as usize).as_mut() };
            if complete.user_data == WAKE && FAULT.get() != 0 {
                complete.result = -FAULT.get();
            }
        }
        taken
    },
    ..SYSTEM
};

#[test]
fn a_cancelled_wake_read_is_queued_again() {
    let mut ring = ring!(&BAD_WAKE, 1);
    for errno in [libc::ECANCELED, 0, libc::EINTR, 0] {
        FAULT.set(errno);
        ring.waker().wake();
        ring.wait().unwrap();
        assert_eq!(ring.next_event(), Some(Event::Woken));
    }
    ring.close().unwrap();
}

#[test]
fn a_wake_read_that_cannot_work_fails_the_next_wait() {
    let mut ring = ring!(&BAD_WAKE, 1);
    FAULT.set(libc::EINVAL);
    ring.waker().wake();
    ring.wait().unwrap();
    assert_eq!(ring.next_event(), Some(Event::Woken));
    assert_eq!(ring.wait(), Err(Errno(libc::EINVAL)));
    ring.close().unwrap();
}

/// Fills the pipe only once somebody waits in the kernel.
static LATE: Os = Os {
    ring_enter: |ring, submit, complete_min| {
        if complete_min > 0 && PIPE.get() >= 0 {
            // SAFETY: the descriptor is the writing end of the test's pipe, which is open.
            let wrote = unsafe { libc::write(PIPE.get(), b"painted".as_ptr().cast(), 7) };
            assert_eq!(wrote, 7);
            PIPE.set(-1);
        }
        (SYSTEM.ring_enter)(ring, submit, complete_min)
    },
    ..SYSTEM
};

#[test]
fn close_waits_for_the_reads_in_flight() {
    for (is_fixed, is_armed) in [(false, false), (true, false), (false, true), (true, true)] {
        let (reader, writer) = pipe();
        let mut ring = ring!(&LATE, 4);
        let slab = block(100);
        if is_fixed {
            ring.register_buffer(slab).unwrap();
        }
        if is_armed {
            ring.waker().wake();
            ring.wait().unwrap();
            ring.arm_wake().unwrap();
        }
        assert!(ring.read(reader.as_raw_fd(), slab.part(50, 50), 0, 0));
        ring.submit().unwrap();
        assert_eq!(ring.with_kernel(), 1 + u32::from(is_armed));
        // Never handed over, so never read.
        assert!(ring.read(reader.as_raw_fd(), slab.part(0, 50), 0, 1));
        PIPE.set(writer.as_raw_fd());
        ring.close().unwrap();
        assert_eq!(PIPE.get(), -1);
        assert_eq!(seen(&slab, 50, 7), b"painted");
        assert!(seen(&slab, 0, 50).iter().all(|byte| *byte == POISON));
    }
}

#[test]
fn close_that_the_kernel_does_not_answer_says_so_and_goes_on_later() {
    let (reader, mut writer) = pipe();
    let mut ring = ring!(&SHORT, 4);
    let slab = block(100);
    assert!(ring.read(reader.as_raw_fd(), slab, 0, 0));
    ring.submit().unwrap();
    FAULT.set(libc::EIO);
    assert_eq!(ring.close(), Err(Errno(libc::EIO)));
    assert_eq!(ring.in_flight(), 1);
    FAULT.set(0);
    writer.write_all(b"late").unwrap();
    ring.close().unwrap();
    assert_eq!(seen(&slab, 0, 4), b"late");
}
