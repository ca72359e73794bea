//! .npy files of structured elements as numpy writes them (tests/data/make_npy_structs.py): each of
//! their fields by its name, and small ones as raw bytes.

use crate::common::drive::{Job, config, stream};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::npy;
use std::fs;
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn stores() -> Vec<Store> {
    let stores = fixtures::apart("npy_structs");
    assert_eq!(stores.len(), 27);
    stores
}

fn root() -> String {
    stores()[0].uri.rsplit_once('/').unwrap().0.to_string()
}

fn config_of(dtype: Dtype, store: &Store, span: &(Vec<i64>, Vec<i64>)) -> Config {
    let extents: Vec<u64> =
        span.0.iter().zip(&span.1).map(|(begin, end)| (end - begin) as u64).collect();
    let bytes = if dtype == Dtype::Raw { store.image.fill.len() } else { 0 };
    Config { dtype_bytes: bytes as u32, ..config(dtype, &extents, 1) }
}

#[test]
fn fields_and_whole_elements_of_npy_files_are_those_of_numpy() {
    for store in stores() {
        let (dtype, shape) = (store.image.dtype, store.image.shape.clone());
        let last: Vec<i64> = shape.iter().map(|extent| *extent as i64).collect();
        let inner = last.iter().map(|extent| extent - 1).collect();
        for span in [(vec![0, 0], last.clone()), (vec![2, 1], inner), (vec![4, 3], vec![5, 4])] {
            for (map_uncompressed, most) in [(0, 1 << 20), (1, 1 << 20), (0, 100), (0, 9000)] {
                let job = Job::of(&store, span.clone(), dtype);
                let max_chunk_uncompressed_bytes = most;
                let own = config_of(dtype, &store, &span);
                stream(&Config { map_uncompressed, max_chunk_uncompressed_bytes, ..own }, &[job]);
            }
            if matches!(dtype, Dtype::I32 | Dtype::F64 | Dtype::U16) {
                let job = Job::of(&store, span.clone(), Dtype::F32);
                stream(&config_of(Dtype::F32, &store, &span), &[job]);
            }
        }
    }
}

/// The description of a uri by array_info.
fn asked(uri: &str) -> Result<String, (Status, String)> {
    let mut scratch = vec![0; SCRATCH_BYTES];
    let found = loader::array_info(uri, &mut scratch);
    let text = |bytes: &[core::ffi::c_char]| -> String {
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    };
    found
        .map(|info| text(&info.dtype_name))
        .map_err(|failure| (failure.status, failure.text.as_str().to_string()))
}

#[test]
fn array_info_names_the_type_of_a_field_of_a_file() {
    for (uri, dtype) in [
        ("narrow.npy?field=b", "<f8"),
        ("big.npy?field=a", ">i4"),
        ("small.npy", "|V12"),
        ("wide.npy?field=pair", "|V6"),
        ("wide.npy?field=half", "<f2"),
    ] {
        let found = asked(&format!("{}/{uri}", root()));
        assert_eq!(found.as_deref(), Ok(dtype), "{uri}");
        assert_eq!(asked(&format!("file://{}/{uri}", root())), found);
    }
}

#[test]
fn what_names_no_field_of_a_file_is_refused_with_the_list() {
    let one = "is not one value of up to 16 bytes, but of";
    let structured = "structured elements above 65535 bytes, of objects, or none";
    for (uri, status, says) in [
        ("narrow.npy?field=d", Status::Invalid, "there is no field \"d\", only [('a', '<i4'), "),
        ("padded.npy?field=", Status::Invalid, "there is no field \"\", only [('c', '|u1'), "),
        ("wide.npy", Status::Unsupported, "bytes: name one of its fields, ?field=.. of "),
        ("wide.npy?field=a title", Status::Invalid, "there is no field \"a title\""),
        ("wide.npy?field=many", Status::Unsupported, one),
        ("wide.npy?field=one", Status::Unsupported, one),
        ("wide.npy?field=name", Status::Unsupported, one),
        ("wide.npy?field=deep", Status::Unsupported, one),
        ("objects.npy?field=a", Status::Unsupported, structured),
        ("objects.npy", Status::Unsupported, structured),
        ("absent.npy?field=a", Status::NotFound, "absent.npy: "),
        ("n_*.npy?field=a", Status::Unsupported, "numbered files have no fields"),
        ("narrow.npy?field=a#cf=1", Status::Unsupported, "leave out #cf=1"),
    ] {
        let (found, text) = asked(&format!("{}/{uri}", root())).expect_err(uri);
        assert!(found == status && text.contains(says), "{uri}: {found}: {text}");
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("x.npy"), npy::file("<u2", false, &[2], &[0; 4])).unwrap();
    let (found, text) = asked(&scratch.uri("x.npy?field=a")).unwrap_err();
    assert!(found == Status::Invalid && text.contains("leave out ?field="), "{found}: {text}");
    fs::copy(format!("{}/small.npy", root()), scratch.path("n_0.npy")).unwrap();
    let (found, text) = asked(&scratch.uri("n_*.npy")).unwrap_err();
    let says = "numbered files have no structured elements";
    assert!(found == Status::Unsupported && text.contains(says), "{found}: {text}");
}
