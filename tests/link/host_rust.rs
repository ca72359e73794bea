//! A Rust static library of the host, with std, threads and unwinding of its own.

use std::thread;

/// The sum of 0 to `count - 1`, taken by threads of which one panics.
#[unsafe(no_mangle)]
pub extern "C" fn host_rust_sum(count: u64) -> u64 {
    let parts = [0, 1].map(|part| thread::spawn(move || (part..count).step_by(2).sum::<u64>()));
    let caught = thread::spawn(|| std::panic::catch_unwind(|| panic!("the host's own"))).join();
    assert!(caught.is_ok_and(|inner| inner.is_err()));
    parts.into_iter().map(|part| part.join().unwrap()).sum()
}
