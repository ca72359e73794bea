//! Every module whose code can still panic in the archive says what keeps data from doing it.
//!
//! tools/panics.sh finds the calls; tests/data/panics.txt holds a line per module. A machine
//! without gcc or binutils skips, and says so.

use crate::common::{cc, header, pack};
use std::collections::BTreeMap;

/// What is compiled in beside the library, and has lines too.
const CRATES: [&str; 2] = ["core", "arrayvec"];

/// Calls of each kind by module, as tools/panics.sh counts them; None where a tool is missing.
fn calls() -> Option<BTreeMap<String, BTreeMap<String, u64>>> {
    for tool in ["gcc", "ld", "ar", "readelf", "objcopy", "objdump", "addr2line"] {
        cc::find(tool, &[tool])?;
    }
    let mut script = pack::script("panics.sh");
    let text = cc::run(script.env("CARGO_TARGET_DIR", pack::build_folder_of_flags()));
    let mut calls: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [count, module, kind] = words[..] else { panic!("{line}") };
        let kinds = calls.entry(module.to_string()).or_default();
        *kinds.entry(kind.to_string()).or_default() += count.parse::<u64>().unwrap();
    }
    Some(calls)
}

/// The invariants by module: everything behind the first empty line.
fn invariants() -> BTreeMap<&'static str, &'static str> {
    let text = include_str!("../data/panics.txt").split_once("\n\n").unwrap().1;
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let (module, invariant) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
        assert!(invariant.len() > 20, "{module}: a sentence, not a word");
        assert!(found.insert(module, invariant).is_none(), "{module} has two lines");
    }
    found
}

#[test]
fn every_module_that_can_panic_names_the_invariant_that_keeps_data_from_it() {
    let Some(calls) = calls() else { return };
    let invariants = invariants();
    let mut bare = Vec::new();
    for (module, kinds) in &calls {
        let counts: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        match invariants.get(module.as_str()) {
            Some(invariant) => println!("{module} ({}): {invariant}", counts.join(", ")),
            None => bare.push(format!("{module} ({})", counts.join(", "))),
        }
    }
    let total: u64 = calls.values().flat_map(BTreeMap::values).sum();
    println!("{total} calls in {} modules", calls.len());
    assert!(
        bare.is_empty(),
        "panicking calls without an invariant: read `tools/panics.sh -v`, make them checked, or \
         say in tests/data/panics.txt what keeps data from them:\n{}",
        bare.join("\n")
    );
}

#[test]
fn no_invariant_is_left_of_a_module_that_is_gone() {
    let root = header::root().join("src");
    for module in invariants().into_keys() {
        let path = root.join(module.replace("::", "/"));
        let is_there = path.with_extension("rs").exists() || path.join("mod.rs").exists();
        assert!(is_there || CRATES.contains(&module), "{module} is no module");
    }
}
