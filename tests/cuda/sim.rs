//! The project's kernels compiled for the CPU, and waves to run them on.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use wavetrain::assemble::units::{Piece, RECORD_BYTES, Unit};

use crate::cc;

/// In which order blocks and threads get their turns.
pub const ORDERS: [u32; 3] = [0, 1, 2];

type Assemble = unsafe extern "C" fn(*const u8, u64, u64, u32, *mut u32, u32, u32);
type Copy = unsafe extern "C" fn(*const c_void, u32, u32, u32);
type Digest = unsafe extern "C" fn(*const u8, u64, u64, u64, *mut u64, u32, u32);
type Place = unsafe extern "C" fn(u32) -> u64;
type Watch = unsafe extern "C" fn(*const [u64; 2], u32) -> u32;

/// The kernels as a library.
pub struct Sim {
    assemble: Assemble,
    copy: Copy,
    digest: Digest,
    place: Place,
    watch: Watch,
}

/// Compiles the kernels; None, with a reason, where there is no compiler.
pub fn compiled(name: &str, flags: &[&str]) -> Option<PathBuf> {
    cc::kernels(name, &[&["assemble_sim.cpp", name], flags].concat())
}

fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library stays loaded, and the name ends with a NUL.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null());
    found
}

impl Sim {
    /// The kernels as they are; None where there is no compiler.
    pub fn get() -> Option<&'static Sim> {
        static SIM: OnceLock<Option<Sim>> = OnceLock::new();
        SIM.get_or_init(|| Sim::with("assemble_sim.so", &[])).as_ref()
    }

    /// The kernels compiled with these flags.
    pub fn with(name: &str, flags: &[&str]) -> Option<Sim> {
        let path = compiled(name, &[&["-O1", "-shared", "-fPIC"], flags].concat())?;
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a library of ours, which does nothing when it is loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null());
        // SAFETY: the functions of assemble_sim.cpp have these types.
        unsafe {
            Some(Sim {
                assemble: std::mem::transmute::<*mut c_void, Assemble>(symbol(
                    library,
                    "sim_assemble",
                )),
                copy: std::mem::transmute::<*mut c_void, Copy>(symbol(library, "sim_copy")),
                digest: std::mem::transmute::<*mut c_void, Digest>(symbol(library, "sim_digest")),
                place: std::mem::transmute::<*mut c_void, Place>(symbol(library, "sim_place")),
                watch: std::mem::transmute::<*mut c_void, Watch>(symbol(library, "sim_watch")),
            })
        }
    }

    /// Does `work` and counts the loads of kernels near one of these ranges, {first, limit}, which
    /// are not inside of it.
    pub fn strays(&self, ranges: &[[u64; 2]], work: impl FnOnce()) -> u32 {
        // The library counts for one test at a time.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the ranges live until they are taken back.
        unsafe { (self.watch)(ranges.as_ptr(), ranges.len() as u32) };
        work();
        // SAFETY: of none nothing is read.
        unsafe { (self.watch)(std::ptr::null(), 0) }
    }

    /// Runs a wave; the status word.
    pub fn assemble(&self, wave: &WaveBytes, order: u32) -> u32 {
        let mut status = 0;
        // SAFETY: the wave is as the kernel wants it, and its units point into memory of the test.
        unsafe {
            (self.assemble)(
                wave.bytes.as_ptr(),
                wave.units_at,
                wave.tiles_at,
                wave.unit_count,
                &mut status,
                wave.tiles,
                order,
            );
        }
        status
    }

    /// Copies spans of {source, target, bytes}, `blocks` thread blocks for each.
    pub fn copy(&self, spans: &[[u64; 3]], blocks: u32, order: u32) {
        // SAFETY: the spans lie in memory of the test, with room for whole words around them.
        unsafe { (self.copy)(spans.as_ptr().cast(), blocks, spans.len() as u32, order) };
    }

    /// Reads samples of so many bytes, which fill `data`; a share of each of their parts goes to
    /// `shares`. In `blocks` blocks.
    pub fn digest(
        &self,
        data: &[u8],
        (sample_bytes, parts): (u64, u64),
        shares: &mut [u64],
        (blocks, order): (u32, u32),
    ) {
        let count = data.len() as u64 / sample_bytes * parts;
        assert!(count <= shares.len() as u64);
        // SAFETY: the samples lie in memory of the test, with room for whole words around them.
        unsafe {
            let shares = shares.as_mut_ptr();
            (self.digest)(data.as_ptr(), sample_bytes, parts, count, shares, blocks, order);
        }
    }

    /// Number `number` of the list in assemble_sim.cpp.
    pub fn place(&self, number: u32) -> u64 {
        // SAFETY: it reads a table, whose end it knows.
        unsafe { (self.place)(number) }
    }
}

