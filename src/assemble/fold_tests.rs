//! Boxes with padding whose elements are changed on their way, at every level, against a loop that
//! looks at one place after the other.

use super::augment::{Change, Scratch};
use super::axis::{PadMode, tests::walked};
use super::cast::Cast;
use super::*;
use crate::base::math::coordinates_from_linear;
use crate::records::{AugmentHead, AugmentWords, AxisWalk, BoxShape, Dtype};
use crate::simd::{FloatEnvironment, Level};
use std::vec;
use std::vec::Vec;

const SCALE: [f32; 3] = [0.5, 1.5, -0.25];
const BIAS: [f32; 3] = [-3.0, 0.0, 7.5];

/// An array of one field's axes, a box of it along whose last axis all begins are tried, and how
/// the elements lie in the field.
struct Case {
    shape: [u64; 3],
    chunk: [u64; 3],
    places: [u64; 3],
    channel_axis: u32,
    pad: PadMode,
    goes_through: bool,
    source: Dtype,
}

const PLAIN: Case = Case {
    shape: [3, 9, 32],
    chunk: [3, 9, 32],
    places: [3, 9, 32],
    channel_axis: 0,
    pad: PadMode::Reflect,
    goes_through: true,
    source: Dtype::U8,
};

const CASES: [Case; 9] = [
    PLAIN,
    Case { source: Dtype::U16, pad: PadMode::Edge, ..PLAIN },
    Case { source: Dtype::F32, places: [3, 4, 61], ..PLAIN },
    Case { goes_through: false, ..PLAIN },
    // Channels along the row, and along rows.
    Case { shape: [5, 7, 3], chunk: [5, 7, 3], places: [5, 7, 3], channel_axis: 2, ..PLAIN },
    Case { shape: [7, 3, 40], chunk: [7, 3, 40], places: [7, 3, 33], channel_axis: 1, ..PLAIN },
    // A chunk has parts of rows, with places of others between them, or all of a long one.
    Case { chunk: [2, 5, 7], ..PLAIN },
    Case { shape: [3, 2, 5], chunk: [3, 2, 3], places: [3, 2, 40], ..PLAIN },
    Case { shape: [3, 2, 400], chunk: [3, 2, 400], places: [3, 2, 300], ..PLAIN },
];

impl Case {
    fn record(&self) -> ArrayRecord {
        let mut record = ArrayRecord::EMPTY.clone();
        (record.rank, record.dtype, record.dtype_bytes) = (3, self.source, self.source.bytes());
        record.shape[..3].copy_from_slice(&self.shape);
        record.chunk_shape[..3].copy_from_slice(&self.chunk);
        let mut stride = u64::from(record.dtype_bytes);
        for axis in (0..3).rev() {
            record.chunk_strides[axis] = stride as i64;
            stride *= self.chunk[axis];
        }
        record.chunk_bytes = stride;
        record
    }

    fn words(&self) -> AugmentWords {
        let mut words = AugmentWords::default();
        let (channel_axis, pad_goes_through) = (self.channel_axis, self.goes_through);
        let head =
            AugmentHead { channels: 3, channel_axis, pad_goes_through, ..Default::default() };
        assert!(words.begin(&head, 3, SCALE.into_iter(), BIAS.into_iter()));
        words
    }

    /// The value of an element of the array: no other is the same nearby.
    fn value(&self, at: [u64; 3]) -> u8 {
        (at[0] * 83 + at[1] * 29 + at[2] * 3) as u8
    }

    fn chunk_bytes(&self, origin: [u64; 3]) -> Vec<u8> {
        let count: u64 = self.chunk.iter().product();
        let element = |linear: u64| {
            let mut at = [0; 3];
            coordinates_from_linear(linear, &self.chunk, &mut at);
            let value = self.value([0, 1, 2].map(|axis| origin[axis] + at[axis]));
            let bytes = match self.source {
                Dtype::F32 => f32::from(value).to_le_bytes(),
                _ => u32::from(value).to_le_bytes(),
            };
            bytes[..self.source.bytes() as usize].to_vec()
        };
        (0..count).flat_map(element).collect()
    }

