//! Batches in device memory that the caller lends.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::PATIENCE_NS;
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::{self, Platform};
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::cuda::handles::DevicePointer;
use wavetrain::status::Status;

const BATCH_BYTES: u64 = (SAMPLES as u64) * CROP * CROP * 2;
/// Bytes behind a batch that nobody may write.
const GUARD_BYTES: u64 = 512;

/// Memory for a batch, with a guard behind it.
fn memory(gpu: &Gpu<'_>) -> DevicePointer {
    gpu.memory((BATCH_BYTES + GUARD_BYTES) as usize)
}

fn check_guard(memory: DevicePointer) {
    let first = std::ptr::with_exposed_provenance::<c_void>(memory.at(BATCH_BYTES).0 as usize);
    let guard = platform::read(first, GUARD_BYTES as usize);
    assert!(guard.iter().all(|byte| *byte == 0xC3), "bytes behind a batch were written");
}

/// Nothing comes; what pop says.
fn starved(loader: &Handle) -> String {
    let (status, text) = loader.try_pop(20_000_000).expect_err("no batch");
    assert_eq!(status, Status::Starved, "{text}");
    text
}

#[test]
fn batches_lie_in_memory_that_was_lent() {
    let Some(platform) = platform::take() else { return };
    let scratch = Scratch::new();
    let uris = [places(&scratch, "raw", false), places_in_lz4(&scratch, "lz4")];
    let gpu = Gpu::new(&*platform, 0);
    let ring = [(); 3].map(|()| memory(&gpu));
    for (round, uri) in (0..6).zip(uris.iter().cycle()) {
        let (digest, lent_slots) = (round % 2, round / 2);
        let own = Config { digest, lent_slots, ..device_config(&*platform, 3) };
        let thread_mode = if round == 4 { THREADS_PUMP } else { own.thread_mode };
        let loader = Handle::new(&tight(&Config { thread_mode, ..own }));
        let count = if lent_slots == 0 { 3 } else { u64::from(lent_slots) };
        for tag in 0..count {
            loader.lend(ring[tag as usize].0, BATCH_BYTES, None, tag).unwrap();
        }
        assert_eq!(loader.stats().memories_lent, count as u32);
        for batch in 0..20u64 {
            let held = loader.batch(uri, &[2 * batch, 2 * batch + 1]);
            let view = loader.view(held);
            check(&view);
            if digest == 1 {
                check_digests(&view, 2 * batch);
            }
            let place = ring[(batch % count) as usize];
            assert_eq!((view.data as u64, view.is_lent), (place.0, 1));
            assert_eq!(view.lend_tag, batch % count);
            loader.release(held, None).unwrap();
            check_guard(place);
            loader.lend(place.0, BATCH_BYTES, None, view.lend_tag).unwrap();
        }
    }
}

#[test]
fn a_loader_whose_batches_are_lent_takes_no_slots_of_the_device() {
    let Some(platform) = platform::take() else { return };
    let mut config = device_config(&*platform, 3);
    config.sample_shape[..2].copy_from_slice(&[1024, 1024]);
    assert!(floors(&Config { lent_slots: 3, ..config }).0 < floors(&config).0);
}

#[test]
fn memory_is_written_behind_its_event_and_in_its_order() {
    // Slots of the loader's, where it has some, do not take the batch meanwhile.
    for lent_slots in [2, 0] {
        check_order(lent_slots);
    }
}

