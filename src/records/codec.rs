//! The codecs of a chunk: what each is called, and what it does to the number of bytes.
//!
//! In: what metadata says of a codec. Out: one item of a chain. Invariant: the sizes that a codec
//! makes follow from the size that it is given, but for those that compress.

use super::{ByteOrder, Dtype};
use crate::base::limits::CODECS_MAX;
use crate::base::text::part_of;

/// One codec. The parameters of compressors travel in the encoded bytes themselves. The numbers of
/// those that compress are the header's, where 0 is none of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Codec {
    /// A 4-byte little-endian CRC-32C behind the bytes.
    Crc32c,
    /// One or more zstd frames (RFC 8878).
    Zstd,
    /// A blosc1 chunk.
    Blosc,
    /// One whose streams are LZ4 blocks, as metadata says; the chunk has the last word.
    BloscLz4,
    /// Likewise one whose streams are zstd frames.
    BloscZstd,
    /// One or more gzip members (RFC 1952).
    Gzip,
    /// A zlib stream (RFC 1950).
    Zlib,
    /// A little-endian u32 of the size and an LZ4 block, as numcodecs writes it.
    Lz4,
    /// Another checksum of numcodecs.
    Sum(Sum),
    /// A filter of numcodecs: what it says of the elements stands in the metadata alone.
    Filter(Filter),
}

/// A 4-byte little-endian checksum before or behind the bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sum {
    /// What is computed.
    pub kind: SumKind,
    /// Before the bytes instead of behind them.
    pub at_start: bool,
}

/// The checksums that are not [`Codec::Crc32c`], which stands behind its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumKind {
    /// CRC-32C, before the bytes.
    Crc32c,
    /// CRC-32, as zlib's.
    Crc32,
    /// Adler-32 (RFC 1950).
    Adler32,
    /// HDF5's.
    Fletcher32,
}

/// What a filter did to the bytes of a chunk, told from its end, as it is undone. The types are
/// bool, integers and f16, f32 and f64.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Filter {
    /// Bytes of equal significance together, of elements of this many bytes, at least 2.
    Shuffle(u8),
    /// Each element less the one before it.
    Delta(Types),
    /// Less an offset, times a scale, rounded.
    FixedScaleOffset(Types, Line),
    /// Another type.
    AsType(Types),
    /// Eight booleans to a byte, the first in its highest bit; before them a byte that counts the
    /// bits at the end that are none.
    PackBits,
}

/// The types of the elements on both sides of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types {
    /// What it gives when it is undone.
    pub decoded: Number,
    /// What it wrote.
    pub encoded: Number,
}

/// An element type and the order of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// The type.
    pub dtype: Dtype,
    /// Little where an element is one byte.
    pub byte_order: ByteOrder,
}

impl Number {
    fn bytes(self) -> u64 {
        u64::from(self.dtype.bytes())
    }
}

/// `decoded = encoded / scale + offset`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Finite.
    pub scale: f64,
    /// Finite.
    pub offset: f64,
}

/// The codecs of a chunk in the order of encoding: filters of the elements, then codecs of their
/// bytes. At most one compresses.
pub type CodecChain = arrayvec::ArrayVec<Codec, CODECS_MAX>;

impl Codec {
    /// The name in zarr metadata, without a prefix.
    pub fn name(self) -> &'static str {
        let names = "crc32c zstd blosc gzip zlib lz4 crc32 adler32 fletcher32 shuffle delta \
                     fixedscaleoffset astype packbits";
        let place = match self {
            Codec::Sum(Sum { kind: SumKind::Crc32c, .. }) => 0,
            Codec::Sum(Sum { kind, .. }) => 5 + kind as usize,
            Codec::Filter(Filter::Shuffle(_)) => 9,
            Codec::Filter(Filter::Delta(_)) => 10,
            Codec::Filter(Filter::FixedScaleOffset(..)) => 11,
            Codec::Filter(Filter::AsType(_)) => 12,
            Codec::Filter(Filter::PackBits) => 13,
            _ => self.number(),
        };
        part_of(names, ' ', place)
    }

    /// The number of a compressor; 0 of all others.
    pub const fn number(self) -> usize {
        match self {
            Codec::Zstd => 1,
            Codec::Blosc | Codec::BloscLz4 | Codec::BloscZstd => 2,
            Codec::Gzip => 3,
            Codec::Zlib => 4,
            Codec::Lz4 => 5,
            Codec::Crc32c | Codec::Sum(_) | Codec::Filter(_) => 0,
        }
    }

    /// Whether the size of what it makes follows from the encoded bytes alone.
    pub const fn is_compressor(self) -> bool {
        self.number() > 0
    }

    /// Whether the encoded bytes always carry a checksum of the whole. A zstd frame that does says
    /// so itself.
    pub const fn has_checksum(self) -> bool {
        matches!(self, Codec::Crc32c | Codec::Sum(_) | Codec::Gzip | Codec::Zlib)
    }

    /// Whether it is blosc, of whatever streams.
    pub const fn is_blosc(self) -> bool {
        self.number() == Codec::Blosc.number()
    }

    /// Whether it is a filter.
    pub const fn is_filter(self) -> bool {
        matches!(self, Codec::Filter(_))
    }

    /// Bytes that it makes of `bytes`. None of compressors, and where a filter does not fit: they
    /// are not whole elements.
    pub fn encoded_bytes(self, bytes: u64) -> Option<u64> {
        let filter = match self {
            Codec::Crc32c | Codec::Sum(_) => return Some(bytes + 4),
            Codec::Filter(filter) => filter,
            _ => return None,
        };
        match filter {
            Filter::Shuffle(size) => bytes.is_multiple_of(u64::from(size)).then_some(bytes),
            Filter::Delta(Types { decoded, encoded })
            | Filter::AsType(Types { decoded, encoded })
            | Filter::FixedScaleOffset(Types { decoded, encoded }, _) => bytes
                .is_multiple_of(decoded.bytes())
                .then(|| bytes / decoded.bytes() * encoded.bytes()),
            Filter::PackBits => Some(1 + bytes.div_ceil(8)),
        }
    }
}
