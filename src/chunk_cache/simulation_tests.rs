//! What the cache saves on random crops, against Belady's rule without a memory to fit things in.
//!
//! The ideal knows the same lookahead and evicts by the same rule, but its cache is a number of
//! bytes: chunks of any sizes fit together without gaps. What lies between is fragmentation.

use super::tests::cache;
use super::*;
use crate::base::cache::hash_words;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

/// A volume of cubic chunks.
#[derive(Clone, Copy)]
struct Volume {
    grid: [u64; 3],
    chunk: [u64; 3],
    element_bytes: u64,
}

impl Volume {
    fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.element_bytes
    }
}

struct Workload {
    volumes: Vec<Volume>,
    crop: [u64; 3],
    samples: u64,
    batch: u64,
    lookahead: u64,
    cache_bytes: u64,
    /// Chunks that are pinned by jobs at a time.
    in_flight: usize,
}

/// Chunks of each sample: a random crop of a random volume.
fn samples(workload: &Workload) -> Vec<Vec<(ChunkKey, u64)>> {
    let mut state = 11u64;
    let mut random = |limit: u64| {
        state = hash_words(&[state]);
        (state >> 16) % limit
    };
    let sample = |_| {
        let array_id = random(workload.volumes.len() as u64);
        let volume = workload.volumes[array_id as usize];
        let mut ranges = [(0, 0); 3];
        for axis in 0..3 {
            let extent = volume.grid[axis] * volume.chunk[axis];
            let begin = random(extent - workload.crop[axis] + 1);
            let end = begin + workload.crop[axis];
            ranges[axis] = (begin / volume.chunk[axis], end.div_ceil(volume.chunk[axis]));
        }
        let [z, y, x] = ranges;
        let mut chunks = Vec::new();
        for at in (z.0..z.1).flat_map(|z| (y.0..y.1).map(move |y| (z, y))) {
            for x in x.0..x.1 {
                let chunk = (at.0 * volume.grid[1] + at.1) * volume.grid[2] + x;
                chunks.push((ChunkKey { array_id, file: 0, chunk }, volume.chunk_bytes()));
            }
        }
        chunks
    };
    (0..workload.samples).map(sample).collect()
}

/// Calls `visit(batch_first, batch_limit, chunks)` for every batch, each chunk once.
fn each_batch(
    samples: &[Vec<(ChunkKey, u64)>],
    batch: u64,
    mut visit: impl FnMut(u64, u64, BTreeSet<(ChunkKey, u64)>),
) {
    for first in (0..samples.len() as u64).step_by(batch as usize) {
        let limit = (first + batch).min(samples.len() as u64);
        let rows = &samples[first as usize..limit as usize];
        visit(first, limit, rows.iter().flatten().copied().collect());
    }
}

/// Bytes touched, each chunk once per batch.
fn touched_bytes(workload: &Workload) -> u64 {
    let mut total = 0;
    each_batch(&samples(workload), workload.batch, |_, _, chunks| {
        total += chunks.iter().map(|(_, bytes)| bytes).sum::<u64>();
    });
    total
}

/// Bytes that the ideal decodes.
fn ideal_bytes(workload: &Workload) -> u64 {
    let samples = samples(workload);
    let mut uses: BTreeMap<ChunkKey, Vec<u64>> = BTreeMap::new();
    for (time, chunks) in samples.iter().enumerate() {
        for (key, _) in chunks {
            uses.entry(*key).or_default().push(time as u64);
        }
    }
    let mut held: BTreeMap<ChunkKey, u64> = BTreeMap::new();
    let mut used = 0;
    let mut decoded = 0;
    each_batch(&samples, workload.batch, |first, limit, chunks| {
        let mut done = BTreeSet::new();
        for (key, bytes) in chunks {
            done.insert(key);
            if held.contains_key(&key) {
                continue;
            }
            decoded += bytes;
            let next_use = |key: &ChunkKey| {
                let from = if done.contains(key) { limit } else { first };
                let times = &uses[key];
                let at = times.partition_point(|time| *time < from);
                times.get(at).filter(|time| **time < limit + workload.lookahead)
            };
            let next_use = |key: &ChunkKey| next_use(key).copied().unwrap_or(NEVER);
            let own = next_use(&key);
            let mut others: Vec<_> =
                held.iter().map(|(key, bytes)| (next_use(key), *key, *bytes)).collect();
            others.retain(|(time, ..)| *time > own);
            others.sort();
            if used + bytes > workload.cache_bytes + others.iter().map(|o| o.2).sum::<u64>() {
                continue;
            }
            while used + bytes > workload.cache_bytes {
                let (_, key, bytes) = others.pop().unwrap();
                held.remove(&key);
                used -= bytes;
            }
            held.insert(key, bytes);
            used += bytes;
        }
    });
    decoded
}

