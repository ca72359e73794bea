//! Which device, and in which of its contexts.
//!
//! In: `device` of the config, on the thread that opens. Out: a [`DeviceContext`]: a device that
//! can run our kernels, and either the context that was current, which stays its owner's, or the
//! device's primary one, retained. Invariant: a device that the config does not name is not taken.

use crate::base::status::{Status, Why};
use crate::base::text::Text;
use crate::cuda::context::Entered;
use crate::cuda::driver::Driver;
use crate::cuda::fault::Fault;
use crate::cuda::handles::{Context, Device, DeviceAttribute};
use crate::cuda::result::CuResult;
use crate::fail;
use crate::os::{Os, numa};
use core::fmt;

/// `device`: the current context, and the device that it is of.
pub const CURRENT: i32 = -1;

/// Oldest compute capability: what our PTX is for.
pub const CAPABILITY_MIN: (i32, i32) = (8, 0);

/// A device and the context that we work in.
#[derive(Clone, Copy)]
pub struct DeviceContext {
    /// The driver.
    pub driver: &'static Driver,
    /// The device.
    pub device: Device,
    /// The context that everything of ours is made in.
    pub context: Context,
    /// Whether the primary context was retained, rather than the caller's current one captured.
    pub is_retained: bool,
}

/// The name of the device that the config's `device` names, if it would do. Nothing is retained.
/// None, with the reason in `why`, if it is that of the current context and no context is current.
pub fn find(
    driver: &'static Driver,
    device: i32,
    why: &mut Why,
) -> Result<Option<Text<128>>, Status> {
    Ok(chosen(driver, device, why)?.map(|(chosen, _)| name_of(driver, chosen)))
}

/// The NUMA node of the host next to the device that the config's `device` names. The driver knows
/// it, or else the system by the device's PCI address, of which sysfs has the first function.
pub fn host_node(os: &Os, driver: &'static Driver, device: i32) -> Option<u32> {
    let chosen = chosen(driver, device, &mut Why::new()).ok()??.0;
    let ask = |attribute| driver.device_get_attribute(attribute, chosen).ok();
    let told = ask(DeviceAttribute::HOST_NUMA_ID).and_then(|node| u32::try_from(node).ok());
    if told.is_some() {
        return told;
    }
    let domain = ask(DeviceAttribute::PCI_DOMAIN_ID)?;
    let (bus, number) = (ask(DeviceAttribute::PCI_BUS_ID)?, ask(DeviceAttribute::PCI_DEVICE_ID)?);
    let mut address = Text::<40>::new();
    write!(address, "{domain:04x}:{bus:02x}:{number:02x}.0");
    numa::node_of_pci(os, address.as_str())
}

/// The device that the config's `device` names, which can run our kernels, and the context that is
/// current. None as for [`find`].
#[inline(never)] // its texts are there once
fn chosen(
    driver: &'static Driver,
    device: i32,
    why: &mut Why,
) -> Result<Option<(Device, Context)>, Status> {
    let current = driver
        .ctx_get_current()
        .map_err(|code| fail!(why, Cuda, "cuCtxGetCurrent returned {}", driver.named(code)))?;
    let current_device = if current.is_null() {
        None
    } else {
        Some(driver.ctx_get_device().map_err(|code| {
            let named = driver.named(code);
            fail!(
                why,
                Cuda,
                "device: the current context is broken: cuCtxGetDevice returned {named}"
            )
        })?)
    };
    let Some(chosen) = choose(driver, device, current_device, why)? else { return Ok(None) };
    check_capability(driver, chosen, why)?;
    check_addressing(driver, chosen, why)?;
    Ok(Some((chosen, current)))
}

impl DeviceContext {
    /// The device that the config's `device` names, [`CURRENT`] or a number, and its context.
    pub fn open(
        driver: &'static Driver,
        device: i32,
        why: &mut Why,
    ) -> Result<DeviceContext, Status> {
        let Some((chosen, current)) = chosen(driver, device, why)? else {
            return Err(Status::Invalid);
        };
        let is_retained = device != CURRENT;
        let mut opened = DeviceContext { driver, device: chosen, context: current, is_retained };
        if !is_retained {
            return Ok(opened);
        }
        opened.context = driver.device_primary_ctx_retain(chosen).map_err(|code| {
            let (name, named) = (NameOf(driver, chosen), driver.named(code));
            let call = "no context to be had: cuDevicePrimaryCtxRetain";
            why.fail(code.status(), format_args!("{name}: {call} returned {named}"))
        })?;
        if !current.is_null() && current != opened.context {
            // SAFETY: nothing was made in it by us.
            let _ = unsafe { opened.close() };
            return Err(fail!(
                why,
                Invalid,
                "device = {device}, but the current context is another one than its primary: leave \
                 device at -1 to stream into the current one, or make the primary one current"
            ));
        }
        Ok(opened)
    }

