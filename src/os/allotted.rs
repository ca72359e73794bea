//! What the system allots to the process: memory, CPUs, and its part of the node.
//!
//! In: files of /proc and /sys, limits, variables of launchers. Out: numbers. What cannot be read
//! limits nothing.

use crate::base::cpus::CpuSet;
use crate::os::system_files::{each_line, figures, numbers};
use crate::os::{Os, cgroup};

/// Memory that could be had now.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Its bytes.
    pub bytes: u64,
    /// What leaves no more.
    pub limit: &'static str,
}

/// The least memory that any of the limits leaves; None if there is none that can be read.
#[inline(never)] // its buffers are not to stand on the stack of an open
pub fn memory_left(os: &Os) -> Option<Left> {
    let names = ["MemAvailable:", "SwapFree:", "CommitLimit:", "Committed_AS:"];
    let [available, swap, commit_limit, committed] =
        figures(os, b"/proc/meminfo\0", names).map(bytes_of_kibibytes);
    let [overcommit] = numbers(os, b"/proc/sys/vm/overcommit_memory\0");
    let commit_left = commit_limit.zip(committed).map(|(all, used)| all.saturating_sub(used));
    let addresses = Some((os.address_bytes_max)()).filter(|most| *most != u64::MAX);
    let taken = addresses
        .and_then(|_| figures(os, b"/proc/self/status\0", ["VmSize:"]).map(bytes_of_kibibytes)[0]);
    let limits = [
        ("the memory limit of the cgroup", cgroup::memory_left(os)),
        (
            "MemAvailable + SwapFree of /proc/meminfo",
            available.map(|bytes| bytes.saturating_add(swap.unwrap_or(0))),
        ),
        (
            "CommitLimit - Committed_AS of /proc/meminfo, as vm.overcommit_memory = 2 says,",
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
    let mut found = None;
    each_line(os, b"/sys/devices/system/cpu/online\0", &mut |line| {
        found = CpuSet::from_list(line);
        true
    });
    found.filter(|set| *set != CpuSet::EMPTY)
}

/// Variables in which launchers name how many ranks a node has, the innermost launcher first:
/// torchrun, Open MPI, MVAPICH, and MPICH or Intel MPI.
const RANKS: [&[u8]; 4] = [
    b"LOCAL_WORLD_SIZE\0",
    b"OMPI_COMM_WORLD_LOCAL_SIZE\0",
    b"MV2_COMM_WORLD_LOCAL_SIZE\0",
    b"MPI_LOCALNRANKS\0",
];

/// Steps of Slurm that srun did not start have numbers from here on, or none: a script of sbatch is
/// one process, whatever its job may start.
const SPECIAL_STEPS: u32 = u32::MAX - 15;

/// Ranks of this node, of which the process is one; 1 if no launcher names them.
pub fn ranks(os: &Os) -> u32 {
    let by_srun = || {
        number(os, b"SLURM_STEP_ID\0").filter(|step| *step < SPECIAL_STEPS)?;
        number(os, b"SLURM_NTASKS_PER_NODE\0")
    };
    RANKS.into_iter().find_map(|name| number(os, name)).or_else(by_srun).unwrap_or(1).max(1)
}

/// The number that a variable holds.
fn number(os: &Os, name: &[u8]) -> Option<u32> {
    let mut bytes = [0; 16];
    let length = (os.variable)(name, &mut bytes)?;
    core::str::from_utf8(bytes.get(..length)?).ok()?.trim().parse().ok()
}
