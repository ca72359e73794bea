//! OME-NGFF: what the attributes of a group say of an image, a plate or a well.
//!
//! Comes in: the attributes of a group. Goes out: entries (levels with axes and scales, wells,
//! fields, label images) and what the group says of itself. Source: OME-NGFF 0.5 (`attributes.ome`
//! of a zarr v3 group) and 0.1 to 0.4 (top level of `.zattrs`).
//!
//! Invariant: a level has one number per axis in scale and translation, all of them finite. A
//! version, transformation or path that is not understood is refused by name; members that say
//! nothing about where arrays are (omero, metadata, acquisitions) are passed over.

use super::group::{
    Axes, Axis, Detail, Entry, Group, Level, NodeKind, PathBuffer, Transform, Visitor, entry_path,
    path_fault, present,
};
use super::node::Reader;
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::Status;
use crate::records::DocumentKind;
use crate::source::json::{Str, Value};

/// Versions that are read. Those of 0.5 differ in words of the specification only.
const VERSIONS: &str = "0.1 0.2 0.3 0.4 0.5 0.5.1 0.5.2";

/// Axes of images before version 0.3, in this order.
const IMPLIED_AXES: [&str; 5] = ["t", "c", "z", "y", "x"];

const EMPTY: Str<'static> = Str::plain("");

/// Reads the OME-NGFF part of a group's attributes, if there is one.
pub(super) fn read_ome<'a>(
    reader: &mut Reader<'_>,
    attributes: Value<'a>,
    document: DocumentKind,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    let [ome, mut multiscales, mut plate, mut well, mut labels, ..] =
        reader.pick(attributes, "ome multiscales plate well labels", 0)?;
    if let Some(ome) = ome.found() {
        let version;
        [version, multiscales, plate, well, labels, ..] =
            reader.pick(ome, "version multiscales plate well labels", 0)?;
        read_version(reader, version, group)?;
    } else if document == DocumentKind::Zarr3 {
        // Outside of "ome" this common word may be anybody's attribute.
        labels = Value::ABSENT;
    }
    match (multiscales.found(), plate.found(), well.found()) {
        (None, None, None) => {}
        (Some(value), None, None) => read_multiscales(reader, value, visitor, group)?,
        (None, Some(value), None) => read_plate(reader, value, visitor, group)?,
        (None, None, Some(value)) => read_well(reader, value, visitor, group)?,
        _ => {
            let reason = format_args!("more than one of multiscales, plate and well is not read");
            return Err(reader.unsupported(ome.found().unwrap_or(attributes), reason));
        }
    }
    match labels.found() {
        Some(value) if ome.found().is_some() || is_path_list(value) => {
            read_labels(reader, value, visitor, group)
        }
        _ => Ok(()),
    }
}

/// Takes the version, if one is said.
fn read_version<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    let Some(value) = present(value) else { return Ok(()) };
    let version = reader.string(value)?;
    if version.place_in(VERSIONS).is_none() {
        return Err(reader.unknown(value, "OME-NGFF", version, "0.1 to 0.5"));
    }
    group.version = version;
    Ok(())
}

/// A string for a C program; empty where there is none.
fn label<'a>(reader: &mut Reader<'_>, value: Value<'a>) -> Result<Str<'a>, Status> {
    let Some(value) = present(value) else { return Ok(EMPTY) };
    let text = reader.string(value)?;
    if text.chars().any(|character| character == '\0') {
        return Err(reader.decode(value, format_args!("{text} has a NUL character")));
    }
    Ok(text)
}

fn read_multiscales<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    group.kind = NodeKind::Image;
    group.has_ome = true;
    for item in reader.items(value)? {
        let [datasets, version, name, axes, common, ..] =
            reader.pick(item, "datasets version name axes coordinateTransformations", 1)?;
        read_version(reader, version, group)?;
        let name = label(reader, name)?;
        if group.name.is_empty() {
            group.name = name;
        }
        let axes = match axes.found() {
            // Before 0.3 they are implied.
            None if group.version.place_in(" 0.1 0.2").is_some() => implied_axes(),
            _ => {
                let axes = reader.required(item, "axes", axes)?;
                read_axes(reader, axes)?
            }
        };
        let common = present(common);
        for (level, dataset) in reader.items(datasets)?.enumerate() {
            let (image, level) = (group.image_count, level as u32);
            let transform = Transform::IDENTITY;
            let level = Level { image, level, name, axes: &axes, transform };
            read_dataset(reader, dataset, common, level, visitor)?;
        }
        group.image_count += 1;
    }
    Ok(())
}

