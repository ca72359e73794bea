//! Entries of archives: which bytes of an archive a read needs, and what is kept of it.
//!
//! A stored entry is read by range. A deflated one is read and inflated whole, once for all that
//! ask, and kept. All bytes are of the version that the directory was read of.

use crate::core::{Core, Kept, blocking, hex, wrong_kind};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::stats::add;
use crate::target::Target;
use crate::version::{Meta, Version};
use crate::zip::{self, Directory, Entry, HEADER_BYTES, Packing, Parts, Step, TAIL_BYTES};
use bytes::Bytes;
use std::sync::Arc;

/// Parts of an archive that are read for its directory at most. An honest one needs two.
const PARTS_MAX: usize = 16;
/// Bytes of a part that does not lie right before a part that was read.
const STRAY_BYTES: u64 = 64 << 10;
/// An entry's header and its first bytes are read together up to so many bytes before the data that
/// is asked for.
const SKIP_BYTES_MAX: u64 = 64 << 10;
/// Room for what a header has after its name.
const EXTRA_BYTES: u64 = 512;

/// The directory of an archive, kept alive.
pub struct Archive {
    kept: Arc<Kept>,
    /// Only `Core::directory` makes these, of a directory.
    shown: String,
}

impl Archive {
    fn directory(&self) -> Result<&Directory> {
        match &*self.kept {
            Kept::Directory(directory) => Ok(directory),
            Kept::Bytes(_) => Err(wrong_kind(&self.shown)),
        }
    }

    /// Size and version of the archive.
    pub fn meta(&self) -> Result<&Meta> {
        Ok(&self.directory()?.meta)
    }

    /// An entry by its name.
    pub fn entry(&self, name: &str) -> Result<&Entry> {
        let entry = self.directory()?.entries.get(name);
        entry.ok_or_else(|| Error::absent(&format!("{}/{name}", self.shown)))
    }

    /// The children of a folder.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, bool)>> {
        Ok(self.directory()?.list(folder))
    }
}

impl Core {
    /// The directory of the archive as it is now: its version is at most `archive_max_age` old.
    pub async fn archive_now(self: &Arc<Self>, name: &Name) -> Result<Archive> {
        let meta = self.head(name, self.fetch.config.archive_max_age).await?;
        self.archive_of(name, &meta.version).await
    }

    /// The directory of that version of an archive.
    async fn archive_of(self: &Arc<Self>, name: &Name, version: &Version) -> Result<Archive> {
        let key = directory_key(name, version);
        let (core, asked, version) = (self.clone(), name.clone(), version.clone());
        let load = async move { core.load(&asked, &version).await.map(Kept::Directory) };
        let kept = self.kept_or(&key, load).await?;
        Ok(Archive { kept, shown: name.shown.clone() })
    }

    async fn load(self: &Arc<Self>, name: &Name, version: &Version) -> Result<Directory> {
        let shown = &name.shown;
        let mut tail = vec![0; TAIL_BYTES as usize];
        // SAFETY: `tail` is not used before the read is over.
        let mut target = unsafe { Target::of(&mut tail) };
        let end = self.end(name, &mut target, self.fetch.config.archive_max_age).await?;
        let meta = end.meta;
        if meta.version != *version {
            return Err(Error::changed(shown));
        }
        tail.truncate(end.bytes as usize);
        let mut parts = Parts::new(meta.size);
        parts.add(meta.size - end.bytes, Bytes::from(tail));
        let limit = self.fetch.config.cache_bytes;
        for _ in 0..PARTS_MAX {
            let at = match parts.directory(&meta, shown)? {
                Step::Done(directory) => return Ok(directory),
                Step::Wants(at) => at,
            };
            let rest = parts.next_part(at) - at;
            let bytes = if rest <= limit { rest } else { rest.min(STRAY_BYTES) };
            let part = self.bytes(name, at, bytes, &meta.version).await?;
            parts.add(at, Bytes::from(part));
        }
        Err(Error::failed(format!(
            "{shown}: the directory of the archive is larger than cache_bytes = {limit}, or broken"
        )))
    }

    /// Bytes of an archive, in memory of their own.
    async fn bytes(
        self: &Arc<Self>,
        name: &Name,
        offset: u64,
        bytes: u64,
        version: &Version,
    ) -> Result<Vec<u8>> {
        let mut data = vec![0; bytes as usize];
        // SAFETY: `data` is not used before the read is over.
        let mut target = unsafe { Target::of(&mut data) };
        self.fill(name, offset, &mut target, Some(version)).await?;
        Ok(data)
    }

