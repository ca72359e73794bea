//! OME-NGFF: what the attributes of a group say of an image, a plate or a well.
//!
//! Comes in: the attributes of a group. Goes out: entries (levels with axes and scales, wells,
//! fields, label images) and what the group says of itself. Source: OME-NGFF 0.5 (`attributes.ome`
//! of a zarr v3 group) and 0.1 to 0.4 (top level of `.zattrs`).
//!
//! Invariant: a level has one number per axis in scale and translation, all of them finite. A
//! version, transformation or path that is not understood is refused by name; members that do not
//! locate arrays (omero, metadata, acquisitions) are ignored.

use super::entry::{Axes, Axis, Detail, Found, Level, NodeKind, Transform, path_fault};
use super::node::Node;
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::Status;
use crate::fail;
use crate::records::DocumentKind;
use crate::source::json::{Str, Value};
use arrayvec::ArrayVec;

/// Versions that are read. Those of 0.5 differ in words of the specification only.
const VERSIONS: &str = "0.1 0.2 0.3 0.4 0.5 0.5.1 0.5.2";

/// Axes of images before version 0.3, in this order.
const IMPLIED_AXES: [&str; 5] = ["t", "c", "z", "y", "x"];

/// Reads the OME-NGFF part of a group's attributes, if they have one.
pub(super) fn read_ome<'a>(
    attributes: Node<'_, 'a>,
    document: DocumentKind,
    found: &mut Found<'_, 'a>,
) -> Result<(), Status> {
    let names = "multiscales plate well labels version";
    let [ome, ..] = attributes.pick("ome", 0)?;
    let node = ome.found().unwrap_or(attributes);
    let [multiscales, plate, well, labels, version, ..] = node.pick(names, 0)?;
    if ome.found().is_some() {
        read_version(version, found)?;
    }
    match (multiscales.found(), plate.found(), well.found()) {
        (None, None, None) => {}
        (Some(list), None, None) => read_multiscales(list, found)?,
        (None, Some(plate), None) => read_plate(plate, found)?,
        (None, None, Some(well)) => read_well(well, found)?,
        _ => {
            let reason = "more than one of multiscales, plate and well is not read";
            return Err(fail!(node, Unsupported, "{reason}"));
        }
    }
    // Outside of "ome" this common word may be anybody's attribute.
    let is_ours = ome.found().is_some() || document != DocumentKind::Zarr3 && is_path_list(*labels);
    if is_ours && let Some(labels) = labels.found() {
        found.group.has_ome = true;
        for item in labels.items()? {
            found.add(item, NodeKind::Image, Detail::None)?;
        }
    }
    Ok(())
}

/// Whether a value is a list of paths.
fn is_path_list(value: Value<'_>) -> bool {
    let mut buffer = [0; ENTRY_PATH_BYTES - 1];
    let mut is_path = |text: Str<'_>| {
        text.decode_into(&mut buffer).is_some_and(|path| path_fault(path).is_none())
    };
    let items = value.items();
    items.is_some_and(|mut items| items.all(|item| item.as_str().is_some_and(&mut is_path)))
}

/// Takes the version, if one is said.
fn read_version<'a>(node: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    let Some(node) = node.present() else { return Ok(()) };
    let version = node.string()?;
    if version.place_in(VERSIONS).is_none() {
        return Err(node.unknown("OME-NGFF", version, "0.1 to 0.5"));
    }
    found.group.version = version;
    Ok(())
}

/// A string for a C program; empty if it has none.
fn label<'a>(node: Node<'_, 'a>) -> Result<Str<'a>, Status> {
    let Some(node) = node.present() else { return Ok(Str::default()) };
    let text = node.string()?;
    if text.chars().any(|character| character == '\0') {
        return Err(fail!(node, Decode, "{text} has a NUL character"));
    }
    Ok(text)
}

/// A number that may be absent.
fn count(node: Node<'_, '_>, last: u32) -> Result<Option<u32>, Status> {
    let number = node.present().map(|node| node.integer(0, last.into()));
    Ok(number.transpose()?.map(|number| number as u32))
}

fn read_multiscales<'a>(list: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    found.group.kind = NodeKind::Image;
    found.group.has_ome = true;
    for item in list.items()? {
        let [datasets, version, name, axes, common, ..] =
            item.pick("datasets version name axes coordinateTransformations", 1)?;
        read_version(version, found)?;
        let name = label(name)?;
        if found.group.name.is_empty() {
            found.group.name = name;
        }
        let is_implied = found.group.version.place_in(" 0.1 0.2").is_some();
        let axes = match axes.found() {
            // Before 0.3 they are implied.
            None if is_implied => {
                IMPLIED_AXES.map(|name| bare_axis(Str::plain(name))).into_iter().collect()
            }
            _ => read_axes(item.pick("axes", 1)?[0])?,
        };
        for (level, dataset) in datasets.items()?.enumerate() {
            let (image, level) = (found.group.image_count, level as u32);
            let transform = Transform::IDENTITY;
            let level = Level { image, level, name, axes: &axes, transform };
            read_dataset(dataset, common, level, found)?;
        }
        found.group.image_count += 1;
    }
    Ok(())
}

