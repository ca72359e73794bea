//! What is done where to the chunks of each codec on their way to a device.
//!
//! In: the codecs of a chain. Out: its [`Way`]. Invariant: what the kernel is left with is what it
//! can undo; all else a worker has done by then.

use crate::records::Codec;

/// How a chunk comes to the assemble kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Nothing is to be decompressed: the bytes that are needed are laid into a slab.
    Laid,
    /// A worker decompresses it.
    Worker,
    /// A worker decompresses it, and the kernel undoes the filter that it still has.
    WorkerThenKernel,
}

/// The way of each codec that compresses, by its number; 0 is that of all others.
pub const WAYS: [(Codec, Way); 6] = [
    (Codec::Crc32c, Way::Laid),
    (Codec::Zstd, Way::Worker),
    (Codec::Blosc, Way::WorkerThenKernel),
    (Codec::Gzip, Way::Worker),
    (Codec::Zlib, Way::Worker),
    (Codec::Lz4, Way::Worker),
];

/// The way of a chain: that of its compressor, of which there is at most one.
pub fn way_of(codecs: &[Codec]) -> Way {
    let compressor = codecs.iter().position(|codec| codec.is_compressor());
    let Some(position) = compressor else { return Way::Laid };
    // A checksum that was compressed along covers the bytes without their filter. Where there are
    // checksums of other kinds, a chunk is decoded as one with filters of its own is.
    let is_sum = |codec: &Codec| matches!(codec, Codec::Sum(_));
    match WAYS[codecs[position].number()].1 {
        Way::WorkerThenKernel if position > 0 || codecs.iter().any(is_sum) => Way::Worker,
        way => way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Filter, Sum, SumKind};

    #[test]
    fn each_codec_has_the_row_of_its_number() {
        for (number, (codec, _)) in WAYS.iter().enumerate() {
            assert_eq!(codec.number(), number);
        }
        // The last of all: one more codec needs one more row.
        assert_eq!(Codec::Lz4.number(), WAYS.len() - 1);
    }

    #[test]
    fn what_compresses_is_never_laid_as_it_was_read() {
        for (codec, way) in WAYS {
            assert_eq!(codec.is_compressor(), way != Way::Laid, "{codec:?}");
        }
    }

    #[test]
    fn a_chain_goes_the_way_of_its_compressor_and_without_one_is_laid() {
        assert_eq!(way_of(&[]), Way::Laid);
        assert_eq!(way_of(&[Codec::Crc32c]), Way::Laid);
        for (codec, way) in WAYS {
            assert_eq!(way_of(&[codec]), way);
            assert_eq!(way_of(&[codec, Codec::Crc32c]), way);
        }
    }

    #[test]
    fn a_filter_under_a_checksum_is_undone_before_the_checksum_is_looked_at() {
        assert_eq!(way_of(&[Codec::Blosc]), Way::WorkerThenKernel);
        assert_eq!(way_of(&[Codec::Crc32c, Codec::Blosc]), Way::Worker);
        assert_eq!(way_of(&[Codec::Crc32c, Codec::Blosc, Codec::Crc32c]), Way::Worker);
        let sum = Codec::Sum(Sum { kind: SumKind::Adler32, at_start: true });
        assert_eq!(way_of(&[Codec::Blosc, sum]), Way::Worker);
        assert_eq!(way_of(&[Codec::Filter(Filter::Shuffle(4))]), Way::Laid);
        assert_eq!(way_of(&[Codec::Filter(Filter::Shuffle(4)), Codec::Blosc]), Way::Worker);
    }
}
