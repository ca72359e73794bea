//! What other software wrote comes out bit for bit, whatever the box, type, thread count, wave
//! geometry, read size and cache size.

use crate::common::drive::{
    Dice, Job, PATIENCE_NS, Span, config, first_failure, mixed_jobs, open, stream,
    stream_as_configured, stream_boxes, stream_boxes_by, stream_through,
};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::oracle::{Image, cast, has_cast};
use crate::common::store::write_aged;
use crate::common::synth::{ABSENT, Meta, index_bytes, shard_bytes};
use std::fs;
use std::sync::Arc;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Makes a box from each axis' extent and chunk edge.
fn span_by_axis(store: &Store, span: impl Fn(i64, i64) -> (i64, i64)) -> Vec<Span> {
    let axes = store.image.shape.iter().zip(&store.chunk);
    vec![axes.map(|(&extent, &chunk)| span(extent as i64, chunk as i64)).unzip()]
}

/// Inside one chunk in the middle, touching its faces only where it is thin.
fn inner(store: &Store) -> Vec<Span> {
    span_by_axis(store, |extent, chunk| {
        let first = (extent - 1) / chunk / 2 * chunk;
        let (lead, inside) = if chunk > 2 { (1, chunk - 2) } else { (0, chunk) };
        let begin = if first + lead < extent { first + lead } else { first };
        (begin, extent.min(begin + inside))
    })
}

/// At the far corner of the array, where chunks and shards stick out.
fn edge(store: &Store) -> Vec<Span> {
    span_by_axis(store, |extent, chunk| (extent - extent.min(chunk - chunk / 3), extent))
}

/// From the middle of the first chunk over one whole chunk into the third.
fn crossing(store: &Store) -> Vec<Span> {
    span_by_axis(store, |extent, chunk| {
        let begin = (chunk / 2).min(extent - 1);
        (begin, extent.min(begin + 2 * chunk + 1))
    })
}

/// The first, the last, and one on each side of the first chunk face.
fn one_voxel(store: &Store) -> Vec<Span> {
    let at = |place: fn(i64, i64) -> i64| {
        span_by_axis(store, |extent, chunk| (place(extent, chunk), place(extent, chunk) + 1))
    };
    [
        at(|_, _| 0),
        at(|extent, _| extent - 1),
        at(|extent, chunk| (chunk - 1).min(extent - 1)),
        at(|extent, chunk| chunk.min(extent - 1)),
    ]
    .concat()
}

fn whole(store: &Store) -> Vec<Span> {
    span_by_axis(store, |extent, _| (0, extent))
}

/// Around every face between files: the last element of one file and the first of the next.
fn faces(store: &Store) -> Vec<Span> {
    let mut spans = Vec::new();
    for (axis, list) in store.edges.iter().flatten().enumerate() {
        let mut end = 0;
        for edge in list {
            end += *edge as i64;
            if end < store.image.shape[axis] as i64 {
                let mut span = whole(store).remove(0);
                (span.0[axis], span.1[axis]) = (end - 1, end + 1);
                spans.push(span);
            }
        }
    }
    spans
}

fn rectilinear() -> impl Iterator<Item = &'static Store> {
    fixtures::all().iter().filter(|store| store.edges.is_some())
}

#[test]
fn boxes_around_every_face_of_rectilinear_files_keep_every_bit() {
    let count = stream_boxes(rectilinear(), faces, None);
    assert!(count >= 100, "{count}");
}

#[test]
fn two_writers_made_rectilinear_fixtures_of_ranks_1_to_4_with_and_without_shards() {
    for (prefix, ranks) in [("rect_", 1..=4), ("zr_", 1..=4)] {
        for rank in ranks {
            let is_of_rank = |store: &Store| store.image.shape.len() == rank;
            assert!(rectilinear().any(|s| s.name.starts_with(prefix) && is_of_rank(s)), "{rank}");
        }
        let sharded = rectilinear().filter(|s| s.name.starts_with(prefix) && s.shard.is_some());
        assert!(sharded.count() >= 3);
    }
}

