//! The planner's questions about files, and what became of them.
//!
//! In: window entries. Out: entries that wait for a lookup, which equal questions share.

use crate::jobs::plan::planned::{Place, Planned};
use crate::os::FileStat;
use crate::read::Question;
use crate::read::shard_index::Shard;
use crate::records::ArrayRecord;
use crate::state::State;

/// How far a look at an entry came.
pub enum LookUp {
    /// The entry's place is known.
    Settled,
    /// The entry waits for a lookup that it did not wait for before.
    Asked,
    /// The entry waits for a lookup that has not ended.
    Pending,
    /// No lookup can be begun now.
    Full,
}

/// Asks for a page of an index.
pub fn ask(
    state: &mut State,
    entry: &mut Planned,
    inner: Option<(Shard, FileStat)>,
    page: u64,
) -> LookUp {
    let question = Question {
        array: entry.array,
        array_id: entry.array_id,
        file: entry.file,
        inner,
        page,
        is_look: false,
        turn: entry.turn,
    };
    ask_question(state, entry, question)
}

/// Asks for the version at the path of the chunk's file.
pub fn ask_look(state: &mut State, entry: &mut Planned) -> LookUp {
    let Planned { array, array_id, file, turn, .. } = *entry;
    let question = Question { array, array_id, file, inner: None, page: 0, is_look: true, turn };
    ask_question(state, entry, question)
}

fn ask_question(state: &mut State, entry: &mut Planned, question: Question) -> LookUp {
    let Some(request) = state.requests.ask(question) else { return LookUp::Full };
    entry.place = Place::Waiting(request);
    LookUp::Asked
}

/// Files that are chunks that may be looked up before those that are read.
pub fn files_ahead(state: &State) -> u64 {
    state.files.ahead_max().saturating_sub(state.waves.remaining()).max(1)
}

/// Whether each file of an array is one chunk.
pub fn is_chunk_file(record: &ArrayRecord) -> bool {
    record.shard_levels == 0 && record.flat.is_none() && !record.is_cut && record.origin.has_files
}
