//! bz2 and its memory: a decoder works in up to 3.6 MB, which it takes of the common scratch, and
//! only arrays of bz2 do so.

use crate::common::damage::{Bad, check};
use crate::common::drive::{Dice, Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::io::Write;
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const LEVEL_1: &str = r#",{"name":"numcodecs.bz2","configuration":{"level":1}}"#;
const LEVEL_9: &str = r#",{"name":"bz2","configuration":{"level":9}}"#;
const SHUFFLE_9: &str = r#",{"name":"numcodecs.shuffle","configuration":{"elementsize":2}},
    {"name":"numcodecs.bz2","configuration":{"level":9}}"#;

fn bz2(bytes: &[u8], level: u32) -> Vec<u8> {
    let level = bzip2::Compression::new(level);
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), level);
    writer.write_all(bytes).expect("written");
    writer.finish().expect("a stream")
}

fn noise(side: u64) -> Vec<u8> {
    let mut dice = Dice(0x5DEE_CE66_D123_4567);
    (0..side * side).flat_map(|_| (dice.range(0, 65536) as u16).to_le_bytes()).collect()
}

/// An array of one chunk, and the box of all of it.
fn array(scratch: &Scratch, codecs: &'static str, side: u64, bytes: &[u8], chunk: &[u8]) -> Job {
    let meta = Meta { codecs, ..Meta::u16(&[side, side], &[side, side], None) };
    let uri = meta.write(scratch, "array", Some(chunk));
    Job::new(&uri, (vec![0, 0], vec![side as i64, side as i64]), bytes.to_vec())
}

/// Bytes of a u16 chunk before its shuffle is undone.
fn shuffled(bytes: &[u8]) -> Vec<u8> {
    [0, 1].into_iter().flat_map(|low| bytes.iter().skip(low).step_by(2).copied()).collect()
}

#[test]
fn the_default_config_reads_large_chunks_of_the_largest_level() {
    for (codecs, side) in [(LEVEL_9, 2000), (SHUFFLE_9, 1500), (LEVEL_9, 800), (LEVEL_1, 300)] {
        let scratch = Scratch::new();
        let bytes = noise(side);
        let inner = if codecs == SHUFFLE_9 { shuffled(&bytes) } else { bytes.clone() };
        let level = if codecs == LEVEL_1 { 1 } else { 9 };
        let job = array(&scratch, codecs, side, &bytes, &bz2(&inner, level));
        let small = config(Dtype::U16, &[side, side], 1);
        // The caps of the default config.
        let max_chunk_uncompressed_bytes = Config::default().max_chunk_uncompressed_bytes;
        let config = Config { max_chunk_uncompressed_bytes, max_host_memory_bytes: 0, ..small };
        stream_as_configured(&config, &[job]);
    }
}

#[test]
fn small_caps_on_chunks_leave_enough_for_the_largest_level() {
    // 60 KB, of which the decoder works in 333 KB, in a config of small places for each worker.
    let (scratch, bytes) = (Scratch::new(), noise(173));
    let job = array(&scratch, LEVEL_9, 173, &bytes, &bz2(&bytes, 9));
    let cap = 2 * 173 * 173;
    let small = Config { max_chunk_uncompressed_bytes: cap, ..config(Dtype::U16, &[173, 173], 2) };
    stream(&small, &[job.clone(), job.clone(), job]);
}

#[test]
fn an_array_that_the_common_scratch_is_too_small_for_is_refused_with_the_setting() {
    for (codecs, side) in [(LEVEL_9, 1100), (SHUFFLE_9, 700)] {
        let (scratch, bytes) = (Scratch::new(), noise(side));
        let inner = if codecs == SHUFFLE_9 { shuffled(&bytes) } else { bytes.clone() };
        let good = array(&scratch, codecs, side, &bytes, &bz2(&inner, 9));
        let cap = 2 * side * side;
        let mut small = Config {
            max_chunk_uncompressed_bytes: cap,
            n_decode_threads: 1,
            max_host_memory_bytes: 64 << 20,
            ..config(Dtype::U16, &[side, side], 1)
        };
        let job = Job { want: Err(Status::Budget), ..good.clone() };
        let (_, failure) = first_failure(&open(&small), &[job]);
        let text = failure.text.as_str();
        let says = format!("max_chunk_uncompressed_bytes = {cap} makes ");
        assert!(text.contains("bz2 takes ") && text.contains(&says), "{failure}");
        let words = text.split("raise it to ").nth(1).expect("a number");
        let raised: u64 = words.split(',').next().unwrap().parse().unwrap();
        for asked in [Some(raised), None] {
            small.max_chunk_uncompressed_bytes = asked.unwrap_or(cap);
            if asked.is_none() {
                let mut scratch = vec![0; SCRATCH_BYTES];
                loader::config_fit(&mut small, &[&good.uri], &mut scratch)
                    .unwrap_or_else(|failure| panic!("{failure}"));
            }
            assert!(small.max_chunk_uncompressed_bytes >= raised);
            stream_as_configured(&small, std::slice::from_ref(&good));
        }
    }
}

#[test]
fn a_chunk_of_a_larger_level_than_the_metadata_say_is_damaged_by_name() {
    let (scratch, bytes) = (Scratch::new(), noise(300));
    let job = array(&scratch, LEVEL_1, 300, &bytes, &bz2(&bytes, 9));
    let job = Job { want: Err(Status::Decode), ..job };
    let says = "bz2 data of level 9 has a block of more than 100000 bytes, but the metadata say";
    let loader = open(&config(Dtype::U16, &[300, 300], 1));
    let (_, failure) = first_failure(&loader, &[job]);
    assert!(failure.text.as_str().contains(says), "{failure}");
}

#[test]
fn a_chunk_of_another_size_is_damaged_by_name() {
    for (side, says) in [(99, "more than the 20000 bytes"), (101, "")] {
        let (scratch, bytes) = (Scratch::new(), noise(200 - side));
        let job = array(&scratch, LEVEL_9, 100, &noise(100), &bz2(&bytes, 9));
        let says = if says.is_empty() { "decodes to 19602 bytes where 20000 are" } else { says };
        let (span, chunk) = ((vec![0, 0], vec![100, 100]), Some(vec![0, 0]));
        check(&scratch, &Bad { uri: job.uri, span, status: Status::Decode, chunk, says });
    }
}

#[test]
fn cached_chunks_of_bz2_are_those_that_were_decoded() {
    let (scratch, bytes) = (Scratch::new(), noise(800));
    let job = array(&scratch, LEVEL_9, 800, &bytes, &bz2(&bytes, 9));
    let small = config(Dtype::U16, &[800, 800], 1);
    let cached = Config {
        chunk_cache_bytes: 4 << 20,
        max_chunk_uncompressed_bytes: 4 << 20,
        max_host_memory_bytes: 0,
        ..small
    };
    stream(&cached, &vec![job; 4]);
}
