use super::digests::*;
use super::pieces::Piece;
use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::loops::digest::{digest, mix, share};
use crate::loops::simd::Level;
use std::vec::Vec;

const SLOTS: u32 = 3;
const SAMPLES: u32 = 5;
/// Scalars, samples of several pieces, one of just one, and one of a byte more.
const FIELDS: [u64; 4] = [3, 2 * PIECE_BYTES + 100, PIECE_BYTES, PIECE_BYTES + 1];

fn digests() -> Digests {
    Digests::carve(&mut Carver::leaked(1 << 16), (SLOTS, SAMPLES), FIELDS.into_iter(), false)
}

/// The samples of a field of a batch, one behind the other.
fn field(number: usize, samples: u32) -> Vec<u8> {
    let bytes = FIELDS[number] * u64::from(samples);
    (0..bytes).map(|at| (mix(at, number as u64) >> 20) as u8).collect()
}

fn read(part: &Part, data: &[Vec<u8>], digests: &Digests) -> u64 {
    let first = u64::from(part.sample) * part.sample_bytes + part.first;
    let bytes = &data[part.field as usize][first as usize..];
    part.read(&bytes[..(u64::from(part.samples) * part.bytes) as usize], &digests.table)
}

/// All pieces of a batch.
fn begin(digests: &mut Digests, slot: BatchSlot, samples: u32, position: u64) -> Vec<Piece> {
    let count = digests.begin(slot, samples);
    let piece = |number| {
        let is_last = number + 1 == count;
        Piece { slot, pass: 1, number, is_last, units: 0, samples, position }
    };
    (0..count).map(piece).collect()
}

#[test]
fn digests_do_not_depend_on_the_order_in_which_pieces_end() {
    let slot = BatchSlot(1);
    for samples in [1, 4, SAMPLES] {
        let data: Vec<Vec<u8>> = (0..FIELDS.len()).map(|number| field(number, samples)).collect();
        for turn in 0..7 {
            let mut digests = digests();
            let pieces = begin(&mut digests, slot, samples, 1000);
            let mut parts: Vec<Part> = pieces.iter().map(|piece| digests.part(piece)).collect();
            let covered = |part: &Part| u64::from(part.samples) * part.bytes;
            let all: u64 = FIELDS.iter().sum::<u64>() * u64::from(samples);
            assert_eq!(parts.iter().map(covered).sum::<u64>(), all);
            if turn % 2 == 1 {
                parts.reverse();
            }
            let count = parts.len();
            parts.rotate_left(turn * 3 % count);
            for part in &parts {
                let sum = read(part, &data, &digests);
                digests.end(part, sum);
            }
            digests.close(&pieces[0]);
            for (number, bytes) in FIELDS.into_iter().enumerate() {
                let each = data[number].chunks_exact(bytes as usize);
                let want: Vec<u64> =
                    each.map(|of| digest(bytes, share(Level::baseline(), of, 0))).collect();
                let positions = 1000..;
                let sum = positions.zip(&want).map(|(at, digest)| mix(at, *digest));
                let sum = sum.fold(0, u64::wrapping_add);
                assert_eq!(digests.of(slot, number as u32, samples), Some((&want[..], sum)));
            }
        }
    }
}

#[test]
fn batches_in_several_slots_are_apart() {
    let mut digests = digests();
    let data: Vec<Vec<u8>> = (0..FIELDS.len()).map(|number| field(number, 2)).collect();
    let [old, new] =
        [2, 0].map(|slot| begin(&mut digests, BatchSlot(slot), 2, 100 - 40 * u64::from(slot)));
    for piece in old.iter().chain(&new) {
        let part = digests.part(piece);
        let sum = read(&part, &data, &digests);
        digests.end(&part, sum);
    }
    digests.close(&new[0]);
    digests.close(&old[0]);
    let of = |slot: u32| digests.of(BatchSlot(slot), 1, 2).unwrap();
    assert_eq!(of(0).0, of(2).0);
    assert_ne!(of(0).1, of(2).1, "of other positions");
}

#[test]
fn nothing_is_there_where_nothing_was_asked_for() {
    let none = core::iter::empty();
    let mut digests = Digests::carve(&mut Carver::leaked(64), (0, SAMPLES), none, false);
    assert_eq!(digests.begin(BatchSlot(0), 1), 0);
    assert_eq!(digests.of(BatchSlot(0), 0, 1), None);
}

#[test]
fn pieces_of_scalars_are_bounded_by_their_number() {
    let mut carver = Carver::leaked(1 << 18);
    let mut digests = Digests::carve(&mut carver, (1, 5000), [1].into_iter(), false);
    let pieces = begin(&mut digests, BatchSlot(0), 5000, 0);
    let samples: Vec<u32> = pieces.iter().map(|piece| digests.part(piece).samples).collect();
    assert_eq!(samples, [2048, 2048, 904]);
}
