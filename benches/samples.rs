//! Samples of several boxes against what a trainer would write itself.
//!
//! Ratios of neighbours in one run, because machines are noisy: two fields of one loader against
//! two loaders, memory through a loader against a copy, and boxes of a .npy file against two
//! threads that copy from a mapping of it or read it. `cargo bench --bench samples`; rounds as an argument.

mod common;

use common::{Array, Codec, Dice, Scratch, Triple};
use std::fs;
use std::os::unix::fs::FileExt;
use std::slice::ChunksMut;
use std::time::Instant;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::config::{Config, FieldTable};
use wavetrain::loader::{Feed, Loader, Memory, Part, Pop, Sample};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;

const SAMPLES: usize = 256;
const PER_BATCH: u32 = 8;

fn field(name: &str, shape: &[u64], dtype: Dtype) -> FieldSpec {
    let mut spec = FieldSpec { dtype: dtype as u32, ..FieldSpec::BLANK };
    spec.name[..name.len()].copy_from_slice(name.as_bytes());
    spec.sample_rank = shape.len() as u32;
    spec.sample_shape[..shape.len()].copy_from_slice(shape);
    spec
}

fn open(fields: Vec<FieldSpec>) -> Loader {
    let config = Config {
        samples_per_batch: PER_BATCH,
        fields: FieldTable::from_static(fields.leak()),
        n_decode_threads: 2,
        n_io_threads: 2,
        ..Config::default()
    };
    Loader::open_on(&SYSTEM, &config).unwrap_or_else(|why| panic!("{why}"))
}

