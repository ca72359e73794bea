//! Casts of elements that CF decodes, against the decoding of whole chunks and the same casts.

use super::cast::{Cast, Plane};
use super::cast_tests::{cast_dense, cast_sparse, find, values};
use super::value_element;
use crate::base::arena::RowsMut;
use crate::loops::cf::cf;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, ByteOrder, Cf, Dtype, Number, Types};
use std::vec;
use std::vec::Vec;

/// A cast of elements of `source` that CF decodes, and the decoding alone.
fn decoded_cast(source: Dtype, target: Dtype) -> (Cast, impl Fn(&[u8]) -> Vec<u8>) {
    let number = |dtype| Number { dtype, byte_order: ByteOrder::Little };
    let types = Types { decoded: number(Dtype::F64), encoded: number(source) };
    let is_float = matches!(source, Dtype::F16 | Dtype::F32 | Dtype::F64);
    let word = |value: u64| if is_float { (value as f64).to_bits() } else { value };
    let limits = EdgeRun { limit: word(0), cell_limit: word(100) };
    let missing = EdgeRun { limit: word(1), cell_limit: word(1) };
    let rows: &'static [EdgeRun] = Vec::leak(vec![EdgeRun::EMPTY, limits, missing]);
    let rule = Cf { types, scale: 0.3, offset: -0.7, first_row: 1, rows: 2 };
    let dtype_bytes = source.bytes();
    let record = ArrayRecord {
        dtype: source,
        dtype_bytes,
        cf: Some(rule),
        pairs: rows,
        ..ArrayRecord::EMPTY
    };
    assert_eq!(record.pairs_used(), 2);
    let decode = move |input: &[u8]| {
        let mut numbers = vec![0; input.len() / source.bytes() as usize * 8];
        cf(&rule, &rows[1..], input, &mut numbers);
        numbers
    };
    (find(Dtype::F64, target).of_elements(&record).unwrap(), decode)
}

#[test]
fn numbers_of_cf_are_cast_as_if_whole_chunks_were_decoded_first() {
    let mut missing = 0;
    for source in
        [Dtype::U8, Dtype::I16, Dtype::U32, Dtype::I64, Dtype::F16, Dtype::F32, Dtype::F64]
    {
        let mut input = values(source);
        let small = |value: u8| value_element(value.into(), source, source.bytes()).unwrap();
        (0..200).for_each(|value| input.extend(&small(value)[..source.bytes() as usize]));
        for target in Cast::targets_of(Dtype::F64, 8, true).filter(|target| *target != Dtype::Raw) {
            let (cast, decode) = decoded_cast(source, target);
            let numbers = decode(&input);
            missing +=
                numbers.as_chunks().0.iter().filter(|n| f64::from_le_bytes(**n).is_nan()).count();
            let expected = cast_dense(&find(Dtype::F64, target), &numbers);
            let word = source.bytes() as usize;
            assert!(!cast.is_copy(ByteOrder::Little) && !cast.is_copy(ByteOrder::Big));
            assert!(cast_dense(&cast, &input) == expected, "{source:?} to {target:?}");
            for order in [ByteOrder::Little, ByteOrder::Big] {
                assert!(
                    cast_sparse(&cast, word, &input, order) == expected,
                    "{source:?} {order:?}"
                );
            }
            // Rows of 7 elements, of which the source has 9.
            let (size, rows) = (target.bytes() as usize, input.len() / word / 9);
            let mut output = vec![0; rows * 7 * size];
            let (step, pitch, order) = (word as i64, 9 * word as i64, ByteOrder::Little);
            let plane = Plane { bytes: &input, first: word as u64, step, pitch, order };
            cast.plane(&plane, &mut RowsMut::packed(&mut output, 7 * size));
            for (row, found) in output.chunks(7 * size).enumerate() {
                assert!(*found == expected[(9 * row + 1) * size..][..7 * size], "{source:?}");
            }
        }
    }
    assert!(missing > 1000);
}
