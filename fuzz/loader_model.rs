//! What the contract of include/wavetrain.h says of one loader: which batches are to come, which
//! are held, which tensors live, and what a call may return.
//!
//! In: the samples that push took, and the calls that only need the loader (pop, flush, release,
//! dlpack and deleters).
//! Out: a panic where the library and the contract differ.

use super::box_model::{BoxModel, FieldModel, Painted};
use std::collections::VecDeque;
use std::ptr::null_mut;
use wavetrain::abi::{BatchInfo, Error};
use wavetrain::base::limits::{RANK_MAX, TENSORS_PER_SLOT};
use wavetrain::batch::dlpack::{DEVICE_CPU, DlManagedTensor, DlManagedTensorVersioned, DlTensor};
use wavetrain::batch::exports::{VERSION as DLPACK_VERSION, data_type};
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_OWN};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

/// Steps of pump mode after which what was pushed must have come out.
const STEPS_MAX: usize = 200_000;

/// With threads, nothing takes this long unless it hangs.
pub const PATIENCE_NS: u64 = 20_000_000_000;

/// Errors of a store and of boxes, which come at pop.
pub const STORE_ERRORS: [Status; 7] = [
    Status::Invalid,
    Status::NotFound,
    Status::Dtype,
    Status::Rank,
    Status::Io,
    Status::Decode,
    Status::Unsupported,
];

/// What a sample must give.
#[derive(Clone, PartialEq, Debug)]
pub enum Want {
    /// This of each field.
    Bytes(Vec<Painted>),
    /// An error at pop.
    Failure,
    /// These bytes or an error at pop.
    BytesOrFailure(Vec<Painted>),
    /// Anything at all.
    Anything,
}

#[derive(Clone, Debug)]
pub struct Expected {
    pub tag: u64,
    pub want: Want,
    /// Samples that were pushed before it; the loader's model knows.
    pub position: u64,
}

/// A popped batch, or one that was released and that tensors keep.
pub struct Held {
    pub token: u64,
    pub samples: Vec<Expected>,
    /// Of each field: where it is, and what was there.
    pub fields: Vec<(*const u8, Vec<u8>)>,
    /// Each with its field.
    pub tensors: Vec<(Tensor, usize)>,
}

/// An exported tensor.
#[derive(Clone, Copy)]
pub enum Tensor {
    Versioned(*mut DlManagedTensorVersioned),
    Legacy(*mut DlManagedTensor),
}

impl Tensor {
    /// What it shows. It lives.
    fn dl_tensor(self) -> DlTensor {
        // SAFETY: it lives.
        unsafe {
            match self {
                Tensor::Versioned(tensor) => (*tensor).dl_tensor,
                Tensor::Legacy(tensor) => (*tensor).dl_tensor,
            }
        }
    }

    /// Calls its deleter, which follows no pointer: also when it is long gone.
    pub fn delete(self) {
        // SAFETY: as the header says of a second deletion.
        unsafe {
            match self {
                Tensor::Versioned(tensor) => {
                    (wavetrain::surface::handles::DELETERS.versioned)(tensor)
                }
                Tensor::Legacy(tensor) => (wavetrain::surface::handles::DELETERS.legacy)(tensor),
            }
        }
    }
}

