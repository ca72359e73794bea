//! Batches as DLPack tensors, through the C functions: what a tensor says, how long it keeps its
//! slot, and that deleters may come from any thread, twice, late, or in a forked child.
//!
//! In: an array of uint16 whose elements say where they lie. Invariant: whatever a tensor points to
//! holds the samples of its batch until its deleter is called, whoever pops, releases, resets or
//! closes meanwhile.

use crate::common::alone::alone;
use crate::common::drive::{PATIENCE_NS, config};
use crate::common::fixtures::Scratch;
use crate::common::surface::{Lines, Open};
use crate::common::synth::Meta;
use std::collections::VecDeque;
use std::mem::{offset_of, size_of};
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wavetrain::base::limits::TENSORS_PER_SLOT;
use wavetrain::batch::dlpack::{
    DEVICE_CPU, DlDataType, DlDevice, DlManagedTensor, DlManagedTensorVersioned, DlTensor,
    DlVersion,
};
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::records::{DTYPES, Dtype};
use wavetrain::status::Status;
use wavetrain::surface::c::*;

/// Extent of the array along both axes, and of a sample.
const EDGE: u64 = 64;
const CROP: u64 = 8;

/// Samples in a batch.
const SAMPLES: usize = 2;

const OK: i32 = Status::Ok as i32;
const AGAIN: i32 = Status::Again as i32;
const INVALID: i32 = Status::Invalid as i32;
const SHUTDOWN: i32 = Status::Shutdown as i32;

/// Level of a line.
const WARN: u32 = 3;

/// Every element of the array is its place.
fn array(scratch: &Scratch) -> String {
    let bytes: Vec<u8> = (0..EDGE * EDGE).flat_map(|at| (at as u16).to_le_bytes()).collect();
    Meta::u16(&[EDGE, EDGE], &[EDGE, EDGE], None).write(scratch, "places", Some(&bytes))
}

/// Where the sample with this tag begins.
fn begin(tag: u64) -> [i64; 2] {
    [(tag % 50) as i64, (tag * 7 % 53) as i64]
}

/// What a batch with these tags holds.
fn expected(tags: &[u64]) -> Vec<u16> {
    let mut values = Vec::new();
    for tag in tags {
        let [first, second] = begin(*tag);
        for row in 0..CROP {
            let place = (first as u64 + row) * EDGE + second as u64;
            values.extend((place..place + CROP).map(|at| at as u16));
        }
    }
    values
}

/// A loader, and the array that its samples come from.
struct Places {
    loader: Open,
    uri: String,
    _scratch: Scratch,
}

impl Places {
    /// Batches of two samples of uint16 in so many slots.
    fn new(slots: u32) -> Places {
        Places::with(&u16_config(slots))
    }

    fn with(config: &Config) -> Places {
        let scratch = Scratch::new();
        let uri = array(&scratch);
        Places { loader: Open::new(config), uri, _scratch: scratch }
    }

    fn push(&self, tag: u64) {
        let begin = begin(tag);
        let end = begin.map(|at| at + CROP as i64);
        self.push_box(&self.uri, &begin, &end, tag);
    }

    /// Pushes samples with these tags and pops their batch.
    fn batch(&self, tags: &[u64]) -> u64 {
        tags.iter().for_each(|tag| self.push(*tag));
        self.pop()
    }
}

impl std::ops::Deref for Places {
    type Target = Open;
    fn deref(&self) -> &Open {
        &self.loader
    }
}

/// What exports batches.
trait Export {
    fn try_export(&self, batch: u64, form: Form) -> Result<Tensor, i32>;

    fn export(&self, batch: u64) -> Tensor {
        self.try_export(batch, Form::Versioned).expect("a tensor")
    }
}

