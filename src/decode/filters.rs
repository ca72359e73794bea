//! Chunks whose codecs say in the metadata what they did: filters of numcodecs and zarr-extensions,
//! elements of few bits, and numcodecs' checksums of other kinds than crc32c after the bytes.
//!
//! In: the encoded chunk, whole. Out: the whole chunk. Invariant: every codec but a compressor gets
//! as many bytes as it made of what the codec before it made, counted from the chunk's own size, so
//! that no size of the data is trusted; a checksum is looked at before what it covers is used.
//!
//! Bytes go back and forth between the two halves of the scratch, each as large as
//! `record.working_bytes()`. Worked example: `delta`, `shuffle`, `zstd`. The frame is decoded into
//! the target; the shuffle is undone from the target into the block, and the deltas from the block
//! into the target.

use super::chunk::{Compressed, SUM_BYTES, Scratch, Want, expect_sum};
use super::compressors::{decompress, decompress_up_to};
use super::decoder::Decoder;
use super::shards::unshard;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::text::Float;
use crate::fail;
use crate::loops::cf::cf;
use crate::loops::crc32::crc32;
use crate::loops::crc32c::crc32c;
use crate::loops::filters::{Misfit, as_type, undelta, unpack_bits, unscale};
use crate::loops::small::{unpack, widen};
use crate::loops::sums::{adler32, fletcher32};
use crate::loops::unshuffle::{Shuffle, unshuffle};
use crate::loops::values::{cast, scale_offset};
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, ChunkBytes, Codec, Filter, Member, Packed, Padding, Span, Sum, SumKind,
};
use core::ops::Range;

/// Whether this module decodes chunks of `record`.
pub(super) fn is_here(record: &ArrayRecord) -> bool {
    record.codecs.iter().any(|codec| matches!(codec, Codec::Sum(_) | Codec::Filter(_)))
}

/// The place of the bytes that the next codec is undone from.
enum Place<'a> {
    /// A part of the encoded chunk.
    Encoded(&'a [u8]),
    /// A part of the half of the scratch that is called front.
    Front(Range<usize>),
}

/// The two halves of the scratch.
struct Halves<'a> {
    front: &'a mut [u8],
    back: &'a mut [u8],
}

/// A record whose chunks are decoded, and what that takes for all of them.
pub(super) struct Work<'w> {
    pub decoder: &'w mut Decoder,
    pub record: &'w ArrayRecord,
    pub max_substreams: u32,
    /// Memory that compressors work in.
    pub workspace: &'w mut [u8],
}

/// Decodes the whole chunk `encoded`. The output of a codec other than a checksum ends
/// up at the start of the target.
pub(super) fn decode<'a>(
    mut work: Work<'_>,
    encoded: &'a [u8],
    scratch: Scratch<'a>,
    why: &mut Why,
) -> Result<ChunkBytes<'a>, Status> {
    let record = work.record;
    let bytes = decode_unit(&mut work, record.codecs.len(), encoded, scratch, why)?;
    assert!(bytes.len() as u64 == record.chunk_bytes);
    Ok(ChunkBytes { bytes, first: 0 })
}

