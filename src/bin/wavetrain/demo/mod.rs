//! `wavetrain demo`: one command that shows everything at work on data it makes itself.
//!
//! It makes a store (or finds it), streams crops and compares every voxel of every batch with the
//! procedure, streams the same crops again at full speed and compares every batch with the first
//! time, prints the rates of that second pass, and draws a picture of what came out.

mod picture;
mod specimen;
mod store;

use crate::fault::{Fault, Outcome, failed, usage};
use crate::feed;
use crate::fields::{ConfigFlags, fields_help};
use crate::report;
use crate::requests::{Extent, Requests};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use picture::Fold;
use specimen::Painter;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use wavetrain::loader::{Batch, Loader};
use wavetrain::records::Dtype;

const HELP: &str = "\
Makes a small store, streams random crops from it, checks every voxel, prints rates and draws.

  wavetrain demo [--dir DIR] [--png FILE] [--crops N] [config flags]

      --dir DIR         where the store is kept [$XDG_CACHE_HOME/wavetrain/demo, else
                        ~/.cache/wavetrain/demo]; about 90 MB
      --png FILE        where the picture goes [montage.png in DIR]
      --crops N         crops of 64 x 128 x 128 voxels to stream [256]

The store is two volumes of 192 x 512 x 512 u16 voxels, zarr v3, sharded, zstd. Exit code 0 only
if every voxel is what it must be.

Config (sizes take suffixes: 64MiB, 4k); sample shape and dtype are the demo's own:
";

/// Extents of a crop.
const CROP: [usize; 3] = [64, 128, 128];
const CROP_ELEMENTS: usize = CROP[0] * CROP[1] * CROP[2];
/// The first crops are for the picture: one place after the other, each in both volumes.
const PICTURE_CROPS: usize = 2 * picture::TILES[0] * picture::TILES[1];

struct Options {
    flags: ConfigFlags,
    folder: PathBuf,
    png: PathBuf,
    crops: usize,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(options) = options(parser)? else { return Ok(()) };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    prepare_store(&options, cpus)?;

    let requests = requests(&options);
    let loader = feed::open(&options.flags.config).map_err(|failure| Fault::library(&failure))?;
    let (crcs, folds) = check_pass(&loader, &options, &requests, cpus)?;
    timed_pass(&loader, &options, &requests, &crcs)?;
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;

    let (mut bodies, mut fibres) = (Vec::new(), Vec::new());
    for (number, fold) in folds.into_iter().enumerate() {
        let Some(fold) = fold else { return failed("a crop of the picture did not come out") };
        if number % 2 == 0 { bodies.push(fold) } else { fibres.push(fold) }
    }
    picture::write(&options.png, &bodies, &fibres)?;
    report::print(&format!("\npicture  {}\n", options.png.display()))
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short};
    let mut flags = ConfigFlags::new();
    flags.config.samples_per_batch = 8;
    let (mut folder, mut png, mut crops) = (None, None, 256);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&format!("{HELP}{}", fields_help()))?;
                return Ok(None);
            }
            Long("dir") => folder = Some(PathBuf::from(parser.value()?)),
            Long("png") => png = Some(PathBuf::from(parser.value()?)),
            Long("crops") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                crops = match text.parse() {
                    Ok(count) if (PICTURE_CROPS..=1 << 20).contains(&count) => count,
                    _ => return usage(format!("--crops {text}: at least {PICTURE_CROPS}")),
                };
            }
            Long(name @ ("dtype" | "dtype-bytes" | "sample-rank" | "sample-shape")) => {
                return usage(format!("--{name} is the demo's own"));
            }
            Long(name) => {
                let name = name.to_owned();
                flags.take_or_refuse(&name, parser, "demo")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    feed::set_shape(&mut flags.config, &CROP.map(|extent| extent as u64))?;
    flags.config.dtype = Dtype::F32 as u32;
    let folder = match folder {
        Some(folder) => folder,
        None => cache_folder()?,
    };
    let png = png.unwrap_or_else(|| folder.join("montage.png"));
    Ok(Some(Options { flags, folder, png, crops }))
}

