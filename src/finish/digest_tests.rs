use super::digest::*;
use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::batch::pieces::Piece;
use crate::batch::record::{Elsewhere, PerSample, SlotCounts, SlotRows};
use crate::loops::digest::{digest, mix, share};
use crate::loops::simd::Level;
use std::vec::Vec;

const SAMPLES: u32 = 5;
/// Scalars, samples of several pieces, one of just one, and one of a byte more.
const FIELDS: [u64; 4] = [3, 2 * PIECE_BYTES + 100, PIECE_BYTES, PIECE_BYTES + 1];

fn rows(samples: u32, fields: u32) -> SlotRows {
    let per_sample = PerSample {
        listed: 0,
        boxes: 1,
        filled_shape: 1,
        takes_fed: false,
        augment_words: 0,
        digests: fields,
        fields,
    };
    let counts = SlotCounts { places: 3, early: 0, readers: 0, is_all_lent: false, samples };
    SlotRows::carve(&mut Carver::leaked(1 << 19), counts, &per_sample, Elsewhere::No)
}

fn digests(rows: &SlotRows) -> Digests<'_> {
    Digests::new(rows, FIELDS.into_iter(), SAMPLES)
}

/// The samples of a field of a batch, one behind the other.
fn field(number: usize, samples: u32) -> Vec<u8> {
    let bytes = FIELDS[number] * u64::from(samples);
    (0..bytes).map(|at| (mix(at, number as u64) >> 20) as u8).collect()
}

fn read(part: &Part, data: &[Vec<u8>]) -> u64 {
    let first = u64::from(part.sample) * part.sample_bytes + part.first;
    let bytes = &data[part.field as usize][first as usize..];
    part.read(&bytes[..(u64::from(part.samples) * part.bytes) as usize])
}

/// All pieces of a batch.
fn begin(digests: &Digests<'_>, slot: BatchSlot, samples: u32, position: u64) -> Vec<Piece> {
    let count = digests.begin(slot, samples);
    let piece = |number| Piece { slot, pass: 1, number, units: 0, samples, position };
    (0..count).map(piece).collect()
}

#[test]
fn digests_do_not_depend_on_the_order_in_which_pieces_end() {
    let slot = BatchSlot(1);
    for samples in [1, 4, SAMPLES] {
        let data: Vec<Vec<u8>> = (0..FIELDS.len()).map(|number| field(number, samples)).collect();
        for turn in 0..7 {
            let rows = rows(SAMPLES, 4);
            let digests = digests(&rows);
            let pieces = begin(&digests, slot, samples, 1000);
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
                part.end(read(part, &data));
            }
            digests.close(&pieces[0]);
            for (number, bytes) in FIELDS.into_iter().enumerate() {
                let each = data[number].chunks_exact(bytes as usize);
                let want: Vec<u64> =
                    each.map(|of| digest(bytes, share(Level::baseline(), of, 0))).collect();
                let positions = 1000..;
                let sum = positions.zip(&want).map(|(at, digest)| mix(at, *digest));
                let sum = sum.fold(0, u64::wrapping_add);
                let (digests, total) = rows.digests(slot, number);
                assert_eq!((digests.rows(0, want.len()), total.read(0)), (&want[..], sum));
            }
        }
    }
}

#[test]
fn batches_in_several_slots_are_apart() {
    let rows = rows(SAMPLES, 4);
    let digests = digests(&rows);
    let data: Vec<Vec<u8>> = (0..FIELDS.len()).map(|number| field(number, 2)).collect();
    let [old, new] =
        [2, 0].map(|slot| begin(&digests, BatchSlot(slot), 2, 100 - 40 * u64::from(slot)));
    for piece in old.iter().chain(&new) {
        let part = digests.part(piece);
        part.end(read(&part, &data));
    }
    digests.close(&new[0]);
    digests.close(&old[0]);
    let [(old, old_sum), (new, new_sum)] = [2, 0].map(|slot| rows.digests(BatchSlot(slot), 1));
    assert_eq!(old.rows(0, 2), new.rows(0, 2));
    assert_ne!(old_sum.read(0), new_sum.read(0), "of other positions");
}

#[test]
fn pieces_of_scalars_are_bounded_by_their_number() {
    let rows = rows(5000, 1);
    let digests = Digests::new(&rows, [1].into_iter(), 5000);
    let pieces = begin(&digests, BatchSlot(0), 5000, 0);
    let samples: Vec<u32> = pieces.iter().map(|piece| digests.part(piece).samples).collect();
    assert_eq!(samples, [2048, 2048, 904]);
}
