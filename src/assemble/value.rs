//! One number as one element of an output type: `pad_value` of the config.
//!
//! In: a double and a type. Out: the element's bytes in the machine's order, the rest 0. Invariant:
//! integers are exact or refused; floats round as casts do.

use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::loops::convert::{brain_from_f64, f32_from_f64, half_from_f64};
use crate::records::Dtype;

/// `value` as an element of `dtype`. None where an integer type or Bool cannot hold it exactly, and
/// for RAW unless it is 0 (all bytes 0). Complex types get it as their real part.
pub fn value_element(
    value: f64,
    dtype: Dtype,
    dtype_bytes: u32,
) -> Option<[u8; ELEMENT_BYTES_MAX]> {
    let mut element = [0; ELEMENT_BYTES_MAX];
    let mut put = |bytes: &[u8]| element[..bytes.len()].copy_from_slice(bytes);
    match dtype {
        Dtype::F64 | Dtype::C128 => put(&value.to_ne_bytes()),
        Dtype::F32 | Dtype::C64 => put(&f32_from_f64(value).to_ne_bytes()),
        Dtype::F16 => put(&half_from_f64(value).0.to_ne_bytes()),
        Dtype::Bf16 => put(&brain_from_f64(value).0.to_ne_bytes()),
        Dtype::Raw if value != 0.0 => return None,
        Dtype::Raw => assert!(dtype_bytes as usize <= ELEMENT_BYTES_MAX),
        Dtype::U8 => put(&[u8::try_from(whole(value)?).ok()?]),
        Dtype::I8 => put(&i8::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::U16 => put(&u16::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::I16 => put(&i16::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::U32 => put(&u32::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::I32 => put(&i32::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::U64 => put(&u64::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::I64 => put(&i64::try_from(whole(value)?).ok()?.to_ne_bytes()),
        Dtype::Bool => put(&[u8::try_from(whole(value)?).ok().filter(|bit| *bit <= 1)?]),
    }
    Some(element)
}

/// `value` as an integer, if it is one. The conversion saturates, so that a value beyond the range
/// does not come back equal, and NaN becomes 0, which is not equal to it.
#[inline(never)]
fn whole(value: f64) -> Option<i128> {
    let whole = value as i128;
    (whole as f64 == value).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::DTYPES;

    fn first<const N: usize>(value: f64, dtype: Dtype) -> Option<[u8; N]> {
        value_element(value, dtype, N as u32).map(|element| element[..N].try_into().unwrap())
    }

    #[test]
    fn integers_at_their_limits_are_taken_and_beyond_them_refused() {
        assert_eq!(first(255.0, Dtype::U8), Some([255]));
        assert_eq!(first::<1>(256.0, Dtype::U8), None);
        assert_eq!(first::<1>(-1.0, Dtype::U8), None);
        assert_eq!(first(-128.0, Dtype::I8), Some([0x80]));
        assert_eq!(first::<1>(128.0, Dtype::I8), None);
        assert_eq!(first(i64::MIN as f64, Dtype::I64), Some(i64::MIN.to_ne_bytes()));
        assert_eq!(first::<8>(-(i64::MIN as f64), Dtype::I64), None);
        assert_eq!(first::<8>(u64::MAX as f64, Dtype::U64), None);
        assert_eq!(first((1u64 << 63) as f64, Dtype::U64), Some((1u64 << 63).to_ne_bytes()));
    }

    #[test]
    fn no_integer_type_takes_a_fraction_nan_or_infinity() {
        for dtype in DTYPES {
            let is_float = matches!(
                dtype,
                Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128
            );
            for value in [0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let taken = value_element(value, dtype, dtype.bytes().max(1)).is_some();
                assert_eq!(taken, is_float, "{value} as {}", dtype.name());
            }
        }
    }

    #[test]
    fn zero_fits_every_type_and_raw_takes_nothing_else() {
        for dtype in DTYPES {
            assert_eq!(value_element(0.0, dtype, dtype.bytes().max(3)), Some([0; 16]));
        }
        assert_eq!(value_element(1.0, Dtype::Raw, 3), None);
    }

    #[test]
    fn floats_round_once() {
        // 1 + 2^-11 + 2^-40 is just above the tie between 1 and the next half.
        let value = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(first(value, Dtype::F16), Some(0x3C01u16.to_ne_bytes()));
    }
}
