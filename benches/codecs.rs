//! GB/s of the dictionary coders, beside the C libraries that everybody else uses.
//!
//! `cargo bench --bench codecs [-- WORD]` prints the rows whose name contains WORD: what is
//! compressed, by which codec, the elements and the shuffle; how many times smaller it became; then
//! pairs of rates, ours and theirs, and ours by theirs. `streams` are the streams of a chunk one by
//! one, as c-blosc cut and wrote them: against LZ4_decompress_safe and blosclz_decompress. `chunk` is
//! all of it: against blosc_decompress_ctx. A gzip member is decoded whole, its checksum included:
//! against libdeflate first, then against zlib-rs; a bz2 stream likewise, against
//! libbz2-rs, and an .xz stream of preset 6, against liblzma. scale_offset of float32, and cast_value
//! from int16 to float32 with a value that becomes NaN, and back with a clamp, are measured against
//! plain loops.
//!
//! Rates are of decoded bytes; ours and theirs take turns, each figure is the median of its turns,
//! and time is the thread's own. The last lines are the least ratio of each column.

mod common;

use blosc_src::{blosc_compress_ctx, blosc_decompress_ctx};
use common::{Dice, median};
use std::cell::RefCell;
use std::ffi::{CString, c_int, c_void};
use std::hint::black_box;
use std::io::Write;
use std::ops::Range;
use wavetrain::decode::{
    Decoder, blosc, blosclz, bz2, gzip, inflate::Inflater, lz4, lzma, zstd::Context,
};
use wavetrain::loops::values::{cast, scale_offset};
use wavetrain::records::{
    Beyond, ByteOrder, Cast, Dtype, Lzma, Number, Pair, Rounding, Scaling, Span, Types,
};
use wavetrain::status::Why;

unsafe extern "C" {
    fn blosclz_decompress(input: *const c_void, length: i32, output: *mut c_void, max: i32) -> i32;
}

/// Bytes of a chunk.
const BYTES: usize = 512 << 10;
/// The integer that is read as NaN.
const MISSING: i16 = -9999;
const TURNS: usize = 41;
const TURN_SECONDS: f64 = 0.001;

const KINDS: [&str; 5] = ["noise", "smooth", "runs", "labels", "text"];

/// Elements of `size` bytes, or text.
fn painted(kind: &str, size: usize) -> Vec<u8> {
    if kind == "text" {
        let text = concat!(
            include_str!("../CHANGELOG.md"),
            include_str!("../include/wavetrain.h"),
            include_str!("../include/wavetrain.hpp"),
            include_str!("log/2026-11-22-36-lists.md"),
            include_str!("compare.py"),
            include_str!("kernels.rs"),
        );
        return text.bytes().cycle().take(BYTES).collect();
    }
    let mut dice = Dice(7);
    let (mut left, mut value) = (0, 0);
    let mut element = |at: usize| -> u64 {
        let (x, y, t) = (at % 240, at / 240 % 121, at / (240 * 121));
        match (kind, size) {
            // The low half is random, and all of a byte.
            ("noise", 1) => dice.below(256),
            ("noise", _) => dice.below(1 << (4 * size)),
            // A field [t, lat, lon].
            ("smooth", _) => {
                let (x, y) = (x as f64 / 38.0, y as f64 / 38.0);
                let wave = (x + 0.1 * t as f64).sin() * y.cos() + 0.1 * (3.0 * x * y).cos();
                match size {
                    1 => (wave * 60.0 + 128.0) as u64,
                    2 => (wave * 3000.0 + 8000.0) as u64,
                    4 => u64::from((280.0 + 20.0 * wave as f32).to_bits()),
                    _ => ((280.0 + 20.0 * wave) as f32 as f64).to_bits(),
                }
            }
            ("runs", _) => {
                if left == 0 {
                    let longest = 1 << (1 + dice.below(11));
                    (left, value) = (1 + dice.below(longest), dice.below(200));
                }
                left -= 1;
                value
            }
            // Cells of a jittered grid, as segmentations have them.
            _ => {
                let (cell_x, cell_y) = ((x + y * y / 400) / 17, (y + x * x / 900) / 13);
                (cell_x * 31 + cell_y * 7 + t % 3 + 1) as u64 % 251 * if size > 1 { 5 } else { 1 }
            }
        }
    };
    (0..BYTES / size).flat_map(|at| element(at).to_le_bytes().into_iter().take(size)).collect()
}

