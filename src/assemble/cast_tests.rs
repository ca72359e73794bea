//! Casts against numpy and ml_dtypes (tests/data/make_casts.py) and against the crate `half`.

use super::cast::*;
use crate::base::arena::{Claim, RowsMut};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::loops::convert::*;
use crate::records::{ByteOrder, DTYPES, Dtype};
use crate::simd::{FloatEnvironment, Level};
use std::vec;
use std::vec::Vec;

static FIXTURE: &[u8] = include_bytes!("../../tests/data/casts.bin");

/// Likewise of casts that clamp.
static CLAMPS: &[u8] = include_bytes!("../../tests/data/clamps.bin");

/// One record of the fixture.
pub(crate) struct Known<'a> {
    pub source: Dtype,
    pub target: Dtype,
    pub input: &'a [u8],
    pub output: &'a [u8],
}

pub(crate) fn known() -> Vec<Known<'static>> {
    records_of(FIXTURE)
}

/// All casts, those that clamp too.
fn all_known() -> Vec<Known<'static>> {
    [records_of(FIXTURE), records_of(CLAMPS)].into_iter().flatten().collect()
}

/// Records of one source that follow each other have their elements once, in the first of them.
fn records_of(mut rest: &'static [u8]) -> Vec<Known<'static>> {
    let mut records = Vec::new();
    let mut input: &[u8] = &[];
    while !rest.is_empty() {
        let mut take = |count: usize| {
            let (head, tail) = rest.split_at(count);
            rest = tail;
            head
        };
        let mut number = || u32::from_le_bytes(take(4).try_into().unwrap());
        let source = Dtype::from_code(number()).unwrap();
        let target = Dtype::from_code(number()).unwrap();
        let count = number() as usize;
        if count > 0 {
            input = take(count * source.bytes() as usize);
        }
        let count = input.len() / source.bytes() as usize;
        let output = take(count * target.bytes() as usize);
        records.push(Known { source, target, input, output });
    }
    records
}

pub(super) fn find(source: Dtype, target: Dtype) -> Cast {
    find_at(Level::here(), source, target)
}

fn find_at(level: Level, source: Dtype, target: Dtype) -> Cast {
    Cast::find_clamped_at(level, source, source.bytes(), target, target.bytes()).unwrap()
}

/// A row of source elements.
struct Row<'a> {
    bytes: &'a [u8],
    first: u64,
    step: i64,
    order: ByteOrder,
}

fn cast_row(cast: &Cast, row: &Row<'_>, target: &mut [u8]) {
    let &Row { bytes, first, step, order } = row;
    let row_bytes = target.len();
    let plane = Plane { bytes, first, step, pitch: 0, order };
    cast.plane(&plane, &mut RowsMut::packed(target, row_bytes));
}

/// Casts the elements of `input` in the order in which they lie.
pub(super) fn cast_dense(cast: &Cast, input: &[u8]) -> Vec<u8> {
    let step = i64::from(cast.source_bytes());
    let count = input.len() / cast.source_bytes() as usize;
    let mut output = vec![0xA5; count * cast.target_bytes() as usize];
    let row = Row { bytes: input, first: 0, step, order: ByteOrder::Little };
    cast_row(cast, &row, &mut output);
    output
}

/// Casts the same elements laid out backwards, 3 bytes apart, in byte order `order`.
pub(super) fn cast_sparse(cast: &Cast, word: usize, input: &[u8], order: ByteOrder) -> Vec<u8> {
    let size = cast.source_bytes() as usize;
    let count = input.len() / size;
    let mut spread = vec![0xEE; count * (size + 3)];
    for (number, element) in input.chunks_exact(size).enumerate() {
        let place = &mut spread[(count - 1 - number) * (size + 3)..][..size];
        place.copy_from_slice(element);
        if order == ByteOrder::Big {
            place.chunks_exact_mut(word).for_each(|word| word.reverse());
        }
    }
    let mut output = vec![0xA5; count * cast.target_bytes() as usize];
    let (first, step) = (((count - 1) * (size + 3)) as u64, -(size as i64 + 3));
    cast_row(cast, &Row { bytes: &spread, first, step, order }, &mut output);
    output
}

