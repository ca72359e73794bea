//! From places to voxels: the map in integers, and the hull of what it reads.
//!
//! In: a matrix of doubles, extents of the output and of the array, filter, pad mode. Out: a
//! [`Map`], or a [`MapFault`] that names what is wrong. Invariant: the coordinate of each place of
//! the output fits in an i64 with 32 bits of fraction, relative to the first voxel of the hull.
//!
//! Worked example: two axes, output 3 x 3, matrix [[0, 1, 0], [-1, 0, 2.25]], linear. Along axis 0
//! places read voxel k. Along axis 1 they read 2.25 - i: from 0.25 to 2.25, so voxels 0 to 3. The
//! hull is [0, 3) x [0, 4).

use crate::base::abi::{LINEAR, MAP_AXES, NEAREST};
use crate::records::PadMode;
use core::fmt;
use core::ops::Range;

/// Most axes of a map. Arrays of this many have those that a map lacks in front, of one place.
pub const AXES: usize = MAP_AXES;

/// Bits of a coordinate's fraction.
pub(super) const FRACTION_BITS: u32 = 32;

/// Bits of a weight.
pub(super) const WEIGHT_BITS: u32 = 24;

/// Most places along an axis, and most voxels of a hull: numbers of them fit in 31 bits.
const COUNT_MAX: u64 = 1 << 31;

/// Voxels beyond which no coordinate lies from the first of the hull, twice folded included. A wall
/// further off is as good as one here.
const WALL_MAX: i128 = 1 << 34;

/// What is read of the voxels about a coordinate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// The one at `floor(x + 1/2)`.
    Nearest,
    /// The two of each axis, by their distances.
    Linear,
}

impl Filter {
    /// The filter with this ABI number.
    pub fn from_code(code: u32) -> Option<Filter> {
        match code {
            NEAREST => Some(Filter::Nearest),
            LINEAR => Some(Filter::Linear),
            _ => None,
        }
    }

    /// What is added to a coordinate so that cutting bits off rounds it, half upwards.
    const fn half(self) -> i128 {
        match self {
            Filter::Nearest => 1 << (FRACTION_BITS - 1),
            Filter::Linear => 1 << (FRACTION_BITS - WEIGHT_BITS - 1),
        }
    }
}

/// Why there is no map. Axes are those of the map, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFault {
    /// It has no axes, or more than three.
    Rank(usize),
    /// An entry of the matrix is infinite or NaN.
    NotFinite(usize, usize),
    /// The matrix, as it is rounded, takes several places to one voxel.
    Singular,
    /// The output has no places along an axis, or more than 2^31.
    Places(usize),
    /// A coordinate along an axis, or an entry of the matrix, is 2^31 voxels or more from the hull.
    Far(usize),
    /// A place reads outside of the array along an axis, and the pad mode has nothing there.
    Outside(usize),
    /// The array has no voxels along an axis, to repeat or to mirror.
    NoElement(usize),
}

impl fmt::Display for MapFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapFault::Rank(rank) => write!(out, "rank = {rank}: must be 1 to 3"),
            MapFault::NotFinite(row, column) => {
                write!(out, "matrix[{row}][{column}] is infinite or NaN: must be a number")
            }
            MapFault::Singular => {
                out.write_str("matrix is singular in steps of 2^-32 voxels: must have an inverse")
            }
            MapFault::Places(axis) => {
                write!(out, "the output along axis {axis} of the map must have 1 to 2^31 places")
            }
            MapFault::Far(axis) => write!(
                out,
                "matrix[{axis}] leads 2^31 voxels or more away from the voxels that are read: \
                 check its scale and offset"
            ),
            MapFault::Outside(axis) => write!(
                out,
                "matrix[{axis}] leads outside of the array: set pad_mode, or keep the output inside"
            ),
            MapFault::NoElement(axis) => {
                write!(out, "the array has extent 0 along axis {axis} of the map")
            }
        }
    }
}

