//! Boxes that read memory of the device: when they are read, and what happens where that cannot be.
//!
//! In: memory of a producer that writes it in its own time. Invariant: nothing is read before the
//! event of the producer is over, nothing but the batch waits for it, and no stream does.

use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::PATIENCE_NS;
use crate::common::fixtures::Scratch;
use crate::common::gpu::*;
use crate::common::platform::Platform;
use crate::common::workers::{JobSystem, Run};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;
use wavetrain::abi::{BOX_MEMORY, BOX_VALUE, Blank, Sample, SampleBox, Tensor};
use wavetrain::config::*;
use wavetrain::cuda::DriverPath;
use wavetrain::cuda::handles::{DevicePointer, Event, Stream};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::{wavetrain_pump, wavetrain_push};

const CROP_BYTES: u64 = CROP * CROP * 2;
const STARVED: u64 = 2_000_000;

/// Batches of places whose samples may be memory.
fn lent_config(simulator: &Simulator, slots: u32) -> Config {
    Config { max_boxes_per_sample: 2, ..device_config(simulator, slots) }
}

/// Memory of the device that a producer writes on a stream of its own: the crop of places with a
/// tag.
struct Producer<'g, 's> {
    gpu: &'g Gpu<'s>,
    stream: Stream,
    block: DevicePointer,
    event: Event,
}

impl<'g, 's> Producer<'g, 's> {
    /// Queues the crop behind poison. `hold`: until it is let go on.
    fn new(gpu: &'g Gpu<'s>, tag: u64, hold: bool) -> Producer<'g, 's> {
        let stream = gpu.stream();
        let block = gpu.driver.mem_alloc(CROP_BYTES).unwrap();
        let pinned = gpu.pinned(CROP_BYTES as usize);
        let crop = expected(&[tag]);
        // SAFETY: both have as many bytes, until this is dropped.
        unsafe {
            gpu.driver.memset_d8_async(block, 0x99, CROP_BYTES, stream).unwrap();
            gpu.synchronize(stream);
            gpu.platform.hold_stream(stream.as_raw(), i32::from(hold));
            pinned.as_ptr().copy_from_nonoverlapping(crop.as_ptr(), crop.len());
            gpu.driver.memcpy_htod_async(block, pinned.as_ptr(), CROP_BYTES, stream).unwrap();
        }
        let event = gpu.event();
        gpu.driver.event_record(event, stream).unwrap();
        Producer { gpu, stream, block, event }
    }

    fn go_on(&self) {
        self.gpu.platform.hold_stream(self.stream.as_raw(), 0);
    }

    /// Row-major, behind the event.
    fn tensor(&self) -> Tensor {
        let mut tensor = Tensor { dtype: Dtype::U16 as u32, device: 0, ..Tensor::EMPTY };
        tensor.data = self.block.0 as *const c_void;
        tensor.event = self.event.as_raw();
        tensor.shape[..2].fill(CROP);
        tensor
    }
}

impl Drop for Producer<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.go_on();
        self.gpu.synchronize(self.stream);
        // SAFETY: what was queued has run, and no loader reads it any more.
        unsafe { self.gpu.driver.mem_free(self.block) }.unwrap();
    }
}

/// A box of all of a tensor of two axes.
fn whole(tensor: &Tensor) -> SampleBox {
    let mut made = SampleBox { kind: BOX_MEMORY, rank: 2, tensor, ..SampleBox::BLANK };
    (made.end[0], made.end[1]) = (tensor.shape[0] as i64, tensor.shape[1] as i64);
    made
}

fn push_boxes(loader: &Handle, tag: u64, boxes: &[SampleBox]) -> Result<(), Refusal> {
    let box_bytes = size_of::<SampleBox>() as u32;
    let sample = Sample { boxes: boxes.as_ptr(), n_boxes: boxes.len() as u32, box_bytes, tag };
    let mut taken = 0;
    // SAFETY: the sample, its boxes and their tensors are whole; the test keeps what they lend.
    let code = unsafe {
        wavetrain_push(loader.0, &sample, 1, size_of::<Sample>(), PATIENCE_NS, &mut taken)
    };
    if code == OK { Ok(()) } else { Err(loader.last_error(code)) }
}

