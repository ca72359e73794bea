//! Arrays and groups of zarr, by their documents.
//!
//! Attributes of elements are never a reason to refuse an array, whose bytes are what they are,
//! unless its elements are to be decoded by them.

use crate::base::abi::PACKING_UNKNOWN;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::read::{ATTRIBUTES_FILE_NAME, Document, SHOWN_BYTES, read_beside, read_document};
use crate::records::{DocumentKind, Packing};
use crate::source::groups::refuse_group;
use crate::source::levels::is_no_path;
use crate::source::look::{Look, Seen};
use crate::source::zarr::{array_from_document, packing_from_attributes, read_cf};

/// The array or group whose document lies at the uri.
pub fn node(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    if is_no_path(look.access.store(), look.uri) {
        return None;
    }
    let Document { kind, bytes, version } =
        match read_document(look.access, look.uri, look.buffer, why) {
            Ok(Some(document)) => document,
            Ok(None) => return Some(Ok(Seen::TooLarge)),
            Err(Status::NotFound) => return None,
            Err(status) => return Some(Err(status)),
        };
    (look.version, look.document_bytes) = (Some(version), bytes.len());
    match array_from_document(kind, bytes, (look.uri, look.field), look.edges, why) {
        Err(Status::NotFound) if look.takes_groups => return Some(Ok(Seen::Group(kind))),
        Err(Status::NotFound) => return Some(refuse_group(look, kind, why)),
        Err(status) => return Some(Err(status)),
        Ok(record) => *look.record = record,
    }
    Some(match kind {
        DocumentKind::Zarr2Array => read_attributes(look, why),
        _ if look.is_cf => {
            let document = ((look.uri, kind.file_name()), bytes);
            let found = read_cf(document, look.casts_cf, look.record, look.edges, why);
            found.map(|()| Seen::Array)
        }
        _ => Ok(Seen::Array),
    })
}

/// Reads the attributes of a zarr v2 array, which lie beside its document; those of v3 are in it.
/// Attributes that cannot be read leave the reason in `why`; they are refused if elements are
/// decoded by them.
fn read_attributes(look: &mut Look<'_>, why: &mut Why) -> Result<Seen, Status> {
    let (file_name, shown) = (ATTRIBUTES_FILE_NAME, Tail(look.uri, SHOWN_BYTES));
    let read = match read_beside(look.access, look.uri, file_name, look.buffer, why) {
        Ok(None) if !look.is_large => return Ok(Seen::TooLarge),
        Ok(None) => Err(fail!(why, Unsupported, "{shown}/{file_name}: too large")),
        read => read,
    };
    let attributes = read.map(|bytes| look.buffer.get(..bytes.unwrap_or(0)).unwrap_or(&[]));
    let packing = attributes.and_then(|attributes| {
        packing_from_attributes(attributes, look.record)
            .map_err(|error| fail!(why, Decode, "{shown}/{file_name}: {error}"))
    });
    let unknown = |_: Status| Packing { bits: PACKING_UNKNOWN, changes: PACKING_UNKNOWN };
    look.record.packing = packing.unwrap_or_else(unknown);
    if look.is_cf {
        packing?;
        let document = ((look.uri, file_name), attributes?);
        read_cf(document, look.casts_cf, look.record, look.edges, why)?;
    }
    Ok(Seen::Array)
}
