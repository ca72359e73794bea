//! Folders of numbered .npy files: one array along the first axis, whatever rows each file has; and
//! what is wrong with them. That numpy's own files are read is in `samples`.

use crate::common::drive::{self, Job, PATIENCE_NS};
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::npy;
use std::fs;
use std::time::{Duration, SystemTime};
use wavetrain::abi::ArrayInfo;
use wavetrain::config::*;
use wavetrain::loader::{Failure, Loader, Pop, Request, SCRATCH_BYTES, array_info, config_fit};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// A .npy file of u16 rows of these extents; element n of the array, row-major, is n from `first`.
fn npy(rows: u64, row: &[u64], first: u64, is_fortran: bool) -> Vec<u8> {
    let mut shape = vec![rows];
    shape.extend(row);
    let mut data = Vec::new();
    let count: u64 = shape.iter().product();
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if is_fortran {
        order.reverse();
    }
    for place in 0..count {
        let (mut rest, mut at) = (place, vec![0; shape.len()]);
        for axis in order.iter().rev() {
            at[*axis] = rest % shape[*axis];
            rest /= shape[*axis];
        }
        let number = at.iter().zip(&shape).fold(0, |sum, (at, extent)| sum * extent + at);
        data.extend_from_slice(&((first + number) as u16).to_le_bytes());
    }
    npy::file("<u2", is_fortran, &shape, &data)
}

/// Writes a folder of files with these numbers of rows; how many rows there are.
fn write(scratch: &Scratch, folder: &str, rows: &[u64], row: &[u64], is_fortran: bool) -> u64 {
    let _ = fs::remove_dir_all(scratch.path(folder));
    fs::create_dir(scratch.path(folder)).unwrap();
    let (mut total, width) = (0, row.iter().product::<u64>());
    for (number, count) in rows.iter().enumerate() {
        let file = npy(*count, row, total * width, is_fortran);
        fs::write(scratch.path(&format!("{folder}/part_{number:03}.npy")), file).unwrap();
        total += count;
    }
    total
}

fn config(sample: &[u64], samples: usize) -> Config {
    Config { max_npy_files: 2000, ..drive::config(Dtype::U16, sample, samples) }
}

/// Boxes of an array whose element n is n.
fn jobs(uri: &str, shape: &[u64], sample: &[u64], count: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for number in 0..count {
        let begin: Vec<u64> = (0..shape.len())
            .map(|axis| number * (13 + 8 * axis as u64) % (shape[axis] - sample[axis] + 1))
            .collect();
        let elements: u64 = sample.iter().product();
        let mut want = Vec::new();
        for element in 0..elements {
            let (mut rest, mut at, mut stride) = (element, 0, 1);
            for axis in (0..shape.len()).rev() {
                at += (begin[axis] + rest % sample[axis]) * stride;
                rest /= sample[axis];
                stride *= shape[axis];
            }
            want.extend_from_slice(&(at as u16).to_ne_bytes());
        }
        let begin: Vec<i64> = begin.iter().map(|begin| *begin as i64).collect();
        let end = begin.iter().zip(sample).map(|(begin, extent)| begin + *extent as i64).collect();
        jobs.push(Job::new(uri, (begin, end), want));
    }
    jobs
}

fn info(uri: &str) -> Result<ArrayInfo, Failure> {
    array_info(uri, &mut vec![0; SCRATCH_BYTES])
}

#[test]
fn boxes_over_files_of_any_number_of_rows_are_the_rows_one_behind_the_other() {
    let scratch = Scratch::new();
    for (rows, row) in [
        (&[5, 0, 17, 1, 0, 40, 3][..], &[6, 10][..]),
        (&[1; 60], &[10, 6]),
        (&[0, 0, 64], &[3, 9]),
        (&[70], &[40]),
        (&[33, 31, 2], &[]),
    ] {
        for is_fortran in [false, true] {
            let total = write(&scratch, "d", rows, row, is_fortran);
            let (mut shape, mut sample) = (vec![total], vec![23]);
            shape.extend(row);
            sample.extend(row.iter().map(|extent| extent / 2 + 1));
            let uri = scratch.uri("d");
            // Chunks of some elements, of some rows, of whole files.
            for cap in [16, 300, 1 << 16] {
                for threads in [1, 3] {
                    let config = Config {
                        max_chunk_uncompressed_bytes: cap,
                        n_io_threads: threads,
                        n_decode_threads: threads,
                        ..config(&sample, 3)
                    };
                    assert!(drive::stream(&config, &jobs(&uri, &shape, &sample, 17)) > 0);
                }
            }
            let pumped = Config { thread_mode: THREADS_PUMP, ..config(&sample, 3) };
            drive::stream_as_configured(&pumped, &jobs(&uri, &shape, &sample, 17));
            let found = info(&uri).unwrap();
            assert_eq!(found.shape[..shape.len()], shape);
            let (least, most) = (rows.iter().min().unwrap(), rows.iter().max().unwrap());
            assert_eq!((found.file_shape_min[0], found.file_shape[0]), (*least, *most));
            assert_eq!(found.file_counts[0], rows.len() as u64);
        }
    }
}

