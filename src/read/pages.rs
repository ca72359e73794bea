//! Shard index pages: those that are cached, and the lookups that are under way.
//!
//! A *request* asks for one page of the index of a shard, or of a shard in it; for a file that is a
//! single chunk, just for its size; or for the version at the path of a file that is known, which
//! is a look. Planned chunks that need the same answer share a request
//! (single flight). The answer stays in the request until every chunk that waits for it has read
//! it, so that progress needs no free page, and is copied to the cache of pages for later batches.
//!
//! Invariant: a request is pinned in its cache from `ask` until its last user is done.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::{Cache, Fifo, hash_words};
use crate::base::indexes::ArraySlot;
use crate::base::limits::{INDEX_ENTRY_BYTES, INDEX_PAGE_ENTRIES};
use crate::base::status::{Status, Why};
use crate::os::FileStat;
use crate::read::shard_index::Shard;
use arrayvec::ArrayVec;

/// Bytes of a page.
pub const PAGE_BYTES: usize = INDEX_PAGE_ENTRIES * INDEX_ENTRY_BYTES;

/// A page of an index of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPage {
    /// The inner shard whose index it belongs to, as [`Shard::inner`]; None: the file's own.
    pub inner: Option<u64>,
    /// Number of the page.
    pub page: u64,
}

impl IndexPage {
    /// The first page of the file's own index; what a file without one is asked for.
    pub const FIRST: IndexPage = IndexPage { inner: None, page: 0 };

    fn hash(self, epoch: u64) -> u64 {
        // Entries are fewer than u64::MAX, so no inner shard has the number of the file.
        hash_words(&[epoch, self.inner.unwrap_or(u64::MAX), self.page])
    }
}

/// Pages by (epoch of the file, page).
#[derive(Debug)]
pub struct PageCache {
    cache: Cache,
    keys: &'static mut [(u64, IndexPage)],
    data: &'static mut [[u8; PAGE_BYTES]],
}

impl PageCache {
    /// A cache of `count` pages.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32) -> PageCache {
        PageCache {
            cache: Cache::carve(carver, Item::IndexPages, count),
            keys: carver.slice(Item::IndexPages, count as u64, &(0, IndexPage::FIRST)),
            data: carver
                .slice(Item::IndexPages, u64::from(count) * PAGE_BYTES as u64, &0)
                .as_chunks_mut()
                .0,
        }
    }

    /// The page, if it is cached.
    pub fn find(&mut self, epoch: u64, page: IndexPage) -> Option<u32> {
        let slot =
            self.cache.find(page.hash(epoch), |slot| self.keys[slot as usize] == (epoch, page))?;
        self.cache.touch(slot);
        Some(slot)
    }

    /// One entry of a cached page.
    pub fn entry(&self, slot: u32, entry: usize) -> [u8; INDEX_ENTRY_BYTES] {
        entry_of(&self.data[slot as usize], entry)
    }

    /// Number of pages that it has room for.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// All of a cached page.
    pub fn page(&self, slot: u32) -> &[u8; PAGE_BYTES] {
        &self.data[slot as usize]
    }

    /// Copies a page in, in the place of the one that was not used for longest. `data` may lack its
    /// end.
    pub fn insert(&mut self, epoch: u64, page: IndexPage, data: &[u8]) {
        if self.find(epoch, page).is_some() {
            return;
        }
        if let Some(slot) = self.cache.take(page.hash(epoch)) {
            self.keys[slot as usize] = (epoch, page);
            let (start, rest) = self.data[slot as usize].split_at_mut(data.len());
            start.copy_from_slice(data);
            rest.fill(0);
        }
    }
}

fn entry_of(page: &[u8; PAGE_BYTES], entry: usize) -> [u8; INDEX_ENTRY_BYTES] {
    let mut bytes = [0; INDEX_ENTRY_BYTES];
    bytes.copy_from_slice(&page[entry * INDEX_ENTRY_BYTES..(entry + 1) * INDEX_ENTRY_BYTES]);
    bytes
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Slot of the array's metadata, pinned by the planned chunks that wait.
    pub array: ArraySlot,
    /// Identity of the array.
    pub array_id: u64,
    /// Number of the file in the file grid.
    pub file: u64,
    /// The shard in the file whose index is asked for, and the state of the file in which it lies
    /// there; None: the file's own index.
    pub inner: Option<(Shard, FileStat)>,
    /// Number of the page; 0 where files are chunks.
    pub page: u64,
    /// The version at the path is asked for, and nothing of the file.
    pub is_look: bool,
    /// Batch that asks first: absence is looked at once per batch.
    pub turn: u64,
}

impl Question {
    /// The page that is asked for.
    pub fn index_page(&self) -> IndexPage {
        IndexPage { inner: self.inner.and_then(|(shard, _)| shard.inner), page: self.page }
    }
}

/// Most looks that a worker takes at a time.
pub const LOOKS_MAX: usize = 8;

/// A look that a worker takes.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The request.
    pub request: u32,
    /// Slot of the array's metadata.
    pub array: ArraySlot,
    /// Number of the file in the file grid.
    pub file: u64,
}

