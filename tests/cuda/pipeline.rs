//! Batches on the simulated device: what is taken and what is streamed, under every cap and in
//! every mode.
//!
//! In: configs from the least memory that is accepted to plenty. Invariant: a config that is
//! accepted takes what its bill says to the byte, asks the driver for nothing after open, and gives
//! the bytes that the oracle gives.

use crate::common::blosc::{self, Blosc};
use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::{self, Dice, Job, PATIENCE_NS, config, mixed_jobs, stream_through};
use crate::common::fixtures::{self, Scratch};
use crate::common::gpu::*;
use crate::common::platform::Platform;
use crate::common::synth::{self, Meta};
use crate::common::workers;
use std::time::Instant;
use wavetrain::abi::{MemoryLine, SCRATCH_BYTES, Stats};
use wavetrain::config::*;
use wavetrain::cuda::DriverPath;
use wavetrain::engine::open::{bill as bill_of, floor};
use wavetrain::loader::{Loader, Pop, Request, config_fit, memory_need};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::setup::allotted::Allotted;
use wavetrain::setup::settings::settings_from_config;
use wavetrain::status::{Status, Why};

// ---- Caps -------------------------------------------------------------------------------------

fn on_device(simulator: &Simulator, config: Config) -> Config {
    Config { backend: BACKEND_CUDA, device: 0, cuda_driver: simulator.driver_path(), ..config }
}

/// The shapes of work that caps are swept under.
fn swept(simulator: &Simulator) -> Vec<Config> {
    let mut configs = Vec::new();
    for samples in [1, 3, 64] {
        for chunk_bytes in [256, 4096, 1 << 20, 3 << 20] {
            for waves in [2, 3, 8] {
                configs.push(Config {
                    samples_per_batch: samples,
                    max_chunk_uncompressed_bytes: chunk_bytes,
                    host_buffer_waves: waves,
                    ..device_config(simulator, 3)
                });
            }
        }
    }
    configs
}

#[test]
fn a_bill_is_within_both_caps_or_refused_with_what_would_do() {
    let Some(simulator) = Simulator::take() else { return };
    for config in swept(&simulator) {
        let (device, host) = floors(&config);
        for device_more in [-1, 0, 1, 4096, 1 << 20, (1 << 20) + 12345, 3 << 20, 100 << 20] {
            for host_more in [-1, 0, 4096, 100_000, 1 << 20, (3 << 20) + 7, 64 << 20] {
                let caps = Config {
                    max_gpu_memory_bytes: device.checked_add_signed(device_more).unwrap(),
                    max_host_memory_bytes: host.checked_add_signed(host_more).unwrap(),
                    ..config
                };
                let case = format!("{device} {device_more:+}, {host} {host_more:+}");
                let need = match bill(&caps) {
                    Ok(need) => {
                        assert!(device_more >= 0 && host_more >= 0, "{case}");
                        assert!(need.device_bytes <= caps.max_gpu_memory_bytes, "{case}");
                        let taken = need.host_bytes + need.pinned_bytes;
                        assert!(taken <= caps.max_host_memory_bytes, "{case}: {taken}");
                        need
                    }
                    Err((text, need)) => {
                        assert!(device_more < 0 || host_more < 0, "{case}: {text}");
                        let (cap, least) = match host_more < 0 {
                            true => ("max_host_memory_bytes", host),
                            false => ("max_gpu_memory_bytes", device),
                        };
                        assert!(text.contains(cap), "{text}");
                        assert!(text.contains(&format!("at least {least}")), "{text}");
                        need
                    }
                };
                let lines = &need.lines[..need.line_count as usize];
                let sum = |kind| -> u64 {
                    lines.iter().filter(|line| line.kind == kind).map(|line| line.bytes).sum()
                };
                let totals = [need.host_bytes, need.pinned_bytes, need.device_bytes];
                assert_eq!([sum(0), sum(1), sum(2)], totals);
            }
        }
    }
}

