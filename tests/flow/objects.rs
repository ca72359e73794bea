//! Objects of a host that tells their versions: the requests that they take, changes, and hosts
//! that lie.

use crate::common::damage::outcomes;
use crate::common::drive::{
    Job, config, first_failure, mixed_jobs, open, stream_as_configured, stream_through,
};
use crate::common::npy;
use crate::common::objects::{Kind, Lie, Objects, Request};
use crate::common::read_boxes::check_each;
use crate::common::synth::{self, EDGE, Meta, chunk_bytes, chunk_job};
use std::sync::atomic::Ordering::SeqCst;
use wavetrain::abi::{FILE_CHANGED, FILE_FAILED, StoreHook};
use wavetrain::config::{Config, PAD_CONSTANT, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::{Loader, memory_need};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const SHARDED: &str = "mem://bucket/sharded";
const SHARD: &str = "mem://bucket/sharded/c/0/0";
const SINGLE: &str = "mem://bucket/single";

const CHUNK_BYTES: u64 = EDGE * EDGE * 2;
const INDEX_BYTES: u64 = 4 * 16 + 4;

/// A shard of 2 x 2 uncompressed chunks, whose numbers begin at `first`.
fn put_shard(objects: &Objects, first: u16) {
    let document = Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8])).text();
    objects.put(&format!("{SHARDED}/zarr.json"), document);
    let chunks: Vec<u8> = (first..first + 4).flat_map(chunk_bytes).collect();
    let entries: Vec<_> = (0..4).map(|n| (n * CHUNK_BYTES, CHUNK_BYTES)).collect();
    objects.put(SHARD, synth::shard_bytes(&chunks, &entries));
}

/// An array of 2 x 2 chunks that are files, of which the last is absent.
fn put_single(objects: &Objects, is_zstd: bool) {
    let mut meta = Meta::u16(&[8, 8], &[4, 4], None);
    if is_zstd {
        meta.codecs = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
    }
    objects.put(&format!("{SINGLE}/zarr.json"), meta.text());
    for number in 0..3 {
        let bytes = chunk_bytes(number);
        let bytes = if is_zstd { zstd::encode_all(&bytes[..], 1).unwrap() } else { bytes };
        objects.put(&format!("{SINGLE}/c/{}/{}", number / 2, number % 2), bytes);
    }
}

fn chunk_config() -> Config {
    config(Dtype::U16, &[EDGE, EDGE], 1)
}

/// The chunk of that number of 2 x 2, which has the bytes of `value`.
fn job(uri: &str, number: u64, value: Option<u16>) -> Job {
    chunk_job(uri, [number / 2, number % 2], value)
}

/// Kind, last part of the name, offset and bytes of requests.
fn brief(requests: &[Request]) -> Vec<(Kind, &str, u64, u64)> {
    let name = |request: &Request| request.name.rfind('/').map_or(0, |at| at + 1);
    requests.iter().map(|r| (r.kind, &r.name[name(r)..], r.offset, r.bytes)).collect()
}

#[test]
fn the_first_sample_of_a_cold_shard_is_three_requests_and_each_other_is_one() {
    let objects = Objects::default();
    put_shard(&objects, 10);
    let config = objects.versioned(chunk_config());
    let loader = open(&config);
    stream_through(&loader, &config, &[job(SHARDED, 1, Some(11))], 0);
    let requests = objects.take_requests();
    let [document, index, chunk] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        (document.kind, document.name.as_str()),
        (Kind::Tail, "mem://bucket/sharded/zarr.json")
    );
    assert_eq!(
        brief(&requests)[1..],
        [(Kind::Tail, "0", 0, INDEX_BYTES), (Kind::Version, "0", CHUNK_BYTES, CHUNK_BYTES),]
    );
    assert_eq!(index.name, SHARD);
    // The version that the index was read of is asked for.
    assert_eq!(chunk.asked, 2);
    for (batch, number) in [(1, 0), (2, 3), (3, 1)] {
        let want = Some(10 + number as u16);
        stream_through(&loader, &config, &[job(SHARDED, number, want)], batch);
        let requests = objects.take_requests();
        assert_eq!(brief(&requests), [(Kind::Version, "0", number * CHUNK_BYTES, CHUNK_BYTES)]);
    }
}

