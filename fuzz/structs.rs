//! Structured elements: what serde_json finds in a list of fields is what a record has of it.

use serde_json::Value;
use wavetrain::records::{ArrayRecord, Codec, Dtype, Filter, Member};

fn member(record: &ArrayRecord) -> Option<Member> {
    let members = record.codecs.iter().filter_map(|codec| match codec {
        Codec::Filter(Filter::Member(member)) => Some(*member),
        _ => None,
    });
    let all: Vec<Member> = members.collect();
    assert!(all.len() <= 1);
    all.first().copied()
}

/// Whether elements are a field of structured ones, which lies inside of them.
pub fn is_member(record: &ArrayRecord) -> bool {
    let Some(Member { element_bytes, offset, bytes }) = member(record) else { return false };
    assert!(bytes > 0 && offset + bytes <= element_bytes);
    assert_eq!(bytes, if record.small.is_some() { 1 } else { record.dtype_bytes });
    true
}

/// Name, offset and bytes of each field, and the bytes of all; None if a type is not known here.
fn layout(list: &Value) -> Option<(Vec<(String, u64, u64)>, u64)> {
    let (mut fields, mut offset) = (Vec::new(), 0);
    for item in list.as_array()? {
        let (name, kind) = match item.as_array() {
            Some(pair) => (pair.first()?, pair.get(1)?),
            None => (&item["name"], &item["data_type"]),
        };
        let count = item.get(2).map_or(Some(1), |shape| {
            shape.as_array()?.iter().map(Value::as_u64).try_fold(1, |all, n| Some(all * n?))
        });
        let bytes = bytes_of(kind)? * count?;
        fields.push((name.as_str()?.to_string(), offset, bytes));
        offset += bytes;
    }
    Some((fields, offset))
}

fn bytes_of(kind: &Value) -> Option<u64> {
    if kind.is_array() {
        return Some(layout(kind)?.1);
    }
    let configuration = &kind["configuration"];
    if let Some(length) = configuration["length_bytes"].as_u64() {
        return Some(length);
    }
    if configuration["fields"].is_array() {
        return Some(layout(&configuration["fields"])?.1);
    }
    let name = kind.as_str().or(kind["name"].as_str())?;
    let known = [("uint8", 1), ("int16", 2), ("float32", 4), ("float64", 8)];
    if let Some((_, bytes)) = known.iter().find(|(known, _)| *known == name) {
        return Some(*bytes);
    }
    let (kind, count) = name.strip_prefix(['<', '>', '|'])?.split_at_checked(1)?;
    let count: u64 = count.parse().ok()?;
    "iufbcSV".contains(kind).then_some(count).or((kind == "U").then_some(4 * count))
}

/// A record of the array, or of the field of that name, has the bytes that the list says.
pub fn check_layout(record: &ArrayRecord, field: Option<&str>, list: &Value, kind: &Value) {
    let is_structured = kind.is_array() || kind["name"] == "struct" || kind["name"] == "structured";
    assert!(is_structured || field.is_none());
    let Some((fields, whole)) = layout(list).filter(|_| is_structured) else { return };
    let Some(wanted) = field else {
        assert_eq!((record.dtype, u64::from(record.dtype_bytes)), (Dtype::Raw, whole));
        return;
    };
    let (_, offset, bytes) = fields.iter().find(|(name, ..)| name == wanted).expect("a field");
    let found = member(record).expect("a field");
    let found = [found.element_bytes, found.offset, found.bytes].map(u64::from);
    assert_eq!(found, [whole, *offset, *bytes]);
}
