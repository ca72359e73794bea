//! Batches that lie in memory of the caller.

use crate::common::drive::{self, Job, PATIENCE_NS, config, in_hook_mode, tag};
use crate::common::fixtures::Scratch;
use crate::common::loans::{Block, batch_bytes, lend};
use crate::common::npy;
use crate::common::synth::{Meta, chunk_bytes, chunk_job};
use crate::tables::field;
use std::fs;
use std::time::Duration;
use wavetrain::config::*;
use wavetrain::cuda::Event;
use wavetrain::loader::{Batch, Failure, Loader, Part, Pop, Sample};
use wavetrain::records::Dtype;
use wavetrain::setup::field_table::FieldTable;
use wavetrain::status::Status;

const ROWS: u64 = 24;

/// An array of a chunk for each sample, in files of their own.
fn far(scratch: &Scratch) -> String {
    let uri = Meta::u16(&[ROWS * 4, 4], &[4, 4], None).write(scratch, "far", None);
    for y in 0..ROWS {
        let folder = scratch.path("far").join("c").join(y.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0"), chunk_bytes(y as u16)).unwrap();
    }
    uri
}

fn jobs(uri: &str, count: u64) -> Vec<Job> {
    (0..count).map(|y| chunk_job(uri, [y, 0], Some(y as u16))).collect()
}

fn of_two(settings: Config) -> Config {
    let own = config(Dtype::U16, &[4, 4], 2);
    Config { n_batch_slots: 2, lent_slots: settings.lent_slots, ..own }
}

fn push(loader: &Loader, jobs: &[Job]) {
    let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    let taken = loader.push(&requests, 0).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(taken, jobs.len());
    loader.flush().unwrap();
}

fn popped(loader: &Loader) -> Batch<'_> {
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => batch,
        Ok(Pop::Starved(why)) => panic!("starved: {}", why.as_str()),
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
}

fn starved(loader: &Loader) -> String {
    match loader.pop(20_000_000) {
        Ok(Pop::Starved(why)) => why.as_str().to_owned(),
        Ok(Pop::Batch(batch)) => {
            panic!("batch {}, lent as {:?}", batch.batch_id(), batch.lend_tag())
        }
        Ok(_) => panic!("not starved"),
        Err(failure) => panic!("{failure}"),
    }
}

fn refused(result: Result<(), Failure>, status: Status, text: &str) {
    let failure = result.expect_err(text);
    assert_eq!(failure.status, status, "{failure}");
    assert!(failure.text.as_str().contains(text), "{failure}");
}

#[test]
fn batches_take_what_was_lent_first_and_then_slots() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), 12);
    let config = of_two(Config::default());
    let bytes = batch_bytes(&config);
    for config in [config, Config { thread_mode: THREADS_PUMP, ..config }, in_hook_mode(&config)] {
        let loader = drive::open(&config);
        let mut blocks = [Block::new(bytes), Block::new(bytes + 40)];
        lend(&loader, &mut blocks[0], 31).unwrap();
        lend(&loader, &mut blocks[1], 30).unwrap();
        let mut third = Block::new(bytes);
        refused(lend(&loader, &mut third, 5), Status::Again, "n_batch_slots = 2 memories are lent");
        push(&loader, &jobs);
        let mut lent = [31, 30].iter().zip(&mut blocks);
        for number in 0..6 {
            let batch = popped(&loader);
            let expected = &jobs[2 * number..2 * number + 2];
            drive::check_batch(&config, &batch, expected, 2 * number);
            match lent.next() {
                Some((tag, block)) => {
                    assert_eq!(batch.lend_tag(), Some(*tag));
                    assert_eq!(batch.data().as_ptr(), block.target().0);
                    batch.release(None).unwrap();
                    block.check(bytes);
                }
                None => assert_eq!(batch.lend_tag(), None),
            }
        }
        // The caller has both again, and a batch leaves what it has no samples for alone.
        lend(&loader, &mut third, 6).unwrap();
        push(&loader, &jobs[..1]);
        let batch = popped(&loader);
        assert_eq!((batch.lend_tag(), batch.tags()), (Some(6), &[tag(0)][..]));
        batch.release(None).unwrap();
        third.check(bytes / 2);
        loader.close(PATIENCE_NS).unwrap();
    }
}

