//! The children of a folder, as the host lists them (`store.list`).
//!
//! In: the name of a folder. Out: entries for a visitor, each with a name that a path can have, and
//! a version: the number of names and the sum of their hashes, so that their order does not count.
//!
//! Invariant: a call of `found` reaches a listing only on the thread that makes it, while it is
//! made. The host's context is looked for among the listings under way, and is not followed before.

use crate::base::abi::FILE_UNLISTED;
use crate::base::cache::hash_bytes;
use crate::base::limits::URI_BYTES_MAX;
use crate::base::version::Version;
use crate::os::directory::Entry;
use crate::os::store::{Fault, Listing, Path, Store, Visit, outcome};
use crate::os::sync::Mutex;
use core::ffi::{CStr, c_char, c_void};
use core::{fmt, ptr};

/// Bytes of a name that its refusal shows.
const SHOWN_BYTES: usize = 30;

/// The beginning of a name that is refused, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildName {
    start: [u8; SHOWN_BYTES],
    bytes: u8,
    flaw: Flaw,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    Null,
    Empty,
    Slash,
    NotText,
    Long,
}

impl fmt::Display for ChildName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.flaw {
            Flaw::Null => return f.write_str("a child that is NULL"),
            Flaw::Empty => return f.write_str("a child without a name"),
            Flaw::Slash => "has a '/'",
            Flaw::NotText => "is not UTF-8",
            Flaw::Long => "makes a path that is too long",
        };
        let start = self.start.get(..usize::from(self.bytes)).unwrap_or(&[]);
        let more = if usize::from(self.bytes) == SHOWN_BYTES { ".." } else { "" };
        f.write_str("a child '")?;
        for part in start.utf8_chunks() {
            f.write_str(part.valid())?;
            f.write_str(if part.invalid().is_empty() { "" } else { "\u{fffd}" })?;
        }
        write!(f, "{more}' whose name {text}")
    }
}

/// A listing that is under way.
struct Under<'a> {
    visit: &'a mut Visit<'a>,
    /// Bytes that a name may have in this folder.
    name_bytes_max: usize,
    names_max: u64,
    /// Names, and the sum of their hashes.
    version: Version,
    refused: Option<ChildName>,
}

/// The place of a listing among all that are under way. It lies on the stack of its thread, and is
/// taken out before that goes on.
struct Link {
    under: *mut c_void,
    thread: libc::pthread_t,
    next: *mut Link,
}

/// All listings that are under way in the process.
struct First(*mut Link);

// SAFETY: a link is read and written under the lock alone.
unsafe impl Send for First {}

static UNDER_WAY: Mutex<First> = Mutex::new(First(ptr::null_mut()));

/// See [`Store::list`].
pub fn list(
    store: &Store,
    folder: &str,
    names_max: u32,
    visit: &mut Visit<'_>,
) -> Result<(Listing, Version), Fault> {
    let Some(list) = store.more.list else { return Err(Fault::Unlisted) };
    let mut name = Path::new();
    name.push_str(folder);
    let mut under = Under {
        visit: &mut |entry| visit(entry),
        name_bytes_max: URI_BYTES_MAX.saturating_sub(folder.len() + 1),
        names_max: u64::from(names_max),
        version: Version::NONE,
        refused: None,
    };
    let place = &raw mut under;
    let ask = || {
        let mut link = enter(place.cast());
        let (user, name) = (store.hook.user, name.as_bytes_nul().as_ptr().cast());
        link_in(&raw mut link);
        // SAFETY: the name is NUL-terminated and outlives the call, as the listing does.
        let answer = unsafe { list(user, name, Some(found), place.cast()) };
        link_out(&raw mut link);
        if answer == FILE_UNLISTED { Err(Fault::Unlisted) } else { outcome(answer) }
    };
    let mut answer = ask();
    // Names that were visited would be visited twice.
    // SAFETY: the host's call is over, and no call of `found` reaches the listing any more.
    let is_untouched = unsafe { (*place).version.bytes == 0 && (*place).refused.is_none() };
    if answer.is_err_and(|fault| store.makes_again(fault)) && is_untouched {
        answer = ask();
    }
    match answer {
        // It says that it visits nothing, and did.
        Err(Fault::Unlisted) if !is_untouched => return Err(Fault::HookFailed),
        answer => answer?,
    }
    match under.refused {
        Some(name) => Err(Fault::BadChild(name)),
        None if under.version.bytes > under.names_max => Ok((Listing::Cut, under.version)),
        None => Ok((Listing::Whole, under.version)),
    }
}

fn enter(under: *mut c_void) -> Link {
    // SAFETY: it only names the calling thread.
    Link { under, thread: unsafe { libc::pthread_self() }, next: ptr::null_mut() }
}

fn link_in(link: *mut Link) {
    let mut first = UNDER_WAY.lock();
    // SAFETY: the link is on the caller's stack, and is taken out before it ends.
    unsafe { (*link).next = first.0 };
    first.0 = link;
}

fn link_out(link: *mut Link) {
    let mut first = UNDER_WAY.lock();
    let mut at = &raw mut first.0;
    // SAFETY: links that are in the list are alive, and change under the lock alone.
    unsafe {
        while *at != link {
            at = &raw mut (**at).next;
        }
        *at = (*link).next;
    }
}

/// Whether `context` is that of a listing that this thread makes.
fn is_under_way(context: *mut c_void) -> bool {
    let first = UNDER_WAY.lock();
    let (mut at, thread) = (first.0, {
        // SAFETY: it only names the calling thread.
        unsafe { libc::pthread_self() }
    });
    // Ends: the list has as many links as there are calls of `list`.
    while !at.is_null() {
        // SAFETY: links that are in the list are alive while the lock is held.
        let link = unsafe { &*at };
        if link.under == context && link.thread == thread {
            return true;
        }
        at = link.next;
    }
    false
}

unsafe extern "C" fn found(context: *mut c_void, child: *const c_char, is_folder: i32) {
    // A call that is too late, or of another thread, is none.
    if !is_under_way(context) {
        return;
    }
    // SAFETY: this thread makes that listing, and does nothing else with it during the host's call.
    let under = unsafe { &mut *context.cast::<Under<'_>>() };
    if under.refused.is_some() {
        return;
    }
    // SAFETY: the host's child is NULL or ends with a NUL.
    under.refused = unsafe { take(under, child, is_folder != 0) }.err();
}

/// Hands a child to the visitor, or says what is wrong with its name.
///
/// # Safety
/// `child` is NULL, or bytes that end with a NUL.
unsafe fn take(
    under: &mut Under<'_>,
    child: *const c_char,
    may_be_folder: bool,
) -> Result<(), ChildName> {
    let refuse = |name: &[u8], flaw| {
        let bytes = name.len().min(SHOWN_BYTES);
        let mut start = [0; SHOWN_BYTES];
        start[..bytes].copy_from_slice(&name[..bytes]);
        Err(ChildName { start, bytes: bytes as u8, flaw })
    };
    if child.is_null() {
        return refuse(&[], Flaw::Null);
    }
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(child) }.to_bytes();
    let flaw = if name.is_empty() {
        Flaw::Empty
    } else if name.contains(&b'/') {
        Flaw::Slash
    } else if core::str::from_utf8(name).is_err() {
        Flaw::NotText
    } else if name.len() > under.name_bytes_max {
        Flaw::Long
    } else {
        under.version.bytes += 1;
        under.version.inode = under.version.inode.wrapping_add(hash_bytes(name));
        if under.version.bytes <= under.names_max {
            (under.visit)(&Entry { name, may_be_folder });
        }
        return Ok(());
    };
    refuse(name, flaw)
}
