//! What single stages do, on one thread, without a loader around them: the library's own functions
//! on painted data. Unshuffle and casts have a bench of their own (benches/kernels.rs).
//!
//! Out: a table, with `--json` one line of JSON per stage. `--only TEXT` takes the stages whose
//! name contains it; `--seconds S` is how long each runs [0.3]. Rates are per CPU second, median
//! of five parts, so neighbours on the machine hardly matter.
//!
//!     cargo bench --bench stages -- --only blosc

mod common;

use common::{
    Array, Codec, Scratch, blosc_chunk, c_blosc_chunk, cpu_seconds, flag_value, has_flag, median,
    painted, zstd_frame,
};
use serde_json::json;
use std::hint::black_box;
use std::ptr::NonNull;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::base::arena::Carver;
use wavetrain::base::bill::Kind;
use wavetrain::base::limits::{EDGE_RUNS_MAX, RANK_MAX};
use wavetrain::config::{BACKEND_HOST, Config, THREADS_PUMP};
use wavetrain::decode::Decoder;
use wavetrain::decode::blosc;
use wavetrain::decode::inflate::Inflater;
use wavetrain::decode::zstd::Context;
use wavetrain::loader::{Column, Feed, Loader, Part, Pop, Request, Rows, Sample, Source};
use wavetrain::loops::crc32::crc32;
use wavetrain::loops::crc32c::crc32c;
use wavetrain::os::SYSTEM;
use wavetrain::plan::{Cursor, Merge, Reach};
use wavetrain::records::grid::EdgeRun;
use wavetrain::records::{ArrayRecord, Dtype, Span};
use wavetrain::setup::field_table::FieldTable;
use wavetrain::source::json;
use wavetrain::source::zarr::array_from_zarr3;
use wavetrain::status::Why;

const PARTS: usize = 5;
/// Bytes of a chunk of 32x64x64 uint16.
const CHUNK_BYTES: usize = 256 << 10;

/// Runs stages and prints what they do.
struct Report {
    seconds: f64,
    only: String,
    is_json: bool,
}

impl Report {
    /// `work` does a piece of the stage and says how many `unit`s it was.
    fn stage(&self, name: &str, unit: &str, mut work: impl FnMut() -> u64) {
        if !name.contains(&self.only) {
            return;
        }
        black_box(work());
        let mut rates = Vec::new();
        for _ in 0..PARTS {
            let (begin, mut units) = (cpu_seconds(), 0);
            let mut spent = 0.0;
            while spent < self.seconds / PARTS as f64 {
                units += work();
                spent = cpu_seconds() - begin;
            }
            rates.push(units as f64 / spent);
        }
        self.print(name, unit, median(rates));
    }

    fn print(&self, name: &str, unit: &str, rate: f64) {
        if self.is_json {
            println!("{}", json!({ "stage": name, "unit": unit, "per_cpu_second": rate }));
        } else if unit == "byte" {
            println!("{name:<52} {:>10.2} GB/s", rate * 1e-9);
        } else {
            println!("{name:<52} {:>10.2} M {unit}s/s {:>9.1} ns", rate * 1e-6, 1e9 / rate);
        }
    }
}

fn main() {
    let report = Report {
        seconds: flag_value("--seconds").map_or(0.3, |text| text.parse().expect("--seconds S")),
        only: flag_value("--only").unwrap_or_default(),
        is_json: has_flag("--json"),
    };
    decoders(&report);
    codecs(&report);
    checksums(&report);
    merges(&report);
    planner(&report);
    pushes(&report);
    tables(&report);
    documents(&report);
}

fn workspace() -> &'static mut [u8] {
    let words = vec![0u64; Context::workspace_bytes().div_ceil(8) as usize].leak();
    // SAFETY: any bytes are a u64's bytes, and the leaked words are used nowhere else.
    unsafe { words.align_to_mut::<u8>().1 }
}

fn context() -> Context {
    Context::new(workspace()).expect("a workspace of the size that was asked for")
}

