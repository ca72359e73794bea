//! A file that is absent is a missing chunk only if nothing says otherwise.
//!
//! In: a question whose file was not found, with no lock held. Out: Absent, or why it is an error.
//! The looks, in their order, and how often each costs a call of the system:
//!
//! - the document of the array is there: once per array and batch;
//! - the nearest folder in which a file was ever found is there: once per folder and batch;
//! - chunks of the array are spelled as its document says: the folder of the array is listed at
//!   its first absence, if none of its files was found before;
//! - the file is still absent, is no link to nothing, and no file stands where a folder must be:
//!   one lstat per file, which is all of a file that was likely absent;
//! - so are the folders above it: one lstat per folder and batch.
//!
//! Invariant: within a batch an array that was gone, or a file that was found, is not a reason for
//! missing data when it exists, or is absent, later.

use crate::base::indexes::{ArraySlot, FileSlot};
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::intake::arrays::Spelled;
use crate::os::store::{Fault, Path};
use crate::os::{Errno, FileKind, FileStat};
use crate::read::{Folder, Outcome, Question, SHOWN_BYTES, document_path, folders_of, shown};
use crate::records::{ArrayRecord, DocumentKind, KeyEncoding, Spelling};
use crate::source::paths::write_array_path;
use crate::source::zarr::{spelling_of_name, write_file_key_as};
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;

/// Names of an array's folder that are looked at for the spelling of its chunks.
const SPELLED_NAMES_MAX: u32 = 256;

/// Why an absence is no missing data; the text is in `why`.
type Checked = Result<(), Status>;

/// The meaning of the absence of the file at `path`.
pub fn look_above_one(lock: &Lock, question: &Question, path: &Path, why: &mut Why) -> Outcome {
    let known = Known::of(&lock.lock(), question, lock.shared.array_record(question.array));
    look_above(lock, (question, &known), (path, false), why)
}

/// The same, with what was known before of what lies above the file. A flat file has no missing
/// chunks: it existed, whole. `is_nothing`: the path is not a link to nothing either.
pub fn look_above(
    lock: &Lock,
    (question, known): (&Question, &Known),
    (path, is_nothing): (&Path, bool),
    why: &mut Why,
) -> Outcome {
    let record = lock.shared.array_record(question.array);
    if record.flat.is_some() {
        let path = lock.shared.file_path(question.array, record, question.file);
        let text = "was there and is gone, so it is not missing data";
        return Outcome::Failed(fail!(why, Io, "{}: no such file: it {text}", shown(&path)));
    }
    let checked = check_array(lock, question, known, why)
        .and_then(|()| check_folder(lock, question, record, known, why))
        .and_then(|()| check_spelling(lock, question, record, known, why))
        .and_then(|()| match is_nothing {
            true => Ok(()),
            false => check_file(lock, path, record, question, why),
        })
        .and_then(|()| check_folders(lock, question, record, known, why));
    checked.map_or_else(Outcome::Failed, |()| Outcome::Absent)
}

/// The findings of looks before this one.
#[derive(Clone, Copy)]
pub struct Known {
    /// This batch found that the array exists.
    is_checked: bool,
    /// This batch found it, or a folder of it, gone.
    was_gone: bool,
    /// The nearest folder above the file in which one was found, if this batch did not look at it.
    nearest: Option<Folder>,
    spelled: Spelled,
    /// This batch looked at the folder of the file.
    is_looked_at: bool,
}

impl Known {
    /// The findings about what lies above the file of a question.
    pub fn of(state: &State, question: &Question, record: &ArrayRecord) -> Known {
        let Question { array, array_id, file, turn, .. } = *question;
        let nearest = state.folders.nearest(array_id, folders_of(record, file), turn);
        let folder = folders_of(record, file).next();
        let is_looked_at = |folder| state.folders.is_looked_at(array_id, folder, turn);
        Known {
            is_checked: state.arrays.is_checked(array, turn),
            was_gone: state.arrays.was_gone(array, turn),
            nearest: nearest.and_then(|(folder, is_seen)| (!is_seen).then_some(folder)),
            spelled: state.arrays.spelled(array),
            is_looked_at: folder.is_none_or(is_looked_at),
        }
    }