fn read_dataset<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    common: Option<Value<'a>>,
    mut level: Level<'_>,
    visitor: &mut Visitor<'_, 'a>,
) -> Result<(), Status> {
    let [path, own, ..] = reader.pick(value, "path coordinateTransformations", 1)?;
    let text = reader.string(path)?;
    let mut buffer: PathBuffer = [0; _];
    let path = entry_path(reader, path, text, &mut buffer)?;
    for list in [present(own), common].into_iter().flatten() {
        for item in reader.items(list)? {
            apply(reader, item, level.axes.len(), &mut level.transform)?;
        }
    }
    if visitor.levels.try_push(text).is_err() {
        return Err(reader.too_many(value, GROUP_LEVELS_MAX, "levels in a group"));
    }
    (visitor.visit)(&Entry { path, kind: NodeKind::Array, detail: Detail::Level(level) });
    Ok(())
}

impl Transform {
    /// Nothing said.
    const IDENTITY: Transform =
        Transform { is_given: false, scale: [1.0; RANK_MAX], translation: [0.0; RANK_MAX] };
}

/// Composes one more transformation on those that are there: it maps what they give.
fn apply(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    rank: usize,
    transform: &mut Transform,
) -> Result<(), Status> {
    let [kind, scale, translation, path, ..] =
        reader.pick(value, "type scale translation path", 1)?;
    if let Some(path) = path.found() {
        let reason = format_args!("numbers in an array of their own, {path}, are not read");
        return Err(reader.unsupported(path, reason));
    }
    let name = reader.string(kind)?;
    transform.is_given = true;
    match name.place_in("identity scale translation") {
        Some(0) => {}
        Some(1) => {
            let scale = reader.required(value, "scale", scale)?;
            let factors = read_numbers(reader, scale, rank)?;
            for axis in 0..rank {
                transform.scale[axis] *= factors[axis];
                transform.translation[axis] *= factors[axis];
            }
        }
        Some(_) => {
            let translation = reader.required(value, "translation", translation)?;
            let offsets = read_numbers(reader, translation, rank)?;
            for axis in 0..rank {
                transform.translation[axis] += offsets[axis];
            }
        }
        None => {
            let known = "identity, scale and translation";
            return Err(reader.unknown(kind, "transformation", name, known));
        }
    }
    let mut numbers = transform.scale.iter().chain(&transform.translation);
    if !numbers.all(|number| number.is_finite()) {
        return Err(reader.decode(value, format_args!("what it leads to is beyond f64")));
    }
    Ok(())
}

/// One number per axis.
fn read_numbers(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    rank: usize,
) -> Result<[f64; RANK_MAX], Status> {
    let mut numbers = [0.0; RANK_MAX];
    let mut count = 0;
    for item in reader.items(value)? {
        if count < rank {
            numbers[count] = reader.number(item)?;
        }
        count += 1;
    }
    if count != rank {
        return Err(reader.decode(value, format_args!("{count} numbers for {rank} axes")));
    }
    Ok(numbers)
}

/// Axes as objects (0.4, 0.5) or as names alone (0.3).
fn read_axes<'a>(reader: &mut Reader<'_>, value: Value<'a>) -> Result<Axes<'a>, Status> {
    let mut axes = Axes::new();
    for item in reader.items(value)? {
        let axis = if let Some(name) = item.as_str() {
            Axis { name, kind: kind_of_axis(name), unit: EMPTY }
        } else {
            let [name, kind, unit, ..] = reader.pick(item, "name type unit", 1)?;
            Axis {
                name: label(reader, name)?,
                kind: label(reader, kind)?,
                unit: label(reader, unit)?,
            }
        };
        let is_same = |other: &Axis<'_>| other.name.chars().eq(axis.name.chars());
        if axes.iter().any(is_same) {
            return Err(reader.decode(item, format_args!("a second axis {}", axis.name)));
        }
        if axes.try_push(axis).is_err() {
            return Err(reader.too_many(value, RANK_MAX, "axes"));
        }
    }
    if axes.is_empty() {
        return Err(reader.decode(value, format_args!("an image without axes")));
    }
    Ok(axes)
}

