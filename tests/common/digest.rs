//! Digests by the words of include/wavetrain.h: byte by byte, in wide integers. Shares nothing with
//! the library.

use wavetrain::loader::FieldView;

const MODULUS: u128 = 1 << 64;

/// `mix(position, digest)`.
pub fn mix(position: u64, digest: u64) -> u64 {
    let times = |x: u64, factor: u128| (u128::from(x) * factor % MODULUS) as u64;
    let mut x = digest ^ times(position, 0x9E37_79B9_7F4A_7C15);
    for _ in 0..2 {
        x ^= x / (1 << 32);
        x = times(x, 0xD6E8_FEB8_6659_FD93);
    }
    x ^ x / (1 << 32)
}

fn sum(each: impl Iterator<Item = u64>) -> u64 {
    (each.map(u128::from).sum::<u128>() % MODULUS) as u64
}

/// The digest of a sample.
pub fn digest(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| (0..).zip(bytes).map(|(at, byte)| u64::from(*byte) << (8 * at)).sum();
    let words = (1..).zip(bytes.chunks(8));
    mix(bytes.len() as u64, sum(words.map(|(position, bytes)| mix(position, word(bytes)))))
}

/// The digest of samples, the first of which has this position in the stream.
pub fn batch_digest(digests: &[u64], position: u64) -> u64 {
    sum((position..).zip(digests).map(|(position, digest)| mix(position, *digest)))
}

/// Looks whether a field says the digests of its samples, or none where it was asked for none.
pub fn check<'d>(
    field: &FieldView<'_>,
    is_asked: bool,
    samples: impl Iterator<Item = &'d [u8]>,
    position: u64,
    place: &str,
) {
    if !is_asked {
        assert_eq!((field.digests(), field.digest()), (None, 0), "{place}");
        return;
    }
    let expected: Vec<u64> = samples.map(digest).collect();
    assert_eq!(field.digests(), Some(&expected[..]), "{place}");
    assert_eq!(field.digest(), batch_digest(&expected, position), "{place}");
}
