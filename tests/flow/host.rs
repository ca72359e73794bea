//! What the host does to us: few descriptors, an odd floating-point environment, long names, many
//! arrays.

use crate::common::alone::alone;
use crate::common::drive::{Job, PATIENCE_NS, config, first_failure, open, stream, stream_through};
use crate::common::fixtures::{self, Scratch};
#[cfg(target_arch = "x86_64")]
use crate::common::float_control;
use crate::common::oracle::cast;
use crate::common::synth::{ABSENT, Meta, shard_bytes};
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use wavetrain::abi::{FILE_ABSENT, FilesHook};
use wavetrain::config::{Config, PAD_CONSTANT, THREADS_PUMP};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Sets the limit of this process, and gives what it was.
fn limit_open_files(count: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, count);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        before
    }
}

/// 40 shards in one array, each box over all of them.
fn wide_jobs(scratch: &Scratch) -> Vec<Job> {
    let uri = Meta::u16(&[40, 4], &[1, 4], None).write(scratch, "wide", None);
    let row = |y: u16| (0..4).flat_map(move |x| (y * 4 + x + 1).to_le_bytes());
    for y in 0..40 {
        fs::create_dir_all(scratch.path(&format!("wide/c/{y}"))).expect("a folder");
        let file = scratch.path(&format!("wide/c/{y}/0"));
        fs::write(file, row(y).collect::<Vec<u8>>()).expect("a chunk");
    }
    vec![Job::new(&uri, (vec![0, 0], vec![40, 4]), (0..40).flat_map(row).collect()); 10]
}

/// In a process of its own, because the limit is the whole process's.
#[test]
fn a_low_limit_of_open_files_is_no_error_before_or_after_open() {
    alone(|| {
        let scratch = Scratch::new();
        let jobs = wide_jobs(&scratch);
        let config = Config { n_io_threads: 16, ..config(Dtype::U16, &[40, 4], 2) };
        let in_use = fs::read_dir("/proc/self/fd").expect("Linux").count() as u64;
        let usual = limit_open_files(in_use + 4);
        for at_open in [in_use + 4, usual] {
            limit_open_files(at_open);
            let loader = open(&config);
            limit_open_files(in_use + 4);
            stream_through(&loader, &config, &jobs, 0);
            loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
        }
    });
}

#[test]
fn more_threads_than_processors_give_the_same_batches() {
    let scratch = Scratch::new();
    let cpus = std::thread::available_parallelism().expect("a number").get() as u32;
    let threads = (4 * cpus).min(256);
    let mut config = config(Dtype::U16, &[40, 4], 2);
    config.n_io_threads = threads;
    config.n_decode_threads = threads;
    config.max_host_memory_bytes = 0;
    stream(&config, &wide_jobs(&scratch));
}

/// f64 values that a type change to f32 must round, keep subnormal, or make infinite; one chunk of
/// two is missing, so that the fill is parsed; and one element lies outside.
#[cfg(target_arch = "x86_64")]
fn float_job(scratch: &Scratch) -> Job {
    let values = [1e-40, -3.3e-42, 0.1, 1.0 / 3.0, 16777217.0, -0.7, 3.5e38, 1.000_000_178_813_934];
    let encoded: Vec<u8> = values.iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
    let meta =
        Meta { data_type: "float64", fill: "1.1e-39", ..Meta::u16(&[16], &[8], Some(&[16])) };
    let uri = meta.write(scratch, "float", Some(&shard_bytes(&encoded, &[(0, 64), ABSENT])));
    let all = values.iter().copied().chain([1.1e-39; 8]).chain([2.2e-40]);
    let source: Vec<u8> = all.flat_map(f64::to_le_bytes).collect();
    Job::new(&uri, (vec![0], vec![17]), cast(Dtype::F64, Dtype::F32, &source))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_float_environment_of_a_host_that_pumps_changes_no_bit_and_stays_as_it_was() {
    let scratch = Scratch::new();
    let job = float_job(&scratch);
    let mut config = config(Dtype::F32, &[17], 1);
    config.thread_mode = THREADS_PUMP;
    config.pad_mode = PAD_CONSTANT;
    config.pad_value_set = 1;
    config.pad_value = 2.2e-40;
    let request = job.request(0);
    let usual = float_control::control();
    for control in float_control::CONTROLS {
        float_control::set_control(control);
        let loader = open(&config);
        let after_open = float_control::control();
        let pushed = loader.push(&[request], 0);
        while loader.pump(u64::MAX).is_ok_and(|did_work| did_work) {}
        let after_pump = float_control::control();
        let popped = loader.pop(PATIENCE_NS);
        let after_pop = float_control::control();
        float_control::set_control(usual);
        assert_eq!(pushed.unwrap_or_else(|failure| panic!("{failure}")), 1);
        match popped {
            Ok(wavetrain::loader::Pop::Batch(batch)) => {
                assert_eq!(Some(batch.data()), job.want.as_deref().ok(), "{control:#x}");
            }
            Ok(_) => panic!("no batch"),
            Err(failure) => panic!("{failure}"),
        }
        assert_eq!([after_open, after_pump, after_pop], [control; 3]);
    }
}

/// The uri that the hook below knows: of the largest legal length.
fn longest_uri() -> String {
    let mut uri = "/long".to_string();
    while uri.len() < 4095 {
        uri.push_str(if uri.len().is_multiple_of(200) { "/" } else { "x" });
    }
    uri
}

const HOOK_DOCUMENT: &str = r#"{"zarr_format":3,"node_type":"array","shape":[4],
"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}},
"chunk_key_encoding":{"name":"default"},"fill_value":9,"codecs":[{"name":"bytes"}]}"#;

