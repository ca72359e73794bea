//! What a box is fed from, in Rust: a value, or memory that outlives its batch.
//!
//! In: slices and addresses. Out: a [`Fed`] array. The same as `wavetrain_tensor`, without strides
//! that go backwards: a step does.

use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{DeviceMemory, Dtype, Fed, FedData, VALUE_BYTES};
use core::ffi::c_void;

const ENDLESS: &str = "what is fed: no memory has its shape and strides";

/// What a box reads in the place of an array of a store.
#[derive(Clone, Copy, Debug, Default)]
pub enum Feed<'a> {
    /// Nothing: it reads an array of a store.
    #[default]
    Nothing,
    /// A value of at most 64 bytes that push copies: its type, extents along the axes of the box,
    /// and bytes, row-major.
    Value(Dtype, &'a [u64], &'a [u8]),
    /// Memory.
    Memory(Memory),
}

/// Memory that boxes read.
#[derive(Clone, Copy, Debug)]
pub struct Memory(Fed);

impl Memory {
    /// Elements at an address, `shape` and `strides` along the axes of the box; strides in bytes.
    ///
    /// # Safety
    /// The memory from the first element to the last is readable, and nobody writes it, until the
    /// batch of every box that reads it is popped, or reset or close has returned Ok.
    pub unsafe fn new(data: *const u8, dtype: Dtype, shape: &[u64], strides: &[u64]) -> Memory {
        Memory::of(FedData::Memory(data.expose_provenance()), dtype, shape, strides)
    }

    /// The same in memory of device number `device`, which must be the loader's: from `address` on,
    /// where it is when `event` (a `CUevent`, or NULL) is over. Batches in host memory refuse it.
    ///
    /// # Safety
    /// As of [`Memory::new`], of kernels of the device, once the event is over; and until then the
    /// event lives, and is not recorded again.
    pub unsafe fn on_device(
        (device, address, event): (u32, u64, *mut c_void),
        dtype: Dtype,
        shape: &[u64],
        strides: &[u64],
    ) -> Memory {
        let (device, event) = (device as i32 & i32::MAX, event.expose_provenance());
        let memory = DeviceMemory { device, address, event };
        Memory::of(FedData::Device(memory), dtype, shape, strides)
    }

    fn of(data: FedData, dtype: Dtype, shape: &[u64], strides: &[u64]) -> Memory {
        assert!(shape.len() == strides.len() && shape.len() <= RANK_MAX && dtype != Dtype::Raw);
        let mut fed = Fed { data, dtype, dtype_bytes: dtype.bytes(), ..Fed::NOTHING };
        fed.rank = shape.len() as u32;
        fed.shape[..shape.len()].copy_from_slice(shape);
        fed.strides[..shape.len()].copy_from_slice(strides);
        Memory(fed)
    }
}

impl Feed<'_> {
    /// What a box of that rank is fed from.
    pub(super) fn fed(&self, rank: usize, why: &mut Why) -> Result<Fed, Status> {
        let fed = match self {
            Feed::Nothing => return Ok(Fed::NOTHING),
            Feed::Memory(Memory(fed)) => {
                let mut fed = *fed;
                let address = match fed.data {
                    FedData::Memory(address) => address as u64,
                    FedData::Device(memory) => memory.address,
                    _ => 0,
                };
                // What is not countable is refused below.
                if fed.is_countable() && !fed.settle(address) {
                    return Err(fail!(why, Invalid, "{ENDLESS}"));
                }
                fed
            }
            Feed::Value(dtype, shape, bytes) => value(*dtype, shape, bytes, why)?,
        };
        if !fed.is_countable() {
            return Err(fail!(why, Invalid, "{ENDLESS}"));
        }
        if fed.rank as usize != rank {
            let axes = fed.rank;
            return Err(fail!(why, Rank, "a box of {rank} axes of what has {axes}"));
        }
        Ok(fed)
    }
}

/// A value of that type and those extents, row-major. Of RAW its bytes are shared by its elements.
pub(super) fn value(
    dtype: Dtype,
    shape: &[u64],
    bytes: &[u8],
    why: &mut Why,
) -> Result<Fed, Status> {
    let (elements, given) = (product(shape), bytes.len() as u64);
    let dtype_bytes = match (dtype, elements) {
        (Dtype::Raw, Some(1..)) => elements.map_or(0, |elements| given / elements) as u32,
        _ => dtype.bytes(),
    };
    let count = elements.and_then(|n| n.checked_mul(u64::from(dtype_bytes)));
    let is_element = (1..=ELEMENT_BYTES_MAX as u32).contains(&dtype_bytes);
    let is_whole = is_element && count == Some(given);
    if shape.len() > RANK_MAX || bytes.len() > VALUE_BYTES || !is_whole {
        return Err(fail!(
            why,
            Invalid,
            "a value of {given} bytes: must have those of its shape, at most {VALUE_BYTES}"
        ));
    }
    let mut copy = [0; VALUE_BYTES];
    copy[..bytes.len()].copy_from_slice(bytes);
    let mut fed = Fed { dtype, dtype_bytes, rank: shape.len() as u32, ..Fed::NOTHING };
    fed.shape[..shape.len()].copy_from_slice(shape);
    let mut stride = u64::from(dtype_bytes);
    for axis in (0..shape.len()).rev() {
        fed.strides[axis] = stride;
        // Extents beside one of 0 may be large; what does not fit is refused below.
        stride = stride.saturating_mul(shape[axis]);
    }
    fed.data = FedData::Value(copy);
    if !fed.is_countable() {
        return Err(fail!(why, Invalid, "{ENDLESS}"));
    }
    Ok(fed)
}