/// Undoes the first `count` codecs of the chain: those of a chunk, or of a cell of the shard that
/// follows them. It calls itself for the cells of a shard, as deep as the record has shards.
pub(super) fn decode_unit<'a>(
    work: &mut Work<'_>,
    count: usize,
    encoded: &'a [u8],
    scratch: Scratch<'a>,
    why: &mut Why,
) -> Result<&'a [u8], Status> {
    let record = work.record;
    let first = record.shard_before(count).unwrap_or(0);
    let Scratch { target, block } = scratch;
    // Every filter turns the halves over: the last one leaves the chunk in the target.
    let codecs = &record.codecs[first..count];
    let is_odd = codecs.iter().filter(|codec| codec.is_filter()).count() % 2 == 1;
    let (front, back) = if is_odd { (block, target) } else { (target, block) };
    let mut halves = Halves { front, back };
    let mut place = Place::Encoded(encoded);
    for (position, codec) in (first..count).zip(codecs).rev() {
        let expected = record.encoded_bytes(position);
        place = match codec {
            Codec::Filter(Filter::Shard(_)) => {
                whole_shard(work, position, place, &mut halves, why)?
            }
            Codec::Filter(filter) => {
                let sizes = (expected, record.encoded_bytes(position + 1));
                undo((*codec, *filter, pairs_of(record, *filter)), sizes, place, &mut halves, why)?
            }
            Codec::Crc32c | Codec::Sum(_) => verified_place(*codec, place, expected, &halves, why)?,
            _ => {
                // Metadata allow no filter after a compressor, but their check looks only at the
                // largest chunk of a rectilinear grid.
                let is_shard = record.shard_before(position).is_some();
                let (true, Place::Encoded(source)) = (expected.is_some() || is_shard, place) else {
                    broken!(why, "chunk is not whole elements of its filters");
                };
                decompressed(work, position, source, &mut halves, why)?
            }
        };
    }
    Ok(match place {
        Place::Encoded(bytes) => bytes,
        Place::Front(Range { start: 0, end }) => &halves.front[..end],
        Place::Front(range) => {
            // The cache stores the chunk from the start of the target.
            let bytes = range.len();
            halves.front.copy_within(range, 0);
            &halves.front[..bytes]
        }
    })
}

/// Decodes the cells of the shard at a place of the chain from the place of its bytes into the
/// back, which is the front then. Their scratch is what the shard leaves of the front.
fn whole_shard<'a>(
    work: &mut Work<'_>,
    position: usize,
    place: Place<'_>,
    halves: &mut Halves<'_>,
    why: &mut Why,
) -> Result<Place<'a>, Status> {
    let [room, _] = work.record.shard_scratch(position);
    let (shard, scratch) = halves.front.split_at_mut(index(room));
    let bytes = match place {
        Place::Encoded(bytes) => bytes,
        Place::Front(range) => &shard[range],
    };
    let elements = index(work.record.unit_bytes(position + 1));
    unshard(work, position, (bytes, scratch), &mut halves.back[..elements], why)?;
    core::mem::swap(&mut halves.front, &mut halves.back);
    Ok(Place::Front(0..elements))
}

/// Undoes the compressor at a place of the chain from `source` into the front: all bytes of the
/// chunk, or as many as a shard has. Bytes that blosc only copied are not moved.
fn decompressed<'a>(
    work: &mut Work<'_>,
    position: usize,
    source: &'a [u8],
    halves: &mut Halves<'_>,
    why: &mut Why,
) -> Result<Place<'a>, Status> {
    let (record, codec) = (work.record, work.record.codecs[position]);
    let exact = record.encoded_bytes(position);
    let most = index(exact.unwrap_or_else(|| record.sizes(position).encoded_max));
    let (target, rest) = halves.front.split_at_mut(most);
    // The back is as long as the elements of a shard, which may be less than a block of it.
    let block = if exact.is_some() { &mut *halves.back } else { rest };
    let start = target.as_ptr();
    let want = Want { span: Span { first: 0, limit: most as u64 }, keeps_filter: false };
    let scratch = Scratch { target, block };
    let (max_substreams, workspace) = (work.max_substreams, &mut *work.workspace);
    let chunk = Compressed { bytes: source, want, max_substreams, workspace, scratch };
    let bytes = match exact {
        Some(_) => decompress(work.decoder, codec, chunk, why)?.chunk.bytes,
        None => decompress_up_to(work.decoder, codec, chunk, why)?,
    };
    assert!(bytes.len() == most || exact.is_none());
    if bytes.as_ptr() == start {
        return Ok(Place::Front(0..bytes.len()));
    }
    let first = bytes.as_ptr().addr() - source.as_ptr().addr();
    Ok(Place::Encoded(&source[first..][..bytes.len()]))
}

