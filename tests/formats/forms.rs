//! Transposed chunks and shards in shards come out as they went in: every axis order, level, index
//! form, element size, missing part and cache size.

use crate::common::drive::{Dice, Job, Span, config, stream, stream_as_configured};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::layers::{IndexForm, Layer, Layered, places};
use crate::common::oracle::Image;
use std::sync::Arc;
use wavetrain::config::{Config, MISSING_ERROR, THREADS_PUMP};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Boxes of one shape all over the stores of two axes of these families, as u16.
fn jobs_of_two_axes(families: &[&str], count: usize) -> Vec<Job> {
    let is_wanted = |store: &&Store| {
        families.contains(&store.family.as_str())
            && store.image.dtype == Dtype::U16
            && store.image.shape.len() == 2
            && store.image.shape.iter().all(|extent| *extent >= 7)
    };
    let stores: Vec<&Store> = fixtures::all().iter().filter(is_wanted).collect();
    assert!(stores.len() >= 8, "{} stores", stores.len());
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut job = |n: usize| {
        let store = stores[n % stores.len()];
        let axes = store.image.shape.iter();
        let begin: Vec<i64> = axes.map(|extent| dice.range(0, *extent as i64 - 6)).collect();
        let end = begin.iter().map(|begin| begin + 7).collect();
        Job::of(store, (begin, end), Dtype::U16)
    };
    (0..count).map(&mut job).collect()
}

fn stream_forms(change: impl Fn(&mut Config)) {
    let mut config = config(Dtype::U16, &[7, 7], 5);
    change(&mut config);
    stream(&config, &jobs_of_two_axes(&["nested", "transpose"], 120));
}

#[test]
fn forms_share_batches() {
    stream_forms(|_| {});
}

#[test]
fn one_cached_page_one_file_and_one_lookup_are_enough_for_two_levels() {
    for (index, files, lookups) in [(1, 64, 4), (64, 1, 4), (64, 64, 1), (1, 1, 1), (2, 1, 2)] {
        stream_forms(|config| {
            config.n_shard_index_cache = index;
            config.n_chunk_layout_cache = files;
            config.metadata_io_concurrency = lookups;
        });
    }
}

#[test]
fn one_of_everything_is_enough_in_pump_mode() {
    stream_forms(|config| {
        config.thread_mode = THREADS_PUMP;
        config.n_shard_index_cache = 1;
        config.n_chunk_layout_cache = 1;
        config.metadata_io_concurrency = 1;
        config.n_batch_slots = 1;
    });
}

#[test]
fn forms_are_kept_in_the_chunk_cache() {
    for bytes in [64 << 10, 4 << 20] {
        stream_forms(|config| config.chunk_cache_bytes = bytes);
    }
}

#[test]
fn small_waves_and_reads_give_the_same_forms() {
    for (chunks, bytes) in [(1, 1), (2, 64), (7, 1 << 20)] {
        stream_forms(|config| {
            config.max_chunks_per_wave = chunks;
            config.max_read_op_bytes = bytes;
        });
    }
}

const TYPES: [(&str, Dtype, u32); 6] = [
    ("\"uint8\"", Dtype::U8, 1),
    ("\"uint16\"", Dtype::U16, 2),
    ("\"r24\"", Dtype::Raw, 3),
    ("\"uint32\"", Dtype::U32, 4),
    ("\"r64\"", Dtype::Raw, 8),
    ("\"r128\"", Dtype::Raw, 16),
];

/// Bytes that differ from place to place.
fn pixel(at: &[u64], bytes: u32) -> Vec<u8> {
    let seed = at.iter().fold(0x9E37_79B9_7F4A_7C15u64, |hash, at| {
        (hash ^ (at + 1)).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(23)
    });
    (0..bytes).map(|n| (seed.wrapping_mul(2 * u64::from(n) + 1) >> 40) as u8).collect()
}

fn shuffled(dice: &mut Dice, rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    for place in (1..rank).rev() {
        order.swap(place, dice.range(0, place as i64 + 1) as usize);
    }
    order
}

/// Random layers for a store of chunks of `chunk`; the extents of its files in array order.
fn draw_layers(dice: &mut Dice, chunk: &[u64]) -> (Vec<Layer>, Vec<u64>) {
    let rank = chunk.len();
    let levels = dice.range(0, 3);
    let mut shapes = vec![chunk.to_vec()];
    for _ in 0..levels {
        let larger = shapes[0].iter().map(|edge| edge * dice.range(1, 4) as u64).collect();
        shapes.insert(0, larger);
    }
    let (mut layers, mut axes) = (Vec::new(), (0..rank).collect::<Vec<usize>>());
    for level in 0..=levels as usize {
        for _ in 0..dice.range(0, 3) {
            let order = shuffled(dice, rank);
            axes = order.iter().map(|axis| axes[*axis]).collect();
            layers.push(Layer::Transpose(order));
        }
        if level < levels as usize {
            let edges = axes.iter().map(|axis| shapes[level + 1][*axis]).collect();
            let mut coin = || dice.range(0, 2) == 0;
            let form = IndexForm { at_start: coin(), has_crc: coin(), is_big: coin() };
            layers.push(Layer::Shard(edges, form));
        }
    }
    (layers, shapes.remove(0))
}

fn random_span(dice: &mut Dice, shape: &[u64]) -> Span {
    let axis = |extent: &u64| {
        let begin = dice.range(0, *extent as i64);
        (begin, dice.range(begin, *extent as i64) + 1)
    };
    shape.iter().map(axis).unzip()
}

