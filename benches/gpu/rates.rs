//! Copies and kernels by the device's clock, and the kernel's bytes against the host's.
//!
//! Bytes of a rate are those read and those written; a copy to the device counts once. Each figure
//! is the median of its turns, and a turn is several launches in a row, after one that warms up.

use crate::cases::{Case, POISON, Random, record};
use crate::common::median;
use crate::gpu::Gpu;
use crate::row;
use crate::sim::{Wave, WaveBytes};
use wavetrain::assemble::SampleBox;
use wavetrain::assemble::augment::{Change, Scratch};
use wavetrain::assemble::axis::PadMode;
use wavetrain::assemble::changes::UnitChange;
use wavetrain::assemble::units::{ChunkData, DeviceSample, Filter, chunk_piece, copy_blocks};
use wavetrain::assemble::{Target, scatter};
use wavetrain::base::arena::Claim;
use wavetrain::cuda::Stream;
use wavetrain::cuda::handles::DevicePointer;
use wavetrain::records::{AugmentHead, AugmentWords, BoxShape, ChunkBytes, Dtype};
use wavetrain::simd::FloatEnvironment;

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    /// Bytes of a copy, and about those that an assembled wave writes.
    bytes: u64,
    turns: usize,
    launches: u32,
}

fn size(is_small: bool) -> Size {
    match is_small {
        true => Size { bytes: 1 << 20, turns: 1, launches: 1 },
        false => Size { bytes: 256 << 20, turns: 9, launches: 8 },
    }
}

/// GB/s of work that moves `bytes` each time.
fn rate(gpu: &Gpu, stream: Stream, size: Size, bytes: u64, work: &mut dyn FnMut()) -> f64 {
    work();
    let turns = (0..size.turns).map(|_| {
        let mut launches = || (0..size.launches).for_each(|_| work());
        let milliseconds = gpu.milliseconds(&[stream], &mut launches);
        bytes as f64 * f64::from(size.launches) / milliseconds * 1e-6
    });
    median(turns.collect())
}

// ---- Right bytes ------------------------------------------------------------------------------

/// Random units: every one must write what the host path writes, and nothing else.
pub fn units(gpu: &Gpu, count: u64) {
    for number in 0..count {
        let mut random = Random(number * 0x9E37_79B9 + 1);
        let case = Case::random(&mut random);
        let told = case.told(&mut random);
        let found = assembled(gpu, &told.wave, told.expected.len());
        if let Some(at) = (0..found.len()).find(|at| found[*at] != told.expected[*at]) {
            println!("units: case {number}, byte {at} differs from the host's");
            std::process::exit(1);
        }
    }
    row("units: random cases, the host's bytes", count as f64, "same", "");
}

/// What a wave makes of poisoned device memory.
fn assembled(gpu: &Gpu, wave: &Wave, target_bytes: usize) -> Vec<u8> {
    let target = gpu.block(target_bytes as u64);
    gpu.upload(target, &vec![POISON; target_bytes]);
    let wave = wave.bytes(target.0);
    let place = uploaded(gpu, &wave);
    gpu.clear_status();
    gpu.launch_assemble(gpu.streams[0], place, &wave);
    let found = gpu.download(target, target_bytes);
    assert_eq!(gpu.status(), 0, "the kernel refused a unit");
    gpu.free(place);
    gpu.free(target);
    found
}

fn uploaded(gpu: &Gpu, wave: &WaveBytes) -> DevicePointer {
    let place = gpu.block(wave.bytes.len() as u64);
    gpu.upload(place, &wave.bytes);
    place
}

// ---- Rates ------------------------------------------------------------------------------------

/// A wave of samples of one shape, out of whole chunks.
struct Work {
    name: &'static str,
    source: Dtype,
    target: Dtype,
    /// Where the boxes begin in the array, along every axis.
    begin: i64,
    filter: Filter,
    /// Every step of arithmetic on the elements.
    is_augmented: bool,
}

const WORKS: [Work; 7] = [
    Work::plain("assemble u16 to f32, aligned", Dtype::U16, Dtype::F32, 0),
    Work::plain("assemble u16 to f32, unaligned", Dtype::U16, Dtype::F32, 5),
    Work::plain("assemble u8 to bf16", Dtype::U8, Dtype::Bf16, 0),
    Work::plain("assemble f32 copy, aligned", Dtype::F32, Dtype::F32, 0),
    Work::plain("assemble f32 copy, unaligned", Dtype::F32, Dtype::F32, 5),
    Work {
        filter: Filter::Bytes,
        ..Work::plain("assemble byte-shuffled u16 to f32", Dtype::U16, Dtype::F32, 0)
    },
    Work {
        is_augmented: true,
        ..Work::plain("assemble u16 to f32, augmented", Dtype::U16, Dtype::F32, 0)
    },
];

impl Work {
    const fn plain(name: &'static str, source: Dtype, target: Dtype, begin: i64) -> Work {
        Work { name, source, target, begin, filter: Filter::None, is_augmented: false }
    }
}

