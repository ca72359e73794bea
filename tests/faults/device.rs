//! Every call of the driver fails once, and nothing comes of it but a status.
//!
//! In: the whole life of a loader, from open to close, on the simulated device. Each entry of the
//! driver's table is made to fail at its first call, its second, and so on until the life has no
//! such call any more. Invariant: what fails is told with the name of the entry, bytes that come
//! out are right, the stream stays ended, close works, and all is given back.

use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::PATIENCE_NS;
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::Platform;
use crate::common::surface::Lines;
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use wavetrain::abi::{LogHook, Stats};
use wavetrain::config::{Config, DECODE_OFF, DECODE_ON, LOG_ERROR, THREADS_OWN, THREADS_PUMP};
use wavetrain::cuda::entries::names;
use wavetrain::cuda::handles::{DevicePointer, Event, Stream};
use wavetrain::loader::{Loader, Pop};
use wavetrain::os::SYSTEM;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_stats;

/// Entries whose failure costs nothing: times, free memory, names, texts, whose stream one is.
const UNNEEDED: [&str; 6] = [
    "cuStreamGetCtx",
    "cuEventElapsedTime",
    "cuMemGetInfo_v2",
    "cuDeviceGetName",
    "cuGetErrorName",
    "cuGetErrorString",
];

/// Entries that give something back. One that fails keeps what it had, and nobody can change that.
pub const GIVING_BACK: [&str; 6] = [
    "cuEventDestroy_v2",
    "cuStreamDestroy_v2",
    "cuModuleUnload",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuDevicePrimaryCtxRelease_v2",
];

/// What a consumer has.
struct Consumer {
    stream: Stream,
    event: Event,
    /// For batches, which it lends for some.
    memory: DevicePointer,
}

/// What a life came to.
#[derive(Default)]
struct Outcome {
    /// What calls said that failed.
    refusals: Vec<Refusal>,
    /// Whether the fault came before close.
    is_early: bool,
}

impl Outcome {
    /// Notes a refusal; the result of the call, if there is one.
    fn note<T>(&mut self, result: Result<T, Refusal>) -> Option<T> {
        result.map_err(|refusal| self.refusals.push(refusal)).ok()
    }
}

/// A whole life: open, batches given back in every way, reset, batches again, close.
fn live(simulator: &Simulator, config: &Config, uri: &str, consumer: &Consumer) -> Outcome {
    let mut outcome = Outcome::default();
    let Some(loader) = outcome.note(Handle::open(config)) else {
        outcome.is_early = true;
        return outcome;
    };
    if stream(&loader, uri, consumer, &mut outcome).is_some() {
        outcome.note(loader.push(uri, &[40, 41, 42, 43]));
        if outcome.note(loader.reset()).is_some() {
            let _ = stream(&loader, uri, consumer, &mut outcome);
        }
    }
    check_ended(&loader, uri, &outcome);
    outcome.is_early = simulator.is_fault_over();
    assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
    outcome
}

/// Five batches, up to the first failure.
fn stream(loader: &Handle, uri: &str, consumer: &Consumer, outcome: &mut Outcome) -> Option<()> {
    let all: Vec<u64> = (0..5 * SAMPLES as u64).collect();
    // The lookahead holds two batches.
    outcome.note(loader.push(uri, &all[..2 * SAMPLES]))?;
    let mut rest = all[2 * SAMPLES..].chunks(SAMPLES);
    for number in 0..5 {
        // The batch may have a slot by now. What is lent waits for the next one, or the end.
        if number == 1 && loader.stats().memories_lent == 0 {
            let bytes = SAMPLES as u64 * CROP * CROP * 2;
            outcome.note(loader.lend(consumer.memory.0, bytes, Some(consumer.event), 7))?;
        }
        let batch = outcome.note(loader.try_pop(PATIENCE_NS))?;
        let view = loader.view(batch);
        check(&view);
        if !view.digests.is_null() {
            check_digests(&view, number * SAMPLES as u64);
        }
        let tensor = match number % 3 {
            0 => outcome.note(loader.export(batch, consumer.stream)),
            _ => None,
        };
        let event = (number % 2 == 0).then_some(consumer.event);
        let released = outcome.note(loader.release(batch, event));
        tensor.into_iter().for_each(Tensor::delete);
        released?;
        match rest.next() {
            Some(tags) => outcome.note(loader.push(uri, tags))?,
            None => outcome.note(loader.flush())?,
        }
    }
    match loader.try_pop(PATIENCE_NS) {
        Err((Status::End, _)) => Some(()),
        Err(refusal) => outcome.note::<()>(Err(refusal)),
        Ok(_) => panic!("more batches than samples"),
    }
}

