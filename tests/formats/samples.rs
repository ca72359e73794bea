//! Samples of several boxes and fields are what numpy makes of them: tests/data/make_samples.py.

use crate::common::drive::{self, in_hook_mode};
use crate::common::fixtures;
use crate::common::lender::Lender;
use crate::common::samples::cases;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::config::*;
use wavetrain::cuda::DriverPath;
use wavetrain::loader::{Feed, Part, Pop, Request, Sample};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

#[test]
fn fields_boxes_steps_and_axes_are_what_numpy_makes_of_them() {
    let mut bytes = 0;
    for case in cases() {
        let config = case.config();
        let threads = [1, 2, 8][case.number % 3];
        bytes += case.stream(&Config { n_decode_threads: threads, ..config });
        case.stream(&Config { thread_mode: THREADS_PUMP, ..config });
        case.stream(&Config { chunk_cache_bytes: 1 << 20, ..in_hook_mode(&config) });
    }
    assert!(bytes > 1 << 20, "{bytes}");
}

#[test]
fn axes_as_lists_of_their_elements_give_the_same_bytes() {
    let mut lists = 0;
    for case in cases() {
        let config = case.config();
        lists += match case.number % 3 {
            0 => case.stream_listed(&Config { thread_mode: THREADS_PUMP, ..config }),
            1 => case.stream_listed(&Config { chunk_cache_bytes: 1 << 20, ..config }),
            _ => case.stream_listed(&Config { digest: 1, n_decode_threads: 8, ..config }),
        };
    }
    assert!(lists > 500, "{lists}");
}

#[test]
fn each_sample_has_the_digest_of_its_bytes_in_every_mode() {
    for case in cases() {
        let config = Config { digest: 1, ..case.config() };
        match case.number % 5 {
            0 => case.stream(&Config { thread_mode: THREADS_PUMP, ..config }),
            1 => case.stream(&in_hook_mode(&config)),
            2 => case.stream(&Config { n_decode_threads: 1, ..config }),
            3 => case.stream(&Config { n_decode_threads: 8, ..config }),
            _ => case.stream(&Config { chunk_cache_bytes: 1 << 20, ..config }),
        };
    }
}

/// Memory of a device: the simulated one has a test of its own (tests/cuda/sweeps/samples.rs).
#[test]
fn memory_of_a_named_device_is_read_as_memory_of_the_host_is() {
    let Some(cuda_driver) = drive::named_driver().map(DriverPath::from_static) else { return };
    let lender = Lender::new(cuda_driver);
    for case in cases().iter().filter(|case| case.reads_memory()) {
        let host = case.config();
        let max_host_memory_bytes = host.max_host_memory_bytes + (16 << 20);
        let (backend, device) = (BACKEND_CUDA, 0);
        let config = Config { backend, device, cuda_driver, max_host_memory_bytes, ..host };
        case.stream_lent(&config, &lender);
        lender.take_back();
    }
}

/// The simulated one has a test of its own, likewise.
#[test]
fn arithmetic_on_a_named_device_gives_the_bytes_of_the_host() {
    let Some(cuda_driver) = drive::named_driver().map(DriverPath::from_static) else { return };
    let lender = Lender::new(cuda_driver);
    let mut boxes = 0;
    for case in cases() {
        let host = case.config();
        let max_host_memory_bytes = host.max_host_memory_bytes + (16 << 20);
        let (backend, device) = (BACKEND_CUDA, 0);
        let config = Config { backend, device, cuda_driver, max_host_memory_bytes, ..host };
        let (expected, count) = case.stream_augmented(&host, None);
        let gpu = case.reads_memory().then_some(&lender);
        for gpu in [None, gpu] {
            let (found, _) = case.stream_augmented(&Config { digest: 1, ..config }, gpu);
            assert!(found == expected, "case {}", case.number);
            lender.take_back();
        }
        boxes += count;
    }
    assert!(boxes > 300, "{boxes}");
}

const IMAGE: usize = 0;
const LABEL: usize = 1;

