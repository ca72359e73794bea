//! The texts of open and pop about resources that are missing: what it waits for, or which fields
//! ask for less.
//!
//! In: a bill, an errno, the state. Out: texts.

use crate::base::bill::{Bill, Item, Kind, Line};
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::batch::slots::SlotState;
use crate::cuda::HAS_DEVICES;
use crate::fail;
use crate::os::sink::{Level, Sink};
use crate::os::store::Path;
use crate::state::State;
use crate::state::consumers::Stage;
use crate::state::device::bits;
use crate::state::shared::Shared;

/// Bytes of a path that a text shows, which has others beside it.
const PATH_SHOWN_BYTES: usize = 256;

/// Adds the fix to the text of memory that was not to be had, or is more than a cap.
#[inline(never)]
pub fn name_largest_line(status: Status, bill: &Bill, why: &mut Why) {
    let is_short = matches!(status, Status::OutOfMemory | Status::Budget);
    let lines = bill.lines().iter().filter(|line| line.kind != Kind::Device);
    if let Some(line) = lines.max_by_key(|line| line.bytes).filter(|_| is_short) {
        let (item, bytes) = (line.item, line.bytes);
        write!(why, "; {bytes} of them are for {item}: lower {}", fields_of(item));
    }
}

/// Logs a memory budget, each of its lines, and what they are together.
pub fn log_bill(sink: &Sink, level: Level, bill: &Bill) {
    if !sink.is_heard(level) {
        return;
    }
    for line in bill.lines().iter().filter(|line| line.bytes > 0) {
        let Line { item, kind, bytes } = line;
        sink.log(level, 0, format_args!("memory: {bytes} bytes, {}: {item}", kind.name()));
    }
    for kind in [Kind::Host, Kind::Pinned, Kind::Device] {
        let bytes = bill.total(kind);
        if bytes > 0 {
            sink.log(level, 0, format_args!("memory: {bytes} bytes, {}: all", kind.name()));
        }
    }
}

/// Logs what a loader was opened with: counts, sizes, and its memory budget.
pub fn log_geometry(shared: &Shared, bill: impl FnOnce() -> Bill) {
    let (settings, geometry, level) = (&shared.settings, &shared.geometry, Level::Debug);
    if !shared.sink.is_heard(level) {
        return;
    }
    let (config, per_decoder) =
        (&settings.config, (geometry.staging_bytes, geometry.target_bytes, geometry.block_bytes));
    shared.sink.log(
        level,
        0,
        format_args!(
            "geometry: {} batch slots of {} bytes, {} batches read early, {} samples in advance. \
             {} waves of {} chunks in {} bytes of staging. {} decoders of {per_decoder:?} bytes \
             and {} bytes of common scratch. {} io threads. {} readers",
            config.n_batch_slots,
            settings.slot_bytes,
            settings.early_batches(),
            settings.lookahead_samples,
            config.host_buffer_waves,
            config.max_chunks_per_wave,
            geometry.slab_bytes,
            settings.decode_threads,
            geometry.pool_bytes,
            settings.io_threads,
            config.n_readers,
        ),
    );
    log_bill(&shared.sink, level, &bill());
}

