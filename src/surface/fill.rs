//! What is known of memory, arrays and groups, written into the structs of the header.

use crate::base::abi;
use crate::base::arena::Kind;
use crate::base::status::{Status, Why};
use crate::engine::open::{bill, floor_bill};
use crate::intake::arrays::Uri;
use crate::os::cancel::Uncancelled;
use crate::records::ArrayRecord;
use crate::setup::config::Config;
use crate::source::zarr::{NodeKind, describe};
use crate::surface::entries::EntryWriter;
use crate::surface::entries::write_str;
use crate::surface::info;
use crate::surface::info::checked;

/// Fills the bill; where the cap is too small, with that of the smallest geometry.
pub fn fill_memory(config: &Config, need: &mut abi::Memory, why: &mut Why) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    let settings = checked(config, why)?;
    need.host_align = crate::os::memory::BLOCK_ALIGN;
    need.slot_bytes = settings.host_slots_bytes();
    need.threads = settings.thread_count();
    let (bill, result) = match bill(&settings, why) {
        Ok((bill, _)) => (bill, Ok(())),
        Err(status) => (floor_bill(&settings), Err(status)),
    };
    need.host_bytes = bill.total(Kind::Host);
    need.pinned_bytes = bill.total(Kind::Pinned);
    need.device_bytes = bill.total(Kind::Device);
    need.line_count = bill.lines().len() as u32;
    for (target, line) in need.lines.iter_mut().zip(bill.lines()) {
        target.kind = line.kind as u32;
        target.bytes = line.bytes;
        abi::write_text(&mut target.name, line.name);
    }
    result
}

/// Fills in what lies at a uri; a group only where the caller knows of such (`knows_groups`).
pub fn fill_node(
    uri: &str,
    files: &abi::FilesHook,
    (scratch, knows_groups): (&mut [u8], bool),
    info: &mut abi::ArrayInfo,
    why: &mut Why,
) -> Result<(), Status> {
    let _uncancelled = Uncancelled::enter();
    if !knows_groups {
        fill_array(&info::load(uri, files, scratch, why)?, info);
        return Ok(());
    }
    let mut normal = Uri::new();
    match info::load_node(uri, &mut normal, files, scratch, why)? {
        (info::Node::Array(record), _) => fill_array(&record, info),
        (info::Node::Group(group), rest) => fill_group(&group, rest, info, why)?,
    }
    Ok(())
}

/// Part of the rest of a scratch block, one in so many, that documents of nodes are read into.
const DOCUMENT_PART: usize = 4;

fn fill_group(
    files: &info::GroupFiles<'_>,
    scratch: &mut [u8],
    info: &mut abi::ArrayInfo,
    why: &mut Why,
) -> Result<(), Status> {
    let (documents, block) = scratch.split_at_mut(scratch.len() / DOCUMENT_PART);
    let mut writer = EntryWriter::new(block);
    let group = files.group(why, &mut |entry| writer.add(entry))?;
    info.entry_sources = if group.has_ome { abi::SOURCE_NGFF } else { 0 }
        | if group.has_consolidated { abi::SOURCE_CONSOLIDATED } else { 0 };
    let is_listed = info.entry_sources == 0 && files.can_list();
    if is_listed {
        let is_whole = files.list(documents, why, &mut |entry| writer.add(entry))?;
        info.entry_sources = abi::SOURCE_FOLDER;
        info.entries_are_cut = !is_whole as u32;
    }
    info.kind = group.kind as u32;
    info.image_count = group.image_count;
    info.row_count = group.row_count;
    info.column_count = group.column_count;
    info.field_count = group.field_count;
    write_str(&mut info.ngff_version, group.version);
    write_str(&mut info.name, group.name);
    writer.finish(info, is_listed);
    Ok(())
}

fn fill_array(record: &ArrayRecord, info: &mut abi::ArrayInfo) {
    info.kind = NodeKind::Array as u32;
    let description = describe(record);
    info.rank = record.rank;
    info.dtype = record.dtype as u32;
    info.dtype_bytes = record.dtype_bytes;
    info.byte_order = (record.byte_order == crate::records::ByteOrder::Big) as u32;
    info.shape = record.shape;
    info.chunk_shape = record.chunk_shape;
    info.file_shape = *record.file_shape();
    info.shard_levels = record.shard_levels;
    info.index_at_start = (record.shard_levels > 0 && record.index[0].at_start) as u32;
    info.chunk_bytes = record.chunk_bytes;
    info.fill = record.fill;
    info.is_rectilinear = record.is_rectilinear() as u32;
    info.file_shape_min = record.file_shape_min();
    info.file_counts = record.file_counts();
    abi::write_text(&mut info.dtype_name, description.dtype_name.as_str());
    abi::write_text(&mut info.codecs, description.codecs.as_str());
}
