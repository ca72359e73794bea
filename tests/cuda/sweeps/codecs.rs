//! What workers leave to the device of each codec's chunks: the bytes stay those of the array, and
//! the figures say which chunk went which way.
//!
//! Chunks lie one above the other in one shard, each encoded in its own way, because a blosc chunk
//! says itself how it was filtered. They are written by c-blosc, and by a writer of our own where
//! c-blosc would never write so.

use crate::common::blosc::{BITS, BYTES, Blosc, NONE, by_c_blosc, by_us, copied};
use crate::common::cuda_sim::Simulator;
use crate::common::damage::outcomes;
use crate::common::drive::{self, Dice, Job, PATIENCE_NS, stream_through};
use crate::common::effort;
use crate::common::fixtures::Scratch;
use crate::common::gpu::tight;
use crate::common::oracle::{Image, cast};
use crate::common::platform::{self, Platform};
use crate::common::synth::{Meta, shard_bytes};
use std::io::Write;
use std::sync::Arc;
use wavetrain::abi::{CODEC_NONE, CODEC_PLACES, Stats};
use wavetrain::config::{
    BACKEND_CUDA, Config, DECODE_AUTO, DECODE_OFF, DECODE_ON, THREADS_OWN, THREADS_PUMP,
};
use wavetrain::decode::zstd_blocks::measure;
use wavetrain::device::ByWorker;
use wavetrain::records::{Codec, Dtype, Lzma};
use wavetrain::status::Status;

/// Extents of a chunk.
const ROWS: u64 = 24;
const COLUMNS: u64 = 40;

const ZSTD: &str = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;
const GZIP: &str = r#",{"name":"gzip","configuration":{"level":1}}"#;
const BZ2: &str = r#",{"name":"numcodecs.bz2","configuration":{"level":9}}"#;
const LZMA: &str = r#",{"name":"numcodecs.lzma","configuration":{"preset":0}}"#;
const ZLIB: &str = r#",{"name":"numcodecs.zlib","configuration":{"level":1}}"#;
const LZ4: &str = r#",{"name":"numcodecs.lz4","configuration":{"acceleration":1}}"#;
const BLOSC: &str = r#",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,
    "shuffle":"shuffle","typesize":2,"blocksize":0}}"#;
const BLOSC_ZSTD: &str = r#",{"name":"blosc","configuration":{"cname":"zstd","clevel":5,
    "shuffle":"shuffle","typesize":2,"blocksize":0}}"#;
const CRC: &str = r#",{"name":"crc32c"}"#;
const CRC_BLOSC: &str = r#",{"name":"crc32c"},{"name":"blosc","configuration":{"cname":"lz4",
    "clevel":5,"shuffle":"shuffle","typesize":2,"blocksize":0}}"#;
const BLOSC_CRC: &str = r#",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,
    "shuffle":"shuffle","typesize":2,"blocksize":0}},{"name":"crc32c"}"#;
const CRC_ZSTD_CRC: &str = r#",{"name":"zstd","configuration":{"level":19,"checksum":false}},
    {"name":"crc32c"}"#;
const CRC_ZSTD: &str = r#",{"name":"crc32c"},{"name":"zstd","configuration":{"level":3,
    "checksum":false}}"#;

// ---- Chunks -----------------------------------------------------------------------------------

/// A blosc chunk of any kind.
fn any_blosc(bytes: &[u8], element_bytes: usize, dice: &mut Dice) -> Vec<u8> {
    let mut pick = |items: &[usize]| items[dice.range(0, items.len() as i64) as usize];
    let how = Blosc {
        shuffle: pick(&[0, 1, 1, 2, 2]) as u8,
        typesize: pick(&[element_bytes, element_bytes, 1, 2, 3, 4, 8, 16]),
        block_bytes: pick(&[256, 333, 512, 1000, 1024, 2048, bytes.len() / 2, bytes.len()]),
        is_split: pick(&[0, 1]) == 1,
    };
    match pick(&[0, 1, 2, 3, 3, 3, 4]) {
        0 => by_c_blosc(bytes, how, c"blosclz"),
        1 => by_c_blosc(bytes, how, c"lz4"),
        2 => by_c_blosc(bytes, Blosc { block_bytes: 0, ..how }, c"zlib"),
        3 => by_us(bytes, Blosc { block_bytes: how.block_bytes.min(bytes.len()), ..how }),
        _ => copied(bytes, how.shuffle),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    writer.write_all(bytes).expect("written");
    writer.finish().expect("a member")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(1));
    writer.write_all(bytes).expect("written");
    writer.finish().expect("a stream")
}

