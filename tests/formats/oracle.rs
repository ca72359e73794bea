//! The oracle of all tests, tests/common/oracle.rs, against numbers that were worked out by hand.

use crate::common::oracle::*;
use std::sync::Arc;
use wavetrain::records::Dtype;

#[test]
fn f16_ties_round_to_even_once() {
    assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11)), 0x3C00);
    assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3C01);
    assert_eq!(f16_from_f64(2f64.powi(-25)), 0);
    assert_eq!(f16_from_f64(-2f64.powi(-24)), 0x8001);
    assert_eq!(f16_from_f64(65519.99), 0x7BFF);
}

#[test]
fn reflection_repeats_as_numpy_does() {
    let image = Image::new(Dtype::U8, vec![3], Arc::new(vec![1, 2, 3]), vec![0]);
    // numpy.pad([1, 2, 3], 5, "reflect")
    let padded = image.crop(&[-5], &[8], Pad::Reflect, &[]);
    assert_eq!(padded, [2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2]);
}
