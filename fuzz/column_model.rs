//! Columns of tables as the contract has them: what each row is as a box, and the struct that push
//! gets, with all that it leads to.
//!
//! In: choices. Out: columns of values, and of boxes of stored arrays that pop does not fail.

use super::augment_model::{AugmentModel, Pool};
use super::box_model::{BoxModel, Fed, FieldModel, Lists};
use super::choices::Choices;
use super::map_model::MapModel;
use super::memory_store::{Array, world};
use super::oracle::{Image, Pad};
use std::sync::Arc;
use wavetrain::abi::{
    AFFINE_IS_ONE, AT_IS_ONE, AUGMENT_IS_ONE, Affine, Augment, BOX_MEMORY, BOX_URI, BOX_VALUE,
    SHAPE_IS_ONE, STEP_IS_ONE, TableColumn, Tensor,
};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::Dtype;

const STRUCT_BYTES: usize = size_of::<Augment>();
const MAP_BYTES: usize = size_of::<Affine>();

/// Types that become floats.
pub const TYPES: [Dtype; 13] = {
    use Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [U8, F32, U16, I16, Bool, I8, U32, I32, U64, I64, F64, F16, Bf16]
};

/// The array of a column, its uri with a NUL, and by row where the box begins, by axis its step.
pub struct Stored {
    image: &'static Image,
    uri: Vec<u8>,
    begins: Vec<Vec<i64>>,
    step: Vec<i64>,
}

/// A column of values, or of boxes of an array.
pub struct ColumnModel {
    pub raw: TableColumn,
    stored: Option<Stored>,
    dtype: Dtype,
    shape: Vec<u64>,
    /// By row, or one.
    at: Vec<Vec<u64>>,
    /// By row.
    values: Vec<Vec<u8>>,
    /// By row, or one, or none.
    pub augments: Vec<AugmentModel>,
    /// Likewise, of the same axes.
    maps: Vec<MapModel>,
}

