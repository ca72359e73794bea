//! Affine maps: against scipy and torch (tests/data/make_affine.py), against the slow model, by
//! what is refused, and beside what boxes do with steps and axes.

#[path = "../common/affine_model.rs"]
mod affine_model;

use crate::common::oracle;
use affine_model::{Case, Elements, check, places};
use wavetrain::base::arena::Claim;
use wavetrain::records::{DTYPES, Dtype, PadMode};
use wavetrain::resample::{Filter, Layout, Map, MapFault, Part, Resample, Target};
use wavetrain::simd::{FloatEnvironment, Level};

static FIXTURE: &[u8] = include_bytes!("../data/affine.bin");

const PADS: [PadMode; 3] = [PadMode::Constant, PadMode::Edge, PadMode::Reflect];

/// One record of the fixture.
struct Known {
    is_torch: bool,
    case: Case,
    pad_value: f64,
    array: Vec<f32>,
    expected: Vec<f64>,
}

fn known() -> Vec<Known> {
    let mut rest = FIXTURE;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let mut take = |bytes: usize| {
            let (head, tail) = rest.split_at(bytes);
            rest = tail;
            head
        };
        let mut number = || u32::from_le_bytes(take(4).try_into().unwrap());
        let [maker, filter, pad, rank] = [number(), number(), number(), number()];
        let [extents, places] = [(); 2]
            .map(|()| [number(), number(), number()].map(u64::from)[..rank as usize].to_vec());
        let mut double = || f64::from_le_bytes(take(8).try_into().unwrap());
        let matrix = [(); 3].map(|()| [double(), double(), double(), double()]);
        let pad_value = double();
        let mut array =
            |count: u64| (0..count).map(|_| take(4).try_into().unwrap()).collect::<Vec<_>>();
        let array = array(extents.iter().product()).into_iter().map(f32::from_le_bytes).collect();
        let mut result =
            |count: u64| (0..count).map(|_| take(8).try_into().unwrap()).collect::<Vec<_>>();
        let expected =
            result(places.iter().product()).into_iter().map(f64::from_le_bytes).collect();
        let (filter, pad) = (Filter::from_code(filter).unwrap(), PADS[pad as usize]);
        let case = Case { matrix, places, extents, filter, pad };
        records.push(Known { is_torch: maker == 1, case, pad_value, array, expected });
    }
    records
}

/// Places of an array, dense on both sides, at a level.
fn resampled<const N: usize>(
    level: Level,
    case: &Case,
    (source, target): (Dtype, Dtype),
    array: &[u8],
    pad: [u8; N],
) -> Vec<u8> {
    let map = case.map().unwrap();
    let rank = case.places.len();
    let size = source.bytes() as usize;
    let hulls: Vec<_> = (0..rank).map(|axis| map.hull(axis)).collect();
    let extents: Vec<u64> = hulls.iter().map(|hull| hull.end - hull.start).collect();
    let mut block = Vec::new();
    for at in places(&extents) {
        let linear = at.iter().zip(&hulls).zip(&case.extents);
        let linear = linear.fold(0, |all, ((at, hull), extent)| all * extent + hull.start + at);
        block.extend_from_slice(&array[linear as usize * size..][..size]);
    }
    let mut strides = vec![N as u64; rank];
    (1..rank).rev().for_each(|axis| strides[axis - 1] = strides[axis] * case.places[axis]);
    let axes: Vec<usize> = (0..rank).collect();
    let layout = Layout::new(&map, &axes, &case.extents, &strides).unwrap();
    let mut found = vec![0xA5; N * case.places.iter().product::<u64>() as usize];
    let mut claim = Claim::on(&mut found);
    let types = ((source, source.bytes()), (target, target.bytes()));
    let way = Resample::find_at(level, case.filter, types.0, types.1).unwrap();
    let mut target = Target { claim: &mut claim, first: 0, pad: &pad, write: None };
    let _environment = FloatEnvironment::enter();
    way.part(&map, &layout, &block, &mut target, &Part::whole(&map, &layout));
    found
}

