//! Boxes with a map whose uri names an image: which of its levels they read.
//!
//! In: boxes of a group, levels of their image as the table of arrays has them. Out: the level's
//! array, and the map in its voxels. Invariant: all boxes of the group read that level; the others
//! are of the next group.

use crate::base::cache::hash_bytes;
use crate::base::indexes::{ArraySlot, Lane};
use crate::base::limits::{GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::{Failure, Status};
use crate::base::text::Uri;
use crate::intake::arrays::{ArrayState, Arrays};
use crate::intake::queue::Queue;
use crate::jobs::plan::bind::{queued_affine, queued_box};
use crate::jobs::plan::window::{Current, Planner};
use crate::records::{Affine, LevelChoice, split_level_name, write_level_name};
use crate::state::State;
use crate::state::shared::Shared;

impl Planner {
    /// Begins with the levels of an image that the group's uri names, if one of them was loaded, or
    /// if it `is_no_array`. Then the name of level 0 is the planner's target.
    pub(super) fn begin_levels(
        &mut self,
        shared: &Shared,
        state: &mut State,
        current: &mut Current,
        is_no_array: bool,
    ) -> bool {
        // A box that a caller reads has no map.
        if self.lane == Lane::Readers || current.is_alias {
            return false;
        }
        let State { queue, arrays, .. } = state;
        let queued = queued_box(shared, queue, self.order[current.group_first as usize]);
        if !queued.is_resampled {
            return false;
        }
        let has_name = write_level_name(text(queue.uri(queued).0), 0, &mut self.target);
        let name = self.target.as_bytes();
        let mut is_image = || is_no_array || arrays.find(name, hash_bytes(name)).is_some();
        current.is_alias = has_name && is_image();
        if current.is_alias {
            self.current = Some(*current);
        }
        current.is_alias
    }

    /// Reads the target of an alias: the array, or first the next level of the image to look at.
    pub(super) fn read_alias(
        &mut self,
        shared: &Shared,
        state: &State,
        array: ArraySlot,
        current: &mut Current,
    ) {
        let level = split_level_name(self.target.as_str()).filter(|_| current.is_alias);
        if let Some((_, level)) = level {
            let (queue, arrays) = (&state.queue, &state.arrays);
            if !self.choice.is_over() {
                self.add_level(shared, queue, arrays, (array, current));
            }
            if !self.choice.is_over() || self.choice.level() != level {
                self.aim_at_level(shared, queue, current);
                return;
            }
        }
        state.arrays.read_target(array, &mut self.target);
        current.is_alias = true;
    }

    /// The level that the choice asks for is the planner's target.
    fn aim_at_level(&mut self, shared: &Shared, queue: &Queue, current: &Current) {
        let first = self.order[current.group_first as usize];
        let uri = text(queue.uri(queued_box(shared, queue, first)).0);
        write_level_name(uri, self.choice.level(), &mut self.target);
    }

    /// Takes the extents of the array of level 0, if the choice wants them; none if there is no
    /// such array, as of an image of which coarse levels alone were copied. Then the level that is
    /// chosen is the planner's target.
    pub(super) fn take_extents(
        &mut self,
        shared: &Shared,
        queue: &Queue,
        current: &Current,
        extents: Option<&[u64; RANK_MAX]>,
    ) -> bool {
        if !self.choice.wants_extents() {
            return false;
        }
        self.choice.set_extents(extents);
        self.aim_at_level(shared, queue, current);
        true
    }

    /// Looks at a level. Boxes from the first on that makes something else of it leave the group.
    fn add_level(
        &mut self,
        shared: &Shared,
        queue: &Queue,
        arrays: &Arrays,
        (array, current): (ArraySlot, &mut Current),
    ) {
        let affine = |at: u32| queued_affine(shared, queue, self.order[at as usize]);
        let (placement, choice) = (arrays.placement(array), &mut self.choice);
        let Some(first) = affine(current.group_first) else { return };
        let agrees =
            |at: &u32| affine(*at).is_some_and(|affine| choice.agree(&first, &affine, placement));
        let mut others = current.group_first + 1..current.group_limit;
        if let Some(at) = others.find(|at| !agrees(at)) {
            (current.group_limit, self.level_limit) = (at, at);
        }
        self.choice.add(&first, placement);
    }

    /// Why the array at the planner's target, or a level of an image, cannot be loaded. It is
    /// forgotten, and so is all that is known of the image: the next sample reads it anew.
    pub(super) fn forget_levels(
        &mut self,
        shared: &Shared,
        state: &mut State,
        current: &Current,
        failure: Failure,
    ) -> Failure {
        let level = split_level_name(self.target.as_str()).filter(|_| current.is_alias);
        if level.is_none() {
            return failure;
        }
        let State { queue, arrays, .. } = state;
        let queued = queued_box(shared, queue, self.order[current.group_first as usize]);
        let (uri, hash) = queue.uri(queued);
        if self.choice.level() > 0 {
            write_level_name(text(uri), 0, &mut self.target);
            let name = self.target.as_bytes();
            arrays.find(name, hash_bytes(name)).into_iter().for_each(|first| arrays.forget(first));
        }
        let Some(own) = arrays.find(uri, hash) else { return failure };
        let ArrayState::Failed(status) = arrays.state(own) else { return failure };
        let own_failure = Failure::because(status, arrays.why(own));
        arrays.forget_failed(own);
        // A group without levels, or nothing at all: its own text has the names in it.
        let is_no_image = failure.status == Status::NotFound && self.choice.level() == 0;
        if is_no_image { own_failure } else { failure }
    }

    /// The next group has looked at no level.
    pub(super) fn end_levels(&mut self) {
        (self.choice, self.level_limit) = (LevelChoice::NONE, u32::MAX);
    }
}

/// The array that a box with a map reads, and the choice of its level, if all is loaded that this
/// needs; failed arrays as well.
#[inline(never)] // a uri on the stack
pub(super) fn find_level(
    arrays: &mut Arrays,
    (uri, hash): (&[u8], u64),
    affine: &Affine,
) -> Option<(ArraySlot, LevelChoice)> {
    let (mut name, mut choice) = (Uri::new(), LevelChoice::NONE);
    // Each level once, and the chosen one again.
    for _ in 0..=GROUP_LEVELS_MAX {
        let level = choice.level();
        write_level_name(text(uri), level, &mut name);
        let found = arrays.find(name.as_bytes(), hash_bytes(name.as_bytes()));
        let Some(found) = found else {
            // An array that is none may be an image yet.
            let array = arrays.find_target(uri, hash).filter(|_| level == 0)?;
            let is_failed = matches!(arrays.state(array), ArrayState::Failed(_));
            return (!is_failed).then_some((array, choice));
        };
        match arrays.state(found) {
            ArrayState::Alias => {}
            ArrayState::Failed(_) => return Some((found, choice)),
            _ => return None,
        }
        if !choice.is_over() {
            choice.add(affine, arrays.placement(found));
        }
        if choice.is_over() {
            // A fault of the image is reported when its sample is planned.
            choice.set_extents(None);
        }
        if choice.is_over() && choice.level() == level {
            let array = arrays.find_target(name.as_bytes(), hash_bytes(name.as_bytes()))?;
            return Some((array, choice));
        }
    }
    None
}

/// Uris are checked to be UTF-8 when they are pushed.
fn text(uri: &[u8]) -> &str {
    core::str::from_utf8(uri).unwrap_or("")
}
