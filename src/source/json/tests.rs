//! Unit tests of the JSON reader; serde_json is the oracle of the grammar in fuzz/bodies/json.rs.

use super::*;
use crate::base::limits::JSON_DEPTH_MAX;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn fault(text: &str) -> (Fault, usize) {
    let error = parse(text.as_bytes()).unwrap_err();
    (error.fault, error.offset)
}

fn member<'a>(value: Value<'a>, name: &str) -> Value<'a> {
    value.members().unwrap().get(name).unwrap()
}

#[test]
fn a_fault_names_its_first_byte() {
    for (text, expected) in [
        ("", (Fault::Value, 0)),
        (" [1, 2", (Fault::Comma, 6)),
        ("[1 2]", (Fault::Comma, 3)),
        ("[1,]", (Fault::Value, 3)),
        ("{\"a\":1,}", (Fault::Name, 7)),
        ("{\"a\" 1}", (Fault::Colon, 5)),
        ("{a:1}", (Fault::Name, 1)),
        ("{\"a\":1]", (Fault::Comma, 6)),
        ("[1}", (Fault::Comma, 2)),
        ("nul", (Fault::Value, 0)),
        ("true false", (Fault::Trailing, 5)),
        ("nullx", (Fault::Trailing, 4)),
        ("\"abc", (Fault::OpenString, 4)),
        ("\"a\nb\"", (Fault::Control, 2)),
        ("\"a\\x\"", (Fault::Escape, 2)),
        ("\"\\u12g4\"", (Fault::Escape, 1)),
        ("\"\\u+123\"", (Fault::Escape, 1)),
        ("\"\\ud800\"", (Fault::Surrogate, 1)),
        ("\"\\ud800\\u0041\"", (Fault::Surrogate, 1)),
        ("\"\\udc00\"", (Fault::Surrogate, 1)),
        ("\u{feff}1", (Fault::ByteOrderMark, 0)),
        ("nan", (Fault::Value, 0)),
        ("NaNs", (Fault::Trailing, 3)),
        ("[+Infinity]", (Fault::Value, 1)),
        ("// no\n1", (Fault::Value, 0)),
    ] {
        assert_eq!(fault(text), expected, "{text:?}");
    }
}

#[test]
fn numbers_outside_the_grammar_are_refused() {
    for text in ["01", "-", "-a", "1.", "1.e5", "1e", "1e+", "-01", "00", "-NaN", "-Inf"] {
        assert_eq!(fault(text).0, Fault::Number, "{text}");
    }
    for text in ["+1", ".5", "Infinite", "nan"] {
        assert_eq!(fault(text).0, Fault::Value, "{text}");
    }
    assert_eq!(fault("0x10"), (Fault::Trailing, 1));
}

#[test]
fn every_fault_and_kind_has_its_words() {
    for (fault, says) in [
        (Fault::Utf8, "UTF-8"),
        (Fault::ByteOrderMark, "byte order"),
        (Fault::Value, "value is"),
        (Fault::Number, "number"),
        (Fault::Name, "name"),
        (Fault::Colon, "colon"),
        (Fault::Comma, "comma"),
        (Fault::OpenString, "not closed"),
        (Fault::Control, "control"),
        (Fault::Escape, "escape"),
        (Fault::Surrogate, "surrogate"),
        (Fault::Depth, "deeply"),
        (Fault::Trailing, "follows"),
    ] {
        assert!(fault.text().contains(says), "{}", fault.text());
    }
    let kinds = ["null", "true", "7", "\"\"", "[]", "{}"]
        .map(|text| parse(text.as_bytes()).unwrap().kind().name());
    assert_eq!(kinds, ["null", "a boolean", "a number", "a string", "an array", "an object"]);
}

#[test]
fn bytes_that_are_not_utf8_are_refused_where_they_start() {
    let error = parse(b"[\"a\", \"\xff\"]").unwrap_err();
    assert_eq!(error, Error { offset: 7, fault: Fault::Utf8 });
    // A surrogate spelled in UTF-8 bytes.
    assert_eq!(parse(b"\"\xed\xa0\x80\"").unwrap_err().fault, Fault::Utf8);
}

