//! Elements of a box that go through arithmetic on their way into the field: [`Augment`].
//!
//! In: planes of source elements, as of [`super::cast`]. Out: the field's elements. Invariant: what
//! include/wavetrain.h says of wavetrain_augment, bit for bit, wherever a box is cut into planes.
//!
//! Rows of the usual types take one pass ([`SteppedRows`]), also with one run of erased places.
//! Others take two passes, by way of a strip of floats that stays in L1: noise, channels that
//! change within a short run, several erased runs in a row, and elements that are not adjacent.
//! Rows share a strip.

use super::block::{Block, BlockAxis, BlockPlane};
use super::cast::{Cast, Plane};
use super::erase::{Erasing, Layout, Range};
use super::fill_block;
use crate::base::arena::{Claim, Rows, RowsMut};
use crate::base::math::index;
use crate::loops::augment::{FloatBytes, Hole, Steps, add_noise, run, run_each};
use crate::records::{Augment, ByteOrder, Dtype};
use crate::simd::{Level, SteppedRows, stream_fence};

/// Floats of a strip.
const STRIP: usize = 1024;

/// A run of floats of one channel has so many, or each float gets its own factor and term.
const RUN_MIN: u64 = 32;

/// What is done to the elements of a box.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    augment: Augment<'a>,
    /// The axes of the field.
    pub(super) layout: Layout<'a>,
    /// From the array's element type to floats.
    to_float: Cast,
    /// From the field's to floats, and back.
    field: [Cast; 2],
    /// From the array's type to the field's in one pass.
    pub(super) whole: Option<SteppedRows>,
    /// From the array's type to floats, and from there to the field's.
    halves: [Option<SteppedRows>; 2],
    is_streamed: bool,
    level: Level,
}

/// Memory that blocks are changed in, one after another.
pub struct Scratch {
    floats: [u8; STRIP * 4],
    pattern: Option<Pattern>,
}

impl Scratch {
    /// It holds nothing.
    pub const NEW: Scratch = Scratch { floats: [0; STRIP * 4], pattern: None };
}

/// The state of a block that is being changed.
pub struct Strip<'s, 'a> {
    scratch: &'s mut Scratch,
    erasing: Option<Erasing<'a>>,
}

/// Factors and terms of a row, whose first element has place `phase` among those of all channels.
struct Pattern {
    phase: u64,
    scale: [f32; STRIP],
    bias: [f32; STRIP],
}

/// Floats of places along one line of the field.
pub struct Run<'f> {
    /// The floats.
    pub floats: &'f [u8],
    /// The byte of the field's sample that the first of them is, and bytes from one to the next.
    pub place: (u64, u64),
    /// The same of the memory that they go to: places that are side by side are so in both.
    pub to: (u64, u64),
}

/// Rows of a plane, or a piece of each.
struct Part<'p> {
    source: Plane<'p>,
    /// The first place in the field.
    first: u64,
    /// Places from one row to the next.
    pitch: u64,
    /// The same of the memory that they go to.
    to: (u64, u64),
    /// Number of rows.
    count: u64,
    /// Elements of a row.
    length: u64,
}

impl<'p> Part<'p> {
    /// `count` rows from `row` on, `length` elements from `at` on.
    fn of(
        source: &Plane<'p>,
        ((first, pitch), to): ((u64, u64), (u64, u64)),
        (row, count): (u64, u64),
        (at, length): (u64, u64),
    ) -> Part<'p> {
        let moved = row as i64 * source.pitch + at as i64 * source.step;
        let source = Plane { first: source.first.wrapping_add_signed(moved), ..*source };
        let to = (to.0 + row * to.1 + at, to.1);
        Part { source, first: first + row * pitch + at, pitch, to, count, length }
    }

    /// One past its last place.
    fn limit(&self) -> u64 {
        self.first + (self.count - 1) * self.pitch + self.length
    }

    /// The rows that it is written to, in elements of `bytes` bytes.
    fn rows<'c>(&self, claim: &'c mut Claim<'_>, bytes: u64) -> RowsMut<'c> {
        let (first, pitch) = self.to;
        claim.row_grid(first * bytes, self.length * bytes, self.count, pitch * bytes)
    }
}

impl<'a> Change<'a> {
    /// For a box of elements of one type that goes to a field of `extents` and of another. None
    /// where either has no cast.
    pub fn new(
        augment: Augment<'a>,
        source: (Dtype, u32),
        (extents, field): (&'a [u64], Dtype),
        is_streamed: bool,
    ) -> Option<Change<'a>> {
        Change::new_at(Level::here(), augment, source, (extents, field), is_streamed)
    }

