//! What batches in flight share: a chunk that several of them need is read and decoded once for
//! all, whatever the caps, and each still gets its own answer. And files that are chunks, which
//! stay open from the look at them to the read.

use crate::common::damage::{outcomes, u16_config};
use crate::common::drive::{Job, PATIENCE_NS, WARM, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::fs;
use wavetrain::abi::Stats;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::status::Status;

/// Elements of the one chunk: 400,000 bytes, so that zstd makes four blocks.
const ELEMENTS: u64 = 200_000;

const HEAD: i64 = 500;

const ZSTD: &str = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;

fn pixels() -> Vec<u8> {
    let value = |at: u64| (at * at / 977 + at / 3) as u16;
    (0..ELEMENTS).flat_map(|at| value(at).to_le_bytes()).collect()
}

/// An array of one zstd chunk, with one byte flipped that many bytes before its end.
fn one_chunk(scratch: &Scratch, name: &str, flipped: Option<usize>) -> String {
    let mut encoded = zstd::bulk::compress(&pixels(), 3).unwrap();
    if let Some(back) = flipped {
        let at = encoded.len() - back;
        encoded[at] ^= 0x24;
    }
    let meta = Meta { codecs: ZSTD, ..Meta::u16(&[ELEMENTS], &[ELEMENTS], None) };
    meta.write(scratch, name, Some(&encoded))
}

fn job(uri: &str, begin: i64) -> Job {
    let bytes = 2 * begin as usize..2 * (begin + HEAD) as usize;
    Job::new(uri, (vec![begin], vec![begin + HEAD]), pixels()[bytes].to_vec())
}

fn counted(config: &Config, jobs: &[Job]) -> Stats {
    let loader = Loader::open_on(&WARM, config).unwrap();
    stream_through(&loader, config, jobs, 0);
    let stats = loader.stats().unwrap();
    loader.close(PATIENCE_NS).unwrap();
    stats
}

fn pumped(slots: u32) -> Config {
    Config {
        thread_mode: THREADS_PUMP,
        lookahead_samples: 16,
        n_batch_slots: slots,
        ..u16_config(&[HEAD as u64], 1)
    }
}

#[test]
fn batches_in_flight_decode_the_chunk_that_they_need_once() {
    let scratch = Scratch::new();
    let uri = one_chunk(&scratch, "sound", None);
    let jobs = [7, 150_000, 60_000, 8].map(|begin| job(&uri, begin));
    let alone = counted(&pumped(1), &jobs);
    assert_eq!((alone.chunks_planned, alone.decode.count), (4, 4));
    let shared = counted(&pumped(4), &jobs);
    assert_eq!((shared.chunks_planned, shared.decode.count), (4, 1));
    assert_eq!(shared.io.input_bytes, alone.io.input_bytes / 4);
}

#[test]
fn a_chunk_over_the_largest_read_takes_the_least_slab_for_all_batches_together() {
    let scratch = Scratch::new();
    let uri = one_chunk(&scratch, "sound", None);
    let jobs: Vec<Job> = (0..12).map(|at| job(&uri, at * 16_000)).collect();
    for chunks in [1, 2, 64] {
        let config = Config {
            max_read_op_bytes: 4096,
            max_chunk_uncompressed_bytes: 2 * ELEMENTS,
            max_chunks_per_wave: chunks,
            ..pumped(4)
        };
        let stats = counted(&config, &jobs);
        assert!(stats.decode.count < 12 || chunks == 1, "{}", stats.decode.count);
    }
}

#[test]
fn a_batch_is_not_refused_for_what_another_needs_of_the_chunk() {
    let scratch = Scratch::new();
    let uri = one_chunk(&scratch, "damaged", Some(700));
    let tail = ELEMENTS as i64 - HEAD;
    let jobs = [7, tail, 20_000, tail].map(|begin| job(&uri, begin));
    let alone = outcomes(&pumped(1), &jobs);
    let shared = outcomes(&pumped(4), &jobs);
    let threads = outcomes(&Config { thread_mode: 0, ..pumped(4) }, &jobs);
    for (number, begin) in [(0, 7), (2, 20_000)] {
        assert_eq!(alone[number], (Some(Status::Ok), job(&uri, begin).want.unwrap()));
    }
    let is_found = alone[1].0 == Some(Status::Decode) || alone[1].1 != alone[3].1;
    assert!(is_found || alone[1].1 != job(&uri, tail).want.unwrap());
    assert_eq!((&shared, &threads), (&alone, &alone));
}

#[test]
fn a_file_that_is_a_chunk_is_opened_once() {
    const CHUNKS: u64 = 1000;
    let scratch = Scratch::new();
    let encoded = |chunk: u64| -> Vec<u8> {
        (0..4u64).flat_map(|at| ((chunk * 4 + at) as u16).to_le_bytes()).collect()
    };
    let uri = Meta::u16(&[CHUNKS * 4], &[4], None).write(&scratch, "tiny", Some(&encoded(0)));
    for chunk in 1..CHUNKS {
        fs::write(scratch.path("tiny").join("c").join(chunk.to_string()), encoded(chunk)).unwrap();
    }
    let jobs: Vec<Job> = (0..CHUNKS as i64 / 250)
        .map(|at| {
            let want = (0..1000).flat_map(|of| ((at * 1000 + of) as u16).to_le_bytes()).collect();
            Job::new(&uri, (vec![at * 1000], vec![at * 1000 + 1000]), want)
        })
        .collect();
    // The table knows fewer files than are looked up at a time.
    let tiny = Config {
        lookahead_samples: 16,
        n_chunk_layout_cache: 8,
        metadata_io_concurrency: 16,
        ..u16_config(&[1000], 1)
    };
    // The document is one more.
    let stats = counted(&Config { thread_mode: THREADS_PUMP, ..tiny }, &jobs);
    assert_eq!((stats.chunks_planned, stats.files_opened), (CHUNKS, CHUNKS + 1));
    // A thread that stands between a lookup and its answer may find the file closed again.
    let stats = counted(&tiny, &jobs);
    let again = stats.files_opened - (CHUNKS + 1);
    assert!(stats.chunks_planned == CHUNKS && again <= CHUNKS / 20, "{again} opened twice");
}

#[test]
fn samples_far_apart_in_an_uncompressed_chunk_read_what_each_needs() {
    let scratch = Scratch::new();
    let meta = Meta::u16(&[ELEMENTS], &[ELEMENTS], None);
    let uri = meta.write(&scratch, "raw", Some(&pixels()));
    // Two that overlap, and one that is nearly the whole chunk away.
    let jobs = [7, 107, ELEMENTS as i64 - HEAD].map(|begin| job(&uri, begin));
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let config = Config { thread_mode, ..u16_config(&[HEAD as u64], 3) };
        let stats = counted(&config, &jobs);
        assert_eq!(stats.io.input_bytes, 2 * (HEAD as u64 + 100) + 2 * HEAD as u64);
        assert_eq!((stats.chunks_planned, stats.chunk_uses), (2, 3));
    }
}
