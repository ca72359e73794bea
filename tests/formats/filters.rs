//! numcodecs' filters and checksums, times and scalars, as zarr-python and xarray write them
//! (tests/data/make_filters.py). The stores that are pictures are in identity.rs with all others.

use crate::common::drive::{Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::{self, Scratch, Store};
use std::fs;
use std::path::{Path, PathBuf};
use wavetrain::config::{Config, PAD_EDGE};
use wavetrain::loader::{self, Loader, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn apart(prefix: &str) -> Vec<Store> {
    let mut stores = fixtures::apart("filters");
    stores.retain(|store| store.name.starts_with(prefix));
    assert!(!stores.is_empty(), "{prefix}");
    stores
}

fn whole(store: &Store) -> (Vec<i64>, Vec<i64>) {
    store.image.shape.iter().map(|extent| (0, *extent as i64)).unzip()
}

fn codecs_of(uri: &str) -> String {
    let mut scratch = vec![0; SCRATCH_BYTES];
    let info = loader::array_info(uri, &mut scratch).unwrap_or_else(|f| panic!("{uri}: {f}"));
    info.codecs.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

/// The files of a store that hold chunks.
fn data_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if path.is_dir() {
            files.extend(data_files(&path));
        } else if name != "zarr.json" && !name.starts_with(".z") {
            files.push(path);
        }
    }
    files
}

#[test]
fn astype_gives_what_numpy_gives_between_any_two_types() {
    let stores = apart("v2_astype_");
    assert!(stores.len() >= 90, "{}", stores.len());
    for store in &stores {
        let job = Job::of(store, whole(store), store.image.dtype);
        stream_as_configured(&config(store.image.dtype, &job.extents(), 1), &[job]);
    }
}

#[test]
fn times_come_out_as_their_int64_bits() {
    for store in apart("time_") {
        let job = Job::of(&store, whole(&store), Dtype::I64);
        stream_as_configured(&config(Dtype::I64, &job.extents(), 1), std::slice::from_ref(&job));
        let raw = Config { dtype_bytes: 8, ..config(Dtype::Raw, &job.extents(), 1) };
        stream_as_configured(&raw, &[job]);
    }
}

#[test]
fn times_are_no_floats_and_the_text_says_what_they_are() {
    for (name, says) in [
        (
            "time_v3_M_ns",
            "datetime64[ns] is read as its int64 bits alone: set dtype to i64, not f32",
        ),
        ("time_v2_m_25s", "timedelta64[25s] is read as its int64 bits alone"),
    ] {
        let store = apart(name).remove(0);
        let job = Job::of(&store, whole(&store), Dtype::I64);
        let loader = open(&config(Dtype::F32, &job.extents(), 1));
        let (_, failure) = first_failure(&loader, &[job]);
        assert_eq!(failure.status, Status::Dtype);
        assert!(failure.text.as_str().contains(says), "{failure}");
    }
}

#[test]
fn a_box_without_axes_fills_a_sample_of_one_element() {
    for store in apart("scalar_") {
        assert!(store.image.shape.is_empty());
        let job = Job::of(&store, (vec![], vec![]), store.image.dtype);
        for shape in [&[1][..], &[1, 1, 1]] {
            stream(&config(store.image.dtype, shape, 3), &vec![job.clone(); 7]);
        }
        // Kept chunks, and a float of whatever there is.
        let kept = Config { chunk_cache_bytes: 1 << 20, ..config(store.image.dtype, &[1], 1) };
        stream(&kept, &[job.clone(), job]);
        let floats = Job::of(&store, (vec![], vec![]), Dtype::F32);
        stream(&config(Dtype::F32, &[1], 1), &[floats]);
    }
}

#[test]
fn boxes_with_and_without_axes_are_not_taken_for_each_other() {
    let scalar = apart("scalar_v3_u8").remove(0);
    let line = fixtures::store("v2_packbits");
    for (store, span, says) in [
        (&scalar, (vec![0], vec![1]), "the box has 1 axes, the array 0: shape []"),
        (line, (vec![], vec![]), "the box has 0 axes, the array 1: shape [389]"),
    ] {
        let mut config = config(store.image.dtype, &[1], 1);
        config.pad_mode = PAD_EDGE;
        let loader = open(&config);
        let job = Job::failing(&store.uri, span, Status::Rank);
        let (_, failure) = first_failure(&loader, &[job]);
        assert_eq!(failure.status, Status::Rank);
        assert!(failure.text.as_str().contains(says), "{failure}");
    }
    // Of a sample of two elements a box without axes is no part.
    let loader = open(&config(Dtype::U8, &[2], 1));
    let job = Job::failing(&scalar.uri, (vec![], vec![]), Status::Rank);
    let failure = loader.push(&[job.request(0)], 0).expect_err("refused");
    assert_eq!(failure.status, Status::Rank, "{failure}");
}

#[test]
fn array_info_names_the_filters() {
    for (name, says) in [
        ("v2_hdf5", "shuffle zlib fletcher32 order C"),
        ("v2_chain", "fixedscaleoffset delta shuffle crc32 blosc order C"),
        ("v2_bitround", "order C"),
        ("v2_quantize_narrow", "astype zstd order C"),
        ("v3_delta_narrow_files", "delta bytes(little)"),
        ("v3_chain_files", "fixedscaleoffset delta bytes(little) shuffle fletcher32 zstd adler32"),
        ("v3_shuffle_shards", "sharding_indexed[bytes(little) shuffle zstd](index at end, crc32c)"),
    ] {
        assert_eq!(codecs_of(&fixtures::store(name).uri), says, "{name}");
    }
}

#[test]
fn a_flipped_byte_under_any_checksum_is_named() {
    let scratch = Scratch::new();
    for (name, sum) in [
        ("v2_crc32_start", "crc32"),
        ("v2_crc32_end", "crc32"),
        ("v3_crc32c_start_behind_files", "crc32c"),
        ("v2_fletcher32", "fletcher32"),
        ("v2_hdf5", "fletcher32"),
        ("v3_adler32_end_behind_files", "adler32"),
        ("v3_fletcher32_default_behind_files", "fletcher32"),
    ] {
        let store = fixtures::store(name);
        let folder = scratch.copy_of(store, name);
        let mut files = data_files(&folder);
        files.sort();
        let bytes = fs::read(&files[0]).unwrap();
        for at in [0, 3, 4, bytes.len() / 2, bytes.len() - 5, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            fs::write(&files[0], &damaged).unwrap();
            let first = vec![0; store.image.shape.len()];
            let span = (first.clone(), first.iter().map(|_| 1).collect());
            let job = Job::failing(folder.to_str().unwrap(), span, Status::Decode);
            let loader = open(&config(store.image.dtype, &job.extents(), 1));
            let (_, failure) = first_failure(&loader, &[job]);
            assert_eq!(failure.status, Status::Decode, "{name} at {at}: {failure}");
            let text = failure.text.as_str();
            let is_named = text.contains(&format!("chunk {sum} mismatch: stored 0x"));
            assert!(is_named, "{name} at {at}: {text}");
        }
    }
}

#[test]
fn a_float_that_fits_no_integer_is_refused_where_numpy_leaves_it_to_the_machine() {
    let scratch = Scratch::new();
    let store = fixtures::store("v2_astype_i64_of_f64");
    let folder = scratch.copy_of(store, "nan");
    let mut files = data_files(&folder);
    files.sort();
    let mut bytes = fs::read(&files[0]).unwrap();
    bytes[8..16].copy_from_slice(&f64::NAN.to_le_bytes());
    fs::write(&files[0], bytes).unwrap();
    let span = (vec![0, 0], vec![1, 1]);
    let job = Job::failing(folder.to_str().unwrap(), span, Status::Decode);
    let loader = open(&config(Dtype::I64, &[1, 1], 1));
    let (_, failure) = first_failure(&loader, &[job]);
    let says = "filter astype: NaN does not fit the type that it decodes to";
    assert!(failure.text.as_str().contains(says), "{failure}");
}

#[test]
fn the_cap_on_chunks_counts_what_filters_make_of_them() {
    // 72 elements of one byte, which are four in the file.
    let store = fixtures::store("v2_delta_wide");
    let job = Job::of(store, whole(store), Dtype::U8);
    let mut config = config(Dtype::U8, &job.extents(), 1);
    config.max_chunk_uncompressed_bytes = 4 * 72 - 1;
    let loader = open(&config);
    let (_, failure) = first_failure(&loader, &[Job { want: Err(Status::Budget), ..job.clone() }]);
    let says = "a chunk of 288 bytes as its filters widen it exceeds max_chunk_uncompressed_bytes";
    assert!(failure.text.as_str().contains(says), "{failure}");
    let mut scratch = vec![0; SCRATCH_BYTES];
    loader::config_fit(&mut config, &[&store.uri], &mut scratch)
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(config.max_chunk_uncompressed_bytes, 288);
    stream(&config, &[job]);
}

/// The text with which array_info and a stream refuse a uri.
fn refusal(uri: &str) -> String {
    let mut scratch = vec![0; SCRATCH_BYTES];
    let told = loader::array_info(uri, &mut scratch).err().unwrap_or_else(|| panic!("{uri}"));
    let loader: Loader = open(&config(Dtype::U8, &[1], 1));
    let job = Job::failing(uri, (vec![0], vec![1]), told.status);
    let (_, failure) = first_failure(&loader, &[job]);
    assert_eq!((failure.status, told.status), (Status::NotFound, Status::NotFound), "{failure}");
    assert!(failure.text.as_str().contains(told.text.as_str()), "{failure} for {told}");
    told.text.as_str().to_string()
}

#[test]
fn what_is_no_zarr_array_is_called_what_it_is() {
    let scratch = Scratch::new();
    for (name, start, says) in [
        ("a.zarr.zip", &b"PK\x03\x04\x14\0\0\0\0\0"[..], "is a zip file: unpack it"),
        ("a.numpy", b"\x93NUMPY\x01\0v\0", "is a .npy file: give it a name that ends so"),
        ("a.h5", b"\x89HDF\r\n\x1a\n", "is an HDF5 file: convert it"),
        ("a.nc", b"CDF\x01\0\0\0\0", "is a netCDF file: convert it"),
        ("a.tif", b"II*\0\x08\0\0\0", "is a TIFF file: convert it"),
        ("b.tif", b"MM\0+\0\x08\0\0", "is a TIFF file: convert it"),
        ("a.txt", b"text", "is a file, not the folder of an array"),
        ("empty", b"", "is a file, not the folder of an array"),
    ] {
        fs::write(scratch.path(name), start).unwrap();
        let text = refusal(&scratch.uri(name));
        assert!(text.contains(name) && text.contains(says), "{text}");
    }
    for (name, file, says) in [
        ("n5", "attributes.json", "is an N5 folder"),
        ("precomputed", "info", "is a neuroglancer precomputed folder"),
        ("icechunk", "refs/branch.main/ref.json", "is an icechunk repository"),
        ("icechunk2", "repo", "is an icechunk repository"),
        ("other", "data", "no such file, nor .zarray or .zgroup next to it"),
    ] {
        let path = scratch.path(name).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
        let text = refusal(&scratch.uri(name));
        assert!(text.contains(name) && text.contains(says), "{text}");
    }
    let text = refusal("~/data/a.zarr");
    assert!(text.contains("~ is expanded by a shell, not here: write the whole path"), "{text}");
}

#[test]
fn attributes_that_are_not_finite_stand_in_nobodys_way() {
    // The groups that hold the arrays of xarray_v2/t and xarray_v3/t.
    for version in [2, 3] {
        let store = fixtures::store(&format!("xarray_v{version}/t"));
        let group = store.uri.strip_suffix("/t").unwrap();
        let mut scratch = vec![0; SCRATCH_BYTES];
        let failure = loader::array_info(group, &mut scratch).err().expect("a group");
        assert_eq!(failure.status, Status::NotFound);
        let text = failure.text.as_str();
        assert!(
            text.contains("is a group, name one of its arrays: ") && text.contains('t'),
            "{text}"
        );
        let times = format!("{group}/y");
        let span = (vec![0], vec![2]);
        let hours = [0i64, 1].map(i64::to_le_bytes).concat();
        stream(&config(Dtype::I64, &[2], 1), &[Job::new(&times, span, hours)]);
    }
}
