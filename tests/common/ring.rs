//! Whether rings can be tested on this machine, and a look at what goes through one.

use std::sync::atomic::Ordering::SeqCst;
use wavetrain::os::uring::Ring;
use wavetrain::os::uring::kernel::{CompleteSlot, RingMemory, SubmitSlot};
use wavetrain::os::{Errno, SYSTEM};

/// The number of the read that wakes the ring.
const WAKE: u64 = u64::MAX;

/// Whether the kernel gives this process a ring; says so where it does not.
pub fn is_supported() -> bool {
    match Ring::open(&SYSTEM, 1) {
        Ok(mut ring) => ring.close().is_ok(),
        Err(errno) => {
            println!("skipped: no io_uring here: {errno}");
            false
        }
    }
}

/// Looks at the requests that are about to be handed over.
pub fn each_request(ring: &RingMemory, submit: u32, mut see: impl FnMut(&mut SubmitSlot)) {
    // SAFETY: only the ring's thread is here, and the kernel looks at the queue in `ring_enter`.
    unsafe {
        let tail = ring.submit.tail.as_ref().load(SeqCst);
        for turn in 1..=submit {
            let slot = tail.wrapping_sub(turn) & (ring.submit.entries - 1);
            let request = ring.submit.slots.add(slot as usize).as_mut();
            if request.user_data != WAKE {
                see(request);
            }
        }
    }
}

/// Enters the kernel, and looks at the completions of reads that came of it.
pub fn each_completion(
    ring: &RingMemory,
    (submit, complete_min): (u32, u32),
    mut see: impl FnMut(&mut CompleteSlot),
) -> Result<u32, Errno> {
    // SAFETY: only the ring's thread is here, so nobody takes completions meanwhile.
    unsafe {
        let first = ring.complete.tail.as_ref().load(SeqCst);
        let taken = (SYSTEM.ring_enter)(ring, submit, complete_min);
        let limit = ring.complete.tail.as_ref().load(SeqCst);
        for position in 0..limit.wrapping_sub(first) {
            let slot = first.wrapping_add(position) & (ring.complete.entries - 1);
            let complete = ring.complete.slots.add(slot as usize).as_mut();
            if complete.user_data != WAKE {
                see(complete);
            }
        }
        taken
    }
}
