//! The inverse of blosc's two filters, on one block or a part of it.
//!
//! In: a filtered block, or its planes wherever they lie. Out: a range of the bytes of the block as
//! it was, in another buffer.
//! Invariant: every byte of the target is written, whatever the lengths.
//!
//! Byte shuffle puts byte 0 of every element first, then byte 1 of every element, and so on. Bit
//! shuffle does the same with single bits: row `8 * byte + bit` holds that bit of all elements,
//! eight elements to a byte. Bytes behind the last whole element stay where they are.
//!
//! A *plane* is the byte of one place of all elements, or the eight rows of its bits.
//!
//! The loops of this file are the oracle of those in `simd`, and do what those leave: few elements
//! at the end, unusual sizes, other machines.

use crate::loops::simd::{Level, plane_of_bits, unshuffle_bytes};
use arrayvec::ArrayVec;

/// Largest element; blosc writes its size as one byte.
pub const TYPESIZE_MAX: usize = 255;

/// Bytes of the planes that are made from bits at a time: they stay in L1, and every row of them is
/// read for several cache lines, so that the CPU fetches ahead. Rows are often 4 KiB or a multiple
/// apart, where few lines of all rows fit in L1 together.
const PLANES_BYTES: usize = 16 << 10;

/// Elements between two turns through the planes of an unusual size.
const TILE_ELEMENTS: usize = 64;

/// A filter of blosc. The numbers are those of kernels/common.cuh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Shuffle {
    /// None.
    None = 0,
    /// Bytes of equal significance together.
    Bytes = 1,
    /// Bits of equal significance together.
    Bits = 2,
}

impl Shuffle {
    /// What blosc did to a block of `block_bytes` in a chunk of this filter: elements of one byte
    /// have nothing to shuffle, and a block whose elements are not a multiple of 8 keeps its bits
    /// where they are.
    pub fn of_block(self, typesize: u32, block_bytes: usize) -> Shuffle {
        let elements = block_bytes / typesize as usize;
        match self {
            Shuffle::Bytes if typesize > 1 => Shuffle::Bytes,
            Shuffle::Bits if elements.is_multiple_of(8) && elements > 0 => Shuffle::Bits,
            _ => Shuffle::None,
        }
    }
}

/// Undoes `shuffle` (as [`Shuffle::of_block`] gave it) on the block `source` of elements of
/// `typesize` bytes, and writes the bytes from `first_byte` on that `target` holds.
pub fn unshuffle(
    shuffle: Shuffle,
    typesize: usize,
    source: &[u8],
    first_byte: usize,
    target: &mut [u8],
) {
    unshuffle_at(Level::here(), shuffle, typesize, source, first_byte, target);
}

/// [`unshuffle`] with the instructions of one level: all give the same bytes.
#[inline(never)]
pub fn unshuffle_at(
    level: Level,
    shuffle: Shuffle,
    typesize: usize,
    source: &[u8],
    first_byte: usize,
    target: &mut [u8],
) {
    assert!((1..=TYPESIZE_MAX).contains(&typesize));
    assert!(first_byte <= source.len() && target.len() <= source.len() - first_byte);
    if shuffle == Shuffle::None {
        return target.copy_from_slice(&source[first_byte..][..target.len()]);
    }
    let plane_bytes = source.len() / typesize;
    let (whole, behind) = source.split_at(plane_bytes * typesize);
    let filtered_bytes = target.len().min(whole.len().saturating_sub(first_byte));
    let (target, tail) = target.split_at_mut(filtered_bytes);
    let tail_first = (first_byte + filtered_bytes).saturating_sub(whole.len());
    tail.copy_from_slice(&behind[tail_first..][..tail.len()]);
    if plane_bytes > 0 {
        let planes = whole.chunks_exact(plane_bytes).collect::<ArrayVec<_, TYPESIZE_MAX>>();
        unshuffle_planes(level, shuffle, &planes, first_byte, target);
    }
}

/// Undoes a filter on a block of whole elements, of which each plane lies somewhere.
pub fn unshuffle_planes(
    level: Level,
    shuffle: Shuffle,
    planes: &[&[u8]],
    first_byte: usize,
    target: &mut [u8],
) {
    let typesize = planes.len();
    if shuffle == Shuffle::Bytes {
        return for_whole_units(typesize, first_byte, target, &mut |first, target| {
            bytes(level, planes, first, target);
        });
    }
    assert!(shuffle == Shuffle::Bits && planes[0].len().is_multiple_of(8));
    for_whole_units(8 * typesize, first_byte, target, &mut |first, target| {
        bits(level, planes, first, target);
    });
}

