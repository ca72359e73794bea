//! Index lists: axes of a box that read elements one by one, in any order.
//!
//! In: a checked box, and the elements of such axes. Out: the boxes that it is, one for each run of
//! neighbours, in the order of their places. The planner then knows boxes alone: a chunk that
//! several of them touch is read and decoded once.
//!
//! Worked example: [7, 8, 9, 3, 3] is [7, 10), [3, 4) and [3, 4); next to a list of two runs it is
//! six boxes. Only neighbours make a run, up or down: a step over many elements would read what
//! lies between them.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why};
use crate::engine::Engine;
use crate::engine::requests::{Lists, Request};
use crate::fail;
use crate::intake::draft::Draft;
use crate::intake::queue::NewBox;
use crate::records::{AxisWalk, BoxShape};

impl Engine {
    /// Whether the lists of a box can be what its axes read, and are not too long.
    pub(super) fn check_lists(&self, request: &Request<'_>, why: &mut Why) -> Result<(), Status> {
        check(request, why)?;
        // Without room for any there are no drafts.
        self.check_listed(count(&request.lists), why)
    }

    /// Adds box number `number` to a draft, each run of its index lists as a box. `listed`: the
    /// indices of the boxes before it.
    pub(super) fn draft_box(
        &self,
        draft: &mut Draft,
        (number, listed): (u32, &mut u64),
        request: &mut Request<'_>,
    ) -> Result<(), Failure> {
        let cover = self.cover_of(request);
        if request.lists.is_empty() {
            draft.add(&request.to_queue(), cover);
            return Ok(());
        }
        *listed = listed.saturating_add(count(&request.lists));
        let mut why = Why::new();
        let checked = self.check_listed(*listed, &mut why);
        checked.map_err(|status| request.box_failure(number, status, &mut why))?;
        let extents = self.shared.field(request.field).extents();
        each_run_of(request, |mut shape, first, runs| {
            for (axis, first) in first.iter().enumerate() {
                let to = shape.axes[axis].to();
                shape.at += to.map_or(0, |to| first * extents[to + 1..].iter().product::<u64>());
            }
            draft.add(&NewBox { shape: &shape, runs, ..request.to_queue() }, cover);
        });
        Ok(())
    }

    /// Whether a sample may have so many indices in lists.
    fn check_listed(&self, count: u64, why: &mut Why) -> Result<(), Status> {
        let most = self.shared.settings.config.max_indices_per_sample;
        if count <= u64::from(most) {
            return Ok(());
        }
        Err(fail!(
            why,
            Invalid,
            "index lists of {count} indices, of several lists of a box their product: \
             max_indices_per_sample = {most}: raise it"
        ))
    }
}

/// Calls `each` with the box of each run of the lists of a request, its first places in the box of
/// the caller, and how many runs there are if it is the first one, else 0.
pub(super) fn each_run_of(
    request: &Request<'_>,
    mut each: impl FnMut(BoxShape, &[u64; RANK_MAX], u32),
) {
    let mut left = runs(&request.lists);
    let mut runs = left;
    each_run(&request.lists, &request.shape, |shape, first| {
        each(shape, first, runs);
        (runs, left) = (0, left - 1);
    });
    assert!(left == 0);
}

/// Whether the lists of a box can be what its axes read.
fn check(request: &Request<'_>, why: &mut Why) -> Result<(), Status> {
    if request.fed.is_fed() || request.augment.affine().is_some() {
        let (what, way_out) = match request.fed.is_fed() {
            true => ("tensor", "gather its elements before you feed it"),
            false => ("map", "give it begin and end"),
        };
        return Err(fail!(why, Invalid, "a box of a {what} takes no index lists: {way_out}"));
    }
    for (number, (axis, indices)) in request.lists.iter().enumerate() {
        let (axis, count) = (*axis, indices.len() as u64);
        if axis >= request.rank {
            let rank = request.rank;
            return Err(fail!(why, Invalid, "lists[{number}].axis = {axis}: the box has {rank}"));
        }
        if request.lists[..number].iter().any(|(other, _)| *other == axis) {
            return Err(fail!(
                why,
                Invalid,
                "lists[{number}].axis = {axis}: it has a list already"
            ));
        }
        let given = (request.begin[axis], request.end[axis], request.step[axis]);
        if count == 0 || given.0 != 0 || given.1 as u64 != count || !matches!(given.2, 0 | 1) {
            let (begin, end, step) = given;
            return Err(fail!(
                why,
                Invalid,
                "axis {axis}: begin {begin}, end {end} and step {step} next to a list of {count} \
                 indices, at least 1: must be 0, {count} and 0 or 1"
            ));
        }
        if indices.contains(&i64::MAX) {
            return Err(fail!(why, Invalid, "axis {axis}: index {}: no array has it", i64::MAX));
        }
    }
    Ok(())
}

/// Indices that count for a box.
fn count(lists: &Lists<'_>) -> u64 {
    lists.iter().fold(1, |count: u64, (_, indices)| count.saturating_mul(indices.len() as u64))
}

