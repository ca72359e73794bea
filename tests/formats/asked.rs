//! Arrays that the host has (`config.source`): elements, reads and refusals.

use crate::common::drive::{self, Job, PATIENCE_NS};
use crate::common::read_boxes::{Layout, read};
use std::ffi::{CStr, c_char, c_void};
use std::slice;
use std::sync::Mutex;
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, SourceHook, SourceInfo};
use wavetrain::config::*;
use wavetrain::loader::{
    Failure, Loader, Part, Pop, Request, SCRATCH_BYTES, array_info, config_fit_trusting,
};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// What a host has: an array of i32, element n of which is n.
struct Host {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    /// Says nothing or something else instead.
    describe: fn(&mut SourceInfo) -> i64,
    /// Answers in the place of a read from there on.
    read: fn(&[u64]) -> i64,
    /// Every read: from there, to there.
    reads: Mutex<Vec<(Vec<u64>, Vec<u64>)>>,
}

fn numbers(from: *const u64, count: usize) -> Vec<u64> {
    // SAFETY: the library hands as many out as the array has axes.
    unsafe { slice::from_raw_parts(from, count) }.to_vec()
}

impl Host {
    fn new(shape: &[u64], chunk_shape: &[u64]) -> Host {
        Host {
            shape: shape.to_vec(),
            chunk_shape: chunk_shape.to_vec(),
            describe: |_| 0,
            read: |_| 0,
            reads: Mutex::new(Vec::new()),
        }
    }

    fn hook(&self) -> SourceHook {
        unsafe extern "C" fn describe(
            user: *mut c_void,
            name: *const c_char,
            info: *mut SourceInfo,
        ) -> i64 {
            // SAFETY: the hook's contract; the host outlives the loader.
            let (host, name, info) =
                unsafe { (&*user.cast::<Host>(), CStr::from_ptr(name), &mut *info) };
            if name != c"numbers/a?b#c" {
                return FILE_ABSENT;
            }
            assert_eq!(info.struct_size, size_of::<SourceInfo>());
            info.rank = host.shape.len() as u32;
            info.dtype = Dtype::I32 as u32;
            info.shape[..host.shape.len()].copy_from_slice(&host.shape);
            info.chunk_shape[..host.chunk_shape.len()].copy_from_slice(&host.chunk_shape);
            info.fill[..4].copy_from_slice(&(-9i32).to_ne_bytes());
            (host.describe)(info)
        }
        unsafe extern "C" fn read(
            user: *mut c_void,
            _: *const c_char,
            begin: *const u64,
            end: *const u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64 {
            // SAFETY: as above.
            let host = unsafe { &*user.cast::<Host>() };
            let axes = host.shape.len();
            let (begin, end) = (numbers(begin, axes), numbers(end, axes));
            let count: u64 = (0..axes).map(|axis| end[axis] - begin[axis]).product();
            assert_eq!(bytes, 4 * count);
            host.reads.lock().unwrap().push((begin.clone(), end.clone()));
            let answer = (host.read)(&begin);
            if answer != 0 {
                return answer;
            }
            // SAFETY: the target has the bytes.
            let target = unsafe { slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize) };
            for (number, element) in (0..count).zip(target.chunks_exact_mut(4)) {
                let (mut rest, mut at, mut stride) = (number, 0, 1);
                for axis in (0..axes).rev() {
                    let extent = end[axis] - begin[axis];
                    at += (begin[axis] + rest % extent) * stride;
                    rest /= extent;
                    stride *= host.shape[axis];
                }
                element.copy_from_slice(&(at as i32).to_ne_bytes());
            }
            0
        }
        let user = std::ptr::from_ref(self).cast_mut().cast();
        SourceHook { user, describe: Some(describe), read: Some(read), ..SourceHook::NONE }
    }

    fn reads(&self) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut reads = std::mem::take(&mut *self.reads.lock().unwrap());
        reads.sort();
        reads
    }
}

const URI: &str = "hook:numbers/a?b#c";

/// The elements of a box, those outside of the array -9 as pad_value is.
fn wanted(shape: &[u64], begin: &[i64], end: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = begin.to_vec();
    'elements: loop {
        let is_inside = at.iter().zip(shape).all(|(at, extent)| (0..*extent as i64).contains(at));
        let number = at.iter().zip(shape).fold(0, |sum, (at, extent)| sum * *extent as i64 + at);
        bytes.extend_from_slice(&(if is_inside { number as f32 } else { -9.0 }).to_ne_bytes());
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < end[axis] {
                continue 'elements;
            }
            at[axis] = begin[axis];
        }
        return bytes;
    }
}

fn config(host: &Host, sample: &[u64], samples: usize) -> Config {
    let config = drive::config(Dtype::F32, sample, samples);
    Config {
        source: host.hook(),
        pad_mode: PAD_CONSTANT,
        pad_value_set: 1,
        pad_value: -9.0,
        ..config
    }
}

