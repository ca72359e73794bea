//! The texts of sources: comments of headers, docstrings, comments and literals of Python, literals
//! of the library and of the tool. Each function takes a file and returns paragraphs of words.

/// The paragraphs of a comment's lines. An empty line, an example and a title end a paragraph.
/// Indented lines after one of these, or after a colon, are code or a table; others continue it.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    let mut is_example = false;
    for line in lines.chain([""]) {
        let words = line.trim();
        is_example = words.starts_with(">>>") || is_example && !words.is_empty();
        let is_item = words.starts_with("- ");
        let is_code =
            line.starts_with("    ") && block.last().is_none_or(|last| last.ends_with(':'));
        let is_text = !words.is_empty() && !is_code && !words.starts_with("----");
        if is_item || is_example || !is_text {
            found.extend((!block.is_empty()).then(|| block.join(" ")));
            block.clear();
        }
        if is_text && !is_example {
            block.push(words.trim_start_matches("- "));
        }
    }
    found
}

/// The paragraphs of comments of C and C++.
pub fn of_header(text: &str) -> Vec<String> {
    let comments = text.split("/*").skip(1).filter_map(|rest| Some(rest.split_once("*/")?.0));
    comments.flat_map(of_comment).collect()
}

fn of_comment(comment: &str) -> Vec<String> {
    paragraphs(comment.lines().map(|line| line.trim_start().trim_start_matches('*')))
}

/// The literals of a source of Rust before its tests. Comments and characters are passed over.
pub fn of_rust(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        let quoted = ["'\"'", "'\\\"'"].iter().find_map(|quote| from.strip_prefix(quote));
        if let Some(after) = quoted {
            rest = after;
        } else if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(body) = from.strip_prefix('"') {
            let raw = before.trim_end_matches('#');
            let (end, hashes) = if raw.ends_with('r') {
                let hashes = before.len() - raw.len();
                (body.find(&format!("\"{}", "#".repeat(hashes))).unwrap(), hashes)
            } else {
                (end_of(body, '"'), 0)
            };
            found.extend(of_literal(&unescaped(&body[..end])));
            rest = &body[end + 1 + hashes..];
        } else {
            rest = &from[1..];
        }
    }
    found
}

/// Where the quote that ends a literal is.
fn end_of(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let is_end = |c| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    };
    text.find(is_end).unwrap()
}

/// A literal without escapes; a line that ends with one goes on.
fn unescaped(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let (escape, after) = after.split_at(1);
        text.push_str(match escape {
            "n" => "\n",
            "\n" => "",
            _ => escape,
        });
        rest = if escape == "\n" { after.trim_start() } else { after };
    }
    text + rest
}

/// The texts of a literal, a word for each hole of a format: a name is none. A list of texts has
/// bars between them. Help has lines: "  --flag NAME  words" begins an item, which lines with more
/// than ten spaces continue; other lines with spaces in front are commands.
fn of_literal(literal: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in literal.lines() {
        let words = line.trim_start();
        let spaces = line.len() - words.len();
        let is_item = spaces >= 2 && words.starts_with('-') || spaces == 2 && words.contains("   ");
        if is_item || spaces < 2 && found.last().unwrap().ends_with('\0') || words.is_empty() {
            found.push(String::new());
        }
        let words =
            if is_item { words.split_once("  ").map_or("", |(_, after)| after) } else { words };
        if is_item || !(2..=10).contains(&spaces) {
            let block = found.last_mut().unwrap();
            *block = format!("{} {words}", block.trim_end_matches('\0'));
        }
        if spaces >= 2 {
            found.last_mut().unwrap().push('\0');
        }
    }
    let texts = found.iter().flat_map(|block| block.split('|')).map(without_holes);
    texts.map(|text| text.trim().to_string()).filter(|text| text.contains(' ')).collect()
}

fn without_holes(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text.trim_matches('\0');
    while let Some((before, hole)) = rest.split_once('{') {
        kept.push_str(before);
        let Some((_, after)) = hole.split_once('}') else { break };
        kept.push_str("hole");
        rest = after;
    }
    kept + rest
}

/// The docstrings and comments of a module of Python, and its literals.
pub fn of_python(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'', '#']) {
        let from = &rest[at..];
        let quote = ["\"\"\"", "\"", "'"].into_iter().find(|quote| from.starts_with(quote));
        if let Some(quote) = quote {
            let body = &from[quote.len()..];
            let end = if quote.len() == 3 {
                body.find(quote).unwrap()
            } else {
                end_of(body, quote.chars().next().unwrap())
            };
            if quote.len() == 3 {
                found.extend(of_docstring(&body[..end]));
            } else {
                found.extend(of_literal(&unescaped(&body[..end])));
            }
            rest = &body[end + quote.len()..];
        } else {
            let (line, after) = from.split_once('\n').unwrap_or((from, ""));
            comment.push(line[1..].strip_prefix(' ').unwrap_or(&line[1..]));
            // The next line goes on with it if nothing but a comment is on it.
            if !after.trim_start_matches(' ').starts_with('#') {
                found.extend(paragraphs(comment.drain(..)));
            }
            rest = after;
        }
    }
    found
}

fn of_docstring(text: &str) -> Vec<String> {
    let indent = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let indent = indent.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let lines = text.lines().enumerate();
    paragraphs(lines.map(
        |(number, line)| {
            if number == 0 { line } else { line.get(indent..).unwrap_or("") }
        },
    ))
}

#[test]
fn comments_of_headers_are_found() {
    let text = "/* One\n * two. Three.\n *\n *     code(of);\n *\n *   name  four\n\
                \x20*         five\n */\nint a; /* six */\n/* ---- What ---- */\n";
    assert_eq!(of_header(text), ["One two. Three.", "name  four five", "six"]);
}

#[test]
fn literals_of_rust_are_found() {
    let text = "// \"one two\"\nlet a = '\"';\nfail!(\"three {x:?} \\\n    four\", \"name\");\n\
                let b = r#\"five \"six\" seven\"#; let c = \"a b|c d\";\n\
                #[cfg(test)]\nmod tests { \"behind it\" }\n";
    assert_eq!(of_rust(text), ["three hole four", "five \"six\" seven", "a b", "c d"]);
}

#[test]
fn items_of_help_are_found() {
    let text = "Does it.\n\n  wavetrain do URI\n\n      --flag N          one of\n            \
                \u{20}           two\n      --other           three four\n\nSeven\neight.\n";
    let expected = ["Does it.", "one of two", "three four", "Seven eight."];
    let found = of_literal(text);
    assert_eq!(found.iter().map(|text| text.trim()).collect::<Vec<_>>(), expected);
}

#[test]
fn texts_of_python_are_found() {
    let text = "\"\"\"One\n    two::\n\n        code(of)\n\n    name: three\n        four.\n    \
                >>> 1 + 1\n    2\n    \"\"\"\n# five\n# six\nx = 'a # b'  # seven\n";
    assert_eq!(of_python(text), ["One two::", "name: three four.", "five six", "a # b", "seven"]);
}
