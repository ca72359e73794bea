//! Writes zarr v3 stores with the zarrs crate, packed in one file: rectilinear grids, and regular,
//! sharded, nested and transposed arrays for the comparison of writers, and elements of few bits.
//!
//!     RAYON_NUM_THREADS=1 cargo run --release       # writes ../zarrs.tar.zst
//!
//! With the versions of Cargo.lock the output is the same bytes on every run. The tar has the
//! layout of fixtures.tar.zst (see make_fixtures.py): manifest.json, raw/*, stores/NAME/. Beside
//! the fields there, an entry of a rectilinear array has `edges`: the lengths of the files along
//! each axis; its chunk and shard are the largest. Every store is read back whole and compared
//! with its pixels before it is packed; make_rectilinear.py does the same with zarr-python.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zarrs::array::{Array, ArrayBytes};
use zarrs::filesystem::FilesystemStore;

/// Name, zarr's name, bytes of an element. "i8/4" is the type that arrays of int4 are read as.
const DTYPES: [(&str, &str, usize); 11] = [
    ("bool", "bool", 1),
    ("i8/4", "int4", 1),
    ("u8/4", "uint4", 1),
    ("i8/2", "int2", 1),
    ("u8/2", "uint2", 1),
    ("u8", "uint8", 1),
    ("u16", "uint16", 2),
    ("i32", "int32", 4),
    ("f32", "float32", 4),
    ("f64", "float64", 8),
    ("c64", "complex64", 8),
];

/// One store to be.
struct Plan {
    name: &'static str,
    family: &'static str,
    dtype: &'static str,
    shape: Vec<u64>,
    grid: Value,
    codecs: Value,
    /// What lies in this box is the fill value, so that chunks inside it are not written.
    hole: Vec<(u64, u64)>,
}

struct Pack {
    root: PathBuf,
    manifest: Vec<Value>,
    raw: BTreeMap<String, Vec<u8>>,
}

fn main() {
    zarrs::config::global_config_mut()
        .set_codec_concurrent_target(1)
        .set_chunk_concurrent_minimum(1);
    let root = std::env::temp_dir().join(format!("make-zarrs-{}", std::process::id()));
    let mut pack = Pack { root, manifest: Vec::new(), raw: BTreeMap::new() };
    let plans = [rectilinear(), regular(), nested(), transposed(), gzip(), small()];
    plans.into_iter().flatten().for_each(|plan| pack.add(&plan));
    let target = std::env::args().nth(1);
    pack.write(target.as_deref().unwrap_or("../zarrs.tar.zst"));
    std::fs::remove_dir_all(&pack.root).expect("the stores go away");
}

fn bytes() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

fn zstd(checksum: bool) -> Value {
    json!({"name": "zstd", "configuration": {"level": 3, "checksum": checksum}})
}

fn blosc(shuffle: &str, typesize: u32) -> Value {
    json!({"name": "blosc", "configuration": {
        "cname": "zstd", "clevel": 5, "shuffle": shuffle, "typesize": typesize, "blocksize": 0
    }})
}

fn crc() -> Value {
    json!({"name": "crc32c"})
}

fn transpose(order: &[u32]) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
}

fn shard(chunk: &[u64], codecs: Value, location: &str) -> Value {
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk, "codecs": codecs, "index_codecs": [bytes(), crc()],
        "index_location": location
    }})
}

fn regular_grid(chunk: &[u64]) -> Value {
    json!({"name": "regular", "configuration": {"chunk_shape": chunk}})
}

fn edges(shapes: Value) -> Value {
    json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}})
}