fn implied_axes() -> Axes<'static> {
    IMPLIED_AXES
        .iter()
        .map(|name| {
            let name = Str::plain(name);
            Axis { name, kind: kind_of_axis(name), unit: EMPTY }
        })
        .collect()
}

/// What an axis of this name is in images that do not say.
fn kind_of_axis(name: Str<'_>) -> Str<'static> {
    match name.place_in("t c z y x") {
        None => EMPTY,
        Some(0) => Str::plain("time"),
        Some(1) => Str::plain("channel"),
        Some(_) => Str::plain("space"),
    }
}

fn read_plate<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    group.kind = NodeKind::Plate;
    group.has_ome = true;
    let [rows, columns, wells, version, name, field_count, ..] =
        reader.pick(value, "rows columns wells version name field_count", 3)?;
    read_version(reader, version, group)?;
    group.name = label(reader, name)?;
    group.row_count = reader.items(rows)?.count() as u32;
    group.column_count = reader.items(columns)?.count() as u32;
    if let Some(field_count) = present(field_count) {
        group.field_count = reader.integer(field_count, 0, u32::MAX as i64)? as u32;
    }
    let mut buffer: PathBuffer = [0; _];
    for well in reader.items(wells)? {
        let [path, row, column, ..] = reader.pick(well, "path rowIndex columnIndex", 1)?;
        let text = reader.string(path)?;
        let path = entry_path(reader, path, text, &mut buffer)?;
        // Before 0.4 the path alone says where a well is.
        let place = match (present(row), present(column)) {
            (Some(row), Some(column)) => Some([
                reader.integer(row, 0, i64::from(group.row_count) - 1)? as u32,
                reader.integer(column, 0, i64::from(group.column_count) - 1)? as u32,
            ]),
            _ => None,
        };
        (visitor.visit)(&Entry { path, kind: NodeKind::Well, detail: Detail::Well(place) });
    }
    Ok(())
}

fn read_well<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    group.kind = NodeKind::Well;
    group.has_ome = true;
    let [images, version, ..] = reader.pick(value, "images version", 1)?;
    read_version(reader, version, group)?;
    let mut buffer: PathBuffer = [0; _];
    for image in reader.items(images)? {
        let [path, acquisition, ..] = reader.pick(image, "path acquisition", 1)?;
        let text = reader.string(path)?;
        let path = entry_path(reader, path, text, &mut buffer)?;
        let acquisition = match present(acquisition) {
            Some(value) => Some(reader.integer(value, 0, u32::MAX as i64 - 1)? as u32),
            None => None,
        };
        let detail = Detail::Field(acquisition);
        (visitor.visit)(&Entry { path, kind: NodeKind::Image, detail });
    }
    Ok(())
}

/// Whether a value is a list of paths; at the top level of attributes the word "labels" alone is no
/// sign of OME-NGFF.
fn is_path_list(value: Value<'_>) -> bool {
    let mut buffer = [0; ENTRY_PATH_BYTES - 1];
    let mut is_path = |text: Str<'_>| {
        text.decode_into(&mut buffer).is_some_and(|path| path_fault(path).is_none())
    };
    let Some(mut items) = value.items() else { return false };
    items.all(|item| item.as_str().is_some_and(&mut is_path))
}

/// The label images of a group of them.
fn read_labels<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    group.has_ome = true;
    let mut buffer: PathBuffer = [0; _];
    for item in reader.items(value)? {
        let text = reader.string(item)?;
        let path = entry_path(reader, item, text, &mut buffer)?;
        (visitor.visit)(&Entry { path, kind: NodeKind::Image, detail: Detail::None });
    }
    Ok(())
}
