use super::file_record::{FilePhase, Lease, LeaseOutcome};
use super::files::*;
use crate::base::arena::Carver;
use crate::base::indexes::FileSlot;
use crate::os::FileStat;
use std::panic::{AssertUnwindSafe, catch_unwind};

const OPEN: i32 = 7;
const STAT: FileStat = FileStat { modified_ns: 1, ..FileStat::of_bytes(9) };

fn lease(files: &mut FileTable) -> Option<Lease> {
    match files.lease(1, 2, None, None) {
        LeaseOutcome::Leased(lease) => Some(lease),
        LeaseOutcome::Busy => None,
    }
}

/// A table of one file, and the leases that are out.
fn in_phase(phase: FilePhase) -> (FileTable, std::vec::Vec<Lease>) {
    let mut files = FileTable::carve(&mut Carver::leaked(1 << 16), 1, 1);
    let mut leases = std::vec![lease(&mut files).unwrap()];
    match phase {
        FilePhase::Opening => {}
        FilePhase::Closed => {
            assert_eq!(files.give_back(&leases.remove(0), None, None), None);
        }
        FilePhase::Idle | FilePhase::Used | FilePhase::Stale => {
            assert_eq!(files.give_back(&leases.remove(0), Some(OPEN), Some(STAT)), None);
            if phase != FilePhase::Idle {
                leases.push(lease(&mut files).unwrap());
            }
            if phase == FilePhase::Stale {
                files.set_stale(FileSlot(0));
            }
        }
    }
    assert_eq!(files.phase(FileSlot(0)), phase);
    (files, leases)
}

use FilePhase::{Closed, Idle, Opening, Stale, Used};

const PHASES: [FilePhase; 5] = [Closed, Opening, Idle, Used, Stale];

#[test]
fn a_file_is_opened_by_one_and_used_by_many_and_left_alone_once_it_is_stale() {
    for (phase, after) in
        [(Closed, Some(Opening)), (Opening, None), (Idle, Some(Used)), (Used, Some(Used))]
    {
        let (mut files, _leases) = in_phase(phase);
        let given = lease(&mut files);
        assert_eq!(given.is_some(), after.is_some(), "{phase:?}");
        assert_eq!(files.phase(FileSlot(0)), after.unwrap_or(phase));
        assert_eq!(given.is_some_and(|lease| lease.open.is_none()), phase == Closed);
    }
    assert!(lease(&mut in_phase(Stale).0).is_none());
}

#[test]
fn a_lease_that_ends_leaves_what_the_drawing_says() {
    for (phase, open, after, closed) in [
        (Opening, Some(OPEN), Idle, None),
        (Opening, None, Closed, None),
        (Used, Some(OPEN), Idle, None),
        (Stale, Some(OPEN), Closed, Some(OPEN)),
    ] {
        let (mut files, leases) = in_phase(phase);
        assert_eq!(files.give_back(&leases[0], open, Some(STAT)), closed, "{phase:?}");
        assert_eq!(files.phase(FileSlot(0)), after, "{phase:?}");
    }
}

#[test]
fn the_last_of_several_leases_closes_a_stale_file() {
    let (mut files, mut leases) = in_phase(Used);
    leases.push(lease(&mut files).unwrap());
    files.set_stale(FileSlot(0));
    assert_eq!(files.give_back(&leases[0], Some(OPEN), Some(STAT)), None);
    assert_eq!(files.phase(FileSlot(0)), Stale);
    assert_eq!(files.give_back(&leases[1], Some(OPEN), Some(STAT)), Some(OPEN));
    assert_eq!(files.phase(FileSlot(0)), Closed);
}

#[test]
fn a_lease_that_ends_twice_and_a_file_that_goes_stale_unused_are_our_defects() {
    let refuses = |phase, step: fn(&mut FileTable, &Lease)| {
        let lease = in_phase(if phase == Closed { Opening } else { Used }).1.remove(0);
        let (mut files, _) = in_phase(phase);
        catch_unwind(AssertUnwindSafe(|| step(&mut files, &lease))).is_err()
    };
    for phase in [Closed, Idle] {
        assert!(refuses(phase, |files, lease| assert!(
            files.give_back(lease, Some(OPEN), None).is_none()
        )));
    }
    for phase in PHASES {
        let is_used = matches!(phase, Used | Stale);
        assert_eq!(refuses(phase, |files, _| files.set_stale(FileSlot(0))), !is_used, "{phase:?}");
    }
}

#[test]
fn a_descriptor_is_taken_from_idle_files_alone() {
    for phase in PHASES {
        let (mut files, _leases) = in_phase(phase);
        let expected = (phase == Idle).then_some(OPEN);
        assert_eq!(files.drain(), expected, "{phase:?}");
        let (mut files, _leases) = in_phase(phase);
        assert_eq!(files.forget(FileSlot(0)), expected, "{phase:?}");
        assert_eq!(files.find(1, 2), None);
    }
}
