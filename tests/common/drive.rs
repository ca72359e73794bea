//! Streams boxes through a loader and compares every byte that comes out.
//!
//! In: a config and jobs, each with the bytes it must give. Invariant: every batch is checked for
//! number, shape, tags, statuses and content; whatever does not come within two minutes is a
//! failure.

use crate::common::cuda_sim::Simulator;
use crate::common::digest::digest;
use crate::common::fixtures::{self, Store};
use crate::common::loans::Loans;
use crate::common::oracle::{cast, has_cast};
use crate::common::platform::Platform;
use crate::common::read_boxes;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;
use std::time::Instant;
use wavetrain::abi::{HostJob, WorkersHook};
use wavetrain::config::{BACKEND_CUDA, BACKEND_HOST, Config, THREADS_HOOK, THREADS_PUMP};
use wavetrain::cuda::{Driver, DriverPath};
use wavetrain::loader::{Batch, Failure, Loader, Pop, Request};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::{Status, Why};

/// No test waits this long unless something hangs.
pub const PATIENCE_NS: u64 = 120_000_000_000;

/// A system whose page cache has everything: no read is left to another thread.
pub static WARM: Os =
    Os { read: |fd, target, at, _| (SYSTEM.read)(fd, target, at, false), ..SYSTEM };

/// What pinned memory and the stack of the device's thread may take beside the least that a config
/// asks for on the host.
const DEVICE_BYTES: u64 = 16 << 20;

/// The table of windows of mapped files, and more.
const TABLE_BYTES: u64 = 64 << 10;

/// A half-open box.
pub type Span = (Vec<i64>, Vec<i64>);

/// One box and what it must give.
#[derive(Clone)]
pub struct Job {
    pub uri: String,
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
    /// The bytes that come out, in the output type; or the status of a sample that holds pad_value.
    pub want: Result<Vec<u8>, Status>,
    /// The status of a sample that comes out.
    pub mark: Status,
}

impl Job {
    pub fn new(uri: &str, span: Span, want: Vec<u8>) -> Job {
        let (begin, end) = span;
        Job { uri: uri.to_string(), begin, end, want: Ok(want), mark: Status::Ok }
    }

    /// A box of a store as `dtype`.
    pub fn of(store: &Store, span: Span, dtype: Dtype) -> Job {
        let source = store.image.inside(&span.0, &span.1);
        Job::new(&store.uri, span, cast(store.image.dtype, dtype, &source))
    }

    pub fn failing(uri: &str, span: Span, status: Status) -> Job {
        Job { want: Err(status), ..Job::new(uri, span, Vec::new()) }
    }

    /// The request; its tag tells its number without being it.
    pub fn request(&self, number: usize) -> Request<'_> {
        Request { uri: &self.uri, begin: &self.begin, end: &self.end, tag: tag(number) }
    }

    /// Extents of the box.
    pub fn extents(&self) -> Vec<u64> {
        extents(&(self.begin.clone(), self.end.clone()))
    }
}

fn extents(span: &Span) -> Vec<u64> {
    span.0.iter().zip(&span.1).map(|(begin, end)| (end - begin) as u64).collect()
}

/// The tag of the n-th job of a stream.
pub fn tag(number: usize) -> u64 {
    0xA5A5_0000_0000_0000 | number as u64
}

/// A config that takes little memory and few threads, so that a test can open hundreds.
pub fn config(dtype: Dtype, sample_shape: &[u64], samples_per_batch: usize) -> Config {
    let mut config = Config {
        samples_per_batch: samples_per_batch as u32,
        sample_rank: sample_shape.len() as u32,
        dtype: dtype as u32,
        backend: BACKEND_HOST,
        max_chunk_uncompressed_bytes: 1 << 20,
        max_host_memory_bytes: 40 << 20,
        max_chunks_per_wave: 64,
        n_io_threads: 2,
        n_decode_threads: 2,
        metadata_io_concurrency: 4,
        n_array_meta_cache: 16,
        n_shard_index_cache: 64,
        n_chunk_layout_cache: 64,
        ..Config::default()
    };
    config.sample_shape[..sample_shape.len()].copy_from_slice(sample_shape);
    config
}

