//! Which axis of a field each axis of a box becomes.
//!
//! In: the places of a box along its axes, and what the caller says of these. Out: an axis of the
//! field for each, or none for one that is dropped.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::List;
use crate::fail;
use crate::setup::fields::Field;
use arrayvec::ArrayVec;

/// The axis of the field that each axis of a box becomes.
pub(super) type FieldAxes = ArrayVec<Option<usize>, RANK_MAX>;

/// Whether the box has the shape of a sample, apart from dropped axes of extent 1; if parts are
/// taken, it may be a part, whose last axes are those of the field.
///
/// Worked example: sample shape [64, 64], box extents [1, 1, 64, 64]: both leading axes are
/// dropped. Which axes of extent 1 are dropped does not matter: the memory is the same. A box of
/// one element, also of rank 0, is that of a sample of one, or any part of another.
pub(super) fn axes_in_order(
    field: &Field,
    extents: &[u64],
    takes_parts: bool,
    why: &mut Why,
) -> Result<FieldAxes, Status> {
    let shape = field.extents();
    let mut axes = FieldAxes::new();
    let (mut matched, mut fits) = (0, true);
    for extent in extents {
        let is_matched = matched < shape.len() && *extent == shape[matched];
        axes.push(is_matched.then_some(matched));
        fits &= is_matched || *extent == 1;
        matched += is_matched as usize;
    }
    let is_scalar = extents.is_empty() && shape.iter().all(|extent| *extent == 1);
    if is_scalar || fits && matched == shape.len() {
        return Ok(axes);
    }
    if takes_parts && extents.iter().all(|extent| *extent == 1) {
        return Ok(extents.iter().map(|_| None).collect());
    }
    let dropped = extents.len().checked_sub(shape.len());
    let part = dropped.filter(|dropped| extents[..*dropped].iter().all(|extent| *extent == 1));
    if let Some(dropped) = part.filter(|_| takes_parts) {
        return Ok((0..extents.len()).map(|axis| axis.checked_sub(dropped)).collect());
    }
    let status = if dropped.is_none() { Status::Rank } else { Status::Invalid };
    let mut parts = extents.iter().rev().zip(shape.iter().rev());
    let is_part = part.is_some() && parts.all(|(extent, whole)| extent <= whole);
    let way_out = match dropped {
        None => "; axes of a box with fewer must name those of the field",
        _ if is_part => "; to give a part, set max_boxes_per_sample",
        _ => "",
    };
    let text = format_args!(
        "{}box extents {} do not give sample_shape {}: only axes of extent 1 may be dropped\
         {way_out}",
        field.of(),
        List(extents),
        List(shape)
    );
    Err(why.fail(status, text))
}

/// The axes that the caller names, each once.
pub(super) fn axes_as_given(
    field: &Field,
    extents: &[u64],
    given: &[u8; RANK_MAX],
    why: &mut Why,
) -> Result<FieldAxes, Status> {
    let mut axes = FieldAxes::new();
    for (axis, extent) in extents.iter().enumerate() {
        let to = usize::from(given[axis]).checked_sub(1);
        let wrong = match to {
            Some(to) if to >= field.extents().len() => "the field has no such axis",
            Some(_) if axes.contains(&to) => "another axis of the box becomes the same",
            None if *extent != 1 => "only an axis of extent 1 may be dropped",
            _ => "",
        };
        if !wrong.is_empty() {
            let (of, given) = (field.of(), given[axis]);
            return Err(fail!(why, Invalid, "{of}axes[{axis}] = {given}: {wrong}"));
        }
        axes.push(to);
    }
    Ok(axes)
}
