//! Directories of zip archives, read without I/O of their own.
//!
//! In: the size of an archive and some of its bytes. Out: its entries, or which bytes are wanted
//! next. The format itself is read by `rawzip`; here stand the rules on top of it: of two entries
//! of one name the directory's last counts, and what can be wrong with an entry is found before its
//! bytes are handed on. Input is hostile: every number of it is checked before it is used.

use crate::cache::Cost;
use crate::error::{Error, Result};
use crate::version::Meta;
use bytes::Bytes;
use rawzip::{CompressionMethod, ReaderAt, ZipFileHeaderRecord, ZipLocator};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The end of an archive that is read first: its end record, a comment, and small directories.
pub const TAIL_BYTES: u64 = 256 << 10;
/// Bytes of the fixed part of an entry's header before its data.
pub const HEADER_BYTES: u64 = 30;
/// Most bytes of a name, and so of what is read of a directory at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// Entries of which a directory may have most; more are refused, because each takes memory.
const ENTRIES_MAX: usize = 1 << 24;

/// How the bytes of an entry are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Stored,
    /// By deflate.
    Deflated,
}

/// An entry of an archive.
#[derive(Debug)]
pub struct Entry {
    /// Place of the header before the data.
    pub header_at: u64,
    /// Begin of the next header or of the directory: the entry has no bytes from there on.
    pub limit: u64,
    /// Bytes in the archive.
    pub packed: u64,
    /// Bytes of the file.
    pub size: u64,
    /// CRC-32 of the file.
    pub crc: u32,
    /// Bytes of the name.
    pub name_bytes: u64,
    method: u16,
    flags: u16,
    /// Place of the data; 0 until the header was read. All who write it write the same.
    data_at: AtomicU64,
}

/// The entries of an archive.
#[derive(Debug)]
pub struct Directory {
    /// Size and version of the archive.
    pub meta: Meta,
    /// Entries by name, folders left out.
    pub entries: BTreeMap<String, Entry>,
    bytes: u64,
}

impl Cost for Directory {
    fn cost(&self) -> u64 {
        self.bytes
    }
}

/// Flags of an entry whose bytes are encrypted in one way or another.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

impl Entry {
    /// How the bytes are kept; a failure for what cannot be read.
    pub fn packing(&self, shown: &str) -> Result<Packing> {
        if self.flags & ENCRYPTED != 0 {
            return Err(Error::failed(format!("{shown}: the entry is encrypted")));
        }
        match CompressionMethod::from(self.method) {
            CompressionMethod::STORE if self.packed == self.size => Ok(Packing::Stored),
            CompressionMethod::STORE => {
                let (packed, size) = (self.packed, self.size);
                Err(Error::failed(format!(
                    "{shown}: a stored entry of {size} bytes has {packed} in the archive"
                )))
            }
            CompressionMethod::DEFLATE => Ok(Packing::Deflated),
            other => Err(Error::failed(format!(
                "{shown}: compression method {} ({other}) is not read; store or deflate it",
                self.method
            ))),
        }
    }

    /// Place of the data, if the header was read before.
    pub fn data_at(&self) -> Option<u64> {
        Some(self.data_at.load(Relaxed)).filter(|at| *at != 0)
    }

    /// Finds the data by the bytes of the header, which begin at `header_at`.
    pub fn find_data(&self, header: &[u8], shown: &str) -> Result<u64> {
        let broken = || Error::failed(format!("{shown}: the header of the entry is broken"));
        let fixed = header.get(..HEADER_BYTES as usize).ok_or_else(broken)?;
        if !fixed.starts_with(b"PK\x03\x04") {
            return Err(broken());
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        let at = self.header_at + HEADER_BYTES + length(26) + length(28);
        if at.checked_add(self.packed).is_none_or(|end| end > self.limit) {
            return Err(Error::failed(format!(
                "{shown}: the entry reaches into what follows it in the archive"
            )));
        }
        self.data_at.store(at, Relaxed);
        Ok(at)
    }
}

/// Parts of an archive that were read.
pub struct Parts {
    size: u64,
    parts: Vec<(u64, Bytes)>,
    wanted: Cell<Option<u64>>,
}

/// The result of an attempt to read a directory.
pub enum Step {
    /// All of it was there.
    Done(Directory),
    /// Bytes from here on are wanted.
    Wants(u64),
}

impl Parts {
    /// Nothing was read of an archive of that size.
    pub fn new(size: u64) -> Self {
        Self { size, parts: Vec::new(), wanted: Cell::new(None) }
    }

