//! Rows of elements through every cast at every SIMD level: the bits of the obvious conversion,
//! element by element, whatever the distance, the byte order, the alignment and the host's rows.
//!
//! Input: choices of types and layout; what is left of it, repeated, is the source: as it is, or as
//! the high bits of values at ties of narrower types and beside them.

use super::choices::Choices;
use super::oracle;
use wavetrain::assemble::cast::{Cast, Plane};
use wavetrain::base::arena::Claim;
use wavetrain::records::{ByteOrder, DTYPES, Dtype};
use wavetrain::simd::{FloatEnvironment, Level};

/// Elements of a row: a few vectors of 64 bytes, and more than one piece of the gather buffer.
const LENGTHS: [u64; 12] = [1, 2, 3, 7, 8, 15, 16, 31, 33, 64, 100, 300];

const POISON: u8 = 0xA5;

/// How the elements of the source lie, in bytes, and what rows they become.
#[derive(Debug)]
struct Layout {
    source: Dtype,
    target: Dtype,
    /// Bytes of an element, which only RAW leaves open.
    source_bytes: usize,
    target_bytes: usize,
    order: ByteOrder,
    length: usize,
    rows: usize,
    /// Bytes between elements, between rows, and between target rows.
    step: i64,
    pitch: i64,
    target_pitch: usize,
    /// Bytes before the first target row.
    skip: usize,
    is_streamed: bool,
    /// Sources are made so that rounding has something to decide.
    has_ties: bool,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let layout = layout(&mut choices);
    let Layout { source, source_bytes, target, target_bytes, .. } = layout;
    let expected_cast = has_cast(&layout);
    let sizes = (source_bytes as u32, target_bytes as u32);
    if !expected_cast {
        for level in Level::each() {
            let found = Cast::find_at(level, source, sizes.0, target, sizes.1);
            assert!(found.is_none(), "{layout:?}");
        }
        return;
    }
    let (first, bytes) = source_bytes_of(&layout, choices.rest());
    let expected = expected(&layout, first, &bytes);
    let _environment = FloatEnvironment::enter();
    for level in Level::each() {
        let cast = Cast::find_at(level, source, sizes.0, target, sizes.1).expect("a cast");
        assert_eq!((cast.source_bytes(), cast.target_bytes()), sizes);
        let mut found = vec![POISON; expected.len()];
        let mut claim = Claim::on(&mut found);
        let row_bytes = (layout.length * target_bytes) as u64;
        let (skip, pitch) = (layout.skip as u64, layout.target_pitch as u64);
        let mut rows = claim.row_grid(skip, row_bytes, layout.rows as u64, pitch);
        let Layout { step, pitch, order, .. } = layout;
        let plane = Plane { bytes: &bytes, first, step, pitch, order };
        cast.streamed(layout.is_streamed).plane(&plane, &mut rows);
        if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
            panic!(
                "{layout:?} at {level:?}: byte {at} is {:#x}, not {:#x}",
                found[at], expected[at]
            );
        }
    }
}

fn layout(choices: &mut Choices<'_>) -> Layout {
    let (source, target) = (choices.one_of(&DTYPES), choices.one_of(&DTYPES));
    let size = |dtype: Dtype, choices: &mut Choices<'_>| match dtype {
        Dtype::Raw => 1 + choices.below(16) as usize,
        dtype => dtype.bytes() as usize,
    };
    let source_bytes = size(source, choices);
    let mut target_bytes = size(target, choices);
    if target == Dtype::Raw && !choices.rarely(8) {
        target_bytes = source_bytes;
    }
    let length = choices.one_of(&LENGTHS) as usize;
    let rows = 1 + choices.below(if length > 64 { 3 } else { 9 }) as usize;
    let element = source_bytes as i64;
    let gap = choices.below(5) as i64;
    let step = match choices.below(8) {
        0..=3 => element,
        4 => element + gap,
        5 => -element - gap,
        6 => 0,
        _ => 3 * element + gap,
    };
    let row = element + step.abs() * (length as i64 - 1);
    let pitch = match choices.below(6) {
        0..=2 => row,
        3 => row + gap,
        4 => -row - gap,
        _ => 0,
    };
    let target_pitch = length * target_bytes + choices.one_of(&[0, 0, 1, 64]);
    Layout {
        source,
        target,
        source_bytes,
        target_bytes,
        order: choices.one_of(&[ByteOrder::Little, ByteOrder::Big]),
        length,
        rows,
        step,
        pitch,
        target_pitch,
        skip: choices.below(17) as usize,
        is_streamed: choices.rarely(4),
        has_ties: choices.rarely(2),
    }
}

