//! Looks up the metadata of an array for others: what is read of it is noted in a snapshot.
//!
//! In: a store, and room. Out: records of each file that was opened, of its version, and of what
//! was read of it. Invariant: a part is noted only if it was read when each later change would give
//! the file another version.

use crate::base::limits::INDEX_ENTRY_BYTES;
use crate::base::snapshot::{Full, SnapshotWriter};
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::fail;
use crate::os::store::{Fault, Opened, Path, Store};
use crate::os::{FileStat, Os};
use crate::read::shard_index::{Entry, IndexPlace, Shard, parse_entry};
use crate::read::{Access, shown};
use crate::records::ArrayRecord;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;

/// A pause while the clock of a file system may still give a change the time of the last one.
const PAUSE_NS: u64 = 5_000_000;
/// Most pauses: the longest time that such clocks need, and as much again.
const PAUSES_MAX: u32 = 800;

/// See the module.
pub struct Recorder<'a> {
    os: &'static Os,
    store: &'a Store,
    writer: Cell<SnapshotWriter<'a>>,
    /// There was no room for a record.
    is_full: Cell<bool>,
}

impl<'a> Recorder<'a> {
    /// A recorder of files of `store`, to the start of `target`.
    pub fn new(os: &'static Os, store: &'a Store, target: &'a mut [u8]) -> Recorder<'a> {
        let writer = Cell::new(SnapshotWriter::new(target));
        Recorder { os, store, writer, is_full: Cell::new(false) }
    }

    /// Bytes that were noted. None: there was no room for all.
    pub fn finish(self) -> Option<usize> {
        if self.is_full.get() { None } else { Some(self.writer.take().used()) }
    }

    /// Whether there was no room for a record.
    pub fn is_full(&self) -> bool {
        self.is_full.get()
    }

    fn note(&self, note: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<(), Full>) {
        let mut writer = self.writer.take();
        if note(&mut writer).is_err() {
            self.is_full.set(true);
        }
        self.writer.set(writer);
    }

    /// Waits until each change gives a file another version.
    fn settle(&self, version: Version) -> bool {
        let never = AtomicU32::new(0);
        for _ in 0..PAUSES_MAX {
            if version.is_settled((self.os.wall_tick_ns)()) {
                return true;
            }
            (self.os.sleep)(&never, (self.os.now_ns)().saturating_add(PAUSE_NS));
        }
        false
    }
}

impl Access for Recorder<'_> {
    fn store(&self) -> &Store {
        self.store
    }

    fn open(&self, path: &Path) -> Result<Opened, Fault> {
        let (fd, stat) = self.store.open(path)?;
        if self.settle(stat.version()) {
            self.note(|writer| writer.file(path.as_bytes(), stat.version()));
        }
        Ok((fd, stat))
    }

    fn read(
        &self,
        (fd, stat): Opened,
        path: &Path,
        target: &mut [u8],
        offset: u64,
    ) -> Result<(), Fault> {
        let is_settled = self.settle(stat.version());
        self.store.read_again((fd, stat), path, target, offset)?;
        if is_settled {
            self.note(|writer| {
                writer.file(path.as_bytes(), stat.version())?;
                writer.part(offset, target)
            });
        }
        Ok(())
    }

    fn read_tail(&self, path: &Path, target: &mut [u8]) -> Result<(FileStat, usize), Fault> {
        let (stat, got) = self.store.read_tail(path, target)?;
        // A host's versions are settled, or it has none.
        let end = target.get(..got).unwrap_or(&[]);
        self.note(|writer| {
            writer.file(path.as_bytes(), stat.version())?;
            writer.part(stat.bytes - end.len() as u64, end)
        });
        Ok((stat, got))
    }
}

/// Reads the indexes of a file, whose record this is: its own, and those of the shards in it.
/// `buffer` has a page at least. An index that is broken is left to those who read it.
pub fn read_indexes(
    access: &dyn Access,
    record: &ArrayRecord,
    path: &Path,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let result = open_index(access, record, path, buffer).and_then(|opened| {
        let Some((fd, stat)) = opened else { return Ok(()) };
        let file = (access, record, path, (fd, stat));
        let result = read_index(file, &Shard::file(stat.bytes), buffer);
        access.store().close(fd);
        result
    });
    result.map_err(|fault| fail!(why, Io, "reading the shard index of {}: {fault}", shown(path)))
}

/// Opens a file. None: it is absent, or its index was read with its size.
fn open_index(
    access: &dyn Access,
    record: &ArrayRecord,
    path: &Path,
    buffer: &mut [u8],
) -> Result<Option<Opened>, Fault> {
    let bytes = IndexPlace::bytes_at_end(record).and_then(|bytes| usize::try_from(bytes).ok());
    let end = bytes.and_then(|bytes| buffer.get_mut(..bytes)).filter(|end| !end.is_empty());
    let opened = match end {
        // Shards in it are read after its own index.
        Some(end) if access.store().row.has_tails && record.shard_levels == 1 => {
            access.read_tail(path, end).map(|_| None)
        }
        _ => access.open(path).map(Some),
    };
    if opened == Err(Fault::Absent) { Ok(None) } else { opened }
}

type File<'a> = (&'a dyn Access, &'a ArrayRecord, &'a Path, Opened);

/// Reads the index of a shard, and those of the shards that it names.
fn read_index(file: File<'_>, shard: &Shard, buffer: &mut [u8]) -> Result<(), Fault> {
    let (access, record, path, opened) = file;
    let Ok(place) = IndexPlace::find(record, shard, &mut Why::new()) else { return Ok(()) };
    // A part for this index, and one for those of the shards in it.
    let is_last = shard.level() + 1 == record.shard_levels;
    let own = if is_last { buffer.len() } else { buffer.len() / 2 };
    let parts = buffer.split_at_mut_checked(own - own % INDEX_ENTRY_BYTES);
    let Some((buffer, rest)) = parts else { return Ok(()) };
    let mut at = 0;
    // Ends: each turn reads a byte at least.
    while at < place.total_bytes && !buffer.is_empty() {
        let bytes = (place.total_bytes - at).min(buffer.len() as u64) as usize;
        let piece = &mut buffer[..bytes];
        access.read(opened, path, piece, place.offset + at)?;
        let entries = piece.as_chunks::<INDEX_ENTRY_BYTES>().0;
        let known = place.entry_bytes.saturating_sub(at) as usize / INDEX_ENTRY_BYTES;
        let first = at / INDEX_ENTRY_BYTES as u64;
        for (number, entry) in (first..).zip(entries.iter().take(known)) {
            if is_last {
                break;
            }
            let found = parse_entry(entry, record, shard, &place, &mut Why::new());
            if let Ok(Entry::Range { offset, bytes }) = found {
                read_index(file, &Shard { inner: Some(number), offset, bytes }, rest)?;
            }
        }
        at += bytes as u64;
    }
    Ok(())
}
