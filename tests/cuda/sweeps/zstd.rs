//! The kernels that decode zstd frames: what libzstd writes becomes its bytes, and of everything
//! else nothing is taken that libzstd does not take, or takes as other bytes.

use crate::cases::{POISON, Random};
use crate::cc;
use crate::common::effort;
use crate::sim::{Aligned, ORDERS, run_jobs};
use crate::sweeps::lz4::{KINDS, content};
use ::zstd::zstd_safe::{CCtx, CParameter};
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use wavetrain::decode::zstd_blocks::{BlockPlace, blocks, measure};
use wavetrain::device::{Stream, StreamStatus};

/// Bytes between the extents of frames, targets and scratch.
const GAP: usize = 48;
/// A frame.
const KIND: u32 = 3;

type Run = unsafe extern "C" fn(
    *const u8,
    u64,
    u64,
    u32,
    *mut u8,
    u64,
    u64,
    u32,
    *mut u8,
    u64,
    *mut u32,
    u32,
);

/// The kernels as a library; None, with a reason, where there is no compiler.
fn kernel() -> Option<Run> {
    static KERNEL: OnceLock<Option<Run>> = OnceLock::new();
    let load = || {
        let flags = ["zstd_sim.cpp", "zstd_sim.so", "-O2", "-shared", "-fPIC"];
        let path = cc::kernels("zstd_sim.so", &flags)?;
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a library of ours, which does nothing when it is loaded and stays for good.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null());
        // SAFETY: the library is loaded, and the function of zstd_sim.cpp has this type.
        unsafe {
            let found = libc::dlsym(library, c"sim_zstd".as_ptr());
            assert!(!found.is_null());
            Some(std::mem::transmute::<*mut c_void, Run>(found))
        }
    };
    *KERNEL.get_or_init(load)
}

/// What a frame is to become.
#[derive(Clone, Debug)]
enum Expected {
    /// These bytes, and it is to be taken.
    Sound(Vec<u8>),
    /// These bytes, if it is taken.
    Taken(Vec<u8>),
    /// It is refused.
    Refused,
}

/// Launches in the making.
#[derive(Clone, Default)]
struct Launch {
    sources: Vec<u8>,
    blocks: Vec<(BlockPlace, usize, u32)>,
    arena_bytes: usize,
    decoded_bytes: usize,
    streams: Vec<Stream>,
    expected: Vec<Expected>,
    /// Frames that the host's half refused.
    left_out: usize,
}

fn place(end: usize, skew: usize) -> usize {
    (end + GAP).next_multiple_of(16) + skew
}

impl Launch {
    /// Adds a frame, unless the host finds that it is none for a device.
    fn add(&mut self, frame: &[u8], bytes: usize, expected: Expected, skews: (usize, usize)) {
        let mut found = Vec::new();
        if blocks(frame, bytes as u64, |place| found.push(place)).is_err() {
            assert!(
                !matches!(expected, Expected::Sound(_)),
                "{:02x?}",
                &frame[..frame.len().min(40)]
            );
            self.left_out += 1;
            return;
        }
        let at = place(self.sources.len(), skews.0);
        self.sources.resize(at, 0xEE);
        self.sources.extend_from_slice(frame);
        let first = self.blocks.len();
        for block in found {
            let scratch = place(self.arena_bytes, 0);
            if block.kind as u32 == 2 {
                self.arena_bytes = scratch + block.bytes as usize;
            }
            self.blocks.push((block, at, (scratch / 16) as u32));
        }
        let target = place(self.decoded_bytes, skews.1);
        self.decoded_bytes = target + bytes;
        self.streams.push(Stream {
            source: first as u64,
            target: target as u64,
            source_bytes: (self.blocks.len() - first) as u32,
            target_bytes: bytes as u32,
            kind: KIND,
            scratch: measure(frame, bytes as u64).unwrap().block_bytes,
        });
        self.expected.push(expected);
    }

