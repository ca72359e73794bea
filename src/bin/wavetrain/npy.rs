//! NumPy's .npy files, format version 1.0 (numpy.lib.format): written front to back, so that the
//! array never has to fit in memory, and under another name until they are whole. The header of an
//! array whose rows are counted at its end is written a second time.
//!
//! Invariant: a regular file of the final name is complete. A file that is not finished is removed.

use crate::fault::{Fault, Outcome, failed};
use crate::partial::Partial;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
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

/// Everything before the first element, in `least_bytes` or more.
fn header(element: Element, shape: &[u64], least_bytes: usize) -> Vec<u8> {
    let extents: Vec<_> = shape.iter().map(u64::to_string).collect();
    // Python writes a tuple of one with a comma behind it.
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        descr(element.0, element.1),
        extents.join(", ")
    );
    // Magic, version and length take 10 bytes; elements start at a multiple of 64. A rank of 17
    // needs under 500 bytes, so the length always fits its two bytes.
    let used = 10 + text.len() + 1;
    text.push_str(&" ".repeat(used.next_multiple_of(64).max(least_bytes) - used));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A type and the bytes of an element.
pub type Element = (Dtype, u32);

/// The path that stands for standard output.
pub const STANDARD_OUTPUT: &str = "-";

/// Whether a file of this path can be written more than front to back: it is a regular file, or
/// becomes one.
pub fn is_regular(path: &Path) -> bool {
    path != Path::new(STANDARD_OUTPUT) && fs::metadata(path).map_or(true, |found| found.is_file())
}

/// A .npy file that is being written.
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    /// None for a target that is no regular file.
    partial: Option<Partial>,
    element: Element,
    /// Extents of the array, or of one of the rows that it is made of.
    shape: Vec<u64>,
    /// Bytes of that shape.
    shape_bytes: u64,
    /// Bytes of a header that has room for any number of rows; None if the shape is the array's.
    rows_header_bytes: Option<usize>,
    /// Bytes of elements so far.
    bytes: u64,
}

impl Writer {
    /// Starts a file of this type and shape.
    pub fn create(path: &Path, element: Element, shape: &[u64]) -> Outcome<Writer> {
        let mut writer = Writer::open(path, element, shape)?;
        writer.put(&header(element, shape, 0))?;
        Ok(writer)
    }

    /// Starts a regular file of rows of this type and shape; they are counted at its end.
    pub fn create_rows(path: &Path, element: Element, shape: &[u64]) -> Outcome<Writer> {
        let mut writer = Writer::open(path, element, shape)?;
        let head = header(element, &[&[u64::MAX], shape].concat(), 0);
        writer.rows_header_bytes = Some(head.len());
        writer.put(&head)?;
        Ok(writer)
    }

    fn open(path: &Path, element: Element, shape: &[u64]) -> Outcome<Writer> {
        let bytes = shape.iter().try_fold(u64::from(element.1), |all, n| all.checked_mul(*n));
        let Some(shape_bytes) = bytes else {
            return failed(format!("{}: more than 2^64 bytes", path.display()));
        };
        let opened = if path == Path::new(STANDARD_OUTPUT) {
            let output = io::stdout().as_fd().try_clone_to_owned();
            output.map(|output| (None, File::from(output)))
        } else if is_regular(path) {
            Partial::create(path).map(|(partial, file)| (Some(partial), file))
        } else {
            File::options().write(true).open(path).map(|file| (None, file))
        };
        let (partial, file) = opened.map_err(|error| Fault::path(path, &error))?;
        Ok(Writer {
            file: BufWriter::with_capacity(1 << 18, file),
            path: path.to_owned(),
            partial,
            element,
            shape: shape.to_vec(),
            shape_bytes,
            rows_header_bytes: None,
            bytes: 0,
        })
    }

    /// Appends elements.
    pub fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.put(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Appends zeros until there are elements of so many bytes.
    pub fn fill_to(&mut self, bytes: u64) -> Outcome<()> {
        let zeros = [0; 4096];
        while self.bytes < bytes {
            let count = (bytes - self.bytes).min(zeros.len() as u64) as usize;
            self.write(&zeros[..count])?;
        }
        Ok(())
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> Outcome<()> {
        let rows = self.bytes / self.shape_bytes.max(1);
        let has_whole_rows = rows.checked_mul(self.shape_bytes) == Some(self.bytes);
        if !has_whole_rows || (rows != 1 && self.rows_header_bytes.is_none()) {
            let (has, shape_bytes) = (self.bytes, self.shape_bytes);
            let path = self.path.display();
            return failed(format!("{path}: {has} bytes of elements do not fill {shape_bytes}"));
        }
        if let Some(bytes) = self.rows_header_bytes {
            let head = header(self.element, &[&[rows], &self.shape[..]].concat(), bytes);
            let sought = self.file.seek(SeekFrom::Start(0));
            sought.map_err(|error| Fault::path(&self.path, &error))?;
            self.put(&head)?;
        }
        self.file.flush().map_err(|error| Fault::path(&self.path, &error))?;
        match self.partial.take() {
            Some(partial) => partial.finish().map_err(|error| Fault::path(&self.path, &error)),
            None => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.file.write_all(bytes).map_err(|error| Fault::path(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_numpy_writes() {
        // numpy.lib.format.write_array_header_1_0 of a (3, 4) float32 array.
        let expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
        let bytes = header((Dtype::F32, 4), &[3, 4], 0);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(bytes.len() % 64, 0);
        assert_eq!(bytes.last(), Some(&b'\n'));
        assert!(bytes[10..].starts_with(expected.as_bytes()));
        assert!(bytes[10 + expected.len()..bytes.len() - 1].iter().all(|byte| *byte == b' '));
    }

    #[test]
    fn a_shape_of_one_axis_has_its_comma() {
        let bytes = header((Dtype::Raw, 6), &[5], 0);
        let text = String::from_utf8_lossy(&bytes[10..]).into_owned();
        assert!(text.contains("'descr': '|V6'") && text.contains("'shape': (5,), "), "{text}");
    }

    #[test]
    fn the_largest_header_fits_version_1() {
        assert!(header((Dtype::C128, 16), &[u64::MAX; 17], 0).len() < 1024);
    }
}
