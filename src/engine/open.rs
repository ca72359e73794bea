//! Opening: one layout of all memory, counted for the bill and carved for the loader.
//!
//! In: settings and a block source. Out: a running loader. Invariant: on failure every byte,
//! descriptor and thread that was taken is given back.
//!
//! Over 500 lines because the layout of all memory stands in one place.

use crate::base::abi::{HostJob, MemoryHook};
use crate::base::arena::{Carver, Region};
use crate::base::bill::{Bill, Item, Kind, Line};
use crate::base::cpus::CpuSet;
use crate::base::indexes::{LANES, Lane};
use crate::base::limits::{MEMORY_PAGE_BYTES, METADATA_SMALL_BYTES, WINDOW_BYTES};
use crate::base::snapshot::Snapshot;
use crate::base::stats::StatsCells;
use crate::base::status::{Status, Why};
use crate::base::trace::Trace;
use crate::batch::exports::Exports;
use crate::cuda::{DeviceEngine, HAS_DEVICES};
use crate::decode::{Decoder, block_need, target_bytes, target_need, workspace_need};
use crate::engine::Engine;
use crate::engine::attach::end_attached;
use crate::engine::numa::Numa;
use crate::engine::open_device::{
    add_device_lines, carve_batches, carve_fences, carve_rows, carve_staging, open_engine,
};
use crate::engine::requests::Drafts;
use crate::engine::segments;
use crate::engine::stacks::{Stack, Stacks};
use crate::engine::ways_out::{log_bill, log_geometry, name_largest_line};
use crate::fail;
use crate::finish::PASSES;
use crate::jobs::plan::window::Planner;
use crate::os::allotted::{Left, memory_left};
use crate::os::asked::Asked;
use crate::os::folder::Folder;
use crate::os::memory::{Block, Paged};
use crate::os::profiler::Profiler;
use crate::os::sink::{Level, Sink};
use crate::os::store::{Metadata, Store};
use crate::os::sync::Mutex;
use crate::os::workers::Workers;
use crate::os::{Os, SYSTEM, Thread, ThreadStart, start_thread};
use crate::records::ArrayRecord;
use crate::setup::geometry::{Geometry, chunk_cap_of_scratch};
use crate::setup::settings::{Floor, Settings};
use crate::state::State;
use crate::state::attached::Attached;
use crate::state::lock::{Condition, Lock};
use crate::state::owned::{Owned, Sharing};
use crate::state::shared::{Padding, Paddings, Shared};
use crate::state::worker::{DecodeContext, Worker};
use crate::wave::WaveTables;
use core::ffi::c_void;

/// Most descriptors of a loader that the config does not ask for. A sample that finds its file
/// closed costs twice what one costs that finds it open, so ten thousand arrays keep theirs open if
/// the process may have eight times as many.
const OPEN_FILES_MAX: u64 = 1 << 16;

/// The memory budget of a config, and the geometry of it.
#[inline(never)] // as said of `layout`
pub fn bill(settings: &Settings, why: &mut Why) -> Result<(Bill, Geometry), Status> {
    let total = |geometry: &Geometry| host_total(&count(settings, geometry));
    let solved = settings.solve(target_bytes, total, why);
    let geometry = solved.inspect_err(|status| {
        let floor = floor_bill(settings);
        if host_total(&floor) > settings.host_bytes_max() {
            name_largest_line(*status, &floor, why);
        }
    })?;
    Ok((count(settings, &geometry), geometry))
}

/// The bytes of a config's block, and the geometry of it, if the system allots what it takes.
#[inline(never)] // as said of `layout`
fn planned(os: &'static Os, settings: &Settings, why: &mut Why) -> Result<(u64, Geometry), Status> {
    let (bill, geometry) = bill(settings, why)?;
    refuse_beyond(os, settings, &bill, why)?;
    Ok((bill.total(Kind::Host), geometry))
}

/// Refuses a budget beyond what the system allots. A block that the caller gives is there already,
/// or its allocator knows better.
#[inline(never)] // its texts are not to stand on the stack of a bill
fn refuse_beyond(os: &Os, settings: &Settings, bill: &Bill, why: &mut Why) -> Result<(), Status> {
    let (config, hook) = (&settings.config, &settings.config.memory);
    let is_callers = !hook.host_block.is_null() || hook.alloc.is_some();
    let need = host_total(bill) - if is_callers { bill.total(Kind::Host) } else { 0 };
    if config.check_memory == 0 {
        return Ok(());
    }
    let Some(Left { bytes, limit }) = memory_left(os).filter(|left| left.bytes < need) else {
        return Ok(());
    };
    let status = fail!(
        why,
        OutOfMemory,
        "this config takes {need} bytes of memory, and {limit} leaves {bytes} (check_memory = 0 \
         opens it nevertheless)"
    );
    name_largest_line(status, bill, why);
    Err(status)
}

