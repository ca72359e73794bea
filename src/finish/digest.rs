//! The samples of full batches are read for their digests, if the config asks for them.
//!
//! In: a slot whose last row was written. Out: a digest for each sample and field, and the sum of a
//! field's. A piece reads a part of a field: some whole samples, whose digests are complete with
//! it, or a part of one sample.
//!
//! On a device a kernel reads them, after the waves on their stream: it leaves shares in pinned
//! memory, which are added up when it has run.

use crate::base::arena::Table;
use crate::base::indexes::BatchSlot;
use crate::base::limits::FIELDS_MAX;
use crate::base::math::index;
use crate::base::stats::Stage;
use crate::batch::pieces::Piece;
use crate::batch::record::SlotRows;
use crate::cuda::digests::{DigestRead, parts};
use crate::cuda::{DeviceEngine, Fault, HAS_DEVICES};
use crate::loops::digest::{WORD_BYTES, digest, mix, share};
use crate::loops::simd::Level;
use crate::os::profiler;
use crate::os::profiler::At;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::state::{Kernels, Pass, State};
use arrayvec::ArrayVec;
use static_assertions::const_assert;

/// Bytes of a piece at most: what a job takes 30 to 60 us for, so that the lock is nothing beside
/// it and all workers share a batch.
pub const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that a sample counts as at least: a digest takes 20 ns besides, in which so many are read.
const SAMPLE_BYTES_MIN: u64 = 512;

// A part of a sample begins with a word.
const_assert!(PIECE_BYTES.is_multiple_of(WORD_BYTES as u64));

pub const PASS: Pass =
    Pass { begin, run, kernels: if HAS_DEVICES { Some(Kernels { queue, close }) } else { None } };

fn begin(state: &State, shared: &Shared, slot: BatchSlot) -> (u64, u32) {
    if !shared.takes_digests() {
        return (0, 0);
    }
    let count = of(shared).begin(slot, state.slots.sample_count(slot));
    (if shared.engine().is_some() { 1 } else { count }, 0)
}

fn run<'l>(lock: &'l Lock, piece: &Piece, _: Option<&mut SlabWriter>) -> Locked<'l> {
    let (shared, digests) = (lock.shared, of(lock.shared));
    let part = digests.part(piece);
    let sum = {
        let _range = shared.profiler.range(profiler::DIGEST);
        let (start, bytes) = ((shared.os.now_ns)(), u64::from(part.samples) * part.bytes);
        let first = u64::from(part.sample) * part.sample_bytes + part.first;
        let sum = part.read(shared.finished_bytes(piece.slot, part.field, first, bytes));
        let at = shared.profiler.here().of_slot(piece.slot.0);
        shared.observe(Stage::Digest, start, (bytes, part.output_bytes()), at);
        sum
    };
    let state = lock.lock();
    part.end(sum);
    if state.slots.pieces_left(piece.slot) == 1 {
        digests.close(piece);
    }
    state
}

fn queue(lock: &Lock, engine: &DeviceEngine, piece: &Piece) -> Result<(), Fault> {
    let (shared, slot) = (lock.shared, piece.slot);
    for (field, of) in (0..).zip(&shared.settings.fields) {
        let samples = shared.field_region(slot, field, piece.samples);
        let first_share = shared.settings.first_share(field as usize);
        let read = DigestRead { samples, sample_bytes: of.sample_bytes, first_share };
        engine.read_for_digests(slot.0, &read)?;
    }
    Ok(())
}

/// Makes digests of the shares of a batch.
fn close(lock: &Lock, piece: &Piece, ns: u64) {
    let (shared, digests) = (lock.shared, of(lock.shared));
    let (mut input, mut output) = (0, 0);
    for field in 0..digests.cuts.len() {
        let part = digests.whole(piece, field);
        let shares = &shared.digest_shares(piece.slot)[index(shared.settings.first_share(field))..];
        let of_sample = |shares: &[[u8; 8]]| {
            shares.iter().map(|share| u64::from_ne_bytes(*share)).fold(0, u64::wrapping_add)
        };
        let sums = shares.chunks_exact(index(parts(part.sample_bytes))).map(of_sample);
        part.end(part.close(sums));
        input += u64::from(part.samples) * part.sample_bytes;
        output += part.output_bytes();
    }
    let at = At::NOWHERE.of_slot(piece.slot.0);
    shared.observe_device(Stage::Digest, ns, (input, output), at);
}

fn of(shared: &Shared) -> Digests<'_> {
    let sizes = shared.settings.fields.iter().map(|field| field.sample_bytes);
    Digests::new(&shared.views.rows, sizes, shared.settings.config.samples_per_batch)
}

/// The bytes that a piece reads of a field of a batch, and the places of its results.
pub struct Part {
    pub field: u32,
    /// First sample.
    pub sample: u32,
    /// Number of samples; 1 of a part of one.
    pub samples: u32,
    /// First byte in the sample.
    pub first: u64,
    /// Bytes of each sample.
    pub bytes: u64,
    /// Bytes that a whole sample has.
    pub sample_bytes: u64,
    /// Position of the first sample in the stream.
    position: u64,
    /// Digests of the samples; of samples in parts the sums of their shares, until the last piece.
    digests: Table<u64>,
    /// The sum of the digests of the field.
    sum: Table<u64>,
}

