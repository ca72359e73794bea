//! The resources that open takes of a device.
//!
//! In: settings and geometry. Out: lines of the bill, an engine, the batch slots in its memory. The
//! host has only the slots. The text of the kernels is unpacked into the common scratch, which no
//! chunk has before open returns, and the driver keeps none of it.

use crate::base::arena::{Carver, Region, Table};
use crate::base::bill::{Bill, Item, Kind};
use crate::base::status::{Status, Why};
use crate::cuda::kernels::{ASSEMBLE, DIGEST, Kernel, LZ4, ZSTD};
use crate::cuda::{
    Consumer, DeviceContext, DeviceEngine, Driver, Fences, NO_FENCES, RESIDENT_WAVES, Texts,
};
use crate::decode::inflate::Inflater;
use crate::fail;
use crate::setup::geometry::Geometry;
use crate::setup::settings::Settings;
use crate::state::slab_writer::{StreamRow, Tiles};
use core::ffi::CStr;

/// Adds pinned and device memory to a bill.
pub fn add_device_lines(bill: &mut Bill, settings: &Settings, geometry: &Geometry) {
    if !settings.is_cuda() {
        return;
    }
    let sizes = settings.device_sizes(&geometry.device, geometry.slab_bytes);
    // Shares of digests follow the staging.
    let slabs_bytes = sizes.pinned_bytes() - sizes.staging_bytes;
    bill.add(Item::PinnedSlabs, Kind::Pinned, slabs_bytes);
    bill.add(Item::StagingSlabs, Kind::Pinned, sizes.staging_bytes);
    bill.add(Item::BatchSlots, Kind::Device, sizes.slots_bytes);
    let waves = RESIDENT_WAVES as u64;
    bill.add(Item::ResidentWaves, Kind::Device, sizes.wave_bytes * waves);
    if sizes.streams > 0 {
        bill.add(
            Item::DecodedWaves,
            Kind::Device,
            sizes.decoded_bytes * waves + sizes.scratch_bytes,
        );
    }
    bill.add(Item::Rounding, Kind::Device, sizes.rest_bytes());
}

/// Takes what batches on a device need; nothing on the host.
#[inline(never)] // what it makes on the way is not to stand on the stack of all that follows
pub fn open_engine(
    settings: &Settings,
    geometry: &Geometry,
    scratch: &mut [u8],
    engine: (&mut Option<DeviceEngine>, &'static mut [Fences]),
    why: &mut Why,
) -> Result<(), Status> {
    if !settings.is_cuda() {
        return Ok(());
    }
    let (assemble, rest) = unpack(&ASSEMBLE, scratch, why)?;
    let (mut digest, mut decode, mut frames, mut rest) = (None, None, None, rest);
    if settings.per_sample.digests > 0 {
        (digest, rest) = unpack(&DIGEST, rest, why).map(|(text, rest)| (Some(text), rest))?;
    }
    if geometry.device.streams > 0 {
        (decode, rest) = unpack(&LZ4, rest, why).map(|(text, rest)| (Some(text), rest))?;
    }
    if geometry.device.scratch_bytes > 0 {
        frames = Some(unpack(&ZSTD, rest, why)?.0);
    }
    let config = &settings.config;
    let driver = Driver::load(config.cuda_driver, why)?;
    let context = DeviceContext::open(driver, config.device, why)?;
    let sizes = settings.device_sizes(&geometry.device, geometry.slab_bytes);
    let texts = Texts { assemble, decode, frames, digest };
    let consumer = Consumer(config.consumer_stream);
    DeviceEngine::open(engine, context, &sizes, consumer, texts, why)
}

/// The text of a kernel, at the front of `room`, and what is left of that. INTERNAL if the
/// library's bytes are not those that were built.
#[inline(never)] // the inflater's 11 KB are not to stand on the stack while the driver compiles
fn unpack<'a>(
    kernel: &Kernel,
    room: &'a mut [u8],
    why: &mut Why,
) -> Result<(&'a CStr, &'a mut [u8]), Status> {
    let mut cause = Why::new();
    let limit = room.len().saturating_sub(1);
    let unpacked = Inflater::new().zlib(kernel.packed, &mut room[..limit], &mut cause);
    let text = unpacked.ok().and_then(|bytes| {
        *room.get_mut(bytes)? = 0;
        let (text, rest) = room.split_at_mut_checked(bytes + 1)?;
        Some((CStr::from_bytes_with_nul(text).ok()?, rest))
    });
    text.ok_or_else(|| {
        let name = kernel.entry.to_str().unwrap_or("");
        fail!(why, Internal, "kernel {name} does not unpack, the library is damaged: {cause}")
    })
}

