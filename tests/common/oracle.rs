//! The slow obvious answer to "what does this box hold": one element at a time.
//!
//! In: the pixels of a whole array. Out: the bytes of a box, padded as numpy.pad pads, cast as
//! numpy and ml_dtypes cast.

use half::{bf16, f16};
use std::sync::Arc;
use wavetrain::records::Dtype;

/// A whole array.
#[derive(Clone)]
pub struct Image {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// C order, little endian.
    pub pixels: Arc<Vec<u8>>,
    /// One element.
    pub fill: Vec<u8>,
}

/// What lies outside an array.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pad {
    /// Nothing: the box must be inside.
    None,
    /// Marked by the caller with an element of its own.
    Constant,
    /// The nearest element.
    Edge,
    /// The mirror image, the edge not repeated.
    Reflect,
}

impl Image {
    pub fn new(dtype: Dtype, shape: Vec<u64>, pixels: Arc<Vec<u8>>, fill: Vec<u8>) -> Image {
        assert_eq!(shape.iter().product::<u64>() as usize * fill.len(), pixels.len());
        Image { dtype, shape, pixels, fill }
    }

    /// The box `[begin, end)`; `outside` is the element of constant padding.
    pub fn crop(&self, begin: &[i64], end: &[i64], pad: Pad, outside: &[u8]) -> Vec<u8> {
        let bytes = self.fill.len();
        let count: i64 = begin.iter().zip(end).map(|(b, e)| e - b).product();
        let mut out = Vec::with_capacity(count as usize * bytes);
        let mut at = begin.to_vec();
        for _ in 0..count {
            match self.offset(&at, pad) {
                Some(offset) => out.extend_from_slice(&self.pixels[offset..offset + bytes]),
                None => out.extend_from_slice(outside),
            }
            for axis in (0..at.len()).rev() {
                at[axis] += 1;
                if at[axis] < end[axis] {
                    break;
                }
                at[axis] = begin[axis];
            }
        }
        out
    }

    /// The box inside the array.
    pub fn inside(&self, begin: &[i64], end: &[i64]) -> Vec<u8> {
        self.crop(begin, end, Pad::None, &[])
    }

    /// Byte offset of the element that position `at` reads; None: outside under constant padding.
    fn offset(&self, at: &[i64], pad: Pad) -> Option<usize> {
        let mut element = 0;
        for (&at, &extent) in at.iter().zip(&self.shape) {
            let n = extent as i64;
            let index = match pad {
                _ if (0..n).contains(&at) => at,
                Pad::None => panic!("position {at} is outside 0..{n}"),
                Pad::Constant => return None,
                Pad::Edge => at.clamp(0, n - 1),
                Pad::Reflect if n == 1 => 0,
                Pad::Reflect => {
                    let folded = at.rem_euclid(2 * (n - 1));
                    folded.min(2 * (n - 1) - folded)
                }
            };
            element = element * extent as usize + index as usize;
        }
        Some(element * self.fill.len())
    }
}

/// A real number of a source type, without loss.
enum Real {
    Integer(i128),
    Float(f64),
}

fn real(from: Dtype, element: &[u8]) -> Option<Real> {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(element.try_into().expect("one element"))
        };
    }
    Some(match from {
        Dtype::U8 => Real::Integer(element[0].into()),
        Dtype::I8 => Real::Integer(number!(i8).into()),
        Dtype::U16 => Real::Integer(number!(u16).into()),
        Dtype::I16 => Real::Integer(number!(i16).into()),
        Dtype::U32 => Real::Integer(number!(u32).into()),
        Dtype::I32 => Real::Integer(number!(i32).into()),
        Dtype::U64 => Real::Integer(number!(u64).into()),
        Dtype::I64 => Real::Integer(number!(i64).into()),
        Dtype::F32 => Real::Float(number!(f32).into()),
        Dtype::F64 => Real::Float(number!(f64)),
        Dtype::F16 => Real::Float(f16::from_bits(number!(u16)).into()),
        Dtype::Bf16 => Real::Float(bf16::from_bits(number!(u16)).into()),
        Dtype::Bool => Real::Integer(i128::from(element[0] != 0)),
        Dtype::C64 | Dtype::C128 | Dtype::Raw => return None,
    })
}

