//! Files that are read past the page cache (O_DIRECT): how they are opened, and which reads they
//! take.
//!
//! In: a path, or the range of a file that somebody wants. Out: a descriptor with the alignment
//! that its reads must keep, or the wider range that keeps it. A file that only pretends is
//! refused: some (ext4 with data journaling) take the flag and read through the cache all the same.

use crate::os::{Errno, close, open_with, system_call};
use core::mem::MaybeUninit;

/// What a direct read must be a multiple of. Both are powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectAlign {
    /// Of the target's address, in bytes.
    pub memory: u32,
    /// Of the file offset and of the number of bytes, in bytes.
    pub offset: u32,
}

impl DirectAlign {
    /// Where the kernel does not tell (before Linux 6.1, or a file system that reports nothing):
    /// the page, which no block device with a file system on it exceeds.
    pub const PAGE: DirectAlign = DirectAlign { memory: 4096, offset: 4096 };
}

/// The entry `Os::open_direct` of the real system.
pub fn open_direct(path: &[u8]) -> Result<(i32, DirectAlign), Errno> {
    let fd = open_with(path, libc::O_DIRECT)?;
    match align_of_file(fd) {
        Ok(align) => Ok((fd, align)),
        Err(errno) => {
            close(fd);
            Err(errno)
        }
    }
}

fn align_of_file(fd: i32) -> Result<DirectAlign, Errno> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let (path, target) = (c"".as_ptr().expose_provenance(), found.as_mut_ptr().expose_provenance());
    let (flags, mask) = (libc::AT_EMPTY_PATH as usize, libc::STATX_DIOALIGN as usize);
    // SAFETY: the path is an empty NUL-terminated string, which AT_EMPTY_PATH takes for the
    // descriptor itself; the kernel writes one struct statx.
    match unsafe { system_call(libc::SYS_statx, [fd as usize, path, flags, mask, target]) } {
        Err(Errno(libc::ENOSYS | libc::EPERM)) => return Ok(DirectAlign::PAGE),
        looked => looked?,
    };
    // SAFETY: all bytes were zeroed before the kernel wrote, and zeroes are a valid struct statx.
    let found = unsafe { found.assume_init() };
    align_from(
        found.stx_mask & libc::STATX_DIOALIGN != 0,
        found.stx_dio_mem_align,
        found.stx_dio_offset_align,
    )
}

/// What statx said, judged: `is_told` is its mask bit. Zeroes mean that this file has no direct
/// reads, which is the errno that an open without them gives.
fn align_from(is_told: bool, memory: u32, offset: u32) -> Result<DirectAlign, Errno> {
    match (is_told, memory, offset) {
        (false, ..) => Ok(DirectAlign::PAGE),
        (true, 0, _) | (true, _, 0) => Err(Errno(libc::EINVAL)),
        (true, memory, offset) if memory.is_power_of_two() && offset.is_power_of_two() => {
            Ok(DirectAlign { memory, offset })
        }
        (true, ..) => Ok(DirectAlign::PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_alignment_means_that_the_file_has_no_direct_reads() {
        assert_eq!(align_from(true, 0, 0), Err(Errno(libc::EINVAL)));
        assert_eq!(align_from(true, 4, 512), Ok(DirectAlign { memory: 4, offset: 512 }));
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_a_page() {
        assert_eq!(align_from(false, 0, 0), Ok(DirectAlign::PAGE));
        assert_eq!(align_from(true, 3, 512), Ok(DirectAlign::PAGE));
    }
}
