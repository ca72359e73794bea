//! The ring thread: reads chunk data through io_uring, many reads at a time, into the slab.
//!
//! In: reads of active waves that have to be waited for and whose files are open. Out: their bytes
//! in the slab, and the reads among the ready ones of their wave.
//!
//! ```text
//!  free ──(take)──▶ fresh ──(begin)──▶ in the ring ──(complete)──▶ ended ──(hand_in)──▶ free
//!         locked                                                          locked
//! ```
//!
//! The thread waits for nothing but the ring: it never opens a file, and what a failure means is
//! not decided here. A read whose file is closed, and one that the ring did not bring, is handed to
//! an io thread (`Wave::for_io`), which opens the file or reads it all again and reports what it
//! finds. So the same chunks fail, with the same text, whoever reads.
//!
//! A direct read (`Settings::reads_direct`) brings the whole pages around the bytes, for which
//! `form` left room. It is made only if the first byte is not in the page cache, so that a copy in
//! memory is never fetched from storage again. The rest of a short one goes through the cache.
//!
//! Invariant: a place is in exactly one of free, fresh, ring and ended; `in_flight` counts those
//! that are not free, and each of them holds a lease and counts as a job that runs.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::Fifo;
use crate::base::math::index;
use crate::jobs::read::{count, settle, wait};
use crate::os::sink::Level;
use crate::os::sync::Mutex;
use crate::os::uring::{Completion, Event, Ring};
use crate::os::{Errno, uninterrupted};
use crate::read::shown;
use crate::setup::config::{READER_DIRECT, READER_THREADS, READER_URING};
use crate::setup::settings::Settings;
use crate::state::flights::{Flight, Sleep};
use crate::state::job::{Job, Role};
use crate::state::lock::{Condition, Lock, Locked};
use crate::state::reading::Reading;
use crate::state::shared::Shared;
use crate::state::{Life, State};
use core::sync::atomic::Ordering::Relaxed;

/// Requests of one read that may end without a byte and without a reason before an io thread has
/// to read it.
const RETRIES_MAX: u32 = 8;
/// Waits in a row that the ring may refuse before it is given up.
const WAIT_FAILURES_MAX: u32 = 100;
/// Time between such waits: the kernel may have the resource again.
const WAIT_PAUSE_NS: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Not all bytes have been read yet.
    Pending,
    /// They are, and the file is as it was.
    Done,
    /// For an io thread.
    Left,
}

/// A read in a place.
struct RingRead {
    flight: Flight,
    /// Bytes that have been read.
    done: u64,
    retries: u32,
    /// Its first byte was in the page cache.
    is_cached: bool,
    /// Its first request is a direct one.
    is_direct: bool,
    /// A request for it is the direct one.
    is_direct_now: bool,
    outcome: Outcome,
}

/// The state of the ring thread.
pub struct RingReader {
    /// Some from open until the thread ends or gives it up.
    ring: Option<Ring>,
    places: &'static mut [Option<RingRead>],
    free: Fifo,
    fresh: Fifo,
    ended: Fifo,
}

