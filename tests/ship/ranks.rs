//! examples/parallel_load.*: four ranks load a folder of numbered .npy files, each the rows that
//! are its own, under mpirun where there is one and as four processes that only have RANK and
//! WORLD_SIZE.

use crate::common::pack::example;
use crate::common::{cc, header};
use crate::examples::{has_open_mpi, mpirun_with};
use crate::python::{python, shared_library};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RANKS: u32 = 4;
/// Elements of a row.
const ROW: usize = 7;
/// Rows of each file: many, none, one; more than ten files.
const ROWS: [usize; 13] = [31, 0, 1, 400, 2, 17, 0, 0, 55, 1, 260, 3, 88];

/// A .npy file of u16 rows.
fn npy(rows: usize, elements: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({rows}, {ROW}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(elements);
    file
}

/// A folder of numbered files, and the bytes of all of their rows.
fn write_files(name: &str) -> (PathBuf, Vec<u8>) {
    let folder = cc::folder(name);
    let (mut all, mut state) = (Vec::new(), 7u64);
    for (number, rows) in ROWS.into_iter().enumerate() {
        let first = all.len();
        for _ in 0..rows * ROW {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            all.extend_from_slice(&((state >> 40) as u16).to_le_bytes());
        }
        fs::write(folder.join(format!("shard_{number:04}.npy")), npy(rows, &all[first..])).unwrap();
    }
    (folder, all)
}

/// Variables that launchers set.
const LAUNCHED: [&str; 12] = [
    "RANK",
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
];

/// A program and what it is called with; a launcher adds who it is.
struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// What it prints of the bytes of a tile.
    check: fn(&[u8]) -> u64,
    word: &'static str,
}

impl Program {
    /// As rank `rank`, which only two variables of the environment tell.
    fn run_as(&self, rank: u32) -> Output {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).envs(self.environment.clone());
        for name in LAUNCHED {
            command.env_remove(name);
        }
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
        command.output().unwrap()
    }

    /// As launchers set it, one inside of the other.
    fn run_in(&self, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).envs(self.environment.clone());
        for name in LAUNCHED {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied()).output().unwrap()
    }

    fn run_all(&self) -> String {
        let outputs = (0..RANKS).map(|rank| {
            let output = self.run_as(rank);
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {complaint}", output.status);
            String::from_utf8(output.stdout).unwrap()
        });
        outputs.collect()
    }

    fn mpirun(&self) -> String {
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        mpirun_with(&environment, &self.path, RANKS, &arguments)
    }

    /// Every row is in one tile, the tiles are dealt in turn, and each holds what the files hold.
    fn check(&self, output: &str, all: &[u8], per_rank: usize) {
        let row_bytes = 2 * ROW;
        let rows = all.len() / row_bytes;
        let tile = rows.div_ceil(RANKS as usize * per_rank);
        let mut lines: Vec<&str> = output.lines().collect();
        lines.sort_by_key(|line| {
            let word = line.split_whitespace().nth(3).unwrap();
            word.parse::<usize>().unwrap()
        });
        let wanted: Vec<String> = (0..rows)
            .step_by(tile)
            .zip(0..)
            .map(|(first, number)| {
                let last = (first + tile).min(rows);
                let check = (self.check)(&all[first * row_bytes..last * row_bytes]);
                let (rank, word) = (number % RANKS, self.word);
                format!("rank {rank}: rows {first} to {last}, {word} {check:x}")
            })
            .collect();
        assert_eq!(lines, wanted);
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn crc32(bytes: &[u8]) -> u64 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
    };
    u64::from(!bytes.iter().fold(!0, step))
}

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

fn in_cpp(folder: &Path) -> Option<Program> {
    let path = example("parallel_load", &[])?;
    let (arguments, environment) = (vec![text_of(folder)], Vec::new());
    Some(Program { path, arguments, environment, check: fnv, word: "hash" })
}

