//! The simulated driver keeps CUDA's rules, and sees those who break them.
//!
//! In: small programs over the library's own table. What is shown here is what the tests of the
//! backend lean on: order in a stream and none between streams, events that stand for the moment of
//! their record, work that runs late, and a finding for each wrong use.

use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::platform::Platform;
use flate2::read::ZlibDecoder;
use std::ffi::CString;
use std::ffi::{CStr, c_void};
use std::io::Read;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::handles::*;
use wavetrain::cuda::kernels::{ASSEMBLE, COPY, LZ4};
use wavetrain::cuda::result::CuResult;
use wavetrain::cuda::{DeviceContext, Driver, module};
use wavetrain::status::Why;

const BYTES: u64 = 4096;
const WORDS: usize = BYTES as usize / 4;

const PTX: &CStr = c".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry simcuda_probe_add(\n.param .u64 a,\n.param .u64 b,\n.param .u32 c,\n\
    .param .u32 d\n)\n{ }\n\
    .visible .entry simcuda_probe_write(\n.param .u64 a,\n.param .u32 b\n)\n{ }\n";

/// Two streams, two blocks of device memory and two pinned ones, in device 0's primary context.
struct Bench {
    driver: &'static Driver,
    entered: Option<Entered>,
    context: DeviceContext,
    streams: [Stream; 2],
    events: [Event; 4],
    blocks: [DevicePointer; 2],
    pinned: [NonNull<u8>; 2],
    module: Module,
}

impl Bench {
    fn new(simulator: &Simulator) -> Bench {
        let driver = simulator.driver();
        let mut why = Why::new();
        let context = DeviceContext::open(driver, 0, &mut why).unwrap();
        let entered = context.enter().unwrap();
        let stream = || driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap();
        let event = || driver.event_create(EVENT_DISABLE_TIMING).unwrap();
        let block = || driver.mem_alloc(BYTES).unwrap();
        let pinned = || driver.mem_host_alloc(BYTES, MEM_HOST_PORTABLE).unwrap();
        Bench {
            driver,
            context,
            streams: [stream(), stream()],
            events: [event(), event(), event(), event()],
            blocks: [block(), block()],
            pinned: [pinned(), pinned()],
            module: module::load(&entered, PTX, &mut why).unwrap(),
            entered: Some(entered),
        }
    }

    fn kernel(&self, name: &CStr) -> Function {
        self.driver.module_get_function(self.module, name).unwrap()
    }

    #[allow(clippy::mut_from_ref)] // the block is the driver's, and no part of the bench
    fn host(&self, number: usize) -> &mut [u32] {
        let start = self.pinned[number].as_ptr().cast();
        // SAFETY: the block has as many bytes, aligned to a page; a test looks at one at a time.
        unsafe { std::slice::from_raw_parts_mut(start, WORDS) }
    }

    /// What device memory holds now, which on a real device only a copy could say.
    fn peek(&self, number: usize) -> Vec<u32> {
        let start = self.blocks[number].0 as *const u32;
        // SAFETY: simulated device memory can be read; the tests are between its writes.
        unsafe { std::slice::from_raw_parts(start, WORDS) }.to_vec()
    }

    fn upload(&self, host: usize, block: usize, stream: usize) {
        let (target, source) = (self.blocks[block], self.pinned[host].as_ptr());
        // SAFETY: both have BYTES bytes.
        unsafe { self.driver.memcpy_htod_async(target, source, BYTES, self.streams[stream]) }
            .unwrap();
    }

    fn download(&self, block: usize, host: usize, stream: usize) {
        let (target, source) = (self.pinned[host].as_ptr(), self.blocks[block]);
        // SAFETY: both have BYTES bytes.
        unsafe { self.driver.memcpy_dtoh_async(target, source, BYTES, self.streams[stream]) }
            .unwrap();
    }

    fn launch(&self, kernel: Function, parameters: &mut [*mut c_void], stream: usize) -> Launched {
        let (grid, block) = ([WORDS as u32 / 128, 1, 1], [128, 1, 1]);
        // SAFETY: the parameters are those of the kernel.
        unsafe {
            self.driver.launch_kernel(kernel, grid, block, 0, self.streams[stream], parameters)
        }
    }

    /// blocks[1] = blocks[0] + value.
    fn add(&self, value: u32, stream: usize) {
        let [mut source, mut target] = self.blocks;
        let (mut value, mut count) = (value, WORDS as u32);
        let mut parameters = [
            (&raw mut target).cast(),
            (&raw mut source).cast(),
            (&raw mut value).cast(),
            (&raw mut count).cast::<c_void>(),
        ];
        self.launch(self.kernel(c"simcuda_probe_add"), &mut parameters, stream).unwrap();
    }

    /// A byte written at any address, by a kernel.
    fn write(&self, address: DevicePointer, value: u32, stream: usize) {
        let (mut address, mut value) = (address, value);
        let mut parameters = [(&raw mut address).cast(), (&raw mut value).cast::<c_void>()];
        self.launch(self.kernel(c"simcuda_probe_write"), &mut parameters, stream).unwrap();
    }

    fn record(&self, event: usize, stream: usize) {
        self.driver.event_record(self.events[event], self.streams[stream]).unwrap();
    }

    fn wait(&self, stream: usize, event: usize) {
        self.driver.stream_wait_event(self.streams[stream], self.events[event]).unwrap();
    }

    fn synchronize(&self, stream: usize) {
        self.driver.stream_synchronize(self.streams[stream]).unwrap();
    }

    /// Asks until the event has come, as the library does.
    fn poll(&self, event: usize) {
        while !self.driver.event_query(self.events[event]).unwrap() {
            std::thread::yield_now();
        }
    }
}

