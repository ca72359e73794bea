//! Metadata of arrays that the host has.
//!
//! In: a uri. Out: a record, or the fact that it is none of the host's.

use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::os::asked::Asked;
use crate::os::store::{Fault, Path};
use crate::read::SHOWN_BYTES;
use crate::records::{ArrayRecord, HOOK_PREFIX};
use crate::source::asked::record_from_info;

/// The record of the array at `uri`; None where nobody is asked for it.
pub fn ask_for(asked: &Asked, uri: &str, why: &mut Why) -> Option<Result<ArrayRecord, Status>> {
    let name = uri.strip_prefix(HOOK_PREFIX)?;
    let shown = Tail(uri, SHOWN_BYTES);
    if !asked.is_there() {
        let way = "only config.source has such arrays, and it is not set";
        return Some(Err(fail!(why, Invalid, "{shown}: {way}")));
    }
    let mut path = Path::new();
    path.push_str(name);
    Some(match asked.describe(&path) {
        Ok(info) => record_from_info(&info, uri, why),
        Err(Fault::Absent) => {
            Err(fail!(why, NotFound, "{shown}: source.describe knows no such array"))
        }
        Err(_) => Err(fail!(why, Io, "{shown}: source.describe reports a failure")),
    })
}