#[test]
fn a_chunk_that_is_a_file_is_one_request_after_its_document() {
    for is_zstd in [false, true] {
        let objects = Objects::default();
        put_single(&objects, is_zstd);
        let config = objects.versioned(chunk_config());
        let loader = open(&config);
        for number in 0..3 {
            let want = Some(number as u16);
            stream_through(&loader, &config, &[job(SINGLE, number, want)], number);
            let requests = objects.take_requests();
            assert_eq!(requests.len(), if number == 0 { 2 } else { 1 }, "{requests:?}");
            assert!(requests.iter().all(|request| request.kind == Kind::Tail), "{requests:?}");
        }
        // The absent one is what others of the array are not: the document is looked at once more.
        stream_through(&loader, &config, &[job(SINGLE, 3, None)], 3);
        let requests = objects.take_requests();
        assert!(requests.len() <= 3, "{requests:?}");
        assert!(requests.iter().all(|request| request.kind == Kind::Tail), "{requests:?}");
    }
}

#[test]
fn a_part_of_an_uncompressed_file_is_one_request_of_that_part() {
    let objects = Objects::default();
    put_single(&objects, false);
    let config = objects.versioned(config(Dtype::U16, &[1, EDGE], 1));
    let loader = open(&config);
    let want = chunk_bytes(1)[16..24].to_vec();
    stream_through(&loader, &config, &[Job::new(SINGLE, (vec![2, 4], vec![3, 8]), want)], 0);
    let requests = objects.take_requests();
    assert_eq!(brief(&requests)[1..], [(Kind::Version, "1", 16, 8)]);
    assert_eq!(requests[1].asked, 0);
}

#[test]
fn a_file_that_no_chunk_can_be_is_refused_by_its_size() {
    for bytes in [0, 31, 33, 5000] {
        let objects = Objects::default();
        put_single(&objects, false);
        objects.put(&format!("{SINGLE}/c/0/0"), vec![7; bytes]);
        let loader = open(&objects.versioned(chunk_config()));
        let (_, failure) = first_failure(&loader, &[job(SINGLE, 0, None)]);
        assert_eq!(failure.status, Status::Decode, "{failure}");
        let text = format!("the file has {bytes} bytes, the chunk needs 32");
        assert!(failure.text.as_str().contains(&text), "{failure}");
    }
}

#[test]
fn a_missing_chunk_is_an_error_if_the_config_says_so() {
    let objects = Objects::default();
    put_single(&objects, true);
    let config = Config { missing_chunks: wavetrain::config::MISSING_ERROR, ..chunk_config() };
    let loader = open(&objects.versioned(config));
    let (_, failure) = first_failure(&loader, &[job(SINGLE, 3, None)]);
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    // An array that is gone has no missing chunks.
    let loader = open(&objects.versioned(chunk_config()));
    let config = objects.versioned(chunk_config());
    stream_through(&loader, &config, &[job(SINGLE, 0, Some(0))], 0);
    objects.remove(&format!("{SINGLE}/zarr.json"));
    let (_, failure) = first_failure(&loader, &[job(SINGLE, 3, None)]);
    assert_eq!(failure.status, Status::Io, "{failure}");
    assert!(failure.text.as_str().contains("the array was there and is gone"), "{failure}");
}

#[test]
fn samples_that_meet_at_a_new_shard_fetch_its_index_once() {
    // Chunks of one element: indexes of 3 pages, and of 12, which no worker has a place for.
    for (count, samples_per_batch) in [(600, 1), (600, 6), (3000, 1), (3000, 6)] {
        let objects = Objects::default();
        let document = Meta::u16(&[count], &[1], Some(&[count])).text();
        objects.put(&format!("{SHARDED}/zarr.json"), document);
        let entries: Vec<_> = (0..count).map(|n| (n * 2, 2)).collect();
        let data: Vec<u8> = (0..count as u16).flat_map(u16::to_le_bytes).collect();
        let shard = "mem://bucket/sharded/c/0";
        objects.put(shard, synth::shard_bytes(&data, &entries));
        let config = Config { n_io_threads: 4, ..config(Dtype::U16, &[1], samples_per_batch) };
        let config = objects.versioned(config);
        let job = |n: u64| {
            let want = (n as u16).to_le_bytes().to_vec();
            Job::new(SHARDED, (vec![n as i64], vec![n as i64 + 1]), want)
        };
        let jobs: Vec<Job> = (0..24).map(|n| job(n * 1097 % count)).collect();
        let loader = open(&config);
        stream_through(&loader, &config, &jobs, 0);
        let requests = objects.take_requests();
        let of_index = |request: &&Request| {
            let is_data = request.kind == Kind::Version && request.offset < 2 * count;
            request.name == shard && !is_data
        };
        assert_eq!(requests.iter().filter(of_index).count(), 1, "{:?}", brief(&requests));
    }
}

