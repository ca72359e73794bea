//! The carver and the views of its regions.

use super::arena::*;
use super::bill::{Item, Kind};
use core::ptr::NonNull;

#[repr(align(4096))]
struct Block([u8; 1 << 16]);

fn layout(carver: &mut Carver) -> (usize, u64) {
    let numbers = carver.slice::<u32>(Item::Waves, 100, &7);
    let region = carver.region(Item::CommonScratch, 1000);
    let _ = carver.place(Item::Instance, || 5u8);
    (numbers.len(), region.bytes())
}

#[test]
fn counting_and_carving_agree_to_the_byte() {
    let mut counting = Carver::counting();
    assert_eq!(layout(&mut counting), (0, 0));
    let need = counting.bill().total(Kind::Host);
    let mut block = Block([0xEE; 1 << 16]);
    let start = NonNull::from(&mut block.0).cast();
    // SAFETY: the block outlives the pieces of this test and is used through them only.
    let mut carving = unsafe { Carver::over(start, need) };
    assert_eq!(layout(&mut carving), (100, 1000));
    assert_eq!(carving.bill().total(Kind::Host), need);
}

/// Whether the grid is accepted by a region of 64 bytes.
fn takes_grid(offset: u64, row_bytes: u64, count: u64, pitch: u64) -> bool {
    limit_of_rows(offset, row_bytes, count, pitch).is_some_and(|limit| limit <= 64)
}

#[test]
fn a_grid_ends_where_its_last_row_does() {
    assert!(takes_grid(4, 12, 4, 16));
    assert!(!takes_grid(5, 12, 4, 16));
    assert!(takes_grid(52, 12, 1, 0));
    assert!(!takes_grid(53, 12, 1, 0));
}

#[test]
fn a_grid_whose_rows_overlap_or_overflow_is_refused() {
    assert!(!takes_grid(0, 12, 2, 11));
    assert!(!takes_grid(0, 12, 0, 16));
    assert!(!takes_grid(0, 12, u64::MAX, 1 << 40));
    assert!(!takes_grid(u64::MAX, 12, 1, 0));
}

#[test]
fn rows_to_write_are_those_of_the_grid_and_their_parts() {
    let mut bytes = [0u8; 40];
    let mut claim = Claim::on(&mut bytes);
    let mut grid = claim.row_grid(3, 4, 3, 16);
    (0..3).for_each(|row| grid.row(row).fill(row as u8 + 1));
    grid.part(1, 2, 2, 1).row(1).fill(9);
    let mut expected = [0u8; 40];
    expected[3..7].fill(1);
    expected[19..23].fill(2);
    expected[35..39].copy_from_slice(&[3, 3, 9, 3]);
    assert_eq!(bytes, expected);
}

#[test]
fn rows_to_read_may_run_backwards_or_stand_still() {
    let bytes: [u8; 10] = core::array::from_fn(|at| at as u8);
    let backwards = Rows::new(&bytes, 7, 3, 3, -3);
    assert_eq!([backwards.row(0), backwards.row(2)], [[7, 8, 9], [1, 2, 3]]);
    assert_eq!(backwards.part(1, 2, 1, 2).row(0), [5, 6]);
    assert_eq!(Rows::new(&bytes, 7, 3, 1 << 40, 0).row(1 << 39), [7, 8, 9]);
}

#[test]
fn rows_to_read_that_leave_their_bytes_are_our_defect() {
    let bytes = [0; 10];
    let cases = [(8, 3, 1, 0), (7, 3, 4, -3), (0, 3, 4, 3), (0, 1, u64::MAX, 1), (0, 1, 0, 1)];
    for (first, row_bytes, count, pitch) in cases {
        let made =
            std::panic::catch_unwind(|| Rows::new(&bytes, first, row_bytes, count, pitch).count());
        assert!(made.is_err(), "{first} {row_bytes} {count} {pitch}");
    }
}

#[test]
#[should_panic]
fn a_region_refuses_a_part_that_overflows() {
    let mut block = Block([0; 1 << 16]);
    // SAFETY: as above.
    let mut carver = unsafe { Carver::over(NonNull::from(&mut block.0).cast(), 4096) };
    let region = carver.region(Item::CommonScratch, 64);
    region.part(u64::MAX, 2);
}

#[test]
fn every_element_is_the_first_whatever_its_size() {
    let mut carver = Carver::leaked(1 << 16);
    let small = carver.slice(Item::Waves, 5000, &[1u8, 2, 3]);
    assert!(small.len() == 5000 && small.iter().all(|element| *element == [1, 2, 3]));
    let mut first = [7u16; 2500];
    first[2499] = 9;
    let large = carver.slice(Item::Waves, 3, &first);
    assert!(large.len() == 3 && large.iter().all(|element| *element == first));
    assert!(carver.slice(Item::Waves, 0, &first).is_empty());
    assert!(Carver::counting().slice(Item::Waves, 5, &first).is_empty());
}
