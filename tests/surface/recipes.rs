//! The recipes of wavetrain_recipes.h give what tests/data/make_recipes.py, which shares nothing
//! with them, wrote to tests/data/recipes.json.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each call passes structs of this file, and lists with their own lengths"
)]

use crate::common::header;
use serde_json::{Value, json};
use std::ffi::{CStr, CString};
use std::ptr;
use wavetrain::abi::{Affine, Augment, Blank, SampleBox};
use wavetrain::recipes::{Field, Misfit, Motion, NO_CHANNELS, Recipes, Room};
use wavetrain::sampler::Place;
use wavetrain::surface::c::recipes::*;

const DONE: i32 = 1;

/// A record and what it leads to, which lie still.
struct Augmented {
    record: Box<AugmentedRecord>,
    target: Box<SampleBox>,
    augment: Box<Augment>,
    affine: Box<Affine>,
}

impl Augmented {
    fn new(seed: u64, place: Place, field: Field, target: SampleBox) -> Augmented {
        let mut made = Augmented {
            record: Box::new(AugmentedRecord {
                struct_size: size_of::<AugmentedRecord>(),
                seed,
                place,
                target: ptr::null_mut(),
                augment: ptr::null_mut(),
                affine: ptr::null_mut(),
                field,
                room: Room::BLANK,
            }),
            target: Box::new(target),
            augment: Box::new(Augment::EMPTY),
            affine: Box::new(Affine::EMPTY),
        };
        made.record.target = &raw mut *made.target;
        made.record.augment = &raw mut *made.augment;
        made.record.affine = &raw mut *made.affine;
        assert_eq!(unsafe { wavetrain_recipe_begin(&mut *made.record, 1) }, DONE);
        made
    }

    fn picture() -> Augmented {
        let field = Field::new(&[3, 32, 24], Some(0), &[1, 2], 3).unwrap();
        let mut target = SampleBox { rank: 3, ..SampleBox::BLANK };
        target.end[..3].copy_from_slice(&[3, 32, 24]);
        Augmented::new(42, Place { epoch: 1, position: 2 }, field, target)
    }

    /// One recipe of a vector; its answer.
    fn run(&mut self, kind: &str, name: Option<&str>, numbers: &Value) -> i32 {
        let name = CString::new(name.unwrap_or_default()).unwrap();
        let (name, boxes) = (name.as_ptr(), &raw mut *self.record);
        let f = |key: &str| float(&numbers[key]);
        let list = |key: &str| floats(&numbers[key]);
        unsafe {
            match kind {
                "crop" => {
                    let extents = words(&numbers["extents"]);
                    let padding = numbers["padding"].as_u64().unwrap();
                    let count = extents.len() as u32;
                    wavetrain_recipe_crop(boxes, 1, name, padding, extents.as_ptr(), count)
                }
                "flip" => {
                    let axis = numbers["axis"].as_u64().unwrap() as u32;
                    wavetrain_recipe_flip(boxes, 1, name, f("p"), axis)
                }
                "affine" => {
                    let motion = Motion {
                        degrees: list("degrees").try_into().unwrap(),
                        zoom: list("zoom").try_into().unwrap(),
                        shear: f("shear"),
                        shift: f("shift"),
                        filter: numbers["filter"].as_u64().unwrap() as u32,
                        ..Motion::NONE
                    };
                    wavetrain_recipe_affine(boxes, 1, name, &motion)
                }
                "normalize" => {
                    let (mean, std) = (list("mean"), list("std"));
                    let counts = (mean.len() as u32, std.len() as u32);
                    let (mean, std) = (mean.as_ptr(), std.as_ptr());
                    wavetrain_recipe_normalize(boxes, 1, mean, counts.0, std, counts.1)
                }
                "jitter" => wavetrain_recipe_jitter(boxes, 1, name, f("brightness"), f("contrast")),
                "noise" => wavetrain_recipe_noise(boxes, 1, name, f("sigma")),
                "clamp" => wavetrain_recipe_clamp(boxes, 1, f("low"), f("high")),
                "cutout" => {
                    let (size, values) = (numbers["size"].as_u64().unwrap(), list("values"));
                    let count = values.len() as u32;
                    wavetrain_recipe_cutout(boxes, 1, name, size, values.as_ptr(), count)
                }
                "random_erase" => {
                    let (scale, ratio, values) = (list("scale"), list("ratio"), list("values"));
                    let (scale, ratio) = (scale.as_ptr(), ratio.as_ptr());
                    let (count, values) = (values.len() as u32, values.as_ptr());
                    wavetrain_recipe_random_erase(
                        boxes,
                        1,
                        name,
                        f("p"),
                        scale,
                        ratio,
                        values,
                        count,
                    )
                }
                _ => panic!("{kind}"),
            }
        }
    }