/// Boxes of 1-D to 4-D rectilinear arrays in one stream, each a few times.
fn rectilinear_jobs(rank: usize, extents: &[i64]) -> Vec<Job> {
    let mut dice = Dice(0x5EED_0000_0000_0001 + rank as u64);
    let fits = |store: &Store| {
        let shape = &store.image.shape;
        shape.len() == rank && shape.iter().zip(extents).all(|(n, e)| *n as i64 >= *e)
    };
    let stores: Vec<&Store> = rectilinear()
        .filter(|store| fits(store) && has_cast(store.image.dtype, Dtype::F32))
        .collect();
    assert!(stores.len() >= 2, "rank {rank}");
    let mut jobs: Vec<Job> = Vec::new();
    for n in 0..60 {
        if n % 5 == 4 {
            jobs.push(jobs[n - 3].clone());
            continue;
        }
        let store = stores[dice.range(0, stores.len() as i64) as usize];
        let axes = store.image.shape.iter().zip(extents);
        let span = axes
            .map(|(extent, length)| {
                let begin = dice.range(0, *extent as i64 - length + 1);
                (begin, begin + length)
            })
            .unzip();
        jobs.push(Job::of(store, span, Dtype::F32));
    }
    jobs
}

fn stream_rectilinear(change: impl Fn(&mut Config)) {
    let shapes: [&[i64]; 4] = [&[33], &[7, 11], &[5, 6, 9], &[2, 5, 4, 3]];
    for (axes, extents) in shapes.iter().enumerate() {
        let shape: Vec<u64> = extents.iter().map(|extent| *extent as u64).collect();
        let mut config = config(Dtype::F32, &shape, 6);
        change(&mut config);
        stream(&config, &rectilinear_jobs(axes + 1, extents));
    }
}

#[test]
fn rectilinear_files_of_every_rank_share_batches() {
    stream_rectilinear(|_| {});
}

#[test]
fn rectilinear_chunks_are_kept_decoded_and_used_again() {
    for bytes in [64 << 10, 1 << 20] {
        stream_rectilinear(|config| {
            config.chunk_cache_bytes = bytes;
            config.lookahead_samples = 40;
        });
    }
}

#[test]
fn rectilinear_records_take_turns_in_a_cache_of_one() {
    stream_rectilinear(|config| {
        config.n_array_meta_cache = 1;
        config.n_chunk_layout_cache = 1;
        config.thread_mode = THREADS_PUMP;
    });
}

/// An array along one axis whose files are of one and of two elements in turn, 1,000 of them; the
/// first nine exist, with elements from `first` on.
fn array_of_many_runs(scratch: &Scratch, name: &str, first: u16) -> String {
    let edges = format!("[[{}]]", ["1,2"; 500].join(","));
    let meta = Meta { edges: Some(edges.leak()), ..Meta::u16(&[1500], &[1], None) };
    let uri = meta.write(scratch, name, None);
    fs::create_dir_all(scratch.path(name).join("c")).unwrap();
    let mut next = first;
    for file in 0..9 {
        let elements = next..next + 1 + file % 2;
        next = elements.end;
        let bytes: Vec<u8> = elements.flat_map(u16::to_le_bytes).collect();
        write_aged(&scratch.path(name).join(format!("c/{file}")), &bytes);
    }
    uri
}

#[test]
fn arrays_of_more_runs_than_are_cached_take_turns() {
    let scratch = Scratch::new();
    // 1,000 runs each, where there is room for those of one array, or of three.
    let uris: Vec<String> = (0..16u16)
        .map(|n| array_of_many_runs(&scratch, &format!("a{n}"), 100 * n))
        .chain([Meta::u16(&[13], &[13], None).write(&scratch, "plain", None)])
        .collect();
    let jobs: Vec<Job> = (0..200)
        .map(|n| {
            let at = n * 7 % uris.len();
            let elements = (0..12u16).map(|i| if at == 16 { 7 } else { 100 * at as u16 + 1 + i });
            let bytes = elements.flat_map(u16::to_le_bytes).collect();
            Job::new(&uris[at], (vec![1], vec![13]), bytes)
        })
        .collect();
    for (arrays, mode) in [(5, THREADS_OWN), (16, THREADS_OWN), (5, THREADS_PUMP)] {
        let mut config = config(Dtype::U16, &[12], 4);
        (config.n_array_meta_cache, config.thread_mode) = (arrays, mode);
        stream(&config, &jobs);
    }
}

#[test]
fn the_largest_chunk_of_a_rectilinear_array_is_held_against_the_cap_whatever_the_box() {
    // Chunks of 28 to 31 float32, by month: the box lies in the shortest.
    let store = fixtures::store("zr_1_months");
    let job = Job::of(store, (vec![31], vec![32]), Dtype::F32);
    let mut config = config(Dtype::F32, &[1], 1);
    config.max_chunk_uncompressed_bytes = 124;
    stream(&config, std::slice::from_ref(&job));
    config.max_chunk_uncompressed_bytes = 123;
    let loader = open(&config);
    let (_, failure) = first_failure(&loader, &[job]);
    assert_eq!(failure.status, Status::Budget);
    assert!(failure.text.as_str().contains("a chunk of 124 bytes exceeds"), "{failure}");
}