/// A stream that ended stays so, and says the same again, also after a reset.
fn check_ended(loader: &Handle, uri: &str, outcome: &Outcome) {
    let Some(first) = outcome.refusals.first() else { return };
    for _ in 0..2 {
        let Err(again) = loader.try_pop(0) else { panic!("a batch after {first:?}") };
        assert_eq!(again.0, first.0);
        assert_eq!(loader.push(uri, &[1]), Err(again.clone()));
        assert_eq!(loader.flush(), Err(again));
        loader.reset().unwrap();
    }
}

/// One life with one call that fails; false where the life has no such call.
fn fails_once(
    simulator: &Simulator,
    (config, uri, consumer): (&Config, &str, &Consumer),
    (entry, step, code): (&CStr, u64, u32),
) -> bool {
    let (thread, live_before) = (simulator.thread(), simulator.live().0);
    simulator.fail(Some(entry), step, code, 1);
    let outcome = live(simulator, config, uri, consumer);
    let was_hit = simulator.is_fault_over();
    simulator.fail_none();
    let name = entry.to_str().unwrap();
    let case = format!("{name}, call {step}, code {code}: {:?}", outcome.refusals);
    for (status, text) in &outcome.refusals {
        assert!(was_hit && !UNNEEDED.contains(&name), "{case}");
        let is_told = matches!(status, Status::Cuda | Status::OutOfMemory);
        assert!(is_told && text.contains(&format!("({code})")), "{case}");
        assert!(text.contains(name.trim_end_matches("_v2")), "{case}");
    }
    let is_needed = !UNNEEDED.contains(&name) && !GIVING_BACK.contains(&name);
    let is_retried = ["cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode"].contains(&name);
    if was_hit && outcome.is_early && is_needed && !is_retried {
        assert!(!outcome.refusals.is_empty(), "{case}: nobody was told");
    }
    assert_eq!(simulator.thread(), thread, "{case}");
    let kept = u64::from(was_hit && GIVING_BACK.contains(&name));
    let (live_after, which) = simulator.live();
    assert!(live_after <= live_before + kept, "{case}: {which}");
    assert_eq!(simulator.findings().0, 0, "{case}: {}", simulator.findings().1);
    was_hit
}

/// The calls that are made to fail: all of the first, then fewer and fewer, because how often a
/// device is looked at is chance.
fn steps(dense: u64) -> impl Iterator<Item = u64> {
    let sparse = std::iter::successors(Some(dense), |step| Some(step + step / 2));
    (0..dense).chain(sparse)
}

