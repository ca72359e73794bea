//! The part of a loader that processes share, as one of them has it. An owner has sockets, and
//! memory with its descriptors; a consumer has the memory that it was handed.

use crate::base::arena::Region;
use crate::base::limits::CONSUMERS_MAX;
use crate::batch::shared::{Order, Records};
use crate::os::memory::Paged;
use crate::os::socket::Listening;
use crate::setup::share::SocketName;
use crate::state::attached::Attached;
use arrayvec::ArrayVec;

/// The part that a loader has in common with other processes; mostly it is empty.
#[derive(Default)]
pub struct Sharing {
    /// The owner's part, if other processes take its batches.
    pub owned: Option<Paged<Owned>>,
    /// The consumer's part, if another process fills its batches.
    pub attached: Option<Paged<Attached>>,
    /// The records that the owner writes, if there is one.
    pub records: Option<Records>,
}

impl Sharing {
    /// Whether the samples are mapped for reading alone.
    pub fn is_read_only(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.order == Order::All)
    }

    /// The samples of all slots, if they are shared.
    pub fn samples(&self) -> Option<Region> {
        let owned = self.owned.as_ref().and_then(|owned| owned.samples);
        let attached = self.attached.as_ref().map(|attached| attached.samples);
        owned.map(|(_, samples)| samples).or(attached)
    }
}

/// The sockets and the memory of an owner.
pub struct Owned {
    /// The name.
    pub name: SocketName,
    /// Consumers connect to it.
    pub listening: Listening,
    /// Calls the thread that answers them.
    pub call: i32,
    /// The records, which the owner writes for all; None until their memory is taken.
    pub records: Option<(i32, Region)>,
    /// The samples of all slots.
    pub samples: Option<(i32, Region)>,
    /// The page of each consumer, which writes it.
    pub pages: ArrayVec<(i32, Region), CONSUMERS_MAX>,
}
