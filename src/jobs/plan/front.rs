//! The front of the window: how much of it becomes the next wave.
//!
//! In: window entries, in the order of the plan. Out: the entries that fit a wave, and the tasks
//! that they are, or why there are none.
//!
//! A chunk that is settled again later in the window, because a later batch needs it, joins the
//! wave before its turn: it is then read and decoded once for all of them, and takes no more
//! staging.
//!
//! Chunks of early batches wait in staging until their batch has memory. They are staged in the
//! order of the plan, in waves that are worth it, and leave two waves and their staging to others.

use crate::jobs::plan::planned::{Place, Planned, Settled};
use crate::jobs::plan::window::Planner;
use crate::state::shared::Shared;
use core::ops::Range;

/// What the front of the window has for a wave.
pub struct Prefix {
    /// Entries.
    pub count: u64,
    /// Their tasks, and those that go along with them.
    pub tasks: u32,
    pub end: End,
}

/// What ended it.
#[derive(PartialEq)]
pub enum End {
    /// The wave is full.
    Full,
    /// The next chunk is of an early batch, which is not staged yet.
    Early,
    /// The next chunk is not settled, or is not there.
    Window,
}

impl Planner {
    /// Settled entries at the front that fit one wave; `sorted` has the tasks. Those of early
    /// batches only if they have room, and are enough.
    pub(super) fn settled_prefix(&mut self, shared: &Shared, has_early_room: bool) -> Prefix {
        let mut placed = None;
        let mut prefix = self.find_prefix(shared, has_early_room, &mut placed);
        if let Some((count, tasks)) = placed
            && prefix.end != End::Full
            && self.reads(tasks..prefix.tasks) < shared.settings.early_chunks_min()
        {
            prefix = Prefix { count, tasks, end: End::Early };
        }
        prefix
    }

    /// The same. `placed`: the entries, and their tasks, before the first of an early batch.
    fn find_prefix(
        &mut self,
        shared: &Shared,
        has_early_room: bool,
        placed: &mut Option<(u64, u32)>,
    ) -> Prefix {
        let (counts, lane) = (&shared.tables.counts, self.lane as usize);
        let most = (counts.chunks[lane], counts.pairs[lane]);
        let share = self.share(shared);
        let (mut count, mut tasks, mut pairs, mut bytes) = (0, 0, 0, 0);
        self.attempts += 1;
        while self.first + count < self.limit {
            let entry = *self.entry(self.first + count);
            if entry.taken == self.attempts {
                count += 1;
                continue;
            }
            let is_early = entry.turn >= self.placed;
            if is_early && placed.is_none() {
                *placed = Some((count, tasks));
            }
            if is_early && !has_early_room {
                return Prefix { count, tasks, end: End::Early };
            }
            let more = match entry.place {
                Place::New | Place::Waiting(_) => break,
                Place::Gone => {
                    count += 1;
                    continue;
                }
                Place::Known(Settled::Data { offset, bytes, stat }) => {
                    let gap = shared.merges().0;
                    self.staged(shared, &entry, (offset, gap + bytes, stat))
                }
                Place::Known(_) => 0,
            };
            let fits = tasks < most.0
                && pairs + entry.pair_count <= most.1
                && (bytes == 0 && !is_early || bytes + more <= share);
            if !fits {
                return Prefix { count, tasks, end: End::Full };
            }
            self.sorted[tasks as usize] = count as u32;
            count += 1;
            bytes += more;
            (tasks, pairs) = (tasks + 1, pairs + entry.pair_count);
            if entry.twin > 0 {
                (tasks, pairs) = self.add_twins(entry, (tasks, pairs), most);
            }
        }
        let end = if tasks == most.0 { End::Full } else { End::Window };
        Prefix { count, tasks, end }
    }

    /// Bytes of staging that a wave takes, unless its first read is larger.
    pub(super) fn share(&self, shared: &Shared) -> u64 {
        shared.tables.slab.bytes() / u64::from(shared.settings.config.host_buffer_waves)
    }

    /// How many of these tasks are read.
    fn reads(&self, tasks: Range<u32>) -> u32 {
        tasks.filter(|task| self.is_data(*task)).count() as u32
    }

    /// Adds the twins of an entry to `sorted`, up to `most` tasks and pairs; how many there are.
    fn add_twins(
        &mut self,
        mut before: Planned,
        (mut tasks, mut pairs): (u32, u32),
        most: (u32, u32),
    ) -> (u32, u32) {
        while let Some((at, twin)) = self.settled_twin(&before)
            && tasks < most.0
            && pairs + twin.pair_count <= most.1
        {
            let place = self.place(at);
            self.window[place].taken = self.attempts;
            self.sorted[tasks as usize] = (at - self.first) as u32;
            tasks += 1;
            pairs += twin.pair_count;
            before = twin;
        }
        (tasks, pairs)
    }

    /// The next window entry whose chunk is read from the same place, and its number.
    fn settled_twin(&self, entry: &Planned) -> Option<(u64, Planned)> {
        let twin = (entry.twin > 0).then(|| *self.entry(entry.twin))?;
        let place = |entry: &Planned| match (entry.place, entry.kept) {
            (Place::Known(Settled::Data { offset, bytes, stat }), None) => {
                Some((offset, bytes, stat))
            }
            _ => None,
        };
        let is_early = twin.turn >= self.placed;
        let is_same = !is_early && place(entry).is_some_and(|here| place(&twin) == Some(here));
        is_same.then_some((entry.twin, twin))
    }

    /// Whether the last of the first `count` entries is of an early batch.
    pub(super) fn is_early(&self, count: u64) -> bool {
        count > 0 && self.entry(self.first + count - 1).turn >= self.placed
    }

    /// Chunks of a read lie in this order: those of early batches as they get their memory.
    pub(super) fn rank(&self, entry: &Planned) -> u64 {
        if entry.turn < self.placed { 0 } else { entry.turn }
    }
}
