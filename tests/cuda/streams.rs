//! Streams of a trainer that are more than queues: those that it captures into graphs, and the
//! default ones of CUDA.
//!
//! In: a trainer that captures while a loader streams, or that works on batches on a default
//! stream. Invariant: a capture comes out whole with nothing of ours in it, a slot is not used
//! again before the work that was queued on it has run, and nothing of ours waits for the trainer's
//! streams, whatever they are.

use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::{PATIENCE_NS, config};
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::{self, Platform};
use crate::common::workers::{JobSystem, Run};
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;
use wavetrain::abi::BatchInfo;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::cuda::handles::{CaptureMode, DevicePointer, Event, Stream};
use wavetrain::cuda::result::CuResult;
use wavetrain::loader::{Loader, Pop};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::{wavetrain_dlpack, wavetrain_pump, wavetrain_release};

/// Bytes of a batch.
const BATCH_BYTES: usize = SAMPLES * (CROP * CROP * 2) as usize;

/// The tags of batch number `n`.
fn tags_of(n: u64) -> [u64; SAMPLES] {
    [2 * n, 2 * n + 1]
}

/// What a consumer read of a batch, once its stream has run.
fn read_by(target: NonNull<u8>) -> Vec<u8> {
    // SAFETY: a batch's bytes are there, and the stream that writes them has run.
    unsafe { std::slice::from_raw_parts(target.as_ptr(), BATCH_BYTES) }.to_vec()
}

/// Whose threads do a loader's work.
#[derive(Clone, Copy, Debug)]
enum Work {
    Own,
    Pump,
    Jobs(Run),
}

const WORKS: [Work; 4] =
    [Work::Own, Work::Pump, Work::Jobs(Run::Inline), Work::Jobs(Run::Threads(2))];

/// A config and the host's job system behind it, if it has one.
fn working(work: Work, config: Config) -> (Config, Option<JobSystem>) {
    match work {
        Work::Own => (Config { thread_mode: THREADS_OWN, ..config }, None),
        Work::Pump => (Config { thread_mode: THREADS_PUMP, ..config }, None),
        Work::Jobs(run) => {
            let system = JobSystem::new(run);
            (system.config(&config), Some(system))
        }
    }
}

// ---- Captures of others -----------------------------------------------------------------------

/// Every call that a loader has, again and again, on this thread; streams are the caller's, and
/// none of them is being captured.
fn epoch(gpu: &Gpu<'_>, work: Work, uri: &str, used: Stream) {
    let base = tight(&device_config(gpu.platform, 2));
    let (config, _system) = working(work, base);
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let handle = ManuallyDrop::new(Handle(loader.token()));
    let event = gpu.event();
    for n in 0..6 {
        handle.push(uri, &tags_of(n)).unwrap();
        if matches!(work, Work::Pump) {
            wavetrain_pump(handle.0, 100_000);
        }
        let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        let mut copied = vec![0; BATCH_BYTES];
        batch.copy_to(&mut copied).unwrap();
        assert!(copied == expected(&tags_of(n)), "{work:?}: batch {n}");
        drop(batch);
        let batch = handle.batch(uri, &tags_of(n + 1));
        check(&handle.view(batch));
        let tensor = handle.export(batch, used).unwrap();
        handle.stats();
        gpu.driver.event_record(event, used).unwrap();
        handle.release(batch, (n % 2 == 0).then_some(event)).unwrap();
        tensor.delete();
    }
    handle.flush().unwrap();
    handle.push(uri, &tags_of(9)).unwrap();
    handle.reset().unwrap();
    loader.close(PATIENCE_NS).unwrap();
    assert_eq!(gpu.platform.thread(), (vec![gpu.context.as_raw()], CaptureMode::GLOBAL.0));
}

/// Work of a trainer that becomes a node of its graph.
fn queue_node(gpu: &Gpu<'_>, block: DevicePointer, stream: Stream) {
    // SAFETY: the block is a trainer's own.
    unsafe { gpu.driver.memset_d8_async(block, 1, 64, stream) }.unwrap();
}

#[test]
fn a_thread_that_captures_in_global_mode_streams_an_epoch_meanwhile() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for (work, mode) in WORKS.into_iter().zip([Mode::Jitter, Mode::Lazy, Mode::Eager, Mode::Eager])
    {
        let gpu = Gpu::new(&*platform, 0);
        platform.set_mode(mode, 3);
        let block = gpu.driver.mem_alloc(64).unwrap();
        let (captured, used) = (gpu.stream(), gpu.stream());
        gpu.begin_capture(captured);
        queue_node(&gpu, block, captured);
        epoch(&gpu, work, &uri, used);
        queue_node(&gpu, block, captured);
        assert_eq!(gpu.end_capture(captured), Ok(2), "{work:?}");
        // SAFETY: the graph is gone.
        unsafe { gpu.driver.mem_free(block) }.unwrap();
    }
}