/// Boxes all over an array, some of them reaching out of it.
fn jobs(shape: &[u64], sample: &[u64], count: u64) -> Vec<Job> {
    let corner = |number: u64, axis: usize| {
        let span = shape[axis] + sample[axis] + 2;
        (number * (7 + 4 * axis as u64) % span) as i64 - sample[axis] as i64 + 1
    };
    (0..count)
        .map(|number| {
            let begin: Vec<i64> = (0..shape.len()).map(|axis| corner(number, axis)).collect();
            let end: Vec<i64> =
                begin.iter().zip(sample).map(|(begin, extent)| begin + *extent as i64).collect();
            let want = wanted(shape, &begin, &end);
            Job::new(URI, (begin, end), want)
        })
        .collect()
}

#[test]
fn boxes_of_every_grid_are_the_elements_that_the_host_has() {
    let shape = [23, 17, 31];
    for chunk in [&[0, 0, 0][..], &[4, 8, 16], &[23, 17, 31], &[64, 64, 64], &[1, 1, 31]] {
        let (host, sample) = (Host::new(&shape, chunk), [5, 6, 7]);
        let jobs = jobs(&shape, &sample, 41);
        for threads in [1, 3] {
            for cap in [300, 1 << 16] {
                let is_too_large = chunk.iter().product::<u64>().min(23 * 17 * 31) * 4 > cap;
                if is_too_large {
                    continue;
                }
                let config = Config {
                    n_io_threads: threads,
                    n_decode_threads: threads,
                    max_chunk_uncompressed_bytes: cap,
                    chunk_cache_bytes: if threads == 3 { 1 << 20 } else { 0 },
                    ..config(&host, &sample, 4)
                };
                assert!(drive::stream(&config, &jobs) > 0);
                for (begin, end) in host.reads() {
                    let elements: u64 = begin.iter().zip(&end).map(|(b, e)| e - b).product();
                    assert!(4 * elements <= cap, "{begin:?} {end:?}");
                    let is_cell = (0..3).all(|axis| {
                        let edge = chunk[axis].max(1);
                        chunk[axis] == 0
                            || begin[axis] % edge == 0
                                && end[axis] == shape[axis].min(begin[axis] + edge)
                    });
                    assert!(is_cell, "{begin:?} {end:?} of {chunk:?}");
                }
            }
        }
        for mode in [THREADS_PUMP, THREADS_HOOK] {
            let config = Config { thread_mode: mode, ..config(&host, &sample, 4) };
            let config = if mode == THREADS_HOOK { drive::in_hook_mode(&config) } else { config };
            assert!(drive::stream_as_configured(&config, &jobs) > 0);
        }
    }
}

#[test]
fn an_array_of_no_axes_and_one_of_no_elements_are_read() {
    let scalar = Host::new(&[], &[]);
    let config = drive::config(Dtype::I32, &[1], 1);
    let config = Config { source: scalar.hook(), ..config };
    let want = 0i32.to_ne_bytes().to_vec();
    assert_eq!(drive::stream(&config, &[Job::new(URI, (vec![], vec![]), want)]), 4);
    let empty = Host::new(&[0, 3], &[0, 0]);
    let config = self::config(&empty, &[2, 2], 1);
    let want = wanted(&[0, 3], &[0, 0], &[2, 2]);
    assert_eq!(drive::stream(&config, &[Job::new(URI, (vec![0, 0], vec![2, 2]), want)]), 16);
    assert!(empty.reads().is_empty());
}

