//! Reads of a host that end later than they begin (`files.read_async`), the n-th of them in a way
//! that hosts get wrong.
//!
//! In: what the seam says is to go wrong. Out: completions, each once for a read that was begun.
//! They come from one thread of this module, in order, unless a fault is about when they come.
//! Invariant: what a read that fails leaves of its target is overwritten.

use super::seam::{Call, Fault, hook_fault, hook_path, meet, read_file};
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED};
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_read_done;

struct HostRead {
    loader: u64,
    ticket: u64,
    path: String,
    offset: u64,
    target: usize,
    bytes: u64,
    fault: Option<Fault>,
}

impl HostRead {
    /// Brings the bytes, or what the fault leaves of them, and says so.
    fn complete(self) {
        let target = std::ptr::with_exposed_provenance_mut::<u8>(self.target);
        // SAFETY: the target is the host's, this long, until the completion.
        let target = unsafe { std::slice::from_raw_parts_mut(target, self.bytes as usize) };
        target.fill(0xEE);
        let result = match self.fault {
            Some(Fault::EndsFailed) => FILE_FAILED,
            Some(Fault::EndsAbsent) => FILE_ABSENT,
            // A host that counts bytes, and came to half of them.
            Some(Fault::Half) => {
                let half = target.len().div_ceil(2);
                read_file(&self.path, self.offset, &mut target[..half]);
                half as i64
            }
            _ => read_file(&self.path, self.offset, target),
        };
        assert_eq!(wavetrain_read_done(self.loader, self.ticket, result), 0, "{}", self.path);
        if self.fault == Some(Fault::Twice) {
            let invalid = Status::Invalid as i32;
            assert_eq!(wavetrain_read_done(self.loader, self.ticket, result), invalid);
        }
    }
}

struct Reads {
    waiting: VecDeque<HostRead>,
    held: Vec<HostRead>,
}

static READS: Mutex<Reads> = Mutex::new(Reads { waiting: VecDeque::new(), held: Vec::new() });
static READY: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Reads> {
    READS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completes one read after the other, as long as the program runs.
fn complete_all() {
    loop {
        let mut guard = lock();
        let read = loop {
            if let Some(read) = guard.waiting.pop_front() {
                break read;
            }
            guard = READY.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        drop(guard);
        read.complete();
    }
}

/// Whether a read is kept until `complete_held`.
pub fn is_holding() -> bool {
    !lock().held.is_empty()
}

/// Completes what was kept.
pub fn complete_held() {
    let held = std::mem::take(&mut lock().held);
    held.into_iter().for_each(HostRead::complete);
}

/// `FilesHook::read_async`.
pub unsafe extern "C" fn read_async(
    _: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let path = unsafe { hook_path(name) };
    let fault = meet(Call::HookReadAsync, &path);
    let target = target.expose_provenance();
    let read = HostRead { loader, ticket, path, offset, target, bytes, fault };
    match fault {
        Some(fault @ (Fault::Fails(_) | Fault::Absent)) => return hook_fault(fault),
        Some(Fault::AtOnce) => read.complete(),
        Some(Fault::Held) => lock().held.push(read),
        _ => {
            static THREAD: Once = Once::new();
            THREAD.call_once(|| drop(std::thread::spawn(complete_all)));
            lock().waiting.push_back(read);
            READY.notify_all();
            return 0;
        }
    }
    0
}

/// The same of a host whose every read fails, at once or later by turns.
pub unsafe extern "C" fn read_async_fails(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    if ticket.is_multiple_of(2) {
        return FILE_FAILED;
    }
    _ = (user, name, offset, target, bytes);
    assert_eq!(wavetrain_read_done(loader, ticket, FILE_FAILED), 0);
    0
}
