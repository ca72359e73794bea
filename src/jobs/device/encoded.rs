//! Chunks that a device decodes: their encoded bytes, streams and units go into a slab.
//!
//! In: a chunk task and its encoded bytes, which may lie in the slab already. Out: streams in rows
//! of the slab, units that read what they become, and the task marked as late; or, of a chunk that
//! no device decodes, as refused. This module verifies checksums of encoded bytes.

use crate::assemble::units::ChunkData;
use crate::decode::BlockFilter;
use crate::decode::stream_place::{Encoded, Sink, StreamPlace, Unfit, Walked};
use crate::decode::streams::walk;
use crate::decode::zstd_blocks::BlockPlace;
use crate::device::{ByWorker, Stream, StreamKind};
use crate::jobs::device::sink::SlabSink;
use crate::jobs::sink::{Part, Taken};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabChunk;
use crate::wave::Way;
use core::sync::atomic::Ordering::Relaxed;

/// Writes the streams of a chunk to rows of its slab that are its own.
struct StreamWriter<'a> {
    shared: &'a Shared,
    slab: u32,
    /// The place of the encoded chunk in the wave, and of the decoded one among the decoded bytes.
    source: u64,
    target: u64,
    /// Its rows of the slab's, and how many are written.
    first: u32,
    count: u32,
}

impl StreamWriter<'_> {
    fn write(&mut self, stream: Stream) {
        let row = self.shared.stream_row(self.slab, self.first + self.count);
        self.count += 1;
        self.shared.device_streams.write(row, stream);
    }
}

impl Sink for StreamWriter<'_> {
    fn begin(&mut self, count: u64) -> bool {
        let most = u64::from(self.shared.geometry.device.streams);
        let add = |taken: u32| {
            let after = u64::from(taken) + count;
            (after <= most).then_some(after as u32)
        };
        let rows = &self.shared.views.stream_counts[self.slab as usize];
        let taken = rows.fetch_update(Relaxed, Relaxed, add);
        self.first = taken.unwrap_or(0);
        taken.is_ok()
    }

    fn push(&mut self, place: StreamPlace) {
        let mut stream = Stream {
            source: self.source + place.source.start as u64,
            target: self.target + place.target.start as u64,
            source_bytes: place.source.len() as u32,
            target_bytes: place.target.len() as u32,
            ..Stream::default()
        };
        stream.kind = match place.kind {
            Encoded::Stored => StreamKind::Copy,
            Encoded::Lz4 => StreamKind::Lz4,
            Encoded::Zstd(measured) => {
                // Which blocks they are is known when all of the slab's lie side by side.
                (stream.source, stream.source_bytes) = (measured.scratch_units, measured.blocks);
                stream.scratch = measured.block_bytes;
                StreamKind::Zstd
            }
        } as u32;
        self.write(stream);
    }

    fn push_block(&mut self, place: BlockPlace) {
        let [tree, literals, offsets, matches] = place.back.map(u64::from);
        self.write(Stream {
            source: self.source + place.source.start as u64,
            target: tree | literals << 16 | offsets << 32 | matches << 48,
            source_bytes: place.source.len() as u32,
            target_bytes: place.bytes as u32,
            kind: place.kind as u32,
            scratch: place.scratch_units() as u32,
        });
    }
}

impl SlabSink {
    /// Lays the encoded chunk of a task into the slab, unless it lies in it already, with its
    /// streams; what they become is then to be placed.
    pub(super) fn take_encoded(
        &mut self,
        shared: &Shared,
        part: &Part<'_>,
        encoded: &[u8],
        place: Option<u64>,
    ) -> Taken {
        let Part { task, record, row, .. } = *part;
        let slab = &mut self.slab;
        let source = place.unwrap_or_else(|| {
            let SlabChunk { mut claim, data } = slab.room(encoded.len() as u64);
            claim.bytes().copy_from_slice(encoded);
            data
        });
        let decoded = slab.decoded_room(record.chunk_bytes);
        let mut writer = StreamWriter {
            shared,
            slab: slab.slab(),
            source,
            target: decoded - shared.geometry.device.bytes(),
            first: 0,
            count: 0,
        };
        let most = shared.settings.config.max_substreams_per_chunk;
        let walked = match walk(record, most, encoded, task.need.span, &mut writer) {
            Ok(walked) => walked,
            Err(unfit) => {
                let reason = match unfit {
                    Unfit::Broken => ByWorker::Broken,
                    Unfit::Codec => ByWorker::OtherCodec,
                    Unfit::Streams => ByWorker::Streams,
                    Unfit::NoRoom => ByWorker::Room,
                };
                shared.refuse_chunk(row, reason);
                return Taken::Refused;
            }
        };
        let Walked { span, filter } = walked;
        let BlockFilter { shuffle: filter, block_bytes, typesize } = filter;
        let data = decoded + span.first;
        let (first, bytes) = (span.first, span.bytes());
        self.taken = Some(ChunkData { data, first, bytes, filter, block_bytes, typesize });
        let way = Way::Late { first: writer.first, count: writer.count };
        shared.tables.chunks.write(row, task.gone_to(way));
        Taken::Encoded
    }
}