/// Seconds of CPU time of this thread.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the timespec, which is alive.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs per second of `work`, over about one turn.
fn rate(work: &mut dyn FnMut()) -> f64 {
    let (start, mut runs) = (now(), 0);
    loop {
        work();
        runs += 1;
        let spent = now() - start;
        if spent > TURN_SECONDS {
            return f64::from(runs) / spent;
        }
    }
}

/// Times each pair by turns, prints rates and ratios, and returns the ratios.
fn line(name: &str, bytes: usize, coded: usize, works: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut rates = vec![Vec::new(); works.len()];
    for turn in 0..TURNS {
        for at in 0..works.len() {
            // Who is first changes.
            let at = if turn % 2 == 0 { at } else { works.len() - 1 - at };
            rates[at].push(rate(works[at]) * bytes as f64 / 1e9);
        }
    }
    print!("{name:28} {:6.1}", bytes as f64 / coded as f64);
    let ratios = rates.chunks_exact_mut(2).map(|pair| {
        let ratio = median(pair[0].iter().zip(&pair[1]).map(|(a, b)| a / b).collect());
        let (ours, theirs) = (median(pair[0].clone()), median(pair[1].clone()));
        print!("  {ours:7.2} {theirs:7.2} {ratio:5.2}");
        ratio
    });
    let ratios = ratios.collect();
    println!();
    ratios
}

/// A chunk of c-blosc.
struct Chunk {
    encoded: Vec<u8>,
    plain: Vec<u8>,
    codec: &'static str,
}

impl Chunk {
    fn new(plain: Vec<u8>, codec: &'static str, size: usize, shuffle: c_int) -> Chunk {
        let mut encoded = vec![0; plain.len() + 16];
        let name = CString::new(codec).unwrap();
        // SAFETY: both buffers are live and as long as the call is told; the name ends with a NUL.
        let count = unsafe {
            blosc_compress_ctx(
                5,
                shuffle,
                size,
                plain.len(),
                plain.as_ptr().cast(),
                encoded.as_mut_ptr().cast(),
                encoded.len(),
                name.as_ptr(),
                0,
                1,
            )
        };
        encoded.truncate(usize::try_from(count).unwrap());
        Chunk { encoded, plain, codec }
    }

    /// Where the streams that are compressed lie, and how many bytes each gives.
    fn streams(&self) -> Vec<(Range<usize>, usize)> {
        let header = blosc::header(&self.encoded, &mut Why::new()).unwrap();
        let word =
            |at: usize| u32::from_le_bytes(self.encoded[at..at + 4].try_into().unwrap()) as usize;
        let mut found = Vec::new();
        for block in (0..header.block_count).filter(|_| !header.memcpyed) {
            let mut at = word(16 + 4 * block as usize);
            let bytes = (header.block_bytes(block) / header.block_streams(block)) as usize;
            for _ in 0..header.block_streams(block) {
                let first = at + 4;
                at = first + word(at);
                if at - first != bytes {
                    found.push((first..at, bytes));
                }
            }
        }
        found
    }

