//! Codecs that have a name and parameters: compressors, checksums and numcodecs' filters.
//!
//! Comes in: one item of a codec list. Goes out: the codec, added to a chain, or nothing if reading
//! changes nothing. Sources: zarr v3 core; the specifications of `blosc`, `gzip` and `crc32c`;
//! `zstd` and `zlib` of zarr-extensions; for the names with "numcodecs." before them, and for zarr
//! v2, the arguments of the numcodecs class, which may all be absent.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::filters::read_filter;
use super::lzma::read_lzma;
use super::node::{Extension, Node};
use crate::base::status::Status;
use crate::fail;
use crate::records::{CODECS, Codec, CodecChain, CodecName, CodecRow, Number, Sum, SumKind};
use crate::source::json::Str;
use core::fmt;

/// Bytes of the longest name, prefix included.
const NAME_BYTES: usize = 26;

/// The largest level of bz2, which is that of a document without one.
const LEVEL_MAX: i64 = 9;

/// An item that names a codec.
pub(super) struct Named<'e, 'r, 'a> {
    pub row: &'static CodecRow,
    extension: &'e Extension<'r, 'a>,
    /// The codec whose parameters it has.
    is_numcodecs: bool,
}

impl<'e, 'r, 'a> Named<'e, 'r, 'a> {
    /// An item, if it names a codec in its version of zarr.
    pub fn find(extension: &'e Extension<'r, 'a>) -> Option<Self> {
        let mut buffer = [0; NAME_BYTES];
        let whole = extension.name.decode_into(&mut buffer)?;
        let bare = whole.strip_prefix("numcodecs.").filter(|_| !extension.has_id);
        let is_numcodecs = extension.has_id || bare.is_some();
        let name = bare.unwrap_or(whole);
        let row = CODECS.iter().find(|row| row.name == name)?;
        let is_here = if is_numcodecs { !row.is_of_zarr3 } else { row.is_specified };
        is_here.then_some(Named { row, extension, is_numcodecs })
    }

    /// Adds the codec to a chain. `given` is the type of the elements that it was given: in zarr v3
    /// it must be the one that it was made for. In v2 only the bytes count.
    pub fn add_to(&self, chain: &mut CodecChain, given: Number) -> Result<(), Status> {
        let Some(codec) = self.read(given)? else { return Ok(()) };
        let node = self.extension.node;
        let has_compressor = chain.iter().any(|before| before.is_compressor());
        if has_compressor && (codec.is_compressor() || codec.is_filter()) {
            let (name, other) = (codec.name(), if codec.is_filter() { "a" } else { "another" });
            return Err(fail!(node, Unsupported, "{name} after {other} compressor is not read"));
        }
        chain.try_push(codec).map_err(|_| node.too_many(chain.capacity(), "codecs"))
    }

    /// The codec, its parameters checked; None if it changes nothing on reading.
    fn read(&self, given: Number) -> Result<Option<Codec>, Status> {
        let Named { row, extension, is_numcodecs } = *self;
        // netCDF-C writes "1" for 1.
        let check =
            |name, first, last| extension.pick(name, 0)?[0].numeral().check_integer(first, last);
        Ok(Some(match row.codec {
            CodecName::Zstd => {
                let [level, checksum, ..] = extension.pick("level checksum", 0)?;
                level.numeral().check_integer(-131072, 22)?;
                checksum.present().map(|checksum| checksum.boolean()).transpose()?;
                Codec::Zstd
            }
            CodecName::Blosc => self.read_blosc()?,
            // -1 is zlib's default, which writers in Java leave as it is.
            CodecName::Gzip => check("level", -i64::from(is_numcodecs), 9).map(|()| Codec::Gzip)?,
            CodecName::Zlib => check("level", -1, 9).map(|()| Codec::Zlib)?,
            CodecName::Lz4 => {
                check("acceleration", i32::MIN.into(), i32::MAX.into()).map(|()| Codec::Lz4)?
            }
            CodecName::Bz2 => {
                let [level, ..] = extension.pick("level", 0)?;
                let level = level.found().map(|level| level.numeral().integer(1, LEVEL_MAX));
                Codec::Bz2(level.transpose()?.unwrap_or(LEVEL_MAX) as u8)
            }
            CodecName::Lzma => Codec::Lzma(read_lzma(extension)?),
            CodecName::Crc32c if is_numcodecs => {
                self.read_sum("location", SumKind::Crc32c, false)?
            }
            CodecName::Crc32c => self.read_sum("", SumKind::Crc32c, false)?,
            CodecName::Crc32 => self.read_sum("location", SumKind::Crc32, true)?,
            CodecName::Adler32 => self.read_sum("location", SumKind::Adler32, true)?,
            CodecName::Fletcher32 => self.read_sum("", SumKind::Fletcher32, false)?,
            CodecName::Shuffle
            | CodecName::Delta
            | CodecName::FixedScaleOffset
            | CodecName::PackBits
            | CodecName::AsType
            | CodecName::Quantize
            | CodecName::BitRound => return read_filter(extension, row.codec, given),
            CodecName::ScaleOffset | CodecName::CastValue | CodecName::ShardingIndexed => {
                unreachable!("it is read where its place is known")
            }
        }))
    }

