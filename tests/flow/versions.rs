//! Files that are replaced or rewritten between two batches: the next batch has the new version, a
//! batch never has two, and reset is not needed.

use crate::common::drive::{
    Job, PATIENCE_NS, config, first_failure, open, samples, stream_through,
};
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::npy;
use crate::common::store::{self, Spec};
use crate::common::synth::Meta;
use std::ffi::{CStr, c_char, c_void};
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, SystemTime};
use wavetrain::abi::{FILE_ABSENT, FilesHook, ProfilerHook, Stats};
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// How a writer brings a new version of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// A new file is renamed over the old one.
    Rename,
    /// The same, and the new file has the time of change of the old one.
    RenameWithOldTime,
    /// The file is truncated and written again.
    InPlace,
    /// The same within one tick of a clock of seconds: size, inode and time stay.
    InOneTick,
}

const WAYS: [Way; 3] = [Way::Rename, Way::RenameWithOldTime, Way::InPlace];

/// Times of change differ by whole seconds, so that no clock decides.
static SECONDS: AtomicU64 = AtomicU64::new(1);

fn set_time(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).expect("the file");
    file.set_times(FileTimes::new().set_modified(time)).expect("a time");
}

/// Writes `bytes` as the next version of a file.
fn replace(path: &Path, bytes: &[u8], way: Way) {
    if way == Way::InOneTick {
        return rewrite_in_one_tick(path, bytes);
    }
    let second = Duration::from_secs(SECONDS.fetch_add(1, SeqCst));
    let fresh = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000) + second;
    if way == Way::InPlace {
        fs::write(path, bytes).expect("the file");
        return set_time(path, fresh);
    }
    let old = fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(fresh);
    let aside = path.with_extension("aside");
    fs::write(&aside, bytes).expect("the file aside");
    set_time(&aside, if way == Way::RenameWithOldTime { old } else { fresh });
    fs::rename(aside, path).expect("a rename");
}

/// The first version has the whole second that is next, and those after it have the same one.
fn rewrite_in_one_tick(path: &Path, bytes: &[u8]) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let next = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() + 1);
    let old = fs::metadata(path).and_then(|old| old.modified()).expect("a time");
    fs::write(path, bytes).expect("the file");
    let is_first = old + Duration::from_secs(1000) < next;
    set_time(path, if is_first { next } else { old });
}

/// The kinds of stores: all have an array of 8 x 16 u16, element n of version v is v * 1000 + n.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Shard,
    ZstdChunks,
    RawChunks,
    Npy,
    Raw,
    Parts,
}

const KINDS: [Kind; 6] =
    [Kind::Shard, Kind::ZstdChunks, Kind::RawChunks, Kind::Npy, Kind::Raw, Kind::Parts];

const ROWS: u64 = 8;
const COLUMNS: u64 = 16;

fn elements(version: u64, first_row: u64, rows: u64) -> Vec<u8> {
    let numbers = first_row * COLUMNS..(first_row + rows) * COLUMNS;
    numbers.flat_map(|n| ((version * 1000 + n) as u16).to_le_bytes()).collect()
}

fn encoded(kind: Kind, version: u64, first_row: u64, rows: u64) -> Vec<u8> {
    let raw = elements(version, first_row, rows);
    match kind {
        // Levels differ, and so does the size.
        Kind::Shard | Kind::ZstdChunks => {
            let mut frame = zstd::encode_all(&raw[..], 1).expect("a frame");
            let mut padded = 0x184D_2A50u32.to_le_bytes().to_vec();
            padded.extend((version as u32 % 5).to_le_bytes());
            padded.extend(vec![7; version as usize % 5]);
            if version % 2 == 1 {
                padded.append(&mut frame);
                return padded;
            }
            frame
        }
        _ => raw,
    }
}

