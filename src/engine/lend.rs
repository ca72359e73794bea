//! `lend`: memory of the caller's that one batch is written to in the place of a slot's.
//!
//! In: a target for each field, which the surface has the caller's word for. Out: a loan that waits
//! for its batch, or a refusal, after which nobody has the memory.

use crate::base::limits::FIELDS_MAX;
use crate::base::math::index;
use crate::base::status::{Failure, Status, Why};
use crate::cuda::{DeviceEngine, Event, Fault, Flaw};
use crate::engine::Engine;
use crate::engine::ways_out::reset_text;
use crate::fail;
use crate::jobs::failures::fail_device;
use crate::jobs::release::check_event;
use crate::setup::fields::{Field, Fields};
use crate::state::{Life, State};
use arrayvec::ArrayVec;
use core::ops::Range;

/// Memory for a field of a batch: its address, and how many bytes there are.
pub type LentMemory = (usize, u64);

/// The bytes of the fields of a loan.
type Spans = ArrayVec<Range<u64>, { FIELDS_MAX as usize }>;

impl Engine {
    /// Lends memory for one batch, `count` targets, of which `target` gives each; once `event` is
    /// over.
    pub fn lend(
        &self,
        count: usize,
        target: impl FnMut(usize, &mut Why) -> Result<LentMemory, Status>,
        event: Option<Event>,
        tag: u64,
    ) -> Result<(), Failure> {
        self.refuse_consumer()?;
        if self.shared.sharing.owned.is_some() {
            let text = "lend: consumers do not have memory of one process: open without share_name";
            return Err(Failure::of(Status::Invalid, format_args!("{text}")));
        }
        let mut why = Why::new();
        let spans = self.check_targets(count, target, &mut why);
        let spans = spans.map_err(|status| Failure::because(status, &why))?;
        self.check_device(&spans)?;
        let event = match event {
            None => Ok(None),
            Some(event) => check_event(self.shared, event, "nothing was lent")?,
        };
        let event = event.map_err(|fault| self.device_failed(&fault))?;
        let loan = self.take_loan(&spans, tag, event.is_some())?;
        let (Some(engine), Some(event)) = (self.shared.engine(), event) else { return Ok(()) };
        let fenced = engine.fence_loan(loan, event).map_err(|fault| self.device_failed(&fault));
        let state = &mut *self.lock.lock();
        state.end_job();
        if fenced.is_ok() {
            state.device.loans |= 1 << loan;
            state.wakes.work();
        }
        fenced
    }

    /// The bytes that a batch takes of each target, if these can be lent.
    fn check_targets(
        &self,
        count: usize,
        mut target: impl FnMut(usize, &mut Why) -> Result<LentMemory, Status>,
        why: &mut Why,
    ) -> Result<Spans, Status> {
        let fields = &self.shared.settings.fields;
        if count != fields.len() {
            let fields = fields.len();
            let text = "memory of a batch has a target for each field of it";
            return Err(fail!(why, Invalid, "n_targets = {count}, not {fields}: {text}"));
        }
        let samples = u64::from(self.shared.settings.config.samples_per_batch);
        let mut spans = Spans::new();
        for (number, field) in fields.iter().enumerate() {
            let (address, given) = target(number, why)?;
            let (of, address) = (target_of(fields, number), address as u64);
            let (bytes, align) = (samples * field.sample_bytes, alignment(field));
            let end = address.checked_add(given.max(bytes));
            match end {
                _ if address == 0 => return Err(fail!(why, Invalid, "{of}.data is NULL")),
                _ if given < bytes => {
                    let text = format_args!("{samples} samples take {bytes}");
                    return Err(fail!(why, Invalid, "{of}.bytes = {given}: {text}"));
                }
                None => {
                    let text = "more than there are after its address";
                    return Err(fail!(why, Invalid, "{of}.bytes = {given}: {text}"));
                }
                Some(_) if !address.is_multiple_of(align) => {
                    let text = format_args!("its elements are aligned to {align} bytes");
                    return Err(fail!(why, Invalid, "{of}.data = {address:#x}: {text}"));
                }
                Some(_) => {}
            }
            let span = address..address + bytes;
            if let Some(other) = spans.iter().position(|other| do_overlap(&span, other)) {
                let other = target_of(fields, other);
                return Err(fail!(why, Invalid, "{of} overlaps {other}"));
            }
            spans.push(span);
        }
        Ok(spans)
    }

