//! The memory bill: what it says is what open takes, its floor is enough, and nothing is refused
//! later that was accepted here. And the fields of features that are not built.

use crate::common::drive::{
    Dice, Job, PATIENCE_NS, config, first_failure, open, stream, stream_through,
};
use crate::common::fixtures::Scratch;
use crate::common::synth::{self, Meta};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use wavetrain::abi::{Blank, FieldSpec, LogHook};
use wavetrain::base::limits::compressed_bytes_max;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::cuda::DriverPath;
use wavetrain::loader::{Failure, Loader, Pop, Request, SCRATCH_BYTES, config_fit, memory_need};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::setup::allotted::Allotted;
use wavetrain::setup::field_table::FieldTable;
use wavetrain::setup::settings::settings_from_config;
use wavetrain::status::{Status, Why};

static MAPPED: AtomicI64 = AtomicI64::new(0);
static MAPS: AtomicI64 = AtomicI64::new(0);

static WEIGHED: Os = Os {
    map: |bytes| {
        MAPS.fetch_add(1, SeqCst);
        MAPPED.fetch_add(bytes as i64, SeqCst);
        (SYSTEM.map)(bytes)
    },
    unmap: |block, bytes| {
        MAPPED.fetch_sub(bytes as i64, SeqCst);
        (SYSTEM.unmap)(block, bytes);
    },
    ..SYSTEM
};

/// u16, 16 x 16, chunks of 8 x 8, nothing on disk: all 7.
fn empty_array(scratch: &Scratch) -> Job {
    let uri = Meta::u16(&[16, 16], &[8, 8], None).write(scratch, "empty", None);
    Job::new(&uri, (vec![4, 4], vec![12, 12]), 7u16.to_le_bytes().repeat(64))
}

fn need_bytes(config: &Config) -> u64 {
    memory_need(config).unwrap_or_else(|failure| panic!("{failure}")).host_bytes
}

/// The only test that counts maps, so that it needs no other's peace.
#[test]
fn an_endless_stream_of_pushes_runs_in_the_memory_of_the_bill() {
    let scratch = Scratch::new();
    let job = empty_array(&scratch);
    for samples in [1, 4, 50] {
        let mut config = config(Dtype::U16, &[8, 8], samples);
        config.lookahead_samples = 50;
        let need = memory_need(&config).unwrap_or_else(|failure| panic!("{failure}"));
        let lines: u64 = need.lines[..need.line_count as usize].iter().map(|line| line.bytes).sum();
        assert_eq!(lines, need.host_bytes);
        let before = MAPS.load(SeqCst);
        let loader = Loader::open_on(&WEIGHED, &config).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(MAPPED.load(SeqCst) as u64, need.host_bytes);
        assert_eq!(loader.stats().unwrap().host_bytes_committed, need.host_bytes);
        let maps = MAPS.load(SeqCst) - before;
        let (mut taken, mut popped) = (0u64, 0);
        let most = 50 + samples as u64 * config.n_batch_slots as u64;
        while popped < 2000 / samples {
            let endless: Vec<Request<'_>> = (0..200).map(|n| job.request(n)).collect();
            taken += loader.push(&endless, 0).unwrap_or_else(|f| panic!("{f}")) as u64;
            assert!(taken <= popped as u64 * samples as u64 + most, "{taken} after {popped}");
            match loader.pop(PATIENCE_NS) {
                Ok(Pop::Batch(batch)) => assert_eq!(batch.data(), job_bytes(&job, samples)),
                Ok(_) => panic!("no batch"),
                Err(failure) => panic!("{failure}"),
            }
            popped += 1;
        }
        assert_eq!(MAPPED.load(SeqCst) as u64, need.host_bytes);
        assert_eq!(MAPS.load(SeqCst) - before, maps);
        drop(loader);
        assert_eq!(MAPPED.load(SeqCst), 0);
    }
}

