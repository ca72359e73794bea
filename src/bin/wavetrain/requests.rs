//! Requests: which box of which array.
//!
//! They come from the command line (`URI BOX ...`) or from a file of JSON lines
//! `{"uri": "...", "box": [[0,64],[0,128]]}`. What goes out has 0 to 16 axes, each of extent >= 1,
//! as many begins as ends; whether it fits an array is for the library to say.

use crate::augments::Change;
use crate::fault::{Fault, Outcome, failed, usage};
use crate::staging;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::loader::Part;

/// A half-open box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent {
    /// First element along each axis.
    pub begin: Vec<i64>,
    /// One past the last element along each axis.
    pub end: Vec<i64>,
    /// Axes that are lists of indices, which are kept until the tool ends.
    pub lists: Vec<(usize, &'static [i64])>,
}

impl Extent {
    /// Elements along each axis.
    pub fn shape(&self) -> Vec<u64> {
        self.begin.iter().zip(&self.end).map(|(begin, end)| end.abs_diff(*begin)).collect()
    }

    /// The indices of an axis that is a list.
    pub fn list(&self, axis: usize) -> Option<&'static [i64]> {
        self.lists.iter().find(|list| list.0 == axis).map(|list| list.1)
    }

    /// Indices as max_indices_per_sample counts them.
    pub fn indices(&self) -> u32 {
        let product: usize = self.lists.iter().map(|list| list.1.len()).product();
        if self.lists.is_empty() { 0 } else { u32::try_from(product).unwrap_or(u32::MAX) }
    }

    /// The box as the command line writes it.
    pub fn text(&self) -> String {
        if self.begin.is_empty() {
            return "no axes".to_owned();
        }
        let axes = self.begin.iter().zip(&self.end).enumerate();
        let text = |(axis, (begin, end)): (usize, (&i64, &i64))| match self.list(axis) {
            Some(indices) => format!("{indices:?}"),
            None => format!("{begin}:{end}"),
        };
        axes.map(text).collect::<Vec<_>>().join(",")
    }
}

/// Uris, each once, in the order of their first use.
#[derive(Default)]
pub struct Uris {
    pub list: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Uris {
    /// The position of a uri, which is appended if the list lacks it.
    pub fn position(&mut self, uri: &str) -> usize {
        if let Some(position) = self.positions.get(uri) {
            return *position;
        }
        self.list.push(uri.to_owned());
        self.positions.insert(uri.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// Frees the second copy of each uri: nothing is added any more.
    fn end(&mut self) {
        self.positions = HashMap::new();
    }
}

/// Requests of any kind, which a list has as lines of JSON: all of them, or a block.
pub trait LineList {
    /// How many.
    fn count(&self) -> usize;

    /// Appends the request of a line.
    fn add_line(&mut self, line: &str) -> Result<(), String>;

    /// Appends a request whose line is none, and why.
    fn add_malformed(&mut self, text: String);

    /// The distinct uris.
    fn uris(&mut self) -> &mut Uris;

    /// Appends all requests of a file, one at least; standard input for "-".
    fn add_all(&mut self, path: &Path) -> Outcome<()> {
        self.add_more(&mut Lines::open(path)?, usize::MAX, false)?;
        self.uris().end();
        if self.count() == 0 { no_requests(path) } else { Ok(()) }
    }

    /// Appends the next lines, `count` at most. A line that is no request is kept as such if
    /// `keeps_going`, else it is a failure. False: there are no more.
    fn add_more(&mut self, lines: &mut Lines, count: usize, keeps_going: bool) -> Outcome<bool> {
        for _ in 0..count {
            let Some((index, line)) = lines.next()? else { return Ok(false) };
            if let Err(reason) = line.and_then(|line| self.add_line(&line)) {
                let text = format!("{}, line {}: {reason}", lines.path.display(), index + 1);
                if !keeps_going {
                    return failed(text);
                }
                self.add_malformed(text);
            }
        }
        Ok(true)
    }
}

/// A list of requests, or a block of one; array uris are kept once each.
#[derive(Default)]
pub struct Requests {
    /// Place of the first in the whole list.
    pub first: usize,
    pub uris: Uris,
    /// What each box has beside its places.
    pub change: Change,
    /// The position of the uri and the box, per request.
    pub items: Vec<(usize, Extent)>,
    /// Requests whose lines are none, and why; their items mean nothing.
    pub malformed: BTreeMap<usize, String>,
}

impl LineList for Requests {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let (uri, extent) = request_from_line(line)?;
        self.add(&uri, extent);
        Ok(())
    }

    fn add_malformed(&mut self, text: String) {
        self.malformed.insert(self.items.len(), text);
        self.add("", Extent::default());
    }

    fn uris(&mut self) -> &mut Uris {
        &mut self.uris
    }
}

impl Requests {
    /// A request as the staging of maps has it, for a field with that pad mode and cf.
    pub fn box_of(&self, index: usize, field: (u32, u32)) -> staging::Item<'_> {
        let (uri, extent) = &self.items[index];
        (*uri, extent.shape(), &self.change, field)
    }

    /// A block without requests yet; the first will be number `first` of the list.
    pub fn beginning_at(first: usize) -> Requests {
        Requests { first, ..Requests::default() }
    }

    /// Appends a request.
    pub fn add(&mut self, uri: &str, extent: Extent) {
        self.items.push((self.uris.position(uri), extent));
    }

    /// The uri of request `index`.
    pub fn uri(&self, index: usize) -> &str {
        &self.uris.list[self.items[index].0]
    }

    /// The box of request `index` as the library takes it.
    pub fn part(&self, index: usize) -> Part<'_> {
        let Extent { begin, end, lists } = &self.items[index].1;
        self.change.of(Part { uri: self.uri(index), begin, end, lists, ..Part::default() })
    }

