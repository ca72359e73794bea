//! What a host says of an array of its own: refused with a text, or a record that says the same,
//! whose chunks fit and cover the array exactly.
//!
//! Input: a byte; with bit 0 the bytes of a `wavetrain_source_info`, else choices that are mostly
//! sound.

use super::choices::Choices;
use wavetrain::abi::SourceInfo;
use wavetrain::base::limits::{CHUNK_BYTES_MAX, RANK_MAX};
use wavetrain::plan::asked_chunk;
use wavetrain::records::{ArrayRecord, DTYPES, Dtype, Origin, chunk_origin};
use wavetrain::source::asked::record_from_info;
use wavetrain::status::{Status, Why};

/// Elements that are counted one by one.
const COUNTED_MAX: u64 = 4096;

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else { return };
    let info = if form & 1 > 0 { as_it_is(rest) } else { chosen(&mut Choices::of(rest)) };
    let mut why = Why::new();
    let found = record_from_info(&info, "hook:name", &mut why);
    let is_sound = is_sound(&info);
    match found {
        Ok(record) => {
            assert!(is_sound, "{record:?}");
            check(&info, record);
        }
        Err(status) => {
            assert!(status == Status::Decode && !is_sound, "{status}: {why}");
            assert!(why.as_str().starts_with("hook:name: source.describe: "), "{why}");
        }
    }
}

/// Any bytes as what a host wrote.
fn as_it_is(data: &[u8]) -> SourceInfo {
    let mut info = SourceInfo::EMPTY;
    let count = data.len().min(size_of::<SourceInfo>());
    // SAFETY: that many bytes are there on both sides; the struct is plain old data.
    unsafe {
        std::ptr::copy_nonoverlapping(data.as_ptr(), std::ptr::from_mut(&mut info).cast(), count);
    }
    info
}

fn chosen(choices: &mut Choices<'_>) -> SourceInfo {
    let dtype = choices.one_of(&DTYPES);
    let mut info = SourceInfo { dtype: dtype as u32, ..SourceInfo::EMPTY };
    info.dtype_bytes = choices.one_of(&[0, dtype.bytes(), 1, 2, 16, 17, u32::MAX]);
    info.rank = choices.one_of(&[2, 0, 1, 3, 4, 16, 17, u32::MAX]);
    let is_boxes = choices.rarely(3);
    let (large, huge) = ([1 << 31, 1 << 32, 1 << 62], [i64::MAX as u64, 1 << 63, u64::MAX]);
    for axis in 0..RANK_MAX {
        info.shape[axis] = match choices.below(8) {
            0..=4 => 1 + choices.below(12),
            5 => 0,
            6 => choices.one_of(&large),
            _ => choices.one_of(&huge),
        };
        info.chunk_shape[axis] = match choices.below(8) {
            _ if is_boxes => 0,
            0..=5 => 1 + choices.below(6),
            6 => choices.one_of(&[0, 1, 1 << 31, u64::MAX]),
            _ => info.shape[axis],
        };
        // Most arrays have few axes: those behind say nothing.
        if axis + 1 >= info.rank as usize && choices.rarely(3) {
            break;
        }
    }
    info.reserved = u32::from(choices.rarely(16));
    info.fill.fill_with(|| choices.byte());
    info
}

/// The bytes of an element, if the type is one.
fn element_bytes(info: &SourceInfo) -> Option<u64> {
    let dtype = DTYPES.into_iter().find(|dtype| *dtype as u32 == info.dtype)?;
    let given = info.dtype_bytes;
    match dtype {
        Dtype::Raw => (1..=16).contains(&given).then_some(u64::from(given)),
        _ => (given == 0 || given == dtype.bytes()).then_some(u64::from(dtype.bytes())),
    }
}

/// A product in numbers that hold any two of them; an extent of 0 is no excuse for the others.
fn product(extents: impl Iterator<Item = u64>, most: u64) -> Option<u64> {
    let mut total = 1u128;
    for extent in extents {
        total = total.checked_mul(u128::from(extent)).filter(|total| *total <= u128::from(most))?;
    }
    Some(total as u64)
}

