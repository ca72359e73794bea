//! Boxes with arithmetic in loaders on the simulated device: under the least memory, with samples
//! that fail, in memory that is lent, with a cache. The host gives the expected bytes.

use crate::common::arithmetic::Arithmetic;
use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::digest;
use crate::common::drive::{Dice, PATIENCE_NS, in_hook_mode, open};
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::Platform;
use wavetrain::config::*;
use wavetrain::loader::{Loader, Part, Pop, Sample};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Extents of a sample: as many rows as there may be channels, and two boxes of half of them.
const SHAPE: [u64; 2] = [64, 20];
const HALF: i64 = 32;
const BATCHES: usize = 6;

/// Samples of two boxes, partly outside of the array of places, each with arithmetic of its own.
struct Scene {
    uri: String,
    drawn: Vec<[Arithmetic; 2]>,
}

/// Statuses and bytes of each batch.
type Made = Vec<(Vec<i32>, Vec<u8>)>;

impl Scene {
    fn new(uri: String, samples: usize, draw: impl Fn(&mut Dice) -> Arithmetic) -> Scene {
        let mut dice = Dice(0x0123_4567_89AB_CDEF);
        let drawn = (0..samples).map(|_| [draw(&mut dice), draw(&mut dice)]).collect();
        Scene { uri, drawn }
    }

    /// Any arithmetic.
    fn any(uri: String, samples: usize) -> Scene {
        Scene::new(uri, samples, |dice| Arithmetic::draw(dice, &SHAPE))
    }

    /// Streams all of it, and compares the digests, if there are some.
    fn stream(&self, loader: &Loader, config: &Config) -> Made {
        let erased: Vec<_> =
            self.drawn.iter().map(|pair| pair.each_ref().map(Arithmetic::erasures)).collect();
        let begin = |sample: usize, half: i64| {
            [begin(sample as u64)[0] - 12 + half * HALF, begin(sample as u64)[1] - 3]
        };
        let begins: Vec<_> = (0..self.drawn.len()).map(|n| [begin(n, 0), begin(n, 1)]).collect();
        let ends = begins.clone().into_iter().map(|of| of.map(|[a, b]| [a + HALF, b + 20]));
        let ends: Vec<_> = ends.collect();
        let part = |sample: usize, half: usize| Part {
            uri: &self.uri,
            begin: &begins[sample][half],
            end: &ends[sample][half],
            at: [&[][..], &[HALF as u64]][half],
            augment: Some(self.drawn[sample][half].given(&erased[sample][half])),
            ..Part::default()
        };
        let parts: Vec<_> = (0..self.drawn.len()).map(|n| [part(n, 0), part(n, 1)]).collect();
        let samples = parts.iter().zip(0..).map(|(parts, tag)| Sample { parts, tag });
        let samples: Vec<Sample<'_>> = samples.collect();
        let (mut made, mut pushed, mut is_flushed) = (Made::new(), 0, false);
        loop {
            pushed += loader.push_samples(&samples[pushed..], 0).0;
            if pushed == samples.len() && !is_flushed {
                loader.flush().unwrap_or_else(|why| panic!("flush: {why}"));
                is_flushed = true;
            }
            if config.thread_mode == THREADS_PUMP {
                loader.pump(1_000_000).unwrap_or_else(|why| panic!("pump: {why}"));
            }
            match loader.pop(if is_flushed { PATIENCE_NS } else { 0 }) {
                Ok(Pop::Batch(batch)) => {
                    let field = batch.field(0).unwrap_or_else(|why| panic!("{why}"));
                    let mut bytes = vec![0; field.bytes() as usize];
                    field.copy_to(&mut bytes).unwrap_or_else(|why| panic!("copy: {why}"));
                    let count = batch.tags().len();
                    let samples = bytes.chunks_exact(bytes.len() / count);
                    let (first, place) = (batch.tags()[0], format!("batch {}", made.len()));
                    digest::check(&field, config.digest == 1, samples, first, &place);
                    made.push((batch.statuses().to_vec(), bytes));
                }
                Ok(Pop::Again(_)) if !is_flushed => {}
                Ok(Pop::End | Pop::Reset) => return made,
                Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("{}", why.as_str()),
                Err(why) => panic!("pop: {why}"),
            }
        }
    }

    /// Opens a loader and streams.
    fn made(&self, config: &Config) -> Made {
        let loader = open(config);
        let made = self.stream(&loader, config);
        loader.close(PATIENCE_NS).unwrap_or_else(|why| panic!("close: {why}"));
        made
    }
}

/// A loader on the device of chunks of places that become floats.
fn config(simulator: &Simulator, dtype: Dtype) -> Config {
    let mut config = Config {
        dtype: dtype as u32,
        pad_mode: PAD_CONSTANT,
        pad_value_set: 1,
        pad_value: 3.0,
        max_boxes_per_sample: 2,
        augment: 1,
        thread_mode: THREADS_PUMP,
        ..device_config(simulator, 2)
    };
    config.sample_shape[..2].copy_from_slice(&SHAPE);
    config
}

/// The same on the host, with plenty of memory.
fn on_host(config: &Config) -> Config {
    Config {
        backend: BACKEND_HOST,
        device: -1,
        cuda_driver: Config::default().cuda_driver,
        device_decode: DECODE_AUTO,
        max_gpu_memory_bytes: 0,
        max_host_memory_bytes: 64 << 20,
        lent_slots: 0,
        ..*config
    }
}