unsafe extern "C" fn hook_size(_: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    if name == format!("{}/zarr.json", longest_uri()) {
        return HOOK_DOCUMENT.len() as i64;
    }
    let is_key = ["c/0", "c.0"].iter().any(|key| name == format!("{}/{key}", longest_uri()));
    assert!(is_key, "{name}");
    FILE_ABSENT
}

unsafe extern "C" fn hook_read(
    _: *mut c_void,
    _: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    let document = &HOOK_DOCUMENT.as_bytes()[offset as usize..(offset + bytes) as usize];
    // SAFETY: the target has `bytes` bytes.
    unsafe { target.cast::<u8>().copy_from(document.as_ptr(), document.len()) };
    0
}

#[test]
fn a_uri_of_4095_bytes_reaches_a_files_hook_whole() {
    let mut config = config(Dtype::U8, &[4], 2);
    config.files = FilesHook { size: Some(hook_size), read: Some(hook_read), ..config.files };
    let uri = longest_uri();
    assert_eq!(uri.len(), 4095);
    stream(&config, &vec![Job::new(&uri, (vec![0], vec![4]), vec![9; 4]); 40]);
}

#[test]
fn a_path_too_long_for_the_system_is_an_error_and_not_missing() {
    // The metadata's path is 4,105 bytes long; PATH_MAX is 4,096.
    let uri = longest_uri();
    let job = Job::failing(&uri, (vec![0], vec![4]), Status::Io);
    let (_, failure) = first_failure(&open(&config(Dtype::U8, &[4], 1)), &[job]);
    assert_eq!(failure.status, Status::Io, "{failure}");
    assert!(failure.text.as_str().contains("name too long"), "{failure}");
}

#[test]
fn a_file_uri_and_a_trailing_slash_share_the_cache_entry_of_the_path() {
    let store = fixtures::store("rank2_u16");
    let span = (vec![0, 0], vec![37, 29]);
    let mut jobs = vec![Job::of(store, span, Dtype::U16); 6];
    for (n, job) in jobs.iter_mut().enumerate() {
        job.uri = match n % 3 {
            0 => store.uri.clone(),
            1 => format!("file://{}", store.uri),
            _ => format!("{}//", store.uri),
        };
    }
    let config = config(Dtype::U16, &[37, 29], 1);
    let loader = open(&config);
    stream_through(&loader, &config, &jobs, 0);
    let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((stats.array_meta_misses, stats.array_meta_hits), (1, 5));
}

unsafe extern "C" fn numbered_size(_: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as in `hook_size`.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    if name.ends_with("/zarr.json") { HOOK_DOCUMENT.len() as i64 } else { FILE_ABSENT }
}

/// Gives array "/many/n" the fill value n % 10, in place of the document's 9.
unsafe extern "C" fn numbered_read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    assert_eq!((offset, bytes as usize), (0, HOOK_DOCUMENT.len()));
    // SAFETY: as in `hook_size` and `hook_read`.
    let (digit, target) = unsafe {
        hook_read(user, name, offset, target, bytes);
        let name = CStr::from_ptr(name).to_bytes();
        (name[name.len() - "/zarr.json".len() - 1], target.cast::<u8>())
    };
    let at = HOOK_DOCUMENT.find(":9").expect("the fill value") + 1;
    // SAFETY: `at` is within the document, and so within the target.
    unsafe { target.add(at).write(digit) };
    0
}

#[test]
fn ten_thousand_arrays_stream_through_a_cache_of_64() {
    let job = |n: u64| Job::new(&format!("/many/{n}"), (vec![0], vec![4]), vec![(n % 10) as u8; 4]);
    // Once around, then each of a thousand twice: near arrays hit, far ones are loaded again.
    let mut jobs: Vec<Job> = (0..10_000).map(job).collect();
    jobs.extend((0..2000).map(|n| job(n / 2)));
    let mut config = config(Dtype::U8, &[4], 1);
    config.lookahead_samples = 20;
    config.n_array_meta_cache = 64;
    config.files =
        FilesHook { size: Some(numbered_size), read: Some(numbered_read), ..config.files };
    let loader = open(&config);
    stream_through(&loader, &config, &jobs, 0);
    let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((stats.array_meta_misses, stats.array_meta_hits), (11_000, 1000));
}
