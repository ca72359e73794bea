//! Boxes with an affine map in loaders on the simulated device: whatever the memory, the threads
//! and the decoder are, batches have the bytes of the host.
//!
//! Samples have an image, its label by the same map, and a box without one, of one array; boxes
//! with a map may be fed it from memory.

use crate::common::arithmetic::Arithmetic;
use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::digest;
use crate::common::drive::{Dice, PATIENCE_NS, in_hook_mode, open};
use crate::common::fixtures::{Scratch, group_uri, store};
use crate::common::gpu::*;
use crate::common::oracle::has_cast;
use crate::common::platform::Platform;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::config::*;
use wavetrain::loader::{AffineMap, Feed, Interpolation, Loader, Memory, Part, Pop, Sample};
use wavetrain::records::Dtype;
use wavetrain::setup::field_table::FieldTable;
use wavetrain::status::Status;

/// Extents of both fields, and places along the first axis that boxes with a map go to.
const SHAPE: [u64; 3] = [7, 6, 9];
const MAPPED: u64 = 5;
const COUNT: usize = 6;

/// An array that boxes are drawn from.
struct Array {
    uri: String,
    shape: Vec<u64>,
    dtype: Dtype,
    /// Most bytes of a chunk.
    chunk_bytes: u64,
}

impl Array {
    /// One that `places` or `damaged` wrote.
    fn square(uri: String) -> Array {
        Array { uri, shape: vec![EDGE; 2], dtype: Dtype::U16, chunk_bytes: CHUNK_BYTES }
    }

    fn of(name: &str) -> Array {
        let store = store(name);
        let (shape, dtype) = (store.image.shape.clone(), store.image.dtype);
        let chunk_bytes = store.chunk.iter().product::<u64>() * u64::from(dtype.bytes());
        Array { uri: store.uri.clone(), shape, dtype, chunk_bytes }
    }
}

/// A box of an array: places along its axes, the axis of the field that each becomes, its map.
#[derive(Clone)]
struct Drawn {
    begin: Vec<i64>,
    end: Vec<i64>,
    turned: Vec<Option<usize>>,
    mapped: Vec<usize>,
    matrix: [[f64; 4]; 3],
    has_units: bool,
}

impl Drawn {
    /// A box with a map of up to three axes, the axes of the field in any order.
    fn mapped(dice: &mut Dice, shape: &[u64]) -> Drawn {
        let rank = shape.len();
        let shuffled = |dice: &mut Dice, count: usize| {
            let mut all: Vec<usize> = (0..count).collect();
            (1..count).for_each(|at| all.swap(at, dice.range(0, at as i64 + 1) as usize));
            all
        };
        let (mut long, to) = (shuffled(dice, rank), shuffled(dice, 3));
        long.truncate(3);
        let mut mapped = shuffled(dice, rank);
        mapped.truncate(dice.range(1, 4) as usize);
        let (mut begin, mut end, mut turned) = (vec![0; rank], vec![1; rank], vec![None; rank]);
        for (axis, to) in long.iter().zip(to) {
            let room = if to == 0 { MAPPED } else { SHAPE[to] } as i64;
            end[*axis] = room.min(dice.range(1, room + 4));
            turned[*axis] = Some(to);
        }
        for axis in (0..rank).filter(|axis| !mapped.contains(axis)) {
            let places = end[axis].min(shape[axis] as i64);
            begin[axis] = dice.range(0, shape[axis] as i64 - places + 1);
            end[axis] = begin[axis] + places;
        }
        let mut matrix = [[0.0; 4]; 3];
        for (row, axis) in matrix.iter_mut().zip(&mapped) {
            row.fill_with(|| dice.range(-1500, 1500) as f64 / 1024.0);
            row[3] = dice.range(-1500, 1024 * shape[*axis] as i64 + 1500) as f64 / 1024.0;
            row[mapped.len()..3].fill(0.0);
        }
        Drawn { begin, end, turned, mapped, matrix, has_units: false }
    }

    fn affine(&self, filter: Interpolation) -> AffineMap<'_> {
        let Drawn { mapped, matrix, has_units, .. } = self;
        AffineMap { axes: mapped, matrix: *matrix, filter, level: None, has_units: *has_units }
    }
}

