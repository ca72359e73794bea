//! The scenarios of the reference loader's bench, end to end: stores as it makes them, random crops
//! of 128^3 as f32, on the device, on one that decodes all that it can, and on the host.
//!
//! Geometry, batch and lookahead are the reference's; the voxels are those of benches/common. The
//! consumer does nothing: it releases each batch as soon as it has it. The clock starts behind the
//! warm-up batches; up to two batches may be ready then, which 50 hide.

use crate::common::{Array, Codec, Dice, Triple};
use crate::row;
use std::path::Path;
use std::time::Instant;
use wavetrain::config::{BACKEND_CUDA, BACKEND_HOST, Config, DECODE_AUTO, DECODE_ON};
use wavetrain::loader::{Loader, Pop, Request, config_fit_trusting};
use wavetrain::os::SYSTEM;

/// A list of arrays, and how they are streamed.
struct Scenario {
    name: &'static str,
    codecs: &'static [Codec],
    shape: Triple,
    chunk: Triple,
    shard: Triple,
    crop: Triple,
    samples_per_batch: u32,
    batches: u64,
    warm_up_batches: u64,
    lookahead_samples: u32,
    n_io_threads: u32,
    gpu_mib: u64,
}

const VOLUMES: Scenario = Scenario {
    name: "default",
    codecs: &[Codec::Zstd; 8],
    shape: [512; 3],
    chunk: [32, 64, 64],
    shard: [256, 256, 512],
    crop: [128; 3],
    samples_per_batch: 128,
    batches: 50,
    warm_up_batches: 5,
    lookahead_samples: 512,
    n_io_threads: 8,
    gpu_mib: 6144,
};

const SCENARIOS: [Scenario; 5] = [
    VOLUMES,
    Scenario { name: "blosc-zstd", codecs: &[Codec::Blosc; 8], ..VOLUMES },
    Scenario { name: "blosc-lz4", codecs: &[Codec::BloscLz4; 8], ..VOLUMES },
    Scenario { name: "raw", codecs: &[Codec::Raw; 8], ..VOLUMES },
    Scenario {
        name: "smoke",
        codecs: &[Codec::Zstd],
        shape: [64, 1024, 1024],
        chunk: [32, 128, 128],
        shard: [64, 1024, 1024],
        crop: [32, 128, 128],
        samples_per_batch: 4,
        batches: 8,
        warm_up_batches: 2,
        lookahead_samples: 16,
        n_io_threads: 4,
        gpu_mib: 512,
    },
];

impl Scenario {
    /// An eighth of every extent, and a few batches: for the simulated driver.
    fn shrunk(&self, is_small: bool) -> Scenario {
        let divided =
            |extents: Triple| extents.map(|extent| if is_small { extent / 8 } else { extent });
        Scenario {
            name: self.name,
            codecs: if is_small { &self.codecs[..1] } else { self.codecs },
            shape: divided(self.shape),
            chunk: divided(self.chunk),
            shard: divided(self.shard),
            crop: divided(self.crop),
            samples_per_batch: if is_small { 2 } else { self.samples_per_batch },
            batches: if is_small { 2 } else { self.batches },
            warm_up_batches: if is_small { 1 } else { self.warm_up_batches },
            lookahead_samples: if is_small { 4 } else { self.lookahead_samples },
            ..*self
        }
    }

    fn uris(&self, folder: &Path) -> Vec<String> {
        let uri = |number| folder.join(format!("{}-{number}", self.name));
        (0..self.codecs.len()).map(|n| uri(n).to_str().expect("UTF-8").to_owned()).collect()
    }

    fn config(&self) -> Config {
        let mut config = Config {
            samples_per_batch: self.samples_per_batch,
            sample_rank: 3,
            lookahead_samples: self.lookahead_samples,
            n_io_threads: self.n_io_threads,
            n_array_meta_cache: 4096,
            n_shard_index_cache: 16384,
            n_chunk_layout_cache: 4096,
            max_shards_per_sample: 8,
            ..Config::default()
        };
        config.sample_shape[..3].copy_from_slice(&self.crop);
        config
    }
}

/// Writes all stores. One that is there is kept.
pub fn write(folder: &Path, is_small: bool) {
    for scenario in SCENARIOS.iter().map(|scenario| scenario.shrunk(is_small)) {
        std::thread::scope(|scope| {
            for (uri, codec) in scenario.uris(folder).into_iter().zip(scenario.codecs) {
                let (shape, chunk) = (scenario.shape, scenario.chunk);
                let array = Array { shape, chunk, shard: Some(scenario.shard), codec: *codec };
                let marker = format!("{uri}/complete");
                if Path::new(&marker).exists() {
                    continue;
                }
                scope.spawn(move || {
                    let counts = [0, 1, 2].map(|axis| shape[axis] / chunk[axis]);
                    let at = |n: u64| {
                        let (yx, x) = (n / counts[2], n % counts[2]);
                        [yx / counts[1], yx % counts[1], x]
                    };
                    let chunks: Vec<Triple> = (0..counts.iter().product()).map(at).collect();
                    array.write(&uri, &chunks);
                    std::fs::write(&marker, "").expect("the marker");
                });
            }
        });
    }
}

/// What one run says.
struct Figures {
    samples_per_s: f64,
    /// Of batches, in their own type.
    gb_per_s: f64,
    first_batch_ms: f64,
    waited: f64,
    copies: f64,
    assemble: f64,
    /// Decoded bytes, by the time that the device decoded.
    decoded_gb_per_s: f64,
}