/// $XDG_CACHE_HOME/wavetrain/demo; a relative value is to be ignored, says the standard.
fn cache_folder() -> Outcome<PathBuf> {
    let from = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = from(std::env::var_os("XDG_CACHE_HOME"))
        .or_else(|| from(std::env::var_os("HOME")).map(|home| home.join(".cache")));
    match cache {
        Some(cache) => Ok(cache.join("wavetrain").join("demo")),
        None => usage("neither XDG_CACHE_HOME nor HOME is set: give --dir"),
    }
}

fn prepare_store(options: &Options, cpus: usize) -> Outcome<()> {
    let begin = Instant::now();
    let (disk_bytes, how) = match store::existing(&options.folder) {
        Some(bytes) => (bytes, "found from an earlier run".to_owned()),
        None => {
            let progress = progress(store::CHUNKS, "making the store");
            let bytes = store::make(&options.folder, cpus, &progress)?;
            progress.finish_and_clear();
            (bytes, format!("made in {}", report::seconds_long(begin.elapsed().as_secs_f64())))
        }
    };
    report::print(&format!(
        "store    {}\n         2 volumes of {} u16, {} in {}; {how}\n",
        options.folder.display(),
        report::crosses(&store::SHAPE.map(|extent| extent as u64)),
        report::bytes_long(store::DECODED_BYTES),
        report::bytes_long(disk_bytes),
    ))
}

/// A bar on standard error, where that is a terminal.
fn progress(count: u64, what: &'static str) -> ProgressBar {
    // The target draws only on a terminal.
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    let template = "{msg:22} {bar:40.cyan/blue} {pos}/{len}  {eta} left";
    bar.set_style(
        ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸─"),
    );
    bar.set_message(what);
    bar
}

/// The crops of the picture, then crops at random places.
fn requests(options: &Options) -> Requests {
    let uris =
        store::VOLUMES.map(|(name, _)| options.folder.join(name).to_string_lossy().into_owned());
    let mut requests = Requests::default();
    for number in 0..options.crops {
        let room = |axis: usize| (store::SHAPE[axis] - CROP[axis]) as i64;
        let random = |axis: usize| {
            specimen::random(number as u64, axis as u64, room(axis) as u64 + 1) as i64
        };
        let (begin, volume) = if number < PICTURE_CROPS {
            // Side by side in the specimen, at depths of their own, so that no cell shows twice.
            let (tile, [columns, rows]) = (number / 2, picture::TILES);
            let depth = specimen::random(tile as u64, 9, room(0) as u64 + 1) as i64;
            let across =
                |axis: usize, at: usize, count: usize| room(axis) * at as i64 / (count as i64 - 1);
            let y = across(1, tile / columns, rows);
            (vec![depth, y, across(2, tile % columns, columns)], number % 2)
        } else {
            ((0..3).map(random).collect(), specimen::random(number as u64, 3, 2) as usize)
        };
        let end = begin.iter().zip(CROP).map(|(begin, extent)| begin + extent as i64).collect();
        requests.add(&uris[volume], Extent { begin, end });
    }
    requests
}

/// Streams all crops, compares every voxel with the procedure, and returns the checksum of every
/// batch and the folded crops of the picture.
fn check_pass(
    loader: &Loader,
    options: &Options,
    requests: &Requests,
    cpus: usize,
) -> Outcome<(Vec<u32>, Vec<Option<Fold>>)> {
    let bar = progress(options.crops as u64, "checking every voxel");
    let mut checkers: Vec<Checker> = (0..cpus).map(|_| Checker::new()).collect();
    let mut crcs = Vec::new();
    let mut folds: Vec<Option<Fold>> = (0..PICTURE_CROPS).map(|_| None).collect();
    let mut voxels = 0u64;
    stream(loader, options, requests, |batch| {
        check_batch(batch, requests, &mut checkers)?;
        let data = feed::samples(batch)?;
        crcs.push(crc32fast::hash(&data));
        voxels += (batch.tags().len() * CROP_ELEMENTS) as u64;
        for (tag, sample) in batch.tags().iter().zip(data.chunks_exact(4 * CROP_ELEMENTS)) {
            if let Some(fold) = folds.get_mut((*tag - 1) as usize) {
                *fold = Some(picture::fold(sample, CROP));
            }
        }
        bar.inc(batch.tags().len() as u64);
        Ok(())
    })?;
    bar.finish_and_clear();
    report::print(&format!(
        "checked  {} crops of {}: all {voxels} voxels are what the procedure says\n",
        options.crops,
        report::crosses(&CROP.map(|extent| extent as u64)),
    ))?;
    Ok((crcs, folds))
}

