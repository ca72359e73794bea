//! Files that are mapped into addresses which were reserved for them.
//!
//! In: an open file. Out: its bytes at the addresses. If the file is truncated, or storage fails,
//! an access ends the process by SIGBUS, so only files of local file systems are mapped: those of a
//! network come and go with it.

use crate::base::arena::Region;
use crate::base::limits::WINDOW_BYTES;
use crate::os::{Errno, last_errno};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// Numbers of the file systems whose files are mapped, from linux/magic.h: ext4, xfs, btrfs, tmpfs
/// and overlayfs.
const LISTED: [i64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630];

pub(super) fn reserve(bytes: u64) -> Result<Region, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous private mapping touches no existing memory.
    let place =
        unsafe { libc::mmap(ptr::null_mut(), bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(last_errno());
    }
    let start = NonNull::new(place.cast()).ok_or(Errno(libc::ENOMEM))?;
    // SAFETY: the addresses are reserved until `unmap`.
    Ok(unsafe { Region::over(start, bytes) })
}

pub(super) fn map_file(place: Region, fd: i32, first: u64) -> Result<(), Errno> {
    assert!(place.bytes() == WINDOW_BYTES);
    let (bytes, place) = (place.bytes() as usize, place.as_ptr().cast());
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the addresses are a window from `reserve`, and its one user maps it.
    let mapped = unsafe { libc::mmap(place, bytes, libc::PROT_READ, flags, fd, first as i64) };
    if mapped == libc::MAP_FAILED { Err(last_errno()) } else { Ok(()) }
}

pub(super) fn is_mappable(fd: i32) -> bool {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: fstatfs writes the struct that it is given.
    let has_failed = unsafe { libc::fstatfs(fd, found.as_mut_ptr()) } != 0;
    // SAFETY: all bytes were zeroed, and zeroes are a valid struct statfs.
    let kind = unsafe { found.assume_init() }.f_type;
    // Its type is that of the C library.
    #[allow(clippy::unnecessary_cast)]
    let kind = kind as i64;
    !has_failed && LISTED.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::SYSTEM;

    #[test]
    fn files_of_proc_are_not_mapped_and_mapped_bytes_are_those_of_the_file() {
        let open = |path: &[u8]| (SYSTEM.open)(path).unwrap();
        let (listed, other) = (open(b"/dev/shm\0"), open(b"/proc/self/maps\0"));
        assert_eq!((is_mappable(listed), is_mappable(other)), (true, false));
        [listed, other].into_iter().for_each(SYSTEM.close);
        let place = reserve(2 * WINDOW_BYTES).unwrap();
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = open(&[path.as_os_str().as_encoded_bytes(), b"\0"].concat());
        let second = place.part(WINDOW_BYTES, WINDOW_BYTES);
        assert_eq!(map_file(second, file, 0), Ok(()));
        // SAFETY: the file has so many bytes, and nobody writes them.
        assert!(unsafe { second.part(0, bytes.len() as u64).view() } == bytes);
        assert_eq!(map_file(second, file, 1), Err(Errno(libc::EINVAL)));
        (SYSTEM.close)(file);
        (SYSTEM.unmap)(place.start(), place.bytes());
    }
}
