//! Elements of few bits as elements of a type that holds their values.
//!
//! In: their bytes, one for each or packed. Out: elements of [`Small::dtype`], little endian.
//! Invariant: every value is the same number; a NaN is the quiet one of its sign.

use crate::records::Small;

/// Takes elements of a byte each; their unused bits mean nothing. `target` has as many elements.
pub fn widen(small: Small, source: &[u8], target: &mut [u8]) {
    match small {
        Small::F8E4m3fn => halves(source, target, half_from_e4m3fn),
        Small::F8E5m2 => halves(source, target, half_from_e5m2),
        _ => {
            assert!(source.len() == target.len());
            let pairs = target.iter_mut().zip(source);
            pairs.for_each(|(element, byte)| *element = lowest(small, *byte));
        }
    }
}

/// Takes elements side by side, the first of each byte in its lowest bits: `target.len()` of them.
pub fn unpack(small: Small, source: &[u8], target: &mut [u8]) {
    let bits = small.bits();
    let in_a_byte = (8 / bits) as usize;
    assert!(target.len() <= in_a_byte * source.len());
    for (packed, elements) in source.iter().zip(target.chunks_mut(in_a_byte)) {
        for (element, place) in elements.iter_mut().zip(0..) {
            *element = lowest(small, packed >> (place * bits));
        }
    }
}

/// The integer in the lowest bits of a byte.
fn lowest(small: Small, byte: u8) -> u8 {
    let unused = 8 - small.bits();
    match small {
        Small::I2 | Small::I4 => ((byte << unused) as i8 >> unused) as u8,
        _ => byte << unused >> unused,
    }
}

fn halves(source: &[u8], target: &mut [u8], convert: fn(u8) -> u16) {
    let (halves, rest) = target.as_chunks_mut::<2>();
    assert!(rest.is_empty() && halves.len() == source.len());
    let pairs = halves.iter_mut().zip(source);
    pairs.for_each(|(half, byte)| *half = convert(*byte).to_le_bytes());
}

/// The exponent's bias is 8 less than that of a half. A subnormal is a normal half.
fn half_from_e4m3fn(byte: u8) -> u16 {
    const SUBNORMAL: [u16; 8] = [0, 0x1800, 0x1C00, 0x1E00, 0x2000, 0x2100, 0x2200, 0x2300];
    let magnitude = u16::from(byte & 0x7F);
    let half = match magnitude {
        0..8 => SUBNORMAL[usize::from(magnitude)],
        0x7F => 0x7E00,
        _ => (magnitude << 7) + (8 << 10),
    };
    u16::from(byte & 0x80) << 8 | half
}

/// The upper byte of a half.
fn half_from_e5m2(byte: u8) -> u16 {
    let half = u16::from(byte) << 8;
    if half & 0x7FFF > 0x7C00 { half & 0x8000 | 0x7E00 } else { half }
}
