//! The rooms of the library and the arrows between them: who may name whom. src/lib.rs draws it.
//!
//! A room is a folder of src. It names only rooms that stand further down in the list, so there is
//! no circle. An import that is not in the list fails here, and so does an arrow that nobody uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and the rooms that it names, top to bottom.
const ROOMS: &[(&str, &str)] = &[
    // What callers touch.
    (
        "surface/c",
        "surface engine jobs/read jobs setup source/zarr batch records recipes sampler cuda os \
         simd base",
    ),
    ("surface", "engine jobs setup source source/zarr source/json batch records cuda os simd base"),
    // Who works, and when.
    (
        "engine",
        "jobs/plan jobs/read jobs finish state setup intake source source/zarr batch decode \
         resample wave records cuda os simd base",
    ),
    // The kinds of work.
    (
        "jobs/plan",
        "jobs state setup intake assemble chunk_cache decode plan read resample wave records os \
         base",
    ),
    ("jobs/read", "jobs state setup device read wave records simd os base"),
    (
        "jobs",
        "finish state setup intake source source/zarr assemble batch decode device read resample \
         wave records cuda os base",
    ),
    ("finish", "state assemble batch device records cuda os loops base"),
    // What the lock guards.
    (
        "state",
        "setup intake source assemble batch chunk_cache decode device read resample wave records \
         cuda os base",
    ),
    // What is decided once, what was pushed, and how a name becomes an array.
    ("setup", "assemble batch chunk_cache device records cuda base"),
    ("intake", "records base"),
    ("source", "source/flat source/zarr read records os base"),
    ("source/flat", "source/zarr records base"),
    ("source/zarr", "source/json assemble records loops base"),
    ("source/json", "base"),
    // The stages share records and never name each other.
    ("assemble", "records simd loops base"),
    ("batch", "records base"),
    ("chunk_cache", "base"),
    ("decode", "records loops base"),
    ("device", "cuda base"),
    ("plan", "records base"),
    ("read", "records os loops base"),
    ("resample", "records simd loops base"),
    ("wave", "records os base"),
    // Beside the flow: the order in which a caller pushes, and what it draws for each box. The C
    // surface alone names them.
    ("recipes", "sampler base"),
    ("sampler", "loops base"),
    // The floor.
    ("cuda", "os base"),
    ("os", "loops base"),
    ("simd", "loops records base"),
    ("loops", "records"),
    ("records", "base"),
    ("base", ""),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The room of a path or of a module, whose parts are apart by slashes.
fn room(path: &str) -> Option<&'static str> {
    let is_in = |name: &str| {
        path == name || path.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
    };
    ROOMS.iter().map(|(name, _)| *name).filter(|name| is_in(name)).max_by_key(|name| name.len())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The library's files: their paths below src, and their code without comments and tests.
fn library() -> Vec<(String, String)> {
    let mut files = Vec::new();
    walk(&source(), &mut files);
    files.sort();
    let name = |path: &Path| path.strip_prefix(source()).unwrap().to_str().unwrap().to_owned();
    let is_library = |name: &String| {
        !name.starts_with("bin/") && !name.ends_with("tests.rs") && name != "lib.rs"
    };
    let code = |name: &String| {
        let text = fs::read_to_string(source().join(name)).unwrap();
        let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        lines.map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
    };
    files
        .iter()
        .map(|path| name(path))
        .filter(is_library)
        .map(|name| (name.clone(), code(&name)))
        .collect()
}

/// The modules that a piece of code names from the root of the crate, parts apart by slashes.
fn named(code: &str) -> Vec<String> {
    let part = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    code.split("crate::")
        .skip(1)
        .map(|rest| {
            let first = part(rest);
            match rest[first.len()..].strip_prefix("::") {
                Some(rest) => format!("{first}/{}", part(rest)),
                None => first,
            }
        })
        .collect()
}

#[test]
fn each_room_names_only_the_rooms_of_its_arrows() {
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, code) in library() {
        let Some(here) = room(&name) else {
            wrong.push(format!("src/{name} is in no room"));
            continue;
        };
        let arrows = ROOMS.iter().find(|(name, _)| *name == here).unwrap().1;
        for module in named(&code) {
            // A macro or a name that lib.rs hands on is of no room.
            let Some(there) = room(&module) else {
                if !matches!(module.as_str(), "fail" | "status" | "abi") {
                    wrong.push(format!("src/{name} names crate::{module}, which is in no room"));
                }
                continue;
            };
            if there == here {
                continue;
            }
            used.entry(here).or_default().insert(there);
            if !arrows.split(' ').any(|arrow| arrow == there) {
                wrong.push(format!("src/{name}: {here} may not name {there}"));
            }
        }
        if code.contains("super::super") {
            wrong.push(format!("src/{name} names a grandparent: write the path from crate"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (name, arrows) in ROOMS {
        for arrow in arrows.split_terminator(' ') {
            let is_used = used.get(name).is_some_and(|used| used.contains(arrow));
            assert!(is_used, "nobody in {name} names {arrow}: take the arrow out of the list");
        }
    }
}

#[test]
fn all_arrows_run_downwards() {
    for (number, (name, arrows)) in ROOMS.iter().enumerate() {
        for arrow in arrows.split_terminator(' ') {
            let below = ROOMS[number + 1..].iter().any(|(name, _)| name == &arrow);
            assert!(below, "{arrow} does not stand below {name}");
        }
    }
}

/// Rooms whose files can be read one by one, in an order: none names another in a circle. The
/// names of a mod.rs count for none.
const IN_ORDER: [&str; 11] = [
    "engine",
    "jobs/read",
    "jobs",
    "state",
    "intake",
    "source",
    "source/zarr",
    "source/flat",
    "read",
    "decode",
    "device",
];

#[test]
fn files_of_these_rooms_name_each_other_in_no_circle() {
    for here in IN_ORDER {
        let stem = |name: &str| name[here.len() + 1..].trim_end_matches(".rs").to_owned();
        let files = library()
            .into_iter()
            .filter(|(name, _)| room(name) == Some(here) && !name.ends_with("mod.rs"));
        let mut names: BTreeMap<String, BTreeSet<String>> = files
            .map(|(name, code)| {
                let prefix = format!("crate::{}::", here.replace('/', "::"));
                let parts = code.split(&prefix).skip(1).flat_map(|rest| {
                    let end = if rest.starts_with('{') { '}' } else { ';' };
                    let list = rest.split(end).next().unwrap().to_owned();
                    let is_list = end == '}';
                    let words = list.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
                    words.take(if is_list { usize::MAX } else { 1 }).collect::<Vec<_>>()
                });
                (stem(&name), parts.collect())
            })
            .collect();
        assert!(!names.is_empty(), "{here} has no files");
        // Files that name no other one that is left are read first.
        loop {
            let known: BTreeSet<String> = names.keys().cloned().collect();
            names.retain(|name, named| named.iter().any(|it| it != name && known.contains(it)));
            if names.len() == known.len() {
                break;
            }
        }
        assert!(names.is_empty(), "{here}: a circle among {names:?}");
    }
}

#[test]
fn every_room_is_there_and_says_what_it_is() {
    for (name, _) in ROOMS {
        let head = fs::read_to_string(source().join(name).join("mod.rs")).unwrap();
        assert!(head.starts_with("//! "), "src/{name}/mod.rs says nothing at its head");
    }
}
