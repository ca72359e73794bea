//! Affine maps over arrays of any extents: hull and places of the model, place by place, at every
//! SIMD level; what is refused is refused by name, and no number makes anything panic.
//!
//! Input: choices of a map, types and layout. Elements are made of their coordinates.

use super::affine_model::{Case, Elements, check};
use super::choices::Choices;
use super::oracle;
use wavetrain::records::{DTYPES, Dtype, PadMode};
use wavetrain::resample::{Filter, Map, MapFault};

const PADS: [PadMode; 7] = {
    use PadMode::{Constant, Edge, None, Reflect};
    [Constant, Edge, Reflect, None, Constant, Edge, Reflect]
};

/// Entries beyond this are only looked at for what is refused.
const NEAR: f64 = 64.0;

/// Checks one input.
pub fn run(data: &[u8]) {
    is_resampled(data);
}

/// Checks one input; whether places were compared.
pub fn is_resampled(data: &[u8]) -> bool {
    let mut choices = Choices::of(data);
    let case = case(&mut choices);
    let elements = elements(&mut choices, &case);
    let rank = case.places.len();
    let entries = || {
        let rows = case.matrix[..rank].iter().zip(&case.extents);
        rows.flat_map(|(row, extent)| {
            let offset = row[3].abs().min((row[3] - *extent as f64).abs());
            row[..rank].iter().copied().chain([offset])
        })
    };
    let is_near = entries().all(|entry| entry.abs() < NEAR);
    let rows = &case.matrix[..rank];
    let has_nan =
        rows.iter().any(|row| row[..rank].iter().chain([&row[3]]).any(|entry| !entry.is_finite()));
    match if is_near { check(&case, &elements) } else { case.map().map(|map| sane(&map, &case)) } {
        Ok(()) => {
            assert!(!has_nan, "{case:?}");
            return is_near;
        }
        Err(MapFault::NotFinite(row, column)) => {
            assert!(!case.matrix[row][column].is_finite(), "{case:?}");
        }
        Err(MapFault::Singular) => assert!(is_singular(&case), "{case:?}"),
        Err(MapFault::Far(row)) => {
            assert!(!is_near && !case.matrix[row].contains(&f64::NAN), "{case:?}");
        }
        Err(MapFault::Outside(_)) => assert!(case.pad == PadMode::None, "{case:?}"),
        Err(MapFault::NoElement(row)) => assert!(case.extents[row] == 0, "{case:?}"),
        Err(fault @ (MapFault::Rank(_) | MapFault::Places(_))) => panic!("{fault}: {case:?}"),
    }
    false
}

/// What holds of any map.
fn sane(map: &Map, case: &Case) {
    for (axis, extent) in case.extents.iter().enumerate() {
        let hull = map.hull(axis);
        assert!(hull.start <= hull.end && hull.end <= *extent, "{hull:?} of {case:?}");
        assert!(hull.end - hull.start <= 1 << 31, "{hull:?} of {case:?}");
    }
}

/// By doubles: whether some product of cofactors nearly cancels.
fn is_singular(case: &Case) -> bool {
    let m = |row: usize, column: usize| case.matrix[row][column];
    let (determinant, size) = match case.places.len() {
        1 => (m(0, 0), 0.0),
        2 => {
            let products = [m(0, 0) * m(1, 1), -m(0, 1) * m(1, 0)];
            (products.iter().sum::<f64>(), products.iter().map(|it| it.abs()).sum())
        }
        _ => {
            let products = [[0, 1, 2], [1, 2, 0], [2, 0, 1]].map(|[a, b, c]| {
                let even = m(0, a) * m(1, b) * m(2, c);
                [even, -m(0, a) * m(1, c) * m(2, b)]
            });
            let all = products.as_flattened();
            (all.iter().sum::<f64>(), all.iter().map(|it| it.abs()).sum())
        }
    };
    let largest = case.matrix.as_flattened().iter().fold(1.0, |most: f64, it| most.max(it.abs()));
    // Entries are off by 2^-33, and products of them by that times the others.
    determinant.abs() <= 1e-9 * largest.powi(2) + size * 1e-15 || !determinant.is_finite()
}

