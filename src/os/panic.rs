//! What happens in the archive when an assertion of ours fails: the hosts' fatal hooks, a line on
//! stderr if they return, then abort.
//!
//! In: a panic. Out: nothing returns. No allocation, no lock and no thread-local memory, because
//! the thread that panics may hold any of ours. A Rust host links the rlib and keeps its own
//! handler.
//!
//! What a panic says of itself, its text and its line, is a sixth of an archive that has it: as
//! nobody looks at it here, the compiler leaves it out, and calls of one function that differ in
//! nothing else become one. What remains is where the defect was met ([`crate::os::calls`]), which
//! the object with names and lines translates (UNSTRIPPED of tools/archive.sh). `--cfg
//! wavetrain_panic_texts` keeps all of it, for tools/panics.sh, which counts the calls.

use crate::base::text::Text;
use crate::os::{SYSTEM, fatal, sleep_forever};
use core::ffi::CStr;
use core::panic::PanicInfo;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// Bytes of the line; a longer message is cut.
const LINE_BYTES: usize = 1024;

/// What the line starts with.
const HEAD: &str = concat!(
    "wavetrain ",
    env!("CARGO_PKG_VERSION"),
    ": a defect of the library, please report it: "
);

/// What hooks get for a file's name: the library and its version.
const FILE: &[u8] = concat!("wavetrain ", env!("CARGO_PKG_VERSION"), "\0").as_bytes();

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
    let mut line = Text::<LINE_BYTES>::new();
    line.push_str(HEAD);
    describe(info, &mut line);
    let text = line.as_bytes_nul().get(HEAD.len()..).unwrap_or(b"\0");
    fatal::HOOKS.call_all(c_string(FILE), 0, c_string(text));
    line.push_str("\n");
    (SYSTEM.write_stderr)(line.as_bytes());
    abort()
}

/// Where the defect was met.
#[cfg(not(wavetrain_panic_texts))]
fn describe(_: &PanicInfo<'_>, line: &mut Text<LINE_BYTES>) {
    use crate::os::calls::{CALLS_MAX, archive_code, calls};
    let mut found = [0; CALLS_MAX];
    let count = calls(archive_code(), &mut found);
    line.push_str("assertion failed at");
    for offset in found.iter().take(count) {
        // What is too long is cut.
        write!(line, " +{offset:#x}");
    }
}

/// What the panic says.
#[cfg(wavetrain_panic_texts)]
fn describe(info: &PanicInfo<'_>, line: &mut Text<LINE_BYTES>) {
    // What is too long is cut.
    write!(line, "{info}");
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