/// Opens a config, looks that it has taken what its bill says and streams the jobs.
fn stream_to_the_byte(simulator: &Simulator, config: &Config, jobs: &[Job]) -> Stats {
    let found = simulator.take_findings();
    assert!(found.is_empty(), "{found}");
    let need = bill(config).unwrap_or_else(|(text, _)| panic!("{text}"));
    let (device, pinned) = (simulator.used_bytes(0), simulator.pinned_bytes());
    let loader = drive::open(config);
    let asked = simulator.allocations();
    let stats = loader.stats().unwrap();
    assert_eq!(simulator.used_bytes(0) - device, need.device_bytes);
    assert_eq!(simulator.pinned_bytes() - pinned, need.pinned_bytes);
    let committed =
        [stats.host_bytes_committed, stats.pinned_bytes_committed, stats.gpu_bytes_committed];
    assert_eq!(committed, [need.host_bytes, need.pinned_bytes, need.device_bytes]);
    // Modules, as the simulator counts them.
    let decodes = [DECODE_AUTO, DECODE_ON].iter().position(|way| *way == stats.device_decode_mode);
    let modules = decodes.map_or(1, |more| 2 + more as u64);
    assert_eq!(stats.gpu_overhead_bytes, modules << 20);
    stream_through(&loader, config, jobs, 0);
    let stats = loader.stats().unwrap();
    assert_eq!(simulator.peak_bytes(0) - device, need.device_bytes);
    assert_eq!(simulator.allocations(), asked, "the driver was asked for something after open");
    // The test itself copies each batch out.
    assert_eq!(simulator.pageable_copies(), stats.batches_emitted);
    loader.close(PATIENCE_NS).unwrap();
    assert_eq!((simulator.used_bytes(0), simulator.pinned_bytes()), (device, pinned));
    stats
}

/// Boxes of places.
fn place_jobs(uri: &str, count: u64) -> Vec<Job> {
    let job = |tag: u64| {
        let first = begin(tag);
        let span = (first.to_vec(), first.iter().map(|at| at + CROP as i64).collect());
        Job::new(uri, span, expected(&[tag]))
    };
    (0..count).map(job).collect()
}

#[test]
fn the_least_memory_that_is_accepted_streams() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for is_zstd in [false, true] {
        let uri = places(&scratch, if is_zstd { "zstd" } else { "raw" }, is_zstd);
        for (samples, waves) in [(1, 2), (1, 8), (3, 2), (7, 3)] {
            for thread_mode in [THREADS_OWN, THREADS_PUMP] {
                let config = tight(&Config {
                    samples_per_batch: samples,
                    host_buffer_waves: waves,
                    thread_mode,
                    ..device_config(&simulator, 3)
                });
                let stats = stream_to_the_byte(&simulator, &config, &place_jobs(&uri, 20));
                assert!(stats.assemble.count > 20, "one slab does not hold a batch");
            }
        }
    }
}

#[test]
fn parts_of_uncompressed_chunks_above_the_cap_stream() {
    let Some(simulator) = Simulator::take() else { return };
    for store in fixtures::uncompressed() {
        let extents: Vec<u64> = store.image.shape.iter().map(|extent| extent.div_ceil(2)).collect();
        let corner = |at: fn(u64, u64) -> u64| -> Vec<i64> {
            let axes = store.image.shape.iter().zip(&extents);
            axes.map(|(extent, half)| at(*extent, *half) as i64).collect()
        };
        let low = (corner(|_, _| 0), corner(|_, half| half));
        let high = (corner(|extent, half| extent - half), corner(|extent, _| extent));
        let jobs = [low, high].map(|span| Job::of(store, span, store.image.dtype));
        stream_to_the_byte(
            &simulator,
            &tight(&Config {
                max_chunk_uncompressed_bytes: 112,
                ..on_device(&simulator, config(store.image.dtype, &extents, 2))
            }),
            &jobs,
        );
    }
}

#[test]
fn memory_between_the_least_and_plenty_streams_every_codec() {
    let Some(simulator) = Simulator::take() else { return };
    let jobs = mixed_jobs(30);
    let largest = fixtures::family("mixed")
        .map(|store| store.chunk.iter().product::<u64>() * u64::from(store.image.dtype.bytes()))
        .max();
    for samples in [1, 5] {
        let config = Config {
            max_chunk_uncompressed_bytes: largest.unwrap(),
            ..on_device(&simulator, config(Dtype::F32, &[16, 16], samples))
        };
        let (device, host) = floors(&config);
        for (more, waves) in [(0, 2), (5_000, 3), (700_000, 2), (9 << 20, 8)] {
            let waves_of = Config { host_buffer_waves: waves, ..config };
            let host = host.max(floors(&waves_of).1);
            let config = Config {
                max_gpu_memory_bytes: device + more,
                max_host_memory_bytes: host + more,
                ..waves_of
            };
            stream_to_the_byte(&simulator, &config, &jobs);
        }
    }
}