/// Grids with cells of their own lengths, of each rank, spelling and chain; the far corner of each
/// is not written.
fn rectilinear() -> Vec<Plan> {
    let plan = |name, dtype, shape: &[u64], shapes: Value, codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        let family = "rectilinear";
        Plan { name, family, dtype, shape: shape.to_vec(), grid: edges(shapes), codecs, hole }
    };
    let months: Vec<u64> = (0..30).map(|n| [31, 28, 31, 30, 31, 30][n % 6]).collect();
    let days: u64 = months.iter().sum();
    vec![
        plan("rect_1_list", "u16", &[97], json!([[10, 1, 31, 7, 48]]), json!([bytes()])),
        plan("rect_1_runs", "f32", &[610], json!([[[50, 12], 10]]), json!([bytes(), zstd(false)])),
        plan("rect_1_over", "u8", &[40], json!([[9, 17, [20, 3], 5]]), json!([bytes(), crc()])),
        plan("rect_1_months", "u16", &[days], json!([months]), json!([bytes(), zstd(true)])),
        plan("rect_2_lists", "u16", &[37, 29], json!([[5, 20, 12], [1, 2, 26]]), json!([bytes()])),
        plan(
            "rect_2_mixed",
            "i32",
            &[37, 40],
            json!([[[8, 2], 3, [9, 2]], 16]),
            json!([bytes(), blosc("shuffle", 4)]),
        ),
        plan("rect_2_equal", "c64", &[21, 30], json!([[[8, 3]], 10]), json!([bytes(), crc()])),
        plan(
            "rect_3_runs",
            "f32",
            &[11, 13, 17],
            json!([[4, 7], [[5, 2], 3], [2, [6, 2], 3]]),
            json!([bytes(), blosc("bitshuffle", 4), crc()]),
        ),
        plan(
            "rect_3_big",
            "u16",
            &[9, 14, 10],
            json!([[8, 1], 5, [3, 3, 4]]),
            json!([{"name": "bytes", "configuration": {"endian": "big"}}, zstd(false)]),
        ),
        plan(
            "rect_4_lists",
            "f32",
            &[3, 7, 9, 5],
            json!([[1, 2], 4, [[2, 2], 5], [4, 1]]),
            json!([bytes(), zstd(false), crc()]),
        ),
        plan(
            "rect_shard_2",
            "u16",
            &[41, 30],
            json!([[8, 20, 4, 16], [[12, 2], 6]]),
            json!([shard(&[4, 6], json!([bytes(), zstd(false)]), "end")]),
        ),
        plan(
            "rect_shard_3",
            "f32",
            &[11, 13, 17],
            json!([[4, 8], 6, [9, [3, 3]]]),
            json!([shard(&[2, 3, 3], json!([bytes()]), "start")]),
        ),
        plan(
            "rect_shard_crc",
            "u8",
            &[50, 12],
            json!([[[10, 3], 30], [4, 8]]),
            json!([shard(&[5, 4], json!([bytes(), blosc("noshuffle", 1), crc()]), "end")]),
        ),
    ]
}

/// Regular grids, plain and sharded.
fn regular() -> Vec<Plan> {
    let plan = |name, dtype, shape: &[u64], grid: &[u64], codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        let grid = regular_grid(grid);
        Plan { name, family: "zarrs", dtype, shape: shape.to_vec(), grid, codecs, hole }
    };
    vec![
        plan("zarrs_bytes", "u16", &[37, 29], &[8, 9], json!([bytes()])),
        plan("zarrs_zstd", "f32", &[11, 13, 7], &[4, 5, 3], json!([bytes(), zstd(false)])),
        plan("zarrs_zstd_check", "u16", &[997], &[64], json!([bytes(), zstd(true)])),
        plan("zarrs_blosc", "u8", &[37, 29], &[8, 9], json!([bytes(), blosc("noshuffle", 1)])),
        plan("zarrs_blosc_byte", "f64", &[37, 29], &[8, 9], json!([bytes(), blosc("shuffle", 8)])),
        plan(
            "zarrs_blosc_bit",
            "i32",
            &[37, 29],
            &[8, 9],
            json!([bytes(), blosc("bitshuffle", 4)]),
        ),
        plan("zarrs_crc", "c64", &[11, 13, 7], &[4, 5, 3], json!([bytes(), zstd(false), crc()])),
        plan(
            "zarrs_shard",
            "u16",
            &[3, 7, 9, 5],
            &[4, 3, 8, 3],
            json!([shard(&[2, 3, 4, 3], json!([bytes(), zstd(false)]), "end")]),
        ),
        plan(
            "zarrs_shard_start",
            "f32",
            &[37, 29],
            &[16, 18],
            json!([shard(&[8, 9], json!([bytes(), blosc("shuffle", 4)]), "start")]),
        ),
        plan(
            "zarrs_shard_raw",
            "i32",
            &[37, 29],
            &[16, 18],
            json!([shard(&[8, 9], json!([bytes()]), "end")]),
        ),
    ]
}

/// Shards inside shards.
fn nested() -> Vec<Plan> {
    let plan = |name, dtype, shape: &[u64], grid: Value, codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        Plan { name, family: "zarrs_nested", dtype, shape: shape.to_vec(), grid, codecs, hole }
    };
    let inner = |location| json!([shard(&[4, 3], json!([bytes(), zstd(false)]), location)]);
    let raw = json!([shard(&[4, 3], json!([bytes()]), "end")]);
    let grid = regular_grid(&[32, 36]);
    vec![
        plan(
            "nested_end",
            "u16",
            &[70, 50],
            grid.clone(),
            json!([shard(&[16, 9], inner("end"), "end")]),
        ),
        plan(
            "nested_start",
            "f32",
            &[70, 50],
            grid.clone(),
            json!([shard(&[16, 9], inner("start"), "start")]),
        ),
        plan("nested_raw", "u8", &[70, 50], grid, json!([shard(&[16, 9], raw, "end")])),
        plan(
            "nested_rect",
            "u16",
            &[70, 50],
            edges(json!([[32, 16, 48], [[18, 2], 27]])),
            json!([shard(&[16, 9], inner("end"), "end")]),
        ),
    ]
}

