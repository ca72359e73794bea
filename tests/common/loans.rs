//! Memory of the test's that batches are lent, between guards.
//!
//! Invariant: a batch in lent memory lies in what was lent for it, and nothing beside its bytes is
//! written.

use std::collections::VecDeque;
use wavetrain::config::Config;
use wavetrain::loader::{Batch, Failure, Loader};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// A byte that memory has before it is lent.
const GUARD: u8 = 0xA7;
const GUARD_BYTES: usize = 64;

/// Memory for one batch of one field.
pub struct Block {
    words: Vec<u64>,
    bytes: usize,
}

impl Block {
    pub fn new(bytes: usize) -> Block {
        let words = (bytes + 2 * GUARD_BYTES).div_ceil(8);
        Block { words: vec![u64::from_ne_bytes([GUARD; 8]); words], bytes }
    }

    /// The memory, as lend takes it.
    pub fn target(&mut self) -> (*mut u8, u64) {
        let start = self.words.as_mut_ptr().cast::<u8>().wrapping_add(GUARD_BYTES);
        (start, self.bytes as u64)
    }

    /// Whether a batch that lies at the start of it, and was given back, left the rest alone.
    pub fn check(&self, batch_bytes: usize) {
        let all: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (before, rest) = all.split_at(GUARD_BYTES);
        assert!(before.iter().all(|byte| *byte == GUARD), "before a batch");
        assert!(rest[batch_bytes..].iter().all(|byte| *byte == GUARD), "behind a batch");
    }

    /// Bytes of a batch that was given back.
    pub fn data(&self) -> Vec<u8> {
        let all = self.words.iter().flat_map(|word| word.to_ne_bytes());
        all.skip(GUARD_BYTES).take(self.bytes).collect()
    }
}

/// Lends memory for a batch of one field.
pub fn lend(loader: &Loader, block: &mut Block, tag: u64) -> Result<(), Failure> {
    // SAFETY: blocks of a test live until it has closed the loader, and it looks at none that is
    // lent.
    unsafe { loader.lend(&[block.target()], None, tag) }
}

/// Bytes of a batch of one field.
pub fn batch_bytes(config: &Config) -> usize {
    let elements: u64 = config.sample_shape[..config.sample_rank as usize].iter().product();
    let element = match Dtype::from_code(config.dtype).expect("a type") {
        Dtype::Raw => config.dtype_bytes,
        dtype => dtype.bytes(),
    };
    config.samples_per_batch as usize * elements as usize * element as usize
}

/// The memory of a stream of which every batch is lent some.
pub struct Loans {
    bytes: usize,
    next: u64,
    lent: VecDeque<(u64, Block)>,
    /// Of the batch that was checked.
    batch_bytes: usize,
}

impl Loans {
    /// None if the loader has slots.
    pub fn of(config: &Config) -> Option<Loans> {
        let loans =
            || Loans { bytes: batch_bytes(config), next: 7, lent: VecDeque::new(), batch_bytes: 0 };
        (config.lent_slots > 0).then(loans)
    }

    /// Lends as much as the loader takes.
    pub fn lend(&mut self, loader: &Loader) {
        loop {
            let mut block = Block::new(self.bytes);
            match lend(loader, &mut block, self.next) {
                Ok(()) => self.lent.push_back((self.next, block)),
                Err(failure) if failure.status == Status::Again => return,
                Err(failure) => panic!("lend: {failure}"),
            }
            self.next += 1;
        }
    }

    /// Whether a batch lies in the memory that was lent first.
    pub fn check(&mut self, batch: &Batch<'_>) {
        let (tag, block) = self.lent.front_mut().expect("memory was lent");
        assert_eq!((batch.lend_tag(), batch.as_ptr()), (Some(*tag), block.target().0));
        self.batch_bytes = batch.bytes() as usize;
    }

    /// That batch was given back.
    pub fn take(&mut self) {
        let (_, block) = self.lent.pop_front().expect("memory was lent");
        block.check(self.batch_bytes);
    }
}