fn bz2(bytes: &[u8]) -> Vec<u8> {
    let level = bzip2::Compression::new(9);
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), level);
    writer.write_all(bytes).expect("written");
    writer.finish().expect("a stream")
}

fn lzma(bytes: &[u8]) -> Vec<u8> {
    use liblzma::stream::{Action, Check, Stream};
    let mut stream = Stream::new_easy_encoder(0, Check::Crc64).expect("an encoder");
    let mut chunk = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 1000);
    stream.process_vec(bytes, &mut chunk, Action::Finish).expect("a stream");
    chunk
}

/// As numcodecs writes it, all of it literals.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = (bytes.len() as u32).to_le_bytes().to_vec();
    assert!(bytes.len() >= 15);
    chunk.push(0xF0);
    let rest = bytes.len() - 15;
    chunk.extend(std::iter::repeat_n(0xFF, rest / 255));
    chunk.push((rest % 255) as u8);
    chunk.extend(bytes);
    chunk
}

fn by_libzstd(bytes: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(bytes, level).unwrap()
}

fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut writer = zstd::bulk::Compressor::new(3).unwrap();
    writer.include_checksum(true).unwrap();
    writer.compress(bytes).unwrap()
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Shuffled u16 in blocks that do not divide the chunk.
const SHUFFLED: Blosc = Blosc { shuffle: BYTES, typesize: 2, block_bytes: 512, is_split: true };

fn shuffled(bytes: &[u8]) -> Vec<u8> {
    by_us(bytes, SHUFFLED)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    by_c_blosc(bytes, SHUFFLED, c"lz4")
}

// ---- Stores and runs --------------------------------------------------------------------------

/// Chunks one above the other, and their pixels.
struct Store {
    uri: String,
    image: Image,
    chunks: u64,
}

/// Slopes and noise, by turns.
fn painted(bytes: u64, dice: &mut Dice) -> Vec<u8> {
    let mut paint = |at: u64| match at / 5000 % 3 {
        0 => dice.range(0, 256) as u8,
        _ => (at * at / 900 + at / 7 + 1) as u8,
    };
    (0..bytes).map(&mut paint).collect()
}

fn store(
    scratch: &Scratch,
    name: &str,
    (data_type, fill, dtype, element_bytes): (&'static str, &'static str, Dtype, u64),
    codecs: &'static str,
    chunks: u64,
    mut encode: impl FnMut(u64, &[u8]) -> Vec<u8>,
) -> Store {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1);
    let pixels = painted(chunks * ROWS * COLUMNS * element_bytes, &mut dice);
    let (mut payload, mut entries) = (Vec::new(), Vec::new());
    for (number, chunk) in pixels.chunks((ROWS * COLUMNS * element_bytes) as usize).enumerate() {
        let coded = encode(number as u64, chunk);
        entries.push((payload.len() as u64, coded.len() as u64));
        payload.extend(coded);
    }
    let shape = [chunks * ROWS, COLUMNS];
    let meta =
        Meta { data_type, fill, codecs, ..Meta::u16(&shape, &[ROWS, COLUMNS], Some(&shape)) };
    let uri = meta.write(scratch, name, Some(&shard_bytes(&payload, &entries)));
    let fill = vec![0; element_bytes as usize];
    let image = Image::new(dtype, shape.to_vec(), Arc::new(pixels), fill);
    Store { uri, image, chunks }
}

const U16: (&str, &str, Dtype, u64) = ("uint16", "0", Dtype::U16, 2);

/// The first `rows` rows of each chunk.
fn heads(store: &Store, rows: i64) -> Vec<Job> {
    let job = |chunk: u64| {
        let first = (chunk * ROWS) as i64;
        let (begin, end) = (vec![first, 0], vec![first + rows, COLUMNS as i64]);
        let want = store.image.inside(&begin, &end);
        Job::new(&store.uri, (begin, end), want)
    };
    (0..store.chunks).map(job).collect()
}

fn config(dtype: Dtype, shape: [i64; 2]) -> Config {
    drive::config(dtype, &shape.map(|extent| extent as u64), 3)
}

fn on_device(platform: &dyn Platform, config: Config) -> Config {
    Config {
        backend: BACKEND_CUDA,
        device: 0,
        cuda_driver: platform.driver_path(),
        max_host_memory_bytes: config.max_host_memory_bytes + (64 << 20),
        ..config
    }
}

fn off_device(platform: &dyn Platform, config: Config) -> Config {
    Config { device_decode: DECODE_OFF, ..on_device(platform, config) }
}

