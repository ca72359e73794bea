//! Levels of an image by number or by size: `GROUP#level=2`, `GROUP#scale=0.5,0.5,0.5`.
//!
//! In: the text after the last '#' of a uri, and the levels of the group before it. Out: the path
//! of one of them. Invariant: a level that is coarser than what was asked for is never taken.

use super::entry::{Detail, Entry, Level};
use super::transforms::Transform;
use crate::base::limits::{ENTRY_PATH_BYTES, RANK_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text};
use crate::fail;
use crate::records::{LEVEL_ROUNDING, Placement};
use crate::source::json;
use arrayvec::ArrayVec;

/// Bytes of a uri that an error text shows.
const SHOWN_BYTES: usize = 200;

/// Which level of an image is meant.
#[derive(Clone, PartialEq, Debug)]
pub enum Selection<'a> {
    /// That number, 0 the finest.
    Level(u32),
    /// The coarsest whose voxels are no longer than these, by axis; as they were written, too.
    Scale(&'a str, ArrayVec<f64, RANK_MAX>),
}

/// Splits a uri at its last '#'. None if it has none, or if the '#' is its first byte.
pub fn split_selection(uri: &str) -> Option<(&str, &str)> {
    let (group, text) = uri.rsplit_once('#')?;
    let group = group.trim_end_matches('/');
    (!group.is_empty()).then_some((group, text))
}

