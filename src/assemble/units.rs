//! What the device's assemble kernel is told: units, one per chunk and sample it goes into.
//!
//! In: the box of a sample ([`SampleBox`]), where it lies in device memory, a chunk's decoded bytes
//! in a wave. Out: records of 512 bytes, and how many tiles the kernel cuts each into. Invariant:
//! over the same chunks, units write the bytes that [`super::scatter`] and its neighbours write,
//! and nothing else.
//!
//! A unit is a strided copy with a change of type; missing chunks, padding and failed samples are
//! units that write one element everywhere. Its axes are those of the block with more than one
//! element, innermost first, seamless neighbours made one. Where padding lets a chunk fill several
//! runs of an axis, the axis is *folded*: the kernel computes the source of each place, and the
//! unit's [`Folds`] follow it as a record of their own. So does what is done to its elements
//! ([`UnitChange`]), in as many records as it takes.
//!
//! How the kernel takes the rows of a unit, and in how many tiles, is said in [`super::vectors`].
//!
//! kernels/common.cuh declares the same records; a test compares sizes and places.

use super::axis::PadMode;
use super::block::{Block, BlockAxis};
use super::changes::UnitChange;
use super::outside_element;
use super::sample_box::{AxisFold, FoldedBlock, SampleBox};
use super::wire::{NOTHING, Record, folds_to_bytes, put};
use crate::base::limits::{CHUNK_BYTES_MAX, ELEMENT_BYTES_MAX, RANK_MAX};
/// What a decoded chunk still is: the filter that blosc put before its compressor.
pub use crate::loops::unshuffle::Shuffle as Filter;
use crate::records::{ByteOrder, Dtype};
use arrayvec::ArrayVec;
use core::mem::offset_of;
use static_assertions::const_assert;

/// Bytes of a [`Unit`], and of the [`Folds`] behind one.
pub const RECORD_BYTES: usize = 512;

/// Bytes that a block of wavetrain_copy has in flight: four vectors for each of 256 threads.
#[cfg(feature = "internals")]
const COPY_TILE_BYTES: u64 = 16 << 10;

/// Most blocks for one span of wavetrain_copy: several for each multiprocessor of any device, each
/// of which then loops.
#[cfg(feature = "internals")]
const COPY_BLOCKS_MAX: u64 = 4096;

/// One axis of a unit.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnitAxis {
    /// Number of places.
    pub length: u64,
    /// Bytes from one element to the next in the decoded chunk; negative or 0 where padding asks
    /// for it.
    pub source_step: i64,
    /// Bytes from one element to the next in the sample.
    pub target_step: u64,
}

impl UnitAxis {
    const NONE: UnitAxis = UnitAxis { length: 0, source_step: 0, target_step: 0 };

    fn of(axis: &BlockAxis) -> UnitAxis {
        let BlockAxis { length, source_step, target_step } = *axis;
        UnitAxis { length, source_step, target_step }
    }
}

