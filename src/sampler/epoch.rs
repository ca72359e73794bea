//! An epoch, and how its positions are dealt to ranks.

use super::random::{key, mix, permute, purpose};
use super::{Misfit, SAMPLES_MAX};

/// In which order samples stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// 0, 1, 2 ..
    Plain,
    /// A new permutation in each epoch.
    Shuffled,
}

/// How a round of batches is dealt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deal {
    /// Rank `r` gets the positions `r`, `r + world`, ..
    #[default]
    BySample,
    /// Rank `r` gets the `r`-th batch.
    ByBatch,
}

/// What comes at the end, where there is less than a batch for each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Ranks get what there is, some less.
    #[default]
    Short,
    /// Nobody gets it.
    Drop,
    /// What is missing is taken from the front again.
    Pad,
    /// The next epoch follows in the same batch, and there is no end.
    Repeat,
}

/// What a checkpoint holds, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// What all is drawn from.
    pub seed: u64,
    /// Its number, from 0.
    pub epoch: u64,
    /// All before it were dealt, to whatever rank. It moves when a batch is complete, and is then
    /// the same on all ranks that gave as many batches.
    pub position: u64,
    /// Of what decides the order: samples, seed, whether they are shuffled, tables.
    pub order_hash: u64,
}

/// Where a sample stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// Number of the epoch.
    pub epoch: u64,
    /// Position in it.
    pub position: u64,
}

/// What [`Epoch::next_place`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where the sample stands.
    pub place: Place,
    /// It is there to pad, and was dealt before.
    pub is_padding: bool,
}

/// One rank's way through epochs. As an iterator it gives the samples of the epoch that it is in;
/// after its end, [`Epoch::turn`] begins the next.
///
/// Positions are dealt in rounds of `world` batches, so one global order follows whatever world and
/// batch are, and they may change between rounds.
#[derive(Clone, Debug)]
pub struct Epoch {
    pub(super) state: State,
    pub(super) n: u64,
    pub(super) rank: u64,
    pub(super) world: u64,
    batch: u64,
    pub(super) order: Order,
    pub(super) deal: Deal,
    pub(super) tail: Tail,
    /// Samples of the batch that were given.
    given: u64,
}

impl Epoch {
    /// An epoch of `n` samples: number 0, rank 0 of 1, batches of 1.
    pub fn new(n: u64, seed: u64, order: Order) -> Result<Epoch, Misfit> {
        if n > SAMPLES_MAX {
            return Err(Misfit::Samples);
        }
        let order_hash = mix(n, key(1, seed, u64::from(order == Order::Shuffled)));
        Ok(Epoch {
            state: State { seed, epoch: 0, position: 0, order_hash },
            n,
            rank: 0,
            world: 1,
            batch: 1,
            order,
            deal: Deal::BySample,
            tail: Tail::Short,
            given: 0,
        })
    }

    /// Deals to `rank` of `world`, `batch` samples at a time. What was given of a batch that is not
    /// complete comes again.
    pub fn with_ranks(self, rank: u32, world: u32, batch: u32) -> Result<Epoch, Misfit> {
        let (rank, world, batch) = (u64::from(rank), u64::from(world), u64::from(batch));
        if rank >= world || batch == 0 || world * batch > SAMPLES_MAX {
            return Err(Misfit::Ranks);
        }
        Ok(Epoch { rank, world, batch, given: 0, ..self })
    }

    /// Deals a round so.
    #[must_use]
    pub fn with_deal(self, deal: Deal) -> Epoch {
        Epoch { deal, given: 0, ..self }
    }

    /// Ends so.
    #[must_use]
    pub fn with_tail(self, tail: Tail) -> Epoch {
        Epoch { tail, given: 0, ..self }
    }

    /// Takes numbers that decide the order too (a table of weights, a subset) into the state's
    /// hash, so that a checkpoint of another table is refused. Between `new` and `resume`.
    pub fn depends_on(&mut self, numbers: &[u64]) {
        self.state.order_hash = hash_with(self.state.order_hash, numbers);
    }

    /// Goes on where a checkpoint was taken, at any rank, world and batch. Nothing changes where it
    /// is of another order.
    pub fn resume(&mut self, state: &State) -> Result<(), Misfit> {
        let own = &self.state;
        if (state.order_hash, state.seed) != (own.order_hash, own.seed) || state.position > self.n {
            return Err(Misfit::State);
        }
        self.state = *state;
        self.given = 0;
        Ok(())
    }

