//! Arithmetic on elements by the device's kernel against the host path: units whose words ask for
//! any of it give the bytes of `scatter` and its neighbours, and words that lead astray are
//! refused.
//!
//! Without a C++ compiler the tests skip, and say so.

use crate::cases::{Case, POISON, Random, Told, pairs, record};
use crate::common::arithmetic::Arithmetic;
use crate::common::drive::Dice;
use crate::common::effort;
use crate::sim::{Aligned, ORDERS, Record, Sim, compiled, run_jobs};
use wavetrain::assemble::axis::PadMode;
use wavetrain::assemble::units::{RECORD_BYTES, Unit, refused_unit};
use wavetrain::assemble::vectors::Path;
use wavetrain::records::{AugmentHead, AugmentWords, Dtype};

/// Words of a record.
const RECORD_WORDS: usize = RECORD_BYTES / 4;

/// Any arithmetic on a sample of so many places along its axes.
fn words(random: &mut Random, shape: &[i64]) -> AugmentWords {
    let extents: Vec<u64> = shape.iter().map(|extent| *extent as u64).collect();
    Arithmetic::draw(&mut Dice(random.next()), &extents).words(extents.len())
}

/// Any geometry that goes to floats, with any arithmetic.
pub fn augmented(random: &mut Random) -> Case {
    loop {
        let mut case = Case::random(random);
        if [Dtype::F32, Dtype::Bf16, Dtype::F16].contains(&case.dtype) {
            case.words = words(random, &case.shape);
            return case;
        }
    }
}

fn changed_units(told: &Told) -> impl Iterator<Item = (usize, &Unit)> {
    told.wave.records.iter().enumerate().filter_map(|(number, record)| match record {
        Record::Unit(unit) if unit.change_records > 0 => Some((number, unit)),
        _ => None,
    })
}

#[test]
fn units_with_arithmetic_give_the_bytes_of_the_host_path() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut fills, mut folded, mut filtered, mut long, mut plain) = (0, 0, 0, 0, 0);
    let mut targets = [0; 4];
    for number in 0..effort::rounds(500, 250) {
        let case = augmented(&mut random);
        let told = case.told(&mut random);
        told.check(sim, &|| format!("case {number}: {:?}, {:?}", case.shape, case.words));
        for (_, unit) in changed_units(&told) {
            assert_eq!((unit.path, unit.vector_elements), (Path::Elements as u8, 1));
            fills += u32::from(unit.is_fill);
            folded += u32::from(unit.folded != 0);
            filtered += u32::from(unit.filter != 0);
            long += u32::from(unit.change_records > 1);
            targets[usize::from(unit.target_dtype)] += 1;
        }
        plain += u32::from(changed_units(&told).next().is_none());
    }
    let seen = [fills, folded, filtered, long, plain];
    assert!(seen.iter().all(|count| *count > 5), "kinds that hardly occurred: {seen:?}");
    assert!(targets[1..].iter().all(|count| *count > 50), "{targets:?}");
}

/// A row of one channel, of all that arithmetic does.
fn row_words(random: &mut Random, (sigma, key): (f32, u64)) -> AugmentWords {
    let noise = (sigma, key);
    let head =
        AugmentHead { channels: 1, clamp: Some((-300.0, 5e4)), noise, ..AugmentHead::default() };
    let mut words = AugmentWords::default();
    let (scale, bias) = (random.within(-90, 90) as f32 / 7.0, random.within(-90, 90) as f32 / 3.0);
    assert!(words.begin(&head, 1, [scale].into_iter(), [bias].into_iter()));
    words
}

#[test]
fn every_type_that_has_floats_goes_through_arithmetic() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x0DDB_A115_EED5_0001);
    let is_float = |dtype| [Dtype::F32, Dtype::Bf16, Dtype::F16].contains(&dtype);
    let pairs = pairs().into_iter().filter(|(source, _, target)| {
        is_float(*target) && (*source, *target) != (Dtype::Raw, Dtype::Raw)
    });
    for (source, bytes, target) in pairs {
        let record = record(&[20_000], &[20_000], (source, bytes), &[0]);
        let mut case = Case::new(record, target, vec![vec![0]], vec![20_000], PadMode::None);
        for sigma in [0.0, 1.5] {
            case.words = row_words(&mut random, (sigma, 77));
            let told = case.told_of(&random.bytes(20_000 * bytes as usize));
            told.check(sim, &|| format!("{source:?} of {bytes} to {target:?}, {sigma}"));
        }
    }
}

#[test]
fn noise_of_a_sample_does_not_depend_on_how_it_is_cut_into_units() {
    let Some(sim) = Sim::get() else { return };
    let of = |chunk: [u64; 2]| {
        let mut random = Random(0x0C0F_FEE0);
        let record = record(&[30, 70], &chunk, (Dtype::U8, 1), &[0, 1]);
        let mut case = Case::new(record, Dtype::F32, vec![vec![2, 3]], vec![20, 60], PadMode::None);
        case.words = row_words(&mut random, (2.0, u64::MAX));
        let told = case.told_of(&vec![7; (chunk[0] * chunk[1]) as usize]);
        told.check(sim, &|| format!("{chunk:?}"));
        told.expected[256..][..20 * 60 * 4].to_vec()
    };
    let whole = of([30, 70]);
    let floats: Vec<u32> =
        whole.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
    assert!(floats.windows(2).filter(|pair| pair[0] == pair[1]).count() < 4);
    assert!([[7, 13], [1, 70], [30, 1]].iter().all(|chunk| of(*chunk) == whole));
}

