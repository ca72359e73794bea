//! SHA-256 (FIPS 180-4), a checksum that .xz blocks may have.
//!
//! In: bytes. Out: their digest. The constants are made when this is compiled: they are the first
//! bits of the fractions of roots of the first primes.

const BLOCK_BYTES: usize = 64;

/// Bytes of the length after the padding.
const LENGTH_BYTES: usize = 8;

const PRIMES: [u64; 64] = primes();

/// Cube roots of the primes, and square roots of the first eight.
const ROUNDS: [u32; 64] = fractions(3);
const START: [u32; 64] = fractions(2);

const fn primes() -> [u64; 64] {
    let (mut primes, mut count, mut number) = ([0; 64], 0, 2);
    while count < 64 {
        let mut place = 0;
        while place < count && number % primes[place] != 0 {
            place += 1;
        }
        if place == count {
            primes[count] = number;
            count += 1;
        }
        number += 1;
    }
    primes
}

/// 32 bits after the point of the roots of the primes: the largest numbers whose powers do not
/// exceed the primes.
const fn fractions(power: u32) -> [u32; 64] {
    let (mut all, mut place) = ([0; 64], 0);
    while place < 64 {
        let (mut root, mut bit) = (0u128, 36);
        while bit > 0 {
            bit -= 1;
            let next = root | 1 << bit;
            let product = if power == 3 { next * next * next } else { next * next };
            if product <= (PRIMES[place] as u128) << (32 * power) {
                root = next;
            }
        }
        all[place] = root as u32;
        place += 1;
    }
    all
}

/// The digest of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state = [0; 8];
    state.iter_mut().zip(START).for_each(|(word, start)| *word = start);
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    blocks.iter().for_each(|block| add(&mut state, block));
    let mut last = [0; BLOCK_BYTES];
    let marked = rest.iter().chain(&[0x80]);
    last.iter_mut().zip(marked).for_each(|(to, from)| *to = *from);
    if rest.len() >= BLOCK_BYTES - LENGTH_BYTES {
        add(&mut state, &last);
        last = [0; BLOCK_BYTES];
    }
    let length = (8 * bytes.len() as u64).to_be_bytes();
    let end = last.iter_mut().rev().zip(length.iter().rev());
    end.for_each(|(to, from)| *to = *from);
    add(&mut state, &last);
    let mut digest = [0; 32];
    let (words, _) = digest.as_chunks_mut::<4>();
    words.iter_mut().zip(state).for_each(|(to, word)| *to = word.to_be_bytes());
    digest
}

fn add(state: &mut [u32; 8], block: &[u8; BLOCK_BYTES]) {
    let mut words = [0u32; 16];
    let (source, _) = block.as_chunks::<4>();
    words.iter_mut().zip(source).for_each(|(word, from)| *word = u32::from_be_bytes(*from));
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (round, constant) in ROUNDS.iter().enumerate() {
        let word = words[round % 16];
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = e & f ^ !e & g;
        let first = h.wrapping_add(mixed).wrapping_add(chosen);
        let first = first.wrapping_add(*constant).wrapping_add(word);
        let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = mixed.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        // The word of 16 rounds later.
        let (late, early) = (words[(round + 14) % 16], words[(round + 1) % 16]);
        let low = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let high = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        let next = word.wrapping_add(low).wrapping_add(words[(round + 9) % 16]);
        words[round % 16] = next.wrapping_add(high);
    }
    let rounds = [a, b, c, d, e, f, g, h];
    state.iter_mut().zip(rounds).for_each(|(word, round)| *word = word.wrapping_add(round));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;
    use std::vec;

    fn text(bytes: &[u8]) -> String {
        sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_of_the_standard_come_out() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(text(b""), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text(b"abc"), abc);
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let digest = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(text(two), digest);
        let many = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(text(&vec![b'a'; 1_000_000]), many);
    }
}
