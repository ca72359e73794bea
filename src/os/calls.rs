//! The calls that led to a defect, as places in the archive's code.
//!
//! In: the stack of the thread that met it. Out: places in the code, innermost call first.
//! The archive has neither unwind tables nor frame pointers, so nothing says where one frame ends
//! and the next begins. Instead every word above this frame is looked at: one that points into our
//! code, right behind a call instruction, is taken for a return address. Words that an earlier call
//! left behind can be among them, and calls that were made from outside our code are not.
//!
//! What keeps this sound: words are compared and never followed; a page is read only after the
//! kernel has said that it can be, so the end of the stack need not be known; and the reads are
//! instructions of their own, to which neither the owner nor the contents of a word matter.

use core::arch::asm;

/// Return addresses that are looked for.
pub const CALLS_MAX: usize = 12;

/// Words that are looked at: 64 KiB, more than our threads' stacks have in use.
const WORDS_MAX: usize = 8192;

const WORD_BYTES: usize = size_of::<usize>();

/// Every machine's pages are this large or a multiple of it.
const PAGE_BYTES: usize = 4096;

/// The longest call instruction.
#[cfg(target_arch = "x86_64")]
const CALL_BYTES: usize = 7;
#[cfg(target_arch = "aarch64")]
const CALL_BYTES: usize = 4;

// The ends of the archive's code: tools/fold.ld defines them.
#[cfg(wavetrain_archive)]
unsafe extern "C" {
    static wavetrain_code_first: u8;
    static wavetrain_code_limit: u8;
}

/// The code of the archive.
#[cfg(wavetrain_archive)]
pub fn archive_code() -> &'static [u8] {
    // SAFETY: both are places of the link script, in this order, and between them lies code, which
    // linkers map readable. They are static and never change.
    unsafe {
        let first = &raw const wavetrain_code_first;
        let bytes = (&raw const wavetrain_code_limit) as usize - first as usize;
        core::slice::from_raw_parts(first, bytes)
    }
}

/// Offsets in `code` of the calls that this thread is in: of the last byte of each instruction, as
/// a table of lines wants it. Returns how many there are, of which more than fit are left out.
#[inline(never)]
pub fn calls(code: &[u8], found: &mut [usize; CALLS_MAX]) -> usize {
    let here = (&raw const code).addr().next_multiple_of(WORD_BYTES);
    let mut count = 0;
    for number in 0..WORDS_MAX {
        let Some(address) = here.checked_add(number * WORD_BYTES) else { break };
        let is_new_page = number == 0 || address.is_multiple_of(PAGE_BYTES);
        if count == CALLS_MAX || is_new_page && !is_readable(address) {
            break;
        }
        // SAFETY: the kernel has read a word of the page, on which this one lies whole, too.
        if let Some(offset) = call_before(code, unsafe { word_at(address) }) {
            found[count] = offset;
            count += 1;
        }
    }
    count
}

/// Where the call lies that a return address stands behind; None where it stands behind none.
fn call_before(code: &[u8], address: usize) -> Option<usize> {
    let limit = address.checked_sub(code.as_ptr().addr())?;
    let bytes = code.get(..limit)?.last_chunk()?;
    is_call(bytes).then_some(limit - 1)
}

