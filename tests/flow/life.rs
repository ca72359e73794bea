//! The life of a stream: order, back-pressure, flush, errors, reset, close. Each test is named
//! after the fact that it shows.

use crate::common::store;
use crate::common::store::{Spec, value};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_PUMP};
use wavetrain::loader::{Batch, Loader, Pop, Request};
use wavetrain::status::Status;

const FOREVER: u64 = u64::MAX;
const SECOND: u64 = 1_000_000_000;
const SPEC: Spec = Spec { seed: 3, edge: 32, shard: 16, chunk: 4, zstd: true, sparse: false };
const CROP: u64 = 6;

/// An array in a folder of this test's own.
fn array(test: &str) -> PathBuf {
    store::of_test("life", test, &SPEC)
}

fn config(samples_per_batch: u32) -> Config {
    let mut config = Config {
        samples_per_batch,
        sample_rank: 3,
        n_decode_threads: 2,
        n_io_threads: 4,
        dtype: wavetrain::records::Dtype::U16 as u32,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&[CROP; 3]);
    config
}

/// The corner of sample number `tag`.
fn corner(tag: u64) -> [i64; 3] {
    let most = SPEC.edge - CROP + 1;
    [tag * 7 % most, tag * 11 % most, tag * 13 % most].map(|at| at as i64)
}

fn push(loader: &Loader, array: &Path, tag: u64) -> usize {
    let begin = corner(tag);
    let end = begin.map(|at| at + CROP as i64);
    let uri = array.to_str().unwrap();
    loader.push(&[Request { uri, begin: &begin, end: &end, tag }], 0).unwrap()
}

/// Closes by token, as another thread does while this one still borrows the loader.
fn close(loader: &Loader, timeout_ns: u64) -> Status {
    // SAFETY: the held count is optional.
    let code = unsafe {
        wavetrain::surface::c::wavetrain_close(loader.token(), timeout_ns, std::ptr::null_mut())
    };
    Status::from_code(code).unwrap()
}

