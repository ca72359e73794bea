//! The arrays that the fault sweep streams, and what each of their files is to each sample.
//!
//! In: fixtures, some with files taken away. Out: jobs, each with its bytes and the cells of files
//! that it needs. Every array has rank 3 and u16 elements, so that one batch holds samples of all.

use crate::common::drive::{Job, Span};
use crate::common::fixtures::{self, Scratch};
use crate::common::npy;
use std::fs;
use std::path::Path;
use wavetrain::records::Dtype;

/// Extents of every sample.
pub const SHAPE: [u64; 3] = [5, 6, 4];

/// Fixtures with [11, 13, 7] elements in chunks of [4, 5, 3], and files that are taken away from
/// the copy that is streamed.
const ARRAYS: [(&str, &[&str]); 4] = [
    // zstd frames with checksums in shards whose index has a crc32c.
    ("variant_checksum_shard", &["c/1/2/1"]),
    // blosc behind a crc32c, one file per chunk.
    ("variant_blosc_crc_plain", &["c/0/1/0", "c/1/1/1", "c/2/2/2"]),
    // Uncompressed: rows are read, not chunks.
    ("u16_bytes_plain", &[]),
    // Absent shards, and absent chunks in the shards that are there.
    ("sparse_u16_42_some_shard", &[]),
];

/// The elements of a fixture again, as a .npy file and as numbered ones, which begin at these rows.
const FLAT: &str = "u16_bytes_plain";
const FIRST_ROWS: [usize; PARTS as usize + 1] = [0, 4, 5, 11];
/// Numbered files.
pub const PARTS: u32 = 3;

/// Corners of the boxes, array by array in turn.
const CORNERS: [[i64; 3]; 3] = [[0, 0, 0], [6, 7, 3], [3, 4, 2]];

struct Array {
    uri: String,
    shape: Vec<u64>,
    /// Elements of a file along each axis; of a flat file nothing is said.
    cell: Vec<u64>,
    fill: Vec<u8>,
}

/// See the module.
pub struct World {
    arrays: Vec<Array>,
    /// In push order.
    pub jobs: Vec<Job>,
    /// Boxes are pushed as maps.
    pub is_mapped: bool,
    _scratch: Scratch,
}

impl World {
    /// A files hook (`has_hook`) cannot list folders, so there are no numbered files then.
    pub fn build(has_hook: bool) -> World {
        let scratch = Scratch::new();
        let mut arrays = Vec::new();
        let mut jobs = Vec::new();
        let mut images = Vec::new();
        for (name, absent) in ARRAYS {
            let store = fixtures::store(name);
            let folder = scratch.copy_of(store, name);
            let cell = store.shard.clone().unwrap_or_else(|| store.chunk.clone());
            let mut image = store.image.clone();
            let array = Array {
                uri: scratch.uri(name),
                shape: image.shape.clone(),
                cell,
                fill: image.fill.clone(),
            };
            let mut pixels = image.pixels.to_vec();
            for key in absent {
                fs::remove_file(folder.join(key)).expect("a file of the fixture");
                let whole = (vec![0; 3], array.shape.iter().map(|n| *n as i64).collect());
                fill_cell(&mut pixels, &whole, &array, key);
            }
            image.pixels = pixels.into();
            images.push(image);
            arrays.push(array);
        }
        let scratch_uris = write_flat(&scratch);
        for uri in scratch_uris.into_iter().take(if has_hook { 1 } else { 2 }) {
            let image = fixtures::store(FLAT).image.clone();
            let (shape, fill) = (image.shape.clone(), image.fill.clone());
            arrays.push(Array { uri, shape, cell: Vec::new(), fill });
            images.push(image);
        }
        for corner in CORNERS {
            for (array, image) in arrays.iter().zip(&images) {
                let end: Vec<i64> = (0..3).map(|axis| corner[axis] + SHAPE[axis] as i64).collect();
                let span: Span = (corner.to_vec(), end);
                assert_eq!(image.dtype, Dtype::U16);
                let want = image.inside(&span.0, &span.1);
                jobs.push(Job::new(&array.uri, span, want));
            }
        }
        World { arrays, jobs, is_mapped: false, _scratch: scratch }
    }

    /// The array and the key of a document, a file of chunks or a folder of such. None of what is
    /// only looked at for a hint.
    fn array_of(&self, path: &str) -> Option<(&Array, String)> {
        let is_flat = |array: &&Array| {
            let folder = Path::new(&array.uri).parent();
            path == array.uri
                || array.uri.contains('*')
                    && (Some(Path::new(path)) == folder || Path::new(path).parent() == folder)
        };
        if let Some(array) = self.arrays.iter().filter(|a| a.cell.is_empty()).find(is_flat) {
            return Some((array, String::new()));
        }
        let found = self.arrays.iter().find_map(|array| {
            let key = path.strip_prefix(&array.uri)?.strip_prefix('/')?;
            Some((array, key.to_string()))
        });
        found.filter(|(_, key)| World::is_metadata(path) || key.split('/').next() == Some("c"))
    }