#[test]
fn a_folder_its_files_and_its_uri_are_one_array() {
    let scratch = Scratch::new();
    let total = write(&scratch, "d", &[7, 8], &[5], false);
    let spellings = [
        scratch.uri("d"),
        scratch.uri("d/"),
        scratch.uri("d/part_*.npy"),
        format!("file://{}", scratch.uri("d")),
    ];
    let loader = drive::open(&config(&[9, 4], 1));
    for uri in &spellings {
        let all = jobs(uri, &[total, 5], &[9, 4], 3);
        drive::stream(&config(&[9, 4], 1), &all);
        pop(&loader, uri, 0).unwrap();
    }
    // The folder is another name for its files, and so is the file uri, which is the same path.
    assert_eq!(loader.stats().unwrap().array_meta_misses, 1);
}

fn pop(loader: &Loader, uri: &str, row: i64) -> Result<Vec<u16>, Failure> {
    let request = Request { uri, begin: &[row, 0], end: &[row + 9, 4], tag: 9 };
    assert_eq!(loader.push(&[request], PATIENCE_NS)?, 1);
    match loader.pop(PATIENCE_NS)? {
        Pop::Batch(batch) => {
            let words = batch.data().as_chunks::<2>().0;
            Ok(words.iter().map(|bytes| u16::from_ne_bytes(*bytes)).collect())
        }
        _ => panic!("no batch"),
    }
}

#[test]
fn folders_share_the_table_and_give_their_rows_up_for_each_other() {
    let scratch = Scratch::new();
    let rows = [3, 4, 5, 6, 7];
    for folder in ["a", "b", "c"] {
        write(&scratch, folder, &rows, &[5], false);
    }
    for (most, cached) in [(5, 16), (9, 16), (10, 16), (15, 16), (10, 1)] {
        let config =
            Config { max_npy_files: most, n_array_meta_cache: cached, ..config(&[9, 4], 2) };
        let uris = ["a", "b", "c", "a", "c", "b", "b", "a"].map(|folder| scratch.uri(folder));
        let all: Vec<Job> =
            (0..12).flat_map(|turn| jobs(&uris[turn % uris.len()], &[25, 5], &[9, 4], 2)).collect();
        drive::stream(&config, &all);
    }
    let small = Config { max_npy_files: 4, ..config(&[9, 4], 1) };
    let failure = pop(&drive::open(&small), &scratch.uri("a"), 0).unwrap_err();
    assert_eq!((failure.status, failure.tag), (Status::Budget, 9), "{failure}");
    assert!(failure.text.as_str().contains("5 files, max_npy_files = 4: raise it"), "{failure}");
    let mut fitted = Config { max_npy_files: 0, ..small };
    let uris = ["a", "b"].map(|folder| scratch.uri(folder));
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    config_fit(&mut fitted, &uris, &mut vec![0; SCRATCH_BYTES]).unwrap();
    assert_eq!(fitted.max_npy_files, 10);
}

