//! Any order of calls of the C surface with any arguments: hostile structs, stale handles, huge
//! counts, every timeout; over arrays in memory, whole or damaged, with threads, jobs and reads of
//! the library or of a host that gets them wrong.
//!
//! Checked against a model of the contract in include/wavetrain.h: statuses are those that the
//! header names, results are written on success only and never past `struct_size`, batches come in
//! push order with their tags, and hold what the oracle says as long as nothing that they read is
//! damaged; a held batch stays as it is, and a released one while tensors of it live; what was
//! pushed comes out in the end; close gives back all memory. Input: choices, first of the world,
//! then of one call after the other.

use super::box_model::{BoxModel, Fault, Fed, FieldModel, Painted, Table, paint};
use super::choices::Choices;
use super::host::{self, Host};
use super::loader_model::{
    Expected, Loader, PATIENCE_NS, STORE_ERRORS, Tensor, Want, check, check_error, error, shown,
};
use super::memory_store::{Array, BAD_URIS, DAMAGES, Damage, Server, world};
use super::oracle::{Image, Pad, cast, has_cast};
use super::reads::Read;
use super::sources::{self, Place};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use wavetrain::abi::{
    ArrayInfo, BOX_URI, BOX_VALUE, BatchInfo, Blank, FieldSpec, FilesHook, LogHook, Memory,
    SCRATCH_BYTES, Sample, SampleBox, SourceHook, Stats, TableColumn, Tensor as FedTensor,
};
use wavetrain::assemble::value_element;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{
    BACKEND_CUDA, BACKEND_HOST, Config, ON_ERROR_NAN, ON_ERROR_SKIP, PAD_CONSTANT, PAD_NONE,
    THREADS_HOOK, THREADS_OWN, THREADS_PUMP,
};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;
use wavetrain::surface::handles::host_job;

/// Calls of one input.
const CALLS_MAX: usize = 60;

/// Loaders open at a time.
const LOADERS_MAX: usize = 2;

/// Largest bill that is opened: larger ones only take time.
const BILL_BYTES_MAX: u64 = 8 << 20;

/// Uris that are wrong by themselves.
const REFUSED_URIS: [&str; 7] = [
    "file://host/m/u16",
    "file://nowhere",
    "file:///m/u16?part",
    "file:///m/u16#part",
    "file:///m/%u16",
    "file:///m/%00",
    "file:///m/%FF",
];

const POISON: u8 = 0xA5;

/// Bytes of a box in the first header.
const OLD_BOX_BYTES: usize = 280;

/// Blocks that the memory hook gave out, and how many calls until it refuses one.
struct Heap {
    live: Cell<u32>,
    left: Cell<u32>,
}

/// Everything of one input. Loaders go before what their hooks point to.
struct Session<'a> {
    choices: Choices<'a>,
    loaders: Vec<Loader>,
    dead: Vec<u64>,
    released: Vec<u64>,
    /// The tensor that was deleted last.
    deleted: Option<Tensor>,
    /// One that does everything later, and one that does it at once.
    hosts: Box<[Host; 2]>,
    /// The read that was completed last.
    completed: (u64, u64),
    server: Box<Server>,
    heap: Box<Heap>,
    next_tag: u64,
    block_is_free: bool,
    /// The fields of the last config, if it has a table of them.
    fields: Vec<FieldModel>,
    /// The table as that config has it.
    table: Vec<u8>,
    /// Whether open and memory_need must refuse it.
    is_table_wrong: bool,
}

thread_local! {
    /// A block for loaders, used again and again with whatever it then holds.
    static BLOCK: RefCell<&'static mut [u8]> = RefCell::new({
        let block: &'static mut [u8] = vec![POISON; BILL_BYTES_MAX as usize + 4096].leak();
        let skip = block.as_ptr().align_offset(4096);
        &mut block[skip..]
    });
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![POISON; SCRATCH_BYTES]);
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let first = choices.byte();
    // Inputs that begin so have arrays of all sources.
    let has_others = first >= 192 && first % 4 < 3;
    let is_damaged = match has_others {
        true => choices.rarely(3),
        false => first % 4 == 3,
    };
    let damage = if is_damaged { choices.one_of(&DAMAGES) } else { Damage::None };
    let world = world();
    let mut server = Box::new(Server { world, has_others, damage, file: 0, place: 0 });
    server.file = choices.below(server.file_count() as u64) as usize;
    server.place = usize::from(choices.word());
    let heap = Box::new(Heap { live: Cell::new(0), left: Cell::new(4) });
    let mut session = Session {
        choices,
        loaders: Vec::new(),
        dead: Vec::new(),
        released: Vec::new(),
        deleted: None,
        hosts: Box::new([false, true].map(|is_inline| Host::new(server.hook(), is_inline))),
        completed: (0, 0),
        server,
        heap,
        next_tag: 1,
        block_is_free: true,
        fields: Vec::new(),
        table: Vec::new(),
        is_table_wrong: false,
    };
    session.open();
    for _ in 0..CALLS_MAX {
        if session.choices.is_over() {
            break;
        }
        session.call();
    }
    while let Some(loader) = session.loaders.pop() {
        session.finish(loader);
    }
    // What the host runs too late does nothing.
    for host in &*session.hosts {
        while host.run_job(true, false, false) {}
    }
    assert_eq!(session.heap.live.get(), 0, "blocks that were not given back");
    assert_eq!(host::open_ranges(), 0, "ranges that do not end");
}

/// A struct of the C surface in a heap block of just the size that it claims (8 bytes at least,
/// which a reader of `struct_size` needs), so that a read or write past it is seen.
struct Claimed {
    bytes: Vec<u8>,
}

impl Claimed {
    /// `size` bytes of `value`, then `filler`.
    fn of<T: Copy>(value: &T, size: usize, filler: u8) -> Claimed {
        let mut bytes = vec![filler; size.max(8)];
        let common = size_of::<T>().min(bytes.len());
        // SAFETY: both are that long; these structs are plain old data.
        unsafe {
            let source = std::ptr::from_ref(value).cast::<u8>();
            std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), common);
        }
        bytes[..8].copy_from_slice(&size.to_ne_bytes());
        Claimed { bytes }
    }

    fn as_ptr<T>(&mut self) -> *mut T {
        self.bytes.as_mut_ptr().cast()
    }
}

