//! How many CPUs a loader takes of what the system allots, and the text that names the reason.
//!
//! In: counts of CPUs and ranks. Out: the number that threads are derived from, and a sentence for
//! people.

use crate::base::limits::SHORT_TEXT_BYTES;
use crate::base::text::Text;
use crate::setup::settings::Settings;
use core::fmt;

/// CPUs that the system allots. A count of u32::MAX is not known, and limits nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allotted {
    /// CPUs of the quotas of control groups, rounded up.
    pub quota: u32,
    /// CPUs that the thread that opens may run on, or those of `cpus`.
    pub mask: u32,
    /// Whether these are those of `cpus`.
    pub is_given: bool,
    /// CPUs that are online.
    pub online: u32,
    /// Ranks of the node that share them.
    pub ranks: u32,
    /// A NUMA node that threads are kept to, if they are.
    pub node: u32,
    /// CPUs of it that threads may run on.
    pub node_cpus: u32,
}

/// A limit, in words for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    Quota,
    Mask,
    Given,
    Online,
    Node(u32),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Quota => "of quota",
            Limit::Mask => "in the mask",
            Limit::Given => "in cpus",
            Limit::Online => "online",
            Limit::Node(node) => return write!(f, "on NUMA node {node}"),
        })
    }
}

impl Allotted {
    /// So many CPUs, and no other limit.
    pub const fn of(mask: u32) -> Allotted {
        Allotted {
            quota: u32::MAX,
            mask,
            is_given: false,
            online: u32::MAX,
            ranks: 1,
            node: 0,
            node_cpus: u32::MAX,
        }
    }

    /// Its counts, each with the limit that it is of.
    fn limits(&self) -> [(u32, Limit); 4] {
        let mask = if self.is_given { Limit::Given } else { Limit::Mask };
        [
            (self.quota, Limit::Quota),
            (self.mask, mask),
            (self.online, Limit::Online),
            (self.node_cpus, Limit::Node(self.node)),
        ]
    }

    /// The least count, and by how many ranks it is divided. CPUs that `cpus` names are for this
    /// rank alone; the quota is for all that run in the group. How many of the ranks are on a NUMA
    /// node is not known: if all nodes have as many, the parts of other limits are enough.
    fn least(&self) -> (u32, Limit, u32) {
        let ranks = self.ranks.max(1);
        let parts = self.limits().map(|(count, limit)| {
            let is_own = match limit {
                Limit::Quota => false,
                Limit::Node(_) => true,
                _ => self.is_given,
            };
            (count, limit, if is_own || count == u32::MAX { 1 } else { ranks })
        });
        let least = parts.into_iter().min_by_key(|(count, _, ranks)| part(*count, *ranks));
        least.unwrap_or((1, Limit::Mask, 1))
    }

    /// CPUs of this loader: 1 at least, and if nothing is known.
    pub fn cpus(&self) -> u32 {
        match self.least() {
            (u32::MAX, ..) => 1,
            (count, _, ranks) => part(count, ranks).max(1),
        }
    }
}

/// A rank's part of so many CPUs.
fn part(count: u32, ranks: u32) -> u32 {
    count.checked_div(ranks).unwrap_or(count)
}

impl Settings {
    /// How many threads there are and why, for the log and for stats: "io 16, decode 2 threads: 2
    /// CPUs of quota (8 in the mask, 64 online)". `numa`: words about NUMA nodes, at its end.
    pub fn placement(&self, numa: &str) -> Text<SHORT_TEXT_BYTES> {
        let text = self.placement_with(numa, true);
        // The limits that do not count are left out if there is no room for all.
        if text.is_cut() { self.placement_with(numa, false) } else { text }
    }

    fn placement_with(&self, numa: &str, has_others: bool) -> Text<SHORT_TEXT_BYTES> {
        let mut text = Text::new();
        match self.is_consumer() {
            true => text.push_str("no threads: the owner fills batches"),
            false => self.write_threads(&mut text, has_others),
        }
        text.push_str(if numa.is_empty() { "" } else { "; " });
        text.push_str(numa);
        text
    }

