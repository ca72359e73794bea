//! Boxes that callers read into memory of their own, as the planner takes them: each is a batch of
//! one sample of one box of the caller's, whose slot is its reader's.
//!
//! In: the front of the queue of such boxes. Out: a box that is being planned.

use crate::base::indexes::{BatchSlot, Lane};
use crate::base::limits::RANK_MAX;
use crate::base::math::coordinates_from_linear;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::jobs::lease::drop_retired;
use crate::jobs::plan::look::{ArrayLooks, look_at_arrays};
use crate::jobs::plan::window::{Current, Planner};
use crate::records::{BoxRecord, CallerPlaces, IN_ORDER};
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;

impl Planner {
    /// Begins to plan the next box; whether there was one.
    pub(super) fn begin_box(&mut self, lock: &Lock) -> bool {
        assert!(self.lane == Lane::Readers);
        if self.current.is_some() {
            return false;
        }
        let looks = {
            let state = &mut *lock.lock();
            if state.readers.queue.is_empty() {
                return false;
            }
            drop_retired(lock.shared, state);
            self.take_box(lock.shared, state)
        };
        look_at_arrays(lock, &looks);
        true
    }

    /// Finds the places of the box of a reader, and of the runs of its index lists, whose elements
    /// have so many bytes, in the memory of its caller; or says why it has no room for them.
    pub(super) fn lay_target(
        &self,
        lock: &Lock,
        slot: BatchSlot,
        element_bytes: u32,
        why: &mut Why,
    ) -> Result<(), Status> {
        let (shared, axes) = (lock.shared, self.record.axes());
        let Some(reader) = shared.reader(slot) else { unreachable!("it is a reader's slot") };
        let state = &mut *lock.lock();
        let mut target = state.readers.targets.read(reader as usize);
        if target.is_row_major {
            let mut stride = u64::from(element_bytes);
            for axis in (0..axes).rev() {
                target.strides[axis] = stride;
                stride = stride.saturating_mul(target.places[axis]);
            }
        }
        // From the axis of the shortest distances on each has what lies between two of its places
        // for itself.
        let mut order = IN_ORDER;
        order[..axes].sort_unstable_by_key(|axis| target.strides[usize::from(*axis)]);
        let mut bytes = u128::from(element_bytes);
        for axis in order[..axes].iter().map(|axis| usize::from(*axis)) {
            let (stride, last) =
                (u128::from(target.strides[axis]), u128::from(target.places[axis] - 1));
            if last > 0 && stride < bytes {
                let text = "places of the target overlap";
                return Err(fail!(why, Invalid, "strides[{axis}] = {stride}: {text}"));
            }
            bytes += stride * last;
        }
        if bytes > u128::from(target.bytes) {
            let given = target.bytes;
            let text = "the places of the box take";
            return Err(fail!(why, Invalid, "target_bytes = {given}: {text} {bytes}"));
        }
        target.bytes = bytes as u64;
        state.readers.targets.write(reader as usize, target);
        let runs = self.current.map_or(0, |current| current.box_count);
        if runs > 1 {
            lay_runs(shared, state, &target, (slot, runs));
        }
        Ok(())
    }

    /// The looks that the box at the front needs, which is being planned from now on.
    fn take_box(&mut self, shared: &Shared, state: &mut State) -> ArrayLooks {
        let slot = state.slots.counts.slot_of(state.readers.queue.sample(0).tag as u32);
        let Some(turn) = state.slots.begin_reader(slot) else {
            state.readers.queue.consume(1);
            state.free_reader();
            return ArrayLooks::new();
        };
        let mut runs = 0;
        for queued in state.readers.queue.boxes(0) {
            let (field, shape) = (u32::from(queued.field), queued.shape);
            let record = BoxRecord { field, shape, sample: 0, ..BoxRecord::EMPTY };
            state.slots.boxes.write(shared.box_row(slot, runs), record);
            self.order[runs as usize] = runs;
            runs += 1;
        }
        let current = Current::new((slot, turn), (1, runs), 1);
        let looks = self.begin_looks(shared, state, &current);
        self.current = Some(current);
        looks
    }
}

/// Notes the byte of the memory at which each of so many runs of index lists begins.
fn lay_runs(
    shared: &Shared,
    state: &mut State,
    target: &CallerPlaces,
    (slot, runs): (BatchSlot, u32),
) {
    for number in 0..runs {
        let mut record = *shared.box_record(slot, number);
        let mut places = [0; RANK_MAX];
        coordinates_from_linear(record.shape.at, &target.places, &mut places);
        record.shape.at = places.iter().zip(&target.strides).map(|(at, stride)| at * stride).sum();
        state.slots.boxes.write(shared.box_row(slot, number), record);
    }
}
