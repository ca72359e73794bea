//! What a ring takes from the system it gives back. Each in a process of its own, because
//! descriptors and mappings are counted by the process.

use crate::common::alone::alone;
use std::fs;
use wavetrain::os::uring::Ring;
use wavetrain::os::{Errno, SYSTEM};

/// Open descriptors, and mappings of rings.
fn taken() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let rings = maps.lines().filter(|line| line.contains("io_uring")).count();
    (fs::read_dir("/proc/self/fd").unwrap().count(), rings)
}

fn is_supported() -> bool {
    match Ring::open(&SYSTEM, 1) {
        Ok(mut ring) => ring.close().is_ok(),
        Err(errno) => {
            eprintln!("skipped: no io_uring here: {errno}");
            assert!(matches!(errno, Errno(libc::ENOSYS | libc::EPERM)));
            false
        }
    }
}

#[test]
fn a_closed_ring_leaves_no_descriptor_and_no_mapping() {
    alone(|| {
        if !is_supported() {
            return;
        }
        let before = taken();
        let mut ring = Ring::open(&SYSTEM, 64).unwrap();
        assert_eq!(taken(), (before.0 + 2, before.1 + 2));
        ring.waker().wake();
        ring.wait().unwrap();
        ring.close().unwrap();
        assert_eq!(taken(), before);
    });
}

#[test]
fn a_ring_that_gets_no_eventfd_leaves_nothing() {
    alone(|| {
        if !is_supported() {
            return;
        }
        let before = taken();
        // The lowest free descriptor is the ring's, and the next one up is over the limit.
        let free = fs::File::open("/dev/null").unwrap();
        let lowest = std::os::fd::AsRawFd::as_raw_fd(&free) as u64;
        drop(free);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads and writes one rlimit each.
        let opened = unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            let few = libc::rlimit { rlim_cur: lowest + 1, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &few), 0);
            let opened = Ring::open(&SYSTEM, 8);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
            opened
        };
        assert_eq!(opened.err(), Some(Errno(libc::EMFILE)));
        assert_eq!(taken(), before);
    });
}

#[test]
fn the_ring_of_the_default_config_maps_what_the_header_says() {
    if !is_supported() {
        return;
    }
    let mut ring = Ring::open(&SYSTEM, 32).unwrap();
    assert!(ring.bytes() <= 16 << 10, "{}", ring.bytes());
    ring.close().unwrap();
}