#[test]
fn a_loader_streams_while_another_thread_captures_in_global_mode() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "zstd", true);
    for work in WORKS {
        let gpu = Gpu::new(&*platform, 0);
        let (captured, used) = (gpu.stream(), gpu.stream());
        let (driver, context) = (gpu.driver, gpu.context);
        let (begun, has_begun) = channel();
        let (over, is_over) = channel::<()>();
        let platform = &*platform;
        let ended = std::thread::scope(|scope| {
            let trainer = scope.spawn(move || {
                driver.ctx_push_current(context).unwrap();
                platform.begin_capture(captured, CaptureMode::GLOBAL).unwrap();
                begun.send(()).unwrap();
                let _ = is_over.recv();
                let ended = platform.end_capture(captured);
                driver.ctx_pop_current().unwrap();
                ended
            });
            has_begun.recv().unwrap();
            epoch(&gpu, work, &uri, used);
            drop(over);
            trainer.join().unwrap()
        });
        assert_eq!(ended, Ok(0), "{work:?}");
    }
}

// ---- Captures of streams that batches are used on ---------------------------------------------

/// On which stream a consumer works, and how the loader knows.
#[derive(Clone, Copy, PartialEq, Debug)]
enum On {
    Ready,
    Config,
    Export,
    /// Exported, and the tensor is deleted behind the release.
    ExportKept,
    /// Exported to the legacy default stream, which orders the one that is captured.
    Legacy,
}

/// A loader of two batches, the first of which is used on a stream that can be captured.
struct Used {
    loader: Handle,
    batch: u64,
    view: BatchInfo,
    captured: Stream,
    tensor: Option<Tensor>,
    target: NonNull<u8>,
}

impl Used {
    fn new(gpu: &Gpu<'_>, on: On, thread_mode: u32, uri: &str) -> Used {
        let named = if on == On::Legacy { gpu.blocking_stream() } else { gpu.stream() };
        let consumer_stream = if on == On::Config { named.as_raw() } else { std::ptr::null_mut() };
        let config = device_config(gpu.platform, 2);
        let config = tight(&Config { thread_mode, consumer_stream, ..config });
        let loader = Handle::new(&config);
        let batch = loader.batch(uri, &tags_of(0));
        let view = loader.view(batch);
        let used = match on {
            // SAFETY: the stream lives until the loader is closed.
            On::Ready => unsafe { Stream::from_raw(view.ready_stream) },
            On::Legacy => Stream::LEGACY,
            _ => named,
        };
        let captured = if on == On::Ready { used } else { named };
        let tensor = match on {
            On::Ready | On::Config => None,
            _ => Some(loader.export(batch, used).unwrap()),
        };
        let target = gpu.pinned(BATCH_BYTES);
        // Work from before the capture, which does not run yet.
        gpu.platform.hold_stream(captured.as_raw(), 1);
        gpu.read_later(&view, target, captured);
        gpu.begin_capture(captured);
        Used { loader, batch, view, captured, tensor, target }
    }

    /// Gives the batch back, and its tensor.
    fn give_back(&mut self, on: On) {
        let tensor = self.tensor.take();
        if on == On::ExportKept {
            self.loader.release(self.batch, None).unwrap();
        }
        tensor.into_iter().for_each(Tensor::delete);
        if on != On::ExportKept {
            self.loader.release(self.batch, None).unwrap();
        }
    }

    /// Streams batches, from number `first` on, until the slot is used again.
    fn stream_until_used_again(&self, uri: &str, first: u64) {
        for n in first.. {
            let next = self.loader.batch(uri, &tags_of(n));
            let view = self.loader.view(next);
            check(&view);
            self.loader.release(next, None).unwrap();
            if view.data == self.view.data {
                return;
            }
            assert!(n < 10_000, "the slot never comes back");
        }
    }
}

