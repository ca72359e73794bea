//! `raw:PATH?dtype=u16&shape=64,128&offset=512`: a file of elements that the uri describes.
//!
//! In: the uri. Out: the record. Invariant: every key is known and given once; what is not said has
//! a default that is written down.

use super::{Elements, SHOWN_BYTES, flat_record, numpy_type};
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::records::{ArrayRecord, ByteOrder, DTYPES, Dtype, RAW_PREFIX};
use arrayvec::ArrayVec;

const FORM: &str = "raw:PATH?dtype=u16&shape=64,128, and &offset=BYTES, &order=F where it is so";

/// The record of a raw file. `sizes`: bytes of the file, and most bytes of a chunk.
pub fn record_from_raw(uri: &str, sizes: (u64, u64), why: &mut Why) -> Result<ArrayRecord, Status> {
    let shown = Tail(uri, SHOWN_BYTES);
    let query = uri.strip_prefix(RAW_PREFIX).and_then(|rest| rest.rsplit_once('?'));
    let Some((_, query)) = query else {
        return Err(fail!(why, Invalid, "{shown}: has no dtype and shape: {FORM}"));
    };
    let (mut dtype, mut shape, mut offset, mut order) = (None, None, None, None);
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_taken = match key {
            "dtype" => dtype.is_none() && put(&mut dtype, dtype_of(value)),
            "shape" => shape.is_none() && put(&mut shape, shape_of(value)),
            "offset" => offset.is_none() && put(&mut offset, value.parse::<u64>().ok()),
            "order" => {
                order.is_none()
                    && put(&mut order, ["C", "F"].iter().position(|known| *known == value))
            }
            _ => false,
        };
        if !is_taken {
            return Err(fail!(why, Invalid, "{shown}: '{pair}' is not understood: {FORM}"));
        }
    }
    let (Some((dtype, dtype_bytes, byte_order)), Some(shape)) = (dtype, shape) else {
        return Err(fail!(why, Invalid, "{shown}: needs dtype and shape: {FORM}"));
    };
    let elements = Elements {
        dtype,
        dtype_bytes,
        byte_order,
        is_column_major: order == Some(1),
        offset: offset.unwrap_or(0),
        ..Elements::BYTES
    };
    flat_record(uri, &shape, &elements, sizes, why)
}

fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    *place = value;
    place.is_some()
}

/// "u16" as this library spells it, and "uint16" as zarr and numpy do, little; ">u2" as numpy's
/// headers do.
fn dtype_of(text: &str) -> Option<(Dtype, u32, ByteOrder)> {
    let is_named = |dtype: &&Dtype| [dtype.name(), dtype.zarr3_name()].contains(&text);
    let named = DTYPES.iter().find(|dtype| is_named(dtype) && **dtype != Dtype::Raw);
    if let Some(dtype) = named {
        return Some((*dtype, dtype.bytes(), ByteOrder::Little));
    }
    let (dtype, bytes, byte_order, time) = numpy_type(text)?;
    (time.is_none() && bytes as usize <= ELEMENT_BYTES_MAX).then_some((dtype, bytes, byte_order))
}

/// "64,128"; nothing of an array of rank 0.
fn shape_of(text: &str) -> Option<ArrayVec<u64, RANK_MAX>> {
    let mut shape = ArrayVec::new();
    for extent in text.split(',').filter(|_| !text.is_empty()) {
        shape.try_push(extent.parse().ok()?).ok()?;
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    fn record(uri: &str, file_bytes: u64) -> Result<ArrayRecord, (Status, String)> {
        let mut why = Why::new();
        record_from_raw(uri, (file_bytes, u64::MAX), &mut why)
            .map_err(|status| (status, why.to_string()))
    }

    #[test]
    fn a_uri_says_type_shape_and_place() {
        let found = record("raw:/a?b/c.bin?dtype=u16&shape=3,4&offset=100", 124).unwrap();
        assert_eq!((found.dtype, found.flat, found.flat_bytes()), (Dtype::U16, Some(100), 124));
        assert_eq!(found.chunk_strides[..2], [8, 2]);
        let found = record("raw:x?shape=3,4&dtype=>f8&order=F", 96).unwrap();
        assert_eq!((found.byte_order, found.chunk_strides[0]), (ByteOrder::Big, 8));
        assert_eq!(record("raw:x?dtype=bf16&shape=", 2).unwrap().rank, 0);
        for dtype in ["f32", "float32", "<f4"] {
            let uri = std::format!("raw:x?dtype={dtype}&shape=3");
            assert_eq!(record(&uri, 12).unwrap().dtype, Dtype::F32, "{dtype}");
        }
    }

    #[test]
    fn what_a_uri_does_not_say_or_says_twice_is_refused() {
        for (uri, text) in [
            ("raw:x", "has no dtype and shape"),
            ("raw:x?dtype=u16", "needs dtype and shape"),
            ("raw:x?dtype=u16&shape=3&shape=4", "'shape=4' is not understood"),
            ("raw:x?dtype=u17&shape=3", "'dtype=u17' is not understood"),
            ("raw:x?dtype=raw&shape=3", "'dtype=raw' is not understood"),
            ("raw:x?dtype=u16&shape=3,,4", "'shape=3,,4' is not understood"),
            ("raw:x?dtype=u16&shape=3&offset=-1", "'offset=-1' is not understood"),
            ("raw:x?dtype=u16&shape=3&endian=big", "'endian=big' is not understood"),
            ("raw:x?dtype=u16&shape=3&", "'' is not understood"),
            ("raw:x?dtype=u16&shape=51", "the file has 100 bytes, its shape needs 102"),
        ] {
            let refused = record(uri, 100).expect_err(uri);
            assert!(refused.1.contains(text), "{}", refused.1);
        }
    }
}
