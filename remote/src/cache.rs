//! The cache: inflated entries, whole files, directories of archives.
//!
//! Invariant: what is kept has at most `cache_bytes` bytes by its own count; what was used last
//! stays. A value that is larger than that is handed on and not kept.

use crate::lock;
use crate::stats::Stats;
use lru::LruCache;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// A value that knows its bytes.
pub trait Cost: Send + Sync {
    /// Bytes of memory.
    fn cost(&self) -> u64;
}

struct Kept<V> {
    values: LruCache<String, Arc<V>>,
    bytes: u64,
}

/// A cache of one kind of value.
pub struct Cache<V> {
    kept: Mutex<Kept<V>>,
    bytes_max: u64,
    stats: Arc<Stats>,
}

impl<V: Cost> Cache<V> {
    /// A cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: u64, stats: Arc<Stats>) -> Self {
        let kept = Mutex::new(Kept { values: LruCache::unbounded(), bytes: 0 });
        Self { kept, bytes_max, stats }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Arc<V>> {
        lock(&self.kept).values.get(key).cloned()
    }

    /// Keeps a value, and drops those that were used the longest ago.
    pub fn put(&self, key: &str, value: Arc<V>) {
        let cost = cost_of(key, &*value);
        let mut kept = lock(&self.kept);
        let before = kept.bytes;
        if let Some(old) = kept.values.pop(key) {
            kept.bytes -= cost_of(key, &*old);
        }
        if cost <= self.bytes_max {
            while kept.bytes > self.bytes_max - cost {
                let Some((key, old)) = kept.values.pop_lru() else { break };
                kept.bytes -= cost_of(&key, &*old);
            }
            kept.values.put(key.to_owned(), value);
            kept.bytes += cost;
        }
        // Wraps around where it falls, as the figure does.
        self.stats.cached_bytes.fetch_add(kept.bytes.wrapping_sub(before), Relaxed);
    }
}

/// Bytes of a key, its value, and their places in the cache.
fn cost_of<V: Cost>(key: &str, value: &V) -> u64 {
    value.cost() + key.len() as u64 + 128
}

impl Cost for Vec<u8> {
    fn cost(&self) -> u64 {
        self.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_the_figure_follows() {
        let stats = Arc::new(Stats::default());
        let cache = Cache::new(1000, stats.clone());
        cache.put("a", Arc::new(vec![0u8; 300]));
        cache.put("b", Arc::new(vec![0u8; 300]));
        assert!(cache.get("a").is_some());
        cache.put("c", Arc::new(vec![0u8; 300]));
        assert!(cache.get("b").is_none() && cache.get("a").is_some() && cache.get("c").is_some());
        assert_eq!(stats.view().cached_bytes, 2 * (300 + 1 + 128));
        cache.put("d", Arc::new(vec![0u8; 5000]));
        assert!(cache.get("d").is_none() && cache.get("a").is_some());
        assert_eq!(stats.view().cached_bytes, 2 * (300 + 1 + 128));
    }
}
