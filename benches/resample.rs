//! Places per second of affine maps, per instruction level of this machine: crops of 64^3 of a
//! volume of 160^3, the hull copied out of it first, on one thread.
//!
//! `cargo bench --bench resample [-- WORD]` prints a table of the rows whose name contains WORD:
//! M places per second of CPU time, the median of nine turns that the levels take.
//! `python benches/resample_peer.py` does the same crops by torch and scipy.

use std::hint::black_box;
use wavetrain::base::arena::Claim;
use wavetrain::records::{Dtype, PadMode};
use wavetrain::resample::{Filter, Layout, Map, Part, Resample, Target};
use wavetrain::simd::{FloatEnvironment, Level};

const VOLUME: usize = 160;
const EDGE: u64 = 64;
const TURNS: usize = 9;
const TURN_SECONDS: f64 = 0.03;

/// Seconds of CPU time of this thread.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the timespec, which is alive.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A turn about two axes, scaled, that takes the centre of the output to `centre`.
fn turned(centre: f64, scale: f64) -> [[f64; 4]; 3] {
    let ((s, c), (t, d)) = (0.3f64.sin_cos(), 0.2f64.sin_cos());
    let mut matrix = [[c, -s, 0.0, 0.0], [s * d, c * d, -t, 0.0], [s * t, c * t, d, 0.0]]
        .map(|row| row.map(|it| it * scale));
    for row in &mut matrix {
        let middle = (EDGE - 1) as f64 / 2.0;
        row[3] = centre - middle * (row[0] + row[1] + row[2]);
    }
    matrix
}

/// The identity, moved.
fn moved(offset: f64) -> [[f64; 4]; 3] {
    [[1.0, 0.0, 0.0, offset], [0.0, 1.0, 0.0, offset], [0.0, 0.0, 1.0, offset]]
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

fn row(name: &str, matrix: &[[f64; 4]; 3], filter: Filter, pad: PadMode, types: (Dtype, Dtype)) {
    let (places, extents) = ([EDGE; 3], [VOLUME as u64; 3]);
    let map = Map::new(3, matrix, &places, &extents, filter, pad).expect("a map");
    let (source, target) = (types.0.bytes() as usize, types.1.bytes() as usize);
    let strides = [EDGE * EDGE, EDGE, 1].map(|places| places * target as u64);
    let layout = Layout::new(&map, &[0, 1, 2], &extents, &strides).expect("a layout");
    let mut volume = painted(VOLUME.pow(3) * source);
    if types.0 == Dtype::F32 {
        // Plain numbers.
        let floats = volume.as_chunks_mut::<4>().0;
        floats.iter_mut().for_each(|word| *word = f32::from(word[0]).to_ne_bytes());
    }
    let mut block = vec![0; layout.elements() as usize * source];
    let mut found = vec![0; EDGE.pow(3) as usize * target];
    let pad_element = vec![0; target];
    let hulls = [0, 1, 2].map(|axis| map.hull(axis));
    let mut once = |level: Level| {
        let way = Resample::find_at(
            level,
            filter,
            (types.0, types.0.bytes()),
            (types.1, types.1.bytes()),
        );
        let mut rows = block.chunks_exact_mut((hulls[2].end - hulls[2].start) as usize * source);
        for z in hulls[0].clone() {
            for y in hulls[1].clone() {
                let at = ((z as usize * VOLUME + y as usize) * VOLUME + hulls[2].start as usize)
                    * source;
                let row = rows.next().expect("a row");
                row.copy_from_slice(&volume[at..][..row.len()]);
            }
        }
        let mut claim = Claim::on(&mut found);
        let mut target = Target { claim: &mut claim, first: 0, pad: &pad_element, write: None };
        let (block, whole) = (black_box(&block), Part::whole(&map, &layout));
        way.expect("a way").part(&map, &layout, block, &mut target, &whole);
        black_box(&mut found);
    };
    let mut rates = vec![Vec::new(); Level::each().count()];
    for _ in 0..TURNS {
        for (rates, level) in rates.iter_mut().zip(Level::each()) {
            let (start, mut runs) = (now(), 0);
            while now() - start < TURN_SECONDS {
                once(level);
                runs += 1;
            }
            rates.push(f64::from(runs) / (now() - start));
        }
    }
    print!("{name:32}");
    for rates in &mut rates {
        rates.sort_by(f64::total_cmp);
        print!(" {:10.1}", rates[TURNS / 2] * EDGE.pow(3) as f64 * 1e-6);
    }
    println!();
}

fn main() {
    use Dtype::{F16, F32, U8, U16};
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let _environment = FloatEnvironment::enter();
    print!("{:32}", "M places/s");
    Level::each().for_each(|level| print!(" {:>10}", level.name()));
    println!();
    let (linear, nearest) = (Filter::Linear, Filter::Nearest);
    let (edge, reflect, constant) = (PadMode::Edge, PadMode::Reflect, PadMode::Constant);
    let inside = turned(80.0, 1.1);
    let rows = [
        ("turned, linear, u16 to f32", inside, linear, edge, (U16, F32)),
        ("turned, linear, u8 to f32", inside, linear, edge, (U8, F32)),
        ("turned, linear, f32 to f32", inside, linear, edge, (F32, F32)),
        ("turned, linear, u16 to f16", inside, linear, edge, (U16, F16)),
        ("turned, nearest, u16", inside, nearest, edge, (U16, U16)),
        ("turned, nearest, u16 to f32", inside, nearest, edge, (U16, F32)),
        ("moved by half, linear, u16", moved(40.5), linear, edge, (U16, F32)),
        ("moved by 40, linear, u16", moved(40.0), linear, edge, (U16, F32)),
        ("at a corner, constant, u16", turned(10.0, 1.1), linear, constant, (U16, F32)),
        ("at a corner, edge, u16", turned(10.0, 1.1), linear, edge, (U16, F32)),
        ("at a corner, reflect, u16", turned(10.0, 1.1), linear, reflect, (U16, F32)),
    ];
    for (name, matrix, filter, pad, types) in rows {
        if name.contains(&word) {
            row(name, &matrix, filter, pad, types);
        }
    }
}
