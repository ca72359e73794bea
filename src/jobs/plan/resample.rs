//! Boxes with an affine map: which voxels they read, and how those become places.
//!
//! In: an array, a queued box and its map. Out: what of the array is read, and the record that the
//! job of resampling works by; or a status with a text that names what is wrong and the fix.

use crate::assemble::cast::{Cast, Plane};
use crate::assemble::fill_element;
use crate::assemble::walk::walk_range;
use crate::base::arena::RowsMut;
use crate::base::indexes::Lane;
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::text::List;
use crate::fail;
use crate::intake::queue::QueuedBox;
use crate::jobs::plan::boxes::{axis_failure, check_files, check_rank};
use crate::jobs::plan::planned::Planned;
use crate::jobs::plan::window::{Current, Planner};
use crate::jobs::resample::FLOAT;
use crate::plan::Reach;
use crate::records::{Affine, ArrayRecord, AxisWalk, BoxShape, ByteOrder, LevelChoice, PadMode};
use crate::resample::{AXES, Filter, Layout, Map, MapFault, Resample};
use crate::setup::fields::Field;
use crate::state::State;
use crate::state::resampling::Resampled;
use crate::state::shared::Shared;
use arrayvec::ArrayVec;
use core::ops::Range;

/// The map of a box, the level that was chosen if its uri names an image, and the axes of what is
/// fed that are turned round.
pub type BoxMap<'a> = (&'a Affine, &'a LevelChoice, u32);

