//! Any bytes through the JSON reader and serde_json: both take them or both refuse them, and what
//! they take has the same values.
//!
//! The only differences, both in documents that our reader takes: serde_json refuses numbers beyond
//! the largest f64 (ours are infinite) and nesting of exactly 128 levels; and it reads `-0` as a
//! float (ours is an integer too).

use serde_json::{Map, Number, Value as Other};
use wavetrain::json::{self, Fault, Value};
use wavetrain::limits::JSON_DEPTH_MAX;

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
    let theirs = serde_json::from_slice::<Other>(data);
    match json::parse(data) {
        Err(error) => {
            assert!(error.offset <= data.len(), "{error} in {} bytes", data.len());
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

/// The value as serde_json would hold it; None where it has a number beyond f64.
fn rebuilt(value: Value<'_>, depth: usize, seen: &mut Seen) -> Option<Other> {
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
        Some(float) => {
            let number = rebuilt_number(value, float);
            seen.is_infinite |= number.is_none();
            number.map(Other::Number)
        }
    }
}

fn rebuilt_number(value: Value<'_>, float: f64) -> Option<Number> {
    let (unsigned, signed) = (value.as_u64(), value.as_i64());
    if let (Some(unsigned), Some(signed)) = (unsigned, signed) {
        assert_eq!(i128::from(unsigned), i128::from(signed));
    }
    assert!(value.is_integer() || (unsigned.is_none() && signed.is_none()));
    match (unsigned, signed) {
        _ if value.source() == "-0" => Number::from_f64(float),
        (Some(unsigned), _) => Some(Number::from(unsigned)),
        (_, Some(signed)) => Some(Number::from(signed)),
        _ => Number::from_f64(float),
    }
}

/// The first members of an object are found by their names, or refused because they come twice.
fn check_lookups(object: Value<'_>) {
    let Some(members) = object.members() else { unreachable!("an object has members") };
    for (name, value) in members.take(LOOKUPS_MAX) {
        let decoded: String = name.chars().collect();
        let same = members.filter(|(other, _)| *other == *decoded.as_str()).count();
        match members.get(&decoded) {
            Ok(found) => {
                assert_eq!(same, 1);
                assert_eq!(found.map(Value::offset), Some(value.offset()));
            }
            Err(error) => {
                assert!(same > 1);
                assert_eq!(error.fault, Fault::Duplicate);
            }
        }
    }
}
