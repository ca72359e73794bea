//! The kernel that decodes LZ4 blocks: what liblz4 and c-blosc write becomes its bytes, and of
//! everything else it takes what the host's decoder takes.
//!
//! Streams of one launch lie side by side, with a gap between that nobody may touch.

use crate::cases::{POISON, Random};
use crate::cc;
use crate::common::effort;
use crate::sim::{Aligned, ORDERS, run_jobs};
use std::ffi::{CString, c_void};
use std::mem::offset_of;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use wavetrain::device::{Stream, StreamKind, StreamStatus};
use wavetrain::loops::lz4::block;

/// Bytes between the extents of streams.
const GAP: usize = 48;

type Run = unsafe extern "C" fn(*const u8, u64, u64, u32, *mut u8, u64, *mut u32, u32);
type Watch = unsafe extern "C" fn(*const [u64; 2], u64) -> u32;
type Number = unsafe extern "C" fn(u32) -> u64;

/// The kernel as a library.
struct Kernel {
    run: Run,
    watch: Watch,
    number: Number,
}

/// Of loads one test is told at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn compiled(name: &str, flags: &[&str]) -> Option<PathBuf> {
    cc::kernels(name, &[&["lz4_sim.cpp", name], flags].concat())
}

impl Kernel {
    /// None, with a reason, where there is no compiler.
    fn get() -> Option<&'static Kernel> {
        static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
        let load = || {
            let path = compiled("lz4_sim.so", &["-O2", "-shared", "-fPIC"])?;
            let path = CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: a library of ours, which does nothing when it is loaded and stays for good.
            let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            assert!(!library.is_null());
            let symbol = |name: &std::ffi::CStr| {
                // SAFETY: the library is loaded.
                let found = unsafe { libc::dlsym(library, name.as_ptr()) };
                assert!(!found.is_null());
                found
            };
            // SAFETY: the functions of lz4_sim.cpp have these types.
            unsafe {
                Some(Kernel {
                    run: std::mem::transmute::<*mut c_void, Run>(symbol(c"sim_lz4")),
                    watch: std::mem::transmute::<*mut c_void, Watch>(symbol(c"sim_watch")),
                    number: std::mem::transmute::<*mut c_void, Number>(symbol(c"sim_number")),
                })
            }
        };
        KERNEL.get_or_init(load).as_ref()
    }
}

/// A launch in the making.
#[derive(Clone, Default)]
struct Launch {
    sources: Vec<u8>,
    decoded_bytes: usize,
    streams: Vec<Stream>,
    /// What each becomes; None of what is to be refused.
    expected: Vec<Option<Vec<u8>>>,
}

/// The first place at least a gap behind `end` that is `skew` behind a multiple of 16.
fn place(end: usize, skew: usize) -> usize {
    (end + GAP).next_multiple_of(16) + skew
}

impl Launch {
    /// Adds a stream whose source and target begin so far behind a multiple of 16.
    fn add(
        &mut self,
        kind: StreamKind,
        source: &[u8],
        expected: (usize, Option<Vec<u8>>),
        skews: (usize, usize),
    ) {
        let at = place(self.sources.len(), skews.0);
        self.sources.resize(at, 0xEE);
        self.sources.extend_from_slice(source);
        let target = place(self.decoded_bytes, skews.1);
        self.decoded_bytes = target + expected.0;
        self.streams.push(Stream {
            source: at as u64,
            target: target as u64,
            source_bytes: source.len() as u32,
            target_bytes: expected.0 as u32,
            kind: kind as u32,
            scratch: 0,
        });
        self.expected.push(expected.1);
    }

    /// Adds a block that must become these bytes.
    fn add_sound(&mut self, source: &[u8], bytes: &[u8], skews: (usize, usize)) {
        self.add(StreamKind::Lz4, source, (bytes.len(), Some(bytes.to_vec())), skews);
    }

