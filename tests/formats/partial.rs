//! What a box does not need: damage there is not looked at, unless a checksum covers it, and the
//! answer is the same for every number of threads, wave geometry and thread mode.

use crate::common::damage::{outcomes, u16_config};
use crate::common::drive::{Dice, Job, config, stream};
use crate::common::fixtures::Scratch;
use crate::common::oracle::{Image, Pad};
use crate::common::synth::Meta;
use std::sync::Arc;
use wavetrain::config::{Config, PAD_EDGE, PAD_NONE, PAD_REFLECT, THREADS_PUMP};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Elements of the one chunk: 400,000 bytes, so that zstd makes four blocks.
const ELEMENTS: u64 = 200_000;

const HEAD: i64 = 500;

fn pixels() -> Vec<u8> {
    let value = |at: u64| (at * at / 977 + at / 3) as u16;
    (0..ELEMENTS).flat_map(|at| value(at).to_le_bytes()).collect()
}

fn zstd(bytes: &[u8], checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::bulk::Compressor::new(3).unwrap();
    encoder.include_checksum(checksum).unwrap();
    encoder.compress(bytes).unwrap()
}

/// Writes an array of one chunk, encoded as `codecs` say, with one byte near its end flipped.
fn damaged(scratch: &Scratch, name: &str, codecs: &'static str, mut encoded: Vec<u8>) -> String {
    let at = encoded.len() - 700;
    encoded[at] ^= 0x24;
    let meta = Meta { codecs, ..Meta::u16(&[ELEMENTS], &[ELEMENTS], None) };
    meta.write(scratch, name, Some(&encoded))
}

/// A box in front of the chunk and one behind it, twice: apart and in one batch. What each gives
/// under every config must be the same; returns it.
fn head_and_tail(uri: &str) -> Vec<(Option<Status>, Vec<u8>)> {
    let tail = ELEMENTS as i64 - HEAD;
    let job = |begin: i64| Job::new(uri, (vec![begin], vec![begin + HEAD]), Vec::new());
    let jobs = [job(7), job(7), job(tail), job(tail)];
    let apart = Config { lookahead_samples: 16, ..u16_config(&[HEAD as u64], 2) };
    let configs = [
        apart,
        Config { n_decode_threads: 1, n_io_threads: 1, ..apart },
        Config { n_decode_threads: 4, n_io_threads: 4, ..apart },
        Config { thread_mode: THREADS_PUMP, ..apart },
        Config { max_chunks_per_wave: 1, host_buffer_waves: 2, ..apart },
        Config { samples_per_batch: 1, ..apart },
    ];
    let seen = configs.map(|config| outcomes(&config, &jobs));
    for other in &seen {
        let statuses = |seen: &[(Option<Status>, Vec<u8>)]| -> Vec<_> {
            seen.iter().map(|(status, _)| *status).collect()
        };
        assert_eq!(statuses(other), statuses(&seen[0]));
        assert_eq!(other[0].1, seen[0][0].1);
    }
    seen[0].clone()
}

#[test]
fn damage_behind_the_needed_bytes_of_a_plain_zstd_frame_is_not_looked_at() {
    let scratch = Scratch::new();
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;
    let uri = damaged(&scratch, "plain", codecs, zstd(&pixels(), false));
    let seen = head_and_tail(&uri);
    assert_eq!(seen[0].0, Some(Status::Ok));
    assert_eq!(seen[0].1, pixels()[14..][..2 * HEAD as usize]);
    // Nothing covers the tail: it is either refused by zstd itself or wrong, but it is read.
    assert!(seen[2].0 == Some(Status::Decode) || seen[2].1 != pixels()[399_000..]);
}

