//! Reads that run at this moment, and since when: pop and reset name the one that they wait for.
//!
//! In: jobs that are handed out, and reads that are in flight. Out: the one that has been for the
//! longest. Invariant: an array that is named in it is pinned by the job or the read.

use crate::base::indexes::ArraySlot;
use crate::state::State;
use crate::state::job::Job;
use crate::state::shared::Shared;

/// A read that somebody waits for.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When it began.
    pub since_ns: u64,
    /// The array.
    pub array: ArraySlot,
    /// The file of it; None: its metadata, or an array that the host gives.
    pub file: Option<u64>,
}

impl Reading {
    /// The read of a job, which begins now; None if it reads nothing.
    pub fn of_job(job: &Job, shared: &Shared) -> Option<Reading> {
        let (array, file) = match job {
            Job::LoadArray { array, .. } | Job::LookArray { array, .. } => (*array, None),
            Job::Look(looks) => looks.first().map(|look| (look.array, Some(look.file)))?,
            Job::LoadParts(slice) => (slice.array, None),
            Job::Locate { question, .. } => (question.array, Some(question.file)),
            Job::Read { read, .. } => (read.array, Some(read.file)),
            Job::Ask { read, .. } => {
                let has_files = shared.array_record(read.array).origin.has_files;
                (read.array, has_files.then_some(read.file))
            }
            Job::Stream { wave, first, .. } => {
                let read = shared.tables.ops.rows(shared.wave_row(*wave, *first), 1).first()?;
                (read.array, Some(read.file))
            }
            Job::Plan(_) | Job::Assemble { .. } | Job::Resample { .. } => return None,
            Job::Finish { .. } | Job::Device => return None,
        };
        Some(Reading { since_ns: (shared.os.tick_ns)(), array, file })
    }
}

impl State {
    /// The read that has been waited for the longest: by a thread or by the host.
    pub fn longest_reading(&self) -> Option<Reading> {
        let with_host = self.async_reads.places.iter().flatten();
        let with_host = with_host.filter(|read| !read.is_dropped).map(|read| Reading {
            since_ns: read.flight.start_ns,
            array: read.flight.read.array,
            file: Some(read.flight.read.file),
        });
        let of_threads = self.readings.iter().flatten().copied();
        of_threads.chain(with_host).min_by_key(|read| read.since_ns)
    }
}
