//! What the driver's entries take: handles, device addresses and numbered options.
//!
//! Handles are the driver's own words. They are made by the methods of `Driver` alone, or by
//! `from_raw` where one comes from the caller, so whoever holds one holds a real one until it is
//! given back, and the methods that give back are unsafe for that reason.

use core::ffi::c_void;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(*mut c_void);

        // SAFETY: the driver's handles name things of the process, and its calls may be made from
        // any thread.
        unsafe impl Send for $name {}
        // SAFETY: the driver locks for itself where several threads use one handle.
        unsafe impl Sync for $name {}

        impl $name {
            /// No handle.
            pub const NULL: $name = $name(core::ptr::null_mut());

            /// A handle that somebody else made.
            ///
            /// # Safety
            /// NULL, or one that the loaded driver gave out, and that lives as long as this.
            pub const unsafe fn from_raw(raw: *mut c_void) -> $name {
                $name(raw)
            }

            /// The driver's word.
            pub const fn as_raw(self) -> *mut c_void {
                self.0
            }

            /// Whether there is none.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }
    )*};
}

handles! {
    /// `CUcontext`: a process's state on one device. NULL: none is current.
    Context;
    /// `CUstream`: work in order. NULL: the legacy default stream.
    Stream;
    /// `CUevent`: a place in a stream.
    Event;
    /// `CUmodule`: loaded kernels.
    Module;
    /// `CUfunction`: a kernel.
    Function;
}

impl Stream {
    /// The legacy default stream by its own name, as DLPack's 1 means it.
    pub const LEGACY: Stream = Stream(core::ptr::without_provenance_mut(1));
    /// The calling thread's default stream, as DLPack's 2 means it.
    pub const PER_THREAD: Stream = Stream(core::ptr::without_provenance_mut(2));
}

/// `CUdevice`: the number of a device, counted from 0.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device(pub i32);

/// `CUdeviceptr`: an address in device memory.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// No memory.
    pub const NULL: DevicePointer = DevicePointer(0);

    /// The address `bytes` further on, in the same block.
    pub const fn at(self, bytes: u64) -> DevicePointer {
        DevicePointer(self.0 + bytes)
    }
}

macro_rules! options {
    ($(
        $(#[$doc:meta])*
        $kind:ident { $($(#[$note:meta])* $name:ident = $value:literal;)* }
    )*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $kind(pub u32);

        impl $kind {
            $($(#[$note])* pub const $name: $kind = $kind($value);)*
        }
    )*};
}

options! {
    /// `CUdevice_attribute`: what `device_get_attribute` is asked.
    DeviceAttribute {
        /// Whether its kernels can use memory of the host.
        CAN_MAP_HOST_MEMORY = 19;
        /// Number of its bus on PCI.
        PCI_BUS_ID = 33;
        /// Number of it on the bus.
        PCI_DEVICE_ID = 34;
        /// Whether host and device share one space of addresses.
        UNIFIED_ADDRESSING = 41;
        /// Number of the domain of its bus.
        PCI_DOMAIN_ID = 50;
        /// Compute capability, before the dot.
        COMPUTE_CAPABILITY_MAJOR = 75;
        /// Compute capability, behind the dot.
        COMPUTE_CAPABILITY_MINOR = 76;
        /// NUMA node of the host that is closest to it, -1 if there is none. From driver 12.2 on.
        HOST_NUMA_ID = 134;
    }
    /// `CUpointer_attribute`: what `pointer_get_attribute` is asked.
    PointerAttribute {
        /// What kind of memory it is.
        MEMORY_TYPE = 2;
        /// Whose.
        DEVICE_ORDINAL = 9;
    }
    /// `CUstreamCaptureMode`: which calls a capture elsewhere in the process forbids this thread.
    CaptureMode {
        /// Those that are unsafe, if any thread captures in this mode.
        GLOBAL = 0;
        /// Those that are unsafe, if this thread captures.
        THREAD_LOCAL = 1;
        /// None.
        RELAXED = 2;
    }
    /// `CUjit_option`: names of the options of `module_load_data_ex`.
    JitOption {
        /// Where errors go.
        ERROR_LOG_BUFFER = 5;
        /// Its bytes; comes back as the bytes written.
        ERROR_LOG_BUFFER_SIZE_BYTES = 6;
    }
}

/// `CU_STREAM_DEFAULT`: a stream that the legacy default stream orders.
pub const STREAM_DEFAULT: u32 = 0;
/// `CU_STREAM_NON_BLOCKING`: a stream that the legacy default stream does not order.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DEFAULT`: an event that takes the time.
pub const EVENT_DEFAULT: u32 = 0;
/// `CU_EVENT_DISABLE_TIMING`: an event that does not, and costs less.
pub const EVENT_DISABLE_TIMING: u32 = 2;
/// `CU_MEMORYTYPE_DEVICE`: the answer to `PointerAttribute::MEMORY_TYPE` of memory of a device.
pub const MEMORY_OF_DEVICE: u32 = 2;
/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context of the process.
pub const MEM_HOST_PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP`: kernels can use it, too.
pub const MEM_HOST_DEVICE_MAP: u32 = 2;
/// Bytes of shared memory that a launch may ask for without a call that allows more.
pub const SHARED_BYTES_MAX: u32 = 48 << 10;
