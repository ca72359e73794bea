//! Bytes through the zarr v3 metadata parser: a record keeps every promise that the data path
//! relies on and says what serde_json reads in the document; a refusal has a status and a text.
//!
//! Input that starts with `{` is the document. Anything else chooses, byte by byte, from menus of
//! member values, so that most documents get past the first checks; what is left of the input then
//! overwrites single bytes.

use super::choices::Choices;
use super::packed::{check_cf, check_edges, check_integer_fill, check_packing};
use super::structs::{check_layout, is_member};
use serde_json::Value;
use wavetrain::base::limits::{
    CHUNK_BYTES_MAX, EDGE_RUNS_MAX, ELEMENT_BYTES_MAX, PATH_BYTES_MAX, RANK_MAX, SHARD_CHUNKS_MAX,
    SHARD_LEVELS_MAX, SHARDS_MAX,
};
use wavetrain::base::text::Text;
use wavetrain::read::shard_index::entry_count;
use wavetrain::records::grid::{AxisGrid, Cell, EdgeRun, cell, cell_at};
use wavetrain::records::{ArrayRecord, Codec, Dtype, Filter, KeyEncoding, Packed};
use wavetrain::source::zarr::{array_from_zarr3, describe, write_file_key};
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    becomes_record(data);
}

/// Checks one input and says whether it is an array that is read.
pub fn becomes_record(data: &[u8]) -> bool {
    if data.first() == Some(&b'{') { check(data) } else { check(&spliced(data)) }
}

/// Parses `document` and checks what comes out; of structured elements also a field.
fn check(document: &[u8]) -> bool {
    check_field(document, Some("a"));
    check_field(document, None)
}

fn check_field(document: &[u8], field: Option<&str>) -> bool {
    let mut why = Why::new();
    let mut table = [EdgeRun::EMPTY; EDGE_RUNS_MAX];
    match array_from_zarr3(document, ("/fuzz/a", field), &mut table, &mut why) {
        Ok(record) => {
            assert!(why.is_empty(), "a text without an error: {why}");
            check_record(&record, &table);
            check_cf(&record, "zarr.json", document, &mut table.clone());
            assert_eq!(is_member(&record), field.is_some());
            if let Ok(value) = serde_json::from_slice::<Value>(document) {
                let kind = &value["data_type"];
                check_layout(&record, field, &kind["configuration"]["fields"], kind);
                if field.is_none() {
                    check_against_document(&record, &table, &value, document);
                }
            }
            true
        }
        Err(status) => {
            let statuses = [Status::Decode, Status::Unsupported, Status::NotFound];
            let is_no_field = field.is_some() && status == Status::Invalid;
            assert!(is_no_field || statuses.contains(&status), "{status}: {why}");
            assert!(why.as_str().starts_with("/fuzz/a/zarr.json: "), "{why}");
            assert!(!why.as_str().contains(char::is_control), "{why}");
            false
        }
    }
}

