//! Requests for objects: sizes, ranges, ends, whole objects and listings.
//!
//! In: a `Name` of an object. Out: bytes of one version of it. Invariant: bytes are only handed on
//! from answers whose range, length and version are those that were asked for.

use crate::config::Config;
use crate::error::{Error, Result, Secrets, chain};
use crate::gate::{Gate, Permit};
use crate::name::{Name, Place, Scheme};
use crate::retry::{Fault, Retry, fault_of};
use crate::stats::{Stats, add};
use crate::stores::{Store, Stores};
use crate::target::Target;
use crate::transport::{Attempt, Met};
use crate::version::{Meta, Version};
use futures_util::StreamExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Tries `$once` until it succeeds or there is no use in another try. A try has a permit, which a
/// wait between two of them has not. The clock of all tries begins with the first permit: a turn
/// that is long in coming is no fault of the server.
macro_rules! tries {
    ($fetch:expr, $object:expr, $once:expr) => {{
        let mut retry = Retry::default();
        loop {
            let permit = $fetch.permit($object).await;
            let deadline = retry.deadline(&$fetch.config);
            let tried = tokio::time::timeout_at(deadline, $once).await;
            drop(permit);
            let fault = match tried {
                Ok(Ok(value)) => break Ok(value),
                Ok(Err(Fault::NoRanges)) => break Err(Refused::NoRanges),
                Ok(Err(fault)) => fault,
                Err(_) => retry.late(&$fetch.config, &$object.name.shown),
            };
            if let Err(error) = retry.next(&$fetch.config, &$fetch.stats, fault).await {
                break Err(Refused::Failed(error));
            }
        }
    }};
}

/// The cost of a page of a listing, next to that of its names.
const PAGE_BYTES: u64 = 1 << 10;

/// Makes requests.
pub struct Fetch {
    /// The settings.
    pub config: Config,
    /// Texts that must not appear in failures.
    pub secrets: Secrets,
    /// The figures.
    pub stats: Arc<Stats>,
    /// The bound on requests in flight.
    pub gate: Arc<Gate>,
    /// The open stores.
    pub stores: Stores,
}

/// One object of an open store.
pub struct Object<'a> {
    store: Arc<Store>,
    path: &'a Path,
    name: &'a Name,
}

impl Object<'_> {
    /// How its store is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.store.scheme
    }

    /// The server was seen to answer a range with a whole object.
    pub fn has_no_ranges(&self) -> bool {
        self.store.has_no_ranges.load(Relaxed)
    }
}

/// The answer to a range of an object.
pub struct Got {
    /// Size and version of the object.
    pub meta: Meta,
    /// Bytes that were written to the target.
    pub bytes: u64,
}

/// The part of an object that is asked for.
#[derive(Clone, Copy)]
enum Part {
    Range { offset: u64 },
    End,
}

