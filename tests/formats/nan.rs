//! Chunks that cannot be read are NaN (`on_error = nan`), on the host and on the simulated device,
//! in every mode of threads: every other element is there, and only samples that read one are
//! marked. Which chunks are bad is known from the files that the test spoils.

use crate::common::drive::{
    Dice, Job, PATIENCE_NS, Span, config, in_hook_mode, open, stream, stream_as_configured, tag,
};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::oracle::{Image, cast, has_cast};
use crate::common::synth::Meta;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wavetrain::config::{Config, MISSING_ERROR, ON_ERROR_NAN, ON_ERROR_SKIP, THREADS_PUMP};
use wavetrain::loader::{Failure, Loader, Pop};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// NaN in a type.
fn nan(dtype: Dtype) -> Vec<u8> {
    cast(Dtype::F64, dtype, &f64::NAN.to_le_bytes())
}

/// The files of chunks under a folder, with their coordinates.
fn chunk_files(root: &Path) -> Vec<(PathBuf, Vec<u64>)> {
    let (mut folders, mut files) = (vec![root.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
            let key = key.strip_prefix("c/").unwrap_or(&key).replace('.', "/");
            let numbers: Option<Vec<u64>> = key.split('/').map(|name| name.parse().ok()).collect();
            match (path.is_dir(), numbers) {
                (true, _) => folders.push(path),
                (false, Some(numbers)) => files.push((path, numbers)),
                (false, None) => {}
            }
        }
    }
    files.sort();
    files
}

/// A copy of a store, some of its files spoiled so that nothing of them decodes.
struct Spoiled {
    uri: String,
    /// Coordinates of the spoiled files.
    files: Vec<Vec<u64>>,
    /// Extents of a file.
    file: Vec<u64>,
}

impl Spoiled {
    fn new(scratch: &Scratch, store: &Store, name: &str, dice: &mut Dice) -> Spoiled {
        let root = scratch.copy_of(store, name);
        let all = chunk_files(&root);
        assert!(!all.is_empty(), "{}", store.name);
        let always = dice.range(0, all.len() as i64) as usize;
        let mut files = Vec::new();
        for (at, (path, numbers)) in all.into_iter().enumerate() {
            if at != always && dice.range(0, 3) > 0 {
                continue;
            }
            let content = fs::read(&path).unwrap();
            // Uncompressed bytes are right whatever they are, but not fewer of them.
            let cut = content.len() - usize::from(store.shard.is_none());
            fs::write(&path, vec![0x5A; cut]).unwrap();
            files.push(numbers);
        }
        let file = store.shard.clone().unwrap_or_else(|| store.chunk.clone());
        Spoiled { uri: root.to_str().unwrap().to_string(), files, file }
    }

    /// The whole array in `dtype`, spoiled files as NaN.
    fn image(&self, store: &Store, dtype: Dtype) -> Image {
        let Image { shape, pixels, .. } = &store.image;
        let (mut cast_pixels, nan) = (cast(store.image.dtype, dtype, pixels), nan(dtype));
        for (element, place) in cast_pixels.chunks_exact_mut(nan.len()).enumerate() {
            let mut rest = element as u64;
            let mut at = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                (at[axis], rest) = (rest % shape[axis] / self.file[axis], rest / shape[axis]);
            }
            if self.files.contains(&at) {
                place.copy_from_slice(&nan);
            }
        }
        Image::new(dtype, shape.clone(), Arc::new(cast_pixels), nan)
    }

    /// A box, which is marked if it touches a spoiled file.
    fn job(&self, image: &Image, span: &Span) -> Job {
        let touches = |file: &Vec<u64>| {
            let axes = span.0.iter().zip(&span.1).zip(file.iter().zip(&self.file));
            axes.into_iter().all(|((begin, end), (number, extent))| {
                ((number * extent) as i64) < *end && *begin < ((number + 1) * extent) as i64
            })
        };
        let mark = if self.files.iter().any(touches) { Status::Decode } else { Status::Ok };
        let want = image.inside(&span.0, &span.1);
        Job { mark, ..Job::new(&self.uri, span.clone(), want) }
    }
}

/// Boxes of one shape in several places.
fn spans(store: &Store, dice: &mut Dice) -> Vec<Span> {
    let extents: Vec<i64> =
        store.image.shape.iter().map(|extent| dice.range(1, *extent as i64 + 1)).collect();
    let span = |_| {
        let places = store.image.shape.iter().zip(&extents);
        places
            .map(|(shape, extent)| {
                let begin = dice.range(0, *shape as i64 - extent + 1);
                (begin, begin + extent)
            })
            .unzip()
    };
    (0..6).map(span).collect()
}

fn nan_config(dtype: Dtype, jobs: &[Job]) -> Config {
    Config { on_error: ON_ERROR_NAN, pad_value: 7.0, ..config(dtype, &jobs[0].extents(), 2) }
}