#[test]
fn the_deepest_nesting_is_read_and_one_more_is_refused() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = nested(JSON_DEPTH_MAX);
    let mut value = parse(deepest.as_bytes()).unwrap();
    let mut depth = 1;
    while let Some(inner) = value.items().unwrap().next() {
        value = inner;
        depth += 1;
    }
    assert_eq!(depth, JSON_DEPTH_MAX);
    assert_eq!(fault(&nested(JSON_DEPTH_MAX + 1)), (Fault::Depth, JSON_DEPTH_MAX));
    let objects = "{\"\":".repeat(1 << 20);
    assert_eq!(fault(&objects), (Fault::Depth, 4 * JSON_DEPTH_MAX));
}

#[test]
fn integers_are_exact_as_far_as_any_type_goes() {
    let text = "[18446744073709551615, -9223372036854775808, -0, 1.0, 1e2, NaN, \
                170141183460469231731687303715884105728]";
    let items = parse(text.as_bytes()).unwrap().items().unwrap();
    let integers: Vec<Option<i128>> = items.map(|item| item.as_integer()).collect();
    let [first, last] = [u64::MAX.into(), i64::MIN.into()];
    assert_eq!(integers, [Some(first), Some(last), Some(0), None, None, None, None]);
}

#[test]
fn floats_round_once_and_overflow_to_infinity() {
    let text = "[0.1, -0.0, 5e-324, 2e-324, 1.7976931348623159e308, -1e400, 9007199254740993]";
    let floats: Vec<u64> = parse(text.as_bytes())
        .unwrap()
        .items()
        .unwrap()
        .map(|item| item.as_f64().unwrap().to_bits())
        .collect();
    let expected =
        [0.1, -0.0, 5e-324, 0.0, f64::INFINITY, f64::NEG_INFINITY, 9007199254740992.0f64];
    assert_eq!(floats, expected.map(f64::to_bits));
}

#[test]
fn bare_names_of_floats_are_numbers_that_are_not_finite() {
    let text = "{\"a\":[NaN,-Infinity , Infinity],\"b\": NaN,\"c\":{\"NaN\": 1}, \"d\":-Infinity}";
    let value = parse(text.as_bytes()).unwrap();
    let items: Vec<Value> = member(value, "a").items().unwrap().collect();
    let floats: Vec<Option<f64>> = items.iter().map(|item| item.as_f64()).collect();
    assert!(floats[0].unwrap().is_nan());
    assert_eq!(floats[1..], [Some(f64::NEG_INFINITY), Some(f64::INFINITY)]);
    for item in items.into_iter().chain([member(value, "b"), member(value, "d")]) {
        assert_eq!((item.kind(), item.is_integer()), (Kind::Number, false));
        assert_eq!((item.as_integer(), item.as_bool()), (None, None));
    }
    assert_eq!(member(member(value, "c"), "NaN").as_integer(), Some(1));
    assert_eq!(member(value, "d").source(), "-Infinity");
}

#[test]
fn a_number_of_a_million_digits_is_read() {
    let text = "1".repeat(1_000_000);
    let value = parse(text.as_bytes()).unwrap();
    assert_eq!((value.as_integer(), value.as_f64()), (None, Some(f64::INFINITY)));
}

#[test]
fn accessors_of_another_kind_give_none() {
    let value = parse(b"\"1\"").unwrap();
    assert_eq!((value.as_integer(), value.as_f64()), (None, None));
    assert!(value.as_bool().is_none() && value.members().is_none() && value.items().is_none());
    assert!(parse(b"[]").unwrap().members().is_none());
    assert!(parse(b"{}").unwrap().items().is_none());
    assert!(parse(b"null").unwrap().as_str().is_none());
}