/// Whether include/wavetrain.h allows it.
fn is_sound(info: &SourceInfo) -> bool {
    let Some(bytes) = element_bytes(info) else { return false };
    let axes = info.rank as usize;
    if axes > RANK_MAX || info.reserved != 0 {
        return false;
    }
    let (shape, chunk) = (&info.shape[..axes], &info.chunk_shape[..axes]);
    let is_long = shape.iter().any(|extent| *extent > i64::MAX as u64);
    // What overflows before a 0 comes is refused, too.
    if is_long || product(shape.iter().copied(), u64::MAX).is_none_or(|count| count >> 63 > 0) {
        return false;
    }
    let zeros = chunk.iter().filter(|extent| **extent == 0).count();
    if zeros == axes {
        return true;
    }
    let clipped = chunk.iter().zip(shape).map(|(chunk, extent)| *chunk.min(extent.max(&1)));
    zeros == 0 && product(clipped.chain([bytes]), CHUNK_BYTES_MAX).is_some()
}

fn check(info: &SourceInfo, record: ArrayRecord) {
    let axes = info.rank as usize;
    let bytes = element_bytes(info).expect("it is sound");
    assert_eq!((record.axes(), record.dtype as u32), (axes, info.dtype));
    assert_eq!(u64::from(record.dtype_bytes), bytes);
    assert_eq!((&record.shape[..axes], record.fill), (&info.shape[..axes], info.fill));
    assert!(record.shape[axes..].iter().all(|extent| *extent == 0));
    assert!(!record.is_rectilinear() && !record.is_in_parts());
    assert!(record.flat.is_none() && record.codecs.is_empty() && record.shard_levels == 0);
    let is_boxes = axes > 0 && info.chunk_shape[..axes] == [0; RANK_MAX][..axes];
    assert_eq!(record.origin, if is_boxes { Origin::BOXES } else { Origin::CHUNKS });
    let elements = record.chunk_shape[..axes].iter().product::<u64>();
    assert_eq!((record.chunk_bytes, record.working_bytes()), (elements * bytes, elements * bytes));
    assert!((1..=CHUNK_BYTES_MAX).contains(&record.chunk_bytes));
    let mut stride = bytes;
    for axis in (0..axes).rev() {
        assert_eq!(record.chunk_strides[axis], stride as i64);
        stride *= record.chunk_shape[axis];
    }
    let mut record = record;
    record.give_axis();
    let shape = &record.shape[..record.axes()];
    if shape.contains(&0) {
        return;
    }
    let count: u64 = shape.iter().product();
    let cells: Vec<u64> = record.file_counts()[..record.axes()].to_vec();
    let cells = cells.iter().try_fold(1u64, |total, cells| total.checked_mul(*cells));
    // No more chunks than elements.
    let cells = cells.expect("chunks have numbers");
    assert!(cells <= count);
    if count <= COUNTED_MAX {
        let mut seen = vec![false; count as usize];
        for cell in 0..cells {
            paint(&record, cell, &mut seen);
        }
        assert!(seen.iter().all(|seen| *seen), "an element in no chunk: {record:?}");
    }
    for cell in [0, cells / 2, cells - 1] {
        check_cell(&record, cell);
    }
}

/// A chunk of the array, by the numbers that it goes by: its first elements, and its extents.
fn cell_of(record: &ArrayRecord, cell: u64) -> ([u64; RANK_MAX], Vec<u64>) {
    let ((first, last), need) = asked_chunk(record, &[0; RANK_MAX], record, cell);
    let mut own = None;
    let chunk = record.of_chunk((first, last), &mut own);
    assert_eq!(need.bytes(), chunk.chunk_bytes);
    (chunk_origin(record, first, last), chunk.chunk_shape[..record.axes()].to_vec())
}

fn check_cell(record: &ArrayRecord, cell: u64) {
    let (origin, extents) = cell_of(record, cell);
    for (axis, extent) in extents.iter().enumerate() {
        let (grid, whole) = (record.chunk_shape[axis], record.shape[axis]);
        assert!(*extent > 0 && origin[axis].is_multiple_of(grid), "{record:?}");
        // All of it that lies in the array.
        assert_eq!(origin[axis] + extent, whole.min(origin[axis].saturating_add(grid)));
    }
}

/// Notes the elements of a chunk, which no other one has.
fn paint(record: &ArrayRecord, cell: u64, seen: &mut [bool]) {
    let (origin, extents) = cell_of(record, cell);
    for number in 0..extents.iter().product::<u64>() {
        let (mut rest, mut stride, mut at) = (number, 1, 0);
        for axis in (0..extents.len()).rev() {
            at += (origin[axis] + rest % extents[axis]) * stride;
            rest /= extents[axis];
            stride *= record.shape[axis];
        }
        assert!(!std::mem::replace(&mut seen[at as usize], true), "element {at} twice");
    }
}