/// Axes in another order, of chunks, in shards and around them.
fn transposed() -> Vec<Plan> {
    let plan = |name, dtype, shape: &[u64], grid: Value, codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        Plan { name, family: "zarrs_transpose", dtype, shape: shape.to_vec(), grid, codecs, hole }
    };
    let shape = [11, 13, 7];
    let last_first = transpose(&[2, 1, 0]);
    let inner = json!([transpose(&[1, 2, 0]), bytes(), zstd(false)]);
    vec![
        plan(
            "transpose_chunk",
            "u16",
            &shape,
            regular_grid(&[4, 5, 3]),
            json!([last_first, bytes(), zstd(false)]),
        ),
        plan(
            "transpose_raw",
            "f32",
            &shape,
            regular_grid(&[4, 5, 3]),
            json!([transpose(&[1, 2, 0]), bytes()]),
        ),
        plan(
            "transpose_twice",
            "i32",
            &shape,
            regular_grid(&[4, 5, 3]),
            json!([last_first, transpose(&[1, 0, 2]), bytes(), blosc("shuffle", 4)]),
        ),
        plan(
            "transpose_in_shard",
            "u16",
            &shape,
            regular_grid(&[8, 5, 6]),
            json!([shard(&[4, 5, 3], inner, "end")]),
        ),
        plan(
            "transpose_around_shard",
            "u16",
            &shape,
            regular_grid(&[8, 5, 6]),
            json!([last_first, shard(&[3, 5, 4], json!([bytes(), zstd(false)]), "end")]),
        ),
        plan(
            "transpose_rect",
            "u16",
            &shape,
            edges(json!([[4, 7], [[5, 2], 3], 3])),
            json!([transpose(&[2, 0, 1]), bytes(), zstd(false)]),
        ),
    ]
}

/// The chain that came late.
fn gzip() -> Vec<Plan> {
    let gzip = json!({"name": "gzip", "configuration": {"level": 5}});
    let plan = |name, shape: &[u64], grid: Value, codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        let (family, dtype) = ("zarrs_gzip", "u16");
        Plan { name, family, dtype, shape: shape.to_vec(), grid, codecs, hole }
    };
    vec![
        plan("gzip_regular", &[37, 29], regular_grid(&[8, 9]), json!([bytes(), gzip])),
        plan("gzip_rect", &[37, 29], edges(json!([[5, 20, 12], 9])), json!([bytes(), gzip, crc()])),
        plan(
            "gzip_shard",
            &[37, 29],
            regular_grid(&[16, 18]),
            json!([shard(&[8, 9], json!([bytes(), gzip]), "end")]),
        ),
    ]
}

/// Elements of few bits, packed and not. Chunks of signed ones divide the array: zarrs loses their
/// sign where it reads a part of a chunk.
fn small() -> Vec<Plan> {
    let plan = |name, dtype, shape: &[u64], grid: Value, codecs: Value| {
        let hole = shape.iter().map(|extent| (extent - extent / 2, *extent)).collect();
        Plan { name, family: "small", dtype, shape: shape.to_vec(), grid, codecs, hole }
    };
    let packed = |padding| {
        json!({"name": "packbits", "configuration": {"padding_encoding": padding}})
    };
    let grid = regular_grid(&[5, 7]);
    let shape = [25, 21];
    let bytes = json!({"name": "bytes"});
    let inner = json!([packed("first_byte"), zstd(false), crc()]);
    vec![
        plan("small_i4", "i8/4", &shape, grid.clone(), json!([bytes])),
        plan("small_i2", "i8/2", &shape, grid.clone(), json!([bytes, zstd(false)])),
        plan("packed_i4", "i8/4", &shape, grid.clone(), json!([packed("none")])),
        plan("packed_u4", "u8/4", &shape, grid.clone(), json!([packed("first_byte")])),
        plan("packed_i2", "i8/2", &shape, grid.clone(), json!([packed("last_byte"), crc()])),
        plan("packed_u2", "u8/2", &shape, grid.clone(), json!([packed("none"), zstd(false)])),
        plan("packed_bool", "bool", &shape, grid, json!([packed("none")])),
        plan(
            "packed_shard",
            "u8/4",
            &shape,
            regular_grid(&[10, 14]),
            json!([shard(&[5, 7], inner, "end")]),
        ),
        plan(
            "packed_transpose",
            "u8/2",
            &shape,
            regular_grid(&[5, 6]),
            json!([transpose(&[1, 0]), packed("last_byte")]),
        ),
        plan(
            "packed_rect",
            "u8/4",
            &shape,
            edges(json!([[4, 7, 14], [[5, 2], 11]])),
            json!([packed("none"), zstd(false)]),
        ),
    ]
}