/// A config of crops of 64 x 64 from chunks as large as they may be by default.
fn crops(backend: u32) -> Config {
    let mut config = Config { backend, dtype: Dtype::U16 as u32, ..Config::default() };
    (config.sample_rank, config.sample_shape[0], config.sample_shape[1]) = (2, 64, 64);
    config
}

#[test]
fn config_fit_raises_the_cap_that_is_too_small_and_no_other() {
    let scratch = Scratch::new();
    // Chunks with a checksum are not cut.
    let codecs = r#",{"name":"crc32c"}"#;
    let uri = |name: &str, edge: u64| {
        let meta = Meta { codecs, ..Meta::u16(&[edge, edge], &[edge, edge], None) };
        meta.write(&scratch, name, None)
    };
    // Chunks of 128 MiB, and of 800 MiB: two resident waves of these are over the derived cap.
    let (large, huge) = (uri("large", 8192), uri("huge", 20480));
    let mut block = vec![0; SCRATCH_BYTES];
    for (gpu, host, uri, raises_gpu, raises_host) in [
        (100 << 20, 300 << 20, &large, true, true),
        (100 << 20, 0, &large, true, false),
        (100 << 20, 4 << 30, &large, true, false),
        (4 << 30, 4 << 30, &large, false, false),
        (0, 8 << 30, &huge, true, false),
    ] {
        let mut fitted = Config {
            max_gpu_memory_bytes: gpu,
            max_host_memory_bytes: host,
            ..crops(BACKEND_CUDA)
        };
        config_fit(&mut fitted, &[uri], &mut block).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(fitted.max_gpu_memory_bytes > gpu, raises_gpu, "{gpu} {host}");
        assert_eq!(fitted.max_host_memory_bytes > host, raises_host, "{gpu} {host}");
        assert!(memory_need(&fitted).is_ok(), "{gpu} {host}");
    }
    // With the host a cap of the device is refused, as open refuses it.
    let mut fitted = Config { max_gpu_memory_bytes: 1 << 20, ..crops(BACKEND_HOST) };
    let failure = config_fit(&mut fitted, &[&huge], &mut block).err().unwrap();
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().starts_with("max_gpu_memory_bytes is set"), "{failure}");
    assert_eq!(fitted.max_gpu_memory_bytes, 1 << 20);
}

#[test]
fn slot_bytes_of_the_bill_are_those_of_batches_in_host_memory() {
    for backend in [BACKEND_HOST, BACKEND_CUDA] {
        let config =
            Config { samples_per_batch: 3000, max_host_memory_bytes: 1 << 30, ..crops(backend) };
        let need = memory_need(&config).unwrap_or_else(|failure| panic!("{failure}"));
        let lines = &need.lines[..need.line_count as usize];
        let is_of_slots = |line: &&MemoryLine| {
            line.kind == 0 && line.name[..12].iter().map(|b| *b as u8).eq(*b"batch slots\0")
        };
        let in_host: u64 = lines.iter().filter(is_of_slots).map(|line| line.bytes).sum();
        assert_eq!((need.slot_bytes, in_host > 0), (in_host, backend == BACKEND_HOST));
    }
}

#[test]
fn the_defaults_fit_their_caps_on_a_device_for_every_samples_per_batch() {
    for samples_per_batch in [1, 64, 1000, 4096, 16384, 65536] {
        for backend in [BACKEND_HOST, BACKEND_CUDA] {
            let need = memory_need(&Config { samples_per_batch, ..crops(backend) });
            assert!(need.is_ok(), "{samples_per_batch} {backend}: {}", need.err().unwrap());
        }
    }
}