fn expect_batch(pop: Pop<'_>) -> Batch<'_> {
    match pop {
        Pop::Batch(batch) => batch,
        Pop::Again(why) => panic!("again: {why}"),
        Pop::Starved(why) => panic!("starved: {why}"),
        Pop::End | Pop::Reset => panic!("end"),
    }
}

/// Whether every voxel of every sample is the one that its tag says.
fn check(batch: &Batch<'_>) {
    let samples = batch.data().chunks_exact(2 * CROP.pow(3) as usize);
    assert_eq!(samples.len(), batch.tags().len());
    for (sample, tag) in samples.zip(batch.tags()) {
        let begin = corner(*tag).map(|at| at as u64);
        for (pair, at) in sample.chunks_exact(2).zip(store::places(CROP)) {
            let expected = value(SPEC.seed, [begin[0] + at[0], begin[1] + at[1], begin[2] + at[2]]);
            assert_eq!(u16::from_le_bytes([pair[0], pair[1]]), expected, "tag {tag} at {at:?}");
        }
    }
}

#[test]
fn batches_come_in_push_order_with_their_tags_and_numbers() {
    let array = array("order");
    let loader = Loader::open(&config(4)).unwrap();
    let (mut pushed, mut popped) = (0, 0);
    while popped < 20 {
        while pushed < 80 && push(&loader, &array, pushed) == 1 {
            pushed += 1;
        }
        let batch = expect_batch(loader.pop(FOREVER).unwrap());
        assert_eq!(batch.batch_id(), popped);
        assert_eq!(batch.shape(), [4, CROP, CROP, CROP]);
        assert_eq!(batch.tags(), (popped * 4..popped * 4 + 4).collect::<Vec<_>>());
        check(&batch);
        popped += 1;
    }
}

#[test]
fn pops_that_did_not_wait_are_not_in_pop_wait() {
    let array = array("pop-wait");
    let loader = Loader::open(&Config { thread_mode: THREADS_PUMP, ..config(1) }).unwrap();
    let waited = || loader.stats().unwrap().pop_wait.count;
    assert!(matches!(loader.pop(0), Ok(Pop::Again(_))));
    push(&loader, &array, 0);
    while loader.pump(SECOND).unwrap() {}
    drop(expect_batch(loader.pop(FOREVER).unwrap()));
    assert_eq!(waited(), 0, "the batch was there");
    push(&loader, &array, 1);
    drop(expect_batch(loader.pop(FOREVER).unwrap()));
    assert_eq!(waited(), 1, "the pop made it");
    assert!(matches!(loader.pop(SECOND), Ok(Pop::Starved(_))));
    assert_eq!(waited(), 2, "it waited in vain");
    loader.flush().unwrap();
    assert!(matches!(loader.pop(FOREVER), Ok(Pop::End)));
    assert_eq!(waited(), 2);
}

#[test]
fn a_full_lookahead_takes_a_prefix_and_no_more() {
    let array = array("again");
    let config = Config { lookahead_samples: 4, n_batch_slots: 1, ..config(4) };
    let loader = Loader::open(&config).unwrap();
    // One batch in the slot, one in the lookahead: eight samples, whatever the timing.
    let mut taken = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while taken < 8 && Instant::now() < deadline {
        taken += push(&loader, &array, taken as u64);
    }
    assert_eq!(taken, 8);
    let begin = [0; 3];
    let end = [CROP as i64; 3];
    let uri = array.to_str().unwrap();
    let request = Request { uri, begin: &begin, end: &end, tag: 9 };
    assert_eq!(loader.push(&[request; 3], 0).unwrap(), 0);
    let before = Instant::now();
    assert_eq!(loader.push(&[request; 3], SECOND / 20).unwrap(), 0);
    assert!(before.elapsed() >= Duration::from_millis(50));
    check(&expect_batch(loader.pop(FOREVER).unwrap()));
    assert_eq!(loader.push(&[request; 3], 120 * SECOND).unwrap(), 3);
}

#[test]
fn flush_emits_the_partial_batch_and_then_the_end() {
    let array = array("flush");
    let loader = Loader::open(&config(4)).unwrap();
    (0..6).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    loader.flush().unwrap();
    assert_eq!(expect_batch(loader.pop(FOREVER).unwrap()).shape()[0], 4);
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(batch.shape()[0], 2);
    check(&batch);
    drop(batch);
    assert!(matches!(loader.pop(0).unwrap(), Pop::End));
    assert!(matches!(loader.pop(FOREVER).unwrap(), Pop::End));
    // The next push begins a new batch, and there is no end any more.
    push(&loader, &array, 6);
    assert!(matches!(loader.pop(0).unwrap(), Pop::Again(_)));
    loader.flush().unwrap();
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(batch.tags(), [6]);
    assert_eq!(batch.batch_id(), 2);
}

#[test]
fn drop_last_discards_the_partial_batch() {
    let array = array("drop_last");
    let loader = Loader::open(&Config { drop_last: 1, ..config(4) }).unwrap();
    (0..6).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    loader.flush().unwrap();
    assert_eq!(expect_batch(loader.pop(FOREVER).unwrap()).shape()[0], 4);
    assert!(matches!(loader.pop(120 * SECOND).unwrap(), Pop::End));
}

#[test]
fn a_timeout_says_why_and_a_later_pop_gets_the_same_batch() {
    let array = array("starved");
    let loader = Loader::open(&Config { n_batch_slots: 1, ..config(2) }).unwrap();
    push(&loader, &array, 0);
    match loader.pop(SECOND / 50).unwrap() {
        Pop::Starved(why) => assert!(why.as_str().contains("samples are missing"), "{why}"),
        _ => panic!("a batch of one sample"),
    }
    match loader.pop(0).unwrap() {
        Pop::Again(why) => assert!(why.as_str().contains("samples are missing"), "{why}"),
        _ => panic!("a batch of one sample"),
    }
    push(&loader, &array, 1);
    let held = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(held.batch_id(), 0);
    (2..4).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    match loader.pop(SECOND / 50).unwrap() {
        Pop::Starved(why) => assert!(why.as_str().contains("slots are held"), "{why}"),
        _ => panic!("a batch without a slot"),
    }
    drop(held);
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(batch.batch_id(), 1);
    check(&batch);
}

#[test]
fn held_batches_keep_their_bytes_and_go_back_in_any_order() {
    let array = array("held");
    let loader = Loader::open(&Config { n_batch_slots: 3, ..config(2) }).unwrap();
    let mut pushed = 0;
    let mut feed = |loader: &Loader| {
        while push(loader, &array, pushed) == 1 {
            pushed += 1;
        }
    };
    feed(&loader);
    let first = expect_batch(loader.pop(FOREVER).unwrap());
    feed(&loader);
    let second = expect_batch(loader.pop(FOREVER).unwrap());
    feed(&loader);
    for round in 0..10 {
        let batch = expect_batch(loader.pop(FOREVER).unwrap());
        assert_eq!(batch.batch_id(), 2 + round);
        check(&batch);
        drop(batch);
        feed(&loader);
    }
    drop(second);
    check(&first);
    assert_eq!(first.batch_id(), 0);
}

#[test]
fn an_error_comes_in_its_turn_and_stays() {
    let array = array("error");
    store::flip_chunk(&array, &SPEC, [0, 0, 0], 0);
    let loader = Loader::open(&config(1)).unwrap();
    let uri = array.to_str().unwrap();
    let boxes = [[10i64; 3], [12; 3], [0; 3], [11; 3]];
    for (tag, begin) in boxes.iter().enumerate() {
        let end = begin.map(|at| at + CROP as i64);
        let request = Request { uri, begin, end: &end, tag: 70 + tag as u64 };
        assert_eq!(loader.push(&[request], 120 * SECOND).unwrap(), 1);
        if (1..3).contains(&tag) {
            let batch = expect_batch(loader.pop(FOREVER).unwrap());
            assert_eq!(batch.tags(), [69 + tag as u64]);
        }
    }
    let failure = loader.pop(FOREVER).err().unwrap();
    assert_eq!(failure.status, Status::Decode);
    assert_eq!((failure.tag, failure.batch_id, failure.sample), (72, 2, 0));
    assert_eq!(failure.chunk[..], [0, 0, 0]);
    let text = failure.text.as_str();
    assert!(text.contains("error/a") && text.contains("chunk [0, 0, 0] in c/0/0/0: "), "{text}");
    // Sticky: pop and push give the same error again.
    assert_eq!(loader.pop(0).err().unwrap().text.as_str(), text);
    let request = Request { uri, begin: &[0; 3], end: &[CROP as i64; 3], tag: 0 };
    assert_eq!(loader.push(&[request], 0).err().unwrap().status, Status::Decode);
    // Reset clears it; the stream begins again at batch 0.
    loader.reset().unwrap();
    let end = [10 + CROP as i64; 3];
    let request = Request { uri, begin: &[10; 3], end: &end, tag: 5 };
    assert_eq!(loader.push(&[request], 0).unwrap(), 1);
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!((batch.batch_id(), batch.tags()), (0, &[5u64][..]));
}

#[test]
fn skip_marks_the_samples_that_needed_the_bad_chunk_and_fills_them() {
    let array = array("skip");
    store::flip_chunk(&array, &SPEC, [0, 0, 0], 0);
    let config = Config { on_error: ON_ERROR_SKIP, pad_value: 9.0, ..config(3) };
    let loader = Loader::open(&config).unwrap();
    let uri = array.to_str().unwrap();
    for begin in [[10i64; 3], [1; 3], [12; 3]] {
        let end = begin.map(|at| at + CROP as i64);
        loader.push(&[Request { uri, begin: &begin, end: &end, tag: 0 }], 0).unwrap();
    }
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(batch.statuses(), [0, Status::Decode as i32, 0]);
    let bytes = 2 * CROP.pow(3) as usize;
    assert!(batch.data()[bytes..2 * bytes].chunks_exact(2).all(|pair| pair == [9, 0]));
    assert!(batch.data()[..bytes].chunks_exact(2).any(|pair| pair != [9, 0]));
    assert_eq!(loader.stats().unwrap().samples_failed, 1);
}

#[test]
fn reset_drops_what_is_not_popped_and_keeps_what_is_held() {
    let array = array("reset");
    let loader = Loader::open(&config(2)).unwrap();
    for round in 0..20u64 {
        for tag in 0..4 {
            push(&loader, &array, tag);
        }
        let held = expect_batch(loader.pop(FOREVER).unwrap());
        loader.reset().unwrap();
        assert!(matches!(loader.pop(0).unwrap(), Pop::Again(_)));
        (10..12).for_each(|tag| assert_eq!(push(&loader, &array, tag + round), 1));
        let next = expect_batch(loader.pop(FOREVER).unwrap());
        assert_eq!((next.batch_id(), next.tags()[0]), (0, 10 + round));
        check(&next);
        check(&held);
    }
}

#[test]
fn several_poppers_get_distinct_batches_and_all_of_them() {
    let array = array("poppers");
    let loader = Loader::open(&config(2)).unwrap();
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() {
                    check(&batch);
                    seen.lock().unwrap().push(batch.batch_id());
                }
            });
        }
        for tag in 0..100 {
            while push(&loader, &array, tag) == 0 {
                std::thread::yield_now();
            }
        }
        loader.flush().unwrap();
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

