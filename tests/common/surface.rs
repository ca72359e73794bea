//! A loader through the C functions, and the lines that it logs.
//!
//! In: configs and boxes. Out: what the functions return and write. Invariant: results that are
//! poisoned before a call are looked at behind it.

use crate::common::drive::PATIENCE_NS;
use std::ffi::{CStr, c_char, c_void};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::Mutex;
use wavetrain::abi::{BatchInfo, Blank, Error, LogHook, Sample, SampleBox, Stats};
use wavetrain::config::Config;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

const OK: i32 = Status::Ok as i32;

/// A loader by its handle. Whoever drops it has deleted and released everything.
pub struct Open(pub u64);

impl Open {
    pub fn new(config: &Config) -> Open {
        let mut handle = 0;
        // SAFETY: both are whole.
        let code = unsafe { wavetrain_open(config, &mut handle, null_mut()) };
        assert_eq!(code, OK);
        Open(handle)
    }

    /// Pushes a sample of `bytes` bytes; what push returned, and how many it took.
    pub fn try_push(&self, sample: &Sample, bytes: usize, timeout_ns: u64) -> (i32, usize) {
        let mut taken = 99;
        // SAFETY: the tests hand over samples whose boxes and uris are whole, or say otherwise.
        let code = unsafe { wavetrain_push(self.0, sample, 1, bytes, timeout_ns, &mut taken) };
        (code, taken)
    }

    pub fn push_box(&self, uri: &str, begin: &[i64], end: &[i64], tag: u64) {
        let raw = sample_box(uri, begin, end);
        let pushed = self.try_push(&sample_of(&raw, tag), size_of::<Sample>(), PATIENCE_NS);
        assert_eq!(pushed, (OK, 1));
    }

    pub fn try_pop(&self, timeout_ns: u64) -> Result<u64, (i32, String)> {
        let mut batch = 0;
        let mut error = Error::EMPTY;
        // SAFETY: both are whole.
        match unsafe { wavetrain_pop(self.0, timeout_ns, &mut batch, &mut error) } {
            OK => Ok(batch),
            code => Err((code, text_of(&error))),
        }
    }

    pub fn pop(&self) -> u64 {
        self.try_pop(PATIENCE_NS).unwrap_or_else(|why| panic!("{why:?}"))
    }

    pub fn info(&self, batch: u64) -> Result<BatchInfo, i32> {
        let mut info = BatchInfo {
            struct_size: size_of::<BatchInfo>(),
            // SAFETY: the struct is plain old data.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: the struct is whole.
        match unsafe { wavetrain_batch_info(self.0, batch, 0, &mut info) } {
            OK => Ok(info),
            code => Err(code),
        }
    }

    pub fn release(&self, batch: u64) {
        // SAFETY: there is no event.
        assert_eq!(unsafe { wavetrain_release(self.0, batch, null_mut()) }, OK);
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_stats(self.0, &mut stats) }, OK);
        stats
    }

    /// Slots that a batch or a tensor keeps.
    pub fn kept(&self) -> u32 {
        self.stats().batches_held
    }

    pub fn last_error(&self) -> Error {
        let mut error = Error::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_last_error(self.0, &mut error) }, OK);
        error
    }

    pub fn close(&self, timeout_ns: u64) -> (i32, u32) {
        let mut held = 99;
        // SAFETY: writable.
        (unsafe { wavetrain_close(self.0, timeout_ns, &mut held) }, held)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let (code, held) = self.close(PATIENCE_NS);
            let is_shutdown = code == Status::Shutdown as i32;
            assert!(code == OK && held == 0 || is_shutdown, "close: {code}, {held} held");
        }
    }
}

/// A box that borrows its uri.
pub fn sample_box(uri: &str, begin: &[i64], end: &[i64]) -> SampleBox {
    let mut raw = SampleBox {
        uri: uri.as_ptr().cast(),
        uri_bytes: uri.len() as u64,
        rank: begin.len() as u32,
        ..Blank::BLANK
    };
    raw.begin[..begin.len()].copy_from_slice(begin);
    raw.end[..end.len()].copy_from_slice(end);
    raw
}

/// A sample that borrows its box.
pub fn sample_of(raw: &SampleBox, tag: u64) -> Sample {
    Sample { boxes: raw, n_boxes: 1, box_bytes: size_of::<SampleBox>() as u32, tag }
}

/// The text of an error.
pub fn text_of(error: &Error) -> String {
    let text = error.text.iter().take_while(|byte| **byte != 0);
    text.map(|byte| char::from(*byte as u8)).collect()
}

/// What a log hook got: level, tag and text of each line. Lives as long as its loaders.
#[derive(Default)]
pub struct Lines(Mutex<Vec<(u32, u64, String)>>);

impl Lines {
    pub fn hook(&self) -> LogHook {
        let user = std::ptr::from_ref(self).cast_mut().cast();
        LogHook { user, log: Some(log), ..LogHook::NONE }
    }

    /// The lines since the last look.
    pub fn take(&self) -> Vec<(u32, u64, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

unsafe extern "C" fn log(
    user: *mut c_void,
    level: u32,
    tag: u64,
    text: *const c_char,
    text_bytes: u64,
) {
    // SAFETY: `user` is the lines of the hook, which outlive its loaders; the text has a NUL.
    let (lines, text) = unsafe { (&*user.cast::<Lines>(), CStr::from_ptr(text)) };
    assert_eq!(text.count_bytes() as u64, text_bytes);
    lines.0.lock().unwrap().push((level, tag, text.to_str().expect("UTF-8").to_string()));
}