#[test]
fn the_threads_that_were_derived_for_a_device_fit_the_host_that_is_taken_instead() {
    let Some(simulator) = Simulator::take() else { return };
    for samples_per_batch in [1, 8, 64] {
        for (cpus, chunk_bytes) in
            [(1024, 16 << 20), (64, 1 << 20), (128, 1 << 20), (1024, 4 << 20)]
        {
            let config = Config {
                samples_per_batch,
                max_chunk_uncompressed_bytes: chunk_bytes,
                device: 0,
                cuda_driver: simulator.driver_path(),
                ..crops(BACKEND_AUTO)
            };
            let mut why = Why::new();
            let mut settings =
                settings_from_config(&config, &Allotted::of(cpus), &mut why).unwrap();
            assert!(settings.is_cuda());
            settings.settle(floor);
            let mut host = settings.clone();
            assert!(host.take_the_host((Status::Cuda, &why), floor));
            let billed = bill_of(&host, &mut why);
            assert!(billed.is_ok(), "{samples_per_batch} samples, {cpus} CPUs: {why}");
        }
    }
}

#[test]
fn a_driver_that_takes_its_time_leaves_no_batch_behind() {
    let Some(simulator) = Simulator::take() else { return };
    // Chunks in files of their own, so that workers bring each by itself; a batch at a time, so
    // that nothing comes behind the last of them.
    let store = fixtures::store("u16_zstd_plain");
    let job = Job::of(store, (vec![0; store.image.shape.len()], whole(store)), Dtype::U16);
    let config = Config {
        n_decode_threads: 4,
        backend: BACKEND_CUDA,
        device: 0,
        cuda_driver: simulator.driver_path(),
        ..config(Dtype::U16, &job.extents(), 1)
    };
    for seed in 0..4 {
        simulator.set_mode(Mode::Slow, seed);
        let loader = drive::open(&config);
        for batch in 0..200 {
            stream_through(&loader, &config, std::slice::from_ref(&job), batch);
        }
        loader.close(PATIENCE_NS).unwrap();
    }
}

fn whole(store: &fixtures::Store) -> Vec<i64> {
    store.image.shape.iter().map(|extent| *extent as i64).collect()
}

// ---- Codecs and what they are given -----------------------------------------------------------

/// Extent of the arrays here along both axes, and of a chunk.
const WIDE: u64 = 192;
const WIDE_CHUNK: u64 = 64;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Content {
    /// What every codec makes small.
    Even,
    /// What none does: the encoded chunk is larger than the chunk.
    Noise,
    /// Of each chunk by chance.
    Mixed,
}

fn element(content: Content, row: u64, column: u64) -> u16 {
    let place = row * WIDE + column;
    let noise = Dice(place.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1).range(0, 65536) as u16;
    let chunk = row / WIDE_CHUNK * 31 + column / WIDE_CHUNK;
    match content {
        Content::Even => (row / 8) as u16,
        Content::Noise => noise,
        Content::Mixed if Dice(chunk * 77 + 5).range(0, 2) == 0 => (column / 4) as u16,
        Content::Mixed => noise,
    }
}

/// LZ4 behind a byte shuffle; what does not shrink is stored.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let how = Blosc { shuffle: blosc::BYTES, typesize: 2, block_bytes: 1024, is_split: false };
    blosc::by_c_blosc(bytes, how, c"lz4")
}

const CODECS: [(&str, &str, fn(&[u8]) -> Vec<u8>); 3] = [
    ("raw", "", <[u8]>::to_vec),
    ("zstd", r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#, |bytes| {
        zstd::encode_all(bytes, 3).unwrap()
    }),
    (
        "blosc",
        r#",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle",
        "typesize":2,"blocksize":1024}}"#,
        lz4,
    ),
];