fn decoder() -> Decoder {
    let inflater = Box::leak(Box::new(Inflater::new()));
    Decoder::new(workspace(), inflater).expect("a workspace of the size that was asked for")
}

fn decoders(report: &Report) {
    let mut why = Why::new();
    let mut context = context();
    let mut decoder = decoder();
    for bytes in [4 << 10, 64 << 10, CHUNK_BYTES, 4 << 20] {
        let frame = zstd_frame(&painted(1, bytes));
        let mut target = vec![1; bytes];
        report.stage(&format!("zstd frame of {} KiB", bytes >> 10), "byte", || {
            context.decompress(black_box(&frame), &mut target, &mut why).expect("decodes") as u64
        });
    }
    let frame = zstd_frame(&painted(1, 4 << 20));
    let mut target = vec![1; 4 << 20];
    report.stage("zstd frame of 4096 KiB, its first 512 KiB", "byte", || {
        context
            .decompress_prefix(black_box(&frame), &mut target, 512 << 10, &mut why)
            .expect("decodes") as u64
    });
    for (name, flag) in [("as it is", 0), ("bytes shuffled", 1), ("bits shuffled", 4)] {
        for block_bytes in [32 << 10, CHUNK_BYTES] {
            let chunk = blosc_chunk(&painted(2, CHUNK_BYTES), block_bytes, flag);
            let header = blosc::header(&chunk, &mut why).expect("a header");
            let (mut target, mut scratch) = (vec![1; CHUNK_BYTES], vec![1; block_bytes]);
            let mut number = 0;
            let stage = format!("blosc block of {} KiB, {name}", block_bytes >> 10);
            report.stage(&stage, "byte", || {
                number = (number + 1) % header.block_count;
                let first = u64::from(number) * block_bytes as u64;
                let span = Span { first, limit: first + block_bytes as u64 };
                let (chunk, target, scratch) = (black_box(&chunk), &mut target, &mut scratch);
                blosc::decode(&mut decoder, chunk, 0, span, target, scratch, &mut why)
                    .expect("decodes");
                block_bytes as u64
            });
        }
    }
}

/// Chunks of the codecs besides zstd, each with its C library beside it.
fn codecs(report: &Report) {
    let plain = painted(3, CHUNK_BYTES);
    let mut why = Why::new();
    let mut decoder = decoder();
    let mut inflater = Inflater::new();
    let (mut target, mut scratch) = (vec![1; CHUNK_BYTES], vec![1; CHUNK_BYTES]);
    for cname in [c"lz4", c"blosclz", c"zlib"] {
        let chunk = c_blosc_chunk(&plain, cname);
        let name = format!("blosc chunk of {} KiB, {}", CHUNK_BYTES >> 10, cname.to_str().unwrap());
        report.stage(&name, "byte", || {
            let span = Span { first: 0, limit: CHUNK_BYTES as u64 };
            let (chunk, target, scratch) = (black_box(&chunk), &mut target, &mut scratch);
            blosc::decode(&mut decoder, chunk, 0, span, target, scratch, &mut why)
                .expect("decodes");
            CHUNK_BYTES as u64
        });
        report.stage(&format!("{name}, by c-blosc"), "byte", || {
            let target = target.as_mut_ptr().cast();
            // SAFETY: the target is as long as the call is told, and the chunk is c-blosc's own.
            let count = unsafe {
                blosc_src::blosc_decompress_ctx(chunk.as_ptr().cast(), target, CHUNK_BYTES, 1)
            };
            count as u64
        });
    }
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(5));
    std::io::Write::write_all(&mut writer, &plain).expect("written");
    let stream = writer.finish().expect("a stream");
    report.stage("zlib stream of 256 KiB", "byte", || {
        inflater.zlib(black_box(&stream), &mut target, &mut why).expect("decodes") as u64
    });
    let mut oracle = flate2::Decompress::new(true);
    report.stage("zlib stream of 256 KiB, by zlib", "byte", || {
        oracle.reset(true);
        let flush = flate2::FlushDecompress::Finish;
        oracle.decompress(black_box(&stream), &mut target, flush).expect("decodes");
        oracle.total_out()
    });
}