    /// The result, as a vector has it; pointers are followed as push follows them.
    fn answer(&self, box_rank: usize) -> Value {
        let (augment, target) = (&self.augment, &self.target);
        let rank = self.record.field.rank as usize;
        let list = |from: *const f32, count: u32| match from.is_null() {
            true => Value::Null,
            false => bits(unsafe { std::slice::from_raw_parts(from, count as usize) }),
        };
        assert_eq!(target.augment, &raw const **augment);
        assert_eq!((augment.struct_size, augment.pad_goes_through), (size_of::<Augment>(), 1));
        let by_channel = augment.n_channels > 1;
        let axis = if by_channel { self.record.field.channel_axis } else { 0 };
        assert_eq!(augment.channel_axis, axis);
        let erases: Vec<Value> = (0..augment.n_erase as usize)
            .map(|at| unsafe {
                let erase = augment.erase.byte_add(at * augment.erase_bytes as usize).read();
                assert!(erase.begin[rank..].iter().chain(&erase.end[rank..]).all(|at| *at == 0));
                json!({
                    "begin": erase.begin[..rank],
                    "end": erase.end[..rank],
                    "values": list(erase.values, erase.n_values),
                })
            })
            .collect();
        let clamp = [augment.clamp_low, augment.clamp_high];
        let affine = (self.affine.rank > 0).then(|| {
            assert_eq!(target.affine, &raw const *self.affine);
            let rows = self.affine.matrix.map(|row| row.map(|x| format!("{:016x}", x.to_bits())));
            let rank = self.affine.rank as usize;
            json!({
                "rank": rank,
                "axes": self.affine.axes[..rank],
                "filter": self.affine.filter,
                "matrix": rows,
            })
        });
        json!({
            "begin": target.begin[..box_rank],
            "end": target.end[..box_rank],
            "step": target.step[..box_rank],
            "n_channels": augment.n_channels,
            "scale": list(augment.scale, augment.n_channels),
            "bias": list(augment.bias, augment.n_channels),
            "clamp": if augment.has_clamp != 0 { bits(&clamp) } else { Value::Null },
            "noise_sigma": bits(&[augment.noise_sigma])[0],
            "noise_key": augment.noise_key,
            "erase": erases,
            "affine": affine,
        })
    }
}

fn bits(numbers: &[f32]) -> Value {
    numbers.iter().map(|number| format!("{:08x}", number.to_bits())).collect()
}

fn float(value: &Value) -> f32 {
    f32::from_bits(u32::from_str_radix(value.as_str().unwrap(), 16).unwrap())
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(float).collect()
}

fn words(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|word| word.as_u64().unwrap()).collect()
}

/// Puts a list of a vector at the beginning of one of a struct.
fn fill<T: Copy>(list: &mut [T], value: &Value, number: impl Fn(&Value) -> T) -> u32 {
    let values = value.as_array().unwrap();
    list.iter_mut().zip(values).for_each(|(to, from)| *to = number(from));
    values.len() as u32
}