/// Calls `decode` with the number of a unit of `unit_bytes` and a target of whole units, up to
/// three times: for the unit that `first_byte` cuts, for the whole ones, and for the one that is
/// cut at the end of `target`. Of cut ones the part that is wanted is copied.
fn for_whole_units(
    unit_bytes: usize,
    first_byte: usize,
    target: &mut [u8],
    decode: &mut dyn FnMut(usize, &mut [u8]),
) {
    let mut cut = [0; 8 * TYPESIZE_MAX];
    let cut = &mut cut[..unit_bytes];
    let mut unit = first_byte / unit_bytes;
    let skip = first_byte % unit_bytes;
    let head_bytes = if skip == 0 { 0 } else { target.len().min(unit_bytes - skip) };
    let (head, rest) = target.split_at_mut(head_bytes);
    let (body, tail) = rest.split_at_mut(rest.len() / unit_bytes * unit_bytes);
    if !head.is_empty() {
        decode(unit, cut);
        head.copy_from_slice(&cut[skip..][..head_bytes]);
        unit += 1;
    }
    if !body.is_empty() {
        decode(unit, body);
        unit += body.len() / unit_bytes;
    }
    if !tail.is_empty() {
        decode(unit, cut);
        tail.copy_from_slice(&cut[..tail.len()]);
    }
}

/// The elements from `first` on that `target` holds, from the planes of a block.
fn bytes(level: Level, planes: &[&[u8]], first: usize, target: &mut [u8]) {
    let typesize = planes.len();
    let done = unshuffle_bytes(level, planes, first, target);
    let (first, target) = (first + done, &mut target[done * typesize..]);
    // A few elements at a time, so that they stay in L1 while plane after plane fills them.
    for (tile, elements) in target.chunks_mut(TILE_ELEMENTS * typesize).enumerate() {
        let first = first + tile * TILE_ELEMENTS;
        let count = elements.len() / typesize;
        for (byte, plane) in planes.iter().enumerate() {
            let (fours, rest) = plane[first..][..count].as_chunks::<4>();
            let (most, last) = elements.split_at_mut(4 * fours.len() * typesize);
            // Four in a turn: one takes less than the loop around it.
            for (values, elements) in fours.iter().zip(most.chunks_exact_mut(4 * typesize)) {
                for (number, value) in values.iter().enumerate() {
                    elements[number * typesize + byte] = *value;
                }
            }
            for (value, element) in rest.iter().zip(last.chunks_exact_mut(typesize)) {
                element[byte] = *value;
            }
        }
    }
}

/// The groups of eight elements from group `first` on that `target` holds: first the bytes of some
/// groups, place by place, then their elements.
fn bits(level: Level, planes: &[&[u8]], first: usize, target: &mut [u8]) {
    let typesize = planes.len();
    if let [rows] = planes {
        return plane(level, rows, first, target);
    }
    let mut buffer = [0; PLANES_BYTES];
    let groups_max = PLANES_BYTES / (8 * typesize);
    for (tile, elements) in target.chunks_mut(groups_max * 8 * typesize).enumerate() {
        let made = buffer[..elements.len()].chunks_exact_mut(elements.len() / typesize);
        let mut of_bytes = ArrayVec::<&[u8], TYPESIZE_MAX>::new();
        for (rows, target) in planes.iter().zip(made) {
            plane(level, rows, first + tile * groups_max, target);
            of_bytes.push(target);
        }
        bytes(level, &of_bytes, 0, elements);
    }
}

/// The plane of one byte position, for the groups from `first` on that `target` holds: byte `group`
/// of its eight rows is an 8x8 matrix of bits, and the transpose is that byte of eight elements.
fn plane(level: Level, rows: &[u8], first: usize, target: &mut [u8]) {
    let done = plane_of_bits(level, rows, first, target);
    let pitch = rows.len() / 8;
    let groups = target[8 * done..].as_chunks_mut::<8>().0;
    let part = |bit: usize| &rows[bit * pitch + first + done..][..groups.len()];
    let parts: [&[u8]; 8] = core::array::from_fn(part);
    for (at, elements) in groups.iter_mut().enumerate() {
        let matrix = u64::from_le_bytes(core::array::from_fn(|bit| parts[bit][at]));
        *elements = transposed(matrix).to_le_bytes();
    }
}