    fn measure(&self, name: &str, decoder: &mut Decoder) -> Vec<f64> {
        let streams = self.streams();
        let stream_bytes = streams.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let mut targets = vec![vec![0; BYTES]; 4];
        let [a, b, c, d] = &mut targets[..] else { unreachable!() };
        let mut scratch = vec![0; BYTES];
        let each = |target: &mut [u8], decode: &mut dyn FnMut(&[u8], &mut [u8]) -> usize| {
            let mut rest = &mut target[..];
            for (place, bytes) in &streams {
                let (target, behind) = rest.split_at_mut(*bytes);
                rest = behind;
                assert_eq!(decode(black_box(&self.encoded[place.clone()]), target), *bytes);
            }
        };
        let mut ours = || {
            each(a, &mut |source, target| {
                let why = &mut Why::new();
                match self.codec {
                    "lz4" => lz4::block(source, target, why).unwrap(),
                    _ => blosclz::decompress(source, target, why).unwrap(),
                }
            })
        };
        let mut theirs = || each(b, &mut |source, target| by_c(self.codec, source, target));
        let mut chunk = || {
            let span = Span { first: 0, limit: BYTES as u64 };
            let (bytes, why) = (black_box(&self.encoded), &mut Why::new());
            blosc::decode(decoder, bytes, 0, span, c, &mut scratch, why).unwrap();
        };
        let mut c_blosc = || {
            let bytes = black_box(&self.encoded);
            // SAFETY: both buffers are live; the chunk is as long as its header says.
            let count = unsafe {
                blosc_decompress_ctx(bytes.as_ptr().cast(), d.as_mut_ptr().cast(), BYTES, 1)
            };
            assert_eq!(count, BYTES as c_int);
        };
        let works: &mut [&mut dyn FnMut()] =
            &mut [&mut chunk, &mut c_blosc, &mut ours, &mut theirs];
        let ratios = line(name, BYTES, self.encoded.len(), works);
        assert!(targets[2] == self.plain && targets[3] == self.plain);
        assert!(targets[0][..stream_bytes] == targets[1][..stream_bytes]);
        ratios
    }
}

fn by_c(codec: &str, source: &[u8], target: &mut [u8]) -> usize {
    let (from, to) = (source.as_ptr(), target.as_mut_ptr());
    let (length, room) = (source.len() as i32, target.len() as i32);
    // SAFETY: both buffers are live and as long as the calls are told.
    let count = unsafe {
        match codec {
            "lz4" => lz4_sys::LZ4_decompress_safe(from.cast(), to.cast(), length, room),
            _ => blosclz_decompress(from.cast(), length, to.cast(), room),
        }
    };
    usize::try_from(count).unwrap()
}

/// All of a chunk as one LZ4 block, as numcodecs writes it.
fn measure_block(name: &str, plain: &[u8]) -> Vec<f64> {
    // SAFETY: a pure function of its argument.
    let bound = unsafe { lz4_sys::LZ4_compressBound(BYTES as i32) };
    let mut block = vec![0; bound as usize];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        let (from, to) = (plain.as_ptr().cast(), block.as_mut_ptr().cast());
        lz4_sys::LZ4_compress_default(from, to, BYTES as i32, bound)
    };
    block.truncate(count as usize);
    let (mut a, mut b) = (vec![0; BYTES], vec![0; BYTES]);
    let mut ours = || {
        assert_eq!(lz4::block(black_box(&block), &mut a, &mut Why::new()), Ok(BYTES));
    };
    let mut theirs = || assert_eq!(by_c("lz4", black_box(&block), &mut b), BYTES);
    let ratios = line(name, BYTES, block.len(), &mut [&mut ours, &mut theirs]);
    assert!(a == plain && b == plain);
    ratios
}

/// All of a chunk as a gzip member of level 5, the default of zarr-python.
fn measure_gzip(name: &str, plain: &[u8], inflater: &mut Inflater) -> Vec<f64> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(5));
    writer.write_all(plain).unwrap();
    let member = writer.finish().unwrap();
    let mut targets = vec![vec![0; BYTES]; 4];
    let [a, b, c, d] = &mut targets[..] else { unreachable!() };
    let inflater = RefCell::new(inflater);
    let ours = |target: &mut [u8]| {
        let inflater = &mut *inflater.borrow_mut();
        let decoded = gzip::decode(inflater, black_box(&member), target, &mut Why::new());
        assert_eq!(decoded, Ok(BYTES));
    };
    let mut libdeflate = libdeflater::Decompressor::new();
    let mut by_libdeflate =
        || assert_eq!(libdeflate.gzip_decompress(black_box(&member), b), Ok(BYTES));
    // 16 more: of gzip.
    let config = zlib_rs::InflateConfig { window_bits: 16 + 15 };
    let mut by_zlib_rs = || {
        let (decoded, code) = zlib_rs::decompress_slice(d, black_box(&member), config);
        assert_eq!((decoded.len(), code), (BYTES, zlib_rs::ReturnCode::Ok));
    };
    let (mut first, mut second) = (|| ours(a), || ours(c));
    let works: &mut [&mut dyn FnMut()] =
        &mut [&mut first, &mut by_libdeflate, &mut second, &mut by_zlib_rs];
    let ratios = line(name, BYTES, member.len(), works);
    assert!(targets.iter().all(|target| target == plain));
    ratios
}

