//! Sorting in place, in little code.
//!
//! The sorts of core are 4 to 9 KB for every type and order that is sorted, which for lists of
//! samples, chunks and reads is more than the code around them. Those lists mostly come sorted, or
//! are short: that is looked for first. What is left is a quicksort that counts its bad partitions
//! and ends in a shell sort, so that no order of the elements is slow. A shell sort alone takes up
//! to twice the time of this on random lists of up to 4,096 elements.
//!
//! Invariant: the slice holds the same elements afterwards. Equal elements may change places.

/// Elements up to which insertion is the fastest.
const SHORT: usize = 16;

/// Most ranges that wait: the shorter part of a range is sorted first, so each is at most half as
/// long as the one before it.
const RANGES_MAX: usize = 64;

/// Sorts by a key.
pub fn sort_by_key<T: Copy, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort(items, |a, b| key(a) < key(b));
}

/// Sorts so that no element is less than the one before it. At most about 4 n log2 n calls of
/// `is_less`, n - 1 where the elements are sorted already.
pub fn sort<T: Copy>(items: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    sort_dyn(items, &is_less);
}

/// An order that is called, not inlined: it is asked for in eight places.
type IsLess<'a, T> = &'a dyn Fn(&T, &T) -> bool;

fn sort_dyn<T: Copy>(items: &mut [T], is_less: IsLess<'_, T>) {
    let count = items.len();
    if (1..count).all(|at| !is_less(&items[at], &items[at - 1])) {
        return;
    }
    let mut ranges = [(0, 0); RANGES_MAX];
    ranges[0] = (0, count);
    let mut waiting = 1;
    let mut bad_left = count.ilog2();
    // Ends: every turn sorts a range or divides it into two shorter ones.
    while waiting > 0 {
        waiting -= 1;
        let (first, limit) = ranges[waiting];
        let part = &mut items[first..limit];
        if part.len() <= SHORT || bad_left == 0 {
            sort_shell(part, is_less);
            continue;
        }
        let middle = partition(part, is_less);
        let (left, right) = ((first, first + middle), (first + middle + 1, limit));
        let is_left_short = middle < part.len() / 2;
        let (short, long) = if is_left_short { (left, right) } else { (right, left) };
        bad_left -= u32::from(short.1 - short.0 < part.len() / 8);
        ranges[waiting] = long;
        ranges[waiting + 1] = short;
        waiting += 2;
    }
}

/// Sorts like [`sort`], in a fifth of the code: for what is short, or sorted once in a while.
/// Elements far apart are sorted first, then those less and less far.
pub fn sort_shell<T: Copy>(items: &mut [T], is_less: IsLess<'_, T>) {
    let mut gap = if items.len() <= SHORT { 2 } else { items.len() };
    // Ends: every turn divides the gap by 9/4 (Tokuda 1992), and the one of gap 1 is the last.
    while gap > 1 {
        gap = (gap * 4 / 9).max(1);
        for limit in gap..items.len() {
            let item = items[limit];
            let mut at = limit;
            while at >= gap && is_less(&item, &items[at - gap]) {
                items[at] = items[at - gap];
                at -= gap;
            }
            items[at] = item;
        }
    }
}

/// Divides more than two elements at one of them: its place afterwards. None before it is greater,
/// none behind it is less.
fn partition<T: Copy>(items: &mut [T], is_less: IsLess<'_, T>) -> usize {
    let count = items.len();
    // The median of three comes to the front.
    let (middle, last) = (count / 2, count - 1);
    if is_less(&items[middle], &items[0]) {
        items.swap(0, middle);
    }
    if is_less(&items[last], &items[middle]) {
        items.swap(middle, last);
    }
    if is_less(&items[0], &items[middle]) {
        items.swap(0, middle);
    }
    let pivot = items[0];
    let (mut low, mut high) = (1, last);
    // Ends: every turn brings low and high closer to each other.
    loop {
        while low <= high && is_less(&items[low], &pivot) {
            low += 1;
        }
        while low <= high && is_less(&pivot, &items[high]) {
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high);
        low += 1;
        high -= 1;
    }
    // Where both met, an element that is the pivot's equal stays to the left.
    items.swap(0, high);
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Numbers of 0 to `limit - 1` that look random.
    fn painted(count: usize, limit: u32) -> Vec<u32> {
        let mut state = 12_345u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % limit
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_length_is_sorted_like_core_sorts_it() {
        for count in 0..200 {
            for limit in [2, 7, 1 << 24] {
                let mut sorted = painted(count, limit);
                let mut expected = sorted.clone();
                expected.sort();
                sort(&mut sorted, |a, b| a < b);
                assert_eq!(sorted, expected);
            }
        }
    }

    #[test]
    fn no_order_of_the_elements_takes_long() {
        let count = 4096u32;
        let mut orders: Vec<Vec<u32>> = std::vec![
            (0..count).rev().collect(),
            (0..count).map(|at| at.min(count - at)).collect(),
            (0..count).map(|at| at % 2).collect(),
            (0..count).map(|at| (at + 1) % count).collect(),
            (0..count).map(|at| at.reverse_bits() >> 20).collect(),
            (0..count).map(|at| if at % 2 == 0 { at } else { count + at }).collect(),
            std::vec![7; count as usize - 1],
            painted(count as usize, 1 << 24),
        ];
        orders[6].push(3);
        // Against the median of three: after each division the three are the least of what is left.
        let mut killer: Vec<u32> = (0..count).collect();
        for limit in (3..=count as usize).rev().step_by(2) {
            killer.swap(limit / 2, limit - 2);
        }
        orders.push(killer);
        for items in &mut orders {
            let mut expected = items.clone();
            expected.sort();
            let calls = core::cell::Cell::new(0u64);
            sort(items, |a, b| {
                calls.set(calls.get() + 1);
                a < b
            });
            assert_eq!(*items, expected);
            assert!(calls.get() < 4 * 12 * u64::from(count), "{}", calls.get());
        }
    }

    #[test]
    fn a_shell_sort_sorts_every_length_too() {
        for count in 0..200 {
            let mut items = painted(count, 50);
            let mut expected = items.clone();
            expected.sort();
            sort_shell(&mut items, &|a, b| a < b);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn a_key_orders_and_equal_keys_lose_nothing() {
        let numbers = painted(1000, 1 << 20);
        let mut sorted: Vec<u32> = (0..1000).collect();
        sort_by_key(&mut sorted, |at| (numbers[*at as usize] % 10, core::cmp::Reverse(*at)));
        let mut expected: Vec<u32> = (0..1000).collect();
        expected.sort_by_key(|at| (numbers[*at as usize] % 10, core::cmp::Reverse(*at)));
        assert_eq!(sorted, expected);
    }

    #[test]
    fn a_sorted_list_takes_one_pass() {
        let mut items: Vec<u32> = (0..1000).collect();
        let calls = core::cell::Cell::new(0);
        sort(&mut items, |a, b| {
            calls.set(calls.get() + 1);
            a < b
        });
        assert_eq!(calls.get(), 999);
    }
}