/// An affine map from the places of an output to the voxels of an array, of integers alone: all
/// that hosts and devices compute with. Its arrays have [`AXES`] axes, see [`Map::axis`]; the axes
/// that a map lacks have one place, one voxel and steps of 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Map {
    rank: usize,
    /// What is read of the voxels about a coordinate.
    pub filter: Filter,
    /// What is read outside of the array.
    pub pad: PadMode,
    /// Places along each axis of the output.
    pub places: [u64; AXES],
    /// By axis of the array, then of the output: what a place adds to a coordinate.
    pub steps: [[i64; AXES]; AXES],
    /// Coordinate of place 0, from the first voxel of the hull on. A half of what the filter rounds
    /// to is added, so that cutting bits off rounds each coordinate.
    pub first: [i64; AXES],
    /// The first voxel that is read.
    origin: [u64; AXES],
    /// Voxels of the hull, at most 2^31.
    pub hull: [i64; AXES],
    /// The first and the last voxel of the array, from the first of the hull on; at most 2^34 away,
    /// beyond which no coordinate meets them.
    pub walls: [[i64; 2]; AXES],
}

impl Map {
    /// The map of one axis from place 0 to voxel 0.
    pub const NONE: Map = Map {
        rank: 1,
        filter: Filter::Nearest,
        pad: PadMode::None,
        places: [1; AXES],
        steps: [[0; AXES]; AXES],
        first: [0; AXES],
        origin: [0; AXES],
        hull: [1; AXES],
        walls: [[0; 2]; AXES],
    };

    /// The map of `rank` axes. Entries beyond `matrix[rank - 1]` and columns from `rank` to 2 are
    /// not looked at; column 3 is the offset. `places` and `extents` are those of the output and of
    /// the array, by axis of the map. Takes the same time whatever the extents.
    pub fn new(
        rank: usize,
        matrix: &[[f64; 4]; AXES],
        places: &[u64],
        extents: &[u64],
        filter: Filter,
        pad: PadMode,
    ) -> Result<Map, MapFault> {
        let (mut map, offsets) = Map::begin(rank, matrix, places, filter, pad)?;
        assert!(extents.len() >= rank);
        for row in 0..rank {
            map.bound(row, offsets[row], extents[row])?;
        }
        Ok(map)
    }

    /// Reports a fault that the map has for any array.
    pub fn check(
        rank: usize,
        matrix: &[[f64; 4]; AXES],
        places: &[u64],
        filter: Filter,
    ) -> Result<(), MapFault> {
        Map::begin(rank, matrix, places, filter, PadMode::Edge).map(|_| ())
    }

    /// The same of a matrix of numbers of any magnitude, which others are made of.
    pub fn check_numbers(
        rank: usize,
        matrix: &[[f64; 4]; AXES],
        places: &[u64],
        filter: Filter,
    ) -> Result<(), MapFault> {
        let mut whole = [[0.0; 4]; AXES];
        for row in 0..rank.min(AXES) {
            let is_number = |column: &usize| matrix[row][*column].is_finite();
            if let Some(column) = (0..rank.min(AXES)).chain([3]).find(|column| !is_number(column)) {
                return Err(MapFault::NotFinite(row, column));
            }
            whole[row][row] = 1.0;
        }
        Map::check(rank, &whole, places, filter)
    }

    /// The map before it is bound to an array, and its offsets by axis of the map.
    fn begin(
        rank: usize,
        matrix: &[[f64; 4]; AXES],
        places: &[u64],
        filter: Filter,
        pad: PadMode,
    ) -> Result<(Map, [i128; AXES]), MapFault> {
        if rank == 0 || rank > AXES {
            return Err(MapFault::Rank(rank));
        }
        assert!(places.len() >= rank);
        let mut map = Map {
            rank,
            filter,
            pad,
            places: [1; AXES],
            steps: [[0; AXES]; AXES],
            first: [filter.half() as i64; AXES],
            origin: [0; AXES],
            hull: [1; AXES],
            walls: [[0; 2]; AXES],
        };
        let offsets = map.take(matrix, places)?;
        if map.is_singular() { Err(MapFault::Singular) } else { Ok((map, offsets)) }
    }

    /// The place in arrays of [`AXES`] of an axis of the map.
    pub fn axis(&self, axis: usize) -> usize {
        assert!(axis < self.rank);
        AXES - self.rank + axis
    }

