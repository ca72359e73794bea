//! What wavetrain::sampler answers to the questions that tests/c/epoch.c documents.

use crate::questions::words;
use std::fmt::Write as _;
use wavetrain::sampler::*;

const NO_SAMPLE: u64 = u64::MAX;

const SHUFFLE: u64 = 1;
const BY_BATCH: u64 = 2;
const DROP: u64 = 4;
const PAD: u64 = 8;
const REPEAT: u64 = 16;

/// The answer to a question.
pub fn answer(question: &str) -> String {
    let (word, rest) = question.split_once(' ').unwrap();
    let n: Vec<u64> = rest.split(' ').map(|number| number.parse().unwrap()).collect();
    match word {
        "mix" => words([mix(n[0], n[1])]),
        "key" => words([key(n[0], n[1], n[2])]),
        "high" => words([((u128::from(n[0]) * u128::from(n[1])) >> 64) as u64]),
        "philox" => words(philox(n[0], [1, 2, 3, 4].map(|k| n[k] as u32)).map(u64::from)),
        "below" => words((0..n[4]).map(|k| below(n[0], n[1], n[2] + k, n[3] as u32))),
        "permute" => words((0..n[3]).map(|k| index(permute(n[0], n[1], n[2] + k)))),
        "deal" => deal(&n),
        "free" => deal_free(&n),
        "at" => at(&n),
        "depends" => {
            let mut epoch = epoch(&n);
            epoch.depends_on(&n[3..]);
            words([epoch.state().order_hash])
        }
        "resume" => {
            let other = epoch(&n[3..]).state();
            let state = State { position: n[6], ..other };
            words([u64::from(epoch(&n).resume(&state).is_ok())])
        }
        "parts" => words((0..=n[1] as usize).map(|k| part(n[0], &narrow(&n[2..]), k).start)),
        "group" => match grouped(&n) {
            Some((ends, table)) => words([1].into_iter().chain(ends).chain(table)),
            None => " 0".to_owned(),
        },
        "stratify" => stratified(&n),
        "weighted" => {
            let mut sums = n[4..].to_vec();
            match accumulate(&mut sums) {
                Ok(()) => " 1".to_owned() + &each_place(&n, |at| index(weighted(&sums, n[0], at))),
                Err(_) => " 0".to_owned(),
            }
        }
        "mixed" => mixed(&n),
        "boxes" | "anywhere" | "around" => boxes(word, &n),
        "arrays" => arrays(&n),
        "cost" => cost_of(&n),
        _ => panic!("{question}"),
    }
}

fn index(found: Option<u64>) -> u64 {
    found.unwrap_or(NO_SAMPLE)
}

fn narrow(numbers: &[u64]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}

/// N SEED FLAGS
fn epoch(n: &[u64]) -> Epoch {
    let order = if n[2] & SHUFFLE != 0 { Order::Shuffled } else { Order::Plain };
    Epoch::new(n[0], n[1], order).unwrap()
}

/// The same with what flags say of deals and tails.
fn dealt(n: &[u64]) -> Epoch {
    let tail = match n[2] {
        flags if flags & REPEAT != 0 => Tail::Repeat,
        flags if flags & PAD != 0 => Tail::Pad,
        flags if flags & DROP != 0 => Tail::Drop,
        _ => Tail::Short,
    };
    let deal = if n[2] & BY_BATCH != 0 { Deal::ByBatch } else { Deal::BySample };
    epoch(n).with_tail(tail).with_deal(deal)
}

/// N SEED FLAGS RANK WORLD BATCH EPOCH POSITION COUNT
fn deal(n: &[u64]) -> String {
    let epoch = dealt(n);
    let hash = epoch.state().order_hash;
    let state = State { seed: n[1], epoch: n[6], position: n[7], order_hash: hash };
    let dealt = epoch.with_ranks(n[3] as u32, n[4] as u32, n[5] as u32);
    let ready = dealt.and_then(|mut epoch| epoch.resume(&state).map(|()| epoch));
    let Ok(mut epoch) = ready else {
        let each = format!(" -1 {} {} {hash} 0", n[6], n[7]);
        return format!(" 1 {hash} 0{}", each.repeat(n[8] as usize));
    };
    let mut text = words([1, hash, epoch.left()]);
    for _ in 0..n[8] {
        let taken = epoch.next_place();
        text += &told(taken, |place| epoch.at(place));
        let State { epoch: number, position, order_hash, .. } = epoch.state();
        text += &words([number, position, order_hash, epoch.left()]);
    }
    text
}