/// Boxes of an array of one codec and content, and whether some chunk grew and some shrank.
fn coded_jobs(scratch: &Scratch, codec: usize, content: Content) -> (Vec<Job>, bool, bool) {
    let (name, codecs, encode) = CODECS[codec];
    let across = WIDE / WIDE_CHUNK;
    let (mut payload, mut entries, mut has_grown, mut has_shrunk) = (vec![], vec![], false, false);
    for chunk in 0..across * across {
        let (row, column) = (chunk / across * WIDE_CHUNK, chunk % across * WIDE_CHUNK);
        let raw: Vec<u8> = (0..WIDE_CHUNK * WIDE_CHUNK)
            .map(|at| element(content, row + at / WIDE_CHUNK, column + at % WIDE_CHUNK))
            .flat_map(u16::to_le_bytes)
            .collect();
        let data = encode(&raw);
        has_grown |= data.len() > raw.len();
        has_shrunk |= data.len() < raw.len() / 4;
        entries.push((payload.len() as u64, data.len() as u64));
        payload.extend(data);
    }
    let meta =
        Meta { codecs, ..Meta::u16(&[WIDE, WIDE], &[WIDE_CHUNK, WIDE_CHUNK], Some(&[WIDE, WIDE])) };
    let file = synth::shard_bytes(&payload, &entries);
    let uri = meta.write(scratch, &format!("{name}-{content:?}"), Some(&file));
    let edge = CROP as i64;
    let job = |n: i64| {
        let first = vec![n * 53 % (WIDE as i64 - edge), n * 31 % (WIDE as i64 - edge)];
        let limit = first.iter().map(|at| at + edge).collect();
        let (row, column) = (first[0] as u64, first[1] as u64);
        let want = (0..CROP * CROP)
            .flat_map(|i| element(content, row + i / CROP, column + i % CROP).to_le_bytes());
        Job::new(&uri, (first, limit), want.collect())
    };
    ((0..14).map(job).collect(), has_grown, has_shrunk)
}

#[test]
fn what_shrinks_and_what_grows_streams_in_every_memory_that_is_accepted() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for codec in 0..CODECS.len() {
        for content in [Content::Even, Content::Noise, Content::Mixed] {
            let (jobs, has_grown, has_shrunk) = coded_jobs(&scratch, codec, content);
            let is_packed = codec > 0;
            assert_eq!(has_grown, is_packed && content != Content::Even, "{codec} {content:?}");
            assert_eq!(has_shrunk, is_packed && content != Content::Noise, "{codec} {content:?}");
            for (samples, waves, more) in [(1, 2, 0), (3, 2, 0), (5, 3, 20_000), (3, 8, 3 << 20)] {
                let config = Config {
                    samples_per_batch: samples,
                    host_buffer_waves: waves,
                    max_chunk_uncompressed_bytes: WIDE_CHUNK * WIDE_CHUNK * 2,
                    ..device_config(&simulator, 2)
                };
                let (device, host) = floors(&config);
                let config = Config {
                    max_gpu_memory_bytes: device + more,
                    max_host_memory_bytes: host + more,
                    ..config
                };
                stream_to_the_byte(&simulator, &config, &jobs);
            }
        }
    }
}

// ---- Modes ------------------------------------------------------------------------------------

/// Streams places in every mode of the simulator and every order of a kernel's blocks.
fn stream_in_all_modes(simulator: &Simulator, config: &Config, jobs: &[Job], seeds: u64) {
    let modes = [Mode::Eager, Mode::Jitter, Mode::Lazy];
    for (mode, order) in modes.into_iter().zip(["reverse", "shuffled", "forward"]) {
        for seed in 0..seeds {
            simulator.set_mode(mode, seed);
            simulator.set_order(order, seed);
            let loader = drive::open(config);
            stream_through(&loader, config, jobs, 0);
            loader.close(PATIENCE_NS).unwrap();
        }
    }
}

#[test]
fn jitter_and_lazy_devices_give_the_same_bytes_with_any_number_of_slabs_and_threads() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let jobs = place_jobs(&places(&scratch, "zstd", true), 24);
    for (waves, threads) in [(2, 16), (8, 2), (64, 16)] {
        let config = tight(&Config {
            host_buffer_waves: waves,
            n_decode_threads: threads,
            ..device_config(&simulator, 3)
        });
        stream_in_all_modes(&simulator, &config, &jobs, 2);
    }
    // All are pushed at once, so that pop waits: a thread that only asked, again and again, would
    // keep the device's threads from their CPUs.
    let pump = tight(&Config {
        thread_mode: THREADS_PUMP,
        lookahead_samples: 24,
        ..device_config(&simulator, 1)
    });
    stream_in_all_modes(&simulator, &pump, &jobs, 4);
}