/// What every record promises to the stages behind it.
fn check_record(record: &ArrayRecord, table: &[EdgeRun]) {
    let axes = record.axes();
    assert!(axes <= RANK_MAX);
    let size = record.dtype_bytes as usize;
    assert!((1..=ELEMENT_BYTES_MAX).contains(&size));
    assert!(record.dtype == Dtype::Raw || record.dtype.bytes() == record.dtype_bytes);
    assert!(record.fill[size..].iter().all(|byte| *byte == 0));
    assert!(record.dtype != Dtype::Bool || record.fill[0] <= 1);

    let levels = record.shard_levels as usize;
    assert!(levels <= SHARD_LEVELS_MAX && record.shard_count() <= SHARDS_MAX);
    assert!(record.working_bytes() <= CHUNK_BYTES_MAX);
    for order in &record.axis_order {
        let mut sorted = *order;
        sorted.sort_unstable();
        assert!((0..RANK_MAX).all(|axis| usize::from(sorted[axis]) == axis));
        assert!((axes..RANK_MAX).all(|axis| usize::from(order[axis]) == axis));
    }
    let mut chunk_bytes = u128::from(record.dtype_bytes);
    for place in (0..axes).rev() {
        let axis = usize::from(record.axis_order[levels][place]);
        assert_eq!(record.chunk_strides[axis] as u128, chunk_bytes);
        chunk_bytes *= u128::from(record.chunk_shape[axis]);
    }
    for axis in 0..axes {
        let (file, chunk) = (record.file_shape()[axis], record.chunk_shape[axis]);
        assert!(chunk > 0 && file % chunk == 0);
        if let Some(runs) = runs_of(record, axis, table) {
            check_runs(record, axis, runs);
            continue;
        }
        let padded = u128::from(record.shape[axis].div_ceil(file)) * u128::from(file);
        assert!(padded <= i64::MAX as u128);
    }
    assert_eq!(u128::from(record.chunk_bytes), chunk_bytes);
    assert!(record.chunk_bytes <= CHUNK_BYTES_MAX);
    check_cut(record);

    let counts = record.file_counts();
    let chunks = record.chunks_per_file();
    let of_levels = (0..record.shard_levels).map(|level| entry_count(record, level).unwrap());
    assert!(of_levels.clone().all(|count| count <= SHARD_CHUNKS_MAX));
    assert_eq!(chunks, of_levels.product::<u64>());
    if !counts[..axes].contains(&0) {
        let product = counts[..axes].iter().try_fold(chunks, |all, count| all.checked_mul(*count));
        assert!(product.is_some());
        let mut last = counts;
        last.iter_mut().for_each(|count| *count -= 1);
        let mut key = Text::<PATH_BYTES_MAX>::new();
        write_file_key(record, &last[..axes], &mut key);
        check_key(record, &last[..axes], key.as_str());
    }
    // Each shard begins a list of codecs of its own.
    for part in record.codecs.split(|codec| codec.shard().is_some()) {
        assert!(part.iter().filter(|codec| codec.is_compressor()).count() <= 1);
    }
    check_whole_shards(record);
}

/// Cells divide the shards that are decoded whole, and each shard has its own number.
fn check_whole_shards(record: &ArrayRecord) {
    let mut number = record.shard_count();
    for (place, codec) in record.codecs.iter().enumerate() {
        let Some(found) = codec.shard() else { continue };
        number -= 1;
        assert_eq!(found, number);
        let (whole, cell) = (record.unit_shape(place + 1), record.unit_shape(place));
        assert!((0..record.axes()).all(|axis| whole[axis] % cell[axis] == 0));
        let cells = record.cell_counts(place)[..record.axes()].iter().product::<u64>();
        assert!(cells <= SHARD_CHUNKS_MAX);
        assert!(record.sizes(place + 1).encoded_max >= record.index[found].bytes(cells));
        let after = record.codecs.get(place + 1);
        assert!(after.is_none_or(|codec| !codec.is_filter() || codec.shard().is_some()));
    }
    assert_eq!(number, record.shard_levels as usize);
}

/// Chunks that are cut: each part lies in one stored chunk and has its number, and nothing else of
/// the record changes. One that is not cut is as it was.
fn check_cut(record: &ArrayRecord) {
    for most in [1, 40, 1000, 1 << 20] {
        let mut cut = record.clone();
        cut.cut_chunks(most, most);
        assert_eq!(cut.chunk_strides, record.chunk_strides);
        assert_eq!(cut.file_shape(), record.file_shape());
        assert_eq!(cut.stored_shape(), &record.chunk_shape);
        if !cut.is_cut {
            assert_eq!(
                (cut.chunk_shape, cut.chunk_bytes),
                (record.chunk_shape, record.chunk_bytes)
            );
            continue;
        }
        assert_eq!(cut.stored_bytes(), Some(record.chunk_bytes));
        assert!(cut.chunk_bytes <= most.max(u64::from(record.dtype_bytes)));
        assert!(cut.chunks_per_file() <= SHARD_CHUNKS_MAX);
        for axis in 0..record.axes() {
            let (file, stored) = (record.file_shape()[axis], record.chunk_shape[axis]);
            let count = cut.chunks_along(axis, file);
            assert_eq!(count, file / stored * stored.div_ceil(cut.chunk_shape[axis]));
            for number in [0, count / 2, count - 1] {
                let Cell { first, edge } = cut.chunk_cell(axis, file, number);
                let last = first + edge - 1;
                assert!(last < file && edge <= cut.chunk_shape[axis]);
                assert_eq!([cut.chunk_at(axis, first), cut.chunk_at(axis, last)], [number; 2]);
                assert_eq!(first / stored, last / stored);
            }
        }
    }
}

