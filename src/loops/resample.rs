//! The loops of resampling over a strip of places: where its taps lie, what they weigh, elements
//! side by side, and what lies between them.
//!
//! In: coordinates with 32 bits of fraction, elements. Out: offsets, weights, elements. Invariant:
//! a lerp is three operations of f32, each rounded once; `simd` compiles the same loops for
//! CPUs with more instructions.
//!
//! Floats are arrays of four bytes here, because they lie in buffers of bytes.

/// Places that are taken together: their taps stay in L1, and what a strip costs besides is shared
/// by enough of them.
pub const STRIP: usize = 64;

/// Taps of a place at most: two along each of three axes.
pub const TAPS_MAX: usize = 8;

/// Floats of a strip: of each tap, of one place after the other.
pub type Floats = [[[u8; 4]; STRIP]; TAPS_MAX];

/// Weights of a strip: of each axis, the innermost first.
pub type Weights = [[f32; STRIP]; 3];

/// The taps of a strip of places.
pub struct Taps {
    /// Number of axes with two taps; a place has two for each combination of theirs. The number of
    /// a tap has a bit for each, the lowest of the innermost axis.
    pub axes: usize,
    /// Number of places.
    pub count: usize,
    /// Offsets of the first taps, in elements. Past the last place: anything.
    pub offsets: [u32; STRIP],
    /// What each tap adds to them.
    pub deltas: [u32; TAPS_MAX],
    /// The weights of upper taps.
    pub weights: Weights,
}

impl Taps {
    /// Taps of no place.
    pub const NONE: Taps = Taps {
        axes: 0,
        count: 0,
        offsets: [0; STRIP],
        deltas: [0; TAPS_MAX],
        weights: [[0.0; STRIP]; 3],
    };

    /// How many a place has.
    pub fn number(&self) -> usize {
        1 << self.axes
    }
}

/// Lanes that are lerped at once, of each of up to eight taps: they stay in registers.
pub const LANES: usize = 8;

/// Offsets of places whose coordinates are all inside: of place `n` those are
/// `first + n * step`, and their voxels `stride` elements apart.
#[inline(always)]
pub fn offsets(first: &[i64; 3], step: &[i64; 3], stride: &[u32; 3], offsets: &mut [u32]) {
    let mut at = *first;
    for offset in offsets {
        *offset = 0;
        for axis in 0..3 {
            let voxel = (at[axis] as u64 >> 32) as u32;
            *offset = offset.wrapping_add(voxel.wrapping_mul(stride[axis]));
            at[axis] = at[axis].wrapping_add(step[axis]);
        }
    }
}

/// Weights of coordinates `first + n * step`: the upper 24 bits of their fractions.
#[inline(always)]
pub fn weights(first: i64, step: i64, weights: &mut [f32]) {
    // Only fractions matter, and they are sums of fractions.
    let mut fraction = first as u32;
    for weight in weights {
        *weight = weight_of(fraction >> 8);
        fraction = fraction.wrapping_add(step as u32);
    }
}

/// A weight of so many 2^-24: exact.
#[inline(always)]
pub fn weight_of(units: u32) -> f32 {
    units as i32 as f32 * (1.0 / 16_777_216.0)
}

/// Lerps the first `1 << axes` taps of `count` places, in place, to the first. `is_exact`: a weight
/// of 0 leaves a tap as it is, whatever is beside it, and NaNs become one; where all taps are
/// finite and none is -0 the result is the same without.
#[inline(always)]
pub fn lerp(axes: usize, is_exact: bool, floats: &mut Floats, weights: &Weights, count: usize) {
    match (axes, is_exact) {
        (1, false) => lerp_of::<1, 2, false>(floats, weights, count),
        (2, false) => lerp_of::<2, 4, false>(floats, weights, count),
        (3, false) => lerp_of::<3, 8, false>(floats, weights, count),
        (1, true) => lerp_of::<1, 2, true>(floats, weights, count),
        (2, true) => lerp_of::<2, 4, true>(floats, weights, count),
        (3, true) => lerp_of::<3, 8, true>(floats, weights, count),
        _ => {}
    }
}

#[inline(always)]
fn lerp_of<const AXES: usize, const TAPS: usize, const IS_EXACT: bool>(
    floats: &mut Floats,
    weights: &Weights,
    count: usize,
) {
    // Lanes past the last place hold what they held, and nobody looks at them.
    for block in 0..count.div_ceil(LANES) {
        let lanes = block * LANES..(block + 1) * LANES;
        let mut taps = [[0f32; LANES]; TAPS];
        for tap in 0..TAPS {
            let row = &floats[tap][lanes.clone()];
            (0..LANES).for_each(|lane| taps[tap][lane] = f32::from_ne_bytes(row[lane]));
        }
        lerp_lanes::<AXES, TAPS, IS_EXACT>(&mut taps, weights, lanes.start);
        let row = &mut floats[0][lanes];
        (0..LANES).for_each(|lane| row[lane] = taps[0][lane].to_ne_bytes());
    }
}

/// Lerps the taps of places from `first` on, to the first.
#[inline(always)]
pub fn lerp_lanes<const AXES: usize, const TAPS: usize, const IS_EXACT: bool>(
    taps: &mut [[f32; LANES]; TAPS],
    weights: &Weights,
    first: usize,
) {
    for axis in 0..AXES {
        let weights = &weights[axis][first..first + LANES];
        for pair in 0..TAPS >> (axis + 1) {
            let (low, high) = (taps[2 * pair], taps[2 * pair + 1]);
            let result = &mut taps[pair];
            (0..LANES).for_each(|lane| {
                result[lane] = between::<IS_EXACT>(low[lane], high[lane], weights[lane]);
            });
        }
    }
}

#[inline(always)]
fn between<const IS_EXACT: bool>(low: f32, high: f32, weight: f32) -> f32 {
    let value = low + (high - low) * weight;
    if !IS_EXACT {
        return value;
    }
    let value = if value.is_nan() { f32::from_bits(0x7FC0_0000) } else { value };
    if weight == 0.0 { low } else { value }
}

/// Gathers elements: source, offsets and one more that is added to each, target.
pub type GatherAt = fn(&[u8], &[u32], u32, &mut [u8]);

/// The gather of elements of `bytes` bytes; None for more than 16.
pub fn gather_at(bytes: u32) -> Option<GatherAt> {
    Some(match bytes {
        1 => gather::<1>,
        2 => gather::<2>,
        3 => gather::<3>,
        4 => gather::<4>,
        5 => gather::<5>,
        6 => gather::<6>,
        7 => gather::<7>,
        8 => gather::<8>,
        9 => gather::<9>,
        10 => gather::<10>,
        11 => gather::<11>,
        12 => gather::<12>,
        13 => gather::<13>,
        14 => gather::<14>,
        15 => gather::<15>,
        16 => gather::<16>,
        _ => return None,
    })
}

fn gather<const BYTES: usize>(source: &[u8], offsets: &[u32], delta: u32, target: &mut [u8]) {
    let elements = source.as_chunks::<BYTES>().0;
    for (element, offset) in target.as_chunks_mut::<BYTES>().0.iter_mut().zip(offsets) {
        *element = elements[(offset + delta) as usize];
    }
}
