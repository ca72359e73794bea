//! Arithmetic on the elements of boxes, through a loader without threads: boxes over memory and
//! values of any strides in samples, and columns of values and of boxes of stored arrays, each with
//! any wavetrain_augment.
//!
//! Checked against augment_model.rs, which has the words of the header, and box_model.rs: what is
//! taken holds their elements, bit for bit; what is refused for its augment alone is refused by
//! that name. All that a struct leads to ends where nobody may read on, and is written over once
//! push has returned.

use super::augment_model::{AugmentModel, Pool, bytes_of};
use super::box_loader::{config, finish, open, push, refusal, text};
use super::box_model::{BoxModel, Fed, FieldModel, Held, Painted, Table, paint, paint_with};
use super::choices::Choices;
use super::memory_store::{Array, Damage, Server, world};
use super::oracle::{Image, Pad};
use std::cell::RefCell;
use std::sync::Arc;
use wavetrain::abi::{
    AT_IS_ONE, AUGMENT_IS_ONE, Augment, BOX_MEMORY, BOX_URI, BOX_VALUE, Error, FieldSpec,
    SHAPE_IS_ONE, STEP_IS_ONE, TableColumn, Tensor,
};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_push_table;

const FIELDS_MAX: u64 = 3;
const BOXES_MAX: u64 = 6;
const PUSHES_MAX: u64 = 4;
const ROWS_MAX: u64 = 3;
const STRUCT_BYTES: usize = size_of::<Augment>();

/// Types that become floats.
const TYPES: [Dtype; 13] = {
    use Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [U8, F32, U16, I16, Bool, I8, U32, I32, U64, I64, F64, F16, Bf16]
};

/// Samples longer than a strip of floats, or of more channels than a register.
const LONG: [&[u64]; 6] = [&[2100], &[3, 700], &[700, 3], &[5, 64], &[64, 3, 2], &[65, 2]];

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Checks one input.
pub fn run(data: &[u8]) {
    is_augmented(data);
}

/// Checks one input; whether a sample with arithmetic was taken.
pub fn is_augmented(data: &[u8]) -> bool {
    POOL.with_borrow_mut(|pool| stream(&mut Choices::of(data), pool))
}

fn stream(choices: &mut Choices<'_>, pool: &mut Pool) -> bool {
    let count = 1 + choices.below(FIELDS_MAX) as usize;
    let fields: Vec<FieldModel> = (0..count).map(|number| field(choices, number)).collect();
    let specs: Vec<FieldSpec> = fields.iter().map(FieldModel::spec).collect();
    let mut config = config(choices, BOXES_MAX as u32, (PUSHES_MAX * ROWS_MAX) as u32);
    config.augment = u32::from(!choices.rarely(16));
    let damage = Damage::None;
    let server = Server { world: world(), has_others: false, damage, file: 0, place: 0 };
    config.files = server.hook();
    config.max_chunk_uncompressed_bytes = config.max_chunk_uncompressed_bytes.max(1024);
    config.n_array_meta_cache = 8;
    Table::of(&specs).put(&mut config);
    let most =
        if config.max_boxes_per_sample == 0 { count as u32 } else { config.max_boxes_per_sample };
    let (has_room, loader) = (config.augment == 1, open(&config));
    let (pushed, kept) = (Vec::new(), Vec::new());
    let mut world = World { fields, has_room, most, loader, pushed, kept };
    let mut is_augmented = false;
    for number in 0..1 + choices.below(PUSHES_MAX) {
        let (before, tag) = (world.pushed.len(), number * ROWS_MAX);
        let has_augment = match choices.rarely(3) {
            true => world.push_table(choices, pool, tag),
            false => world.push_sample(choices, pool, tag),
        };
        is_augmented |= has_augment && world.pushed.len() > before;
        pool.wipe();
    }
    let batches = world.pushed.chunks(config.samples_per_batch as usize);
    finish(world.loader, &world.fields, batches);
    is_augmented
}

/// A field of floats, but for a few.
fn field(choices: &mut Choices<'_>, number: usize) -> FieldModel {
    let mut field = FieldModel::choose(choices, number);
    field.shape.truncate(4);
    if !choices.rarely(16) {
        field.dtype = choices.one_of(&[Dtype::F32, Dtype::Bf16, Dtype::F16]);
        field.bytes = field.dtype.bytes();
    }
    if choices.rarely(6) {
        field.shape = choices.one_of(&LONG).to_vec();
    }
    field
}

/// A loader, and what has become of it.
struct World {
    fields: Vec<FieldModel>,
    has_room: bool,
    /// Boxes of a sample.
    most: u32,
    loader: u64,
    pushed: Vec<Vec<Painted>>,
    /// Their memory is borrowed until all is popped.
    kept: Vec<BoxModel>,
}

