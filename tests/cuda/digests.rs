//! Digests of samples on a device: the kernel by itself, and batches that it reads on the simulated
//! driver.

use crate::cases::{POISON, Random};
use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::digest::{check, digest, mix};
use crate::common::drive::{PATIENCE_NS, in_hook_mode};
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::Platform;
use crate::common::store::{self, Spec};
use crate::sim::{Aligned, ORDERS, Sim};
use wavetrain::abi::FieldSpec;
use wavetrain::config::*;
use wavetrain::cuda::DriverPath;
use wavetrain::cuda::digests::{PART_BYTES, parts};
use wavetrain::loader::{Loader, Part, Pop, Sample};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;

/// Warps of a block (units.rs holds the kernel's numbers against these).
const WARPS: u64 = 8;

#[test]
fn shares_of_samples_of_any_size_and_alignment_close_to_their_digests() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x0D16_E575_0D16_E575);
    let around = [PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 5 * PART_BYTES + 13];
    let sizes = (1..70).chain([127, 511, 512, 513, 4097]).chain(around);
    for sample_bytes in sizes {
        let samples = random.within(1, if sample_bytes < 1000 { 30 } else { 4 }) as u64;
        let skip = random.within(0, 17) as usize;
        let bytes = (sample_bytes * samples) as usize;
        let mut memory = Aligned::new(bytes + 64, POISON);
        memory[skip..][..bytes].iter_mut().for_each(|byte| *byte = random.next() as u8);
        let data = &memory[skip..][..bytes];
        let parts = parts(sample_bytes);
        let count = samples * parts;
        let first = data.as_ptr() as u64;
        // Words that have a byte of the samples are read whole.
        let range = [first & !3, (first + bytes as u64 + 3) & !3];
        for order in ORDERS {
            let mut shares = vec![u64::MAX / 3; count as usize + 9];
            let blocks = count.div_ceil(WARPS) as u32 + order % 2;
            let strays = sim.strays(&[range], || {
                sim.digest(data, (sample_bytes, parts), &mut shares, (blocks, order));
            });
            let case = format!("{samples} samples of {sample_bytes} bytes from {skip}");
            assert_eq!(strays, 0, "{case}");
            assert!(shares[count as usize..].iter().all(|rest| *rest == u64::MAX / 3), "{case}");
            let of_sample = |shares: &[u64]| shares.iter().fold(0, |a: u64, b| a.wrapping_add(*b));
            let sums = shares[..count as usize].chunks(parts as usize).map(of_sample);
            let found: Vec<u64> = sums.map(|sum| mix(sample_bytes, sum)).collect();
            let expected: Vec<u64> = data.chunks(sample_bytes as usize).map(digest).collect();
            assert_eq!(found, expected, "{case}");
        }
    }
}

const SPEC: Spec = Spec { seed: 5, edge: 48, shard: 24, chunk: 12, zstd: true, sparse: true };

/// Volumes of 37^3 f32, 13 parts each; a plane of 5 x 7 u16; a scalar.
fn fields() -> &'static [FieldSpec] {
    let field = |name: &str, shape: &[u64], dtype: Dtype| {
        let mut spec = FieldSpec { dtype: dtype as u32, ..wavetrain::abi::Blank::BLANK };
        spec.name[..name.len()].copy_from_slice(name.as_bytes());
        spec.sample_rank = shape.len() as u32;
        spec.sample_shape[..shape.len()].copy_from_slice(shape);
        spec.pad_mode = PAD_CONSTANT;
        spec
    };
    vec![
        field("volume", &[37; 3], Dtype::F32),
        field("plane", &[5, 7], Dtype::U16),
        field("voxel", &[], Dtype::U16),
    ]
    .leak()
}

fn config(simulator: &Simulator, samples_per_batch: u32) -> Config {
    Config {
        backend: BACKEND_CUDA,
        device: 0,
        cuda_driver: simulator.driver_path(),
        fields: FieldTable::from_static(fields()),
        samples_per_batch,
        n_batch_slots: 2,
        host_buffer_waves: 2,
        n_decode_threads: 2,
        n_io_threads: 2,
        max_chunk_uncompressed_bytes: 1 << 16,
        max_host_memory_bytes: 96 << 20,
        digest: 1,
        ..Config::default()
    }
}

