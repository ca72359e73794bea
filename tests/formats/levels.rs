//! Levels of images by number and by scale: the same elements as of the array that the level is,
//! and the same array.

use crate::common::drive::{self, PATIENCE_NS};
use crate::common::fixtures::{self, Scratch};
use crate::common::hook::with_hook;
use serde_json::Value;
use std::fs;
use wavetrain::config::*;
use wavetrain::loader::{self, Failure, Loader, Pop, Request, SCRATCH_BYTES, array_info};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// The first elements of an array, two along each axis or as many as it has, as f32.
fn pop(loader: &Loader, uri: &str, shape: &[u64]) -> Result<Vec<u8>, Failure> {
    let end: Vec<i64> = shape.iter().map(|extent| (*extent).min(2) as i64).collect();
    let request = Request { uri, begin: &vec![0; shape.len()], end: &end, tag: 3 };
    assert_eq!(loader.push(&[request], PATIENCE_NS)?, 1);
    match loader.pop(PATIENCE_NS)? {
        Pop::Batch(batch) => Ok(batch.data().to_vec()),
        _ => panic!("no batch"),
    }
}

fn config(shape: &[u64]) -> Config {
    let sample: Vec<u64> = shape.iter().map(|extent| (*extent).min(2)).collect();
    drive::config(Dtype::F32, &sample, 1)
}

/// Every level of an image of other people's: uri of the image, number, path, scale.
fn each_level(mut each: impl FnMut(&str, usize, &str, &[f64])) {
    for (uri, group) in fixtures::groups() {
        for (number, level) in group["levels"].as_array().into_iter().flatten().enumerate() {
            let scale = level["scale"].as_array().unwrap().iter();
            let scale: Vec<f64> = scale.map(|scale| scale.as_f64().unwrap()).collect();
            each(&uri, number, level["path"].as_str().unwrap(), &scale);
        }
    }
}

fn shape_of(uri: &str) -> Vec<u64> {
    let mut block = vec![0; SCRATCH_BYTES];
    let info = array_info(uri, &mut block).unwrap_or_else(|failure| panic!("{uri}: {failure}"));
    info.shape[..info.rank as usize].to_vec()
}

#[test]
fn a_level_is_the_array_that_the_image_says() {
    let mut seen = 0;
    each_level(|uri, number, path, scale| {
        let plain = format!("{uri}/{path}");
        let shape = shape_of(&plain);
        for backend in [config(&shape), with_hook(config(&shape))] {
            let loader = drive::open(&backend);
            let wanted = pop(&loader, &plain, &shape).unwrap();
            let list = scale.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
            for selection in [format!("level={number}"), format!("scale={list}")] {
                for group in [uri.to_string(), format!("{uri}/")] {
                    let uri = format!("{group}#{selection}");
                    // Before version 0.4 nobody said scales.
                    if selection.starts_with('s') && uri.contains("from_specification") {
                        let refused = pop(&loader, &uri, &shape).unwrap_err();
                        assert_eq!(refused.status, Status::Unsupported, "{refused}");
                        loader.reset().unwrap();
                        continue;
                    }
                    let got = pop(&loader, &uri, &shape).unwrap_or_else(|why| panic!("{why}"));
                    assert_eq!(got, wanted, "{uri}");
                    if backend.files.read.is_none() {
                        assert_eq!(shape_of(&uri), shape);
                    }
                    seen += 1;
                }
            }
        }
    });
    assert!(seen > 60, "{seen}");
}

#[test]
fn other_spellings_of_an_array_are_the_same_array() {
    let uri = fixtures::group_uri("ome_zarr_0.5");
    let shape = shape_of(&format!("{uri}/s0"));
    let kept = Config { chunk_cache_bytes: 8 << 20, ..config(&shape) };
    let loader = drive::open(&kept);
    for spelling in ["/s0", "#level=0", "#scale=0.5,0.25,0.125", "/#level=0"] {
        pop(&loader, &format!("{uri}{spelling}"), &shape).unwrap();
    }
    pop(&loader, &format!("file://{uri}#level=0"), &shape).unwrap();
    let stats = loader.stats().unwrap();
    let decoded: u64 = stats.chunks_decoded.iter().sum();
    assert!(stats.chunk_cache_hits == 4 * decoded, "{} {decoded}", stats.chunk_cache_hits);
}

