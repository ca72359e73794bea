//! Checks of what one bad sample costs: the batches before it, the error with its names, and what
//! is left after it. And copies of fixtures with one chunk at hand to be damaged.

use crate::common::drive::{
    Job, PATIENCE_NS, Span, config, first_failure, open, samples, stream, stream_through, tag,
};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::synth::{Meta, Shard};
use std::fs;
use std::path::{Path, PathBuf};
use wavetrain::config::{Config, ON_ERROR_SKIP};
use wavetrain::loader::{Failure, Loader, Pop};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// A box that must fail, and how.
pub struct Bad {
    pub uri: String,
    pub span: Span,
    pub status: Status,
    /// Where one chunk is to blame: its coordinates.
    pub chunk: Option<Vec<u64>>,
    /// A word of the text.
    pub says: &'static str,
}

pub fn u16_config(shape: &[u64], samples_per_batch: usize) -> Config {
    let mut config = config(Dtype::U16, shape, samples_per_batch);
    config.lookahead_samples = 16;
    config.pad_value_set = 1;
    config.pad_value = 0xABCD.into();
    config
}

/// A sound array of one chunk that is just the box.
pub fn good_job(scratch: &Scratch, name: &str, shape: &[u64]) -> Job {
    let count = shape.iter().product::<u64>() as u16;
    let pixels: Vec<u8> = (1000..1000 + count).flat_map(u16::to_le_bytes).collect();
    let uri = Meta::u16(shape, shape, None).write(scratch, name, Some(&pixels));
    Job::new(&uri, shape.iter().map(|&extent| (0, extent as i64)).unzip(), pixels)
}

/// The whole promise about one bad sample: the batches before it, the error with its names, that
/// it stays, that reset clears it, and that skipping costs that sample alone.
pub fn check_with(scratch: &Scratch, bad: &Bad, change: impl Fn(&mut Config)) {
    let job = Job::failing(&bad.uri, bad.span.clone(), bad.status);
    let good = good_job(scratch, "good", &job.extents());
    let mut config = u16_config(&job.extents(), 1);
    change(&mut config);
    let jobs = [good.clone(), good.clone(), job.clone(), good.clone()];
    let loader = open(&config);
    let (before, failure) = first_failure(&loader, &jobs);
    assert_eq!((before, failure.status), (2, bad.status), "{failure}");
    assert_eq!((failure.batch_id, failure.sample), (2, 0), "{failure}");
    assert_eq!(failure.tag, tag(2), "{failure}");
    check_text(bad, &failure);
    check_sticky(&loader, &jobs[0], &failure);
    loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
    stream_through(&loader, &config, &jobs[..2], 0);
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));

    config.samples_per_batch = 3;
    config.on_error = ON_ERROR_SKIP;
    stream(&config, &[good.clone(), job.clone(), good.clone(), good.clone(), good, job]);
}

pub fn check(scratch: &Scratch, bad: &Bad) {
    check_with(scratch, bad, |_| {});
}

pub fn check_text(bad: &Bad, failure: &Failure) {
    let text = failure.text.as_str();
    assert!(text.contains(&bad.uri), "the text names {}: {text}", bad.uri);
    assert!(text.contains(bad.says), "the text says {:?}: {text}", bad.says);
    if let Some(chunk) = &bad.chunk {
        assert_eq!(&failure.chunk[..], &chunk[..], "{text}");
    }
}

pub fn check_sticky(loader: &Loader, good: &Job, first: &Failure) {
    for _ in 0..2 {
        let again = loader.pop(0).err().expect("the error is sticky");
        assert_eq!((again.status, again.tag), (first.status, first.tag));
        let pushed = loader.push(&[good.request(0)], 0).expect_err("push says so too");
        assert_eq!(pushed.status, first.status);
    }
}

/// A private copy of a fixture, one of its shards to be damaged, and a box over one chunk of it.
pub struct Site {
    pub store: &'static Store,
    pub file: PathBuf,
    pub uri: String,
    /// Number of the chunk in its shard.
    pub entry: usize,
    pub chunk: Vec<u64>,
}

