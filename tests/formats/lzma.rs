//! lzma and its memory: a decoder works in 32 KB, which it takes of the common scratch if the place
//! of a worker is too small. Stores of other writers are in tests/data/make_lzma.py.

use crate::common::damage::{Bad, check};
use crate::common::drive::{Dice, Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use liblzma::stream::{Action, Check, Stream};
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const PLAIN: &str = r#",{"name":"numcodecs.lzma","configuration":{"format":1,"preset":0}}"#;
const SHUFFLE: &str = r#",{"name":"numcodecs.shuffle","configuration":{"elementsize":2}},
    {"name":"lzma"}"#;

fn lzma(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Stream::new_easy_encoder(0, Check::Crc64).expect("an encoder");
    let mut chunk = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 1000);
    stream.process_vec(bytes, &mut chunk, Action::Finish).expect("a stream");
    chunk
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
fn the_default_config_reads_large_chunks_and_small_caps_leave_enough_memory() {
    for (codecs, side) in [(PLAIN, 1500), (SHUFFLE, 1500), (PLAIN, 40), (SHUFFLE, 40)] {
        let scratch = Scratch::new();
        let bytes = noise(side);
        let inner = if codecs == SHUFFLE { shuffled(&bytes) } else { bytes.clone() };
        let job = array(&scratch, codecs, side, &bytes, &lzma(&inner));
        let small = config(Dtype::U16, &[side, side], 1);
        let max_chunk_uncompressed_bytes = match side {
            // Less than the decoder works in.
            40 => 2 * 40 * 40,
            _ => Config::default().max_chunk_uncompressed_bytes,
        };
        let config = Config { max_chunk_uncompressed_bytes, max_host_memory_bytes: 0, ..small };
        stream_as_configured(&config, &[job.clone(), job]);
    }
}

#[test]
fn an_array_that_the_common_scratch_is_too_small_for_is_refused_with_the_setting() {
    let (scratch, side) = (Scratch::new(), 1100);
    let bytes = noise(side);
    let good = array(&scratch, SHUFFLE, side, &bytes, &lzma(&shuffled(&bytes)));
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
    assert!(text.contains("lzma takes ") && text.contains(&says), "{failure}");
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

#[test]
fn a_chunk_of_another_size_is_damaged_by_name() {
    for (side, says) in [(99, "more than the 20000 bytes"), (101, "")] {
        let (scratch, bytes) = (Scratch::new(), noise(200 - side));
        let job = array(&scratch, PLAIN, 100, &noise(100), &lzma(&bytes));
        let says = if says.is_empty() { "decodes to 19602 bytes where 20000 are" } else { says };
        let (span, chunk) = ((vec![0, 0], vec![100, 100]), Some(vec![0, 0]));
        check(&scratch, &Bad { uri: job.uri, span, status: Status::Decode, chunk, says });
    }
}

#[test]
fn a_stream_that_expands_without_end_is_refused_as_soon_as_its_chunk_is_full() {
    // 64 MiB of zeros are 10 KB.
    let (scratch, zeros) = (Scratch::new(), vec![0; 64 << 20]);
    let job = array(&scratch, PLAIN, 100, &noise(100), &lzma(&zeros));
    let (span, chunk) = ((vec![0, 0], vec![100, 100]), Some(vec![0, 0]));
    let says = "lzma data holds more than the 20000 bytes expected";
    check(&scratch, &Bad { uri: job.uri, span, status: Status::Decode, chunk, says });
}

#[test]
fn cached_chunks_of_lzma_are_those_that_were_decoded() {
    let (scratch, bytes) = (Scratch::new(), noise(800));
    let job = array(&scratch, PLAIN, 800, &bytes, &lzma(&bytes));
    let small = config(Dtype::U16, &[800, 800], 1);
    let cached = Config {
        chunk_cache_bytes: 4 << 20,
        max_chunk_uncompressed_bytes: 4 << 20,
        max_host_memory_bytes: 0,
        ..small
    };
    stream(&cached, &vec![job; 4]);
}