/// Files of a version: the path below the store's folder, and its bytes.
fn files(kind: Kind, version: u64) -> Vec<(String, Vec<u8>)> {
    let half = |row: u64| encoded(kind, version, row, ROWS / 2);
    match kind {
        Kind::Shard => {
            let chunks = [half(0), half(ROWS / 2)];
            let first = chunks[0].len() as u64;
            let entries = [(0, first), (first, chunks[1].len() as u64)];
            let bytes = crate::common::synth::shard_bytes(&chunks.concat(), &entries);
            vec![("c/0/0".to_string(), bytes)]
        }
        Kind::ZstdChunks | Kind::RawChunks => {
            vec![("c/0/0".to_string(), half(0)), ("c/1/0".to_string(), half(ROWS / 2))]
        }
        Kind::Npy => {
            let data = elements(version, 0, ROWS);
            vec![("a.npy".to_string(), npy::file("<u2", false, &[ROWS, COLUMNS], &data))]
        }
        Kind::Raw => vec![("a.bin".to_string(), elements(version, 0, ROWS))],
        Kind::Parts => [0, 1]
            .map(|part| {
                let data = elements(version, part * ROWS / 2, ROWS / 2);
                let bytes = npy::file("<u2", false, &[ROWS / 2, COLUMNS], &data);
                (format!("part_{part:04}.npy"), bytes)
            })
            .to_vec(),
    }
}

fn write(scratch: &Scratch, kind: Kind, version: u64, way: Way) -> String {
    let folder: PathBuf = scratch.path("store");
    let zstd = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
    let (shape, chunk) = ([ROWS, COLUMNS], [ROWS / 2, COLUMNS]);
    let mut meta = match kind {
        Kind::Shard => Meta::u16(&shape, &chunk, Some(&shape)),
        _ => Meta::u16(&shape, &chunk, None),
    };
    if matches!(kind, Kind::Shard | Kind::ZstdChunks) {
        meta.codecs = zstd;
    }
    fs::create_dir_all(folder.join("c/0")).expect("folders");
    fs::create_dir_all(folder.join("c/1")).expect("folders");
    let is_zarr = matches!(kind, Kind::Shard | Kind::ZstdChunks | Kind::RawChunks);
    if is_zarr && version == 0 {
        fs::write(folder.join("zarr.json"), meta.text()).expect("zarr.json");
    }
    for (name, bytes) in files(kind, version) {
        replace(&folder.join(name), &bytes, way);
    }
    let folder = folder.to_str().expect("UTF-8").to_string();
    match kind {
        Kind::Npy => format!("{folder}/a.npy"),
        Kind::Raw => format!("raw:{folder}/a.bin?dtype=u16&shape={ROWS},{COLUMNS}"),
        Kind::Parts => format!("{folder}/part_*.npy"),
        _ => folder,
    }
}

fn whole(uri: &str, version: u64) -> Job {
    let span = (vec![0, 0], vec![ROWS as i64, COLUMNS as i64]);
    Job::new(uri, span, elements(version, 0, ROWS))
}

fn stats(loader: &Loader) -> Stats {
    loader.stats().unwrap_or_else(|failure| panic!("{failure}"))
}

fn whole_config() -> Config {
    Config { max_npy_files: 16, ..config(Dtype::U16, &[ROWS, COLUMNS], 1) }
}

/// Configs that keep much, little, and decoded chunks.
fn configs() -> Vec<Config> {
    let base = whole_config();
    let mut configs = vec![Config { map_uncompressed: 1, ..base }];
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        for chunk_cache_bytes in [0, 1 << 20] {
            for files in [1, 64] {
                configs.push(Config {
                    thread_mode,
                    chunk_cache_bytes,
                    n_chunk_layout_cache: files,
                    n_shard_index_cache: files,
                    ..base
                });
            }
        }
    }
    configs
}

#[test]
fn the_next_batch_has_the_new_version_of_a_file_that_was_replaced() {
    // With the old time, size alone may differ, or the inode alone.
    for kind in KINDS {
        for way in WAYS {
            for config in configs() {
                let scratch = Scratch::new();
                let uri = write(&scratch, kind, 0, way);
                let loader = open(&config);
                for version in 0..4 {
                    if version > 0 {
                        write(&scratch, kind, version, way);
                    }
                    let job = whole(&uri, version);
                    stream_through(&loader, &config, &[job.clone(), job], version * 2);
                }
                loader.close(u64::MAX).unwrap_or_else(|failure| panic!("{failure}"));
            }
        }
    }
}

