//! `read_into`: a box that goes into memory of the caller, who waits for it.
//!
//! In: a box and the memory, which the surface has copied and checked for its form. Out: the box in
//! that memory, or a failure; and in either case nobody who writes there any more.
//!
//! The box takes a reader, which is a slot of its own, and goes through the lane of readers as a
//! batch of one sample. The caller works on that lane while it waits: a box whose bytes are cached
//! costs no other thread. It sees no error of the stream, and the stream none of it.

use crate::base::indexes::{BatchSlot, Lane};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why};
use crate::batch::slots::SlotState;
use crate::engine::Engine;
use crate::engine::lists::each_run_of;
use crate::engine::requests::{Lists, Request};
use crate::engine::ways_out::{read_text, reset_text};
use crate::fail;
use crate::intake::queue::NewBox;
use crate::records::BoxShape;
use crate::records::CallerPlaces;
use crate::setup::config::POP_TIMEOUT;
use crate::state::job::Role;
use crate::state::lock::{Condition, Locked};
use crate::state::{Life, State};

/// Memory of a caller that a box goes to.
#[derive(Clone, Copy, Debug)]
pub struct CallerMemory<'a> {
    /// The address of the first place of the box.
    pub address: usize,
    /// Bytes that may be written: from the lowest place to behind the highest.
    pub bytes: u64,
    /// Bytes from one place to the next along each axis of the box; None: row-major.
    pub strides: Option<&'a [i64; RANK_MAX]>,
}

/// A reader, and its generation, that are a caller's.
type Reader = (BatchSlot, u32);

impl Engine {
    /// Reads a box into memory of the caller, which the surface has the caller's word for: it may
    /// be written until this returns, and nobody else uses it meanwhile. `POP_TIMEOUT` stands for
    /// what the config says.
    pub fn read_into(
        &self,
        request: &mut Request<'_>,
        memory: &CallerMemory<'_>,
        timeout_ns: u64,
    ) -> Result<(), Failure> {
        self.refuse_consumer()?;
        let timeout_ns = match timeout_ns {
            POP_TIMEOUT => self.shared.settings.config.pop_timeout_ns,
            timeout_ns => timeout_ns,
        };
        let deadline = self.shared.deadline(timeout_ns);
        let mut why = Why::new();
        let checked = self.check_read(request, memory, &mut why);
        let (address, target) = checked.map_err(|status| Failure::because(status, &why))?;
        let late = if timeout_ns == 0 { Status::Again } else { Status::Starved };
        let (mut state, taken) = self.take_reader(deadline, late);
        let reader = taken?;
        self.begin_read(&mut state, reader, (address, &target), request);
        loop {
            let failure = match state.slots.reader_state(reader) {
                Some(SlotState::Ready) => {
                    end_reader(&mut state, reader);
                    return Ok(());
                }
                Some(SlotState::Failed) => {
                    let failure = state.slots.failure(reader.0).clone();
                    end_reader(&mut state, reader);
                    return Err(failure);
                }
                None => {
                    let mut why = Why::new();
                    let status = fail!(why, Again, "a reset ended the read of the box: read again");
                    return Err(Failure::because(status, &why));
                }
                Some(_) => self.read_refusal(&state, deadline, late),
            };
            if let Some(failure) = failure {
                self.leave_read(state, reader);
                return Err(failure);
            }
            state = self.help_read(state, deadline);
        }
    }

    /// Whether the box can go to the memory, as far as the box and the memory say: notes what it
    /// reads; the lowest place, and the places.
    fn check_read(
        &self,
        request: &mut Request<'_>,
        memory: &CallerMemory<'_>,
        why: &mut Why,
    ) -> Result<(usize, CallerPlaces), Status> {
        if self.shared.settings.config.n_readers == 0 {
            return Err(fail!(
                why,
                Invalid,
                "n_readers = 0 leaves no room for read_into: raise it"
            ));
        }
        let is_set = request.at.iter().any(|at| *at != 0) || request.axes.iter().any(|to| *to != 0);
        if request.fed.is_fed() || is_set {
            let text = "at, axes and tensor of the box must be 0: the target has the place";
            return Err(fail!(why, Invalid, "{text}"));
        }
        if !request.augment.words().is_empty() {
            let member = if request.augment.view().is_some() { "augment" } else { "affine" };
            let text = "boxes of batches alone have it: leave it out";
            return Err(fail!(why, Invalid, "{member}: {text}"));
        }
        if !request.lists.is_empty() {
            self.check_lists(request, why)?;
        }
        self.fix_name(request, why)?;
        let mut target = CallerPlaces { bytes: memory.bytes, ..CallerPlaces::EMPTY };
        let (mut shape, mut address) = (BoxShape::EMPTY, memory.address);
        for (axis, walk) in request.walks(why)?.into_iter().enumerate() {
            target.places[axis] = walk.places();
            let Some(strides) = memory.strides else {
                shape.axes[axis] = walk.to_axis(Some(axis));
                continue;
            };
            let (stride, last) = (strides[axis], walk.places() - 1);
            let distance = stride.unsigned_abs();
            target.strides[axis] = distance;
            let is_turned = stride < 0 && last > 0;
            let lowest = distance.checked_mul(if is_turned { last } else { 0 });
            let lowest = lowest.and_then(|bytes| address.checked_sub(usize::try_from(bytes).ok()?));
            address = lowest.filter(|address| *address > 0).ok_or_else(|| {
                fail!(why, Invalid, "strides[{axis}] = {stride}: places lie before address 0")
            })?;
            let walk = if is_turned { walk.reversed() } else { walk };
            target.is_turned[axis] = is_turned;
            shape.axes[axis] = walk.to_axis(Some(axis));
        }
        target.is_row_major = memory.strides.is_none();
        request.shape = shape;
        Ok((address, target))
    }

