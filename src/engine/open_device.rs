//! What opening takes of a device.
//!
//! In: settings and geometry. Out: lines of the bill, an engine, the batch slots in its memory. On
//! the host there is none of it but the slots.

use crate::base::arena::{Bill, Carver, Kind, Region, Table};
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::status::{Status, Why};
use crate::cuda::{Consumer, DeviceContext, DeviceEngine, Driver, RESIDENT_WAVES};
use crate::setup::geometry::Geometry;
use crate::setup::settings::Settings;
use crate::state::lift::Tiles;

/// Adds pinned and device memory to a bill.
pub fn add_device_lines(bill: &mut Bill, settings: &Settings, geometry: &Geometry) {
    if !settings.is_cuda() {
        return;
    }
    let sizes = settings.device_sizes(&geometry.device);
    bill.add("pinned slabs", Kind::Pinned, sizes.pinned_bytes());
    bill.add("batch slots", Kind::Device, sizes.slots_bytes);
    bill.add("resident waves", Kind::Device, sizes.wave_bytes * RESIDENT_WAVES as u64);
    bill.add("rounding", Kind::Device, sizes.rest_bytes());
}

/// Takes what batches on a device need; nothing on the host.
#[inline(never)] // what it makes on the way is not to stand on the stack of all that follows
pub fn open_engine(
    settings: &Settings,
    geometry: &Geometry,
    engine: &mut Option<DeviceEngine>,
    why: &mut Why,
) -> Result<(), Status> {
    if !settings.is_cuda() {
        return Ok(());
    }
    let config = &settings.config;
    let driver = Driver::load(config.cuda_driver, why)?;
    let context = DeviceContext::open(driver, config.device, why)?;
    let sizes = settings.device_sizes(&geometry.device);
    *engine = Some(DeviceEngine::open(context, &sizes, Consumer(config.consumer_stream), why)?);
    Ok(())
}

/// The batch slots: of the engine, else of the host.
pub fn carve_batches(
    carver: &mut Carver,
    settings: &Settings,
    engine: Option<&DeviceEngine>,
) -> Region {
    match engine {
        Some(engine) => engine.batches(),
        None => carver.region("batch slots", settings.host_slots_bytes(), MEMORY_PAGE_BYTES),
    }
}

/// A row for each unit of every slab.
pub fn carve_tiles(carver: &mut Carver, settings: &Settings, geometry: &Geometry) -> Table<Tiles> {
    let slabs = if settings.is_cuda() { u64::from(settings.config.host_buffer_waves) } else { 0 };
    let rows = slabs * u64::from(geometry.device.units);
    carver.table("device waves", rows, &Tiles::default())
}