impl Export for Open {
    fn try_export(&self, batch: u64, form: Form) -> Result<Tensor, i32> {
        let mut versioned = null_mut();
        let mut legacy = null_mut();
        // SAFETY: the pointers are writable.
        let code = unsafe {
            match form {
                Form::Versioned => wavetrain_dlpack(self.0, batch, 0, null_mut(), &mut versioned),
                Form::Legacy => wavetrain_dlpack_legacy(self.0, batch, 0, null_mut(), &mut legacy),
            }
        };
        match (NonNull::new(versioned), NonNull::new(legacy)) {
            (Some(tensor), None) if code == OK => Ok(Tensor::Versioned(tensor)),
            (None, Some(tensor)) if code == OK => Ok(Tensor::Legacy(tensor)),
            (None, None) if code != OK => Err(code),
            _ => panic!("{code}: written on success only"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Versioned,
    Legacy,
}

/// A tensor that lives, or did.
#[derive(Clone, Copy)]
enum Tensor {
    Versioned(NonNull<DlManagedTensorVersioned>),
    Legacy(NonNull<DlManagedTensor>),
}

// SAFETY: DLPack tensors may be used and deleted on any thread.
unsafe impl Send for Tensor {}

impl Tensor {
    fn dl_tensor(&self) -> DlTensor {
        // SAFETY: the tests look at tensors that live only.
        unsafe {
            match self {
                Tensor::Versioned(tensor) => tensor.as_ref().dl_tensor,
                Tensor::Legacy(tensor) => tensor.as_ref().dl_tensor,
            }
        }
    }

    fn shape(&self) -> Vec<i64> {
        let tensor = self.dl_tensor();
        // SAFETY: the shape has an extent for each axis.
        unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize).to_vec() }
    }

    fn strides(&self) -> Vec<i64> {
        let tensor = self.dl_tensor();
        // SAFETY: there is a stride for each axis.
        unsafe { std::slice::from_raw_parts(tensor.strides, tensor.ndim as usize).to_vec() }
    }

    /// All bytes, found by shape and strides element by element.
    fn bytes(&self) -> Vec<u8> {
        let (tensor, shape, strides) = (self.dl_tensor(), self.shape(), self.strides());
        let element = usize::from(tensor.dtype.bits) / 8;
        let count: i64 = shape.iter().product();
        let mut bytes = Vec::new();
        for mut number in 0..count {
            let mut offset = 0;
            for axis in (0..shape.len()).rev() {
                offset += number % shape[axis] * strides[axis];
                number /= shape[axis];
            }
            let first = tensor.byte_offset as usize + offset as usize * element;
            // SAFETY: the tensor lives and says that this element is there.
            let place = unsafe { tensor.data.cast::<u8>().add(first) };
            // SAFETY: as above.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(place, element) });
        }
        bytes
    }

    fn values(&self) -> Vec<u16> {
        let pairs = self.bytes();
        pairs.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect()
    }

    /// What calls the deleter, also when the tensor is long gone.
    fn deleter(self) -> impl Fn() + Send {
        // SAFETY: the tensor lives.
        unsafe {
            match self {
                Tensor::Versioned(tensor) => {
                    let deleter = tensor.as_ref().deleter.expect("a deleter");
                    let address = tensor.as_ptr() as usize;
                    Box::new(move || deleter(address as *mut _)) as Box<dyn Fn() + Send>
                }
                Tensor::Legacy(tensor) => {
                    let deleter = tensor.as_ref().deleter.expect("a deleter");
                    let address = tensor.as_ptr() as usize;
                    Box::new(move || deleter(address as *mut _)) as Box<dyn Fn() + Send>
                }
            }
        }
    }

    fn delete(self) {
        self.deleter()();
    }
}

/// Batches of two samples of uint16 in so many slots.
fn u16_config(slots: u32) -> Config {
    Config { n_batch_slots: slots, ..config(Dtype::U16, &[CROP, CROP], SAMPLES) }
}

#[test]
fn layouts_are_those_of_dlpack_h() {
    assert_eq!((size_of::<DlVersion>(), size_of::<DlDevice>(), size_of::<DlDataType>()), (8, 8, 4));
    assert_eq!(size_of::<DlTensor>(), 48);
    assert_eq!(offset_of!(DlTensor, data), 0);
    assert_eq!(offset_of!(DlTensor, device), 8);
    assert_eq!(offset_of!(DlTensor, ndim), 16);
    assert_eq!(offset_of!(DlTensor, dtype), 20);
    assert_eq!(offset_of!(DlTensor, shape), 24);
    assert_eq!(offset_of!(DlTensor, strides), 32);
    assert_eq!(offset_of!(DlTensor, byte_offset), 40);
    assert_eq!((offset_of!(DlDevice, device_type), offset_of!(DlDevice, device_id)), (0, 4));
    assert_eq!((offset_of!(DlVersion, major), offset_of!(DlVersion, minor)), (0, 4));
    assert_eq!((offset_of!(DlDataType, code), offset_of!(DlDataType, bits)), (0, 1));
    assert_eq!(offset_of!(DlDataType, lanes), 2);
    assert_eq!(size_of::<DlManagedTensorVersioned>(), 80);
    assert_eq!(offset_of!(DlManagedTensorVersioned, version), 0);
    assert_eq!(offset_of!(DlManagedTensorVersioned, manager_ctx), 8);
    assert_eq!(offset_of!(DlManagedTensorVersioned, deleter), 16);
    assert_eq!(offset_of!(DlManagedTensorVersioned, flags), 24);
    assert_eq!(offset_of!(DlManagedTensorVersioned, dl_tensor), 32);
    assert_eq!(size_of::<DlManagedTensor>(), 64);
    assert_eq!(offset_of!(DlManagedTensor, dl_tensor), 0);
    assert_eq!(offset_of!(DlManagedTensor, manager_ctx), 48);
    assert_eq!(offset_of!(DlManagedTensor, deleter), 56);
}

#[test]
fn both_forms_show_the_batch_in_place_and_writable() {
    let loader = Places::new(2);
    let batch = loader.batch(&[3, 4]);
    let info = loader.info(batch).expect("it is held");
    for form in [Form::Versioned, Form::Legacy] {
        let tensor = loader.try_export(batch, form).expect("a tensor");
        let dl_tensor = tensor.dl_tensor();
        assert_eq!(dl_tensor.data, info.data);
        assert!((dl_tensor.data as usize).is_multiple_of(256) && dl_tensor.byte_offset == 0);
        assert_eq!(dl_tensor.device, DlDevice { device_type: DEVICE_CPU, device_id: 0 });
        assert_eq!(tensor.shape(), [SAMPLES as i64, CROP as i64, CROP as i64]);
        assert_eq!(tensor.strides(), [(CROP * CROP) as i64, CROP as i64, 1]);
        assert_eq!(tensor.values(), expected(&[3, 4]));
        if let Tensor::Versioned(tensor) = tensor {
            // SAFETY: it lives.
            let tensor = unsafe { tensor.as_ref() };
            assert_eq!((tensor.version.major, tensor.flags), (1, 0));
        }
        tensor.delete();
    }
    loader.release(batch);
}

/// Name in zarr v3, a fill value, and DLPack's code of every type that a batch may have.
fn spelling(dtype: Dtype) -> (&'static str, &'static str, u8) {
    match dtype {
        Dtype::F32 => ("float32", "0.0", 2),
        Dtype::Bf16 => ("bfloat16", "0.0", 4),
        Dtype::F16 => ("float16", "0.0", 2),
        Dtype::I32 => ("int32", "0", 0),
        Dtype::I64 => ("int64", "0", 0),
        Dtype::U8 => ("uint8", "0", 1),
        Dtype::I8 => ("int8", "0", 0),
        Dtype::U16 => ("uint16", "0", 1),
        Dtype::I16 => ("int16", "0", 0),
        Dtype::U32 => ("uint32", "0", 1),
        Dtype::U64 => ("uint64", "0", 1),
        Dtype::F64 => ("float64", "0.0", 2),
        Dtype::Bool => ("bool", "false", 6),
        Dtype::C64 => ("complex64", "[0.0, 0.0]", 5),
        Dtype::C128 => ("complex128", "[0.0, 0.0]", 5),
        // A copy of the bits of another type.
        Dtype::Raw => ("int64", "0", 1),
    }
}

#[test]
fn every_element_type_is_exported_as_dlpack_spells_it() {
    let scratch = Scratch::new();
    for dtype in DTYPES {
        let (data_type, fill, code) = spelling(dtype);
        let element = if dtype == Dtype::Raw { 8 } else { dtype.bytes() as usize };
        let paint = |at: usize| (at * 5 + 1) as u8;
        let bytes: Vec<u8> = match dtype {
            Dtype::Bool => (0..6).map(|at| paint(at) & 1).collect(),
            _ => (0..6 * element).map(paint).collect(),
        };
        let meta = Meta { data_type, fill, ..Meta::u16(&[2, 3], &[2, 3], None) };
        let uri = meta.write(&scratch, dtype.name(), Some(&bytes));
        let mut config = config(dtype, &[2, 3], 1);
        config.dtype_bytes = if dtype == Dtype::Raw { 8 } else { 0 };
        let loader = Open::new(&config);
        loader.push_box(&uri, &[0, 0], &[2, 3], 0);
        let batch = loader.pop();
        let tensor = loader.export(batch);
        let (bits, shape): (_, &[i64]) = match dtype {
            Dtype::Raw => (8, &[1, 2, 3, 8]),
            _ => (8 * element as u8, &[1, 2, 3]),
        };
        let name = dtype.name();
        assert_eq!(tensor.dl_tensor().dtype, DlDataType { code, bits, lanes: 1 }, "{name}");
        assert_eq!(tensor.shape(), shape, "{name}");
        assert_eq!(tensor.bytes(), bytes, "{name}");
        tensor.delete();
        loader.release(batch);
    }
}

#[test]
fn a_partial_batch_exports_the_samples_that_it_has() {
    let loader = Places::new(2);
    loader.push(9);
    assert_eq!(wavetrain_flush(loader.0), OK);
    let batch = loader.pop();
    let tensor = loader.export(batch);
    assert_eq!(tensor.shape(), [1, CROP as i64, CROP as i64]);
    assert_eq!(tensor.values(), expected(&[9]));
    tensor.delete();
    loader.release(batch);
}

#[test]
fn eight_tensors_of_a_batch_live_at_a_time_and_a_ninth_is_again() {
    let loader = Places::new(2);
    let batch = loader.batch(&[1, 2]);
    let other = loader.batch(&[3, 4]);
    let forms = [Form::Versioned, Form::Legacy];
    let mut tensors: Vec<Tensor> = (0..TENSORS_PER_SLOT as usize)
        .map(|at| loader.try_export(batch, forms[at % 2]).expect("a tensor"))
        .collect();
    assert_eq!(loader.try_export(batch, Form::Versioned).err(), Some(AGAIN));
    assert_eq!(loader.try_export(batch, Form::Legacy).err(), Some(AGAIN));
    // The other batch has records of its own.
    loader.export(other).delete();
    tensors.remove(3).delete();
    tensors.push(loader.export(batch));
    assert_eq!(loader.try_export(batch, Form::Versioned).err(), Some(AGAIN));
    for tensor in tensors {
        assert_eq!(tensor.values(), expected(&[1, 2]));
        tensor.delete();
    }
    loader.release(batch);
    loader.release(other);
}

#[test]
fn a_slot_is_bound_again_when_its_last_tensor_is_deleted() {
    let loader = Places::new(1);
    let batch = loader.batch(&[1, 2]);
    let (one, two) = (loader.export(batch), loader.export(batch));
    [5, 6].iter().for_each(|tag| loader.push(*tag));
    loader.release(batch);
    one.delete();
    assert_eq!(loader.try_pop(20_000_000).map_err(|why| why.0), Err(Status::Starved as i32));
    assert_eq!((two.values(), loader.kept()), (expected(&[1, 2]), 1));
    two.delete();
    let next = loader.pop();
    let tensor = loader.export(next);
    assert_eq!(tensor.values(), expected(&[5, 6]));
    tensor.delete();
    loader.release(next);
    assert_eq!(loader.kept(), 0);
}

#[test]
fn tensors_may_go_before_their_batch_in_any_order() {
    let loader = Places::new(3);
    for round in 0..12 {
        let batches: Vec<u64> = (0..3).map(|at| loader.batch(&[round + at, at])).collect();
        let tensors: Vec<Tensor> = batches.iter().map(|batch| loader.export(*batch)).collect();
        // A tensor and a release in the order that the round chooses.
        let order = |step: u64| ((step * 5 + round) % 6) as usize;
        for step in (0..6).map(order) {
            match step {
                0..3 => tensors[step].delete(),
                _ => loader.release(batches[step - 3]),
            }
        }
        assert_eq!(loader.kept(), 0);
    }
}

#[test]
fn a_released_batch_is_dead_while_its_tensors_live() {
    let loader = Places::new(2);
    let batch = loader.batch(&[1, 2]);
    let tensor = loader.export(batch);
    loader.release(batch);
    assert_eq!(loader.info(batch).err(), Some(INVALID));
    // SAFETY: there is no event.
    assert_eq!(unsafe { wavetrain_release(loader.0, batch, null_mut()) }, INVALID);
    assert_eq!(loader.try_export(batch, Form::Versioned).err(), Some(INVALID));
    assert_eq!(tensor.values(), expected(&[1, 2]));
    tensor.delete();
}

#[test]
fn refused_exports_write_nothing() {
    let loader = Places::new(2);
    let batch = loader.batch(&[1, 2]);
    let wild: *mut DlManagedTensorVersioned = std::ptr::dangling_mut();
    let stream = std::ptr::dangling_mut();
    let mut tensor = wild;
    // SAFETY: the pointer is NULL or writable.
    let codes = unsafe {
        [
            wavetrain_dlpack(loader.0, batch, 0, null_mut(), null_mut()),
            wavetrain_dlpack(loader.0, batch, 1, null_mut(), &mut tensor),
            wavetrain_dlpack(loader.0, batch, 0, stream, &mut tensor),
            wavetrain_dlpack(loader.0, batch + 1, 0, null_mut(), &mut tensor),
            wavetrain_dlpack(loader.0, 0, 0, null_mut(), &mut tensor),
            wavetrain_dlpack(0, batch, 0, null_mut(), &mut tensor),
        ]
    };
    let unsupported = Status::Unsupported as i32;
    assert_eq!(codes, [INVALID, INVALID, unsupported, INVALID, INVALID, SHUTDOWN]);
    assert_eq!(tensor, wild);
    loader.release(batch);
    assert_eq!(loader.kept(), 0);
}

#[test]
fn close_waits_for_tensors_and_their_data_stays() {
    let loader = Places::new(3);
    let (batch, other) = (loader.batch(&[1, 2]), loader.batch(&[3, 4]));
    let tensor = loader.export(batch);
    loader.release(batch);
    assert_eq!(loader.close(0), (AGAIN, 2));
    assert_eq!(loader.try_export(other, Form::Versioned).err(), Some(SHUTDOWN));
    loader.release(other);
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
    assert_eq!((tensor.values(), loader.kept()), (expected(&[1, 2]), 1));
    tensor.delete();
    assert_eq!(loader.close(PATIENCE_NS), (OK, 0));
    assert_eq!(loader.close(0).0, SHUTDOWN);
}

#[test]
fn a_close_that_batches_and_tensors_hold_up_is_logged_once_with_how_many_of_each() {
    let lines = Lines::default();
    let loader = Places::with(&Config { log: lines.hook(), ..u16_config(3) });
    let batches: Vec<u64> = (0..3).map(|at| loader.batch(&[at, 9])).collect();
    let tensors: Vec<Tensor> =
        [0, 0, 1].into_iter().map(|at: usize| loader.export(batches[at])).collect();
    loader.release(batches[0]);
    assert_eq!(lines.take(), []);
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 3));
    let logged = lines.take();
    let [(WARN, 0, text)] = logged.as_slice() else { panic!("{logged:?}") };
    assert!(text.contains("batches not released: 2, tensors not deleted: 3"), "{text}");
    assert!(text.contains("close"), "{text}");
    // A host that asks again and again is told once.
    loader.release(batches[1]);
    loader.release(batches[2]);
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 2));
    tensors.into_iter().for_each(Tensor::delete);
    assert_eq!(loader.close(PATIENCE_NS), (OK, 0));
    assert_eq!(lines.take(), []);
}

