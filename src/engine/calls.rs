//! The calls that the surfaces make on a loader: push, flush, pop, release, reset and what they ask
//! about, the figures apart (`figures`), and close (`close`).
//!
//! In: arguments that the surface has checked. Out: tokens, views, failures. Waiting calls give the
//! lock up; without threads of ours they work instead of sleeping (`host_threads`).

use crate::base::arena::Region;
use crate::base::cache::hash_bytes;
use crate::base::indexes::BatchSlot;
use crate::base::limits::GROUP_LEVELS_MAX;
use crate::base::stats::Stage;
use crate::base::status::{Failure, Status, Why};
use crate::base::text::Uri;
use crate::batch::slots::SlotState;
use crate::cuda::{DeviceEngine, Event, Stream};
use crate::engine::Engine;
use crate::engine::requests::{Fill, Request};
use crate::engine::ways_out::{reset_text, starved_text};
use crate::fail;
use crate::intake::queue::Full;
use crate::jobs::device::drain_device;
use crate::jobs::lease::drop_retired;
use crate::jobs::release::{accept_event, give_slot_back, no_such_batch, note_consumer};
use crate::jobs::tensors::check_field;
use crate::os::sink::Level;
use crate::records::write_level_name;
use crate::setup::config::POP_TIMEOUT;
use crate::source::cf;
use crate::state::claims::popped_samples;
use crate::state::lock::{Condition, Locked};
use crate::state::shared::Shared;
use crate::state::{Life, State};
use core::sync::atomic::Ordering::Relaxed;

/// The result of pop.
pub enum Popped {
    /// A batch: its token.
    Batch(u64),
    /// None is ready, and none was waited for.
    Again(Why),
    /// None became ready in time.
    Starved(Why),
    /// Flushed, and every batch popped.
    End,
    /// On a consumer: the owner began its stream anew.
    Reset,
}

/// A popped batch, for the surfaces.
pub struct BatchView {
    /// A field of its samples, one after the other.
    pub data: Region,
    /// Samples in it.
    pub sample_count: u32,
    /// Samples whose status is not OK.
    pub failed_samples: u32,
    /// The stream that a consumer's work may be queued on; None on the host.
    pub ready_stream: Option<Stream>,
    /// Its number.
    pub batch_id: u64,
    /// The tag of the memory that it lies in, if that is lent.
    pub lend_tag: Option<u64>,
    /// Tags of the samples.
    pub tags: &'static [u64],
    /// Status codes of the samples.
    pub statuses: &'static [i32],
    /// Extents that boxes cover of each sample of the field, one after the other.
    pub filled_shape: &'static [u64],
    /// Digests of the samples of the field, and the sum of their mixes with their positions; None
    /// if the config asks for none.
    pub digests: Option<(&'static [u64], u64)>,
}

impl BatchView {
    /// The samples, packed, of a batch in host memory.
    pub fn samples(&self) -> &[u8] {
        assert!(self.ready_stream.is_none(), "a batch in device memory: copy_to reads it");
        popped_samples(&self.data)
    }
}

impl Engine {
    /// Takes `count` samples in order until the lookahead is full; how many. If `fill` refuses one,
    /// its error is returned; it is then not taken, nor any after it.
    pub fn push<'a>(
        &self,
        count: usize,
        mut fill: impl Fill<'a>,
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        if self.is_consumer() {
            return (0, Err(self.not_the_owner()));
        }
        let deadline = self.shared.deadline(timeout_ns);
        let mut taken = 0;
        let mut request = Request::empty();
        let mut is_checked = false;
        loop {
            // Filled without the lock: it reads the caller's memory and may be long.
            let mut drafted = None;
            if taken < count && !is_checked {
                drafted = match self.check_sample(taken, &mut fill, &mut request) {
                    Ok(drafted) => drafted,
                    Err(failure) => return (taken, Err(self.closing_or(failure))),
                };
                is_checked = true;
            }
            let mut state = self.lock.lock();
            if let Some(failure) = self.refusal(&state) {
                return (taken, Err(failure));
            }
            if !is_checked {
                return (taken, Ok(()));
            }
            let added = Engine::add_sample(&mut state, &request, &drafted);
            // Others use the draft while this call waits, so it is filled again after that.
            let is_drafted = drafted.take().is_some();
            match added {
                Ok(()) => {
                    taken += 1;
                    is_checked = false;
                    self.pushed(&mut state);
                }
                // Samples leave the queue as whole batches, which wakes for Space. A batch that is
                // planned has left it, so no batch that is being filled would make room.
                Err(Full::Uris) if self.lacks_batch(&state) => {
                    return (taken, Err(self.uris_full(&state, &request)));
                }
                Err(_) if timeout_ns == 0 || (self.shared.os.now_ns)() >= deadline => {
                    state.waits.is_full = true;
                    return (taken, Ok(()));
                }
                Err(_) => {
                    state.waits.is_full = true;
                    is_checked = !is_drafted;
                    drop(self.wait_or_help(state, Condition::Space, deadline));
                }
            }
        }
    }

