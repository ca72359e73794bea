//! Touching reads become one.
//!
//! In: the pieces of files that a wave's chunks lie in, sorted by file and offset. Out: reads of at
//! most a given size, each covering whole pieces in order. A piece that is larger than the cap is a
//! read of its own. Nothing that no chunk needs is read: a gap of one byte ends a read.

/// The bytes of one chunk in a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Piece {
    /// Identity of the array.
    pub array_id: u64,
    /// Number of the file in its file grid.
    pub file: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub bytes: u64,
}

/// Calls `emit(first, limit, bytes)` for every read: pieces `[first, limit)`, `bytes` in all.
pub fn merge_pieces(
    count: usize,
    piece: impl Fn(usize) -> Piece,
    read_bytes_max: u64,
    mut emit: impl FnMut(usize, usize, u64),
) {
    let mut first = 0;
    while first < count {
        let start = piece(first);
        let mut end = start.offset + start.bytes;
        let mut limit = first + 1;
        while limit < count {
            let next = piece(limit);
            let same_file = (next.array_id, next.file) == (start.array_id, start.file);
            let merged_end = end.max(next.offset + next.bytes);
            if !same_file || next.offset > end || merged_end - start.offset > read_bytes_max {
                break;
            }
            end = merged_end;
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
        let mut reads = Vec::new();
        let piece = |at: usize| {
            let (file, offset, bytes) = pieces[at];
            Piece { array_id: 1, file, offset, bytes }
        };
        merge_pieces(pieces.len(), piece, cap, |first, limit, bytes| {
            reads.push((first, limit, bytes));
        });
        reads
    }

    #[test]
    fn touching_and_overlapping_pieces_fuse_and_a_gap_ends_a_read() {
        let pieces = [(0, 0, 10), (0, 10, 5), (0, 12, 8), (0, 21, 4), (1, 25, 4)];
        assert_eq!(merged(&pieces, 1000), [(0, 3, 20), (3, 4, 4), (4, 5, 4)]);
    }

    #[test]
    fn the_cap_splits_reads_but_never_a_piece() {
        let pieces = [(0, 0, 10), (0, 10, 10), (0, 20, 50), (0, 70, 1)];
        assert_eq!(merged(&pieces, 20), [(0, 2, 20), (2, 3, 50), (3, 4, 1)]);
        assert_eq!(merged(&pieces, 1).len(), 4);
    }
}
