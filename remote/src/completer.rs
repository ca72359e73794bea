//! The thread that calls completions.
//!
//! A completion runs code of a loader, which may read by a call of its own. It runs on a thread for
//! that, so that the threads that move bytes never wait for it.

use crate::abi::ReadDone;
use crate::error::{Error, Result};
use crate::lock;
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

/// A completion on its way to a loader.
pub struct Done {
    /// The loader that began the read.
    pub loader: u64,
    /// Its ticket.
    pub ticket: u64,
    /// The value that `files.read` would have returned.
    pub result: i64,
}

struct Running {
    sender: mpsc::Sender<Done>,
    thread: JoinHandle<()>,
}

/// The thread, or none where the host has no asynchronous reads.
pub struct Completer(Mutex<Option<Running>>);

impl Completer {
    /// Starts the thread if there is a function to call.
    pub fn start(read_done: Option<ReadDone>) -> Result<Self> {
        let Some(read_done) = read_done else { return Ok(Self(Mutex::new(None))) };
        let (sender, receiver) = mpsc::channel::<Done>();
        let complete = move || {
            for done in receiver {
                // SAFETY: it is wavetrain_read_done, as the config asks, which takes any numbers.
                unsafe { read_done(done.loader, done.ticket, done.result) };
            }
        };
        let thread = std::thread::Builder::new()
            .name("wtremote-done".into())
            .spawn(complete)
            .map_err(|error| Error::failed(format!("a thread cannot be started: {error}")))?;
        Ok(Self(Mutex::new(Some(Running { sender, thread }))))
    }

    /// Hands a completion to the thread.
    pub fn send(&self, done: Done) {
        if let Some(running) = &*lock(&self.0) {
            // The thread receives until `end`, which comes after all calls.
            let _ = running.sender.send(done);
        }
    }

    /// Calls what was sent, and ends the thread.
    pub fn end(&self) {
        let Some(running) = lock(&self.0).take() else { return };
        drop(running.sender);
        // It panics nowhere; if a completion of the host did, the process has ended.
        let _ = running.thread.join();
    }
}
