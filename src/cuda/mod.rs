//! The CUDA driver: our own table of entries of libcuda.so.1, opened when it is asked for.
//!
//! In: the path of a driver, the number of a device. Out: a [`Driver`] whose methods are its calls,
//! a [`DeviceContext`] to make them in, and statuses with texts that say what to install or to
//! change. Invariant: nothing in this room needs a CUDA library to build, link or run, and none of
//! its calls changes a thread's context or capture mode.
//!
//! ```text
//!  library   finds and keeps drivers      entries  what each of them exports
//!  driver    a method per entry           handles  the types that they take
//!  device    which device and context     context  pushed and popped
//!  module    kernels from PTX             result   codes; fault: what fails
//!  engine    a loader's share of a device; made and given back by make; launch: slabs and waves;
//!            fences: slots that wait; digests: slots that are read
//!  registered  memory of others that is pinned
//! ```
//!
//! The declarations are our own because the codes of a newer driver are no values of an older
//! binding's enumeration: every code and every option is a plain number.

pub mod context;
pub mod device;
pub mod digests;
pub mod driver;
pub mod engine;
// A table of the driver's, which tests hold against cuda-sys whole: no build uses all of it.
#[cfg_attr(not(feature = "internals"), allow(dead_code))]
pub mod entries;
mod fault;
mod fences;
#[cfg_attr(not(feature = "internals"), allow(dead_code))] // likewise
pub mod handles;
pub mod kernels;
mod launch;
pub mod library;
mod make;
pub mod module;
pub mod registered;
#[cfg_attr(not(feature = "internals"), allow(dead_code))] // likewise
pub mod result;

/// Marks everything that only a device has. A library that was made for the host alone has no value
/// of this type, so the compiler leaves out what is done with such things.
#[cfg(not(wavetrain_host_only))]
pub type Devices = ();
#[cfg(wavetrain_host_only)]
pub type Devices = core::convert::Infallible;

/// The value of that type, if it has one.
#[cfg(not(wavetrain_host_only))]
pub const DEVICES: Option<Devices> = Some(());
#[cfg(wavetrain_host_only)]
pub const DEVICES: Option<Devices> = None;

/// Whether the library can use a device.
pub const HAS_DEVICES: bool = DEVICES.is_some();

/// Why a library that was made for the host alone has no device.
pub const HOST_ONLY: &str = "made without CUDA";

pub use device::DeviceContext;
pub use driver::Driver;
pub use engine::{
    DeviceEngine, Fences, NO_FENCES, PASSES_MAX, Pass, RESIDENT_WAVES, SLABS_MAX, Sizes, Submit,
};
pub use fault::Fault;
pub use fences::Flaw;
pub use handles::{Event, Stream};
pub use library::DriverPath;
pub use make::{Consumer, Texts};