#[test]
fn jobs_of_the_host_drive_the_device_however_they_are_run() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let jobs = place_jobs(&places(&scratch, "zstd", true), 24);
    use crate::common::workers::Run;
    for run in [Run::Inline, Run::Threads(3), Run::Twice(2), Run::OnAnother] {
        let system = workers::JobSystem::new(run);
        let config = tight(&system.config(&device_config(&simulator, 2)));
        stream_in_all_modes(&simulator, &config, &jobs, 1);
    }
}

#[test]
fn a_host_that_only_looks_for_batches_gets_them_all_in_hook_mode() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let jobs = place_jobs(&places(&scratch, "zstd", true), 24);
    use crate::common::workers::Run;
    for run in [Run::Inline, Run::Threads(2), Run::OnAnother, Run::Reverse, Run::Later] {
        let system = workers::JobSystem::new(run);
        let config = tight(&system.config(&device_config(&simulator, 2)));
        for mode in [Mode::Eager, Mode::Jitter, Mode::Lazy] {
            simulator.set_mode(mode, 3);
            drive::stream_by_polls_alone(&config, &jobs, || system.run_queued());
        }
    }
}

#[test]
fn a_host_is_handed_no_jobs_in_vain_while_failed_samples_wait_for_a_busy_device() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let system = workers::JobSystem::new(workers::Run::Later);
    let loader = Handle::new(&tight(&system.config(&Config {
        on_error: ON_ERROR_SKIP,
        n_batch_slots: 4,
        lookahead_samples: 16,
        ..device_config(&simulator, 4)
    })));
    // All slabs are on their way to a device that does nothing.
    simulator.hold(1);
    for n in 0..2 {
        loader.push(&uri, &[2 * n, 2 * n + 1]).unwrap();
        work_off(&loader, &system);
    }
    loader.push(&scratch.uri("absent"), &[90, 91]).unwrap();
    work_off(&loader, &system);
    simulator.hold(0);
    for _ in 0..3 {
        let batch = loop {
            system.run_queued();
            if let Ok(batch) = loader.try_pop(0) {
                break batch;
            }
        };
        loader.release(batch, None).unwrap();
    }
}

/// Runs all jobs, and those that they hand in, as far as that comes to an end; and looks at the
/// device in between.
fn work_off(loader: &Handle, system: &workers::JobSystem) {
    for _ in 0..20 {
        let _ = loader.try_pop(0);
        let before = system.handed_in();
        while system.waiting() > 0 {
            system.run_queued();
            assert!(system.handed_in() - before < 5000, "jobs without an end");
        }
    }
}

#[test]
fn failed_samples_missing_chunks_and_padding_are_filled_on_the_device() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let is_absent = |chunk| chunk % 3 == 1;
    let uri = places_without(&scratch, "sparse", false, is_absent);
    let absent = scratch.uri("absent");
    let (pad, edge) = (0xBEEFu16, CROP as i64);
    let mut jobs = Vec::new();
    for n in 0..24i64 {
        let first = vec![n * 5 - 40, 50 - n * 3];
        let limit = first.iter().map(|at| at + edge).collect();
        if n % 5 == 4 {
            jobs.push(Job::failing(&absent, (first, limit), Status::NotFound));
            continue;
        }
        let at = |row: i64, column: i64| -> u16 {
            let is_inside = |at: i64| (0..EDGE as i64).contains(&at);
            let (r, c) = (row as u64, column as u64);
            match is_inside(row) && is_inside(column) {
                false => pad,
                true if is_absent(r / CHUNK * (EDGE / CHUNK) + c / CHUNK) => 7,
                true => (r * EDGE + c) as u16,
            }
        };
        let (row, column) = (first[0], first[1]);
        let want = (0..edge * edge)
            .flat_map(|i| at(row + i / edge, column + i % edge).to_le_bytes())
            .collect();
        jobs.push(Job::new(&uri, (first, limit), want));
    }
    for samples in [1, 5] {
        let config = tight(&Config {
            samples_per_batch: samples,
            on_error: ON_ERROR_SKIP,
            pad_mode: PAD_CONSTANT,
            pad_value: f64::from(pad),
            pad_value_set: 1,
            ..device_config(&simulator, 2)
        });
        stream_in_all_modes(&simulator, &config, &jobs, 2);
    }
}