fn told(taken: Option<Taken>, at: impl Fn(Place) -> Option<u64>) -> String {
    let Some(Taken { place, is_padding }) = taken else { return " 0".to_owned() };
    words([1 + u64::from(is_padding), place.epoch, place.position, index(at(place))])
}

/// N SEED FLAGS RANK WORLD VISIT WINDOW EPOCH POSITION COUNT
fn deal_free(n: &[u64]) -> String {
    let mut hashed = dealt(n);
    hashed.depends_on(&n[5..7]);
    let whole = hashed.state().order_hash;
    let refused = |begun: u64, hash: u64, bound: u64| {
        let each = format!(" -1 {} {} {hash} 0 {bound}", n[7], n[8]).repeat(n[9] as usize);
        format!(" {begun} {hash} 0 {bound}{each}")
    };
    let Ok(alone) = Free::new(dealt(n), n[5], n[6]) else { return refused(0, whole, 0) };
    let is_bound = n[8] == n[0] || n[8].is_multiple_of(alone.window_samples());
    // Inside of a round of windows a state is of its world.
    let hash = if is_bound { whole } else { whole ^ mix(n[4], purpose::WINDOW) };
    let Ok(epoch) = dealt(n).with_ranks(n[3] as u32, n[4] as u32, 1) else {
        return refused(1, hash, is_bound.into());
    };
    let mut free = Free::new(epoch, n[5], n[6]).unwrap();
    free.resume(&State { seed: n[1], epoch: n[7], position: n[8], order_hash: hash }).unwrap();
    let mut text = words([1, hash, free.left(), free.is_bound().into()]);
    for _ in 0..n[9] {
        let taken = free.next_place();
        text += &told(taken, |place| free.at(place));
        let State { epoch, position, order_hash, .. } = free.state();
        text += &words([epoch, position, order_hash, free.left(), free.is_bound().into()]);
    }
    text
}

/// N SEED FLAGS VISIT WINDOW EPOCH POSITION COUNT
fn at(n: &[u64]) -> String {
    let places = (0..n[7]).map(|k| Place { epoch: n[5], position: n[6] + k });
    if n[3] == 0 {
        let epoch = epoch(n);
        return words(places.map(|place| index(epoch.at(place))));
    }
    let free = Free::new(epoch(&[n[0], n[1], 0]), n[3], n[4]);
    words(places.map(|place| index(free.as_ref().ok().and_then(|free| free.at(place)))))
}

/// Ends and table of LABELS LABEL..
fn grouped(n: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut ends, mut table) = (vec![0; n[0] as usize], vec![0; n.len() - 1]);
    group(&narrow(&n[1..]), &mut ends, &mut table).ok().map(|()| (ends, table))
}

/// SEED PART PARTS WEIGHT.. LABELS LABEL..
fn stratified(n: &[u64]) -> String {
    let (weights, labels) = n[3..].split_at(n[2] as usize);
    let Some((ends, table)) = grouped(labels) else { return String::new() };
    let mut subset = vec![0; table.len()];
    let weights = narrow(weights);
    let count = stratify(&ends, &table, &weights, n[1] as usize, n[0], &mut subset).unwrap_or(0);
    words(subset[..count].iter().copied())
}

/// Of questions that begin with SEED EPOCH POSITION COUNT, a number for each position.
fn each_place(n: &[u64], number: impl Fn(Place) -> u64) -> String {
    words((0..n[3]).map(|k| number(Place { epoch: n[1], position: n[2] + k })))
}