/// The fields of a config that make a line of the bill smaller.
fn fields_of(item: Item) -> &'static str {
    match item {
        Item::BatchSlots => "samples_per_batch, sample_shape or n_batch_slots",
        Item::StagingSlabs | Item::CommonScratch => {
            "max_chunk_uncompressed_bytes, or max_host_memory_bytes"
        }
        Item::DecodeScratch | Item::Decoders => "n_decode_threads or max_chunk_uncompressed_bytes",
        Item::IoBuffers => "n_io_threads",
        Item::Workers => "n_io_threads or n_decode_threads",
        Item::ThreadStacks => "n_io_threads, n_decode_threads or hook_stack_bytes",
        Item::ChunkCache | Item::ChunkCacheTables => "chunk_cache_bytes",
        Item::ArrayMetadata => "n_array_meta_cache",
        Item::PartTable => "max_npy_files",
        Item::FileLayouts => "n_chunk_layout_cache",
        Item::IndexPages => "n_shard_index_cache",
        Item::IndexLookups => "metadata_io_concurrency",
        Item::Uris => "lookahead_samples or max_boxes_per_sample",
        Item::IndexLists => {
            "max_indices_per_sample, samples_per_batch, lookahead_samples or n_readers"
        }
        Item::SampleQueue => "lookahead_samples or max_boxes_per_sample",
        Item::BatchStates => "samples_per_batch, n_batch_slots or max_boxes_per_sample",
        Item::Augmentation => "max_boxes_per_sample, samples_per_batch or lookahead_samples",
        Item::Resampling => "max_resample_bytes, or set augment to 0",
        Item::ReadsInFlight => "n_io_threads, or store.reads_max",
        _ => "samples_per_batch, max_chunks_per_wave or host_buffer_waves",
    }
}

/// Why there is no batch yet, if its reads have not begun.
const PLANNED: &str = "the next batch is being planned, its metadata and shard indexes are read \
                       (stats.meta): raise pop_timeout_ns or metadata_io_concurrency";

/// Why no batch is ready.
pub fn starved_text(state: &State, shared: &Shared) -> Why {
    let mut why = Why::new();
    let filling =
        state.slots.in_state(SlotState::Filling) + state.slots.in_state(SlotState::Finishing);
    let fenced = if HAS_DEVICES { state.slots.in_state(SlotState::Fenced) } else { 0 };
    let captured = state.device.captured.count_ones();
    let lending = state.device.lending.count_ones();
    let samples = shared.settings.config.samples_per_batch as u64;
    let lacks_place = state.slots.lacks_place();
    if lacks_place && state.slots.is_loan_fenced() {
        fail!(why, Starved, "the memory that is lent for the next batch waits for its event");
    } else if lacks_place && fenced == 0 {
        write_held(&mut why, state, shared);
    } else if lacks_place && captured > 0 {
        fail!(
            why,
            Starved,
            "{fenced} batch slots were released, {captured} of them while a stream that they \
             are used on was being captured: they are used again when the capture is over"
        );
    } else if lacks_place {
        fail!(
            why,
            Starved,
            "{fenced} batch slots were released and wait for the work that is queued on them"
        );
    } else if filling > 0 && lending > 0 {
        fail!(
            why,
            Starved,
            "{filling} batches are being filled, and boxes of {lending} of them wait until \
             tensor.event is over, which none of wavetrain's streams waits for"
        );
        write_longest_read(&mut why, state, shared);
    } else if filling > 0 {
        fail!(
            why,
            Starved,
            "reads, decodes or digests are pending for {filling} batches: compare stats.io and \
             stats.decode, or raise pop_timeout_ns"
        );
        write_longest_read(&mut why, state, shared);
    } else if state.queue.len() < samples && state.queue.next_batch(samples as u32).is_none() {
        fail!(
            why,
            Starved,
            "samples are missing for a batch: {} of {samples} are pushed; push more or flush",
            state.queue.len()
        );
    } else {
        fail!(why, Starved, "{PLANNED}");
        write_longest_read(&mut why, state, shared);
    }
    write_unattached(&mut why, state.consumers.in_stage(Stage::New));
    why
}

/// Why a box that a caller waits for is not read.
pub fn read_text(state: &State, shared: &Shared, status: Status) -> Why {
    let mut why = Why::new();
    let readers = shared.settings.config.n_readers;
    match state.slots.free_readers() {
        0 => why.fail(status, format_args!("all {readers} readers are at work (n_readers)")),
        _ if state.readers.lacks_staging && state.early_waves() > 0 => {
            let text = "the box waits for staging that batches have which are read early";
            why.fail(status, format_args!("{text}: release one, or raise max_host_memory_bytes"))
        }
        _ => why.fail(status, format_args!("the box is not read yet")),
    };
    write_longest_read(&mut why, state, shared);
    why
}

