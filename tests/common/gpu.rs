//! A consumer of batches in device memory: a loader by its handle, and streams, events and pinned
//! memory of its own on a device.
//!
//! In: a [`Platform`]. Out: [`Gpu`], whose context is current on the thread that made it, and
//! [`Handle`], the C surface of a loader. Invariant: batches are looked at where they lie.

use crate::common::digest;
use crate::common::drive::{PATIENCE_NS, config};
use crate::common::fixtures::Scratch;
use crate::common::platform::{self, Platform};
use crate::common::synth::{self, Meta};
use std::cell::RefCell;
use std::ptr::{self, NonNull, null_mut};
use wavetrain::abi::{BatchInfo, Blank, Error, Memory, Sample, SampleBox, Stats, Target};
use wavetrain::batch::exports::DlManagedTensorVersioned;
use wavetrain::config::{BACKEND_CUDA, Config};
use wavetrain::cuda::Driver;
use wavetrain::cuda::handles::*;
use wavetrain::cuda::result::CuResult;
use wavetrain::loader::memory_need;
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

/// Extent of the array of places along both axes, of a chunk, and of a sample.
pub const EDGE: u64 = 64;
pub const CHUNK: u64 = 16;
pub const CROP: u64 = 24;
/// Bytes of a decoded chunk.
pub const CHUNK_BYTES: u64 = CHUNK * CHUNK * 2;
/// Samples of a batch.
pub const SAMPLES: usize = 2;

pub const OK: i32 = Status::Ok as i32;

/// An array of uint16, every element its place, in one shard of raw or of zstd chunks.
pub fn places(scratch: &Scratch, name: &str, is_zstd: bool) -> String {
    places_without(scratch, name, is_zstd, |_| false)
}

/// The same of zstd chunks, of which the first chunk of the first shard is damaged.
pub fn damaged(scratch: &Scratch) -> String {
    let uri = places(scratch, "damaged", true);
    let shard = std::path::Path::new(&uri).join("c/0/0");
    let mut bytes = std::fs::read(&shard).unwrap();
    // Its magic number.
    bytes[..4].fill(0xEE);
    std::fs::write(&shard, bytes).unwrap();
    uri
}

/// The same without some chunks, which read as 7.
pub fn places_without(
    scratch: &Scratch,
    name: &str,
    is_zstd: bool,
    is_absent: fn(u64) -> bool,
) -> String {
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#;
    let zstd = |raw: Vec<u8>| zstd::encode_all(&raw[..], 3).unwrap();
    match is_zstd {
        true => places_by(scratch, name, (codecs, &zstd), is_absent),
        false => places_by(scratch, name, ("", &|raw| raw), is_absent),
    }
}

/// The same in LZ4, as numcodecs writes it, all of it literals.
pub fn places_in_lz4(scratch: &Scratch, name: &str) -> String {
    let codecs = r#",{"name":"numcodecs.lz4","configuration":{"acceleration":1}}"#;
    let encode = |raw: Vec<u8>| {
        let rest = raw.len() - 15;
        let mut chunk = [&(raw.len() as u32).to_le_bytes()[..], &[0xF0]].concat();
        chunk.extend(std::iter::repeat_n(0xFF, rest / 255));
        chunk.push((rest % 255) as u8);
        chunk.extend(raw);
        chunk
    };
    places_by(scratch, name, (codecs, &encode), |_| false)
}