fn floats(level: Level, case: &Case, array: &[f32], pad: f64) -> Vec<f32> {
    let bytes: Vec<u8> = array.iter().flat_map(|value| value.to_le_bytes()).collect();
    let pad = (pad as f32).to_le_bytes();
    let found = resampled(level, case, (Dtype::F32, Dtype::F32), &bytes, pad);
    found.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// How far a place may be from exact interpolation: the head of src/resample/mod.rs. Coordinates
/// are off by 2^-33 for each place and the offset, and values change by the largest difference of
/// neighbours a voxel, along each axis.
fn bound(case: &Case, largest: f64, difference: f64) -> f64 {
    let rank = case.places.len() as f64;
    let unit = 1.0 / 16_777_216.0;
    let moved = 2f64.powi(-33) * (case.places.iter().sum::<u64>() + 1) as f64;
    (3.0 * rank * difference + (rank + 1.0) * largest) * unit + rank * difference * moved
}

#[test]
fn places_are_those_of_scipy_and_torch_within_the_bound() {
    let mut counts = [0; 2];
    for level in Level::each() {
        for known in known() {
            let Known { is_torch, case, pad_value, array, expected } = &known;
            if case.places == [9, 9] {
                continue; // ties: below
            }
            let found = floats(level, case, array, *pad_value);
            let values = || array.iter().copied().map(f64::from).chain([*pad_value]);
            let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
            let bound = match case.filter {
                Filter::Nearest => 0.0,
                Filter::Linear => bound(case, high.max(-low), high - low),
            };
            for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                let off = (f64::from(*found) - expected).abs();
                let maker = ["scipy", "torch"][usize::from(*is_torch)];
                assert!(off <= bound, "{maker}, place {place}: {found}, not {expected}: {case:?}");
            }
            counts[usize::from(*is_torch)] += found.len();
        }
    }
    assert!(counts.iter().all(|count| *count > 500), "{counts:?}");
}

/// A tie is the upper voxel here and in scipy, in torch the even one. Both fold the coordinate
/// before they round it, so a tie that is mirrored is the other voxel here.
#[test]
fn ties_are_the_upper_voxel_as_in_scipy_and_unlike_torch() {
    let ties: Vec<Known> =
        known().into_iter().filter(|known| known.case.places == [9, 9]).collect();
    assert_eq!(ties.len(), 4);
    let folded = |at: f64| if at > 4.0 { 8.0 - at } else { at.abs() };
    for Known { is_torch, case, array, expected, .. } in ties {
        let found = floats(Level::here(), &case, &array, 0.0);
        for (number, place) in places(&case.places).iter().enumerate() {
            let voxel = |round: &dyn Fn(f64) -> f64| {
                let at = |axis: usize| round(case.matrix[axis][3] + place[axis] as f64 / 2.0);
                array[(5.0 * at(0) + at(1)) as usize]
            };
            let upper = |at: f64| (at + 0.5).floor();
            let theirs = match is_torch {
                true => voxel(&|at| folded(at).round_ties_even()),
                false => voxel(&|at| upper(folded(at))),
            };
            assert_eq!(expected[number], f64::from(theirs), "torch: {is_torch}, {place:?}");
            assert_eq!(found[number], voxel(&|at| folded(upper(at))), "{place:?}");
        }
    }
}