#[test]
fn integers_that_widen_and_raw_elements_come_as_they_are() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let widths = [(Dtype::I32, 0, 4), (Dtype::I64, 0, 8), (Dtype::Raw, 2, 2)];
    for (dtype, dtype_bytes, width) in widths {
        let mut jobs = place_jobs(&uri, 12);
        for job in &mut jobs {
            let narrow = job.want.clone().unwrap();
            let widened = narrow.chunks(2).flat_map(|pair| {
                let mut wide = pair.to_vec();
                wide.resize(width, 0);
                wide
            });
            job.want = Ok(widened.collect());
        }
        let config = Config { dtype: dtype as u32, dtype_bytes, ..device_config(&simulator, 2) };
        stream_in_all_modes(&simulator, &tight(&config), &jobs, 1);
    }
}

// ---- Figures ----------------------------------------------------------------------------------

#[test]
fn figures_and_batches_say_which_device_and_what_was_moved() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let loader = Handle::new(&device_config(&simulator, 3));
    let (mut streams, mut held) = (Vec::new(), Vec::new());
    for n in 0..6 {
        let batch = loader.batch(&uri, &[2 * n, 2 * n + 1]);
        let view = loader.view(batch);
        check(&view);
        assert_eq!((view.backend, view.device, view.batch_id), (BACKEND_CUDA, 0, n));
        assert!(!view.ready_stream.is_null());
        assert!((view.data as usize).is_multiple_of(256));
        streams.push((view.data as usize, view.ready_stream as usize));
        held.push(batch);
        if held.len() == 3 {
            held.drain(..).for_each(|batch| loader.release(batch, None).unwrap());
        }
    }
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 3, "each slot has a ready stream of its own: {streams:x?}");
    // A wave that is seen to be done may leave its copy to the next look.
    let begun = Instant::now();
    let mut stats = loader.stats();
    while stats.input_transfer.count < stats.assemble.count {
        assert!(begun.elapsed().as_nanos() < u128::from(PATIENCE_NS), "a copy that never ends");
        std::thread::yield_now();
        stats = loader.stats();
    }
    assert_eq!(stats.backend, BACKEND_CUDA);
    let reason: Vec<u8> = stats.backend_reason.iter().map(|byte| *byte as u8).collect();
    assert!(reason.starts_with(b"cuda: asked for by the config\0"));
    let output = 6 * SAMPLES as u64 * CROP * CROP * 2;
    assert_eq!(stats.assemble.output_bytes, output);
    assert!(stats.assemble.count > 0 && stats.assemble.count == stats.input_transfer.count);
    assert!(stats.input_transfer.input_bytes > stats.assemble.input_bytes);
    assert_eq!(stats.input_transfer.input_bytes, stats.input_transfer.output_bytes);
    assert!(stats.post_decode.output_bytes > 0, "laying out for the device is a stage");
}

#[test]
fn a_wave_costs_the_copy_engines_one_copy_to_the_device_and_none_back() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let loader = Handle::new(&tight(&device_config(&simulator, 2)));
    let entries = [c"cuMemcpyHtoDAsync_v2", c"cuMemcpyDtoHAsync_v2", c"cuMemsetD8Async"];
    let calls = || entries.map(|entry| simulator.calls(Some(entry)));
    let (before, launches) = (calls(), simulator.launches());
    for n in 0..4 {
        let batch = loader.batch(&uri, &[2 * n, 2 * n + 1]);
        check(&loader.view(batch));
        loader.release(batch, None).unwrap();
    }
    let waves = simulator.launches() - launches;
    assert!(waves > 4, "{waves} waves");
    assert_eq!(calls(), [before[0] + waves, before[1], before[2]]);
}

#[test]
fn auto_takes_the_device_that_is_there_and_says_so() {
    let Some(simulator) = Simulator::take() else { return };
    let auto = Config { backend: BACKEND_AUTO, ..device_config(&simulator, 2) };
    let loader = Loader::open_on(&SYSTEM, &auto).unwrap();
    let stats = loader.stats().unwrap();
    let reason: String = stats.backend_reason.iter().map(|byte| char::from(*byte as u8)).collect();
    assert!(reason.starts_with("cuda: auto, Simulated GPU 0\0"), "{reason}");
    assert_eq!(stats.backend, BACKEND_CUDA);
}