    /// A checksum, which may be on either side if it has the member `location`.
    fn read_sum(&self, location: &str, kind: SumKind, at_start: bool) -> Result<Codec, Status> {
        let [location, ..] = self.extension.pick(location, 0)?;
        let at_start = match location.present() {
            None => at_start,
            Some(location) => location.choice("start end", Status::Unsupported)? == 0,
        };
        Ok(match (kind, at_start) {
            (SumKind::Crc32c, false) => Codec::Crc32c,
            _ => Codec::Sum(Sum { kind, at_start }),
        })
    }

    fn read_blosc(&self) -> Result<Codec, Status> {
        let Named { extension, is_numcodecs, .. } = *self;
        // Writers in Java add how many threads they had.
        let names = "cname clevel shuffle typesize blocksize nthreads";
        let [cname, clevel, shuffle, typesize, blocksize, threads, ..] =
            extension.pick(names, usize::from(!is_numcodecs))?;
        let mut codec = Codec::Blosc;
        if let Some(cname) = cname.found() {
            let name = cname.string()?;
            codec = match name.place_in("zstd lz4 lz4hc zlib blosclz") {
                Some(0) => Codec::BloscZstd,
                Some(1 | 2) => Codec::BloscLz4,
                Some(_) => Codec::Blosc,
                None => {
                    let known = "of zstd, lz4, lz4hc, zlib, blosclz";
                    return Err(cname.unknown("blosc of", name, known));
                }
            };
        }
        clevel.numeral().check_integer(0, 9)?;
        threads.present().map_or(Ok(()), |threads| threads.check_integer(0, i64::MAX))?;
        if extension.has_id && shuffle.numeral().as_str().is_some() {
            // GDAL's.
            shuffle.choice("NONE BYTE BIT", Status::Decode)?;
        } else if is_numcodecs {
            // -1 is "bits if elements have one byte, else bytes".
            shuffle.numeral().check_integer(-1, 2)?;
        } else if let Some(shuffle) = shuffle.found() {
            shuffle.choice("noshuffle shuffle bitshuffle", Status::Unsupported)?;
        }
        // numcodecs writes null if it looks at the buffer.
        if !is_numcodecs || typesize.present().is_some() {
            typesize.check_integer(1, i64::MAX)?;
        }
        blocksize.numeral().check_integer(0, i64::MAX)?;
        Ok(codec)
    }
}

/// The refusal of a codec that is not read, with those that are.
#[cold]
#[inline(never)]
pub(super) fn unread(
    node: Node<'_, '_>,
    what: &str,
    name: Str<'_>,
    known: fmt::Arguments<'_>,
) -> Status {
    let way = "write the array again with zstd";
    fail!(node, Unsupported, "{what} {name} is not read: {way} (read: {known})")
}

/// The names of those rows, as a text lists them.
pub(super) struct Names(pub fn(&CodecRow) -> bool);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for row in CODECS.iter().filter(|row| (self.0)(row)) {
            write!(f, "{separator}{}", row.name)?;
            separator = ", ";
        }
        Ok(())
    }
}
