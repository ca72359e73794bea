//! Facts that are known without a loader: the bill of a config, what an array or a group is, and
//! the caps that an array needs.
//!
//! In: a config or a uri, and the caller's scratch block. Out: structs of the header, filled.

use crate::base::abi::{self, ArrayInfo, FilesHook, Memory, SourceHook, StoreHook, write_text};
use crate::base::bill::Kind;
use crate::base::cpus::CpuSet;
use crate::base::limits::{EDGE_RUNS_MAX, FILE_CHUNK_BYTES, METADATA_BYTES_MAX, PARTS_MAX};
use crate::base::math::align_up;
use crate::base::snapshot::Snapshot;
use crate::base::status::{Status, Why};
use crate::base::text::Uri;
use crate::engine::open;
use crate::fail;
use crate::os::allotted::{cpus_online, ranks};
use crate::os::asked::Asked;
use crate::os::cancel::Uncancelled;
use crate::os::cgroup;
use crate::os::memory::BLOCK_ALIGN;
use crate::os::store::{Fault, Listing, Store};
use crate::os::{Os, SYSTEM};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, ByteOrder, Placement};
use crate::setup::allotted::Allotted;
use crate::setup::config::{Config, MetadataTable};
use crate::setup::fields::ways_to_read;
use crate::setup::settings::{Settings, settings_from_config};
use crate::simd::FloatEnvironment;
use crate::source::cf::mark;
use crate::source::find::find;
use crate::source::groups::{GroupPlace, list_nodes, read_group};
use crate::source::look::{Access, Look, Seen, split_block};
use crate::source::parts::join_headers;
use crate::source::zarr::{Entry, Group, NodeKind, describe, group_from_documents, normalize_uri};
use crate::surface::entries::{EntryWriter, write_str};
use core::ptr;
use static_assertions::const_assert;

pub use crate::base::abi::SCRATCH_BYTES;

const_assert!(SCRATCH_BYTES > METADATA_BYTES_MAX + (EDGE_RUNS_MAX + 1) * size_of::<EdgeRun>());

/// Fills the bill; if the cap is too small, with that of the smallest geometry.
pub fn fill_memory(config: &Config, need: &mut Memory, why: &mut Why) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    let mut checked = checked(&SYSTEM, config, why);
    let settings = &*settle(&mut checked)?;
    need.host_align = BLOCK_ALIGN;
    need.slot_bytes = settings.host_slots_bytes();
    need.threads = settings.thread_count();
    let (bill, result) = match open::bill(settings, why) {
        Ok((bill, _)) => (bill, Ok(())),
        Err(status) => (open::floor_bill(settings), Err(status)),
    };
    need.host_bytes = bill.total(Kind::Host);
    need.pinned_bytes = bill.total(Kind::Pinned);
    need.device_bytes = bill.total(Kind::Device);
    need.shared_bytes = bill.total(Kind::Shared);
    need.line_count = bill.lines().len() as u32;
    for (target, line) in need.lines.iter_mut().zip(bill.lines()) {
        target.kind = line.kind as u32;
        target.bytes = line.bytes;
        write_text(&mut target.name, line.item.name());
    }
    result
}

/// Checks a config on this machine; `settle` follows. Settings take some KB: what borrows them from
/// the result, and does not move them out of it, takes that much less stack.
#[inline(never)] // what is left of a check is not to stand on the stack of all that follows
pub fn checked(os: &Os, config: &Config, why: &mut Why) -> Result<Settings, Status> {
    let allotted = allotted(os, config, why)?;
    // pad_value becomes the same element whatever the host set.
    let _float = FloatEnvironment::enter();
    settings_from_config(config, &allotted, why)
}

