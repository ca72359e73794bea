//! The calls of the hooks, on names of any kind.
//!
//! In: a `Name`. Out: sizes, bytes, versions, children. A table has the size and the version of
//! objects as they were asked for last. A read without a version of its own asks for that version,
//! so that bytes that follow a size are of one version, or the read fails. An object that was found
//! changed stays a failure until its size is asked for anew. Locks are held for look-ups alone.

use crate::cache::{Cache, Cost};
use crate::error::{Error, Kind, Result};
use crate::fetch::{Fetch, Object, Refused};
use crate::flight::Flights;
use crate::name::{Name, Place, Scheme};
use crate::stats::add;
use crate::target::Target;
use crate::version::{Meta, Version};
use crate::zip::Directory;
use crate::{file, lock};
use futures_util::FutureExt;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// An object whose size was asked for.
struct Known {
    meta: Meta,
    asked: Instant,
    /// A read has met another version.
    is_changed: bool,
}

/// A value of the cache.
pub enum Kept {
    /// An inflated entry, or a file that was read whole.
    Bytes(Vec<u8>),
    /// The directory of an archive.
    Directory(Directory),
}

impl Cost for Kept {
    fn cost(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.cost(),
            Self::Directory(directory) => directory.cost(),
        }
    }
}

/// The version that a read is of.
#[derive(Clone)]
pub enum Expect {
    /// The one whose size was asked for last.
    Known,
    /// Any.
    Any,
    /// This one.
    This(Version),
}

/// The end of an object.
pub struct End {
    /// Size and version of the object.
    pub meta: Meta,
    /// Bytes that were read.
    pub bytes: u64,
}

/// All that the calls share.
pub struct Core {
    /// Makes requests.
    pub fetch: Fetch,
    known: Mutex<LruCache<String, Known>>,
    /// Bytes and directories.
    pub kept: Cache<Kept>,
    heads: Flights<Result<Meta>>,
    /// Bytes and directories that are being read.
    pub reading: Flights<Result<Arc<Kept>>>,
    /// Entries that are inflated at a time.
    pub inflating: Semaphore,
}

impl Core {
    /// Nothing is known yet.
    pub fn new(fetch: Fetch) -> Arc<Self> {
        let config = &fetch.config;
        let count = NonZeroUsize::new(config.n_objects as usize).unwrap_or(NonZeroUsize::MIN);
        let kept = Cache::new(config.cache_bytes, fetch.stats.clone());
        let inflating = Semaphore::new(config.n_threads as usize);
        let known = Mutex::new(LruCache::new(count));
        let (heads, reading) = (Flights::new(), Flights::new());
        Arc::new(Self { fetch, known, kept, heads, reading, inflating })
    }

    /// Bytes of an object.
    pub async fn size(self: &Arc<Self>, name: Name) -> Result<u64> {
        let name = resolve(name).await?;
        match &name.entry {
            None => Ok(self.head(&name, self.fetch.config.max_age).await?.size),
            Some(entry) => {
                let archive = self.archive_now(&name).await?;
                Ok(archive.entry(entry)?.size)
            }
        }
    }

    /// Fills `target` from `offset` on; returns the version of the bytes.
    pub async fn read(
        self: &Arc<Self>,
        name: Name,
        offset: u64,
        mut target: Target,
        expect: Expect,
    ) -> Result<Version> {
        let name = resolve(name).await?;
        let expect = self.expected(&name, expect)?;
        let expect = expect.as_ref();
        match name.entry.clone() {
            None => Ok(self.fill(&name, offset, &mut target, expect).await?.version),
            Some(entry) => self.read_entry(&name, &entry, offset, &mut target, expect).await,
        }
    }

    /// The last bytes of an object, as many as the target has at most.
    pub async fn read_end(self: &Arc<Self>, name: Name, mut target: Target) -> Result<End> {
        let name = resolve(name).await?;
        let Some(entry) = name.entry.clone() else {
            return self.end(&name, &mut target, self.fetch.config.max_age).await;
        };
        let archive = self.archive_now(&name).await?;
        let size = archive.entry(&entry)?.size;
        let bytes = size.min(target.bytes() as u64);
        let mut part = target.first(bytes as usize);
        let expect = archive.meta()?.version.clone();
        let version =
            self.read_entry(&name, &entry, size - bytes, &mut part, Some(&expect)).await?;
        Ok(End { meta: Meta { size, version }, bytes })
    }

    /// The children of a folder, and whether each is a folder.
    pub async fn list(self: &Arc<Self>, name: Name) -> Result<Vec<(String, bool)>> {
        let name = resolve_folder(name).await?;
        let children = match (&name.entry, &name.place) {
            (Some(entry), _) => self.archive_now(&name).await?.list(entry)?,
            (None, Place::File(path)) => {
                let path = path.clone();
                return blocking(move || file::list(&path)).await;
            }
            (None, Place::Object(..)) => {
                let object = self.fetch.object(&name)?;
                self.fetch.list(&object).await?
            }
        };
        // Stores and archives have no folders but those that something lies in.
        if children.is_empty() { Err(Error::absent(&name.full())) } else { Ok(children) }
    }