/// Streams all crops again, with nothing but a checksum per batch, and prints the rates.
fn timed_pass(
    loader: &Loader,
    options: &Options,
    requests: &Requests,
    crcs: &[u32],
) -> Outcome<()> {
    let bar = progress(options.crops as u64, "streaming");
    loader.stats_reset().map_err(|failure| Fault::library(&failure))?;
    let mut number = 0;
    let begin = Instant::now();
    stream(loader, options, requests, |batch| {
        if crcs.get(number) != Some(&crc32fast::hash(&feed::samples(batch)?)) {
            return failed(format!("batch {number} differs from the same batch before"));
        }
        number += 1;
        bar.inc(batch.tags().len() as u64);
        Ok(())
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    bar.finish_and_clear();
    if number != crcs.len() {
        return failed(format!("{number} batches instead of {}", crcs.len()));
    }
    let stats = loader.stats().map_err(|failure| Fault::library(&failure))?;
    let rate = options.crops as f64 / seconds;
    report::print(&format!(
        "streamed {} crops in {}: {rate:.1} samples/s, {:.2} GB/s of u16 voxels, {:.2} GB/s of \
         f32 out\n\n{}",
        options.crops,
        report::seconds_long(seconds),
        rate * CROP_ELEMENTS as f64 * 2e-9,
        rate * CROP_ELEMENTS as f64 * 4e-9,
        report::stages_table(&stats),
    ))
}

fn stream(
    loader: &Loader,
    options: &Options,
    requests: &Requests,
    mut take: impl FnMut(&Batch<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let indexes = 0..requests.items.len();
    let timeout_ns = options.flags.config.pop_timeout_ns;
    feed::stream(loader, requests, indexes, timeout_ns, &mut take)
        .map_err(|stop| feed::stop_fault(stop, requests))
}

/// What a thread needs to paint a crop again.
struct Checker {
    painters: [Painter; 2],
    voxels: Vec<u16>,
}

impl Checker {
    fn new() -> Checker {
        Checker {
            painters: store::VOLUMES.map(|(_, stain)| Painter::new(stain)),
            voxels: vec![0; CROP_ELEMENTS],
        }
    }

    /// Compares the f32 bytes of a crop with the procedure.
    fn check(&mut self, sample: &[u8], requests: &Requests, index: usize) -> Outcome<()> {
        let (volume, extent) = &requests.items[index];
        let begin = [extent.begin[0], extent.begin[1], extent.begin[2]];
        // The first request for the picture is of volume 0, the second of volume 1.
        self.painters[*volume].paint(begin, CROP, &mut self.voxels);
        let pairs = sample.chunks_exact(4).zip(&self.voxels);
        for (number, (bytes, voxel)) in pairs.enumerate() {
            let expected = f32::from(*voxel);
            if bytes != expected.to_le_bytes() {
                let value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let [z, y, x] =
                    [number / CROP[2] / CROP[1], number / CROP[2] % CROP[1], number % CROP[2]];
                return failed(format!(
                    "{}: voxel [{z}, {y}, {x}] is {value}, not {expected}",
                    requests.name(index)
                ));
            }
        }
        Ok(())
    }
}

/// Checks the samples of a batch, on as many threads as there are checkers.
fn check_batch(batch: &Batch<'_>, requests: &Requests, checkers: &mut [Checker]) -> Outcome<()> {
    let data = feed::samples(batch)?;
    let samples = data.chunks_exact(4 * CROP_ELEMENTS).zip(batch.tags());
    if batch.statuses().iter().any(|status| *status != 0) {
        return failed("a crop of the demo's own store failed");
    }
    let waiting = Mutex::new(samples);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let workers: Vec<_> = checkers
            .iter_mut()
            .map(|checker| {
                scope.spawn(|| {
                    while let Some((sample, tag)) = next() {
                        checker.check(sample, requests, (*tag - 1) as usize)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let outcomes = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| failed("a checking thread panicked")));
        outcomes.collect()
    })
}
