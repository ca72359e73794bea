//! Names of places: the key of a file inside an array, and the one spelling of a uri.
//!
//! Comes in: coordinates in the file grid, or what a caller wrote. Goes out: text. Invariant: two
//! spellings of a uri that differ only in `file://`, escapes or trailing slashes become one.

use crate::base::limits::URI_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, scheme};
use crate::fail;
use crate::records::{
    ArrayRecord, CF_MARK, KeyEncoding, RAW_PREFIX, Spelling, field_place, split_cf,
};

/// Bytes of a uri that an error text shows.
const SHOWN_URI_BYTES: usize = 200;

/// Appends the key of the file at `file` in the file grid, relative to the array: "c/0/1/2" and
/// "c.0.1.2" for the default encoding, "0.1.2" and "0/1/2" for v2; "c" and "0" for rank 0.
pub fn write_file_key<const N: usize>(record: &ArrayRecord, file: &[u64], out: &mut Text<N>) {
    write_file_key_as(record, record.spelling(), file, out);
}

/// Appends that key in another spelling.
pub fn write_file_key_as<const N: usize>(
    record: &ArrayRecord,
    spelling: Spelling,
    file: &[u64],
    out: &mut Text<N>,
) {
    assert!(file.len() == record.axes());
    let file = if record.is_scalar { &[] } else { file };
    write_key(spelling, file, out);
}

/// The spelling in which a name in the folder of the array is the key of a file, or of a folder of
/// files. None where it is neither.
pub fn spelling_of_name(
    record: &ArrayRecord,
    name: &[u8],
    may_be_folder: bool,
) -> Option<Spelling> {
    let axes = if record.is_scalar { 0 } else { record.axes() };
    let name = core::str::from_utf8(name).ok()?;
    let (encoding, rest) = match name.strip_prefix('c') {
        Some("") => (KeyEncoding::Default, ""),
        Some(rest) => {
            (KeyEncoding::Default, rest.strip_prefix('.').filter(|rest| !rest.is_empty())?)
        }
        None => (KeyEncoding::V2, name),
    };
    let is_number = |part: &str| {
        let is_short = part == "0" || !part.starts_with('0') && part.len() <= U64_DIGITS;
        is_short && !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit())
    };
    let parts = if rest.is_empty() { 0 } else { rest.split('.').count() };
    // A bare key of rank 0 is "0".
    let least = usize::from(encoding == KeyEncoding::V2);
    let is_whole = parts == axes.max(least) && (axes > 0 || parts == 0 || rest == "0");
    let is_folder = may_be_folder && parts == least && axes > least;
    if !(is_whole || is_folder) || parts > 0 && !rest.split('.').all(is_number) {
        return None;
    }
    let separator = match record.has_separator(encoding) {
        false => record.separator,
        true if is_whole => b'.',
        true => b'/',
    };
    Some(Spelling { encoding, separator })
}

/// Digits of the largest u64.
const U64_DIGITS: usize = 20;

/// Appends the key of the folder of the files whose first coordinates these are: "c/0/1" and "c"
/// for the default encoding, "0/1" for v2; not of one that has no such folders.
pub fn write_folder_key<const N: usize>(record: &ArrayRecord, first: &[u64], out: &mut Text<N>) {
    assert!(first.len() < record.axes() && record.separator == b'/');
    write_key(record.spelling(), first, out);
}

fn write_key<const N: usize>(spelling: Spelling, file: &[u64], out: &mut Text<N>) {
    let is_bare = spelling.encoding == KeyEncoding::V2;
    out.push_str(if !is_bare {
        "c"
    } else if file.is_empty() {
        "0"
    } else {
        ""
    });
    let separator = if spelling.separator == b'/' { "/" } else { "." };
    for (place, coordinate) in file.iter().enumerate() {
        let separator = if place == 0 && is_bare { "" } else { separator };
        write!(out, "{separator}{coordinate}");
    }
}