impl<'a> Selection<'a> {
    /// The level that a text asks for; `uri` names it in texts.
    pub fn read(text: &'a str, uri: &str, why: &mut Why) -> Result<Selection<'a>, Status> {
        let length = |text: &str| {
            let number = json::parse(text.as_bytes()).ok()?.as_f64();
            number.filter(|number| *number > 0.0 && number.is_finite())
        };
        let found = match text.split_once('=') {
            Some(("level", number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().ok().map(Selection::Level)
            }
            Some(("scale", list)) if list.split(',').count() <= RANK_MAX => {
                let lengths = list.split(',').map(length).collect::<Option<_>>();
                lengths.map(|lengths| Selection::Scale(list, lengths))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let way = match text {
                _ if text.starts_with("first") => "write NAME_*.npy#first=1",
                _ if text.starts_with("cf") => "write #cf=1, as the last part of the uri",
                _ => "write #level=2 or #scale=0.5,0.5,0.5",
            };
            let (shown, text) = (Tail(uri, SHOWN_BYTES), Tail(text, 60));
            fail!(why, Invalid, "{shown}: '#{text}' is not understood: {way}")
        })
    }
}

/// Looks for a level among the entries of a group.
pub struct LevelFinder<'a> {
    selection: Selection<'a>,
    path: Text<ENTRY_PATH_BYTES>,
    /// Lengths of a voxel of the level found.
    scales: ArrayVec<f64, RANK_MAX>,
    levels: u32,
    /// The place of that level.
    placement: Placement,
    fault: Option<&'static str>,
    /// The first level whose transformation is not read, and the part that is not.
    refused: Option<(u32, &'static str)>,
}

impl<'a> LevelFinder<'a> {
    /// Nothing was looked at.
    pub fn new(selection: Selection<'a>) -> LevelFinder<'a> {
        let (path, scales) = (Text::new(), ArrayVec::new());
        let placement = Placement::NONE;
        LevelFinder { selection, path, scales, levels: 0, placement, fault: None, refused: None }
    }

    /// Takes an entry of the group.
    pub fn add(&mut self, entry: &Entry<'_>) {
        let Detail::Level(level) = &entry.detail else { return };
        self.levels += 1;
        if level.image > 0 {
            self.fault = Some("it has several images: name the array of the level");
            return;
        }
        let is_found = match &self.selection {
            Selection::Level(number) => *number == level.level,
            Selection::Scale(..) if !level.transform.refused.is_empty() => {
                self.refused.get_or_insert((level.level, level.transform.refused));
                false
            }
            Selection::Scale(_, wanted) => match scales_of(level, wanted.len()) {
                Err(fault) => {
                    self.fault = Some(fault);
                    false
                }
                Ok(scales) => {
                    let mut both = scales.iter().zip(wanted);
                    let is_fine = both.all(|(is, most)| *is <= *most * (1.0 + LEVEL_ROUNDING));
                    let is_coarsest = is_fine
                        && (self.path.is_empty() || volume_ratio(&scales, &self.scales) > 1.0);
                    if is_coarsest {
                        self.scales = scales;
                    }
                    is_coarsest
                }
            },
        };
        if is_found {
            self.path.clear();
            self.path.push_str(entry.path);
            let Transform { is_given, scale, translation, .. } = level.transform;
            let axes = level.axes.len() as u32;
            self.placement = Placement { levels: 0, axes, is_given, scale, translation };
        }
    }

    /// The place of the level that was found, among all that were looked at.
    pub fn placement(&self) -> Placement {
        Placement { levels: self.levels, ..self.placement }
    }

    /// The path of the level, from the group on; `uri` is that of the group.
    pub fn finish(&self, uri: &str, why: &mut Why) -> Result<&str, Status> {
        let (shown, levels) = (Tail(uri, SHOWN_BYTES), self.levels);
        if levels == 0 {
            let way = "name one of the arrays in it";
            return Err(fail!(why, NotFound, "{shown}: is not an image with levels: {way}"));
        }
        if let Some(fault) = self.fault {
            return Err(fail!(why, Unsupported, "{shown}: {fault}"));
        }
        if let Some((level, part)) = self.refused {
            let way = "name a level, as in #level=0";
            return Err(fail!(
                why,
                Unsupported,
                "{shown}: level {level} has no scale along its axes ({part}): {way}"
            ));
        }
        match &self.selection {
            _ if !self.path.is_empty() => Ok(self.path.as_str()),
            Selection::Level(number) => {
                Err(fail!(why, NotFound, "{shown}: has no level {number}, there are {levels}"))
            }
            Selection::Scale(wanted, _) => {
                let way = "#level=0 is the finest";
                Err(fail!(why, NotFound, "{shown}: no level is as fine as {wanted}: {way}"))
            }
        }
    }
}

/// How many times as large as another voxel one is. It compares ratios, because a volume of small
/// lengths along many axes may be no number but 0.
fn volume_ratio(lengths: &[f64], others: &[f64]) -> f64 {
    let ratio = |(length, other): (&f64, &f64)| match length == other {
        true => 1.0,
        false => length / other,
    };
    lengths.iter().zip(others).map(ratio).product()
}

/// Lengths of a level's voxels along all of its axes, or along those of space, whichever are as
/// many as `count`.
fn scales_of(level: &Level<'_>, count: usize) -> Result<ArrayVec<f64, RANK_MAX>, &'static str> {
    if !level.transform.is_given {
        return Err("its levels say no scale: name a level, as in #level=0");
    }
    let scales = level.transform.scale.iter().map(|scale| scale.abs());
    let axes = level.axes.iter().zip(scales);
    let is_space = |kind: &str| kind.chars().eq("space".chars());
    let spaces = axes.clone().filter(|(axis, _)| is_space(axis.kind.to_text::<16>().as_str()));
    let lengths: ArrayVec<f64, RANK_MAX> = match count {
        _ if count == level.axes.len() => axes.map(|(_, scale)| scale).collect(),
        _ if count == spaces.clone().count() => spaces.map(|(_, scale)| scale).collect(),
        _ => return Err("#scale= needs a number for each axis of space, or for each axis"),
    };
    if lengths.contains(&0.0) {
        return Err("one of its levels has a scale of 0: name a level, as in #level=0");
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::DocumentKind;
    use crate::source::zarr::{GroupDocuments, group_from_documents};
    use std::format;
    use std::string::{String, ToString};

    fn image(scales: &[&str], images: usize) -> String {
        let datasets: std::vec::Vec<String> = (0..scales.len())
            .map(|level| match scales[level] {
                "" => format!(r#"{{"path":"s{level}"}}"#),
                list => format!(
                    r#"{{"path":"s{level}","coordinateTransformations":[
                        {{"type":"scale","scale":[1,{list}]}}]}}"#
                ),
            })
            .collect();
        let one = format!(
            r#"{{"axes":[{{"name":"c","type":"channel"}},{{"name":"y","type":"space"}},
                {{"name":"x","type":"space"}}],"datasets":[{}]}}"#,
            datasets.join(",")
        );
        let all = std::vec![one; images].join(",");
        format!(
            r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{{"version":"0.5",
                "multiscales":[{all}]}}}}}}"#
        )
    }

    fn select(document: &str, text: &str) -> Result<String, (Status, String)> {
        let mut why = Why::new();
        let documents = GroupDocuments {
            kind: DocumentKind::Zarr3,
            group: document.as_bytes(),
            attributes: b"{}",
            consolidated: b"{}",
        };
        let found = Selection::read(text, "/a", &mut why).and_then(|selection| {
            let mut finder = LevelFinder::new(selection);
            group_from_documents(&documents, "/a", &mut why, &mut |entry| finder.add(entry))?;
            finder.finish("/a", &mut why).map(ToString::to_string)
        });
        found.map_err(|status| (status, why.to_string()))
    }

    #[test]
    fn a_level_is_found_by_its_number_and_by_its_scale() {
        let image = image(&["0.25,0.25", "0.5,0.5", "1,1"], 1);
        for (text, path) in [
            ("level=0", "s0"),
            ("level=2", "s2"),
            ("scale=0.25,0.25", "s0"),
            ("scale=0.49,9", "s0"),
            ("scale=0.5,0.5", "s1"),
            ("scale=0.4999999999,0.5", "s1"),
            ("scale=1,0.5,0.7", "s1"),
            ("scale=8e0,8e0", "s2"),
        ] {
            assert_eq!(select(&image, text), Ok(path.to_string()), "{text}");
        }
    }

    #[test]
    fn voxels_whose_volume_is_no_number_have_a_level() {
        let image = image(&["1e-200,1e-200", "1e-199,1e-200", "1e200,1e200", "1e201,1e200"], 1);
        assert_eq!(select(&image, "scale=1,1"), Ok("s1".to_string()));
        assert_eq!(select(&image, "scale=1e300,1e300"), Ok("s3".to_string()));
    }

    #[test]
    fn what_is_not_there_or_not_said_is_refused() {
        let (sound, bare) = (image(&["0.25,0.25", "0.5,0.5"], 1), image(&["", ""], 1));
        let flat = image(&["1,1", "0,4"], 1);
        let several = image(&["1,1"], 2);
        for (document, text, status, reason) in [
            (&sound, "level=2", Status::NotFound, "has no level 2, there are 2"),
            (&sound, "scale=0.2,0.25", Status::NotFound, "as fine as 0.2,0.25: #level=0"),
            (&sound, "scale=1", Status::Unsupported, "a number for each axis"),
            (&sound, "scale=1,1,1,1", Status::Unsupported, "a number for each axis"),
            (&sound, "scale=0,1", Status::Invalid, "'#scale=0,1' is not understood"),
            (&sound, "scale=nan,1", Status::Invalid, "is not understood"),
            (&sound, "scale=", Status::Invalid, "is not understood"),
            (&sound, "level=-1", Status::Invalid, "is not understood"),
            (&sound, "level=+1", Status::Invalid, "is not understood"),
            (&sound, "level", Status::Invalid, "write #level=2 or"),
            (&flat, "scale=1,1", Status::Unsupported, "has a scale of 0: name a level, as in"),
            (&sound, "first=x", Status::Invalid, "not understood: write NAME_*.npy#first=1"),
            (
                &sound,
                "cf=1",
                Status::Invalid,
                "'#cf=1' is not understood: write #cf=1, as the last",
            ),
            (&sound, "cf=true", Status::Invalid, "write #cf=1, as the last part of the uri"),
            (&bare, "scale=1,1", Status::Unsupported, "say no scale: name a level, as in #level=0"),
            (&several, "level=0", Status::Unsupported, "several images"),
        ] {
            let refused = select(document, text).expect_err(text);
            assert_eq!(refused.0, status, "{text}: {}", refused.1);
            assert!(refused.1.starts_with("/a: ") && refused.1.contains(reason), "{}", refused.1);
        }
        assert_eq!(select(&bare, "level=1"), Ok("s1".to_string()));
        let across = sound.replacen(r#""type":"scale""#, r#""type":"mapAxis""#, 1);
        assert_eq!(select(&across, "level=0"), Ok("s0".to_string()));
        let (status, text) = select(&across, "scale=1,1").unwrap_err();
        assert_eq!(status, Status::Unsupported);
        assert!(
            text.contains("level 0 has no scale along its axes (mapAxis): name a level"),
            "{text}"
        );
        let group = r#"{"zarr_format":3,"node_type":"group"}"#;
        assert_eq!(select(group, "level=0").unwrap_err().0, Status::NotFound);
    }

    #[test]
    fn a_uri_is_split_at_its_last_mark() {
        assert_eq!(split_selection("/a#b/c#level=1"), Some(("/a#b/c", "level=1")));
        assert_eq!(split_selection("/a/#level=1"), Some(("/a", "level=1")));
        assert_eq!(split_selection("#level=1"), None);
        assert_eq!(split_selection("/a"), None);
    }
}
