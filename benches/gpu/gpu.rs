//! A device for the bench: its context on this thread, blocks of memory, and a clock of its own.

use crate::sim::WaveBytes;
use crate::{fact, row};
use flate2::read::ZlibDecoder;
use std::ffi::{CString, c_void};
use std::io::Read;
use std::ptr::NonNull;
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::handles::DeviceAttribute;
use wavetrain::cuda::handles::DevicePointer;
use wavetrain::cuda::handles::Function;
use wavetrain::cuda::handles::{EVENT_DEFAULT, MEM_HOST_PORTABLE, STREAM_NON_BLOCKING};
use wavetrain::cuda::kernels::{ASSEMBLE, COPY};
use wavetrain::cuda::{DeviceContext, Driver, DriverPath, Event, Stream, module};
use wavetrain::status::Why;

/// Threads of a block of both kernels.
const BLOCK_THREADS: u32 = 256;

/// See the module. Everything is kept until the process ends.
pub struct Gpu {
    pub driver: &'static Driver,
    pub streams: [Stream; 2],
    pub assemble: Function,
    pub copy: Function,
    context: DeviceContext,
    /// Bytes that went with the context, as far as can be told, and with the modules.
    module_bytes: u64,
    events: [Event; 4],
    status: DevicePointer,
    _entered: Entered,
}

/// A path for configs, which lives as long as the program.
pub fn driver_path(path: &str) -> DriverPath {
    let path = CString::new(path).expect("a path has no NUL");
    DriverPath::from_static(Box::leak(path.into_boxed_c_str()))
}

impl Gpu {
    /// Device 0, or why not.
    pub fn open(path: &str) -> Result<Gpu, String> {
        let mut why = Why::new();
        let driver = Driver::load(driver_path(path), &mut why).map_err(|_| why.to_string())?;
        let context = DeviceContext::open(driver, 0, &mut why).map_err(|_| why.to_string())?;
        let entered = context.enter().expect("the context");
        let free = || driver.mem_get_info().expect("cuMemGetInfo").0;
        let before = free();
        let mut function = |kernel: &wavetrain::cuda::kernels::Kernel| {
            let mut ptx = Vec::new();
            ZlibDecoder::new(kernel.packed).read_to_end(&mut ptx).expect("PTX in zlib's format");
            let ptx = CString::new(ptx).expect("PTX has no NUL");
            let module = module::load(&entered, &ptx, &mut why).unwrap_or_else(|_| panic!("{why}"));
            driver.module_get_function(module, kernel.entry).expect("the kernel")
        };
        let (assemble, copy) = (function(&ASSEMBLE), function(&COPY));
        let module_bytes = before.saturating_sub(free());
        let stream = || driver.stream_create(STREAM_NON_BLOCKING, 0).expect("a stream");
        let event = || driver.event_create(EVENT_DEFAULT).expect("an event");
        Ok(Gpu {
            driver,
            streams: [stream(), stream()],
            assemble,
            copy,
            context,
            module_bytes,
            events: [event(), event(), event(), event()],
            status: driver.mem_alloc(256).expect("device memory"),
            _entered: entered,
        })
    }

    /// What it is.
    pub fn describe(&self) {
        let [major, minor] =
            [DeviceAttribute::COMPUTE_CAPABILITY_MAJOR, DeviceAttribute::COMPUTE_CAPABILITY_MINOR]
                .map(|of| self.driver.device_get_attribute(of, self.context.device).unwrap_or(0));
        let (free, total) = self.driver.mem_get_info().expect("cuMemGetInfo");
        let version = self.driver.version;
        fact("device", &format!("{}, compute capability {major}.{minor}", self.context.name()));
        fact("driver", &format!("CUDA {}.{}", version / 1000, version % 1000 / 10));
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        row("device memory", mib(total), "MiB", "");
        row("taken by contexts, this and others'", mib(total - free), "MiB", "");
        row("that went as both modules were loaded", mib(self.module_bytes), "MiB", "");
    }

    /// Device memory.
    pub fn block(&self, bytes: u64) -> DevicePointer {
        self.driver.mem_alloc(bytes).unwrap_or_else(|code| {
            panic!("{bytes} bytes of device memory: {}", self.driver.named(code))
        })
    }

    /// Gives a block back.
    pub fn free(&self, block: DevicePointer) {
        self.synchronize();
        // SAFETY: nothing is queued any more, and the caller does not use it again.
        unsafe { self.driver.mem_free(block) }.expect("cuMemFree");
    }

