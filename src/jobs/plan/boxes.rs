//! Whether a sample's box can be had from an array, and which part of the array it reads.
//!
//! In: an array, a queued sample. Out: the half-open box of source elements; or a status with a
//! text that names the axis and the way out.

use crate::assemble::axis::{AxisFault, source_range};
use crate::assemble::cast::Cast;
use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::List;
use crate::fail;
use crate::intake::queue::QueuedSample;
use crate::plan::files_touched;
use crate::records::{ArrayRecord, Dtype};
use crate::state::shared::Shared;

/// What holds for an array in this loader, whatever the box.
pub fn check_record(shared: &Shared, record: &ArrayRecord, why: &mut Why) -> Result<(), Status> {
    let settings = &shared.settings;
    if let Some(time) = record.time
        && !matches!(settings.dtype, Dtype::I64 | Dtype::Raw)
    {
        let name = if time.is_delta { "timedelta64" } else { "datetime64" };
        return Err(fail!(
            why,
            Dtype,
            "{name}{time} is read as its int64 bits alone: set dtype to i64, not {}",
            settings.dtype.name()
        ));
    }
    let cast = Cast::find(record.dtype, record.dtype_bytes, settings.dtype, settings.dtype_bytes);
    if cast.is_none() {
        return Err(fail!(
            why,
            Dtype,
            "no cast from {} ({} bytes) to {} ({} bytes): choose another output dtype",
            record.dtype.name(),
            record.dtype_bytes,
            settings.dtype.name(),
            settings.dtype_bytes
        ));
    }
    let cap = settings.config.max_chunk_uncompressed_bytes;
    let chunk_bytes = record.working_bytes();
    if chunk_bytes > cap {
        let filtered =
            if chunk_bytes > record.chunk_bytes { " as its filters widen it" } else { "" };
        return Err(fail!(
            why,
            Budget,
            "a chunk of {chunk_bytes} bytes{filtered} exceeds max_chunk_uncompressed_bytes = \
             {cap}: raise it"
        ));
    }
    Ok(())
}

/// Coordinates along each axis.
pub type Corner = [u64; RANK_MAX];

/// The part of the array that a sample's box reads, padding included; empty along an axis where it
/// reads nothing.
pub fn source_box(
    shared: &Shared,
    record: &ArrayRecord,
    sample: &QueuedSample,
    why: &mut Why,
) -> Result<(Corner, Corner), Status> {
    if (sample.rank, sample.is_scalar) != (record.rank, record.is_scalar) {
        let boxed = if sample.is_scalar { 0 } else { sample.rank };
        let axes = if record.is_scalar { 0 } else { record.axes() };
        let shape = List(&record.shape[..axes]);
        return Err(fail!(why, Rank, "the box has {boxed} axes, the array {axes}: shape {shape}"));
    }
    let (mut lo, mut hi) = ([0; RANK_MAX], [0; RANK_MAX]);
    for axis in 0..record.axes() {
        let (begin, end, extent) = (sample.begin[axis], sample.end[axis], record.shape[axis]);
        match source_range(begin, end, extent, shared.padding.mode) {
            Ok(range) => (lo[axis], hi[axis]) = range,
            Err(fault) => return Err(axis_failure(axis, begin, end, extent, fault, why)),
        }
    }
    let most = shared.settings.config.max_shards_per_sample;
    let touched = files_touched(record, &lo, &hi);
    if most > 0 && touched > most as u64 {
        return Err(fail!(
            why,
            Invalid,
            "the box touches {touched} files, max_shards_per_sample = {most}: raise it"
        ));
    }
    Ok((lo, hi))
}

fn axis_failure(
    axis: usize,
    begin: i64,
    end: i64,
    extent: u64,
    fault: AxisFault,
    why: &mut Why,
) -> Status {
    let reason = match fault {
        AxisFault::Empty => "the box is empty",
        AxisFault::Outside => "it reaches outside where pad_mode gives no value",
        AxisFault::NoElement => "there is no element to repeat or mirror",
        AxisFault::Overflow => "its length does not fit 63 bits",
    };
    fail!(why, Invalid, "axis {axis}: box [{begin}, {end}) of an extent of {extent}: {reason}")
}