fn lend(loader: &Handle, tag: u64, producer: &Producer<'_, '_>) {
    push_boxes(loader, tag, &[whole(&producer.tensor())]).unwrap_or_else(|why| panic!("{why:?}"));
}

fn pop_whole(loader: &Handle) -> Vec<u64> {
    let batch = loader.pop();
    let view = loader.view(batch);
    check(&view);
    let tags = tags(&view);
    loader.release(batch, None).unwrap();
    tags
}

/// Pumps until there is nothing to do: it ends.
fn pump_dry(loader: &Handle) {
    while wavetrain_pump(loader.0, 0) == OK {}
}

#[test]
fn a_box_whose_event_is_not_over_keeps_its_batch_and_nothing_else() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "raw", false);
    for mode in 0..3 {
        let gpu = Gpu::new(&simulator, 0);
        let system = JobSystem::new(Run::Threads(2));
        let base = roomy(&lent_config(&simulator, 3));
        let config = match mode {
            0 => base,
            1 => Config { thread_mode: THREADS_PUMP, ..base },
            _ => system.config(&base),
        };
        let loader = Handle::new(&config);
        let producer = Producer::new(&gpu, 3, true);
        loader.push(&uri, &[0, 1, 2]).unwrap();
        lend(&loader, 3, &producer);
        loader.push(&uri, &[4, 5]).unwrap();
        assert_eq!(pop_whole(&loader), [0, 1]);
        // The batch behind it is made meanwhile; each look ends, and none waits for the event.
        let all = 2 * (2 + 1 + 2) * CROP * CROP;
        while loader.stats().assemble.output_bytes < all {
            match mode {
                1 => pump_dry(&loader),
                _ => {
                    assert_eq!(loader.try_pop(0).unwrap_err().0, Status::Again);
                    std::thread::yield_now();
                }
            }
        }
        let (status, text) = loader.try_pop(STARVED).unwrap_err();
        assert_eq!(status, Status::Starved);
        let says = "1 batches are being filled, and boxes of 1 of them wait until tensor.event";
        assert!(text.contains(says), "{text}");
        let waits = simulator.waits();
        producer.go_on();
        assert_eq!([pop_whole(&loader), pop_whole(&loader)], [[2, 3], [4, 5]]);
        assert_eq!(simulator.waits(), waits, "a stream waits");
        drop(loader);
    }
}

#[test]
fn a_device_is_not_asked_for_an_event_all_the_time() {
    let Some(simulator) = Simulator::take() else { return };
    let gpu = Gpu::new(&simulator, 0);
    let loader = Handle::new(&lent_config(&simulator, 2));
    let producers = [1, 2].map(|tag| Producer::new(&gpu, tag, true));
    producers.iter().zip([1, 2]).for_each(|(producer, tag)| lend(&loader, tag, producer));
    let (begun, before) = (Instant::now(), simulator.calls(Some(c"cuEventQuery")));
    assert_eq!(loader.try_pop(20 * STARVED).unwrap_err().0, Status::Starved);
    let asked = simulator.calls(Some(c"cuEventQuery")) - before;
    // At most one look in each least nap.
    let naps = begun.elapsed().as_nanos() as u64 / wavetrain::state::device::NAP_MIN_NS;
    assert!((2..=naps + 2).contains(&asked), "{asked} in {naps} naps");
    producers.iter().for_each(Producer::go_on);
    assert_eq!(pop_whole(&loader), [1, 2]);
    drop(loader);
}

#[test]
fn events_that_are_over_in_another_order_give_batches_in_the_order_of_pushes() {
    let Some(simulator) = Simulator::take() else { return };
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let gpu = Gpu::new(&simulator, 0);
        let config = lent_config(&simulator, 3);
        let loader = Handle::new(&Config { thread_mode, samples_per_batch: 1, ..config });
        let producers: Vec<_> = (0..3).map(|tag| Producer::new(&gpu, tag, true)).collect();
        producers.iter().zip(0..).for_each(|(producer, tag)| lend(&loader, tag, producer));
        for tag in [2, 1] {
            producers[tag].go_on();
            let made = (3 - tag as u64) * CROP_BYTES;
            while loader.stats().assemble.output_bytes < made {
                assert_eq!(loader.try_pop(100_000).unwrap_err().0, Status::Starved);
            }
        }
        producers[0].go_on();
        assert_eq!([0; 3].map(|_| pop_whole(&loader)), [[0], [1], [2]]);
        // Two bytes for each element, read and written.
        let stats = loader.stats();
        assert_eq!(stats.assemble.output_bytes, 3 * CROP_BYTES);
        assert!(stats.assemble.input_bytes >= 3 * CROP_BYTES);
        drop(loader);
    }
}

