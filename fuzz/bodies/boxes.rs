//! Samples of several boxes in several fields, through a loader without threads: which samples push
//! takes, what pop gives for them, and what it says that is covered.
//!
//! Checked against box_model.rs, place by place: samples of which two boxes share a place, or that
//! have a box that is wrong, are refused, all others taken; every place of every field holds what
//! its box reads, or pad_value where no box goes. And beside the loader: the corners of each box
//! are the places that it goes to, and boxes and blanks paint every place exactly once.

use super::box_model::{BoxModel, FieldModel, Painted, Table, paint};
use super::choices::Choices;
use std::cell::RefCell;
use std::ptr::null_mut;
use wavetrain::abi::{BOX_VALUE, BatchInfo, Error, FieldSpec, Sample, SampleBox};
use wavetrain::assemble::blanks::for_each_blank;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::records::{AxisWalk, BoxShape};
use wavetrain::setup::fields::{Field, fields_from_config};
use wavetrain::status::{Status, Why};
use wavetrain::surface::c::*;

const FIELDS_MAX: u64 = 4;
const BOXES_MAX: u64 = 12;
const SAMPLES_MAX: u64 = 6;

/// Steps of a loader without threads after which what was pushed has come out.
const STEPS_MAX: usize = 20_000;

const BLOCK_BYTES: usize = 8 << 20;

thread_local! {
    /// Memory of every loader, with whatever the one before left there.
    static BLOCK: RefCell<&'static mut [u8]> = RefCell::new({
        let block: &'static mut [u8] = vec![0xA5; BLOCK_BYTES + 4096].leak();
        let skip = block.as_ptr().align_offset(4096);
        &mut block[skip..]
    });
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let count = 1 + choices.below(FIELDS_MAX) as usize;
    let fields: Vec<FieldModel> =
        (0..count).map(|number| FieldModel::choose(&mut choices, number)).collect();
    let specs: Vec<FieldSpec> = fields.iter().map(FieldModel::spec).collect();
    let mut config = config(&mut choices);
    Table::of(&specs).put(&mut config);
    let (known, _) = fields_from_config(&config, &mut Why::new()).expect("fields that are right");
    let most = match config.max_boxes_per_sample {
        0 => fields.len(),
        most => most as usize,
    };
    let loader = open(&config);
    let mut pushed: Vec<Vec<Painted>> = Vec::new();
    let mut boxes: Vec<Vec<BoxModel>> = Vec::new();
    for tag in 0..1 + choices.below(SAMPLES_MAX) {
        let count = 1 + choices.below(BOXES_MAX.min(most as u64 + 1));
        let mut sample: Vec<BoxModel> =
            (0..count).map(|_| BoxModel::choose(&mut choices, &fields)).collect();
        if !choices.rarely(3) {
            keep_apart(&fields, &mut sample);
        }
        let known = paint(&fields, &sample).ok().filter(|_| sample.len() <= most);
        let is_taken = push(loader, &mut sample, tag);
        assert_eq!(is_taken, known.is_some(), "sample {tag}");
        let Some(painted) = known else { continue };
        pushed.push(painted);
        boxes.push(sample);
    }
    let batches = pushed.chunks(config.samples_per_batch as usize);
    assert_eq!(wavetrain_flush(loader), 0);
    for batch in batches {
        let token = pop(loader, Status::Ok);
        for (number, field) in fields.iter().enumerate() {
            check_field(loader, (token, number), field, batch);
        }
        // SAFETY: there is no event.
        assert_eq!(unsafe { wavetrain_release(loader, token, null_mut()) }, 0);
    }
    pop(loader, Status::End);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { wavetrain_close(loader, u64::MAX, null_mut()) }, 0);
    for sample in &boxes {
        for (number, (field, known)) in fields.iter().zip(&known).enumerate() {
            let of_field: Vec<_> =
                sample.iter().filter(|made| made.field as usize == number).collect();
            check_corners(field, known, &of_field);
        }
    }
}

