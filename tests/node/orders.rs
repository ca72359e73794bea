//! The batches that each consumer gets, with each order.

use crate::common::drive::PATIENCE_NS;
use crate::world::*;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use wavetrain::config::{Config, SHARE_ALL, SHARE_FIRST, SHARE_ROUND};
use wavetrain::loader::{Loader, Pop};
use wavetrain::os::{Os, SYSTEM};

fn tags_of(batch: u64) -> Vec<u64> {
    let first = batch * SAMPLES as u64;
    (first..first + SAMPLES as u64).collect()
}

fn owner(name: &str, order: u32, consumers: u32) -> Loader {
    let config = Config { share_order: order, ..config() };
    Loader::open_shared(&config, name, consumers).unwrap()
}

/// A cube, an owner, and all of its consumers.
fn opened<const N: usize>(test: &str, order: u32) -> (PathBuf, Loader, [Loader; N]) {
    let (cube, name) = (cube(test), own_name(test));
    let owner = owner(&name, order, N as u32);
    (cube, owner, std::array::from_fn(|number| attach(&name, number as u32)))
}

/// Runs two epochs of `batches` batches; the batches of each consumer, by epoch.
fn epochs(test: &str, order: u32, consumers: u32, batches: u64) -> Vec<Vec<Vec<(u64, Vec<u64>)>>> {
    let (cube, name) = (cube(test), own_name(test));
    let owner = owner(&name, order, consumers);
    thread::scope(|scope| {
        let takers: Vec<_> = (0..consumers)
            .map(|number| {
                let name = &name;
                scope.spawn(move || {
                    let consumer = attach(name, number);
                    let got = vec![epoch(&consumer), epoch(&consumer)];
                    close(consumer);
                    got
                })
            })
            .collect();
        for _ in 0..2 {
            push(&owner, &cube, 0..batches * SAMPLES as u64);
            owner.flush().unwrap();
            assert!(matches!(owner.pop(PATIENCE_NS).unwrap(), Pop::End));
        }
        let got = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
        close(owner);
        got
    })
}

#[test]
fn round_deals_batches_in_turn() {
    for (number, epochs) in epochs("round", SHARE_ROUND, 3, 31).iter().enumerate() {
        let mine = (0..62).filter(|batch| batch % 3 == number as u64);
        let mine: Vec<_> = mine.map(|batch| (batch, tags_of(batch % 31))).collect();
        assert_eq!(epochs.concat(), mine);
        assert!(epochs[0].iter().all(|(batch, _)| *batch < 31));
    }
}

#[test]
fn first_gives_each_batch_once() {
    let got = epochs("first", SHARE_FIRST, 3, 31);
    for epoch in 0..2 {
        let mut all: Vec<_> = got.iter().flat_map(|epochs| epochs[epoch].clone()).collect();
        all.sort();
        let first = epoch as u64 * 31;
        let want: Vec<_> = (0..31).map(|batch| (first + batch, tags_of(batch))).collect();
        assert_eq!(all, want);
    }
}

#[test]
fn all_give_each_batch_to_each() {
    for epochs in epochs("all", SHARE_ALL, 3, 31) {
        let all: Vec<_> = (0..62).map(|batch| (batch, tags_of(batch % 31))).collect();
        assert_eq!(epochs.concat(), all);
    }
}

#[test]
fn an_idle_consumer_leaves_its_batch_to_one_that_waits() {
    let (cube, owner, [idle, busy]) = opened("idle", SHARE_FIRST);
    push(&owner, &cube, 0..20);
    owner.flush().unwrap();
    let got = epoch(&busy);
    assert_eq!(got.len(), 10, "{got:?}");
    assert_eq!(next(&idle), Got::End);
    [idle, busy, owner].into_iter().for_each(close);
}

#[test]
fn batches_are_those_of_a_private_loader_digests_too() {
    let (cube, shared, [consumer]) = opened("digests", SHARE_ALL);
    let private = Loader::open(&config()).unwrap();
    for loader in [&private, &shared] {
        push(loader, &cube, 0..7);
        loader.flush().unwrap();
    }
    for _ in 0..4 {
        let (Pop::Batch(one), Pop::Batch(two)) =
            (private.pop(PATIENCE_NS).unwrap(), consumer.pop(PATIENCE_NS).unwrap())
        else {
            panic!("no batch");
        };
        assert_eq!((one.data(), one.tags()), (two.data(), two.tags()));
        assert_eq!((one.digests(), one.digest()), (two.digests(), two.digest()));
        assert_eq!(one.filled_shape(), two.filled_shape());
        assert_eq!((one.shape(), one.batch_id()), (two.shape(), two.batch_id()));
    }
    assert_eq!(next(&consumer), Got::End);
    [private, consumer, shared].into_iter().for_each(close);
}

