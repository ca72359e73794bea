//! wavetrain_tiles.h and wavetrain.tiles: C, C++ and Python give the numbers that the sentences of
//! the header say, for all small questions and for large ones.
//!
//! A question is a line, as tests/c/tiles.c takes them; the answers here come from slow loops and
//! wide integers.

use crate::python::{python, shared_library};
use crate::questions::{self, Numbers, ask, words};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Answers the questions of tests/c/tiles.c that Python takes: no count of it is 0.
const PYTHON: &str = "
import sys
from wavetrain.tiles import Split, cut, grid_box, grid_count

for line in sys.stdin:
    word, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    out = []
    if word == 'tile':
        split = Split(*numbers[:4])
        tile = split.tile(*numbers[4:])
        out = [split.tile_rows, split.tile_count, tile.start, tile.stop]
    elif word == 'rank':
        for tile in Split(*numbers[:4]).of_rank(numbers[4]):
            out += [tile.start, tile.stop]
    elif word == 'cut':
        begin, end, *files = numbers
        try:
            for piece in cut(slice(begin, end), files):
                out += [piece.file, piece.rows.start, piece.rows.stop, piece.at.start]
            out.append(0)
        except ValueError as error:
            out.append(int(str(error).split()[-2]))
    else:
        axes = numbers[1]
        shape, edges = numbers[2 : 2 + axes], numbers[2 + axes :]
        out = [grid_count(shape, edges)]
        if numbers[0] < out[0]:
            box = grid_box(shape, edges, numbers[0])
            out += [rows.start for rows in box] + [rows.stop for rows in box]
    print(''.join(f' {number}' for number in out))
";

/// The program, as C99 and as C++11, where there are compilers.
fn programs() -> &'static [PathBuf] {
    static PROGRAMS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PROGRAMS.get_or_init(|| questions::programs("tiles", &questions::CHECKED))
}

/// All programs answer all questions, Python those that `is_for_python`.
fn ask_all(questions: Vec<(String, String)>, is_for_python: impl Fn(&str) -> bool) {
    println!("{} questions", questions.len());
    for program in programs() {
        ask(&mut Command::new(program), &questions);
    }
    let (Some(mut python), Some(library)) = (python(), shared_library()) else { return };
    let all = questions.into_iter();
    let some = all.filter(|(question, _)| is_for_python(question)).collect::<Vec<_>>();
    assert!(some.len() > 100);
    ask(python.args(["-c", PYTHON]).env("WAVETRAIN_LIBRARY", library), &some);
}

/// Rows of a tile: the smallest multiple of the unit with which the tiles suffice.
fn tile_rows(rows: u64, world: u64, per_rank: u64, unit: u64) -> u64 {
    let (tiles, unit) = (u128::from(world.max(1) * per_rank.max(1)), u128::from(unit.max(1)));
    let wanted = u128::from(rows).div_ceil(tiles).div_ceil(unit).max(1) * unit;
    wanted.min(u128::from(u64::MAX)) as u64
}

/// The tile of a number.
fn tile(rows: u64, edge: u64, number: u64) -> (u64, u64) {
    let at = |number: u64| (u128::from(number) * u128::from(edge)).min(u128::from(rows)) as u64;
    (at(number), at(number + 1))
}

#[test]
fn tiles_of_small_splits_are_every_row_once_in_order() {
    let mut questions = Vec::new();
    for rows in 0..=17 {
        for (world, per_rank, unit) in (0..60).map(|n| (1 + n % 5, n / 5 % 4, n / 20)) {
            // By trying, not by dividing.
            let tiles = world * per_rank.max(1);
            let unit_rows = unit.max(1);
            let edge = (1..).map(|n| n * unit_rows).find(|edge| edge * tiles >= rows).unwrap();
            assert_eq!(edge, tile_rows(rows, world, per_rank, unit));
            let count = (0..tiles).filter(|number| number * edge < rows).count() as u64;
            let mut next = 0;
            let mut of_rank = vec![Vec::new(); world as usize];
            for number in 0..tiles {
                let (begin, end) = tile(rows, edge, number);
                assert_eq!(begin, next);
                assert_eq!(begin == end, number >= count);
                next = end;
                let (rank, k) = (number % world, number / world);
                questions.push((
                    format!("tile {rows} {world} {per_rank} {unit} {rank} {k}"),
                    words([edge, count, begin, end]),
                ));
                if begin != end {
                    of_rank[rank as usize].extend([begin, end]);
                }
            }
            assert_eq!(next, rows);
            for (rank, expected) in of_rank.into_iter().enumerate() {
                let question = format!("rank {rows} {world} {per_rank} {unit} {rank}");
                questions.push((question, words(expected)));
            }
            // No such rank, and no such tile of one.
            for (rank, k) in [(world, 0), (0, per_rank.max(1))] {
                questions.push((
                    format!("tile {rows} {world} {per_rank} {unit} {rank} {k}"),
                    words([edge, count, rows, rows]),
                ));
            }
        }
    }
    ask_all(questions, |question| {
        let numbers: Vec<u64> =
            question.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        let (world, per_rank, unit, rank) = (numbers[1], numbers[2], numbers[3], numbers[4]);
        let k = numbers.get(5).copied().unwrap_or(0);
        per_rank > 0 && unit > 0 && rank < world && k < per_rank
    });
}

