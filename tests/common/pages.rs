//! The documents, and the snippets of code in them.
//!
//! A snippet of C, C++, Python, Rust or a shell has a comment before it, with what a test does with
//! it:
//!
//!     <!-- test: run -->          it runs as it stands; the demo's arrays exist
//!     <!-- test: run torch -->    likewise, if Python has torch
//!     <!-- test: compile -->      it is compiled alone (C, C++)
//!     <!-- test: doctest -->      it is an example of the library's (Rust)
//!     <!-- test: by hand -->      it builds, installs or needs another program
//!     <!-- test: no -->           a part of a program
//!     <!-- test: test_NAME -->    a function of test_pages.py or test_engines_page.py runs it
//!
//! Lines of the comment after the first stand before the snippet when it is tested, and those after
//! a line "..." stand after it. Python is compiled in any case.

use crate::common::header::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Languages whose snippets must have a mark.
pub const LANGUAGES: [&str; 5] = ["c", "cpp", "python", "rust", "sh"];

/// A snippet of a page.
#[derive(Debug)]
pub struct Snippet {
    /// The page and the line, for messages.
    pub at: String,
    pub language: String,
    /// Without "test: ".
    pub mark: String,
    /// With the hidden lines around it.
    pub code: String,
}

/// README.md, python/README.md and all pages of docs/, by their names.
pub fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_string(), "python/README.md".to_string()];
    add_pages(Path::new("docs"), &mut names);
    names.sort();
    let text = |name: &String| fs::read_to_string(root().join(name)).unwrap();
    names.iter().map(|name| (name.clone(), text(name))).collect()
}

fn add_pages(folder: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let name = folder.join(entry.unwrap().file_name());
        if root().join(&name).is_dir() {
            add_pages(&name, names);
        } else if name.extension().is_some_and(|ending| ending == "md") {
            names.push(name.to_str().unwrap().to_string());
        }
    }
}

/// The snippets of all pages.
pub fn snippets() -> Vec<Snippet> {
    pages().iter().flat_map(|(page, text)| snippets_of(page, text)).collect()
}

fn snippets_of(page: &str, text: &str) -> Vec<Snippet> {
    let (mut found, mut mark): (Vec<Snippet>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(begun) = line.strip_prefix("<!-- test: ") {
            mark = vec![begun.trim_end_matches("-->").trim()];
            if !begun.ends_with("-->") {
                mark.extend(lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "-->"));
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let mut hidden = mark.get(1..).unwrap_or_default().splitn(2, |line| *line == "...");
            let mut around = || hidden.next().unwrap_or_default();
            let code = [around(), &body, around()].concat().join("\n") + "\n";
            let mark = mark.first().unwrap_or(&"").to_string();
            let at = format!("{page}:{}", number + 1);
            found.push(Snippet { at, language: language.to_string(), mark, code });
        } else if line.is_empty() {
            continue;
        }
        if !line.starts_with("<!-- test: ") {
            mark.clear();
        }
    }
    found
}

/// Snippets of a language with a mark; there is at least one.
pub fn marked(language: &str, mark: &str) -> Vec<Snippet> {
    let mut found = snippets();
    found.retain(|snippet| snippet.language == language && snippet.mark == mark);
    assert!(!found.is_empty(), "no snippet of {language} is to {mark}");
    found
}

/// Arrays of the shape and type of the demo's in $HOME/.cache/wavetrain/demo, all fill value.
pub fn write_demo(home: &Path) -> PathBuf {
    let store = home.join(".cache/wavetrain/demo");
    for (name, data_type) in [("bodies", "uint16"), ("fibres", "uint16"), ("mask", "uint8")] {
        let document = format!(
            r#"{{"zarr_format": 3, "node_type": "array", "shape": [192, 512, 512],
            "data_type": "{data_type}", "fill_value": 7,
            "chunk_key_encoding": {{"name": "default"}},
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [32, 64, 64]}}}},
            "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}}"#
        );
        fs::create_dir_all(store.join(name)).unwrap();
        fs::write(store.join(name).join("zarr.json"), document).unwrap();
    }
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    fs::write(store.join("zarr.json"), group).unwrap();
    store
}
