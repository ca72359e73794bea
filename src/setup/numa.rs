//! The settings about NUMA nodes.
//!
//! In: a config, and how many CPUs a node has for threads. Out: INVALID for a node that the config
//! does not ask for, and derived threads. `engine::numa` finds the node.

use crate::base::status::{Status, Why};
use crate::fail;
use crate::setup::config::{self, Config};
use crate::setup::settings::{Floor, Settings};

/// Whether a NUMA node is named if the config asks for one, and only then.
pub fn check_numa(config: &Config, why: &mut Why) -> Result<(), Status> {
    let (node, is_pinned) = (config.numa_node, config.numa_strategy == config::NUMA_PIN);
    let text = match is_pinned {
        true if node < 0 => "numa_strategy = pin needs the number of a node",
        false if node != -1 => "it is for numa_strategy = pin, leave it at -1",
        _ => return Ok(()),
    };
    Err(fail!(why, Invalid, "numa_node = {node}: {text}"))
}

impl Settings {
    /// No more derived threads than the CPUs of the NUMA node that wavetrain's threads are kept
    /// to: its number, and how many. `floor` as for `settle`.
    #[cold]
    #[inline(never)] // one copy of all that counts memory
    pub fn keep_to(&mut self, node: Option<(u32, u32)>, floor: impl Fn(&Settings) -> Floor) {
        let before = self.cpus();
        (self.allotted.node, self.allotted.node_cpus) = node.unwrap_or((0, u32::MAX));
        if self.cpus() != before {
            self.derive_threads();
            self.settle(floor);
        }
    }
}