#[test]
fn a_loader_without_slots_waits_for_memory() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), 8);
    let config = of_two(Config { lent_slots: 1, ..Config::default() });
    let bytes = batch_bytes(&config);
    let loader = drive::open(&config);
    push(&loader, &jobs);
    let none = "no memory is lent for the next batch: lend some (0 batches are held, and 0 of 1";
    assert!(starved(&loader).contains(none));
    for number in 0..4 {
        let mut block = Block::new(bytes);
        lend(&loader, &mut block, number).unwrap();
        refused(lend(&loader, &mut Block::new(bytes), 9), Status::Again, "lent_slots = 1");
        let batch = popped(&loader);
        assert_eq!((batch.lend_tag(), batch.batch_id()), (Some(number), number));
        // What is given back is the caller's, and no other batch gets it.
        if number < 3 {
            assert!(starved(&loader).contains("(1 batches are held, and 1 of 1"));
            drop(batch);
            assert!(starved(&loader).contains("lend some (0 batches"));
        } else {
            drop(batch);
        }
        block.check(bytes);
        let want: Vec<u8> = jobs[2 * number as usize..][..2].iter().flat_map(wanted).collect();
        assert_eq!(block.data(), want);
    }
    assert!(matches!(loader.pop(PATIENCE_NS), Ok(Pop::End)));
    loader.close(PATIENCE_NS).unwrap();
}

fn wanted(job: &Job) -> Vec<u8> {
    job.want.clone().expect("the box is good")
}

#[test]
fn a_pop_that_waits_for_memory_goes_on_when_it_is_lent() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), 2);
    let own = of_two(Config { lent_slots: 2, ..Config::default() });
    for config in [own, Config { thread_mode: THREADS_PUMP, ..own }, in_hook_mode(&own)] {
        let loader = drive::open(&config);
        push(&loader, &jobs);
        let mut block = Block::new(batch_bytes(&config));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| popped(&loader).lend_tag());
            std::thread::sleep(Duration::from_millis(20));
            lend(&loader, &mut block, 3).unwrap();
            assert_eq!(waiting.join().unwrap(), Some(3));
        });
        loader.close(PATIENCE_NS).unwrap();
    }
}

#[test]
fn memory_that_will_not_do_is_refused_by_name() {
    let loader = drive::open(&of_two(Config::default()));
    let mut block = Block::new(128);
    let (start, _) = block.target();
    // SAFETY: nothing is written, since nothing is pushed.
    let with = |targets: &[(*mut u8, u64)]| unsafe { loader.lend(targets, None, 0) };
    let cases: [(&[_], _); 7] = [
        (&[], "n_targets = 0, not 1"),
        (&[(start, 64); 9], "n_targets = 9, not 1"),
        (&[(std::ptr::null_mut(), 64)], "targets[0].data is NULL"),
        (&[(start, 63)], "targets[0].bytes = 63: 2 samples take 64"),
        (&[(start, u64::MAX)], "targets[0].bytes = 18446744073709551615: more than there are"),
        (&[(start.wrapping_add(1), 64)], "aligned to 2 bytes"),
        (&[(std::ptr::without_provenance_mut(usize::MAX - 1), 64)], "more than there are"),
    ];
    for (targets, text) in cases {
        refused(with(targets), Status::Invalid, text);
    }
    with(&[(start, 64)]).unwrap();
    let text = "targets[0] overlaps memory that is lent and not given back, with tag 0";
    refused(with(&[(start.wrapping_add(62), 64)]), Status::Invalid, text);
    // SAFETY: the host looks into no event.
    let behind = unsafe {
        let event = Event::from_raw(std::ptr::without_provenance_mut(16));
        loader.lend(&[(start.wrapping_add(64), 64)], Some(event), 0)
    };
    refused(
        behind,
        Status::Unsupported,
        "in host memory, which no event of a device is for: nothing was lent",
    );
}

