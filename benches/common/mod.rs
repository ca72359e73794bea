//! What the benches share: a folder that goes away, a minimal writer of zarr v3 arrays, painted
//! bytes, and the CPU clock.

// Each bench compiles all of this and uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Coordinates or extents.
pub type Triple = [u64; 3];

/// A folder that goes away with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder under cargo's target folder.
    pub fn new(name: &str) -> Scratch {
        let name = format!("bench-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a scratch folder");
        Scratch(path)
    }

    /// The uri of an entry, existing or not.
    pub fn uri(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done where it fails, and the folder lies in the target folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What chunks are compressed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Nothing.
    Raw,
    /// zstd frames of level 3.
    Zstd,
    /// blosc, zstd of level 3 inside, bytes shuffled, in blocks of 128 KiB.
    Blosc,
    /// c-blosc's of LZ4, bytes shuffled.
    BloscLz4,
}

/// A little-endian uint16 array of rank 3.
pub struct Array {
    pub shape: Triple,
    pub chunk: Triple,
    /// None: every chunk is a file.
    pub shard: Option<Triple>,
    pub codec: Codec,
}

impl Array {
    /// Writes the array with the chunks at these coordinates of its chunk grid, and no others. A
    /// shard of a million chunks of which one is there is an index and one chunk.
    pub fn write(&self, uri: &str, chunks: &[Triple]) {
        let folder = Path::new(uri);
        fs::create_dir_all(folder).expect("the array's folder");
        fs::write(folder.join("zarr.json"), self.metadata()).expect("zarr.json");
        let mut files: BTreeMap<Triple, Vec<Triple>> = BTreeMap::new();
        for chunk in chunks {
            let per_file = self.chunks_per_file();
            files
                .entry([0, 1, 2].map(|axis| chunk[axis] / per_file[axis]))
                .or_default()
                .push(*chunk);
        }
        for ([z, y, x], chunks) in files {
            let bytes = match self.shard {
                None => self.chunk_bytes(chunks[0]),
                Some(_) => self.shard_bytes(&chunks),
            };
            fs::write(folder.join(format!("c.{z}.{y}.{x}")), bytes).expect("a file of the array");
        }
    }

    /// The document. Keys have dots, so that an array is one folder however many files it has.
    pub fn metadata(&self) -> String {
        let little = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
        let compressor = match self.codec {
            Codec::Raw => "",
            Codec::Zstd => r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#,
            Codec::Blosc => {
                r#",{"name":"blosc","configuration":{"cname":"zstd","clevel":3,
"shuffle":"shuffle","typesize":2,"blocksize":131072}}"#
            }
            Codec::BloscLz4 => {
                r#",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,
"shuffle":"shuffle","typesize":2,"blocksize":0}}"#
            }
        };
        let inner = format!("{little}{compressor}");
        let codecs = match self.shard {
            None => inner,
            Some(_) => format!(
                r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{:?},
"codecs":[{inner}],"index_codecs":[{little},{{"name":"crc32c"}}],"index_location":"end"}}}}"#,
                self.chunk
            ),
        };
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{:?},"data_type":"uint16",
"chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{:?}}}}},
"chunk_key_encoding":{{"name":"default","configuration":{{"separator":"."}}}},
"fill_value":7,"codecs":[{codecs}],"attributes":{{}}}}"#,
            self.shape,
            self.shard.unwrap_or(self.chunk)
        )
    }

    fn chunks_per_file(&self) -> Triple {
        let file = self.shard.unwrap_or(self.chunk);
        [0, 1, 2].map(|axis| file[axis] / self.chunk[axis])
    }

    fn chunk_bytes(&self, at: Triple) -> Vec<u8> {
        let elements: u64 = self.chunk.iter().product();
        let seed = (at[0] << 42) ^ (at[1] << 21) ^ at[2];
        let plain = painted(seed, elements as usize * 2);
        match self.codec {
            Codec::Raw => plain,
            Codec::Zstd => zstd_frame(&plain),
            Codec::Blosc => blosc_chunk(&plain, plain.len().min(128 << 10), 1),
            Codec::BloscLz4 => c_blosc_chunk(&plain, c"lz4"),
        }
    }

    fn shard_bytes(&self, chunks: &[Triple]) -> Vec<u8> {
        let per_file = self.chunks_per_file();
        let count: u64 = per_file.iter().product();
        let mut index = vec![0xFF; count as usize * 16];
        let mut bytes = Vec::new();
        for chunk in chunks {
            let [z, y, x] = [0, 1, 2].map(|axis| chunk[axis] % per_file[axis]);
            let number = ((z * per_file[1] + y) * per_file[2] + x) as usize;
            let encoded = self.chunk_bytes(*chunk);
            let entry = &mut index[number * 16..][..16];
            entry[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            entry[8..].copy_from_slice(&(encoded.len() as u64).to_le_bytes());
            bytes.extend(encoded);
        }
        bytes.extend(&index);
        bytes.extend(crc32c::crc32c(&index).to_le_bytes());
        bytes
    }
}