/// What is done to each box of a sample.
type Changes<'a> = [Option<&'a AugmentModel>];

/// The array of a column, its uri with a NUL, and by row where the box begins, by axis its step.
struct Stored {
    array: &'static Array,
    uri: Vec<u8>,
    begins: Vec<Vec<i64>>,
    step: Vec<i64>,
}

/// A column of values, or of boxes of an array.
struct ColumnModel {
    raw: TableColumn,
    stored: Option<Stored>,
    dtype: Dtype,
    shape: Vec<u64>,
    /// By row, or one.
    at: Vec<Vec<u64>>,
    /// By row.
    values: Vec<Vec<u8>>,
    /// By row, or one, or none.
    augments: Vec<AugmentModel>,
}

impl World {
    /// What a sample becomes; None if push refuses it.
    fn painted(&self, boxes: &[BoxModel], changes: &Changes<'_>) -> Option<Vec<Painted>> {
        let is_right = |(made, change): (&BoxModel, &Option<&AugmentModel>)| {
            let field = self.fields.get(made.field as usize);
            change.is_none_or(|change| {
                self.has_room && field.is_some_and(|field| change.is_right(field))
            })
        };
        let are_right = boxes.iter().zip(changes).all(is_right);
        let element = |number: usize, place: &[u64], held: &Held, field: &FieldModel| {
            let change = changes[number];
            change.map_or_else(|| held.cast(field), |change| change.element(place, held, field))
        };
        are_right.then(|| paint_with(&self.fields, boxes, element).ok())?
    }

    /// Checks the words of a refusal if an augment alone is to blame.
    fn check_refusal(&self, error: &Error, boxes: &[BoxModel]) {
        if paint(&self.fields, boxes).is_err() {
            return;
        }
        let said = text(error);
        assert_eq!(error.status, Status::Invalid as i32, "{said}");
        let mut rest = &said[..];
        for name in ["row ", "box ", "column ", "field "] {
            rest = match rest.split_once(": ") {
                Some((front, after)) if front.starts_with(name) => after,
                _ => rest,
            };
        }
        assert!(rest.starts_with("augment"), "{said}");
    }

    /// Pushes a sample of boxes; whether any has arithmetic.
    fn push_sample(&mut self, choices: &mut Choices<'_>, pool: &mut Pool, tag: u64) -> bool {
        let fields = &self.fields;
        let mut boxes: Vec<BoxModel> = Vec::new();
        for _ in 0..1 + choices.below(BOXES_MAX.min(self.most.into())) {
            boxes.push(match choices.rarely(4) {
                true => whole_box(choices, fields),
                false => BoxModel::choose_of(choices, fields, |_| TYPES),
            });
            // Mostly they are apart.
            if boxes.len() > 1 && paint(fields, &boxes).is_err() && !choices.rarely(8) {
                boxes.pop();
            }
        }
        let change = |made: &BoxModel, choices: &mut Choices<'_>| {
            let field = fields.get(made.field as usize).filter(|_| !choices.rarely(4));
            field.map(|field| AugmentModel::choose(choices, field))
        };
        let changes: Vec<_> = boxes.iter().map(|made| change(made, choices)).collect();
        let painted = self.painted(&boxes, &changes.iter().map(Option::as_ref).collect::<Vec<_>>());
        let mut raws: Vec<_> = boxes.iter().map(BoxModel::raw).collect();
        for (raw, change) in raws.iter_mut().zip(&changes) {
            raw.augment = change.as_ref().map_or(std::ptr::null(), |change| change.place(pool));
        }
        let refused = push(self.loader, &mut boxes, raws, tag);
        assert_eq!(refused.is_none(), painted.is_some(), "{:?}", refused.as_ref().map(text));
        if let Some(error) = refused {
            self.check_refusal(&error, &boxes);
        }
        self.pushed.extend(painted);
        self.kept.extend(boxes);
        changes.iter().any(Option::is_some)
    }

    /// Pushes rows of a column of each of a few fields; whether any has arithmetic.
    fn push_table(&mut self, choices: &mut Choices<'_>, pool: &mut Pool, tag: u64) -> bool {
        let count = 1 + choices.below(ROWS_MAX) as usize;
        let most = self.fields.len().min(self.most as usize);
        let first = choices.below(self.fields.len() as u64) as usize;
        let numbers = (first..first + 1 + choices.below(most as u64) as usize)
            .map(|number| number % self.fields.len());
        let columns: Vec<ColumnModel> = numbers
            .map(|number| ColumnModel::choose(choices, (number, &self.fields[number]), count))
            .collect();
        let raws: Vec<u8> =
            columns.iter().flat_map(|column| bytes_of(&column.write(pool))).collect();
        let raws = pool.put(&raws, 0).cast();
        let tags: Vec<u64> = (tag..tag + count as u64).collect();
        let tag_bytes: Vec<u8> = tags.iter().flat_map(|tag| tag.to_ne_bytes()).collect();
        let (n_columns, column_bytes) = (columns.len() as u32, size_of::<TableColumn>() as u32);
        let (tags, mut taken) = (pool.put(&tag_bytes, 0).cast(), 77);
        // SAFETY: all of it is there, for as many rows.
        let code = unsafe {
            wavetrain_push_table(
                self.loader,
                raws,
                n_columns,
                column_bytes,
                count,
                tags,
                0,
                &mut taken,
            )
        };
        let has_augment = columns.iter().any(|column| !column.augments.is_empty());
        for row in 0..count {
            let boxes: Vec<BoxModel> = columns.iter().map(|column| column.row(row)).collect();
            let changes: Vec<_> = columns.iter().map(|column| column.change(row)).collect();
            let sizes = columns.iter().all(|column| column.has_room(row));
            let painted = self.painted(&boxes, &changes).filter(|_| sizes);
            let Some(painted) = painted else {
                assert!(code != 0 && taken == row, "row {row}: {code}, {taken} were taken");
                let error = refusal(self.loader, code, tag + row as u64);
                self.check_refusal(&error, &boxes);
                return has_augment;
            };
            let said = || text(&refusal(self.loader, code, tag + row as u64));
            assert!(taken > row, "row {row}: {}", said());
            self.pushed.push(painted);
        }
        assert_eq!((code, taken), (0, count));
        has_augment
    }
}

