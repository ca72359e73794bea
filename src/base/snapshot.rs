//! Metadata that was looked up before, by another loader or on another machine.
//!
//! In: records, one after the other, each of a file: its path, its version, and parts of it that
//! somebody read. Out: such a part in place of a read of it, as long as the file is of that
//! version. Invariant: a record that is not whole is never used.
//!
//! ```text
//!   record   magic, bytes of the record, the five words of the version, bytes of the path (each a
//!            little-endian u64), the path, its parts
//!   part     offset in the file, bytes (u64), the bytes
//! ```
//!
//! Paths and parts are filled up with zeros to eight bytes.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::hash_bytes;
use crate::base::limits::PATH_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::fail;

const MAGIC: u64 = u64::from_le_bytes(*b"wtmeta01");
/// Words before the path.
const HEAD_WORDS: usize = 8;
const WORD: usize = size_of::<u64>();
/// Bytes of a part before those of the file.
const PART_HEAD_BYTES: usize = 2 * WORD;

/// Places that are looked at for a path. Paths whose hashes are alike cost no more than that; one
/// that finds none of them free is not known.
const PROBES_MAX: usize = 256;

/// The record of a file.
struct Record<'a> {
    path: &'a [u8],
    version: Version,
    /// All of it after the path.
    parts: &'a [u8],
}

/// Takes whole words off the front.
fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let padded = count.checked_next_multiple_of(WORD as u64)?;
    let (taken, rest) = bytes.split_at_checked(usize::try_from(padded).ok()?)?;
    *bytes = rest;
    taken.get(..usize::try_from(count).ok()?)
}

fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*word))
}

/// Takes a record off the front, if one is whole.
fn take_record<'a>(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
    let mut rest = *bytes;
    let mut head = [0; HEAD_WORDS];
    for word in &mut head {
        *word = take_word(&mut rest)?;
    }
    let [magic, record_bytes, device, inode, size, modified, tag, path_bytes] = head;
    let after_head = record_bytes.checked_sub((HEAD_WORDS * WORD) as u64)?;
    if magic != MAGIC || after_head % WORD as u64 != 0 {
        return None;
    }
    let mut parts = take(&mut rest, after_head)?;
    let path = take(&mut parts, path_bytes)?;
    *bytes = rest;
    let version = Version { device, inode, bytes: size, modified_ns: modified as i64, tag };
    Some(Record { path, version, parts })
}

/// Takes a part off the front: its offset in the file, and its bytes.
fn take_part<'a>(parts: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let (offset, bytes) = (take_word(parts)?, take_word(parts)?);
    Some((offset, take(parts, bytes)?))
}

impl Record<'_> {
    fn is_sound(&self) -> bool {
        let is_path = (1..=PATH_BYTES_MAX).contains(&self.path.len()) && !self.path.contains(&0);
        let mut parts = self.parts;
        // Ends: each turn takes bytes off.
        while !parts.is_empty() {
            if take_part(&mut parts).is_none() {
                return false;
            }
        }
        is_path
    }
}

/// Counts the records. INVALID: these are no records from the first byte to the last.
pub fn count(bytes: &[u8], why: &mut Why) -> Result<u32, Status> {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        if !take_record(&mut rest).is_some_and(|record| record.is_sound()) {
            let text = "give what wavetrain_metadata wrote, all of it";
            return Err(fail!(why, Invalid, "metadata: byte {at} does not begin a record: {text}"));
        }
        count += 1;
    }
    Ok(count)
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    bytes: &'a [u8],
    /// Places of records, in words from 1 on, in the order of the hashes of their paths; 0: none.
    /// Without any, records are looked through.
    places: &'a [u32],
}

impl<'a> Snapshot<'a> {
    /// Nothing was looked up before.
    pub const NONE: Snapshot<'static> = Snapshot { bytes: &[], places: &[] };

