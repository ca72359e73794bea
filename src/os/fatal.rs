//! The hosts' last words: which fatal hooks there are, and the call of all of them.
//!
//! In: the hooks of open loaders, and a defect of ours. Out: each hook called once, those of the
//! loader that was opened first first. No lock and no memory of any loader: the thread that met the
//! defect may hold every lock there is.
//!
//! ```text
//!  EMPTY ──(set)──▶ SET ──(call_all)──▶ CALLED, until the process ends
//!    ▲               │
//!    └───(clear)─────┘
//! ```

use crate::base::abi::FatalHook;
use crate::base::limits::INSTANCES_MAX;
use crate::os::sleep_forever;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};

const EMPTY: u32 = 0;
const SET: u32 = 1;
const CALLED: u32 = 2;

struct Entry {
    state: AtomicU32,
    /// Entries are called in this order.
    number: AtomicU64,
    /// Its function and what it is handed. Not the struct, which says its size: entries without
    /// a hook are all zeros, so that the table takes no bytes of the archive.
    hook: UnsafeCell<(Option<Fatal>, *mut c_void)>,
}

/// The function of a [`FatalHook`].
type Fatal = unsafe extern "C" fn(*mut c_void, *const c_char, u32, *const c_char);

/// Hooks by the place of their loader.
pub struct Table {
    entries: [Entry; INSTANCES_MAX],
    next_number: AtomicU64,
}

// SAFETY: a hook is written while its entry is EMPTY, by the one who has its place, and read by the
// one who moved the entry from SET to CALLED. Its contract is that any thread may call it.
unsafe impl Sync for Table {}

/// The hooks of this process.
pub static HOOKS: Table = Table::new();

impl Table {
    /// No hooks.
    const fn new() -> Table {
        Table {
            entries: [const {
                Entry {
                    state: AtomicU32::new(EMPTY),
                    number: AtomicU64::new(0),
                    hook: UnsafeCell::new((None, ptr::null_mut())),
                }
            }; INSTANCES_MAX],
            next_number: AtomicU64::new(0),
        }
    }

    /// The loader in a place was opened with this hook. The place is the caller's, and was cleared
    /// since it was set last.
    pub fn set(&self, place: usize, hook: &FatalHook) {
        if hook.fatal.is_none() {
            return;
        }
        let entry = &self.entries[place];
        assert!(entry.state.load(SeqCst) == EMPTY);
        // SAFETY: EMPTY, and the place is the caller's, so nobody else looks at it.
        unsafe { *entry.hook.get() = (hook.fatal, hook.user) };
        entry.number.store(self.next_number.fetch_add(1, SeqCst), SeqCst);
        entry.state.store(SET, SeqCst);
    }

    /// The loader in a place is closed: its hook is called no more. Does not return where the hook
    /// was called, because the process is ending.
    pub fn clear(&self, place: usize) {
        let state = &self.entries[place].state;
        if let Err(CALLED) = state.compare_exchange(SET, EMPTY, SeqCst, SeqCst) {
            sleep_forever();
        }
    }

    /// Calls every hook that was not called, in the order of the opens; returns if they do.
    #[cfg(any(wavetrain_archive, feature = "internals"))]
    pub fn call_all(&self, file: &core::ffi::CStr, line: u32, text: &core::ffi::CStr) {
        // Ends: every turn takes an entry that no other turn takes.
        for _ in 0..INSTANCES_MAX {
            let set = self.entries.iter().filter(|entry| entry.state.load(SeqCst) == SET);
            let Some(first) = set.min_by_key(|entry| entry.number.load(SeqCst)) else { return };
            if first.state.compare_exchange(SET, CALLED, SeqCst, SeqCst).is_err() {
                continue;
            }
            // SAFETY: this thread moved the entry to CALLED, so nobody writes it any more.
            let (hook, user) = unsafe { *first.hook.get() };
            if let Some(fatal) = hook {
                // SAFETY: both texts have a NUL and outlive the call.
                unsafe { fatal(user, file.as_ptr(), line, text.as_ptr()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::vec::Vec;

    /// Number of the hook, line, file and text of every call, in order.
    type Calls = Mutex<Vec<(usize, u32, std::string::String)>>;
    static CALLS: Calls = Mutex::new(Vec::new());

    unsafe extern "C" fn note(
        user: *mut c_void,
        file: *const c_char,
        line: u32,
        text: *const c_char,
    ) {
        // SAFETY: both are texts with a NUL.
        let (file, text) =
            unsafe { (core::ffi::CStr::from_ptr(file), core::ffi::CStr::from_ptr(text)) };
        let words = std::format!("{}: {}", file.to_str().unwrap(), text.to_str().unwrap());
        CALLS.lock().unwrap().push((user.addr(), line, words));
    }

    fn hook(number: usize) -> FatalHook {
        FatalHook {
            user: core::ptr::without_provenance_mut(number),
            fatal: Some(note),
            ..FatalHook::NONE
        }
    }

    #[test]
    fn hooks_of_open_loaders_are_called_once_in_the_order_of_their_opens() {
        let table = Table::new();
        for (place, number) in [(9, 1), (0, 2), (INSTANCES_MAX - 1, 3), (4, 4)] {
            table.set(place, &hook(number));
        }
        table.set(5, &FatalHook::NONE);
        table.clear(0);
        table.clear(5);
        table.set(0, &hook(5));
        table.call_all(c"file.rs", 77, c"a text");
        table.call_all(c"file.rs", 78, c"again");
        let calls = core::mem::take(&mut *CALLS.lock().unwrap());
        let numbers: Vec<usize> = calls.iter().map(|call| call.0).collect();
        assert_eq!(numbers, [1, 3, 4, 5]);
        assert!(calls.iter().all(|call| (call.1, call.2.as_str()) == (77, "file.rs: a text")));
    }
}
