//! Looks at the paths of files: whether they lead to the versions that are known.
//!
//! In: looks that the planner asked for, one for each file that a batch touches first, or that is
//! likely absent. Out: the version at each path; what is known of another one is retired. Nothing
//! is opened.

use crate::base::indexes::ArraySlot;
use crate::base::stats::Stage;
use crate::base::status::Why;
use crate::fail;
use crate::intake::arrays::Spelled;
use crate::jobs::absence::{Known, look_above, note_folders, refuse_unstable};
use crate::os::store::{Fault, Path, Store};
use crate::os::{Errno, FileKind, FileStat, profiler};
use crate::read::{Folder, LOOKS_MAX, Look, Looks, Outcome, folders_of, shown};
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
    let mut found: ArrayVec<Found, LOOKS_MAX> = ArrayVec::new();
    let mut path = Path::new();
    for look in looks {
        let record = shared.array_record(look.array);
        path.clear();
        shared.write_file_path(look.array, record, look.file, &mut path);
        found.push(look_at(shared.metadata, &path));
    }
    shared.observe(Stage::Meta, start, (0, 0), shared.profiler.here());
    drop(range);
    let (mut above, mut outcomes) = (None, ArrayVec::<Outcome, LOOKS_MAX>::new());
    for (look, found) in looks.iter().zip(found) {
        outcomes.push(match found {
            Found::File(stat) => Outcome::Found(stat),
            odd => look_at_odd(lock, look, odd, &mut above),
        });
    }
    let mut state = lock.lock();
    for (look, outcome) in looks.iter().zip(outcomes) {
        settle(shared, &mut state, look, outcome);
    }
    let is_over = !state.requests.has_looks();
    state.want_plan(is_over);
    state
}

/// The kinds of things that lie at a path.
#[derive(Clone, Copy)]
enum Found {
    /// A file, or a link to one.
    File(FileStat),
    /// Nothing, and no link to nothing either.
    Nothing,
    /// Anything else.
    Odd(Fault),
}

fn look_at(store: &Store, path: &Path) -> Found {
    // If the store has links, this look distinguishes a link to nothing from an absent file.
    match store.stat_link(path) {
        Ok(stat) if stat.kind == FileKind::REGULAR => return Found::File(stat),
        Err(Errno(libc::ENOENT)) if store.row.has_folders => return Found::Nothing,
        _ => {}
    }
    match store.stat_path(path) {
        Ok(stat) if stat.kind == FileKind::REGULAR => Found::File(stat),
        Ok(stat) => Found::Odd(Fault::NotRegular(stat.kind)),
        Err(fault) => Found::Odd(fault),
    }
}

/// The findings about what lies above the files of a folder, by the array, batch and folder.
type Above = Option<((ArraySlot, u64, Option<Folder>), Known)>;

/// Whether what is no file is a missing chunk. An error ends the look.
fn look_at_odd(lock: &Lock, look: &Look, found: Found, above: &mut Above) -> Outcome {
    let shared = lock.shared;
    let (path, mut why) = (path_of(shared, look), Why::new());
    let outcome = match found {
        Found::Nothing | Found::Odd(Fault::Absent) => {
            let record = shared.array_record(look.array);
            let folder = folders_of(record, look.file).next();
            let (question, place, known, was_there) = {
                let state = &*lock.lock();
                let question = *state.requests.question(look.request);
                let place = (look.array, question.turn, folder);
                let slot = state.files.find(question.array_id, question.file);
                let was_there = slot.and_then(|slot| state.files.known(slot)).is_some();
                let known = above.filter(|(at, _)| *at == place).map(|(_, known)| known);
                let known = known.unwrap_or_else(|| Known::of(state, &question, record));
                (question, place, known, was_there)
            };
            // A file that existed before is looked at once more.
            let is_nothing = matches!(found, Found::Nothing) && !was_there;
            let outcome = look_above(lock, (&question, &known), (&path, is_nothing), &mut why);
            *above = (is_nothing && outcome == Outcome::Absent).then(|| (place, known.after()));
            outcome
        }
        Found::File(stat) => Outcome::Found(stat),
        Found::Odd(fault) => Outcome::Failed(fail!(why, Io, "{}: {fault}", shown(&path))),
    };
    if let Outcome::Failed(_) = outcome {
        finish(&mut lock.lock(), look.request, outcome, &why);
    }
    outcome
}

fn settle(shared: &Shared, state: &mut State, look: &Look, outcome: Outcome) {
    let question = *state.requests.question(look.request);
    let (name, turn) = ((question.array_id, question.file), question.turn);
    let known = state.files.find(name.0, name.1).and_then(|slot| state.files.known(slot));
    shared.stats.chunk_layout_misses.fetch_add(u64::from(known.is_none()), Relaxed);
    let is_there = match outcome {
        Outcome::Found(stat) => {
            state.arrays.set_spelled(question.array, Spelled::AsItSays);
            note_version(shared, state, name, turn, stat);
            true
        }
        Outcome::Absent => false,
        Outcome::Failed(_) | Outcome::Pending => return,
    };
    let slot = state.files.find(name.0, name.1);
    let is_stable = |slot| state.files.note_look(slot, turn, is_there);
    if !slot.is_none_or(is_stable) {
        let mut why = Why::new();
        let status = refuse_unstable(&path_of(shared, look), is_there, &mut why);
        return finish(state, look.request, Outcome::Failed(status), &why);
    }
    note_folders(shared, state, &question, is_there);
    if !is_there {
        shared.close_forgotten(state.files.look_absent(name, turn));
        state.arrays.set_checked(question.array, turn);
    }
    finish(state, look.request, outcome, &Why::new());
}

fn path_of(shared: &Shared, look: &Look) -> Path {
    shared.file_path(look.array, shared.array_record(look.array), look.file)
}

/// Notes what a batch found at the path of a file.
pub fn note_version(
    shared: &Shared,
    state: &mut State,
    name: (u64, u64),
    turn: u64,
    stat: FileStat,
) {
    let (has_changed, evicted) = state.files.look(name, turn, stat);
    shared.close_forgotten(evicted);
    shared.stats.files_changed.fetch_add(u64::from(has_changed), Relaxed);
}

fn finish(state: &mut State, request: u32, outcome: Outcome, why: &Why) {
    state.requests.finish(request, outcome, None, why);
    state.want_plan(state.requests.ended().is_multiple_of(u64::from(PLAN_EVERY)));
}

/// The next looks: one alone if it may have to wait, so that others go to other threads.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let looks =
        state.requests.take_looks(if state.must_wait_for_looks(shared) { 1 } else { LOOKS_MAX });
    (!looks.is_empty()).then_some(Job::Look(looks))
}
