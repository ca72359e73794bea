//! The limit of a run, as `limit_text` names it: made-up bottlenecks, each far ahead of all else.
//!
//! Files are read by a hook that sleeps; nothing is measured but which sentence comes out.

use crate::common::drive::{PATIENCE_NS, tag};
use crate::common::fixtures::{Scratch, is_chunk_path};
use crate::common::hook;
use crate::common::store::zstd_frame;
use crate::common::synth::{Meta, chunk_bytes};
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use wavetrain::abi::FilesHook;
use wavetrain::base::cpus::CpuSet;
use wavetrain::config::Config;
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;

/// How long requests of files sleep.
#[derive(Clone, Copy, Default)]
struct Delays {
    chunk_ms: u64,
    metadata_ms: u64,
}

impl Delays {
    fn of(self, name: *const c_char) {
        // SAFETY: a name has a NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let delay = if is_chunk_path(name) { self.chunk_ms } else { self.metadata_ms };
        sleep(Duration::from_millis(delay));
    }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the delays outlive the loader.
    unsafe { &*user.cast::<Delays>() }.of(name);
    // SAFETY: as the caller's.
    unsafe { hook::read(user, name, offset, target, bytes) }
}

/// The acts of a program beside pushes and pops.
#[derive(Clone, Copy, PartialEq, Default)]
enum Program {
    /// Nothing.
    #[default]
    Eager,
    /// It uses each batch for a while.
    Slow,
    /// It holds all batches, and asks for one more.
    Holding,
    /// Another thread pushes a batch now and then.
    Late,
}

type Boxes = Vec<(String, Vec<i64>, Vec<i64>)>;

struct Case {
    config: Config,
    delays: Delays,
    program: Program,
    boxes: Boxes,
}

/// The sentence after the boxes of a case.
fn limit(case: &Case) -> String {
    let user = std::ptr::from_ref(&case.delays).cast_mut().cast();
    let files = FilesHook { user, size: Some(hook::size), read: Some(read), ..FilesHook::NONE };
    let loader = Loader::open_on(&OS, &Config { files, ..case.config }).unwrap();
    let push = |number: usize, timeout_ns: u64| {
        let (uri, begin, end) = &case.boxes[number];
        let request = Request { uri, begin, end, tag: tag(number) };
        loader.push(&[request], timeout_ns).unwrap() == 1
    };
    std::thread::scope(|scope| {
        if case.program == Program::Late {
            scope.spawn(|| {
                for number in 0..case.boxes.len() {
                    if number % case.config.samples_per_batch as usize == 0 {
                        sleep(Duration::from_millis(20));
                    }
                    assert!(push(number, PATIENCE_NS));
                }
                loader.flush().unwrap();
            });
        }
        let (mut pushed, mut held) = (0, Vec::new());
        loop {
            if case.program != Program::Late {
                while pushed < case.boxes.len() && push(pushed, 0) {
                    pushed += 1;
                    if pushed == case.boxes.len() {
                        loader.flush().unwrap();
                    }
                }
            }
            let is_full = held.len() == case.config.n_batch_slots as usize;
            match loader.pop(if is_full { 100_000_000 } else { PATIENCE_NS }).unwrap() {
                Pop::Batch(batch) if case.program == Program::Holding => held.push(batch),
                Pop::Batch(batch) => {
                    if case.program == Program::Slow {
                        sleep(Duration::from_millis(20));
                    }
                    batch.release(None).unwrap();
                }
                Pop::Starved(_) => held.drain(..).for_each(|batch| batch.release(None).unwrap()),
                _ => break,
            }
        }
        held.drain(..).for_each(|batch| batch.release(None).unwrap());
    });
    let stats = loader.stats().unwrap();
    loader.close(PATIENCE_NS).unwrap();
    for (name, stage) in [
        ("plan", &stats.plan),
        ("meta", &stats.meta),
        ("io", &stats.io),
        ("decode", &stats.decode),
        ("assemble", &stats.assemble),
        ("pop_wait", &stats.pop_wait),
    ] {
        println!("{name}: {} of {} us", stage.count, stage.ns / 1000); // if it fails
    }
    // SAFETY: the text has a NUL.
    let text = unsafe { CStr::from_ptr(stats.limit_text.as_ptr()) };
    text.to_str().unwrap().to_string()
}

