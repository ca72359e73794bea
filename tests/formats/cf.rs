//! Attributes of the CF conventions that a uri with `#cf=1` asks for: numbers are those that xarray
//! makes of its stores (tests/data/make_cf.py), bit for bit, and contradictions are refused.

use crate::common::drive::{Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::oracle::{Pad, cast, clamped, has_cast};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use wavetrain::abi::{ArrayInfo, PACKING_FILL, PACKING_OFFSET, PACKING_SCALE};
use wavetrain::config::{Config, LOG_WARN, PAD_CONSTANT, PAD_EDGE};
use wavetrain::loader::{SCRATCH_BYTES, array_info};
use wavetrain::records::Dtype;
use wavetrain::status::{Failure, Status};

/// The stores, by uris that ask for the numbers.
pub fn stores(prefix: &str) -> Vec<Store> {
    let mut stores = fixtures::apart("cf");
    assert_eq!(stores.len(), 77);
    stores.retain(|store| store.name.starts_with(prefix));
    assert!(!stores.is_empty(), "{prefix}");
    stores.iter_mut().for_each(|store| store.uri.push_str("#cf=1"));
    stores
}

pub fn store(name: &str) -> Store {
    stores(name).into_iter().find(|store| store.name == name).unwrap()
}

/// The whole, and boxes across the borders of chunks.
pub fn spans(store: &Store) -> Vec<(Vec<i64>, Vec<i64>)> {
    let shape: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let whole = (vec![0; shape.len()], shape.clone());
    match shape.len() {
        2 => vec![whole, (vec![3, 2], vec![11, 13]), (vec![12, 15], shape)],
        _ => vec![whole],
    }
}

fn info(uri: &str) -> Result<ArrayInfo, Failure> {
    array_info(uri, &mut vec![0; SCRATCH_BYTES])
}

fn refusal(uri: &str) -> Failure {
    info(uri).map(|info| info.dtype).expect_err(uri)
}

fn text(bytes: &[core::ffi::c_char]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

#[test]
fn numbers_are_those_that_xarray_makes() {
    let mut is_decoded = 0;
    for store in stores("") {
        is_decoded += u32::from(store.image.dtype == Dtype::F64);
        for span in spans(&store) {
            let job = Job::of(&store, span, store.image.dtype);
            stream_as_configured(&config(store.image.dtype, &job.extents(), 1), &[job]);
        }
    }
    assert!(is_decoded > 60, "{is_decoded}");
}

#[test]
fn numbers_round_once_to_other_floats_on_the_host_and_on_a_device() {
    for (number, store) in stores("").into_iter().enumerate() {
        let dtype = [Dtype::F32, Dtype::F16, Dtype::F32, Dtype::Bf16][number % 4];
        let jobs: Vec<Job> =
            spans(&store).into_iter().map(|span| Job::of(&store, span, dtype)).collect();
        for job in jobs {
            let config = config(dtype, &job.extents(), 1);
            stream(&config, std::slice::from_ref(&job));
            let kept = Config { chunk_cache_bytes: 1 << 20, ..config };
            stream_as_configured(&kept, &[job.clone(), job]);
        }
    }
}

#[test]
fn padding_by_the_fill_value_and_by_the_edge_is_decoded_too() {
    for name in ["v2/i16", "v3/i16", "v3/u8", "v3/i16_shards", "v3/missing", "v3/f32"] {
        let store = store(name);
        let span = (vec![-3, 9], vec![8, 22]);
        for (mode, pad) in [(PAD_CONSTANT, Pad::Constant), (PAD_EDGE, Pad::Edge)] {
            let image = &store.image;
            let want = image.crop(&span.0, &span.1, pad, &image.fill);
            let job = Job::new(&store.uri, span.clone(), cast(Dtype::F64, Dtype::F32, &want));
            let plain = config(Dtype::F32, &job.extents(), 1);
            stream(&Config { pad_mode: mode, ..plain }, &[job]);
        }
    }
}

#[test]
fn integers_take_the_numbers_only_if_they_clamp_and_raw_takes_the_bits_of_f64() {
    let store = store("v3/i16");
    let span = spans(&store).remove(1);
    let source = store.image.inside(&span.0, &span.1);
    let job = Job::failing(&store.uri, span.clone(), Status::Dtype);
    let plain = config(Dtype::I16, &job.extents(), 1);
    let (_, failure) = first_failure(&open(&plain), &[job]);
    assert_eq!(failure.status, Status::Dtype);
    let says = "no cast from f64 (8 bytes) to i16 (2 bytes): set dtype to one of";
    assert!(failure.text.as_str().contains(says), "{failure}");
    assert!(failure.text.as_str().ends_with("or saturate = 1, which clamps"), "{failure}");
    assert!(!has_cast(Dtype::F64, Dtype::I16));
    let want = clamped(Dtype::F64, Dtype::I16, &source);
    let job = Job::new(&store.uri, span.clone(), want);
    stream(&Config { saturate: 1, ..plain }, &[job]);
    let job = Job::new(&store.uri, span, source);
    let raw = Config { dtype_bytes: 8, ..config(Dtype::Raw, &job.extents(), 1) };
    stream(&raw, &[job]);
}

#[test]
fn array_info_has_the_type_of_the_numbers_and_names_what_is_decoded() {
    for (name, dtype, codecs) in [
        ("v2/i16_delta", "<f8", "cf(int16) delta blosc order C"),
        ("v2/i16_big", "<f8", "cf(int16) blosc order C"),
        ("v3/i16", "float64", "cf(int16) bytes(little) zstd"),
        ("v3/i16_raw", "float64", "cf(int16) bytes(little)"),
        (
            "v3/i16_shards",
            "float64",
            "sharding_indexed[cf(int16) bytes(little) zstd](index at end, crc32c)",
        ),
        ("v3/unsigned", "float64", "cf(uint8) bytes zstd"),
        ("v3/unsigned_alone", "uint8", "bytes zstd"),
        ("v3/plain", "int32", "bytes(little) zstd"),
        ("v3/plain_float", "float32", "bytes(little) zstd"),
        ("v3/time", "int64", "bytes(little) zstd"),
    ] {
        let store = store(name);
        let info = info(&store.uri).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let (kind, bytes) = (store.image.dtype, store.image.dtype.bytes());
        assert_eq!((info.dtype, info.dtype_bytes), (kind as u32, bytes), "{name}");
        let extents = info.chunk_shape.iter().take(info.rank as usize).product::<u64>();
        assert_eq!(info.chunk_bytes, extents * u64::from(bytes), "{name}");
        let fill = &info.fill[..bytes as usize];
        assert_eq!(fill, store.image.fill, "{name}");
        assert_eq!([text(&info.dtype_name), text(&info.codecs)], [dtype, codecs], "{name}");
    }
    let packed = info(&store("v3/i16").uri).unwrap();
    assert_eq!(packed.packing, PACKING_SCALE | PACKING_OFFSET | PACKING_FILL);
}

/// The texts of attributes, those of a zarr v3 array of a type.
const REFUSED: &[(&str, &str, &str)] = &[
    // scale_factor and add_offset
    ("int16", r#""scale_factor": 0"#, "scale_factor at byte N: a scale of 0 leaves nothing"),
    ("int16", r#""scale_factor": -0.0"#, "a scale of 0 leaves nothing to read: correct it, or"),
    ("int16", r#""scale_factor": NaN"#, "scale_factor at byte N: NaN is not a finite number"),
    ("int16", r#""scale_factor": 1e999"#, "1e999 is not a finite number: correct it, or leave"),
    ("int16", r#""scale_factor": "0.5""#, "\"0.5\" is not a finite number: correct it, or"),
    ("int16", r#""scale_factor": [1, 2]"#, "scale_factor at byte N: 2 numbers, but one is read"),
    ("int16", r#""scale_factor": []"#, "0 numbers, but one is read: correct it, or leave out #cf"),
    ("int16", r#""scale_factor": true"#, "true is not a finite number"),
    ("int16", r#""add_offset": -Infinity"#, "add_offset at byte N: -Infinity is not a finite"),
    ("int16", r#""add_offset": {"a": 1}"#, "add_offset at byte N: {\"a\": 1} is not a finite"),
    ("int16", r#""scale_factor": 1, "scale_factor": 2"#, "a member that occurs twice at byte"),
    // Values that the type does not have
    ("int16", r#""_FillValue": 32768"#, "_FillValue at byte N: 32768 is not a value of int16"),
    (
        "int16",
        r#""_FillValue": NaN"#,
        "NaN is not a value of int16: correct it, or leave out #cf=1",
    ),
    ("int16", r#""missing_value": 1.5"#, "missing_value at byte N: 1.5 is not a value of int16"),
    ("int16", r#""missing_value": [1, "b"]"#, "missing_value[1] at byte N: \"b\" is not a value"),
    ("uint8", r#""_FillValue": -1"#, "-1 is not a value of uint8: correct it, or leave out #cf=1"),
    ("uint64", r#""_FillValue": 18446744073709551616"#, "is not a value of uint64"),
    ("float32", r#""_FillValue": 1e39"#, "_FillValue at byte N: 1e39 is not a value of float32"),
    ("float32", r#""_FillValue": "none""#, "\"none\" is not a value of float32"),
    ("float16", r#""missing_value": 99999"#, "99999 is not a value of float16"),
    // Limits
    ("int16", r#""valid_range": [0, 9], "valid_min": 0"#, "valid_min at byte N: it contradicts v"),
    ("int16", r#""valid_range": [0, 9], "valid_max": 9"#, "valid_max at byte N: it contradicts v"),
    ("int16", r#""valid_range": [9, 0]"#, "valid_range at byte N: no value is within the limits"),
    ("int16", r#""valid_range": [0, 9, 10]"#, "3 values, but a range has 2: correct it, or leave"),
    ("int16", r#""valid_range": [0.5, 9]"#, "valid_range[0] at byte N: 0.5 is not a value of int"),
    ("int16", r#""valid_range": 3"#, "valid_range at byte N: 3, not an array"),
    ("int16", r#""valid_min": 9, "valid_max": 0"#, "valid_max at byte N: no value is within the"),
    ("int16", r#""valid_min": [1, 2]"#, "valid_min[1] at byte N: 2 is not a limit: correct it"),
    ("float32", r#""valid_max": NaN"#, "valid_max at byte N: NaN is not a limit: correct it"),
    ("int8", r#""_Unsigned": "true", "valid_range": [-1, 1]"#, "no value is within the limits"),
    // _Unsigned, and types
    ("float32", r#""_Unsigned": "true""#, "_Unsigned at byte N: float32 has no sign to leave out"),
    ("int16", r#""_Unsigned": "yes""#, "\"yes\" is neither \"true\" nor \"false\": correct it"),
    ("int16", r#""_Unsigned": 1"#, "1 is neither \"true\" nor \"false\": correct it, or leave out"),
    ("bool", r#""scale_factor": 2"#, "scale_factor at byte N: the CF conventions are not read of"),
    ("complex64", r#""_FillValue": 0"#, "only of integers and floats of 8 to 64 bits: leave out"),
    ("r16", r#""add_offset": 1"#, "not read of this data type, only of integers and floats of 8"),
    ("bfloat16", r#""add_offset": 1"#, "not read of this data type, only of integers and floats"),
    ("int4", r#""add_offset": 1"#, "not read of this data type, only of integers and floats of 8"),
];

/// An array of zarr v3 of a type, with these attributes. It has no chunks, and reads as 0.
fn bare(scratch: &Scratch, dtype: &str, attributes: &str) -> String {
    let zero: Value = match dtype {
        "bool" => json!(false),
        "complex64" => json!([0, 0]),
        "r16" => json!([0, 0]),
        _ => json!(0),
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": zero, "attributes": {"@": 0},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    });
    let folder = scratch.path("bare");
    fs::create_dir_all(&folder).unwrap();
    let document = document.to_string().replace("\"@\":0", attributes);
    fs::write(folder.join("zarr.json"), document).unwrap();
    scratch.uri("bare")
}

/// A text whose places in a document have no number.
fn without_places(text: &str) -> String {
    let mut parts = text.split("at byte ");
    let mut all = parts.next().unwrap().to_string();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        all.push_str(&format!("at byte N{rest}"));
    }
    all
}

#[test]
fn attributes_that_contradict_or_do_not_fit_are_refused_by_name_with_a_way_out() {
    let scratch = Scratch::new();
    for (dtype, attributes, says) in REFUSED {
        let uri = bare(&scratch, dtype, attributes);
        let plain = info(&uri).unwrap_or_else(|failure| panic!("{attributes}: {failure}"));
        assert_eq!(plain.rank, 1);
        let failure = refusal(&format!("{uri}#cf=1"));
        let text = without_places(failure.text.as_str());
        assert!(text.contains(says), "{attributes}: {text}");
        assert!(text.starts_with(&format!("{uri}/zarr.json: ")), "{text}");
        assert!([Status::Decode, Status::Unsupported].contains(&failure.status), "{failure}");
    }
    // A loader says the same, and only of the samples that ask.
    let uri = bare(&scratch, "int16", r#""scale_factor": 0"#);
    let span = || (vec![0], vec![4]);
    let jobs = [
        Job::new(&uri, span(), vec![0; 16]),
        Job::failing(&format!("{uri}#cf=1"), span(), Status::Unsupported),
    ];
    let (before, failure) = first_failure(&open(&config(Dtype::F32, &[4], 1)), &jobs);
    assert_eq!(before, 1);
    assert!(failure.text.as_str().contains("a scale of 0 leaves nothing to read"), "{failure}");
}

#[test]
fn what_is_at_the_edge_of_its_type_is_read() {
    let scratch = Scratch::new();
    for (dtype, attributes, codecs) in [
        ("int16", r#""_FillValue": -32768, "missing_value": [32767, 7.0, "8"]"#, "cf(int16)"),
        ("uint64", r#""_FillValue": 18446744073709551615"#, "cf(uint64)"),
        ("int8", r#""_Unsigned": "true", "_FillValue": 255"#, "cf(uint8)"),
        ("int8", r#""_Unsigned": "true", "_FillValue": -1"#, "cf(uint8)"),
        ("int8", r#""_Unsigned": true, "valid_range": [0, -1]"#, "cf(uint8)"),
        ("uint8", r#""_Unsigned": "false", "_FillValue": -128"#, "cf(int8)"),
        ("uint8", r#""_Unsigned": "false", "_FillValue": 128"#, "cf(int8)"),
        ("uint8", r#""_Unsigned": "true", "scale_factor": [2]"#, "cf(uint8)"),
        ("float32", r#""missing_value": ["NaN", "Infinity", 3.4e38]"#, "cf(float32)"),
        ("float32", r#""_FillValue": "AAAAAAAA+H8=", "missing_value": NaN"#, "bytes(little)"),
        ("float32", r#""_FillValue": "AAAAAAAA8D8=""#, "cf(float32)"),
        ("int16", r#""valid_min": 3, "valid_max": 3"#, "cf(int16)"),
        ("int16", r#""valid_range": [-32768, 32767]"#, "cf(int16)"),
        ("int16", r#""scale_factor": 1, "add_offset": 0"#, "cf(int16)"),
        ("int16", r#""scale_factor": null, "_FillValue": null, "missing_value": []"#, "bytes(lit"),
        ("bool", r#""units": "K", "scale": 2"#, "bytes"),
        ("int16", r#""a": {"scale_factor": 0}"#, "bytes(little)"),
    ] {
        let uri = format!("{}#cf=1", bare(&scratch, dtype, attributes));
        let info = info(&uri).unwrap_or_else(|failure| panic!("{attributes}: {failure}"));
        let says = text(&info.codecs);
        assert!(says.starts_with(codecs), "{attributes}: {says}");
    }
    let many = |count: usize| {
        let values: Vec<i64> = (0..count as i64).collect();
        info(&format!(
            "{}#cf=1",
            bare(&scratch, "int16", &format!("\"missing_value\": {values:?}"))
        ))
    };
    assert!(many(64).is_ok());
    let failure = many(65).map(|info| info.dtype).unwrap_err();
    assert!(failure.text.as_str().contains("more than 64 missing values"), "{failure}");
}

/// A copy of a zarr v2 store with other attributes.
fn with_attributes(scratch: &Scratch, name: &str, attributes: &[u8]) -> String {
    let folder = scratch.path("other");
    let _ = fs::remove_dir_all(&folder);
    fixtures::copy_folder(Path::new(store(name).uri.strip_suffix("#cf=1").unwrap()), &folder);
    fs::write(folder.join(".zattrs"), attributes).unwrap();
    scratch.uri("other") + "#cf=1"
}

#[test]
fn attributes_beside_a_document_of_zarr_v2_are_read_or_refused() {
    let scratch = Scratch::new();
    let mut large = vec![b' '; 5 << 20];
    large[..2].copy_from_slice(b"{}");
    for (attributes, says) in [
        (&b"no JSON"[..], "/.zattrs: "),
        (b"{\"scale_factor\": 0.5", "/.zattrs: a comma or closing bracket is missing"),
        (b"[]", "an array, not an object"),
        (&large, "/.zattrs: "),
        (
            br#"{"_FillValue": 5, "_ARRAY_DIMENSIONS": ["y", "x"]}"#,
            "_FillValue at byte 15: 5 contradicts fill_value of .zarray, which xarray masks: c",
        ),
        (b"{\"scale_factor\": 0}", "/.zattrs: scale_factor at byte 17: a scale of 0"),
    ] {
        let uri = with_attributes(&scratch, "v2/i16", attributes);
        let failure = refusal(&uri);
        assert!(failure.text.as_str().contains(says), "{failure}");
        let plain = info(uri.strip_suffix("#cf=1").unwrap());
        assert_eq!(plain.unwrap().dtype, Dtype::I16 as u32);
    }
    // The fill value of an array that xarray did not write is not missing.
    for (attributes, codecs) in [
        (&b"{}"[..], "blosc order C"),
        (br#"{"_FillValue": 5}"#, "cf(int16) blosc order C"),
        (br#"{"_ARRAY_DIMENSIONS": ["y", "x"]}"#, "cf(int16) blosc order C"),
        (br#"{"_FillValue": -32768, "_ARRAY_DIMENSIONS": []}"#, "cf(int16) blosc order C"),
    ] {
        let uri = with_attributes(&scratch, "v2/i16", attributes);
        assert_eq!(text(&info(&uri).unwrap().codecs), codecs);
    }
    // Attributes that outgrow a small buffer.
    let long = format!("{{\"history\": \"{}\", \"add_offset\": 3}}", "x".repeat(200_000));
    let uri = with_attributes(&scratch, "v2/plain", long.as_bytes());
    let stored = &store("v2/plain").image;
    let pixels = cast(Dtype::I32, Dtype::F64, &stored.pixels);
    let want = pixels
        .as_chunks()
        .0
        .iter()
        .flat_map(|bytes| (f64::from_le_bytes(*bytes) + 3.0).to_le_bytes());
    let job = Job::new(&uri, (vec![0, 0], vec![14, 18]), want.collect());
    stream(&config(Dtype::F64, &job.extents(), 1), &[job]);
}

#[test]
fn the_mark_stands_last_in_every_spelling_of_a_uri() {
    let store = store("v3/i16");
    let path = store.uri.strip_suffix("#cf=1").unwrap();
    let (span, extents) = ((vec![3, 2], vec![11, 13]), [8, 11]);
    let float = Job::of(&store, span.clone(), Dtype::F32);
    for uri in [format!("{path}/#cf=1"), format!("file://{path}#cf=1"), store.uri.clone()] {
        let job = Job { uri, ..float.clone() };
        stream_as_configured(&config(Dtype::F32, &extents, 1), &[job]);
    }
    // Both ways to read an array in one loader.
    let both = stores("v3/whole_scale").remove(0);
    let decoded = Job::of(&both, span, Dtype::F64);
    let numbers = decoded.want.as_ref().unwrap().as_chunks().0.iter().copied();
    let stored = numbers.map(|number| ((f64::from_le_bytes(number) - 1.0) / 2.0).to_le_bytes());
    let want = Ok(stored.flatten().collect());
    let plain =
        Job { uri: both.uri.strip_suffix("#cf=1").unwrap().into(), want, ..decoded.clone() };
    let jobs = [plain.clone(), decoded.clone(), plain, decoded];
    stream(&config(Dtype::F64, &extents, 2), &jobs);
    for (uri, says) in [
        (format!("{path}#cf=0"), "'#cf=0' is not understood"),
        (format!("{path}#cf=1#level=0"), "#cf=1 stands last: write it after #level=0"),
        ("/nowhere/a.npy#cf=1".into(), "only zarr arrays have attributes: leave out #cf=1"),
        ("/nowhere/a_*.npy#cf=1".into(), "only zarr arrays have attributes: leave out #cf=1"),
        ("raw:/a?dtype=u1&shape=1#cf=1".into(), "only zarr arrays have attributes"),
        ("/nowhere#cf=1".into(), "/nowhere"),
        (
            format!("{}#cf=1", Path::new(path).parent().unwrap().display()),
            "is a group, name one of its arrays",
        ),
    ] {
        let failure = refusal(&uri);
        assert!(failure.text.as_str().contains(says), "{uri}: {failure}");
    }
}

#[test]
fn a_level_of_an_image_and_a_field_of_structured_elements_take_the_mark_after_theirs() {
    let scratch = Scratch::new();
    let (uri, _) =
        fixtures::groups().into_iter().find(|(_, says)| says["kind"] == "image").unwrap();
    let folder = scratch.path("image");
    fixtures::copy_folder(Path::new(&uri), &folder);
    let uri = scratch.uri("image");
    let before = info(&format!("{uri}#level=0")).unwrap();
    assert_ne!(before.dtype, Dtype::F64 as u32);
    for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        let (three, two) = (entry.join("zarr.json"), entry.join(".zarray"));
        if three.exists() {
            let mut document: Value = serde_json::from_slice(&fs::read(&three).unwrap()).unwrap();
            document["attributes"]["scale_factor"] = json!(0.5);
            fs::write(three, document.to_string()).unwrap();
        } else if two.exists() {
            fs::write(entry.join(".zattrs"), r#"{"scale_factor": 0.5}"#).unwrap();
        }
    }
    let after = info(&format!("{uri}#level=0#cf=1")).unwrap();
    assert_eq!(after.dtype, Dtype::F64 as u32);
    assert_eq!(after.shape, before.shape);
    assert_eq!(info(&format!("{uri}#level=0")).unwrap().dtype, before.dtype);
    let mut structured = fixtures::apart("structs").into_iter();
    let field = structured.find(|store| store.uri.contains("?field=")).unwrap();
    let (path, mark) = field.uri.split_once("?field=").unwrap();
    let plain = info(&format!("{}#cf=1", field.uri)).unwrap();
    assert_eq!(plain.dtype, field.image.dtype as u32);
    let folder = scratch.path("structured");
    fixtures::copy_folder(Path::new(path), &folder);
    let document = folder.join("zarr.json");
    let mut words: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    words["attributes"] = json!({"scale_factor": 2});
    fs::write(document, words.to_string()).unwrap();
    let uri = format!("{}?field={mark}", scratch.uri("structured"));
    assert_eq!(info(&uri).unwrap().dtype, field.image.dtype as u32);
    let failure = refusal(&format!("{uri}#cf=1"));
    let says = "scale_factor at byte N: it is not of one field of the elements: leave out #cf=1";
    assert!(without_places(failure.text.as_str()).contains(says), "{failure}");
}

#[test]
fn numbers_that_are_decoded_are_not_logged_as_packed() {
    use crate::common::surface::Lines;
    for (uri, count) in [("v2/i16", 0), ("v3/i16", 0), ("v3/plain", 0)] {
        let store = store(uri);
        let lines = Lines::default();
        let job = Job::of(&store, (vec![0, 0], vec![4, 4]), Dtype::F32);
        let plain = config(Dtype::F32, &job.extents(), 1);
        let told = Config { log: lines.hook(), log_level: LOG_WARN, ..plain };
        stream_as_configured(&told, std::slice::from_ref(&job));
        assert_eq!(lines.take().len(), count, "{uri}");
    }
}
