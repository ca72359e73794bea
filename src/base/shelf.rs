//! A few things in a fixed place, in the order that they were put there.
//!
//! In: a slice of the arena. Out: insertions until it is full. Large or many things stand in the
//! arena this way, and not in the struct that has them, which would be built on a caller's stack.

use core::ops::Deref;

/// See the module.
pub struct Shelf<T: 'static> {
    places: &'static mut [T],
    count: usize,
}

impl<T: Copy> Shelf<T> {
    /// An empty shelf over these places.
    pub fn new(places: &'static mut [T]) -> Shelf<T> {
        Shelf { places, count: 0 }
    }

    /// Whether nothing more fits.
    pub fn is_full(&self) -> bool {
        self.count == self.places.len()
    }

    /// Puts something at a position, which those from there on make room for.
    pub fn insert(&mut self, position: usize, thing: T) {
        assert!(!self.is_full());
        self.places.copy_within(position..self.count, position + 1);
        self.places[position] = thing;
        self.count += 1;
    }

    /// Puts something at the end.
    pub fn push(&mut self, thing: T) {
        self.insert(self.count, thing);
    }

    /// Takes what is at a position away.
    pub fn remove(&mut self, position: usize) {
        assert!(position < self.count);
        self.places.copy_within(position + 1..self.count, position);
        self.count -= 1;
    }

    /// Takes everything away.
    pub fn clear(&mut self) {
        self.count = 0;
    }
}

impl<T> Deref for Shelf<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.places[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    #[test]
    fn things_stay_in_order() {
        let mut shelf = Shelf::new(Box::leak(Box::new([0u8; 4])));
        shelf.push(1);
        shelf.push(3);
        shelf.insert(1, 2);
        shelf.insert(0, 9);
        assert_eq!((&shelf[..], shelf.is_full()), (&[9, 1, 2, 3][..], true));
        shelf.remove(3);
        shelf.remove(0);
        assert_eq!((&shelf[..], shelf.is_full()), (&[1, 2][..], false));
        shelf.clear();
        assert!(shelf.is_empty());
    }
}