#[test]
fn a_batch_that_is_given_back_in_a_capture_of_its_stream_waits_for_it_and_leaves_it_whole() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for on in [On::Ready, On::Config, On::Export, On::ExportKept, On::Legacy] {
        for thread_mode in [THREADS_OWN, THREADS_PUMP] {
            let gpu = Gpu::new(&*platform, 0);
            let mut used = Used::new(&gpu, on, thread_mode, &uri);
            used.give_back(on);
            // The other slot goes on; with a stream of the config it is used on that as well.
            let next = used.loader.batch(&uri, &tags_of(1));
            check(&used.loader.view(next));
            used.loader.push(&uri, &tags_of(2)).unwrap();
            let Err((status, text)) = used.loader.try_pop(1_000_000) else { panic!("a batch") };
            assert_eq!(status, Status::Starved);
            assert!(text.contains("1 of them while a stream"), "{text}");
            used.loader.release(next, None).unwrap();
            if on != On::Config {
                let batch = used.loader.pop();
                assert_ne!(used.loader.view(batch).data, used.view.data, "{on:?}");
                used.loader.release(batch, None).unwrap();
            } else {
                let Err((status, text)) = used.loader.try_pop(1_000_000) else { panic!("a batch") };
                assert_eq!(status, Status::Starved);
                assert!(text.contains("2 of them while a stream"), "{text}");
            }
            assert_eq!(gpu.end_capture(used.captured), Ok(0), "{on:?}");
            // What was queued before the capture counts still.
            assert_eq!(used.loader.stats().batches_held, 0);
            assert!(bytes(&used.view) == expected(&tags_of(0)), "{on:?}: written while in use");
            platform.hold_stream(used.captured.as_raw(), 0);
            used.stream_until_used_again(&uri, 3);
            gpu.synchronize(used.captured);
            assert!(read_by(used.target) == expected(&tags_of(0)), "{on:?}");
        }
    }
}

#[test]
fn a_slot_waits_for_every_stream_of_its_batch_and_no_stream_of_ours_does() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for last in 0..=9 {
        let gpu = Gpu::new(&simulator, 0);
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&config));
        let (batch, target) = (loader.batch(&uri, &tags_of(0)), gpu.pinned(BATCH_BYTES));
        let view = loader.view(batch);
        let mut streams: Vec<Stream> = (0..9).map(|_| gpu.stream()).collect();
        for stream in &streams {
            loader.export(batch, *stream).unwrap().delete();
        }
        // SAFETY: the stream lives until the loader is closed.
        streams.push(unsafe { Stream::from_raw(view.ready_stream) });
        simulator.hold_stream(streams[last].as_raw(), 1);
        gpu.read_later(&view, target, streams[last]);
        simulator.drop_wait(-1);
        loader.release(batch, None).unwrap();
        assert_eq!(simulator.waits(), 0);
        has_one_slot(&loader, &uri, &format!("stream {last}"));
        simulator.hold_stream(streams[last].as_raw(), 0);
        gpu.synchronize(streams[last]);
        assert!(read_by(target) == expected(&tags_of(0)), "written while in use");
    }
}

#[test]
fn with_one_connection_a_slot_that_waits_is_in_nobody_s_way() {
    let Some(simulator) = Simulator::take() else { return };
    simulator.share_connection(1);
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let gpu = Gpu::new(&simulator, 0);
        let (used, other, event) = (gpu.stream(), gpu.stream(), gpu.event());
        let block = gpu.driver.mem_alloc(64).unwrap();
        let config = Config { thread_mode, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&config));
        let (batch, target) = (loader.batch(&uri, &tags_of(0)), gpu.pinned(BATCH_BYTES));
        let tensor = loader.export(batch, used).unwrap();
        simulator.hold_stream(used.as_raw(), 1);
        gpu.read_later(&loader.view(batch), target, used);
        tensor.delete();
        loader.release(batch, None).unwrap();
        // A trainer's kernel on another stream, behind all that a release queues.
        queue_node(&gpu, block, other);
        gpu.driver.event_record(event, other).unwrap();
        let has_run = (0..100_000).any(|_| gpu.driver.event_query(event) == Ok(true));
        assert!(has_run, "{thread_mode}: the trainer waits for its own copy");
        has_one_slot(&loader, &uri, "work is queued");
        simulator.hold_stream(used.as_raw(), 0);
        gpu.synchronize(used);
        assert!(read_by(target) == expected(&tags_of(0)), "written while in use");
        // SAFETY: what was queued on it has run.
        unsafe { gpu.driver.mem_free(block) }.unwrap();
    }
}

/// Of a loader's two slots one waits for its consumer: while a batch is held there is no other one.
fn has_one_slot(loader: &Handle, uri: &str, case: &str) {
    let next = loader.batch(uri, &tags_of(1));
    check(&loader.view(next));
    loader.push(uri, &tags_of(2)).unwrap();
    match loader.try_pop(20_000_000) {
        Err((Status::Starved, _)) => {}
        other => panic!("{case}: {other:?}"),
    }
    loader.release(next, None).unwrap();
    let next = loader.pop();
    check(&loader.view(next));
    loader.release(next, None).unwrap();
}

