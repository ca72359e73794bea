use super::*;
use crate::base::arena::Region;
use crate::base::status::{Failure, Status};
use crate::batch::received::Received;

fn region(bytes: u64) -> Region {
    let words = std::vec![0u64; (bytes as usize + 4096) / 8].leak();
    let start = words.as_ptr().cast::<u8>().align_offset(4096) as u64;
    // SAFETY: the words are leaked, and nothing else uses them.
    let all = unsafe { Region::over(core::ptr::NonNull::from(&mut *words).cast(), bytes + 4096) };
    all.part(start, bytes)
}

fn records(consumers: u32, rows_bytes: u64) -> Records {
    let sizes = Sizes { consumers, rows_bytes };
    // SAFETY: the region is for this alone.
    unsafe { Records::over(region(sizes.bytes()), sizes, || {}) }
}

fn page() -> Page {
    // SAFETY: the region is for this alone.
    unsafe { Page::over(region(PAGE_BYTES), || {}) }
}

fn batch(number: u64) -> What {
    let slot = number as u32 % 64;
    What::Batch(Received { slot, place: 63 - slot, batch_id: number, samples: 65536, failed: 3 })
}

#[test]
fn a_list_gives_what_was_published_until_it_is_written_over() {
    let records = records(3, 64);
    assert_eq!((records.tail(1), records.read(1, 5)), (0, None));
    for number in 0..ENTRIES + 5 {
        let what = match number % 4 {
            0 => What::End,
            1 => What::Error,
            2 => What::Reset,
            _ => batch(number),
        };
        records.publish(1, number, what);
        assert_eq!((records.tail(1), records.read(1, number)), (number + 1, Some(what)));
    }
    assert_eq!(records.read(1, 3), None);
    assert_eq!(records.read(1, 7), Some(batch(7)));
    assert_eq!((records.tail(0), records.tail(2)), (0, 0));
}

#[test]
fn rows_and_lists_of_all_consumers_lie_apart() {
    let records = records(64, 4096);
    let rows = records.rows();
    (0..rows.len()).for_each(|row| rows.write(row, u64::MAX));
    for consumer in 0..64 {
        records.publish(consumer, 0, batch(u64::from(consumer)));
    }
    for consumer in 0..64 {
        assert_eq!(records.read(consumer, 0), Some(batch(u64::from(consumer))));
        assert_eq!(records.tail(consumer), 1);
    }
    assert!((0..rows.len()).all(|row| rows.read(row) == u64::MAX));
    assert_eq!(records.attached(), 0);
}

#[test]
fn a_failure_is_read_as_it_was_written() {
    let records = records(1, 0);
    let long = "ä".repeat(400);
    for text in ["", "short", &long] {
        let mut failure = Failure::of(Status::Decode, format_args!("{text}"));
        (failure.tag, failure.batch_id, failure.sample) = (u64::MAX, 7, 9);
        failure.chunk.extend([1, u64::MAX, 3]);
        records.write_failure(&failure);
        let read = records.failure().unwrap();
        assert_eq!(read.text.as_str(), failure.text.as_str());
        let facts = |of: &Failure| (of.status, of.tag, of.batch_id, of.sample, of.chunk.clone());
        assert_eq!(facts(&read), facts(&failure));
    }
}

#[test]
fn an_entry_is_taken_once_and_what_is_taken_back_is_not_taken() {
    let page = page();
    page.begin(5);
    assert!(page.pass(5, 6) && !page.pass(5, 6));
    assert!(page.pass(6, 9));
    assert!(!page.pass(7, 8));
    assert_eq!(page.next(), 9);
    assert_eq!(page.taken(5, 9), Taken::Entries(9));
    assert_eq!((page.taken(10, 12), page.taken(0, 8)), (Taken::Nonsense, Taken::Nonsense));
}

#[test]
fn a_slot_is_given_back_by_the_number_of_its_entry() {
    let page = page();
    assert!(!page.has_released(3, 0));
    page.release(3, 0);
    assert!(page.has_released(3, 0) && !page.has_released(3, 1) && !page.has_released(4, 0));
    page.release(3, 70);
    assert!(page.has_released(3, 70) && !page.has_released(3, 0));
}