/// Fails unless the sentence begins with a word and has others.
fn check(case: &Case, first: &str, others: &[&str]) {
    let text = limit(case);
    assert!(text.starts_with(first), "{first}: {text}");
    others.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
}

const ROWS: u64 = 64;
/// CPUs of the system that loaders are opened on.
const CPUS: u32 = 2;
static OS: Os = Os {
    cpus: || CpuSet::from_list("0-1").unwrap(),
    read_system: |_, _, _| Err(Errno(libc::ENOENT)),
    ..SYSTEM
};

fn config(samples_per_batch: usize) -> Config {
    Config {
        n_io_threads: 4,
        lookahead_samples: 64,
        ..crate::common::drive::config(Dtype::U16, &[4, 4], samples_per_batch)
    }
}

/// An array of small chunks, each in a file, and its boxes of one chunk.
fn small(scratch: &Scratch, name: &str) -> Boxes {
    let uri = Meta::u16(&[ROWS * 4, 4], &[4, 4], None).write(scratch, name, None);
    let boxes = (0..ROWS).map(|y| {
        let folder = scratch.path(name).join("c").join(y.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0"), chunk_bytes(y as u16)).unwrap();
        (uri.clone(), vec![4 * y as i64, 0], vec![4 * y as i64 + 4, 4])
    });
    boxes.collect()
}

/// An array of zstd chunks of so many rows of 2,048 bytes, which take a while to decode, and boxes
/// of `part` rows of them.
fn large(scratch: &Scratch, name: &str, (chunks, rows, part): (u64, u64, u64)) -> Boxes {
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
    let meta = Meta { codecs, ..Meta::u16(&[chunks * rows, 1024], &[rows, 1024], None) };
    let uri = meta.write(scratch, name, None);
    // Every second byte is noise, so frames are shorter than their contents and cost time.
    let mut dice = 1u64;
    for chunk in 0..chunks {
        let raw: Vec<u8> = (0..rows * 1024)
            .flat_map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                [(dice >> 56) as u8 & 63, 0]
            })
            .collect();
        let folder = scratch.path(name).join("c").join(chunk.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0"), zstd_frame(&raw)).unwrap();
    }
    let boxes = (0..chunks * rows / part).map(|number| {
        // Boxes next to each other lie in different chunks.
        let begin = (number % chunks * rows + number / chunks * part) as i64;
        (uri.clone(), vec![begin, 0], vec![begin + part as i64, 1024])
    });
    boxes.collect()
}

const EAGER: Program = Program::Eager;

fn case(config: Config, (chunk_ms, metadata_ms): (u64, u64), boxes: &Boxes) -> Case {
    let delays = Delays { chunk_ms, metadata_ms };
    Case { config, delays, program: EAGER, boxes: boxes.clone() }
}

#[test]
fn slow_storage_and_slots_too_few_for_its_latency() {
    let scratch = Scratch::new();
    let boxes = small(&scratch, "far");
    check(&case(config(4), (5, 0), &boxes), "storage", &["4 threads", "raise n_io_threads"]);
    let few = Config { n_io_threads: 64, n_batch_slots: 1, max_host_memory_bytes: 0, ..config(1) };
    check(&case(few, (20, 0), &boxes), "storage", &["raise n_batch_slots (1)"]);
}

#[test]
fn metadata_that_is_cold() {
    let scratch = Scratch::new();
    let mut boxes = Boxes::new();
    for number in 0..48 {
        boxes.push(small(&scratch, &format!("far{number}")).swap_remove(0));
    }
    let config = Config { lookahead_samples: 4, n_array_meta_cache: 64, ..config(4) };
    check(&case(config, (0, 10), &boxes), "metadata", &["raise lookahead_samples (4)"]);
}

