use super::*;
use std::string::ToString;
use std::vec::Vec;

/// A map of the last two of three axes.
fn map(rows: [[f64; 4]; 2], level: i32) -> Affine {
    let matrix = [rows[0], rows[1], [0.0; 4]];
    Affine { rank: 2, axes: [1, 2, 0], matrix, level, ..Affine::default() }
}

fn zoom(step: f64) -> Affine {
    map([[step, 0.0, 0.0, 0.0], [0.0, step, 0.0, 0.0]], -1)
}

/// A level whose voxels have these lengths, and begin where those of others do.
fn level(lengths: [f64; 2], levels: u32) -> Placement {
    let (mut scale, mut translation) = ([1.0; RANK_MAX], [0.0; RANK_MAX]);
    for (axis, length) in (1..).zip(lengths) {
        (scale[axis], translation[axis]) = (length, length / 2.0);
    }
    Placement { levels, axes: 3, is_given: true, scale, translation }
}

/// Of the array of each level, so that an axis that is copied has one extent.
const SHAPE: [u64; 3] = [2, 7, 5];

/// The choice after all levels that it asks for.
fn chosen(affine: &Affine, levels: &[Placement]) -> LevelChoice {
    let mut choice = LevelChoice::NONE;
    while !choice.is_over() {
        choice.add(affine, &levels[choice.level() as usize]);
    }
    if choice.wants_extents() {
        assert_eq!(choice.level(), 0);
        let mut extents = [0; RANK_MAX];
        extents[..SHAPE.len()].copy_from_slice(&SHAPE);
        choice.set_extents(Some(&extents));
    }
    choice
}

fn levels_of(lengths: &[[f64; 2]]) -> Vec<Placement> {
    lengths.iter().map(|each| level(*each, lengths.len() as u32)).collect()
}

