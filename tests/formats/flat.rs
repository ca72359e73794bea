//! .npy and raw files that are damaged, gone or another by now: refused by name, and nothing wrong
//! is ever delivered. That whole ones are right is in `samples`.

use crate::common::drive::{self, PATIENCE_NS};
use crate::common::fixtures::Scratch;
use crate::common::hook::{SCHEME, with_hook};
use crate::common::npy;
use std::fs;
use wavetrain::config::*;
use wavetrain::loader::{Failure, Loader, Pop, Request, SCRATCH_BYTES, array_info};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// The file of 64 x 100 u16, element n of which is n.
fn npy() -> Vec<u8> {
    let data: Vec<u8> = (0..6400u16).flat_map(u16::to_le_bytes).collect();
    npy::file("<u2", false, &[64, 100], &data)
}

fn config() -> Config {
    // Small chunks, so that a box lies in several.
    let caps = (1 << 10, 40 << 20);
    Config {
        max_chunk_uncompressed_bytes: caps.0,
        max_host_memory_bytes: caps.1,
        ..drive::config(Dtype::U16, &[2, 3], 1)
    }
}

/// Rows `row` and the next, columns 5 to 7.
fn pop(loader: &Loader, uri: &str, row: i64) -> Result<Vec<u16>, Failure> {
    let request = Request { uri, begin: &[row, 5], end: &[row + 2, 8], tag: 9 };
    assert_eq!(loader.push(&[request], PATIENCE_NS)?, 1);
    match loader.pop(PATIENCE_NS)? {
        Pop::Batch(batch) => {
            Ok(batch.data().chunks(2).map(|b| u16::from_ne_bytes([b[0], b[1]])).collect())
        }
        _ => panic!("no batch"),
    }
}

fn wanted(row: u16) -> Vec<u16> {
    [0, 1].iter().flat_map(|down| (5..8).map(move |x| (row + down) * 100 + x)).collect()
}

/// Status and text with which a file of these bytes is refused, by array_info and by a stream.
fn refused(bytes: &[u8]) -> (Status, String) {
    let (scratch, mut block) = (Scratch::new(), vec![0; SCRATCH_BYTES]);
    fs::write(scratch.path("x.npy"), bytes).unwrap();
    let uri = scratch.uri("x.npy");
    let told = array_info(&uri, &mut block).err().expect("it is refused");
    let failure = pop(&drive::open(&config()), &uri, 0).expect_err("it is refused");
    assert_eq!((failure.status, failure.tag), (told.status, 9), "{failure} {told}");
    assert!(failure.text.as_str().contains("x.npy"), "{failure}");
    (told.status, told.text.as_str().to_string())
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_header_is_refused_or_reads_the_same_elements() {
    let whole = npy();
    for limit in (0..128).chain([129, 6000, whole.len() - 1]) {
        let (status, text) = refused(&whole[..limit]);
        assert_eq!(status, Status::Decode, "{limit}: {text}");
    }
    let scratch = Scratch::new();
    let loader = drive::open(&Config { on_error: ON_ERROR_SKIP, ..config() });
    let mut taken = 0;
    for at in 0..128 * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let name = format!("{at}.npy");
        fs::write(scratch.path(&name), bytes).unwrap();
        let got = pop(&loader, &scratch.uri(&name), 3).unwrap();
        // Another type of two bytes, a shorter first axis, or a blank that was another.
        taken += usize::from(got == wanted(3));
    }
    assert!(taken > 0 && taken < 400, "{taken}");
}