/// By an interpolation in doubles, with the weights of exact coordinates.
#[test]
fn linear_is_within_the_bound_of_exact_interpolation() {
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let array: Vec<f32> = (0..512).map(|_| (number() * 65_535.0) as f32).collect();
    let mut largest = 0.0;
    for _ in 0..300 {
        let mut matrix = [[0.0; 4]; 3];
        let turn = matrix.as_flattened_mut();
        turn.iter_mut().for_each(|entry| *entry = (number() - 0.5) * 0.4);
        // Multiples of 2^-32, so that the coordinates are exact.
        turn.iter_mut().for_each(|entry| *entry = (*entry * 2f64.powi(32)).round() / 2f64.powi(32));
        (0..3).for_each(|axis| matrix[axis][3] += 3.5);
        let (places_of, extents) = (vec![4; 3], vec![8; 3]);
        let case =
            Case { matrix, places: places_of, extents, filter: Filter::Linear, pad: PadMode::None };
        if case.map().is_err() {
            continue;
        }
        let bound = bound(&case, 65_535.0, 65_535.0);
        let found = floats(Level::here(), &case, &array, 0.0);
        for (place, found) in places(&case.places).iter().zip(found) {
            let at: Vec<f64> = matrix
                .iter()
                .map(|row| row[3] + (0..3).map(|axis| row[axis] * place[axis] as f64).sum::<f64>())
                .collect();
            let exact: f64 = places(&[2; 3])
                .iter()
                .map(|tap| {
                    let mut voxel = 0;
                    let mut weight = 1.0;
                    for axis in 0..3 {
                        let rest = at[axis] - at[axis].floor();
                        weight *= if tap[axis] == 1 { rest } else { 1.0 - rest };
                        voxel = voxel * 8 + (at[axis].floor() as usize + tap[axis] as usize).min(7);
                    }
                    weight * f64::from(array[voxel])
                })
                .sum();
            let off = (f64::from(found) - exact).abs();
            assert!(off <= bound, "{found}, not {exact}: {case:?}");
            largest = f64::max(largest, off / bound);
        }
    }
    // The bound is not much too wide.
    assert!(largest > 0.1, "{largest}");
}

fn plain(case: &Case, source: Dtype, target: Dtype, others: (u64, u64)) -> Elements {
    let rank = case.places.len();
    let mut extents = vec![1; rank + 2];
    (extents[0], extents[rank + 1]) = others;
    Elements {
        source: (source, source.bytes().max(3 * u32::from(source == Dtype::Raw))),
        target: (target, target.bytes().max(3 * u32::from(target == Dtype::Raw))),
        axes: (1..=rank).collect(),
        extents,
        order: (0..rank + 2).collect(),
        gap: 0,
        pad: (0..target.bytes().max(3)).map(|byte| 0x31 + byte as u8).collect(),
        seed: 9,
        most: 50,
        has_specials: true,
    }
}

/// A turn with a long row: strips inside, outside and at edges, the last of them short.
fn turned(filter: Filter, pad: PadMode) -> Case {
    let matrix = [[0.9, -0.2, 0.02, 0.3], [0.25, 1.1, -0.01, 0.6], [0.1, 0.05, 0.97, -9.4]];
    Case { matrix, places: vec![3, 2, 150], extents: vec![7, 6, 110], filter, pad }
}

#[test]
fn every_type_is_resampled_by_each_filter_that_takes_it() {
    let mut ways = 0;
    for filter in [Filter::Nearest, Filter::Linear] {
        for source in DTYPES {
            for target in DTYPES {
                let sizes = [source, target]
                    .map(|dtype| (dtype, dtype.bytes().max(3 * u32::from(dtype == Dtype::Raw))));
                let is_float = matches!(target, Dtype::F32 | Dtype::F16 | Dtype::Bf16);
                let is_taken = match filter {
                    Filter::Nearest if target == Dtype::Raw => sizes[0].1 == sizes[1].1,
                    Filter::Nearest => source == target || oracle::has_cast(source, target),
                    Filter::Linear => is_float && oracle::has_cast(source, Dtype::F32),
                };
                let way = Resample::find(filter, sizes[0], sizes[1]);
                assert_eq!(way.is_some(), is_taken, "{filter:?}, {source:?} to {target:?}");
                if !is_taken {
                    continue;
                }
                ways += 1;
                let case = turned(filter, PADS[ways % 3]);
                let mut elements = plain(&case, source, target, (2, 3));
                elements.pad.truncate(elements.target.1 as usize);
                check(&case, &elements).unwrap();
            }
        }
    }
    assert!(ways > 100, "{ways}");
}

