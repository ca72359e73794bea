//! Samples as push takes them: whether each of their boxes has a place in a field, and the boxes of
//! one sample places of their own.
//!
//! In: what a surface copied from the caller. Out: boxes in the queue, all of a sample or none.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::hash_bytes;
use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why};
use crate::base::text::{List, Uri};
use crate::cuda::DeviceEngine;
use crate::engine::Engine;
use crate::engine::axes::{axes_as_given, axes_in_order};
use crate::fail;
use crate::intake::draft::{Cover, Draft};
use crate::intake::queue::{Full, NewBox};
use crate::jobs::plan::boxes::{check_record, source_box};
use crate::jobs::plan::resample::map_box;
use crate::os::sync::{Guard, Mutex};
use crate::records::{
    AugmentWords, AxisWalk, BoxShape, Fed, HOOK_PREFIX, LevelChoice, RAW_PREFIX, WalkFault,
};
use crate::setup::fields::Field;
use crate::setup::settings::Settings;
use crate::source::cf;
use crate::state::{Life, State};
use arrayvec::ArrayVec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Names of arrays that a call of push keeps: those of as many columns of a table are read once.
const NAMES: usize = 3;

/// The name of an array.
struct Name {
    /// What stands for it during the call; 0: nothing does.
    key: u64,
    /// The uri is the one that the array is cached by, and the hash is its.
    is_fixed: bool,
    hash: u64,
    uri: Uri,
}

impl Name {
    fn new() -> Name {
        Name { key: 0, is_fixed: false, hash: 0, uri: Uri::new() }
    }
}

/// The places along each axis of a box.
pub(super) type Walks = ArrayVec<AxisWalk, RANK_MAX>;

/// The index lists of a box: of each its axis, and the elements.
pub type Lists<'a> = ArrayVec<(usize, &'a [i64]), RANK_MAX>;

/// One box of a sample as push takes it, whose lists the caller keeps during the call.
pub struct Request<'a> {
    names: [Name; NAMES],
    /// The one of the box; not looked at if the box reads memory.
    name: usize,
    /// The row of a table that the sample is.
    pub row: Option<usize>,
    /// What is fed: its axes are the box's, if that has any.
    pub fed: Fed,
    /// Axes of the box.
    pub rank: usize,
    /// First element along each axis.
    pub begin: [i64; RANK_MAX],
    /// One past the last.
    pub end: [i64; RANK_MAX],
    /// Field that it goes to.
    pub field: u32,
    /// By axis of the field: the target of its first place.
    pub at: [u64; RANK_MAX],
    /// By axis of the box: elements from one place to the next; 0 is 1.
    pub step: [i64; RANK_MAX],
    /// By axis of the box: 1 + the axis of the field, 0 dropped; all 0: as they come.
    pub axes: [u8; RANK_MAX],
    /// Boxes of the sample.
    pub boxes: u32,
    /// The caller's tag.
    pub tag: u64,
    /// The range that a checked box reads, and the places of its field that get it.
    pub shape: BoxShape,
    /// Its index lists.
    pub lists: Lists<'a>,
    /// What is done to its elements.
    pub augment: AugmentWords,
}

/// Writes box number n of sample number m, and what the sample says of itself; or says what is
/// wrong with it.
pub trait Fill<'a>: FnMut(usize, u32, &mut Request<'a>) -> Result<(), Failure> {}

impl<'a, F: FnMut(usize, u32, &mut Request<'a>) -> Result<(), Failure>> Fill<'a> for F {}