/// What auto takes while the first call of an entry fails: the host, and why.
fn host_reason(config: &Config) -> String {
    let loader = Loader::open_on(&SYSTEM, config).unwrap_or_else(|failure| panic!("{failure}"));
    let stats = loader.stats().unwrap();
    assert_eq!(stats.backend, BACKEND_HOST);
    let scratch = Scratch::new();
    let uri = places(&scratch, "host", true);
    for tag in 0..SAMPLES as u64 {
        let first = begin(tag);
        let end = first.map(|first| first + CROP as i64);
        let request = Request { uri: &uri, begin: &first, end: &end, tag };
        assert_eq!(loader.push(&[request], 0).unwrap(), 1);
    }
    let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
    assert_eq!(drive::samples(&batch), expected(batch.tags()));
    assert_eq!(batch.ready_stream(), None);
    let text = |bytes: &[std::ffi::c_char]| -> String {
        let text = bytes.iter().take_while(|byte| **byte != 0);
        text.map(|byte| char::from(*byte as u8)).collect()
    };
    // The short form is what programs of the first header look at.
    let (short, whole) = (text(&stats.backend_reason), text(&stats.backend_text));
    assert!(whole.starts_with(&short) && short.len() == whole.len().min(63), "{short}: {whole}");
    whole
}

#[test]
fn auto_takes_the_host_where_no_device_will_do_and_says_why() {
    let Some(simulator) = Simulator::take() else { return };
    let auto = Config { backend: BACKEND_AUTO, ..device_config(&simulator, 2) };
    let nowhere = DriverPath::from_static(c"/nowhere/libcuda.so.1");
    for device in [-1, 0] {
        let reason = host_reason(&Config { cuda_driver: nowhere, device, ..auto });
        let begin = "host: auto, the CUDA driver /nowhere/libcuda.so.1 cannot be loaded (";
        assert!(reason.starts_with(begin) && reason.len() > 100, "{reason}");
    }
    let cases = [
        (c"cuDeviceGetCount", 3, "cuDeviceGetCount returned"),
        (c"cuDevicePrimaryCtxRetain", 46, "no context to be had"),
        (c"cuModuleLoadDataEx", 222, "refuses the kernels"),
        (c"cuLaunchKernel", 700, "cuLaunchKernel returned"),
    ];
    for (entry, code, text) in cases {
        simulator.fail(Some(entry), 0, code, 1);
        let reason = host_reason(&auto);
        assert!(simulator.is_fault_over(), "{entry:?}");
        assert!(reason.starts_with("host: auto, ") && reason.contains(text), "{reason}");
    }
    // Smaller caps may mend this one.
    simulator.fail(Some(c"cuMemAlloc_v2"), 0, 2, 1);
    let failure = Loader::open_on(&SYSTEM, &auto).err().unwrap();
    assert_eq!(failure.status, Status::OutOfMemory, "{failure}");
    let ninth = Config { device: 9, ..auto };
    assert_eq!(Loader::open_on(&SYSTEM, &ninth).err().unwrap().status, Status::Invalid);
}

#[test]
fn without_a_current_context_only_auto_opens_and_takes_the_host_and_says_why() {
    let Some(simulator) = Simulator::take() else { return };
    let cuda = Config { device: -1, ..device_config(&simulator, 2) };
    let auto = Config { backend: BACKEND_AUTO, ..cuda };
    let retains = simulator.calls(Some(c"cuDevicePrimaryCtxRetain"));
    let failure = Loader::open_on(&SYSTEM, &cuda).err().unwrap();
    assert_eq!(failure.status, Status::Invalid, "{failure}");
    let reason = host_reason(&auto);
    assert_eq!(reason, format!("host: auto, {}", failure.text.as_str()));
    assert!(reason.contains("no current context") && reason.contains("set device = 0"), "{reason}");
    assert_eq!(memory_need(&auto).map(|need| need.device_bytes).ok(), Some(0));
    assert_eq!(simulator.calls(Some(c"cuDevicePrimaryCtxRetain")), retains);
    // With one both take it.
    let gpu = Gpu::new(&simulator, 0);
    for config in [cuda, auto] {
        let stats = Loader::open_on(&SYSTEM, &config).unwrap().stats().unwrap();
        assert_eq!(stats.backend, BACKEND_CUDA);
    }
    drop(gpu);
}