type Launched = Result<(), CuResult>;

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let driver = self.driver;
        // SAFETY: everything was made by new, and nothing uses it any more.
        unsafe {
            self.streams.into_iter().for_each(|stream| driver.stream_synchronize(stream).unwrap());
            self.streams.into_iter().for_each(|stream| driver.stream_destroy(stream).unwrap());
            self.events.into_iter().for_each(|event| driver.event_destroy(event).unwrap());
            self.blocks.into_iter().for_each(|block| driver.mem_free(block).unwrap());
            self.pinned.into_iter().for_each(|block| driver.mem_free_host(block).unwrap());
            driver.module_unload(self.module).unwrap();
            self.entered = None;
            self.context.close().unwrap();
        }
    }
}

const MODES: [Mode; 3] = [Mode::Eager, Mode::Jitter, Mode::Lazy];

fn painted(seed: u32) -> impl Iterator<Item = u32> {
    (0..WORDS as u32).map(move |place| (place + 1).wrapping_mul(2_654_435_761) ^ seed)
}

fn paint(target: &mut [u32], seed: u32) {
    target.iter_mut().zip(painted(seed)).for_each(|(word, value)| *word = value);
}

// ---- Order ------------------------------------------------------------------------------------

#[test]
fn a_stream_runs_in_order() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for mode in MODES {
        for seed in 0..20 {
            simulator.set_mode(mode, u64::from(seed));
            paint(bench.host(0), seed);
            bench.host(1).fill(7);
            bench.upload(0, 0, 0);
            bench.add(seed, 0);
            bench.download(1, 1, 0);
            bench.synchronize(0);
            let expected: Vec<u32> = painted(seed).map(|word| word.wrapping_add(seed)).collect();
            assert!(*bench.host(1) == *expected, "{mode:?}, seed {seed}");
        }
    }
}

/// Upload in one stream, kernel in the other; whether the kernel saw what was uploaded, polled as
/// the library polls.
fn kernel_sees_the_copy(simulator: &Simulator, bench: &Bench, mode: Mode, seed: u32) -> bool {
    simulator.set_mode(mode, u64::from(seed));
    paint(bench.host(0), seed);
    bench.upload(0, 0, 0);
    bench.record(0, 0);
    bench.wait(1, 0);
    bench.add(1, 1);
    bench.record(1, 1);
    bench.poll(1);
    let expected: Vec<u32> = painted(seed).map(|word| word.wrapping_add(1)).collect();
    let sees = bench.peek(1) == expected;
    bench.synchronize(0);
    sees
}

#[test]
fn a_wait_for_an_event_orders_two_streams() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for mode in MODES {
        for seed in 0..50 {
            assert!(kernel_sees_the_copy(&simulator, &bench, mode, seed), "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn a_stream_that_waits_for_a_word_goes_on_when_it_is_written_and_no_other_waits() {
    type WaitValue = unsafe extern "C" fn(Stream, DevicePointer, u32, u32) -> CuResult;
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    // SAFETY: the entry has this type.
    let wait: WaitValue =
        unsafe { std::mem::transmute(simulator.entry(c"cuStreamWaitValue32_v2")) };
    let word = simulator.driver().mem_host_alloc(4, MEM_HOST_PORTABLE).unwrap();
    for (mode, seed) in MODES.into_iter().zip(1..) {
        simulator.set_mode(mode, u64::from(seed));
        // SAFETY: the word is there until the end, aligned to a page.
        let word = unsafe { &*word.as_ptr().cast::<AtomicU32>() };
        word.store(6, SeqCst);
        // SAFETY: as above.
        let code = unsafe { wait(bench.streams[0], DevicePointer(word.as_ptr() as u64), 7, 0) };
        assert_eq!(code, CuResult::SUCCESS);
        paint(bench.host(0), seed);
        (0..2).for_each(|stream| bench.upload(0, stream, stream));
        bench.synchronize(1);
        assert!(bench.peek(1) == bench.host(0), "{mode:?}: another stream waited");
        assert_eq!(simulator.driver().stream_query(bench.streams[0]), Ok(false), "{mode:?}");
        assert!(bench.peek(0) != bench.host(0), "{mode:?}: the stream did not wait");
        let (driver, stream, context) =
            (bench.driver, bench.streams[0], bench.driver.ctx_get_current().unwrap());
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || {
                let _entered = Entered::new(driver, context).unwrap();
                driver.stream_synchronize(stream).unwrap();
            });
            word.store(7, SeqCst);
            waits.join().unwrap();
        });
        assert!(bench.peek(0) == bench.host(0), "{mode:?}");
    }
    // SAFETY: nothing waits for it any more.
    unsafe { simulator.driver().mem_free_host(word) }.unwrap();
}

#[test]
fn a_wait_that_is_forgotten_shows_in_mode_lazy_every_time() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for seed in 100..150 {
        simulator.drop_wait(0);
        let sees = kernel_sees_the_copy(&simulator, &bench, Mode::Lazy, seed);
        assert!(!sees, "seed {seed}");
        assert_eq!(simulator.waits(), 1);
    }
}

#[test]
fn a_wait_that_is_forgotten_shows_in_mode_jitter_sooner_or_later() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let unseen = |seed: &u32| {
        simulator.drop_wait(0);
        !kernel_sees_the_copy(&simulator, &bench, Mode::Jitter, *seed)
    };
    assert!((200..1200).any(|seed| unseen(&seed)));
}