/// The transpose of an 8x8 matrix of bits, row r in byte r, column c in bit c: three rounds swap
/// the off-diagonal quarters of 2x2, 4x4 and 8x8 matrices (Hacker's Delight, section 7-3).
fn transposed(mut matrix: u64) -> u64 {
    for (distance, mask) in
        [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)]
    {
        let swap = (matrix ^ (matrix >> distance)) & mask;
        matrix ^= swap ^ (swap << distance);
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn painted(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at * 37 + at / 5 * 11 + 1) as u8).collect()
    }

    /// The filters as the file's head tells them, bit by bit.
    fn shuffled(shuffle: Shuffle, typesize: usize, bytes: &[u8]) -> Vec<u8> {
        let count = bytes.len() / typesize;
        let mut filtered = bytes.to_vec();
        filtered[..count * typesize].fill(0);
        for element in 0..count {
            for byte in 0..typesize {
                let value = bytes[element * typesize + byte];
                match shuffle {
                    Shuffle::None => filtered[element * typesize + byte] = value,
                    Shuffle::Bytes => filtered[byte * count + element] = value,
                    Shuffle::Bits => {
                        for bit in 0..8 {
                            let row = (byte * 8 + bit) * (count / 8);
                            filtered[row + element / 8] |= (value >> bit & 1) << (element % 8);
                        }
                    }
                }
            }
        }
        filtered
    }

    /// All levels, the whole block and then ranges of it.
    fn comes_back(shuffle: Shuffle, typesize: usize, bytes: &[u8]) {
        let filtered = shuffled(shuffle, typesize, bytes);
        let length = bytes.len();
        let cuts = [(0, length), (1, length), (0, length - length.min(1)), (length / 3, length)];
        for level in Level::each() {
            for (first, limit) in cuts {
                let first = first.min(limit);
                let mut target = vec![0x5A; limit - first];
                unshuffle_at(level, shuffle, typesize, &filtered, first, &mut target);
                let expected = &bytes[first..limit];
                assert!(
                    target == expected,
                    "{shuffle:?} of {typesize} at {level:?}, [{first}, {limit}) of {length}"
                );
            }
        }
    }

    #[test]
    fn shuffled_bytes_come_back_for_every_typesize_and_tail() {
        for typesize in 1..40 {
            for count in [0, 1, 2, typesize, 8 * typesize, 33 * typesize + typesize / 2] {
                comes_back(Shuffle::Bytes, typesize, &painted(count));
            }
        }
        comes_back(Shuffle::Bytes, 255, &painted(3000));
    }

    #[test]
    fn shuffled_bytes_come_back_for_every_count_around_the_vectors() {
        for typesize in [2, 4, 8, 16] {
            for count in (1..70).chain(120..140).chain(250..260) {
                comes_back(Shuffle::Bytes, typesize, &painted(count * typesize));
            }
        }
    }

    #[test]
    fn shuffled_bits_come_back_for_every_typesize_and_tail() {
        for typesize in 1..40 {
            for elements in [8, 16, 64, 136] {
                comes_back(Shuffle::Bits, typesize, &painted(elements * typesize));
                comes_back(Shuffle::Bits, typesize, &painted(elements * typesize + typesize / 2));
            }
        }
    }

    #[test]
    fn shuffled_bits_come_back_for_every_count_around_the_vectors() {
        for typesize in [1, 2, 4, 8] {
            for groups in (31..35).chain(62..68).chain([96, 127, 128, 129, 200]) {
                comes_back(Shuffle::Bits, typesize, &painted(8 * groups * typesize + 3 % typesize));
            }
        }
    }

    #[test]
    fn every_range_of_a_block_is_that_part_of_it() {
        for (shuffle, typesize) in [(Shuffle::Bytes, 4), (Shuffle::Bits, 2), (Shuffle::None, 4)] {
            let bytes = painted(32 * typesize + 1);
            let filtered = shuffled(shuffle, typesize, &bytes);
            for first in 0..=bytes.len() {
                for limit in first..=bytes.len() {
                    let mut target = vec![0x5A; limit - first];
                    unshuffle(shuffle, typesize, &filtered, first, &mut target);
                    assert_eq!(target, bytes[first..limit], "{shuffle:?} [{first}, {limit})");
                }
            }
        }
    }

    #[test]
    #[should_panic]
    fn a_range_behind_the_block_is_our_defect() {
        unshuffle(Shuffle::Bytes, 2, &[1, 2, 3, 4], 3, &mut [0; 2]);
    }

    #[test]
    fn a_block_of_odd_element_count_has_no_bit_shuffle() {
        assert_eq!(Shuffle::Bits.of_block(2, 30), Shuffle::None);
        assert_eq!(Shuffle::Bits.of_block(2, 32), Shuffle::Bits);
        assert_eq!(Shuffle::Bits.of_block(1, 8), Shuffle::Bits);
    }

    #[test]
    fn elements_of_one_byte_have_no_byte_shuffle() {
        assert_eq!(Shuffle::Bytes.of_block(1, 64), Shuffle::None);
    }
}