#[test]
fn reset_keeps_tensors() {
    let loader = Places::new(2);
    let batch = loader.batch(&[1, 2]);
    let tensor = loader.export(batch);
    loader.release(batch);
    for round in 0..20 {
        (0..4).for_each(|tag| loader.push(20 + round + tag));
        assert_eq!(wavetrain_reset(loader.0), OK);
        let next = loader.batch(&[round, 40]);
        assert_eq!(loader.info(next).expect("it is held").batch_id, 0);
        loader.release(next);
    }
    assert_eq!((tensor.values(), loader.kept()), (expected(&[1, 2]), 1));
    tensor.delete();
    assert_eq!(loader.kept(), 0);
}

#[test]
fn starved_says_how_many_slots_tensors_keep() {
    let loader = Places::new(3);
    let batches: Vec<u64> = (0..3).map(|at| loader.batch(&[at, 7])).collect();
    let tensors: Vec<Tensor> = batches.iter().map(|batch| loader.export(*batch)).collect();
    let text = || {
        let (code, text) = loader.try_pop(1).expect_err("all slots are taken");
        assert_eq!(code, Status::Starved as i32);
        text
    };
    let all = "all 3 batch slots are held: release one; batch 0 is held the longest, for ";
    assert!(text().starts_with(all), "{}", text());
    loader.release(batches[0]);
    let kept = "kept by tensors that were not deleted";
    assert!(text().contains(&format!("1 slot of them is {kept}")), "{}", text());
    assert!(text().contains("; batch 0 is held the longest, for "), "{}", text());
    loader.release(batches[1]);
    assert!(text().contains(&format!("2 slots of them are {kept}")), "{}", text());
    loader.release(batches[2]);
    tensors.into_iter().for_each(Tensor::delete);
}