fn check(known: &Known<'_>, output: &[u8]) {
    let (source, target) = (known.source.bytes() as usize, known.target.bytes() as usize);
    let elements = known.input.chunks_exact(source);
    let results = output.chunks_exact(target).zip(known.output.chunks_exact(target));
    for (input, (output, expected)) in elements.zip(results) {
        let (from, to) = (known.source.name(), known.target.name());
        assert_eq!(output, expected, "{input:02x?} (little endian), {from} to {to}");
    }
}

/// All fixture values at all levels, side by side and spread out in both byte orders.
fn check_all() {
    for level in Level::each() {
        for known in all_known() {
            let cast = find_at(level, known.source, known.target);
            let word = known.source.word_bytes() as usize;
            check(&known, &cast_dense(&cast, known.input));
            check(&known, &cast_sparse(&cast, word, known.input, ByteOrder::Little));
            check(&known, &cast_sparse(&cast, word, known.input, ByteOrder::Big));
        }
    }
}

/// The values of a type: all of up to 16 bits; of wider ones every top 16 bits with the bits below
/// them clear, set, at ties of every target and on either side of them.
pub(super) fn values(dtype: Dtype) -> Vec<u8> {
    let below32 = [0u64, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0FFF, 0x1000, 0x1001, 0x5A5A];
    let ties64 = [0u64, 1 << 28, 1 << 31, 1 << 41, 1 << 42, 0x1234_5678_9ABC, (1 << 48) - 1];
    let below64 = ties64.iter().flat_map(|tie| [*tie, tie ^ 1, tie.saturating_sub(1)]);
    match dtype.bytes() {
        1 => (0..=u8::MAX).collect(),
        2 => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        4 => (0..=u16::MAX)
            .step_by(5)
            .flat_map(|top| below32.map(|below| u32::from(top) << 16 | below as u32))
            .flat_map(u32::to_le_bytes)
            .collect(),
        _ => (0..=u16::MAX)
            .step_by(7)
            .flat_map(|top| below64.clone().map(move |below| u64::from(top) << 48 | below))
            .flat_map(u64::to_le_bytes)
            .collect(),
    }
}

/// All pairs that change the type and are not the lowest level.
fn for_each_level_and_pair(mut check: impl FnMut(Level, Dtype, Dtype)) {
    let pairs: Vec<_> = all_known().iter().map(|known| (known.source, known.target)).collect();
    for level in Level::each().skip(1) {
        pairs.iter().for_each(|(source, target)| check(level, *source, *target));
    }
}

#[test]
fn every_level_gives_the_bits_of_the_lowest() {
    for_each_level_and_pair(|level, source, target| {
        let input = values(source);
        let output = cast_dense(&find_at(level, source, target), &input);
        let expected = cast_dense(&find_at(Level::baseline(), source, target), &input);
        let size = target.bytes() as usize;
        let wrong = (0..output.len()).find(|at| output[*at] != expected[*at]);
        if let Some(at) = wrong {
            let (element, bytes) = (at / size, source.bytes() as usize);
            let (from, to) = (source.name(), target.name());
            panic!("{from} to {to} at {level:?}: {:02x?}", &input[element * bytes..][..bytes]);
        }
    });
}

#[test]
fn rows_that_run_backwards_hold_the_same_elements_at_every_level() {
    use Dtype::{C64, F16, F32, U8, U16, U64};
    let input = values(U16);
    let pairs = [(U8, U8), (U16, U16), (F32, F32), (U64, U64), (C64, C64), (U16, F32), (F32, F16)];
    for (level, (source, target)) in Level::each().flat_map(|level| pairs.map(|it| (level, it))) {
        let (from, to) = (source.bytes() as usize, target.bytes() as usize);
        let slow = find_at(Level::baseline(), source, target);
        for (length, order) in
            (1..80).flat_map(|length| [(length, ByteOrder::Little), (length, ByteOrder::Big)])
        {
            let row = Plane { bytes: &input, first: 0, step: -(from as i64), pitch: 0, order };
            let row = |first: usize| Plane { first: (first * from) as u64, ..row };
            let (mut output, mut expected) = (vec![0xA5; length * to], vec![0x5A; length * to]);
            let rows = &mut RowsMut::packed(&mut output, length * to);
            find_at(level, source, target).plane(&row(length - 1), rows);
            for (place, element) in expected.chunks_exact_mut(to).enumerate() {
                slow.plane(&row(length - 1 - place), &mut RowsMut::packed(element, to));
            }
            assert!(output == expected, "{} {length} {order:?} {level:?}", source.name());
        }
    }
}

