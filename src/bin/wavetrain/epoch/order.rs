//! Which boxes an epoch has, in which order, and what that costs and mixes.

use crate::fault::{Fault, Outcome, failed, failure_text};
use crate::report;
use crate::requests::{Extent, Requests};
use crate::store;
use std::collections::HashMap;
use wavetrain::abi::ArrayInfo;
use wavetrain::chunk_cache::GRANULE_BYTES;
use wavetrain::config::Config;
use wavetrain::loader;
use wavetrain::records::Dtype;
use wavetrain::sampler::{
    Arrays, Boxes, ChunkShuffle, Cost, End, Epoch, Grid, Misfit, Order, Place, State, cost,
};
use wavetrain::setup::settings::{CACHE_BOOK_SHARE, cache_memory_bytes};

/// What the command line says of an epoch.
#[derive(Default)]
pub struct Asked {
    pub extents: Vec<u64>,
    pub step: Vec<u64>,
    pub margin: Vec<u64>,
    pub jitters: bool,
    pub run: Option<u64>,
    pub window: Option<u64>,
    pub seed: u64,
    pub epoch: u64,
}

/// Arrays with chunks of one size, and the boxes in them.
pub struct Store {
    uris: Vec<String>,
    infos: Vec<ArrayInfo>,
    boxes: Vec<Boxes>,
    extents: Vec<u64>,
    sticks_out: bool,
}

/// How windows lie in the cache: with what batches still keep of those before, alone, or not.
pub const FITS: &str = "yes";
pub const TIGHT: &str = "tight";
const TOO_LARGE: &str = "no";

/// How well an order mixes.
pub struct Mixing {
    /// How far two samples come apart whose numbers are neighbours, as a part of how far a full
    /// shuffle takes them apart. (How far samples stand from their numbers says nothing: runs are
    /// shuffled, so it is the same whatever the window.)
    pub apart: f64,
    /// How often two samples of one chunk are in one batch, as a multiple of how often in a full
    /// shuffle. None where no chunk has two.
    pub meets: Option<f64>,
}

fn misfit(why: Misfit) -> Fault {
    Fault::Failed(why.to_string())
}

impl Store {
    /// Looks at arrays, and lays grids over them.
    pub fn read(uris: &[String], asked: &Asked) -> Outcome<Store> {
        let rank = asked.extents.len();
        let mut store = Store {
            uris: uris.to_vec(),
            infos: Vec::new(),
            boxes: Vec::new(),
            extents: asked.extents.clone(),
            sticks_out: asked.margin.iter().any(|margin| *margin > 0),
        };
        let mut scratch = vec![0; loader::SCRATCH_BYTES];
        for uri in uris {
            let info = store::array_info(uri, &mut scratch)
                .map_err(|failure| Fault::Failed(format!("{uri}: {}", failure_text(&failure))))?;
            if info.is_rectilinear != 0 {
                return failed(format!(
                    "{uri}: its chunk grid is rectilinear: this order needs chunks of one size"
                ));
            }
            if info.rank as usize != rank {
                return failed(format!("{uri}: {} axes, and a box of {rank}", info.rank));
            }
            if let Some(first) = store.infos.first()
                && first.chunk_bytes != info.chunk_bytes
            {
                let sizes = [first, &info].map(|info| report::bytes_long(info.chunk_bytes));
                return failed(format!(
                    "{uri}: chunks of {}, and others of {}",
                    sizes[1], sizes[0]
                ));
            }
            let shape = &info.shape[..rank];
            let grid = Grid {
                shape,
                extents: &asked.extents,
                step: &asked.step,
                margin: &asked.margin,
                chunk: &info.chunk_shape[..rank],
                jitters: asked.jitters,
            };
            let boxes = Boxes::new(grid);
            store.sticks_out |= asked.extents.iter().zip(shape).any(|(extent, all)| extent > all);
            store.boxes.push(boxes.map_err(|why| Fault::Failed(format!("{uri}: {why}")))?);
            store.infos.push(info);
        }
        Ok(store)
    }

    /// Element type of the first array, and its bytes as the config has them.
    pub fn element_type(&self) -> (u32, u32) {
        let info = &self.infos[0];
        (info.dtype, if info.dtype == Dtype::Raw as u32 { info.dtype_bytes } else { 0 })
    }

    /// Whether boxes may reach over an edge of their array.
    pub fn sticks_out(&self) -> bool {
        self.sticks_out
    }

    fn chunk_granules(&self) -> u64 {
        self.infos[0].chunk_bytes.div_ceil(GRANULE_BYTES).max(1)
    }

