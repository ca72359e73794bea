//! What array metadata says: a metadata document in, an [`ArrayRecord`] out.
//!
//! Comes in: the bytes of a metadata document and the uri it belongs to, for the texts. Goes out: a
//! record that everything after this stage trusts, or a status and a text that names the file, the
//! member, its place in the file and the way out. Nothing here touches a file.
//!
//! Invariant: what is not understood is refused by name before any data is read. A record that is
//! handed out has checked products: chunk bytes, chunks per file, files and chunks of the array,
//! and the padded extents all fit their caps.

mod codecs;
mod describe;
mod fill;
mod filters;
mod grid;
mod group;
mod key;
mod named_codecs;
mod ngff;
mod node;
mod packing;
mod refusal;
mod selection;
mod zarr2;
mod zarr3;

pub use describe::describe;
pub use group::{
    Axes, Detail, Entry, Group, GroupDocuments, Level, NodeKind, Visit, group_from_documents,
    node_kind,
};
pub use key::{
    normalize_uri, spelling_of_name, write_file_key, write_file_key_as, write_folder_key,
};
pub use packing::packing_from_attributes;
pub use refusal::GroupRefusal;
pub use selection::{LevelFinder, Selection, split_selection};
pub use zarr2::{array_from_zarr2, element_of_kind};
pub use zarr3::array_from_zarr3;

use crate::base::status::{Status, Why};
use crate::base::text::part_of;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DTYPES, DocumentKind, Dtype};

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
        DocumentKind::Zarr2Group => Err(GroupRefusal::new(kind).refuse(uri, why)),
    }
}

/// What is said of a group in place of an array.
const IS_GROUP: &str = "is a group: name one of the arrays in it";

/// Names of the element types in zarr v3, in the order of DTYPES; "r*" for raw bytes, whose name
/// carries their size.
const ZARR_NAMES: &str = "float32 bfloat16 float16 int32 int64 uint8 int8 uint16 int16 uint32 \
                          uint64 float64 bool complex64 complex128 r*";

fn zarr_name(dtype: Dtype) -> &'static str {
    part_of(ZARR_NAMES, ' ', dtype.place())
}

/// The element type of this name in zarr v3.
fn dtype_of_name(name: &str) -> Option<Dtype> {
    ZARR_NAMES.split(' ').position(|known| known == name).map(|place| DTYPES[place])
}

/// The number that digits spell; parse alone would also take a sign, and zeros in front.
fn number_of(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.starts_with(|first| ('1'..='9').contains(&first)))
}

#[cfg(test)]
mod fill_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod grid_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod zarr2_fill_tests;
#[cfg(test)]
mod zarr2_tests;
