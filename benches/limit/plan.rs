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
use std::path::{Path, PathBuf};

/// Axes of everything here: arrays of fewer have axes of extent 1 before their own.
pub const RANK: usize = 5;

/// Coordinates or extents.
pub type Place = [usize; RANK];

/// Offset and length of a chunk that does not exist, as a shard's index has it.
pub const MISSING: (u64, u64) = (u64::MAX, u64::MAX);

#[derive(Clone, Copy, PartialEq)]
pub enum Codec {
    None,
    Zstd,
    Blosc,
}

/// A file of an array, with its map where the mode asks for one. The only chunk of an array that
/// is not sharded has a file of its own, which is opened when it is read.
pub struct Shard {
    pub path: PathBuf,
    pub file: Option<File>,
    pub map: &'static [u8],
    /// Offset and length of every chunk.
    pub entries: Vec<(u64, u64)>,
}

pub struct Array {
    pub shard: Place,
    pub chunk: Place,
    pub shard_counts: Place,
    /// As the tool writes it: u8, u16, i16, u32, u64 or f32.
    pub dtype: &'static str,
    pub element_bytes: usize,
    pub codec: Codec,
    pub shards: Vec<Shard>,
}

/// The part of a chunk that one sample needs.
pub struct Piece {
    /// In the batch.
    pub sample: usize,
    /// In the chunk.
    pub first: Place,
    pub limit: Place,
    /// Where `first` goes in the sample.
    pub target: Place,
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
    pub sample_shape: Place,
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
        sample_shape: [0; RANK],
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
        let shape = each(|axis| end[axis] - begin[axis]);
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

fn request_box(request: &Value) -> Result<(Place, Place)> {
    let axes = request["box"].as_array().filter(|axes| axes.len() <= RANK).ok_or("no box")?;
    let (mut begin, mut end) = ([0; RANK], [1; RANK]);
    for (axis, pair) in (RANK - axes.len()..).zip(axes) {
        let side = |at: usize| pair[at].as_u64().ok_or("a box outside its array");
        (begin[axis], end[axis]) = (side(0)? as usize, side(1)? as usize);
    }
    Ok((begin, end))
}

/// A place, axis by axis.
fn each(of_axis: impl FnMut(usize) -> usize) -> Place {
    std::array::from_fn(of_axis)
}

/// Every chunk that the box touches, with the part of it that it needs.
fn box_loads(
    array: &Array,
    number: usize,
    (batch, sample): (usize, usize),
    begin: Place,
    end: Place,
    mode: Mode,
) -> Vec<Load> {
    let chunk = array.chunk;
    let per = each(|axis| array.shard[axis] / chunk[axis]);
    let first = each(|axis| begin[axis] / chunk[axis]);
    let limit = each(|axis| end[axis].div_ceil(chunk[axis]));
    let load = |at: Place| {
        let origin = each(|axis| at[axis] * chunk[axis]);
        let low = each(|axis| begin[axis].max(origin[axis]));
        let high = each(|axis| end[axis].min(origin[axis] + chunk[axis]));
        let from = each(|axis| low[axis] - origin[axis]);
        let to = each(|axis| high[axis] - origin[axis]);
        let need = match mode {
            Mode::Whole => 0..chunk.iter().product(),
            _ => linear(from, chunk)..linear(each(|axis| to[axis] - 1), chunk) + 1,
        };
        Load {
            batch,
            array: number,
            shard: linear(each(|axis| at[axis] / per[axis]), array.shard_counts),
            chunk: linear(each(|axis| at[axis] % per[axis]), per),
            need: need.start * array.element_bytes..need.end * array.element_bytes,
            pieces: vec![Piece {
                sample,
                first: from,
                limit: to,
                target: each(|axis| low[axis] - begin[axis]),
            }],
        }
    };
    places(first, limit).map(load).collect()
}

/// The row-major number of a place.
#[inline(always)]
pub fn linear(at: Place, extents: Place) -> usize {
    at.iter().zip(extents).fold(0, |number, (at, extent)| number * extent + at)
}

/// All places from `first` on that lie before `limit` on every axis, in row-major order.
pub fn places(first: Place, limit: Place) -> impl Iterator<Item = Place> {
    let mut next = (0..RANK).all(|axis| first[axis] < limit[axis]).then_some(first);
    std::iter::from_fn(move || {
        let found = next?;
        let mut after = found;
        next = (0..RANK).rev().find_map(|axis| {
            after[axis] += 1;
            if after[axis] < limit[axis] {
                return Some(after);
            }
            after[axis] = first[axis];
            None
        });
        Some(found)
    })
}

/// What the metadata of either format says.
struct Meta {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    /// Of a shard; without shards that of a chunk.
    shard: Vec<usize>,
    dtype: String,
    codec: Codec,
    is_sharded: bool,
    /// What stands before the numbers of a chunk's key, and between them.
    key: (&'static str, &'static str),
}

fn extents(value: &Value) -> Result<Vec<usize>> {
    let items = value.as_array().ok_or("not a list of extents")?;
    Ok(items.iter().map(|item| item.as_u64().map_or(0, |extent| extent as usize)).collect())
}

fn read_meta(path: &Path) -> Result<Meta> {
    let not_ours = || format!("{}: not as benches/data.py writes it", path.display());
    let codec_of = |name: &Value| match name.as_str() {
        None => Ok(Codec::None),
        Some("zstd") => Ok(Codec::Zstd),
        Some("blosc") => Ok(Codec::Blosc),
        Some(name) => Err(format!("{name} is not known here")),
    };
    if let Ok(text) = fs::read(path.join(".zarray")) {
        let meta: Value = serde_json::from_slice(&text)?;
        if meta["order"] != "C" || !meta["filters"].is_null() {
            return Err(not_ours().into());
        }
        return Ok(Meta {
            shape: extents(&meta["shape"])?,
            chunk: extents(&meta["chunks"])?,
            shard: extents(&meta["chunks"])?,
            dtype: meta["dtype"].as_str().ok_or_else(not_ours)?.to_owned(),
            codec: codec_of(&meta["compressor"]["id"])?,
            is_sharded: false,
            key: ("", if meta["dimension_separator"] == "/" { "/" } else { "." }),
        });
    }
    let meta: Value = serde_json::from_slice(&fs::read(path.join("zarr.json"))?)?;
    let sharding = &meta["codecs"][0]["configuration"];
    let is_sharded = meta["codecs"][0]["name"] == "sharding_indexed";
    let codecs = if is_sharded { &sharding["codecs"] } else { &meta["codecs"] };
    let codecs = codecs.as_array().ok_or_else(not_ours)?;
    let is_index_known = sharding["index_location"] == "end"
        && sharding["index_codecs"].as_array().is_some_and(|codecs| codecs.len() == 2);
    if codecs.len() > 2 || codecs[0]["name"] != "bytes" || is_sharded && !is_index_known {
        return Err(not_ours().into());
    }
    let shard = extents(&meta["chunk_grid"]["configuration"]["chunk_shape"])?;
    Ok(Meta {
        shape: extents(&meta["shape"])?,
        chunk: if is_sharded { extents(&sharding["chunk_shape"])? } else { shard.clone() },
        shard,
        dtype: meta["data_type"].as_str().ok_or_else(not_ours)?.to_owned(),
        codec: codec_of(codecs.get(1).map_or(&Value::Null, |codec| &codec["name"]))?,
        is_sharded,
        key: ("c/", "/"),
    })
}

fn open_array(path: &Path, mode: Mode) -> Result<Array> {
    let meta = read_meta(path)?;
    if mode == Mode::Mapped && !meta.is_sharded {
        return Err("a file for each chunk: to map them costs more than to read them".into());
    }
    let (dtype, element_bytes) = match meta.dtype.as_str() {
        "uint8" | "|u1" => ("u8", 1),
        "uint16" | "<u2" => ("u16", 2),
        "int16" | "<i2" => ("i16", 2),
        "uint32" | "<u4" => ("u32", 4),
        "uint64" | "<u8" => ("u64", 8),
        "float32" | "<f4" => ("f32", 4),
        other => return Err(format!("type {other} is not known here").into()),
    };
    let rank = meta.shape.len();
    let padded = |extents: &[usize]| -> Result<Place> {
        let before = RANK.checked_sub(extents.len()).ok_or("too many axes")?;
        Ok(each(|axis| if axis < before { 1 } else { extents[axis - before] }))
    };
    let (shape, shard, chunk) = (padded(&meta.shape)?, padded(&meta.shard)?, padded(&meta.chunk)?);
    let shard_counts = each(|axis| shape[axis].div_ceil(shard[axis]));
    let per_shard = (0..RANK).map(|axis| shard[axis] / chunk[axis]).product();
    let mut shards = Vec::new();
    for at in places([0; RANK], shard_counts) {
        let numbers: Vec<String> = at[RANK - rank..].iter().map(usize::to_string).collect();
        let path = path.join(format!("{}{}", meta.key.0, numbers.join(meta.key.1)));
        shards.push(if meta.is_sharded {
            open_shard(path, per_shard, mode)?
        } else {
            let bytes = fs::metadata(&path).map(|data| data.len());
            let entries = vec![bytes.map_or(MISSING, |bytes| (0, bytes))];
            Shard { path, file: None, map: &[], entries }
        });
    }
    Ok(Array { shard, chunk, shard_counts, dtype, element_bytes, codec: meta.codec, shards })
}

fn open_shard(path: PathBuf, chunks: usize, mode: Mode) -> Result<Shard> {
    let file = File::open(&path)?;
    let file_bytes = file.metadata()?.len();
    let mut index = vec![0; chunks * 16 + 4];
    let index_offset = file_bytes.checked_sub(index.len() as u64).ok_or("a shard cut short")?;
    file.read_exact_at(&mut index, index_offset)?;
    let mut entries = Vec::with_capacity(chunks);
    for entry in index.as_chunks::<16>().0 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
        let (offset, bytes) = (word(0), word(8));
        let end = offset.checked_add(bytes);
        if (offset, bytes) != MISSING && end.is_none_or(|end| end > index_offset) {
            return Err("a chunk lies outside its shard".into());
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
    Ok(Shard { path, file: Some(file), map, entries })
}