impl ColumnModel {
    pub fn choose(
        choices: &mut Choices<'_>,
        (number, field): (usize, &FieldModel),
        count: usize,
    ) -> ColumnModel {
        let array = stored_array(choices, field);
        let image = array.and_then(|array| field.view(array));
        let dtype = image.map_or_else(|| choices.one_of(&TYPES), |image| image.dtype);
        let (mut shape, mut bytes) = (Vec::new(), u64::from(dtype.bytes()));
        for (axis, extent) in field.shape.iter().enumerate() {
            let most = image.map_or(64 / bytes, |image| image.shape[axis]);
            let length = 1 + choices.below(*extent).min(most - 1);
            bytes *= if array.is_none() { length } else { 1 };
            shape.push(length);
        }
        let stored = array.map(|array| Stored::choose(choices, array, (field, &shape), count));
        let at = |choices: &mut Choices<'_>| -> Vec<u64> {
            let each = field.shape.iter().zip(&shape);
            each.map(|(extent, length)| choices.below(extent - length + 1)).collect()
        };
        let is_one = choices.below(2) == 1;
        let at = (0..if is_one { 1 } else { count }).map(|_| at(choices)).collect();
        let mut raw = TableColumn { kind: BOX_VALUE, ..TableColumn::EMPTY };
        (raw.field, raw.rank) = (number as u32, field.shape.len() as u32);
        raw.flags = SHAPE_IS_ONE | if is_one { AT_IS_ONE } else { 0 };
        match &stored {
            Some(_) => {
                (raw.kind, raw.n_uris) = (BOX_URI, 1);
                raw.flags |= STEP_IS_ONE;
            }
            None => (raw.value_dtype, raw.value_bytes) = (dtype as u32, bytes as u32),
        }
        let bytes = if stored.is_some() { 0 } else { bytes };
        let values = (0..count).map(|_| (0..bytes).map(|_| choices.byte()).collect()).collect();
        let augments = match choices.below(4) {
            0 => 0,
            1 => 1,
            _ => count,
        };
        raw.flags |= if augments == 1 { AUGMENT_IS_ONE } else { 0 };
        let augments: Vec<_> =
            (0..augments).map(|_| AugmentModel::choose(choices, field)).collect();
        if !augments.is_empty() {
            let bytes = STRUCT_BYTES as u32;
            raw.augment_bytes = choices.one_of(&[bytes, bytes, bytes + 8, bytes + 40]);
            if choices.rarely(8) {
                let menu = [0, 8, 16, 72, 79, 81, 84, 65_544, u32::MAX];
                raw.augment_bytes = choices.one_of(&menu);
            }
        }
        let maps = Vec::new();
        let mut made = ColumnModel { raw, stored, dtype, shape, at, values, augments, maps };
        if choices.rarely(2) {
            made.choose_maps(choices, field, count);
        }
        made
    }

    /// Gives it a map for each row, or one.
    fn choose_maps(&mut self, choices: &mut Choices<'_>, field: &FieldModel, count: usize) {
        let extents = self.stored.as_ref().map_or(&self.shape, |stored| &stored.image.shape);
        let Some(first) = MapModel::choose(choices, (extents, field)) else { return };
        let is_one = choices.below(2) == 1;
        let others = (1..if is_one { 1 } else { count })
            .map(|_| MapModel::choose(choices, (extents, field)).expect("it has axes"));
        let others = others.map(|map| map.of_axes(&first)).collect::<Vec<_>>();
        if let Some(stored) = &mut self.stored {
            for axis in (0..self.shape.len()).filter(|axis| first.is_mapped(*axis)) {
                stored.begins.iter_mut().for_each(|begin| begin[axis] = 0);
                stored.step[axis] = 1;
            }
        }
        self.maps = [vec![first], others].concat();
        self.raw.flags |= if self.maps.len() == 1 { AFFINE_IS_ONE } else { 0 };
        let bytes = MAP_BYTES as u32;
        self.raw.affine_bytes = choices.one_of(&[bytes, bytes, bytes + 8, bytes + 40]);
        if choices.rarely(8) {
            self.raw.affine_bytes = choices.one_of(&[0, 8, 16, 132, 135, 65_544, u32::MAX]);
        }
        // Maps that only their array makes wrong fail at pop: other tests have such rows.
        let is_late = |row| self.stored.is_some() && !self.row(row).fails_at_push_or_never(field);
        if (0..count).any(is_late) {
            self.maps.clear();
            self.raw.flags &= !AFFINE_IS_ONE;
            self.raw.affine_bytes = 0;
        }
    }

    /// The struct, with all that it leads to.
    pub fn write(&self, pool: &mut Pool) -> TableColumn {
        let mut raw = self.raw;
        let longs = |longs: &[u64]| -> Vec<u8> {
            longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
        };
        raw.shape = pool.put(&longs(&self.shape), 0).cast();
        raw.at = pool.put(&longs(&self.at.concat()), 0).cast();
        match &self.stored {
            None => raw.values = pool.put(&self.values.concat(), 0).cast(),
            Some(stored) => {
                let signed = |longs: &[i64]| -> Vec<u8> {
                    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
                };
                raw.begin = pool.put(&signed(&stored.begins.concat()), 0).cast();
                raw.step = pool.put(&signed(&stored.step), 0).cast();
                let uri = pool.put(&stored.uri, 0) as usize;
                raw.uris = pool.put(&uri.to_ne_bytes(), 0).cast();
            }
        }
        let augments: Vec<_> = self.augments.iter().map(|augment| augment.write(pool)).collect();
        raw.augment = put_rows(pool, augments, (raw.augment_bytes, STRUCT_BYTES)).cast();
        let maps = self.maps.iter().map(MapModel::write).collect();
        raw.affine = put_rows(pool, maps, (raw.affine_bytes, MAP_BYTES)).cast();
        raw
    }

    /// Whether a row has room for the struct that it states.
    pub fn has_room(&self, row: usize) -> bool {
        let fits = |stated: usize, (bytes, least): (u32, usize)| {
            let bytes = bytes as usize;
            let is_sized = (least..=least + 40).contains(&bytes) && bytes.is_multiple_of(8);
            is_sized && stated <= bytes
        };
        let augment = (self.raw.augment_bytes, STRUCT_BYTES);
        let map = (self.raw.affine_bytes, MAP_BYTES);
        self.change(row).is_none_or(|change| fits(change.struct_size(), augment))
            && self.map(row).is_none_or(|each| fits(each.struct_size(), map))
    }

    /// The map of the box of a row.
    fn map(&self, row: usize) -> Option<MapModel> {
        let map = self.maps.get(if self.maps.len() == 1 { 0 } else { row })?;
        let mut map = map.clone();
        map.is_augmented = self.change(row).is_some();
        Some(map)
    }

    /// The arithmetic of the box of a row.
    pub fn change(&self, row: usize) -> Option<&AugmentModel> {
        self.augments.get(if self.augments.len() == 1 { 0 } else { row })
    }

    /// The box of a row.
    pub fn row(&self, row: usize) -> BoxModel {
        let mut at = [0; RANK_MAX];
        let given = &self.at[if self.at.len() == 1 { 0 } else { row }];
        at[..given.len()].copy_from_slice(given);
        if let Some(stored) = &self.stored {
            let begin = stored.begins[row].clone();
            let reach = self.shape.iter().zip(&stored.step);
            let reach = reach.map(|(places, step)| (*places as i64 - 1) * step.abs() + 1);
            let end = begin.iter().zip(reach).map(|(begin, reach)| begin + reach).collect();
            let (field, image) = (self.raw.field, stored.image.clone());
            let (step, axes) = (stored.step.clone(), vec![0; begin.len()]);
            let (fed, map, lists) = (None, self.map(row), Lists::default());
            let is_hostile = false;
            return BoxModel {
                field,
                begin,
                end,
                step,
                axes,
                at,
                image,
                fed,
                map,
                lists,
                is_hostile,
            };
        }
        let pixels = self.values[row].clone();
        let made = plain_box((self.raw.field, BOX_VALUE), (self.dtype, &self.shape), at, pixels);
        BoxModel { map: self.map(row), ..made }
    }
}

