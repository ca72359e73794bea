//! Transformations of OME-NGFF: one scale and one translation per axis, as far as they express it.
//!
//! Comes in: the lists of a level and of its image. Goes out: a [`Transform`]. Source: OME-NGFF 0.4
//! to 0.6. Invariant: its numbers are finite. A transformation that leads along other axes, or
//! whose numbers lie elsewhere, refuses the level's alone: it is 1 and 0, and has the reason.

use super::node::Node;
use crate::base::limits::RANK_MAX;
use crate::base::status::Status;
use crate::fail;
use arrayvec::ArrayVec;

/// Sequences inside of sequences that are read.
const SEQUENCES_MAX: u32 = 4;

/// Kinds that are read, and those that are known and refused.
const READ: &str = "identity scale translation sequence affine rotation";
const REFUSED: [&str; 7] = [
    "mapAxis",
    "projectAxis",
    "byDimension",
    "bijection",
    "inverseOf",
    "displacements",
    "coordinates",
];

/// From indices of a level to physical units: index * scale + translation.
#[derive(Clone, Copy, Debug)]
pub struct Transform {
    /// Whether the document gives any of it and all is read; else scale is 1 and translation 0.
    pub is_given: bool,
    /// The part that is not read; empty if there is none.
    pub refused: &'static str,
    /// Finite.
    pub scale: [f64; RANK_MAX],
    /// Finite.
    pub translation: [f64; RANK_MAX],
}

impl Transform {
    /// Nothing said.
    pub const IDENTITY: Transform = Transform {
        is_given: false,
        refused: "",
        scale: [1.0; RANK_MAX],
        translation: [0.0; RANK_MAX],
    };

    /// Takes all of it back, for that reason.
    pub fn refuse(&mut self, reason: &'static str) {
        *self = Transform { refused: reason, ..Transform::IDENTITY };
    }

    /// Maps an axis by one more factor and offset.
    fn map(&mut self, axis: usize, factor: f64, offset: f64) {
        self.scale[axis] *= factor;
        self.translation[axis] = self.translation[axis] * factor + offset;
    }
}

/// Composes a list of transformations with those before them: each maps what the last gives.
pub(super) fn compose(
    list: Node<'_, '_>,
    rank: usize,
    transform: &mut Transform,
) -> Result<(), Status> {
    compose_in(list, rank, transform, 0)
}

fn compose_in(
    list: Node<'_, '_>,
    rank: usize,
    transform: &mut Transform,
    depth: u32,
) -> Result<(), Status> {
    for (number, item) in list.items()?.enumerate() {
        let [output, ..] = item.pick("output", 0)?;
        if depth == 0 && number > 0 && output.found().is_some() {
            transform.refuse("more than one way to a coordinate system");
        }
        if transform.refused.is_empty() {
            apply(item, rank, transform, depth)?;
        }
        if !transform.scale.iter().chain(&transform.translation).all(|number| number.is_finite()) {
            return Err(fail!(item, Decode, "what it leads to is beyond f64"));
        }
    }
    Ok(())
}

/// Composes one more transformation.
fn apply(
    node: Node<'_, '_>,
    rank: usize,
    transform: &mut Transform,
    depth: u32,
) -> Result<(), Status> {
    let [kind, path, list, ..] = node.pick("type path transformations", 1)?;
    let name = kind.string()?;
    let place = name.place_in(READ);
    if path.found().is_some() && place.is_some() {
        transform.refuse("numbers in an array of their own");
        return Ok(());
    }
    transform.is_given = true;
    match place {
        Some(0) => {}
        Some(1) => {
            for (axis, factor) in read_numbers(node, "scale", rank)?.into_iter().enumerate() {
                transform.map(axis, factor, 0.0);
            }
        }
        Some(2) => {
            for (axis, offset) in read_numbers(node, "translation", rank)?.into_iter().enumerate() {
                transform.map(axis, 1.0, offset);
            }
        }
        Some(3) if depth == SEQUENCES_MAX => transform.refuse("sequences inside of sequences"),
        Some(3) => {
            node.check_present("transformations", &[list])?;
            compose_in(list, rank, transform, depth + 1)?;
        }
        Some(4) => apply_matrix(node, "affine", rank, transform)?,
        Some(_) => apply_matrix(node, "rotation", rank, transform)?,
        None => {
            let known = REFUSED.into_iter().find(|refused| name == **refused);
            transform.refuse(known.unwrap_or("a kind that is not known"));
        }
    }
    Ok(())
}

/// One number per axis, from the member of this name.
fn read_numbers(
    node: Node<'_, '_>,
    name: &str,
    rank: usize,
) -> Result<ArrayVec<f64, RANK_MAX>, Status> {
    let [list, ..] = node.pick(name, 1)?;
    let items = list.items_of(rank, format_args!("numbers for {rank} axes"))?;
    items.map(Node::number).collect()
}

/// A matrix of a row per axis, each of a factor per axis and, of an affine map, an offset. It is
/// read if it has factors on its diagonal alone.
fn apply_matrix(
    node: Node<'_, '_>,
    name: &'static str,
    rank: usize,
    transform: &mut Transform,
) -> Result<(), Status> {
    let [rows, ..] = node.pick(name, 1)?;
    let columns = rank + usize::from(name == "affine");
    let mut is_along = true;
    for (axis, row) in rows.items_of(rank, format_args!("rows for {rank} axes"))?.enumerate() {
        let (mut factor, mut offset) = (0.0, 0.0);
        let says = format_args!("numbers, not {columns}, in a row for {rank} axes");
        for (column, item) in row.items_of(columns, says)?.enumerate() {
            match (item.number()?, column) {
                (number, column) if column == axis => factor = number,
                (number, column) if column == rank => offset = number,
                (number, _) => is_along &= number == 0.0,
            }
        }
        is_along &= factor != 0.0;
        transform.map(axis, factor, offset);
    }
    if !is_along {
        transform.refuse(match name {
            "affine" => "an affine map that leads across axes",
            _ => "a rotation that leads across axes",
        });
    }
    Ok(())
}
