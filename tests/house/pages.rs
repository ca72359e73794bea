//! README.md and the pages of docs/: snippets, links, generated pages, and facts of the code that
//! they state. What `tests/common/pages.rs` calls "run" is run by tests/ship, tests/tool and
//! tests/python.

use crate::common::cc;
use crate::common::header::root;
use crate::common::pages::{self, LANGUAGES, Snippet, marked, pages, snippets};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn text_of(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

// ---- Snippets -----------------------------------------------------------------------------------

#[test]
fn every_snippet_says_what_a_test_does_with_it() {
    let python = ["test_pages", "test_engines_page"]
        .map(|name| text_of(&format!("tests/python/{name}.py")))
        .concat();
    let library = text_of("src/lib.rs");
    for Snippet { at, language, mark, .. } in snippets() {
        assert!(!language.is_empty(), "{at}: a snippet without a language");
        if !LANGUAGES.contains(&language.as_str()) {
            continue;
        }
        let is_right = match mark.as_str() {
            "run" => language != "rust",
            "run torch" => language == "python",
            "compile" => language == "c" || language == "cpp",
            "doctest" => {
                let page = at.split(':').next().unwrap();
                library.contains(&format!("include_str!(\"../{page}\")"))
            }
            "by hand" => language == "sh",
            "no" => true,
            name => name.starts_with("test_") && python.contains(&format!("def {name}(")),
        };
        let is_plain = language == "sh" && at.starts_with("README.md") && mark.is_empty();
        assert!(is_right || is_plain, "{at}: {language} with the mark {mark:?}");
    }
}

fn compiles(snippet: &Snippet, compiler: &str, flags: &[&str]) {
    let stem = snippet.at.replace(['/', ':', '.'], "-");
    let source =
        cc::folder(&format!("page-{stem}")).join("snippet").with_extension(&snippet.language);
    std::fs::write(&source, &snippet.code).unwrap();
    let mut command = Command::new(compiler);
    command.args(flags).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"]);
    cc::run(command.arg(root().join("include")).arg(&source));
}

#[test]
fn snippets_of_cpp_compile() {
    let Some(compiler) = cc::find("a C++ compiler", &["c++", "g++", "clang++"]) else { return };
    for snippet in marked("cpp", "run").iter().chain(&marked("cpp", "compile")) {
        compiles(snippet, &compiler, &["-std=c++17", "-fno-exceptions", "-fno-rtti"]);
    }
}

#[test]
fn snippets_of_c_compile() {
    let Some(compiler) = cc::find("a C compiler", &["cc", "gcc", "clang"]) else { return };
    for snippet in marked("c", "run") {
        compiles(&snippet, &compiler, &["-std=c99"]);
    }
}

#[test]
fn hidden_lines_stand_around_a_snippet() {
    let folder = cc::folder("page-hidden");
    let store = pages::write_demo(&folder);
    assert!(store.join("mask/zarr.json").is_file());
    let hidden =
        snippets().into_iter().find(|snippet| snippet.code.contains("make_epochs")).unwrap();
    assert!(hidden.code.starts_with("#include") && hidden.code.ends_with("}\n"), "{}", hidden.code);
}

// ---- Links --------------------------------------------------------------------------------------

/// A page without its code.
fn prose(text: &str) -> String {
    let is_code = |number: &usize| number % 2 == 1;
    let parts = text.split("```").enumerate().filter(|(number, _)| !is_code(number));
    parts.map(|(_, part)| part).collect()
}

/// The name that a heading has in a link.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().trim().replace(' ', "-")
}

/// The page or file that a link of `page` names, without "..".
fn target_of(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut all = pages();
    for name in ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benches/log/README.md"] {
        all.push((name.to_string(), text_of(name)));
    }
    let anchors: BTreeMap<&str, Vec<String>> = all
        .iter()
        .map(|(name, text)| {
            let text = prose(text);
            let headings = text.lines().filter(|line| line.starts_with('#'));
            (name.as_str(), headings.map(anchor).collect())
        })
        .collect();
    let mut count = 0;
    for (page, text) in &all {
        let text = prose(text);
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { target_of(page, file) };
            assert!(root().join(&target).is_file(), "{page}: {link}");
            let places = anchors.get(target.as_str());
            let is_there = || places.is_some_and(|places| places.iter().any(|name| name == place));
            assert!(place.is_empty() || is_there(), "{page}: {link} has no such heading");
            count += 1;
        }
    }
    assert!(count > 150, "{count} links");
}

#[test]
fn every_page_is_in_the_navigation() {
    let navigation = text_of("mkdocs.yml");
    for (page, _) in pages() {
        let Some(name) = page.strip_prefix("docs/") else { continue };
        assert!(navigation.contains(&format!(": {name}\n")), "mkdocs.yml has not {name}");
    }
}

// ---- Facts --------------------------------------------------------------------------------------

#[test]
fn the_readme_has_at_most_150_lines() {
    let readme = text_of("README.md");
    let lines = readme.lines().count();
    assert!((60..=150).contains(&lines), "{lines}");
    assert!(readme.lines().any(|line| line == "cargo test --workspace --features cli"));
}

#[test]
fn generated_pages_and_figures_are_those_of_their_scripts() {
    let Some(python) = cc::find("python3", &["python3"]) else { return };
    for script in ["tools/reference.py", "tools/figures.py"] {
        cc::run(Command::new(&python).arg("-B").arg(root().join(script)).arg("--check"));
    }
}