#[test]
fn fields_of_a_batch_are_lent_apart() {
    let scratch = Scratch::new();
    let path = scratch.path("labels.npy");
    let labels: Vec<u8> = (0..6i32).flat_map(i32::to_le_bytes).collect();
    fs::write(&path, npy::file("<i4", false, &[6], &labels)).unwrap();
    let uri = far(&scratch);
    let mut table = Vec::from([field("x", Dtype::F32, &[4, 4]), field("y", Dtype::I32, &[])]);
    table.iter_mut().for_each(|field| (field.pad_mode, field.pad_value) = (PAD_CONSTANT, 3.0));
    let fields = FieldTable::from_static(table.leak());
    let own = Config { digest: 1, on_error: ON_ERROR_SKIP, ..config(Dtype::F32, &[], 3) };
    let loader = drive::open(&Config { fields, lent_slots: 1, ..own });
    let mut blocks = [Block::new(3 * 64), Block::new(12)];
    let targets = blocks.each_mut().map(|block| block.target());
    // SAFETY: the blocks live until the loader is closed.
    unsafe { loader.lend(&targets, None, 77) }.unwrap();
    // SAFETY: likewise; nothing is written.
    let crossed =
        unsafe { loader.lend(&[targets[0], (targets[0].0.wrapping_add(8), 12)], None, 1) };
    refused(crossed, Status::Invalid, "overlaps");
    let labels = path.to_str().unwrap();
    for n in 0..3i64 {
        let uri = if n == 1 { "/nowhere" } else { &uri };
        let (begin, end) = ([4 * n, 0], [4 * n + 4, 4]);
        let image = Part { uri, begin: &begin, end: &end, ..Part::default() };
        let label = Part { uri: labels, begin: &[n], end: &[n + 1], field: 1, ..Part::default() };
        let sample = Sample { parts: &[image, label], tag: 0 };
        assert!(matches!(loader.push_samples(&[sample], 0), (1, Ok(()))));
    }
    let batch = popped(&loader);
    assert_eq!(batch.statuses()[0], 0);
    assert_eq!(Status::from_code(batch.statuses()[1]), Some(Status::NotFound));
    let fields = [batch.field(0).unwrap(), batch.field(1).unwrap()];
    for (field, (start, _)) in fields.iter().zip(targets) {
        assert_eq!(field.as_ptr(), start);
    }
    let digests: Vec<u64> =
        fields[0].data().chunks(64).map(crate::common::digest::digest).collect();
    assert_eq!(fields[0].digests().unwrap(), digests);
    let floats = |y: u16| {
        let values: Vec<u16> =
            chunk_bytes(y).as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        values.into_iter().flat_map(|value| f32::from(value).to_le_bytes()).collect::<Vec<u8>>()
    };
    let padding: Vec<u8> = [3f32; 16].into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(fields[0].data(), [floats(0), padding, floats(2)].concat());
    // What a failed sample has of other fields is pad_value as well.
    let labels: Vec<u8> = [0, 3, 2i32].iter().flat_map(|label| label.to_le_bytes()).collect();
    assert_eq!(fields[1].data(), labels);
    drop(fields);
    drop(batch);
    blocks.iter().zip([192, 12]).for_each(|(block, bytes)| block.check(bytes));
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn memory_comes_back_with_tensors_reset_and_close() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), 6);
    let config = of_two(Config { lent_slots: 3, ..Config::default() });
    let bytes = batch_bytes(&config);
    let loader = drive::open(&config);
    let mut blocks = [Block::new(bytes), Block::new(bytes), Block::new(bytes)];
    for (block, tag) in blocks.iter_mut().zip(0..) {
        lend(&loader, block, tag).unwrap();
    }
    push(&loader, &jobs);
    let batch = popped(&loader);
    let tensor = batch.dlpack().unwrap().expect("a tensor");
    batch.release(None).unwrap();
    refused(lend(&loader, &mut blocks[0], 9), Status::Invalid, "with tag 0");
    // The second batch is popped, the third may be under way.
    let held = popped(&loader);
    loader.reset().unwrap();
    refused(lend(&loader, &mut blocks[0], 9), Status::Invalid, "with tag 0");
    refused(lend(&loader, &mut blocks[1], 9), Status::Invalid, "with tag 1");
    lend(&loader, &mut blocks[2], 22).unwrap();
    // SAFETY: the tensor lives, and is deleted once.
    unsafe { (tensor.as_ref().deleter.expect("it has one"))(tensor.as_ptr()) };
    lend(&loader, &mut blocks[0], 20).unwrap();
    push(&loader, &jobs);
    assert_eq!(held.data(), [wanted(&jobs[2]), wanted(&jobs[3])].concat());
    for (number, tag) in [22, 20].into_iter().enumerate() {
        let batch = popped(&loader);
        assert_eq!(batch.lend_tag(), Some(tag));
        assert_eq!(
            batch.data(),
            [wanted(&jobs[2 * number]), wanted(&jobs[2 * number + 1])].concat()
        );
    }
    drop(held);
    lend(&loader, &mut blocks[1], 21).unwrap();
    loader.close(PATIENCE_NS).unwrap();
    blocks.iter().for_each(|block| block.check(bytes));
}