/// Extents of the array and of its chunks, and of the boxes: two chunks along each axis, and three
/// where they begin inside one.
const EXTENTS: [u64; 3] = [96, 192, 192];
const CHUNK: [u64; 3] = [32, 64, 64];
const BOX: [i64; 3] = [64, 128, 128];
const SMALL_EXTENTS: [u64; 3] = [12, 48, 48];
const SMALL_CHUNK: [u64; 3] = [4, 16, 16];
const SMALL_BOX: [i64; 3] = [8, 32, 32];

/// Bytes of a filtered block.
const FILTERED_BYTES: usize = 32 << 10;

/// Scale, bias, noise, clamp, and an erased box.
fn words(extents: &[u64]) -> AugmentWords {
    let (clamp, noise) = (Some((-1e4, 1e4)), (2.5, 7));
    let head = AugmentHead { channels: 1, clamp, noise, ..AugmentHead::default() };
    let mut words = AugmentWords::default();
    assert!(words.begin(&head, extents.len(), [0.5].into_iter(), [-3.0].into_iter()));
    let end: Vec<u64> = extents.iter().map(|extent| extent / 2).collect();
    assert!(words.erase(&vec![1; extents.len()], &end, [7.0].into_iter()));
    words
}

/// A wave, what it reads and writes of elements, and what it must make of poison.
struct Told {
    wave: Wave,
    moved_bytes: u64,
    expected: Vec<u8>,
}

/// Bytes of equal significance together, block by block, as blosc has them.
fn shuffled(chunk: &[u8], typesize: usize) -> Vec<u8> {
    let shuffle = |block: &[u8]| -> Vec<u8> {
        let part = |byte: usize| block.iter().skip(byte).step_by(typesize).copied();
        (0..typesize).flat_map(part).collect()
    };
    chunk.chunks(FILTERED_BYTES).flat_map(shuffle).collect()
}

impl Work {
    fn told(&self, size: Size, is_small: bool) -> Told {
        let _floats = FloatEnvironment::enter();
        let (extents, chunk_shape, shape) = match is_small {
            true => (SMALL_EXTENTS, SMALL_CHUNK, SMALL_BOX),
            false => (EXTENTS, CHUNK, BOX),
        };
        let record = record(&extents, &chunk_shape, (self.source, self.source.bytes()), &[0, 1, 2]);
        let begins = vec![vec![self.begin; 3]];
        let case = Case::new(record, self.target, begins, shape.to_vec(), PadMode::None);
        let elements = shape.iter().product::<i64>() as u64;
        let sample_bytes = elements * u64::from(self.target.bytes());
        let samples = (size.bytes / sample_bytes).max(1);
        let end: Vec<i64> = shape.iter().map(|extent| self.begin + extent).collect();
        let box_shape = BoxShape::forward(&case.begins[0], &end);
        let strides = box_shape.strides(end.len(), case.cast.target_bytes());
        let places = shape.map(|extent| extent as u64);
        let words = if self.is_augmented { words(&places) } else { AugmentWords::default() };
        let source = (self.source, self.source.bytes());
        let change = words.view().map(|augment| {
            Change::new(augment, source, (&places, self.target), false).expect("floats")
        });
        let sample = || SampleBox {
            record: &case.record,
            cast: &case.cast,
            shape: &box_shape,
            first: 0,
            strides: &strides,
            pad: PadMode::None,
        };
        let mut random = Random(0x5EED);
        let mut wave = Wave::default();
        let mut expected = vec![POISON; (samples * sample_bytes) as usize];
        for (number, target) in expected.chunks_mut(sample_bytes as usize).enumerate() {
            let address = number as u64 * sample_bytes;
            let (sample, dtype) = (sample(), self.target);
            let unit_change = change.as_ref().and_then(|change| UnitChange::new(change, &sample));
            let device = DeviceSample { sample, dtype, address, change: unit_change };
            let mut scratch = Scratch::NEW;
            for origin in origins(&extents, &chunk_shape) {
                let change = change.as_ref().map(|change| (change, &mut scratch));
                let chunk = random.bytes(case.record.chunk_bytes as usize);
                let mut host = Target { sample, claim: Claim::on(target), change };
                scatter(&mut host, &origin, &ChunkBytes { bytes: &chunk, first: 0 });
                self.add(&mut wave, &device, &origin, &chunk);
            }
        }
        let moved_bytes = samples * elements * u64::from(self.source.bytes() + self.target.bytes());
        Told { wave, moved_bytes, expected }
    }

    /// A chunk with its bytes where they lie in slabs: at a multiple of 16.
    fn add(&self, wave: &mut Wave, device: &DeviceSample<'_>, origin: &[u64], chunk: &[u8]) {
        let typesize = self.source.bytes();
        let whole = ChunkData {
            data: 0,
            first: 0,
            bytes: chunk.len() as u64,
            filter: self.filter,
            block_bytes: FILTERED_BYTES as u32,
            typesize,
        };
        if chunk_piece(device, origin, &whole).is_none() {
            return;
        }
        let skip = wave.data.len().next_multiple_of(16) - wave.data.len();
        let data = match self.filter {
            Filter::None => wave.place(chunk, skip),
            _ => wave.place(&shuffled(chunk, typesize as usize), skip),
        };
        let piece = chunk_piece(device, origin, &ChunkData { data, ..whole });
        wave.add(&piece.expect("it was there"));
    }
}