/// Opens a loader, or says why not.
pub fn open(config: &Config) -> Loader {
    Loader::open_on(&SYSTEM, config).unwrap_or_else(|failure| panic!("open: {failure}"))
}

/// The driver that `WAVETRAIN_TEST_DRIVER` names, on a machine that has one.
pub fn named_driver() -> Option<&'static CStr> {
    static NAMED: OnceLock<Option<CString>> = OnceLock::new();
    static KEPT: OnceLock<()> = OnceLock::new();
    let name = || CString::new(std::env::var("WAVETRAIN_TEST_DRIVER").ok()?).ok();
    let named = NAMED.get_or_init(name).as_deref()?;
    KEPT.get_or_init(|| keep_context(named));
    Some(named)
}

/// The config on device 0 of the driver that is named, if one is; else as it was.
pub fn on_named_device(config: Config) -> Config {
    let Some(driver) = named_driver() else { return config };
    let cuda_driver = DriverPath::from_static(driver);
    Config { backend: BACKEND_CUDA, device: 0, cuda_driver, ..config }
}

/// Retains the primary context that loaders stream in until the process ends. Of a real device it
/// takes a good part of a second to make one anew for each loader.
fn keep_context(driver: &'static CStr) {
    let found = Driver::load(DriverPath::from_static(driver), &mut Why::new());
    // Where there is no device, open says so.
    let Ok(driver) = found else { return };
    let _ = driver.device_get(0).and_then(|device| driver.device_primary_ctx_retain(device));
}

/// Streams the jobs through a new loader and checks all that comes out; the number of bytes. What
/// is streamed on the host is streamed on a device as well: that of the driver that is named, else
/// the simulated one, where it can be built; there some of it again without threads of ours. Some
/// is streamed out of mapped files as well, some read into memory of the test, and some streamed
/// into such.
pub fn stream(config: &Config, jobs: &[Job]) -> usize {
    let bytes = stream_as_configured(config, jobs);
    if config.backend != BACKEND_HOST {
        return bytes;
    }
    if pick(jobs).is_multiple_of(4) {
        let mut mapping = Config { map_uncompressed: 1, ..*config };
        if mapping.max_host_memory_bytes != 0 {
            mapping.max_host_memory_bytes += TABLE_BYTES;
        }
        assert_eq!(stream_as_configured(&mapping, jobs), bytes);
    }
    if pick(jobs) % 3 == 1 {
        read_each(config, jobs);
    }
    if pick(jobs) % 3 == 2 {
        let lent = Config { lent_slots: 1 + (pick(jobs) >> 4) as u32 % 3, ..*config };
        assert_eq!(stream_as_configured(&lent, jobs), bytes);
    }
    let simulator = if named_driver().is_some() { None } else { Simulator::take() };
    let named = named_driver().map(DriverPath::from_static);
    if let Some(cuda_driver) = named.or(simulator.as_ref().map(Platform::driver_path)) {
        let digest = (pick(jobs) >> 8) as u32 % 2;
        let mut device =
            Config { backend: BACKEND_CUDA, device: 0, cuda_driver, digest, ..*config };
        if device.max_host_memory_bytes != 0 {
            device.max_host_memory_bytes += DEVICE_BYTES;
        }
        assert_eq!(stream_as_configured(&device, jobs), bytes);
        match pick(jobs) % 8 {
            0 => assert_eq!(stream_by_polls_alone(&in_hook_mode(&device), jobs, || ()), bytes),
            1 => {
                let pumped = Config { thread_mode: THREADS_PUMP, ..device };
                assert_eq!(stream_as_configured(&pumped, jobs), bytes);
            }
            2 => read_each(&device, jobs),
            _ => {}
        }
    }
    bytes
}

/// Reads the boxes into memory of the test, through a loader of the config.
fn read_each(config: &Config, jobs: &[Job]) {
    let loader = open(config);
    let dtype = Dtype::from_code(config.dtype).unwrap_or(Dtype::Raw);
    read_boxes::check_each(&loader, dtype.bytes().max(config.dtype_bytes) as usize, jobs);
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
}