#[test]
fn the_least_memory_that_is_accepted_takes_the_longest_words() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    for (is_zstd, samples) in [(false, 1), (true, 3)] {
        let uri = places_without(&scratch, &format!("{samples}"), is_zstd, |chunk| chunk % 5 == 1);
        let scene = Scene::new(uri, BATCHES * samples, |dice| Arithmetic::longest(dice, &SHAPE));
        for pad_value_set in [0, 1] {
            let plenty = config(&simulator, Dtype::F32);
            let samples_per_batch = samples as u32;
            let least = tight(&Config { samples_per_batch, pad_value_set, ..plenty });
            let expected = scene.made(&on_host(&least));
            assert_eq!(expected.len(), BATCHES);
            for thread_mode in [THREADS_PUMP, THREADS_OWN] {
                let found = scene.made(&tight(&Config { thread_mode, ..least }));
                assert!(found == expected, "{samples} samples, mode {thread_mode}");
            }
        }
    }
}

#[test]
fn memory_is_for_arithmetic_only_where_there_is_some() {
    let Some(simulator) = Simulator::take() else { return };
    let off = |config: Config| Config { augment: 0, ..config };
    let floats = config(&simulator, Dtype::F32);
    let integers = config(&simulator, Dtype::U16);
    // Boxes of integers may have a map, which takes nothing of the device.
    let (with, without) = (floors(&integers), floors(&off(integers)));
    assert!(with.0 == without.0 && with.1 > without.1, "{with:?}, {without:?}");
    let (with, without) = (floors(&floats), floors(&off(floats)));
    assert!(with.1 > without.1, "{with:?}, {without:?}");
    // Device memory is taken in pages of 2 MiB: the units of so many samples are more.
    let many = |config: Config| Config { samples_per_batch: 512, ..config };
    let (with, without) = (floors(&many(floats)), floors(&many(off(floats))));
    assert!(with.0 > without.0 && with.1 > without.1, "{with:?}, {without:?}");
}

#[test]
fn every_way_to_work_gives_the_bits_of_the_host() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uris = [
        places_without(&scratch, "raw", false, |chunk| chunk % 3 == 1),
        places(&scratch, "zstd", true),
        places_in_lz4(&scratch, "lz4"),
    ];
    let dtypes = [Dtype::F32, Dtype::F16, Dtype::Bf16];
    let cases = uris.into_iter().enumerate().zip(dtypes);
    for ((number, uri), dtype) in cases {
        let scene = Scene::any(uri, BATCHES * SAMPLES);
        for pad_mode in [PAD_CONSTANT, PAD_EDGE, PAD_REFLECT] {
            let pad_value_set = u32::from(pad_mode == PAD_CONSTANT);
            let pad_value = if pad_value_set == 1 { 3.0 } else { 0.0 };
            let plain = config(&simulator, dtype);
            let config = Config { pad_mode, pad_value_set, pad_value, digest: 1, ..plain };
            let expected = scene.made(&on_host(&config));
            let ways = [
                Config { thread_mode: THREADS_OWN, ..config },
                Config { chunk_cache_bytes: 1 << 20, ..config },
                in_hook_mode(&config),
                Config { device_decode: DECODE_ON, ..config },
                Config { device_decode: DECODE_OFF, n_readers: 1, ..config },
            ];
            for (way, config) in ways.iter().enumerate() {
                let modes = [Mode::Eager, Mode::Jitter, Mode::Lazy];
                simulator.set_mode(modes[(number + way) % 3], way as u64);
                assert!(scene.made(config) == expected, "{dtype:?}, {pad_mode}, way {way}");
            }
        }
    }
}

#[test]
fn a_sample_that_fails_is_filled_and_the_others_are_changed() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = damaged(&scratch);
    let scene = Scene::any(uri, BATCHES * SAMPLES);
    for device_decode in [DECODE_OFF, DECODE_ON] {
        let config = config(&simulator, Dtype::F32);
        let config = Config { on_error: ON_ERROR_SKIP, digest: 1, device_decode, ..config };
        let expected = scene.made(&on_host(&config));
        let failed = expected.iter().flat_map(|(statuses, _)| statuses);
        let failed = failed.filter(|status| **status == Status::Decode as i32).count();
        assert!((1..BATCHES * SAMPLES).contains(&failed), "{failed}");
        assert!(scene.made(&config) == expected);
    }
}

#[test]
fn memory_that_is_lent_gets_the_bits_of_the_host() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let scene = Scene::any(places(&scratch, "raw", false), 2 * SAMPLES);
    let gpu = Gpu::new(&simulator, 0);
    // A batch that begins at no multiple of a vector.
    let bytes = SAMPLES as u64 * SHAPE.iter().product::<u64>() * 4;
    let blocks = [0; 2].map(|_| gpu.memory(bytes as usize + 64).0 + 4);
    let config = Config { lent_slots: 2, ..config(&simulator, Dtype::F32) };
    let loader = open(&config);
    for (tag, block) in (0..).zip(blocks) {
        let target = std::ptr::with_exposed_provenance_mut(block as usize);
        // SAFETY: the memory stays until the loader is closed.
        unsafe { loader.lend(&[(target, bytes)], None, tag) }.unwrap();
    }
    let found = scene.stream(&loader, &config);
    loader.close(PATIENCE_NS).unwrap();
    assert!(found == scene.made(&on_host(&config)));
}