/// Streams with chunks of at most `CAP` bytes, those of the store cut into parts.
fn stream_parts<const CAP: u64>(config: &Config, jobs: &[Job]) -> usize {
    stream(&Config { max_chunk_uncompressed_bytes: CAP, ..*config }, jobs)
}

#[test]
fn parts_of_uncompressed_chunks_above_the_cap_keep_every_bit_in_files_and_in_shards() {
    let plain = fixtures::uncompressed;
    let mixed = |store: &Store| [crossing(store), faces(store), edge(store), whole(store)].concat();
    let streams: [fn(&Config, &[Job]) -> usize; 2] = [stream_parts::<16>, stream_parts::<112>];
    for stream in streams {
        let count = stream_boxes_by(stream, plain(), mixed, None);
        assert!(count >= 400, "{count}");
    }
    for is_sharded in [true, false] {
        let is_alike = |store: &&Store| store.shard.is_some() == is_sharded;
        assert!(plain().filter(is_alike).count() >= 20);
        assert!(plain().filter(is_alike).filter(|store| store.edges.is_some()).count() >= 1);
    }
}

macro_rules! every_store_at {
    ($($bits:ident, $floats:ident: $boxes:expr;)*) => {$(
        #[test]
        fn $bits() {
            let count = stream_boxes(fixtures::all().iter(), $boxes, None);
            assert!(count >= fixtures::all().len());
        }

        #[test]
        fn $floats() {
            let is_castable = |store: &&Store| has_cast(store.image.dtype, Dtype::F32);
            let stores = fixtures::all().iter().filter(is_castable);
            let count = stream_boxes(stores.clone(), $boxes, Some(Dtype::F32));
            assert!(count >= stores.count());
        }
    )*};
}

every_store_at! {
    inner_boxes_keep_every_bit, inner_boxes_cast_to_f32_as_numpy_does: inner;
    edge_boxes_keep_every_bit, edge_boxes_cast_to_f32_as_numpy_does: edge;
    chunk_crossing_boxes_keep_every_bit, chunk_crossing_boxes_cast_to_f32_as_numpy_does: crossing;
    one_voxel_boxes_keep_every_bit, one_voxel_boxes_cast_to_f32_as_numpy_does: one_voxel;
    whole_arrays_keep_every_bit, whole_arrays_cast_to_f32_as_numpy_does: whole;
}

#[test]
fn every_cast_of_the_contract_gives_the_bits_of_numpy() {
    for dtype in [Dtype::Bf16, Dtype::F16, Dtype::I32, Dtype::I64] {
        let count = stream_boxes(fixtures::family("matrix"), crossing, Some(dtype));
        assert!(count >= 60, "{count} boxes as {}", dtype.name());
    }
}

#[test]
fn raw_output_copies_the_bits_of_every_type_of_that_size() {
    for bytes in [1, 2, 4, 8, 16] {
        let is_of_size =
            |store: &&Store| store.image.dtype.bytes() == bytes && store.image.shape.len() == 3;
        let jobs: Vec<Job> = fixtures::family("matrix")
            .filter(is_of_size)
            .map(|store| Job::of(store, crossing(store).remove(0), store.image.dtype))
            .collect();
        assert!(!jobs.is_empty());
        let mut config = config(Dtype::Raw, &jobs[0].extents(), 3);
        config.dtype_bytes = bytes;
        stream(&config, &jobs);
    }
}

#[test]
fn the_fixtures_hold_every_type_codec_layout_and_rank() {
    for dtype in wavetrain::records::DTYPES.iter().filter(|dtype| **dtype != Dtype::Raw) {
        for kind in ["bytes", "zstd", "blosc", "blosc_byte", "blosc_bit"] {
            for layout in ["plain", "shard", "start"] {
                fixtures::store(&format!("{}_{kind}_{layout}", dtype.name()));
            }
        }
    }
    for rank in 1..=6 {
        for dtype in ["u16", "f32"] {
            let store = fixtures::store(&format!("rank{rank}_{dtype}"));
            assert_eq!(store.image.shape.len(), rank);
            let shard = store.shard.as_ref().expect("sharded");
            assert!(store.image.shape.iter().zip(shard).any(|(extent, edge)| extent % edge != 0));
        }
    }
    assert!(fixtures::all().iter().all(|store| store.image.pixels.iter().any(|byte| *byte != 0)));
}

