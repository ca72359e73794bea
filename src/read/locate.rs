//! Looks at one file: opens it, checks an index of it once, and fetches one page of that.
//!
//! In: a lease. Out: the page's bytes, and the checksums that later fetches are compared with. The
//! first visit streams the whole index through a small buffer: its CRC-32C is the writer's promise;
//! a checksum per group of pages is kept, so that a page that was evicted can be fetched and
//! checked again without reading the rest. An index without CRC is read page by page.

use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::loops::crc32c::crc32c;
use crate::os::FileStat;
use crate::os::store::{Fault, NO_FD, Opened, Path, Store};
use crate::read::Lease;
use crate::read::pages::PAGE_BYTES;
use crate::read::shard_index::{IndexPlace, Shard};
use crate::read::{PageCheck, SUM_BYTES};
use crate::records::{ArrayRecord, INDEX_CRC_BYTES};

/// What a visit found.
pub struct Located {
    /// The page; zeroes past the end of the index.
    pub page: [u8; PAGE_BYTES],
    /// Where the visit checked the whole index: pages of a group, and the number of groups whose
    /// checksums it left.
    pub checked: Option<(u64, usize)>,
}

/// Uses the lease: closes what it evicts, opens the file if it is not open, and compares with what
/// the file looked like before.
pub fn open_leased(store: &Store, path: &Path, lease: &Lease) -> Result<Opened, OpenFault> {
    if let Some(evicted) = lease.evicted {
        store.close(evicted);
    }
    let (open, stat) = match (lease.open, lease.stat) {
        // Every read asks for that version.
        (open, Some(stat)) if store.asks_for(stat) => (open.unwrap_or(NO_FD), stat),
        (Some(open), _) => (open, store.stat(open, path).map_err(OpenFault::Store)?),
        (None, _) => store.open(path).map_err(OpenFault::Store)?,
    };
    if lease.stat.is_some_and(|before| before != stat) {
        if lease.open.is_none() {
            store.close(open);
        }
        return Err(OpenFault::Changed);
    }
    Ok((open, stat))
}

/// Bytes of a uri or path that an error text shows.
pub const SHOWN_BYTES: usize = 200;

/// A path as an error text shows it.
pub fn shown(path: &Path) -> Tail<'_> {
    Tail(path.as_str(), SHOWN_BYTES)
}

/// Why a leased file could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenFault {
    /// The store says so.
    Store(Fault),
    /// Its size or time of change is not what it was.
    Changed,
    /// Its path leads to another version than the one that is known: to be looked up anew.
    Replaced,
}

/// Fetches page `page` of the index of `shard`, which is the file or lies in it, and compares it
/// with `check`, or checks the whole index and leaves the checksums of its groups of pages at the
/// start of `sums`, which has room for at least one. `buffer` has at least two pages; its first
/// `fetched` bytes are those of the index, and nothing else is read then, unless they are 0.
pub fn locate(
    store: &Store,
    record: &ArrayRecord,
    file: (i32, &Path, FileStat),
    (shard, page, check): (Shard, u64, Option<PageCheck>),
    (buffer, fetched): (&mut [u8], usize),
    sums: &mut [u8],
    why: &mut Why,
) -> Result<Located, Status> {
    let place = IndexPlace::find(record, &shard, why)?;
    let fetched = fetched as u64;
    let mut visit = Visit { store, file, shard, place, page, fetched, found: [0; PAGE_BYTES] };
    let checked = match check {
        Some(check) => {
            visit.fetch_again(&check, buffer, why)?;
            None
        }
        None if record.index[shard.level() as usize].has_crc => {
            Some(visit.check_whole(buffer, sums, why)?)
        }
        None => {
            visit.fetch_unchecked(buffer, why)?;
            None
        }
    };
    Ok(Located { page: visit.found, checked })
}

struct Visit<'a> {
    store: &'a Store,
    file: (i32, &'a Path, FileStat),
    shard: Shard,
    place: IndexPlace,
    page: u64,
    /// Bytes of the index that lie at the start of the buffer.
    fetched: u64,
    found: [u8; PAGE_BYTES],
}

