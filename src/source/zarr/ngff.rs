//! OME-NGFF: what the attributes of a group say of an image, a plate or a well.
//!
//! Comes in: the attributes of a group. Goes out: entries (levels with axes and scales, wells,
//! fields, label images) and what the group says of itself. Source: OME-NGFF 0.5 and 0.6
//! (`attributes.ome` of a zarr v3 group) and 0.1 to 0.4 (top level of `.zattrs`).
//!
//! Invariant: a level has one number per axis in scale and translation, all of them finite. A
//! path that is not understood is refused by name; members that do not locate arrays (omero,
//! metadata, acquisitions) are ignored. A version that is not read gives the arrays of its images
//! and nothing else.

use super::entry::{Axes, Axis, Detail, Entry, Found, Level, NodeKind, path_fault};
use super::node::Node;
use super::transforms::{Transform, compose};
use crate::base::abi::NGFF_VERSION_BYTES;
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::Status;
use crate::fail;
use crate::records::DocumentKind;
use crate::source::json::{Str, Value};

/// Versions that are read, and drafts of the last. Those of 0.5 differ in words of the
/// specification only.
const VERSIONS: &str = "0.1 0.2 0.3 0.4 0.5 0.5.1 0.5.2 0.6";
const DRAFTS: [&str; 2] = ["0.6rc", "0.6.dev"];

/// The same in texts.
pub(crate) const VERSIONS_READ: &str = "0.1 to 0.6";

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
    if ome.found().is_some() && !read_version(version, found)? {
        list_arrays(*multiscales, found);
        return Ok(());
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
#[inline(never)] // its buffer is on the stack
fn is_path_list(value: Value<'_>) -> bool {
    let mut buffer = [0; ENTRY_PATH_BYTES - 1];
    let mut is_path = |text: Str<'_>| {
        text.decode_into(&mut buffer).is_some_and(|path| path_fault(path).is_none())
    };
    let items = value.items();
    items.is_some_and(|mut items| items.all(|item| item.as_str().is_some_and(&mut is_path)))
}

/// Takes the version, if one is said. Whether what it says is read.
fn read_version<'a>(node: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<bool, Status> {
    let Some(node) = node.present() else { return Ok(true) };
    let version = node.string()?;
    found.group.version = version;
    let is_read = version.place_in(VERSIONS).is_some() || is_draft(version);
    found.group.is_version_unread = !is_read;
    Ok(is_read)
}

fn is_draft(version: Str<'_>) -> bool {
    let version = version.to_text::<NGFF_VERSION_BYTES>();
    let number = DRAFTS.iter().find_map(|draft| version.as_str().strip_prefix(draft));
    number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Hands out the arrays of images whose version is not read, as far as they stand where all
/// versions have them.
#[inline(never)] // its buffer is on the stack
fn list_arrays<'a>(multiscales: Value<'a>, found: &mut Found<'_, 'a>) {
    let get = |value: Value<'a>, name| value.members().and_then(|members| members.get(name));
    for image in multiscales.items().into_iter().flatten() {
        let datasets = get(image, "datasets").and_then(Value::items);
        for dataset in datasets.into_iter().flatten() {
            let Some(text) = get(dataset, "path").and_then(Value::as_str) else { continue };
            let mut buffer = [0; ENTRY_PATH_BYTES - 1];
            let path = text.decode_into(&mut buffer).filter(|path| path_fault(path).is_none());
            if let Some(path) = path
                && !found.levels.contains(&text)
                && found.levels.try_push(text).is_ok()
            {
                (found.visit)(&Entry { path, kind: NodeKind::Array, detail: Detail::None });
                found.group.kind = NodeKind::Image;
                found.group.has_ome = true;
            }
        }
    }
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

#[inline(never)] // so are its axes
fn read_multiscales<'a>(list: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    for item in list.items()? {
        let [datasets, version, name, axes, common, systems, ..] =
            item.pick("datasets version name axes coordinateTransformations coordinateSystems", 1)?;
        if !read_version(version, found)? {
            list_arrays(*list, found);
            return Ok(());
        }
        let name = label(name)?;
        if found.group.name.is_empty() {
            found.group.name = name;
        }
        let system = output_of(datasets.items()?.next())?;
        let is_implied = found.group.version.place_in(" 0.1 0.2").is_some();
        let axes = match axes.found() {
            None if systems.found().is_some() => read_axes(axes_of(systems, system)?)?,
            // Before 0.3 they are implied.
            None if is_implied => {
                IMPLIED_AXES.map(|name| bare_axis(Str::plain(name))).into_iter().collect()
            }
            _ => read_axes(item.pick("axes", 1)?[0])?,
        };
        // Since 0.6 those of an image lead from one of its named systems to another.
        let common = common.present().filter(|_| systems.found().is_none());
        let image = Image { number: found.group.image_count, name, axes: &axes, common, system };
        for (level, dataset) in datasets.items()?.enumerate() {
            read_dataset(dataset, level as u32, &image, found)?;
        }
        found.group.image_count += 1;
    }
    found.group.kind = NodeKind::Image;
    found.group.has_ome = true;
    Ok(())
}

