//! How positions reach ranks: in one global order, whatever becomes of the ranks.

use super::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

const DEALS: [Deal; 2] = [Deal::BySample, Deal::ByBatch];
const WORLDS: [u32; 4] = [1, 2, 3, 8];

/// Numbers below others, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 += 1;
        super::below(n, 77, self.0, 0)
    }
}

fn epoch(n: u64, rank: u32, world: u32, batch: u32) -> Epoch {
    Epoch::new(n, 6, Order::Shuffled).unwrap().with_ranks(rank, world, batch).unwrap()
}

/// What each rank gets of an epoch, checked against what is left.
fn drained(mut rank: impl FnMut() -> (u64, Option<Taken>)) -> Vec<Taken> {
    let mut taken: Vec<Taken> = Vec::new();
    loop {
        let (left, next) = rank();
        assert_eq!(left > 0, next.is_some());
        let Some(next) = next else { return taken };
        taken.push(next);
    }
}

fn all_ranks(n: u64, world: u32, batch: u32, deal: Deal, tail: Tail) -> Vec<Vec<Taken>> {
    let of_rank = |rank| {
        let mut epoch = epoch(n, rank, world, batch).with_deal(deal).with_tail(tail);
        let count = epoch.left();
        let taken = drained(|| (epoch.left(), epoch.next_place()));
        assert_eq!(taken.len() as u64, count);
        assert_eq!(epoch.state().position, n);
        taken
    };
    (0..world).map(of_rank).collect()
}

/// Positions in the order in which rounds deal them.
fn in_rounds(ranks: &[Vec<Taken>], batch: usize, deal: Deal) -> Vec<Taken> {
    let mut order = Vec::new();
    for round in 0..=ranks[0].len() / batch {
        let of_rank = |rank: &Vec<Taken>| -> Vec<Taken> {
            rank.iter().skip(round * batch).take(batch).copied().collect()
        };
        let parts: Vec<Vec<Taken>> = ranks.iter().map(of_rank).collect();
        match deal {
            Deal::ByBatch => order.extend(parts.concat()),
            Deal::BySample => {
                let row = |i: usize| parts.iter().filter_map(move |part| part.get(i));
                (0..batch).for_each(|i| order.extend(row(i)));
            }
        }
    }
    order
}

#[test]
fn ranks_get_all_positions_in_one_global_order_and_tails_as_they_say() {
    for (n, world, batch) in (0..70)
        .flat_map(|n| WORLDS.map(|world| (n, world)))
        .flat_map(|(n, world)| [1, 2, 5].map(|batch| (n, world, batch)))
    {
        for deal in DEALS {
            let round = u64::from(world * batch);
            let ranks = all_ranks(n, world, batch, deal, Tail::Short);
            let order = in_rounds(&ranks, batch as usize, deal);
            let positions: Vec<u64> = order.iter().map(|taken| taken.place.position).collect();
            assert_eq!(positions, (0..n).collect::<Vec<_>>(), "{n} at {world} by {batch}");
            assert!(order.iter().all(|taken| !taken.is_padding));

            let dropped = all_ranks(n, world, batch, deal, Tail::Drop);
            let whole = n / round * round;
            assert_eq!(in_rounds(&dropped, batch as usize, deal), order[..whole as usize]);
            assert!(dropped.iter().all(|rank| rank.len() == dropped[0].len()));

            let padded = all_ranks(n, world, batch, deal, Tail::Pad);
            let padded = in_rounds(&padded, batch as usize, deal);
            assert_eq!(padded.len() as u64, n.div_ceil(round) * round);
            for (at, taken) in (0..).zip(&padded) {
                assert_eq!((taken.place.position, taken.is_padding), (at % n, at >= n));
            }
        }
    }
}

#[test]
fn repeated_epochs_follow_each_other_without_a_gap() {
    for (n, world, batch) in [(1, 3, 2), (5, 1, 3), (7, 2, 2), (10, 3, 1), (10, 8, 4), (64, 2, 5)] {
        for deal in DEALS {
            let of_rank = |rank| -> Vec<Taken> {
                let epoch = epoch(n, rank, world, batch).with_deal(deal);
                let mut epoch = epoch.with_tail(Tail::Repeat);
                assert_eq!(epoch.left(), u64::MAX);
                (0..10 * batch).map(|_| epoch.next_place().unwrap()).collect()
            };
            let ranks: Vec<_> = (0..world).map(of_rank).collect();
            for (at, taken) in (0..).zip(in_rounds(&ranks, batch as usize, deal)) {
                assert_eq!((taken.place.epoch, taken.place.position), (at / n, at % n));
                assert!(!taken.is_padding);
            }
        }
    }
}

