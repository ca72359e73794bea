//! The chunk-aware shuffle, which decodes a chunk while it is kept instead of again and again.

use super::Misfit;
use super::epoch::{Deal, Epoch, Order, Place, State, Tail, Taken, iterates};
use super::random::{key, mix, mul_high, permute, purpose};

/// One rank's way through epochs in a chunk-aware shuffle; an iterator like [`Epoch`].
///
/// A random order meets a chunk again long after it was dropped, and decodes it again for almost
/// each sample. Here samples are numbered chunk by chunk ([`super::Boxes::at`] does) and cut into
/// runs of `run` samples; runs are shuffled, and samples within shuffle windows of `window` runs.
/// A shuffle window's chunks are cached while it lasts, and a chunk is decoded once for each run.
/// Larger windows and smaller runs mix better, larger runs decode less; a window is to fit into
/// half of `chunk_cache_bytes` of the config, because while one ends the next begins. Samples that
/// are part of no whole run come last, others in each epoch.
///
/// Windows, not positions, are dealt to ranks, so that ranks do not decode each other's chunks: in
/// a round, window by window, of `world` windows. What is left after the last whole round is
/// shared out in pieces: ranks get the same number with [`Tail::Drop`] and [`Tail::Pad`], and
/// without them some get one more.
#[derive(Clone, Debug)]
pub struct ChunkShuffle {
    epoch: Epoch,
    run: u64,
    /// Whole runs of the epoch, and samples of a shuffle window.
    runs: u64,
    window_samples: u64,
}

/// What a rank gets of a round.
struct Part {
    /// Where the round begins.
    start: u64,
    /// Position of the rank's first sample.
    first: u64,
    count: u64,
    /// How many of them were given.
    done: u64,
}

impl ChunkShuffle {
    /// A chunk-aware shuffle of an epoch's samples: `run` samples of a run, those of a chunk or a
    /// part of them, and `window` runs of a shuffle window. The epoch is at its beginning; its
    /// ranks and its tail stay, its batch does not matter.
    pub fn new(mut epoch: Epoch, run: u64, window: u64) -> Result<ChunkShuffle, Misfit> {
        let is_plain = epoch.order == Order::Plain && epoch.deal == Deal::BySample;
        let is_possible = is_plain && epoch.tail != Tail::Repeat;
        if run == 0 || window == 0 || !is_possible {
            return Err(Misfit::ChunkShuffle);
        }
        epoch.depends_on(&[run, window]);
        let (n, runs) = (epoch.n, epoch.n / run);
        let window_samples = if window > runs { n.max(1) } else { run * window };
        Ok(ChunkShuffle { epoch, run, window_samples, runs })
    }

    /// The order as a caller of C kept it: in this state, whose hash inside of a round of shuffle
    /// windows is that of one world.
    pub(crate) fn kept_at(mut self, state: State) -> Result<ChunkShuffle, Misfit> {
        self.epoch = self.epoch.kept_at(state, 0)?;
        self.epoch.state.order_hash = self.hash_at(state.position);
        Ok(self)
    }

    /// Samples of a shuffle window.
    pub fn window_samples(&self) -> u64 {
        self.window_samples
    }

    /// See [`Epoch::depends_on`].
    pub fn depends_on(&mut self, numbers: &[u64]) {
        self.epoch.depends_on(numbers);
    }

    /// Goes on where a checkpoint was taken: at the same world, or at any other where
    /// [`ChunkShuffle::is_portable`] held. Inside of a round of shuffle windows `state.position` is
    /// where the round begins plus what each rank has had of it, and `state.order_hash` is of one
    /// world.
    pub fn resume(&mut self, state: &State) -> Result<(), Misfit> {
        if state.order_hash != self.hash_at(state.position) {
            return Err(Misfit::State);
        }
        let order_hash = self.epoch.state.order_hash;
        self.epoch.resume(&State { order_hash, ..*state })
    }

    /// `order_hash` of a state there.
    fn hash_at(&self, position: u64) -> u64 {
        let hash = self.epoch.state.order_hash;
        let of_world = mix(self.epoch.world, purpose::WINDOW);
        if self.is_between(position) { hash } else { hash ^ of_world }
    }