fn places_by(
    scratch: &Scratch,
    name: &str,
    (codecs, encode): (&'static str, &dyn Fn(Vec<u8>) -> Vec<u8>),
    is_absent: fn(u64) -> bool,
) -> String {
    let across = EDGE / CHUNK;
    let (mut payload, mut entries) = (Vec::new(), Vec::new());
    for chunk in 0..across * across {
        if is_absent(chunk) {
            entries.push((u64::MAX, u64::MAX));
            continue;
        }
        let (row, column) = (chunk / across * CHUNK, chunk % across * CHUNK);
        let places = (0..CHUNK * CHUNK)
            .map(|at| (row + at / CHUNK) * EDGE + column + at % CHUNK)
            .flat_map(|place| (place as u16).to_le_bytes());
        let data = encode(places.collect());
        entries.push((payload.len() as u64, data.len() as u64));
        payload.extend(data);
    }
    let meta = Meta { codecs, ..Meta::u16(&[EDGE, EDGE], &[CHUNK, CHUNK], Some(&[EDGE, EDGE])) };
    meta.write(scratch, name, Some(&synth::shard_bytes(&payload, &entries)))
}

/// Where the sample with this tag begins.
pub fn begin(tag: u64) -> [i64; 2] {
    [(tag % 37) as i64, (tag * 11 % 41) as i64]
}

/// What a batch with these tags holds.
pub fn expected(tags: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tag in tags {
        let [first, second] = begin(*tag);
        for row in 0..CROP {
            let place = (first as u64 + row) * EDGE + second as u64;
            bytes.extend((place..place + CROP).flat_map(|at| (at as u16).to_le_bytes()));
        }
    }
    bytes
}

/// Batches of places on the device, in the context of the [`Gpu`] that there is, else in the
/// primary one.
pub fn device_config(platform: &dyn Platform, slots: u32) -> Config {
    let has_context = platform.driver().ctx_get_current() != Ok(Context::NULL);
    Config {
        backend: BACKEND_CUDA,
        device: if has_context { -1 } else { 0 },
        cuda_driver: platform.driver_path(),
        n_batch_slots: slots,
        host_buffer_waves: 2,
        max_chunk_uncompressed_bytes: CHUNK_BYTES,
        ..config(Dtype::U16, &[CROP, CROP], SAMPLES)
    }
}

/// The least bytes of the device, and of the host with what is pinned, that a config takes.
pub fn floors(config: &Config) -> (u64, u64) {
    let caps = Config { max_gpu_memory_bytes: 1, max_host_memory_bytes: 1, ..*config };
    let Err((_, need)) = bill(&caps) else { panic!("no config takes a byte") };
    (need.device_bytes, need.host_bytes + need.pinned_bytes)
}

/// The config with the least memory that it takes: its slabs hold one chunk, so that every batch
/// takes many of them.
pub fn tight(config: &Config) -> Config {
    let (device, host) = floors(config);
    Config { max_gpu_memory_bytes: device, max_host_memory_bytes: host, ..*config }
}

/// The config with little more than that: a slab holds a batch of places.
pub fn roomy(config: &Config) -> Config {
    let (device, host) = floors(config);
    let (device, host) = (device + (2 << 20), host + 200_000);
    Config { max_gpu_memory_bytes: device, max_host_memory_bytes: host, ..*config }
}

/// The bill of a config; where it is refused, the text and the bill that would do.
pub fn bill(config: &Config) -> Result<Memory, (String, Memory)> {
    let mut need = Memory { struct_size: size_of::<Memory>(), ..Memory::EMPTY };
    let mut error = Error::EMPTY;
    // SAFETY: all are whole.
    let code = unsafe { wavetrain_memory_need(config, &mut need, &mut error) };
    assert_eq!(memory_need(config).is_ok(), code == OK);
    match Status::from_code(code) {
        Some(Status::Ok) => Ok(need),
        Some(Status::Budget) => Err((text(&error), need)),
        _ => panic!("{code}: {}", text(&error)),
    }
}

/// The text of an error.
pub fn text(error: &Error) -> String {
    let bytes = error.text.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

type CtxCreate = unsafe extern "C" fn(*mut Context, u32, i32) -> CuResult;
type CtxDestroy = unsafe extern "C" fn(Context) -> CuResult;

/// A context of the test's own, current on its thread, and what is made in it.
pub struct Gpu<'s> {
    pub platform: &'s dyn Platform,
    pub driver: &'static Driver,
    pub context: Context,
    streams: RefCell<Vec<Stream>>,
    events: RefCell<Vec<Event>>,
    pinned: RefCell<Vec<NonNull<u8>>>,
    memory: RefCell<Vec<DevicePointer>>,
}

impl<'s> Gpu<'s> {
    pub fn new(platform: &'s dyn Platform, device: i32) -> Gpu<'s> {
        let driver = platform.driver();
        let mut context = Context::NULL;
        // SAFETY: the entry has this type.
        let code = unsafe {
            let create: CtxCreate = std::mem::transmute(platform.entry(c"cuCtxCreate_v2"));
            create(&mut context, 0, device)
        };
        assert_eq!(code, CuResult::SUCCESS);
        let (streams, events, pinned, memory) = Default::default();
        Gpu { platform, driver, context, streams, events, pinned, memory }
    }

    pub fn stream(&self) -> Stream {
        self.stream_of(STREAM_NON_BLOCKING)
    }

    /// A stream that the legacy default stream orders.
    pub fn blocking_stream(&self) -> Stream {
        self.stream_of(STREAM_DEFAULT)
    }

    fn stream_of(&self, flags: u32) -> Stream {
        let stream = self.driver.stream_create(flags, 0).unwrap();
        self.streams.borrow_mut().push(stream);
        stream
    }

    pub fn event(&self) -> Event {
        let event = self.driver.event_create(EVENT_DISABLE_TIMING).unwrap();
        self.events.borrow_mut().push(event);
        event
    }

    /// Gives a stream back before all others go.
    pub fn end_stream(&self, stream: Stream) {
        self.streams.borrow_mut().retain(|other| *other != stream);
        // SAFETY: it was made here and is not named any more.
        unsafe { self.driver.stream_destroy(stream) }.unwrap();
    }

    /// Pinned bytes, poisoned.
    pub fn pinned(&self, bytes: usize) -> NonNull<u8> {
        let pinned = self.driver.mem_host_alloc(bytes as u64, MEM_HOST_PORTABLE).unwrap();
        // SAFETY: as many bytes were just taken.
        unsafe { pinned.write_bytes(0xC3, bytes) };
        self.pinned.borrow_mut().push(pinned);
        pinned
    }

    /// Bytes of the device, poisoned.
    pub fn memory(&self, bytes: usize) -> DevicePointer {
        let memory = self.driver.mem_alloc(bytes as u64).unwrap();
        self.memory.borrow_mut().push(memory);
        let stream = self.stream();
        // SAFETY: as many bytes were just taken, and they stay as long as the stream.
        unsafe { self.driver.memset_d8_async(memory, 0xC3, bytes as u64, stream) }.unwrap();
        self.synchronize(stream);
        memory
    }

    /// What a consumer does: reads a batch in its own time, on a stream.
    pub fn read_later(&self, view: &BatchInfo, target: NonNull<u8>, stream: Stream) {
        let source = DevicePointer(view.data as u64);
        // SAFETY: the target has as many bytes, and is looked at after the stream has run.
        let queued =
            unsafe { self.driver.memcpy_dtoh_async(target.as_ptr(), source, view.bytes, stream) };
        queued.unwrap();
    }

    pub fn synchronize(&self, stream: Stream) {
        self.driver.stream_synchronize(stream).unwrap();
    }

    /// Begins to capture a graph, in the mode that forbids most.
    pub fn begin_capture(&self, stream: Stream) {
        self.platform.begin_capture(stream, CaptureMode::GLOBAL).unwrap();
    }

    /// Ends a capture; how many nodes its graph has.
    pub fn end_capture(&self, stream: Stream) -> Result<usize, CuResult> {
        self.platform.end_capture(stream)
    }
}

impl Drop for Gpu<'_> {
    fn drop(&mut self) {
        // A test that failed may hold streams, which nobody can wait for.
        if std::thread::panicking() {
            return;
        }
        // SAFETY: all of it was made in this context, which is current; the loader is closed.
        unsafe {
            for stream in self.streams.take() {
                let _ = self.driver.stream_synchronize(stream);
                let _ = self.driver.stream_destroy(stream);
            }
            self.events.take().into_iter().for_each(|event| {
                let _ = self.driver.event_destroy(event);
            });
            self.pinned.take().into_iter().for_each(|pinned| {
                let _ = self.driver.mem_free_host(pinned);
            });
            self.memory.take().into_iter().for_each(|memory| {
                let _ = self.driver.mem_free(memory);
            });
            let entry = self.platform.entry(c"cuCtxDestroy_v2");
            std::mem::transmute::<*mut _, CtxDestroy>(entry)(self.context);
        }
    }
}

/// A loader by its handle.
pub struct Handle(pub u64);

/// What the C surface says where it fails: status and text.
pub type Refusal = (Status, String);

impl Handle {
    pub fn open(config: &Config) -> Result<Handle, Refusal> {
        let (mut handle, mut error) = (0, Error::EMPTY);
        // SAFETY: all are whole.
        let code = unsafe { wavetrain_open(config, &mut handle, &mut error) };
        if code == OK { Ok(Handle(handle)) } else { Err(refusal(code, &error)) }
    }

    /// Opens, or says why not.
    pub fn new(config: &Config) -> Handle {
        Handle::open(config).unwrap_or_else(|why| panic!("{why:?}"))
    }

    /// Pushes boxes of places with these tags.
    pub fn push(&self, uri: &str, tags: &[u64]) -> Result<(), Refusal> {
        for tag in tags {
            let mut raw = SampleBox {
                uri: uri.as_ptr().cast(),
                uri_bytes: uri.len() as u64,
                rank: 2,
                ..Blank::BLANK
            };
            for (axis, first) in begin(*tag).into_iter().enumerate() {
                (raw.begin[axis], raw.end[axis]) = (first, first + CROP as i64);
            }
            let box_bytes = size_of::<SampleBox>() as u32;
            let sample = Sample { boxes: &raw, n_boxes: 1, box_bytes, tag: *tag };
            let mut taken = 0;
            // SAFETY: the sample, its box and its uri are whole.
            let code = unsafe {
                wavetrain_push(self.0, &sample, 1, size_of::<Sample>(), PATIENCE_NS, &mut taken)
            };
            if code != OK {
                return Err(self.last_error(code));
            }
            assert_eq!(taken, 1);
        }
        Ok(())
    }

    pub fn flush(&self) -> Result<(), Refusal> {
        self.result(wavetrain_flush(self.0))
    }

    pub fn reset(&self) -> Result<(), Refusal> {
        self.result(wavetrain_reset(self.0))
    }

    /// The next batch, or what pop says instead.
    pub fn try_pop(&self, timeout_ns: u64) -> Result<u64, Refusal> {
        let (mut batch, mut error) = (0, Error::EMPTY);
        // SAFETY: both are whole.
        let code = unsafe { wavetrain_pop(self.0, timeout_ns, &mut batch, &mut error) };
        if code == OK { Ok(batch) } else { Err(refusal(code, &error)) }
    }

    pub fn pop(&self) -> u64 {
        self.try_pop(PATIENCE_NS).unwrap_or_else(|why| panic!("{why:?}"))
    }

    /// Pushes two samples and pops their batch.
    pub fn batch(&self, uri: &str, tags: &[u64; SAMPLES]) -> u64 {
        self.push(uri, tags).unwrap();
        self.pop()
    }

    pub fn view(&self, batch: u64) -> BatchInfo {
        // SAFETY: the struct is plain old data.
        let mut info: BatchInfo = unsafe { std::mem::zeroed() };
        info.struct_size = size_of::<BatchInfo>();
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_batch_info(self.0, batch, 0, &mut info) }, OK);
        info
    }

    pub fn release(&self, batch: u64, event: Option<Event>) -> Result<(), Refusal> {
        let event = event.map_or(null_mut(), Event::as_raw);
        // SAFETY: whoever made the event destroys it after the call.
        self.result(unsafe { wavetrain_release(self.0, batch, event) })
    }

    /// Lends memory for a batch of one field, behind an event or none.
    pub fn lend(
        &self,
        data: u64,
        bytes: u64,
        event: Option<Event>,
        tag: u64,
    ) -> Result<(), Refusal> {
        let target = Target { data: ptr::with_exposed_provenance_mut(data as usize), bytes };
        let event = event.map_or(null_mut(), Event::as_raw);
        let size = size_of::<Target>() as u32;
        // SAFETY: the memory stays until the loader is closed; the event is destroyed later.
        self.result(unsafe { wavetrain_lend(self.0, &target, 1, size, event, tag) })
    }

    /// A tensor for work on a stream.
    pub fn export(&self, batch: u64, stream: Stream) -> Result<Tensor, Refusal> {
        let mut tensor = null_mut();
        // SAFETY: the pointer is writable.
        let code = unsafe { wavetrain_dlpack(self.0, batch, 0, stream.as_raw(), &mut tensor) };
        self.result(code)?;
        Ok(Tensor(NonNull::new(tensor).expect("a tensor")))
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_stats(self.0, &mut stats) }, OK);
        stats
    }

    /// Status and number of held slots.
    pub fn close(&self, timeout_ns: u64) -> (Option<Status>, u32) {
        let mut held = 99;
        // SAFETY: writable.
        let code = unsafe { wavetrain_close(self.0, timeout_ns, &mut held) };
        (Status::from_code(code), held)
    }

    /// What ended the stream; else the status alone.
    pub fn last_error(&self, code: i32) -> Refusal {
        let mut error = Error::EMPTY;
        // SAFETY: the struct is whole.
        assert_eq!(unsafe { wavetrain_last_error(self.0, &mut error) }, OK);
        refusal(code, &error)
    }

    fn result(&self, code: i32) -> Result<(), Refusal> {
        if code == OK { Ok(()) } else { Err(self.last_error(code)) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let (status, held) = self.close(PATIENCE_NS);
            let is_closed = status == Some(Status::Ok) && held == 0;
            assert!(is_closed || status == Some(Status::Shutdown), "{status:?}, {held} held");
        }
    }
}