#[test]
fn close_wakes_a_blocked_pop_with_shutdown() {
    let loader = Loader::open(&config(2)).unwrap();
    let (entered, waits) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let popper = scope.spawn(|| {
            entered.send(()).unwrap();
            // Far longer than close waits.
            loader.pop(600 * SECOND).err().unwrap().status
        });
        waits.recv().unwrap();
        std::thread::yield_now();
        // Dropping would wait for the borrow; the token is closed from another thread instead.
        assert_eq!(close(&loader, 120 * SECOND), Status::Ok);
        assert_eq!(popper.join().unwrap(), Status::Shutdown);
    });
    assert_eq!(loader.pop(0).err().unwrap().status, Status::Shutdown);
}

#[test]
fn closing_at_any_moment_ends_cleanly() {
    let array = array("close");
    for round in 0..60u64 {
        let pump = if round % 3 == 0 { THREADS_PUMP } else { 0 };
        let loader = Loader::open(&Config { thread_mode: pump, ..config(2) }).unwrap();
        for tag in 0..4 {
            push(&loader, &array, tag + round);
        }
        for _ in 0..round % 7 {
            if pump == THREADS_PUMP {
                loader.pump(0).unwrap();
            } else {
                let _ = loader.pop(0).unwrap();
            }
        }
        loader.close(120 * SECOND).unwrap();
    }
}