#[test]
fn every_file_is_looked_at_and_the_first_that_is_wrong_is_named() {
    let scratch = Scratch::new();
    let good = npy(4, &[5], 0, false);
    let header = |from: &str, to: &str| {
        let text = String::from_utf8_lossy(&good[10..]).into_owned();
        let length = text.find('\n').unwrap() + 1;
        let header = text[..length].replace(from, to);
        let mut file = good[..8].to_vec();
        file.extend_from_slice(&(header.len() as u16).to_le_bytes());
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&good[10 + length..]);
        file
    };
    let cases: Vec<(Vec<u8>, Status, &str)> = vec![
        (header("<u2", "<i2"), Status::Decode, "elements of i16, and the first file has u16"),
        (header("<u2", ">u2"), Status::Decode, "u16 (big-endian), and the first file has u16 (l"),
        (header("(4, 5, )", "(5, 4, )"), Status::Decode, "has shape [5, 4], and the first file ["),
        (header("(4, 5, )", "(20, )"), Status::Decode, "has shape [20], and the first file [4, 5]"),
        (header("False", "True"), Status::Decode, "another order (fortran_order)"),
        (header("(4, 5, )", "(5, 5, )"), Status::Decode, "its shape needs"),
        (good[..good.len() - 1].to_vec(), Status::Decode, "its shape needs"),
        (good[..40].to_vec(), Status::Decode, "ends inside of the .npy header"),
        (b"PK\x03\x04....".to_vec(), Status::Decode, "does not begin as a .npy file does"),
        (Vec::new(), Status::Decode, "does not begin as a .npy file does"),
    ];
    for (bytes, status, text) in cases {
        write(&scratch, "d", &[4; 700], &[5], false);
        for number in [300, 699] {
            fs::write(scratch.path(&format!("d/part_{number}.npy")), &bytes).unwrap();
        }
        let uri = scratch.uri("d");
        let failure = pop(&drive::open(&config(&[9, 4], 1)), &uri, 0).unwrap_err();
        let told = info(&uri).err().expect("it is refused");
        for failure in [failure, told] {
            assert_eq!(failure.status, status, "{failure}");
            let named = failure.text.as_str();
            assert!(named.contains("d/part_300.npy") && named.contains(text), "{failure}");
        }
    }
    write(&scratch, "d", &[4; 20], &[5], false);
    fs::remove_file(scratch.path("d/part_007.npy")).unwrap();
    let failure = pop(&drive::open(&config(&[9, 4], 1)), &scratch.uri("d"), 0).unwrap_err();
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    assert!(failure.text.as_str().contains("d/part_007.npy: is not there"), "{failure}");
    fs::create_dir(scratch.path("d/part_007.npy")).unwrap();
    let failure = pop(&drive::open(&config(&[9, 4], 1)), &scratch.uri("d"), 0).unwrap_err();
    assert_eq!(failure.status, Status::Io, "{failure}");
    assert!(failure.text.as_str().contains("part_007.npy: is a folder"), "{failure}");
}

#[test]
fn what_is_no_such_folder_is_called_what_it_is() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("empty")).unwrap();
    fs::write(scratch.path("empty/a.npy"), npy(1, &[], 0, false)).unwrap();
    write(&scratch, "two", &[4, 4], &[5], false);
    fs::write(scratch.path("two/other_0.npy"), npy(4, &[5], 0, false)).unwrap();
    fs::create_dir(scratch.path("scalars")).unwrap();
    let mut scalar = npy(1, &[], 7, false);
    let at = scalar.windows(5).position(|text| text == b"(1, )").unwrap();
    scalar[at..at + 5].copy_from_slice(b"()   ");
    fs::write(scratch.path("scalars/0.npy"), scalar).unwrap();
    for (name, status, text) in [
        ("none", Status::NotFound, "no such file or folder"),
        ("empty", Status::NotFound, "it is not a zarr array"),
        ("none/x_*.npy", Status::NotFound, "its folder: no such file"),
        ("empty/x_*.npy", Status::NotFound, "there is no such file"),
        ("two", Status::Invalid, "other_*.npy and part_*.npy: name one of them"),
        ("scalars", Status::Unsupported, "has no rows"),
    ] {
        let uri = scratch.uri(name);
        let failure = pop(&drive::open(&config(&[9, 4], 1)), &uri, 0).unwrap_err();
        let told = info(&uri).err().expect("it is refused");
        for failure in [failure, told] {
            assert_eq!(failure.status, status, "{name}: {failure}");
            assert!(failure.text.as_str().contains(text), "{name}: {failure}");
        }
    }
    let one = scratch.uri("two/part_*.npy");
    drive::stream(&config(&[3, 4], 1), &jobs(&one, &[8, 5], &[3, 4], 4));
    // A hook lists no folders.
    let hooked = with_hook(config(&[9, 4], 1));
    let failure = pop(&drive::open(&hooked), &scratch.uri("two"), 0).unwrap_err();
    assert_eq!(failure.status, Status::NotFound, "{failure}");
}

