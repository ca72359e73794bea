//! The cache of decoded chunks changes how much is decoded and nothing else.

use crate::common::damage;
use crate::common::drive::{
    Dice, Job, PATIENCE_NS, WARM, check_batch, config, open, stream_through,
};
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::store;
use crate::common::store::Spec;
use crate::common::synth::Meta;
use std::path::Path;
use wavetrain::abi::Stats;
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// 512 chunks of 1,024 bytes, each of which takes a place of 16 KiB.
const SPEC: Spec = Spec { seed: 11, edge: 64, shard: 32, chunk: 8, zstd: true, sparse: false };
const EDGE: i64 = 12;

fn job(array: &Path, begin: [i64; 3]) -> Job {
    let at = |place: [u64; 3]| std::array::from_fn(|axis| begin[axis] as u64 + place[axis]);
    let values = store::places(EDGE as u64).map(|place| store::value(SPEC.seed, at(place)));
    let want = values.flat_map(u16::to_le_bytes).collect();
    Job::new(array.to_str().unwrap(), (begin.to_vec(), begin.map(|at| at + EDGE).to_vec()), want)
}

/// Boxes at random places of a small region, so that they share chunks.
fn jobs(array: &Path, count: usize) -> Vec<Job> {
    let mut dice = Dice(4711);
    let mut place = || dice.range(0, 28);
    (0..count).map(|_| job(array, [place(), place(), place()])).collect()
}

fn small_config(cache_bytes: u64) -> Config {
    Config {
        chunk_cache_bytes: cache_bytes,
        lookahead_samples: 60,
        ..config(Dtype::U16, &[EDGE as u64; 3], 4)
    }
}

fn stats_of(loader: &Loader) -> Stats {
    loader.stats().unwrap()
}

/// Streams the jobs and gives the figures.
fn stream_counting(config: &Config, jobs: &[Job]) -> Stats {
    counting(open(config), config, jobs)
}

fn counting(loader: Loader, config: &Config, jobs: &[Job]) -> Stats {
    stream_through(&loader, config, jobs, 0);
    let stats = stats_of(&loader);
    loader.close(PATIENCE_NS).unwrap();
    stats
}

fn written(scratch: &Scratch) -> std::path::PathBuf {
    let array = scratch.path("array");
    store::write(&array, &SPEC);
    array
}

#[test]
fn a_cache_for_everything_decodes_each_chunk_once() {
    let scratch = Scratch::new();
    let jobs = jobs(&written(&scratch), 200);
    let without = stream_counting(&small_config(0), &jobs);
    assert_eq!((without.chunk_cache_hits, without.chunk_cache_misses), (0, 0));
    let with = stream_counting(&small_config(16 << 20), &jobs);
    // The region is 40 voxels wide: five chunks along each axis. A chunk whose index came late may
    // be decoded twice.
    assert!((125..=130).contains(&with.decode.count), "{}", with.decode.count);
    assert_eq!((with.chunk_cache_misses, with.chunk_cache_evictions), (with.decode.count, 0));
    assert_eq!(with.chunk_cache_hits + with.decode.count, with.chunks_planned);
    assert_eq!(with.chunks_planned, without.chunks_planned);
    assert_eq!(with.chunk_cache_bytes_saved, with.chunk_cache_hits * 1024);
    assert_eq!(with.chunk_cache_bytes_held, 125 * 1024);
}

#[test]
fn a_small_cache_evicts_and_still_saves_in_every_thread_mode() {
    let scratch = Scratch::new();
    let jobs = jobs(&written(&scratch), 200);
    let without = stream_counting(&small_config(0), &jobs).decode.count;
    let small = small_config(1 << 20);
    for config in [
        small,
        Config { n_decode_threads: 4, n_io_threads: 4, ..small },
        Config { thread_mode: THREADS_PUMP, ..small },
        Config { max_chunks_per_wave: 3, host_buffer_waves: 2, ..small },
    ] {
        let stats = stream_counting(&config, &jobs);
        assert!(stats.chunk_cache_evictions > 0);
        assert!(stats.decode.count < without * 3 / 4, "{} of {without}", stats.decode.count);
        assert_eq!(stats.decode.count, stats.chunk_cache_misses);
    }
}