/// A number that comes of what the jobs are, and not of where they lie.
fn pick(jobs: &[Job]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for job in jobs {
        let bytes = job.want.as_ref().map_or(0, Vec::len) as i64;
        for word in job.begin.iter().chain(&job.end).chain(&[bytes]) {
            hash = (hash ^ *word as u64).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash >> 32
}

/// The config with jobs that a host runs at once.
pub fn in_hook_mode(config: &Config) -> Config {
    unsafe extern "C" fn run(_: *mut c_void, job: HostJob, argument: *mut c_void) {
        // SAFETY: it is the argument that came with the job.
        unsafe { job(argument) };
    }
    let workers = WorkersHook { run: Some(run), ..config.workers };
    Config { thread_mode: THREADS_HOOK, workers, ..*config }
}

/// Streams the jobs as a host does that looks for a batch once in a while and never waits: nothing
/// is called but push, pop without a timeout, and `between` where there was no batch.
pub fn stream_by_polls_alone(config: &Config, jobs: &[Job], between: impl Fn()) -> usize {
    let loader = open(config);
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    let (mut pushed, mut seen, mut bytes, mut is_flushed) = (0, 0, 0, false);
    let mut begun = Instant::now();
    loop {
        if pushed < jobs.len() {
            pushed += loader.push(&requests[pushed..], 0).unwrap_or_else(|f| panic!("push: {f}"));
        } else if !is_flushed {
            loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
            is_flushed = true;
        }
        match loader.pop(0) {
            Ok(Pop::Batch(batch)) => {
                let count = batch.tags().len();
                bytes += check_batch(config, &batch, &jobs[seen..seen + count], seen);
                seen += count;
                begun = Instant::now();
            }
            Ok(Pop::Again(why)) => {
                let has_waited = begun.elapsed().as_nanos() > u128::from(PATIENCE_NS);
                assert!(!has_waited, "{seen} of {}: {}", jobs.len(), why.as_str());
                between();
                std::thread::yield_now();
            }
            Ok(Pop::End | Pop::Reset) => break,
            Ok(Pop::Starved(why)) => panic!("starved: {}", why.as_str()),
            Err(failure) => panic!("pop: {failure}"),
        }
    }
    assert_eq!(seen, jobs.len());
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    bytes
}

/// The same as `stream`, on the config's own backend alone.
pub fn stream_as_configured(config: &Config, jobs: &[Job]) -> usize {
    let loader = open(config);
    let bytes = stream_through(&loader, config, jobs, 0);
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    bytes
}

/// The same through an open loader whose next batch is `first_batch`.
pub fn stream_through(loader: &Loader, config: &Config, jobs: &[Job], first_batch: u64) -> usize {
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    let (mut pushed, mut seen, mut bytes, mut batches) = (0, 0, 0, first_batch);
    let (mut is_flushed, mut loans) = (false, Loans::of(config));
    while seen < jobs.len() {
        loans.iter_mut().for_each(|loans| loans.lend(loader));
        if pushed < jobs.len() {
            pushed += loader.push(&requests[pushed..], 0).unwrap_or_else(|f| panic!("push: {f}"));
        }
        if pushed == jobs.len() && !is_flushed {
            loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
            is_flushed = true;
        }
        // While there is more to push, only take what is ready; at the end wait for it.
        let is_waiting = is_flushed || config.thread_mode != THREADS_PUMP;
        let Some(batch) = pop(loader, config, is_waiting) else { continue };
        assert_eq!(batch.batch_id(), batches);
        let count = batch.tags().len();
        assert!(count <= jobs.len() - seen);
        bytes += check_batch(config, &batch, &jobs[seen..seen + count], seen);
        loans.iter_mut().for_each(|loans| loans.check(&batch));
        drop(batch);
        loans.iter_mut().for_each(Loans::take);
        seen += count;
        batches += 1;
    }
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::End | Pop::Reset) => bytes,
        Ok(_) => panic!("more batches than samples"),
        Err(failure) => panic!("after the last batch: {failure}"),
    }
}

