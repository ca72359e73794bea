//! Elements of a block into places of a target.
//!
//! In: a map, a layout, the block's bytes, what is outside, a target. Out: all places of a part,
//! each written once. Invariant: the same bits at every level, however an output is cut into parts.
//!
//! The taps of a strip of places are found once for all of the axes that are copied. Then each tap
//! is a row of elements side by side, which become floats as any elements do; floats are
//! lerped, and what is left of them becomes elements of the target.

use super::layout::Layout;
use super::map::{Filter, Map};
use super::part::Part;
use super::taps::{Line, Strip};
use crate::base::arena::{Claim, Rows, RowsMut};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::loops::casts::pair;
use crate::loops::resample::{Floats, GatherAt, STRIP, TAPS_MAX, gather_at};
use crate::loops::simd::{strip_lerp, strip_linear};
use crate::records::Dtype;
use crate::simd::{DenseRows, Level};

/// Bytes of gathered elements: of eight taps of at most eight bytes, or of one of any size.
const GATHERED_BYTES: usize = TAPS_MAX * STRIP * 8;

/// Bytes of a float.
const FLOAT: usize = 4;

/// Where places are written.
pub struct Target<'a, 'b> {
    /// The right to write all places of the part that is asked for.
    pub claim: &'b mut Claim<'a>,
    /// Byte of the first place of that part.
    pub first: u64,
    /// An element of the type that places are resampled to: what those hold that lie outside of
    /// the array.
    pub pad: &'b [u8],
    /// Writes the places; None: they are copied as they are.
    pub write: Option<&'b mut Write<'a, 'b>>,
}

/// Writes elements of the type that places are resampled to.
pub type Write<'a, 'b> = dyn FnMut(&mut Claim<'a>, Places<'_>) + 'b;

/// Places along one axis of the output.
pub struct Places<'e> {
    /// Their elements.
    pub elements: &'e [u8],
    /// The byte of the first of them.
    pub first: u64,
    /// Bytes from one to the next.
    pub step: u64,
    /// Which of them lie outside of the array, if some do.
    pub outside: Option<&'e dyn Fn(usize) -> bool>,
}

/// Resamples elements of one type into another. Found once per array.
#[derive(Clone, Copy)]
pub struct Resample {
    filter: Filter,
    source: Dtype,
    source_bytes: usize,
    target_bytes: usize,
    level: Level,
    gather: GatherAt,
    /// To floats, or, for nearest, to the target's type; None where elements are that already.
    to_floats: Option<DenseRows>,
    /// From floats to the target's type.
    from_floats: Option<DenseRows>,
    /// From an element of the target to a float.
    pad_to_float: Option<DenseRows>,
    /// Whether a source element may be infinite, NaN or -0.
    has_specials: bool,
}

/// What a strip needs: some 10 KiB of stack.
struct Work {
    strip: Strip,
    gathered: [u8; GATHERED_BYTES],
    floats: Floats,
    result: [u8; STRIP * ELEMENT_BYTES_MAX],
}

impl Resample {
    /// The way from elements of one type to another through a filter; None where there is none.
    /// Linear takes each type that is cast to f32, to f32, f16 and bf16. Nearest takes what
    /// `assemble` casts. The sizes matter for RAW; those of other types must be their own.
    pub fn find(filter: Filter, source: (Dtype, u32), target: (Dtype, u32)) -> Option<Resample> {
        Resample::find_at(Level::here(), filter, source, target)
    }

