//! Recipes of include/wavetrain_recipes.h, where the contract is, for C.
//!
//! In: structs of the caller, a list of them. Out: the boxes and augments that they lead to.
//! Invariant: pointers are used as `epoch` says; a box whose recipe is refused stays as it is.

use super::epoch::{copy_of, is_usable, values};
use crate::base::abi::{Affine, Augment, SampleBox};
use crate::recipes::{
    self, ERASE_RATIO, ERASE_SCALE, Field, Misfit, Motion, NAME_BYTES_MAX, Recipes, Room,
};
use crate::sampler::Place;
use crate::simd::FloatEnvironment;
use core::ffi::c_char;
use core::slice;

const DONE: i32 = 1;
const NUMBER: i32 = 0;
const FIELD: i32 = -1;
const NAME: i32 = -2;
const CROP: i32 = -3;
const ORDER: i32 = -4;
const ROOM: i32 = -5;

/// wavetrain_augmented
#[repr(C)]
pub struct AugmentedRecord {
    pub struct_size: usize,
    pub seed: u64,
    pub place: Place,
    pub target: *mut SampleBox,
    pub augment: *mut Augment,
    pub affine: *mut Affine,
    pub field: Field,
    pub room: Room,
}

fn code_of(why: Misfit) -> i32 {
    match why {
        Misfit::Number => NUMBER,
        Misfit::Field => FIELD,
        Misfit::Name => NAME,
        Misfit::Crop => CROP,
        Misfit::Order => ORDER,
        Misfit::Room => ROOM,
    }
}

/// A record's recipes, where its structs are of this version or later.
///
/// # Safety
/// Pointers of the record are NULL or as the header says.
unsafe fn recipes_of(record: &mut AugmentedRecord) -> Result<Recipes<'_>, Misfit> {
    if !is_usable(record.target, 1) || !is_usable(record.augment, 1) {
        return Err(Misfit::Number);
    }
    if !record.affine.is_null() && !is_usable(record.affine, 1) {
        return Err(Misfit::Number);
    }
    // SAFETY: the caller's structs are usable, and apart from each other and from the record.
    let (target, augment, affine) =
        unsafe { (&mut *record.target, &mut *record.augment, record.affine.as_mut()) };
    let affine_size = affine.as_ref().map_or(size_of::<Affine>(), |affine| affine.struct_size);
    if augment.struct_size < size_of::<Augment>() || affine_size < size_of::<Affine>() {
        return Err(Misfit::Number);
    }
    let (seed, place) = (record.seed, record.place);
    let recipes = Recipes::resume(&record.field, seed, place, target, augment, &mut record.room)?;
    Ok(recipes.with_kept_affine(affine))
}

/// Lets a recipe work on each of the boxes, up to the first that refuses it.
///
/// # Safety
/// Pointers are NULL or as the header says.
unsafe fn each(
    boxes: *mut AugmentedRecord,
    count: u64,
    recipe: impl Fn(&mut Recipes<'_>) -> Result<(), Misfit>,
) -> i32 {
    if count == 0 {
        return DONE;
    }
    // The first member is the step from one to the next.
    // SAFETY: if it is usable, a size is readable.
    let Some(step) = (unsafe { copy_of(boxes.cast::<usize>()) }) else { return NUMBER };
    let fits = step >= size_of::<AugmentedRecord>()
        && step.is_multiple_of(align_of::<AugmentedRecord>())
        && usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(step))
            .is_some_and(|bytes| bytes <= isize::MAX as usize);
    if !fits || !boxes.is_aligned() {
        return NUMBER;
    }
    // Operations of floats round as ever, whatever the host has set.
    let _float = FloatEnvironment::enter();
    for at in 0..count as usize {
        // SAFETY: `count` records are writable, `step` bytes apart; `fits` has the product.
        let done = unsafe {
            recipes_of(&mut *boxes.byte_add(at * step)).and_then(|mut recipes| recipe(&mut recipes))
        };
        if let Err(why) = done {
            return code_of(why);
        }
    }
    DONE
}

/// A name that ends with a NUL.
///
/// # Safety
/// NULL, or bytes are readable up to a NUL.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a str, Misfit> {
    if name.is_null() {
        return Err(Misfit::Name);
    }
    // SAFETY: bytes are readable up to the NUL, at which the search ends.
    let end = (0..=NAME_BYTES_MAX).find(|at| unsafe { name.add(*at).read() } == 0);
    let end = end.ok_or(Misfit::Name)?;
    // SAFETY: those before it are readable, and nothing writes them during the call.
    let bytes = unsafe { slice::from_raw_parts(name.cast::<u8>(), end) };
    str::from_utf8(bytes).map_err(|_| Misfit::Name)
}