/// SEED EPOCH POSITION COUNT N WEIGHT N WEIGHT ..
fn mixed(n: &[u64]) -> String {
    let shares: Vec<Share> = n[4..]
        .chunks_exact(2)
        .map(|pair| Share { samples: pair[0], weight: pair[1] as u32 })
        .collect();
    let Ok(mixture) = Mixture::new(&shares) else { return " 0".repeat(n[3] as usize) };
    let place = |k| Place { epoch: n[1], position: n[2] + k };
    (0..n[3])
        .map(|k| match mixture.at(n[0], place(k)) {
            Some((source, sample)) => words([1, source as u64, sample]),
            None => " 0".to_owned(),
        })
        .collect()
}

/// The grid that stands at the front, and what follows it.
fn grid(n: &[u64]) -> (Result<Boxes, Misfit>, &[u64]) {
    let axes = n[0] as usize;
    let list = |number: usize| &n[2 + number * axes..2 + (number + 1) * axes];
    let boxes = Boxes::new(Grid {
        shape: list(0),
        extents: list(1),
        step: list(2),
        margin: list(3),
        chunk: list(4),
        jitters: n[1] != 0,
    });
    (boxes, &n[2 + 5 * axes..])
}

/// SEED EPOCH NUMBER COUNT GRID [POINT..]
fn boxes(word: &str, n: &[u64]) -> String {
    let (boxes, point) = grid(&n[4..]);
    let mut text = String::new();
    if word == "boxes" {
        text += &words([boxes.as_ref().map_or(0, Boxes::count)]);
    }
    for k in 0..n[3] {
        let place = Place { epoch: n[1], position: n[2] + k };
        let begin = boxes.as_ref().ok().and_then(|boxes| match word {
            "boxes" => boxes.at(n[2] + k, n[0], n[1]),
            "anywhere" => Some(boxes.anywhere(n[0], place)),
            _ => boxes.around(point, n[0], place),
        });
        let Some(begin) = begin else {
            text += " 0";
            continue;
        };
        text += " 1";
        begin.iter().for_each(|at| write!(text, " {at}").unwrap());
    }
    text
}

/// As many grids as the first number says.
fn grids(n: &[u64]) -> Result<Vec<Boxes>, Misfit> {
    let mut rest = &n[1..];
    (0..n[0])
        .map(|_| {
            let (boxes, behind) = grid(rest);
            rest = behind;
            boxes
        })
        .collect()
}

/// INDEX ARRAYS GRID ..
fn arrays(n: &[u64]) -> String {
    let Ok(boxes) = grids(&n[1..]) else { return " 0".to_owned() };
    let mut ends = vec![End::default(); boxes.len()];
    let Ok(arrays) = Arrays::new(&boxes, &mut ends) else { return " 0".to_owned() };
    let sums = arrays.ends().iter().flat_map(|end| [end.boxes, end.chunks]);
    let (array, number) = arrays.find(n[0]).unwrap_or((boxes.len(), 0));
    words([1].into_iter().chain(sums).chain([array as u64, number]))
}

/// SEED EPOCH VISIT WINDOW WORDS ARRAYS GRID ..
fn cost_of(n: &[u64]) -> String {
    let Ok(boxes) = grids(&n[5..]) else { return String::new() };
    let mut ends = vec![End::default(); boxes.len()];
    let Ok(arrays) = Arrays::new(&boxes, &mut ends) else { return String::new() };
    let epoch = Epoch::new(arrays.count(), n[0], Order::Plain).unwrap();
    let Ok(mut free) = Free::new(epoch, n[2], n[3]) else { return " -1".to_owned() };
    let state = State { epoch: n[1], ..free.state() };
    free.resume(&state).unwrap();
    match cost(&free, &arrays, &mut vec![0; n[4].min(65536) as usize]) {
        Ok(Cost { distinct, windows, largest }) => words([1, distinct, windows, largest]),
        Err(Misfit::Memory) => " 0".to_owned(),
        Err(_) => " -1".to_owned(),
    }
}
