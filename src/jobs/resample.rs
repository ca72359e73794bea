//! The job that resamples: the voxels of a box with an affine map become places of its field.
//!
//! In: pieces of boxes whose last chunk is done with. Out: rows of places, which arithmetic may
//! have gone over. Boxes of samples that failed are left alone: a later pass fills those.

use crate::assemble::augment::{Change, Scratch};
use crate::base::stats::Metric;
use crate::os::profiler;
use crate::records::{Augment, BoxRecord, Dtype};
use crate::resample::{Places, Resample, Target};
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::resampling::ResamplePiece;
use crate::state::shared::Shared;

/// The type that is resampled to if arithmetic follows, and its bytes.
pub const FLOAT: (Dtype, u32) = (Dtype::F32, 4);

/// The next piece of a box, if there is one.
pub fn take(state: &mut State) -> Option<Job> {
    state.take_resample_piece().map(Job::Resample)
}

/// Does a piece.
pub fn run<'l>(lock: &'l Lock, piece: &ResamplePiece) -> Locked<'l> {
    let (shared, slot) = (lock.shared, piece.slot);
    let source = shared.box_record(slot, piece.number);
    let is_failed = {
        let statuses = &lock.lock().slots.rows.statuses(slot);
        statuses.read(source.sample as usize) != 0
    };
    if !is_failed {
        let range = shared.profiler.range(profiler::ASSEMBLE);
        let start = (shared.os.now_ns)();
        let (voxels, places) = resample(shared, piece, source);
        let mut metric = Metric::NONE;
        metric.observe((shared.os.now_ns)() - start, voxels, places);
        shared.stats.assemble.add(&metric);
        drop(range);
    }
    let mut state = lock.lock();
    state.end_resample_piece(shared, slot, shared.box_row(slot, piece.number));
    state
}

/// Writes the places of a piece: bytes of its share of the voxels, and of the places.
fn resample(shared: &Shared, piece: &ResamplePiece, source: &BoxRecord) -> (u64, u64) {
    let (slot, number) = (piece.slot, piece.number);
    let resampled = shared.resampled(slot, number);
    let (field, rows) = (shared.field(source.field), resampled.rows(piece.piece));
    let Some(mut claim) = shared.claim_sample(source.to(slot)) else { return (0, 0) };
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
    let mut write = changing.as_mut().map(|(change, scratch)| {
        move |claim: &mut _, places: Places<'_>| {
            let Places { elements, first, step, outside } = places;
            let keeps = |place: usize| outside.is_some_and(|is_outside| is_outside(place));
            let plain = Some(plain).filter(|_| !change.pad_goes_through());
            let (count, mut at) = (elements.len() / 4, 0);
            while at < count {
                let is_kept = plain.is_some() && keeps(at);
                let end = (at + 1..count).find(|place| keeps(*place) != is_kept);
                let end = end.filter(|_| plain.is_some()).unwrap_or(count);
                let line = (first + at as u64 * step, step);
                let plain = plain.filter(|_| is_kept);
                change.run(&elements[4 * at..4 * end], line, plain, claim, scratch);
                at = end;
            }
        }
    });
    let count = rows.end - rows.start;
    let share = resampled.bytes() * count / resampled.map.rows().max(1);
    let mut target = Target {
        claim: &mut claim,
        first: resampled.first,
        pad: if augment.is_some() { &float } else { plain },
        write: write.as_mut().map(|write| write as _),
    };
    let block = shared.hull_bytes(resampled);
    resample.rows(&resampled.map, &resampled.layout, block, &mut target, rows);
    (share, count * resampled.row_places() * u64::from(field.dtype_bytes))
}