    fn write_threads(&self, text: &mut Text<SHORT_TEXT_BYTES>, has_others: bool) {
        let (io, decode) = (self.io_threads, self.decode_threads);
        match self.is_threadless() {
            true => write!(text, "no threads, {decode} of your own work at a time: "),
            false => write!(text, "io {io}, decode {decode} threads: "),
        }
        let (least, limit, ranks) = self.allotted.least();
        if self.config.n_decode_threads > 0 {
            text.push_str("n_decode_threads is set");
        } else {
            match least {
                u32::MAX => text.push_str("CPUs are not known"),
                _ => write!(text, "{least} CPUs {limit}"),
            }
            if ranks > 1 {
                write!(text, " for {ranks} ranks");
            }
            if self.is_cuda() {
                text.push_str(", less 2 for the threads of a device");
            }
            if decode < self.wished_threads() {
                text.push_str(", and max_host_memory_bytes has no room for more");
            }
        }
        let mut separator = " (";
        let is_set = self.config.n_decode_threads > 0;
        for (count, other) in self.allotted.limits() {
            if has_others && count != u32::MAX && (is_set || other != limit) {
                write!(text, "{separator}{count} {other}");
                separator = ", ";
            }
        }
        text.push_str(if separator == ", " { ")" } else { "" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::status::Why;
    use crate::setup::config::{Config, THREADS_PUMP};
    use crate::setup::settings::settings_from_config;

    const MACHINE: Allotted = Allotted { online: 64, ..Allotted::of(64) };

    #[test]
    fn the_least_of_quota_mask_and_cpus_online_is_divided_by_ranks() {
        for (cpus, allotted) in [
            (64, MACHINE),
            (2, Allotted { quota: 2, ..MACHINE }),
            (8, Allotted { mask: 8, ..MACHINE }),
            (16, Allotted { online: 16, ..MACHINE }),
            (16, Allotted { ranks: 4, ..MACHINE }),
            (1, Allotted { ranks: 100, ..MACHINE }),
            (1, Allotted { ranks: 0, mask: 0, ..MACHINE }),
            (1, Allotted { quota: 2, ranks: 4, ..MACHINE }),
            (21, Allotted { ranks: 3, ..MACHINE }),
            // CPUs that `cpus` names are this rank's own, and the quota is for all ranks.
            (6, Allotted { mask: 6, is_given: true, ranks: 8, ..MACHINE }),
            (2, Allotted { mask: 6, is_given: true, ranks: 8, quota: 16, ..MACHINE }),
            (1, Allotted::of(u32::MAX)),
            (32, Allotted { node_cpus: 32, ..MACHINE }),
            (32, Allotted { node_cpus: 32, ranks: 2, ..MACHINE }),
            (8, Allotted { node_cpus: 32, ranks: 8, ..MACHINE }),
            (4, Allotted { node_cpus: 4, mask: 6, is_given: true, ..MACHINE }),
        ] {
            assert_eq!(allotted.cpus(), cpus, "{allotted:?}");
        }
    }

    #[test]
    fn the_text_names_the_limit_that_counts_and_the_others() {
        let mut config = Config { sample_rank: 1, n_io_threads: 4, ..Config::default() };
        config.sample_shape[0] = 64;
        let text = |config: &Config, allotted: Allotted| {
            let settings = settings_from_config(config, &allotted, &mut Why::new()).unwrap();
            std::string::String::from(settings.placement("").as_str())
        };
        let quota = Allotted { quota: 2, mask: 8, ..MACHINE };
        let expected = "io 4, decode 2 threads: 2 CPUs of quota (8 in the mask, 64 online)";
        assert_eq!(text(&config, quota), expected);
        let expected = "io 4, decode 2 threads: 8 CPUs in the mask for 4 ranks (64 online)";
        assert_eq!(text(&config, Allotted { mask: 8, ranks: 4, ..MACHINE }), expected);
        let given = Config { n_decode_threads: 3, ..config };
        let expected = "io 4, decode 3 threads: n_decode_threads is set (2 of quota, 8 in the \
                        mask, 64 online)";
        assert_eq!(text(&given, quota), expected);
        let pump = Config { thread_mode: THREADS_PUMP, ..config };
        let expected = "no threads, 5 of your own work at a time: 5 CPUs in the mask";
        assert_eq!(text(&pump, Allotted::of(5)), expected);
        let expected = "io 4, decode 6 threads: 6 CPUs on NUMA node 1 (64 in the mask, 64 online)";
        assert_eq!(text(&config, Allotted { node: 1, node_cpus: 6, ..MACHINE }), expected);
    }

    #[test]
    fn words_about_nodes_have_room_next_to_the_longest_reason() {
        let mut config = Config { sample_rank: 1, n_io_threads: 1024, ..Config::default() };
        config.sample_shape[0] = 64;
        let mut settings =
            settings_from_config(&config, &Allotted::of(8192), &mut Why::new()).unwrap();
        settings.allotted = Allotted {
            quota: 8191,
            online: 8190,
            ranks: 1024,
            node: 1023,
            node_cpus: 8189,
            ..Allotted::of(8192)
        };
        settings.decode_threads = 1;
        let numa = "x".repeat(127);
        let text = settings.placement(&numa);
        assert!(!text.is_cut() && text.as_str().ends_with(&std::format!("; {numa}")));
        assert!(settings.placement("x").as_str().contains("(8192 in the mask"));
    }
}
