//! Tables of boxes across the C surface.
//!
//! In: columns of the caller's, each checked anew for each row, as push checks samples. Out: the
//! same columns as slices. Invariant: no slice is longer than what the header says there is.

use super::affine::read_affine;
use super::augment::read_augment;
use super::structs::{is_size_of, read_sized, struct_size, uri_from_c};
use super::{in_instance, invalid};
use crate::base::abi::{
    AFFINE_IS_ONE, AT_IS_ONE, AUGMENT_IS_ONE, BEGIN_IS_ONE, BOX_URI, BOX_VALUE, Grows,
    SHAPE_IS_ONE, STEP_IS_ONE, TableColumn, VALUES_IS_ONE, WHICH_IS_ONE,
};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why, with_why};
use crate::engine::Engine;
use crate::engine::requests::Request;
use crate::fail;
use crate::records::Dtype;
use crate::surface::table::{Column, Rows, Source, push_rows};
use core::slice;

const FLAGS: u32 = BEGIN_IS_ONE
    | SHAPE_IS_ONE
    | STEP_IS_ONE
    | AT_IS_ONE
    | WHICH_IS_ONE
    | VALUES_IS_ONE
    | AUGMENT_IS_ONE
    | AFFINE_IS_ONE;

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_push_table(
    loader: u64,
    columns: *const TableColumn,
    n_columns: u32,
    column_bytes: u32,
    count: usize,
    tags: *const u64,
    timeout_ns: u64,
    taken: *mut usize,
) -> i32 {
    in_instance(loader, |instance| {
        if taken.is_null() {
            return Err(invalid(format_args!("taken is NULL")));
        }
        let fill = |(row, at): (usize, u32), target: &mut Request<'_>, why: &mut Why| {
            // SAFETY: there are `n_columns` columns of `column_bytes` bytes, of which push asks for
            // fewer than 256, and what they point to is as the header says.
            unsafe { fill_box(instance, columns, column_bytes, count, (row, at), target, why) }
        };
        // SAFETY: there are `count` tags.
        let tags = with_why(|why| unsafe { rows(tags, false, (count, 1), "tags", why) });
        let (number, result) = match tags {
            Ok(_) if columns.is_null() && count > 0 => {
                (0, Err(invalid(format_args!("columns is NULL"))))
            }
            Ok(tags) => push_rows(instance, (n_columns, count), tags, timeout_ns, fill),
            Err(failure) => (0, Err(failure)),
        };
        // SAFETY: writable as the header says.
        unsafe { taken.write(number) };
        result.map(|()| if number < count { Status::Again } else { Status::Ok })
    })
}

/// Writes the box of a row.
///
/// # Safety
/// Column `at` is there, and what it points to is as the header says of a table of `count` rows.
unsafe fn fill_box(
    engine: &Engine,
    columns: *const TableColumn,
    bytes: u32,
    count: usize,
    (row, at): (usize, u32),
    target: &mut Request<'_>,
    why: &mut Why,
) -> Result<(), Status> {
    let sizes = (bytes as usize, size_of::<TableColumn>());
    let source = columns.wrapping_byte_add(at as usize * sizes.0);
    // SAFETY: the column has as many bytes.
    let source = unsafe { read_sized(source, sizes, "column_bytes", why)? };
    // SAFETY: what the column points to is as the header says.
    let column = unsafe { column_of(engine, &source, count, why)? };
    let uri = |which: usize, why: &mut Why| {
        if source.uris.is_null() {
            return Err(fail!(why, Invalid, "uris is NULL"));
        }
        // SAFETY: there are more uris than `which`, which the column checks, each with a NUL.
        unsafe { uri_from_c(source.uris.add(which).read_unaligned(), why) }
    };
    column.fill(engine, (row, at), target, (source.n_uris as usize, uri), why)?;
    let row_of = |flag| if source.flags & flag != 0 { 0 } else { row };
    let augments = (source.augment, source.augment_bytes, row_of(AUGMENT_IS_ONE));
    let affines = (source.affine, source.affine_bytes, row_of(AFFINE_IS_ONE));
    // SAFETY: there are none, or as many as the header says.
    unsafe {
        read_augment(&mut target.augment, struct_of_row(augments, "augment", why)?, why)?;
        read_affine(&mut target.augment, struct_of_row(affines, "affine", why)?, why)
    }
}

/// The struct of a row, of which those of all rows lie so many bytes apart; NULL if there are none.
///
/// # Safety
/// There are none, or more than `row` of them, each with a readable `struct_size`.
unsafe fn struct_of_row<T: Grows>(
    (first, bytes, row): (*const T, u32, usize),
    name: &str,
    why: &mut Why,
) -> Result<*const T, Status> {
    let bytes = bytes as usize;
    let place = first.wrapping_byte_add(row.wrapping_mul(bytes));
    // SAFETY: as the caller has it.
    let stated = unsafe { struct_size(place) };
    if stated > bytes {
        return Err(fail!(
            why,
            Invalid,
            "{name}.struct_size = {stated}: more than {name}_bytes = {bytes}"
        ));
    }
    Ok(place)
}