    /// Size and version, as they were asked for at most `age` ago.
    pub async fn head(self: &Arc<Self>, name: &Name, age: Duration) -> Result<Meta> {
        if let Place::File(path) = &name.place {
            let path = path.clone();
            return blocking(move || file::head(&path)).await;
        }
        if let Some(known) = lock(&self.known).get(&name.key)
            && !known.is_changed
            && known.asked.elapsed() < age
        {
            add(&self.fetch.stats.cache_hits, 1);
            return Ok(known.meta.clone());
        }
        let (core, asked) = (self.clone(), name.clone());
        let begin = move || {
            async move {
                let object = core.fetch.object(&asked)?;
                core.fetch.head(&object).await
            }
            .boxed()
        };
        let head = self.heads.once(&name.key, begin).await;
        match &head {
            Ok(meta) => self.note(name, meta),
            Err(error) if error.kind == Kind::Absent => {
                lock(&self.known).pop(&name.key);
            }
            Err(_) => {}
        }
        head
    }

    /// Notes what an object is.
    fn note(&self, name: &Name, meta: &Meta) {
        let known = Known { meta: meta.clone(), asked: Instant::now(), is_changed: false };
        lock(&self.known).put(name.key.clone(), known);
    }

    /// Notes that an object is not what it was.
    fn note_change(&self, name: &Name, error: &Error) {
        if error.kind == Kind::Changed
            && let Some(known) = lock(&self.known).get_mut(&name.key)
        {
            known.is_changed = true;
        }
    }

    /// The version that a read has to be of, with its ETag if that is known.
    fn expected(&self, name: &Name, expect: Expect) -> Result<Option<Version>> {
        if matches!(expect, Expect::Any) {
            return Ok(None);
        }
        let mut known = lock(&self.known);
        let known = known.get(&name.key);
        match expect {
            Expect::This(version) => match known {
                Some(known) if known.meta.version == version => {
                    Ok(Some(known.meta.version.clone()))
                }
                _ => Ok(Some(version)),
            },
            _ => match known {
                Some(known) if known.is_changed => Err(Error::changed(&name.full())),
                // An archive's version is checked by its directory.
                Some(known) if name.entry.is_none() => Ok(Some(known.meta.version.clone())),
                _ => Ok(None),
            },
        }
    }

    /// The version whose size was asked for last.
    pub fn known_version(&self, name: &Name) -> Option<Version> {
        lock(&self.known).get(&name.key).map(|known| known.meta.version.clone())
    }

    /// Fills `target` from a file or an object, of one version.
    pub async fn fill(
        self: &Arc<Self>,
        name: &Name,
        offset: u64,
        target: &mut Target,
        expect: Option<&Version>,
    ) -> Result<Meta> {
        if target.bytes() == 0 {
            return self.fill_nothing(name, expect).await;
        }
        if offset.checked_add(target.bytes() as u64).is_none() {
            let shown = &name.shown;
            return Err(Error::failed(format!("{shown}: a read ends beyond 2^64 bytes")));
        }
        if let Place::File(path) = &name.place {
            return fill_from_file(path.clone(), offset, target, expect.cloned()).await;
        }
        let object = self.fetch.object(name)?;
        if object.has_no_ranges() {
            return self.fill_from_whole(name, &object, offset, target, expect).await;
        }
        match self.fetch.range(&object, offset, target, expect).await {
            Ok(meta) => {
                if expect.is_none() {
                    self.note(name, &meta);
                }
                Ok(meta)
            }
            Err(Refused::NoRanges) => {
                self.fill_from_whole(name, &object, offset, target, expect).await
            }
            Err(Refused::Failed(error)) => {
                self.note_change(name, &error);
                Err(error)
            }
        }
    }

    /// A read of no bytes still says whether the object is there, and of which version.
    async fn fill_nothing(self: &Arc<Self>, name: &Name, expect: Option<&Version>) -> Result<Meta> {
        let meta = self.head(name, self.fetch.config.max_age).await?;
        if expect.is_some_and(|expect| *expect != meta.version) {
            return Err(Error::changed(&name.shown));
        }
        Ok(meta)
    }

    /// Fills `target` from an object of a server without ranges.
    async fn fill_from_whole(
        self: &Arc<Self>,
        name: &Name,
        object: &Object<'_>,
        offset: u64,
        target: &mut Target,
        expect: Option<&Version>,
    ) -> Result<Meta> {
        let shown = &name.shown;
        if !self.fetch.config.whole_files || object.scheme() != Scheme::Http {
            return Err(Error::failed(format!(
                "{shown}: the server answers a range with the whole file: set whole_files = 1 to \
                 read files of up to max_entry_bytes whole"
            )));
        }
        let meta = self.head(name, self.fetch.config.max_age).await?;
        if expect.is_some_and(|expect| *expect != meta.version) {
            return Err(Error::changed(shown));
        }
        let end = offset + target.bytes() as u64;
        if end > meta.size {
            let size = meta.size;
            return Err(Error::beyond(format!(
                "{shown}: the file has {size} bytes, a read ends at {end}"
            )));
        }
        let key = format!("{} {}", name.key, hex(&meta.version));
        let (core, asked, version) = (self.clone(), name.clone(), meta.version.clone());
        let load = async move {
            let object = core.fetch.object(&asked)?;
            core.fetch.whole(&object, &version).await.map(Kept::Bytes)
        };
        let kept = self.kept_or(&key, load).await?;
        let Kept::Bytes(bytes) = &*kept else { return Err(wrong_kind(shown)) };
        target.write(0, &bytes[offset as usize..end as usize])?;
        Ok(meta)
    }