#[test]
fn sizes_of_elements_are_those_of_their_types() {
    let find = |source, target| Resample::find(Filter::Nearest, source, target).is_some();
    assert!(find((Dtype::Raw, 16), (Dtype::Raw, 16)));
    assert!(!find((Dtype::Raw, 17), (Dtype::Raw, 17)));
    assert!(!find((Dtype::Raw, 0), (Dtype::Raw, 0)));
    assert!(!find((Dtype::U16, 3), (Dtype::U16, 3)));
    assert!(!find((Dtype::U16, 2), (Dtype::Raw, 3)));
}

/// Turns by quarters, flips, steps and offsets: voxels as they are, NaNs with their payload too.
#[test]
fn quarter_turns_and_flips_move_voxels_bit_for_bit() {
    let array: Vec<u8> = (0..5u32 * 6 * 7)
        .flat_map(|at| {
            (at.wrapping_mul(0x9E37_79B9) | if at % 9 == 0 { 0x7F80_0001 } else { 0 }).to_le_bytes()
        })
        .collect();
    let extents = vec![5, 6, 7];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for signs in places(&[2; 3]) {
            for filter in [Filter::Nearest, Filter::Linear] {
                // Axis a of the array is read along axis order[a] of the output.
                let (mut matrix, mut counts) = ([[0.0; 4]; 3], vec![0; 3]);
                for axis in 0..3 {
                    counts[order[axis]] = extents[axis];
                    matrix[axis][order[axis]] = if signs[axis] == 1 { -1.0 } else { 1.0 };
                    matrix[axis][3] =
                        if signs[axis] == 1 { extents[axis] as f64 - 1.0 } else { 0.0 };
                }
                let (places_of, extents) = (counts.clone(), extents.clone());
                let case = Case { matrix, places: places_of, extents, filter, pad: PadMode::None };
                let expected: Vec<u8> = places(&counts)
                    .iter()
                    .flat_map(|place| {
                        let linear = (0..3).fold(0, |all, axis| {
                            let (at, extent) = (place[order[axis]], case.extents[axis]);
                            all * extent + if signs[axis] == 1 { extent - 1 - at } else { at }
                        });
                        array[linear as usize * 4..][..4].to_vec()
                    })
                    .collect();
                for level in Level::each() {
                    let found = resampled(level, &case, (Dtype::F32, Dtype::F32), &array, [0; 4]);
                    assert!(found == expected, "{level:?} {case:?}");
                }
            }
        }
    }
}

/// Half-way between two voxels whose difference overflows, or where one is NaN, there is one NaN,
/// whatever the machine makes of it; a weight of 0 reads neither.
#[test]
fn every_nan_of_a_lerp_is_the_quiet_one_and_weight_0_reads_nothing() {
    let array =
        [f32::INFINITY, f32::INFINITY, -1.0, f32::from_bits(0xFFC0_1234), 5.0, -0.0, f32::NAN];
    let mut case = turned(Filter::Linear, PadMode::None);
    (case.places, case.extents) = (vec![13], vec![7]);
    case.matrix[0] = [0.5, 0.0, 0.0, 0.0];
    for level in Level::each() {
        let found: Vec<u32> =
            floats(level, &case, &array, 0.0).iter().map(|value| value.to_bits()).collect();
        let nan = 0x7FC0_0000;
        let whole = |at: usize| array[at].to_bits();
        let between = [nan, nan, nan, nan, 2.5f32.to_bits(), nan];
        for at in 0..13 {
            let expected = if at % 2 == 0 { whole(at / 2) } else { between[at / 2] };
            assert_eq!(found[at], expected, "{level:?}, place {at}");
        }
    }
    let mut elements = plain(&case, Dtype::F32, Dtype::F32, (1, 1));
    elements.pad.truncate(4);
    check(&case, &elements).unwrap();
}