#[test]
fn close_reports_held_batches_and_works_once_they_are_back() {
    let array = array("close_held");
    let loader = Loader::open(&config(2)).unwrap();
    (0..2).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    let batch = expect_batch(loader.pop(FOREVER).unwrap());
    assert_eq!(close(&loader, 0), Status::Again);
    assert_eq!(loader.pop(0).err().unwrap().status, Status::Shutdown);
    assert_eq!(loader.flush().err().unwrap().status, Status::Shutdown);
    assert_eq!(loader.reset().err().unwrap().status, Status::Shutdown);
    let malformed = Request { uri: "/nowhere", begin: &[4; 3], end: &[4; 3], tag: 0 };
    assert_eq!(loader.push(&[malformed], 0).err().unwrap().status, Status::Shutdown);
    assert_eq!(loader.stats().unwrap().batches_held, 1);
    check(&batch);
    drop(batch);
    assert_eq!(close(&loader, 120 * SECOND), Status::Ok);
    assert_eq!(close(&loader, 0), Status::Shutdown);
}

#[test]
fn pump_works_without_threads_of_ours() {
    let array = array("pump");
    let loader = Loader::open(&Config { thread_mode: THREADS_PUMP, ..config(2) }).unwrap();
    (0..4).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    let mut idle = 0;
    while idle < 2 {
        idle += !loader.pump(u64::MAX).unwrap() as u32;
    }
    check(&expect_batch(loader.pop(0).unwrap()));
    check(&expect_batch(loader.pop(0).unwrap()));
    // A pop that waits does the work itself.
    (4..6).for_each(|tag| assert_eq!(push(&loader, &array, tag), 1));
    check(&expect_batch(loader.pop(FOREVER).unwrap()));
    let own = Loader::open(&config(2)).unwrap();
    assert_eq!(own.pump(0).err().unwrap().status, Status::Invalid);
}