/// Every entry, at so many calls.
fn sweep(
    mode: Mode,
    thread_mode: u32,
    (dense, digest, device_decode): (u64, u32, u32),
    codes: &[u32],
) {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = match device_decode {
        DECODE_ON => places_in_lz4(&scratch, "lz4"),
        _ => places(&scratch, "raw", false),
    };
    {
        let gpu = Gpu::new(&simulator, 0);
        let consumer = Consumer {
            stream: gpu.stream(),
            event: gpu.event(),
            memory: gpu.memory(SAMPLES * (CROP * CROP * 2) as usize),
        };
        gpu.driver.event_record(consumer.event, consumer.stream).unwrap();
        gpu.synchronize(consumer.stream);
        let config = tight(&Config {
            thread_mode,
            digest,
            device_decode,
            consumer_stream: consumer.stream.as_raw(),
            ..device_config(&simulator, 2)
        });
        simulator.set_mode(mode, 5);
        let mut hits = 0;
        for (number, entry) in names().enumerate() {
            for step in steps(dense) {
                let code = codes[(step as usize + number) % codes.len()];
                if !fails_once(&simulator, (&config, &uri, &consumer), (entry.name, step, code)) {
                    break;
                }
                hits += 1;
            }
        }
        assert!(hits > 80, "{hits} calls failed");
        // What the driver kept goes with the context, which is said here.
    }
    let kept = simulator.take_findings();
    assert!(kept.is_empty() || kept.contains("a context ended with"), "{kept}");
}

#[test]
fn a_call_that_fails_is_told_by_its_name_and_leaves_nothing_behind() {
    for (dense, digest, decode, codes) in [
        (12, 0, DECODE_OFF, [2, 700, 999]),
        (12, 1, DECODE_ON, [700, 999, 2]),
        (3, 1, DECODE_OFF, [999, 2, 700]),
    ] {
        sweep(Mode::Eager, THREADS_PUMP, (dense, digest, decode), &codes);
    }
}

#[test]
fn so_it_is_on_threads_of_ours_and_on_a_device_in_no_hurry() {
    sweep(Mode::Lazy, THREADS_OWN, (4, 1, DECODE_ON), &[700, 2, 999]);
}

#[test]
fn a_call_that_fails_while_a_reset_waits_for_the_device_ends_the_stream() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let config = tight(&Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) });
    let mut told = Vec::new();
    for entry in names() {
        let name = entry.name.to_str().unwrap().trim_end_matches("_v2");
        for step in 0.. {
            let loader = Handle::open(&config).unwrap();
            loader.push(&uri, &[1, 2]).unwrap();
            let batch = loader.try_pop(PATIENCE_NS).unwrap();
            loader.release(batch, None).unwrap();
            // Nobody but this call has the driver now.
            simulator.fail(Some(entry.name), step, 999, 1);
            loader.reset().unwrap();
            let was_hit = simulator.is_fault_over();
            simulator.fail_none();
            let pushed = loader.push(&uri, &[1, 2]);
            assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
            if !was_hit {
                assert_eq!(pushed, Ok(()), "{name}");
                break;
            }
            // Made again, with what it was to do done.
            if !["cuCtxPopCurrent", "cuThreadExchangeStreamCaptureMode"].contains(&name) {
                let (status, text) = pushed.expect_err(name);
                assert!(status == Status::Cuda && text.contains(name), "{name}: {text}");
                told.push(name);
            }
        }
    }
    told.dedup();
    assert_eq!(told, ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuStreamSynchronize"]);
    assert_eq!(simulator.findings().0, 0, "{}", simulator.findings().1);
}

#[test]
fn no_lock_is_held_while_the_log_hook_hears_that_the_device_failed() {
    static LOADER: AtomicU64 = AtomicU64::new(0);
    static LINES: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn log(_: *mut c_void, level: u32, _: u64, _: *const c_char, _: u64) {
        if level != LOG_ERROR {
            return;
        }
        // Another thread of the program takes a look at its loader meanwhile.
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut stats = Stats::EMPTY;
            // SAFETY: the struct is whole.
            unsafe { wavetrain_stats(LOADER.load(SeqCst), &mut stats) };
            let _ = done.send(());
        });
        let is_free = is_done.recv_timeout(Duration::from_nanos(PATIENCE_NS)).is_ok();
        LINES.fetch_add(u64::from(is_free), SeqCst);
    }
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let base = device_config(&simulator, 2);
    let hook = LogHook { log: Some(log), ..base.log };
    let loader = Handle::new(&tight(&Config { thread_mode: THREADS_PUMP, log: hook, ..base }));
    LOADER.store(loader.0, SeqCst);
    let batch = loader.batch(&uri, &[1, 2]);
    simulator.fail(Some(c"cuEventRecord"), 0, 700, 1);
    assert_eq!(loader.release(batch, None).unwrap_err().0, Status::Cuda);
    simulator.fail_none();
    assert_eq!(LINES.load(SeqCst), 1);
}

