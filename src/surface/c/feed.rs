//! Tensors that a box is fed from, across the C surface.
//!
//! In: a struct of the caller's, checked here once. Out: a [`Fed`] array, and the box as it stands
//! over that. Invariant: of memory nothing is looked at; of a value exactly its elements.

use super::structs::read_struct;
use crate::base::abi::{BOX_VALUE, SampleBox, Tensor};
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::engine::requests::Request;
use crate::fail;
use crate::records::{DeviceMemory, Dtype, Fed, FedData, VALUE_BYTES};

/// Checks the tensor of a box, of any kind but an array of a store, and copies what push keeps.
///
/// # Safety
/// `source.tensor` is NULL or as the header says, and so is its memory.
pub unsafe fn read_fed(
    target: &mut Request<'_>,
    source: &SampleBox,
    why: &mut Why,
) -> Result<(), Status> {
    // SAFETY: the tensor is NULL, or has the bytes that it states.
    let tensor = unsafe { read_struct(source.tensor, Tensor::EMPTY, "tensor", why)? };
    if !source.uri.is_null() || source.uri_bytes != 0 {
        return Err(fail!(why, Invalid, "the box has a tensor and a uri"));
    }
    check_place(&tensor, source.kind, why)?;
    let (dtype, dtype_bytes) = element_type(&tensor, why)?;
    let rank = source.rank as usize;
    let mut fed = Fed { dtype, dtype_bytes, rank: source.rank, ..Fed::NOTHING };
    fed.shape[..rank].copy_from_slice(&tensor.shape[..rank]);
    if !fed.is_countable() {
        return Err(fail!(why, Invalid, "{ENDLESS}"));
    }
    let is_dense = tensor.strides[..rank].iter().all(|stride| *stride == 0);
    let strides = if is_dense { dense_strides(&fed) } else { tensor.strides };
    let elements = product(&fed.shape[..rank]).unwrap_or(u64::MAX);
    if tensor.data.is_null() && elements > 0 {
        return Err(fail!(why, Invalid, "tensor.data is NULL"));
    }
    if source.kind != BOX_VALUE {
        return borrow_memory(target, fed, &tensor, &strides, why);
    }
    if elements.saturating_mul(u64::from(dtype_bytes)) > VALUE_BYTES as u64 {
        let text = "feed what is larger as memory";
        return Err(fail!(why, Invalid, "a value has at most {VALUE_BYTES} bytes: {text}"));
    }
    // SAFETY: the caller's tensor has the elements that it states.
    fed.data = FedData::Value(unsafe { copy_value(&tensor, &fed, &strides) });
    fed.strides = dense_strides(&fed).map(|stride| stride as u64);
    target.fed = fed;
    Ok(())
}

const ENDLESS: &str = "tensor: no memory has its shape and strides";

/// Checks where a tensor says that its elements lie.
fn check_place(tensor: &Tensor, kind: u32, why: &mut Why) -> Result<(), Status> {
    let device = tensor.device;
    if device < -1 || tensor.reserved != 0 {
        let text = "must be -1, for the host, or the number of a device, and reserved 0";
        return Err(fail!(why, Invalid, "tensor.device = {device}: {text}"));
    }
    if device >= 0 && kind == BOX_VALUE {
        let text = "a value is read by push, on the host: feed it as memory";
        return Err(fail!(why, Invalid, "tensor.device = {device}: {text}"));
    }
    if device < 0 && !tensor.event.is_null() {
        let text = "there is none for memory of the host: wait for it before push";
        return Err(fail!(why, Invalid, "tensor.event: {text}"));
    }
    Ok(())
}

/// Bytes from one element to the next along each axis, row-major without gaps.
fn dense_strides(fed: &Fed) -> [i64; RANK_MAX] {
    let (mut strides, mut stride) = ([0; RANK_MAX], i64::from(fed.dtype_bytes));
    for axis in (0..fed.rank as usize).rev() {
        strides[axis] = stride;
        stride = stride.saturating_mul(fed.shape[axis].min(i64::MAX as u64) as i64);
    }
    strides
}

