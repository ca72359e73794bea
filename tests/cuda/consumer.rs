//! Batches in device memory in a consumer's hands: given back in any order and in every way, with
//! work still queued on them, from many threads, contexts and devices.
//!
//! In: a consumer that reads batches in its own time, on streams that the tests hold. Invariant: a
//! batch that somebody works on keeps its bytes until that work has run, and waits for nothing of
//! another batch's.

use crate::common::alone::alone;
use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::{Dice, PATIENCE_NS};
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::{self, Platform};
use crate::common::surface::Lines;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wavetrain::abi::BatchInfo;
use wavetrain::base::limits::TENSORS_PER_SLOT;
use wavetrain::config::{Config, THREADS_PUMP, UNTIL_RELEASED};
use wavetrain::cuda::handles::Stream;
use wavetrain::loader::Loader;
use wavetrain::os::{Os, SYSTEM};
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_stats;

/// Pinned memory for a batch.
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

#[test]
fn held_batches_keep_their_bytes_in_whatever_order_they_are_released() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let mut dice = Dice(77);
    let loader = Handle::new(&tight(&device_config(&*platform, 4)));
    let mut held: Vec<u64> = Vec::new();
    for n in 0..60 {
        held.push(loader.batch(&uri, &tags_of(n)));
        assert_eq!(loader.stats().batches_held, held.len() as u32);
        held.iter().for_each(|batch| check(&loader.view(*batch)));
        while held.len() == 4 || !held.is_empty() && dice.range(0, 3) == 0 {
            let one = held.swap_remove(dice.range(0, held.len() as i64) as usize);
            loader.release(one, None).unwrap();
        }
    }
    held.drain(..).for_each(|batch| loader.release(batch, None).unwrap());
}

/// How a consumer says what it works on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Event,
    ReadyStream,
    ConsumerStream,
    Export,
    ExportThenEvent,
}

const HOWS: [How; 5] =
    [How::Event, How::ReadyStream, How::ConsumerStream, How::Export, How::ExportThenEvent];

/// A loader, and a consumer with two streams, one of which the config names.
struct Bench<'g, 's> {
    gpu: &'g Gpu<'s>,
    loader: Handle,
    named: Stream,
    other: Stream,
}

impl<'g, 's> Bench<'g, 's> {
    fn new(gpu: &'g Gpu<'s>, how: How, config: Config) -> Bench<'g, 's> {
        let (named, other) = (gpu.stream(), gpu.stream());
        let consumer_stream =
            if how == How::ConsumerStream { named.as_raw() } else { config.consumer_stream };
        let loader = Handle::new(&Config { consumer_stream, ..config });
        Bench { gpu, loader, named, other }
    }

    /// The stream that work on a batch is queued on.
    fn stream(&self, view: &BatchInfo, how: How) -> Stream {
        match how {
            // SAFETY: the stream lives until the loader is closed.
            How::ReadyStream => unsafe { Stream::from_raw(view.ready_stream) },
            How::ConsumerStream => self.named,
            _ => self.other,
        }
    }

    /// Queues work on a batch and gives the batch back at once.
    fn use_and_release(&self, batch: u64, target: NonNull<u8>, how: How) -> Result<(), Refusal> {
        let view = self.loader.view(batch);
        let stream = self.stream(&view, how);
        let exported = match how {
            How::Export => Some(self.loader.export(batch, stream)?),
            How::ExportThenEvent => Some(self.loader.export(batch, self.named)?),
            _ => None,
        };
        self.gpu.read_later(&view, target, stream);
        let event = matches!(how, How::Event | How::ExportThenEvent).then(|| {
            let event = self.gpu.event();
            self.gpu.driver.event_record(event, stream).unwrap();
            event
        });
        // A tensor goes before its batch or after it; what outlives its batch is waited for twice.
        if how == How::Export {
            exported.into_iter().for_each(Tensor::delete);
        }
        let released = self.loader.release(batch, event);
        if how == How::ExportThenEvent {
            exported.into_iter().for_each(Tensor::delete);
        }
        released
    }
}