#[test]
fn an_event_that_fails_ends_the_stream_until_reset() {
    let Some(simulator) = Simulator::take() else { return };
    for on_error in [ON_ERROR_FAIL, ON_ERROR_SKIP] {
        let gpu = Gpu::new(&simulator, 0);
        let config = lent_config(&simulator, 2);
        let loader = Handle::new(&Config { thread_mode: THREADS_PUMP, on_error, ..config });
        let producer = Producer::new(&gpu, 1, false);
        let label = Tensor { event: null_mut(), ..producer.tensor() };
        let mut first = whole(&label);
        (first.end[0], first.step[0]) = (CROP as i64 / 2, 1);
        let mut second = whole(&label);
        let asked = producer.tensor();
        (second.begin[0], second.at[0], second.tensor) = (CROP as i64 / 2, CROP / 2, &asked);
        // Nothing is under way, so the first event that is asked for is the box's.
        simulator.fail(Some(c"cuEventQuery"), 0, 400, 1);
        push_boxes(&loader, 7, &[first, second]).unwrap();
        loader.flush().unwrap();
        let (status, text) = loader.try_pop(PATIENCE_NS).unwrap_err();
        assert_eq!(status, Status::Cuda);
        let says = "box 1: tensor.event: cuEventQuery returned CUDA_ERROR_INVALID_HANDLE (400)";
        assert!(text.contains(says), "{text}");
        simulator.fail_none();
        assert_eq!(loader.try_pop(0).unwrap_err().0, Status::Cuda);
        loader.reset().unwrap();
        (0..2).for_each(|_| lend(&loader, 1, &producer));
        assert_eq!(pop_whole(&loader), [1, 1]);
        drop(loader);
    }
}

#[test]
fn each_driver_call_that_fails_is_a_status_or_none_and_nothing_wrong_comes_out() {
    let Some(simulator) = Simulator::take() else { return };
    let mut failed = 0;
    for code in [400, 719, 999] {
        // Ends: a batch takes few calls.
        for step in 0.. {
            let gpu = Gpu::new(&simulator, 0);
            let config = lent_config(&simulator, 2);
            let loader = Handle::new(&Config { thread_mode: THREADS_PUMP, ..config });
            let producer = Producer::new(&gpu, 1, false);
            gpu.synchronize(producer.stream);
            (0..2).for_each(|_| lend(&loader, 1, &producer));
            simulator.fail(None, step, code, 1);
            let popped = loader.try_pop(PATIENCE_NS);
            let is_over = simulator.is_fault_over();
            simulator.fail_none();
            match popped {
                Ok(batch) => {
                    check(&loader.view(batch));
                    // What fails there is told by a later call.
                    let _ = loader.release(batch, None);
                }
                Err((status, text)) => {
                    failed += 1;
                    assert_eq!(status, Status::Cuda, "step {step}: {text}");
                    assert!(text.contains(&format!("({code})")), "step {step}: {text}");
                }
            }
            drop(loader);
            if !is_over {
                break;
            }
        }
    }
    assert!(failed > 20, "{failed} failures");
}

#[test]
fn an_event_of_a_capture_is_named_as_one() {
    let Some(simulator) = Simulator::take() else { return };
    let gpu = Gpu::new(&simulator, 0);
    let loader = Handle::new(&lent_config(&simulator, 2));
    let producer = Producer::new(&gpu, 1, false);
    gpu.begin_capture(producer.stream);
    gpu.driver.event_record(producer.event, producer.stream).unwrap();
    gpu.end_capture(producer.stream).unwrap();
    lend(&loader, 1, &producer);
    loader.flush().unwrap();
    let (status, text) = loader.try_pop(PATIENCE_NS).unwrap_err();
    assert_eq!(status, Status::Cuda);
    assert!(text.contains("outside of captures"), "{text}");
    drop(loader);
}

