//! The meaning of array metadata: a metadata document in, an [`ArrayRecord`] out.
//!
//! Comes in: the bytes of a metadata document and the uri it belongs to, for the texts. Goes out: a
//! record that everything after this stage trusts, or a status and a text that names the file, the
//! member, its place in the file and the fix. Nothing in this room touches a file.
//!
//! Invariant: what is not understood is refused by name before any data is read. A record that is
//! handed out has checked products: chunk bytes, chunks per file, files and chunks of the array,
//! and the padded extents all fit their caps.

mod cf;
mod codecs;
mod describe;
mod entry;
mod fill;
mod filters;
mod grid;
mod group;
mod key;
mod lzma;
mod named_codecs;
mod names;
mod ngff;
mod node;
mod packing;
mod refusal;
mod reshape;
mod selection;
mod shards;
mod structs;
mod transforms;
mod values;
mod zarr2;
mod zarr3;

pub use cf::read_cf;
pub use describe::describe;
pub use entry::{Axes, Detail, Entry, Group, Level, NodeKind, Visit};
pub use group::{GroupDocuments, group_from_documents, node_kind};
pub use key::{
    normalize_uri, spelling_of_name, write_file_key, write_file_key_as, write_folder_key,
};
pub(crate) use ngff::VERSIONS_READ;
pub use packing::packing_from_attributes;
pub use refusal::GroupRefusal;
pub use selection::{LevelFinder, Selection, split_selection};
pub use zarr2::{array_from_zarr2, element_of_kind};
pub use zarr3::array_from_zarr3;

use crate::base::status::{Status, Why};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DocumentKind};

/// The record of the array that a document of this kind describes, or of a field of its structured
/// elements; `uri` names it in texts.
///
/// Errors: DECODE (not what the format says), NOT_FOUND (a group), UNSUPPORTED (well-formed, not
/// read). The runs of a rectilinear grid go to `table`, see [`array_from_zarr3`].
pub fn array_from_document(
    kind: DocumentKind,
    document: &[u8],
    (uri, field): (&str, Option<&str>),
    table: &mut [EdgeRun],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    match kind {
        DocumentKind::Zarr3 => array_from_zarr3(document, (uri, field), table, why),
        DocumentKind::Zarr2Array => array_from_zarr2(document, (uri, field), why),
        DocumentKind::Zarr2Group => Err(GroupRefusal::new(kind).refuse(uri, why)),
    }
}

#[cfg(test)]
mod fill_tests;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod grid_tests;
#[cfg(test)]
mod reshape_tests;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod small_tests;
#[cfg(test)]
mod struct_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod value_tests;
#[cfg(test)]
mod zarr2_fill_tests;
#[cfg(test)]
mod zarr2_tests;
