//! Reads of chunk data that the host begins now and ends later (`files.read_async`).
//!
//! In: reads of active waves. Out: their bytes in the slab, and the reads among the ready ones of
//! their wave.
//!
//! ```text
//!  free ──(take)──▶ taken ──(begin)──▶ IN FLIGHT ──(read_done, or the host took it not)──▶ free
//!         locked      │                    └──(reset)──▶ DROPPED ──(read_done)──▶ free
//!                     └──(give_up)──▶ free
//! ```
//!
//! What a failure means is not decided here, as with the ring (`ring_jobs`): a read that the host
//! did not bring goes among the handed ones of its wave, a thread reads it again through
//! `files.read`, and reports what it finds.
//!
//! Invariant: a read in flight holds a lease, and its bytes in the slab are nobody else's until its
//! completion, whatever happens to the samples that it was for: reset waits for no host, so the
//! interval of a dropped read stays taken. A ticket is never used twice.

use crate::base::arena::Carver;
use crate::base::cache::Fifo;
use crate::base::math::index;
use crate::base::status::{Failure, Why};
use crate::fail;
use crate::jobs::look_up::close_forgotten;
use crate::jobs::read::wait::needed_bytes;
use crate::os::FileStat;
use crate::os::sink::Level;
use crate::os::store::{Descriptors, Path};
use crate::read::Lease;
use crate::setup::settings::Settings;
use crate::state::shared::Instance;
use crate::state::{Life, State};
use crate::wave::ReadOp;
use core::sync::atomic::Ordering::Relaxed;

/// A read in flight.
pub struct AsyncRead {
    ticket: u64,
    wave: u32,
    op: u32,
    /// The interval of the slab that it writes to.
    interval: u64,
    lease: Lease,
    /// What the file's lease is ended with.
    open: Descriptors,
    stat: FileStat,
    bytes: u64,
    /// Bytes of them that chunks need.
    needed: u64,
    start_ns: u64,
    /// Reset came: the wave is none of its business any more.
    is_dropped: bool,
}

/// What the lock guards of reads in flight.
pub struct AsyncReads {
    places: &'static mut [Option<AsyncRead>],
    free: Fifo,
    depth: u32,
    /// Tickets that were given out.
    serial: u64,
}

impl AsyncReads {
    /// Places for `Settings::async_depth` reads.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> AsyncReads {
        let depth = settings.async_depth;
        let mut free = Fifo::carve(carver, "reads in flight", depth);
        if !carver.is_counting() {
            (0..depth).for_each(|place| free.push(place));
        }
        AsyncReads {
            places: carver.slice_from("reads in flight", u64::from(depth), |_| None),
            free,
            depth,
            serial: 0,
        }
    }

    /// Whether another read could be begun; always where none ends later.
    pub fn has_room(&self) -> bool {
        self.depth == 0 || !self.free.is_empty()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.free.len() == u64::from(self.depth)
    }

    /// Takes a place for a read: its ticket. None where reads end when they return.
    pub fn take(&mut self) -> Option<u64> {
        let place = self.free.pop()?;
        self.serial += 1;
        // Worked example: of depth 32 the third read, in place 5, has ticket 101.
        Some(self.serial * u64::from(self.depth) + u64::from(place))
    }

    fn place(&self, ticket: u64) -> Option<u32> {
        ticket.checked_rem(u64::from(self.depth)).map(|place| place as u32)
    }

    /// The read of a ticket that was taken is not begun.
    fn give_up(&mut self, ticket: u64) {
        self.place(ticket).into_iter().for_each(|place| self.free.push(place));
    }

    fn begin(&mut self, read: AsyncRead) {
        let Some(place) = self.place(read.ticket) else { return };
        self.places[index(u64::from(place))] = Some(read);
    }

    fn end(&mut self, ticket: u64) -> Option<AsyncRead> {
        let place = self.place(ticket)?;
        let read = self.places[index(u64::from(place))].take_if(|read| read.ticket == ticket)?;
        self.free.push(place);
        Some(read)
    }

    /// Drops what the reads in flight are for; the intervals that they write to, once for each.
    pub fn drop_all(&mut self) -> impl Iterator<Item = u64> {
        self.places.iter_mut().flatten().map(|read| {
            read.is_dropped = true;
            read.interval
        })
    }
}

/// A read that a job is to begin: its wave and number, its ticket, and its open file.
pub struct Begun<'a> {
    pub wave: u32,
    pub op: u32,
    pub ticket: u64,
    pub lease: &'a Lease,
    pub opened: (Descriptors, FileStat),
    pub path: &'a Path,
}

impl Instance {
    /// Hands a read to the host.
    pub fn begin_read(&self, read: &ReadOp, begun: &Begun<'_>) {
        let Begun { wave, op, ticket, .. } = *begun;
        let needed = needed_bytes(self, wave, read);
        let (open, stat) = begun.opened;
        {
            let state = &mut *self.lock.lock();
            state.async_reads.begin(AsyncRead {
                ticket,
                wave,
                op,
                interval: state.waves.waves[wave as usize].interval,
                lease: *begun.lease,
                open,
                stat,
                bytes: read.bytes,
                needed,
                start_ns: (self.os.now_ns)(),
                is_dropped: false,
            });
        }
        let target = self.tables.slab.part(read.slab_offset, read.bytes);
        let token = (self.token, ticket);
        if self.store.begin_read(token, begun.path, target, read.offset).is_err() {
            self.end_read(&mut self.lock.lock(), ticket, false);
        }
    }

    /// The file of a read could not be opened: it is read as if it were to end here.
    pub fn give_up_read(&self, ticket: u64) {
        self.lock.lock().async_reads.give_up(ticket);
    }

    /// The completion of a read; `result` is what `files.read` would have returned.
    pub fn read_done(&self, ticket: u64, result: i64) -> Result<(), Failure> {
        if self.end_read(&mut self.lock.lock(), ticket, result == 0) {
            return Ok(());
        }
        let mut why = Why::new();
        let status = fail!(
            why,
            Invalid,
            "read_done: no read of ticket {ticket:#x} is in flight: completed \
             before, or never begun"
        );
        self.sink.log(Level::Warn, 0, format_args!("{why}"));
        Err(Failure::because(status, &why))
    }

    /// Ends a read; false where there is none of that ticket.
    fn end_read(&self, state: &mut State, ticket: u64, is_there: bool) -> bool {
        let Some(read) = state.async_reads.end(ticket) else { return false };
        let (open, stat) = (Some(read.open), Some(read.stat));
        close_forgotten(self, state.files.give_back(&read.lease, open, stat));
        if read.is_dropped {
            state.waves.end_dropped(read.interval);
            state.plan_wanted = true;
        } else if is_there {
            state.waves.set_ready(read.wave, read.op);
            self.stats.reads_issued.fetch_add(1, Relaxed);
            let ns = (self.os.now_ns)() - read.start_ns;
            self.stats.io.observe(ns, read.bytes, read.needed);
        } else {
            state.waves.waves[read.wave as usize].handed.push(read.op);
        }
        if state.life != Life::Running {
            self.idle.broadcast();
        }
        self.wake(state);
        true
    }
}