/// Elements in C order, little endian: a slope along every axis with noise in its lowest bits,
/// specials strewn in, and the fill value in the hole.
fn paint(plan: &Plan, size: usize) -> Vec<u8> {
    let count: u64 = plan.shape.iter().product();
    let mut state = u64::from(crc32fast::hash(plan.name.as_bytes())) | 1;
    let mut pixels = Vec::new();
    for n in 0..count {
        let (mut rest, mut slope, mut is_hole) = (n, 1, true);
        for (axis, extent) in plan.shape.iter().enumerate().rev() {
            let at = rest % extent;
            rest /= extent;
            slope += at * (3 + 2 * axis as u64);
            is_hole &= (plan.hole[axis].0..plan.hole[axis].1).contains(&at);
        }
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = state >> 62;
        let value = if is_hole { 7 } else { slope * 4 + noise };
        let float = if is_hole { 7.0 } else { (slope as f64 - 60.0) * 1.75 + noise as f64 / 8.0 };
        let float = if !is_hole && n % 101 == 5 { f64::NEG_INFINITY } else { float };
        let element = match plan.dtype {
            "f32" => (float as f32).to_le_bytes().to_vec(),
            "f64" => float.to_le_bytes().to_vec(),
            "c64" => [(float as f32).to_le_bytes(), (-float as f32).to_le_bytes()].concat(),
            "bool" => vec![u8::from(is_hole || value % 3 == 0)],
            "i8/4" => vec![((value << 4) as i8 >> 4) as u8],
            "i8/2" => vec![((value << 6) as i8 >> 6) as u8],
            "u8/4" => vec![value as u8 & 15],
            "u8/2" => vec![value as u8 & 3],
            _ => value.to_le_bytes()[..size].to_vec(),
        };
        pixels.extend_from_slice(&element);
    }
    pixels
}

/// The lengths of the files along an axis of `extent`, those behind it left out.
fn expanded(list: &Value, extent: u64) -> Vec<u64> {
    let number = |value: &Value| value.as_u64().expect("a number");
    let cells: Vec<u64> = match list.as_array() {
        None => vec![number(list); extent.div_ceil(number(list)) as usize],
        Some(items) => items
            .iter()
            .flat_map(|item| match item.as_array() {
                Some(pair) => vec![number(&pair[0]); number(&pair[1]) as usize],
                None => vec![number(item)],
            })
            .collect(),
    };
    let mut end = 0;
    let begins_inside = |edge: &u64| {
        let first = end;
        end += edge;
        first < extent
    };
    cells.into_iter().take_while(begins_inside).collect()
}

/// The shape of the innermost chunk in the axes of the array, given the largest file, and whether
/// files are shards. A codec that transposes turns the axes of what stands behind it.
fn chunk_of(codecs: &Value, file: &[u64]) -> (Vec<u64>, bool) {
    let (mut shape, mut is_sharded) = (file.to_vec(), false);
    let mut order: Vec<usize> = (0..file.len()).collect();
    for codec in codecs.as_array().expect("codecs") {
        let configuration = &codec["configuration"];
        if codec["name"] == "transpose" {
            let turn = configuration["order"].as_array().expect("an order");
            order = turn.iter().map(|axis| order[axis.as_u64().expect("axis") as usize]).collect();
        }
        if codec["name"] == "sharding_indexed" {
            is_sharded = true;
            let inner: Vec<u64> = configuration["chunk_shape"]
                .as_array()
                .expect("a shape")
                .iter()
                .map(|edge| edge.as_u64().expect("an edge"))
                .collect();
            order.iter().zip(&inner).for_each(|(axis, edge)| shape[*axis] = *edge);
            shape = chunk_of(&configuration["codecs"], &shape).0;
        }
    }
    (shape, is_sharded)
}

