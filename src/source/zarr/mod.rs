//! What array metadata says: a metadata document in, an [`ArrayRecord`] out.
//!
//! Comes in: the bytes of a metadata document and the uri it belongs to, for the texts. Goes out: a
//! record that everything after this stage trusts, or a status and a text that names the file, the
//! member, its place in the file and the way out. Nothing here touches a file.
//!
//! Invariant: what is not understood is refused by name before any data is read. A record that is
//! handed out has checked products: chunk bytes, chunks per file, files and chunks of the array,
//! and the padded extents all fit their caps.

mod byte_codecs;
mod codecs;
mod fill;
mod filters;
mod grid;
mod group;
mod key;
mod ngff;
mod node;
mod refusal;
mod zarr2;
mod zarr2_fill;
mod zarr3;

pub use group::{
    Axes, Detail, Entry, Group, GroupDocuments, Level, NodeKind, Visit, group_from_documents,
    node_kind,
};
pub use key::{normalize_uri, write_file_key, write_folder_key};
pub use refusal::GroupRefusal;
pub use zarr2::array_from_zarr2;
pub use zarr3::array_from_zarr3;

use crate::base::abi::{CODECS_TEXT_BYTES, NAME_BYTES};
use crate::base::status::{Status, Why};
use crate::base::text::{Text, part_of};
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, ByteOrder, Codec, DocumentKind, Dtype, Filter, IN_ORDER, IndexLayout,
};
use core::fmt::Write;

/// The record of the array that a document of this kind describes; `uri` names it in texts.
///
/// Errors: DECODE (not what the format says), NOT_FOUND (a group), UNSUPPORTED (well-formed, not
/// read). The runs of a rectilinear grid go to `table`, see [`array_from_zarr3`].
pub fn array_from_document(
    kind: DocumentKind,
    document: &[u8],
    uri: &str,
    table: &mut [EdgeRun],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    match kind {
        DocumentKind::Zarr3 => array_from_zarr3(document, uri, table, why),
        DocumentKind::Zarr2Array => array_from_zarr2(document, uri, why),
        DocumentKind::Zarr2Group => Err(node::not_found(uri, kind.file_name(), IS_GROUP, why)),
    }
}

/// What is said of a group in place of an array.
const IS_GROUP: &str = "is a group: name one of the arrays in it";

/// What `array_info` tells in words.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The element type as the document names it: "float32", "r24"; "<f4", "|V3" in zarr v2.
    pub dtype_name: Text<NAME_BYTES>,
    /// The codecs in the order of encoding: "bytes(little) zstd crc32c", for shards
    /// "sharding_indexed[bytes(little) zstd](index at end, crc32c)", with one "transpose(1,0)" for
    /// all that stand side by side, and filters in front: "delta bytes(little) shuffle zstd". For
    /// zarr v2 the filters, the compressor, if there is one, and the order of the elements: "delta
    /// zstd order C".
    pub codecs: Text<CODECS_TEXT_BYTES>,
}

/// The words for a record.
pub fn describe(record: &ArrayRecord) -> Description {
    if record.document == DocumentKind::Zarr2Array {
        return zarr2::describe_zarr2(record);
    }
    let mut dtype_name = Text::new();
    // Never cut: numbers of at most three digits, and the longest unit.
    let _ = match (record.time, record.dtype) {
        (Some(time), _) => {
            let name = if time.is_delta { "numpy.timedelta64" } else { "numpy.datetime64" };
            write!(dtype_name, "{name}{time}")
        }
        (_, Dtype::Raw) => write!(dtype_name, "r{}", record.dtype_bytes * 8),
        (_, other) => write!(dtype_name, "{}", zarr_name(other)),
    };
    let mut codecs = Text::new();
    let levels = record.shard_levels as usize;
    for level in 0..=levels {
        push_transpose(&mut codecs, record, level);
        codecs.push_str(if level < levels { "sharding_indexed[" } else { "" });
    }
    let is_of_elements =
        |codec: &Codec| codec.is_filter() && !matches!(codec, Codec::Filter(Filter::Shuffle(_)));
    for codec in record.codecs.iter().filter(|codec| is_of_elements(codec)) {
        codecs.push_str(codec.name());
        codecs.push_str(" ");
    }
    codecs.push_str(match record.byte_order {
        _ if record.dtype.word_bytes() == 1 => "bytes",
        ByteOrder::Little => "bytes(little)",
        ByteOrder::Big => "bytes(big)",
    });
    for codec in record.codecs.iter().filter(|codec| !is_of_elements(codec)) {
        codecs.push_str(" ");
        codecs.push_str(codec.name());
    }
    for level in (0..levels).rev() {
        let IndexLayout { at_start, has_crc, byte_order } = record.index[level];
        codecs.push_str(if at_start { "](index at start" } else { "](index at end" });
        codecs.push_str(if byte_order == ByteOrder::Big { ", big" } else { "" });
        codecs.push_str(if has_crc { ", crc32c)" } else { ")" });
    }
    Description { dtype_name, codecs }
}

/// The transpose between the axes of level `level` and those of the level around it, if there is
/// one: "transpose(1,0) ".
fn push_transpose(text: &mut Text<CODECS_TEXT_BYTES>, record: &ArrayRecord, level: usize) {
    let axes = record.axes();
    let outer = if level == 0 { IN_ORDER } else { record.axis_order[level - 1] };
    let inner = record.axis_order[level];
    if inner == outer {
        return;
    }
    for (place, axis) in inner[..axes].iter().enumerate() {
        let from = outer[..axes].iter().position(|other| other == axis).unwrap_or(0);
        // A text that is cut is cut.
        let _ = write!(text, "{}{from}", if place == 0 { "transpose(" } else { "," });
    }
    text.push_str(") ");
}

/// Names of the element types in zarr v3, in the order of DTYPES; "r*" for raw bytes, whose name
/// carries their size.
const ZARR_NAMES: &str = "float32 bfloat16 float16 int32 int64 uint8 int8 uint16 int16 uint32 \
                          uint64 float64 bool complex64 complex128 r*";

fn zarr_name(dtype: Dtype) -> &'static str {
    part_of(ZARR_NAMES, ' ', dtype.place())
}

#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod grid_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod zarr2_tests;
