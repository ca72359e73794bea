//! Any text as the uri of an array: the path that the obvious reading of RFC 3986 and 8089 gives,
//! or a refusal with a text that leaves the result alone. Other schemes than file:// stay, for a
//! files hook, and are refused where there is none.
//!
//! Input: a byte, and the uri; bit 0 of the byte puts "file:///" before it, bit 1 puts a thousand
//! times its first part before it.

use wavetrain::abi::{FilesHook, StoreHook};
use wavetrain::base::limits::URI_BYTES_MAX;
use wavetrain::base::text::Text;
use wavetrain::os::SYSTEM;
use wavetrain::os::store::Store;
use wavetrain::source::zarr::normalize_uri;
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((flags, text)) = data.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let head = text.split('/').next().unwrap_or("");
    let repeated = if flags & 2 == 0 { String::new() } else { format!("{head}/").repeat(1000) };
    let scheme = if flags & 1 == 0 { "" } else { "file:///" };
    let uri = format!("{scheme}{repeated}{text}");

    let mut why = Why::new();
    let mut path = Text::<4096>::new();
    path.push_str("before");
    let found = normalize_uri(&uri, &mut path, &mut why);
    let expected = obvious(&uri);
    let has_scheme = expected.is_ok() && foreign_scheme(&uri).is_some();
    assert_eq!(found, expected.as_ref().map(|_| ()).map_err(|status| *status), "{uri}: {why}");
    match expected {
        Ok(expected) => {
            assert_eq!(path.as_str(), expected);
            assert!(why.is_empty() && !path.is_cut());
            let refused = if has_scheme { Err(Status::Unsupported) } else { Ok(()) };
            let store = Store::new(&SYSTEM, FilesHook::NONE, StoreHook::NONE);
            assert_eq!(store.refuse_scheme(path.as_str(), &mut why), refused);
            assert_eq!(why.is_empty(), !has_scheme);
        }
        Err(_) => {
            assert_eq!(path.as_str(), "before");
            assert!(!why.is_empty());
        }
    }
}

fn obvious(uri: &str) -> Result<String, Status> {
    if uri.is_empty() || uri.len() > URI_BYTES_MAX || uri.contains('\0') {
        return Err(Status::Invalid);
    }
    let is_file_uri =
        |uri: &str| uri.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("file:/"));
    if let Some((path, query)) = uri.strip_prefix("raw:").and_then(|raw| raw.rsplit_once('?'))
        && is_file_uri(path)
    {
        let path = unescaped(&path[5..])?;
        return Ok(format!("raw:/{}?{query}", path.trim_start_matches('/')));
    }
    // Every uri of an array may end so, but what hooks name.
    let (uri, cf) = match uri.strip_suffix("#cf=1") {
        Some(array) if is_array(array) && !uri.starts_with("hook:") => {
            (array.trim_end_matches('/'), "#cf=1")
        }
        _ => (uri, ""),
    };
    let is_file = is_file_uri(uri);
    // In a file: uri a mark starts a level, the number of the first file or a field, or is an
    // error. In other uris it may be part of the path.
    let marks = ["#level=", "#scale=", "#first="];
    let (file, level) = match uri.find("#") {
        Some(at) if is_file && marks.contains(&uri.get(at..at + 7).unwrap_or("")) => {
            uri.split_at(at)
        }
        _ if is_file => uri.split_at(uri.rfind("?field=").unwrap_or(uri.len())),
        _ => (uri, ""),
    };
    let path = if is_file { unescaped(&file[5..])? } else { uri.to_owned() };
    let least = foreign_scheme(uri).map_or(1, |name| name.len() + 3);
    let mut path = path.as_str();
    while path.len() > least && path.ends_with('/') {
        path = &path[..path.len() - 1];
    }
    Ok(format!("{path}{level}{cf}"))
}

/// Whether there is a name before the slashes at the end, and not only a scheme.
fn is_array(uri: &str) -> bool {
    let name = uri.trim_end_matches('/');
    let is_file = name.eq_ignore_ascii_case("file:") && name != uri;
    !name.is_empty() && !is_file && scheme(uri).is_none_or(|scheme| name.len() > scheme.len() + 1)
}

fn scheme(uri: &str) -> Option<&str> {
    uri.split_once("://").map(|(name, _)| name).filter(|name| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}

fn foreign_scheme(uri: &str) -> Option<&str> {
    scheme(uri).filter(|name| !name.eq_ignore_ascii_case("file"))
}

/// The path after "file:", host and escapes resolved.
fn unescaped(rest: &str) -> Result<String, Status> {
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').ok_or(Status::Invalid)?),
        None => ("", rest),
    };
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(Status::Unsupported);
    }
    if path.contains('?') || path.contains('#') {
        return Err(Status::Invalid);
    }
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.filter(|byte| *byte != 0).ok_or(Status::Invalid)?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| Status::Invalid)
}