/// One sample.
struct Scene {
    uri: String,
    /// In the place of that array.
    memory: Option<Memory>,
    mapped: Drawn,
    filter: Interpolation,
    has_image: bool,
    arithmetic: Option<Arithmetic>,
    /// The array and places of the box without a map.
    of: String,
    plain: (Vec<i64>, Vec<i64>, Vec<Option<usize>>),
}

impl Scene {
    fn draw(dice: &mut Dice, array: &Array, field: Dtype) -> Scene {
        let rank = array.shape.len();
        let mapped = Drawn::mapped(dice, &array.shape);
        let has_image = has_cast(array.dtype, field);
        let filter = match dice.range(0, 3) {
            0 => Interpolation::Nearest,
            _ => Interpolation::Linear,
        };
        let arithmetic = (dice.range(0, 2) == 0).then(|| Arithmetic::draw(dice, &SHAPE));
        let begin: Vec<i64> =
            array.shape.iter().map(|extent| dice.range(0, *extent as i64)).collect();
        let mut end: Vec<i64> = begin.iter().map(|begin| begin + 1).collect();
        let mut turned = vec![None; rank];
        let axis = dice.range(0, rank as i64) as usize;
        end[axis] = (begin[axis] + SHAPE[2] as i64).min(array.shape[axis] as i64);
        turned[axis] = Some(2);
        let plain = (begin, end, turned);
        let [uri, of] = [0; 2].map(|_| array.uri.clone());
        Scene { uri, memory: None, mapped, filter, has_image, arithmetic, of, plain }
    }
}

fn field(name: &str, dtype: Dtype, pad_mode: u32) -> FieldSpec {
    let mut field = FieldSpec { sample_rank: 3, ..FieldSpec::BLANK };
    field.name[..name.len()].copy_from_slice(name.as_bytes());
    field.sample_shape[..3].copy_from_slice(&SHAPE);
    let (pad_value_set, pad_value) = if pad_mode == PAD_CONSTANT { (1, 3.0) } else { (0, 0.0) };
    FieldSpec { dtype: dtype as u32, pad_mode, pad_value_set, pad_value, ..field }
}

/// A loader on the device, of an image of floats and a label of the array's own type.
fn config(simulator: &Simulator, array: &Array, (image, pad_mode): (Dtype, u32)) -> Config {
    let table = vec![field("image", image, pad_mode), field("label", array.dtype, pad_mode)];
    Config {
        fields: FieldTable::from_static(table.leak()),
        sample_rank: 0,
        dtype: Config::default().dtype,
        max_boxes_per_sample: 3,
        augment: 1,
        digest: 1,
        max_chunk_uncompressed_bytes: array.chunk_bytes,
        // Queued samples have words of augmentation.
        max_host_memory_bytes: 128 << 20,
        thread_mode: THREADS_PUMP,
        sample_shape: Config::default().sample_shape,
        ..device_config(simulator, 2)
    }
}

/// The same on the host, with plenty of memory.
fn on_host(config: &Config) -> Config {
    Config {
        backend: BACKEND_HOST,
        device: -1,
        cuda_driver: Config::default().cuda_driver,
        device_decode: DECODE_AUTO,
        max_gpu_memory_bytes: 0,
        max_resample_bytes: 0,
        lent_slots: 0,
        ..*config
    }
}

/// Statuses of each batch, and the bytes of its fields.
type Made = Vec<(Vec<i32>, Vec<u8>)>;