#[test]
fn an_object_that_changes_is_an_io_error_and_never_two_versions() {
    for is_later in [false, true] {
        let objects = Objects::default();
        put_shard(&objects, 10);
        let config = if is_later {
            objects.later(chunk_config())
        } else {
            objects.versioned(chunk_config())
        };
        let loader = open(&config);
        stream_through(&loader, &config, &[job(SHARDED, 0, Some(10))], 0);
        put_shard(&objects, 20);
        let (_, failure) = first_failure(&loader, &[job(SHARDED, 1, None)]);
        assert_eq!(failure.status, Status::Io, "{failure}");
        assert!(failure.text.as_str().contains("is not what it was"), "{failure}");
        loader.reset().unwrap_or_else(|failure| panic!("{failure}"));
        stream_through(&loader, &config, &[job(SHARDED, 1, Some(21))], 0);
        let requests = objects.take_requests();
        let asked = |r: &&Request| matches!(r.kind, Kind::Version | Kind::Later);
        assert!(requests.iter().filter(asked).all(|request| request.asked > 0), "{requests:?}");
    }
}

#[test]
fn a_host_that_tells_versions_alone_is_asked_for_sizes() {
    let objects = Objects::default();
    put_shard(&objects, 10);
    put_single(&objects, true);
    objects.put("mem://bucket/x.npy", npy::file("<u2", false, &[4, 4], &chunk_bytes(5)));
    let mut config = objects.versioned(chunk_config());
    config.store.read_tail = None;
    let loader = open(&config);
    let jobs = [
        job(SHARDED, 2, Some(12)),
        job(SINGLE, 1, Some(1)),
        job(SINGLE, 3, None),
        Job::new("mem://bucket/x.npy", (vec![0, 0], vec![4, 4]), chunk_bytes(5)),
    ];
    stream_through(&loader, &config, &jobs, 0);
    let requests = objects.take_requests();
    assert!(
        requests.iter().all(|request| request.kind != Kind::Tail && request.kind != Kind::Read)
    );
    // The first read of an object is of any version, and each other of the one that it told.
    let mut seen: Vec<&str> = Vec::new();
    for request in requests.iter().filter(|request| request.kind == Kind::Version) {
        let is_first = !seen.contains(&request.name.as_str());
        if is_first {
            assert_eq!(request.asked, 0, "{request:?}");
        }
        seen.push(&request.name);
    }
    put_shard(&objects, 20);
    let (_, failure) = first_failure(&loader, &[job(SHARDED, 1, None)]);
    assert_eq!(failure.status, Status::Io, "{failure}");
}

#[test]
fn documents_and_headers_are_read_without_a_request_for_their_size() {
    let objects = Objects::default();
    put_shard(&objects, 10);
    objects.put("mem://bucket/x.npy", npy::file("<u2", false, &[4, 4], &chunk_bytes(5)));
    objects.put(
        "mem://bucket/v2/.zarray",
        r#"{"zarr_format":2,"shape":[4,4],"chunks":[4,4],"dtype":"<u2","compressor":null,
        "fill_value":0,"order":"C","filters":null}"#,
    );
    objects.put("mem://bucket/v2/.zattrs", "{}");
    objects.put("mem://bucket/v2/0.0", chunk_bytes(6));
    let config = objects.versioned(chunk_config());
    let loader = open(&config);
    let jobs = [
        Job::new("mem://bucket/x.npy", (vec![0, 0], vec![4, 4]), chunk_bytes(5)),
        Job::new("mem://bucket/v2", (vec![0, 0], vec![4, 4]), chunk_bytes(6)),
        job(SHARDED, 0, Some(10)),
    ];
    stream_through(&loader, &config, &jobs, 0);
    let requests = objects.take_requests();
    let is_plain = |request: &Request| matches!(request.kind, Kind::Size | Kind::Read);
    assert!(!requests.iter().any(is_plain), "{requests:?}");
    for (name, most) in [("zarr.json", 3), (".zarray", 1), (".zattrs", 1)] {
        let count = requests.iter().filter(|r| r.name.ends_with(name)).count();
        assert!((1..=most).contains(&count), "{name}: {requests:?}");
    }
}

