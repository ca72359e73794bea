//! A map from the places of a box to voxels, across the C surface.
//!
//! In: a struct of the caller's. Out: words in a request.

use super::structs::read_struct;
use crate::base::abi;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{Affine, AugmentWords};

/// Checks and copies the map of a box; nothing where `source` is NULL.
///
/// # Safety
/// `source` is NULL or as the header says.
pub unsafe fn read_affine(
    target: &mut AugmentWords,
    source: *const abi::Affine,
    why: &mut Why,
) -> Result<(), Status> {
    if source.is_null() {
        return Ok(());
    }
    // SAFETY: it has the bytes that it states.
    let source = unsafe { read_struct(source, abi::Affine::EMPTY, "affine", why)? };
    let abi::Affine { rank, axes, matrix, filter, level, has_units, reserved, .. } = source;
    if has_units > 1 || reserved != 0 {
        let text = "0 or 1";
        return Err(fail!(
            why,
            Invalid,
            "affine: has_units = {has_units}: {text}; reserved = {reserved}: 0"
        ));
    }
    target.map(&Affine { rank, axes, matrix, filter, level, has_units: has_units == 1 });
    Ok(())
}