    /// Adds what a writer wrote.
    fn add_sound(&mut self, frame: &[u8], bytes: &[u8], skews: (usize, usize)) {
        self.add(frame, bytes.len(), Expected::Sound(bytes.to_vec()), skews);
    }

    /// Adds any bytes: libzstd says what they become.
    fn add_any(&mut self, frame: &[u8], bytes: usize, skews: (usize, usize)) {
        let mut target = vec![POISON; bytes];
        let count = ::zstd::zstd_safe::decompress(&mut target[..], frame);
        let expected = match count {
            Ok(count) if count == bytes => Expected::Taken(target),
            _ => Expected::Refused,
        };
        self.add(frame, bytes, expected, skews);
    }

    fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for (block, at, scratch) in &self.blocks {
            records.extend(((at + block.source.start) as u64).to_ne_bytes());
            records.extend(block.back.iter().flat_map(|back| back.to_ne_bytes()));
            records.extend((block.source.len() as u32).to_ne_bytes());
            records.extend((block.bytes as u32).to_ne_bytes());
            records.extend((block.kind as u32).to_ne_bytes());
            records.extend(scratch.to_ne_bytes());
        }
        for stream in &self.streams {
            records.extend(stream.to_bytes());
        }
        records
    }

    /// Runs it in every order: how many of those that may be refused were taken.
    fn check(&self, run: Run) -> usize {
        ORDERS.iter().map(|order| self.check_in(run, *order)).max().unwrap()
    }

    /// Runs it: the status words, the targets and the scratch.
    fn run(&self, run: Run, order: u32) -> (Vec<u32>, Aligned, Aligned) {
        let at = (self.sources.len() + GAP).next_multiple_of(16);
        let records = self.records();
        let mut wave = Aligned::new(at + records.len(), 0xEE);
        wave[..self.sources.len()].copy_from_slice(&self.sources);
        wave[at..].copy_from_slice(&records);
        let mut decoded = Aligned::new(self.decoded_bytes + GAP, POISON);
        let mut arena = Aligned::new(self.arena_bytes + GAP, POISON);
        let mut status = vec![0; self.streams.len() + 1];
        // SAFETY: all of it is as long as the kernels are told.
        unsafe {
            run(
                wave.as_ptr(),
                self.sources.len() as u64,
                at as u64,
                self.blocks.len() as u32,
                arena.as_mut_ptr(),
                self.arena_bytes as u64,
                (at + 32 * self.blocks.len()) as u64,
                self.streams.len() as u32,
                decoded.as_mut_ptr(),
                self.decoded_bytes as u64,
                status.as_mut_ptr(),
                order,
            );
        }
        assert_eq!(status.pop(), Some(0), "a word behind those of the frames");
        (status, decoded, arena)
    }

    fn check_in(&self, run: Run, order: u32) -> usize {
        let (status, mut decoded, mut arena) = self.run(run, order);
        let mut taken = 0;
        for (number, (stream, expected)) in self.streams.iter().zip(&self.expected).enumerate() {
            let target = &mut decoded[stream.target as usize..][..stream.target_bytes as usize];
            let is_taken = status[number] == StreamStatus::Decoded as u32;
            assert_ne!(status[number], 0, "frame {number} was not looked at");
            match expected {
                Expected::Sound(bytes) => {
                    let block = &self.blocks[stream.source as usize].0;
                    assert!(is_taken, "frame {number}: status {}, {block:?}", status[number]);
                    let wrong = target.iter().zip(bytes).position(|(a, b)| a != b);
                    assert_eq!(wrong, None, "frame {number}, order {order} of {}", bytes.len());
                }
                Expected::Taken(bytes) if is_taken => {
                    taken += 1;
                    assert!(target == bytes, "frame {number}, order {order}: other bytes");
                }
                Expected::Taken(_) => {}
                Expected::Refused => assert!(!is_taken, "frame {number}, order {order}"),
            }
            target.fill(POISON);
        }
        assert!(decoded.iter().all(|byte| *byte == POISON), "a gap was written");
        for (block, _, scratch) in &self.blocks {
            if block.kind as u32 == 2 {
                arena[16 * *scratch as usize..][..block.bytes as usize].fill(POISON);
            }
        }
        assert!(arena.iter().all(|byte| *byte == POISON), "a gap of the scratch was written");
        taken
    }
}