fn case(choices: &mut Choices<'_>) -> Case {
    let rank = 1 + choices.below(3) as usize;
    let filter = choices.one_of(&[Filter::Linear, Filter::Nearest]);
    let pad = choices.one_of(&PADS);
    let kind = choices.below(9) % 5;
    let turn = choices.below(6) as usize;
    let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][turn];
    let mut matrix = [[0.0; 4]; 3];
    for row in 0..rank {
        for column in 0..3 {
            matrix[row][column] = match kind {
                // Turns and flips, the axes in some order.
                0 if order[row] == column => choices.one_of(&[1.0, -1.0, 2.0, 0.5]),
                0 => 0.0,
                1 => (choices.below(33) as f64 - 16.0) / 8.0,
                2 => (choices.word() as i16 as f64) / 16_384.0,
                3 => (choices.long() as i64 as f64) / 2f64.powi(62),
                _ => f64::from_bits(choices.long()),
            };
        }
    }
    let mut extents = Vec::new();
    for row in 0..rank {
        let extent = match choices.below(24) {
            0..3 => choices.long() >> choices.below(40),
            3 => 0,
            _ => 1 + choices.below(9),
        };
        // An offset far from the array would be folded for long.
        let end = if choices.rarely(3) && extent < 1 << 53 { extent as f64 } else { 0.0 };
        matrix[row][3] = end
            + match choices.below(4) {
                0 => choices.below(9) as f64 - 4.0,
                1 => (choices.below(65) as f64 - 32.0) / 8.0,
                2 => (choices.long() as i64 as f64) / 2f64.powi(60),
                _ => (choices.word() as i16 as f64) / 2048.0,
            };
        if kind == 4 && choices.rarely(2) {
            matrix[row][3] = f64::from_bits(choices.long());
        }
        extents.push(extent);
    }
    let longest = choices.one_of(&[1, 3, 6, 9]);
    let mut places: Vec<u64> = (0..rank).map(|_| 1 + choices.below(longest)).collect();
    if choices.rarely(4) {
        // More than a strip.
        places[rank - 1] = 60 + choices.below(80);
        (0..rank - 1).for_each(|axis| places[axis] = places[axis].min(2));
    }
    Case { matrix, places, extents, filter, pad }
}

fn elements(choices: &mut Choices<'_>, case: &Case) -> Elements {
    let rank = case.places.len() + choices.below(3) as usize;
    let mut free: Vec<usize> = (0..rank).collect();
    let mut taken = |choices: &mut Choices<'_>| {
        let at = choices.below(free.len() as u64) as usize;
        free.remove(at)
    };
    let all: Vec<usize> = (0..rank).map(|_| taken(choices)).collect();
    let mut order: Vec<usize> = (0..rank).collect();
    if choices.rarely(3) {
        order.rotate_left(choices.below(rank as u64) as usize);
    }
    let size = |dtype: Dtype, choices: &mut Choices<'_>| match dtype {
        Dtype::Raw => 1 + choices.below(16) as u32,
        dtype => dtype.bytes(),
    };
    let mut source = choices.one_of(&DTYPES);
    let mut target = choices.one_of(&[Dtype::F32, Dtype::F16, Dtype::Bf16, source]);
    if case.filter == Filter::Linear {
        if !oracle::has_cast(source, Dtype::F32) {
            source = Dtype::U16;
        }
        if !matches!(target, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            target = Dtype::F32;
        }
    } else if source != target && !oracle::has_cast(source, target) {
        target = source;
    }
    let source_bytes = size(source, choices);
    let target_bytes = if target == source { source_bytes } else { target.bytes() };
    let pad = (0..target_bytes).map(|_| choices.byte()).collect();
    Elements {
        source: (source, source_bytes),
        target: (target, target_bytes),
        axes: all[..case.places.len()].to_vec(),
        extents: (0..rank)
            .map(|_| if choices.rarely(16) { 0 } else { 1 + choices.below(3) })
            .collect(),
        order,
        gap: choices.one_of(&[0, 0, 0, 3]),
        pad,
        seed: u64::from(choices.word()),
        most: 1 + 40 * choices.below(4),
        has_specials: choices.rarely(3),
    }
}