/// The least bill that a config can be opened with.
pub fn floor_bill(settings: &Settings) -> Bill {
    count(settings, &settings.floor_geometry(target_bytes))
}

/// The least max_chunk_uncompressed_bytes of an array. Memory that bz2 and lzma work in is part of
/// it.
pub fn chunk_cap(record: &ArrayRecord) -> u64 {
    let scratch = match workspace_need(record) {
        0 => 0,
        _ => target_need(record) + block_need(record, &[]),
    };
    chunk_cap_of_scratch(scratch).max(record.working_bytes())
}

/// The least host memory that a config can be opened with.
#[inline(never)] // as said of `layout`
pub fn floor(settings: &Settings) -> Floor {
    let bill = floor_bill(settings);
    let lines = bill.lines().iter().filter(|line| is_table(settings, line));
    Floor { bytes: host_total(&bill), tables_bytes: lines.map(|line| line.bytes).sum() }
}

/// Whether a line of the bill is a table, or stacks, of a size that the config says. Batches and
/// the chunk cache have their own part of a derived cap; scratch and staging share the rest of it.
fn is_table(settings: &Settings, line: &Line) -> bool {
    match line.item {
        Item::BatchSlots | Item::ChunkCache | Item::ChunkCacheTables => false,
        Item::CommonScratch | Item::StagingSlabs | Item::DeviceWaves => false,
        Item::DecodeScratch | Item::Decoders => settings.config.n_decode_threads > 0,
        _ => line.kind == Kind::Host,
    }
}

fn host_total(bill: &Bill) -> u64 {
    bill.total(Kind::Host) + bill.total(Kind::Pinned) + bill.total(Kind::Shared)
}

fn count(settings: &Settings, geometry: &Geometry) -> Bill {
    let mut carver = Carver::counting();
    let stacks = Stacks::carve(&mut carver, &SYSTEM, settings);
    let scratch = Region::of(carve_scratch(&mut carver, geometry));
    carve_fences(&mut carver, settings);
    let counted = (&Values::COUNTED, None);
    // Counting builds nothing.
    let mut sharing = Sharing::default();
    let places = (scratch, stacks, &mut sharing);
    let _ = layout(&mut carver, (&SYSTEM, settings), geometry, places, counted);
    let mut bill = carver.bill().clone();
    if settings.is_owner() {
        bill.add(Item::BatchSlots, Kind::Shared, segments::shared_bytes(settings));
    }
    add_device_lines(&mut bill, settings, geometry);
    bill
}

/// A loader and the block that it lives in.
#[derive(Clone, Copy)]
pub struct Opened {
    /// The loader, valid until `give_back`.
    pub loader: &'static Engine,
    pub(super) taken: Taken,
}

/// The memory that open takes of the host, and gives back as it was.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) block: Block,
    stacks: Stacks,
    /// Addresses of windows.
    pub(super) windows: Option<Region>,
}

impl Taken {
    fn give_back(&self, os: &Os, hook: &MemoryHook) {
        unmap_windows(os, self.windows);
        // The owner of the block gets it back as it was; of the system's, pages may be gone
        // already.
        if !self.block.is_systems() {
            self.stacks.lift(os);
        }
        self.block.give_back(os, hook);
    }
}

impl Opened {
    /// Gives the memory back. The loader's close has returned Ok and nobody uses it any more.
    pub fn give_back(self) {
        let os = self.loader.shared.os;
        let hook = self.loader.shared.settings.config.memory;
        let shared = self.loader.shared;
        shared.sharing.owned.iter().for_each(|owned| end_owned(os, owned));
        shared.sharing.attached.iter().for_each(|attached| end_attached(os, attached));
        if let Some(engine) = self.loader.shared.engine() {
            engine.close();
        }
        self.taken.give_back(os, &hook);
    }
}

