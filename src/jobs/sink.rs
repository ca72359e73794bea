//! The two places that chunks go to. `CpuSink` writes samples in CPU memory; `device::SlabSink`
//! fills a part of a slab, on the way to a device.
//!
//! In: tasks of one array, or of what is fed, and their chunks. Out: places of batch slots. The
//! rows of different chunks never overlap, so workers fill one slot together.

use crate::assemble::augment::{Change, Scratch};
use crate::assemble::blanks::BLANKS_MAX;
use crate::assemble::block::Block;
use crate::assemble::cast::Cast;
use crate::assemble::pieces::{ReadBytes, read_pieces};
use crate::assemble::{SampleBox, Target, fill_block, fill_outside, scatter, scatter_fill};
use crate::base::arena::Claim;
use crate::base::indexes::{ArraySlot, BatchSlot, WaveIndex};
use crate::base::limits::{ELEMENT_BYTES_MAX, FIELDS_MAX, RANK_MAX};
use crate::jobs::blanks::for_each_blank_of;
use crate::jobs::decode::Refusal;
use crate::jobs::fed::FedChunk;
use crate::read::OpenFault;
use crate::records::{ArrayRecord, BoxRecord, ChunkBytes, Destination, chunk_origin};
use crate::setup::fields::Field;
use crate::state::resampling::Resampled;
use crate::state::shared::Shared;
use crate::state::worker::DecodeContext;
use crate::wave::{ChunkKind, ChunkTask};
use arrayvec::ArrayVec;

/// A task on its way to its samples.
pub struct Part<'a> {
    pub wave: WaveIndex,
    /// Its row in the tables of waves.
    pub row: usize,
    pub task: ChunkTask,
    /// The array, with the chunks that the task's file has.
    pub record: &'a ArrayRecord,
    /// First element of its chunk; 0 if it has none.
    pub origin: [u64; RANK_MAX],
}

/// The use that a sink made of the encoded bytes of a chunk.
pub enum Taken {
    /// Nothing: it wants the decoded chunk.
    Nothing,
    /// So many decoded bytes, which it has.
    Decoded(u64),
    /// Something that a device decodes.
    Encoded,
    /// A chunk that no device decodes: it is read again, for a worker.
    Refused,
}

/// The bytes that a sink has read itself, and their place in it.
pub type SentBytes = (&'static [u8], u64);

/// A place that the chunks of one array go to.
pub trait Sink {
    /// Calls `read` with a place for encoded bytes of chunks that a device decodes; None if they
    /// go to the worker's memory. Nothing of the sink is taken if reading fails.
    fn read(
        &mut self,
        _bytes: u64,
        _read: &mut dyn FnMut(&mut [u8]) -> Result<(), OpenFault>,
    ) -> Result<Option<SentBytes>, OpenFault> {
        Ok(None)
    }

    /// Brings a task of uncompressed data to all of its samples as `read` reads the bytes of its
    /// chunk, in pieces; how many bytes are written. None, and nothing is read, if the sink wants
    /// the whole chunk.
    fn read_pieces(
        &mut self,
        _from: &Boxes<'_>,
        _part: &Part<'_>,
        _buffer: &mut [u8],
        _read: &mut ReadBytes<'_, OpenFault>,
    ) -> Option<Result<u64, OpenFault>> {
        None
    }

    /// Offers the encoded chunk of a task, which lies at `place` of the sink if `read` brought it.
    fn take(
        &mut self,
        _from: &Boxes<'_>,
        _context: &mut DecodeContext,
        _part: &Part<'_>,
        _encoded: &[u8],
        _place: Option<u64>,
    ) -> Result<Taken, Refusal> {
        Ok(Taken::Nothing)
    }

    /// Brings a task to all of its samples: its decoded chunk, or what was made of the encoded one;
    /// how many bytes are written.
    fn place(&mut self, from: &Boxes<'_>, part: &Part<'_>, chunk: &ChunkBytes<'_>) -> u64;
}

/// The boxes that tasks of one array are for.
pub struct Boxes<'a> {
    pub shared: &'a Shared,
    pub record: &'static ArrayRecord,
    /// From the array's element type to that of each field; None if a field cannot have it, and no
    /// box of the array goes to it.
    casts: ArrayVec<Option<Cast>, { FIELDS_MAX as usize }>,
    /// From the array's element type to the same.
    copy: Option<Cast>,
}

/// The part of a task that one box gets.
pub struct BoxPart<'a> {
    pub sample: SampleBox<'a>,
    pub to: Destination,
    /// First element of the chunk.
    pub origin: &'a [u64],
    pub chunk: &'a ChunkBytes<'a>,
    /// What is done to its elements.
    pub change: Option<&'a Change<'a>>,
    /// Number of the box in its batch.
    pub number: u32,
}