#[test]
fn an_index_at_the_start_is_read_of_one_version() {
    let objects = Objects::default();
    let mut meta = Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8]));
    meta.index_location = "start";
    objects.put(&format!("{SHARDED}/zarr.json"), meta.text());
    let entries: Vec<_> = (0..4).map(|n| (INDEX_BYTES + n * CHUNK_BYTES, CHUNK_BYTES)).collect();
    let mut shard = synth::index_bytes(&entries);
    (10..14).for_each(|number| shard.extend(chunk_bytes(number)));
    objects.put(SHARD, shard);
    let config = objects.versioned(chunk_config());
    let loader = open(&config);
    stream_through(&loader, &config, &[job(SHARDED, 2, Some(12))], 0);
    let requests = objects.take_requests();
    assert_eq!(brief(&requests)[1], (Kind::Tail, "0", 0, 1));
    assert!(requests[2..].iter().all(|r| r.kind == Kind::Version && r.asked == 2), "{requests:?}");
}

#[test]
fn a_document_that_is_larger_than_most_is_read_twice_at_the_most() {
    let objects = Objects::default();
    put_shard(&objects, 10);
    let document = Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8])).text();
    let padded = format!("{}{}", " ".repeat(200 << 10), document);
    objects.put(&format!("{SHARDED}/zarr.json"), padded);
    let config = objects.versioned(chunk_config());
    let loader = open(&config);
    stream_through(&loader, &config, &[job(SHARDED, 2, Some(12))], 0);
    let requests = objects.take_requests();
    let of_document = requests.iter().filter(|r| r.name.ends_with("zarr.json"));
    assert_eq!(of_document.map(|r| r.kind).collect::<Vec<_>>(), [Kind::Tail; 2]);
}

#[test]
fn a_batch_that_finds_its_chunk_cached_looks_for_another_version() {
    let objects = Objects::default();
    put_shard(&objects, 10);
    let config = Config { chunk_cache_bytes: 1 << 20, ..chunk_config() };
    let config = objects.versioned(config);
    let loader = open(&config);
    for batch in 0..2 {
        stream_through(&loader, &config, &[job(SHARDED, 1, Some(11))], batch);
    }
    let requests = objects.take_requests();
    let data = |r: &&Request| r.kind == Kind::Version;
    assert_eq!(requests.iter().filter(data).count(), 1, "{requests:?}");
    put_shard(&objects, 20);
    stream_through(&loader, &config, &[job(SHARDED, 1, Some(21))], 2);
}

#[test]
fn stores_of_others_stream_through_versions() {
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        for chunk_cache_bytes in [0, 1 << 20] {
            let objects = Objects::default();
            let config =
                Config { thread_mode, chunk_cache_bytes, ..config(Dtype::F32, &[16, 16], 3) };
            stream_as_configured(&objects.versioned(config), &mixed_jobs(40));
            let requests = objects.take_requests();
            assert!(requests.iter().all(|r| matches!(r.kind, Kind::Tail | Kind::Version)));
            if thread_mode == THREADS_OWN {
                stream_as_configured(&objects.later(config), &mixed_jobs(40));
                assert!(objects.take_requests().iter().any(|r| r.kind == Kind::Later));
            }
        }
    }
}

#[test]
fn boxes_of_callers_are_read_through_versions() {
    let objects = Objects::default();
    let config = Config { n_readers: 4, ..config(Dtype::F32, &[1], 1) };
    check_each(&open(&objects.versioned(config)), 4, &mixed_jobs(40));
}