#[test]
fn one_voxel_one_place_and_maps_that_miss_the_array() {
    for filter in [Filter::Nearest, Filter::Linear] {
        for pad in PADS {
            for (extent, count, offset) in [
                (1, 1, 0.0),
                (1, 5, -2.25),
                (4, 1, 1.75),
                (4, 6, 300.5),
                (4, 6, -300.5),
                (2, 9, -4.5),
            ] {
                let mut case = turned(filter, pad);
                (case.places, case.extents) = (vec![count], vec![extent]);
                case.matrix[0] = [1.0, 0.0, 0.0, offset];
                let mut elements = plain(&case, Dtype::U16, Dtype::U16, (2, 2));
                elements.target =
                    if filter == Filter::Linear { (Dtype::F32, 4) } else { (Dtype::U16, 2) };
                elements.pad.resize(elements.target.1 as usize, 0x40);
                check(&case, &elements).unwrap();
                let misses = offset.abs() > 100.0 && pad == PadMode::Constant;
                assert_eq!(case.map().unwrap().is_empty(), misses, "{case:?}");
            }
        }
    }
}

/// An infinite pad value is what wholly outside holds, and weighs in beside the array.
#[test]
fn pad_values_may_be_infinite_or_nan() {
    for pad in [f32::INFINITY, f32::NAN, -0.0, f32::from_bits(0xFFC0_0001)] {
        for source in [Dtype::U8, Dtype::F32] {
            let case = turned(Filter::Linear, PadMode::Constant);
            let mut elements = plain(&case, source, Dtype::F32, (1, 2));
            elements.pad = pad.to_le_bytes().to_vec();
            check(&case, &elements).unwrap();
        }
    }
}

fn map_of(
    rows: &[[f64; 4]],
    places: &[u64],
    extents: &[u64],
    pad: PadMode,
) -> Result<Map, MapFault> {
    let mut matrix = [[f64::NAN; 4]; 3];
    matrix[..rows.len()].copy_from_slice(rows);
    Map::new(rows.len(), &matrix, places, extents, Filter::Linear, pad)
}

#[test]
fn what_cannot_be_mapped_is_refused_by_name() {
    let constant = PadMode::Constant;
    let flat = |a: f64, b: f64, c: f64, d: f64| [[a, b, f64::NAN, 0.0], [c, d, f64::NAN, 0.0]];
    let two = |rows: [[f64; 4]; 2]| map_of(&rows, &[4, 4], &[9, 9], constant).err();
    assert_eq!(two(flat(1.0, 0.0, 0.0, 1.0)), None, "columns beyond the rank are not looked at");
    assert_eq!(two(flat(1.0, 2.0, 0.5, 1.0)), Some(MapFault::Singular));
    assert_eq!(two(flat(1.0, 2.0, 0.5, 1.0 + 2f64.powi(-32))), None);
    assert_eq!(two(flat(1e-10, 0.0, 0.0, 1.0)), Some(MapFault::Singular), "rounds to 0");
    assert_eq!(two(flat(1.0, f64::NAN, 0.0, 1.0)), Some(MapFault::NotFinite(0, 1)));
    assert_eq!(two(flat(1.0, 0.0, f64::INFINITY, 1.0)), Some(MapFault::NotFinite(1, 0)));
    let three = [[2.0, 3.0, 5.0, 0.0], [7.0, 11.0, 13.0, 0.0], [9.0, 14.0, 18.0, 0.0]];
    let found = map_of(&three, &[1; 3], &[9; 3], constant).err();
    assert_eq!(found, Some(MapFault::Singular), "the last row is the sum of the others");
    // Entries whose products leave 128 bits, one place each.
    let huge = 2_147_483_647.5;
    let large = [[huge, 1.0, 2.0, 0.0], [-huge, huge, 0.5, 0.0], [huge, 0.25, -huge, 0.0]];
    assert_eq!(map_of(&large, &[1; 3], &[9; 3], constant).err(), None);
    let doubled = [large[0], large[1], large[0]];
    assert_eq!(map_of(&doubled, &[1; 3], &[9; 3], constant).err(), Some(MapFault::Singular));

    let one = |step: f64, offset: f64, places: u64, extent: u64, pad: PadMode| {
        map_of(&[[step, 0.0, 0.0, offset]], &[places], &[extent], pad).err()
    };
    assert_eq!(one(1.0, f64::NAN, 1, 9, constant), Some(MapFault::NotFinite(0, 3)));
    assert_eq!(one(1.0, 0.0, 0, 9, constant), Some(MapFault::Places(0)));
    assert_eq!(one(1.0, 0.0, (1 << 31) + 1, 9, constant), Some(MapFault::Places(0)));
    assert_eq!(one(1.0, 0.0, 9, 9, PadMode::None), None);
    assert_eq!(one(1.0, 0.5, 9, 9, PadMode::None), Some(MapFault::Outside(0)));
    assert_eq!(one(1.0, -2f64.powi(-26), 9, 9, PadMode::None), None, "rounds to weight 0");
    assert_eq!(one(1.0, 0.0, 3, 0, constant), None);
    assert_eq!(one(1.0, 0.0, 3, 0, PadMode::Edge), Some(MapFault::NoElement(0)));
    assert_eq!(one(1.0, 0.0, 3, 0, PadMode::Reflect), Some(MapFault::NoElement(0)));
    assert_eq!(
        Map::new(4, &large, &[1; 4], &[1; 4], Filter::Linear, constant),
        Err(MapFault::Rank(4))
    );
    assert_eq!(Map::new(0, &large, &[], &[], Filter::Linear, constant), Err(MapFault::Rank(0)));
    for fault in [MapFault::NotFinite(1, 2), MapFault::Far(1), MapFault::Outside(1)] {
        assert!(fault.to_string().contains("matrix[1]"), "{fault}");
    }
}