impl<'a> Boxes<'a> {
    /// For tasks of the array in slot `array`, which a task pins.
    pub fn new(shared: &'a Shared, array: ArraySlot) -> Boxes<'a> {
        let record = shared.array_record(array);
        let settings = &shared.settings;
        let is_streamed = settings.streams_slots();
        let cast = |field: &Field| field.cast_from(record).map(|cast| cast.streamed(is_streamed));
        let casts = settings.fields.iter().map(cast).collect();
        Boxes { shared, record, casts, copy: copy_of(record) }
    }

    /// A task in row `row` of the tables of waves. `own` is a place for its record, if the task's
    /// file has chunks of its own.
    pub fn part<'p>(
        &self,
        (wave, row): (WaveIndex, usize),
        own: &'p mut Option<ArrayRecord>,
    ) -> Part<'p> {
        let task = self.shared.tables.chunks.read(row);
        let (record, origin) = match task.kind {
            // Tasks without a read belong to no file, and an array without elements has none.
            ChunkKind::Pad | ChunkKind::Blank | ChunkKind::Fed => (self.record, [0; RANK_MAX]),
            _ => (
                self.record.of_chunk((task.file, task.chunk), own),
                chunk_origin(self.record, task.file, task.chunk),
            ),
        };
        Part { wave, row, task, record, origin }
    }

    /// The numbers of a task's boxes, and the boxes.
    pub fn of(&self, part: &Part<'_>) -> impl Iterator<Item = (u32, &'static BoxRecord)> {
        let (shared, wave, task) = (self.shared, part.wave, part.task);
        (task.pair_first..task.pair_first + task.pair_count).map(move |pair| {
            let number = shared.tables.pairs.read(shared.tables.pair_row(wave, pair));
            (number, shared.box_record(task.slot, number))
        })
    }

    /// A box of the array in a slot, or the voxels of one with a map. The array has such chunks as
    /// `record` says. `own` is a place for the cast to memory of a caller.
    pub fn sample<'b>(
        &'b self,
        record: &'b ArrayRecord,
        (slot, number): (BatchSlot, u32),
        source: &'b BoxRecord,
        own: &'b mut Option<Cast>,
    ) -> SampleBox<'b> {
        if source.is_resampled {
            return hull_of(self.shared, (record, &self.copy), (slot, number));
        }
        let cast = match self.shared.reader(slot) {
            None => &self.casts[source.field as usize],
            Some(_) => {
                *own = self.shared.field(source.field).cast_to_target(self.record);
                own
            }
        };
        let Some(cast) = cast else {
            unreachable!("the planner refuses arrays without a cast");
        };
        sample_of(self.shared, (record, cast), source, slot)
    }

    /// Calls `each` for the boxes of a task, of what is fed as well.
    pub fn for_each(
        &self,
        part: &Part<'_>,
        chunk: &ChunkBytes<'_>,
        mut each: impl FnMut(&BoxPart<'_>) -> u64,
    ) -> u64 {
        let (record, task) = (part.record, &part.task);
        let origin = &part.origin[..record.axes()];
        let mut written = 0;
        for (number, source) in self.of(part) {
            let at = (task.slot, number);
            written += if task.array == ArraySlot::NONE {
                let FedChunk { record, origin, chunk } = &FedChunk::of(self.shared, task, number);
                let origin = &origin[..record.axes()];
                self.with_cast(record, at, source, (origin, chunk), &mut each)
            } else if task.kind == ChunkKind::Broken {
                let Some(record) = &self.shared.nan_of(record, task.slot, source) else { continue };
                self.with_cast(record, at, source, (origin, chunk), &mut each)
            } else {
                let mut own = None;
                let sample = self.sample(record, at, source, &mut own);
                let change = &change_of(self.shared, record, at, source);
                let (to, change) = (source.to(task.slot), change.as_ref());
                each(&BoxPart { sample, to, origin, chunk, change, number })
            };
        }
        written
    }

    /// Calls `each` for a box whose elements are those of `record`, which is not the task's array.
    fn with_cast(
        &self,
        record: &ArrayRecord,
        (slot, number): (BatchSlot, u32),
        source: &BoxRecord,
        (origin, chunk): (&[u64], &ChunkBytes<'_>),
        each: &mut dyn FnMut(&BoxPart<'_>) -> u64,
    ) -> u64 {
        let (shared, cast, copy) = (self.shared, &mut None, &mut None);
        let sample = match source.is_resampled {
            true => {
                *copy = copy_of(record);
                hull_of(shared, (record, copy), (slot, number))
            }
            false => {
                let checked = shared.field(source.field).checked_cast(record);
                let cast = cast.insert(checked.streamed(shared.settings.streams_slots()));
                sample_of(shared, (record, cast), source, slot)
            }
        };
        let change = &change_of(shared, record, (slot, number), source);
        let (to, change) = (source.to(slot), change.as_ref());
        each(&BoxPart { sample, to, origin, chunk, change, number })
    }

    /// Calls `fill` for the blocks that a task of places has which no box covers, with the field's
    /// element for those.
    pub fn for_each_blank(
        &self,
        part: &Part<'_>,
        mut fill: impl FnMut(Destination, &Block, &[u8; ELEMENT_BYTES_MAX]) -> u64,
    ) -> u64 {
        let (shared, task) = (self.shared, &part.task);
        let (field, first) = (task.file as u32, task.chunk);
        let element = &shared.padding(field).empty_element;
        let mut written = 0;
        for (_, source) in self.of(part) {
            let to = Destination { slot: task.slot, field, sample: source.sample };
            let mut number = 0;
            for_each_blank_of(shared, to, &mut |block| {
                if (first..first + BLANKS_MAX).contains(&number) {
                    written += fill(to, block, element);
                }
                number += 1;
            });
        }
        written
    }
}

fn copy_of(record: &ArrayRecord) -> Option<Cast> {
    let own = (record.dtype, record.dtype_bytes);
    Cast::find(own.0, own.1, own.0, own.1)
}

/// The voxels that a box with a map reads. They lie inside of the array, so no mode pads them.
fn hull_of<'b>(
    shared: &'b Shared,
    (record, copy): (&'b ArrayRecord, &'b Option<Cast>),
    (slot, number): (BatchSlot, u32),
) -> SampleBox<'b> {
    let Resampled { hull, strides, .. } = shared.resampled(slot, number);
    let Some(cast) = copy else { unreachable!("elements of a type can be copied") };
    let pad = shared.padding(shared.box_record(slot, number).field).mode;
    SampleBox { record, cast, shape: hull, first: 0, strides, pad }
}

