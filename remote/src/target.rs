//! Memory of a caller that a read fills.
//!
//! Invariant: a `Target` is written by the one future or job that owns it, and whoever made it waits
//! for the end of that before the memory is used again.

use crate::error::{Error, Result};

/// Memory that is written once, piece by piece.
#[derive(Debug)]
pub struct Target {
    first: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory that one owner writes; `new` asks for that.
unsafe impl Send for Target {}
// SAFETY: shared access reads no more than the length.
unsafe impl Sync for Target {}

impl Target {
    /// `bytes` bytes from `first` on.
    ///
    /// # Safety
    /// The memory is valid for writes, and nobody else reads or writes it while the target exists.
    pub unsafe fn new(first: *mut u8, bytes: usize) -> Self {
        Self { first, bytes }
    }

    /// The memory of a slice, without its lifetime.
    ///
    /// # Safety
    /// The slice is not used while something writes to the target.
    pub unsafe fn of(slice: &mut [u8]) -> Self {
        Self { first: slice.as_mut_ptr(), bytes: slice.len() }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes `data` from byte `at` on. Data that does not fit is a failure, and nothing is written.
    pub fn write(&mut self, at: usize, data: &[u8]) -> Result<()> {
        if at > self.bytes || data.len() > self.bytes - at {
            return Err(Error::failed("an answer has more bytes than were asked for"));
        }
        // SAFETY: the range lies inside of the memory, which this target alone may write; `data`
        // is no part of it, because nobody else may read it.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.first.add(at), data.len()) };
        Ok(())
    }

    /// A target of the first bytes, at most `bytes`.
    pub fn first(&mut self, bytes: usize) -> Target {
        Self { first: self.first, bytes: bytes.min(self.bytes) }
    }

    /// The memory as a slice, set to zeros first: the caller may not have initialised it.
    pub fn slice(&mut self) -> &mut [u8] {
        // SAFETY: valid for writes and this target's alone, as `new` asks; initialised here.
        unsafe {
            std::ptr::write_bytes(self.first, 0, self.bytes);
            std::slice::from_raw_parts_mut(self.first, self.bytes)
        }
    }

    /// The memory after it was filled.
    ///
    /// # Safety
    /// All bytes were written.
    pub unsafe fn filled(&self) -> &[u8] {
        // SAFETY: valid and this target's alone, as `new` asks; initialised as this asks.
        unsafe { std::slice::from_raw_parts(self.first, self.bytes) }
    }
}
