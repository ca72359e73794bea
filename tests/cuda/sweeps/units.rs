//! The device's kernels against the host path: units of random boxes, executed by kernels/*.cu
//! compiled for the CPU, give the bytes of `scatter` and its neighbours, and nothing else.
//!
//! Without a C++ compiler the tests skip, and say so.

use crate::cases::{Case, POISON, Random, Told, alone, pairs, reads, record};
use crate::common::effort;
use crate::sim::{Aligned, ORDERS, Record, Sim, Wave, compiled, run_jobs};
use std::mem::offset_of;
use wavetrain::assemble::axis::PadMode;
use wavetrain::assemble::units::{
    Filter, Fold, RECORD_BYTES, Unit, UnitAxis, copy_blocks, refused_unit,
};
use wavetrain::assemble::vectors::{Path, TILE_THREADS, TILE_VECTORS};
use wavetrain::cuda::digests::PART_BYTES;
use wavetrain::records::{ByteOrder, Dtype};

fn describe(number: u64, case: &Case) -> String {
    let Case { record, dtype, begins, shape, pad, filter, typesize, block_bytes, .. } = case;
    let axes = record.axes();
    format!(
        "case {number}: {:?} of {:?} {:?} chunks {:?} strides {:?} to {dtype:?}, boxes {shape:?} \
         at {begins:?} {pad:?}, {filter:?} {typesize} in {block_bytes}",
        record.dtype,
        record.byte_order,
        &record.shape[..axes],
        &record.chunk_shape[..axes],
        &record.chunk_strides[..axes],
    )
}

fn units(wave: &Wave) -> impl Iterator<Item = &Unit> {
    wave.records.iter().filter_map(|record| match record {
        Record::Unit(unit) => Some(unit),
        Record::More(_) => None,
    })
}

#[test]
fn units_of_random_geometry_give_the_bytes_of_the_host_path() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let mut seen = [0u32; 7];
    for number in 0..500 {
        let case = Case::random(&mut random);
        let told = case.told(&mut random);
        told.check(sim, &|| describe(number, &case));
        units(&told.wave).for_each(|unit| seen[usize::from(unit.path)] += 1);
    }
    assert!(seen.iter().all(|count| *count > 40), "paths that hardly occurred: {seen:?}");
}

/// One row of elements of interest, whole, and every second one of a row of pairs: whole vectors
/// and single elements.
fn check_cast(sim: &Sim, (source, bytes, target): (Dtype, u32, Dtype), chunk: &[u8]) {
    let count = chunk.len() as u64 / u64::from(bytes);
    for is_strided in [false, true] {
        let shape: &[u64] = if is_strided { &[count / 2, 2] } else { &[count] };
        let order: Vec<usize> = (0..shape.len()).collect();
        let record = record(shape, shape, (source, bytes), &order);
        let mut sample: Vec<i64> = shape.iter().map(|extent| *extent as i64).collect();
        if is_strided {
            sample[1] = 1;
        }
        let case = Case::new(record, target, vec![vec![0; shape.len()]], sample, PadMode::None);
        let told = case.told_of(chunk);
        told.check(sim, &|| format!("{source:?} of {bytes} to {target:?}, {is_strided}"));
    }
}

#[test]
fn every_cast_gives_the_bits_of_the_host() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x0FED_CBA9_8765_4321);
    for (source, bytes, target) in pairs() {
        let mut chunk = Vec::new();
        match bytes {
            // All values, twice: at both places of a pair.
            1 => (0..512u16).for_each(|value| chunk.push((value / 2) as u8)),
            2 => (0..1 << 17).for_each(|value: u32| {
                chunk.extend_from_slice(&((value / 2) as u16).to_ne_bytes());
            }),
            _ => (0..4096).for_each(|_| chunk.extend_from_slice(&wide_value(&mut random, bytes))),
        }
        check_cast(sim, (source, bytes, target), &chunk);
    }
}

