//! The driver's calls as methods.
//!
//! In: handles and numbers. Out: a value, or the code of what failed. A method is unsafe if its
//! caller has to guarantee memory or the life of a handle; its text names them. All but the first
//! few need a current context: see `context`.

use crate::base::arena::Region;
use crate::base::text::Text;
use crate::cuda::entries::Entries;
use crate::cuda::handles::{
    CaptureMode, Context, Device, DeviceAttribute, DevicePointer, Event, Function, JitOption,
    Module, PointerAttribute, Stream,
};
use crate::cuda::result::CuResult;
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// A loaded driver.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    pub(super) entries: Entries,
    /// The version of CUDA that it is for: 12040 is 12.4.
    pub version: i32,
}

/// A code as an error text shows it: "CUDA_ERROR_INVALID_PTX (218)". The driver knows the names.
#[derive(Clone, Copy)]
pub struct Named<'a>(&'a Driver, CuResult);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(driver, code) = self;
        match driver.error_name(*code) {
            Some(name) => write!(f, "{name} ({})", code.0),
            None => write!(f, "CUDA error {}", code.0),
        }
    }
}

/// Calls an entry that has no result.
macro_rules! call {
    ($self:ident.$entry:ident($($argument:expr),*)) => {
        // SAFETY: the arguments are numbers, handles that live, or vouched for by the caller of
        // the method.
        unsafe { ($self.entries.$entry)($($argument),*) }
    };
}

