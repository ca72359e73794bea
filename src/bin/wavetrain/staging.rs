//! The staging of boxes with a map of `--augment`: what the largest of them reads, as the other
//! caps are fitted to arrays.
//!
//! In: maps, boxes, what is known of their uris. Out: `max_resample_bytes` of a config. Boxes that
//! the library refuses count nothing: it has the words.

use crate::augments::Change;
use crate::feed::{Known, level_of, named};
use crate::store;
use std::collections::HashMap;
use wavetrain::base::limits::{RANK_MAX, RESAMPLE_BYTES_MAX};
use wavetrain::base::status::Why;
use wavetrain::config::Config;
use wavetrain::loader::{self, Node};
use wavetrain::os::SYSTEM;
use wavetrain::records::{CF_MARK, LevelChoice, Placement};
use wavetrain::resample::{AXES, Filter, Map};
use wavetrain::setup::fields;
use wavetrain::surface::info::checked;

/// Boxes that are resampled at a time, as far as they take no more than this: the library's own
/// staging is for as many of its fields.
const BOXES: u64 = 8;
const BOXES_BYTES: u64 = 256 << 20;

/// An array, or the levels of an image as far as they are listed, by number.
struct Levels {
    placements: Vec<Placement>,
    /// Extents and bytes of an element, as far as they were asked for.
    arrays: HashMap<u32, Option<(Vec<u64>, u64)>>,
}

/// A box: the number of its uri, its places along each axis, what is done to it, and the pad mode
/// and cf of its field.
pub type Item<'a> = (usize, Vec<u64>, &'a Change, (u32, u32));

/// Raises the staging of a config to what the largest of these boxes needs.
pub fn fit<'a>(
    config: &mut Config,
    (uris, known): (&[String], &[Option<Known>]),
    boxes: impl Iterator<Item = Item<'a>>,
) {
    let mut looked = Looked { uris, known, levels: HashMap::new() };
    let most = boxes.filter_map(|item| looked.box_bytes(&item)).max().unwrap_or(0);
    let settings = checked(&SYSTEM, config, &mut Why::new());
    let least = settings.map_or(0, |settings| settings.resample_bytes());
    if most > least {
        let several = most.saturating_mul(BOXES).min(BOXES_BYTES);
        config.max_resample_bytes = most.max(several).min(RESAMPLE_BYTES_MAX);
    }
}

/// The arrays of boxes that were looked at.
struct Looked<'a> {
    uris: &'a [String],
    known: &'a [Option<Known>],
    /// By the number of the uri, and cf.
    levels: HashMap<(usize, u32), Levels>,
}

impl Looked<'_> {
    /// Bytes of the voxels that a box with a map reads; None of another, or of one that the library
    /// refuses.
    fn box_bytes(&mut self, (uri, places, change, field): &Item<'_>) -> Option<u64> {
        let affine = &change.affine(places.len())?;
        let ((pad_mode, cf), known) = (*field, self.known[*uri]?);
        let name = &*named(&self.uris[*uri], cf);
        let levels = self.levels.entry((*uri, cf)).or_insert_with(|| Levels::of(name, known));
        let mut choice = LevelChoice::NONE;
        while known.is_image && !choice.is_over() {
            choice.add(affine, levels.placements.get(choice.level() as usize)?);
        }
        if choice.wants_extents() {
            // The library compares axes that are copied: their extents change no hull.
            choice.set_extents(None);
        }
        let (shape, element_bytes) = levels.array((name, known), choice.level())?;
        let affine = choice.turned(affine, shape).ok()?;
        let (mut outputs, mut extents) = ([1; AXES], [1; AXES]);
        for (number, axis) in affine.axes().enumerate() {
            (outputs[number], extents[number]) = (*places.get(axis)?, *shape.get(axis)?);
        }
        let (rank, filter) = (affine.rank as usize, Filter::from_code(affine.filter)?);
        let pad = fields::pad_mode(pad_mode);
        let map = Map::new(rank, &affine.matrix, &outputs, &extents, filter, pad).ok()?;
        let read = places.iter().enumerate().map(|(axis, places)| match affine.position(axis) {
            Some(mapped) => map.hull(mapped).end - map.hull(mapped).start,
            None => *places,
        });
        Some(read.fold(*element_bytes, u64::saturating_mul))
    }
}

impl Levels {
    fn of(uri: &str, known: Known) -> Levels {
        let mut placements = Vec::new();
        let mut scratch = vec![0; loader::SCRATCH_BYTES];
        let group = uri.strip_suffix(CF_MARK).unwrap_or(uri);
        let found = known.is_image.then(|| store::node_info(group, &mut scratch).ok()).flatten();
        if let Some(Node::Group(group)) = found {
            let entries = group.entries().map(|entry| entry.raw());
            let own: Vec<_> = entries.filter(|entry| entry.image == 0).collect();
            for number in 0..own.len() as u32 {
                let Some(level) = own.iter().find(|level| level.level == number) else { break };
                let mut placement = Placement {
                    levels: own.len() as u32,
                    axes: level.rank,
                    is_given: level.has_transform == 1,
                    ..Placement::NONE
                };
                let rank = (level.rank as usize).min(RANK_MAX);
                placement.scale[..rank].copy_from_slice(&level.scale[..rank]);
                placement.translation[..rank].copy_from_slice(&level.translation[..rank]);
                placements.push(placement);
            }
        }
        Levels { placements, arrays: HashMap::new() }
    }

    /// Extents and bytes of an element of a level; None if it cannot be read.
    fn array(&mut self, (uri, known): (&str, Known), level: u32) -> Option<&(Vec<u64>, u64)> {
        let array = self.arrays.entry(level).or_insert_with(|| {
            let name = if known.is_image { level_of(uri, level) } else { uri.to_owned() };
            let info = store::array_info(&name, &mut vec![0; loader::SCRATCH_BYTES]).ok()?;
            let shape = info.shape[..info.rank as usize].to_vec();
            Some((shape, u64::from(info.dtype_bytes)))
        });
        array.as_ref()
    }
}