#[test]
fn the_same_pushes_keep_the_same_chunks_in_pump_mode() {
    let scratch = Scratch::new();
    let jobs = jobs(&written(&scratch), 100);
    // All is pushed before the first pump, there is always a free slot, and no read has to wait.
    let config = Config {
        thread_mode: THREADS_PUMP,
        lookahead_samples: 100,
        n_batch_slots: 26,
        ..small_config(1 << 20)
    };
    let figures = || {
        let stats = counting(Loader::open_on(&WARM, &config).unwrap(), &config, &jobs);
        (stats.chunk_cache_hits, stats.chunk_cache_evictions)
    };
    let first = figures();
    assert!(first.0 > 0 && first.1 > 0);
    assert_eq!([figures(), figures()], [first; 2]);
}

#[test]
fn a_tiny_cache_decodes_no_more_than_none_does() {
    let scratch = Scratch::new();
    let jobs = jobs(&written(&scratch), 200);
    let decoded = |cache_bytes: u64| {
        let small = Config { lookahead_samples: 200, ..small_config(cache_bytes) };
        let pumped = Config { thread_mode: THREADS_PUMP, n_batch_slots: 12, ..small };
        let loader = Loader::open_on(&WARM, &pumped).unwrap();
        // All is pushed first, and a pop pumps until its batch is there: no clock has a say in what
        // is decoded together.
        let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
        assert_eq!(loader.push(&requests, 0).unwrap(), jobs.len());
        for (number, jobs) in jobs.chunks(4).enumerate() {
            let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
            check_batch(&pumped, &batch, jobs, 4 * number);
        }
        let stats = stats_of(&loader);
        assert!(cache_bytes == 0 || stats.chunk_cache_misses == stats.decode.count);
        stats.decode.count
    };
    // Room for 3, 7 and 15 of the chunks. What is not kept is decoded once for the batches at work.
    let (none, kept) = (decoded(0), [64 << 10, 128 << 10, 256 << 10].map(decoded));
    assert!(kept.iter().all(|count| *count <= none) && kept[2] < none, "{kept:?} of {none}");
}

#[test]
fn a_broken_chunk_fails_every_box_that_needs_it_with_or_without_a_cache() {
    let scratch = Scratch::new();
    let array = written(&scratch);
    store::flip_chunk(&array, &SPEC, [0, 0, 0], 22);
    let jobs = jobs(&array, 120);
    let outcomes = |cache_bytes: u64| {
        let config = Config { on_error: ON_ERROR_SKIP, ..small_config(cache_bytes) };
        damage::outcomes(&config, &jobs)
    };
    let without = outcomes(0);
    let failed = without.iter().filter(|seen| seen.0 == Some(Status::Decode)).count();
    assert!(failed > 1 && failed < 120, "{failed}");
    for cache_bytes in [64 << 10, 1 << 20, 16 << 20] {
        assert!(outcomes(cache_bytes) == without, "{cache_bytes}");
    }
}

#[test]
fn reset_forgets_what_was_decoded() {
    let scratch = Scratch::new();
    let array = written(&scratch);
    let config = small_config(16 << 20);
    let loader = open(&config);
    let jobs = jobs(&array, 20);
    stream_through(&loader, &config, &jobs, 0);
    let before = stats_of(&loader);
    assert!(before.chunk_cache_hits > 0);
    loader.reset().unwrap();
    assert_eq!(stats_of(&loader).chunk_cache_bytes_held, 0);
    stream_through(&loader, &config, &jobs, 0);
    let after = stats_of(&loader).decode.count - before.decode.count;
    assert!(after * 10 > before.decode.count * 9, "{after} of {}", before.decode.count);
}