#[test]
fn what_nobody_waits_for_may_be_overwritten_too_early_in_mode_lazy() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    // The copy of the next wave, which must wait for the kernel of this one, does not.
    let overtakes = |seed: u32| {
        simulator.set_mode(Mode::Lazy, u64::from(seed));
        paint(bench.host(0), seed);
        paint(bench.host(1), !seed);
        bench.upload(0, 0, 0);
        bench.record(0, 0);
        bench.wait(1, 0);
        bench.add(1, 1);
        bench.upload(1, 0, 0);
        bench.record(2, 0);
        bench.wait(1, 2);
        bench.record(1, 1);
        bench.poll(1);
        let expected: Vec<u32> = painted(seed).map(|word| word.wrapping_add(1)).collect();
        bench.peek(1) != expected
    };
    let count = (0..40).filter(|seed| overtakes(*seed)).count();
    assert!((5..=35).contains(&count), "{count} of 40 orders overtake");
}

// ---- Events -----------------------------------------------------------------------------------

#[test]
fn an_event_that_recorded_nothing_is_done_and_holds_nobody_back() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    simulator.hold(1);
    assert_eq!(bench.driver.event_query(bench.events[0]), Ok(true));
    bench.wait(1, 0);
    // A record behind the wait is not what the wait was for.
    bench.upload(0, 0, 0);
    bench.record(0, 0);
    assert_eq!(bench.driver.stream_query(bench.streams[1]), Ok(true));
    assert_eq!(bench.driver.event_query(bench.events[0]), Ok(false));
    simulator.hold(0);
    bench.poll(0);
}

#[test]
fn a_wait_is_for_the_record_before_it_and_not_for_a_later_one() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for mode in MODES {
        simulator.set_mode(mode, 3);
        paint(bench.host(0), 5);
        bench.upload(0, 0, 0);
        bench.record(0, 0);
        bench.wait(1, 0);
        // The event moves on to stream 1 itself: were the wait for that, it would never end.
        bench.add(9, 1);
        bench.record(0, 1);
        bench.poll(0);
        let expected: Vec<u32> = painted(5).map(|word| word.wrapping_add(9)).collect();
        assert!(bench.peek(1) == expected, "{mode:?}");
    }
}

#[test]
fn a_query_of_an_event_says_not_ready_while_nothing_runs() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for mode in MODES {
        simulator.set_mode(mode, 1);
        simulator.hold(1);
        bench.upload(0, 0, 0);
        bench.record(0, 0);
        for _ in 0..100 {
            assert_eq!(bench.driver.event_query(bench.events[0]), Ok(false));
            assert_eq!(bench.driver.stream_query(bench.streams[0]), Ok(false));
        }
        simulator.hold(0);
        bench.poll(0);
        assert_eq!(bench.driver.stream_query(bench.streams[0]), Ok(true));
    }
}

#[test]
fn times_are_taken_by_events_that_were_made_for_it() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let [first, last] = [0, 1].map(|_| bench.driver.event_create(EVENT_DEFAULT).unwrap());
    let elapsed = |first, last| bench.driver.event_elapsed_time(first, last);
    assert_eq!(elapsed(first, last), Err(CuResult::INVALID_HANDLE));
    bench.driver.event_record(first, bench.streams[0]).unwrap();
    bench.upload(0, 0, 0);
    bench.driver.event_record(last, bench.streams[0]).unwrap();
    bench.driver.event_synchronize(last).unwrap();
    assert!(elapsed(first, last).unwrap() >= 0.0);
    bench.record(0, 0);
    bench.poll(0);
    assert_eq!(elapsed(bench.events[0], last), Err(CuResult::INVALID_HANDLE));
    // SAFETY: nobody uses them any more.
    unsafe {
        bench.driver.event_destroy(first).unwrap();
        bench.driver.event_destroy(last).unwrap();
    }
}

// ---- Copies and memory ------------------------------------------------------------------------

#[test]
fn a_copy_reads_its_source_when_it_runs_and_not_when_it_is_queued() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    simulator.hold(1);
    paint(bench.host(0), 1);
    bench.upload(0, 0, 0);
    // Too early, for a program that wants the first words there.
    paint(bench.host(0), 2);
    simulator.hold(0);
    bench.synchronize(0);
    assert!(bench.peek(0).into_iter().eq(painted(2)));
}

#[test]
fn the_parameters_of_a_kernel_are_read_when_it_is_launched() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    simulator.hold(1);
    paint(bench.host(0), 1);
    bench.upload(0, 0, 0);
    // Their places are gone when it runs.
    bench.add(5, 0);
    simulator.hold(0);
    bench.synchronize(0);
    assert!(bench.peek(1).into_iter().eq(painted(1).map(|word| word.wrapping_add(5))));
}

#[test]
fn memory_is_painted_when_it_is_given_out_and_when_it_comes_back() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    assert!(bench.peek(0).iter().all(|word| *word == 0xFBFB_FBFB));
    assert!(bench.host(0).iter().all(|word| *word == 0xFAFA_FAFA));
    let block = bench.driver.mem_alloc(BYTES).unwrap();
    assert_eq!(block.0 % 512, 256, "aligned to 256 bytes and no more");
    // SAFETY: the block is ours; simulated device memory can be read, also when it was freed.
    unsafe {
        bench.driver.memset_d8_async(block, 3, BYTES, bench.streams[0]).unwrap();
        bench.synchronize(0);
        assert_eq!(*(block.0 as *const u32), 0x0303_0303);
        bench.driver.mem_free(block).unwrap();
        assert_eq!(*(block.0 as *const u32), 0xFBFB_FBFB);
    }
}

#[test]
fn device_memory_has_an_end() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (free, total) = bench.driver.mem_get_info().unwrap();
    assert!(free < total, "context, module and blocks take memory");
    assert_eq!(bench.driver.mem_alloc(free + 1), Err(CuResult::OUT_OF_MEMORY));
    let used = simulator.used_bytes(0);
    let block = bench.driver.mem_alloc(free).unwrap();
    assert_eq!(bench.driver.mem_get_info(), Ok((0, total)));
    assert_eq!(simulator.used_bytes(0), used + free);
    assert_eq!(simulator.peak_bytes(0), used + free);
    // SAFETY: nothing uses it.
    unsafe { bench.driver.mem_free(block) }.unwrap();
    assert_eq!((simulator.used_bytes(0), simulator.peak_bytes(0)), (used, used + free));
    simulator.set_pinned_max(simulator.pinned_bytes() + 100);
    assert_eq!(bench.driver.mem_host_alloc(101, 0), Err(CuResult::OUT_OF_MEMORY));
}

