use super::pieces::{Doer, Piece};
use super::record::{Elsewhere, SlotRows};
use super::slots::*;
use crate::base::arena::{Carver, Table};
use crate::base::indexes::BatchSlot;
use crate::base::limits::TENSORS_PER_SLOT;
use crate::base::status::{Failure, Status};
use crate::records::Destination;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SLOT: BatchSlot = BatchSlot(0);
const ONE: (u64, u32) = (1, 0);

/// One slot for two samples.
fn slots() -> Slots {
    slots_of(1)
}

fn slots_of(count: u32) -> Slots {
    slots_with(count, 0)
}

/// `count` slots with memory, and `early` more.
fn slots_with(count: u32, early: u32) -> Slots {
    let mut carver = Carver::leaked(1 << 15);
    let per_sample = PerSample {
        listed: 0,
        boxes: 1,
        filled_shape: 1,
        takes_fed: false,
        augment_words: 0,
        digests: 0,
        fields: 1,
    };
    let counts = SlotCounts { places: count, early, readers: 2, is_all_lent: false, samples: 2 };
    Slots::carve(&mut carver, counts, &per_sample, Elsewhere::No)
}

/// A batch begins in a slot, and its last chunk has been placed.
fn complete(slots: &mut Slots, slot: BatchSlot) {
    slots.begin(slot, 2, 40);
    assert!(slots.sub_remaining(slot, 1));
    assert!(slots.complete(slot, false));
}

/// The slot with a popped batch.
fn held() -> Slots {
    let mut slots = slots();
    complete(&mut slots, SLOT);
    slots.finish(SLOT);
    slots.pop(SLOT, 7);
    slots
}

use SlotState::{
    Dropped, Exported, Failed, Fenced, Filling, Finishing, Free, Held, Queued, Ready, Releasing,
};

const STATES: [SlotState; 9] =
    [Free, Filling, Finishing, Ready, Failed, Held, Releasing, Exported, Fenced];

/// The slot, brought to a state.
fn in_state(state: SlotState) -> Slots {
    let mut slots = if state == Free { slots() } else { held() };
    match state {
        Free | Held => {}
        Queued | Dropped => unreachable!("states of readers"),
        Releasing => slots.release(SLOT),
        Exported | Fenced => {
            let tensor = (state == Exported).then(|| slots.take_tensor(SLOT, 0).unwrap());
            assert!(tensor.is_none() || tensor == Some(0));
            slots.release(SLOT);
            assert!(!slots.released(SLOT, true));
        }
        Filling | Finishing | Ready | Failed => {
            slots.release(SLOT);
            assert!(slots.released(SLOT, false));
            slots.begin(SLOT, 2, 0);
            if state == Failed {
                let to = Destination { slot: SLOT, field: 0, sample: 1 };
                slots.fail(to, 0, (&Failure::new(Status::Decode), false));
            }
            if state != Filling {
                assert!(slots.sub_remaining(SLOT, 1));
                assert_eq!(slots.complete(SLOT, false), state != Failed);
            }
            if state == Ready {
                slots.finish(SLOT);
            }
        }
    }
    assert_eq!(slots.state(SLOT), state);
    slots
}

#[test]
fn a_slot_goes_where_its_drawing_says_and_nowhere_else() {
    type Step = (fn(&mut Slots), SlotState, SlotState);
    let steps: [Step; 12] = [
        (|slots| assert_ne!(slots.begin(SLOT, 2, 0), u64::MAX), Free, Filling),
        (
            |slots| {
                assert!(slots.sub_remaining(SLOT, 1));
                assert!(slots.complete(SLOT, false));
            },
            Filling,
            Finishing,
        ),
        (|slots| slots.begin_pass(SLOT, 0, ONE, Doer::Workers), Finishing, Finishing),
        (|slots| slots.finish(SLOT), Finishing, Ready),
        (|slots| assert_ne!(slots.pop(SLOT, 7), 0), Ready, Held),
        (|slots| slots.drop_failed(SLOT), Failed, Free),
        (|slots| slots.release(SLOT), Held, Releasing),
        (|slots| assert!(slots.released(SLOT, false)), Releasing, Free),
        (|slots| assert!(!slots.released(SLOT, true)), Releasing, Fenced),
        (|slots| slots.unfence(SLOT), Fenced, Free),
        (|slots| assert!(slots.delete_tensor((SLOT, 0, 0))), Exported, Releasing),
        (|slots| assert!(slots.take_tensor(SLOT, 0).is_some()), Held, Held),
    ];
    for (number, (step, from, to)) in steps.into_iter().enumerate() {
        for state in STATES {
            let mut slots = in_state(state);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut slots))).is_ok();
            assert_eq!(went, state == from, "step {number} from {state:?}");
            assert!(!went || slots.state(SLOT) == to, "step {number} from {state:?}");
        }
    }
    for state in STATES {
        let mut slots = in_state(state);
        slots.reset();
        let is_stream = matches!(state, Filling | Finishing | Ready | Failed);
        assert_eq!(slots.state(SLOT), if is_stream { Free } else { state });
    }
}