    /// Adds any bytes: the host's decoder says what they become.
    fn add_any(&mut self, source: &[u8], target_bytes: usize, skews: (usize, usize)) {
        let mut target = vec![POISON; target_bytes];
        let taken = block(source, &mut target) == Ok(target_bytes);
        self.add(StreamKind::Lz4, source, (target_bytes, taken.then_some(target)), skews);
    }

    fn records_at(&self) -> usize {
        (self.sources.len() + GAP).next_multiple_of(16)
    }

    fn record_bytes(&self) -> Vec<u8> {
        let words = |stream: &Stream| {
            let words = [stream.source_bytes, stream.target_bytes, stream.kind, stream.scratch];
            let places = [stream.source, stream.target].map(u64::to_ne_bytes);
            [places.concat(), words.map(u32::to_ne_bytes).concat()].concat()
        };
        self.streams.iter().flat_map(words).collect()
    }

    fn wave(&self) -> Aligned {
        let at = self.records_at();
        let records = self.record_bytes();
        let mut wave = Aligned::new(at + records.len(), 0xEE);
        wave[..self.sources.len()].copy_from_slice(&self.sources);
        wave[at..].copy_from_slice(&records);
        wave
    }

    /// Runs it: the status words and the arena.
    fn run(&self, kernel: &Kernel, order: u32) -> (Vec<u32>, Aligned) {
        let wave = self.wave();
        let mut decoded = Aligned::new(self.decoded_bytes + GAP, POISON);
        let mut status = vec![0; self.streams.len() + 1];
        let base = wave.as_ptr() as u64;
        let target = decoded.as_ptr() as u64;
        let mut extents = Vec::new();
        let limits = [self.sources.len(), self.decoded_bytes].map(|limit| limit as u64);
        for s in &self.streams {
            let ours = [(base, s.source, s.source_bytes), (target, s.target, s.target_bytes)];
            for ((base, at, bytes), limit) in ours.into_iter().zip(limits) {
                if let Some(end) = at.checked_add(u64::from(bytes)).filter(|end| *end <= limit) {
                    extents.push([base + at, base + end]);
                }
            }
        }
        // A load is looked for among all extents.
        let watched = if extents.len() < 600 { extents.len() } else { 0 };
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the extents live until they are taken back; the wave, the arena and the words of
        // status are as long as the kernel is told.
        let strays = unsafe {
            (kernel.watch)(extents.as_ptr(), watched as u64);
            (kernel.run)(
                wave.as_ptr(),
                self.sources.len() as u64,
                self.records_at() as u64,
                self.streams.len() as u32,
                decoded.as_mut_ptr(),
                self.decoded_bytes as u64,
                status.as_mut_ptr(),
                order,
            );
            (kernel.watch)(std::ptr::null(), 0)
        };
        assert_eq!(strays, 0, "loads outside of the streams");
        assert_eq!(status.pop(), Some(0), "a word behind those of the streams");
        (status, decoded)
    }

    /// Runs it in every order: what is taken, what it becomes, and that nothing else changes.
    fn check(&self, kernel: &Kernel) -> Vec<u32> {
        let mut last = Vec::new();
        for order in ORDERS {
            let (status, mut decoded) = self.run(kernel, order);
            for (number, (stream, expected)) in self.streams.iter().zip(&self.expected).enumerate()
            {
                let target = &mut decoded[stream.target as usize..][..stream.target_bytes as usize];
                let is_taken = status[number] == StreamStatus::Decoded as u32;
                let source = &self.sources[stream.source as usize..];
                let source = &source[..stream.source_bytes.min(400) as usize];
                assert_eq!(
                    is_taken,
                    expected.is_some(),
                    "stream {number}, order {order}, {stream:?}, status {}: {source:02x?}",
                    status[number],
                );
                if let Some(bytes) = expected {
                    assert!(target == bytes, "stream {number}, order {order}, {stream:?}");
                }
                target.fill(POISON);
            }
            assert!(decoded.iter().all(|byte| *byte == POISON), "a gap was written");
            last = status;
        }
        last
    }