#[test]
fn pageable_memory_is_copied_before_the_call_returns_and_counted() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    simulator.hold(1);
    let mut words: Vec<u32> = painted(8).collect();
    // SAFETY: both have BYTES bytes; CUDA takes a copy of pageable memory.
    unsafe {
        let source = words.as_ptr().cast();
        bench.driver.memcpy_htod_async(bench.blocks[0], source, BYTES, bench.streams[0]).unwrap();
    }
    words.fill(0);
    simulator.hold(0);
    bench.synchronize(0);
    assert!(bench.peek(0).into_iter().eq(painted(8)));
    assert_eq!(simulator.pageable_copies(), 1);
    bench.upload(0, 0, 0);
    bench.synchronize(0);
    assert_eq!(simulator.pageable_copies(), 1);
}

#[test]
fn the_context_of_a_stream_is_known() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let context = bench.driver.stream_get_ctx(bench.streams[0]).unwrap();
    assert_eq!(context, Some(bench.context.context));
}

// ---- Findings ---------------------------------------------------------------------------------

/// The finding of `mistake`, after which the simulator is whole again.
fn finding(mistake: impl FnOnce(&Simulator, &Bench)) -> Option<String> {
    let simulator = Simulator::take()?;
    let bench = Bench::new(&simulator);
    mistake(&simulator, &bench);
    bench.synchronize(0);
    bench.synchronize(1);
    let findings = simulator.take_findings();
    assert_eq!(findings.lines().count(), 1, "{findings}");
    Some(findings)
}

#[test]
fn a_write_beside_a_block_is_found_and_the_kernel_named() {
    for offset in [0u64.wrapping_sub(1), 0u64.wrapping_sub(512), BYTES, BYTES + 511] {
        let found = finding(|_, bench| {
            bench.write(DevicePointer(bench.blocks[0].0.wrapping_add(offset)), 1, 0);
        });
        let Some(found) = found else { return };
        assert!(found.contains("simcuda_probe_write wrote beside a block of 4096"), "{found}");
    }
}

#[test]
fn a_write_inside_a_block_is_no_finding() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    bench.write(bench.blocks[0], 1, 0);
    bench.write(bench.blocks[0].at(BYTES - 1), 1, 0);
    bench.synchronize(0);
    assert_eq!(simulator.findings().0, 0);
}

#[test]
fn a_copy_past_the_end_of_a_block_is_found_and_refused() {
    let found = finding(|_, bench| {
        let (target, source) = (bench.blocks[0].at(1), bench.pinned[0].as_ptr());
        // SAFETY: the simulator refuses it.
        let copied =
            unsafe { bench.driver.memcpy_htod_async(target, source, BYTES, bench.streams[0]) };
        assert_eq!(copied, Err(CuResult::INVALID_VALUE));
    });
    let Some(found) = found else { return };
    assert!(
        found.contains("cuMemcpyHtoDAsync") && found.contains("not inside one block"),
        "{found}"
    );
}

#[test]
fn memory_that_is_freed_twice_is_found() {
    let found = finding(|_, bench| {
        let block = bench.driver.mem_alloc(64).unwrap();
        // SAFETY: the simulator refuses the second.
        unsafe {
            bench.driver.mem_free(block).unwrap();
            assert_eq!(bench.driver.mem_free(block), Err(CuResult::INVALID_VALUE));
        }
    });
    let Some(found) = found else { return };
    assert!(found.contains("freed before"), "{found}");
}

#[test]
fn pinned_memory_that_is_given_back_before_its_copy_ran_is_found() {
    let found = finding(|simulator, bench| {
        simulator.set_mode(Mode::Lazy, 1);
        let block = bench.driver.mem_host_alloc(BYTES, 0).unwrap();
        // SAFETY: this is the mistake; the simulator runs the copy before it unmaps the block.
        unsafe {
            let source = block.as_ptr();
            let target = bench.blocks[0];
            bench.driver.memcpy_htod_async(target, source, BYTES, bench.streams[0]).unwrap();
            bench.driver.mem_free_host(block).unwrap();
        }
    });
    let Some(found) = found else { return };
    assert!(found.contains("that queued work uses"), "{found}");
}

#[test]
fn a_kernel_writes_pinned_memory_which_may_not_be_given_back_before_it_ran() {
    let found = finding(|simulator, bench| {
        simulator.set_mode(Mode::Lazy, 1);
        let block = bench.driver.mem_host_alloc(BYTES, MEM_HOST_DEVICE_MAP).unwrap();
        let place = DevicePointer(block.as_ptr() as u64).at(BYTES - 1);
        bench.write(place, 77, 0);
        bench.synchronize(0);
        // SAFETY: the kernel has run; the byte is the last of the block.
        assert_eq!(unsafe { block.as_ptr().add(BYTES as usize - 1).read_volatile() }, 77);
        bench.write(place, 78, 0);
        // SAFETY: this is the mistake; the simulator runs the kernel before it unmaps the block.
        unsafe { bench.driver.mem_free_host(block) }.unwrap();
    });
    let Some(found) = found else { return };
    assert!(found.contains("that queued work uses"), "{found}");
}