#[test]
fn killed_200_times_and_resumed_at_another_world_the_same_global_order_follows() {
    const N: u64 = 4001;
    let (mut dice, mut state) = (Dice(0), epoch(N, 0, 1, 1).state());
    let (mut came, mut kills) = (Vec::new(), 0);
    while state.epoch < 3 {
        let (world, batch) = (1 + dice.below(8) as u32, 1 + dice.below(7) as u32);
        let (deal, rounds) = (DEALS[dice.below(2) as usize], dice.below(5));
        let round = u64::from(world * batch);
        let rounds = rounds.min((N - state.position) / round);
        let is_last = N - state.position < round;
        let (mut places, mut states) = (BTreeSet::new(), Vec::new());
        for rank in 0..world {
            let mut epoch = epoch(N, rank, world, batch).with_deal(deal);
            epoch.resume(&state).unwrap();
            let count = if is_last { epoch.left() } else { rounds * u64::from(batch) };
            for _ in 0..count {
                let place = epoch.next_place().unwrap().place;
                assert!(places.insert((place.position, epoch.at(place).unwrap())));
            }
            if is_last {
                assert_eq!(epoch.next_place(), None);
                epoch.turn();
            }
            let checkpoint = epoch.state();
            states.push(checkpoint);
            // What the rank gives behind the checkpoint is lost when it is killed.
            epoch.by_ref().take(dice.below(u64::from(batch)) as usize).for_each(drop);
        }
        assert!(states.iter().all(|other| *other == states[0]));
        state = states[0];
        came.extend(places);
        kills += 1;
    }
    assert!(kills > 200, "{kills}");
    let whole = epoch(N, 0, 1, 1);
    let expected: Vec<_> = (0..3)
        .flat_map(|epoch| (0..N).map(move |position| Place { epoch, position }))
        .map(|place| (place.position, whole.at(place).unwrap()))
        .collect();
    assert_eq!(came, expected);
}

#[test]
fn a_state_of_another_order_changes_nothing() {
    let mut epoch = epoch(100, 0, 1, 1);
    let state = epoch.state();
    let mut with_table = epoch.clone();
    with_table.depends_on(&[1, 2, 3]);
    for other in [
        Epoch::new(100, 6, Order::Plain).unwrap().state(),
        Epoch::new(101, 6, Order::Shuffled).unwrap().state(),
        Epoch::new(100, 7, Order::Shuffled).unwrap().state(),
        with_table.state(),
        State { position: 101, ..state },
    ] {
        assert_eq!(epoch.resume(&other), Err(Misfit::State));
        assert_eq!(epoch.state(), state);
    }
    assert_eq!(epoch.resume(&State { epoch: 4, position: 100, ..state }), Ok(()));
    assert_eq!(Epoch::new(SAMPLES_MAX + 1, 0, Order::Plain).unwrap_err(), Misfit::Samples);
    for (rank, world, batch) in [(0, 0, 1), (1, 1, 1), (0, 1, 0), (0, u32::MAX, u32::MAX)] {
        let epoch = Epoch::new(9, 0, Order::Plain).unwrap();
        assert_eq!(epoch.with_ranks(rank, world, batch).unwrap_err(), Misfit::Ranks);
    }
}

/// An epoch that a chunk-aware shuffle may be of.
fn plain(n: u64, rank: u32, world: u32) -> Epoch {
    Epoch::new(n, 6, Order::Plain).unwrap().with_ranks(rank, world, 1).unwrap()
}

fn chunk_shuffle(n: u64, rank: u32, world: u32, tail: Tail, run: u64, window: u64) -> ChunkShuffle {
    ChunkShuffle::new(plain(n, rank, world).with_tail(tail), run, window).unwrap()
}

#[test]
fn a_chunk_shuffle_gives_every_sample_once_and_deals_windows() {
    for (n, run, window) in (0..50)
        .flat_map(|n| [1, 2, 5, 60].map(|run| (n, run)))
        .flat_map(|(n, run)| [1, 3, 60].map(|window| (n, run, window)))
    {
        for world in WORLDS {
            let ranks = |tail| -> Vec<Vec<Taken>> {
                let of_rank = |rank| {
                    let mut order = chunk_shuffle(n, rank, world, tail, run, window);
                    let count = order.left();
                    let taken = drained(|| (order.left(), order.next_place()));
                    assert_eq!(taken.len() as u64, count);
                    assert!(order.is_portable());
                    taken
                };
                (0..world).map(of_rank).collect()
            };
            let one = chunk_shuffle(n, 0, 1, Tail::Short, run, window);
            let samples: BTreeSet<u64> =
                (0..n).map(|position| one.at(Place { epoch: 0, position }).unwrap()).collect();
            assert_eq!(samples, (0..n).collect());
            assert_eq!(one.at(Place { epoch: 0, position: n }), None);

            let window = one.window_samples();
            let whole = n / window / u64::from(world) * u64::from(world) * window;
            let short = ranks(Tail::Short);
            let mut positions = Vec::new();
            for taken in short.concat() {
                positions.push(taken.place.position);
            }
            positions.sort_unstable();
            assert_eq!(positions, (0..n).collect::<Vec<_>>());
            for (rank, taken) in (0..).zip(&short) {
                for (k, taken) in (0..).zip(taken).filter(|(_, at)| at.place.position < whole) {
                    let round = k / window * u64::from(world) + rank;
                    assert_eq!(taken.place.position, round * window + k % window);
                }
            }
            let (most, least) = (short[0].len(), short[short.len() - 1].len());
            assert!(most - least <= 1);
            for (tail, count) in [(Tail::Drop, least), (Tail::Pad, most)] {
                let ranks = ranks(tail);
                assert!(ranks.iter().all(|rank| rank.len() == count), "{n} {run} {window}");
                let real = ranks.iter().flatten().filter(|taken| !taken.is_padding).count() as u64;
                assert_eq!(
                    real,
                    n - if tail == Tail::Drop { (n - whole) % u64::from(world) } else { 0 }
                );
            }
        }
    }
}