impl Visit<'_> {
    fn read(&self, at: u64, target: &mut [u8], why: &mut Why) -> Result<(), Status> {
        let (fd, path, stat) = self.file;
        let offset = self.place.offset + at;
        self.store.read_again((fd, stat), path, target, offset).map_err(|fault| {
            let (name, shown) = (self.shard.index_name(), shown(path));
            fail!(why, Io, "reading the {name} of {shown}: {fault}")
        })
    }

    /// Bytes of the index from `at` on: those of the buffer, or read to its start.
    fn piece<'b>(
        &self,
        at: u64,
        bytes: usize,
        buffer: &'b mut [u8],
        why: &mut Why,
    ) -> Result<&'b [u8], Status> {
        if at + bytes as u64 <= self.fetched {
            return Ok(&buffer[at as usize..][..bytes]);
        }
        self.read(at, &mut buffer[..bytes], why)?;
        Ok(&buffer[..bytes])
    }

    /// Copies the part of the wanted page that lies in `bytes`, which start at `at` of the index.
    fn keep(&mut self, at: u64, bytes: &[u8]) {
        let first = self.page * PAGE_BYTES as u64;
        let limit = (first + PAGE_BYTES as u64).min(self.place.entry_bytes);
        let (from, to) = (first.max(at), limit.min(at + bytes.len() as u64));
        if from < to {
            self.found[(from - first) as usize..(to - first) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
    }

    fn check_whole(
        &mut self,
        buffer: &mut [u8],
        sums: &mut [u8],
        why: &mut Why,
    ) -> Result<(u64, usize), Status> {
        let sums = sums.as_chunks_mut::<SUM_BYTES>().0;
        let entry_bytes = self.place.entry_bytes;
        let pages = entry_bytes.div_ceil(PAGE_BYTES as u64);
        let group_pages = pages.div_ceil(sums.len() as u64);
        let group_bytes = group_pages * PAGE_BYTES as u64;
        let groups = pages.div_ceil(group_pages) as usize;
        sums[..groups].fill([0; SUM_BYTES]);
        let (mut at, mut whole) = (0, 0);
        while at < entry_bytes {
            // A piece never crosses a group, so that each group's checksum is made of whole pieces.
            let group = at / group_bytes;
            let limit = ((group + 1) * group_bytes).min(entry_bytes);
            let piece = (limit - at).min(buffer.len() as u64) as usize;
            let bytes = self.piece(at, piece, buffer, why)?;
            whole = crc32c(whole, bytes);
            let sum = &mut sums[group as usize];
            *sum = crc32c(u32::from_le_bytes(*sum), bytes).to_le_bytes();
            self.keep(at, bytes);
            at += piece as u64;
        }
        let mut stored = [0; INDEX_CRC_BYTES as usize];
        stored.copy_from_slice(self.piece(entry_bytes, INDEX_CRC_BYTES as usize, buffer, why)?);
        let stored = u32::from_le_bytes(stored);
        if stored != whole {
            return Err(fail!(
                why,
                Decode,
                "{} crc mismatch in {}: stored {stored:08x}, computed {whole:08x}",
                self.shard.index_name(),
                shown(self.file.1)
            ));
        }
        Ok((group_pages, groups))
    }

    fn fetch_again(
        &mut self,
        check: &PageCheck,
        buffer: &mut [u8],
        why: &mut Why,
    ) -> Result<(), Status> {
        let group = self.page / check.group_pages;
        let group_bytes = check.group_pages * PAGE_BYTES as u64;
        let limit = ((group + 1) * group_bytes).min(self.place.entry_bytes);
        let (mut at, mut sum) = (group * group_bytes, 0);
        while at < limit {
            let piece = (limit - at).min(buffer.len() as u64) as usize;
            self.read(at, &mut buffer[..piece], why)?;
            sum = crc32c(sum, &buffer[..piece]);
            self.keep(at, &buffer[..piece]);
            at += piece as u64;
        }
        if sum != check.sum {
            return Err(fail!(
                why,
                Io,
                "the {} of {} changed since it was checked",
                self.shard.index_name(),
                shown(self.file.1)
            ));
        }
        Ok(())
    }

    fn fetch_unchecked(&mut self, buffer: &mut [u8], why: &mut Why) -> Result<(), Status> {
        let at = self.page * PAGE_BYTES as u64;
        let piece = (self.place.entry_bytes - at).min(PAGE_BYTES as u64) as usize;
        let bytes = self.piece(at, piece, buffer, why)?;
        self.keep(at, bytes);
        Ok(())
    }
}
