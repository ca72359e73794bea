//! Memory that processes share: a file without a name and of one size, whose pages are all reserved
//! before the first is written.
//!
//! In: a size. Out: a descriptor, which another process may get over a socket, and the bytes at
//! addresses of this one. Invariant: no process can make the file shorter, so no access ends a
//! process. If a file is sealed against writers, the mapping of its maker alone can be written.

use crate::base::arena::Region;
use crate::os::{Errno, checked, close, last_errno, system_call};
use core::ptr::{self, NonNull};

/// `F_SEAL_FUTURE_WRITE`: mappings from now on are read-only. Kernels before 5.1 do not have it.
const SEAL_FUTURE_WRITE: i32 = 0x10;
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A file of `bytes` bytes, whose pages are reserved.
pub(super) fn share_memory(bytes: u64) -> Result<i32, Errno> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    let name = c"wavetrain".as_ptr().addr();
    // SAFETY: the kernel reads the name up to its NUL. By its number: older C libraries lack it.
    let fd = unsafe { system_call(libc::SYS_memfd_create, [name, flags, 0, 0, 0]) }? as i32;
    reserve(fd, bytes).inspect_err(|_| close(fd))?;
    Ok(fd)
}

fn reserve(fd: i32, bytes: u64) -> Result<(), Errno> {
    let Ok(bytes) = i64::try_from(bytes) else { return Err(Errno(libc::EFBIG)) };
    // SAFETY: the caller owns the descriptor; neither call touches memory of this process.
    unsafe {
        checked(libc::ftruncate(fd, bytes).into())?;
        checked(libc::fallocate(fd, 0, 0, bytes).into()).map(|_| ())
    }
}

/// Keeps the size of a file as it is for good. `is_for_reading`: mappings from now on are
/// read-only, if the kernel has that seal.
pub fn seal(fd: i32, is_for_reading: bool) -> Result<(), Errno> {
    let add = |seals: i32| {
        // SAFETY: the caller owns the descriptor, and the call touches no memory.
        checked(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) }.into()).map(|_| ())
    };
    if is_for_reading {
        match add(SEAL_FUTURE_WRITE) {
            Ok(()) | Err(Errno(libc::EINVAL)) => {}
            Err(errno) => return Err(errno),
        }
    }
    add(SEALS | libc::F_SEAL_SEAL)
}

/// Whether no process can make a file shorter.
pub fn is_sealed(fd: i32) -> bool {
    // SAFETY: the call touches no memory.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// Maps the first bytes of a file.
pub fn map_segment(fd: i32, bytes: u64, is_writable: bool) -> Result<Region, Errno> {
    let access = if is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping touches no existing memory.
    let place = unsafe { libc::mmap(ptr::null_mut(), bytes as usize, access, flags, fd, 0) };
    if place == libc::MAP_FAILED {
        return Err(last_errno());
    }
    let start = NonNull::new(place.cast()).ok_or(Errno(libc::ENOMEM))?;
    // SAFETY: the mapping has that many bytes, and nothing else has its addresses.
    Ok(unsafe { Region::over(start, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::SYSTEM;

    #[test]
    fn a_sealed_segment_keeps_its_size_and_is_read_by_later_mappings_alone() {
        let fd = share_memory(8192).unwrap();
        let own = map_segment(fd, 8192, true).unwrap();
        assert!(!is_sealed(fd));
        assert_eq!(seal(fd, true), Ok(()));
        assert!(is_sealed(fd));
        // SAFETY: the call touches no memory.
        let cut = checked(unsafe { libc::ftruncate(fd, 4096) }.into());
        assert_eq!(cut, Err(Errno(libc::EPERM)));
        assert_eq!(map_segment(fd, 8192, true), Err(Errno(libc::EPERM)));
        let read = map_segment(fd, 8192, false).unwrap();
        // SAFETY: both mappings are of these bytes, and nothing else uses them.
        unsafe {
            own.start().write_volatile(7);
            assert_eq!(read.start().read_volatile(), 7);
        }
        for region in [own, read] {
            (SYSTEM.unmap)(region.start(), region.bytes());
        }
        close(fd);
    }
}