/// Calls `with` with the samples that scenes are.
fn with_samples<R>(scenes: &[Scene], with: impl FnOnce(&[Sample<'_>]) -> R) -> R {
    let erased: Vec<_> =
        scenes.iter().map(|scene| scene.arithmetic.as_ref().map(Arithmetic::erasures)).collect();
    let parts = scenes.iter().zip(&erased).map(|(scene, erased)| {
        let Scene { uri, mapped: Drawn { begin, end, turned: axes, .. }, filter, .. } = scene;
        let of = |field: u32, filter: Interpolation| {
            let affine = Some(scene.mapped.affine(filter));
            let feed = scene.memory.map_or(Feed::Nothing, Feed::Memory);
            Part { uri, feed, begin, end, field, axes, affine, ..Part::default() }
        };
        let arithmetic = scene.arithmetic.as_ref().zip(erased.as_ref());
        let augment = arithmetic.map(|(arithmetic, erased)| arithmetic.given(erased));
        let image = scene.has_image.then(|| Part { augment, ..of(0, *filter) });
        let (begin, end, axes) = &scene.plain;
        let (field, at) = (u32::from(!scene.has_image), &[MAPPED][..]);
        let plain = Part { uri: &scene.of, begin, end, field, axes, at, ..Part::default() };
        [image, Some(of(1, Interpolation::Nearest)), Some(plain)]
            .into_iter()
            .flatten()
            .collect::<Vec<Part<'_>>>()
    });
    let parts: Vec<_> = parts.collect();
    let samples = parts.iter().zip(0..).map(|(parts, tag)| Sample { parts, tag });
    with(&samples.collect::<Vec<_>>())
}

/// Pushes all samples and takes what comes.
fn stream(loader: &Loader, config: &Config, scenes: &[Scene]) -> Made {
    with_samples(scenes, |samples| {
        let (mut made, mut pushed, mut is_flushed) = (Made::new(), 0, false);
        loop {
            let (taken, result) = loader.push_samples(&samples[pushed..], 0);
            pushed += taken;
            if let Err(why) = result {
                assert_eq!(why.status, Status::Again, "push: {why}");
            }
            if pushed == samples.len() && !is_flushed {
                loader.flush().unwrap_or_else(|why| panic!("flush: {why}"));
                is_flushed = true;
            }
            if config.thread_mode == THREADS_PUMP {
                loader.pump(1_000_000).unwrap_or_else(|why| panic!("pump: {why}"));
            }
            match loader.pop(if is_flushed { PATIENCE_NS } else { 0 }) {
                Ok(Pop::Batch(batch)) => {
                    let (mut all, tags) = (Vec::new(), batch.tags());
                    for number in 0..2 {
                        let field = batch.field(number).unwrap_or_else(|why| panic!("{why}"));
                        let mut bytes = vec![0; field.bytes() as usize];
                        field.copy_to(&mut bytes).unwrap_or_else(|why| panic!("copy: {why}"));
                        let samples = bytes.chunks_exact(bytes.len() / tags.len());
                        let place = format!("batch {}, field {number}", made.len());
                        digest::check(&field, config.digest == 1, samples, tags[0], &place);
                        all.extend(bytes);
                    }
                    made.push((batch.statuses().to_vec(), all));
                }
                Ok(Pop::Again(_)) if !is_flushed => {}
                Ok(Pop::End | Pop::Reset) => return made,
                Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("{}", why.as_str()),
                Err(why) => panic!("pop: {why}"),
            }
        }
    })
}

/// Opens a loader and streams.
fn made(config: &Config, scenes: &[Scene]) -> Made {
    let loader = open(config);
    let made = stream(&loader, config, scenes);
    loader.close(PATIENCE_NS).unwrap_or_else(|why| panic!("close: {why}"));
    made
}

/// The fewest bytes of staging that all scenes are resampled in: no box is refused.
fn least_staging(config: &Config, scenes: &[Scene]) -> u64 {
    let fits = |bytes: &u64| {
        let config = Config { max_resample_bytes: *bytes, on_error: ON_ERROR_SKIP, ..*config };
        made(&config, scenes).iter().all(|(statuses, _)| statuses.iter().all(|at| *at == 0))
    };
    (1..).map(|pages| 4096 * pages).find(fits).unwrap()
}

const ARRAYS: [&str; 9] = [
    "u8_blosc_start",
    "u16_zstd_start",
    "f32_zstd_start",
    "f64_bytes_start",
    "bf16_zstd_start",
    "f16_blosc_start",
    "i32_blosc_bit_start",
    "c128_zstd_start",
    "sparse_u16_42_some_shard",
];

#[test]
fn batches_have_the_bytes_of_the_host_whatever_the_way() {
    let Some(simulator) = Simulator::take() else { return };
    let mut dice = Dice(0x00AF_F14E_00DE_51CE);
    let images = [Dtype::F32, Dtype::F16, Dtype::Bf16];
    let pads = [PAD_CONSTANT, PAD_EDGE, PAD_REFLECT];
    let (mut outcomes, mut linear) = ([0; 2], 0);
    for (number, name) in ARRAYS.into_iter().enumerate() {
        let array = Array::of(name);
        for pad_mode in pads {
            let image = images[(number + pad_mode as usize) % 3];
            let plain = config(&simulator, &array, (image, pad_mode));
            let draw = |_| Scene::draw(&mut dice, &array, image);
            let scenes: Vec<Scene> = (0..COUNT).map(draw).collect();
            linear += scenes.iter().filter(|scene| scene.filter == Interpolation::Linear).count();
            let host = on_host(&plain);
            let expected = made(&host, &scenes);
            assert_eq!(expected.len(), COUNT / SAMPLES);
            let max_resample_bytes = least_staging(&host, &scenes);
            let tight = tight(&Config { max_resample_bytes, ..plain });
            let ways = [
                tight,
                self::tight(&Config { thread_mode: THREADS_OWN, ..tight }),
                Config { chunk_cache_bytes: 1 << 20, ..plain },
                in_hook_mode(&plain),
                Config { device_decode: DECODE_ON, ..plain },
                Config { device_decode: DECODE_OFF, n_readers: 1, ..plain },
                Config { thread_mode: THREADS_OWN, device_decode: DECODE_ON, ..plain },
            ];
            for (way, config) in ways.iter().enumerate() {
                let modes = [Mode::Eager, Mode::Jitter, Mode::Lazy];
                simulator.set_mode(modes[(number + way) % 3], way as u64);
                let found = made(config, &scenes);
                assert!(found == expected, "{name}, {image:?}, {pad_mode}, way {way}");
            }
            let statuses = expected.iter().flat_map(|(statuses, _)| statuses);
            statuses.for_each(|status| outcomes[usize::from(*status == 0)] += 1);
        }
    }
    assert_eq!(outcomes, [0, ARRAYS.len() * pads.len() * COUNT]);
    assert!(linear > 50, "{linear}");
}

#[test]
fn levels_of_an_image_are_resampled_for_a_device() {
    let Some(simulator) = Simulator::take() else { return };
    let mut dice = Dice(0x0123_4567_89AB_CDEF);
    for name in ["ome_zarr_0.5", "ome_zarr_0.4"] {
        let (uri, chunk_bytes) = (group_uri(name), 1 << 16);
        let array = Array { uri, shape: vec![1, 1, 8, 16, 24], dtype: Dtype::U16, chunk_bytes };
        let scenes = (0..COUNT).map(|number| {
            let mut scene = Scene::draw(&mut dice, &array, Dtype::F32);
            let mapped = &mut scene.mapped;
            (mapped.begin, mapped.end) = (vec![0; 5], vec![1, 1, 4, 5, 6]);
            mapped.turned = vec![None, None, Some(0), Some(1), Some(2)];
            mapped.mapped = vec![2, 3, 4];
            let scale = [0.5, 1.0, 2.5][number % 3];
            mapped.matrix = [[0.0; 4]; 3];
            (0..3).for_each(|axis| mapped.matrix[axis][axis] = scale);
            mapped.has_units = number % 2 == 1;
            scene.of = group_uri(&format!("{name}/s0"));
            scene.plain = (vec![0; 5], vec![1; 5], vec![None; 5]);
            scene
        });
        let scenes: Vec<Scene> = scenes.collect();
        let config = config(&simulator, &array, (Dtype::F32, PAD_EDGE));
        let config = Config { on_error: ON_ERROR_SKIP, ..config };
        let expected = made(&on_host(&config), &scenes);
        assert!(made(&config, &scenes) == expected, "{name}");
        assert!(expected.iter().all(|(statuses, _)| *statuses == [0, 0]), "{name}");
    }
}

#[test]
fn a_sample_that_fails_is_filled_and_its_neighbours_are_resampled() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = damaged(&scratch);
    let array = Array::square(uri);
    let mut dice = Dice(0x0FED_CBA9_8765_4321);
    let draw = |_| Scene::draw(&mut dice, &array, Dtype::F32);
    let scenes: Vec<Scene> = (0..10 * COUNT).map(draw).collect();
    for device_decode in [DECODE_OFF, DECODE_ON] {
        let config = config(&simulator, &array, (Dtype::F32, PAD_CONSTANT));
        let config = Config { on_error: ON_ERROR_SKIP, device_decode, ..config };
        let expected = made(&on_host(&config), &scenes);
        let failed = expected.iter().flat_map(|(statuses, _)| statuses);
        let failed = failed.filter(|status| **status == Status::Decode as i32).count();
        assert!((3..10 * COUNT - 3).contains(&failed), "{failed}");
        assert!(made(&config, &scenes) == expected);
        assert!(made(&tight(&config), &scenes) == expected);
    }
}

#[test]
fn a_box_that_reads_more_than_the_staging_fails_its_sample_alone() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "wide", false);
    let array = Array::square(uri);
    let mut dice = Dice(77);
    let scenes = (0..COUNT).map(|number| {
        let mut scene = Scene::draw(&mut dice, &array, Dtype::F32);
        scene.mapped.mapped = vec![0, 1];
        scene.mapped.turned = vec![Some(0), Some(1)];
        (scene.mapped.begin, scene.mapped.end) = (vec![0, 0], vec![5, 5]);
        let scale = if number == 3 { 15.0 } else { 1.0 };
        scene.mapped.matrix = [[scale, 0.0, 0.0, 0.5], [0.0, scale, 0.0, 0.5], [0.0; 4]];
        scene
    });
    let scenes: Vec<Scene> = scenes.collect();
    let config = config(&simulator, &array, (Dtype::F32, PAD_CONSTANT));
    let config = Config { on_error: ON_ERROR_SKIP, max_resample_bytes: 4096, ..config };
    let host = Config { max_resample_bytes: 4096, ..on_host(&config) };
    let expected = made(&host, &scenes);
    let statuses: Vec<i32> = expected.iter().flat_map(|(statuses, _)| statuses.clone()).collect();
    let budget = |number: usize| if number == 3 { Status::Budget } else { Status::Ok } as i32;
    assert_eq!(statuses, (0..COUNT).map(budget).collect::<Vec<_>>());
    assert!(made(&config, &scenes) == expected);
}