#[test]
fn work_that_is_queued_keeps_its_slot_and_no_other() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for how in HOWS {
        for thread_mode in [0, THREADS_PUMP] {
            let gpu = Gpu::new(&*platform, 0);
            let config = tight(&Config { thread_mode, ..device_config(&*platform, 3) });
            let bench = Bench::new(&gpu, how, config);
            let target = gpu.pinned(BATCH_BYTES);
            let batch = bench.loader.batch(&uri, &tags_of(0));
            let view = bench.loader.view(batch);
            let stream = bench.stream(&view, how);
            platform.hold_stream(stream.as_raw(), 1);
            bench.use_and_release(batch, target, how).unwrap();
            // Every batch is used on the stream of the config, so there all others wait as well.
            let is_shared = how == How::ConsumerStream;
            let mut held = Vec::new();
            for n in 1..if is_shared { 3 } else { 12 } {
                let next = bench.loader.batch(&uri, &tags_of(n));
                let other = bench.loader.view(next);
                check(&other);
                assert_ne!(other.data, view.data, "{how:?}: the slot is used again");
                match is_shared {
                    true => held.push(next),
                    false => bench.loader.release(next, None).unwrap(),
                }
            }
            assert!(bytes(&view) == expected(&tags_of(0)), "{how:?}: written while in use");
            assert!(read_by(target).iter().all(|byte| *byte == 0xC3), "{how:?}: it has run");
            platform.hold_stream(stream.as_raw(), 0);
            gpu.synchronize(stream);
            assert!(read_by(target) == expected(&tags_of(0)), "{how:?}");
            held.drain(..).for_each(|batch| bench.loader.release(batch, None).unwrap());
            let mut is_used_again = false;
            for n in 12.. {
                let next = bench.loader.batch(&uri, &tags_of(n));
                is_used_again |= bench.loader.view(next).data == view.data;
                bench.loader.release(next, None).unwrap();
                if is_used_again {
                    break;
                }
                assert!(n < 10_000, "{how:?}: the slot never comes back");
            }
        }
    }
}

#[test]
fn slots_that_all_wait_for_queued_work_are_told_of_and_come_back() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for thread_mode in [0, THREADS_PUMP] {
        let gpu = Gpu::new(&*platform, 0);
        let config = tight(&Config { thread_mode, ..device_config(&*platform, 2) });
        let bench = Bench::new(&gpu, How::Event, config);
        platform.hold_stream(bench.other.as_raw(), 1);
        for n in 0..2 {
            let batch = bench.loader.batch(&uri, &tags_of(n));
            bench.use_and_release(batch, gpu.pinned(BATCH_BYTES), How::Event).unwrap();
        }
        bench.loader.push(&uri, &tags_of(2)).unwrap();
        let Err((status, text)) = bench.loader.try_pop(2_000_000) else { panic!("a batch") };
        assert_eq!(status, Status::Starved);
        assert!(text.contains("2 batch slots were released and wait"), "{text}");
        assert_eq!(bench.loader.stats().batches_held, 0);
        std::thread::scope(|scope| {
            // Whoever waits already is told too.
            let waiting = scope.spawn(|| bench.loader.pop());
            platform.hold_stream(bench.other.as_raw(), 0);
            let batch = waiting.join().unwrap();
            check(&bench.loader.view(batch));
            bench.loader.release(batch, None).unwrap();
        });
    }
}

// ---- Which waits are needed --------------------------------------------------------------------

