//! Requests that cannot be answered: refused by push where the caller is wrong whatever the store
//! says, at pop and in order where the store says so.

use crate::common::damage::{Bad, check, check_text, check_with, good_job, u16_config};
use crate::common::drive::{Job, PATIENCE_NS, Span, first_failure, open, stream, stream_through};
use crate::common::fixtures::{self, Scratch};
use crate::common::hook::{SCHEME, with_hook};
use crate::common::surface::{Open, sample_box, sample_of, text_of};
use std::ffi::c_void;
use std::ptr::null_mut;
use wavetrain::abi::{BatchInfo, Error, Sample, SampleBox};
use wavetrain::base::limits::{RANK_MAX, TENSORS_PER_SLOT, URI_BYTES_MAX};
use wavetrain::config::{Config, ON_ERROR_SKIP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

#[test]
fn a_missing_array_is_not_found() {
    let scratch = Scratch::new();
    let bad = Bad {
        uri: scratch.uri("nothing"),
        span: (vec![0, 0], vec![4, 4]),
        status: Status::NotFound,
        chunk: None,
        says: "",
    };
    check(&scratch, &bad);
}

#[test]
fn a_chunk_over_the_cap_is_over_budget_and_names_the_cap() {
    let scratch = Scratch::new();
    let store = fixtures::store("rank2_u16");
    let bad = Bad {
        uri: store.uri.clone(),
        span: (vec![0, 0], vec![4, 4]),
        status: Status::Budget,
        chunk: None,
        says: "max_chunk_uncompressed_bytes",
    };
    // A chunk has 8 x 9 x 2 = 144 bytes; the sound array beside it 32.
    check_with(&scratch, &bad, |config| config.max_chunk_uncompressed_bytes = 143);
    let mut config = u16_config(&[4, 4], 1);
    config.max_chunk_uncompressed_bytes = 144;
    stream(&config, &[Job::of(store, bad.span, Dtype::U16)]);
}

#[test]
fn a_box_of_another_rank_than_its_array_is_a_rank_error() {
    let scratch = Scratch::new();
    let store = fixtures::store("rank3_u16");
    for span in [(vec![0, 0], vec![3, 3]), (vec![0, 0, 0, 0], vec![3, 3, 1, 1])] {
        let uri = store.uri.clone();
        let bad = Bad { uri, span, status: Status::Rank, chunk: None, says: "" };
        let job = Job::failing(&bad.uri, bad.span.clone(), bad.status);
        let good = good_job(&scratch, "good", &[3, 3]);
        let loader = open(&u16_config(&[3, 3], 1));
        let (before, failure) = first_failure(&loader, &[good.clone(), job.clone()]);
        assert_eq!((before, failure.status), (1, Status::Rank), "{failure}");
        check_text(&bad, &failure);
        let config = Config { on_error: ON_ERROR_SKIP, ..u16_config(&[3, 3], 2) };
        stream(&config, &[good, job]);
    }
}

#[test]
fn a_box_outside_its_array_is_invalid() {
    let scratch = Scratch::new();
    let uri = fixtures::store("rank2_u16").uri.clone();
    for span in [(vec![-1, 0], vec![3, 4]), (vec![0, 26], vec![4, 30])] {
        let uri = uri.clone();
        check(&scratch, &Bad { uri, span, status: Status::Invalid, chunk: None, says: "" });
    }
}

#[test]
fn a_type_without_a_cast_is_a_dtype_error() {
    for name in ["rank2_f32", "c64_zstd_plain"] {
        let scratch = Scratch::new();
        let store = fixtures::store(name);
        let span: Span = store.image.shape.iter().map(|_| (0, 2)).unzip();
        let bad = Bad {
            uri: store.uri.clone(),
            span,
            status: Status::Dtype,
            chunk: None,
            says: store.image.dtype.name(),
        };
        check(&scratch, &bad);
    }
}

#[test]
fn a_box_that_does_not_fit_the_sample_shape_is_refused_by_push() {
    let uri = &fixtures::store("rank2_u16").uri;
    let spans: [(Span, Status); 6] = [
        ((vec![0, 0], vec![4, 5]), Status::Invalid),
        ((vec![0, 0], vec![5, 4]), Status::Invalid),
        ((vec![4, 4], vec![0, 0]), Status::Invalid),
        ((vec![0, 0], vec![0, 4]), Status::Invalid),
        ((vec![i64::MIN, 0], vec![i64::MAX, 4]), Status::Invalid),
        ((vec![0], vec![4]), Status::Rank),
    ];
    for (span, status) in spans {
        let loader = open(&u16_config(&[4, 4], 1));
        let job = Job::failing(uri, span.clone(), status);
        let failure = loader.push(&[job.request(0)], 0).expect_err("refused");
        assert!(matches!(failure.status, Status::Invalid | Status::Rank), "{span:?}: {failure}");
        // A refused argument is the caller's affair and not sticky.
        let store = fixtures::store("rank2_u16");
        let sound = Job::of(store, (vec![3, 5], vec![7, 9]), Dtype::U16);
        stream_through(&loader, &u16_config(&[4, 4], 1), &[sound], 0);
    }
}

#[test]
fn a_box_whose_begin_and_end_differ_in_rank_is_refused_by_push() {
    let uri = &fixtures::store("rank2_u16").uri;
    let loader = open(&u16_config(&[4, 4], 1));
    let request = Request { uri, begin: &[0, 0], end: &[4, 4, 1], tag: 0 };
    assert!(loader.push(&[request], 0).is_err());
}

/// Ways in which a C caller can get a sample wrong.
fn spoil(number: u32, sample: &mut Sample, raw: &mut SampleBox) {
    match number {
        0 => sample.boxes = std::ptr::null(),
        1 => sample.n_boxes = 2,
        2 => sample.box_bytes = 279,
        3 => raw.rank = 0,
        4 => raw.rank = RANK_MAX as u32 + 1,
        5 => raw.uri = std::ptr::null(),
        6 => raw.uri_bytes = URI_BYTES_MAX as u64 + 1,
        7 => raw.uri_bytes = 0,
        8 => raw.reserved = 1,
        9 => raw.uri = b"\xFF\xFE/wrong".as_ptr().cast(),
        10 => (raw.uri, raw.uri_bytes) = (c"s3://bucket".as_ptr(), 11),
        11 => raw.end[0] += 1,
        12 => raw.end[0] = raw.begin[0],
        _ => raw.rank = 1,
    }
}

#[test]
fn whatever_is_wrong_with_a_sample_its_tag_is_in_the_error() {
    const TAG: u64 = 0xFEED_0000_0000_0007;
    let loader = Open::new(&u16_config(&[4, 4], 1));
    let uri = &fixtures::store("rank2_u16").uri;
    for number in 0..14 {
        let mut raw = sample_box(uri, &[0, 0], &[4, 4]);
        let mut sample = sample_of(&raw, TAG + u64::from(number));
        spoil(number, &mut sample, &mut raw);
        if !sample.boxes.is_null() {
            sample.boxes = &raw;
        }
        let (code, taken) = loader.try_push(&sample, size_of::<Sample>(), 0);
        assert!(code < 0 && taken == 0, "{number}");
        let error = loader.last_error();
        assert_eq!((error.status, error.tag), (code, sample.tag), "{number}: {}", text_of(&error));
    }
}

#[test]
fn a_sample_with_newer_fields_is_refused_with_its_tag_and_one_too_short_has_none() {
    let loader = Open::new(&u16_config(&[4, 4], 1));
    let uri = &fixtures::store("rank2_u16").uri;
    let raw = sample_box(uri, &[0, 0], &[4, 4]);
    // The second stands where the newer fields of the first would be.
    let newer = [sample_of(&raw, 31), sample_of(&raw, 32)];
    let bytes = size_of::<Sample>();
    for (bytes, tag) in [(2 * bytes, 31), (bytes - 1, 0)] {
        assert_eq!(loader.try_push(&newer[0], bytes, 0), (Status::Invalid as i32, 0));
        assert_eq!(loader.last_error().tag, tag);
    }
}

#[test]
fn the_sample_whose_uri_finds_no_room_is_named_by_its_tag() {
    // A thousand uris have room at their full length, those behind them 256 bytes each.
    let config = Config { lookahead_samples: 2000, ..u16_config(&[4, 4], 2000) };
    let loader = Loader::open(&config).unwrap();
    let uris: Vec<String> = (0..2000).map(|n| format!("/{n}{}", "x".repeat(4000))).collect();
    let requests: Vec<Request<'_>> = uris
        .iter()
        .zip(0..)
        .map(|(uri, n)| Request { uri, begin: &[0, 0], end: &[4, 4], tag: 500 + n })
        .collect();
    let (taken, result) = loader.push_counted(&requests, 0);
    let failure = result.expect_err("no room");
    assert!(0 < taken && taken < requests.len(), "{taken}");
    assert_eq!((failure.status, failure.tag), (Status::Invalid, 500 + taken as u64), "{failure}");
}

/// What last_error says behind a call that returned `code`.
fn why(loader: &Open, code: i32) -> String {
    let error = loader.last_error();
    assert_eq!(error.status, code, "{}", text_of(&error));
    text_of(&error)
}

#[test]
fn every_call_that_fails_leaves_its_text() {
    const OK: i32 = Status::Ok as i32;
    let loader = Open::new(&u16_config(&[4, 4], 1));
    let uri = &fixtures::store("rank2_u16").uri;
    let expect = |code: i32, status: Status, words: &str| {
        assert_eq!(code, status as i32);
        let text = why(&loader, code);
        assert!(text.contains(words), "{text:?} lacks {words:?}");
    };
    loader.push_box(uri, &[0, 0], &[4, 4], 1);
    let batch = loader.pop();
    let raw = sample_box(uri, &[0], &[4]);
    let pushed = loader.try_push(&sample_of(&raw, 5), size_of::<Sample>(), 0).0;
    expect(pushed, Status::Rank, "sample_shape");
    let mut tensor = null_mut();
    // SAFETY: the pointers are NULL or whole.
    unsafe {
        let stray = null_mut::<c_void>().wrapping_byte_add(64);
        let mut info = BatchInfo { struct_size: size_of::<BatchInfo>(), ..std::mem::zeroed() };
        let unheld = wavetrain_batch_info(loader.0, batch ^ 2, 0, &mut info);
        expect(unheld, Status::Invalid, "is not held");
        let field = wavetrain_batch_info(loader.0, batch, 1, &mut info);
        expect(field, Status::Invalid, "field = 1");
        let unsized_info = wavetrain_batch_info(loader.0, batch, 0, null_mut());
        expect(unsized_info, Status::Invalid, "info is NULL");
        expect(wavetrain_stats(loader.0, null_mut()), Status::Invalid, "stats is NULL");
        let target = wavetrain_dlpack(loader.0, batch, 0, null_mut(), null_mut());
        expect(target, Status::Invalid, "tensor is NULL");
        let stream = wavetrain_dlpack(loader.0, batch, 0, stray, &mut tensor);
        expect(stream, Status::Unsupported, "in host memory");
        let field = wavetrain_dlpack(loader.0, batch, 7, null_mut(), &mut tensor);
        expect(field, Status::Invalid, "field = 7");
        let unheld = wavetrain_dlpack(loader.0, batch ^ 2, 0, null_mut(), &mut tensor);
        expect(unheld, Status::Invalid, "is not held");
        expect(wavetrain_pump(loader.0, 0), Status::Invalid, "thread_mode is own");
        expect(wavetrain_read_done(loader.0, 9, 0), Status::Invalid, "ticket 0x9");
        expect(wavetrain_release(loader.0, batch, stray), Status::Unsupported, "event");
        expect(wavetrain_release(loader.0, batch ^ 2, null_mut()), Status::Invalid, "is not held");
        let target = wavetrain_pop(loader.0, 0, null_mut(), null_mut());
        expect(target, Status::Invalid, "batch is NULL");
        // Asking, and what is only not now, changes nothing.
        assert_eq!(wavetrain_last_error(loader.0, null_mut()), Status::Invalid as i32);
        assert!(loader.try_pop(0).is_err_and(|(code, _)| code == Status::Again as i32));
        assert_eq!(wavetrain_release(loader.0, batch, null_mut()), OK);
        expect(Status::Invalid as i32, Status::Invalid, "batch is NULL");
        assert_eq!(wavetrain_reset(loader.0), OK);
        assert_eq!(why(&loader, OK), "");
    }
}

#[test]
fn the_ninth_tensor_and_calls_behind_close_say_why() {
    let loader = Open::new(&u16_config(&[4, 4], 1));
    loader.push_box(&fixtures::store("rank2_u16").uri, &[0, 0], &[4, 4], 1);
    let batch = loader.pop();
    let mut tensors = [null_mut(); TENSORS_PER_SLOT as usize + 1];
    let codes = tensors.each_mut().map(|tensor| {
        // SAFETY: writable.
        unsafe { wavetrain_dlpack_legacy(loader.0, batch, 0, null_mut(), tensor) }
    });
    assert_eq!(codes[..8], [Status::Ok as i32; 8]);
    assert!(why(&loader, Status::Again as i32).contains("delete a tensor"));
    for tensor in tensors.into_iter().filter(|tensor| !tensor.is_null()) {
        // SAFETY: it was exported and not deleted.
        unsafe { ((*tensor).deleter.unwrap())(tensor) };
    }
    assert_eq!(loader.close(0), (Status::Again as i32, 1));
    assert_eq!(wavetrain_flush(loader.0), Status::Shutdown as i32);
    assert!(why(&loader, Status::Shutdown as i32).contains("open another"));
    loader.release(batch);
    let mut error = Error::EMPTY;
    assert_eq!(loader.close(PATIENCE_NS), (Status::Ok as i32, 0));
    // SAFETY: whole.
    unsafe {
        assert_eq!(wavetrain_last_error(loader.0, &mut error), Status::Shutdown as i32);
        assert!(
            text_of(&error).contains("open another") && error.status == Status::Shutdown as i32
        );
        error = Error::EMPTY;
        assert_eq!(wavetrain_pop(loader.0, 0, &mut 0, &mut error), Status::Shutdown as i32);
        assert!(text_of(&error).contains("open another"));
    }
}

#[test]
fn another_scheme_is_unsupported_and_named() {
    for uri in ["s3://bucket/array", "https://example.org/array"] {
        let loader = open(&u16_config(&[4, 4], 1));
        let job = Job::failing(uri, (vec![0, 0], vec![4, 4]), Status::Unsupported);
        let failure = match loader.push(&[job.request(0)], 0) {
            Err(failure) => failure,
            Ok(_) => {
                loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
                loader.pop(PATIENCE_NS).err().expect("refused")
            }
        };
        assert_eq!(failure.status, Status::Unsupported, "{failure}");
        assert!(failure.text.as_str().contains(uri), "{failure}");
    }
}

#[test]
fn a_files_hook_gets_uris_of_any_scheme_as_they_are() {
    let scratch = Scratch::new();
    let job = good_job(&scratch, "good", &[4, 4]);
    let uri = format!("{SCHEME}{}/", job.uri);
    let loader = open(&with_hook(u16_config(&[4, 4], 1)));
    let pop = |uri: &str| {
        loader.push(&[Request { uri, ..job.request(0) }], 0).unwrap();
        let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        batch.data().to_vec()
    };
    assert_eq!(pop(&uri), pop(&job.uri));
}

#[test]
fn the_lowest_bad_sample_of_a_batch_is_blamed() {
    let scratch = Scratch::new();
    let good = good_job(&scratch, "good", &[4, 4]);
    let first = Job::failing(&scratch.uri("first"), good_span(), Status::NotFound);
    let second = Job::failing(&scratch.uri("second"), good_span(), Status::NotFound);
    let jobs = [vec![good.clone(); 4], vec![good.clone(), first, second, good]].concat();
    for _ in 0..5 {
        let loader = open(&u16_config(&[4, 4], 4));
        let (before, failure) = first_failure(&loader, &jobs);
        assert_eq!((before, failure.batch_id, failure.sample), (1, 1, 1), "{failure}");
        assert!(failure.text.as_str().contains("first"), "{failure}");
    }
}

fn good_span() -> Span {
    (vec![0, 0], vec![4, 4])
}
