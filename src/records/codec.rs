//! The codecs of a chunk: what each is called, and what it does to the number of bytes.
//!
//! In: what metadata says of a codec. Out: one item of a chain. Invariant: the sizes that a codec
//! makes follow from the size that it is given, but for those that compress.

use super::{ByteOrder, Cast, Cf, Dtype, Lzma, Packed, Scaling};
use crate::base::limits::CODECS_MAX;

macro_rules! codecs {
    ($($key:ident($name:literal, $number:literal $(, $flag:ident)*) $(= $codec:pat)?,)+) => {
        /// Every codec by its name, which is the key of its row: those of a `Codec`, and those that
        /// reading has nothing to undo of.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum CodecName { $(#[doc = $name] $key,)+ }

        /// Every codec that is read, in the order in which texts name them. A new one is a row
        /// here, an arm where `source::zarr` reads its parameters, and one where `decode` undoes
        /// it: nothing compiles before all three exist.
        pub static CODECS: [CodecRow; 21] = [$(CodecRow {
            codec: CodecName::$key,
            name: $name,
            number: $number,
            $($flag: true,)*
            ..CodecRow::PLAIN
        },)+];

        impl Codec {
            /// Its row.
            pub const fn row(self) -> &'static CodecRow {
                match self { $($($codec => &CODECS[CodecName::$key as usize],)?)+ }
            }
        }
    };
}

// Name in zarr, number in the header (0: it does not compress), flags, and what it is in a chain.
codecs! {
    Zstd("zstd", 1, is_specified) = Codec::Zstd,
    Blosc("blosc", 2, is_specified) = Codec::Blosc | Codec::BloscLz4 | Codec::BloscZstd,
    Gzip("gzip", 3, is_specified, has_checksum) = Codec::Gzip,
    Zlib("zlib", 4, is_specified, has_checksum) = Codec::Zlib,
    Lz4("lz4", 5, is_specified) = Codec::Lz4,
    Bz2("bz2", 6, is_specified, has_checksum) = Codec::Bz2(_),
    Lzma("lzma", 7, is_specified) = Codec::Lzma(_),
    Crc32c("crc32c", 0, is_specified, has_checksum)
        = Codec::Crc32c | Codec::Sum(Sum { kind: SumKind::Crc32c, .. }),
    Crc32("crc32", 0, has_checksum) = Codec::Sum(Sum { kind: SumKind::Crc32, .. }),
    Adler32("adler32", 0, has_checksum) = Codec::Sum(Sum { kind: SumKind::Adler32, .. }),
    Fletcher32("fletcher32", 0, has_checksum) = Codec::Sum(Sum { kind: SumKind::Fletcher32, .. }),
    Shuffle("shuffle", 0) = Codec::Filter(Filter::Shuffle(_)),
    Delta("delta", 0, is_of_elements) = Codec::Filter(Filter::Delta(_)),
    FixedScaleOffset("fixedscaleoffset", 0, is_of_elements)
        = Codec::Filter(Filter::FixedScaleOffset(..) | Filter::Cf(_)),
    PackBits("packbits", 0, is_of_elements)
        = Codec::Filter(Filter::PackBits | Filter::Packed(_) | Filter::Member(_)),
    AsType("astype", 0, is_of_elements) = Codec::Filter(Filter::AsType(_)),
    Quantize("quantize", 0, is_of_elements),
    BitRound("bitround", 0, is_of_elements),
    ScaleOffset("scale_offset", 0, is_specified, is_of_elements, is_of_zarr3)
        = Codec::Filter(Filter::ScaleOffset(..)),
    CastValue("cast_value", 0, is_specified, is_of_elements, is_of_zarr3)
        = Codec::Filter(Filter::Cast(_)),
    ShardingIndexed("sharding_indexed", 0, is_of_zarr3) = Codec::Filter(Filter::Shard(_)),
}

/// The facts of a codec before its parameters.
#[derive(Clone, Copy, Debug)]
pub struct CodecRow {
    /// Its key.
    pub codec: CodecName,
    /// Its name in zarr v2, and in v3 after "numcodecs.", if it is not `is_of_zarr3`.
    pub name: &'static str,
    /// The header's number of those that compress, 0 of all others.
    pub number: usize,
    /// Zarr v3 has a specification of it, which uses its name alone.
    pub is_specified: bool,
    /// numcodecs does not have it.
    pub is_of_zarr3: bool,
    /// In zarr v3 it stands before the codec `bytes`.
    pub is_of_elements: bool,
    /// Its output always has a checksum of the whole.
    pub has_checksum: bool,
}

impl CodecRow {
    /// A row without a flag.
    const PLAIN: CodecRow = CodecRow {
        codec: CodecName::Zstd,
        name: "",
        number: 0,
        is_specified: false,
        is_of_zarr3: false,
        is_of_elements: false,
        has_checksum: false,
    };
}

/// One codec. The parameters of compressors travel in the encoded bytes themselves, but for what
/// memory depends on and for those of LZMA without a container.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Codec {
    /// A 4-byte little-endian CRC-32C after the bytes.
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
    /// One or more bzip2 streams, of blocks of at most so many times 100,000 bytes.
    Bz2(u8),
    /// LZMA data in a container.
    Lzma(Lzma),
    /// Another checksum of numcodecs.
    Sum(Sum),
    /// A filter: what it says of the elements stands in the metadata alone.
    Filter(Filter),
}

