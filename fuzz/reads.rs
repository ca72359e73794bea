//! What the contract of include/wavetrain.h says of a box that is read into memory of the caller:
//! the places of the target hold the box, and no other byte of the block around them changes.
//!
//! In: choices, an array. Out: a call of `wavetrain_read_into`, and a panic where the block is not
//! as it must be.

use super::box_model::{BoxModel, FieldModel, Lists, row_major, scattered};
use super::choices::Choices;
use super::memory_store::Array;
use super::oracle::Pad;
use std::ptr::null;
use wavetrain::abi::{Error, SampleBox};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::Dtype;
use wavetrain::surface::c::wavetrain_read_into;

const POISON: u8 = 0xC3;

/// A box, and where it goes.
pub struct Read {
    pub model: BoxModel,
    /// The field of the loader, as if its shape were the box's.
    pub field: FieldModel,
    raw: SampleBox,
    strides: Option<Vec<i64>>,
    /// A heap block of just the bytes that may be written, and the place of the first in it.
    block: Vec<u8>,
    first: usize,
    /// Refused whatever the store says.
    pub is_hostile: bool,
    /// The value that pads is one of the field's elements, and the array has others.
    pub pads_unknown: bool,
}

impl Read {
    /// A box of an array, perhaps of index lists if so many indices are taken, to any places of the
    /// types and the padding of one of the fields.
    pub fn choose(
        choices: &mut Choices<'_>,
        fields: &[FieldModel],
        array: &Array,
        indices_max: u32,
    ) -> Read {
        let number = choices.below(fields.len() as u64) as usize;
        let mut field = fields[number].clone();
        let (view, is_seen) = (field.view(array), field.view(array).is_some());
        let image = view.unwrap_or(&array.image);
        let pads_other = field.dtype == Dtype::Raw && field.bytes != image.dtype.bytes();
        let pads_unknown = pads_other && field.pads_value;
        if pads_other {
            (field.bytes, field.pads_value, field.pad_value) = (image.dtype.bytes(), false, 0.0);
        }
        (field.takes_parts, field.shape) = (false, Vec::new());
        let (mut begin, mut end, mut step) = (Vec::new(), Vec::new(), Vec::new());
        for extent in image.shape.iter().map(|extent| *extent as i64) {
            let length = choices.one_of(&[1, 1, 1, 2, 3]);
            let places = 1 + choices.below((extent as u64).min(6)) as i64;
            let length = if (places - 1) * length < extent { length } else { 1 };
            let reach = (places - 1) * length + 1;
            let margin = if field.pad == Pad::None || length > 1 { 0 } else { 2 };
            let margin = if choices.rarely(16) { 2 } else { margin };
            let at = choices.below((extent - reach + 1 + 2 * margin).max(1) as u64) as i64 - margin;
            field.shape.push(places as u64);
            begin.push(at);
            end.push(at + reach);
            step.push(choices.one_of(&[length, length, -length]));
        }
        let (axes, at) = (vec![0; begin.len()], [0; RANK_MAX]);
        let (image, fed, is_hostile) = (image.clone(), None, !is_seen);
        let (map, lists) = (None, Lists::default());
        let mut model =
            BoxModel { field: 0, begin, end, step, axes, at, image, fed, map, lists, is_hostile };
        if indices_max > 0 && choices.rarely(2) {
            model.choose_lists(choices, std::slice::from_ref(&field));
        }
        let is_hostile = model.is_hostile || model.index_count() > u64::from(indices_max);
        let raw = SampleBox { field: number as u32, ..model.raw() };
        let (strides, block, first) = (None, Vec::new(), 0);
        let mut read = Read { model, field, raw, strides, block, first, is_hostile, pads_unknown };
        read.lay(choices);
        if choices.rarely(6) {
            read.spoil(choices);
        }
        read
    }

