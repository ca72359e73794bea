//! Elements of a box that go through arithmetic on their way into the field: [`Augment`].
//!
//! In: planes of source elements, as of [`super::cast`]. Out: the field's elements. Invariant: what
//! include/wavetrain.h says of wavetrain_augment, bit for bit, wherever a box is cut into planes.
//!
//! A strip of elements becomes floats, which stay in L1 while all is done to them, and then
//! elements of the field. Rows where each element has the same factor and term share a strip. Boxes
//! that are erased are written over a block once that is there.

use super::block::{Block, BlockAxis, BlockPlane};
use super::cast::{Cast, Plane};
use super::fill_block;
use crate::base::arena::{Claim, RowsMut};
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::index;
use crate::loops::augment::{FloatBytes, Steps, add_noise, run, run_each};
use crate::records::{Augment, ByteOrder, Dtype, Erased};
use crate::simd::Level;

/// Floats of a strip.
const STRIP: usize = 1024;

/// A run of floats of one channel has so many, or each float gets its own factor and term.
const RUN_MIN: u64 = 32;

/// What is done to the elements of a box.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    augment: Augment<'a>,
    /// Extents of the field.
    extents: &'a [u64],
    /// Elements from one place to the next along each of its axes.
    strides: [u64; RANK_MAX],
    /// From the array's element type to floats.
    to_float: Cast,
    /// From the field's to floats, and back.
    field: [Cast; 2],
    level: Level,
}

/// The memory of what is changed at a time.
pub struct Strip {
    floats: [u8; STRIP * 4],
    pattern: Option<Pattern>,
}

impl Strip {
    /// With nothing in it.
    pub fn empty() -> Strip {
        Strip { floats: [0; STRIP * 4], pattern: None }
    }
}