fn checksums(report: &Report) {
    for bytes in [16, 4 << 10, 1 << 20] {
        let data = painted(3, bytes);
        let name = match bytes {
            16 => "crc32c of 16 bytes".to_owned(),
            _ => format!("crc32c of {} KiB", bytes >> 10),
        };
        report.stage(&name, "byte", || {
            // Often enough that the clock costs nothing.
            for _ in 0..1 + (64 << 10) / bytes {
                black_box(crc32c(0, black_box(&data)));
            }
            (1 + (64 << 10) / bytes as u64) * bytes as u64
        });
    }
    let data = painted(3, 1 << 20);
    report.stage("crc32 of 1024 KiB", "byte", || {
        black_box(crc32(0, black_box(&data)));
        1 << 20
    });
}

fn record_of(json: &[u8]) -> ArrayRecord {
    let table = &mut [EdgeRun::EMPTY; EDGE_RUNS_MAX];
    array_from_zarr3(json, ("a", None), table, &mut Why::new()).expect("a record")
}

/// The walk of a batch: cursors over one array, merged so that every chunk comes out once.
fn merges(report: &Report) {
    let array = Array {
        shape: [1024; 3],
        chunk: [32, 64, 64],
        shard: Some([256, 512, 512]),
        codec: Codec::Zstd,
    };
    let record = record_of(array.metadata().as_bytes());
    for samples in [1, 16, 256, 4096] {
        let mut counting = Carver::counting();
        Merge::carve(&mut counting, (u64::from(samples), 0));
        let bytes = counting.bill().total(Kind::Host);
        let block = vec![0u8; bytes as usize + 4096].leak();
        let start = block.as_ptr().align_offset(4096);
        let block = NonNull::from(&mut block[start..]).cast();
        // SAFETY: the block is leaked, aligned, as long as the bill, and used nowhere else.
        let mut merge =
            Merge::carve(&mut unsafe { Carver::over(block, bytes) }, (u64::from(samples), 0));
        let name = format!("plan: chunks of {samples} boxes of 64x128x128 merged");
        report.stage(&name, "chunk", || walk(&mut merge, &record, samples));
    }
}

fn walk(merge: &mut Merge, record: &ArrayRecord, samples: u32) -> u64 {
    let mut dice = common::Dice(4);
    for sample in 0..samples {
        let (mut lo, mut hi) = ([0; RANK_MAX], [0; RANK_MAX]);
        for (axis, extent) in [64, 128, 128].into_iter().enumerate() {
            lo[axis] = dice.below(1024 - extent + 1);
            hi[axis] = lo[axis] + extent;
        }
        merge.add(sample, Cursor::start(record, &Reach::of(lo, hi)));
    }
    let mut uses = 0;
    while merge.next(record, |_| uses += 1).is_some() {}
    uses
}

/// Everything between push and pop but reading and decoding: walk, window, lookup, wave, fill. The
/// chunks are not there, and the instance runs on this thread alone.
fn planner(report: &Report) {
    let scratch = Scratch::new("stages");
    let uri = scratch.uri("sparse");
    let array = Array { shape: [256; 3], chunk: [8; 3], shard: Some([256; 3]), codec: Codec::Raw };
    array.write(&uri, &[[0; 3]]);
    for (edge, batch) in [(128, 1), (32, 16), (8, 64)] {
        let mut config = Config {
            samples_per_batch: batch,
            sample_rank: 3,
            backend: BACKEND_HOST,
            thread_mode: THREADS_PUMP,
            n_decode_threads: 1,
            max_chunk_uncompressed_bytes: 1 << 20,
            ..Config::default()
        };
        config.sample_shape[..3].copy_from_slice(&[edge as u64; 3]);
        let loader =
            Loader::open_on(&SYSTEM, &config).unwrap_or_else(|failure| panic!("open: {failure}"));
        let mut dice = common::Dice(6);
        let chunks = (edge as u64 / 8).pow(3) * u64::from(batch);
        let name = format!("pipeline: missing chunks, {batch} x {edge}^3 a batch");
        report.stage(&name, "chunk", || {
            for _ in 0..batch {
                let steps = (256 - edge as u64) / 8 + 1;
                let begin: [i64; 3] = std::array::from_fn(|_| 8 * dice.below(steps) as i64);
                let end = begin.map(|at| at + edge);
                let request = Request { uri: &uri, begin: &begin, end: &end, tag: 0 };
                loader.push(&[request], u64::MAX).unwrap_or_else(|f| panic!("push: {f}"));
            }
            match loader.pop(u64::MAX) {
                Ok(Pop::Batch(batch)) => black_box(batch.data()[0]),
                Ok(_) => panic!("no batch"),
                Err(failure) => panic!("pop: {failure}"),
            };
            chunks
        });
    }
}

