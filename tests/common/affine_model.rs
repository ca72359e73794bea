//! A slow model of src/resample: each place by itself, each tap by itself, numbers without a width.
//!
//! In: a map, types, how array and target lie. Out: nothing, or an assertion that fails. An element
//! of the array is made of its coordinates, so arrays may have any extents.

use super::oracle;
use wavetrain::base::arena::Claim;
use wavetrain::records::{Dtype, PadMode};
use wavetrain::resample::{Cut, Filter, Layout, Map, MapFault, Resample, Target};
use wavetrain::simd::{FloatEnvironment, Level};

const POISON: u8 = 0xA5;

/// A map.
#[derive(Clone, Debug)]
pub struct Case {
    pub matrix: [[f64; 4]; 3],
    /// As many as the map has axes.
    pub places: Vec<u64>,
    pub extents: Vec<u64>,
    pub filter: Filter,
    pub pad: PadMode,
}

/// Types, and how elements lie.
#[derive(Clone, Debug)]
pub struct Elements {
    pub source: (Dtype, u32),
    pub target: (Dtype, u32),
    /// By axis of the map: which axis of the array.
    pub axes: Vec<usize>,
    /// By axis of the array; those of mapped axes are not looked at.
    pub extents: Vec<u64>,
    /// The axes of the array as they lie in the target, outermost first.
    pub order: Vec<usize>,
    /// Bytes between places of the target.
    pub gap: u64,
    /// An element of the target.
    pub pad: Vec<u8>,
    pub seed: u64,
    /// Most places of a part.
    pub most: u64,
    /// Floats may be infinite, NaN, -0 or subnormal.
    pub has_specials: bool,
}

/// A coordinate, whole number and 2^-32.
type Fixed = i128;

impl Case {
    pub fn map(&self) -> Result<Map, MapFault> {
        let rank = self.places.len();
        Map::new(rank, &self.matrix, &self.places, &self.extents, self.filter, self.pad)
    }

    fn rank(&self) -> usize {
        self.places.len()
    }

    fn coordinate(&self, axis: usize, place: &[u64]) -> Fixed {
        let fixed = |entry: f64| {
            let whole = entry.trunc();
            let rest = ((entry - whole) * 4_294_967_296.0).round_ties_even();
            (whole as i128) * (1 << 32) + rest as i128
        };
        let row = &self.matrix[axis];
        let moved = place.iter().zip(row).map(|(at, step)| i128::from(*at) * fixed(*step));
        fixed(row[3]) + moved.sum::<i128>()
    }

    /// The lower and the upper voxel, not folded, and the weight of the upper one in 2^-24.
    fn unfolded(&self, axis: usize, place: &[u64]) -> (i128, i128, i128) {
        let at = self.coordinate(axis, place);
        match self.filter {
            Filter::Nearest => {
                let voxel = (at + (1 << 31)).div_euclid(1 << 32);
                (voxel, voxel, 0)
            }
            Filter::Linear => {
                let grid = (at + (1 << 7)).div_euclid(1 << 8);
                let (low, weight) = (grid.div_euclid(1 << 24), grid.rem_euclid(1 << 24));
                (low, low + i128::from(weight > 0), weight)
            }
        }
    }

    /// A voxel in the array, step by step.
    fn folded(&self, axis: usize, mut voxel: i128) -> Option<i128> {
        let last = i128::from(self.extents[axis]) - 1;
        // Ends: each reflection comes closer to the array by its length.
        while voxel < 0 || voxel > last {
            voxel = match self.pad {
                PadMode::None | PadMode::Constant => return None,
                PadMode::Edge => voxel.clamp(0, last),
                PadMode::Reflect if last == 0 => 0,
                PadMode::Reflect if voxel < 0 => -voxel,
                PadMode::Reflect => 2 * last - voxel,
            };
        }
        Some(voxel)
    }

    /// Both taps and the weight of the upper one. A coordinate that is folded between two voxels
    /// has those two, and its weight is turned round where it is mirrored.
    pub fn taps(&self, axis: usize, place: &[u64]) -> [(Option<i128>, i128); 2] {
        let (low, high, weight) = self.unfolded(axis, place);
        let (low, high) = (self.folded(axis, low), self.folded(axis, high));
        match (low, high) {
            (Some(low), Some(high)) if low > high => {
                [(Some(high), weight), (Some(low), (1 << 24) - weight)]
            }
            // Beyond an edge.
            _ if low == high => [(low, 1 << 24), (low, 0)],
            _ => [(low, (1 << 24) - weight), (high, weight)],
        }
    }

