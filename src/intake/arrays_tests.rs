use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

use ArrayState::{Alias, Empty, Failed, Loading, Queued, QueuedLarge, Ready};

const SLOT: ArraySlot = ArraySlot(0);
const FAILED: ArrayState = Failed(Status::Io);
const STATES: [ArrayState; 7] = [Empty, Queued, QueuedLarge, Loading, Ready, Alias, FAILED];

/// A cache of one array, brought to a state.
fn in_state(state: ArrayState) -> Arrays {
    let mut carver = Carver::leaked(1 << 20);
    let mut arrays = Arrays::carve(&mut carver, 1, false);
    if state != Empty {
        assert_eq!(arrays.load(b"a", hash_bytes(b"a"), None), Some(SLOT));
    }
    if !matches!(state, Empty | Queued) {
        assert_eq!(arrays.next_queued(false), Some((SLOT, false)));
    }
    match state {
        Empty | Queued | Loading => {}
        QueuedLarge => arrays.requeue(SLOT, true),
        end => arrays.finish(SLOT, end, &Why::new()),
    }
    assert_eq!(arrays.state(SLOT), state);
    arrays
}

#[test]
fn an_entry_goes_where_its_drawing_says_and_nowhere_else() {
    type Step = fn(&mut Arrays);
    let ends: [(Step, &[ArrayState], ArrayState); 6] = [
        (|arrays| arrays.requeue(SLOT, false), &[Loading], Queued),
        (|arrays| arrays.requeue(SLOT, true), &[Loading], QueuedLarge),
        (|arrays| arrays.finish(SLOT, Ready, &Why::new()), &[Loading], Ready),
        (|arrays| arrays.finish(SLOT, Alias, &Why::new()), &[Loading], Alias),
        (|arrays| arrays.finish(SLOT, FAILED, &Why::new()), &[Loading], FAILED),
        (|arrays| arrays.forget_failed(SLOT), &[FAILED], Empty),
    ];
    for (number, (step, from, to)) in ends.into_iter().enumerate() {
        for state in STATES {
            let mut arrays = in_state(state);
            let went = catch_unwind(AssertUnwindSafe(|| step(&mut arrays))).is_ok();
            assert_eq!(went, from.contains(&state), "step {number} from {state:?}");
            assert_eq!(arrays.state(SLOT), if went { to } else { state }, "step {number}");
        }
    }
}

#[test]
fn steps_that_find_no_entry_change_none() {
    for state in STATES {
        let mut arrays = in_state(state);
        let is_queued = matches!(state, Queued | QueuedLarge);
        let taken = is_queued.then_some((SLOT, state == QueuedLarge));
        assert_eq!(arrays.next_queued(true), taken, "{state:?}");
        assert_eq!(arrays.state(SLOT), if is_queued { Loading } else { state });

        let mut arrays = in_state(state);
        let id = arrays.id(SLOT);
        assert_eq!(arrays.needs_rows(SLOT, id, false), state == Ready);
        assert_eq!(arrays.state(SLOT), state);
        assert!(!arrays.needs_rows(SLOT, id, true));
        assert_eq!(arrays.state(SLOT), if state == Ready { Empty } else { state });

        let mut arrays = in_state(state);
        let is_pinned = is_queued || state == Loading;
        let loaded = arrays.load(b"b", hash_bytes(b"b"), None);
        assert_eq!(loaded, (!is_pinned).then_some(SLOT), "{state:?}");
        assert_eq!(arrays.state(SLOT), if is_pinned { state } else { Queued });
    }
}

#[test]
fn only_the_steps_that_are_drawn_lead_on() {
    let drawn = [
        (Empty, &[Empty, Queued][..]),
        (Queued, &[Loading]),
        (QueuedLarge, &[Loading]),
        (Loading, &[Queued, QueuedLarge, Ready, Alias, FAILED]),
        (Ready, &[Empty]),
        (Alias, &[Empty]),
        (FAILED, &[Empty]),
    ];
    for (from, to) in drawn {
        let leads: Vec<_> = STATES.into_iter().filter(|state| from.leads_to(*state)).collect();
        assert!(
            leads.len() == to.len() && to.iter().all(|state| leads.contains(state)),
            "{from:?}"
        );
    }
}

#[test]
fn a_uri_is_found_by_the_one_that_stands_for_it() {
    let (uri, target) = ("/data/image#level=1", "/data/image/1");
    let hash_of = |text: &str| hash_bytes(text.as_bytes());
    let mut arrays = Arrays::carve(&mut Carver::leaked(1 << 20), 2, false);
    let alias = arrays.load(uri.as_bytes(), hash_of(uri), None).unwrap();
    assert_eq!(arrays.next_queued(false), Some((alias, false)));
    arrays.set_target(alias, &Target::of(uri, target).unwrap(), &Placement::NONE);
    arrays.finish(alias, Alias, &Why::new());
    assert_eq!(arrays.find_target(uri.as_bytes(), hash_of(uri)), None);
    let array = arrays.load(target.as_bytes(), hash_of(target), None);
    assert!(array.is_some() && array != Some(alias));
    assert_eq!(arrays.find_target(uri.as_bytes(), hash_of(uri)), array);
}
