//! GB/s of the loops that every voxel passes, per instruction level of this machine.
//!
//! `cargo bench --bench kernels [-- WORD]` prints a table of all kernels whose name contains WORD:
//! bytes of the target per second for unshuffling, of the larger side for casts; `memcpy` is the
//! same bytes copied, as reference. Source and target lie in L2 together. Levels and memcpy take
//! turns, each figure is the median of its turns, and time is the thread's own, so that what else
//! runs here hits all alike.

use std::hint::black_box;
use wavetrain::assemble::cast::{Cast, Plane};
use wavetrain::base::arena::{Claim, RowsMut};
use wavetrain::decode::unshuffle::{Shuffle, unshuffle_at};
use wavetrain::records::{ByteOrder, Dtype};
use wavetrain::simd::{FloatEnvironment, Level};

/// Bytes of the larger buffer.
const BYTES: usize = 256 << 10;
const TURNS: usize = 9;
const TURN_SECONDS: f64 = 0.0008;

/// Seconds of CPU time of this thread.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the timespec, which is alive.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs per second of `work`, over about one turn.
fn rate(work: &mut dyn FnMut()) -> f64 {
    let start = now();
    let mut runs = 0;
    while now() - start < TURN_SECONDS {
        (0..8).for_each(|_| work());
        runs += 8;
    }
    f64::from(runs) / (now() - start)
}

/// One line: the median rates, times `bytes`.
fn line(name: &str, bytes: usize, works: &mut [Box<dyn FnMut() + '_>]) {
    let mut rates = vec![Vec::new(); works.len()];
    for _ in 0..TURNS {
        for (rates, work) in rates.iter_mut().zip(works.iter_mut()) {
            rates.push(rate(work));
        }
    }
    print!("{name:24}");
    for rates in &mut rates {
        rates.sort_by(f64::total_cmp);
        print!(" {:10.1}", rates[TURNS / 2] * bytes as f64 / 1e9);
    }
    println!();
}

fn painted(bytes: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9ABC_DEF1u64;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(word).flatten().take(bytes).collect()
}

fn copying<'a>(source: &'a [u8], target: &'a mut [u8]) -> Box<dyn FnMut() + 'a> {
    Box::new(|| black_box(&mut *target).copy_from_slice(black_box(source)))
}

fn bench_unshuffle(wanted: &dyn Fn(&str) -> bool) {
    let source = painted(BYTES);
    for (shuffle, word) in [(Shuffle::Bytes, "bytes"), (Shuffle::Bits, "bits")] {
        for typesize in [1, 2, 3, 4, 8, 16, 24] {
            let name = format!("unshuffle {word} {typesize}");
            let bytes = BYTES / (8 * typesize) * (8 * typesize);
            if !wanted(&name) || shuffle == Shuffle::Bytes && typesize == 1 {
                continue;
            }
            let source = &source[..bytes];
            let mut targets = vec![vec![0u8; bytes]; Level::each().count() + 1];
            let (copied, targets) = targets.split_first_mut().unwrap();
            let mut works = vec![copying(source, copied)];
            for (level, target) in Level::each().zip(targets) {
                works.push(Box::new(move || {
                    unshuffle_at(level, shuffle, typesize, black_box(source), 0, target);
                    black_box(&mut *target);
                }));
            }
            line(&name, bytes, &mut works);
        }
    }
}

/// Rows of `length` elements, 64 elements apart on both sides if they are shorter.
fn bench_cast(source: Dtype, target: Dtype, order: ByteOrder, length: usize, name: &str) {
    let (from, to) = (source.bytes() as usize, target.bytes() as usize);
    let pitch = length.max(64);
    let rows = BYTES / from.max(to) / pitch;
    let input = painted(rows * pitch * from);
    let mut targets = vec![vec![0u8; rows * pitch * to]; Level::each().count() + 1];
    let (copied, targets) = targets.split_first_mut().unwrap();
    copied.resize(input.len(), 0);
    let mut works = vec![copying(&input, copied)];
    for (level, bytes) in Level::each().zip(targets) {
        let mut claim = Claim::on(bytes);
        let cast = Cast::find_at(level, source, from as u32, target, to as u32).unwrap();
        let plane = Plane {
            bytes: &input,
            first: 0,
            step: from as i64,
            pitch: (pitch * from) as i64,
            order,
        };
        let row_bytes = (length * to) as u64;
        works.push(Box::new(move || {
            let mut grid: RowsMut<'_> =
                claim.row_grid(0, row_bytes, rows as u64, (pitch * to) as u64);
            cast.plane(black_box(&plane), &mut grid);
        }));
    }
    line(name, rows * length * from.max(to), &mut works);
}

const SOURCES: [Dtype; 12] = [
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F32,
    Dtype::F64,
];

const TARGETS: [Dtype; 5] = [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::I32, Dtype::I64];

fn bench_casts(wanted: &dyn Fn(&str) -> bool) {
    for source in SOURCES {
        for target in TARGETS {
            let (from, to) = (source.bytes(), target.bytes());
            let name = format!("{} to {}", source.name(), target.name());
            if !wanted(&name) || Cast::find(source, from, target, to).is_none() {
                continue;
            }
            let whole = BYTES / from.max(to) as usize;
            bench_cast(source, target, ByteOrder::Little, whole, &name);
        }
    }
    let (little, big) = (ByteOrder::Little, ByteOrder::Big);
    let special = [
        (Dtype::U16, Dtype::F32, big, 65_536, "u16be to f32"),
        (Dtype::F32, Dtype::Bf16, big, 65_536, "f32be to bf16"),
        (Dtype::F64, Dtype::F32, big, 32_768, "f64be to f32"),
        (Dtype::U16, Dtype::U16, big, 131_072, "u16be to u16"),
        (Dtype::F32, Dtype::F32, big, 65_536, "f32be to f32"),
    ];
    for (source, target, order, length, name) in special {
        if wanted(name) {
            bench_cast(source, target, order, length, name);
        }
    }
    for (source, target) in
        [(Dtype::U16, Dtype::F32), (Dtype::U8, Dtype::Bf16), (Dtype::F32, Dtype::F32)]
    {
        for length in [1, 2, 3, 5, 8, 17, 32, 63] {
            let name = format!("{} to {} row {length}", source.name(), target.name());
            if wanted(&name) {
                bench_cast(source, target, little, length, &name);
            }
        }
    }
}

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let _guard = FloatEnvironment::enter();
    print!("{:24} {:>10}", "GB/s", "memcpy");
    Level::each().for_each(|level| print!(" {:>10}", level.name()));
    println!();
    bench_unshuffle(&wanted);
    bench_casts(&wanted);
}
