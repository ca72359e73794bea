//! Slots in memory that processes share: what lies where, and who writes which part of it.
//!
//! ```text
//!  records, which the owner alone writes           a page of each consumer   samples
//!  facts │ live │ lists, one for each │ rows       taken │ waiting │         slot 0 │ slot 1 │ ..
//!                                                  released, by slot
//! ```
//!
//! In: numbers. Out: numbers; there is no address among them, so each process may have the memory
//! elsewhere. A list is what a consumer gets: batches, the end, errors and resets, each with its
//! number, which is never given twice. A consumer takes the next entry by raising `taken`, and
//! gives a batch back by writing the entry's number into the slot's place of its page. Whatever a
//! consumer writes there is looked at as a number that may be wrong.
//!
//! Invariant: an entry is complete before `tail` counts it, and stays until `taken` has passed it.

mod page;
mod records;

pub use page::{PAGE_BYTES, Page, Taken};
pub use records::{ENTRIES, Facts, LAYOUT, MAGIC, Order, Records, Sizes, What};

#[cfg(test)]
mod tests;
