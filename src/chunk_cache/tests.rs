//! Facts of the chunk cache one by one. Random histories are in `model_tests`.

use super::order::LATEST_MAX;
use super::*;
use crate::base::bill::{Item, Kind};
use std::vec::Vec;
use std::{iter, vec};

const GRANULE: u64 = GRANULE_BYTES;

/// A cache in memory of its own, which was not zero before.
pub(super) fn cache(cache_bytes: u64, uses_max: u32, waiters_max: u32) -> ChunkCache {
    let need = table_bytes(cache_bytes, uses_max, waiters_max);
    ChunkCache::carve(&mut Carver::leaked(need as usize), cache_bytes, uses_max, waiters_max)
}

fn table_bytes(cache_bytes: u64, uses_max: u32, waiters_max: u32) -> u64 {
    let mut counting = Carver::counting();
    ChunkCache::carve(&mut counting, cache_bytes, uses_max, waiters_max);
    assert!(counting.bill().lines().iter().all(|line| line.item == Item::ChunkCacheTables));
    counting.bill().total(Kind::Host)
}

fn key(chunk: u64) -> ChunkKey {
    ChunkKey { array_id: 7, file: 3, chunk }
}

/// Inserts a chunk that is ready at once.
fn hold(cache: &mut ChunkCache, chunk: u64, granules: u64) -> Option<Slot> {
    cache.insert(key(chunk), granules * GRANULE).inspect(|slot| cache.set_ready(*slot))
}

fn held(cache: &ChunkCache) -> Vec<u64> {
    (0..100).filter(|chunk| cache.find(key(*chunk)).is_some()).collect()
}

#[test]
fn a_cache_of_no_bytes_takes_no_memory_and_holds_nothing() {
    assert_eq!(table_bytes(0, 1000, 1000), 0);
    let mut cache = cache(0, 1000, 1000);
    assert!(cache.foresee(key(1), 5));
    assert_eq!(cache.insert(key(1), 1), None);
    assert_eq!(cache.find(key(1)), None);
    cache.pass_chunk(key(1), 5);
    cache.pass(6);
    cache.invalidate(|_| true);
    cache.clear();
    assert_eq!((cache.held_bytes(), cache.evictions()), (0, 0));
}

#[test]
fn tables_are_below_one_percent_of_the_cache() {
    for shift in [30, 34, 36] {
        let cache_bytes = 1 << shift;
        assert!(table_bytes(cache_bytes, 1 << 14, 1 << 12) * 100 < cache_bytes);
    }
}

#[test]
fn the_chunk_used_last_leaves_first() {
    let mut cache = cache(3 * GRANULE, 16, 0);
    for (time, chunk) in [2, 4, 1, 3].into_iter().enumerate() {
        cache.foresee(key(chunk), time as u64);
    }
    for chunk in [1, 2, 3] {
        hold(&mut cache, chunk, 1).unwrap();
    }
    assert!(hold(&mut cache, 4, 1).is_some());
    assert_eq!(held(&cache), [1, 2, 4]);
    assert_eq!(cache.evictions(), 1);
}

#[test]
fn a_chunk_that_is_used_later_than_all_others_is_not_kept() {
    let mut cache = cache(2 * GRANULE, 16, 0);
    for chunk in [1, 2, 3] {
        cache.foresee(key(chunk), chunk);
    }
    hold(&mut cache, 1, 1).unwrap();
    hold(&mut cache, 2, 1).unwrap();
    assert_eq!(hold(&mut cache, 3, 1), None);
    assert_eq!(held(&cache), [1, 2]);
}

#[test]
fn a_chunk_without_a_next_use_takes_free_room_only() {
    let mut cache = cache(2 * GRANULE, 16, 0);
    hold(&mut cache, 1, 1).unwrap();
    hold(&mut cache, 2, 1).unwrap();
    assert_eq!(hold(&mut cache, 3, 1), None);
    cache.foresee(key(3), 9);
    assert!(hold(&mut cache, 3, 1).is_some());
    assert_eq!(held(&cache), [2, 3]);
}

#[test]
fn a_chunk_that_the_batch_has_yet_to_come_to_stays() {
    let mut cache = cache(GRANULE, 16, 0);
    for (chunk, time) in [(1, 0), (2, 1), (2, 20), (1, 30)] {
        cache.foresee(key(chunk), time);
    }
    hold(&mut cache, 2, 1).unwrap();
    cache.pass_chunk(key(1), 10);
    assert_eq!(hold(&mut cache, 1, 1), None);
    cache.pass_chunk(key(2), 10);
    assert_eq!(held(&cache), [2]);
}