fn runs_of<'t>(record: &ArrayRecord, axis: usize, table: &'t [EdgeRun]) -> Option<&'t [EdgeRun]> {
    match record.file_grid[axis] {
        AxisGrid::Regular => None,
        AxisGrid::Edges { first, count, .. } => Some(&table[first as usize..][..count as usize]),
    }
}

/// Runs cover the axis in whole cells and nothing behind it; the record knows count, least and
/// largest cell; shards are whole chunks.
fn check_runs(record: &ArrayRecord, axis: usize, runs: &[EdgeRun]) {
    let AxisGrid::Edges { cells, edge_min, .. } = record.file_grid[axis] else { unreachable!() };
    assert!(runs.len() >= 2);
    let mut before = EdgeRun::EMPTY;
    let mut edges = Vec::new();
    for run in runs {
        assert!(run.limit > before.limit && run.cell_limit > before.cell_limit);
        let (length, count) = (run.limit - before.limit, run.cell_limit - before.cell_limit);
        assert_eq!(length % count, 0);
        assert_ne!(edges.last(), Some(&(length / count)), "equal neighbours are one run");
        edges.push(length / count);
        before = *run;
    }
    assert_eq!(before.cell_limit, cells);
    assert_eq!(edges.iter().min(), Some(&edge_min));
    assert_eq!(edges.iter().max(), Some(&record.file_shape()[axis]));
    let last = before.limit - edges[edges.len() - 1];
    assert!(last < record.shape[axis] && record.shape[axis] <= before.limit);
    assert!(before.limit <= i64::MAX as u64);
    let is_whole = |edge: &u64| edge.is_multiple_of(record.chunk_shape[axis]);
    assert!(record.shard_levels == 0 || edges.iter().all(is_whole));
}

/// The coordinates of a file can be read back from its key.
fn check_key(record: &ArrayRecord, file: &[u64], key: &str) {
    let mut parts = key.split(char::from(record.separator));
    if record.key_encoding == KeyEncoding::Default {
        assert_eq!(parts.next(), Some("c"), "{key}");
    } else if file.is_empty() {
        assert_eq!(parts.next(), Some("0"), "{key}");
    }
    let found: Vec<u64> = parts.map_while(|part| part.parse().ok()).collect();
    assert_eq!(found, file, "{key}");
}

