//! Files of sysfs of any content, and the calls on the machine that runs the tests.

use super::*;
use crate::os::SYSTEM;
use std::cell::RefCell;
use std::vec::Vec;

std::thread_local! {
    /// The path and the bytes of the one file that there is.
    static FILE: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
}

/// A system with one file.
static OS: Os = Os {
    read_system: |path, target, offset| {
        FILE.with_borrow(|(name, bytes)| {
            let rest = &bytes[(offset as usize).min(bytes.len())..];
            let got = rest.len().min(target.len());
            target[..got].copy_from_slice(&rest[..got]);
            if name == path { Ok(got) } else { Err(Errno(libc::ENOENT)) }
        })
    },
    ..SYSTEM
};

#[test]
fn cpus_of_a_node_are_listed_or_not_known() {
    let path = b"/sys/devices/system/node/node3/cpulist\0";
    for (text, cpus) in [("4-5,9\n", Some("4-5,9")), ("x\n", None), ("", None)] {
        FILE.set((path.to_vec(), text.into()));
        assert_eq!(cpus_of(&OS, 3), cpus.map(|list| CpuSet::from_list(list).unwrap()), "{text:?}");
    }
    assert_eq!(cpus_of(&OS, 4), None);
}

#[test]
fn the_node_of_a_pci_address_is_a_number_or_none() {
    let path = b"/sys/bus/pci/devices/0000:3b:00.0/numa_node\0";
    for (text, node) in [
        ("1\n", Some(1)),
        ("0\n", Some(0)),
        ("-1\n", None),
        ("", None),
        ("1", Some(1)),
        ("x\n", None),
        ("99999999999\n", None),
        ("1111111111111111111111111111\n", None),
        ("\u{661}\n", None),
    ] {
        FILE.set((path.to_vec(), text.into()));
        assert_eq!(node_of_pci(&OS, "0000:3b:00.0"), node, "{text:?}");
    }
    assert_eq!(node_of_pci(&OS, "0000:3c:00.0"), None);
}

/// A container may forbid these calls; if it allows one, it allows all.
#[test]
fn a_policy_is_set_while_preferred_lives_and_then_as_before() {
    let Ok(before) = memory_policy() else {
        return std::println!("skipped: get_mempolicy is refused");
    };
    let node = current_node().unwrap();
    {
        let _preferred = Preferred::enter(&SYSTEM, node).unwrap();
        assert_eq!(memory_policy(), Ok(Policy::preferred(node)));
    }
    assert_eq!(memory_policy(), Ok(before));
    let block = (SYSTEM.map)(1 << 20).unwrap();
    assert_eq!(bind_memory(block, 1 << 20, &Policy::preferred(node)), Ok(()));
    assert!(bind_memory(block, 1 << 20, &Policy::preferred(8191)).is_err());
    (SYSTEM.unmap)(block, 1 << 20);
}
