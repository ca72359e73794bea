//! Which NUMA node memory and threads keep to.
//!
//! In: `numa_strategy`, `numa_node` and `cpus` of the config, the device, sysfs. Out: a node, those
//! of its CPUs that threads may use, words about both, and INVALID for a node that is named and not
//! there.
//! Invariant: on a machine with one node, and if anything that is asked is not answered, nothing is
//! placed, and the words have the reason.
//!
//! Memory of the system is bound before its first page is touched. Pinned memory, and memory that
//! processes share, has its pages once the call that makes it returns, so the thread that opens
//! prefers the node meanwhile. Memory of a caller stays where the caller has it.

use crate::base::cpus::CpuSet;
use crate::base::limits::SHORT_TEXT_BYTES;
use crate::base::status::{Status, Why};
use crate::base::text::Text;
use crate::cuda::{Driver, HAS_DEVICES, device};
use crate::engine::Engine;
use crate::fail;
use crate::os::memory::Block;
use crate::os::numa::{HAVE_MEMORY, ONLINE, Preferred, cpus_of};
use crate::os::sink::Level;
use crate::os::system_files::list;
use crate::os::{Errno, Os};
use crate::setup::config;
use crate::setup::settings::Settings;

/// A text about the placement. Longer ones would not fit into that of threads.
pub type Words = Text<128>;

/// The node that a config means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// None is asked for.
    Off,
    /// The machine has one.
    One,
    /// The system does not report its nodes.
    Unknown,
    /// The driver and the system do not report that of the device, or of the thread.
    Nowhere,
    /// It has no memory, or is offline.
    Empty(u32),
    /// This one.
    Node(u32),
}

/// The CPUs that threads keep to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kept {
    /// Those of the node that they may use.
    Node,
    /// All that they may use: wavetrain has no threads, or nothing is placed.
    Any,
    /// All that they may use: none is known to be of the node.
    Apart,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Numa {
    found: Found,
    /// Nodes online.
    nodes: u32,
    /// By what the node was chosen.
    by: &'static str,
    is_pinned: bool,
    kept: Kept,
    cpus: CpuSet,
    /// Why memory is not bound.
    unbound: Option<Errno>,
}

impl Numa {
    /// Nothing is placed.
    pub const OFF: Numa = Numa {
        found: Found::Off,
        nodes: 0,
        by: "",
        is_pinned: false,
        kept: Kept::Any,
        cpus: CpuSet::EMPTY,
        unbound: None,
    };

    /// Finds the node of a config, and the CPUs.
    #[inline(never)] // the sets are not to stand on the stack of all that follows
    pub fn find(&mut self, os: &Os, settings: &Settings, why: &mut Why) -> Result<(), Status> {
        let strategy = settings.config.numa_strategy;
        if strategy != config::NUMA_OFF {
            self.is_pinned = strategy == config::NUMA_PIN;
            self.found = self.look(os, settings, why)?;
        }
        if let Found::Node(node) = self.found
            && settings.thread_count() > 0
        {
            self.kept = self.keep(os, settings, node);
        }
        Ok(())
    }

    fn look(&mut self, os: &Os, settings: &Settings, why: &mut Why) -> Result<Found, Status> {
        let online = list(os, ONLINE).filter(|online| *online != CpuSet::EMPTY);
        let Some(online) = online else { return Ok(Found::Unknown) };
        self.nodes = online.count();
        let mut usable = list(os, HAVE_MEMORY).unwrap_or(online);
        usable.intersect(&online);
        let node = match self.is_pinned {
            true => {
                self.by = "numa_node";
                let node = settings.config.numa_node.unsigned_abs();
                if !usable.has(node) {
                    let lack = "is not there or has no memory: choose one of";
                    return Err(fail!(why, Invalid, "numa_node = {node} {lack} {usable}"));
                }
                Some(node)
            }
            false if self.nodes == 1 => None,
            false if settings.is_cuda() => {
                self.by = "the device";
                node_of_device(os, settings)
            }
            false => {
                self.by = "the opening thread";
                (os.current_node)().ok()
            }
        };
        Ok(match node {
            _ if self.nodes == 1 => Found::One,
            None => Found::Nowhere,
            Some(node) if usable.has(node) => Found::Node(node),
            Some(node) => Found::Empty(node),
        })
    }

