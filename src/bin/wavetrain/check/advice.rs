//! Warnings for a reader of an array: chunks that fit the boxes badly, bytes that nothing checks.
//!
//! In: what the library tells of the array, the extents of the boxes. Out: sentences.
//! A box of b elements that begins anywhere meets (b - 1) / c + 1 chunks of c elements on average,
//! along each axis.

use crate::report;
use wavetrain::abi::ArrayInfo;

/// Decoded bytes by bytes of a box from which other chunks are advised, next to what those cost.
const WORTH: f64 = 2.0;

/// Chunks of fewer bytes cost more to find and to begin than to decode.
const SMALL_BYTES: u64 = 16 << 10;

/// Files that a box meets from which shards are advised.
const MANY_FILES: f64 = 64.0;

/// Codecs that see a changed byte.
const CHECKSUMS: [&str; 7] = ["crc32c", "crc32", "adler32", "fletcher32", "gzip", "zlib", "bz2"];

/// Codecs whose data may have a checksum of its own, which is verified.
const OPTIONAL: [(&str, &str); 2] = [("zstd", "frames of zstd"), ("lzma", ".xz streams of lzma")];

/// The checksum of chunks that metadata names.
pub fn checksum(info: &ArrayInfo) -> Option<&'static str> {
    checksum_of(&report::name_text(&info.codecs), CHECKSUMS)
}

/// The checksum of chunks in words.
pub fn checksum_text(info: &ArrayInfo) -> String {
    checksum_text_of(&report::name_text(&info.codecs))
}

/// The same of a text of codecs.
fn checksum_text_of(codecs: &str) -> String {
    if let Some(name) = checksum_of(codecs, CHECKSUMS) {
        return name.into();
    }
    let unseen = "a changed byte that still decodes is not seen";
    match OPTIONAL.into_iter().find(|(name, _)| checksum_of(codecs, [*name]).is_some()) {
        Some((_, data)) => format!("that of {data}, if they have one; without it {unseen}"),
        None => format!("none that metadata names: {unseen}"),
    }
}

/// The first of `names` in a text of codecs. The name in the second parentheses of
/// "sharding_indexed[bytes(little) zstd](index at end, crc32c)" is that of the index: not found.
fn checksum_of<const N: usize>(codecs: &str, names: [&'static str; N]) -> Option<&'static str> {
    let outside = codecs.split('(').map(|text| text.rsplit(')').next().unwrap_or(text));
    let words = outside.flat_map(|text| text.split([' ', '[', ']']));
    let words: Vec<&str> = words.collect();
    names.into_iter().find(|name| words.contains(name))
}

/// The cost of a random box, and better chunks if they cost much less. Err: the extents do not fit.
pub fn of_boxes(info: &ArrayInfo, extents: &[u64]) -> Result<Vec<String>, String> {
    let rank = info.rank as usize;
    let (shape, chunk) = (&info.shape[..rank], &info.chunk_shape[..rank]);
    if extents.len() != rank {
        return Err(format!("has {rank} axes, and the box {}", extents.len()));
    }
    if let Some(axis) = (0..rank).find(|axis| extents[*axis] > shape[*axis]) {
        let (given, has) = (extents[axis], shape[axis]);
        return Err(format!("has {has} elements along axis {axis}, and the box {given}"));
    }
    let met = |edges: &[u64]| -> f64 {
        let axes = (0..rank).map(|axis| met(extents[axis], edges[axis], shape[axis]));
        axes.product()
    };
    let bytes = |edges: &[u64]| edges.iter().fold(1.0, |all, edge| all * *edge as f64);
    let waste = |edges: &[u64]| met(edges) * bytes(edges) / bytes(extents);
    let (chunks, files) = (met(chunk), met(&info.file_shape[..rank]));
    let mut told = vec![format!(
        "a random box of {} decodes {chunks:.1} chunks of {} on average, {:.1} times its bytes, \
         from {files:.1} files",
        report::crosses(extents),
        report::crosses(chunk),
        waste(chunk),
    )];
    let halves: Vec<u64> = extents.iter().map(|extent| extent.div_ceil(2)).collect();
    let better = waste(&halves);
    if waste(chunk) > WORTH * better {
        told.push(format!(
            "chunks of {} would decode {better:.1} times the bytes of such a box: write the array \
             with those, many of them in a shard",
            report::crosses(&halves)
        ));
    } else if info.chunk_bytes < SMALL_BYTES && chunks > 8.0 {
        told.push(format!(
            "chunks of {} are small: larger ones, up to half of the box along each axis, cost less \
             to find",
            report::bytes_long(info.chunk_bytes)
        ));
    }
    if files > MANY_FILES {
        told.push(format!(
            "a box is read from {files:.0} files: shards of many chunks make that a few"
        ));
    }
    Ok(told)
}

/// Chunks that a box meets along an axis, on average.
fn met(extent: u64, edge: u64, all: u64) -> f64 {
    let edge = edge.max(1);
    let most = all.div_ceil(edge) as f64;
    ((extent.max(1) - 1) as f64 / edge as f64 + 1.0).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_that_begins_anywhere_meets_so_many_chunks() {
        for (extent, edge, chunks) in [(64, 64, 64), (10, 3, 50), (1, 7, 9), (5, 100, 4)] {
            let all = edge * chunks;
            let begins = all - extent + 1;
            let counts = (0..begins).map(|begin| (begin + extent - 1) / edge - begin / edge + 1);
            let mean = counts.sum::<u64>() as f64 / begins as f64;
            let found = met(extent, edge, all);
            assert!((found - mean).abs() < 0.05 * mean, "{extent} of {edge}: {found}, {mean}");
        }
        assert_eq!(met(64, 64, 64), 1.0);
    }

    #[test]
    fn the_checksum_of_an_index_is_none_of_chunks() {
        for (codecs, found) in [
            ("sharding_indexed[bytes(little) zstd](index at end, crc32c)", None),
            ("sharding_indexed[bytes(little) crc32c](index at end, crc32c)", Some("crc32c")),
            ("sharding_indexed[bytes(little) zstd](index at end, crc32c) crc32c", Some("crc32c")),
            ("zlib order C", Some("zlib")),
            ("shuffle(4) fletcher32 order C", Some("fletcher32")),
            ("", None),
        ] {
            assert_eq!(checksum_of(codecs, CHECKSUMS), found, "{codecs}");
        }
    }

    #[test]
    fn data_that_may_have_a_checksum_is_not_called_unchecked() {
        let zstd = "that of frames of zstd, if they have one; without it a changed byte";
        for (codecs, text) in [
            ("bytes(little) zstd", zstd),
            ("sharding_indexed[bytes(little) zstd](index at end, crc32c)", zstd),
            ("bytes(little) lzma", "that of .xz streams of lzma, if they have one; without it"),
            ("bytes(little) zstd crc32c", "crc32c"),
            ("bytes(little) lz4", "none that metadata names: a changed byte"),
            ("bytes(little)", "none that metadata names: a changed byte"),
        ] {
            let found = checksum_text_of(codecs);
            assert!(found.starts_with(text), "{codecs}: {found}");
        }
    }
}