#[test]
fn a_stream_or_an_event_that_is_destroyed_twice_is_found() {
    let twice = finding(|_, bench| {
        let event = bench.driver.event_create(0).unwrap();
        // SAFETY: the simulator refuses the second.
        unsafe {
            bench.driver.event_destroy(event).unwrap();
            assert_eq!(bench.driver.event_destroy(event), Err(CuResult::INVALID_HANDLE));
        }
    });
    let Some(twice) = twice else { return };
    assert!(twice.contains("cuEventDestroy"), "{twice}");
    let twice = finding(|_, bench| {
        let stream = bench.driver.stream_create(0, 0).unwrap();
        // SAFETY: the simulator refuses the second.
        unsafe {
            bench.driver.stream_destroy(stream).unwrap();
            assert_eq!(bench.driver.stream_destroy(stream), Err(CuResult::INVALID_HANDLE));
        }
    });
    assert!(twice.unwrap().contains("cuStreamDestroy"));
}

#[test]
fn a_context_that_ends_with_something_in_it_is_found() {
    let Some(simulator) = Simulator::take() else { return };
    let context = DeviceContext::open(simulator.driver(), 0, &mut Why::new()).unwrap();
    let entered = context.enter().unwrap();
    simulator.driver().mem_alloc(64).unwrap();
    drop(entered);
    // SAFETY: this is the mistake.
    unsafe { context.close() }.unwrap();
    let found = simulator.take_findings();
    assert!(found.contains("a context ended with 1 blocks"), "{found}");
}

#[test]
fn the_work_of_a_stream_that_is_destroyed_still_runs() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for mode in MODES {
        simulator.set_mode(mode, 5);
        let stream = bench.driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap();
        paint(bench.host(0), 40 + mode as u32);
        // SAFETY: both have BYTES bytes, and the stream is not used again.
        unsafe {
            let source = bench.pinned[0].as_ptr();
            bench.driver.memcpy_htod_async(bench.blocks[0], source, BYTES, stream).unwrap();
            bench.driver.event_record(bench.events[0], stream).unwrap();
            bench.driver.stream_destroy(stream).unwrap();
        }
        bench.poll(0);
        assert!(bench.peek(0).into_iter().eq(painted(40 + mode as u32)), "{mode:?}");
    }
}

// ---- Contexts and captures --------------------------------------------------------------------

#[test]
fn a_call_that_needs_a_context_fails_without_one() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    assert_eq!(driver.mem_alloc(64), Err(CuResult::INVALID_CONTEXT));
    assert_eq!(driver.stream_create(0, 0), Err(CuResult::INVALID_CONTEXT));
    assert_eq!(driver.ctx_get_device(), Err(CuResult::INVALID_CONTEXT));
    assert_eq!(driver.ctx_pop_current(), Err(CuResult::INVALID_CONTEXT));
    simulator.uninitialize();
    assert_eq!(driver.device_get_count(), Err(CuResult::NOT_INITIALIZED));
}

#[test]
fn a_stream_of_another_context_takes_no_work() {
    let Some(simulator) = Simulator::take() else { return };
    simulator.set_devices(2);
    let bench = Bench::new(&simulator);
    let other = bench.driver.device_primary_ctx_retain(Device(1)).unwrap();
    bench.driver.ctx_push_current(other).unwrap();
    let (driver, stream, event) = (bench.driver, bench.streams[0], bench.events[0]);
    let foreign = driver.event_create(0).unwrap();
    let block = driver.mem_alloc(64).unwrap();
    // SAFETY: the simulator refuses it.
    let filled = unsafe { driver.memset_d8_async(block, 1, 64, stream) };
    assert_eq!(filled, Err(CuResult::INVALID_HANDLE));
    assert_eq!(driver.event_record(foreign, stream), Err(CuResult::INVALID_HANDLE));
    // A wait across contexts is CUDA's way to order them, and a query needs only some context.
    assert_eq!(driver.stream_wait_event(stream, event), Ok(()));
    assert_eq!(driver.event_query(event), Ok(true));
    // SAFETY: nobody uses them any more.
    unsafe {
        driver.mem_free(block).unwrap();
        driver.event_destroy(foreign).unwrap();
        driver.ctx_pop_current().unwrap();
        driver.device_primary_ctx_release(Device(1)).unwrap();
    }
}

/// A graph capture of a trainer's stream on a thread of its own, around what `during` does on this
/// thread, which is in `mode`. What the capture came to.
fn capture(
    bench: &Bench,
    simulator: &Simulator,
    mode: CaptureMode,
    during: impl FnOnce(),
) -> Result<usize, CuResult> {
    let trainer = bench.driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap();
    let (begun, has_begun) = channel();
    let (over, is_over) = channel::<()>();
    let ended = std::thread::scope(|scope| {
        let context = bench.context;
        let capturing = scope.spawn(move || {
            let entered = context.enter().unwrap();
            simulator.begin_capture(trainer, CaptureMode::GLOBAL).unwrap();
            begun.send(()).unwrap();
            let _ = is_over.recv();
            let ended = simulator.end_capture(trainer);
            drop(entered);
            ended
        });
        has_begun.recv().unwrap();
        let before = bench.driver.thread_exchange_stream_capture_mode(mode).unwrap();
        during();
        bench.driver.thread_exchange_stream_capture_mode(before).unwrap();
        drop(over);
        capturing.join().unwrap()
    });
    // SAFETY: nobody uses it any more.
    unsafe { bench.driver.stream_destroy(trainer) }.unwrap();
    ended
}

