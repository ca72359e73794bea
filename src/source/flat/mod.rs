//! Arrays that are one file of elements as they are: .npy files, and raw files whose uri says the
//! rest.
//!
//! Folders of numbered .npy files are one array, too.
//!
//! In: a uri; of a .npy file its first bytes. Out: an [`ArrayRecord`] whose chunks are parts of the
//! file that nobody wrote as such. Invariant: every byte of every chunk lies in a file of the size
//! that [`ArrayRecord::flat_bytes`] says.

mod members;
mod npy;
mod numbered;
mod raw;

pub use npy::{NpyHeader, npy_header, record_from_npy};
pub use numbered::{Numbered, Pattern, PrefixFinder, Sequence, write_numbered};
pub use raw::record_from_raw;

use crate::base::limits::RANK_MAX;
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::records::{ArrayRecord, ByteOrder, Dtype, RAW_PREFIX, Time, is_npy};
use crate::source::zarr::element_of_kind;

/// Bytes of a uri that an error text shows.
const SHOWN_BYTES: usize = 200;

/// What a uri names by its spelling alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlatKind {
    /// A raw file.
    Raw,
    /// A .npy file, if it is a file.
    Npy,
}

/// Whether a uri names such a file.
pub fn flat_kind(uri: &str) -> Option<FlatKind> {
    if uri.starts_with(RAW_PREFIX) {
        return Some(FlatKind::Raw);
    }
    is_npy(uri).then_some(FlatKind::Npy)
}

/// What is known of the elements of a file.
#[derive(Clone, Copy, Debug)]
struct Elements {
    dtype: Dtype,
    dtype_bytes: u32,
    byte_order: ByteOrder,
    time: Option<Time>,
    is_column_major: bool,
    /// First byte of the first one, of structured ones that of the first of those.
    offset: u64,
    /// Bytes of the structured element that one lies in; 0: it lies in none.
    pitch: u32,
    /// Bytes before it in that element.
    first: u64,
}

impl Elements {
    const BYTES: Elements = Elements {
        dtype: Dtype::U8,
        dtype_bytes: 1,
        byte_order: ByteOrder::Little,
        time: None,
        is_column_major: false,
        offset: 0,
        pitch: 0,
        first: 0,
    };
}

/// Type, bytes and order of an element, and its unit of time.
type ElementType = (Dtype, u32, ByteOrder, Option<Time>);

/// An element type as numpy spells it: "<f4", ">u2", "|b1", "|V3". None where it is none that is
/// read.
fn numpy_type(text: &str) -> Option<ElementType> {
    let (order, kind) = text.split_at_checked(1)?;
    elements_of(order, kind)
}

fn elements_of(order: &str, kind: &str) -> Option<ElementType> {
    let (dtype, dtype_bytes, time) = element_of_kind(kind)?;
    let native = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
    let byte_order = match (order, dtype.word_bytes()) {
        ("<" | ">" | "|" | "=", 1) | ("<", _) => ByteOrder::Little,
        (">", _) => ByteOrder::Big,
        ("=", _) => native,
        _ => return None,
    };
    Some((dtype, dtype_bytes, byte_order, time))
}

/// The record of a file of `file_bytes` bytes. Its chunks have at most `most` bytes.
fn flat_record(
    uri: &str,
    shape: &[u64],
    elements: &Elements,
    (file_bytes, most): (u64, u64),
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let (rank, pitch) = (shape.len(), elements.pitch);
    let bytes = u64::from(if pitch > 0 { pitch } else { elements.dtype_bytes });
    let shown = Tail(uri, SHOWN_BYTES);
    if rank > RANK_MAX {
        return Err(fail!(why, Unsupported, "{shown}: {rank} axes, at most {RANK_MAX} are read"));
    }
    let all = product(shape).and_then(|count| count.checked_mul(bytes));
    let Some(all) = all.filter(|all| all.checked_add(elements.offset + bytes).is_some()) else {
        return Err(fail!(why, Decode, "{shown}: its shape is of more elements than any file has"));
    };
    let needed = elements.offset + all;
    if file_bytes < needed {
        return Err(fail!(
            why,
            Decode,
            "{shown}: the file has {file_bytes} bytes, its shape needs {needed}"
        ));
    }
    let mut record = ArrayRecord {
        rank: rank as u32,
        dtype: elements.dtype,
        dtype_bytes: elements.dtype_bytes,
        byte_order: elements.byte_order,
        time: elements.time,
        // Without elements the file may end before the first.
        flat: Some(elements.offset + if all > 0 { elements.first } else { 0 }),
        pitch,
        // No folder is asked for a file.
        separator: b'.',
        ..ArrayRecord::EMPTY
    };
    record.shape[..rank].copy_from_slice(shape);
    let mut order = record.axis_order[0];
    if elements.is_column_major {
        order[..rank].reverse();
        record.axis_order[0] = order;
    }
    record.cut_file(record.shape[0], most);
    Ok(record)
}