    /// [`Resample::find`] with the instructions of one level: all give the same bits.
    pub fn find_at(
        level: Level,
        filter: Filter,
        (source, source_bytes): (Dtype, u32),
        (target, target_bytes): (Dtype, u32),
    ) -> Option<Resample> {
        let is_own = |dtype: Dtype, bytes: u32| dtype == Dtype::Raw || bytes == dtype.bytes();
        if !is_own(source, source_bytes) || !is_own(target, target_bytes) {
            return None;
        }
        let cast = |from: Dtype, to: Dtype| {
            if from == to {
                return Some(None);
            }
            let pair = pair(from, to)?;
            Some(Some(DenseRows::at(&pair.kernels, pair.portable, level)))
        };
        let (to_floats, from_floats, pad_to_float) = match filter {
            Filter::Nearest if source == target || target == Dtype::Raw => {
                if source_bytes != target_bytes {
                    return None;
                }
                (None, None, None)
            }
            Filter::Nearest => (cast(source, target)?, None, None),
            Filter::Linear if !matches!(target, Dtype::F32 | Dtype::F16 | Dtype::Bf16) => {
                return None;
            }
            Filter::Linear => {
                (cast(source, Dtype::F32)?, cast(Dtype::F32, target)?, cast(target, Dtype::F32)?)
            }
        };
        Some(Resample {
            filter,
            source,
            source_bytes: source_bytes as usize,
            target_bytes: target_bytes as usize,
            level,
            gather: gather_at(source_bytes)?,
            to_floats,
            from_floats,
            pad_to_float,
            has_specials: matches!(source, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64),
        })
    }

    /// Writes the places of a part. `block` holds the elements of `layout`. The thread has the
    /// default floating-point environment.
    pub fn part(
        &self,
        map: &Map,
        layout: &Layout,
        block: &[u8],
        target: &mut Target<'_, '_>,
        part: &Part,
    ) {
        assert!(map.filter == self.filter);
        assert!(block.len() as u64 == layout.elements() * self.source_bytes as u64);
        assert!(target.pad.len() == self.target_bytes);
        let mut work = Work {
            strip: Strip::new(),
            gathered: [0; GATHERED_BYTES],
            floats: [[[0; FLOAT]; STRIP]; TAPS_MAX],
            result: [0; STRIP * ELEMENT_BYTES_MAX],
        };
        let [outers, inners, range] = &part.mapped;
        let rows = outers.clone().flat_map(|outer| inners.clone().map(move |inner| (outer, inner)));
        for (outer, inner) in rows {
            let line = Line::new(map, layout, (outer, inner));
            let inside = line.inside();
            let (outer, inner) = (outer - outers.start, inner - inners.start);
            let first = target.first + outer * layout.target[0] + inner * layout.target[1];
            let pieces = [
                (range.start..inside.start, false),
                (inside.clone(), true),
                (inside.end..range.end, false),
            ];
            for (piece, is_inside) in pieces {
                let piece = piece.start.max(range.start)..piece.end.min(range.end);
                for at in piece.clone().step_by(STRIP) {
                    let count = (piece.end - at).min(STRIP as u64) as usize;
                    line.take(self.level, at, count, is_inside, &mut work.strip);
                    let first = first + (at - range.start) * layout.target[2];
                    self.strip(layout, block, target, (first, part), &mut work);
                }
            }
        }
    }

    /// Writes a strip for each combination of places on the axes that are copied.
    fn strip(
        &self,
        layout: &Layout,
        block: &[u8],
        target: &mut Target<'_, '_>,
        (first, part): (u64, &Part),
        work: &mut Work,
    ) {
        let count = work.strip.taps.count;
        let has_outside = work.strip.has_outside();
        let is_read = !has_outside || (0..count).any(|place| !work.strip.is_outside(place));
        layout.each_other(&part.others, |voxel, at| {
            if is_read {
                let pad = has_outside.then_some(target.pad);
                self.read(&block[voxel * self.source_bytes..], pad, work);
            }
            let elements = &mut work.result[..count * self.target_bytes];
            for place in 0..if has_outside { count } else { 0 } {
                if work.strip.is_outside(place) {
                    elements[place * self.target_bytes..][..self.target_bytes]
                        .copy_from_slice(target.pad);
                }
            }
            let (to, step) = (first + at, layout.target[2]);
            if let Some(write) = &mut target.write {
                let outside = |place: usize| work.strip.is_outside(place);
                let outside = has_outside.then_some(&outside as &dyn Fn(usize) -> bool);
                return write(target.claim, Places { elements, first: to, step, outside });
            }
            if step == self.target_bytes as u64 {
                return target.claim.part(to, elements.len() as u64).copy_from_slice(elements);
            }
            for (element, number) in elements.chunks_exact(self.target_bytes).zip(0..) {
                let place = target.claim.part(to + number * step, element.len() as u64);
                place.copy_from_slice(element);
            }
        });
    }

