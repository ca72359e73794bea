//! `saturate`: every number becomes every integer, cut off and clamped, on each backend.

use crate::common::drive::{Dice, Job, PATIENCE_NS, Span, config, open, stream};
use crate::common::fixtures::{self, Store};
use crate::common::oracle::{Pad, clamped, has_cast};
use wavetrain::config::{Config, PAD_CONSTANT};
use wavetrain::loader::{Loader, Pop};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const INTEGERS: [Dtype; 8] =
    [Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I16, Dtype::U32, Dtype::I32, Dtype::U64, Dtype::I64];

const NUMBERS: [Dtype; 13] = [
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F32,
    Dtype::F64,
];

/// Pairs that no cast without a loss has.
fn pairs() -> impl Iterator<Item = (Dtype, Dtype)> {
    let pairs = NUMBERS.into_iter().flat_map(|from| INTEGERS.map(|to| (from, to)));
    pairs.filter(|(from, to)| !has_cast(*from, *to))
}

/// Stores of two axes of a type: others write them in every layout.
fn stores(dtype: Dtype) -> Vec<&'static Store> {
    let is_wanted = |store: &&Store| store.image.dtype == dtype && store.image.shape.len() == 2;
    let stores: Vec<&Store> = fixtures::family("matrix").filter(is_wanted).collect();
    assert!(!stores.is_empty(), "{}", dtype.name());
    stores
}

fn saturating(dtype: Dtype, shape: &[u64], samples: usize) -> Config {
    Config { saturate: 1, ..config(dtype, shape, samples) }
}

fn job(store: &Store, span: Span, to: Dtype) -> Job {
    let source = store.image.inside(&span.0, &span.1);
    Job::new(&store.uri, span, clamped(store.image.dtype, to, &source))
}

#[test]
fn every_number_becomes_every_integer() {
    let mut dice = Dice(0x5A7E_0C1A_3B0B_0001);
    for (from, to) in pairs() {
        let mut jobs = Vec::new();
        for store in stores(from) {
            let axes = store.image.shape.iter();
            let begin: Vec<i64> = axes.map(|extent| dice.range(0, *extent as i64 - 22)).collect();
            let end = begin.iter().map(|begin| begin + 23).collect();
            jobs.push(job(store, (begin, end), to));
        }
        stream(&saturating(to, &[23, 23], 4), &jobs);
    }
}

#[test]
fn the_whole_of_an_array_with_its_padding_is_clamped() {
    for (from, to) in pairs().step_by(3) {
        let store = stores(from)[0];
        let extents = &store.image.shape;
        let span = (vec![-2, 0], vec![extents[0] as i64, extents[1] as i64 + 3]);
        let fill = &store.image.fill;
        let source = store.image.crop(&span.0, &span.1, Pad::Constant, fill);
        let job = Job::new(&store.uri, span, clamped(from, to, &source));
        let config = Config { pad_mode: PAD_CONSTANT, ..saturating(to, &job.extents(), 1) };
        stream(&config, &[job]);
    }
}

#[test]
fn casts_that_lose_nothing_are_what_they_were() {
    for (from, to) in [(Dtype::U8, Dtype::I32), (Dtype::I16, Dtype::I64), (Dtype::F64, Dtype::F16)]
    {
        let store = stores(from)[0];
        let job = Job::of(store, (vec![0, 0], vec![20, 20]), to);
        stream(&saturating(to, &[20, 20], 1), &[job]);
    }
}

fn refusal(loader: &Loader, store: &Store) -> String {
    let job = Job::new(&store.uri, (vec![0, 0], vec![4, 4]), Vec::new());
    let failure = match loader.push(&[job.request(0)], 0) {
        Err(failure) => failure,
        Ok(_) => {
            loader.flush().unwrap();
            match loader.pop(PATIENCE_NS) {
                Err(failure) => failure,
                Ok(Pop::Batch(_)) => panic!("a batch"),
                Ok(_) => panic!("no batch and no failure"),
            }
        }
    };
    assert_eq!(failure.status, Status::Dtype, "{failure}");
    failure.text.as_str().to_string()
}

#[test]
fn without_it_a_cast_that_may_lose_is_refused_with_the_setting() {
    for (from, to) in pairs() {
        let text = refusal(&open(&config(to, &[4, 4], 1)), stores(from)[0]);
        assert!(text.ends_with(", or saturate = 1, which clamps"), "{text}");
    }
}

#[test]
fn complex_numbers_have_no_integer() {
    for from in [Dtype::C64, Dtype::C128] {
        let text = refusal(&open(&saturating(Dtype::I32, &[4, 4], 1)), stores(from)[0]);
        assert!(text.contains("no cast from") && !text.contains("saturate"), "{text}");
    }
}

#[test]
fn it_is_0_or_1() {
    let wrong = Config { saturate: 2, ..config(Dtype::U8, &[4], 1) };
    let failure = Loader::open_on(&SYSTEM, &wrong).err().expect("2 is neither");
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().starts_with("saturate = 2: must be 0 to 1"), "{failure}");
}