/// `mix` of the header.
fn mix(position: u64, digest: u64) -> u64 {
    let mut x = digest ^ position.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for _ in 0..2 {
        x = (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    x ^ x >> 32
}

/// The digest of a sample, likewise.
fn digest(row: &[u8]) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let mixed = (1..).zip(row.chunks(8)).map(|(position, bytes)| mix(position, word(bytes)));
    mix(row.len() as u64, mixed.fold(0, u64::wrapping_add))
}

/// A loader and what the contract says of it.
pub struct Loader {
    pub handle: u64,
    pub config: Config,
    pub fields: Vec<FieldModel>,
    /// Boxes whose memory must stay.
    pub fed: Vec<BoxModel>,
    /// The samples of the batch that is not full yet.
    pub open: Vec<Expected>,
    pub ready: VecDeque<Vec<Expected>>,
    pub held: Vec<Held>,
    /// Released batches that tensors keep.
    pub exported: Vec<Held>,
    pub batches: u64,
    /// Samples that were pushed since open or reset.
    pub pushed: u64,
    pub is_flushed: bool,
    pub is_closing: bool,
    pub failure: Option<i32>,
}

/// A status of the header, and one of those that the call may return.
pub fn check(call: &str, code: i32, allowed: &[Status]) -> Status {
    let status = Status::from_code(code).unwrap_or_else(|| panic!("{call} returned {code}"));
    assert!(allowed.contains(&status), "{call} returned {status}");
    status
}

/// An error to be filled, poisoned.
pub fn error() -> Error {
    Error { struct_size: size_of::<Error>(), text: [0x55; 512], ..Error::EMPTY }
}

/// A failure has a text that ends, and names its status.
pub fn check_error(error: &Error, code: i32) {
    assert_eq!(error.status, code);
    assert_eq!(error.struct_size, size_of::<Error>());
    let end = error.text.iter().position(|byte| *byte == 0).expect("a NUL");
    let text: Vec<u8> = error.text[..end].iter().map(|byte| *byte as u8).collect();
    assert!(std::str::from_utf8(&text).is_ok());
    assert!(error.chunk_rank as usize <= RANK_MAX);
    assert!(code == 0 || end > 0, "{code} without a text");
}

pub fn shown(error: &Error) -> String {
    let bytes = error.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

impl Loader {
    /// Adds a sample that push has taken.
    pub fn take(&mut self, sample: Expected) {
        self.open.push(Expected { position: self.pushed, ..sample });
        self.pushed += 1;
        self.is_flushed = false;
        if self.open.len() == self.config.samples_per_batch as usize {
            self.ready.push_back(std::mem::take(&mut self.open));
        }
    }

    pub fn flush(&mut self) {
        let code = wavetrain_flush(self.handle);
        if self.is_closing {
            return assert_eq!(code, Status::Shutdown as i32);
        }
        assert_eq!(code, self.failure.unwrap_or(0));
        if self.failure.is_some() {
            return;
        }
        let rest = std::mem::take(&mut self.open);
        if !rest.is_empty() && self.config.drop_last == 0 {
            self.ready.push_back(rest);
        }
        self.is_flushed = true;
    }

    pub fn pop(&mut self, timeout: u64) -> Status {
        let (mut token, mut error) = (0x5555, error());
        // SAFETY: both are writable.
        let code = unsafe { wavetrain_pop(self.handle, timeout, &mut token, &mut error) };
        let status = Status::from_code(code).unwrap_or_else(|| panic!("pop returned {code}"));
        assert!(status == Status::Ok || token == 0x5555, "a token without a batch");
        match status {
            _ if self.is_closing => assert_eq!(status, Status::Shutdown),
            _ if self.failure.is_some() => {
                assert_eq!(Some(code), self.failure);
                check_error(&error, code);
            }
            Status::Ok => self.popped(token),
            Status::End => {
                assert!(self.is_flushed, "the end without a flush");
                assert!(self.ready.is_empty() && self.open.is_empty(), "the end before all came");
            }
            Status::Again => assert_eq!(timeout, 0),
            Status::Starved => assert!(timeout > 0),
            status => {
                check_error(&error, code);
                let is_known = STORE_ERRORS.contains(&status) || status == Status::Budget;
                assert!(is_known, "pop: {status}: {}", shown(&error));
                let batch = self.ready.front().expect("an error of a batch");
                let is_sound = |sample: &Expected| matches!(sample.want, Want::Bytes(_));
                assert!(!batch.iter().all(is_sound), "pop: {status}: {}", shown(&error));
                assert!(batch.iter().any(|sample| sample.tag == error.tag && !is_sound(sample)));
                assert_eq!(error.batch_id, self.batches);
                self.failure = Some(code);
            }
        }
        status
    }

    fn popped(&mut self, token: u64) {
        let samples = self.ready.pop_front().expect("a batch that nobody pushed");
        assert!(token != 0 && self.held.iter().all(|held| held.token != token));
        let mut fields = Vec::new();
        for number in 0..self.fields.len() {
            fields.push(self.check_field(token, number, &samples));
        }
        self.held.push(Held { token, samples, fields, tensors: Vec::new() });
        self.batches += 1;
        assert!(self.kept() <= self.config.n_batch_slots as usize);
    }

    /// Checks what a popped batch holds of a field. Where it is, and a copy.
    fn check_field(&self, token: u64, number: usize, samples: &[Expected]) -> (*const u8, Vec<u8>) {
        let (field, mut info) = (&self.fields[number], BatchInfo::EMPTY);
        let (handle, rank) = (self.handle, field.shape.len());
        // SAFETY: the struct is whole.
        let code = unsafe { wavetrain_batch_info(handle, token, number as u32, &mut info) };
        assert_eq!(code, 0);
        assert_eq!(info.sample_count as usize, samples.len());
        assert_eq!((info.batch_id, info.rank as usize), (self.batches, rank + 1));
        assert_eq!((info.dtype, info.dtype_bytes), (field.dtype as u32, field.bytes));
        assert_eq!(
            (info.shape[0], &info.shape[1..=rank]),
            (samples.len() as u64, &field.shape[..])
        );
        assert_eq!(info.bytes as usize, samples.len() * field.sample_bytes());
        assert!(info.data.is_aligned() && (info.data as usize).is_multiple_of(256));
        let extents = rank.max(1);
        // SAFETY: the batch is held, so its pointers are alive and of these lengths.
        let (bytes, tags, statuses, filled_shape, name) = unsafe {
            (
                std::slice::from_raw_parts(info.data.cast::<u8>(), info.bytes as usize),
                std::slice::from_raw_parts(info.tags, samples.len()),
                std::slice::from_raw_parts(info.statuses, samples.len()),
                std::slice::from_raw_parts(info.filled_shape, samples.len() * extents),
                std::ffi::CStr::from_ptr(info.name),
            )
        };
        assert_eq!(name.to_str(), Ok(&field.name[..]));
        self.check_digests(&info, bytes.chunks_exact(field.sample_bytes()), samples[0].position);
        assert!(tags.iter().copied().eq(samples.iter().map(|sample| sample.tag)));
        let failed = statuses.iter().filter(|status| **status != 0).count();
        assert_eq!(info.failed_samples as usize, failed);
        assert!(failed == 0 || self.config.on_error == ON_ERROR_SKIP);
        let rows = bytes.chunks_exact(field.sample_bytes()).zip(filled_shape.chunks_exact(extents));
        for ((sample, status), (row, filled_shape)) in samples.iter().zip(statuses).zip(rows) {
            let tag = sample.tag;
            match &sample.want {
                Want::Bytes(_) => assert_eq!(*status, 0, "sample {tag}"),
                Want::Failure => assert!(*status < 0, "sample {tag} has no error"),
                Want::BytesOrFailure(_) | Want::Anything => {}
            }
            match &sample.want {
                _ if *status != 0 => {
                    let mut elements = row.chunks(field.bytes as usize);
                    let element = field.pad_element();
                    assert!(elements.all(|at| at == element), "sample {tag}: {row:02x?}");
                }
                Want::Bytes(want) | Want::BytesOrFailure(want) => {
                    let want = &want[number];
                    assert_eq!(filled_shape, want.filled_shape, "sample {tag}, {field:?}");
                    let text = || format!("{row:02x?}, not {:02x?}", want.bytes);
                    assert!(row == want.bytes, "sample {tag}, {field:?}: {}", text());
                }
                _ => {}
            }
        }
        (bytes.as_ptr(), bytes.to_vec())
    }

    /// Checks the digests of samples, the first of which has this position, or that there are none.
    fn check_digests<'b>(
        &self,
        info: &BatchInfo,
        rows: impl Iterator<Item = &'b [u8]>,
        first: u64,
    ) {
        if self.config.digest == 0 {
            return assert!(info.digests.is_null() && info.digest == 0);
        }
        let expected: Vec<u64> = rows.map(digest).collect();
        // SAFETY: there is one for each sample of a batch that is held.
        let found = unsafe { std::slice::from_raw_parts(info.digests, expected.len()) };
        assert_eq!(found, expected);
        let mixed = (first..).zip(&expected).map(|(position, digest)| mix(position, *digest));
        assert_eq!(info.digest, mixed.fold(0, u64::wrapping_add));
    }

    /// Slots that a popped batch or a tensor keeps.
    pub fn kept(&self) -> usize {
        self.held.len() + self.exported.len()
    }

    /// Exports a field of the held batch at `place`.
    pub fn export(&mut self, place: usize, field: usize, is_legacy: bool) {
        let held = &mut self.held[place];
        let (mut versioned, mut legacy) = (null_mut(), null_mut());
        let (handle, token, number) = (self.handle, held.token, field as u32);
        // SAFETY: both pointers are writable.
        let code = unsafe {
            match is_legacy {
                false => wavetrain_dlpack(handle, token, number, null_mut(), &mut versioned),
                true => wavetrain_dlpack_legacy(handle, token, number, null_mut(), &mut legacy),
            }
        };
        let expected = match held.tensors.iter().filter(|(_, of)| *of == field).count() {
            _ if self.is_closing => Status::Shutdown,
            count if count == TENSORS_PER_SLOT as usize => Status::Again,
            _ => Status::Ok,
        };
        assert_eq!(code, expected as i32);
        if code != 0 {
            return assert!(versioned.is_null() && legacy.is_null());
        }
        let tensor = match is_legacy {
            false => Tensor::Versioned(versioned),
            true => Tensor::Legacy(legacy),
        };
        held.check_tensor((tensor, field), &self.fields);
        held.tensors.push((tensor, field));
    }

    /// Releases the held batch at `place`. Its token, which is dead.
    pub fn release(&mut self, place: usize) -> u64 {
        let held = self.held.remove(place);
        held.check_bytes();
        // SAFETY: there is no event.
        assert_eq!(unsafe { wavetrain_release(self.handle, held.token, null_mut()) }, 0);
        let token = held.token;
        if !held.tensors.is_empty() {
            self.exported.push(held);
        }
        token
    }

    /// Deletes a tensor, the oldest of the batch at `place` among those that have one, released
    /// ones first. It, which is dead; None where no tensor lives.
    pub fn delete(&mut self, place: usize) -> Option<Tensor> {
        let with = self.exported.iter_mut().chain(&mut self.held);
        let mut with = with.filter(|held| !held.tensors.is_empty());
        let held = with.nth(place)?;
        held.check_tensor(held.tensors[0], &self.fields);
        let (tensor, _) = held.tensors.remove(0);
        tensor.delete();
        self.exported.retain(|held| !held.tensors.is_empty());
        Some(tensor)
    }

    pub fn release_all(&mut self) {
        while !self.held.is_empty() {
            self.release(0);
        }
        while self.delete(0).is_some() {}
    }

    /// Pops until the end or an error. Without threads of the library, when there is nothing left
    /// to do and the host has completed its reads, the next batch is there.
    pub fn drain(&mut self, complete_reads: impl Fn(u64)) {
        let is_pump = self.config.thread_mode != THREADS_OWN;
        let ends_later = self.config.files.read_async.is_some();
        let timeout = match is_pump {
            true => 0,
            // Who completes the reads must not wait for them.
            false if ends_later => 200_000,
            false => PATIENCE_NS,
        };
        for _ in 0..STEPS_MAX {
            complete_reads(self.handle);
            let is_idle = is_pump && wavetrain_pump(self.handle, 0) == Status::Again as i32;
            let status = self.pop(timeout);
            assert!(status != Status::Starved || ends_later, "nothing came in 20 s");
            assert!(!(is_idle && status == Status::Again), "nothing to do, and no batch");
            match status {
                Status::Ok => self.release_all(),
                Status::Again | Status::Starved => {}
                _ => return,
            }
        }
        panic!("what was pushed does not come out");
    }
}

impl Held {
    /// A batch stays as it was popped.
    pub fn check_bytes(&self) {
        for (data, bytes) in &self.fields {
            // SAFETY: it is held, so the pointer is alive.
            let now = unsafe { std::slice::from_raw_parts(*data, bytes.len()) };
            assert!(now == bytes, "a held batch of {} samples changed", self.samples.len());
        }
    }

    /// A tensor that lives shows the batch.
    fn check_tensor(&self, (tensor, number): (Tensor, usize), fields: &[FieldModel]) {
        self.check_bytes();
        let (field, data) = (&fields[number], self.fields[number].0);
        let dl_tensor = tensor.dl_tensor();
        if let Tensor::Versioned(tensor) = tensor {
            // SAFETY: it lives.
            let (version, flags) = unsafe { ((*tensor).version, (*tensor).flags) };
            assert_eq!((version, flags), (DLPACK_VERSION, 0));
        }
        assert_eq!((dl_tensor.data.cast_const().cast(), dl_tensor.byte_offset), (data, 0));
        assert_eq!((dl_tensor.device.device_type, dl_tensor.device.device_id), (DEVICE_CPU, 0));
        assert_eq!(dl_tensor.dtype, data_type(field.dtype));
        let mut shape = vec![self.samples.len() as i64];
        shape.extend(field.shape.iter().map(|extent| *extent as i64));
        if field.dtype == Dtype::Raw {
            shape.push(i64::from(field.bytes));
        }
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product::<i64>());
        // SAFETY: shape and strides have a number for each axis.
        let (found, steps) = unsafe {
            let axes = dl_tensor.ndim as usize;
            (
                std::slice::from_raw_parts(dl_tensor.shape, axes),
                std::slice::from_raw_parts(dl_tensor.strides, axes),
            )
        };
        assert_eq!(found, shape);
        assert!(steps.iter().copied().eq(strides));
    }
}
