//! What happens in the archive when an assertion of ours fails: one line on stderr, then abort.
//!
//! In: the message of the panic. Out: nothing returns. No allocation and no lock, because the
//! thread that panics may hold any of ours. A Rust host links the rlib and keeps its own handler.

use crate::base::text::Text;
use crate::os::SYSTEM;
use core::fmt::Write;
use core::panic::PanicInfo;

/// Bytes of the line; a longer message is cut.
const LINE_BYTES: usize = 1024;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut line = Text::<LINE_BYTES>::new();
    // A line that is cut at its capacity still says where.
    let _ = writeln!(line, "wavetrain: a defect of the library, please report it: {info}");
    (SYSTEM.write_stderr)(line.as_bytes());
    // SAFETY: abort takes nothing and may be called from any thread in any state.
    unsafe { libc::abort() }
}

/// Rust's own core is compiled for unwinding and names this function in its unwind tables. Nothing
/// of ours unwinds; a C++ exception or a cancelled thread that comes through our frames would leave
/// locks taken behind it, so it ends here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() -> i32 {
    // SAFETY: as in `panic`.
    unsafe { libc::abort() }
}