    /// If the loader is being closed, nothing is wrong with the samples.
    fn closing_or(&self, failure: Failure) -> Failure {
        let is_closing = self.lock.lock().life == Life::Closing;
        if is_closing { Failure::shutdown() } else { failure }
    }

    /// Whether the samples that wait are no batch yet.
    fn lacks_batch(&self, state: &State) -> bool {
        state.queue.next_batch(self.shared.settings.config.samples_per_batch).is_none()
    }

    fn uris_full(&self, state: &State, request: &Request<'_>) -> Failure {
        let mut why = Why::new();
        let status = fail!(
            why,
            Invalid,
            "the uris of one batch do not fit {} bytes ({} of {} samples): shorten them or lower \
             samples_per_batch",
            self.shared.settings.uri_pool_bytes,
            state.queue.len(),
            self.shared.settings.config.samples_per_batch
        );
        Failure { tag: request.tag, ..Failure::because(status, &why) }
    }

    fn pushed(&self, state: &mut State) {
        state.is_flushed = false;
        state.want_plan(true);
        state.consumers.note_push();
        state.waits.start((self.shared.os.now_ns)());
        self.shared.stats.samples_pushed.fetch_add(1, Relaxed);
        state.wakes.work();
    }

    /// Ends the current batch after the last sample.
    pub fn flush(&self) -> Result<(), Failure> {
        self.refuse_consumer()?;
        let state = &mut *self.lock.lock();
        if let Some(failure) = self.refusal(state) {
            return Err(failure);
        }
        state.queue.flush();
        state.is_flushed = true;
        state.want_plan(true);
        state.wakes.work();
        state.wakes.all(Condition::Batch);
        Ok(())
    }

    pub(super) fn refusal(&self, state: &State) -> Option<Failure> {
        if state.life == Life::Closing {
            return Some(Failure::shutdown());
        }
        if state.is_reset_due {
            return Some(Failure::because(Status::Again, &reset_text(state, self.shared)));
        }
        state.sticky.clone()
    }

    /// The next batch in push order. `POP_TIMEOUT` stands for what the config says.
    pub fn pop(&self, timeout_ns: u64) -> Result<Popped, Failure> {
        let timeout_ns = match timeout_ns {
            POP_TIMEOUT => self.shared.settings.config.pop_timeout_ns,
            timeout_ns => timeout_ns,
        };
        let start = (self.shared.os.now_ns)();
        let mut has_waited = false;
        let popped = self.pop_by(start.saturating_add(timeout_ns), timeout_ns, &mut has_waited);
        if has_waited {
            let here = self.shared.profiler.here();
            self.shared.observe(Stage::PopWait, start, (0, 0), here);
        }
        popped
    }

    fn pop_by(
        &self,
        deadline: u64,
        timeout_ns: u64,
        has_waited: &mut bool,
    ) -> Result<Popped, Failure> {
        if let Some(attached) = &self.shared.sharing.attached {
            return self.pop_attached(attached, deadline, timeout_ns, has_waited);
        }
        if self.shared.sharing.owned.is_some() {
            return self.pop_owner(deadline, timeout_ns);
        }
        let mut state = self.lock.lock();
        loop {
            let now_ns = (self.shared.os.now_ns)();
            match self.refusal(&state) {
                Some(Failure { status: Status::Again, .. }) => {
                    return Ok(Popped::Again(reset_text(&state, self.shared)));
                }
                Some(failure) => return Err(failure),
                None => {}
            }
            if let Some(slot) = state.slots.next_slot() {
                match state.slots.state(slot) {
                    SlotState::Ready => {
                        let token = state.slots.pop(slot, now_ns);
                        state.waits.note_pop(now_ns);
                        note_consumer(self.shared, &mut state, slot);
                        self.shared.stats.batches_emitted.fetch_add(1, Relaxed);
                        return Ok(Popped::Batch(token));
                    }
                    SlotState::Failed => return Err(self.fail_stream(state, slot)),
                    _ => {}
                }
            } else if state.is_flushed && state.queue.is_empty() && !state.slots.has_unpopped() {
                state.waits.end(now_ns);
                return Ok(Popped::End);
            }
            state.begin_wait(self.shared.settings.config.samples_per_batch, now_ns);
            if timeout_ns == 0 {
                return Ok(Popped::Again(starved_text(&state, self.shared)));
            }
            if now_ns >= deadline {
                let why = starved_text(&state, self.shared);
                if state.slots.lacks_place() {
                    state.set_call_error(Some(Failure::because(Status::Starved, &why)));
                }
                return Ok(Popped::Starved(why));
            }
            *has_waited = true;
            state = self.wait_or_help(state, Condition::Batch, deadline);
        }
    }

