//! Limits of the control groups that the process is in.
//!
//! In: /proc/self/cgroup, /proc/self/mountinfo and the files of the groups' folders, of version 1,
//! version 2 or both at a time. Out: the smallest quota of CPUs and the least memory, of the
//! process's own group and all that it lies in, up to the root that is mounted here. A file that
//! cannot be read limits nothing.

use crate::base::text::{Text, part_of};
use crate::os::Os;
use crate::os::system_files::{each_line, figures, numbers};

/// Bytes of the path of a folder, and of a file in it. Longer ones are not looked at.
const FOLDER_BYTES: usize = 1024;
const FILE_BYTES: usize = FOLDER_BYTES + 32;

/// Words of a mount before its dash, of which Linux writes ten at most.
const WORDS_MAX: usize = 32;

type Folder = Text<FOLDER_BYTES>;

/// A tree of groups: that of version 2, or that of a controller of version 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    Unified,
    Of(&'static str),
}

impl Tree {
    /// Whether a line of /proc/self/cgroup, with these controllers, is of this tree.
    fn has(self, controllers: &str) -> bool {
        match self {
            Tree::Unified => controllers.is_empty(),
            Tree::Of(name) => has_part(controllers, ',', name),
        }
    }

    /// Whether a mount of this type with these options is of this tree.
    fn is_mounted(self, kind: &str, options: &str) -> bool {
        match self {
            Tree::Unified => kind == "cgroup2",
            Tree::Of(_) => kind == "cgroup" && self.has(options),
        }
    }
}

/// CPUs that the quotas allow, each rounded up.
pub fn quota(os: &Os) -> Option<u32> {
    let mut least: Option<u32> = None;
    let mut add = |quota: Option<u64>, period: Option<u64>| {
        let cpus = quota.zip(period).and_then(|(quota, period)| {
            let is_one = quota > 0 && period > 0;
            is_one.then(|| quota.div_ceil(period).min(u32::MAX.into()) as u32)
        });
        least = least.into_iter().chain(cpus).min();
    };
    each_group(os, Tree::Unified, &mut |group| {
        let [quota, period] = group.numbers(os, "cpu.max");
        add(quota, period);
    });
    each_group(os, Tree::Of("cpu"), &mut |group| {
        // -1, which is not read as a number, is no quota.
        let [quota] = group.numbers(os, "cpu.cfs_quota_us");
        let [period] = group.numbers(os, "cpu.cfs_period_us");
        add(quota, period);
    });
    least
}

/// Bytes that the groups' limits leave: the least of all.
///
/// Used is what the kernel cannot take back: anonymous memory, shared memory, locked pages, and in
/// version 2 the kernel's own. Files are not. Swap that a group may use is not counted as left. No
/// page is counted twice: anonymous and shared pages that are locked are in `unevictable` as well,
/// so the sum is either that of `anon` and `shmem`, or that of the lists of pages, on which each
/// page is once; whichever is more, because each leaves some out. Slab that can be reclaimed is not
/// used. Version 1 does not separate the kernel's share from slab that can be reclaimed: it is not
/// counted.
pub fn memory_left(os: &Os) -> Option<u64> {
    let mut least: Option<u64> = None;
    let mut add = |limit: Option<u64>, used: &dyn Fn() -> u64| {
        let left = limit.map(|limit| limit.saturating_sub(used()));
        least = least.into_iter().chain(left).min();
    };
    each_group(os, Tree::Unified, &mut |group| {
        let [limit] = group.numbers(os, "memory.max");
        add(limit, &|| used(group.figures(os, UNIFIED)));
    });
    each_group(os, Tree::Of("memory"), &mut |group| {
        let [limit] = group.numbers(os, "memory.limit_in_bytes");
        add(limit, &|| used(group.figures(os, VERSION_1)));
    });
    least
}

/// The lines of memory.stat that `used` takes: anonymous and shared pages, lists of pages, what the
/// kernel has, the parts of that if an older kernel has no sum, and what it can take back.
const UNIFIED: &str = "anon shmem active_anon inactive_anon unevictable \
                       kernel slab kernel_stack pagetables slab_reclaimable";

/// The same of version 1, with the groups inside.
const VERSION_1: &str = "total_rss total_shmem total_active_anon total_inactive_anon \
                         total_unevictable";

/// Used bytes: see `memory_left`.
fn used(figures: [Option<u64>; 10]) -> u64 {
    let sum = |parts: &[Option<u64>]| {
        parts.iter().flatten().fold(0u64, |sum, part| sum.saturating_add(*part))
    };
    let [.., kernel, _, _, _, reclaimable] = figures;
    let kernel = kernel.unwrap_or_else(|| sum(&figures[6..9]));
    let pages = sum(&figures[..2]).max(sum(&figures[2..5]));
    pages.saturating_add(kernel.saturating_sub(reclaimable.unwrap_or(0)))
}