#[test]
fn memory_that_is_fed_has_the_bytes_of_its_array() {
    let Some(simulator) = Simulator::take() else { return };
    let scratch = Scratch::new();
    let uri = places(&scratch, "fed", false);
    let array = Array::square(uri);
    // Columns are twice as far apart as elements are long.
    let elements: Vec<u16> = (0..EDGE * EDGE).flat_map(|at| [at as u16, 0xABCD]).collect();
    // SAFETY: nobody writes the elements, or frees them before the end.
    let memory =
        unsafe { Memory::new(elements.as_ptr().cast(), Dtype::U16, &[EDGE; 2], &[4 * EDGE, 4]) };
    let mut dice = Dice(0x0FED_0FED);
    for (image, pad_mode) in
        [(Dtype::F32, PAD_CONSTANT), (Dtype::Bf16, PAD_EDGE), (Dtype::F16, PAD_REFLECT)]
    {
        let draw = |_| Scene::draw(&mut dice, &array, image);
        let mut scenes: Vec<Scene> = (0..8 * COUNT).map(draw).collect();
        let plain = config(&simulator, &array, (image, pad_mode));
        let expected = made(&on_host(&plain), &scenes);
        scenes.iter_mut().for_each(|scene| scene.memory = Some(memory));
        assert!(made(&on_host(&plain), &scenes) == expected);
        let few = Config { max_resample_bytes: least_staging(&plain, &scenes), ..plain };
        for config in [plain, tight(&plain), tight(&few)] {
            assert!(made(&config, &scenes) == expected);
        }
    }
}