#[test]
fn a_file_that_changes_within_one_tick_of_its_clock_is_not_cached() {
    let sizes = |kind, version| files(kind, version).into_iter().map(|(_, bytes)| bytes.len());
    for kind in KINDS {
        let of_one_size =
            |size: u64| (1..65).filter(move |v| sizes(kind, *v).eq(sizes(kind, size)));
        let versions = (1..65).map(|size| of_one_size(size).take(2).collect::<Vec<_>>());
        let versions = versions.max_by_key(Vec::len).expect("some");
        assert_eq!(versions.len(), 2, "{kind:?}");
        for config in configs() {
            let scratch = Scratch::new();
            let uri = write(&scratch, kind, 0, Way::Rename);
            let loader = open(&config);
            for (at, version) in versions.iter().enumerate() {
                write(&scratch, kind, *version, Way::InOneTick);
                let job = whole(&uri, *version);
                stream_through(&loader, &config, &[job.clone(), job], at as u64 * 2);
            }
            assert_eq!(stats(&loader).files_changed, 0, "nobody can see these changes");
            loader.close(u64::MAX).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn a_version_that_was_forgotten_is_counted_once_for_each_file() {
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::ZstdChunks, 0, Way::Rename);
    let config = whole_config();
    let loader = open(&config);
    for version in 0..3 {
        write(&scratch, Kind::ZstdChunks, version, Way::Rename);
        let job = whole(&uri, version);
        stream_through(&loader, &config, &[job.clone(), job], version * 2);
        assert_eq!(stats(&loader).files_changed, version * 2);
    }
}

#[test]
fn only_the_chunks_of_the_file_that_changed_leave_the_cache() {
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::ZstdChunks, 0, Way::Rename);
    let config = Config { chunk_cache_bytes: 1 << 20, ..whole_config() };
    let loader = open(&config);
    stream_through(&loader, &config, &[whole(&uri, 0)], 0);
    stream_through(&loader, &config, &[whole(&uri, 0)], 1);
    assert_eq!(stats(&loader).chunk_cache_hits, 2);
    let (name, bytes) = files(Kind::ZstdChunks, 1).remove(1);
    replace(&scratch.path("store").join(name), &bytes, Way::Rename);
    let mut job = whole(&uri, 0);
    let half = elements(1, ROWS / 2, ROWS / 2);
    job.want = Ok([&elements(0, 0, ROWS / 2)[..], &half].concat());
    stream_through(&loader, &config, &[job], 2);
    assert_eq!(stats(&loader).chunk_cache_hits, 3);
}

/// A step that is done once, when chunk data is read for the first time.
static MEANWHILE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Longest read at the front of a file that is one of chunk data.
static MEDDLED_BYTES_MAX: AtomicU64 = AtomicU64::new(0);

/// By one test at a time.
static MEDDLING: Mutex<()> = Mutex::new(());

static MEDDLED: Os = Os {
    read: |fd, target, offset, cached_only| {
        // Documents are longer, indexes begin elsewhere.
        if offset == 0 && target.len() <= MEDDLED_BYTES_MAX.load(SeqCst) as usize {
            let meddle = MEANWHILE.lock().unwrap_or_else(|poison| poison.into_inner()).take();
            meddle.into_iter().for_each(|meddle| meddle());
        }
        (SYSTEM.read)(fd, target, offset, cached_only)
    },
    ..SYSTEM
};

#[test]
fn a_batch_that_looked_at_a_file_reads_that_version_whatever_its_name_leads_to_now() {
    let _alone = MEDDLING.lock().unwrap_or_else(|poison| poison.into_inner());
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::Shard, 0, Way::Rename);
    MEDDLED_BYTES_MAX.store(400, SeqCst);
    let config = whole_config();
    let loader = Loader::open_on(&MEDDLED, &config).unwrap_or_else(|failure| panic!("{failure}"));
    let path = scratch.path("store").join("c/0/0");
    for version in 0..4 {
        let (_, bytes) = files(Kind::Shard, version + 1).remove(0);
        let path = path.clone();
        *MEANWHILE.lock().expect("the lock") =
            Some(Box::new(move || replace(&path, &bytes, Way::Rename)));
        stream_through(&loader, &config, &[whole(&uri, version)], version);
    }
}