/// The number by which the surfaces know a loader, and the entry of the host's jobs.
#[derive(Clone, Copy)]
pub struct Handle {
    /// The token of the loader.
    pub token: u64,
    /// A job that enters the loader whose token is its argument.
    pub job: HostJob,
}

/// Opens a loader: takes its memory, builds it, starts its threads.
pub fn open(
    os: &'static Os,
    settings: &Settings,
    handle: Handle,
    attached: Option<Paged<Attached>>,
    numa: &mut Numa,
    why: &mut Why,
) -> Result<Opened, Status> {
    let mut sharing = Sharing { attached, ..Sharing::default() };
    let solved = planned(os, settings, why);
    let solved = solved.inspect_err(|status| log_refusal(os, settings, *status));
    let opened = solved.and_then(|plan| {
        let preferred = numa.prefer(os, settings.is_owner());
        let owned = segments::take(os, settings, why);
        drop(preferred);
        sharing.owned = owned?;
        sharing.records = segments::shared_records(os, settings, &sharing);
        open_with(os, settings, (handle, plan), (&mut sharing, numa), why)
    });
    // A loader that was made gave them back itself.
    sharing.owned.iter().for_each(|owned| end_owned(os, owned));
    sharing.attached.iter().for_each(|attached| end_attached(os, attached));
    opened
}

fn end_owned(os: &Os, owned: &Paged<Owned>) {
    segments::give_back(os, owned);
    owned.end(os);
}

#[inline(never)] // its values are not to stand on the stack of what is counted before
fn open_with(
    os: &'static Os,
    settings: &Settings,
    (handle, (bytes, geometry)): (Handle, (u64, Geometry)),
    (sharing, numa): (&mut Sharing, &mut Numa),
    why: &mut Why,
) -> Result<Opened, Status> {
    let (hook, mut values) = (settings.config.memory, values_from_settings(settings));
    let windows = reserve_windows(os, settings, why)?;
    let block = Block::take(os, &hook, bytes, why).inspect_err(|status| {
        unmap_windows(os, windows);
        name_largest_line(*status, &count(settings, &geometry), why);
    })?;
    numa.bind(os, &block);
    (values.host_bytes, values.handle) = (bytes, handle);
    let mut carver = block.carver();
    // First, so that guards lie side by side with nothing else in a huge page.
    let stacks = Stacks::carve(&mut carver, os, settings);
    let taken = Taken { block, stacks, windows };
    let scratch = carve_scratch(&mut carver, &geometry);
    let fences = carve_fences(&mut carver, settings);
    let mut engine = None;
    let preferred = numa.prefer(os, settings.is_cuda());
    let made = open_engine(settings, &geometry, scratch, (&mut engine, fences), why);
    drop(preferred);
    values.numa = Some(&*numa);
    if let Err(status) = made {
        taken.give_back(os, &hook);
        return Err(status);
    }
    let made = (&values, Some(&mut engine));
    let places = (Region::of(scratch), stacks, sharing);
    let placed = layout(&mut carver, (os, settings), &geometry, places, made);
    let Some((loader, starts)) = placed else {
        if let Some(engine) = engine.as_ref().filter(|_| HAS_DEVICES) {
            engine.close();
        }
        taken.give_back(os, &hook);
        return Err(fail!(why, Internal, "the zstd workspace does not fit"));
    };
    assert!(carver.bill().total(Kind::Host) == bytes);
    loader.lock.init();
    loader.lock.lock().slots.set_loader(handle.token);
    loader.lock.lock().windows.set_place(taken.windows);
    let opened = Opened { loader, taken };
    stacks.tell(&loader.shared.sink);
    if let Err(status) = start_threads(loader, starts, why) {
        // Closing waits for the threads that did start; nothing was read, so they end at once.
        let closed = opened.close(u64::MAX, &|| true);
        assert!(closed.is_ok());
        opened.give_back();
        return Err(status);
    }
    log_opened(loader);
    Ok(opened)
}

/// Logs what a loader was opened with, and where.
fn log_opened(loader: &Engine) {
    let shared = loader.shared;
    let (settings, sink) = (&shared.settings, &shared.sink);
    log_geometry(shared, || count(settings, &shared.geometry));
    log_placement(loader);
    if HAS_DEVICES {
        let reason = settings.backend_reason.as_str();
        sink.log(Level::Info, 0, format_args!("backend {reason}"));
    }
}

