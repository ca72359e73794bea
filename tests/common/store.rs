//! Writes small zarr v3 arrays of uint16 for tests, whole or with damage, without the library.
//!
//! In: a folder and a [`Spec`]. Out: zarr.json and shard files. Element (z, y, x) is
//! [`value`]`(seed, z, y, x)`; chunks and shards that [`Spec::sparse`] names are not there. The C
//! programs in tests/c know the same two rules (tests/c/check.h), so they check every element.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What chunks that are not there read as.
pub const FILL: u16 = 42;

/// A cube of `edge`^3 elements in shards of `shard`^3 and chunks of `chunk`^3.
#[derive(Clone, Copy)]
pub struct Spec {
    pub seed: u64,
    pub edge: u64,
    pub shard: u64,
    pub chunk: u64,
    /// zstd frames with a checksum; else raw bytes.
    pub zstd: bool,
    /// Leaves chunks and shards out, as [`shard_is_absent`] and [`chunk_is_absent`] say.
    pub sparse: bool,
}

/// The element at a place.
pub fn value(seed: u64, at: [u64; 3]) -> u16 {
    (seed * 101 + at[0] * 2309 + at[1] * 151 + at[2] * 7) as u16
}

/// Whether a sparse array lacks this shard.
pub fn shard_is_absent(shard: [u64; 3]) -> bool {
    (shard[0] + shard[1] + shard[2]) % 7 == 3
}

/// Whether a sparse array lacks this chunk, counted over the whole array.
pub fn chunk_is_absent(chunk: [u64; 3]) -> bool {
    (chunk[0] * 4 + chunk[1] * 2 + chunk[2]) % 11 == 5
}

/// All places of a cube of this edge, the last axis fastest.
pub fn places(edge: u64) -> impl Iterator<Item = [u64; 3]> {
    (0..edge * edge * edge).map(move |i| [i / (edge * edge), i / edge % edge, i % edge])
}

/// The file of a shard.
pub fn shard_path(array: &Path, shard: [u64; 3]) -> PathBuf {
    array.join(format!("c/{}/{}/{}", shard[0], shard[1], shard[2]))
}

/// Writes the array `a` in a folder of the test's own; its path. The folder stays after the test.
pub fn of_test(file: &str, test: &str, spec: &Spec) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file).join(test);
    let _ = fs::remove_dir_all(&folder);
    let array = folder.join("a");
    write(&array, spec);
    array
}

/// Writes the array.
pub fn write(array: &Path, spec: &Spec) {
    fs::create_dir_all(array).unwrap();
    fs::write(array.join("zarr.json"), metadata(spec)).unwrap();
    for shard in places(spec.edge / spec.shard) {
        if spec.sparse && shard_is_absent(shard) {
            continue;
        }
        let path = shard_path(array, shard);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_aged(&path, &shard_bytes(spec, shard));
    }
}

/// Writes a file that looks a second old: chunks of younger ones are not cached.
pub fn write_aged(path: &Path, bytes: &[u8]) {
    let times = fs::FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(1));
    let written = fs::write(path, bytes).and_then(|()| fs::File::options().write(true).open(path));
    written.and_then(|file| file.set_times(times)).unwrap();
}

/// Flips one bit in the middle of chunk `inner` (its number in the shard). A raw chunk keeps no
/// checksum, so only a zstd chunk is found to be damaged.
pub fn flip_chunk(array: &Path, spec: &Spec, shard: [u64; 3], inner: u64) {
    let path = shard_path(array, shard);
    let mut bytes = fs::read(&path).unwrap();
    let entry = bytes.len() - index_bytes(spec) + 16 * inner as usize;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (offset, length) = (word(entry), word(entry + 8));
    assert!(offset != usize::MAX, "chunk {inner} is not there");
    bytes[offset + length / 2] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Flips one bit of the shard's index.
pub fn flip_index(array: &Path, spec: &Spec, shard: [u64; 3]) {
    let path = shard_path(array, shard);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - index_bytes(spec) + 1;
    bytes[at] ^= 0x01;
    fs::write(path, bytes).unwrap();
}

/// Cuts bytes off the end of the shard.
pub fn truncate(array: &Path, shard: [u64; 3], bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(shard_path(array, shard)).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - bytes).unwrap();
}

fn chunks_per_edge(spec: &Spec) -> u64 {
    spec.shard / spec.chunk
}

/// Bytes of the index: an entry per chunk and the crc32c.
fn index_bytes(spec: &Spec) -> usize {
    chunks_per_edge(spec).pow(3) as usize * 16 + 4
}

fn metadata(spec: &Spec) -> String {
    let Spec { edge, shard, chunk, .. } = spec;
    let little = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let zstd = match spec.zstd {
        true => r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#,
        false => "",
    };
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":[{edge},{edge},{edge}],
"data_type":"uint16","fill_value":{FILL},"attributes":{{}},
"chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":[{shard},{shard},{shard}]}}}},
"chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
"codecs":[{{"name":"sharding_indexed","configuration":{{"chunk_shape":[{chunk},{chunk},{chunk}],
"codecs":[{little}{zstd}],"index_codecs":[{little},{{"name":"crc32c"}}],
"index_location":"end"}}}}]}}
"#
    )
}

fn shard_bytes(spec: &Spec, shard: [u64; 3]) -> Vec<u8> {
    let per_edge = chunks_per_edge(spec);
    let (mut bytes, mut index) = (Vec::new(), Vec::new());
    for inner in places(per_edge) {
        let chunk: [u64; 3] = std::array::from_fn(|axis| shard[axis] * per_edge + inner[axis]);
        let (mut offset, mut length) = (u64::MAX, u64::MAX);
        if !(spec.sparse && chunk_is_absent(chunk)) {
            let encoded = chunk_bytes(spec, chunk);
            (offset, length) = (bytes.len() as u64, encoded.len() as u64);
            bytes.extend(encoded);
        }
        index.extend(offset.to_le_bytes());
        index.extend(length.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&index);
    bytes.extend(&index);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

fn chunk_bytes(spec: &Spec, chunk: [u64; 3]) -> Vec<u8> {
    let raw: Vec<u8> = places(spec.chunk)
        .map(|inner| std::array::from_fn(|axis| chunk[axis] * spec.chunk + inner[axis]))
        .flat_map(|at| value(spec.seed, at).to_le_bytes())
        .collect();
    if spec.zstd { zstd_frame(&raw) } else { raw }
}

/// A zstd frame with a checksum.
pub fn zstd_frame(raw: &[u8]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).unwrap();
    context.set_parameter(zstd_safe::CParameter::CompressionLevel(3)).unwrap();
    let mut target = vec![0; zstd_safe::compress_bound(raw.len())];
    let length = context.compress2(&mut target[..], raw).unwrap();
    target.truncate(length);
    target
}