/// All of a chunk as a bz2 stream of level 1, the default of numcodecs.
fn measure_bz2(name: &str, plain: &[u8]) -> Vec<f64> {
    let level = bzip2::Compression::new(1);
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), level);
    writer.write_all(plain).unwrap();
    let stream = writer.finish().unwrap();
    let (mut a, mut b) = (vec![0; BYTES], Vec::with_capacity(BYTES));
    let mut workspace = vec![0; bz2::workspace_bytes(1, BYTES as u64) as usize];
    let mut ours = || {
        let decoded = bz2::decode(1, &mut workspace, black_box(&stream), &mut a, &mut Why::new());
        assert_eq!(decoded, Ok(BYTES));
    };
    let mut by_crate = || {
        b.clear();
        let mut reader = bzip2::Decompress::new(false);
        let status = reader.decompress_vec(black_box(&stream), &mut b).unwrap();
        assert!(matches!(status, bzip2::Status::StreamEnd));
    };
    let ratios = line(name, BYTES, stream.len(), &mut [&mut ours, &mut by_crate]);
    assert!(a == plain && b == plain);
    ratios
}

/// All of a chunk as an .xz stream as numcodecs writes it, with its CRC-64.
fn measure_lzma(name: &str, plain: &[u8]) -> Vec<f64> {
    use liblzma::stream::{Action, Check, Status, Stream};
    let (mut a, mut b) = (vec![0; BYTES], Vec::with_capacity(BYTES));
    let mut stream = Vec::with_capacity(BYTES + BYTES / 64 + 1000);
    let mut encoder = Stream::new_easy_encoder(6, Check::Crc64).unwrap();
    encoder.process_vec(plain, &mut stream, Action::Finish).unwrap();
    let mut workspace = vec![0; lzma::WORKSPACE_BYTES];
    let mut ours = || {
        let stream = black_box(&stream);
        let decoded = lzma::decode(Lzma::Xz, &mut workspace, stream, &mut a, &mut Why::new());
        assert_eq!(decoded, Ok(BYTES));
    };
    let mut by_crate = || {
        b.clear();
        let mut decoder = Stream::new_stream_decoder(u64::MAX, 0).unwrap();
        let status = decoder.process_vec(black_box(&stream), &mut b, Action::Finish).unwrap();
        assert!(matches!(status, Status::StreamEnd));
    };
    let ratios = line(name, BYTES, stream.len(), &mut [&mut ours, &mut by_crate]);
    assert!(a == plain && b == plain);
    ratios
}