#[test]
fn a_reset_forgets_the_store_s_failure_and_keeps_the_device_s() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
    let loader = Handle::new(&tight(&config));
    let batch = loader.batch(&uri, &[1, 2]);
    loader.push(&scratch.uri("absent"), &[3, 4]).unwrap();
    assert_eq!(loader.try_pop(PATIENCE_NS).unwrap_err().0, Status::NotFound);
    simulator.fail(Some(c"cuEventRecord"), 0, 700, 1);
    assert_eq!(loader.release(batch, None).unwrap_err().0, Status::Cuda);
    simulator.fail_none();
    // The first failure ends the stream, and the device's is there behind it.
    assert_eq!(loader.push(&uri, &[1]).unwrap_err().0, Status::NotFound);
    loader.reset().unwrap();
    let (status, text) = loader.push(&uri, &[1]).unwrap_err();
    assert!(status == Status::Cuda && text.contains("cuEventRecord"), "{text}");
}

#[test]
fn a_release_of_lent_memory_whose_event_cannot_be_looked_at_says_so() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&simulator, 0);
    let (stream, event) = (gpu.stream(), gpu.event());
    gpu.driver.event_record(event, stream).unwrap();
    let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
    let loader = Handle::new(&tight(&config));
    loader.lend(gpu.memory(BATCH_BYTES).0, BATCH_BYTES as u64, None, 7).unwrap();
    let batch = loader.batch(&uri, &[1, 2]);
    simulator.fail(Some(c"cuEventQuery"), 0, 700, 1);
    let (status, text) = loader.release(batch, Some(event)).unwrap_err();
    simulator.fail_none();
    assert!(status == Status::Cuda && text.contains("cuEventQuery"), "{text}");
    // The batch was given back, and the stream has ended.
    assert_eq!(loader.release(batch, None).unwrap_err().0, Status::Invalid);
    let (status, text) = loader.push(&uri, &[3]).unwrap_err();
    assert!(status == Status::Cuda && text.contains("cuEventQuery"), "{text}");
    assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
}

/// A close of 10 ms beside a consumer's stream that stands still, once the device has failed in
/// `fail`, which releases the batch that is worked on there: the work holds it up, nothing else.
fn close_in_time(simulator: &Simulator, uri: &str, fail: impl Fn(&Gpu<'_>, &Handle, u64, Stream)) {
    let gpu = Gpu::new(simulator, 0);
    let config = Config { thread_mode: THREADS_PUMP, ..device_config(simulator, 3) };
    let loader = Handle::new(&tight(&config));
    let (batch, stream) = (loader.batch(uri, &[1, 2]), gpu.stream());
    let target = gpu.pinned(BATCH_BYTES);
    let view = loader.view(batch);
    loader.export(batch, stream).unwrap().delete();
    simulator.hold_stream(stream.as_raw(), 1);
    gpu.read_later(&view, target, stream);
    fail(&gpu, &loader, batch, stream);
    let (done, is_done) = std::sync::mpsc::channel();
    let closed = std::thread::scope(|scope| {
        scope.spawn(|| done.send(loader.close(10_000_000)).unwrap());
        let closed = is_done.recv_timeout(Duration::from_nanos(PATIENCE_NS));
        simulator.fail_none();
        simulator.hold_stream(stream.as_raw(), 0);
        closed
    });
    assert_eq!(closed, Ok((Some(Status::Again), 0)));
    assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
    assert_eq!(simulator.findings().0, 0, "{}", simulator.findings().1);
}

#[test]
fn a_close_whose_look_at_the_device_fails_once_waits_no_longer_than_it_was_told() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for entry in [c"cuStreamQuery", c"cuStreamIsCapturing", c"cuCtxGetCurrent"] {
        close_in_time(&simulator, &uri, |_, loader, batch, _| {
            loader.release(batch, None).unwrap();
            simulator.fail(Some(entry), 0, 999, 1);
        });
    }
}