#[test]
fn chunks_are_missing_and_samples_fail_while_a_batch_fills_and_at_no_other_time() {
    for state in STATES {
        let steps: [fn(&mut Slots); 3] = [
            |slots| slots.add_remaining(SLOT, 1),
            |slots| assert!(slots.sub_remaining(SLOT, 1)),
            |slots| {
                let to = Destination { slot: SLOT, field: 0, sample: 0 };
                slots.fail(to, 0, (&Failure::new(Status::Decode), false));
            },
        ];
        for step in steps {
            let mut slots = in_state(state);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut slots))).is_ok();
            assert_eq!(went, state == Filling, "{state:?}");
        }
    }
}

fn completed(status: Status, skip: bool) -> SlotState {
    let mut slots = slots();
    slots.begin(SLOT, 2, 0);
    let to = Destination { slot: SLOT, field: 0, sample: 1 };
    slots.fail(to, 0, (&Failure::new(status), false));
    assert!(slots.sub_remaining(SLOT, 1));
    let _ = slots.complete(SLOT, skip);
    slots.state(SLOT)
}

#[test]
fn skip_goes_on_after_faults_of_the_data_only() {
    assert_eq!(completed(Status::Decode, false), SlotState::Failed);
    assert_eq!(completed(Status::Decode, true), SlotState::Finishing);
    assert_eq!(completed(Status::Internal, true), SlotState::Failed);
}

#[test]
fn a_slot_is_free_when_it_is_released_and_its_last_tensor_deleted() {
    let mut slots = held();
    let (one, two) = (slots.take_tensor(SLOT, 0).unwrap(), slots.take_tensor(SLOT, 0).unwrap());
    assert!(!slots.delete_tensor((SLOT, 0, one)));
    slots.release(SLOT);
    assert!(!slots.released(SLOT, false));
    assert_eq!((slots.state(SLOT), slots.kept()), (SlotState::Exported, 1));
    assert_eq!(slots.live_tensors(), 1);
    slots.reset();
    assert_eq!(slots.state(SLOT), SlotState::Exported);
    assert!(slots.delete_tensor((SLOT, 0, two)));
    assert!(slots.released(SLOT, false));
    assert_eq!((slots.state(SLOT), slots.kept()), (SlotState::Free, 0));
    assert!(!slots.delete_tensor((SLOT, 0, two)));
}

#[test]
fn a_fenced_slot_is_nobodys_and_not_free() {
    let mut slots = held();
    slots.release(SLOT);
    slots.reset();
    assert_eq!((slots.state(SLOT), slots.kept()), (SlotState::Releasing, 1));
    assert!(!slots.released(SLOT, true));
    assert_eq!((slots.find(SlotState::Free), slots.kept()), (None, 0));
    slots.reset();
    assert_eq!((slots.state(SLOT), slots.next_slot()), (SlotState::Fenced, None));
    slots.unfence(SLOT);
    assert_eq!(slots.find(SlotState::Free), Some(SLOT));
}

#[test]
fn records_are_used_in_turn_and_never_twice_at_a_time() {
    let mut slots = held();
    let all: std::vec::Vec<u32> = (0..TENSORS_PER_SLOT).collect();
    let taken: std::vec::Vec<u32> =
        all.iter().map(|_| slots.take_tensor(SLOT, 0).unwrap()).collect();
    assert_eq!(taken, all);
    assert_eq!(slots.take_tensor(SLOT, 0), None);
    for number in [5, 2] {
        assert!(!slots.delete_tensor((SLOT, 0, number)));
    }
    assert_eq!(slots.take_tensor(SLOT, 0), Some(2));
    assert_eq!(slots.take_tensor(SLOT, 0), Some(5));
    assert_eq!(slots.take_tensor(SLOT, 0), None);
}