/// Logs what a config takes at least, if its budget is too small for that.
#[inline(never)] // as said of `layout`
fn log_refusal(os: &'static Os, settings: &Settings, status: Status) {
    if status == Status::Budget {
        log_bill(&sink_of(os, settings), Level::Warn, &floor_bill(settings));
    }
}

fn sink_of(os: &'static Os, settings: &Settings) -> Sink {
    let config = &settings.config;
    Sink::new(os, config.log, config.log_level, config.log_quiet == 1)
}

#[inline(never)] // its text is not to stand on the stack of an open
fn log_placement(loader: &Engine) {
    let (level, placement) = loader.placement();
    loader.shared.sink.log(level, 0, format_args!("placement: {placement}"));
}

/// The addresses of the windows of mapped files, if there are any.
fn reserve_windows(os: &Os, settings: &Settings, why: &mut Why) -> Result<Option<Region>, Status> {
    let bytes = u64::from(settings.windows) * WINDOW_BYTES;
    let reserved = (bytes > 0).then(|| (os.reserve)(bytes)).transpose();
    let text = "bytes of addresses for mapped files: lower map_bytes_max";
    reserved.map_err(|errno| fail!(why, OutOfMemory, "no {bytes} {text}: {errno}"))
}

fn unmap_windows(os: &Os, windows: Option<Region>) {
    windows.into_iter().for_each(|place| (os.unmap)(place.start(), place.bytes()));
}

/// The values that are derived from the settings once, apart from sizes.
struct Values<'a> {
    paddings: Paddings,
    host_bytes: u64,
    handle: Handle,
    numa: Option<&'a Numa>,
}

fn values_from_settings<'a>(settings: &Settings) -> Values<'a> {
    let mut values = Values::COUNTED;
    for field in &settings.fields {
        values.paddings.push(Padding {
            mode: field.pad_mode,
            element: field.pads_value.then_some(field.pad_element),
            empty_element: field.pad_element,
        });
    }
    values
}

impl Values<'_> {
    /// The values of a loader that is only counted.
    const COUNTED: Values<'static> = Values {
        paddings: Paddings::new_const(),
        host_bytes: 0,
        handle: Handle { token: 0, job: no_job },
        numa: None,
    };
}

extern "C" fn no_job(_argument: *mut c_void) {}

/// Files that the table of files may hold open, as many as it knows at the most. Derived: an eighth
/// of the descriptors that the process may have, because several loaders and the trainer share
/// them; 64 at least, if that leaves the host half of its own.
fn open_files_max(os: &Os, settings: &Settings) -> u32 {
    // Files of a host have no descriptors.
    if settings.config.files.size.is_some() {
        return settings.config.n_chunk_layout_cache;
    }
    let limit = (os.open_files_max)();
    let half = (limit.saturating_sub(32) / 2).max(4);
    let descriptors = match u64::from(settings.config.max_open_files) {
        0 => (limit / 8).max(64).min(half).min(OPEN_FILES_MAX),
        given => given,
    };
    let files = descriptors.clamp(1, u64::from(u32::MAX)) as u32;
    files.min(settings.config.n_chunk_layout_cache)
}

/// The first piece beside the stacks, because opening a device works in it before others exist.
fn carve_scratch(carver: &mut Carver, geometry: &Geometry) -> &'static mut [u8] {
    carver.bytes(Item::CommonScratch, geometry.pool_bytes, MEMORY_PAGE_BYTES)
}