/// The sources with the texts about devices, those over several lines made one.
fn device_sources() -> String {
    let mut paths = vec![root().join("src/engine/ways_out.rs")];
    let folder = std::fs::read_dir(root().join("src/cuda")).unwrap();
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
fn error_texts_of_the_page_on_devices_are_those_of_the_library() {
    let page = text_of("docs/guide/devices.md");
    let section = page.split_once("## Messages").unwrap().1.split_once("\n## ").unwrap().0;
    assert_texts_of(section, 8, &device_sources());
}

/// The first cells of a table are texts of the sources; ".." is a gap.
fn assert_texts_of(section: &str, least: usize, sources: &str) {
    let texts: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | ").map(|(text, _)| text))
        .filter(|text| *text != "text")
        .collect();
    assert!(texts.len() >= least, "{texts:?}");
    for text in texts {
        for part in text.split("..") {
            assert!(sources.contains(part.trim()), "{part:?} of {text:?}");
        }
    }
}

#[test]
fn texts_of_pop_and_of_the_limit_are_those_of_the_library() {
    let mut sources = String::new();
    for folder in ["src/engine", "src/state"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let page = text_of("docs/troubleshooting.md");
    let section = page.split_once("### STARVED").unwrap().1.split_once("\n### ").unwrap().0;
    assert_texts_of(section, 4, &sources);
    let tuning = text_of("docs/tuning.md");
    let table = tuning.split_once("## By the text of the limit").unwrap().1;
    let rows = table.split_once("\n## ").unwrap().0.lines().filter(|line| line.starts_with("| `"));
    let begun: Vec<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split(", ")).collect();
    assert!(begun.len() >= 12, "{begun:?}");
    for text in begun {
        let text = text.trim().trim_matches('`');
        assert!(sources.contains(text), "{text:?}");
    }
}

#[test]
fn the_page_on_formats_names_every_codec_that_is_read() {
    let page = text_of("docs/formats.md");
    let section = page.split_once("## Codecs and filters").unwrap().1;
    let section = section.split_once("\n## ").unwrap().0;
    for row in &wavetrain::records::CODECS {
        assert!(section.contains(&format!("`{}`", row.name)), "{} is not in formats.md", row.name);
    }
}

#[test]
fn texts_of_troubleshooting_are_those_of_the_sources() {
    let page = text_of("docs/troubleshooting.md");
    let texts = |folder, ending, texts: fn(&str) -> Vec<String>| -> String {
        let files = crate::style::files(&[folder], &[ending]);
        files.iter().flat_map(|(_, text)| texts(text)).collect::<Vec<_>>().join("\n")
    };
    let rust = texts("src", "rs", crate::texts::of_rust);
    let sources = rust + &texts("python/wavetrain", "py", crate::texts::of_python);
    for (status, least) in [("STARVED", 4), ("INVALID", 5), ("NOT_FOUND", 4), ("UNSUPPORTED", 3)] {
        let section = page.split_once(&format!("### {status}\n")).unwrap().1;
        assert_texts_of(section.split_once("\n### ").unwrap().0, least, &sources);
    }
}

#[test]
fn every_status_has_causes_and_fixes() {
    let page = text_of("docs/troubleshooting.md");
    let errors = wavetrain::base::status::ALL.into_iter().map(|status| status.name());
    for status in errors.filter(|name| *name != "OK") {
        assert!(page.contains(&format!("\n### {status}\n")), "troubleshooting.md has not {status}");
    }
}

#[test]
fn the_log_of_measurements_lists_its_files() {
    let index = text_of("benches/log/README.md");
    for entry in std::fs::read_dir(root().join("benches/log")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "{name}");
    }
    let named = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '-').map(str::to_string);
        words.filter(|word| word.starts_with("2026-") && word.len() > 10).collect()
    };
    for (page, text) in pages() {
        for name in named(&text) {
            let path = Path::new("benches/log").join(&name).with_extension("md");
            assert!(root().join(&path).is_file(), "{page} names {name}");
        }
    }
}

#[test]
fn the_claim_and_its_table_are_those_of_the_log() {
    let log = text_of("benches/log/2026-11-29-36-lists.md");
    let claim = log.split_once("**Claim**: at least").unwrap().1.split_once("\n\n").unwrap().0;
    let numbers: Vec<&str> =
        claim.split_whitespace().filter(|word| word.parse::<f64>().is_ok()).collect();
    assert_eq!(numbers.len(), 4, "{claim}");
    let (readme, page) = (text_of("README.md"), text_of("docs/performance.md"));
    for number in [numbers[0], numbers[2]] {
        assert!(readme.contains(&format!(" {number} times")), "README.md has not {number}");
        assert!(page.contains(&format!("**{number}**")), "performance.md has not {number}");
    }
    let table = page.split_once("| kind | list |").unwrap().1.split_once("\n\n").unwrap().0;
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() >= 8);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, list, rate, tensorstore, zarrs] = cells[..] else { panic!("{row}") };
        let begun = format!("| {list} | {} | {tensorstore}, ", rate.replace(',', ""));
        let rest = log.split_once(&begun).unwrap_or_else(|| panic!("{begun}")).1;
        let of_zarrs = rest.split(" | ").nth(1).unwrap();
        assert!(of_zarrs.starts_with(&format!("{zarrs}, ")), "{row}: {of_zarrs}");
    }
}