/// The same with a device that decodes nothing, what gains, and all that it can.
fn each_way(platform: &dyn Platform, config: Config) -> [Config; 3] {
    let config = on_device(platform, config);
    let mut all = [config; 3];
    let ways = [DECODE_OFF, DECODE_AUTO, DECODE_ON];
    all.iter_mut().zip(ways).for_each(|(config, way)| config.device_decode = way);
    all
}

/// Streams the jobs, compares every byte, and gives the figures.
fn figures(config: &Config, jobs: &[Job]) -> Stats {
    let loader = drive::open(config);
    stream_through(&loader, config, jobs, 0);
    let stats = loader.stats().unwrap();
    assert_eq!(stats.chunks_decoded.iter().sum::<u64>(), stats.decode.count);
    loader.stats_reset().unwrap();
    let reset = loader.stats().unwrap();
    assert_eq!(reset.chunks_decoded, [0; CODEC_PLACES]);
    assert_eq!(reset.chunks_decoded_in_slab + reset.chunks_left_filtered, 0);
    loader.close(PATIENCE_NS).unwrap();
    stats
}

/// `count` chunks at one place.
fn at_place(place: usize, count: u64) -> [u64; CODEC_PLACES] {
    let mut counts = [0; CODEC_PLACES];
    counts[place] = count;
    counts
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().sum()
}

// ---- Bytes ------------------------------------------------------------------------------------

/// Boxes of an extent anywhere, and every chunk's head.
fn boxes(store: &Store, dtype: Dtype, [rows, columns]: [i64; 2], dice: &mut Dice) -> Vec<Job> {
    let heights = (store.chunks * ROWS) as i64;
    let job = |number: i64| {
        let is_head = number % 2 == 0 && number / 2 * (ROWS as i64) + rows <= heights;
        let (row, column) = match is_head {
            true => (number / 2 * ROWS as i64, 0),
            false => {
                (dice.range(0, heights - rows + 1), dice.range(0, COLUMNS as i64 - columns + 1))
            }
        };
        let (begin, end) = (vec![row, column], vec![row + rows, column + columns]);
        let want = cast(store.image.dtype, dtype, &store.image.inside(&begin, &end));
        Job::new(&store.uri, (begin, end), want)
    };
    (0..2 * store.chunks as i64).map(job).collect()
}

#[test]
fn blosc_chunks_of_every_filter_typesize_and_block_give_the_bytes_of_the_array() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let kinds = [
        (("uint8", "0", Dtype::U8, 1), Dtype::F32),
        (("uint8", "0", Dtype::U8, 1), Dtype::U8),
        (U16, Dtype::F32),
        (U16, Dtype::U16),
        (("float32", "0", Dtype::F32, 4), Dtype::Bf16),
        (("int32", "0", Dtype::I32, 4), Dtype::I32),
        (("float64", "0", Dtype::F64, 8), Dtype::F32),
        (("complex128", "[0,0]", Dtype::C128, 16), Dtype::C128),
    ];
    for (number, (kind, dtype)) in kinds.into_iter().enumerate() {
        let element_bytes = kind.3 as usize;
        let encode = |_, chunk: &[u8]| any_blosc(chunk, element_bytes, &mut dice);
        let store = store(&scratch, &number.to_string(), kind, BLOSC, 32, encode);
        let (mut in_slab, mut left, mut there, mut redone) = (0, 0, 0, 0);
        for shape in [[24, 40], [60, 40], [11, 40], [31, 23]] {
            let jobs = boxes(&store, dtype, shape, &mut dice);
            let host = figures(&config(dtype, shape), &jobs);
            assert_eq!((host.chunks_decoded_in_slab, host.chunks_left_filtered), (0, 0));
            let [off, auto, on] =
                each_way(&*platform, config(dtype, shape)).map(|config| figures(&config, &jobs));
            in_slab += off.chunks_decoded_in_slab;
            left += off.chunks_left_filtered;
            assert_eq!(sum(&off.chunks_decoded_on_device) + sum(&off.chunks_redone), 0);
            there += sum(&on.chunks_decoded_on_device);
            redone += sum(&on.chunks_redone);
            assert!(sum(&auto.chunks_decoded_on_device) <= sum(&on.chunks_decoded_on_device));
        }
        assert!(30 < left && left < in_slab, "{left} of {in_slab}");
        assert!(there > 0 && redone > 0, "{there}, {redone} again");
    }
}

