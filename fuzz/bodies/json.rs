//! Any bytes through the JSON reader and serde_json: both take them or both refuse them, and what
//! they take has the same values.
//!
//! The only differences, all in documents that our reader takes: serde_json refuses numbers beyond
//! the largest f64 (ours are infinite) and nesting of exactly 128 levels; it reads `-0` as a float
//! (ours is an integer too); and it knows no `NaN`, `Infinity` and `-Infinity`, so it gets a null
//! in the place of each.

use serde_json::{Map, Number, Value as Other};
use wavetrain::base::limits::JSON_DEPTH_MAX;
use wavetrain::source::json::{self, Kind, Str, Value};

/// Members that are looked up by name in one object: a lookup passes over the whole object.
const LOOKUPS_MAX: usize = 8;

/// What a document has that serde_json refuses.
#[derive(Default)]
struct Seen {
    depth: usize,
    is_infinite: bool,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let theirs = serde_json::from_slice::<Other>(&finite(data));
    match json::parse(data) {
        Err(error) => {
            assert!(error.offset <= data.len(), "{error} in {} bytes", data.len());
            assert!(error.to_string().contains(error.fault.text()));
            assert!(theirs.is_err(), "refused only by us: {error}");
        }
        Ok(value) => {
            let mut seen = Seen::default();
            let ours = rebuilt(value, 0, &mut seen);
            assert!(seen.depth <= JSON_DEPTH_MAX);
            match theirs {
                Ok(theirs) => assert_eq!(ours, Some(theirs)),
                Err(error) => {
                    let is_known = seen.is_infinite || seen.depth == JSON_DEPTH_MAX;
                    assert!(is_known, "taken only by us: {error}");
                }
            }
        }
    }
}

/// The document with a null for each bare name of a float; in strings they stay.
fn finite(data: &[u8]) -> Vec<u8> {
    let (mut text, mut at, mut in_string) = (Vec::new(), 0, false);
    while let Some(first) = data.get(at) {
        let is_name = |name: &&&str| !in_string && data[at..].starts_with(name.as_bytes());
        if let Some(name) = ["NaN", "Infinity", "-Infinity"].iter().find(is_name) {
            text.extend(b"null");
            at += name.len();
            continue;
        }
        // An escape is two bytes, of which the second closes nothing.
        let bytes = if in_string && *first == b'\\' { 2 } else { 1 };
        in_string ^= *first == b'"';
        text.extend(data[at..].iter().take(bytes));
        at += bytes;
    }
    text
}

/// The value as serde_json would hold it; None where it has a number beyond f64.
fn rebuilt(value: Value<'_>, depth: usize, seen: &mut Seen) -> Option<Other> {
    check_shown(value);
    if let Some(members) = value.members() {
        seen.depth = seen.depth.max(depth + 1);
        let mut map = Map::new();
        let mut is_whole = true;
        for (name, member) in members {
            let name: String = name.chars().collect();
            match rebuilt(member, depth + 1, seen) {
                Some(member) => drop(map.insert(name, member)),
                None => is_whole = false,
            }
        }
        check_lookups(value);
        check_places(value);
        return is_whole.then_some(Other::Object(map));
    }
    if let Some(items) = value.items() {
        seen.depth = seen.depth.max(depth + 1);
        // Not short-circuited: every item must be looked at.
        let items: Vec<Option<Other>> = items.map(|item| rebuilt(item, depth + 1, seen)).collect();
        return items.into_iter().collect::<Option<Vec<Other>>>().map(Other::Array);
    }
    if let Some(text) = value.as_str() {
        let decoded: String = text.chars().collect();
        assert!(text == *decoded.as_str());
        let mut buffer = vec![0xaa; decoded.len()];
        assert_eq!(text.decode_into(&mut buffer), Some(decoded.as_str()));
        check_short_buffers(text, &decoded);
        return Some(Other::String(decoded));
    }
    if let Some(truth) = value.as_bool() {
        return Some(Other::Bool(truth));
    }
    match value.as_f64() {
        None => {
            assert_eq!(value.source(), "null");
            Some(Other::Null)
        }
        Some(float) if value.source().ends_with(['N', 'y']) => {
            let name = if float.is_nan() { "NaN" } else { "Infinity" };
            assert_eq!(value.source().strip_prefix('-').unwrap_or(value.source()), name);
            assert_eq!(value.source().starts_with('-'), float < 0.0);
            assert!(!value.is_integer() && value.as_integer().is_none());
            Some(Other::Null)
        }
        Some(float) => {
            let number = rebuilt_number(value, float);
            seen.is_infinite |= number.is_none();
            number.map(Other::Number)
        }
    }
}

