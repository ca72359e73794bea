//! Places of a field that no box of a sample covers.
//!
//! In: the boxes of a sample in its slot. Out: the blocks of those places, which tasks fill with
//! pad_value.

use crate::assemble::blanks::for_each_blank;
use crate::assemble::block::Block;
use crate::base::indexes::BatchSlot;
use crate::base::limits::BOXES_MAX;
use crate::records::{BoxRecord, Destination};
use crate::state::shared::Shared;
use arrayvec::ArrayVec;

/// The boxes of a sample, as many as it has, runs of index lists one by one.
fn boxes_of(
    shared: &Shared,
    (slot, sample): (BatchSlot, u32),
) -> impl Iterator<Item = &'static BoxRecord> {
    let boxes = shared.settings.per_sample.boxes;
    let record = move |number: u32| shared.box_record(slot, sample * boxes + number);
    (0..boxes).map(record).take_while(|record| record.field != BoxRecord::EMPTY.field)
}

/// Whether the boxes of a sample cover all of a field: they do not overlap.
pub fn is_covered(shared: &Shared, of: (BatchSlot, u32), field: u32) -> bool {
    let boxes = boxes_of(shared, of).filter(|record| record.field == field);
    let elements = |record: &BoxRecord| -> u64 {
        record
            .shape
            .axes
            .iter()
            .map(|walk| if walk.to().is_some() { walk.places() } else { 1 })
            .product()
    };
    boxes.map(elements).sum::<u64>() == shared.field(field).elements()
}

/// Calls `each` for the blocks of a field of a sample that no box covers.
pub fn for_each_blank_of(shared: &Shared, to: Destination, each: &mut dyn FnMut(&Block)) {
    let field = shared.field(to.field);
    let first = to.sample * shared.settings.per_sample.boxes;
    let record = |number: u32| shared.box_record(to.slot, first + number);
    // The runs of an index list are one box here, from the first of them to the last.
    let mut heads = ArrayVec::<u32, { BOXES_MAX as usize }>::new();
    let boxes = (0..).zip(boxes_of(shared, (to.slot, to.sample)));
    heads.extend(boxes.filter(|(_, record)| record.runs > 0).map(|(number, _)| number));
    let corners = |number: u32| {
        let head = heads[number as usize];
        let (begin, end) = (record(head), record(head + record(head).runs - 1));
        let is_of = begin.field == to.field;
        is_of.then(|| (field.covered_by(&begin.shape).0, field.covered_by(&end.shape).1))
    };
    for_each_blank((field.extents(), &field.strides), heads.len() as u32, &corners, each);
}