#[test]
fn an_unsafe_call_in_global_mode_breaks_a_capture_of_another_thread() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let ended = capture(&bench, &simulator, CaptureMode::GLOBAL, || {
        let asked = bench.driver.event_query(bench.events[0]);
        assert_eq!(asked, Err(CuResult::STREAM_CAPTURE_UNSUPPORTED));
    });
    assert_eq!(ended, Err(CuResult::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn in_thread_local_mode_it_breaks_only_what_its_own_thread_captures() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let [own, _] = bench.streams;
    let ask = || bench.driver.event_query(bench.events[0]);
    let ended = capture(&bench, &simulator, CaptureMode::THREAD_LOCAL, || {
        assert_eq!(ask(), Ok(true));
    });
    assert_eq!(ended, Ok(0));
    let local = CaptureMode::THREAD_LOCAL;
    bench.driver.thread_exchange_stream_capture_mode(local).unwrap();
    simulator.begin_capture(own, local).unwrap();
    assert_eq!(ask(), Err(CuResult::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(simulator.end_capture(own), Err(CuResult::STREAM_CAPTURE_INVALIDATED));
    simulator.begin_capture(own, CaptureMode::RELAXED).unwrap();
    assert_eq!(ask(), Ok(true));
    assert_eq!(simulator.end_capture(own), Ok(0));
    bench.driver.thread_exchange_stream_capture_mode(CaptureMode::GLOBAL).unwrap();
}

#[test]
fn in_relaxed_mode_every_call_leaves_a_capture_whole() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let ended = capture(&bench, &simulator, CaptureMode::RELAXED, || {
        bench.upload(0, 0, 0);
        bench.record(0, 0);
        bench.poll(0);
        bench.synchronize(0);
        let block = bench.driver.mem_alloc(64).unwrap();
        // SAFETY: nobody uses it.
        unsafe { bench.driver.mem_free(block) }.unwrap();
    });
    assert_eq!(ended, Ok(0));
}

#[test]
fn work_in_a_stream_that_is_captured_is_a_node_and_does_not_run() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let stream = bench.streams[0];
    assert_eq!(bench.driver.stream_is_capturing(stream), Ok(false));
    simulator.begin_capture(stream, CaptureMode::GLOBAL).unwrap();
    assert_eq!(bench.driver.stream_is_capturing(stream), Ok(true));
    paint(bench.host(0), 1);
    bench.upload(0, 0, 0);
    bench.record(0, 0);
    assert_eq!(simulator.end_capture(stream), Ok(1));
    assert_eq!(bench.driver.stream_is_capturing(stream), Ok(false));
    bench.synchronize(0);
    assert!(bench.peek(0).iter().all(|word| *word == 0xFBFB_FBFB), "the copy ran");
}

/// What a capture of the bench's first stream comes to around a call, and what the call says. The
/// thread is in relaxed mode, as ours are.
fn captured_around<T>(
    bench: &Bench,
    simulator: &Simulator,
    call: impl FnOnce() -> T,
) -> (T, Result<usize, CuResult>) {
    let mode = bench.driver.thread_exchange_stream_capture_mode(CaptureMode::RELAXED).unwrap();
    simulator.begin_capture(bench.streams[0], CaptureMode::GLOBAL).unwrap();
    let said = call();
    let ended = simulator.end_capture(bench.streams[0]);
    bench.driver.thread_exchange_stream_capture_mode(mode).unwrap();
    (said, ended)
}

const BROKEN: Result<usize, CuResult> = Err(CuResult::STREAM_CAPTURE_INVALIDATED);

#[test]
fn to_ask_or_wait_for_what_is_captured_breaks_the_capture_in_every_mode() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (driver, [stream, _], event) = (bench.driver, bench.streams, bench.events[0]);
    let recorded = || {
        bench.record(0, 0);
        event
    };
    let around = |call: &dyn Fn() -> CuResult| captured_around(&bench, &simulator, call);
    let code = |result: Result<(), CuResult>| result.err().unwrap_or(CuResult::SUCCESS);
    let asked = |result: Result<bool, CuResult>| code(result.map(|_| ()));
    let unsupported = (CuResult::STREAM_CAPTURE_UNSUPPORTED, BROKEN);
    assert_eq!(around(&|| asked(driver.stream_query(stream))), unsupported);
    assert_eq!(around(&|| code(driver.stream_synchronize(stream))), unsupported);
    let captured = (CuResult::CAPTURED_EVENT, BROKEN);
    assert_eq!(around(&|| asked(driver.event_query(recorded()))), captured);
    assert_eq!(around(&|| code(driver.event_synchronize(recorded()))), captured);
    // It is of no use until it is recorded again, and what it was is forgotten.
    assert_eq!(driver.event_query(event), Err(CuResult::INVALID_VALUE));
    bench.record(0, 0);
    bench.poll(0);
    // One outside of the capture is nothing that a graph could wait for.
    let waited = around(&|| code(driver.stream_wait_event(stream, event)));
    assert_eq!(waited, (CuResult::STREAM_CAPTURE_ISOLATION, BROKEN));
    assert_eq!(around(&|| asked(driver.stream_is_capturing(stream))).1, Ok(0));
}

#[test]
fn a_stream_that_waits_for_a_captured_event_is_drawn_in_and_has_to_be_waited_for() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (driver, [origin, other], [forked, joined, ..]) =
        (bench.driver, bench.streams, bench.events);
    let fork = || {
        driver.event_record(forked, origin).unwrap();
        driver.stream_wait_event(other, forked).unwrap();
        assert_eq!(driver.stream_is_capturing(other), Ok(true));
        bench.upload(0, 0, 1);
    };
    let ((), ended) = captured_around(&bench, &simulator, fork);
    assert_eq!(ended, Err(CuResult::STREAM_CAPTURE_UNJOINED));
    assert_eq!(driver.stream_is_capturing(other), Ok(false));
    let ((), ended) = captured_around(&bench, &simulator, || {
        fork();
        driver.event_record(joined, other).unwrap();
        driver.stream_wait_event(origin, joined).unwrap();
    });
    assert_eq!(ended, Ok(1));
    // What was captured is over: its event joins nobody.
    assert_eq!(driver.stream_wait_event(other, joined), Err(CuResult::INVALID_VALUE));
}