#[test]
fn a_second_deletion_is_ignored() {
    let loader = Places::new(1);
    let batch = loader.batch(&[1, 2]);
    let (one, two) = (loader.export(batch), loader.export(batch));
    let again = one.deleter();
    again();
    again();
    // Records rest before they are used again, so this tensor has another one.
    let three = loader.try_export(batch, Form::Legacy).expect("a tensor");
    again();
    loader.release(batch);
    two.delete();
    again();
    assert_eq!((three.values(), loader.kept()), (expected(&[1, 2]), 1));
    three.delete();
    assert_eq!(loader.kept(), 0);
    again();
    assert_eq!(loader.close(PATIENCE_NS), (OK, 0));
    // The record's memory is gone.
    again();
}

#[test]
fn a_deleter_ignores_what_is_no_tensor() {
    let loader = Places::new(1);
    let batch = loader.batch(&[1, 2]);
    let tensor = loader.export(batch);
    let Tensor::Versioned(place) = tensor else { unreachable!("it was asked for") };
    // SAFETY: it lives.
    let deleter = unsafe { place.as_ref() }.deleter.expect("a deleter");
    let data = tensor.dl_tensor().data as usize;
    let address = place.as_ptr() as usize;
    for wild in [0, 1, address - 1, address + 1, address + 8, address + (1 << 20), data, usize::MAX]
    {
        // SAFETY: a deleter follows no pointer.
        unsafe { deleter(wild as *mut DlManagedTensorVersioned) };
    }
    loader.release(batch);
    assert_eq!((tensor.values(), loader.kept()), (expected(&[1, 2]), 1));
    tensor.delete();
}

