//! The planner's scout: which chunks the samples of the lookahead will use.
//!
//! In: samples that wait, in order, as far as their arrays are known. Out: uses that the cache of
//! decoded chunks foresees. It stops when the cache can take no more and goes on at the same place
//! when uses are over; a bounded number of chunks a run.

use crate::base::limits::RANK_MAX;
use crate::base::status::Why;
use crate::chunk_cache::ChunkKey;
use crate::intake::arrays::ArrayState;
use crate::jobs::plan::bind::queued_affine;
use crate::jobs::plan::boxes::source_box;
use crate::jobs::plan::levels::find_level;
use crate::jobs::plan::planned::Scouted;
use crate::jobs::plan::resample::map_box;
use crate::jobs::plan::window::{Planner, RUN_CHUNKS};
use crate::plan::{Cursor, asked_chunk};
use crate::records::LevelChoice;
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;

impl Planner {
    /// Foresees the uses of a bounded number of chunks; whether it found any.
    pub fn scout(&mut self, lock: &Lock) -> bool {
        if lock.shared.settings.cache_memory_bytes == 0 {
            return false;
        }
        let state = &mut *lock.lock();
        let front = state.queue.front_number();
        let scouted = &mut self.scouted;
        if scouted.sample < front {
            *scouted = Scouted { sample: front, ..Scouted::NONE };
        }
        let mut budget = RUN_CHUNKS;
        while budget > 0 && scouted.sample < front + state.queue.len() {
            match foresee_box(lock.shared, state, scouted, &mut budget) {
                Step::Over => {
                    (scouted.number, scouted.cursor) = (scouted.number + 1, None);
                    let offset = (scouted.sample - front) as u32;
                    if scouted.number == state.queue.sample(offset).boxes {
                        (scouted.sample, scouted.number) = (scouted.sample + 1, 0);
                    }
                }
                Step::Later => break,
            }
            // Boxes without chunks count too, so that a run stays short.
            budget = budget.saturating_sub(1);
        }
        budget < RUN_CHUNKS
    }
}

enum Step {
    /// All chunks of the box are foreseen, or none ever will be.
    Over,
    /// To be gone on with in another run.
    Later,
}

fn foresee_box(
    shared: &Shared,
    state: &mut State,
    scouted: &mut Scouted,
    budget: &mut u64,
) -> Step {
    let offset = (scouted.sample - state.queue.front_number()) as u32;
    let queued = state.queue.boxes(offset)[scouted.number as usize];
    if queued.is_fed {
        return Step::Over;
    }
    let number = offset * shared.settings.per_sample.boxes + scouted.number;
    let affine = queued_affine(shared, &state.queue, number);
    let (uri, hash) = state.queue.uri(&queued);
    let found = match &affine {
        None => state.arrays.find_target(uri, hash).map(|array| (array, LevelChoice::NONE)),
        Some(affine) => find_level(&mut state.arrays, (uri, hash), affine),
    };
    let Some((array, choice)) = found else { return Step::Later };
    match state.arrays.state(array) {
        ArrayState::Ready => {}
        ArrayState::Failed(_) => return Step::Over,
        _ => return Step::Later,
    }
    let (record, array_id) = (shared.array_record(array), state.arrays.id(array));
    if !record.is_cacheable() {
        return Step::Over;
    }
    let begun = scouted.cursor.filter(|(of, _)| *of == array_id).map(|(_, cursor)| cursor);
    let start = || {
        // A fault of the sample is reported when it is planned.
        let why = &mut Why::new();
        let reach = match affine {
            None => source_box(shared, record, &queued, why).ok()?,
            Some(affine) => {
                let map = (&affine, &choice, 0);
                map_box(shared, record, (&queued, map), why).ok()?.0
            }
        };
        (!reach.is_empty(record.axes())).then(|| Cursor::start(record, &reach))
    };
    let Some(mut cursor) = begun.or_else(start) else { return Step::Over };
    loop {
        let (mut file, mut chunk) = cursor.position();
        if record.origin.numbers_elements {
            ((file, chunk), _) = asked_chunk(record, &[0; RANK_MAX], record, file);
        }
        let key = ChunkKey { array_id, file, chunk };
        if *budget == 0 || !state.chunks.foresee(key, scouted.sample) {
            scouted.cursor = Some((array_id, cursor));
            return Step::Later;
        }
        *budget -= 1;
        if !cursor.advance(record) {
            return Step::Over;
        }
    }
}
