//! What draws and permutations are worth. Keys are fixed, so a verdict is the same in every run.

use super::*;
use std::collections::BTreeSet;
use std::vec::Vec;
use std::{println, vec};

/// How far a sum of squares is from what chance gives, in standard deviations.
fn deviation(observed: &[u64], freedom: f64) -> f64 {
    let expected = observed.iter().sum::<u64>() as f64 / observed.len() as f64;
    let squares = observed.iter().map(|count| (*count as f64 - expected).powi(2)).sum::<f64>();
    (squares / expected - freedom) / (2.0 * freedom).sqrt()
}

/// Chance alone passes 5 once in a million times, and the keys are fixed.
fn assert_is_chance(what: &str, n: u64, deviation: f64) {
    println!("{what} of {n}: {deviation:.2}");
    assert!(deviation.abs() < 5.0, "{what} of {n}: {deviation:.2}");
}

#[test]
fn every_permutation_up_to_5000_is_a_bijection() {
    let mut is_met = vec![0u64; 5001];
    for n in 1..=5000 {
        let key = mix(n, 11);
        for position in 0..n {
            let at = permute(n, key, position).unwrap();
            assert!(at < n && is_met[at as usize] != n, "{n}: {at} twice or outside");
            is_met[at as usize] = n;
        }
    }
}

#[test]
fn sampled_permutations_up_to_2_to_62_give_no_number_twice() {
    for bits in 13..=62 {
        for n in [(1u64 << bits) - 1, 1 << bits, (1u64 << bits) + (bits < 62) as u64] {
            let position = |k: u64| if k < 500 { k } else { mix(k, 5) % n };
            let positions: BTreeSet<u64> = (0..1000).map(position).collect();
            let numbers: BTreeSet<u64> =
                positions.iter().map(|at| permute(n, 3, *at).unwrap()).collect();
            assert_eq!(numbers.len(), positions.len(), "{n}");
            assert!(*numbers.last().unwrap() < n);
        }
    }
}

#[test]
fn every_number_stands_at_every_position_as_often() {
    for n in [2u64, 3, 5, 10, 31, 63, 64, 65, 100, 200] {
        let mut counts = vec![0; (n * n) as usize];
        for seed in 0..40 * n {
            for position in 0..n {
                let at = permute(n, key(seed, 0, purpose::SHUFFLE), position).unwrap();
                counts[(position * n + at) as usize] += 1;
            }
        }
        // Rows and columns have fixed sums.
        let squares = deviation(&counts, 1.0) * 2f64.sqrt() + 1.0;
        let freedom = (n as f64 - 1.0).powi(2);
        let scaled = squares * (n as f64 - 1.0) / n as f64;
        assert_is_chance("positions", n, (scaled - freedom) / (2.0 * freedom).sqrt());
    }
}

#[test]
fn neighbours_are_as_far_apart_as_chance_has_it() {
    for n in [5u64, 10, 31, 63, 64, 65, 100, 256, 1000] {
        let mut apart = vec![0; n as usize];
        for seed in 0..(200_000 / n) {
            let row = |at| permute(n, key(seed, 7, purpose::SHUFFLE), at).unwrap();
            // Every second pair, as pairs that share a number are not independent.
            for position in (0..n - 1).step_by(2) {
                apart[((row(position + 1) + n - row(position)) % n) as usize] += 1;
            }
        }
        assert_eq!(apart[0], 0);
        assert_is_chance("neighbours", n, deviation(&apart[1..], n as f64 - 2.0));
    }
}

#[test]
fn neighbours_seeds_and_epochs_of_large_rows_have_nothing_to_do_with_each_other() {
    for n in [1u64 << 12, 100_003, 1 << 31, (1 << 40) + 1, 1 << 62] {
        let bin = |at: u64| (u128::from(at) * 16 / u128::from(n)) as usize;
        let at = |seed, epoch, position| {
            bin(permute(n, key(seed, epoch, purpose::SHUFFLE), position).unwrap())
        };
        let (mut positions, mut seeds, mut epochs) = ([0; 256], [0; 256], [0; 256]);
        for k in 0..20_000 {
            let here = 16 * at(k, k, k % 4096);
            positions[here + at(k, k, (k + 1) % 4096)] += 1;
            seeds[here + at(k + 1, k, k % 4096)] += 1;
            epochs[here + at(k, k + 1, k % 4096)] += 1;
        }
        assert_is_chance("positions", n, deviation(&positions, 255.0));
        assert_is_chance("seeds", n, deviation(&seeds, 255.0));
        assert_is_chance("epochs", n, deviation(&epochs, 255.0));
    }
}

#[test]
fn draws_below_a_number_are_equally_likely() {
    for n in [2u64, 3, 10, 1000] {
        let mut counts = vec![0; n as usize];
        (0..200 * n).for_each(|position| counts[below(n, 9, position, 4) as usize] += 1);
        assert_is_chance("draws", n, deviation(&counts, n as f64 - 1.0));
    }
    for n in [(1u64 << 63) + 1, u64::MAX] {
        let mut counts = [0; 64];
        for position in 0..20_000 {
            let drawn = below(n, 9, position, 0);
            counts[(u128::from(drawn) * 64 / u128::from(n)) as usize] += 1;
        }
        assert_is_chance("draws", n, deviation(&counts, 63.0));
    }
}