/// In a process of its own: a child has whatever other tests are at, half done.
#[test]
fn a_deleter_in_a_forked_child_does_nothing() {
    alone(|| {
        let loader = Places::new(2);
        let batch = loader.batch(&[1, 2]);
        let tensor = loader.export(batch);
        loader.release(batch);
        let delete = tensor.deleter();
        // SAFETY: the child calls nothing but the deleter and what ends it.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: allowed in a child. The alarm makes a hang a failure.
            unsafe {
                libc::alarm(120);
                delete();
                libc::_exit(0);
            }
        }
        let mut ended = -1;
        // SAFETY: the status is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut ended, 0) }, child);
        assert_eq!(ended, 0);
        assert_eq!((tensor.values(), loader.kept()), (expected(&[1, 2]), 1));
        delete();
        assert_eq!(loader.kept(), 0);
    });
}

#[test]
fn a_pump_that_waits_goes_on_when_a_tensor_is_deleted() {
    let loader = Places::with(&Config { thread_mode: THREADS_PUMP, ..u16_config(1) });
    let batch = loader.batch(&[1, 2]);
    let tensor = loader.export(batch);
    loader.release(batch);
    [3, 4].iter().for_each(|tag| loader.push(*tag));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| loader.pop());
        tensor.delete();
        let next = waiting.join().expect("a batch");
        loader.release(next);
    });
}

