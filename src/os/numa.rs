//! NUMA nodes: what sysfs has of them, and the system calls by which memory prefers one.
//!
//! In: nodes, addresses of devices. Out: sets, and an errno if a call is refused.
//!
//! The policy is MPOL_PREFERRED. With MPOL_BIND a node that is full would end the process, though
//! other nodes have memory; pages on another node are only slower.

use crate::base::cpus::CpuSet;
use crate::base::text::Text;
use crate::os::system_files::{list, numbers};
use crate::os::{Errno, Os, system_call};
use core::ptr::NonNull;

/// `MPOL_PREFERRED`: pages of these nodes, and of others if those have none.
const PREFERRED: usize = 1;

/// Nodes that are online.
pub const ONLINE: &[u8] = b"/sys/devices/system/node/online\0";
/// Nodes that have memory. Old kernels do not have the file.
pub const HAVE_MEMORY: &[u8] = b"/sys/devices/system/node/has_memory\0";

/// From which nodes pages are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    mode: usize,
    nodes: CpuSet,
}

impl Policy {
    /// From this node, if it has some left.
    pub fn preferred(node: u32) -> Policy {
        Policy { mode: PREFERRED, nodes: CpuSet::of(node) }
    }

    /// The nodes.
    pub fn nodes(&self) -> &CpuSet {
        &self.nodes
    }

    /// The address of the nodes, and how many there are as the kernel counts them: it takes one
    /// off. It refuses a node that it cannot have, and no set for its room.
    fn arguments(&mut self) -> [usize; 2] {
        let nodes = &mut self.nodes.words;
        [nodes.as_mut_ptr().expose_provenance(), 64 * nodes.len() + 1]
    }
}

/// CPUs of a node; None: the system does not list them.
pub fn cpus_of(os: &Os, node: u32) -> Option<CpuSet> {
    let mut path = Text::<64>::new();
    write!(path, "/sys/devices/system/node/node{node}/cpulist");
    list(os, path.as_bytes_nul())
}

/// The node of the device of a PCI address, such as "0000:3b:00.0". None if the system does not
/// know it.
pub fn node_of_pci(os: &Os, address: &str) -> Option<u32> {
    let mut path = Text::<64>::new();
    write!(path, "/sys/bus/pci/devices/{address}/numa_node");
    let [node] = numbers(os, path.as_bytes_nul());
    u32::try_from(node?).ok()
}

/// While it lives, the calling thread takes new pages from a node.
pub struct Preferred<'a> {
    os: &'a Os,
    before: Policy,
}

impl Preferred<'_> {
    /// Prefers `node`.
    #[inline(never)] // two sets are not to stand on the stack of all that follows
    pub fn enter(os: &Os, node: u32) -> Result<Preferred<'_>, Errno> {
        let before = (os.memory_policy)()?;
        (os.set_memory_policy)(&Policy::preferred(node))?;
        Ok(Preferred { os, before })
    }
}

impl Drop for Preferred<'_> {
    fn drop(&mut self) {
        // A system that took the one takes the other, which was the thread's.
        let _ = (self.os.set_memory_policy)(&self.before);
    }
}

/// The policy of the calling thread.
pub(super) fn memory_policy() -> Result<Policy, Errno> {
    let mut policy = Policy { mode: 0, nodes: CpuSet::EMPTY };
    let mut mode = 0i32;
    let [nodes, limit] = policy.arguments();
    let arguments = [(&raw mut mode).expose_provenance(), nodes, limit, 0, 0];
    // SAFETY: the kernel writes one int, and as many nodes as there is room for.
    unsafe { system_call(libc::SYS_get_mempolicy, arguments) }?;
    policy.mode = mode as usize;
    Ok(policy)
}

pub(super) fn set_memory_policy(policy: &Policy) -> Result<(), Errno> {
    let mut policy = *policy;
    let [nodes, limit] = policy.arguments();
    // SAFETY: the kernel reads the nodes, which outlive the call.
    let set = unsafe { system_call(libc::SYS_set_mempolicy, [policy.mode, nodes, limit, 0, 0]) };
    set.map(|_| ())
}

pub(super) fn bind_memory(pages: NonNull<u8>, bytes: u64, policy: &Policy) -> Result<(), Errno> {
    let mut policy = *policy;
    let [nodes, limit] = policy.arguments();
    let arguments = [pages.as_ptr().addr(), bytes as usize, policy.mode, nodes, limit];
    // SAFETY: it reads the nodes, which outlive the call, and changes no byte of the pages.
    unsafe { system_call(libc::SYS_mbind, arguments) }.map(|_| ())
}

pub(super) fn current_node() -> Result<u32, Errno> {
    let mut node = 0u32;
    let arguments = [0, (&raw mut node).expose_provenance(), 0, 0, 0];
    // SAFETY: the kernel writes one unsigned int.
    unsafe { system_call(libc::SYS_getcpu, arguments) }?;
    Ok(node)
}

#[cfg(test)]
#[path = "numa_tests.rs"]
mod tests;