#[test]
fn parts_share_nothing_leave_nothing_and_are_as_large_as_their_weights() {
    for n in [0u64, 1, 7, 100, 12_345, SAMPLES_MAX] {
        for weights in [&[1u32][..], &[8, 1, 1], &[0, 3, 0, 1], &[u32::MAX - 1, 1]] {
            let mut next = 0;
            let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
            for (k, weight) in weights.iter().enumerate() {
                let positions = part(n, weights, k);
                assert_eq!(positions.start, next);
                let exact = u128::from(n) * u128::from(*weight) / total;
                assert!(u128::from(positions.end - positions.start).abs_diff(exact) <= 1);
                next = positions.end;
            }
            assert_eq!(next, n);
        }
    }
    assert_eq!(part(10, &[0, 0], 0), 0..0);
    assert_eq!(part(10, &[1, 1], 9), 10..10);
}

#[test]
fn each_part_of_a_stratified_split_has_its_share_of_each_label() {
    let label_of: Vec<u32> = (0..3000).map(|k| (mix(k, 1) % 7).min(4) as u32).collect();
    let (mut ends, mut table) = ([0; 5], vec![0; 3000]);
    group(&label_of, &mut ends, &mut table).unwrap();
    assert!(table[..ends[0] as usize].iter().all(|sample| label_of[*sample as usize] == 0));
    let (weights, mut all) = ([7, 2, 1], BTreeSet::new());
    for (k, weight) in weights.iter().enumerate() {
        let mut subset = vec![0; 3000];
        let count = stratify(&ends, &table, &weights, k, 5, &mut subset).unwrap();
        for label in 0..5u32 {
            let of = |samples: &[u64]| {
                samples.iter().filter(|sample| label_of[**sample as usize] == label).count() as f64
            };
            let share = of(&table) * f64::from(*weight) / 10.0;
            // What a part is behind at the end of one label it gets of the next.
            assert!((of(&subset[..count]) - share).abs() < 3.0, "label {label} of part {k}");
        }
        assert!(subset[..count].iter().all(|sample| all.insert(*sample)));
    }
    assert_eq!(all.len(), 3000);
    let short = stratify(&ends, &table, &weights, 0, 5, &mut [0; 10]);
    assert_eq!(short, Err(Misfit::Memory));
    assert_eq!(stratify(&ends, &table[1..], &weights, 0, 5, &mut []), Err(Misfit::Memory));
    assert_eq!(stratify(&[9, 2], &[], &weights, 3, 5, &mut []), Err(Misfit::Labels));
    assert_eq!(group(&[0, 5], &mut [0; 5], &mut [0; 2]), Err(Misfit::Labels));
}

#[test]
fn samples_come_as_often_as_their_weights_say() {
    let mut sums = [0, 1, 5, 0, 10, 4, 0];
    let weights = sums;
    accumulate(&mut sums).unwrap();
    let mut counts = [0u64; 7];
    for position in 0..40_000 {
        let drawn = weighted(&sums, 3, Place { epoch: 1, position }).unwrap();
        counts[drawn as usize] += 1;
    }
    let mut squares = 0.0;
    for (count, weight) in counts.iter().zip(weights) {
        let expected = 40_000.0 * weight as f64 / 20.0;
        assert!(weight > 0 || *count == 0);
        squares += if weight > 0 { (*count as f64 - expected).powi(2) / expected } else { 0.0 };
    }
    assert!(squares < 20.0, "{squares} at 3 degrees of freedom");
    assert_eq!(weighted(&[0, 0], 3, Place::default()), None);
    assert_eq!(weighted(&[], 3, Place::default()), None);
    assert_eq!(accumulate(&mut [u64::MAX, 1]), Err(Misfit::Weights));
}

#[test]
fn a_mixture_keeps_its_weights_in_every_block_and_gives_all_before_it_gives_one_again() {
    let share = |samples, weight| Share { samples, weight };
    let shares = [share(5, 2), share(0, 0), share(64, 3), share(1, 1)];
    let mixture = Mixture::new(&shares).unwrap();
    let mut came = [const { Vec::new() }; 4];
    for block in 0..200 {
        let mut weights = [0; 4];
        for position in 6 * block..6 * block + 6 {
            let (source, sample) = mixture.at(8, Place { epoch: 2, position }).unwrap();
            weights[source] += 1;
            came[source].push(sample);
        }
        assert_eq!(weights, [2, 0, 3, 1]);
    }
    for (share, came) in shares.iter().zip(&mut came).filter(|(share, _)| share.weight > 0) {
        // In a block a source's samples come in any order, and a pass may end in a block.
        let block = share.weight as usize;
        let whole = came.len() / share.samples as usize * share.samples as usize;
        let mut counts = vec![0usize; share.samples as usize];
        came[..whole].iter().for_each(|sample| counts[*sample as usize] += 1);
        let passes = whole / share.samples as usize;
        assert!(counts.iter().all(|count| count.abs_diff(passes) <= block), "{counts:?}");
    }
    assert_eq!(Mixture::new(&[share(0, 1)]).unwrap_err(), Misfit::Source);
    assert_eq!(Mixture::new(&[share(9, 0)]).unwrap_err(), Misfit::Weights);
    assert_eq!(Mixture::new(&[share(9, u32::MAX), share(9, 1)]).unwrap_err(), Misfit::Weights);
}
