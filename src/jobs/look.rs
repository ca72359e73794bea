//! Looks at the paths of files: whether they lead to the versions that are known.
//!
//! In: looks that the planner asked for, one for each file that a batch touches first. Out: the
//! version at each path; what is known of another one is retired. Nothing is opened.

use crate::base::status::Why;
use crate::fail;
use crate::jobs::lease::{close_forgotten, write_file_path};
use crate::jobs::look_up::{look_above, note_folders};
use crate::os::store::{Fault, Path};
use crate::os::{FileKind, FileStat, profiler};
use crate::read::{LOOKS_MAX, Look, Looks, Outcome, shown};
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::{PLAN_EVERY, State};
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering::Relaxed;

/// Looks at the paths.
pub fn run<'l>(lock: &'l Lock, looks: &Looks) -> Locked<'l> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let mut found: ArrayVec<Result<FileStat, Fault>, LOOKS_MAX> = ArrayVec::new();
    let mut path = Path::new();
    for look in looks {
        let record = shared.array_record(look.array);
        path.clear();
        write_file_path(shared, look.array, record, look.file, &mut path);
        found.push(shared.store.stat_path(&path));
    }
    shared.stats.meta.observe((shared.os.now_ns)() - start, 0, 0);
    drop(range);
    for (look, found) in looks.iter().zip(&found) {
        if !found.is_ok_and(|stat| stat.kind == FileKind::REGULAR) {
            settle_odd(lock, look, *found);
        }
    }
    let mut state = lock.lock();
    for (look, found) in looks.iter().zip(found) {
        if let Ok(stat) = found
            && stat.kind == FileKind::REGULAR
        {
            settle(shared, &mut state, look.request, stat);
        }
    }
    state.plan_wanted |= !state.requests.has_looks();
    state
}

fn settle(shared: &Shared, state: &mut State, request: u32, stat: FileStat) {
    let question = *state.requests.question(request);
    note_folders(shared, state, &question, true);
    note_version(shared, state, (question.array_id, question.file), question.batch_id, stat);
    finish(state, request, Outcome::Found(stat), &Why::new());
}

/// Notes what a batch found at the path of a file.
pub fn note_version(
    shared: &Shared,
    state: &mut State,
    name: (u64, u64),
    batch_id: u64,
    stat: FileStat,
) {
    let (has_changed, evicted) = state.files.look(name, batch_id, stat);
    close_forgotten(shared, evicted);
    shared.stats.files_changed.fetch_add(u64::from(has_changed), Relaxed);
}

/// Settles a look that found no file, or could not look.
fn settle_odd(lock: &Lock, look: &Look, found: Result<FileStat, Fault>) {
    let shared = lock.shared;
    let question = *lock.lock().requests.question(look.request);
    let mut why = Why::new();
    let outcome = match found {
        Err(Fault::Absent) => look_above(lock, &question, &mut why),
        found => {
            let fault = found.map_or_else(|fault| fault, |stat| Fault::NotRegular(stat.kind));
            let (record, mut path) = (shared.array_record(look.array), Path::new());
            write_file_path(shared, look.array, record, look.file, &mut path);
            Outcome::Failed(fail!(why, Io, "{}: {fault}", shown(&path)))
        }
    };
    let state = &mut *lock.lock();
    if outcome == Outcome::Absent {
        note_folders(shared, state, &question, false);
        let name = (question.array_id, question.file);
        close_forgotten(shared, state.files.look_absent(name, question.batch_id));
        state.arrays.set_checked(question.array, question.batch_id);
    }
    finish(state, look.request, outcome, &why);
}

fn finish(state: &mut State, request: u32, outcome: Outcome, why: &Why) {
    state.requests.finish(request, outcome, None, why);
    state.plan_wanted |= state.requests.ended().is_multiple_of(u64::from(PLAN_EVERY));
}

/// The next looks: one alone where it may have to wait, so that others go to other threads.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let looks = state.requests.take_looks(if state.must_wait(shared) { 1 } else { LOOKS_MAX });
    (!looks.is_empty()).then_some(Job::Look(looks))
}
