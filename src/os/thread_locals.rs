//! What the thread-local variables of the program take of every thread's stack.
//!
//! In: the program headers of what is loaded. Out: bytes, the same on every call. libc puts the
//! variables of the program and of the libraries that it was linked with on the stack of each
//! thread, ours too, before the thread begins; what is left may be too little, and of the stacks in
//! the arena only that of a device's thread has a guard page. A program linked with libtorch for
//! CUDA has 250 KiB of them.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

/// What every stack has room for besides what our threads need: most programs have less.
const ROOM_BYTES: u64 = 16 << 10;
/// What libc reserves for libraries that are opened later, and its own record of the thread.
const RESERVE_BYTES: u64 = 8 << 10;
const PAGE_BYTES: u64 = 4096;
/// No answer yet.
const UNKNOWN: u64 = u64::MAX;

/// Bytes that a stack must have besides what the thread needs, a multiple of a page; 0 in a program
/// with few such variables.
///
/// Libraries opened at run time are counted too if they were there at the first call, although libc
/// keeps their variables elsewhere: it does not say which they are. The first answer holds for the
/// process, so that the bill of a config stays the same.
pub fn stack_bytes() -> u64 {
    static ANSWER: AtomicU64 = AtomicU64::new(UNKNOWN);
    // Relaxed, here and below: the number stands for itself.
    let known = ANSWER.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let mut sum = 0u64;
    // SAFETY: `add` gets a valid record and the pointer to `sum`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut sum).cast()) };
    let bytes = match sum <= ROOM_BYTES {
        true => 0,
        false => sum.saturating_add(RESERVE_BYTES).next_multiple_of(PAGE_BYTES),
    };
    match ANSWER.compare_exchange(UNKNOWN, bytes, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => bytes,
        Err(first) => first,
    }
}

/// Adds what one loaded object has.
unsafe extern "C" fn add(
    object: *mut libc::dl_phdr_info,
    _bytes: usize,
    sum: *mut c_void,
) -> c_int {
    // SAFETY: libc passes a record with `dlpi_phnum` headers, and the pointer that `stack_bytes`
    // gave it.
    unsafe {
        let sum = &mut *sum.cast::<u64>();
        for number in 0..(*object).dlpi_phnum {
            let header = &*(*object).dlpi_phdr.add(number as usize);
            if header.p_type == libc::PT_TLS {
                // Behind each block there may be a gap for the alignment of the next.
                *sum = sum.saturating_add(header.p_memsz).saturating_add(header.p_align);
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_few_thread_locals_adds_nothing() {
        assert_eq!(stack_bytes(), 0);
    }
}