/// Counts or builds everything else that a loader has. None while counting. Large values are built
/// in functions of their own and lie beside the loader: all of it at once is too much for the stack
/// of a caller.
fn layout(
    carver: &mut Carver,
    (os, settings): (&'static Os, &Settings),
    geometry: &Geometry,
    (common_scratch, stacks, sharing): (Region, Stacks, &mut Sharing),
    (values, engine): (&Values<'_>, Option<&mut Option<DeviceEngine>>),
) -> Option<(&'static Engine, &'static [Start])> {
    let opened = engine.as_deref().and_then(Option::as_ref);
    let batches = carve_batches(carver, settings, (opened, sharing.samples()));
    let tables = carve_tables(carver, settings, geometry, opened);
    let (device_tiles, device_streams) = carve_rows(carver, settings, geometry);
    let exports = Exports::carve(carver, settings.batch_records(), settings.fields.len() as u32);
    let (chunk_memory, resample_memory) = carve_memory(carver, settings);
    let (workers, is_whole) = carve_workers(carver, settings, geometry);
    let (drafts, threads) = (Drafts::carve(carver, settings), carve_threads(carver, settings));
    let (planners, cpus) = (carve_planner(carver, settings), carve_cpus(carver, settings));
    let states = carve_common(carver, os, settings, geometry, (common_scratch, sharing));
    let engine = carve_engine(carver, engine.filter(|_| is_whole));
    let make = |(lock, stats, folder, stores, profiler, settings): Common| Shared {
        os,
        settings,
        geometry: *geometry,
        process_id: (os.process_id)(),
        token: values.handle.token,
        store: *stores.0,
        metadata: stores.1,
        folder,
        asked: Asked(settings.config.source),
        sink: sink_of(os, settings),
        profiler,
        stats,
        host_bytes: values.host_bytes,
        views: lock.lock().views(),
        passes: &PASSES,
        tables,
        batches,
        engine,
        device_tiles,
        device_streams,
        exports,
        chunk_memory,
        resample_memory,
        paddings: values.paddings.clone(),
        sharing: core::mem::take(sharing),
        cpus,
    };
    let shared = place_some(carver, || states.map(make));
    let make = |(shared, (state, ..)): (&'static Shared, Common)| Engine {
        shared,
        lock: Lock::new(shared, state),
        host: Workers::new(settings.config.workers, values.handle.job, values.handle.token),
        planners: planners.map(Mutex::new),
        drafts,
        workers,
        threads,
        numa: values.numa.copied().unwrap_or(Numa::OFF),
    };
    let loader = place_some(carver, || shared.zip(states).map(make)).filter(|_| is_whole);
    loader.zip(Some(carve_starts(carver, settings, loader, stacks)))
}

/// A value of which there is none while counting.
fn place_some<T>(carver: &mut Carver, make: impl FnOnce() -> Option<T>) -> Option<&'static T> {
    carver.place(Item::Instance, make).and_then(Option::as_ref)
}

/// The memory of the chunk cache, and that of boxes with a map.
fn carve_memory(carver: &mut Carver, settings: &Settings) -> (Region, Region) {
    let chunks = carver.region(Item::ChunkCache, settings.cache_memory_bytes);
    (chunks, carver.region(Item::Resampling, settings.resample_bytes()))
}

#[inline(never)] // as said of `layout`
fn carve_planner(
    carver: &mut Carver,
    settings: &Settings,
) -> [Option<&'static mut Planner>; LANES] {
    let lanes = if settings.config.n_readers > 0 { LANES as u64 } else { 1 };
    let mut lane = Lane::ALL.into_iter();
    let planners = carver.slice_from(Item::PlanWindow, lanes, |carver| {
        Planner::carve(carver, settings, lane.next().unwrap_or(Lane::Samples))
    });
    let mut planners = planners.iter_mut();
    [(); LANES].map(|()| planners.next())
}

/// The parts next to the loader: its state, its figures, its folder, its files twice, where events
/// go, and its settings.
type Common = (
    &'static Mutex<State>,
    &'static StatsCells,
    &'static Folder,
    (&'static Store, &'static Store),
    Profiler,
    &'static Settings,
);

fn carve_common(
    carver: &mut Carver,
    os: &'static Os,
    settings: &Settings,
    geometry: &Geometry,
    (common_scratch, sharing): (Region, &Sharing),
) -> Option<Common> {
    let folder = carver.place(Item::Instance, || Folder::current(os));
    let shared = (common_scratch, sharing);
    let states = carve_state(carver, os, settings, geometry, shared);
    let stores = carve_stores(carver, os, settings, states.map(|(_, stats)| stats));
    let trace = Trace::carve(carver, settings.config.trace_events);
    let profiler = Profiler::new(settings.config.profiler, trace, os);
    let kept = carver.place(Item::Instance, || settings.clone());
    let states = states.zip(folder).zip(stores).zip(kept);
    states.map(|((((lock, stats), folder), stores), kept)| {
        (lock, stats, folder, stores, profiler, kept)
    })
}

/// The files, for reads of chunks and for metadata.
#[inline(never)] // as said of `layout`
fn carve_stores(
    carver: &mut Carver,
    os: &'static Os,
    settings: &Settings,
    stats: Option<&'static StatsCells>,
) -> Option<(&'static Store, &'static Store)> {
    let config = &settings.config;
    let store = place_some(carver, || Some(Store::new(os, config.files, config.store)));
    // They were read and checked before.
    let (known, count) = config.metadata.read(&mut Why::new()).unwrap_or((&[], 0));
    let snapshot = Snapshot::carve(carver, known, count);
    let latency = config.metadata_latency;
    let make = |(stats, store)| Metadata::new(store, os, stats, latency);
    let metadata = place_some(carver, || stats.zip(store).map(make));
    let make = |(metadata, store): (_, &Store)| store.for_metadata(metadata).with(snapshot);
    let metadata = place_some(carver, || metadata.zip(store).map(make));
    store.zip(metadata)
}

/// The state that the lock guards, and the figures.
#[inline(never)] // as said of `layout`
fn carve_state(
    carver: &mut Carver,
    os: &Os,
    settings: &Settings,
    geometry: &Geometry,
    shared: (Region, &Sharing),
) -> Option<(&'static Mutex<State>, &'static StatsCells)> {
    let files_max = if carver.is_counting() { 1 } else { open_files_max(os, settings) };
    let make = |carver: &mut Carver| {
        Mutex::new(State::carve(carver, settings, geometry, files_max, shared))
    };
    let locks = carver.slice_from(Item::Instance, 1, make);
    let stats = carver.slice_from(Item::Instance, 1, |_| StatsCells::default());
    locks.first().zip(stats.first())
}

/// The engine in its place.
#[inline(never)] // as said of `layout`
fn carve_engine(
    carver: &mut Carver,
    mut engine: Option<&mut Option<DeviceEngine>>,
) -> Option<&'static DeviceEngine> {
    let take = |_: &mut Carver| engine.as_mut().and_then(|engine| engine.take());
    carver.slice_from(Item::Instance, 1, take).first().and_then(Option::as_ref)
}