fn config(choices: &mut Choices<'_>) -> Config {
    let mut config = Config { thread_mode: THREADS_PUMP, ..Config::default() };
    config.samples_per_batch = choices.one_of(&[1, 2, 3]);
    config.max_boxes_per_sample = choices.one_of(&[BOXES_MAX as u32, 0, 5, 2]);
    config.lookahead_samples = SAMPLES_MAX as u32 + 3;
    config.n_batch_slots = choices.one_of(&[2, 1]);
    config.max_host_memory_bytes = BLOCK_BYTES as u64;
    // Of small ones a tensor has many.
    config.max_chunk_uncompressed_bytes = choices.one_of(&[4096, 64, 16]);
    config.max_read_op_bytes = 4096;
    config.host_buffer_waves = 2;
    config.max_chunks_per_wave = choices.one_of(&[8, 1, 64]);
    config.n_io_threads = 1;
    config.n_decode_threads = 1;
    config.metadata_io_concurrency = 1;
    config.n_array_meta_cache = 1;
    config.n_shard_index_cache = 1;
    config.n_chunk_layout_cache = 1;
    config.chunk_cache_bytes = choices.one_of(&[0, 0, 65_536]);
    config.memory.host_block = BLOCK.with_borrow_mut(|block| block.as_mut_ptr()).cast();
    config.memory.host_block_bytes = BLOCK_BYTES as u64;
    config
}

fn open(config: &Config) -> u64 {
    let (mut loader, mut error) = (0, Error::EMPTY);
    // SAFETY: all three are whole; this thread has one loader at a time in its block.
    let code = unsafe { wavetrain_open(config, &mut loader, &mut error) };
    assert_eq!(code, 0, "{}", text(&error));
    loader
}

fn text(error: &Error) -> String {
    let bytes = error.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

/// Leaves boxes out that meet one before them, so that more samples are taken.
fn keep_apart(fields: &[FieldModel], sample: &mut Vec<BoxModel>) {
    let mut count = 1;
    while count < sample.len() {
        let rest = sample.split_off(count + 1);
        let is_apart = paint(fields, &sample[..count]).is_err() || paint(fields, sample).is_ok();
        if !is_apart {
            sample.pop();
        }
        sample.extend(rest);
        count += usize::from(is_apart);
    }
}

/// Whether push takes the sample. What push copies is written over.
fn push(loader: u64, sample: &mut [BoxModel], tag: u64) -> bool {
    let boxes: Vec<SampleBox> = sample.iter().map(BoxModel::raw).collect();
    let raw = Sample {
        boxes: boxes.as_ptr(),
        n_boxes: boxes.len() as u32,
        box_bytes: size_of::<SampleBox>() as u32,
        tag,
    };
    let mut taken = 77;
    // SAFETY: one sample of that size; its boxes and tensors are there.
    let code = unsafe { wavetrain_push(loader, &raw, 1, size_of::<Sample>(), 0, &mut taken) };
    drop(boxes);
    let values = sample.iter_mut().filter_map(|made| made.fed.as_mut());
    values.filter(|fed| fed.kind == BOX_VALUE).for_each(|fed| fed.block.fill(0xEE));
    if code != 0 {
        let mut error = Error::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_last_error(loader, &mut error) }, 0);
        assert_eq!((error.status, error.tag), (code, tag));
        let known = [Status::Invalid, Status::Rank, Status::Dtype, Status::Unsupported];
        assert!(known.iter().any(|status| *status as i32 == code), "{}", text(&error));
    }
    assert_eq!(taken, usize::from(code == 0));
    code == 0
}

/// Works until pop returns something.
fn pop(loader: u64, expected: Status) -> u64 {
    let (mut token, mut error) = (0, Error::EMPTY);
    for _ in 0..STEPS_MAX {
        wavetrain_pump(loader, 0);
        // SAFETY: both are writable.
        let code = unsafe { wavetrain_pop(loader, 0, &mut token, &mut error) };
        if code != Status::Again as i32 {
            assert_eq!(code, expected as i32, "{}", text(&error));
            return token;
        }
    }
    panic!("what was pushed does not come out");
}

