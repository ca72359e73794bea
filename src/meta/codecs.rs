//! Codec lists: the chain of a chunk, and the shard around it.
//!
//! Comes in: the member `codecs`. Goes out: byte order, codec chain, shard shape and index layout
//! in a record. Sources: zarr v3 core, section Codecs; the specifications of `bytes` and
//! `sharding_indexed`. Codecs from bytes to bytes are told in `byte_codecs`.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::byte_codecs::{check_configuration, codec_from_name};
use super::node::{Extension, Extents, Node, Reader};
use crate::base::math::product;
use crate::base::text::List;
use crate::limits::{CODECS_MAX, SHARD_CHUNKS_MAX};
use crate::records::{ArrayRecord, ByteOrder, Codec, CodecChain, IndexLayout};
use crate::status::Status;

/// Codecs of the specifications that turn arrays into arrays.
const ARRAY_TO_ARRAY: [&str; 1] = ["transpose"];

/// Reads `codecs` into `record`, whose rank, dtype and chunk_shape (the shape of the outer chunk
/// grid) are set.
pub(super) fn read_codecs(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let mut items = reader.items(node)?;
    let Some(first) = items.next() else {
        return Err(reader.decode(node, format_args!("the list of codecs is empty")));
    };
    let first = reader.extension(&first)?;
    if first.name != *"sharding_indexed" {
        let (byte_order, codecs) = read_chain(reader, node, record.dtype.word_bytes())?;
        record.byte_order = byte_order;
        record.codecs = codecs;
        return Ok(());
    }
    if let Some(behind) = items.next() {
        let name = reader.extension(&behind)?.name;
        let reason = format_args!("codec {name} behind sharding_indexed is not read");
        return Err(reader.unsupported(&behind, reason));
    }
    read_shard(reader, &first, record)
}

/// The configuration of a shard whose shape is `record.chunk_shape` so far.
fn read_shard(
    reader: &mut Reader<'_>,
    shard: &Extension<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let Some(parent) = &shard.configuration else {
        return Err(reader.decode(&shard.node, format_args!("member \"configuration\" is missing")));
    };
    let names = ["chunk_shape", "codecs", "index_codecs", "index_location"];
    let [chunk_shape, codecs, index_codecs, location] = reader.pick_all(parent, &names)?;
    let chunk_shape = reader.required(parent, "chunk_shape", chunk_shape)?;
    let codecs = reader.required(parent, "codecs", codecs)?;
    let index_codecs = reader.required(parent, "index_codecs", index_codecs)?;
    let axes = record.axes();
    record.shard_levels = 1;
    record.shard_shape[0] = record.chunk_shape;
    let inner = reader.extents(&chunk_shape, 1)?;
    check_division(reader, &chunk_shape, &record.shard_shape[0][..axes], &inner)?;
    record.chunk_shape[..axes].copy_from_slice(&inner);
    let (byte_order, chain) = read_chain(reader, &codecs, record.dtype.word_bytes())?;
    record.byte_order = byte_order;
    record.codecs = chain;
    record.index[0] = read_index_codecs(reader, &index_codecs)?;
    if let Some(location) = location {
        let name = reader.string(&location)?;
        record.index[0].at_start = name == *"start";
        if name != *"start" && name != *"end" {
            let reason = format_args!("{name} is neither \"start\" nor \"end\"");
            return Err(reader.unsupported(&location, reason));
        }
    }
    Ok(())
}

/// Whether chunks of `inner` divide a shard of `outer` exactly, into not too many.
fn check_division(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    outer: &[u64],
    inner: &Extents,
) -> Result<(), Status> {
    let is_divided = outer.len() == inner.len()
        && outer.iter().zip(inner).all(|(shard, chunk)| shard % chunk == 0);
    if !is_divided {
        let (chunk, shard) = (List(inner), List(outer));
        let reason = format_args!("chunks of {chunk} do not divide shards of {shard}");
        return Err(reader.decode(node, reason));
    }
    let mut counts = Extents::new();
    for (shard, chunk) in outer.iter().zip(inner) {
        counts.push(shard / chunk);
    }
    if product(&counts).is_none_or(|count| count > SHARD_CHUNKS_MAX) {
        let counts = List(&counts);
        let reason = format_args!(
            "{counts} chunks per shard, more than {SHARD_CHUNKS_MAX}: use larger chunks"
        );
        return Err(reader.unsupported(node, reason));
    }
    Ok(())
}