    /// Chunks that a cache has room for.
    pub fn room(&self, cache_bytes: u64) -> u64 {
        cache_memory_bytes(cache_bytes) / GRANULE_BYTES / self.chunk_granules()
    }

    /// Bytes of a cache with room for so many chunks.
    pub fn cache_bytes(&self, chunks: u64) -> u64 {
        let places = chunks.saturating_mul(self.chunk_granules()).saturating_mul(GRANULE_BYTES);
        places.saturating_add(places.div_ceil(CACHE_BOOK_SHARE - 1))
    }
}

/// An epoch of a store, as far as windows leave it open.
pub struct Plan<'a> {
    store: &'a Store,
    arrays: Arrays<'a>,
    asked: &'a Asked,
    run: u64,
    /// Chunks that the cache has room for.
    room: u64,
    /// Samples of batches that are being filled or planned.
    in_flight: u64,
}

impl<'a> Plan<'a> {
    pub fn new(
        store: &'a Store,
        ends: &'a mut Vec<End>,
        asked: &'a Asked,
        config: &Config,
    ) -> Outcome<Plan<'a>> {
        ends.resize(store.boxes.len(), End::default());
        let arrays = Arrays::new(&store.boxes, ends).map_err(misfit)?;
        let run = match asked.run {
            Some(run) => run,
            None => store.boxes[0].per_chunk(),
        };
        let room = store.room(config.chunk_cache_bytes);
        let batches = u64::from(config.n_batch_slots) + 1;
        let in_flight = batches * u64::from(config.samples_per_batch);
        Ok(Plan { store, arrays, asked, run, room, in_flight })
    }

    /// Samples of a run.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Chunks that the cache has room for.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Bytes of a decoded chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.store.infos[0].chunk_bytes
    }

    fn runs(&self) -> u64 {
        self.arrays.count().div_ceil(self.run).max(1)
    }

    /// Runs of a window, at most all.
    pub fn runs_of(&self, order: &ChunkShuffle) -> u64 {
        order.window_samples().div_ceil(self.run)
    }

    /// What is streamed, in words.
    pub fn text(&self, config: &Config) -> String {
        let info = &self.store.infos[0];
        format!(
            "  boxes            {} of {}; {} chunks of {}, {} each\n  \
             cache            {}; batches of {}\n",
            self.arrays.count(),
            report::crosses(&self.store.extents),
            self.arrays.ends().last().map_or(0, |end| end.chunks),
            report::crosses(&info.chunk_shape[..info.rank as usize]),
            report::bytes_long(info.chunk_bytes),
            report::bytes_long(config.chunk_cache_bytes),
            config.samples_per_batch,
        )
    }

    /// The chunk-aware shuffle with windows of so many runs, in the epoch that was asked for.
    pub fn order(&self, window: u64) -> Outcome<ChunkShuffle> {
        let epoch = Epoch::new(self.arrays.count(), self.asked.seed, Order::Plain);
        let mut order = epoch.and_then(|epoch| ChunkShuffle::new(epoch, self.run, window));
        if let Ok(order) = &mut order {
            let state = State { epoch: self.asked.epoch, ..order.state() };
            order.resume(&state).map_err(misfit)?;
        }
        order.map_err(misfit)
    }

    /// What an order costs.
    pub fn cost(&self, order: &ChunkShuffle) -> Outcome<Cost> {
        let mut words = vec![0; 4096];
        loop {
            match cost(order, &self.arrays, &mut words) {
                Err(Misfit::Memory) => words.resize(2 * words.len(), 0),
                other => return other.map_err(misfit),
            }
        }
    }

    /// How windows that cost so much lie in the cache.
    pub fn fit(&self, order: &ChunkShuffle, cost: &Cost) -> &'static str {
        match cost.largest {
            _ if self.needed(order, cost) <= self.room => FITS,
            largest if largest <= self.room => TIGHT,
            _ => TOO_LARGE,
        }
    }

    /// Chunks that the cache is to have room for: those of a window, and of the windows before it
    /// that batches which are not done still keep.
    pub fn needed(&self, order: &ChunkShuffle, cost: &Cost) -> u64 {
        let before = self.in_flight.div_ceil(order.window_samples());
        let all = self.arrays.ends().last().map_or(0, |end| end.chunks);
        cost.largest.saturating_mul(1 + before).min(all)
    }

    /// The window that was asked for, or the largest that fits, as far as a search by halves finds
    /// it.
    pub fn window(&self) -> Outcome<u64> {
        if let Some(window) = self.asked.window {
            return Ok(window);
        }
        let fits = |window| -> Outcome<bool> {
            let order = self.order(window)?;
            Ok(self.fit(&order, &self.cost(&order)?) == FITS)
        };
        let (mut fitting, mut limit) = (1, 2);
        while limit <= self.runs() && fits(limit)? {
            (fitting, limit) = (limit, 2 * limit);
        }
        while limit - fitting > 1 {
            let middle = fitting + (limit - fitting) / 2;
            if middle <= self.runs() && fits(middle)? {
                fitting = middle;
            } else {
                limit = middle;
            }
        }
        Ok(fitting)
    }

    /// The windows of a sweep: powers of two, and all runs.
    pub fn windows(&self) -> Vec<u64> {
        let all = self.runs();
        let powers = (0..63).map(|shift| 1 << shift).take_while(|window| *window < all);
        powers.chain([all]).collect()
    }

    /// The boxes of an epoch, in an order of their numbers.
    fn requests(&self, samples: impl Iterator<Item = Option<u64>>) -> Outcome<Requests> {
        let mut requests = Requests::default();
        for sample in samples {
            let (array, begin) = self.box_of(sample)?;
            let ends = begin.iter().zip(&self.store.extents);
            let end = ends.map(|(begin, extent)| begin + *extent as i64).collect();
            let uri = &self.store.uris[array];
            requests.add(uri, Extent { begin: begin.to_vec(), end, lists: Vec::new() });
        }
        Ok(requests)
    }

    fn box_of(&self, sample: Option<u64>) -> Outcome<(usize, wavetrain::sampler::Begin)> {
        let found = sample.and_then(|sample| self.arrays.find(sample));
        let begin = found.and_then(|(array, number)| {
            let boxes = &self.store.boxes[array];
            Some((array, boxes.at(number, self.asked.seed, self.asked.epoch)?))
        });
        begin.ok_or_else(|| misfit(Misfit::Samples))
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let epoch = self.asked.epoch;
        (0..self.arrays.count()).map(move |position| Place { epoch, position })
    }

    /// The boxes in a chunk-aware shuffle.
    pub fn in_its_order(&self, order: &ChunkShuffle) -> Outcome<Requests> {
        self.requests(self.places().map(|place| order.at(place)))
    }

    /// The boxes in the order of a full shuffle.
    pub fn shuffled(&self) -> Outcome<Requests> {
        let epoch = Epoch::new(self.arrays.count(), self.asked.seed, Order::Shuffled);
        let epoch = epoch.map_err(misfit)?;
        self.requests(self.places().map(|place| epoch.at(place)))
    }

    /// The chunk that a box begins in, among those of all arrays.
    fn chunk_of(&self, sample: Option<u64>) -> Outcome<(usize, u64)> {
        let (array, begin) = self.box_of(sample)?;
        let info = &self.store.infos[array];
        let mut chunk = 0;
        for (axis, begin) in begin.iter().enumerate() {
            let (shape, extent) = (info.shape[axis], info.chunk_shape[axis].max(1));
            let place = (*begin).clamp(0, shape as i64 - 1) as u64;
            chunk = chunk * shape.div_ceil(extent) + place / extent;
        }
        Ok((array, chunk))
    }

    /// How well an order mixes in batches of so many samples.
    pub fn mixing(&self, order: &ChunkShuffle, batch: u64) -> Outcome<Mixing> {
        let pairs = |count: u64| count as f64 * (count as f64 - 1.0) / 2.0;
        let n = self.arrays.count();
        let mut positions = vec![0u64; n as usize];
        let (mut met, mut together) = (0.0, 0.0);
        let (mut all, mut here) = (HashMap::new(), HashMap::new());
        for place in self.places() {
            let sample = order.at(place);
            if let Some(sample) = sample {
                positions[sample as usize] = place.position;
            }
            let chunk = self.chunk_of(sample)?;
            *all.entry(chunk).or_insert(0u64) += 1;
            *here.entry(chunk).or_insert(0u64) += 1;
            if (place.position + 1).is_multiple_of(batch) || place.position + 1 == n {
                together += pairs(here.values().sum());
                met += here.drain().map(|(_, count)| pairs(count)).sum::<f64>();
            }
        }
        let of_chunks: f64 = all.values().map(|count| pairs(*count)).sum();
        let by_chance = of_chunks * together / pairs(n).max(1.0);
        let far = |pair: &[u64]| pair[0].abs_diff(pair[1]) as f64;
        let far: f64 = positions.windows(2).map(far).sum();
        // Two places of a row are a third of it apart.
        let far_by_chance = (n as f64 - 1.0) * (n as f64 + 1.0) / 3.0;
        Ok(Mixing {
            apart: if n > 1 { far / far_by_chance } else { 1.0 },
            meets: (by_chance > 0.0).then(|| met / by_chance),
        })
    }
}