    /// The CPUs of the node that threads may use: those that the config names, or those of the
    /// thread that opens, of which they have the mask.
    #[inline(never)] // as said of `find`
    fn keep(&mut self, os: &Os, settings: &Settings, node: u32) -> Kept {
        // They were read and checked before.
        let given = settings.config.cpus.read(&mut Why::new()).ok().flatten();
        self.cpus = cpus_of(os, node).unwrap_or(CpuSet::EMPTY);
        self.cpus.intersect(&given.unwrap_or_else(os.cpus));
        if self.cpus == CpuSet::EMPTY { Kept::Apart } else { Kept::Node }
    }

    fn node(&self) -> Option<u32> {
        if let Found::Node(node) = self.found { Some(node) } else { None }
    }

    /// The node that threads are kept to, if they are, and how many CPUs they have there.
    pub fn cpu_count(&self) -> Option<(u32, u32)> {
        let node = self.node().filter(|_| self.kept == Kept::Node)?;
        Some((node, self.cpus.count()))
    }

    /// Binds memory of which no page was touched.
    #[inline(never)]
    pub fn bind(&mut self, os: &Os, block: &Block) {
        let bound = self.node().map(|node| block.prefer_node(os, node));
        self.unbound = self.unbound.or(bound.and_then(Result::err));
    }

    /// While the result lives, memory that the calling thread makes is of the node, if `is_made`.
    #[inline(never)]
    pub fn prefer<'a>(&mut self, os: &'a Os, is_made: bool) -> Option<Preferred<'a>> {
        let entered = Preferred::enter(os, self.node().filter(|_| is_made)?);
        self.unbound = self.unbound.or(entered.as_ref().err().copied());
        entered.ok()
    }

    /// Keeps the calling thread, which is the library's, to the node.
    pub fn keep_thread(&self, os: &Os) -> Result<(), Errno> {
        if self.kept == Kept::Node { (os.keep_to_cpus)(&self.cpus) } else { Ok(()) }
    }

    /// The place of memory and threads, as "NUMA node 1 of 2 by the device"; empty if the config
    /// asks for none.
    /// `unkept`: why a thread could not be kept there.
    #[inline(never)]
    pub fn words(&self, unkept: Option<Errno>) -> Words {
        let mut words = Words::new();
        let (nodes, by) = (self.nodes, self.by);
        match self.found {
            Found::Off => {}
            Found::One => words.push_str("one NUMA node"),
            Found::Unknown => words.push_str("NUMA nodes are not known"),
            Found::Nowhere => write!(words, "the NUMA node of {by} is not known"),
            Found::Empty(node) => write!(words, "NUMA node {node} of {by} has no memory"),
            Found::Node(node) => write!(words, "NUMA node {node} of {nodes} by {by}"),
        }
        // Numbers alone, for which there is room next to the counts of threads.
        if let Some(Errno(errno)) = self.unbound {
            write!(words, "; memory is not bound: errno {errno}");
        }
        match (self.kept, unkept) {
            (Kept::Apart, _) => words.push_str("; no CPU of it is for threads"),
            (_, Some(Errno(errno))) => write!(words, "; threads are not kept: errno {errno}"),
            _ => {}
        }
        words
    }

    /// A warning if a node is named and something is not placed there.
    fn level(&self, unkept: Option<Errno>) -> Level {
        let is_whole = match self.found {
            Found::Off | Found::One => true,
            Found::Node(_) => self.unbound.or(unkept).is_none() && self.kept != Kept::Apart,
            _ => false,
        };
        if self.is_pinned && !is_whole { Level::Warn } else { Level::Info }
    }
}

impl Engine {
    /// How many threads there are and why, on which node, and how severe a line about that is.
    #[inline(never)] // its texts are not to stand on the stack of an open
    pub fn placement(&self) -> (Level, Text<SHORT_TEXT_BYTES>) {
        let unkept = self.lock.lock().threads.unkept;
        let words = self.numa.words(unkept);
        (self.numa.level(unkept), self.shared.settings.placement(words.as_str()))
    }
}

/// The node of the device that will be opened. The driver is loaded once in a process.
fn node_of_device(os: &Os, settings: &Settings) -> Option<u32> {
    if !HAS_DEVICES {
        return None;
    }
    let config = &settings.config;
    let driver = Driver::load(config.cuda_driver, &mut Why::new()).ok()?;
    device::host_node(os, driver, config.device)
}

#[cfg(test)]
#[path = "numa_tests.rs"]
mod tests;