impl Site {
    /// The first file of a sharded store; `entry` must be a chunk of it.
    pub fn new(scratch: &Scratch, name: &str, copy: &str, entry: usize) -> Site {
        let store = fixtures::store(name);
        let root = scratch.copy_of(store, copy);
        let file = root.join("c").join(vec!["0"; store.chunk.len()].join("/"));
        let shard = store.shard.as_ref().expect("sharded");
        let counts: Vec<u64> = shard.iter().zip(&store.chunk).map(|(s, c)| s / c).collect();
        let mut rest = entry as u64;
        let mut chunk = vec![0; counts.len()];
        for axis in (0..counts.len()).rev() {
            chunk[axis] = rest % counts[axis];
            rest /= counts[axis];
        }
        Site { store, file, uri: root.to_str().expect("UTF-8").to_string(), entry, chunk }
    }

    pub fn entry_count(&self) -> usize {
        let shard = self.store.shard.as_ref().expect("sharded");
        shard.iter().zip(&self.store.chunk).map(|(s, c)| (s / c) as usize).product()
    }

    pub fn shard(&self) -> Shard {
        Shard::open(&self.file, self.entry_count())
    }

    /// The box of the chunk.
    pub fn span(&self) -> Span {
        let axes = self.chunk.iter().zip(&self.store.chunk).zip(&self.store.image.shape);
        axes.map(|((n, edge), extent)| ((n * edge) as i64, ((n + 1) * edge).min(*extent) as i64))
            .unzip()
    }

    pub fn bad(&self, says: &'static str) -> Bad {
        let chunk = Some(self.chunk.clone());
        Bad { uri: self.uri.clone(), span: self.span(), status: Status::Decode, chunk, says }
    }
}

/// Status and bytes of every job under on_error = skip, all through one loader.
pub fn outcomes(config: &Config, jobs: &[Job]) -> Vec<(Option<Status>, Vec<u8>)> {
    let config = Config { on_error: ON_ERROR_SKIP, ..*config };
    let loader = open(&config);
    let mut seen = Vec::new();
    let mut pushed = 0;
    while seen.len() < jobs.len() {
        let end = jobs.len().min(pushed + 8);
        let requests: Vec<_> = (pushed..end).map(|n| jobs[n].request(n)).collect();
        if !requests.is_empty() {
            pushed += loader.push(&requests, 0).unwrap_or_else(|f| panic!("push: {f}"));
        }
        if pushed == jobs.len() {
            loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
        }
        match loader.pop(PATIENCE_NS) {
            Ok(Pop::Batch(batch)) => {
                let data = samples(&batch);
                let rows = data.chunks(data.len() / batch.tags().len());
                let statuses = batch.statuses().iter().map(|code| Status::from_code(*code));
                seen.extend(statuses.zip(rows.map(<[u8]>::to_vec)));
            }
            Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("not now: {}", why.as_str()),
            Ok(Pop::End | Pop::Reset) => panic!("the end"),
            Err(failure) => panic!("pop: {failure}"),
        }
    }
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    seen
}

/// Copies of an array, each with another content of one file; the box of each.
pub fn variants(
    scratch: &Scratch,
    store: &Store,
    key: &Path,
    span: &Span,
    contents: impl Iterator<Item = Vec<u8>>,
) -> Vec<Job> {
    let meta = Path::new(&store.uri).join("zarr.json");
    let folder = |n: usize| scratch.path("variants").join(n.to_string());
    contents
        .enumerate()
        .map(|(n, content)| {
            let file = folder(n).join(key);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::copy(&meta, folder(n).join("zarr.json")).expect("zarr.json");
            fs::write(file, content).expect("the file");
            let uri = folder(n).to_str().expect("UTF-8").to_string();
            Job::failing(&uri, span.clone(), Status::Decode)
        })
        .collect()
}

/// Every content with one bit flipped in each byte of `range`; the bit goes round.
pub fn flips(content: Vec<u8>, range: std::ops::Range<usize>) -> impl Iterator<Item = Vec<u8>> {
    range.map(move |at| {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        flipped
    })
}
