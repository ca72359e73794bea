//! Units that read memory of the caller's by its address: the bytes of the same units of a wave,
//! and not a byte outside.
//!
//! Without a C++ compiler the tests skip, and say so.

use crate::cases::{Case, POISON, Random, Told, alone, reads, record};
use crate::common::effort;
use crate::sim::{Aligned, ORDERS, Record, Sim, Wave};
use crate::sweeps::augmented::augmented;
use std::sync::OnceLock;
use wavetrain::assemble::axis::PadMode;
use wavetrain::assemble::units::{Unit, refused_unit};
use wavetrain::assemble::vectors::Path;
use wavetrain::records::Dtype;

/// The kernels, for these tests alone.
fn sim() -> Option<&'static Sim> {
    static SIM: OnceLock<Option<Sim>> = OnceLock::new();
    SIM.get_or_init(|| Sim::with("assemble_lent.so", &[])).as_ref()
}

/// Bytes around memory of the caller's.
const BESIDE: usize = 64;

/// A wave whose units read memory of the test's, each its own, which holds not a byte more.
struct Lent {
    wave: Wave,
    memory: Vec<Vec<u8>>,
    ranges: Vec<[u64; 2]>,
}

impl Lent {
    /// The units of a wave that nothing filters, in memory that begins at any place of a vector.
    fn of(wave: &Wave, random: &mut Random) -> Lent {
        let mut lent = Lent { wave: wave.clone(), memory: Vec::new(), ranges: Vec::new() };
        for record in &mut lent.wave.records {
            let Record::Unit(unit) = record else { continue };
            if unit.is_fill != 0 || unit.filter != 0 {
                continue;
            }
            let (first, bytes) = (unit.data as usize, unit.data_bytes as usize);
            let mut memory = vec![0x5A; bytes + 2 * BESIDE + 16];
            let skip = memory.as_ptr().align_offset(16) + BESIDE;
            let skip = skip - 16 + random.within(0, 16) as usize;
            memory[skip..skip + bytes].copy_from_slice(&wave.data[first..first + bytes]);
            unit.data = memory[skip..].as_ptr() as u64;
            unit.is_absolute = 1;
            lent.ranges.push([unit.data, unit.data + unit.data_bytes]);
            lent.memory.push(memory);
        }
        // Of the wave itself nothing is there to be read.
        lent.wave.data.clear();
        lent
    }
}

/// Any case without a filter; some have arithmetic on their elements.
fn plain_case(random: &mut Random) -> Case {
    loop {
        let case = if random.one_in(4) { augmented(random) } else { Case::random(random) };
        if case.filter as u8 == 0 {
            return case;
        }
    }
}

/// Runs lent memory in all orders; loads that stray.
fn check(sim: &Sim, lent: &Lent, told: &Told, number: u64) -> u32 {
    let mut target = Aligned::new(told.expected.len(), POISON);
    let mut strays = 0;
    for order in ORDERS {
        target.fill(POISON);
        let wave = lent.wave.bytes(target.as_ptr() as u64);
        strays += sim.strays(&lent.ranges, || {
            assert_eq!(sim.assemble(&wave, order), 0, "case {number}");
        });
        assert!(target[..] == told.expected[..], "case {number}, order {order}");
    }
    strays
}

#[test]
fn memory_of_the_caller_s_gives_the_bytes_of_a_wave_and_is_left_nowhere() {
    let Some(sim) = sim() else { return };
    let mut random = Random(0x3141_5926_5358_9793);
    let mut seen = [0u32; 7];
    for number in 0..300 {
        let told = plain_case(&mut random).told(&mut random);
        let lent = Lent::of(&told.wave, &mut random);
        assert_eq!(check(sim, &lent, &told, number), 0, "case {number}");
        for record in &lent.wave.records {
            if let Record::Unit(unit) = record {
                seen[usize::from(unit.path)] += u32::from(unit.is_absolute);
            }
        }
    }
    let is_seen = |path: Path| seen[path as usize] > 20;
    let paths = [Path::Elements, Path::Copy, Path::F32, Path::Bf16, Path::F16];
    assert!(paths.into_iter().all(is_seen), "paths that hardly occurred: {seen:?}");
}

