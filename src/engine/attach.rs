//! A consumer's side of batches that processes share: it finds the owner by its name, gets memory
//! and a page, and is a loader of its own that takes batches in the place of filling them.
//!
//! In: a name, a number, the owner's answer. Out: settings like the owner's, as far as batches show
//! them, and the next batch. Each value that the owner sends is checked, as those of files are.

use crate::base::indexes::BatchSlot;
use crate::base::limits::{CONSUMERS_MAX, FIELDS_MAX, MEMORY_PAGE_BYTES};
use crate::base::status::{Failure, Status, Why};
use crate::batch::received::Received;
use crate::batch::record::SlotRows;
use crate::batch::shared::{ENTRIES, Facts, Order, What};
use crate::batch::slots::SlotState;
use crate::cuda::registered::Registered;
use crate::engine::Engine;
use crate::engine::calls::Popped;
use crate::engine::hello::{ANSWER_BYTES, hello, status_in};
use crate::engine::segments::{Handed, map};
use crate::engine::ways_out::{starved_text, write_own, write_unattached};
use crate::fail;
use crate::os::memory::Paged;
use crate::os::socket::{self, Descriptors, Peer};
use crate::os::{Errno, Os};
use crate::setup::allotted::Allotted;
use crate::setup::config::{Config, FieldTable, THREADS_PUMP};
use crate::setup::settings::{Settings, settings_from_config};
use crate::setup::share::{Part, socket_name};
pub use crate::state::attached::Attached;
use crate::state::lock::Condition;
use crate::state::waits::Lack;
use crate::state::{Life, State};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How often a consumer looks for an owner that is not there yet.
const RETRY_MS: i32 = 5;
/// How long an owner may take to answer, at the least.
const ANSWER_NS: u64 = 2_000_000_000;

fn close_all(os: &Os, handed: &Handed) {
    (os.close)(handed.socket);
    handed.descriptors.iter().for_each(|fd| (os.close)(*fd));
}

/// Attaches as consumer `number`, once a process has the name; waits until the deadline.
#[inline(never)] // its values are not to stand on the stack of all that follows
pub fn attach(
    os: &Os,
    name: &str,
    number: u32,
    timeout_ns: u64,
    why: &mut Why,
) -> Result<(Paged<Attached>, Settings), Status> {
    let name = socket_name(name, why)?;
    let deadline = (os.now_ns)().saturating_add(timeout_ns);
    let handed = loop {
        if let Some(handed) = hand_over(os, name.as_str(), number, deadline, why)? {
            break handed;
        }
        // The owner ended before it answered: another may take the name.
        if (os.now_ns)() >= deadline {
            let text = "has the name, and hangs up without an answer: is it an owner?";
            return Err(fail!(why, NotFound, "a process {text} (\"{}\")", name.as_str()));
        }
        socket::wait(&mut [], RETRY_MS);
    };
    let attached = map(os, &handed, number, why);
    handed.descriptors.iter().for_each(|fd| (os.close)(*fd));
    let (mut attached, facts) = attached.inspect_err(|_| (os.close)(handed.socket))?;
    match settings_of(&facts, number, why) {
        Ok(mut settings) => {
            attached.name = name;
            let reason = &mut settings.backend_reason;
            reason.clear();
            write!(reason, "host: batches of {}", attached.owner);
            let is_read_only = attached.order == Order::All;
            attached.registered = Registered::take(attached.samples, is_read_only, reason);
            match Paged::new(os, attached, |attached| attached.give_up(os)) {
                Ok(attached) => Ok((attached, settings)),
                Err(errno) => Err(fail!(why, OutOfMemory, "attaching: {errno}")),
            }
        }
        Err(status) => {
            attached.give_up(os);
            Err(status)
        }
    }
}

/// Gives back all that an owner handed over.
pub fn end_attached(os: &Os, attached: &Paged<Attached>) {
    attached.give_up(os);
    attached.end(os);
}