#[test]
fn reset_waits_for_the_kernel_that_reads_memory_and_drops_what_waits_for_its_event() {
    let Some(simulator) = Simulator::take() else { return };
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let gpu = Gpu::new(&simulator, 0);
        let config = lent_config(&simulator, 2);
        let loader = Handle::new(&Config { thread_mode, samples_per_batch: 1, ..config });
        let [ready, never] =
            [(1, false), (2, true)].map(|(tag, hold)| Producer::new(&gpu, tag, hold));
        gpu.synchronize(ready.stream);
        let launched = simulator.launches();
        simulator.hold(1);
        lend(&loader, 1, &ready);
        lend(&loader, 2, &never);
        // What the kernel needs is copied by the time that it is launched.
        let go_on = || {
            simulator.hold(0);
            while simulator.launches() == launched {
                assert_eq!(loader.try_pop(100_000).unwrap_err().0, Status::Starved);
            }
        };
        simulator.amid((c"cuLaunchKernel", 0), go_on, || simulator.hold(1));
        let waits = || simulator.calls(Some(c"cuStreamSynchronize"));
        let before = waits();
        std::thread::scope(|scope| {
            let reset = scope.spawn(|| loader.reset());
            while waits() == before && !reset.is_finished() {
                std::thread::yield_now();
            }
            let is_early = reset.is_finished();
            simulator.hold(0);
            reset.join().unwrap().unwrap();
            assert!(!is_early, "reset did not wait for the kernel");
        });
        // The memory is the caller's again: what it becomes is in no batch.
        // SAFETY: the block has as many bytes, and nothing reads it.
        unsafe { gpu.driver.memset_d8_async(ready.block, 0x77, CROP_BYTES, ready.stream) }.unwrap();
        gpu.synchronize(ready.stream);
        never.go_on();
        lend(&loader, 2, &never);
        assert_eq!(pop_whole(&loader), [2]);
        drop(loader);
    }
}

#[test]
fn close_drops_what_waits_for_its_event() {
    let Some(simulator) = Simulator::take() else { return };
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let gpu = Gpu::new(&simulator, 0);
        let loader = Handle::new(&Config { thread_mode, ..lent_config(&simulator, 2) });
        let producer = Producer::new(&gpu, 1, true);
        (0..2).for_each(|_| lend(&loader, 1, &producer));
        assert_eq!(loader.try_pop(100_000).unwrap_err().0, Status::Starved);
        // To unload kernels the driver itself waits for all of the context's work, and close is
        // over but for that.
        let close = || loader.close(PATIENCE_NS);
        let closed = simulator.amid((c"cuModuleUnload", 0), close, || producer.go_on());
        assert_eq!(closed, (Some(Status::Ok), 0));
    }
}

