//! What boxes read of a chunk travels to a device without what lies between its rows: the bytes
//! stay those of the array, whatever the order of its axes and bytes, and the bus carries no more.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::{self, Dice, Job, stream, stream_through};
use crate::common::effort;
use crate::common::fixtures::{self, Scratch};
use crate::common::npy;
use crate::common::oracle::{Image, cast, has_cast};
use crate::common::platform::{self, Platform};
use crate::common::synth::{Meta, shard_bytes};
use std::ffi::{c_char, c_void};
use std::slice;
use std::sync::Arc;
use wavetrain::abi::{SourceHook, SourceInfo};
use wavetrain::config::*;
use wavetrain::records::Dtype;

const ZSTD: &str = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;

/// With a device that decodes nothing.
fn on_device(platform: &dyn Platform, config: Config, cache_bytes: u64) -> Config {
    Config {
        backend: BACKEND_CUDA,
        device: 0,
        cuda_driver: platform.driver_path(),
        device_decode: DECODE_OFF,
        chunk_cache_bytes: cache_bytes,
        max_host_memory_bytes: config.max_host_memory_bytes + (64 << 20),
        ..config
    }
}

/// Boxes of one shape somewhere in an array, some of them twice.
fn boxes(uri: &str, image: &Image, dtype: Dtype, dice: &mut Dice) -> Vec<Job> {
    let shape: Vec<i64> =
        image.shape.iter().map(|extent| dice.range(1, *extent as i64 + 1)).collect();
    let job = |_| {
        let begin: Vec<i64> = image
            .shape
            .iter()
            .zip(&shape)
            .map(|(extent, length)| dice.range(0, *extent as i64 - length + 1))
            .collect();
        let end: Vec<i64> =
            begin.iter().zip(&shape).map(|(begin, length)| begin + length).collect();
        let want = cast(image.dtype, dtype, &image.inside(&begin, &end));
        Job::new(uri, (begin, end), want)
    };
    let jobs: Vec<Job> = (0..4).map(job).collect();
    [&jobs[..], &jobs[..2]].concat()
}

/// Kinds of loaders that stream boxes.
const LOADERS: usize = 4;

/// Streams boxes as one of [`LOADERS`] does, which `number` chooses.
fn stream_one(
    platform: &dyn Platform,
    (uri, image): (&str, &Image),
    number: usize,
    dice: &mut Dice,
) {
    let is_cast = number % 2 == 1 && has_cast(image.dtype, Dtype::F32);
    let dtype = if is_cast { Dtype::F32 } else { image.dtype };
    let jobs = boxes(uri, image, dtype, dice);
    let config = drive::config(dtype, &jobs[0].extents(), 3);
    let cache_bytes = if number / 2 % 2 == 1 { 1 << 20 } else { 0 };
    stream(&on_device(platform, config, cache_bytes), &jobs);
}

#[test]
fn boxes_of_every_shape_out_of_every_store_are_those_of_the_array() {
    let Some(platform) = platform::take() else { return };
    let mut dice = Dice(0x0DD_B1A5_E5BA_D5EE);
    let has_some = |store: &&fixtures::Store| !store.image.pixels.is_empty();
    let stores = fixtures::all().iter().filter(has_some).enumerate();
    for (number, store) in effort::part(stores, LOADERS) {
        stream_one(&*platform, (&store.uri, &store.image), number, &mut dice);
    }
}

#[test]
fn fields_of_structured_elements_are_those_of_numpy_on_a_device() {
    let Some(platform) = platform::take() else { return };
    let mut dice = Dice(0x57AC_7000);
    let is_number = |store: &fixtures::Store| {
        [Dtype::F64, Dtype::I32, Dtype::U8, Dtype::U16, Dtype::F32].contains(&store.image.dtype)
    };
    let mut stores = fixtures::apart("structs");
    stores.retain(is_number);
    assert!(stores.len() > 15);
    for (number, store) in stores.iter().enumerate() {
        stream_one(&*platform, (&store.uri, &store.image), number, &mut dice);
    }
}