/// The codecs of a chunk: `bytes`, then bytes-to-bytes codecs.
fn read_chain(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    word_bytes: u32,
) -> Result<(ByteOrder, CodecChain), Status> {
    let mut items = reader.items(node)?;
    let Some(first) = items.next() else {
        return Err(reader.decode(node, format_args!("the list of codecs is empty")));
    };
    let first = reader.extension(&first)?;
    let byte_order = read_array_to_bytes(reader, &first, word_bytes)?;
    let mut codecs = CodecChain::new();
    for item in items {
        let extension = reader.extension(&item)?;
        let codec = read_bytes_to_bytes(reader, &extension)?;
        if codec.is_compressor() && codecs.iter().any(|before| before.is_compressor()) {
            let name = codec.name();
            let reason = format_args!("{name} behind another compressor is not read");
            return Err(reader.unsupported(&item, reason));
        }
        if codecs.try_push(codec).is_err() {
            let reason = format_args!("more than {CODECS_MAX} codecs behind bytes are not read");
            return Err(reader.unsupported(node, reason));
        }
    }
    Ok((byte_order, codecs))
}

/// The first codec of a chain, which must be `bytes`.
fn read_array_to_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    word_bytes: u32,
) -> Result<ByteOrder, Status> {
    let Extension { node, name, .. } = extension;
    if *name == *"bytes" {
        return read_bytes(reader, extension, word_bytes);
    }
    if *name == *"sharding_indexed" {
        return Err(reader.unsupported(node, format_args!("a shard inside a shard is not read")));
    }
    if codec_from_name(extension).is_some() {
        let reason = format_args!("codec {name} must stand behind \"bytes\"");
        return Err(reader.decode(node, reason));
    }
    if ARRAY_TO_ARRAY.iter().any(|known| *name == **known) {
        let reason = format_args!("codec {name} is not read: write the array without it");
        return Err(reader.unsupported(node, reason));
    }
    Err(unknown_codec(reader, extension))
}

/// The byte order that `bytes` says; words of one byte need none.
fn read_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    word_bytes: u32,
) -> Result<ByteOrder, Status> {
    let [endian] = reader.configuration(extension, &["endian"])?;
    let Some(endian) = endian else {
        if word_bytes == 1 {
            return Ok(ByteOrder::Little);
        }
        let reason = format_args!("bytes of a type of {word_bytes}-byte words needs \"endian\"");
        return Err(reader.decode(&extension.node, reason));
    };
    let name = reader.string(&endian)?;
    if name == *"little" {
        Ok(ByteOrder::Little)
    } else if name == *"big" {
        // The order of single bytes is no order: one record for one layout.
        Ok(if word_bytes == 1 { ByteOrder::Little } else { ByteOrder::Big })
    } else {
        let reason = format_args!("{name} is neither \"little\" nor \"big\"");
        Err(reader.unsupported(&endian, reason))
    }
}

fn unknown_codec(reader: &mut Reader<'_>, extension: &Extension<'_>) -> Status {
    let name = extension.name;
    let known = "bytes, zstd, blosc, gzip, zlib, lz4, crc32c, sharding_indexed";
    reader.unsupported(&extension.node, format_args!("codec {name} is not read, only {known}"))
}

/// A codec behind `bytes`.
fn read_bytes_to_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
) -> Result<Codec, Status> {
    let Extension { node, name, .. } = extension;
    let Some((codec, spelling)) = codec_from_name(extension) else {
        let is_array_codec = *name == *"bytes"
            || *name == *"sharding_indexed"
            || ARRAY_TO_ARRAY.iter().any(|known| *name == **known);
        if is_array_codec {
            let reason = format_args!("codec {name} cannot stand behind \"bytes\"");
            return Err(reader.decode(node, reason));
        }
        return Err(unknown_codec(reader, extension));
    };
    check_configuration(reader, extension, codec, spelling)?;
    Ok(codec)
}

/// The codecs of a shard index: `bytes` of u64 words, then nothing or one `crc32c`.
fn read_index_codecs(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<IndexLayout, Status> {
    let (byte_order, codecs) = read_chain(reader, node, 8)?;
    let has_crc = match codecs.as_slice() {
        [] => false,
        [Codec::Crc32c] => true,
        _ => {
            let reason = "an index other than bytes, or bytes and crc32c, is not read";
            return Err(reader.unsupported(node, format_args!("{reason}")));
        }
    };
    Ok(IndexLayout { at_start: false, has_crc, byte_order })
}