    /// "request 3 (0:64,0:128 of /data/a.zarr)".
    pub fn name(&self, index: usize) -> String {
        let number = self.first + index;
        if self.malformed.contains_key(&index) {
            return format!("request {number}");
        }
        format!("request {number} ({} of {})", self.items[index].1.text(), self.uri(index))
    }

    /// Takes `URI BOX [BOX ...] [URI BOX ...]`: a word that reads as a box is one. `extents_of` an
    /// array is asked where an end of a box is left out.
    pub fn from_words(
        words: &[String],
        extents_of: impl Fn(&str) -> Outcome<Vec<u64>>,
    ) -> Outcome<Requests> {
        let mut requests = Requests::default();
        let mut uri: Option<(&str, bool)> = None;
        for word in words {
            match (axes_from_text(word), uri) {
                (Some(Ok(axes)), Some((name, _))) => {
                    let is_open = axes.iter().any(|(begin, end)| begin.is_none() || end.is_none());
                    let extents = if is_open { extents_of(name)? } else { Vec::new() };
                    let wrong = |reason| usage(format!("box '{word}' of '{name}': {reason}"));
                    if is_open && axes.len() != extents.len() {
                        let (boxed, axes) = (axes.len(), extents.len());
                        return wrong(format!(
                            "it has {boxed} axes, the array {axes}: {extents:?}"
                        ));
                    }
                    let whole = (0..).zip(axes).map(|(axis, (begin, end))| {
                        let extent = || i64::try_from(*extents.get(axis)?).ok();
                        Some((begin.unwrap_or(0), end.or_else(extent)?))
                    });
                    match extent_from_axes(whole) {
                        Ok(extent) => requests.add(name, extent),
                        Err(reason) => return wrong(reason),
                    }
                    uri = Some((name, true));
                }
                (Some(Ok(_)), None) => return usage(format!("box '{word}' stands before any URI")),
                (Some(Err(reason)), _) => return usage(format!("box '{word}': {reason}")),
                (None, Some((name, false))) => {
                    return usage(format!("'{word}' is not a box of '{name}' (0:64,0:128)"));
                }
                (None, _) => uri = Some((word, false)),
            }
        }
        match uri {
            Some((name, false)) => usage(format!("no box for '{name}' (0:64,0:128)")),
            None => usage("nothing to do: give URI BOX or --requests FILE"),
            Some(_) => Ok(requests),
        }
    }
}

/// Hands every line of a file that is not empty to `each`, with its place in the file, from 0 on;
/// standard input for "-".
pub fn lines(
    path: &Path,
    mut each: impl FnMut(usize, Result<&str, String>) -> Outcome<()>,
) -> Outcome<()> {
    let mut lines = Lines::open(path)?;
    while let Some((index, line)) = lines.next()? {
        each(index, line.as_deref().map_err(String::clone))?;
    }
    Ok(())
}

/// The failure of a list without requests.
pub fn no_requests<T>(path: &Path) -> Outcome<T> {
    failed(format!("{}: no requests in it", path.display()))
}