#[test]
fn memory_of_another_device_or_for_a_host_is_refused_with_the_way_out() {
    let Some(simulator) = Simulator::take() else { return };
    simulator.set_devices(2);
    let gpu = Gpu::new(&simulator, 0);
    let loader = Handle::new(&lent_config(&simulator, 2));
    let producer = Producer::new(&gpu, 1, false);
    let tensor = producer.tensor();
    let refused = |loader: &Handle, tensor: &Tensor, kind: u32| {
        push_boxes(loader, 1, &[SampleBox { kind, ..whole(tensor) }]).unwrap_err()
    };
    let cases: [(Tensor, u32, Status, &str); 5] = [
        (
            Tensor { device: 1, ..tensor },
            BOX_MEMORY,
            Status::Invalid,
            "tensor.device = 1, but batches are made on device 0: copy it there, or open a loader \
             for device 1",
        ),
        (
            Tensor { device: -2, ..tensor },
            BOX_MEMORY,
            Status::Invalid,
            "tensor.device = -2: must be -1, for the host, or the number of a device",
        ),
        (
            Tensor { reserved: 1, ..tensor },
            BOX_MEMORY,
            Status::Invalid,
            "must be -1, for the host, or the number of a device, and reserved 0",
        ),
        (
            tensor,
            BOX_VALUE,
            Status::Invalid,
            "tensor.device = 0: a value is read by push, on the host: feed it as memory",
        ),
        (
            Tensor { device: -1, ..tensor },
            BOX_MEMORY,
            Status::Invalid,
            "tensor.event: there is none for memory of the host",
        ),
    ];
    for (tensor, kind, status, says) in cases {
        let (found, text) = refused(&loader, &tensor, kind);
        assert_eq!(found, status, "{text}");
        assert!(text.contains(says), "{text}");
    }
    let (backend, device, cuda_driver) = (BACKEND_HOST, -1, DriverPath::NULL);
    let host = Config {
        backend,
        device,
        cuda_driver,
        max_gpu_memory_bytes: 0,
        ..lent_config(&simulator, 2)
    };
    let host = Handle::new(&host);
    let (status, text) = refused(&host, &tensor, BOX_MEMORY);
    assert_eq!(status, Status::Unsupported);
    let says = "tensor.device = 0, but batches are made in host memory: copy it to the host, or \
                set backend = cuda";
    assert!(text.contains(says), "{text}");
    (0..2).for_each(|_| lend(&loader, 1, &producer));
    assert_eq!(pop_whole(&loader), [1, 1]);
    drop((loader, host));
}

#[test]
fn extents_and_strides_that_no_memory_has_are_refused_before_a_kernel_sees_them() {
    let Some(simulator) = Simulator::take() else { return };
    let gpu = Gpu::new(&simulator, 0);
    let config = Config { samples_per_batch: 1, ..lent_config(&simulator, 2) };
    let loader = Handle::new(&config);
    let producer = Producer::new(&gpu, 1, false);
    let of = |shape: [u64; 2], strides: [i64; 2], data: u64| {
        let mut tensor = producer.tensor();
        tensor.shape[..2].copy_from_slice(&shape);
        tensor.strides[..2].copy_from_slice(&strides);
        tensor.data = data as *const c_void;
        tensor
    };
    let here = producer.block.0;
    let crop = [CROP, CROP];
    let hostile = [
        of([1 << 62, 1 << 62], [2, 2], here),
        of([CROP, 1 << 60], [1 << 61, 2], here),
        of(crop, [i64::MAX, 2], here),
        of(crop, [i64::MIN, i64::MIN], here),
        of(crop, [1 << 56, 2], here),
        of(crop, [2 * CROP as i64, 2], u64::MAX - 100),
        // Backwards from the first address.
        of(crop, [-2 * CROP as i64, -2], 100),
    ];
    for (number, tensor) in hostile.iter().enumerate() {
        let mut made = whole(tensor);
        (made.end[0], made.end[1]) = (CROP as i64, CROP as i64);
        let (status, text) = push_boxes(&loader, 1, &[made]).unwrap_err();
        assert_eq!(status, Status::Invalid, "case {number}: {text}");
        assert!(text.contains("no memory has its shape and strides"), "case {number}: {text}");
    }
    // A stride that nothing steps along says nothing.
    let mut odd = of([1, CROP], [i64::MIN, 2], here);
    odd.event = null_mut();
    gpu.synchronize(producer.stream);
    let row = SampleBox { at: [0; 16], ..whole(&odd) };
    let mut turned = SampleBox { ..whole(&odd) };
    (turned.step[0], turned.at[0]) = (-1, 1);
    push_boxes(&loader, 1, &[row, turned]).unwrap();
    let batch = loader.pop();
    let found = bytes(&loader.view(batch));
    let row = &expected(&[1])[..2 * CROP as usize];
    assert!(found[..row.len()] == *row && found[row.len()..2 * row.len()] == *row);
    assert!(found[2 * row.len()..].iter().all(|byte| *byte == 0));
    loader.release(batch, None).unwrap();
    drop(loader);
}

/// The element of the crop at each place.
fn crop_at(tag: u64, row: u64, column: u64) -> u16 {
    let at = (row * CROP + column) as usize * 2;
    u16::from_le_bytes(expected(&[tag])[at..at + 2].try_into().unwrap())
}