/// Names of the bytes-to-bytes codecs.
fn codec_names(codecs: &Value) -> Vec<&str> {
    let mut list = codecs.as_array().expect("codecs");
    while let Some(shard) = list.iter().find(|codec| codec["name"] == "sharding_indexed") {
        list = shard["configuration"]["codecs"].as_array().expect("codecs");
    }
    let names = list.iter().map(|codec| codec["name"].as_str().expect("a name"));
    names.filter(|name| !["bytes", "packbits", "transpose"].contains(name)).collect()
}

impl Pack {
    fn add(&mut self, plan: &Plan) {
        let (_, zarr_name, size) =
            *DTYPES.iter().find(|(name, ..)| *name == plan.dtype).expect("a type");
        let pixels = paint(plan, size);
        let path = self.root.join("stores").join(plan.name);
        // The last element lies in the hole.
        let last = pixels[pixels.len() - 1];
        let (kind, bits) = plan.dtype.split_once('/').unwrap_or((plan.dtype, ""));
        let fill = match kind {
            "c64" => json!([7.0, -7.0]),
            "bool" => json!(true),
            "i8" if !bits.is_empty() => json!(last as i8),
            "u8" if !bits.is_empty() => json!(last),
            _ => json!(7),
        };
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": plan.shape, "data_type": zarr_name,
            "chunk_grid": plan.grid,
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill, "codecs": plan.codecs
        });
        write_store(plan, &path, &document, &pixels);

        let configuration = &plan.grid["configuration"];
        let lists = configuration["chunk_shapes"].as_array();
        let edges: Option<Vec<Vec<u64>>> = lists.map(|lists| {
            lists.iter().zip(&plan.shape).map(|(list, extent)| expanded(list, *extent)).collect()
        });
        let file: Vec<u64> = match &edges {
            Some(edges) => edges.iter().map(|list| *list.iter().max().expect("edges")).collect(),
            None => configuration["chunk_shape"]
                .as_array()
                .expect("a shape")
                .iter()
                .map(|edge| edge.as_u64().expect("an edge"))
                .collect(),
        };
        let (chunk, is_sharded) = chunk_of(&plan.codecs, &file);
        let raw = format!("{}.raw", plan.name);
        // The last element lies in the hole.
        let fill: String =
            pixels[pixels.len() - size..].iter().map(|byte| format!("{byte:02x}")).collect();
        self.manifest.push(json!({
            "name": plan.name, "family": plan.family, "writer": "zarrs", "dtype": kind,
            "shape": plan.shape, "chunk": chunk, "shard": is_sharded.then_some(file),
            "codecs": codec_names(&plan.codecs), "raw": raw, "fill": fill, "edges": edges
        }));
        self.raw.insert(raw, pixels);
    }

    /// One tar of everything, in name order and without times, compressed.
    fn write(&self, target: &str) {
        let mut files = BTreeMap::new();
        let entries: Vec<String> = self.manifest.iter().map(Value::to_string).collect();
        files.insert("manifest.json".to_owned(), format!("[\n{}\n]\n", entries.join(",\n")).into());
        for (name, data) in &self.raw {
            files.insert(format!("raw/{name}"), data.clone());
        }
        collect(&self.root, &self.root, &mut files);
        let mut tar = tar::Builder::new(Vec::new());
        for (name, data) in &files {
            let mut header = tar::Header::new_ustar();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            tar.append_data(&mut header, name, &data[..]).expect("an entry");
        }
        let tar = tar.into_inner().expect("the tar");
        let packed = zstd_packed(&tar);
        std::fs::write(target, &packed).expect("the pack");
        let crc = crc32fast::hash(&packed);
        let (stores, bytes) = (entries.len(), tar.len());
        println!("{stores} stores, {bytes} bytes, {} packed, crc {crc:08x}", packed.len());
    }
}

fn write_store(plan: &Plan, path: &Path, document: &Value, pixels: &[u8]) {
    std::fs::create_dir_all(path).expect("a folder");
    std::fs::write(path.join("zarr.json"), document.to_string()).expect("zarr.json");
    let store = Arc::new(FilesystemStore::new(path).expect("a store"));
    let array = Array::open(store, "/").unwrap_or_else(|error| panic!("{}: {error}", plan.name));
    array.store_metadata().expect("zarr.json");
    let all = array.subset_all();
    array.store_array_subset(&all, ArrayBytes::new_flen(pixels)).expect("written");
    let seen: ArrayBytes<'static> = array.retrieve_array_subset(&all).expect("read");
    assert_eq!(seen.into_fixed().expect("elements of one size"), pixels, "{}", plan.name);
}

fn zstd_packed(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 19).expect("a frame")
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("below the root").to_str().expect("UTF-8");
            files.insert(name.to_owned(), std::fs::read(&path).expect("a file"));
        }
    }
}