#[test]
fn scaled_and_cast_values_are_those_of_their_writer_on_a_device() {
    let Some(platform) = platform::take() else { return };
    let mut dice = Dice(0x5CA1_ED00);
    let mut stores = fixtures::apart("values");
    stores.retain(|store| store.name.starts_with("packed_"));
    assert!(stores.len() >= 8);
    for (number, store) in stores.iter().enumerate() {
        stream_one(&*platform, (&store.uri, &store.image), number, &mut dice);
    }
}

#[test]
fn shards_that_are_decoded_whole_are_those_of_their_writer_on_a_device() {
    let Some(platform) = platform::take() else { return };
    let mut dice = Dice(0x5AAD_ED00);
    for (number, store) in fixtures::apart("shards").iter().enumerate() {
        stream_one(&*platform, (&store.uri, &store.image), number, &mut dice);
    }
}

#[test]
fn boxes_out_of_files_of_either_order_of_axes_and_bytes_are_those_of_the_array() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let mut dice = Dice(0xFEED_5EED);
    let shape = [19u64, 23, 21, 3];
    for (name, dtype) in [("<u2", Dtype::U16), (">u2", Dtype::U16), (">f8", Dtype::F64)] {
        let width = dtype.bytes() as usize;
        // Small numbers, so that every cast is exact.
        let numbers = (0..shape.iter().product()).map(|at: u64| at % 251);
        let little: Vec<Vec<u8>> = numbers
            .map(|number| match dtype {
                Dtype::U16 => (number as u16).to_le_bytes().to_vec(),
                _ => (number as f64).to_le_bytes().to_vec(),
            })
            .collect();
        let image = Image::new(dtype, shape.to_vec(), Arc::new(little.concat()), vec![0; width]);
        for is_fortran in [false, true] {
            let place = |at: usize| {
                let (mut at, mut number) = (at, 0);
                let axes: Vec<usize> =
                    if is_fortran { (0..4).rev().collect() } else { (0..4).collect() };
                // The last of `axes` is the fastest in the file.
                for axis in axes.into_iter().rev() {
                    let extent = shape[axis] as usize;
                    let stride: u64 = shape[axis + 1..].iter().product();
                    number += at % extent * stride as usize;
                    at /= extent;
                }
                number
            };
            let elements = (0..little.len()).flat_map(|at| {
                let mut element = little[place(at)].clone();
                if name.starts_with('>') {
                    element.reverse();
                }
                element
            });
            let data: Vec<u8> = elements.collect();
            let file = format!("{}{is_fortran}.npy", name.replace(['<', '>'], "x"));
            let path = scratch.path(&format!("{}{file}", name.starts_with('>')));
            std::fs::write(&path, npy::file(name, is_fortran, &shape, &data)).unwrap();
            let uri = path.to_str().unwrap();
            (0..4).for_each(|number| stream_one(&*platform, (uri, &image), number, &mut dice));
        }
    }
}

/// Extents of a chunk, and boxes of one shape in it: the first two overlap, the third is far off.
const CHUNK: [u64; 3] = [16, 32, 64];
const SHAPE: [i64; 3] = [5, 7, 33];
const BEGINS: [[i64; 3]; 3] = [[3, 4, 10], [3, 5, 10], [11, 25, 20]];