/// Streams batches that are read later and given back at once; what was wrong, if anything.
fn consume(
    simulator: &Simulator,
    uri: &str,
    how: How,
    drop: Option<i64>,
) -> (u64, Result<(), String>) {
    let gpu = &Gpu::new(simulator, 0);
    const BATCHES: u64 = 4;
    let config = roomy(&Config { thread_mode: THREADS_PUMP, ..device_config(simulator, 1) });
    let bench = Bench::new(gpu, how, config);
    simulator.drop_wait(drop.unwrap_or(-1));
    let (mut result, mut waits) = (Ok(()), 0);
    let mut targets = Vec::new();
    for n in 0..BATCHES {
        bench.loader.push(uri, &tags_of(n)).unwrap();
        let batch = match bench.loader.try_pop(PATIENCE_NS) {
            Ok(batch) => batch,
            Err(why) => {
                result = Err(format!("{why:?}"));
                break;
            }
        };
        let view = bench.loader.view(batch);
        if bytes(&view) != expected(&tags_of(n)) {
            result = Err(format!("batch {n} has wrong bytes"));
        }
        let target = gpu.pinned(BATCH_BYTES);
        targets.push((n, target));
        // Nothing follows the last: what it waits for cannot be seen to be needed.
        let is_last = n + 1 == BATCHES;
        waits = simulator.waits();
        bench.use_and_release(batch, target, if is_last { How::ReadyStream } else { how }).unwrap();
    }
    simulator.drop_wait(-1);
    for stream in [bench.named, bench.other] {
        gpu.synchronize(stream);
    }
    assert_eq!(bench.loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
    for (n, target) in targets {
        if read_by(target) != expected(&tags_of(n)) {
            result = Err(format!("the consumer of batch {n} read wrong bytes"));
        }
    }
    (waits, result)
}

#[test]
fn every_wait_between_streams_is_needed() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for how in [How::Event, How::ConsumerStream, How::Export, How::ReadyStream] {
        let once = |mode, seed, drop| {
            simulator.set_mode(mode, seed);
            let outcome = consume(&simulator, &uri, how, drop);
            simulator.set_mode(Mode::Eager, 0);
            outcome
        };
        let (waits, clean) = once(Mode::Lazy, 1, None);
        clean.unwrap();
        // An event that is over when the batch is given back needs none, a stream is never waited
        // for.
        assert!((how == How::Event) == (waits > 0), "{how:?}: {waits} waits");
        for wait in 0..waits as i64 {
            // Only in this mode: in others a kernel may run while the copy that it does not wait
            // for changes what it reads, and then the threads of a block need not agree any more.
            let is_seen = (0..400).any(|seed| once(Mode::Lazy, seed, Some(wait)).1.is_err());
            assert!(is_seen, "{how:?}: nobody misses wait {wait} of {waits}");
        }
    }
}

#[test]
fn consumers_read_their_own_batch_in_every_mode_and_way() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "zstd", true);
    for how in HOWS {
        for (seed, mode) in [Mode::Jitter, Mode::Lazy, Mode::Eager].into_iter().enumerate() {
            let gpu = Gpu::new(&*platform, 0);
            let bench = Bench::new(&gpu, how, tight(&device_config(&*platform, 2)));
            platform.set_mode(mode, seed as u64);
            let mut targets = Vec::new();
            for n in 0..20 {
                let batch = bench.loader.batch(&uri, &tags_of(n));
                let target = gpu.pinned(BATCH_BYTES);
                bench.use_and_release(batch, target, how).unwrap();
                targets.push(target);
            }
            gpu.synchronize(bench.other);
            gpu.synchronize(bench.named);
            assert_eq!(bench.loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
            for (n, target) in targets.into_iter().enumerate() {
                assert!(read_by(target) == expected(&tags_of(n as u64)), "{how:?} {mode:?} {n}");
            }
        }
    }
}

// ---- Tensors -----------------------------------------------------------------------------------

#[test]
fn a_tensor_outlives_its_batch_and_is_deleted_on_another_thread() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&tight(&device_config(&*platform, 2)));
    let stream = gpu.stream();
    for round in 0..10 {
        let first = 10 * round;
        let batch = loader.batch(&uri, &tags_of(first));
        let tensor = loader.export(batch, stream).unwrap();
        loader.release(batch, None).unwrap();
        for n in 1..4 {
            let next = loader.batch(&uri, &tags_of(first + n));
            check(&loader.view(next));
            loader.release(next, None).unwrap();
        }
        assert!(tensor.bytes() == expected(&tags_of(first)));
        assert_eq!(loader.stats().batches_held, 1);
        let thread = std::thread::spawn(move || tensor.delete());
        thread.join().unwrap();
        assert_eq!(loader.stats().batches_held, 0);
    }
}

