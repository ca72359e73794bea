//! The planner's work, as the text of its waves: which bytes it reads of which files, and for
//! which samples.

use crate::common::drive::{Job, config, stream_through};
use crate::common::fixtures::store;
use crate::common::surface::Lines;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;

/// The lines of the waves that stream these boxes of an array, in batches of two.
fn plan(array: &str, boxes: &[[i64; 3]], change: impl Fn(&mut Config)) -> Vec<String> {
    let lines = Lines::default();
    let shape = [4, 6, 5];
    let mut config = Config {
        thread_mode: THREADS_PUMP,
        log: lines.hook(),
        log_level: 0,
        ..config(Dtype::U16, &shape, 2)
    };
    change(&mut config);
    let job = |begin: &[i64; 3]| {
        let end = begin.iter().zip(shape).map(|(begin, extent)| begin + extent as i64).collect();
        Job::of(store(array), (begin.to_vec(), end), Dtype::U16)
    };
    let jobs: Vec<Job> = boxes.iter().map(job).collect();
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs, 0);
    let lines = lines.take().into_iter().filter(|(level, ..)| *level == 0);
    lines.map(|(_, _, text)| text).collect()
}

/// Shards of 8 x 5 x 6 elements, chunks of 4 x 5 x 3.
const SHARDED: &str = "variant_checksum_shard";

#[test]
fn chunks_that_touch_in_a_file_are_one_read() {
    let lines = plan(SHARDED, &[[0, 0, 0], [3, 0, 0]], |_| {});
    let chunks = "bytes 0 to 532; chunk 0, box 0 of slot 0, box 1 of slot 0; \
        chunk 2, box 1 of slot 0; chunk 1, box 0 of slot 0, box 1 of slot 0; \
        chunk 3, box 1 of slot 0";
    let read = |number, file| format!("wave 0, read {number}: array 1, file {file}, {chunks}");
    assert_eq!(lines, [read(0, 0), read(1, 2)]);
}

#[test]
fn chunks_with_others_between_them_are_a_read_each() {
    let lines = plan(SHARDED, &[[0, 0, 0], [0, 4, 0]], |_| {});
    let read = |number, file, bytes, chunk| {
        format!(
            "wave 0, read {number}: array 1, file {file}, bytes {bytes}; \
             chunk {chunk}, box 0 of slot 0, box 1 of slot 0"
        )
    };
    let reads = [
        read(0, 0, "0 to 133", 0),
        read(1, 0, "266 to 399", 1),
        read(2, 2, "0 to 133", 0),
        read(3, 2, "266 to 399", 1),
    ];
    assert_eq!(lines, reads);
}

#[test]
fn of_chunks_that_nothing_compressed_only_what_boxes_cover_is_read() {
    // Chunks of 4 x 5 x 3, a file each, of 120 bytes.
    let lines = plan("u16_bytes_plain", &[[0, 0, 0], [0, 4, 0]], |_| {});
    let read = |number, file, limit| {
        format!(
            "wave 0, read {number}: array 1, file {file}, bytes 0 to {limit}; \
             chunk 0, box 0 of slot 0, box 1 of slot 0"
        )
    };
    assert_eq!(lines, [read(0, 0, 120), read(1, 1, 118), read(2, 3, 120), read(3, 4, 118)]);
}

#[test]
fn chunks_that_are_missing_are_filled_and_not_read() {
    let lines = plan("sparse_u16_42_some_shard", &[[0, 0, 0], [0, 4, 0]], |_| {});
    let boxes = "box 0 of slot 0, box 1 of slot 0";
    let want = [
        format!("wave 0, read 0: array 1, file 0, bytes 0 to 129; chunk 0, {boxes}"),
        format!("wave 0, read 1: array 1, file 2, bytes 129 to 258; chunk 1, {boxes}"),
        format!("wave 0, read 2: no bytes; missing chunk 1, {boxes}; missing chunk 0, {boxes}"),
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_chunk_of_two_batches_is_read_once_with_a_cache_and_without() {
    let boxes = [[0, 0, 0], [1, 0, 0], [0, 0, 1], [2, 0, 0]];
    let both = |cache_bytes| {
        plan(SHARDED, &boxes, |config| {
            (config.chunk_cache_bytes, config.n_batch_slots) = (cache_bytes, 4);
        })
    };
    let slots = |what: &str, boxes: &str| {
        let of = |slot| format!("; {what}, {}", boxes.replace('@', &format!("of slot {slot}")));
        (of(0), of(1))
    };
    let (all, last) = ("box 0 @, box 1 @", "box 1 @");
    let chunks = [("chunk 0", all), ("chunk 2", last), ("chunk 1", all), ("chunk 3", last)];
    let of_both = |(what, boxes)| {
        let (first, second) = slots(what, boxes);
        first + &second
    };
    let read = |number, file, chunks: String| {
        format!("wave 0, read {number}: array 1, file {file}, bytes 0 to 532{chunks}")
    };
    let together: String = chunks.map(of_both).concat();
    assert_eq!(both(0), [read(0, 0, together.clone()), read(1, 2, together)]);
    let first: String = chunks.map(|(what, boxes)| slots(what, boxes).0).concat();
    let mut want = vec![read(0, 0, first.clone()), read(1, 2, first)];
    let in_order = [chunks[0], chunks[2], chunks[1], chunks[3]];
    for (number, (what, boxes)) in (2..).zip(in_order.into_iter().chain(in_order)) {
        let cached = slots(&format!("cached {what}"), boxes).1;
        want.push(format!("wave 0, read {number}: no bytes{cached}"));
    }
    assert_eq!(both(1 << 20), want);
}