    /// The batch in turn has failed, and with it the stream.
    fn fail_stream(&self, mut state: Locked<'_>, slot: BatchSlot) -> Failure {
        let failure = state.slots.failure(slot).clone();
        state.slots.drop_failed(slot);
        state.sticky = Some(failure.clone());
        state.wakes.all(Condition::Batch);
        state.wakes.all(Condition::Space);
        drop(state);
        self.shared.sink.log(Level::Error, failure.tag, format_args!("{failure}"));
        failure
    }

    /// The number of the device; None on the host.
    pub fn device(&self) -> Option<i32> {
        self.shared.engine().map(DeviceEngine::device)
    }

    /// Copies a held batch to host memory, from wherever it lies.
    pub fn read_batch(&self, view: &BatchView, target: &mut [u8]) -> Result<(), Failure> {
        let (mut why, target_bytes) = (Why::new(), target.len() as u64);
        if target_bytes != view.data.bytes() {
            let status = fail!(
                why,
                Invalid,
                "a target of {target_bytes} bytes for a batch of {}",
                view.data.bytes()
            );
            return Err(Failure::because(status, &why));
        }
        let count = || self.shared.stats.bytes_copied_out.fetch_add(target_bytes, Relaxed);
        let Some(engine) = self.shared.engine() else {
            target.copy_from_slice(view.samples());
            count();
            return Ok(());
        };
        let ready = view.ready_stream.unwrap_or(Stream::NULL);
        let status = match engine.read(ready, &view.data, target) {
            Ok(true) => {
                count();
                return Ok(());
            }
            Ok(false) => fail!(
                why,
                Again,
                "copy_to: the batch's ready_stream is being captured, so nothing that is queued on \
                 it runs: copy when the capture is over"
            ),
            Err(fault) => fail!(why, Cuda, "copy_to: {fault}"),
        };
        Err(Failure::because(status, &why))
    }

    /// The view of a held batch, with a field of it.
    pub fn view(&self, token: u64, field: u32) -> Result<BatchView, Failure> {
        let state = &*self.lock.lock();
        let Some(slot) = state.slots.held(token) else { return Err(no_such_batch(token)) };
        check_field(self.shared, field)?;
        let (rows, sample_count) = (&state.slots.rows, state.slots.sample_count(slot));
        Ok(BatchView {
            data: self.shared.field_region(slot, field, sample_count),
            sample_count,
            failed_samples: state.slots.failed_samples(slot),
            ready_stream: self.shared.engine().map(|engine| engine.ready_stream(slot.0)),
            batch_id: state.slots.batch_id(slot),
            lend_tag: state.slots.loan_tag(slot),
            tags: rows.tags(slot).rows(0, sample_count as usize),
            statuses: rows.statuses(slot).rows(0, sample_count as usize),
            filled_shape: self.shared.filled_shape(slot, field, sample_count),
            digests: self.shared.takes_digests().then(|| {
                let (digests, sum) = rows.digests(slot, field as usize);
                (digests.rows(0, sample_count as usize), sum.read(0))
            }),
        })
    }

    /// Gives a batch back. On a device its slot is used again after `event`, and after what is
    /// queued so far on the streams that are known of. If the event is refused, the batch stays
    /// held.
    pub fn release(&self, token: u64, event: Option<Event>) -> Result<(), Failure> {
        let result = self.try_release(token, event);
        if let Err(failure) = &result {
            // A failure of the device was told as it was found.
            if failure.status != Status::Cuda {
                self.shared.sink.log(Level::Warn, 0, format_args!("release: {}", failure.text));
            }
        }
        result
    }

    fn try_release(&self, token: u64, event: Option<Event>) -> Result<(), Failure> {
        let event = accept_event(&self.lock, token, event)?;
        let slot = {
            let state = &mut *self.lock.lock();
            let Some(slot) = state.slots.held(token) else { return Err(no_such_batch(token)) };
            state.slots.release(slot);
            slot
        };
        give_slot_back(&self.lock, slot, event)
    }

    /// Drops everything that is not popped and clears the sticky error. AGAIN: what runs did not
    /// end in time; nothing was dropped, and nothing is pushed or popped before a reset is over.
    pub fn reset(&self) -> Result<(), Failure> {
        self.refuse_consumer()?;
        self.begin_reset()?;
        drain_device(&self.lock);
        // No job runs and none is handed out, so the planners are free.
        for planner in &self.planners {
            if let Some(planner) = planner.lock().as_mut() {
                planner.clear();
            }
        }
        let state = &mut *self.lock.lock();
        state.reset();
        // No batch is being filled any more.
        drop_retired(self.shared, state);
        if state.life == Life::Resetting {
            state.life = Life::Running;
        }
        (state.has_resetter, state.is_reset_due) = (false, false);
        wake_callers(state);
        Ok(())
    }