/// Casts `count` rows of `length` elements in `order`, `gap` elements between rows on both sides,
/// into poison; also gives what it must be, element by element at the lowest level.
fn cast_rows(
    (level, source, target): (Level, Dtype, Dtype),
    (length, count, gap): (usize, usize, usize),
    order: ByteOrder,
) -> (Vec<u8>, Vec<u8>) {
    let (from, to) = (source.bytes() as usize, target.bytes() as usize);
    let pitch = length + gap;
    let elements = pitch * count - gap;
    let input: Vec<u8> = (0..elements * from).map(|at| (at * 37 + at / 7 * 11) as u8).collect();
    let plane = |first: usize| Plane {
        bytes: &input,
        first: (first * from) as u64,
        step: from as i64,
        pitch: (pitch * from) as i64,
        order,
    };
    let mut expected = vec![0xA5; elements * to];
    let mut output = expected.clone();
    let slow = find_at(Level::baseline(), source, target);
    for at in (0..elements).filter(|at| at % pitch < length) {
        let place = &mut expected[at * to..][..to];
        slow.plane(&plane(at), &mut RowsMut::packed(place, to));
    }
    let grid = (length * to, count, pitch * to);
    let mut claim = Claim::on(&mut output);
    let mut rows = claim.row_grid(0, grid.0 as u64, grid.1 as u64, grid.2 as u64);
    find_at(level, source, target).plane(&plane(0), &mut rows);
    (output, expected)
}

#[test]
fn rows_stored_past_the_caches_hold_the_same_bits_wherever_they_lie() {
    for_each_level_and_pair(|level, source, target| {
        let (from, to) = (source.bytes() as usize, target.bytes() as usize);
        for (skew, length, pitch) in [(0, 64, 64), (0, 128, 192), (16, 64, 128), (0, 65, 128)] {
            let input: Vec<u8> =
                (0..3 * length * from).map(|at| (at * 59 + at / 5) as u8).collect();
            let plane = Plane {
                bytes: &input,
                first: 0,
                step: from as i64,
                pitch: (length * from) as i64,
                order: ByteOrder::Little,
            };
            let grid = [length, 3, pitch].map(|count| count as u64);
            let outputs = [true, false].map(|is_streamed| {
                let bytes = 64 * (3 * pitch * to / 64 + 1) as u64;
                let mut memory = vec![0xA5; bytes as usize + 64];
                let skipped = memory.as_ptr().align_offset(64);
                let mut claim = Claim::on(&mut memory[skipped..][..bytes as usize]);
                let row_bytes = grid[0] * to as u64;
                let mut rows = claim.row_grid(skew, row_bytes, grid[1], grid[2] * to as u64);
                find_at(level, source, target).streamed(is_streamed).plane(&plane, &mut rows);
                memory[skipped..][..bytes as usize].to_vec()
            });
            assert!(outputs[0] == outputs[1], "{} {} {skew}", source.name(), target.name());
            assert!(outputs[1].iter().any(|byte| *byte != 0xA5));
        }
    });
}

#[test]
fn rows_of_every_length_leave_the_bytes_between_them() {
    for_each_level_and_pair(|level, source, target| {
        for length in 1..70 {
            let pair = (level, source, target);
            let (output, expected) = cast_rows(pair, (length, 3, 5), ByteOrder::Little);
            assert!(output == expected, "{} to {} {length}", source.name(), target.name());
        }
    });
}