impl RingReader {
    /// Places for `Settings::ring_depth` reads.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> RingReader {
        let depth = settings.ring_depth;
        RingReader {
            ring: None,
            places: carver.slice_from(Item::RingReads, u64::from(depth), |_| None),
            free: Fifo::carve_full(carver, Item::RingReads, depth),
            fresh: Fifo::carve(carver, Item::RingReads, depth),
            ended: Fifo::carve(carver, Item::RingReads, depth),
        }
    }

    /// Takes as many reads as it has places. Bounded by the ring's depth.
    fn take(&mut self, shared: &Shared, state: &mut State) {
        while let Some(place) = self.free.front() {
            if state.work_for(shared, Role::Ring).is_empty() {
                break;
            }
            let job = wait::take(state, shared, Role::Ring);
            let Some(Job::Read { wave, op, read, target, lease, .. }) = job else { break };
            state.begin_job();
            state.waves.fly(wave, op);
            // The ring thread is given reads of open files only.
            assert!(lease.open.is_some());
            let Some(open) = lease.open else { break };
            let (stat, start_ns) = (lease.stat, (shared.os.now_ns)());
            self.free.pop();
            self.places[index(u64::from(place))] = Some(RingRead {
                flight: Flight { wave, op, read, target, lease, open, stat, start_ns },
                done: 0,
                retries: 0,
                is_cached: false,
                is_direct: false,
                is_direct_now: false,
                outcome: Outcome::Pending,
            });
            self.fresh.push(place);
            state.ring.in_flight += 1;
        }
    }

    /// Queues what is fresh, waits for the ring, and looks at what it brought.
    fn turn(&mut self, lock: &Lock) -> Result<(), Errno> {
        while let Some(place) = self.fresh.pop() {
            self.begin(lock, place);
        }
        let has_ended = !self.ended.is_empty();
        let Some(ring) = self.ring.as_mut() else { return Ok(()) };
        if has_ended {
            ring.submit()?;
        } else {
            ring.wait()?;
        }
        // Bounded by the depth: a request that is queued here is not handed to the kernel here.
        while let Some(event) = self.ring.as_mut().and_then(Ring::next_event) {
            if let Event::Read(completion) = event {
                self.complete(lock, completion);
            }
        }
        Ok(())
    }

    fn begin(&mut self, lock: &Lock, place: u32) {
        let shared = lock.shared;
        let Some(entry) = self.places[index(u64::from(place))].as_mut() else { return };
        entry.flight.start_ns = (shared.os.now_ns)();
        if entry.flight.stat.is_some_and(|stat| stat != entry.flight.read.stat) {
            entry.outcome = Outcome::Left;
            self.ended.push(place);
            return;
        }
        let flight = &mut entry.flight;
        let first = flight.target.part(shared.read_front(&flight.read), 1);
        let probe = (shared.os.read)(flight.open.fd, first, flight.read.offset, true);
        entry.is_cached = probe == Ok(1);
        entry.is_direct = entry.flight.open.direct.is_some() && !entry.is_cached;
        entry.is_direct_now = entry.is_direct;
        self.queue(shared, place);
    }

    /// Queues a request for the missing bytes of a read.
    fn queue(&mut self, shared: &Shared, place: u32) {
        let entry = self.places[index(u64::from(place))].as_mut();
        let (Some(entry), Some(ring)) = (entry, self.ring.as_mut()) else { return };
        let Flight { read, target, open, .. } = &entry.flight;
        let target = target.region();
        let front = shared.read_front(read);
        let (fd, target, offset) = match open.direct {
            Some(fd) if entry.is_direct_now => (fd, target, read.offset - front),
            _ => {
                let target = target.part(front + entry.done, read.bytes - entry.done);
                (open.fd, target, read.offset + entry.done)
            }
        };
        (shared.os.ring_waits)(fd);
        let is_queued = ring.read(fd, target, offset, u64::from(place));
        assert!(is_queued);
    }

    fn complete(&mut self, lock: &Lock, completion: Completion) {
        let place = completion.user_data as u32;
        let Some(entry) = self.places[index(completion.user_data)].as_mut() else { return };
        let was_direct = core::mem::replace(&mut entry.is_direct_now, false);
        match completion.result {
            Ok(got) => {
                let read = &entry.flight.read;
                let front = if was_direct { lock.shared.read_front(read) } else { 0 };
                let brought = u64::from(got).saturating_sub(front);
                entry.done = (entry.done + brought).min(read.bytes);
                if entry.done == read.bytes {
                    entry.end(lock.shared);
                } else if got == 0 && !was_direct {
                    entry.outcome = Outcome::Left;
                }
            }
            Err(Errno(libc::EINTR | libc::EAGAIN | libc::ECANCELED))
                if entry.retries < RETRIES_MAX =>
            {
                entry.retries += 1;
                entry.is_direct_now = was_direct;
            }
            Err(Errno(libc::EINVAL)) if was_direct => {
                entry.is_direct = false;
                entry.refuse_direct(lock);
            }
            Err(_) => entry.outcome = Outcome::Left,
        }
        if entry.outcome == Outcome::Pending {
            self.queue(lock.shared, place);
        } else {
            self.ended.push(place);
        }
    }

    /// Hands in what has ended.
    fn hand_in(&mut self, shared: &Shared, state: &mut State) {
        while let Some(place) = self.ended.pop() {
            let Some(entry) = self.places[index(u64::from(place))].take() else { continue };
            let is_there = entry.outcome == Outcome::Done;
            settle(state, shared, &entry.flight, is_there);
            if is_there {
                state.note_cached(entry.is_cached);
            }
            self.free.push(place);
            state.ring.in_flight -= 1;
            state.end_job();
        }
    }

    /// The read that was begun first of those in flight.
    fn oldest(&self) -> Option<Reading> {
        let flights = self.places.iter().flatten().map(|entry| &entry.flight);
        let first = flights.min_by_key(|flight| flight.start_ns)?;
        let (array, file) = (first.read.array, Some(first.read.file));
        Some(Reading { since_ns: first.start_ns, array, file })
    }

    /// Closes the ring and leaves all its reads to io threads. Err: the kernel still has targets.
    fn give_up(&mut self) -> Result<(), Errno> {
        if let Some(ring) = self.ring.as_mut() {
            ring.close()?;
        }
        self.ring = None;
        self.fresh.clear();
        self.ended.clear();
        for (place, entry) in (0..).zip(self.places.iter_mut()) {
            if let Some(entry) = entry {
                if entry.outcome == Outcome::Pending {
                    entry.outcome = Outcome::Left;
                }
                self.ended.push(place);
            }
        }
        Ok(())
    }
}

