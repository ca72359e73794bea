use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

const WAVE: WaveIndex = WaveIndex(0);

/// One wave of two reads, the second of which needs nothing.
fn waves() -> Waves {
    let mut carver = Carver::leaked(1 << 16);
    let counts = WaveCounts { waves: [1, 0], chunks: [4, 0], pairs: [4, 0] };
    let mut waves = Waves::carve(&mut carver, counts, 4096);
    let (interval, _) = waves.ring.take(0).unwrap();
    waves.activate(WAVE, 3, (2, 1), interval, 0);
    waves
}

/// The first read of a wave, brought to a phase.
fn in_phase(phase: ReadPhase) -> Waves {
    let mut waves = waves();
    if phase != ReadPhase::Wanted {
        waves.issue(WAVE, 0);
    }
    match phase {
        ReadPhase::Wanted | ReadPhase::Leased => {}
        ReadPhase::InFlight => waves.fly(WAVE, 0),
        ReadPhase::Blocking => waves.block(WAVE, 0, 0),
        ReadPhase::ForIo => waves.leave_to_io(WAVE, 0),
        ReadPhase::Here => waves.set_ready(WAVE, 0),
        ReadPhase::Done => waves.finish(WAVE, 0),
    }
    assert_eq!(waves.phase(WAVE, 0), phase);
    waves
}

use ReadPhase::{Blocking, Done, ForIo, Here, InFlight, Leased, Wanted};

const PHASES: [ReadPhase; 7] = [Wanted, Leased, InFlight, Blocking, ForIo, Here, Done];

#[test]
fn a_read_goes_where_its_drawing_says_and_nowhere_else() {
    let steps: [(fn(&mut Waves), &[ReadPhase], ReadPhase); 9] = [
        (|waves| waves.issue(WAVE, 0), &[Wanted], Leased),
        (|waves| waves.unissue(WAVE, 0), &[Leased], Wanted),
        (|waves| waves.fly(WAVE, 0), &[Leased], InFlight),
        (|waves| waves.block(WAVE, 0, 1), &[Leased], Blocking),
        (|waves| waves.leave_to_io(WAVE, 0), &[Leased, InFlight], ForIo),
        (|waves| waves.set_ready(WAVE, 0), &[Leased, InFlight], Here),
        (|waves| waves.finish(WAVE, 0), &[Leased], Done),
        (|waves| assert_eq!(waves.take_blocking(WAVE), Some(0)), &[Blocking], Leased),
        (|waves| assert_eq!(waves.take_for_io(WAVE), Some(0)), &[ForIo], Leased),
    ];
    for (number, (step, from, to)) in steps.into_iter().enumerate() {
        for phase in PHASES {
            let mut waves = in_phase(phase);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut waves))).is_ok();
            assert_eq!(went, from.contains(&phase), "step {number} from {phase:?}");
            let now = if went { to } else { phase };
            assert_eq!(waves.phase(WAVE, 0), now, "step {number} from {phase:?}");
        }
    }
}

#[test]
fn chunks_that_are_done_are_not_handed_out_again() {
    let mut waves = in_phase(Leased);
    waves.block(WAVE, 0, 1);
    assert_eq!(waves.take_blocking(WAVE), Some(0));
    let back = catch_unwind(AssertUnwindSafe(|| waves.block(WAVE, 0, 0)));
    assert!(back.is_err(), "the next chunk of a read goes back");
    let mut waves = in_phase(Leased);
    waves.block(WAVE, 0, 1);
    waves.take_blocking(WAVE);
    waves.set_ready(WAVE, 0);
    assert_eq!(waves.next_chunk(WAVE, 0), 1);
    let more = catch_unwind(AssertUnwindSafe(|| waves.take_chunks(WAVE, 2, 2)));
    assert!(more.is_err(), "more chunks than the read has");
    waves.take_chunks(WAVE, 1, 2);
    assert_eq!(waves.phase(WAVE, 0), Done);
}

#[test]
fn readers_take_reads_apart_from_those_of_others() {
    let mut carver = Carver::leaked(1 << 16);
    let counts = WaveCounts { waves: [0, 1], chunks: [0, 9], pairs: [0, 9] };
    let mut waves = Waves::carve(&mut carver, counts, 4096);
    let (interval, _) = waves.ring.take(0).unwrap();
    waves.activate(WAVE, 9, (9, 0), interval, 0);
    let mut take = |done: Option<u32>| {
        done.inspect(|op| waves.finish(WAVE, *op));
        let op = waves.next_apart(WAVE);
        op.inspect(|op| waves.issue(WAVE, *op));
        op
    };
    assert_eq!(take(None), Some(0));
    assert_eq!(take(None), Some(5), "the middle of 1..9");
    assert_eq!(take(None), Some(3), "the middle of 1..5, which is as long as 6..9 or longer");
    assert_eq!(take(Some(5)), Some(6), "each goes on where it was");
    assert_eq!(take(Some(0)), Some(1));
    assert_eq!(take(Some(6)), Some(7));
    assert_eq!(take(Some(3)), Some(4));
    assert_eq!(take(Some(1)), Some(2));
    assert_eq!(take(Some(7)), Some(8));
    assert_eq!(take(Some(2)), None);
}