impl ColumnModel {
    fn choose(
        choices: &mut Choices<'_>,
        (number, field): (usize, &FieldModel),
        count: usize,
    ) -> ColumnModel {
        let array = stored_array(choices, field);
        let dtype = array.map_or_else(|| choices.one_of(&TYPES), |array| array.image.dtype);
        let (mut shape, mut bytes) = (Vec::new(), u64::from(dtype.bytes()));
        for (axis, extent) in field.shape.iter().enumerate() {
            let most = array.map_or(64 / bytes, |array| array.image.shape[axis]);
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
        ColumnModel { raw, stored, dtype, shape, at, values, augments }
    }

    /// The struct, with all that it leads to.
    fn write(&self, pool: &mut Pool) -> TableColumn {
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
        if self.augments.is_empty() {
            return raw;
        }
        let step = raw.augment_bytes as usize;
        let mut rows = Vec::new();
        for augment in &self.augments {
            let mut bytes = augment.write(pool);
            bytes.resize(step.min(STRUCT_BYTES + 40), 0xEE);
            rows.extend(bytes);
        }
        // Structs that are too large are not there: nobody may read them.
        rows.truncate(if step > STRUCT_BYTES + 40 { 0 } else { rows.len() });
        raw.augment = pool.put(&rows, 0).cast();
        raw
    }

    /// Whether a row has room for the struct that it states.
    fn has_room(&self, row: usize) -> bool {
        let bytes = self.raw.augment_bytes as usize;
        let is_sized =
            (STRUCT_BYTES..=STRUCT_BYTES + 40).contains(&bytes) && bytes.is_multiple_of(8);
        self.change(row).is_none_or(|change| is_sized && change.struct_size() <= bytes)
    }

    /// What is done to the box of a row.
    fn change(&self, row: usize) -> Option<&AugmentModel> {
        self.augments.get(if self.augments.len() == 1 { 0 } else { row })
    }

    /// The box of a row.
    fn row(&self, row: usize) -> BoxModel {
        let mut at = [0; RANK_MAX];
        let given = &self.at[if self.at.len() == 1 { 0 } else { row }];
        at[..given.len()].copy_from_slice(given);
        if let Some(stored) = &self.stored {
            let begin = stored.begins[row].clone();
            let reach = self.shape.iter().zip(&stored.step);
            let reach = reach.map(|(places, step)| (*places as i64 - 1) * step.abs() + 1);
            let end = begin.iter().zip(reach).map(|(begin, reach)| begin + reach).collect();
            let (field, image) = (self.raw.field, stored.array.image.clone());
            let (step, axes) = (stored.step.clone(), vec![0; begin.len()]);
            let (fed, is_hostile) = (None, false);
            return BoxModel { field, begin, end, step, axes, at, image, fed, is_hostile };
        }
        let pixels = self.values[row].clone();
        plain_box((self.raw.field, BOX_VALUE), (self.dtype, &self.shape), at, pixels)
    }
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
        let extents = || array.image.shape.iter().map(|extent| *extent as i64);
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
        Stored { array, uri: [array.uri.as_bytes(), &[0]].concat(), begins, step }
    }
}

/// A box that is a whole field.
fn whole_box(choices: &mut Choices<'_>, fields: &[FieldModel]) -> BoxModel {
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
        is_hostile: false,
    }
}
