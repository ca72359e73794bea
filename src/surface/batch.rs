//! A batch that was popped: its samples, its tensors, and how it is given back.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status};
use crate::batch::exports::DlManagedTensorVersioned;
use crate::cuda::{Event, Stream};
use crate::engine::calls::BatchView;
use crate::jobs::tensors;
use crate::records::Dtype;
use crate::surface::handles::DELETERS;
use crate::surface::loader::Loader;
use arrayvec::ArrayVec;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// A DLPack tensor.
pub type Tensor = NonNull<DlManagedTensorVersioned>;

/// A popped batch; dropping it gives its slot back, on a device as `release` without an event does.
pub struct Batch<'a> {
    pub(super) loader: &'a Loader,
    pub(super) token: u64,
    pub(super) view: BatchView,
    pub(super) shape: ArrayVec<u64, { RANK_MAX + 1 }>,
    pub(super) dtype: Dtype,
}

impl Batch<'_> {
    /// The samples, packed, row-major, in host memory. It panics on a batch in device memory, which
    /// `copy_to` reads.
    pub fn data(&self) -> &[u8] {
        self.view.samples()
    }

    /// Copies the samples to `target`, which has as many bytes, from wherever they lie; from a
    /// device it waits for the copy. AGAIN: the ready stream is being captured.
    pub fn copy_to(&self, target: &mut [u8]) -> Result<(), Failure> {
        self.loader.enter()?.read_batch(&self.view, target)
    }

    /// Bytes of the samples.
    pub fn bytes(&self) -> u64 {
        self.view.data.bytes()
    }

    /// Address of the first sample; in device memory where there is a ready stream.
    pub fn as_ptr(&self) -> *mut u8 {
        self.view.data.as_ptr()
    }

    /// The stream that a consumer's work may be queued on; None on the host.
    pub fn ready_stream(&self) -> Option<Stream> {
        self.view.ready_stream
    }

    /// Extents: samples, then the sample shape.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Tags of the samples, in push order.
    pub fn tags(&self) -> &[u64] {
        self.view.tags
    }

    /// Status codes of the samples; 0 is OK.
    pub fn statuses(&self) -> &[i32] {
        self.view.statuses
    }

    /// Number of the batch since open or reset.
    pub fn batch_id(&self) -> u64 {
        self.view.batch_id
    }

    /// The batch as a DLPack tensor, which keeps its slot until its deleter is called, on any
    /// thread, also after this value is gone. Delete it before the loader goes: else the loader's
    /// memory stays. None where 8 tensors of the batch live.
    pub fn dlpack(&self) -> Result<Option<Tensor>, Failure> {
        self.export(None)
    }

    /// The same for a consumer that works on `stream` of the batch's device: the slot is used again
    /// after what is queued there when it is given back. UNSUPPORTED on the host.
    pub fn dlpack_on(&self, stream: Stream) -> Result<Option<Tensor>, Failure> {
        self.refuse_on_host("a stream")?;
        self.export(Some(stream))
    }

    fn export(&self, stream: Option<Stream>) -> Result<Option<Tensor>, Failure> {
        let instance = self.loader.enter()?;
        let exported = tensors::export(&instance.lock, (self.token, 0), stream, &DELETERS)?;
        Ok(exported.map(|exported| exported.versioned))
    }

    /// Gives the batch back, whatever the result. On a device its slot is used again after `event`,
    /// and after what is queued so far on its ready stream, on the config's consumer stream and on
    /// those that it was exported to; no other work is covered. UNSUPPORTED: an event on the host,
    /// or one that was recorded in a capture and so stands for no work; it is not waited for.
    pub fn release(self, event: Option<Event>) -> Result<(), Failure> {
        if event.is_some() {
            self.refuse_on_host("an event")?;
        }
        let batch = ManuallyDrop::new(self);
        let released = batch.loader.enter()?.release(batch.token, event);
        if matches!(&released, Err(failure) if failure.status == Status::Unsupported) {
            drop(ManuallyDrop::into_inner(batch));
        }
        released
    }

    fn refuse_on_host(&self, what: &str) -> Result<(), Failure> {
        if self.view.ready_stream.is_some() {
            return Ok(());
        }
        let text = format_args!("{what} for a batch in host memory: give none");
        Err(Failure::of(Status::Unsupported, text))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if let Ok(instance) = self.loader.enter() {
            // The token is held by this value alone.
            let released = instance.release(self.token, None);
            assert!(released.is_ok() || self.view.ready_stream.is_some());
        }
    }
}