#[test]
fn a_batch_of_the_rust_surface_is_exported_too() {
    let scratch = Scratch::new();
    let uri = array(&scratch);
    let loader = Loader::open(&u16_config(1)).unwrap();
    for tag in [1, 2] {
        let begin = begin(tag);
        let end = begin.map(|at| at + CROP as i64);
        let request = Request { uri: &uri, begin: &begin, end: &end, tag };
        assert_eq!(loader.push(&[request], 0).unwrap(), 1);
    }
    let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
    let tensor = Tensor::Versioned(batch.dlpack().unwrap().expect("a tensor"));
    drop(batch);
    assert_eq!(tensor.values(), expected(&[1, 2]));
    assert_eq!(loader.stats().unwrap().batches_held, 1);
    tensor.delete();
    loader.close(PATIENCE_NS).unwrap();
}

/// Tensors on their way to the threads that delete them, with the tags of their samples.
type Mail = Mutex<VecDeque<(Tensor, [u64; SAMPLES])>>;

/// Takes a tensor, compares it and deletes it, until `left` are through.
fn delete_all(mail: &Mail, left: &AtomicU64) {
    while left.load(SeqCst) > 0 {
        let Some((tensor, tags)) = mail.lock().unwrap().pop_front() else {
            std::thread::yield_now();
            continue;
        };
        assert_eq!(tensor.values(), expected(&tags));
        tensor.delete();
        left.fetch_sub(1, SeqCst);
    }
}

