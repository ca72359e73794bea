//! Folders of numbered files, `NAME_0000.npy` and so on: which files they are.
//!
//! In: names of files in a folder, in any order. Out: how many there are, and how they are spelled;
//! or which is missing. Invariant: what is found is the first to the last, each spelled in one way.

use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, TextIn};
use crate::fail;
use crate::records::PART_DIGITS_MAX;
use core::fmt::Write;

/// Bytes of a name that a file system has.
const NAME_BYTES: usize = 256;
const ENDING: &str = ".npy";
/// The text between a '#' and the number of the first file in a uri.
const FIRST: &str = "first=";
/// Bytes of a uri that an error text shows.
const SHOWN_BYTES: usize = 160;

/// The files that `FOLDER/NAME_*.npy` or `FOLDER/NAME_*_END.npy#first=1` names: each has a number
/// in place of the star.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern<'a> {
    pub folder: &'a str,
    /// The parts of a name before and after the number.
    pub prefix: &'a str,
    pub suffix: &'a str,
    /// The number of the first file.
    pub first: u32,
}

/// The uri up to the star, behind it, and the number of the first file; None of other uris.
#[inline(never)]
fn split(uri: &str) -> Option<(&str, &str, u32)> {
    let marked =
        uri.rsplit_once('#').and_then(|(path, text)| Some((path, text.strip_prefix(FIRST)?)));
    let (path, first) = match marked {
        Some((path, number)) if is_number(&number) => (path, number.parse().ok()?),
        _ => (uri, 0),
    };
    let (before, suffix) = path.rsplit_once('*')?;
    let name = before.rsplit_once('/').map_or(before, |(_, name)| name);
    let is_one = !name.contains('*') && !suffix.contains('/') && suffix.ends_with(ENDING);
    is_one.then_some((before, suffix, first))
}

impl<'a> Pattern<'a> {
    /// That of a uri; None of other uris.
    pub fn of(uri: &'a str) -> Option<Pattern<'a>> {
        let (before, suffix, first) = split(uri)?;
        let (folder, prefix) = before.rsplit_once('/').unwrap_or((".", before));
        Some(Pattern {
            folder: if folder.is_empty() { "/" } else { folder },
            prefix,
            suffix,
            first,
        })
    }
}

/// Writes the path of the file at place `number` of such a uri, counted from its first.
pub fn write_numbered<B: ?Sized>(uri: &str, number: u32, digits: u32, path: &mut TextIn<B>)
where
    TextIn<B>: Write,
{
    let (before, suffix, first) = split(uri).unwrap_or((uri, ENDING, 0));
    let (number, width) = (u64::from(first) + u64::from(number), digits as usize);
    // A path that is too long is cut, and no file has it.
    let _ = write!(path, "{before}{number:0width$}{suffix}");
}

/// What stands before the number in a name, and the number; None of other names.
fn parts_of(name: &[u8]) -> Option<(&str, &str)> {
    let stem = core::str::from_utf8(name).ok()?.strip_suffix(ENDING)?;
    let digits = stem.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, digits) = stem.split_at(stem.len() - digits);
    (!digits.is_empty()).then_some((prefix, digits))
}

fn is_number(digits: &&str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Looks for the one sequence of a folder.
pub struct PrefixFinder {
    prefix: Option<Text<NAME_BYTES>>,
    other: Option<Text<NAME_BYTES>>,
}

impl PrefixFinder {
    /// Nothing was looked at.
    pub fn new() -> PrefixFinder {
        PrefixFinder { prefix: None, other: None }
    }

    /// Takes a name.
    pub fn add(&mut self, name: &[u8]) {
        // Hidden names are of systems that keep notes beside each file.
        let Some((prefix, _)) = parts_of(name).filter(|_| !name.starts_with(b".")) else { return };
        let text = || {
            let mut text = Text::new();
            text.push_str(prefix);
            text
        };
        match &self.prefix {
            None => self.prefix = Some(text()),
            Some(known) if known.as_str() != prefix && self.other.is_none() => {
                self.other = Some(text());
            }
            Some(_) => {}
        }
    }

    /// What stands before the numbers in the folder `uri`; None where no name has one.
    pub fn finish(&self, uri: &str, why: &mut Why) -> Result<Option<&str>, Status> {
        let Some(prefix) = &self.prefix else { return Ok(None) };
        let Some(other) = &self.other else { return Ok(Some(prefix.as_str())) };
        let folder = Tail(uri, SHOWN_BYTES);
        // In one order, whatever the order of the file system is.
        let (first, second) =
            (prefix.as_str().min(other.as_str()), prefix.as_str().max(other.as_str()));
        let (first, second) = (Tail(first, 60), Tail(second, 60));
        let way = "name one of them, as FOLDER/NAME_*.npy";
        Err(fail!(
            why,
            Invalid,
            "{folder}: has several sequences, {first}*.npy and {second}*.npy: {way}"
        ))
    }
}

impl Default for PrefixFinder {
    fn default() -> PrefixFinder {
        PrefixFinder::new()
    }
}

/// Counts the files of a sequence.
pub struct Numbered<'a> {
    pattern: Pattern<'a>,
    /// A bit for each number that was seen, from that of the first file on.
    seen: &'a mut [u8],
    count: u64,
    /// The least number that has no bit.
    beyond: Option<u64>,
    /// Digits of numbers with a zero in front, or of one digit: as all have at least.
    digits: Option<u32>,
    /// Digits of the shortest number without one.
    shortest: u32,
    fault: Option<(&'static str, u64)>,
}

/// How the numbers of a sequence are spelled, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// So many, from the first on.
    pub count: u32,
    /// Digits of a number at least, zeros in front.
    pub digits: u32,
}