/// The range of an array that a box with a map reads, and how it is resampled.
pub fn map_box(
    shared: &Shared,
    record: &ArrayRecord,
    (queued, (affine, choice, turned)): (&QueuedBox, BoxMap<'_>),
    why: &mut Why,
) -> Result<(Reach, Resampled), Status> {
    check_rank(record, queued, why)?;
    let affine = &choice
        .turned(affine, &record.shape[..record.axes()])
        .map_err(|fault| why.fail(fault.status(), format_args!("affine: {fault}")))?;
    let (number, axes) = (u32::from(queued.field), record.axes());
    let (field, mode) = (shared.field(number), shared.padding(number).mode);
    let map = find_map(record, queued, affine, mode)
        .map_err(|fault| fail!(why, Invalid, "affine: {fault}"))?;
    check_way(record, &map, field, queued.is_augmented, why)?;
    let mut reach = Reach::of([0; RANK_MAX], [0; RANK_MAX]);
    let mut hull = BoxShape::EMPTY;
    let (mut places, mut target) = ([0; RANK_MAX], [0; RANK_MAX]);
    for axis in 0..axes {
        let walk = &queued.shape.axes[axis];
        target[axis] = walk.to().map_or(0, |to| field.strides[to]);
        let (low, high, read) = match affine.position(axis) {
            Some(mapped) => {
                let is_turned = turned >> axis & 1 == 1;
                gathered(map.hull(mapped), is_turned.then_some(record.shape[axis]))
            }
            None => {
                let (low, high) = copied(record, (axis, walk), mode, why)?;
                reach.step[axis] = walk.step().0 as u32;
                (low, high, *walk)
            }
        };
        (reach.lo[axis], reach.hi[axis]) = (low, high);
        (hull.axes[axis], places[axis]) = (read.to_axis(Some(axis)), read.places());
    }
    check_files(shared, record, queued, &reach, why)?;
    let mapped: ArrayVec<usize, AXES> = affine.axes().collect();
    let layout = Layout::new(&map, &mapped, &places[..axes], &target[..axes]);
    let most = shared.settings.resample_bytes();
    let bytes = layout.as_ref().map(|layout| layout.elements() * u64::from(record.dtype_bytes));
    let Some((layout, _)) = layout.zip(bytes.filter(|bytes| *bytes <= most)) else {
        let shown = shared.settings.shown_resample_bytes();
        return Err(too_large(&reach, record, shown, why));
    };
    let mut strides = [0; RANK_MAX];
    let mut stride = u64::from(record.dtype_bytes);
    for axis in (0..axes).rev() {
        (strides[axis], stride) = (stride, stride * places[axis]);
    }
    let (pad, pad_float) = pad_elements(shared, record, number);
    let first = queued.shape.at * u64::from(field.dtype_bytes);
    let source = (record.dtype, record.dtype_bytes);
    let place = (0, 0);
    let resampled = Resampled { map, layout, source, hull, strides, first, pad, pad_float, place };
    Ok((reach, resampled))
}

fn find_map(
    record: &ArrayRecord,
    queued: &QueuedBox,
    affine: &Affine,
    mode: PadMode,
) -> Result<Map, MapFault> {
    let (mut places, mut extents) = ([1; AXES], [1; AXES]);
    for (number, axis) in affine.axes().enumerate() {
        places[number] = queued.shape.axes[axis].places();
        extents[number] = record.shape[axis];
    }
    let filter = Filter::from_code(affine.filter);
    let Some(filter) = filter else { unreachable!("push refuses other filters") };
    Map::new(affine.rank as usize, &affine.matrix, &places, &extents, filter, mode)
}

/// The range of a hull along an axis, and the walk that gathers it in the order of the map: the
/// elements of an axis that is turned round, of this extent, lie backwards.
fn gathered(hull: Range<u64>, turned: Option<u64>) -> (u64, u64, AxisWalk) {
    let (low, high, step) = match turned {
        None => (hull.start, hull.end, 1),
        Some(extent) => (extent - hull.end, extent - hull.start, -1),
    };
    // A hull of no voxels is not walked.
    (low, high, AxisWalk::of(low as i64, high as i64, step).unwrap_or(AxisWalk::ONE))
}

/// The range that a box reads along an axis that is not mapped.
fn copied(
    record: &ArrayRecord,
    (axis, walk): (usize, &AxisWalk),
    mode: PadMode,
    why: &mut Why,
) -> Result<(u64, u64), Status> {
    let (extent, (begin, end)) = (record.shape[axis], walk.range());
    if mode == PadMode::Constant && (begin < 0 || end as u64 > extent) {
        let text = "an axis that a map copies must lie inside, if pad_mode is constant";
        let range = format_args!("axis {axis}: box [{begin}, {end}) of an extent of {extent}");
        return Err(fail!(why, Invalid, "affine: {range}: {text}"));
    }
    walk_range(walk, extent, mode)
        .map_err(|fault| axis_failure(axis, walk.range(), extent, fault, why))
}

/// Whether elements of the array become those of the field through the filter.
fn check_way(
    record: &ArrayRecord,
    map: &Map,
    field: &Field,
    is_augmented: bool,
    why: &mut Why,
) -> Result<(), Status> {
    let own = (field.dtype, field.dtype_bytes);
    let target = if is_augmented { FLOAT } else { own };
    let source = (record.dtype, record.dtype_bytes);
    if Resample::find(map.filter, source, target).is_some() {
        return Ok(());
    }
    let (from, to) = (record.dtype.name(), field.dtype.name());
    let way_out = "take the filter WAVETRAIN_NEAREST, or another dtype";
    Err(fail!(why, Dtype, "{}affine: no {from} is resampled to {to}: {way_out}", field.of()))
}

fn too_large(reach: &Reach, record: &ArrayRecord, most: u64, why: &mut Why) -> Status {
    let extents = (0..record.axes()).map(|axis| reach.hi[axis] - reach.lo[axis]);
    let extents: ArrayVec<u64, RANK_MAX> = extents.collect();
    let each = u64::from(record.dtype_bytes);
    let bytes = extents.iter().fold(each, |bytes, extent| bytes.saturating_mul(*extent));
    let shown = List(&extents);
    fail!(
        why,
        Budget,
        "affine: the map reads voxels of extents {shown}, {bytes} bytes, and max_resample_bytes = \
         {most}: raise it, or scale less"
    )
}

/// The field's element for places outside of the array, and the float that arithmetic gets.
fn pad_elements(
    shared: &Shared,
    record: &ArrayRecord,
    number: u32,
) -> ([u8; ELEMENT_BYTES_MAX], f32) {
    let (field, given) = (shared.field(number), shared.padding(number).element);
    let element = given.unwrap_or_else(|| fill_element(record, &field.checked_cast(record)));
    let (from, bytes) = match given {
        Some(element) => ((field.dtype, field.dtype_bytes), element),
        None => ((record.dtype, record.dtype_bytes), record.fill),
    };
    let mut float = [0; 4];
    // A field of other elements than floats has no arithmetic.
    if let Some(cast) = Cast::find(from.0, from.1, FLOAT.0, FLOAT.1) {
        let order = ByteOrder::Little;
        let source = Plane { bytes: &bytes, first: 0, step: 0, pitch: 0, order };
        cast.plane(&source, &mut RowsMut::packed(&mut float, 4));
    }
    (element, f32::from_ne_bytes(float))
}

impl Planner {
    /// Calls `each` with the rows of the boxes of an entry that have a map.
    pub(super) fn each_resampled(
        &self,
        shared: &Shared,
        entry: &Planned,
        mut each: impl FnMut(usize),
    ) {
        if shared.settings.resample_bytes() == 0 || self.lane == Lane::Readers {
            return;
        }
        for pair in entry.pair_first..entry.pair_first + u64::from(entry.pair_count) {
            let number = self.pairs[index(pair % self.pairs.len() as u64)];
            if shared.box_record(entry.slot, number).is_resampled {
                each(shared.box_row(entry.slot, number));
            }
        }
    }

    /// All chunks of a group are planned.
    pub(super) fn end_planned(&self, shared: &Shared, state: &mut State, current: &Current) {
        if shared.settings.resample_bytes() == 0 || self.lane == Lane::Readers {
            return;
        }
        for at in current.group_first..current.group_limit {
            let row = shared.box_row(current.slot, self.order[at as usize]);
            state.end_planning(row);
        }
    }
}
