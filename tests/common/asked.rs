//! The arrays of tests/data/make_samples.py that a program gives when it is asked.

use crate::common::samples::{dtype, list, number, raw};
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::slice;
use std::sync::OnceLock;
use wavetrain::abi::{FILE_ABSENT, SourceHook, SourceInfo};
use wavetrain::records::Dtype;

struct Array {
    dtype: Dtype,
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    bytes: &'static [u8],
}

static ARRAYS: OnceLock<HashMap<String, Array>> = OnceLock::new();

/// The hook for `asked`, what cases.json says of them.
pub fn source(asked: &Value) -> SourceHook {
    ARRAYS.get_or_init(|| {
        let array = |(name, value): (&String, &Value)| {
            let array = Array {
                dtype: dtype(&value["type"]),
                shape: list(&value["shape"], number),
                chunk_shape: list(&value["chunk_shape"], number),
                bytes: raw(name),
            };
            (name.clone(), array)
        };
        asked.as_object().expect("arrays by name").iter().map(array).collect()
    });
    SourceHook { describe: Some(describe), read: Some(read), ..SourceHook::NONE }
}

unsafe fn array(name: *const c_char) -> Option<&'static Array> {
    // SAFETY: the library gives a text with a NUL.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    ARRAYS.get().expect("a hook was made").get(name)
}

unsafe extern "C" fn describe(_: *mut c_void, name: *const c_char, info: *mut SourceInfo) -> i64 {
    // SAFETY: both are as the library gives them.
    let (array, info) = unsafe { (array(name), &mut *info) };
    let Some(array) = array else { return FILE_ABSENT };
    info.rank = array.shape.len() as u32;
    info.dtype = array.dtype as u32;
    info.shape[..array.shape.len()].copy_from_slice(&array.shape);
    info.chunk_shape[..array.shape.len()].copy_from_slice(&array.chunk_shape);
    0
}

unsafe extern "C" fn read(
    _: *mut c_void,
    name: *const c_char,
    begin: *const u64,
    end: *const u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: a name, as many numbers as there are axes, and a target of so many bytes.
    let (array, target) = unsafe {
        (array(name).expect("described"), slice::from_raw_parts_mut(target.cast(), bytes as usize))
    };
    let element = array.dtype.bytes() as usize;
    // SAFETY: as above; without axes nothing is read.
    let bound = |bounds: *const u64, axis: usize| unsafe { bounds.add(axis).read() };
    let axes = 0..array.shape.len();
    let extents: Vec<u64> = axes.map(|axis| bound(end, axis) - bound(begin, axis)).collect();
    assert_eq!(bytes as usize, extents.iter().product::<u64>() as usize * element);
    for (place, target) in target.chunks_exact_mut(element).enumerate() {
        let (mut rest, mut at, mut stride) = (place as u64, 0, 1);
        for axis in (0..extents.len()).rev() {
            at += (bound(begin, axis) + rest % extents[axis]) * stride;
            rest /= extents[axis];
            stride *= array.shape[axis];
        }
        target.copy_from_slice(&array.bytes[at as usize * element..][..element]);
    }
    0
}