#[test]
fn a_capture_ends_where_and_on_the_thread_where_it_was_begun() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let [stream, other] = bench.streams;
    let (simulator, context) = (&simulator, bench.context);
    let end_elsewhere = || {
        let end = move || {
            let _entered = context.enter().unwrap();
            simulator.end_capture(stream)
        };
        std::thread::scope(|scope| scope.spawn(end).join().unwrap())
    };
    let (said, ended) = captured_around(&bench, simulator, end_elsewhere);
    assert_eq!((said, ended), (Err(CuResult::STREAM_CAPTURE_WRONG_THREAD), Ok(0)));
    assert_eq!(simulator.end_capture(stream), Err(CuResult::ILLEGAL_STATE));
    let end_other = || {
        bench.driver.event_record(bench.events[0], stream).unwrap();
        bench.driver.stream_wait_event(other, bench.events[0]).unwrap();
        simulator.end_capture(other)
    };
    let (said, ended) = captured_around(&bench, simulator, end_other);
    assert_eq!((said, ended), (Err(CuResult::STREAM_CAPTURE_UNMATCHED), BROKEN));
}

#[test]
fn the_legacy_stream_breaks_a_capture_of_a_blocking_stream_and_no_other() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (driver, event) = (bench.driver, bench.events[0]);
    let record = || driver.event_record(event, Stream::LEGACY);
    let (said, ended) = captured_around(&bench, &simulator, record);
    assert_eq!((said, ended), (Ok(()), Ok(0)));
    let blocking = driver.stream_create(STREAM_DEFAULT, 0).unwrap();
    simulator.begin_capture(blocking, CaptureMode::RELAXED).unwrap();
    // The question is no use of it.
    let asked = driver.stream_is_capturing(Stream::LEGACY);
    assert_eq!(asked, Err(CuResult::STREAM_CAPTURE_IMPLICIT));
    assert_eq!(simulator.end_capture(blocking), Ok(0));
    simulator.begin_capture(blocking, CaptureMode::RELAXED).unwrap();
    assert_eq!(record(), Err(CuResult::STREAM_CAPTURE_IMPLICIT));
    assert_eq!(simulator.end_capture(blocking), BROKEN);
    let legacy = simulator.begin_capture(Stream::LEGACY, CaptureMode::GLOBAL);
    assert_eq!(legacy, Err(CuResult::STREAM_CAPTURE_UNSUPPORTED));
    // SAFETY: nobody uses it any more.
    unsafe { driver.stream_destroy(blocking) }.unwrap();
}

// ---- Default streams --------------------------------------------------------------------------

#[test]
fn the_legacy_stream_comes_after_streams_that_block_and_they_after_it() {
    let Some(simulator) = Simulator::take() else { return };
    for mode in [Mode::Eager, Mode::Jitter, Mode::Lazy] {
        simulator.set_mode(mode, 11);
        let bench = Bench::new(&simulator);
        let driver = bench.driver;
        let blocking = driver.stream_create(STREAM_DEFAULT, 0).unwrap();
        for (held, other) in [
            (blocking, Stream::LEGACY),
            (Stream::LEGACY, blocking),
            (Stream::PER_THREAD, Stream::NULL),
        ] {
            simulator.hold_stream(held.as_raw(), 1);
            driver.event_record(bench.events[0], held).unwrap();
            driver.event_record(bench.events[1], other).unwrap();
            driver.event_record(bench.events[2], bench.streams[0]).unwrap();
            driver.event_synchronize(bench.events[2]).unwrap();
            assert_eq!(driver.event_query(bench.events[1]), Ok(false), "{mode:?}");
            simulator.hold_stream(held.as_raw(), 0);
            driver.event_synchronize(bench.events[1]).unwrap();
            assert_eq!(driver.event_query(bench.events[0]), Ok(true), "{mode:?}");
        }
        // SAFETY: nobody uses it any more.
        unsafe { driver.stream_destroy(blocking) }.unwrap();
    }
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (driver, context, event) = (bench.driver, bench.context, bench.events[1]);
    simulator.hold_stream(Stream::PER_THREAD.as_raw(), 1);
    driver.event_record(bench.events[0], Stream::PER_THREAD).unwrap();
    let elsewhere = std::thread::spawn(move || {
        let _entered = context.enter().unwrap();
        driver.event_record(event, Stream::PER_THREAD).unwrap();
        driver.event_synchronize(event).unwrap();
    });
    elsewhere.join().unwrap();
    assert_eq!(driver.event_query(bench.events[0]), Ok(false));
    simulator.hold_stream(Stream::PER_THREAD.as_raw(), 0);
    driver.event_synchronize(bench.events[0]).unwrap();
}

// ---- Faults, limits, counts -------------------------------------------------------------------

#[test]
fn a_call_that_is_made_to_fail_does_nothing_and_only_once() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let live = simulator.live().0;
    simulator.fail(Some(c"cuMemAlloc_v2"), 1, 2, 1);
    let first = bench.driver.mem_alloc(64).unwrap();
    assert_eq!(bench.driver.mem_alloc(64), Err(CuResult::OUT_OF_MEMORY));
    assert_eq!(simulator.live().0, live + 1);
    let third = bench.driver.mem_alloc(64).unwrap();
    simulator.fail(None, 0, 719, 2);
    assert_eq!(bench.driver.ctx_get_device(), Err(CuResult::LAUNCH_FAILED));
    assert_eq!(bench.driver.mem_get_info(), Err(CuResult::LAUNCH_FAILED));
    assert_eq!(bench.driver.ctx_get_device(), Ok(Device(0)));
    assert_eq!(simulator.fault_seen(), 3);
    // SAFETY: nobody uses them.
    unsafe {
        bench.driver.mem_free(first).unwrap();
        bench.driver.mem_free(third).unwrap();
    }
}

