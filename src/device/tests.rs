use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

const LAYOUT: Layout =
    Layout { data_bytes: 4096, units: 16, streams: 8, decoded_bytes: 8192, scratch_bytes: 4096 };
const SLOTS: u32 = 3;

/// Two slabs for batches in three slots.
fn slabs() -> Slabs {
    let mut carver = Carver::leaked(1 << 14);
    Slabs::carve(&mut carver, LAYOUT, 2, SLOTS, 4)
}

#[test]
fn parts_of_a_slab_lie_side_by_side_and_never_overlap() {
    let mut slabs = slabs();
    let one = slabs.reserve(SlabNeed::of(100, 2)).unwrap();
    let two = slabs.reserve(SlabNeed::of(17, 3)).unwrap();
    assert_eq!((one.slab, one.data, one.unit), (two.slab, 4096 - 128, 0));
    assert_eq!((two.data + two.need.data_bytes, two.unit), (one.data, 2));
    assert_eq!(two.need.data_bytes, 48);
}

#[test]
fn a_slab_is_sealed_by_what_it_has_no_room_for() {
    let mut slabs = slabs();
    let one = slabs.reserve(SlabNeed::of(3000, 1)).unwrap();
    let two = slabs.reserve(SlabNeed::of(2000, 1)).unwrap();
    assert_ne!(one.slab, two.slab);
    assert!(!slabs.has_room(SlabNeed::of(3000, 1)));
    assert_eq!(slabs.reserve(SlabNeed::of(3000, 1)), None);
    // The second is sealed as well now, and both are submitted in their order.
    assert!(!slabs.has_submission());
    slabs.finish(&two);
    assert_eq!(slabs.submit().unwrap().slab, two.slab);
    slabs.finish(&one);
    assert_eq!(slabs.submit().unwrap().slab, one.slab);
}

#[test]
fn there_is_never_room_for_more_than_a_slab_holds() {
    let slabs = slabs();
    assert!(slabs.has_room(SlabNeed { data_bytes: 4096, units: 16, decoded_bytes: 8192 }));
    assert!(!slabs.has_room(SlabNeed { data_bytes: 4112, units: 1, decoded_bytes: 0 }));
    assert!(!slabs.has_room(SlabNeed { data_bytes: 0, units: 17, decoded_bytes: 0 }));
}

#[test]
fn a_slab_with_a_writer_is_not_submitted() {
    let mut slabs = slabs();
    let one = slabs.reserve(SlabNeed::of(10, 1)).unwrap();
    let two = slabs.reserve(SlabNeed::of(10, 1)).unwrap();
    slabs.finish(&one);
    assert_eq!(slabs.submit(), None);
    slabs.finish(&two);
    let submission = slabs.submit().unwrap();
    assert_eq!((submission.units, submission.first), (2, 4096 - 64));
}

#[test]
fn a_slab_that_is_not_full_waits_while_the_device_has_work() {
    let mut slabs = slabs();
    let one = slabs.reserve(SlabNeed::of(10, 1)).unwrap();
    slabs.finish(&one);
    let first = slabs.submit().unwrap();
    slabs.copied(first.slab);
    let two = slabs.reserve(SlabNeed::of(10, 1)).unwrap();
    slabs.finish(&two);
    assert_eq!(slabs.submit(), None);
    slabs.done(first.resident);
    assert!(slabs.submit().is_some());
}

#[test]
fn a_quarter_of_a_slab_is_worth_a_launch_beside_another() {
    let mut slabs = slabs();
    let one = slabs.reserve(SlabNeed::of(10, 1)).unwrap();
    slabs.finish(&one);
    let first = slabs.submit().unwrap();
    let two = slabs.reserve(SlabNeed::of(1024, 1)).unwrap();
    slabs.finish(&two);
    let second = slabs.submit().unwrap();
    assert_ne!(second.resident, first.resident);
    assert_eq!(slabs.busy_count(), 2);
}

#[test]
fn no_more_than_the_resident_waves_are_submitted() {
    let mut slabs = slabs();
    for _ in 0..2 {
        let part = slabs.reserve(SlabNeed::of(4000, 1)).unwrap();
        slabs.finish(&part);
        let submission = slabs.submit().unwrap();
        slabs.copied(submission.slab);
    }
    let part = slabs.reserve(SlabNeed::of(4000, 1)).unwrap();
    slabs.finish(&part);
    assert!(!slabs.has_submission());
    slabs.done(1);
    assert_eq!(slabs.submit().unwrap().resident, 1);
}