macro_rules! unit {
    ($($(#[$note:meta])* $field:ident: $type:ty = $value:expr;)*) => {
        /// See the head of this file.
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Unit {
            $($(#[$note])* pub $field: $type,)*
            /// Innermost first.
            pub axes: [UnitAxis; RANK_MAX],
        }

        const EMPTY: Unit = Unit { $($field: $value,)* axes: [UnitAxis::NONE; RANK_MAX] };

        impl Unit {
            /// The bytes of the unit.
            pub fn to_bytes(self) -> Record {
                let mut bytes = NOTHING;
                $(put(&mut bytes, offset_of!(Unit, $field), &self.$field);)*
                for (number, axis) in self.axes[..usize::from(self.axis_count)].iter().enumerate() {
                    let at = offset_of!(Unit, axes) + number * size_of::<UnitAxis>();
                    put(&mut bytes, at, &[axis.length, axis.source_step as u64, axis.target_step]);
                }
                bytes
            }
        }
    };
}

unit! {
    /// Place of decoded byte `data_first` of the chunk: in the wave, or, where `is_absolute`, in
    /// device memory, an address.
    data: u64 = 0;
    /// First decoded byte that is there.
    data_first: u64 = 0;
    /// Number of bytes that are there.
    data_bytes: u64 = 0;
    /// Decoded byte of the first element; of folded axes: of the chunk's first.
    source: u64 = 0;
    /// Device address of the first element.
    target: u64 = 0;
    /// Number of places: the product of the lengths.
    elements: u64 = 0;
    /// Bytes of the whole decoded chunk: its last block of a filter ends there.
    chunk_bytes: u64 = 0;
    /// Bytes of a filtered block.
    filter_block_bytes: u32 = 0;
    /// Bytes of an element of the filter.
    filter_typesize: u32 = 0;
    /// [`Filter`].
    filter: u8 = 0;
    /// Number of axes, at least 1.
    axis_count: u8 = 0;
    /// [`Dtype`] of the chunk. A copy has equal types, or RAW on either side.
    source_dtype: u8 = Dtype::Raw as u8;
    /// [`Dtype`] of the batch.
    target_dtype: u8 = Dtype::Raw as u8;
    /// Bytes of an element of the chunk.
    source_bytes: u8 = 1;
    /// Bytes of an element of the batch.
    target_bytes: u8 = 1;
    /// Bytes that change places: 1 none, else 2, 4 or 8.
    word_bytes: u8 = 1;
    /// 0: from a chunk. 1: `fill` everywhere.
    is_fill: u8 = 0;
    /// Bit `i`: axis `i` is folded, and [`Folds`] follow.
    folded: u16 = 0;
    /// Of folded axes. 0: edge. 1: reflect.
    reflects: u8 = 0;
    /// [`Path`].
    path: u8 = 0;
    /// Elements of a vector, a power of two.
    vector_elements: u8 = 1;
    /// 0: `data` is a place in the wave. 1: an address; there is no filter then.
    is_absolute: u8 = 0;
    /// Records of what is done to the elements ([`UnitChange`]), next to the folds; 0: they are
    /// cast alone. With some, an element of `fill` is one of the chunk.
    change_records: u8 = 0;
    /// Axes of the field that those have.
    change_rank: u8 = 0;
    /// An element of the batch.
    fill: [u8; ELEMENT_BYTES_MAX] = [0; ELEMENT_BYTES_MAX];
    /// Vectors of a row. One may begin before the row, one end behind it, and one lie outside.
    row_vectors: u64 = 0;
    /// Number of the first element in the field's sample, row-major; 0 without a change.
    place: u64 = 0;
    /// 0.
    reserved_words: [u64; 2] = [0; 2];
}

/// A folded axis: [`AxisFold`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fold {
    /// Array coordinate of the first place.
    pub begin: i64,
    /// Extent of the array.
    pub extent: u64,
    /// First coordinate of the chunk.
    pub first: u64,
    /// Coordinate behind its last one.
    pub limit: u64,
}

/// The folds of a unit, by axis: the record behind it.
pub type Folds = [Fold; RANK_MAX];

const_assert!(size_of::<Unit>() == RECORD_BYTES);
const_assert!(size_of::<Folds>() == RECORD_BYTES);
const_assert!(offset_of!(Unit, filter) == 64);
const_assert!(offset_of!(Unit, folded) == 72);
const_assert!(offset_of!(Unit, fill) == 80);
const_assert!(offset_of!(Unit, row_vectors) == 96);
const_assert!(offset_of!(Unit, axes) == 128);

/// A unit and what follows it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece<'a> {
    /// The unit.
    pub unit: Unit,
    /// There if `unit.folded` is not 0.
    pub folds: Option<Folds>,
    /// There if `unit.change_records` is not 0.
    pub change: Option<UnitChange<'a>>,
}

impl Piece<'_> {
    /// Records that it takes.
    pub fn record_count(&self) -> u32 {
        1 + u32::from(self.folds.is_some()) + u32::from(self.unit.change_records)
    }

    /// The records that follow the unit.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let folds = self.folds.iter().map(folds_to_bytes);
        folds.chain(self.change.iter().flat_map(UnitChange::records))
    }
}

/// Where a sample goes on the device.
#[derive(Clone, Copy)]
pub struct DeviceSample<'a> {
    /// Its box, and what its elements become.
    pub sample: SampleBox<'a>,
    /// Type of the batch.
    pub dtype: Dtype,
    /// Device address of its first byte.
    pub address: u64,
    /// The arithmetic on its elements; None if they are cast alone.
    pub change: Option<UnitChange<'a>>,
}

/// Decoded bytes of a chunk in a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkData {
    /// Place in the wave.
    pub data: u64,
    /// Decoded byte of the chunk that lies there.
    pub first: u64,
    /// Number of bytes there. Of a filtered block the whole is there, or nothing.
    pub bytes: u64,
    /// What is still to be undone.
    pub filter: Filter,
    /// Bytes of a filtered block.
    pub block_bytes: u32,
    /// Bytes of an element of the filter, 1 to 255.
    pub typesize: u32,
}

/// Most records that a chunk and a sample take, a data chunk or a missing one, if each unit has so
/// many of a change.
pub const fn chunk_records_max(change_records: u32) -> u64 {
    2 + change_records as u64
}

/// Most records that the padding of a sample with `rank` axes takes, likewise.
pub const fn outside_records_max(rank: u64, change_records: u32) -> u64 {
    2 * rank * (1 + change_records as u64)
}

