//! Boxes that are read into memory of the caller.

use crate::common::drive::{self, Dice, Job, PATIENCE_NS, WARM, in_hook_mode, mixed_jobs};
use crate::common::fixtures::{self, Scratch};
use crate::common::hook;
use crate::common::npy;
use crate::common::read_boxes::{Layout, check_each, part, read};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use wavetrain::abi::FilesHook;
use wavetrain::config::*;
use wavetrain::loader::{Failure, Feed, Loader, Part, Pop, Request};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn config(dtype: Dtype) -> Config {
    Config { n_readers: 4, ..drive::config(dtype, &[1], 1) }
}

/// A .npy file of `rows` rows of 64 numbers, of which each is its place.
fn numbers(scratch: &Scratch, name: &str, rows: u64) -> String {
    let path = scratch.path(name);
    let data: Vec<u8> = (0..rows as u32 * 64).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&path, npy::file("<u4", false, &[rows, 64], &data)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn rows(uri: &str, first: i64, limit: i64) -> Job {
    let places = (first * 64..limit * 64).flat_map(|place| (place as u32).to_le_bytes());
    Job::new(uri, (vec![first, 0], vec![limit, 64]), places.collect())
}

fn refusal(loader: &Loader, part: &Part<'_>, layout: &Layout) -> Failure {
    read(loader, part, layout, PATIENCE_NS).expect_err("the box is refused")
}

#[test]
fn boxes_of_all_kinds_go_to_any_places() {
    let jobs = mixed_jobs(60);
    let own = config(Dtype::F32);
    let modes = [
        own,
        Config { thread_mode: THREADS_PUMP, ..own },
        in_hook_mode(&own),
        Config { chunk_cache_bytes: 8 << 20, max_host_memory_bytes: 0, ..own },
        Config { n_readers: 1, max_chunks_per_wave: 1, n_array_meta_cache: 1, ..own },
    ];
    for config in modes {
        check_each(&drive::open(&config), 4, &jobs);
    }
}

/// Most indices of a box, of several lists their product.
const LISTED_MAX: usize = 1000;

/// Lists of some axes of the box of a job, those elements of its axes in any order, some of them
/// twice; and the bytes that they give.
fn draw_lists(dice: &mut Dice, job: &Job) -> (Vec<(usize, Vec<i64>)>, Vec<u8>) {
    let (extents, mut lists, mut picked) = (job.extents(), Vec::new(), Vec::new());
    let mut indices = 1;
    for (axis, extent) in extents.iter().map(|extent| *extent as i64).enumerate() {
        let begin = job.begin[axis];
        let places: Vec<i64> = match dice.range(0, 4) {
            0 => (begin..job.end[axis]).collect(),
            1 => (begin..job.end[axis]).rev().collect(),
            _ => (0..dice.range(1, 20)).map(|_| begin + dice.range(0, extent)).collect(),
        };
        let is_list = dice.range(0, 5) > 0 && indices * places.len() <= LISTED_MAX;
        let places = if is_list { places } else { (begin..job.end[axis]).collect() };
        picked.push(places.iter().map(|at| (at - begin) as usize).collect::<Vec<_>>());
        if is_list {
            indices *= places.len();
            lists.push((axis, places));
        }
    }
    let mut elements = vec![0];
    for (axis, places) in picked.iter().enumerate() {
        let extent = extents[axis] as usize;
        let outer = elements
            .iter()
            .flat_map(|element: &usize| places.iter().map(move |place| element * extent + place));
        elements = outer.collect();
    }
    let bytes = job.want.as_ref().unwrap();
    let gathered = elements.iter().flat_map(|at| bytes[4 * at..][..4].to_vec()).collect();
    (lists, gathered)
}

#[test]
fn lists_of_indices_go_to_any_places_and_each_chunk_is_read_once() {
    let own = Config { max_indices_per_sample: LISTED_MAX as u32, ..config(Dtype::F32) };
    let modes = [
        own,
        Config { thread_mode: THREADS_PUMP, ..own },
        in_hook_mode(&own),
        Config { n_readers: 1, max_chunks_per_wave: 1, n_array_meta_cache: 1, ..own },
    ];
    let (mut dice, mut count) = (Dice(0x0DDB_1A5E_5BAD_5EED), 0);
    for config in modes {
        let loader = drive::open(&config);
        for job in mixed_jobs(60) {
            let (lists, want) = draw_lists(&mut dice, &job);
            let (mut begin, mut end, mut extents) =
                (job.begin.clone(), job.end.clone(), job.extents());
            for (axis, list) in &lists {
                (begin[*axis], end[*axis]) = (0, list.len() as i64);
                extents[*axis] = list.len() as u64;
            }
            let of_box: Vec<(usize, &[i64])> =
                lists.iter().map(|(axis, list)| (*axis, &list[..])).collect();
            let part = Part { begin: &begin, end: &end, lists: &of_box, ..part(&job) };
            for layout in [Layout::row_major(&extents, 4), Layout::strided(&extents, 4, &mut dice)]
            {
                let got = read(&loader, &part, &layout, PATIENCE_NS).unwrap();
                assert!(got == want, "{}: {lists:?}", job.uri);
            }
            count += lists.len();
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn a_chunk_is_decoded_once_for_all_runs_of_a_list() {
    let store = fixtures::family("mixed").next().unwrap();
    let shape = &store.image.shape;
    let loader = drive::open(&Config { max_indices_per_sample: 512, ..config(Dtype::F32) });
    let ends: Vec<i64> = shape.iter().map(|extent| (*extent as i64).min(20)).collect();
    let job = Job::of(store, (vec![0; ends.len()], ends.clone()), Dtype::F32);
    read(&loader, &part(&job), &Layout::row_major(&job.extents(), 4), PATIENCE_NS).unwrap();
    let planned = loader.stats().unwrap().chunks_planned;
    // Every other element, then those between them.
    let axis = ends.len() - 1;
    let list: Vec<i64> = (0..ends[axis]).step_by(2).chain((1..ends[axis]).step_by(2)).collect();
    let part = Part { lists: &[(axis, &list)], ..part(&job) };
    let layout = Layout::row_major(&job.extents(), 4);
    let got = read(&loader, &part, &layout, PATIENCE_NS).unwrap();
    let (row, bytes) = (ends[axis] as usize, job.want.as_ref().unwrap());
    let at = |place: usize| 4 * (place / row * row + list[place % row] as usize);
    let want = (0..bytes.len() / 4).flat_map(|place| bytes[at(place)..][..4].to_vec());
    assert!(got == want.collect::<Vec<u8>>());
    assert_eq!(loader.stats().unwrap().chunks_planned, 2 * planned);
}

#[test]
fn lists_that_will_not_do_are_refused_and_write_nothing() {
    let scratch = Scratch::new();
    let flat = numbers(&scratch, "flat.npy", 8);
    let layout = Layout::row_major(&[3, 64], 4);
    let with = |list: &'static [i64]| [(0, list)];
    for (listed, list, status, word) in [
        (0, &[1, 2, 5][..], Status::Invalid, "max_indices_per_sample = 0"),
        (2, &[1, 2, 5], Status::Invalid, "of 3 indices"),
        (9, &[1, i64::MAX, 5], Status::Invalid, "no array has it"),
        // The first run lies in the array, the second does not; and the other way round.
        (9, &[1, 2, 8], Status::Invalid, "exceeds the array"),
        (9, &[-1, 3, 5], Status::Invalid, "exceeds the array"),
    ] {
        let loader = drive::open(&Config { max_indices_per_sample: listed, ..config(Dtype::U32) });
        let lists = with(list);
        let begin = [0, 0];
        let part =
            Part { uri: &flat, begin: &begin, end: &[3, 64], lists: &lists, ..Part::default() };
        let failure = refusal(&loader, &part, &layout);
        assert_eq!(failure.status, status, "{failure}");
        assert!(failure.text.as_str().contains(word), "{failure}");
        // The reader is free again.
        let rows = rows(&flat, 2, 5);
        let got = read(&loader, &crate::common::read_boxes::part(&rows), &layout, PATIENCE_NS);
        assert!(got.unwrap() == rows.want.unwrap());
    }
    let loader = drive::open(&Config { max_indices_per_sample: 9, ..config(Dtype::U32) });
    let mut short = Layout::row_major(&[3, 64], 4);
    short.shorten(1);
    let lists = with(&[7, 0, 3]);
    let part = Part { uri: &flat, begin: &[0, 0], end: &[3, 64], lists: &lists, ..Part::default() };
    let failure = refusal(&loader, &part, &short);
    assert!(failure.text.as_str().contains("the places of the box take 768"), "{failure}");
}

#[test]
fn raw_elements_are_each_arrays_own() {
    let loader = drive::open(&Config { dtype_bytes: 3, ..config(Dtype::Raw) });
    for store in fixtures::family("mixed") {
        let shape = &store.image.shape;
        let end: Vec<i64> = shape.iter().map(|extent| (*extent as i64).min(20)).collect();
        let job = Job::of(store, (vec![0; end.len()], end), store.image.dtype);
        check_each(&loader, store.image.dtype.bytes() as usize, &[job]);
    }
}

#[test]
fn threads_fill_parts_of_one_array() {
    const BOXES: usize = 10_000;
    let scratch = Scratch::new();
    let flat = numbers(&scratch, "flat.npy", 500);
    let jobs: Vec<Job> = mixed_jobs(40);
    let loader = drive::open(&Config { n_readers: 3, ..config(Dtype::F32) });
    let places = |first: i64| (first * 64..(first + 4) * 64).map(|place| place as u32 as f32);
    let bytes = |first: i64| places(first).flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    // Each box has 1024 bytes of its own, between 32 that nobody may touch.
    const PITCH: usize = 1024 + 32;
    let mut block = vec![0xA7u8; BOXES * PITCH + 32];
    let start = block.as_mut_ptr().expose_provenance();
    let job_of = |number: usize| {
        let mut dice = Dice(number as u64 * 77 + 1);
        dice.range(0, 100);
        match number % 2 {
            0 => jobs[dice.range(0, jobs.len() as i64) as usize].clone(),
            _ => {
                let first = dice.range(0, 497);
                Job::new(&flat, (vec![first, 0], vec![first + 4, 64]), bytes(first))
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (loader, job_of) = (&loader, &job_of);
            scope.spawn(move || {
                for number in (thread..BOXES).step_by(8) {
                    let job = job_of(number);
                    let place = start + 32 + number * PITCH;
                    let target = (ptr::with_exposed_provenance_mut(place), 1024);
                    // SAFETY: the place is this box's alone.
                    let read = unsafe { loader.read_into(&part(&job), target, None, PATIENCE_NS) };
                    read.unwrap_or_else(|failure| panic!("box {number}: {failure}"));
                }
            });
        }
    });
    for number in 0..BOXES {
        let (guard, place) = block[number * PITCH..][..PITCH].split_at(32);
        assert!(guard.iter().all(|byte| *byte == 0xA7), "before box {number}");
        assert!(job_of(number).want.as_deref() == Ok(place), "box {number}");
    }
    assert!(block[BOXES * PITCH..].iter().all(|byte| *byte == 0xA7));
}

#[test]
fn what_will_not_do_is_refused_by_name() {
    let scratch = Scratch::new();
    let job = rows(&numbers(&scratch, "flat.npy", 10), 2, 5);
    let loader = drive::open(&config(Dtype::U32));
    let with = |change: &dyn Fn(&mut Layout)| {
        let mut layout = Layout::row_major(&job.extents(), 4);
        change(&mut layout);
        refusal(&loader, &part(&job), &layout)
    };
    let strided = |strides: [i64; 2]| {
        let mut block = vec![0xA7u8; 8192];
        let target = (block[4096..].as_mut_ptr(), 4096);
        // SAFETY: no byte outside of the block may be written, whatever the strides are.
        let read = unsafe { loader.read_into(&part(&job), target, Some(&strides), PATIENCE_NS) };
        assert!(block.iter().all(|byte| *byte == 0xA7), "{strides:?}");
        let failure = read.expect_err("the strides are refused");
        (failure.status, failure.text.as_str().to_owned())
    };
    let few = with(&|layout| layout.shorten(1));
    assert_eq!(few.status, Status::Invalid);
    assert!(
        few.text.as_str().contains("target_bytes = 767: the places of the box take 768"),
        "{few}"
    );
    for strides in [[0, 4], [4, 4], [252, 4], [256, 3], [-252, 4], [1, 2]] {
        let (status, text) = strided(strides);
        assert!(status == Status::Invalid && text.contains("overlap"), "{strides:?}: {text}");
    }
    for strides in [[i64::MIN, 4], [i64::MIN + 1, i64::MIN], [i64::MAX, 4], [1 << 40, 4]] {
        let (status, text) = strided(strides);
        assert!(status == Status::Invalid && text.contains("places"), "{strides:?}: {text}");
    }
    let layout = Layout::row_major(&job.extents(), 4);
    let one = Feed::Value(Dtype::U32, &[1, 1], &[7; 4]);
    let bad: [(Part<'_>, &str); 4] = [
        (Part { at: &[1], ..part(&job) }, "at, axes and tensor"),
        (Part { axes: &[Some(0), Some(1)], ..part(&job) }, "at, axes and tensor"),
        (Part { feed: one, begin: &[0, 0], end: &[1, 1], ..part(&job) }, "at, axes and tensor"),
        (Part { field: 1, ..part(&job) }, "field = 1"),
    ];
    for (part, text) in bad {
        let failure = refusal(&loader, &part, &layout);
        assert!(failure.status == Status::Invalid, "{failure}");
        assert!(failure.text.as_str().contains(text), "{failure}");
    }
    let none = drive::open(&Config { n_readers: 0, ..config(Dtype::U32) });
    let failure = refusal(&none, &part(&job), &layout);
    assert!(failure.text.as_str().contains("n_readers = 0"), "{failure}");
}

#[test]
fn errors_are_those_of_the_box_alone() {
    let scratch = Scratch::new();
    let (good, gone) = (numbers(&scratch, "flat.npy", 10), scratch.uri("gone.npy"));
    let loader = drive::open(&Config { on_error: ON_ERROR_FAIL, ..config(Dtype::U32) });
    let layout = Layout::row_major(&[1, 64], 4);
    let absent = refusal(&loader, &part(&rows(&gone, 0, 1)), &layout);
    assert_eq!(absent.status, Status::NotFound, "{absent}");
    let outside = refusal(&loader, &part(&rows(&good, 10, 11)), &layout);
    assert_eq!(outside.status, Status::Invalid, "{outside}");
    // The stream fails, and stays so; boxes are read all the same.
    let request = Request { uri: &gone, begin: &[0, 0], end: &[1, 1], tag: 7 };
    loader.push(&[request], PATIENCE_NS).unwrap();
    let failure = loader.pop(PATIENCE_NS).err().expect("the stream fails");
    assert_eq!((failure.status, failure.tag), (Status::NotFound, 7));
    check_each(&loader, 4, &[rows(&good, 3, 7)]);
    assert_eq!(loader.flush().unwrap_err().status, Status::NotFound);
    loader.reset().unwrap();
    let request = Request { uri: &good, begin: &[1, 0], end: &[2, 1], tag: 8 };
    loader.push(&[request], PATIENCE_NS).unwrap();
    assert!(matches!(loader.pop(PATIENCE_NS), Ok(Pop::Batch(_))));
}

#[test]
fn each_read_sees_the_file_as_it_is_then() {
    let scratch = Scratch::new();
    let uri = numbers(&scratch, "flat.npy", 10);
    let loader = drive::open(&config(Dtype::U32));
    check_each(&loader, 4, &[rows(&uri, 3, 7)]);
    let data: Vec<u8> = (0..12 * 64u32).flat_map(|place| (place + 5).to_le_bytes()).collect();
    let other = scratch.path("other.npy");
    std::fs::write(&other, npy::file("<u4", false, &[12, 64], &data)).unwrap();
    std::fs::rename(&other, scratch.path("flat.npy")).unwrap();
    let want = data[11 * 256..12 * 256].to_vec();
    check_each(&loader, 4, &[Job::new(&uri, (vec![11, 0], vec![12, 64]), want)]);
}

#[test]
fn boxes_are_read_while_all_slots_are_held_and_reads_have_to_be_waited_for() {
    let jobs = mixed_jobs(200);
    let mut held = drive::config(Dtype::F32, &[16, 16], 2);
    (held.n_io_threads, held.n_batch_slots, held.n_readers) = (8, 2, 2);
    // Every read has to be waited for, so later batches are read before they have memory.
    let os = Box::leak(Box::new(wavetrain::os::Os {
        read: |fd, target, at, cached_only| match cached_only {
            true => Err(wavetrain::os::Errno(libc::EAGAIN)),
            false => (WARM.read)(fd, target, at, false),
        },
        ..WARM
    }));
    let loader = Loader::open_on(os, &held).unwrap();
    let requests: Vec<Request<'_>> =
        jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    loader.push(&requests, 0).unwrap();
    let pop = || match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => batch,
        _ => panic!("no batch"),
    };
    let batches = [pop(), pop()];
    std::thread::sleep(Duration::from_millis(50));
    check_each(&loader, 4, &jobs[..100]);
    drop(batches);
}

/// Files of a folder whose data waits at a gate.
struct Gate {
    is_open: AtomicBool,
    waiting: AtomicU64,
}

impl Gate {
    fn leaked() -> &'static Gate {
        Box::leak(Box::new(Gate { is_open: AtomicBool::new(false), waiting: AtomicU64::new(0) }))
    }

    fn hook(&'static self) -> FilesHook {
        unsafe extern "C" fn read(
            user: *mut c_void,
            name: *const c_char,
            offset: u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64 {
            // SAFETY: it is the gate that the hook came with.
            let gate = unsafe { &*user.cast::<Gate>() };
            // The header of a .npy file is at its front.
            if offset > 0 {
                gate.waiting.fetch_add(1, SeqCst);
                let begun = Instant::now();
                while !gate.is_open.load(SeqCst) && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // SAFETY: as the hook's caller says.
            unsafe { hook::read(user, name, offset, target, bytes) }
        }
        let user = ptr::from_ref(self).cast_mut().cast();
        FilesHook { size: Some(hook::size), read: Some(read), user, ..FilesHook::NONE }
    }

    fn open(&self) {
        self.is_open.store(true, SeqCst);
    }
}

/// Memory that is unmapped as soon as a read has returned.
struct Pages(*mut u8);

const PAGES_BYTES: usize = 1 << 20;

impl Pages {
    fn new() -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory.
        let pages = unsafe { libc::mmap(ptr::null_mut(), PAGES_BYTES, access, flags, -1, 0) };
        assert!(pages != libc::MAP_FAILED);
        Pages(pages.cast())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nobody is to use the memory any more.
        unsafe { libc::munmap(self.0.cast(), PAGES_BYTES) };
    }
}

/// Reads into pages that are gone when this returns.
fn read_to_pages(loader: &Loader, job: &Job, timeout_ns: u64) -> Result<Vec<u8>, Failure> {
    let pages = Pages::new();
    let bytes = job.want.as_ref().map_or(0, Vec::len);
    // SAFETY: the pages are this call's until they are unmapped.
    let read =
        unsafe { loader.read_into(&part(job), (pages.0, PAGES_BYTES as u64), None, timeout_ns) };
    // SAFETY: the read is over.
    read.map(|()| unsafe { std::slice::from_raw_parts(pages.0, bytes) }.to_vec())
}

#[test]
fn a_read_that_is_late_leaves_its_target_and_others_go_on() {
    let scratch = Scratch::new();
    let flat = rows(&numbers(&scratch, "flat.npy", 100), 20, 40);
    let gate = Gate::leaked();
    let files = gate.hook();
    let mut config = Config { files, n_readers: 2, ..config(Dtype::U32) };
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        config.thread_mode = thread_mode;
        gate.is_open.store(thread_mode == THREADS_PUMP, SeqCst);
        // SAFETY: the hook reads files, and its gate lives as long as the process.
        let loader = unsafe { Loader::open_trusting(&config) }.unwrap();
        if thread_mode == THREADS_OWN {
            for timeout_ns in [0, 1, 50_000_000, 50_000_000] {
                let begun = Instant::now();
                let failure = read_to_pages(&loader, &flat, timeout_ns).unwrap_err();
                let late = if timeout_ns == 0 { Status::Again } else { Status::Starved };
                assert_eq!(failure.status, late, "{failure}");
                assert!(begun.elapsed() < Duration::from_secs(20));
            }
            gate.open();
        }
        let read = read_to_pages(&loader, &flat, PATIENCE_NS).unwrap();
        assert!(flat.want.as_deref() == Ok(&read[..]));
        loader.close(PATIENCE_NS).unwrap();
    }
}

#[test]
fn close_and_reset_end_reads_that_wait() {
    let scratch = Scratch::new();
    let flat = rows(&numbers(&scratch, "flat.npy", 100), 20, 40);
    let gate = Gate::leaked();
    let config = Config { files: gate.hook(), n_readers: 1, ..config(Dtype::U32) };
    // SAFETY: the hook reads files, and its gate lives as long as the process.
    let loader = unsafe { Loader::open_trusting(&config) }.unwrap();
    let reset = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| read_to_pages(&loader, &flat, PATIENCE_NS))).collect();
        while gate.waiting.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            gate.open();
        });
        loader.reset().unwrap();
        for reader in readers {
            match reader.join().unwrap() {
                Ok(read) => assert!(flat.want.as_deref() == Ok(&read[..])),
                Err(failure) => {
                    assert_eq!(failure.status, Status::Again, "{failure}");
                    reset.fetch_add(1, SeqCst);
                }
            }
        }
    });
    assert!(reset.load(SeqCst) > 0, "the reset ended none");
    let read = read_to_pages(&loader, &flat, PATIENCE_NS).unwrap();
    assert!(flat.want.as_deref() == Ok(&read[..]));
}
