//! The driver's calls as methods.
//!
//! In: handles and numbers. Out: a value, or the code of what failed. A method is unsafe where its
//! caller has to vouch for memory or for the life of a handle, and says for what. All but the first
//! few need a current context: see `context`.

use crate::base::text::Text;
use crate::cuda::entries::Entries;
use crate::cuda::handles::{
    CaptureMode, Context, Device, DeviceAttribute, DevicePointer, Event, Function, JitOption,
    Module, Stream,
};
use crate::cuda::named::{InitRefusal, Named};
use crate::cuda::result::CuResult;
use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// A loaded driver.
#[derive(Clone, Copy)]
pub struct Driver {
    entries: Entries,
    version: i32,
}

/// Calls an entry whose first argument takes its one result.
macro_rules! get {
    ($self:ident.$entry:ident($($argument:expr),*)) => {{
        let mut value = MaybeUninit::uninit();
        // SAFETY: the entry writes the value where it succeeds; the other arguments are numbers,
        // handles that live, or vouched for by the caller of the method.
        unsafe {
            ($self.entries.$entry)(value.as_mut_ptr() $(, $argument)*).ok()?;
            value.assume_init()
        }
    }};
}

/// Calls an entry that has no result.
macro_rules! call {
    ($self:ident.$entry:ident($($argument:expr),*)) => {
        // SAFETY: the arguments are numbers, handles that live, or vouched for by the caller of
        // the method.
        unsafe { ($self.entries.$entry)($($argument),*) }
    };
}

/// The whole driver.
impl Driver {
    pub(super) fn new(entries: Entries) -> Driver {
        Driver { entries, version: 0 }
    }

    pub(super) fn with_version(self, version: i32) -> Driver {
        Driver { version, ..self }
    }

    /// What CUDA it is for: 12040 is 12.4.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Initialises the driver; again does nothing.
    pub fn init(&self) -> Result<(), CuResult> {
        call!(self.init(0)).ok()
    }

    /// As [`Driver::version`], from the driver itself.
    pub fn driver_get_version(&self) -> Result<i32, CuResult> {
        Ok(get!(self.driver_get_version()))
    }

    /// A code with its name, from the driver where it is newer than our list.
    pub fn named(&self, code: CuResult) -> Named<'_> {
        Named::new(self, code)
    }

    /// Why `cuInit` failed, and what to do.
    pub fn init_refusal(&self, code: CuResult) -> InitRefusal<'_> {
        InitRefusal::new(self.named(code))
    }

    /// What the driver calls a code; None where it does not know it.
    pub fn error_name(&self, code: CuResult) -> Option<&'static str> {
        let mut name = ptr::null();
        // SAFETY: the entry writes NULL or a static string.
        unsafe {
            (self.entries.get_error_name)(code, &mut name).ok().ok()?;
            if name.is_null() { None } else { CStr::from_ptr(name).to_str().ok() }
        }
    }
}

/// Devices. None of these needs a context.
impl Driver {
    /// Devices that CUDA_VISIBLE_DEVICES leaves.
    pub fn device_get_count(&self) -> Result<i32, CuResult> {
        Ok(get!(self.device_get_count()))
    }

    /// The device of this number.
    pub fn device_get(&self, ordinal: i32) -> Result<Device, CuResult> {
        Ok(get!(self.device_get(ordinal)))
    }

    /// What it is called: "NVIDIA H100 80GB HBM3".
    pub fn device_get_name(&self, device: Device) -> Result<Text<128>, CuResult> {
        let mut bytes = [0u8; 128];
        let room = bytes.len() as i32;
        call!(self.device_get_name(bytes.as_mut_ptr().cast::<c_char>(), room, device)).ok()?;
        let mut name = Text::new();
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or(c"");
        name.push_str(text.to_str().unwrap_or(""));
        Ok(name)
    }