impl<'a> Request<'a> {
    /// A request to be filled. No constant, which would be copied with all bytes of its names.
    pub fn empty() -> Request<'a> {
        Request {
            names: [Name::new(), Name::new(), Name::new()],
            name: 0,
            row: None,
            fed: Fed::NOTHING,
            rank: 0,
            begin: [0; RANK_MAX],
            end: [0; RANK_MAX],
            field: 0,
            at: [0; RANK_MAX],
            step: [0; RANK_MAX],
            axes: [0; RANK_MAX],
            boxes: 1,
            tag: 0,
            shape: BoxShape::EMPTY,
            lists: Lists::new(),
            augment: AugmentWords::default(),
        }
    }

    /// Where the uri of the box is to be written, normalised; None if it is there: a key above 0
    /// stands for one uri during a call of push. Its low byte chooses the name that it may find.
    pub fn uri_place(&mut self, key: u64) -> Option<&mut Uri> {
        self.name = usize::from(key as u8) % NAMES;
        let name = &mut self.names[self.name];
        if key != 0 && name.key == key {
            return None;
        }
        (name.key, name.is_fixed) = (key, false);
        Some(&mut name.uri)
    }

    /// The uri of the box, if it reads an array of a store.
    pub(super) fn uri(&self) -> &str {
        self.names[self.name].uri.as_str()
    }

    /// What is wrong with box number `number` of the sample.
    pub fn box_failure(&self, number: u32, status: Status, why: &mut Why) -> Failure {
        if self.boxes > 1 {
            let (text, part) = (*why, if self.row.is_some() { "column" } else { "box" });
            why.fail(status, format_args!("{part} {number}: {text}"));
        }
        self.failure(status, why)
    }

    fn failure(&self, status: Status, why: &Why) -> Failure {
        let because = match self.row {
            Some(row) => Failure::of(status, format_args!("row {row}: {why}")),
            None => Failure::because(status, why),
        };
        Failure { tag: self.tag, ..because }
    }

    /// The places along each axis of the box.
    pub(super) fn walks(&self, why: &mut Why) -> Result<Walks, Status> {
        let mut walks = Walks::new();
        for axis in 0..self.rank {
            let (begin, end) = (self.begin[axis], self.end[axis]);
            let step = if self.step[axis] == 0 { 1 } else { self.step[axis] };
            match AxisWalk::of(begin, end, step) {
                Ok(walk) => walks.push(walk),
                Err(fault) => return Err(walk_failure(axis, (begin, end, step), fault, why)),
            }
        }
        Ok(walks)
    }

    pub(super) fn to_queue(&self) -> NewBox<'_> {
        let (Name { uri, hash, .. }, fed) = (&self.names[self.name], &self.fed);
        let (rank, field, shape) = (self.rank, self.field, &self.shape);
        let augment = self.augment.words();
        NewBox { uri: uri.as_bytes(), hash: *hash, fed, rank, field, shape, augment, runs: 1 }
    }
}

/// So many threads fill samples of several boxes at a time.
const DRAFTS: u64 = 2;

/// Drafts for the threads that push; none if a sample has one box.
pub struct Drafts {
    drafts: &'static [Mutex<Draft>],
    /// How many were taken so far.
    taken: AtomicU32,
}

impl Drafts {
    /// Drafts of samples as the settings have them.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> Drafts {
        let per_sample = &settings.per_sample;
        let count = if per_sample.boxes > 1 { DRAFTS } else { 0 };
        let drafts = carver.slice_from(Item::SampleQueue, count, |carver| {
            let counts = (per_sample.boxes, per_sample.given());
            Mutex::new(Draft::carve(carver, counts, per_sample.keeps()))
        });
        Drafts { drafts, taken: AtomicU32::new(0) }
    }

    /// An empty draft, as soon as its last user has handed its sample in.
    fn take(&self) -> Guard<'_, Draft> {
        let number = self.taken.fetch_add(1, Relaxed) as usize % self.drafts.len();
        let mut draft = self.drafts[number].lock();
        draft.clear();
        draft
    }
}

/// The boxes of a sample that was checked, while nobody else uses the draft that they lie in; None
/// of one box, which the request is.
pub type Drafted<'e> = Option<Guard<'e, Draft>>;