impl RingRead {
    /// All bytes are read: they count if the file is what it was when its chunks were located.
    fn end(&mut self, shared: &Shared) {
        let Flight { read, open, .. } = &self.flight;
        let is_same = |fd: i32| uninterrupted(|| (shared.os.stat)(fd)) == Ok(read.stat);
        let mut used = open.direct.filter(|_| self.is_direct).into_iter();
        if !is_same(open.fd) || !used.all(is_same) {
            self.outcome = Outcome::Left;
            return;
        }
        self.outcome = Outcome::Done;
        shared.stats.worker_steps.fetch_add(1, Relaxed);
        count(shared, &self.flight);
    }

    fn refuse_direct(&self, lock: &Lock) {
        let shared = lock.shared;
        let Flight { read, lease, .. } = &self.flight;
        let is_news = lock.lock().files.refuse_direct(lease.slot);
        if is_news {
            let record = shared.array_record(read.array);
            let path = shared.file_path(read.array, record, read.file);
            let text = "takes no direct reads: it is read through the page cache";
            shared.sink.log(Level::Warn, 0, format_args!("{} {text}", shown(&path)));
        }
    }
}

/// Opens the ring that the settings ask for. Err: the kernel's errno.
pub fn open_ring(lock: &Lock, reader: &Mutex<RingReader>) -> Result<(), Errno> {
    let shared = lock.shared;
    let settings = &shared.settings;
    let mut ring = Ring::open(shared.os, settings.ring_depth)?;
    let registered = ring.register_buffer(shared.tables.slab);
    let name = if settings.reads_direct { "direct" } else { "uring" };
    let waker = ring.waker();
    // Before the state's lock, which the ring thread takes while it holds this one.
    reader.lock().ring = Some(ring);
    let state = &mut *lock.lock();
    state.ring.reason.clear();
    match registered {
        Ok(()) => write!(state.ring.reason, "{name}: asked for by the config"),
        Err(errno) => write!(state.ring.reason, "{name}: asked for; slab not pinned: {errno}"),
    }
    state.ring.reader = if settings.reads_direct { READER_DIRECT } else { READER_URING };
    state.ring.waker = Some(waker);
    state.ring.is_live = true;
    Ok(())
}

/// Closes the ring of a thread that never ran.
pub fn close_unused_ring(reader: &Mutex<RingReader>) {
    if let Some(mut ring) = reader.lock().ring.take() {
        // Nothing was ever queued, so the kernel cannot hold anything.
        let closed = ring.close();
        assert!(closed.is_ok());
    }
}

/// The loop of the ring thread until close.
pub fn ring_main(lock: &Lock, reader: &Mutex<RingReader>) {
    let shared = lock.shared;
    let reader = &mut *reader.lock();
    let mut state = lock.lock();
    let mut failures = 0;
    loop {
        reader.hand_in(shared, &mut state);
        reader.take(shared, &mut state);
        state.ring.oldest = reader.oldest();
        state.wakes.work();
        // While it is awake: what it just found no read for does not wake it.
        state.signal();
        if state.ring.in_flight > 0 {
            state.ring.sleep = Sleep::InRing;
            drop(state);
            let turned = reader.turn(lock);
            state = lock.lock();
            state.ring.sleep = Sleep::Awake;
            failures = if turned.is_ok() { 0 } else { failures + 1 };
            if let Err(errno) = turned {
                state = retry_or_give_up(lock, reader, state, errno, failures);
            }
            continue;
        }
        if state.life == Life::Closing || !state.ring.is_live {
            break;
        }
        state.ring.sleep = Sleep::Idle;
        state.wait(Condition::Ring);
        state.ring.sleep = Sleep::Awake;
    }
    state.ring.is_live = false;
    state.ring.waker = None;
    // Ends as soon as the kernel takes the wake read back.
    while reader.give_up().is_err() {
        let pause = (shared.os.now_ns)() + WAIT_PAUSE_NS;
        state.wait_until(Condition::Ring, pause);
    }
    state.end_thread();
}

/// The ring did not wait: tries again after a pause; in the end its reads, and all after them,
/// go to the io threads.
fn retry_or_give_up<'a>(
    lock: &'a Lock,
    reader: &mut RingReader,
    mut state: Locked<'a>,
    errno: Errno,
    failures: u32,
) -> Locked<'a> {
    let shared = lock.shared;
    let pause = (shared.os.now_ns)() + WAIT_PAUSE_NS;
    state.wait_until(Condition::Ring, pause);
    if failures < WAIT_FAILURES_MAX || !state.ring.is_live {
        return state;
    }
    // Nobody may wake a ring that is being closed.
    let waker = state.ring.waker.take();
    drop(state);
    let given_up = reader.give_up();
    let mut state = lock.lock();
    if given_up.is_err() {
        state.ring.waker = waker;
    } else {
        let ring = &mut state.ring;
        ring.is_live = false;
        ring.reader = READER_THREADS;
        ring.reason.clear();
        write!(ring.reason, "threads: io_uring failed: {errno}");
        drop(state);
        shared.sink.log(Level::Warn, 0, format_args!("io_uring failed, threads read: {errno}"));
        state = lock.lock();
    }
    state
}