/// Rows of U16 to F32 that all begin at the same place of a vector, in memory that ends anywhere.
fn near_case(random: &mut Random) -> Case {
    let columns = 4 * random.within(3, 9);
    let record = record(&[30, columns as u64], &[30, columns as u64], (Dtype::U16, 2), &[0, 1]);
    let begins = vec![vec![random.within(0, 4), random.within(-3, 4)]];
    Case::new(record, Dtype::F32, begins, vec![20, columns], PadMode::Constant)
}

#[test]
fn cut_rows_of_memory_of_the_caller_s_do_not_leave_it() {
    let Some(sim) = sim() else { return };
    let mut random = Random(0x1618_0339_8874_9894);
    for number in 0..60 {
        let told = near_case(&mut random).told(&mut random);
        let lent = Lent::of(&told.wave, &mut random);
        assert_eq!(check(sim, &lent, &told, number), 0, "case {number}");
    }
}

#[test]
fn without_the_guards_of_words_memory_of_the_caller_s_is_left() {
    let makes: [(u32, fn(&mut Random) -> Case); 3] =
        [(9, plain_case), (10, plain_case), (11, near_case)];
    for (mutation, make) in effort::part(makes, 1) {
        let name = format!("assemble_lent_mutated_{mutation}.so");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let Some(sim) = Sim::with(&name, &[&define]) else { return };
        let mut random = Random(0x3141_5926_5358_9793);
        let mut strays = 0;
        for number in 0..60 {
            let told = make(&mut random).told(&mut random);
            let lent = Lent::of(&told.wave, &mut random);
            strays += check(&sim, &lent, &told, number);
        }
        assert!(strays > 0, "mutation {mutation} made no difference");
    }
}

/// One row of U16 to F32.
fn row(random: &mut Random) -> (Lent, Told) {
    let record = record(&[64], &[64], (Dtype::U16, 2), &[0]);
    let case = Case::new(record, Dtype::F32, vec![vec![0]], vec![64], PadMode::None);
    let told = case.told_of(&random.bytes(128));
    (Lent::of(&told.wave, random), told)
}

#[test]
fn a_unit_that_would_leave_memory_of_the_caller_s_is_refused() {
    let Some(sim) = sim() else { return };
    let mut random = Random(0x2718_2818_2845_9045);
    let spoil: [fn(&mut Unit); 6] = [
        |unit| unit.data_bytes -= 1,
        |unit| unit.source += 2,
        |unit| unit.axes[0].source_step = i64::MAX,
        |unit| unit.axes[0].source_step = -2,
        // The end of the memory is behind the last address.
        |unit| unit.data_bytes = u64::MAX - unit.data + 1,
        |unit| {
            (unit.filter, unit.filter_typesize, unit.filter_block_bytes) = (1, 2, 128);
        },
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        let (mut lent, told) = row(&mut random);
        let Record::Unit(unit) = &mut lent.wave.records[0] else { panic!() };
        let (low, high) = reads(&alone(*unit));
        assert_eq!((low, high - low), (unit.data_first, unit.data_bytes));
        spoil(unit);
        lent.wave.records.truncate(1);
        let target = Aligned::new(told.expected.len(), POISON);
        for order in ORDERS {
            let wave = lent.wave.bytes(target.as_ptr() as u64);
            let mut status = 0;
            let strays = sim.strays(&lent.ranges, || status = sim.assemble(&wave, order));
            assert_eq!((refused_unit(status), strays), (Some(0), 0), "spoilt {number}");
            assert!(target.iter().all(|byte| *byte == POISON));
        }
    }
}