#[test]
fn samples_of_one_chunk_end_alike_however_often_it_is_read() {
    // The read fails, again on a thread that waits, and then that of its chunk succeeds: another
    // would leave other bytes.
    let answers = [&[FILE_FAILED, FILE_FAILED, 0][..], &[FILE_FAILED; 10]].concat();
    for _ in 0..20 {
        let objects = Objects::default();
        put_shard(&objects, 10);
        let config = objects.later(Config { n_batch_slots: 6, ..chunk_config() });
        let same: Vec<Job> = (0..6).map(|_| job(SHARDED, 1, Some(11))).collect();
        *objects.read_answers.lock().unwrap() = answers.iter().rev().copied().collect();
        let seen = outcomes(&config, &same);
        for ((status, bytes), job) in seen.iter().zip(&same) {
            assert!(*status != Some(Status::Ok) || Ok(bytes) == job.want.as_ref(), "{bytes:?}");
        }
    }
}

#[test]
fn hosts_that_go_wrong_by_chance_give_right_data_or_none() {
    for (seed, is_later) in [(0x1234_5679, false), (0x9876_5431, false), (0x5555_1111, true)] {
        let objects = Objects::default();
        put_shard(&objects, 10);
        put_single(&objects, true);
        objects.chaos.store(seed, SeqCst);
        let config = Config { n_io_threads: 4, ..chunk_config() };
        let config = if is_later { objects.later(config) } else { objects.versioned(config) };
        let jobs: Vec<Job> = (0..400)
            .map(|n| match n % 2 {
                0 => job(SHARDED, n / 2 % 4, Some(10 + (n / 2 % 4) as u16)),
                _ => job(SINGLE, n / 2 % 3, Some((n / 2 % 3) as u16)),
            })
            .collect();
        let seen = outcomes(&config, &jobs);
        let mut right = 0;
        for (number, ((status, bytes), job)) in seen.iter().zip(&jobs).enumerate() {
            let is_right = *status == Some(Status::Ok);
            right += u32::from(is_right);
            let wrong = || format!("seed {seed:#x}, sample {number}: {bytes:?} for {:?}", job.want);
            assert!(!is_right || Ok(bytes) == job.want.as_ref(), "{}", wrong());
        }
        assert!((20..400).contains(&right), "{right} samples are right");
    }
}

#[test]
fn a_host_that_lies_of_the_end_of_a_file_is_an_error_and_no_data() {
    for lie in [
        Lie::GotMore,
        Lie::GotLess,
        Lie::SizeLess,
        Lie::SizeHuge,
        Lie::Answer(FILE_CHANGED),
        Lie::Answer(-2),
        Lie::Answer(i64::MIN),
        Lie::Answer(1),
        Lie::Answer(i64::MAX),
    ] {
        for uri in [SHARDED, SINGLE] {
            for knows_document in [false, true] {
                let objects = Objects::default();
                put_shard(&objects, 10);
                put_single(&objects, true);
                let config = Config { pad_mode: PAD_CONSTANT, pad_value_set: 1, ..chunk_config() };
                let config = objects.versioned(config);
                let loader = open(&config);
                if knows_document {
                    // A box outside of the array loads its document alone.
                    let outside = Job::new(uri, (vec![8, 8], vec![12, 12]), vec![0; 32]);
                    stream_through(&loader, &config, &[outside], 0);
                }
                *objects.lie.lock().unwrap() = lie;
                let (_, failure) = first_failure(&loader, &[job(uri, 1, None)]);
                assert_eq!(failure.status, Status::Io, "{lie:?}: {failure}");
            }
        }
    }
}

#[test]
fn versions_that_change_at_each_call_never_mix() {
    for is_later in [false, true] {
        let objects = Objects::default();
        put_shard(&objects, 10);
        objects.tells_others.store(true, SeqCst);
        let config = if is_later {
            objects.later(chunk_config())
        } else {
            objects.versioned(chunk_config())
        };
        let loader = open(&config);
        let (_, failure) = first_failure(&loader, &[job(SHARDED, 1, None)]);
        assert_eq!(failure.status, Status::Io, "{failure}");
        assert!(failure.text.as_str().contains("is not what it was"), "{failure}");
    }
}