fn job_bytes(job: &Job, samples: usize) -> Vec<u8> {
    job.want.as_ref().expect("a good job").repeat(samples)
}

/// An array of one chunk of exactly the cap, three of a kind: constant, random, sparse noise. In
/// zstd the random one takes more bytes than it decodes to.
fn chunk_at_the_cap(scratch: &Scratch, kind: usize, side: u64) -> Job {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1 + kind as u64);
    let pixels: Vec<u8> = (0..side * side)
        .flat_map(|n| {
            let value = match kind {
                0 => 77,
                1 => dice.range(0, 65536) as u16,
                _ => {
                    if n % 50 == 0 {
                        dice.range(0, 65536) as u16
                    } else {
                        3
                    }
                }
            };
            value.to_le_bytes()
        })
        .collect();
    let encoded = zstd::bulk::compress(&pixels, 1).expect("a frame");
    assert!(kind != 1 || encoded.len() > pixels.len());
    let codecs = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
    let meta = Meta { codecs, ..Meta::u16(&[side, side], &[side, side], None) };
    let uri = meta.write(scratch, &format!("kind{kind}"), Some(&encoded));
    Job::new(&uri, (vec![0, 0], vec![side as i64, side as i64]), pixels)
}

/// The floor that a refusal names.
fn floor_in(failure: &Failure) -> u64 {
    let words = failure.text.as_str().split("at least ").nth(1).expect("it says how much");
    words.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn memory_below_the_floor_is_refused_with_the_floor_and_the_floor_streams_any_chunk() {
    let scratch = Scratch::new();
    // 1,100 x 1,100 u16 is a large chunk (over 1 MiB), 500 x 500 a small one.
    for side in [1100, 500] {
        let jobs: Vec<Job> = (0..3).map(|kind| chunk_at_the_cap(&scratch, kind, side)).collect();
        for mode in [0, THREADS_PUMP] {
            let mut config = config(Dtype::U16, &[side, side], 2);
            config.thread_mode = mode;
            config.max_chunk_uncompressed_bytes = side * side * 2;
            config.max_host_memory_bytes = 1;
            let failure = Loader::open_on(&SYSTEM, &config).err().expect("too little");
            assert_eq!(failure.status, Status::Budget, "{failure}");
            config.max_host_memory_bytes = floor_in(&failure);
            assert_eq!(need_bytes(&config), config.max_host_memory_bytes);
            stream(&config, &[&jobs[..], &jobs, &jobs].concat());
            config.max_host_memory_bytes -= 1;
            let failure = Loader::open_on(&SYSTEM, &config).err().expect("a byte too little");
            assert_eq!(failure.status, Status::Budget, "{failure}");
        }
    }
}

#[test]
fn the_longest_encoded_chunk_finds_room_at_the_floor() {
    static COLD: Os = Os {
        read: |fd, target, at, cached_only| match cached_only {
            true => Err(Errno(libc::EAGAIN)),
            false => (SYSTEM.read)(fd, target, at, false),
        },
        ..SYSTEM
    };
    let scratch = Scratch::new();
    let most = compressed_bytes_max(128);
    for lead in [0, 1, 4095] {
        let payload = vec![0xEE; lead as usize + most as usize];
        let bytes = synth::shard_bytes(&payload, &[(lead, most)]);
        let codecs = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
        let meta = Meta { codecs, ..Meta::u16(&[8, 8], &[8, 8], Some(&[8, 8])) };
        let uri = meta.write(&scratch, &format!("most{lead}"), Some(&bytes));
        let mut config = config(Dtype::U16, &[8, 8], 1);
        config.max_chunk_uncompressed_bytes = 128;
        config.max_host_memory_bytes = 1;
        let failure = memory_need(&config).err().expect("too little");
        config.max_host_memory_bytes = floor_in(&failure);
        let loader = Loader::open_on(&COLD, &config).unwrap_or_else(|failure| panic!("{failure}"));
        let (_, failure) =
            first_failure(&loader, &[Job::new(&uri, (vec![0, 0], vec![8, 8]), vec![])]);
        assert_eq!(failure.status, Status::Decode, "{failure}");
    }
}

/// The bytes of a line of a config's bill.
fn line_bytes(config: &Config, name: &str) -> u64 {
    let need = memory_need(config).unwrap_or_else(|failure| panic!("{failure}"));
    let lines = &need.lines[..need.line_count as usize];
    let name: Vec<c_char> = name.bytes().chain([0]).map(|byte| byte as c_char).collect();
    lines.iter().find(|line| line.name.starts_with(&name)).map_or(0, |line| line.bytes)
}

#[test]
fn augmentation_is_a_line_of_the_bill_for_each_box_that_waits_and_none_where_it_is_off() {
    // A head of 10 words, two tables of 64 floats, and 8 boxes: begin and end along each axis in
    // two words each, the number of values, and 64 of those; and a map of 12 doubles and 7 words.
    let box_bytes = |rank: u64| 4 * (10 + 2 * 64 + 8 * (4 * rank + 1 + 64) + 2 * 12 + 7);
    let augmentation_bytes = |config: &Config| line_bytes(config, "augmentation");
    for (shape, dtype) in [(&[8, 8][..], Dtype::F32), (&[3, 8, 8], Dtype::Bf16), (&[5], Dtype::U16)]
    {
        for (samples, boxes) in [(1, 0), (4, 3)] {
            let mut config = config(dtype, shape, samples);
            (config.max_boxes_per_sample, config.lookahead_samples) = (boxes, 50);
            assert_eq!(augmentation_bytes(&config), 0);
            config.augment = 1;
            // Two samples that are pushed, if they have several boxes, those that wait, those of
            // slots and of batches that are read before they have one, and calls of read_into.
            let early = settings_from_config(&config, &Allotted::of(2), &mut Why::new());
            let early = early.unwrap().early_batches();
            let batches = u64::from(config.n_batch_slots + early) * samples as u64;
            let pushed = if boxes > 1 { 2 } else { 0 };
            let count = (pushed + 50 + batches) * u64::from(boxes.max(1));
            let bytes = count * box_bytes(shape.len() as u64);
            // Each of four tables begins at a line of a cache.
            let found = augmentation_bytes(&config);
            assert!((bytes..bytes + 4 * 64).contains(&found), "{found}, not {bytes}");
        }
    }
}

#[test]
fn boxes_for_index_lists_are_a_line_of_the_bill_and_of_no_other_line() {
    let lines = ["sample queue", "batch states", "plan window", "augmentation", "uris"];
    for (samples, boxes, augment) in [(1, 1, 0), (4, 3, 1)] {
        let mut plain = config(Dtype::F32, &[8, 8], samples);
        (plain.max_boxes_per_sample, plain.lookahead_samples) = (boxes, 50);
        (plain.augment, plain.max_resample_bytes) = (augment, u64::from(augment) << 20);
        plain.max_host_memory_bytes = 1 << 30;
        assert_eq!(line_bytes(&plain, "index lists"), 0);
        let mut each = 0;
        for listed in [100, 1000] {
            let config = Config { max_indices_per_sample: listed, ..plain };
            let found = line_bytes(&config, "index lists");
            assert!(found > 300 * u64::from(listed) * 50, "{found}");
            assert!(each == 0 || found == each * u64::from(listed), "{found}, {each}");
            each = found / u64::from(listed);
            for line in lines {
                let (before, after) = (line_bytes(&plain, line), line_bytes(&config, line));
                // A sample of several boxes is drafted, and pairs of a chunk and a box are counted.
                let most = before + (48 << 10);
                assert!(after <= most, "{line}: {before}, with lists {after}");
            }
        }
    }
}

#[test]
fn staging_for_maps_is_a_line_of_the_bill_for_eight_of_the_largest_field() {
    let resampling = |config: &Config| line_bytes(config, "resampling");
    let mut config = config(Dtype::F32, &[128, 64, 64], 2);
    assert_eq!(resampling(&config), 0);
    (config.augment, config.max_host_memory_bytes) = (1, 1 << 30);
    // Tables of its boxes come to it.
    let tables = 512 << 10;
    for (given, bytes) in [(0, 16 << 20), (3 << 20, 3 << 20), (1, 4096)] {
        config.max_resample_bytes = given;
        let found = resampling(&config);
        assert!((bytes..bytes + tables).contains(&found), "{found}, not {bytes}");
    }
    config.augment = 0;
    let failure = Loader::open_on(&SYSTEM, &config).err().expect("nothing to resample");
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("max_resample_bytes"), "{failure}");
}