/// A batch of an image of 6 x 8 f32, a label of one i64, and a mask of 4 u8; two boxes in a sample.
fn config() -> Config {
    let field = |name: &str, shape: &[u64], dtype: Dtype| {
        let mut spec = FieldSpec { dtype: dtype as u32, ..FieldSpec::BLANK };
        spec.name[..name.len()].copy_from_slice(name.as_bytes());
        spec.sample_rank = shape.len() as u32;
        spec.sample_shape[..shape.len()].copy_from_slice(shape);
        spec
    };
    let fields = vec![
        field("image", &[6, 8], Dtype::F32),
        field("label", &[], Dtype::I64),
        field("mask", &[4], Dtype::U8),
    ];
    Config {
        fields: FieldTable::from_static(fields.leak()),
        max_boxes_per_sample: 2,
        thread_mode: THREADS_PUMP,
        max_host_memory_bytes: 40 << 20,
        max_chunk_uncompressed_bytes: 1 << 20,
        n_decode_threads: 1,
        ..Config::default()
    }
}

fn part<'a>(uri: &'a str, begin: &'a [i64], end: &'a [i64]) -> Part<'a> {
    Part { uri, begin, end, field: IMAGE as u32, ..Part::default() }
}

#[test]
fn what_is_wrong_with_a_sample_is_told_when_it_is_pushed() {
    let loader = drive::open(&config());
    let plane = &fixtures::store("rank2_u16").uri;
    let whole = part(plane, &[0, 0], &[6, 8]);
    let left = part(plane, &[0, 0], &[6, 5]);
    let value = |bytes| Feed::Value(Dtype::I64, &[], bytes);
    let label = |feed| Part { field: LABEL as u32, feed, ..Part::default() };
    let long = [0; 72];
    let cases: &[(&[Part<'_>], &str)] = &[
        (&[], "a sample of 0 boxes: must have 1 to 2"),
        (&[left; 3], "a sample of 3 boxes: must have 1 to 2: raise max_boxes_per_sample"),
        (&[left, left], "field image: boxes 0 and 1 overlap"),
        (&[left, Part { at: &[0, 4], ..part(plane, &[0, 0], &[6, 4]) }], "boxes 0 and 1 overlap"),
        (&[Part { field: 3, ..whole }], "field = 3: a batch has 3, counted from 0"),
        (
            &[Part { at: &[1, 0], ..whole }],
            "field image: axis 0: 6 places from 1 on do not fit an extent of 6",
        ),
        (&[Part { at: &[0, 0, 1], ..whole }], "field image: at[2] = 1: it has 2 axes"),
        (
            &[Part { at: &[u64::MAX, 0], ..left }],
            "places from 18446744073709551615 on do not fit an extent of 6",
        ),
        (&[Part { axes: &[Some(1), Some(1)], ..left }], "another axis of the box becomes the same"),
        (&[Part { axes: &[Some(2), None], ..left }], "axes[0] = 3: the field has no such axis"),
        (&[Part { axes: &[Some(0), None], ..left }], "only an axis of extent 1 may be dropped"),
        (&[part(plane, &[0], &[6])], "box extents [6] do not give sample_shape [6, 8]"),
        (&[part(plane, &[0, 3], &[6, 3])], "axis 1: box [3, 3) is empty"),
        (
            &[part(plane, &[0, i64::MIN], &[1, i64::MAX])],
            "axis 1: box [-9223372036854775808, 9223372036854775807) is longer than any batch",
        ),
        (
            &[Part { step: &[1, 1 << 30], ..part(plane, &[0, 0], &[1, 1 << 40]) }],
            "in steps of 1073741824: steps have 536870911 elements at most",
        ),
        (&[label(value(&[0; 7]))], "a value of 7 bytes: must have those of its shape"),
        (
            &[label(Feed::Value(Dtype::I64, &[9], &long))],
            "a value of 72 bytes: must have those of its shape, at most 64",
        ),
        (&[label(Feed::Value(Dtype::I64, &[1], &[0; 8]))], "a box of 0 axes of what has 1"),
        (
            &[label(Feed::Value(Dtype::F64, &[], &[0; 8]))],
            "field label: no cast from f64 (8 bytes) to i64 (8 bytes)",
        ),
        (&[left, Part { field: 2, ..left }], "box 1: field mask: box extents [6, 5] do not give"),
    ];
    for (parts, text) in cases {
        let (taken, result) = loader.push_samples(&[Sample { parts, tag: 77 }], 0);
        let failure = result.expect_err(text);
        assert_eq!((taken, failure.tag), (0, 77), "{text}");
        assert!(failure.text.as_str().contains(text), "{}\nwanted {text}", failure.text);
    }
    // None of them left anything behind.
    let seven = 7i64.to_ne_bytes();
    let parts = [whole, label(value(&seven))];
    let sample = Sample { parts: &parts, tag: 1 };
    for _ in 0..20 {
        assert_eq!(loader.push_samples(&[sample], 0).0, 1);
        loop {
            loader.pump(1_000_000).unwrap();
            let Pop::Batch(batch) = loader.pop(0).unwrap() else { continue };
            assert_eq!(batch.field(LABEL as u32).unwrap().data(), 7i64.to_ne_bytes());
            assert_eq!(batch.field(2).unwrap().data(), [0; 4]);
            assert!(batch.field(3).is_err());
            break;
        }
    }
}

#[test]
fn what_the_array_refuses_fails_the_sample_by_name_of_the_field() {
    let plane = &fixtures::store("rank2_u16").uri;
    let outside = Part { step: &[2, 1], ..part(plane, &[1 << 20, 0], &[(1 << 20) + 12, 8]) };
    let float = Part { field: 2, ..part(plane, &[0, 0], &[1, 4]) };
    for (parts, status, text) in [
        (outside, Status::Invalid, "steps of more than one element must stay inside"),
        (float, Status::Dtype, "field mask: no cast from u16 (2 bytes) to u8"),
    ] {
        let loader = drive::open(&config());
        assert_eq!(loader.push_samples(&[Sample { parts: &[parts], tag: 5 }], 0).0, 1);
        loop {
            loader.pump(1_000_000).unwrap();
            match loader.pop(0) {
                Ok(_) => continue,
                Err(failure) => {
                    assert_eq!((failure.status, failure.tag), (status, 5));
                    assert!(failure.text.as_str().contains(text), "{}", failure.text);
                    break;
                }
            }
        }
    }
}

#[test]
fn a_sample_that_is_skipped_holds_pad_value_in_every_field() {
    let mut config = Config { on_error: ON_ERROR_SKIP, samples_per_batch: 2, ..config() };
    let fields: Vec<FieldSpec> = [("a", 3.0, Dtype::F32), ("b", 9.0, Dtype::U8)]
        .map(|(name, pad_value, dtype)| {
            let mut spec = FieldSpec { dtype: dtype as u32, pad_value, ..FieldSpec::BLANK };
            spec.name[0] = name.as_bytes()[0];
            (spec.sample_rank, spec.sample_shape[0]) = (1, 3);
            spec
        })
        .to_vec();
    config.fields = FieldTable::from_static(fields.leak());
    let loader = drive::open(&config);
    let value = |field, dtype, bytes| Part {
        field,
        begin: &[0],
        end: &[3],
        feed: Feed::Value(dtype, &[3], bytes),
        ..Part::default()
    };
    let good = [value(0, Dtype::F32, &[0; 12]), value(1, Dtype::U8, &[1, 2, 3])];
    let bad = [good[1], Part { uri: "/no/such/array", begin: &[0], end: &[3], ..Part::default() }];
    let samples = [Sample { parts: &bad, tag: 1 }, Sample { parts: &good, tag: 2 }];
    assert_eq!(loader.push_samples(&samples, 0).0, 2);
    loop {
        loader.pump(1_000_000).unwrap();
        let Pop::Batch(batch) = loader.pop(0).unwrap() else { continue };
        assert_eq!(batch.statuses(), [Status::NotFound as i32, 0]);
        let floats: Vec<u8> =
            [3f32, 3.0, 3.0, 0.0, 0.0, 0.0].iter().flat_map(|f| f.to_ne_bytes()).collect();
        assert_eq!(batch.data(), floats);
        assert_eq!(batch.field(1).unwrap().data(), [9, 9, 9, 1, 2, 3]);
        break;
    }
}

#[test]
fn parts_and_memory_need_a_config_that_says_so() {
    let plain = Config { thread_mode: THREADS_PUMP, ..drive::config(Dtype::F32, &[6, 8], 1) };
    let loader = drive::open(&plain);
    let plane = &fixtures::store("rank2_u16").uri;
    let small = Part { axes: &[Some(0), Some(1)], ..part(plane, &[0, 0], &[6, 5]) };
    let fed = Part {
        begin: &[0, 0],
        end: &[6, 8],
        feed: Feed::Value(Dtype::F32, &[1, 1], &[0; 4]),
        ..Part::default()
    };
    for (part, text) in [
        (small, "box extents [6, 5] are a part of sample_shape [6, 8]: set max_boxes_per_sample"),
        (fed, "a box of memory or a value needs fields, or max_boxes_per_sample >= 1"),
    ] {
        let (_, result) = loader.push_samples(&[Sample { parts: &[part], tag: 0 }], 0);
        let failure = result.expect_err(text);
        assert!(failure.text.as_str().contains(text), "{}", failure.text);
    }
    let one = Config { max_boxes_per_sample: 1, ..plain };
    let loader = drive::open(&one);
    assert_eq!(loader.push_samples(&[Sample { parts: &[small], tag: 0 }], 0).0, 1);
}

#[test]
fn a_box_of_one_element_goes_to_any_place_of_a_field() {
    let loader = drive::open(&config());
    let plane = &fixtures::store("rank2_u16").uri;
    let one = Part { field: 2, at: &[3], ..Part::default() };
    let scalar = Part { feed: Feed::Value(Dtype::U8, &[], &[8]), ..one };
    let axis = Part { begin: &[0], end: &[1], feed: Feed::Value(Dtype::U8, &[1], &[9]), ..one };
    let pixel = Part { at: &[5, 7], ..part(plane, &[0, 0], &[1, 1]) };
    let samples = [
        Sample { parts: &[scalar, Part { at: &[1], ..axis }], tag: 1 },
        Sample { parts: &[pixel], tag: 2 },
    ];
    let (taken, result) = loader.push_samples(&samples, 0);
    result.unwrap();
    assert_eq!(taken, 2);
    for wanted in [[0, 9, 0, 8], [0; 4]] {
        loop {
            loader.pump(1_000_000).unwrap();
            let Pop::Batch(batch) = loader.pop(0).unwrap() else { continue };
            assert_eq!(batch.field(2).unwrap().data(), wanted);
            break;
        }
    }
    let plain = Config { thread_mode: THREADS_PUMP, ..drive::config(Dtype::F32, &[6, 8], 1) };
    let small = Request { uri: plane, begin: &[0, 0], end: &[6, 5], tag: 0 };
    let text = drive::open(&plain).push(&[small], 0).unwrap_err().text;
    assert!(text.as_str().ends_with("to give a part, set max_boxes_per_sample"), "{text}");
}

/// Arrays of every source, more of them in a sample than are known at a time.
#[test]
fn arrays_of_every_source_take_turns_in_small_caches() {
    for case in cases().iter().filter(|case| case.number % 4 == 1) {
        let config = case.config();
        let count = [1, 2, 5, 16][case.number / 4 % 4];
        let small = Config { n_array_meta_cache: count, ..config };
        case.stream(&Config { thread_mode: THREADS_PUMP, ..small });
        case.stream(&Config { chunk_cache_bytes: 1 << 20, ..small });
    }
}