#[test]
fn a_close_behind_a_release_that_failed_waits_no_longer_than_it_was_told() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for entry in [c"cuEventRecord", c"cuStreamIsCapturing"] {
        close_in_time(&simulator, &uri, |_, loader, batch, _| {
            simulator.fail(Some(entry), 0, 999, 1);
            assert_eq!(loader.release(batch, None).unwrap_err().0, Status::Cuda);
        });
    }
    // Of a batch that was given back in a capture, before another one's release failed.
    close_in_time(&simulator, &uri, |gpu, loader, batch, stream| {
        let other = loader.batch(&uri, &[3, 4]);
        gpu.begin_capture(stream);
        loader.release(batch, None).unwrap();
        simulator.fail(Some(c"cuEventRecord"), 0, 999, 1);
        assert_eq!(loader.release(other, None).unwrap_err().0, Status::Cuda);
        simulator.fail_none();
        gpu.end_capture(stream).unwrap();
    });
}

#[test]
fn a_failing_device_is_logged_once_and_not_at_all_as_the_process_ends() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    const DEINITIALIZED: u32 = 4;
    for (entry, code, count) in [(Some(c"cuEventRecord"), 700, 1), (None, DEINITIALIZED, 0)] {
        let lines = Lines::default();
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 3) };
        let loader = Handle::new(&tight(&Config { log: lines.hook(), ..config }));
        let batches = [0, 1, 2].map(|n| loader.batch(&uri, &[n, n + 1]));
        lines.take();
        simulator.fail(entry, 0, code, u64::MAX);
        for batch in batches {
            assert_eq!(loader.release(batch, None).unwrap_err().0, Status::Cuda);
        }
        simulator.fail_none();
        let told = lines.take();
        assert_eq!(told.len(), count, "{told:?}");
    }
}

// ---- Copies to the host -----------------------------------------------------------------------

/// Bytes of a batch.
const BATCH_BYTES: usize = SAMPLES * (CROP * CROP * 2) as usize;

/// A life whose batches are copied to the host, into both targets; what calls said that failed, up
/// to the first that ends the stream, and how many of them were copies.
fn copy_out(config: &Config, uri: &str, [one, other]: [&mut [u8]; 2]) -> (Vec<String>, u32) {
    let (mut refusals, mut copies) = (Vec::new(), 0);
    let loader = match Loader::open_on(&SYSTEM, config) {
        Ok(loader) => loader,
        Err(failure) => return (vec![failure.to_string()], 0),
    };
    let handle = ManuallyDrop::new(Handle(loader.token()));
    for n in 0..3 {
        let tags = [2 * n, 2 * n + 1];
        if let Err((_, text)) = handle.push(uri, &tags) {
            refusals.push(text);
            break;
        }
        let batch = match loader.pop(PATIENCE_NS) {
            Ok(Pop::Batch(batch)) => batch,
            Ok(_) => panic!("no batch"),
            Err(failure) => {
                refusals.push(failure.to_string());
                break;
            }
        };
        one.fill(0xA5);
        if let Err(failure) = batch.copy_to(one) {
            assert!(failure.text.as_str().starts_with("copy_to: "), "{failure}");
            refusals.push(failure.to_string());
            copies += 1;
            // It costs this copy and nothing else, and nothing comes of it later.
            one.fill(0x5A);
            batch.copy_to(other).unwrap_or_else(|again| panic!("{failure}, then {again}"));
            assert!(*other == expected(&tags)[..], "after {failure}");
            assert!(one.iter().all(|byte| *byte == 0x5A), "written after {failure}");
        } else {
            assert!(*one == expected(&tags)[..], "batch {n}");
        }
    }
    loader.close(PATIENCE_NS).unwrap();
    (refusals, copies)
}