/// The CPUs of this thread, or those that the config names, and what limits them.
#[inline(never)] // its sets are not to stand on the stack of all that follows
fn allotted(os: &Os, config: &Config, why: &mut Why) -> Result<Allotted, Status> {
    let (given, online) = (config.cpus.read(why)?, cpus_online(os));
    let beyond = given.zip(online).and_then(|(given, online)| given.first_beyond(&online));
    if let Some(cpu) = beyond {
        let fix = "take it out of cpus, or bring it online";
        return Err(fail!(why, Invalid, "cpus: CPU {cpu} is not online: {fix}"));
    }
    let count = |set: Option<CpuSet>| match set.map_or(0, |set| set.count()) {
        0 => u32::MAX,
        count => count,
    };
    Ok(Allotted {
        quota: cgroup::quota(os).unwrap_or(u32::MAX),
        mask: count(given.or_else(|| Some((os.cpus)()))),
        is_given: given.is_some(),
        online: count(online),
        // An owner decodes for all ranks.
        ranks: if config.share_consumers > 0 { 1 } else { ranks(os) },
        ..Allotted::of(u32::MAX)
    })
}

/// Derives what depends on the memory of settings that were checked: where they lie, because one
/// more copy of them would stand below all that counts that memory.
pub fn settle(checked: &mut Result<Settings, Status>) -> Result<&mut Settings, Status> {
    let settings = checked.as_mut().map_err(|status| *status)?;
    settings.settle(open::floor);
    Ok(settings)
}

/// Raises the caps of `config` to what `count` arrays need, of which `uri` gives the names: the
/// chunk cap, the table of numbered files, and of the memory caps those that are below the floor of
/// the raised config. On failure some of them may be raised.
pub fn fit<'a>(
    config: &mut Config,
    (count, uri): (usize, impl Fn(usize, &mut Why) -> Result<&'a str, Status>),
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    fit_chunks(config, (count, uri), scratch, why)?;
    if fit_memory(config, why)? { bill_of(config, why) } else { Ok(()) }
}

/// Raises the chunk cap and the table of numbered files.
#[inline(never)] // as said of `checked`
fn fit_chunks<'a>(
    config: &mut Config,
    (count, uri): (usize, impl Fn(usize, &mut Why) -> Result<&'a str, Status>),
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let store = Store::new(&SYSTEM, config.files, config.store);
    let store = store.with(Snapshot::of(config.metadata.read(why)?.0));
    let asked = Asked(config.source);
    let (mut normal, mut record) = (Uri::new(), ArrayRecord::EMPTY);
    let (is_stored, is_cf) = ways_to_read(config, why)?;
    let mut parts = 0;
    for number in 0..count {
        let uri = uri(number, why)?;
        // It is not known which field reads the array.
        for is_marked in [false, true] {
            if !(if is_marked { is_cf } else { is_stored }) {
                continue;
            }
            normalize_uri(uri, &mut normal, why)?;
            let marked = if is_marked { mark(&mut normal, "", why) } else { Ok(()) };
            let target = (&mut normal, &mut record);
            match marked.and_then(|()| read(target, (&store, &asked), (scratch, false), why)) {
                Ok(_) => parts += raise_cap(config, &mut record),
                // Only fields without cf read it, or push or pop refuses it again.
                Err(_) if is_marked && is_stored => why.clear(),
                Err(status) => return Err(status),
            }
        }
    }
    config.max_npy_files = config.max_npy_files.max(u32::try_from(parts).unwrap_or(u32::MAX));
    Ok(())
}

/// Raises the chunk cap to what an array needs; the numbered files that it has.
fn raise_cap(config: &mut Config, record: &mut ArrayRecord) -> u64 {
    let chunk_bytes = &mut config.max_chunk_uncompressed_bytes;
    // Chunks that can be cut need no cap of their size; the default costs little.
    let most = Config::DEFAULT.max_chunk_uncompressed_bytes.max(*chunk_bytes);
    record.cut_chunks(most, most);
    let is_any = record.flat.is_some() || record.is_cut;
    let needed = if is_any { 1 } else { open::chunk_cap(record) };
    *chunk_bytes = needed.max(*chunk_bytes);
    if record.is_in_parts() { record.file_counts()[0] } else { 0 }
}

#[inline(never)] // as said of `checked`
fn bill_of(config: &Config, why: &mut Why) -> Result<(), Status> {
    let mut checked = checked(&SYSTEM, config, why);
    open::bill(settle(&mut checked)?, why).map(|_| ())
}