#[test]
fn a_bill_below_the_floor_still_lists_the_smallest_geometry() {
    use wavetrain::abi::{Error, Memory};
    let config = Config { max_host_memory_bytes: 1, ..config(Dtype::U16, &[8, 8], 2) };
    let mut need = Memory::EMPTY;
    let mut error = Error::EMPTY;
    // SAFETY: three live structs of their own sizes.
    let code =
        unsafe { wavetrain::surface::c::wavetrain_memory_need(&config, &mut need, &mut error) };
    assert_eq!((code, error.status), (Status::Budget as i32, Status::Budget as i32));
    let lines = &need.lines[..need.line_count as usize];
    assert!(lines.len() > 10);
    assert_eq!(lines.iter().map(|line| line.bytes).sum::<u64>(), need.host_bytes);
}

/// Every count that takes memory, as large as somebody may need it.
const LARGE: [(&str, &str, fn(&mut Config)); 14] = [
    ("n_array_meta_cache", "array metadata", |c| c.n_array_meta_cache = 1 << 16),
    ("n_shard_index_cache", "index pages", |c| c.n_shard_index_cache = 1 << 18),
    ("n_chunk_layout_cache", "file layouts", |c| c.n_chunk_layout_cache = 1 << 20),
    ("n_io_threads", "thread stacks", |c| (c.n_io_threads, c.log) = (1024, logging())),
    ("hook_stack_bytes", "thread stacks", |c| (c.hook_stack_bytes, c.log) = (64 << 20, logging())),
    ("n_decode_threads", "decode scratch", |c| c.n_decode_threads = 512),
    ("max_chunks_per_wave", "waves", |c| {
        (c.max_chunks_per_wave, c.host_buffer_waves) = (65535, 64)
    }),
    ("samples_per_batch", "batch states", |c| (c.samples_per_batch, c.digest) = (1 << 20, 1)),
    ("lookahead_samples", "sample queue", |c| c.lookahead_samples = 1 << 20),
    ("max_boxes_per_sample", "batch states", |c| {
        (c.samples_per_batch, c.max_boxes_per_sample) = (4096, 255);
    }),
    ("max_boxes_per_sample", "augmentation", |c| {
        (c.samples_per_batch, c.max_boxes_per_sample, c.augment) = (256, 255, 1);
    }),
    ("max_npy_files", "part table", |c| c.max_npy_files = 1 << 24),
    ("n_batch_slots", "batch slots", |c| (c.n_batch_slots, c.sample_shape[0]) = (64, 1 << 20)),
    ("chunk_cache_bytes", "chunk cache", |c| c.chunk_cache_bytes = 1 << 30),
];

