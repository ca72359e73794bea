//! Refusals of recipes, and how their draws are spread. tests/data/recipes.json has their bits.

use super::*;
use crate::base::abi::LINEAR;
use std::vec::Vec;

/// A picture of 3 x 32 x 24 in a field of `shape`, and what `with` makes of it.
fn with<R>(shape: [u64; 3], position: u64, with: impl FnOnce(&mut Recipes<'_>) -> R) -> R {
    let field = Field::new(&shape, Some(0), &[1, 2], PAD_REFLECT).unwrap();
    let mut target = SampleBox { rank: 3, ..SampleBox::BLANK };
    target.end[..3].copy_from_slice(&[3, 32, 24]);
    let (mut augment, mut room, mut affine) = (Augment::EMPTY, Room::BLANK, Affine::EMPTY);
    let place = Place { epoch: 0, position };
    let begun = Recipes::begin(&field, 1, place, &mut target, &mut augment, &mut room);
    with(&mut begun.unwrap().with_affine(&mut affine))
}

fn refused(recipe: impl FnOnce(&mut Recipes<'_>) -> Result<(), Misfit>) -> Option<Misfit> {
    with([3, 32, 24], 0, recipe).err()
}

#[test]
fn numbers_that_a_recipe_does_not_take_are_refused() {
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    for p in [-0.1, 1.1, nan] {
        assert_eq!(refused(|one| one.flip("a", p, 0)), Some(Misfit::Number));
        let erase = |one: &mut Recipes<'_>| one.random_erase("a", p, [0.1; 2], [1.0; 2], &[]);
        assert_eq!(refused(erase), Some(Misfit::Number));
    }
    assert_eq!(refused(|one| one.flip("a", 0.5, 2)), Some(Misfit::Number));
    for std in [0.0, -1.0, nan, infinite / infinite, 1e-45] {
        assert_eq!(refused(|one| one.normalize(&[], &[std])), Some(Misfit::Number), "{std}");
    }
    assert_eq!(refused(|one| one.normalize(&[nan], &[])), Some(Misfit::Number));
    assert_eq!(refused(|one| one.normalize(&[0.0; 2], &[])), Some(Misfit::Number));
    for (brightness, contrast) in [(-1.0, 0.0), (infinite, 0.0), (0.0, 1.0), (0.0, nan)] {
        let jitter = |one: &mut Recipes<'_>| one.jitter("a", brightness, contrast);
        assert_eq!(refused(jitter), Some(Misfit::Number));
    }
    for sigma in [-1.0, infinite, nan] {
        assert_eq!(refused(|one| one.noise("a", sigma)), Some(Misfit::Number));
    }
    for (low, high) in [(1.0, 0.0), (nan, 1.0), (0.0, nan)] {
        assert_eq!(refused(|one| one.clamp(low, high)), Some(Misfit::Number));
    }
    assert_eq!(refused(|one| one.cutout("a", 0, &[])), Some(Misfit::Number));
    assert_eq!(refused(|one| one.cutout("a", 1, &[nan])), Some(Misfit::Number));
    for (scale, ratio) in [
        ([0.0, 0.1], [1.0; 2]),
        ([0.2, 0.1], [1.0; 2]),
        ([0.1, 1.1], [1.0; 2]),
        ([0.1; 2], [1.0, 300.0]),
        ([0.1; 2], [0.001, 1.0]),
        ([0.1; 2], [nan; 2]),
    ] {
        let erase = |one: &mut Recipes<'_>| one.random_erase("a", 1.0, scale, ratio, &[]);
        assert_eq!(refused(erase), Some(Misfit::Number), "{scale:?} {ratio:?}");
    }
    for motion in [
        Motion { degrees: [181.0, 0.0, 0.0], ..Motion::NONE },
        Motion { zoom: [0.0, 1.0], ..Motion::NONE },
        Motion { zoom: [2.0, 1.0], ..Motion::NONE },
        Motion { shear: 17.0, ..Motion::NONE },
        Motion { shift: nan, ..Motion::NONE },
        Motion { filter: LINEAR + 1, ..Motion::NONE },
    ] {
        assert_eq!(refused(|one| one.affine("a", &motion)), Some(Misfit::Number), "{motion:?}");
    }
}

#[test]
fn names_have_1_to_63_bytes() {
    let name = |count: usize| "n".repeat(count);
    for (count, refusal) in
        [(0, Some(Misfit::Name)), (1, None), (63, None), (64, Some(Misfit::Name))]
    {
        assert_eq!(refused(|one| one.flip(&name(count), 0.5, 0)), refusal);
    }
}

#[test]
fn crops_that_are_too_large_are_refused_and_those_that_just_fit_are_not() {
    for (padding, extents, refusal) in [
        (0, [32, 24], None),
        (0, [33, 24], Some(Misfit::Crop)),
        (4, [40, 32], None),
        (4, [40, 33], Some(Misfit::Crop)),
        (4, [0, 24], Some(Misfit::Crop)),
        (u64::MAX / 2, [1, 1], Some(Misfit::Crop)),
        (1 << 63, [1, 1], Some(Misfit::Crop)),
        (u64::MAX / 2 - 32, [1, 1], None),
    ] {
        let refused = refused(|one| one.crop("a", padding, &extents));
        // So much padding is more than numbers of 64 bits hold, at most of the places.
        let is_number = padding > 1 << 61 && refused == Some(Misfit::Number);
        assert!(refused == refusal || is_number, "{padding} {extents:?} {refused:?}");
    }
    assert_eq!(refused(|one| one.crop("a", 0, &[32])), Some(Misfit::Number));
}

#[test]
fn what_was_mapped_is_erased_in_places_of_the_field() {
    with([3, 32, 24], 9, |one| {
        one.affine("a", &Motion { degrees: [30.0; 3], ..Motion::NONE }).unwrap();
        one.normalize(&[1.0], &[2.0]).unwrap();
        one.cutout("b", 8, &[]).unwrap();
        one.random_erase("c", 1.0, ERASE_SCALE, ERASE_RATIO, &[]).unwrap();
        assert_eq!((one.augment.n_erase, one.affine.as_ref().unwrap().rank), (2, 2));
        for erase in &one.room.erase[..2] {
            let ends = [3, 32, 24].into_iter().zip(erase.end);
            assert!(
                ends.zip(erase.begin).all(|((extent, end), begin)| begin < end && end <= extent)
            );
        }
        assert_eq!(one.flip("d", 1.0, 0), Err(Misfit::Order));
    });
}

#[test]
fn a_refusal_changes_nothing() {
    with([3, 32, 24], 9, |one| {
        one.cutout("a", 8, &[]).unwrap();
        one.normalize(&[1.0], &[2.0]).unwrap();
        let all = |one: &Recipes<'_>| {
            let (begin, end, step) = (one.target.begin, one.target.end, one.target.step);
            let augment = &one.augment;
            let bits = (augment.n_channels, augment.noise_key, augment.n_erase);
            let lists = (one.room.scale, one.room.bias, one.room.values);
            (begin, end, step, bits, lists, one.room.erase.map(|erase| (erase.begin, erase.end)))
        };
        let before = all(one);
        assert_eq!(one.crop("a", 4, &[32, 24]), Err(Misfit::Order));
        assert_eq!(one.noise("a", 1.0), Err(Misfit::Order));
        assert_eq!(one.affine("a", &Motion::NONE), Err(Misfit::Order));
        assert!(before == all(one));
        for _ in 1..ERASES_MAX {
            one.cutout("a", 8, &[]).unwrap();
        }
        let before = all(one);
        assert_eq!(one.cutout("a", 8, &[]), Err(Misfit::Room));
        assert!(before == all(one));
    });
}

#[test]
fn fields_that_do_not_fit_are_refused() {
    assert!(Field::new(&[3, 4], Some(0), &[1], 3).is_ok());
    for (shape, channels, spatial, pad_mode) in [
        (&[3, 4][..], Some(2), &[1][..], 3),
        (&[3, 4], Some(1), &[1], 3),
        (&[3, 4], None, &[1, 1], 3),
        (&[3, 4], None, &[2], 3),
        (&[3, 0], None, &[1], 3),
        (&[3, 4], None, &[1], 4),
        (&[1; 17], None, &[1], 3),
        (&[1; 8], None, &[1, 2, 3, 4], 3),
    ] {
        let field = Field::new(shape, channels, spatial, pad_mode);
        assert_eq!(field.err(), Some(Misfit::Field), "{shape:?}");
    }
    // An erase needs a box that lies in the field; 65 channels have no numbers of their own.
    assert_eq!(with([3, 31, 24], 0, |one| one.cutout("a", 1, &[])), Err(Misfit::Field));
    let many = with([65, 32, 24], 0, |one| one.normalize(&[1.0; 65], &[]));
    assert_eq!(many, Err(Misfit::Room));
}

#[test]
fn extreme_boxes_do_not_overflow() {
    let field = Field::new(&[u64::MAX, u64::MAX], None, &[0, 1], PAD_REFLECT).unwrap();
    let (low, high) = (i64::MIN, i64::MAX);
    for (begin, end, step, at) in [
        (low, high, 1, 0),
        (low, -1, -1, 0),
        (high - 1, high, -1, 0),
        (low, low + 1, 1, 0),
        (0, high, 536_870_911, 0),
        (0, high, -536_870_911, u64::MAX),
        (0, high, i64::MIN, 0),
        (0, 1 << 40, 1, u64::MAX - 1),
        (5, 5, 1, 0),
        (5, 4, 1, 0),
    ] {
        let (mut augment, mut room, mut affine) = (Augment::EMPTY, Room::BLANK, Affine::EMPTY);
        let mut target = SampleBox { rank: 2, ..SampleBox::BLANK };
        target.begin[..2].fill(begin);
        target.end[..2].fill(end);
        target.step[..2].fill(step);
        target.at[..2].fill(at);
        let place = Place { epoch: u64::MAX, position: u64::MAX };
        let begun = Recipes::begin(&field, 7, place, &mut target, &mut augment, &mut room);
        let Ok(recipes) = begun else { continue };
        let mut one = recipes.with_affine(&mut affine);
        let extents = [u64::MAX, 1, 1 << 62, 3];
        for (padding, extent) in [0, 1, 1 << 62, u64::MAX].into_iter().zip(extents) {
            let _refused_or_not = one.crop("crop", padding, &[extent, extent]);
        }
        let motion = Motion { degrees: [180.0; 3], shift: 1.0, shear: 16.0, ..Motion::NONE };
        let _refused_or_not = one.flip("flip", 1.0, 0);
        let _refused_or_not = one.cutout("cutout", u64::MAX, &[]);
        let _refused_or_not = one.random_erase("erase", 1.0, [1.0; 2], [0.01, 100.0], &[]);
        let _refused_or_not = one.flip("flip", 1.0, 0);
        one.clear();
        let _refused_or_not = one.affine("affine", &motion);
    }
}

#[test]
fn draws_are_spread_as_they_should_be() {
    const COUNT: u64 = 20_000;
    let flips = (0..COUNT).filter(|at| {
        with([3, 32, 24], *at, |one| {
            one.flip("flip", 0.25, 1).unwrap();
            one.target.step[2] == -1
        })
    });
    let flips = flips.count() as i64;
    // Four standard deviations: 4 * sqrt(20000 * 0.25 * 0.75) is 245.
    assert!((flips - 5_000).abs() < 245, "{flips}");
    let mut begins = [0u64; 9];
    for at in 0..COUNT {
        with([3, 32, 24], at, |one| {
            one.crop("crop", 4, &[32, 24]).unwrap();
            begins[(one.target.begin[1] + 4) as usize] += 1;
        });
    }
    assert!(begins.iter().all(|count| count.abs_diff(COUNT / 9) < 180), "{begins:?}");
    let areas: Vec<f64> = (0..COUNT)
        .map(|at| {
            with([3, 32, 24], at, |one| {
                one.random_erase("erase", 1.0, [0.02, 0.2], [0.3, 3.3], &[]).unwrap();
                let erase = one.room.erase[0];
                let side = |axis: usize| (erase.end[axis] - erase.begin[axis]) as f64;
                assert!((0.2..=5.0).contains(&(side(1) / side(2))), "{erase:?}", erase = erase.end);
                side(1) * side(2) / (32.0 * 24.0)
            })
        })
        .collect();
    let mean = areas.iter().sum::<f64>() / COUNT as f64;
    assert!((mean - 0.11).abs() < 0.003, "{mean}");
    assert!(areas.iter().all(|area| (0.01..0.23).contains(area)));
}

#[test]
fn names_and_places_draw_apart_and_the_same_again() {
    let begin = |name: &str, position| {
        with([3, 32, 24], position, |one| {
            one.crop(name, 1 << 20, &[32, 24]).unwrap();
            one.target.begin
        })
    };
    assert_eq!(begin("a", 5), begin("a", 5));
    assert_ne!(begin("a", 5), begin("b", 5));
    assert_ne!(begin("a", 5), begin("a", 6));
}