/// Raises the memory caps that are below the floor; whether it had one.
#[inline(never)] // as said of `checked`
fn fit_memory(config: &mut Config, why: &mut Why) -> Result<bool, Status> {
    let mut checked = checked(&SYSTEM, config, why);
    let settings = &*settle(&mut checked)?;
    match open::bill(settings, why) {
        Ok(_) => return Ok(false),
        Err(Status::Budget) => {}
        Err(status) => return Err(status),
    }
    let host = open::floor(settings).bytes;
    if host > settings.host_bytes_max() {
        config.max_host_memory_bytes = align_up(host, 1 << 20);
    }
    let device = open::floor_bill(settings).total(Kind::Device);
    if device > settings.device_bytes_max() {
        config.max_gpu_memory_bytes = device;
    }
    Ok(true)
}

/// Fills in what lies at a uri, read through hooks; a group only if the caller takes groups
/// (`knows_groups`).
pub fn fill_node(
    uri: &str,
    (files, store, source, known): (&FilesHook, &StoreHook, SourceHook, MetadataTable),
    (scratch, knows_groups): (&mut [u8], bool),
    info: &mut ArrayInfo,
    why: &mut Why,
) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    let store = Store::new(&SYSTEM, *files, *store);
    let (store, asked) = (store.with(Snapshot::of(known.read(why)?.0)), Asked(source));
    let (mut normal, mut record) = (Uri::new(), ArrayRecord::EMPTY);
    normalize_uri(uri, &mut normal, why)?;
    let target = (&mut normal, &mut record);
    match read(target, (&store, &asked), (scratch, knows_groups), why)? {
        Found::Array { ends_at } => {
            fill_array(&record, info);
            let ends = ends_at.and_then(|at| scratch.get(at..));
            info.file_ends = ends.map_or(ptr::null(), |ends| ends.as_ptr().cast());
        }
        Found::Group(place) => fill_group(&place, scratch, info, why)?,
    }
    Ok(())
}

/// The kinds of things at a uri.
pub(super) enum Found<'a> {
    /// An array. If it lies in numbered files, their ends may be in the scratch block.
    Array { ends_at: Option<usize> },
    /// A group.
    Group(GroupPlace<'a>),
}

/// Part of the rest of a scratch block, one in so many, that documents of nodes are read into.
const DOCUMENT_PART: usize = 4;

#[inline(never)] // as said of `checked`
fn fill_group(
    place: &GroupPlace<'_>,
    scratch: &mut [u8],
    info: &mut ArrayInfo,
    why: &mut Why,
) -> Result<(), Status> {
    let uri = place.uri;
    let Some((documents, rest)) = read_group(place, scratch, why)? else {
        return Err(fail!(
            why,
            Unsupported,
            "{uri}: the documents of the group do not fit the scratch block: use a larger one"
        ));
    };
    let (buffer, block) = rest.split_at_mut(rest.len() / DOCUMENT_PART);
    let mut writer = EntryWriter::new(block);
    let mut add = |entry: &Entry<'_>| writer.add(entry);
    let group: Group<'_> = {
        let _float = FloatEnvironment::enter();
        group_from_documents(&documents, uri, why, &mut add)?
    };
    info.entry_sources = if group.has_ome { abi::SOURCE_NGFF } else { 0 }
        | if group.has_consolidated { abi::SOURCE_CONSOLIDATED } else { 0 };
    let has_list = info.entry_sources != 0;
    let listed = if has_list { Err(Fault::Unlisted) } else { list_nodes(place, buffer, &mut add) };
    match listed {
        Ok(listing) => {
            info.entry_sources = abi::SOURCE_FOLDER;
            info.entries_are_cut = (listing == Listing::Cut) as u32;
        }
        Err(Fault::Unlisted) => {}
        Err(fault) => return Err(fail!(why, Io, "{uri}: its folder: {fault}")),
    }
    info.kind = group.kind as u32;
    info.image_count = group.image_count;
    info.row_count = group.row_count;
    info.column_count = group.column_count;
    info.field_count = group.field_count;
    write_str(&mut info.ngff_version, group.version);
    write_str(&mut info.name, group.name);
    writer.finish(info, listed.is_ok());
    Ok(())
}