impl Fetch {
    /// The object of a name, with its store.
    pub fn object<'a>(&self, name: &'a Name) -> Result<Object<'a>> {
        match &name.place {
            Place::Object(store, path) => Ok(Object { store: self.stores.get(store)?, path, name }),
            Place::File(_) => Err(Error::failed(format!("{}: this is a file", name.shown))),
        }
    }

    /// Size and version of an object.
    pub async fn head(&self, object: &Object<'_>) -> Result<Meta> {
        Ok(tries!(self, object, self.head_once(object))?)
    }

    async fn head_once(&self, object: &Object<'_>) -> std::result::Result<Meta, Fault> {
        let head = GetOptions { head: true, ..GetOptions::default() };
        let attempt = Attempt::default();
        let asked = self.get_noted(object, head, &attempt).await;
        let (status, is_http) = (attempt.met().status, object.scheme() == Scheme::Http);
        // An answer to HEAD has no body, so that it does not name the kind of a denial.
        let is_denied = status != 404 && self.config.absent.contains(&status);
        let (result, _) = match asked {
            Err(_) if is_denied || (is_http && matches!(status, 405 | 501)) => {
                // The answer to one byte has the size of all. An empty file has no such byte, and
                // is a failure there.
                let range = Some(GetRange::Bounded(0..1));
                self.get(object, GetOptions { range, ..GetOptions::default() }).await?
            }
            asked => asked?,
        };
        Ok(Meta::of(&result.meta))
    }

    /// Fills `target` from `offset` on.
    pub async fn range(
        &self,
        object: &Object<'_>,
        offset: u64,
        target: &mut Target,
        expect: Option<&Version>,
    ) -> std::result::Result<Meta, Refused> {
        self.part(object, Part::Range { offset }, target, expect).await.map(|got| got.meta)
    }

    /// The last bytes of an object in one request, as many as the target has at most.
    pub async fn end(
        &self,
        object: &Object<'_>,
        target: &mut Target,
    ) -> std::result::Result<Got, Refused> {
        self.part(object, Part::End, target, None).await
    }

    async fn part(
        &self,
        object: &Object<'_>,
        part: Part,
        target: &mut Target,
        expect: Option<&Version>,
    ) -> std::result::Result<Got, Refused> {
        let mut progress = Progress::default();
        tries!(self, object, self.part_once(object, part, target, expect, &mut progress))
    }

    /// One try. Bytes that an earlier one has read of the same version are not asked for again.
    async fn part_once(
        &self,
        object: &Object<'_>,
        part: Part,
        target: &mut Target,
        expect: Option<&Version>,
        progress: &mut Progress,
    ) -> std::result::Result<Got, Fault> {
        let shown = &object.name.shown;
        let begin = progress.begin;
        let (range, wanted) = match (part, begin) {
            (Part::Range { offset }, _) => {
                let end = offset + target.bytes() as u64;
                (GetRange::Bounded(offset + progress.done..end), Some(end))
            }
            (Part::End, None) => (GetRange::Suffix(target.bytes() as u64), None),
            (Part::End, Some((first, end))) => {
                (GetRange::Bounded(first + progress.done..end), Some(end))
            }
        };
        let expect = expect.or(progress.version.as_ref());
        let if_match = expect.and_then(Version::if_match);
        let options = GetOptions { range: Some(range), if_match, ..GetOptions::default() };
        let (result, met) = self.get(object, options).await?;
        let meta = Meta::of(&result.meta);
        if expect.is_some_and(|expect| *expect != meta.version) {
            return Err(Fault::Final(Error::changed(shown)));
        }
        let answered = result.range.clone();
        if wanted.is_some_and(|end| answered.end != end) {
            let size = meta.size;
            let text = format!("{shown}: the object has {size} bytes, the range ends after them");
            return Err(Fault::Final(Error::failed(text)));
        }
        progress.begin.get_or_insert((answered.start, answered.end));
        let bytes = answered.end - answered.start;
        let read = self.copy(result, &met, shown, bytes, target, &mut progress.done).await;
        if let Err(fault) = read {
            progress.keep(&meta.version);
            return Err(fault);
        }
        Ok(Got { bytes: progress.done, meta })
    }

    /// Makes a request and waits for the head of its answer.
    async fn get(
        &self,
        object: &Object<'_>,
        options: GetOptions,
    ) -> std::result::Result<(GetResult, Met), Fault> {
        self.get_noted(object, options, &Attempt::default()).await
    }

    /// As `get`; what was met is noted in `attempt`.
    async fn get_noted(
        &self,
        object: &Object<'_>,
        mut options: GetOptions,
        attempt: &Attempt,
    ) -> std::result::Result<(GetResult, Met), Fault> {
        options.extensions = attempt.extensions();
        let request = object.store.objects.get_opts(object.path, options);
        let limit = self.config.connect_timeout + self.config.idle_timeout;
        let shown = &object.name.shown;
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(result)) => Ok((result, attempt.met())),
            Ok(Err(error)) => {
                let met = attempt.met();
                if met.is_whole {
                    object.store.has_no_ranges.store(true, Relaxed);
                }
                Err(fault_of(&error, &met, shown, &self.config.absent, &self.secrets))
            }
            Err(_) => Err(Fault::again(format!("{shown}: no answer within {limit:?}"))),
        }
    }

    /// Copies the body of an answer. It has exactly `bytes` bytes, or the try failed.
    async fn copy(
        &self,
        result: GetResult,
        met: &Met,
        shown: &str,
        bytes: u64,
        target: &mut Target,
        done: &mut u64,
    ) -> std::result::Result<(), Fault> {
        let end = *done + bytes;
        let mut stream = result.into_stream();
        let limit = self.config.idle_timeout;
        loop {
            let next = tokio::time::timeout(limit, stream.next()).await;
            let next = next.map_err(|_| Fault::again(format!("{shown}: no byte in {limit:?}")))?;
            let data = match next {
                None => break,
                Some(Ok(data)) => data,
                Some(Err(error)) => {
                    let text = self.secrets.clean(&chain(&error));
                    return Err(Fault::again(format!("{shown}: the answer broke off: {text}")));
                }
            };
            add(&self.stats.bytes_received, data.len() as u64);
            if data.len() as u64 > end - *done {
                let status = met.status;
                let text = format!("{shown}: the answer ({status}) has more bytes than its range");
                return Err(Fault::Final(Error::failed(text)));
            }
            target.write(*done as usize, &data).map_err(Fault::Final)?;
            *done += data.len() as u64;
        }
        if *done != end {
            let missing = end - *done;
            return Err(Fault::again(format!("{shown}: the answer lacks {missing} bytes")));
        }
        Ok(())
    }

    /// All of an object of at most `max_entry_bytes`, without ranges.
    pub async fn whole(&self, object: &Object<'_>, expect: &Version) -> Result<Vec<u8>> {
        Ok(tries!(self, object, self.whole_once(object, expect))?)
    }

    async fn whole_once(
        &self,
        object: &Object<'_>,
        expect: &Version,
    ) -> std::result::Result<Vec<u8>, Fault> {
        let shown = &object.name.shown;
        let (result, met) = self.get(object, GetOptions::default()).await?;
        let meta = Meta::of(&result.meta);
        if meta.version != *expect {
            return Err(Fault::Final(Error::changed(shown)));
        }
        let (size, limit) = (meta.size, self.config.max_entry_bytes);
        if size > limit {
            return Err(Fault::Final(Error::failed(format!(
                "{shown}: the server has no ranges, and the file has {size} bytes, \
                 more than max_entry_bytes = {limit}: raise it"
            ))));
        }
        let mut bytes = vec![0; size as usize];
        // SAFETY: `bytes` is not used before the read is over.
        let mut target = unsafe { Target::of(&mut bytes) };
        self.copy(result, &met, shown, size, &mut target, &mut 0).await?;
        Ok(bytes)
    }

    /// The children of a folder, and whether each is a folder, page by page.
    pub async fn list(&self, object: &Object<'_>) -> Result<Vec<(String, bool)>> {
        let shown = &object.name.shown;
        let mut children = Vec::new();
        let mut token: Option<String> = None;
        let mut bytes = 0;
        loop {
            let page = tries!(self, object, self.page_once(object, token.clone()))?;
            // A page without a name has a cost too, so that a server that has always one more ends.
            bytes += PAGE_BYTES;
            for child in page.children {
                bytes += child.0.len() as u64 + 32;
                children.push(child);
            }
            if page.token.is_some() && page.token == token {
                return Err(Error::failed(format!(
                    "{shown}: the server gives the same page of the folder again: it cannot be listed"
                )));
            }
            if bytes > self.config.cache_bytes {
                let limit = self.config.cache_bytes;
                return Err(Error::failed(format!(
                    "{shown}: the names in this folder have more than cache_bytes = {limit}"
                )));
            }
            token = page.token;
            if token.is_none() {
                return Ok(children);
            }
        }
    }

    async fn page_once(
        &self,
        object: &Object<'_>,
        page_token: Option<String>,
    ) -> std::result::Result<Page, Fault> {
        let shown = &object.name.shown;
        let prefix = match object.path.as_ref() {
            "" => None,
            path => Some(format!("{path}/")),
        };
        let attempt = Attempt::with_body_of(self.config.cache_bytes);
        let limit = self.config.connect_timeout + self.config.idle_timeout;
        let late = |_| Fault::again(format!("{shown}: no answer within {limit:?}"));
        // A listing that is denied is a failure, whatever `absent` says of objects.
        let fault = |error: object_store::Error| {
            fault_of(&error, &attempt.met(), shown, &[404], &self.secrets)
        };
        let (result, token) = match &object.store.pages {
            Some(pages) => {
                let options = PaginatedListOptions {
                    delimiter: Some("/".into()),
                    page_token,
                    extensions: attempt.extensions(),
                    ..PaginatedListOptions::default()
                };
                let listing = pages.list_paginated(prefix.as_deref(), options);
                let page = tokio::time::timeout(limit, listing).await.map_err(late)?;
                let page = page.map_err(fault)?;
                (page.result, page.page_token)
            }
            None => {
                let listing = object.store.objects.list_with_delimiter(Some(object.path));
                let listing = tokio::time::timeout(limit, attempt.around(listing));
                let listing = listing.await.map_err(late)?;
                unlisted(attempt.met().status, shown)?;
                (listing.map_err(fault)?, None)
            }
        };
        let files = result.objects.iter().map(|meta| (&meta.location, false));
        let folders = result.common_prefixes.iter().map(|path| (path, true));
        let child = |(path, is_folder): (&Path, bool)| {
            // A marker of the folder itself has its path.
            let name = path.filename().filter(|_| path != object.path)?;
            Some((name.to_owned(), is_folder))
        };
        Ok(Page { children: files.chain(folders).filter_map(child).collect(), token })
    }

    async fn permit(&self, object: &Object<'_>) -> Permit {
        let permit = self.gate.acquire(&object.name.key).await;
        let now = u64::from(self.gate.in_flight());
        self.stats.in_flight_max.fetch_max(now, Relaxed);
        permit
    }
}

