//! The words of include/wavetrain.h on wavetrain_affine: the maps that push takes for a box, and the
//! element of each of its places. Taps and lerps are those of affine_model.rs.
//!
//! In: choices. Out: maps that are mostly right, as bytes; nobody may read past their end.

use super::affine_model::{Case, between};
use super::box_model::{FieldModel, Held, bytes_of};
use super::choices::Choices;
use super::oracle::{Image, Pad, cast, has_cast};
use wavetrain::abi::Affine;
use wavetrain::records::{Dtype, PadMode};
use wavetrain::resample::Filter;

const STRUCT_BYTES: usize = size_of::<Affine>();

/// Entries and offsets of this size or more lead too far from any array of the tests, and are wrong
/// for all.
const FAR: f64 = 1e10;

/// A map. It leads to an array of a few thousand elements at most.
#[derive(Clone)]
pub struct MapModel {
    raw: Affine,
    /// Bytes that a newer header might have after it.
    tail: Vec<u8>,
    /// The box has arithmetic, which gets floats.
    pub is_augmented: bool,
}

/// Rounded to a multiple of 2^-32, which all numbers that are chosen here nearly are.
fn fixed(entry: f64) -> i128 {
    (entry * 4_294_967_296.0).round_ties_even() as i128
}

impl MapModel {
    /// One for a box of so many places along its axes, over an array of these extents, which goes to
    /// a field.
    pub fn choose(
        choices: &mut Choices<'_>,
        (extents, field): (&[u64], &FieldModel),
    ) -> Option<MapModel> {
        let mut free: Vec<u32> = (0..extents.len() as u32).collect();
        if free.is_empty() {
            return None;
        }
        let rank = (1 + choices.below(3) as usize).min(free.len());
        let mut raw = Affine { struct_size: STRUCT_BYTES, rank: rank as u32, ..Affine::EMPTY };
        raw.level = choices.one_of(&[-1, 0]);
        let is_float = matches!(field.dtype, Dtype::F32 | Dtype::Bf16 | Dtype::F16);
        raw.filter = if is_float { choices.below(2) as u32 } else { 0 };
        let turn = choices.below(3) as usize;
        let kind = choices.below(4);
        for row in 0..rank {
            let axis = free.remove(choices.below(free.len() as u64) as usize);
            raw.axes[row] = axis;
            let extent = extents[axis as usize] as f64;
            let is_inside = field.pad == Pad::None && !choices.rarely(8);
            for column in 0..rank {
                let is_turn = (row + turn) % rank == column;
                raw.matrix[row][column] = match kind {
                    // Turns and flips.
                    0 => f64::from(u8::from(is_turn)) * choices.one_of(&[1.0, -1.0]),
                    1 => (choices.below(33) as f64 - 16.0) / 8.0,
                    _ => f64::from(choices.word() as i16) / 24_571.0,
                };
            }
            raw.matrix[row][3] = match choices.below(4) {
                0 => choices.below(extents[axis as usize] + 3) as f64 - 1.0,
                1 => choices.below(17) as f64 / 4.0 - 2.0,
                _ => f64::from(choices.word() as i16) / 9_000.0,
            };
            if is_inside {
                // Steps so short that places stay near the middle.
                raw.matrix[row][..rank].iter_mut().for_each(|entry| *entry /= 128.0);
                raw.matrix[row][3] = (extent - 1.0) / 2.0;
            }
        }
        let mut made = MapModel { raw, tail: Vec::new(), is_augmented: false };
        if choices.rarely(6) {
            made.spoil(choices);
        }
        Some(made)
    }

    /// The same map of the axes of another.
    pub fn of_axes(mut self, other: &MapModel) -> MapModel {
        (self.raw.axes, self.raw.rank) = (other.raw.axes, other.raw.rank);
        self
    }