/// Undoes a filter from the place of the bytes into the back, which is the front then. `sizes` are
/// those that the filter was given and made.
fn undo<'a>(
    (codec, filter, pairs): (Codec, Filter, &[EdgeRun]),
    sizes: (Option<u64>, Option<u64>),
    place: Place<'_>,
    halves: &mut Halves<'_>,
    why: &mut Why,
) -> Result<Place<'a>, Status> {
    let name = codec.name();
    let (Some(decoded), Some(encoded)) = sizes else {
        broken!(why, "chunk is not whole elements of its filter {name}");
    };
    let source = match place {
        Place::Encoded(bytes) => bytes,
        Place::Front(range) => &halves.front[range],
    };
    if source.len() as u64 != encoded {
        let bytes = source.len();
        broken!(why, "chunk has {bytes} bytes where its filter {name} makes {encoded}");
    }
    let target = &mut halves.back[..index(decoded)];
    let to = codec.types().map_or("", |types| types.decoded.dtype.zarr3_name());
    undo_into(filter, pairs, source, target).map_err(|fault| match fault {
        Fault::Misfit(Misfit::Float(value)) => {
            let value = Float(value);
            fail!(
                why,
                Decode,
                "filter {name}: {value} does not fit the type that it decodes to, {to}"
            )
        }
        Fault::Misfit(Misfit::Whole(value)) => {
            fail!(
                why,
                Decode,
                "filter {name}: {value} does not fit the type that it decodes to, {to}"
            )
        }
        Fault::Misfit(Misfit::Rest(value)) => {
            fail!(why, Decode, "filter {name}: {value} is not a multiple of its scale")
        }
        Fault::Padding(bits) => {
            fail!(why, Decode, "filter {name}: {bits} bits of padding leave another size")
        }
    })?;
    core::mem::swap(&mut halves.front, &mut halves.back);
    Ok(Place::Front(0..index(decoded)))
}

/// The pairs of a cast, and the rows of CF.
fn pairs_of(record: &ArrayRecord, filter: Filter) -> &[EdgeRun] {
    match filter {
        Filter::Cast(cast) => {
            let first = usize::from(cast.first_pair);
            &record.pairs[first..first + usize::from(cast.pairs)]
        }
        Filter::Cf(cf) => record.rows_of(&cf),
        _ => &[],
    }
}

/// The fault of filtered bytes of the right size.
enum Fault {
    /// An element that becomes a type that cannot hold it.
    Misfit(Misfit),
    /// The bits that packed booleans say are none.
    Padding(u8),
}

/// Undoes a filter; the sizes fit it.
fn undo_into(
    filter: Filter,
    pairs: &[EdgeRun],
    source: &[u8],
    target: &mut [u8],
) -> Result<(), Fault> {
    let outcome = match filter {
        Filter::Shuffle(size) => {
            unshuffle(Shuffle::Bytes, usize::from(size), source, 0, target);
            Ok(())
        }
        Filter::Delta(types) => undelta(types, source, target),
        Filter::FixedScaleOffset(types, line) => {
            unscale(types, (line.scale, line.offset), source, target)
        }
        Filter::AsType(types) => as_type(types, source, target),
        Filter::ScaleOffset(types, scaling) => scale_offset(types, scaling, source, target),
        Filter::Cast(rule) => cast(&rule, pairs, source, target),
        Filter::Cf(rule) => {
            cf(&rule, pairs, source, target);
            Ok(())
        }
        Filter::PackBits => {
            let (padding, bits) = (source[0], &source[1..]);
            if 8 * bits.len() - target.len() != usize::from(padding) {
                return Err(Fault::Padding(padding));
            }
            unpack_bits(bits, target);
            Ok(())
        }
        Filter::Packed(packed) => return unpack_small(packed, source, target),
        Filter::Member(member) => {
            take_member(member, source, target);
            Ok(())
        }
        Filter::Shard(_) => unreachable!("its cells are decoded elsewhere"),
    };
    outcome.map_err(Fault::Misfit)
}