    /// The epoch as a caller of C kept it: in this state, with so many samples of its batch given.
    pub(crate) fn kept_at(self, state: State, given: u64) -> Result<Epoch, Misfit> {
        if state.position > self.n || given >= self.batch {
            return Err(Misfit::State);
        }
        Ok(Epoch { state, given, ..self })
    }

    /// Samples that were given of a batch that is not complete.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Begins the next epoch, wherever this one is.
    pub fn turn(&mut self) {
        self.state.epoch = self.state.epoch.wrapping_add(1);
        self.state.position = 0;
        self.given = 0;
    }

    /// What a checkpoint takes, between two batches.
    pub fn state(&self) -> State {
        self.state
    }

    /// Samples of an epoch.
    pub fn samples(&self) -> u64 {
        self.n
    }

    /// Which sample stands at a place. None where there is no such place.
    pub fn at(&self, place: Place) -> Option<u64> {
        match self.order {
            Order::Shuffled => {
                let key = key(self.state.seed, place.epoch, purpose::SHUFFLE);
                permute(self.n, key, place.position)
            }
            Order::Plain => (place.position < self.n).then_some(place.position),
        }
    }

    /// The round's i-th sample of the rank, counted from the state's position.
    fn ahead(&self, i: u64) -> u64 {
        match self.deal {
            Deal::ByBatch => self.rank * self.batch + i,
            Deal::BySample => self.rank + i * self.world,
        }
    }

    /// Samples that the rank still gets in this epoch; `u64::MAX` with [`Tail::Repeat`].
    pub fn left(&self) -> u64 {
        if self.n == 0 {
            return 0;
        }
        let round = self.world * self.batch;
        let rest = self.n - self.state.position;
        let (count, tail, first) = (rest / round * self.batch, rest % round, self.ahead(0));
        let last = match self.tail {
            Tail::Repeat => return u64::MAX,
            Tail::Pad if tail > 0 => self.batch,
            Tail::Short if tail > first && self.deal == Deal::ByBatch => {
                (tail - first).min(self.batch)
            }
            Tail::Short if tail > first => (tail - first - 1) / self.world + 1,
            _ => 0,
        };
        (count + last).saturating_sub(self.given)
    }

    /// The place of the rank's next sample. None behind the last one.
    pub fn next_place(&mut self) -> Option<Taken> {
        let round = self.world * self.batch;
        if self.tail != Tail::Repeat && self.n - self.state.position >= round {
            return Some(self.next_of_whole_round(round));
        }
        if self.left() == 0 {
            self.end();
            return None;
        }
        let repeats = self.tail == Tail::Repeat;
        let position = self.state.position + self.ahead(self.given);
        let ahead = if repeats { position / self.n } else { 0 };
        let epoch = self.state.epoch.wrapping_add(ahead);
        let place = Place { epoch, position: position % self.n };
        self.given += 1;
        if self.given == self.batch {
            self.given = 0;
            self.state.position += self.world * self.batch;
            if repeats {
                self.state.epoch = self.state.epoch.wrapping_add(self.state.position / self.n);
                self.state.position %= self.n;
            }
        }
        // A last batch that is short or padded is the end of the epoch.
        if self.state.position > self.n || (self.given > 0 && self.left() == 0) {
            self.end();
        }
        Some(Taken { place, is_padding: position >= self.n && !repeats })
    }

    /// The same where every rank gets a whole batch: nothing is divided, and nothing ends.
    fn next_of_whole_round(&mut self, round: u64) -> Taken {
        let position = self.state.position + self.ahead(self.given);
        self.given += 1;
        if self.given == self.batch {
            self.given = 0;
            self.state.position += round;
        }
        Taken { place: Place { epoch: self.state.epoch, position }, is_padding: false }
    }

    fn end(&mut self) {
        self.state.position = self.n;
        self.given = 0;
    }
}

/// The hash of an order that numbers decide, too.
pub(crate) fn hash_with(order_hash: u64, numbers: &[u64]) -> u64 {
    let mut hash = mix(numbers.len() as u64, order_hash);
    for (place, number) in (1..).zip(numbers) {
        hash = mix(place, hash).wrapping_add(mix(hash, *number));
    }
    hash
}

/// A rank's way as an iterator over its samples. `u64::MAX` left are without an end.
macro_rules! iterates {
    ($way:ty) => {
        impl Iterator for $way {
            type Item = u64;

            fn next(&mut self) -> Option<u64> {
                let taken = self.next_place()?;
                self.at(taken.place)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let exact = usize::try_from(self.left()).ok().filter(|left| *left != usize::MAX);
                (exact.unwrap_or(usize::MAX), exact)
            }
        }
    };
}
pub(super) use iterates;

iterates!(Epoch);