    /// Fills `target` from an entry; returns the version, which is that of the archive.
    pub async fn read_entry(
        self: &Arc<Self>,
        name: &Name,
        entry_name: &str,
        offset: u64,
        target: &mut Target,
        expect: Option<&Version>,
    ) -> Result<Version> {
        let archive = match expect {
            Some(version) => self.archive_of(name, version).await?,
            // Reads that follow a size are of the directory that gave the size.
            None => self.archive_now_or_kept(name).await?,
        };
        let version = archive.meta()?.version.clone();
        let entry = archive.entry(entry_name)?;
        let shown = format!("{}/{entry_name}", name.shown);
        let bytes = target.bytes() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > entry.size) {
            let size = entry.size;
            return Err(Error::beyond(format!(
                "{shown}: the entry has {size} bytes; a read of {bytes} from {offset} ends after"
            )));
        }
        match entry.packing(&shown)? {
            Packing::Stored => {
                self.read_stored(name, entry, offset, target, &version, &shown).await?;
                if bytes == entry.size {
                    // SAFETY: the read has succeeded, so that all bytes are written.
                    zip::check_crc(unsafe { target.filled() }, entry, &shown)?;
                }
            }
            Packing::Deflated => {
                let kept = self.inflated(name, &archive, entry_name, &version, &shown).await?;
                let Kept::Bytes(data) = &*kept else { return Err(wrong_kind(&shown)) };
                target.write(0, &data[offset as usize..(offset + bytes) as usize])?;
            }
        }
        Ok(version)
    }

    /// The directory of the version that is known, else of the one that is there now.
    async fn archive_now_or_kept(self: &Arc<Self>, name: &Name) -> Result<Archive> {
        match self.known_version(name) {
            Some(version) => self.archive_of(name, &version).await,
            None => self.archive_now(name).await,
        }
    }

    /// Fills `target` from a stored entry. The first read of an entry reads its header too, in one
    /// request where the data that is asked for follows soon.
    async fn read_stored(
        self: &Arc<Self>,
        name: &Name,
        entry: &Entry,
        offset: u64,
        target: &mut Target,
        version: &Version,
        shown: &str,
    ) -> Result<()> {
        let bytes = target.bytes() as u64;
        if bytes == 0 {
            return Ok(());
        }
        if let Some(data_at) = entry.data_at() {
            self.fill(name, data_at + offset, target, Some(version)).await?;
            return Ok(());
        }
        let ahead = HEADER_BYTES + entry.name_bytes + EXTRA_BYTES;
        let wanted = if offset <= SKIP_BYTES_MAX { ahead + offset + bytes } else { HEADER_BYTES };
        let room = entry.limit.saturating_sub(entry.header_at);
        let head = self.bytes(name, entry.header_at, wanted.min(room), version).await?;
        let data_at = entry.find_data(&head, shown)?;
        let skip = (data_at - entry.header_at + offset) as usize;
        match head.get(skip..skip.saturating_add(bytes as usize)) {
            Some(data) => target.write(0, data),
            None => {
                self.fill(name, data_at + offset, target, Some(version)).await?;
                Ok(())
            }
        }
    }

    /// All of a deflated entry.
    async fn inflated(
        self: &Arc<Self>,
        name: &Name,
        archive: &Archive,
        entry_name: &str,
        version: &Version,
        shown: &str,
    ) -> Result<Arc<Kept>> {
        let key = format!("{} {}/{entry_name}", name.key, hex(version));
        let core = self.clone();
        let (name, shown, version) = (name.clone(), shown.to_owned(), version.clone());
        let (kept, entry_name) = (archive.kept.clone(), entry_name.to_owned());
        let load = async move {
            let archive = Archive { kept, shown: name.shown.clone() };
            core.inflate(&name, archive, entry_name, version, shown).await.map(Kept::Bytes)
        };
        self.kept_or(&key, load).await
    }

    async fn inflate(
        self: &Arc<Self>,
        name: &Name,
        archive: Archive,
        entry_name: String,
        version: Version,
        shown: String,
    ) -> Result<Vec<u8>> {
        let entry = archive.entry(&entry_name)?;
        let limit = self.fetch.config.max_entry_bytes;
        let (size, packed) = (entry.size, entry.packed);
        if size.max(packed) > limit {
            return Err(Error::failed(format!(
                "{shown}: the deflated entry has {size} bytes ({packed} in the archive), more than \
                 max_entry_bytes = {limit}: raise it, or store the entry"
            )));
        }
        let _permit = self.inflating.acquire().await;
        let data_at = match entry.data_at() {
            Some(at) => at,
            None => {
                let head = self.bytes(name, entry.header_at, HEADER_BYTES, &version).await?;
                entry.find_data(&head, &shown)?
            }
        };
        let packed = self.bytes(name, data_at, packed, &version).await?;
        add(&self.fetch.stats.inflated, 1);
        blocking(move || zip::inflate(&packed, archive.entry(&entry_name)?, &shown)).await
    }
}

fn directory_key(name: &Name, version: &Version) -> String {
    format!("zip {} {}", name.key, hex(version))
}
