//! Samples of several boxes in several fields, through a loader without threads: which samples push
//! takes, what pop gives for them, and what it says that is covered.
//!
//! Checked against box_model.rs, place by place: samples of which two boxes share a place, or that
//! have a box that is wrong, are refused, all others taken; every place of every field holds what
//! its box reads, or pad_value where no box goes. And beside the loader: the corners of each box
//! are the places that it goes to, and boxes and blanks paint every place exactly once.

use super::box_loader::{config, finish, open, push};
use super::box_model::{BoxModel, FieldModel, Painted, Table, paint};
use super::choices::Choices;
use wavetrain::abi::FieldSpec;
use wavetrain::assemble::blanks::for_each_blank;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::{AxisWalk, BoxShape};
use wavetrain::setup::fields::{Field, fields_from_config};
use wavetrain::status::Why;

const FIELDS_MAX: u64 = 4;
const BOXES_MAX: u64 = 12;
const SAMPLES_MAX: u64 = 6;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let count = 1 + choices.below(FIELDS_MAX) as usize;
    let fields: Vec<FieldModel> =
        (0..count).map(|number| FieldModel::choose(&mut choices, number)).collect();
    let specs: Vec<FieldSpec> = fields.iter().map(FieldModel::spec).collect();
    let mut config = config(&mut choices, BOXES_MAX as u32, SAMPLES_MAX as u32);
    Table::of(&specs).put(&mut config);
    let (known, _) = fields_from_config(&config, &mut Why::new()).expect("fields that are right");
    let most = match config.max_boxes_per_sample {
        0 => fields.len(),
        most => most as usize,
    };
    let loader = open(&config);
    let mut pushed: Vec<Vec<Painted>> = Vec::new();
    let mut boxes: Vec<Vec<BoxModel>> = Vec::new();
    for tag in 0..1 + choices.below(SAMPLES_MAX) {
        let count = 1 + choices.below(BOXES_MAX.min(most as u64 + 1));
        let mut sample: Vec<BoxModel> =
            (0..count).map(|_| BoxModel::choose(&mut choices, &fields)).collect();
        if !choices.rarely(3) {
            keep_apart(&fields, &mut sample);
        }
        let known = paint(&fields, &sample).ok().filter(|_| sample.len() <= most);
        let raws = sample.iter().map(BoxModel::raw).collect();
        let is_taken = push(loader, &mut sample, raws, tag).is_none();
        assert_eq!(is_taken, known.is_some(), "sample {tag}");
        let Some(painted) = known else { continue };
        pushed.push(painted);
        boxes.push(sample);
    }
    finish(loader, &fields, pushed.chunks(config.samples_per_batch as usize));
    for sample in &boxes {
        for (number, (field, known)) in fields.iter().zip(&known).enumerate() {
            let of_field: Vec<_> =
                sample.iter().filter(|made| made.field as usize == number).collect();
            check_corners(field, known, &of_field);
        }
    }
}

/// Leaves boxes out that meet one before them, so that more samples are taken.
fn keep_apart(fields: &[FieldModel], sample: &mut Vec<BoxModel>) {
    let mut count = 1;
    while count < sample.len() {
        let rest = sample.split_off(count + 1);
        let is_apart = paint(fields, &sample[..count]).is_err() || paint(fields, sample).is_ok();
        if !is_apart {
            sample.pop();
        }
        sample.extend(rest);
        count += usize::from(is_apart);
    }
}

/// Corners and blanks of a field of a sample that push took.
fn check_corners(field: &FieldModel, known: &Field, boxes: &[&BoxModel]) {
    assert_eq!((known.extents(), known.elements()), (&field.shape[..], field.elements() as u64));
    let mut counts = vec![0; field.elements()];
    let mut corners = Vec::new();
    let strides = |axis: usize| field.shape[axis + 1..].iter().product::<u64>();
    for made in boxes {
        let places = made.places(field).expect("push took it");
        let (low, high) = known.covered_by(&shape(made, field));
        let all = |axis: usize| places.iter().map(move |(target, _)| target[axis]);
        for axis in 0..field.shape.len() {
            let hull = (all(axis).min().unwrap(), all(axis).max().unwrap() + 1);
            assert_eq!((low[axis], high[axis]), hull);
        }
        for (target, _) in &places {
            let at: u64 = target.iter().enumerate().map(|(axis, to)| to * strides(axis)).sum();
            counts[at as usize] += 1;
        }
        corners.push((low, high));
    }
    let mut bytes = [0; RANK_MAX];
    for (axis, stride) in bytes[..field.shape.len()].iter_mut().enumerate() {
        *stride = strides(axis) * u64::from(field.bytes);
    }
    assert_eq!(bytes[..field.shape.len()], known.strides[..field.shape.len()]);
    let of = |number: u32| corners.get(number as usize).copied();
    for_each_blank((&field.shape, &bytes), corners.len() as u32 + 3, &of, &mut |block| {
        block.for_each_plane(u64::from(field.bytes), &mut |plane| {
            for row in 0..plane.count {
                let first = (plane.target + row * plane.target_pitch) / u64::from(field.bytes);
                (first..first + plane.length).for_each(|at| counts[at as usize] += 1);
            }
        });
    });
    assert!(counts.iter().all(|count| *count == 1), "{field:?} {corners:?} {counts:?}");
}

/// The box as the library keeps it.
fn shape(made: &BoxModel, field: &FieldModel) -> BoxShape {
    let mut shape = BoxShape::EMPTY;
    let (at, to) = (&made.at[..field.shape.len()], made.field_axes(field).expect("it was taken"));
    shape.at = at.iter().zip(&field.shape).fold(0, |place, (at, extent)| place * extent + at);
    for (axis, to) in to.into_iter().enumerate() {
        let step = if made.step[axis] == 0 { 1 } else { made.step[axis] };
        let walk = AxisWalk::of(made.begin[axis], made.end[axis], step);
        shape.axes[axis] = walk.expect("it was taken").to_axis(to);
    }
    shape
}