#[test]
fn the_bus_carries_the_rows_of_boxes_and_not_what_lies_between_them() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let mut dice = Dice(0xB05);
    let pixels: Vec<u8> =
        (0..CHUNK.iter().product::<u64>() * 2).map(|_| dice.range(0, 256) as u8).collect();
    let image = Image::new(Dtype::U16, CHUNK.to_vec(), Arc::new(pixels.clone()), vec![0; 2]);
    let whole = zstd::encode_all(&pixels[..], 1).unwrap();
    // Around the first two there is one box; each of the others is alone.
    let rows_bytes = |rows: i64| (5 * rows * 33 * 2) as u64;
    let cases: [(&[usize], u64); 3] = [
        (&[0], rows_bytes(7)),
        (&[0, 1], rows_bytes(8)),
        (&[0, 2], 2 * rows_bytes(7).next_multiple_of(16)),
    ];
    for (codecs, chunk) in [("", pixels.clone()), (ZSTD, whole)] {
        let meta = Meta { codecs, ..Meta::u16(&CHUNK, &CHUNK, Some(&CHUNK)) };
        let file = shard_bytes(&chunk, &[(0, chunk.len() as u64)]);
        let uri = meta.write(&scratch, &format!("of{}", codecs.len()), Some(&file));
        for (places, box_bytes) in cases {
            let job = |place: &usize| {
                let begin = BEGINS[*place].to_vec();
                let end: Vec<i64> =
                    begin.iter().zip(SHAPE).map(|(begin, length)| begin + length).collect();
                let want = image.inside(&begin, &end);
                Job::new(&uri, (begin, end), want)
            };
            let jobs: Vec<Job> = places.iter().map(job).collect();
            for cache_bytes in [0, 1 << 20] {
                let config = drive::config(Dtype::U16, &jobs[0].extents(), jobs.len());
                let config = on_device(&simulator, config, cache_bytes);
                let loader = drive::open(&config);
                for first_batch in 0..2 {
                    let before = simulator.bus_bytes();
                    stream_through(&loader, &config, &jobs, first_batch);
                    let bytes = simulator.bus_bytes() - before;
                    // Records of the boxes, and what they are rounded up to.
                    let most = box_bytes + 2048 * jobs.len() as u64;
                    let is_least = (box_bytes..most).contains(&bytes);
                    assert!(is_least, "{codecs} {places:?} {cache_bytes}: {bytes}");
                }
            }
        }
    }
}

/// Extents of an array that a host gives in chunks, the last of which are cut at its edges.
const ASKED: [u64; 2] = [21, 46];

unsafe extern "C" fn describe(_: *mut c_void, _: *const c_char, info: *mut SourceInfo) -> i64 {
    // SAFETY: the library gives an info.
    let info = unsafe { &mut *info };
    (info.rank, info.dtype) = (2, Dtype::U16 as u32);
    info.shape[..2].copy_from_slice(&ASKED);
    info.chunk_shape[..2].copy_from_slice(&[8, 20]);
    0
}

unsafe extern "C" fn give(
    _: *mut c_void,
    _: *const c_char,
    begin: *const u64,
    end: *const u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: two numbers each, and a target of so many bytes.
    let (begin, end, target) = unsafe {
        let target = slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize);
        (slice::from_raw_parts(begin, 2), slice::from_raw_parts(end, 2), target)
    };
    let numbers = (begin[0]..end[0])
        .flat_map(|row| (begin[1]..end[1]).map(move |column| row * ASKED[1] + column));
    let elements: Vec<u8> = numbers.flat_map(|number| (number as u16).to_le_bytes()).collect();
    target.copy_from_slice(&elements);
    0
}

#[test]
fn boxes_out_of_chunks_that_a_host_gives_are_those_of_the_array() {
    let Some(platform) = platform::take() else { return };
    let source = SourceHook { describe: Some(describe), read: Some(give), ..SourceHook::NONE };
    let numbers = 0..ASKED.iter().product::<u64>();
    let pixels = numbers.flat_map(|number| (number as u16).to_le_bytes()).collect();
    let image = Image::new(Dtype::U16, ASKED.to_vec(), Arc::new(pixels), vec![0; 2]);
    let mut dice = Dice(0xA5CED);
    for number in 0..24 {
        let jobs = boxes("hook:numbers", &image, Dtype::U16, &mut dice);
        let config = drive::config(Dtype::U16, &jobs[0].extents(), 3);
        let config = on_device(&*platform, config, (number % 2) << 20);
        stream(&Config { source, ..config }, &jobs);
    }
}