/// A 4-byte little-endian checksum before or after the bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sum {
    /// The checksum that is computed.
    pub kind: SumKind,
    /// Before the bytes instead of after them.
    pub at_start: bool,
}

/// The checksums that are not [`Codec::Crc32c`], which follows its bytes.
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

/// The change that a filter made to the bytes of a chunk, in the direction in which it is undone.
/// The types are bool, integers and f16, f32 and f64.
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
    /// Elements of few bits, a byte each or side by side: what makes bytes of a chunk in zarr v3.
    Packed(Packed),
    /// The elements are one field of structured ones.
    Member(Member),
    /// Less an offset, times a scale, exactly or in the type's own roundings.
    ScaleOffset(Types, Scaling),
    /// Other values that are meant to be the same.
    Cast(Cast),
    /// The numbers that attributes of the CF conventions make of the elements. It is no codec of a
    /// document, and stands first.
    Cf(Cf),
    /// Cells, each by the codecs before this one, and an index: its number among the shards of the
    /// array, outermost first. The extents of a cell are at this place of `shard_shape`, and the
    /// axes of its index one after it in `axis_order`.
    Shard(u8),
}

/// A field of a structured element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes of the whole element.
    pub element_bytes: u32,
    /// Bytes before the field.
    pub offset: u32,
    /// Bytes of the field.
    pub bytes: u32,
}

/// The types of the elements on both sides of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types {
    /// The elements that it gives when it is undone.
    pub decoded: Number,
    /// The elements that it wrote.
    pub encoded: Number,
}

/// An element type and the order of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// The type.
    pub dtype: Dtype,
    /// Little if an element is one byte.
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
    /// The name in zarr metadata, without a prefix; that of the type if it is a field's, and "cf".
    pub fn name(self) -> &'static str {
        match self {
            Codec::Filter(Filter::Cf(_)) => "cf",
            Codec::Filter(Filter::Member(_)) => "struct",
            _ => self.row().name,
        }
    }

    /// The number of a compressor; 0 of all others.
    pub const fn number(self) -> usize {
        self.row().number
    }

    /// Whether the size of what it makes follows from the encoded bytes alone.
    pub const fn is_compressor(self) -> bool {
        self.number() > 0
    }

    /// Whether the encoded bytes always carry a checksum of the whole. A zstd frame that does says
    /// so itself.
    pub const fn has_checksum(self) -> bool {
        self.row().has_checksum
    }

    /// Whether it is blosc, of whatever streams.
    pub const fn is_blosc(self) -> bool {
        self.number() == Codec::Blosc.number()
    }

    /// Whether it is a checksum and nothing else.
    pub const fn is_sum(self) -> bool {
        matches!(self, Codec::Crc32c | Codec::Sum(_))
    }

    /// Whether it is a filter.
    pub const fn is_filter(self) -> bool {
        matches!(self, Codec::Filter(_))
    }

    /// Bytes that it makes of `bytes`. None for compressors and shards, and if a filter does not
    /// fit: they are not whole elements.
    pub fn encoded_bytes(self, bytes: u64) -> Option<u64> {
        use Filter::{PackBits, Shuffle};
        match self {
            Codec::Crc32c | Codec::Sum(_) => Some(bytes + 4),
            Codec::Filter(Shuffle(size)) => bytes.is_multiple_of(size.into()).then_some(bytes),
            Codec::Filter(PackBits) => Some(1 + bytes.div_ceil(8)),
            Codec::Filter(Filter::Packed(packed)) => packed.encoded_bytes(bytes),
            Codec::Filter(Filter::Member(Member { element_bytes, bytes: own, .. })) => {
                let (own, whole) = (u64::from(own), u64::from(element_bytes));
                bytes
                    .is_multiple_of(own)
                    .then(|| bytes / own)
                    .and_then(|count| count.checked_mul(whole))
            }
            other => {
                let types = other.types()?;
                let (decoded, encoded) = (types.decoded.bytes(), types.encoded.bytes());
                bytes.is_multiple_of(decoded).then(|| bytes / decoded * encoded)
            }
        }
    }

    /// The types on both sides of it, if it changes elements one by one.
    pub const fn types(self) -> Option<Types> {
        use Filter::{AsType, Delta, FixedScaleOffset, ScaleOffset};
        match self {
            Codec::Filter(Delta(types) | AsType(types) | FixedScaleOffset(types, _)) => Some(types),
            Codec::Filter(ScaleOffset(types, _)) => Some(types),
            Codec::Filter(Filter::Cast(cast)) => Some(cast.types),
            Codec::Filter(Filter::Cf(cf)) => Some(cf.types),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::abi::{CODEC_NONE, CODEC_PLACES};

    #[test]
    fn each_compressor_has_a_place_of_its_own_in_the_counts() {
        let mut is_taken = [false; CODEC_PLACES];
        for row in CODECS.iter().filter(|row| row.number != CODEC_NONE) {
            assert!(!core::mem::replace(&mut is_taken[row.number], true), "{}", row.name);
        }
        // The place of none is that of chunks that nothing compressed.
        assert_eq!(is_taken, [false, true, true, true, true, true, true, true]);
    }

    #[test]
    fn each_name_has_one_row_at_its_key() {
        for (place, row) in CODECS.iter().enumerate() {
            assert_eq!(row.codec as usize, place);
            let name = std::format!("{:?}", row.codec).to_lowercase();
            assert_eq!(row.name.replace('_', ""), name);
        }
    }
}