/// Puts structs as rows of so many bytes, of a header that knows at least so many; NULL if there are
/// none. Structs that are too large are not there: nobody may read them.
fn put_rows(pool: &mut Pool, structs: Vec<Vec<u8>>, (bytes, known): (u32, usize)) -> *const u8 {
    if structs.is_empty() {
        return std::ptr::null();
    }
    let (step, most) = (bytes as usize, known + 40);
    let mut rows = Vec::new();
    for mut bytes in structs {
        bytes.resize(step.min(most), 0xEE);
        rows.extend(bytes);
    }
    rows.truncate(if step > most { 0 } else { rows.len() });
    pool.put(&rows, 0)
}

/// An array that a field of floats may be read from, half of the time.
fn stored_array(choices: &mut Choices<'_>, field: &FieldModel) -> Option<&'static Array> {
    let is_float = [Dtype::F32, Dtype::Bf16, Dtype::F16].contains(&field.dtype);
    let fits = |array: &&Array| {
        array.image.shape.len() == field.shape.len() && TYPES.contains(&array.image.dtype)
    };
    let arrays: Vec<&Array> = world().arrays.iter().filter(fits).collect();
    let is_chosen = is_float && !arrays.is_empty() && choices.below(2) == 1;
    is_chosen.then(|| choices.one_of(&arrays))
}

impl Stored {
    /// Boxes of that shape, one for each row.
    fn choose(
        choices: &mut Choices<'_>,
        array: &'static Array,
        (field, shape): (&FieldModel, &[u64]),
        count: usize,
    ) -> Stored {
        let image = field.view(array).expect("arrays of zarr");
        let extents = || image.shape.iter().map(|extent| *extent as i64);
        let step = shape.iter().zip(extents()).map(|(places, extent)| {
            let step = choices.one_of(&[1, 1, 2, 3]);
            let step = if (*places as i64 - 1) * step < extent { step } else { 1 };
            choices.one_of(&[step, -step])
        });
        let step: Vec<i64> = step.collect();
        let begin = |choices: &mut Choices<'_>| -> Vec<i64> {
            let axes = shape.iter().zip(&step).zip(extents());
            let begin = axes.map(|((places, step), extent)| {
                let reach = (*places as i64 - 1) * step.abs() + 1;
                let is_padded = field.pad != Pad::None && step.abs() == 1;
                // A part of it lies inside, or pop fails.
                let margin = if is_padded { 2.min(reach - 1) } else { 0 };
                choices.below((extent - reach + 1 + 2 * margin) as u64) as i64 - margin
            });
            begin.collect()
        };
        let begins = (0..count).map(|_| begin(choices)).collect();
        Stored { image, uri: [array.uri.as_bytes(), &[0]].concat(), begins, step }
    }
}

/// A box that is a whole field.
pub fn whole_box(choices: &mut Choices<'_>, fields: &[FieldModel]) -> BoxModel {
    let number = choices.below(fields.len() as u64) as usize;
    let (field, dtype) = (&fields[number], choices.one_of(&TYPES));
    let seed = u64::from(choices.word());
    let painted = |at: u64| ((at + 1).wrapping_mul(2 * seed + 0x9E37_79B9) >> 11) as u8;
    let bytes = (field.elements() as u32 * dtype.bytes()).into();
    let pixels = (0..bytes).map(painted).collect();
    plain_box((number as u32, BOX_MEMORY), (dtype, &field.shape), [0; RANK_MAX], pixels)
}

/// A box of all elements of a tensor, row by row.
fn plain_box(
    (field, kind): (u32, u32),
    (dtype, shape): (Dtype, &[u64]),
    at: [u64; RANK_MAX],
    pixels: Vec<u8>,
) -> BoxModel {
    let rank = shape.len();
    let block = pixels.clone();
    let mut tensor = Tensor { dtype: dtype as u32, ..Tensor::EMPTY };
    tensor.data = block.as_ptr().cast();
    tensor.shape[..rank].copy_from_slice(shape);
    BoxModel {
        field,
        begin: vec![0; rank],
        end: shape.iter().map(|extent| *extent as i64).collect(),
        step: vec![1; rank],
        axes: vec![0; rank],
        at,
        image: Image::new(dtype, shape.to_vec(), Arc::new(pixels), vec![0; dtype.bytes() as usize]),
        fed: Some(Box::new(Fed { kind, tensor, block })),
        map: None,
        lists: Lists::default(),
        is_hostile: false,
    }
}