/// A frame by libzstd, without a checksum.
fn by_libzstd(bytes: &[u8], level: i32, parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(level)).unwrap();
    for parameter in parameters {
        context.set_parameter(*parameter).unwrap();
    }
    let mut frame = vec![0; ::zstd::zstd_safe::compress_bound(bytes.len()) + 1000];
    let count = context.compress2(&mut frame[..], bytes).unwrap();
    frame.truncate(count);
    frame
}

const LEVELS: [i32; 7] = [-5, 1, 3, 5, 9, 15, 19];

#[test]
fn small_frames_of_libzstd_are_decoded() {
    let Some(run) = kernel() else { return };
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    for pair in 0..256 {
        for kind in 0..KINDS {
            let count = random.choice(&[0, 1, 5, 12, 13, 30, 64, 130, 200, 280, 600, 2000]);
            let bytes = content(&mut random, kind, count);
            let frame = by_libzstd(&bytes, random.choice(&LEVELS), &[]);
            launch.add_sound(&frame, &bytes, (pair / 16, pair % 16));
        }
    }
    launch.check(run);
}

#[test]
fn large_frames_of_libzstd_are_decoded() {
    let Some(run) = kernel() else { return };
    let mut random = Random(0x2234_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    for kind in 0..KINDS {
        for level in LEVELS {
            let count = random.within(100_000, 500_000) as usize;
            let bytes = content(&mut random, kind, count);
            let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
            launch.add_sound(&by_libzstd(&bytes, level, &[]), &bytes, skews);
        }
    }
    assert!(launch.blocks.iter().any(|(block, ..)| block.back != [0; 4]), "nothing is repeated");
    launch.check(run);
}

/// Small frames of every kind of section: raw, repeated and coded literals in one stream and in
/// four, tables of every mode, blocks that repeat a tree and tables, offsets that repeat.
fn small_frames(random: &mut Random) -> Vec<(Vec<u8>, usize)> {
    let mut frames = Vec::new();
    for (kind, count) in (0..KINDS).flat_map(|kind| [(kind, 60), (kind, 400)]) {
        let bytes = content(random, kind, count);
        for level in [1, 19] {
            frames.push((by_libzstd(&bytes, level, &[]), count));
        }
    }
    // Few kinds of bytes, and little that is repeated: coded literals, and a tree for two blocks.
    let letters = |random: &mut Random, count: usize| -> Vec<u8> {
        (0..count).map(|_| b"aaaabbcdefgh"[random.within(0, 12) as usize]).collect()
    };
    let bytes = letters(random, 900);
    frames.push((by_libzstd(&bytes, 19, &[]), bytes.len()));
    frames.push((in_blocks(&bytes, 300, 3), bytes.len()));
    let bytes: Vec<u8> = (0..60).flat_map(|at| [at % 7, 1, 2, 3, 4 + at % 2, 9, at]).collect();
    frames.push((in_blocks(&bytes, 140, 19), bytes.len()));
    frames
}

/// A frame without its size, each block of which has so many bytes.
fn in_blocks(bytes: &[u8], block_bytes: usize, level: i32) -> Vec<u8> {
    use std::io::Write;
    let mut writer = ::zstd::stream::Encoder::new(Vec::new(), level).unwrap();
    for block in bytes.chunks(block_bytes) {
        writer.write_all(block).unwrap();
        writer.flush().unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn frames_that_were_written_bit_by_bit_are_decoded() {
    let Some(run) = kernel() else { return };
    let mut random = Random(0x3234_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    for number in 0..120 {
        let count = random.choice(&[1, 7, 100, 3000, 20_000, 150_000]);
        let bytes = content(&mut random, number % KINDS, count);
        let block_bytes = random.choice(&[count.div_ceil(9), count.div_ceil(3), count]);
        let frame = in_blocks(&bytes, block_bytes.max(1), random.choice(&LEVELS));
        let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
        launch.add_sound(&frame, &bytes, skews);
    }
    assert!(launch.blocks.iter().any(|(block, ..)| block.back != [0; 4]), "nothing is repeated");
    launch.check(run);
}

#[test]
fn frames_of_every_parameter_of_libzstd_are_decoded() {
    use ::zstd::zstd_safe::Strategy;
    let Some(run) = kernel() else { return };
    let mut random = Random(0x4234_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    let strategies = [
        Strategy::ZSTD_fast,
        Strategy::ZSTD_dfast,
        Strategy::ZSTD_greedy,
        Strategy::ZSTD_lazy,
        Strategy::ZSTD_lazy2,
        Strategy::ZSTD_btlazy2,
        Strategy::ZSTD_btopt,
        Strategy::ZSTD_btultra,
        Strategy::ZSTD_btultra2,
    ];
    for (number, strategy) in strategies.into_iter().cycle().take(54).enumerate() {
        let parameters = [
            CParameter::Strategy(strategy),
            CParameter::WindowLog(random.choice(&[10, 14, 17, 20])),
            CParameter::MinMatch(random.choice(&[3, 4, 5, 7])),
            CParameter::TargetLength(random.choice(&[0, 4, 32, 999])),
            CParameter::ContentSizeFlag(random.one_in(2)),
            CParameter::EnableLongDistanceMatching(random.one_in(4)),
        ];
        let count = random.choice(&[500, 9000, 140_000, 300_000]);
        let bytes = content(&mut random, number % KINDS, count);
        let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
        launch.add_sound(&by_libzstd(&bytes, 3, &parameters), &bytes, skews);
    }
    launch.check(run);
}

/// Runs what was broken, so many frames at a time: how many were taken, refused by the kernels, and
/// left out by the host's half.
fn hostile(frames: impl Iterator<Item = (Vec<u8>, usize)>, run: Run) -> [usize; 3] {
    let mut counts = [0; 3];
    let mut launch = Launch::default();
    let mut flush = |launch: &mut Launch| {
        let taken = launch.check(run);
        let here = [taken, launch.streams.len() - taken, launch.left_out];
        counts.iter_mut().zip(here).for_each(|(count, here)| *count += here);
        *launch = Launch::default();
    };
    for (number, (frame, bytes)) in frames.enumerate() {
        launch.add_any(&frame, bytes, (number % 16, number / 16 % 16));
        if launch.streams.len() == 2000 {
            flush(&mut launch);
        }
    }
    flush(&mut launch);
    counts
}

/// Every bit of small frames, flipped, or one in so many of them.
fn flips(random: &mut Random, one_in: usize) -> impl Iterator<Item = (Vec<u8>, usize)> + use<> {
    small_frames(random).into_iter().flat_map(move |(frame, bytes)| {
        (0..8 * frame.len()).step_by(one_in).map(move |bit| {
            let mut broken = frame.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            (broken, bytes)
        })
    })
}

#[test]
fn no_flip_of_a_bit_becomes_bytes_that_libzstd_does_not_give() {
    let Some(run) = kernel() else { return };
    let flips = flips(&mut Random(0x5234_5678_9ABC_DEF1), 1);
    let [taken, refused, left_out] = hostile(flips, run);
    println!("{taken} taken, {refused} refused, {left_out} left out");
    assert!(taken > 1000 && refused > 1000 && left_out > 100);
}

#[test]
fn no_frame_that_is_cut_is_taken() {
    let Some(run) = kernel() else { return };
    let frames = small_frames(&mut Random(0x6234_5678_9ABC_DEF1));
    let cuts = frames.iter().flat_map(|(frame, bytes)| {
        // The last block says how long it is, so that the host's half finds nothing wrong.
        let last = last_block(frame);
        (last + 3..frame.len()).map(move |end| {
            let mut cut = frame[..end].to_vec();
            let head = u32::from_le_bytes([cut[last], cut[last + 1], cut[last + 2], 0]);
            let head = head & 7 | ((end - last - 3) as u32) << 3;
            cut[last..last + 3].copy_from_slice(&head.to_le_bytes()[..3]);
            (cut, *bytes)
        })
    });
    let [taken, refused, left_out] = hostile(cuts, run);
    println!("{taken} taken, {refused} refused, {left_out} left out");
    assert!(refused > 200 && left_out > 100);
}

/// Where the head of a frame's last block lies.
fn last_block(frame: &[u8]) -> usize {
    let mut places = Vec::new();
    let bytes = ::zstd::zstd_safe::get_frame_content_size(frame).unwrap();
    let bytes = bytes.unwrap_or_else(|| ::zstd::decode_all(frame).unwrap().len() as u64);
    blocks(frame, bytes, |block| places.push(block.source.start - 3)).unwrap();
    *places.last().unwrap()
}

#[test]
fn what_is_garbage_behind_a_sound_head_is_refused_or_taken_as_libzstd_takes_it() {
    let Some(run) = kernel() else { return };
    let mut random = Random(0x7234_5678_9ABC_DEF1);
    let frames = small_frames(&mut random);
    let garbage: Vec<_> = (0..6000)
        .map(|_| {
            let (frame, bytes) = &frames[random.within(0, frames.len() as i64) as usize];
            let mut broken = frame.clone();
            let first = last_block(frame) + 3 + random.within(0, 12) as usize;
            for at in first..broken.len() {
                if random.one_in(3) {
                    broken[at] = (random.next() >> 24) as u8;
                }
            }
            (broken, *bytes)
        })
        .collect();
    let [taken, refused, _] = hostile(garbage.into_iter(), run);
    println!("{taken} taken, {refused} refused");
    assert!(refused > 1000);
}

#[test]
fn frames_that_the_format_forbids_are_refused() {
    let Some(run) = kernel() else { return };
    // An offset of 0, a stream of literals that is cut, and a table that takes less than it says.
    let forbidden: [&[u8]; 2] = [
        &[0x28, 0xB5, 0x2F, 0xFD, 0, 0, 0x45, 0, 0, 8, 0, 2, 0, 0x2F, 0x43, 0x0B, 0xAE],
        &[0x28, 0xB5, 0x2F, 0xFD, 0, 0, 0x55, 0, 0, 0x72, 0x80, 1, 4, 0x20, 0x7E, 0x1F, 2, 0xAA, 0],
    ];
    let mut looked_at = 0;
    for frame in forbidden {
        for bytes in [0, 1, 4, 18, 100, 131_072] {
            let mut launch = Launch::default();
            launch.add(frame, bytes, Expected::Refused, (3, 5));
            if !launch.streams.is_empty() {
                launch.check(run);
                looked_at += 1;
            }
        }
    }
    assert_eq!(looked_at, 12);
}

#[test]
fn records_that_lie_are_refused_and_nothing_of_theirs_is_touched() {
    let Some(run) = kernel() else { return };
    let mut random = Random(0x8234_5678_9ABC_DEF1);
    let frames = small_frames(&mut random);
    let mut refused = 0;
    for turn in 0..600 {
        let (launch, liar, is_truth_possible) = lying(&mut random, &frames, turn);
        refused += launch.lie(run, liar, is_truth_possible);
    }
    assert!(refused > 400, "{refused}");
}

/// Frames of which the record of one, or of one of its blocks, is a lie; which, and whether it may
/// be the truth for all that.
fn lying(random: &mut Random, frames: &[(Vec<u8>, usize)], turn: usize) -> (Launch, usize, bool) {
    let mut launch = Launch::default();
    for (frame, bytes) in &frames[turn % 4 * 6..][..6] {
        launch.add_any(frame, *bytes, (turn % 16, turn / 16 % 16));
    }
    let at = random.within(0, launch.blocks.len() as i64) as usize;
    let far = random.choice(&[1, 40, 4096, 1 << 20, u32::MAX as usize, usize::MAX / 2]);
    let has_it = |stream: &Stream| {
        (stream.source..stream.source + u64::from(stream.source_bytes)).contains(&(at as u64))
    };
    let number = launch.streams.iter().position(has_it).unwrap();
    let (sources, arena) = (launch.sources.len(), launch.arena_bytes);
    let (block, first, scratch) = &mut launch.blocks[at];
    let (stream, length) = (&mut launch.streams[number], block.source.len());
    // Without scratch it does not matter where that is, nor whose tables are none of a block's.
    let is_truth_possible = turn % 7 == 3 || turn % 7 == 2 && block.kind as u32 != 2;
    match turn % 7 {
        0 => *first = (sources + far).saturating_sub(length + block.source.start),
        1 => block.source.end = (block.source.start + sources).saturating_add(far),
        2 => *scratch = (arena / 16 + far.min(1 << 27)) as u32,
        3 => block.back = [60_000; 4],
        4 => stream.source_bytes = (far as u32).max(stream.source_bytes + 999),
        5 => stream.source = 1 << 40,
        _ => stream.target = far as u64 + (1 << 33),
    }
    launch.expected[number] = Expected::Refused;
    (launch, number, is_truth_possible)
}

impl Launch {
    /// Runs it in every order, where the record of a frame, or of one of its blocks, is a lie: the
    /// others become what they are, and nothing else is written. Whether it was refused, which it
    /// has to be, unless it may say the truth.
    fn lie(&self, run: Run, liar: usize, is_truth_possible: bool) -> usize {
        let mut refused = 0;
        for order in ORDERS {
            let (status, mut decoded, _) = self.run(run, order);
            for (number, (stream, expected)) in self.streams.iter().zip(&self.expected).enumerate()
            {
                let is_taken = status[number] == StreamStatus::Decoded as u32;
                if number == liar {
                    refused = usize::from(!is_taken);
                    assert!(!is_taken || is_truth_possible, "{stream:?}");
                }
                let Some(target) = (decoded.get_mut(stream.target as usize..))
                    .and_then(|rest| rest.get_mut(..stream.target_bytes as usize))
                else {
                    continue;
                };
                if let (Expected::Taken(bytes), true) = (expected, is_taken) {
                    assert!(target == bytes);
                }
                target.fill(POISON);
            }
            assert!(decoded.iter().all(|byte| *byte == POISON), "a gap was written");
        }
        refused
    }
}

impl Launch {
    /// What zstd_sim.cpp as a program reads.
    fn job(&self) -> Vec<u8> {
        let records = self.records();
        let mut expected = vec![0; self.decoded_bytes];
        let mut wanted = Vec::new();
        for (stream, expects) in self.streams.iter().zip(&self.expected) {
            let (code, bytes) = match expects {
                Expected::Refused => (0, &[][..]),
                Expected::Sound(bytes) => (1, &bytes[..]),
                Expected::Taken(bytes) => (2, &bytes[..]),
            };
            wanted.push(code);
            if code > 0 {
                expected[stream.target as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let head = [
            self.sources.len() + records.len(),
            self.sources.len(),
            self.sources.len(),
            self.blocks.len(),
            self.streams.len(),
            self.arena_bytes,
            self.decoded_bytes,
        ];
        let head: Vec<u8> = head.iter().flat_map(|number| number.to_ne_bytes()).collect();
        [&head, &self.sources, &records, &expected, &wanted[..]].concat()
    }
}

/// Everything that shows a guard to be needed.
fn all_jobs(one_in: usize) -> Vec<Vec<u8>> {
    let mut random = Random(0x9234_5678_9ABC_DEF1);
    let mut jobs = Vec::new();
    let mut launch = Launch::default();
    for (number, (frame, bytes)) in flips(&mut random, one_in).enumerate() {
        launch.add_any(&frame, bytes, (number % 16, number / 16 % 16));
        if launch.streams.len() == 1000 {
            jobs.push(std::mem::take(&mut launch).job());
        }
        // Alone, so that what lies behind a frame's is nobody's.
        let mut alone = Launch::default();
        alone.add_any(&frame, bytes, (0, 0));
        if number % 5 == 0 && !alone.streams.is_empty() {
            jobs.push(alone.job());
        }
    }
    let frames = small_frames(&mut random);
    let noise = random.bytes(700);
    let more = [in_blocks(&noise, 250, 1), in_blocks(&[7; 900], 300, 1)].map(|frame| (frame, 700));
    for (frame, bytes) in frames.iter().chain(&more) {
        let sound = ::zstd::decode_all(&frame[..]).unwrap();
        launch.add_sound(frame, &sound, (0, 0));
        // Targets for which a frame is too long, and too short.
        for bytes in [bytes / 2, bytes + 1] {
            launch.add_any(frame, bytes, (0, 0));
        }
    }
    for kind in 0..KINDS {
        let bytes = content(&mut random, kind, 5000);
        launch.add_sound(&by_libzstd(&bytes, 5, &[]), &bytes, (1, 1));
    }
    jobs.push(launch.job());
    let lies = (0..70).filter(|turn| turn % 7 != 3);
    jobs.extend(
        lies.map(|turn| lying(&mut random, &frames, turn)).filter_map(
            |(launch, _, is_truth_possible)| (!is_truth_possible).then(|| launch.job()),
        ),
    );
    jobs
}

const LANE: &str = "-DWAVETRAIN_LANES=1";
const PROGRAM: &str = "-DSIM_PROGRAM";
const SANITIZED: &str = "-fsanitize=address,undefined";

fn compiled(name: &str, flags: &[&str]) -> Option<PathBuf> {
    cc::kernels(name, &[&["zstd_sim.cpp", name], flags].concat())
}

#[test]
fn warps_touch_nothing_outside_of_what_is_theirs() {
    let Some(program) = compiled("zstd_asan", &["-O1", PROGRAM, SANITIZED]) else { return };
    run_jobs(&program, &all_jobs(30)).unwrap();
}

#[test]
fn warps_of_one_lane_do_the_same_and_touch_nothing_else() {
    let Some(program) = compiled("zstd_lane", &["-O1", PROGRAM, SANITIZED, LANE]) else { return };
    run_jobs(&program, &all_jobs(1)).unwrap();
}

#[test]
fn every_guard_of_the_kernels_is_needed() {
    let jobs = all_jobs(1);
    for mutation in effort::part(27..=33, 1) {
        let name = format!("zstd_mutated_{mutation}");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let flags = ["-O1", PROGRAM, "-fsanitize=address", LANE, "-w", &define];
        let Some(program) = compiled(&name, &flags) else { return };
        assert!(run_jobs(&program, &jobs).is_err(), "mutation {mutation} made no difference");
    }
}

#[test]
fn every_barrier_of_the_kernels_is_needed() {
    let jobs = all_jobs(30);
    for mutation in effort::part(34..=36, 1) {
        let name = format!("zstd_mutated_{mutation}");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let Some(program) = compiled(&name, &["-O1", PROGRAM, "-w", &define]) else { return };
        assert!(run_jobs(&program, &jobs).is_err(), "mutation {mutation} made no difference");
    }
}
