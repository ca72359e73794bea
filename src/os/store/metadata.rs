//! Requests for metadata: documents, indexes, sizes and versions of files, lists of folders.
//!
//! In: the row of a store. Out: a row whose reads are counted, and each of whose requests begins
//! late by the sleep that a model of latency draws, if there is one. The store that reads chunks
//! keeps its own row, and has no part of this. A part that a snapshot has is not requested.
//!
//! Invariant: request number n sleeps for the same time in each run of the same seed, whichever
//! thread makes it, so the sum over a number of requests is the same, too.

use crate::base::abi::MetadataLatency;
use crate::base::stats::StatsCells;
use crate::loops::lognormal::lognormal;
use crate::os::Os;
use crate::os::futex;
use crate::os::store::{Fault, Row, Store, system};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// See the module.
pub struct Metadata {
    os: &'static Os,
    /// The row that does the work.
    inner: Row,
    stats: &'static StatsCells,
    /// None: nothing is late.
    model: Option<MetadataLatency>,
    /// Requests that a sleep was drawn for; stats_reset does not change it. Any thread adds.
    drawn: AtomicU64,
    /// 1 once sleeps are to end. Close writes it, sleepers read it; nothing else hangs on it.
    has_ended: AtomicU32,
}

/// The functions of a store that has a [`Metadata`].
const ROW: Row = Row {
    open: |store, path| (looked(store).open)(store, path),
    stat: |store, fd, path| (looked(store).stat)(store, fd, path),
    stat_path: |store, path| (looked(store).stat_path)(store, path),
    stat_link: |store, path| (looked(store).stat_link)(store, path),
    list: |store, folder, names_max, visit| (looked(store).list)(store, folder, names_max, visit),
    read: |store, opened, path, target, offset, cached_only| {
        let Some(metadata) = store.metadata else { return Err(Fault::HookFailed) };
        let read = metadata.inner.read;
        metadata.count_read(|| read(store, opened, path, target, offset, cached_only))
    },
    tail: |store, path, target| {
        let Some(metadata) = store.metadata else { return Err(Fault::HookFailed) };
        let tail = metadata.inner.tail;
        metadata.count_read(|| tail(store, path, target))
    },
    ..system::ROW
};

/// The row that does the work, once the sleep of a look is over.
fn looked(store: &Store) -> &Row {
    let Some(metadata) = store.metadata else { return &system::ROW };
    metadata.sleep(&metadata.stats.metadata_latency_stat_ops);
    &metadata.inner
}

impl Metadata {
    /// Requests that `store` would serve. A model of no latency is none.
    pub fn new(
        store: &Store,
        os: &'static Os,
        stats: &'static StatsCells,
        model: MetadataLatency,
    ) -> Metadata {
        let MetadataLatency { baseline_ns, lognormal_mu_ln_ns, lognormal_sigma_ln_ns, .. } = model;
        let is_late = baseline_ns > 0 || lognormal_mu_ln_ns != 0.0 || lognormal_sigma_ln_ns != 0.0;
        Metadata {
            os,
            inner: store.row,
            stats,
            model: is_late.then_some(model),
            drawn: AtomicU64::new(0),
            has_ended: AtomicU32::new(0),
        }
    }

    /// The row of a store that makes its requests this way.
    pub(super) fn row(&self) -> Row {
        let Row { open, stat, stat_path, stat_link, list, read, tail, .. } = ROW;
        let waits = self.inner.waits || self.model.is_some();
        Row { open, stat, stat_path, stat_link, list, read, tail, waits, ..self.inner }
    }

    /// Ends sleeps, from here on.
    pub(super) fn end_sleeps(&self) {
        self.has_ended.store(1, Relaxed);
        futex::wake(&self.has_ended);
    }

    /// Sleeps for the latency of the next request, and counts it in the total and in `kind`.
    fn sleep(&self, kind: &AtomicU64) {
        let Some(model) = &self.model else { return };
        let stats = self.stats;
        let ns = latency_ns(model, self.drawn.fetch_add(1, Relaxed));
        stats.metadata_latency_ops.fetch_add(1, Relaxed);
        kind.fetch_add(1, Relaxed);
        stats.metadata_latency_total_sleep_ns.fetch_add(ns, Relaxed);
        stats.metadata_latency_max_sleep_ns.fetch_max(ns, Relaxed);
        let active = stats.metadata_latency_active.enter();
        stats.metadata_latency_max_active.fetch_max(active, Relaxed);
        let deadline_ns = (self.os.now_ns)().saturating_add(ns);
        (self.os.sleep)(&self.has_ended, deadline_ns);
        stats.metadata_latency_active.leave();
    }

    /// Makes a read, late if there is a model, and counts it.
    fn count_read<T>(&self, read: impl FnOnce() -> T) -> T {
        let stats = self.stats;
        self.sleep(&stats.metadata_latency_submit_ops);
        stats.metadata_backend_read_jobs.fetch_add(1, Relaxed);
        let active = stats.metadata_backend_read_active.enter();
        stats.metadata_backend_read_max_active.fetch_max(active, Relaxed);
        let result = read();
        stats.metadata_backend_read_active.leave();
        result
    }
}

/// The latency of request `number`: the constant part and the random one, which has a cap unless
/// that is 0, and is 0 if mu and sigma are.
fn latency_ns(model: &MetadataLatency, number: u64) -> u64 {
    let (mu, sigma) = (model.lognormal_mu_ln_ns, model.lognormal_sigma_ln_ns);
    let random_ns = match mu != 0.0 || sigma != 0.0 {
        true => lognormal((model.seed, number), mu, sigma),
        false => 0,
    };
    let most_ns = if model.cap_ns == 0 { u64::MAX } else { model.cap_ns };
    model.baseline_ns.saturating_add(random_ns.min(most_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::abi::Blank;

    #[test]
    fn a_latency_is_the_constant_part_and_a_random_one_up_to_its_cap() {
        let random = MetadataLatency {
            lognormal_mu_ln_ns: 13.0,
            lognormal_sigma_ln_ns: 0.5,
            seed: 7,
            ..MetadataLatency::BLANK
        };
        for number in 0..100 {
            let ns = latency_ns(&random, number);
            assert_eq!(ns, lognormal((7, number), 13.0, 0.5));
            let later = MetadataLatency { baseline_ns: 1000, ..random };
            assert_eq!(latency_ns(&later, number), 1000 + ns);
            let capped = MetadataLatency { cap_ns: 400_000, ..later };
            assert_eq!(latency_ns(&capped, number), 1000 + ns.min(400_000));
        }
    }

    #[test]
    fn without_a_random_part_each_latency_is_the_constant_one() {
        let model =
            MetadataLatency { baseline_ns: 5, cap_ns: 1, seed: 3, ..MetadataLatency::BLANK };
        assert_eq!([0, 1, u64::MAX].map(|number| latency_ns(&model, number)), [5; 3]);
        let endless = MetadataLatency { baseline_ns: u64::MAX, lognormal_mu_ln_ns: 9.0, ..model };
        assert_eq!(latency_ns(&endless, 0), u64::MAX);
    }
}