    /// What lz4_sim.cpp as a program reads.
    fn job(&self) -> Vec<u8> {
        let wave = self.wave();
        let mut arena = vec![0; self.decoded_bytes];
        let mut taken = Vec::new();
        for (stream, expected) in self.streams.iter().zip(&self.expected) {
            taken.push(u8::from(expected.is_some()));
            if let Some(bytes) = expected {
                arena[stream.target as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let head = [
            wave.len() as u64,
            self.sources.len() as u64,
            self.records_at() as u64,
            self.streams.len() as u64,
            arena.len() as u64,
        ];
        let head: Vec<u8> = head.iter().flat_map(|number| number.to_ne_bytes()).collect();
        [&head, &wave[..], &arena, &taken].concat()
    }
}

/// Who writes a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    Default,
    Fast,
    Hc(i32),
}

const WRITERS: [Writer; 4] = [Writer::Default, Writer::Fast, Writer::Hc(4), Writer::Hc(12)];

/// A block by liblz4.
fn by_liblz4(bytes: &[u8], writer: Writer) -> Vec<u8> {
    let mut source = vec![0; bytes.len() + bytes.len() / 255 + 20];
    let (from, to) = (bytes.as_ptr().cast(), source.as_mut_ptr().cast());
    let (count, room) = (bytes.len() as i32, source.len() as i32);
    // SAFETY: both buffers are live and as long as the call is told.
    let made = unsafe {
        match writer {
            Writer::Default => lz4_sys::LZ4_compress_default(from, to, count, room),
            Writer::Fast => lz4_sys::LZ4_compress_fast(from, to, count, room, 20),
            Writer::Hc(level) => lz4_sys::LZ4_compress_HC(from, to, count, room, level),
        }
    };
    assert!(made > 0);
    source.truncate(made as usize);
    source
}

/// Bytes of many kinds: noise, one byte, a short period, words, noisy voxels, far repeats.
pub fn content(random: &mut Random, kind: usize, bytes: usize) -> Vec<u8> {
    let noise = |random: &mut Random| (random.next() >> 24) as u8;
    let mut made = Vec::with_capacity(bytes + 300);
    let period = random.within(1, 65) as usize;
    while made.len() < bytes {
        match kind {
            0 => made.push(noise(random)),
            1 => made.push(7),
            2 if made.len() < period => made.push(noise(random)),
            2 => made.push(made[made.len() - period]),
            3 => {
                made.extend_from_slice(random.choice(&[b"plane ", b"of the", b"voxel ", b"sheet "]))
            }
            4 => made.extend([noise(random) & 31, 1]),
            _ if made.len() < 300 || random.one_in(3) => {
                let count = random.within(1, 200) as usize;
                made.extend(random.bytes(count));
            }
            _ => {
                // A match from anywhere an offset reaches, of any length.
                let back = random.within(1, made.len().min(65_535) as i64 + 1) as usize;
                let count = random.choice(&[4, 9, 18, 19, 40, 127, 128, 129, 300, 1000]);
                (0..count).for_each(|_| made.push(made[made.len() - back]));
            }
        }
    }
    made.truncate(bytes);
    made
}

pub const KINDS: usize = 6;

#[test]
fn numbers_of_the_record_and_the_kernel_are_those_of_the_library() {
    let Some(kernel) = Kernel::get() else { return };
    let ours = [
        offset_of!(Stream, source) as u64,
        offset_of!(Stream, target) as u64,
        offset_of!(Stream, source_bytes) as u64,
        offset_of!(Stream, target_bytes) as u64,
        offset_of!(Stream, kind) as u64,
        offset_of!(Stream, scratch) as u64,
        Stream::BYTES,
        u64::from(Stream::IN_BLOCK),
        u64::from(Stream::BYTES_MAX),
        StreamKind::Nothing as u64,
        StreamKind::Copy as u64,
        StreamKind::Lz4 as u64,
        StreamStatus::Decoded as u64,
        StreamStatus::Kind as u64,
        StreamStatus::Outside as u64,
        StreamStatus::Cut as u64,
        StreamStatus::Offset as u64,
        StreamStatus::TooLong as u64,
        StreamStatus::TooShort as u64,
        u64::MAX,
    ];
    for (number, value) in ours.into_iter().enumerate() {
        // SAFETY: it reads a table, whose end it knows.
        assert_eq!(unsafe { (kernel.number)(number as u32) }, value, "number {number}");
    }
}

/// Small blocks of every kind at every pair of alignments.
fn small_blocks(random: &mut Random) -> Launch {
    let mut launch = Launch::default();
    for pair in 0..256 {
        for kind in 0..KINDS {
            let count = random.choice(&[0, 1, 5, 12, 13, 30, 64, 130, 200, 280, 600]);
            let bytes = content(random, kind, count);
            let writer = random.choice(&WRITERS);
            launch.add_sound(&by_liblz4(&bytes, writer), &bytes, (pair / 16, pair % 16));
        }
    }
    launch
}

#[test]
fn small_blocks_of_liblz4_are_decoded_at_every_alignment() {
    let Some(kernel) = Kernel::get() else { return };
    small_blocks(&mut Random(0x1234_5678_9ABC_DEF1)).check(kernel);
}

#[test]
fn every_size_from_0_on_is_decoded() {
    let Some(kernel) = Kernel::get() else { return };
    let mut random = Random(0x2222_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    for count in (0..300).chain([511, 512, 513, 1023, 1024, 1025]) {
        let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
        let bytes = content(&mut random, count % KINDS, count);
        launch.add_sound(&by_liblz4(&bytes, Writer::Default), &bytes, skews);
    }
    launch.check(kernel);
}

/// Every period up to a warp and beyond, long enough for every way to repeat it.
fn periods(random: &mut Random) -> Launch {
    let mut launch = Launch::default();
    for period in (1..=66).chain([96, 127, 128, 129, 255, 256, 1000]) {
        for count in [20, 150, 161, 700, 5000] {
            let mut bytes = random.bytes(period);
            (0..count).for_each(|at| bytes.push(bytes[at]));
            let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
            launch.add_sound(&by_liblz4(&bytes, Writer::Hc(9)), &bytes, skews);
        }
    }
    launch
}

#[test]
fn matches_of_every_period_are_repeated() {
    let Some(kernel) = Kernel::get() else { return };
    periods(&mut Random(0x3333_5678_9ABC_DEF1)).check(kernel);
}

#[test]
fn large_blocks_with_far_matches_and_long_runs_are_decoded() {
    let Some(kernel) = Kernel::get() else { return };
    let mut random = Random(0x4444_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    for kind in 0..KINDS {
        for writer in WRITERS {
            let count = random.within(60_000, 70_000) as usize;
            let bytes = content(&mut random, kind, count);
            let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
            launch.add_sound(&by_liblz4(&bytes, writer), &bytes, skews);
        }
    }
    // The farthest match there is, behind the longest literals.
    let mut bytes = random.bytes(65_535);
    bytes.extend_from_within(..5000);
    launch.add_sound(&by_liblz4(&bytes, Writer::Hc(12)), &bytes, (1, 3));
    let bytes = content(&mut random, 5, 400_000);
    launch.add_sound(&by_liblz4(&bytes, Writer::Default), &bytes, (8, 15));
    launch.check(kernel);
}

/// The streams of a chunk by c-blosc: whether each is stored, its bytes, and how many it becomes.
fn streams_of(chunk: &[u8]) -> Vec<(bool, Vec<u8>, usize)> {
    let word = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap()) as usize;
    let (flags, typesize, bytes, block_bytes) = (chunk[2], usize::from(chunk[3]), word(4), word(8));
    assert_eq!((flags & 2, flags >> 5), (0, 1), "blocks of lz4");
    let mut streams = Vec::new();
    for block in 0..bytes.div_ceil(block_bytes) {
        let here = block_bytes.min(bytes - block * block_bytes);
        let is_split = flags & 16 == 0 && typesize <= 16 && here == block_bytes;
        let count = if is_split && block_bytes / typesize >= 128 { typesize } else { 1 };
        let mut at = word(16 + 4 * block);
        for _ in 0..count {
            let length = word(at);
            let source = chunk[at + 4..][..length].to_vec();
            streams.push((length == here / count, source, here / count));
            at += 4 + length;
        }
    }
    streams
}

#[test]
fn every_stream_that_c_blosc_writes_is_decoded_or_copied() {
    let Some(kernel) = Kernel::get() else { return };
    let mut random = Random(0x5555_5678_9ABC_DEF1);
    let mut launch = Launch::default();
    let mut stored = 0;
    for name in [c"lz4", c"lz4hc"] {
        for (typesize, shuffle) in [(1, 0), (2, 1), (4, 1), (2, 2), (8, 1)] {
            for kind in [2, 3, 4, 5] {
                let bytes = content(&mut random, kind, 40_000);
                let mut chunk = vec![0; bytes.len() + 16];
                // SAFETY: both buffers are live and as long as the call is told.
                let made = unsafe {
                    blosc_src::blosc_compress_ctx(
                        5,
                        shuffle,
                        typesize,
                        bytes.len(),
                        bytes.as_ptr().cast(),
                        chunk.as_mut_ptr().cast(),
                        chunk.len(),
                        name.as_ptr(),
                        0,
                        1,
                    )
                };
                assert!(made > 0);
                for (is_stored, source, count) in streams_of(&chunk[..made as usize]) {
                    let mut target = vec![0; count];
                    let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
                    if is_stored {
                        let expected = (count, Some(source.clone()));
                        launch.add(StreamKind::Copy, &source, expected, skews);
                        stored += 1;
                        continue;
                    }
                    assert_eq!(block(&source, &mut target), Ok(count));
                    launch.add_sound(&source, &target, skews);
                }
            }
        }
    }
    assert!(stored > 3 && launch.streams.len() > 60, "{stored} of {}", launch.streams.len());
    launch.check(kernel);
}

/// Copies of many sizes at every pair of alignments, and what has nothing to be done.
fn copies(random: &mut Random) -> Launch {
    let mut launch = Launch::default();
    for pair in 0..256 {
        let count = random.choice(&[0, 1, 15, 16, 40, 129, 144, 145, 160, 161, 300, 1041]);
        let bytes = random.bytes(count);
        let skews = (pair / 16, pair % 16);
        launch.add(StreamKind::Copy, &bytes, (count, Some(bytes.clone())), skews);
    }
    let bytes = random.bytes(30_000);
    launch.add(StreamKind::Copy, &bytes, (bytes.len(), Some(bytes.clone())), (3, 6));
    launch.add(StreamKind::Copy, &bytes, (bytes.len() + 1, None), (3, 6));
    launch.add(StreamKind::Copy, &bytes, (bytes.len() - 1, None), (3, 6));
    launch.add(StreamKind::Nothing, &bytes, (20, Some(vec![POISON; 20])), (5, 2));
    launch
}

#[test]
fn copies_of_any_size_and_alignment_are_the_bytes() {
    let Some(kernel) = Kernel::get() else { return };
    copies(&mut Random(0x6666_5678_9ABC_DEF1)).check(kernel);
}

/// Sound blocks that have every way to copy in few bytes.
fn seeds(random: &mut Random) -> Vec<(Vec<u8>, usize)> {
    let mut contents = vec![
        b"a rose is a rose is a rose is a rose, said she".to_vec(),
        vec![3; 700],
        content(random, 0, 24),
        content(random, 2, 150),
        content(random, 4, 90),
    ];
    // Literals and a match of more than a wide copy.
    let mut long = random.bytes(170);
    long.extend_from_within(5..160);
    contents.push(long);
    let made = |bytes: &Vec<u8>| (by_liblz4(bytes, Writer::Hc(12)), bytes.len());
    contents.iter().map(made).collect()
}

/// Every bit of the seeds flipped, every cut, targets that are one too small or large, and noise;
/// one of `share` of them.
fn hostile(random: &mut Random, share: i64) -> Launch {
    let mut launch = Launch::default();
    let mut add = |random: &mut Random, source: &[u8], target_bytes: usize| {
        if random.one_in(share) {
            let skews = (random.within(0, 16) as usize, random.within(0, 16) as usize);
            launch.add_any(source, target_bytes, skews);
        }
    };
    for (source, count) in seeds(random) {
        for at in 0..source.len() {
            for bit in 0..8 {
                let mut mutant = source.clone();
                mutant[at] ^= 1 << bit;
                add(random, &mutant, count);
            }
            add(random, &source[..at], count);
        }
        for wrong in [count - 1, count + 1, 0, count * 2] {
            add(random, &source, wrong);
        }
        add(random, &source, count);
    }
    for _ in 0..1500 {
        let count = random.within(0, 60) as usize;
        let mut source = random.bytes(count);
        // Small numbers make more sequences that nearly fit.
        source.iter_mut().for_each(|byte| *byte &= 0x33);
        let target_bytes = random.within(0, 120) as usize;
        let mut room = vec![0; 4096];
        let fits = block(&source, &mut room).unwrap_or(target_bytes);
        add(random, &source, fits);
        add(random, &source, target_bytes);
    }
    launch
}

#[test]
fn of_hostile_blocks_it_takes_what_the_host_takes() {
    let Some(kernel) = Kernel::get() else { return };
    let launch = hostile(&mut Random(0x7777_5678_9ABC_DEF1), 1);
    let taken = launch.expected.iter().flatten().count();
    let all = launch.streams.len();
    assert!(all > 5000 && taken > 1000 && all - taken > 2000, "{taken} of {all}");
    let status = launch.check(kernel);
    for kind in [StreamStatus::Cut, StreamStatus::Offset, StreamStatus::TooLong] {
        assert!(status.contains(&(kind as u32)), "{kind:?}");
    }
    assert!(status.contains(&(StreamStatus::TooShort as u32)));
}

/// Records that lie, each beside sound ones: nothing of theirs may be touched.
fn lies(random: &mut Random) -> Launch {
    let bytes = b"a rose is a rose is a rose is a rose".to_vec();
    let source = by_liblz4(&bytes, Writer::Default);
    let mut launch = Launch::default();
    let limits = {
        launch.add_sound(&source, &bytes, (4, 9));
        // Where those that lie in one thing only have the other.
        let spare = (bytes.len(), Some(vec![POISON; bytes.len()]));
        launch.add(StreamKind::Nothing, &source, spare, (4, 9));
        launch.add_sound(&source, &bytes, (4, 9));
        (launch.sources.len() as u64, launch.decoded_bytes as u64)
    };
    let sound = launch.streams[1];
    let (encoded, decoded) = (u64::from(sound.source_bytes), u64::from(sound.target_bytes));
    let far = [u64::MAX, u64::MAX - 8, 1 << 63, 1 << 32, (1 << 32) + sound.source];
    let mut records = Vec::new();
    let sources = [limits.0 - encoded + 1, limits.0, limits.0.wrapping_sub(encoded << 32)];
    let targets = [limits.1 - decoded + 1, limits.1, 0u64.wrapping_sub(decoded)];
    for kind in [StreamKind::Copy as u32, StreamKind::Lz4 as u32] {
        records.extend(far.iter().chain(&sources).map(|at| Stream { source: *at, kind, ..sound }));
        records.extend(far.iter().chain(&targets).map(|at| Stream { target: *at, kind, ..sound }));
        for count in [u32::MAX, u32::MAX - 16, 1 << 31, limits.0 as u32 + 1] {
            records.push(Stream { source_bytes: count, kind, ..sound });
            records.push(Stream { target_bytes: limits.1 as u32 + count % 1024, kind, ..sound });
            records.push(Stream { target_bytes: count, kind, ..sound });
        }
    }
    for kind in [4, 5, 1 << 31, u32::MAX, 0x0100, 0x0002_0000] {
        records.push(Stream { kind, ..sound });
    }
    for record in records {
        let at = random.within(0, launch.streams.len() as i64 + 1) as usize;
        launch.streams.insert(at, record);
        launch.expected.insert(at, None);
    }
    launch
}

#[test]
fn records_that_lie_are_refused_and_nothing_of_theirs_is_touched() {
    let Some(kernel) = Kernel::get() else { return };
    let launch = lies(&mut Random(0x8888_5678_9ABC_DEF1));
    for order in ORDERS {
        let (status, mut decoded) = launch.run(kernel, order);
        for (number, stream) in launch.streams.iter().enumerate() {
            let Some(bytes) = &launch.expected[number] else {
                let outside = [StreamStatus::Outside as u32, StreamStatus::Kind as u32];
                assert!(outside.contains(&status[number]), "{stream:?}: {}", status[number]);
                continue;
            };
            assert_eq!(status[number], StreamStatus::Decoded as u32);
            let target = &mut decoded[stream.target as usize..][..bytes.len()];
            assert!(target == bytes);
            target.fill(POISON);
        }
        assert!(decoded.iter().all(|byte| *byte == POISON), "something else was written");
    }
}

/// A length of 2^32 and 14 in front of 14 literals.
fn overflowing() -> Launch {
    let mut source = vec![0xF0];
    source.resize(1 + 16_843_009, 255);
    source.push(0);
    source.extend(0..14);
    let mut launch = Launch::default();
    launch.add_any(&source, 14, (0, 0));
    assert!(launch.expected[0].is_none());
    launch
}

const LANE: &str = "-DWAVETRAIN_LANES=1";
const PROGRAM: &str = "-DSIM_PROGRAM";
const SANITIZED: &str = "-fsanitize=address,undefined";

#[test]
fn warps_touch_nothing_outside_of_their_streams() {
    let Some(program) = compiled("lz4_asan", &["-O1", PROGRAM, SANITIZED]) else { return };
    let mut random = Random(0x9999_5678_9ABC_DEF1);
    let jobs = [hostile(&mut random, 10), copies(&mut random), lies(&mut random)];
    run_jobs(&program, &jobs.map(|launch| launch.job())).unwrap();
}

/// Everything that shows a guard to be needed.
fn all_jobs() -> Vec<Vec<u8>> {
    let mut random = Random(0xAAAA_5678_9ABC_DEF1);
    let random = &mut random;
    let jobs = [small_blocks(random), periods(random), copies(random), hostile(random, 1)];
    let mut jobs = jobs.map(|launch| launch.job()).to_vec();
    jobs.extend([lies(random).job(), overflowing().job()]);
    jobs
}

#[test]
fn warps_of_one_lane_do_the_same_and_touch_nothing_else() {
    let Some(program) = compiled("lz4_lane", &["-O1", PROGRAM, SANITIZED, LANE]) else { return };
    run_jobs(&program, &all_jobs()).unwrap();
}

#[test]
fn every_guard_of_the_kernel_is_needed() {
    let jobs = all_jobs();
    for mutation in effort::part([11, 12, 13, 14, 15, 16, 19, 21, 22, 23, 24], 1) {
        let name = format!("lz4_mutated_{mutation}");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let flags = ["-O1", PROGRAM, "-fsanitize=address", LANE, "-w", &define];
        let Some(program) = compiled(&name, &flags) else { return };
        assert!(run_jobs(&program, &jobs).is_err(), "mutation {mutation} made no difference");
    }
}

#[test]
fn every_barrier_of_the_kernel_is_needed() {
    let mut random = Random(0xBBBB_5678_9ABC_DEF1);
    let jobs = [small_blocks(&mut random), periods(&mut random)].map(|launch| launch.job());
    for mutation in effort::part([17, 18, 20, 25, 26], 1) {
        let name = format!("lz4_mutated_{mutation}");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let Some(program) = compiled(&name, &["-O1", PROGRAM, "-w", &define]) else { return };
        assert!(run_jobs(&program, &jobs).is_err(), "mutation {mutation} made no difference");
    }
}