#[test]
fn a_file_that_is_rewritten_while_it_is_read_is_an_io_error_and_the_next_batch_has_it() {
    let _alone = MEDDLING.lock().unwrap_or_else(|poison| poison.into_inner());
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::RawChunks, 0, Way::Rename);
    MEDDLED_BYTES_MAX.store(128, SeqCst);
    let config = whole_config();
    let loader = Loader::open_on(&MEDDLED, &config).unwrap_or_else(|failure| panic!("{failure}"));
    let path = scratch.path("store");
    *MEANWHILE.lock().expect("the lock") = Some(Box::new(move || {
        for (name, bytes) in files(Kind::RawChunks, 1) {
            replace(&path.join(name), &bytes, Way::InPlace);
        }
    }));
    let (_, failure) = first_failure(&loader, &[whole(&uri, 0)]);
    assert_eq!(failure.status, Status::Io, "{failure}");
    loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
    stream_through(&loader, &config, &[whole(&uri, 1)], 0);
}

#[test]
fn a_document_that_was_replaced_is_read_by_the_next_batch() {
    for way in [Way::Rename, Way::InPlace] {
        let scratch = Scratch::new();
        let uri = write(&scratch, Kind::RawChunks, 0, Way::Rename);
        let config = whole_config();
        let loader = open(&config);
        stream_through(&loader, &config, &[whole(&uri, 0)], 0);
        // The array has half of its rows now, in chunks that lie elsewhere.
        let meta = Meta::u16(&[ROWS / 2, COLUMNS], &[ROWS / 2, COLUMNS], None);
        replace(&scratch.path("store/zarr.json"), meta.text().as_bytes(), way);
        let (_, failure) = first_failure(&loader, &[whole(&uri, 0)]);
        assert_eq!(failure.status, Status::Invalid, "{failure}");
        loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
        let meta = Meta::u16(&[ROWS * 2, COLUMNS], &[ROWS / 2, COLUMNS], None);
        replace(&scratch.path("store/zarr.json"), meta.text().as_bytes(), way);
        let span = (vec![ROWS as i64, 0], vec![2 * ROWS as i64, COLUMNS as i64]);
        let fill = 7u16.to_le_bytes().repeat((ROWS * COLUMNS) as usize);
        stream_through(&loader, &config, &[Job::new(&uri, span, fill)], 0);
    }
}

#[test]
fn a_document_that_is_gone_is_an_io_error_that_names_it() {
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::RawChunks, 0, Way::Rename);
    let config = whole_config();
    let loader = open(&config);
    stream_through(&loader, &config, &[whole(&uri, 0)], 0);
    let document = scratch.path("store/zarr.json");
    let text = fs::read(&document).expect("the document");
    fs::remove_file(&document).expect("removed");
    let (_, failure) = first_failure(&loader, &[whole(&uri, 0)]);
    assert_eq!(failure.status, Status::Io, "{failure}");
    let said = failure.text.as_str();
    assert!(said.contains("zarr.json") && said.contains("was there and is gone"), "{failure}");
    loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
    fs::write(&document, text).expect("the document");
    stream_through(&loader, &config, &[whole(&uri, 0)], 0);
}