fn carve_tables(
    carver: &mut Carver,
    settings: &Settings,
    geometry: &Geometry,
    engine: Option<&DeviceEngine>,
) -> WaveTables {
    let staging = carve_staging(carver, settings, geometry, engine);
    WaveTables::carve(carver, settings.wave_counts(), staging)
}

/// The CPUs that the config names, if it does.
#[inline(never)] // as said of `layout`
fn carve_cpus(carver: &mut Carver, settings: &Settings) -> Option<&'static CpuSet> {
    let table = settings.config.cpus;
    // It was read and checked before.
    let set = |_: &mut Carver| table.read(&mut Why::new()).ok().flatten().unwrap_or(CpuSet::EMPTY);
    carver.slice_from(Item::Instance, u64::from(!table.is_none()), set).first()
}

/// A place for the handle of each own thread.
fn carve_threads(carver: &mut Carver, settings: &Settings) -> &'static [Mutex<Option<Thread>>] {
    carver.slice_from(Item::Workers, u64::from(settings.thread_count()), |_| Mutex::new(None))
}

/// The function of each own thread, and its stack.
#[inline(never)] // as said of `layout`
fn carve_starts(
    carver: &mut Carver,
    settings: &Settings,
    loader: Option<&'static Engine>,
    stacks: Stacks,
) -> &'static [Start] {
    let mut number = 0;
    carver.slice_from(Item::Workers, settings.thread_count() as u64, |carver| {
        number += 1;
        Start {
            main: Engine::thread_main,
            refuse: Engine::thread_refused,
            argument: loader,
            number: number - 1,
            stack: stacks.part(carver, settings, number - 1),
            need_bytes: Stack::of(settings, number - 1).need_bytes,
        }
    })
}

/// The contexts of all workers, and whether each that decodes got its decoder.
#[inline(never)] // as said of `layout`
fn carve_workers(
    carver: &mut Carver,
    settings: &Settings,
    geometry: &Geometry,
) -> (&'static [Mutex<Worker>], bool) {
    let mut is_whole = true;
    let mut number = 0;
    let workers = carver.slice_from(Item::Workers, settings.worker_count() as u64, |carver| {
        number += 1;
        let decodes = number <= settings.decode_threads;
        let worker = carve_worker(carver, geometry, decodes);
        is_whole &= carver.is_counting() || worker.context.decoder.is_some() == decodes;
        Mutex::new(worker)
    });
    (workers, is_whole)
}