fn augmented_of(vector: &Value) -> Augmented {
    let (given, place) = (&vector["field"], |key: &str| vector[key].as_u64().unwrap());
    let mut field = Field::new(&[1], None, &[], 0).unwrap();
    let word = |value: &Value| value.as_u64().unwrap();
    field.rank = fill(&mut field.shape, &given["shape"], word);
    field.channel_axis = given["channel_axis"].as_u64().map_or(NO_CHANNELS, |axis| axis as u32);
    field.pad_mode = given["pad_mode"].as_u64().unwrap() as u32;
    field.n_spatial = fill(&mut field.spatial, &given["spatial"], |axis| word(axis) as u32);
    fill(&mut field.box_spatial, &given["box_spatial"], |axis| word(axis) as u32);
    let (mut target, given) = (SampleBox::BLANK, &vector["box"]);
    let number = |value: &Value| value.as_i64().unwrap();
    target.rank = fill(&mut target.begin, &given["begin"], number);
    fill(&mut target.end, &given["end"], number);
    fill(&mut target.step, &given["step"], number);
    fill(&mut target.at, &given["at"], word);
    let at = Place { epoch: place("epoch"), position: place("position") };
    Augmented::new(place("seed"), at, field, target)
}

#[test]
fn recipes_give_what_another_implementation_gives() {
    let path = header::root().join("tests/data/recipes.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert_eq!(vectors.len(), 200);
    for (number, vector) in vectors.iter().enumerate() {
        let mut one = augmented_of(vector);
        for recipe in vector["recipes"].as_array().unwrap() {
            let (kind, name) = (recipe[0].as_str().unwrap(), recipe[1].as_str());
            let answer = one.run(kind, name, &recipe[2]);
            assert_eq!(i64::from(answer), recipe[3].as_i64().unwrap(), "{number}: {recipe}");
        }
        let box_rank = vector["box"]["begin"].as_array().unwrap().len();
        assert_eq!(one.answer(box_rank), vector["answer"], "{number}: {vector}");
    }
}

/// Factors and terms that are rounded, or subnormal.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_float_environment_of_a_caller_changes_no_bit_and_stays_as_it_was() {
    use crate::common::float_control::{CONTROLS, control, set_control};
    let (usual, mut made) = (control(), Vec::new());
    for hostile in [usual].into_iter().chain(CONTROLS) {
        let mut one = Augmented::picture();
        let boxes = &raw mut *one.record;
        let name = c"jitter".as_ptr();
        set_control(hostile);
        let answers = unsafe {
            [
                wavetrain_recipe_normalize(boxes, 1, [0.1, 1e-38, 7.0].as_ptr(), 3, &3.0, 1),
                wavetrain_recipe_jitter(boxes, 1, name, 1e-39, 0.3),
                wavetrain_recipe_noise(boxes, 1, name, 1e-40),
                wavetrain_recipe_clamp(boxes, 1, -0.7, 0.3),
                wavetrain_recipe_jitter(boxes, 1, name, 0.3, 0.7),
            ]
        };
        let after = control();
        set_control(usual);
        assert_eq!((answers, after), ([1; 5], hostile), "{hostile:#x}");
        made.push(one.answer(3));
    }
    assert!(made.iter().all(|each| *each == made[0]), "{made:?}");
}

#[test]
fn a_list_of_boxes_gets_what_each_gets_alone() {
    let place = |position| Place { epoch: 1, position };
    let mut many: Vec<Augmented> = (0..5).map(|_| Augmented::picture()).collect();
    let mut records: Vec<AugmentedRecord> = many
        .iter_mut()
        .zip(0..)
        .map(|(one, position)| {
            let record = &mut one.record;
            let (target, augment) = (record.target, record.augment);
            let (field, affine) = (record.field, ptr::null_mut());
            let (struct_size, seed, room) = (record.struct_size, 42, Room::BLANK);
            let place = place(position);
            AugmentedRecord { struct_size, seed, place, target, augment, affine, field, room }
        })
        .collect();
    let (first, count) = (records.as_mut_ptr(), records.len() as u64);
    let name = c"erase".as_ptr();
    unsafe {
        assert_eq!(wavetrain_recipe_begin(first, count), DONE);
        assert_eq!(wavetrain_recipe_crop(first, count, name, 4, [32, 24].as_ptr(), 2), DONE);
        let null = ptr::null();
        let erase = wavetrain_recipe_random_erase(first, count, name, 1.0, null, null, null, 0);
        assert_eq!(erase, DONE);
    }
    for (one, position) in many.iter().zip(0..) {
        let (mut target, mut augment) = (SampleBox { rank: 3, ..SampleBox::BLANK }, Augment::EMPTY);
        target.end[..3].copy_from_slice(&[3, 32, 24]);
        let field = Field::new(&[3, 32, 24], Some(0), &[1, 2], 3).unwrap();
        let mut room = Room::BLANK;
        let mut recipes =
            Recipes::begin(&field, 42, place(position), &mut target, &mut augment, &mut room)
                .unwrap();
        recipes.crop("erase", 4, &[32, 24]).unwrap();
        recipes.random_erase("erase", 1.0, [0.02, 0.2], [0.3, 3.3], &[]).unwrap();
        assert_eq!(one.target.begin, target.begin);
        let (ours, theirs) = unsafe { (*augment.erase, *one.augment.erase) };
        assert_eq!((ours.begin, ours.end), (theirs.begin, theirs.end));
    }
}

