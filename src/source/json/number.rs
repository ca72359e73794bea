//! Numbers: what their source text means as an f64.
//!
//! Comes in: a number of a checked document. Goes out: its value, rounded once to nearest even.
//! Integer arithmetic alone, so the rounding mode of the thread does not matter.
//!
//! The float is the quotient of two big integers, one bit after the other: core's parser is faster
//! by a table of 10 KB and three algorithms, together 15 KB of the archive, which are no gain for
//! the few numbers of a document. Whatever a hostile number says, its work is bounded: 769 passes
//! over at most 98 words to take its digits in, and less than 300 for the rest.

/// Decimal digits that are looked at. Between two neighbouring floats the middle has at most 767
/// significant digits, so behind that many it counts only whether any digit is not 0.
const DIGITS_MAX: u64 = 768;

/// Digits of the longest number, with one for those that were cut, and of its power of ten: a
/// number above 10^-324 has at most 323 zeros in front of its first digit.
const SCALE_MAX: u64 = DIGITS_MAX + 1 + DIGITS_MAX + 1 + 323;

const MANTISSA_BITS: u32 = 52;
/// Exponent of the last bit of the smallest normal number and of every subnormal one.
const LAST_EXPONENT_MIN: i64 = -1074;
const INFINITY: u64 = 0x7ff << MANTISSA_BITS;

/// An exponent that no count of digits can make up for.
const FAR: i64 = 1 << 60;

/// Words for a number of this many digits and powers of ten: log2(10) is less than 10/3.
const fn words(scale: u64) -> usize {
    (scale * 10 / 3 / 64) as usize + 2
}

/// The number rounded to nearest even; infinite where it is beyond the largest f64.
pub(super) fn float(source: &str) -> f64 {
    let digits = source.strip_prefix('-').unwrap_or(source);
    let sign = u64::from(digits.len() < source.len()) << 63;
    f64::from_bits(sign | magnitude(digits))
}

