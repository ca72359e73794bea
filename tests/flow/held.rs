//! Batches that a caller keeps: which one, and for how long, is said where somebody waits for it.

use crate::common::drive::{Job, config};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::ffi::CStr;
use wavetrain::abi::Error;
use wavetrain::config::Config;
use wavetrain::loader::{Batch, Loader, Pop};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_last_error;

fn last_error(loader: &Loader) -> (i32, String) {
    let mut error = Error::EMPTY;
    // SAFETY: the error is whole.
    assert_eq!(unsafe { wavetrain_last_error(loader.token(), &mut error) }, 0);
    // SAFETY: the text has a NUL.
    let text = unsafe { CStr::from_ptr(error.text.as_ptr()) };
    (error.status, text.to_string_lossy().into_owned())
}

fn next(loader: &Loader) -> Batch<'_> {
    match loader.pop(u64::MAX) {
        Ok(Pop::Batch(batch)) => batch,
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn the_batch_that_is_held_the_longest_is_in_the_text_of_pop_the_last_error_and_the_figures() {
    let scratch = Scratch::new();
    let uri = Meta::u16(&[8, 8], &[8, 8], None).write(&scratch, "empty", None);
    let job = Job::new(&uri, (vec![0, 0], vec![8, 8]), 7u16.to_le_bytes().repeat(64));
    let config = Config { lookahead_samples: 8, ..config(Dtype::U16, &[8, 8], 1) };
    let loader = Loader::open(&Config { n_batch_slots: 2, ..config }).unwrap();
    for number in 0..6 {
        assert_eq!(loader.push(&[job.request(number)], u64::MAX).ok(), Some(1));
    }
    let oldest = || {
        let stats = loader.stats().unwrap();
        (stats.oldest_held_batch, stats.oldest_held_since_ns > 0)
    };
    assert_eq!(oldest(), (0, false));
    drop(next(&loader));
    let second = next(&loader);
    assert_eq!(last_error(&loader), (0, String::new()));
    let third = next(&loader);
    assert_eq!(oldest(), (1, true));
    let held = "all 2 batch slots are held: release one; batch 1 is held the longest, for ";
    // Somebody may wait in pop for good, and ask from another thread.
    let (status, text) = last_error(&loader);
    assert_eq!(status, Status::Starved as i32);
    assert!(text.starts_with(held) && text.ends_with(" s"), "{text}");
    drop(second);
    assert_eq!(oldest(), (2, true));
    assert_eq!(last_error(&loader), (0, String::new()));
    let fourth = next(&loader);
    match loader.pop(1) {
        Ok(Pop::Starved(why)) => {
            assert!(why.as_str().contains("; batch 2 is held the longest, for "), "{why}");
            drop(third);
            // The text of a pop without an error stays.
            assert_eq!(last_error(&loader), (Status::Starved as i32, why.as_str().to_owned()));
        }
        _ => panic!("all slots are held"),
    }
    drop(fourth);
    assert_eq!(oldest(), (0, false));
}