#[test]
fn pointers_and_names_that_cannot_be_used_are_refused() {
    let mut one = Augmented::picture();
    let boxes = &raw mut *one.record;
    let (name, null) = (c"flip".as_ptr(), ptr::null_mut());
    let flip = |boxes, name| unsafe { wavetrain_recipe_flip(boxes, 1, name, 1.0, 0) };
    assert_eq!(flip(null, name), 0);
    assert_eq!(flip(boxes, ptr::null()), -2);
    assert_eq!(flip(boxes, c"".as_ptr()), -2);
    assert_eq!(flip(boxes, c"\xff".as_ptr()), -2);
    assert_eq!(flip(boxes, CString::new("n".repeat(64)).unwrap().as_ptr()), -2);
    assert_eq!(flip(boxes.wrapping_byte_add(1), name), 0);
    unsafe {
        assert_eq!(wavetrain_recipe_flip(null, 0, name, 1.0, 0), DONE);
        assert_eq!(wavetrain_recipe_flip(boxes, u64::MAX, name, 1.0, 0), 0);
        assert_eq!(wavetrain_recipe_affine(boxes, 1, name, ptr::null()), 0);
        let short = Motion { struct_size: 8, ..Motion::NONE };
        assert_eq!(wavetrain_recipe_affine(boxes, 1, name, &short), 0);
        assert_eq!(wavetrain_recipe_crop(boxes, 1, name, 0, ptr::null(), 2), 0);
        assert_eq!(wavetrain_recipe_key(1, 2, ptr::null()), 0);
        assert_eq!(
            wavetrain_recipe_key(1, 2, name),
            wavetrain::recipes::key(1, 2, b"flip").unwrap()
        );
    }
    let changes: [fn(&mut AugmentedRecord); 6] = [
        |record| record.struct_size -= 8,
        |record| record.target = ptr::null_mut(),
        |record| record.augment = ptr::null_mut(),
        |record| record.affine = record.affine.wrapping_byte_add(1),
        |record| unsafe { (*record.augment).struct_size -= 8 },
        |record| unsafe { (*record.affine).struct_size = 0 },
    ];
    for change in changes {
        let mut one = Augmented::picture();
        change(&mut one.record);
        assert_eq!(flip(&raw mut *one.record, name), 0);
        assert_eq!(one.target.step, [0; 16]);
    }
}

#[test]
fn each_answer_has_its_text() {
    let text = |code| unsafe { CStr::from_ptr(wavetrain_recipe_text(code)) }.to_str().unwrap();
    let all = [
        (0, Misfit::Number),
        (-1, Misfit::Field),
        (-2, Misfit::Name),
        (-3, Misfit::Crop),
        (-4, Misfit::Order),
        (-5, Misfit::Room),
    ];
    for (code, misfit) in all {
        assert_eq!(text(code), misfit.to_string());
    }
    assert_eq!((text(1), text(99)), ("done", text(0)));
}