    /// Whether kernels may write the memory.
    fn check_device(&self, spans: &Spans) -> Result<(), Failure> {
        let Some(engine) = self.shared.engine() else { return Ok(()) };
        for (number, span) in spans.iter().enumerate() {
            let flaw = engine.flaw_of_memory(span.start, span.end - span.start);
            let Some(flaw) = flaw.map_err(|fault| self.device_failed(&fault))? else { continue };
            let (mut why, of) = (Why::new(), target_of(&self.shared.settings.fields, number));
            let own = DeviceEngine::device(engine);
            let status = match flaw {
                Flaw::NoDevice => fail!(
                    why,
                    Invalid,
                    "{of}.data = {:#x} is not memory of a device, where batches are made: lend \
                     that of device {own}, or set backend = host",
                    span.start
                ),
                Flaw::OtherDevice(other) => fail!(
                    why,
                    Invalid,
                    "{of}.data = {:#x} is memory of device {other}: batches are made on {own}",
                    span.start
                ),
            };
            return Err(Failure::because(status, &why));
        }
        Ok(())
    }

    /// Takes the memory, unless a batch has, or waits for, a part of it; the number of the loan. Of
    /// one that is to be fenced `end_job` says when it is.
    fn take_loan(&self, spans: &Spans, tag: u64, is_fenced: bool) -> Result<u32, Failure> {
        let state = &mut *self.lock.lock();
        let mut why = Why::new();
        if state.life == Life::Closing {
            return Err(Failure::shutdown());
        }
        // A reset in progress would free this memory before it returns.
        if state.life == Life::Resetting || state.is_reset_due {
            return Err(Failure::because(Status::Again, &reset_text(state, self.shared)));
        }
        if let Some((number, other)) = self.overlap(state, spans) {
            let of = target_of(&self.shared.settings.fields, number);
            let text = "overlaps memory that is lent and not given back";
            let status = fail!(why, Invalid, "{of} {text}, with tag {other}");
            return Err(Failure::because(status, &why));
        }
        let addresses: ArrayVec<usize, { FIELDS_MAX as usize }> =
            spans.iter().map(|span| index(span.start)).collect();
        let Some(loan) = state.slots.lend(&addresses, tag, is_fenced) else {
            let most = self.shared.settings.config.n_batch_slots;
            let name =
                if self.shared.settings.is_all_lent() { "lent_slots" } else { "n_batch_slots" };
            let text = "release a batch, or raise it";
            let status = fail!(why, Again, "{name} = {most} memories are lent: {text}");
            return Err(Failure::because(status, &why));
        };
        match is_fenced {
            // A job, until the fence is there: a reset, which frees the loan, waits for it.
            true => state.begin_job(),
            false => state.place_came(self.shared),
        }
        Ok(loan)
    }

    /// A target that overlaps memory that is lent, and the tag of that.
    fn overlap(&self, state: &State, spans: &Spans) -> Option<(usize, u64)> {
        let samples = u64::from(self.shared.settings.config.samples_per_batch);
        for (loan, tag) in state.slots.live_loans() {
            for (field, other) in (0..).zip(&self.shared.settings.fields) {
                let start = state.slots.rows.loan_address(loan, field) as u64;
                let lent = start..start + samples * other.sample_bytes;
                if let Some(number) = spans.iter().position(|span| do_overlap(span, &lent)) {
                    return Some((number, tag));
                }
            }
        }
        None
    }

    /// The failure of a call of the driver's, which ends the stream.
    fn device_failed(&self, fault: &Fault) -> Failure {
        fail_device(&self.lock, fault);
        let mut why = Why::new();
        let status = fail!(why, Cuda, "lend: {fault}");
        Failure::because(status, &why)
    }
}

/// A target, with the name of its field if it has one.
fn target_of(fields: &Fields, number: usize) -> impl core::fmt::Display + '_ {
    core::fmt::from_fn(move |f| write!(f, "{}targets[{number}]", fields[number].of()))
}

/// The alignment of the elements of a field in the loader's own slots.
fn alignment(field: &Field) -> u64 {
    1 << field.dtype_bytes.trailing_zeros()
}

fn do_overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