/// One multiscale image.
struct Image<'i, 'r, 'a> {
    number: u32,
    name: Str<'a>,
    axes: &'i Axes<'a>,
    /// Transformations that follow those of each level.
    common: Option<Node<'r, 'a>>,
    /// The coordinate system that its levels lead to, since 0.6.
    system: Option<Str<'a>>,
}

fn read_dataset<'r, 'a>(
    node: Node<'r, 'a>,
    number: u32,
    image: &Image<'_, 'r, 'a>,
    found: &mut Found<'_, 'a>,
) -> Result<(), Status> {
    let [path, own, ..] = node.pick("path coordinateTransformations", 1)?;
    let (mut transform, rank) = (Transform::IDENTITY, image.axes.len());
    for list in [own.present(), image.common].into_iter().flatten() {
        compose(list, rank, &mut transform)?;
    }
    if output_of(Some(node))? != image.system {
        transform.refuse("a coordinate system that is not that of level 0");
    }
    if found.levels.is_full() {
        return Err(node.too_many(GROUP_LEVELS_MAX, "levels in a group"));
    }
    let Image { number: image, name, axes, .. } = *image;
    let level = Level { image, level: number, name, axes, transform };
    let path = found.add(path, NodeKind::Array, Detail::Level(level))?;
    found.levels.push(path);
    Ok(())
}

/// The name of the coordinate system that a dataset leads to, if it gives one: in drafts of 0.6 a
/// string, since then a member of an object.
fn output_of<'a>(dataset: Option<Node<'_, 'a>>) -> Result<Option<Str<'a>>, Status> {
    let Some(dataset) = dataset else { return Ok(None) };
    let [list, ..] = dataset.pick("coordinateTransformations", 0)?;
    let Some(list) = list.present() else { return Ok(None) };
    let Some(first) = list.items()?.next() else { return Ok(None) };
    let [output, ..] = first.pick("output", 0)?;
    match (output.present(), output.as_str()) {
        (None, _) => Ok(None),
        (_, Some(name)) => Ok(Some(name)),
        (Some(output), None) => output.pick("name", 1)?[0].string().map(Some),
    }
}

/// The axes of the coordinate system of this name; of the first, if no name is given.
fn axes_of<'r, 'a>(systems: Node<'r, 'a>, wanted: Option<Str<'a>>) -> Result<Node<'r, 'a>, Status> {
    for system in systems.items()? {
        let [name, axes, ..] = system.pick("name axes", 2)?;
        let name = name.string()?;
        if wanted.is_none_or(|wanted| wanted == name) {
            return Ok(axes);
        }
    }
    Err(match wanted {
        Some(name) => fail!(systems, Decode, "no coordinate system is named {name}"),
        None => fail!(systems, Decode, "an image without coordinate systems"),
    })
}

/// Axes as objects (since 0.4) or as names alone (0.3).
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
        if axes.iter().any(|other: &Axis<'_>| other.name == name) {
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
    if !read_version(version, found)? {
        return Ok(());
    }
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
    if !read_version(version, found)? {
        return Ok(());
    }
    found.group.kind = NodeKind::Well;
    found.group.has_ome = true;
    for image in images.items()? {
        let [path, acquisition, ..] = image.pick("path acquisition", 1)?;
        let acquisition = count(acquisition, u32::MAX - 1)?;
        found.add(path, NodeKind::Image, Detail::Field(acquisition))?;
    }
    Ok(())
}