/// One batch; None where none is ready and nobody waits. Pumps where the host is to.
fn pop<'a>(loader: &'a Loader, config: &Config, is_waiting: bool) -> Option<Batch<'a>> {
    if config.thread_mode == THREADS_PUMP {
        loader.pump(1_000_000).unwrap_or_else(|failure| panic!("pump: {failure}"));
    }
    match loader.pop(if is_waiting { PATIENCE_NS } else { 0 }) {
        Ok(Pop::Batch(batch)) => Some(batch),
        Ok(Pop::Again(_)) if !is_waiting => None,
        Ok(Pop::Again(why)) => panic!("again although it may wait: {}", why.as_str()),
        Ok(Pop::Starved(why)) => panic!("starved: {}", why.as_str()),
        Ok(Pop::End | Pop::Reset) => panic!("the end before all samples were popped"),
        Err(failure) => panic!("pop: {failure}"),
    }
}

/// Compares a batch with the jobs that it holds, `first` being the number of the first.
pub fn check_batch(config: &Config, batch: &Batch<'_>, jobs: &[Job], first: usize) -> usize {
    let rank = config.sample_rank as usize;
    let mut shape = vec![jobs.len() as u64];
    shape.extend_from_slice(&config.sample_shape[..rank]);
    assert_eq!(batch.shape(), shape);
    assert_eq!(batch.dtype() as u32, config.dtype);
    let tags: Vec<u64> = (first..first + jobs.len()).map(tag).collect();
    assert_eq!(batch.tags(), tags);
    assert_eq!(batch.statuses().len(), jobs.len());
    let element = match Dtype::from_code(config.dtype).expect("a type") {
        Dtype::Raw => config.dtype_bytes,
        dtype => dtype.bytes(),
    };
    let bytes = config.sample_shape[..rank].iter().product::<u64>() as usize * element as usize;
    let data = samples(batch);
    assert_eq!(data.len(), jobs.len() * bytes);
    let digests: Vec<u64> = match config.digest {
        0 => Vec::new(),
        _ => data.chunks(bytes).map(digest).collect(),
    };
    assert_eq!(batch.digests().unwrap_or(&[]), digests);
    for (n, (job, row)) in jobs.iter().zip(data.chunks_exact(bytes)).enumerate() {
        check_sample(job, row, batch.statuses()[n], element as usize, config);
    }
    data.len()
}

/// The samples of a batch, wherever they lie.
pub fn samples(batch: &Batch<'_>) -> Vec<u8> {
    let mut bytes = vec![0xA5; batch.bytes() as usize];
    batch.copy_to(&mut bytes).unwrap_or_else(|failure| panic!("copy_to: {failure}"));
    bytes
}

/// pad_value in the output type.
fn pad_element(config: &Config) -> Vec<u8> {
    let dtype = Dtype::from_code(config.dtype).expect("a type");
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 => {
            cast(Dtype::F64, dtype, &config.pad_value.to_le_bytes())
        }
        _ => (config.pad_value as i64).to_le_bytes()[..dtype.bytes() as usize].to_vec(),
    }
}

fn check_sample(job: &Job, row: &[u8], status: i32, element: usize, config: &Config) {
    let place = format!("{} {:?}..{:?}", job.uri, job.begin, job.end);
    match &job.want {
        Err(want) => {
            assert_eq!(Status::from_code(status), Some(*want), "{place}");
            let pad = pad_element(config);
            assert!(row.chunks(element).all(|value| value == pad), "{place}: holds pad_value");
        }
        Ok(want) => {
            assert_eq!(Status::from_code(status), Some(job.mark), "{place}");
            assert_eq!(want.len(), row.len(), "{place}");
            let (mut wants, mut rows) = (want.chunks_exact(element), row.chunks_exact(element));
            if let Some(n) = (0..row.len() / element).find(|_| wants.next() != rows.next()) {
                let differ = want.chunks(element).zip(row.chunks(element)).filter(|(a, b)| a != b);
                let range = n * element..(n + 1) * element;
                panic!(
                    "{place}: element {n} is {:02x?}, not {:02x?}; {} of {} differ",
                    &row[range.clone()],
                    &want[range],
                    differ.count(),
                    row.len() / element
                );
            }
        }
    }
}