/// Asks the owner; None: it ended before it answered.
fn hand_over(
    os: &Os,
    name: &str,
    number: u32,
    deadline: u64,
    why: &mut Why,
) -> Result<Option<Handed>, Status> {
    let (socket, owner) = find_owner(os, name, deadline, why)?;
    let handed = Handed { socket, owner, descriptors: Descriptors::new() };
    if owner.user != socket::user() {
        close_all(os, &handed);
        let user = owner.user;
        return Err(fail!(why, Invalid, "\"{name}\" is shared by another user: {user}"));
    }
    let mut bytes = [0; ANSWER_BYTES];
    let asked = socket::send(socket, &hello(number), &[])
        .and_then(|()| wait_for_answer(os, socket, &mut bytes, deadline));
    let (got, descriptors) = match asked {
        Ok(received) => received,
        Err(errno) => {
            close_all(os, &handed);
            return match errno {
                Errno(libc::ECONNRESET | libc::EPIPE) => Ok(None),
                Errno(libc::EAGAIN) if socket::has_ended(owner.process) => Err(fail!(
                    why,
                    NotFound,
                    "the owner of \"{name}\" ({owner}) has ended, and a child that it forked keeps \
                     the name: end that child, and start the owner again"
                )),
                Errno(libc::EAGAIN) => Err(fail!(
                    why,
                    NotFound,
                    "the owner of \"{name}\" ({owner}) does not answer: is it stopped?"
                )),
                _ => Err(fail!(why, Io, "attaching to \"{name}\": {errno}")),
            };
        }
    };
    let handed = Handed { descriptors, ..handed };
    if got == 0 {
        close_all(os, &handed);
        return Ok(None);
    }
    let Some((status, text)) = status_in(&bytes[..got]) else {
        close_all(os, &handed);
        let text = "is another version of wavetrain";
        return Err(fail!(why, Unsupported, "the owner of \"{name}\" ({owner}) {text}"));
    };
    if status == Status::Ok {
        return Ok(Some(handed));
    }
    close_all(os, &handed);
    Err(why.fail(status, format_args!("attaching to \"{name}\": {text}")))
}

/// The owner's answer, which takes its thread a moment.
fn wait_for_answer(
    os: &Os,
    socket: i32,
    bytes: &mut [u8],
    deadline: u64,
) -> Result<(usize, Descriptors), Errno> {
    let deadline = deadline.max((os.now_ns)().saturating_add(ANSWER_NS));
    loop {
        match socket::receive(socket, bytes) {
            Err(Errno(libc::EAGAIN)) if (os.now_ns)() < deadline => {
                socket::wait(&mut [socket::watched(socket)], RETRY_MS);
            }
            result => return result,
        }
    }
}

fn find_owner(os: &Os, name: &str, deadline: u64, why: &mut Why) -> Result<(i32, Peer), Status> {
    loop {
        let errno = match socket::connect(name) {
            Ok(socket) => match socket::peer(socket) {
                Ok(peer) => return Ok((socket, peer)),
                Err(errno) => {
                    (os.close)(socket);
                    errno
                }
            },
            Err(errno) => errno,
        };
        let is_absent =
            matches!(errno, Errno(libc::ECONNREFUSED | libc::ENOENT | libc::EAGAIN | libc::EINTR));
        if !is_absent {
            let is_closed = errno == Errno(libc::EACCES);
            let fix = if is_closed { ": run the owner and this process as one user" } else { "" };
            return Err(fail!(why, Io, "attaching to \"{name}\": {errno}{fix}"));
        }
        if let Some(kind) = socket::other_at(name) {
            let text = "not the socket of an owner: give the share_name that the owner has";
            return Err(fail!(why, Invalid, "\"{name}\" is {kind}, {text}"));
        }
        if (os.now_ns)() >= deadline {
            if errno == Errno(libc::EAGAIN) {
                let text = "has too many connections that it did not answer: is it stopped?";
                return Err(fail!(why, NotFound, "the owner of \"{name}\" {text}"));
            }
            let text = "start the owner, with this share_name and as this user, or wait longer";
            return Err(fail!(why, NotFound, "no process shares \"{name}\": {text}"));
        }
        socket::wait(&mut [], RETRY_MS);
    }
}