/// A generator of repeatable numbers (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// uint16 elements as a camera gives them: a slow wave and noise of a few bits. zstd takes about
/// half of it away, shuffled or not.
pub fn painted(seed: u64, bytes: usize) -> Vec<u8> {
    let mut dice = Dice(seed);
    let element = |at: usize| {
        let noise = dice.next();
        let wave = 3 * ((at / 64 + seed as usize) % 16);
        190 + wave as u16 + (noise & 15) as u16 + (noise >> 8 & 15) as u16
    };
    (0..bytes.div_ceil(2)).map(element).flat_map(u16::to_le_bytes).take(bytes).collect()
}

/// One zstd frame.
pub fn zstd_frame(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, 3).expect("zstd compresses anything")
}

/// A blosc1 chunk of uint16 with zstd inside, one stream per block, as c-blosc lays it out.
/// `flag`: 0, 1 (byte shuffle) or 4 (bit shuffle).
pub fn blosc_chunk(plain: &[u8], block_bytes: usize, flag: u8) -> Vec<u8> {
    let blocks = plain.chunks(block_bytes);
    let first = 16 + 4 * blocks.len();
    let (mut offsets, mut streams) = (Vec::new(), Vec::new());
    for block in blocks {
        offsets.extend(((first + streams.len()) as u32).to_le_bytes());
        let stream = zstd_frame(&shuffled(block, flag));
        streams.extend((stream.len() as u32).to_le_bytes());
        streams.extend(stream);
    }
    let mut chunk = vec![2, 1, flag | 0x10 | 4 << 5, 2];
    for size in [plain.len(), block_bytes, first + streams.len()] {
        chunk.extend((size as u32).to_le_bytes());
    }
    [chunk, offsets, streams].concat()
}

/// A chunk of uint16 by c-blosc, bytes shuffled.
pub fn c_blosc_chunk(plain: &[u8], cname: &CStr) -> Vec<u8> {
    let mut chunk = vec![0; plain.len() + 16];
    let (source, target) = (plain.as_ptr().cast(), chunk.as_mut_ptr().cast());
    let (bytes, room) = (plain.len(), chunk.len());
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        blosc_src::blosc_compress_ctx(5, 1, 2, bytes, source, target, room, cname.as_ptr(), 0, 1)
    };
    chunk.truncate(usize::try_from(count).expect("a chunk"));
    chunk
}

/// blosc's filter on a block of uint16, bit by bit.
pub fn shuffled(block: &[u8], flag: u8) -> Vec<u8> {
    let elements = block.len() / 2;
    let mut filtered = vec![0; block.len()];
    for (at, byte) in block.iter().enumerate() {
        let (element, part) = (at / 2, at % 2);
        match flag {
            0 => filtered[at] = *byte,
            1 => filtered[part * elements + element] = *byte,
            _ => {
                for bit in 0..8 {
                    let row = (8 * part + bit) * (elements / 8);
                    filtered[row + element / 8] |= (byte >> bit & 1) << (element % 8);
                }
            }
        }
    }
    filtered
}

/// CPU seconds of this process, all threads.
pub fn cpu_seconds() -> f64 {
    // SAFETY: all zeros is a valid rusage, and the call fills one that is ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Runs of a machine with neighbours: the median is what it does most of the time.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value behind a flag of the command line, if it is there.
pub fn flag_value(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next()
}

/// Whether a flag is there.
pub fn has_flag(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}