    /// The box between the corners of the output, folded: by visiting all of it.
    fn hull(&self, axis: usize) -> Option<(i128, i128)> {
        let unfolded: Vec<_> =
            places(&self.places).iter().map(|place| self.unfolded(axis, place)).collect();
        let low = unfolded.iter().map(|taps| taps.0).min().unwrap();
        let high = unfolded.iter().map(|taps| taps.1).max().unwrap();
        let folded = || (low..=high).filter_map(|voxel| self.folded(axis, voxel));
        Some((folded().min()?, folded().max()? + 1))
    }
}

/// All places of some extents, row-major.
pub fn places(extents: &[u64]) -> Vec<Vec<u64>> {
    extents.iter().fold(vec![Vec::new()], |places, extent| {
        let longer = |place: &Vec<u64>, at: u64| [&place[..], &[at]].concat();
        places.iter().flat_map(|place| (0..*extent).map(move |at| longer(place, at))).collect()
    })
}

fn mixed(mut word: u64) -> u64 {
    for _ in 0..2 {
        word = (word ^ word >> 29).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    }
    word ^ word >> 32
}

impl Elements {
    fn mapped(&self, axis: usize) -> Option<usize> {
        self.axes.iter().position(|mapped| *mapped == axis)
    }

    /// The element of the array at these coordinates.
    fn element(&self, at: &[u64]) -> Vec<u8> {
        let (dtype, bytes) = self.source;
        let word = at.iter().fold(self.seed, |word, at| mixed(word ^ mixed(*at)));
        let kind = mixed(word) % 16;
        let number = (word % 2001) as f64 / 7.0 - 140.0;
        let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN][word as usize % 5];
        let number = if self.has_specials && kind < 5 { special } else { number };
        match dtype {
            Dtype::F64 => number.to_le_bytes().to_vec(),
            Dtype::F32 => (number as f32).to_le_bytes().to_vec(),
            Dtype::F16 => half::f16::from_f64(number).to_le_bytes().to_vec(),
            Dtype::Bf16 => half::bf16::from_f64(number).to_le_bytes().to_vec(),
            _ => (0..bytes)
                .map(|byte| (mixed(word + u64::from(byte / 8)) >> (8 * (byte % 8))) as u8)
                .collect(),
        }
    }

    fn cast(&self, from: Dtype, to: Dtype, element: &[u8]) -> Vec<u8> {
        if from == to || to == Dtype::Raw {
            element.to_vec()
        } else {
            oracle::cast(from, to, element)
        }
    }

    fn float(&self, from: Dtype, element: &[u8]) -> f32 {
        f32::from_le_bytes(self.cast(from, Dtype::F32, element).try_into().unwrap())
    }

    /// What the place at these coordinates of the output holds.
    fn expected(&self, case: &Case, at: &[u64]) -> Vec<u8> {
        let place: Vec<u64> = self.axes.iter().map(|axis| at[*axis]).collect();
        let taps: Vec<_> = (0..case.rank()).map(|axis| case.taps(axis, &place)).collect();
        let read = |chosen: &[Option<i128>]| {
            let voxels: Option<Vec<i128>> = chosen.iter().copied().collect();
            let voxels = voxels?;
            let source = (0..at.len())
                .map(|axis| self.mapped(axis).map_or(at[axis], |axis| voxels[axis] as u64));
            Some(self.element(&source.collect::<Vec<u64>>()))
        };
        if case.filter == Filter::Nearest {
            let chosen: Vec<_> = taps.iter().map(|taps| taps[0].0).collect();
            let element = read(&chosen);
            let cast = |element: Vec<u8>| self.cast(self.source.0, self.target.0, &element);
            return element.map_or(self.pad.clone(), cast);
        }
        let mut is_any_inside = false;
        let mut leaf = |chosen: &[Option<i128>]| match read(chosen) {
            Some(element) => {
                is_any_inside = true;
                self.float(self.source.0, &element)
            }
            None => self.float(self.target.0, &self.pad),
        };
        let value = between(&taps, &mut Vec::new(), &mut leaf);
        if !is_any_inside {
            return self.pad.clone();
        }
        self.cast(Dtype::F32, self.target.0, &value.to_le_bytes())
    }

    /// Bytes from one place of the target to the next along each axis of the array, and all bytes.
    fn strides(&self, counts: &[u64]) -> (Vec<u64>, u64) {
        let mut strides = vec![0; counts.len()];
        let mut bytes = u64::from(self.target.1) + self.gap;
        for axis in self.order.iter().rev() {
            strides[*axis] = bytes;
            bytes *= counts[*axis];
        }
        (strides, bytes)
    }
}