    /// Bytes of the archive from `at` on.
    pub fn add(&mut self, at: u64, bytes: Bytes) {
        self.parts.push((at, bytes));
        self.wanted.set(None);
    }

    /// Begin of the next part that was read, or the end of the archive.
    pub fn next_part(&self, at: u64) -> u64 {
        let begins = self.parts.iter().map(|(begin, _)| *begin);
        begins.filter(|begin| *begin > at).min().unwrap_or(self.size)
    }

    /// Reads the directory as far as the parts reach.
    pub fn directory(&self, meta: &Meta, shown: &str) -> Result<Step> {
        let read = self.entries(shown);
        // A part that lacks is met as an error, which means nothing then.
        if let Some(at) = self.wanted.get() {
            return Ok(Step::Wants(at));
        }
        let (entries, limit) = read?;
        Ok(Step::Done(finish(entries, limit, meta)))
    }

    fn entries(&self, shown: &str) -> Result<(BTreeMap<String, Entry>, u64)> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::failed(format!("{shown}: this is no zip archive that can be read: {error}"))
        };
        let mut buffer = vec![0; BUFFER_BYTES];
        let archive = ZipLocator::new()
            .locate_in_reader(self, &mut buffer, self.size)
            .map_err(|(_, error)| broken(&error))?;
        let mut entries = BTreeMap::new();
        let mut count: u64 = 0;
        let mut records = archive.entries(&mut buffer);
        while let Some(record) = records.next_entry().map_err(|error| broken(&error))? {
            count += 1;
            if let Some((name, entry)) = entry_of(&record, self.size) {
                entries.insert(name, entry);
            }
            if entries.len() > ENTRIES_MAX {
                return Err(broken(&format!("it has more than {ENTRIES_MAX} entries")));
            }
        }
        // Writers without zip64 count modulo 65536.
        let hint = archive.entries_hint();
        if hint != count && (hint > 0xFFFF || hint != count & 0xFFFF) {
            return Err(broken(&format!("it has {count} entries, its end record says {hint}")));
        }
        Ok((entries, archive.directory_offset()))
    }
}

impl ReaderAt for &Parts {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        for (begin, bytes) in &self.parts {
            let Some(skip) = offset.checked_sub(*begin) else { continue };
            if skip < bytes.len() as u64 {
                let rest = &bytes[skip as usize..];
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                return Ok(count);
            }
        }
        // The first that lacks counts: what is met after it follows from it.
        if self.wanted.get().is_none() {
            self.wanted.set(Some(offset));
        }
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }
}

/// Name and entry of a record; nothing for folders, and for names that no caller can ask for.
fn entry_of(record: &ZipFileHeaderRecord<'_>, size: u64) -> Option<(String, Entry)> {
    let path = record.file_path();
    let name = std::str::from_utf8(path.as_bytes()).ok()?;
    if name.is_empty() || name.ends_with('/') {
        return None;
    }
    let entry = Entry {
        header_at: record.local_header_offset(),
        limit: size,
        packed: record.compressed_size_hint(),
        size: record.uncompressed_size_hint(),
        crc: record.crc32(),
        name_bytes: name.len() as u64,
        method: record.compression_method().as_u16(),
        flags: record.flags().bits(),
        data_at: AtomicU64::new(0),
    };
    Some((name.to_owned(), entry))
}

/// Sets the limit of each entry, and counts bytes.
fn finish(mut entries: BTreeMap<String, Entry>, directory_at: u64, meta: &Meta) -> Directory {
    let mut begins: Vec<u64> = entries.values().map(|entry| entry.header_at).collect();
    begins.push(directory_at);
    begins.sort_unstable();
    let mut bytes = 0;
    for (name, entry) in &mut entries {
        let next = begins.partition_point(|begin| *begin <= entry.header_at);
        entry.limit = begins.get(next).copied().unwrap_or(meta.size).min(meta.size);
        // A node of the tree is counted with the entry.
        bytes += (name.len() + size_of::<String>() + 2 * size_of::<Entry>()) as u64;
    }
    Directory { meta: meta.clone(), entries, bytes }
}

impl Directory {
    /// The children of a folder, and whether each is a folder; the root is "". Each comes once.
    pub fn list(&self, folder: &str) -> Vec<(String, bool)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut children: Vec<(String, bool)> = Vec::new();
        for (name, _) in self.entries.range(prefix.clone()..) {
            let Some(rest) = name.strip_prefix(&prefix) else { break };
            let (child, is_folder) = match rest.split_once('/') {
                Some((child, _)) => (child, true),
                None => (rest, false),
            };
            if child.is_empty() || children.last().is_some_and(|last| last.0 == child && is_folder)
            {
                continue;
            }
            children.push((child.to_owned(), is_folder));
        }
        children
    }
}

