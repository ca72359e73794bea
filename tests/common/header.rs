//! Reads include/wavetrain.h as far as tests need it: structs and fields, enumerators, functions.
//!
//! In: the header's text. Out: names in the order of the header. It knows C no further than the
//! header's own style goes, and panics where it meets something else, so that nothing is skipped.

use std::path::PathBuf;

/// A struct of the header and its fields, in order.
pub struct Struct {
    pub name: String,
    pub fields: Vec<String>,
}

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The header's text without comments, a macro in one line.
pub fn text() -> String {
    text_of("include/wavetrain.h")
}

/// The same of another header.
pub fn text_of(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find("/*") {
        out.push_str(&rest[..begin]);
        let end = rest[begin..].find("*/").expect("an open comment in the header");
        rest = &rest[begin + end + 2..];
    }
    out.push_str(rest);
    out.replace("\\\n", " ")
}

/// Every struct, in order.
pub fn structs(text: &str) -> Vec<Struct> {
    text.split("typedef struct ")
        .skip(1)
        .map(|piece| {
            let (name, rest) = piece.split_once('{').unwrap();
            let (body, rest) = rest.split_once('}').unwrap();
            let name = name.trim().to_string();
            assert!(rest.trim_start().starts_with(&format!("{name};")), "typedef of {name}");
            Struct { name, fields: statements(body).map(field_name).collect() }
        })
        .collect()
}

/// Every enumerator, in order, those that only fix the size of the enum left out.
pub fn enumerators(text: &str) -> Vec<String> {
    text.split("enum {")
        .skip(1)
        .flat_map(|piece| piece.split_once('}').unwrap().0.split(','))
        .map(|item| item.split('=').next().unwrap().trim().to_string())
        .filter(|name| !name.ends_with("_FORCE32"))
        .collect()
}

/// Every macro with a value, in order.
pub fn macros(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name.to_string())
        .collect()
}

/// Every function of the archive: those that its headers declare.
pub fn functions_of_archive() -> Vec<String> {
    let mut all = functions(&text());
    all.extend(functions(&text_of("include/wavetrain_epoch.h")));
    all.extend(functions(&text_of("include/wavetrain_recipes.h")));
    all.extend(functions(&text_of("include/wavetrain_node.h")));
    all
}

/// Every function that a header declares and does not define itself, in order.
pub fn functions(text: &str) -> Vec<String> {
    // Structs hold function pointers; enumerators hold no parentheses.
    let mut flat = String::new();
    let (mut depth, mut is_inline) = (0, false);
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        depth += line.matches('{').count();
        is_inline |= line.starts_with("static inline");
        if is_inline {
            depth -= line.matches('}').count();
            is_inline = depth > 0 || !line.contains('}');
            continue;
        }
        if depth == 0 || line.starts_with("extern") {
            flat.push_str(line);
            flat.push('\n');
        }
        depth -= line.matches('}').count().min(depth);
        if line.starts_with("extern") {
            depth = 0;
        }
    }
    statements(&flat)
        .filter_map(|statement| statement.split_once('(').map(|(head, _)| head.to_string()))
        .map(|head| head.rsplit([' ', '*']).next().unwrap().to_string())
        .collect()
}

fn statements(body: &str) -> impl Iterator<Item = String> + '_ {
    body.split(';')
        .map(|piece| piece.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|piece| !piece.is_empty())
}

/// "const char *uri" is uri, "uint64_t chunk[N]" is chunk, "void (*free)(..)" is free.
fn field_name(statement: String) -> String {
    let head = match statement.split_once("(*") {
        Some((_, rest)) => rest.split_once(')').unwrap().0.to_string(),
        None => {
            assert!(!statement.contains(','), "one field per declaration: {statement}");
            statement.split('[').next().unwrap().to_string()
        }
    };
    head.rsplit([' ', '*']).next().unwrap().to_string()
}
