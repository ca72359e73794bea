//! The random affine map: rotations, a zoom, shears and shifts, as a matrix from places to voxels.
//!
//! In: a [`Motion`], a box. Out: `matrix` of an [`Affine`](crate::base::abi::Affine), its numbers
//! multiples of 2^-32. Integers alone, but for the limits of the draws, which f64 multiplies once.

use super::draws::Drawn;
use super::fixed::{ONE, cosine, sine};
use super::{Misfit, Recipes, SPATIAL_MAX};
use crate::base::abi::LINEAR;

/// The limits that a random affine map draws between.
///
/// A zoom of 2 shows things twice as large. Two axes are turned by `degrees[0]`; of three,
/// `degrees[i]` turns about axis i of space, axis 2 first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Motion {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Angles are between minus these and these; 0 to 180.
    pub degrees: [f32; SPATIAL_MAX],
    /// The zoom is between these: 1/256 to 256.
    pub zoom: [f32; 2],
    /// Shears, voxels along an axis by voxel along a later one, are between minus this and this: 0
    /// to 16.
    pub shear: f32,
    /// Shifts, in extents of the box, are between minus this and this: 0 to 1.
    pub shift: f32,
    /// `NEAREST` or `LINEAR`.
    pub filter: u32,
}

impl Motion {
    /// No motion.
    pub const NONE: Motion = Motion {
        struct_size: size_of::<Motion>(),
        degrees: [0.0; SPATIAL_MAX],
        zoom: [1.0; 2],
        shear: 0.0,
        shift: 0.0,
        filter: 0,
    };

    fn check(&self) -> Result<(), Misfit> {
        let [low, high] = self.zoom;
        let fits = self.degrees.iter().all(|degrees| (0.0..=180.0).contains(degrees))
            && low >= 1.0 / 256.0
            && low <= high
            && high <= 256.0
            && (0.0..=16.0).contains(&self.shear)
            && (0.0..=1.0).contains(&self.shift)
            && self.filter <= LINEAR;
        if fits { Ok(()) } else { Err(Misfit::Number) }
    }
}

/// A matrix of numbers in Q32.
type Matrix = [[i64; SPATIAL_MAX]; SPATIAL_MAX];

const UNIT: Matrix = [[ONE, 0, 0], [0, ONE, 0], [0, 0, ONE]];

/// Elements that a box lies from the array's first one at most, and extents of a field.
const PLACE_MAX: i64 = 1 << 30;

