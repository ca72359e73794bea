//! How the requests of a block ended, reported in their order.
//!
//! In: endings in any order: of malformed lines before the stream, of requests that push refuses,
//! of samples that came out. Out: each failure as a line on standard error, once all requests
//! before it have ended.

use crate::fault::Outcome;
use crate::report;
use crate::system;
use std::collections::BTreeMap;
use wavetrain::loader::{Batch, Failure};
use wavetrain::status::Status;

/// The endings of a block.
pub struct Endings {
    list: Vec<Option<(Status, String)>>,
    /// Requests before this one were reported.
    told: usize,
    failures: usize,
}

impl Endings {
    /// Of `count` requests, of which the malformed ones have ended.
    pub fn new(count: usize, malformed: &BTreeMap<usize, String>) -> Endings {
        let mut list = vec![None; count];
        for (index, text) in malformed {
            list[*index] = Some((Status::Invalid, text.clone()));
        }
        Endings { list, told: 0, failures: 0 }
    }

    /// Takes the endings of a batch; its samples in order, each with its index and status.
    pub fn take(&mut self, batch: &Batch<'_>) -> Vec<(usize, Status)> {
        let statuses = batch.tags().iter().enumerate().map(|(sample, tag)| {
            let code = batch.statuses().get(sample).copied().unwrap_or(0);
            let (index, status) =
                ((*tag - 1) as usize, Status::from_code(code).unwrap_or(Status::Internal));
            let text =
                if status == Status::Ok { String::new() } else { skipped_text(*tag, status) };
            self.list[index] = Some((status, text));
            (index, status)
        });
        statuses.collect()
    }

    /// Takes the ending of a request that push refuses.
    pub fn refuse(&mut self, index: usize, failure: &Failure) {
        self.list[index] = Some((failure.status, failure.text.as_str().to_owned()));
    }

    /// The rest of these requests ends with a failure.
    pub fn give_up(&mut self, indexes: impl Iterator<Item = usize>, failure: &Failure) {
        for index in indexes {
            self.list[index]
                .get_or_insert_with(|| (failure.status, failure.text.as_str().to_owned()));
        }
    }

    /// Reports the endings up to the first request that has not ended: failures by `name`, and all
    /// to `each`.
    pub fn tell(
        &mut self,
        name: impl Fn(usize) -> String,
        mut each: impl FnMut(usize, Status, &str) -> Outcome<()>,
    ) -> Outcome<()> {
        while let Some(Some((status, text))) = self.list.get(self.told) {
            if *status != Status::Ok {
                self.failures += 1;
                report::warn(&format!("{}: {status}: {text}", name(self.told)));
            }
            each(self.told, *status, text)?;
            self.told += 1;
        }
        Ok(())
    }

    /// How many requests failed: those that never came out have.
    pub fn failures(&self) -> usize {
        let untold = self.list[self.told..].iter();
        let failing =
            untold.filter(|ending| ending.as_ref().is_none_or(|(status, _)| *status != Status::Ok));
        self.failures + failing.count()
    }
}

/// The text of the log about a skipped sample, without its status.
fn skipped_text(tag: u64, status: Status) -> String {
    let text = system::take_text(tag).unwrap_or_default();
    match text.strip_prefix(status.name()).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
