//! Nodes that are found on tables of machines.

use super::*;
use crate::os::SYSTEM;
use crate::setup::allotted::Allotted;
use crate::setup::config::Config;
use crate::setup::cpu_table::CpuTable;
use crate::setup::settings::settings_from_config;
use std::cell::RefCell;
use std::string::{String, ToString};
use std::vec::Vec;

/// A machine: files of sysfs, the mask of the thread that opens, its node.
#[derive(Clone, Default)]
struct Machine {
    files: Vec<(String, String)>,
    mask: &'static str,
    node: Option<u32>,
}

std::thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
}

static OS: Os = Os {
    read_system: |path, target, offset| {
        let path = std::str::from_utf8(path).unwrap().trim_end_matches('\0');
        MACHINE.with_borrow(|machine| {
            let file = machine.files.iter().find(|(name, _)| name == path);
            let text = file.ok_or(Errno(libc::ENOENT))?.1.as_bytes();
            let rest = &text[(offset as usize).min(text.len())..];
            let got = rest.len().min(target.len());
            target[..got].copy_from_slice(&rest[..got]);
            Ok(got)
        })
    },
    current_node: || MACHINE.with_borrow(|machine| machine.node).ok_or(Errno(libc::ENOSYS)),
    cpus: || {
        MACHINE.with_borrow(|machine| CpuSet::from_list(machine.mask).unwrap_or(CpuSet::EMPTY))
    },
    ..SYSTEM
};

const NODES: &str = "/sys/devices/system/node";

/// A machine whose nodes have these CPUs; the thread is on node 0 and may use all.
fn machine(memory: &str, cpus: &[&str]) -> Machine {
    let file = |name: &str, text: &str| (std::format!("{NODES}/{name}"), std::format!("{text}\n"));
    let last = cpus.len() - 1;
    let online = if last == 0 { "0".to_string() } else { std::format!("0-{last}") };
    let mut files = std::vec![file("online", &online), file("has_memory", memory)];
    for (node, cpus) in cpus.iter().enumerate() {
        files.push(file(&std::format!("node{node}/cpulist"), cpus));
    }
    Machine { files, mask: "0-63", node: Some(0) }
}

fn two() -> Machine {
    machine("0-1", &["0-3,8-11", "4-7,12-15"])
}

/// The placement of a config on a machine, or why it is refused.
fn found(machine: &Machine, strategy: u32, node: i32) -> Result<Numa, String> {
    found_of(machine, strategy, node, CpuTable::NONE)
}

/// The same with CPUs that the config names.
fn found_of(machine: &Machine, strategy: u32, node: i32, cpus: CpuTable) -> Result<Numa, String> {
    MACHINE.set(machine.clone());
    let mut config = Config { sample_rank: 1, numa_strategy: strategy, cpus, ..Config::default() };
    (config.sample_shape[0], config.numa_node) = (4, node);
    let (mut numa, mut why) = (Numa::OFF, Why::new());
    let settings = settings_from_config(&config, &Allotted::of(2), &mut why).unwrap();
    let found = numa.find(&OS, &settings, &mut why);
    found.map(|()| numa).map_err(|status| std::format!("{status}: {why}"))
}

/// The words, and the CPUs that threads keep to.
fn words(machine: &Machine, strategy: u32, node: i32) -> (String, String) {
    let numa = found(machine, strategy, node).unwrap();
    let cpus = numa.cpu_count().map(|_| numa.cpus.to_string());
    (numa.words(None).as_str().to_string(), cpus.unwrap_or_default())
}

fn pin(machine: &Machine, node: i32) -> (String, String) {
    words(machine, config::NUMA_PIN, node)
}

fn auto(machine: &Machine) -> (String, String) {
    words(machine, config::AUTO, -1)
}

fn pair(words: &str, cpus: &str) -> (String, String) {
    (words.to_string(), cpus.to_string())
}

#[test]
fn pin_takes_the_node_that_is_named() {
    assert_eq!(pin(&two(), 0), pair("NUMA node 0 of 2 by numa_node", "0-3,8-11"));
    assert_eq!(pin(&two(), 1), pair("NUMA node 1 of 2 by numa_node", "4-7,12-15"));
    let four = machine("0-3", &["0-15", "16-31", "32-47", "48-63"]);
    assert_eq!(pin(&four, 3), pair("NUMA node 3 of 4 by numa_node", "48-63"));
}

#[test]
fn auto_takes_the_node_of_the_thread() {
    let on = |node| Machine { node, ..two() };
    assert_eq!(auto(&on(Some(1))), pair("NUMA node 1 of 2 by the opening thread", "4-7,12-15"));
    let lost = pair("the NUMA node of the opening thread is not known", "");
    assert_eq!(auto(&on(None)), lost);
    let wrong = pair("NUMA node 4000000000 of the opening thread has no memory", "");
    assert_eq!(auto(&on(Some(4_000_000_000))), wrong);
}

#[test]
fn off_asks_for_nothing() {
    let nowhere = Machine::default();
    assert_eq!(words(&nowhere, config::NUMA_OFF, -1), pair("", ""));
}

#[test]
fn one_node_is_left_as_it_is() {
    let one = machine("0", &["0-7"]);
    assert_eq!(auto(&one), pair("one NUMA node", ""));
    assert_eq!(pin(&one, 0), pair("one NUMA node", ""));
}

