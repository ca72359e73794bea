//! Sorting in place, in little code.
//!
//! The sorts of core are 5 to 9 KB for every type and order that is sorted, which for lists of
//! samples, chunks and reads is more than the code around them. Those lists mostly come sorted, or
//! are short: that is looked for first, and what is left takes a heap sort.
//!
//! Invariant: the slice holds the same elements afterwards. Equal elements may change places.

/// Elements up to which insertion is faster than a heap.
const SHORT: usize = 16;

/// Sorts by a key.
pub fn sort_by_key<T: Copy, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort(items, |a, b| key(a) < key(b));
}

/// Sorts so that no element is less than the one before it. At most about 3 n log2 n calls of
/// `is_less`, n - 1 where the elements are sorted already.
pub fn sort<T: Copy>(items: &mut [T], is_less: impl Fn(&T, &T) -> bool) {
    let count = items.len();
    if (1..count).all(|at| !is_less(&items[at], &items[at - 1])) {
        return;
    }
    if count <= SHORT {
        for limit in 1..count {
            let mut at = limit;
            while at > 0 && is_less(&items[at], &items[at - 1]) {
                items.swap(at, at - 1);
                at -= 1;
            }
        }
        return;
    }
    // First every parent becomes no less than its children, from the last parent on; then the
    // greatest element goes behind the heap, which shrinks by it.
    for step in (0..count / 2 + count).rev() {
        let (first, limit) = if step >= count {
            (step - count, count)
        } else {
            items.swap(0, step);
            (0, step)
        };
        let mut parent = first;
        loop {
            let mut child = 2 * parent + 1;
            if child >= limit {
                break;
            }
            if child + 1 < limit && is_less(&items[child], &items[child + 1]) {
                child += 1;
            }
            if !is_less(&items[parent], &items[child]) {
                break;
            }
            items.swap(parent, child);
            parent = child;
        }
    }
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