    /// Makes any one thing wrong, or right in another way.
    fn spoil(&mut self, choices: &mut Choices<'_>) {
        let wild = choices.one_of(&[0, 1, 2, 3, 4, 7, 1 << 16, u32::MAX]);
        let (row, column) = (choices.below(3) as usize, choices.below(4) as usize);
        match choices.below(10) {
            0 => self.raw.struct_size = choices.one_of(&[0, 7, usize::MAX, 65_537]),
            1 => {
                self.tail = vec![0; 1 + choices.below(40) as usize];
                self.raw.struct_size += self.tail.len();
                *self.tail.last_mut().expect("a byte") = choices.one_of(&[0, 1]);
            }
            2 => self.raw.rank = wild,
            3 => self.raw.axes[row] = wild,
            4 => self.raw.filter = wild,
            5 => self.raw.level = wild as i32,
            6 => self.raw.has_units = wild,
            7 => self.raw.reserved = wild,
            8 => self.raw.matrix[row] = self.raw.matrix[(row + 1) % 3],
            _ => {
                let menu = [f64::NAN, f64::INFINITY, 1e12, -1e300, 5e-324, 0.0];
                self.raw.matrix[row][column] = choices.one_of(&menu);
            }
        }
    }

    /// The bytes of the struct, as many as it states if those can be.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = bytes_of(&self.raw);
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    /// Bytes that the struct states.
    pub fn struct_size(&self) -> usize {
        self.raw.struct_size
    }

    /// The axes of the box that are mapped.
    pub fn axes(&self) -> impl Iterator<Item = usize> {
        let rank = self.raw.rank.min(3) as usize;
        self.raw.axes.into_iter().take(rank).map(|axis| axis as usize)
    }

    fn row_of(&self, axis: usize) -> Option<usize> {
        self.axes().position(|mapped| mapped == axis)
    }

    pub fn is_mapped(&self, axis: usize) -> bool {
        self.row_of(axis).is_some()
    }

    fn rows(&self) -> &[[f64; 4]] {
        &self.raw.matrix[..self.raw.rank as usize]
    }

    /// Whether push takes it, whatever it is of: for a box of such places along its axes, from where
    /// on it begins, and its steps.
    pub fn is_right(&self, field: &FieldModel, walks: &[(u64, i64, i64)]) -> bool {
        let Affine { rank, filter, level, has_units, reserved, .. } = self.raw;
        let stated = STRUCT_BYTES + self.tail.len();
        let has_size = self.raw.struct_size == stated && self.tail.iter().all(|byte| *byte == 0);
        if !has_size || !(1..=3).contains(&rank) || has_units > 1 || reserved != 0 || filter > 1 {
            return false;
        }
        let is_float = matches!(field.dtype, Dtype::F32 | Dtype::Bf16 | Dtype::F16);
        let is_walked = |(row, axis): (usize, usize)| {
            let is_own = self.row_of(axis) == Some(row);
            let walk = walks.get(axis);
            is_own
                && walk.is_some_and(|(places, begin, step)| {
                    let is_plain = matches!(step, 0 | 1) || *places == 1 && *step > 1;
                    *begin == 0 && is_plain
                })
        };
        level >= -1
            && (filter == 0 || is_float)
            && self.axes().enumerate().all(is_walked)
            && self.is_regular()
    }