#[test]
fn a_capture_that_begins_as_a_batch_is_given_back_costs_the_loader_nothing() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    // The calls of one release, in their order: a record on the consumer's stream, one on the ready
    // stream. Refused once by what a driver says of a capture that the loader did not see.
    for (call, code) in [(0, 900), (0, 901), (0, 906), (1, 900), (1, 901)] {
        let (entry, case) = (c"cuEventRecord", format!("call {call}, code {code}"));
        let gpu = Gpu::new(&simulator, 0);
        let (stream, target) = (gpu.stream(), gpu.pinned(BATCH_BYTES));
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&config));
        let batch = loader.batch(&uri, &tags_of(0));
        let view = loader.view(batch);
        simulator.hold_stream(stream.as_raw(), 1);
        gpu.read_later(&view, target, stream);
        let tensor = loader.export(batch, stream).unwrap();
        tensor.delete();
        simulator.fail(Some(entry), call, code, 1);
        assert_eq!(loader.release(batch, None), Ok(()), "{case}");
        assert!(simulator.is_fault_over(), "{case}");
        simulator.fail_none();
        has_one_slot(&loader, &uri, &case);
        assert!(bytes(&view) == expected(&tags_of(0)), "{case}: written while in use");
        simulator.hold_stream(stream.as_raw(), 0);
        for n in 12.. {
            let next = loader.batch(&uri, &tags_of(n));
            let data = loader.view(next).data;
            loader.release(next, None).unwrap();
            if data == view.data {
                break;
            }
            assert!(n < 10_000, "{case}: the slot never comes back");
        }
        gpu.synchronize(stream);
        assert!(read_by(target) == expected(&tags_of(0)), "{case}");
    }
}

#[test]
fn work_from_before_a_tensor_is_deleted_keeps_the_slot_though_release_is_under_way() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    // Of a batch of one tensor, and of one that has another one still.
    for others in [0, 1] {
        let gpu = Gpu::new(&simulator, 0);
        let (stream, target) = (gpu.stream(), gpu.pinned(BATCH_BYTES));
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&config));
        let batch = loader.batch(&uri, &tags_of(0));
        let view = loader.view(batch);
        let tensor = loader.export(batch, stream).unwrap();
        let rest: Vec<Tensor> =
            (0..others).map(|_| loader.export(batch, stream).unwrap()).collect();
        let number = loader.0;
        // SAFETY: there is no event.
        let release = move || unsafe { wavetrain_release(number, batch, std::ptr::null_mut()) };
        // Release has seen what was queued on the stream before.
        let released = simulator.amid((c"cuEventRecord", 1), release, || {
            simulator.hold_stream(stream.as_raw(), 1);
            gpu.read_later(&view, target, stream);
            tensor.delete();
        });
        assert_eq!(released, OK);
        rest.into_iter().for_each(Tensor::delete);
        has_one_slot(&loader, &uri, "work is queued");
        simulator.hold_stream(stream.as_raw(), 0);
        gpu.synchronize(stream);
        assert!(read_by(target) == expected(&tags_of(0)), "another batch's bytes");
    }
}

#[test]
fn a_capture_that_lasts_piles_nothing_up_in_the_consumer_s_other_streams() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&simulator, 0);
    let (one, captured) = (gpu.stream(), gpu.stream());
    let loader = Handle::new(&tight(&Config {
        thread_mode: THREADS_PUMP,
        consumer_stream: one.as_raw(),
        ..device_config(&simulator, 2)
    }));
    let batch = loader.batch(&uri, &tags_of(0));
    loader.export(batch, captured).unwrap().delete();
    gpu.begin_capture(captured);
    simulator.drop_wait(-1);
    let calls = |entry: &CStr| simulator.calls(Some(entry));
    let (records, looks) = (calls(c"cuEventRecord"), calls(c"cuStreamIsCapturing"));
    loader.release(batch, None).unwrap();
    while calls(c"cuStreamIsCapturing") < looks + 100 {
        wavetrain_pump(loader.0, 1_000_000);
    }
    assert_eq!((calls(c"cuEventRecord") - records, simulator.waits()), (0, 0));
    assert_eq!(gpu.end_capture(captured), Ok(0));
    (1..4).for_each(|n| loader.release(loader.batch(&uri, &tags_of(n)), None).unwrap());
}

/// Threads that ask at this moment which one they are, and the most that ever did at once: whoever
/// looks at a stream of another thread asks.
static ASKING: AtomicU32 = AtomicU32::new(0);
static ASKING_MOST: AtomicU32 = AtomicU32::new(0);