/// Notes where the caller's memory lies. An axis of a negative stride is looked at from its other
/// end; the box as well, unless a map leads to its elements.
fn borrow_memory(
    target: &mut Request<'_>,
    mut fed: Fed,
    tensor: &Tensor,
    strides: &[i64; RANK_MAX],
    why: &mut Why,
) -> Result<(), Status> {
    let affine = target.augment.affine();
    let is_mapped = |axis| affine.is_some_and(|affine| affine.position(axis).is_some());
    let mut address = tensor.data.expose_provenance();
    for axis in 0..fed.rank as usize {
        let (stride, extent) = (strides[axis], fed.shape[axis]);
        fed.strides[axis] = stride.unsigned_abs();
        if stride < 0 && extent > 0 {
            fed.turned |= 1 << axis;
            if !is_mapped(axis) {
                turn_axis(target, (axis, extent), why)?;
            }
            let reach = (extent - 1).wrapping_mul(stride.unsigned_abs());
            address = address.wrapping_sub(reach as usize);
        }
    }
    if !fed.settle(address as u64) {
        return Err(fail!(why, Invalid, "{ENDLESS}"));
    }
    fed.data = match tensor.device {
        -1 => FedData::Memory(address),
        device => FedData::Device(DeviceMemory {
            device,
            address: address as u64,
            event: tensor.event.expose_provenance(),
        }),
    };
    target.fed = fed;
    Ok(())
}

fn element_type(tensor: &Tensor, why: &mut Why) -> Result<(Dtype, u32), Status> {
    let Some(dtype) = Dtype::from_code(tensor.dtype) else {
        return Err(fail!(why, Invalid, "tensor.dtype = {}: no such element type", tensor.dtype));
    };
    let (given, bytes) = (tensor.dtype_bytes, dtype.bytes());
    let is_right = match dtype {
        Dtype::Raw => (1..=ELEMENT_BYTES_MAX as u32).contains(&given),
        _ => given == 0 || given == bytes,
    };
    if !is_right {
        let name = dtype.name();
        return Err(fail!(why, Invalid, "tensor.dtype_bytes = {given}: {name} has {bytes}"));
    }
    Ok((dtype, if dtype == Dtype::Raw { given } else { bytes }))
}

/// Looks at an axis from its other end.
fn turn_axis(
    target: &mut Request<'_>,
    (axis, extent): (usize, u64),
    why: &mut Why,
) -> Result<(), Status> {
    let turned = |bound: i64| i64::try_from(extent).ok()?.checked_sub(bound);
    let step = if target.step[axis] == 0 { 1 } else { target.step[axis] };
    let (begin, end) = (turned(target.end[axis]), turned(target.begin[axis]));
    let (Some(begin), Some(end), Some(step)) = (begin, end, step.checked_neg()) else {
        return Err(fail!(why, Invalid, "axis {axis}: the box lies too far outside of the tensor"));
    };
    (target.begin[axis], target.end[axis], target.step[axis]) = (begin, end, step);
    Ok(())
}

/// The elements of a tensor of at most VALUE_BYTES bytes, row-major.
///
/// # Safety
/// All of its elements are readable.
unsafe fn copy_value(tensor: &Tensor, fed: &Fed, strides: &[i64; RANK_MAX]) -> [u8; VALUE_BYTES] {
    let (mut value, bytes) = ([0; VALUE_BYTES], fed.dtype_bytes as usize);
    let axes = &fed.shape[..fed.rank as usize];
    let elements = axes.iter().product::<u64>() as usize;
    for (number, place) in value.chunks_mut(bytes).take(elements).enumerate() {
        let (mut rest, mut offset) = (number as u64, 0isize);
        for (axis, extent) in axes.iter().enumerate().rev() {
            offset += (rest % extent) as isize * strides[axis] as isize;
            rest /= extent;
        }
        for (at, byte) in place.iter_mut().enumerate() {
            // SAFETY: it is a byte of the element.
            *byte = unsafe { tensor.data.cast::<u8>().offset(offset).add(at).read() };
        }
    }
    value
}