fn check_order(lent_slots: u32) {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let (stream, event) = (gpu.stream(), gpu.event());
    let ring = [(); 2].map(|()| memory(&gpu));
    let loader = Handle::new(&Config { lent_slots, ..device_config(&*platform, 2) });
    platform.hold_stream(stream.as_raw(), 1);
    let pinned = gpu.pinned(BATCH_BYTES as usize);
    // SAFETY: the pinned bytes stay, and are looked at after the stream has run.
    unsafe { gpu.driver.memcpy_dtoh_async(pinned.as_ptr(), ring[0], BATCH_BYTES, stream) }.unwrap();
    gpu.driver.event_record(event, stream).unwrap();
    loader.lend(ring[0].0, BATCH_BYTES, Some(event), 7).unwrap();
    // The event is the caller's again at once, and the next memory waits its turn.
    gpu.driver.event_record(event, gpu.stream()).unwrap();
    loader.lend(ring[1].0, BATCH_BYTES, Some(event), 8).unwrap();
    loader.push(&uri, &[1, 2, 3, 4]).unwrap();
    assert!(starved(&loader).contains("lent for the next batch waits for its event"));
    platform.hold_stream(stream.as_raw(), 0);
    for (tag, place) in [7, 8].into_iter().zip(ring) {
        let batch = loader.pop();
        let view = loader.view(batch);
        check(&view);
        assert_eq!((view.lend_tag, view.data as u64), (tag, place.0));
        loader.release(batch, None).unwrap();
    }
    gpu.synchronize(stream);
    // SAFETY: the copy has run.
    let before = unsafe { std::slice::from_raw_parts(pinned.as_ptr(), BATCH_BYTES as usize) };
    assert!(before.iter().all(|byte| *byte == 0xC3), "the memory was written before its event");
}

#[test]
fn memory_whose_event_does_not_come_goes_with_a_reset() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let (stream, event, place) = (gpu.stream(), gpu.event(), memory(&gpu));
    let loader = Handle::new(&Config { lent_slots: 1, ..device_config(&*platform, 1) });
    platform.hold_stream(stream.as_raw(), 1);
    gpu.driver.event_record(event, stream).unwrap();
    loader.lend(place.0, BATCH_BYTES, Some(event), 7).unwrap();
    loader.push(&uri, &[1, 2]).unwrap();
    loader.reset().unwrap();
    assert_eq!(loader.stats().memories_lent, 0);
    loader.lend(place.0, BATCH_BYTES, None, 9).unwrap();
    let batch = loader.batch(&uri, &[5, 6]);
    let view = loader.view(batch);
    check(&view);
    assert_eq!(view.lend_tag, 9);
    loader.release(batch, None).unwrap();
    platform.hold_stream(stream.as_raw(), 0);
}

#[test]
fn a_lent_batch_is_the_callers_whatever_is_queued_on_it() {
    let Some(platform) = platform::take_to_hold() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&*platform, 0);
    let (stream, event) = (gpu.stream(), gpu.event());
    let ring = [(); 2].map(|()| memory(&gpu));
    let loader = Handle::new(&Config { lent_slots: 1, ..device_config(&*platform, 1) });
    loader.lend(ring[0].0, BATCH_BYTES, None, 0).unwrap();
    let batch = loader.batch(&uri, &[1, 2]);
    platform.hold_stream(stream.as_raw(), 1);
    let tensor = loader.export(batch, stream).unwrap();
    gpu.driver.event_record(event, stream).unwrap();
    loader.release(batch, Some(event)).unwrap();
    assert_eq!(loader.stats().memories_lent, 1);
    let (status, text) = loader.lend(ring[0].0, BATCH_BYTES, None, 1).unwrap_err();
    assert!(status == Status::Invalid && text.contains("with tag 0"), "{text}");
    tensor.delete();
    // Its slot has no memory that anybody would wait for.
    assert_eq!(loader.stats().memories_lent, 0);
    loader.lend(ring[1].0, BATCH_BYTES, None, 1).unwrap();
    let batch = loader.batch(&uri, &[3, 4]);
    check(&loader.view(batch));
    loader.release(batch, None).unwrap();
    platform.hold_stream(stream.as_raw(), 0);
}