/// Why a reset is not over, or why nothing is taken and given before one is.
pub fn reset_text(state: &State, shared: &Shared) -> Why {
    let mut why = Why::new();
    let running = state.running;
    fail!(why, Again, "reset waits for {running} steps that run: call it again");
    write_longest_read(&mut why, state, shared);
    why
}

/// Adds which file, or array of the host, has been waited for the longest.
#[inline(never)] // the path is not to stand on the stack of all that follows
fn write_longest_read(why: &mut Why, state: &State, shared: &Shared) {
    let Some(reading) = state.longest_reading() else { return };
    let mut path = Path::new();
    match reading.file {
        Some(file) => {
            let record = shared.array_record(reading.array);
            shared.write_file_path(reading.array, record, file, &mut path);
        }
        None => path.push_str(shared.array_uri(reading.array)),
    }
    let waited = Seconds((shared.os.now_ns)().saturating_sub(reading.since_ns));
    write!(why, "; the longest wait is {waited}, for {}", Tail(path.as_str(), PATH_SHOWN_BYTES));
}

/// Who has the memory that the next batch lacks.
fn write_held(why: &mut Why, state: &State, shared: &Shared) {
    let (kept, exported) = (state.slots.kept(), state.slots.in_state(SlotState::Exported));
    if shared.settings.is_all_lent() {
        let (loans, most) =
            (state.slots.live_loans().count(), shared.settings.config.n_batch_slots);
        fail!(
            why,
            Starved,
            "no memory is lent for the next batch: lend some ({kept} batches are held, and {loans} \
             of {most} memories lent)"
        );
    } else if exported > 0 {
        let (slots, are) = if exported == 1 { ("slot", "is") } else { ("slots", "are") };
        fail!(
            why,
            Starved,
            "all {kept} batch slots are held, {exported} {slots} of them {are} kept by tensors \
             that were not deleted: release a batch or delete its tensors"
        );
    } else {
        fail!(why, Starved, "all {kept} batch slots are held: release one");
    }
    for (number, slots, ahead) in state.consumers.holders_of_slots() {
        write!(why, "; consumer {number} has {slots} of them, {ahead} not popped");
    }
    write_longest_kept(why, state, shared);
}

/// Adds the slots that a consumer holds, which the owner may lack for its next batch.
pub fn write_own(why: &mut Why, state: &State, shared: &Shared) {
    let kept = state.slots.kept();
    let memory = shared.sharing.samples().map_or(0, |samples| samples.bytes());
    let slots = memory.checked_div(shared.settings.slot_bytes).unwrap_or(0);
    if kept == 0 {
        return;
    }
    write!(why, ", which holds {kept} of {slots} batch slots");
    let exported = state.slots.in_state(SlotState::Exported);
    if exported > 0 {
        write!(why, ", {exported} of them by tensors");
    }
    let when = if u64::from(kept) < slots { "if the owner lacks slots, " } else { "" };
    let or = if exported > 0 { ", or delete its tensors" } else { "" };
    write!(why, ": {when}release a batch{or}");
    write_longest_kept(why, state, shared);
}

/// Adds the batch that is held the longest.
fn write_longest_kept(why: &mut Why, state: &State, shared: &Shared) {
    if let Some((batch, popped_ns)) = state.slots.longest_kept() {
        let held = Seconds((shared.os.now_ns)().saturating_sub(popped_ns));
        write!(why, "; batch {batch} is held the longest, for {held}");
    }
}

/// Names consumers that have not attached.
pub fn write_unattached(why: &mut Why, numbers: u64) {
    for (place, number) in bits(numbers).enumerate() {
        let before = if place == 0 { "; not attached yet: consumer " } else { ", " };
        write!(why, "{before}{number}");
    }
}

/// A time in nanoseconds, shown as "12.3 s".
struct Seconds(u64);

impl core::fmt::Display for Seconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let tenths = self.0 / 100_000_000;
        write!(f, "{}.{} s", tenths / 10, tenths % 10)
    }
}
