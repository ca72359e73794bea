//! The rules of CONTRIBUTING.md for sentences, as far as a machine can check them: over README.md,
//! CONTRIBUTING.md, SECURITY.md, the pages of docs/, python/README.md, and the comments of those
//! headers that keep them. Headings, code, the heads of tables and texts that a table quotes from
//! the library are exempt.

use crate::common::header::root;
use crate::common::pages::pages;

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
const TERMS: [&str; 1] = ["bill of materials"];

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

/// Headers whose comments keep the rules. Those of the others do not yet.
const HEADERS: [&str; 4] =
    ["wavetrain_exceptions.hpp", "wavetrain_node.h", "wavetrain_recipes.h", "wavetrain_tiles.h"];

/// The paragraphs of comments, without the code in them. A comment that begins with a small letter
/// is a fragment beside a member.
fn comments(text: &str) -> Vec<String> {
    let comments = text.split("/*").skip(1).filter_map(|rest| Some(rest.split_once("*/")?.0));
    let mut found = Vec::new();
    for comment in comments.filter(|comment| !comment.trim().starts_with(char::is_lowercase)) {
        let mut lines: Vec<&str> = Vec::new();
        for line in comment.lines().chain([""]) {
            let line = line.trim_start().trim_start_matches('*');
            if line.trim().is_empty() || line.starts_with("    ") {
                found.extend((!lines.is_empty()).then(|| lines.join(" ")));
                lines.clear();
            } else {
                lines.push(line.trim());
            }
        }
    }
    found
}

#[test]
fn sentences_of_headers_are_plain() {
    let mut found = Vec::new();
    for name in HEADERS {
        let text = std::fs::read_to_string(root().join("include").join(name)).unwrap();
        for sentence in comments(&text).iter().flat_map(|paragraph| split(paragraph)) {
            let sentence = sentence.replace("what()", "code");
            found.extend(
                faults(&sentence).iter().map(|fault| format!("{name}: {fault}:{sentence}")),
            );
        }
    }
    assert!(found.is_empty(), "{} faults\n{}", found.len(), found.join("\n"));
}

#[test]
fn sentences_that_are_not_plain_are_found() {
    let long = format!("{}end.", "word ".repeat(WORDS_MAX));
    for bad in ["Of zarr, filters are undone.", "A batch tells it.", "(Who drops it?)", &long] {
        assert_eq!(faults(bad).len(), 1, "{bad}");
    }
    let page = "# What is it?\n\n<!-- behind -->\n| what | who |\n|---|---|\n| a | behind `b` |\n\
                - one. Two [three](four).\n```sh\nbehind\n```\nFive\nsix. Seven..\n";
    let expected = ["a", "behind code", "one.", "Two three.", "Five six.", "Seven.."];
    assert_eq!(sentences(page).iter().map(|text| text.trim()).collect::<Vec<_>>(), expected);
}
