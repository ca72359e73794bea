//! `wavetrain demo`: one command that shows everything at work on data it makes itself.
//!
//! It makes a store (or finds it), streams samples of an image, its mask and a label and compares
//! every element of every batch with the procedure. Then it streams them again at full speed,
//! compares every batch with the first time, prints the rates of that second pass, and draws what
//! came out.

mod check;
mod picture;
mod specimen;
mod store;

use crate::fault::{Fault, Outcome, failed, usage};
use crate::feed;
use crate::fields::{ConfigFlags, fields_help};
use crate::progress::Progress;
use crate::report;
use crate::samples::{Fields, Samples};
use check::{Checker, Elements};
use picture::Tile;
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;
use wavetrain::loader::{Batch, Loader};

const HELP: &str = "\
Makes a small store, streams random samples from it, checks every element, prints rates and draws.

  wavetrain demo [--dir DIR] [--png FILE] [--crops N] [config flags]

      --dir DIR         where the store is kept [$XDG_CACHE_HOME/wavetrain/demo, else
                        ~/.cache/wavetrain/demo]; about 95 MB
      --png FILE        path of the picture [montage.png in DIR]
      --crops N         samples to stream [128]

The store is two volumes of 192 x 512 x 512 u16 voxels and their mask in u8, zarr v3, sharded, zstd.
A sample is four boxes for three fields:
  image   f32, 2 x 64 x 128 x 128: the same place of both volumes
  mask    u8, 64 x 128 x 128: that place of the mask, 1 in a cell and 2 in its nucleus
  label   i64: the number of cells in it, a value that is pushed with the boxes
The picture has image, mask and label side by side; the first ones are drawn as text, too. Exit code
0 only if every element is what it must be.

Config (sizes take suffixes: 64MiB, 4k); sample shape and dtype are the demo's own:
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", fields_help())
}

/// Extents of a crop.
const CROP: [usize; 3] = [64, 128, 128];
const CROP_ELEMENTS: usize = CROP[0] * CROP[1] * CROP[2];
/// Bytes of a sample in a batch.
const SAMPLE_BYTES: usize = (2 * 4 + 1) * CROP_ELEMENTS + 8;
/// The first samples are for the picture.
const PICTURE_SAMPLES: usize = picture::TILES[0] * picture::TILES[1];

struct Options {
    flags: ConfigFlags,
    folder: PathBuf,
    png: PathBuf,
    crops: usize,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(mut options) = options(parser)? else { return Ok(()) };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    prepare_store(&options, cpus)?;

    let places: Vec<_> = (0..options.crops).map(place).collect();
    let samples = samples(&options, &places)?;
    options.flags.config = samples.prepare(&options.flags)?.0;
    let loader = feed::open(&options.flags.config).map_err(|failure| Fault::library(&failure))?;
    let (crcs, tiles) = check_pass(&loader, &options, (&samples, &places), cpus)?;
    timed_pass(&loader, &options, &samples, &crcs)?;
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;
    if tiles.len() != PICTURE_SAMPLES {
        return failed("a sample of the picture did not come out");
    }
    picture::write(&options.png, &tiles)?;
    let drawn = picture::text(&tiles[0]);
    report::print(&format!("\n{drawn}\npicture  {}\n", options.png.display()))
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short};
    let mut flags = ConfigFlags::new();
    flags.config.samples_per_batch = 8;
    let (mut folder, mut png, mut crops) = (None, None, 128);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Long("dir") => folder = Some(PathBuf::from(parser.value()?)),
            Long("png") => png = Some(PathBuf::from(parser.value()?)),
            Long("crops") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                crops = match text.parse() {
                    Ok(count) if (PICTURE_SAMPLES..=1 << 20).contains(&count) => count,
                    _ => return usage(format!("--crops {text}: at least {PICTURE_SAMPLES}")),
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
            let progress = Progress::begin(Some(store::CHUNKS), "making the store");
            let bytes = store::make(&options.folder, cpus, &progress)?;
            drop(progress);
            (bytes, format!("made in {}", report::seconds_long(begin.elapsed().as_secs_f64())))
        }
    };
    report::print(&format!(
        "store    {}\n         2 volumes of {} u16 and their mask, {} in {}; {how}\n",
        options.folder.display(),
        report::crosses(&store::SHAPE.map(|extent| extent as u64)),
        report::bytes_long(store::DECODED_BYTES),
        report::bytes_long(disk_bytes),
    ))
}

/// Where a sample begins: those of the picture side by side in the specimen, at depths of their
/// own, so that no cell shows twice; the others at random.
fn place(number: usize) -> [i64; 3] {
    let room = |axis: usize| (store::SHAPE[axis] - CROP[axis]) as u64;
    let random = |axis: usize| specimen::random(number as u64, axis as u64, room(axis) + 1) as i64;
    if number >= PICTURE_SAMPLES {
        return [random(0), random(1), random(2)];
    }
    let [columns, rows] = picture::TILES;
    let across = |axis: usize, at: usize, count: usize| room(axis) as usize * at / (count - 1);
    let [y, x] = [across(1, number / columns, rows), across(2, number % columns, columns)];
    [random(0), y as i64, x as i64]
}

