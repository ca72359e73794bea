//! Arithmetic on the elements of a box, across the C surface.
//!
//! In: a struct of the caller's, and the numbers that it leads to, which may be unaligned. Out:
//! words in a request.

use super::structs::{read_sized, read_struct};
use crate::base::abi::{Augment, CHANNELS_MAX, ERASES_MAX, Erase};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{AugmentHead, AugmentWords};
use crate::surface::augment::{begin, refused_erase};
use core::mem::offset_of;

/// Bytes of the first version of an erased box.
const ERASE_BYTES_MIN: usize = offset_of!(Erase, reserved) + size_of::<u32>();

/// Checks and copies what is done to the elements of a box; nothing where `source` is NULL.
///
/// # Safety
/// `source` is NULL or as the header says, and so is all that it leads to.
pub unsafe fn read_augment(
    target: &mut AugmentWords,
    source: *const Augment,
    why: &mut Why,
) -> Result<(), Status> {
    target.clear();
    if source.is_null() {
        return Ok(());
    }
    // SAFETY: it has the bytes that it states.
    let source = unsafe { read_struct(source, Augment::EMPTY, "augment", why)? };
    let switches = [source.has_clamp, source.pad_goes_through];
    if switches.iter().any(|switch| *switch > 1) || source.reserved != 0 {
        let ([clamp, pad], reserved) = (switches, source.reserved);
        return Err(fail!(
            why,
            Invalid,
            "augment: has_clamp = {clamp}, pad_goes_through = {pad}: 0 or 1; reserved = \
             {reserved}: 0"
        ));
    }
    let (count, has_boxes) = (source.n_erase as usize, !source.erase.is_null());
    let has_none = !has_boxes && source.erase_bytes == 0;
    if count > ERASES_MAX || if count > 0 { !has_boxes } else { !has_none } {
        let text = "and erase must be NULL and erase_bytes 0 if it is 0";
        return Err(fail!(why, Invalid, "augment: n_erase = {count}: 0 to {ERASES_MAX}, {text}"));
    }
    let channels = source.n_channels;
    if channels == 0 && !(source.scale.is_null() && source.bias.is_null()) {
        return Err(fail!(why, Invalid, "augment: n_channels = 0, but scale or bias is not NULL"));
    }
    // More are refused before any is read.
    let numbers = if channels as usize <= CHANNELS_MAX { channels as usize } else { 0 };
    let head = AugmentHead {
        channels,
        channel_axis: source.channel_axis,
        clamp: (source.has_clamp == 1).then_some((source.clamp_low, source.clamp_high)),
        noise: (source.noise_sigma, source.noise_key),
        pad_goes_through: source.pad_goes_through == 1,
    };
    let mut rank = 0;
    for number in 0..count {
        // SAFETY: there are that many boxes.
        let erase = unsafe { read_erase(&source, number, why)? };
        let is_used = |axis: &usize| erase.begin[*axis] != 0 || erase.end[*axis] != 0;
        rank = (rank..RANK_MAX).filter(is_used).map(|axis| axis + 1).max().unwrap_or(rank);
    }
    // SAFETY: each is NULL, or has as many numbers as there are channels.
    let tables = unsafe { (floats(source.scale, numbers), floats(source.bias, numbers)) };
    begin(target, &head, rank, tables, why)?;
    // SAFETY: as above.
    (0..count).try_for_each(|number| unsafe { add_erase(target, &source, (number, rank), why) })
}

/// Copies a box that is erased, of `rank` axes, and its values.
///
/// # Safety
/// As of `read_erase`.
unsafe fn add_erase(
    target: &mut AugmentWords,
    source: &Augment,
    (number, rank): (usize, usize),
    why: &mut Why,
) -> Result<(), Status> {
    // SAFETY: as the caller has it.
    let erase = unsafe { read_erase(source, number, why)? };
    let count = erase.n_values as usize;
    let is_right = !erase.values.is_null() && (1..=CHANNELS_MAX).contains(&count);
    // SAFETY: there are `n_values` values.
    let values = unsafe { floats(erase.values, if is_right { count } else { 0 }) };
    if !is_right || !target.erase(&erase.begin[..rank], &erase.end[..rank], values) {
        return Err(refused_erase(number, count, why));
    }
    Ok(())
}

/// Copies a box that is erased.
///
/// # Safety
/// There are more than `number` boxes of `erase_bytes` bytes.
unsafe fn read_erase(source: &Augment, number: usize, why: &mut Why) -> Result<Erase, Status> {
    let bytes = source.erase_bytes as usize;
    let place = source.erase.wrapping_byte_add(number.wrapping_mul(bytes));
    // SAFETY: the caller has it.
    let erase = unsafe { read_sized(place, (bytes, ERASE_BYTES_MIN), "augment.erase_bytes", why)? };
    match erase.reserved {
        0 => Ok(erase),
        other => Err(fail!(why, Invalid, "augment: erase[{number}].reserved = {other}: 0")),
    }
}

/// The numbers of a table of the caller's; none where it is NULL.
///
/// # Safety
/// It is NULL or has `count` floats, for as long as the result is used.
unsafe fn floats(table: *const f32, count: usize) -> impl ExactSizeIterator<Item = f32> {
    let count = if table.is_null() { 0 } else { count };
    // SAFETY: there are more than `number`.
    (0..count).map(move |number| unsafe { table.add(number).read_unaligned() })
}