#[test]
fn a_cache_of_one_array_suffices_for_a_level() {
    let uri = fixtures::group_uri("ome_zarr_0.4");
    let shape = shape_of(&format!("{uri}/s1"));
    let loader = drive::open(&Config { n_array_meta_cache: 1, ..config(&shape) });
    let wanted = pop(&loader, &format!("{uri}/s1"), &shape).unwrap();
    for _ in 0..3 {
        assert_eq!(pop(&loader, &format!("{uri}#level=1"), &shape).unwrap(), wanted);
    }
}

#[test]
fn a_mark_in_a_path_that_is_there_is_a_part_of_it() {
    let scratch = Scratch::new();
    let store = fixtures::all().iter().find(|store| store.image.dtype == Dtype::U16).unwrap();
    for name in ["a#level=0", "b?c#d", "#"] {
        scratch.copy_of(store, name);
        let uri = scratch.uri(name);
        let shape = shape_of(&uri);
        assert_eq!(shape, shape_of(&store.uri));
        let loader = drive::open(&config(&shape));
        let wanted = pop(&loader, &store.uri, &shape).unwrap();
        assert_eq!(pop(&loader, &uri, &shape).unwrap(), wanted, "{name}");
    }
}

#[test]
fn what_a_group_does_not_have_is_refused_by_name() {
    let image = fixtures::group_uri("ome_zarr_0.5");
    let plain = fixtures::group_uri("plain_3");
    let mut block = vec![0; SCRATCH_BYTES];
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("none")).unwrap();
    for (uri, status, text) in [
        (format!("{image}#level=2"), Status::NotFound, "has no level 2, there are 2"),
        (format!("{image}#scale=0.1,0.1,0.1"), Status::NotFound, "no level is as fine as"),
        (format!("{image}#scale=1,1"), Status::Unsupported, "a number for each axis"),
        (format!("{image}#levels=1"), Status::Invalid, "'#levels=1' is not understood"),
        (format!("{image}#"), Status::Invalid, "'#' is not understood"),
        (format!("{image}/s0#level=0"), Status::Invalid, "is an array: leave out"),
        (format!("{plain}#level=0"), Status::NotFound, "is not an image with levels"),
        (format!("{image}x#level=0"), Status::NotFound, "no such file"),
        (format!("{}#level=0", scratch.uri("none")), Status::NotFound, "no such file"),
    ] {
        let told = array_info(&uri, &mut block).err().expect("it is refused");
        assert!(told.status == status && told.text.as_str().contains(text), "{uri}: {told}");
        let loader = drive::open(&drive::config(Dtype::F32, &[2], 1));
        let failure = pop(&loader, &uri, &[2]).unwrap_err();
        assert!(failure.status == status && failure.text.as_str().contains(text), "{failure}");
        let found = loader::node_info(&uri, &mut block).err().expect("it is refused");
        assert_eq!(found.status, status);
    }
}

#[test]
fn a_level_whose_array_is_gone_says_which() {
    let scratch = Scratch::new();
    let ome: Value = serde_json::json!({"version": "0.5", "multiscales": [{
        "axes": [{"name": "x", "type": "space"}], "datasets": [{"path": "full/0"}]}]});
    let group = serde_json::json!({"zarr_format": 3, "node_type": "group",
        "attributes": {"ome": ome}});
    fs::create_dir(scratch.path("image")).unwrap();
    fs::write(scratch.path("image/zarr.json"), group.to_string()).unwrap();
    let loader = drive::open(&drive::config(Dtype::F32, &[2], 1));
    let failure = pop(&loader, &scratch.uri("image#level=0"), &[2]).unwrap_err();
    assert_eq!(failure.status, Status::NotFound);
    assert!(failure.text.as_str().contains("image/full/0: no such file or folder"), "{failure}");
}