thread_local! {
    /// Looks of a thread at the clock; None in threads that do not count them.
    static LOOKS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Threads that found no batch in their pop, and wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// A system that counts such threads: pop looks at the clock as it begins, and once it found none.
static COUNTED: Os = Os {
    now_ns: || {
        LOOKS.with(|looks| {
            looks.set(looks.get().map(|count| count + 1));
            WAITING.fetch_add(u32::from(looks.get() == Some(2)), SeqCst);
        });
        (SYSTEM.now_ns)()
    },
    ..SYSTEM
};

#[test]
fn the_end_is_for_each_pop_that_waits_for_it_as_of_a_private_loader() {
    const POPS: u32 = 4;
    let (cube, name) = (cube("threads"), own_name("threads"));
    let owner = owner(&name, SHARE_ROUND, 1);
    let consumer = Loader::attach_on(&COUNTED, &name, 0, PATIENCE_NS).unwrap();
    let private = Loader::open_on(&COUNTED, &config()).unwrap();
    for (fills, takes) in [(&private, &private), (&owner, &consumer), (&owner, &consumer)] {
        WAITING.store(0, SeqCst);
        thread::scope(|scope| {
            let pops = [(); POPS as usize].map(|()| {
                scope.spawn(|| {
                    LOOKS.set(Some(0));
                    matches!(takes.pop(10_000_000_000).unwrap(), Pop::End)
                })
            });
            while WAITING.load(SeqCst) < POPS {
                thread::yield_now();
            }
            fills.flush().unwrap();
            assert_eq!(pops.map(|pop| pop.join().unwrap()), [true; POPS as usize]);
        });
        // A pop that begins after that waits for the next samples.
        let again = takes.pop(0).unwrap();
        assert!(matches!(again, Pop::End) == std::ptr::eq(takes, &private));
        push(fills, &cube, 0..4);
        fills.flush().unwrap();
        assert_eq!(epoch(takes).len(), 2);
        push(fills, &cube, 0..1);
        fills.reset().unwrap();
        assert!(std::ptr::eq(takes, &private) || next(takes) == Got::Reset);
    }
    [private, consumer, owner].into_iter().for_each(close);
}

#[test]
fn the_owner_takes_batches_as_consumer_0() {
    let (cube, name) = (cube("owner"), own_name("owner"));
    let config = Config { share_owner: 1, ..config() };
    let owner = Loader::open_shared(&config, &name, 2).unwrap();
    let other = attach(&name, 1);
    push(&owner, &cube, 0..8);
    owner.flush().unwrap();
    let own = epoch(&owner);
    assert_eq!(own, [(0, tags_of(0)), (2, tags_of(2))]);
    assert_eq!(epoch(&other), [(1, tags_of(1)), (3, tags_of(3))]);
    push(&owner, &cube, 0..4);
    let Pop::Batch(held) = owner.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
    assert_eq!(check(&held), (4, tags_of(0)));
    drop(held);
    [other, owner].into_iter().for_each(close);
}

#[test]
fn a_reset_drops_batches_that_were_not_taken_and_is_reported_once() {
    for order in [SHARE_ROUND, SHARE_FIRST, SHARE_ALL] {
        let (cube, owner, consumers) = opened::<2>("reset", order);
        push(&owner, &cube, 0..8);
        let Pop::Batch(held) = consumers[0].pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        assert_eq!(check(&held), (0, tags_of(0)));
        owner.reset().unwrap();
        assert_eq!(check(&held), (0, tags_of(0)));
        assert!(consumers.iter().all(|consumer| next(consumer) == Got::Reset));
        push(&owner, &cube, 40..48);
        owner.flush().unwrap();
        let mut got: Vec<_> = thread::scope(|scope| {
            let all = consumers.each_ref().map(|consumer| scope.spawn(|| epoch(consumer)));
            all.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        got.sort();
        got.dedup();
        let want: Vec<_> = (0..4).map(|batch| (batch, tags_of(20 + batch))).collect();
        assert_eq!(got, want);
        drop(held);
        consumers.into_iter().for_each(close);
        close(owner);
    }
}

#[test]
fn a_failing_batch_ends_the_list_of_all_until_a_reset() {
    let (cube, owner, consumers) = opened::<2>("failing", SHARE_ROUND);
    push(&owner, &cube, 0..4);
    push(&owner, &cube.with_file_name("absent"), 4..6);
    push(&owner, &cube, 6..8);
    for (number, consumer) in consumers.iter().enumerate() {
        assert_eq!(next(consumer), Got::Batch(number as u64, tags_of(number as u64)));
        let failure = consumer.pop(PATIENCE_NS).err().unwrap();
        assert_eq!((failure.status, failure.tag), (wavetrain::status::Status::NotFound, 4));
        assert!(failure.text.as_str().contains("absent"), "{failure}");
        assert_eq!(next(consumer), Got::Failed(wavetrain::status::Status::NotFound));
    }
    owner.reset().unwrap();
    push(&owner, &cube, 0..4);
    for (number, consumer) in consumers.iter().enumerate() {
        assert_eq!(next(consumer), Got::Reset);
        assert_eq!(next(consumer), Got::Batch(number as u64, tags_of(number as u64)));
    }
    consumers.into_iter().for_each(close);
    close(owner);
}

#[test]
fn a_consumer_that_sleeps_stalls_the_others_once_slots_are_used_up() {
    let (cube, owner, [asleep, awake]) = opened("asleep", SHARE_ROUND);
    push(&owner, &cube, 0..60);
    // Five slots: 0, 2, 4, 6 and 8 wait for the one that sleeps.
    for batch in [1, 3, 5, 7] {
        assert_eq!(next(&awake), Got::Batch(batch, tags_of(batch)));
    }
    let Pop::Starved(_) = awake.pop(200_000_000).unwrap() else { panic!("a sixth slot") };
    let Pop::Starved(why) = owner.pop(1).unwrap() else { panic!("not stalled") };
    let text = why.as_str();
    assert!(text.contains("consumer 0 has 5 of them, 5 not popped"), "{text}");
    for batch in [0, 2, 4, 6, 8, 10] {
        assert_eq!(next(&asleep), Got::Batch(batch, tags_of(batch)));
    }
    assert_eq!(next(&awake), Got::Batch(9, tags_of(9)));
    [asleep, awake, owner].into_iter().for_each(close);
}

#[test]
fn a_tensor_keeps_its_slot_after_the_release() {
    let (cube, name) = (cube("tensors"), own_name("tensors"));
    let config = Config { n_batch_slots: 2, ..config() };
    let owner = Loader::open_shared(&config, &name, 1).unwrap();
    let consumer = attach(&name, 0);
    push(&owner, &cube, 0..8);
    let mut tensors = Vec::new();
    for batch in 0..2 {
        let Pop::Batch(popped) = consumer.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        assert_eq!(popped.batch_id(), batch);
        tensors.push(popped.dlpack().unwrap().unwrap());
    }
    thread::sleep(Duration::from_millis(20));
    let Pop::Again(why) = consumer.pop(0).unwrap() else { panic!("a third slot") };
    let fix =
        "holds 2 of 2 batch slots, 2 of them by tensors: release a batch, or delete its tensors";
    assert!(why.as_str().contains(fix), "{why}");
    let status = consumer.stats().unwrap().batches_held;
    assert_eq!(status, 2);
    for tensor in tensors {
        // SAFETY: the tensor lives, and is deleted once.
        unsafe { tensor.as_ref().deleter.unwrap()(tensor.as_ptr()) };
    }
    assert_eq!(next(&consumer), Got::Batch(2, tags_of(2)));
    [consumer, owner].into_iter().for_each(close);
}

#[test]
fn the_limit_of_a_run_is_named_by_the_owner_and_by_its_consumer() {
    const BATCHES: u64 = 12;
    let nap = |ms| thread::sleep(Duration::from_millis(ms));
    for (push_ms, take_ms, of_owner, of_consumer) in [
        (20, 0, "push: samples are missing", "owner: its batches are missing for"),
        (0, 20, "consumers: none has a batch in wait", "caller: pops wait for"),
    ] {
        let (cube, owner, [consumer]) = opened::<1>(&format!("limit{push_ms}"), SHARE_ROUND);
        thread::scope(|scope| {
            scope.spawn(|| {
                for batch in 0..BATCHES {
                    nap(push_ms);
                    push(&owner, &cube, batch * SAMPLES as u64..(batch + 1) * SAMPLES as u64);
                }
                owner.flush().unwrap();
            });
            while let Pop::Batch(batch) = consumer.pop(PATIENCE_NS).unwrap() {
                nap(take_ms);
                drop(batch);
            }
        });
        for (loader, words) in [(&owner, of_owner), (&consumer, of_consumer)] {
            let text = loader.stats().unwrap().limit_text;
            let text: String = text.iter().map(|byte| *byte as u8 as char).collect();
            assert!(text.contains(words), "{words}: {text}");
        }
        close(consumer);
        close(owner);
    }
}
