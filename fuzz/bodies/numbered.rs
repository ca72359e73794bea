//! Names of the files of a folder: the one sequence of numbered .npy files among them, which of its
//! numbers is missing, and how its files are spelled.
//!
//! Input: choices (how many files there may be, how many bits there are), then a list: with bit 0
//! of the first byte names as they are, a slash behind each, else choices of names that look like
//! those of a sequence. The first name is that of the uri, up to its star, where it has one.
//!
//! Checked against the contract in include/wavetrain.h, on a map of the numbers: what stands before
//! the numbers, the count, the digits, the first number that is missing; and that the order of the
//! names changes nothing.

use super::choices::Choices;
use std::collections::{BTreeMap, BTreeSet};
use wavetrain::base::text::{Text, line_bytes};
use wavetrain::source::flat::{Numbered, Pattern, PrefixFinder, Sequence, write_numbered};
use wavetrain::status::{Status, Why};

/// Names of one input.
const NAMES_MAX: usize = 400;
/// Bytes of a name that a file system has.
const NAME_BYTES: usize = 255;
/// Digits of a number, at most.
const DIGITS_MAX: usize = 10;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let is_listed = choices.byte() & 1 > 0;
    let most = choices.one_of(&[1 << 24, 0, 1, 2, 3, 7, 8, 9, 16, 64, 100, 300]);
    let bits = choices.one_of(&[64, 1, 2, 3, 8, 16]);
    let names = if is_listed { listed(choices.rest()) } else { chosen(&mut choices) };
    let first = names.first().and_then(|name| str::from_utf8(name).ok()).unwrap_or("");
    let before = first.split_once('*').map(|(before, _)| before);
    check_uri(first);
    check_folder(&names);
    let found = prefix_of(&names);
    for prefix in found.iter().map(String::as_str).chain(before) {
        check_sequence(&names, prefix, (most, bits));
    }
}

/// Names as they are, each once.
fn listed(text: &[u8]) -> Vec<Vec<u8>> {
    let is_name = |name: &&[u8]| !name.is_empty() && name.len() <= NAME_BYTES && !name.contains(&0);
    let mut seen = BTreeSet::new();
    let names = text.split(|byte| *byte == b'/').filter(is_name).take(NAMES_MAX);
    names.filter(|name| seen.insert(name.to_vec())).map(<[u8]>::to_vec).collect()
}