#[test]
fn a_copy_to_the_host_that_fails_costs_itself_alone() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&simulator, 0);
    // Pinned, so that a copy runs later.
    let targets = [gpu.pinned(BATCH_BYTES), gpu.pinned(BATCH_BYTES)];
    let config = tight(&Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) });
    let mut failed_copies = 0;
    for mode in [Mode::Eager, Mode::Lazy] {
        simulator.set_mode(mode, 7);
        for entry in names() {
            let name = entry.name.to_str().unwrap();
            for step in steps(10) {
                let code = [700, 2, 999][step as usize % 3];
                simulator.fail(Some(entry.name), step, code, 1);
                // SAFETY: there are as many bytes, for one life at a time.
                let targets = targets.map(|target| unsafe {
                    std::slice::from_raw_parts_mut(target.as_ptr(), BATCH_BYTES)
                });
                let (refusals, copies) = copy_out(&config, &uri, targets);
                let was_hit = simulator.is_fault_over();
                simulator.fail_none();
                let case = format!("{mode:?} {name}, call {step}, code {code}: {refusals:?}");
                assert!(refusals.len() <= 1, "{case}");
                for text in &refusals {
                    assert!(was_hit && text.contains(&format!("({code})")), "{case}");
                    assert!(text.contains(name.trim_end_matches("_v2")), "{case}");
                }
                failed_copies += copies;
                if !was_hit {
                    break;
                }
            }
        }
    }
    assert!(failed_copies > 12, "{failed_copies} copies failed");
    drop(gpu);
    let kept = simulator.take_findings();
    assert!(kept.is_empty() || kept.contains("a context ended with"), "{kept}");
}

#[test]
fn a_driver_that_is_gone_as_the_process_ends_is_not_logged() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for (code, count) in [(999, 1), (4, 0)] {
        let lines = Lines::default();
        let config = Config { thread_mode: THREADS_PUMP, ..device_config(&simulator, 2) };
        let loader = Handle::new(&tight(&Config { log: lines.hook(), ..config }));
        let batch = loader.batch(&uri, &[0, 1]);
        lines.take();
        simulator.fail(Some(c"cuEventRecord"), 0, code, 1);
        assert_eq!(loader.release(batch, None).err().map(|(status, _)| status), Some(Status::Cuda));
        simulator.fail_none();
        // What ends the stream stays.
        assert_eq!(loader.try_pop(0).err().map(|(status, _)| status), Some(Status::Cuda));
        let told = lines.take();
        let ends = told.iter().filter(|(_, _, text)| text.contains("the stream ends"));
        assert_eq!(ends.count(), count, "{told:?}");
        drop(loader);
    }
}

// ---- Opens ------------------------------------------------------------------------------------

#[test]
fn an_open_that_fails_gives_the_primary_context_back() {
    let Some(simulator) = Simulator::take() else { return };
    let config = tight(&device_config(&simulator, 2));
    let refused = |step, code| {
        simulator.fail(None, step, code, 1);
        let result = Handle::open(&config);
        let was_hit = simulator.is_fault_over();
        simulator.fail_none();
        let is_refused = match result {
            Err((status, text)) => {
                assert!(matches!(status, Status::Cuda | Status::OutOfMemory), "{text}");
                assert!(text.contains(&format!("({code})")), "{text}");
                true
            }
            Ok(loader) => {
                assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
                false
            }
        };
        (was_hit, is_refused)
    };
    let (mut refusals, live_before) = (0, simulator.live().0);
    for step in 0.. {
        let (was_hit, is_refused) = refused(step, [2, 700, 999][step as usize % 3]);
        refusals += u32::from(is_refused);
        let (live, which) = simulator.live();
        assert_eq!(live, live_before, "call {step}: {which}");
        assert_eq!(simulator.thread(), (Vec::new(), 0));
        if !was_hit {
            break;
        }
    }
    assert!(refusals > 60, "{refusals} calls of open are needed");
}