#[inline(never)] // as said of `checked`
fn fill_array(record: &ArrayRecord, info: &mut ArrayInfo) {
    info.kind = NodeKind::Array as u32;
    let description = describe(record);
    info.rank = record.rank;
    info.dtype = record.dtype as u32;
    info.dtype_bytes = record.dtype_bytes;
    info.byte_order = (record.byte_order == ByteOrder::Big) as u32;
    info.shape = record.shape;
    info.chunk_shape = record.chunk_shape;
    let is_flat = record.flat.is_some() && !record.is_in_parts();
    info.file_shape = if is_flat { record.shape } else { *record.file_shape() };
    info.shard_levels = record.shard_levels;
    info.index_at_start = (record.shard_levels > 0 && record.index[0].at_start) as u32;
    info.chunk_bytes = record.chunk_bytes;
    info.fill = record.fill;
    info.is_rectilinear = record.is_rectilinear() as u32;
    info.file_shape_min = if is_flat { record.shape } else { record.file_shape_min() };
    info.file_counts = record.file_counts();
    info.packing = record.packing.bits;
    write_text(&mut info.dtype_name, description.dtype_name.as_str());
    write_text(&mut info.codecs, description.codecs.as_str());
}

/// Reads what lies at a uri, which is normal; that of its document, which another one may stand
/// for, is left in its place. `record` has the facts of an array; the document of a group, if the
/// caller takes groups, lies at the start of `scratch`.
fn read<'a>(
    target: (&'a mut Uri, &mut ArrayRecord),
    (store, asked): (&'a Store, &Asked),
    (scratch, takes_groups): (&mut [u8], bool),
    why: &mut Why,
) -> Result<Found<'a>, Status> {
    let parts = split_scratch(scratch, why)?;
    read_in(target, (store, asked), parts, takes_groups, why)
}

/// The parts of a scratch block: for documents, for the runs of a grid, for a uri.
pub(super) type ScratchParts<'s> = (&'s mut [u8], &'s mut [EdgeRun], &'s mut Uri);

pub(super) fn split_scratch<'s>(
    scratch: &'s mut [u8],
    why: &mut Why,
) -> Result<ScratchParts<'s>, Status> {
    let bytes = scratch.len();
    if bytes < SCRATCH_BYTES {
        return Err(fail!(why, Invalid, "scratch has {bytes} bytes, {SCRATCH_BYTES} are needed"));
    }
    split_block(scratch)
        .ok_or_else(|| fail!(why, Internal, "the scratch block is too small for a uri"))
}

/// The same, of a block that was split.
pub(super) fn read_in<'a>(
    (normal, record): (&'a mut Uri, &mut ArrayRecord),
    (access, asked): (&'a dyn Access, &Asked),
    (buffer, edges, alias): ScratchParts<'_>,
    takes_groups: bool,
    why: &mut Why,
) -> Result<Found<'a>, Status> {
    access.store().refuse_scheme(normal.as_str(), why)?;
    let _float = FloatEnvironment::enter();
    // Ends: what a uri stands for is longer than it, or names files by their numbers.
    loop {
        let mut look = Look {
            access,
            asked,
            uri: normal.as_str(),
            field: None,
            is_cf: false,
            casts_cf: false,
            files_max: PARTS_MAX,
            // Chunks of a flat file are as small as whoever reads it wants them.
            chunk_bytes_max: FILE_CHUNK_BYTES,
            buffer,
            is_large: true,
            record,
            edges,
            alias,
            takes_groups,
            document_bytes: 0,
            version: None,
            placement: Placement::NONE,
        };
        match find(&mut look, why)? {
            // Why its packing is not known is told by a bit.
            Seen::Array => {
                why.clear();
                return Ok(Found::Array { ends_at: None });
            }
            Seen::Parts(count) => {
                // The buffer begins where the scratch block does.
                return join_headers(&mut look, count, why).map(|ends_at| Found::Array { ends_at });
            }
            Seen::Group(kind) => {
                let (uri, document_bytes) = (normal.as_str(), look.document_bytes);
                return Ok(Found::Group(GroupPlace { access, uri, kind, document_bytes }));
            }
            Seen::Alias => {
                normal.clear();
                normal.push_str(alias.as_str());
                why.clear();
            }
            // The scratch holds the largest document that is read.
            Seen::TooLarge => {
                return Err(fail!(why, Internal, "{normal}: the metadata outgrew its cap"));
            }
        }
    }
}