#[test]
fn a_full_table_of_uses_says_so_and_goes_on_when_uses_are_over() {
    let mut cache = cache(GRANULE, 2, 0);
    assert!(cache.foresee(key(1), 1));
    assert!(cache.foresee(key(2), 2));
    assert!(!cache.foresee(key(3), 2));
    cache.pass(1);
    assert!(!cache.foresee(key(3), 2));
    cache.pass(2);
    assert!(cache.foresee(key(3), 2));
    assert!(hold(&mut cache, 9, 1).is_some());
    assert!(hold(&mut cache, 3, 1).is_some());
}

#[test]
fn a_sample_may_be_walked_again_from_its_start() {
    let mut cache = cache(GRANULE, 3, 0);
    assert!(cache.foresee(key(1), 0));
    for _ in 0..2 {
        assert!(cache.foresee(key(1), 5));
        assert!(cache.foresee(key(2), 5));
    }
    assert!(!cache.foresee(key(3), 5));
}

#[test]
fn keys_without_use_or_place_take_no_room() {
    let mut cache = cache(GRANULE, 2, 0);
    for time in 0..1000 {
        assert!(cache.foresee(key(time), time));
        let slot = hold(&mut cache, time, 1);
        cache.pass(time + 1);
        assert_eq!(slot, Some(0));
    }
    assert_eq!(cache.evictions(), 999);
}

#[test]
fn a_use_that_is_over_is_not_foreseen() {
    let mut cache = cache(GRANULE, 1, 0);
    cache.pass(10);
    assert!(cache.foresee(key(1), 9));
    assert!(cache.foresee(key(2), 10));
    assert!(!cache.foresee(key(3), 10));
}

#[test]
fn a_pinned_chunk_is_not_evicted_and_a_pending_one_neither() {
    let mut cache = cache(2 * GRANULE, 4, 0);
    let pinned = hold(&mut cache, 1, 1).unwrap();
    cache.pin(pinned);
    let pending = cache.insert(key(2), 1).unwrap();
    cache.foresee(key(3), 1);
    assert_eq!(hold(&mut cache, 3, 1), None);
    cache.set_ready(pending);
    assert_eq!(hold(&mut cache, 3, 1), Some(pending));
    assert_eq!(cache.find(key(1)), Some((pinned, true)));
}

#[test]
fn the_place_of_an_abandoned_chunk_is_free_when_it_is_unpinned() {
    let mut cache = cache(GRANULE, 4, 0);
    let slot = cache.insert(key(1), 5).unwrap();
    assert_eq!(cache.find(key(1)), Some((slot, false)));
    cache.pin(slot);
    cache.abandon(slot);
    assert_eq!(cache.find(key(1)), None);
    assert_eq!(cache.insert(key(1), 5), None);
    assert_eq!(cache.held_bytes(), 5);
    cache.unpin(slot);
    assert_eq!(cache.held_bytes(), 0);
    assert_eq!(cache.insert(key(1), 5), Some(slot));
}

#[test]
fn what_runs_when_all_is_invalidated_keeps_its_place_until_it_lets_go() {
    let mut cache = cache(4 * GRANULE, 4, 0);
    let [pinned, pending, _] = [1, 2, 3].map(|chunk| cache.insert(key(chunk), 9).unwrap());
    cache.pin(pinned);
    cache.set_ready(pinned);
    cache.invalidate(|_| true);
    assert!(held(&cache).is_empty());
    let again = cache.insert(key(1), 9).unwrap();
    assert!(again != pinned && again != pending);
    cache.unpin(pinned);
    cache.set_ready(pending);
    assert_eq!(cache.held_bytes(), 18);
    assert_eq!(cache.find(key(1)), Some((again, false)));
}

#[test]
fn foreseen_uses_outlive_an_invalidation() {
    let mut cache = cache(GRANULE, 4, 0);
    cache.foresee(key(1), 5);
    hold(&mut cache, 1, 1).unwrap();
    cache.invalidate(|_| true);
    hold(&mut cache, 2, 1).unwrap();
    assert!(hold(&mut cache, 1, 1).is_some());
}

#[test]
fn after_clear_time_starts_again_and_all_room_is_there() {
    let mut cache = cache(2 * GRANULE, 2, 4);
    cache.foresee(key(1), 50);
    cache.foresee(key(2), 60);
    cache.pass(55);
    let slot = cache.insert(key(1), 1).unwrap();
    cache.pin(slot);
    cache.add_waiter(slot, 2);
    cache.clear();
    assert_eq!((held(&cache), cache.held_bytes()), (vec![], 0));
    assert!(cache.foresee(key(3), 0));
    assert!(cache.foresee(key(3), 1));
    let slot = hold(&mut cache, 3, 2).unwrap();
    cache.add_waiter(slot, 2);
    assert_eq!(cache.take_waiter(slot), Some(2));
}