/// Takes a field out of each structured element.
fn take_member(member: Member, source: &[u8], target: &mut [u8]) {
    let Member { element_bytes, offset, bytes } = member;
    let (offset, bytes) = (offset as usize, bytes as usize);
    let elements = source.chunks_exact(element_bytes as usize);
    for (field, element) in target.chunks_exact_mut(bytes).zip(elements) {
        field.copy_from_slice(&element[offset..offset + bytes]);
    }
}

/// Makes elements of the array of those of few bits.
fn unpack_small(packed: Packed, source: &[u8], target: &mut [u8]) -> Result<(), Fault> {
    let Some(padding) = packed.padding else {
        widen(packed.small, source, target);
        return Ok(());
    };
    let (stated, bytes) = match padding {
        Padding::Absent => (None, source),
        Padding::First => (source.first(), source.get(1..).unwrap_or(&[])),
        Padding::Last => {
            source.split_last().map_or((None, source), |(last, rest)| (Some(last), rest))
        }
    };
    let elements = target.len() / packed.small.dtype().bytes() as usize;
    let unused = 8 * bytes.len() - elements * packed.small.bits() as usize;
    if let Some(stated) = stated.filter(|stated| usize::from(**stated) != unused) {
        return Err(Fault::Padding(*stated));
    }
    unpack(packed.small, bytes, target);
    Ok(())
}

/// The part of the bytes that a checksum covers, which is right.
fn verified_place<'a>(
    codec: Codec,
    place: Place<'a>,
    expected: Option<u64>,
    halves: &Halves<'_>,
    why: &mut Why,
) -> Result<Place<'a>, Status> {
    match place {
        Place::Encoded(bytes) => {
            let body = verified(codec, bytes, expected, why)?;
            Ok(Place::Encoded(&bytes[body]))
        }
        Place::Front(range) => {
            let body = verified(codec, &halves.front[range.clone()], expected, why)?;
            Ok(Place::Front(range.start + body.start..range.start + body.end))
        }
    }
}

/// The place of the bytes that the checksum `codec` in `bytes` is of, if it is right; `expected` is
/// their length if it is known.
pub(super) fn verified(
    codec: Codec,
    bytes: &[u8],
    expected: Option<u64>,
    why: &mut Why,
) -> Result<Range<usize>, Status> {
    let (name, len) = (codec.name(), bytes.len());
    let at_start = matches!(codec, Codec::Sum(Sum { at_start: true, .. }));
    let parts = if at_start {
        bytes.split_first_chunk::<SUM_BYTES>().map(|(sum, body)| (body, sum))
    } else {
        bytes.split_last_chunk::<SUM_BYTES>()
    };
    let Some((body, sum)) = parts else {
        broken!(why, "chunk of {len} bytes has no room for its {name}");
    };
    if let Some(expected) = expected
        && body.len() as u64 != expected
    {
        let (len, side) = (body.len(), if at_start { "behind" } else { "before" });
        broken!(why, "chunk has {len} bytes {side} its {name} where {expected} are expected");
    }
    let stored = u32::from_le_bytes(*sum);
    let computed = match codec {
        Codec::Sum(Sum { kind: SumKind::Crc32, .. }) => crc32(0, body),
        Codec::Sum(Sum { kind: SumKind::Adler32, .. }) => adler32(body),
        Codec::Sum(Sum { kind: SumKind::Fletcher32, .. }) => fletcher32(body),
        _ => crc32c(0, body),
    };
    expect_sum(format_args!("chunk {name}"), stored, computed, why)?;
    let first = if at_start { SUM_BYTES } else { 0 };
    Ok(first..first + body.len())
}