/// What serde_json finds in the same document.
fn check_against_document(record: &ArrayRecord, table: &[EdgeRun], value: &Value, document: &[u8]) {
    let axes = record.axes();
    assert_eq!((&value["zarr_format"], &value["node_type"]), (&3.into(), &"array".into()));
    let extents: Vec<u64> =
        value["shape"].as_array().expect("a shape").iter().map(extent).collect();
    assert_eq!(extents, record.shape[..axes]);
    check_packing(&record.packing, &value["attributes"]);
    check_grid(record, table, &value["chunk_grid"]);

    let mut chain = &value["codecs"];
    let mut order: Vec<usize> = (0..axes).collect();
    let levels = record.shard_count();
    let mut after = Vec::new();
    for level in 0..levels {
        let front = turn(chain, &mut order);
        assert!(
            record.order_at(level)[..axes]
                .iter()
                .map(|axis| usize::from(*axis))
                .eq(order.iter().copied())
        );
        let shard = &chain[front]["configuration"];
        let of_list = chain.as_array().expect("a list");
        after.splice(0..0, of_list[front + 1..].iter().map(name_of));
        if level >= record.shard_levels as usize {
            after.insert(0, "sharding_indexed");
        }
        let edges: Vec<u64> = order.iter().map(|axis| cell_of(record, level)[*axis]).collect();
        check_edges(record, &shard["chunk_shape"], &edges);
        assert_eq!(shard["index_location"] == "start", record.index[level].at_start);
        let index_count = shard["index_codecs"].as_array().map(Vec::len);
        assert_eq!(index_count, Some(1 + record.index[level].has_crc as usize));
        chain = &shard["codecs"];
    }
    turn(chain, &mut order);
    assert!(
        record.order_at(levels)[..axes]
            .iter()
            .map(|axis| usize::from(*axis))
            .eq(order.iter().copied())
    );
    let names: Vec<&str> = chain
        .as_array()
        .into_iter()
        .flatten()
        .map(name_of)
        .filter(|name| !["transpose", "reshape"].contains(name) && !is_sometimes_nothing(name))
        .chain(after)
        .collect();
    // Elements of few bits are written by "bytes", or side by side by a codec in its place.
    let are_side_by_side = |codec: &Codec| match codec {
        Codec::Filter(Filter::Packed(Packed { padding, .. })) => Some(padding.is_some()),
        _ => None,
    };
    let listed = record.codecs.iter().filter(|codec| are_side_by_side(codec) != Some(false));
    let mut expected: Vec<&str> = listed.map(|codec| codec.name()).collect();
    expected.retain(|name| !is_sometimes_nothing(name));
    if !record.codecs.iter().any(|codec| are_side_by_side(codec) == Some(true)) {
        let filters = ["delta", "fixedscaleoffset", "packbits", "scale_offset", "cast_value"];
        let is_later = |name: &&str| !filters.contains(name);
        let place = expected.iter().position(is_later).unwrap_or(expected.len());
        expected.insert(place, "bytes");
    }
    assert_eq!(names, expected, "{chain} became {:?}", record.codecs);
    check_integer_fill(record, &value["fill_value"]);

    // The same document in another spelling and order is the same array. serde_json turns -0 into
    // -0.0, which is no integer.
    if !document.windows(2).any(|pair| pair == b"-0") {
        let mut why = Why::new();
        let mut again_table = [EdgeRun::EMPTY; EDGE_RUNS_MAX];
        let text = value.to_string();
        match array_from_zarr3(text.as_bytes(), ("/fuzz/a", None), &mut again_table, &mut why) {
            Ok(mut again) => {
                // Of an attribute that is there twice serde_json keeps the last, and each counts.
                let (packing, all) = (again.packing, record.packing);
                assert_eq!((packing.bits & !all.bits, packing.changes & !all.changes), (0, 0));
                again.packing = all;
                assert_eq!(format!("{again:?}"), format!("{record:?}"));
                assert_eq!(again_table, table);
            }
            Err(status) => panic!("respelled it is {status}: {why}"),
        }
    }
    assert!(record.shard_count() > SHARD_LEVELS_MAX || !describe(record).codecs.is_cut());
}

/// The name of a codec, without a prefix.
fn name_of(codec: &Value) -> &str {
    let name = if codec.is_string() { codec } else { &codec["name"] };
    let name = name.as_str().expect("a name");
    name.strip_prefix("numcodecs.").unwrap_or(name)
}

/// Extents of what an entry of the index of a shard stands for.
fn cell_of(record: &ArrayRecord, level: usize) -> &[u64; RANK_MAX] {
    let levels = record.shard_levels as usize;
    match level + 1 {
        _ if level >= levels => &record.shard_shape[level],
        inner if inner < levels => &record.shard_shape[inner],
        _ => &record.chunk_shape,
    }
}

