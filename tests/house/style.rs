//! The house rules that a machine can check: line width, file and function length, no heap, no
//! unwrap, unsafe only where it belongs, no unfinished marks.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `unsafe` may stand: the surfaces, the config, tensors, the system, the CUDA driver, the
/// arena, zstd's calls, SIMD.
const UNSAFE: [&str; 21] = [
    "src/surface/c/",
    "src/surface/entries.rs",
    "src/surface/feed.rs",
    "src/surface/handles.rs",
    "src/surface/loader.rs",
    "src/os/",
    "src/cuda/",
    "src/base/arena.rs",
    "src/base/text.rs",
    "src/batch/exports.rs",
    "src/batch/shared/",
    "src/engine/segments.rs",
    "src/setup/config.rs",
    "src/setup/cpu_table.rs",
    "src/setup/field_table.rs",
    "src/setup/metadata_table.rs",
    "src/setup/share.rs",
    "src/state/claims.rs",
    "src/decode/zstd.rs",
    "src/simd/",
    "src/loops/simd/",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, endings, found);
        } else if endings.iter().any(|end| path.extension().is_some_and(|e| e == *end)) {
            found.push(path);
        }
    }
}

pub fn files(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    folders.iter().for_each(|folder| walk(&root().join(folder), endings, &mut paths));
    paths.sort();
    assert!(!paths.is_empty());
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The library's own lines: what stands before the tests of a file, comments cut off.
fn library_code() -> Vec<(String, usize, String)> {
    let mut lines = Vec::new();
    for (name, text) in files(&["src"], &["rs"]) {
        let is_test = name.ends_with("tests.rs") || name.starts_with("src/bin/");
        if is_test {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("#[cfg(test)]") {
                break;
            }
            let code = line.split("//").next().unwrap_or("");
            lines.push((name.clone(), number + 1, code.to_owned()));
        }
    }
    lines
}

fn refuse(found: Vec<String>, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

#[test]
fn lines_have_at_most_100_columns() {
    let wide = files(
        &["src", "tests", "include", "examples", "fuzz/bodies", "kernels"],
        &["rs", "c", "h", "cpp", "hpp", "cu", "cuh"],
    )
    .into_iter()
    .flat_map(|(name, text)| {
        let line = |(number, line): (usize, &str)| {
            (line.chars().count() > 100).then(|| format!("{name}:{}", number + 1))
        };
        text.lines().enumerate().filter_map(line).collect::<Vec<_>>()
    });
    refuse(wide.collect(), "wider than 100 columns");
}

#[test]
fn a_file_over_500_lines_says_why_at_its_head() {
    let folders = ["src", "kernels", "examples", "tests/c", "tests/cpp", "tests/cuda_sim"];
    let endings = ["rs", "c", "h", "cpp", "hpp", "cu", "cuh"];
    let long = files(&folders, &endings).into_iter().filter(|(_, text)| {
        let is_head = |line: &&str| ["//", "/*", " *"].iter().any(|start| line.starts_with(start));
        let trim = |line| str::trim_start_matches(line, ['/', '*', '!', ' ']);
        let head: Vec<&str> = text.lines().take_while(is_head).map(trim).collect();
        text.lines().count() > 500 && !head.join(" ").contains("500 lines")
    });
    refuse(long.map(|(name, _)| name).collect(), "over 500 lines without a reason");
}

#[test]
fn functions_have_at_most_60_lines() {
    let mut long = Vec::new();
    for (name, text) in files(&["src"], &["rs"]) {
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            let qualifiers =
                ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\""];
            let mut words = code.split(' ').skip_while(|word| qualifiers.contains(word));
            if words.next() != Some("fn") || line.ends_with(';') {
                continue;
            }
            let close = format!("{}}}", " ".repeat(indent));
            let end = lines[start..].iter().position(|line| **line == close).unwrap_or(0);
            if end + 1 > 60 {
                long.push(format!("{name}:{} ({} lines)", start + 1, end + 1));
            }
        }
    }
    refuse(long, "functions over 60 lines");
}

#[test]
fn the_library_has_no_heap_types_and_no_unwrap() {
    let words = ["Vec<", "Vec::", "Box<", "Box::", "String::", "Arc<", "Rc<", "format!(", "vec!["];
    let calls = [".unwrap()", ".expect(", concat!("to", "do!("), concat!("un", "implemented!(")];
    let found = library_code().into_iter().filter(|(_, _, code)| {
        let is_heap = words.iter().any(|word| {
            code.match_indices(word)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        });
        is_heap || calls.iter().any(|call| code.contains(call))
    });
    let found = found.map(|(name, line, code)| format!("{name}:{line}: {}", code.trim()));
    refuse(found.collect(), "heap types or unwraps in the library");
}

#[test]
fn unsafe_stands_only_where_it_belongs() {
    let found = library_code().into_iter().filter(|(name, _, code)| {
        let has = code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe");
        has && !UNSAFE.iter().any(|allowed| name.starts_with(allowed))
            // Types of the host's functions are declared with it, not called.
            && !code.contains("unsafe extern \"C\" fn")
    });
    let found = found.map(|(name, line, code)| format!("{name}:{line}: {}", code.trim()));
    refuse(found.collect(), "unsafe outside its modules");
}

#[test]
fn nothing_is_marked_unfinished() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let found = files(
        &["src", "tests", "include", "examples", "fuzz/bodies", "kernels"],
        &["rs", "c", "h", "cpp", "hpp", "cu", "cuh"],
    )
    .into_iter()
    .filter(|(_, text)| {
        let words = || text.split(|c: char| !c.is_alphanumeric());
        marks.iter().any(|mark| words().any(|word| word == *mark))
    })
    .map(|(name, _)| name);
    refuse(found.collect(), "unfinished marks");
}