/// A chunk through scale_offset or cast_value, in pairs of types.
fn measure_values(name: &str) -> Vec<f64> {
    let number = |dtype| Number { dtype, byte_order: ByteOrder::Little };
    let types = |decoded, encoded| Types { decoded: number(decoded), encoded: number(encoded) };
    let floats: Vec<u8> = (0..BYTES / 4).flat_map(|at| (at as f32 % 251.0).to_le_bytes()).collect();
    let words: Vec<u8> = (0..BYTES / 4).flat_map(|at| (at as i16 % 251).to_le_bytes()).collect();
    let line_of = Scaling { scale: 0.25f64.to_bits(), offset: 3f64.to_bits() };
    let cast_of = |types, beyond| Cast {
        types,
        rounding: Rounding::NearestEven,
        beyond,
        first_pair: 0,
        pairs: 0,
    };
    let missing = Pair { encoded: i64::from(MISSING) as u64, decoded: f64::NAN.to_bits() }.row();
    let exact = Cast { pairs: 1, ..cast_of(types(Dtype::F32, Dtype::I16), Beyond::Error) };
    let clamped = cast_of(types(Dtype::I16, Dtype::F32), Beyond::Clamp);
    let mut targets = [vec![0; BYTES], vec![0; BYTES], vec![0; BYTES / 2], vec![0; BYTES / 2]];
    let [a, b, c, d] = &mut targets;
    let f32s = |source: &[u8]| -> Vec<f32> {
        source.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    let is_scale = name == "scale_offset";
    let mut ours = || {
        let done = match is_scale {
            true => scale_offset(types(Dtype::F32, Dtype::F32), line_of, black_box(&floats), a),
            false => cast(&exact, &[missing], black_box(&words), a),
        };
        assert!(done.is_ok());
    };
    let mut plain = || {
        let (places, _) = b.as_chunks_mut::<4>();
        match is_scale {
            true => {
                for (to, from) in places.iter_mut().zip(black_box(&floats).as_chunks::<4>().0) {
                    *to = (f32::from_le_bytes(*from) / 0.25 + 3.0).to_le_bytes();
                }
            }
            false => {
                for (to, from) in places.iter_mut().zip(black_box(&words).as_chunks::<2>().0) {
                    let value = i16::from_le_bytes(*from);
                    let float = if value == MISSING { f32::NAN } else { f32::from(value) };
                    *to = float.to_le_bytes();
                }
            }
        }
    };
    let mut clamps = || assert!(cast(&clamped, &[], black_box(&floats), c).is_ok());
    let mut plain_clamps = || {
        for (to, from) in d.as_chunks_mut::<2>().0.iter_mut().zip(black_box(&floats).as_chunks().0)
        {
            *to = (f32::from_le_bytes(*from).round_ties_even() as i16).to_le_bytes();
        }
    };
    let all: &mut [&mut dyn FnMut()] = &mut [&mut ours, &mut plain, &mut clamps, &mut plain_clamps];
    let works = if is_scale { &mut all[..2] } else { all };
    let ratios = line(name, BYTES, if is_scale { BYTES } else { BYTES / 2 }, works);
    assert!(f32s(&targets[0]) == f32s(&targets[1]) && targets[2] == targets[3]);
    ratios
}

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let workspace = vec![0u128; (Context::workspace_bytes() as usize).div_ceil(16)].leak();
    // SAFETY: the words are leaked, as many bytes, and used through this slice alone.
    let workspace = unsafe {
        std::slice::from_raw_parts_mut(workspace.as_mut_ptr().cast::<u8>(), 16 * workspace.len())
    };
    let mut decoder = Decoder::new(workspace, Box::leak(Box::new(Inflater::new()))).unwrap();
    let mut inflater = Inflater::new();
    println!("{:28} {:>6}  {:^21}  {:^21}", "GB/s: ours, theirs, ratio", "", "chunk", "streams");
    let mut least = [("", f64::MAX), ("", f64::MAX)];
    let mut note = |name: &str, ratios: Vec<f64>| {
        for (least, ratio) in least.iter_mut().zip(ratios) {
            if ratio < least.1 {
                *least = (name.to_owned().leak(), ratio);
            }
        }
    };
    for kind in KINDS {
        for size in [1, 2, 4, 8] {
            if kind == "text" && size > 1 {
                continue;
            }
            let plain = painted(kind, size);
            let name = format!("{kind} {size} gzip");
            if wanted(&name) {
                note(&name, measure_gzip(&name, &plain, &mut inflater));
            }
            let name = format!("{kind} {size} bz2");
            if wanted(&name) {
                note(&name, measure_bz2(&name, &plain));
            }
            let name = format!("{kind} {size} lzma");
            if wanted(&name) {
                note(&name, measure_lzma(&name, &plain));
            }
            let name = format!("{kind} {size} lz4-block");
            if wanted(&name) {
                note(&name, measure_block(&name, &plain));
            }
            for codec in ["lz4", "blosclz"] {
                for (shuffle, word) in [(0, "plain"), (1, "bytes"), (2, "bits")] {
                    let name = format!("{kind} {size} {codec} {word}");
                    if wanted(&name) && (size > 1 || shuffle != 1) {
                        let chunk = Chunk::new(plain.clone(), codec, size, shuffle);
                        // What does not become smaller is stored, and used where it lies.
                        if !chunk.streams().is_empty() {
                            note(&name, chunk.measure(&name, &mut decoder));
                        }
                    }
                }
            }
        }
    }
    for name in ["scale_offset", "cast_value"].into_iter().filter(|name| wanted(name)) {
        measure_values(name);
    }
    for (column, (name, ratio)) in ["chunk", "streams"].iter().zip(least) {
        if name.is_empty() {
            continue;
        }
        println!("least of {column}: {ratio:.2} ({name})");
    }
}
