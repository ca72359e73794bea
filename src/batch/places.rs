//! Places: the memory of batches, the loader's own and what callers lend for one batch each.
//!
//! A loan:
//!
//! ```text
//!         lend             open_loan           give_place           free_place
//!  Free ───────▶ Fenced ─────────────▶ Waiting ──────────▶ Bound ─────────────▶ Free
//!                  │                      │                  │ lose_loan         ▲
//!                  │                      │                  ▼                   │
//!                  └──────────────────────┴──── reset ──── Lost ─────────────────┘
//! ```
//!
//! The memory of a batch that failed is Lost, since no batch tells the caller of it. Numbers of
//! places behind those of the loader's own are those of loans. Invariant: loans are bound in the
//! order in which they came, so one that is Fenced holds back those behind it, and the batches.

use crate::base::indexes::BatchSlot;
use crate::batch::record::{SlotRecord, SlotState};
use crate::batch::slots::Slots;

/// State of a loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LoanState {
    /// There is none.
    #[default]
    Free,
    /// The memory may be written once an event of the caller's is over.
    Fenced,
    /// It waits for a batch.
    Waiting,
    /// A batch has it.
    Bound,
    /// A batch had it that failed.
    Lost,
}

/// A loan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loan {
    state: LoanState,
    /// Its position among all that were lent.
    number: u64,
    tag: u64,
}

impl Slots {
    /// How many of the memories that are not lent are free.
    pub fn free_places(&self) -> u32 {
        self.free_places.count_ones()
    }

    /// Whether the next batch would have memory: the loader's own only if nothing is lent.
    pub(super) fn has_place(&self) -> bool {
        match self.head_loan() {
            Some((_, is_fenced)) => !is_fenced,
            None => self.free_places != 0,
        }
    }

    /// Whether the memory that is lent for the next batch waits for its event.
    pub fn is_loan_fenced(&self) -> bool {
        self.head_loan().is_some_and(|(_, is_fenced)| is_fenced)
    }

    /// Whether nothing comes until somebody gives back what a batch before it has, or lends memory.
    pub fn lacks_place(&self) -> bool {
        let is_free = |slot: &SlotRecord| slot.state == SlotState::Free;
        let is_blocked = !self.has_place() || !self.batches().iter().any(is_free);
        is_blocked && self.next_pop == self.next_place
    }

    /// Gives memory that is free to the early batch that was begun first; its slot.
    pub fn place_next(&mut self) -> Option<BatchSlot> {
        if !self.has_early() || !self.has_place() {
            return None;
        }
        let is_next = |slot: &SlotRecord| {
            slot.state == SlotState::Filling && slot.batch_id == self.next_place
        };
        let slot = self.batches().iter().position(is_next).map(|at| BatchSlot(at as u32))?;
        self.give_place(slot);
        Some(slot)
    }

    /// The next batch to get memory is in this slot: what was lent first, or what is the loader's.
    /// On a device a slot's own memory has its number.
    pub(super) fn give_place(&mut self, slot: BatchSlot) {
        self.next_place += 1;
        if let Some((loan, _)) = self.head_loan() {
            let entry = &mut self.loans[loan as usize];
            assert!(entry.state == LoanState::Waiting);
            entry.state = LoanState::Bound;
            return self.rows.set_place(slot, u64::from(self.counts.places + loan));
        }
        let is_own_free = slot.0 < self.counts.places && self.free_places & (1 << slot.0) != 0;
        let place = if is_own_free { slot.0 } else { self.free_places.trailing_zeros() };
        assert!(place < self.counts.places);
        self.free_places &= !(1 << place);
        self.rows.set_place(slot, u64::from(place));
    }

    /// Takes memory, whose fields begin at `addresses`; the number of the loan. None: as many are
    /// lent as can be.
    pub fn lend(&mut self, addresses: &[usize], tag: u64, is_fenced: bool) -> Option<u32> {
        let free = self.loans.iter().position(|loan| loan.state == LoanState::Free)?;
        let state = if is_fenced { LoanState::Fenced } else { LoanState::Waiting };
        self.loans[free] = Loan { state, number: self.next_loan, tag };
        self.next_loan += 1;
        self.rows.set_lent(free as u32, addresses);
        Some(free as u32)
    }

    /// The memory of a loan may be written.
    pub fn open_loan(&mut self, loan: u32) {
        let loan = &mut self.loans[loan as usize];
        assert!(loan.state == LoanState::Fenced);
        loan.state = LoanState::Waiting;
    }

    /// The loan that the next batch gets, and whether it is fenced.
    fn head_loan(&self) -> Option<(u32, bool)> {
        let is_queued = |loan: &Loan| matches!(loan.state, LoanState::Fenced | LoanState::Waiting);
        let queued = (0..).zip(&*self.loans).filter(|(_, loan)| is_queued(loan));
        let (number, loan) = queued.min_by_key(|(_, loan)| loan.number)?;
        Some((number, loan.state == LoanState::Fenced))
    }

    /// A place is nobody's any more, or, of a loan, the caller's.
    pub(super) fn free_place(&mut self, place: u64) {
        let places = u64::from(self.counts.places);
        let Some(loan) = place.checked_sub(places) else {
            self.free_places |= 1 << place;
            return;
        };
        let loan = &mut self.loans[loan as usize];
        if loan.state == LoanState::Bound {
            *loan = Loan::default();
        }
    }

    /// The batch in a slot failed, and says nothing of its memory.
    pub(super) fn lose_loan(&mut self, slot: BatchSlot) {
        let loan = self.rows.place(slot).checked_sub(u64::from(self.counts.places));
        if let Some(loan) = loan {
            self.loans[loan as usize].state = LoanState::Lost;
        }
    }

    /// All that no batch has is the caller's again.
    pub(super) fn reset_loans(&mut self) {
        let queued = self.loans.iter_mut().filter(|loan| loan.state != LoanState::Bound);
        queued.for_each(|loan| *loan = Loan::default());
    }

    /// The numbers and tags of the loans that are the loader's.
    pub fn live_loans(&self) -> impl Iterator<Item = (u32, u64)> {
        let live = (0..).zip(&*self.loans).filter(|(_, loan)| loan.state != LoanState::Free);
        live.map(|(number, loan)| (number, loan.tag))
    }

    /// The tag of the loan that a batch lies in, if it lies in one.
    pub fn loan_tag(&self, slot: BatchSlot) -> Option<u64> {
        let loan = self.rows.place(slot).checked_sub(u64::from(self.counts.places))?;
        Some(self.loans[loan as usize].tag)
    }
}