    /// Number of axes, 1 to 3.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The voxels along an axis of the map that have to be there: each voxel that a place reads
    /// with a weight above 0 lies in the box of the hull. It is the smallest such box if no
    /// coordinate lies outside of the array, and for edge always. Otherwise the box between the
    /// corners of the output is cut to the array, or folded into it. Some of that may be read by no
    /// place: if a long step leads over it, or if places outside along one axis are inside along
    /// another.
    pub fn hull(&self, axis: usize) -> Range<u64> {
        let axis = self.axis(axis);
        self.origin[axis]..self.origin[axis] + self.hull[axis] as u64
    }

    /// Whether no voxel is read: all places are padding.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.hull.contains(&0)
    }

    /// Rounds the matrix; returns the offsets by axis of the map.
    fn take(
        &mut self,
        matrix: &[[f64; 4]; AXES],
        places: &[u64],
    ) -> Result<[i128; AXES], MapFault> {
        let mut offsets = [0; AXES];
        for row in 0..self.rank {
            let axis = self.axis(row);
            if places[row] == 0 || places[row] > COUNT_MAX {
                return Err(MapFault::Places(row));
            }
            self.places[axis] = places[row];
            let rounded = |column: usize| match matrix[row][column] {
                entry if !entry.is_finite() => Err(MapFault::NotFinite(row, column)),
                entry => fixed_from_f64(entry).ok_or(MapFault::Far(row)),
            };
            for column in 0..self.rank {
                let step = i64::try_from(rounded(column)?).map_err(|_| MapFault::Far(row))?;
                self.steps[axis][self.axis(column)] = step;
            }
            offsets[row] = rounded(3)?;
        }
        Ok(offsets)
    }

    /// Whether the determinant of the steps is 0, by its value modulo 2^192: entries below
    /// 2^63 keep it below 6 * 2^189.
    fn is_singular(&self) -> bool {
        let mut m = self.steps.map(|row| row.map(i128::from));
        (0..AXES - self.rank).for_each(|axis| m[axis][axis] = 1);
        let (mut high, mut low) = (0i128, 0i128);
        for column in 0..AXES {
            let (next, last) = ((column + 1) % AXES, (column + 2) % AXES);
            // At most 2^127 - 2^73: the largest entry is -2^63 or 2^63 - 2^10, a double below 2^31.
            let cofactor = m[1][next] * m[2][last] - m[1][last] * m[2][next];
            let below = m[0][column] * i128::from(cofactor as u64);
            low += i128::from(below as u64);
            high = high.wrapping_add(m[0][column] * (cofactor >> 64));
            high = high.wrapping_add(below >> 64);
        }
        high.wrapping_add(low >> 64) == 0 && low as u64 == 0
    }

    /// Finds what one axis reads, and makes its coordinates relative to that. A coordinate is a sum
    /// of terms of which each depends on one index of the place, linearly. So the least one has
    /// each index at that end where its term is least, which is a corner of the output, a place
    /// itself; and so has the largest one.
    fn bound(&mut self, row: usize, offset: i128, extent: u64) -> Result<(), MapFault> {
        let axis = self.axis(row);
        let first = offset + self.filter.half();
        let (mut low, mut high) = (first, first);
        for (step, places) in self.steps[axis].iter().zip(self.places) {
            let end = i128::from(*step) * i128::from(places - 1);
            (low, high) = (low + end.min(0), high + end.max(0));
        }
        let read = self.read(low, high, i128::from(extent)).map_err(|fault| fault(row))?;
        let origin = read.start << FRACTION_BITS;
        let fits = |at: i128| i64::try_from(at - origin).is_ok();
        if !fits(low) || !fits(high) || read.end - read.start > i128::from(COUNT_MAX) {
            return Err(MapFault::Far(row));
        }
        // Place 0 lies between the two.
        self.first[axis] = (first - origin) as i64;
        self.origin[axis] = read.start as u64;
        self.hull[axis] = (read.end - read.start) as i64;
        let wall = |voxel: i128| (voxel - read.start).clamp(-WALL_MAX, WALL_MAX) as i64;
        self.walls[axis] = [wall(0), wall(i128::from(extent) - 1)];
        Ok(())
    }

    /// The voxels that coordinates from `low` to `high` read on an axis; a half was added to both,
    /// so that cutting bits off rounds them. Rounding, taking the taps and clamping keep the order
    /// of coordinates: the first tap of `low` and the last of `high` are the ends, and both are
    /// read.
    fn read(
        &self,
        low: i128,
        high: i128,
        extent: i128,
    ) -> Result<Range<i128>, fn(usize) -> MapFault> {
        // In steps of weights: those of nearest are whole voxels.
        let on_grid = |at: i128| match self.filter {
            Filter::Nearest => at >> FRACTION_BITS << WEIGHT_BITS,
            Filter::Linear => at >> (FRACTION_BITS - WEIGHT_BITS),
        };
        let (low, high, last) = (on_grid(low), on_grid(high), (extent - 1) << WEIGHT_BITS);
        let (low, high) = match self.pad {
            _ if low >= 0 && high <= last => (low, high),
            PadMode::None => return Err(MapFault::Outside),
            PadMode::Constant => (low, high),
            PadMode::Edge | PadMode::Reflect if extent == 0 => return Err(MapFault::NoElement),
            PadMode::Edge => (low.clamp(0, last), high.clamp(0, last)),
            PadMode::Reflect => folded_hull(low, high, last),
        };
        // The tap above a whole number has weight 0.
        let limit = ((high - 1) >> WEIGHT_BITS) + 2;
        let first = (low >> WEIGHT_BITS).clamp(0, extent);
        Ok(first..limit.clamp(first, extent))
    }
}

