//! A consumer's part of the loader that another process opened.
//!
//! In: the memory that it was handed, a socket. Out: the entries of its list, in their order; slots
//! that it gives back. The owner's death is found by the socket, and by the process if the kernel
//! shows that, because a forked child keeps a socket open.

use crate::base::arena::Region;
use crate::base::limits::CONSUMERS_MAX;
use crate::batch::shared::{Order, Page, Records, What};
use crate::cuda::registered::Registered;
use crate::os::socket::{self, Peer, Watched};
use crate::os::{Os, futex};
use crate::setup::share::SocketName;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// How long a consumer sleeps before it looks whether its owner lives.
const LOOK_NS: u64 = 200_000_000;

/// The byte of a consumer that calls the owner.
pub const CALL: u8 = 1;
/// The byte of a consumer that closes, and takes nothing any more.
pub const LEAVE: u8 = 2;

/// See the module.
pub struct Attached {
    /// The name that the owner shares.
    pub name: SocketName,
    /// The records, which the owner writes.
    pub records: Records,
    /// The page, which this consumer writes.
    pub page: Page,
    /// The samples of all slots.
    pub samples: Region,
    /// This consumer.
    pub number: u32,
    /// Consumers.
    pub count: u32,
    /// The order in which they get batches.
    pub order: Order,
    /// The socket to the owner.
    pub socket: i32,
    /// The owner.
    pub owner: Peer,
    /// A descriptor that can be read once the owner's process has ended; less than 0: the kernel
    /// shows none.
    pub watch: i32,
    /// The samples, if they are pinned for a context of this process.
    pub registered: Option<Registered>,
    /// By slot: the number of the entry whose batch it has.
    pub numbers: [AtomicU64; CONSUMERS_MAX],
    /// Ends that this process took from the list: written with the lock held. A pop that began
    /// before the last of them, and waits, returns it as well.
    pub ends: AtomicU64,
}

impl Attached {
    /// The next entry of the list, which is this consumer's from then on.
    pub fn take(&self) -> Option<What> {
        // Ends: a turn is repeated only if another call, or the owner, has raised `taken`.
        loop {
            let number = self.page.next();
            if number >= self.records.tail(self.number) {
                return None;
            }
            let what = self.records.read(self.number, number);
            // Raised first: a thread that sees the list without this entry sees the end of it.
            let is_end = what == Some(What::End);
            self.ends.fetch_add(u64::from(is_end), SeqCst);
            if !self.page.pass(number, number + 1) {
                self.ends.fetch_sub(u64::from(is_end), SeqCst);
                continue;
            }
            if let Some(What::Batch(batch)) = what {
                self.numbers[batch.slot as usize % CONSUMERS_MAX].store(number, SeqCst);
            }
            // The owner needs the news: with First it deals the next batch, and its pop waits until
            // all entries are taken.
            if self.order == Order::First || !matches!(what, Some(What::Batch(_))) {
                self.call();
            }
            if is_end {
                futex::wake(self.records.signal(self.number));
            }
            return what;
        }
    }

    /// Whether this process has taken an end since there were so many.
    pub fn has_ended(&self, ends: u64) -> bool {
        self.ends.load(SeqCst) != ends
    }

    /// Gives the batch of a slot back.
    pub fn give_back(&self, slot: u32) {
        self.page.release(slot, self.numbers[slot as usize % CONSUMERS_MAX].load(SeqCst));
        self.call();
    }

    /// Calls the owner's thread if it sleeps. A socket that is full holds such calls.
    fn call(&self) {
        if self.records.owner_sleeps() {
            let _ = socket::send(self.socket, &[CALL], &[]);
        }
    }

    /// Sends the owner the news that this consumer takes nothing any more.
    pub fn leave(&self) {
        let _ = socket::send(self.socket, &[LEAVE], &[]);
        futex::wake(self.records.signal(self.number));
    }

    /// Whether the owner's loader is closed, or its process has ended.
    pub fn is_owner_gone(&self) -> bool {
        let mut both = [socket::watched(self.socket), socket::watched(self.watch)];
        socket::wait(&mut both, 0);
        let [ended, process] = both.map(|one: Watched| socket::is_ready(&one));
        self.records.is_closed() || ended || process
    }

    /// Sleeps until the list has more, until another thread takes an end after so many, until the
    /// deadline, or for LOOK_NS: the first of these.
    pub fn wait(&self, os: &Os, ends: u64, deadline_ns: u64) {
        let word = self.records.signal(self.number);
        let seen = word.load(SeqCst);
        self.page.set_waiting(true);
        let is_empty = self.page.next() >= self.records.tail(self.number);
        // After the list: an end is counted before it leaves that.
        let is_over = self.records.is_closed() || self.has_ended(ends);
        if is_empty && !is_over {
            if self.order == Order::First {
                self.call();
            }
            futex::wait(word, seen, deadline_ns.min((os.now_ns)().saturating_add(LOOK_NS)));
        }
        self.page.set_waiting(false);
    }

    /// Closes and unmaps all that it was handed.
    pub fn give_up(&self, os: &Os) {
        self.registered.iter().for_each(Registered::end);
        for fd in [self.socket, self.watch].into_iter().filter(|fd| *fd >= 0) {
            (os.close)(fd);
        }
        for region in [self.records.region(), self.page.region(), self.samples] {
            (os.unmap)(region.start(), region.bytes());
        }
    }
}