    /// The findings about what lies above another file of the same folder, once all of it was found
    /// in order.
    pub fn after(&self) -> Known {
        let spelled = Spelled::AsItSays;
        Known { is_checked: true, nearest: None, spelled, is_looked_at: true, ..*self }
    }
}

/// The meaning of a lookup next to others of its batch. A file that one of them found and another
/// did not is being written, or its store comes and goes: it is neither data nor missing.
pub fn beside_others(
    state: &mut State,
    (slot, question): (FileSlot, &Question),
    is_there: bool,
    (path, outcome): (&Path, Outcome),
    why: &mut Why,
) -> Outcome {
    if is_there {
        state.arrays.set_spelled(question.array, Spelled::AsItSays);
    } else if outcome != Outcome::Absent {
        return outcome;
    }
    if state.files.note_look(slot, question.turn, is_there) {
        return outcome;
    }
    Outcome::Failed(refuse_unstable(path, is_there, why))
}

/// Refuses a file that a batch found otherwise before.
pub fn refuse_unstable(path: &Path, is_there: bool, why: &mut Why) -> Status {
    let text = match is_there {
        true => "was absent before in the same batch, and is there again",
        false => "was there before in the same batch, and is gone",
    };
    fail!(why, Io, "{}: the file {text}: {UNSTABLE}", shown(path))
}

/// The fix for a store that changes while a batch is made.
const UNSTABLE: &str = "its chunks are not missing data while the store is mounted, unmounted or \
                        written: reset the loader once it is still";

/// A file was found, or the nearest folder above it that existed before: what is absent below it is
/// missing data, in this batch.
pub fn note_folders(shared: &Shared, state: &mut State, question: &Question, is_found: bool) {
    if !shared.metadata.row.has_folders {
        return;
    }
    let Question { array, array_id, file, turn, .. } = *question;
    let folders = || folders_of(shared.array_record(array), file);
    if is_found {
        state.folders.note(array_id, folders(), turn);
    } else if let Some((nearest, false)) = state.folders.nearest(array_id, folders(), turn) {
        state.folders.note(array_id, folders().skip_while(|folder| *folder != nearest), turn);
    }
}

/// The array still exists, and did in all of this batch.
fn check_array(lock: &Lock, question: &Question, known: &Known, why: &mut Why) -> Checked {
    if known.is_checked && !known.was_gone {
        return Ok(());
    }
    let (shared, array) = (lock.shared, question.array);
    let uri = shared.array_uri(array);
    if known.was_gone {
        let text = "the array, or a folder of it, was gone before in the same batch";
        return Err(fail!(why, Io, "{}: {text}: {UNSTABLE}", Tail(uri, SHOWN_BYTES)));
    }
    let path = document_path(shared.array_path(array), shared.array_record(array).document);
    shared.metadata.stat_path(&path).map(|_| ()).map_err(|fault| {
        lock.lock().arrays.set_gone(array, question.turn);
        let text = "the array was there and is gone, so its chunks are not missing data";
        fail!(why, Io, "{}: {fault}: {text}", shown(&path))
    })
}

/// The nearest folder above the file in which a file was found before still exists.
fn check_folder(
    lock: &Lock,
    question: &Question,
    record: &ArrayRecord,
    known: &Known,
    why: &mut Why,
) -> Checked {
    let (shared, turn) = (lock.shared, question.turn);
    let Some(folder) = known.nearest else { return Ok(()) };
    let path = shared.folder_path(question.array, record, folder);
    let fault = match shared.metadata.stat_path(&path) {
        Ok(FileStat { kind: FileKind::FOLDER, .. }) => return Ok(()),
        Ok(_) => Fault::Absent,
        Err(fault) => fault,
    };
    lock.lock().arrays.set_gone(question.array, turn);
    let text = "the folder was there and is gone, so the chunks in it are not missing data";
    Err(fail!(why, Io, "{}: {fault}: {text}", shown(&path)))
}