/// Boxes that the lists make of a box, at most [`count`].
fn runs(lists: &Lists<'_>) -> u32 {
    let of_list = |indices: &[i64]| {
        let next = |at: &usize| Some(at + run_at(indices, *at).0).filter(|at| *at < indices.len());
        core::iter::successors(Some(0), next).count() as u32
    };
    lists.iter().map(|(_, indices)| of_list(indices)).product()
}

/// The longest run of neighbours from place `at` on: how many, and whether they go down.
fn run_at(indices: &[i64], at: usize) -> (usize, bool) {
    let step = |place: usize| indices[place].checked_sub(indices[place - 1]);
    let is_in = |place: &usize| *place < indices.len();
    let Some(first) = Some(at + 1).filter(is_in).and_then(step) else { return (1, false) };
    if first.unsigned_abs() != 1 {
        return (1, false);
    }
    let next = (at + 2..indices.len()).find(|place| step(*place) != Some(first));
    (next.unwrap_or(indices.len()) - at, first < 0)
}

/// Calls `each` with the shape of each box that the lists make of one of that `shape`, and the
/// first place of it along each axis, the places of the last list fastest.
fn each_run(lists: &Lists<'_>, shape: &BoxShape, mut each: impl FnMut(BoxShape, &[u64; RANK_MAX])) {
    // The first place of the run in turn, of each list.
    let mut at = [0usize; RANK_MAX];
    loop {
        let (mut run, mut first) = (*shape, [0; RANK_MAX]);
        for ((axis, indices), at) in lists.iter().zip(at) {
            let (length, is_down) = run_at(indices, at);
            let low = if is_down { indices[at + length - 1] } else { indices[at] };
            let step = if is_down { -1 } else { 1 };
            // No index is i64::MAX, so that an end has a number.
            let walk = AxisWalk::of(low, low + length as i64, step).unwrap_or(AxisWalk::ONE);
            run.axes[*axis] = walk.to_axis(shape.axes[*axis].to());
            first[*axis] = at as u64;
        }
        each(run, &first);
        // The next run of the last list that has one; the lists after it begin anew.
        let next = (0..lists.len()).rev().find_map(|list| {
            let next = at[list] + run_at(lists[list].1, at[list]).0;
            (next < lists[list].1.len()).then_some((list, next))
        });
        let Some((list, next)) = next else { return };
        at[list] = next;
        at[list + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cache::hash_words;
    use std::vec::Vec;

    /// The elements and targets of a shape of two axes, place by place.
    fn places(shape: &BoxShape, strides: [u64; 2]) -> Vec<(u64, [i64; 2])> {
        let walk = |axis: usize| {
            let ((low, high), (_, is_back)) = (shape.axes[axis].range(), shape.axes[axis].step());
            let count = (high - low) as u64;
            (0..count).map(move |p| (p, if is_back { high - 1 - p as i64 } else { low + p as i64 }))
        };
        let outer = walk(0);
        let all = outer.flat_map(|(p, a)| walk(1).map(move |(q, b)| ((p, q), [a, b])));
        all.map(|((p, q), at)| (shape.at + p * strides[0] + q * strides[1], at)).collect()
    }

    #[test]
    fn runs_are_every_place_of_the_lists_once_in_order() {
        let mut state = 3u64;
        let mut random = |limit: u64| {
            state = hash_words(&[state]);
            state % limit
        };
        for _ in 0..400 {
            let extents = [1 + random(7), 1 + random(7)];
            let list = |random: &mut dyn FnMut(u64) -> u64, count: u64| -> Vec<i64> {
                let spread = [3, 100][random(2) as usize];
                (0..count).map(|_| random(spread) as i64 - 1).collect()
            };
            let (rows, columns) = (list(&mut random, extents[0]), list(&mut random, extents[1]));
            let mut lists = Lists::new();
            lists.push((0, &rows[..]));
            lists.push((1, &columns[..]));
            let whole = BoxShape::forward(&[0, 0], &[extents[0] as i64, extents[1] as i64]);
            let (mut got, mut boxes) = (Vec::new(), 0);
            each_run(&lists, &whole, |mut shape, first| {
                shape.at = first[0] * extents[1] + first[1];
                got.extend(places(&shape, [extents[1], 1]));
                boxes += 1;
            });
            assert_eq!(boxes, runs(&lists));
            assert!(u64::from(boxes) <= count(&lists));
            got.sort_unstable_by_key(|(target, _)| *target);
            let expected: Vec<_> = { rows.iter() }
                .flat_map(|row| columns.iter().map(move |column| [*row, *column]))
                .zip(0..)
                .map(|(at, target)| (target, at))
                .collect();
            assert_eq!(got, expected, "{rows:?} {columns:?}");
        }
    }

    #[test]
    fn neighbours_are_one_box_and_repeats_are_boxes_of_their_own() {
        let runs_of = |indices: &[i64]| runs(&Lists::from_iter([(0, indices)]));
        assert_eq!(runs_of(&[7, 8, 9, 3, 3]), 3);
        assert_eq!(runs_of(&[9, 8, 7]), 1);
        assert_eq!(runs_of(&[0, 2, 4]), 3);
        assert_eq!(runs_of(&[i64::MIN, i64::MAX - 1]), 2);
        assert_eq!(runs_of(&[0, i64::MIN]), 2);
        assert_eq!(runs_of(&[5, 6, 5, 6]), 2);
    }
}
