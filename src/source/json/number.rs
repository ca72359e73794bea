//! Numbers: what their source text means as an integer and as an f64.
//!
//! Comes in: a number of a checked document. Goes out: its value, exact or rounded once to nearest
//! even. Integer arithmetic alone, so the rounding mode of the thread does not matter.
//!
//! The float is the quotient of two big integers, one bit after the other: core's parser is faster
//! by a table of 10 KB and three algorithms, which are no gain for the few numbers of a document.
//! Whatever a hostile number says, its work is bounded: some 50 passes over at most 41 words.

use core::cmp::Ordering;

/// Decimal digits that are looked at. Between two neighbouring floats the middle has at most 767
/// significant digits, so behind that many it counts only whether any digit is not 0.
const DIGITS_MAX: u32 = 768;

/// Words of the largest number: 10^769, and 5^1092 for as many digits behind 323 zeros, have less
/// than 2,560 bits each; doubling needs one more.
const WORDS: usize = 41;

/// The largest power of 5 in a word.
const FIVES: u32 = 27;

const MANTISSA_BITS: u32 = 52;
/// Exponent of the last bit of the smallest normal number and of every subnormal one.
const LAST_EXPONENT_MIN: i64 = -1074;
const INFINITY: u64 = 0x7ff << MANTISSA_BITS;

/// The number rounded to nearest even; infinite where it is beyond the largest f64.
pub(super) fn float(source: &[u8]) -> f64 {
    let sign = u64::from(source.first() == Some(&b'-')) << 63;
    f64::from_bits(sign | magnitude(source))
}

/// The bits of the number without its sign.
fn magnitude(source: &[u8]) -> u64 {
    let Decimal { mut digits, count, exponent } = Decimal::read(source);
    // The number lies in [10^(top - 1), 10^top).
    let top = exponent + i64::from(count);
    if count == 0 || top < -323 {
        // Below 10^-324, which is less than half of the smallest float.
        return 0;
    }
    if top > 309 {
        return INFINITY;
    }
    // The number is digits / divisor * 2^power.
    let mut divisor = Big::ZERO;
    divisor.multiply_add(0, 1);
    let mut power = exponent;
    let fives = exponent.unsigned_abs() as u32;
    if exponent < 0 {
        divisor.multiply_five(fives)
    } else {
        digits.multiply_five(fives)
    }
    let more = i64::from(divisor.bits()) - i64::from(digits.bits());
    digits.shift(more.max(0) as u32);
    divisor.shift((-more).max(0) as u32);
    power -= more;
    if digits.order(&divisor) == Ordering::Less {
        digits.shift(1);
        power -= 1;
    }
    // Now 1 <= digits / divisor < 2: the number's first bit is 2^power. Subnormal numbers have
    // fewer bits left, down to none where only rounding up can give the smallest of them.
    let bits = (power - LAST_EXPONENT_MIN + 1).min(i64::from(MANTISSA_BITS) + 1);
    if bits < 0 {
        return 0;
    }
    let mut mantissa = 0;
    for _ in 0..bits {
        let is_set = digits.order(&divisor) != Ordering::Less;
        if is_set {
            digits.subtract(&divisor);
        }
        mantissa = mantissa << 1 | u64::from(is_set);
        digits.shift(1);
    }
    // The divisor now stands for half of the last bit.
    let is_up = match digits.order(&divisor) {
        Ordering::Greater => true,
        Ordering::Equal => mantissa & 1 == 1,
        Ordering::Less => false,
    };
    // The top bit of a whole mantissa adds one to the exponent field; a carry out of the mantissa
    // is the next exponent, and out of the last one infinity.
    let last_exponent = power - i64::from(MANTISSA_BITS);
    let field = (last_exponent - LAST_EXPONENT_MIN).max(0) as u64;
    ((field << MANTISSA_BITS) + mantissa + u64::from(is_up)).min(INFINITY)
}

