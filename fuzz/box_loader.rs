//! A loader without threads, in a block of memory that every input uses again: what it takes is
//! pushed, popped, and compared with what box_model.rs painted.
//!
//! In: fields, boxes and the structs that stand for them. Out: what push refused.

use super::box_model::{BoxModel, FieldModel, Painted};
use super::choices::Choices;
use std::cell::RefCell;
use std::ptr::null_mut;
use wavetrain::abi::{BOX_VALUE, BatchInfo, Error, Sample, SampleBox};
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::status::Status;
use wavetrain::surface::c::*;

/// Steps of a loader without threads after which what was pushed has come out.
const STEPS_MAX: usize = 20_000;

const BLOCK_BYTES: usize = 8 << 20;

thread_local! {
    /// Memory of every loader, with whatever the one before left there.
    static BLOCK: RefCell<&'static mut [u8]> = RefCell::new({
        let block: &'static mut [u8] = vec![0xA5; BLOCK_BYTES + 4096].leak();
        let skip = block.as_ptr().align_offset(4096);
        &mut block[skip..]
    });
}

/// A config of small buffers, for that many boxes and samples that are pushed at once.
pub fn config(choices: &mut Choices<'_>, boxes: u32, samples: u32) -> Config {
    let mut config = Config { thread_mode: THREADS_PUMP, ..Config::default() };
    config.samples_per_batch = choices.one_of(&[1, 2, 3]);
    config.max_boxes_per_sample = choices.one_of(&[boxes, 0, 5, 2]);
    config.lookahead_samples = samples + 3;
    config.n_batch_slots = choices.one_of(&[2, 1]);
    config.max_host_memory_bytes = BLOCK_BYTES as u64;
    // Of small ones a tensor has many.
    config.max_chunk_uncompressed_bytes = choices.one_of(&[4096, 64, 16]);
    config.max_read_op_bytes = 4096;
    config.host_buffer_waves = 2;
    config.max_chunks_per_wave = choices.one_of(&[8, 1, 64]);
    config.n_io_threads = 1;
    config.n_decode_threads = 1;
    config.metadata_io_concurrency = 1;
    config.n_array_meta_cache = 1;
    config.n_shard_index_cache = 1;
    config.n_chunk_layout_cache = 1;
    config.chunk_cache_bytes = choices.one_of(&[0, 0, 65_536]);
    config.memory.host_block = BLOCK.with_borrow_mut(|block| block.as_mut_ptr()).cast();
    config.memory.host_block_bytes = BLOCK_BYTES as u64;
    config
}

/// Opens a loader; this thread has one at a time.
pub fn open(config: &Config) -> u64 {
    let (mut loader, mut error) = (0, Error::EMPTY);
    // SAFETY: all three are whole; this thread has one loader at a time in its block.
    let code = unsafe { wavetrain_open(config, &mut loader, &mut error) };
    assert_eq!(code, 0, "{}", text(&error));
    loader
}

/// The text of an error.
pub fn text(error: &Error) -> String {
    let bytes = error.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

/// Pushes a sample of those boxes, and gives what push says if it refuses it. What push copies is
/// written over.
pub fn push(
    loader: u64,
    sample: &mut [BoxModel],
    boxes: Vec<SampleBox>,
    tag: u64,
) -> Option<Error> {
    let raw = Sample {
        boxes: boxes.as_ptr(),
        n_boxes: boxes.len() as u32,
        box_bytes: size_of::<SampleBox>() as u32,
        tag,
    };
    let mut taken = 77;
    // SAFETY: one sample of that size; its boxes and tensors are there.
    let code = unsafe { wavetrain_push(loader, &raw, 1, size_of::<Sample>(), 0, &mut taken) };
    drop(boxes);
    let values = sample.iter_mut().filter_map(|made| made.fed.as_mut());
    values.filter(|fed| fed.kind == BOX_VALUE).for_each(|fed| fed.block.fill(0xEE));
    assert_eq!(taken, usize::from(code == 0));
    (code != 0).then(|| refusal(loader, code, tag))
}

/// The error of a push that returned `code` for the sample of a tag.
pub fn refusal(loader: u64, code: i32, tag: u64) -> Error {
    let mut error = Error::EMPTY;
    // SAFETY: the struct is whole.
    assert_eq!(unsafe { wavetrain_last_error(loader, &mut error) }, 0);
    assert_eq!((error.status, error.tag), (code, tag));
    let known = [Status::Invalid, Status::Rank, Status::Dtype, Status::Unsupported];
    assert!(known.iter().any(|status| *status as i32 == code), "{}", text(&error));
    error
}

/// Pops what was pushed, batch by batch, compares it, and closes the loader.
pub fn finish<'a>(
    loader: u64,
    fields: &[FieldModel],
    batches: impl Iterator<Item = &'a [Vec<Painted>]>,
) {
    assert_eq!(wavetrain_flush(loader), 0);
    for batch in batches {
        let token = pop(loader, Status::Ok);
        for (number, field) in fields.iter().enumerate() {
            check_field(loader, (token, number), field, batch);
        }
        // SAFETY: there is no event.
        assert_eq!(unsafe { wavetrain_release(loader, token, null_mut()) }, 0);
    }
    pop(loader, Status::End);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { wavetrain_close(loader, u64::MAX, null_mut()) }, 0);
}

/// Works until pop returns something.
fn pop(loader: u64, expected: Status) -> u64 {
    let (mut token, mut error) = (0, Error::EMPTY);
    for _ in 0..STEPS_MAX {
        wavetrain_pump(loader, 0);
        // SAFETY: both are writable.
        let code = unsafe { wavetrain_pop(loader, 0, &mut token, &mut error) };
        if code != Status::Again as i32 {
            assert_eq!(code, expected as i32, "{}", text(&error));
            return token;
        }
    }
    panic!("what was pushed does not come out");
}

fn check_field(
    loader: u64,
    (token, number): (u64, usize),
    field: &FieldModel,
    batch: &[Vec<Painted>],
) {
    let mut info = BatchInfo::EMPTY;
    // SAFETY: the struct is whole.
    assert_eq!(unsafe { wavetrain_batch_info(loader, token, number as u32, &mut info) }, 0);
    let rank = field.shape.len();
    assert_eq!((info.rank as usize, info.dtype), (1 + rank, field.dtype as u32));
    assert_eq!((info.sample_count as usize, info.failed_samples), (batch.len(), 0));
    assert_eq!((info.shape[0], &info.shape[1..=rank]), (batch.len() as u64, &field.shape[..]));
    assert_eq!(info.bytes as usize, batch.len() * field.sample_bytes());
    let extents = rank.max(1);
    // SAFETY: the batch is held, so its pointers are alive and of these lengths.
    let (bytes, filled_shape, name) = unsafe {
        (
            std::slice::from_raw_parts(info.data.cast::<u8>(), info.bytes as usize),
            std::slice::from_raw_parts(info.filled_shape, batch.len() * extents),
            std::ffi::CStr::from_ptr(info.name),
        )
    };
    assert_eq!(name.to_str(), Ok(&field.name[..]));
    let rows = bytes.chunks_exact(field.sample_bytes()).zip(filled_shape.chunks_exact(extents));
    for (sample, (row, filled_shape)) in batch.iter().zip(rows) {
        let want = &sample[number];
        assert_eq!(filled_shape, want.filled_shape, "{field:?}");
        assert!(row == want.bytes, "{field:?}: {row:02x?}, not {:02x?}", want.bytes);
    }
}