/// Seconds for all samples.
fn stream(loader: &Loader, samples: &[Sample<'_>]) -> f64 {
    let begun = Instant::now();
    let (mut pushed, mut seen) = (0, 0);
    while seen < samples.len() {
        let (taken, result) = loader.push_samples(&samples[pushed..], 0);
        result.unwrap_or_else(|why| panic!("{why}"));
        pushed += taken;
        match loader.pop(u64::MAX).unwrap_or_else(|why| panic!("{why}")) {
            Pop::Batch(batch) => seen += batch.tags().len(),
            _ => panic!("no batch"),
        }
    }
    begun.elapsed().as_secs_f64()
}

/// The median ratio of the second time to the first, over rounds of neighbours.
fn compare(
    name: &str,
    rounds: usize,
    mut first: impl FnMut() -> f64,
    mut second: impl FnMut() -> f64,
) {
    first();
    second();
    let mut ratios: Vec<f64> = (0..rounds)
        .map(|round| {
            let (a, b) = if round % 2 == 0 {
                let a = first();
                (a, second())
            } else {
                let b = second();
                (first(), b)
            };
            b / a
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let [low, median, high] = [0, rounds / 2, rounds - 1].map(|at| ratios[at]);
    println!("{name:<64} {median:6.2}  ({low:.2} to {high:.2})");
}

/// Corners of random boxes of 32 x 96 x 96 in 128 x 512 x 512.
fn corners(seed: u64) -> Vec<([i64; 3], [i64; 3])> {
    let mut dice = Dice(seed);
    (0..SAMPLES)
        .map(|_| {
            let low = [97u64, 417, 417].map(|limit| dice.below(limit) as i64);
            (low, [low[0] + 32, low[1] + 96, low[2] + 96])
        })
        .collect()
}

fn part<'a>(uri: &'a str, (begin, end): &'a ([i64; 3], [i64; 3]), field: u32) -> Part<'a> {
    Part { uri, begin, end, field, ..Part::default() }
}

fn lists<'a>(parts: &'a [Vec<Part<'a>>]) -> Vec<Sample<'a>> {
    (0..).zip(parts).map(|(tag, parts)| Sample { parts, tag }).collect()
}

/// Two fields of one loader against a loader each, one after the other.
fn fields(rounds: usize, name: &str, uris: [&str; 2]) {
    const SHAPE: [u64; 3] = [32, 96, 96];
    let corners = corners(7);
    let [image, mask] = [field("image", &SHAPE, Dtype::F32), field("mask", &SHAPE, Dtype::U16)];
    let both = open(vec![image, mask]);
    let (one, other) = (open(vec![image]), open(vec![mask]));
    let both_parts: Vec<Vec<Part<'_>>> =
        corners.iter().map(|at| vec![part(uris[0], at, 0), part(uris[1], at, 1)]).collect();
    let image_parts: Vec<Vec<Part<'_>>> =
        corners.iter().map(|at| vec![part(uris[0], at, 0)]).collect();
    let mask_parts: Vec<Vec<Part<'_>>> =
        corners.iter().map(|at| vec![part(uris[1], at, 0)]).collect();
    let (both_list, image_list, mask_list) =
        (lists(&both_parts), lists(&image_parts), lists(&mask_parts));
    compare(
        name,
        rounds,
        || stream(&both, &both_list),
        || stream(&one, &image_list) + stream(&other, &mask_list),
    );
}

/// Boxes that are all of a block of memory, against copies of as many bytes.
fn memory(rounds: usize, edge: u64) {
    let bytes = edge * edge * 4;
    let source: Vec<Vec<u8>> = (0..16u8).map(|n| vec![n; bytes as usize]).collect();
    let mut target = vec![0u8; 3 * 8 * bytes as usize];
    let loader = open(vec![field("image", &[edge, edge], Dtype::F32)]);
    let end = [edge as i64, edge as i64];
    let parts: Vec<Vec<Part<'_>>> = (0..SAMPLES)
        .map(|n| {
            let data = source[n % 16].as_ptr();
            // SAFETY: the memory outlives the stream, and nobody writes it.
            let memory = unsafe { Memory::new(data, Dtype::F32, &[edge, edge], &[edge * 4, 4]) };
            vec![Part { feed: Feed::Memory(memory), begin: &[0, 0], end: &end, ..Part::default() }]
        })
        .collect();
    let list = lists(&parts);
    compare(
        &format!("memory of {} KiB: loader / copy of one thread", bytes >> 10),
        rounds,
        || {
            let begun = Instant::now();
            for n in 0..SAMPLES {
                let place = &mut target[n % 24 * bytes as usize..][..bytes as usize];
                place.copy_from_slice(&source[n % 16]);
            }
            begun.elapsed().as_secs_f64()
        },
        || stream(&loader, &list),
    );
}

/// Rows of a box of u16 into a sample of elements of `size` bytes; `span` has them of one plane,
/// from the first to the last.
fn copy_plane(span: &[u8], rows: &mut ChunksMut<'_, u8>, size: usize) {
    for source in span.chunks(1024) {
        let (row, source) = (rows.next().expect("a row"), &source[..192]);
        if size == 2 {
            row.copy_from_slice(source);
            continue;
        }
        for (to, from) in row.chunks_exact_mut(4).zip(source.chunks_exact(2)) {
            let value = f32::from(u16::from_le_bytes([from[0], from[1]]));
            to.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

/// Boxes of a .npy file of u16, against two threads that copy and cast: out of a mapping, and, the
/// limit of whoever maps nothing, what they read of each plane at once.
fn npy(rounds: usize, folder: &Scratch) {
    const SHAPE: [usize; 3] = [128, 512, 512];
    const SPAN_BYTES: usize = 95 * 1024 + 192;
    let uri = folder.uri("volume.npy");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend_from_slice(b"{'descr': '<u2', 'fortran_order': False, 'shape': (128, 512, 512), }");
    file.resize(128, b' ');
    let elements: usize = SHAPE.iter().product();
    file.extend((0..elements).flat_map(|n| (n as u16).to_le_bytes()));
    fs::write(&uri, &file).expect("it is written");
    // The page cache has it; memory that is read stands for a mapping without its page faults.
    let (mapped, opened) = (file, fs::File::open(&uri).expect("it is there"));
    let corners = corners(9);
    for (dtype, size) in [(Dtype::U16, 2usize), (Dtype::F32, 4)] {
        let loader = open(vec![field("image", &[32, 96, 96], dtype)]);
        let parts: Vec<Vec<Part<'_>>> = corners.iter().map(|at| vec![part(&uri, at, 0)]).collect();
        let list = lists(&parts);
        let sample_bytes = 32 * 96 * 96 * size;
        let mut target = vec![0u8; 24 * sample_bytes];
        let copy = |corners: &[([i64; 3], [i64; 3])], target: &mut [u8], reads: bool| {
            let mut buffer = vec![0; SPAN_BYTES];
            for (number, (low, high)) in corners.iter().enumerate() {
                let place = &mut target[number % 12 * sample_bytes..][..sample_bytes];
                let mut rows = place.chunks_mut(96 * size);
                for z in low[0]..high[0] {
                    let at = (z as usize * 512 + low[1] as usize) * 512 + low[2] as usize;
                    let at = 128 + 2 * at;
                    if reads {
                        opened.read_exact_at(&mut buffer, at as u64).expect("it is read");
                        copy_plane(&buffer, &mut rows, size);
                    } else {
                        copy_plane(&mapped[at..at + SPAN_BYTES], &mut rows, size);
                    }
                }
            }
        };
        for (reads, what) in [(false, "copy out of a mapping"), (true, "read and copy")] {
            compare(
                &format!("boxes of .npy as {}: loader / two threads that {what}", dtype.name()),
                rounds,
                || {
                    let (first, second) = target.split_at_mut(12 * sample_bytes);
                    let (a, b) = corners.split_at(SAMPLES / 2);
                    let begun = Instant::now();
                    std::thread::scope(|scope| {
                        scope.spawn(|| copy(a, first, reads));
                        copy(b, second, reads);
                    });
                    begun.elapsed().as_secs_f64()
                },
                || stream(&loader, &list),
            );
        }
    }
}

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let rounds = given.unwrap_or(9);
    let folder = Scratch::new("samples");
    let mut uris = Vec::new();
    for (name, codec) in
        [("a", Codec::Zstd), ("b", Codec::Zstd), ("c", Codec::Blosc), ("d", Codec::Blosc)]
    {
        let array = Array { shape: [128, 512, 512], chunk: [32, 64, 64], shard: None, codec };
        let uri = folder.uri(name);
        let chunks: Vec<Triple> =
            (0..4).flat_map(|z| (0..8).flat_map(move |y| (0..8).map(move |x| [z, y, x]))).collect();
        array.write(&uri, &chunks);
        uris.push(uri);
    }
    println!("{:<64} {:>6}  (least to most of {rounds})", "ratio of the times", "median");
    fields(rounds, "zstd, two fields of one array: two loaders / one", [&uris[0], &uris[0]]);
    fields(rounds, "zstd, image and mask: two loaders / one", [&uris[0], &uris[1]]);
    fields(rounds, "blosc, two fields of one array: two loaders / one", [&uris[2], &uris[2]]);
    fields(rounds, "blosc, image and mask: two loaders / one", [&uris[2], &uris[3]]);
    for edge in [512, 1024, 2048] {
        memory(rounds, edge);
    }
    npy(rounds, &folder);
}