    /// Makes the elements of the result of those of `source`. `pad`: some taps are not in the
    /// array.
    fn read(&self, source: &[u8], pad: Option<&[u8]>, work: &mut Work) {
        if self.filter == Filter::Nearest {
            return self.elements(source, work);
        }
        let Work { strip, floats, .. } = work;
        let (level, dtype) = (self.level, self.source);
        if !strip.is_inside || !strip_linear(level, dtype, source, &mut strip.taps, floats) {
            self.elements(source, work);
            self.lerp(pad, work);
        }
        let Work { strip, floats, result, .. } = work;
        let result = &mut result[..strip.taps.count * self.target_bytes];
        cast_row(self.from_floats, floats[0][..strip.taps.count].as_flattened(), result);
    }

    /// Gathers all taps and casts them: to floats, or, for nearest, to the result.
    fn elements(&self, source: &[u8], work: &mut Work) {
        let Work { strip, gathered, floats, result } = work;
        let is_linear = self.filter == Filter::Linear;
        let cast_to = if is_linear { floats.as_flattened_mut().as_flattened_mut() } else { result };
        let (pitch, row_bytes) = (STRIP * self.source_bytes, strip.taps.count * self.source_bytes);
        let gather = |elements: &mut [u8]| {
            for tap in 0..strip.taps.number() {
                let (offsets, delta) = strip.tap(tap);
                (self.gather)(source, offsets, delta, &mut elements[tap * pitch..][..row_bytes]);
            }
        };
        let Some(cast) = self.to_floats else { return gather(cast_to) };
        gather(gathered);
        let (taps, to_bytes) =
            (strip.taps.number(), if is_linear { FLOAT } else { self.target_bytes });
        let rows = Rows::new(gathered, 0, row_bytes as u64, taps as u64, pitch as i64);
        let cast_to = &mut cast_to[..taps * STRIP * to_bytes];
        let mut packed = RowsMut::packed(cast_to, STRIP * to_bytes);
        cast.run(&rows, &mut packed.part(0, taps, 0, strip.taps.count * to_bytes), false);
    }

    /// Lerps floats, those of taps that are not in the array being the pad value.
    fn lerp(&self, pad: Option<&[u8]>, work: &mut Work) {
        let Work { strip, floats, .. } = work;
        if let Some(pad) = pad {
            let mut value = [0; FLOAT];
            cast_row(self.pad_to_float, pad, &mut value);
            for tap in 0..strip.taps.number() {
                for (float, outside) in floats[tap].iter_mut().zip(&strip.outside) {
                    if outside >> tap & 1 == 1 {
                        *float = value;
                    }
                }
            }
        }
        let is_exact = self.has_specials || pad.is_some();
        let taps = &strip.taps;
        strip_lerp(self.level, taps.axes, is_exact, floats, &taps.weights, taps.count);
    }
}

/// Casts elements side by side; without a cast they are copied.
fn cast_row(cast: Option<DenseRows>, source: &[u8], target: &mut [u8]) {
    let Some(cast) = cast else { return target.copy_from_slice(source) };
    let rows = Rows::new(source, 0, source.len() as u64, 1, 0);
    let row_bytes = target.len();
    cast.run(&rows, &mut RowsMut::packed(target, row_bytes), false);
}