#[test]
fn chunks_of_several_batches_arrive_with_their_wave() {
    let mut slabs = slabs();
    let part = slabs.reserve(SlabNeed::of(64, 1)).unwrap();
    slabs.add_chunks(part.slab, BatchSlot(0), 2);
    slabs.add_chunks(part.slab, BatchSlot(2), 5);
    slabs.add_chunks(part.slab, BatchSlot(0), 1);
    slabs.finish(&part);
    let resident = slabs.submit().unwrap().resident;
    slabs.copied(part.slab);
    // Those of the next wave are counted apart, though the slab is the same.
    let next = slabs.reserve(SlabNeed::of(64, 1)).unwrap();
    assert_eq!(next.slab, part.slab);
    slabs.add_chunks(next.slab, BatchSlot(0), 7);
    let taken: std::vec::Vec<u64> =
        (0..SLOTS).map(|slot| slabs.take_chunks(resident, BatchSlot(slot))).collect();
    assert_eq!(taken, [3, 0, 5]);
    assert_eq!(slabs.take_chunks(resident, BatchSlot(0)), 0);
}

#[test]
fn what_is_cleared_is_as_new() {
    let mut slabs = slabs();
    let part = slabs.reserve(SlabNeed::of(4000, 8)).unwrap();
    slabs.add_chunks(part.slab, BatchSlot(1), 4);
    slabs.finish(&part);
    let resident = slabs.submit().unwrap().resident;
    slabs.clear();
    assert_eq!((slabs.busy_count(), slabs.take_chunks(resident, BatchSlot(1))), (0, 0));
    assert!(slabs.has_room(SlabNeed::of(4080, 8)));
}

/// Two slabs, the first brought to a state, and a part of it.
fn in_state(state: SlabState) -> (Slabs, SlabPart) {
    let mut slabs = slabs();
    let part = slabs.reserve(SlabNeed::of(3000, 1)).unwrap();
    match state {
        SlabState::Free => {
            slabs.finish(&part);
            slabs.clear();
        }
        SlabState::Filling => {}
        SlabState::Sealed => assert!(slabs.reserve(SlabNeed::of(3000, 1)).is_some()),
        SlabState::Copying => {
            slabs.finish(&part);
            assert!(slabs.submit().is_some());
        }
    }
    assert_eq!(slabs.slabs[0].state, state);
    (slabs, part)
}

#[test]
fn a_slab_goes_where_its_drawing_says_and_nowhere_else() {
    use SlabState::{Copying, Filling, Free, Sealed};
    type Step = (fn(&mut Slabs, SlabPart), &'static [SlabState]);
    let steps: [Step; 4] = [
        (|slabs, part| slabs.finish(&part), &[Filling, Sealed]),
        (|slabs, part| slabs.add_chunks(part.slab, BatchSlot(0), 1), &[Filling, Sealed]),
        (|slabs, part| slabs.copied(part.slab), &[Copying]),
        (|slabs, _| slabs.done(0), &[Copying]),
    ];
    for (number, (step, from)) in steps.into_iter().enumerate() {
        for state in [Free, Filling, Sealed, Copying] {
            let (mut slabs, part) = in_state(state);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut slabs, part))).is_ok();
            assert_eq!(went, from.contains(&state), "step {number} from {state:?}");
        }
    }
}

#[test]
fn late_chunks_go_with_their_slab_and_room_to_decode_to_is_counted() {
    let mut slabs = slabs();
    let need = SlabNeed::of(10, 1).decoded_to(2000);
    assert_eq!(need.decoded_bytes, 2000);
    let one = slabs.reserve(need).unwrap();
    let two = slabs.reserve(need).unwrap();
    assert_eq!((one.decoded, two.decoded), (LAYOUT.bytes(), LAYOUT.bytes() + 2000));
    // Two are worth a wave of their own.
    let three = slabs.reserve(need).unwrap();
    assert_ne!(three.slab, two.slab);
    for (part, row) in [(&one, 3), (&two, 1), (&three, 0)] {
        slabs.add_late(part.slab, row);
        slabs.finish(part);
    }
    let first = slabs.submit().unwrap();
    assert_eq!(slabs.first_late(first.resident), Some(1));
    assert_eq!((slabs.next_late(1), slabs.next_late(3)), (Some(3), None));
    slabs.done(first.resident);
    let rows: Vec<u32> = std::iter::from_fn(|| slabs.take_late(first.resident)).collect();
    assert_eq!(rows, [1, 3]);
    let second = slabs.submit().unwrap();
    assert_eq!(slabs.take_late(second.resident), Some(0));
    assert_eq!(slabs.take_late(second.resident), None);
}

#[test]
fn a_slab_with_many_streams_takes_none_further_until_it_was_copied() {
    let mut slabs = slabs();
    let need = SlabNeed::of(10, 1).decoded_to(16);
    let one = slabs.reserve(need).unwrap();
    slabs.streams[one.slab as usize].store(7, Relaxed);
    slabs.finish(&one);
    assert_eq!(slabs.reserve(SlabNeed::of(10, 1)).unwrap().slab, one.slab);
    let two = slabs.reserve(need).unwrap();
    assert_ne!(two.slab, one.slab);
    assert_eq!(slabs.streams[two.slab as usize].load(Relaxed), 0);
}