#[test]
fn uncompressed_chunks_are_read_whole_and_once() {
    let scratch = Scratch::new();
    let array = scratch.path("array");
    store::write(&array, &Spec { zstd: false, ..SPEC });
    let jobs = jobs(&array, 200);
    let large = small_config(16 << 20);
    for config in [large, with_hook(large), Config { map_uncompressed: 1, ..large }] {
        let stats = stream_counting(&config, &jobs);
        // A chunk of which a batch needs less than a quarter is read in parts until another batch
        // needs more.
        assert!((125..=170).contains(&stats.chunk_cache_misses), "{}", stats.chunk_cache_misses);
        assert!(stats.io.input_bytes <= 140 * 1024, "{}", stats.io.input_bytes);
        assert!(stats.chunk_cache_hits > 4 * stats.chunk_cache_misses);
        assert!(stats.chunk_cache_bytes_held >= 120 * 1024, "{}", stats.chunk_cache_bytes_held);
    }
    let small = small_config(1 << 20);
    for config in [
        small,
        with_hook(small),
        Config { thread_mode: THREADS_PUMP, ..small },
        Config { max_chunks_per_wave: 3, host_buffer_waves: 2, ..small },
    ] {
        assert!(stream_counting(&config, &jobs).chunk_cache_evictions > 0);
    }
}

#[test]
fn a_large_uncompressed_chunk_is_cached_unless_boxes_need_little_of_it() {
    const ELEMENTS: u64 = 1 << 20;
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..ELEMENTS).flat_map(|at| (at as u16).to_le_bytes()).collect();
    let meta = Meta::u16(&[ELEMENTS], &[ELEMENTS], None);
    let uri = meta.write(&scratch, "large", Some(&bytes));
    for (box_elements, reads) in [(ELEMENTS / 3, 1), (ELEMENTS / 9, 8)] {
        let jobs: Vec<Job> = (0..8)
            .map(|at| {
                let first = at * ELEMENTS / 16;
                let want = &bytes[2 * first as usize..2 * (first + box_elements) as usize];
                let span = (vec![first as i64], vec![(first + box_elements) as i64]);
                Job::new(&uri, span, want.to_vec())
            })
            .collect();
        for change in
            [|config| config, with_hook, |config| Config { map_uncompressed: 1, ..config }]
        {
            let config = change(Config {
                chunk_cache_bytes: 8 << 20,
                max_chunk_uncompressed_bytes: 4 << 20,
                max_host_memory_bytes: 100 << 20,
                ..config(Dtype::U16, &[box_elements], 1)
            });
            let stats = stream_counting(&config, &jobs);
            let held = if reads == 1 { 2 * ELEMENTS } else { 0 };
            assert_eq!(stats.chunk_cache_bytes_held, held);
            assert_eq!((stats.chunk_cache_hits, stats.chunk_cache_misses), (8 - reads, reads));
        }
    }
}

#[test]
fn a_cache_too_small_to_hold_anything_is_refused() {
    let failure = Loader::open(&small_config(65_535)).err().expect("refused");
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("chunk_cache_bytes"), "{failure}");
    drop(open(&small_config(65_536)));
}

#[test]
fn the_cache_and_its_tables_are_what_the_config_says() {
    for cache_bytes in [64 << 20, 512 << 20, 3 << 30] {
        let need = |bytes: u64| {
            let config = Config {
                chunk_cache_bytes: bytes,
                max_host_memory_bytes: 8 << 30,
                ..small_config(0)
            };
            let mut memory = wavetrain::abi::Memory::EMPTY;
            // SAFETY: both structs live during the call; the error is optional.
            let code = unsafe {
                wavetrain::surface::c::wavetrain_memory_need(
                    &config,
                    &mut memory,
                    std::ptr::null_mut(),
                )
            };
            assert_eq!(code, 0);
            memory.host_bytes
        };
        let taken = need(cache_bytes) - need(0);
        assert!(taken <= cache_bytes && taken > cache_bytes / 100 * 97, "{taken} of {cache_bytes}");
    }
}
