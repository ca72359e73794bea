//! The structs of DLPack, laid out as dlpack.h 1.x does, and how element types are spelt there.
//!
//! In: our element types. Out: what any consumer of DLPack reads. Invariant: layouts and numbers
//! are the DLPack ABI (https://dmlc.github.io/dlpack/latest/c_api.html) and never change.

use crate::records::Dtype;
use core::ffi::c_void;

/// What exports say of their layout. 1.0, because nothing of a later minor version is in them.
pub const VERSION: DlVersion = DlVersion { major: 1, minor: 0 };

/// `kDLCPU`: ordinary host memory.
pub const DEVICE_CPU: i32 = 1;
/// `kDLCUDA`: memory of a CUDA device.
pub const DEVICE_CUDA: i32 = 2;

/// `kDLInt`.
pub const CODE_INT: u8 = 0;
/// `kDLUInt`.
pub const CODE_UINT: u8 = 1;
/// `kDLFloat`.
pub const CODE_FLOAT: u8 = 2;
/// `kDLBfloat`.
pub const CODE_BFLOAT: u8 = 4;
/// `kDLComplex`.
pub const CODE_COMPLEX: u8 = 5;
/// `kDLBool`, of 8 bits.
pub const CODE_BOOL: u8 = 6;

/// In `flags`: the memory cannot be written.
pub const FLAG_READ_ONLY: u64 = 1;

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlVersion {
    /// Layouts of different majors differ.
    pub major: u32,
    /// Later minors add codes.
    pub minor: u32,
}

/// `DLDevice`: where data lies.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlDevice {
    /// DEVICE_CPU or DEVICE_CUDA.
    pub device_type: i32,
    /// Number of the device; 0 for the CPU.
    pub device_id: i32,
}

/// `DLDataType`: an element type.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlDataType {
    /// CODE_INT ..
    pub code: u8,
    /// Bits of an element, of a complex number both halves.
    pub bits: u8,
    /// Elements of a vector type: 1.
    pub lanes: u16,
}

/// `DLTensor`: where elements lie and how.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlTensor {
    /// First byte, aligned to 256.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: DlDevice,
    /// Axes.
    pub ndim: i32,
    /// Element type.
    pub dtype: DlDataType,
    /// Extent of each axis.
    pub shape: *mut i64,
    /// Elements from one to the next along each axis; never NULL here.
    pub strides: *mut i64,
    /// From `data` to the first element: 0.
    pub byte_offset: u64,
}

/// Ends the life of a versioned tensor.
pub type DeleteVersioned = unsafe extern "C" fn(tensor: *mut DlManagedTensorVersioned);
/// Ends the life of a legacy tensor.
pub type DeleteLegacy = unsafe extern "C" fn(tensor: *mut DlManagedTensor);

/// `DLManagedTensorVersioned`: what DLPack 1.0 and later exchange.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlManagedTensorVersioned {
    /// [`VERSION`].
    pub version: DlVersion,
    /// Nobody's: NULL.
    pub manager_ctx: *mut c_void,
    /// To be called once, on this struct, when the consumer is done.
    pub deleter: Option<DeleteVersioned>,
    /// [`FLAG_READ_ONLY`], or 0: not read-only, no copy.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DlTensor,
}

/// `DLManagedTensor`: what was exchanged before DLPack 1.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlManagedTensor {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// Nobody's: NULL.
    pub manager_ctx: *mut c_void,
    /// To be called once, on this struct, when the consumer is done.
    pub deleter: Option<DeleteLegacy>,
}

/// How DLPack spells an element type. A raw element is spelt as its bytes, on an axis of their own.
pub const fn data_type(dtype: Dtype) -> DlDataType {
    let (code, bytes) = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => (CODE_INT, dtype.bytes()),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (CODE_UINT, dtype.bytes()),
        Dtype::F16 | Dtype::F32 | Dtype::F64 => (CODE_FLOAT, dtype.bytes()),
        Dtype::Bf16 => (CODE_BFLOAT, dtype.bytes()),
        Dtype::C64 | Dtype::C128 => (CODE_COMPLEX, dtype.bytes()),
        Dtype::Bool => (CODE_BOOL, dtype.bytes()),
        Dtype::Raw => (CODE_UINT, 1),
    };
    DlDataType { code, bits: 8 * bytes as u8, lanes: 1 }
}