    /// Whether a path is the metadata of an array, or what would be that of another format. All of
    /// a flat array is, and the folder of its files: where it is absent there is no array.
    pub fn is_metadata(path: &str) -> bool {
        let names = ["zarr.json", ".zarray", ".zgroup", ".zattrs", NUMBERED];
        path.ends_with(".npy")
            || Path::new(path).file_name().is_some_and(|name| names.iter().any(|n| name == *n))
    }

    /// Whether job number `job` cannot be had without the file at `path`.
    pub fn needs(&self, path: &str, job: usize) -> bool {
        if path == self.jobs[job].uri {
            return true;
        }
        let Some((array, key)) = self.array_of(path) else { return false };
        let job = &self.jobs[job];
        if array.uri != job.uri || World::is_metadata(path) {
            return array.uri == job.uri;
        }
        let (begin, end) = cell_span(array, &key);
        (0..3).all(|axis| begin[axis] < job.end[axis] && job.begin[axis] < end[axis])
    }

    /// What job number `job` gives where the file at `path` is taken to be absent.
    pub fn without(&self, path: &str, job: usize, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if let Some((array, key)) = self.array_of(path)
            && !World::is_metadata(path)
            && array.uri == self.jobs[job].uri
        {
            let span = (self.jobs[job].begin.clone(), self.jobs[job].end.clone());
            fill_cell(&mut bytes, &span, array, &key);
        }
        bytes
    }

    /// Whether a chunk of an array lies in the file at `path`.
    pub fn holds_chunk(&self, path: &str, chunk: &[u64]) -> bool {
        if self.arrays.iter().any(|array| path == array.uri) {
            return true;
        }
        let Some((array, key)) = self.array_of(path) else { return false };
        let chunk_shape = [4, 5, 3];
        let (begin, end) = cell_span(array, &key);
        (0..3).all(|axis| {
            let at = (chunk[axis] * chunk_shape[axis]) as i64;
            begin[axis] <= at && at < end[axis]
        })
    }
}

/// Folder of the numbered files.
const NUMBERED: &str = "numbered";

/// Writes the flat arrays; their uris.
fn write_flat(scratch: &Scratch) -> [String; 2] {
    let image = &fixtures::store(FLAT).image;
    let row = image.pixels.len() / image.shape[0] as usize;
    let npy = |first: usize, limit: usize| {
        let extents = [(limit - first) as u64, image.shape[1], image.shape[2]];
        npy::file("<u2", false, &extents, &image.pixels[first * row..limit * row])
    };
    let (file, folder) = (scratch.uri("flat.npy"), scratch.uri(NUMBERED));
    fs::write(&file, npy(0, image.shape[0] as usize)).expect("scratch");
    fs::create_dir(&folder).expect("scratch");
    for (number, rows) in FIRST_ROWS.windows(2).enumerate() {
        fs::write(format!("{folder}/part{number}.npy"), npy(rows[0], rows[1])).expect("scratch");
    }
    [file, format!("{folder}/part*.npy")]
}

/// The elements that a file holds, or the files of a folder, whose key has less numbers.
fn cell_span(array: &Array, key: &str) -> ([i64; 3], [i64; 3]) {
    let numbers: Vec<u64> =
        key.split('/').skip(1).map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.len() <= 3, "{key}");
    let begin = std::array::from_fn(|axis| {
        numbers.get(axis).map_or(0, |number| (number * array.cell[axis]) as i64)
    });
    let end = std::array::from_fn(|axis| {
        let behind = numbers.get(axis).map(|number| (number + 1) * array.cell[axis]);
        behind.map_or(array.shape[axis], |behind| behind.min(array.shape[axis])) as i64
    });
    (begin, end)
}

/// Writes the fill value over what the file `key` holds of the box `span`.
fn fill_cell(bytes: &mut [u8], span: &Span, array: &Array, key: &str) {
    let (begin, end) = cell_span(array, key);
    let element = array.fill.len();
    let extents: Vec<i64> = span.0.iter().zip(&span.1).map(|(b, e)| e - b).collect();
    for (n, target) in bytes.chunks_exact_mut(element).enumerate() {
        let n = n as i64;
        let at = [
            span.0[0] + n / (extents[1] * extents[2]),
            span.0[1] + n / extents[2] % extents[1],
            span.0[2] + n % extents[2],
        ];
        if (0..3).all(|axis| begin[axis] <= at[axis] && at[axis] < end[axis]) {
            target.copy_from_slice(&array.fill);
        }
    }
}
