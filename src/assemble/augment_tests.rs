//! Elements that are changed on their way, at every level, against a loop that says what is meant.

use super::augment::{Change, Scratch};
use super::block::{Block, BlockAxis};
use super::cast::Plane;
use crate::base::arena::Claim;
use crate::records::{Augment, AugmentHead, AugmentWords, ByteOrder, Dtype};
use crate::simd::{FloatEnvironment, Level};
use std::vec;
use std::vec::Vec;

const EXTENTS: [u64; 3] = [3, 20, 160];
const PLACES: usize = 3 * 20 * 160;

/// A box that is erased, and its values.
type Erased = ([u64; 3], [u64; 3], &'static [f32]);

struct Case {
    channels: u32,
    channel_axis: u32,
    scale: &'static [f32],
    bias: &'static [f32],
    clamp: Option<(f32, f32)>,
    erased: &'static [Erased],
}

const PLAIN: Case =
    Case { channels: 0, channel_axis: 0, scale: &[], bias: &[], clamp: None, erased: &[] };

const CASES: [Case; 6] = [
    PLAIN,
    Case { channels: 1, scale: &[0.3], bias: &[-7.5], clamp: Some((-3.0, 9e3)), ..PLAIN },
    Case { channels: 3, scale: &[0.3, 1.0, -2.0], bias: &[1.0, 0.0, f32::NAN], ..PLAIN },
    // A box in the middle of rows, one of whole rows, one that reaches over both.
    Case {
        channels: 1,
        bias: &[0.25],
        erased: &[
            ([0, 3, 33], [2, 9, 70], &[5.0]),
            ([1, 8, 0], [3, 11, 160], &[f32::NAN]),
            ([1, 10, 159], [2, 20, 160], &[-0.0]),
        ],
        ..PLAIN
    },
    Case {
        channels: 3,
        scale: &[0.5, 2.0, 4.0],
        erased: &[([0, 0, 7], [3, 20, 153], &[1.0, 2.0, 3.0]), ([2, 4, 0], [3, 5, 8], &[6.0])],
        ..PLAIN
    },
    Case {
        channels: 20,
        channel_axis: 1,
        bias: &[1.5; 20],
        erased: &[([1, 2, 0], [2, 19, 160], &[7.0; 20])],
        ..PLAIN
    },
];

impl Case {
    fn words(&self) -> AugmentWords {
        let mut words = AugmentWords::default();
        let (channels, channel_axis, clamp) = (self.channels, self.channel_axis, self.clamp);
        let head = AugmentHead { channels, channel_axis, clamp, ..AugmentHead::default() };
        let [scale, bias] = [self.scale, self.bias].map(|table| table.iter().copied());
        assert!(words.begin(&head, 3, scale, bias));
        for (begin, end, values) in self.erased {
            assert!(words.erase(begin, end, values.iter().copied()));
        }
        words
    }

    /// The float that one at a place becomes.
    fn expected(&self, x: f32, at: [u64; 3]) -> f32 {
        let channel = at[self.channel_axis as usize] as usize;
        let of = |table: &[f32]| table.get(if table.len() > 1 { channel } else { 0 }).copied();
        let x = of(self.scale).map_or(x, |scale| x * scale);
        let x = of(self.bias).map_or(x, |bias| x + bias);
        let x = match self.clamp {
            Some((low, _)) if x < low => low,
            Some((_, high)) if x > high => high,
            _ => x,
        };
        let is_in = |(begin, end, _): &&Erased| {
            (0..3).all(|axis| (begin[axis]..end[axis]).contains(&at[axis]))
        };
        let erased = self.erased.iter().rfind(is_in);
        let x = erased.and_then(|(_, _, values)| of(values)).unwrap_or(x);
        if x.is_nan() { f32::from_bits(0x7FC0_0000) } else { x }
    }
}

/// The field, of a block of it that is read with these directions along its axes.
fn changed(
    level: Level,
    augment: Augment<'_>,
    source: (Dtype, &[u8]),
    (field, is_streamed): (Dtype, bool),
    backwards: [bool; 3],
) -> Vec<u8> {
    let (size, bytes) = (i64::from(source.0.bytes()), u64::from(field.bytes()));
    let types = ((source.0, source.0.bytes()), (&EXTENTS[..], field));
    let change = Change::new_at(level, augment, types.0, types.1, is_streamed).expect("a change");
    let (mut strides, mut first) = ([3200 * size, 160 * size, size], 0);
    for axis in (0..3).filter(|axis| backwards[*axis]) {
        first += (EXTENTS[axis] as i64 - 1) * strides[axis];
        strides[axis] = -strides[axis];
    }
    let steps = [3200 * bytes, 160 * bytes, bytes];
    let axes = (0..3).map(|axis| BlockAxis {
        length: EXTENTS[axis],
        source_step: strides[axis],
        target_step: steps[axis],
    });
    let block = Block { axes: axes.collect(), source: first as u64, target: 0 };
    // The field begins with a cache line; bytes around it have to stay.
    let mut memory = vec![0xA5; PLACES * bytes as usize + 256];
    let start = 64 + memory.as_ptr().align_offset(64);
    let target = &mut memory[start..][..PLACES * bytes as usize];
    let mut scratch = Scratch::NEW;
    let (claim, mut strip) = (&mut Claim::on(target), change.strip(&block, &mut scratch));
    block.for_each_plane(bytes, &mut |plane| {
        let (first, step, pitch) = (plane.source, plane.source_step, plane.source_pitch);
        let source = Plane { bytes: source.1, first, step, pitch, order: ByteOrder::Little };
        change.plane(&source, plane, claim, &mut strip);
    });
    let made = memory[start..][..PLACES * bytes as usize].to_vec();
    memory.drain(start..start + made.len());
    assert!(memory.iter().all(|byte| *byte == 0xA5));
    made
}

fn random(bytes: usize) -> Vec<u8> {
    let hash = |n: usize| (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29;
    (0..bytes).map(|n| hash(n + 1) as u8).collect()
}

#[test]
fn every_case_is_what_the_loop_gives_in_each_direction() {
    let _environment = FloatEnvironment::enter();
    let source = random(2 * PLACES);
    for (number, case) in CASES.iter().enumerate() {
        let words = case.words();
        let augment = words.view().expect("words");
        for directions in 0..8 {
            let backwards = [0, 1, 2].map(|axis| directions >> axis & 1 != 0);
            let expected = (0..PLACES as u64).map(|place| {
                let at = [place / 3200, place / 160 % 20, place % 160];
                let from = [0, 1, 2].map(|axis| match backwards[axis] {
                    true => EXTENTS[axis] - 1 - at[axis],
                    false => at[axis],
                });
                let element = 2 * (from[0] * 3200 + from[1] * 160 + from[2]) as usize;
                let x = f32::from(u16::from_le_bytes([source[element], source[element + 1]]));
                case.expected(x, at).to_le_bytes()
            });
            let expected: Vec<u8> = expected.flatten().collect();
            for level in Level::each() {
                for is_streamed in [false, true] {
                    let types = ((Dtype::U16, &source[..]), (Dtype::F32, is_streamed));
                    let made = changed(level, augment, types.0, types.1, backwards);
                    assert!(made == expected, "case {number}, {backwards:?}, {level:?}");
                }
            }
        }
    }
}

#[test]
fn every_level_gives_the_same_for_every_type() {
    let _environment = FloatEnvironment::enter();
    use Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let source = random(8 * PLACES);
    let words = CASES[3].words();
    let augment = words.view().expect("words");
    for from in [Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, Bf16, F32, F64] {
        for field in [F32, Bf16, F16] {
            for backwards in [[false; 3], [false, false, true]] {
                let of = |level, is_streamed| {
                    let types = ((from, &source[..]), (field, is_streamed));
                    changed(level, augment, types.0, types.1, backwards)
                };
                let expected = of(Level::baseline(), false);
                for level in Level::each() {
                    assert!(of(level, true) == expected, "{from:?} {field:?} {level:?}");
                    assert!(of(level, false) == expected, "{from:?} {field:?} {level:?}");
                }
            }
        }
    }
}

/// Rows shorter than a vector, and those that end within one: a part of the field that is no line.
#[test]
fn rows_of_any_length_stay_in_their_places() {
    let _environment = FloatEnvironment::enter();
    let source = random(4096);
    let words = CASES[1].words();
    let augment = words.view().expect("words");
    for length in 1..70u64 {
        for step in [2i64, -2] {
            let of = |level| {
                let field = (&EXTENTS[..], Dtype::Bf16);
                let change = Change::new_at(level, augment, (Dtype::U16, 2), field, true);
                let change = change.expect("a change");
                let axis = |length, source_step, target_step| BlockAxis {
                    length,
                    source_step,
                    target_step,
                };
                let axes = [axis(5, 200, 320), axis(length, step, 2)];
                let block = Block { axes: axes.into_iter().collect(), source: 1000, target: 38 };
                let mut target = vec![0xA5; 2 * PLACES];
                let mut scratch = Scratch::NEW;
                let mut strip = change.strip(&block, &mut scratch);
                block.for_each_plane(2, &mut |plane| {
                    let (step, pitch) = (plane.source_step, plane.source_pitch);
                    let (first, order) = (plane.source, ByteOrder::Little);
                    let source = Plane { bytes: &source, first, step, pitch, order };
                    change.plane(&source, plane, &mut Claim::on(&mut target), &mut strip);
                });
                target
            };
            let expected = of(Level::baseline());
            let written = expected.iter().filter(|byte| **byte != 0xA5).count();
            assert!(written > length as usize * 5);
            for level in Level::each() {
                assert!(of(level) == expected, "{length} {step} {level:?}");
            }
        }
    }
}