/// Pops, exports one to eight times, and releases, before or after the tensors are on their way.
fn pop_and_export(loader: &Places, mail: &Mail) {
    while let Ok(batch) = loader.try_pop(PATIENCE_NS) {
        let info = loader.info(batch).expect("it is held");
        // SAFETY: the batch is held.
        let tags: [u64; SAMPLES] = unsafe { *info.tags.cast() };
        let count = info.batch_id % u64::from(TENSORS_PER_SLOT) + 1;
        let forms = [Form::Versioned, Form::Legacy];
        let tensors: Vec<Tensor> = (0..count)
            .map(|at| loader.try_export(batch, forms[at as usize % 2]).expect("a tensor"))
            .collect();
        let is_early = info.batch_id.is_multiple_of(3);
        if is_early {
            loader.release(batch);
        }
        mail.lock().unwrap().extend(tensors.into_iter().map(|tensor| (tensor, tags)));
        if !is_early {
            loader.release(batch);
        }
    }
}

#[test]
fn threads_that_delete_disturb_neither_poppers_nor_data() {
    const BATCHES: u64 = 400;
    for slots in [1, 3] {
        let loader = Places::new(slots);
        let mail = Mail::default();
        let left =
            AtomicU64::new((0..BATCHES).map(|id| id % u64::from(TENSORS_PER_SLOT) + 1).sum());
        std::thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(|| pop_and_export(&loader, &mail))));
            (0..3).for_each(|_| drop(scope.spawn(|| delete_all(&mail, &left))));
            (0..BATCHES * SAMPLES as u64).for_each(|tag| loader.push(tag));
            assert_eq!(wavetrain_flush(loader.0), OK);
        });
        assert_eq!((left.load(SeqCst), loader.kept()), (0, 0));
    }
}

#[test]
fn closing_while_threads_delete_ends_cleanly() {
    for round in 0..60 {
        let loader = Places::new(2);
        let mail = Mail::default();
        for tags in [[round, 1], [2, round]] {
            let batch = loader.batch(&tags);
            let tensors = (0..TENSORS_PER_SLOT).map(|_| (loader.export(batch), tags));
            mail.lock().unwrap().extend(tensors);
            loader.release(batch);
        }
        let left = AtomicU64::new(2 * u64::from(TENSORS_PER_SLOT));
        std::thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(|| delete_all(&mail, &left))));
            loop {
                match loader.close(PATIENCE_NS) {
                    (AGAIN, 1..=2) => std::thread::yield_now(),
                    closed => break assert_eq!(closed, (OK, 0)),
                }
            }
        });
    }
}