/// Looks of one worker.
pub type Looks = ArrayVec<Look, LOOKS_MAX>;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has not.
    Pending,
    /// The file does not exist.
    Absent,
    /// The file looks like this; the page, if one was asked for, is in the request.
    Found(FileStat),
    /// It failed; the text is in the request.
    Failed(Status),
}

#[derive(Clone, Copy, Debug)]
struct Request {
    question: Question,
    users: u32,
    outcome: Outcome,
    why: Why,
}

/// The lookups under way.
#[derive(Debug)]
pub struct Requests {
    cache: Cache,
    slots: &'static mut [Request],
    /// The page that each has found.
    data: &'static mut [[u8; PAGE_BYTES]],
    queue: Fifo,
    /// Those that are looks.
    looks: Fifo,
    ended: u64,
}

impl Requests {
    /// Room for `count` lookups.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32) -> Requests {
        let question = Question {
            array: ArraySlot(0),
            array_id: 0,
            file: 0,
            inner: None,
            page: 0,
            is_look: false,
            turn: 0,
        };
        let request = Request { question, users: 0, outcome: Outcome::Pending, why: Why::new() };
        Requests {
            cache: Cache::carve(carver, Item::IndexLookups, count),
            slots: carver.slice(Item::IndexLookups, count as u64, &request),
            data: carver
                .slice(Item::IndexLookups, u64::from(count) * PAGE_BYTES as u64, &0)
                .as_chunks_mut()
                .0,
            queue: Fifo::carve(carver, Item::IndexLookups, count),
            looks: Fifo::carve(carver, Item::IndexLookups, count),
            ended: 0,
        }
    }

    /// Joins the lookup of the same page, or begins one. None while all are in use.
    pub fn ask(&mut self, question: Question) -> Option<u32> {
        let Question { array_id, file, turn, .. } = question;
        let hash = hash_words(&[array_id, file, question.index_page().hash(turn)]);
        let same = |slot: u32| self.slots[slot as usize].question == question;
        if let Some(slot) = self.cache.find(hash, same) {
            self.slots[slot as usize].users += 1;
            return Some(slot);
        }
        let slot = self.cache.take(hash)?;
        self.cache.pin(slot, 1);
        let request = &mut self.slots[slot as usize];
        request.question = question;
        request.users = 1;
        request.outcome = Outcome::Pending;
        let queue = if question.is_look { &mut self.looks } else { &mut self.queue };
        queue.push(slot);
        Some(slot)
    }

    /// Whether a lookup that is no look waits for a worker.
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Number of lookups that wait for a worker.
    pub fn queued(&self) -> u64 {
        self.queue.len()
    }

    /// The next lookup for a worker.
    pub fn next_queued(&mut self) -> Option<(u32, Question)> {
        let slot = self.queue.pop()?;
        Some((slot, self.slots[slot as usize].question))
    }

    /// Whether a look waits for a worker.
    pub fn has_looks(&self) -> bool {
        !self.looks.is_empty()
    }

    /// The next looks for a worker, at most so many.
    pub fn take_looks(&mut self, count_max: usize) -> Looks {
        let mut looks = Looks::new();
        while looks.len() < count_max.min(LOOKS_MAX)
            && let Some(request) = self.looks.pop()
        {
            let Question { array, file, .. } = self.slots[request as usize].question;
            looks.push(Look { request, array, file });
        }
        looks
    }

    /// Puts a lookup back that could not be worked on now.
    pub fn requeue(&mut self, slot: u32) {
        self.queue.push(slot);
    }

    /// Ends a lookup. `page` is what was found of the index, if the file has one.
    pub fn finish(
        &mut self,
        slot: u32,
        outcome: Outcome,
        page: Option<&[u8; PAGE_BYTES]>,
        why: &Why,
    ) {
        let request = &mut self.slots[slot as usize];
        assert!(request.outcome == Outcome::Pending);
        request.outcome = outcome;
        self.ended += 1;
        if let Outcome::Failed(_) = outcome {
            request.why = *why;
        }
        if let Some(page) = page {
            self.data[slot as usize] = *page;
        }
    }

    /// Lookups that ended since open.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// What the lookup asks.
    pub fn question(&self, slot: u32) -> &Question {
        &self.slots[slot as usize].question
    }

    /// How the lookup stands.
    pub fn outcome(&self, slot: u32) -> Outcome {
        self.slots[slot as usize].outcome
    }

    /// Why it failed.
    pub fn why(&self, slot: u32) -> &Why {
        &self.slots[slot as usize].why
    }

    /// One entry of the page that was found.
    pub fn entry(&self, slot: u32, entry: usize) -> [u8; INDEX_ENTRY_BYTES] {
        entry_of(&self.data[slot as usize], entry)
    }

    /// One user has read the answer; after the last one the request is free.
    pub fn done(&mut self, slot: u32) {
        let request = &mut self.slots[slot as usize];
        assert!(request.outcome != Outcome::Pending && request.users > 0);
        request.users -= 1;
        if request.users == 0 {
            self.cache.forget(slot);
            self.cache.unpin(slot, 1);
        }
    }

    /// Drops everything; no worker may be at work on a lookup.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.looks.clear();
        for slot in 0..self.slots.len() as u32 {
            if self.cache.pins(slot) > 0 {
                self.cache.forget(slot);
                self.cache.unpin(slot, 1);
            }
        }
    }
}
