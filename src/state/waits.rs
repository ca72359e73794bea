//! The waits of pops: their reasons and lengths.
//!
//! In: the state whenever a pop finds no batch, and the clock. Out: sums by the thing that was
//! missing. A pop that does not wait, and is called again, waits from one call to the next. The
//! owner of shared batches waits while no list of a consumer has one.

use crate::batch::slots::SlotState;
use crate::state::State;

/// A thing that a pop lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// Memory: all slots are held.
    Held,
    /// Samples that were not pushed.
    Samples,
    /// Samples that push has no room for.
    Lookahead,
    /// Work.
    Work,
}

/// Kinds of them.
pub const LACKS: usize = 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Nanoseconds, at the place of each kind: up to the last pop that gave a batch.
    pub by: [u64; LACKS],
    /// The first push since open or the last reset of the figures; 0: there was none.
    pub began_ns: u64,
    /// The last pop that gave a batch.
    pub ended_ns: u64,
    /// A push found no room since then.
    pub is_full: bool,
    /// Those since then.
    after: [u64; LACKS],
    open: Option<(u64, Lack)>,
}

impl Waits {
    /// No waits, and no push.
    pub const NONE: Waits = Waits {
        by: [0; LACKS],
        began_ns: 0,
        ended_ns: 0,
        is_full: false,
        after: [0; LACKS],
        open: None,
    };

    /// No waits since this moment.
    pub fn since(now_ns: u64) -> Waits {
        Waits { began_ns: now_ns, ..Waits::NONE }
    }

    /// The run begins, unless it has: waits before it do not count.
    pub fn start(&mut self, now_ns: u64) {
        if self.began_ns == 0 {
            let open = self.open.map(|(_, lack)| (now_ns, lack));
            *self = Waits { open, ..Waits::since(now_ns) };
        }
    }

    /// A pop waits from now on.
    pub fn begin(&mut self, now_ns: u64, lack: Lack) {
        self.end(now_ns);
        self.open = Some((now_ns, lack));
    }

    /// A pop that waited goes on.
    pub fn end(&mut self, now_ns: u64) {
        if let Some((since, lack)) = self.open.take() {
            self.after[lack as usize] += now_ns.saturating_sub(since);
        }
    }

    /// A pop gives a batch.
    pub fn note_pop(&mut self, now_ns: u64) {
        self.end(now_ns);
        let after = core::mem::take(&mut self.after);
        self.by.iter_mut().zip(after).for_each(|(sum, ns)| *sum += ns);
        (self.ended_ns, self.is_full) = (now_ns, false);
    }
}

impl State {
    /// A pop waits from now on.
    pub fn begin_wait(&mut self, samples_per_batch: u32, now_ns: u64) {
        let lack = self.lack(samples_per_batch);
        self.waits.begin(now_ns, lack);
    }

    fn lack(&self, samples_per_batch: u32) -> Lack {
        let has_samples = self.is_flushed || self.queue.next_batch(samples_per_batch).is_some();
        let is_idle = self.slots.in_state(SlotState::Free) > 0 && !has_samples;
        match (self.slots.lacks_place(), is_idle) {
            (true, _) => Lack::Held,
            (_, true) if self.waits.is_full => Lack::Lookahead,
            (_, true) if !self.slots.has_unpopped() => Lack::Samples,
            _ => Lack::Work,
        }
    }
}