/// A whole number; serde_json reads -0 as a float.
fn extent(value: &Value) -> u64 {
    value.as_u64().or((value.as_f64() == Some(0.0)).then_some(0)).expect("an extent")
}

/// Cells are those that the document lists, one after the other.
fn check_grid(record: &ArrayRecord, table: &[EdgeRun], grid: &Value) {
    let axes = record.axes();
    let configuration = &grid["configuration"];
    if grid["name"] == "regular" {
        check_edges(record, &configuration["chunk_shape"], &record.file_shape()[..axes]);
        assert_eq!(record.file_grid, [AxisGrid::Regular; RANK_MAX]);
        return;
    }
    assert_eq!((&grid["name"], &configuration["kind"]), (&"rectilinear".into(), &"inline".into()));
    let lists = configuration["chunk_shapes"].as_array().expect("a list of axes");
    assert_eq!(lists.len(), axes);
    for (axis, list) in lists.iter().enumerate() {
        let Some(list) = list.as_array() else {
            assert_eq!(list.as_u64(), Some(record.file_shape()[axis]));
            continue;
        };
        let pairs = list.iter().map(|item| match item.as_array() {
            Some(pair) => (pair[0].as_u64().expect("edge"), pair[1].as_u64().expect("count")),
            None => (item.as_u64().expect("edge"), 1),
        });
        // A bound for [1, 2^40]: what lies behind it, the table says by its invariant.
        let listed = pairs.flat_map(|(edge, count)| (0..count).map(move |_| edge)).take(5000);
        let mut first = 0;
        for (number, edge) in listed.enumerate() {
            if first >= record.shape[axis] {
                break;
            }
            let (number, expected) = (number as u64, Cell { first, edge });
            match runs_of(record, axis, table) {
                None => assert_eq!(edge, record.file_shape()[axis]),
                Some(runs) => {
                    let last = (first + edge).min(record.shape[axis]) - 1;
                    assert_eq!(cell(runs, number), expected);
                    assert_eq!((cell_at(runs, first), cell_at(runs, last)), (number, number));
                }
            }
            first += edge;
        }
    }
}

/// Filters that some parameters make change nothing on reading, or another filter.
fn is_sometimes_nothing(name: &str) -> bool {
    ["bitround", "quantize", "astype", "shuffle"].contains(&name)
}

/// Applies the transposes at the front of a list; how many codecs stand before the one that makes
/// bytes.
fn turn(chain: &Value, order: &mut Vec<usize>) -> usize {
    let codecs = chain.as_array().into_iter().flatten();
    let makes_bytes = |codec: &&Value| {
        let name = if codec.is_string() { codec } else { &codec["name"] };
        name == "bytes" || name == "sharding_indexed"
    };
    let front: Vec<&Value> = codecs.take_while(|codec| !makes_bytes(codec)).collect();
    for transpose in front.iter().filter(|codec| codec["name"] == "transpose") {
        let axes = &transpose["configuration"]["order"];
        match axes.as_array() {
            Some(axes) => {
                *order = axes.iter().map(|axis| order[extent(axis) as usize]).collect();
            }
            None if axes == "F" => order.reverse(),
            None => assert_eq!(axes, "C"),
        }
    }
    front.len()
}

const EXTENTS: [&str; 15] = [
    "[8, 64]",
    "[4, 16]",
    "[16, 128]",
    "[1, 1]",
    "[]",
    "[7]",
    "[0, 5]",
    "[9223372036854775807, 2]",
    "[4294967296, 4294967296]",
    "[18446744073709551615, 1]",
    "[3, 5]",
    "[32768, 32769]",
    "[2147483648, 2]",
    "[-1, 1.0]",
    "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
];