#[test]
fn a_caller_that_is_slower_holds_all_slots_or_pushes_late() {
    let scratch = Scratch::new();
    let boxes = small(&scratch, "far");
    let plain = case(config(4), (0, 0), &boxes);
    check(&Case { program: Program::Slow, ..plain }, "caller", &["no setting"]);
    let plain = case(config(4), (0, 0), &boxes);
    check(&Case { program: Program::Holding, ..plain }, "slots", &["all 3", "raise n_batch_slots"]);
    let plain = case(config(4), (0, 0), &boxes);
    check(&Case { program: Program::Late, ..plain }, "push", &["push them earlier"]);
}

#[test]
fn a_lookahead_that_has_room_for_one_batch() {
    let scratch = Scratch::new();
    let boxes = small(&scratch, "far");
    let config = Config { lookahead_samples: 4, n_io_threads: 16, ..config(4) };
    check(&case(config, (10, 0), &boxes), "", &["raise lookahead_samples (4)"]);
}

#[test]
fn decoding_on_too_few_threads_on_all_cpus_and_on_more_threads_than_cpus() {
    let scratch = Scratch::new();
    let boxes = large(&scratch, "noise", (64, 256, 256));
    let shape = |config: Config| {
        let mut config = Config { max_host_memory_bytes: 0, ..config };
        config.sample_shape[..2].copy_from_slice(&[256, 1024]);
        config
    };
    let base = shape(config(4));
    for (threads, word) in
        [(1, "raise n_decode_threads"), (CPUS, "ask for more"), (4 * CPUS, "lower")]
    {
        let config = Config { n_decode_threads: threads, ..base };
        check(&case(config, (0, 0), &boxes), "decode", &[word]);
    }
}

#[test]
fn boxes_that_use_little_of_what_they_decode() {
    let scratch = Scratch::new();
    let boxes = large(&scratch, "noise", (32, 256, 16));
    let mut config = Config { n_decode_threads: CPUS, ..config(4) };
    config.sample_shape[..2].copy_from_slice(&[16, 1024]);
    check(&case(config, (0, 0), &boxes), "decode", &["set chunk_cache_bytes"]);
}

#[test]
fn one_giant_chunk_at_a_time() {
    let scratch = Scratch::new();
    let boxes = large(&scratch, "giant", (2, 16 << 10, 64));
    let boxes: Boxes = boxes.into_iter().filter(|(_, begin, _)| begin[0] < 16 << 10).collect();
    let mut config = Config {
        max_chunk_uncompressed_bytes: 32 << 20,
        max_host_memory_bytes: 0,
        n_decode_threads: 4,
        ..config(8)
    };
    config.sample_shape[..2].copy_from_slice(&[64, 1024]);
    check(&case(config, (0, 0), &boxes[..64].to_vec()), "large chunks", &["set chunk_cache_bytes"]);
}

#[test]
fn samples_of_a_few_bytes() {
    let scratch = Scratch::new();
    let boxes = small(&scratch, "far");
    let boxes: Boxes = (0..512).flat_map(|_| boxes.clone()).collect();
    let config = Config { chunk_cache_bytes: 1 << 20, lookahead_samples: 4096, ..config(256) };
    check(&case(config, (0, 0), &boxes), "small samples", &["32 bytes", "wavetrain_push_table"]);
}

#[test]
fn nothing_is_known_before_the_fourth_batch_and_after_a_reset_of_the_figures() {
    let scratch = Scratch::new();
    let boxes = small(&scratch, "far");
    assert_eq!(limit(&case(config(4), (0, 0), &boxes[..12].to_vec())), "");
    assert_ne!(limit(&case(config(4), (0, 0), &boxes[..16].to_vec())), "");
}