#[test]
fn what_is_no_memory_of_the_device_is_refused() {
    let Some(simulator) = Simulator::take() else { return };
    simulator.set_devices(2);
    let gpu = Gpu::new(&simulator, 0);
    let loader = Handle::new(&device_config(&simulator, 2));
    let mut host = vec![0u64; 1024];
    let pinned = gpu.pinned(BATCH_BYTES as usize);
    let place = memory(&gpu);
    let refused = |data: u64, bytes: u64, text: &str| {
        let (status, said) = loader.lend(data, bytes, None, 0).unwrap_err();
        assert!(status == Status::Invalid && said.contains(text), "{said}");
    };
    let of_host = "is not memory of a device, where batches are made: lend that of device 0";
    refused(host.as_mut_ptr().expose_provenance() as u64, BATCH_BYTES, of_host);
    refused(pinned.as_ptr().expose_provenance() as u64, BATCH_BYTES, of_host);
    refused(place.0 + GUARD_BYTES + 256, BATCH_BYTES, of_host);
    refused(place.0 + 1, BATCH_BYTES, "aligned to 2 bytes");
    refused(place.0, BATCH_BYTES - 1, "2 samples take 2304");
    let (stream, event) = (gpu.stream(), gpu.event());
    gpu.begin_capture(stream);
    gpu.driver.event_record(event, stream).unwrap();
    gpu.end_capture(stream).unwrap();
    let (status, text) = loader.lend(place.0, BATCH_BYTES, Some(event), 0).unwrap_err();
    assert_eq!(status, Status::Unsupported, "{text}");
    assert!(text.contains("was being captured") && text.contains("nothing was lent"), "{text}");
    assert_eq!(loader.stats().memories_lent, 0);
    drop(loader);
    let device = Gpu::new(&simulator, 1);
    let loader = Handle::new(&device_config(&simulator, 2));
    let (status, text) = loader.lend(place.0, BATCH_BYTES, None, 0).unwrap_err();
    assert!(
        status == Status::Invalid && text.contains("is memory of device 0: batches are made on 1"),
        "{text}"
    );
    assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
    drop(device);
}

#[test]
fn a_call_of_lend_that_fails_is_told_and_ends_the_stream() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    let gpu = Gpu::new(&simulator, 0);
    let (stream, event, place) = (gpu.stream(), gpu.event(), memory(&gpu));
    let calls = [
        (c"cuPointerGetAttribute", 0),
        (c"cuPointerGetAttribute", 3),
        (c"cuEventQuery", 0),
        (c"cuStreamWaitEvent", 0),
        (c"cuEventRecord", 0),
    ];
    for (entry, step) in calls {
        let own = device_config(&simulator, 1);
        let loader = Handle::new(&Config { lent_slots: 1, thread_mode: THREADS_PUMP, ..own });
        simulator.hold_stream(stream.as_raw(), 1);
        gpu.driver.event_record(event, stream).unwrap();
        simulator.fail(Some(entry), step, 999, 1);
        let (status, text) = loader.lend(place.0, BATCH_BYTES, Some(event), 0).unwrap_err();
        assert!(simulator.is_fault_over(), "{entry:?} is not called {step} times");
        simulator.fail_none();
        simulator.hold_stream(stream.as_raw(), 0);
        let name = entry.to_str().unwrap();
        assert!(status == Status::Cuda && text.contains(name) && text.contains("(999)"), "{text}");
        assert_eq!(loader.push(&uri, &[1]).unwrap_err().0, Status::Cuda);
        assert_eq!(loader.close(PATIENCE_NS), (Some(Status::Ok), 0));
    }
}

#[test]
fn resets_and_loans_behind_events_meet() {
    let Some(platform) = platform::take_to_hold() else { return };
    let gpu = Gpu::new(&*platform, 0);
    let (stream, event) = (gpu.stream(), gpu.event());
    let places = [(); 2].map(|()| memory(&gpu));
    let loader = Handle::new(&Config { lent_slots: 2, ..device_config(&*platform, 2) });
    let (is_over, mut odd) = (AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let _ = loader.reset();
            }
        });
        // Nothing panics here, or the other thread would go on.
        for round in 0..20_000 {
            // Of every other loan the event is over already.
            platform.hold_stream(stream.as_raw(), i32::from(round % 2 == 0));
            let recorded = gpu.driver.event_record(event, stream);
            let lent = places.map(|place| loader.lend(place.0, BATCH_BYTES, Some(event), round));
            let refused = lent.into_iter().filter_map(Result::err);
            let is_known = |status| matches!(status, Status::Again | Status::Invalid);
            odd.extend(refused.filter(|(status, _)| !is_known(*status) || recorded.is_err()));
            platform.hold_stream(stream.as_raw(), 0);
        }
        is_over.store(true, SeqCst);
    });
    assert_eq!(odd, []);
    loader.reset().unwrap();
    assert_eq!(loader.stats().memories_lent, 0);
}
