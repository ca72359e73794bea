//! Arrays that only the host can read, through its hook.
//!
//! In: names, boxes. Out: what the host says of an array, its elements, or a [`Fault`].

use crate::base::abi::{SourceHook, SourceInfo};
use crate::os::store::{Fault, Path, outcome};

/// See the module.
#[derive(Clone, Copy)]
pub struct Asked(pub SourceHook);

// SAFETY: the hook's contract is that its functions may be called from any thread.
unsafe impl Send for Asked {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Asked {}

impl Asked {
    /// Whether a host can be asked.
    pub fn is_there(&self) -> bool {
        self.0.describe.is_some()
    }

    /// The facts of the array of that name.
    pub fn describe(&self, name: &Path) -> Result<SourceInfo, Fault> {
        let Some(describe) = self.0.describe else { return Err(Fault::Absent) };
        let mut info = SourceInfo::EMPTY;
        // SAFETY: the name is NUL-terminated, the info is writable; both outlive the call.
        let answer =
            unsafe { describe(self.0.user, name.as_bytes_nul().as_ptr().cast(), &raw mut info) };
        outcome(answer).map(|()| info)
    }

    /// Fills `target` with the elements from `begin` to before `end`, row-major.
    pub fn read(
        &self,
        name: &Path,
        (begin, end): (&[u64], &[u64]),
        target: &mut [u8],
    ) -> Result<(), Fault> {
        let Some(read) = self.0.read else { return Err(Fault::Absent) };
        let name = name.as_bytes_nul().as_ptr().cast();
        let (start, bytes) = (target.as_mut_ptr().cast(), target.len() as u64);
        // SAFETY: the name is NUL-terminated, `begin` and `end` have as many numbers as the host
        // said that the array has axes, `target` is writable for `bytes` bytes; all outlive the
        // call.
        outcome(unsafe { read(self.0.user, name, begin.as_ptr(), end.as_ptr(), start, bytes) })
    }
}
