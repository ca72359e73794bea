//! Levels of an image by number or by size, in any group: which array `GROUP#level=2` is.
//!
//! Input: one byte of form, the text behind the '#', a newline, then a document: with form 0 the
//! attributes of a zarr v3 group, 1: `.zattrs`, else choices of a sound image.
//!
//! Checked against the words of include/wavetrain.h: the level of that number; or the coarsest of
//! those whose voxels are no longer than that, by axis of space or by axis, with serde_json's
//! reading of the numbers.

use super::choices::Choices;
use wavetrain::records::DocumentKind;
use wavetrain::source::zarr::{
    Detail, Entry, GroupDocuments, LevelFinder, Selection, group_from_documents, split_selection,
};
use wavetrain::status::{Status, Why};

/// A level is fine enough up to a rounding of this part.
const ROUNDING: f64 = 1e-6;

/// What is asked for.
#[derive(PartialEq, Debug)]
enum Asked {
    Level(u32),
    Scale(Vec<f64>),
}

/// A level as the group says it.
struct Seen {
    path: String,
    image: u32,
    level: u32,
    /// Along all axes, and along those of space.
    scales: Vec<f64>,
    spaces: Vec<f64>,
    is_given: bool,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let Ok(text) = str::from_utf8(&rest[..end]) else { return };
    check_split(text);
    let asked = model_of(text);
    let mut why = Why::new();
    let selection = match Selection::read(text, "/g", &mut why) {
        Ok(selection) => selection,
        Err(status) => {
            assert!(asked.is_none(), "{asked:?} is not understood: {why}");
            assert!(status == Status::Invalid && why.as_str().contains("is not understood"));
            return;
        }
    };
    let asked = asked.unwrap_or_else(|| panic!("{text:?} is understood: {selection:?}"));
    match &selection {
        Selection::Level(level) => assert_eq!(asked, Asked::Level(*level)),
        Selection::Scale(_, lengths) => assert_eq!(asked, Asked::Scale(lengths.to_vec())),
    }
    let document = rest.get(end + 1..).unwrap_or(&[]);
    let (attributes, made) = match form % 4 {
        0 | 1 => (document.to_vec(), None),
        _ => {
            let (text, scales) = image(&mut Choices::of(document));
            (text.into_bytes(), Some(scales))
        }
    };
    let wrapped =
        [br#"{"zarr_format":3,"node_type":"group","attributes":"#, &attributes[..], b"}"].concat();
    let (kind, group, attributes) = match form % 4 {
        1 => (DocumentKind::Zarr2Group, &br#"{"zarr_format": 2}"#[..], &attributes[..]),
        _ => (DocumentKind::Zarr3, &wrapped[..], &b"{}"[..]),
    };
    let documents = GroupDocuments { kind, group, attributes, consolidated: b"{}" };
    let (mut finder, mut levels) = (LevelFinder::new(selection), Vec::new());
    let read = group_from_documents(&documents, "/g", &mut why, &mut |entry| {
        levels.extend(seen(entry));
        finder.add(entry);
    });
    if read.is_err() {
        return assert!(made.is_none(), "{why}");
    }
    if let Some(made) = made {
        assert!(levels.iter().map(|level| &level.scales).eq(&made), "{made:?}");
    }
    let found = finder.finish("/g", &mut why).map(str::to_owned);
    check(&asked, &levels, found, &why);
}

/// A uri is split at its last mark.
fn check_split(text: &str) {
    for uri in [text.to_owned(), format!("/g#{text}"), format!("/g//#{text}")] {
        let model = uri.rfind('#').and_then(|at| {
            let group = uri[..at].trim_end_matches('/');
            (!group.is_empty()).then_some((group, &uri[at + 1..]))
        });
        assert_eq!(split_selection(&uri), model);
    }
}

/// What a text asks for, if anything.
fn model_of(text: &str) -> Option<Asked> {
    if let Some(digits) = text.strip_prefix("level=") {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then(|| digits.parse().ok().map(Asked::Level)).flatten();
    }
    let numbers = text.strip_prefix("scale=")?.split(',').map(|number| {
        let number = serde_json::from_str::<serde_json::Value>(number).ok()?.as_f64()?;
        (number > 0.0).then_some(number)
    });
    let numbers = numbers.collect::<Option<Vec<f64>>>()?;
    (numbers.len() <= 16).then_some(Asked::Scale(numbers))
}

/// An image of levels that say their scales, which are the second result.
fn image(choices: &mut Choices<'_>) -> (String, Vec<Vec<f64>>) {
    let axes = 1 + choices.below(5) as usize;
    let kinds = ["space", "channel", "time", "spac", "spaces"];
    let names: Vec<String> = (0..axes)
        .map(|axis| format!(r#"{{"name":"a{axis}","type":"{}"}}"#, choices.one_of(&kinds)))
        .collect();
    let menu = [1.0, 0.5, 0.25, 2.0, 4.0, 8.0, 0.1, 3.0, -1.0, 1e-9, 1e12, 1e-60, 1e59, 0.0];
    let mut scales = Vec::new();
    let mut datasets = Vec::new();
    for level in 0..choices.below(6) {
        let scale: Vec<f64> = (0..axes).map(|_| choices.one_of(&menu)).collect();
        let transforms = format!(r#"[{{"type":"scale","scale":{scale:?}}}]"#);
        datasets.push(format!(r#"{{"path":"s{level}","coordinateTransformations":{transforms}}}"#));
        scales.push(scale.iter().map(|number| number.abs()).collect());
    }
    let (axes, datasets) = (names.join(","), datasets.join(","));
    let image = format!(r#"{{"axes":[{axes}],"datasets":[{datasets}]}}"#);
    let text = format!(r#"{{"ome":{{"version":"0.5","multiscales":[{image}]}}}}"#);
    (text, scales)
}

fn seen(entry: &Entry<'_>) -> Option<Seen> {
    let Detail::Level(level) = &entry.detail else { return None };
    let scales = level.transform.scale.iter().map(|number| number.abs());
    let scales: Vec<f64> = scales.take(level.axes.len()).collect();
    let is_space = |axis: usize| level.axes[axis].kind.chars().collect::<String>() == "space";
    let spaces = (0..scales.len()).filter(|axis| is_space(*axis)).map(|axis| scales[axis]);
    Some(Seen {
        path: entry.path.to_owned(),
        image: level.image,
        level: level.level,
        spaces: spaces.collect(),
        scales,
        is_given: level.transform.is_given,
    })
}

/// The lengths that so many numbers are for.
fn lengths(level: &Seen, count: usize) -> Option<&[f64]> {
    let lists = [&level.scales, &level.spaces].into_iter();
    lists.filter(|_| level.is_given).find(|list| list.len() == count).map(Vec::as_slice)
}

fn check(asked: &Asked, levels: &[Seen], found: Result<String, Status>, why: &Why) {
    let refusal = |status: Status, text: &str| {
        assert_eq!(found, Err(status), "{why}");
        assert!(why.as_str().starts_with("/g: ") && why.as_str().contains(text), "{why}");
    };
    if levels.is_empty() {
        return refusal(Status::NotFound, "is not an image with levels");
    }
    if levels.iter().any(|level| level.image > 0) {
        return refusal(Status::Unsupported, "");
    }
    let wanted = match asked {
        Asked::Level(number) => {
            return match levels.iter().find(|level| level.level == *number) {
                Some(level) => assert_eq!(found.as_ref(), Ok(&level.path)),
                None => refusal(Status::NotFound, &format!("has no level {number}, there are")),
            };
        }
        Asked::Scale(wanted) => wanted,
    };
    let lists = levels.iter().map(|level| lengths(level, wanted.len()));
    let Some(lists) = lists.collect::<Option<Vec<&[f64]>>>() else {
        return refusal(Status::Unsupported, "");
    };
    if lists.iter().any(|list| list.contains(&0.0)) {
        return refusal(Status::Unsupported, "has a scale of 0");
    }
    let is_fine = |list: &[f64]| {
        list.iter().zip(wanted).all(|(length, most)| *length <= most * (1.0 + ROUNDING))
    };
    let fine: Vec<usize> = (0..levels.len()).filter(|level| is_fine(lists[*level])).collect();
    if fine.is_empty() {
        return refusal(Status::NotFound, "no level is as fine as");
    }
    let Ok(path) = found else { panic!("{found:?}: {why}, but {fine:?} are fine enough") };
    let is_it = |level: &usize| levels[*level].path == path;
    assert!(fine.iter().any(is_it), "{path} is none of {fine:?}");
    // Ratios of other lengths are no numbers.
    let is_length = |length: &f64| (1e-60..1e60).contains(length);
    if !fine.iter().all(|level| lists[*level].iter().all(is_length)) {
        return;
    }
    // None is coarser: along no axis finer, and by more than a rounding longer along one.
    let chosen = fine.iter().copied().filter(is_it).map(|level| lists[level]);
    let is_coarser = |other: &[f64], list: &[f64]| {
        let pairs = || other.iter().zip(list);
        pairs().all(|(other, own)| other >= own)
            && pairs().any(|(other, own)| *other > own * (1.0 + ROUNDING))
    };
    let is_coarsest = |list| !fine.iter().any(|other| is_coarser(lists[*other], list));
    assert!(chosen.clone().any(is_coarsest), "{path} is not the coarsest of {fine:?}");
    // Nor is one of a larger volume.
    let volume = |list: &[f64]| list.iter().map(|length| length.ln()).sum::<f64>();
    let most = fine.iter().map(|level| volume(lists[*level])).fold(f64::MIN, f64::max);
    let best = chosen.map(volume).fold(f64::MIN, f64::max);
    assert!(best >= most - 1e-6, "{path}: {best}, not {most}");
}
