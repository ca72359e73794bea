//! Memory and CPUs that the system allots to the process, and its part of the node.
//!
//! In: files of /proc and /sys, limits, variables of launchers. Out: numbers. A limit that
//! cannot be read is left out.

use crate::base::cpus::CpuSet;
use crate::base::text::Text;
use crate::os::system_files::{figures, list, numbers};
use crate::os::{Os, cgroup};
use core::ffi::CStr;

/// Memory that could be had now.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Its bytes.
    pub bytes: u64,
    /// The limit that leaves no more.
    pub limit: &'static str,
}

/// The least memory that any of the limits leaves; None if there is none that can be read.
#[inline(never)] // its buffers are not to stand on the stack of an open
pub fn memory_left(os: &Os) -> Option<Left> {
    let names = "MemAvailable: SwapFree: CommitLimit: Committed_AS:";
    let [available, swap, commit_limit, committed] =
        figures(os, b"/proc/meminfo\0", names).map(bytes_of_kibibytes);
    let [overcommit] = numbers(os, b"/proc/sys/vm/overcommit_memory\0");
    let commit_left = commit_limit.zip(committed).map(|(all, used)| all.saturating_sub(used));
    let addresses = Some((os.address_bytes_max)()).filter(|most| *most != u64::MAX);
    let [taken] = figures(os, b"/proc/self/status\0", "VmSize:").map(bytes_of_kibibytes);
    let limits = [
        ("the memory limit of the cgroup", cgroup::memory_left(os)),
        (
            "MemAvailable + SwapFree of /proc/meminfo",
            available.map(|bytes| bytes.saturating_add(swap.unwrap_or(0))),
        ),
        (
            "CommitLimit - Committed_AS of /proc/meminfo, because vm.overcommit_memory = 2,",
            commit_left.filter(|_| overcommit == Some(2)),
        ),
        (
            "RLIMIT_AS, less the addresses that the process has,",
            addresses.zip(taken).map(|(most, taken)| most.saturating_sub(taken)),
        ),
    ];
    let left = limits.into_iter().filter_map(|(limit, bytes)| Some(Left { bytes: bytes?, limit }));
    left.min_by_key(|left| left.bytes)
}

fn bytes_of_kibibytes(number: Option<u64>) -> Option<u64> {
    number.map(|number| number.saturating_mul(1024))
}

/// CPUs that are online.
pub fn cpus_online(os: &Os) -> Option<CpuSet> {
    list(os, b"/sys/devices/system/cpu/online\0").filter(|set| *set != CpuSet::EMPTY)
}

/// Variables in which launchers name how many ranks a node has, the innermost launcher first:
/// torchrun, Open MPI, MVAPICH, and MPICH or Intel MPI.
const RANKS: &str = "LOCAL_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE MV2_COMM_WORLD_LOCAL_SIZE \
                     MPI_LOCALNRANKS";

/// Steps of Slurm that srun did not start have numbers from here on, or none: a script of sbatch is
/// one process, whatever its job may start.
const SPECIAL_STEPS: u32 = u32::MAX - 15;

/// Ranks of this node, of which the process is one; 1 if no launcher names them.
#[inline(never)] // one of its loops, as small as it is
pub fn ranks(os: &Os) -> u32 {
    let by_srun = || {
        number(os, "SLURM_STEP_ID", false).filter(|step| *step < SPECIAL_STEPS)?;
        number(os, "SLURM_STEP_TASKS_PER_NODE", true)
    };
    RANKS.split(' ').find_map(|name| number(os, name, false)).or_else(by_srun).unwrap_or(1).max(1)
}

/// The number that a variable holds, or the first of a list by nodes, such as "8(x2),4".
#[inline(never)] // as said of `ranks`
fn number(os: &Os, name: &str, is_list: bool) -> Option<u32> {
    let (mut variable, mut bytes) = (Text::<32>::new(), [0; 256]);
    variable.push_str(name);
    let length = (os.variable)(variable.as_bytes_nul(), &mut bytes)?;
    let text = core::str::from_utf8(bytes.get(..length)?).ok()?;
    let first = if is_list { text.split(['(', ',']).next()? } else { text };
    first.parse().ok()
}

/// Writes the value of a variable of the environment; its bytes.
pub(super) fn variable(name: &[u8], target: &mut [u8]) -> Option<usize> {
    assert!(name.last() == Some(&0));
    // SAFETY: the name is NUL-terminated. The value has a NUL, and is copied at once: a thread that
    // changes the environment meanwhile breaks every reader of it.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr().cast());
        if value.is_null() { None } else { Some(CStr::from_ptr(value).to_bytes()) }
    };
    let value = value?;
    target.get_mut(..value.len())?.copy_from_slice(value);
    Some(value.len())
}

/// Soft limit of open files.
pub(super) fn open_files_max() -> u64 {
    // SAFETY: writes one rlimit.
    soft_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit) }).unwrap_or(256)
}

/// Soft limit of addresses; u64::MAX: no limit.
pub(super) fn address_bytes_max() -> u64 {
    // SAFETY: the same.
    soft_limit(|limit| unsafe { libc::getrlimit(libc::RLIMIT_AS, limit) }).unwrap_or(u64::MAX)
}

fn soft_limit(ask: impl FnOnce(&mut libc::rlimit) -> i32) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    (ask(&mut limit) == 0).then_some(limit.rlim_cur)
}