#[test]
fn a_chunk_that_samples_share_is_decoded_once_per_batch() {
    let array = array("dedupe");
    let loader = Loader::open(&config(8)).unwrap();
    let uri = array.to_str().unwrap();
    for tag in 0..8 {
        // All in the chunks [0, 8)^3: 8 chunks of 4^3.
        let begin = [tag % 3, tag / 3, 1];
        let end = begin.map(|at| at + CROP as i64);
        loader.push(&[Request { uri, begin: &begin, end: &end, tag: 0 }], 0).unwrap();
    }
    drop(expect_batch(loader.pop(FOREVER).unwrap()));
    let stats = loader.stats().unwrap();
    assert_eq!((stats.chunks_planned, stats.chunk_uses, stats.decode.count), (8, 64, 8));
    loader.stats_reset().unwrap();
    assert_eq!(loader.stats().unwrap().decode.count, 0);
    assert_eq!(loader.stats().unwrap().decode.ns_best, u64::MAX);
    assert_eq!(loader.stats().unwrap().decode_gap.ns_best, u64::MAX);
}

#[test]
fn each_file_is_opened_once_while_descriptors_suffice() {
    let array = array("opens");
    let loader = Loader::open(&config(4)).unwrap();
    for tag in 0..64 {
        while push(&loader, &array, tag) == 0 {
            drop(expect_batch(loader.pop(FOREVER).unwrap()));
        }
    }
    loader.flush().unwrap();
    while let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() {
        check(&batch);
    }
    // Eight shards and one zarr.json.
    assert_eq!(loader.stats().unwrap().files_opened, 9);
}

#[test]
fn two_loaders_in_one_process_do_not_meet() {
    let array = array("two");
    let loaders = [Loader::open(&config(2)).unwrap(), Loader::open(&config(3)).unwrap()];
    for tag in 0..6 {
        loaders.iter().for_each(|loader| assert_eq!(push(loader, &array, tag), 1));
        if tag % 2 == 1 {
            check(&expect_batch(loaders[0].pop(FOREVER).unwrap()));
        }
        if tag % 3 == 2 {
            check(&expect_batch(loaders[1].pop(FOREVER).unwrap()));
        }
    }
}

#[test]
fn a_box_that_does_not_fit_the_sample_shape_is_refused_at_push() {
    let array = array("shape");
    let loader = Loader::open(&config(2)).unwrap();
    let uri = array.to_str().unwrap();
    let refuse = |begin: &[i64], end: &[i64], status: Status| {
        let failure = loader.push(&[Request { uri, begin, end, tag: 4 }], 0).err().unwrap();
        assert_eq!((failure.status, failure.tag), (status, 4), "{failure}");
    };
    refuse(&[0, 0, 0], &[6, 6, 7], Status::Invalid);
    refuse(&[0, 0], &[6, 6], Status::Rank);
    refuse(&[0, 0, 5], &[6, 6, 5], Status::Invalid);
    refuse(&[0, 0, i64::MAX], &[6, 6, i64::MIN], Status::Invalid);
    refuse(&[], &[], Status::Rank);
    // Good samples before a bad one stay taken.
    let good = Request { uri, begin: &[0; 3], end: &[6; 3], tag: 1 };
    let bad = Request { end: &[6, 6, 9], ..good };
    let (taken, result) = loader.push_counted(&[good, bad, good], 0);
    assert_eq!((taken, result.err().unwrap().status), (1, Status::Invalid));
}