/// Push alone, of samples of so many boxes: nobody works on what waits, and reset drops it. The
/// boxes are rows of the field, in no order.
fn pushes(report: &Report) {
    const SAMPLES: usize = 64;
    for boxes in [1, 4, 32, 255] {
        let mut config = Config {
            samples_per_batch: SAMPLES as u32,
            sample_rank: 2,
            backend: BACKEND_HOST,
            thread_mode: THREADS_PUMP,
            n_decode_threads: 1,
            lookahead_samples: SAMPLES as u32,
            max_boxes_per_sample: if boxes > 1 { boxes } else { 0 },
            ..Config::default()
        };
        config.sample_shape[..2].copy_from_slice(&[u64::from(boxes), 64]);
        let loader =
            Loader::open_on(&SYSTEM, &config).unwrap_or_else(|failure| panic!("open: {failure}"));
        let places: Vec<[u64; 2]> = (0..boxes).map(|n| [u64::from(n * 97 % boxes), 0]).collect();
        let parts: Vec<Part<'_>> = places
            .iter()
            .map(|at| Part { uri: "/data/a", begin: &[7, 0], end: &[8, 64], at, ..Part::default() })
            .collect();
        let samples = vec![Sample { parts: &parts, tag: 0 }; SAMPLES];
        report.stage(&format!("push: samples of {boxes} boxes"), "box", || {
            let (taken, result) = loader.push_samples(black_box(&samples), 0);
            result.unwrap_or_else(|failure| panic!("push: {failure}"));
            assert_eq!(taken, SAMPLES);
            loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
            SAMPLES as u64 * u64::from(boxes)
        });
    }
}

