//! Whether a map from the places of a box to voxels can be one.
//!
//! In: a request whose places are known. Out: nothing, or what is wrong with the map; what depends
//! on the array, or on the level of an image, is for the planner.

use crate::base::status::{Status, Why};
use crate::engine::Engine;
use crate::engine::requests::Request;
use crate::fail;
use crate::records::{Affine, split_cf};
use crate::resample::{AXES, Filter, Map};
use crate::setup::fields::Field;
use crate::source::zarr::split_selection;

impl Engine {
    /// Checks the map of a box, if it has one.
    pub(super) fn check_affine(
        &self,
        request: &Request<'_>,
        field: &Field,
        why: &mut Why,
    ) -> Result<(), Status> {
        let Some(affine) = request.augment.affine() else { return Ok(()) };
        self.keeps_augment("affine", why)?;
        if request.fed.on_device().is_some() {
            let text = "the host resamples, and tensor.device is a device: copy it to the host";
            return Err(fail!(why, Unsupported, "affine: {text}"));
        }
        check_level(&affine, request, why)?;
        let Some(filter) = Filter::from_code(affine.filter) else {
            let (filter, text) = (affine.filter, "WAVETRAIN_NEAREST or WAVETRAIN_LINEAR");
            return Err(fail!(why, Invalid, "affine: filter = {filter}: must be {text}"));
        };
        if filter == Filter::Linear && !field.has_floats() {
            let (of, name) = (field.of(), field.dtype.name());
            let (text, way_out) =
                ("a linear filter makes floats", "make the field f32, bf16 or f16");
            return Err(fail!(
                why,
                Invalid,
                "{of}affine: {text}, not {name}: {way_out}, or take nearest"
            ));
        }
        let places = mapped_places(&affine, request, why)?;
        let rank = affine.rank as usize;
        // Units may be of any length: the planner checks the map that leads to voxels.
        let checked = if affine.has_units { Map::check_numbers } else { Map::check };
        checked(rank, &affine.matrix, &places, filter)
            .map_err(|fault| fail!(why, Invalid, "affine: {fault}"))
    }
}

fn check_level(affine: &Affine, request: &Request<'_>, why: &mut Why) -> Result<(), Status> {
    let level = affine.level;
    if level < -1 {
        return Err(fail!(why, Invalid, "affine: level = {level}: must be -1 or a level"));
    }
    let uri = split_cf(request.uri()).unwrap_or(request.uri());
    if !request.fed.is_fed() && split_selection(uri).is_some() {
        let text = "affine: the map chooses the level: leave out what begins with # in the uri";
        return Err(fail!(why, Invalid, "{text}"));
    }
    Ok(())
}

/// Places along each axis of the map.
fn mapped_places(
    affine: &Affine,
    request: &Request<'_>,
    why: &mut Why,
) -> Result<[u64; AXES], Status> {
    let rank = affine.rank as usize;
    if rank == 0 || rank > AXES {
        return Err(fail!(why, Invalid, "affine: rank = {rank}: must be 1 to {AXES}"));
    }
    let mut places = [1; AXES];
    for (number, axis) in affine.axes().enumerate() {
        if axis >= request.rank || affine.position(axis) != Some(number) {
            let axes = request.rank;
            let text = "each must be an axis of the box, once";
            return Err(fail!(why, Invalid, "affine: axes[{number}] = {axis} of {axes}: {text}"));
        }
        let walk = &request.shape.axes[axis];
        if walk.range().0 != 0 || walk.step() != (1, false) {
            // A step of 0 is 1.
            let (begin, given) = (request.begin[axis], request.step[axis]);
            let step = if given == 0 { 1 } else { given };
            let text = "an axis that is mapped has begin 0, the extent of the output and step 1";
            return Err(fail!(
                why,
                Invalid,
                "affine: axis {axis}: begin = {begin}, step = {step}: {text}"
            ));
        }
        places[number] = walk.places();
    }
    Ok(places)
}