    /// A number about it.
    pub fn device_get_attribute(
        &self,
        attribute: DeviceAttribute,
        device: Device,
    ) -> Result<i32, CuResult> {
        Ok(get!(self.device_get_attribute(attribute, device)))
    }

    /// The device's primary context, made where there is none; it stays until it is released as
    /// often as it was retained.
    pub fn device_primary_ctx_retain(&self, device: Device) -> Result<Context, CuResult> {
        Ok(get!(self.device_primary_ctx_retain(device)))
    }

    /// Gives one retain back.
    ///
    /// # Safety
    /// Nothing that was made in the context is in use any more, unless somebody else retains it.
    pub unsafe fn device_primary_ctx_release(&self, device: Device) -> Result<(), CuResult> {
        call!(self.device_primary_ctx_release(device)).ok()
    }
}

/// The calling thread's stack of contexts, and its capture mode.
impl Driver {
    /// The current context; NULL where there is none.
    pub fn ctx_get_current(&self) -> Result<Context, CuResult> {
        Ok(get!(self.ctx_get_current()))
    }

    /// Makes a context current, above the one that was.
    pub fn ctx_push_current(&self, context: Context) -> Result<(), CuResult> {
        call!(self.ctx_push_current(context)).ok()
    }

    /// Takes the current context off, and makes the one below current.
    pub fn ctx_pop_current(&self) -> Result<Context, CuResult> {
        Ok(get!(self.ctx_pop_current()))
    }

    /// The device of the current context.
    pub fn ctx_get_device(&self) -> Result<Device, CuResult> {
        Ok(get!(self.ctx_get_device()))
    }

    /// Least and greatest priority of a stream; the greatest is the smaller number.
    pub fn ctx_get_stream_priority_range(&self) -> Result<(i32, i32), CuResult> {
        let (mut least, mut greatest) = (0, 0);
        call!(self.ctx_get_stream_priority_range(&mut least, &mut greatest)).ok()?;
        Ok((least, greatest))
    }

    /// Sets the thread's capture mode; the one that it had.
    pub fn thread_exchange_stream_capture_mode(
        &self,
        mode: CaptureMode,
    ) -> Result<CaptureMode, CuResult> {
        let mut mode = mode.0;
        call!(self.thread_exchange_stream_capture_mode(&mut mode)).ok()?;
        Ok(CaptureMode(mode))
    }
}

/// Memory.
impl Driver {
    /// Device memory, aligned to 256 bytes at least.
    pub fn mem_alloc(&self, bytes: u64) -> Result<DevicePointer, CuResult> {
        Ok(get!(self.mem_alloc(bytes as usize)))
    }

    /// Gives device memory back; waits for the device.
    ///
    /// # Safety
    /// `block` is what `mem_alloc` gave, and nothing uses it from here on.
    pub unsafe fn mem_free(&self, block: DevicePointer) -> Result<(), CuResult> {
        call!(self.mem_free(block)).ok()
    }

    /// Free bytes of the device, and all.
    pub fn mem_get_info(&self) -> Result<(u64, u64), CuResult> {
        let (mut free, mut total) = (0usize, 0usize);
        call!(self.mem_get_info(&mut free, &mut total)).ok()?;
        Ok((free as u64, total as u64))
    }

    /// Pinned host memory, aligned to a page. `flags`: MEM_HOST_.
    pub fn mem_host_alloc(&self, bytes: u64, flags: u32) -> Result<NonNull<u8>, CuResult> {
        let block: *mut c_void = get!(self.mem_host_alloc(bytes as usize, flags));
        NonNull::new(block.cast()).ok_or(CuResult::OUT_OF_MEMORY)
    }

    /// Gives pinned memory back.
    ///
    /// # Safety
    /// `block` is what `mem_host_alloc` gave, and neither the host nor queued work uses it.
    pub unsafe fn mem_free_host(&self, block: NonNull<u8>) -> Result<(), CuResult> {
        call!(self.mem_free_host(block.as_ptr().cast())).ok()
    }