fn refusal(code: i32, error: &Error) -> Refusal {
    (Status::from_code(code).expect("a status"), text(error))
}

/// The bytes of a batch, where they lie.
pub fn bytes(view: &BatchInfo) -> Vec<u8> {
    if view.backend == BACKEND_CUDA {
        return platform::read(view.data, view.bytes as usize);
    }
    // SAFETY: nothing writes to a batch that is held.
    unsafe { std::slice::from_raw_parts(view.data.cast::<u8>(), view.bytes as usize) }.to_vec()
}

/// The tags of a batch.
pub fn tags(view: &BatchInfo) -> Vec<u64> {
    // SAFETY: there are as many, until the batch is released.
    unsafe { std::slice::from_raw_parts(view.tags, view.sample_count as usize) }.to_vec()
}

/// Looks whether a batch holds what its tags say.
pub fn check(view: &BatchInfo) {
    assert!(bytes(view) == expected(&tags(view)), "wrong bytes in batch {}", view.batch_id);
}

/// Looks whether a batch has the digests of its bytes; its first sample was pushed as number
/// `position`.
pub fn check_digests(view: &BatchInfo, position: u64) {
    let bytes = bytes(view);
    let samples = bytes.chunks_exact(bytes.len() / view.sample_count as usize);
    let expected: Vec<u64> = samples.map(digest::digest).collect();
    // SAFETY: there are as many, until the batch is released.
    let found = unsafe { std::slice::from_raw_parts(view.digests, view.sample_count as usize) };
    assert_eq!(found, expected, "batch {}", view.batch_id);
    assert_eq!(view.digest, digest::batch_digest(&expected, position), "batch {}", view.batch_id);
}

/// A tensor that lives.
#[derive(Clone, Copy)]
pub struct Tensor(pub NonNull<DlManagedTensorVersioned>);

// SAFETY: DLPack tensors may be used and deleted on any thread.
unsafe impl Send for Tensor {}

impl Tensor {
    pub fn delete(self) {
        // SAFETY: it lives.
        unsafe { self.0.as_ref().deleter.expect("a deleter")(self.0.as_ptr()) };
    }

    /// Its bytes, in device memory.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: it lives.
        let (data, shape) = unsafe {
            let tensor = &self.0.as_ref().dl_tensor;
            (tensor.data, std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize))
        };
        platform::read(data, shape.iter().product::<i64>() as usize * 2)
    }
}
