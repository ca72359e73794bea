//! The demo's store: a zarr v3 group of two sharded u16 volumes and their mask in u8, written here
//! and kept for the next run.
//!
//! Invariant: the marker file is written last, and names every file with its size and a fingerprint
//! of the procedure. A store without a marker that fits is written again; files get their name when
//! they are whole, so that two demos at a time do no harm.

use super::specimen::{Painter, Stain};
use crate::fault::{Fault, Outcome, failed};
use crate::partial::Partial;
use crate::progress::Progress;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Extents of a volume: z, y, x.
pub const SHAPE: [usize; 3] = [192, 512, 512];
/// Extents of a shard, which is a file.
const SHARD: [usize; 3] = [64, 256, 256];
/// Extents of a chunk.
const CHUNK: [usize; 3] = [32, 64, 64];
/// The volumes: name and stain.
pub const VOLUMES: [(&str, Stain); 3] =
    [("bodies", Stain::Bodies), ("fibres", Stain::Fibres), ("mask", Stain::Mask)];
/// Chunks of the whole store: what progress counts.
pub const CHUNKS: u64 = 3 * 6 * 8 * 8;
/// Decoded bytes of a voxel of all volumes.
pub const VOXEL_BYTES: u64 = 2 + 2 + 1;
/// Decoded bytes of the whole store.
pub const DECODED_BYTES: u64 = VOXEL_BYTES * (SHAPE[0] * SHAPE[1] * SHAPE[2]) as u64;

const MARKER: &str = "demo.json";
const ZSTD_LEVEL: i32 = 1;
const CHUNK_ELEMENTS: usize = CHUNK[0] * CHUNK[1] * CHUNK[2];
const CHUNKS_PER_SHARD: [usize; 3] =
    [SHARD[0] / CHUNK[0], SHARD[1] / CHUNK[1], SHARD[2] / CHUNK[2]];

/// Bytes of the store on disk, if the folder holds a whole store of this procedure.
pub fn existing(folder: &Path) -> Option<u64> {
    let marker: Value = serde_json::from_slice(&fs::read(folder.join(MARKER)).ok()?).ok()?;
    if marker["fingerprint"] != fingerprint() {
        return None;
    }
    let mut all = 0;
    for (name, size) in marker["files"].as_object()? {
        let found = fs::metadata(folder.join(name)).ok()?.len();
        if Some(found) != size.as_u64() {
            return None;
        }
        all += found;
    }
    Some(all)
}

/// Writes the store on all cores and returns its bytes on disk.
pub fn make(folder: &Path, threads: usize, progress: &Progress) -> Outcome<u64> {
    write(folder, "zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string())?;
    for (name, stain) in VOLUMES {
        write(folder, &format!("{name}/zarr.json"), metadata(stain).to_string())?;
    }
    let shards = shards();
    let next = AtomicUsize::new(0);
    let files = Mutex::new(serde_json::Map::new());
    let first_fault = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, shards.len()) {
            scope.spawn(|| {
                let mut painters = VOLUMES.map(|(_, stain)| Painter::new(stain));
                while let Some(shard) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match write_shard(folder, shard, &mut painters[shard.volume], progress) {
                        Ok(size) => {
                            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                            files.insert(shard.name(), json!(size));
                        }
                        Err(fault) => {
                            next.store(shards.len(), Ordering::Relaxed);
                            let mut first =
                                first_fault.lock().unwrap_or_else(PoisonError::into_inner);
                            first.get_or_insert(fault);
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(fault) = first_fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(fault);
    }
    let files = files.into_inner().unwrap_or_else(PoisonError::into_inner);
    let marker = json!({"fingerprint": fingerprint(), "files": files});
    write(folder, MARKER, marker.to_string())?;
    match existing(folder) {
        Some(bytes) => Ok(bytes),
        None => failed(format!("{}: something else changes the store", folder.display())),
    }
}

/// A shard of a volume.
struct Shard {
    volume: usize,
    place: [usize; 3],
}

impl Shard {
    fn name(&self) -> String {
        let [z, y, x] = self.place;
        format!("{}/c/{z}/{y}/{x}", VOLUMES[self.volume].0)
    }
}

fn shards() -> Vec<Shard> {
    let mut shards = Vec::new();
    for volume in 0..VOLUMES.len() {
        for place in places(core::array::from_fn(|axis| SHAPE[axis] / SHARD[axis])) {
            shards.push(Shard { volume, place });
        }
    }
    shards
}

/// All places of a grid, row-major.
fn places(counts: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let all = counts[0] * counts[1] * counts[2];
    (0..all).map(move |number| {
        [number / (counts[1] * counts[2]), number / counts[2] % counts[1], number % counts[2]]
    })
}

fn write_shard(
    folder: &Path,
    shard: &Shard,
    painter: &mut Painter,
    progress: &Progress,
) -> Outcome<u64> {
    let (mut file, mut index) = (Vec::new(), Vec::new());
    let mut voxels = vec![0u16; CHUNK_ELEMENTS];
    for place in places(CHUNKS_PER_SHARD) {
        let begin = core::array::from_fn(|axis| {
            (shard.place[axis] * SHARD[axis] + place[axis] * CHUNK[axis]) as i64
        });
        painter.paint(begin, CHUNK, &mut voxels);
        let bytes: Vec<u8> = match VOLUMES[shard.volume].1 {
            Stain::Mask => voxels.iter().map(|voxel| *voxel as u8).collect(),
            _ => voxels.iter().flat_map(|voxel| voxel.to_le_bytes()).collect(),
        };
        let frame = zstd::bulk::compress(&bytes, ZSTD_LEVEL)
            .map_err(|error| Fault::Failed(format!("zstd: {error}")))?;
        index.extend_from_slice(&(file.len() as u64).to_le_bytes());
        index.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        file.extend_from_slice(&frame);
        progress.step(1);
    }
    file.extend_from_slice(&index);
    file.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
    let size = file.len() as u64;
    write(folder, &shard.name(), file)?;
    Ok(size)
}

/// Writes a file under another name first, and makes its folders.
fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Outcome<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| Fault::path(parent, &error))?;
    }
    let written = Partial::create(&path).and_then(|(partial, mut file)| {
        file.write_all(bytes.as_ref())?;
        partial.finish()
    });
    written.map_err(|error| Fault::path(&path, &error))
}

fn metadata(stain: Stain) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": SHAPE,
        "data_type": if stain == Stain::Mask { "uint8" } else { "uint16" },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": SHARD}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": CHUNK,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}},
            ],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        }}],
        "dimension_names": ["z", "y", "x"],
        "attributes": {},
    })
}

/// A checksum over the metadata and a sample of each stain: it changes when the procedure does.
fn fingerprint() -> Value {
    let mut crc = 0;
    for (_, stain) in VOLUMES {
        crc = crc32c::crc32c_append(crc, metadata(stain).to_string().as_bytes());
        let mut voxels = vec![0; 8 * 24 * 200];
        Painter::new(stain).paint([14, 40, 60], [8, 24, 200], &mut voxels);
        for voxel in voxels {
            crc = crc32c::crc32c_append(crc, &voxel.to_le_bytes());
        }
    }
    json!(crc)
}