static CROWDED: Os = Os {
    thread_number: || {
        ASKING_MOST.fetch_max(ASKING.fetch_add(1, SeqCst) + 1, SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        ASKING.fetch_sub(1, SeqCst);
        (SYSTEM.thread_number)()
    },
    ..SYSTEM
};

#[test]
fn two_closes_at_once_look_at_captured_streams_one_after_the_other() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let captured = gpu.blocking_stream();
    let config = Config { thread_mode: THREADS_PUMP, ..device_config(&*platform, 2) };
    let loader = Loader::open_on(&CROWDED, &tight(&config)).unwrap();
    let handle = Handle(ManuallyDrop::new(loader).token());
    let batch = handle.batch(&uri, &tags_of(0));
    // A release on another thread has the legacy stream in place of this thread's own.
    handle.export(batch, Stream::PER_THREAD).unwrap().delete();
    gpu.begin_capture(captured);
    std::thread::scope(|scope| {
        scope.spawn(|| handle.release(batch, None).unwrap());
    });
    ASKING_MOST.store(0, SeqCst);
    std::thread::scope(|scope| {
        let close = || assert_eq!(handle.close(50_000_000), (Some(Status::Again), 0));
        (0..2).for_each(|_| drop(scope.spawn(close)));
    });
    assert_eq!(ASKING_MOST.load(SeqCst), 1);
    assert_eq!(gpu.end_capture(captured), Ok(0));
    assert_eq!(handle.close(PATIENCE_NS), (Some(Status::Ok), 0));
}

#[test]
fn a_capture_that_begins_as_an_event_is_waited_for_costs_the_loader_nothing() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for code in [901, 905] {
        let gpu = Gpu::new(&simulator, 0);
        let (event, stream) = (gpu.event(), gpu.stream());
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&config));
        let batch = loader.batch(&uri, &tags_of(0));
        simulator.hold_stream(stream.as_raw(), 1);
        gpu.driver.event_record(event, stream).unwrap();
        simulator.fail(Some(c"cuStreamWaitEvent"), 0, code, 1);
        assert_eq!(loader.release(batch, Some(event)), Ok(()), "{code}");
        simulator.fail_none();
        has_one_slot(&loader, &uri, &format!("code {code}"));
        simulator.hold_stream(stream.as_raw(), 0);
    }
}

#[test]
fn work_from_before_a_capture_keeps_the_slot_when_the_capture_is_over() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for on in [On::Ready, On::Export, On::ExportKept, On::Legacy] {
        let gpu = Gpu::new(&*platform, 0);
        let mut used = Used::new(&gpu, on, THREADS_PUMP, &uri);
        used.give_back(on);
        assert_eq!(gpu.end_capture(used.captured), Ok(0), "{on:?}");
        for n in 1..12 {
            let next = used.loader.batch(&uri, &tags_of(n));
            assert_ne!(used.loader.view(next).data, used.view.data, "{on:?}: used again");
            used.loader.release(next, None).unwrap();
        }
        platform.hold_stream(used.captured.as_raw(), 0);
        used.stream_until_used_again(&uri, 12);
        gpu.synchronize(used.captured);
        assert!(read_by(used.target) == expected(&tags_of(0)), "{on:?}");
    }
}

#[test]
fn close_and_reset_leave_the_capture_of_a_released_batch_whole() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for on in [On::Ready, On::Config, On::Export] {
        for thread_mode in [THREADS_OWN, THREADS_PUMP] {
            let gpu = Gpu::new(&*platform, 0);
            let mut used = Used::new(&gpu, on, thread_mode, &uri);
            let held = used.loader.batch(&uri, &tags_of(1));
            used.give_back(on);
            used.loader.reset().unwrap();
            // Memory that the held batch does not need is freed after this.
            assert_eq!(used.loader.close(PATIENCE_NS), (Some(Status::Again), 1), "{on:?}");
            check(&used.loader.view(held));
            used.loader.release(held, None).unwrap();
            assert_eq!(used.loader.close(1_000_000), (Some(Status::Again), 0), "{on:?}");
            assert_eq!(gpu.end_capture(used.captured), Ok(0), "{on:?}");
            assert_eq!(used.loader.close(1_000_000), (Some(Status::Again), 0), "{on:?}");
            platform.hold_stream(used.captured.as_raw(), 0);
            assert_eq!(used.loader.close(PATIENCE_NS), (Some(Status::Ok), 0), "{on:?}");
            assert!(read_by(used.target) == expected(&tags_of(0)), "{on:?}");
        }
    }
}

#[test]
fn close_does_not_ask_a_ready_stream_that_is_captured_since_its_batch_was_released() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&tight(&device_config(&*platform, 2)));
    let batch = loader.batch(&uri, &tags_of(0));
    // SAFETY: the stream lives until the loader is closed.
    let ready = unsafe { Stream::from_raw(loader.view(batch).ready_stream) };
    loader.release(batch, None).unwrap();
    gpu.begin_capture(ready);
    assert_eq!(loader.close(1_000_000), (Some(Status::Again), 0));
    assert_eq!(gpu.end_capture(ready), Ok(0));
    assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
}