#[test]
fn chunks_of_every_codec_give_the_bytes_of_the_array() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for (number, case) in cases().into_iter().enumerate() {
        let store = store(&scratch, &number.to_string(), U16, case.codecs, 16, case.encode);
        for shape in [[12, 40], [11, 40], [30, 17]] {
            let jobs = boxes(&store, Dtype::F32, shape, &mut dice);
            figures(&config(Dtype::F32, shape), &jobs);
            for config in each_way(&*platform, config(Dtype::F32, shape)) {
                figures(&config, &jobs);
            }
        }
    }
}

/// As numcodecs writes it, by liblz4.
fn by_liblz4(bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![0u8; bytes.len() + bytes.len() / 200 + 64];
    // SAFETY: both buffers are live and as long as the call is told.
    let size = unsafe {
        lz4_sys::LZ4_compress_default(
            bytes.as_ptr().cast(),
            block.as_mut_ptr().cast(),
            bytes.len() as i32,
            block.len() as i32,
        )
    };
    assert!(size > 0);
    [&(bytes.len() as u32).to_le_bytes(), &block[..size as usize]].concat()
}

/// Chunks of 240 by 400 pixels that repeat, as labels do, with noise between; and boxes of them.
fn labels(
    scratch: &Scratch,
    name: &str,
    codecs: &'static str,
    encode: &dyn Fn(&[u8]) -> Vec<u8>,
) -> Vec<Job> {
    let mut dice = Dice(0x0F1E_2D3C_4B5A_6978);
    let (rows, columns, chunks) = (240u64, 400u64, 6u64);
    let mut paint = |at: u64| match at / 4000 % 4 {
        0 => dice.range(0, 256) as u8,
        _ => (at % 512 / 64 + at / 8192) as u8,
    };
    let pixels: Vec<u8> = (0..2 * rows * columns * chunks).map(&mut paint).collect();
    let (mut payload, mut entries) = (Vec::new(), Vec::new());
    for chunk in pixels.chunks((2 * rows * columns) as usize) {
        let coded = encode(chunk);
        entries.push((payload.len() as u64, coded.len() as u64));
        payload.extend(coded);
    }
    let shape = [chunks * rows, columns];
    let meta = Meta { codecs, ..Meta::u16(&shape, &[rows, columns], Some(&shape)) };
    let uri = meta.write(scratch, name, Some(&shard_bytes(&payload, &entries)));
    let image = Image::new(Dtype::U16, shape.to_vec(), Arc::new(pixels), vec![0; 2]);
    let job = |first: u64| {
        let begin = vec![(first % (chunks * rows - 199)) as i64, 3];
        let end = vec![begin[0] + 200, 390];
        let want = cast(Dtype::U16, Dtype::F32, &image.inside(&begin, &end));
        Job::new(&uri, (begin, end), want)
    };
    (0..30).map(|number| job(number * 37)).collect()
}

/// Extents of those boxes.
const LABELS: [i64; 2] = [200, 387];

type Encode<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// Those that a device decodes by default come first.
const LABEL_CODECS: [(&str, Encode<'static>); 8] = [
    (LZ4, &by_liblz4),
    (BLOSC, &|chunk| by_c_blosc(chunk, large(16 << 10), c"lz4")),
    (BLOSC, &|chunk| by_c_blosc(chunk, Blosc { shuffle: BITS, ..large(0) }, c"lz4hc")),
    (BLOSC_CRC, &|chunk| sealed(by_c_blosc(chunk, large(1 << 10), c"lz4"))),
    (ZSTD, &|chunk| by_libzstd(chunk, 1)),
    (CRC_ZSTD_CRC, &|chunk| sealed(by_libzstd(chunk, 19))),
    (BLOSC_ZSTD, &|chunk| by_us(chunk, large(16 << 10))),
    (BLOSC_ZSTD, &|chunk| by_us(chunk, Blosc { shuffle: BITS, is_split: false, ..large(40_000) })),
];
const GAINS: usize = 4;

const fn large(block_bytes: usize) -> Blosc {
    Blosc { block_bytes, ..SHUFFLED }
}

#[test]
fn what_is_smaller_on_the_bus_is_decoded_on_the_device_to_the_bytes_of_the_array() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for (number, (codecs, encode)) in LABEL_CODECS.into_iter().enumerate() {
        let jobs = labels(&scratch, &number.to_string(), codecs, encode);
        let [off, auto, on] = each_way(&simulator, config(Dtype::F32, LABELS)).map(|config| {
            let (before, begun) = (simulator.bus_bytes(), std::time::Instant::now());
            (figures(&config, &jobs), simulator.bus_bytes() - before, begun.elapsed().as_nanos())
        });
        assert_eq!(sum(&on.0.chunks_redone) + sum(&auto.0.chunks_redone), 0, "{codecs}");
        assert_eq!(sum(&on.0.chunks_decoded), 0, "{codecs}");
        assert_eq!(sum(&on.0.chunks_decoded_on_device), off.0.decode.count, "{codecs}");
        // No worker decodes, so that these gaps are those of the stream, one after another.
        let (gaps, waves) = (&on.0.decode_gap, on.0.device_decode.count);
        assert!(waves > 2);
        assert_eq!(gaps.count, waves - 1, "{codecs}");
        assert!(u128::from(gaps.ns + on.0.device_decode.ns) <= on.2, "{} ns", gaps.ns);
        assert_eq!(sum(&auto.0.chunks_decoded_on_device) > 0, number < GAINS, "{codecs}");
        assert!(on.0.device_decode.output_bytes > on.0.device_decode.input_bytes, "{codecs}");
        println!("{number}: bytes over the bus: off {}, auto {}, on {}", off.1, auto.1, on.1);
        assert!(on.1 < off.1, "{codecs}");
        assert!(number >= GAINS || auto.1 < off.1, "{codecs}");
    }
}

