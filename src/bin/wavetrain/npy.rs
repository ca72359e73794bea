//! NumPy's .npy files, format version 1.0 (numpy.lib.format): written front to back, so that the
//! array never has to fit in memory, and under another name until they are whole.
//!
//! Invariant: a regular file of the final name is complete. A file that is not finished is removed.

use crate::fault::{Fault, Outcome, failed};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use wavetrain::records::Dtype;

/// NumPy's name of an element type. bfloat16, which NumPy lacks, is stored as its 16 bits.
fn descr(dtype: Dtype, dtype_bytes: u32) -> String {
    match dtype {
        Dtype::F32 => "<f4",
        Dtype::F16 => "<f2",
        Dtype::F64 => "<f8",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::I16 => "<i2",
        Dtype::I8 => "|i1",
        Dtype::U8 => "|u1",
        Dtype::U16 | Dtype::Bf16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::Bool => "|b1",
        Dtype::C64 => "<c8",
        Dtype::C128 => "<c16",
        Dtype::Raw => return format!("|V{dtype_bytes}"),
    }
    .to_owned()
}

/// Everything before the first element.
fn header(dtype: Dtype, dtype_bytes: u32, shape: &[u64]) -> Vec<u8> {
    let extents: Vec<_> = shape.iter().map(u64::to_string).collect();
    // Python writes a tuple of one with a comma behind it.
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        descr(dtype, dtype_bytes),
        extents.join(", ")
    );
    // Magic, version and length take 10 bytes; elements start at a multiple of 64. A rank of 17
    // needs under 500 bytes, so the length always fits its two bytes.
    let used = 10 + text.len() + 1;
    text.push_str(&" ".repeat(used.next_multiple_of(64) - used));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A .npy file that is being written.
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    /// Where the bytes go until the file is whole; None for a target that is no regular file.
    partial: Option<PathBuf>,
    bytes_left: u64,
}

impl Writer {
    /// Starts a file of this type and shape.
    pub fn create(path: &Path, dtype: Dtype, dtype_bytes: u32, shape: &[u64]) -> Outcome<Writer> {
        let elements = shape.iter().try_fold(u64::from(dtype_bytes), |all, n| all.checked_mul(*n));
        let Some(bytes_left) = elements else {
            return failed(format!("{}: more than 2^64 bytes", path.display()));
        };
        let special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let partial = (!special).then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}.partial", std::process::id()));
            PathBuf::from(name)
        });
        let target = partial.as_deref().unwrap_or(path);
        let opened = File::options().write(true).create(true).truncate(true).open(target);
        let file = opened.map_err(|error| Fault::path(target, &error))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let mut writer = Writer { file, path: path.to_owned(), partial, bytes_left };
        writer.put(&header(dtype, dtype_bytes, shape))?;
        Ok(writer)
    }

    /// Appends elements.
    pub fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        let Some(left) = self.bytes_left.checked_sub(bytes.len() as u64) else {
            return failed(format!("{}: more elements than its shape", self.path.display()));
        };
        self.bytes_left = left;
        self.put(bytes)
    }

    /// Appends zeros for all elements that are missing.
    pub fn fill_up(&mut self) -> Outcome<()> {
        let zeros = [0; 4096];
        while self.bytes_left > 0 {
            let count = self.bytes_left.min(zeros.len() as u64) as usize;
            self.write(&zeros[..count])?;
        }
        Ok(())
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> Outcome<()> {
        if self.bytes_left > 0 {
            return failed(format!("{}: {} bytes short", self.path.display(), self.bytes_left));
        }
        self.file.flush().map_err(|error| Fault::path(&self.path, &error))?;
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path).map_err(|error| Fault::path(&self.path, &error))?;
            self.partial = None;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.file.write_all(bytes).map_err(|error| Fault::path(&self.path, &error))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // Best effort: the failure that led here is the one to report.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_numpy_writes() {
        // numpy.lib.format.write_array_header_1_0 of a (3, 4) float32 array.
        let expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
        let bytes = header(Dtype::F32, 4, &[3, 4]);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(bytes.len() % 64, 0);
        assert_eq!(bytes.last(), Some(&b'\n'));
        assert!(bytes[10..].starts_with(expected.as_bytes()));
        assert!(bytes[10 + expected.len()..bytes.len() - 1].iter().all(|byte| *byte == b' '));
    }

    #[test]
    fn a_shape_of_one_axis_has_its_comma() {
        let bytes = header(Dtype::Raw, 6, &[5]);
        let text = String::from_utf8_lossy(&bytes[10..]).into_owned();
        assert!(text.contains("'descr': '|V6'") && text.contains("'shape': (5,), "), "{text}");
    }

    #[test]
    fn the_largest_header_fits_version_1() {
        assert!(header(Dtype::C128, 16, &[u64::MAX; 17]).len() < 1024);
    }
}
