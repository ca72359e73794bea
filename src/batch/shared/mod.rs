//! Slots in memory that processes share: the place of each part, and its one writer.
//!
//! ```text
//!  records, which the owner alone writes           a page of each consumer   samples
//!  facts │ live │ lists, one for each │ rows       taken │ waiting │         slot 0 │ slot 1 │ ..
//!                                                  released, by slot
//! ```
//!
//! In: numbers. Out: numbers. There is no address among them, so each process may map the memory at
//! another address. A consumer gets one list: batches, the end, errors and resets, each with its
//! number, which is never given twice. A consumer takes the next entry by raising `taken`. It gives
//! a batch back by writing 1 + the entry's number into the slot's place of its page. The owner
//! checks each number that a consumer writes.
//!
//! Invariant: an entry is complete before `tail` is raised past it, and stays until `taken` has
//! passed it.

mod page;
mod records;

pub use page::{PAGE_BYTES, Page, Taken};
pub use records::{ENTRIES, Facts, LAYOUT, MAGIC, Order, Records, Sizes, What};

#[cfg(test)]
mod tests;
