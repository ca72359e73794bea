//! Integer arithmetic that either fits or says so.

/// `value` rounded up to a multiple of `align`, which is a power of two.
pub const fn align_up(value: u64, align: u64) -> u64 {
    assert!(align.is_power_of_two());
    (value + (align - 1)) & !(align - 1)
}

/// The product of `extents`, or None where it does not fit.
pub fn product(extents: &[u64]) -> Option<u64> {
    extents.iter().try_fold(1u64, |total, extent| total.checked_mul(*extent))
}

/// Row-major coordinates of element `linear` in a grid of `extents`.
///
/// Worked example: extents [2, 3, 4], linear 23 = 1 * 12 + 2 * 4 + 3 gives [1, 2, 3].
pub fn coordinates_from_linear(mut linear: u64, extents: &[u64], coordinates: &mut [u64]) {
    assert!(coordinates.len() >= extents.len());
    for axis in (0..extents.len()).rev() {
        // Mostly few coordinates are not 0, and a division takes longer than all else.
        (linear, coordinates[axis]) = match linear < extents[axis] {
            true => (0, linear),
            false => (linear / extents[axis], linear % extents[axis]),
        };
    }
    assert!(linear == 0);
}

/// The inverse of [`coordinates_from_linear`].
pub fn linear_from_coordinates(coordinates: &[u64], extents: &[u64]) -> u64 {
    coordinates.iter().zip(extents).fold(0, |linear, (at, extent)| linear * extent + at)
}

/// `value` as an index into memory. 64-bit targets only, so it always fits.
pub const fn index(value: u64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_and_coordinates_are_inverse() {
        let extents = [2u64, 3, 4];
        let mut at = [0u64; 3];
        for linear in 0..24 {
            coordinates_from_linear(linear, &extents, &mut at);
            assert_eq!(linear_from_coordinates(&at, &extents), linear);
        }
        coordinates_from_linear(23, &extents, &mut at);
        assert_eq!(at, [1, 2, 3]);
    }

    #[test]
    fn product_overflow_is_none() {
        assert_eq!(product(&[u64::MAX, 2]), None);
        assert_eq!(product(&[]), Some(1));
    }
}
