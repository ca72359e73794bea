//! The programs in examples/ that need more than a C compiler: built as their first lines say, run
//! on stores that are made here, and their output compared with what the stores hold.
//!
//! What uses a GPU runs on the simulated driver. Python, torch, MPI or a C++ compiler may be
//! missing: what needs them skips, and says so.
//! examples/hello.c is run by tests/ship/archive.rs.

use crate::common::pack::{CUBE, archive, cube, example, run};
use crate::common::store::Spec;
use crate::common::{cc, cuda_sim, header, store};
use crate::python::python;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A number behind a word of a program's output.
fn number_behind(output: &str, word: &str) -> f64 {
    let rest = output.split_once(word).unwrap_or_else(|| panic!("no {word:?} in {output}")).1;
    let number = rest.split_whitespace().next().unwrap().trim_end_matches(',');
    number.parse().unwrap_or_else(|_| panic!("{number:?} behind {word:?} in {output}"))
}

/// Made once, because several tests share it; None where a tool is missing.
type Shared = OnceLock<Option<PathBuf>>;

// ---- trainer_libtorch.cpp -----------------------------------------------------------------------

/// Folders and flags of the torch that python3 imports: headers, libraries, "1" for the new ABI.
fn torch() -> Option<[String; 3]> {
    let mut command = python()?;
    let script = "import torch; from torch.utils import cmake_prefix_path as p; \
                  print(p + '/../..'); print(torch.__version__.split('+')[0]); \
                  print(int(torch.compiled_with_cxx11_abi()))";
    let output = command.args(["-c", script]).output().unwrap();
    if !output.status.success() {
        println!("skipped: python3 has no torch, so there is no libtorch");
        return None;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().map(str::to_string);
    Some(std::array::from_fn(|_| lines.next().unwrap()))
}

/// A smooth uint16 volume, uncompressed: a document, and a file for every 8 planes.
fn write_smooth_volume(folder: &Path) {
    let document = r#"{"zarr_format": 3, "node_type": "array", "shape": [48, 48, 48],
        "data_type": "uint16", "fill_value": 0, "chunk_key_encoding": {"name": "v2"},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 48, 48]}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    std::fs::write(folder.join("zarr.json"), document).unwrap();
    for file in 0..6 {
        let planes = store::places(48).map(|at| at.map(|i| i as f64));
        let voxels = planes.filter(|[z, _, _]| *z as u64 / 8 == file).flat_map(|[z, y, x]| {
            let height = 900.0 * (z / 4.0).sin() + 700.0 * (y / 5.0).cos() * (x / 3.0).sin();
            ((2000.0 + height) as u16).to_le_bytes()
        });
        std::fs::write(folder.join(format!("{file}.0.0")), voxels.collect::<Vec<u8>>()).unwrap();
    }
}