    /// Makes the context current on this thread until the result is dropped.
    pub fn enter(&self) -> Result<Entered, Fault> {
        Entered::new(self.driver, self.context)
    }

    /// Its name, or "a device without a name" if the driver does not name it.
    pub fn name(&self) -> Text<128> {
        name_of(self.driver, self.device)
    }

    /// Gives the context back if it was retained.
    ///
    /// # Safety
    /// Nothing that was made in it for this is in use any more, and `self` and its copies are not
    /// used again.
    pub unsafe fn close(self) -> Result<(), CuResult> {
        if !self.is_retained {
            return Ok(());
        }
        // SAFETY: this is the retain of open, and the caller says that nothing of it is in use.
        unsafe { self.driver.device_primary_ctx_release(self.device) }
    }
}

/// The device of a config and of the current context, if one is current. None as for [`find`].
fn choose(
    driver: &Driver,
    device: i32,
    current: Option<Device>,
    why: &mut Why,
) -> Result<Option<Device>, Status> {
    if device < CURRENT {
        return Err(fail!(why, Invalid, "device = {device}: must be -1 or the number of a device"));
    }
    match current {
        Some(current) if device == CURRENT => return Ok(Some(current)),
        Some(Device(current)) if device != current => {
            return Err(fail!(
                why,
                Invalid,
                "device = {device}, but the current context is of device {current}: leave device \
                 at -1, or make a context of device {device} or none current before open"
            ));
        }
        _ => {}
    }
    let count = driver
        .device_get_count()
        .map_err(|code| fail!(why, Cuda, "cuDeviceGetCount returned {}", driver.named(code)))?;
    let look = "look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    if count <= 0 {
        return Err(fail!(why, Cuda, "there is no CUDA device: {look}, or set backend = host"));
    }
    if device == CURRENT {
        // Device 0 in its place would be that of every process of a node.
        let lack = "but this thread has no current context: make one current before open, or set";
        why.fail(Status::Invalid, format_args!("device = -1, {lack} device = 0 (of {count})"));
        return Ok(None);
    }
    if device >= count {
        let there = format_args!("there are {count} devices, from 0 on: {look}");
        return Err(fail!(why, Invalid, "device = {device}: {there}"));
    }
    let found = driver.device_get(device).map_err(|code| {
        fail!(why, Cuda, "device = {device}: cuDeviceGet returned {}", driver.named(code))
    })?;
    Ok(Some(found))
}

/// A number about a device.
fn attribute(
    driver: &Driver,
    device: Device,
    attribute: DeviceAttribute,
    why: &mut Why,
) -> Result<i32, Status> {
    driver.device_get_attribute(attribute, device).map_err(|code| {
        let name = name_of(driver, device);
        fail!(why, Cuda, "{name}: cuDeviceGetAttribute returned {}", driver.named(code))
    })
}

fn check_capability(driver: &Driver, device: Device, why: &mut Why) -> Result<(), Status> {
    let major = attribute(driver, device, DeviceAttribute::COMPUTE_CAPABILITY_MAJOR, why)?;
    let minor = attribute(driver, device, DeviceAttribute::COMPUTE_CAPABILITY_MINOR, why)?;
    if (major, minor) < CAPABILITY_MIN {
        let name = NameOf(driver, device);
        return Err(fail!(
            why,
            Unsupported,
            "{name} has compute capability {major}.{minor}: 8.0 (Ampere) is the oldest that will \
             do: choose another device, or set backend = host"
        ));
    }
    Ok(())
}

/// Kernels write into pinned memory of the host by the host's own addresses.
fn check_addressing(driver: &Driver, device: Device, why: &mut Why) -> Result<(), Status> {
    let asked = [
        (DeviceAttribute::UNIFIED_ADDRESSING, "does not share the host's addresses"),
        (DeviceAttribute::CAN_MAP_HOST_MEMORY, "cannot use memory of the host"),
    ];
    for (each, lack) in asked {
        if attribute(driver, device, each, why)? == 0 {
            let name = NameOf(driver, device);
            return Err(fail!(
                why,
                Unsupported,
                "{name} {lack}, which every device does on 64-bit Linux, unless it is lent in \
                 parts: choose another device, or set backend = host"
            ));
        }
    }
    Ok(())
}

/// A device as an error text shows it.
struct NameOf<'a>(&'a Driver, Device);

impl fmt::Display for NameOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} ({})", self.1.0, name_of(self.0, self.1))
    }
}

fn name_of(driver: &Driver, device: Device) -> Text<128> {
    driver.device_get_name(device).unwrap_or_else(|_| {
        let mut name = Text::new();
        name.push_str("a device without a name");
        name
    })
}