/// Chunks are spelled as the document says, as far as anybody can tell: none of them was found yet.
fn check_spelling(
    lock: &Lock,
    question: &Question,
    record: &ArrayRecord,
    known: &Known,
    why: &mut Why,
) -> Checked {
    let (shared, array) = (lock.shared, question.array);
    let wrong = match known.spelled {
        Spelled::AsItSays => return Ok(()),
        Spelled::Otherwise(spelling) => Some(spelling),
        Spelled::Unknown { .. } => match list_spellings(shared, question, record) {
            Ok(wrong) => {
                let is_right = Spelled::AsItSays;
                lock.lock().arrays.set_spelled(array, wrong.map_or(is_right, Spelled::Otherwise));
                wrong
            }
            // The folder may be entered and not listed, or no descriptor is left for that.
            Err(Fault::Failed(Errno(libc::EACCES | libc::EPERM | libc::EMFILE | libc::ENFILE)))
            | Err(Fault::Unlisted) => ask_for_other(lock, question, record),
            Err(fault) => {
                lock.lock().arrays.set_gone(array, question.turn);
                let uri = Tail(shared.array_uri(array), SHOWN_BYTES);
                return Err(fail!(why, Io, "{uri}: its folder: {fault}"));
            }
        },
    };
    wrong.map_or(Ok(()), |wrong| Err(refuse_spelling(shared, question, record, wrong, why)))
}

/// The spelling of the files in the array's folder, if all of them are spelled otherwise.
#[inline(never)] // its paths are not to stand on the stack of all that follows
fn list_spellings(
    shared: &Shared,
    question: &Question,
    record: &ArrayRecord,
) -> Result<Option<Spelling>, Fault> {
    // A host lists a folder to its end, which takes many requests if its chunks lie in it.
    if !shared.metadata.row.has_folders {
        return Err(Fault::Unlisted);
    }
    let (mut other, mut is_own) = (None, false);
    shared.metadata.list(shared.array_path(question.array), SPELLED_NAMES_MAX, &mut |entry| {
        match spelling_of_name(record, entry.name, entry.may_be_folder) {
            Some(spelling) if spelling == record.spelling() => is_own = true,
            Some(spelling) => other = Some(spelling),
            None => {}
        }
    })?;
    Ok(other.filter(|_| !is_own))
}

/// The spelling with the other separator, if a file has it and nobody lists its folder. Only the
/// first absences of an array are asked about.
#[inline(never)] // its paths are not to stand on the stack of all that follows
fn ask_for_other(lock: &Lock, question: &Question, record: &ArrayRecord) -> Option<Spelling> {
    let (shared, array) = (lock.shared, question.array);
    let other = record.spelling().with_other_separator(record)?;
    if !lock.lock().arrays.take_ask(array) {
        return None;
    }
    let path = path_as(shared, question, record, other);
    let is_there = shared.metadata.stat_path(&path).is_ok();
    if is_there {
        lock.lock().arrays.set_spelled(array, Spelled::Otherwise(other));
    }
    is_there.then_some(other)
}

/// The path of the file of a question in another spelling.
fn path_as(shared: &Shared, question: &Question, record: &ArrayRecord, as_of: Spelling) -> Path {
    let mut path = Path::new();
    write_array_path(shared.array_path(question.array), &mut path);
    let coordinates = record.file_coordinates(question.file);
    write_file_key_as(record, as_of, &coordinates[..record.axes()], &mut path);
    path
}

/// Refuses an array whose files are spelled otherwise than its document says, with the fix.
#[inline(never)] // its paths are not to stand on the stack of all that follows
fn refuse_spelling(
    shared: &Shared,
    question: &Question,
    record: &ArrayRecord,
    found: Spelling,
    why: &mut Why,
) -> Status {
    let path = path_as(shared, question, record, record.spelling());
    let wanted = Spelling::key_of(path.as_str(), shared.array_path(question.array));
    let other = path_as(shared, question, record, found);
    let other = Spelling::key_of(other.as_str(), shared.array_path(question.array));
    let document = document_path(shared.array_path(question.array), record.document);
    let separator = char::from(found.separator);
    let shown = shown(&document);
    let text = "not one of its files has a name as its document requires";
    match (record.document, found.encoding) {
        (DocumentKind::Zarr2Array, KeyEncoding::V2) => fail!(
            why,
            Decode,
            "{shown}: {text}, {wanted}, but there are some like {other}: give it \
             \"dimension_separator\": \"{separator}\""
        ),
        (_, encoding) => fail!(
            why,
            Decode,
            "{shown}: {text}, {wanted}, but there are some like {other}: give it \
             \"chunk_key_encoding\": {{\"name\": \"{}\", \"configuration\": {{\"separator\": \
             \"{separator}\"}}}}",
            if encoding == KeyEncoding::V2 { "v2" } else { "default" }
        ),
    }
}