impl Session<'_> {
    fn call(&mut self) {
        match self.choices.below(26) {
            0..=4 => self.push(),
            5..=7 => self.pop(),
            8..=10 => self.pump(),
            11..=12 => self.release(),
            13 => self.flush(),
            14 => self.batch_info(),
            15 => self.reset(),
            16 => self.close(),
            17 => self.open(),
            18 => self.memory_need(),
            19 => self.stats(),
            20 => self.last_error(),
            21 => self.array_info(),
            22 => self.config_fit(),
            23 => self.config_default(),
            24 => self.dead_handle(),
            _ => match self.choices.below(8) {
                0 => self.status_str(),
                1..=4 => self.export(),
                5..=6 => self.delete_tensor(),
                _ if self.choices.rarely(2) => self.lend(),
                _ => self.read(),
            },
        }
    }

    /// Which loader the next call is for; None where there is none.
    fn pick(&mut self) -> Option<usize> {
        let count = self.loaders.len() as u64;
        (count > 0).then(|| self.choices.below(count) as usize)
    }

    fn timeout(&mut self) -> u64 {
        self.choices.one_of(&[0, 0, 1, 1000, 20_000])
    }

    /// A config that opens unless a choice spoils it.
    fn config(&mut self) -> Config {
        let choices = &mut self.choices;
        let mut config = Config { backend: BACKEND_HOST, ..Config::default() };
        let shape = choices.one_of::<&[u64]>(&[&[2, 3], &[5], &[1], &[2, 3, 2], &[7, 7], &[40]]);
        config.sample_rank = shape.len() as u32;
        config.sample_shape[..shape.len()].copy_from_slice(shape);
        config.samples_per_batch = choices.one_of(&[1, 2, 3, 5]);
        let dtypes =
            [Dtype::F32, Dtype::U16, Dtype::F16, Dtype::I64, Dtype::U8, Dtype::Bf16, Dtype::Raw];
        config.dtype = choices.one_of(&dtypes) as u32;
        config.dtype_bytes = if config.dtype == Dtype::Raw as u32 { 2 } else { 0 };
        config.n_batch_slots = choices.one_of(&[2, 1, 3]);
        config.max_host_memory_bytes = BILL_BYTES_MAX;
        config.max_chunk_uncompressed_bytes = choices.one_of(&[4096, 96]);
        config.max_read_op_bytes = choices.one_of(&[4096, 64, 1]);
        config.host_buffer_waves = 2;
        config.max_chunks_per_wave = choices.one_of(&[8, 1, 2, 64]);
        config.n_io_threads = 1;
        config.n_decode_threads = choices.one_of(&[1, 2]);
        config.metadata_io_concurrency = choices.one_of(&[2, 1]);
        config.n_array_meta_cache = choices.one_of(&[4, 1]);
        config.n_shard_index_cache = choices.one_of(&[8, 1]);
        config.n_chunk_layout_cache = choices.one_of(&[8, 1]);
        config.lookahead_samples = choices.one_of(&[0, 5, 9]);
        config.chunk_cache_bytes = choices.one_of(&[0, 0, 65_536]);
        // No choice of its own: files of before mean what they meant.
        config.digest = u32::from(config.lookahead_samples == 5);
        let is_small = config.n_array_meta_cache == 1;
        config.lent_slots = if is_small && config.lookahead_samples == 9 { 2 } else { 0 };
        config.n_readers = match config.n_batch_slots {
            1 => 1,
            3 if is_small => 0,
            _ => config.n_readers,
        };
        config.on_error = choices.below(2) as u32;
        config.drop_last = u32::from(choices.rarely(4));
        config.missing_chunks = u32::from(choices.rarely(5));
        config.pad_mode = choices.below(4) as u32;
        config.pad_value_set = choices.below(2) as u32;
        config.pad_value = choices.one_of(&[0.0, 3.0, 255.0, -1.5, f64::NAN]);
        config.max_shards_per_sample = if choices.rarely(8) { 2 } else { 0 };
        self.set_hooks(&mut config);
        self.spoil(&mut config);
        self.set_memory(&mut config);
        self.set_fields(&mut config);
        self.set_derived(&mut config);
        if self.server.has_others {
            self.set_sources(&mut config);
        }
        config
    }

    /// Settings without choices of their own: files of before mean what they meant.
    fn set_derived(&self, config: &mut Config) {
        if config.lookahead_samples == 5 {
            config.max_indices_per_sample = 24;
        }
        let own = Dtype::from_code(config.dtype).filter(|_| self.fields.is_empty());
        let mut dtypes = own.into_iter().chain(self.fields.iter().map(|field| field.dtype));
        let has_nan = dtypes.any(|dtype| value_element(f64::NAN, dtype, dtype.bytes()).is_some());
        if config.lookahead_samples == 9 && config.on_error == ON_ERROR_SKIP && has_nan {
            config.on_error = ON_ERROR_NAN;
        }
        // Batches that the program has to lend, and no budget bounds.
        let extents = config.sample_shape.iter().take(config.sample_rank as usize);
        let elements = extents.fold(1u64, |all, extent| all.saturating_mul(*extent));
        let bytes = match &self.fields[..] {
            [] => elements.saturating_mul(u64::from(Dtype::F64.bytes())),
            fields => fields.iter().map(|field| field.sample_bytes() as u64).sum(),
        };
        if bytes.saturating_mul(u64::from(config.samples_per_batch)) > BILL_BYTES_MAX {
            config.lent_slots = 0;
        }
    }

    /// The hook that is asked, and files of the system in place of those of the files hook.
    fn set_sources(&mut self, config: &mut Config) {
        let choices = &mut self.choices;
        config.max_npy_files = choices.one_of(&[16, 5, 11, 4, 0, 100]);
        config.source = match choices.below(16) {
            15 => SourceHook::NONE,
            14 => SourceHook { read: None, ..self.server.source() },
            _ => self.server.source(),
        };
        if choices.rarely(3) {
            config.files = FilesHook::NONE;
        }
    }

    /// An array that a loader of that config finds.
    fn array(&mut self, config: &Config) -> &'static Array {
        let world = self.server.world;
        let place = if config.files.size.is_some() { Place::Memory } else { Place::Disk };
        let is_there = |array: &&Array| [place, Place::Host].contains(&array.place);
        let others = world.others.iter().filter(|_| self.server.has_others);
        let all: Vec<&Array> = world.arrays.iter().chain(others).filter(is_there).collect();
        all[self.choices.below(all.len() as u64) as usize]
    }

    /// A uri that a sample of that config fails with.
    fn bad_uri(&mut self, config: &Config) -> String {
        let choices = &mut self.choices;
        let is_other = self.server.has_others && choices.rarely(2);
        match config.files.size.is_some() {
            _ if is_other && config.files.size.is_none() => sources::bad_folder(choices.below(5)),
            true if is_other => choices.one_of(&sources::BAD_URIS).to_owned(),
            _ => choices.one_of(&BAD_URIS).to_owned(),
        }
    }

    /// Whether a loader of that config refuses an array.
    fn is_refused(array: &Array, chunk_bytes: u64, config: &Config) -> bool {
        chunk_bytes > config.max_chunk_uncompressed_bytes
            || array.parts > config.max_npy_files
            || array.place == Place::Host && config.source.describe.is_none()
    }

    /// Whether an array may wait for rows of the table in vain.
    fn may_wait_for_parts(&self, array: &Array, config: &Config) -> bool {
        let all: u32 = self.server.world.others.iter().map(|array| array.parts).sum();
        array.parts > 0 && all > config.max_npy_files
    }

    /// Sometimes a table of fields, or several boxes.
    fn set_fields(&mut self, config: &mut Config) {
        self.fields = Vec::new();
        self.is_table_wrong = false;
        let choices = &mut self.choices;
        let how = choices.below(8);
        if how >= 3 {
            config.max_boxes_per_sample = choices.one_of(&[0, 6, 3, 1]);
        }
        if how < 5 {
            return;
        }
        let most = choices.one_of(&[3, 8]);
        let count = 1 + choices.below(most) as usize;
        self.fields = (0..count).map(|number| FieldModel::choose(choices, number)).collect();
        let mut specs: Vec<FieldSpec> = self.fields.iter().map(FieldModel::spec).collect();
        let own = *config;
        let default = Config::default();
        (config.sample_rank, config.sample_shape) = (default.sample_rank, default.sample_shape);
        (config.dtype, config.dtype_bytes) = (default.dtype, default.dtype_bytes);
        (config.pad_mode, config.pad_value_set) = (default.pad_mode, default.pad_value_set);
        config.pad_value = default.pad_value;
        let is_wrong = choices.rarely(4);
        let at = choices.below(count as u64) as usize;
        let (kind, known) = (choices.below(16), size_of::<FieldSpec>());
        let mut bytes = known + choices.one_of(&[0, 0, 8, 24]);
        let mut filler = 0;
        let spec = &mut specs[at];
        match kind {
            _ if !is_wrong => {}
            0 => spec.name = [0; 64],
            1 => spec.name = [b'a'; 64],
            2 => spec.name[0] = choices.one_of(b"/\n\xFF\x7F"),
            3 => spec.sample_rank = choices.one_of(&[17, u32::MAX]),
            4 => {
                spec.sample_rank = spec.sample_rank.max(1);
                spec.sample_shape[0] = choices.one_of(&[0, 1 << 44, u64::MAX]);
            }
            5 => spec.dtype = choices.one_of(&[99, u32::MAX]),
            6 => spec.dtype_bytes = choices.one_of(&[17, u32::MAX]),
            7 => spec.pad_mode = 4,
            8 => spec.cf = 2,
            9 => (spec.dtype, spec.dtype_bytes, spec.pad_value) = (Dtype::U8 as u32, 0, 256.0),
            10 => bytes = choices.one_of(&[known - 1, 8, 0]),
            11 => (bytes, filler) = (known + 8, 1),
            12 => config.sample_rank = own.sample_rank.max(1),
            13 => {
                let same = *spec;
                specs.push(same);
            }
            _ => {}
        }
        let table = Table::of(&specs);
        let Table { mut fields, mut n_fields, .. } = table;
        self.table = vec![filler; bytes * specs.len()];
        for (spec, place) in specs.iter().zip(self.table.chunks_exact_mut(bytes.max(1))) {
            let common = bytes.min(known);
            // SAFETY: the place has as many bytes; the struct is plain old data.
            unsafe {
                let source = std::ptr::from_ref(spec).cast::<u8>();
                std::ptr::copy_nonoverlapping(source, place.as_mut_ptr(), common);
            }
        }
        if !self.table.is_empty() {
            fields = self.table.as_ptr().cast();
        }
        match kind {
            14 if is_wrong => fields = null(),
            15 if is_wrong => n_fields = choices.one_of(&[9, u32::MAX]),
            _ => {}
        }
        self.is_table_wrong = is_wrong;
        Table { fields, n_fields, field_bytes: bytes as u32 }.put(config);
    }

    /// Who works, who reads, and who hears of it.
    fn set_hooks(&mut self, config: &mut Config) {
        let choices = &mut self.choices;
        let mode = choices.byte();
        config.thread_mode = match mode % 16 {
            15 => THREADS_OWN,
            11..15 => THREADS_HOOK,
            _ => THREADS_PUMP,
        };
        if config.thread_mode == THREADS_HOOK {
            config.workers = self.hosts[usize::from(mode / 64 % 2)].workers();
        }
        if mode >= 128 {
            config.fatal = host::fatal();
        }
        let others = choices.byte();
        config.files = match others % 6 {
            2..=4 => self.hosts[usize::from(others / 6 % 2)].files(),
            _ => self.server.hook(),
        };
        if others % 6 == 5 {
            config.log = LogHook { log: Some(log), ..LogHook::NONE };
            config.log_level = choices.below(7) as u32;
        }
        if others >= 200 {
            config.profiler = host::profiler();
        }
    }

    /// Sometimes sets any 32-bit word before the hooks to anything.
    fn spoil(&mut self, config: &mut Config) {
        let choices = &mut self.choices;
        if !choices.rarely(8) {
            return;
        }
        let words = std::mem::offset_of!(Config, memory) / 4;
        for _ in 0..1 + choices.below(3) {
            let at = 2 + choices.below(words as u64 - 2) as usize;
            let menu = [0, 1, 2, 3, 17, 64, 65, 4096, 1 << 20, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
            let value = choices.one_of(&menu);
            // SAFETY: the word lies in the config, which is plain old data.
            unsafe { std::ptr::from_mut(config).cast::<u32>().add(at).write(value) };
        }
        // Any latency is allowed, and nothing waits for seconds here.
        let late = &mut config.metadata_latency;
        late.baseline_ns = late.baseline_ns.min(1000);
        late.cap_ns = late.cap_ns.clamp(1, 1000);
        match choices.below(8) {
            0 => config.memory.struct_size = 3,
            1 => config.fatal.struct_size = 0,
            2 => config.files.read = None,
            3 => config.reserved2 = 1,
            4 => config.reserved6 = choices.below(3) as u32,
            _ => {}
        }
        config.log_quiet = 1;
    }

    fn set_memory(&mut self, config: &mut Config) {
        let heap = std::ptr::from_ref(&*self.heap).cast_mut().cast();
        let block = BLOCK.with_borrow_mut(|block| block.as_mut_ptr());
        match self.choices.below(8) {
            0 => {}
            1 => {
                config.memory.user = heap;
                config.memory.alloc = Some(alloc);
                config.memory.free = Some(free);
            }
            2 if self.choices.rarely(2) => config.memory.alloc = Some(alloc),
            3 if self.choices.rarely(2) => {
                // SAFETY: inside the block.
                config.memory.host_block = unsafe { block.add(1) }.cast();
                config.memory.host_block_bytes = BILL_BYTES_MAX - 1;
            }
            4 if self.choices.rarely(2) => {
                config.memory.host_block = block.cast();
                config.memory.host_block_bytes = 4096;
            }
            _ if self.block_is_free => {
                config.memory.host_block = block.cast();
                config.memory.host_block_bytes = BILL_BYTES_MAX;
            }
            _ => {}
        }
    }

    /// Whether opening it takes little enough.
    fn is_small(config: &Config) -> bool {
        let mut need = Memory::EMPTY;
        // SAFETY: both structs are whole.
        let code = unsafe { wavetrain_memory_need(config, &mut need, null_mut()) };
        code != 0 || (need.host_bytes <= BILL_BYTES_MAX && need.threads <= 4)
    }

    fn open(&mut self) {
        if self.loaders.len() == LOADERS_MAX {
            return;
        }
        let config = self.config();
        if !Session::is_small(&config) {
            return;
        }
        let mut handle = 0x5555;
        let mut error = error();
        // SAFETY: all three are whole, and the hooks' state outlives the loader.
        let code = unsafe { wavetrain_open(&config, &mut handle, &mut error) };
        let refusals = [
            Status::Ok,
            Status::Invalid,
            Status::Unsupported,
            Status::Budget,
            Status::OutOfMemory,
            // A backend that a spoiled word names, and that this machine does not have.
            if config.backend == BACKEND_CUDA { Status::Cuda } else { Status::Ok },
        ];
        if check("open", code, &refusals) != Status::Ok {
            check_error(&error, code);
            return assert_eq!(handle, 0x5555, "written by a failed open");
        }
        assert!(!self.is_table_wrong);
        assert!(handle != 0 && !self.dead.contains(&handle));
        let block = BLOCK.with_borrow_mut(|block| block.as_mut_ptr());
        self.block_is_free &= config.memory.host_block != block.cast();
        self.loaders.push(Loader {
            handle,
            config,
            fields: match config.fields.is_empty() {
                true => vec![FieldModel::of_config(&config)],
                false => self.fields.clone(),
            },
            fed: Vec::new(),
            open: Vec::new(),
            ready: VecDeque::new(),
            held: Vec::new(),
            exported: Vec::new(),
            lent: VecDeque::new(),
            batches: 0,
            pushed: 0,
            is_flushed: false,
            is_closing: false,
            failure: None,
        });
        // A null pointer for the result is refused before anything is taken.
        // SAFETY: as above.
        let code = unsafe { wavetrain_open(&config, null_mut(), null_mut()) };
        assert_eq!(code, Status::Invalid as i32);
    }

    fn memory_need(&mut self) {
        let config = self.config();
        let menu = [0, 7, 8, 12, 16, 60, 200, size_of::<Config>() - 8, size_of::<Config>()];
        let size = match self.choices.below(3) {
            0 => self.choices.one_of(&menu),
            1 => size_of::<Config>() + self.choices.below(40) as usize,
            _ => self.choices.below(70_000) as usize,
        };
        let filler = self.choices.one_of(&[0, 0, 1]);
        let mut given = Claimed::of(&config, size, filler);
        let need_size = self.choices.one_of(&[size_of::<Memory>(), 0, 8, 40, 64, 4000, 9]);
        let mut need = Claimed::of(&Memory::EMPTY, need_size, POISON);
        need.bytes[8..].fill(POISON);
        let mut error = error();
        // SAFETY: the blocks have the sizes that they claim.
        let code =
            unsafe { wavetrain_memory_need(given.as_ptr::<Config>(), need.as_ptr(), &mut error) };
        let refusals = [Status::Ok, Status::Invalid, Status::Unsupported, Status::Budget];
        let status = check("memory_need", code, &refusals);
        let is_written = matches!(status, Status::Ok | Status::Budget) && need_size >= 8;
        assert!(is_written || need.bytes[8..].iter().all(|byte| *byte == POISON));
        assert!(need.bytes.iter().skip(size_of::<Memory>()).all(|byte| *byte == POISON));
        assert_eq!(need.bytes[..8], need_size.to_ne_bytes());
        if status != Status::Ok {
            check_error(&error, code);
        }
        let has_table = size >= std::mem::offset_of!(Config, max_boxes_per_sample);
        // Fields that are too large are BUDGET.
        assert!(status != Status::Ok || !(self.is_table_wrong && has_table));
        let is_newer = size > size_of::<Config>() && filler != 0;
        assert!(status == Status::Invalid || !is_newer && (8..=1 << 16).contains(&size));
    }

    fn config_default(&mut self) {
        let size = self.choices.below(2000) as usize;
        let mut given = vec![POISON; size.max(1)];
        // SAFETY: the block has `size` bytes.
        let code = unsafe { wavetrain_config_default(given.as_mut_ptr().cast(), size) };
        if size < 8 {
            assert_eq!(code, Status::Invalid as i32);
            return assert!(given.iter().all(|byte| *byte == POISON));
        }
        assert_eq!(code, 0);
        assert_eq!(given[..8], size.to_ne_bytes());
        assert!(given.iter().skip(size_of::<Config>()).all(|byte| *byte == 0));
        // SAFETY: NULL is allowed.
        let code = unsafe { wavetrain_config_default(null_mut(), size) };
        assert_eq!(code, Status::Invalid as i32);
    }

    fn status_str(&mut self) {
        let code = self.choices.long() as i32 >> self.choices.below(32);
        // SAFETY: never NULL and NUL-terminated, as the header says.
        let name = unsafe { std::ffi::CStr::from_ptr(wavetrain_status_str(code)) };
        let known = Status::from_code(code).map_or("UNKNOWN", Status::name);
        assert_eq!(name.to_str(), Ok(known));
        assert_eq!(wavetrain_version(), VERSION);
    }

    /// Every call with a handle that nothing answers.
    fn dead_handle(&mut self) {
        let wild = self.choices.long();
        let known = self.dead.last().copied().unwrap_or(0);
        let handle = self.choices.one_of(&[0, known, 1, u64::MAX, wild]);
        if self.loaders.iter().any(|loader| loader.handle == handle) {
            return;
        }
        let (mut taken, mut batch, mut held) = (77usize, 77u64, 77u32);
        let mut info = Claimed::of(&Stats::EMPTY, size_of::<Stats>(), 0);
        info.bytes[8..].fill(POISON);
        let (mut versioned, mut legacy) = (null_mut(), null_mut());
        let mut why = error();
        // SAFETY: the pointers are NULL or whole; nothing is read with such a handle.
        let codes = unsafe {
            [
                wavetrain_push(handle, null(), usize::MAX, 1, u64::MAX, &mut taken),
                wavetrain_push_table(handle, null(), 1, 8, usize::MAX, null(), 0, &mut taken),
                wavetrain_flush(handle),
                wavetrain_pop(handle, u64::MAX, &mut batch, null_mut()),
                wavetrain_batch_info(handle, 1, 0, info.as_ptr()),
                wavetrain_release(handle, 1, null_mut()),
                wavetrain_reset(handle),
                wavetrain_pump(handle, u64::MAX),
                wavetrain_stats(handle, info.as_ptr()),
                wavetrain_stats_reset(handle),
                wavetrain_last_error(handle, &mut why),
                wavetrain_close(handle, u64::MAX, &mut held),
                wavetrain_dlpack(handle, 1, 0, null_mut(), &mut versioned),
                wavetrain_dlpack_legacy(handle, 1, 0, null_mut(), &mut legacy),
                wavetrain_read_done(handle, self.completed.1, 0),
                wavetrain_lend(handle, null(), 1, 16, null_mut(), 0),
                wavetrain_read_into(handle, null(), 1, null_mut(), 0, null(), 0, &mut why),
            ]
        };
        assert_eq!(codes, [Status::Shutdown as i32; 17]);
        host_job(std::ptr::without_provenance_mut(handle as usize));
        assert_eq!((taken, batch), (77, 77));
        check_error(&why, Status::Shutdown as i32);
        assert!(versioned.is_null() && legacy.is_null());
        assert!(info.bytes[8..].iter().all(|byte| *byte == POISON));
    }

    fn push(&mut self) {
        let Some(at) = self.pick() else { return };
        if self.choices.rarely(10) {
            return self.push_nothing(at);
        }
        let count = 1 + self.choices.below(5) as usize;
        let mut made: Vec<Made> = (0..count).map(|_| self.sample(at)).collect();
        let spare = self.choices.one_of(&[0, 0, 8, 16]);
        let sample_bytes = size_of::<Sample>() + spare;
        let mut block = vec![0u8; count * sample_bytes];
        for (made, place) in made.iter_mut().zip(block.chunks_exact_mut(sample_bytes)) {
            made.sample.boxes = match made.refusal {
                Refusal::NoBox => null(),
                _ => made.boxes.as_ptr().cast(),
            };
            // SAFETY: the place has the bytes of a sample.
            unsafe { place.as_mut_ptr().cast::<Sample>().write_unaligned(made.sample) };
        }
        let mut taken = 77;
        let (handle, timeout) = (self.loaders[at].handle, self.timeout());
        let samples = block.as_ptr().cast();
        // No choice is taken for it, so that inputs of before mean what they did.
        let rows =
            self.next_tag.is_multiple_of(2).then(|| Rows::of(&made, &self.loaders[at].fields));
        let code = match rows.flatten() {
            Some(rows) => rows.push(handle, timeout, &mut taken),
            // SAFETY: `count` samples of that size, their boxes and uris are there.
            None => unsafe {
                wavetrain_push(handle, samples, count, sample_bytes, timeout, &mut taken)
            },
        };
        let loader = &mut self.loaders[at];
        // Push has copied values; memory has to stay until all is over.
        let models = made.iter_mut().flat_map(|made| made.models.drain(..));
        for mut model in models.filter(|model| model.fed.is_some()) {
            let is_value = |fed: &&mut Box<Fed>| fed.kind == BOX_VALUE;
            model.fed.as_mut().filter(is_value).into_iter().for_each(|fed| fed.block.fill(0xEE));
            loader.fed.push(model);
        }
        if loader.is_closing || loader.failure.is_some() {
            // What is wrong with a sample by itself may be said first, unless it is too late.
            let first = made[0].refusal != Refusal::None && !loader.is_closing;
            let known = loader.failure.filter(|_| !loader.is_closing);
            let known = known.unwrap_or(Status::Shutdown as i32);
            assert!(code == known || (first && code < 0), "push returned {code}, not {known}");
            return assert_eq!(taken, 0);
        }
        let good = made.iter().take_while(|made| made.refusal == Refusal::None).count();
        assert!(taken <= good, "{taken} taken, the first {good} are sound");
        if code == 0 {
            assert_eq!(taken, count);
        } else if code > 0 {
            check("push", code, &[Status::Again]);
            assert!(taken < count);
        } else {
            // What is fed is looked at by push.
            let fed = [Status::Dtype, Status::Budget];
            let mut known = vec![Status::Invalid, Status::Rank, Status::Unsupported];
            let has_fed = made.get(taken).is_some_and(|made| made.has_fed);
            known.extend(fed.iter().filter(|_| has_fed));
            check("push", code, &known);
            let mut error = error();
            // SAFETY: the struct is whole.
            assert_eq!(unsafe { wavetrain_last_error(handle, &mut error) }, 0);
            assert_eq!(taken, good, "push returned {code}: {}", shown(&error));
            assert!(taken < count);
            assert_eq!((error.status, error.tag), (code, made[taken].sample.tag));
        }
        for made in made.drain(..taken) {
            loader.take(made.expected);
        }
    }

    /// Counts and pointers that no sample goes with.
    fn push_nothing(&mut self, at: usize) {
        let loader = &mut self.loaders[at];
        let one = Sample { boxes: null(), n_boxes: 1, box_bytes: 0, tag: 0 };
        let none = TableColumn::EMPTY;
        let bytes = size_of::<Sample>();
        let mut taken = 77;
        let huge = usize::MAX / 2;
        // SAFETY: no sample can be read: NULL, none, or an array that cannot be.
        let codes = unsafe {
            [
                wavetrain_push(loader.handle, null(), huge, bytes, 0, &mut taken),
                wavetrain_push(loader.handle, &one, usize::MAX, bytes, 0, &mut taken),
                wavetrain_push(loader.handle, &one, huge, 3, 0, &mut taken),
                wavetrain_push(loader.handle, &one, 1, bytes, 0, null_mut()),
                wavetrain_push(loader.handle, &one, 1, bytes - 1, 0, &mut taken),
                wavetrain_push_table(loader.handle, null(), 1, 8, huge, null(), 0, &mut taken),
                wavetrain_push_table(loader.handle, &none, 1, 8, 1, null(), 0, null_mut()),
            ]
        };
        // Of a loader that is being closed nothing is wrong with the samples.
        let last = if loader.is_closing { Status::Shutdown } else { Status::Invalid };
        let wrong = Status::Invalid;
        assert_eq!(
            codes,
            [wrong, wrong, wrong, wrong, last, wrong, wrong].map(|status| status as i32)
        );
        assert_eq!(taken, 0);
        // SAFETY: NULL is allowed with no samples.
        let code = unsafe { wavetrain_push(loader.handle, null(), 0, bytes, 0, &mut taken) };
        let known = if loader.is_closing { Some(Status::Shutdown as i32) } else { loader.failure };
        assert_eq!(code, known.unwrap_or(0));
    }

    fn pop(&mut self) {
        let Some(at) = self.pick() else { return };
        let timeout = self.timeout();
        if self.choices.rarely(12) {
            // SAFETY: NULL is allowed.
            let code =
                unsafe { wavetrain_pop(self.loaders[at].handle, timeout, null_mut(), null_mut()) };
            return assert_eq!(code, Status::Invalid as i32);
        }
        self.loaders[at].pop(timeout);
    }

    fn pump(&mut self) {
        let Some(at) = self.pick() else { return };
        let budget = self.choices.one_of(&[0, 0, 1, 20_000]);
        let config = &self.loaders[at].config;
        if config.workers.run.is_some() || config.files.read_async.is_some() {
            match self.choices.below(8) {
                0..=2 => return self.run_job(),
                3..=4 => return self.complete(at),
                5 => return self.complete_nothing(at),
                _ => {}
            }
        }
        let loader = &self.loaders[at];
        let code = wavetrain_pump(loader.handle, budget);
        let allowed: &[Status] = match (loader.config.thread_mode, loader.is_closing) {
            (THREADS_OWN, _) => &[Status::Invalid],
            (_, true) => &[Status::Shutdown],
            (_, false) => &[Status::Ok, Status::Again],
        };
        check("pump", code, allowed);
    }

    /// The host runs a job, of any loader.
    fn run_job(&mut self) {
        let how = self.choices.byte();
        let [later, _] = &*self.hosts;
        later.run_job(how & 1 > 0, how >= 192, how & 14 == 14);
    }

    /// The host completes a read.
    fn complete(&mut self, at: usize) {
        let place = self.choices.below(4) as usize;
        let loader = self.loaders[at].handle;
        for host in &*self.hosts {
            if let Some(ticket) = host.complete(loader, place) {
                self.completed = (loader, ticket);
            }
        }
    }

    /// Completions of reads that are not in flight, while others are written to.
    fn complete_nothing(&mut self, at: usize) {
        let loader = self.loaders[at].handle;
        let wild = self.choices.long();
        self.hosts.iter().for_each(Host::paint);
        for ticket in [0, 1, wild, self.completed.1, self.completed.1 + 1] {
            if self.hosts.iter().all(|host| !host.is_in_flight(loader, ticket)) {
                let code = wavetrain_read_done(loader, ticket, 0);
                assert_eq!(code, Status::Invalid as i32, "ticket {ticket}");
            }
        }
    }

    /// Reads of a loader that the host has begun and not completed.
    fn in_flight(&self, loader: u64) -> usize {
        self.hosts.iter().map(|host| host.in_flight(loader)).sum()
    }

    fn flush(&mut self) {
        let Some(at) = self.pick() else { return };
        self.loaders[at].flush();
    }

    fn reset(&mut self) {
        let Some(at) = self.pick() else { return };
        let loader = &mut self.loaders[at];
        let code = wavetrain_reset(loader.handle);
        if loader.is_closing {
            return assert_eq!(code, Status::Shutdown as i32);
        }
        assert_eq!(code, 0);
        loader.open.clear();
        loader.ready.clear();
        loader.lent.clear();
        (loader.batches, loader.failure, loader.is_flushed) = (0, None, false);
        loader.pushed = 0;
    }

    fn release(&mut self) {
        let Some(at) = self.pick() else { return };
        let wild = self.choices.long();
        let old = self.released.last().copied().unwrap_or(1);
        let other = self.loaders.iter().flat_map(|loader| &loader.held).map(|held| held.token);
        let other = other.max().unwrap_or(2);
        let token = match self.choices.below(8) {
            0 => old,
            1 => wild,
            2 => other,
            _ => self.loaders[at].held.first().map_or(0, |held| held.token),
        };
        let loader = &mut self.loaders[at];
        let place = loader.held.iter().position(|held| held.token == token);
        if self.choices.rarely(8) {
            let event = std::ptr::dangling_mut::<c_void>();
            // SAFETY: a loader without a device refuses an event and does not look into it.
            let code = unsafe { wavetrain_release(loader.handle, token, event) };
            return assert_eq!(code, Status::Unsupported as i32);
        }
        if let Some(place) = place {
            self.released.push(loader.release(place));
        } else {
            // SAFETY: there is no event.
            let code = unsafe { wavetrain_release(loader.handle, token, null_mut()) };
            assert_eq!(code, Status::Invalid as i32);
        }
    }

    /// Calls lend, with memory for a batch or with wrong arguments.
    fn lend(&mut self) {
        let Some(at) = self.pick() else { return };
        let wild = self.choices.long();
        match wild % 4 {
            0 => self.loaders[at].lend_nothing(wild),
            _ => self.loaders[at].lend(wild),
        }
    }

    /// Reads a box into memory of the program.
    fn read(&mut self) {
        let Some(at) = self.pick() else { return };
        let timeout = self.timeout();
        let loader = &self.loaders[at];
        let (handle, config) = (loader.handle, loader.config);
        let (fields, is_closing) = (loader.fields.clone(), loader.is_closing);
        self.read_box((handle, is_closing), &config, &fields, timeout);
    }

    fn read_box(
        &mut self,
        (handle, is_closing): (u64, bool),
        config: &Config,
        fields: &[FieldModel],
        timeout: u64,
    ) {
        let array = self.array(config);
        let most = config.max_indices_per_sample;
        let mut read = Read::choose(&mut self.choices, fields, array, most);
        let painted = paint(std::slice::from_ref(&read.field), std::slice::from_ref(&read.model));
        assert!(read.is_hostile || painted != Err(Fault::Box));
        let want = match read.pads_unknown || painted == Err(Fault::Box) {
            true => Want::Anything,
            false => {
                let chunk_bytes = read.field.chunk_bytes(array, config);
                self.want_of_boxes(config, &[Some((array, chunk_bytes))], painted)
            }
        };
        let mut error = error();
        let code = read.call(handle, array.uri.as_bytes(), timeout, &mut error);
        let status = Status::from_code(code).unwrap_or_else(|| panic!("read_into: {code}"));
        if status != Status::Ok {
            check_error(&error, code);
        }
        let text = || format!("{status}: {}", shown(&error));
        let is_refused = read.is_hostile || config.n_readers == 0;
        match status {
            Status::Ok => assert!(!is_refused && want != Want::Failure && !is_closing),
            Status::Again => assert!(timeout == 0 && !is_closing),
            Status::Starved => assert!(timeout > 0 && timeout < PATIENCE_NS && !is_closing),
            Status::Shutdown => assert!(is_closing),
            _ => {
                assert!(STORE_ERRORS.contains(&status) || status == Status::Budget, "{}", text());
                assert!(is_refused || !matches!(want, Want::Bytes(_)), "{}", text());
            }
        }
        match want {
            Want::Bytes(want) | Want::BytesOrFailure(want) if status == Status::Ok => {
                read.check(Some(&want[0].bytes));
            }
            _ => read.check(None),
        }
    }

    /// Exports a batch, or something that is none, or into nothing.
    fn export(&mut self) {
        let Some(at) = self.pick() else { return };
        let is_legacy = self.choices.rarely(3);
        let times = 1 + self.choices.below(9);
        if self.choices.rarely(4) {
            return self.export_nothing(at);
        }
        let loader = &mut self.loaders[at];
        let count = loader.held.len();
        for time in 0..if count > 0 { times as usize } else { 0 } {
            let fields = loader.fields.len();
            loader.export(time % 2 % count, (time + times as usize) % fields, is_legacy);
        }
    }

    fn export_nothing(&mut self, at: usize) {
        let wild = self.choices.long();
        let loader = &self.loaders[at];
        let is_held = |token| loader.held.iter().any(|held| held.token == token);
        let token =
            self.released.last().copied().filter(|_| wild.is_multiple_of(2)).unwrap_or(wild);
        let good = loader.held.first().map_or(1, |held| held.token);
        let token = if is_held(token) { 0 } else { token };
        let dead = if loader.is_closing { Status::Shutdown } else { Status::Invalid };
        let (mut tensor, field) = (null_mut(), loader.fields.len() as u32 + wild as u32 / 2);
        // SAFETY: the pointer is NULL or writable.
        let codes = unsafe {
            [
                wavetrain_dlpack(loader.handle, good, 0, null_mut(), null_mut()),
                wavetrain_dlpack(loader.handle, good, field, null_mut(), &mut tensor),
                wavetrain_dlpack(loader.handle, good, 0, std::ptr::dangling_mut(), &mut tensor),
                wavetrain_dlpack(loader.handle, token, 0, null_mut(), &mut tensor),
            ]
        };
        let expected = [Status::Invalid, dead, Status::Unsupported, dead];
        assert_eq!(codes, expected.map(|status| status as i32));
        assert!(tensor.is_null());
    }

    /// Deletes a tensor, sometimes twice, and sometimes one that is long gone.
    fn delete_tensor(&mut self) {
        let Some(at) = self.pick() else { return };
        let place = self.choices.below(3) as usize;
        let is_twice = self.choices.rarely(3);
        let loader = &mut self.loaders[at];
        let Some(tensor) = loader.delete(place).or_else(|| loader.delete(0)) else { return };
        if is_twice {
            tensor.delete();
        }
        self.deleted = Some(tensor);
    }

    fn batch_info(&mut self) {
        let Some(at) = self.pick() else { return };
        let size = self.choices.one_of(&[size_of::<BatchInfo>(), 0, 7, 8, 20, 100, 4096]);
        let field = self.choices.one_of(&[0, 0, 1, 2, 7, 8, u32::MAX]);
        let wild = self.choices.long();
        let loader = &self.loaders[at];
        let token = loader.held.last().map_or(wild, |held| held.token);
        let mut info = Claimed { bytes: vec![POISON; size.max(8)] };
        info.bytes[..8].copy_from_slice(&size.to_ne_bytes());
        // SAFETY: the block has the size that it claims.
        let code = unsafe { wavetrain_batch_info(loader.handle, token, field, info.as_ptr()) };
        let has_field = (field as usize) < loader.fields.len();
        let is_fine = !loader.held.is_empty() && has_field && size >= 8;
        assert_eq!(code, if is_fine { 0 } else { Status::Invalid as i32 });
        let kept = if is_fine { size_of::<BatchInfo>() } else { 8 };
        assert!(info.bytes.iter().skip(kept).all(|byte| *byte == POISON));
        assert_eq!(info.bytes[..8], size.to_ne_bytes());
    }

    fn stats(&mut self) {
        let Some(at) = self.pick() else { return };
        let loader = &self.loaders[at];
        let mut stats = Stats::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_stats(loader.handle, &mut stats) }, 0);
        assert_eq!(stats.batches_held as usize, loader.kept());
        assert_eq!(stats.memories_lent as usize, loader.loans());
        assert!(stats.host_bytes_committed <= BILL_BYTES_MAX);
        if self.choices.rarely(4) {
            assert_eq!(wavetrain_stats_reset(loader.handle), 0);
        }
        // SAFETY: NULL is allowed.
        let code = unsafe { wavetrain_stats(loader.handle, null_mut()) };
        assert_eq!(code, Status::Invalid as i32);
    }

    fn last_error(&mut self) {
        let Some(at) = self.pick() else { return };
        let loader = &self.loaders[at];
        let mut error = error();
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_last_error(loader.handle, &mut error) }, 0);
        check_error(&error, error.status);
        // Of a stream that failed some call has told it, or one behind that failed otherwise.
        assert!(loader.failure.is_none() || error.status != 0);
        let mut small = Claimed { bytes: vec![POISON; 12] };
        small.bytes[..8].copy_from_slice(&12usize.to_ne_bytes());
        // SAFETY: the block has the 12 bytes that it claims.
        assert_eq!(unsafe { wavetrain_last_error(loader.handle, small.as_ptr()) }, 0);
        assert_eq!(small.bytes[8..], error.status.to_ne_bytes());
    }

    fn uri(&mut self) -> CString {
        let world = self.server.world;
        if self.server.has_others && self.choices.below(2) > 0 {
            let number = self.choices.below(world.others.len() as u64 + 8) as usize;
            let text = match world.others.get(number) {
                Some(array) => array.uri.to_owned(),
                None if number.is_multiple_of(2) => {
                    self.choices.one_of(&sources::BAD_URIS).to_owned()
                }
                None => sources::bad_folder(number as u64),
            };
            return CString::new(text).expect("no NUL");
        }
        let number = self.choices.below(16) as usize;
        let text = match number {
            0..=5 => world.arrays[number].uri,
            6..=10 => BAD_URIS[number - 6],
            11..=12 => self.choices.one_of(&REFUSED_URIS),
            13 => "",
            14 => "FILE://localhost/m%2Fu16",
            _ => return CString::new(vec![b'a'; 5000]).expect("no NUL"),
        };
        CString::new(text).expect("no NUL")
    }

    fn array_info(&mut self) {
        let uri = self.uri();
        let hook = self.server.hook();
        let hook_size = self.choices.one_of(&[size_of::<FilesHook>(), 0, 16, 48]);
        let mut hook = Claimed::of(&hook, hook_size, 0);
        let hook: *const FilesHook = hook.as_ptr();
        let size = self.choices.one_of(&[size_of::<ArrayInfo>(), 0, 8, 33, 4096]);
        let mut info = Claimed { bytes: vec![POISON; size.max(8)] };
        info.bytes[..8].copy_from_slice(&size.to_ne_bytes());
        let scratch_bytes = self.choices.one_of(&[SCRATCH_BYTES, 0, 1, 70_000]);
        let mut error = error();
        let code = SCRATCH.with_borrow_mut(|scratch| {
            let scratch = scratch.as_mut_ptr().cast();
            // SAFETY: the blocks have the sizes that they claim.
            unsafe {
                let uri = uri.as_ptr();
                wavetrain_array_info(uri, hook, scratch, scratch_bytes, info.as_ptr(), &mut error)
            }
        });
        let mut allowed = STORE_ERRORS.to_vec();
        allowed.extend([Status::Ok, Status::Budget]);
        let status = check("array_info", code, &allowed);
        let kept = if status == Status::Ok { size_of::<ArrayInfo>() } else { 8 };
        assert!(info.bytes.iter().skip(kept).all(|byte| *byte == POISON));
        if status != Status::Ok {
            check_error(&error, code);
        }
        let world = self.server.world;
        let mut arrays = world.arrays.iter().chain(&world.others);
        let array = arrays.find(|array| uri.as_bytes() == array.uri.as_bytes());
        if let Some(array) = array.filter(|array| array.place == Place::Memory)
            && !self.server.touches(array)
            && hook_size == size_of::<FilesHook>()
            && scratch_bytes == SCRATCH_BYTES
            && size >= 8
        {
            assert_eq!(status, Status::Ok, "{}", shown(&error));
            if size >= 24 {
                assert_eq!(info.bytes[8..12], (array.image.shape.len() as u32).to_ne_bytes());
                assert_eq!(info.bytes[12..16], (array.image.dtype as u32).to_ne_bytes());
            }
        }
    }

    fn config_fit(&mut self) {
        let mut config = self.config();
        let before = config;
        let uris: Vec<CString> = (0..self.choices.below(4)).map(|_| self.uri()).collect();
        let pointers: Vec<*const c_char> = uris.iter().map(|uri| uri.as_ptr()).collect();
        let mut error = error();
        let code = SCRATCH.with_borrow_mut(|scratch| {
            let (start, count) = (scratch.as_mut_ptr().cast(), pointers.len() as u32);
            // SAFETY: the blocks and the strings are whole.
            unsafe {
                let uris = pointers.as_ptr();
                wavetrain_config_fit(&mut config, uris, count, start, SCRATCH_BYTES, &mut error)
            }
        });
        let mut allowed = STORE_ERRORS.to_vec();
        allowed.extend([Status::Ok, Status::Budget]);
        if check("config_fit", code, &allowed) != Status::Ok {
            check_error(&error, code);
            assert_eq!(config.max_chunk_uncompressed_bytes, before.max_chunk_uncompressed_bytes);
            return assert_eq!(config.max_host_memory_bytes, before.max_host_memory_bytes);
        }
        assert!(config.max_chunk_uncompressed_bytes >= before.max_chunk_uncompressed_bytes);
        let is_of = |uri: &CString, array: &Array| uri.as_bytes() == array.uri.as_bytes();
        let world = self.server.world;
        for array in world.arrays.iter().chain(&world.others) {
            assert!(
                array.parts <= config.max_npy_files || uris.iter().all(|uri| !is_of(uri, array))
            );
            if uris.iter().any(|uri| is_of(uri, array)) && !self.server.touches(array) {
                assert!(config.max_chunk_uncompressed_bytes >= array.chunk_bytes);
            }
        }
    }

    fn close(&mut self) {
        let Some(at) = self.pick() else { return };
        let timeout = self.timeout();
        let loader = &mut self.loaders[at];
        let mut held = 77;
        // SAFETY: the counter is writable.
        let code = unsafe { wavetrain_close(loader.handle, timeout, &mut held) };
        let status = check("close", code, &[Status::Ok, Status::Again]);
        assert_eq!(held as usize, loader.kept());
        loader.is_closing = true;
        if status == Status::Ok {
            assert_eq!(held, 0);
            let loader = self.loaders.remove(at);
            self.retire(&loader);
        } else if self.loaders[at].config.thread_mode != THREADS_OWN {
            let in_flight = self.in_flight(self.loaders[at].handle);
            assert!(held > 0 || in_flight > 0, "nothing is in flight, so close must end");
        }
    }

    fn retire(&mut self, loader: &Loader) {
        self.dead.push(loader.handle);
        let block = BLOCK.with_borrow_mut(|block| block.as_mut_ptr());
        self.block_is_free |= loader.config.memory.host_block == block.cast();
        assert_eq!(wavetrain_flush(loader.handle), Status::Shutdown as i32);
        // No loader is open that could have a tensor there.
        if self.loaders.is_empty()
            && let Some(tensor) = self.deleted.take()
        {
            tensor.delete();
        }
    }

    /// What was pushed comes out; then the loader goes.
    fn finish(&mut self, mut loader: Loader) {
        loader.release_all();
        if !loader.is_closing && loader.failure.is_none() {
            loader.flush();
            loader.drain(|handle| self.hosts.iter().for_each(|host| host.complete_all(handle)));
        }
        loader.release_all();
        // Nobody completes reads while the call waits.
        if !loader.is_closing && loader.config.files.read_async.is_none() {
            let (config, fields) = (loader.config, loader.fields.clone());
            self.read_box((loader.handle, false), &config, &fields, PATIENCE_NS);
        }
        // Threads of the library may begin reads until it closes, and close waits for them.
        let ends_later = loader.config.files.read_async.is_some();
        let (timeout, tries) =
            if ends_later { (PATIENCE_NS / 2000, 2000) } else { (PATIENCE_NS, 1) };
        let (mut code, mut held) = (77, 77);
        for _ in 0..tries {
            self.hosts.iter().for_each(|host| host.complete_all(loader.handle));
            // SAFETY: the counter is writable.
            code = unsafe { wavetrain_close(loader.handle, timeout, &mut held) };
            if code == 0 {
                break;
            }
        }
        assert_eq!((code, held), (0, 0));
        self.retire(&loader);
    }
}