fn carve_worker(carver: &mut Carver, geometry: &Geometry, decodes: bool) -> Worker {
    let scratch = |bytes: u64| if decodes { bytes } else { 0 };
    let mut part = |bytes| carver.bytes(Item::DecodeScratch, scratch(bytes), MEMORY_PAGE_BYTES);
    let staging = part(geometry.staging_bytes);
    let target = part(geometry.target_bytes);
    let block = part(geometry.block_bytes);
    let buffer_bytes = if decodes { 0 } else { METADATA_SMALL_BYTES as u64 };
    let own_buffer = carver.bytes(Item::IoBuffers, buffer_bytes, MEMORY_PAGE_BYTES);
    let decoder = if decodes { Decoder::carve(carver) } else { None };
    let context = DecodeContext { decoder, target, block, large: None, decoded_ns: 0 };
    Worker { staging, context, own_buffer }
}

type Start = ThreadStart<Engine>;

/// Starts all threads and waits until each runs with enough of its stack left.
fn start_threads(
    loader: &'static Engine,
    starts: &'static [Start],
    why: &mut Why,
) -> Result<(), Status> {
    for (started, (start, handle)) in starts.iter().zip(loader.threads).enumerate() {
        {
            let state = &mut *loader.lock.lock();
            state.threads.alive += 1;
            state.threads.starting += 1;
        }
        match start_thread(loader.shared.os, start) {
            Ok(thread) => *handle.lock() = Some(thread),
            Err(errno) => {
                let state = &mut *loader.lock.lock();
                state.threads.alive -= 1;
                state.threads.starting -= 1;
                let note = match errno.0 {
                    libc::EINVAL => "large thread-local variables of the program fill our stacks: ",
                    _ => "raise RLIMIT_NPROC, or the pids limit of the container, or ",
                };
                let config = &loader.shared.settings.config;
                return Err(fail!(
                    why,
                    OutOfMemory,
                    "starting threads: {started} of {} were, the next one: {errno}: {note}lower \
                     n_io_threads = {} or n_decode_threads (of which there are {}), or set \
                     thread_mode = pump or hook",
                    starts.len(),
                    config.n_io_threads,
                    loader.shared.settings.decode_threads
                ));
            }
        }
    }
    let mut state = loader.lock.lock();
    while state.threads.starting > 0 {
        state.wait(Condition::Idle);
    }
    if let Some(cpu) = state.threads.cpu_refused {
        let fix = "take it out of cpus, or ask for it where the process is started";
        return Err(fail!(why, Invalid, "cpus: this process may not use CPU {cpu}: {fix}"));
    }
    let Some(left) = state.threads.stack_left else { return Ok(()) };
    let settings = &loader.shared.settings;
    let (decode, io) = (Stack::of(settings, 0), Stack::of(settings, settings.decode_threads));
    Err(fail!(
        why,
        OutOfMemory,
        "starting threads: thread-local variables of the program leave {left} bytes of a stack. \
         It takes {} of {} to wait for storage, {} of {} to decode: make them smaller, or set \
         thread_mode = pump or hook",
        io.need_bytes,
        io.bytes,
        decode.need_bytes,
        decode.bytes
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::allotted::Allotted;
    use crate::setup::config::Config;
    use crate::setup::settings::settings_from_config;

    #[test]
    fn the_defaults_fit_their_own_cap_for_every_samples_per_batch() {
        for samples_per_batch in [1, 2, 3, 8, 31, 64, 256, 1000, 4096, 16384, 65536] {
            let mut config = Config { samples_per_batch, sample_rank: 3, ..Config::default() };
            config.sample_shape[..3].copy_from_slice(&[4, 4, 4]);
            let mut why = Why::new();
            let settings = settings_from_config(&config, &Allotted::of(2), &mut why).unwrap();
            let billed = bill(&settings, &mut why);
            assert!(billed.is_ok(), "{samples_per_batch}: {why}");
        }
    }

    #[test]
    fn derived_threads_fit_the_default_cap_on_machines_of_any_size() {
        let mut config = Config { sample_rank: 1, ..Config::default() };
        config.sample_shape[0] = 64;
        let mut threads_before = 0;
        for cpu_count in [1, 2, 16, 64, 128, 1024] {
            let mut why = Why::new();
            let mut settings =
                settings_from_config(&config, &Allotted::of(cpu_count), &mut why).unwrap();
            settings.settle(floor);
            assert!(settings.decode_threads >= threads_before.min(cpu_count));
            threads_before = settings.decode_threads;
            assert!(bill(&settings, &mut why).is_ok(), "{cpu_count}: {why}");
        }
        assert!(threads_before >= 16, "{threads_before}");
    }
}
