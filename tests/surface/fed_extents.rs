//! Tensors of extents that no memory has: push says what is wrong with them, whatever it computes.

use std::ptr::null_mut;
use wavetrain::abi::{BOX_MEMORY, BOX_VALUE, Blank, Error, Sample, SampleBox, Tensor};
use wavetrain::config::{Config, PAD_CONSTANT, THREADS_PUMP};
use wavetrain::loader::{Feed, Loader, Memory, Part};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

fn config() -> Config {
    let mut config = Config { thread_mode: THREADS_PUMP, ..Config::default() };
    (config.sample_rank, config.sample_shape[0]) = (1, 1);
    (config.pad_mode, config.max_boxes_per_sample) = (PAD_CONSTANT, 1);
    config.dtype = Dtype::U8 as u32;
    config
}

/// What push says of one box that reads `[begin, begin + 1)` along each axis, and in which words.
fn pushed(kind: u32, shape: &[u64], strides: &[i64], begin: &[i64]) -> (i32, String) {
    let config = config();
    let mut loader = 0;
    // SAFETY: both are whole.
    assert_eq!(unsafe { wavetrain_open(&config, &mut loader, null_mut()) }, 0);
    let element = 7u8;
    let mut tensor = Tensor { dtype: config.dtype, ..Tensor::EMPTY };
    tensor.data = (&raw const element).cast();
    tensor.shape[..shape.len()].copy_from_slice(shape);
    tensor.strides[..shape.len()].copy_from_slice(strides);
    let mut made = SampleBox { kind, tensor: &tensor, ..SampleBox::BLANK };
    made.rank = shape.len() as u32;
    for (axis, begin) in begin.iter().enumerate() {
        (made.begin[axis], made.end[axis]) = (*begin, begin + 1);
    }
    let box_bytes = size_of::<SampleBox>() as u32;
    let sample = Sample { boxes: &made, n_boxes: 1, box_bytes, tag: 1 };
    let (mut taken, mut error) = (0, Error::EMPTY);
    // SAFETY: the sample, its box and its tensor are there; the loader is closed before they go.
    let code = unsafe {
        let code = wavetrain_push(loader, &sample, 1, size_of::<Sample>(), 0, &mut taken);
        if code != 0 {
            assert_eq!(wavetrain_last_error(loader, &mut error), 0);
        } else {
            assert_eq!(wavetrain_flush(loader), 0);
            let mut batch = 0;
            let popped = wavetrain_pop(loader, 1_000_000_000, &mut batch, &mut error);
            assert_eq!(popped, 0, "pop");
            assert_eq!(wavetrain_release(loader, batch, null_mut()), 0);
        }
        assert_eq!(wavetrain_close(loader, 0, null_mut()), 0);
        code
    };
    let text = error.text.iter().take_while(|byte| **byte != 0);
    (code, text.map(|byte| char::from(*byte as u8)).collect())
}

#[test]
fn more_elements_than_a_number_holds_are_refused_although_few_bytes_hold_them_all() {
    let endless = [1 << 60, 1 << 60, 1];
    let (code, text) = pushed(BOX_MEMORY, &endless, &[0, 0, 1], &[1 << 50, 1 << 50, 0]);
    assert_eq!(code, Status::Invalid as i32);
    assert_eq!(text, "tensor: no memory has its shape and strides");
}

#[test]
fn a_tensor_without_elements_has_other_extents_that_fit() {
    for kind in [BOX_MEMORY, BOX_VALUE] {
        let pushed = |shape| pushed(kind, shape, &[0; 3], &[-1; 3]).0;
        assert_eq!(pushed(&[0, 1 << 60, 4]), 0);
        assert_eq!(pushed(&[1 << 60, 4, 0]), 0);
        assert_eq!(pushed(&[0, 1 << 62, 4]), Status::Invalid as i32);
        assert_eq!(pushed(&[1 << 62, 4, 0]), Status::Invalid as i32);
    }
}

#[test]
fn in_rust_too_extents_fit() {
    let loader = Loader::open(&config()).unwrap();
    let element = 7u8;
    // SAFETY: of the one element that all places are, nothing is read: push refuses it.
    let endless = unsafe { Memory::new(&element, Dtype::U8, &[1 << 60, 1 << 60], &[0, 0]) };
    let fed = [Feed::Memory(endless), Feed::Value(Dtype::U8, &[0, 1 << 62, 4], &[])];
    for (feed, rank) in fed.into_iter().zip([2, 3]) {
        let (begin, end) = ([1; 3], [2; 3]);
        let part = Part { feed, begin: &begin[..rank], end: &end[..rank], ..Part::default() };
        let sample = wavetrain::loader::Sample { parts: &[part], tag: 1 };
        let (taken, result) = loader.push_samples(&[sample], 0);
        assert_eq!((taken, result.unwrap_err().status), (0, Status::Invalid));
    }
}
