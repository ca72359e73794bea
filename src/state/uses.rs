//! The streams that a consumer uses a batch on.

use crate::base::limits::USES_PER_SLOT;
use crate::cuda::Stream;
use crate::os::Os;
use arrayvec::ArrayVec;

/// The streams that a slot is used on.
pub type Uses = ArrayVec<Use, { USES_PER_SLOT as usize }>;

/// A stream that a consumer uses a slot on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub stream: Stream,
    /// The thread whose stream it is; 0 where it is the same one for all. A number that the next
    /// thread does not have when this one has ended, since its work may still be queued.
    pub thread: u64,
}

impl Use {
    /// A stream as the calling thread names it.
    pub fn of(stream: Stream, os: &Os) -> Use {
        let stream = if stream.is_null() { Stream::LEGACY } else { stream };
        let is_of_thread = stream == Stream::PER_THREAD;
        Use { stream, thread: if is_of_thread { (os.thread_number)() } else { 0 } }
    }

    /// The stream as the calling thread can name it. The default stream of a thread has no name
    /// elsewhere, but the legacy one comes after all that is queued in it.
    pub fn seen_here(&self, os: &Os) -> Stream {
        let is_named = self.thread == 0 || self.thread == (os.thread_number)();
        if is_named { self.stream } else { Stream::LEGACY }
    }
}
