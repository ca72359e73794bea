//! Reads of chunk data that the host begins now and ends later (`files.read_async`).
//!
//! In: reads of active waves. Out: their bytes in the slab, and the reads among the ready ones of
//! their wave.
//!
//! ```text
//!  free ──(take)──▶ taken ──(begin)──▶ IN FLIGHT ──(read_done, or the host took it not)──▶ free
//!         locked      │                    └──(reset)──▶ DROPPED ──(read_done)──▶ free
//!                     └──(give_up)──▶ free
//! ```
//!
//! What a failure means is not decided here: a read that the host did not bring is left to io
//! threads, one of which reads it again through `files.read` and reports what it finds. So the same
//! chunks fail, with the same text, whoever reads.
//!
//! Invariant: a read in flight holds a lease, and its bytes in the slab are nobody else's until its
//! completion, whatever happens to the samples that it was for: reset waits for no host, so the
//! interval of a dropped read stays taken. A ticket is never used twice.

use crate::base::stats::Stage;
use crate::base::status::{Failure, Why};
use crate::fail;
use crate::jobs::lease::needed_bytes;
use crate::os::profiler::At;
use crate::os::sink::Level;
use crate::os::store::Path;
use crate::state::flights::{AsyncRead, Flight};
use crate::state::lock::{Condition, Lock};
use crate::state::shared::Shared;
use crate::state::{Life, State};
use core::sync::atomic::Ordering::Relaxed;

/// Hands the read of a job to the host, which completes it under the ticket.
pub fn begin_read(lock: &Lock, ticket: u64, flight: Flight, path: &Path) {
    let shared = lock.shared;
    let read = flight.read;
    let place = flight.target.region();
    {
        let state = &mut *lock.lock();
        state.waves.fly(flight.wave, flight.op);
        let interval = state.waves.waves[flight.wave.at()].interval;
        state.async_reads.begin(AsyncRead { ticket, flight, interval, is_dropped: false });
    }
    let token = (shared.token, ticket);
    if (shared.store.row.begin_read)(&shared.store, token, (path, read.stat), place, read.offset)
        .is_err()
    {
        end_read(shared, &mut lock.lock(), ticket, false);
    }
}

/// The file of a read could not be opened: it is read as if it were to end here.
pub fn give_up_read(lock: &Lock, ticket: u64) {
    lock.lock().async_reads.give_up(ticket);
}

/// The completion of a read; `result` is what `files.read` would have returned.
pub fn read_done(lock: &Lock, ticket: u64, result: i64) -> Result<(), Failure> {
    if end_read(lock.shared, &mut lock.lock(), ticket, result == 0) {
        return Ok(());
    }
    let mut why = Why::new();
    let status = fail!(
        why,
        Invalid,
        "read_done: no read of ticket {ticket:#x} is in flight: completed \
         before, or never begun"
    );
    lock.shared.sink.log(Level::Warn, 0, format_args!("{why}"));
    Err(Failure::because(status, &why))
}

/// Ends a read; false if none has that ticket.
fn end_read(shared: &Shared, state: &mut State, ticket: u64, is_there: bool) -> bool {
    let Some(read) = state.async_reads.end(ticket) else { return false };
    if read.is_dropped {
        end_lease(state, shared, &read.flight);
        state.waves.end_dropped(read.interval);
        state.want_plan(true);
    } else {
        settle(state, shared, &read.flight, is_there);
        if is_there {
            count(shared, &read.flight);
        }
    }
    if state.life != Life::Running {
        state.wakes.all(Condition::Idle);
    }
    state.wakes.work();
    true
}

/// Ends a flight. Bytes that did not come are left to an io thread, which reads them again.
fn settle(state: &mut State, shared: &Shared, flight: &Flight, is_there: bool) {
    end_lease(state, shared, flight);
    match is_there {
        true => state.set_ready(shared, flight.wave, flight.op),
        false => state.waves.leave_to_io(flight.wave, flight.op),
    }
}

fn end_lease(state: &mut State, shared: &Shared, flight: &Flight) {
    let Flight { lease, open, stat, .. } = flight;
    shared.close_forgotten(state.files.give_back(lease, Some(*open), *stat));
}

/// Counts a read that brought all its bytes.
fn count(shared: &Shared, flight: &Flight) {
    let needed = needed_bytes(shared, flight.wave, &flight.read);
    shared.stats.reads_issued.fetch_add(1, Relaxed);
    // Reads in flight overlap, whichever thread ends them.
    let at = At::NOWHERE.of_wave(flight.wave.0);
    shared.observe(Stage::Io, flight.start_ns, (flight.read.bytes, needed), at);
}
