//! Looks at the paths of files: whether they lead to the versions that are known.
//!
//! In: looks that the planner asked for, one for each file that a batch touches first. Out: the
//! version at each path; what is known of another one is retired. Nothing is opened.

use crate::base::status::Why;
use crate::fail;
use crate::jobs::absence::{look_above, note_folders, refuse_unstable};
use crate::jobs::lease::{close_forgotten, file_path, write_file_path};
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
            settle(shared, &mut state, look, stat);
        }
    }
    state.plan_wanted |= !state.requests.has_looks();
    state
}

fn settle(shared: &Shared, state: &mut State, look: &Look, stat: FileStat) {
    let question = *state.requests.question(look.request);
    note_folders(shared, state, &question, true);
    let name = (question.array_id, question.file);
    note_version(shared, state, name, question.batch_id, stat);
    let mut why = Why::new();
    let slot = state.files.find(question.array_id, question.file);
    let outcome = match slot.is_none_or(|slot| state.files.note_look(slot, question.batch_id, true))
    {
        true => Outcome::Found(stat),
        false => Outcome::Failed(refuse_unstable(&path_of(shared, look), true, &mut why)),
    };
    finish(state, look.request, outcome, &why);
}

fn path_of(shared: &Shared, look: &Look) -> Path {
    file_path(shared, look.array, shared.array_record(look.array), look.file)
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
    let (path, mut why) = (path_of(shared, look), Why::new());
    let mut outcome = match found {
        Err(Fault::Absent) => look_above(lock, &question, &path, &mut why),
        found => {
            let fault = found.map_or_else(|fault| fault, |stat| Fault::NotRegular(stat.kind));
            Outcome::Failed(fail!(why, Io, "{}: {fault}", shown(&path)))
        }
    };
    let state = &mut *lock.lock();
    let (array_id, file, batch_id) = (question.array_id, question.file, question.batch_id);
    if outcome == Outcome::Absent {
        let slot = state.files.find(array_id, file);
        if slot.is_some_and(|slot| !state.files.note_look(slot, batch_id, false)) {
            outcome = Outcome::Failed(refuse_unstable(&path, false, &mut why));
        }
    }
    if outcome == Outcome::Absent {
        note_folders(shared, state, &question, false);
        close_forgotten(shared, state.files.look_absent((array_id, file), batch_id));
        state.arrays.set_checked(question.array, batch_id);
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