fn stream_mixed(count: usize, samples_per_batch: usize, change: impl Fn(&mut Config)) {
    let mut config = config(Dtype::F32, &[16, 16], samples_per_batch);
    change(&mut config);
    let jobs = mixed_jobs(count);
    assert_eq!(stream(&config, &jobs), count * 16 * 16 * 4);
}

#[test]
fn arrays_of_any_type_codec_chunk_shape_and_rank_share_a_batch() {
    stream_mixed(60, 20, |_| {});
}

#[test]
fn any_number_of_samples_per_batch_gives_the_same_samples() {
    for samples in [1, 2, 7, 60, 64] {
        stream_mixed(60, samples, |_| {});
    }
}

#[test]
fn any_number_of_decode_threads_gives_the_same_batches() {
    for threads in [1, 2, 8] {
        stream_mixed(60, 6, |config| config.n_decode_threads = threads);
    }
}

#[test]
fn any_number_of_io_threads_gives_the_same_batches() {
    for threads in [1, 3, 32] {
        stream_mixed(60, 6, |config| config.n_io_threads = threads);
    }
}

#[test]
fn pump_mode_gives_the_same_batches() {
    for slots in [1, 3] {
        stream_mixed(60, 6, |config| {
            config.thread_mode = THREADS_PUMP;
            config.n_batch_slots = slots;
        });
    }
}

#[test]
fn any_wave_geometry_gives_the_same_batches() {
    for chunks in [1, 2, 7, 512] {
        for waves in [2, 8] {
            stream_mixed(40, 5, |config| {
                config.max_chunks_per_wave = chunks;
                config.host_buffer_waves = waves;
            });
        }
    }
}

#[test]
fn any_read_cap_gives_the_same_batches() {
    for bytes in [1, 4096, 4 << 20] {
        stream_mixed(60, 6, |config| config.max_read_op_bytes = bytes);
    }
}

#[test]
fn caches_of_one_entry_give_the_same_batches() {
    for (meta, index, layout) in [(1, 64, 64), (16, 1, 64), (16, 64, 1), (1, 1, 1)] {
        stream_mixed(40, 5, |config| {
            config.n_array_meta_cache = meta;
            config.n_shard_index_cache = index;
            config.n_chunk_layout_cache = layout;
        });
    }
}

#[test]
fn caches_of_one_entry_give_the_same_batches_in_pump_mode() {
    stream_mixed(40, 5, |config| {
        config.thread_mode = THREADS_PUMP;
        config.n_array_meta_cache = 1;
        config.n_shard_index_cache = 1;
        config.n_chunk_layout_cache = 1;
    });
}

#[test]
fn any_number_of_batch_slots_gives_the_same_batches() {
    for slots in 1..=4 {
        stream_mixed(60, 4, |config| config.n_batch_slots = slots);
    }
}

#[test]
fn any_lookahead_gives_the_same_batches() {
    for lookahead in [4, 5, 64] {
        stream_mixed(60, 4, |config| config.lookahead_samples = lookahead);
    }
}

#[test]
fn one_metadata_read_at_a_time_gives_the_same_batches() {
    stream_mixed(60, 4, |config| config.metadata_io_concurrency = 1);
}

#[test]
fn every_byte_of_a_reused_slot_is_written_again() {
    // One slot; neighbouring batches hold different pixels everywhere, and every third comes from
    // arrays of which nothing exists, so that nobody writes it by accident.
    let mut config = config(Dtype::Raw, &[37, 29], 2);
    config.dtype_bytes = 2;
    config.n_batch_slots = 1;
    let painted = fixtures::store("rank2_u16");
    let scratch = Scratch::new();
    let empty = Meta { fill: "23130", ..Meta::u16(&[37, 29], &[5, 5], Some(&[20, 20])) };
    let uri = empty.write(&scratch, "empty", None);
    let mut jobs = Vec::new();
    for _ in 0..6 {
        jobs.extend(vec![Job::of(painted, whole(painted).remove(0), Dtype::U16); 2]);
        let blank = 23130u16.to_le_bytes().repeat(37 * 29);
        jobs.extend(vec![Job::new(&uri, (vec![0, 0], vec![37, 29]), blank); 3]);
    }
    stream(&config, &jobs);
}