    /// The kept value of a key; `load` makes it where there is none, once for all who ask.
    pub async fn kept_or(
        self: &Arc<Self>,
        key: &str,
        load: impl Future<Output = Result<Kept>> + Send + 'static,
    ) -> Result<Arc<Kept>> {
        if let Some(kept) = self.kept.get(key) {
            add(&self.fetch.stats.cache_hits, 1);
            return Ok(kept);
        }
        let (core, owned) = (self.clone(), key.to_owned());
        let begin = move || {
            async move {
                let kept = Arc::new(load.await?);
                core.kept.put(&owned, kept.clone());
                Ok(kept)
            }
            .boxed()
        };
        self.reading.once(key, begin).await
    }

    /// The last bytes of a file or an object; a size that is asked for may be of that age.
    pub async fn end(
        self: &Arc<Self>,
        name: &Name,
        target: &mut Target,
        age: Duration,
    ) -> Result<End> {
        if let Place::File(path) = &name.place {
            return end_of_file(path.clone(), target).await;
        }
        let object = self.fetch.object(name)?;
        // Azure answers no request for an end: its size is asked for, once for each object.
        if object.scheme() != Scheme::Azure && !object.has_no_ranges() && target.bytes() > 0 {
            match self.fetch.end(&object, target).await {
                Ok(got) => {
                    self.note(name, &got.meta);
                    return Ok(End { meta: got.meta, bytes: got.bytes });
                }
                // An empty object has no last byte, and some servers know no ends.
                Err(Refused::NoRanges) => {}
                Err(Refused::Failed(error)) if error.kind == Kind::Beyond => {}
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        let meta = self.head(name, age).await?;
        let bytes = meta.size.min(target.bytes() as u64);
        let mut part = target.first(bytes as usize);
        let offset = meta.size - bytes;
        if bytes > 0 {
            self.fill(name, offset, &mut part, Some(&meta.version)).await?;
        }
        Ok(End { meta, bytes })
    }
}

/// Something else has the key of a value, which keys are made to rule out.
pub fn wrong_kind(shown: &str) -> Error {
    Error::failed(format!("{shown}: defect: the cache has another kind of value"))
}

/// The hash of a version, for keys.
pub fn hex(version: &Version) -> String {
    version.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A local folder whose name ends with .zip is a folder.
async fn resolve(name: Name) -> Result<Name> {
    let (Some(entry), Place::File(path)) = (&name.entry, &name.place) else { return Ok(name) };
    let path = path.clone();
    if !blocking(move || Ok(path.is_dir())).await? {
        return Ok(name);
    }
    let path = format!("{}/{entry}", name.shown);
    Ok(Name {
        place: Place::File(PathBuf::from(&path)),
        entry: None,
        key: format!("file://{path}"),
        shown: path,
    })
}

/// As `resolve`; a name that ends with .zip is the root of an archive.
async fn resolve_folder(name: Name) -> Result<Name> {
    let mut name = name;
    if name.entry.is_none() && name.shown.ends_with(".zip") {
        name.entry = Some(String::new());
    }
    resolve(name).await
}

/// Runs what waits for a disk on a thread for that.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::failed("defect: a job ended without a result")),
    }
}

/// Reads into memory of the job, because a caller's may be gone if the read is cancelled.
async fn fill_from_file(
    path: PathBuf,
    offset: u64,
    target: &mut Target,
    expect: Option<Version>,
) -> Result<Meta> {
    let bytes = target.bytes();
    let read = move || {
        let mut data = vec![0; bytes];
        // SAFETY: `data` is not used before the read is over.
        let mut part = unsafe { Target::of(&mut data) };
        let meta = file::read(&path, offset, &mut part, expect.as_ref())?;
        Ok((meta, data))
    };
    let (meta, data) = blocking(read).await?;
    target.write(0, &data)?;
    Ok(meta)
}

async fn end_of_file(path: PathBuf, target: &mut Target) -> Result<End> {
    let bytes = target.bytes();
    let read = move || {
        let mut data = vec![0; bytes];
        // SAFETY: `data` is not used before the read is over.
        let mut part = unsafe { Target::of(&mut data) };
        let (meta, got) = file::end(&path, &mut part)?;
        data.truncate(got as usize);
        Ok((meta, data))
    };
    let (meta, data) = blocking(read).await?;
    target.write(0, &data)?;
    Ok(End { meta, bytes: data.len() as u64 })
}