#[test]
fn waiters_come_out_once_in_the_order_in_which_they_came() {
    let mut cache = cache(2 * GRANULE, 0, 8);
    let [one, two] = [1, 2].map(|chunk| cache.insert(key(chunk), 1).unwrap());
    for number in [5, 0, 7] {
        cache.add_waiter(one, number);
    }
    cache.add_waiter(two, 3);
    let mut taken = |slot| iter::from_fn(|| cache.take_waiter(slot)).collect::<Vec<_>>();
    assert_eq!(taken(one), [5, 0, 7]);
    assert!(taken(one).is_empty());
    assert_eq!(taken(two), [3]);
}

#[test]
fn a_slot_takes_new_waiters_after_all_were_taken() {
    let mut cache = cache(GRANULE, 0, 8);
    let slot = cache.insert(key(1), 1).unwrap();
    for number in [5, 2] {
        cache.add_waiter(slot, number);
        assert_eq!(cache.take_waiter(slot), Some(number));
        assert_eq!(cache.take_waiter(slot), None);
    }
}

#[test]
#[should_panic]
fn a_waiter_waits_for_one_slot_only() {
    let mut cache = cache(2 * GRANULE, 0, 8);
    let [one, two] = [1, 2].map(|chunk| cache.insert(key(chunk), 1).unwrap());
    cache.add_waiter(one, 5);
    cache.add_waiter(two, 5);
}

#[test]
#[should_panic]
fn a_slot_is_not_freed_under_its_waiters() {
    let mut cache = cache(GRANULE, 0, 8);
    let slot = cache.insert(key(1), 1).unwrap();
    cache.add_waiter(slot, 5);
    cache.abandon(slot);
}

#[test]
fn an_insertion_evicts_at_most_its_bound_and_nothing_in_vain() {
    let count = EVICTIONS_MAX as u64 + 1;
    let mut cache = cache(count * GRANULE, 4, 0);
    for chunk in 0..count {
        hold(&mut cache, chunk, 1).unwrap();
    }
    cache.foresee(key(count), 1);
    assert_eq!(hold(&mut cache, count, count), None);
    assert_eq!(held(&cache).len() as u64, count);
    assert!(hold(&mut cache, count, count - 1).is_some());
    assert_eq!(cache.evictions(), count - 1);
}

#[test]
fn a_large_chunk_evicts_the_neighbours_that_are_used_latest() {
    let mut cache = cache(6 * GRANULE, 16, 0);
    for (time, chunk) in [9, 0, 5, 3, 1, 2, 4].into_iter().enumerate() {
        cache.foresee(key(chunk), time as u64);
    }
    // In memory: uses at 1, 4, 5, 3, 6, 2. The latest, 6, has sooner neighbours than 4 and 5.
    for chunk in 0..6 {
        hold(&mut cache, chunk, 1).unwrap();
    }
    assert!(hold(&mut cache, 9, 2).is_some());
    assert_eq!(held(&cache), [0, 3, 4, 5, 9]);
}

#[test]
fn a_chunk_that_is_not_needed_for_the_room_stays() {
    // One window is looked at: all chunks but the last of those that go first stand alone.
    let alone = LATEST_MAX as u64 - 1;
    let mut cache = cache((2 * alone + 5) * GRANULE, 16, 0);
    for chunk in 100..100 + 2 * alone {
        let slot = hold(&mut cache, chunk, 1).unwrap();
        if chunk % 2 == 1 {
            cache.pin(slot);
        }
    }
    for (time, chunk) in [9, 3, 2, 0, 1].into_iter().enumerate() {
        cache.foresee(key(chunk), time as u64);
    }
    // In memory: uses at 3, 4, 2 (two granules), 1. Chunk 0 is used later than 2, and too small.
    for (chunk, granules) in [(0, 1), (1, 1), (2, 2), (3, 1)] {
        hold(&mut cache, chunk, granules).unwrap();
    }
    assert!(hold(&mut cache, 9, 3).is_some());
    assert_eq!(held(&cache), [0, 3, 9]);
}

#[test]
fn free_neighbours_of_a_victim_are_used() {
    let mut cache = cache(4 * GRANULE, 16, 0);
    for (time, chunk) in [9, 1, 3, 2].into_iter().enumerate() {
        cache.foresee(key(chunk), time as u64);
    }
    let [hole, ..] = [0, 1, 2, 3].map(|chunk| cache.insert(key(chunk), 1).unwrap());
    (1..4).for_each(|slot| cache.set_ready(slot));
    cache.abandon(hole);
    assert_eq!(hold(&mut cache, 9, 3), Some(0));
    assert_eq!(held(&cache), [3, 9]);
}

#[test]
fn a_chunk_larger_than_the_cache_is_not_kept() {
    let mut cache = cache(2 * GRANULE, 4, 0);
    cache.foresee(key(1), 1);
    assert_eq!(cache.insert(key(1), 2 * GRANULE + 1), None);
    assert_eq!(cache.insert(key(1), CHUNK_BYTES_MAX), None);
    assert!(cache.insert(key(1), 2 * GRANULE).is_some());
}
