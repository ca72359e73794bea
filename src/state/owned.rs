//! What processes share of a loader, as one of them has it: an owner, sockets and memory with its
//! descriptors; a consumer, what it was handed.

use crate::base::arena::Region;
use crate::base::limits::CONSUMERS_MAX;
use crate::batch::shared::{Order, Records};
use crate::os::memory::Paged;
use crate::os::socket::Listening;
use crate::setup::share::SocketName;
use crate::state::attached::Attached;
use arrayvec::ArrayVec;

/// What a loader has in common with other processes; nothing, most of the time.
#[derive(Default)]
pub struct Sharing {
    /// What consumers take batches by, if it has any.
    pub owned: Option<Paged<Owned>>,
    /// What it takes batches by, if another process fills them.
    pub attached: Option<Paged<Attached>>,
    /// What the owner writes, if there is one.
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

/// What an owner has.
pub struct Owned {
    /// The name.
    pub name: SocketName,
    /// Consumers connect to it.
    pub listening: Listening,
    /// Calls the thread that answers them.
    pub call: i32,
    /// What the owner writes for all; None until it is taken.
    pub records: Option<(i32, Region)>,
    /// The samples of all slots.
    pub samples: Option<(i32, Region)>,
    /// A page that each consumer writes.
    pub pages: ArrayVec<(i32, Region), CONSUMERS_MAX>,
}
