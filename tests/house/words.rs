//! The rules of CONTRIBUTING.md for sentences, as far as a machine can check them: over README.md,
//! CONTRIBUTING.md, SECURITY.md, the pages of docs/, python/README.md, the headers, the Python
//! package, and the help, error and log texts of the library and the tool. Headings, code, the
//! heads of tables and texts that a table quotes from the library are exempt.

use crate::common::header::root;
use crate::common::pages::pages;
use crate::style::files;
use crate::texts::{of_header, of_python, of_rust};

/// Words of a sentence at most.
const WORDS_MAX: usize = 30;
/// No sentence begins with one of these.
const OPENINGS: [&str; 6] = ["of", "what", "where", "who", "behind", "nobody"];
/// Words that stand for another: a dependency told as a place, things that talk, private words.
const WORDS: [(&str, &str); 17] = [
    ("behind", "after, next to"),
    ("beside", "next to, with"),
    ("ahead", "in advance, before"),
    ("ours", "wavetrain's"),
    ("yours", "your, of your own"),
    ("tell", "report, return"),
    ("tells", "reports, returns"),
    ("told", "reported"),
    ("says", "states, reports"),
    ("said", "predicted"),
    ("comes", "is, follows"),
    ("goes", "is, continues"),
    ("way out", "fix"),
    ("ways out", "fixes"),
    ("bill", "memory budget"),
    ("is no", "is not a"),
    ("less samples", "fewer samples"),
];
/// Places in which a word of the list is the term of a field, or quoted.
const TERMS: [&str; 3] = ["bill of materials", "there is no", "is no longer"];

/// The sentences of a page, without marks: paragraphs, items of lists, cells of tables.
fn sentences(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let (mut blocks, mut is_code, mut is_quoted) = (Vec::<String>::new(), false, false);
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim();
        let is_head =
            line.starts_with('|') && lines.get(number + 1).is_some_and(|next| is_rule(next));
        if is_head {
            is_quoted = line.starts_with("| text |") || line.starts_with("| the text ");
        }
        if line.starts_with("```") {
            is_code = !is_code;
            blocks.push(String::new());
        } else if is_code || line.is_empty() || line.starts_with('#') || is_head || is_rule(line) {
            blocks.push(String::new());
        } else if line.starts_with('|') {
            let cells = line.trim_matches('|').replace("\\|", "/");
            blocks.extend(cells.split(" | ").skip(usize::from(is_quoted)).map(str::to_string));
            blocks.push(String::new());
        } else if let Some(item) = item(line) {
            blocks.push(item.to_string());
        } else {
            let block = blocks.last_mut().unwrap();
            *block = format!("{block} {line}");
        }
    }
    blocks.iter().flat_map(|block| split(&plain(block))).collect()
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").unwrap().1;
    }
    kept + rest
}

fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.chars().all(|c| "|-: ".contains(c))
}

/// The words of an item of a list.
fn item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.strip_prefix("- ").or_else(|| number.strip_prefix(". ").filter(|_| number != line))
}