fn logging() -> LogHook {
    unsafe extern "C" fn log(_: *mut c_void, _: u32, _: u64, _: *const c_char, _: u64) {}
    LogHook { log: Some(log), ..LogHook::NONE }
}

#[test]
fn each_count_alone_may_be_large_where_the_cap_is_derived() {
    let mut wrong = Vec::new();
    for (name, _, change) in LARGE {
        let mut config = Config { sample_rank: 1, ..Config::default() };
        config.sample_shape[0] = 64;
        change(&mut config);
        match memory_need(&config) {
            Ok(need) if need.host_bytes > 100 << 20 => {}
            Ok(need) => wrong.push(format!("{name} is not large: {}", need.host_bytes)),
            Err(failure) => wrong.push(format!("{name}: {failure}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_cap_that_is_too_small_names_the_largest_line_and_what_makes_it_smaller() {
    let mut wrong = Vec::new();
    for (name, line, change) in LARGE {
        let mut config = Config { sample_rank: 1, ..Config::default() };
        config.sample_shape[0] = 64;
        change(&mut config);
        config.max_host_memory_bytes = 100 << 20;
        let Some(failure) = memory_need(&config).err() else {
            wrong.push(format!("{name} fits"));
            continue;
        };
        let text = failure.text.as_str();
        let is_right = failure.status == Status::Budget
            && text.starts_with("max_host_memory_bytes = 104857600: this config needs")
            && text.contains(&format!(" of them are for {line}: lower "))
            && text.contains(name);
        if !is_right {
            wrong.push(format!("{name}: {failure}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_bill_never_exceeds_the_cap() {
    for mib in (8..80).step_by(5) {
        let mut config = config(Dtype::F32, &[64, 64], 4);
        config.max_host_memory_bytes = mib << 20;
        match memory_need(&config) {
            Ok(need) => assert!(need.host_bytes <= mib << 20, "{mib} MiB"),
            Err(failure) => assert_eq!(failure.status, Status::Budget, "{failure}"),
        }
    }
}

#[test]
fn config_fit_raises_the_chunk_cap_to_the_largest_chunk_and_lowers_nothing() {
    let scratch = Scratch::new();
    let small = Meta::u16(&[9, 9], &[3, 3], None).write(&scratch, "small", None);
    let large = Meta::u16(&[900, 900], &[900, 800], None).write(&scratch, "large", None);
    let uris = [small.as_str(), large.as_str(), small.as_str()];
    let mut scratch_block = vec![0; SCRATCH_BYTES];
    let mut fitted = config(Dtype::U16, &[900, 900], 1);
    fitted.max_chunk_uncompressed_bytes = 1000;
    fitted.max_host_memory_bytes = 1 << 20;
    let fit = |config: &mut Config, uris: &[&str], block: &mut [u8]| {
        config_fit(config, uris, block).unwrap_or_else(|failure| panic!("{failure}"));
    };
    fit(&mut fitted, &uris, &mut scratch_block);
    assert_eq!(fitted.max_chunk_uncompressed_bytes, 900 * 800 * 2);
    let want = 7u16.to_le_bytes().repeat(900 * 900);
    stream(&fitted, &[Job::new(&large, (vec![0, 0], vec![900, 900]), want)]);
    let before = fitted;
    fit(&mut fitted, &uris[..1], &mut scratch_block);
    assert_eq!(fitted.max_chunk_uncompressed_bytes, before.max_chunk_uncompressed_bytes);
    assert_eq!(fitted.max_host_memory_bytes, before.max_host_memory_bytes);
}

#[test]
fn a_pad_value_that_its_type_cannot_hold_is_refused_by_the_bill_as_by_open() {
    let spec = FieldSpec { dtype: Dtype::I8 as u32, pad_value: -129.0, ..FieldSpec::BLANK };
    let mut mask = FieldSpec { sample_rank: 1, ..spec };
    (mask.name[0], mask.sample_shape[0]) = (b'm', 5);
    let table = FieldTable::from_static(vec![mask].leak());
    let own = config(Dtype::U16, &[8, 8], 2);
    let fields = Config { fields: table, samples_per_batch: 2, ..Config::DEFAULT };
    for (config, says) in [
        (Config { pad_value: 0.25, ..own }, "pad_value = 0.25: u16 cannot hold it"),
        (fields, "field m: pad_value = -129: i8 cannot hold it"),
    ] {
        let bill = memory_need(&config).err().expect("a refusal");
        let open = Loader::open_on(&SYSTEM, &config).err().expect("a refusal");
        assert_eq!((bill.status, bill.text.as_str()), (Status::Invalid, says));
        assert_eq!((open.status, open.text.as_str()), (Status::Invalid, says));
    }
}

// Nobody calls a hook that is refused.

unsafe extern "C" fn never(_: *mut c_void) {}

unsafe extern "C" fn never_begin(_: *mut c_void, _: *const c_char) {}

unsafe extern "C" fn never_run(
    _: *mut c_void,
    _: unsafe extern "C" fn(*mut c_void),
    _: *mut c_void,
) {
}

#[test]
fn every_field_of_an_unbuilt_feature_is_refused_by_its_name() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 2] = [
        ("enable_gds", |c| c.enable_gds = wavetrain::config::AUTO),
        ("enable_gds", |c| c.enable_gds = wavetrain::config::GDS_ON),
    ];
    for (name, change) in changes {
        let mut config = config(Dtype::U16, &[4], 1);
        drop(open(&config));
        change(&mut config);
        let failure =
            Loader::open_on(&SYSTEM, &config).err().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(failure.status, Status::Unsupported, "{name}: {failure}");
        assert!(failure.text.as_str().contains(name), "{name}: {failure}");
    }
}

#[test]
fn a_latency_without_a_distribution_is_refused() {
    for (mu, sigma) in [(f64::NAN, 0.0), (f64::INFINITY, 0.0), (1.0, -1e-300), (1.0, f64::NAN)] {
        let mut config = config(Dtype::U16, &[4], 1);
        config.metadata_latency.lognormal_mu_ln_ns = mu;
        config.metadata_latency.lognormal_sigma_ln_ns = sigma;
        let failure = Loader::open_on(&SYSTEM, &config).err().unwrap();
        assert_eq!(failure.status, Status::Invalid, "{failure}");
        assert!(failure.text.as_str().starts_with("metadata_latency: "), "{failure}");
    }
}

#[test]
fn what_a_config_of_the_host_says_of_a_device_is_refused_by_its_name() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 4] = [
        ("max_gpu_memory_bytes", |c| c.max_gpu_memory_bytes = 1 << 30),
        ("consumer_stream", |c| c.consumer_stream = ptr::dangling_mut()),
        ("device", |c| c.device = 0),
        ("cuda_driver", |c| c.cuda_driver = DriverPath::from_static(c"/nowhere/libcuda.so.1")),
    ];
    for (name, change) in changes {
        let mut config = config(Dtype::U16, &[4], 1);
        config.backend = wavetrain::config::BACKEND_HOST;
        drop(open(&config));
        change(&mut config);
        let failure =
            Loader::open_on(&SYSTEM, &config).err().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(failure.status, Status::Invalid, "{name}: {failure}");
        assert!(failure.text.as_str().contains(name), "{name}: {failure}");
    }
}

#[test]
fn a_hook_without_what_it_needs_is_refused_by_its_name() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 4] = [
        ("workers.run", |c| c.thread_mode = wavetrain::config::THREADS_HOOK),
        ("workers.run", |c| c.workers.run = Some(never_run)),
        ("profiler", |c| c.profiler.begin = Some(never_begin)),
        ("profiler", |c| c.profiler.end = Some(never)),
    ];
    for (name, change) in changes {
        let mut config = config(Dtype::U16, &[4], 1);
        change(&mut config);
        let failure =
            Loader::open_on(&SYSTEM, &config).err().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(failure.status, Status::Invalid, "{name}: {failure}");
        assert!(failure.text.as_str().contains(name), "{name}: {failure}");
    }
}

#[test]
fn batches_of_a_thousand_samples_stream() {
    let scratch = Scratch::new();
    let job = empty_array(&scratch);
    let config = config(Dtype::U16, &[8, 8], 1000);
    let loader = open(&config);
    stream_through(&loader, &config, &vec![job; 3500], 0);
    assert_eq!(loader.stats().unwrap().batches_emitted, 4);
}