#[test]
fn a_node_that_is_not_there_is_refused_with_those_that_are() {
    let text = |node| {
        let lack = "is not there or has no memory: choose one of";
        Err(std::format!("INVALID: numa_node = {node} {lack} 0-1"))
    };
    for node in [2, 63, 1023, 1024, i32::MAX] {
        assert_eq!(found(&two(), config::NUMA_PIN, node).map(|_| ()), text(node));
    }
    let one = found(&machine("0", &["0-7"]), config::NUMA_PIN, 1).map(|_| ());
    assert!(one.unwrap_err().ends_with("choose one of 0"));
}

#[test]
fn a_node_without_memory_is_refused_and_not_taken() {
    let bare = machine("0,2", &["0-3", "4-7", "8-11"]);
    let text = found(&bare, config::NUMA_PIN, 1).map(|_| ()).unwrap_err();
    assert!(text.ends_with("choose one of 0,2"), "{text}");
    let on_it = Machine { node: Some(1), ..bare };
    assert_eq!(auto(&on_it), pair("NUMA node 1 of the opening thread has no memory", ""));
}

#[test]
fn threads_of_a_node_without_cpus_keep_their_mask() {
    let memory_only = machine("0-1", &["0-7", ""]);
    let kept = "NUMA node 1 of 2 by numa_node; no CPU of it is for threads";
    assert_eq!(pin(&memory_only, 1), pair(kept, ""));
}

#[test]
fn a_mask_cuts_a_node() {
    let cut = |mask| Machine { mask, ..two() };
    assert_eq!(pin(&cut("2-4,9"), 0), pair("NUMA node 0 of 2 by numa_node", "2-3,9"));
    let apart = "NUMA node 0 of 2 by numa_node; no CPU of it is for threads";
    assert_eq!(pin(&cut("4-5"), 0), pair(apart, ""));
    // A machine with more CPUs than a set has room for.
    assert_eq!(pin(&cut(""), 0), pair(apart, ""));
}

#[test]
fn cpus_of_the_config_cut_a_node_in_place_of_the_mask() {
    let cpus = CpuTable::from_static(&[0xF0F6]);
    let cut = Machine { mask: "0", ..two() };
    let numa = found_of(&cut, config::NUMA_PIN, 0, cpus).unwrap();
    assert_eq!((numa.cpu_count(), numa.cpus.to_string()), (Some((0, 2)), "1-2".to_string()));
    let numa = found_of(&cut, config::NUMA_PIN, 1, cpus).unwrap();
    assert_eq!((numa.cpu_count(), numa.cpus.to_string()), (Some((1, 8)), "4-7,12-15".to_string()));
    let apart = found_of(&cut, config::NUMA_PIN, 1, CpuTable::from_static(&[0xF])).unwrap();
    assert_eq!(apart.cpu_count(), None);
}

#[test]
fn an_offline_node_is_not_there() {
    let mut offline = machine("0-3", &["0-3", "4-7", "8-11", "12-15"]);
    offline.files[0].1 = "0,2-3\n".to_string();
    assert_eq!(pin(&offline, 2), pair("NUMA node 2 of 3 by numa_node", "8-11"));
    let text = found(&offline, config::NUMA_PIN, 1).map(|_| ()).unwrap_err();
    assert!(text.ends_with("choose one of 0,2-3"), "{text}");
}

#[test]
fn files_that_are_not_known_place_nothing() {
    let with = |number: usize, text: &str| {
        let mut machine = two();
        machine.files[number].1 = text.to_string();
        machine
    };
    for text in ["", "\n", "0-99999999999999999999\n", "x\n", "0-", "\u{1F980}\n"] {
        assert_eq!(auto(&with(0, text)), pair("NUMA nodes are not known", ""), "{text:?}");
        assert_eq!(pin(&with(0, text), 1), pair("NUMA nodes are not known", ""));
    }
    let long = std::format!("{}\n", "0,".repeat(100_000));
    assert_eq!(auto(&with(0, &long)).1, "");
    // Kernels without has_memory: nodes that are online have some.
    assert_eq!(pin(&with(1, "x\n"), 1).1, "4-7,12-15");
    let words = "NUMA node 1 of 2 by numa_node; no CPU of it is for threads";
    assert_eq!(pin(&with(3, "4-\n"), 1), pair(words, ""));
    assert_eq!(pin(&Machine::default(), 7), pair("NUMA nodes are not known", ""));
}

#[test]
fn the_words_have_what_the_system_refused() {
    let mut numa = found(&two(), config::NUMA_PIN, 1).unwrap();
    numa.unbound = Some(Errno(libc::EPERM));
    let text = numa.words(Some(Errno(libc::EINVAL)));
    let expected = "NUMA node 1 of 2 by numa_node; memory is not bound: errno 1; \
                    threads are not kept: errno 22";
    assert_eq!(text.as_str(), expected);
    (numa.found, numa.nodes, numa.by) = (Found::Node(1023), 1024, "the opening thread");
    let errno = Some(Errno(-4095));
    numa.unbound = errno;
    assert!(!numa.words(errno).is_cut(), "{}", numa.words(errno));
}