/// A block without emphasis, links and code: a code is one word.
fn plain(block: &str) -> String {
    let parts = block.split('`').enumerate();
    let text: String =
        parts.map(|(number, part)| if number % 2 == 0 { part } else { "code" }).collect();
    let mut kept = String::new();
    let mut rest = text.as_str();
    while let Some((before, link)) = rest.split_once("](") {
        kept.push_str(before);
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    (kept + rest).replace(['*', '[', ']', '!'], "")
}

/// Ends of sentences are a point, or a question, before a space; ".." is a gap.
fn split(block: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in block.split_whitespace() {
        let sentence = found.last_mut().unwrap();
        *sentence = format!("{sentence} {word}");
        let word = word.trim_end_matches([')', '"']);
        if (word.ends_with('.') && !word.ends_with("..")) || word.ends_with('?') {
            found.push(String::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn faults(sentence: &str) -> Vec<String> {
    let mut lower = sentence.to_lowercase();
    TERMS.iter().for_each(|term| lower = lower.replace(term, "term"));
    let words: Vec<&str> = lower
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .collect();
    let spaced = format!(" {} ", words.join(" "));
    let mut faults = Vec::new();
    if words.len() > WORDS_MAX {
        faults.push(format!("{} words", words.len()));
    }
    if words.first().is_some_and(|word| OPENINGS.contains(word)) {
        faults.push(format!("begins with {:?}", words[0]));
    }
    for (word, better) in WORDS {
        if spaced.contains(&format!(" {word} ")) {
            faults.push(format!("has {word:?}: {better}"));
        }
    }
    faults
}

#[test]
fn sentences_of_the_documents_are_plain() {
    let mut found = Vec::new();
    let others = ["CONTRIBUTING.md", "SECURITY.md"];
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let others = others.map(|name| (name.to_string(), text(name)));
    for (page, text) in pages().into_iter().chain(others) {
        // Their sentences are those of the tables in the sources.
        if page.starts_with("docs/reference/") {
            continue;
        }
        for sentence in sentences(&text) {
            for fault in faults(&sentence) {
                found.push(format!("{page}: {fault}:{sentence}"));
            }
        }
    }
    assert!(found.is_empty(), "{} faults\n{}", found.len(), found.join("\n"));
}

/// The faults of a source's sentence: one that begins with a small letter is a fragment next to
/// code, or a part of a text, and may begin with any word.
fn faults_of_source(sentence: &str) -> Vec<String> {
    let mut found = faults(&plain(&sentence.replace("what()", "code")));
    if sentence.trim_start_matches(|c: char| !c.is_alphabetic()).starts_with(char::is_lowercase) {
        found.retain(|fault| !fault.starts_with("begins"));
    }
    found
}

/// Refuses texts of the sources of a folder; tests among them are passed over.
fn refuse(folder: &str, endings: &[&str], texts: fn(&str) -> Vec<String>) {
    let mut found = Vec::new();
    for (name, text) in files(&[folder], endings) {
        if name.ends_with("tests.rs") {
            continue;
        }
        for sentence in texts(&text).iter().flat_map(|paragraph| split(paragraph)) {
            for fault in faults_of_source(&sentence) {
                found.push(format!("{name}: {fault}:{sentence}"));
            }
        }
    }
    assert!(found.is_empty(), "{} faults\n{}", found.len(), found.join("\n"));
}

#[test]
fn sentences_of_headers_are_plain() {
    refuse("include", &["h", "hpp"], of_header);
}

#[test]
fn sentences_of_the_python_package_are_plain() {
    refuse("python/wavetrain", &["py"], of_python);
}

#[test]
fn sentences_of_help_and_errors_are_plain() {
    refuse("src", &["rs"], of_rust);
}

#[test]
fn sentences_that_are_not_plain_are_found() {
    let long = format!("{}end.", "word ".repeat(WORDS_MAX));
    let is_found = |sentence: &str, fault: &str| {
        assert!(faults(sentence).iter().any(|found| found.starts_with(fault)), "{sentence}");
    };
    is_found(&long, &format!("{} words", WORDS_MAX + 1));
    for word in OPENINGS {
        is_found(&format!("({word} filters are undone)."), &format!("begins with {word:?}"));
    }
    for (word, _) in WORDS {
        is_found(&format!("It {word} so."), &format!("has {word:?}"));
    }
    assert!(faults("There is no bill of materials.").is_empty());
    assert!(faults(&long["word ".len()..]).is_empty());
    let page = "# What is it?\n\n<!-- behind -->\n| what | who |\n|---|---|\n| a | behind `b` |\n\
                - one. Two [three](four).\n```sh\nbehind\n```\nFive\nsix. Seven..\n";
    let expected = ["a", "behind code", "one.", "Two three.", "Five six.", "Seven.."];
    assert_eq!(sentences(page).iter().map(|text| text.trim()).collect::<Vec<_>>(), expected);
}

#[test]
fn a_fragment_may_open_with_any_word_and_nothing_else() {
    assert!(faults_of_source("of a well, if the store has it").is_empty());
    assert!(faults_of_source("() where all are 1").is_empty());
    assert_eq!(faults_of_source("Of a well, if the store has it.").len(), 1);
    assert_eq!(faults_of_source("of a well, if the store says it").len(), 1);
    assert!(faults_of_source("A word of code: `behind`.").is_empty());
}
