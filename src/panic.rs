//! What happens in the archive when an assertion of ours fails: the hosts' fatal hooks, a line on
//! stderr if they return, then abort.
//!
//! In: a panic. Out: nothing returns. No allocation, no lock and no thread-local memory, because
//! the thread that panics may hold any of ours. A Rust host links the rlib and keeps its own
//! handler.
//!
//! What a panic says of itself, its text and its line, is a quarter of the archive: as nobody looks
//! at it here, the compiler leaves it out, and calls of one function that differ in nothing else
//! become one. What remains is where the defect was met ([`crate::os::calls`]), which the object
//! with names and lines translates (UNSTRIPPED of tools/archive.sh). `--cfg wavetrain_panic_texts`
//! keeps all of it, for tools/panics.sh, which counts the calls.

use crate::base::text::Text;
use crate::os::{SYSTEM, fatal, sleep_forever};
use core::ffi::CStr;
use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// Bytes of the line; a longer message is cut.
const LINE_BYTES: usize = 1024;
/// Bytes of a file's name.
const FILE_BYTES: usize = 256;

/// The library and its version.
const VERSION: &str = concat!("wavetrain ", env!("CARGO_PKG_VERSION"));

/// The first thread that panicked, 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let thread = (SYSTEM.thread_id)();
    match FIRST.compare_exchange(0, thread, SeqCst, SeqCst) {
        Ok(_) => {}
        // In a hook, or in this function.
        Err(first) if first == thread => abort(),
        // The first thread ends the process. To end it here would cut its hooks short.
        Err(_) => sleep_forever(),
    }
    let (mut file, mut text) = (Text::<FILE_BYTES>::new(), Text::<LINE_BYTES>::new());
    let line = describe(info, &mut file, &mut text);
    fatal::HOOKS.call_all(c_string(file.as_bytes_nul()), line, c_string(text.as_bytes_nul()));
    let mut shown = Text::<{ LINE_BYTES + FILE_BYTES }>::new();
    for piece in [VERSION, ": a defect of the library, please report it: "] {
        shown.push_str(piece);
    }
    shown.push_str(text.as_str());
    shown.push_str("\n");
    (SYSTEM.write_stderr)(shown.as_bytes());
    abort()
}

/// Where the defect was met; the line is 0, as there is no file.
#[cfg(not(wavetrain_panic_texts))]
fn describe(_: &PanicInfo<'_>, file: &mut Text<FILE_BYTES>, text: &mut Text<LINE_BYTES>) -> u32 {
    use crate::os::calls::{CALLS_MAX, archive_code, calls};
    let mut found = [0; CALLS_MAX];
    let count = calls(archive_code(), &mut found);
    file.push_str(VERSION);
    text.push_str("assertion failed at");
    for offset in &found[..count] {
        // What is too long is cut.
        let _ = write!(text, " +{offset:#x}");
    }
    0
}

/// What the panic says.
#[cfg(wavetrain_panic_texts)]
fn describe(info: &PanicInfo<'_>, file: &mut Text<FILE_BYTES>, text: &mut Text<LINE_BYTES>) -> u32 {
    let _ = write!(text, "{}", info.message());
    info.location().map_or(0, |location| {
        file.push_str(location.file());
        location.line()
    })
}

fn c_string(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
}

fn abort() -> ! {
    // SAFETY: abort takes nothing and may be called from any thread in any state.
    unsafe { libc::abort() }
}

/// Rust's own core is compiled for unwinding and names this function in its unwind tables. Nothing
/// of ours unwinds; a C++ exception or a cancelled thread that comes through our frames would leave
/// locks taken behind it, so it ends here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() -> i32 {
    abort()
}