/// Bits of any kind; numbers near those at which a half rounds, and near the limits of integers;
/// small integers.
fn wide_value(random: &mut Random, bytes: u32) -> Vec<u8> {
    let near = random.within(-2, 3);
    let half = random.next() as u32;
    let single = (half & 0x8000_0000) | ((half >> 3 & 0x0FFF_F000).wrapping_add(0x3700_0000));
    let power = 2f32.powi(random.within(-2, 67) as i32) * if half & 1 == 0 { 1.0 } else { -1.0 };
    let value = match (random.within(0, 5), bytes) {
        (0, 4) => u64::from(single.wrapping_add(near as u32)),
        (0, 8) => (f64::from(f32::from_bits(single)).to_bits()).wrapping_add(near as u64),
        (4, 4) => u64::from(power.to_bits().wrapping_add(near as u32)),
        (4, 8) => f64::from(power).to_bits().wrapping_add(near as u64),
        (1, _) => random.within(-70_000, 70_000) as u64,
        (2, _) => (1u64 << random.within(0, 64)).wrapping_add(near as u64),
        _ => random.next(),
    };
    let mut content = value.to_le_bytes().to_vec();
    content.resize(bytes as usize, random.next() as u8);
    content
}

#[test]
fn long_rows_of_any_alignment_give_the_bytes_of_the_host_path() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x1357_9BDF_0246_8ACE);
    for number in 0..60 {
        let (source, bytes, target) = random.choice(&[
            (Dtype::U16, 2, Dtype::F32),
            (Dtype::U8, 1, Dtype::Bf16),
            (Dtype::U16, 2, Dtype::U16),
            (Dtype::U8, 1, Dtype::U8),
            (Dtype::F32, 4, Dtype::F16),
        ]);
        let shape = [3, 2, 20_000 + random.within(0, 20) as u64];
        let mut record = record(&shape, &shape, (source, bytes), &[0, 1, 2]);
        record.byte_order = random.choice(&[ByteOrder::Little, ByteOrder::Big]);
        let first = random.within(0, 40);
        let length = shape[2] as i64 - 40 - random.within(0, 9);
        let begins = vec![vec![0, 0, first], vec![1, 0, first + 1]];
        let case = Case::new(record, target, begins, vec![2, 2, length], PadMode::None);
        case.told(&mut random).check(sim, &|| describe(number, &case));
    }
}

/// Rows of `length` elements of two boxes, which the border of a chunk cuts.
fn cut_rows((source, bytes, target): (Dtype, u32, Dtype), length: i64, cut: u64) -> Case {
    let record = record(&[5, 120], &[5, cut], (source, bytes), &[0, 1]);
    let begins = vec![vec![0, 0], vec![1, cut as i64 - 1]];
    Case::new(record, target, begins, vec![4, length], PadMode::Constant)
}

#[test]
fn rows_cut_at_every_place_give_the_bytes_of_the_host_path() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x0123_4567_89AB_CDEF);
    let pairs = [
        (Dtype::U16, 2, Dtype::F32),
        (Dtype::U8, 1, Dtype::F32),
        (Dtype::I16, 2, Dtype::F16),
        (Dtype::F32, 4, Dtype::Bf16),
        (Dtype::U16, 2, Dtype::U16),
        (Dtype::U8, 1, Dtype::U8),
        (Dtype::F64, 8, Dtype::F64),
    ];
    for pair in pairs {
        // Rows that begin at one place of their vectors, and at different ones.
        for (length, cut) in (1..=40).flat_map(|cut| [(64, cut), (61, cut)]) {
            let mut case = cut_rows(pair, length, cut);
            case.told(&mut random).check(sim, &|| describe(cut, &case));
            case.filter = random.choice(&[Filter::Bytes, Filter::Bits]);
            case.typesize = pair.1 as usize;
            case.block_bytes = random.choice(&[16, 40, 1024]) * case.typesize;
            case.told(&mut random).check(sim, &|| describe(cut, &case));
        }
    }
}