/// The samples, as `crop --fields` reads them from its files.
fn samples(options: &Options, places: &[[i64; 3]]) -> Outcome<Samples> {
    let fields = json!([
        {"name": "image", "sample_shape": [2, CROP[0], CROP[1], CROP[2]], "dtype": "f32"},
        {"name": "mask", "sample_shape": CROP, "dtype": "u8"},
        {"name": "label", "dtype": "i64"},
    ]);
    let uris = store::VOLUMES.map(|(name, _)| options.folder.join(name));
    let fields = Fields::from_value(&fields).map_err(Fault::Failed)?;
    let fields: &'static Fields = Box::leak(Box::new(fields));
    let mut samples = Samples::beginning_at(0, fields);
    for place in places {
        let crop: [_; 3] =
            std::array::from_fn(|axis| [place[axis], place[axis] + CROP[axis] as i64]);
        let sample = json!({"boxes": [
            {"field": "image", "uri": uris[0], "box": crop, "axes": [1, 2, 3]},
            {"field": "image", "uri": uris[1], "box": crop, "axes": [1, 2, 3], "at": [1, 0, 0, 0]},
            {"field": "mask", "uri": uris[2], "box": crop},
            {"field": "label", "value": specimen::cells_in(*place, CROP)},
        ]});
        samples.add(&sample).map_err(Fault::Failed)?;
    }
    Ok(samples)
}

/// Streams all samples, compares every element with the procedure, and returns the checksums of
/// every batch and the tiles of the picture.
fn check_pass(
    loader: &Loader,
    options: &Options,
    (samples, places): (&Samples, &[[i64; 3]]),
    cpus: usize,
) -> Outcome<(Vec<[u32; 3]>, Vec<Tile>)> {
    let bar = Progress::begin(Some(options.crops as u64), "checking every voxel");
    let mut checkers: Vec<Checker> = (0..cpus).map(|_| Checker::new()).collect();
    let (mut crcs, mut tiles) = (Vec::new(), Vec::new());
    let mut count = 0;
    stream(loader, options, samples, &bar, |tags, elements| {
        check::check_batch(tags, elements, (samples, places), &mut checkers)?;
        crcs.push(elements.map(crc32fast::hash));
        for number in 0..tags.len().min(PICTURE_SAMPLES - tiles.len()) {
            tiles.push(Tile::of(check::row(elements, number, tags.len()), CROP));
        }
        count += tags.len();
        Ok(())
    })?;
    drop(bar);
    report::print(&format!(
        "checked  {count} samples of image, mask and label: all {} voxels and every label are \
         right\n",
        3 * count * CROP_ELEMENTS,
    ))?;
    Ok((crcs, tiles))
}

/// Streams all samples again, with nothing but checksums, and prints the rates.
fn timed_pass(
    loader: &Loader,
    options: &Options,
    samples: &Samples,
    crcs: &[[u32; 3]],
) -> Outcome<()> {
    let bar = Progress::begin(Some(options.crops as u64), "streaming");
    loader.stats_reset().map_err(|failure| Fault::library(&failure))?;
    let mut number = 0;
    let begin = Instant::now();
    stream(loader, options, samples, &bar, |_, elements| {
        if crcs.get(number) != Some(&elements.map(crc32fast::hash)) {
            return failed(format!("batch {number} differs from the same batch before"));
        }
        number += 1;
        Ok(())
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(bar);
    if number != crcs.len() {
        return failed(format!("{number} batches instead of {}", crcs.len()));
    }
    let stats = loader.stats().map_err(|failure| Fault::library(&failure))?;
    let rate = options.crops as f64 / seconds;
    report::print(&format!(
        "streamed {} samples in {}: {rate:.1} samples/s, {:.2} GB/s of source voxels, {:.2} GB/s \
         out\n\n{}",
        options.crops,
        report::seconds_long(seconds),
        rate * (store::VOXEL_BYTES as usize * CROP_ELEMENTS) as f64 * 1e-9,
        rate * SAMPLE_BYTES as f64 * 1e-9,
        report::stages_table(&stats),
    ))
}

/// Hands tags and fields of every batch to `take`.
fn stream(
    loader: &Loader,
    options: &Options,
    samples: &Samples,
    bar: &Progress,
    mut take: impl FnMut(&[u64], &Elements<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let mut receive = |batch: &Batch<'_>| {
        if batch.statuses().iter().any(|status| *status != 0) {
            return failed("a sample of the demo's own store failed");
        }
        let field = |number| batch.field(number).map_err(|failure| Fault::library(&failure));
        let views = [field(0)?, field(1)?, field(2)?];
        let [image, mask, label] = views.each_ref().map(|view| feed::elements(batch, view));
        take(batch.tags(), &[&image?, &mask?, &label?])
    };
    let timeout_ns = options.flags.config.pop_timeout_ns;
    feed::stream(loader, samples, 0..options.crops, timeout_ns, bar, &mut receive)
        .map_err(|stop| feed::stop_fault(stop, samples))
}