fn origins(extents: &[u64; 3], chunk: &[u64; 3]) -> Vec<Vec<u64>> {
    let counts = [0, 1, 2].map(|axis| extents[axis] / chunk[axis]);
    let mut origins = Vec::new();
    for z in 0..counts[0] {
        for y in 0..counts[1] {
            for x in 0..counts[2] {
                origins.push(vec![z * chunk[0], y * chunk[1], x * chunk[2]]);
            }
        }
    }
    origins
}

/// Every rate, and its share of the driver's copy on the device.
pub fn all(gpu: &Gpu, is_small: bool) {
    let size = size(is_small);
    let stream = gpu.streams[0];
    let host = gpu.pinned(size.bytes);
    let (source, target) = (gpu.block(size.bytes), gpu.block(size.bytes));
    let bytes = size.bytes;
    let h2d = rate(gpu, stream, size, bytes, &mut || {
        // SAFETY: both blocks have so many bytes, and live until the measuring is over.
        unsafe { gpu.driver.memcpy_htod_async(source, host.as_ptr(), bytes, stream) }
            .expect("cuMemcpyHtoDAsync");
    });
    row("pinned memory to the device", h2d, "GB/s", "cuMemcpyHtoDAsync");
    let copy = rate(gpu, stream, size, 2 * bytes, &mut || {
        // SAFETY: two blocks of so many bytes.
        unsafe { gpu.driver.memcpy_dtod_async(target, source, bytes, stream) }
            .expect("cuMemcpyDtoDAsync");
    });
    row("device copy, read and written", copy, "GB/s", "cuMemcpyDtoDAsync, 100 %");
    let share = |rate: f64| format!("{:.0} % of the device copy", 100.0 * rate / copy);
    let span = gpu.block(256);
    let words = [source.0, target.0, bytes].map(u64::to_ne_bytes);
    gpu.upload(span, words.as_flattened());
    let kernel = rate(gpu, stream, size, 2 * bytes, &mut || {
        gpu.launch_copy(stream, span, copy_blocks(bytes));
    });
    row("device copy by wavetrain_copy", kernel, "GB/s", &share(kernel));
    [span, source, target].into_iter().for_each(|block| gpu.free(block));
    for work in &WORKS {
        let told = work.told(size, is_small);
        let found = assembled(gpu, &told.wave, told.expected.len());
        if found != told.expected {
            println!("{}: the bytes are not the host's", work.name);
            std::process::exit(1);
        }
        let target = gpu.block(told.expected.len() as u64);
        let wave = told.wave.bytes(target.0);
        let place = uploaded(gpu, &wave);
        let rate = rate(gpu, stream, size, told.moved_bytes, &mut || {
            gpu.launch_assemble(stream, place, &wave);
        });
        row(work.name, rate, "GB/s", &share(rate));
        gpu.free(place);
        gpu.free(target);
    }
}

/// Copies of slabs on one stream while the kernel works on another: how much of the shorter one is
/// hidden behind the other.
pub fn overlap(gpu: &Gpu, is_small: bool) {
    let size = size(is_small);
    let [input, post] = gpu.streams;
    let told = WORKS[0].told(size, is_small);
    let target = gpu.block(told.expected.len() as u64);
    let wave = told.wave.bytes(target.0);
    let place = uploaded(gpu, &wave);
    let host = gpu.pinned(size.bytes);
    let slab = gpu.block(size.bytes);
    let copy = || {
        // SAFETY: both blocks have so many bytes, and live until the measuring is over.
        unsafe { gpu.driver.memcpy_htod_async(slab, host.as_ptr(), size.bytes, input) }
            .expect("cuMemcpyHtoDAsync");
    };
    copy();
    gpu.launch_assemble(post, place, &wave);
    let copies = gpu.milliseconds(&[input], &mut || (0..size.launches).for_each(|_| copy()));
    // As many launches as take about as long.
    let one = gpu.milliseconds(&[post], &mut || gpu.launch_assemble(post, place, &wave));
    let count = (copies / one).clamp(1.0, 1000.0) as u32;
    let work = || (0..count).for_each(|_| gpu.launch_assemble(post, place, &wave));
    let kernels = gpu.milliseconds(&[post], &mut || work());
    let both = gpu.milliseconds(&[input, post], &mut || {
        (0..size.launches).for_each(|_| copy());
        work();
    });
    row("overlap: copies alone", copies, "ms", "");
    row("overlap: assemble alone", kernels, "ms", "");
    row("overlap: both at a time", both, "ms", "");
    let hidden = ((copies + kernels - both) / copies.min(kernels)).clamp(0.0, 1.0);
    row("overlap: hidden of the shorter", 100.0 * hidden, "%", "100: both engines work at a time");
}
