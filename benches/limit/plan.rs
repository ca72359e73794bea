//! What is to be read, worked out before the clock starts.
//!
//! In: the request list. Out: the arrays, open, their shard indexes read, and one [`Load`] for each
//! chunk that is read and decoded.

use crate::{Mode, Options, Result};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a source element.
pub const SOURCE_BYTES: usize = 2;

/// Coordinates or extents.
pub type Triple = [usize; 3];

#[derive(Clone, Copy, PartialEq)]
pub enum Codec {
    None,
    Zstd,
    Blosc,
}

/// A file of an array, with its map where the mode asks for one.
pub struct Shard {
    pub file: File,
    pub map: &'static [u8],
    /// Offset and length of every chunk.
    pub entries: Vec<(u64, u64)>,
}

pub struct Array {
    pub shard: Triple,
    pub chunk: Triple,
    pub shard_counts: Triple,
    pub codec: Codec,
    pub shards: Vec<Shard>,
}

/// The part of a chunk that one sample needs.
pub struct Piece {
    /// In the batch.
    pub sample: usize,
    /// In the chunk.
    pub first: Triple,
    pub limit: Triple,
    /// Where `first` goes in the sample.
    pub target: Triple,
}

/// One chunk to be read and decoded, once.
pub struct Load {
    pub batch: usize,
    pub array: usize,
    pub shard: usize,
    pub chunk: usize,
    /// Bytes of the decoded chunk that the pieces need.
    pub need: Range<usize>,
    pub pieces: Vec<Piece>,
}

pub struct Work {
    pub arrays: Vec<Array>,
    pub loads: Vec<Load>,
    /// Loads of each batch.
    pub batch_loads: Vec<usize>,
    pub samples: usize,
    pub batch: usize,
    pub sample_shape: Triple,
}

/// Opens the arrays and cuts the requests into loads, in the order in which threads take them.
pub fn plan(options: &Options) -> Result<Work> {
    let text = fs::read_to_string(&options.requests)?;
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut work = Work {
        arrays: Vec::new(),
        loads: Vec::new(),
        batch_loads: Vec::new(),
        samples: 0,
        batch: options.batch,
        sample_shape: [0; 3],
    };
    let mut shared: BTreeMap<(usize, usize, usize), Load> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let request: Value = serde_json::from_str(line)?;
        let uri = request["uri"].as_str().ok_or("a request without a uri")?;
        let array = match positions.get(uri) {
            Some(position) => *position,
            None => {
                work.arrays.push(open_array(Path::new(uri), options.mode)?);
                positions.insert(uri.to_owned(), work.arrays.len() - 1);
                work.arrays.len() - 1
            }
        };
        let (begin, end) = request_box(&request)?;
        let shape = [0, 1, 2].map(|axis| end[axis] - begin[axis]);
        if work.samples > 0 && shape != work.sample_shape {
            return Err("all boxes have one shape".into());
        }
        work.sample_shape = shape;
        let (batch, sample) = (work.samples / options.batch, work.samples % options.batch);
        if sample == 0 {
            work.loads.extend(std::mem::take(&mut shared).into_values());
        }
        work.samples += 1;
        for load in box_loads(&work.arrays[array], array, (batch, sample), begin, end, options.mode)
        {
            if options.mode == Mode::Shared {
                let same = shared.entry((array, load.shard, load.chunk)).or_insert_with(|| Load {
                    need: load.need.clone(),
                    pieces: Vec::new(),
                    ..load
                });
                same.need = same.need.start.min(load.need.start)..same.need.end.max(load.need.end);
                same.pieces.extend(load.pieces);
            } else {
                work.loads.push(load);
            }
        }
    }
    work.loads.extend(shared.into_values());
    work.batch_loads = vec![0; work.samples.div_ceil(options.batch)];
    for load in &work.loads {
        work.batch_loads[load.batch] += 1;
    }
    if work.samples == 0 { Err("no requests".into()) } else { Ok(work) }
}

fn request_box(request: &Value) -> Result<(Triple, Triple)> {
    let axes = request["box"].as_array().filter(|axes| axes.len() == 3).ok_or("not a 3-d box")?;
    let side = |at: usize| -> Result<Triple> {
        let mut side = [0; 3];
        for (axis, value) in side.iter_mut().enumerate() {
            let place = axes[axis][at].as_u64().ok_or("a box outside its array")?;
            *value = usize::try_from(place)?;
        }
        Ok(side)
    };
    Ok((side(0)?, side(1)?))
}