#[test]
fn pieces_are_handed_out_once_those_of_the_oldest_batch_first() {
    let mut slots = slots_of(3);
    for slot in [2, 0, 1].map(BatchSlot) {
        complete(&mut slots, slot);
    }
    for (slot, by) in [(0, Doer::Workers), (1, Doer::Kernels), (2, Doer::Workers)] {
        slots.begin_pass(BatchSlot(slot), 1, (2, 7), by);
    }
    let mut taken = |by| -> std::vec::Vec<Piece> {
        std::iter::from_fn(|| slots.next_piece(by).inspect(|piece| slots.take_piece(piece, by)))
            .collect()
    };
    let pieces = |slots: &[u32]| -> std::vec::Vec<Piece> {
        let piece = |slot: u32, number| Piece {
            slot: BatchSlot(slot),
            pass: 1,
            number,
            units: 7,
            samples: 2,
            position: 40,
        };
        slots.iter().flat_map(|slot| [piece(*slot, 0), piece(*slot, 1)]).collect()
    };
    assert_eq!(taken(Doer::Workers), pieces(&[2, 0]));
    assert_eq!(taken(Doer::Kernels), pieces(&[1]));
    assert!(!slots.has_piece(Doer::Workers) && !slots.has_piece(Doer::Kernels));
}

#[test]
fn a_pass_ends_with_its_last_piece_and_a_slot_with_its_last_pass() {
    let fails = |step: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(step)).is_err();
    let mut slots = slots();
    complete(&mut slots, SLOT);
    for number in [0, 2] {
        slots.begin_pass(SLOT, number, (3, 0), Doer::Workers);
        assert!(fails(&mut || slots.begin_pass(SLOT, number, ONE, Doer::Workers)), "begun twice");
        let piece = slots.next_piece(Doer::Workers).unwrap();
        slots.take_piece(&piece, Doer::Workers);
        assert!(fails(&mut || slots.take_piece(&piece, Doer::Workers)), "taken twice");
        assert_eq!(slots.end_piece(SLOT), None);
        assert!(fails(&mut || slots.finish(SLOT)), "pieces are left");
        assert_eq!(slots.pieces_left(SLOT), 2);
        assert_eq!(slots.end_piece(SLOT), None);
        assert_eq!(slots.end_piece(SLOT), Some(number + 1));
        assert!(fails(&mut || assert!(slots.end_piece(SLOT).is_none())), "ended too often");
    }
    slots.finish(SLOT);
    assert_eq!(slots.state(SLOT), Ready);
}

#[test]
fn reset_forgets_the_pieces_that_nobody_has() {
    let mut slots = slots();
    complete(&mut slots, SLOT);
    slots.begin_pass(SLOT, 0, ONE, Doer::Workers);
    slots.reset();
    assert!(!slots.has_piece(Doer::Workers) && slots.next_piece(Doer::Workers).is_none());
    complete(&mut slots, SLOT);
    slots.begin_pass(SLOT, 0, ONE, Doer::Workers);
    assert_eq!(slots.pieces_left(SLOT), 1);
}

#[test]
fn the_rows_of_slots_share_no_byte() {
    // An odd number of samples: status codes end within a word.
    let per_sample = PerSample {
        listed: 0,
        boxes: 1,
        filled_shape: 2,
        takes_fed: false,
        augment_words: 0,
        digests: 2,
        fields: 2,
    };
    let counts = SlotCounts { places: 3, early: 0, readers: 0, is_all_lent: false, samples: 3 };
    let rows = SlotRows::carve(&mut Carver::leaked(1 << 12), counts, &per_sample, Elsewhere::No);
    let words = |slot: u32| {
        let slot = BatchSlot(slot);
        let [first, second] = [0, 1].map(|field| rows.digests(slot, field));
        [rows.tags(slot), rows.filled_shape(slot), first.0, first.1, second.0, second.1]
    };
    let mut next = 0;
    let mut each = |check: &dyn Fn(&Table<u64>, usize, u64), status: &dyn Fn(u32, usize, u64)| {
        next = 0;
        for slot in 0..3 {
            for table in words(slot) {
                (0..table.len()).for_each(|at| (check(&table, at, next), next += 1).0);
            }
            (0..3).for_each(|at| (status(slot, at, next), next += 1).0);
        }
        next
    };
    let statuses = |slot| rows.statuses(BatchSlot(slot));
    each(&|table, at, n| table.write(at, n), &|slot, at, n| statuses(slot).write(at, n as i32));
    let count = each(&|table, at, n| assert_eq!(table.read(at), n), &|slot, at, n| {
        assert_eq!(statuses(slot).read(at), n as i32);
    });
    // Three tags and status codes, six extents, three digests of two fields and their sums.
    assert_eq!(count, 3 * (3 + 3 + 6 + 2 * 4));
    let spans = [0, 1, 2].map(|slot| rows.span(BatchSlot(slot)));
    assert!(spans[0].end == spans[1].start && spans[1].end == spans[2].start);
}

