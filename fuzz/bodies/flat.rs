//! Headers of .npy files, and uris of raw ones: a record whose every byte lies in the file, or a
//! refusal with a text.
//!
//! Input: a byte, and the first bytes of a .npy file, or, with bit 0 of the byte, what stands
//! behind "raw:" in a uri. Bit 7 means field a of the .npy file. Bits 1 to 6 say how large the
//! file is: 2 to that power, less one.

use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::{ArrayRecord, chunk_origin, flat_path};
use wavetrain::source::flat::{
    FlatKind, NpyHeader, flat_kind, npy_header, record_from_npy, record_from_raw,
};
use wavetrain::status::{Status, Why};

/// Bytes of a chunk at most.
const MOST: u64 = 4096;

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((flags, rest)) = data.split_first() else { return };
    let file_bytes = (1u64 << (flags >> 1 & 63)) - 1;
    let mut why = Why::new();
    let sizes = (file_bytes, MOST);
    let found = if flags & 1 == 0 {
        assert_eq!(flat_kind("/x.npy"), Some(FlatKind::Npy));
        match npy_header(rest, "/x.npy", &mut why) {
            Ok(NpyHeader::Found(header, offset)) => {
                assert!(offset <= rest.len() as u64 && rest.ends_with(&rest[offset as usize..]));
                let field = (flags & 128 != 0).then_some("a");
                record_from_npy((header, offset), ("/x.npy", field), sizes, &mut why)
            }
            Ok(NpyHeader::Longer(limit)) => return assert!(limit > rest.len() as u64),
            Err(status) => Err(status),
        }
    } else {
        let Ok(text) = str::from_utf8(rest) else { return };
        let uri = format!("raw:{text}");
        assert_eq!(flat_kind(&uri), Some(FlatKind::Raw));
        assert!(text.starts_with(flat_path(&uri)));
        record_from_raw(&uri, sizes, &mut why)
    };
    match found {
        Ok(record) => check(&record, file_bytes),
        Err(status) => {
            assert!(matches!(status, Status::Decode | Status::Unsupported | Status::Invalid));
            assert!(!why.is_empty());
        }
    }
}

fn check(record: &ArrayRecord, file_bytes: u64) {
    let mut record = record.clone();
    record.give_axis();
    let (axes, element) = (record.axes(), u64::from(record.dtype_bytes));
    assert!((1..=16).contains(&element) && axes <= RANK_MAX);
    assert!(record.flat_bytes() <= file_bytes, "{record:?}");
    assert!(record.chunk_bytes <= MOST.max(element));
    let shape = &record.shape[..axes];
    if shape.contains(&0) {
        return;
    }
    // Elements lie densely, or each in a structured one: the last ends where the file must reach.
    let elements: u64 = shape.iter().product();
    let pitch = if record.pitch > 0 { u64::from(record.pitch) } else { element };
    assert!(pitch >= element);
    assert_eq!(record.flat_bytes() - record.flat.unwrap(), (elements - 1) * pitch + element);
    // The first and the last chunk lie in the file, and each chunk is dense, too.
    let counts = record.chunk_counts();
    let last: u64 = counts[..axes].iter().product::<u64>() - 1;
    for chunk in [0, last / 2, last] {
        let origin = chunk_origin(&record, 0, chunk);
        let (mut first, mut reach) = (record.flat.unwrap(), 0);
        for axis in 0..axes {
            assert!(origin[axis] < shape[axis], "{record:?}");
            let stride = record.chunk_strides[axis] as u64;
            first += origin[axis] * stride;
            let extent = record.chunk_shape[axis].min(shape[axis] - origin[axis]);
            reach += (extent - 1) * stride;
        }
        assert!(first + reach + element <= file_bytes, "{record:?}");
        assert!(reach + element <= MOST.max(element), "{record:?}");
    }
}
