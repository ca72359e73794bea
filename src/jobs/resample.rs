//! The job that resamples: the voxels of a box with an affine map become places of its field.
//!
//! In: pieces of boxes whose last chunk is done with. Out: places, which arithmetic may have gone
//! over, in their batch, or in a slab on the way to it. Boxes of samples that failed are left
//! alone: a later pass fills those.

use crate::assemble::augment::{Change, Run, Scratch};
use crate::base::arena::Claim;
use crate::base::indexes::Lane;
use crate::base::stats::Stage;
use crate::device::SlabNeed;
use crate::jobs::device::packed::Packed;
use crate::os::profiler;
use crate::records::{Augment, BoxRecord, Dtype};
use crate::resample::{AXES, Part, Places, Resample, Target};
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::resampling::ResamplePiece;
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;

/// The type that is resampled to if arithmetic follows, and its bytes.
pub const FLOAT: (Dtype, u32) = (Dtype::F32, 4);

/// The next piece of a box, if there is one, and room for it on the way to a device.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let piece = state.next_resample_piece()?;
    let source = shared.box_record(piece.slot, piece.number);
    let places = part_of(shared, &piece).places();
    let bytes = places * u64::from(shared.field(source.field).dtype_bytes);
    let slab = state.reserve(shared, Lane::Samples, SlabNeed::of(bytes, 1)).ok()?;
    state.begin_resample_piece();
    Some(Job::Resample { piece, slab })
}

fn part_of(shared: &Shared, piece: &ResamplePiece) -> Part {
    let field = shared.box_record(piece.slot, piece.number).field;
    let resampled = shared.resampled(piece.slot, piece.number);
    shared.pieces(resampled, field).part(piece.piece)
}

/// Does a piece.
pub fn run<'l>(lock: &'l Lock, piece: &ResamplePiece, mut slab: Option<SlabWriter>) -> Locked<'l> {
    let (shared, slot) = (lock.shared, piece.slot);
    let source = shared.box_record(slot, piece.number);
    let is_given_up = lock.lock().slots.is_given_up(slot, source.sample);
    if !is_given_up {
        let range = shared.profiler.range(profiler::ASSEMBLE);
        let start = (shared.os.now_ns)();
        let (voxels, places) = resample(shared, piece, source, slab.as_mut());
        // A device measures the time of its own assembling.
        let stage = if slab.is_none() { Stage::Assemble } else { Stage::PostDecode };
        let at = shared.profiler.here().of_slot(slot.0);
        shared.observe(stage, start, (voxels, places), at);
        drop(range);
    }
    let part = slab.map(SlabWriter::finish);
    let mut state = lock.lock();
    state.end_resample_piece(shared, (slot, shared.box_row(slot, piece.number)), part);
    state
}

/// Writes the places of a piece: bytes of its share of the voxels, and of the places.
fn resample(
    shared: &Shared,
    piece: &ResamplePiece,
    source: &BoxRecord,
    slab: Option<&mut SlabWriter>,
) -> (u64, u64) {
    let (slot, number) = (piece.slot, piece.number);
    let resampled = shared.resampled(slot, number);
    let field = shared.field(source.field);
    let cut = shared.pieces(resampled, source.field);
    let part = &cut.part(piece.piece);
    let first = resampled.first + part.target(&resampled.layout);
    let packed = slab.is_some().then(|| Packed::new(field, &resampled.layout, part, first));
    let claim = match (slab, &packed) {
        (Some(slab), Some(packed)) => {
            let address = shared.sample_region(source.to(slot)).as_ptr() as u64;
            Some(packed.send(slab, address, field).claim)
        }
        _ => shared.claim_sample(source.to(slot)),
    };
    let Some(mut claim) = claim else { return (0, 0) };
    let augment = source.is_augmented.then(|| shared.augment(slot, number));
    let own = (field.dtype, field.dtype_bytes);
    let target = augment.map_or(own, |_| FLOAT);
    let Some(resample) = Resample::find(resampled.map.filter, resampled.source, target) else {
        unreachable!("the planner refuses boxes without a way");
    };
    let plain = &resampled.pad[..field.dtype_bytes as usize];
    let float = resampled.pad_float.to_ne_bytes();
    let mut changing = augment.map(|augment: Augment<'_>| {
        let change = Change::new(augment, FLOAT, (field.extents(), field.dtype), false);
        let Some(change) = change else { unreachable!("floats become floats") };
        (change, Scratch::NEW)
    });
    let step = resampled.layout.target[AXES - 1];
    let mut write = changing.as_mut().map(|(change, scratch)| {
        let packed = packed.as_ref();
        move |claim: &mut _, places: Places<'_>| {
            let place = packed.map_or(places.first, |packed| packed.place(places.first));
            write_changed(change, scratch, plain, (place, step), claim, &places);
        }
    });
    let mut target = Target {
        claim: &mut claim,
        first: if packed.is_some() { 0 } else { first },
        pad: if augment.is_some() { &float } else { plain },
        write: write.as_mut().map(|write| write as _),
    };
    let layout = packed.as_ref().map_or(&resampled.layout, |packed| &packed.layout);
    let block = shared.hull_bytes(resampled);
    resample.part(&resampled.map, layout, block, &mut target, part);
    let bytes = part.places() * u64::from(field.dtype_bytes);
    (resampled.bytes() / cut.count(), bytes)
}

/// Writes places along one axis, which arithmetic is done to. They have these bytes of the field's
/// sample, the first and from one to the next. `plain`: the element that padding has if no
/// arithmetic is done to it.
fn write_changed(
    change: &Change<'_>,
    scratch: &mut Scratch,
    plain: &[u8],
    (place, place_step): (u64, u64),
    claim: &mut Claim<'_>,
    places: &Places<'_>,
) {
    let Places { elements, first, step, outside } = *places;
    let keeps = |place: usize| outside.is_some_and(|is_outside| is_outside(place));
    let plain = Some(plain).filter(|_| !change.pad_goes_through());
    let (count, mut at) = (elements.len() / 4, 0);
    while at < count {
        let is_kept = plain.is_some() && keeps(at);
        let end = (at + 1..count).find(|place| keeps(*place) != is_kept);
        let end = end.filter(|_| plain.is_some()).unwrap_or(count);
        let run = Run {
            floats: &elements[4 * at..4 * end],
            place: (place + at as u64 * place_step, place_step),
            to: (first + at as u64 * step, step),
        };
        change.run(&run, plain.filter(|_| is_kept), claim, scratch);
        at = end;
    }
}