/// A failure if the status of an answer is one of a web server that does not speak WebDAV. Express
/// answers 404 there, and WebDAV itself for a folder that does not exist; distributions of content
/// that allow GET alone answer 403; an answer of WebDAV has the status 207.
fn unlisted(status: u16, shown: &str) -> std::result::Result<(), Fault> {
    match status {
        200..=206 | 208..=299 | 400 | 403 | 404 | 405 | 501 => {
            Err(Fault::Final(Error::unlisted(format!(
                "{shown}: folders of a web server can be listed only where it speaks WebDAV: the \
             server answered {status}"
            ))))
        }
        _ => Ok(()),
    }
}

/// Children of a folder, and the token of the next page.
struct Page {
    children: Vec<(String, bool)>,
    token: Option<String>,
}

/// Why there are no bytes of a range.
#[derive(Debug)]
pub enum Refused {
    /// The server answers with whole objects.
    NoRanges,
    /// Everything else.
    Failed(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoRanges => Self::failed("the server has no ranges"),
            Refused::Failed(error) => error,
        }
    }
}

/// Bytes that the tries of one range have read so far.
#[derive(Default)]
struct Progress {
    done: u64,
    /// First byte and end of the range, once an answer gave them.
    begin: Option<(u64, u64)>,
    version: Option<Version>,
}

impl Progress {
    /// Keeps what was read if the next answer can be known to be of the same version.
    fn keep(&mut self, version: &Version) {
        if version.is_known() {
            self.version = Some(version.clone());
        } else {
            *self = Self::default();
        }
    }
}
