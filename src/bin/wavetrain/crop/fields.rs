//! `wavetrain crop --fields`: the fields of samples of several boxes into .npy files.
//!
//! In: a table of fields, and a list, of which one block after the other is read, streamed and
//! freed. Out: NAME.000000.npy, NAME.000001.npy, .. of each field in a folder. Samples that failed
//! have no file; how many they are is the error.

use super::endings::Endings;
use super::options::BLOCK_REQUESTS;
use crate::fault::{Fault, Outcome, failed};
use crate::feed::{self, List, Receiver, Stop};
use crate::fields::ConfigFlags;
use crate::npy::Writer;
use crate::progress::Progress;
use crate::requests::{LineList, Lines, no_requests};
use crate::samples::{Fields, Samples};
use std::path::Path;
use wavetrain::config::{ON_ERROR_FAIL, ON_ERROR_NAN};
use wavetrain::loader::{Batch, Failure};
use wavetrain::status::Status;

/// Streams a whole list.
pub fn crop(
    flags: &ConfigFlags,
    fields: &'static Fields,
    list: &Path,
    folder: &Path,
) -> Outcome<()> {
    let keeps_going = flags.config.on_error != ON_ERROR_FAIL;
    let mut lines = Lines::open(list)?;
    std::fs::create_dir_all(folder).map_err(|error| Fault::path(folder, &error))?;
    let progress = Progress::begin(None, "cropping");
    let (mut count, mut failures, mut has_more) = (0, 0, true);
    while has_more {
        let mut samples = Samples::beginning_at(count, fields);
        has_more = samples.add_more(&mut lines, BLOCK_REQUESTS, keeps_going)?;
        if samples.len() == 0 {
            break;
        }
        count += samples.len();
        progress.set_count(if has_more { lines.count_expected() } else { Some(count as u64) });
        failures += crop_block(flags, fields, &samples, folder, &progress)?;
    }
    drop(progress);
    match failures {
        _ if count == 0 => no_requests(list),
        0 => Ok(()),
        failures => failed(format!("{failures} of {count} requests failed")),
    }
}

/// Streams a block; how many of its samples failed.
fn crop_block(
    flags: &ConfigFlags,
    fields: &Fields,
    samples: &Samples,
    folder: &Path,
    progress: &Progress,
) -> Outcome<usize> {
    let (config, _) = samples.prepare(flags)?;
    let keeps_going = config.on_error != ON_ERROR_FAIL;
    let endings = Endings::new(samples.len(), &samples.malformed);
    progress.step(samples.malformed.len() as u64);
    let fills_nan = config.on_error == ON_ERROR_NAN;
    let mut sink = Sink { fields, samples, folder, keeps_going, fills_nan, endings };
    let indexes = || (0..samples.len()).filter(|index| !samples.malformed.contains_key(index));
    let streamed = feed::open(&config).map_err(Stop::Library).and_then(|loader| {
        feed::stream(&loader, samples, indexes(), config.pop_timeout_ns, progress, &mut sink)
    });
    match streamed {
        Ok(()) => {}
        Err(Stop::Library(failure)) if keeps_going && failure.tag == 0 => {
            sink.endings.give_up(indexes(), &failure);
        }
        Err(stop) => return Err(feed::stop_fault(stop, samples)),
    }
    sink.tell()?;
    Ok(sink.endings.failures())
}

/// The sink of a block's batches.
struct Sink<'a> {
    fields: &'a Fields,
    samples: &'a Samples,
    folder: &'a Path,
    keeps_going: bool,
    /// Samples that fail are written all the same, NaN where they did.
    fills_nan: bool,
    endings: Endings,
}

impl Sink<'_> {
    fn tell(&mut self) -> Outcome<()> {
        self.endings.tell(|index| self.samples.name(index), |_, _, _| Ok(()))
    }
}

impl Receiver for Sink<'_> {
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()> {
        let ended = self.endings.take(batch);
        for (number, name) in self.fields.names.iter().enumerate() {
            let library = |failure: Failure| Fault::library(&failure);
            let field = batch.field(number as u32).map_err(library)?;
            let data = feed::elements(batch, &field)?;
            let bytes = self.fields.specs[number].dtype_bytes.max(field.dtype().bytes());
            let rows = data.chunks(data.len() / ended.len());
            let is_written = |status| status == Status::Ok || self.fills_nan;
            for ((index, _), row) in
                ended.iter().zip(rows).filter(|((_, status), _)| is_written(*status))
            {
                let path =
                    self.folder.join(format!("{name}.{:06}.npy", self.samples.first + index));
                let element = (field.dtype(), bytes);
                let mut file = Writer::create(&path, element, &field.shape()[1..])?;
                file.write(row)?;
                file.finish()?;
            }
        }
        self.tell()
    }

    fn refuse(&mut self, index: usize, failure: &Failure) -> bool {
        if self.keeps_going {
            self.endings.refuse(index, failure);
        }
        self.keeps_going
    }
}
