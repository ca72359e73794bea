use super::slots::*;
use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::base::limits::TENSORS_PER_SLOT;
use crate::base::status::{Failure, Status};
use crate::records::Destination;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SLOT: BatchSlot = BatchSlot(0);

/// One slot for two samples.
fn slots() -> Slots {
    slots_with(false)
}

/// The same, of samples that have a digest or none.
fn slots_with(has_digest: bool) -> Slots {
    let mut carver = Carver::leaked(1 << 15);
    let per_sample = PerSample { boxes: 1, filled_shape: 1, takes_fed: false, has_digest };
    Slots::carve(&mut carver, (1, 2), &per_sample)
}

/// The slot with a popped batch.
fn held() -> Slots {
    let mut slots = slots();
    slots.begin(SLOT, 2);
    assert!(slots.sub_remaining(SLOT, 1));
    assert_eq!(slots.complete(SLOT, false), SlotState::Ready);
    slots.pop(SLOT, 7);
    slots
}

use SlotState::{
    Digesting, Exported, Failed, Fenced, Filling, Free, Held, Patching, Ready, Releasing,
};

const STATES: [SlotState; 10] =
    [Free, Filling, Patching, Digesting, Ready, Failed, Held, Releasing, Exported, Fenced];

/// The slot, brought to a state.
fn in_state(state: SlotState) -> Slots {
    let mut slots = match state {
        Free => slots(),
        Digesting => slots_with(true),
        _ => held(),
    };
    match state {
        Free | Held => {}
        Digesting => {
            slots.begin(SLOT, 2);
            assert!(slots.sub_remaining(SLOT, 1));
            assert_eq!(slots.complete(SLOT, false), Digesting);
        }
        Releasing => slots.release(SLOT),
        Exported | Fenced => {
            let tensor = (state == Exported).then(|| slots.take_tensor(SLOT, 0).unwrap());
            assert!(tensor.is_none() || tensor == Some(0));
            slots.release(SLOT);
            assert!(!slots.released(SLOT, true));
        }
        Filling | Patching | Ready | Failed => {
            slots.release(SLOT);
            assert!(slots.released(SLOT, false));
            slots.begin(SLOT, 2);
            if state != Filling {
                let to = Destination { slot: SLOT, field: 0, sample: 1 };
                if state != Ready {
                    slots.fail(to, 0, &Failure::new(Status::Decode));
                }
                assert!(slots.sub_remaining(SLOT, 1));
                assert_eq!(slots.complete(SLOT, state == Patching), state);
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
        (|slots| assert_ne!(slots.begin(SLOT, 2), u64::MAX), Free, Filling),
        (
            |slots| {
                assert!(slots.sub_remaining(SLOT, 1));
                slots.complete(SLOT, false);
            },
            Filling,
            Ready,
        ),
        (|slots| assert_eq!(slots.patched(SLOT), Ready), Patching, Ready),
        (|slots| slots.digested(SLOT), Digesting, Ready),
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
        let is_stream = matches!(state, Filling | Patching | Digesting | Ready | Failed);
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
                slots.fail(to, 0, &Failure::new(Status::Decode));
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
    slots.begin(SLOT, 2);
    slots.fail(Destination { slot: SLOT, field: 0, sample: 1 }, 0, &Failure::new(status));
    assert!(slots.sub_remaining(SLOT, 1));
    slots.complete(SLOT, skip)
}

#[test]
fn skip_goes_on_after_faults_of_the_data_only() {
    assert_eq!(completed(Status::Decode, false), SlotState::Failed);
    assert_eq!(completed(Status::Decode, true), SlotState::Patching);
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
fn failed_samples_are_filled_before_a_batch_is_digested() {
    let mut slots = slots_with(true);
    slots.begin(SLOT, 2);
    let to = Destination { slot: SLOT, field: 0, sample: 1 };
    slots.fail(to, 0, &Failure::new(Status::Decode));
    assert!(slots.sub_remaining(SLOT, 1));
    assert_eq!(slots.complete(SLOT, true), Patching);
    assert_eq!(slots.patched(SLOT), Digesting);
    slots.digested(SLOT);
    assert_eq!(slots.state(SLOT), Ready);
}