impl Engine {
    /// Reads all boxes of a sample and checks each. `request` is the last one.
    pub(super) fn check_sample<'a>(
        &self,
        sample: usize,
        fill: &mut impl Fill<'a>,
        request: &mut Request<'a>,
    ) -> Result<Drafted<'_>, Failure> {
        fill(sample, 0, request)?;
        let (boxes, most) = (request.boxes, self.shared.settings.per_sample.given());
        if boxes == 0 || boxes > most {
            let mut why = Why::new();
            let text = "raise max_boxes_per_sample";
            let status =
                fail!(why, Invalid, "a sample of {boxes} boxes: must have 1 to {most}: {text}");
            return Err(request.failure(status, &why));
        }
        self.check_box(0, request)?;
        if boxes == 1 && request.lists.is_empty() {
            return Ok(None);
        }
        self.draft_sample(sample, fill, request).map(Some)
    }

    /// The same of several boxes, the first of which is in the request.
    #[inline(never)] // samples of one box pass by as fast as they can
    fn draft_sample<'a>(
        &self,
        sample: usize,
        fill: &mut impl Fill<'a>,
        request: &mut Request<'a>,
    ) -> Result<Guard<'_, Draft>, Failure> {
        let boxes = request.boxes;
        // A call that came after close must not touch the drafts, whose pages may be given back.
        if self.lock.lock().life == Life::Closing {
            return Err(Failure::shutdown());
        }
        let mut draft = self.drafts.take();
        let mut listed = 0;
        self.draft_box(&mut draft, (0, &mut listed), request)?;
        for number in 1..boxes {
            fill(sample, number, request)?;
            self.check_box(number, request)?;
            self.draft_box(&mut draft, (number, &mut listed), request)?;
        }
        let Some((first, second)) = draft.overlap() else { return Ok(draft) };
        let (mut why, field) = (Why::new(), self.shared.field(draft.field(second)));
        let status = fail!(why, Invalid, "{}boxes {first} and {second} overlap", field.of());
        Err(request.failure(status, &why))
    }

    /// Adds a sample to the queue that was checked.
    pub(super) fn add_sample(
        state: &mut State,
        request: &Request<'_>,
        drafted: &Drafted<'_>,
    ) -> Result<(), Full> {
        let added = match drafted {
            None => state.queue.add_box(&request.to_queue()),
            Some(draft) => add_drafted(state, draft),
        };
        match added {
            Ok(()) => state.queue.push(request.tag),
            Err(_) => state.queue.drop_added(),
        }
        added
    }

    /// The places that a box goes to that was checked.
    pub(super) fn cover_of(&self, request: &Request<'_>) -> Cover {
        let field = self.shared.field(request.field);
        let (low, high) = field.covered_by(&request.shape);
        Cover { field: request.field, axes: field.extents().len(), low, high }
    }

    /// Whether the box has places in its field: notes what it reads, and which places.
    fn check_box(&self, number: u32, request: &mut Request<'_>) -> Result<(), Failure> {
        let mut why = Why::new();
        let checked = self.shape_box(request, &mut why);
        checked.map_err(|status| request.box_failure(number, status, &mut why))
    }

    /// Makes a uri, which is normal, the one that its array is cached by.
    pub fn fix_uri(&self, uri: &mut Uri, why: &mut Why) -> Result<(), Status> {
        self.shared.store.refuse_scheme(uri.as_str(), why)?;
        if !self.shared.store.row.has_paths || uri.as_str().starts_with(HOOK_PREFIX) {
            return Ok(());
        }
        self.shared.folder.fix(uri, RAW_PREFIX, why)
    }

    /// Makes the uri of a box the one that its array is cached by; the field that the box goes to.
    pub(super) fn fix_name(
        &self,
        request: &mut Request<'_>,
        why: &mut Why,
    ) -> Result<&Field, Status> {
        let field = self.field_of(request, why)?;
        let name = &mut request.names[request.name];
        if !request.fed.is_fed() && !name.is_fixed {
            self.fix_uri(&mut name.uri, why)?;
            if field.is_cf {
                cf::mark(&mut name.uri, field.of(), why)?;
            }
            (name.hash, name.is_fixed) = (hash_bytes(name.uri.as_bytes()), true);
        }
        Ok(field)
    }

    /// The field that a box goes to.
    fn field_of(&self, request: &Request<'_>, why: &mut Why) -> Result<&Field, Status> {
        let (fields, number) = (&self.shared.settings.fields, request.field);
        let count = fields.len();
        fields.get(number as usize).ok_or_else(|| {
            fail!(why, Invalid, "field = {number}: a batch has {count}, counted from 0")
        })
    }

    fn shape_box(&self, request: &mut Request<'_>, why: &mut Why) -> Result<(), Status> {
        let field = self.fix_name(request, why)?;
        if !request.lists.is_empty() {
            self.check_lists(request, why)?;
        }
        let walks = request.walks(why)?;
        self.place(request, field, &walks, why)?;
        self.check_augment(&request.augment, field, why)?;
        self.check_affine(request, field, why)?;
        if request.fed.is_fed() { self.check_fed(request, why) } else { Ok(()) }
    }

    /// Whether what is fed can be had as the field wants it: nothing is read for that. Voxels that
    /// find no room are for pop, as those of an array of a store.
    #[inline(never)] // its record is not to stand on the stack of other boxes
    fn check_fed(&self, request: &Request<'_>, why: &mut Why) -> Result<(), Status> {
        let (shared, fed) = (&self.shared, &request.fed);
        if !shared.settings.per_sample.takes_fed {
            let text = "a box of memory or a value needs fields, or max_boxes_per_sample >= 1";
            return Err(fail!(why, Invalid, "{text}: set one of them"));
        }
        if let Some(memory) = fed.on_device() {
            check_device(shared.engine(), memory.device, why)?;
        }
        let record = shared.fed_record(fed);
        let queued = request.to_queue().queued();
        let field = shared.field(request.field);
        check_record(shared, &record, (field, field.cast_from(&record)), why)?;
        let Some(affine) = request.augment.affine() else {
            return source_box(shared, &record, &queued, why).map(|_| ());
        };
        let map = (&affine, &LevelChoice::NONE, fed.turned);
        match map_box(shared, &record, (&queued, map), why) {
            Ok(_) | Err(Status::Budget) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Notes the places that the walks along the axes of a box go to.
    fn place(
        &self,
        request: &mut Request<'_>,
        field: &Field,
        walks: &[AxisWalk],
        why: &mut Why,
    ) -> Result<(), Status> {
        let extents: ArrayVec<u64, RANK_MAX> = walks.iter().map(AxisWalk::places).collect();
        let takes_parts = self.shared.settings.takes_parts;
        let axes = match request.axes[..request.rank].iter().all(|axis| *axis == 0) {
            true => axes_in_order(field, &extents, takes_parts, why)?,
            false => axes_as_given(field, &extents, &request.axes, why)?,
        };
        let shape = &mut request.shape;
        *shape = BoxShape::EMPTY;
        for (axis, walk) in walks.iter().enumerate() {
            shape.axes[axis] = walk.to_axis(axes[axis]);
        }
        let (mut is_part, mut elements) = (false, field.elements());
        for (axis, extent) in field.extents().iter().enumerate() {
            let from = axes.iter().position(|to| *to == Some(axis));
            let (at, places) = (request.at[axis], from.map_or(1, |from| extents[from]));
            if at >= *extent || places > *extent - at {
                return Err(fail!(
                    why,
                    Invalid,
                    "{}axis {axis}: {places} places from {at} on do not fit an extent of {extent}",
                    field.of()
                ));
            }
            is_part |= places < *extent;
            elements /= extent;
            shape.at += at * elements;
        }
        if let Some(axis) = (field.extents().len()..RANK_MAX).find(|axis| request.at[*axis] != 0) {
            let (at, rank) = (request.at[axis], field.rank);
            return Err(fail!(why, Invalid, "{}at[{axis}] = {at}: it has {rank} axes", field.of()));
        }
        if is_part && !takes_parts {
            return Err(fail!(
                why,
                Invalid,
                "box extents {} are a part of sample_shape {}: set max_boxes_per_sample, at least \
                 to 1, where that is meant",
                List(&extents),
                List(field.extents())
            ));
        }
        Ok(())
    }
}

#[inline(never)] // as said of `draft_sample`
fn add_drafted(state: &mut State, draft: &Draft) -> Result<(), Full> {
    draft.boxes().try_for_each(|new| state.queue.add_box(&new))
}

/// Whether kernels can read memory of a device in place.
fn check_device(engine: Option<&DeviceEngine>, device: i32, why: &mut Why) -> Result<(), Status> {
    let fed = format_args!("tensor.device = {device}");
    match engine.map(DeviceEngine::device) {
        Some(own) if own == device => Ok(()),
        Some(own) => Err(fail!(
            why,
            Invalid,
            "{fed}, but batches are made on device {own}: copy it there, or open a loader for \
             device {device}"
        )),
        None => Err(fail!(
            why,
            Unsupported,
            "{fed}, but batches are made in host memory: copy it to the host, or set backend = \
             cuda"
        )),
    }
}

fn walk_failure(
    axis: usize,
    (begin, end, step): (i64, i64, i64),
    fault: WalkFault,
    why: &mut Why,
) -> Status {
    match fault {
        WalkFault::Empty => fail!(why, Invalid, "axis {axis}: box [{begin}, {end}) is empty"),
        WalkFault::Long => {
            fail!(why, Invalid, "axis {axis}: box [{begin}, {end}) is longer than any batch")
        }
        WalkFault::Step => fail!(
            why,
            Invalid,
            "axis {axis}: box [{begin}, {end}) in steps of {step}: steps have {} elements at most, \
             and go to {} places at most",
            crate::records::STEP_MAX,
            crate::records::STEPPED_MAX
        ),
    }
}