/// Why push must refuse a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Refusal {
    None,
    NoBox,
    Other,
}

/// A sample, the blocks that it points to, and what must become of it.
struct Made {
    sample: Sample,
    boxes: Vec<u8>,
    #[allow(dead_code)] // keeps what the boxes point to
    uris: Vec<Vec<u8>>,
    models: Vec<BoxModel>,
    has_fed: bool,
    refusal: Refusal,
    expected: Expected,
}

/// Samples of one box as the rows of a table.
struct Rows {
    uris: Vec<CString>,
    which: Vec<u32>,
    begin: Vec<i64>,
    shape: Vec<u64>,
    step: Vec<i64>,
    at: Vec<u64>,
    tags: Vec<u64>,
    field: u32,
    rank: u32,
}

impl Rows {
    /// None of samples that a row of one column cannot be.
    fn of(made: &[Made], fields: &[FieldModel]) -> Option<Rows> {
        let (mut uris, mut shape, mut raws) = (Vec::new(), Vec::new(), Vec::new());
        for each in made {
            let size = each.sample.box_bytes as usize;
            let is_whole = size == each.boxes.len() && size >= OLD_BOX_BYTES;
            if each.sample.n_boxes != 1 || !is_whole || each.refusal == Refusal::NoBox {
                return None;
            }
            let mut block = each.boxes.clone();
            block.resize(size.max(size_of::<SampleBox>()), 0);
            // SAFETY: the block has the bytes of a box, which are one whatever they are.
            let raw = unsafe { block.as_ptr().cast::<SampleBox>().read_unaligned() };
            let has_more = !raw.tensor.is_null() || raw.n_lists > 0;
            let is_plain = raw.kind == BOX_URI && raw.reserved == 0 && !has_more;
            if !is_plain || raw.axes != [0; RANK_MAX] || raw.rank as usize > RANK_MAX {
                return None;
            }
            uris.push(CString::new(each.uris[0].clone()).ok()?);
            for axis in 0..raw.rank as usize {
                let places = raw.end[axis].wrapping_sub(raw.begin[axis]) as u64;
                if raw.end[axis] < raw.begin[axis] || raw.step[axis].unsigned_abs() > 1 {
                    return None;
                }
                shape.push(places);
            }
            raws.push(raw);
        }
        let (rank, field) = (raws[0].rank, raws[0].field);
        let axes = fields.get(field as usize)?.shape.len();
        let is_one = |raw: &SampleBox| raw.rank == rank && raw.field == field;
        if !raws.iter().all(|raw| is_one(raw) && raw.at[axes..].iter().all(|at| *at == 0)) {
            return None;
        }
        let numbers = |of: fn(&SampleBox) -> &[i64; RANK_MAX]| {
            raws.iter().flat_map(|raw| of(raw)[..rank as usize].to_vec()).collect()
        };
        Some(Rows {
            which: (0..uris.len() as u32).collect(),
            begin: numbers(|raw| &raw.begin),
            step: numbers(|raw| &raw.step),
            at: raws.iter().flat_map(|raw| raw.at[..axes].to_vec()).collect(),
            tags: made.iter().map(|made| made.sample.tag).collect(),
            uris,
            shape,
            field,
            rank,
        })
    }