#[test]
fn early_batches_get_memory_in_their_order_as_others_are_freed() {
    let mut slots = slots_with(1, 2);
    let next = |slots: &mut Slots, may_be_early: bool| {
        let slot = slots.for_next(may_be_early)?;
        slots.begin(slot, 2, 0);
        Some(slot)
    };
    let first = next(&mut slots, false).unwrap();
    assert_eq!((next(&mut slots, false), slots.free_places()), (None, 0));
    let early = [(); 2].map(|()| next(&mut slots, true).unwrap());
    assert_eq!(next(&mut slots, true), None);
    let is_early = |slots: &Slots| [first, early[0], early[1]].map(|slot| slots.is_early(slot));
    assert_eq!((is_early(&slots), slots.place_next()), ([false, true, true], None));
    // The batch that has all its chunks still lacks its memory.
    assert!(!slots.sub_remaining(early[0], 1));
    let free = |slots: &mut Slots, slot| {
        assert!(slots.complete(slot, false));
        slots.finish(slot);
        slots.pop(slot, 7);
        slots.release(slot);
        assert!(slots.released(slot, false));
    };
    assert!(slots.sub_remaining(first, 1));
    free(&mut slots, first);
    assert_eq!((slots.place_next(), slots.place_next()), (Some(early[0]), None));
    assert_eq!(is_early(&slots)[1..], [false, true]);
    assert!(slots.sub_remaining(early[0], 1));
    assert_eq!(slots.rows.place(early[0]), 0);
    // Reset frees what is early, and memory that was given.
    slots.reset();
    assert_eq!((slots.free_places(), slots.in_state(Free), slots.has_early()), (1, 3, false));
}

#[test]
fn a_reader_is_a_callers_until_it_has_its_box_or_has_left() {
    let mut slots = slots();
    let one = slots.take_reader().unwrap();
    let other = slots.take_reader().unwrap();
    assert_eq!((slots.take_reader(), slots.free_readers()), (None, 0));
    assert_eq!(slots.reader_state(one), Some(Queued));
    let turn = slots.begin_reader(one.0).unwrap();
    // A batch that begins later has a later turn, and neither has the other's rows.
    assert!(slots.begin(SLOT, 2, 0) > turn);
    assert_eq!(slots.oldest_turn(), turn);
    let failure = Failure::new(Status::Decode);
    let to = Destination { slot: one.0, field: 0, sample: 0 };
    assert!(slots.fail(to, 3, (&failure, false)));
    assert_eq!(slots.failed_samples(SLOT), 0);
    assert!(slots.sub_remaining(one.0, 1) && !slots.complete(one.0, true));
    assert_eq!(slots.reader_state(one), Some(Failed));
    slots.end_reader(one.0);
    // One that leaves before it is planned is free when the planner comes to it.
    slots.drop_reader(other.0);
    assert_eq!(slots.free_readers(), 1);
    assert_eq!(slots.begin_reader(other.0), None);
    assert_eq!(slots.free_readers(), 2);
}

#[test]
fn a_reader_whose_caller_has_left_is_free_with_its_last_chunk() {
    let mut slots = slots();
    let reader = slots.take_reader().unwrap();
    slots.begin_reader(reader.0).unwrap();
    slots.add_remaining(reader.0, 2);
    slots.drop_reader(reader.0);
    assert!(!slots.sub_remaining(reader.0, 2));
    assert_eq!(slots.free_readers(), 1);
    assert!(slots.sub_remaining(reader.0, 1) && !slots.complete(reader.0, false));
    assert_eq!(slots.free_readers(), 2);
    let next = slots.take_reader().unwrap();
    assert!(next.0 == reader.0 && next.1 != reader.1);
    slots.reset();
    assert_eq!((slots.reader_state(next), slots.free_readers()), (None, 2));
}