/// Planes of short rows of U16 to F32, of which most vectors are read from multiples of 8: tiles
/// begin and end within rows, rows within vectors, and runs with planes.
fn u16_planes(random: &mut Random) -> Case {
    let chunk = [1, 9, 120, 4 * random.within(5, 40) as u64];
    // The array ends within the last chunk, and padding goes on from there.
    let shape = [1, 9, 120, 2 * chunk[3] - random.within(0, 4) as u64];
    let record = record(&shape, &chunk, (Dtype::U16, 2), &[0, 1, 2, 3]);
    let columns = 4 * random.within(3, 2 * chunk[3] as i64 / 4 - 1);
    let limit = 2 * chunk[3] as i64 - columns;
    let first = |random: &mut Random| match random.one_in(3) {
        true => random.within(0, limit),
        false => 4 * random.within(0, limit / 4),
    };
    let begins = (0..2).map(|_| vec![0, random.within(0, 3), random.within(0, 9), first(random)]);
    let begins = begins.collect();
    Case::new(record, Dtype::F32, begins, vec![1, 6, 111, columns], PadMode::Constant)
}

/// The same of one row, whose last vector nothing behind it writes anew.
fn u16_row(random: &mut Random) -> Case {
    let record = record(&[30_000], &[30_000], (Dtype::U16, 2), &[0]);
    let length = 4 * random.within(250, 5_000) + random.within(1, 4);
    let first = 4 * random.within(0, 40);
    Case::new(record, Dtype::F32, vec![vec![first]], vec![length], PadMode::None)
}

#[test]
fn planes_of_aligned_u16_rows_give_the_bytes_of_the_host_path() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x0F0F_1234_8765_F0F0);
    for number in 0..80 {
        let case = if number < 60 { u16_planes(&mut random) } else { u16_row(&mut random) };
        case.told(&mut random).check(sim, &|| describe(number, &case));
    }
}

#[test]
fn rank_16_is_written_like_any_other() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(7);
    // No two axes can be made one.
    let order: Vec<usize> = (0..16).rev().collect();
    let record = record(&[2; 16], &[2; 16], (Dtype::U8, 1), &order);
    let sample: Vec<i64> = (0..16).map(|axis| if axis % 5 == 0 { 1 } else { 2 }).collect();
    let case = Case::new(record, Dtype::F32, vec![vec![0; 16]], sample, PadMode::None);
    let told = case.told(&mut random);
    assert!(units(&told.wave).any(|unit| unit.axis_count == 12));
    told.check(sim, &|| describe(0, &case));
}

/// Waves with one unit that reads a byte less than it needs, or outside the wave's data; what comes
/// out without that unit; its number.
fn planted(random: &mut Random, count: usize) -> Vec<(Told, u32)> {
    let mut planted = Vec::new();
    while planted.len() < count {
        let Told { mut wave, mut expected } = Case::random(random).told(random);
        let numbers: Vec<usize> = (0..wave.records.len())
            .filter(|number| matches!(&wave.records[*number], Record::Unit(u) if u.is_fill == 0))
            .collect();
        if numbers.is_empty() {
            continue;
        }
        let number = random.choice(&numbers);
        let units_at = (wave.data.len() as u64).div_ceil(512) * 512;
        let Record::Unit(unit) = &mut wave.records[number] else { continue };
        if unit.folded != 0 {
            continue;
        }
        let (low, high) = reads(&alone(*unit));
        let (plain_low, _) = reads(&alone(Unit { filter: 0, ..*unit }));
        match random.within(0, 5) {
            0 => unit.data_bytes = high - unit.data_first - 1,
            1 => {
                unit.data_bytes -= low + 1 - unit.data_first;
                unit.data_first = low + 1;
            }
            2 => unit.data = units_at - unit.data_bytes + 1,
            // One byte before the first that is there, which may be before 0.
            3 => {
                let first = unit.data_first.wrapping_sub(1);
                unit.source = (unit.source - plain_low).wrapping_add(first);
            }
            _ => unit.axes[0].source_step = i64::MAX - random.within(0, 3),
        }
        // A single element, and one more step of none, go nowhere.
        if unit.axes[0].length == 1 && unit.axes[0].source_step > i64::MAX - 3 {
            continue;
        }
        expected.fill(POISON);
        planted.push((Told { wave, expected }, number as u32));
    }
    planted
}