    /// Chooses the places.
    fn lay(&mut self, choices: &mut Choices<'_>) {
        let (bytes, shape) = (i64::from(self.field.bytes), &self.field.shape);
        let is_row_major = choices.rarely(3);
        let strides = match is_row_major {
            true => row_major(shape, bytes),
            false => scattered(choices, shape, bytes, &[1, -1]),
        };
        let reach = |is_of: fn(i64) -> bool| -> i64 {
            let axes = shape.iter().zip(&strides).filter(|(_, stride)| is_of(**stride));
            axes.map(|(extent, stride)| (*extent as i64 - 1) * stride.abs()).sum()
        };
        self.first = reach(|stride| stride < 0) as usize;
        let size = self.first as i64 + reach(|stride| stride > 0) + bytes;
        self.block = vec![POISON; size as usize];
        self.strides = (!is_row_major).then_some(strides);
    }

    /// Makes any one thing wrong, or right in another way.
    fn spoil(&mut self, choices: &mut Choices<'_>) {
        let rank = self.field.shape.len();
        let axis = choices.below(rank.max(1) as u64) as usize;
        let wild = choices.one_of(&[0, i64::MIN, i64::MAX, 1 << 58, -(1 << 58), i64::MIN + 1]);
        match (choices.below(6), &mut self.strides) {
            (0, _) => {
                // One byte too few.
                self.block.pop();
                self.is_hostile = true;
            }
            (1, _) => (self.raw.field, self.is_hostile) = (u32::MAX, true),
            (2, _) if rank > 0 => (self.raw.at[axis], self.is_hostile) = (1, true),
            (3, _) if rank > 0 => (self.raw.axes[axis], self.is_hostile) = (1, true),
            (4 | 5, Some(strides)) if rank > 0 => {
                // Of one place it says nothing.
                strides[axis] = wild;
                self.is_hostile = self.field.shape[axis] > 1;
            }
            _ => {}
        }
    }

    /// Reads the box of the array at `uri`.
    pub fn call(&mut self, loader: u64, uri: &[u8], timeout: u64, error: &mut Error) -> i32 {
        let mut raw = self.raw;
        (raw.uri, raw.uri_bytes) = (uri.as_ptr().cast(), uri.len() as u64);
        let strides = self.strides.as_ref().map_or(null(), |strides| strides.as_ptr());
        let target = self.block.as_mut_ptr().wrapping_add(self.first).cast();
        let (size, bytes) = (size_of::<SampleBox>(), self.block.len() as u64);
        // SAFETY: the block has all places of the box, or is refused.
        unsafe { wavetrain_read_into(loader, &raw, size, target, bytes, strides, timeout, error) }
    }

    /// Checks every byte of the block; `want`: the box, row by row, if that is known.
    pub fn check(&self, want: Option<&[u8]>) {
        let bytes = self.field.bytes as usize;
        let mut is_place = vec![false; self.block.len()];
        if !self.is_hostile {
            for (number, at) in self.places().into_iter().enumerate() {
                is_place[at..at + bytes].fill(true);
                let want = want.map(|want| &want[number * bytes..][..bytes]);
                let found = &self.block[at..at + bytes];
                assert!(want.is_none_or(|want| want == found), "place {number}: {found:02x?}");
            }
        }
        let beside = self.block.iter().zip(is_place).position(|(byte, is)| !is && *byte != POISON);
        assert_eq!(beside, None, "a byte beside the places");
    }

    /// Where each place lies in the block, row by row.
    fn places(&self) -> Vec<usize> {
        let shape = &self.field.shape;
        let row_by_row = || row_major(shape, self.field.bytes.into());
        let strides = self.strides.clone().unwrap_or_else(row_by_row);
        let place = |number: u64| {
            let (mut rest, mut at) = (number, self.first as i64);
            for axis in (0..shape.len()).rev().filter(|axis| shape[*axis] > 1) {
                at += (rest % shape[axis]) as i64 * strides[axis];
                rest /= shape[axis];
            }
            at as usize
        };
        (0..shape.iter().product()).map(place).collect()
    }
}