/// The folder of a group.
struct Group<'p> {
    folder: &'p str,
}

impl Group<'_> {
    fn path(&self, name: &str) -> Text<FILE_BYTES> {
        let mut path = Text::new();
        write!(path, "{}/{name}", self.folder);
        path
    }

    fn numbers<const N: usize>(&self, os: &Os, name: &str) -> [Option<u64>; N] {
        numbers(os, self.path(name).as_bytes_nul())
    }

    fn figures(&self, os: &Os, names: &str) -> [Option<u64>; 10] {
        figures(os, self.path("memory.stat").as_bytes_nul(), names)
    }
}

/// Shows the group of the process and all that it lies in.
#[inline(never)] // its paths are not to stand on the stack of both
fn each_group(os: &Os, tree: Tree, visit: &mut dyn FnMut(&Group)) {
    let Some((folder, root_bytes)) = folder_of(os, tree) else { return };
    let mut folder = folder.as_str();
    // Ends: the path gets shorter with each turn.
    loop {
        visit(&Group { folder });
        let parent = folder.rfind('/').unwrap_or(0).max(root_bytes);
        if folder.len() <= root_bytes {
            return;
        }
        folder = folder.get(..parent).unwrap_or("");
    }
}

/// The folder of the process's own group, and how many bytes of it are the path of the mount.
fn folder_of(os: &Os, tree: Tree) -> Option<(Folder, usize)> {
    let mut own: Option<Folder> = None;
    each_line(os, b"/proc/self/cgroup\0", &mut |line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().filter(|controllers| tree.has(controllers));
        own = controllers.and(parts.next()).map(text);
        own.is_some()
    });
    let own = own.filter(|own| !own.is_cut())?;
    let mut found = None;
    each_line(os, b"/proc/self/mountinfo\0", &mut |line| {
        let Some((root, mount)) = mount_of(line, tree) else { return false };
        let below = below(own.as_str(), root.as_str());
        // The mount that has the group is taken, else any.
        if found.is_some() && below.is_none() {
            return false;
        }
        let mut folder = mount;
        let root_bytes = folder.as_bytes().len();
        folder.push_str(below.unwrap_or(""));
        found = (!folder.is_cut()).then_some((folder, root_bytes));
        below.is_some() && found.is_some()
    });
    found
}

fn text(piece: &str) -> Folder {
    let mut text = Folder::new();
    text.push_str(piece);
    text
}

/// Whether a list has this part.
#[inline(never)] // one of it, for every separator
fn has_part(list: &str, separator: char, part: &str) -> bool {
    list.split(separator).any(|one| one == part)
}

/// The path of a group from the root of a mount on, which is empty or begins with '/'. None: it
/// lies outside of it.
fn below<'p>(own: &'p str, root: &str) -> Option<&'p str> {
    let root = if root == "/" { "" } else { root };
    let rest = own.strip_prefix(root)?;
    let rest = if rest == "/" { "" } else { rest };
    let is_below = rest.is_empty() || rest.starts_with('/');
    (is_below && !has_part(rest, '/', "..")).then_some(rest)
}

/// The root and the path of a mount, if its line in mountinfo is one of the tree:
/// "31 23 0:28 /root /path rw,relatime - cgroup cgroup rw,cpu".
fn mount_of(line: &str, tree: Tree) -> Option<(Folder, Folder)> {
    let word = |number: usize| part_of(line, ' ', number);
    // Before the dash are six words, and optional ones.
    let dash = (6..=WORDS_MAX).find(|number| word(*number) == "-")?;
    if !tree.is_mounted(word(dash + 1), word(dash + 3)) {
        return None;
    }
    let (root, path) = (unescaped(word(3))?, unescaped(word(4))?);
    (!root.is_cut() && !path.is_cut()).then_some((root, path))
}

/// A path of mountinfo, in which blanks and backslashes are octal numbers: "\040".
#[inline(never)] // one of it, for both paths of a mount
fn unescaped(word: &str) -> Option<Folder> {
    let (mut path, mut rest) = (Folder::new(), word);
    // Ends: the rest gets shorter with each turn.
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let code = u8::from_str_radix(after.get(..3)?, 8).ok().filter(u8::is_ascii)?;
        path.push_str(char::from(code).encode_utf8(&mut [0; 4]));
        rest = after.get(3..)?;
    }
    path.push_str(rest);
    Some(path)
}