fn in_python(folder: &Path, per_rank: usize) -> Option<Program> {
    let mut looks = python()?;
    if !looks.args(["-c", "import numpy"]).output().unwrap().status.success() {
        println!("skipped: python3 has no numpy");
        return None;
    }
    let library = shared_library()?;
    let example = text_of(&header::root().join("examples/parallel_load.py"));
    let strict = ["-B", "-X", "dev", "-W", "error"].map(str::to_string);
    let own = [example, text_of(folder), per_rank.to_string()];
    let package = text_of(&header::root().join("python"));
    Some(Program {
        path: PathBuf::from(looks.get_program() as &OsStr),
        arguments: [&strict[..], &own[..]].concat(),
        environment: vec![("PYTHONPATH", package), ("WAVETRAIN_LIBRARY", text_of(library))],
        check: crc32,
        word: "crc",
    })
}

/// The innermost launcher says who a rank is; half of it, and a script that srun did not start, are
/// an error, and nothing is loaded.
fn check_launchers(program: &Program) {
    let torchrun = [("RANK", "3"), ("WORLD_SIZE", "4")];
    let mpirun = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
    let step = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
    let of_rank = |environment: &[&[(&str, &str)]], rank: u32| {
        let output = program.run_in(&environment.concat());
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{environment:?}: {complaint}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, String::from_utf8(program.run_as(rank).stdout).unwrap());
    };
    of_rank(&[&batch, &step], 0);
    of_rank(&[&batch, &step, &torchrun], 3);
    of_rank(&[&batch, &mpirun], 1);
    of_rank(&[&mpirun, &torchrun], 3);
    of_rank(&[&[("PMI_RANK", "2"), ("PMI_SIZE", "4")], &batch], 2);
    of_rank(&[&[("MV2_COMM_WORLD_RANK", "2"), ("MV2_COMM_WORLD_SIZE", "4")]], 2);
    let refused: [(&[(&str, &str)], &str); 8] = [
        (&torchrun[..1], "WORLD_SIZE"),
        (&torchrun[1..], "RANK"),
        (&mpirun[..1], "OMPI_COMM_WORLD_SIZE"),
        (&[mpirun[0], torchrun[1]], "RANK"),
        (&[("RANK", "4"), ("WORLD_SIZE", "4")], "RANK"),
        (&[("RANK", "one"), ("WORLD_SIZE", "4")], "RANK"),
        (&batch, "srun"),
        (&[batch[0], batch[1], ("SLURM_STEP_ID", "4294967291")], "srun"),
    ];
    for (environment, why) in refused {
        let output = program.run_in(environment);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{environment:?}");
        assert!(complaint.contains(why), "{environment:?}: {complaint}");
    }
}

/// Runs a program by both launchers, and on a folder that lacks a file.
fn check_program(program: &Program, folder: &Path, all: &[u8], per_rank: usize) {
    program.check(&program.run_all(), all, per_rank);
    check_launchers(program);
    if has_open_mpi() {
        program.check(&program.mpirun(), all, per_rank);
    }
    fs::remove_file(folder.join("shard_0005.npy")).unwrap();
    for rank in 0..RANKS {
        let output = program.run_as(rank);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{complaint}");
        assert!(complaint.contains("shard_0005.npy"), "{complaint}");
    }
}

#[test]
fn four_ranks_of_cpp_load_the_rows_of_ragged_files_each_its_own() {
    let (folder, all) = write_files("parallel-load-cpp");
    let Some(program) = in_cpp(&folder) else { return };
    check_program(&program, &folder, &all, 2);
}

#[test]
fn four_ranks_of_python_load_the_rows_of_ragged_files_each_its_own() {
    for per_rank in [1, 3] {
        let (folder, all) = write_files("parallel-load-python");
        let Some(program) = in_python(&folder, per_rank) else { return };
        check_program(&program, &folder, &all, per_rank);
    }
}