/// Runs of numbers in one spelling, then single names that fit or do not.
fn chosen(choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    let prefixes = ["s_", "", "t", "s_1", "a*b", "\u{e9}"];
    let prefix = choices.one_of(&prefixes);
    let width = choices.one_of(&[1, 2, 3, 4, 10, 11]);
    let (first, count) = (choices.below(3), choices.below(200));
    let spell = |prefix: &str, number: u64, width: usize| format!("{prefix}{number:0width$}.npy");
    let skipped = choices.below(400);
    let mut names: Vec<String> = (first..first + count)
        .filter(|number| *number != skipped)
        .map(|number| spell(prefix, number, width))
        .collect();
    for _ in 0..choices.below(6) {
        let number = match choices.below(4) {
            0 => choices.one_of(&[99_999_999, 9_999_999_999, 10_000_000_000, u64::MAX]),
            1 => first + count,
            _ => choices.below(300),
        };
        let name = match choices.below(8) {
            0..=2 => spell(prefix, number, width),
            3..=4 => spell(prefix, number, choices.one_of(&[1, 2, 3, 10])),
            5 => spell(choices.one_of(&prefixes), number, width),
            6 => format!("{prefix}{number}.np"),
            _ => format!("{prefix}.npy"),
        };
        names.push(name);
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.into_iter().map(String::into_bytes).collect()
}

/// The number of a name that ends as those of a sequence do: what stands before it, and it. None
/// of a hidden name.
fn number_of(name: &[u8]) -> Option<(&str, &str)> {
    let stem = str::from_utf8(name).ok()?.strip_suffix(".npy")?;
    if stem.starts_with('.') {
        return None;
    }
    let begin = stem.rfind(|character: char| !character.is_ascii_digit());
    let begin = begin.map_or(0, |at| at + stem[at..].chars().next().map_or(0, char::len_utf8));
    (begin < stem.len()).then(|| stem.split_at(begin))
}

/// A uri names a folder, and what stands before and behind the star of its last part.
fn check_uri(text: &str) {
    for uri in [
        text.to_owned(),
        format!("/d/{text}"),
        format!("d/{text}*.npy"),
        format!("*{text}"),
        format!("/d#first=1/{text}*{text}.npy#first=12"),
        format!("{text}#first=0"),
    ] {
        let found = Pattern::of(&uri);
        assert_eq!(found, pattern_of(&uri), "{uri}");
        let Some(Pattern { suffix, first, .. }) = found else { continue };
        let front = uri.rfind('*').map_or("", |star| &uri[..star]);
        for (number, digits) in [(0, 1), (7, 4), (12_345, 4), (u32::MAX, 10), (1, 10)] {
            let mut path = Text::<2048>::new();
            write_numbered(&uri, number, digits, &mut path);
            let (digits, whole) = (digits as usize, u64::from(first) + u64::from(number));
            assert_eq!(path.as_str(), format!("{front}{whole:0digits$}{suffix}"));
            let mut short = Text::<16>::new();
            write_numbered(&uri, number, digits as u32, &mut short);
            assert!(path.as_str().starts_with(short.as_str()));
            assert_eq!(short.is_cut(), path.as_str().len() > 15);
        }
    }
}

fn pattern_of(uri: &str) -> Option<Pattern<'_>> {
    let (path, first) = match uri.rfind("#first=").map(|at| (&uri[..at], &uri[at + 7..])) {
        Some((path, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            (path, digits.parse().ok())
        }
        _ => (uri, Some(0)),
    };
    let (path, first) = if uri.ends_with("#first=") { (uri, Some(0)) } else { (path, first) };
    let at = path.rfind('/');
    let folder = match at {
        Some(0) => "/",
        Some(at) => &path[..at],
        None => ".",
    };
    let name = &path[at.map_or(0, |at| at + 1)..];
    let star = name.find('*').filter(|_| name.matches('*').count() == 1)?;
    let (prefix, suffix) = (&name[..star], &name[star + 1..]);
    let first = first.filter(|_| suffix.ends_with(".npy"))?;
    Some(Pattern { folder, prefix, suffix, first })
}

/// What stands before the numbers, where that is one thing.
fn prefix_of(names: &[Vec<u8>]) -> Option<String> {
    let all = names.iter().filter_map(|name| number_of(name));
    let prefixes: BTreeSet<&str> = all.map(|(prefix, _)| prefix).collect();
    prefixes.first().filter(|_| prefixes.len() == 1).map(|prefix| (*prefix).to_owned())
}

/// A folder has one sequence, none, or has to be told which.
fn check_folder(names: &[Vec<u8>]) {
    let all = names.iter().filter_map(|name| number_of(name));
    let prefixes: BTreeSet<&str> = all.map(|(prefix, _)| prefix).collect();
    for is_reversed in [false, true] {
        let (mut finder, mut why) = (PrefixFinder::new(), Why::new());
        in_order(names, is_reversed, |name| finder.add(name));
        match finder.finish("/d", &mut why) {
            Ok(found) => {
                assert!(prefixes.len() <= 1, "{found:?} of {prefixes:?}");
                assert_eq!(found, prefixes.first().copied());
            }
            Err(status) => {
                assert!(status == Status::Invalid && prefixes.len() > 1);
                let text = why.as_str();
                assert!(text.starts_with("/d: has several sequences, "), "{text}");
                // A long name is shown by its end.
                let end = |name: &str| name.chars().rev().take(8).collect::<Vec<_>>();
                let is_named = |name: &&&str| {
                    let end: String = end(name).into_iter().rev().collect();
                    let mut shown = Text::<128>::new();
                    shown.write_line(format_args!("{end}*.npy"));
                    text.contains(shown.as_str())
                };
                assert!(prefixes.iter().filter(is_named).count() >= 2, "{text} of {prefixes:?}");
            }
        }
    }
}

fn in_order(names: &[Vec<u8>], is_reversed: bool, mut add: impl FnMut(&[u8])) {
    match is_reversed {
        false => names.iter().for_each(|name| add(name)),
        true => names.iter().rev().for_each(|name| add(name)),
    }
}

/// The spellings of each number that stands for the star.
fn numbers_of<'a>(names: &'a [Vec<u8>], prefix: &str) -> BTreeMap<u128, Vec<&'a str>> {
    let mut numbers = BTreeMap::<u128, Vec<&str>>::new();
    for name in names.iter().filter_map(|name| str::from_utf8(name).ok()) {
        let digits = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".npy"));
        let is_number =
            |digits: &&str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(digits) = digits.filter(is_number) {
            let number = digits.parse().unwrap_or(u128::MAX);
            numbers.entry(number).or_default().push(digits);
        }
    }
    numbers
}

