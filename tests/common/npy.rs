//! .npy files of a few elements, as numpy writes them.

/// A file of version 1.0 with its data behind byte 128; `dtype` as numpy spells it.
pub fn file(dtype: &str, is_fortran: bool, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let list: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let order = if is_fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({list}), }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend_from_slice(header.as_bytes());
    assert!(file.len() < 128, "{header}");
    file.resize(127, b' ');
    file.push(b'\n');
    file.extend_from_slice(data);
    file
}