    /// A reader, once those who came before have theirs.
    fn take_reader(&self, deadline: u64, late: Status) -> (Locked<'_>, Result<Reader, Failure>) {
        let mut state = self.lock.lock();
        let mut caller = None;
        loop {
            if let Some(failure) = self.read_refusal(&state, u64::MAX, late) {
                end_wait(&mut state, caller);
                return (state, Err(failure));
            }
            let free = state.slots.free_readers();
            if state.readers.is_next(caller, free) {
                end_wait(&mut state, caller);
                let Some(reader) = state.slots.take_reader() else { unreachable!("one is free") };
                return (state, Ok(reader));
            }
            if let Some(failure) = self.read_refusal(&state, deadline, late) {
                end_wait(&mut state, caller);
                return (state, Err(failure));
            }
            caller = caller.or_else(|| state.readers.wait());
            state = self.wait_or_help(state, Condition::Reader, deadline);
        }
    }

    /// Queues the box of a reader.
    fn begin_read(
        &self,
        state: &mut State,
        (slot, _): Reader,
        (address, target): (usize, &CallerPlaces),
        request: &Request<'_>,
    ) {
        let Some(number) = self.shared.reader(slot) else { unreachable!("it is a reader's slot") };
        state.readers.targets.write(number as usize, *target);
        state.readers.set_address(number, address);
        let queue = &mut state.readers.queue;
        let mut add = |new: &NewBox<'_>| {
            assert!(queue.add_box(new).is_ok(), "the queue has room for a box of each reader");
        };
        match request.lists.is_empty() {
            true => add(&request.to_queue()),
            false => each_run_of(request, |mut shape, first, runs| {
                shape.at = place_run(&request.lists, &mut shape, first, target);
                add(&NewBox { shape: &shape, runs, ..request.to_queue() });
            }),
        }
        state.readers.queue.push(u64::from(number));
        state.plan_wanted[Lane::Readers as usize] = true;
    }

    /// Why a box is not waited for any longer.
    fn read_refusal(&self, state: &State, deadline: u64, late: Status) -> Option<Failure> {
        if state.life == Life::Closing {
            return Some(Failure::shutdown());
        }
        if state.is_reset_due {
            return Some(Failure::because(Status::Again, &reset_text(state, self.shared)));
        }
        let is_late = deadline < u64::MAX && (self.shared.os.now_ns)() >= deadline;
        is_late.then(|| Failure::because(late, &read_text(state, self.shared, late)))
    }

    /// Does a job of the lane of readers on a free context; waits if there is none.
    fn help_read<'a>(&'a self, mut state: Locked<'a>, deadline: u64) -> Locked<'a> {
        if !self.shared.settings.is_threadless()
            && let Some(context) = state.contexts.take(None)
        {
            if let Some(job) = self.take_job(&mut state, Role::Reader, context) {
                state.weigh_readers(self.shared);
                state.readers.helping += 1;
                drop(state);
                state = self.run_job(context, job, true);
                state.readers.helping -= 1;
                return state;
            }
            state.contexts.give_back(context);
        }
        // Before it counts as idle: it found nothing, so it does not call itself.
        state.signal();
        state.readers.idle += 1;
        state = self.wait_or_help(state, Condition::Box, deadline);
        state.readers.idle -= 1;
        if core::mem::take(&mut state.readers.is_waking) {
            // It was called for a job, and may go with its box instead.
            state.wakes.work();
        }
        state
    }

    /// The caller goes: nothing is written to its memory any more.
    fn leave_read(&self, mut state: Locked<'_>, (slot, _): Reader) {
        let Some(number) = self.shared.reader(slot) else { unreachable!("it is a reader's slot") };
        state.readers.set_address(number, 0);
        state.slots.drop_reader(slot);
        // What is left of the box, which is for nobody, is for our threads.
        state.want_plan(true);
        state.wakes.work();
        let job = state.readers.next_job();
        state.readers.leaving += 1;
        state.waiters += 1;
        while state.readers.has_job_before(job) {
            state.wait(Condition::Reader);
        }
        state.waiters -= 1;
        state.readers.leaving -= 1;
        if state.life == Life::Closing && state.waiters == 0 {
            state.wakes.all(Condition::Idle);
        }
    }
}

/// Turns a run of index lists along those of their axes that are turned in the memory of the
/// caller; the number of its lowest place there, row-major.
fn place_run(
    lists: &Lists<'_>,
    run: &mut BoxShape,
    first: &[u64; RANK_MAX],
    target: &CallerPlaces,
) -> u64 {
    let mut lowest = *first;
    for (axis, _) in lists.iter().filter(|(axis, _)| target.is_turned[*axis]) {
        let walk = &mut run.axes[*axis];
        lowest[*axis] = target.places[*axis] - first[*axis] - walk.places();
        *walk = walk.reversed();
    }
    // The planner refuses a box that has more places than there are numbers.
    let add =
        |at: u64, (place, places): (&u64, &u64)| at.wrapping_mul(*places).wrapping_add(*place);
    lowest.iter().zip(&target.places).fold(0, add)
}

fn end_reader(state: &mut State, (slot, _): Reader) {
    state.slots.end_reader(slot);
    state.free_reader();
}

fn end_wait(state: &mut State, caller: Option<u64>) {
    if let Some(caller) = caller {
        state.readers.end_wait(caller);
        state.free_reader();
    }
}