/// Factors and terms of a row, whose first element has place `phase` among those of all channels.
struct Pattern {
    phase: u64,
    scale: [f32; STRIP],
    bias: [f32; STRIP],
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
        let float = (Dtype::F32, 4);
        let (bytes, mut strides, mut stride) = (field.bytes(), [0; RANK_MAX], 1);
        for axis in (0..extents.len()).rev() {
            strides[axis] = stride;
            stride *= extents[axis];
        }
        let to_float = Cast::find(source.0, source.1, float.0, float.1)?;
        let from_field = Cast::find(field, bytes, float.0, float.1)?;
        let to_field = Cast::find(float.0, float.1, field, bytes)?.streamed(is_streamed);
        Some(Change {
            augment,
            extents,
            strides,
            to_float,
            field: [from_field, to_field],
            level: Level::here(),
        })
    }

    /// The same for elements of the field's type.
    pub fn of_field(self) -> Change<'a> {
        Change { to_float: self.field[0], ..self }
    }

    /// The arithmetic.
    pub fn augment(&self) -> Augment<'a> {
        self.augment
    }

    /// Extents of the field.
    pub fn extents(&self) -> &'a [u64] {
        self.extents
    }

    /// Whether padding is changed too.
    pub fn pad_goes_through(&self) -> bool {
        self.augment.pad_goes_through()
    }

    /// From floats to the field's elements.
    fn out(&self) -> &Cast {
        &self.field[1]
    }

    fn target_bytes(&self) -> u64 {
        u64::from(self.out().target_bytes())
    }

    /// Changes the elements of a plane, which `source` has, on their way into the field.
    pub fn plane(
        &self,
        source: &Plane<'_>,
        plane: &BlockPlane,
        claim: &mut Claim<'_>,
        strip: &mut Strip,
    ) {
        let target_bytes = self.target_bytes();
        let piece_max = plane.length.min(STRIP as u64);
        let group = STRIP as u64 / piece_max;
        let Strip { floats: strip, pattern } = strip;
        for row in (0..plane.count).step_by(group as usize) {
            let count = group.min(plane.count - row);
            for at in (0..plane.length).step_by(STRIP) {
                let piece = piece_max.min(plane.length - at);
                let (bytes, row_bytes) = (&mut strip[..index(4 * count * piece)], 4 * piece);
                let moved = row as i64 * source.pitch + at as i64 * source.step;
                let first = source.first.wrapping_add_signed(moved);
                let mut packed = RowsMut::packed(bytes, index(row_bytes));
                self.to_float.plane(&Plane { first, ..*source }, &mut packed);
                let target = plane.target + row * plane.target_pitch + at * target_bytes;
                let floats = bytes.as_chunks_mut().0;
                let places = (target / target_bytes, plane.target_pitch / target_bytes);
                self.rows(floats, piece, places, pattern);
                let pitch = row_bytes as i64;
                let order = ByteOrder::Little;
                let floats = Plane { bytes, first: 0, step: 4, pitch, order };
                let row_bytes = piece * target_bytes;
                let mut rows = claim.row_grid(target, row_bytes, count, plane.target_pitch);
                self.out().plane(&floats, &mut rows);
            }
        }
    }

    /// Changes floats of places along one line of the field: the first has byte `first` of the
    /// sample, and from one to the next there are `step`. `plain`: an element of the field that all
    /// of them get, and nothing is done to that.
    pub fn run(
        &self,
        floats: &mut [FloatBytes],
        (first, step): (u64, u64),
        plain: Option<&[u8]>,
        claim: &mut Claim<'_>,
        strip: &mut Strip,
    ) {
        let (count, bytes) = (floats.len() as u64, self.target_bytes());
        let along = BlockAxis { length: count, source_step: 0, target_step: step };
        let block = Block { axes: [along].into_iter().collect(), source: 0, target: first };
        if let Some(element) = plain {
            fill_block(claim, &block, element);
            return;
        }
        let (place, places) = (first / bytes, step / bytes);
        if places == 1 {
            self.rows(floats, count, (place, 0), &mut strip.pattern);
        } else {
            for (float, number) in floats.chunks_exact_mut(1).zip(0..) {
                self.rows(float, 1, (place + number * places, 0), &mut strip.pattern);
            }
        }
        let order = ByteOrder::Little;
        let floats = Plane { bytes: floats.as_flattened(), first: 0, step: 4, pitch: 4, order };
        let (rows, row_bytes) = if places == 1 { (1, bytes * count) } else { (count, bytes) };
        self.out().plane(&floats, &mut claim.row_grid(first, row_bytes, rows, step));
        self.erase(&block, claim);
    }

    /// Changes rows of `length` floats: the first has place `first` in the field, and from one row
    /// to the next there are `pitch`.
    fn rows(
        &self,
        floats: &mut [FloatBytes],
        length: u64,
        (first, pitch): (u64, u64),
        pattern: &mut Option<Pattern>,
    ) {
        let noise = self.augment.noise();
        let count = floats.len() as u64 / length;
        let one = self.channel_of(first, first + (count - 1) * pitch + length - 1);
        if let (None, Some(channel)) = (noise, one) {
            return run(self.level, floats, &self.steps(channel));
        }
        for (number, row) in floats.chunks_exact_mut(index(length)).enumerate() {
            let place = first + number as u64 * pitch;
            self.scaled(row, place, noise.is_some(), pattern);
            if let Some(noise) = noise {
                add_noise(self.level, row, noise, place);
                run(self.level, row, &Steps { scale: 1.0, bias: -0.0, ..self.steps(0) });
            }
        }
    }

    /// The channel that all places from one to another have; None if they have several.
    fn channel_of(&self, first: u64, last: u64) -> Option<usize> {
        let channels = u64::from(self.augment.channels());
        if channels <= 1 {
            return Some(0);
        }
        let run = first / self.strides[self.augment.channel_axis()];
        let is_one = run == last / self.strides[self.augment.channel_axis()];
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
        let inner = self.strides[self.augment.channel_axis()];
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
        let inner = self.strides[self.augment.channel_axis()];
        let period = inner * u64::from(self.augment.channels());
        let each = made.scale.iter_mut().zip(&mut made.bias);
        for (place, (scale, bias)) in (phase..).zip(each) {
            let steps = self.steps(index(place % period / inner));
            (*scale, *bias) = (steps.scale, steps.bias);
        }
        made
    }

    fn steps(&self, channel: usize) -> Steps {
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

    /// Overwrites what is to be erased of a block that is there.
    pub fn erase(&self, block: &Block, claim: &mut Claim<'_>) {
        for erased in self.augment.erased() {
            let channels = erased.channels();
            for channel in 0..channels {
                let range = |axis| match axis {
                    axis if channels > 1 && axis == self.augment.channel_axis() => {
                        let (first, limit) = erased.range(axis);
                        (first.max(channel as u64), limit.min(channel as u64 + 1))
                    }
                    axis => erased.range(axis),
                };
                if let Some(part) = self.cut(block, range) {
                    let element = self.erased_element(&erased, channel);
                    let bytes = index(self.target_bytes());
                    fill_block(claim, &part, &element[..bytes]);
                }
            }
        }
    }

    /// The field's element for a value.
    fn erased_element(&self, erased: &Erased<'_>, channel: usize) -> [u8; ELEMENT_BYTES_MAX] {
        let mut float = [erased.value(channel).to_ne_bytes()];
        run(self.level, &mut float, &Steps::NONE);
        let (mut element, bytes) = ([0; ELEMENT_BYTES_MAX], index(self.target_bytes()));
        let order = ByteOrder::Little;
        let float = Plane { bytes: &float[0], first: 0, step: 0, pitch: 0, order };
        self.out().plane(&float, &mut RowsMut::packed(&mut element[..bytes], bytes));
        element
    }

    /// The part of a block of the field that lies in a range along each of the field's axes; None
    /// where there is none.
    pub fn cut(&self, block: &Block, range: impl Fn(usize) -> (u64, u64)) -> Option<Block> {
        let (bytes, mut rest) = (self.target_bytes(), block.target / self.target_bytes());
        let mut part = Block { axes: block.axes.clone(), ..*block };
        let mut source = block.source as i64;
        for (axis, extent) in self.extents.iter().enumerate() {
            let (stride, place) = (self.strides[axis], rest / self.strides[axis]);
            rest %= stride;
            let (first, limit) = range(axis);
            // Of axes with one distance all but one have one place.
            let walks = |of: &&mut BlockAxis| {
                of.length > 1 && of.target_step == stride * bytes && *extent > 1
            };
            let Some(along) = part.axes.iter_mut().find(walks) else {
                if place < first || place >= limit {
                    return None;
                }
                continue;
            };
            let skipped = first.saturating_sub(place);
            let places = limit.min(place + along.length).checked_sub(place + skipped);
            along.length = places.filter(|places| *places > 0)?;
            part.target += skipped * along.target_step;
            source += skipped as i64 * along.source_step;
        }
        part.source = source as u64;
        Some(part)
    }
}
