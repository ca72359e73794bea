//! The stores that the stress test streams, and what each box in them must give.

use crate::common::drive::Dice;
use crate::common::fixtures::Scratch;
use crate::common::layers::{IndexForm, Layer, Layered};
use crate::common::oracle::{Image, Pad, cast};
use crate::common::store::{self, FILL, Spec, places, value};
use crate::common::synth::{Meta, shard_bytes};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use wavetrain::config::{Config, MISSING_ERROR, PAD_CONSTANT, PAD_EDGE, PAD_NONE, PAD_REFLECT};
use wavetrain::loader::Request;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// max_chunk_uncompressed_bytes of every case.
pub const CHUNK_CAP: u64 = 4096;

type Corner = [u64; 3];

/// An array and what is wrong with it.
struct Array {
    uri: String,
    image: Image,
    /// What every box gives.
    always: Option<Status>,
    /// What boxes give that touch one of these regions.
    damage: Option<Status>,
    regions: Vec<(Corner, Corner)>,
    /// Regions whose chunks do not exist.
    holes: Vec<(Corner, Corner)>,
}

/// One box and what it must give.
#[derive(Debug)]
pub struct Job {
    pub uri: String,
    pub begin: [i64; 3],
    pub end: [i64; 3],
    pub want: Result<Vec<u8>, Status>,
}

impl Job {
    pub fn request(&self, tag: u64) -> Request<'_> {
        Request { uri: &self.uri, begin: &self.begin, end: &self.end, tag }
    }
}

/// All arrays: those without fault first.
pub struct World {
    arrays: Vec<Array>,
    clean_count: usize,
}

/// A small number in the output type.
pub fn element(dtype: Dtype, number: u16) -> Vec<u8> {
    cast(Dtype::U16, dtype, &number.to_le_bytes())
}

fn cube(at: Corner, edge: u64) -> (Corner, Corner) {
    (at.map(|at| at * edge), at.map(|at| (at + 1) * edge))
}

fn contains(regions: &[(Corner, Corner)], at: Corner) -> bool {
    regions.iter().any(|(lo, hi)| (0..3).all(|axis| lo[axis] <= at[axis] && at[axis] < hi[axis]))
}

/// An array in shards.
fn sharded(scratch: &Scratch, name: &str, spec: Spec) -> Array {
    store::write(&scratch.path(name), &spec);
    let mut holes = Vec::new();
    if spec.sparse {
        let shards = places(spec.edge / spec.shard).filter(|at| store::shard_is_absent(*at));
        holes.extend(shards.map(|at| cube(at, spec.shard)));
        let chunks = places(spec.edge / spec.chunk).filter(|at| store::chunk_is_absent(*at));
        holes.extend(chunks.map(|at| cube(at, spec.chunk)));
    }
    array(scratch.uri(name), &spec, FILL, holes)
}

/// A sparse array of chunks behind layers of transposes and shards.
fn layered(scratch: &Scratch, name: &str, spec: Spec, layers: Vec<Layer>) -> Array {
    let corner = |at: &[u64]| -> Corner { at.try_into().unwrap() };
    let is_there = |chunk: Corner| {
        let shard = chunk.map(|at| at * spec.chunk / spec.shard);
        !spec.sparse || !(store::chunk_is_absent(chunk) || store::shard_is_absent(shard))
    };
    let layered = Layered {
        shape: vec![spec.edge; 3],
        cell: vec![spec.shard; 3],
        layers,
        data_type: "\"uint16\"",
        fill: "7",
        tail: match spec.zstd {
            true => r#"{"name":"bytes","configuration":{"endian":"little"}},"zstd""#,
            false => r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        },
        pixel: &|at| value(spec.seed, corner(at)).to_le_bytes().to_vec(),
        encode: &|raw| if spec.zstd { zstd::encode_all(&raw[..], 1).unwrap() } else { raw },
        is_there: &|at| is_there(corner(at).map(|at| at / spec.chunk)),
    };
    let uri = layered.write(scratch, name);
    let absent = places(spec.edge / spec.chunk).filter(|chunk| !is_there(*chunk));
    array(uri, &spec, 7, absent.map(|chunk| cube(chunk, spec.chunk)).collect())
}

