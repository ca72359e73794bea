//! Boxes against slow loops, and costs against sets of chunks.

use super::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// An axis as the sentences of its grid say, place by place.
#[derive(Clone, Copy, Debug)]
struct Slow {
    shape: i64,
    extent: i64,
    step: i64,
    margin: i64,
    chunk: i64,
}

impl Slow {
    /// Where boxes may begin.
    fn places(&self) -> Vec<i64> {
        if self.extent > self.shape + 2 * self.margin {
            return vec![-((self.extent - self.shape) / 2)];
        }
        (-self.margin..=self.shape + self.margin - self.extent).collect()
    }

    /// Where boxes of the grid begin.
    fn begins(&self) -> Vec<i64> {
        let step = if self.step == 0 { self.extent } else { self.step };
        self.places().into_iter().step_by(step as usize).collect()
    }

    fn chunk_of(&self, place: i64) -> i64 {
        place.clamp(0, self.shape - 1) / if self.chunk == 0 { self.shape } else { self.chunk }
    }

    /// The chunks that a box touches.
    fn chunks(&self, begin: i64) -> BTreeSet<i64> {
        let inside = |place: &i64| (0..self.shape).contains(place);
        let places = (begin..begin + self.extent).filter(inside);
        places.map(|place| self.chunk_of(place)).collect()
    }
}

fn grid(axes: &[Slow], jitters: bool) -> Boxes {
    let list = |of: fn(&Slow) -> i64| axes.iter().map(|axis| of(axis) as u64).collect::<Vec<_>>();
    Boxes::new(Grid {
        shape: &list(|axis| axis.shape),
        extents: &list(|axis| axis.extent),
        step: &list(|axis| axis.step),
        margin: &list(|axis| axis.margin),
        chunk: &list(|axis| axis.chunk),
        jitters,
    })
    .unwrap()
}

/// A number of a lattice of axes: all small ones come.
fn axis(number: u64) -> Slow {
    let draw = |lane, n| below(n, 3, number, lane) as i64;
    let extent = 1 + draw(0, 7);
    Slow {
        shape: 1 + draw(1, 17),
        extent,
        step: [0, 1, 2, 3, 5, 9][draw(2, 6) as usize],
        margin: draw(3, extent as u64),
        chunk: draw(4, 8),
    }
}

#[test]
fn boxes_are_numbered_chunk_by_chunk_and_begin_where_slow_loops_say() {
    for number in 0..600 {
        let axes: Vec<Slow> = (0..number % 4).map(|k| axis(4 * number + k)).collect();
        // All boxes with the chunk that they belong to, in row-major order.
        let mut all: Vec<(Vec<i64>, Vec<i64>)> = vec![(Vec::new(), Vec::new())];
        for axis in &axes {
            let with = |(blocks, begins): &(Vec<i64>, Vec<i64>), at: i64| {
                let block = axis.chunk_of(at);
                ([&blocks[..], &[block]].concat(), [&begins[..], &[at]].concat())
            };
            let begins = axis.begins();
            all = all.iter().flat_map(|one| begins.iter().map(|at| with(one, *at))).collect();
        }
        all.sort();
        let boxes = grid(&axes, false);
        assert_eq!(boxes.count(), all.len() as u64, "{axes:?}");
        let begins: Vec<Vec<i64>> = boxes.places(1, 2).map(|begin| begin.to_vec()).collect();
        assert_eq!(begins, all.into_iter().map(|(_, begin)| begin).collect::<Vec<_>>());
    }
}

#[test]
fn jittering_boxes_stay_in_their_cells_and_chunks_and_reach_all_of_them() {
    for number in 0..150 {
        let axis = axis(number);
        let (still, boxes) = (grid(&[axis], false), grid(&[axis], true));
        let places = axis.places();
        for at in 0..boxes.count() {
            let begin = still.at(at, 0, 0).unwrap()[0];
            let next = still.at(at + 1, 0, 0).map_or(i64::MAX, |next| next[0]);
            let cell: BTreeSet<i64> = places
                .iter()
                .copied()
                .filter(|place| (begin..next).contains(place))
                .filter(|place| axis.chunk_of(*place) == axis.chunk_of(begin))
                .collect();
            let met: BTreeSet<i64> =
                (0..200).map(|epoch| boxes.at(at, 5, epoch).unwrap()[0]).collect();
            assert_eq!(met, cell, "box {at} of {axis:?}");
        }
    }
}

#[test]
fn boxes_anywhere_and_around_points_meet_all_places_as_often() {
    for number in 0..40 {
        let axis = axis(number);
        let boxes = grid(&[axis], false);
        let places = axis.places();
        let even = |allowed: &[i64], begin: &dyn Fn(Place) -> i64| {
            let draws = 200 * allowed.len() as u64;
            let mut counts = vec![0i64; allowed.len()];
            for position in 0..draws {
                let at = begin(Place { epoch: 1, position });
                counts[allowed.iter().position(|place| *place == at).unwrap()] += 1;
            }
            // Five standard deviations of each count.
            assert!(counts.iter().all(|count| (count - 200).abs() < 71), "{axis:?}: {counts:?}");
        };
        even(&places, &|place| boxes.anywhere(4, place)[0]);
        for point in [0, axis.shape / 2, axis.shape - 1] {
            let holds = |begin: &i64| (*begin..begin + axis.extent).contains(&point);
            let allowed: Vec<i64> = places.iter().copied().filter(holds).collect();
            even(&allowed, &|place| boxes.around(&[point as u64], 4, place).unwrap()[0]);
        }
        assert_eq!(boxes.around(&[axis.shape as u64], 4, Place::default()), None);
        assert_eq!(boxes.around(&[], 4, Place::default()), None);
    }
}