/// A unit of two channels with an erased box of two values.
fn one_unit(random: &mut Random) -> Told {
    let record = record(&[2, 40], &[2, 40], (Dtype::U16, 2), &[0, 1]);
    let mut case = Case::new(record, Dtype::F32, vec![vec![0, 0]], vec![2, 40], PadMode::None);
    let head = AugmentHead { channels: 2, noise: (1.0, 5), ..AugmentHead::default() };
    assert!(case.words.begin(&head, 2, [1.0, 2.0].into_iter(), [3.0, 4.0].into_iter()));
    assert!(case.words.erase(&[0, 1], &[1, 9], [5.0, 6.0].into_iter()));
    let mut told = case.told_of(&random.bytes(160));
    assert!(changed_units(&told).map(|(number, _)| number).eq([0]));
    // The unit and its words: the failed sample is left out.
    told.wave.records.truncate(2);
    told.expected[256 + 320..].fill(POISON);
    told
}

/// Changes words of the record next to the first unit.
fn spoil_words(told: &mut Told, spoil: &dyn Fn(&mut [u32])) {
    let Record::More(bytes) = &mut told.wave.records[1] else { panic!() };
    let mut words: Vec<u32> =
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    spoil(&mut words);
    let spoilt: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.copy_from_slice(&spoilt);
}

/// Ways in which the words of [`one_unit`] lead astray: `head | 2 scales | 2 biases | 8 words of
/// places, a count, 2 values | 2 axes`.
const SPOILT: [fn(&mut [u32]); 17] = [
    |words| words[0] = 9,
    |words| words[0] = RECORD_WORDS as u32 - 11,
    |words| words[0] = u32::MAX,
    // Fewer words than the tables, than the places, than the values.
    |words| words[0] = 13,
    |words| words[0] = 20,
    |words| words[0] = 24,
    |words| words[2] = 65,
    |words| words[2] = u32::MAX,
    // Another axis than that of the channels, and none.
    |words| words[3] = 1,
    |words| words[3] = 2,
    // More boxes than there are, more than there may be, and boxes of other axes.
    |words| words[7] += 1 << 16,
    |words| words[7] = 9 << 16 | 2,
    |words| words[7] = 1 << 16 | 1,
    |words| words[22] = 0,
    |words| words[22] = 3,
    |words| words[22] = u32::MAX,
    // An axis without places.
    |words| words[25] = 0,
];

/// Ways in which the unit itself does.
const SPOILT_UNIT: [fn(&mut Unit); 7] = [
    |unit| unit.change_records = 2,
    |unit| unit.change_records = 255,
    |unit| unit.change_rank = 1,
    |unit| unit.change_rank = 17,
    |unit| unit.path = Path::F32 as u8,
    |unit| unit.target_dtype = Dtype::U32 as u8,
    |unit| unit.target_dtype = Dtype::F16 as u8,
];

#[test]
fn words_that_lead_outside_of_their_records_are_refused_and_nothing_is_written() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x7072_6F74_6563_7401);
    one_unit(&mut random).check(sim, &|| "as it is".into());
    let refused = |told: &Told, what: String| {
        let target = Aligned::new(told.expected.len(), POISON);
        for order in ORDERS {
            let wave = told.wave.bytes(target.as_ptr() as u64);
            assert_eq!(refused_unit(sim.assemble(&wave, order)), Some(0), "{what}");
            assert!(target.iter().all(|byte| *byte == POISON), "{what}");
        }
    };
    for (number, spoil) in SPOILT.iter().enumerate() {
        let mut told = one_unit(&mut random);
        spoil_words(&mut told, spoil);
        refused(&told, format!("words {number}"));
    }
    for (number, spoil) in SPOILT_UNIT.iter().enumerate() {
        let mut told = one_unit(&mut random);
        let Record::Unit(unit) = &mut told.wave.records[0] else { panic!() };
        spoil(unit);
        refused(&told, format!("unit {number}"));
    }
}

#[test]
fn words_of_any_bits_are_refused_or_lead_nowhere_else() {
    let flags = ["-O1", "-DSIM_PROGRAM", "-fsanitize=address,undefined"];
    let Some(program) = compiled("assemble_asan", &flags) else { return };
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x5745_4B45_4550_4F55);
    let (mut jobs, mut refused) = (Vec::new(), 0);
    for _ in 0..300 {
        let mut told = one_unit(&mut random);
        let (at, bits) = (random.within(0, 37) as usize, random.next() as u32);
        let bits = if random.one_in(2) { bits } else { bits % 70 };
        spoil_words(&mut told, &|words| words[at] = bits);
        // The same kernel without a sanitizer is asked what becomes of it.
        let mut target = Aligned::new(told.expected.len(), POISON);
        let status = sim.assemble(&told.wave.bytes(target.as_mut_ptr() as u64), 0);
        refused += u32::from(status != 0);
        jobs.push(told.wave.job(&target, status));
    }
    assert!((40..260).contains(&refused), "{refused}");
    run_jobs(&program, &jobs).unwrap();
}

#[test]
fn without_the_check_of_words_address_sanitizer_names_the_line_that_reads() {
    let flags = ["-O1", "-DSIM_PROGRAM", "-fsanitize=address,undefined", "-DWAVETRAIN_MUTATE_37"];
    let Some(program) = compiled("assemble_asan_words", &flags) else { return };
    let mut told = one_unit(&mut Random(3));
    // The axes would lie right after the memory of the wave.
    spoil_words(&mut told, &|words| words[0] = 260);
    let untouched = vec![POISON; told.expected.len()];
    let report = run_jobs(&program, &[told.wave.job(&untouched, !0)]).unwrap_err();
    assert!(report.contains("AddressSanitizer"), "{report}");
    assert!(report.contains("kernels/augment.cuh:"), "{report}");
}