/// A file of lines, read line by line.
pub struct Lines {
    path: PathBuf,
    source: Box<dyn BufRead>,
    /// Bytes of the whole file; None for a pipe, whose length is not known.
    file_bytes: Option<u64>,
    bytes: u64,
    count: usize,
}

impl Lines {
    /// Opens a file; standard input for "-".
    pub fn open(path: &Path) -> Outcome<Lines> {
        let (source, file_bytes): (Box<dyn BufRead>, _) = if path == Path::new("-") {
            (Box::new(io::stdin().lock()), None)
        } else {
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
            let (found, file) = opened.map_err(|error| Fault::path(path, &error))?;
            (Box::new(BufReader::new(file)), found.is_file().then_some(found.len()))
        };
        Ok(Lines { path: path.to_owned(), source, file_bytes, bytes: 0, count: 0 })
    }

    /// The next line that is not empty, with its place in the file, from 0 on.
    fn next(&mut self) -> Outcome<Option<(usize, Result<String, String>)>> {
        loop {
            let mut line = Vec::new();
            let read = self.source.read_until(b'\n', &mut line);
            let read = read.map_err(|error| Fault::path(&self.path, &error))?;
            if read == 0 {
                return Ok(None);
            }
            self.bytes += read as u64;
            self.count += 1;
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            let line = String::from_utf8(line).map_err(|_| "not UTF-8".to_owned());
            if line.as_ref().is_ok_and(|line| line.trim().is_empty()) {
                continue;
            }
            return Ok(Some((self.count - 1, line)));
        }
    }

    /// How many lines there are, if all have as many bytes as those so far.
    pub fn count_expected(&self) -> Option<u64> {
        let each = self.bytes as f64 / self.count.max(1) as f64;
        self.file_bytes.map(|bytes| (bytes as f64 / each.max(1.0)).round() as u64)
    }
}

/// The ends of a box along each axis; those that are left out are the array's.
type Axes = Vec<(Option<i64>, Option<i64>)>;

/// None where the text does not look like a box at all, so that it can be a uri.
fn axes_from_text(text: &str) -> Option<Result<Axes, String>> {
    let of_box = |c: char| c.is_ascii_digit() || ":,- ".contains(c);
    if text.is_empty() {
        return Some(Ok(Vec::new()));
    }
    if !text.contains(':') || !text.chars().all(of_box) {
        return None;
    }
    let end = |text: &str| match text.trim() {
        "" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let axes = text.split(',').enumerate().map(|(number, axis)| {
        let pair = axis.split_once(':').and_then(|(begin, last)| Some((end(begin)?, end(last)?)));
        pair.ok_or_else(|| format!("axis {number} is not a pair of whole numbers"))
    });
    Some(axes.collect())
}

fn request_from_line(line: &str) -> Result<(String, Extent), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let object = value.as_object().ok_or("not a JSON object")?;
    if object.contains_key("boxes") {
        return Err(
            "a request of several boxes needs --fields FILE, a table of what they go to".into()
        );
    }
    if let Some(key) = object.keys().find(|key| *key != "uri" && *key != "box") {
        return Err(format!("unknown key '{key}': a request has uri and box"));
    }
    let uri = object.get("uri").and_then(Value::as_str).ok_or("no string 'uri'")?;
    Ok((uri.to_owned(), extent_from_value(object.get("box"))?))
}

/// The box of a line.
pub fn extent_from_value(value: Option<&Value>) -> Result<Extent, String> {
    let axes = value.and_then(Value::as_array).ok_or("no list 'box'")?;
    let mut lists = Vec::new();
    for (number, axis) in axes.iter().enumerate().filter(|(_, axis)| axis.is_object()) {
        let given = axis.get("indices").and_then(Value::as_array);
        let indices = given.filter(|_| axis.as_object().is_some_and(|keys| keys.len() == 1));
        let indices = indices.and_then(|list| list.iter().map(Value::as_i64).collect());
        let indices: Vec<i64> = indices.ok_or_else(|| {
            format!("axis {number} is not {{\"indices\": [..]}} of whole numbers")
        })?;
        lists.push((number, &*indices.leak()));
    }
    let pairs = axes.iter().enumerate().map(|(number, axis)| {
        if let Some((_, indices)) = lists.iter().find(|list| list.0 == number) {
            return Some((0, indices.len() as i64));
        }
        match axis.as_array()?.as_slice() {
            [begin, end] => Some((begin.as_i64()?, end.as_i64()?)),
            _ => None,
        }
    });
    Ok(Extent { lists: lists.clone(), ..extent_from_axes(pairs)? })
}