/// The file is absent and nothing else: no link to nothing, no file in the place of a folder.
fn check_file(
    lock: &Lock,
    path: &Path,
    record: &ArrayRecord,
    question: &Question,
    why: &mut Why,
) -> Checked {
    let shared = lock.shared;
    match shared.metadata.stat_link(path) {
        Err(Errno(libc::ENOENT)) => Ok(()),
        Err(Errno(libc::ENOTDIR)) => {
            let file = folders_of(record, question.file)
                .map(|folder| shared.folder_path(question.array, record, folder));
            let is_file = |path: &Path| {
                let kind = shared.metadata.stat_path(path).map(|stat| stat.kind);
                kind.is_ok_and(|kind| kind != FileKind::FOLDER)
            };
            let file = { file }.find(is_file).unwrap_or(*path);
            let text = "is not a folder, and chunks must lie in it, so they are not missing data";
            Err(fail!(why, Io, "{}: {text}", shown(&file)))
        }
        Err(errno) => Err(fail!(why, Io, "{}: {errno}", shown(path))),
        Ok(stat) => check_link(shared, path, stat, why).and_then(|()| {
            let text = "was absent before in the same batch, and is there again";
            Err(fail!(why, Io, "{}: the file {text}: {UNSTABLE}", shown(path)))
        }),
    }
}

/// The folders above the file exist, or are absent and not links to nothing.
fn check_folders(
    lock: &Lock,
    question: &Question,
    record: &ArrayRecord,
    known: &Known,
    why: &mut Why,
) -> Checked {
    let shared = lock.shared;
    if known.is_looked_at || !shared.metadata.row.has_folders {
        return Ok(());
    }
    let Question { array, array_id, turn, .. } = *question;
    for folder in folders_of(record, question.file) {
        // The nearest one that existed before still exists.
        if known.nearest == Some(folder) {
            break;
        }
        if lock.lock().folders.is_looked_at(array_id, folder, turn) {
            break;
        }
        let is_absent = check_link_of(shared, (array, record, folder), why)?;
        lock.lock().folders.set_looked_at(array_id, folder, turn);
        if !is_absent {
            break;
        }
    }
    Ok(())
}

/// Whether a folder is absent, and no link to nothing.
#[inline(never)] // its paths are not to stand on the stack of all that follows
fn check_link_of(
    shared: &Shared,
    (array, record, folder): (ArraySlot, &ArrayRecord, Folder),
    why: &mut Why,
) -> Result<bool, Status> {
    let path = shared.folder_path(array, record, folder);
    match shared.metadata.stat_link(&path) {
        Err(Errno(libc::ENOENT)) => Ok(true),
        Err(errno) => Err(fail!(why, Io, "{}: {errno}", shown(&path))),
        Ok(stat) => check_link(shared, &path, stat, why).map(|()| false),
    }
}

/// Refuses a path at which a link to nothing lies.
fn check_link(shared: &Shared, path: &Path, stat: FileStat, why: &mut Why) -> Checked {
    if stat.kind != FileKind::LINK {
        return Ok(());
    }
    match shared.metadata.stat_path(path) {
        Ok(_) => Ok(()),
        Err(Fault::Absent) => {
            let text = "is a link to nothing, so it is not missing data: fetch what it leads to";
            Err(fail!(why, Io, "{}: {text} (git annex get, datalad get)", shown(path)))
        }
        Err(fault) => Err(fail!(why, Io, "{}: {fault}", shown(path))),
    }
}