impl Recipes<'_> {
    /// A random affine map of the axes of space, two or three of them:
    ///
    /// ```text
    /// voxel = centre of the box + shift + R * H * (place - centre of the field) / zoom
    /// ```
    ///
    /// R turns, H is 1 on its diagonal and has the shears above it. A box that was flipped stays
    /// so. The box then has begin 0 and the field's extents along these axes. Lanes 0 .. 2: angles.
    /// 3: zoom. 4 .. 6: shears. 7 .. 9: shifts.
    pub fn affine(&mut self, name: &str, motion: &Motion) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        motion.check()?;
        if self.has_arithmetic() || self.is_mapped() || self.room.crops > 0 {
            return Err(Misfit::Order);
        }
        let rank = self.field.n_spatial as usize;
        if !(2..=SPATIAL_MAX).contains(&rank) || self.affine.is_none() {
            return Err(Misfit::Field);
        }
        let turned = product(&turns(&drawn, motion, rank), &shears(&drawn, motion, rank));
        let [low, high] = motion.zoom.map(|zoom| fixed(zoom, 1));
        let part = i128::from(drawn.part(3));
        let zoom = low + ((i128::from(high - low) * part) >> 32) as i64;
        let inverse = ((1i128 << 64) / i128::from(zoom.max(1))) as i64;
        let mut matrix = [[0.0; 4]; SPATIAL_MAX];
        for (i, (of_field, of_box)) in self.pairs_checked()?.enumerate() {
            let (begin, end) = (self.target.begin[of_box], self.target.end[of_box]);
            let in_reach = |place: i64| place.unsigned_abs() <= PLACE_MAX as u64;
            let is_small = self.field.shape[of_field] <= PLACE_MAX as u64;
            let step = self.step(of_box);
            if step.unsigned_abs() != 1 || !in_reach(begin) || !in_reach(end) || !is_small {
                return Err(Misfit::Field);
            }
            let shift = drawn.between(fixed(motion.shift, end - begin), 7 + i as u32);
            let mut sum = 0i128;
            for (j, (of_column, _)) in self.pairs_checked()?.enumerate() {
                let number = step * round(i128::from(turned[i][j]) * i128::from(inverse));
                matrix[i][j] = as_float(number);
                let centre = (self.field.shape[of_column] as i64 - 1) << 31;
                sum += i128::from(number) * i128::from(centre);
            }
            let centre = i128::from(begin + end - 1) << 31;
            let last = centre + i128::from(shift) - ((sum + (1 << 31)) >> 32);
            matrix[i][3] = as_float(i64::try_from(last).map_err(|_| Misfit::Field)?);
        }
        self.map(rank, matrix, motion.filter)
    }

    fn pairs_checked(&self) -> Result<impl Iterator<Item = (usize, usize)> + use<>, Misfit> {
        self.field.pairs().ok_or(Misfit::Field)
    }

    /// Lets the box be what the matrix is for.
    fn map(&mut self, rank: usize, matrix: [[f64; 4]; 3], filter: u32) -> Result<(), Misfit> {
        let pairs = self.pairs_checked()?;
        let affine = self.affine.as_deref_mut().ok_or(Misfit::Field)?;
        affine.rank = rank as u32;
        affine.axes = [0; SPATIAL_MAX];
        affine.matrix = matrix;
        affine.filter = filter;
        for (axis, (of_field, of_box)) in affine.axes.iter_mut().zip(pairs) {
            *axis = of_box as u32;
            self.target.begin[of_box] = 0;
            self.target.end[of_box] = self.field.shape[of_field] as i64;
            self.target.step[of_box] = 1;
        }
        self.target.affine = &raw const *affine;
        Ok(())
    }
}

/// The rotations, of which the last one is applied first.
fn turns(drawn: &Drawn, motion: &Motion, rank: usize) -> Matrix {
    let mut all = UNIT;
    for (lane, degrees) in (0..).zip(motion.degrees).take(if rank == 2 { 1 } else { 3 }) {
        // Two axes turn about the third, which they lack.
        let (i, j) = match (rank, lane) {
            (3, 0) => (1, 2),
            (3, 1) => (0, 2),
            _ => (0, 1),
        };
        let most = (f64::from(degrees) * ONE as f64 / 360.0) as i64;
        let angle = drawn.between(most, lane) as u32;
        let mut one = UNIT;
        (one[i][i], one[i][j]) = (cosine(angle), -sine(angle));
        (one[j][i], one[j][j]) = (sine(angle), cosine(angle));
        all = product(&all, &one);
    }
    all
}

fn shears(drawn: &Drawn, motion: &Motion, rank: usize) -> Matrix {
    let mut all = UNIT;
    for (lane, (i, j)) in (4..).zip([(0, 1), (0, 2), (1, 2)]).take(if rank == 2 { 1 } else { 3 }) {
        all[i][j] = drawn.between(fixed(motion.shear, 1), lane);
    }
    all
}

/// Each number is the sum of three products, rounded once.
fn product(left: &Matrix, right: &Matrix) -> Matrix {
    let mut made = UNIT;
    for (made, left) in made.iter_mut().zip(left) {
        for (j, made) in made.iter_mut().enumerate() {
            let pairs = left.iter().zip(right);
            *made = round(pairs.map(|(a, row)| i128::from(*a) * i128::from(row[j])).sum());
        }
    }
    made
}

/// Q64 to Q32, halves up.
fn round(sum: i128) -> i64 {
    ((sum + (1 << 31)) >> 32) as i64
}

/// A number of f32 times a whole one as Q32, cut towards 0.
fn fixed(number: f32, times: i64) -> i64 {
    (f64::from(number) * times as f64 * ONE as f64) as i64
}

fn as_float(number: i64) -> f64 {
    number as f64 / ONE as f64
}