/// Whether a call instruction ends here: one to a place, or one through a register or memory, of
/// all lengths that its operand can have.
#[cfg(target_arch = "x86_64")]
fn is_call(before: &[u8; CALL_BYTES]) -> bool {
    let begins = |bytes: usize| [before[CALL_BYTES - bytes], before[CALL_BYTES - bytes + 1]];
    let is_indirect = |bytes| {
        let [opcode, operand] = begins(bytes);
        opcode == 0xFF && operand & 0x38 == 0x10
    };
    begins(5)[0] == 0xE8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

/// Whether a call instruction ends here: `bl` or `blr`.
#[cfg(target_arch = "aarch64")]
fn is_call(before: &[u8; CALL_BYTES]) -> bool {
    let word = u32::from_le_bytes(*before);
    word & 0xFC00_0000 == 0x9400_0000 || word & 0xFFFF_FC1F == 0xD63F_0000
}

/// Whether the word at an address can be read. sigprocmask reads the new mask before it finds that
/// what to do with it is nonsense: an unreadable one is EFAULT, and nothing changes either way.
fn is_readable(address: usize) -> bool {
    const NONSENSE: libc::c_long = -1;
    // SAFETY: the kernel reads eight bytes, if they are there, and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NONSENSE, address, 0usize, WORD_BYTES) };
    result == -1 && super::last_errno().0 == libc::EINVAL
}

/// The word at an aligned address.
///
/// # Safety
/// It can be read.
unsafe fn word_at(address: usize) -> usize {
    let word;
    // SAFETY: the caller says that it can be read; nothing else happens.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, [{}]", out(reg) word, in(reg) address,
            options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {}, [{}]", out(reg) word, in(reg) address,
            options(readonly, nostack, preserves_flags));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much code around a place as every function of this file has.
    fn code_around(place: usize) -> &'static [u8] {
        let first = core::ptr::with_exposed_provenance(place - 64);
        // SAFETY: the test program is far larger, and its code is readable.
        unsafe { core::slice::from_raw_parts(first, 256) }
    }

    #[inline(never)]
    fn caller(code: &[u8]) -> ([usize; CALLS_MAX], usize) {
        let mut found = [0; CALLS_MAX];
        let count = core::hint::black_box(calls(code, &mut found));
        (found, count)
    }

    #[test]
    fn the_call_of_a_function_on_the_stack_is_found_inside_its_caller() {
        let code = code_around(caller as *const () as usize);
        let (found, count) = caller(code);
        assert!(count > 0);
        assert!(found[..count].iter().any(|offset| (64..256).contains(offset)), "{found:?}");
        assert_eq!(caller(&[]).1, 0);
    }

    #[test]
    fn memory_that_is_not_there_is_found_out_without_a_fault() {
        let word = 7usize;
        assert!(is_readable((&raw const word).addr()));
        assert!(!is_readable(0) && !is_readable(WORD_BYTES) && !is_readable(!7));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_of_every_form_are_told_from_other_instructions() {
        let ends_with = |bytes: &[u8]| {
            let mut before = [0x90; CALL_BYTES];
            before[CALL_BYTES - bytes.len()..].copy_from_slice(bytes);
            is_call(&before)
        };
        // call rel32; call rbx; call r9; call [rax + 8]; call [rsp + 8]; call [rip + 1]; call
        // [rsp + 0x1000].
        assert!(ends_with(&[0xE8, 1, 2, 3, 4]));
        assert!(ends_with(&[0xFF, 0xD3]) && ends_with(&[0x41, 0xFF, 0xD1]));
        assert!(ends_with(&[0xFF, 0x50, 8]) && ends_with(&[0xFF, 0x54, 0x24, 8]));
        assert!(ends_with(&[0xFF, 0x15, 1, 0, 0, 0]));
        assert!(ends_with(&[0xFF, 0x94, 0x24, 0, 0x10, 0, 0]));
        // jmp rel32; jmp rbx; push rbx; inc ebx.
        assert!(!ends_with(&[0xE9, 1, 2, 3, 4]) && !ends_with(&[0xFF, 0xE3]));
        assert!(!ends_with(&[0x53]) && !ends_with(&[0xFF, 0xC3]));
    }

    #[test]
    fn a_word_outside_the_code_or_at_its_start_is_no_return_address() {
        let code = [0xE8; 32];
        let first = code.as_ptr().addr();
        for word in [0, first - 1, first, first + CALL_BYTES - 1, first + 33, usize::MAX] {
            assert_eq!(call_before(&code, word), None, "{word:#x}");
        }
    }
}
