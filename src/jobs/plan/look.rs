//! The planner's own looks: if nothing has to be waited for, it looks by itself whether the paths
//! of files and documents lead to the versions that are known, and asks nobody.
//!
//! In: window entries of files that their batch did not look at yet; arrays of a batch that begins.
//! Out: files that the batch looked at, retired records, arrays that may be used. Whatever is odd,
//! an absent file above all, is left to the lookups that are asked for.

use crate::base::indexes::ArraySlot;
use crate::base::version::Version;
use crate::jobs::look::note_version;
use crate::jobs::look_array::{look, settle};
use crate::jobs::plan::ask::{files_ahead, is_chunk_file};
use crate::jobs::plan::keep::has_kept;
use crate::jobs::plan::planned::{Place, Planned};
use crate::jobs::plan::window::{Planner, RUN_CHUNKS};
use crate::os::store::Path;
use crate::os::{FileKind, FileStat};
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use arrayvec::ArrayVec;

/// Files that the planner looks at between two times that it has the lock.
const LOOKS_MAX: usize = 32;

/// A file to look at.
struct Look {
    array: ArraySlot,
    array_id: u64,
    file: u64,
    turn: u64,
    found: Option<FileStat>,
}

impl Planner {
    /// Looks at the files of window entries from `first` on, of a bounded number; behind the last
    /// entry whose file was looked at, if its batch had to.
    pub(super) fn look_along(&mut self, lock: &Lock, first: u64) -> u64 {
        let shared = lock.shared;
        let limit = self.limit.min(first + RUN_CHUNKS);
        let mut looks = ArrayVec::<Look, LOOKS_MAX>::new();
        // Each entry is seen once: a file that becomes known later is asked for.
        let first = first.max(self.glanced);
        if first >= limit {
            return limit;
        }
        // The first entry whose file is for another turn.
        let left = {
            let state = &*lock.lock();
            if state.must_wait_for_looks(shared) {
                return limit;
            }
            let (mut before, last) = (None, self.first + files_ahead(state));
            let (mut reached, mut left) = (limit, None);
            for at in first..limit {
                let entry = self.entry(at);
                let name = (entry.turn, entry.array_id, entry.file);
                if !matches!(entry.place, Place::New) || before == Some(name) {
                    continue;
                }
                if at >= last && is_chunk_file(shared.array_record(entry.array)) {
                    reached = at;
                    break;
                }
                before = Some(name);
                if !is_to_look_at(shared, state, entry) {
                    continue;
                }
                if looks.is_full() {
                    (reached, left) = (at, Some(at));
                    break;
                }
                let Planned { array, array_id, file, turn, .. } = *entry;
                looks.push(Look { array, array_id, file, turn, found: None });
            }
            self.glanced = reached;
            left
        };
        if looks.is_empty() {
            return limit;
        }
        let mut path = Path::new();
        for look in &mut looks {
            let record = shared.array_record(look.array);
            path.clear();
            shared.write_file_path(look.array, record, look.file, &mut path);
            let stat = shared.metadata.stat_path(&path).ok();
            look.found = stat.filter(|stat| stat.kind == FileKind::REGULAR);
        }
        let state = &mut *lock.lock();
        for look in &looks {
            if let Some(stat) = look.found {
                note_version(shared, state, (look.array_id, look.file), look.turn, stat);
            }
        }
        left.unwrap_or(limit)
    }
}

/// Whether an entry that is New uses what is known of its file, at which its batch did not look.
fn is_to_look_at(shared: &Shared, state: &State, entry: &Planned) -> bool {
    let record = shared.array_record(entry.array);
    if !record.origin.has_versions {
        return false;
    }
    let Some(slot) = state.files.find(entry.array_id, entry.file) else {
        return has_kept(shared, state, entry, record);
    };
    let is_known = !state.files.is_absent(slot, entry.turn)
        && state.files.known(slot).is_some()
        && !state.files.is_looked_at(slot, entry.turn);
    // One that is closed is opened, and looked at by that, unless its chunk is cached.
    is_known
        && (record.shard_levels > 0
            || state.files.is_open(slot)
            || has_kept(shared, state, entry, record))
}

/// Arrays to look at, and what they were loaded from.
pub type ArrayLooks = ArrayVec<(ArraySlot, Version), LOOKS_MAX>;

/// Looks at arrays of a batch that begins.
pub fn look_at_arrays(lock: &Lock, looks: &ArrayLooks) {
    for (array, version) in looks {
        let looked = look(lock.shared, *array, *version);
        settle(lock.shared, &mut lock.lock(), *array, &looked);
    }
}