#[test]
fn the_coarsest_level_that_is_fine_enough_is_chosen() {
    let halves = levels_of(&[[0.5, 0.5], [1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]);
    let steps = [(0.1, 0), (1.0, 0), (1.999, 0), (1.9999999, 1), (2.0, 1), (3.9, 1), (4.0, 2)];
    for (step, level) in steps.into_iter().chain([(7.9, 2), (8.0, 3), (1e30, 3)]) {
        assert_eq!(chosen(&zoom(step), &halves).level(), level, "{step}");
    }
    // Each axis counts, and a level that is finer than the one before it is not the coarsest.
    let odd = levels_of(&[[0.5, 0.5], [2.0, 0.5], [1.0, 1.0], [0.5, 1.0]]);
    for (rows, level) in [([4.0, 1.0], 1), ([4.0, 2.0], 1), ([2.0, 2.0], 2), ([1.0, 2.0], 3)] {
        let [y, x] = rows;
        let affine = map([[y, 0.0, 0.0, 0.0], [0.0, x, 0.0, 0.0]], -1);
        assert_eq!(chosen(&affine, &odd).level(), level, "{rows:?}");
    }
    // A turn has steps of the norm of its rows.
    let turned = map([[1.2, -1.6, 0.0, 0.0], [1.6, 1.2, 0.0, 0.0]], -1);
    assert_eq!(chosen(&turned, &halves).level(), 1);
}

#[test]
fn units_have_the_length_of_a_voxel_and_a_named_level_is_taken() {
    let halves = levels_of(&[[0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]);
    for (step, level) in [(0.1, 0), (0.5, 0), (1.0, 1), (2.0, 2)] {
        let affine = Affine { has_units: true, ..zoom(step) };
        assert_eq!(chosen(&affine, &halves).level(), level, "{step}");
    }
    for level in 0..3 {
        let affine = Affine { level, ..zoom(0.001) };
        assert_eq!(chosen(&affine, &halves).level(), level as u32);
    }
}

#[test]
fn the_map_is_turned_into_voxels_of_the_level() {
    let halves = levels_of(&[[0.5, 0.25], [1.0, 1.0]]);
    let affine = map([[1.25, 3.0, 0.0, 7.0], [-0.75, 2.0, 0.0, -1.5]], 1);
    let turned = chosen(&affine, &halves).turned(&affine, &SHAPE).unwrap();
    let term = |x: f64, scale: f64, first: f64| x * scale + first - 0.5;
    let rows =
        [[0.625, 1.5, 0.0, term(7.0, 0.5, 0.25)], [-0.1875, 0.5, 0.0, term(-1.5, 0.25, 0.125)]];
    assert_eq!(turned, Affine { matrix: [rows[0], rows[1], [0.0; 4]], ..affine });
    let units = Affine { has_units: true, level: 0, ..affine };
    let turned = chosen(&units, &halves).turned(&units, &SHAPE).unwrap();
    assert_eq!(turned.matrix[0], [2.5, 6.0, 0.0, 13.5]);
    let same = Affine { level: 0, ..affine };
    assert_eq!(chosen(&same, &halves).turned(&same, &SHAPE), Ok(same));
}

#[test]
fn numbers_of_any_document_make_a_map_or_a_fault() {
    let odd = [0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 1e-200, 1.0];
    for first in odd {
        for last in odd {
            let levels = levels_of(&[[first, last], [last, first], [first, first]]);
            for (level, has_units) in [(-1, false), (0, false), (2, false), (-1, true), (1, true)] {
                for step in [0.0, 1.0, -1e308, 1e-308] {
                    let affine = Affine { level, has_units, ..zoom(step) };
                    let choice = chosen(&affine, &levels);
                    if let Ok(turned) = choice.turned(&affine, &SHAPE) {
                        assert!(turned.matrix.iter().flatten().all(|entry| entry.is_finite()));
                    }
                }
            }
        }
    }
}

#[test]
fn what_has_no_level_is_refused_by_name() {
    let refused = |affine: &Affine, levels: &[Placement], axes: usize| {
        let choice = if levels.is_empty() { LevelChoice::NONE } else { chosen(affine, levels) };
        let fault = choice.turned(affine, &[2, 7, 5, 3][..axes]).unwrap_err();
        (fault.status(), fault.to_string())
    };
    let halves = levels_of(&[[0.5, 0.5], [1.0, 1.0]]);
    let bare: Vec<_> =
        halves.iter().map(|_| Placement { is_given: false, ..level([1.0; 2], 2) }).collect();
    let mut moved = halves.clone();
    moved[1].translation[0] = 1.0;
    let (units, first) =
        (Affine { has_units: true, ..zoom(1.0) }, Affine { level: 1, ..zoom(1.0) });
    for (affine, levels, axes, status, text) in [
        (&first, &[][..], 3, Status::Invalid, "names an array, which has level 0 alone"),
        (&units, &[], 3, Status::Invalid, "names an array, which has no physical units"),
        (&first, &bare, 3, Status::Unsupported, "level = 1: the image gives no scale"),
        (&units, &bare, 3, Status::Unsupported, "has_units: the image gives no scale"),
        (&first, &halves, 4, Status::Invalid, "gives 3 axes, and the array of its level 1 has 4"),
        (&first, &moved, 3, Status::Invalid, "axis 0 is copied, and its scale or translation"),
        (&first, &levels_of(&[[1.0; 2], [1.0, 0.0]]), 3, Status::Invalid, "axis 2: with its scale"),
    ] {
        let found = refused(affine, levels, axes);
        assert!(found.0 == status && found.1.contains(text), "{text}: {found:?}");
    }
    let bare = chosen(&zoom(8.0), &bare);
    assert_eq!((bare.level(), bare.turned(&zoom(8.0), &SHAPE)), (0, Ok(zoom(8.0))));
}

#[test]
fn an_axis_that_is_copied_has_the_extent_of_level_0_if_its_array_is_there() {
    let halves = levels_of(&[[0.5, 0.5], [1.0, 1.0]]);
    let (coarse, every) = (zoom(2.0), Affine { rank: 3, axes: [0, 1, 2], ..zoom(2.0) });
    let mut choice = chosen(&coarse, &halves);
    assert!(choice.level() == 1 && choice.turned(&coarse, &[2, 4, 3]).is_ok());
    let fault = choice.turned(&coarse, &[3, 7, 5]).unwrap_err();
    assert_eq!((fault, fault.status()), (LevelFault::Extent(1, 0, [3, 2]), Status::Invalid));
    let text = "axis 0 is copied, and has 3 voxels in level 1 and 2 in level 0: map it too, or \
                take level 0";
    assert_eq!(fault.to_string(), text);
    choice.set_extents(None);
    assert!(choice.turned(&coarse, &[3, 7, 5]).is_ok());
    // A map of all axes, and one to level 0, want none.
    for affine in [Affine { level: 1, ..every }, Affine { level: 0, ..coarse }, zoom(1.0)] {
        let mut choice = LevelChoice::NONE;
        while !choice.is_over() {
            choice.add(&affine, &halves[choice.level() as usize]);
        }
        assert!(!choice.wants_extents(), "{affine:?}");
    }
}

#[test]
fn a_level_has_a_name_that_no_caller_writes() {
    let mut name = Uri::new();
    assert!(write_level_name("/a#b", 12, &mut name));
    assert_eq!(split_level_name(name.as_str()), Some(("/a#b", 12)));
    assert_eq!(split_level_name("/a#b"), None);
    assert!(!write_level_name("hook:a", 0, &mut name));
    assert!(!write_level_name(&"a".repeat(4094), 0, &mut name));
}
