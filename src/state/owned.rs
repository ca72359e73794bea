//! What the owner of a name has for its consumers: sockets, and memory with its descriptors.

use crate::base::arena::Region;
use crate::base::limits::CONSUMERS_MAX;
use crate::os::socket::Listening;
use arrayvec::ArrayVec;

/// See the module.
pub struct Owned {
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
