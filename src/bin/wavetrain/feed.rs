//! The loop that every command shares: push what fits, pop a batch, push more.
//!
//! One thread does both. It never waits in push, so it cannot wait for room that only its own pop
//! would make.

use crate::fault::{Fault, Outcome, failed};
use crate::fields::ConfigFlags;
use crate::progress::Progress;
use crate::requests::{Extent, Requests};
use crate::store;
use crate::system;
use std::borrow::Cow;
use std::slice::from_ref;
use wavetrain::config::Config;
use wavetrain::loader::{self, Batch, Failure, FieldView, Loader, Part, Pop, Sample};
use wavetrain::records::{CF_MARK, Dtype};

/// Most requests that are offered in one push.
const PUSH_MAX: usize = 1024;

/// Batches are at most this large, so that memory stays small whatever the boxes are.
const BATCH_BYTES_MAX: u64 = 32 << 20;
const BATCH_SAMPLES_MAX: u64 = 16;
/// Samples larger than this go through one slot: memory counts more than overlap.
const SLOT_BYTES_LARGE: u64 = 256 << 20;

/// The level at which the library logs a skipped sample: warn.
const SKIPPED_LEVEL: u32 = 3;

/// Why a stream ended before its end.
pub enum Stop {
    /// The library failed; its tag tells which request.
    Library(Failure),
    /// The command itself gave up.
    Tool(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Tool(fault)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Library(failure)
    }
}

/// The samples of a batch in host memory: copied where they lie on a device.
pub fn samples<'b>(batch: &'b Batch<'_>) -> Outcome<Cow<'b, [u8]>> {
    if batch.ready_stream().is_none() {
        return Ok(Cow::Borrowed(batch.data()));
    }
    let mut copy = vec![0; batch.bytes() as usize];
    batch.copy_to(&mut copy).map_err(|failure| Fault::library(&failure))?;
    Ok(Cow::Owned(copy))
}

/// The bytes of each field of a batch, in the order of the table; without a table of the only one.
pub fn each_field<T>(
    batch: &Batch<'_>,
    count: usize,
    mut use_bytes: impl FnMut(&[u8]) -> T,
) -> Outcome<Vec<T>> {
    let library = |failure: Failure| Fault::library(&failure);
    (0..count.max(1) as u32)
        .map(|number| {
            let field = batch.field(number).map_err(library)?;
            Ok(use_bytes(&elements(batch, &field)?))
        })
        .collect()
}

/// The same of a field.
pub fn elements<'f>(batch: &Batch<'_>, field: &'f FieldView<'_>) -> Outcome<Cow<'f, [u8]>> {
    if batch.ready_stream().is_none() {
        return Ok(Cow::Borrowed(field.data()));
    }
    let mut copy = vec![0; field.bytes() as usize];
    field.copy_to(&mut copy).map_err(|failure| Fault::library(&failure))?;
    Ok(Cow::Owned(copy))
}

/// Who gets what comes out of a stream.
pub trait Receiver {
    /// A batch; batches come in push order.
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()>;

    /// A request that push refuses. True: the stream goes on without it. False: it ends behind the
    /// requests before it, with this failure.
    fn refuse(&mut self, _index: usize, _failure: &Failure) -> bool {
        false
    }
}

impl<F: FnMut(&Batch<'_>) -> Outcome<()>> Receiver for F {
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()> {
        self(batch)
    }
}

/// What is streamed: a list of requests, or of samples of several boxes.
pub trait List {
    /// What push takes of one.
    type Item<'a>
    where
        Self: 'a;

    /// How many.
    fn len(&self) -> usize;

    /// One as push takes it. Its tag is its index plus 1, so that 0 stays free for log lines about
    /// no sample.
    fn item(&self, index: usize) -> Self::Item<'_>;