#[test]
fn the_same_box_twice_in_a_batch_gives_the_same_sample_twice() {
    let store = fixtures::store("rank3_u16");
    let job = Job::of(store, crossing(store).remove(0), Dtype::U16);
    stream(&config(Dtype::U16, &job.extents(), 9), &vec![job; 18]);
}

#[test]
fn a_loader_streams_again_after_the_end() {
    let jobs = mixed_jobs(20);
    let config = config(Dtype::F32, &[16, 16], 5);
    let loader = open(&config);
    for round in 0..3 {
        stream_through(&loader, &config, &jobs, round * 4);
    }
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_file_uri_and_a_trailing_slash_name_the_same_array() {
    let store = fixtures::store("rank2_u16");
    let plain = Job::of(store, crossing(store).remove(0), Dtype::U16);
    let mut jobs = vec![plain.clone(); 3];
    jobs[1].uri = format!("file://{}", plain.uri);
    jobs[2].uri = format!("{}/", plain.uri);
    stream(&config(Dtype::U16, &plain.extents(), 3), &jobs);
}

#[test]
fn dropped_axes_may_stand_anywhere() {
    let store = fixtures::store("rank4_f32");
    let [a, b, c, d] = [3, 7, 9, 5];
    let boxes: [Span; 3] = [
        (vec![2, 0, 0, 4], vec![a, b, c, d]),
        (vec![0, 0, 8, 0], vec![1, b, c, 5]),
        (vec![0, 6, 0, 0], vec![a, b, c, 1]),
    ];
    for span in boxes {
        let job = Job::of(store, span, Dtype::F32);
        let shape: Vec<u64> = job.extents().into_iter().filter(|extent| *extent > 1).collect();
        stream(&config(Dtype::F32, &shape, 1), &[job]);
    }
}

#[test]
fn a_box_over_a_million_one_element_chunks_streams_in_a_few_mib() {
    // One shard of 1,000 x 1,000 chunks of one byte: 16 MB of index over 256 bytes of payload.
    // Every entry points at the byte that its place asks for; every 97th chunk is missing.
    let side = 1000u64;
    let value = |n: u64| (n.wrapping_mul(0x9E37_79B1) >> 7) as u8;
    let is_missing = |n: u64| n % 97 == 5;
    let entry = |n: u64| if is_missing(n) { ABSENT } else { (u64::from(value(n)), 1) };
    let entries: Vec<(u64, u64)> = (0..side * side).map(entry).collect();
    let payload: Vec<u8> = (0..=255).collect();
    let pixel = |n: u64| if is_missing(n) { 200 } else { value(n) };
    let pixels: Vec<u8> = (0..side * side).map(pixel).collect();
    assert_eq!(index_bytes(&entries).len(), 16_000_004);
    let scratch = Scratch::new();
    let meta = Meta {
        data_type: "uint8",
        fill: "200",
        ..Meta::u16(&[side, side], &[1, 1], Some(&[side, side]))
    };
    let uri = meta.write(&scratch, "million", Some(&shard_bytes(&payload, &entries)));
    let image = Image::new(Dtype::U8, vec![side, side], Arc::new(pixels), vec![200]);
    let job = |span: Span| Job::new(&uri, span.clone(), image.inside(&span.0, &span.1));
    let all = vec![job((vec![0, 0], vec![1000, 1000]))];
    let mut config_all = config(Dtype::U8, &[1000, 1000], 1);
    config_all.max_host_memory_bytes = 24 << 20;
    // A million launches of a block of threads take the simulated device too long.
    stream_as_configured(&config_all, &all);
    let corners = [(0, 0), (900, 0), (0, 900), (900, 900), (450, 451), (450, 451)];
    let crops: Vec<Job> =
        corners.iter().map(|&(y, x)| job((vec![y, x], vec![y + 100, x + 100]))).collect();
    let mut config_crops = config(Dtype::U8, &[100, 100], 3);
    config_crops.n_shard_index_cache = 3;
    stream(&config_crops, &crops);
}

#[test]
fn types_without_a_cast_stay_without_one_in_the_oracle() {
    assert!(!has_cast(Dtype::C64, Dtype::F32));
    assert!(!has_cast(Dtype::U8, Dtype::Bool));
    assert!(!has_cast(Dtype::U64, Dtype::I64));
    assert!(!has_cast(Dtype::U32, Dtype::I32));
    assert!(has_cast(Dtype::U32, Dtype::I64) && has_cast(Dtype::Bool, Dtype::F32));
    assert_eq!(cast(Dtype::I8, Dtype::I32, &[0xFF]), [0xFF; 4]);
}