/// Streams nine samples and a reset in between; the digests of each field.
fn stream(config: &Config, uri: &str) -> Vec<Vec<u64>> {
    let extents = [[37, 37, 37], [1, 5, 7], [1, 1, 1]];
    let corners: Vec<[i64; 3]> = (0..9).map(|tag| [tag * 5 - 9; 3]).collect();
    let ends: Vec<[[i64; 3]; 3]> =
        corners.iter().map(|at| extents.map(|of| of.map(|extent| at[0] + extent))).collect();
    let part = |begin, (field, end)| Part { uri, begin, end, field, ..Part::default() };
    let parts: Vec<Vec<Part<'_>>> = corners
        .iter()
        .zip(&ends)
        .map(|(begin, ends)| {
            (0..).zip(ends).map(|(n, end)| part(&begin[..], (n, &end[..]))).collect()
        })
        .collect();
    let samples: Vec<Sample<'_>> =
        (0..).zip(&parts).map(|(tag, parts)| Sample { parts, tag }).collect();
    let loader = Loader::open_on(&SYSTEM, config).unwrap();
    // What was on its way, to its digests too, leaves nothing behind.
    let taken = loader.push_samples(&samples[..4], 0).0;
    assert!(taken >= config.samples_per_batch as usize);
    while loader.stats().unwrap().assemble.count == 0 {
        // Refused where our threads work.
        let _ = loader.pump(0);
    }
    loader.reset().unwrap();
    loader.stats_reset().unwrap();
    let (mut pushed, mut found, mut position) = (0, vec![Vec::new(); 3], 0);
    while position < samples.len() {
        pushed += loader.push_samples(&samples[pushed..], 0).0;
        if pushed == samples.len() {
            loader.flush().unwrap();
        }
        let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        for (number, found) in found.iter_mut().enumerate() {
            let field = batch.field(number as u32).unwrap();
            let mut data = vec![0; field.bytes() as usize];
            field.copy_to(&mut data).unwrap();
            let samples = data.chunks_exact(data.len() / batch.tags().len());
            check(&field, true, samples, position as u64, "");
            found.extend(field.digests().unwrap());
        }
        position += batch.tags().len();
    }
    let stats = loader.stats().unwrap();
    // On the host one for each piece.
    if config.backend == BACKEND_CUDA {
        assert_eq!(stats.digest.count, stats.batches_emitted);
    }
    loader.close(PATIENCE_NS).unwrap();
    found
}

#[test]
fn a_device_gives_the_digests_of_the_host_in_every_mode() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let path = scratch.path("a");
    store::write(&path, &SPEC);
    let uri = path.to_str().unwrap();
    let device = config(&simulator, 2);
    let host =
        Config { backend: BACKEND_HOST, device: -1, cuda_driver: DriverPath::NULL, ..device };
    for (number, samples) in [1, 2, 4].into_iter().enumerate() {
        let want = stream(&Config { samples_per_batch: samples, ..host }, uri);
        for (step, mode) in [Mode::Eager, Mode::Jitter, Mode::Lazy].into_iter().enumerate() {
            simulator.set_mode(mode, number as u64);
            let config = Config { samples_per_batch: samples, ..device };
            let config = match step {
                0 => Config { thread_mode: THREADS_PUMP, ..config },
                1 => in_hook_mode(&config),
                _ => config,
            };
            assert_eq!(stream(&config, uri), want);
        }
    }
    simulator.set_mode(Mode::Eager, 0);
}

#[test]
fn what_digests_take_of_a_device_is_billed_and_given_back() {
    let Some(simulator) = Simulator::take() else { return };
    let before = (simulator.used_bytes(0), simulator.pinned_bytes());
    let mut pinned = Vec::new();
    for digest in [0, 1] {
        let config = tight(&Config { digest, ..device_config(&simulator, 3) });
        let need = bill(&config).unwrap_or_else(|(text, _)| panic!("{text}"));
        let loader = Loader::open_on(&SYSTEM, &config).unwrap();
        let stats = loader.stats().unwrap();
        assert_eq!(simulator.used_bytes(0) - before.0, need.device_bytes);
        assert_eq!(simulator.pinned_bytes() - before.1, need.pinned_bytes);
        assert_eq!(stats.pinned_bytes_committed, need.pinned_bytes);
        // A module for each kernel, as the simulator counts them.
        let decode = u64::from(stats.device_decode_mode != DECODE_OFF);
        assert_eq!(stats.gpu_overhead_bytes, (1 + u64::from(digest) + decode) << 20);
        loader.close(PATIENCE_NS).unwrap();
        assert_eq!((simulator.used_bytes(0), simulator.pinned_bytes()), before);
        pinned.push(need.pinned_bytes);
    }
    // A share for each sample of three slots.
    assert_eq!(pinned[1] - pinned[0], 3 * SAMPLES as u64 * 8);
}
