//! Boxes with an affine map: the staging that their voxels are gathered in, and how far each is.
//! `mapped` leads them through.
//!
//! In: maps that the planner made, chunks that are done with. Out: boxes whose last chunk is done
//! with, in pieces for workers. Invariant: a box has its part of the staging from when it is
//! planned until its last piece is over, and its batch lacks each piece until that is in it.
//!
//! ```text
//!  begin ─▶ add_share, .. ─▶ end_share, .. ─▶ the last ─▶ take, .. ─▶ end, .. ─▶ the last: over
//! ```
//!
//! Shares of a box: one of each of its chunks, and one of the planner until it has planned all.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::cache::Fifo;
use crate::base::indexes::BatchSlot;
use crate::base::limits::{BUFFER_ALIGN, ELEMENT_BYTES_MAX, RANK_MAX};
use crate::batch::slots::Slots;
use crate::records::{BoxShape, Dtype};
use crate::resample::{Layout, Map};
use crate::setup::settings::Settings;
use crate::state::scratch::Holds;

/// Most boxes that are in the staging at a time.
const BOXES_MAX: u64 = 1024;

/// A box whose voxels are gathered, and the way from there to its field.
#[derive(Clone, Debug)]
pub struct Resampled {
    /// From places to voxels.
    pub map: Map,
    /// How both lie.
    pub layout: Layout,
    /// Type of the voxels, and its bytes.
    pub source: (Dtype, u32),
    /// The box of voxels that is read, and its places in the staging.
    pub hull: BoxShape,
    /// Bytes from one voxel to the next along each axis of the array.
    pub strides: [u64; RANK_MAX],
    /// Byte of the field's sample that the first place is.
    pub first: u64,
    /// The field's element for places outside of the array.
    pub pad: [u8; ELEMENT_BYTES_MAX],
    /// The same as a float, if elements are not cast alone.
    pub pad_float: f32,
    /// First byte of its part of the staging, and number of bytes.
    pub place: (u64, u64),
}

impl Resampled {
    /// No box.
    fn none() -> Resampled {
        Resampled {
            map: Map::NONE,
            layout: Layout::NONE,
            source: (Dtype::U8, 1),
            hull: BoxShape::EMPTY,
            strides: [0; RANK_MAX],
            first: 0,
            pad: [0; ELEMENT_BYTES_MAX],
            pad_float: 0.0,
            place: (0, 0),
        }
    }

    /// Bytes of its voxels.
    pub fn bytes(&self) -> u64 {
        self.layout.elements() * u64::from(self.source.1)
    }
}

/// How far a box is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) slot: BatchSlot,
    pub(super) number: u32,
    /// Shares that are not done with.
    pub(super) shares: u64,
    /// The piece that is handed out next.
    pub(super) next: u64,
    /// Pieces, and those that are not over.
    pub(super) pieces: u64,
    pub(super) left: u64,
}

/// A piece of a box for a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResamplePiece {
    /// The slot of its batch.
    pub slot: BatchSlot,
    /// Number of the box in its batch.
    pub number: u32,
    /// Number of the piece.
    pub piece: u64,
}

/// See the module.
pub struct Resampling {
    /// By row of the tables of boxes; read without the lock.
    pub boxes: Table<Resampled>,
    pub(super) progress: &'static mut [Progress],
    /// Rows of boxes that have pieces which nobody has.
    pub(super) ready: Fifo,
    pub(super) holds: Holds,
}

impl Resampling {
    /// Empty staging, and rows for all boxes that may have a map.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> Resampling {
        let bytes = settings.resample_bytes();
        let rows = match bytes {
            0 => 0,
            _ => settings.slot_counts().rows((settings.per_sample.boxes, 0)),
        };
        let item = Item::Resampling;
        Resampling {
            boxes: Table::of(carver.slice_from(item, rows, |_| Resampled::none())),
            progress: carver.slice(item, rows, &Progress::default()),
            ready: Fifo::carve(carver, item, rows as u32),
            holds: Holds::carve(carver, item, rows.min(BOXES_MAX), (bytes, BUFFER_ALIGN)),
        }
    }

    /// Whether boxes may have a map.
    pub fn has_boxes(&self) -> bool {
        !self.progress.is_empty()
    }

    /// Whether a worker finds a piece: not of a batch that has no memory yet.
    pub fn has_piece(&self, slots: &Slots) -> bool {
        let mut slot = self.ready.iter().map(|row| self.progress[row as usize].slot);
        slot.any(|slot| !slots.is_early(slot))
    }

    /// Forgets all boxes.
    pub fn clear(&mut self) {
        self.progress.fill(Progress::default());
        self.ready.clear();
        self.holds.clear();
    }
}