#[test]
fn libtorch_learns_from_tensors_that_are_the_slots_themselves() {
    let (Some(folder), Some([torch, version, abi])) = (archive(), torch()) else { return };
    let Some(compiler) = cc::find("C++ compiler", &["g++"]) else { return };
    let work = cc::folder("trainer-libtorch");
    let program = work.join("trainer");
    let libraries = format!("{torch}/lib");
    cc::run(
        Command::new(compiler)
            .args([if abi == "1" { "-std=c++20" } else { "-std=c++17" }, "-O1", "-Wall", "-Wextra"])
            .args(["-Werror", &format!("-D_GLIBCXX_USE_CXX11_ABI={abi}"), "-I"])
            .arg(folder)
            .args(["-isystem", &format!("{torch}/include")])
            .args(["-isystem", &format!("{torch}/include/torch/csrc/api/include")])
            .arg(header::root().join("examples/trainer_libtorch.cpp"))
            .arg(folder.join("libwavetrain.a"))
            .args([&format!("-L{libraries}"), &format!("-Wl,-rpath,{libraries}")])
            .args(["-Wl,--as-needed", "-ltorch", "-ltorch_cpu", "-lc10", "-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    let volume = work.join("volume");
    std::fs::create_dir(&volume).unwrap();
    write_smooth_volume(&volume);
    let output = run(&program, &[volume.to_str().unwrap(), "60"]);
    println!("libtorch {version}: {output}");
    let (first, last) = (number_behind(&output, "\nloss"), number_behind(&output, "->"));
    assert!(first > 0.5 && last < first / 2.0, "{output}");
}

// ---- external_source.cpp ------------------------------------------------------------------------

#[test]
fn external_source_gives_every_epoch_the_images_that_its_labels_name() {
    let Some(program) = example("external_source", &[]) else { return };
    let output = run(&program, &[]);
    let epoch = |number: u32| {
        let head = format!("epoch {number}: images of ");
        output.lines().filter_map(|line| line.strip_prefix(&head)).collect::<Vec<_>>()
    };
    assert_eq!(epoch(0), epoch(1));
    assert_eq!((epoch(0).len(), output.lines().count()), (5, 10), "{output}");
    for line in epoch(0) {
        let (images, mean) = line.split_once(", mean ").unwrap();
        let words: Vec<&str> = images.split_whitespace().collect();
        assert_eq!(words.len(), 8, "{line}");
        let mut covered = 0.0;
        for pair in words.chunks(2) {
            let pixels = ["(0)", "(1)", "(2)"].iter().position(|label| *label == pair[1]);
            let (shape, count) =
                [("48x64", 3072), ("64x48", 3072), ("32x32", 1024)][pixels.unwrap()];
            assert_eq!(pair[0], shape, "{line}");
            covered += f64::from(count) / (64.0 * 64.0 * 4.0);
        }
        // Bytes by chance where there is an image, zeros where there is none.
        let wanted = 127.5 * covered;
        assert!((mean.parse::<f64>().unwrap() - wanted).abs() < wanted * 0.03, "{line}");
    }
}

// ---- shared_writers.cpp -------------------------------------------------------------------------

#[test]
fn shared_writers_fill_every_batch_and_one_that_is_killed_is_an_error_behind_its_batches() {
    let Some(program) = example("shared_writers", &[]) else { return };
    assert_eq!(run(&program, &[]), "200 samples by 2 processes\n");
    let output = run(&program, &["101"]);
    let error = "sample 5 of batch 12 of epoch 0: the writer of this sample has died";
    assert_eq!(output, format!("after 96 samples: {error}\n96 samples by 2 processes\n"));
}

// ---- epochs.cpp ---------------------------------------------------------------------------------

#[test]
fn epochs_that_are_killed_again_and_again_give_the_batches_of_one_that_is_not() {
    let Some(program) = example("epochs", &[]) else { return };
    let work = program.parent().unwrap();
    let array = work.join("array");
    // 64 boxes, one of each chunk, of which each epoch has 8 batches.
    let spec = Spec { seed: 1, edge: 128, shard: 64, chunk: 32, zstd: true, sparse: false };
    store::write(&array, &spec);
    let state = |name: &str| work.join(name).to_str().unwrap().to_string();
    let (array, whole) = (array.to_str().unwrap(), state("whole"));
    let wanted = run(&program, &[array, &whole]);
    assert_eq!(wanted.lines().count(), 24, "{wanted}");
    for epoch in 0..3 {
        let head = format!("epoch {epoch}: ");
        let lines = wanted.lines().filter_map(|line| line.strip_prefix(&head));
        let of = lines.map(|line| line.split_once(" of ").unwrap().1);
        let mut boxes: Vec<u64> = of.flat_map(|tags| tags.split(' ')).map(parsed).collect();
        assert!(!boxes.is_sorted());
        boxes.sort_unstable();
        assert_eq!(boxes, (0..64).collect::<Vec<_>>(), "{wanted}");
    }
    let killed = state("killed");
    let mut output = String::new();
    for batches in ["1", "2", "9", "3", "100"] {
        output += &run(&program, &[array, &killed, batches]);
    }
    assert_eq!(output, wanted);
    // What was left at the end is the end.
    assert_eq!(run(&program, &[array, &killed]), "");
    // A state that is none, or of another order, is refused.
    std::fs::write(&killed, [7; 32]).unwrap();
    let refused = Command::new(&program).args([array, &killed]).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(
        (refused.status.code(), text.as_str()),
        (Some(1), "the checkpoint is of another run\n")
    );
}

// ---- node.cpp -----------------------------------------------------------------------------------

#[test]
fn the_processes_of_a_node_take_each_sample_once_and_end_with_an_owner_that_fails() {
    let Some(program) = example("node", &[]) else { return };
    let output = run(&program, &[&cube("node-example"), "3"]);
    let lines: Vec<&str> = output.lines().collect();
    // 25 batches of 4, in turn.
    let consumers = ["consumer 0: 36 samples", "consumer 1: 32 samples", "consumer 2: 32 samples"];
    assert_eq!((&lines[..3], lines[3]), (&consumers[..], "100 samples, each once"));
    // Consumers would wait for their owner for a minute; all of them have the pipe of this output.
    let begin = Instant::now();
    let failed = Command::new(&program).args(["/absent/array", "3"]).output().unwrap();
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.code() == Some(1) && text.contains("/absent/array"), "{text}");
    assert!(failed.stdout.is_empty() && begin.elapsed() < Duration::from_secs(30), "{failed:?}");
}

fn parsed(number: &str) -> u64 {
    number.parse().unwrap()
}

#[test]
fn examples_of_new_users_have_less_than_40_lines_of_code() {
    for name in [
        "affine_volume.py",
        "cifar_recipe.py",
        "epochs.py",
        "external_source.cpp",
        "external_source.py",
        "netcl_dataset.py",
        "netcl_loop.py",
        "netcl_shm.py",
        "parallel_load.cpp",
        "parallel_load.py",
    ] {
        let text = std::fs::read_to_string(header::root().join("examples").join(name)).unwrap();
        // Documents of Python stand between the same three marks.
        let parts = text.split("\"\"\"").enumerate().filter(|(number, _)| number % 2 == 0);
        let code = parts.flat_map(|(_, part)| part.lines()).map(str::trim).filter(|line| {
            !line.is_empty() && !["#", "/*", "*"].iter().any(|mark| line.starts_with(mark))
        });
        let count = code.count();
        assert!((10..40).contains(&count), "{name}: {count}");
    }
}

// ---- mpi_tiles.cpp ------------------------------------------------------------------------------

/// The program, or None where there is no OpenMPI.
fn mpi_program() -> Option<&'static Path> {
    static PROGRAM: Shared = OnceLock::new();
    PROGRAM.get_or_init(|| mpi_build("mpicxx", "-std=c++17", "mpi_tiles.cpp")).as_deref()
}

/// An example of MPI, compiled.
fn mpi_build(compiler: &str, standard: &str, source: &str) -> Option<PathBuf> {
    let (folder, compiler) = (archive()?, cc::find("MPI compiler", &[compiler])?);
    if !has_open_mpi() {
        return None;
    }
    let program = cc::folder(&format!("program-{source}")).join("program");
    cc::run(
        Command::new(compiler)
            .args([standard, "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion"])
            .args(["-Werror", "-I"])
            .arg(folder)
            .arg(header::root().join("examples").join(source))
            .arg(folder.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    Some(program)
}

/// Whether mpirun is here, and is the one whose options are known.
pub fn has_open_mpi() -> bool {
    let Some(mpirun) = cc::find("MPI launcher", &["mpirun"]) else { return false };
    let is_known = cc::run(Command::new(mpirun).arg("--version")).contains("Open MPI");
    if !is_known {
        println!("skipped: mpirun is not OpenMPI's, whose options the test knows");
    }
    is_known
}

/// What rank 0 printed.
fn mpirun(program: &Path, ranks: u32, arguments: &[&str]) -> String {
    mpirun_with(&[], program, ranks, arguments)
}

/// The same with variables of the environment.
pub fn mpirun_with(
    environment: &[(&str, &str)],
    program: &Path,
    ranks: u32,
    arguments: &[&str],
) -> String {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let mut command = Command::new("mpirun");
    command.envs(environment.iter().copied());
    // Each has a folder of its own: two that make or remove the same one at a time fail. Its path
    // is short, because sockets lie in it.
    let number = RUNS.fetch_add(1, SeqCst);
    let place = std::env::temp_dir().join(format!("mpi-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    command.env("TMPDIR", &place);
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]);
    // A container may forbid what this transport asks of the kernel; it only costs a copy.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    // Each rank writes to a file of its own: of what it forwards, mpirun mixes lines now and then.
    command.args(["sh", "-c", r#"exec "$0" "$@" > "$TMPDIR/out.$$""#]);
    let forwarded = cc::run(command.arg(program).args(arguments));
    let files = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
    let of_ranks = files.filter(|path| path.file_stem().is_some_and(|stem| stem == "out"));
    let texts: Vec<String> = of_ranks.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(texts.len(), ranks as usize, "{forwarded}");
    let output = texts.concat();
    let _ = std::fs::remove_dir_all(&place);
    println!("{ranks} ranks, {arguments:?}: {output}");
    output
}

fn checksum(output: &str) -> u64 {
    let digits = output.split_once("checksum ").unwrap().1.split_whitespace().next().unwrap();
    u64::from_str_radix(digits, 16).unwrap()
}

/// splitmix64, as in the program.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E3779B97F4A7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D049BB133111EB);
    x ^ (x >> 31)
}

fn hash_element(place: u64, element: u16) -> u64 {
    mix(place.wrapping_add(mix(u64::from(element).wrapping_add(mix(0)))))
}

/// What the sparse cube holds at a place.
fn element(at: [u64; 3]) -> u16 {
    let is_absent = store::shard_is_absent(at.map(|i| i / CUBE.shard))
        || store::chunk_is_absent(at.map(|i| i / CUBE.chunk));
    if is_absent { store::FILL } else { store::value(CUBE.seed, at) }
}

#[test]
fn ranks_fill_one_window() {
    let Some(program) = mpi_build("mpicc", "-std=c11", "mpi_window.c") else { return };
    let cube = cube("mpi-window");
    let elements = store::places(CUBE.edge).map(element);
    let sum = (1..).zip(elements).map(|(place, element): (u64, u16)| place * u64::from(element));
    let sum = sum.fold(0, u64::wrapping_add);
    // The cube has four shards along its first axis: a fifth rank has nothing to do.
    for ranks in [1, 3, 5] {
        let output = mpirun(&program, ranks, &[&cube]);
        let edge = CUBE.edge;
        assert!(output.contains(&format!("{edge}x{edge}x{edge} by {ranks} ranks")), "{output}");
        assert_eq!(checksum(&output), sum);
    }
}

#[test]
fn tiles_of_all_ranks_are_every_voxel_once() {
    let Some(program) = mpi_program() else { return };
    let cube = cube("mpi-tiles");
    let expected = store::places(CUBE.edge).zip(0..).map(|(at, i)| hash_element(i, element(at)));
    let expected = expected.fold(0, u64::wrapping_add);
    // Three ranks do not divide the cube's four shards along each axis.
    for ranks in [1, 2, 3, 4] {
        let output = mpirun(program, ranks, &["tiles", &cube, "verify=1"]);
        assert_eq!(number_behind(&output, "ranks:") as u64, CUBE.edge.pow(3));
        assert_eq!(checksum(&output), expected);
        assert!(output.contains("one rank alone: the same"));
        let shares: Vec<u64> = (0..ranks)
            .map(|rank| number_behind(&output, &format!("rank {rank}:")) as u64)
            .collect();
        assert_eq!(shares.iter().sum::<u64>(), CUBE.edge.pow(3));
        assert!(shares.iter().all(|&share| share > 0), "{shares:?}");
    }
}

#[test]
fn ranks_beyond_the_chunks_have_empty_tiles() {
    let Some(program) = mpi_program() else { return };
    let array = cc::folder("store-mpi-empty").join("chunk");
    store::write(&array, &Spec { seed: 1, edge: 8, shard: 8, chunk: 8, zstd: true, sparse: false });
    let output = mpirun(program, 3, &["tiles", array.to_str().unwrap(), "verify=1"]);
    let expected = store::places(8).zip(0..).map(|(at, i)| hash_element(i, store::value(1, at)));
    assert_eq!(checksum(&output), expected.fold(0, u64::wrapping_add));
    let shares = (0..3).map(|rank| number_behind(&output, &format!("rank {rank}:")) as u64);
    assert_eq!(shares.filter(|&share| share == 0).count(), 2, "{output}");
}

#[test]
fn each_rank_takes_a_device_of_its_machine_or_the_host() {
    let Some(program) = mpi_program() else { return };
    let Some(driver) = cuda_sim::library() else { return };
    let (cube, driver) = (cube("mpi-devices"), format!("driver={}", driver.display()));
    let expected = store::places(CUBE.edge).zip(0..).map(|(at, i)| hash_element(i, element(at)));
    let expected = expected.fold(0, u64::wrapping_add);
    let (two, second) = (("SIMCUDA_DEVICES", "2"), ("LOCAL_RANK", "1"));
    for (environment, places) in [
        (&[two][..], ["CUDA device 0", "CUDA device 1", "CUDA device 0"]),
        (&[two, second], ["CUDA device 1"; 3]),
        (&[("SIMCUDA_DEVICES", "0")], ["the host"; 3]),
        // Too old for the library.
        (&[("SIMCUDA_CAPABILITY", "75")], ["the host"; 3]),
    ] {
        let arguments = ["tiles", &cube, &driver, "verify=1"];
        let output = mpirun_with(environment, program, 3, &arguments);
        assert_eq!(checksum(&output), expected);
        for (rank, place) in places.iter().enumerate() {
            let line = output.lines().find(|line| line.starts_with(&format!("rank {rank}: ")));
            assert!(line.unwrap().ends_with(&format!(" voxels, on {place}")), "{output}");
        }
    }
    let list = ["samples", &cube, &driver, "samples=50", "batch=16", "edge=6", "seed=7"];
    let output = mpirun_with(&[two], program, 4, &list);
    assert_eq!(checksum(&output), samples_checksum(50, 6, 7, 2));
}

/// The checksum of whole epochs of mode samples: the order does not matter to it.
fn samples_checksum(samples: u64, edge: u64, seed: u64, epochs: u64) -> u64 {
    let mut sum = 0u64;
    for tag in 0..samples * epochs {
        let number = tag % samples;
        let begin: [u64; 3] = std::array::from_fn(|axis| {
            let draw = mix(seed.wrapping_add(mix(number * 16 + axis as u64)));
            draw % (CUBE.edge - edge + 1)
        });
        for (inner, i) in store::places(edge).zip(0..) {
            let at = std::array::from_fn(|axis| begin[axis] + inner[axis]);
            sum = sum.wrapping_add(hash_element(mix(tag).wrapping_add(i), element(at)));
        }
    }
    sum
}

#[test]
fn shares_of_all_ranks_are_the_list_of_samples() {
    let Some(program) = mpi_program() else { return };
    let cube = cube("mpi-samples");
    // 50 entries are three steps of 16 and one of 2, of which four ranks get none, one, none, one.
    let list = ["samples", &cube, "samples=50", "batch=16", "edge=6", "seed=7", "epochs=3"];
    let expected = samples_checksum(50, 6, 7, 3);
    for (ranks, batches) in [(1, 12), (2, 24), (4, 42)] {
        let output = mpirun(program, ranks, &list);
        assert_eq!(number_behind(&output, "ranks:"), 150.0);
        assert_eq!(number_behind(&output, ", in") as u32, batches);
        assert_eq!(checksum(&output), expected);
    }
}

#[test]
fn a_run_goes_on_after_a_step_on_another_number_of_ranks() {
    let Some(program) = mpi_program() else { return };
    let cube = cube("mpi-resume");
    let list = ["samples", &cube, "samples=50", "batch=16", "edge=6", "seed=7", "epochs=3"];
    let mut from = Vec::new();
    let mut sum = 0u64;
    for (ranks, steps) in [(2, "6"), (4, "3"), (1, "0")] {
        let steps = format!("steps={steps}");
        let mut arguments = [&list[..], &[steps.as_str()]].concat();
        arguments.extend(from.iter().map(String::as_str));
        let output = mpirun(program, ranks, &arguments);
        sum = sum.wrapping_add(checksum(&output));
        let rest = output.split_once("go on with ").unwrap().1;
        from = rest.split_whitespace().map(str::to_string).collect();
    }
    assert_eq!(from, ["from_epoch=3", "from_step=0"]);
    assert_eq!(sum, samples_checksum(50, 6, 7, 3));
}

// ---- train_cuda.cpp -----------------------------------------------------------------------------

/// The program and the simulated driver, or None where there is no C++ compiler.
fn cuda_program() -> Option<(&'static Path, String)> {
    static PROGRAM: Shared = OnceLock::new();
    let made = PROGRAM.get_or_init(|| example("train_cuda", &[]));
    let driver = cuda_sim::library()?;
    Some((made.as_deref()?, format!("driver={}", driver.display())))
}

const TRAIN_CUDA_EDGE: u64 = 6;

/// The sum of all elements of the boxes that the program draws.
fn drawn_sum(samples: u64) -> u64 {
    let mut sum = 0;
    for number in 0..samples {
        let begin: [u64; 3] = std::array::from_fn(|axis| {
            mix(number * 16 + axis as u64) % (CUBE.edge - TRAIN_CUDA_EDGE + 1)
        });
        for inner in store::places(TRAIN_CUDA_EDGE) {
            let at = std::array::from_fn(|axis| begin[axis] + inner[axis]);
            sum += u64::from(element(at));
        }
    }
    sum
}

/// What the program says of 6 batches of 4 samples, with the simulator in a mode.
fn train_on_the_simulator(mode: &str, release: &str) -> Option<String> {
    let (program, driver) = cuda_program()?;
    let cube = cube(&format!("train-cuda-{mode}-{release}"));
    let output = Command::new(program)
        .args([&cube, &driver, &format!("release={release}"), "batches=6", "batch=4", "edge=6"])
        .args(["rounds=2", "blocks=2", "verify=1"])
        .env("SIMCUDA_MODE", mode)
        .env("SIMCUDA_REPORT", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{mode}, {release}: {text}");
    assert!(output.status.success(), "{}\n{text}{report}", output.status);
    assert!(report.contains("simcuda: 0 findings"), "{report}");
    assert!(report.contains("simcuda: 0 objects live"), "{report}");
    Some(text)
}

#[test]
fn train_cuda_sums_what_the_boxes_hold_whatever_overtakes_what() {
    for mode in ["eager", "jitter", "lazy"] {
        for release in ["event", "export"] {
            let Some(text) = train_on_the_simulator(mode, release) else { return };
            assert_eq!(number_behind(&text, "sum ") as u64, drawn_sum(24));
            assert!(text.contains("the host's sum is the same"), "{text}");
            assert!(text.starts_with("cuda: asked for by the config\n6 batches of 4"), "{text}");
            assert!(number_behind(&text, "s: ") > 0.0, "{text}");
            assert!(number_behind(&text, "then ") <= 100.0, "{text}");
        }
    }
}

#[test]
fn train_cuda_skips_where_there_is_no_driver_and_where_there_is_no_device() {
    let Some((program, driver)) = cuda_program() else { return };
    for (driver, settings, why) in [
        ("driver=/nowhere/libcuda.so.1", ("SIMCUDA_SEED", "1"), "there is no CUDA driver here"),
        (&driver, ("SIMCUDA_DEVICES", "0"), "there is no CUDA device here"),
    ] {
        let mut command = Command::new(program);
        command.args(["/nowhere/array", driver]).env(settings.0, settings.1);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(77), "{text}");
        assert!(text.starts_with("skipped: ") && text.contains(why), "{text}");
    }
}
