//! The README's whole C++ snippets compile against the headers as they stand. (Its Rust snippet is
//! a doctest of the library.)

use crate::common::cc;
use std::path::Path;
use std::process::Command;

/// What the reader of the first snippet brings along.
const READER: &str = "
#include <cstdint>
#include \"wavetrain.hpp\"
int fail(const char *text);
void train(wavetrain::span<float> voxels, wavetrain::span<const std::uint64_t> shape,
           wavetrain::span<const std::uint64_t> tags);
";

/// What that of the one about epochs does: the body of a function.
const EPOCHS: &str = "
#include \"wavetrain.hpp\"
#include \"wavetrain_epoch.h\"
void train(const wavetrain::batch &batch);
wavetrain::sample box_of(std::uint64_t index);
void train(wavetrain::loader &loader, const wavetrain::config &config, wavetrain_boxes boxes,
           std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks,
           wavetrain_epoch_state checkpoint);
void train(wavetrain::loader &loader, const wavetrain::config &config, wavetrain_boxes boxes,
           std::uint64_t seed, std::uint32_t rank, std::uint32_t ranks,
           wavetrain_epoch_state checkpoint) {
";

/// What that of the one about recipes does: the body of a function.
const RECIPES: &str = "
#include \"wavetrain_recipes.h\"
int fail(const char *text);
void augment_one(wavetrain_box &picture, std::uint64_t seed, wavetrain_place place);
void augment_one(wavetrain_box &picture, std::uint64_t seed, wavetrain_place place) {
";

fn compiles(stem: &str, source: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(compiler) = cc::find("a C++ compiler", &["c++", "g++", "clang++"]) else { return };
    let path = cc::folder(&format!("readme-{stem}")).join("snippet.cpp");
    std::fs::write(&path, source).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-fno-exceptions", "-fno-rtti"]);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-I"]);
    command.arg(root.join("include")).arg(&path).arg("-o").arg(path.with_extension("o"));
    cc::run(&mut command);
}

/// The snippet of the README that has these words.
fn snippet(words: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut snippets = readme.split("```cpp\n").skip(1).filter_map(|rest| rest.split("```").next());
    snippets.find(|text| text.contains(words)).expect(words).to_owned()
}

#[test]
fn the_cpp_snippets_of_the_readme_compile() {
    compiles("stream", &format!("{READER}{}", snippet("wavetrain::loader::open")));
    compiles("epochs", &format!("{EPOCHS}{}}}\n", snippet("wavetrain::make_epochs")));
    let recipes = snippet("wavetrain_recipe_begin");
    compiles("recipes", &format!("#include <cstdint>{RECIPES}{recipes}}}\n"));
}

#[test]
fn the_readme_links_to_three_pages_at_most() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let is_code = |number: &usize| number % 2 == 1;
    let prose = readme.split("```").enumerate().filter(|(number, _)| !is_code(number));
    let targets: Vec<&str> = prose
        .flat_map(|(_, text)| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect();
    for target in &targets {
        assert!(root.join(target).is_file(), "{target}");
    }
    let pages = targets.iter().filter(|target| !target.ends_with(".svg")).count();
    assert!((1..=3).contains(&pages), "{targets:?}");
}

/// The sources that tell of devices, with texts that go over several lines made one.
fn device_sources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("src/engine/ways_out.rs")];
    let folder = std::fs::read_dir(root.join("src/cuda")).unwrap();
    paths.extend(folder.map(|entry| entry.unwrap().path()));
    let mut text = String::new();
    for path in paths {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            match line.trim().strip_suffix('\\') {
                Some(begun) => text.push_str(begun),
                None => text = text + line.trim() + "\n",
            }
        }
    }
    text
}

#[test]
fn error_texts_of_the_section_on_gpus_are_those_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split_once("## On a GPU").unwrap().1.split_once("\n## ").unwrap().0;
    let texts: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | ").map(|(text, _)| text))
        .filter(|text| *text != "text")
        .collect();
    assert!(texts.len() >= 8, "{texts:?}");
    let sources = device_sources();
    for text in texts {
        for part in text.split("..") {
            assert!(sources.contains(part.trim()), "{part:?} of {text:?}");
        }
    }
}

#[test]
fn the_readme_names_every_codec_that_is_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split_once("## What it reads today").unwrap().1;
    let section = section.split_once("\n## ").unwrap().0;
    for row in &wavetrain::records::CODECS {
        assert!(section.contains(&format!("`{}`", row.name)), "{} is not in README.md", row.name);
    }
}