#[test]
fn memory_of_a_device_has_no_map() {
    let Some(simulator) = Simulator::take() else { return };
    let array = Array::of("u16_zstd_start");
    let mut dice = Dice(8);
    let mut scene = Scene::draw(&mut dice, &array, Dtype::F32);
    let gpu = Gpu::new(&simulator, 0);
    let (memory, shape) = ((0, gpu.memory(64).0, std::ptr::null_mut()), &array.shape);
    // SAFETY: a refused box reads nothing.
    let memory = unsafe { Memory::on_device(memory, Dtype::U16, shape, &vec![0; shape.len()]) };
    scene.memory = Some(memory);
    let loader = open(&config(&simulator, &array, (Dtype::F32, PAD_EDGE)));
    let why = with_samples(&[scene], |samples| loader.push_samples(samples, 0).1).unwrap_err();
    assert_eq!(why.status, Status::Unsupported);
    assert!(why.text.as_str().contains("affine: the host resamples, and tensor.device"), "{why}");
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn memory_that_is_lent_gets_the_bytes_of_the_host() {
    let Some(simulator) = Simulator::take() else { return };
    let array = Array::of("u16_blosc_byte_start");
    let mut dice = Dice(5);
    let draw = |_| Scene::draw(&mut dice, &array, Dtype::F32);
    let scenes: Vec<Scene> = (0..2 * SAMPLES).map(draw).collect();
    let gpu = Gpu::new(&simulator, 0);
    let plain = config(&simulator, &array, (Dtype::F32, PAD_REFLECT));
    let bytes = [4, 2].map(|element| SAMPLES as u64 * SHAPE.iter().product::<u64>() * element);
    let config = Config { lent_slots: 2, digest: 0, ..plain };
    let loader = open(&config);
    for tag in 0..2 {
        // Batches that begin at no multiple of a vector.
        let targets = bytes.map(|bytes| {
            let address = gpu.memory(bytes as usize + 64).0 + 4;
            (std::ptr::with_exposed_provenance_mut(address as usize), bytes)
        });
        // SAFETY: the memory stays until the loader is closed.
        unsafe { loader.lend(&targets, None, tag) }.unwrap();
    }
    let found = stream(&loader, &config, &scenes);
    loader.close(PATIENCE_NS).unwrap();
    assert!(found == made(&on_host(&config), &scenes));
}

#[test]
fn reset_and_close_in_the_middle_leave_nothing_behind() {
    let Some(simulator) = Simulator::take() else { return };
    let array = Array::of("u16_zstd_start");
    let mut dice = Dice(6);
    let draw = |_| Scene::draw(&mut dice, &array, Dtype::F32);
    let scenes: Vec<Scene> = (0..3 * COUNT).map(draw).collect();
    let plain = config(&simulator, &array, (Dtype::F32, PAD_CONSTANT));
    let expected = made(&on_host(&plain), &scenes);
    simulator.set_mode(Mode::Lazy, 3);
    let tight = tight(&Config { max_resample_bytes: 8192, ..plain });
    let loader = open(&tight);
    for steps in 0..60 {
        with_samples(&scenes, |samples| {
            loader.push_samples(samples, 0).1.map_or_else(|_| (), |_| ());
            (0..steps).for_each(|_| loader.pump(1).map_or_else(|why| panic!("{why}"), |_| ()));
        });
        loader.reset().unwrap_or_else(|why| panic!("reset after {steps}: {why}"));
    }
    assert!(stream(&loader, &tight, &scenes) == expected);
    loader.reset().unwrap();
    with_samples(&scenes, |samples| {
        loader.push_samples(samples, 0).1.map_or_else(|_| (), |_| ());
        (0..25).for_each(|_| loader.pump(1).map_or_else(|why| panic!("{why}"), |_| ()));
    });
    loader.close(PATIENCE_NS).unwrap_or_else(|why| panic!("close: {why}"));
}

#[test]
fn staging_for_voxels_is_on_the_bill_of_the_host_where_config_augment_is_set() {
    let Some(simulator) = Simulator::take() else { return };
    let array = Array::of("u16_zstd_start");
    let plain = config(&simulator, &array, (Dtype::F32, PAD_CONSTANT));
    let few = floors(&Config { max_resample_bytes: 8192, ..plain });
    let many = floors(&Config { max_resample_bytes: 1 << 20, ..plain });
    assert_eq!((many.0 - few.0, many.1 - few.1), (0, (1 << 20) - 8192));
}