#[test]
fn neighbours_are_read_together_up_to_a_gap_and_a_size() {
    // The left chunks of 2 x 2: one chunk lies between them.
    let left = || {
        let mut want = chunk_bytes(10);
        want.extend(chunk_bytes(12));
        Job::new(SHARDED, (vec![0, 0], vec![8, 4]), want)
    };
    for (gap, most, read_op_bytes, reads) in [
        (0, 0, 4 << 20, 2),
        (31, 0, 4 << 20, 2),
        (32, 0, 4 << 20, 1),
        (32, 95, 4 << 20, 2),
        (32, 96, 1, 1),
        (32, 0, 95, 2),
        (u64::from(u32::MAX), 0, 4 << 20, 1),
    ] {
        let objects = Objects::default();
        put_shard(&objects, 10);
        let mut config = objects.versioned(config(Dtype::U16, &[8, 4], 1));
        config.max_read_op_bytes = read_op_bytes;
        (config.store.merge_gap_bytes, config.store.merge_bytes_max) = (gap, most);
        let loader = open(&config);
        stream_through(&loader, &config, &[left()], 0);
        let requests = objects.take_requests();
        let count = requests.iter().filter(|request| request.kind == Kind::Version).count();
        assert_eq!(count, reads, "gap {gap}, most {most}: {:?}", brief(&requests));
    }
}

#[test]
fn reads_in_flight_are_as_many_as_the_store_says() {
    let bytes_of = |config: &Config| memory_need(config).unwrap().host_bytes;
    for (reads_max, most) in [(1, 1), (3, 3), (0, 4), (500, 500)] {
        let objects = Objects::default();
        put_shard(&objects, 10);
        let mut config = objects.later(Config { n_io_threads: 2, ..chunk_config() });
        config.store.reads_max = reads_max;
        config.max_host_memory_bytes = 64 << 20;
        let loader = open(&config);
        let jobs: Vec<Job> =
            (0..40).map(|n| job(SHARDED, n % 4, Some(10 + (n % 4) as u16))).collect();
        stream_through(&loader, &config, &jobs, 0);
        let reached = objects.later_most.load(SeqCst);
        assert!((1..=most).contains(&reached), "{reached} of {most}");
        drop(loader);
        let more = Config { store: StoreHook { reads_max: 9000, ..config.store }, ..config };
        assert!(bytes_of(&more) >= bytes_of(&config));
    }
}

#[test]
fn members_that_lack_others_or_leave_their_limits_are_refused() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 9] = [
        ("need files.size and files.read", |c| (c.files.size, c.files.read) = (None, None)),
        ("read_version_async needs read_version", |c| c.store.read_version = None),
        ("set read_version_async in its place", |c| {
            c.store.read_version_async = None;
            c.files.read_async = Some(never_begin_read);
        }),
        ("store.reads_max is for reads that end later", |c| {
            c.store.read_version_async = None;
            c.store.reads_max = 1;
        }),
        ("store.reads_max = 16385", |c| c.store.reads_max = 16385),
        ("store.merge_gap_bytes = 4294967296", |c| c.store.merge_gap_bytes = 1 << 32),
        ("store.merge_bytes_max = 4294967296", |c| c.store.merge_bytes_max = 1 << 32),
        ("need files.size and files.read", |c| {
            *c = Config { files: wavetrain::abi::FilesHook::NONE, ..*c };
            c.store = StoreHook { merge_gap_bytes: 1, ..StoreHook::NONE };
        }),
        ("need files.size and files.read", |c| {
            *c = Config { files: wavetrain::abi::FilesHook::NONE, ..*c };
            c.store = StoreHook { reads_max: 1, ..StoreHook::NONE };
        }),
    ];
    for (text, change) in changes {
        let objects = Objects::default();
        let mut config = objects.later(chunk_config());
        drop(open(&config));
        change(&mut config);
        let failure = Loader::open_on(&SYSTEM, &config).err().expect(text);
        assert_eq!(failure.status, Status::Invalid, "{failure}");
        assert!(failure.text.as_str().contains(text), "{failure}");
    }
}

unsafe extern "C" fn never_begin_read(
    _: *mut std::ffi::c_void,
    _: u64,
    _: u64,
    _: *const std::ffi::c_char,
    _: u64,
    _: *mut std::ffi::c_void,
    _: u64,
) -> i64 {
    0
}