fn sample_of<'b>(
    shared: &'b Shared,
    (record, cast): (&'b ArrayRecord, &'b Cast),
    source: &'b BoxRecord,
    slot: BatchSlot,
) -> SampleBox<'b> {
    let (strides, pad) = (shared.strides(source.to(slot)), shared.padding(source.field).mode);
    let (shape, element) = (&source.shape, u64::from(cast.target_bytes()));
    let first = shape.at * if shared.reader(slot).is_some() { 1 } else { element };
    SampleBox { record, cast, shape, first, strides, pad }
}

/// What is done to the elements of a box of an array, if it is not cast alone.
pub fn change_of<'b>(
    shared: &'b Shared,
    record: &ArrayRecord,
    (slot, number): (BatchSlot, u32),
    source: &BoxRecord,
) -> Option<Change<'b>> {
    // A box with a map has its arithmetic when it is resampled.
    let is_done_here = source.is_augmented && !source.is_resampled;
    let augment = is_done_here.then(|| shared.augment(slot, number))?;
    let (field, elements) = (shared.field(source.field), (record.dtype, record.dtype_bytes));
    let is_streamed = shared.settings.streams_slots();
    let change = Change::new(augment, elements, (field.extents(), field.dtype), is_streamed);
    assert!(change.is_some(), "floats are made of whatever a field of floats is made of");
    change
}

