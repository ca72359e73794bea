//! Touching reads become one.
//!
//! In: the pieces of files that a wave's chunks lie in, sorted by file, version and offset. Out:
//! reads of at most a given size, each of one version, covering whole pieces in order. A piece that
//! is larger than the cap is a read of its own, with the pieces inside of it, which take no more
//! staging then. Bytes that no chunk needs are read up to the store's gap: if that is 0, a byte
//! that nobody needs ends a read.

use crate::base::math::align_up;
use crate::base::version::Version;

/// Alignment in the slab of a read.
const READ_ALIGN: u64 = 64;

/// The staging that a read of so many bytes takes.
pub fn staged_bytes(bytes: u64) -> u64 {
    align_up(bytes, READ_ALIGN)
}

/// The bytes of one chunk in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Piece {
    /// Identity of the array.
    pub array_id: u64,
    /// Number of the file in its file grid.
    pub file: u64,
    /// Version of the file that the offset is of.
    pub version: Version,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub bytes: u64,
    /// Of a chunk that somebody is asked for: its number, because no other is read with it.
    pub asked: Option<u64>,
    /// No piece follows one of a higher rank in a read.
    pub rank: u64,
}

/// Calls `emit(first, limit, bytes)` for every read: pieces `[first, limit)`, `bytes` in all. Reads
/// go over gaps of at most `gap_bytes`, so that each piece takes at most so much more staging.
pub fn merge_pieces(
    count: usize,
    piece: impl Fn(usize) -> Piece,
    (gap_bytes, read_bytes_max): (u64, u64),
    mut emit: impl FnMut(usize, usize, u64),
) {
    let mut first = 0;
    while first < count {
        let start = piece(first);
        let mut end = start.offset + start.bytes;
        let (mut limit, mut rank) = (first + 1, start.rank);
        while limit < count {
            let next = piece(limit);
            let of = |piece: &Piece| (piece.array_id, piece.file, piece.version, piece.asked);
            let same_file = of(&next) == of(&start) && rank <= next.rank;
            let merged_end = end.max(next.offset + next.bytes);
            let is_too_much = merged_end > end && merged_end - start.offset > read_bytes_max;
            if !same_file || next.offset.saturating_sub(end) > gap_bytes || is_too_much {
                break;
            }
            (end, rank) = (merged_end, next.rank);
            limit += 1;
        }
        emit(first, limit, end - start.offset);
        first = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::vec::Vec;

    fn merged(pieces: &[(u64, u64, u64)], cap: u64) -> Vec<(usize, usize, u64)> {
        merged_over(pieces, (0, cap))
    }

    fn merged_over(pieces: &[(u64, u64, u64)], caps: (u64, u64)) -> Vec<(usize, usize, u64)> {
        let mut reads = Vec::new();
        let piece = |at: usize| {
            let (file, offset, bytes) = pieces[at];
            Piece { array_id: 1, file, version: Version::NONE, offset, bytes, asked: None, rank: 0 }
        };
        merge_pieces(pieces.len(), piece, caps, |first, limit, bytes| {
            reads.push((first, limit, bytes));
        });
        reads
    }

    #[test]
    fn no_piece_follows_one_of_a_higher_rank() {
        let ranks = [0, 0, 3, 3, 0, 2, 1];
        let piece = |at: usize| Piece {
            array_id: 1,
            file: 0,
            version: Version::NONE,
            offset: at as u64 * 10,
            bytes: 10,
            asked: None,
            rank: ranks[at],
        };
        let mut reads = Vec::new();
        merge_pieces(7, piece, (0, 1000), |first, limit, _| reads.push((first, limit)));
        assert_eq!(reads, [(0, 4), (4, 6), (6, 7)]);
    }

    #[test]
    fn touching_and_overlapping_pieces_fuse_and_a_gap_ends_a_read() {
        let pieces = [(0, 0, 10), (0, 10, 5), (0, 12, 8), (0, 21, 4), (1, 25, 4)];
        assert_eq!(merged(&pieces, 1000), [(0, 3, 20), (3, 4, 4), (4, 5, 4)]);
    }

    #[test]
    fn a_gap_is_read_up_to_the_gap_and_the_cap() {
        let pieces = [(0, 0, 10), (0, 14, 6), (0, 25, 5), (1, 31, 1)];
        assert_eq!(merged_over(&pieces, (4, 1000)), [(0, 2, 20), (2, 3, 5), (3, 4, 1)]);
        assert_eq!(merged_over(&pieces, (5, 1000)), [(0, 3, 30), (3, 4, 1)]);
        assert_eq!(merged_over(&pieces, (5, 29)), [(0, 2, 20), (2, 3, 5), (3, 4, 1)]);
        assert_eq!(merged_over(&pieces, (3, 1000)).len(), 4);
    }

    #[test]
    fn pieces_of_two_versions_are_two_reads() {
        let piece = |at: usize| Piece {
            array_id: 1,
            file: 0,
            version: Version { inode: at as u64 / 2, ..Version::NONE },
            offset: at as u64 * 10,
            bytes: 10,
            asked: None,
            rank: 0,
        };
        let mut reads = Vec::new();
        merge_pieces(4, piece, (0, 1000), |first, limit, bytes| reads.push((first, limit, bytes)));
        assert_eq!(reads, [(0, 2, 20), (2, 4, 20)]);
    }

    #[test]
    fn the_cap_splits_reads_but_never_a_piece() {
        let pieces = [(0, 0, 10), (0, 10, 10), (0, 20, 50), (0, 70, 1)];
        assert_eq!(merged(&pieces, 20), [(0, 2, 20), (2, 3, 50), (3, 4, 1)]);
        assert_eq!(merged(&pieces, 1).len(), 4);
    }

    #[test]
    fn pieces_inside_of_one_over_the_cap_need_no_other_read() {
        let pieces = [(0, 0, 50), (0, 0, 50), (0, 10, 40), (0, 20, 31)];
        assert_eq!(merged(&pieces, 20), [(0, 3, 50), (3, 4, 31)]);
    }
}
