//! Files in which the system describes itself, of /proc and /sys, read line by line.
//!
//! In: paths. Out: lines, and the numbers in them. Invariant: whatever a file holds, so many bytes
//! are read at most, in a buffer of one size; a line that does not fit in it is left out.

use crate::base::cpus::CpuSet;
use crate::os::{Errno, Os, close, open_with, read, uninterrupted};

/// Bytes of the longest line that is looked at, with its end.
const LINE_BYTES: usize = 4096;

/// Bytes that are read of a file at most: a list of mounts has some megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Shows the lines of a file to `is_last`, which ends that by true. `path` ends with a NUL. A file
/// that cannot be read has no lines.
#[inline(never)] // one buffer on the stack for all readers
pub fn each_line(os: &Os, path: &[u8], is_last: &mut dyn FnMut(&str) -> bool) {
    let mut bytes = [0; LINE_BYTES];
    let (mut offset, mut kept, mut is_long) = (0, 0, false);
    let mut ends = |line: &[u8], is_long: bool| {
        !is_long && core::str::from_utf8(line).is_ok_and(&mut *is_last)
    };
    while offset < FILE_BYTES_MAX {
        let Some(room) = bytes.get_mut(kept..) else { return };
        let got = uninterrupted(|| (os.read_system)(path, &mut *room, offset)).unwrap_or(0);
        let Some(mut rest) = bytes.get(..kept + got) else { return };
        if got == 0 {
            ends(rest, is_long || rest.is_empty());
            return;
        }
        offset += got as u64;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            if ends(line, is_long) {
                return;
            }
            (rest, is_long) = (after.get(1..).unwrap_or(&[]), false);
        }
        // The rest is the beginning of a line, with room after it or without.
        is_long |= rest.len() == LINE_BYTES;
        let first = kept + got - rest.len();
        bytes.copy_within(first..kept + got, 0);
        kept = if is_long { 0 } else { kept + got - first };
    }
}

/// The set that a file's first line lists; None if it lists none. A line of nothing is no list.
pub fn list(os: &Os, path: &[u8]) -> Option<CpuSet> {
    let mut found = None;
    each_line(os, path, &mut |line| {
        found = CpuSet::from_list(line);
        true
    });
    found
}

/// The first words of a file's first line, if they are numbers.
pub fn numbers<const N: usize>(os: &Os, path: &[u8]) -> [Option<u64>; N] {
    figures(os, path, "")
}

/// The numbers that stand after these words, which a blank parts, each at the beginning of a line:
/// "anon 4096".
pub fn figures<const N: usize>(os: &Os, path: &[u8], names: &str) -> [Option<u64>; N] {
    let mut found = [None; N];
    find_figures(os, path, names, &mut found);
    found
}

#[inline(never)] // one of it, for any number of names
fn find_figures(os: &Os, path: &[u8], names: &str, found: &mut [Option<u64>]) {
    each_line(os, path, &mut |line| {
        let is_first = names.is_empty();
        let mut words = line.split_ascii_whitespace();
        let name = if is_first { None } else { words.next() };
        let at = names.split(' ').position(|one| is_first || name == Some(one));
        let places = at.and_then(|at| found.get_mut(at..)).unwrap_or(&mut []);
        let count = if is_first { places.len() } else { 1 };
        for (place, word) in places.iter_mut().zip(words).take(count) {
            *place = word.parse().ok();
        }
        is_first
    });
}

/// Reads a part of a file of the system.
pub(super) fn read_system(path: &[u8], target: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let fd = open_with(path, 0)?;
    let got = read(fd, target, offset, false);
    close(fd);
    got
}
