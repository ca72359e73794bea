//! struct_size, byte by byte: every size that an older or a newer header could state, for every
//! struct that the C surface reads or writes.
//!
//! In: structs in heap blocks of just the size that they state, so that a sanitizer sees a byte
//! read or written past it. The oracle of a struct that is read: the same call with the first bytes
//! of it and the defaults behind them. Of one that is written: the first bytes of the whole one.

use crate::common::drive::{PATIENCE_NS, config};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::ffi::{CString, c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr::{null, null_mut};
use wavetrain::abi::*;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::SCRATCH_BYTES;
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

const OK: i32 = Status::Ok as i32;
const INVALID: i32 = Status::Invalid as i32;
const POISON: u8 = 0xA5;

/// Bytes of struct_size itself.
const HEAD: usize = size_of::<usize>();

/// Sizes past the known one that are tried, and one far off.
const NEWER: [usize; 4] = [1, 8, 64, 3000];

fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: these structs are plain old data whose fields leave no gaps.
    unsafe { std::slice::from_raw_parts(start, size_of::<T>()).to_vec() }
}

/// A block of `size` bytes that states it: `known`, as much as goes in, then `filler`.
fn stated(size: usize, known: &[u8], filler: u8) -> Vec<u8> {
    let mut block = vec![filler; size.max(HEAD)];
    let common = known.len().min(block.len());
    block[..common].copy_from_slice(&known[..common]);
    block[..HEAD].copy_from_slice(&size.to_ne_bytes());
    block
}