fn pop(loader: &Loader, uri: &str, begin: &[i64], end: &[i64]) -> Result<Vec<f32>, Failure> {
    let request = Request { uri, begin, end, tag: 9 };
    assert_eq!(loader.push(&[request], PATIENCE_NS)?, 1);
    match loader.pop(PATIENCE_NS)? {
        Pop::Batch(batch) => {
            let floats = batch.data().as_chunks::<4>().0;
            Ok(floats.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
        }
        _ => panic!("no batch"),
    }
}

#[test]
fn a_box_is_one_read_of_what_it_needs_and_a_chunk_is_read_once_and_kept() {
    let boxes = Host::new(&[100, 100], &[0, 0]);
    let loader = drive::open(&config(&boxes, &[3, 4], 1));
    pop(&loader, URI, &[-1, 98], &[2, 102]).unwrap();
    pop(&loader, URI, &[50, 50], &[53, 54]).unwrap();
    let reads = [(vec![0, 98], vec![2, 100]), (vec![50, 50], vec![53, 54])];
    assert_eq!(boxes.reads(), reads);
    let chunks = Host::new(&[100, 100], &[64, 64]);
    let kept = Config { chunk_cache_bytes: 1 << 20, ..config(&chunks, &[3, 4], 2) };
    let loader = drive::open(&kept);
    let requests = [[0, 0], [10, 20], [62, 62], [1, 1]];
    for begin in &requests {
        let end = [begin[0] + 3, begin[1] + 4];
        let request = Request { uri: URI, begin, end: &end, tag: 1 };
        assert_eq!(loader.push(&[request], PATIENCE_NS).unwrap(), 1);
    }
    for _ in 0..2 {
        assert!(matches!(loader.pop(PATIENCE_NS).unwrap(), Pop::Batch(_)));
    }
    let ends = |begin: u64| if begin == 0 { 64 } else { 100 };
    let cells = [[0, 0], [0, 64], [64, 0], [64, 64]];
    let cells = cells.map(|[y, x]| (vec![y, x], vec![ends(y), ends(x)]));
    assert_eq!(chunks.reads(), cells);
    assert!(loader.stats().unwrap().chunk_cache_hits > 0);
}

#[test]
fn runs_of_a_list_are_a_read_each_and_one_that_fails_ends_the_box() {
    let mut host = Host::new(&[50, 10], &[0, 0]);
    let lists = [(0, &[7, 8, 3, 40][..])];
    let part = Part { uri: URI, begin: &[0, 0], end: &[4, 10], lists: &lists, ..Part::default() };
    let layout = Layout::row_major(&[4, 10], 4);
    let rows = [(7, 9), (3, 4), (40, 41)];
    let want: Vec<u8> = rows
        .iter()
        .flat_map(|(first, limit)| wanted(&[50, 10], &[*first, 0], &[*limit, 10]))
        .collect();
    for failing in [None, Some(0), Some(1), Some(2)] {
        host.read = match failing {
            Some(0) => |begin| if begin[0] == 7 { FILE_FAILED } else { 0 },
            Some(1) => |begin| if begin[0] == 3 { FILE_FAILED } else { 0 },
            Some(_) => |begin| if begin[0] == 40 { FILE_FAILED } else { 0 },
            None => |_| 0,
        };
        let config =
            Config { max_indices_per_sample: 4, n_readers: 1, ..config(&host, &[1, 1], 1) };
        let loader = drive::open(&config);
        let got = read(&loader, &part, &layout, PATIENCE_NS);
        match failing {
            None => {
                assert!(got.unwrap() == want);
                let read = |(first, limit): (u64, u64)| (vec![first, 0], vec![limit, 10]);
                assert_eq!(host.reads(), [read((3, 4)), read((7, 9)), read((40, 41))]);
            }
            Some(_) => {
                let failure = got.unwrap_err();
                assert_eq!(failure.status, Status::Io, "{failure}");
                // The one reader is free again.
                let part = Part { lists: &[(0, &[20])], begin: &[0, 0], end: &[1, 10], ..part };
                let row = read(&loader, &part, &Layout::row_major(&[1, 10], 4), PATIENCE_NS);
                assert!(row.unwrap() == wanted(&[50, 10], &[20, 0], &[21, 10]));
            }
        }
    }
}

#[test]
fn absent_elements_are_the_fill_value_or_not_found_and_failed_ones_an_error() {
    for (chunk, from, to) in [([0, 0], "[4, 4]", "[5, 5]"), ([4, 4], "[4, 4]", "[7, 7]")] {
        let mut host = Host::new(&[8, 8], &chunk);
        host.read = |begin| if *begin == [4, 4] { FILE_ABSENT } else { 0 };
        let base = config(&host, &[2, 2], 1);
        let loader = drive::open(&base);
        assert_eq!(pop(&loader, URI, &[4, 4], &[6, 6]).unwrap(), [-9.0; 4]);
        assert_eq!(pop(&loader, URI, &[0, 0], &[2, 2]).unwrap(), [0.0, 1.0, 8.0, 9.0]);
        let strict = Config { missing_chunks: MISSING_ERROR, ..base };
        let failure = pop(&drive::open(&strict), URI, &[4, 4], &[6, 6]).unwrap_err();
        assert_eq!(failure.status, Status::NotFound, "{failure}");
        host.read = |begin| if *begin == [4, 4] { FILE_FAILED } else { 77 };
        for begin in [[4, 4], [0, 0]] {
            let loader = drive::open(&config(&host, &[2, 2], 1));
            let end = [begin[0] + 2, begin[1] + 2];
            let failure = pop(&loader, URI, &begin, &end).unwrap_err();
            assert_eq!((failure.status, failure.tag), (Status::Io, 9), "{failure}");
            let text = failure.text.as_str();
            let is_named = text.contains(URI) && text.contains("source.read reports a failure");
            assert!(is_named, "{text}");
            let has_place = text.contains(&format!("elements {from} to {to}"));
            assert!(begin != [4, 4] || has_place, "{text}");
        }
        // The stream goes on behind a sample that is skipped.
        host.read = |begin| if *begin == [4, 4] { FILE_FAILED } else { 0 };
        let skip = Config { on_error: ON_ERROR_SKIP, ..config(&host, &[2, 2], 1) };
        let loader = drive::open(&skip);
        assert_eq!(pop(&loader, URI, &[4, 4], &[6, 6]).unwrap(), [-9.0; 4]);
        assert_eq!(pop(&loader, URI, &[0, 0], &[2, 2]).unwrap(), [0.0, 1.0, 8.0, 9.0]);
    }
}

#[test]
fn what_a_host_says_of_an_array_is_checked() {
    type Change = fn(&mut SourceInfo) -> i64;
    let cases: [(Change, Status, &str); 12] = [
        (|_| FILE_ABSENT, Status::NotFound, "source.describe knows no such array"),
        (|_| FILE_FAILED, Status::Io, "source.describe reports a failure"),
        (|_| 1, Status::Io, "source.describe reports a failure"),
        (
            |info| {
                info.dtype = 999;
                0
            },
            Status::Decode,
            "dtype = 999",
        ),
        (
            |info| {
                info.dtype_bytes = 8;
                0
            },
            Status::Decode,
            "dtype_bytes",
        ),
        (
            |info| {
                info.rank = 17;
                0
            },
            Status::Decode,
            "rank",
        ),
        (
            |info| {
                info.reserved = 1;
                0
            },
            Status::Decode,
            "reserved",
        ),
        (
            |info| {
                info.shape = [1 << 32; 16];
                0
            },
            Status::Decode,
            "too many elements",
        ),
        (
            |info| {
                info.shape[0] = u64::MAX;
                info.shape[1] = 0;
                0
            },
            Status::Decode,
            "too many",
        ),
        (
            |info| {
                info.chunk_shape[1] = 0;
                0
            },
            Status::Decode,
            "some extents are 0",
        ),
        (
            |info| {
                info.shape = [1 << 31; 16];
                info.chunk_shape = info.shape;
                0
            },
            Status::Decode,
            "a chunk has at most",
        ),
        (
            |info| {
                info.rank = 1;
                0
            },
            Status::Rank,
            "the box has 2 axes, the array 1",
        ),
    ];
    for (describe, status, text) in cases {
        let mut host = Host::new(&[8, 8], &[4, 4]);
        host.describe = describe;
        let loader = drive::open(&config(&host, &[2, 2], 1));
        let failure = pop(&loader, URI, &[0, 0], &[2, 2]).unwrap_err();
        assert_eq!(failure.status, status, "{failure}");
        let told = failure.text.as_str();
        assert!(told.starts_with("hook:numbers") && told.contains(text), "{told}");
    }
    let host = Host::new(&[8, 8], &[4, 4]);
    let loader = drive::open(&config(&host, &[2, 2], 1));
    let failure = pop(&loader, "hook:others", &[0, 0], &[2, 2]).unwrap_err();
    assert_eq!(failure.status, Status::NotFound);
}

#[test]
fn an_array_without_a_host_is_refused_and_half_a_host_too() {
    let loader = drive::open(&drive::config(Dtype::F32, &[2, 2], 1));
    let failure = pop(&loader, URI, &[0, 0], &[2, 2]).unwrap_err();
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("config.source"), "{failure}");
    let mut block = vec![0; SCRATCH_BYTES];
    assert_eq!(array_info(URI, &mut block).err().unwrap().status, Status::Invalid);
    let host = Host::new(&[8, 8], &[4, 4]);
    let half = SourceHook { read: None, ..host.hook() };
    let config = Config { source: half, ..drive::config(Dtype::F32, &[2, 2], 1) };
    let failure = Loader::open_on(&SYSTEM, &config).err().expect("it is refused");
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("describe and read"), "{failure}");
}

#[test]
fn fit_raises_the_cap_to_the_chunks_of_a_host() {
    let host = Host::new(&[1 << 12, 1 << 12], &[1 << 10, 1 << 10]);
    let mut config = Config { max_chunk_uncompressed_bytes: 1 << 10, ..config(&host, &[2, 2], 1) };
    let failure = pop(&drive::open(&config), URI, &[0, 0], &[2, 2]).unwrap_err();
    assert_eq!(failure.status, Status::Budget, "{failure}");
    let mut block = vec![0; SCRATCH_BYTES];
    // SAFETY: the hook is that of the host, which stays.
    unsafe { config_fit_trusting(&mut config, &[URI], &mut block) }.unwrap();
    assert_eq!(config.max_chunk_uncompressed_bytes, 4 << 20);
    let loader = drive::open(&config);
    assert_eq!(pop(&loader, URI, &[0, 0], &[2, 2]).unwrap(), [0.0, 1.0, 4096.0, 4097.0]);
}
