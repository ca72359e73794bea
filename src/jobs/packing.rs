//! Packing: attributes of elements are read beside the document, and reported once per array.
//!
//! In: the record of an array. Out: its packing, and a line of the log where it changes something.
//! Attributes are never a reason to refuse an array: its bytes are what they are.

use crate::base::abi::PACKING_UNKNOWN;
use crate::base::cache::hash_bytes;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::jobs::parts::Access;
use crate::os::sink::Level;
use crate::read::{ATTRIBUTES_FILE_NAME, SHOWN_BYTES, read_beside};
use crate::records::{ArrayRecord, DocumentKind, Packing};
use crate::source::zarr::packing_from_attributes;
use crate::state::lock::Lock;

/// Reads the attributes of a zarr v2 array, which lie beside its document, into `buffer`; those of
/// v3 are in it. False where `buffer` is too small and not large already. Attributes that cannot be
/// read leave the reason in `why`.
#[inline(never)] // as look_for
pub fn read_packing(
    access: &mut Access<'_, '_>,
    uri: &str,
    (buffer, is_large): (&mut [u8], bool),
    record: &mut ArrayRecord,
    why: &mut Why,
) -> bool {
    if record.document != DocumentKind::Zarr2Array || record.flat.is_some() {
        return true;
    }
    let file_name = ATTRIBUTES_FILE_NAME;
    let read = read_beside(access.store, &mut access.open, uri, file_name, buffer, why);
    let packing = match read {
        Ok(None) if !is_large => return false,
        Ok(None) => Err(fail!(why, Unsupported, "{}/{file_name}: too large", shown(uri))),
        Ok(Some(bytes)) => packing_from_attributes(buffer.get(..bytes).unwrap_or(&[]), record)
            .map_err(|error| fail!(why, Decode, "{}/{file_name}: {error}", shown(uri))),
        Err(status) => Err(status),
    };
    let unknown = |_: Status| Packing { bits: PACKING_UNKNOWN, changes: PACKING_UNKNOWN };
    record.packing = packing.unwrap_or_else(unknown);
    true
}

fn shown(uri: &str) -> Tail<'_> {
    Tail(uri, SHOWN_BYTES)
}

/// Logs, once for each array, that its elements come out packed; `why` says why that is not known.
pub fn tell_packing(lock: &Lock, uri: &str, record: &ArrayRecord, why: &Why) {
    let changes = record.packing.changes;
    if changes == 0 || lock.lock().arrays.is_told(hash_bytes(uri.as_bytes())) {
        return;
    }
    let sink = &lock.shared.sink;
    if changes & PACKING_UNKNOWN != 0 {
        let text = "so whether the elements of the array are packed is not known";
        return sink.log(Level::Warn, 0, format_args!("{why}: {text}"));
    }
    let names = Names(changes);
    let text = "elements come out packed, as they are stored, so apply this to what comes out";
    let uri = shown(uri);
    sink.log(Level::Warn, 0, format_args!("{uri}: its attributes have {names}: {text}"));
}

/// The names of attributes, as a text lists them.
struct Names(u32);

impl core::fmt::Display for Names {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut separator = "";
        for name in Packing::names(self.0) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}
