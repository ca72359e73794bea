//! Any bytes: the checksum of the crate `crc32c`, in one piece and in two, with the processor's
//! instruction and without.

use wavetrain::loops::crc32c::{crc32c, crc32c_portable};

/// Checks one input; its first two bytes say where it is cut.
pub fn run(data: &[u8]) {
    let (cut, bytes) = data.split_at(data.len().min(2));
    let cut = cut.iter().fold(0usize, |cut, byte| cut << 8 | usize::from(*byte));
    let (head, tail) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(crc32c(0, bytes), ::crc32c::crc32c(bytes));
    assert_eq!(
        crc32c(crc32c(0, head), tail),
        ::crc32c::crc32c_append(::crc32c::crc32c(head), tail)
    );
    assert_eq!(crc32c(crc32c(0, head), tail), crc32c(0, bytes));
    assert_eq!(crc32c_portable(0, bytes), crc32c(0, bytes));
    assert_eq!(crc32c_portable(crc32c(0, head), tail), crc32c(0, bytes));
}