/// Methods that call the entry of their name: with their arguments, and first, if it has a result,
/// with a place for that. `as` says what a number is for the entry.
macro_rules! calls {
    ($($(#[$note:meta])* $kind:ident $entry:ident(
        $($argument:ident: $type:ty $(as $raw:ty)?),*
    ) $(-> $value:ty)?;)*) => {
        impl Driver {
            $(calls! {
                @$kind $entry [$($argument: $type),*] [$($argument $(as $raw)?),*] [$($value)?]
                $(#[$note])*
            })*
        }
    };
    (@safe $entry:ident [$($argument:tt)*] [$($given:expr),*] [] $(#[$note:meta])*) => {
        $(#[$note])*
        pub fn $entry(&self, $($argument)*) -> Result<(), CuResult> {
            call!(self.$entry($($given),*)).ok()
        }
    };
    (@unsafe $entry:ident [$($argument:tt)*] [$($given:expr),*] [] $(#[$note:meta])*) => {
        $(#[$note])*
        pub unsafe fn $entry(&self, $($argument)*) -> Result<(), CuResult> {
            call!(self.$entry($($given),*)).ok()
        }
    };
    (@safe $entry:ident [$($argument:tt)*] [$($given:expr),*] [$value:ty] $(#[$note:meta])*) => {
        $(#[$note])*
        pub fn $entry(&self, $($argument)*) -> Result<$value, CuResult> {
            let mut value = MaybeUninit::<$value>::uninit();
            call!(self.$entry(value.as_mut_ptr() $(, $given)*)).ok()?;
            // SAFETY: the entry succeeded, so it has written the value.
            Ok(unsafe { value.assume_init() })
        }
    };
}

/// The whole driver.
impl Driver {
    /// Initialises the driver; again does nothing.
    pub fn init(&self) -> Result<(), CuResult> {
        call!(self.init(0)).ok()
    }

    /// A code with its name.
    pub fn named(&self, code: CuResult) -> Named<'_> {
        Named(self, code)
    }

    /// The driver's name of a code; None if it does not know it.
    pub fn error_name(&self, code: CuResult) -> Option<&'static str> {
        let mut name = ptr::null();
        // SAFETY: the entry writes NULL or a static string.
        unsafe {
            (self.entries.get_error_name)(code, &mut name).ok().ok()?;
            if name.is_null() { None } else { CStr::from_ptr(name).to_str().ok() }
        }
    }
}

calls! {
    /// As [`Driver::version`], from the driver itself.
    safe driver_get_version() -> i32;

    /// Devices that CUDA_VISIBLE_DEVICES leaves. Neither this nor what follows about devices needs
    /// a context.
    safe device_get_count() -> i32;
    /// The device of this number.
    safe device_get(ordinal: i32) -> Device;
    /// A number about it.
    safe device_get_attribute(attribute: DeviceAttribute, device: Device) -> i32;
    /// The device's primary context, created if it has none; it stays until it is released as often
    /// as it was retained.
    safe device_primary_ctx_retain(device: Device) -> Context;
    /// Gives one retain back.
    ///
    /// # Safety
    /// Nothing that was made in the context is in use any more, unless somebody else retains it.
    unsafe device_primary_ctx_release(device: Device);

    /// The thread's current context; NULL if it has none.
    safe ctx_get_current() -> Context;
    /// Makes a context current, above the one that was.
    safe ctx_push_current(context: Context);
    /// Takes the current context off, and makes the one below current.
    safe ctx_pop_current() -> Context;
    /// The device of the current context.
    safe ctx_get_device() -> Device;

    /// Device memory, aligned to 256 bytes at least.
    safe mem_alloc(bytes: u64 as usize) -> DevicePointer;
    /// Gives device memory back; waits for the device.
    ///
    /// # Safety
    /// `block` is a result of `mem_alloc`, and nothing uses it after this call.
    unsafe mem_free(block: DevicePointer);
    /// Queues a copy to the device.
    ///
    /// # Safety
    /// `source` has `bytes` readable bytes that do not change until the copy has run; `target` has
    /// as many that nothing else in flight uses.
    unsafe memcpy_htod_async(
        target: DevicePointer, source: *const u8 as *const c_void, bytes: u64 as usize,
        stream: Stream
    );
    /// Queues a copy from the device.
    ///
    /// # Safety
    /// `target` has `bytes` writable bytes that nobody looks at until the copy has run; `source`
    /// has as many.
    unsafe memcpy_dtoh_async(
        target: *mut u8 as *mut c_void, source: DevicePointer, bytes: u64 as usize, stream: Stream
    );
    /// Queues a copy on the device.
    ///
    /// # Safety
    /// Both have `bytes` bytes, apart from each other, and nothing else in flight writes them.
    #[cfg(feature = "internals")]
    unsafe memcpy_dtod_async(
        target: DevicePointer, source: DevicePointer, bytes: u64 as usize, stream: Stream
    );
    /// Queues that `bytes` bytes become `value`.
    ///
    /// # Safety
    /// `target` has that many bytes that nothing else in flight uses.
    #[cfg(feature = "internals")]
    unsafe memset_d8_async(
        target: DevicePointer, value: u8, bytes: u64 as usize, stream: Stream
    );

    /// A stream. `flags`: STREAM_NON_BLOCKING; `priority` from the context's range.
    safe stream_create(flags: u32, priority: i32) -> Stream;
    /// Gives a stream back; its work still runs.
    ///
    /// # Safety
    /// Nobody uses the stream after this call.
    unsafe stream_destroy(stream: Stream);
    /// Waits until all work of the stream has run.
    safe stream_synchronize(stream: Stream);

    /// An event. `flags`: EVENT_.
    safe event_create(flags: u32) -> Event;
    /// Gives an event back; waits for it that are queued still hold.
    ///
    /// # Safety
    /// Nobody uses the event after this call.
    unsafe event_destroy(event: Event);
    /// The event now stands for all work that the stream has been given so far.
    safe event_record(event: Event, stream: Stream);
    /// Waits until what the event recorded last has run.
    safe event_synchronize(event: Event);
    /// Milliseconds between two events that have run and take the time.
    safe event_elapsed_time(first: Event, last: Event) -> f32;

    /// Gives a module back.
    ///
    /// # Safety
    /// None of its kernels runs or is launched again.
    unsafe module_unload(module: Module);
}

/// Devices, contexts and memory, if an entry's arguments are not the method's.
impl Driver {
    /// The name of a device: "NVIDIA H100 80GB HBM3".
    pub fn device_get_name(&self, device: Device) -> Result<Text<128>, CuResult> {
        let mut bytes = [0u8; 128];
        let room = bytes.len() as i32;
        call!(self.device_get_name(bytes.as_mut_ptr().cast::<c_char>(), room, device)).ok()?;
        let mut name = Text::new();
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or(c"");
        name.push_str(text.to_str().unwrap_or(""));
        Ok(name)
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

    /// Free bytes of the device, and all.
    pub fn mem_get_info(&self) -> Result<(u64, u64), CuResult> {
        let (mut free, mut total) = (0usize, 0usize);
        call!(self.mem_get_info(&mut free, &mut total)).ok()?;
        Ok((free as u64, total as u64))
    }

    /// Pinned host memory, aligned to a page. `flags`: MEM_HOST_.
    pub fn mem_host_alloc(&self, bytes: u64, flags: u32) -> Result<NonNull<u8>, CuResult> {
        let mut block = ptr::null_mut();
        call!(self.mem_host_alloc(&mut block, bytes as usize, flags)).ok()?;
        NonNull::new(block.cast()).ok_or(CuResult::OUT_OF_MEMORY)
    }

    /// Gives pinned memory back.
    ///
    /// # Safety
    /// `block` is what `mem_host_alloc` gave, and neither the host nor queued work uses it.
    pub unsafe fn mem_free_host(&self, block: NonNull<u8>) -> Result<(), CuResult> {
        call!(self.mem_free_host(block.as_ptr().cast())).ok()
    }

    /// Pins memory of the host that is there.
    ///
    /// # Safety
    /// The memory stays until `mem_host_unregister` has returned.
    pub unsafe fn mem_host_register(&self, place: Region, flags: u32) -> Result<(), CuResult> {
        let bytes = place.bytes() as usize;
        call!(self.mem_host_register(place.as_ptr().cast(), bytes, flags)).ok()
    }

    /// Ends that.
    ///
    /// # Safety
    /// `first` is the start of memory that was registered, and no queued work uses it.
    pub unsafe fn mem_host_unregister(&self, first: NonNull<u8>) -> Result<(), CuResult> {
        call!(self.mem_host_unregister(first.as_ptr().cast())).ok()
    }

    /// Copies from the device, and waits for it.
    #[cfg(feature = "internals")]
    pub fn memcpy_dtoh(&self, target: &mut [u8], source: DevicePointer) -> Result<(), CuResult> {
        call!(self.memcpy_dtoh(target.as_mut_ptr().cast(), source, target.len())).ok()
    }
}

/// Streams and events, likewise.
impl Driver {
    /// Whether all work of the stream has run.
    pub fn stream_query(&self, stream: Stream) -> Result<bool, CuResult> {
        call!(self.stream_query(stream)).is_done()
    }

    /// Work that is queued in `stream` after this call waits for the last record of `event`.
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

    /// The context of a stream; None if the driver has no such entry.
    pub fn stream_get_ctx(&self, stream: Stream) -> Result<Option<Context>, CuResult> {
        let Some(entry) = self.entries.stream_get_ctx else { return Ok(None) };
        let mut context = Context::NULL;
        // SAFETY: the stream lives; the entry writes its context.
        unsafe { entry(stream, &mut context) }.ok()?;
        Ok(Some(context))
    }

    /// A number about an address; None if it is no memory that the driver knows.
    pub fn pointer_get_attribute(
        &self,
        attribute: PointerAttribute,
        pointer: DevicePointer,
    ) -> Result<Option<u32>, CuResult> {
        let mut value = 0u32;
        // The entry writes 4 bytes for these attributes.
        match call!(self.pointer_get_attribute((&raw mut value).cast(), attribute, pointer)).ok() {
            Err(CuResult::INVALID_VALUE) => Ok(None),
            asked => asked.map(|()| Some(value)),
        }
    }

    /// Whether what the event recorded last has run; true for one that recorded nothing.
    pub fn event_query(&self, event: Event) -> Result<bool, CuResult> {
        call!(self.event_query(event)).is_done()
    }
}

/// Kernels, likewise.
impl Driver {
    /// Loads PTX into the current context. The error texts of its compiler go to `log`.
    pub fn module_load(&self, ptx: &CStr, log: &mut [u8]) -> Result<Module, CuResult> {
        let mut names = [JitOption::ERROR_LOG_BUFFER, JitOption::ERROR_LOG_BUFFER_SIZE_BYTES];
        let room = ptr::without_provenance_mut::<c_void>(log.len());
        let mut values = [log.as_mut_ptr().cast::<c_void>(), room];
        let (count, image) = (names.len() as u32, ptx.as_ptr().cast());
        let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
        let mut module = Module::NULL;
        call!(self.module_load_data_ex(&mut module, image, count, names, values)).ok()?;
        Ok(module)
    }

    /// A kernel by its name.
    pub fn module_get_function(&self, module: Module, name: &CStr) -> Result<Function, CuResult> {
        let mut function = Function::NULL;
        call!(self.module_get_function(&mut function, module, name.as_ptr())).ok()?;
        Ok(function)
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
        let (places, none) = (parameters.as_mut_ptr(), ptr::null_mut());
        call!(self.launch_kernel(
            function,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            shared_bytes,
            stream,
            places,
            none
        ))
        .ok()
    }
}