#[test]
fn an_event_of_a_capture_is_refused_and_the_batch_stays_held() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&tight(&device_config(&*platform, 2)));
    let (batch, stream, event) = (loader.batch(&uri, &tags_of(0)), gpu.stream(), gpu.event());
    gpu.begin_capture(stream);
    gpu.driver.event_record(event, stream).unwrap();
    let refused = |event: Event| match loader.release(batch, Some(event)) {
        Err((Status::Unsupported, text)) => assert!(text.contains("outside of captures"), "{text}"),
        other => panic!("{other:?}"),
    };
    refused(event);
    // CUDA may break a capture whose event is looked at, but draws nobody in.
    let ended = gpu.end_capture(stream);
    assert!(matches!(ended, Ok(0) | Err(CuResult::STREAM_CAPTURE_INVALIDATED)), "{ended:?}");
    refused(event);
    check(&loader.view(batch));
    gpu.driver.event_record(event, stream).unwrap();
    loader.release(batch, Some(event)).unwrap();
    for n in 1..6 {
        let batch = loader.batch(&uri, &tags_of(n));
        check(&loader.view(batch));
        loader.release(batch, Some(event)).unwrap();
    }
}

#[test]
fn an_event_is_waited_for_although_the_ready_stream_is_captured() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for mode in [Mode::Eager, Mode::Lazy] {
        let gpu = Gpu::new(&*platform, 0);
        platform.set_mode(mode, 9);
        let (event, stream) = (gpu.event(), gpu.stream());
        let target = gpu.pinned(BATCH_BYTES);
        let used = Used::new(&gpu, On::Ready, THREADS_PUMP, &uri);
        platform.hold_stream(stream.as_raw(), 1);
        gpu.read_later(&used.view, target, stream);
        gpu.driver.event_record(event, stream).unwrap();
        used.loader.release(used.batch, Some(event)).unwrap();
        // It stands for what it recorded then.
        gpu.driver.event_record(event, gpu.stream()).unwrap();
        assert_eq!(gpu.end_capture(used.captured), Ok(0));
        platform.hold_stream(used.captured.as_raw(), 0);
        for n in 1..12 {
            let next = used.loader.batch(&uri, &tags_of(n));
            assert_ne!(used.loader.view(next).data, used.view.data, "used again");
            used.loader.release(next, Some(event)).unwrap();
        }
        platform.hold_stream(stream.as_raw(), 0);
        used.stream_until_used_again(&uri, 12);
        gpu.synchronize(stream);
        assert!(read_by(target) == expected(&tags_of(0)), "written while in use");
    }
}

#[test]
fn copy_to_in_a_capture_of_the_ready_stream_is_again_and_queues_nothing() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Loader::open_on(&SYSTEM, &tight(&device_config(&*platform, 2))).unwrap();
    ManuallyDrop::new(Handle(loader.token())).push(&uri, &tags_of(0)).unwrap();
    let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
    let mut copied = vec![0xA5; BATCH_BYTES];
    gpu.begin_capture(batch.ready_stream().unwrap());
    let refused = batch.copy_to(&mut copied).expect_err("a copy in a capture");
    assert_eq!(refused.status, Status::Again);
    assert!(refused.text.as_str().contains("ready_stream is being captured"), "{refused}");
    assert!(copied.iter().all(|byte| *byte == 0xA5));
    assert_eq!(gpu.end_capture(batch.ready_stream().unwrap()), Ok(0));
    batch.copy_to(&mut copied).unwrap();
    assert!(copied == expected(&tags_of(0)));
    // Given up in a capture it comes back all the same.
    let ready = batch.ready_stream().unwrap();
    gpu.begin_capture(ready);
    drop(batch);
    assert_eq!(gpu.end_capture(ready), Ok(0));
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn an_event_for_a_batch_in_host_memory_is_refused_with_the_reason_and_the_batch_stays_held() {
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let loader = Handle::new(&config(Dtype::U16, &[CROP, CROP], SAMPLES));
    let batch = loader.batch(&uri, &tags_of(0));
    // SAFETY: on the host it is not looked into.
    let event = unsafe { Event::from_raw(NonNull::<u8>::dangling().as_ptr().cast()) };
    let (status, text) = loader.release(batch, Some(event)).unwrap_err();
    assert!(status == Status::Unsupported && text.contains("host memory"), "{status} {text}");
    assert!(bytes(&loader.view(batch)) == expected(&tags_of(0)));
    loader.release(batch, None).unwrap();
}