#[test]
fn a_unit_that_would_read_outside_its_data_writes_nothing_and_is_named() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x2222_3333_4444_5555);
    for (told, number) in planted(&mut random, 100) {
        // All that the others write, by the same kernel without the bad one.
        let mut others = told.wave.clone();
        let mut expected = Aligned::new(told.expected.len(), POISON);
        if let Record::Unit(unit) = &mut others.records[number as usize] {
            unit.elements = 0;
            unit.axes[0].length = 1;
        }
        sim.assemble(&others.bytes(expected.as_mut_ptr() as u64), 0);
        let mut target = Aligned::new(expected.len(), POISON);
        for order in ORDERS {
            target.fill(POISON);
            let status = sim.assemble(&told.wave.bytes(target.as_ptr() as u64), order);
            assert_eq!(refused_unit(status), Some(number), "{:?}", told.wave.records.len());
            assert!(target[..] == expected[..]);
        }
    }
}

#[test]
fn of_several_refused_units_the_lowest_is_named() {
    let Some(sim) = Sim::get() else { return };
    let record = record(&[6, 40], &[2, 40], (Dtype::U16, 2), &[0, 1]);
    let case = Case::new(record, Dtype::F32, vec![vec![0, 0]], vec![6, 40], PadMode::None);
    let Told { mut wave, expected } = case.told_of(&Random(99).bytes(160));
    for number in [1, 2] {
        let Record::Unit(unit) = &mut wave.records[number] else { panic!() };
        unit.data_bytes -= 1 + unit.data_bytes / 2;
    }
    let target = Aligned::new(expected.len(), POISON);
    for order in ORDERS {
        let status = sim.assemble(&wave.bytes(target.as_ptr() as u64), order);
        assert_eq!(refused_unit(status), Some(1));
    }
    assert_eq!(refused_unit(0), None);
}

#[test]
fn the_kernels_see_the_records_where_the_library_puts_them() {
    let Some(sim) = Sim::get() else { return };
    let places = [
        offset_of!(Unit, data),
        offset_of!(Unit, data_first),
        offset_of!(Unit, data_bytes),
        offset_of!(Unit, source),
        offset_of!(Unit, target),
        offset_of!(Unit, elements),
        offset_of!(Unit, chunk_bytes),
        offset_of!(Unit, filter_block_bytes),
        offset_of!(Unit, filter_typesize),
        offset_of!(Unit, filter),
        offset_of!(Unit, axis_count),
        offset_of!(Unit, source_dtype),
        offset_of!(Unit, target_dtype),
        offset_of!(Unit, source_bytes),
        offset_of!(Unit, target_bytes),
        offset_of!(Unit, word_bytes),
        offset_of!(Unit, is_fill),
        offset_of!(Unit, folded),
        offset_of!(Unit, reflects),
        offset_of!(Unit, path),
        offset_of!(Unit, vector_elements),
        offset_of!(Unit, is_absolute),
        offset_of!(Unit, change_records),
        offset_of!(Unit, change_rank),
        offset_of!(Unit, fill),
        offset_of!(Unit, row_vectors),
        offset_of!(Unit, place),
        offset_of!(Unit, axes),
        offset_of!(UnitAxis, length),
        offset_of!(UnitAxis, source_step),
        offset_of!(UnitAxis, target_step),
        offset_of!(Fold, begin),
        offset_of!(Fold, extent),
        offset_of!(Fold, first),
        offset_of!(Fold, limit),
        // A span of wavetrain_copy is three numbers.
        0,
        8,
        16,
        TILE_VECTORS as usize,
        TILE_THREADS as usize,
        RECORD_BYTES,
        // Threads of a block of wavetrain_digest, of a warp, and bytes that a warp reads.
        256,
        32,
        PART_BYTES as usize,
    ];
    for (number, place) in places.iter().enumerate() {
        assert_eq!(sim.place(number as u32), *place as u64, "number {number}");
    }
    assert_eq!(sim.place(places.len() as u32), u64::MAX);
}