fn read_dataset<'r, 'a>(
    node: Node<'r, 'a>,
    common: Node<'r, 'a>,
    mut level: Level<'_>,
    found: &mut Found<'_, 'a>,
) -> Result<(), Status> {
    let [path, own, ..] = node.pick("path coordinateTransformations", 1)?;
    for list in [own.present(), common.present()].into_iter().flatten() {
        for item in list.items()? {
            apply(item, level.axes.len(), &mut level.transform)?;
        }
    }
    if found.levels.is_full() {
        return Err(node.too_many(GROUP_LEVELS_MAX, "levels in a group"));
    }
    let path = found.add(path, NodeKind::Array, Detail::Level(level))?;
    found.levels.push(path);
    Ok(())
}

impl Transform {
    /// Nothing said.
    const IDENTITY: Transform =
        Transform { is_given: false, scale: [1.0; RANK_MAX], translation: [0.0; RANK_MAX] };
}

/// Composes one more transformation with those before it: it maps what they give.
fn apply(node: Node<'_, '_>, rank: usize, transform: &mut Transform) -> Result<(), Status> {
    let [kind, path, ..] = node.pick("type path", 1)?;
    if let Some(path) = path.found() {
        let reason = format_args!("numbers in an array of their own, {path}, are not read");
        return Err(path.fail(Status::Unsupported, reason));
    }
    let name = kind.string()?;
    transform.is_given = true;
    let Transform { scale, translation, .. } = transform;
    match name.place_in("identity scale translation") {
        Some(0) => {}
        Some(1) => {
            for (axis, factor) in read_numbers(node, "scale", rank)?.into_iter().enumerate() {
                scale[axis] *= factor;
                translation[axis] *= factor;
            }
        }
        Some(_) => {
            let offsets = read_numbers(node, "translation", rank)?;
            translation.iter_mut().zip(offsets).for_each(|(sum, offset)| *sum += offset);
        }
        None => {
            return Err(kind.unknown("transformation", name, "identity, scale and translation"));
        }
    }
    if !scale.iter().chain(&*translation).all(|number| number.is_finite()) {
        return Err(fail!(node, Decode, "what it leads to is beyond f64"));
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

/// Axes as objects (0.4, 0.5) or as names alone (0.3).
fn read_axes<'a>(node: Node<'_, 'a>) -> Result<Axes<'a>, Status> {
    let mut axes = Axes::new();
    for item in node.items()? {
        let axis = if let Some(name) = item.as_str() {
            bare_axis(name)
        } else {
            let [name, kind, unit, ..] = item.pick("name type unit", 1)?;
            Axis { name: label(name)?, kind: label(kind)?, unit: label(unit)? }
        };
        let name = axis.name;
        if axes.iter().any(|other: &Axis<'_>| other.name.chars().eq(name.chars())) {
            return Err(fail!(item, Decode, "a second axis {name}"));
        }
        axes.try_push(axis).map_err(|_| node.too_many(RANK_MAX, "axes"))?;
    }
    if axes.is_empty() {
        return Err(fail!(node, Decode, "an image without axes"));
    }
    Ok(axes)
}

/// An axis of which only the name is said, and what an axis of this name is.
fn bare_axis(name: Str<'_>) -> Axis<'_> {
    let kind = match name.place_in("t c z y x") {
        None => "",
        Some(0) => "time",
        Some(1) => "channel",
        Some(_) => "space",
    };
    Axis { name, kind: Str::plain(kind), unit: Str::default() }
}

fn read_plate<'a>(node: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    let [rows, columns, wells, version, name, field_count, ..] =
        node.pick("rows columns wells version name field_count", 3)?;
    read_version(version, found)?;
    let group = &mut found.group;
    group.kind = NodeKind::Plate;
    group.has_ome = true;
    group.name = label(name)?;
    group.row_count = rows.items()?.count() as u32;
    group.column_count = columns.items()?.count() as u32;
    group.field_count = count(field_count, u32::MAX)?.unwrap_or(0);
    let lasts = [group.row_count, group.column_count].map(|count| i64::from(count) - 1);
    for well in wells.items()? {
        let [path, row, column, ..] = well.pick("path rowIndex columnIndex", 1)?;
        // Before 0.4 the path alone gives the place of a well.
        let place = match (row.present(), column.present()) {
            (Some(row), Some(column)) => {
                let place = [row.integer(0, lasts[0])?, column.integer(0, lasts[1])?];
                Some(place.map(|index| index as u32))
            }
            _ => None,
        };
        found.add(path, NodeKind::Well, Detail::Well(place))?;
    }
    Ok(())
}

fn read_well<'a>(node: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    let [images, version, ..] = node.pick("images version", 1)?;
    read_version(version, found)?;
    found.group.kind = NodeKind::Well;
    found.group.has_ome = true;
    for image in images.items()? {
        let [path, acquisition, ..] = image.pick("path acquisition", 1)?;
        let acquisition = count(acquisition, u32::MAX - 1)?;
        found.add(path, NodeKind::Image, Detail::Field(acquisition))?;
    }
    Ok(())
}
