//! The members of a store hook that belong together, and the reads that it allows in flight.

use crate::base::limits::READS_MAX;
use crate::base::status::{Status, Why};
use crate::setup::config::{Config, range};
use crate::setup::settings::refuse;

/// Most reads in flight of a host that ends them later; 0: it does not.
pub(super) fn async_depth(config: &Config) -> u32 {
    match (has_async(config), config.store.reads_max) {
        (false, _) => 0,
        (true, 0) => 2 * config.n_io_threads,
        (true, given) => given,
    }
}

fn has_async(config: &Config) -> bool {
    config.files.read_async.is_some() || config.store.read_version_async.is_some()
}

/// Whether functions of a store hook have a files hook beside them.
pub(super) fn check_store(config: &Config, why: &mut Why) -> Result<(), Status> {
    let store = &config.store;
    let has_functions = [
        store.read_tail.is_some(),
        store.read_version.is_some(),
        store.read_version_async.is_some(),
        store.list.is_some(),
    ];
    let has_numbers = [store.merge_gap_bytes, store.merge_bytes_max, u64::from(store.reads_max)];
    let has_any = has_functions.contains(&true) || has_numbers.iter().any(|number| *number > 0);
    let text = "store: its members need files.size and files.read, too";
    refuse(has_any && config.files.size.is_none(), text, why)?;
    let (one, later) = (store.read_version.is_some(), store.read_version_async.is_some());
    refuse(later && !one, "store: read_version_async needs read_version, too", why)?;
    let text = "store: with read_version, read_async of files may bring another version: set \
                read_version_async in its place";
    refuse(one && !later && config.files.read_async.is_some(), text, why)?;
    let text = "store.reads_max is for reads that end later: set read_version_async, or \
                files.read_async";
    refuse(store.reads_max > 0 && !has_async(config), text, why)?;
    let most = (0, u64::from(u32::MAX));
    range(why, "store.merge_gap_bytes", store.merge_gap_bytes, most)?;
    range(why, "store.merge_bytes_max", store.merge_bytes_max, most)?;
    range(why, "store.reads_max", u64::from(store.reads_max), (0, u64::from(READS_MAX)))
}
