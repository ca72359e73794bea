//! The worker contexts that decode: which of them nobody works with.
//!
//! In: threads that look for a job. Out: a context for each that finds one. Own threads share them
//! with callers that read boxes, so never more jobs decode at a time than there are contexts.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::math::index;

/// See the module.
pub struct Contexts {
    is_free: &'static mut [bool],
    /// How many are free.
    pub free: u32,
}

impl Contexts {
    /// So many, all free.
    pub fn carve(carver: &mut Carver, count: u32) -> Contexts {
        let is_free = carver.slice(Item::Workers, u64::from(count), &true);
        Contexts { free: is_free.len() as u32, is_free }
    }

    /// Takes a free one: `own`, whose memory the thread's caches have, if it is.
    pub fn take(&mut self, own: Option<u32>) -> Option<u32> {
        let own = own.filter(|own| self.is_free[index(u64::from(*own))]);
        let any = || self.is_free.iter().rposition(|is_free| *is_free).map(|at| at as u32);
        let context = own.or_else(any)?;
        self.is_free[index(u64::from(context))] = false;
        self.free -= 1;
        Some(context)
    }

    /// Gives one back.
    pub fn give_back(&mut self, context: u32) {
        let is_free = &mut self.is_free[index(u64::from(context))];
        assert!(!*is_free);
        *is_free = true;
        self.free += 1;
    }
}