    /// Its tag.
    fn tag(item: &Self::Item<'_>) -> u64;

    /// Pushes the samples that fit in time; their number, and the failure of the next.
    fn push(
        loader: &Loader,
        items: &[Self::Item<'_>],
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>);

    /// What people call one.
    fn name(&self, index: usize) -> String;

    /// What it calls itself; its tag where it does not.
    fn own_tag(&self, index: usize) -> u64 {
        index as u64 + 1
    }

    /// One, and the boxes of it that go to a field.
    fn place(&self, index: usize, _field: usize) -> String {
        self.name(index)
    }

    /// The fields that its samples have, by name; none without a table of fields.
    fn fields(&self) -> &[String];

    /// Bytes that its boxes have of arrays, in the types of those, as `element_types` told them.
    fn source_bytes(&self, types: &[Option<Known>]) -> f64;
}

impl List for Requests {
    type Item<'a> = (Part<'a>, u64);

    fn len(&self) -> usize {
        self.items.len()
    }

    fn item(&self, index: usize) -> (Part<'_>, u64) {
        (self.part(index), index as u64 + 1)
    }

    fn tag((_, tag): &(Part<'_>, u64)) -> u64 {
        *tag
    }

    fn push(
        loader: &Loader,
        items: &[(Part<'_>, u64)],
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let samples = items.iter().map(|(part, tag)| Sample { parts: from_ref(part), tag: *tag });
        loader.push_samples(&samples.collect::<Vec<_>>(), timeout_ns)
    }

    fn name(&self, index: usize) -> String {
        self.name(index)
    }

    fn fields(&self) -> &[String] {
        &[]
    }

    fn source_bytes(&self, types: &[Option<Known>]) -> f64 {
        let of_item = |(uri, extent): &(usize, Extent)| {
            let element = types[*uri].map_or(0, |known| known.element.1);
            extent.shape().iter().fold(f64::from(element), |all, axis| all * *axis as f64)
        };
        self.items.iter().map(of_item).sum()
    }
}

/// Streams the requests `indexes` through `loader` and hands every batch to `receiver`. `progress`
/// steps once for each that came out or was refused.
pub fn stream<L: List>(
    loader: &Loader,
    requests: &L,
    mut indexes: impl Iterator<Item = usize>,
    timeout_ns: u64,
    progress: &Progress,
    receiver: &mut impl Receiver,
) -> Result<(), Stop> {
    let mut offered: Vec<L::Item<'_>> = Vec::with_capacity(PUSH_MAX);
    let mut taken = 0;
    let mut refusal = None;
    let mut is_flushed = false;
    loop {
        while !is_flushed {
            if taken == offered.len() {
                taken = 0;
                offered.clear();
                let next = indexes.by_ref().take(PUSH_MAX);
                offered.extend(next.map(|index| requests.item(index)));
            }
            if offered.is_empty() || refusal.is_some() {
                loader.flush()?;
                is_flushed = true;
                break;
            }
            let (more, pushed) = L::push(loader, &offered[taken..], 0);
            taken += more;
            if let Err(failure) = pushed {
                // A failure about another request is the stream's, which pop tells in order.
                let refused = offered.get(taken).is_some_and(|next| L::tag(next) == failure.tag);
                let Some(index) = request_of(&failure, requests).filter(|_| refused) else {
                    return Err(failure.into());
                };
                taken += 1;
                progress.step(1);
                if !receiver.refuse(index, &failure) {
                    refusal = Some(failure);
                }
            } else if taken < offered.len() {
                break;
            }
        }
        match loader.pop(timeout_ns)? {
            Pop::Batch(batch) => {
                receiver.take(&batch)?;
                progress.step(batch.tags().len() as u64);
            }
            Pop::End | Pop::Reset => return refusal.map_or(Ok(()), |failure| Err(failure.into())),
            Pop::Again(why) | Pop::Starved(why) => {
                let seconds = timeout_ns as f64 * 1e-9;
                let text =
                    format!("STARVED: no batch within {seconds:.1} s (--pop-timeout-ns): {why}");
                return Err(Stop::Tool(Fault::Failed(text)));
            }
        }
    }
}

/// The failure of a stream as a line for people, with the request that it names.
pub fn stop_fault(stop: Stop, requests: &impl List) -> Fault {
    match stop {
        Stop::Tool(fault) => fault,
        Stop::Library(failure) => match request_of(&failure, requests) {
            Some(index) => Fault::Failed(format!(
                "{}: {}",
                requests.name(index),
                crate::fault::failure_text(&failure)
            )),
            None => Fault::library(&failure),
        },
    }
}

/// The request that a failure is about, where it is about one.
pub fn request_of(failure: &Failure, requests: &impl List) -> Option<usize> {
    let index = usize::try_from(failure.tag.checked_sub(1)?).ok()?;
    (index < requests.len()).then_some(index)
}

/// Opens a loader, with the sink that keeps texts of failing samples.
pub fn open(config: &Config) -> Result<Loader, Failure> {
    let mut config = store::config_of(config)?;
    system::forget_texts();
    config.log = system::log_hook();
    config.log_level = config.log_level.min(SKIPPED_LEVEL);
    // SAFETY: the hooks are this program's, and the driver is the one that its user names.
    unsafe { Loader::open_trusting(&config) }
}

/// An element type and its bytes.
pub type ElementType = (Dtype, u32);

/// What is known of a uri that can be read. Nothing else is kept: there may be a great many.
#[derive(Clone, Copy)]
pub struct Known {
    pub element: ElementType,
    /// It names an image, as boxes with a map may; the element is that of level 0.
    pub is_image: bool,
}

impl Known {
    /// The array that it is known by.
    fn array(self, uri: &str) -> Cow<'_, str> {
        if self.is_image { Cow::Owned(level_of(uri, 0)) } else { Cow::Borrowed(uri) }
    }
}

/// The uri of a level of an image.
pub fn level_of(image: &str, level: u32) -> String {
    let (group, mark) = match image.strip_suffix(CF_MARK) {
        Some(group) => (group, CF_MARK),
        None => (image, ""),
    };
    format!("{group}#level={level}{mark}")
}

/// A uri as boxes of a field with that cf name it.
pub fn named(uri: &str, cf: u32) -> Cow<'_, str> {
    let is_named = cf == 0 || uri.ends_with(CF_MARK);
    if is_named { Cow::Borrowed(uri) } else { Cow::Owned(format!("{uri}{CF_MARK}")) }
}

/// What is known of each uri, as boxes of a field with or without cf = 1 read it; None of one that
/// cannot be read.
pub fn element_types(uris: &[impl AsRef<str>], cf: u32) -> Vec<Option<Known>> {
    let mut scratch = vec![0; loader::SCRATCH_BYTES];
    let progress = Progress::begin(Some(uris.len() as u64), "looking at arrays");
    let mut known = |uri: &str, is_image| {
        let info = store::array_info(&named(uri, cf), &mut scratch).ok()?;
        let element = (Dtype::from_code(info.dtype)?, info.dtype_bytes);
        Some(Known { element, is_image })
    };
    let type_of = |uri: &_| {
        progress.step(1);
        let uri = AsRef::as_ref(uri);
        known(uri, false).or_else(|| known(&level_of(uri, 0), true))
    };
    uris.iter().map(type_of).collect()
}

/// The extents of an array.
pub fn extents(uri: &str) -> Outcome<Vec<u64>> {
    let info = store::array_info(uri, &mut vec![0; loader::SCRATCH_BYTES]);
    let info = info.map_err(|failure| Fault::library(&failure))?;
    Ok(info.shape[..info.rank as usize].to_vec())
}

/// Raises the caps of `config` to what the arrays need.
pub fn fit(config: &mut Config, uris: &[&str]) -> Result<(), Failure> {
    store::fit(config, uris, &mut vec![0; loader::SCRATCH_BYTES])
}

/// The same for those of the arrays that can be read: what is wrong with another fails its samples,
/// in order.
pub fn fit_known<'u>(
    config: &mut Config,
    uris: impl Iterator<Item = (&'u str, Option<Known>)>,
) -> Result<(), Failure> {
    let names: Vec<_> = uris.filter_map(|(uri, known)| Some(known?.array(uri))).collect();
    fit(config, &names.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

/// The same for a list of uris and what is known of each.
pub fn fit_readable(config: &mut Config, uris: &[String], types: &[Option<Known>]) -> Outcome<()> {
    let known = uris.iter().map(String::as_str).zip(types.iter().copied());
    fit_known(config, known).map_err(|failure| Fault::library(&failure))
}

/// Sets the sample shape of `config`, unless the command line gave one.
pub fn set_shape(config: &mut Config, shape: &[u64]) -> Outcome<()> {
    if config.sample_rank != 0 {
        return Ok(());
    }
    if shape.len() > config.sample_shape.len() {
        return failed(format!("a box of {} axes", shape.len()));
    }
    // Of an array without axes a sample of one element.
    let shape = if shape.is_empty() { &[1] } else { shape };
    config.sample_shape[..shape.len()].copy_from_slice(shape);
    config.sample_rank = shape.len() as u32;
    Ok(())
}

/// Makes room for the index lists of samples, unless the command line says how much.
pub fn set_indices(config: &mut Config, flags: &ConfigFlags, indices: impl Iterator<Item = u32>) {
    if !flags.is_given("max_indices_per_sample") {
        config.max_indices_per_sample = indices.max().unwrap_or(0);
    }
}

/// Takes no more memory for batches than `count` samples can use, where the command line leaves it
/// open: a single one takes a single slot.
pub fn set_batch(config: &mut Config, flags: &ConfigFlags, sample_bytes: u64, count: u64) {
    if !flags.is_given("samples_per_batch") {
        let fitting = (BATCH_BYTES_MAX / sample_bytes.max(1)).clamp(1, BATCH_SAMPLES_MAX);
        config.samples_per_batch = fitting.min(count) as u32;
    }
    if !flags.is_given("n_batch_slots") {
        let batches = count.div_ceil(u64::from(config.samples_per_batch.max(1)));
        let useful = if sample_bytes > SLOT_BYTES_LARGE { 1 } else { batches };
        config.n_batch_slots = u64::from(config.n_batch_slots).min(useful) as u32;
    }
}
