//! Places of a field that no box of a sample covers.
//!
//! In: the boxes of a sample in its slot. Out: the blocks of those places, which tasks fill with
//! pad_value.

use crate::assemble::blanks::for_each_blank;
use crate::assemble::block::Block;
use crate::base::indexes::BatchSlot;
use crate::records::{BoxRecord, Destination};
use crate::state::shared::Shared;

/// The boxes of a sample, as many as it has.
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
    let boxes = shared.settings.per_sample.boxes;
    let count = boxes_of(shared, (to.slot, to.sample)).count() as u32;
    let corners = |number: u32| {
        let record = shared.box_record(to.slot, to.sample * boxes + number);
        (record.field == to.field).then(|| field.covered_by(&record.shape))
    };
    for_each_blank((field.extents(), &field.strides), count, &corners, each);
}
