//! This is the one way from a name to an array: the sources are asked in their order.
//!
//! In: a look for a name. Out: the thing of that name, or a status and a text. A source is a row of
//! [`PROBES`] and a file in this folder: it opens files and reads them, and `flat` and `zarr` say
//! what their bytes mean.

use crate::base::status::{Status, Why};
use crate::source::look::{Look, Seen};
use crate::source::{asked, cf, fields, files, levels, nodes, parts};

/// A source: None if the uri names nothing of its kind. The text that it leaves then is that of the
/// whole look, unless a later source has an answer.
type Probe = fn(&mut Look<'_>, &mut Why) -> Option<Result<Seen, Status>>;

/// All sources, in their order: a name that has several meanings has the first of them. The mark of
/// a level is a part of the name of something that exists, so levels come after nodes. That of a
/// field never is: stores far away may take it for a query. Nor is that of CF.
const PROBES: [Probe; 9] = [
    cf::array,
    levels::mapped,
    asked::array,
    files::file,
    parts::files,
    fields::field,
    nodes::node,
    levels::level,
    parts::folder,
];

/// Asks the sources. If the packing of a record is not known, `why` says why.
pub fn find(look: &mut Look<'_>, why: &mut Why) -> Result<Seen, Status> {
    let mut answers = PROBES.iter().filter_map(|probe| probe(look, why));
    answers.next().unwrap_or(Err(Status::NotFound))
}