#[test]
fn a_unit_has_as_many_tiles_as_its_vectors_fill() {
    let mut random = Random(0x7777_1111_2222_3333);
    let mut uneven = 0;
    for number in 0..500 {
        let case = Case::random(&mut random);
        for unit in units(&case.told(&mut random).wave) {
            let size = u64::from(unit.vector_elements);
            let (length, axes) = (unit.axes[0].length, usize::from(unit.axis_count));
            // Vectors that each row touches, when vectors begin at multiples of 16 bytes.
            let mut most = 0;
            let rows: u64 = unit.axes[1..axes].iter().map(|axis| axis.length).product();
            for row in 0..rows {
                let (mut left, mut target) = (row, unit.target);
                for axis in &unit.axes[1..axes] {
                    target += left % axis.length * axis.target_step;
                    left /= axis.length;
                }
                let before = match size {
                    1 => 0,
                    _ => target % 16 / u64::from(unit.target_bytes),
                };
                most = most.max((before + length).div_ceil(size));
            }
            uneven += u64::from(most < unit.row_vectors);
            assert!(most <= unit.row_vectors, "{}", describe(number, &case));
            assert!(unit.row_vectors <= most + 1, "{}", describe(number, &case));
            assert_eq!(unit.elements, rows * length);
            assert_eq!(unit.tile_count(), (rows * unit.row_vectors).div_ceil(TILE_VECTORS));
        }
    }
    assert!(uneven > 0);
}

#[test]
fn aligned_rows_have_no_vector_too_many() {
    let record = record(&[64, 64], &[64, 64], (Dtype::U16, 2), &[0, 1]);
    let case = Case::new(record, Dtype::F32, vec![vec![0, 0]], vec![64, 64], PadMode::None);
    let told = case.told(&mut Random(1));
    let unit = units(&told.wave).find(|unit| unit.is_fill == 0).unwrap();
    // The whole chunk is one row.
    assert_eq!((unit.path, unit.axis_count, unit.row_vectors), (Path::F32 as u8, 1, 1024));
    assert_eq!(unit.tile_count(), 1);
}

#[test]
fn copies_at_any_alignment_are_exact() {
    let Some(sim) = Sim::get() else { return };
    let mut random = Random(0x5A5A_1234_8888_7777);
    let source = random.bytes(1 << 20);
    for _ in 0..40 {
        let mut expected = Aligned::new(1 << 20, POISON);
        let mut target = Aligned::new(1 << 20, POISON);
        let (mut spans, mut end) = (Vec::new(), 0);
        let longest = random.choice(&[40, 3000, 100_000]);
        for _ in 0..8 {
            let bytes = random.within(0, longest) as usize;
            let from = random.within(8, (1 << 20) - longest - 8) as usize;
            let to = end + random.within(0, 40) as usize;
            end = to + bytes;
            expected[to..end].copy_from_slice(&source[from..from + bytes]);
            let base = [source.as_ptr() as u64, target.as_ptr() as u64];
            spans.push([base[0] + from as u64, base[1] + to as u64, bytes as u64]);
        }
        let blocks = copy_blocks(spans.iter().map(|span| span[2]).max().unwrap());
        for order in ORDERS {
            target.fill(POISON);
            sim.copy(&spans, blocks.min(3), order);
            assert!(target[..] == expected[..]);
        }
    }
}

