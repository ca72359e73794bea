//! Epochs that are killed and go on: on other ranks, threads and ways to work they keep one global
//! order, and each sample the digest that it has in a run that nothing disturbs.
//!
//! A rank is a loader of its own. Killed is a loader that is gone with what was pushed ahead.

use crate::common::drive::{self, PATIENCE_NS};
use crate::common::fixtures::Scratch;
use crate::common::store::{self, Spec};
use std::collections::BTreeMap;
use wavetrain::config::Config;
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::sampler::{
    Boxes, ChunkShuffle, Deal, Epoch, Grid, Order, Place, State, Tail, Taken, mix,
};

const SPEC: Spec = Spec { seed: 4, edge: 64, shard: 32, chunk: 16, zstd: true, sparse: true };
const EDGE: u64 = 12;
const BATCH: u32 = 3;
const SEED: u64 = 77;

/// An array of boxes, some of which reach over the edges of chunks.
pub struct Source {
    _scratch: Scratch,
    uri: String,
    boxes: Boxes,
}

impl Source {
    pub fn new() -> Source {
        let scratch = Scratch::new();
        let path = scratch.path("array");
        store::write(&path, &SPEC);
        let (shape, extents, chunk) = ([SPEC.edge; 3], [EDGE; 3], [SPEC.chunk; 3]);
        let grid = Grid { shape: &shape, extents: &extents, chunk: &chunk, ..Grid::default() };
        let uri = path.to_str().unwrap().to_owned();
        Source { _scratch: scratch, uri, boxes: Boxes::new(grid).unwrap() }
    }

    pub fn config(&self) -> Config {
        Config { digest: 1, ..drive::config(Dtype::F32, &[EDGE; 3], BATCH as usize) }
    }

    fn push(&self, loader: &Loader, index: u64) -> bool {
        let begin = self.boxes.at(index, SEED, 0).unwrap();
        let end: Vec<i64> = begin.iter().map(|at| at + EDGE as i64).collect();
        let request = Request { uri: &self.uri, begin: &begin, end: &end, tag: index };
        loader.push(&[request], 0).unwrap() == 1
    }
}

/// In which order samples come.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Shuffled(Deal),
    ChunkShuffle,
}

/// A rank's way through an epoch.
#[derive(Clone)]
enum Walk {
    Shuffled(Epoch),
    ChunkShuffle(ChunkShuffle),
}

impl Walk {
    fn new(way: Way, n: u64, (rank, world): (u32, u32), state: Option<&State>) -> Walk {
        let order = if matches!(way, Way::ChunkShuffle) { Order::Plain } else { Order::Shuffled };
        let epoch = Epoch::new(n, SEED, order).unwrap().with_ranks(rank, world, BATCH).unwrap();
        let epoch = epoch.with_tail(Tail::Short);
        let mut walk = match way {
            Way::Shuffled(deal) => Walk::Shuffled(epoch.with_deal(deal)),
            // A window is two batches.
            Way::ChunkShuffle => Walk::ChunkShuffle(ChunkShuffle::new(epoch, 2, 3).unwrap()),
        };
        if let Some(state) = state {
            match &mut walk {
                Walk::Shuffled(epoch) => epoch.resume(state).unwrap(),
                Walk::ChunkShuffle(shuffle) => shuffle.resume(state).unwrap(),
            }
        }
        walk
    }

    fn take(&mut self) -> Option<Taken> {
        match self {
            Walk::Shuffled(epoch) => epoch.next_place(),
            Walk::ChunkShuffle(shuffle) => shuffle.next_place(),
        }
    }

    fn at(&self, place: Place) -> u64 {
        match self {
            Walk::Shuffled(epoch) => epoch.at(place),
            Walk::ChunkShuffle(shuffle) => shuffle.at(place),
        }
        .unwrap()
    }

    fn state(&self) -> State {
        match self {
            Walk::Shuffled(epoch) => epoch.state(),
            Walk::ChunkShuffle(shuffle) => shuffle.state(),
        }
    }

    fn is_portable(&self) -> bool {
        match self {
            Walk::Shuffled(_) => true,
            Walk::ChunkShuffle(shuffle) => shuffle.is_portable(),
        }
    }

    fn turned(mut self) -> State {
        match &mut self {
            Walk::Shuffled(epoch) => epoch.turn(),
            Walk::ChunkShuffle(shuffle) => shuffle.turn(),
        }
        self.state()
    }