/// The same of a table: random boxes of one array, a label beside each, and two arrays.
fn tables(report: &Report) {
    const ROWS: usize = 4096;
    let field = |name: &str, extents: &[u64]| {
        let mut field = FieldSpec { sample_rank: extents.len() as u32, ..FieldSpec::BLANK };
        field.name[..name.len()].copy_from_slice(name.as_bytes());
        field.sample_shape[..extents.len()].copy_from_slice(extents);
        FieldSpec { dtype: Dtype::I64 as u32, ..field }
    };
    let fields = vec![field("x", &[1, 64]), field("y", &[])].leak();
    let config = Config {
        samples_per_batch: ROWS as u32,
        backend: BACKEND_HOST,
        thread_mode: THREADS_PUMP,
        n_decode_threads: 1,
        lookahead_samples: ROWS as u32,
        fields: FieldTable::from_static(fields),
        ..Config::default()
    };
    let loader = Loader::open_on(&SYSTEM, &config).unwrap_or_else(|f| panic!("open: {f}"));
    let begins: Vec<i64> = (0..ROWS as i64).flat_map(|n| [n * 2_654_435_761 % 50_000, 0]).collect();
    let numbers: Vec<i64> = begins.iter().step_by(2).copied().collect();
    let labels: Vec<u8> = numbers.iter().flat_map(|n| (n % 10).to_ne_bytes()).collect();
    let boxes = Column {
        field: 0,
        rank: 2,
        source: Source::Uris(&["/data/images.npy"], Rows::None),
        begin: Rows::Each(&begins),
        shape: Rows::One(&[1, 64]),
        step: Rows::None,
        at: Rows::None,
        augment: Rows::None,
        affine: Rows::None,
    };
    let (begin, shape, field) = (Rows::None, Rows::None, 1);
    let source = Source::Values(Dtype::I64, 8, Rows::Each(&labels));
    let label = Column { field, rank: 0, source, begin, shape, ..boxes };
    let source = Source::Uris(&["/data/labels.npy"], Rows::None);
    let (begin, shape) = (Rows::Each(&numbers[..]), Rows::One(&[1][..]));
    let beside = Column { field, rank: 1, source, begin, shape, ..boxes };
    for (name, columns) in [
        ("a box", &[boxes][..]),
        ("a box, a label", &[boxes, label]),
        ("two boxes", &[boxes, beside]),
    ] {
        report.stage(&format!("push: rows of {name}"), "row", || {
            let (taken, result) = loader.push_table(black_box(columns), ROWS, Rows::None, 0);
            result.unwrap_or_else(|failure| panic!("push: {failure}"));
            assert_eq!(taken, ROWS);
            loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
            ROWS as u64
        });
    }
    let one: Vec<Part<'_>> = begins
        .chunks(2)
        .map(|begin| Part { uri: "/data/images.npy", begin, ..Part::default() })
        .collect();
    let ends: Vec<i64> = begins.iter().zip([1, 64].iter().cycle()).map(|(a, b)| a + b).collect();
    let one: Vec<Part<'_>> =
        one.iter().zip(ends.chunks(2)).map(|(part, end)| Part { end, ..*part }).collect();
    let two: Vec<[Part<'_>; 2]> = one
        .iter()
        .zip(&labels.chunks(8).collect::<Vec<_>>())
        .map(|(part, label)| {
            let feed = Feed::Value(Dtype::I64, &[], label);
            [*part, Part { feed, field: 1, ..Part::default() }]
        })
        .collect();
    let ones: Vec<Sample<'_>> =
        one.iter().map(|part| Sample { parts: std::slice::from_ref(part), tag: 0 }).collect();
    let twos: Vec<Sample<'_>> = two.iter().map(|parts| Sample { parts, tag: 0 }).collect();
    for (name, samples) in [("a box", &ones), ("a box, a label", &twos)] {
        report.stage(&format!("push: samples of {name}"), "sample", || {
            let (taken, result) = loader.push_samples(black_box(samples), 0);
            result.unwrap_or_else(|failure| panic!("push: {failure}"));
            assert_eq!(taken, ROWS);
            loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
            ROWS as u64
        });
    }
}

fn documents(report: &Report) {
    let array = Array {
        shape: [1024; 3],
        chunk: [32, 64, 64],
        shard: Some([256, 512, 512]),
        codec: Codec::Zstd,
    };
    let text = array.metadata();
    let name = format!("zarr.json of {} bytes: record", text.len());
    report.stage(&name, "document", || {
        let bytes = black_box(text.as_bytes());
        black_box(record_of(bytes).chunk_bytes);
        1
    });
    let entries: Vec<String> = (0..20_000)
        .map(|n| format!(r#""level{n}":{{"scale":[1.0,{n}.25e-3,-7],"unit":"µm","on":true}}"#))
        .collect();
    let attributes = format!(r#""attributes":{{{}}}}}"#, entries.join(","));
    let large = text.replace(r#""attributes":{}}"#, &attributes);
    let name = format!("json of {:.1} MB checked", large.len() as f64 * 1e-6);
    report.stage(&name, "byte", || {
        black_box(json::parse(black_box(large.as_bytes())).expect("JSON").kind());
        large.len() as u64
    });
    let name = format!("zarr.json of {:.1} MB: record", large.len() as f64 * 1e-6);
    report.stage(&name, "byte", || {
        let bytes = black_box(large.as_bytes());
        black_box(record_of(bytes).chunk_bytes);
        large.len() as u64
    });
}
