//! Whether a box can be had from an array, and what of the array it reads.
//!
//! In: an array, a queued box. Out: the source elements along each axis; or a status with a text
//! that names the axis and the fix.

use crate::assemble::axis::AxisFault;
use crate::assemble::cast::Cast;
use crate::assemble::walk::walk_range;
use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{List, Size};
use crate::fail;
use crate::intake::queue::QueuedBox;
use crate::plan::Reach;
use crate::records::{ArrayRecord, Codec, Dtype};
use crate::setup::fields::Field;
use crate::setup::geometry::chunk_cap_of_scratch;
use crate::state::needs::workspace_pool_need;
use crate::state::shared::Shared;

/// The facts of an array and a field, for any box. `cast`: what makes elements of the field of
/// those of the array, if there is one.
pub fn check_record(
    shared: &Shared,
    record: &ArrayRecord,
    (field, cast): (&Field, Option<Cast>),
    why: &mut Why,
) -> Result<(), Status> {
    let of = field.of();
    if let Some(time) = record.time
        && !matches!(field.dtype, Dtype::I64 | Dtype::Raw)
    {
        let name = if time.is_delta { "timedelta64" } else { "datetime64" };
        return Err(fail!(
            why,
            Dtype,
            "{of}{name}{time} is read as its int64 bits alone: set dtype to i64, not {}",
            field.dtype.name()
        ));
    }
    if cast.is_none() {
        return Err(no_cast(record, field, why));
    }
    let cap = shared.settings.config.max_chunk_uncompressed_bytes;
    let chunk_bytes = record.working_bytes();
    if chunk_bytes > cap {
        let filtered = match chunk_bytes > record.chunk_bytes {
            true if record.is_whole_shard() => " with the shard that it is decoded from",
            true => " as its filters widen it",
            false => "",
        };
        return Err(fail!(
            why,
            Budget,
            "a chunk of {}{filtered} exceeds max_chunk_uncompressed_bytes = {cap}: raise it, or \
             let config_fit set it",
            Size(chunk_bytes)
        ));
    }
    check_workspace(shared, record, why)
}

/// Whether the common scratch has room for what codecs of the array work in beside its chunks.
fn check_workspace(shared: &Shared, record: &ArrayRecord, why: &mut Why) -> Result<(), Status> {
    let (need, pool) = (workspace_pool_need(shared, record), shared.geometry.pool_bytes);
    if need > pool {
        let cap = shared.settings.config.max_chunk_uncompressed_bytes;
        let is_bz2 = record.codecs.iter().any(|codec| matches!(codec, Codec::Bz2(_)));
        let name = if is_bz2 { "bz2" } else { "lzma" };
        return Err(fail!(
            why,
            Budget,
            "{name} takes {} of common scratch for a chunk of this array, and \
             max_chunk_uncompressed_bytes = {cap} makes {}: raise it to {}, or let \
             config_fit set it",
            Size(need),
            Size(pool),
            chunk_cap_of_scratch(need)
        ));
    }
    Ok(())
}

/// Elements of the array do not become those of the field: what they can become.
fn no_cast(record: &ArrayRecord, field: &Field, why: &mut Why) -> Status {
    let of = field.of();
    let given = record.number_type();
    let (from, to) = (given.0.name(), field.dtype.name());
    let bytes = (given.1, field.dtype_bytes);
    let reason =
        format_args!("no cast from {from} ({} bytes) to {to} ({} bytes)", bytes.0, bytes.1);
    let shape = core::fmt::from_fn(|f| {
        let axes = record.shape[..record.axes()].iter().enumerate();
        { axes }
            .try_for_each(|(axis, extent)| write!(f, "{}{extent}", if axis > 0 { "," } else { "" }))
    });
    match record.flat.filter(|_| is_maybe_bf16(record)) {
        // A .npy header has no name for bfloat16, and ml_dtypes writes one of two bytes.
        Some(offset) => fail!(
            why,
            Dtype,
            "{of}{reason}: if it is bfloat16, name it \
             raw:FILE?dtype=bf16&shape={shape}&offset={offset}"
        ),
        None => {
            let targets = core::fmt::from_fn(|f| {
                let types = Cast::targets_of(given.0, given.1, field.is_clamped).enumerate();
                { types }.try_for_each(|(number, dtype)| {
                    write!(f, "{}{}", if number > 0 { ", " } else { "" }, dtype.name())
                })
            });
            let clamped = Cast::find_clamped(given.0, given.1, field.dtype, bytes.1);
            let or = if clamped.is_some() { ", or saturate = 1, which clamps" } else { "" };
            fail!(why, Dtype, "{of}{reason}: set dtype to one of {targets}{or}")
        }
    }
}

