//! The look-up of metadata for loaders elsewhere.
//!
//! In: a uri, and the hooks of a config. Out: records in the caller's memory, which a config takes.

use crate::base::abi::MetadataPart;
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::base::text::Uri;
use crate::fail;
use crate::os::SYSTEM;
use crate::os::asked::Asked;
use crate::os::cancel::Uncancelled;
use crate::os::folder::Folder;
use crate::os::store::{Path, Store};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, HOOK_PREFIX, RAW_PREFIX};
use crate::setup::config::Config;
use crate::setup::fields::ways_to_read;
use crate::source::cf::mark;
use crate::source::look::Access;
use crate::source::paths::write_file_path;
use crate::source::recorder::{Recorder, read_indexes};
use crate::source::zarr::normalize_uri;
use crate::surface::info::{ScratchParts, read_in, split_scratch};

/// Looks up a part of the metadata of an array: its documents if `part.first_shard` is 0, and the
/// indexes of `part.shard_count` shards. Records go to `target`.
pub fn look_up(
    config: &Config,
    uri: &str,
    (scratch, target): (&mut [u8], &mut [u8]),
    part: &mut MetadataPart,
    why: &mut Why,
) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    let room = target.len();
    (part.written, part.shards) = (0, 0);
    let store = Store::new(&SYSTEM, config.files, config.store);
    let recorder = Recorder::new(&SYSTEM, &store, target);
    look_up_into(config, uri, &recorder, scratch, part, why)?;
    let Some(written) = recorder.finish() else {
        let way = "give more, or ask for fewer shards";
        return Err(fail!(why, Budget, "{uri}: out_bytes = {room} is too little: {way}"));
    };
    part.written = written as u64;
    Ok(())
}

fn look_up_into(
    config: &Config,
    uri: &str,
    recorder: &Recorder<'_>,
    scratch: &mut [u8],
    part: &mut MetadataPart,
    why: &mut Why,
) -> Result<(), Status> {
    // Those of the first part were noted before.
    let notes_documents = part.first_shard == 0;
    let access: &dyn Access = if notes_documents { recorder } else { recorder.store() };
    let (buffer, edges, alias) = split_scratch(scratch, why)?;
    let (mut normal, mut record) = (Uri::new(), ArrayRecord::EMPTY);
    let parts = (&mut *buffer, &mut *edges, alias);
    find(config, uri, access, (&mut normal, &mut record), parts, why)?;
    if record.shard_levels == 0 {
        return Ok(());
    }
    part.shards = product(&record.file_counts()).unwrap_or(u64::MAX);
    let edges = edges.get(..record.runs_used() as usize).unwrap_or(&[]);
    read_shards(recorder, (normal.as_str(), &record, edges), part, buffer, why)
}

/// Reads the indexes of the shards of a part.
#[inline(never)] // its path and record are not to stand on the stack of all that precedes
fn read_shards(
    recorder: &Recorder<'_>,
    (uri, record, edges): (&str, &ArrayRecord, &[EdgeRun]),
    part: &MetadataPart,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let limit = part.first_shard.saturating_add(part.shard_count).min(part.shards);
    let (mut path, mut own) = (Path::new(), None);
    for shard in part.first_shard..limit {
        if recorder.is_full() {
            break;
        }
        path.clear();
        let of_file = record.of_file_in(edges, shard, &mut own);
        write_file_path(uri, of_file, shard, &mut path);
        read_indexes(recorder, of_file, &path, buffer, why)?;
    }
    Ok(())
}

/// Reads the documents of an array, in each way in which a field of the config reads it.
fn find(
    config: &Config,
    uri: &str,
    access: &dyn Access,
    (normal, record): (&mut Uri, &mut ArrayRecord),
    (buffer, edges, alias): ScratchParts<'_>,
    why: &mut Why,
) -> Result<(), Status> {
    let asked = Asked(config.source);
    let (is_stored, is_cf) = ways_to_read(config, why)?;
    for is_marked in [true, false] {
        if !(if is_marked { is_cf } else { is_stored }) {
            continue;
        }
        normalize_uri(uri, normal, why)?;
        make_absolute(access, normal, why)?;
        let marked = if is_marked { mark(normal, "", why) } else { Ok(()) };
        let parts = (&mut *buffer, &mut *edges, &mut *alias);
        let target = (&mut *normal, &mut *record);
        let found = marked.and_then(|()| read_in(target, (access, &asked), parts, false, why));
        match found {
            Ok(_) => {}
            // Only fields without cf read it.
            Err(_) if is_marked && is_stored => why.clear(),
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// A loader asks for files by absolute paths.
#[inline(never)] // the folder is not to stand on the stack of all that follows
fn make_absolute(access: &dyn Access, uri: &mut Uri, why: &mut Why) -> Result<(), Status> {
    let store = access.store();
    store.refuse_scheme(uri.as_str(), why)?;
    if !store.row.has_paths || uri.as_str().starts_with(HOOK_PREFIX) {
        return Ok(());
    }
    Folder::current(&SYSTEM).fix(uri, RAW_PREFIX, why)
}