    /// Whether its entries are numbers, and the determinant of their multiples of 2^-32 is not 0.
    /// A map in units may have any numbers: it is wrong for arrays.
    fn is_regular(&self) -> bool {
        let (rank, rows) = (self.raw.rank as usize, self.rows());
        let entries = || rows.iter().flat_map(|row| row[..rank].iter());
        if !entries().chain(rows.iter().map(|row| &row[3])).all(|entry| entry.is_finite()) {
            return false;
        }
        if self.raw.has_units == 1 {
            return true;
        }
        if entries().any(|entry| entry.abs() >= FAR) {
            return false;
        }
        let mut m = [[0; 3]; 3];
        for row in 0..3 {
            for column in 0..3 {
                m[row][column] = match row < rank && column < rank {
                    true => fixed(rows[row][column]),
                    false => i128::from(row == column) << 32,
                };
            }
        }
        let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
        m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1) != 0
    }

    /// Whether all that it reads of an array can be had, along mapped axes.
    pub fn has_source(&self, field: &FieldModel, (image, places): (&Image, &[u64])) -> bool {
        let (rank, case) = (self.raw.rank as usize, self.case(field, (image, places)));
        let is_known = self.raw.has_units == 0 && self.raw.level <= 0;
        let is_far = self.rows().iter().any(|row| row[3].abs() >= FAR);
        let way = match self.raw.filter {
            0 if !self.is_augmented => has_cast(image.dtype, field.dtype),
            _ => has_cast(image.dtype, Dtype::F32),
        };
        if !is_known || is_far || !way {
            return false;
        }
        let corners = (0..1u32 << rank).map(|corner| -> Vec<u64> {
            let at = |axis: usize| u64::from(corner >> axis & 1) * (case.places[axis] - 1);
            (0..rank).map(at).collect()
        });
        let corners: Vec<Vec<u64>> = corners.collect();
        (0..rank).all(|axis| match case.pad {
            PadMode::Constant => true,
            PadMode::Edge | PadMode::Reflect => case.extents[axis] > 0,
            PadMode::None => corners.iter().all(|corner| {
                let taps = case.taps(axis, corner);
                taps.iter().all(|(voxel, _)| voxel.is_some())
            }),
        })
    }

    fn case(&self, field: &FieldModel, (image, places): (&Image, &[u64])) -> Case {
        let filter = if self.raw.filter == 0 { Filter::Nearest } else { Filter::Linear };
        let pad = match field.pad {
            Pad::None => PadMode::None,
            Pad::Constant => PadMode::Constant,
            Pad::Edge => PadMode::Edge,
            Pad::Reflect => PadMode::Reflect,
        };
        let of = |extents: &[u64]| self.axes().map(|axis| extents[axis]).collect();
        let (places, extents) = (of(places), of(&image.shape));
        Case { matrix: self.raw.matrix, places, extents, filter, pad }
    }

    /// The element of a place of the box: `at` has the place along mapped axes, the coordinate along
    /// others. `element` gives that of the array at coordinates, folded along copied axes.
    pub fn held(
        &self,
        field: &FieldModel,
        (image, places, at): (&Image, &[u64], &[i64]),
        element: impl Fn(&[i64]) -> Held,
    ) -> Held {
        let case = self.case(field, (image, places));
        let place: Vec<u64> = self.axes().map(|axis| at[axis] as u64).collect();
        let taps: Vec<_> = (0..place.len()).map(|axis| case.taps(axis, &place)).collect();
        let read = |chosen: &[Option<i128>]| {
            let mut at = at.to_vec();
            for (axis, voxel) in self.axes().zip(chosen) {
                // Outside of any array.
                at[axis] = voxel.map_or(-1, |voxel| voxel as i64);
            }
            let held = element(&at);
            Held { is_padding: chosen.contains(&None), ..held }
        };
        let first: Vec<_> = taps.iter().map(|taps| taps[0].0).collect();
        if case.filter == Filter::Nearest {
            return read(&first);
        }
        let mut is_any_inside = false;
        let float = |held: &Held, to: Dtype| -> f32 {
            let element = cast(held.dtype, to, &held.element);
            let bytes = cast(to, Dtype::F32, &element);
            f32::from_le_bytes(bytes.try_into().expect("a float"))
        };
        let mut leaf = |chosen: &[Option<i128>]| {
            let held = read(chosen);
            is_any_inside |= !held.is_padding;
            // A padding value is an element of the field, unless arithmetic follows.
            let is_element = held.is_padding && !self.is_augmented;
            float(&held, if is_element { field.dtype } else { Dtype::F32 })
        };
        let value = between(&taps, &mut Vec::new(), &mut leaf);
        if !is_any_inside {
            return read(&vec![None; place.len()]);
        }
        Held { element: value.to_le_bytes().to_vec(), dtype: Dtype::F32, is_padding: false }
    }
}