/// Bytes that begin at a multiple of 512.
pub struct Aligned {
    memory: Vec<u8>,
    skip: usize,
}

impl Aligned {
    /// `bytes` of them, all `value`.
    pub fn new(bytes: usize, value: u8) -> Aligned {
        let memory = vec![value; bytes + 512];
        let skip = memory.as_ptr().align_offset(512);
        Aligned { memory, skip }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.skip..self.memory.len() - 512 + self.skip]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        let end = self.memory.len() - 512 + self.skip;
        &mut self.memory[self.skip..end]
    }
}

/// A wave being filled: decoded bytes, then pieces.
#[derive(Clone, Default)]
pub struct Wave {
    /// Decoded bytes of all chunks.
    pub data: Vec<u8>,
    /// Units, and next to each what belongs to it.
    pub records: Vec<Record>,
}

/// A record of a wave.
#[derive(Clone, Copy)]
pub enum Record {
    /// A unit.
    Unit(Unit),
    /// A part of the unit before: its folds, words of its arithmetic.
    More([u8; RECORD_BYTES]),
}

/// A wave as it lies in device memory.
pub struct WaveBytes {
    /// All of it.
    pub bytes: Aligned,
    /// First byte of the records.
    pub units_at: u64,
    /// First byte of the table of tiles.
    pub tiles_at: u64,
    /// Number of records.
    pub unit_count: u32,
    /// Number of tiles.
    pub tiles: u32,
}

impl Wave {
    /// Puts bytes `skip` places behind what is there, and a gap behind them; where they begin.
    pub fn place(&mut self, bytes: &[u8], skip: usize) -> u64 {
        self.data.resize(self.data.len() + skip, 0xEE);
        let place = self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        self.data.resize(self.data.len().next_multiple_of(4) + 16, 0xEE);
        place
    }

    /// Adds a unit and what belongs to it; its number.
    pub fn add(&mut self, piece: &Piece<'_>) -> u32 {
        let number = self.records.len() as u32;
        self.records.push(Record::Unit(piece.unit));
        self.records.extend(piece.records().map(Record::More));
        number
    }

    /// The wave, with `base` added to all targets.
    pub fn bytes(&self, base: u64) -> WaveBytes {
        let units_at = (self.data.len() as u64).div_ceil(512) * 512;
        let tiles_at = units_at + (self.records.len() * RECORD_BYTES) as u64;
        let mut bytes = Aligned::new(tiles_at as usize + 4 * self.records.len() + 4, 0xEE);
        bytes[..self.data.len()].copy_from_slice(&self.data);
        let mut tiles = 0u32;
        for (number, record) in self.records.iter().enumerate() {
            bytes[tiles_at as usize + 4 * number..][..4].copy_from_slice(&tiles.to_ne_bytes());
            let content = match record {
                Record::Unit(unit) => {
                    tiles += u32::try_from(unit.tile_count()).unwrap();
                    Unit { target: unit.target + base, ..*unit }.to_bytes()
                }
                Record::More(content) => *content,
            };
            bytes[units_at as usize + number * RECORD_BYTES..][..RECORD_BYTES]
                .copy_from_slice(&content);
        }
        let end = tiles_at as usize + 4 * self.records.len();
        bytes[end..][..4].copy_from_slice(&tiles.to_ne_bytes());
        WaveBytes { bytes, units_at, tiles_at, unit_count: self.records.len() as u32, tiles }
    }

    /// What assemble_sim.cpp as a program reads: the wave, what its target becomes, the status.
    pub fn job(&self, expected: &[u8], status: u32) -> Vec<u8> {
        let wave = self.bytes(0);
        let head = [
            wave.bytes.len() as u64,
            wave.units_at,
            wave.tiles_at,
            u64::from(wave.unit_count),
            u64::from(wave.tiles),
            expected.len() as u64,
            u64::from(status),
        ];
        let mut job: Vec<u8> = head.iter().flat_map(|number| number.to_ne_bytes()).collect();
        job.extend_from_slice(&wave.bytes);
        job.extend_from_slice(expected);
        job
    }
}

/// Runs jobs in the program at `program`; Err with what it wrote where one came out wrong.
pub fn run_jobs(program: &Path, jobs: &[Vec<u8>]) -> Result<(), String> {
    let file = program.with_extension("jobs");
    std::fs::write(&file, jobs.concat()).unwrap();
    let output = Command::new(program).arg(&file).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}