/// The unit that writes what a chunk at `chunk_origin` holds of the sample; None where that is
/// nothing.
pub fn chunk_piece<'a>(
    target: &DeviceSample<'a>,
    chunk_origin: &[u64],
    data: &ChunkData,
) -> Option<Piece<'a>> {
    let FoldedBlock { block, folds } = target.sample.folded_block(chunk_origin)?;
    let record = target.sample.record;
    assert!(target.sample.cast.source_bytes() == record.dtype_bytes);
    assert!(record.chunk_bytes <= CHUNK_BYTES_MAX);
    assert!(data.filter == Filter::None || (data.block_bytes > 0 && data.typesize > 0));
    // Elements of one byte have no bytes to shuffle.
    let filter = match data.filter {
        Filter::Bytes if data.typesize == 1 => Filter::None,
        filter => filter,
    };
    let word_bytes = match record.byte_order {
        ByteOrder::Big => record.dtype.word_bytes() as u8,
        ByteOrder::Little => 1,
    };
    let unit = Unit {
        data: data.data,
        data_first: data.first,
        data_bytes: data.bytes,
        chunk_bytes: record.chunk_bytes,
        filter_block_bytes: data.block_bytes,
        filter_typesize: data.typesize,
        filter: filter as u8,
        source_dtype: record.dtype as u8,
        source_bytes: record.dtype_bytes as u8,
        word_bytes,
        ..blank(target)
    };
    Some(finished(unit, &block, &folds, target))
}

/// The unit that writes what a box reads of memory of the device: `record` of its sample is one
/// chunk that is all of it, the `bytes` from `data` on. None where the box reads nothing of it.
pub fn memory_piece<'a>(target: &DeviceSample<'a>, data: u64, bytes: u64) -> Option<Piece<'a>> {
    let origin = [0; RANK_MAX];
    let origin = &origin[..target.sample.record.axes()];
    let (filter, block_bytes, typesize) = (Filter::None, 0, 0);
    let data = ChunkData { data, first: 0, bytes, filter, block_bytes, typesize };
    let piece = chunk_piece(target, origin, &data)?;
    Some(Piece { unit: Unit { is_absolute: 1, ..piece.unit }, ..piece })
}

/// The unit that writes the array's fill value where the missing chunk at `chunk_origin` would have
/// been; None where that is nowhere.
pub fn missing_piece<'a>(target: &DeviceSample<'a>, chunk_origin: &[u64]) -> Option<Piece<'a>> {
    let FoldedBlock { mut block, folds } = target.sample.folded_block(chunk_origin)?;
    // Where the value comes from does not matter, so all axes may become one row. What a folded
    // axis steps over is left to the kernel, which only asks whether a place is written.
    block.axes.iter_mut().for_each(|axis| axis.source_step = 0);
    Some(finished(filled(target, None), &block, &folds, target))
}