    /// The field, from one chunk after the other.
    fn scattered(&self, level: Level, shape: &BoxShape, words: &AugmentWords) -> Vec<f32> {
        let record = &self.record();
        let strides = &shape.strides(3, 4);
        let own = (self.source, self.source.bytes());
        let cast = &Cast::find_at(level, own.0, own.1, Dtype::F32, 4).expect("a cast");
        let augment = words.view().expect("words");
        let field = (&self.places[..], Dtype::F32);
        let change = Change::new_at(level, augment, own, field, false).expect("a change");
        let sample = SampleBox {
            record,
            cast,
            shape,
            first: shape.at * u64::from(cast.target_bytes()),
            strides,
            pad: self.pad,
        };
        let count = self.places.iter().product::<u64>() as usize;
        let (mut memory, mut scratch) = (vec![0xA5; 4 * count + 128], Scratch::NEW);
        let counts = [0, 1, 2].map(|axis| self.shape[axis].div_ceil(self.chunk[axis]));
        let mut written = 0;
        for number in 0..counts.iter().product() {
            let mut origin = [0; 3];
            coordinates_from_linear(number, &counts, &mut origin);
            let origin = [0, 1, 2].map(|axis| origin[axis] * self.chunk[axis]);
            let claim = Claim::on(&mut memory[64..][..4 * count]);
            let mut target = Target { sample, claim, change: Some((&change, &mut scratch)) };
            let bytes = &self.chunk_bytes(origin);
            written += scatter(&mut target, &origin, &ChunkBytes { bytes, first: 0 });
        }
        assert_eq!(written as usize, 4 * count);
        let (before, rest) = memory.split_at(64);
        let (field, after) = rest.split_at(4 * count);
        assert!(before.iter().chain(after).all(|byte| *byte == 0xA5));
        field.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// The same from the array itself.
    fn expected(&self, begin: [i64; 3], backwards: [bool; 3]) -> Vec<f32> {
        let count = self.places.iter().product::<u64>();
        let value = |linear: u64| {
            let mut place = [0; 3];
            coordinates_from_linear(linear, &self.places, &mut place);
            let at = [0, 1, 2].map(|axis| match backwards[axis] {
                true => begin[axis] + (self.places[axis] - 1 - place[axis]) as i64,
                false => begin[axis] + place[axis] as i64,
            });
            let is_inside = (0..3).all(|axis| (0..self.shape[axis] as i64).contains(&at[axis]));
            let source = [0, 1, 2].map(|axis| {
                walked(at[axis], self.shape[axis] as i64, self.pad).expect("a source") as u64
            });
            let (x, channel) = (f32::from(self.value(source)), place[self.channel_axis as usize]);
            let channel = channel as usize;
            match is_inside || self.goes_through {
                true => x * SCALE[channel] + BIAS[channel],
                false => x,
            }
        };
        (0..count).map(value).collect()
    }
}

#[test]
fn padded_rows_are_what_the_loop_gives_in_each_direction() {
    let _environment = FloatEnvironment::enter();
    for (number, case) in CASES.iter().enumerate() {
        let words = &case.words();
        for (directions, shift) in
            (0..8).flat_map(|directions| (-6..7).map(move |at| (directions, at)))
        {
            let backwards = [0, 1, 2].map(|axis| directions >> axis & 1 != 0);
            // Off both ends of the rows, one or none of the axis before, and not of the first.
            let begin = [0, [-1, 0, 1][(shift + 6) as usize % 3], shift];
            let mut shape = BoxShape::EMPTY;
            for axis in 0..3 {
                let end = begin[axis] + case.places[axis] as i64;
                let step = if backwards[axis] { -1 } else { 1 };
                let walk = AxisWalk::of(begin[axis], end, step).expect("a walk");
                shape.axes[axis] = walk.to_axis(Some(axis));
            }
            let expected = case.expected(begin, backwards);
            for level in Level::each() {
                let made = case.scattered(level, &shape, words);
                assert!(made == expected, "case {number}, {backwards:?}, {begin:?}, {level:?}");
            }
        }
    }
}