#[test]
fn rows_in_the_other_order_are_cast_in_groups_and_in_pieces() {
    for level in Level::each() {
        for (source, target) in
            [(Dtype::U16, Dtype::F32), (Dtype::F64, Dtype::F16), (Dtype::U8, Dtype::Bf16)]
        {
            for shape in [(1, 3000, 2), (3, 700, 1), (64, 40, 5), (1500, 3, 0), (2048, 1, 0)] {
                let (output, expected) = cast_rows((level, source, target), shape, ByteOrder::Big);
                assert!(output == expected, "{} to {} {shape:?}", source.name(), target.name());
            }
        }
    }
}

#[test]
fn copies_of_rows_leave_the_bytes_between_them_in_both_orders() {
    for level in Level::each() {
        for dtype in [Dtype::U8, Dtype::I16, Dtype::F32, Dtype::U64, Dtype::C64, Dtype::C128] {
            for length in (1..40).chain(60..70).chain([200]) {
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    let (output, expected) =
                        cast_rows((level, dtype, dtype), (length, 3, 2), order);
                    assert!(output == expected, "{} {length} {order:?}", dtype.name());
                }
            }
        }
    }
}

#[test]
fn every_cast_gives_what_numpy_and_ml_dtypes_give() {
    check_all();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_hosts_float_environment_changes_no_bit() {
    for control in crate::simd::hostile::CONTROLS {
        crate::simd::hostile::with_control(control, || {
            let _guard = FloatEnvironment::enter();
            check_all();
        });
    }
}

#[test]
fn the_fixtures_have_every_pair_that_changes_the_type() {
    for (known, find) in [
        (known(), Cast::find as fn(Dtype, u32, Dtype, u32) -> Option<Cast>),
        (all_known(), Cast::find_clamped),
    ] {
        let pairs: Vec<_> = known.iter().map(|known| (known.source, known.target)).collect();
        for source in DTYPES {
            for target in DTYPES {
                let (source_bytes, target_bytes) = (source.bytes().max(1), target.bytes().max(1));
                let changes = source != target && target != Dtype::Raw;
                let found = find(source, source_bytes, target, target_bytes).is_some();
                let expected = pairs.contains(&(source, target));
                assert_eq!(found && changes, expected, "{} to {}", source.name(), target.name());
            }
        }
    }
}

#[test]
fn a_cast_that_clamps_takes_every_number_to_every_integer_and_nothing_else() {
    let is_number = |dtype: Dtype| !matches!(dtype, Dtype::C64 | Dtype::C128 | Dtype::Raw);
    let is_integer = |dtype: Dtype| dtype as u32 >= Dtype::I32 as u32 && dtype as u32 <= 11;
    for (source, target) in DTYPES.into_iter().flat_map(|source| DTYPES.map(|to| (source, to))) {
        let bytes = (source.bytes().max(1), target.bytes().max(1));
        let plain = Cast::find(source, bytes.0, target, bytes.1).is_some();
        let clamped = Cast::find_clamped(source, bytes.0, target, bytes.1).is_some();
        let expected = plain || is_number(source) && is_integer(target);
        assert_eq!(clamped, expected, "{} to {}", source.name(), target.name());
    }
}

#[test]
fn every_type_copies_to_itself_and_to_raw_of_its_size_bit_for_bit() {
    let input: Vec<u8> = (0..=255).cycle().skip(7).step_by(3).take(240 * 13).collect();
    for dtype in DTYPES {
        for size in 1..=ELEMENT_BYTES_MAX as u32 {
            for target in [dtype, Dtype::Raw] {
                let cast = Cast::find(dtype, size, target, size);
                let exists = dtype == Dtype::Raw || size == dtype.bytes();
                assert_eq!(cast.is_some(), exists, "{} of {size}", dtype.name());
                let Some(cast) = cast else { continue };
                let input = &input[..size as usize * 40];
                let word = dtype.word_bytes() as usize;
                assert_eq!(cast_dense(&cast, input), input);
                assert_eq!(cast_sparse(&cast, word, input, ByteOrder::Little), input);
                assert_eq!(cast_sparse(&cast, word, input, ByteOrder::Big), input);
            }
        }
    }
}

#[test]
fn a_copy_keeps_the_payload_of_a_nan_and_a_cast_keeps_its_sign_alone() {
    let signalling = 0xFF80_0001u32.to_le_bytes();
    assert_eq!(cast_dense(&find(Dtype::F32, Dtype::F32), &signalling), signalling);
    let half = cast_dense(&find(Dtype::F32, Dtype::F16), &signalling);
    assert_eq!(half, 0xFE00u16.to_le_bytes());
}

#[test]
fn sizes_that_are_not_those_of_the_type_have_no_cast() {
    assert!(Cast::find(Dtype::U16, 4, Dtype::F32, 4).is_none());
    assert!(Cast::find(Dtype::U16, 2, Dtype::F32, 2).is_none());
    assert!(Cast::find(Dtype::F32, 4, Dtype::Raw, 8).is_none());
    assert!(Cast::find(Dtype::Raw, 17, Dtype::Raw, 17).is_none());
    assert!(Cast::find(Dtype::Raw, 0, Dtype::Raw, 0).is_none());
}

#[test]
fn a_step_of_zero_repeats_one_element() {
    let cast = find(Dtype::U16, Dtype::F32);
    let mut output = vec![0xA5; 12];
    let row = Row { bytes: &[9, 9, 1, 2], first: 2, step: 0, order: ByteOrder::Big };
    cast_row(&cast, &row, &mut output);
    assert_eq!(output, 258f32.to_le_bytes().repeat(3));
}

#[test]
#[should_panic]
fn a_row_that_leaves_its_bytes_is_our_defect() {
    let row = Row { bytes: &[1, 2, 3], first: 0, step: 2, order: ByteOrder::Little };
    cast_row(&find(Dtype::U16, Dtype::F32), &row, &mut [0xA5; 8]);
}

#[test]
fn all_halves_and_brains_widen_as_in_the_crate_half() {
    let quiet = |value: f32| {
        let sign = value.to_bits() & 0x8000_0000;
        if value.is_nan() { sign | 0x7FC0_0000 } else { value.to_bits() }
    };
    for bits in 0..=u16::MAX {
        let half = half::f16::from_bits(bits).to_f32();
        assert_eq!(f32_from_half(Half(bits)).to_bits(), quiet(half), "half {bits:#06x}");
        let brain = half::bf16::from_bits(bits).to_f32();
        assert_eq!(f32_from_brain(Brain(bits)).to_bits(), quiet(brain), "brain {bits:#06x}");
    }
}

#[test]
fn floats_narrow_as_in_the_crate_half() {
    // Every sign, exponent and top of the fraction, with the bits below it clear, at a tie, and on
    // either side of it.
    for top in (0..=u16::MAX).step_by(3) {
        for below in [0u32, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1000, 0x0FFF, 0x1001] {
            let value = f32::from_bits(u32::from(top) << 16 | below);
            if value.is_nan() {
                continue;
            }
            assert_eq!(half_from_f32(value).0, half::f16::from_f32_const(value).to_bits());
            assert_eq!(brain_from_f32(value).0, half::bf16::from_f32(value).to_bits());
            let wide = f64::from(value) * (1.0 + 2f64.powi(-50));
            assert_eq!(half_from_f64(wide).0, slow_half(wide), "{wide:e}");
        }
    }
}

/// The nearest half by search: the one whose distance is least, the even one of two.
fn slow_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    let as_f64 = |bits: u16| match bits {
        // The next power of two stands for infinity, so that the tie at 65,520 is one.
        0x7C00 => 65_536.0,
        bits => f64::from(half::f16::from_bits(bits).to_f32()),
    };
    let (mut low, mut high) = (0u16, 0x7C00u16);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if as_f64(middle) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - as_f64(low), as_f64(high) - magnitude);
    let is_low = below < above || (below == above && low % 2 == 0);
    sign | if is_low { low } else { high }
}
