//! Which neighbouring chunks to evict so that one run of granules becomes free.
//!
//! In: a length and the time of the use that it is for. Out: a window of whole runs, free or
//! evictable and used later than that, at least so long in all.
//!
//! The best window is the one whose soonest use is farthest from now, scaled down where it evicts
//! more granules than are needed. For chunks of one size that is Belady's choice. Without the
//! scale, small chunks break up the places of large ones, which then find none: random crops of
//! 256 KiB and 8 MiB chunks in 256 MiB decode 1.14 times what the ideal does instead of 1.05.
//!
//! Windows are grown around the latest chunks, latest first: always by the neighbour that is used
//! later, which finds the window around that chunk whose soonest use is latest. No window is worth
//! more than the distance of the chunk that it is grown around, so the search ends at the first
//! chunk that is nearer than the best window's worth.

use super::order::{LATEST_MAX, NEVER_LATENESS, Order};
use super::runs::Runs;
use super::{EVICTIONS_MAX, Slot};
use crate::base::limits::SAMPLES_MAX;
use static_assertions::const_assert;

/// Distance of what is never used again: beyond every lookahead, so that it goes first even where
/// it is larger than needed.
const FAR: u64 = 16 * SAMPLES_MAX as u64;

/// Worth is a distance in units of 1/256, so that scaling keeps near distances apart.
const WORTH_BITS: u32 = 8;

// A scaled distance times a length in granules.
const_assert!((FAR << WORTH_BITS) <= u64::MAX >> 31);

/// Granules `[first, limit)`: whole runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// First granule.
    pub first: u32,
    /// One past the last.
    pub limit: u32,
}

/// What is looked for.
pub(super) struct Search<'a> {
    /// The memory.
    pub runs: &'a Runs,
    /// The chunks that may be evicted.
    pub order: &'a Order,
    /// Granules needed.
    pub length: u32,
    /// Chunks used at this time or before stay.
    pub next_use: u64,
    /// The time.
    pub now: u64,
}

impl Search<'_> {
    /// The best window found. At most LATEST_MAX windows of EVICTIONS_MAX chunks are looked at.
    pub fn best(&self) -> Option<Window> {
        let mut best: Option<(u64, Window)> = None;
        let mut latest = self.order.latest();
        for _ in 0..LATEST_MAX {
            let Some(slot) = latest.next(self.order) else { break };
            let Some(lateness) = self.evictable(slot) else { break };
            let worth_max = self.distance(lateness) << WORTH_BITS;
            if best.is_some_and(|(worth, _)| worth >= worth_max) {
                break;
            }
            let Some(window) = self.grow(slot).map(|window| self.trim(window)) else { continue };
            let worth = self.worth(window);
            if best.is_none_or(|(best_worth, _)| worth > best_worth) {
                best = Some((worth, window));
            }
        }
        best.map(|(_, window)| window)
    }

    /// Lateness of a chunk that may be evicted.
    fn evictable(&self, slot: Slot) -> Option<u64> {
        self.order.lateness(slot).filter(|lateness| *lateness > self.next_use)
    }

    fn distance(&self, lateness: u64) -> u64 {
        if lateness >= NEVER_LATENESS { FAR } else { lateness.saturating_sub(self.now).min(FAR) }
    }

    fn grow(&self, slot: Slot) -> Option<Window> {
        let runs = self.runs;
        let mut first = slot;
        let mut limit = runs.limit(slot);
        for _ in 0..EVICTIONS_MAX {
            first = runs.before(first).filter(|before| runs.is_free(*before)).unwrap_or(first);
            if limit < runs.granules() && runs.is_free(limit) {
                limit = runs.limit(limit);
            }
            if limit - first >= self.length {
                return Some(Window { first, limit });
            }
            let before = runs.before(first);
            let after = (limit < runs.granules()).then_some(limit);
            let before_lateness = before.and_then(|before| self.evictable(before));
            let after_lateness = after.and_then(|after| self.evictable(after));
            match (before, after) {
                _ if before_lateness.max(after_lateness).is_none() => return None,
                (Some(before), _) if before_lateness >= after_lateness => first = before,
                (_, Some(after)) => limit = runs.limit(after),
                _ => return None,
            }
        }
        None
    }

    /// Leaves out runs at the ends that are not needed, the sooner used end first.
    fn trim(&self, window: Window) -> Window {
        let Window { mut first, mut limit } = window;
        let lateness = |run: u32| self.order.lateness(run).unwrap_or(u64::MAX);
        // EVICTIONS_MAX chunks at most, with a free run before, between and behind them.
        for _ in 0..2 * EVICTIONS_MAX + 1 {
            let second = self.runs.limit(first);
            let last = self.runs.before(limit).unwrap_or(first);
            let without_first = limit - second >= self.length;
            let without_last = last - first >= self.length;
            if without_first && (!without_last || lateness(first) <= lateness(last)) {
                first = second;
            } else if without_last {
                limit = last;
            } else {
                break;
            }
        }
        Window { first, limit }
    }

    fn worth(&self, window: Window) -> u64 {
        let mut nearest = FAR;
        let mut evicted = 0;
        let mut at = window.first;
        while at < window.limit {
            let after = self.runs.limit(at);
            if let Some(lateness) = self.order.lateness(at) {
                nearest = nearest.min(self.distance(lateness));
                evicted += after - at;
            }
            at = after;
        }
        (nearest << WORTH_BITS) * self.length as u64 / evicted.max(self.length) as u64
    }
}