fn text(error: &Error) -> String {
    let bytes = error.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

/// A config that differs from the defaults in many fields.
fn odd_config() -> Config {
    Config {
        n_batch_slots: 5,
        lookahead_samples: 7,
        max_substreams_per_chunk: 3,
        max_shards_per_sample: 9,
        chunk_cache_bytes: 1 << 17,
        on_error: 1,
        pad_mode: 1,
        pad_value: 3.0,
        thread_mode: THREADS_PUMP,
        log_level: 5,
        max_host_memory_bytes: 0,
        ..config(Dtype::U16, &[4, 4], 3)
    }
}

/// What memory_need says of a config: status, bill and text.
fn need(config: *const Config) -> (i32, Vec<u8>, String) {
    let mut memory = Memory::EMPTY;
    let mut error = Error::EMPTY;
    // SAFETY: the config has the bytes that it states, the others are whole.
    let code = unsafe { wavetrain_memory_need(config, &mut memory, &mut error) };
    (code, bytes_of(&memory), text(&error))
}

#[test]
fn of_a_smaller_config_the_rest_takes_its_defaults() {
    let given = bytes_of(&odd_config());
    let mut accepted = 0;
    for size in HEAD..size_of::<Config>() {
        let cut = stated(size, &given, 0);
        let mut whole = Config::default();
        let target = (&raw mut whole).cast::<u8>();
        // SAFETY: the config is longer than what is copied, and any bytes are a config.
        unsafe { std::ptr::copy_nonoverlapping(given.as_ptr(), target, size) };
        let answer = need(cut.as_ptr().cast());
        assert_eq!(answer, need(&whole), "struct_size = {size}");
        accepted += usize::from(answer.0 == OK);
    }
    assert!(accepted > size_of::<Config>() / 2, "{accepted} sizes were accepted");
}

#[test]
fn a_config_without_a_size_is_invalid() {
    let given = bytes_of(&odd_config());
    for size in 0..HEAD {
        let (code, _, text) = need(stated(size, &given, 0).as_ptr().cast());
        assert_eq!(code, INVALID);
        assert!(text.contains(&format!("config.struct_size = {size}")), "{text}");
    }
}

#[test]
fn a_newer_config_of_zeros_is_accepted() {
    let given = bytes_of(&odd_config());
    let known = need(given.as_ptr().cast());
    for more in NEWER {
        let newer = stated(size_of::<Config>() + more, &given, 0);
        assert_eq!(need(newer.as_ptr().cast()), known, "{more} bytes more");
    }
}

#[test]
fn an_unknown_byte_of_a_newer_config_is_refused_by_its_place() {
    let given = bytes_of(&odd_config());
    for more in NEWER {
        for place in [0, more / 2, more - 1] {
            let mut newer = stated(size_of::<Config>() + more, &given, 0);
            newer[size_of::<Config>() + place] = 1;
            let (code, _, text) = need(newer.as_ptr().cast());
            assert_eq!(code, INVALID);
            let byte = size_of::<Config>() + place;
            assert!(text.contains("config.struct_size"), "{text}");
            assert!(text.contains(&format!("byte {byte} ")), "{text}");
        }
    }
}

/// Name, place and size of each hook of a config.
fn hooks() -> [(&'static str, usize, usize); 8] {
    [
        ("memory", offset_of!(Config, memory), size_of::<MemoryHook>()),
        ("files", offset_of!(Config, files), size_of::<FilesHook>()),
        ("log", offset_of!(Config, log), size_of::<LogHook>()),
        ("fatal", offset_of!(Config, fatal), size_of::<FatalHook>()),
        ("workers", offset_of!(Config, workers), size_of::<WorkersHook>()),
        ("profiler", offset_of!(Config, profiler), size_of::<ProfilerHook>()),
        ("source", offset_of!(Config, source), size_of::<SourceHook>()),
        ("store", offset_of!(Config, store), size_of::<StoreHook>()),
    ]
}

/// The config with a hook that states `size`.
fn with_hook_size(config: &Config, place: usize, size: usize) -> Vec<u8> {
    let mut bytes = bytes_of(config);
    bytes[place..place + HEAD].copy_from_slice(&size.to_ne_bytes());
    bytes
}

#[test]
fn of_a_smaller_hook_in_a_config_the_rest_takes_its_defaults() {
    let config = odd_config();
    let plain = need(&config);
    for (name, place, known) in hooks() {
        for size in HEAD..known {
            let mut bytes = with_hook_size(&config, place, size);
            // What lies past the size is nobody's, also where it would be a function.
            bytes[place + size..place + known].fill(POISON);
            assert_eq!(need(bytes.as_ptr().cast()), plain, "{name}.struct_size = {size}");
        }
    }
}

#[test]
fn a_hook_in_a_config_without_a_size_or_with_a_larger_one_is_refused_by_name() {
    let config = odd_config();
    for (name, place, known) in hooks() {
        for size in (0..HEAD).chain([known + 1, known + 8, usize::MAX]) {
            let (code, _, text) = need(with_hook_size(&config, place, size).as_ptr().cast());
            assert_eq!(code, INVALID, "{name}.struct_size = {size}");
            assert!(text.starts_with(&format!("{name}.struct_size = {size}")), "{text}");
        }
    }
}

/// An array of 4 x 4 whose chunk is larger than the least cap.
fn array(scratch: &Scratch) -> CString {
    let bytes: Vec<u8> = (0..32).collect();
    let uri = Meta::u16(&[4, 4], &[4, 4], None).write(scratch, "array", Some(&bytes));
    CString::new(uri).unwrap()
}

#[test]
fn config_fit_writes_the_size_that_is_stated_and_leaves_smaller_hooks_alone() {
    let scratch = Scratch::new();
    // A chunk with a checksum is decoded whole.
    let codecs = r#",{"name":"crc32c"}"#;
    let meta = Meta { codecs, ..Meta::u16(&[4, 4], &[4, 4], None) };
    let uri = CString::new(meta.write(&scratch, "array", None)).unwrap();
    let mut config = odd_config();
    config.max_chunk_uncompressed_bytes = 1;
    // It can hold what is left of a pad_value that is cut.
    config.dtype = Dtype::F64 as u32;
    let mut expected = bytes_of(&Config { max_chunk_uncompressed_bytes: 32, ..config });
    let place = offset_of!(Config, memory);
    expected[place..place + HEAD].copy_from_slice(&HEAD.to_ne_bytes());
    expected[place + HEAD..offset_of!(Config, files)].fill(POISON);
    let first = offset_of!(Config, max_read_op_bytes);
    let mut block = vec![0; SCRATCH_BYTES];
    let newer = NEWER.map(|more| size_of::<Config>() + more);
    for size in (first..=size_of::<Config>()).chain(newer) {
        let mut given = stated(size, &expected, 0);
        let cap = offset_of!(Config, max_chunk_uncompressed_bytes);
        given[cap..cap + 8].copy_from_slice(&1u64.to_ne_bytes());
        let uris = [uri.as_ptr()];
        let mut error = Error::EMPTY;
        // SAFETY: the config has the bytes that it states, the others are whole.
        let code = unsafe {
            let (config, start) = (given.as_mut_ptr().cast(), block.as_mut_ptr().cast());
            wavetrain_config_fit(config, uris.as_ptr(), 1, start, SCRATCH_BYTES, &mut error)
        };
        assert_eq!((code, text(&error)), (OK, String::new()), "struct_size = {size}");
        assert!(given == stated(size, &expected, 0), "struct_size = {size}");
    }
}

unsafe extern "C" fn size_of_file(user: *mut c_void, _name: *const c_char) -> i64 {
    // SAFETY: the user is the document.
    let document = unsafe { &*user.cast::<String>() };
    document.len() as i64
}

unsafe extern "C" fn read_file(
    user: *mut c_void,
    _name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the user is the document.
    let document = unsafe { &*user.cast::<String>() };
    let source = &document.as_bytes()[offset as usize..][..bytes as usize];
    // SAFETY: the target has as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.cast(), source.len()) };
    0
}

/// array_info through a hook that serves one document for every name.
fn info_through(hook: *const FilesHook) -> (i32, u32, String) {
    let mut info = ArrayInfo::EMPTY;
    let mut error = Error::EMPTY;
    let mut block = vec![0; SCRATCH_BYTES];
    let uri = c"/nowhere/array".as_ptr();
    // SAFETY: the hook has the bytes that it states, the others are whole.
    let code = unsafe {
        let start = block.as_mut_ptr().cast();
        wavetrain_array_info(uri, hook, start, SCRATCH_BYTES, &mut info, &mut error)
    };
    (code, info.rank, text(&error))
}

#[test]
fn of_a_smaller_files_argument_the_rest_takes_its_defaults() {
    let mut document = Meta::u16(&[4, 4], &[4, 4], None).text();
    let user = (&raw mut document).cast();
    let hook =
        FilesHook { user, size: Some(size_of_file), read: Some(read_file), ..FilesHook::NONE };
    let given = bytes_of(&hook);
    let whole = offset_of!(FilesHook, read) + HEAD;
    assert_eq!(info_through(&hook), (OK, 2, String::new()));
    // Pointers are whole here: half of one leads nowhere.
    for size in (HEAD..=size_of::<FilesHook>()).step_by(HEAD) {
        let (code, rank, text) = info_through(stated(size, &given, POISON).as_ptr().cast());
        match size {
            _ if size >= whole => assert_eq!((code, rank), (OK, 2), "{text}"),
            // A hook that can say how long a file is and cannot read it.
            _ if size > offset_of!(FilesHook, size) => {
                assert_eq!(code, INVALID);
                assert!(text.starts_with("files: size and read"), "{text}");
            }
            // The system has no such file.
            _ => assert_eq!(code, Status::NotFound as i32, "{text}"),
        }
    }
    for more in NEWER {
        let mut newer = stated(size_of::<FilesHook>() + more, &given, 0);
        assert_eq!(info_through(newer.as_ptr().cast()).0, OK);
        newer[size_of::<FilesHook>() + more - 1] = 1;
        let (code, _, text) = info_through(newer.as_ptr().cast());
        assert_eq!(code, INVALID);
        assert!(text.starts_with("files.struct_size"), "{text}");
    }
    for size in 0..HEAD {
        let (code, _, text) = info_through(stated(size, &given, 0).as_ptr().cast());
        assert_eq!(code, INVALID);
        assert!(text.starts_with(&format!("files.struct_size = {size}")), "{text}");
    }
}

/// Fills a struct of every size; it must hold the first bytes of the whole one and no more.
/// `expected`: the status of sizes that can be written; `unsized_status`: that of the others.
fn check_written<T: Copy>(
    name: &str,
    fill: impl Fn(*mut T) -> i32,
    expected: i32,
    unsized_status: i32,
) {
    let mut whole = stated(size_of::<T>(), &[], POISON);
    assert_eq!(fill(whole.as_mut_ptr().cast()), expected, "{name}");
    let newer = NEWER.map(|more| size_of::<T>() + more);
    for size in (0..=size_of::<T>()).chain(newer) {
        let mut block = stated(size, &[], POISON);
        let code = fill(block.as_mut_ptr().cast());
        if size < HEAD {
            assert_eq!(code, unsized_status, "{name}: struct_size = {size}");
            assert!(block == stated(size, &[], POISON), "{name}: struct_size = {size}");
            continue;
        }
        assert_eq!(code, expected, "{name}: struct_size = {size}");
        assert!(block == stated(size, &whole, POISON), "{name}: struct_size = {size}");
    }
    assert_eq!(fill(null_mut()), unsized_status, "{name}: NULL");
}

#[test]
fn of_every_struct_that_is_written_the_first_bytes_are() {
    let scratch = Scratch::new();
    let uri = array(&scratch);
    let config = Config { thread_mode: THREADS_PUMP, ..config(Dtype::U16, &[4, 4], 1) };
    let bad = Config { sample_rank: 99, ..config };
    let mut loader = 0;
    // SAFETY: all is whole.
    unsafe {
        assert_eq!(wavetrain_open(&config, &mut loader, null_mut()), OK);
        check_written::<Memory>(
            "memory_need",
            |need| wavetrain_memory_need(&config, need, null_mut()),
            OK,
            INVALID,
        );
        check_written::<Error>(
            "error of open",
            |error| wavetrain_open(&bad, &mut 0, error),
            INVALID,
            INVALID,
        );
        check_written::<Error>(
            "error of pop",
            |error| wavetrain_pop(loader, 0, &mut 0, error),
            Status::Again as i32,
            Status::Again as i32,
        );
        let batch = pop_one(loader, &uri);
        check_written::<BatchInfo>(
            "batch_info",
            |view| wavetrain_batch_info(loader, batch, 0, view),
            OK,
            INVALID,
        );
        check_written::<Stats>("stats", |stats| wavetrain_stats(loader, stats), OK, INVALID);
        check_written::<Error>(
            "last_error",
            |error| wavetrain_last_error(loader, error),
            OK,
            INVALID,
        );
        let block = std::cell::RefCell::new(vec![0u8; SCRATCH_BYTES]);
        check_written::<ArrayInfo>(
            "array_info",
            |info| {
                let start = block.borrow_mut().as_mut_ptr().cast();
                wavetrain_array_info(uri.as_ptr(), null(), start, SCRATCH_BYTES, info, null_mut())
            },
            OK,
            INVALID,
        );
        assert_eq!(wavetrain_release(loader, batch, null_mut()), OK);
        assert_eq!(wavetrain_close(loader, PATIENCE_NS, null_mut()), OK);
    }
}

#[test]
fn config_default_fills_the_size_that_is_asked_for() {
    let known = bytes_of(&Config::default());
    let newer = NEWER.map(|more| size_of::<Config>() + more);
    for size in (0..=size_of::<Config>()).chain(newer) {
        let mut block = vec![POISON; size];
        // SAFETY: the block has `size` bytes.
        let code = unsafe { wavetrain_config_default(block.as_mut_ptr().cast(), size) };
        if size < HEAD {
            assert_eq!((code, block), (INVALID, vec![POISON; size]));
            continue;
        }
        assert_eq!(code, OK);
        assert!(block == stated(size, &known, 0), "struct_size = {size}");
    }
}

/// A sample of the array, in blocks of these sizes, the bytes past ours all `filler`.
struct Sized {
    sample: Vec<u8>,
    boxes: Vec<u8>,
}

fn sized(uri: &CString, sizes: (usize, usize), fillers: (u8, u8)) -> Sized {
    let (sample_bytes, box_bytes) = sizes;
    let mut raw = SampleBox {
        uri: uri.as_ptr(),
        uri_bytes: uri.as_bytes().len() as u64,
        rank: 2,
        ..Blank::BLANK
    };
    raw.end[..2].fill(4);
    let fit = |bytes: Vec<u8>, size: usize, filler: u8| {
        let mut block = bytes;
        block.resize(size, filler);
        block
    };
    let boxes = fit(bytes_of(&raw), box_bytes, fillers.1);
    let sample =
        Sample { boxes: boxes.as_ptr().cast(), n_boxes: 1, box_bytes: box_bytes as u32, tag: 5 };
    Sized { sample: fit(bytes_of(&sample), sample_bytes, fillers.0), boxes }
}

/// Pushes it; the status, and why.
fn push(loader: u64, sized: &Sized) -> (i32, String) {
    assert!(!sized.boxes.is_empty() || sized.sample.is_empty());
    let mut taken = 0;
    let mut error = Error::EMPTY;
    let (samples, bytes) = (sized.sample.as_ptr().cast(), sized.sample.len());
    // SAFETY: the sample and its box have the bytes that they state.
    let code = unsafe { wavetrain_push(loader, samples, 1, bytes, PATIENCE_NS, &mut taken) };
    assert_eq!(taken, usize::from(code == OK));
    // SAFETY: whole.
    assert_eq!(unsafe { wavetrain_last_error(loader, &mut error) }, OK);
    (code, text(&error))
}

fn pop_one(loader: u64, uri: &CString) -> u64 {
    let sizes = (size_of::<Sample>(), size_of::<SampleBox>());
    assert_eq!(push(loader, &sized(uri, sizes, (0, 0))).0, OK);
    let mut batch = 0;
    // SAFETY: writable.
    assert_eq!(unsafe { wavetrain_pop(loader, PATIENCE_NS, &mut batch, null_mut()) }, OK);
    batch
}

#[test]
fn a_size_beside_its_struct_that_cuts_a_pointer_in_two_is_refused_by_its_name() {
    let scratch = Scratch::new();
    let uri = array(&scratch);
    let config = Config {
        thread_mode: THREADS_PUMP,
        lookahead_samples: 1000,
        ..config(Dtype::U16, &[4, 4], 1)
    };
    let known = (size_of::<Sample>(), size_of::<SampleBox>());
    let mut loader = 0;
    // SAFETY: all is whole.
    assert_eq!(unsafe { wavetrain_open(&config, &mut loader, null_mut()) }, OK);
    let first = offset_of!(SampleBox, field);
    for (sizes, name, size) in (known.0..known.0 + 40)
        .map(|size| ((size, known.1), "sample_bytes", size))
        .chain((first..known.1 + 40).map(|size| ((known.0, size), "box_bytes", size)))
    {
        let (code, text) = push(loader, &sized(&uri, sizes, (0, 0)));
        if size % 8 == 0 {
            assert_eq!(code, OK, "{name} = {size}: {text}");
            continue;
        }
        assert_eq!(code, INVALID, "{name} = {size}");
        assert!(text.starts_with(&format!("{name} = {size}: must be")), "{text}");
        assert!(text.contains("a multiple of 8"), "{text}");
    }
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { wavetrain_close(loader, PATIENCE_NS, null_mut()) }, OK);
    let spec = size_of::<FieldSpec>();
    let mut field = FieldSpec { sample_rank: 1, dtype: Dtype::U16 as u32, ..FieldSpec::BLANK };
    (field.name[0], field.sample_shape[0]) = (b'm', 4);
    for size in spec..spec + 40 {
        let mut table = bytes_of(&field);
        table.resize(size, 0);
        let mut config = bytes_of(&Config { samples_per_batch: 2, ..Config::default() });
        let place = offset_of!(Config, fields);
        config[place..place + 8].copy_from_slice(&(table.as_ptr() as u64).to_ne_bytes());
        config[place + 8..place + 12].copy_from_slice(&1u32.to_ne_bytes());
        config[place + 12..place + 16].copy_from_slice(&(size as u32).to_ne_bytes());
        let (code, _, text) = need(config.as_ptr().cast());
        assert_eq!(code, if size % 8 == 0 { OK } else { INVALID }, "{size}: {text}");
        assert!(code == OK || text.starts_with(&format!("field_bytes = {size}: must")), "{text}");
    }
}

#[test]
fn samples_and_boxes_may_be_newer_but_not_smaller_or_with_unknown_bytes() {
    let scratch = Scratch::new();
    let uri = array(&scratch);
    let config = Config {
        thread_mode: THREADS_PUMP,
        lookahead_samples: 1000,
        ..config(Dtype::U16, &[4, 4], 1)
    };
    let known = (size_of::<Sample>(), size_of::<SampleBox>());
    let mut loader = 0;
    // SAFETY: all is whole.
    assert_eq!(unsafe { wavetrain_open(&config, &mut loader, null_mut()) }, OK);
    for more in NEWER.into_iter().filter(|more| more % 8 == 0) {
        let newer = (known.0 + more, known.1 + more);
        for sizes in [(newer.0, known.1), (known.0, newer.1), newer] {
            assert_eq!(push(loader, &sized(&uri, sizes, (0, 0))).0, OK, "{sizes:?}");
        }
        let (code, text) = push(loader, &sized(&uri, (newer.0, known.1), (1, 0)));
        assert_eq!(code, INVALID);
        assert!(text.starts_with(&format!("sample_bytes = {}", newer.0)), "{text}");
        assert!(text.contains(&format!("byte {} ", known.0)), "{text}");
        let (code, text) = push(loader, &sized(&uri, (known.0, newer.1), (0, 1)));
        assert_eq!(code, INVALID);
        assert!(text.starts_with(&format!("box_bytes = {}", newer.1)), "{text}");
        assert!(text.contains(&format!("byte {} ", known.1)), "{text}");
    }
    // What the first version has is needed, and enough.
    for size in 0..known.0 {
        let (code, text) = push(loader, &sized(&uri, (size, known.1), (0, 0)));
        assert_eq!(code, INVALID);
        assert!(text.starts_with(&format!("sample_bytes = {size}")), "{text}");
    }
    let first = offset_of!(SampleBox, field);
    for size in 1..first {
        let (code, text) = push(loader, &sized(&uri, (known.0, size), (0, 0)));
        assert_eq!(code, INVALID);
        assert!(text.starts_with(&format!("box_bytes = {size}")), "{text}");
    }
    for size in (first..known.1).step_by(8) {
        assert_eq!(push(loader, &sized(&uri, (known.0, size), (0, 0))).0, OK, "{size}");
    }
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { wavetrain_close(loader, PATIENCE_NS, null_mut()) }, OK);
}