/// The memory that chunks of a box go to: its sample, or, with a map, its staging.
fn claim_target(
    shared: &Shared,
    (slot, number): (BatchSlot, u32),
    source: &BoxRecord,
) -> Option<Claim<'static>> {
    match source.is_resampled {
        true => Some(shared.claim_hull(shared.resampled(slot, number))),
        false => shared.claim_sample(source.to(slot)),
    }
}

fn with_scratch<'s, 'a>(
    change: Option<&'s Change<'a>>,
    scratch: &'s mut Option<Scratch>,
) -> Option<(&'s Change<'a>, &'s mut Scratch)> {
    change.map(|change| (change, scratch.get_or_insert(Scratch::NEW)))
}

/// Samples in CPU memory, and targets of callers. A target whose caller has left gets nothing.
pub struct CpuSink {
    scratch: Option<Scratch>,
}

impl CpuSink {
    pub fn new() -> CpuSink {
        CpuSink { scratch: None }
    }
}

impl Sink for CpuSink {
    fn read_pieces(
        &mut self,
        from: &Boxes<'_>,
        part: &Part<'_>,
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, OpenFault>,
    ) -> Option<Result<u64, OpenFault>> {
        let (shared, origin) = (from.shared, &part.origin[..part.record.axes()]);
        let mut written = 0;
        for (number, source) in from.of(part) {
            let slot = part.task.slot;
            let Some(claim) = claim_target(shared, (slot, number), source) else { continue };
            let (change, mut own) = (change_of(shared, part.record, (slot, number), source), None);
            let sample = from.sample(part.record, (slot, number), source, &mut own);
            let change = with_scratch(change.as_ref(), &mut self.scratch);
            let mut target = Target { sample, claim, change };
            match read_pieces(&mut target, origin, buffer, read) {
                Ok(bytes) => written += bytes,
                Err(fault) => return Some(Err(fault)),
            }
        }
        Some(Ok(written))
    }

    fn place(&mut self, from: &Boxes<'_>, part: &Part<'_>, chunk: &ChunkBytes<'_>) -> u64 {
        let (shared, kind) = (from.shared, part.task.kind);
        if kind == ChunkKind::Blank {
            return from.for_each_blank(part, |to, block, element| {
                let element = &element[..shared.field(to.field).dtype_bytes as usize];
                let Some(mut claim) = shared.claim_sample(to) else { return 0 };
                fill_block(&mut claim, block, element)
            });
        }
        from.for_each(part, chunk, |of| {
            let source = shared.box_record(of.to.slot, of.number);
            let claim = claim_target(shared, (of.to.slot, of.number), source);
            let Some(claim) = claim else { return 0 };
            let change = with_scratch(of.change, &mut self.scratch);
            let mut target = Target { sample: of.sample, claim, change };
            match kind {
                ChunkKind::Data | ChunkKind::Kept | ChunkKind::Fed => {
                    scatter(&mut target, of.origin, of.chunk)
                }
                ChunkKind::Missing | ChunkKind::Broken => scatter_fill(&mut target, of.origin),
                ChunkKind::Pad => fill_outside(&mut target, shared.padding(of.to.field).element),
                ChunkKind::Blank => 0,
            }
        })
    }
}
