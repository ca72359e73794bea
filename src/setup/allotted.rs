//! How many CPUs a loader takes of what the system allots, and the text that names the reason.
//!
//! In: counts of CPUs and ranks. Out: the number that threads are derived from, and a sentence for
//! people.

use crate::base::limits::SHORT_TEXT_BYTES;
use crate::base::text::Text;
use crate::setup::settings::Settings;

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
}

impl Allotted {
    /// So many CPUs, and no other limit.
    pub const fn of(mask: u32) -> Allotted {
        Allotted { quota: u32::MAX, mask, is_given: false, online: u32::MAX, ranks: 1 }
    }

    /// Its counts, each with words for it.
    fn limits(&self) -> [(u32, &'static str); 3] {
        let mask = if self.is_given { "in cpus" } else { "in the mask" };
        [(self.quota, "of quota"), (self.mask, mask), (self.online, "online")]
    }

    /// The least count, and by how many ranks it is divided. CPUs that `cpus` names are for this
    /// rank alone; the quota is for all that run in the group.
    fn least(&self) -> (u32, &'static str, u32) {
        let ranks = self.ranks.max(1);
        let parts = self.limits().map(|(count, words)| {
            let is_own = self.is_given && words != "of quota" || count == u32::MAX;
            (count, words, if is_own { 1 } else { ranks })
        });
        let least = parts.into_iter().min_by_key(|(count, _, ranks)| part(*count, *ranks));
        least.unwrap_or((1, "in the mask", 1))
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
    /// CPUs of quota (8 in the mask, 64 online)".
    pub fn placement(&self) -> Text<SHORT_TEXT_BYTES> {
        let mut text = Text::new();
        if self.is_consumer() {
            text.push_str("no threads: the owner fills batches");
            return text;
        }
        let (io, decode) = (self.io_threads, self.decode_threads);
        match self.is_threadless() {
            true => write!(text, "no threads, {decode} of yours work at a time: "),
            false => write!(text, "io {io}, decode {decode} threads: "),
        }
        let (least, words, ranks) = self.allotted.least();
        if self.config.n_decode_threads > 0 {
            text.push_str("n_decode_threads is set");
        } else {
            write!(text, "{least} CPUs {words}");
            if ranks > 1 {
                write!(text, " for {ranks} ranks");
            }
            if self.is_cuda() {
                text.push_str(", less 2 beside a device");
            }
            if decode < self.wished_threads() {
                text.push_str(", and max_host_memory_bytes has no room for more");
            }
        }
        let mut separator = " (";
        let is_set = self.config.n_decode_threads > 0;
        for (count, other) in self.allotted.limits() {
            if count != u32::MAX && (is_set || other != words) {
                write!(text, "{separator}{count} {other}");
                separator = ", ";
            }
        }
        text.push_str(if separator == ", " { ")" } else { "" });
        // NUMA placement is appended here, once it is built.
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::status::Why;
    use crate::setup::config::{Config, THREADS_PUMP};
    use crate::setup::settings::settings_from_config;

    const MACHINE: Allotted =
        Allotted { quota: u32::MAX, mask: 64, is_given: false, online: 64, ranks: 1 };

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
            std::string::String::from(settings.placement().as_str())
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
        let expected = "no threads, 5 of yours work at a time: 5 CPUs in the mask";
        assert_eq!(text(&pump, Allotted::of(5)), expected);
    }
}
