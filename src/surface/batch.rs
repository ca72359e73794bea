//! A batch that was popped: its samples, its tensors, and how it is given back.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status};
use crate::batch::exports::DlManagedTensorVersioned;
use crate::cuda::{Event, Stream};
use crate::engine::calls::BatchView;
use crate::jobs::tensors;
use crate::records::Dtype;
use crate::surface::handles::{DELETERS, Entered};
use crate::surface::loader::Loader;
use arrayvec::ArrayVec;
use core::iter::once;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// A DLPack tensor.
pub type Tensor = NonNull<DlManagedTensorVersioned>;

/// A popped batch; dropping it gives its slot back, on a device as `release` without an event does.
/// What it says of samples is that of its first field, which most configs have alone.
pub struct Batch<'a> {
    pub(super) first: FieldView<'a>,
}

/// One field of a popped batch.
pub struct FieldView<'a> {
    loader: &'a Loader,
    token: u64,
    field: u32,
    view: BatchView,
    shape: ArrayVec<u64, { RANK_MAX + 1 }>,
    dtype: Dtype,
}

impl<'a> FieldView<'a> {
    pub(super) fn new(
        loader: &'a Loader,
        instance: &Entered,
        (token, field): (u64, u32),
    ) -> Result<FieldView<'a>, Failure> {
        let view = instance.view(token, field)?;
        let of = instance.shared.field(field);
        let extents = of.extents().iter().copied();
        let shape = once(view.sample_count as u64).chain(extents).collect();
        Ok(FieldView { loader, token, field, view, shape, dtype: of.dtype })
    }

    /// The samples, packed, row-major, in host memory. It panics on a batch in device memory, which
    /// `copy_to` reads.
    pub fn data(&self) -> &[u8] {
        self.view.samples()
    }

    /// Copies the samples to `target`, which has as many bytes, from wherever they lie; from a
    /// device it waits for the copy. AGAIN: the ready stream is being captured.
    pub fn copy_to(&self, target: &mut [u8]) -> Result<(), Failure> {
        self.loader.enter_taker()?.read_batch(&self.view, target)
    }

    /// Bytes of the samples.
    pub fn bytes(&self) -> u64 {
        self.view.data.bytes()
    }

    /// Address of the first sample; in device memory where there is a ready stream.
    pub fn as_ptr(&self) -> *mut u8 {
        self.view.data.as_ptr()
    }

    /// Extents: samples, then the sample shape.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// For each sample and each axis how far its boxes reach, 0 where there are none; of a scalar 1
    /// or 0.
    pub fn filled_shape(&self) -> &[u64] {
        self.view.filled_shape
    }

    /// A digest of the bytes of each sample; None where the config asks for none.
    pub fn digests(&self) -> Option<&[u64]> {
        self.view.digests.map(|(digests, _)| digests)
    }

    /// The sum of the digests, each mixed with the position of its sample in the stream; 0 where
    /// the config asks for none.
    pub fn digest(&self) -> u64 {
        self.view.digests.map_or(0, |(_, sum)| sum)
    }

    /// The field as a DLPack tensor, which keeps the slot until its deleter is called, on any
    /// thread, also after this value is gone. Delete it before the loader goes: else the loader's
    /// memory stays. None where 8 tensors of the field live.
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
        let instance = self.loader.enter_taker()?;
        let place = (self.token, self.field);
        let exported = tensors::export(&instance.lock, place, stream, &DELETERS)?;
        Ok(exported.map(|exported| exported.versioned))
    }

    fn refuse_on_host(&self, what: &str) -> Result<(), Failure> {
        if self.view.ready_stream.is_some() {
            return Ok(());
        }
        let text = format_args!("{what} for a batch in host memory: give none");
        Err(Failure::of(Status::Unsupported, text))
    }
}

impl<'a> Batch<'a> {
    /// A field of the batch, counted from 0.
    pub fn field(&self, field: u32) -> Result<FieldView<'_>, Failure> {
        let instance = self.first.loader.enter_taker()?;
        FieldView::new(self.first.loader, &instance, (self.first.token, field))
    }

    /// See [`FieldView::data`].
    pub fn data(&self) -> &[u8] {
        self.first.data()
    }

    /// See [`FieldView::copy_to`].
    pub fn copy_to(&self, target: &mut [u8]) -> Result<(), Failure> {
        self.first.copy_to(target)
    }

    /// See [`FieldView::bytes`].
    pub fn bytes(&self) -> u64 {
        self.first.bytes()
    }

    /// See [`FieldView::as_ptr`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    /// See [`FieldView::shape`].
    pub fn shape(&self) -> &[u64] {
        self.first.shape()
    }

    /// See [`FieldView::dtype`].
    pub fn dtype(&self) -> Dtype {
        self.first.dtype()
    }

    /// See [`FieldView::filled_shape`].
    pub fn filled_shape(&self) -> &[u64] {
        self.first.filled_shape()
    }

    /// See [`FieldView::digests`].
    pub fn digests(&self) -> Option<&[u64]> {
        self.first.digests()
    }

    /// See [`FieldView::digest`].
    pub fn digest(&self) -> u64 {
        self.first.digest()
    }

    /// See [`FieldView::dlpack`].
    pub fn dlpack(&self) -> Result<Option<Tensor>, Failure> {
        self.first.dlpack()
    }

    /// See [`FieldView::dlpack_on`].
    pub fn dlpack_on(&self, stream: Stream) -> Result<Option<Tensor>, Failure> {
        self.first.dlpack_on(stream)
    }

    /// The stream that a consumer's work may be queued on; None on the host.
    pub fn ready_stream(&self) -> Option<Stream> {
        self.first.view.ready_stream
    }

    /// Tags of the samples, in push order.
    pub fn tags(&self) -> &[u64] {
        self.first.view.tags
    }

    /// Status codes of the samples; 0 is OK.
    pub fn statuses(&self) -> &[i32] {
        self.first.view.statuses
    }

    /// The tag of the memory that the batch lies in; None if that is not lent.
    pub fn lend_tag(&self) -> Option<u64> {
        self.first.view.lend_tag
    }

    /// Number of the batch since open or reset.
    pub fn batch_id(&self) -> u64 {
        self.first.view.batch_id
    }

    /// Gives the batch back, whatever the result. On a device its slot is used again after `event`,
    /// and after what is queued so far on its ready stream, on the config's consumer stream and on
    /// those that it was exported to; no other work is covered. UNSUPPORTED: an event on the host,
    /// or one that was recorded in a capture and so stands for no work; it is not waited for.
    pub fn release(self, event: Option<Event>) -> Result<(), Failure> {
        if event.is_some() {
            self.first.refuse_on_host("an event")?;
        }
        let batch = ManuallyDrop::new(self);
        let released = batch.first.loader.enter_taker()?.release(batch.first.token, event);
        if matches!(&released, Err(failure) if failure.status == Status::Unsupported) {
            drop(ManuallyDrop::into_inner(batch));
        }
        released
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if let Ok(instance) = self.first.loader.enter_taker() {
            // The token is held by this value alone.
            let released = instance.release(self.first.token, None);
            assert!(released.is_ok() || self.first.view.ready_stream.is_some());
        }
    }
}
