//! Codecs that have a name and parameters: compressors, checksums and numcodecs' filters.
//!
//! Comes in: one item of a codec list. Goes out: the codec, added to a chain, or nothing where
//! reading changes nothing. Sources: zarr v3 core; the specifications of `blosc`, `gzip` and
//! `crc32c`; `zstd` and `zlib` of zarr-extensions; for the names with "numcodecs." before them, and
//! for zarr v2, the arguments of the numcodecs class, which may all be absent.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::filters::read_filter;
use super::node::Extension;
use crate::base::status::Status;
use crate::records::{Codec, CodecChain, Number, Sum, SumKind};

/// Every codec that is read. In zarr v2 they are numcodecs'. In v3 the first ZARR_COUNT are those
/// of the specifications; with "numcodecs." before them all are numcodecs'.
const NAMES: &str = "crc32c zstd blosc gzip zlib lz4 crc32 adler32 fletcher32 shuffle delta \
                     fixedscaleoffset packbits astype quantize bitround";
const ZARR_COUNT: usize = 6;

/// Place of the first that is given elements in zarr v3; all before it are given bytes.
const ELEMENTS_FIRST: usize = 10;

/// Bytes of the longest name, prefix included.
const NAME_BYTES: usize = 26;

/// One of NAMES.
#[derive(Clone, Copy)]
pub(super) struct Named {
    place: usize,
    name: &'static str,
    /// Whose parameters it has.
    is_numcodecs: bool,
}

impl Named {
    /// The name of an item, if it is one of these in its version of zarr.
    pub fn find(extension: &Extension<'_, '_>) -> Option<Named> {
        let mut buffer = [0; NAME_BYTES];
        let whole = extension.name.decode_into(&mut buffer)?;
        let bare = whole.strip_prefix("numcodecs.").filter(|_| !extension.has_id);
        let is_numcodecs = extension.has_id || bare.is_some();
        let bare = bare.unwrap_or(whole);
        let (place, name) = NAMES.split(' ').enumerate().find(|(_, name)| *name == bare)?;
        (is_numcodecs || place < ZARR_COUNT).then_some(Named { place, name, is_numcodecs })
    }

    /// Whether it stands before the codec `bytes` in zarr v3.
    pub fn is_of_elements(self) -> bool {
        self.place >= ELEMENTS_FIRST
    }
}

/// Adds the codec of this name to a chain. `given` is the type of the elements that it was given:
/// in zarr v3 it must be the one that it was made for. In v2 only the bytes count.
pub(super) fn add_codec(
    extension: &Extension<'_, '_>,
    named: Named,
    given: Number,
    chain: &mut CodecChain,
) -> Result<(), Status> {
    let Some(codec) = read_codec(extension, named, given)? else { return Ok(()) };
    let has_compressor = chain.iter().any(|before| before.is_compressor());
    if has_compressor && (codec.is_compressor() || codec.is_filter()) {
        let (name, other) = (codec.name(), if codec.is_filter() { "a" } else { "another" });
        let reason = format_args!("{name} behind {other} compressor is not read");
        return Err(extension.node.fail(Status::Unsupported, reason));
    }
    let most = chain.capacity();
    chain.try_push(codec).map_err(|_| extension.node.too_many(most, "codecs"))
}

/// The codec of this name, its parameters checked; None where it changes nothing on reading.
fn read_codec(
    extension: &Extension<'_, '_>,
    named: Named,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let level = |names: &str, first: i64, last: i64| {
        extension.pick(names, 0)?[0].check_integer(first, last)
    };
    let codec = match named.name {
        "crc32c" if named.is_numcodecs => read_sum(extension, SumKind::Crc32c, false)?,
        "crc32" => read_sum(extension, SumKind::Crc32, true)?,
        "adler32" => read_sum(extension, SumKind::Adler32, true)?,
        "crc32c" => extension.pick("", 0).map(|_| Codec::Crc32c)?,
        "fletcher32" => {
            extension.pick("", 0)?;
            Codec::Sum(Sum { kind: SumKind::Fletcher32, at_start: false })
        }
        "zstd" => {
            let [level, checksum, ..] = extension.pick("level checksum", 0)?;
            level.check_integer(-131072, 22)?;
            checksum.found().map(|checksum| checksum.boolean()).transpose()?;
            Codec::Zstd
        }
        "blosc" => read_blosc(extension, named.is_numcodecs)?,
        // -1 is zlib's default, which writers in Java leave as it is.
        "gzip" if named.is_numcodecs => level("level", -1, 9).map(|()| Codec::Gzip)?,
        "gzip" => level("level", 0, 9).map(|()| Codec::Gzip)?,
        "zlib" => level("level", -1, 9).map(|()| Codec::Zlib)?,
        "lz4" => level("acceleration", i32::MIN.into(), i32::MAX.into()).map(|()| Codec::Lz4)?,
        name => return read_filter(extension, name, given),
    };
    Ok(Some(codec))
}

/// A checksum of numcodecs that may be on either side.
fn read_sum(
    extension: &Extension<'_, '_>,
    kind: SumKind,
    default_start: bool,
) -> Result<Codec, Status> {
    let [location, ..] = extension.pick("location", 0)?;
    let at_start = match location.present() {
        None => default_start,
        Some(location) => location.choice("start end", Status::Unsupported)? == 0,
    };
    Ok(match (kind, at_start) {
        (SumKind::Crc32c, false) => Codec::Crc32c,
        _ => Codec::Sum(Sum { kind, at_start }),
    })
}

fn read_blosc(extension: &Extension<'_, '_>, is_numcodecs: bool) -> Result<Codec, Status> {
    let names = "cname clevel shuffle typesize blocksize";
    let [cname, clevel, shuffle, typesize, blocksize, ..] =
        extension.pick(names, usize::from(!is_numcodecs))?;
    let mut codec = Codec::Blosc;
    if let Some(cname) = cname.found() {
        let name = cname.string()?;
        if name.place_in("zstd lz4 lz4hc zlib blosclz").is_none() {
            return Err(cname.unknown("blosc of", name, "of zstd, lz4, lz4hc, zlib, blosclz"));
        }
        codec = match name.place_in("lz4 lz4hc zstd") {
            Some(0 | 1) => Codec::BloscLz4,
            Some(_) => Codec::BloscZstd,
            None => Codec::Blosc,
        };
    }
    clevel.check_integer(0, 9)?;
    if extension.has_id && shuffle.as_str().is_some() {
        // GDAL's.
        shuffle.choice("NONE BYTE BIT", Status::Decode)?;
    } else if is_numcodecs {
        // -1 is "bits where elements have one byte, else bytes".
        shuffle.check_integer(-1, 2)?;
    } else if let Some(shuffle) = shuffle.found() {
        shuffle.choice("noshuffle shuffle bitshuffle", Status::Unsupported)?;
    }
    // numcodecs says null where it looks at the buffer.
    if !is_numcodecs || typesize.present().is_some() {
        typesize.check_integer(1, i64::MAX)?;
    }
    blocksize.check_integer(0, i64::MAX)?;
    Ok(codec)
}