    fn is_between(&self, position: u64) -> bool {
        position == self.epoch.n || position.is_multiple_of(self.window_samples())
    }

    /// Begins the next epoch, wherever this one is.
    pub fn turn(&mut self) {
        self.epoch.turn();
    }

    /// What a checkpoint takes.
    pub fn state(&self) -> State {
        let state = self.epoch.state;
        State { order_hash: self.hash_at(state.position), ..state }
    }

    /// Samples of an epoch.
    pub fn samples(&self) -> u64 {
        self.epoch.n
    }

    /// Whether ranks stand between two rounds of shuffle windows: where a checkpoint is good for
    /// any world.
    pub fn is_portable(&self) -> bool {
        self.is_between(self.epoch.state.position)
    }

    /// Which sample stands at a place. None where there is no such place.
    pub fn at(&self, place: Place) -> Option<u64> {
        let (n, seed, position) = (self.epoch.n, self.epoch.state.seed, place.position);
        if position >= n {
            return None;
        }
        let key = |purpose| key(seed, place.epoch, purpose);
        let (runs, window) = (self.runs, self.window_samples());
        let whole = runs * self.run;
        let rest = n - whole;
        // The samples that are part of no whole run lie between two runs, elsewhere in each epoch.
        let tail_at = self.run * mul_high(key(purpose::TAIL), runs + 1);
        let number = position / window;
        let first = number * window;
        let keyed = mix(number, key(purpose::WINDOW));
        let drawn = first + permute(window.min(n - first), keyed, position - first)?;
        if drawn >= whole {
            return Some(tail_at + (drawn - whole));
        }
        let run = permute(runs, key(purpose::RUNS), drawn / self.run)?;
        let sample = run * self.run + drawn % self.run;
        Some(if sample < tail_at { sample } else { sample + rest })
    }

    /// The rank's samples of the round that a position is in.
    fn part(&self, position: u64) -> Part {
        let (window, n) = (self.window_samples(), self.epoch.n);
        let (rank, world) = (self.epoch.rank, self.epoch.world);
        let done = position % window;
        let start = position - done;
        let rest = n - start;
        let part = |first, count| Part { start, first: start + first, count, done };
        if rest / window >= world {
            return part(rank * window, window);
        }
        let (each, more) = (rest / world, rest % world);
        match self.epoch.tail {
            Tail::Pad => {
                let count = each + u64::from(more > 0);
                part(rank * count, count)
            }
            Tail::Drop => part(rank * each, each),
            _ => part(rank * each + rank.min(more), each + u64::from(rank < more)),
        }
    }

    /// Samples that the rank still gets in this epoch.
    pub fn left(&self) -> u64 {
        let (n, position) = (self.epoch.n, self.epoch.state.position);
        if position == n {
            return 0;
        }
        let window = self.window_samples();
        let done = position % window;
        let start = position - done;
        let rounds = (n - start) / window / self.epoch.world;
        let last = start + rounds * self.epoch.world * window;
        let tail = if last < n { self.part(last).count } else { 0 };
        (rounds * window + tail).saturating_sub(done)
    }

    /// The place of the rank's next sample. None behind the last one.
    pub fn next_place(&mut self) -> Option<Taken> {
        let (n, window) = (self.epoch.n, self.window_samples());
        if self.epoch.state.position == n {
            return None;
        }
        let Part { start, first, count, done } = self.part(self.epoch.state.position);
        if done >= count {
            // In the last round, of which the rank gets nothing.
            self.epoch.state.position = n;
            return None;
        }
        let mut position = first + done;
        let is_padding = position >= n;
        if is_padding {
            // The front of what was shared out again.
            position = start + (position - start) % (n - start);
        }
        if done + 1 < count {
            self.epoch.state.position += 1;
        } else if (n - start) / window >= self.epoch.world {
            self.epoch.state.position = start + self.epoch.world * window;
        } else {
            self.epoch.state.position = n;
        }
        Some(Taken { place: Place { epoch: self.epoch.state.epoch, position }, is_padding })
    }
}

iterates!(ChunkShuffle);