/// Edges along one axis or, led by a comma, along the next.
const EDGES: [&str; 16] = [
    "[4, 2, 2]",
    ", [[16, 3], 32, 16]",
    "8",
    ", 16",
    "[[1, 4], [2, 2]]",
    ", [64]",
    "[8, 8, 8]",
    ", [32, [16, 2], [32, 9]]",
    "[]",
    ", [0, 64]",
    "[[4, 0], 8]",
    ", [[1, 2, 3]]",
    "[[9223372036854775807, 2]]",
    ", [1, [9223372036854775806, 1]]",
    "[4, 3]",
    "",
];

const DTYPES: [&str; 18] = [
    "\"uint16\"",
    "\"uint8\"",
    "\"int64\"",
    "\"float32\"",
    "\"float16\"",
    "\"bfloat16\"",
    "\"bool\"",
    "\"complex64\"",
    "\"r24\"",
    "\"r136\"",
    "{\"name\": \"raw_bytes\", \"configuration\": {\"length_bytes\": 3}}",
    "{\"name\": \"int8\", \"must_understand\": true}",
    "\"string\"",
    "{\"name\": \"numpy.datetime64\", \"configuration\": {\"unit\": \"ns\", \"scale_factor\": 1}}",
    "{\"name\": \"numpy.timedelta64\", \"configuration\": {\"unit\": \"s\", \"scale_factor\": 25}}",
    "{\"configuration\": {}}",
    "{\"name\": \"struct\", \"configuration\": {\"fields\": [{\"name\": \"b\", \"data_type\": \
     \"uint8\"}, {\"name\": \"a\", \"data_type\": \"float32\"}]}}",
    "{\"name\": \"structured\", \"configuration\": {\"fields\": [[\"b\", {\"name\": \
     \"null_terminated_bytes\", \"configuration\": {\"length_bytes\": 3}}], [\"a\", \"int16\"]]}}",
];

const FILLS: [&str; 24] = [
    "7.0",
    "\"7\"",
    "\"0.0\"",
    "42",
    "\"NaT\"",
    "NaN",
    "-Infinity",
    "0",
    "-1",
    "-0",
    "9223372036854775807",
    "18446744073709551615",
    "1e400",
    "0.1",
    "true",
    "\"NaN\"",
    "\"-Infinity\"",
    "\"0x7fc00001\"",
    "\"AQD/\"",
    "[1, 0, 255]",
    "[1, \"NaN\"]",
    "200",
    "-129",
    "null",
];

const BYTES: [&str; 15] = [
    "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}",
    "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}",
    "\"bytes\"",
    "\"transpose\"",
    "\"crc32c\"",
    "{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"uint16\", \"astype\": \
     \"|i1\"}}, \"bytes\"",
    "{\"name\": \"numcodecs.astype\", \"configuration\": {\"encode_dtype\": \"<f8\"}}, {\"name\": \
     \"bytes\", \"configuration\": {\"endian\": \"little\"}}",
    "{\"name\": \"numcodecs.fixedscaleoffset\", \"configuration\": {\"scale\": 0.1, \"offset\": \
     1e6, \"astype\": \"u1\"}}, {\"name\": \"transpose\", \"configuration\": {\"order\": \
     [1, 0]}}, {\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}",
    "{\"name\": \"numcodecs.bitround\", \"configuration\": {\"keepbits\": 3}}, {\"name\": \
     \"numcodecs.quantize\", \"configuration\": {\"digits\": 1}}, \"bytes\"",
    "\"numcodecs.packbits\", \"bytes\"",
    "{\"name\": \"scale_offset\", \"configuration\": {\"scale\": 3, \"offset\": 7}}, {\"name\": \
     \"bytes\", \"configuration\": {\"endian\": \"little\"}}",
    "\"scale_offset\", {\"name\": \"cast_value\", \"configuration\": {\"data_type\": \"uint8\"}}, \
     \"bytes\"",
    "{\"name\": \"cast_value\", \"configuration\": {\"data_type\": \"float64\", \"rounding\": \
     \"towards-zero\", \"out_of_range\": \"clamp\", \"scalar_map\": {\"decode\": [[\"NaN\", 1], \
     [2.5, 0]], \"encode\": [[1, \"NaN\"]]}}}, {\"name\": \"bytes\", \"configuration\": \
     {\"endian\": \"big\"}}",
    "{\"name\": \"cast_value\", \"configuration\": {\"data_type\": \"int16\", \"out_of_range\": \
     \"wrap\"}}, {\"name\": \"scale_offset\", \"configuration\": {\"scale\": -1}}, {\"name\": \
     \"bytes\", \"configuration\": {\"endian\": \"little\"}}",
    "{\"name\": \"reshape\", \"configuration\": {\"shape\": [[0], -1]}}, {\"name\": \"bytes\", \
     \"configuration\": {\"endian\": \"little\"}}",
];

