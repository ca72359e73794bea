//! Looks whether what an array was loaded from is what it was: its document, its .npy file, the
//! folder of its numbered files.
//!
//! In: an array that a batch is about to use, and the version that was read. Out: the array may be
//! used; or it is forgotten, so that it is loaded again; or why that cannot be told.

use crate::base::indexes::ArraySlot;
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::fail;
use crate::os::profiler;
use crate::os::store::Fault;
use crate::read::shown;
use crate::source::paths::root_path;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Does a job of looking.
pub fn run(lock: &Lock, array: ArraySlot, version: Version) -> Locked<'_> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let looked = look(shared, array, version);
    shared.observe(Stage::Meta, start, (0, 0), shared.profiler.here());
    drop(range);
    let mut state = lock.lock();
    settle(shared, &mut state, array, &looked);
    state.want_plan(true);
    state
}

/// Whether an array is what it was, or why that cannot be told.
pub type Looked = Result<bool, (Status, Why)>;

/// Looks at the path of what an array was loaded from.
pub fn look(shared: &Shared, array: ArraySlot, version: Version) -> Looked {
    let record = shared.array_record(array);
    let path = root_path(shared.array_uri(array), record);
    let looked = if record.is_in_parts() && !shared.metadata.row.has_folders {
        let listed = shared.metadata.list(path.as_str(), u32::MAX, &mut |_| {});
        match listed {
            // Its files were asked for by name: each has a version of its own.
            Err(Fault::Unlisted) => Ok(Version::NONE),
            listed => listed.map(|(_, version)| version),
        }
    } else {
        shared.metadata.stat_path(&path).map(|stat| stat.version())
    };
    looked.map(|found| found == version).map_err(|fault| {
        let mut why = Why::new();
        let text = "the array was there and is gone, or cannot be looked at";
        (fail!(why, Io, "{}: {fault}: {text}", shown(&path)), why)
    })
}

/// Ends a look at an array.
pub fn settle(shared: &Shared, state: &mut State, array: ArraySlot, looked: &Looked) {
    shared.stats.files_changed.fetch_add(u64::from(matches!(looked, Ok(false))), Relaxed);
    state.arrays.end_look(array, looked);
}

/// The next array to look at.
pub fn take(state: &mut State) -> Option<Job> {
    let (array, version) = state.arrays.next_look()?;
    Some(Job::LookArray { array, version })
}