/// The hull of a range that goes up and down between walls at 0 and at `last`: that of both ends,
/// and of the walls that it meets.
fn folded_hull(low: i128, high: i128, last: i128) -> (i128, i128) {
    let period = 2 * last;
    if period == 0 {
        return (0, 0);
    }
    let folded = |at: i128| at.rem_euclid(period).min(period - at.rem_euclid(period));
    let (from, to) = (folded(low), folded(high));
    let meets = |wall: i128| (low - wall - 1).div_euclid(period) < (high - wall).div_euclid(period);
    (if meets(0) { 0 } else { from.min(to) }, if meets(last) { last } else { from.max(to) })
}

/// A finite number in multiples of 2^-32, rounded to nearest even; None from 2^63 on. In integers,
/// because a host may have set another rounding.
fn fixed_from_f64(value: f64) -> Option<i128> {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    // The number is mantissa * 2^(exponent - 1075).
    let shift = exponent.max(1) - 1075 + FRACTION_BITS as i32;
    let magnitude = match shift {
        43.. => return None,
        0.. => i128::from(mantissa) << shift,
        // Less than half of a unit.
        ..-53 => 0,
        _ => {
            let half = 1u64 << (-shift - 1);
            let (whole, rest) = (mantissa >> -shift, mantissa & (2 * half - 1));
            i128::from(whole + u64::from(rest > half || rest == half && whole & 1 == 1))
        }
    };
    Some(if value.is_sign_negative() { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::fixed_from_f64;

    #[test]
    fn entries_round_to_nearest_even_in_any_environment() {
        let unit = 1.0 / 4_294_967_296.0;
        let known = [
            (0.0, 0),
            (1.0, 1 << 32),
            (-2.5, -(5 << 31)),
            (0.5 * unit, 0),
            (1.5 * unit, 2),
            (2.5 * unit, 2),
            (-1.5 * unit, -2),
            (0.5000000000000001 * unit, 1),
            (0.49999999999999994 * unit, 0),
            (1e-300, 0),
            (f64::from_bits(1), 0),
            (2251799813685249.5, 4503599627370499i128 << 31),
            (9223372036854774784.0, 9223372036854774784i128 << 32),
        ];
        for (value, expected) in known {
            assert_eq!(fixed_from_f64(value), Some(expected), "{value:e}");
        }
        assert_eq!(fixed_from_f64(9223372036854775808.0), None);
        assert_eq!(fixed_from_f64(-1e300), None);
    }
}