/// The bits of a number without a sign.
fn magnitude(source: &str) -> u64 {
    let (mantissa, exponent) = source.split_once(['e', 'E']).unwrap_or((source, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
    let far = if exponent.starts_with('-') { -FAR } else { FAR };
    let exponent = exponent.parse().unwrap_or(far).clamp(-FAR, FAR) - fraction.len() as i64;
    let count = digits.clone().count() as u64;
    // The number lies in [10^(top - 1), 10^top).
    let top = exponent + count as i64;
    if count == 0 || top < -323 {
        // Below 10^-324, which is less than half of the smallest float.
        return 0;
    }
    if top > 309 {
        return INFINITY;
    }
    let kept = count.min(DIGITS_MAX) as usize;
    // Any digit that is not 0 stands for all that are cut.
    let is_cut = digits.clone().skip(kept).any(|digit| digit != b'0');
    let digits = digits.take(kept).chain(is_cut.then_some(b'1'));
    let exponent = top - kept as i64 - i64::from(is_cut);

    // The number is number / divisor * 2^power.
    let scale = kept as u64 + 1 + exponent.unsigned_abs();
    assert!(scale <= SCALE_MAX);
    let mut room = [[0; words(SCALE_MAX)]; 2];
    let [number, divisor] = room.each_mut().map(|room| &mut room[..words(scale)]);
    digits.for_each(|digit| multiply_add(number, 10, u64::from(digit - b'0')));
    divisor[0] = 1;
    multiply_power(if exponent < 0 { divisor } else { number }, 5, exponent.unsigned_abs());
    let more = bits(divisor) - bits(number);
    multiply_power(number, 2, more.max(0) as u64);
    multiply_power(divisor, 2, (-more).max(0) as u64);
    // Now 1/2 < number / divisor < 2: the quotient's first bit or its second is set.
    let mut quotient = 0;
    for _ in 0..u64::BITS {
        quotient = quotient << 1 | u64::from(subtract(number, divisor));
        multiply_add(number, 2, 0);
    }
    round(quotient, number.iter().any(|word| *word != 0), exponent - more - 63)
}

/// The bits of the float nearest to (quotient + something less than 1 if `has_more`) * 2^exponent.
fn round(quotient: u64, has_more: bool, exponent: i64) -> u64 {
    // What is more counts as one more bit. A float keeps 53; subnormal ones have fewer left, down
    // to none where only rounding up can give the smallest of them.
    let wide = u128::from(quotient) << 1 | u128::from(has_more);
    let excess = wide.ilog2() - MANTISSA_BITS;
    let last_exponent = (exponent - 1 + i64::from(excess)).max(LAST_EXPONENT_MIN);
    let cut = last_exponent - (exponent - 1);
    let mantissa = (wide >> cut) as u64;
    let (rest, half) = (wide - (u128::from(mantissa) << cut), 1 << (cut - 1));
    let is_up = rest > half || rest == half && mantissa & 1 == 1;
    // The top bit of a whole mantissa adds one to the exponent field; a carry out of the mantissa
    // is the next exponent, and out of the last one infinity.
    let field = (last_exponent - LAST_EXPONENT_MIN) as u64;
    ((field << MANTISSA_BITS) + mantissa + u64::from(is_up)).min(INFINITY)
}

/// Multiplies a whole number, least word first, and adds.
fn multiply_add(words: &mut [u64], factor: u64, addend: u64) {
    let mut carry = addend;
    for word in words {
        let wide = u128::from(*word) * u128::from(factor) + u128::from(carry);
        *word = wide as u64;
        carry = (wide >> 64) as u64;
    }
    assert!(carry == 0);
}

fn multiply_power(words: &mut [u64], base: u64, power: u64) {
    // The largest power of 5 in a word.
    const STEP: u64 = 27;
    for done in (0..power).step_by(STEP as usize) {
        multiply_add(words, base.pow((power - done).min(STEP) as u32), 0);
    }
}

fn bits(words: &[u64]) -> i64 {
    let top = words.iter().rposition(|word| *word != 0).unwrap_or(0);
    64 * (top as i64 + 1) - i64::from(words[top].leading_zeros())
}

/// Takes `other` away and says true, unless it is greater.
fn subtract(number: &mut [u64], other: &[u64]) -> bool {
    if number.iter().rev().lt(other.iter().rev()) {
        return false;
    }
    let mut is_borrowed = false;
    for (word, other) in number.iter_mut().zip(other) {
        let (difference, is_below) = word.overflowing_sub(*other);
        let (difference, is_lower) = difference.overflowing_sub(u64::from(is_borrowed));
        (*word, is_borrowed) = (difference, is_below || is_lower);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::{format, vec::Vec};

    /// Whether the bits are those that core's parser gives.
    fn check(text: &str) {
        let expected: f64 = text.parse().unwrap();
        let found = float(text);
        assert_eq!(found.to_bits(), expected.to_bits(), "{text}: {found} for {expected}");
    }

    fn random(state: &mut u64) -> u64 {
        *state = crate::base::cache::hash_words(&[*state]);
        *state
    }

    /// Every digit of mantissa * 2^exponent, by schoolbook arithmetic.
    fn all_digits(mantissa: u64, exponent: i32) -> String {
        let mut digits: Vec<u8> = format!("{mantissa}").bytes().rev().map(|c| c - b'0').collect();
        let factor = if exponent < 0 { 5 } else { 2 };
        for _ in 0..exponent.unsigned_abs() {
            let mut carry = 0;
            for digit in &mut digits {
                carry += *digit * factor;
                *digit = carry % 10;
                carry /= 10;
            }
            if carry > 0 {
                digits.push(carry);
            }
        }
        let text: String = digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        format!("{text}e{}", exponent.min(0))
    }

    #[test]
    fn floats_of_random_bits_come_back_from_every_spelling() {
        let mut state = 1;
        for _ in 0..60_000 {
            let bits = random(&mut state);
            let value = f64::from_bits(bits);
            if value.is_finite() {
                check(&format!("{value:e}"));
                check(&format!("{value:.*e}", (bits % 25) as usize));
            }
            // Near 1 and whole, where most numbers of documents lie.
            check(&format!("{}", (bits >> 40) as f64 / 1000.0));
            check(&format!("-{}.{}", bits >> 50, bits & 0xffff));
        }
    }

    #[test]
    fn random_digits_and_exponents_round_like_those_of_core() {
        let mut state = 2;
        for _ in 0..120_000 {
            let (digits, bits) = (random(&mut state), random(&mut state));
            let digits = digits >> (bits % 64);
            check(&format!("{digits}e{}", (bits >> 8) as i64 % 400));
            check(&format!("{digits}.{}E+{}", bits >> 20, bits % 300));
        }
    }

    /// The middle between two floats, exactly, and with one more digit to either side of it.
    #[test]
    fn ties_go_to_even_and_the_last_digit_decides() {
        let mut state = 3;
        for number in 0..1200 {
            let bits = random(&mut state);
            let exponent = match number % 4 {
                // Subnormal ones and their neighbours, and the ends of the range.
                0 => (bits % 3) as i32 - 1075,
                1 => (bits % 2046) as i32 - 1075,
                2 => (bits % 100) as i32 - 60,
                _ => 970 + (bits % 2) as i32,
            };
            let middle = (random(&mut state) >> (11 + bits % 12)) | 1;
            let text = all_digits(middle, exponent);
            let (digits, power) = text.split_once('e').unwrap();
            check(&text);
            let power: i32 = power.parse().unwrap();
            check(&format!("{digits}1e{}", power - 1));
            check(&format!("{digits}{}1e{}", "0".repeat(900), power - 901));
            let below = digits.trim_end_matches('0');
            let last = below.bytes().last().unwrap() - 1;
            let rest = digits.len() - below.len();
            let below = &below[..below.len() - 1];
            check(&format!("{below}{}{}e{power}", char::from(last), "9".repeat(rest)));
            check(&format!("{below}{}{}e{}", char::from(last), "9".repeat(rest + 30), power - 30));
        }
    }

    #[test]
    fn hard_numbers_of_the_literature_are_exact() {
        let zeros = "0".repeat(5000);
        let long = format!("0.{zeros}123e5001");
        let whole = format!("17{zeros}.0e-5000");
        for text in [
            "0",
            "-0",
            "0.0",
            "0e9999999999999999999999",
            "1e-9999999999999999999999",
            "1e9999999999999999999999",
            "4.9e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "2.2250738585072011e-308",
            "2.2250738585072012e-308",
            "2.2250738585072014e-308",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "179769313486231580793e289",
            "9007199254740993",
            "9007199254740992.999999999",
            "9007199254740993.0000000001",
            "1e23",
            "8.5e22",
            "6.631236846766476e-316",
            "3.237883913302901e-319",
            "1.448997445238699",
            "7.2057594037927933e16",
            "9214843084008499",
            "30078505129381147446200",
            "0.500000000000000166533453693773481063544750213623046875",
            "3.518437208883201171875e13",
            "62.5364939768271845828",
            "8.10109172351e-10",
            "1.50000000000000011102230246251565",
            "9007199254740991.4999999999999999999999999999",
            "6929495644600919.5",
            "3.7455744005952583e15",
            "1e-324",
            "3e-324",
            "1e309",
            "5708990770823839524233143877797980545530986496e0",
            &long,
            &whole,
        ] {
            check(text);
        }
    }
}
