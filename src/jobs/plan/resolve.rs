//! The planner's question for arrays: which one each group of boxes reads.
//!
//! In: boxes of a batch, in the order of their uris. Out: a group whose array is loaded; failed
//! samples if it cannot be.

use crate::assemble::cast::Cast;
use crate::base::cache::hash_bytes;
use crate::base::indexes::{ArraySlot, BatchSlot, Lane};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why};
use crate::intake::arrays::ArrayState;
use crate::intake::queue::{Queue, QueuedBox};
use crate::jobs::failures::{fail_sample, sample_failure};
use crate::jobs::plan::bind::{queued_affine, queued_box};
use crate::jobs::plan::boxes::{check_record, source_box};
use crate::jobs::plan::look::ArrayLooks;
use crate::jobs::plan::resample::map_box;
use crate::jobs::plan::window::{Current, Phase, Planner};
use crate::plan::{Cursor, Reach};
use crate::setup::fields::Field;
use crate::state::State;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

impl Planner {
    /// Finds the array of the next group, or asks for it.
    pub(super) fn resolve(&mut self, lock: &Lock) -> bool {
        let Some(mut current) = self.current.filter(|at| at.phase == Phase::Resolve) else {
            return false;
        };
        let mut guard = lock.lock();
        let state = &mut *guard;
        let front = state.queue.front_number();
        let queue = state.queue_of(self.lane);
        current.group_limit = self.group_limit(lock.shared, queue, &current).min(self.level_limit);
        let number = self.order[current.group_first as usize];
        let queued = queued_box(lock.shared, queue, number);
        if queued.is_fed {
            let boxes = lock.shared.settings.per_sample.boxes;
            self.record = lock.shared.fed_record(queue.fed(number / boxes, number % boxes));
            (current.array, current.array_id) = (ArraySlot::NONE, 0);
            drop(guard);
            return self.begin_group(lock, current);
        }
        self.begin_levels(lock.shared, state, &mut current, false);
        // `queue_of` would borrow the table of arrays as well.
        let queue = match self.lane {
            Lane::Samples => &state.queue,
            Lane::Readers => &state.readers.queue,
        };
        let (uri, hash) = match current.is_alias {
            true => (self.target.as_bytes(), hash_bytes(self.target.as_bytes())),
            false => queue.uri(queued_box(lock.shared, queue, number)),
        };
        let is_held_up = self.waits_for_pops(lock.shared, state, &current);
        let Some(array) = state.arrays.find(uri, hash) else {
            if is_held_up && !state.arrays.leaves_one(None) {
                return false;
            }
            let loaded = state.arrays.load(uri, hash, None);
            if let Some(array) = loaded {
                // Loading ahead must not take its place before it was used.
                state.arrays.want(array, front);
            }
            return loaded.is_some();
        };
        match state.arrays.state(array) {
            ArrayState::Ready => return self.use_array(lock, guard, current, array),
            ArrayState::Alias => {
                self.read_alias(lock.shared, state, array, &mut current);
                self.current = Some(current);
            }
            ArrayState::Failed(status) => self.fail_array(lock, guard, current, (array, status)),
            ArrayState::Empty
            | ArrayState::Queued
            | ArrayState::QueuedLarge
            | ArrayState::Loading => return false,
        }
        true
    }

    /// Whether what a batch takes may be held until the program has popped those before it: it has
    /// no memory yet. A program that reads a box first must not wait for that: one entry for an
    /// array is left to readers, and the tables that arrays take rows of are left to them whole,
    /// because a box may be of an array that takes them all.
    fn waits_for_pops(&self, shared: &Shared, state: &State, current: &Current) -> bool {
        let has_readers = shared.settings.config.n_readers > 0;
        self.lane == Lane::Samples && has_readers && state.slots.is_early(current.slot)
    }

