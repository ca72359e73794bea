use super::digests::*;
use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::loops::digest::{digest, mix, share};
use crate::loops::simd::Level;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

fn read(piece: &Piece, data: &[Vec<u8>], digests: &Digests) -> u64 {
    let first = u64::from(piece.sample) * piece.sample_bytes + piece.first;
    let bytes = &data[piece.field as usize][first as usize..];
    piece.read(&bytes[..(u64::from(piece.samples) * piece.bytes) as usize], &digests.table)
}

fn each_piece(digests: &mut Digests) -> Vec<Piece> {
    std::iter::from_fn(|| digests.take()).collect()
}

#[test]
fn digests_do_not_depend_on_the_order_in_which_pieces_end() {
    let slot = BatchSlot(1);
    for samples in [1, 4, SAMPLES] {
        let data: Vec<Vec<u8>> = (0..FIELDS.len()).map(|number| field(number, samples)).collect();
        for turn in 0..7 {
            let mut digests = digests();
            digests.bind(slot, 1000);
            digests.begin(slot, samples);
            let mut pieces = each_piece(&mut digests);
            assert!(!digests.has_piece());
            let covered = |piece: &Piece| u64::from(piece.samples) * piece.bytes;
            let all: u64 = FIELDS.iter().sum::<u64>() * u64::from(samples);
            assert_eq!(pieces.iter().map(covered).sum::<u64>(), all);
            if turn % 2 == 1 {
                pieces.reverse();
            }
            let count = pieces.len();
            pieces.rotate_left(turn * 3 % count);
            for (number, piece) in pieces.iter().enumerate() {
                let sum = read(piece, &data, &digests);
                assert_eq!(digests.end(piece, sum), number + 1 == count);
            }
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
    for slot in [2, 0] {
        digests.bind(BatchSlot(slot), 100 - 40 * u64::from(slot));
        digests.begin(BatchSlot(slot), 2);
    }
    let pieces = each_piece(&mut digests);
    let ended: Vec<u32> = pieces
        .iter()
        .filter(|piece| {
            let sum = read(piece, &data, &digests);
            digests.end(piece, sum)
        })
        .map(|piece| piece.slot.0)
        .collect();
    assert_eq!(ended, [2, 0], "the older batch first");
    let of = |slot: u32| digests.of(BatchSlot(slot), 1, 2).unwrap();
    assert_eq!(of(0).0, of(2).0);
    assert_ne!(of(0).1, of(2).1, "of other positions");
}

#[test]
fn a_batch_is_begun_once_and_its_pieces_end_once() {
    let fails = |step: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(step)).is_err();
    let slot = BatchSlot(0);
    let mut digests = digests();
    let piece = {
        digests.begin(slot, 1);
        digests.take().unwrap()
    };
    assert!(fails(&mut || digests.begin(slot, 1)), "begun twice");
    assert!(fails(&mut || digests.bind(slot, 7)), "bound while it is read");
    let count = 1 + each_piece(&mut digests).len();
    for number in 0..count {
        assert_eq!(digests.end(&piece, 0), number + 1 == count);
    }
    assert!(fails(&mut || assert!(digests.end(&piece, 0))), "ended once too often");
    digests.begin(slot, 1);
    digests.clear();
    assert!(!digests.has_piece() && digests.take().is_none());
    digests.bind(slot, 7);
}

#[test]
fn nothing_is_there_where_nothing_was_asked_for() {
    let none = core::iter::empty();
    let mut digests = Digests::carve(&mut Carver::leaked(64), (0, SAMPLES), none, false);
    assert!(!digests.has_piece() && digests.take().is_none());
    assert_eq!(digests.of(BatchSlot(0), 0, 1), None);
    digests.clear();
}

#[test]
fn pieces_of_scalars_are_bounded_by_their_number() {
    let mut carver = Carver::leaked(1 << 18);
    let mut digests = Digests::carve(&mut carver, (1, 5000), [1].into_iter(), false);
    digests.begin(BatchSlot(0), 5000);
    let samples: Vec<u32> = each_piece(&mut digests).iter().map(|piece| piece.samples).collect();
    assert_eq!(samples, [2048, 2048, 904]);
}