#[test]
fn a_batch_is_exported_to_nine_streams_and_again_to_any_of_them() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&device_config(&*platform, 2));
    let batch = loader.batch(&uri, &tags_of(0));
    let streams: Vec<Stream> = (0..10).map(|_| gpu.stream()).collect();
    for stream in &streams[..9] {
        loader.export(batch, *stream).unwrap().delete();
    }
    let Err((status, _)) = loader.export(batch, streams[9]) else { panic!("a tenth stream") };
    assert_eq!(status, Status::Again);
    streams[..9].iter().for_each(|stream| loader.export(batch, *stream).unwrap().delete());
    // The next batch of the slot begins anew.
    loader.release(batch, None).unwrap();
    for n in 1..3 {
        let batch = loader.batch(&uri, &tags_of(n));
        loader.export(batch, streams[9]).unwrap().delete();
        loader.release(batch, None).unwrap();
    }
}

#[test]
fn a_stream_whose_export_was_refused_is_not_waited_for() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let loader = Handle::new(&device_config(&*platform, 2));
    let batch = loader.batch(&uri, &tags_of(0));
    let kept = gpu.stream();
    let tensors: Vec<Tensor> =
        (0..TENSORS_PER_SLOT).map(|_| loader.export(batch, kept).unwrap()).collect();
    let refused = gpu.stream();
    let Err((status, _)) = loader.export(batch, refused) else { panic!("a ninth tensor") };
    assert_eq!(status, Status::Again);
    // Nobody has a tensor for it, so it may go.
    gpu.end_stream(refused);
    loader.release(batch, None).unwrap();
    tensors.into_iter().for_each(Tensor::delete);
    let batch = loader.batch(&uri, &tags_of(1));
    loader.release(batch, None).unwrap();
}

#[test]
fn a_stream_of_another_context_or_none_at_all_is_refused_where_it_is_named() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&simulator, 0);
    let ended = gpu.stream();
    gpu.end_stream(ended);
    let other = Gpu::new(&simulator, 0);
    let foreign = other.stream();
    gpu.driver.ctx_push_current(gpu.context).unwrap();
    let cases = [(foreign, "a stream of another context"), (ended, "no stream")];
    for (stream, flaw) in cases {
        let config = Config { consumer_stream: stream.as_raw(), ..device_config(&simulator, 2) };
        let Err((status, text)) = Handle::open(&config) else { panic!("opened") };
        assert_eq!(status, Status::Invalid);
        assert!(text.starts_with("consumer_stream is ") && text.contains(flaw), "{text}");
    }
    let lines = Lines::default();
    let loader = Handle::new(&Config { log: lines.hook(), ..device_config(&simulator, 2) });
    let batch = loader.batch(&uri, &tags_of(0));
    for (stream, flaw) in cases {
        let Err((status, _)) = loader.export(batch, stream) else { panic!("exported") };
        assert_eq!(status, Status::Invalid);
        // The export's own refusals are logged, because only what ends a stream is its error.
        let text = lines.take().pop().expect("a line").2;
        assert!(text.starts_with("dlpack: stream is ") && text.contains(flaw), "{text}");
    }
    loader.release(batch, None).unwrap();
    let next = loader.batch(&uri, &tags_of(1));
    check(&loader.view(next));
    loader.release(next, None).unwrap();
    drop(loader);
    gpu.driver.ctx_pop_current().unwrap();
    drop(other);
}

// ---- Close and reset ---------------------------------------------------------------------------