/// Jobs that must come out right, and some whose planted unit must be refused.
fn jobs(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let told = Case::random(random).told(random);
        // A sanitizer takes a thousand times as long as a kernel.
        if told.expected.len() < 100_000 && told.wave.data.len() < 100_000 {
            jobs.push(told.wave.job(&told.expected, 0));
        }
    }
    jobs
}

/// A wave whose one unit reads two words behind its data.
fn reads_behind() -> Vec<u8> {
    let record = record(&[64], &[64], (Dtype::U16, 2), &[0]);
    let case = Case::new(record, Dtype::F32, vec![vec![0]], vec![64], PadMode::None);
    let Told { mut wave, expected } = case.told_of(&Random(3).bytes(128));
    let Record::Unit(unit) = &mut wave.records[0] else { panic!() };
    assert_eq!(unit.path, Path::F32 as u8);
    unit.data_bytes -= 8;
    let untouched = vec![POISON; expected.len()];
    wave.records.truncate(1);
    wave.job(&untouched, !0)
}

#[test]
fn no_kernel_reads_outside_the_data_of_its_units() {
    let flags = ["-O1", "-DSIM_PROGRAM", "-fsanitize=address,undefined"];
    let Some(program) = compiled("assemble_asan", &flags) else { return };
    let mut jobs = jobs(&mut Random(0x4444_0000_1111_2222), 40);
    jobs.push(reads_behind());
    run_jobs(&program, &jobs).unwrap();
}

#[test]
fn without_the_check_of_units_address_sanitizer_names_the_line_that_reads() {
    let flags = ["-O1", "-DSIM_PROGRAM", "-fsanitize=address,undefined", "-DWAVETRAIN_MUTATE_1"];
    let Some(program) = compiled("assemble_asan_mutated", &flags) else { return };
    let report = run_jobs(&program, &[reads_behind()]).unwrap_err();
    assert!(report.contains("use-after-poison"), "{report}");
    assert!(report.contains("kernels/common.cuh:") && report.contains("kernels/assemble.cu:"));
}

#[test]
fn a_vector_that_its_row_cuts_is_not_read_where_its_unit_may_not() {
    let flags = ["-O1", "-DSIM_PROGRAM", "-fsanitize=address,undefined"];
    let mut random = Random(0x5555_0000_6666_1111);
    let rows = |length| cut_rows((Dtype::F32, 4, Dtype::F32), length, 7).told(&mut random);
    let jobs: Vec<_> =
        [64, 61].map(rows).iter().map(|told| told.wave.job(&told.expected, 0)).collect();
    let Some(program) = compiled("assemble_asan", &flags) else { return };
    run_jobs(&program, &jobs).unwrap();
    let flags = [&flags[..], &["-DWAVETRAIN_MUTATE_10"]].concat();
    let Some(program) = compiled("assemble_asan_cut", &flags) else { return };
    let report = run_jobs(&program, &jobs).unwrap_err();
    assert!(report.contains("use-after-poison"), "{report}");
}

#[test]
fn every_barrier_and_guard_of_the_kernel_is_needed() {
    for mutation in effort::part(2..=8, 1) {
        let name = format!("assemble_mutated_{mutation}");
        let define = format!("-DWAVETRAIN_MUTATE_{mutation}");
        let Some(program) = compiled(&name, &["-O0", "-DSIM_PROGRAM", "-w", &define]) else {
            return;
        };
        let mut random = Random(0x4444_0000_1111_2222);
        let mut jobs = jobs(&mut random, 60);
        for number in 0..16 {
            let make = if number % 2 == 0 { u16_planes } else { u16_row };
            let told = make(&mut random).told(&mut random);
            jobs.push(told.wave.job(&told.expected, 0));
        }
        assert!(run_jobs(&program, &jobs).is_err(), "mutation {mutation} made no difference");
    }
}
