//! What is done where to the chunks of each codec on their way to a device.
//!
//! In: the codecs of a chain. Out: who decodes it. Invariant: what the kernel is left with is what
//! it can undo; all else a worker has done by then.

use crate::records::Codec;

/// Who decodes a chunk before the assemble kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedBy {
    /// Nothing is to be decompressed: the bytes that are needed are laid into a slab.
    Nobody,
    /// A worker decompresses it.
    Worker,
    /// A worker decompresses it, and the kernel undoes the filter that it still has.
    WorkerThenKernel,
}

/// Who decodes each codec that compresses, by its number; 0 stands for all others.
pub const DECODERS: [(Codec, DecodedBy); 6] = [
    (Codec::Crc32c, DecodedBy::Nobody),
    (Codec::Zstd, DecodedBy::Worker),
    (Codec::Blosc, DecodedBy::WorkerThenKernel),
    (Codec::Gzip, DecodedBy::Worker),
    (Codec::Zlib, DecodedBy::Worker),
    (Codec::Lz4, DecodedBy::Worker),
];

/// Who decodes a chain: as its compressor says, of which there is at most one.
pub fn decoded_by(codecs: &[Codec]) -> DecodedBy {
    let compressor = codecs.iter().position(|codec| codec.is_compressor());
    let Some(position) = compressor else { return DecodedBy::Nobody };
    // A checksum that was compressed along covers the bytes without their filter. Where there are
    // checksums of other kinds, a chunk is decoded as one with filters of its own is.
    let is_sum = |codec: &Codec| matches!(codec, Codec::Sum(_));
    match DECODERS[codecs[position].number()].1 {
        DecodedBy::WorkerThenKernel if position > 0 || codecs.iter().any(is_sum) => {
            DecodedBy::Worker
        }
        decoded_by => decoded_by,
    }
}

/// Why a worker decodes a chunk on its way to a device: the numbers of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByWorker {
    /// The config says so, or the caps left no room for a device that decodes.
    Off,
    /// No device decodes the codecs of its array, or only where the config insists.
    Codec,
    /// It is kept decoded.
    Kept,
    /// Boxes read less of it than lies in the file.
    Unneeded,
    /// It is one large stream, which a worker decodes sooner.
    Large,
    /// Too many chunks of its array were refused.
    Array,
    /// It is broken before its streams are, or may be.
    Broken,
    /// Its streams are of another codec than metadata says, or frames that libzstd alone decodes.
    OtherCodec,
    /// It has too many streams for its size.
    Streams,
    /// The slab had no room for its streams.
    Room,
    /// The device refused a stream.
    Refused,
}

/// Refusals after which all chunks of an array go to workers.
pub const REFUSALS_MAX: u32 = 8;

/// The largest stream, decoded, that a device is given where it need not be: a warp decodes it
/// alone, and the whole wave waits for the last.
pub const AUTO_STREAM_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Filter, Sum, SumKind};

    #[test]
    fn each_codec_has_the_row_of_its_number() {
        for (number, (codec, _)) in DECODERS.iter().enumerate() {
            assert_eq!(codec.number(), number);
        }
        // The last of all: one more codec needs one more row.
        assert_eq!(Codec::Lz4.number(), DECODERS.len() - 1);
    }

    #[test]
    fn what_compresses_is_never_laid_as_it_was_read() {
        for (codec, way) in DECODERS {
            assert_eq!(codec.is_compressor(), way != DecodedBy::Nobody, "{codec:?}");
        }
    }

    #[test]
    fn a_chain_goes_the_way_of_its_compressor_and_without_one_is_laid() {
        assert_eq!(decoded_by(&[]), DecodedBy::Nobody);
        assert_eq!(decoded_by(&[Codec::Crc32c]), DecodedBy::Nobody);
        for (codec, way) in DECODERS {
            assert_eq!(decoded_by(&[codec]), way);
            assert_eq!(decoded_by(&[codec, Codec::Crc32c]), way);
        }
    }

    #[test]
    fn a_filter_under_a_checksum_is_undone_before_the_checksum_is_looked_at() {
        assert_eq!(decoded_by(&[Codec::Blosc]), DecodedBy::WorkerThenKernel);
        assert_eq!(decoded_by(&[Codec::Crc32c, Codec::Blosc]), DecodedBy::Worker);
        assert_eq!(decoded_by(&[Codec::Crc32c, Codec::Blosc, Codec::Crc32c]), DecodedBy::Worker);
        let sum = Codec::Sum(Sum { kind: SumKind::Adler32, at_start: true });
        assert_eq!(decoded_by(&[Codec::Blosc, sum]), DecodedBy::Worker);
        assert_eq!(decoded_by(&[Codec::Filter(Filter::Shuffle(4))]), DecodedBy::Nobody);
        assert_eq!(
            decoded_by(&[Codec::Filter(Filter::Shuffle(4)), Codec::Blosc]),
            DecodedBy::Worker
        );
    }
}
