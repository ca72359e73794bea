//! Arithmetic on the elements of boxes, through a loader without threads: boxes over memory and
//! values of any strides in samples, and columns of values and of boxes of stored arrays, each with
//! any wavetrain_augment and any wavetrain_affine.
//!
//! Checked against augment_model.rs and map_model.rs, which have the words of the header, and
//! box_model.rs: what is taken holds their elements, bit for bit; what is refused for its augment
//! or its map alone is refused by that name. All that a struct leads to ends where nobody may read
//! on, and is written over once push has returned.

use super::augment_model::{AugmentModel, Pool};
use super::box_loader::{config, finish, open, push, refusal, text};
use super::box_model::{BoxModel, FieldModel, Held, Painted, Table, bytes_of, paint, paint_with};
use super::choices::Choices;
use super::column_model::{ColumnModel, TYPES, whole_box};
use super::map_model::MapModel;
use super::memory_store::{Damage, Server, world};
use std::cell::RefCell;
use wavetrain::abi::{Error, FieldSpec, TableColumn};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_push_table;

const FIELDS_MAX: u64 = 3;
const BOXES_MAX: u64 = 6;
const PUSHES_MAX: u64 = 4;
const ROWS_MAX: u64 = 3;

/// Samples longer than a strip of floats, or of more channels than a register.
const LONG: [&[u64]; 6] = [&[2100], &[3, 700], &[700, 3], &[5, 64], &[64, 3, 2], &[65, 2]];

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Checks one input.
pub fn run(data: &[u8]) {
    seen(data);
}

/// The parts of an input that push took.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Whether a sample with arithmetic was.
    pub is_augmented: bool,
    /// Boxes with a map, in samples and in rows.
    pub maps: [usize; 2],
}

/// Checks one input.
pub fn seen(data: &[u8]) -> Seen {
    POOL.with_borrow_mut(|pool| stream(&mut Choices::of(data), pool))
}

fn stream(choices: &mut Choices<'_>, pool: &mut Pool) -> Seen {
    let count = 1 + choices.below(FIELDS_MAX) as usize;
    let fields: Vec<FieldModel> = (0..count).map(|number| field(choices, number)).collect();
    let specs: Vec<FieldSpec> = fields.iter().map(FieldModel::spec).collect();
    let mut config = config(choices, BOXES_MAX as u32, (PUSHES_MAX * ROWS_MAX) as u32);
    config.augment = u32::from(!choices.rarely(16));
    if config.augment == 1 {
        // Boxes wait for others if there are few bytes; no array is larger than the least.
        config.max_resample_bytes = choices.one_of(&[0, 65_536, 36_864]);
    }
    let damage = Damage::None;
    let server = Server { world: world(), has_others: false, damage, file: 0, place: 0 };
    config.files = server.hook();
    config.max_chunk_uncompressed_bytes = config.max_chunk_uncompressed_bytes.max(1024);
    config.n_array_meta_cache = 8;
    Table::of(&specs).put(&mut config);
    let most =
        if config.max_boxes_per_sample == 0 { count as u32 } else { config.max_boxes_per_sample };
    let (has_room, loader) = (config.augment == 1, open(&config));
    let (pushed, kept, seen) = (Vec::new(), Vec::new(), Seen::default());
    let mut world = World { fields, has_room, most, loader, pushed, kept, seen };
    for number in 0..1 + choices.below(PUSHES_MAX) {
        let tag = number * ROWS_MAX;
        match choices.rarely(3) {
            true => world.push_table(choices, pool, tag),
            false => world.push_sample(choices, pool, tag),
        }
        pool.wipe();
    }
    let batches = world.pushed.chunks(config.samples_per_batch as usize);
    finish(world.loader, &world.fields, batches);
    world.seen
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
    seen: Seen,
}

/// What is done to each box of a sample.
type Changes<'a> = [Option<&'a AugmentModel>];

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
        if !self.has_room && boxes.iter().any(|made| made.map.is_some()) {
            return None;
        }
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
        let has_map = boxes.iter().any(|made| made.map.is_some());
        let is_named = rest.starts_with("augment") || has_map && rest.starts_with("affine");
        assert!(is_named, "{said}");
    }

    /// Notes what was taken.
    fn note(
        &mut self,
        boxes: &[BoxModel],
        changes: &Changes<'_>,
        painted: Vec<Painted>,
        is_row: bool,
    ) {
        self.seen.is_augmented |= changes.iter().any(Option::is_some);
        self.seen.maps[usize::from(is_row)] +=
            boxes.iter().filter(|made| made.map.is_some()).count();
        self.pushed.push(painted);
    }

    /// Pushes a sample of boxes.
    fn push_sample(&mut self, choices: &mut Choices<'_>, pool: &mut Pool, tag: u64) {
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
        for (made, change) in boxes.iter_mut().zip(&changes) {
            if choices.rarely(3) {
                made.choose_map(choices, fields);
            }
            made.map.iter_mut().for_each(|map| map.is_augmented = change.is_some());
        }
        let given: Vec<_> = changes.iter().map(Option::as_ref).collect();
        let painted = self.painted(&boxes, &given);
        let mut raws: Vec<_> = boxes.iter().map(BoxModel::raw).collect();
        for ((raw, change), made) in raws.iter_mut().zip(&changes).zip(&boxes) {
            raw.augment = change.as_ref().map_or(std::ptr::null(), |change| change.place(pool));
            let bytes = made.map.as_ref().map(MapModel::write);
            raw.affine = bytes.map_or(std::ptr::null(), |bytes| pool.put(&bytes, 0).cast());
        }
        let refused = push(self.loader, &mut boxes, raws, tag);
        assert_eq!(refused.is_none(), painted.is_some(), "{:?}", refused.as_ref().map(text));
        if let Some(error) = refused {
            self.check_refusal(&error, &boxes);
        }
        if let Some(painted) = painted {
            self.note(&boxes, &given, painted, false);
        }
        self.kept.extend(boxes);
    }

    /// Pushes rows of a column of each of a few fields.
    fn push_table(&mut self, choices: &mut Choices<'_>, pool: &mut Pool, tag: u64) {
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
        for row in 0..count {
            let boxes: Vec<BoxModel> = columns.iter().map(|column| column.row(row)).collect();
            let changes: Vec<_> = columns.iter().map(|column| column.change(row)).collect();
            let sizes = columns.iter().all(|column| column.has_room(row));
            let painted = self.painted(&boxes, &changes).filter(|_| sizes);
            let Some(painted) = painted else {
                assert!(code != 0 && taken == row, "row {row}: {code}, {taken} were taken");
                let error = refusal(self.loader, code, tag + row as u64);
                return self.check_refusal(&error, &boxes);
            };
            let said = || text(&refusal(self.loader, code, tag + row as u64));
            assert!(taken > row, "row {row}: {}", said());
            self.note(&boxes, &changes, painted, true);
        }
        assert_eq!((code, taken), (0, count));
    }
}