#[test]
fn coordinates_reach_2_to_the_31_voxels_from_the_hull_and_no_further() {
    let one = |step: f64, offset: f64, places: u64, extent: u64, pad: PadMode| {
        map_of(&[[step, 0.0, 0.0, offset]], &[places], &[extent], pad)
    };
    let far = 2_147_483_648.0;
    for pad in PADS {
        // A hull that is empty lies at the end of the array.
        let last = far + if pad == PadMode::Constant { 1.0 } else { 0.0 };
        assert!(one(1.0, last - 1.0, 1, 1, pad).is_ok());
        assert_eq!(one(1.0, last, 1, 1, pad), Err(MapFault::Far(0)));
        assert!(one(1.0, -far, 1, 1, pad).is_ok());
        assert_eq!(one(1.0, -far - 1.0, 1, 1, pad), Err(MapFault::Far(0)));
        assert_eq!(one(far, 0.0, 1, 9, pad), Err(MapFault::Far(0)));
        assert_eq!(one(1.0, 1e300, 1, 9, pad), Err(MapFault::Far(0)));
        // An array of any extent, far from its first voxel.
        let large = one(-1.0, 9e18, 1 << 30, u64::MAX, pad).unwrap();
        assert_eq!(
            large.hull(0),
            9_000_000_000_000_000_000 - (1 << 30) + 1..9_000_000_000_000_000_001
        );
    }
    let reach = one(1_073_741_823.0, 0.0, 3, 1 << 40, PadMode::Edge).unwrap();
    assert_eq!(reach.hull(0), 0..2_147_483_647);
    assert_eq!(one(1_073_741_824.0, 0.0, 3, 1 << 40, PadMode::Edge), Err(MapFault::Far(0)));
}

#[test]
fn a_block_of_2_to_the_31_elements_has_no_layout() {
    let map = map_of(&[[1.0, 0.0, 0.0, 0.0]], &[1 << 20], &[1 << 40], PadMode::Edge).unwrap();
    let layout = |others: u64| Layout::new(&map, &[1], &[others, 0], &[0, 4]);
    assert_eq!(layout(2047).map(|layout| layout.elements()), Some(2047 << 20));
    assert!(layout(2048).is_none());
    assert!(layout(u64::MAX).is_none());
}
