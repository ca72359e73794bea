//! Single flight: what several callers ask for at once is done once.
//!
//! The work is driven by whoever waits for it. If all of them are cancelled it is dropped, and the
//! next caller begins anew. The lock is held for look-ups in the table, never while work is done.

use crate::lock;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::collections::HashMap;
use std::sync::Mutex;

/// A table of so many keys is rid of those whose work was cancelled, before it grows.
const SWEEP_COUNT: usize = 1024;

type Work<V> = BoxFuture<'static, V>;

/// Work in flight by key.
pub struct Flights<V: Clone> {
    table: Mutex<HashMap<String, WeakShared<Work<V>>>>,
}

impl<V: Clone + Send + Sync + 'static> Flights<V> {
    /// Nothing is in flight.
    pub fn new() -> Self {
        Self { table: Mutex::new(HashMap::new()) }
    }

    /// The value of the work of that key: of the one in flight, else of `begin`.
    pub async fn once(&self, key: &str, begin: impl FnOnce() -> Work<V>) -> V {
        let shared: Shared<Work<V>> = {
            let mut table = lock(&self.table);
            match table.get(key).and_then(WeakShared::upgrade) {
                Some(shared) => shared,
                None => {
                    if table.len() >= SWEEP_COUNT {
                        table.retain(|_, weak| weak.upgrade().is_some());
                    }
                    let shared = begin().shared();
                    if let Some(weak) = shared.downgrade() {
                        table.insert(key.to_owned(), weak);
                    }
                    shared
                }
            }
        };
        let value = shared.clone().await;
        let mut table = lock(&self.table);
        if table.get(key).and_then(WeakShared::upgrade).is_none_or(|other| other.ptr_eq(&shared)) {
            table.remove(key);
        }
        value
    }
}