/// The same column with slices. Its uris are not looked at.
///
/// # Safety
/// What the column points to is as the header says of a table of `count` rows.
unsafe fn column_of<'a>(
    engine: &Engine,
    source: &TableColumn,
    count: usize,
    why: &mut Why,
) -> Result<Column<'a>, Status> {
    check_column(source, why)?;
    let (rank, flags) = (source.rank as usize, source.flags);
    let fields = &engine.shared.settings.fields;
    let axes = fields.get(source.field as usize).map_or(0, |field| field.extents().len());
    let of_box = (count, rank);
    // SAFETY: the arrays are as long as the header says.
    unsafe {
        let which = rows(source.which, flags & WHICH_IS_ONE != 0, (count, 1), "which", why)?;
        let (bytes, values) = (source.value_bytes as usize, source.values.cast::<u8>());
        let is_one = flags & VALUES_IS_ONE != 0;
        let values = rows(values, is_one, (count, bytes), "values", why)?;
        let dtype = Dtype::from_code(source.value_dtype);
        Ok(Column {
            field: source.field,
            rank,
            source: match (source.kind, dtype) {
                (BOX_URI, _) => Source::Uris(&[], which),
                (_, Some(dtype)) => Source::Values(dtype, bytes, values),
                _ => {
                    let code = source.value_dtype;
                    return Err(fail!(why, Invalid, "value_dtype = {code}: no such element type"));
                }
            },
            begin: rows(source.begin, flags & BEGIN_IS_ONE != 0, of_box, "begin", why)?,
            shape: rows(source.shape, flags & SHAPE_IS_ONE != 0, of_box, "shape", why)?,
            step: rows(source.step, flags & STEP_IS_ONE != 0, of_box, "step", why)?,
            at: rows(source.at, flags & AT_IS_ONE != 0, (count, axes), "at", why)?,
            augment: Rows::None,
            affine: Rows::None,
        })
    }
}

/// Whether a column says nothing that does not go together.
fn check_column(source: &TableColumn, why: &mut Why) -> Result<(), Status> {
    let (size, kind, flags) = (source.struct_size, source.kind, source.flags);
    if size < size_of::<TableColumn>() {
        return Err(fail!(why, Invalid, "struct_size = {size}: must be column_bytes"));
    }
    if source.rank as usize > RANK_MAX {
        let rank = source.rank;
        return Err(fail!(why, Rank, "a box of rank {rank}: must be 0 to {RANK_MAX}"));
    }
    let is_kind = kind == BOX_URI || kind == BOX_VALUE;
    if !is_kind || flags & !FLAGS != 0 || source.reserved != 0 {
        let reserved = source.reserved;
        return Err(fail!(
            why,
            Invalid,
            "kind = {kind}, flags = {flags}, reserved = {reserved}: no such column"
        ));
    }
    check_structs((source.augment, source.augment_bytes), "augment", why)?;
    check_structs((source.affine, source.affine_bytes), "affine", why)?;
    let has_uris = !source.uris.is_null() || source.n_uris != 0 || !source.which.is_null();
    let (dtype, bytes) = (source.value_dtype, source.value_bytes);
    let has_values = !source.values.is_null() || dtype != 0 || bytes != 0;
    if if kind == BOX_URI { has_values } else { has_uris } {
        return Err(fail!(why, Invalid, "a column has uris or values, by its kind"));
    }
    Ok(())
}

/// Whether structs of rows have a size if they are there, and none if not.
fn check_structs<T>(
    (first, bytes): (*const T, u32),
    name: &str,
    why: &mut Why,
) -> Result<(), Status> {
    let has_size = if first.is_null() { bytes == 0 } else { is_size_of::<T>(bytes as usize) };
    if has_size {
        return Ok(());
    }
    Err(fail!(
        why,
        Invalid,
        "{name}_bytes = {bytes}: must be sizeof(wavetrain_{name}), or 0 if {name} is NULL"
    ))
}

/// An array of the caller's: `count` rows of `width` numbers, or one; NULL is none.
///
/// # Safety
/// The array is NULL or has those numbers.
unsafe fn rows<'a, T>(
    source: *const T,
    is_one: bool,
    (count, width): (usize, usize),
    name: &str,
    why: &mut Why,
) -> Result<Rows<'a, T>, Status> {
    if source.is_null() {
        return Ok(Rows::None);
    }
    let length = if is_one { Some(width) } else { count.checked_mul(width) };
    let bytes = length.and_then(|length| length.checked_mul(size_of::<T>()));
    let Some(length) = length.filter(|_| bytes.is_some_and(|n| n <= isize::MAX as usize)) else {
        return Err(fail!(why, Invalid, "{name}: {count} rows of {width}: no such array"));
    };
    if !source.is_aligned() {
        let word = align_of::<T>();
        return Err(fail!(why, Invalid, "{name} does not lie at a multiple of {word} bytes"));
    }
    // SAFETY: it is aligned, and has as many numbers.
    let numbers = unsafe { slice::from_raw_parts(source, length) };
    Ok(if is_one { Rows::One(numbers) } else { Rows::Each(numbers) })
}