    /// Begins the group with an array that is loaded, once its version was looked at; whether it
    /// began, or failed.
    fn use_array(
        &mut self,
        lock: &Lock,
        mut guard: Locked<'_>,
        mut current: Current,
        array: ArraySlot,
    ) -> bool {
        let state = &mut *guard;
        let shared = lock.shared;
        let has_rows = || !state.arrays.records.read(array.at()).edges.is_empty();
        if self.waits_for_pops(shared, state, &current)
            && (!state.arrays.leaves_one(Some(array)) || has_rows())
        {
            return false;
        }
        let is_each = shared.store.row.shows_changes;
        match state.arrays.may_use(array, current.turn, is_each) {
            Ok(true) => {}
            Ok(false) => {
                state.wakes.work();
                return false;
            }
            Err(failure) => {
                drop(guard);
                self.fail_group(lock, current, &failure);
                return true;
            }
        }
        let shape = &state.arrays.records.read(array.at()).shape;
        if self.take_extents(shared, &state.queue, &current, Some(shape)) {
            state.arrays.mark_used(array);
            self.current = Some(current);
            return true;
        }
        state.arrays.pin(array, 1);
        (current.array, current.array_id) = (array, state.arrays.id(array));
        self.record = state.arrays.records.read(array.at());
        drop(guard);
        let has_begun = self.begin_group(lock, current);
        let state = &mut *lock.lock();
        if !has_begun {
            state.unpin_array(array, 1);
            return false;
        }
        // The first use of a load is the lookup that missed.
        let is_hit = state.arrays.mark_used(array) as u64;
        shared.stats.array_meta_hits.fetch_add(is_hit, Relaxed);
        true
    }

    /// Begins the looks at the arrays of a batch that was just bound, all at once: those that the
    /// planner does itself, if nothing has to be waited for.
    pub(super) fn begin_looks(
        &self,
        shared: &Shared,
        state: &mut State,
        current: &Current,
    ) -> ArrayLooks {
        let must_wait = state.must_wait_for_looks(shared);
        let State { queue, readers, arrays, wakes, .. } = state;
        let queue = if self.lane == Lane::Samples { queue } else { &mut readers.queue };
        let (is_each, mut before) = (shared.store.row.shows_changes, None);
        let mut looks = ArrayLooks::new();
        for number in &self.order[..current.box_count as usize] {
            let queued = queued_box(shared, queue, *number);
            let (uri, hash) = queue.uri(queued);
            if queued.is_fed || before == Some(uri) {
                continue;
            }
            before = Some(uri);
            if let Some(array) = arrays.find_target(uri, hash)
                && arrays.state(array) == ArrayState::Ready
                && arrays.needs_look(array, current.turn, is_each)
            {
                match arrays.begin_look(array, current.turn, !must_wait && !looks.is_full()) {
                    Some(version) => looks.push((array, version)),
                    None => wakes.work(),
                }
            }
        }
        looks
    }

    /// The limit of the boxes that read the array of the group's first. One that is fed is alone.
    fn group_limit(&self, shared: &Shared, queue: &Queue, current: &Current) -> u32 {
        let first = current.group_first;
        let queued = |at: u32| queued_box(shared, queue, self.order[at as usize]);
        let name = |queued: &QueuedBox| (queue.uri(queued), queued.is_resampled);
        let (own, limit) = (queued(first), current.box_count);
        let is_same = |other: &QueuedBox| other.is_alike(own) || name(other) == name(own);
        let limit = if own.is_fed { first + 1 } else { limit };
        (first + 1..limit).find(|at| !is_same(queued(*at))).unwrap_or(limit)
    }

    /// Fails the samples of a group whose array was not loaded, unless it may be an image.
    fn fail_array(
        &mut self,
        lock: &Lock,
        mut guard: Locked<'_>,
        mut current: Current,
        (array, status): (ArraySlot, Status),
    ) {
        let (shared, state) = (lock.shared, &mut *guard);
        if status == Status::NotFound && self.begin_levels(shared, state, &mut current, true) {
            return;
        }
        let failure = Failure::because(status, state.arrays.why(array));
        state.arrays.forget_failed(array);
        let is_absent = status == Status::NotFound;
        if is_absent && self.take_extents(shared, &state.queue, &current, None) {
            self.current = Some(current);
            return;
        }
        let failure = self.forget_levels(shared, state, &current, failure);
        drop(guard);
        self.fail_group(lock, current, &failure);
    }

    /// Fails the samples of a group whose array cannot be read.
    fn fail_group(&mut self, lock: &Lock, current: Current, failure: &Failure) {
        for at in current.group_first..current.group_limit {
            let record = lock.shared.box_record(current.slot, self.order[at as usize]);
            fail_sample(lock, record.to(current.slot), failure);
        }
        self.end_group(lock, current, false);
    }