/// Calls `each` for the pieces that write `given` (of the batch's type), or else the array's fill
/// value, where the box has no source: see [`super::fill_outside`].
pub fn for_each_outside(
    target: &DeviceSample<'_>,
    given: Option<[u8; ELEMENT_BYTES_MAX]>,
    mut each: impl FnMut(&Piece<'_>),
) {
    let change = target.change.filter(UnitChange::pad_goes_through);
    let target = &DeviceSample { change, ..*target };
    target.sample.for_each_outside_block(&mut |block| {
        each(&finished(filled(target, given), block, &[], target));
    });
}

/// A unit that writes `given`, or else the array's fill value. An element that is to be changed is
/// left as it is.
fn filled(target: &DeviceSample<'_>, given: Option<[u8; ELEMENT_BYTES_MAX]>) -> Unit {
    let record = target.sample.record;
    let blank = Unit { is_fill: 1, fill: outside_element(&target.sample, given), ..blank(target) };
    if target.change.is_none() {
        return blank;
    }
    if given.is_some() {
        let (source_dtype, source_bytes) = (blank.target_dtype, blank.target_bytes);
        return Unit { source_dtype, source_bytes, ..blank };
    }
    let mut fill = [0; ELEMENT_BYTES_MAX];
    let bytes = record.dtype_bytes as usize;
    fill[..bytes].copy_from_slice(&record.fill[..bytes]);
    let (source_dtype, source_bytes) = (record.dtype as u8, record.dtype_bytes as u8);
    Unit { fill, source_dtype, source_bytes, ..blank }
}

/// The unit that writes `element`, of `element_bytes`, all over the `bytes` from `address` on: a
/// sample that failed.
pub fn failed_unit(
    address: u64,
    bytes: u64,
    element: &[u8; ELEMENT_BYTES_MAX],
    element_bytes: u32,
) -> Unit {
    let step = u64::from(element_bytes);
    assert!(bytes > 0 && bytes.is_multiple_of(step));
    let unit = Unit {
        target: address,
        elements: bytes / step,
        target_bytes: element_bytes as u8,
        axis_count: 1,
        is_fill: 1,
        fill: *element,
        ..EMPTY
    };
    let axis = UnitAxis { length: bytes / step, source_step: 0, target_step: step };
    unit.with_axes(&[axis]).with_path()
}

/// The unit that writes `element`, of `element_bytes`, all over a block of the field from `address`
/// on.
pub fn fill_unit(
    address: u64,
    block: &Block,
    element: &[u8; ELEMENT_BYTES_MAX],
    element_bytes: u32,
) -> Unit {
    let (axes, _) = block.collapsed(0);
    let axis = |axis: &BlockAxis| UnitAxis { source_step: 0, ..UnitAxis::of(axis) };
    let axes: ArrayVec<UnitAxis, RANK_MAX> = axes.iter().map(axis).collect();
    let unit = Unit {
        target: address + block.target,
        elements: block.element_count(),
        target_bytes: element_bytes as u8,
        is_fill: 1,
        fill: *element,
        ..EMPTY
    };
    unit.with_axes(&axes).with_path()
}

/// The unit that copies a block of elements of the field, whose source is the `bytes` from `data`
/// of the wave on, to the sample at `address`.
pub fn copy_unit(
    address: u64,
    block: &Block,
    (data, bytes): (u64, u64),
    (dtype, element_bytes): (Dtype, u32),
) -> Unit {
    let axes: ArrayVec<UnitAxis, RANK_MAX> =
        block.collapsed(0).0.iter().map(UnitAxis::of).collect();
    let unit = Unit {
        data,
        data_bytes: bytes,
        source: block.source,
        target: address + block.target,
        elements: block.element_count(),
        chunk_bytes: bytes,
        source_dtype: dtype as u8,
        target_dtype: dtype as u8,
        source_bytes: element_bytes as u8,
        target_bytes: element_bytes as u8,
        ..EMPTY
    };
    unit.with_axes(&axes).with_path()
}

fn blank(target: &DeviceSample<'_>) -> Unit {
    Unit {
        target_dtype: target.dtype as u8,
        target_bytes: target.sample.cast.target_bytes() as u8,
        reflects: u8::from(target.sample.pad == PadMode::Reflect),
        ..EMPTY
    }
}

fn finished<'a>(
    unit: Unit,
    block: &Block,
    folds: &[Option<AxisFold>],
    target: &DeviceSample<'a>,
) -> Piece<'a> {
    let apart = folds.iter().enumerate().map(|(axis, fold)| u16::from(fold.is_some()) << axis);
    let (axes, folded) = block.collapsed(apart.sum());
    let mut records: Folds = [Fold::default(); RANK_MAX];
    // Folded axes keep their order and none is dropped.
    let mut inner_first = folds.iter().rev().flatten();
    for axis in (0..axes.len()).filter(|axis| folded >> axis & 1 != 0) {
        if let Some(AxisFold { begin, extent, first, limit }) = inner_first.next().copied() {
            records[axis] = Fold { begin, extent, first, limit };
        }
    }
    let axes: ArrayVec<UnitAxis, RANK_MAX> = axes.iter().map(UnitAxis::of).collect();
    let unit = Unit {
        source: block.source,
        target: target.address + block.target,
        elements: block.element_count(),
        folded,
        change_records: target.change.map_or(0, |change| change.record_count()),
        change_rank: target.change.map_or(0, |change| change.rank()),
        place: target.change.map_or(0, |_| block.target / target.sample.target_bytes()),
        ..unit
    };
    let unit = unit.with_axes(&axes).with_path();
    Piece { unit, folds: (folded != 0).then_some(records), change: target.change }
}

impl Unit {
    fn with_axes(mut self, axes: &[UnitAxis]) -> Unit {
        // An element alone is a row of one.
        let target_step = u64::from(self.target_bytes);
        let source_step = i64::from(self.source_bytes);
        self.axes[0] = UnitAxis { length: 1, source_step, target_step };
        self.axes[..axes.len()].copy_from_slice(axes);
        self.axis_count = axes.len().max(1) as u8;
        self
    }
}

/// Blocks along x of a launch of wavetrain_copy whose longest span has `bytes_max` bytes; along y
/// there is one for each span.
#[cfg(feature = "internals")]
pub fn copy_blocks(bytes_max: u64) -> u32 {
    bytes_max.div_ceil(COPY_TILE_BYTES).clamp(1, COPY_BLOCKS_MAX) as u32
}

/// What the kernel's status word says: the lowest unit that it refused, because it would have read
/// outside its data; None where it refused none. The word is 0 before a launch.
#[cfg(feature = "internals")]
pub fn refused_unit(status: u32) -> Option<u32> {
    (status != 0).then_some(!status)
}
