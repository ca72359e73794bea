//! The library's functions give the numbers of the oracle, tests/c/epoch_oracle.h, under every
//! compiler and flag of the oracle.
//!
//! A question is a line, as tests/c/epoch.c takes them. What the numbers are worth is for
//! src/sampler's own tests, and for those here that know an answer.

mod answers;

use crate::questions::{self, CHECKED, FAST, Numbers, ask};
use answers::answer;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The program, as C99, C++11 and newer, checked and as fast as compilers make it.
fn programs() -> &'static [PathBuf] {
    static PROGRAMS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PROGRAMS.get_or_init(|| questions::programs("epoch", CHECKED.iter().chain(&FAST)))
}

/// All programs of the oracle answer as the library does.
fn ask_all(asked: Vec<String>) {
    println!("{} questions", asked.len());
    let with_answers = asked.into_iter().map(|question| {
        let answer = answer(&question);
        (question, answer)
    });
    let asked: Vec<_> = with_answers.collect();
    for program in programs() {
        ask(&mut Command::new(program), &asked);
    }
}

fn joined(numbers: impl IntoIterator<Item = u64>) -> String {
    questions::words(numbers).trim_start().to_owned()
}

#[test]
fn philox_gives_the_known_answers_of_random123_everywhere() {
    let known: [([u64; 5], [u64; 4]); 3] = [
        ([0; 5], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        (
            [u64::MAX, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
        ),
        (
            [0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];
    let asked = known.map(|(numbers, expected)| {
        (format!("philox {}", joined(numbers)), questions::words(expected))
    });
    for program in programs() {
        ask(&mut Command::new(program), &asked);
    }
    asked.iter().for_each(|(question, expected)| assert_eq!(&answer(question), expected));
}

#[test]
fn draws_and_permutations_are_the_same_numbers_everywhere() {
    let mut numbers = Numbers(1);
    let mut asked = Vec::new();
    for _ in 0..500 {
        let mut of = |word: &str, maxima: &[u64]| {
            let drawn = maxima.iter().map(|max| numbers.upto(*max));
            asked.push(format!("{word} {}", joined(drawn.collect::<Vec<_>>())));
        };
        let (most, narrow) = (u64::MAX, u64::from(u32::MAX));
        of("mix", &[most; 2]);
        of("key", &[most; 3]);
        of("high", &[most; 2]);
        of("philox", &[most, narrow, narrow, narrow, narrow]);
        of("below", &[most, most, most / 2, narrow, 5]);
        of("permute", &[(1 << 62) + 1, most, 1 << 62, 5]);
    }
    for n in (0..=5000u64).filter(|n| *n < 200 || n.is_multiple_of(7) || n.is_power_of_two()) {
        asked.push(format!("permute {n} {} 0 {}", n * n + 3, (n + 2).min(300)));
    }
    ask_all(asked);
}

#[test]
fn all_deals_and_tails_are_the_same_everywhere() {
    let mut asked = Vec::new();
    for n in [0, 1, 2, 5, 8, 23, 24, 25, 64, 65] {
        for (world, batch) in [(1, 1), (1, 4), (2, 1), (2, 3), (3, 4), (8, 1), (8, 3)] {
            for flags in (0..32).filter(|flags| flags & 4 == 0 || flags & 24 == 0) {
                let rank = (n + flags) % world;
                let count = (n / world + 2 * batch).min(70);
                let deal = format!("{n} 9 {flags} {rank} {world} {batch} 3");
                asked.push(format!("deal {deal} 0 {count}"));
                asked.push(format!("deal {deal} {} {count}", n / 2));
                if flags & 19 == 0 {
                    let free = format!("{n} 9 {flags} {rank} {world} {batch}");
                    for (window, position) in [(1, 0), (2, 0), (3, batch * 3), (900, 0)] {
                        let position = position.min(n);
                        asked.push(format!("free {free} {window} 2 {position} {count}"));
                    }
                }
            }
        }
    }
    let mut numbers = Numbers(2);
    for _ in 0..1000 {
        let (n, narrow) = (numbers.upto(1 << 62), u64::from(u32::MAX));
        let (seed, flags) = (numbers.upto(u64::MAX), numbers.upto(31));
        let (rank, world) = (numbers.upto(narrow), numbers.upto(narrow));
        let rank =
            if world > 0 && numbers.pick(&[true, true, false]) { rank % world } else { rank };
        let (batch, epoch) = (numbers.upto(narrow), numbers.upto(u64::MAX));
        let position = numbers.upto(n + 1);
        let deal = format!("{n} {seed} {flags} {rank} {world}");
        asked.push(format!("deal {deal} {batch} {epoch} {position} 5"));
        let (run, window) = (numbers.upto(1 << 40), numbers.upto(1 << 40));
        let (free, position) = (flags & 12, position.min(n));
        let deal = format!("{n} {seed} {free} {rank} {world} {run} {window}");
        asked.push(format!("free {deal} {epoch} {position} 5"));
        let order = flags & 1;
        asked.push(format!("at {n} {seed} {order} {run} {window} {epoch} {position} 5"));
    }
    ask_all(asked);
}

#[test]
fn a_state_of_another_order_is_refused_everywhere() {
    let mut asked = Vec::new();
    for (change, by) in (0..3).flat_map(|change| (0..3).map(move |by| (change, by))) {
        for position in [0, 10, 11, 12, u64::MAX] {
            let mut other = [10, 7, 1];
            other[change] += by;
            asked.push(format!("resume 10 7 1 {} {position}", joined(other)));
        }
    }
    for count in 0..50 {
        asked.push(format!("depends 10 7 1 0{}", questions::words((0..count).map(|k| k * k))));
    }
    let taken = asked.iter().filter(|question| answer(question) == " 1").count();
    // By 0 at positions 0 and 10, and a flag that does not decide the order.
    assert_eq!(taken, 3 * 2 + 2);
    ask_all(asked);
}

#[test]
fn splits_weights_and_mixtures_are_the_same_everywhere() {
    let mut numbers = Numbers(3);
    let mut asked = Vec::new();
    for _ in 0..300 {
        let seed = numbers.upto(u64::MAX);
        let n = numbers.upto(1 << 62);
        let parts = numbers.upto(9);
        let weights: Vec<u64> = (0..parts).map(|_| numbers.upto(1 << 28)).collect();
        let weights = questions::words(weights);
        asked.push(format!("parts {n} {parts}{weights}"));
        let labels = 1 + numbers.upto(12);
        let of: Vec<u64> = (0..numbers.upto(60)).map(|_| numbers.upto(labels - 1)).collect();
        let of = format!("{labels}{}", questions::words(of));
        asked.push(format!("group {of}"));
        asked.push(format!("group {of} {labels}"));
        for part in 0..parts.min(3) {
            asked.push(format!("stratify {seed} {part} {parts}{weights} {of}"));
        }
        let place = format!("{seed} {} {}", numbers.upto(99), numbers.upto(u64::MAX / 2));
        let max = numbers.pick(&[3, 1 << 40, u64::MAX]);
        let weights: Vec<u64> = (0..numbers.upto(9)).map(|_| numbers.upto(max)).collect();
        asked.push(format!("weighted {place} 9{}", questions::words(weights)));
        let max = numbers.pick(&[3, 50, u64::from(u32::MAX)]);
        let sources = 0..1 + numbers.upto(6);
        let shares: Vec<u64> =
            sources.flat_map(|_| [numbers.upto((1 << 62) + 1), numbers.upto(max)]).collect();
        asked.push(format!("mixed {place} 9{}", questions::words(shares)));
        let small: Vec<u64> = (0..4).flat_map(|_| [1 + numbers.upto(9), numbers.upto(4)]).collect();
        asked.push(format!("mixed {seed} 0 0 40{}", questions::words(small)));
    }
    let many = questions::words([1; 65]);
    asked.push(format!("stratify 1 0 65{many} 1 0 0"));
    asked.push("stratify 1 0 2 0 0 1 0 0".to_owned());
    asked.push("weighted 1 0 0 3".to_owned());
    ask_all(asked);
}

/// Some grid: mostly a small one that has boxes, jittering now and then.
fn some_grid(numbers: &mut Numbers, axes: u64, max: u64) -> String {
    let flags = u64::from(numbers.pick(&[false, false, true]));
    let mut lists = vec![Vec::new(); 5];
    for _ in 0..axes {
        let shape = 1 + numbers.upto(max);
        let extent_max = numbers.pick(&[7, 7, max]);
        let extent = 1 + numbers.upto(extent_max);
        let step = numbers.pick(&[0, 1, 2, 3, extent]);
        let margin = numbers.pick(&[0, 0, 1, extent / 2, extent - 1, extent]);
        let chunk = numbers.pick(&[0, 1, 3, 4, 5, 8, shape, max + 1]);
        let all = [shape, extent, step, margin, chunk];
        lists.iter_mut().zip(all).for_each(|(list, number)| list.push(number));
    }
    format!("{axes} {flags}{}", questions::words(lists.concat()))
}

#[test]
fn boxes_are_the_same_everywhere() {
    let mut numbers = Numbers(4);
    let mut asked = Vec::new();
    for number in 0..1500 {
        let (axes, max) = match number % 10 {
            0 => (numbers.upto(17), 6),
            1 => (1 + numbers.upto(2), 1 << 60),
            2 => (1, (1 << 60) + 1),
            _ => (1 + numbers.upto(2), 24),
        };
        let grid = some_grid(&mut numbers, axes, max);
        let (seed, epoch) = (numbers.upto(u64::MAX), numbers.upto(9));
        let first_max = numbers.pick(&[0, 0, 200, 1 << 62]);
        let first = numbers.upto(first_max);
        asked.push(format!("boxes {seed} {epoch} {first} 20 {grid}"));
        asked.push(format!("anywhere {seed} {epoch} {first} 4 {grid}"));
        let point: Vec<u64> = (0..axes).map(|_| numbers.upto(max.min(20))).collect();
        asked.push(format!("around {seed} {epoch} {first} 4 {grid}{}", questions::words(point)));
    }
    ask_all(asked);
}

#[test]
fn arrays_and_costs_are_the_same_everywhere() {
    let mut numbers = Numbers(5);
    let mut asked = vec!["cost 1 0 4 2 99 0".to_owned(), "arrays 0 0".to_owned()];
    for number in 0..400 {
        let count = 1 + numbers.upto(3);
        let max = numbers.pick(&[6, 20, 20]);
        let grids: Vec<String> = (0..count)
            .map(|_| {
                let axes = numbers.upto(2);
                some_grid(&mut numbers, axes, max)
            })
            .collect();
        let grids = format!("{count} {}", grids.join(" "));
        asked.push(format!("arrays {} {grids}", numbers.upto(300)));
        let (run, window) = (numbers.upto(9), numbers.upto(9));
        for words in [65536, number % 64] {
            asked.push(format!("cost {number} {} {run} {window} {words} {grids}", number % 3));
        }
    }
    ask_all(asked);
}

#[test]
fn six_words_for_each_chunk_of_a_window_are_memory_enough_for_its_cost() {
    // One window with every chunk of a row, so as many as it has places.
    let mut asked = Vec::new();
    for chunks in 1..200 {
        let of = |words: u64| format!("cost 1 0 {chunks} 1 {words} 1 1 0 {chunks} 1 0 0 1");
        assert_eq!(answer(&of(6 * chunks)), format!(" 1 {chunks} {chunks} {chunks}"));
        assert_eq!(answer(&of(chunks)), " 0");
        asked.extend([of(6 * chunks), of(chunks)]);
    }
    ask_all(asked);
}
