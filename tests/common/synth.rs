//! Stores that no sane tool writes, and surgery on those that one did.
//!
//! In: a description, or the file of a fixture. Out: files on disk. All numbers go in unchecked,
//! because wrong ones are the point.

use crate::common::drive::Job;
use crate::common::fixtures::Scratch;
use crate::common::store::write_aged;
use std::fs;
use std::path::{Path, PathBuf};

/// Edge of the chunks that [`chunk_job`] reads.
pub const EDGE: u64 = 4;

/// The file of an uncompressed chunk of EDGE x EDGE u16.
pub fn chunk_bytes(number: u16) -> Vec<u8> {
    (0..16).flat_map(|n| (number * 100 + n).to_le_bytes()).collect()
}

/// The box of one chunk, and what it gives: `number`'s bytes, or the fill value of [`Meta::u16`].
pub fn chunk_job(uri: &str, [y, x]: [u64; 2], number: Option<u16>) -> Job {
    let begin = vec![(y * EDGE) as i64, (x * EDGE) as i64];
    let end = begin.iter().map(|at| at + EDGE as i64).collect();
    let fill = || 7u16.to_le_bytes().repeat(16);
    Job::new(uri, (begin, end), number.map_or_else(fill, chunk_bytes))
}

/// An index entry that says "missing".
pub const ABSENT: (u64, u64) = (u64::MAX, u64::MAX);

/// A zarr.json in the making.
pub struct Meta {
    pub shape: Vec<u64>,
    pub chunk: Vec<u64>,
    pub shard: Option<Vec<u64>>,
    pub data_type: &'static str,
    /// JSON.
    pub fill: &'static str,
    /// JSON objects behind the `bytes` codec, each led by a comma.
    pub codecs: &'static str,
    pub index_location: &'static str,
    /// JSON: the edges of the files along each axis, instead of a regular grid.
    pub edges: Option<&'static str>,
}

impl Meta {
    /// u16, one shard of uncompressed chunks, fill 7.
    pub fn u16(shape: &[u64], chunk: &[u64], shard: Option<&[u64]>) -> Meta {
        Meta {
            shape: shape.to_vec(),
            chunk: chunk.to_vec(),
            shard: shard.map(<[u64]>::to_vec),
            data_type: "uint16",
            fill: "7",
            codecs: "",
            index_location: "end",
            edges: None,
        }
    }

    pub fn text(&self) -> String {
        let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
        let mut codecs = format!("{bytes}{}", self.codecs);
        if self.shard.is_some() {
            codecs = format!(
                r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{:?},
                "codecs":[{codecs}],"index_codecs":[{bytes},{{"name":"crc32c"}}],
                "index_location":"{}"}}}}"#,
                self.chunk, self.index_location
            );
        }
        let files = self.shard.as_ref().unwrap_or(&self.chunk);
        let grid = match self.edges {
            None => format!(r#"{{"name":"regular","configuration":{{"chunk_shape":{files:?}}}}}"#),
            Some(edges) => format!(
                r#"{{"name":"rectilinear","configuration":{{"kind":"inline",
                "chunk_shapes":{edges}}}}}"#
            ),
        };
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{:?},"data_type":"{}",
            "chunk_grid":{grid},
            "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
            "fill_value":{},"codecs":[{codecs}],"attributes":{{}}}}"#,
            self.shape, self.data_type, self.fill
        )
    }

    /// Writes zarr.json and, where there is one, the file of the first cell. Returns the uri.
    pub fn write(&self, scratch: &Scratch, name: &str, first_file: Option<&[u8]>) -> String {
        write_text(scratch, name, &self.text());
        if let Some(data) = first_file {
            let mut key = scratch.path(name).join("c");
            for _ in 1..self.shape.len() {
                key.push("0");
            }
            fs::create_dir_all(&key).expect("folders of the key");
            write_aged(&key.join("0"), data);
        }
        scratch.uri(name)
    }
}

/// Writes a zarr.json of any text. Returns the uri.
pub fn write_text(scratch: &Scratch, name: &str, text: &str) -> String {
    fs::create_dir_all(scratch.path(name)).expect("the array's folder");
    fs::write(scratch.path(name).join("zarr.json"), text).expect("zarr.json");
    scratch.uri(name)
}

/// A shard index: entries and their crc.
pub fn index_bytes(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 16 + 4);
    for (offset, length) in entries {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// A shard: the payload, then the index.
pub fn shard_bytes(payload: &[u8], entries: &[(u64, u64)]) -> Vec<u8> {
    [payload, &index_bytes(entries)].concat()
}

/// A shard file of a fixture (index with crc at the end), open for surgery.
pub struct Shard {
    path: PathBuf,
    /// All bytes before the index.
    pub payload: Vec<u8>,
    pub entries: Vec<(u64, u64)>,
}

impl Shard {
    pub fn open(path: &Path, entry_count: usize) -> Shard {
        let mut payload = fs::read(path).expect("the shard");
        let index = payload.split_off(payload.len() - entry_count * 16 - 4);
        let word = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().expect("8 bytes"));
        let entries = (0..entry_count).map(|n| (word(16 * n), word(16 * n + 8))).collect();
        let shard = Shard { path: path.to_path_buf(), payload, entries };
        assert_eq!(index_bytes(&shard.entries), index, "a shard with its index at the end");
        shard
    }

    /// The encoded bytes of a chunk.
    pub fn chunk(&mut self, number: usize) -> &mut [u8] {
        let (offset, length) = self.entries[number];
        &mut self.payload[offset as usize..(offset + length) as usize]
    }

    /// Writes it back with a right crc.
    pub fn save(self) {
        fs::write(&self.path, shard_bytes(&self.payload, &self.entries)).expect("the shard");
    }
}

/// A zstd frame of `count` blocks of 128 KiB, each one byte repeated: four bytes of file for each
/// block. `content_bytes`: the size that its header claims, None for no claim.
pub fn zstd_bomb(count: u32, content_bytes: Option<u64>) -> Vec<u8> {
    const BLOCK_BYTES: u32 = 128 << 10;
    let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
    // Frame header descriptor: 8-byte content size or none; then a window of 128 KiB.
    frame.push(if content_bytes.is_some() { 0xC0 } else { 0x00 });
    frame.push(7 << 3);
    frame.extend(content_bytes.into_iter().flat_map(u64::to_le_bytes));
    for n in 0..count {
        let is_last = u32::from(n + 1 == count);
        let header = (BLOCK_BYTES << 3) | (1 << 1) | is_last;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0x5A);
    }
    frame
}

/// A zstd frame without a content size in its header, as a stream writes it.
pub fn zstd_unsized(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.include_contentsize(false).expect("a parameter");
    std::io::Write::write_all(&mut encoder, data).expect("written");
    encoder.finish().expect("a frame")
}