/// Every chunk that the box touches, with the part of it that it needs.
fn box_loads(
    array: &Array,
    number: usize,
    (batch, sample): (usize, usize),
    begin: Triple,
    end: Triple,
    mode: Mode,
) -> Vec<Load> {
    let chunk = array.chunk;
    let first = [0, 1, 2].map(|axis| begin[axis] / chunk[axis]);
    let limit = [0, 1, 2].map(|axis| end[axis].div_ceil(chunk[axis]));
    let per = [0, 1, 2].map(|axis| array.shard[axis] / chunk[axis]);
    let mut loads = Vec::new();
    for z in first[0]..limit[0] {
        for y in first[1]..limit[1] {
            for x in first[2]..limit[2] {
                let at = [z, y, x];
                let origin = [0, 1, 2].map(|axis| at[axis] * chunk[axis]);
                let low = [0, 1, 2].map(|axis| begin[axis].max(origin[axis]));
                let high = [0, 1, 2].map(|axis| end[axis].min(origin[axis] + chunk[axis]));
                let from = [0, 1, 2].map(|axis| low[axis] - origin[axis]);
                let to = [0, 1, 2].map(|axis| high[axis] - origin[axis]);
                let last = [0, 1, 2].map(|axis| to[axis] - 1);
                let need = match mode {
                    Mode::Whole => 0..chunk.iter().product(),
                    _ => linear(from, chunk)..linear(last, chunk) + 1,
                };
                loads.push(Load {
                    batch,
                    array: number,
                    shard: linear([0, 1, 2].map(|axis| at[axis] / per[axis]), array.shard_counts),
                    chunk: linear([0, 1, 2].map(|axis| at[axis] % per[axis]), per),
                    need: need.start * SOURCE_BYTES..need.end * SOURCE_BYTES,
                    pieces: vec![Piece {
                        sample,
                        first: from,
                        limit: to,
                        target: [0, 1, 2].map(|axis| low[axis] - begin[axis]),
                    }],
                });
            }
        }
    }
    loads
}

/// The row-major number of a place.
pub fn linear(at: Triple, extents: Triple) -> usize {
    (at[0] * extents[1] + at[1]) * extents[2] + at[2]
}

fn open_array(path: &Path, mode: Mode) -> Result<Array> {
    let meta: Value = serde_json::from_slice(&fs::read(path.join("zarr.json"))?)?;
    let triple = |value: &Value| -> Result<Triple> {
        let items = value.as_array().filter(|items| items.len() == 3).ok_or("not of rank 3")?;
        Ok([0, 1, 2].map(|axis| items[axis].as_u64().map_or(0, |extent| extent as usize)))
    };
    let sharding = &meta["codecs"][0]["configuration"];
    let inner = sharding["codecs"].as_array().ok_or("not sharded")?;
    let is_known = meta["data_type"] == "uint16"
        && meta["codecs"][0]["name"] == "sharding_indexed"
        && sharding["index_location"] == "end"
        && sharding["index_codecs"].as_array().is_some_and(|codecs| codecs.len() == 2)
        && inner.len() <= 2;
    if !is_known {
        return Err(format!("{}: not as benches/data.py writes it", path.display()).into());
    }
    let codec = match inner.get(1).map(|codec| &codec["name"]) {
        None => Codec::None,
        Some(name) if name == "zstd" => Codec::Zstd,
        Some(name) if name == "blosc" => Codec::Blosc,
        Some(name) => return Err(format!("codec {name}").into()),
    };
    let shape = triple(&meta["shape"])?;
    let shard = triple(&meta["chunk_grid"]["configuration"]["chunk_shape"])?;
    let chunk = triple(&sharding["chunk_shape"])?;
    let shard_counts = [0, 1, 2].map(|axis| shape[axis].div_ceil(shard[axis]));
    let per_shard = [0, 1, 2].iter().map(|axis| shard[*axis] / chunk[*axis]).product();
    let mut shards = Vec::new();
    for number in 0..shard_counts.iter().product() {
        let x = number % shard_counts[2];
        let y = number / shard_counts[2] % shard_counts[1];
        let z = number / shard_counts[2] / shard_counts[1];
        let file = File::open(path.join(format!("c/{z}/{y}/{x}")))?;
        shards.push(open_shard(file, per_shard, mode)?);
    }
    Ok(Array { shard, chunk, shard_counts, codec, shards })
}

fn open_shard(file: File, chunks: usize, mode: Mode) -> Result<Shard> {
    let file_bytes = file.metadata()?.len();
    let mut index = vec![0; chunks * 16 + 4];
    let index_offset = file_bytes.checked_sub(index.len() as u64).ok_or("a shard cut short")?;
    file.read_exact_at(&mut index, index_offset)?;
    let mut entries = Vec::with_capacity(chunks);
    for entry in index.as_chunks::<16>().0 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
        let (offset, bytes) = (word(0), word(8));
        if offset.checked_add(bytes).is_none_or(|end| end > index_offset) {
            return Err("a chunk is missing".into());
        }
        entries.push((offset, bytes));
    }
    let mut map: &'static [u8] = &[];
    if mode == Mode::Mapped {
        let bytes = file_bytes as usize;
        // SAFETY: a new read-only mapping; nothing else is affected.
        let start = unsafe {
            let flags = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), bytes, flags.0, flags.1, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err("mmap failed".into());
        }
        // SAFETY: the mapping has these bytes and is never undone; nobody writes the data set.
        map = unsafe { std::slice::from_raw_parts(start.cast(), bytes) };
    }
    Ok(Shard { file, map, entries })
}