fn run(scenario: &Scenario, uris: &[String], config: &Config) -> Figures {
    let loader =
        Loader::open_on(&SYSTEM, config).unwrap_or_else(|failure| panic!("open: {failure}"));
    let (all, per_batch) =
        (scenario.batches + scenario.warm_up_batches, u64::from(scenario.samples_per_batch));
    let mut dice = Dice(1);
    let (mut pushed, mut popped) = (0, 0);
    let opened = Instant::now();
    let (mut begin, mut first_batch_ms, mut waited) = (opened, 0.0, 0.0);
    let mut next: Option<(usize, [i64; 3])> = None;
    while popped < all {
        while pushed < all * per_batch {
            let (uri, begin) = *next.get_or_insert_with(|| {
                let uri = dice.below(uris.len() as u64) as usize;
                let place = |axis: usize| scenario.shape[axis] - scenario.crop[axis] + 1;
                (uri, [0, 1, 2].map(|axis| dice.below(place(axis)) as i64))
            });
            let end = [0, 1, 2].map(|axis| begin[axis] + scenario.crop[axis] as i64);
            let request = Request { uri: &uris[uri], begin: &begin, end: &end, tag: pushed };
            let taken = loader.push(&[request], 0);
            if taken.unwrap_or_else(|failure| panic!("push: {failure}")) == 0 {
                break;
            }
            next = None;
            pushed += 1;
        }
        let asked = Instant::now();
        let batch = match loader.pop(u64::MAX).unwrap_or_else(|failure| panic!("pop: {failure}")) {
            Pop::Batch(batch) => batch,
            _ => panic!("no batch although pop may wait"),
        };
        waited += asked.elapsed().as_secs_f64();
        drop(batch);
        popped += 1;
        if popped == 1 {
            first_batch_ms = opened.elapsed().as_secs_f64() * 1e3;
        }
        if popped == scenario.warm_up_batches {
            loader.stats_reset().expect("stats_reset");
            (begin, waited) = (Instant::now(), 0.0);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats = loader.stats().expect("stats");
    loader.close(u64::MAX).unwrap_or_else(|failure| panic!("close: {failure}"));
    let samples = (scenario.batches * per_batch) as f64;
    let sample_bytes = scenario.crop.iter().product::<u64>() as f64 * 4.0;
    Figures {
        samples_per_s: samples / seconds,
        gb_per_s: samples * sample_bytes / seconds * 1e-9,
        first_batch_ms,
        waited: waited / seconds,
        copies: stats.input_transfer.ns as f64 * 1e-9 / seconds,
        assemble: stats.assemble.ns as f64 * 1e-9 / seconds,
        decoded_gb_per_s: {
            let decode = &stats.device_decode;
            decode.output_bytes as f64 / decode.ns.max(1) as f64
        },
    }
}

/// Every scenario whose stores are there, on the device and on the host. Each is run twice, so that
/// files are in the page cache; the second run counts.
pub fn all(driver: &str, folder: &Path, is_small: bool) {
    let driver = crate::gpu::driver_path(driver);
    let mut scratch = vec![0; wavetrain::loader::SCRATCH_BYTES];
    for scenario in SCENARIOS.iter().map(|scenario| scenario.shrunk(is_small)) {
        let uris = scenario.uris(folder);
        if let Some(uri) = uris.iter().find(|uri| !Path::new(&format!("{uri}/complete")).exists()) {
            crate::fact(&format!("stream {}", scenario.name), &format!("skipped: no {uri}"));
            continue;
        }
        let names: Vec<&str> = uris.iter().map(String::as_str).collect();
        let ways = [
            (BACKEND_CUDA, DECODE_AUTO, "device"),
            (BACKEND_CUDA, DECODE_ON, "device, decoding"),
            (BACKEND_HOST, DECODE_AUTO, "host"),
        ];
        for (backend, device_decode, word) in ways {
            if device_decode == DECODE_ON && matches!(scenario.codecs[0], Codec::Raw) {
                continue;
            }
            let mut config = Config { backend, device_decode, ..scenario.config() };
            if backend == BACKEND_CUDA {
                (config.device, config.cuda_driver) = (0, driver);
                config.max_gpu_memory_bytes = if is_small { 0 } else { scenario.gpu_mib << 20 };
            }
            // SAFETY: the driver is the one that the caller of this bench names.
            let fitted = unsafe { config_fit_trusting(&mut config, &names, &mut scratch) };
            fitted.unwrap_or_else(|why| panic!("{why}"));
            run(&scenario, &uris, &config);
            let figures = run(&scenario, &uris, &config);
            let mut note = format!(
                "{:.3} GB/s; first batch {:.0} ms; {:.0} % in pop",
                figures.gb_per_s,
                figures.first_batch_ms,
                100.0 * figures.waited
            );
            if backend == BACKEND_CUDA {
                let (copies, assemble) = (100.0 * figures.copies, 100.0 * figures.assemble);
                note += &format!("; device: copies {copies:.0} %, assemble {assemble:.0} %");
                if figures.decoded_gb_per_s > 0.0 {
                    note += &format!(", decoding at {:.2} GB/s", figures.decoded_gb_per_s);
                }
            }
            let name = format!("stream {}, {word}", scenario.name);
            row(&name, figures.samples_per_s, "samples/s", &note);
        }
    }
}