fn rebuilt_number(value: Value<'_>, float: f64) -> Option<Number> {
    let integer = value.as_integer();
    // One rounding, of the integer itself.
    assert!(integer.is_none_or(|integer| integer as f64 == float));
    assert!(value.is_integer() || integer.is_none());
    match integer.map(|integer| (u64::try_from(integer), i64::try_from(integer))) {
        _ if value.source() == "-0" => Number::from_f64(float),
        Some((Ok(unsigned), _)) => Some(Number::from(unsigned)),
        Some((_, Ok(signed))) => Some(Number::from(signed)),
        _ => Number::from_f64(float),
    }
}

/// The first members of an object are found by their names, if these come once.
fn check_lookups(object: Value<'_>) {
    let Some(members) = object.members() else { unreachable!("an object has members") };
    for (name, value) in members.take(LOOKUPS_MAX) {
        let decoded: String = name.chars().collect();
        let same = members.filter(|(other, _)| *other == *decoded.as_str()).count();
        match members.get(&decoded) {
            Some(found) => {
                assert_eq!(same, 1);
                assert_eq!(found.source().as_ptr(), value.source().as_ptr());
                assert!(object.holds(value) && !value.holds(object));
            }
            None => assert!(same > 1),
        }
    }
}

/// A name has its place among words, if it is one.
fn check_places(object: Value<'_>) {
    let Some(members) = object.members() else { unreachable!("an object has members") };
    let names: Vec<(Str<'_>, String)> =
        members.take(LOOKUPS_MAX).map(|(name, _)| (name, name.chars().collect())).collect();
    let words: Vec<&str> =
        names.iter().map(|(_, word)| word.as_str()).filter(|word| !word.contains(' ')).collect();
    let list = words.join(" ");
    for (name, word) in &names {
        let place = words.iter().position(|other| other == word);
        assert_eq!(name.place_in(&list), if list.is_empty() { None } else { place }, "{list:?}");
    }
}

/// What a text shows of a value stays on its line, and the type has a name.
fn check_shown(value: Value<'_>) {
    let shown = format!("{value}{value:?}");
    assert!(!shown.contains(char::is_control), "{}", shown.escape_debug());
    let kind = match value.kind() {
        Kind::Null => value.source() == "null",
        Kind::Bool => value.as_bool().is_some(),
        Kind::Number => value.as_f64().is_some(),
        Kind::String => value.as_str().is_some(),
        Kind::Array => value.items().is_some(),
        Kind::Object => value.members().is_some(),
    };
    assert!(kind && !value.kind().name().is_empty());
    if let Some(text) = value.as_str() {
        let shown = format!("{text}{text:?}");
        assert!(!shown.contains(char::is_control), "{}", shown.escape_debug());
    }
}

/// A string does not fit a buffer that is a byte too short, and a text cuts it between characters.
fn check_short_buffers(text: Str<'_>, decoded: &str) {
    if let Some(bytes) = decoded.len().checked_sub(1) {
        assert_eq!(text.decode_into(&mut vec![0xaa; bytes]), None);
    }
    let cut = text.to_text::<16>();
    assert!(decoded.starts_with(cut.as_str()));
    assert_eq!(cut.is_cut(), cut.as_str().len() < decoded.len());
}