/// Shards in shards: inner ones of 4, each index in another form.
fn nested_layers(is_turned: bool) -> Vec<Layer> {
    let (usual, other) =
        (IndexForm::USUAL, IndexForm { at_start: true, has_crc: false, is_big: true });
    let outer = Layer::Shard(vec![4; 3], if is_turned { other } else { usual });
    let inner = Layer::Shard(vec![2; 3], usual);
    if !is_turned {
        return vec![outer, inner];
    }
    let turn = |order: [usize; 3]| Layer::Transpose(order.to_vec());
    vec![turn([1, 2, 0]), outer, turn([0, 2, 1]), inner, turn([2, 0, 1]), turn([1, 0, 2])]
}

/// Flips a bit of the index of the first inner shard of the first file.
fn flip_inner_index(array: &Path) {
    let path = store::shard_path(array, [0; 3]);
    let mut bytes = fs::read(&path).unwrap();
    let entry = bytes.len() - (8 * 16 + 4);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let limit = word(entry) + word(entry + 8);
    bytes[limit - 9] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

fn array(uri: String, spec: &Spec, fill: u16, holes: Vec<(Corner, Corner)>) -> Array {
    let pixel = |at| if contains(&holes, at) { fill } else { value(spec.seed, at) };
    let pixels: Vec<u8> = places(spec.edge).flat_map(|at| pixel(at).to_le_bytes()).collect();
    let fill = fill.to_le_bytes().to_vec();
    let image = Image::new(Dtype::U16, vec![spec.edge; 3], Arc::new(pixels), fill);
    Array { uri, image, always: None, damage: None, regions: Vec::new(), holes }
}

/// An array whose files are chunks, some of them missing.
fn unsharded(scratch: &Scratch, name: &str, spec: Spec) -> Array {
    let folder = scratch.path(name);
    let meta = Meta::u16(&[spec.edge; 3], &[spec.chunk; 3], None);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("zarr.json"), meta.text()).unwrap();
    let mut holes = Vec::new();
    for chunk in places(spec.edge / spec.chunk) {
        if store::chunk_is_absent(chunk) {
            holes.push(cube(chunk, spec.chunk));
            continue;
        }
        let at = |inner: Corner| [0, 1, 2].map(|axis| chunk[axis] * spec.chunk + inner[axis]);
        let bytes: Vec<u8> = places(spec.chunk)
            .flat_map(|inner| value(spec.seed, at(inner)).to_le_bytes())
            .collect();
        let path = store::shard_path(&folder, chunk);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    array(scratch.uri(name), &spec, 7, holes)
}

/// Lengths of the files of a rectilinear array along each axis, and how the metadata spells them.
const EDGES: [&[u64]; 3] = [&[4, 2, 10], &[2, 6, 4, 4], &[2, 2, 2, 2, 8]];
const EDGES_TEXT: &str = "[[4, 2, 10], [2, 6, [4, 2]], [[2, 4], 8]]";

/// An array of files of different extents, some of them missing; with `chunk`, files are shards of
/// such chunks. zstd with a checksum, or raw.
fn rectilinear(
    scratch: &Scratch,
    name: &str,
    seed: u64,
    chunk: Option<u64>,
    is_raw: bool,
) -> Array {
    let spec = Spec { seed, edge: 16, shard: 8, chunk: 4, zstd: !is_raw, sparse: true };
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
    let inner = [chunk.unwrap_or(1); 3];
    let meta = Meta {
        edges: Some(EDGES_TEXT),
        codecs: if is_raw { "" } else { codecs },
        ..Meta::u16(&[16; 3], &inner, chunk.is_some().then_some(&[8; 3]))
    };
    let folder = scratch.path(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("zarr.json"), meta.text()).unwrap();
    let encoded = |first: Corner, extents: Corner| {
        let [depth, height, width] = extents;
        let places = (0..depth * height * width)
            .map(|i| [i / (height * width), i / width % height, i % width]);
        let raw: Vec<u8> = places
            .flat_map(|at| value(seed, [0, 1, 2].map(|axis| first[axis] + at[axis])).to_le_bytes())
            .collect();
        if is_raw { raw } else { store::zstd_frame(&raw) }
    };
    let mut holes = Vec::new();
    let counts = EDGES.map(|list| list.len() as u64);
    for n in 0..counts.iter().product() {
        let file = [n / (counts[1] * counts[2]), n / counts[2] % counts[1], n % counts[2]];
        let first = [0, 1, 2].map(|axis| EDGES[axis][..file[axis] as usize].iter().sum::<u64>());
        let extents = [0, 1, 2].map(|axis| EDGES[axis][file[axis] as usize]);
        if store::chunk_is_absent(file) {
            holes.push((first, [0, 1, 2].map(|axis| first[axis] + extents[axis])));
            continue;
        }
        let path = store::shard_path(&folder, file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let Some(chunk) = chunk else {
            fs::write(path, encoded(first, extents)).unwrap();
            continue;
        };
        let (mut payload, mut entries) = (Vec::new(), Vec::new());
        let per = extents.map(|extent| extent / chunk);
        for i in 0..per.iter().product() {
            let at = [i / (per[1] * per[2]), i / per[2] % per[1], i % per[2]];
            let at = [0, 1, 2].map(|axis| first[axis] + at[axis] * chunk);
            let bytes = encoded(at, [chunk; 3]);
            entries.push((payload.len() as u64, bytes.len() as u64));
            payload.extend(bytes);
        }
        fs::write(path, shard_bytes(&payload, &entries)).unwrap();
    }
    array(scratch.uri(name), &spec, 7, holes)
}

/// An array that no box can be read from.
fn refused(scratch: &Scratch, name: &str, meta: Option<Meta>, status: Status) -> Array {
    if let Some(meta) = meta {
        fs::create_dir_all(scratch.path(name)).unwrap();
        fs::write(scratch.path(name).join("zarr.json"), meta.text()).unwrap();
    }
    let spec = Spec { seed: 1, edge: 16, shard: 8, chunk: 4, zstd: false, sparse: false };
    Array { always: Some(status), ..array(scratch.uri(name), &spec, FILL, Vec::new()) }
}

fn damaged(
    scratch: &Scratch,
    name: &str,
    status: Status,
    region: (Corner, Corner),
    harm: impl Fn(&Path, &Spec),
) -> Array {
    let spec = Spec { seed: 9, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: false };
    let array = sharded(scratch, name, spec);
    harm(&scratch.path(name), &spec);
    Array { damage: Some(status), regions: vec![region], ..array }
}

impl World {
    pub fn build(scratch: &Scratch) -> World {
        let spec = Spec { seed: 2, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: false };
        let mut arrays = vec![
            sharded(scratch, "dense", spec),
            sharded(scratch, "raw", Spec { seed: 3, edge: 32, shard: 16, zstd: false, ..spec }),
            sharded(scratch, "tiny", Spec { seed: 4, chunk: 1, zstd: false, ..spec }),
            sharded(scratch, "sparse", Spec { seed: 5, edge: 24, sparse: true, ..spec }),
            unsharded(scratch, "files", Spec { seed: 6, ..spec }),
            rectilinear(scratch, "edges", 7, None, false),
            rectilinear(scratch, "edges_raw", 8, None, true),
            rectilinear(scratch, "edges_shards", 9, Some(2), false),
            layered(
                scratch,
                "nested",
                Spec { seed: 7, edge: 24, chunk: 2, sparse: true, ..spec },
                nested_layers(false),
            ),
            layered(
                scratch,
                "turned",
                Spec { seed: 8, chunk: 2, zstd: false, sparse: true, ..spec },
                nested_layers(true),
            ),
            layered(
                scratch,
                "rows",
                Spec { seed: 10, shard: 4, zstd: false, ..spec },
                vec![Layer::Transpose(vec![2, 1, 0])],
            ),
        ];
        let clean_count = arrays.len();
        let (decode, whole) = (Status::Decode, 8);
        let plain = || Meta::u16(&[16; 3], &[4; 3], None);
        let complex = Meta { data_type: "complex64", fill: "[0,0]", ..plain() };
        let gzip =
            Meta { codecs: r#",{"name":"no_such_codec","configuration":{"level":1}}"#, ..plain() };
        // An uncompressed chunk would be cut.
        let large = Meta { codecs: r#",{"name":"crc32c"}"#, ..Meta::u16(&[16; 3], &[16; 3], None) };
        let in_nested = Spec { seed: 11, chunk: 2, ..spec };
        let inner = layered(scratch, "inner", in_nested, nested_layers(false));
        flip_inner_index(&scratch.path("inner"));
        arrays.extend([
            Array { damage: Some(decode), regions: vec![cube([0; 3], 4)], ..inner },
            damaged(scratch, "chunk", decode, cube([0; 3], 4), |array, spec| {
                store::flip_chunk(array, spec, [0; 3], 0);
            }),
            damaged(scratch, "index", decode, cube([1, 0, 1], whole), |array, spec| {
                store::flip_index(array, spec, [1, 0, 1]);
            }),
            damaged(scratch, "short", decode, cube([0, 1, 0], whole), |array, _| {
                store::truncate(array, [0, 1, 0], 7);
            }),
            damaged(scratch, "folder", Status::Io, cube([1; 3], whole), |array, _| {
                let path = store::shard_path(array, [1; 3]);
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            }),
            refused(scratch, "nowhere", None, Status::NotFound),
            refused(scratch, "flat", Some(Meta::u16(&[16; 2], &[4; 2], None)), Status::Rank),
            refused(scratch, "complex", Some(complex), Status::Dtype),
            refused(scratch, "gzip", Some(gzip), Status::Unsupported),
            refused(scratch, "large", Some(large), Status::Budget),
        ]);
        World { arrays, clean_count }
    }

    /// A box, and what it must give under the config.
    pub fn draw_job(&self, dice: &mut Dice, config: &Config, is_clean: bool) -> Job {
        let is_bad = !is_clean && dice.range(0, 6) == 0;
        let numbers =
            if is_bad { self.clean_count..self.arrays.len() } else { 0..self.clean_count };
        let at = dice.range(numbers.start as i64, numbers.end as i64);
        let array = &self.arrays[at as usize];
        // Where chunks may be errors, the sources of padding are left to other tests.
        let has_holes = config.missing_chunks == MISSING_ERROR && !array.holes.is_empty();
        let may_leave = !is_bad && !has_holes && dice.range(0, 5) == 0;
        let (mut begin, mut end) = ([0; 3], [0; 3]);
        for axis in 0..3 {
            let crop = config.sample_shape[axis] as i64;
            let extent = array.image.shape[axis] as i64;
            let margin = if may_leave { crop - 1 } else { 0 };
            begin[axis] = dice.range(-margin, extent - crop + margin + 1);
            end[axis] = begin[axis] + crop;
        }
        let mut want = array.want(config, &begin, &end);
        if is_clean && want.is_err() {
            (begin, end, want) = self.good_box(config);
            return Job { uri: self.arrays[0].uri.clone(), begin, end, want };
        }
        Job { uri: array.uri.clone(), begin, end, want }
    }

    fn good_box(&self, config: &Config) -> ([i64; 3], [i64; 3], Result<Vec<u8>, Status>) {
        let end = [0, 1, 2].map(|axis| config.sample_shape[axis] as i64);
        ([0; 3], end, self.arrays[0].want(config, &[0; 3], &end))
    }

    /// Whether the text names the array.
    pub fn names(&self, uri: &str, text: &str) -> bool {
        text.contains(uri.rsplit('/').next().unwrap())
    }
}

impl Array {
    fn want(&self, config: &Config, begin: &[i64; 3], end: &[i64; 3]) -> Result<Vec<u8>, Status> {
        if let Some(status) = self.always {
            return Err(status);
        }
        let extent = |axis: usize| self.image.shape[axis] as i64;
        if config.pad_mode == PAD_NONE
            && (0..3).any(|axis| begin[axis] < 0 || end[axis] > extent(axis))
        {
            return Err(Status::Invalid);
        }
        let touches = |(lo, hi): &(Corner, Corner)| {
            (0..3).all(|axis| begin[axis] < hi[axis] as i64 && (lo[axis] as i64) < end[axis])
        };
        if let Some(status) = self.damage.filter(|_| self.regions.iter().any(touches)) {
            return Err(status);
        }
        if config.missing_chunks == MISSING_ERROR && self.holes.iter().any(touches) {
            return Err(Status::NotFound);
        }
        let pad = match config.pad_mode {
            PAD_CONSTANT => Pad::Constant,
            PAD_EDGE => Pad::Edge,
            PAD_REFLECT => Pad::Reflect,
            _ => Pad::None,
        };
        let source = self.image.crop(begin, end, pad, &self.image.fill);
        Ok(cast(Dtype::U16, Dtype::from_code(config.dtype).unwrap(), &source))
    }
}
