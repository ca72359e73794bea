//! The entries of libcuda.so.1 that wavetrain calls, with the types that they have in cuda.h.
//!
//! In: a function that finds a symbol. Out: [`Entries`], every required one filled. The table is
//! made from one list, so that a name, its type and whether it may be missing stand together.

// The type of a field says what its entry is, and a list of 42 is made by one macro.
#![allow(clippy::missing_transmute_annotations)]

use crate::cuda::handles::{
    Context, Device, DeviceAttribute, DevicePointer, Event, Function, JitOption, Module, Stream,
};
use crate::cuda::result::CuResult;
use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr::NonNull;

/// A symbol's name, and whether a driver without it is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryName {
    /// The symbol.
    pub name: &'static CStr,
    /// Whether every driver that is new enough has it.
    pub is_required: bool,
}

macro_rules! entries {
    ($($kind:ident $field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// The entries by what they do. Those that may be missing are None then.
        #[derive(Clone, Copy)]
        #[allow(missing_docs)] // the driver's manual has them by their symbols
        pub struct Entries {
            $(pub $field: entries!(@field $kind unsafe extern "C" fn($($argument),*) -> CuResult),)*
        }

        /// Every entry's name.
        pub const NAMES: &[EntryName] = &[
            $(EntryName { name: $name, is_required: entries!(@is_required $kind) },)*
        ];

        impl Entries {
            /// Asks `find` for every entry; Err is the name of the first required one that it does
            /// not have.
            ///
            /// # Safety
            /// What `find` gives is NULL, or the function of that name of a CUDA driver, which
            /// stays loaded.
            pub unsafe fn resolve(
                mut find: impl FnMut(&'static CStr) -> *mut c_void,
            ) -> Result<Entries, &'static CStr> {
                Ok(Entries { $($field: entries!(@find $kind find $name),)* })
            }
        }
    };
    (@field required $function:ty) => { $function };
    (@field optional $function:ty) => { Option<$function> };
    (@is_required required) => { true };
    (@is_required optional) => { false };
    (@find required $find:ident $name:literal) => {
        match NonNull::new($find($name)) {
            // SAFETY: a function of that name has the type that is declared for it: the driver's
            // interface never changes under a name, a changed one gets a new suffix.
            Some(found) => unsafe { transmute::<NonNull<c_void>, _>(found) },
            None => return Err($name),
        }
    };
    (@find optional $find:ident $name:literal) => {
        // SAFETY: as for a required one; NULL is None.
        unsafe { transmute::<*mut c_void, _>($find($name)) }
    };
}

entries! {
    required init = c"cuInit"(u32);
    required driver_get_version = c"cuDriverGetVersion"(*mut i32);
    required get_error_name = c"cuGetErrorName"(CuResult, *mut *const c_char);
    required device_get_count = c"cuDeviceGetCount"(*mut i32);
    required device_get = c"cuDeviceGet"(*mut Device, i32);
    required device_get_name = c"cuDeviceGetName"(*mut c_char, i32, Device);
    required device_get_attribute = c"cuDeviceGetAttribute"(*mut i32, DeviceAttribute, Device);
    required device_primary_ctx_retain = c"cuDevicePrimaryCtxRetain"(*mut Context, Device);
    required device_primary_ctx_release = c"cuDevicePrimaryCtxRelease_v2"(Device);
    required ctx_get_current = c"cuCtxGetCurrent"(*mut Context);
    required ctx_push_current = c"cuCtxPushCurrent_v2"(Context);
    required ctx_pop_current = c"cuCtxPopCurrent_v2"(*mut Context);
    required ctx_get_device = c"cuCtxGetDevice"(*mut Device);
    required ctx_get_stream_priority_range = c"cuCtxGetStreamPriorityRange"(*mut i32, *mut i32);
    required thread_exchange_stream_capture_mode = c"cuThreadExchangeStreamCaptureMode"(*mut u32);
    required mem_alloc = c"cuMemAlloc_v2"(*mut DevicePointer, usize);
    required mem_free = c"cuMemFree_v2"(DevicePointer);
    required mem_get_info = c"cuMemGetInfo_v2"(*mut usize, *mut usize);
    required mem_host_alloc = c"cuMemHostAlloc"(*mut *mut c_void, usize, u32);
    required mem_free_host = c"cuMemFreeHost"(*mut c_void);
    required memcpy_htod_async =
        c"cuMemcpyHtoDAsync_v2"(DevicePointer, *const c_void, usize, Stream);
    required memcpy_dtoh_async = c"cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePointer, usize, Stream);
    required memcpy_dtod_async =
        c"cuMemcpyDtoDAsync_v2"(DevicePointer, DevicePointer, usize, Stream);
    required memcpy_dtoh = c"cuMemcpyDtoH_v2"(*mut c_void, DevicePointer, usize);
    required memset_d8_async = c"cuMemsetD8Async"(DevicePointer, u8, usize, Stream);
    required stream_create_with_priority = c"cuStreamCreateWithPriority"(*mut Stream, u32, i32);
    required stream_destroy = c"cuStreamDestroy_v2"(Stream);
    required stream_query = c"cuStreamQuery"(Stream);
    required stream_synchronize = c"cuStreamSynchronize"(Stream);
    required stream_wait_event = c"cuStreamWaitEvent"(Stream, Event, u32);
    required stream_is_capturing = c"cuStreamIsCapturing"(Stream, *mut u32);
    optional stream_get_ctx = c"cuStreamGetCtx"(Stream, *mut Context);
    required event_create = c"cuEventCreate"(*mut Event, u32);
    required event_destroy = c"cuEventDestroy_v2"(Event);
    required event_record = c"cuEventRecord"(Event, Stream);
    required event_query = c"cuEventQuery"(Event);
    required event_synchronize = c"cuEventSynchronize"(Event);
    required event_elapsed_time = c"cuEventElapsedTime"(*mut f32, Event, Event);
    required module_load_data_ex =
        c"cuModuleLoadDataEx"(*mut Module, *const c_void, u32, *mut JitOption, *mut *mut c_void);
    required module_unload = c"cuModuleUnload"(Module);
    required module_get_function = c"cuModuleGetFunction"(*mut Function, Module, *const c_char);
    required launch_kernel = c"cuLaunchKernel"(
        Function, u32, u32, u32, u32, u32, u32, u32, Stream, *mut *mut c_void, *mut *mut c_void
    );
}