/// Whether the elements of a file may be what numpy has no name for.
fn is_maybe_bf16(record: &ArrayRecord) -> bool {
    let is_plain = !record.is_in_parts() && !record.is_scalar && record.pitch == 0;
    (record.dtype, record.dtype_bytes) == (Dtype::Raw, 2) && is_plain
}

/// The range of the array that a box reads, padding included; empty along an axis of which it reads
/// nothing.
pub fn source_box(
    shared: &Shared,
    record: &ArrayRecord,
    queued: &QueuedBox,
    why: &mut Why,
) -> Result<Reach, Status> {
    check_rank(record, queued, why)?;
    let mut reach = Reach::of([0; RANK_MAX], [0; RANK_MAX]);
    let mode = shared.padding(u32::from(queued.field)).mode;
    for axis in 0..record.axes() {
        let (walk, extent) = (&queued.shape.axes[axis], record.shape[axis]);
        match walk_range(walk, extent, mode) {
            Ok((lo, hi)) => {
                (reach.lo[axis], reach.hi[axis]) = (lo, hi);
                reach.step[axis] = walk.step().0 as u32;
            }
            Err(fault) => return Err(axis_failure(axis, walk.range(), extent, fault, why)),
        }
    }
    check_files(shared, record, queued, &reach, why)?;
    Ok(reach)
}

/// Whether a box has as many axes as the array.
pub(super) fn check_rank(
    record: &ArrayRecord,
    queued: &QueuedBox,
    why: &mut Why,
) -> Result<(), Status> {
    if (u32::from(queued.rank), queued.is_scalar) == (record.rank, record.is_scalar) {
        return Ok(());
    }
    let boxed = if queued.is_scalar { 0 } else { queued.rank };
    let axes = if record.is_scalar { 0 } else { record.axes() };
    let (shape, way) = (List(&record.shape[..axes]), "give one range for each axis");
    Err(fail!(why, Rank, "the box has {boxed} axes, the array {axes}: shape {shape}; {way}"))
}

/// Whether a box touches no more files than it may.
pub(super) fn check_files(
    shared: &Shared,
    record: &ArrayRecord,
    queued: &QueuedBox,
    reach: &Reach,
    why: &mut Why,
) -> Result<(), Status> {
    let most = shared.settings.config.max_shards_per_sample;
    let has_files = most > 0 && !queued.is_fed && record.origin.has_files;
    let touched = if has_files { reach.files_touched(record) } else { 0 };
    if touched > most as u64 {
        return Err(fail!(
            why,
            Invalid,
            "the box touches {touched} files, max_shards_per_sample = {most}: raise it"
        ));
    }
    Ok(())
}

pub(super) fn axis_failure(
    axis: usize,
    (begin, end): (i64, i64),
    extent: u64,
    fault: AxisFault,
    why: &mut Why,
) -> Status {
    let reason = match fault {
        AxisFault::Empty => "the box is empty",
        AxisFault::Outside => {
            "it exceeds the array, and pad_mode is none: move the box, or set pad_mode"
        }
        AxisFault::Apart => {
            "it and the array do not meet, as pad_mode reflect needs: move the box, or set \
             pad_mode to edge or constant"
        }
        AxisFault::NoElement => "there is no element to repeat or mirror",
        AxisFault::Overflow => "its length does not fit 63 bits",
        AxisFault::StepsOutside => "steps of more than one element must stay inside",
    };
    fail!(why, Invalid, "axis {axis}: box [{begin}, {end}) of an extent of {extent}: {reason}")
}