    /// Records for a few looks, which were counted before.
    pub const fn of(bytes: &'a [u8]) -> Snapshot<'a> {
        Snapshot { bytes, places: &[] }
    }

    /// Records to be found, which were counted before.
    pub fn carve(carver: &mut Carver, bytes: &'a [u8], count: u32) -> Snapshot<'a> {
        let room = if count == 0 { 0 } else { (2 * u64::from(count)).next_power_of_two() };
        let places = carver.slice(Item::ArrayMetadata, room, &0);
        let mut rest = bytes;
        while !places.is_empty() {
            let at = (bytes.len() - rest.len()) / WORD;
            let Some(record) = take_record(&mut rest) else { break };
            // The first record of a file counts.
            if let Some((place, None)) = find(bytes, places, record.path)
                && let Some(place) = places.get_mut(place)
            {
                *place = at as u32 + 1;
            }
        }
        Snapshot { bytes, places }
    }

    fn record(&self, path: &[u8]) -> Option<Record<'a>> {
        let mut rest = self.bytes;
        if self.places.is_empty() {
            // Ends: each turn takes a record off, or there is none.
            return core::iter::from_fn(|| take_record(&mut rest))
                .find(|record| record.path == path);
        }
        find(self.bytes, self.places, path)?.1
    }

    /// Whether anything is known of a file.
    pub fn knows(&self, path: &[u8]) -> bool {
        self.record(path).is_some()
    }

    /// Whether a file is of another version now than the one that is known; false if none is.
    /// `on_disk`: numbers of devices and inodes are those of one machine, and are not compared.
    pub fn has_changed(&self, path: &[u8], now: Version, on_disk: bool) -> bool {
        self.record(path).is_some_and(|Record { version: before, .. }| match on_disk {
            true => (before.bytes, before.modified_ns) != (now.bytes, now.modified_ns),
            false => before != now,
        })
    }

    /// The bytes of a file from an offset on, as many as are asked for, if all are known.
    pub fn bytes(&self, path: &[u8], offset: u64, count: usize) -> Option<&'a [u8]> {
        let mut parts = self.record(path)?.parts;
        // Ends: each turn takes bytes off.
        while let Some((first, bytes)) = take_part(&mut parts) {
            let known = offset.checked_sub(first).and_then(|at| usize::try_from(at).ok());
            let known = known.and_then(|at| bytes.get(at..)?.get(..count));
            if known.is_some() {
                return known;
            }
        }
        None
    }
}

/// The place of a path, and its record, or the place where that would be.
fn find<'a>(bytes: &'a [u8], places: &[u32], path: &[u8]) -> Option<(usize, Option<Record<'a>>)> {
    let first = hash_bytes(path) as usize;
    for step in 0..PROBES_MAX.min(places.len()) {
        let place = first.wrapping_add(step) & (places.len() - 1);
        let Some(at) = places.get(place)?.checked_sub(1) else { return Some((place, None)) };
        let record = take_record(&mut bytes.get(at as usize * WORD..)?)?;
        if record.path == path {
            return Some((place, Some(record)));
        }
    }
    None
}

/// Writes records.
#[derive(Default)]
pub struct SnapshotWriter<'a> {
    target: &'a mut [u8],
    used: usize,
    /// First byte of the last record.
    last: usize,
    /// First byte of the last part, if the record has any.
    last_part: Option<usize>,
}