fn extent_from_axes(axes: impl Iterator<Item = Option<(i64, i64)>>) -> Result<Extent, String> {
    let mut extent = Extent::default();
    for (axis, pair) in axes.enumerate() {
        let (begin, end) =
            pair.ok_or_else(|| format!("axis {axis} is not a pair of whole numbers"))?;
        if end <= begin {
            return Err(format!("axis {axis} is empty: {begin}:{end}"));
        }
        extent.begin.push(begin);
        extent.end.push(end);
    }
    match extent.begin.len() {
        rank if rank > RANK_MAX => Err(format!("{rank} axes are more than {RANK_MAX}")),
        _ => Ok(extent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Outcome<Requests> {
        let words: Vec<_> = list.iter().map(|word| (*word).to_owned()).collect();
        Requests::from_words(&words, |uri| match uri {
            "a" => Ok(vec![5, 8]),
            _ => failed("no such array"),
        })
    }

    #[test]
    fn words_that_read_as_boxes_belong_to_the_uri_before_them() {
        let requests = words(&["a", "0:4,-2:3", "1:2", "b", "5:6"]).ok().unwrap();
        let uris: Vec<_> = (0..3).map(|index| requests.uri(index)).collect();
        assert_eq!(uris, ["a", "a", "b"]);
        assert_eq!(requests.items[0].1.shape(), [4, 5]);
        assert_eq!(requests.items[0].1.text(), "0:4,-2:3");
        // The box of an array without axes.
        assert_eq!(words(&["a", ""]).ok().unwrap().items[0].1.shape(), [0; 0]);
    }

    #[test]
    fn ends_that_are_left_out_are_those_of_the_array() {
        let text = |word| words(&["a", word]).ok().unwrap().items[0].1.text();
        for (word, whole) in [
            (":,:", "0:5,0:8"),
            ("2:,:3", "2:5,0:3"),
            ("-1:,: 4", "-1:5,0:4"),
            ("1:2,0:9", "1:2,0:9"),
        ] {
            assert_eq!(text(word), whole);
        }
        assert_eq!(words(&["b", "0:4"]).ok().unwrap().items[0].1.text(), "0:4");
        assert_eq!(words(&["b", "0:"]).err().map(|fault| fault.exit_code()), Some(1));
    }

    #[test]
    fn a_uri_without_a_box_and_a_box_without_a_uri_are_usage_errors() {
        for bad in [
            &["a"][..],
            &["0:4"],
            &["a", "b", "0:4"],
            &["a", "4:4"],
            &["a", "5:,:"],
            &["a", ":,:,:"],
            &["a", "0:4,4"],
            &["a", "0:--1"],
            &[],
        ] {
            assert_eq!(words(bad).err().map(|fault| fault.exit_code()), Some(2), "{bad:?}");
        }
    }

    #[test]
    fn a_line_with_anything_unknown_in_it_is_refused() {
        assert!(request_from_line(r#"{"uri":"a","box":[[0,4]]}"#).is_ok());
        for bad in [
            r#"{"uri":"a","box":[[0,4]],"tag":1}"#,
            r#"{"uri":"a","box":[[0,4.5]]}"#,
            r#"{"uri":"a","box":[[0,4,1]]}"#,
            r#"{"uri":"a","box":[[]]}"#,
            r#"{"uri":"a","box":[{"indices":[]}]}"#,
            r#"{"uri":"a","box":[{"indices":[1.5]}]}"#,
            r#"{"uri":"a","box":[{"indices":[1],"step":2}]}"#,
            r#"{"uri":1,"box":[[0,4]]}"#,
            r#"{"box":[[0,4]]}"#,
            "[]",
            "{",
        ] {
            assert!(request_from_line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_axis_of_indices_has_as_many_places() {
        let line = r#"{"uri":"a","box":[[0,4],{"indices":[9,2,2]}]}"#;
        let (_, extent) = request_from_line(line).unwrap();
        assert_eq!((extent.shape(), extent.indices()), (vec![4, 3], 3));
        assert_eq!(extent.text(), "0:4,[9, 2, 2]");
        assert_eq!(extent.lists, [(1, &[9i64, 2, 2][..])]);
    }

    #[test]
    fn extents_up_to_the_whole_range_of_i64_do_not_overflow() {
        let (_, extent) =
            request_from_line(r#"{"uri":"a","box":[[-9223372036854775808,9223372036854775807]]}"#)
                .unwrap();
        assert_eq!(extent.shape(), [u64::MAX]);
    }
}