impl<'a> Numbered<'a> {
    /// Names of a pattern. `seen` has a bit for each file that there may be.
    pub fn new(pattern: Pattern<'a>, seen: &'a mut [u8]) -> Numbered<'a> {
        seen.fill(0);
        let shortest = u32::MAX;
        Numbered { pattern, seen, count: 0, beyond: None, digits: None, shortest, fault: None }
    }

    /// Takes a name.
    pub fn add(&mut self, name: &[u8]) {
        // Digits that the prefix ends with are none of the number.
        let Pattern { prefix, suffix, first, .. } = self.pattern;
        let rest = core::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(prefix));
        let Some(digits) = rest.and_then(|rest| rest.strip_suffix(suffix)).filter(is_number) else {
            return;
        };
        let length = digits.len() as u32;
        let Some(number) = digits.parse::<u64>().ok().filter(|_| length <= PART_DIGITS_MAX) else {
            self.fault = self.fault.or(Some(("a number has more than 10 digits", 0)));
            return;
        };
        if digits.starts_with('0') {
            if self.digits.is_some_and(|known| known != length) {
                self.fault =
                    self.fault.or(Some(("numbers have zeros in front to two lengths", number)));
            }
            self.digits = Some(length);
        } else {
            self.shortest = self.shortest.min(length);
        }
        let Some(number) = number.checked_sub(u64::from(first)) else {
            self.fault = self.fault.or(Some(("a file lies before the first one", number)));
            return;
        };
        match self.seen.get_mut(index(number / 8)) {
            None => self.beyond = Some(self.beyond.map_or(number, |least| least.min(number))),
            Some(byte) => {
                let bit = 1 << (number % 8);
                if *byte & bit != 0 {
                    let number = number + u64::from(first);
                    self.fault = self
                        .fault
                        .or(Some(("a number is there twice, spelled in two ways", number)));
                }
                self.count += u64::from(*byte & bit == 0);
                *byte |= bit;
            }
        }
    }

    /// Digits of a number at least.
    pub fn digits(&self) -> u32 {
        self.digits.unwrap_or(1)
    }

    /// Files that there are bits for.
    pub fn room(&self) -> u64 {
        self.seen.len() as u64 * 8
    }

    fn is_seen(&self, number: u64) -> bool {
        self.seen[index(number / 8)] & (1 << (number % 8)) != 0
    }

    /// Whether it has more files than there are bits.
    pub fn is_short_of_bits(&self) -> bool {
        self.beyond.is_some() && self.count == self.room()
    }

    /// The sequence, if there are no more files than `most`; `uri` is that of all of them.
    pub fn finish(&self, uri: &str, most: u32, why: &mut Why) -> Result<Sequence, Status> {
        let shown = Tail(uri, SHOWN_BYTES);
        if let Some((fault, number)) = self.fault {
            return Err(fail!(why, Decode, "{shown}: {fault}: {number}"));
        }
        if self.count == 0 && self.beyond.is_none() {
            return Err(fail!(why, NotFound, "{shown}: there is no such file"));
        }
        let whole = (0..self.room()).take_while(|number| self.is_seen(*number)).count() as u64;
        if whole < self.count || self.beyond.is_some() && !self.is_short_of_bits() {
            let (mut end, mut path) = (Text::<512>::new(), Text::<512>::new());
            write!(end, "{shown}");
            write_numbered(end.as_str(), whole as u32, self.digits(), &mut path);
            let text = "is not there, but files with higher numbers are";
            let least = (0..self.room()).find(|number| self.is_seen(*number)).or(self.beyond);
            return Err(match least.filter(|_| whole == 0 && uri.ends_with(ENDING)) {
                Some(least) => {
                    let way =
                        format_args!("if {least} is the first, name them {end}#{FIRST}{least}");
                    fail!(why, NotFound, "{path}: {text}: {way}")
                }
                None => fail!(why, NotFound, "{path}: {text}"),
            });
        }
        if self.is_short_of_bits() || whole > u64::from(most) {
            let files = if self.beyond.is_some() { "more than " } else { "" };
            return Err(fail!(
                why,
                Budget,
                "{shown}: {files}{whole} files, max_npy_files = {most}: raise it"
            ));
        }
        // The first is there, and spelled as all numbers of that length or less.
        let digits = self.digits();
        if self.shortest < digits {
            let text = "numbers have no zeros in front, but others of that length do";
            return Err(fail!(why, Decode, "{shown}: {text}"));
        }
        Ok(Sequence { count: whole as u32, digits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn sequence(names: &[String], most: u32) -> Result<Sequence, (Status, String)> {
        let (mut seen, mut why) = ([0xff; 128], Why::new());
        let mut numbered = Numbered::new(Pattern::of("/d/s_*.npy").unwrap(), &mut seen);
        names.iter().for_each(|name| numbered.add(name.as_bytes()));
        let found = numbered.finish("/d/s_*.npy", most, &mut why);
        found.map_err(|status| (status, why.to_string()))
    }

    fn names(numbers: impl IntoIterator<Item = u32>, digits: usize) -> Vec<String> {
        numbers.into_iter().map(|number| format!("s_{number:0digits$}.npy")).collect()
    }

    #[test]
    fn a_uri_names_a_folder_and_what_stands_before_the_number() {
        for (uri, folder, prefix, suffix, first) in [
            ("/d/s_*.npy", "/d", "s_", ".npy", 0),
            ("*.npy", ".", "", ".npy", 0),
            ("/*.npy", "/", "", ".npy", 0),
            ("/d#1/s_*_img.npy", "/d#1", "s_", "_img.npy", 0),
            ("/d*/s_*.npy#first=12", "/d*", "s_", ".npy", 12),
        ] {
            let pattern = Pattern { folder, prefix, suffix, first };
            assert_eq!(Pattern::of(uri), Some(pattern), "{uri}");
        }
        for uri in [
            "/d/s_.npy",
            "/d/s_*",
            "/d/*_*.npy",
            "/d/*/s.npy",
            "/d/s_*.npy#first=",
            "/d/s_*.npy#first=-1",
            "/d/s_*.npy#first=99999999999",
            "/d/s_*.npy#level=1",
        ] {
            assert_eq!(Pattern::of(uri), None, "{uri}");
        }
        let mut path = Text::<64>::new();
        write_numbered("/d/s_*.npy", 12, 4, &mut path);
        assert_eq!(path.as_str(), "/d/s_0012.npy");
        path.clear();
        write_numbered("*.npy", 12345, 4, &mut path);
        assert_eq!(path.as_str(), "12345.npy");
        path.clear();
        write_numbered("/d/s_*_img.npy#first=3", 9, 4, &mut path);
        assert_eq!(path.as_str(), "/d/s_0012_img.npy");
    }

    #[test]
    fn a_sequence_may_begin_anywhere_if_the_uri_says_so() {
        let find = |uri: &str, numbers: &[u32]| {
            let (mut seen, mut why) = ([0; 2], Why::new());
            let mut numbered = Numbered::new(Pattern::of(uri).unwrap(), &mut seen);
            let names = numbers.iter().map(|number| format!("s_{number:03}.npy"));
            names.for_each(|name| numbered.add(name.as_bytes()));
            numbered.finish(uri, 8, &mut why).map_err(|_| why.to_string())
        };
        let count = |count| Ok(Sequence { count, digits: 3 });
        assert_eq!(find("/d/s_*.npy#first=1", &[3, 1, 2]), count(3));
        assert_eq!(find("/d/s_*.npy#first=200", &[200, 201]), Ok(Sequence { count: 2, digits: 1 }));
        assert_eq!(find("/d/s_*.npy#first=0", &[0, 1]), count(2));
        for (uri, numbers, text) in [
            ("/d/s_*.npy", &[1, 2][..], "if 1 is the first, name them /d/s_*.npy#first=1"),
            ("/d/s_*.npy", &[99], "if 99 is the first, name them /d/s_*.npy#first=99"),
            ("/d/s_*.npy#first=1", &[2, 3], "/d/s_001.npy: is not there, but files with higher"),
            ("/d/s_*.npy#first=1", &[1, 3], "/d/s_002.npy: is not there, but files with higher"),
            (
                "/d/s_*.npy#first=0",
                &[1],
                "/d/s_000.npy: is not there, but files with higher numbers are",
            ),
            ("/d/s_*.npy#first=1", &[0, 1], "a file lies before the first one: 0"),
            ("/d/s_*.npy#first=1", &[1, 2, 3, 4, 5, 6, 7, 8, 9], "9 files, max_npy_files = 8"),
        ] {
            let refused = find(uri, numbers).unwrap_err();
            assert!(refused.contains(text), "{refused}");
            assert!(refused.matches(FIRST).count() <= 1, "{refused}");
        }
    }

    #[test]
    fn numbers_in_any_order_may_outgrow_their_digits() {
        for (digits, count) in [(4, 1), (4, 20), (1, 120), (2, 1000), (10, 3)] {
            let mut list = names((0..count).rev(), digits);
            let others = ["s_.npy", "s_0.npz", "t_0.npy", "s_0", "x.json", "s_1.npy.bak"];
            list.extend(others.map(String::from));
            let digits = digits as u32;
            assert_eq!(sequence(&list, 1024), Ok(Sequence { count, digits }));
        }
    }

    #[test]
    fn digits_before_the_star_are_none_of_the_number() {
        let (mut seen, mut why) = ([0; 8], Why::new());
        let mut numbered = Numbered::new(Pattern::of("/d/s1*.npy").unwrap(), &mut seen);
        ["s10.npy", "s1.npy", "s11.npy", "s2.npy", "s1_0.npy"]
            .iter()
            .for_each(|name| numbered.add(name.as_bytes()));
        let found = numbered.finish("/d/s1*.npy", 8, &mut why);
        assert_eq!(found, Ok(Sequence { count: 2, digits: 1 }), "{why}");
    }

    #[test]
    fn a_hole_a_double_and_another_spelling_are_refused() {
        let hole = |missing: u32| names((0..20).filter(|number| *number != missing), 4);
        let with = |name: &str| [names(0..20, 4), [name.into()].into()].concat();
        for (list, status, text) in [
            (hole(0), Status::NotFound, "/d/s_0000.npy: is not there"),
            (hole(7), Status::NotFound, "/d/s_0007.npy: is not there"),
            (with("s_0021.npy"), Status::NotFound, "/d/s_0020.npy: is not there"),
            (with("s_999999.npy"), Status::NotFound, "/d/s_0020.npy: is not there"),
            (with("s_7.npy"), Status::Decode, "twice, spelled in two ways: 7"),
            (with("s_00020.npy"), Status::Decode, "zeros in front to two lengths: 20"),
            (with("s_20.npy"), Status::Decode, "no zeros in front"),
            (with("s_00000000020.npy"), Status::Decode, "more than 10 digits"),
            (names(0..20, 4).into_iter().take(0).collect(), Status::NotFound, "no such file"),
            (names(0..31, 4), Status::Budget, "31 files, max_npy_files = 30: raise it"),
            (
                names(0..1025, 4),
                Status::Budget,
                "more than 1024 files, max_npy_files = 30: raise it",
            ),
        ] {
            let refused = sequence(&list, 30).expect_err(text);
            assert_eq!(refused.0, status, "{}", refused.1);
            assert!(refused.1.contains(text) && refused.1.starts_with("/d/s_"), "{}", refused.1);
        }
    }

    #[test]
    fn a_folder_of_two_sequences_has_to_be_told_which() {
        let find = |names: &[&str]| {
            let (mut finder, mut why) = (PrefixFinder::new(), Why::new());
            names.iter().for_each(|name| finder.add(name.as_bytes()));
            let found = finder.finish("/d", &mut why).map(|found| found.map(ToString::to_string));
            found.map_err(|status| (status, why.to_string()))
        };
        assert_eq!(find(&["a.npy", "b.json", "7"]), Ok(None));
        assert_eq!(find(&["a_1.npy", "b.npy", "a_0.npy"]), Ok(Some("a_".into())));
        assert_eq!(find(&["._a_1.npy", ".DS_Store", "a_1.npy", ".b_0.npy"]), Ok(Some("a_".into())));
        assert_eq!(find(&["0.npy"]), Ok(Some(String::new())));
        let (status, text) = find(&["b1.npy", "a1.npy", "c1.npy"]).unwrap_err();
        assert_eq!(status, Status::Invalid);
        assert!(text.contains("a*.npy and b*.npy: name one of them"), "{text}");
    }
}