#[test]
fn a_deleter_hands_no_job_to_the_host_of_another_loader() {
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let config = config(Dtype::U16, &[CROP, CROP], SAMPLES);
    // Its jobs stay where they are, so that there is one more to hand in.
    let system = JobSystem::new(Run::Later);
    let other = Handle::new(&system.config(&Config { n_decode_threads: 8, ..config }));
    let loader = Handle::new(&config);
    let batch = loader.batch(&uri, &tags_of(0));
    let export = |_| loader.export(batch, Stream::NULL).unwrap();
    let tensors: Vec<Tensor> = (0..4).map(export).collect();
    other.push(&uri, &tags_of(0)).unwrap();
    let before = system.handed_in();
    tensors.into_iter().for_each(Tensor::delete);
    assert_eq!(system.handed_in(), before);
    loader.release(batch, None).unwrap();
    drop(other);
}

#[test]
fn in_rust_a_batch_whose_event_is_refused_is_given_back_without_it() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Loader::open_on(&SYSTEM, &tight(&device_config(&*platform, 1))).unwrap();
    let handle = ManuallyDrop::new(Handle(loader.token()));
    let (stream, event) = (gpu.stream(), gpu.event());
    gpu.begin_capture(stream);
    gpu.driver.event_record(event, stream).unwrap();
    gpu.end_capture(stream).unwrap();
    for n in 0..3 {
        handle.push(&uri, &tags_of(n)).unwrap();
        let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        let refused = batch.release(Some(event)).expect_err("an event of a capture");
        assert_eq!(refused.status, Status::Unsupported);
        assert_eq!(loader.stats().unwrap().batches_held, 0);
    }
    loader.close(PATIENCE_NS).unwrap();
}

// ---- Default streams --------------------------------------------------------------------------

/// How the loader knows of a default stream.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Known {
    Config,
    Export,
    /// Exported, and given back on another thread.
    Elsewhere,
}

/// A batch that is worked on in a default stream keeps its slot until that has run.
fn keeps_its_slot(platform: &dyn Platform, uri: &str, stream: Stream, known: Known) {
    let gpu = Gpu::new(platform, 0);
    let case = format!("{stream:?} {known:?}");
    let is_named = known == Known::Config;
    let consumer_stream = if is_named { stream.as_raw() } else { std::ptr::null_mut() };
    let config = Config { consumer_stream, ..device_config(platform, 2) };
    let loader = Handle::new(&tight(&config));
    let (batch, target) = (loader.batch(uri, &tags_of(0)), gpu.pinned(BATCH_BYTES));
    let view = loader.view(batch);
    let tensor = (!is_named).then(|| loader.export(batch, stream).unwrap());
    platform.hold_stream(stream.as_raw(), 1);
    gpu.read_later(&view, target, stream);
    let loader = &loader;
    let give_back = move || {
        loader.release(batch, None).unwrap();
        tensor.into_iter().for_each(Tensor::delete);
    };
    match known {
        Known::Elsewhere => std::thread::scope(|scope| scope.spawn(give_back).join().unwrap()),
        _ => give_back(),
    }
    // Of the config: the next batch is used there too, so it is the last that there is room for.
    for n in 1..if is_named { 2 } else { 12 } {
        let next = loader.batch(uri, &tags_of(n));
        let other = loader.view(next);
        check(&other);
        assert_ne!(other.data, view.data, "{case}: the slot is used again");
        loader.release(next, None).unwrap();
    }
    assert!(bytes(&view) == expected(&tags_of(0)), "{case}: written while in use");
    platform.hold_stream(stream.as_raw(), 0);
    for n in 12.. {
        let next = loader.batch(uri, &tags_of(n));
        let data = loader.view(next).data;
        loader.release(next, None).unwrap();
        if data == view.data {
            break;
        }
        assert!(n < 10_000, "{case}: the slot never comes back");
    }
    gpu.synchronize(stream);
    assert!(read_by(target) == expected(&tags_of(0)), "{case}");
}

#[test]
fn work_on_the_legacy_stream_by_any_of_its_names_keeps_its_slot() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for known in [Known::Config, Known::Export, Known::Elsewhere] {
        keeps_its_slot(&*platform, &uri, Stream::LEGACY, known);
    }
    for known in [Known::Export, Known::Elsewhere] {
        keeps_its_slot(&*platform, &uri, Stream::NULL, known);
    }
}

#[test]
fn work_on_a_thread_s_default_stream_keeps_its_slot_whoever_gives_it_back() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for known in [Known::Config, Known::Export, Known::Elsewhere] {
        keeps_its_slot(&*platform, &uri, Stream::PER_THREAD, known);
    }
}