#[test]
fn a_file_that_is_cut_replaced_or_gone_meanwhile_fails_by_name() {
    for (what, status, text) in [
        ("cut", Status::Decode, "the file has 8000 bytes, its shape needs"),
        ("replaced", Status::Decode, "does not begin as a .npy file does"),
        ("gone", Status::Io, "no such file: the array was there and is gone"),
    ] {
        let scratch = Scratch::new();
        let (path, uri) = (scratch.path("x.npy"), scratch.uri("x.npy"));
        fs::write(&path, npy()).unwrap();
        // One file is remembered, so that another between the two makes it be looked at again.
        let loader = drive::open(&Config { n_chunk_layout_cache: 1, ..config() });
        assert_eq!(pop(&loader, &uri, 3).unwrap(), wanted(3));
        fs::write(scratch.path("y.npy"), npy()).unwrap();
        assert_eq!(pop(&loader, &scratch.uri("y.npy"), 60).unwrap(), wanted(60));
        match what {
            "cut" => fs::File::options().write(true).open(&path).unwrap().set_len(8000).unwrap(),
            "gone" => fs::remove_file(&path).unwrap(),
            _ => fs::write(&path, vec![7; npy().len()]).unwrap(),
        }
        let failure = pop(&loader, &uri, 60).expect_err(what);
        assert_eq!((failure.status, failure.tag), (status, 9), "{what}: {failure}");
        assert!(failure.text.as_str().contains("x.npy"), "{what}: {failure}");
        assert!(failure.text.as_str().contains(text), "{what}: {failure}");
        // Reset reads the header anew.
        let longer: Vec<u8> = (0..6600u16).flat_map(u16::to_le_bytes).collect();
        fs::write(&path, npy::file("<u2", false, &[66, 100], &longer)).unwrap();
        loader.reset().unwrap();
        assert_eq!(pop(&loader, &uri, 64).unwrap(), wanted(64), "{what}");
    }
}

#[test]
fn a_uri_that_names_no_such_file_is_not_found() {
    let scratch = Scratch::new();
    let mut block = vec![0; SCRATCH_BYTES];
    fs::write(scratch.path("short.bin"), [0; 10]).unwrap();
    for (uri, status, text) in [
        (scratch.uri("none.npy"), Status::NotFound, "none.npy: no such file"),
        (format!("raw:{}?dtype=u8&shape=3", scratch.uri("none")), Status::NotFound, "no such file"),
        (format!("raw:{}?dtype=u8&shape=3", scratch.uri("")), Status::Io, "is a folder"),
        (
            format!("raw:{}?dtype=u8&shape=3,4", scratch.uri("short.bin")),
            Status::Decode,
            "the file has 10 bytes, its shape needs 12",
        ),
        (format!("raw:{}", scratch.uri("short.bin")), Status::Invalid, "has no dtype and shape"),
    ] {
        let told = array_info(&uri, &mut block).err().unwrap_or_else(|| panic!("{uri}"));
        assert_eq!(told.status, status, "{told}");
        assert!(told.text.as_str().contains(text), "{told}");
    }
}

#[test]
fn flat_files_are_read_through_a_hook_and_told_of_by_array_info() {
    let scratch = Scratch::new();
    fs::write(scratch.path("x.npy"), npy()).unwrap();
    let loader = drive::open(&with_hook(config()));
    let hooked = format!("{SCHEME}{}", scratch.uri("x.npy"));
    assert_eq!(pop(&loader, &hooked, 3).unwrap(), wanted(3));
    let raw = format!("raw:{hooked}?dtype=u16&shape=64,100&offset=128");
    assert_eq!(pop(&loader, &raw, 5).unwrap(), wanted(5));
    let mut block = vec![0; SCRATCH_BYTES];
    let info = array_info(&scratch.uri("x.npy"), &mut block).unwrap();
    assert_eq!(
        (info.rank, info.dtype, info.shape[..2].to_vec()),
        (2, Dtype::U16 as u32, vec![64, 100])
    );
    assert_eq!(
        (info.file_shape[..2].to_vec(), info.file_counts[..2].to_vec()),
        (vec![64, 100], vec![1, 1])
    );
    let text = |bytes: &[std::ffi::c_char]| -> String {
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    };
    assert_eq!((text(&info.dtype_name), text(&info.codecs)), ("<u2".into(), "order C".into()));
}