/// Memory that is there until it is dropped, and nowhere after.
struct Mapped(*mut u8, usize);

impl Mapped {
    fn new(bytes: usize) -> Mapped {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: it is a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        Mapped(start.cast(), bytes)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is this value's own.
        assert_eq!(unsafe { libc::munmap(self.0.cast(), self.1) }, 0);
    }
}

#[test]
fn nothing_is_written_after_a_reset_or_a_close() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), ROWS);
    let config = of_two(Config { lent_slots: 4, ..Config::default() });
    let bytes = batch_bytes(&config);
    let loader = drive::open(&config);
    for round in 0..40 {
        let memory: Vec<Mapped> = (0..4).map(|_| Mapped::new(bytes)).collect();
        for (memory, tag) in memory.iter().zip(0..) {
            // SAFETY: the memory goes after reset has returned.
            unsafe { loader.lend(&[(memory.0, bytes as u64)], None, tag) }.unwrap();
        }
        push(&loader, &jobs);
        std::thread::sleep(Duration::from_micros(round * 30));
        loader.reset().unwrap();
    }
    let memory = Mapped::new(bytes);
    // SAFETY: the memory goes after close has returned.
    unsafe { loader.lend(&[(memory.0, bytes as u64)], None, 0) }.unwrap();
    push(&loader, &jobs);
    loader.close(PATIENCE_NS).unwrap();
    drop(memory);
}

#[test]
fn a_batch_in_lent_memory_outlives_its_loader() {
    let scratch = Scratch::new();
    let jobs = jobs(&far(&scratch), 4);
    let config = of_two(Config::default());
    let (loader, mut block) = (drive::open(&config), Block::new(batch_bytes(&config)));
    lend(&loader, &mut block, 8).unwrap();
    push(&loader, &jobs);
    let tensors = {
        let batches = [popped(&loader), popped(&loader)];
        assert_eq!(batches.each_ref().map(Batch::lend_tag), [Some(8), None]);
        batches.map(|batch| batch.dlpack().unwrap().expect("a tensor"))
    };
    let failure = loader.close(PATIENCE_NS).expect_err("tensors live");
    assert_eq!(failure.status, Status::Again);
    for (tensor, jobs) in tensors.iter().zip(jobs.chunks(2)) {
        // SAFETY: the tensor lives, and has so many bytes.
        let data = unsafe {
            let first = tensor.as_ref().dl_tensor.data.cast::<u8>();
            std::slice::from_raw_parts(first, batch_bytes(&config)).to_vec()
        };
        assert_eq!(data, [wanted(&jobs[0]), wanted(&jobs[1])].concat());
        // SAFETY: it is deleted once.
        unsafe { (tensor.as_ref().deleter.expect("it has one"))(tensor.as_ptr()) };
    }
}