#[test]
fn what_a_device_refuses_at_random_comes_from_workers_and_is_the_same() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for (number, (codecs, encode)) in LABEL_CODECS.into_iter().enumerate() {
        let jobs = labels(&scratch, &number.to_string(), codecs, encode);
        for (one_in, thread_mode) in
            [(1, THREADS_OWN), (2, THREADS_PUMP), (9, THREADS_OWN), (40, THREADS_PUMP)]
        {
            simulator.refuse_streams(one_in);
            let mut config = on_device(&simulator, config(Dtype::F32, LABELS));
            (config.device_decode, config.thread_mode) = (DECODE_ON, thread_mode);
            // Few chunks in flight, so that what is learned of an array is used.
            config.max_chunks_per_wave = 2 + one_in;
            let stats = figures(&config, &jobs);
            let (there, redone) = (sum(&stats.chunks_decoded_on_device), sum(&stats.chunks_redone));
            let by_workers = stats.chunks_not_on_device;
            assert_eq!(by_workers[ByWorker::Refused as usize], redone);
            assert_eq!(sum(&stats.chunks_decoded), redone + by_workers[ByWorker::Array as usize]);
            if one_in == 1 {
                assert!(there == 0 && redone >= 8, "{there}, {redone} again");
                assert!(by_workers[ByWorker::Array as usize] > 0, "{by_workers:?}");
            }
            assert!(there + redone > 0);
        }
        simulator.refuse_streams(0);
    }
}

/// Chunks of 64 KiB whose every three bytes or so are a sequence, which takes eight of scratch.
fn words(scratch: &Scratch, name: &str) -> (Vec<Job>, u64) {
    let mut dice = Dice(0x1357_9BDF_0246_8ACE);
    let words: Vec<[u8; 3]> =
        (0..400).map(|_| core::array::from_fn(|_| dice.range(0, 256) as u8)).collect();
    let (bytes, chunks) = (64 << 10, 40);
    let pixels: Vec<u8> = (0..bytes * chunks / 3 + 1)
        .flat_map(|_| words[dice.range(0, words.len() as i64) as usize])
        .take(bytes * chunks)
        .collect();
    let (mut payload, mut entries, mut scratch_bytes) = (Vec::new(), Vec::new(), 0);
    for chunk in pixels.chunks(bytes) {
        let coded = by_libzstd(chunk, 22);
        scratch_bytes += 16 * measure(&coded, bytes as u64).unwrap().scratch_units;
        entries.push((payload.len() as u64, coded.len() as u64));
        payload.extend(coded);
    }
    let (rows, columns) = (128, 512);
    let shape = [rows * chunks as u64, columns];
    let meta = Meta {
        data_type: "uint8",
        codecs: ZSTD,
        ..Meta::u16(&shape, &[rows, columns], Some(&shape))
    };
    let uri = meta.write(scratch, name, Some(&shard_bytes(&payload, &entries)));
    let image = Image::new(Dtype::U8, shape.to_vec(), Arc::new(pixels), vec![0]);
    let job = |first: i64| {
        let span = (vec![first, 0], vec![first + rows as i64, columns as i64]);
        let want = image.inside(&span.0, &span.1);
        Job::new(&uri, span, want)
    };
    (
        (0..chunks as i64).map(|chunk| job(chunk * rows as i64)).collect(),
        scratch_bytes / chunks as u64,
    )
}

