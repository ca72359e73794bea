//! From the types of arrays to those of samples.

use crate::Result;
use bytemuck::{cast_slice, cast_slice_mut};

/// Bytes of an element of a sample.
pub fn bytes_of(dtype: &str) -> Result<usize> {
    match dtype {
        "f32" => Ok(4),
        "i64" | "u64" => Ok(8),
        other => Err(format!("no dtype {other}: f32, i64 or u64").into()),
    }
}

/// Both sides are aligned for eight bytes, or hold smaller elements.
pub fn cast(from: &str, to: &str, source: &[u8], target: &mut [u8]) -> Result<()> {
    macro_rules! all {
        ($from:ty, $to:ty) => {{
            let pairs = cast_slice_mut::<u8, $to>(target).iter_mut();
            pairs.zip(cast_slice::<u8, $from>(source)).for_each(|(to, from)| *to = *from as $to);
            Ok(())
        }};
    }
    match (from, to) {
        ("u8", "f32") => all!(u8, f32),
        ("u16", "f32") => all!(u16, f32),
        ("i16", "f32") => all!(i16, f32),
        ("u32", "f32") => all!(u32, f32),
        ("u64", "f32") => all!(u64, f32),
        ("u32", "i64") => all!(u32, i64),
        _ => Err(format!("no cast from {from} to {to}").into()),
    }
}
