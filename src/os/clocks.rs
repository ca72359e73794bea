//! The clocks.
//!
//! In: nothing. Out: nanoseconds.

pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

pub fn tick_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC_COARSE)
}

pub fn wall_tick_ns() -> i64 {
    read_clock(libc::CLOCK_REALTIME_COARSE) as i64
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec. These clocks always exist.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    assert!(failed == 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