/// Whether the contract has the cast: the table at the head of `cast`.
fn has_cast(layout: &Layout) -> bool {
    let Layout { source, target, source_bytes, target_bytes, .. } = *layout;
    match (source, target) {
        (_, Dtype::Raw) => source_bytes == target_bytes,
        (Dtype::Raw, _) => false,
        (source, target) => oracle::has_cast(source, target),
    }
}

/// Source bytes that hold every element of every row, and where the first element lies.
fn source_bytes_of(layout: &Layout, seed: &[u8]) -> (u64, Vec<u8>) {
    let ends = |step: i64, count: usize| {
        let last = step * (count as i64 - 1);
        (last.min(0), last.max(0))
    };
    let (along, across) = (ends(layout.step, layout.length), ends(layout.pitch, layout.rows));
    let first = -(along.0 + across.0);
    let total = first + along.1 + across.1 + layout.source_bytes as i64;
    let seed = if seed.is_empty() { &[0x39, 0xC4, 0x80] } else { seed };
    let mut bytes: Vec<u8> = seed.iter().copied().cycle().take(total as usize).collect();
    if layout.has_ties {
        // A short input, repeated, would make few values.
        let mut state =
            seed.iter().fold(1u64, |state, byte| state * 257 % 0xFFFF_FFFB + u64::from(*byte));
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte ^= (state >> 56) as u8;
        }
    }
    if layout.has_ties {
        for element in bytes.chunks_exact_mut(layout.source_bytes) {
            move_to_tie(element);
            if layout.order == ByteOrder::Big {
                element.reverse();
            }
        }
    }
    (first as u64, bytes)
}

/// Keeps the high bits of a number of 4 or 8 bytes; the low byte chooses what lies below: nothing,
/// a tie of binary16, bfloat16 or binary32, one beside it, and for integers how large it all is.
fn move_to_tie(element: &mut [u8]) {
    /// The highest bit that rounding drops.
    const TIES: [[u32; 4]; 2] = [[12, 15, 7, 11], [41, 44, 28, 40]];
    let bits = 8 * element.len() as u32;
    if bits != 32 && bits != 64 {
        return;
    }
    let choice = u32::from(element[0]);
    let high = u16::from_le_bytes([element[element.len() - 2], element[element.len() - 1]]);
    let tie = 1u64 << TIES[usize::from(bits == 64)][choice as usize % 4];
    // A quarter keeps its exponent; that of most is moved to where a binary16 has values.
    let high = match (choice & 0x60, bits) {
        (0, _) => high,
        (_, 32) => high & 0x807F | (99 + (high >> 7 & 0xFF) % 44) << 7,
        _ => high & 0x800F | (995 + (high >> 4 & 0x7FF) % 44) << 4,
    };
    let mut middle = [0; 8];
    middle[..element.len() - 2].copy_from_slice(&element[..element.len() - 2]);
    let kept = u64::from_le_bytes(middle) & !(2 * tie - 1);
    let value = u64::from(high) << (bits - 16) | kept | if choice & 4 == 0 { tie } else { 0 };
    let beside = [0, 1, u64::MAX, 0][choice as usize >> 3 & 3];
    let value = value.wrapping_add(beside) >> if choice & 128 == 0 { 0 } else { choice & 0x18 };
    element.copy_from_slice(&value.to_le_bytes()[..element.len()]);
}

/// The target, poison between its rows, one element at a time.
fn expected(layout: &Layout, first: u64, bytes: &[u8]) -> Vec<u8> {
    let Layout { source, target, source_bytes, target_bytes, .. } = *layout;
    let limit = (layout.rows - 1) * layout.target_pitch + layout.length * target_bytes;
    let mut expected = vec![POISON; layout.skip + limit + 3];
    let is_copy = source == target || target == Dtype::Raw;
    for row in 0..layout.rows {
        for at in 0..layout.length {
            let place = first as i64 + row as i64 * layout.pitch + at as i64 * layout.step;
            let mut element = bytes[place as usize..][..source_bytes].to_vec();
            if layout.order == ByteOrder::Big {
                element.chunks_mut(source.word_bytes() as usize).for_each(<[u8]>::reverse);
            }
            let value = if is_copy { element } else { oracle::cast(source, target, &element) };
            let start = layout.skip + row * layout.target_pitch + at * target_bytes;
            expected[start..start + target_bytes].copy_from_slice(&value);
        }
    }
    expected
}