#[test]
fn runs_stay_together_in_their_shuffle_windows_and_tails_lie_elsewhere_in_each_epoch() {
    let (n, run, window) = (103, 5, 4);
    let mut tails = BTreeSet::new();
    for epoch in 0..40 {
        let order = chunk_shuffle(n, 0, 1, Tail::Short, run, window);
        let samples: Vec<u64> =
            (0..n).map(|position| order.at(Place { epoch, position }).unwrap()).collect();
        let mut tail = samples[100..].to_vec();
        tail.sort_unstable();
        assert!(tail[0].is_multiple_of(run) && tail[2] == tail[0] + 2);
        tails.insert(tail[0]);
        let number = |sample: u64| if sample < tail[0] { sample } else { sample - 3 } / run;
        for samples in samples[..100].chunks(20) {
            let runs: BTreeSet<u64> = samples.iter().map(|sample| number(*sample)).collect();
            assert_eq!(runs.len(), 4);
            assert!(!samples.is_sorted());
        }
    }
    assert!(tails.len() > 10);
}

#[test]
fn a_chunk_shuffle_goes_on_at_bounds_at_any_world_and_anywhere_at_its_own() {
    const N: u64 = 1003;
    let (mut dice, mut state) = (Dice(500), chunk_shuffle(N, 0, 1, Tail::Short, 3, 4).state());
    let mut came = Vec::new();
    while state.epoch < 12 {
        let world = 1 + dice.below(8);
        let rounds = (1 + dice.below(3)).min((N - state.position) / 12 / world);
        let (mut places, mut states) = (BTreeSet::new(), Vec::new());
        for rank in 0..world {
            let new = || chunk_shuffle(N, rank as u32, world as u32, Tail::Short, 3, 4);
            let mut order = new();
            order.resume(&state).unwrap();
            let count = if rounds == 0 { order.left() } else { rounds * 12 };
            for _ in 0..count {
                // Killed between any two samples, it goes on at its own world.
                let mut resumed = new();
                resumed.resume(&order.state()).unwrap();
                order = resumed;
                let place = order.next_place().unwrap().place;
                assert!(places.insert((place.position, order.at(place).unwrap())));
            }
            if rounds == 0 {
                order.turn();
            }
            assert!(order.is_portable());
            states.push(order.state());
        }
        assert!(states.iter().all(|other| *other == states[0]));
        state = states[0];
        came.extend(places);
    }
    let one = chunk_shuffle(N, 0, 1, Tail::Short, 3, 4);
    let all = (0..12).flat_map(|epoch| (0..N).map(move |position| Place { epoch, position }));
    assert_eq!(came, all.map(|at| (at.position, one.at(at).unwrap())).collect::<Vec<_>>());
}

#[test]
fn a_chunk_shuffle_refuses_what_it_has_not() {
    let epoch = || plain(10, 0, 1);
    let shuffled = Epoch::new(10, 6, Order::Shuffled).unwrap();
    assert_eq!(ChunkShuffle::new(shuffled, 1, 1).unwrap_err(), Misfit::ChunkShuffle);
    assert!(ChunkShuffle::new(epoch(), 0, 1).is_err() && ChunkShuffle::new(epoch(), 1, 0).is_err());
    assert!(ChunkShuffle::new(epoch().with_tail(Tail::Repeat), 1, 1).is_err());
    assert!(ChunkShuffle::new(epoch().with_deal(Deal::ByBatch), 1, 1).is_err());
    // Inside of a round of shuffle windows a state is of its world.
    let mut ahead = chunk_shuffle(10, 1, 2, Tail::Short, 2, 1);
    let front = ahead.state();
    ahead.next_place().unwrap();
    let (inside, mut other) = (ahead.state(), chunk_shuffle(10, 1, 3, Tail::Short, 2, 1));
    assert!(!ahead.is_portable() && inside.order_hash != front.order_hash);
    assert_eq!(other.resume(&inside), Err(Misfit::State));
    assert_eq!(other.resume(&front), Ok(()));
    assert_eq!(chunk_shuffle(10, 0, 2, Tail::Short, 2, 1).resume(&inside), Ok(()));
    let state = chunk_shuffle(10, 0, 1, Tail::Short, 2, 3).state();
    assert_eq!(chunk_shuffle(10, 0, 1, Tail::Short, 3, 2).resume(&state), Err(Misfit::State));
    assert_eq!(vec![0u64; 0], chunk_shuffle(0, 0, 1, Tail::Pad, 3, 2).collect::<Vec<_>>());
}