/// A random store, a few random boxes of it, and the whole of it.
fn check_random(dice: &mut Dice, scratch: &Scratch, number: u64) {
    let rank = dice.range(1, 7) as usize;
    let (data_type, dtype, bytes) = TYPES[dice.range(0, 6) as usize];
    let most = if rank < 4 { 5 } else { 3 };
    let chunk: Vec<u64> = (0..rank).map(|_| dice.range(1, most) as u64).collect();
    let (layers, cell) = draw_layers(dice, &chunk);
    let shape: Vec<u64> =
        cell.iter().map(|edge| dice.range(1, 2 * *edge as i64 + 2).min(14) as u64).collect();
    let fill = vec![0xA5; bytes as usize];
    let fill_text = match dtype {
        Dtype::Raw => format!("{fill:?}"),
        _ => fill.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte)).to_string(),
    };
    let zstd = dice.range(0, 2) == 0;
    let hole = dice.range(2, 9) as u64;
    let is_there =
        |at: &[u64]| at.iter().zip(&chunk).map(|(at, c)| at / c).sum::<u64>() % hole != 1;
    let layered = Layered {
        shape: shape.clone(),
        cell,
        layers,
        data_type,
        fill: &fill_text,
        tail: match zstd {
            true => r#"{"name":"bytes","configuration":{"endian":"little"}},"zstd""#,
            false => r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        },
        pixel: &|at| pixel(at, bytes),
        encode: &|raw| if zstd { zstd::encode_all(&raw[..], 1).expect("a frame") } else { raw },
        is_there: &is_there,
    };
    let uri = layered.write(scratch, &number.to_string());
    let first_of = |at: &[u64]| at.iter().zip(&chunk).map(|(at, c)| at / c * c).collect::<Vec<_>>();
    let pixels = places(&shape).flat_map(|at| match is_there(&first_of(&at)) {
        true => pixel(&at, bytes),
        false => fill.clone(),
    });
    let image = Image::new(dtype, shape.clone(), Arc::new(pixels.collect()), fill.clone());
    let mut spans: Vec<Span> = (0..4).map(|_| random_span(dice, &shape)).collect();
    spans.push((vec![0; rank], shape.iter().map(|extent| *extent as i64).collect()));
    for span in spans {
        let job = Job::new(&uri, span.clone(), image.inside(&span.0, &span.1));
        let mut config = config(dtype, &job.extents(), 1);
        config.dtype_bytes = if dtype == Dtype::Raw { bytes } else { 0 };
        println!("{} {span:?}", layered.metadata());
        // Each box has a shape, and so a loader, of its own. The device gets what it gets of every
        // third store; of the others the whole.
        if number.is_multiple_of(3) || job.extents() == shape {
            stream(&config, &[job]);
        } else {
            stream_as_configured(&config, &[job]);
        }
    }
}

#[test]
fn random_layers_give_what_the_obvious_writer_wrote() {
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let scratch = Scratch::new();
    for number in 0..120 {
        check_random(&mut dice, &scratch, number);
    }
}

/// 16 x 16 u16 in files of 8 x 8, inner shards of 4 x 4 and chunks of 2 x 2, of which those are
/// there that `is_there` says.
fn nested(scratch: &Scratch, name: &str, is_there: &dyn Fn(&[u64]) -> bool) -> String {
    Layered {
        shape: vec![16, 16],
        cell: vec![8, 8],
        layers: vec![
            Layer::Shard(vec![4, 4], IndexForm::USUAL),
            Layer::Shard(vec![2, 2], IndexForm::USUAL),
        ],
        data_type: "\"uint16\"",
        fill: "513",
        tail: r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        pixel: &|at| pixel(at, 2),
        encode: &|raw| raw,
        is_there,
    }
    .write(scratch, name)
}

#[test]
fn a_missing_inner_shard_is_its_chunks_missing() {
    let scratch = Scratch::new();
    let uri = nested(&scratch, "holes", &|at| at[0] >= 4 || at[1] >= 4);
    let hole = Job::new(&uri, (vec![0, 0], vec![4, 4]), 513u16.to_le_bytes().repeat(16));
    let sound = places(&[4, 4]).flat_map(|at| pixel(&[at[0] + 4, at[1]], 2)).collect();
    let sound = Job::new(&uri, (vec![4, 0], vec![8, 4]), sound);
    let mut config = config(Dtype::U16, &[4, 4], 1);
    stream(&config, &[hole.clone(), sound.clone()]);
    config.missing_chunks = MISSING_ERROR;
    config.on_error = wavetrain::config::ON_ERROR_SKIP;
    config.samples_per_batch = 2;
    config.pad_value_set = 1;
    config.pad_value = 0xABCD.into();
    stream(&config, &[Job::failing(&uri, (hole.begin, hole.end), Status::NotFound), sound]);
}

#[test]
fn each_chunk_of_a_nested_shard_is_found_by_itself() {
    let scratch = Scratch::new();
    let uri = nested(&scratch, "all", &|_| true);
    let job = |at: Vec<u64>| {
        let origin = [at[0] * 2, at[1] * 2];
        let want = places(&[2, 2]).flat_map(|i| pixel(&[origin[0] + i[0], origin[1] + i[1]], 2));
        let begin = origin.map(|at| at as i64);
        Job::new(&uri, (begin.to_vec(), begin.map(|at| at + 2).to_vec()), want.collect())
    };
    let jobs: Vec<Job> = places(&[8, 8]).map(job).collect();
    stream(&config(Dtype::U16, &[2, 2], 1), &jobs);
}