/// Replaces `out` by the path that `uri` means: a path as it is, also with another scheme, which
/// only a files hook reads; `file://` uris without scheme and host and with their escapes
/// resolved, also behind "raw:"; all without trailing slashes. `out` is written only on success.
/// Errors: INVALID (empty, NUL, too long, bad escape), UNSUPPORTED (other hosts).
pub fn normalize_uri(uri: &str, out: &mut Text<4096>, why: &mut Why) -> Result<(), Status> {
    if uri.is_empty() {
        return Err(fail!(why, Invalid, "uri is empty: give the path of an array"));
    }
    if uri.len() > URI_BYTES_MAX {
        let shown = Tail(uri, SHOWN_URI_BYTES);
        let len = uri.len();
        return Err(fail!(why, Invalid, "{shown}: uri of {len} bytes, limit {URI_BYTES_MAX}"));
    }
    if uri.as_bytes().contains(&0) {
        return Err(fail!(why, Invalid, "uri of {} bytes has a NUL byte in it", uri.len()));
    }
    // Few uris need it, and a push of small boxes would feel that it is cleared.
    let mut buffer = None;
    // raw:file:///PATH?.. is a file:// uri with a description behind it, which has no escapes.
    if let Some((path, query)) = uri.strip_prefix(RAW_PREFIX).and_then(|raw| raw.rsplit_once('?'))
        && is_of_files(path)
    {
        let path = file_path(path, &mut buffer, why)?;
        out.clear();
        // Two slashes right after the prefix would be those of a scheme.
        write!(out, "{RAW_PREFIX}/{}?{query}", path.trim_start_matches('/'));
        assert!(!out.is_cut());
        return Ok(());
    }
    let (uri, cf) = split_cf(uri).map_or((uri, ""), |array| (array, CF_MARK));
    // Of a file:// uri alone it is certain that a mark is no part of the path.
    let is_selection = |place: &usize| {
        let keys = ["#level=", "#scale=", "#first="];
        uri.get(*place..).is_some_and(|text| keys.iter().any(|key| text.starts_with(key)))
    };
    // The first slash of a path stays, and those of a scheme.
    let (path, least, selection) = match scheme(uri) {
        _ if is_of_files(uri) => {
            let place = uri.find('#').filter(is_selection).or_else(|| field_place(uri));
            let (uri, selection) =
                place.and_then(|at| uri.split_at_checked(at)).unwrap_or((uri, ""));
            (file_path(uri, &mut buffer, why)?, 1, selection)
        }
        Some(name) => (uri, name.len() + "://".len(), ""),
        None => (uri, 1, ""),
    };
    let trimmed = path.trim_end_matches('/').len().max(least);
    out.clear();
    out.push_str(path.get(..trimmed).unwrap_or(path));
    out.push_str(selection);
    out.push_str(cf);
    assert!(!out.is_cut());
    Ok(())
}

/// Whether it is `file:///path`, or `file:/path` as RFC 8089 has it where there is no host.
fn is_of_files(uri: &str) -> bool {
    uri.get(.."file:/".len()).is_some_and(|start| start.eq_ignore_ascii_case("file:/"))
}

/// The path of a `file:` uri (RFC 8089), its escapes resolved into `buffer`.
fn file_path<'b>(
    uri: &str,
    buffer: &'b mut Option<[u8; URI_BYTES_MAX]>,
    why: &mut Why,
) -> Result<&'b str, Status> {
    let shown = Tail(uri, SHOWN_URI_BYTES);
    let rest = uri.get("file:".len()..).unwrap_or("");
    let (host, path) = rest.strip_prefix("//").map_or(("", rest), |rest| {
        let slash = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        rest.split_at_checked(slash).unwrap_or((rest, ""))
    });
    if !path.is_empty() && !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(fail!(
            why,
            Unsupported,
            "{shown}: \"{}\" is read as another host: spell it file:///absolute/path",
            Tail(host, 60)
        ));
    }
    let buffer = buffer.insert([0; URI_BYTES_MAX]);
    match path_of_escaped(path, buffer) {
        Ok(len) => core::str::from_utf8(&buffer[..len])
            .map_err(|_| fail!(why, Invalid, "{shown}: its escapes are not UTF-8")),
        Err(fault) => Err(fail!(why, Invalid, "{shown}: {fault}")),
    }
}

