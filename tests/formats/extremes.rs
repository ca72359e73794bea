//! The smallest and largest of what may be: chunks in a shard, axes; and figures that add up.

use crate::common::drive::{Job, PATIENCE_NS, config, open, stream, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::store;
use crate::common::store::Spec;
use crate::common::synth::{ABSENT, Meta, shard_bytes};
use std::time::{Duration, Instant};
use wavetrain::config::Config;
use wavetrain::loader::Pop;
use wavetrain::records::Dtype;

const EDGE: u64 = 32;

fn cube_job(scratch: &Scratch, name: &str, spec: Spec, begin: [u64; 3], side: u64) -> Job {
    let array = scratch.path(name);
    if !array.exists() {
        store::write(&array, &spec);
    }
    let value = |d: [u64; 3]| store::value(spec.seed, std::array::from_fn(|n| begin[n] + d[n]));
    let want = store::places(side).flat_map(|d| value(d).to_le_bytes()).collect();
    let span = begin.iter().map(|&at| (at as i64, (at + side) as i64)).unzip();
    Job::new(&scratch.uri(name), span, want)
}

#[test]
fn shards_of_1_chunk_and_of_4096_chunks_are_read() {
    let scratch = Scratch::new();
    let spec = Spec { seed: 2, edge: EDGE, shard: EDGE, chunk: 2, zstd: true, sparse: false };
    let single = Spec { shard: 8, chunk: 8, ..spec };
    let mut jobs = Vec::new();
    for begin in [[0; 3], [1, 7, 15], [16; 3], [3, 16, 9]] {
        jobs.push(cube_job(&scratch, "4096", spec, begin, 16));
        jobs.push(cube_job(&scratch, "1", single, begin, 16));
    }
    stream(&config(Dtype::U16, &[16; 3], 3), &jobs);
    let whole = [cube_job(&scratch, "4096", spec, [0; 3], EDGE)];
    stream(&config(Dtype::U16, &[EDGE; 3], 1), &whole);
}

#[test]
fn touching_chunks_of_constant_data_never_overfill_a_wave() {
    // 4,096 chunks whose bytes touch: one read by the read cap, 64 waves by the chunk cap.
    let scratch = Scratch::new();
    let chunk = zstd::bulk::compress(&[5; 512], 3).expect("a frame");
    let bytes = chunk.len() as u64;
    let entries: Vec<(u64, u64)> = (0..4096).map(|n| (n * bytes, bytes)).collect();
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;
    let meta = Meta { codecs, ..Meta::u16(&[1024, 1024], &[16, 16], Some(&[1024, 1024])) };
    let uri = meta.write(&scratch, "a", Some(&shard_bytes(&chunk.repeat(4096), &entries)));
    let mut config = config(Dtype::U16, &[1024, 1024], 1);
    config.max_read_op_bytes = u32::MAX as u64;
    let job = Job::new(&uri, (vec![0, 0], vec![1024, 1024]), vec![5; 2 << 20]);
    let loader = open(&config);
    stream_through(&loader, &config, &[job], 0);
    let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.waves_emitted >= 64 && stats.reads_issued <= stats.waves_emitted);
    assert_eq!(stats.io.output_bytes, 4096 * bytes);
}

#[test]
fn boxes_of_16_axes_stream() {
    let scratch = Scratch::new();
    // Axes of 1, 2 and 3 elements in chunks of 2 on the last axis.
    let mut shape = [1u64; 16];
    (shape[0], shape[5], shape[9], shape[15]) = (2, 3, 2, 4);
    let mut chunk = shape;
    chunk[15] = 2;
    let meta = Meta::u16(&shape, &chunk, Some(&shape));
    let value = |row: u16, x: u16| row * 4 + x + 1;
    let half = |x: u16| (0..12).flat_map(move |row| [value(row, x), value(row, x + 1)]);
    let payload: Vec<u8> = half(0).chain(half(2)).flat_map(u16::to_le_bytes).collect();
    let entries = [(0, 48), (48, 48)];
    let uri = meta.write(&scratch, "whole", Some(&shard_bytes(&payload, &entries)));
    let all = (0..12).flat_map(|row| (0..4).flat_map(move |x| value(row, x).to_le_bytes()));
    let end: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
    let job = Job::new(&uri, (vec![0; 16], end.clone()), all.collect());
    stream(&config(Dtype::U16, &shape, 2), &[job.clone(), job]);

    let holed = meta.write(&scratch, "holed", Some(&shard_bytes(&payload, &[ABSENT, (48, 48)])));
    let place = |row: u16, x: u16| if x < 2 { 7 } else { value(row, x) };
    let all = (0..12).flat_map(|row| (0..4).flat_map(move |x| place(row, x).to_le_bytes()));
    let job = Job::new(&holed, (vec![0; 16], end), all.collect());
    stream(&config(Dtype::U16, &shape, 2), &[job.clone(), job]);
}

#[test]
fn the_figures_of_a_stream_add_up() {
    let scratch = Scratch::new();
    let spec = Spec { seed: 2, edge: EDGE, shard: 16, chunk: 4, zstd: true, sparse: false };
    let begins = (0..30u64).map(|n| [n * 5 % 21, n * 7 % 21, n * 3 % 21]);
    let jobs: Vec<Job> = begins.map(|at| cube_job(&scratch, "a", spec, at, 11)).collect();
    // With one slot no chunk is decoded for two batches at once.
    let config = Config { n_batch_slots: 1, ..config(Dtype::U16, &[11; 3], 4) };
    let loader = open(&config);
    let bytes = stream_through(&loader, &config, &jobs, 0) as u64;
    let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((stats.samples_pushed, stats.samples_failed), (30, 0));
    assert_eq!((stats.batches_emitted, stats.batches_held), (8, 0));
    assert_eq!(stats.chunks_planned, stats.chunks_to_load + stats.chunks_missing);
    assert_eq!(stats.chunks_dispatched, stats.chunks_planned);
    assert_eq!(stats.decode.count, stats.chunks_to_load);
    assert_eq!(stats.decode.output_bytes, stats.chunks_to_load * 128);
    assert_eq!(stats.io.count, stats.reads_issued);
    assert_eq!(stats.decode.input_bytes, stats.io.output_bytes);
    assert_eq!(stats.assemble.output_bytes, bytes);
    assert!(stats.chunk_uses >= stats.chunks_planned && stats.reads_issued > 0);
    assert!(stats.chunks_missing == 0 && stats.waves_emitted > 0 && stats.worker_steps > 0);
    for metric in [stats.plan, stats.meta, stats.io, stats.decode, stats.assemble, stats.pop_wait] {
        assert_eq!(metric.histogram.iter().sum::<u64>(), metric.count);
        assert!(metric.count == 0 || metric.ns_best <= metric.ns);
    }
}

#[test]
fn work_goes_on_while_nobody_pops() {
    let scratch = Scratch::new();
    let spec = Spec { seed: 2, edge: EDGE, shard: 16, chunk: 4, zstd: true, sparse: false };
    let job = cube_job(&scratch, "a", spec, [1; 3], 8);
    let loader = open(&config(Dtype::U16, &[8; 3], 1));
    loader.push(&[job.request(0)], 0).unwrap_or_else(|failure| panic!("{failure}"));
    let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
    let assembled = || loader.stats().unwrap_or_else(|failure| panic!("{failure}")).assemble;
    while assembled().output_bytes < 1024 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(assembled().output_bytes, 1024);
    assert!(matches!(loader.pop(PATIENCE_NS), Ok(Pop::Batch(_))));
}