    fn push(&self, handle: u64, timeout: u64, taken: &mut usize) -> i32 {
        let uris: Vec<*const c_char> = self.uris.iter().map(|uri| uri.as_ptr()).collect();
        let column = TableColumn {
            field: self.field,
            rank: self.rank,
            uris: uris.as_ptr(),
            n_uris: uris.len() as u32,
            which: self.which.as_ptr(),
            begin: self.begin.as_ptr(),
            shape: self.shape.as_ptr(),
            step: self.step.as_ptr(),
            at: self.at.as_ptr(),
            ..TableColumn::EMPTY
        };
        let (count, tags) = (self.tags.len(), self.tags.as_ptr());
        let size = size_of::<TableColumn>() as u32;
        // SAFETY: each array has a row for each of `count` samples.
        unsafe { wavetrain_push_table(handle, &column, 1, size, count, tags, timeout, taken) }
    }
}

impl Session<'_> {
    fn sample(&mut self, at: usize) -> Made {
        let config = self.loaders[at].config;
        if self.loaders[at].fields[0].takes_parts {
            return self.sample_of_boxes(at);
        }
        let shape = config.sample_shape[..config.sample_rank as usize].to_vec();
        let tag = self.next_tag;
        self.next_tag += 1;
        let array = self.array(&config);
        let (mut begin, mut end) = self.span(array, &shape, &config);
        let mut want = self.want(array, &config, &begin, &end);
        let mut uri = match self.choices.below(6) {
            0 if array.home == array.uri && array.uri.starts_with('/') => {
                format!("file://{}", array.uri.replace(' ', "%20"))
            }
            1 if array.home == array.uri => format!("{}/", array.uri),
            _ => array.uri.to_owned(),
        }
        .into_bytes();
        let mut refusal = Refusal::None;
        let mut raw = SampleBox::BLANK;
        let mut sample = Sample { boxes: null(), n_boxes: 1, box_bytes: 0, tag };
        let mut spare = 0;
        if self.choices.rarely(5) {
            refusal = Refusal::Other;
            match self.choices.below(12) {
                0 => refusal = Refusal::NoBox,
                1 => sample.n_boxes = self.choices.one_of(&[0, 2, u32::MAX]),
                2 => uri = self.choices.one_of(&REFUSED_URIS).as_bytes().to_vec(),
                3 => uri = b"/m/\xFF\xFE".to_vec(),
                4 => uri = b"/m/\0u16".to_vec(),
                5 => uri = vec![b'a'; 4096],
                6 => raw.reserved = 1,
                7 => (begin[0], end[0]) = (i64::MIN, i64::MAX),
                8 => end[0] = begin[0],
                9 => spare = 1,
                10 => {
                    // The hook is asked for uris of any scheme, which no file of the system has.
                    let absent = self.choices.one_of(&["/m/absent", "s3://bucket/array"]);
                    uri = absent.as_bytes().to_vec();
                    want = Want::Failure;
                    if absent.starts_with('/') || config.files.size.is_some() {
                        refusal = Refusal::None;
                    }
                }
                _ => {
                    let bad = self.bad_uri(&config);
                    (uri, want, refusal) = (bad.into_bytes(), Want::Failure, Refusal::None);
                }
            }
        }
        let rank = begin.len();
        raw.rank = rank as u32;
        raw.begin[..rank].copy_from_slice(&begin);
        raw.end[..rank].copy_from_slice(&end);
        (raw.uri, raw.uri_bytes) = (uri.as_ptr().cast(), uri.len() as u64);
        let known = size_of::<SampleBox>();
        let box_bytes = self.choices.one_of(&[known, known, known + 8, OLD_BOX_BYTES]);
        // The first box had nothing that is reserved.
        let box_bytes = if raw.reserved > 0 { box_bytes.max(known) } else { box_bytes };
        sample.box_bytes = box_bytes as u32;
        let mut boxes = vec![0; box_bytes];
        put(&mut boxes, &raw);
        if spare == 1 {
            sample.box_bytes = 279;
        }
        let (uris, models, has_fed) = (vec![uri], Vec::new(), false);
        let expected = Expected { tag, want, position: 0 };
        Made { sample, boxes, uris, models, has_fed, refusal, expected }
    }

    /// Several boxes, of arrays and of what is fed, to any of the fields.
    fn sample_of_boxes(&mut self, at: usize) -> Made {
        let (fields, config) = (self.loaders[at].fields.clone(), self.loaders[at].config);
        let most = match config.max_boxes_per_sample {
            0 => fields.len(),
            most => most as usize,
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        let known = size_of::<SampleBox>();
        let box_bytes = self.choices.one_of(&[known, known, known + 8, OLD_BOX_BYTES]);
        let takes_fed = config.max_boxes_per_sample > 0 || !fields[0].name.is_empty();
        let (mut models, mut uris) = (Vec::new(), Vec::<Vec<u8>>::new());
        let mut arrays: Vec<Option<(&Array, u64)>> = Vec::new();
        for _ in 0..1 + self.choices.below(6.min(most as u64 + 1)) {
            let array = self.array(&config);
            let choices = &mut self.choices;
            let is_array = !takes_fed || box_bytes == OLD_BOX_BYTES || choices.below(2) == 0;
            let mut model = match is_array {
                true => BoxModel::of_array(choices, &fields, &array.image),
                false => BoxModel::choose(choices, &fields),
            };
            if box_bytes == OLD_BOX_BYTES {
                (model.field, model.at) = (0, [0; 16]);
                model.step.fill(0);
                model.axes.fill(0);
            } else if is_array && config.max_indices_per_sample > 0 && choices.rarely(2) {
                model.choose_lists(choices, &fields);
            }
            if is_array {
                model.look_at(array, &fields);
            }
            // Boxes that meet are refused, which is worth a try but now and then.
            let met = models.len();
            models.push(model);
            if met > 0 && !choices.rarely(6) && paint(&fields, &models) == Err(Fault::Box) {
                models.pop();
                continue;
            }
            let field = models.last().and_then(|model| fields.get(model.field as usize));
            let chunk_bytes = field.map_or(0, |field| field.chunk_bytes(array, &config));
            arrays.push(is_array.then_some((array, chunk_bytes)));
            uris.push(if is_array { array.uri.as_bytes().to_vec() } else { Vec::new() });
        }
        let choices = &mut self.choices;
        let painted = paint(&fields, &models);
        let indices: u64 = models.iter().map(BoxModel::index_count).sum();
        let is_taken = painted != Err(Fault::Box)
            && models.len() <= most
            && indices <= u64::from(config.max_indices_per_sample);
        let mut refusal = if is_taken { Refusal::None } else { Refusal::Other };
        let mut raws: Vec<SampleBox> = models.iter().map(BoxModel::raw).collect();
        for (raw, uri) in raws.iter_mut().zip(&uris).filter(|(_, uri)| !uri.is_empty()) {
            (raw.uri, raw.uri_bytes) = (uri.as_ptr().cast(), uri.len() as u64);
        }
        let count = raws.len() as u32;
        let mut sample = Sample { boxes: null(), n_boxes: count, box_bytes: box_bytes as u32, tag };
        if choices.rarely(8) {
            let raw = &mut raws[choices.below(u64::from(count)) as usize];
            let is_array = !raw.uri.is_null();
            refusal = Refusal::Other;
            match choices.below(8) {
                0 => refusal = Refusal::NoBox,
                1 => sample.n_boxes = choices.one_of(&[0, u32::MAX, most as u32 + 1]),
                2 => sample.box_bytes = choices.one_of(&[0, 279, 8]),
                3 => raw.rank = choices.one_of(&[17, u32::MAX]),
                4 if box_bytes >= known => raw.reserved = 1,
                5 if !is_array => (raw.uri, raw.uri_bytes) = (c"/m".as_ptr(), 2),
                5 if box_bytes >= known => raw.tensor = &FedTensor::EMPTY,
                6 if !is_array => raw.tensor = null(),
                _ => raw.kind = choices.one_of(&[3, u32::MAX]),
            }
        }
        let mut boxes = vec![0; box_bytes * raws.len()];
        for (raw, place) in raws.iter().zip(boxes.chunks_exact_mut(box_bytes)) {
            put(place, raw);
        }
        let want = self.want_of_boxes(&config, &arrays, painted);
        let has_fed = arrays.iter().any(Option::is_none);
        let expected = Expected { tag, want, position: 0 };
        Made { sample, boxes, uris, models, has_fed, refusal, expected }
    }

    /// What must become of boxes that push takes.
    fn want_of_boxes(
        &self,
        config: &Config,
        arrays: &[Option<(&Array, u64)>],
        painted: Result<Vec<Painted>, Fault>,
    ) -> Want {
        let is_refused =
            |(array, chunk_bytes): &(&Array, u64)| Session::is_refused(array, *chunk_bytes, config);
        let has_refused = arrays.iter().flatten().any(is_refused);
        let arrays = || arrays.iter().flatten().map(|(array, _)| *array);
        let is_damaged = |array: &Array| self.server.touches(array) && !self.server.spares(array);
        if arrays().any(is_damaged) {
            return Want::Anything;
        }
        let Some(painted) = painted.ok().filter(|_| !has_refused) else {
            return Want::Failure;
        };
        let is_strict = config.max_shards_per_sample > 0
            || (config.missing_chunks > 0 && arrays().any(|array| array.has_missing))
            || config.max_substreams_per_chunk > 0
            || arrays().any(|array| self.may_wait_for_parts(array, config));
        match is_strict || arrays().any(|array| self.server.touches(array)) {
            true => Want::BytesOrFailure(painted),
            false => Want::Bytes(painted),
        }
    }

    /// A box of the sample's shape in the last axes of the array, mostly inside it.
    fn span(&mut self, array: &Array, shape: &[u64], config: &Config) -> (Vec<i64>, Vec<i64>) {
        let extents = &array.image.shape;
        let choices = &mut self.choices;
        let rank = if choices.rarely(12) { shape.len() } else { extents.len().max(shape.len()) };
        let dropped = rank - shape.len();
        let margin = if config.pad_mode == PAD_NONE && !choices.rarely(10) { 0 } else { 4 };
        (0..rank)
            .map(|axis| {
                let length = if axis < dropped { 1 } else { shape[axis - dropped] as i64 };
                let extent = extents.get(axis).copied().unwrap_or(1) as i64;
                let room = (extent - length + 1 + 2 * margin).max(1);
                let begin = choices.below(room as u64) as i64 - margin;
                (begin, begin.wrapping_add(length))
            })
            .unzip()
    }

    /// What the oracle says of a box.
    fn want(&self, array: &Array, config: &Config, begin: &[i64], end: &[i64]) -> Want {
        let image = &array.image;
        let dtype = Dtype::from_code(config.dtype).expect("it was opened");
        let is_copy = dtype == Dtype::Raw;
        let fits = if is_copy {
            config.dtype_bytes == image.dtype.bytes()
        } else {
            has_cast(image.dtype, dtype)
        };
        let extents = || image.shape.iter().zip(begin.iter().zip(end));
        let is_inside = extents().all(|(n, (begin, end))| 0 <= *begin && *end <= *n as i64);
        let touches = extents().all(|(n, (begin, end))| *begin < *n as i64 && 0 < *end);
        let pad = [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect][config.pad_mode as usize];
        let is_reachable = match pad {
            _ if is_inside => true,
            Pad::None => false,
            Pad::Constant | Pad::Edge => true,
            Pad::Reflect => touches,
        };
        let is_sound = fits && is_reachable && begin.len() == image.shape.len();
        if self.server.touches(array) && !self.server.spares(array) {
            return Want::Anything;
        }
        if !is_sound || Session::is_refused(array, array.chunk_bytes, config) {
            return Want::Failure;
        }
        let is_strict = config.max_shards_per_sample > 0
            || (config.missing_chunks > 0 && array.has_missing)
            || config.max_substreams_per_chunk > 0
            || self.may_wait_for_parts(array, config);
        let bytes = self.bytes(image, config, (begin, end), pad);
        let filled_shape = config.sample_shape[..config.sample_rank as usize].to_vec();
        let bytes = vec![Painted { bytes, filled_shape }];
        match is_strict || self.server.touches(array) {
            true => Want::BytesOrFailure(bytes),
            false => Want::Bytes(bytes),
        }
    }

    /// What a box holds that can be had.
    fn bytes(
        &self,
        image: &Image,
        config: &Config,
        (begin, end): (&[i64], &[i64]),
        pad: Pad,
    ) -> Vec<u8> {
        let dtype = Dtype::from_code(config.dtype).expect("it was opened");
        let is_copy = dtype == Dtype::Raw;
        let crop = |outside: &[u8]| image.crop(begin, end, pad, outside);
        let convert = |bytes: &[u8]| match is_copy {
            true => bytes.to_vec(),
            false => cast(image.dtype, dtype, bytes),
        };
        if config.pad_mode != PAD_CONSTANT || config.pad_value_set == 0 {
            return convert(&crop(&image.fill));
        }
        let size = if is_copy { config.dtype_bytes } else { dtype.bytes() };
        let element = value_element(config.pad_value, dtype, size).expect("open has checked it");
        let element = &element[..size as usize];
        // Two crops with different marks tell what lies outside.
        let bytes = image.dtype.bytes() as usize;
        let (zeros, ones) = (crop(&vec![0; bytes]), crop(&vec![1; bytes]));
        let marks = zeros.chunks(bytes).zip(ones.chunks(bytes)).map(|(zero, one)| zero != one);
        let values = convert(&zeros);
        let values = values.chunks(size as usize).zip(marks);
        let values = values.flat_map(|(value, is_out)| if is_out { element } else { value });
        values.copied().collect()
    }
}

