//! Every call of the driver fails once while boxes with arithmetic, of which every other has a map,
//! stream to a simulated device.
//!
//! Invariant: a failure has the name of the entry, batches have the bytes of the host, close works,
//! and all is given back.

use crate::common::arithmetic::Arithmetic;
use crate::common::cuda_sim::Simulator;
use crate::common::drive::{Dice, PATIENCE_NS};
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::device::GIVING_BACK;
use wavetrain::config::{BACKEND_HOST, Config, PAD_EDGE, THREADS_PUMP};
use wavetrain::cuda::entries::names;
use wavetrain::loader::{AffineMap, Failure, Interpolation, Loader, Part, Pop, Sample};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// The end of a box with a map.
const PLACES: [i64; 2] = [CROP as i64; 2];

/// Four samples of places, each with arithmetic of its own, in batches of two with one map.
fn stream(config: &Config, uri: &str, drawn: &[Arithmetic]) -> Result<Vec<u8>, Failure> {
    let loader = Loader::open_on(&SYSTEM, config)?;
    let erased: Vec<_> = drawn.iter().map(Arithmetic::erasures).collect();
    let begins: Vec<[i64; 2]> = (0..drawn.len() as u64).map(begin).collect();
    let ends: Vec<[i64; 2]> = begins.iter().map(|of| of.map(|at| at + CROP as i64)).collect();
    let part = |n: usize| {
        let augment = Some(drawn[n].given(&erased[n]));
        let plain = Part { uri, begin: &begins[n], end: &ends[n], augment, ..Part::default() };
        let [row, column] = begins[n].map(|at| at as f64);
        let matrix = [[0.8, 0.3, 0.0, row], [-0.3, 0.8, 0.0, column], [0.0; 4]];
        let filter = Interpolation::Linear;
        let affine = Some(AffineMap { axes: &[0, 1], matrix, filter, ..AffineMap::default() });
        [if n.is_multiple_of(2) {
            plain
        } else {
            Part { begin: &[0; 2], end: &PLACES, affine, ..plain }
        }]
    };
    let parts: Vec<_> = (0..drawn.len()).map(part).collect();
    let samples: Vec<Sample<'_>> =
        parts.iter().zip(0..).map(|(parts, tag)| Sample { parts, tag }).collect();
    let pop_all = || {
        let mut made = Vec::new();
        loader.push_samples(&samples, PATIENCE_NS).1?;
        loader.flush()?;
        loop {
            loader.pump(1_000_000)?;
            match loader.pop(PATIENCE_NS)? {
                Pop::Batch(batch) => {
                    let field = batch.field(0)?;
                    let first = made.len();
                    made.resize(first + field.bytes() as usize, 0);
                    field.copy_to(&mut made[first..])?;
                }
                Pop::End | Pop::Reset => return Ok(made),
                Pop::Again(why) | Pop::Starved(why) => panic!("{}", why.as_str()),
            }
        }
    };
    let made = pop_all();
    loader.close(PATIENCE_NS).unwrap_or_else(|why| panic!("close: {why}"));
    made
}

#[test]
fn arithmetic_on_a_device_bears_every_call_that_fails() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places_without(&scratch, "zstd", true, |chunk| chunk == 5);
    let mut dice = Dice(0x5EED_5EED);
    let draw = |_| Arithmetic::draw(&mut dice, &[CROP; 2]);
    let drawn: Vec<Arithmetic> = (0..2 * SAMPLES).map(draw).collect();
    // Memory that the driver does not take back is freed with this context.
    let gpu = Gpu::new(&simulator, 0);
    let plain = device_config(&simulator, 2);
    let pad_mode = PAD_EDGE;
    let plain = Config { augment: 1, dtype: Dtype::F32 as u32, pad_mode, ..plain };
    let config = tight(&Config { thread_mode: THREADS_PUMP, ..plain });
    let host = Config {
        backend: BACKEND_HOST,
        device: -1,
        cuda_driver: Config::default().cuda_driver,
        max_gpu_memory_bytes: 0,
        // The host has staging for maps, too.
        max_host_memory_bytes: 0,
        ..config
    };
    let expected = stream(&host, &uri, &drawn).unwrap_or_else(|why| panic!("{why}"));
    let (mut told, mut whole) = (0, 0);
    for entry in names() {
        let name = entry.name.to_str().unwrap();
        for step in 0..12 {
            let live_before = simulator.live().0;
            simulator.fail(Some(entry.name), step, 999, 1);
            let found = stream(&config, &uri, &drawn);
            let was_hit = simulator.is_fault_over();
            simulator.fail_none();
            let case = format!("{name}, call {step}");
            match found {
                Ok(bytes) => {
                    assert!(bytes == expected, "{case}");
                    whole += 1;
                }
                Err(failure) => {
                    assert!(was_hit && failure.status == Status::Cuda, "{case}: {failure}");
                    let text = failure.text.as_str();
                    assert!(text.contains(name.trim_end_matches("_v2")), "{case}: {text}");
                    told += 1;
                }
            }
            let kept = u64::from(was_hit && GIVING_BACK.contains(&name));
            assert!(simulator.live().0 <= live_before + kept, "{case}: {}", simulator.live().1);
            assert_eq!(simulator.findings().0, 0, "{case}: {}", simulator.findings().1);
            if !was_hit {
                break;
            }
        }
    }
    assert!(told > 60 && whole > 20, "{told} failures, {whole} streams");
    drop(gpu);
    let kept = simulator.take_findings();
    assert!(kept.is_empty() || kept.contains("a context ended with"), "{kept}");
}
