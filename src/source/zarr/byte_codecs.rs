//! Codecs from bytes to bytes: their names and their configurations.
//!
//! Comes in: one item of a codec list. Goes out: the codec, its configuration checked. Sources:
//! zarr v3 core; the specifications of `blosc`, `gzip` and `crc32c`; `zstd` and `zlib` of
//! zarr-extensions; for the names with "numcodecs." before them, what zarr-python 3 writes: the
//! arguments of the numcodecs class that were given, so that every member may be absent.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::filters::read_sum;
use super::node::{Extension, Reader};
use crate::base::status::Status;
use crate::records::{Codec, SumKind};
use crate::source::json::{Kind, Value};

/// Who wrote a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The specification of the codec.
    Zarr,
    /// numcodecs, for zarr-python.
    Numcodecs,
}

/// Every codec that is read, by name; numcodecs' own with "numcodecs." before them.
const NAMES: &str = "crc32c zstd blosc gzip zlib lz4 numcodecs.crc32c numcodecs.zstd \
                     numcodecs.blosc numcodecs.gzip numcodecs.zlib numcodecs.lz4";

/// What the first half of NAMES, and the second, names.
const CODECS: [Codec; 6] =
    [Codec::Crc32c, Codec::Zstd, Codec::Blosc, Codec::Gzip, Codec::Zlib, Codec::Lz4];

/// What blosc compresses with, and wavetrain decompresses.
const BLOSC_NAMES: &str = "zstd lz4 lz4hc zlib blosclz";

/// Names of blosc's filters; numcodecs writes their numbers.
const BLOSC_SHUFFLES: &str = "noshuffle shuffle bitshuffle";

/// The codec of that name, and whose name it is.
pub(super) fn codec_from_name(extension: &Extension<'_>) -> Option<(Codec, Spelling)> {
    let place = extension.name.place_in(NAMES)?;
    let is_zarr = place < CODECS.len();
    let spelling = if is_zarr { Spelling::Zarr } else { Spelling::Numcodecs };
    Some((CODECS[place % CODECS.len()], spelling))
}

/// The codec of that name with its parameters: every one is one that its writer can have meant.
pub(super) fn read_configuration(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    codec: Codec,
    spelling: Spelling,
) -> Result<Codec, Status> {
    if codec == Codec::Crc32c && spelling == Spelling::Numcodecs {
        return read_sum(reader, extension, SumKind::Crc32c, false);
    }
    check_configuration(reader, extension, codec, spelling)?;
    Ok(codec)
}

fn check_configuration(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    codec: Codec,
    spelling: Spelling,
) -> Result<(), Status> {
    let (name, least, most) = match codec {
        // Of the names that are read here.
        Codec::Crc32c | Codec::Sum(_) | Codec::Filter(_) => {
            return reader.configuration(extension, "", 0).map(|_| ());
        }
        Codec::Zstd => return check_zstd(reader, extension),
        Codec::Blosc => return check_blosc(reader, extension, spelling),
        Codec::Gzip => ("level", 0, 9),
        Codec::Zlib => ("level", -1, 9),
        Codec::Lz4 => ("acceleration", i64::from(i32::MIN), i64::from(i32::MAX)),
    };
    let [level, ..] = reader.configuration(extension, name, 0)?;
    reader.check_integer(level, least, most)
}

fn check_zstd(reader: &mut Reader<'_>, extension: &Extension<'_>) -> Result<(), Status> {
    let [level, checksum, ..] = reader.configuration(extension, "level checksum", 0)?;
    reader.check_integer(level, -131072, 22)?;
    match checksum.found() {
        Some(checksum) => reader.boolean(checksum).map(|_| ()),
        None => Ok(()),
    }
}

fn check_blosc(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    spelling: Spelling,
) -> Result<(), Status> {
    let [cname, clevel, shuffle, typesize, blocksize, ..] =
        reader.configuration(extension, "cname clevel shuffle typesize blocksize", 0)?;
    let parent = extension.configuration.unwrap_or(extension.value);
    if spelling == Spelling::Zarr || cname.found().is_some() {
        let cname = reader.required(parent, "cname", cname)?;
        let name = reader.string(cname)?;
        if name.place_in(BLOSC_NAMES).is_none() {
            let known = "of zstd, lz4, lz4hc, zlib, blosclz";
            return Err(reader.unknown(cname, "blosc of", name, known));
        }
    }
    reader.check_integer(clevel, 0, 9)?;
    if let Some(shuffle) = shuffle.found() {
        check_shuffle(reader, shuffle, spelling)?;
    }
    // numcodecs says null where it looks at the buffer.
    if spelling == Spelling::Zarr || typesize.kind() != Kind::Null {
        reader.check_integer(typesize, 1, i64::MAX)?;
    }
    reader.check_integer(blocksize, 0, i64::MAX)
}

fn check_shuffle(
    reader: &mut Reader<'_>,
    shuffle: Value<'_>,
    spelling: Spelling,
) -> Result<(), Status> {
    if spelling == Spelling::Numcodecs {
        // -1 is "bits where elements have one byte, else bytes".
        return reader.check_integer(shuffle, -1, 2);
    }
    reader.choice(shuffle, BLOSC_SHUFFLES, Status::Unsupported).map(|_| ())
}