    /// Takes as many batches; whether there were samples for all of them.
    fn skip(&mut self, batches: u64) -> bool {
        (0..batches * u64::from(BATCH)).all(|_| self.take().is_some())
    }
}

/// Streams `batches` batches, or all of the epoch that the walk has, and kills the loader, whatever
/// was pushed ahead by then. The digest and the sample of each position.
fn stream(
    source: &Source,
    config: &Config,
    walk: &Walk,
    batches: u64,
    found: &mut BTreeMap<u64, (u64, u64)>,
) {
    let loader = Loader::open_on(&SYSTEM, config).unwrap();
    let (mut ahead, mut behind) = (walk.clone(), walk.clone());
    let (mut next, mut is_flushed) = (ahead.take(), false);
    for _ in 0..batches {
        while let Some(taken) = next {
            if !source.push(&loader, ahead.at(taken.place)) {
                break;
            }
            next = ahead.take();
        }
        if next.is_none() && !is_flushed {
            loader.flush().unwrap();
            is_flushed = true;
        }
        let batch = match loader.pop(PATIENCE_NS).unwrap() {
            Pop::Batch(batch) => batch,
            Pop::End | Pop::Reset => break,
            _ => panic!("no batch"),
        };
        let digests = batch.digests().unwrap();
        for (number, digest) in digests.iter().enumerate() {
            let place = behind.take().unwrap().place;
            assert_eq!(batch.statuses()[number], 0);
            let index = behind.at(place);
            assert_eq!(batch.tags()[number], index);
            assert_eq!(found.insert(place.position, (*digest, index)), None, "{place:?} twice");
        }
    }
}

/// Kills a run `kills` times, each time at a random batch, and goes on with another number of ranks
/// and another of `configs`: samples, order and digest of an epoch have to stay those of the first.
pub fn replay(source: &Source, way: Way, configs: &[Config], kills: u64) {
    let n = source.boxes.count();
    let mut dice = 0u64;
    let mut draw = |limit: u64| {
        dice += 1;
        mix(dice, 99) % limit
    };
    let mut of_index = BTreeMap::new();
    let mut whole = BTreeMap::new();
    stream(source, &configs[0], &Walk::new(way, n, (0, 1), None), u64::MAX, &mut whole);
    assert_eq!(whole.len() as u64, n);
    for (digest, index) in whole.values() {
        assert_eq!(of_index.insert(*index, *digest), None);
    }
    let first = digest_of(&whole);

    let (mut killed, mut state) = (0, Walk::new(way, n, (0, 1), None).state());
    let (mut world, mut found) = (1, BTreeMap::new());
    while killed < kills {
        let walks =
            |world: u32| (0..world).map(move |rank| Walk::new(way, n, (rank, world), Some(&state)));
        let mut batches = 1 + draw(9);
        // Ranks stand side by side where all of them had samples for as many batches.
        let mut ends: Vec<Walk> = walks(world).collect();
        let is_within = ends.iter_mut().map(|walk| walk.skip(batches)).fold(true, |a, b| a & b);
        let is_end = !is_within || ends.iter().any(|end| end.state() != ends[0].state());
        if is_end {
            batches = u64::MAX;
        }
        for walk in walks(world) {
            let config = configs[draw(configs.len() as u64) as usize];
            stream(source, &config, &walk, batches, &mut found);
        }
        // One that ran to its end was not.
        killed += u64::from(!is_end);
        let can_change = is_end || ends[0].is_portable();
        state = ends[0].state();
        if is_end {
            assert_eq!(found.len() as u64, n, "{way:?} on {world} ranks, {killed} kills");
            let order = Walk::new(way, n, (0, 1), None);
            for (position, (digest, index)) in &found {
                let place = Place { epoch: state.epoch, position: *position };
                assert_eq!((order.at(place), of_index[index]), (*index, *digest));
            }
            let of_number: u64 = digest_of(&found);
            assert!(state.epoch > 0 || of_number == first);
            assert!(state.epoch == 0 || of_number != first);
            found.clear();
            state = ends.swap_remove(0).turned();
        }
        if can_change {
            let others: Vec<u32> = [1, 2, 3, 8].into_iter().filter(|of| *of != world).collect();
            world = others[draw(3) as usize];
        }
    }
    assert!(state.epoch > 1, "{state:?}");
}

fn digest_of(found: &BTreeMap<u64, (u64, u64)>) -> u64 {
    let each = found.iter().map(|(position, (digest, _))| mix(*position, *digest));
    each.fold(0, u64::wrapping_add)
}
