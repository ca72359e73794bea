//! The entries of libcuda.so.1 that wavetrain calls, with the types that they have in cuda.h.
//!
//! In: a function that finds a symbol. Out: [`Entries`], every required one filled. Struct and
//! names are made from one list, so that a name and its type stand together.

use crate::cuda::handles::{
    Context, Device, DeviceAttribute, DevicePointer, Event, Function, JitOption, Module,
    PointerAttribute, Stream,
};
use crate::cuda::result::CuResult;
use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;

/// A symbol's name, and whether a driver without it is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryName {
    /// The symbol.
    pub name: &'static CStr,
    /// Whether every driver that is new enough has it.
    pub is_required: bool,
}

macro_rules! entries {
    (
        required { $($field:ident = $name:literal ($($argument:ty),*);)* }
        optional { $($newer:ident = $newer_name:literal ($($newer_argument:ty),*);)* }
    ) => {
        /// The entries by what they do. Those that may be missing are None then.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)] // the driver's manual has them by their symbols
        pub struct Entries {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> CuResult,)*
            $(pub $newer: Option<unsafe extern "C" fn($($newer_argument),*) -> CuResult>,)*
        }

        /// Every symbol with its NUL, in the order of the fields, in one text: a pointer to each
        /// would take a relocation.
        const SYMBOLS: &str = concat!($($name, "\0",)* $($newer_name, "\0",)*);
        const REQUIRED_COUNT: usize = [$($name),*].len();
    };
}

/// Every entry's name.
pub fn names() -> impl Iterator<Item = EntryName> {
    let symbols = SYMBOLS.split_inclusive('\0').enumerate();
    symbols.map(|(place, symbol)| EntryName {
        name: CStr::from_bytes_until_nul(symbol.as_bytes()).unwrap_or(c""),
        is_required: place < REQUIRED_COUNT,
    })
}

impl Entries {
    /// Asks `find` for every entry; Err is the name of the first required one that it has not.
    ///
    /// # Safety
    /// What `find` gives is NULL, or the function of that name of a CUDA driver that stays loaded.
    pub unsafe fn resolve(
        mut find: impl FnMut(&'static CStr) -> *mut c_void,
    ) -> Result<Entries, &'static CStr> {
        let mut found = [core::ptr::null_mut(); size_of::<Entries>() / size_of::<*mut c_void>()];
        for (place, EntryName { name, is_required }) in found.iter_mut().zip(names()) {
            *place = find(name);
            if is_required && place.is_null() {
                return Err(name);
            }
        }
        // SAFETY: the fields are pointers in the order of the names, and those that are required
        // are not NULL. A function of a name has the type that is declared for it: the driver's
        // interface never changes under a name, a changed one gets a new suffix.
        Ok(unsafe { transmute::<[*mut c_void; _], Entries>(found) })
    }
}

entries! {
    required {
        init = "cuInit"(u32);
        driver_get_version = "cuDriverGetVersion"(*mut i32);
        get_error_name = "cuGetErrorName"(CuResult, *mut *const c_char);
        device_get_count = "cuDeviceGetCount"(*mut i32);
        device_get = "cuDeviceGet"(*mut Device, i32);
        device_get_name = "cuDeviceGetName"(*mut c_char, i32, Device);
        device_get_attribute = "cuDeviceGetAttribute"(*mut i32, DeviceAttribute, Device);
        device_primary_ctx_retain = "cuDevicePrimaryCtxRetain"(*mut Context, Device);
        device_primary_ctx_release = "cuDevicePrimaryCtxRelease_v2"(Device);
        ctx_get_current = "cuCtxGetCurrent"(*mut Context);
        ctx_push_current = "cuCtxPushCurrent_v2"(Context);
        ctx_pop_current = "cuCtxPopCurrent_v2"(*mut Context);
        ctx_get_device = "cuCtxGetDevice"(*mut Device);
        ctx_get_stream_priority_range = "cuCtxGetStreamPriorityRange"(*mut i32, *mut i32);
        thread_exchange_stream_capture_mode = "cuThreadExchangeStreamCaptureMode"(*mut u32);
        mem_alloc = "cuMemAlloc_v2"(*mut DevicePointer, usize);
        mem_free = "cuMemFree_v2"(DevicePointer);
        mem_get_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
        mem_host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, u32);
        mem_free_host = "cuMemFreeHost"(*mut c_void);
        mem_host_register = "cuMemHostRegister_v2"(*mut c_void, usize, u32);
        mem_host_unregister = "cuMemHostUnregister"(*mut c_void);
        memcpy_htod_async = "cuMemcpyHtoDAsync_v2"(DevicePointer, *const c_void, usize, Stream);
        memcpy_dtoh_async = "cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePointer, usize, Stream);
        memcpy_dtod_async = "cuMemcpyDtoDAsync_v2"(DevicePointer, DevicePointer, usize, Stream);
        memcpy_dtoh = "cuMemcpyDtoH_v2"(*mut c_void, DevicePointer, usize);
        memset_d8_async = "cuMemsetD8Async"(DevicePointer, u8, usize, Stream);
        pointer_get_attribute =
            "cuPointerGetAttribute"(*mut c_void, PointerAttribute, DevicePointer);
        stream_create = "cuStreamCreateWithPriority"(*mut Stream, u32, i32);
        stream_destroy = "cuStreamDestroy_v2"(Stream);
        stream_query = "cuStreamQuery"(Stream);
        stream_synchronize = "cuStreamSynchronize"(Stream);
        stream_wait_event = "cuStreamWaitEvent"(Stream, Event, u32);
        stream_is_capturing = "cuStreamIsCapturing"(Stream, *mut u32);
        event_create = "cuEventCreate"(*mut Event, u32);
        event_destroy = "cuEventDestroy_v2"(Event);
        event_record = "cuEventRecord"(Event, Stream);
        event_query = "cuEventQuery"(Event);
        event_synchronize = "cuEventSynchronize"(Event);
        event_elapsed_time = "cuEventElapsedTime"(*mut f32, Event, Event);
        module_load_data_ex =
            "cuModuleLoadDataEx"(*mut Module, *const c_void, u32, *mut JitOption, *mut *mut c_void);
        module_unload = "cuModuleUnload"(Module);
        module_get_function = "cuModuleGetFunction"(*mut Function, Module, *const c_char);
        launch_kernel = "cuLaunchKernel"(
            Function, u32, u32, u32, u32, u32, u32, u32, Stream, *mut *mut c_void, *mut *mut c_void
        );
    }
    optional {
        stream_get_ctx = "cuStreamGetCtx"(Stream, *mut Context);
    }
}