#[test]
fn a_wave_whose_frames_need_more_scratch_than_there_is_is_decoded_in_passes() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let (jobs, need) = words(&scratch, "words");
    assert!(need > 2 * (64 << 10), "{need} bytes of scratch for a chunk");
    // The least that decodes has scratch of twice the largest chunk, and what rounding leaves over.
    let run = |samples: usize, most: u64| {
        let mut config = on_device(&simulator, drive::config(Dtype::U8, &[128, 512], samples));
        (config.device_decode, config.thread_mode) = (DECODE_ON, THREADS_PUMP);
        config.max_chunk_uncompressed_bytes = most;
        let before = simulator.calls(Some(c"cuLaunchKernel"));
        let stats = figures(&tight(&config), &jobs);
        (stats, simulator.calls(Some(c"cuLaunchKernel")) - before)
    };
    let (stats, launches) = run(20, 1 << 20);
    assert_eq!((sum(&stats.chunks_decoded_on_device), sum(&stats.chunks_redone)), (40, 0));
    // Streams, units, and three kernels for each pass.
    let waves = stats.device_decode.count;
    assert!(launches > 5 * waves + 10, "{launches} launches for {waves} waves");
    let refused =
        |samples| run(samples, 64 << 10).0.chunks_not_on_device[ByWorker::Refused as usize];
    assert!((1..33).any(|samples| refused(samples) > 0), "no frame is too large for all passes");
}

#[test]
fn chunks_that_share_their_bytes_in_a_shard_are_decoded_each() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let chunk = painted(2 * ROWS * COLUMNS, &mut Dice(3));
    let payload = by_liblz4(&chunk);
    let shape = [12 * ROWS, COLUMNS];
    let meta = Meta { codecs: LZ4, ..Meta::u16(&shape, &[ROWS, COLUMNS], Some(&shape)) };
    let shard = shard_bytes(&payload, &[(0, payload.len() as u64); 12]);
    let uri = meta.write(&scratch, "shared", Some(&shard));
    let image = Image::new(Dtype::U16, shape.to_vec(), Arc::new(chunk.repeat(12)), vec![0; 2]);
    let store = Store { uri, image, chunks: 12 };
    let jobs = boxes(&store, Dtype::U16, [40, 40], &mut Dice(9));
    for config in each_way(&simulator, config(Dtype::U16, [40, 40])) {
        figures(&config, &jobs);
    }
}

#[test]
fn reset_forgets_what_a_device_has_or_refused() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let mut config = on_device(&simulator, config(Dtype::F32, LABELS));
    (config.device_decode, config.max_chunks_per_wave) = (DECODE_ON, 3);
    for (one_in, number) in [(0, 1), (1, 1), (3, 1), (0, 4), (1, 6), (3, 5)] {
        let (codecs, encode) = LABEL_CODECS[number];
        let jobs = labels(&scratch, &format!("{one_in}-{number}"), codecs, encode);
        simulator.refuse_streams(one_in);
        for thread_mode in [THREADS_OWN, THREADS_PUMP] {
            config.thread_mode = thread_mode;
            let loader = drive::open(&config);
            for round in 0..effort::rounds(20, 10) as usize {
                stream_through(&loader, &config, &jobs[..3 + round % 5], 0);
                // What is pushed behind is under way somewhere.
                let few = jobs.iter().enumerate().take(6);
                let few: Vec<_> = few.map(|(number, job)| job.request(number)).collect();
                loader.push(&few, PATIENCE_NS).unwrap();
                assert!(loader.pop(round as u64 * 100_000).is_ok());
                loader.reset().unwrap();
            }
            stream_through(&loader, &config, &jobs, 0);
            loader.close(PATIENCE_NS).unwrap();
        }
    }
    simulator.refuse_streams(0);
}