#[test]
fn strides_that_go_backwards_or_nowhere_are_read_as_they_are() {
    let Some(simulator) = Simulator::take() else { return };
    let gpu = Gpu::new(&simulator, 0);
    let config = Config { samples_per_batch: 1, ..lent_config(&simulator, 2) };
    let loader = Handle::new(&config);
    let producer = Producer::new(&gpu, 5, false);
    let (row, last) = (2 * CROP as i64, CROP - 1);
    let end = producer.block.0 + CROP_BYTES - 2;
    type From = fn(u64, u64) -> (u64, u64);
    let cases: [(u64, [i64; 2], From); 5] = [
        (end, [-row, -2], |y, x| (CROP - 1 - y, CROP - 1 - x)),
        (producer.block.0 + 2 * last, [row, -2], |y, x| (y, CROP - 1 - x)),
        (producer.block.0, [2, row], |y, x| (x, y)),
        (producer.block.0, [0, 2], |_, x| (0, x)),
        (end, [-row, 0], |y, _| (CROP - 1 - y, CROP - 1)),
    ];
    for (number, (data, strides, from)) in cases.into_iter().enumerate() {
        let mut tensor = producer.tensor();
        tensor.data = data as *const c_void;
        tensor.strides[..2].copy_from_slice(&strides);
        push_boxes(&loader, number as u64, &[whole(&tensor)]).unwrap();
        let batch = loader.pop();
        let found = bytes(&loader.view(batch));
        let place = |at: u64| from(at / CROP, at % CROP);
        let want: Vec<u8> = (0..CROP * CROP)
            .flat_map(|at| crop_at(5, place(at).0, place(at).1).to_le_bytes())
            .collect();
        assert!(found == want, "case {number}");
        loader.release(batch, None).unwrap();
    }
    drop(loader);
}

#[test]
fn many_boxes_and_padding_in_the_least_memory_ask_the_driver_for_nothing() {
    let Some(simulator) = Simulator::take() else { return };
    for (seed, thread_mode) in [THREADS_OWN, THREADS_PUMP, THREADS_OWN].into_iter().enumerate() {
        simulator.set_mode([Mode::Eager, Mode::Lazy, Mode::Jitter][seed], seed as u64);
        let gpu = Gpu::new(&simulator, 0);
        let samples = 150;
        let config = tight(&Config {
            thread_mode,
            samples_per_batch: samples,
            lookahead_samples: 2 * samples,
            pad_mode: PAD_CONSTANT,
            pad_value_set: 1,
            pad_value: 7.0,
            ..lent_config(&simulator, 2)
        });
        let loader = Handle::new(&config);
        let producer = Producer::new(&gpu, 1, false);
        let tensor = producer.tensor();
        let asked = simulator.allocations();
        for round in 0..3 {
            for tag in 0..u64::from(samples) {
                // Two halves of a sample, each half outside of its tensor.
                let mut halves = [whole(&tensor), whole(&tensor)];
                let (shift, half) = (tag as i64 % 7, CROP as i64 / 2);
                for (made, at) in halves.iter_mut().zip([0, half]) {
                    (made.begin[0], made.end[0], made.at[0]) = (-shift, half - shift, at as u64);
                    (made.begin[1], made.end[1]) = (shift, CROP as i64 + shift);
                }
                push_boxes(&loader, 1000 * round + tag, &halves).unwrap();
            }
            let batch = loader.pop();
            let found = bytes(&loader.view(batch));
            for (tag, sample) in found.chunks(CROP_BYTES as usize).enumerate() {
                let shift = tag as u64 % 7;
                let of = |row: u64, column: u64| {
                    let (row, column) = ((row % (CROP / 2)).checked_sub(shift), column + shift);
                    row.filter(|_| column < CROP).map_or(7, |row| crop_at(1, row, column))
                };
                let place = |at: u64| of(at / CROP, at % CROP).to_le_bytes();
                assert!(sample == (0..CROP * CROP).flat_map(place).collect::<Vec<u8>>(), "{tag}");
            }
            loader.release(batch, None).unwrap();
        }
        assert_eq!(simulator.allocations(), asked, "the driver was asked for something after open");
        drop(loader);
    }
}