#[test]
fn close_waits_for_batches_and_for_queued_work_and_says_so() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for thread_mode in [0, THREADS_PUMP] {
        for how in HOWS {
            let gpu = Gpu::new(&*platform, 0);
            let config = tight(&Config { thread_mode, ..device_config(&*platform, 3) });
            let bench = Bench::new(&gpu, how, config);
            let target = gpu.pinned(BATCH_BYTES);
            let (held, used) =
                (bench.loader.batch(&uri, &tags_of(0)), bench.loader.batch(&uri, &tags_of(1)));
            let stream = bench.stream(&bench.loader.view(used), how);
            bench.loader.push(&uri, &tags_of(2)).unwrap();
            platform.hold_stream(stream.as_raw(), 1);
            bench.use_and_release(used, target, how).unwrap();
            assert_eq!(bench.loader.close(1_000_000), (Some(Status::Again), 1));
            // For the batch that is held alone, before the time is over.
            assert_eq!(bench.loader.close(PATIENCE_NS), (Some(Status::Again), 1));
            check(&bench.loader.view(held));
            bench.loader.release(held, None).unwrap();
            assert_eq!(bench.loader.close(1_000_000), (Some(Status::Again), 0), "{how:?}");
            platform.hold_stream(stream.as_raw(), 0);
            assert_eq!(bench.loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
            assert!(read_by(target) == expected(&tags_of(1)), "{how:?}");
        }
    }
}

/// Bytes of the system's that were mapped, and given back before the rest.
static MAPPED: AtomicU64 = AtomicU64::new(0);
static VACATED: AtomicU64 = AtomicU64::new(0);

static SEEN: Os = Os {
    map: |bytes| {
        MAPPED.store(bytes, SeqCst);
        (SYSTEM.map)(bytes)
    },
    vacate: |pages, bytes| {
        VACATED.fetch_add(bytes, SeqCst);
        (SYSTEM.vacate)(pages, bytes);
    },
    ..SYSTEM
};

#[test]
fn a_closed_loader_gives_pages_of_the_host_back_and_the_device_goes_on_until_the_last_batch() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for thread_mode in [0, THREADS_PUMP] {
        let gpu = Gpu::new(&*platform, 0);
        let config = tight(&Config { thread_mode, digest: 1, ..device_config(&*platform, 3) });
        VACATED.store(0, SeqCst);
        let loader = Loader::open_on(&SEEN, &config).unwrap_or_else(|why| panic!("{why}"));
        let handle = Handle(loader.token());
        std::mem::forget(loader);
        let stream = gpu.stream();
        let (held, other) = (handle.batch(&uri, &tags_of(0)), handle.batch(&uri, &tags_of(1)));
        let tensor = handle.export(other, stream).unwrap();
        handle.release(other, None).unwrap();
        handle.push(&uri, &tags_of(2)).unwrap();
        assert_eq!(handle.close(PATIENCE_NS), (Some(Status::Again), 2));
        let (mapped, kept) = (MAPPED.load(SeqCst), MAPPED.load(SeqCst) - VACATED.load(SeqCst));
        assert!(kept < 128 << 10 && mapped > 1 << 20, "{kept} of {mapped} bytes are kept");
        check(&handle.view(held));
        check_digests(&handle.view(held), 0);
        assert!(tensor.bytes() == expected(&tags_of(1)));
        platform.hold_stream(stream.as_raw(), 1);
        tensor.delete();
        handle.release(held, None).unwrap();
        assert_eq!(handle.release(held, None).unwrap_err().0, Status::Invalid);
        assert_eq!(handle.stats().batches_held, 0);
        assert_eq!(handle.close(1_000_000), (Some(Status::Again), 0), "the fences are looked at");
        platform.hold_stream(stream.as_raw(), 0);
        assert_eq!(handle.close(UNTIL_RELEASED), (Some(Status::Ok), 0));
    }
}

