//! An owner, a consumer that keeps to the rules, and one that does not: it writes anything into the
//! memory that it has mapped, and sends anything, between calls of the library's.
//!
//! Checked: no loader hangs or ends, and the honest consumer gets its batches, each once, in their
//! order; with their bytes, if the other writes its page alone. Input: the order, then one act
//! after the other.

use super::choices::Choices;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wavetrain::base::arena::Region;
use wavetrain::config::{Config, LOST_SKIP, SHARE_ALL, SHARE_FIRST, SHARE_ROUND};
use wavetrain::loader::{Batch, Feed, Loader, Part, Pop, Sample};
use wavetrain::os::socket;
use wavetrain::records::Dtype;
use wavetrain::surface::handles;

/// Nothing takes this long unless it hangs.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Acts of one input.
const ACTS_MAX: usize = 40;
/// Samples of one input.
const SAMPLES_MAX: u64 = 200;
/// Elements of a sample.
const ELEMENTS: usize = 8;
/// The consumer that keeps to the rules, and the other.
const HONEST: u32 = 0;
const HOSTILE: u32 = 1;

/// The memory that the hostile consumer writes.
#[derive(Clone, Copy, PartialEq)]
pub enum Writes {
    Page,
    All,
}

fn config(order: u32) -> Config {
    let mut config = Config {
        samples_per_batch: 2,
        sample_rank: 1,
        dtype: Dtype::U64 as u32,
        max_boxes_per_sample: 1,
        n_decode_threads: 1,
        n_io_threads: 1,
        max_chunk_uncompressed_bytes: 1 << 12,
        host_buffer_waves: 2,
        max_chunks_per_wave: 8,
        n_readers: 0,
        share_order: order,
        on_consumer_lost: LOST_SKIP,
        ..Config::default()
    };
    config.sample_shape[0] = ELEMENTS as u64;
    config
}

fn elements(tag: u64) -> [u64; ELEMENTS] {
    std::array::from_fn(|at| tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at as u64)
}

fn push(owner: &Loader, tag: u64) -> bool {
    let bytes: Vec<u8> = elements(tag).iter().flat_map(|word| word.to_ne_bytes()).collect();
    let feed = Feed::Value(Dtype::U64, &[ELEMENTS as u64], &bytes);
    let part = Part { feed, begin: &[0], end: &[ELEMENTS as i64], ..Part::default() };
    let (taken, result) = owner.push_samples(&[Sample { parts: &[part], tag }], 0);
    result.expect("a sample that is right");
    taken == 1
}

/// Writes into memory of the hostile consumer.
fn scribble(place: Region, choices: &mut Choices<'_>) {
    let words = place.bytes() / 8;
    for _ in 0..1 + choices.below(4) {
        // Most words that the owner reads are the first ones.
        let limit = if choices.rarely(3) { words } else { words.min(16) };
        let (at, value) = (choices.below(limit), choices.byte());
        let value = match value {
            0..=127 => u64::from(value),
            128..=191 => u64::MAX >> (value % 64),
            _ => choices.long(),
        };
        let part = place.part(8 * at, 8);
        // SAFETY: the words are mapped to be written; all that use them do so atomically, or expect
        // anything.
        unsafe { AtomicU64::from_ptr(part.as_ptr().cast()) }.store(value, SeqCst);
    }
}

/// The batches that the honest consumer is to get.
struct Honest {
    order: u32,
    writes: Writes,
    seen: BTreeSet<u64>,
    count: u64,
}

impl Honest {
    fn check(&mut self, batch: &Batch<'_>) {
        let id = batch.batch_id();
        assert!(self.seen.insert(id), "batch {id} is given twice");
        // With First a consumer also gets batches that another left, in any order.
        match self.order {
            SHARE_ROUND => assert_eq!(id, 2 * self.count),
            SHARE_ALL => assert_eq!(id, self.count),
            _ => {}
        }
        self.count += 1;
        for (at, tag) in batch.tags().iter().enumerate() {
            assert_eq!(*tag, 2 * id + at as u64);
            let bytes = &batch.data()[at * ELEMENTS * 8..][..ELEMENTS * 8];
            let words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
            let is_whole = words.eq(elements(*tag));
            assert!(is_whole || self.writes == Writes::All, "bytes of tag {tag}");
        }
    }

    /// Pops without a wait; whether there was the end.
    fn pop(&mut self, consumer: &Loader, timeout_ns: u64) -> bool {
        match consumer.pop(timeout_ns) {
            Ok(Pop::Batch(batch)) => self.check(&batch),
            Ok(Pop::End) => return true,
            Ok(Pop::Again(_)) => {}
            Ok(Pop::Starved(why)) => panic!("the honest consumer starves: {why}"),
            Ok(Pop::Reset) => panic!("a reset"),
            Err(failure) => panic!("{failure}"),
        }
        false
    }
}

/// One act of the hostile consumer, or of the others.
fn act(
    choices: &mut Choices<'_>,
    (owner, honest, hostile): (&Loader, &Loader, &Loader),
    (model, pushed): (&mut Honest, &mut u64),
) {
    let instance = handles::enter(hostile.token()).expect("it is open");
    let attached = instance.shared.sharing.attached.as_ref().expect("a consumer");
    match choices.below(8) {
        0 | 1 => {
            for _ in 0..choices.below(9) {
                *pushed += u64::from(*pushed < SAMPLES_MAX && push(owner, *pushed));
            }
        }
        2 | 3 => scribble(attached.page.region(), choices),
        4 if model.writes == Writes::All && model.order != SHARE_ALL => {
            scribble(attached.samples, choices);
        }
        4 => {
            let bytes = [choices.byte(), choices.byte()];
            let _ = socket::send(attached.socket, &bytes, &[attached.socket]);
        }
        5 => drop(hostile.pop(0)),
        6 => drop(model.pop(honest, 0)),
        _ => attached
            .records
            .owner_sleeps()
            .then(|| socket::send(attached.socket, &[1], &[]))
            .into_iter()
            .for_each(drop),
    }
}

/// Checks one input.
pub fn run(data: &[u8], writes: Writes) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut choices = Choices::of(data);
    let order = choices.one_of(&[SHARE_ROUND, SHARE_FIRST, SHARE_ALL]);
    let name = format!("fuzz.{}.{}", std::process::id(), COUNT.fetch_add(1, SeqCst));
    let owner = Loader::open_shared(&config(order), &name, 2).expect("a config that is right");
    let attach = |number| Loader::attach(&name, number, PATIENCE_NS).expect("the name is there");
    let (honest, hostile) = (attach(HONEST), attach(HOSTILE));
    let mut model = Honest { order, writes, seen: BTreeSet::new(), count: 0 };
    let mut pushed = 0;
    for _ in 0..ACTS_MAX {
        if choices.is_over() {
            break;
        }
        act(&mut choices, (&owner, &honest, &hostile), (&mut model, &mut pushed));
    }
    owner.flush().expect("flush");
    // The hostile one ends, so that no call waits for batches that it holds.
    if let Some(instance) = handles::enter(hostile.token()) {
        let attached = instance.shared.sharing.attached.as_ref().expect("a consumer");
        // SAFETY: it touches no memory.
        unsafe { libc::shutdown(attached.socket, libc::SHUT_RDWR) };
    }
    while !model.pop(&honest, PATIENCE_NS) {}
    honest.close(PATIENCE_NS).expect("the honest consumer closes");
    let _ = hostile.close(PATIENCE_NS);
    owner.close(PATIENCE_NS).expect("the owner closes");
}