    /// Waits until no job runs and none is handed out.
    fn begin_reset(&self) -> Result<(), Failure> {
        let deadline = self.shared.deadline(self.shared.settings.config.reset_timeout_ns);
        let mut state = self.lock.lock();
        // One reset at a time; each then has the jobs and the planner to itself.
        while state.has_resetter && state.life == Life::Resetting {
            if (self.shared.os.now_ns)() >= deadline {
                return Err(Failure::because(Status::Again, &reset_text(&state, self.shared)));
            }
            state.wait_until(Condition::Idle, deadline);
        }
        if state.life == Life::Running {
            state.life = Life::Resetting;
        }
        state.has_resetter = true;
        while state.running > 0 && state.life == Life::Resetting {
            if (self.shared.os.now_ns)() >= deadline {
                (state.has_resetter, state.is_reset_due) = (false, true);
                wake_callers(&mut state);
                return Err(Failure::because(Status::Again, &reset_text(&state, self.shared)));
            }
            state.wait_until(Condition::Idle, deadline);
        }
        if state.life == Life::Closing {
            state.has_resetter = false;
            return Err(Failure::shutdown());
        }
        Ok(())
    }

    /// Forgets what is known of the array at a uri, which is normal, or of all: whoever names it
    /// next finds it as it is then. Planned samples keep what they have.
    pub fn forget(&self, uri: Option<&mut Uri>) -> Result<(), Failure> {
        self.refuse_consumer()?;
        let state = &mut *self.lock.lock();
        if state.life == Life::Closing {
            return Err(Failure::shutdown());
        }
        let shared = &self.shared;
        let Some(uri) = uri else {
            state.arrays.forget_all();
            state.chunks.invalidate(|_| true);
            state.files.forget_array(None, |open| shared.store.close(open));
            return Ok(());
        };
        let mut why = Why::new();
        self.fix_uri(uri, &mut why).map_err(|status| Failure::because(status, &why))?;
        forget_everywhere(shared, state, uri);
        // Fields with cf = 1 know it by another name.
        let is_cf = shared.settings.fields.iter().any(|field| field.is_cf);
        if is_cf && cf::mark(uri, "", &mut why).is_ok() {
            forget_everywhere(shared, state, uri);
        }
        Ok(())
    }

    /// Keeps why a call failed, for `last_error`: most have no room for a text of their own.
    pub fn set_call_error(&self, failure: &Failure) {
        self.lock.lock().set_call_error(Some(failure.clone()));
    }

    /// Why a call failed last; if none did, the error that ended the stream, or the holders of all
    /// batch slots: whoever waits in pop cannot say so.
    pub fn last_error(&self) -> Option<Failure> {
        let state = self.lock.lock();
        let failure = state.call_error().or(state.sticky.as_ref()).cloned();
        // A loader that is closed may have given back what the text is made of.
        let is_open = state.life != Life::Closing;
        let is_waited_for = state.slots.kept() > 0 || !state.queue.is_empty();
        let is_held = is_open && is_waited_for && state.slots.lacks_place();
        let held = || Failure::because(Status::Starved, &starved_text(&state, self.shared));
        failure.or_else(|| is_held.then(held))
    }
}

/// Forgets the array of a name, which may stand for another one, and its chunks.
fn forget_name(shared: &Shared, state: &mut State, name: &[u8]) {
    let hash = hash_bytes(name);
    let found = [state.arrays.find(name, hash), state.arrays.find_target(name, hash)];
    for array in found.into_iter().flatten() {
        let id = state.arrays.id(array);
        state.arrays.forget(array);
        state.chunks.invalidate(|key| key.array_id == id);
        state.files.forget_array(Some(id), |open| shared.store.close(open));
    }
}

/// The same, also as the image that boxes with a map know it as.
fn forget_everywhere(shared: &Shared, state: &mut State, uri: &Uri) {
    forget_name(shared, state, uri.as_bytes());
    let has_maps = shared.settings.resample_bytes() > 0;
    for level in 0..if has_maps { GROUP_LEVELS_MAX as u32 } else { 0 } {
        let mut name = Uri::new();
        if write_level_name(uri.as_str(), level, &mut name) {
            forget_name(shared, state, name.as_bytes());
        }
    }
}

/// Those who wait in push, pop, read_into or reset are to look.
fn wake_callers(state: &mut State) {
    use Condition::{Batch, Box, Idle, Reader, Space};
    for condition in [Idle, Space, Batch, Reader, Box] {
        state.wakes.all(condition);
    }
}