/// Numbers of 64 bits that are often at an edge.
struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 += 1;
        let drawn = wavetrain::sampler::mix(self.0, 7);
        match drawn % 8 {
            0 => 0,
            1 => u64::MAX >> (drawn >> 3 & 63),
            2 => 1 << (drawn >> 3 & 63),
            3 => u64::MAX - (drawn >> 3 & 3),
            4 => drawn >> 3,
            _ => drawn >> 3 & 31,
        }
    }

    fn float(&mut self) -> f32 {
        let word = self.word();
        if word & 1 == 0 { f32::from_bits(word as u32) } else { (word >> 1 & 1023) as f32 / 256.0 }
    }

    fn call(&mut self, boxes: *mut AugmentedRecord) -> i32 {
        let names = [c"a", c"crop", c"", c"\xff"];
        let name =
            names[if self.word().is_multiple_of(8) { 3 } else { self.0 as usize % 3 }].as_ptr();
        let floats: [f32; 64] = std::array::from_fn(|_| self.float());
        let count = if self.word().is_multiple_of(4) { 64 } else { self.0 as u32 % 4 };
        let (list, words) = (floats.as_ptr(), [self.word(), self.word(), self.word()]);
        let (a, b) = (floats[0], floats[1]);
        unsafe {
            match self.word() % 11 {
                0 => wavetrain_recipe_begin(boxes, 1),
                1 => wavetrain_recipe_crop(boxes, 1, name, words[0], words.as_ptr(), count.min(3)),
                2 => wavetrain_recipe_flip(boxes, 1, name, a, words[0] as u32 & 3),
                3 => {
                    let (degrees, zoom) = ([a, b, floats[2]], [floats[3], floats[4]]);
                    let (shear, shift) = (floats[5], floats[6]);
                    let motion = Motion { degrees, zoom, shear, shift, ..Motion::NONE };
                    wavetrain_recipe_affine(boxes, 1, name, &motion)
                }
                4 => wavetrain_recipe_normalize(boxes, 1, list, count, list, count),
                5 => wavetrain_recipe_jitter(boxes, 1, name, a, b),
                6 => wavetrain_recipe_noise(boxes, 1, name, a),
                7 => wavetrain_recipe_clamp(boxes, 1, a.min(b), a.max(b)),
                8 => wavetrain_recipe_cutout(boxes, 1, name, words[0], list, count),
                _ => {
                    let (scale, ratio) = (floats[2..].as_ptr(), floats[4..].as_ptr());
                    wavetrain_recipe_random_erase(boxes, 1, name, a, scale, ratio, list, count)
                }
            }
        }
    }
}

#[test]
fn structs_full_of_anything_are_refused_or_filled_with_what_push_takes() {
    let (mut dice, mut done) = (Dice(0), 0);
    for round in 0..60_000 {
        let mut one = Augmented::picture();
        let field = &mut one.record.field;
        for _ in 0..dice.word() % 4 {
            let (at, word) = (dice.word() as usize % 3, dice.word());
            match dice.word() % 12 {
                0 => field.rank = word as u32,
                1 => field.channel_axis = word as u32,
                2 => field.n_spatial = word as u32,
                3 => field.spatial[at] = word as u32,
                4 => field.box_spatial[at] = word as u32,
                5 => field.shape[at] = word,
                6 => one.target.begin[at] = word as i64,
                7 => one.target.end[at] = word as i64,
                8 => one.target.step[at] = word as i64,
                9 => one.target.at[at] = word,
                10 => one.augment.n_erase = word as u32,
                _ => one.augment.n_channels = word as u32,
            }
        }
        let is_whole = one.augment.n_erase == 0 && one.augment.n_channels == 0;
        for _ in 0..6 {
            done += u64::from(dice.call(&mut *one.record) == DONE);
        }
        let (augment, shape) = (&one.augment, one.record.field.shape);
        if !is_whole {
            continue;
        }
        assert!(augment.n_erase <= 8 && augment.n_channels <= 64, "{round}");
        assert!(augment.noise_sigma.is_finite() && augment.noise_sigma >= 0.0, "{round}");
        assert!(augment.clamp_low <= augment.clamp_high, "{round}");
        for erase in &one.record.room.erase[..augment.n_erase as usize] {
            let rank = one.record.field.rank as usize;
            let pairs = erase.begin.iter().zip(&erase.end).zip(&shape).take(rank);
            assert!(pairs.clone().all(|((begin, end), most)| begin < end && end <= most));
            assert!(erase.n_values == 1 || erase.n_values == augment.n_channels, "{round}");
        }
    }
    assert!(done > 60_000, "{done}");
}