/// A number as digits * 10^exponent.
struct Decimal {
    digits: Big,
    /// Digits from the first that is not 0 on.
    count: u32,
    exponent: i64,
}

impl Decimal {
    fn read(source: &[u8]) -> Decimal {
        let mut decimal = Decimal { digits: Big::ZERO, count: 0, exponent: 0 };
        let (mut is_fraction, mut is_cut) = (false, false);
        let mut bytes = source.iter();
        // Ends with the bytes; those of an exponent are taken below.
        while let Some(byte) = bytes.next() {
            match byte {
                b'.' => is_fraction = true,
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    decimal.exponent -= i64::from(is_fraction);
                    if decimal.count == DIGITS_MAX {
                        decimal.exponent += 1;
                        is_cut |= digit != 0;
                    } else if decimal.count > 0 || digit != 0 {
                        decimal.digits.multiply_add(10, digit);
                        decimal.count += 1;
                    }
                }
                b'e' | b'E' => {
                    decimal.exponent += exponent(bytes.as_slice());
                    break;
                }
                _ => {}
            }
        }
        if is_cut {
            // Any digit that is not 0 stands for all that were cut.
            decimal.digits.multiply_add(10, 1);
            decimal.count += 1;
            decimal.exponent -= 1;
        }
        decimal
    }
}

/// The number behind an "e". Stops growing where no count of digits can make up for it.
fn exponent(source: &[u8]) -> i64 {
    let mut value = 0i64;
    for digit in source.iter().filter(|byte| byte.is_ascii_digit()) {
        if value < 1 << 58 {
            value = value * 10 + i64::from(digit - b'0');
        }
    }
    if source.starts_with(b"-") { -value } else { value }
}

/// A whole number, least word first. Invariant: `count` is 0, or word `count - 1` is not 0 and all
/// behind it are.
struct Big {
    words: [u64; WORDS],
    count: usize,
}

impl Big {
    const ZERO: Big = Big { words: [0; WORDS], count: 0 };

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for word in &mut self.words[..self.count] {
            let wide = u128::from(*word) * u128::from(factor) + u128::from(carry);
            *word = wide as u64;
            carry = (wide >> 64) as u64;
        }
        if carry > 0 {
            self.words[self.count] = carry;
            self.count += 1;
        }
    }

    fn multiply_five(&mut self, mut power: u32) {
        while power > 0 {
            let step = power.min(FIVES);
            self.multiply_add(5u64.pow(step), 0);
            power -= step;
        }
    }

    fn shift(&mut self, mut bits: u32) {
        while bits > 0 {
            let step = bits.min(63);
            self.multiply_add(1 << step, 0);
            bits -= step;
        }
    }

    fn bits(&self) -> u32 {
        let top = self.words[..self.count].last().map_or(0, |word| word.leading_zeros());
        64 * self.count as u32 - top
    }

    fn order(&self, other: &Big) -> Ordering {
        let mut order = self.count.cmp(&other.count);
        let mut place = self.count;
        while order == Ordering::Equal && place > 0 {
            place -= 1;
            order = self.words[place].cmp(&other.words[place]);
        }
        order
    }

    /// Takes away `other`, which is not greater.
    fn subtract(&mut self, other: &Big) {
        let mut is_borrowed = false;
        for (word, other) in self.words[..self.count].iter_mut().zip(&other.words) {
            let (difference, is_below) = word.overflowing_sub(*other);
            let (difference, is_lower) = difference.overflowing_sub(u64::from(is_borrowed));
            *word = difference;
            is_borrowed = is_below || is_lower;
        }
        assert!(!is_borrowed);
        while self.count > 0 && self.words[self.count - 1] == 0 {
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::{format, vec::Vec};

    /// Whether the bits are those that core's parser gives.
    fn check(text: &str) {
        let expected: f64 = text.parse().unwrap();
        let found = float(text.as_bytes());
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