#[test]
fn members_and_items_come_in_document_order() {
    let text = " { \"a\" : [ 1 , [2,{\"x\":\"]}\"}] , \"\\\"]\" ] , \"b\":{},\"c\" :null } ";
    let value = parse(text.as_bytes()).unwrap();
    let names: Vec<String> =
        value.members().unwrap().map(|(name, _)| name.chars().collect()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let sources: Vec<&str> =
        member(value, "a").items().unwrap().map(|item| item.source()).collect();
    assert_eq!(sources, ["1", "[2,{\"x\":\"]}\"}]", "\"\\\"]\""]);
    assert_eq!(member(value, "c").kind(), Kind::Null);
    assert_eq!(member(value, "c").offset_in(text.as_bytes()), text.find("null").unwrap());
    assert_eq!(member(value, "b").members().unwrap().count(), 0);
}

#[test]
fn escaped_names_are_the_names_they_mean() {
    let value = parse(br#"{"sh\u0061pe": 1, "\ud83d\ude00": 2, "a\/b\n\"\\": 3}"#).unwrap();
    assert_eq!(member(value, "shape").as_integer(), Some(1));
    assert_eq!(member(value, "😀").as_integer(), Some(2));
    assert_eq!(member(value, "a/b\n\"\\").as_integer(), Some(3));
    assert!(value.members().unwrap().get("shap").is_none());
}

#[test]
fn a_name_that_comes_twice_has_no_value_and_any_other_has() {
    let value = parse(br#"{"a": 1, "b": 2, "\u0061": 3}"#).unwrap();
    assert!(value.members().unwrap().get("a").is_none());
    assert_eq!(member(value, "b").as_integer(), Some(2));
}

#[test]
fn a_string_knows_its_place_among_words() {
    let place = |text: &str, words| parse(text.as_bytes()).unwrap().as_str()?.place_in(words);
    assert_eq!(place("\"zlib\"", "zstd zlib"), Some(1));
    assert_eq!(place("\"zs\\u0074d\"", "zstd zlib"), Some(0));
    assert_eq!(place("\"z\"", "zstd zlib"), None);
    assert_eq!(place("\"zstd zlib\"", "zstd zlib"), None);
    assert_eq!(place("\"\"", "zstd zlib"), None);
    assert_eq!(place("\"\"", " 0.1"), Some(0));
    assert_eq!(place("\"\"", ""), None);
}

#[test]
fn a_value_holds_what_starts_in_it() {
    let value = parse(b" {\"a\": [1, 2], \"b\": 3}").unwrap();
    let (list, other) = (member(value, "a"), member(value, "b"));
    let items: Vec<Value> = list.items().unwrap().collect();
    assert!(value.holds(list) && value.holds(value) && list.holds(items[1]));
    assert!(!list.holds(other) && !items[0].holds(items[1]) && !list.holds(value));
}

#[test]
fn a_string_decodes_into_a_buffer_it_fits_exactly() {
    let text = parse(br#""\u00e9\t\ud83d\ude00""#).unwrap().as_str().unwrap();
    let mut buffer = [0xaa; 7];
    assert_eq!(text.decode_into(&mut buffer), Some("é\t😀"));
    assert_eq!(text.decode_into(&mut [0xaa; 6]), None);
    assert_eq!(text.to_text::<4>().as_str(), "é\t");
}

#[test]
fn printed_values_stay_on_one_line_and_short() {
    let value = parse("[\n\t1,\r\n\"\u{9b}\"]".as_bytes()).unwrap();
    assert_eq!(value.to_string(), "[  1,  \"\\u{9b}\"]");
    let name = parse(b"\"\\u001b[2J\\n\"").unwrap().as_str().unwrap();
    assert_eq!(name.to_string(), "\"\\u{1b}[2J \"");
    let long = format!("\"{}\"", "é".repeat(100));
    let value = parse(long.as_bytes()).unwrap();
    assert_eq!(value.to_string().chars().count(), 1 + 29 + 3);
    assert_eq!(value.as_str().unwrap().to_string().chars().count(), 60 + 5);
}

#[test]
fn one_pass_reads_a_document_of_four_mebibytes() {
    let mut text = String::from("{\"attributes\": {");
    let mut count = 0;
    while text.len() < 4 << 20 {
        text += &format!("\"key{count}\": [{count}, \"v\", {{}}],");
        count += 1;
    }
    text += "\"last\": 0}, \"shape\": [7]}";
    let value = parse(text.as_bytes()).unwrap();
    assert_eq!(member(value, "shape").items().unwrap().next().unwrap().as_integer(), Some(7));
    let attributes = member(value, "attributes");
    assert_eq!(attributes.members().unwrap().count(), count + 1);
    assert_eq!(member(attributes, "last").as_integer(), Some(0));
}

#[test]
fn a_value_that_is_not_there_is_a_null_without_a_text() {
    let absent = Value::ABSENT;
    assert_eq!((absent.kind(), absent.source(), absent.found().is_none()), (Kind::Null, "", true));
    assert!(absent.as_str().is_none() && absent.members().is_none() && absent.as_f64().is_none());
    assert!(parse(b"null").unwrap().found().is_some());
}