/// Calls a recipe that has a name for each box.
///
/// # Safety
/// Pointers are NULL or as the header says.
unsafe fn each_named(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    recipe: impl Fn(&mut Recipes<'_>, &str) -> Result<(), Misfit>,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe {
        match name_of(name) {
            Ok(name) => each(boxes, count, |recipes| recipe(recipes, name)),
            Err(why) => code_of(why),
        }
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_begin(boxes: *mut AugmentedRecord, count: u64) -> i32 {
    // SAFETY: as the header says of the pointer.
    unsafe {
        each(boxes, count, |recipes| {
            recipes.clear();
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_crop(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    padding: u64,
    extents: *const u64,
    n_extents: u32,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    unsafe {
        let Some(extents) = values(extents, n_extents.into()) else { return NUMBER };
        each_named(boxes, count, name, |recipes, name| recipes.crop(name, padding, extents))
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_flip(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    p: f32,
    axis: u32,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe { each_named(boxes, count, name, |recipes, name| recipes.flip(name, p, axis)) }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_affine(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    motion: *const Motion,
) -> i32 {
    // SAFETY: as the header says of all pointers; a motion is read if its size is that of one.
    unsafe {
        let size = copy_of(motion.cast::<usize>()).unwrap_or(0);
        let motion = if size < size_of::<Motion>() { None } else { copy_of(motion) };
        let Some(motion) = motion else { return NUMBER };
        each_named(boxes, count, name, |recipes, name| recipes.affine(name, &motion))
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_normalize(
    boxes: *mut AugmentedRecord,
    count: u64,
    mean: *const f32,
    n_mean: u32,
    std: *const f32,
    n_std: u32,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    unsafe {
        let (Some(mean), Some(std)) = (values(mean, n_mean.into()), values(std, n_std.into()))
        else {
            return NUMBER;
        };
        each(boxes, count, |recipes| recipes.normalize(mean, std))
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_jitter(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    brightness: f32,
    contrast: f32,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe {
        each_named(boxes, count, name, |recipes, name| recipes.jitter(name, brightness, contrast))
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_noise(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    sigma: f32,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe { each_named(boxes, count, name, |recipes, name| recipes.noise(name, sigma)) }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_clamp(
    boxes: *mut AugmentedRecord,
    count: u64,
    low: f32,
    high: f32,
) -> i32 {
    // SAFETY: as the header says of the pointer.
    unsafe { each(boxes, count, |recipes| recipes.clamp(low, high)) }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_cutout(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    size: u64,
    erased: *const f32,
    n_erased: u32,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    unsafe {
        let Some(erased) = values(erased, n_erased.into()) else { return NUMBER };
        each_named(boxes, count, name, |recipes, name| recipes.cutout(name, size, erased))
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_random_erase(
    boxes: *mut AugmentedRecord,
    count: u64,
    name: *const c_char,
    p: f32,
    scale: *const f32,
    ratio: *const f32,
    erased: *const f32,
    n_erased: u32,
) -> i32 {
    // SAFETY: as the header says of all pointers; the first two lead to two numbers.
    unsafe {
        let pair = |pair: *const f32, usual: [f32; 2]| match pair.is_null() {
            true => Some(usual),
            false => values(pair, 2).map(|pair| [pair[0], pair[1]]),
        };
        let (scale, ratio) = (pair(scale, ERASE_SCALE), pair(ratio, ERASE_RATIO));
        let (Some(scale), Some(ratio), Some(erased)) =
            (scale, ratio, values(erased, n_erased.into()))
        else {
            return NUMBER;
        };
        each_named(boxes, count, name, |recipes, name| {
            recipes.random_erase(name, p, scale, ratio, erased)
        })
    }
}

/// See the header.
///
/// # Safety
/// `name` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_recipe_key(seed: u64, epoch: u64, name: *const c_char) -> u64 {
    // SAFETY: as the header says of the pointer.
    let name = unsafe { name_of(name) };
    name.and_then(|name| recipes::key(seed, epoch, name.as_bytes())).unwrap_or(0)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_recipe_text(code: i32) -> *const c_char {
    let text = match code {
        DONE => c"done",
        FIELD => Misfit::Field.c_text(),
        NAME => Misfit::Name.c_text(),
        CROP => Misfit::Crop.c_text(),
        ORDER => Misfit::Order.c_text(),
        ROOM => Misfit::Room.c_text(),
        _ => Misfit::Number.c_text(),
    };
    text.as_ptr()
}