/// The settings of a consumer: batches as the owner's, and the least of everything else.
fn settings_of(facts: &Facts, number: u32, why: &mut Why) -> Result<Settings, Status> {
    let [first, ..] = &facts.fields;
    let named = facts.fields.get(..facts.n_fields as usize).unwrap_or(&[]);
    let mut config = Config {
        samples_per_batch: facts.samples,
        digest: facts.digest,
        n_batch_slots: facts.slots,
        pop_timeout_ns: facts.pop_timeout_ns,
        thread_mode: THREADS_PUMP,
        n_io_threads: 1,
        n_decode_threads: 1,
        max_chunk_uncompressed_bytes: 1,
        max_read_op_bytes: 1,
        host_buffer_waves: 2,
        max_chunks_per_wave: 1,
        metadata_io_concurrency: 1,
        n_array_meta_cache: 1,
        n_shard_index_cache: 1,
        n_chunk_layout_cache: 1,
        n_readers: 0,
        ..Config::default()
    };
    match facts.n_fields {
        0 => {
            config.sample_rank = first.sample_rank;
            config.sample_shape = first.sample_shape;
            (config.dtype, config.dtype_bytes) = (first.dtype, first.dtype_bytes);
        }
        _ => config.fields = FieldTable::over(named),
    }
    let mut settings = settings_from_config(&config, &Allotted::of(1), why)?;
    settings.share.part = Part::Consumer;
    settings.share.consumers = number;
    (settings.lookahead_samples, settings.uri_pool_bytes) = (1, MEMORY_PAGE_BYTES);
    let words = SlotRows::words(settings.slot_counts(), &settings.per_sample);
    let is_alike = settings.slot_bytes == facts.slot_bytes
        && 8 * words <= facts.rows_bytes
        && facts.places <= u64::from(facts.slots)
        && facts.n_fields <= FIELDS_MAX;
    if !is_alike {
        let text = "batches of the owner: it is another version of wavetrain";
        return Err(fail!(why, Unsupported, "{text}"));
    }
    Ok(settings)
}

impl Engine {
    /// Refuses a consumer a call that is the owner's.
    pub fn refuse_consumer(&self) -> Result<(), Failure> {
        if self.is_consumer() { Err(self.not_the_owner()) } else { Ok(()) }
    }

    /// Whether another process fills the batches.
    pub fn is_consumer(&self) -> bool {
        self.shared.sharing.attached.is_some()
    }

    /// Why a consumer may not make a call that is the owner's.
    #[cold]
    #[inline(never)] // its text is not to stand on the stack of a push
    pub fn not_the_owner(&self) -> Failure {
        let owner = self.shared.sharing.attached.as_ref().map_or(Peer::NONE, |one| one.owner);
        let calls = "push, flush, reset, pump, lend, read_into and forget";
        let text = format_args!("{calls} are the owner's, {owner}: call them there");
        Failure::of(Status::Invalid, text)
    }

    /// The next entry of a consumer's list. An end that another thread takes while this one waits
    /// is returned here, too: both waited for the same samples.
    pub(super) fn pop_attached(
        &self,
        attached: &Attached,
        deadline: u64,
        timeout_ns: u64,
        has_waited: &mut bool,
    ) -> Result<Popped, Failure> {
        let ends = attached.ends.load(SeqCst);
        loop {
            if let Some(popped) = self.take_entry(&mut self.lock.lock(), attached, ends) {
                return popped;
            }
            let is_late = timeout_ns == 0 || (self.shared.os.now_ns)() >= deadline;
            if attached.is_owner_gone() {
                // Entries that it published before its end are still to be taken.
                if attached.page.next() < attached.records.tail(attached.number) {
                    continue;
                }
                return Err(self.owner_is_gone(attached));
            }
            if is_late {
                let why = self.no_batch(attached);
                return Ok(if timeout_ns == 0 { Popped::Again(why) } else { Popped::Starved(why) });
            }
            *has_waited = true;
            {
                let state = &mut *self.lock.lock();
                state.waiters += 1;
                state.waits.begin((self.shared.os.now_ns)(), Lack::Work);
            }
            attached.wait(self.shared.os, ends, deadline);
            let mut state = self.lock.lock();
            state.waiters -= 1;
            if state.life == Life::Closing && state.waiters == 0 {
                state.wakes.all(Condition::Idle);
            }
        }
    }