#[test]
fn a_broken_chunk_has_the_same_outcome_as_on_the_host() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let bits = Blosc { shuffle: BITS, typesize: 4, block_bytes: 256, is_split: false };
    let makers: [(&'static str, &dyn Fn(&[u8]) -> Vec<u8>); 7] = [
        (BLOSC, &shuffled),
        (BLOSC, &|bytes| by_us(bytes, bits)),
        (BLOSC, &|bytes| by_c_blosc(bytes, SHUFFLED, c"lz4")),
        (BLOSC, &|bytes| copied(bytes, BYTES)),
        (ZSTD, &|bytes| by_libzstd(bytes, 1)),
        (ZSTD, &|bytes| by_libzstd(bytes, 19)),
        (ZSTD, &with_checksum),
    ];
    for (number, (codecs, maker)) in makers.into_iter().enumerate() {
        // Header and offsets take all values that are an edge of something, the rest a flip.
        let break_it = |variant: u64, chunk: &[u8]| {
            let mut broken = maker(chunk);
            let (head, kinds) = (32, [0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]);
            if variant < head * 8 {
                broken[variant as usize / 8] = kinds[variant as usize % 8];
            } else {
                let at = (variant * 97) as usize % broken.len();
                broken[at] ^= 1 << (variant % 8);
            }
            broken
        };
        let store = store(&scratch, &number.to_string(), U16, codecs, 300, break_it);
        let jobs = heads(&store, ROWS as i64);
        let mut config = config(Dtype::U16, [ROWS as i64, COLUMNS as i64]);
        (config.pad_value_set, config.pad_value, config.lookahead_samples) = (1, 77.0, 16);
        let host = outcomes(&config, &jobs);
        for config in each_way(&*platform, config) {
            let device = outcomes(&config, &jobs);
            for (variant, (host, device)) in host.iter().zip(&device).enumerate() {
                assert!(host == device, "{number}, {variant}: {:?} and {:?}", host.0, device.0);
            }
        }
        let broken = host.iter().filter(|(status, _)| *status == Some(Status::Decode)).count();
        assert!(broken > 50 && broken < 300, "{broken}");
    }
}

// ---- Ways -------------------------------------------------------------------------------------

/// A chain, how its chunks are made, and which way they go where half of them is read.
struct Case {
    codecs: &'static str,
    encode: fn(u64, &[u8]) -> Vec<u8>,
    place: usize,
    is_in_slab: bool,
    is_left_filtered: bool,
    /// Where a device decodes all that it can.
    is_there: bool,
}

fn cases() -> [Case; 15] {
    let case = |codecs, encode, place, is_in_slab, is_left_filtered| Case {
        codecs,
        encode,
        place,
        is_in_slab,
        is_left_filtered,
        is_there: false,
    };
    let there = |case: Case| Case { is_there: true, ..case };
    [
        case("", |_, b| b.to_vec(), CODEC_NONE, false, false),
        case(CRC, |_, b| sealed(b.to_vec()), CODEC_NONE, false, false),
        there(case(ZSTD, |_, b| by_libzstd(b, 3), Codec::Zstd.number(), true, false)),
        there(case(CRC_ZSTD_CRC, |_, b| sealed(by_libzstd(b, 19)), 1, true, false)),
        // A checksum of the content, which libzstd alone looks at.
        case(ZSTD, |_, b| with_checksum(b), Codec::Zstd.number(), true, false),
        case(GZIP, |_, b| gzip(b), Codec::Gzip.number(), true, false),
        case(ZLIB, |_, b| zlib(b), Codec::Zlib.number(), true, false),
        case(BZ2, |_, b| bz2(b), Codec::Bz2(9).number(), true, false),
        case(LZMA, |_, b| lzma(b), Codec::Lzma(Lzma::Xz).number(), true, false),
        there(case(LZ4, |_, b| lz4(b), Codec::Lz4.number(), true, false)),
        // Too small and too wild for blosc: copied chunks.
        there(case(BLOSC, |_, b| packed(b), Codec::Blosc.number(), true, false)),
        there(case(BLOSC_CRC, |_, b| sealed(packed(b)), Codec::Blosc.number(), true, false)),
        // Of another codec than the metadata says, which a device decodes as well.
        there(case(BLOSC, |_, b| shuffled(b), Codec::Blosc.number(), true, true)),
        there(case(BLOSC_CRC, |_, b| sealed(shuffled(b)), Codec::Blosc.number(), true, true)),
        case(CRC_BLOSC, |_, b| shuffled(&sealed(b.to_vec())), Codec::Blosc.number(), true, false),
    ]
}

#[test]
fn a_chunk_is_decoded_into_the_slab_if_it_is_compressed_and_nearly_all_of_it_is_read() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for (number, case) in cases().into_iter().enumerate() {
        let store = store(&scratch, &number.to_string(), U16, case.codecs, 10, case.encode);
        for (rows, is_nearly) in [(24, true), (22, true), (21, false)] {
            let config = config(Dtype::U16, [rows, COLUMNS as i64]);
            let jobs = heads(&store, rows);
            let host = figures(&config, &jobs);
            assert_eq!(host.chunks_decoded, at_place(case.place, 10), "{}", case.codecs);
            assert_eq!((host.chunks_decoded_in_slab, host.chunks_left_filtered), (0, 0));
            let [off, _, on] = each_way(&simulator, config);
            let device = figures(&off, &jobs);
            assert_eq!(device.chunks_decoded, host.chunks_decoded, "{}", case.codecs);
            let count = |is_so: bool| if is_so && is_nearly { 10 } else { 0 };
            let ways = (device.chunks_decoded_in_slab, device.chunks_left_filtered);
            let want = (count(case.is_in_slab), count(case.is_left_filtered));
            assert_eq!(ways, want, "{rows} rows, {}", case.codecs);
            let device = figures(&on, &jobs);
            let there = if case.is_there { host.chunks_decoded } else { [0; CODEC_PLACES] };
            assert_eq!(device.chunks_decoded_on_device, there, "{}", case.codecs);
            assert_eq!(sum(&device.chunks_decoded) + sum(&there), 10, "{}", case.codecs);
        }
    }
}

