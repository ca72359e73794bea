//! Ways from a chunk's place in a file to its bytes in memory. What the two have in common whose
//! reads end later, the ring and the host, stands here.

pub mod ask;
pub mod cached;
pub mod hook;
pub mod ring;
pub mod wait;

use crate::jobs::lease::needed_bytes;
use crate::state::State;
use crate::state::flights::Flight;
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Ends a flight. Bytes that did not come are left to an io thread, which reads them again.
fn settle(state: &mut State, shared: &Shared, flight: &Flight, is_there: bool) {
    end_lease(state, shared, flight);
    match is_there {
        true => state.waves.set_ready(flight.wave, flight.op),
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
    let ns = (shared.os.now_ns)() - flight.start_ns;
    shared.stats.io.observe(ns, flight.read.bytes, needed);
}