/// Whether the contract has a cast.
pub fn has_cast(from: Dtype, to: Dtype) -> bool {
    from == to || cast_element(from, to, &[0; 16][..from.bytes() as usize]).is_some()
}

/// All elements cast. Panics where the contract has no cast.
pub fn cast(from: Dtype, to: Dtype, data: &[u8]) -> Vec<u8> {
    if from == to {
        return data.to_vec();
    }
    data.chunks_exact(from.bytes() as usize)
        .flat_map(|element| cast_element(from, to, element).expect("a cast of the contract"))
        .collect()
}

fn cast_element(from: Dtype, to: Dtype, element: &[u8]) -> Option<Vec<u8>> {
    let value = real(from, element)?;
    let is_unsigned = |dtype| matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    let is_wider = from == Dtype::Bool || from.bytes() < to.bytes();
    let has_integers = match to {
        Dtype::I32 | Dtype::I64 => is_wider,
        Dtype::U16 | Dtype::U32 | Dtype::U64 => {
            is_wider && (is_unsigned(from) || from == Dtype::Bool)
        }
        Dtype::U8 | Dtype::I8 | Dtype::I16 => from == Dtype::Bool,
        _ => false,
    };
    Some(match (to, value) {
        (Dtype::F32, value) => f32_from_real(value).to_le_bytes().to_vec(),
        (Dtype::Bf16, value) => bf16_from_f32(f32_from_real(value)).to_le_bytes().to_vec(),
        (Dtype::F16, Real::Integer(n)) => f16_from_f64(n as f64).to_le_bytes().to_vec(),
        (Dtype::F16, Real::Float(x)) => f16_from_f64(x).to_le_bytes().to_vec(),
        (Dtype::F64, Real::Integer(n)) => (n as f64).to_le_bytes().to_vec(),
        (_, Real::Integer(n)) if has_integers => n.to_le_bytes()[..to.bytes() as usize].to_vec(),
        _ => return None,
    })
}

/// All elements cut off and clamped to an integer type; NaN is 0. Panics if they are no numbers.
pub fn clamped(from: Dtype, to: Dtype, data: &[u8]) -> Vec<u8> {
    let bits = 8 * to.bytes();
    let limits: (i128, i128) = match to {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0, (1 << bits) - 1),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        }
        other => panic!("{} is no integer", other.name()),
    };
    let whole = |element: &[u8]| match real(from, element).expect("a number") {
        Real::Integer(number) => number,
        Real::Float(number) if number.is_nan() => 0,
        Real::Float(number) => number.clamp(-1e30, 1e30).trunc() as i128,
    };
    data.chunks_exact(from.bytes() as usize)
        .flat_map(|element| {
            let number = whole(element).clamp(limits.0, limits.1);
            number.to_le_bytes()[..to.bytes() as usize].to_vec()
        })
        .collect()
}

/// A NaN becomes the quiet one with its sign; everything else rounds once, ties to even.
fn f32_from_real(value: Real) -> f32 {
    match value {
        Real::Integer(n) => n as f32,
        Real::Float(x) if x.is_nan() => {
            f32::from_bits(0x7FC0_0000 | (u32::from(x.is_sign_negative()) << 31))
        }
        Real::Float(x) => x as f32,
    }
}

fn bf16_from_f32(x: f32) -> u16 {
    match x.is_nan() {
        true => 0x7FC0 | (u16::from(x.is_sign_negative()) << 15),
        false => bf16::from_f32(x).to_bits(),
    }
}

/// Rounds once. `half` goes through f32 where the processor has that instruction, which rounds
/// twice, so the rounding is done here, to a multiple of the result's last place. An integer that
/// f64 rounds is beyond 2^53 and overflows f16 either way.
pub fn f16_from_f64(x: f64) -> u16 {
    if x.is_nan() {
        return 0x7E00 | (u16::from(x.is_sign_negative()) << 15);
    }
    if x.abs() >= 65520.0 {
        return 0x7C00 | (u16::from(x < 0.0) << 15);
    }
    let exponent = ((x.to_bits() >> 52) & 0x7FF) as i32 - 1023;
    let place = 2f64.powi(exponent.max(-14) - 10);
    f16::from_f64((x / place).round_ties_even() * place).to_bits()
}