#[test]
fn reset_in_mid_stream_drops_what_is_not_popped_and_nothing_else() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "zstd", true);
    for (seed, mode) in [Mode::Jitter, Mode::Lazy, Mode::Eager].into_iter().enumerate() {
        platform.set_mode(mode, seed as u64);
        let mut dice = Dice(seed as u64 + 3);
        let loader = Handle::new(&tight(&device_config(&*platform, 3)));
        let mut held = None;
        for round in 0..12 {
            loader.push(&uri, &[tags_of(round), tags_of(round + 1)].concat()).unwrap();
            for n in 0..dice.range(0, 3) as u64 {
                let batch = loader.pop();
                let view = loader.view(batch);
                assert_eq!((tags(&view), view.batch_id), (tags_of(round + n).to_vec(), n));
                check(&view);
                if let Some((before, _)) = held.replace((batch, round + n)) {
                    loader.release(before, None).unwrap();
                }
            }
            loader.reset().unwrap();
            if let Some((batch, n)) = held {
                assert!(bytes(&loader.view(batch)) == expected(&tags_of(n)));
            }
        }
        held.into_iter().for_each(|(batch, _)| loader.release(batch, None).unwrap());
    }
}

// ---- Contexts, devices, threads, processes -----------------------------------------------------

#[test]
fn loaders_in_two_contexts_on_two_devices_stream_side_by_side() {
    let Some(simulator) = Simulator::take() else { return };
    simulator.set_devices(2);
    let scratch = Scratch::new();
    let uri = places(&scratch, "zstd", true);
    std::thread::scope(|scope| {
        for (device, own) in [(0, false), (1, false), (0, true), (1, true)] {
            let (simulator, uri) = (&simulator, &uri);
            scope.spawn(move || {
                // Its own context is captured, else the primary one retained.
                let gpu = own.then(|| Gpu::new(simulator, device));
                let number = if own { -1 } else { device };
                let config = Config { device: number, ..device_config(simulator, 2) };
                let before = simulator.thread();
                let loader = Handle::new(&tight(&config));
                for n in 0..20 {
                    let batch = loader.batch(uri, &tags_of(n));
                    let view = loader.view(batch);
                    assert_eq!(view.device, device);
                    check(&view);
                    loader.release(batch, None).unwrap();
                    assert_eq!(simulator.thread(), before);
                }
                drop(loader);
                assert_eq!(simulator.thread(), before);
                drop(gpu);
            });
        }
    });
}

/// In a process of its own: a child has whatever other tests are at, half done.
#[test]
fn in_a_forked_child_every_call_is_shutdown_and_the_driver_is_not_called() {
    alone(|| {
        let Some(platform) = platform::take() else { return };
        let scratch = Scratch::new();
        let uri = places(&scratch, "raw", false);
        let gpu = Gpu::new(&*platform, 0);
        let loader = Handle::new(&device_config(&*platform, 2));
        let batch = loader.batch(&uri, &tags_of(0));
        let tensor = loader.export(batch, gpu.stream()).unwrap();
        // SAFETY: the child calls the loader and what ends it; an alarm makes a hang a failure.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::alarm(120) };
            let shutdown = Status::Shutdown as i32;
            tensor.delete();
            let codes = [
                // SAFETY: there is no event.
                unsafe {
                    wavetrain::surface::c::wavetrain_release(loader.0, batch, std::ptr::null_mut())
                },
                wavetrain::surface::c::wavetrain_reset(loader.0),
                // SAFETY: a call of a loader that is not this process's looks at nothing.
                unsafe { wavetrain_stats(loader.0, std::ptr::null_mut()) },
                loader.close(0).0.map_or(99, |status| status as i32),
            ];
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(codes != [shutdown; 4])) };
        }
        let mut ended = -1;
        // SAFETY: the status is writable.
        assert_eq!(unsafe { libc::waitpid(child, &mut ended, 0) }, child);
        assert_eq!(ended, 0);
        check(&loader.view(batch));
        tensor.delete();
        loader.release(batch, None).unwrap();
        let batch = loader.batch(&uri, &tags_of(1));
        loader.release(batch, None).unwrap();
    });
}