#[test]
fn damage_anywhere_under_a_checksum_fails_every_box_of_the_chunk() {
    let scratch = Scratch::new();
    let zstd_codec = r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
    let uri = damaged(&scratch, "frame", zstd_codec, zstd(&pixels(), true));
    let failed = |uri: &str| {
        let seen = head_and_tail(uri);
        assert!(seen.iter().all(|(status, _)| *status == Some(Status::Decode)), "{uri}");
    };
    failed(&uri);
    let with_crc = |mut bytes: Vec<u8>| {
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    };
    let suffix = r#",{"name":"zstd","configuration":{"level":3}},{"name":"crc32c"}"#;
    failed(&damaged(&scratch, "suffix", suffix, with_crc(zstd(&pixels(), false))));
    let inner = r#",{"name":"crc32c"},{"name":"zstd","configuration":{"level":3}}"#;
    failed(&damaged(&scratch, "inner", inner, zstd(&with_crc(pixels()), false)));
    failed(&damaged(&scratch, "raw", r#",{"name":"crc32c"}"#, with_crc(pixels())));
}

#[test]
fn a_broken_blosc_block_outside_the_box_is_not_looked_at() {
    const CODEC: &str = r#",{"name":"blosc","configuration":{"cname":"zstd","clevel":1,
        "shuffle":"shuffle","typesize":2,"blocksize":0}}"#;
    let scratch = Scratch::new();
    // Four blocks of 32 KiB, the last one shorter.
    let mut encoded = include_bytes!("../data/blosc/middle_100000_t2_c1_s1.blosc").to_vec();
    let meta = Meta { codecs: CODEC, ..Meta::u16(&[50_000], &[50_000], None) };
    let job = |uri: &str, begin: i64| Job::new(uri, (vec![begin], vec![begin + HEAD]), Vec::new());
    let config = Config { lookahead_samples: 16, ..u16_config(&[HEAD as u64], 1) };
    let sound = meta.write(&scratch, "sound", Some(&encoded));
    let mut dice = Dice(77);
    let begins: Vec<i64> = (0..12).map(|_| dice.range(0, 50_000 - HEAD)).collect();
    let jobs: Vec<Job> = begins.iter().map(|begin| job(&sound, *begin)).collect();
    let whole = outcomes(&config, &jobs);
    // The offset of block 2, which holds the elements 32,768 to 49,152.
    encoded[16 + 8..16 + 12].copy_from_slice(&3u32.to_le_bytes());
    let broken = meta.write(&scratch, "broken", Some(&encoded));
    let jobs: Vec<Job> = begins.iter().map(|begin| job(&broken, *begin)).collect();
    let mut failed = 0;
    for ((begin, seen), good) in begins.iter().zip(outcomes(&config, &jobs)).zip(whole) {
        let needs_it = *begin < 49_152 && begin + HEAD > 32_768;
        let expected = if needs_it { Status::Decode } else { Status::Ok };
        assert_eq!(seen.0, Some(expected), "box at {begin}");
        failed += needs_it as u32;
        assert!(needs_it || seen.1 == good.1, "box at {begin}");
    }
    assert!(failed > 0 && failed < 12, "{failed}");
}

#[test]
fn strips_of_uncompressed_chunks_come_out_right_whatever_the_box_and_what_pads_it() {
    // One chunk of 512 KiB in planes of 8 KiB: narrow boxes leave 4 KiB and more of each out, which
    // is then not read, wide ones do not.
    const EDGE: i64 = 64;
    let scratch = Scratch::new();
    let value = |at: u32| (at.wrapping_mul(40_503) >> 3) as u16;
    let pixels: Vec<u8> = (0..64u32 * 64 * 64).flat_map(|at| value(at).to_le_bytes()).collect();
    let uri = Meta::u16(&[64; 3], &[64; 3], None).write(&scratch, "raw", Some(&pixels));
    let image = Image::new(Dtype::U16, vec![64; 3], Arc::new(pixels), vec![7, 0]);
    let mut dice = Dice(99);
    for (shape, mode, pad) in [
        ([40, 10, 20], PAD_NONE, Pad::None),
        ([40, 60, 64], PAD_NONE, Pad::None),
        ([1, 64, 64], PAD_NONE, Pad::None),
        ([64, 1, 1], PAD_NONE, Pad::None),
        ([50, 20, 30], PAD_REFLECT, Pad::Reflect),
        ([90, 20, 30], PAD_EDGE, Pad::Edge),
    ] {
        let mut begin = |axis: usize| match mode {
            PAD_NONE => dice.range(0, EDGE - shape[axis] + 1),
            _ => dice.range(1 - shape[axis].min(20), EDGE - 10),
        };
        let mut boxes = Vec::new();
        for _ in 0..24 {
            let first = vec![begin(0), begin(1), begin(2)];
            let end: Vec<i64> = first.iter().zip(shape).map(|(at, edge)| at + edge).collect();
            let want = image.crop(&first, &end, pad, &[]);
            boxes.push(Job::new(&uri, (first, end), want));
        }
        let base = Config { pad_mode: mode, ..config(Dtype::U16, &shape.map(|n| n as u64), 3) };
        for config in [base, Config { thread_mode: THREADS_PUMP, samples_per_batch: 1, ..base }] {
            stream(&config, &boxes);
        }
    }
}