    /// Queues a copy to the device.
    ///
    /// # Safety
    /// `source` has `bytes` readable bytes that do not change until the copy has run; `target` has
    /// as many that nothing else in flight uses.
    pub unsafe fn memcpy_htod_async(
        &self,
        target: DevicePointer,
        source: *const u8,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), CuResult> {
        call!(self.memcpy_htod_async(target, source.cast(), bytes as usize, stream)).ok()
    }

    /// Queues a copy from the device.
    ///
    /// # Safety
    /// `target` has `bytes` writable bytes that nobody looks at until the copy has run; `source`
    /// has as many.
    pub unsafe fn memcpy_dtoh_async(
        &self,
        target: *mut u8,
        source: DevicePointer,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), CuResult> {
        call!(self.memcpy_dtoh_async(target.cast(), source, bytes as usize, stream)).ok()
    }

    /// Queues a copy on the device.
    ///
    /// # Safety
    /// Both have `bytes` bytes, apart from each other, and nothing else in flight writes them.
    #[cfg(feature = "internals")]
    pub unsafe fn memcpy_dtod_async(
        &self,
        target: DevicePointer,
        source: DevicePointer,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), CuResult> {
        call!(self.memcpy_dtod_async(target, source, bytes as usize, stream)).ok()
    }

    /// Copies from the device, and waits for it.
    #[cfg(feature = "internals")]
    pub fn memcpy_dtoh(&self, target: &mut [u8], source: DevicePointer) -> Result<(), CuResult> {
        call!(self.memcpy_dtoh(target.as_mut_ptr().cast(), source, target.len())).ok()
    }

    /// Queues that `bytes` bytes become `value`.
    ///
    /// # Safety
    /// `target` has that many bytes that nothing else in flight uses.
    #[cfg(feature = "internals")]
    pub unsafe fn memset_d8_async(
        &self,
        target: DevicePointer,
        value: u8,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), CuResult> {
        call!(self.memset_d8_async(target, value, bytes as usize, stream)).ok()
    }
}

/// Streams and events.
impl Driver {
    /// A stream. `flags`: STREAM_NON_BLOCKING; `priority` from the context's range.
    pub fn stream_create(&self, flags: u32, priority: i32) -> Result<Stream, CuResult> {
        Ok(get!(self.stream_create_with_priority(flags, priority)))
    }

    /// Gives a stream back; its work still runs.
    ///
    /// # Safety
    /// Nobody uses the stream from here on.
    pub unsafe fn stream_destroy(&self, stream: Stream) -> Result<(), CuResult> {
        call!(self.stream_destroy(stream)).ok()
    }

    /// Whether all work of the stream has run.
    pub fn stream_query(&self, stream: Stream) -> Result<bool, CuResult> {
        call!(self.stream_query(stream)).is_done()
    }

    /// Waits until all work of the stream has run.
    pub fn stream_synchronize(&self, stream: Stream) -> Result<(), CuResult> {
        call!(self.stream_synchronize(stream)).ok()
    }

    /// What is queued in `stream` from here on waits for what `event` recorded last.
    pub fn stream_wait_event(&self, stream: Stream, event: Event) -> Result<(), CuResult> {
        call!(self.stream_wait_event(stream, event, 0)).ok()
    }

    /// Whether the stream is being captured into a graph, a broken one included. The question
    /// breaks nothing, unlike any other.
    pub fn stream_is_capturing(&self, stream: Stream) -> Result<bool, CuResult> {
        let mut status = 0;
        call!(self.stream_is_capturing(stream, &mut status)).ok()?;
        Ok(status != 0)
    }

    /// The context of a stream; None where the driver has no such entry.
    pub fn stream_get_ctx(&self, stream: Stream) -> Result<Option<Context>, CuResult> {
        let Some(entry) = self.entries.stream_get_ctx else { return Ok(None) };
        let mut context = Context::NULL;
        // SAFETY: the stream lives; the entry writes its context.
        unsafe { entry(stream, &mut context) }.ok()?;
        Ok(Some(context))
    }