/// An image of one level along one axis: four elements, in the folder "0".
fn write_image(folder: &str) {
    let ome = serde_json::json!({"version": "0.5", "multiscales": [{
        "axes": [{"name": "x", "type": "space"}],
        "datasets": [{"path": "0",
            "coordinateTransformations": [{"type": "scale", "scale": [1.0]}]}]}]});
    let group = serde_json::json!({"zarr_format": 3, "node_type": "group",
        "attributes": {"ome": ome}});
    let array = serde_json::json!({"zarr_format": 3, "node_type": "array", "shape": [4],
        "data_type": "uint16", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]});
    fs::write(format!("{folder}/zarr.json"), group.to_string()).unwrap();
    fs::create_dir_all(format!("{folder}/0/c")).unwrap();
    fs::write(format!("{folder}/0/zarr.json"), array.to_string()).unwrap();
    fs::write(format!("{folder}/0/c/0"), [7, 0, 9, 0, 11, 0, 13, 0]).unwrap();
}

/// The longest path of a file: what the system takes, the NUL apart.
const PATH_BYTES: usize = 4095;

#[test]
fn a_level_opens_however_long_its_path_is() {
    let longest = PATH_BYTES - "/0/zarr.json".len();
    for bytes in [400, 490, 500, 508, 509, 510, 511, 512, 513, 600, 1200, 4000, longest] {
        let scratch = Scratch::new();
        let image = scratch.deep(bytes);
        write_image(&image);
        // A hook answers for itself if the system does not take a path.
        let hooked = Some(with_hook(config(&[4]))).filter(|_| bytes < longest);
        for backend in [Some(config(&[4])), hooked].into_iter().flatten() {
            let loader = drive::open(&backend);
            let wanted = pop(&loader, &format!("{image}/0"), &[4]).unwrap();
            assert_eq!(wanted, [7f32, 9.0].map(f32::to_ne_bytes).concat());
            for selection in ["#level=0", "#scale=1"] {
                let uri = format!("{image}{selection}");
                let got = pop(&loader, &uri, &[4]).unwrap_or_else(|why| panic!("{bytes}: {why}"));
                assert_eq!(got, wanted);
                assert_eq!(shape_of(&uri), [4]);
            }
        }
    }
}

#[test]
fn a_selection_that_makes_a_name_too_long_is_no_part_of_it() {
    let scratch = Scratch::new();
    for bytes in [240, 246, 247, 255] {
        let image = scratch.uri(&"n".repeat(bytes));
        fs::create_dir(&image).unwrap();
        write_image(&image);
        let loader = drive::open(&config(&[4]));
        for selection in ["#level=0", "#scale=1.00000000000000"] {
            let uri = format!("{image}{selection}");
            let got = pop(&loader, &uri, &[4]).unwrap_or_else(|why| panic!("{bytes}: {why}"));
            assert_eq!(got, [7f32, 9.0].map(f32::to_ne_bytes).concat());
            assert_eq!(shape_of(&uri), [4]);
        }
    }
}

#[test]
fn a_level_whose_path_no_uri_can_have_is_refused() {
    let scratch = Scratch::new();
    let image = scratch.deep(3900);
    write_image(&image);
    let document = fs::read_to_string(format!("{image}/zarr.json")).unwrap();
    for (bytes, is_refused) in [(194, false), (195, true), (1000, true)] {
        let path = format!(r#""path":"{}""#, "p".repeat(bytes));
        let longer = document.replace(r#""path":"0""#, &path);
        assert_ne!(longer, document);
        fs::write(format!("{image}/zarr.json"), longer).unwrap();
        let uri = format!("{image}#level=0");
        let told = array_info(&uri, &mut vec![0; SCRATCH_BYTES]).err().expect("it is refused");
        let failure = pop(&drive::open(&config(&[4])), &uri, &[4]).unwrap_err();
        for failure in [told, failure] {
            // The system refuses the shortest path, and wavetrain the longer ones.
            let status = if is_refused { Status::Unsupported } else { Status::Io };
            assert_eq!(failure.status, status, "{failure}");
            let text = "the path of its level has more than 4095 bytes";
            assert_eq!(failure.text.as_str().contains(text), is_refused, "{failure}");
            assert!(failure.text.as_str().contains("d#level=0") || !is_refused, "{failure}");
        }
    }
}