/// There is no room for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl<'a> SnapshotWriter<'a> {
    /// A writer to the start of `target`.
    pub fn new(target: &'a mut [u8]) -> SnapshotWriter<'a> {
        SnapshotWriter { target, used: 0, last: 0, last_part: None }
    }

    /// Bytes that were written.
    pub fn used(&self) -> usize {
        self.used
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let limit = (self.used + bytes.len()).next_multiple_of(WORD);
        let room = self.target.get_mut(self.used..limit).ok_or(Full)?;
        let (start, rest) = room.split_at_mut_checked(bytes.len()).ok_or(Full)?;
        start.copy_from_slice(bytes);
        rest.fill(0);
        self.used = limit;
        Ok(())
    }

    fn set_word(&mut self, at: usize, word: u64) {
        let place = self.target.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
        place.into_iter().for_each(|place| *place = word.to_le_bytes());
    }

    /// Notes a file and its version; parts of it follow.
    pub fn file(&mut self, path: &[u8], version: Version) -> Result<(), Full> {
        let mut last = self.target.get(self.last..self.used).unwrap_or(&[]);
        let is_last = take_record(&mut last)
            .is_some_and(|record| record.path == path && record.version == version);
        if is_last {
            return Ok(());
        }
        let Version { device, inode, bytes, modified_ns, tag } = version;
        let words = [MAGIC, 0, device, inode, bytes, modified_ns as u64, tag, path.len() as u64];
        let before = self.used;
        let written = words.iter().try_for_each(|word| self.push(&word.to_le_bytes()));
        written.and_then(|()| self.push(path)).inspect_err(|_| self.used = before)?;
        (self.last, self.last_part) = (before, None);
        self.end_record();
        Ok(())
    }

    fn end_record(&mut self) {
        self.set_word(self.last + WORD, (self.used - self.last) as u64);
    }

    /// Notes bytes of the file that was noted last. Those that follow the last ones join them.
    pub fn part(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Full> {
        let before = self.used;
        if let Some((at, length)) = self.end_of_part(offset) {
            // The zeros that filled up the last part are written over.
            self.used = at + PART_HEAD_BYTES + length;
            let joined = (length + bytes.len()) as u64;
            self.push(bytes).inspect_err(|_| self.used = before)?;
            self.set_word(at + WORD, joined);
            self.end_record();
            return Ok(());
        }
        let head = [offset, bytes.len() as u64];
        let written = head.iter().try_for_each(|word| self.push(&word.to_le_bytes()));
        written.and_then(|()| self.push(bytes)).inspect_err(|_| self.used = before)?;
        self.last_part = Some(before);
        self.end_record();
        Ok(())
    }

    /// First byte of the last part, and its bytes, if it ends at this offset of the file.
    fn end_of_part(&self, offset: u64) -> Option<(usize, usize)> {
        let at = self.last_part?;
        let (first, bytes) = take_part(&mut self.target.get(at..self.used)?)?;
        (first + bytes.len() as u64 == offset).then_some((at, bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const OLD: Version = Version { device: 1, inode: 2, bytes: 30, modified_ns: 4, tag: 0 };

    fn written() -> Vec<u8> {
        let mut room = [0xEE; 600];
        let mut writer = SnapshotWriter::new(&mut room);
        writer.file(b"/a/zarr.json", OLD).unwrap();
        writer.part(0, b"abcdefghijk").unwrap();
        writer.file(b"/a/zarr.json", OLD).unwrap();
        writer.part(20, b"xyz").unwrap();
        writer.file(b"/raw", Version { bytes: 7, ..OLD }).unwrap();
        let used = writer.used();
        room[..used].to_vec()
    }

    fn snapshot(bytes: &[u8]) -> Snapshot<'static> {
        let count = count(bytes, &mut Why::new()).unwrap();
        Snapshot::carve(&mut Carver::leaked(1 << 14), bytes.to_vec().leak(), count)
    }

    #[test]
    fn what_was_noted_is_found_by_path_and_place() {
        let snapshot = snapshot(&written());
        let of = b"/a/zarr.json";
        assert_eq!(snapshot.bytes(of, 0, 11), Some(&b"abcdefghijk"[..]));
        assert_eq!(snapshot.bytes(of, 3, 2), Some(&b"de"[..]));
        assert_eq!(snapshot.bytes(of, 20, 3), Some(&b"xyz"[..]));
        for (offset, count) in [(0, 12), (11, 1), (19, 2), (20, 4), (u64::MAX, 1)] {
            assert_eq!(snapshot.bytes(of, offset, count), None, "{offset} {count}");
        }
        assert!(snapshot.knows(of) && snapshot.knows(b"/raw"));
        assert!(!snapshot.knows(b"/a"));
        assert_eq!(snapshot.bytes(b"/a", 0, 1), None);
    }

    #[test]
    fn a_file_of_another_version_is_refused_and_a_file_without_a_record_is_not() {
        let snapshot = snapshot(&written());
        let of = b"/a/zarr.json";
        let moved = Version { device: 9, inode: 8, ..OLD };
        assert!(!snapshot.has_changed(of, OLD, false));
        assert!(!snapshot.has_changed(of, moved, true));
        assert!(snapshot.has_changed(of, moved, false));
        for other in [Version { bytes: 31, ..OLD }, Version { modified_ns: 5, ..OLD }] {
            assert!(snapshot.has_changed(of, other, true));
        }
        assert!(!snapshot.has_changed(b"/b", OLD, false));
    }

    #[test]
    fn records_of_several_writers_follow_each_other() {
        let mut bytes = written();
        for number in 0..300 {
            let mut room = [0; 200];
            let mut writer = SnapshotWriter::new(&mut room);
            let name = std::format!("/c/{number}");
            writer.file(name.as_bytes(), Version { bytes: number, ..OLD }).unwrap();
            writer.part(number, &[number as u8; 5]).unwrap();
            let used = writer.used();
            bytes.extend(&room[..used]);
        }
        let snapshot = snapshot(&bytes);
        for number in 0..300 {
            let of = std::format!("/c/{number}");
            let of = of.as_bytes();
            assert_eq!(snapshot.bytes(of, number, 5), Some(&[number as u8; 5][..]));
            assert!(!snapshot.has_changed(of, Version { bytes: number, ..OLD }, false));
        }
        assert_eq!(snapshot.bytes(b"/raw", 0, 1), None);
    }

    #[test]
    fn parts_that_follow_each_other_join() {
        let mut room = [0xEE; 200];
        let mut writer = SnapshotWriter::new(&mut room);
        writer.file(b"/s", OLD).unwrap();
        for (offset, bytes) in
            [(5, &b"abc"[..]), (8, b""), (8, b"defghijk"), (16, b"l"), (18, b"n")]
        {
            writer.part(offset, bytes).unwrap();
        }
        let used = writer.used();
        let snapshot = snapshot(&room[..used]);
        assert_eq!(snapshot.bytes(b"/s", 5, 12), Some(&b"abcdefghijkl"[..]));
        assert_eq!(snapshot.bytes(b"/s", 18, 1), Some(&b"n"[..]));
        assert_eq!(snapshot.bytes(b"/s", 16, 2), None);
    }

    #[test]
    fn a_writer_without_room_keeps_whole_records() {
        let whole = written();
        for bytes in 0..whole.len() {
            let mut room = std::vec![0; bytes];
            let mut writer = SnapshotWriter::new(&mut room);
            let mut write = || {
                writer.file(b"/a/zarr.json", OLD)?;
                writer.part(0, b"abcdefghijk")?;
                writer.part(20, b"xyz")?;
                writer.file(b"/raw", Version { bytes: 7, ..OLD })
            };
            assert_eq!(write(), Err(Full), "{bytes}");
            let used = writer.used();
            assert!(count(&room[..used], &mut Why::new()).is_ok(), "{bytes}");
        }
    }

    #[test]
    fn bytes_that_are_no_records_are_refused() {
        let whole = written();
        for bytes in 1..whole.len() {
            let mut why = Why::new();
            if count(&whole[..bytes], &mut why).is_err() {
                assert!(why.to_string().contains("does not begin a record"), "{why}");
            }
        }
        assert!(count(&[0; 64], &mut Why::new()).is_err());
        // No change of a byte makes a reader leave the bytes, or turn for ever.
        for at in 0..whole.len() {
            for mask in [1, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] ^= mask;
                let Ok(count) = count(&bytes, &mut Why::new()) else { continue };
                let snapshot = Snapshot::carve(&mut Carver::leaked(1 << 14), bytes.leak(), count);
                snapshot.bytes(b"/a/zarr.json", 20, 3);
            }
        }
    }
}
