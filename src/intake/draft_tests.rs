use super::*;
use crate::base::cache::hash_words;
use core::ptr::NonNull;
use std::vec::Vec;

const BOXES: u32 = 255;

fn draft() -> Draft {
    let bytes = 2 << 20;
    let block = std::vec![0u8; bytes + 4096].leak();
    let start = block.as_ptr().align_offset(4096);
    let block = NonNull::from(&mut block[start..]).cast();
    // SAFETY: the block is leaked, aligned, used once, and large enough.
    Draft::carve(&mut unsafe { Carver::over(block, bytes as u64) }, (BOXES, BOXES), (false, 0))
}

fn add(draft: &mut Draft, cover: &Cover) {
    let (fed, shape) = (&Fed::NOTHING, &BoxShape::EMPTY);
    let field = cover.field;
    draft.add(
        &NewBox { uri: b"/a", hash: 7, fed, rank: 1, field, shape, augment: &[], runs: 1 },
        *cover,
    );
}

/// Numbers below a limit, each run the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 += 1;
        hash_words(&[self.0]) % limit
    }
}

/// The obvious check: every pair, in the order in which the boxes came.
fn oracle(covers: &[Cover]) -> Option<(u32, u32)> {
    for second in 0..covers.len() {
        for first in 0..second {
            let (a, b) = (&covers[first], &covers[second]);
            let mut meets = a.field == b.field;
            for axis in 0..a.axes {
                meets &= a.low[axis].max(b.low[axis]) < a.high[axis].min(b.high[axis]);
            }
            if meets {
                return Some((first as u32, second as u32));
            }
        }
    }
    None
}

fn check(draft: &mut Draft, covers: &[Cover]) -> bool {
    draft.clear();
    covers.iter().for_each(|cover| add(draft, cover));
    let found = draft.overlap();
    assert_eq!(found, oracle(covers), "{covers:?}");
    found.is_some()
}

#[test]
fn random_boxes_overlap_where_every_pair_says_so() {
    let (mut draft, mut dice) = (draft(), Dice(1));
    let mut seen = [0, 0];
    for _ in 0..6000 {
        let (fields, count) = (1 + dice.below(3), 1 + dice.below(24));
        let axes: Vec<usize> = (0..fields).map(|_| dice.below(5) as usize).collect();
        let extent = 2 + dice.below(40);
        let most = 1 + dice.below(1 + extent / 4);
        let covers: Vec<Cover> = (0..count)
            .map(|_| {
                let field = dice.below(fields);
                let axes = axes[field as usize];
                let mut cover = Cover { field: field as u32, axes, ..Cover::EMPTY };
                for axis in 0..axes {
                    cover.low[axis] = dice.below(extent);
                    cover.high[axis] = cover.low[axis] + 1 + dice.below(most);
                }
                cover
            })
            .collect();
        seen[usize::from(check(&mut draft, &covers))] += 1;
    }
    assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
}

/// Mosaics that lie beside each other along any of the axes, as many as a sample may have: none
/// overlaps, and all but a few do where one box is a place longer.
#[test]
fn mosaics_overlap_only_where_a_tile_is_too_long() {
    let (mut draft, mut dice) = (draft(), Dice(2));
    let mut overlaps = 0;
    for tiles in [[255, 1, 1], [1, 255, 1], [1, 1, 255], [16, 15, 1], [1, 17, 15], [6, 6, 7]] {
        for turn in 0..40 {
            let mut covers = Vec::new();
            for number in 0..tiles.iter().product::<u64>() {
                let at =
                    [number / tiles[2] / tiles[1], number / tiles[2] % tiles[1], number % tiles[2]];
                let mut cover = Cover { axes: 3, ..Cover::EMPTY };
                for axis in 0..3 {
                    cover.low[axis] = 5 * at[axis];
                    cover.high[axis] = cover.low[axis] + 5;
                }
                covers.push(cover);
            }
            // In no order.
            for at in (1..covers.len()).rev() {
                covers.swap(at, dice.below(at as u64 + 1) as usize);
            }
            if turn % 2 == 1 {
                let (at, axis) = (dice.below(covers.len() as u64) as usize, dice.below(3) as usize);
                covers[at].high[axis] += 1;
            }
            let is_met = check(&mut draft, &covers);
            assert!(turn % 2 == 1 || !is_met);
            overlaps += u32::from(is_met);
        }
    }
    assert!(overlaps > 40, "{overlaps}");
}

/// Boxes that no axis tells apart for all: two halves along each of eight axes.
#[test]
fn boxes_that_no_axis_separates_are_all_compared() {
    let mut draft = draft();
    let mut covers = Vec::new();
    for number in 0..255u64 {
        let mut cover = Cover { axes: 8, ..Cover::EMPTY };
        for axis in 0..8 {
            cover.low[axis] = number >> axis & 1;
            cover.high[axis] = cover.low[axis] + 1;
        }
        covers.push(cover);
    }
    assert!(!check(&mut draft, &covers));
    covers[254] = covers[3];
    assert!(check(&mut draft, &covers));
}

#[test]
fn two_boxes_of_a_field_without_axes_overlap() {
    let mut draft = draft();
    let cover = |field| Cover { field, ..Cover::EMPTY };
    assert!(!check(&mut draft, &[cover(0), cover(1)]));
    assert!(check(&mut draft, &[cover(0), cover(1), cover(0)]));
}

#[test]
fn boxes_come_back_as_they_were_added() {
    let mut draft = draft();
    let (fed, shape) = (&Fed::NOTHING, &BoxShape::EMPTY);
    let uris: Vec<Vec<u8>> = (0..BOXES as u8)
        .map(|n| std::vec![b'a' + n / 3 % 20; URI_BYTES_MAX - n as usize / 9])
        .collect();
    for turn in 0..2 {
        draft.clear();
        for (number, uri) in uris.iter().enumerate() {
            let (rank, field) = (number % 17, (number % 8) as u32);
            draft.add(
                &NewBox { uri, hash: 5 + turn, fed, rank, field, shape, augment: &[], runs: 1 },
                Cover::EMPTY,
            );
        }
        assert_eq!(draft.boxes().count(), uris.len());
        for (number, new) in draft.boxes().enumerate() {
            assert_eq!(new.uri, uris[number]);
            assert_eq!(
                (new.rank, new.field, new.hash),
                (number % 17, (number % 8) as u32, 5 + turn)
            );
        }
    }
}