/// Streams boxes of stores as `dtype`, None for each source type: one loader for each type and
/// box shape, all stores that fit it in its batches. Returns how many boxes it compared.
pub fn stream_boxes<'a>(
    stores: impl Iterator<Item = &'a Store>,
    boxes: impl Fn(&Store) -> Vec<Span>,
    dtype: Option<Dtype>,
) -> usize {
    stream_boxes_by(stream, stores, boxes, dtype)
}

/// The same, each group of boxes by this function.
pub fn stream_boxes_by<'a>(
    stream: fn(&Config, &[Job]) -> usize,
    stores: impl Iterator<Item = &'a Store>,
    boxes: impl Fn(&Store) -> Vec<Span>,
    dtype: Option<Dtype>,
) -> usize {
    let mut groups: BTreeMap<(u32, Vec<u64>), Vec<Job>> = BTreeMap::new();
    for store in stores {
        let dtype = dtype.unwrap_or(store.image.dtype);
        if !has_cast(store.image.dtype, dtype) {
            continue;
        }
        for span in boxes(store) {
            let key = (dtype as u32, extents(&span));
            groups.entry(key).or_default().push(Job::of(store, span, dtype));
        }
    }
    let mut count = 0;
    for ((code, shape), jobs) in groups {
        let dtype = Dtype::from_code(code).expect("a type");
        stream(&config(dtype, &shape, jobs.len().min(5)), &jobs);
        count += jobs.len();
    }
    count
}

/// The first failure that the requests meet, and how many batches came before it. Pushes all,
/// flushes and pops; a push that fails is a panic, because store errors belong to pop.
pub fn first_failure(loader: &Loader, jobs: &[Job]) -> (usize, Failure) {
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    let taken = loader.push(&requests, 0).unwrap_or_else(|failure| panic!("push: {failure}"));
    assert_eq!(taken, requests.len(), "the lookahead holds the jobs");
    // The error may already be sticky, which flush then says too.
    let _ = loader.flush();
    for batches in 0.. {
        match loader.pop(PATIENCE_NS) {
            Ok(Pop::Batch(_)) => {}
            Ok(Pop::End | Pop::Reset) => panic!("the end, without the failure"),
            Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("not now: {}", why.as_str()),
            Err(failure) => return (batches, failure),
        }
    }
    unreachable!("the loop only ends by return")
}

/// A small generator of repeatable numbers (xorshift64*).
pub struct Dice(pub u64);

impl Dice {
    /// A number in `first..limit`.
    pub fn range(&mut self, first: i64, limit: i64) -> i64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        first + (number % (limit - first) as u64) as i64
    }
}

/// The last `count` axes that are at least `extent` long.
pub fn pick_axes(shape: &[u64], extent: u64, count: usize) -> Vec<usize> {
    let axes: Vec<usize> = (0..shape.len()).rev().filter(|axis| shape[*axis] >= extent).collect();
    assert!(axes.len() >= count);
    axes[..count].to_vec()
}

/// Crops of 16 x 16 out of ten arrays that agree in nothing; some come twice.
pub fn mixed_jobs(count: usize) -> Vec<Job> {
    let stores: Vec<&Store> = fixtures::family("mixed").collect();
    assert_eq!(stores.len(), 10);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut jobs: Vec<Job> = Vec::new();
    for n in 0..count {
        if n % 7 == 6 {
            jobs.push(jobs[n - 3].clone());
            continue;
        }
        let store = stores[dice.range(0, stores.len() as i64) as usize];
        let kept = pick_axes(&store.image.shape, 16, 2);
        let span = (0..store.image.shape.len())
            .map(|axis| {
                let length = if kept.contains(&axis) { 16 } else { 1 };
                let begin = dice.range(0, store.image.shape[axis] as i64 - length + 1);
                (begin, begin + length)
            })
            .unzip();
        jobs.push(Job::of(store, span, Dtype::F32));
    }
    jobs
}
