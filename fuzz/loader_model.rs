//! What the contract of include/wavetrain.h says of one loader: which batches are to come, which
//! are held, which tensors live, and what a call may return.
//!
//! In: the samples that push took, and the calls that only need the loader (pop, flush, lend,
//! release, dlpack and deleters).
//! Out: a panic where the library and the contract differ.

use super::box_model::{BoxModel, FieldModel, Painted};
use std::collections::VecDeque;
use std::ptr::null_mut;
use wavetrain::abi::{BatchInfo, Error, Target};
use wavetrain::base::limits::{RANK_MAX, TENSORS_PER_SLOT};
use wavetrain::batch::dlpack::{DEVICE_CPU, DlManagedTensor, DlManagedTensorVersioned, DlTensor};
use wavetrain::batch::exports::{VERSION as DLPACK_VERSION, data_type};
use wavetrain::config::{Config, ON_ERROR_FAIL, ON_ERROR_NAN, THREADS_OWN};
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
    /// What it lies in, if that is lent.
    loan: Option<Loan>,
}

/// Memory that is lent for a batch: of each field a heap block of just the bytes that it takes.
pub struct Loan {
    tag: u64,
    blocks: Vec<Vec<u8>>,
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
    /// Memory that no popped batch lies in, in the order in which batches take it.
    pub lent: VecDeque<Loan>,
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
        let loan = self.take_loan(token, &fields);
        self.held.push(Held { token, samples, fields, tensors: Vec::new(), loan });
        self.batches += 1;
        let own = if self.config.lent_slots > 0 { 0 } else { self.config.n_batch_slots };
        assert!(self.kept() - self.kept_loans() <= own as usize);
    }

    /// The memory that a popped batch lies in, if it is lent; its fields are where they must be.
    fn take_loan(&mut self, token: u64, fields: &[(*const u8, Vec<u8>)]) -> Option<Loan> {
        let mut loans = (0..fields.len() as u32).map(|number| {
            let mut info = BatchInfo::EMPTY;
            // SAFETY: the struct is whole.
            assert_eq!(unsafe { wavetrain_batch_info(self.handle, token, number, &mut info) }, 0);
            (info.is_lent, info.lend_tag)
        });
        let (is_lent, tag) = loans.next().expect("a field");
        assert!(loans.all(|loan| loan == (is_lent, tag)) && is_lent < 2);
        if is_lent == 0 {
            let is_own = |(data, _): &(*const u8, _)| (*data as usize).is_multiple_of(256);
            assert!(tag == 0 && self.config.lent_slots == 0 && fields.iter().all(is_own));
            return None;
        }
        let loan = self.lent.pop_front().expect("memory that nobody lent");
        let places = loan.blocks.iter().map(|block| block.as_ptr());
        assert!(tag == loan.tag && places.eq(fields.iter().map(|(data, _)| *data)));
        Some(loan)
    }

    /// Loans that a popped batch or a tensor keeps.
    fn kept_loans(&self) -> usize {
        self.held.iter().chain(&self.exported).filter(|held| held.loan.is_some()).count()
    }

    /// Memories that are lent and not given back.
    pub fn loans(&self) -> usize {
        self.lent.len() + self.kept_loans()
    }

    /// Lends memory for a batch.
    pub fn lend(&mut self, tag: u64) {
        let samples = self.config.samples_per_batch as usize;
        let bytes = self.fields.iter().map(|field| samples * field.sample_bytes());
        let mut blocks: Vec<Vec<u8>> = bytes.map(|bytes| vec![0x5A; bytes]).collect();
        let target = |block: &mut Vec<u8>| Target {
            data: block.as_mut_ptr().cast(),
            bytes: block.len() as u64,
        };
        let targets: Vec<Target> = blocks.iter_mut().map(target).collect();
        let (count, size) = (targets.len() as u32, size_of::<Target>() as u32);
        // SAFETY: the memory stays until it is given back.
        let code =
            unsafe { wavetrain_lend(self.handle, targets.as_ptr(), count, size, null_mut(), tag) };
        let most = if self.config.lent_slots > 0 {
            self.config.lent_slots
        } else {
            self.config.n_batch_slots
        };
        let expected = match self.loans() == most as usize {
            _ if self.is_closing => Status::Shutdown,
            true => Status::Again,
            false => Status::Ok,
        };
        assert_eq!(code, expected as i32, "lend of {} of {most}", self.loans());
        if code == 0 {
            self.lent.push_back(Loan { tag, blocks });
        }
    }

    /// Lends what no batch can lie in: all is refused, and stays the program's.
    pub fn lend_nothing(&self, wild: u64) {
        let field = &self.fields[0];
        let bytes = self.config.samples_per_batch as usize * field.sample_bytes();
        let mut block = vec![0x5A; bytes + 8];
        let data = block.as_mut_ptr();
        let of = |data: *mut u8, bytes: u64| Target { data: data.cast(), bytes };
        let (good, count) = (of(data, bytes as u64), self.fields.len() as u32);
        let wrong = [
            of(data, bytes as u64 - 1),
            of(null_mut(), u64::MAX),
            of(data, u64::MAX),
            of(data.wrapping_add(1 + (wild as usize % 7)), bytes as u64),
        ];
        // Of fields of single bytes any address will do.
        let wrong = &wrong[..if field.bytes.is_multiple_of(8) { 4 } else { 3 }];
        let lend = |target: &Target, count: u32, size: usize| {
            let target = std::ptr::from_ref(target);
            // SAFETY: the first target is refused, or their number or size is.
            unsafe { wavetrain_lend(self.handle, target, count, size as u32, null_mut(), 0) }
        };
        for target in wrong {
            assert_eq!(lend(target, count, size_of::<Target>()), Status::Invalid as i32);
        }
        for (count, size) in [(count + 1, 16), (0, 16), (u32::MAX, 16), (count, 7), (count, 0)] {
            assert_eq!(lend(&good, count, size), Status::Invalid as i32);
        }
        assert!(block.iter().all(|byte| *byte == 0x5A));
        if let Some(loan) = self.lent.front()
            && self.fields.len() == 1
        {
            let first = of(loan.blocks[0].as_ptr().cast_mut(), bytes as u64);
            let known = if self.is_closing { Status::Shutdown } else { Status::Invalid };
            assert_eq!(lend(&first, 1, size_of::<Target>()), known as i32);
        }
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
        assert!(failed == 0 || self.config.on_error != ON_ERROR_FAIL);
        let rows = bytes.chunks_exact(field.sample_bytes()).zip(filled_shape.chunks_exact(extents));
        for ((sample, status), (row, filled_shape)) in samples.iter().zip(statuses).zip(rows) {
            let tag = sample.tag;
            match &sample.want {
                Want::Bytes(_) => assert_eq!(*status, 0, "sample {tag}"),
                Want::Failure => assert!(*status < 0, "sample {tag} has no error"),
                Want::BytesOrFailure(_) | Want::Anything => {}
            }
            match &sample.want {
                _ if *status != 0 && self.config.on_error == ON_ERROR_NAN => {
                    check_nan(&sample.want, (number, field), row);
                }
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
            if self.config.lent_slots > 0 && self.lent.is_empty() {
                self.lend(u64::MAX);
            }
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

/// A sample with a status under `on_error = nan`: what failed of it is NaN in fields that have it,
/// and all of it is pad_value in others if it is given up.
fn check_nan(want: &Want, (number, field): (usize, &FieldModel), row: &[u8]) {
    let bytes = field.bytes as usize;
    let is_all = |element: &[u8]| row.chunks(bytes).all(|at| at == element);
    let is_right = match (want, field.nan_element()) {
        (Want::Bytes(want) | Want::BytesOrFailure(want), Some(nan)) => {
            let mut pairs = row.chunks(bytes).zip(want[number].bytes.chunks(bytes));
            pairs.all(|(at, want)| at == nan || at == want)
        }
        (Want::Bytes(want) | Want::BytesOrFailure(want), None) => {
            row == want[number].bytes || is_all(&field.pad_element())
        }
        (Want::Failure, nan) => is_all(&nan.unwrap_or_else(|| field.pad_element())),
        (Want::Anything, _) => true,
    };
    assert!(is_right, "{want:?}, {field:?}: {row:02x?}");
}