impl Part {
    fn is_part(&self) -> bool {
        self.bytes < self.sample_bytes
    }

    /// Bytes of the digests that are complete with it: a sample's come with its last part.
    fn output_bytes(&self) -> u64 {
        let is_last = self.first + self.bytes == self.sample_bytes;
        if is_last { u64::from(self.samples) * size_of::<u64>() as u64 } else { 0 }
    }

    /// The result of its bytes. Digests of whole samples go to the table, and their part of the
    /// field's sum is returned; for a part of a sample it is its share.
    pub fn read(&self, bytes: &[u8]) -> u64 {
        let level = Level::here();
        if self.is_part() {
            return share(level, bytes, self.first / WORD_BYTES as u64);
        }
        let samples = bytes.chunks_exact(self.sample_bytes as usize);
        self.close(samples.map(|sample| share(level, sample, 0)))
    }

    /// The same of whole samples, all of whose shares have these sums.
    fn close(&self, shares: impl Iterator<Item = u64>) -> u64 {
        assert!(!self.is_part());
        let mut sum = 0u64;
        for (number, share) in shares.take(self.samples as usize).enumerate() {
            let digest = digest(self.sample_bytes, share);
            self.digests.write(number, digest);
            sum = sum.wrapping_add(mix(self.position + number as u64, digest));
        }
        sum
    }

    /// Adds what came of it. Under the lock.
    pub fn end(&self, sum: u64) {
        let row = if self.is_part() { &self.digests } else { &self.sum };
        row.write(0, row.read(0).wrapping_add(sum));
    }
}

/// How the samples of a field become pieces.
#[derive(Clone, Copy)]
struct Cut {
    sample_bytes: u64,
    /// Parts of a sample.
    parts: u64,
    /// Samples of a piece; 1 if samples have parts.
    samples: u32,
}

impl Cut {
    fn pieces(&self, samples: u32) -> u64 {
        self.parts * u64::from(samples.div_ceil(self.samples))
    }
}

/// The digests of a loader.
pub struct Digests<'a> {
    rows: &'a SlotRows,
    cuts: ArrayVec<Cut, { FIELDS_MAX as usize }>,
}

impl Digests<'_> {
    /// Makes the digests of fields whose samples have so many bytes each.
    pub fn new(
        rows: &SlotRows,
        sample_bytes: impl Iterator<Item = u64>,
        samples_per_batch: u32,
    ) -> Digests<'_> {
        let cut = |sample_bytes: u64| {
            let samples = (PIECE_BYTES / sample_bytes.max(SAMPLE_BYTES_MIN)) as u32;
            let samples = samples.clamp(1, samples_per_batch);
            Cut { sample_bytes, parts: sample_bytes.div_ceil(PIECE_BYTES), samples }
        };
        Digests { rows, cuts: sample_bytes.map(cut).collect() }
    }

    /// The sums of a batch are at nothing. How many pieces it is read in.
    pub fn begin(&self, slot: BatchSlot, samples: u32) -> u64 {
        let mut count = 0;
        for (field, cut) in self.cuts.iter().enumerate() {
            let (digests, sum) = self.rows.digests(slot, field);
            sum.write(0, 0);
            let shared = if cut.parts > 1 { samples as usize } else { 0 };
            (0..shared).for_each(|sample| digests.write(sample, 0));
            count += cut.pieces(samples);
        }
        count
    }

    /// All samples of a field.
    fn whole(&self, piece: &Piece, field: usize) -> Part {
        let sample_bytes = self.cuts[field].sample_bytes;
        let (digests, sum) = self.rows.digests(piece.slot, field);
        Part {
            field: field as u32,
            sample: 0,
            samples: piece.samples,
            first: 0,
            bytes: sample_bytes,
            sample_bytes,
            position: piece.position,
            digests,
            sum,
        }
    }

    /// The part that a piece reads.
    pub fn part(&self, piece: &Piece) -> Part {
        let (mut field, mut number) = (0, piece.number);
        while number >= self.cuts[field].pieces(piece.samples) {
            number -= self.cuts[field].pieces(piece.samples);
            field += 1;
        }
        let (cut, whole) = (self.cuts[field], self.whole(piece, field));
        let (sample, first) =
            ((number / cut.parts) as u32 * cut.samples, number % cut.parts * PIECE_BYTES);
        let samples = cut.samples.min(piece.samples - sample);
        let bytes = match cut.parts {
            1 => cut.sample_bytes,
            _ => PIECE_BYTES.min(cut.sample_bytes - first),
        };
        let digests = whole.digests.part(sample as usize, samples as usize);
        let position = piece.position + u64::from(sample);
        Part { sample, samples, first, bytes, position, digests, ..whole }
    }

    /// The last piece is over: makes digests of samples in parts. Under the lock.
    pub fn close(&self, piece: &Piece) {
        for (field, _) in self.cuts.iter().enumerate().filter(|(_, cut)| cut.parts > 1) {
            let whole = self.whole(piece, field);
            whole.end(whole.close((0..).map(|sample| whole.digests.read(sample))));
        }
    }
}