#[test]
fn a_wave_ends_only_with_all_of_its_reads() {
    let mut waves = in_phase(Here);
    let ended = catch_unwind(AssertUnwindSafe(|| waves.sub_unworked(WAVE, 3)));
    assert!(ended.is_err(), "no read was handed out");
    let mut waves = in_phase(Here);
    waves.set_ready(WAVE, 1);
    waves.take_chunks(WAVE, 2, 2);
    waves.take_chunks(WAVE, 1, 1);
    waves.sub_unworked(WAVE, 2);
    assert!(!waves.sub_remaining(WAVE, 2));
    let ended = catch_unwind(AssertUnwindSafe(|| waves.sub_remaining(WAVE, 1)));
    assert!(ended.is_err(), "no worker did its part of the last chunk");
    waves.sub_unworked(WAVE, 1);
    assert!(waves.sub_remaining(WAVE, 1));
    let phases: Vec<ReadPhase> = (0..2).map(|op| waves.phase(WAVE, op)).collect();
    assert_eq!(phases, [Done, Done]);
    assert_eq!(waves.free(Lane::Samples), Some(WAVE));
}

#[test]
fn what_a_device_refused_is_read_again_when_nothing_else_is_left() {
    let mut waves = in_phase(Here);
    waves.set_ready(WAVE, 1);
    waves.take_chunks(WAVE, 2, 2);
    waves.take_chunks(WAVE, 1, 1);
    waves.sub_unworked(WAVE, 2);
    assert!(!waves.refuse(WAVE), "a worker is at a chunk");
    assert_eq!(waves.for_redo(), None);
    waves.sub_unworked(WAVE, 1);
    assert!(!waves.waves[WAVE.at()].is_for_redo(), "the device has two chunks");
    assert!(!waves.sub_remaining(WAVE, 1));
    assert!(waves.refuse(WAVE));
    assert!(catch_unwind(AssertUnwindSafe(|| waves.refuse(WAVE))).is_err(), "two are left");
    assert_eq!(waves.for_redo(), Some(WAVE));
    let (interval, _) = waves.ring.take(64).unwrap();
    waves.read_again(WAVE, 1, interval);
    assert_eq!((waves.for_redo(), waves.phase(WAVE, 0)), (None, Wanted));
    waves.issue(WAVE, 0);
    waves.set_ready(WAVE, 0);
    waves.take_chunks(WAVE, 2, 2);
    waves.sub_unworked(WAVE, 2);
    assert!(waves.sub_remaining(WAVE, 2));
    assert_eq!(waves.free(Lane::Samples), Some(WAVE));
}

#[test]
fn a_wave_is_filled_while_it_is_free_and_worked_on_while_it_is_active() {
    let steps: [(fn(&mut Waves), bool); 5] = [
        (|waves| waves.activate(WAVE, 1, (1, 0), 0, 0), false),
        (|waves| waves.sub_unworked(WAVE, 0), true),
        (|waves| assert!(!waves.sub_remaining(WAVE, 1)), true),
        (|waves| assert!(!waves.refuse(WAVE)), true),
        (|waves| waves.read_again(WAVE, 1, 0), false),
    ];
    for (number, (step, is_active)) in steps.into_iter().enumerate() {
        for from in [false, true] {
            let mut waves = in_phase(Here);
            if from {
                waves.set_ready(WAVE, 1);
                waves.take_chunks(WAVE, 2, 2);
                waves.take_chunks(WAVE, 1, 1);
                waves.sub_unworked(WAVE, 1);
            } else {
                waves.clear(core::iter::empty());
            }
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut waves))).is_ok();
            let is_drawn = from == is_active && number != 4;
            assert_eq!(went, is_drawn, "step {number}, active: {from}");
            assert_eq!(waves.waves[WAVE.at()].is_active, from || (went && number == 0));
        }
    }
}

#[test]
fn an_interval_is_given_back_once() {
    let mut waves = in_phase(Here);
    let (first, _) = waves.ring.take(64).unwrap();
    let (second, _) = waves.ring.take(64).unwrap();
    assert!(first < second);
    waves.ring.give_back(second);
    assert!(catch_unwind(AssertUnwindSafe(|| waves.ring.give_back(second))).is_err());
}

#[test]
fn a_chunk_goes_the_way_that_is_drawn_and_no_other() {
    let late = Way::Late { first: 1, count: 2 };
    let ways = [Way::Worker, Way::Device, late, Way::Refused];
    let drawn = [
        (Way::Worker, &[][..]),
        (Way::Device, &[late, Way::Refused]),
        (late, &[late, Way::Refused]),
        (Way::Refused, &[Way::Worker]),
    ];
    for (from, to) in drawn {
        for way in ways {
            let task = ChunkTask { way: from, ..ChunkTask::EMPTY };
            let went = catch_unwind(|| task.gone_to(way).way == way);
            assert_eq!(went.is_ok(), to.contains(&way), "{from:?} to {way:?}");
        }
    }
}