    /// Starts a walk for every box of the group that fits the array and its field, up to the first
    /// whose map finds no staging. False, and nothing has begun, if that is the first box.
    fn begin_group(&mut self, lock: &Lock, mut current: Current) -> bool {
        assert!(current.phase == Phase::Resolve && current.group_limit <= current.box_count);
        (current.phase, current.pad_next) = (Phase::Walk, current.group_first);
        (self.shape, self.origin) = (self.record.shape, [0; RANK_MAX]);
        let is_boxes = self.record.origin.cuts_by_box;
        if is_boxes {
            current.group_limit = current.group_first + 1;
        }
        let (shared, mut checked) = (lock.shared, None);
        for at in current.group_first..current.group_limit {
            match self.find_reach(lock, (current.slot, self.order[at as usize]), &mut checked) {
                Ok(None) if at == current.group_first => return false,
                Ok(None) => {
                    current.group_limit = at;
                    break;
                }
                Ok(Some(reach)) if reach.is_empty(self.record.axes()) => {}
                Ok(Some(mut reach)) => {
                    if is_boxes {
                        self.origin = reach.lo;
                        let most = shared.settings.config.max_chunk_uncompressed_bytes;
                        reach.turn_to_box(&mut self.record, most);
                    }
                    let number = self.order[at as usize];
                    self.merge.add(number, Cursor::start(&self.record, &reach));
                }
                Err((status, why)) => {
                    let failure = sample_failure(shared, current.array, status, &why);
                    let number = self.order[at as usize];
                    let to = shared.box_record(current.slot, number).to(current.slot);
                    fail_sample(lock, to, &failure);
                    if self.lane == Lane::Readers {
                        // Places of the other runs may not be known.
                        self.merge.clear();
                        current.group_limit = at + 1;
                        (current.box_count, current.pad_next) = (at + 1, at + 1);
                        break;
                    }
                }
            }
        }
        self.current = Some(current);
        true
    }

    /// The range of the array that box `number` of the batch in a slot reads; None until there is
    /// staging for it. `checked`: the field that the array was compared with last, and fits.
    fn find_reach(
        &self,
        lock: &Lock,
        (slot, number): (BatchSlot, u32),
        checked: &mut Option<u8>,
    ) -> Result<Option<Reach>, (Status, Why)> {
        let (shared, mut why) = (lock.shared, Why::new());
        let (queued, affine, turned) = {
            let state = &mut *lock.lock();
            let queue = state.queue_of(self.lane);
            let queued = *queued_box(shared, queue, number);
            let boxes = shared.settings.per_sample.boxes;
            let fed = queued.is_fed.then(|| queue.fed(number / boxes, number % boxes));
            let turned = fed.map_or(0, |fed| fed.turned);
            (queued, queued_affine(shared, queue, number), turned)
        };
        if *checked != Some(queued.field) {
            let field = shared.field(u32::from(queued.field));
            let cast = self.cast_to(field);
            check_record(shared, &self.record, (field, cast), &mut why)
                .map_err(|status| (status, why))?;
            *checked = Some(queued.field);
        }
        if let Some(affine) = affine {
            let map = (&affine, &self.choice, turned);
            let mapped = map_box(shared, &self.record, (&queued, map), &mut why);
            let (reach, resampled) = mapped.map_err(|status| (status, why))?;
            let state = &mut *lock.lock();
            let has_begun = state.begin_resampling(shared, (slot, number), resampled);
            return Ok(has_begun.then_some(reach));
        }
        let reach = source_box(shared, &self.record, &queued, &mut why);
        if self.lane == Lane::Readers
            && number == 0
            && reach.is_ok()
            && let Some(cast) = self.cast_to(shared.field(u32::from(queued.field)))
        {
            self.lay_target(lock, slot, cast.target_bytes(), &mut why)
                .map_err(|status| (status, why))?;
        }
        reach.map(Some).map_err(|status| (status, why))
    }

    /// From the element type of the group's array to that of a field, or of a caller's memory.
    fn cast_to(&self, field: &Field) -> Option<Cast> {
        match self.lane {
            Lane::Samples => field.cast_from(&self.record),
            Lane::Readers => field.cast_to_target(&self.record),
        }
    }
}