/// Streams with threads of the loader, by pumping, by jobs of the host, and with a chunk cache.
fn stream_all_ways(config: &Config, jobs: &[Job]) {
    stream(config, jobs);
    stream(&Config { thread_mode: THREADS_PUMP, ..*config }, jobs);
    stream_as_configured(&in_hook_mode(config), jobs);
    stream(&Config { chunk_cache_bytes: 4 << 20, ..*config }, jobs);
}

#[test]
fn bad_chunks_are_nan_and_every_other_element_is_there() {
    let (scratch, mut dice) = (Scratch::new(), Dice(7));
    let is_taken = |store: &&Store| {
        let rank = store.image.shape.len();
        store.edges.is_none() && (1..=4).contains(&rank) && has_cast(store.image.dtype, Dtype::F32)
    };
    let (mut count, mut marked, mut families) = (0, 0, BTreeSet::new());
    for store in fixtures::all().iter().filter(is_taken).step_by(12) {
        if chunk_files(Path::new(&store.uri)).is_empty() {
            continue;
        }
        let spoiled = Spoiled::new(&scratch, store, &format!("{count}"), &mut dice);
        let dtype = [Dtype::F32, Dtype::F16, Dtype::Bf16][count % 3];
        let image = spoiled.image(store, dtype);
        let jobs: Vec<Job> =
            spans(store, &mut dice).iter().map(|span| spoiled.job(&image, span)).collect();
        stream_all_ways(&nan_config(dtype, &jobs), &jobs);
        marked += jobs.iter().filter(|job| job.mark != Status::Ok).count();
        families.insert(&store.family);
        count += 1;
    }
    assert!(count > 30 && marked > 50 && families.len() > 4, "{count} {marked} {families:?}");
}

/// A loader's list of bad chunks, as the stream of jobs left it.
fn listed(config: &Config, jobs: &[Job]) -> (Vec<Failure>, u64) {
    let loader = open(config);
    for (at, job) in jobs.iter().enumerate() {
        assert_eq!(loader.push(&[job.request(at)], PATIENCE_NS).unwrap_or(0), 1);
    }
    loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
    while let Ok(Pop::Batch(_)) = loader.pop(PATIENCE_NS) {}
    let bad = (0..).map_while(|number| loader.bad_chunk(number).unwrap_or(None)).collect();
    let count = loader.stats().map_or(0, |stats| stats.bad_chunks);
    assert!(loader.bad_chunk(64).is_ok_and(|none| none.is_none()));
    loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
    assert!(loader.bad_chunk(0).is_ok_and(|none| none.is_none()), "reset clears the list");
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    (bad, count)
}

/// An array of 100 chunks of one element, all of which lack.
fn absent(scratch: &Scratch) -> Vec<Job> {
    let uri = Meta::u16(&[100], &[1], None).write(scratch, "absent", None);
    let job = |at| Job::new(&uri, (vec![at], vec![at + 1]), nan(Dtype::F32));
    (0..100).map(|at| Job { mark: Status::NotFound, ..job(at) }).collect()
}

#[test]
fn each_bad_chunk_is_listed_once_with_its_first_sample_up_to_64() {
    let scratch = Scratch::new();
    let mut jobs = absent(&scratch);
    jobs.truncate(70);
    let twice: Vec<Job> = jobs[..3].iter().chain(&jobs[..3]).cloned().collect();
    let base = Config { missing_chunks: MISSING_ERROR, ..nan_config(Dtype::F32, &jobs) };
    stream_all_ways(&base, &jobs);
    for on_error in [ON_ERROR_NAN, ON_ERROR_SKIP] {
        let config = Config { on_error, ..base };
        let (bad, count) = listed(&config, &twice);
        assert_eq!((bad.len(), count), (3, 6));
        for (at, failure) in bad.iter().enumerate() {
            assert_eq!(failure.status, Status::NotFound);
            assert_eq!((&failure.chunk[..], failure.tag), (&[at as u64][..], tag(at)));
            assert_eq!((failure.batch_id, failure.sample), (at as u64 / 2, at as u32 % 2));
            let text = failure.text.as_str();
            assert!(text.contains("does not exist") && text.contains("absent"), "{text}");
        }
        let (bad, count) = listed(&config, &jobs);
        assert_eq!((bad.len(), count), (64, 70));
    }
}

#[test]
fn samples_that_fail_by_no_chunk_are_all_nan() {
    let scratch = Scratch::new();
    let mut jobs = absent(&scratch);
    jobs[1].uri = scratch.uri("lacks");
    (jobs[3].begin, jobs[3].end, jobs[3].mark) = (vec![100], vec![101], Status::Invalid);
    let config = Config { missing_chunks: MISSING_ERROR, ..nan_config(Dtype::F32, &jobs) };
    stream_all_ways(&config, &jobs[..8]);
}

#[test]
fn a_loader_whose_fields_hold_no_nan_is_refused() {
    for dtype in [Dtype::I32, Dtype::U16] {
        let config = Config { on_error: ON_ERROR_NAN, ..config(dtype, &[4], 1) };
        let failure = Loader::open(&config).err().expect("refused");
        assert_eq!(failure.status, Status::Invalid);
        let text = failure.text.as_str();
        assert!(text.contains("on_error = nan") && text.contains("skip"), "{text}");
    }
}