    /// The next entry, or the failure that is returned until a reset; None: there is nothing yet.
    fn take_entry(
        &self,
        state: &mut State,
        attached: &Attached,
        ends: u64,
    ) -> Option<Result<Popped, Failure>> {
        if state.life == Life::Closing {
            return Some(Err(Failure::shutdown()));
        }
        let now_ns = (self.shared.os.now_ns)();
        state.waits.start(now_ns);
        state.waits.end(now_ns);
        if attached.has_ended(ends) {
            return Some(Ok(Popped::End));
        }
        match attached.take() {
            Some(What::Batch(batch)) => return Some(self.receive(state, &batch)),
            Some(What::End) => return Some(Ok(Popped::End)),
            Some(What::Reset) => {
                state.sticky = None;
                return Some(Ok(Popped::Reset));
            }
            Some(What::Error) => {
                let failure = attached.records.failure();
                state.sticky = Some(failure.unwrap_or_else(|| {
                    Failure::of(Status::Again, format_args!("the owner began anew"))
                }));
            }
            None => {}
        }
        state.sticky.clone().map(Err)
    }

    fn receive(&self, state: &mut State, batch: &Received) -> Result<Popped, Failure> {
        let config = &self.shared.settings.config;
        let is_sound = batch.slot < state.slots.counts.batches()
            && batch.place < config.n_batch_slots
            && batch.samples <= config.samples_per_batch
            && state.slots.state(BatchSlot(batch.slot)) == SlotState::Free;
        if !is_sound {
            let text = format_args!("the owner's list is damaged: {batch:?}");
            let failure = Failure::of(Status::Internal, text);
            state.sticky = Some(failure.clone());
            return Err(failure);
        }
        let now_ns = (self.shared.os.now_ns)();
        let token = state.slots.receive(batch, now_ns);
        state.waits.note_pop(now_ns);
        self.shared.stats.batches_emitted.fetch_add(1, Relaxed);
        Ok(Popped::Batch(token))
    }

    fn owner_is_gone(&self, attached: &Attached) -> Failure {
        let (name, owner) = (attached.name.as_str(), attached.owner);
        let end = if attached.records.is_closed() { "has closed" } else { "has ended" };
        let text = "close this one, and attach again once it shares anew";
        Failure::of(
            Status::Shutdown,
            format_args!("the owner of \"{name}\" ({owner}) {end}: {text}"),
        )
    }

    fn no_batch(&self, attached: &Attached) -> Why {
        let mut why = Why::new();
        let (number, owner) = (attached.number, attached.owner);
        fail!(why, Starved, "the owner ({owner}) has no batch for consumer {number}");
        write_own(&mut why, &self.lock.lock(), self.shared);
        if let Some((other, slots, ahead)) = attached.records.holder().filter(|one| one.0 != number)
        {
            let text = "the owner has no free slot";
            write!(why, "; {text}: consumer {other} has {slots}, {ahead} of them not popped");
        }
        let all = u64::MAX >> (u64::BITS - attached.count);
        write_unattached(&mut why, all & !attached.records.attached());
        why
    }

    /// The pop of an owner that takes no batches itself: the end of the stream, once consumers have
    /// taken all of it.
    pub(super) fn pop_owner(&self, deadline: u64, timeout_ns: u64) -> Result<Popped, Failure> {
        let mut state = self.lock.lock();
        loop {
            if let Some(failure) = self.refusal(&state) {
                return match failure.status {
                    Status::Again => Ok(Popped::Again(failure.text)),
                    _ => Err(failure),
                };
            }
            if state.consumers.has_ended() && state.consumers.have_taken_all() {
                return Ok(Popped::End);
            }
            let is_late = timeout_ns == 0 || (self.shared.os.now_ns)() >= deadline;
            if is_late {
                let why = starved_text(&state, self.shared);
                return Ok(if timeout_ns == 0 { Popped::Again(why) } else { Popped::Starved(why) });
            }
            state = self.wait_or_help(state, Condition::Batch, deadline);
        }
    }
}

const _: () = assert!(ENTRIES as usize >= 2 * CONSUMERS_MAX);
