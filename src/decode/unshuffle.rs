//! The inverse of blosc's two filters, on one block.
//!
//! In: a filtered block. Out: the block as it was, in another buffer of the same length. Invariant:
//! every byte of the target is written, whatever the lengths.
//!
//! Byte shuffle puts byte 0 of every element first, then byte 1 of every element, and so on. Bit
//! shuffle does the same with single bits: row `8 * byte + bit` holds that bit of all elements,
//! eight elements to a byte. Bytes behind the last whole element stay where they are.

/// A filter of blosc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shuffle {
    /// None.
    None,
    /// Bytes of equal significance together.
    Bytes,
    /// Bits of equal significance together.
    Bits,
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

/// Undoes `shuffle` on `source` for the bytes from `first` on that `target` holds.
pub fn unshuffle(
    shuffle: Shuffle,
    typesize: usize,
    source: &[u8],
    first: usize,
    target: &mut [u8],
) {
    if first == 0 && target.len() == source.len() {
        return unshuffle_all(shuffle, typesize, source, target);
    }
    let count = source.len() / typesize;
    let whole = count * typesize;
    for (at, byte) in (first..).zip(target.iter_mut()) {
        let (element, part) = (at / typesize, at % typesize);
        *byte = match shuffle {
            _ if at >= whole => source[at],
            Shuffle::None => source[at],
            Shuffle::Bytes => source[part * count + element],
            Shuffle::Bits => (0..8).fold(0, |byte, bit| {
                let row = (part * 8 + bit) * (count / 8);
                byte | (source[row + element / 8] >> (element % 8) & 1) << bit
            }),
        };
    }
}

/// Undoes `shuffle` (as [`Shuffle::of_block`] gave it) on `source` into `target` of equal length.
pub fn unshuffle_all(shuffle: Shuffle, typesize: usize, source: &[u8], target: &mut [u8]) {
    assert!(source.len() == target.len());
    assert!(typesize > 0);
    let whole = source.len() / typesize * typesize;
    let (source, source_tail) = source.split_at(whole);
    let (target, target_tail) = target.split_at_mut(whole);
    target_tail.copy_from_slice(source_tail);
    match shuffle {
        Shuffle::None => target.copy_from_slice(source),
        Shuffle::Bytes => match typesize {
            2 => bytes_by::<2>(source, target),
            4 => bytes_by::<4>(source, target),
            8 => bytes_by::<8>(source, target),
            _ => bytes_by_any(typesize, source, target),
        },
        Shuffle::Bits => bits(typesize, source, target),
    }
}

/// The element size as a constant lets the compiler turn the gather into vector interleaves.
fn bytes_by<const SIZE: usize>(source: &[u8], target: &mut [u8]) {
    let count = source.len() / SIZE;
    let mut planes = [&source[..0]; SIZE];
    for (byte, plane) in planes.iter_mut().enumerate() {
        *plane = &source[byte * count..][..count];
    }
    for (at, element) in target.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
        for byte in 0..SIZE {
            element[byte] = planes[byte][at];
        }
    }
}

fn bytes_by_any(typesize: usize, source: &[u8], target: &mut [u8]) {
    let count = source.len() / typesize;
    if count == 0 {
        return;
    }
    for (byte, plane) in source.chunks_exact(count).enumerate() {
        for (element, value) in target.chunks_exact_mut(typesize).zip(plane) {
            element[byte] = *value;
        }
    }
}

/// Eight elements at a time: byte `at` of the eight rows of one byte position is an 8x8 matrix of
/// bits, and its transpose is that byte of eight elements.
fn bits(typesize: usize, source: &[u8], target: &mut [u8]) {
    let row_bytes = source.len() / typesize / 8;
    if row_bytes == 0 {
        return;
    }
    for (byte, rows) in source.chunks_exact(8 * row_bytes).enumerate() {
        for (at, group) in target.chunks_exact_mut(8 * typesize).enumerate() {
            let mut matrix = [0u8; 8];
            for (bit, value) in matrix.iter_mut().enumerate() {
                *value = rows[bit * row_bytes + at];
            }
            let columns = transposed(u64::from_le_bytes(matrix)).to_le_bytes();
            for (element, value) in columns.into_iter().enumerate() {
                group[element * typesize + byte] = value;
            }
        }
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

    fn comes_back(shuffle: Shuffle, typesize: usize, bytes: &[u8]) {
        let filtered = shuffled(shuffle, typesize, bytes);
        let mut target = vec![0x5A; bytes.len()];
        unshuffle(shuffle, typesize, &filtered, 0, &mut target);
        assert_eq!(target, bytes, "{shuffle:?} of {typesize}, {} bytes", bytes.len());
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
    fn shuffled_bits_come_back_for_every_typesize_and_tail() {
        for typesize in 1..40 {
            for elements in [8, 16, 64, 136] {
                comes_back(Shuffle::Bits, typesize, &painted(elements * typesize));
                comes_back(Shuffle::Bits, typesize, &painted(elements * typesize + typesize / 2));
            }
        }
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