/// Of the axes from the last of `chosen` on: the last of the map is lerped first.
pub fn between(
    taps: &[[(Option<i128>, i128); 2]],
    chosen: &mut Vec<Option<i128>>,
    leaf: &mut dyn FnMut(&[Option<i128>]) -> f32,
) -> f32 {
    let Some([(low, _), (high, weight)]) = taps.get(chosen.len()).copied() else {
        return leaf(chosen);
    };
    chosen.push(low);
    let below = between(taps, chosen, leaf);
    chosen.pop();
    if weight == 0 {
        return below;
    }
    chosen.push(high);
    let above = between(taps, chosen, leaf);
    chosen.pop();
    let difference = std::hint::black_box(above - below);
    let part = std::hint::black_box(difference * (weight as f32 / 16_777_216.0));
    let value = below + part;
    if value.is_nan() { f32::from_bits(0x7FC0_0000) } else { value }
}

/// Runs a map over elements at every level, and compares hull and places. The fault, if there is
/// no map.
pub fn check(case: &Case, elements: &Elements) -> Result<(), MapFault> {
    let map = case.map()?;
    let rank = elements.extents.len();
    for axis in 0..case.rank() {
        let hull = map.hull(axis);
        let found = (!hull.is_empty()).then_some((hull.start as i128, hull.end as i128));
        assert_eq!(found, case.hull(axis), "hull of axis {axis}, {case:?}");
    }
    let counts: Vec<u64> = (0..rank)
        .map(|axis| elements.mapped(axis).map_or(elements.extents[axis], |axis| case.places[axis]))
        .collect();
    let (strides, bytes) = elements.strides(&counts);
    let (skip, target_bytes) = (5, elements.target.1 as usize);
    let mut expected = vec![POISON; skip + bytes as usize];
    for at in places(&counts) {
        let offset: u64 = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        expected[skip + offset as usize..][..target_bytes]
            .copy_from_slice(&elements.expected(case, &at));
    }
    // The hull alone, so that a read of anything else ends the test.
    let hull = |axis: usize| elements.mapped(axis).map(|axis| map.hull(axis));
    let begin = |axis: usize| hull(axis).map_or(0, |hull| hull.start);
    let extent = |axis: usize| hull(axis).map_or(counts[axis], |hull| hull.end - hull.start);
    let block: Vec<u8> = places(&(0..rank).map(extent).collect::<Vec<u64>>())
        .iter()
        .map(|at| at.iter().enumerate().map(|(axis, at)| begin(axis) + at).collect::<Vec<u64>>())
        .flat_map(|at| elements.element(&at))
        .collect();
    let layout = Layout::new(&map, &elements.axes, &elements.extents, &strides).expect("a layout");
    let _environment = FloatEnvironment::enter();
    for level in Level::each() {
        let (source, target) = (elements.source, elements.target);
        let way = Resample::find_at(level, case.filter, source, target).expect("a way");
        let mut found = vec![POISON; expected.len()];
        let mut claim = Claim::on(&mut found);
        let cut = Cut::new(&map, &layout, elements.most);
        for part in (0..cut.count()).map(|number| cut.part(number)) {
            let (claim, pad) = (&mut claim, &elements.pad[..]);
            let first = skip as u64 + part.target(&layout);
            let mut target = Target { claim, first, pad, write: None };
            way.part(&map, &layout, &block, &mut target, &part);
        }
        if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
            let bytes = |all: &[u8]| all[at..].iter().take(8).copied().collect::<Vec<u8>>();
            let (found, wanted) = (bytes(&found), bytes(&expected));
            panic!("{level:?}, byte {at}: {found:x?}, not {wanted:x?}: {case:?} {elements:?}");
        }
    }
    Ok(())
}
