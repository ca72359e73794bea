use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

/// One wave of two reads, the second of which needs nothing.
fn waves() -> Waves {
    let mut carver = Carver::leaked(1 << 16);
    let mut waves = Waves::carve(&mut carver, 1, 4, 4096);
    let (interval, _) = waves.ring.take(0).unwrap();
    waves.activate(0, 3, (2, 1), interval, 0);
    waves
}

/// The first read of a wave, brought to a phase.
fn in_phase(phase: ReadPhase) -> Waves {
    let mut waves = waves();
    if phase != ReadPhase::Wanted {
        waves.issue(0, 0);
    }
    match phase {
        ReadPhase::Wanted | ReadPhase::Leased => {}
        ReadPhase::InFlight => waves.fly(0, 0),
        ReadPhase::Blocking => waves.block(0, 0, 0),
        ReadPhase::ForIo => waves.leave_to_io(0, 0),
        ReadPhase::Here => waves.set_ready(0, 0),
        ReadPhase::Done => waves.finish(0, 0),
    }
    assert_eq!(waves.phase(0, 0), phase);
    waves
}

use ReadPhase::{Blocking, Done, ForIo, Here, InFlight, Leased, Wanted};

const PHASES: [ReadPhase; 7] = [Wanted, Leased, InFlight, Blocking, ForIo, Here, Done];

#[test]
fn a_read_goes_where_its_drawing_says_and_nowhere_else() {
    let steps: [(fn(&mut Waves), &[ReadPhase], ReadPhase); 9] = [
        (|waves| waves.issue(0, 0), &[Wanted], Leased),
        (|waves| waves.unissue(0, 0), &[Leased], Wanted),
        (|waves| waves.fly(0, 0), &[Leased], InFlight),
        (|waves| waves.block(0, 0, 1), &[Leased], Blocking),
        (|waves| waves.leave_to_io(0, 0), &[Leased, InFlight], ForIo),
        (|waves| waves.set_ready(0, 0), &[Leased, InFlight], Here),
        (|waves| waves.finish(0, 0), &[Leased], Done),
        (|waves| assert_eq!(waves.take_blocking(0), Some(0)), &[Blocking], Leased),
        (|waves| assert_eq!(waves.take_for_io(0), Some(0)), &[ForIo], Leased),
    ];
    for (number, (step, from, to)) in steps.into_iter().enumerate() {
        for phase in PHASES {
            let mut waves = in_phase(phase);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut waves))).is_ok();
            assert_eq!(went, from.contains(&phase), "step {number} from {phase:?}");
            let now = if went { to } else { phase };
            assert_eq!(waves.phase(0, 0), now, "step {number} from {phase:?}");
        }
    }
}

#[test]
fn chunks_that_are_done_are_not_handed_out_again() {
    let mut waves = in_phase(Leased);
    waves.block(0, 0, 1);
    assert_eq!(waves.take_blocking(0), Some(0));
    let back = catch_unwind(AssertUnwindSafe(|| waves.block(0, 0, 0)));
    assert!(back.is_err(), "the next chunk of a read goes back");
    let mut waves = in_phase(Leased);
    waves.block(0, 0, 1);
    waves.take_blocking(0);
    waves.set_ready(0, 0);
    assert_eq!(waves.next_chunk(0, 0), 1);
    let more = catch_unwind(AssertUnwindSafe(|| waves.take_chunks(0, 2, 2)));
    assert!(more.is_err(), "more chunks than the read has");
    waves.take_chunks(0, 1, 2);
    assert_eq!(waves.phase(0, 0), Done);
}

#[test]
fn a_wave_ends_only_with_all_of_its_reads() {
    let mut waves = in_phase(Here);
    let ended = catch_unwind(AssertUnwindSafe(|| waves.sub_remaining(0, 3)));
    assert!(ended.is_err(), "no read was handed out");
    let mut waves = in_phase(Here);
    waves.set_ready(0, 1);
    waves.take_chunks(0, 2, 2);
    waves.take_chunks(0, 1, 1);
    assert!(!waves.sub_remaining(0, 2));
    assert!(waves.sub_remaining(0, 1));
    let phases: Vec<ReadPhase> = (0..2).map(|op| waves.phase(0, op)).collect();
    assert_eq!(phases, [Done, Done]);
    assert_eq!(waves.free(), Some(0));
}