#[test]
fn nothing_overflows_at_the_ends_of_the_numbers() {
    let mut numbers = Numbers(1);
    let mut questions = Vec::new();
    let u32_max = u64::from(u32::MAX);
    for _ in 0..4000 {
        let (rows, unit) = (numbers.upto(u64::MAX), numbers.upto(u64::MAX).max(1));
        let (world, per_rank) = (numbers.upto(u32_max).max(1), numbers.upto(u32_max).max(1));
        let (rank, k) = (numbers.upto(world - 1), numbers.upto(per_rank - 1));
        let edge = tile_rows(rows, world, per_rank, unit);
        let (begin, end) = tile(rows, edge, k * world + rank);
        questions.push((
            format!("tile {rows} {world} {per_rank} {unit} {rank} {k}"),
            words([edge, rows.div_ceil(edge), begin, end]),
        ));
    }
    for _ in 0..2000 {
        let (begin, end) = (numbers.upto(u64::MAX), numbers.upto(u64::MAX));
        let (begin, end) = (begin.min(end), begin.max(end));
        let files: Vec<u64> = (0..6).map(|_| numbers.upto(u64::MAX)).collect();
        questions.push(cut_question(begin, end, &files));
    }
    ask_all(questions, |_| true);
}

/// A question about pieces and its answer, by the first row of each file in the array.
fn cut_question(begin: u64, end: u64, files: &[u64]) -> (String, String) {
    let (from, to) = (u128::from(begin), u128::from(end));
    let (mut first, mut came) = (0u128, 0u128);
    let mut expected = Vec::new();
    for (file, rows) in files.iter().enumerate() {
        let limit = first + u128::from(*rows);
        let (low, high) = (from.max(first), to.min(limit));
        if low < high {
            let numbers = [file as u128, low - first, high - first, low - from];
            expected.extend(numbers.map(|number| number as u64));
            came += high - low;
        }
        first = limit;
    }
    expected.push((to - from - came) as u64);
    (format!("cut {begin} {end}{}", words(files.iter().copied())), words(expected))
}

#[test]
fn pieces_of_small_ranges_are_their_rows_and_say_what_the_files_lack() {
    let mut questions = Vec::new();
    for number in 0..4u64.pow(4) {
        let files: Vec<u64> = (0..4).map(|file| number >> (2 * file) & 3).collect();
        let rows: u64 = files.iter().sum();
        for begin in 0..=rows + 1 {
            questions.extend((begin..=rows + 2).map(|end| cut_question(begin, end, &files)));
        }
    }
    questions.push(cut_question(0, 0, &[]));
    questions.push(cut_question(5, 7, &[]));
    ask_all(questions, |_| true);
}

#[test]
fn boxes_of_a_grid_are_numbered_row_by_row_and_cut_at_far_edges() {
    let mut questions = Vec::new();
    let mut ask_of = |shape: &[u64], edges: &[u64]| {
        let edge_of = |axis: usize| if edges[axis] == 0 { shape[axis] } else { edges[axis] };
        // Every begin and end along each axis, then all of them, the last axis fastest.
        let mut boxes = vec![(Vec::new(), Vec::new())];
        for axis in 0..shape.len() {
            let begins: Vec<u64> =
                (0..shape[axis]).step_by(edge_of(axis).max(1) as usize).collect();
            boxes = boxes
                .iter()
                .flat_map(|(begin, end)| {
                    begins.iter().map(|first| {
                        let last = (first + edge_of(axis)).min(shape[axis]);
                        let extended = |list: &Vec<u64>, one: u64| [&list[..], &[one]].concat();
                        (extended(begin, *first), extended(end, last))
                    })
                })
                .collect();
        }
        let sizes = words(shape.iter().chain(edges).copied());
        for (number, (begin, end)) in boxes.iter().enumerate() {
            let expected =
                words([boxes.len() as u64].into_iter().chain(begin.clone()).chain(end.clone()));
            questions.push((format!("grid {number} {}{sizes}", shape.len()), expected));
        }
        let number = boxes.len();
        questions.push((format!("grid {number} {}{sizes}", shape.len()), format!(" {number}")));
    };
    ask_of(&[], &[]);
    for n in 0..6 {
        (0..5).for_each(|edge| ask_of(&[n], &[edge]));
        for edges in 0..27 {
            ask_of(&[n, 3, 4], &[edges % 3, edges / 3 % 3, edges / 9 * 2]);
        }
    }
    let max = i64::MAX as u64;
    questions.push((format!("grid 1 1 {max} {}", max - 1), format!(" 2 {} {max}", max - 1)));
    // More tiles than a number holds.
    let saturated = format!(" {}", u64::MAX);
    questions.push((format!("grid 0 2 {max} {max} 1 1"), format!("{saturated} 0 0 1 1")));
    questions.push((format!("grid 0 1 {} 1", u64::MAX), saturated));
    ask_all(questions, |question| {
        !question.contains(&format!(" {max} {max} ")) && !question.contains(&u64::MAX.to_string())
    });
}