#[test]
fn calls_and_allocations_are_counted() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    // Two blocks, two pinned ones, two streams, four events, a module.
    assert_eq!(simulator.allocations(), 11);
    let (all, queries) = (simulator.calls(None), simulator.calls(Some(c"cuEventQuery")));
    bench.driver.event_query(bench.events[0]).unwrap();
    assert_eq!(simulator.calls(None), all + 1);
    assert_eq!(simulator.calls(Some(c"cuEventQuery")), queries + 1);
    assert_eq!(simulator.allocations(), 11);
    assert_eq!(simulator.live().0, 12, "{}", simulator.live().1);
}

#[test]
fn a_launch_beyond_the_limits_of_a_device_is_refused() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let kernel = bench.kernel(c"simcuda_probe_write");
    let launch = |grid: [u32; 3], block: [u32; 3], shared| {
        let (mut place, mut value) = (bench.blocks[0], 5u32);
        let mut parameters = [(&raw mut place).cast(), (&raw mut value).cast::<c_void>()];
        let stream = bench.streams[0];
        // SAFETY: the parameters are those of the kernel.
        unsafe { bench.driver.launch_kernel(kernel, grid, block, shared, stream, &mut parameters) }
    };
    let refused = Err(CuResult::INVALID_VALUE);
    assert_eq!(launch([1, 1, 1], [1024, 1, 1], SHARED_BYTES_MAX), Ok(()));
    assert_eq!(launch([0, 1, 1], [32, 1, 1], 0), refused);
    assert_eq!(launch([1, 1, 1], [0, 1, 1], 0), refused);
    assert_eq!(launch([1, 1, 1], [1025, 1, 1], 0), refused);
    assert_eq!(launch([1, 1, 1], [64, 17, 1], 0), refused);
    assert_eq!(launch([1 << 31, 1, 1], [32, 1, 1], 0), refused);
    assert_eq!(launch([1, 65536, 1], [32, 1, 1], 0), refused);
    assert_eq!(launch([1, 1, 1], [32, 1, 1], SHARED_BYTES_MAX + 1), refused);
    bench.synchronize(0);
    assert_eq!(simulator.launches(), 1);
}

#[test]
fn ptx_whose_parameters_are_not_the_kernel_s_is_found() {
    let Some(simulator) = Simulator::take() else { return };
    let context = DeviceContext::open(simulator.driver(), 0, &mut Why::new()).unwrap();
    let entered = context.enter().unwrap();
    let wrong = c".version 8.0\n.target sm_80\n.visible .entry simcuda_probe_write(\n\
        .param .u64 a,\n.param .u64 b\n)\n{ }\n";
    assert!(module::load(&entered, wrong, &mut Why::new()).is_err());
    let found = simulator.take_findings();
    assert!(found.contains("simcuda_probe_write"), "{found}");
    drop(entered);
    // SAFETY: nothing was made in it.
    unsafe { context.close() }.unwrap();
}

#[test]
fn the_library_s_own_kernels_load_from_their_ptx_and_run() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    let (driver, entered) = (bench.driver, bench.entered.as_ref().unwrap());
    let mut why = Why::new();
    let modules = [ASSEMBLE, COPY, LZ4].map(|kernel| {
        let mut ptx = Vec::new();
        ZlibDecoder::new(kernel.packed).read_to_end(&mut ptx).unwrap();
        let ptx = CString::new(ptx).unwrap();
        let loaded = module::load(entered, &ptx, &mut why).unwrap();
        (loaded, module::function(entered, loaded, kernel.entry, &mut why).unwrap())
    });
    paint(bench.host(0), 6);
    bench.upload(0, 0, 0);
    bench.synchronize(0);
    // From an odd place of one block to another odd place of the other.
    let span = [bench.blocks[0].0 + 3, bench.blocks[1].0 + 5, BYTES - 8];
    bench.host(1)[..6]
        .copy_from_slice(&span.map(|word| [word as u32, (word >> 32) as u32]).concat());
    let mut spans = driver.mem_alloc(24).unwrap();
    let (source, copy) = (bench.pinned[1].as_ptr(), modules[1].1);
    // SAFETY: the span lies inside both blocks, and is all that the kernel is given.
    unsafe {
        driver.memcpy_htod_async(spans, source, 24, bench.streams[0]).unwrap();
        let mut parameters = [(&raw mut spans).cast::<c_void>()];
        let (grid, block, stream) = ([2, 1, 1], [256, 1, 1], bench.streams[0]);
        driver.launch_kernel(copy, grid, block, 0, stream, &mut parameters).unwrap();
    }
    bench.synchronize(0);
    let bytes =
        |number| bench.peek(number).iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
    let (source, target) = (bytes(0), bytes(1));
    assert!(target[5..target.len() - 3] == source[3..source.len() - 5]);
    assert!(target[..5].iter().chain(&target[target.len() - 3..]).all(|byte| *byte == 0xFB));
    // SAFETY: nobody uses them any more.
    unsafe {
        driver.mem_free(spans).unwrap();
        modules.into_iter().for_each(|(loaded, _)| driver.module_unload(loaded).unwrap());
    }
}

#[test]
fn blocks_of_a_kernel_run_in_every_order() {
    let Some(simulator) = Simulator::take() else { return };
    let bench = Bench::new(&simulator);
    for order in ["forward", "reverse", "shuffled"] {
        simulator.set_order(order, 9);
        paint(bench.host(0), 3);
        bench.upload(0, 0, 0);
        bench.add(2, 0);
        bench.synchronize(0);
        assert!(
            bench.peek(1).into_iter().eq(painted(3).map(|word| word.wrapping_add(2))),
            "{order}"
        );
    }
}