/// The sequence, if it is one; else the status and a part of the text, where that is known.
fn model(
    numbers: &BTreeMap<u128, Vec<&str>>,
    (prefix, first): (&str, u128),
    (most, room): (u32, u64),
) -> Result<Sequence, (Status, String)> {
    let spellings = || numbers.values().flatten();
    let zeros: BTreeSet<usize> =
        spellings().filter(|digits| digits.starts_with('0')).map(|digits| digits.len()).collect();
    let is_long = spellings().any(|digits| digits.len() > DIGITS_MAX);
    let in_room = numbers.range(first..first + u128::from(room));
    let is_double = { in_room }.any(|(_, spellings)| spellings.len() > 1);
    let is_before = numbers.keys().any(|number| *number < first);
    if is_long || zeros.len() > 1 || is_double || is_before {
        return Err((Status::Decode, String::new()));
    }
    if numbers.is_empty() {
        return Err((Status::NotFound, "there is no such file".to_owned()));
    }
    let whole = (first..).take_while(|number| numbers.contains_key(number)).count() as u64;
    let digits = zeros.first().copied().unwrap_or(1);
    if whole < room && numbers.len() as u64 > whole {
        let number = first + u128::from(whole);
        let name = format!("{prefix}{number:0digits$}.npy: is not there, but files with higher");
        return Err((Status::NotFound, name));
    }
    if whole > room || numbers.len() as u64 > whole {
        return Err((Status::Budget, format!("more than {room} files, max_npy_files = {most}")));
    }
    if whole > u64::from(most) {
        return Err((Status::Budget, format!(": {whole} files, max_npy_files = {most}: raise it")));
    }
    let is_spelled = |(number, spelling): (&u128, &Vec<&str>)| {
        spelling.len() == 1 && spelling[0] == format!("{number:0digits$}")
    };
    match numbers.iter().all(is_spelled) {
        true => Ok(Sequence { count: whole as u32, digits: digits as u32 }),
        false => Err((Status::Decode, "numbers have no zeros in front".to_owned())),
    }
}

fn check_sequence(names: &[Vec<u8>], prefix: &str, (most, bytes): (u32, usize)) {
    let numbers = numbers_of(names, prefix);
    let least = numbers.keys().next().and_then(|least| u32::try_from(*least).ok()).unwrap_or(7);
    for first in [0, least] {
        check_sequence_from(names, &numbers, (prefix, first), (most, bytes));
    }
}

fn check_sequence_from(
    names: &[Vec<u8>],
    numbers: &BTreeMap<u128, Vec<&str>>,
    (prefix, first): (&str, u32),
    (most, bytes): (u32, usize),
) {
    let model = model(numbers, (prefix, first.into()), (most, bytes as u64 * 8));
    let mark = if first > 0 { format!("#first={first}") } else { String::new() };
    let uri = format!("/d/{prefix}*.npy{mark}");
    let pattern = Pattern { folder: "/d", prefix, suffix: ".npy", first };
    for is_reversed in [false, true] {
        let (mut seen, mut why) = (vec![0xA5; bytes], Why::new());
        let mut numbered = Numbered::new(pattern, &mut seen);
        assert_eq!(numbered.room(), bytes as u64 * 8);
        in_order(names, is_reversed, |name| numbered.add(name));
        let is_short = numbered.is_short_of_bits();
        let found = numbered.finish(&uri, most, &mut why);
        match (&found, &model) {
            (Ok(found), Ok(model)) => {
                assert_eq!(found, model);
                assert!(!is_short && why.is_empty());
                if Pattern::of(&uri) == Some(pattern) {
                    check_paths(names, &uri, *found);
                }
            }
            (Err(status), Err((known, text))) => {
                assert_eq!(status, known, "{why}");
                // The text is one line, and so is what is looked for in it.
                let mut line = Text::<1024>::new();
                line.write_line(format_args!("{text}"));
                let has_text = why.as_str().contains(line.as_str());
                // A uri of two stars names no sequence, and so no file either.
                let is_known = Pattern::of(&uri) == Some(pattern) && line_bytes(&uri) <= 150;
                assert!(has_text || !is_known, "{why}, not {text}");
                assert!(why.as_str().starts_with("/d/") || line_bytes(&uri) > 150, "{why}");
            }
            _ => panic!("{found:?} ({why}), not {model:?}"),
        }
    }
}

/// Every file of a sequence is one of the folder.
fn check_paths(names: &[Vec<u8>], uri: &str, sequence: Sequence) {
    let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
    for number in 0..sequence.count {
        let mut path = Text::<1024>::new();
        write_numbered(uri, number, sequence.digits, &mut path);
        let name = path.as_str().strip_prefix("/d/").expect("the folder");
        assert!(names.contains(name.as_bytes()), "{name}");
    }
}