/// Resolves the escapes of a path into `buffer`: its length, or what is wrong with it.
fn path_of_escaped(path: &str, buffer: &mut [u8; URI_BYTES_MAX]) -> Result<usize, &'static str> {
    if path.is_empty() {
        return Err("no path: spell it file:///absolute/path");
    }
    let mut len = 0;
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        buffer[len] = match byte {
            b'?' => return Err("spell ? in a file:// uri as its %XX"),
            b'#' => return Err("spell # in a file:// uri as its %XX"),
            b'%' => escaped_byte(&mut bytes).unwrap_or(0),
            byte => byte,
        };
        if buffer[len] == 0 {
            return Err("% without two hex digits, or a NUL");
        }
        len += 1;
    }
    Ok(len)
}

/// The byte that the next two hex digits spell.
fn escaped_byte(bytes: &mut core::str::Bytes<'_>) -> Option<u8> {
    let high = char::from(bytes.next()?).to_digit(16)?;
    let low = char::from(bytes.next()?).to_digit(16)?;
    Some((high << 4 | low) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    fn key(encoding: KeyEncoding, separator: u8, file: &[u64]) -> String {
        let mut record = ArrayRecord::EMPTY;
        record.rank = file.len() as u32;
        record.key_encoding = encoding;
        record.separator = separator;
        let mut out = Text::<64>::new();
        write_file_key(&record, file, &mut out);
        out.to_string()
    }

    fn normal(uri: &str) -> Result<String, (Status, String)> {
        let mut out = Text::new();
        out.push_str("poison");
        let mut why = Why::new();
        match normalize_uri(uri, &mut out, &mut why) {
            Ok(()) => Ok(out.to_string()),
            Err(status) => {
                assert_eq!(out.as_str(), "poison");
                assert!(!why.is_cut());
                Err((status, why.to_string()))
            }
        }
    }

    #[test]
    fn keys_follow_encoding_and_separator() {
        assert_eq!(key(KeyEncoding::Default, b'/', &[0, 1, 23]), "c/0/1/23");
        assert_eq!(key(KeyEncoding::Default, b'.', &[0, 1, 23]), "c.0.1.23");
        assert_eq!(key(KeyEncoding::V2, b'.', &[0, 1, 23]), "0.1.23");
        assert_eq!(key(KeyEncoding::V2, b'/', &[0, 1, 23]), "0/1/23");
        assert_eq!(key(KeyEncoding::V2, b'/', &[7]), "7");
    }

    #[test]
    fn rank_0_has_one_key() {
        assert_eq!(key(KeyEncoding::Default, b'/', &[]), "c");
        assert_eq!(key(KeyEncoding::Default, b'.', &[]), "c");
        assert_eq!(key(KeyEncoding::V2, b'.', &[]), "0");
    }

    #[test]
    fn a_name_in_the_folder_says_how_keys_are_spelled() {
        let spelled = |axes: usize, name: &str, may_be_folder| {
            let mut record = ArrayRecord::EMPTY;
            record.rank = axes as u32;
            record.give_axis();
            record.separator = b'/';
            let found = spelling_of_name(&record, name.as_bytes(), may_be_folder)?;
            Some((found.encoding, char::from(found.separator)))
        };
        let (default, bare) = (KeyEncoding::Default, KeyEncoding::V2);
        for (axes, name, may_be_folder, found) in [
            (2, "c", true, Some((default, '/'))),
            (2, "c", false, None),
            (2, "c.0.1", false, Some((default, '.'))),
            (2, "0.10", false, Some((bare, '.'))),
            (2, "7", true, Some((bare, '/'))),
            (2, "7", false, None),
            (1, "c.3", false, Some((default, '.'))),
            (1, "3", false, Some((bare, '/'))),
            (0, "c", false, Some((default, '/'))),
            (0, "0", false, Some((bare, '/'))),
        ] {
            assert_eq!(spelled(axes, name, may_be_folder), found, "{axes} {name}");
        }
        for (axes, name) in [
            (2, "0.1.2"),
            (2, "00"),
            (2, "0.01"),
            (2, "c.0"),
            (2, "c.0.1.2"),
            (2, "c."),
            (2, "c0"),
            (2, ".zarray"),
            (2, "zarr.json"),
            (2, "."),
            (2, ".."),
            (2, "0."),
            (2, "0.x"),
            (2, ""),
            (2, "+1"),
            (2, "111111111111111111111"),
            (3, "0.0"),
            (1, "0.0"),
            (0, "1"),
            (0, "c.0"),
            (2, "cc"),
            (1, "c.c.0"),
        ] {
            assert_eq!(spelled(axes, name, true), None, "{axes} {name}");
        }
    }

    #[test]
    fn a_path_loses_only_its_trailing_slashes() {
        for (uri, path) in [
            ("/data/a", "/data/a"),
            ("/data/a//", "/data/a"),
            ("a/../b/", "a/../b"),
            ("/", "/"),
            ("///", "/"),
            ("50%25 a?b#c", "50%25 a?b#c"),
            ("./s3://bucket", "./s3://bucket"),
            ("1a://x", "1a://x"),
            ("file:x", "file:x"),
            ("./file:/x", "./file:/x"),
            ("čš/", "čš"),
        ] {
            assert_eq!(normal(uri).as_deref(), Ok(path));
        }
    }

    #[test]
    fn a_file_uri_becomes_its_path() {
        for (uri, path) in [
            ("file:///data/a/", "/data/a"),
            ("FILE://localhost/a", "/a"),
            ("file://LocalHost/a", "/a"),
            ("file:///a%20b%2Fc%25%c4%8D", "/a b/c%č"),
            ("file:///", "/"),
            ("file:/data/a%20b/", "/data/a b"),
            ("File:/a#level=1", "/a#level=1"),
            ("raw:file:/a%20b?dtype=u1&shape=1", "raw:/a b?dtype=u1&shape=1"),
            ("file:///a%23b#level=1", "/a#b#level=1"),
            ("file:///a/#scale=1,2", "/a#scale=1,2"),
            ("file:///a%20b/#cf=1", "/a b#cf=1"),
            ("file:///a%20b#level=1#cf=1", "/a b#level=1#cf=1"),
            ("file:///a/?field=b#cf=1", "/a?field=b#cf=1"),
        ] {
            assert_eq!(normal(uri).as_deref(), Ok(path));
        }
    }

    #[test]
    fn what_is_no_path_is_invalid() {
        for uri in ["", "a\0b", "file://", "file:///%", "file:///%4", "file:///%zz", "file:///%+1"]
        {
            assert_eq!(normal(uri).unwrap_err().0, Status::Invalid, "{uri}");
        }
        for uri in ["file:///a%00b", "file:///%ff", "file:///a?b", "file:///a#b"] {
            assert_eq!(normal(uri).unwrap_err().0, Status::Invalid, "{uri}");
        }
    }

    #[test]
    fn other_schemes_stay() {
        for (uri, path) in [
            ("s3://bucket/a/", "s3://bucket/a"),
            ("gs+x.y-1://a", "gs+x.y-1://a"),
            ("https://h/a?b#%41//", "https://h/a?b#%41"),
            ("memory:///", "memory://"),
        ] {
            assert_eq!(normal(uri).as_deref(), Ok(path));
        }
    }

    #[test]
    fn other_hosts_are_unsupported_by_name() {
        let (status, text) = normal("file://server/a").unwrap_err();
        assert_eq!(status, Status::Unsupported);
        assert!(text.contains("\"server\""), "{text}");
    }

    #[test]
    fn the_longest_uri_is_taken_and_one_byte_more_is_refused() {
        let longest = "a".repeat(URI_BYTES_MAX);
        assert_eq!(normal(&longest).as_deref(), Ok(longest.as_str()));
        let (status, text) = normal(&"č".repeat(2048)).unwrap_err();
        assert_eq!(status, Status::Invalid);
        assert!(text.ends_with("uri of 4096 bytes, limit 4095"), "{text}");
    }
}