#[test]
fn a_folder_opens_however_long_its_path_is() {
    let longest = 4095 - "/part_000.npy".len();
    for bytes in [400, 490, 498, 499, 500, 501, 502, 511, 512, 513, 600, 1200, 4000, longest] {
        let scratch = Scratch::new();
        let folder = scratch.deep(bytes);
        for number in 0..2 {
            let file = npy(4, &[5], 20 * number, false);
            fs::write(format!("{folder}/part_{number:03}.npy"), file).unwrap();
        }
        for uri in [folder.clone(), format!("{folder}/part_*.npy")] {
            drive::stream(&config(&[3, 4], 1), &jobs(&uri, &[8, 5], &[3, 4], 4));
            assert_eq!(info(&uri).unwrap_or_else(|why| panic!("{bytes}: {why}")).shape[0], 8);
        }
        // The text names the file that is missing, however long its path is.
        fs::remove_file(format!("{folder}/part_000.npy")).unwrap();
        let failure = info(&folder).err().expect("it is refused");
        assert_eq!(failure.status, Status::NotFound, "{failure}");
        let text = "/part_000.npy: is not there, but files with higher numbers are";
        assert!(failure.text.as_str().contains(text), "{failure}");
        assert!(failure.text.as_str().ends_with("/part_*.npy#first=1"), "{failure}");
    }
}

#[test]
fn a_file_that_changes_or_goes_later_is_never_taken_for_what_it_was() {
    let scratch = Scratch::new();
    let later = SystemTime::now() + Duration::from_secs(100);
    type Change = fn(&Scratch, SystemTime);
    let changes: [(Change, Status, &str); 3] = [
        (
            |scratch, _| fs::remove_file(scratch.path("d/part_001.npy")).unwrap(),
            Status::NotFound,
            "is not there, but files with higher numbers are",
        ),
        (
            |scratch, _| {
                let longer = npy(20, &[5], 500, false);
                fs::write(scratch.path("d/part_001.npy"), longer).unwrap();
            },
            Status::Io,
            "its header is not what it was",
        ),
        (
            |scratch, _| fs::remove_dir_all(scratch.path("d")).unwrap(),
            Status::Io,
            "no such file: the array was there and is gone",
        ),
    ];
    // One that has only another time has the same header, and is read.
    write(&scratch, "d", &[10, 10, 10], &[5], false);
    let loader = drive::open(&config(&[9, 4], 1));
    pop(&loader, &scratch.uri("d"), 0).unwrap();
    let file = fs::File::options().write(true).open(scratch.path("d/part_001.npy"));
    file.unwrap().set_modified(later).unwrap();
    pop(&loader, &scratch.uri("d"), 11).unwrap();
    for (change, status, text) in changes {
        write(&scratch, "d", &[10, 10, 10], &[5], false);
        let loader = drive::open(&config(&[9, 4], 1));
        let uri = scratch.uri("d");
        pop(&loader, &uri, 0).unwrap();
        change(&scratch, later);
        let failure = pop(&loader, &uri, 11).unwrap_err();
        assert_eq!(failure.status, status, "{failure}");
        assert!(failure.text.as_str().contains(text), "{failure}");
    }
}

#[test]
fn a_loader_that_is_reset_while_a_folder_is_loaded_goes_on() {
    let scratch = Scratch::new();
    let total = write(&scratch, "d", &[2; 900], &[5], false);
    let uri = scratch.uri("d");
    for threads in [1, 3] {
        let config = Config { n_io_threads: threads, ..config(&[9, 4], 1) };
        let loader = drive::open(&config);
        for turn in 0..20 {
            let request = Request { uri: &uri, begin: &[0, 0], end: &[9, 4], tag: turn };
            assert_eq!(loader.push(&[request], PATIENCE_NS).unwrap(), 1);
            std::thread::sleep(Duration::from_micros(100 * turn));
            loader.reset().unwrap();
        }
        drive::stream_through(&loader, &config, &jobs(&uri, &[total, 5], &[9, 4], 5), 0);
    }
}