/// A box at a place of as many bytes as its maker knows.
fn put(place: &mut [u8], raw: &SampleBox) {
    let common = place.len().min(size_of::<SampleBox>());
    // SAFETY: the place has as many bytes; the struct is plain old data.
    unsafe {
        let source = std::ptr::from_ref(raw).cast::<u8>();
        std::ptr::copy_nonoverlapping(source, place.as_mut_ptr(), common);
    }
}

unsafe extern "C" fn alloc(user: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    // SAFETY: the heap outlives the loader, and open runs on one thread.
    let heap = unsafe { &*user.cast::<Heap>() };
    if heap.left.get() == 0 {
        return null_mut();
    }
    heap.left.set(heap.left.get() - 1);
    heap.live.set(heap.live.get() + 1);
    let layout = std::alloc::Layout::from_size_align(bytes as usize, align as usize).unwrap();
    // SAFETY: the size is not 0.
    unsafe { std::alloc::alloc(layout) }.cast()
}

unsafe extern "C" fn free(user: *mut c_void, block: *mut c_void, bytes: u64, align: u64) {
    // SAFETY: as in `alloc`.
    let heap = unsafe { &*user.cast::<Heap>() };
    heap.live.set(heap.live.get().checked_sub(1).expect("a block that was given out"));
    let layout = std::alloc::Layout::from_size_align(bytes as usize, align as usize).unwrap();
    // SAFETY: the block is from `alloc`, with the same numbers.
    unsafe { std::alloc::dealloc(block.cast(), layout) };
}

unsafe extern "C" fn log(
    _user: *mut c_void,
    level: u32,
    _tag: u64,
    text: *const c_char,
    text_bytes: u64,
) {
    // SAFETY: the text has a NUL and lives during the call.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    assert_eq!(text.to_bytes().len() as u64, text_bytes);
    assert!(level <= 6 && text.to_str().is_ok_and(|text| !text.contains('\n')));
}
