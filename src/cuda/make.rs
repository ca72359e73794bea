//! Making an engine and giving it back.
//!
//! In: a context and sizes. Out: an [`DeviceEngine`] whose every stream, event, kernel and byte was
//! taken, or a status, and nothing is kept. Invariant: nothing is taken after that, not even by the
//! driver, which takes some of what it needs as a stream is used for the first time.

use crate::base::arena::Region;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::cuda::device::DeviceContext;
use crate::cuda::digests::DigestRead;
use crate::cuda::driver::Driver;
use crate::cuda::engine::{
    DECODINGS, DeviceEngine, Fences, Pass, RESIDENT_WAVES, Sizes, Slot, Submit,
};
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::{
    DevicePointer, EVENT_DEFAULT, EVENT_DISABLE_TIMING, Event, Function, MEM_HOST_DEVICE_MAP,
    MEM_HOST_PORTABLE, Module, STREAM_NON_BLOCKING, Stream,
};
use crate::cuda::kernels::{ASSEMBLE, DIGEST, LZ4, ZSTD, ZSTD_MORE};
use crate::cuda::{DEVICES, HOST_ONLY, module};
use crate::os::sync::Mutex;
use arrayvec::ArrayVec;
use core::ffi::{CStr, c_void};
use core::iter::repeat_n;
use core::ptr::{NonNull, without_provenance_mut};
use core::sync::atomic::AtomicU32;

/// Bytes of a unit, of a table of its tiles with the entry after it, and of a stream, as the
/// warm-up launches them.
const UNIT_BYTES: u64 = 512;
const TILES_BYTES: u64 = 16;
const STREAM_BYTES: u64 = 32;

/// `consumer_stream` of a config, whose contract is that it is NULL, or a stream that lives until
/// close.
#[derive(Clone, Copy)]
pub struct Consumer(pub *mut c_void);

/// The texts of the kernels.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    /// Text of [`ASSEMBLE`].
    pub assemble: &'a CStr,
    /// Text of [`LZ4`], if a device decodes.
    pub decode: Option<&'a CStr>,
    /// Text of [`ZSTD`], if it decodes frames.
    pub frames: Option<&'a CStr>,
    /// Text of [`DIGEST`], if digests are asked for.
    pub digest: Option<&'a CStr>,
}