/// What stands in front of the codec that makes bytes.
const TRANSPOSES: [&str; 8] = [
    "",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [1, 0]}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": \"F\"}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [1, 0]}}, \
     {\"name\": \"transpose\", \"configuration\": {\"order\": \"C\"}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [0, 1]}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [1, 1]}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": [0, 2]}}, ",
    "{\"name\": \"transpose\", \"configuration\": {\"order\": \"K\"}}, ",
];

const BYTE_CODECS: [&str; 13] = [
    "",
    ", {\"name\": \"zstd\", \"configuration\": {\"level\": 3, \"checksum\": true}}",
    ", \"crc32c\"",
    ", {\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": 5, \"shuffle\": \
     \"bitshuffle\", \"typesize\": 2, \"blocksize\": 0}}",
    ", {\"name\": \"blosc\", \"configuration\": {\"cname\": \"lz4\"}}",
    ", \"gzip\"",
    ", \"bytes\"",
    ", {\"name\": \"numcodecs.zstd\", \"must_understand\": false}",
    ", \"numcodecs.shuffle\"",
    ", {\"name\": \"numcodecs.shuffle\", \"configuration\": {\"elementsize\": 3}}",
    ", {\"name\": \"numcodecs.crc32\", \"configuration\": {\"location\": \"end\"}}",
    ", {\"name\": \"numcodecs.crc32c\", \"configuration\": {\"location\": \"start\"}}",
    ", \"numcodecs.fletcher32\"",
];

/// Codecs after a shard.
const AFTER: [&str; 9] = [
    "",
    "",
    "",
    ", \"zstd\"",
    ", \"crc32c\"",
    ", \"crc32c\", \"gzip\", \"numcodecs.adler32\"",
    ", {\"name\": \"numcodecs.shuffle\", \"configuration\": {\"elementsize\": 2}}",
    ", \"bytes\"",
    ", \"zstd\", \"zstd\"",
];

const LOCATIONS: [&str; 4] = [
    "",
    ", \"index_location\": \"start\"",
    ", \"index_location\": \"end\"",
    ", \"index_location\": \"middle\"",
];

const KEYS: [&str; 6] = [
    "{\"name\": \"default\", \"configuration\": {\"separator\": \"/\"}}",
    "{\"name\": \"default\", \"configuration\": {\"separator\": \".\"}}",
    "{\"name\": \"v2\", \"configuration\": {\"separator\": \"/\"}}",
    "\"v2\"",
    "\"default\"",
    "\"suffix\"",
];

const EXTRAS: [&str; 16] = [
    "",
    ", \"attributes\": {\"shape\": [1, {}]}",
    ", \"extra\": {\"must_understand\": false}",
    ", \"extra\": 1",
    ", \"storage_transformers\": []",
    ", \"storage_transformers\": [\"cache\"]",
    ", \"sh\\u0061pe\": [8, 64]",
    ", \"dimension_names\": [\"y\", null]",
    ", \"attributes\": {\"scale_factor\": 0.5, \"add_offset\": [-3], \"_FillValue\": 7}",
    ", \"attributes\": {\"_FillValue\": \"AAAAAAAA8D8=\", \"missing_value\": [1, 2, NaN]}",
    ", \"attributes\": {\"missing_value\": [3, 70000, -1], \"scale_factor\": 1e300}",
    ", \"attributes\": {\"valid_range\": [-3, 30], \"_Unsigned\": \"true\"}",
    ", \"attributes\": {\"valid_min\": 0.5, \"valid_max\": 9}",
    ", \"attributes\": {\"_Unsigned\": \"false\", \"add_offset\": 1, \"valid_max\": 200}",
    ", \"attributes\": {\"scale_factor\": 0}",
    ", \"attributes\": {\"valid_range\": [9, 3], \"scale_factor\": \"2\"}",
];

