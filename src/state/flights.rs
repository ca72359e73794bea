//! Reads that the host has begun and ends later.

use crate::base::arena::{Carver, Claim};
use crate::base::bill::Item;
use crate::base::cache::Fifo;
use crate::base::indexes::WaveIndex;
use crate::base::math::index;
use crate::os::FileStat;
use crate::read::Lease;
use crate::setup::settings::Settings;
use crate::wave::ReadOp;

/// A read that is under way.
pub struct Flight {
    pub wave: WaveIndex,
    pub op: u32,
    pub read: ReadOp,
    /// Its bytes in the slab, which nobody else takes before it has ended.
    pub target: Claim<'static>,
    pub lease: Lease,
    /// The open file, and what it looked like: what the lease is ended with.
    pub open: i32,
    pub stat: Option<FileStat>,
    pub start_ns: u64,
}

/// A read that the host has begun.
pub struct AsyncRead {
    pub ticket: u64,
    pub flight: Flight,
    /// The interval of the slab that it writes to.
    pub interval: u64,
    /// Reset came: the wave is none of its business any more.
    pub is_dropped: bool,
}

/// What the lock guards of reads in flight.
pub struct AsyncReads {
    pub places: &'static mut [Option<AsyncRead>],
    pub free: Fifo,
    pub depth: u32,
    /// Tickets that were given out.
    pub serial: u64,
}

impl AsyncReads {
    /// Places for `Settings::async_depth` reads.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> AsyncReads {
        let depth = settings.async_depth;
        AsyncReads {
            places: carver.slice_from(Item::ReadsInFlight, u64::from(depth), |_| None),
            free: Fifo::carve_full(carver, Item::ReadsInFlight, depth),
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

    pub fn place(&self, ticket: u64) -> Option<u32> {
        ticket.checked_rem(u64::from(self.depth)).map(|place| place as u32)
    }

    /// The read of a ticket that was taken is not begun.
    pub fn give_up(&mut self, ticket: u64) {
        self.place(ticket).into_iter().for_each(|place| self.free.push(place));
    }

    pub fn begin(&mut self, read: AsyncRead) {
        let Some(place) = self.place(read.ticket) else { return };
        self.places[index(u64::from(place))] = Some(read);
    }

    pub fn end(&mut self, ticket: u64) -> Option<AsyncRead> {
        // A loader that is closed has no places any more.
        if self.is_empty() {
            return None;
        }
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