impl DeviceEngine {
    /// Takes everything that a loader needs of the device, into `place`; nothing if that fails.
    #[inline(never)] // what it makes is not to stand on the stack a second time
    pub fn open(
        (place, fences): (&mut Option<DeviceEngine>, &'static mut [Fences]),
        context: DeviceContext,
        sizes: &Sizes,
        consumer: Consumer,
        texts: Texts<'_>,
        why: &mut Why,
    ) -> Result<(), Status> {
        let Some(devices) = DEVICES else {
            return Err(crate::fail!(why, Unsupported, "{HOST_ONLY}"));
        };
        // SAFETY: a consumer's stream is NULL or lives until close, by the config's contract.
        let consumer = unsafe { Stream::from_raw(consumer.0) };
        let engine = place.insert(DeviceEngine {
            context,
            sizes: *sizes,
            modules: [Module::NULL; 4],
            assemble: Function::NULL,
            decode: Function::NULL,
            frames: [Function::NULL; 3],
            digest: Function::NULL,
            memory: DevicePointer::NULL,
            pinned: None,
            input: Stream::NULL,
            decoding: Stream::NULL,
            post: Stream::NULL,
            copies: ArrayVec::new(),
            decodes: [[Event::NULL; 2]; DECODINGS],
            kernels: [[Event::NULL; 2]; RESIDENT_WAVES],
            slots: ArrayVec::new(),
            fences,
            detour: Mutex::new(Stream::NULL),
            consumer: Some(consumer).filter(|stream| !stream.is_null()),
            overhead_bytes: 0,
            _devices: devices,
        });
        let built = engine.build(texts, why);
        if built.is_err() {
            engine.close();
            *place = None;
        }
        built
    }

    fn build(&mut self, texts: Texts<'_>, why: &mut Why) -> Result<(), Status> {
        let told = |why: &mut Why, fault: Fault| why.fail(fault.status(), format_args!("{fault}"));
        let entered = self.enter().map_err(|fault| told(why, fault))?;
        let driver = self.context.driver;
        if let Some(flaw) = self.consumer.and_then(|stream| self.flaw_of(stream)) {
            return Err(crate::fail!(why, Invalid, "consumer_stream is {flaw}"));
        }
        let free = |driver: &Driver| driver.mem_get_info().map_or(0, |(free, _)| free);
        let before = free(driver);
        self.modules[0] = module::load(&entered, texts.assemble, why)?;
        self.assemble = module::function(&entered, self.modules[0], ASSEMBLE.entry, why)?;
        if let Some(text) = texts.digest {
            self.modules[1] = module::load(&entered, text, why)?;
            self.digest = module::function(&entered, self.modules[1], DIGEST.entry, why)?;
        }
        if let Some(text) = texts.decode {
            self.modules[2] = module::load(&entered, text, why)?;
            self.decode = module::function(&entered, self.modules[2], LZ4.entry, why)?;
        }
        if let Some(text) = texts.frames {
            self.modules[3] = module::load(&entered, text, why)?;
            for (place, entry) in
                self.frames.iter_mut().zip([ZSTD.entry, ZSTD_MORE[0], ZSTD_MORE[1]])
            {
                *place = module::function(&entered, self.modules[3], entry, why)?;
            }
        }
        self.take_memory(driver, why)?;
        self.make_streams(driver)
            .and_then(|()| self.warm_up(driver))
            .map_err(|fault| told(why, fault))?;
        let ours = self.sizes.device_bytes();
        self.overhead_bytes = before.saturating_sub(free(driver)).saturating_sub(ours);
        Ok(())
    }

    fn take_memory(&mut self, driver: &'static Driver, why: &mut Why) -> Result<(), Status> {
        let bytes = self.sizes.device_bytes();
        self.memory = driver.mem_alloc(bytes).map_err(|code| {
            let (free, total) = driver.mem_get_info().unwrap_or((0, 0));
            let (name, named) = (self.context.name(), driver.named(code));
            let advice = "lower max_gpu_memory_bytes, samples_per_batch or n_batch_slots";
            let said = format_args!("cuMemAlloc returned {named}: {advice}");
            let room = format_args!("{name} ({free} of {total} are free):");
            let text = format_args!("taking {bytes} bytes of {room} {said}");
            why.fail(code.status(), text)
        })?;
        let bytes = self.sizes.pinned_bytes();
        let flags = MEM_HOST_PORTABLE | MEM_HOST_DEVICE_MAP;
        let pinned = driver.mem_host_alloc(bytes, flags).map_err(|code| {
            let call = format_args!("cuMemHostAlloc returned {}", driver.named(code));
            let advice = "lower host_buffer_waves or max_host_memory_bytes";
            let text = format_args!("pinning {bytes} bytes of host memory: {call}: {advice}");
            why.fail(code.status(), text)
        })?;
        // SAFETY: the bytes were just taken; close gives them back when nobody uses them.
        self.pinned = Some(unsafe { Region::over(pinned, bytes) });
        Ok(())
    }

    fn make_streams(&mut self, driver: &'static Driver) -> Result<(), Fault> {
        let range =
            check(driver, "cuCtxGetStreamPriorityRange", driver.ctx_get_stream_priority_range())?;
        // Copies and kernels of a loader are short and others wait for them.
        let (least, greatest) = range;
        let stream = |priority| {
            let made = driver.stream_create(STREAM_NON_BLOCKING, priority);
            check(driver, "cuStreamCreateWithPriority", made)
        };
        let event = |flags| check(driver, "cuEventCreate", driver.event_create(flags));
        self.input = stream(greatest)?;
        self.post = stream(greatest)?;
        if self.sizes.streams > 0 {
            self.decoding = stream(greatest)?;
        }
        *self.detour.lock() = stream(least)?;
        // Each is stored for close before the next is made.
        self.copies.extend(repeat_n([Event::NULL; 2], index(self.sizes.slabs.into())));
        let decodes = self.decodes.iter_mut().filter(|_| self.sizes.streams > 0);
        for place in self.copies.iter_mut().chain(&mut self.kernels).chain(decodes).flatten() {
            *place = event(EVENT_DEFAULT)?;
        }
        let slot = |fences| Slot {
            ready: Stream::NULL,
            fences,
            fenced: AtomicU32::new(0),
            digests: [Event::NULL; 2],
        };
        let fences = core::mem::take(&mut self.fences);
        assert!(fences.len() as u64 == u64::from(self.sizes.slots));
        self.slots.extend(fences.iter_mut().map(slot));
        for slot in &mut self.slots {
            slot.ready = stream(least)?;
            for place in slot.fences.iter_mut() {
                *place = event(EVENT_DISABLE_TIMING)?;
            }
            if self.sizes.slot_shares > 0 {
                for place in &mut slot.digests {
                    *place = event(EVENT_DEFAULT)?;
                }
            }
        }
        Ok(())
    }

    /// Does once what is done again and again later, on every stream and with every event: what the
    /// driver loads or takes late it has then. The unit has no work, which the kernel refuses: so
    /// this shows as well that the word of a refusal reaches the host.
    fn warm_up(&mut self, driver: &'static Driver) -> Result<(), Fault> {
        let (tiles_at, streams_at) = (UNIT_BYTES, UNIT_BYTES + TILES_BYTES);
        let limit = streams_at + STREAM_BYTES;
        let slab = self.slab(0).part(0, limit);
        // SAFETY: the bytes are pinned memory that was just taken, and nobody else knows of them.
        unsafe { slab.as_ptr().write_bytes(0, limit as usize) };
        for resident in 0..RESIDENT_WAVES as u32 {
            let (units, tiles, streams) = (1, 1, 1);
            let of_one = Submit { units, tiles, streams, ..Submit::NOTHING };
            let mut submit = Submit { resident, limit, tiles_at, streams_at, ..of_one };
            let passes = u32::from(self.frames[0] != Function::NULL);
            submit.passes[0] = Pass { streams: passes, blocks: passes, ..Pass::default() };
            self.copy(&submit)?;
            self.drain(false)?;
            if self.sizes.streams > 0 {
                self.decode(&submit, resident.into())?;
            }
            self.assemble(&submit)?;
        }
        let detour = *self.detour.lock();
        let wait = |stream, event| {
            check(driver, "cuStreamWaitEvent", driver.stream_wait_event(stream, event))
        };
        let record =
            |event, stream| check(driver, "cuEventRecord", driver.event_record(event, stream));
        for slot in &self.slots {
            for fence in *slot.fences {
                record(fence, detour)?;
                wait(slot.ready, fence)?;
                record(fence, slot.ready)?;
            }
            wait(detour, slot.fences[0])?;
        }
        self.warm_up_digests()?;
        self.drain(true)?;
        for fence in self.slots.iter().flat_map(|slot| *slot.fences) {
            self.is_done(fence)?;
        }
        self.check_digests()?;
        self.copy_ns(0);
        for resident in 0..RESIDENT_WAVES as u32 {
            if self.sizes.streams > 0 {
                self.decode_ns(resident.into());
                if !self.is_decoded(resident.into())? || self.verdict(resident, 0) == 0 {
                    return Err(Fault::Silent);
                }
            }
            self.assemble_ns(resident);
            match self.is_assembled(resident) {
                Err(Fault::Kernel(_)) => {}
                Ok(_) => return Err(Fault::Silent),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// The same of the kernel that reads for digests, on each slot's shares and event: it reads the
    /// unit of a resident wave, whose bytes are 0.
    #[inline(never)] // open alone calls it
    fn warm_up_digests(&self) -> Result<(), Fault> {
        if self.digest == Function::NULL {
            return Ok(());
        }
        let start = without_provenance_mut::<u8>(index(self.wave_address(0).0));
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        // SAFETY: an address of the device, which nobody looks into from here.
        let samples = unsafe { Region::over(start, UNIT_BYTES) };
        for slot in 0..self.sizes.slots {
            let shares = self.shares(slot).part(0, 8);
            // SAFETY: pinned memory that was just taken, and no kernel was told of it.
            unsafe { shares.as_ptr().write_bytes(0, 8) };
            self.begin_pass(slot)?;
            self.read_for_digests(
                slot,
                &DigestRead { samples, sample_bytes: UNIT_BYTES, first_share: 0 },
            )?;
            self.end_pass(slot)?;
        }
        Ok(())
    }

    /// Whether what it wrote reached the host: the share of words of 0 is not 0.
    #[inline(never)] // likewise
    fn check_digests(&self) -> Result<(), Fault> {
        if self.digest == Function::NULL {
            return Ok(());
        }
        for slot in 0..self.sizes.slots {
            // SAFETY: the kernels have run, and no other is queued.
            let share = unsafe { self.shares(slot).as_ptr().cast::<u64>().read_volatile() };
            if !self.has_passed(slot)? || share == 0 {
                return Err(Fault::Silent);
            }
        }
        Ok(())
    }

    /// Gives everything back, once what is queued has run. A driver that fails in this call keeps
    /// its resources: nobody is left to report it to, and the process may be ending.
    pub fn close(&self) {
        let driver = self.context.driver;
        // An open that failed may have left work queued.
        let _ = self.drain(true);
        // A driver may report old failures from any call, without making it; all is lost if this
        // one is not made.
        if let Ok(_context) = self.enter().or_else(|_| self.enter()) {
            let events = self.copies.iter().chain(&self.decodes).chain(&self.kernels);
            let of_slots =
                self.slots.iter().flat_map(|slot| slot.fences.iter().chain(&slot.digests));
            let events = events.flatten().chain(of_slots).copied();
            let streams = [self.input, self.decoding, self.post, *self.detour.lock()].into_iter();
            let streams = streams.chain(self.slots.iter().map(|slot| slot.ready));
            // SAFETY: all of it is ours, was made in this context, and is not used any more.
            unsafe {
                for event in events.filter(|event| !event.is_null()) {
                    let _ = driver.event_destroy(event);
                }
                for stream in streams.filter(|stream| !stream.is_null()) {
                    let _ = driver.stream_destroy(stream);
                }
                for module in self.modules.iter().filter(|module| !module.is_null()) {
                    let _ = driver.module_unload(*module);
                }
                if self.memory != DevicePointer::NULL {
                    let _ = driver.mem_free(self.memory);
                }
                if let Some(pinned) = self.pinned {
                    let pinned = NonNull::new(pinned.as_ptr());
                    pinned.map(|pinned| driver.mem_free_host(pinned));
                }
            }
        }
        // SAFETY: nothing of ours is left in the context.
        let _ = unsafe { self.context.close() };
    }
}