#[test]
fn one_reset_is_enough_for_everything_that_changed() {
    for way in WAYS {
        let scratch = Scratch::new();
        let config = whole_config();
        let loader = open(&config);
        for kind in KINDS {
            let uri = write(&scratch, kind, 0, way);
            stream_through(&loader, &config, &[whole(&uri, 0)], 0);
            write(&scratch, kind, 1, way);
            loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
            stream_through(&loader, &config, &[whole(&uri, 1)], 0);
            loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn a_npy_file_that_grew_has_its_new_rows_in_the_next_batch() {
    for way in [Way::Rename, Way::InPlace] {
        let scratch = Scratch::new();
        let uri = write(&scratch, Kind::Npy, 0, Way::Rename);
        let config = whole_config();
        let loader = open(&config);
        stream_through(&loader, &config, &[whole(&uri, 0)], 0);
        let data = elements(0, 0, 2 * ROWS);
        let bytes = npy::file("<u2", false, &[2 * ROWS, COLUMNS], &data);
        replace(&scratch.path("store/a.npy"), &bytes, way);
        let span = (vec![ROWS as i64, 0], vec![2 * ROWS as i64, COLUMNS as i64]);
        stream_through(&loader, &config, &[Job::new(&uri, span, elements(0, ROWS, ROWS))], 1);
    }
}

#[test]
fn a_new_file_of_a_numbered_folder_is_seen_by_the_next_batch() {
    let scratch = Scratch::new();
    let uri = write(&scratch, Kind::Parts, 0, Way::Rename);
    let config = whole_config();
    let loader = open(&config);
    stream_through(&loader, &config, &[whole(&uri, 0)], 0);
    let bytes = npy::file("<u2", false, &[ROWS, COLUMNS], &elements(0, ROWS, ROWS));
    replace(&scratch.path("store/part_0002.npy"), &bytes, Way::Rename);
    let span = (vec![ROWS as i64, 0], vec![2 * ROWS as i64, COLUMNS as i64]);
    stream_through(&loader, &config, &[Job::new(&uri, span, elements(0, ROWS, ROWS))], 1);
}

#[test]
fn an_object_of_a_hook_that_has_another_size_is_another_version() {
    for kind in [Kind::Shard, Kind::ZstdChunks] {
        for chunk_cache_bytes in [0, 1 << 20] {
            let scratch = Scratch::new();
            let uri = write(&scratch, kind, 0, Way::Rename);
            let config = with_hook(Config { chunk_cache_bytes, ..whole_config() });
            let loader = open(&config);
            stream_through(&loader, &config, &[whole(&uri, 0)], 0);
            for version in 1..4 {
                write(&scratch, kind, version, Way::Rename);
                stream_through(&loader, &config, &[whole(&uri, version)], version);
            }
        }
    }
}

static LOOKS: AtomicU64 = AtomicU64::new(0);

static COUNTED: Os = Os {
    stat_path: |path| {
        LOOKS.fetch_add(1, SeqCst);
        (SYSTEM.stat_path)(path)
    },
    ..SYSTEM
};

#[test]
fn a_batch_looks_once_at_each_file_that_it_touches_and_at_its_document() {
    const SPEC: Spec = Spec { seed: 5, edge: 16, shard: 8, chunk: 2, zstd: true, sparse: false };
    let scratch = Scratch::new();
    let array = scratch.path("a");
    store::write(&array, &SPEC);
    for chunk_cache_bytes in [0, 1 << 20] {
        let base = config(Dtype::U16, &[16, 16, 16], 2);
        let config = Config { chunk_cache_bytes, ..base };
        let loader = Loader::open_on(&COUNTED, &config).unwrap_or_else(|f| panic!("{f}"));
        let want = store::places(16).flat_map(|at| store::value(5, at).to_le_bytes()).collect();
        let uri = array.to_str().expect("UTF-8");
        let job = Job::new(uri, (vec![0; 3], vec![16; 3]), want);
        for batch in 0..4 {
            let before = LOOKS.load(SeqCst);
            stream_through(&loader, &config, &[job.clone(), job.clone()], batch);
            let looks = LOOKS.load(SeqCst) - before;
            let most = if batch == 0 { 0 } else { 9 };
            assert_eq!(looks, most, "batch {batch} of cache {chunk_cache_bytes}");
        }
    }
}

#[test]
fn what_was_forgotten_is_found_as_it_is_then() {
    let scratch = Scratch::new();
    for kind in [Kind::RawChunks, Kind::Shard] {
        let uri = write(&scratch, kind, 0, Way::Rename);
        // Objects of one size: their version says nothing.
        let config = with_hook(Config { chunk_cache_bytes: 1 << 20, ..whole_config() });
        let loader = open(&config);
        stream_through(&loader, &config, &[whole(&uri, 0)], 0);
        let meta = scratch.path("store/zarr.json");
        let text = fs::read_to_string(&meta).expect("the document");
        fs::write(&meta, text.replace("\"fill_value\":7", "\"fill_value\":9")).expect("written");
        fs::remove_dir_all(scratch.path("store/c")).expect("removed");
        for (batch, uri_to_forget) in [(1, None), (2, Some(uri.as_str()))] {
            loader.forget(uri_to_forget).unwrap_or_else(|failure| panic!("{failure}"));
            let fill = if batch == 1 { 9u16 } else { 8 };
            let mut job = whole(&uri, 0);
            job.want = Ok(fill.to_le_bytes().repeat((ROWS * COLUMNS) as usize));
            stream_through(&loader, &config, &[job], batch);
            let text = fs::read_to_string(&meta).expect("the document");
            fs::write(&meta, text.replace("\"fill_value\":9", "\"fill_value\":8"))
                .expect("written");
        }
        assert_eq!(loader.forget(Some("never/named")).map_err(|failure| failure.status), Ok(()));
        let refused = loader.forget(Some("")).expect_err("no uri");
        assert_eq!(refused.status, Status::Invalid, "{refused}");
    }
}

/// A step that is done once, after a shard was opened.
static AFTER_OPEN: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

static OPENED: Os = Os {
    open: |path| {
        let opened = (SYSTEM.open)(path);
        if path.ends_with(b"/c/0\0")
            && let Some(meddle) = AFTER_OPEN.lock().expect("the lock").take()
        {
            meddle();
        }
        opened
    },
    ..SYSTEM
};

#[test]
fn one_read_is_never_of_two_versions() {
    // The second version has the two chunks in the other order, so its first chunk lies where the
    // second one of the first version does, next to the first.
    let shard = |version: u16, is_turned: bool| {
        let chunk = |n: u16| (version * 100 + n).to_le_bytes().repeat(64);
        let chunks = if is_turned { [chunk(1), chunk(0)] } else { [chunk(0), chunk(1)] };
        let entries = if is_turned { [(128, 128), (0, 128)] } else { [(0, 128), (128, 128)] };
        crate::common::synth::shard_bytes(&chunks.concat(), &entries)
    };
    for chunk_cache_bytes in [0, 1 << 20] {
        let scratch = Scratch::new();
        let uri = Meta::u16(&[128], &[64], Some(&[128])).write(&scratch, "array", None);
        let path = scratch.path("array/c/0");
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        replace(&path, &shard(1, false), Way::Rename);
        let base = config(Dtype::U16, &[64], 1);
        let config = Config { thread_mode: THREADS_PUMP, chunk_cache_bytes, ..base };
        let loader = Loader::open_on(&OPENED, &config).unwrap_or_else(|f| panic!("{f}"));
        *AFTER_OPEN.lock().expect("the lock") =
            Some(Box::new(move || replace(&path, &shard(2, true), Way::Rename)));
        // Both batches are planned before either is read: the first chunk in two versions.
        let request = Request { uri: &uri, begin: &[0], end: &[64], tag: 0 };
        assert_eq!(loader.push(&[request, request], 0).unwrap_or_else(|f| panic!("{f}")), 2);
        for version in [1u16, 2] {
            let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
            assert_eq!(samples(&batch), (version * 100).to_le_bytes().repeat(64));
        }
        assert!(AFTER_OPEN.lock().expect("the lock").is_none());
    }
}

/// Whether the next size of a shard is a wrong one.
static LIES: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn size_that_lies_once(_user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    let lie = i64::from(name.ends_with("/c/0/0") && LIES.swap(false, SeqCst));
    fs::metadata(name).map_or(FILE_ABSENT, |found| found.len() as i64 + lie)
}

/// Steps that looked at files, and how far the planner is.
static FILE_STEPS: AtomicU64 = AtomicU64::new(0);
static PLANNER: Mutex<PlannerIs> = Mutex::new(PlannerIs::Free);
static PLANNER_CHANGED: Condvar = Condvar::new();

#[derive(Clone, Copy, PartialEq, Debug)]
enum PlannerIs {
    Free,
    ToStop,
    Stopped,
}

fn set_planner(is: PlannerIs) {
    *PLANNER.lock().expect("the lock") = is;
    PLANNER_CHANGED.notify_all();
}

fn wait_while_planner(is: PlannerIs) {
    let guard = PLANNER.lock().expect("the lock");
    drop(PLANNER_CHANGED.wait_while(guard, |now| *now == is).expect("the lock"));
}

unsafe extern "C" fn begin_step(_user: *mut c_void, name: *const c_char) {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) };
    FILE_STEPS.fetch_add(u64::from(name == c"meta"), SeqCst);
    if name == c"plan" && *PLANNER.lock().expect("the lock") == PlannerIs::ToStop {
        set_planner(PlannerIs::Stopped);
        wait_while_planner(PlannerIs::Stopped);
    }
}

unsafe extern "C" fn end_step(_user: *mut c_void) {}

/// An array of 512 zstd chunks of one element in one shard, whose index has two pages. Element n
/// is n.
fn two_pages(scratch: &Scratch) -> String {
    let frame = |n: u16| zstd::encode_all(&n.to_le_bytes()[..], 1).expect("a frame");
    let frames: Vec<Vec<u8>> = (0..512).map(frame).collect();
    let entry = |at: &mut u64, frame: &Vec<u8>| {
        let begin = std::mem::replace(at, *at + frame.len() as u64);
        Some((begin, frame.len() as u64))
    };
    let entries: Vec<(u64, u64)> = frames.iter().scan(0, entry).collect();
    let shard = crate::common::synth::shard_bytes(&frames.concat(), &entries);
    let mut meta = Meta::u16(&[16, 32], &[1, 1], Some(&[16, 32]));
    meta.codecs = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
    meta.write(scratch, "array", Some(&shard))
}

#[test]
fn a_look_that_saw_a_version_that_is_gone_by_then_does_not_hang() {
    let scratch = Scratch::new();
    let uri = two_pages(&scratch);
    let base = config(Dtype::U16, &[1, 1], 2);
    let files = FilesHook { size: Some(size_that_lies_once), ..with_hook(base).files };
    let (begin, end) = (Some(begin_step as _), Some(end_step as _));
    let profiler = ProfilerHook { begin, end, ..ProfilerHook::NONE };
    let (thread_mode, n_decode_threads) = (THREADS_PUMP, 2);
    let base = Config { files, profiler, thread_mode, n_decode_threads, ..base };
    let config = Config { chunk_cache_bytes: 1 << 20, n_shard_index_cache: 1, ..base };
    let place = |n: u64| [(n / 32) as i64, (n % 32) as i64];
    let job = |n: u64| {
        let at = place(n);
        let span = (at.to_vec(), at.map(|at| at + 1).to_vec());
        Job::new(&uri, span, (n as u16).to_le_bytes().to_vec())
    };
    let loader = open(&config);
    // Chunks 0 and 1 are cached, and the page of the index that names them is not any more.
    stream_through(&loader, &config, &[0, 1, 256, 257].map(job), 0);
    // A batch of chunks that need that page, and one of the cached chunks.
    let places = [2, 3, 0, 1].map(place);
    let ends = places.map(|at| at.map(|at| at + 1));
    let boxes = places.iter().zip(&ends);
    let requests: Vec<Request<'_>> =
        boxes.map(|(begin, end)| Request { uri: &uri, begin, end, tag: 0 }).collect();
    assert_eq!(loader.push(&requests, 0).unwrap_or_else(|f| panic!("{f}")), 4);
    let pump = || loader.pump(1).unwrap_or_else(|failure| panic!("{failure}"));
    FILE_STEPS.store(0, SeqCst);
    LIES.store(true, SeqCst);
    while FILE_STEPS.load(SeqCst) == 0 {
        assert!(pump(), "nothing to do");
    }
    assert!(!LIES.load(SeqCst), "the first step is the look at the cached chunks' file");
    set_planner(PlannerIs::ToStop);
    std::thread::scope(|scope| {
        let planner = scope.spawn(pump);
        wait_while_planner(PlannerIs::ToStop);
        // The lookup of the page finds the file as it was, before the planner sees the look.
        pump();
        assert_eq!(FILE_STEPS.load(SeqCst), 2);
        set_planner(PlannerIs::Free);
        let begun = std::time::Instant::now();
        while !planner.is_finished() {
            // A planner that goes round for ever cannot be joined.
            if begun.elapsed() > Duration::from_secs(60) {
                eprintln!("the planner hangs");
                std::process::abort();
            }
            std::thread::yield_now();
        }
    });
    for want in [[2u16, 3], [0, 1]] {
        let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
        assert_eq!(samples(&batch), want.map(u16::to_le_bytes).concat());
    }
    assert_eq!(stats(&loader).files_changed, 1);
}

/// A step that is done once, as the second page of an index is read; that read then fails.
static AT_SECOND_PAGE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// First byte of that page in the shards of the test below.
static SECOND_PAGE: AtomicU64 = AtomicU64::new(u64::MAX);

static BROKEN_PAGE: Os = Os {
    read: |fd, target, offset, cached_only| {
        if offset == SECOND_PAGE.load(SeqCst) {
            let meddle = AT_SECOND_PAGE.lock().unwrap_or_else(|poison| poison.into_inner()).take();
            if let Some(meddle) = meddle {
                meddle();
                return Err(Errno(libc::EIO));
            }
        }
        (SYSTEM.read)(fd, target, offset, cached_only)
    },
    ..SYSTEM
};

#[test]
fn a_chunk_that_fails_hides_no_version_of_the_chunks_beside_it() {
    // An index of 16 pages without a crc, so that each page is read by itself.
    let chunk = [2, 2, 2];
    let scratch = Scratch::new();
    let shape = [32, 32, 32];
    let mut meta = Meta::u16(&shape, &chunk, Some(&shape)).text();
    meta = meta.replace(r#",{"name":"crc32c"}"#, "");
    let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let zstd = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
    meta = meta.replacen(bytes, &format!("{bytes}{zstd}"), 1);
    let shard = |version: u16| {
        let raw = version.to_le_bytes().repeat(8);
        let frame = zstd::encode_all(&raw[..], 1).expect("a frame");
        let length = frame.len() as u64;
        SECOND_PAGE.store(4096 * length + 4096, SeqCst);
        let payload = frame.repeat(4096);
        let entries = (0..4096u64).map(|n| (n * length, length));
        let index = entries.flat_map(|(at, bytes)| [at.to_le_bytes(), bytes.to_le_bytes()]);
        [payload, index.flatten().collect()].concat()
    };
    let uri = crate::common::synth::write_text(&scratch, "store", &meta);
    let path = scratch.path("store/c/0/0/0");
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    replace(&path, &shard(1), Way::Rename);
    let base = config(Dtype::U16, &chunk, 5);
    let (thread_mode, on_error) = (THREADS_PUMP, ON_ERROR_SKIP);
    let config = Config { thread_mode, on_error, chunk_cache_bytes: 1 << 20, ..base };
    let loader = Loader::open_on(&BROKEN_PAGE, &config).unwrap_or_else(|f| panic!("{f}"));
    // The first of the chunks is cached.
    let first = Job::new(&uri, (vec![0; 3], vec![2; 3]), 1u16.to_le_bytes().repeat(8));
    stream_through(&loader, &config, &vec![first; 5], 0);
    let later = path.clone();
    *AT_SECOND_PAGE.lock().expect("the lock") =
        Some(Box::new(move || replace(&later, &shard(2), Way::Rename)));
    // One chunk of each of the first five pages. The second one fails, and so must those after it.
    let boxes = [0i64, 2, 4, 6, 8].map(|z| ([z, 0, 0], [z + 2, 2, 2]));
    let requests = boxes.each_ref().map(|(begin, end)| Request { uri: &uri, begin, end, tag: 0 });
    assert_eq!(loader.push(&requests, 0).unwrap_or_else(|f| panic!("{f}")), 5);
    let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
    assert!(AT_SECOND_PAGE.lock().expect("the lock").is_none(), "the page was read");
    let rows = samples(&batch);
    let whole: Vec<u8> = (0..5)
        .filter(|sample| batch.statuses()[*sample] == 0)
        .map(|sample| rows[sample * 16])
        .collect();
    assert!(whole.windows(2).all(|pair| pair[0] == pair[1]), "versions {whole:?} in one batch");
    assert!(whole.len() < 5);
}