#[test]
fn only_what_a_filter_has_changed_is_left_filtered() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let how = |shuffle, typesize| Blosc { shuffle, typesize, block_bytes: 512, is_split: false };
    let kinds: [(&dyn Fn(&[u8]) -> Vec<u8>, u64); 6] = [
        (&|b| by_us(b, how(NONE, 2)), 0),
        (&|b| by_us(b, how(BYTES, 1)), 0),
        (&|b| copied(b, BYTES), 0),
        (&|b| by_us(b, how(BYTES, 2)), 5),
        (&|b| by_us(b, how(BITS, 1)), 5),
        (&|b| by_us(b, how(BITS, 3)), 5),
    ];
    for (number, (maker, left)) in kinds.into_iter().enumerate() {
        let name = number.to_string();
        let store = store(&scratch, &name, U16, BLOSC, 5, |_, chunk: &[u8]| maker(chunk));
        let config = off_device(&simulator, config(Dtype::U16, [24, 40]));
        let stats = figures(&config, &heads(&store, 24));
        let ways = (stats.chunks_decoded_in_slab, stats.chunks_left_filtered);
        assert_eq!(ways, (5, left), "kind {number}");
    }
}

#[test]
fn chunks_that_are_kept_are_decoded_where_they_are_kept() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let store = store(&scratch, "kept", U16, BLOSC, 6, |_, chunk| shuffled(chunk));
    let config = Config {
        chunk_cache_bytes: 4 << 20,
        ..on_device(&simulator, config(Dtype::U16, [24, 40]))
    };
    let stats = figures(&config, &heads(&store, 24));
    assert_eq!(stats.chunks_decoded, at_place(Codec::Blosc.number(), 6));
    assert_eq!((stats.chunks_decoded_in_slab, stats.chunks_left_filtered), (0, 0));
}

#[test]
fn the_least_slab_takes_a_whole_chunk_but_no_checksum_with_it() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    let inner = store(&scratch, "inner", U16, CRC_ZSTD, 8, |_, b| zstd(&sealed(b.to_vec())));
    let plain = store(&scratch, "plain", U16, ZSTD, 8, |_, b| zstd(b));
    for (store, in_slab) in [(plain, 8), (inner, 0)] {
        let config = tight(&Config {
            max_chunk_uncompressed_bytes: ROWS * COLUMNS * 2,
            ..off_device(&simulator, config(Dtype::U16, [24, 40]))
        });
        let stats = figures(&config, &heads(&store, 24));
        assert_eq!(stats.chunks_decoded_in_slab, in_slab);
    }
}

#[test]
fn a_large_chunk_of_one_block_is_decoded_in_the_slab_with_its_filter_or_without() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let edge = 800u64;
    let pixels = painted(edge * edge * 2, &mut Dice(77));
    let span = (vec![0, 0], vec![edge as i64, edge as i64]);
    // Under the checksum the worker needs room for the block besides.
    for (codecs, payload, left) in
        [(BLOSC, pixels.clone(), 1), (CRC_BLOSC, sealed(pixels.clone()), 0)]
    {
        let how = Blosc { block_bytes: payload.len(), is_split: false, ..SHUFFLED };
        let meta = Meta { codecs, ..Meta::u16(&[edge, edge], &[edge, edge], None) };
        let uri = meta.write(&scratch, &left.to_string(), Some(&by_us(&payload, how)));
        let jobs = [Job::new(&uri, span.clone(), pixels.clone())];
        let config = Config {
            max_chunk_uncompressed_bytes: edge * edge * 2,
            ..config(Dtype::U16, [edge as i64, edge as i64])
        };
        let stats = figures(&off_device(&simulator, config), &jobs);
        assert_eq!((stats.chunks_decoded_in_slab, stats.chunks_left_filtered), (1, left));
    }
}