    /// An event. `flags`: EVENT_.
    pub fn event_create(&self, flags: u32) -> Result<Event, CuResult> {
        Ok(get!(self.event_create(flags)))
    }

    /// Gives an event back; waits for it that are queued still hold.
    ///
    /// # Safety
    /// Nobody uses the event from here on.
    pub unsafe fn event_destroy(&self, event: Event) -> Result<(), CuResult> {
        call!(self.event_destroy(event)).ok()
    }

    /// The event now stands for all work that the stream has been given so far.
    pub fn event_record(&self, event: Event, stream: Stream) -> Result<(), CuResult> {
        call!(self.event_record(event, stream)).ok()
    }

    /// Whether what the event recorded last has run; true for one that recorded nothing.
    pub fn event_query(&self, event: Event) -> Result<bool, CuResult> {
        call!(self.event_query(event)).is_done()
    }

    /// Waits until what the event recorded last has run.
    #[cfg(feature = "internals")]
    pub fn event_synchronize(&self, event: Event) -> Result<(), CuResult> {
        call!(self.event_synchronize(event)).ok()
    }

    /// Milliseconds between two events that have run and take the time.
    pub fn event_elapsed_time(&self, first: Event, last: Event) -> Result<f32, CuResult> {
        Ok(get!(self.event_elapsed_time(first, last)))
    }
}

/// Kernels.
impl Driver {
    /// Loads PTX into the current context. Each option has its value beside it.
    ///
    /// # Safety
    /// The values are what cuda.h asks of their options; buffers among them are writable.
    pub unsafe fn module_load_data_ex(
        &self,
        ptx: &CStr,
        options: &mut [(JitOption, *mut c_void)],
    ) -> Result<Module, CuResult> {
        let mut names = [JitOption(0); JIT_OPTIONS_MAX];
        let mut values = [ptr::null_mut(); JIT_OPTIONS_MAX];
        let count = options.len();
        assert!(count <= JIT_OPTIONS_MAX);
        for (place, (name, value)) in options.iter().enumerate() {
            (names[place], values[place]) = (*name, *value);
        }
        let image = ptx.as_ptr().cast();
        let mut module = Module::NULL;
        let (names, from) = (names.as_mut_ptr(), values.as_mut_ptr());
        let code = call!(self.module_load_data_ex(&mut module, image, count as u32, names, from));
        // Sizes come back in the values.
        for ((_, value), written) in options.iter_mut().zip(values) {
            *value = written;
        }
        code.ok().map(|()| module)
    }

    /// Gives a module back.
    ///
    /// # Safety
    /// None of its kernels runs or is launched again.
    pub unsafe fn module_unload(&self, module: Module) -> Result<(), CuResult> {
        call!(self.module_unload(module)).ok()
    }

    /// A kernel by its name.
    pub fn module_get_function(&self, module: Module, name: &CStr) -> Result<Function, CuResult> {
        Ok(get!(self.module_get_function(module, name.as_ptr())))
    }

    /// Queues a kernel: `grid` blocks of `block` threads, with `shared_bytes` of shared memory
    /// besides what it declares.
    ///
    /// # Safety
    /// `parameters` are places of the kernel's own parameters, as many and of the types that it
    /// has, and what it does with them stays inside memory that nothing else in flight uses. They
    /// are read before this returns.
    pub unsafe fn launch_kernel(
        &self,
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), CuResult> {
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let places = parameters.as_mut_ptr();
        let none = ptr::null_mut();
        let launch = self.entries.launch_kernel;
        // SAFETY: as the function asks.
        let code =
            unsafe { launch(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, places, none) };
        code.ok()
    }
}

/// Most options of a module load.
const JIT_OPTIONS_MAX: usize = 4;