/// `bytes` and up to three codecs.
fn chain(choices: &mut Choices<'_>) -> String {
    let mut list = String::from(choices.one_of(&BYTES));
    for _ in 0..3 {
        list += choices.one_of(&BYTE_CODECS);
    }
    list
}

fn sharding(chunk: &str, codecs: &str, index: &str, location: &str) -> String {
    format!(
        "{{\"name\": \"sharding_indexed\", \"configuration\": {{\"chunk_shape\": {chunk}, \
         \"codecs\": [{codecs}], \"index_codecs\": [{index}]{location}}}}}@"
    )
}

/// A regular grid mostly.
fn grid(choices: &mut Choices<'_>) -> String {
    if choices.byte() % 4 < 3 {
        let shape = choices.one_of(&EXTENTS);
        return format!(
            "{{\"name\": \"regular\", \"configuration\": {{\"chunk_shape\": {shape}}}}}"
        );
    }
    let (first, second) = (choices.one_of(&EDGES), choices.one_of(&EDGES));
    let kind = choices.one_of(&["inline", "inline", "inline", "file"]);
    format!(
        "{{\"name\": \"rectilinear\", \"configuration\": {{\"kind\": \"{kind}\", \
         \"chunk_shapes\": [{first}{second}]}}}}"
    )
}

/// The document that `data` chooses.
fn spliced(data: &[u8]) -> Vec<u8> {
    let choices = &mut Choices::of(data);
    let is_sharded = choices.byte().is_multiple_of(2);
    let codecs = if is_sharded {
        let inner = choices.one_of(&EXTENTS[1..]);
        let (mut inner_chain, index_chain) = (chain(choices), chain(choices));
        let location = choices.one_of(&LOCATIONS);
        let (outer_turn, inner_turn) = (choices.one_of(&TRANSPOSES), choices.one_of(&TRANSPOSES));
        for _ in 0..choices.byte() % 4 {
            inner_chain = sharding("[2, 8]", &inner_chain, &index_chain, location);
        }
        let inner_chain = inner_turn.to_string() + &inner_chain;
        outer_turn.to_string() + &sharding(inner, &inner_chain, &index_chain, location)
    } else {
        let turn = choices.one_of(&TRANSPOSES);
        turn.to_string() + &chain(choices)
    };
    let document = format!(
        "{{\"zarr_format\": {}, \"node_type\": {}, \"shape\": {}, \"data_type\": {}, \
         \"chunk_grid\": {}, \"chunk_key_encoding\": {}, \"fill_value\": {}, \
         \"codecs\": [{codecs}]{}}}",
        choices.one_of(&["3", "3", "3", "2"]),
        choices.one_of(&["\"array\"", "\"array\"", "\"array\"", "\"group\""]),
        choices.one_of(&EXTENTS),
        choices.one_of(&DTYPES),
        grid(choices),
        choices.one_of(&KEYS),
        choices.one_of(&FILLS),
        choices.one_of(&EXTRAS),
    );
    // The codecs after a shard are chosen last.
    let mut parts = document.split('@');
    let mut document = parts.next().unwrap_or("").to_string();
    parts.for_each(|part| document += &[choices.one_of(&AFTER), part].concat());
    let mut bytes = document.into_bytes();
    for patch in choices.rest().chunks_exact(3) {
        let place = u16::from_le_bytes([patch[0], patch[1]]) as usize % bytes.len();
        bytes[place] = patch[2];
    }
    bytes
}
