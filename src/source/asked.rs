//! Arrays that the host describes: `hook:NAME`.
//!
//! In: a uri, and what the host says of it. Out: the record. Invariant: whatever it says, the
//! elements have numbers, and a chunk has a size, that fit.

use crate::base::abi::SourceInfo;
use crate::base::limits::{CHUNK_BYTES_MAX, ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::base::text::{List, Tail};
use crate::fail;
use crate::os::store::{Fault, Path};
use crate::read::SHOWN_BYTES;
use crate::records::{ArrayRecord, ByteOrder, Dtype, HOOK_PREFIX, Origin};
use crate::source::look::{Look, Seen};

/// The array of that name, if it is one of the host's.
pub fn array(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let name = look.uri.strip_prefix(HOOK_PREFIX)?;
    let shown = Tail(look.uri, SHOWN_BYTES);
    if !look.asked.is_there() {
        let way = "only config.source has such arrays, and it is not set: set it";
        return Some(Err(fail!(why, Invalid, "{shown}: {way}")));
    }
    let mut path = Path::new();
    path.push_str(name);
    Some(match look.asked.describe(&path) {
        Ok(info) => record_from_info(&info, look.uri, why).map(|record| {
            *look.record = record;
            Seen::Array
        }),
        Err(Fault::Absent) => {
            Err(fail!(why, NotFound, "{shown}: source.describe knows no such array"))
        }
        Err(_) => Err(fail!(why, Io, "{shown}: source.describe reports a failure")),
    })
}

/// The record of the array at `uri`.
pub fn record_from_info(
    info: &SourceInfo,
    uri: &str,
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let shown = Tail(uri, SHOWN_BYTES);
    let Some(dtype) = Dtype::from_code(info.dtype) else {
        let dtype = info.dtype;
        return Err(fail!(why, Decode, "{shown}: source.describe: dtype = {dtype}: no such type"));
    };
    let (given, bytes) = (info.dtype_bytes, dtype.bytes());
    let is_right = match dtype {
        Dtype::Raw => (1..=ELEMENT_BYTES_MAX as u32).contains(&given),
        _ => given == 0 || given == bytes,
    };
    if !is_right || info.reserved != 0 || info.rank as usize > RANK_MAX {
        let text = "rank, dtype_bytes or reserved is not what the header allows";
        return Err(fail!(why, Decode, "{shown}: source.describe: {text}"));
    }
    let dtype_bytes = if dtype == Dtype::Raw { given } else { bytes };
    let axes = info.rank as usize;
    let (shape, chunk_shape) = (&info.shape[..axes], &info.chunk_shape[..axes]);
    let count = product(shape).filter(|count| *count <= i64::MAX as u64);
    // An extent of 0 is no excuse for the others.
    let is_long = shape.iter().any(|extent| *extent > i64::MAX as u64);
    if count.is_none() || is_long {
        let shape = List(shape);
        return Err(fail!(
            why,
            Decode,
            "{shown}: source.describe: shape {shape}: too many elements"
        ));
    }
    let is_boxes = chunk_shape.iter().all(|extent| *extent == 0) && axes > 0;
    if !is_boxes && chunk_shape.contains(&0) {
        let text = "some extents are 0, and some are not";
        let chunk_shape = List(chunk_shape);
        return Err(fail!(
            why,
            Decode,
            "{shown}: source.describe: chunk_shape {chunk_shape}: {text}"
        ));
    }
    let record = ArrayRecord {
        rank: info.rank,
        dtype,
        dtype_bytes,
        byte_order: if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little },
        shape: info.shape,
        fill: info.fill,
        origin: if is_boxes { Origin::BOXES } else { Origin::CHUNKS },
        ..ArrayRecord::EMPTY
    };
    in_chunks(record, chunk_shape, uri, why)
}

/// The record with its chunks. Those of boxes are cut when the boxes are known.
fn in_chunks(
    mut record: ArrayRecord,
    chunk_shape: &[u64],
    uri: &str,
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let axes = record.axes();
    record.shape[axes..].fill(0);
    if !record.origin.cuts_by_box {
        for (axis, extent) in chunk_shape.iter().enumerate() {
            // Elements past the array are never asked for.
            record.chunk_shape[axis] = (*extent).min(record.shape[axis].max(1));
        }
    }
    let elements = product(&record.chunk_shape[..axes]);
    let bytes = elements.and_then(|count| count.checked_mul(u64::from(record.dtype_bytes)));
    if bytes.is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
        let (shown, chunk_shape) = (Tail(uri, SHOWN_BYTES), List(chunk_shape));
        let text = format_args!("a chunk has at most {CHUNK_BYTES_MAX} bytes");
        return Err(fail!(
            why,
            Decode,
            "{shown}: source.describe: chunk_shape {chunk_shape}: {text}"
        ));
    }
    record.pack_chunk();
    Ok(record)
}