fn check_field(
    loader: u64,
    (token, number): (u64, usize),
    field: &FieldModel,
    batch: &[Vec<Painted>],
) {
    let mut info = BatchInfo::EMPTY;
    // SAFETY: the struct is whole.
    assert_eq!(unsafe { wavetrain_batch_info(loader, token, number as u32, &mut info) }, 0);
    let rank = field.shape.len();
    assert_eq!((info.rank as usize, info.dtype), (1 + rank, field.dtype as u32));
    assert_eq!((info.sample_count as usize, info.failed_samples), (batch.len(), 0));
    assert_eq!((info.shape[0], &info.shape[1..=rank]), (batch.len() as u64, &field.shape[..]));
    assert_eq!(info.bytes as usize, batch.len() * field.sample_bytes());
    let extents = rank.max(1);
    // SAFETY: the batch is held, so its pointers are alive and of these lengths.
    let (bytes, filled_shape, name) = unsafe {
        (
            std::slice::from_raw_parts(info.data.cast::<u8>(), info.bytes as usize),
            std::slice::from_raw_parts(info.filled_shape, batch.len() * extents),
            std::ffi::CStr::from_ptr(info.name),
        )
    };
    assert_eq!(name.to_str(), Ok(&field.name[..]));
    let rows = bytes.chunks_exact(field.sample_bytes()).zip(filled_shape.chunks_exact(extents));
    for (sample, (row, filled_shape)) in batch.iter().zip(rows) {
        let want = &sample[number];
        assert_eq!(filled_shape, want.filled_shape, "{field:?}");
        assert!(row == want.bytes, "{field:?}: {row:02x?}, not {:02x?}", want.bytes);
    }
}

/// Corners and blanks of a field of a sample that push took.
fn check_corners(field: &FieldModel, known: &Field, boxes: &[&BoxModel]) {
    assert_eq!((known.extents(), known.elements()), (&field.shape[..], field.elements() as u64));
    let mut counts = vec![0; field.elements()];
    let mut corners = Vec::new();
    let strides = |axis: usize| field.shape[axis + 1..].iter().product::<u64>();
    for made in boxes {
        let places = made.places(field).expect("push took it");
        let (low, high) = known.covered_by(&shape(made, field));
        let all = |axis: usize| places.iter().map(move |(target, _)| target[axis]);
        for axis in 0..field.shape.len() {
            let hull = (all(axis).min().unwrap(), all(axis).max().unwrap() + 1);
            assert_eq!((low[axis], high[axis]), hull);
        }
        for (target, _) in &places {
            let at: u64 = target.iter().enumerate().map(|(axis, to)| to * strides(axis)).sum();
            counts[at as usize] += 1;
        }
        corners.push((low, high));
    }
    let mut bytes = [0; RANK_MAX];
    for (axis, stride) in bytes[..field.shape.len()].iter_mut().enumerate() {
        *stride = strides(axis) * u64::from(field.bytes);
    }
    assert_eq!(bytes[..field.shape.len()], known.strides[..field.shape.len()]);
    let of = |number: u32| corners.get(number as usize).copied();
    for_each_blank((&field.shape, &bytes), corners.len() as u32 + 3, &of, &mut |block| {
        block.for_each_plane(u64::from(field.bytes), &mut |plane| {
            for row in 0..plane.count {
                let first = (plane.target + row * plane.target_pitch) / u64::from(field.bytes);
                (first..first + plane.length).for_each(|at| counts[at as usize] += 1);
            }
        });
    });
    assert!(counts.iter().all(|count| *count == 1), "{field:?} {corners:?} {counts:?}");
}

/// The box as the library keeps it.
fn shape(made: &BoxModel, field: &FieldModel) -> BoxShape {
    let mut shape = BoxShape::EMPTY;
    let (at, to) = (&made.at[..field.shape.len()], made.field_axes(field).expect("it was taken"));
    shape.at = at.iter().zip(&field.shape).fold(0, |place, (at, extent)| place * extent + at);
    for (axis, to) in to.into_iter().enumerate() {
        let step = if made.step[axis] == 0 { 1 } else { made.step[axis] };
        let walk = AxisWalk::of(made.begin[axis], made.end[axis], step);
        shape.axes[axis] = walk.expect("it was taken").to_axis(to);
    }
    shape
}