/// The fences of all slots, which the engine is made with.
pub fn carve_fences(carver: &mut Carver, settings: &Settings) -> &'static mut [Fences] {
    let slots = if settings.is_cuda() { settings.config.n_batch_slots } else { 0 };
    carver.slice(Item::DeviceWaves, u64::from(slots), &NO_FENCES)
}

/// The batch slots: of the engine, else of the host.
pub fn carve_batches(
    carver: &mut Carver,
    settings: &Settings,
    (engine, shared): (Option<&DeviceEngine>, Option<Region>),
) -> Region {
    match engine {
        Some(engine) => engine.batches(),
        None if settings.share.is_shared() => shared.unwrap_or(Region::of(&mut [])),
        // Counted: not even what the host would align is taken.
        None if settings.is_cuda() => Region::of(&mut []),
        None => carver.region(Item::BatchSlots, settings.host_slots_bytes()),
    }
}

/// The memory in which encoded chunks are staged, whoever decodes them: pinned memory of the
/// engine, else plain memory of the host.
pub fn carve_staging(
    carver: &mut Carver,
    settings: &Settings,
    geometry: &Geometry,
    engine: Option<&DeviceEngine>,
) -> Region {
    let bytes = settings.plain_staging_bytes(geometry);
    match engine {
        Some(engine) => engine.staging(),
        None if settings.is_cuda() => Region::of(&mut []),
        None => carver.region(Item::StagingSlabs, bytes),
    }
}

/// A row for each unit, and one for each stream, of every slab.
pub fn carve_rows(
    carver: &mut Carver,
    settings: &Settings,
    geometry: &Geometry,
) -> (Table<Tiles>, Table<StreamRow>) {
    let slabs = if settings.is_cuda() { u64::from(settings.config.host_buffer_waves) } else { 0 };
    let rows = |each: u32| slabs * u64::from(each);
    (
        carver.table(Item::DeviceWaves, rows(geometry.device.units), &Tiles::default()),
        carver.table(Item::DeviceWaves, rows(geometry.device.streams), &StreamRow::default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::METADATA_BYTES_MAX;
    use std::string::{String, ToString};

    fn unpacked(packed: &'static [u8], room: usize) -> Result<usize, String> {
        let (mut room, mut why) = (std::vec![0xA5; room], Why::new());
        let text = unpack(&Kernel { packed, ..ASSEMBLE }, &mut room, &mut why);
        text.map(|(text, _)| text.count_bytes()).map_err(|status| {
            assert_eq!(status, Status::Internal);
            why.to_string()
        })
    }

    #[test]
    fn a_kernel_unpacks_into_what_its_text_takes_with_a_nul() {
        let bytes = unpacked(ASSEMBLE.packed, METADATA_BYTES_MAX).unwrap();
        assert_eq!(unpacked(ASSEMBLE.packed, bytes + 1), Ok(bytes));
        assert!(unpacked(ASSEMBLE.packed, bytes).unwrap_err().contains("holds more than"));
    }

    #[test]
    fn a_kernel_that_does_not_unpack_is_named() {
        let cut = &ASSEMBLE.packed[..ASSEMBLE.packed.len() - 1];
        let text = unpacked(cut, METADATA_BYTES_MAX).unwrap_err();
        assert!(text.starts_with("kernel wavetrain_assemble does not unpack"), "{text}");
        assert!(text.contains("cut in its checksum"), "{text}");
    }

    #[test]
    fn a_text_with_a_nul_in_it_is_refused() {
        // zlib.compress(b"a\0b")
        let packed = &[0x78, 0x9C, 0x4B, 0x64, 0x48, 0x02, 0x00, 0x01, 0x88, 0x00, 0xC4];
        assert!(unpacked(packed, 100).unwrap_err().contains("damaged"));
    }
}
