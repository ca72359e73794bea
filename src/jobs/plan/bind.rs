//! The parts of a batch besides the chunks of arrays: its boxes, bound to a slot, and what none of
//! them covers.
//!
//! In: the samples at the front of the queue. Out: the rows of their boxes; tasks that fill what is
//! left of their fields.

use crate::assemble::blanks::BLANKS_MAX;
use crate::base::indexes::BatchSlot;
use crate::base::math::index;
use crate::intake::queue::{Queue, QueuedBox};
use crate::jobs::blanks::{for_each_blank_of, is_covered};
use crate::jobs::plan::planned::{Place, Settled};
use crate::jobs::plan::window::{Current, Planner, RUN_CHUNKS};
use crate::records::{Affine, Augment, BoxRecord, Destination, Need};
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;

/// A box of the batch that the front of the queue is.
pub fn queued_box<'q>(shared: &Shared, queue: &'q Queue, number: u32) -> &'q QueuedBox {
    let boxes = shared.settings.per_sample.boxes;
    &queue.boxes(number / boxes)[(number % boxes) as usize]
}

/// Sorts boxes of the batch by array, those with a map after those without one.
pub fn sort_boxes(shared: &Shared, queue: &Queue, numbers: &mut [u32]) {
    let key = |queued: &QueuedBox| {
        let (uri, hash) = queue.uri(queued);
        (hash, uri, queued.is_resampled)
    };
    numbers.sort_unstable_by(|one, other| {
        let [first, second] = [one, other].map(|number| queued_box(shared, queue, *number));
        match first.is_alike(second) {
            true => one.cmp(other),
            false => key(first).cmp(&key(second)).then(one.cmp(other)),
        }
    });
}

/// The map of that box, if it has one.
pub fn queued_affine(shared: &Shared, queue: &Queue, number: u32) -> Option<Affine> {
    let boxes = shared.settings.per_sample.boxes;
    let is_resampled = queued_box(shared, queue, number).is_resampled;
    let words = is_resampled.then(|| queue.augment(number / boxes, number % boxes))?;
    Augment::of(words).affine()
}

/// Writes the first `count` samples to a slot. Puts the numbers of their boxes into `order`, but
/// for those that read memory of a device, which are no chunks to plan; how many.
pub fn bind_samples(
    shared: &Shared,
    state: &mut State,
    (slot, count): (BatchSlot, u32),
    order: &mut [u32],
) -> usize {
    let (mut boxes, mut lent) = (0, 0);
    for sample in 0..count {
        let tag = state.queue.sample(sample).tag;
        state.slots.rows.tags(slot).write(sample as usize, tag);
        let queued = state.queue.boxes(sample);
        bind_boxes(shared, state, (slot, sample), queued);
        for (number, queued) in (0..).zip(queued) {
            order[boxes] = sample * shared.settings.per_sample.boxes + number;
            boxes += usize::from(!queued.is_on_device);
            lent += u64::from(queued.is_on_device);
        }
    }
    if lent > 0 {
        state.slots.add_remaining(slot, lent);
        state.device.lend(slot, lent);
        state.wakes.work();
    }
    boxes
}

/// Writes the boxes of a sample to its slot, and what they cover of each field.
fn bind_boxes(
    shared: &Shared,
    state: &State,
    (slot, sample): (BatchSlot, u32),
    queued: &[QueuedBox],
) {
    let boxes = shared.settings.per_sample.boxes;
    let row = |number: usize| shared.box_row(slot, sample * boxes + number as u32);
    for (number, queued) in queued.iter().enumerate() {
        let (field, shape) = (u32::from(queued.field), queued.shape);
        let QueuedBox { is_on_device, is_augmented, is_resampled, runs, .. } = *queued;
        let record =
            BoxRecord { sample, field, is_on_device, is_augmented, is_resampled, runs, shape };
        state.slots.boxes.write(row(number), record);
        if is_augmented {
            let words = state.queue.augment(sample, number as u32);
            let first = row(number) * words.len();
            for (at, word) in (first..).zip(&words[..words[0] as usize]) {
                state.slots.augment.write(at, *word);
            }
        }
        if queued.is_fed {
            state.slots.fed.write(row(number), *state.queue.fed(sample, number as u32));
        }
    }
    if queued.len() < boxes as usize {
        state.slots.boxes.write(row(queued.len()), BoxRecord::EMPTY);
    }
    let filled_shape = state.slots.rows.filled_shape(slot);
    let is_whole = !shared.settings.takes_parts;
    for (number, field) in shared.settings.fields.iter().enumerate() {
        let extents = field.filled_extents();
        let row = shared.filled_shape_row(number as u32) + sample as usize * extents;
        for axis in 0..extents {
            filled_shape.write(row + axis, if is_whole { field.shape[axis] } else { 0 });
        }
        let is_of = |queued: &&QueuedBox| usize::from(queued.field) == number && !is_whole;
        for queued in queued.iter().filter(is_of) {
            let (_, high) = field.covered_by(&queued.shape);
            for (axis, high) in high[..extents].iter().enumerate() {
                filled_shape.write(row + axis, filled_shape.read(row + axis).max(*high));
            }
        }
    }
}

impl Planner {
    /// Adds the tasks of what no box covers; whether something was done.
    pub fn walk_blanks(&mut self, lock: &Lock, mut current: Current) -> bool {
        let (shared, before) = (lock.shared, self.limit);
        let fields = shared.settings.fields.len() as u32;
        while current.blank_next.0 < current.sample_count * fields {
            if !self.has_room(&current) || self.limit - before >= RUN_CHUNKS {
                break;
            }
            let ((next, first), mut blocks) = (current.blank_next, 0);
            let (sample, field) = (next / fields, next % fields);
            if !is_covered(shared, (current.slot, sample), field) {
                let to = Destination { slot: current.slot, field, sample };
                for_each_blank_of(shared, to, &mut |_| blocks += 1);
            }
            if first < blocks {
                let pair_first = self.pair_limit;
                let number = sample * shared.settings.per_sample.boxes;
                self.pairs[index(pair_first % self.pairs.len() as u64)] = number;
                self.pair_limit += 1;
                let position = (u64::from(field), first);
                self.plan(
                    &mut current,
                    Place::Known(Settled::Blank),
                    position,
                    Need::NONE,
                    pair_first,
                );
            }
            current.blank_next = match first + BLANKS_MAX < blocks {
                true => (next, first + BLANKS_MAX),
                false => (next + 1, 0),
            };
        }
        let added = self.limit - before;
        self.current = Some(current);
        let state = &mut *lock.lock();
        state.slots.add_remaining(current.slot, added);
        let is_over = current.blank_next.0 == current.sample_count * fields;
        if is_over {
            self.end_batch(shared, state, &current);
        }
        is_over || added > 0
    }
}
