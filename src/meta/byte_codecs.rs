//! Codecs from bytes to bytes: their names and their configurations.
//!
//! Comes in: one item of a codec list. Goes out: the codec, its configuration checked. Sources:
//! zarr v3 core; the specifications of `blosc`, `gzip` and `crc32c`; `zstd` and `zlib` of
//! zarr-extensions; for the names with "numcodecs." before them, what zarr-python 3 writes: the
//! arguments of the numcodecs class that were given, so that every member may be absent.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::node::{Extension, Node, Reader};
use crate::json::Kind;
use crate::records::Codec;
use crate::status::Status;

/// Who wrote a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The specification of the codec.
    Zarr,
    /// numcodecs, for zarr-python.
    Numcodecs,
}

/// Every name that is read.
const NAMES: [(&str, Codec, Spelling); 12] = [
    ("crc32c", Codec::Crc32c, Spelling::Zarr),
    ("zstd", Codec::Zstd, Spelling::Zarr),
    ("blosc", Codec::Blosc, Spelling::Zarr),
    ("gzip", Codec::Gzip, Spelling::Zarr),
    ("zlib", Codec::Zlib, Spelling::Zarr),
    ("lz4", Codec::Lz4, Spelling::Zarr),
    ("numcodecs.crc32c", Codec::Crc32c, Spelling::Numcodecs),
    ("numcodecs.zstd", Codec::Zstd, Spelling::Numcodecs),
    ("numcodecs.blosc", Codec::Blosc, Spelling::Numcodecs),
    ("numcodecs.gzip", Codec::Gzip, Spelling::Numcodecs),
    ("numcodecs.zlib", Codec::Zlib, Spelling::Numcodecs),
    ("numcodecs.lz4", Codec::Lz4, Spelling::Numcodecs),
];

/// What blosc compresses with, and wavetrain decompresses.
const BLOSC_NAMES: [&str; 5] = ["zstd", "lz4", "lz4hc", "zlib", "blosclz"];

/// Names of blosc's filters; numcodecs writes their numbers.
const BLOSC_SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

/// The codec of that name, and whose name it is.
pub(super) fn codec_from_name(extension: &Extension<'_>) -> Option<(Codec, Spelling)> {
    let found = NAMES.iter().find(|(name, ..)| extension.name == **name);
    found.map(|(_, codec, spelling)| (*codec, *spelling))
}

/// Whether every parameter of `codec` is one that its writer can have meant.
pub(super) fn check_configuration(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    codec: Codec,
    spelling: Spelling,
) -> Result<(), Status> {
    match codec {
        Codec::Crc32c if spelling == Spelling::Numcodecs => check_location(reader, extension),
        Codec::Crc32c => {
            let [] = reader.configuration(extension, &[])?;
            Ok(())
        }
        Codec::Zstd => check_zstd(reader, extension),
        Codec::Blosc => check_blosc(reader, extension, spelling),
        Codec::Gzip => check_level(reader, extension, "level", 0, 9),
        Codec::Zlib => check_level(reader, extension, "level", -1, 9),
        Codec::Lz4 => {
            let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
            check_level(reader, extension, "acceleration", least, most)
        }
    }
}

/// A configuration of one number, which may be absent.
fn check_level(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: &'static str,
    least: i64,
    most: i64,
) -> Result<(), Status> {
    let [level] = reader.configuration(extension, &[name])?;
    if let Some(level) = level {
        reader.integer(&level, least, most)?;
    }
    Ok(())
}

fn check_zstd(reader: &mut Reader<'_>, extension: &Extension<'_>) -> Result<(), Status> {
    let [level, checksum] = reader.configuration(extension, &["level", "checksum"])?;
    if let Some(level) = level {
        reader.integer(&level, -131072, 22)?;
    }
    if let Some(checksum) = checksum {
        reader.boolean(&checksum)?;
    }
    Ok(())
}

/// numcodecs can put a checksum before the bytes too.
fn check_location(reader: &mut Reader<'_>, extension: &Extension<'_>) -> Result<(), Status> {
    let [location] = reader.configuration(extension, &["location"])?;
    let Some(location) = location.filter(|node| node.value.kind() != Kind::Null) else {
        return Ok(());
    };
    let name = reader.string(&location)?;
    if name != *"end" {
        let reason = format_args!("a checksum at {name} is not read, only at \"end\"");
        return Err(reader.unsupported(&location, reason));
    }
    Ok(())
}

fn check_blosc(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    spelling: Spelling,
) -> Result<(), Status> {
    let names = ["cname", "clevel", "shuffle", "typesize", "blocksize"];
    let [cname, clevel, shuffle, typesize, blocksize] = reader.configuration(extension, &names)?;
    let parent = extension.configuration.as_ref().unwrap_or(&extension.node);
    if spelling == Spelling::Zarr || cname.is_some() {
        let cname = reader.required(parent, "cname", cname)?;
        let name = reader.string(&cname)?;
        if !BLOSC_NAMES.iter().any(|known| name == **known) {
            let known = "zstd, lz4, lz4hc, zlib, blosclz";
            let reason = format_args!("blosc of {name} is not read, only of {known}");
            return Err(reader.unsupported(&cname, reason));
        }
    }
    if let Some(clevel) = clevel {
        reader.integer(&clevel, 0, 9)?;
    }
    if let Some(shuffle) = shuffle {
        check_shuffle(reader, &shuffle, spelling)?;
    }
    // numcodecs says null where it looks at the buffer.
    if let Some(typesize) = typesize
        && (spelling == Spelling::Zarr || typesize.value.kind() != Kind::Null)
    {
        reader.integer(&typesize, 1, i64::MAX)?;
    }
    if let Some(blocksize) = blocksize {
        reader.integer(&blocksize, 0, i64::MAX)?;
    }
    Ok(())
}

fn check_shuffle(
    reader: &mut Reader<'_>,
    shuffle: &Node<'_>,
    spelling: Spelling,
) -> Result<(), Status> {
    if spelling == Spelling::Numcodecs {
        // -1 is "bits where elements have one byte, else bytes".
        return reader.integer(shuffle, -1, BLOSC_SHUFFLES.len() as i64 - 1).map(|_| ());
    }
    let name = reader.string(shuffle)?;
    if !BLOSC_SHUFFLES.iter().any(|known| name == **known) {
        let reason =
            format_args!("{name} is neither \"noshuffle\", \"shuffle\" nor \"bitshuffle\"");
        return Err(reader.unsupported(shuffle, reason));
    }
    Ok(())
}