/// Inflates all of an entry and checks its size and CRC.
pub fn inflate(packed: &[u8], entry: &Entry, shown: &str) -> Result<Vec<u8>> {
    let mut bytes = vec![0; entry.size as usize];
    let mut inflate = zlib_rs::Inflate::new(false, 15);
    let status = inflate
        .decompress(packed, &mut bytes, zlib_rs::InflateFlush::Finish)
        .map_err(|error| Error::failed(format!("{shown}: it cannot be inflated: {error:?}")))?;
    if status != zlib_rs::Status::StreamEnd || inflate.total_out() != entry.size {
        let size = entry.size;
        return Err(Error::failed(format!("{shown}: it does not inflate to its {size} bytes")));
    }
    check_crc(&bytes, entry, shown)?;
    Ok(bytes)
}

/// Checks the CRC of a whole entry.
pub fn check_crc(bytes: &[u8], entry: &Entry, shown: &str) -> Result<()> {
    let crc = crc32fast::hash(bytes);
    if crc != entry.crc {
        let wanted = entry.crc;
        return Err(Error::failed(format!(
            "{shown}: the CRC-32 is {crc:08x}, the archive's directory says {wanted:08x}"
        )));
    }
    Ok(())
}

/// Reads all of an archive as hostile bytes, in parts of `part` bytes, and asserts what callers
/// trust. For the fuzz target and its replay.
#[cfg(any(test, fuzzing))]
pub fn read_hostile(bytes: &[u8], part: usize) -> Option<usize> {
    let size = bytes.len() as u64;
    let meta = Meta { size, version: crate::version::Version::from_text("fuzz") };
    let mut parts = Parts::new(size);
    let part = part.max(64);
    let tail = bytes.len().saturating_sub(part);
    parts.add(tail as u64, Bytes::copy_from_slice(&bytes[tail..]));
    let mut directory = None;
    for _ in 0..64 {
        match parts.directory(&meta, "fuzz").ok()? {
            Step::Done(done) => {
                directory = Some(done);
                break;
            }
            Step::Wants(at) => {
                assert!(at < size, "bytes are wanted beyond the end");
                let end = parts.next_part(at).min(at + part as u64);
                assert!(end > at, "bytes are wanted that are there");
                parts.add(at, Bytes::copy_from_slice(&bytes[at as usize..end as usize]));
            }
        }
    }
    let directory = directory?;
    let listed = directory.list("").len();
    assert!(listed <= directory.entries.len());
    let mut count = 0;
    for entry in directory.entries.values() {
        let Some(head) = bytes.get(usize::try_from(entry.header_at).ok()?..) else { continue };
        let Ok(at) = entry.find_data(head, "fuzz") else { continue };
        let data = &bytes[at as usize..][..entry.packed as usize];
        match entry.packing("fuzz") {
            Ok(Packing::Stored) => assert_eq!(data.len() as u64, entry.size),
            Ok(Packing::Deflated) if entry.size <= 1 << 20 => {
                if let Ok(whole) = inflate(data, entry, "fuzz") {
                    assert_eq!(whole.len() as u64, entry.size);
                }
            }
            _ => continue,
        }
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of three entries by the same crate's writer, the last deflated as zlib does it.
    fn honest() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
        for (name, data) in [("zarr.json", &b"{}"[..]), ("c/0", b"0123456789"), ("c/1", b"")] {
            let started = archive.new_file(name).compression_method(CompressionMethod::STORE);
            let (mut entry, config) = started.start().unwrap();
            let mut writer = config.wrap(&mut entry);
            std::io::Write::write_all(&mut writer, data).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    #[test]
    fn an_honest_archive_is_read_in_parts_of_any_size() {
        for part in [1, 70, 100, 1000, 1 << 20] {
            assert_eq!(read_hostile(&honest(), part), Some(3), "{part}");
        }
    }

    #[test]
    fn every_changed_byte_is_met_without_a_panic() {
        let honest = honest();
        for at in 0..honest.len() {
            for value in [0, 1, 0x7F, 0xFF, honest[at] ^ 0x80] {
                let mut bytes = honest.clone();
                bytes[at] = value;
                read_hostile(&bytes, 100);
                read_hostile(&bytes[..at], 100);
            }
        }
    }
}