    /// Pinned memory of the host, painted.
    pub fn pinned(&self, bytes: u64) -> NonNull<u8> {
        let block = self.driver.mem_host_alloc(bytes, MEM_HOST_PORTABLE).expect("pinned memory");
        // SAFETY: so many bytes were just taken.
        unsafe { block.as_ptr().write_bytes(0x5A, bytes as usize) };
        block
    }

    /// Waits for all that is queued.
    pub fn synchronize(&self) {
        for stream in self.streams {
            self.driver.stream_synchronize(stream).expect("cuStreamSynchronize");
        }
    }

    /// Bytes of the host to the device; waits.
    pub fn upload(&self, target: DevicePointer, bytes: &[u8]) {
        let (source, count) = (bytes.as_ptr(), bytes.len() as u64);
        // SAFETY: the target has room, by the caller's word; the bytes live until the wait is over.
        unsafe { self.driver.memcpy_htod_async(target, source, count, self.streams[0]) }
            .expect("cuMemcpyHtoDAsync");
        self.synchronize();
    }

    /// Bytes of the device.
    pub fn download(&self, source: DevicePointer, bytes: usize) -> Vec<u8> {
        self.synchronize();
        let mut target = vec![0; bytes];
        self.driver.memcpy_dtoh(&mut target, source).expect("cuMemcpyDtoH");
        target
    }

    /// Queues the assemble kernel on a wave that lies at `place`.
    pub fn launch_assemble(&self, stream: Stream, place: DevicePointer, wave: &WaveBytes) {
        let (mut place, mut status) = (place, self.status);
        let (mut units_at, mut tiles_at) = (wave.units_at, wave.tiles_at);
        let mut unit_count = wave.unit_count;
        // Nothing of it was decoded there.
        let (mut decoded_at, mut decoded_limit) = (0u64, 0u64);
        let mut parameters: [*mut c_void; 7] = [
            (&raw mut place).cast(),
            (&raw mut units_at).cast(),
            (&raw mut tiles_at).cast(),
            (&raw mut unit_count).cast(),
            (&raw mut decoded_at).cast(),
            (&raw mut decoded_limit).cast(),
            (&raw mut status).cast(),
        ];
        let (grid, block) = ([wave.tiles, 1, 1], [BLOCK_THREADS, 1, 1]);
        // SAFETY: these are the kernel's parameters, and the wave's targets lie in device memory.
        unsafe {
            self.driver.launch_kernel(self.assemble, grid, block, 0, stream, &mut parameters)
        }
        .expect("cuLaunchKernel");
    }

    /// Queues the copy kernel on one span, which lies in device memory.
    pub fn launch_copy(&self, stream: Stream, span: DevicePointer, blocks: u32) {
        let mut span = span;
        let mut parameters: [*mut c_void; 1] = [(&raw mut span).cast()];
        let (grid, block) = ([blocks, 1, 1], [BLOCK_THREADS, 1, 1]);
        // SAFETY: this is the kernel's parameter; the span names blocks of the caller's.
        unsafe { self.driver.launch_kernel(self.copy, grid, block, 0, stream, &mut parameters) }
            .expect("cuLaunchKernel");
    }

    /// Queues that the kernel's status word is 0.
    pub fn clear_status(&self) {
        // SAFETY: the word is ours, and nothing that uses it is queued.
        unsafe { self.driver.memset_d8_async(self.status, 0, 4, self.streams[0]) }
            .expect("cuMemsetD8Async");
        self.synchronize();
    }

    /// The kernel's status word.
    pub fn status(&self) -> u32 {
        let bytes = self.download(self.status, 4);
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Milliseconds, by the device's clock, from before `work` was begun to its end on all of the
    /// given streams.
    pub fn milliseconds(&self, streams: &[Stream], work: &mut dyn FnMut()) -> f64 {
        let record = |event, stream| self.driver.event_record(event, stream).expect("a record");
        self.synchronize();
        let [first, last, others @ ..] = self.events;
        record(first, streams[0]);
        for stream in &streams[1..] {
            self.driver.stream_wait_event(*stream, first).expect("a wait");
        }
        work();
        for (stream, event) in streams[1..].iter().zip(others) {
            record(event, *stream);
            self.driver.stream_wait_event(streams[0], event).expect("a wait");
        }
        record(last, streams[0]);
        self.driver.event_synchronize(last).expect("cuEventSynchronize");
        f64::from(self.driver.event_elapsed_time(first, last).expect("cuEventElapsedTime"))
    }
}