    /// [`Change::new`] with the instructions of one level: all give the same bits.
    pub fn new_at(
        level: Level,
        augment: Augment<'a>,
        source: (Dtype, u32),
        (extents, field): (&'a [u64], Dtype),
        is_streamed: bool,
    ) -> Option<Change<'a>> {
        let (float, bytes) = (Dtype::F32, field.bytes());
        let to_float = Cast::find_at(level, source.0, source.1, float, 4)?;
        let from_field = Cast::find_at(level, field, bytes, float, 4)?;
        let to_field = Cast::find_at(level, float, 4, field, bytes)?.streamed(is_streamed);
        let stepped = |source, target| SteppedRows::at(level, source, target);
        Some(Change {
            augment,
            layout: Layout::new(extents, u64::from(bytes)),
            to_float,
            field: [from_field, to_field],
            whole: stepped(source.0, field),
            halves: [stepped(source.0, float), stepped(float, field)],
            is_streamed,
            level,
        })
    }

    /// The same for elements of the field's type.
    pub fn of_field(self) -> Change<'a> {
        let halves = [None, self.halves[1]];
        Change { to_float: self.field[0], whole: None, halves, ..self }
    }

    /// The arithmetic.
    pub fn augment(&self) -> Augment<'a> {
        self.augment
    }

    /// Extents of the field.
    pub fn extents(&self) -> &'a [u64] {
        self.layout.extents
    }

    /// Whether padding is changed too.
    pub fn pad_goes_through(&self) -> bool {
        self.augment.pad_goes_through()
    }

    /// The state of a block that is being changed.
    pub fn strip<'s>(&self, block: &Block, scratch: &'s mut Scratch) -> Strip<'s, 'a> {
        // It is of the arithmetic of one box.
        scratch.pattern = None;
        Strip { scratch, erasing: Erasing::of(block, &self.augment, self.layout) }
    }

    /// The part of a block of the field that lies in a range along each of the field's axes; None
    /// where there is none.
    pub fn cut(&self, block: &Block, range: impl Fn(usize) -> Range) -> Option<Block> {
        self.layout.cut(block, range).map(|(part, _)| part)
    }

    /// Changes the elements of a plane, which `source` has, on their way into the field.
    pub fn plane(
        &self,
        source: &Plane<'_>,
        plane: &BlockPlane,
        claim: &mut Claim<'_>,
        strip: &mut Strip<'_, '_>,
    ) {
        self.plane_to(source, (plane, (plane.target, plane.target_pitch)), claim, strip);
    }

    /// The same to another place of the claim: its first byte, and bytes from one row to the next.
    fn plane_to(
        &self,
        source: &Plane<'_>,
        (plane, to): (&BlockPlane, (u64, u64)),
        claim: &mut Claim<'_>,
        strip: &mut Strip<'_, '_>,
    ) {
        let (bytes, length) = (self.layout.bytes, plane.length);
        let (first, pitch) = (plane.target / bytes, plane.target_pitch / bytes);
        let places = ((first, pitch), (to.0 / bytes, to.1 / bytes));
        let whole = self.whole.filter(|_| self.augment.noise().is_none());
        let whole = whole.filter(|pass| takes(pass, source));
        let group = (STRIP as u64 / length).max(1);
        let mut row = 0;
        while row < plane.count {
            let (place, left) = (first + row * pitch, plane.count - row);
            if let Some(whole) = whole
                && let Some((hole, count)) = self.hole((place, length), (pitch, left), strip)
            {
                let part = Part::of(source, places, (row, count), (0, length));
                self.pass(&whole, &part, &hole, claim);
                row += count;
                continue;
            }
            let (count, mut at) = (group.min(left), 0);
            while at < length {
                let (rows, rest) = ((row, count), length - at);
                // Whole strips, so that what follows begins with a cache line.
                let is_row = count == 1 && whole.is_some();
                let alike = if is_row { self.alike(place + at, strip) } else { 0 };
                let alike = (alike / STRIP as u64 * STRIP as u64).min(rest);
                let piece = if alike > 0 { alike } else { rest.min(STRIP as u64) };
                let part = Part::of(source, places, rows, (at, piece));
                match whole {
                    Some(whole) if alike > 0 => self.pass(&whole, &part, &Hole::NONE, claim),
                    _ => self.by_strip(&part, claim, strip),
                }
                at += piece;
            }
            row += count;
        }
        if self.is_streamed {
            stream_fence();
        }
    }

    /// Changes floats along one line of the field. `plain`: an element of the field that all of
    /// them get, and nothing is done to that.
    pub fn run(
        &self,
        run: &Run<'_>,
        plain: Option<&[u8]>,
        claim: &mut Claim<'_>,
        scratch: &mut Scratch,
    ) {
        let Run { floats, place, to } = *run;
        let along = |(target, target_step): (u64, u64)| {
            let axis = BlockAxis { length: floats.len() as u64 / 4, source_step: 4, target_step };
            Block { axes: [axis].into_iter().collect(), source: 0, target }
        };
        if let Some(element) = plain {
            fill_block(claim, &along(to), element);
            return;
        }
        let block = along(place);
        let mut strip = self.strip(&block, scratch);
        let order = ByteOrder::Little;
        block.for_each_plane(self.layout.bytes, &mut |plane| {
            let (step, pitch) = (plane.source_step, plane.source_pitch);
            let floats = Plane { bytes: floats, first: plane.source, step, pitch, order };
            // A line is one plane.
            self.plane_to(&floats, (plane, to), claim, &mut strip);
        });
    }

    /// How many places from one on are of its channel, and not erased.
    fn alike(&self, place: u64, strip: &mut Strip<'_, '_>) -> u64 {
        let erased = strip.erasing.as_mut().map_or(u64::MAX, |erasing| erasing.next(place));
        erased.min(self.channel_limit(place)) - place
    }

    /// The first place after one that has another channel.
    pub(super) fn channel_limit(&self, place: u64) -> u64 {
        match self.augment.channels() {
            0 | 1 => u64::MAX,
            _ => {
                let inner = self.layout.strides[self.augment.channel_axis()];
                (place / inner + 1) * inner
            }
        }
    }

    /// The erased places of a row of one channel, and how many rows from that one on have theirs at
    /// the same places. None if the row has several channels, or several runs of erased places.
    fn hole(
        &self,
        (place, length): (u64, u64),
        (pitch, left): (u64, u64),
        strip: &mut Strip<'_, '_>,
    ) -> Option<(Hole, u64)> {
        let spare = (self.channel_limit(place) - place).checked_sub(length)?;
        let rows = if left > 1 { left.min(spare / pitch + 1) } else { left };
        match &mut strip.erasing {
            None => Some((Hole::NONE, rows)),
            Some(erasing) => erasing.hole((place, length), (pitch, rows)),
        }
    }

    /// Changes places that are alike, but for those of the hole.
    fn pass(&self, whole: &SteppedRows, part: &Part<'_>, hole: &Hole, claim: &mut Claim<'_>) {
        let steps = self.steps(self.channel_of(part.first, part.first).unwrap_or(0));
        let mut rows = part.rows(claim, self.layout.bytes);
        let steps = (&steps, hole);
        stepped(whole, (&part.source, part.length), steps, &mut rows, self.is_streamed);
    }

    /// Changes no more places than a strip has.
    fn by_strip(&self, part: &Part<'_>, claim: &mut Claim<'_>, strip: &mut Strip<'_, '_>) {
        let row_bytes = index(4 * part.length);
        let Strip { scratch: Scratch { floats, pattern }, erasing } = strip;
        let bytes = &mut floats[..row_bytes * index(part.count)];
        let mut packed = RowsMut::packed(bytes, row_bytes);
        let noise = self.augment.noise();
        let one = self.channel_of(part.first, part.limit() - 1).filter(|_| noise.is_none());
        // The steps that are left, the same for all.
        let mut steps = match (one, self.halves[0]) {
            (Some(channel), Some(pass)) if takes(&pass, &part.source) => {
                stepped(
                    &pass,
                    (&part.source, part.length),
                    (&self.steps(channel), &Hole::NONE),
                    &mut packed,
                    false,
                );
                None
            }
            (one, _) => {
                self.to_float.plane(&part.source, &mut packed);
                let floats = bytes.as_chunks_mut().0;
                one.map(|channel| self.steps(channel))
                    .or_else(|| self.rows(floats, part, noise, pattern))
            }
        };
        if let Some(erasing) = erasing
            && erasing.next(part.first) < part.limit()
        {
            let floats = bytes.as_chunks_mut().0;
            steps.take().inspect(|steps| run(self.level, floats, steps));
            let rows = floats.chunks_exact_mut(index(part.length));
            for (row, floats) in (0..).zip(rows) {
                erasing.erase(floats, part.first + row * part.pitch);
            }
        }
        if self.halves[1].is_none() {
            steps.take().inspect(|steps| run(self.level, bytes.as_chunks_mut().0, steps));
        }
        let (pitch, order) = (row_bytes as i64, ByteOrder::Little);
        let floats = Plane { bytes, first: 0, step: 4, pitch, order };
        let rows = &mut part.rows(claim, self.layout.bytes);
        let Some(pass) = &self.halves[1] else { return self.field[1].plane(&floats, rows) };
        stepped(
            pass,
            (&floats, part.length),
            (&steps.unwrap_or(Steps::NONE), &Hole::NONE),
            rows,
            self.is_streamed,
        );
    }

    /// Scales the floats of rows, each by its own channel, and adds noise. Returns the steps that
    /// are left.
    fn rows(
        &self,
        floats: &mut [FloatBytes],
        part: &Part<'_>,
        noise: Option<(f32, u64)>,
        pattern: &mut Option<Pattern>,
    ) -> Option<Steps> {
        let rows = floats.chunks_exact_mut(index(part.length));
        for (number, row) in (0..).zip(rows) {
            let place = part.first + number * part.pitch;
            self.scaled(row, place, noise.is_some(), pattern);
            if let Some(noise) = noise {
                add_noise(self.level, row, noise, place);
            }
        }
        noise.map(|_| Steps { scale: 1.0, bias: -0.0, ..self.steps(0) })
    }

    /// The channel that all places from one to another have; None if they have several.
    pub(super) fn channel_of(&self, first: u64, last: u64) -> Option<usize> {
        let channels = u64::from(self.augment.channels());
        if channels <= 1 {
            return Some(0);
        }
        let run = first / self.layout.strides[self.augment.channel_axis()];
        let is_one = run == last / self.layout.strides[self.augment.channel_axis()];
        is_one.then_some(index(run % channels))
    }

    /// Scales a row and adds the bias; clamps it unless noise is to be added first.
    fn scaled(
        &self,
        row: &mut [FloatBytes],
        place: u64,
        has_noise: bool,
        pattern: &mut Option<Pattern>,
    ) {
        let channels = u64::from(self.augment.channels());
        let open = |steps: Steps| match has_noise {
            true => Steps { low: Steps::NONE.low, high: Steps::NONE.high, ..steps },
            false => steps,
        };
        if channels <= 1 {
            return run(self.level, row, &open(self.steps(0)));
        }
        let inner = self.layout.strides[self.augment.channel_axis()];
        let period = inner * channels;
        let phase = place % period;
        // One channel, or few.
        if inner >= RUN_MIN || inner - phase % inner >= row.len() as u64 {
            let (mut rest, mut at) = (row, phase);
            while !rest.is_empty() {
                let left = index((inner - at % inner).min(rest.len() as u64));
                let (head, tail) = rest.split_at_mut(left);
                run(self.level, head, &open(self.steps(index(at / inner % channels))));
                (rest, at) = (tail, at + left as u64);
            }
            return;
        }
        if pattern.as_ref().is_none_or(|pattern| pattern.phase != phase) {
            *pattern = Some(self.pattern(phase));
        }
        let Some(Pattern { scale, bias, .. }) = pattern else { return };
        let Steps { low, high, .. } = open(self.steps(0));
        let (scale, bias) = (&scale[..row.len()], &bias[..row.len()]);
        run_each(self.level, row, (scale, bias), (low, high));
    }

    /// The pattern from a place among those of all channels on.
    fn pattern(&self, phase: u64) -> Pattern {
        let mut made = Pattern { phase, scale: [0.0; STRIP], bias: [0.0; STRIP] };
        let inner = self.layout.strides[self.augment.channel_axis()];
        let period = inner * u64::from(self.augment.channels());
        let each = made.scale.iter_mut().zip(&mut made.bias);
        for (place, (scale, bias)) in (phase..).zip(each) {
            let steps = self.steps(index(place % period / inner));
            (*scale, *bias) = (steps.scale, steps.bias);
        }
        made
    }

    /// The steps of a channel.
    pub(super) fn steps(&self, channel: usize) -> Steps {
        let (low, high) = self.augment.clamp().unwrap_or((Steps::NONE.low, Steps::NONE.high));
        let channel = if self.augment.channels() == 1 { 0 } else { channel };
        let (scale, bias) = (self.augment.scale(channel), self.augment.bias(channel));
        Steps {
            scale: scale.unwrap_or(Steps::NONE.scale),
            bias: bias.unwrap_or(Steps::NONE.bias),
            low,
            high,
        }
    }
}

/// Whether a pass takes rows of a source: elements side by side in the machine's order.
fn takes(pass: &SteppedRows, source: &Plane<'_>) -> bool {
    let bytes = pass.source_bytes();
    source.step.unsigned_abs() == bytes && (source.order == ByteOrder::Little || bytes == 1)
}

/// Does as many rows of a source as a target has.
fn stepped(
    pass: &SteppedRows,
    (source, length): (&Plane<'_>, u64),
    steps: (&Steps, &Hole),
    target: &mut RowsMut<'_>,
    is_streamed: bool,
) {
    let (bytes, is_backwards) = (pass.source_bytes() * length, source.step < 0);
    // The lowest byte of the row.
    let first =
        if is_backwards { source.first + pass.source_bytes() - bytes } else { source.first };
    let rows = Rows::new(source.bytes, first, bytes, target.count() as u64, source.pitch);
    pass.run(steps, index(length), (&rows, is_backwards), target, is_streamed);
}