#[test]
fn the_default_stream_of_a_thread_that_ended_is_not_taken_for_that_of_the_next_one() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = &Handle::new(&tight(&device_config(&*platform, 2)));
    let (batch, target) = (loader.batch(&uri, &tags_of(0)), gpu.pinned(BATCH_BYTES));
    let view = loader.view(batch);
    let (gate, event) = (gpu.stream(), gpu.event());
    platform.hold_stream(gate.as_raw(), 1);
    gpu.driver.event_record(event, gate).unwrap();
    let (driver, context) = (gpu.driver, gpu.context);
    let (from, to) = (DevicePointer(view.data as u64), target.as_ptr() as usize);
    let work = move || {
        driver.ctx_push_current(context).unwrap();
        let tensor = loader.export(batch, Stream::PER_THREAD).unwrap();
        driver.stream_wait_event(Stream::PER_THREAD, event).unwrap();
        // SAFETY: the target is looked at when the stream has run.
        let queued = unsafe {
            driver.memcpy_dtoh_async(to as *mut u8, from, BATCH_BYTES as u64, Stream::PER_THREAD)
        };
        queued.unwrap();
        driver.ctx_pop_current().unwrap();
        // SAFETY: has no preconditions.
        (tensor, unsafe { libc::pthread_self() } as u64)
    };
    let (tensor, worked) = std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    let give_back = move || {
        loader.release(batch, None).unwrap();
        tensor.delete();
        // SAFETY: has no preconditions.
        unsafe { libc::pthread_self() as u64 }
    };
    let gave = std::thread::scope(|scope| scope.spawn(give_back).join().unwrap());
    // The C library need not use an id again at once; where it does not, this shows less.
    println!("the two threads have {} id", if worked == gave { "the same" } else { "each their" });
    has_one_slot(loader, &uri, "the slot is used again");
    platform.hold_stream(gate.as_raw(), 0);
    gpu.synchronize(Stream::LEGACY);
    assert!(read_by(target) == expected(&tags_of(0)), "written while in use");
}

#[test]
fn a_tensor_for_no_stream_keeps_its_slot_for_nobody() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&tight(&device_config(&*platform, 1)));
    let batch = loader.batch(&uri, &tags_of(0));
    let (data, other) = (loader.view(batch).data, gpu.stream());
    let mut tensor = std::ptr::null_mut();
    let none = usize::MAX as *mut c_void;
    // SAFETY: the pointer is writable.
    let code = unsafe { wavetrain_dlpack(loader.0, batch, 0, none, &mut tensor) };
    assert_eq!(code, OK);
    platform.hold_stream(other.as_raw(), 1);
    platform.hold_stream(Stream::LEGACY.as_raw(), 1);
    gpu.driver.event_record(gpu.event(), other).unwrap();
    gpu.driver.event_record(gpu.event(), Stream::LEGACY).unwrap();
    loader.release(batch, None).unwrap();
    Tensor(NonNull::new(tensor).unwrap()).delete();
    let batch = loader.batch(&uri, &tags_of(1));
    assert_eq!(loader.view(batch).data, data);
    loader.release(batch, None).unwrap();
    platform.hold_stream(other.as_raw(), 0);
    platform.hold_stream(Stream::LEGACY.as_raw(), 0);
}

#[test]
fn our_streams_and_the_trainer_s_legacy_stream_never_wait_for_each_other() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "zstd", true);
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let gpu = Gpu::new(&simulator, 0);
        let config = Config { thread_mode, ..device_config(&simulator, 2) };
        let (used, event) = (gpu.stream(), gpu.event());
        simulator.hold_stream(Stream::LEGACY.as_raw(), 1);
        gpu.driver.event_record(event, Stream::LEGACY).unwrap();
        let loader = Handle::new(&tight(&config));
        for n in 0..12 {
            let batch = loader.batch(&uri, &tags_of(n));
            check(&loader.view(batch));
            loader.export(batch, used).unwrap().delete();
            loader.release(batch, None).unwrap();
        }
        assert_eq!(gpu.driver.event_query(event), Ok(false));
        simulator.hold_stream(Stream::LEGACY.as_raw(), 0);
        // And the other way round: nothing of ours that waits holds it up.
        let batch = loader.batch(&uri, &tags_of(20));
        let ready = loader.view(batch).ready_stream;
        simulator.hold_stream(ready, 1);
        loader.release(batch, None).unwrap();
        gpu.driver.event_record(event, Stream::LEGACY).unwrap();
        gpu.driver.event_synchronize(event).unwrap();
        simulator.hold_stream(ready, 0);
    }
}