/// Bytes that the cache leaves to decode.
fn cache_bytes(workload: &Workload) -> u64 {
    let samples = samples(workload);
    let mut cache = cache(workload.cache_bytes, 1 << 18, 1);
    let mut pinned: std::collections::VecDeque<Slot> = Default::default();
    let mut decoded = 0;
    let mut seen = 0;
    each_batch(&samples, workload.batch, |_, limit, chunks| {
        while seen < limit + workload.lookahead && seen < samples.len() as u64 {
            for (key, _) in &samples[seen as usize] {
                assert!(cache.foresee(*key, seen));
            }
            seen += 1;
        }
        for (key, bytes) in chunks {
            cache.pass_chunk(key, limit);
            let slot = match cache.find(key) {
                Some((slot, _)) => Some(slot),
                None => {
                    decoded += bytes;
                    cache.insert(key, bytes).inspect(|slot| cache.set_ready(*slot))
                }
            };
            if let Some(slot) = slot {
                cache.pin(slot);
                pinned.push_back(slot);
            }
            while pinned.len() > workload.in_flight {
                cache.unpin(pinned.pop_front().unwrap());
            }
        }
        cache.pass(limit);
    });
    decoded
}

/// 256 KiB, 512 KiB, 625 KiB and 8 MiB.
const SMALL: Volume = Volume { grid: [8, 16, 16], chunk: [32, 64, 64], element_bytes: 2 };
const LARGE: Volume = Volume { grid: [4, 16, 16], chunk: [64, 64, 64], element_bytes: 2 };
const ODD: Volume = Volume { grid: [5, 13, 13], chunk: [50, 80, 80], element_bytes: 2 };
const WIDE: Volume = Volume { grid: [2, 4, 4], chunk: [128, 256, 256], element_bytes: 1 };

/// Asserts that crops of these volumes decode at most `percent_max` of what the ideal decodes, and
/// that the ideal saves something.
#[track_caller]
fn stays_close(volumes: &[Volume], cache_mib: u64, in_flight: usize, percent_max: u64) {
    for lookahead in [64, 4096] {
        let workload = Workload {
            volumes: volumes.to_vec(),
            crop: [64, 128, 128],
            samples: 512,
            batch: 16,
            lookahead,
            cache_bytes: cache_mib << 20,
            in_flight,
        };
        let ideal = ideal_bytes(&workload);
        assert!(ideal * 10 < touched_bytes(&workload) * 9);
        let percent = cache_bytes(&workload) * 100 / ideal;
        assert!(percent <= percent_max, "{percent} % with lookahead {lookahead}");
    }
}

#[test]
fn chunks_of_one_size_are_decoded_as_often_as_by_the_ideal() {
    stays_close(&[SMALL], 32, 0, 100);
    stays_close(&[SMALL], 128, 0, 100);
    stays_close(&[LARGE], 128, 0, 100);
}

#[test]
fn chunks_in_flight_cost_little() {
    stays_close(&[SMALL], 64, 8, 101);
    stays_close(&[SMALL, LARGE], 64, 8, 102);
}

#[test]
fn a_size_that_is_no_multiple_of_a_granule_costs_its_padding() {
    stays_close(&[ODD], 128, 0, 103);
}

#[test]
fn two_sizes_that_divide_each_other_cost_little() {
    stays_close(&[SMALL, LARGE], 64, 0, 102);
    stays_close(&[SMALL, LARGE], 256, 0, 102);
}

#[test]
fn two_sizes_that_do_not_divide_each_other_cost_little() {
    stays_close(&[SMALL, ODD], 128, 0, 104);
    stays_close(&[LARGE, ODD], 128, 0, 104);
}

#[test]
fn sizes_far_apart_still_find_room() {
    stays_close(&[SMALL, WIDE], 256, 8, 112);
    stays_close(&[SMALL, LARGE, ODD, WIDE], 256, 8, 110);
}