#[test]
fn grids_without_boxes_or_of_too_large_numbers_are_refused() {
    let refused = |shape: &[u64], extents: &[u64], step: &[u64], margin: &[u64], chunk: &[u64]| {
        let grid = Grid { shape, extents, step, margin, chunk, jitters: false };
        assert_eq!(Boxes::new(grid).unwrap_err(), Misfit::Grid);
    };
    refused(&[0], &[1], &[], &[], &[]);
    refused(&[1], &[0], &[], &[], &[]);
    refused(&[1], &[1, 1], &[], &[], &[]);
    refused(&[5], &[3], &[1, 1], &[], &[]);
    refused(&[5], &[3], &[], &[3], &[]);
    refused(&[(1 << 60) + 1], &[3], &[], &[], &[]);
    refused(&[5], &[3], &[], &[], &[(1 << 60) + 1]);
    refused(&[1 << 40; 2], &[1; 2], &[], &[], &[]);
    refused(&[1; 17], &[1; 17], &[], &[], &[]);
    let most = Grid { shape: &[1 << 60], extents: &[1 << 60], ..Grid::default() };
    assert_eq!(Boxes::new(most).unwrap().count(), 1);
    assert_eq!(Boxes::new(Grid::default()).unwrap().count(), 1);
}

#[test]
fn the_cost_of_an_epoch_is_what_sets_of_chunks_count() {
    for number in 0..300u64 {
        let jitters = number.is_multiple_of(5);
        let arrays: Vec<Vec<Slow>> = (0..1 + number % 3)
            .map(|array| (0..1 + number % 2).map(|k| axis(9 * number + 3 * array + k)).collect())
            .collect();
        let boxes: Vec<Boxes> = arrays.iter().map(|axes| grid(axes, jitters)).collect();
        let mut ends = vec![End::default(); boxes.len()];
        let summed = Arrays::new(&boxes, &mut ends).unwrap();
        let (run, window) = (1 + number % 7, 1 + number % 4);
        let epoch = Epoch::new(summed.count(), number, Order::Plain).unwrap();
        let mut shuffle = ChunkShuffle::new(epoch, run, window).unwrap();
        (0..number % 3).for_each(|_| shuffle.turn());

        let (mut all, mut belongs, mut here) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut expected = Cost::default();
        for position in 0..summed.count() {
            let place = Place { epoch: shuffle.state().epoch, position };
            let (array, at) = summed.find(shuffle.at(place).unwrap()).unwrap();
            let begin = boxes[array].at(at, number, place.epoch).unwrap();
            let still = grid(&arrays[array], false).at(at, 0, 0).unwrap();
            let axes = &arrays[array];
            belongs.insert((
                array,
                axes.iter().zip(&still).map(|(a, at)| a.chunk_of(*at)).collect::<Vec<_>>(),
            ));
            let mut touched = vec![Vec::new()];
            for (axis, at) in axes.iter().zip(&begin) {
                let chunks = axis.chunks(*at);
                let with = |one: &Vec<i64>, chunk: i64| [&one[..], &[chunk]].concat();
                touched =
                    touched.iter().flat_map(|one| chunks.iter().map(|at| with(one, *at))).collect();
            }
            here.extend(touched.into_iter().map(|chunk| (array, chunk)));
            if (position + 1).is_multiple_of(shuffle.window_samples())
                || position + 1 == summed.count()
            {
                expected.windows += here.len() as u64;
                expected.largest = expected.largest.max(here.len() as u64);
                all.append(&mut here);
            }
        }
        expected.distinct = if jitters { belongs.len() } else { all.len() } as u64;
        let mut words = vec![u64::MAX; 6 * expected.largest as usize];
        assert_eq!(cost(&shuffle, &summed, &mut words), Ok(expected), "{number}");
        assert_eq!(cost(&shuffle, &summed, &mut []), Err(Misfit::Memory));
    }
}

#[test]
fn arrays_are_found_by_their_samples() {
    let axes = [3i64, 1, 8].map(|shape| Slow { shape, extent: 1, step: 0, margin: 0, chunk: 2 });
    let boxes = axes.map(|axis| grid(&[axis], false));
    let mut ends = [End::default(); 3];
    let arrays = Arrays::new(&boxes, &mut ends).unwrap();
    let found: Vec<_> = (0..13).map(|sample| arrays.find(sample)).collect();
    let expected = (0..3).map(|n| Some((0, n))).chain([Some((1, 0))]);
    assert_eq!(
        found,
        expected.chain((0..8).map(|n| Some((2, n)))).chain([None]).collect::<Vec<_>>()
    );
    assert_eq!(arrays.ends().last(), Some(&End { boxes: 12, chunks: 2 + 1 + 4 }));
    assert_eq!(Arrays::new(&boxes, &mut [End::default()]).unwrap_err(), Misfit::Memory);
}
