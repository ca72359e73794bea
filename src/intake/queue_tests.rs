use super::*;
use crate::base::cache::hash_bytes;
use core::ptr::NonNull;
use std::format;

fn queue(samples: u32, uri_bytes: u64) -> Queue {
    let block = std::boxed::Box::leak(std::vec![0u64; 1 << 15].into_boxed_slice());
    let start = (block.as_mut_ptr() as usize + 4095) & !4095;
    let start = NonNull::new(start as *mut u8).unwrap();
    // SAFETY: the block is leaked, used once, and large enough after alignment.
    let mut carver = unsafe { Carver::over(start, (1 << 18) - 4096) };
    Queue::carve(&mut carver, (samples, 2, 0), uri_bytes, (false, 0))
}

fn add(queue: &mut Queue, uri: &[u8]) -> Result<(), Full> {
    let (fed, shape) = (&Fed::NOTHING, &BoxShape::EMPTY);
    let hash = hash_bytes(uri);
    queue.add_box(&NewBox { uri, hash, fed, rank: 1, field: 0, shape, augment: &[], runs: 1 })
}

fn push(queue: &mut Queue, uri: &[u8], tag: u64) -> Result<(), Full> {
    add(queue, uri)?;
    queue.push(tag);
    Ok(())
}

#[test]
fn a_batch_is_complete_when_full_or_flushed() {
    let mut queue = queue(8, 4096);
    for tag in 0..5 {
        push(&mut queue, b"/a", tag).unwrap();
    }
    assert_eq!(queue.next_batch(3), Some(3));
    queue.consume(3);
    assert_eq!(queue.next_batch(3), None);
    queue.flush();
    push(&mut queue, b"/a", 5).unwrap();
    assert_eq!(queue.next_batch(3), Some(2));
    queue.consume(2);
    assert_eq!(queue.next_batch(3), None);
}

#[test]
fn uris_survive_any_number_of_laps() {
    let mut queue = queue(5, 300);
    let mut pushed = 0u64;
    let mut popped = 0u64;
    let uri = |tag: u64| format!("/{}/{tag}", "x".repeat(index(tag * 7 % 90)));
    while popped < 2000 {
        let name = uri(pushed / 2);
        match push(&mut queue, name.as_bytes(), pushed) {
            Ok(()) => pushed += 1,
            Err(_) => {
                let sample = *queue.sample(0);
                assert_eq!(sample.tag, popped);
                assert_eq!(queue.uri(&queue.boxes(0)[0]).0, uri(popped / 2).as_bytes());
                queue.consume(1);
                popped += 1;
            }
        }
    }
}

#[test]
fn a_full_queue_says_which_memory_is_full() {
    let mut few = queue(2, 4096);
    push(&mut few, b"/a", 0).unwrap();
    push(&mut few, b"/a", 0).unwrap();
    assert_eq!(push(&mut few, b"/a", 0), Err(Full::Samples));
    let mut short = queue(8, 16);
    push(&mut short, b"/a234567890", 0).unwrap();
    assert_eq!(push(&mut short, b"/b234567890", 0), Err(Full::Uris));
}

#[test]
fn boxes_of_a_sample_that_is_not_pushed_are_as_if_they_had_never_been() {
    let mut queue = queue(3, 64);
    let uri = |number: u32| format!("/{number:020}");
    push(&mut queue, uri(0).as_bytes(), 0).unwrap();
    for number in 1..100 {
        add(&mut queue, uri(number).as_bytes()).unwrap();
        assert_eq!(add(&mut queue, uri(number + 1).as_bytes()), Ok(()));
        assert_eq!((queue.len(), queue.added), (1, 2));
        queue.drop_added();
    }
    add(&mut queue, uri(0).as_bytes()).unwrap();
    push(&mut queue, uri(7).as_bytes(), 1).unwrap();
    let uris = |queue: &Queue, offset: u32| -> std::vec::Vec<std::vec::Vec<u8>> {
        queue.boxes(offset).iter().map(|queued| queue.uri(queued).0.to_vec()).collect()
    };
    let of = |numbers: &[u32]| -> std::vec::Vec<std::vec::Vec<u8>> {
        numbers.iter().map(|number| uri(*number).into_bytes()).collect()
    };
    assert_eq!((uris(&queue, 0), uris(&queue, 1)), (of(&[0]), of(&[0, 7])));
    queue.consume(1);
    assert_eq!((queue.sample(0).tag, uris(&queue, 0)), (1, of(&[0, 7])));
}

#[test]
fn uris_of_any_length_of_all_callers_fit() {
    let mut queue = Queue::carve_of_callers(&mut Carver::leaked(1 << 20), 4, 1);
    let uris: std::vec::Vec<_> =
        (0..7).map(|n| std::vec![b'a' + n; 4095 - 13 * n as usize]).collect();
    for n in 0..5000usize {
        let uri = &uris[n * n % 7];
        let fed = &Fed::NOTHING;
        let (rank, field, shape) = (1, 0, &BoxShape::EMPTY);
        assert_eq!(
            queue.add_box(&NewBox { uri, hash: 1, fed, rank, field, shape, augment: &[], runs: 1 }),
            Ok(())
        );
        queue.push(n as u64);
        if queue.len() == 4 {
            let front = queue.boxes(0)[0];
            let first = queue.sample(0).tag as usize;
            assert_eq!(queue.uri(&front).0, uris[first * first % 7]);
            queue.consume(1 + (n % 3 == 0) as u32);
        }
    }
}
