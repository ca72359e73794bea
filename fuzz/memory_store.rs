//! Small zarr v3 arrays in memory behind a files hook, whole or with damage.
//!
//! In: nothing; the arrays are made once. Out: their images, for the oracle, and a hook that serves
//! their files. Written without the library, so that both must agree on the format. Arrays of other
//! sources are in sources.rs.

use super::oracle::Image;
use super::sources::{self, Place};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, OnceLock};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, FilesHook};
use wavetrain::records::Dtype;

/// An array and what it holds.
pub struct Array {
    pub uri: &'static str,
    /// What its files are, or what begins their names before a slash.
    pub home: &'static str,
    pub place: Place,
    /// Numbered files that it lies in.
    pub parts: u32,
    pub image: Image,
    /// The numbers that its elements stand for by the CF conventions, if it may have attributes.
    pub numbers: Option<Image>,
    /// Chunks that are not there read as the fill value.
    pub has_missing: bool,
    /// Every chunk has a checksum, so that damage in it is an error or harmless.
    pub is_checked: bool,
    pub chunk_bytes: u64,
    pub chunk_elements: u64,
}

/// All arrays and files.
pub struct World {
    pub arrays: Vec<Array>,
    /// Those of other sources.
    pub others: Vec<Array>,
    files: BTreeMap<String, Vec<u8>>,
}

/// How one file is damaged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Damage {
    None,
    /// One bit is flipped.
    Bit,
    /// It is shorter than it was.
    Short,
    /// It says that it is longer than it is, and reads behind its end give bytes.
    Long,
    Absent,
    /// Its size can be had, its bytes cannot.
    Unreadable,
    /// Both answers are numbers that the header does not have.
    Nonsense,
}

pub const DAMAGES: [Damage; 6] = [
    Damage::Bit,
    Damage::Short,
    Damage::Long,
    Damage::Absent,
    Damage::Unreadable,
    Damage::Nonsense,
];

/// What a hook's `user` points to.
pub struct Server {
    pub world: &'static World,
    /// Whether there are arrays of other sources.
    pub has_others: bool,
    pub damage: Damage,
    /// Which file, counted in the order of the names.
    pub file: usize,
    /// Where in it.
    pub place: usize,
}

/// How an array is written.
pub struct Spec {
    pub uri: &'static str,
    pub dtype: Dtype,
    pub name: &'static str,
    pub shape: &'static [u64],
    /// Extents of a file: shards where they differ from the chunks.
    pub file: &'static [u64],
    pub chunk: &'static [u64],
    pub is_big: bool,
    pub has_zstd: bool,
    pub has_crc: bool,
    pub index_at_start: bool,
    /// One chunk in so many is not there, 0 for none.
    pub missing: u64,
}

pub const SPEC: Spec = Spec {
    uri: "/m/u16",
    dtype: Dtype::U16,
    name: "uint16",
    shape: &[10, 14],
    file: &[4, 5],
    chunk: &[4, 5],
    is_big: false,
    has_zstd: false,
    has_crc: false,
    index_at_start: false,
    missing: 5,
};

const SPECS: [Spec; 8] = [
    SPEC,
    Spec {
        uri: "/m/f32",
        dtype: Dtype::F32,
        name: "float32",
        shape: &[5, 6, 7],
        file: &[2, 3, 4],
        chunk: &[2, 3, 4],
        has_zstd: true,
        missing: 0,
        ..SPEC
    },
    Spec {
        uri: "/m/shards",
        dtype: Dtype::U8,
        name: "uint8",
        shape: &[20, 20],
        file: &[8, 8],
        chunk: &[4, 4],
        missing: 3,
        ..SPEC
    },
    Spec {
        uri: "/m/i32",
        dtype: Dtype::I32,
        name: "int32",
        shape: &[9, 9],
        file: &[4, 4],
        chunk: &[4, 4],
        is_big: true,
        has_crc: true,
        missing: 0,
        ..SPEC
    },
    Spec {
        uri: "/m/zstd shards",
        shape: &[12, 12],
        file: &[12, 12],
        chunk: &[3, 4],
        has_zstd: true,
        index_at_start: true,
        missing: 4,
        ..SPEC
    },
    Spec {
        uri: "/m/line",
        dtype: Dtype::F16,
        name: "float16",
        shape: &[100],
        file: &[7],
        chunk: &[7],
        missing: 6,
        ..SPEC
    },
    // Rows of 11 elements do not divide the caps, and their numbers in a part do not divide 9.
    Spec { uri: "/m/parts", shape: &[20, 26], file: &[9, 11], chunk: &[9, 11], ..SPEC },
    Spec { uri: "/m/parts of shards", shape: &[20, 26], file: &[18, 22], chunk: &[9, 11], ..SPEC },
];

/// Uris that no array has: none, a group, an unknown codec, no JSON, an empty document.
pub const BAD_URIS: [&str; 5] = ["/m/absent", "/m/group", "/m/codec", "/m/text", "/m/empty"];

const FILL: u64 = 0x3C42;

/// The world, made by the first who asks.
pub fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let mut files = BTreeMap::new();
        let arrays = SPECS.iter().map(|spec| write(spec, &mut files)).collect();
        let group = r#"{"zarr_format":3,"node_type":"group","attributes":{}}"#;
        let codec = metadata(&SPEC).replace("\"bytes\"", "\"vlen-utf8\"");
        for (uri, text) in BAD_URIS[1..].iter().zip([group, &codec, "no JSON", ""]) {
            files.insert(format!("{uri}/zarr.json"), text.as_bytes().to_vec());
        }
        let others = sources::write(&mut files);
        World { arrays, others, files }
    })
}

impl Server {
    pub fn hook(&self) -> FilesHook {
        FilesHook {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            size: Some(size),
            read: Some(read),
            ..FilesHook::NONE
        }
    }

    pub fn file_count(&self) -> usize {
        // Those of other sources are the last by their names.
        let is_known = |name: &&String| self.has_others || name.starts_with("/m/");
        self.world.files.keys().filter(is_known).count()
    }

    /// Whether the damage can change what boxes of the array give without an error.
    pub fn spares(&self, array: &Array) -> bool {
        let name = self.world.files.keys().nth(self.file).expect("a file");
        let key = name.strip_prefix(array.home).and_then(|key| key.strip_prefix('/'));
        match key {
            _ if self.damage == Damage::None => true,
            None => name != array.home,
            Some("describe" | "read") if array.place == Place::Host => {
                matches!(self.damage, Damage::Unreadable | Damage::Nonsense)
            }
            Some(key) if key.ends_with("zarr.json") => false,
            Some(_) => array.is_checked && self.damage != Damage::Absent,
        }
    }

    /// Whether the damage is in a file of the array, so that its boxes may fail.
    pub fn touches(&self, array: &Array) -> bool {
        let name = self.world.files.keys().nth(self.file).expect("a file");
        let key = name.strip_prefix(array.home);
        self.damage != Damage::None && key.is_some_and(|key| key.is_empty() || key.starts_with('/'))
    }

    /// The file of a name and the damage in it.
    pub fn find(&self, name: &str) -> Option<(&[u8], Damage)> {
        let bytes = self.world.files.get(name)?;
        let is_damaged = self.world.files.keys().nth(self.file).is_some_and(|file| file == name);
        Some((bytes, if is_damaged { self.damage } else { Damage::None }))
    }
}

unsafe fn server<'a>(user: *mut c_void, name: *const c_char) -> (&'a Server, &'a str) {
    // SAFETY: the server outlives the loader; the name has a NUL and lives during the call.
    unsafe {
        let name = CStr::from_ptr(name).to_str().expect("uris are UTF-8");
        (&*user.cast::<Server>(), name)
    }
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as the library promises.
    let (server, name) = unsafe { server(user, name) };
    let Some((bytes, damage)) = server.find(name) else { return FILE_ABSENT };
    let length = bytes.len() as i64;
    match damage {
        Damage::Absent => FILE_ABSENT,
        Damage::Nonsense => -77,
        Damage::Short => server.place as i64 % (length + 1),
        Damage::Long => length.saturating_add(1 << (server.place % 63)),
        Damage::None | Damage::Bit | Damage::Unreadable => length,
    }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as the library promises.
    let (server, name) = unsafe { server(user, name) };
    // SAFETY: the target is the library's, `bytes` long, and nobody else's during the call.
    let target = unsafe { std::slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize) };
    let Some((file, damage)) = server.find(name) else { return FILE_ABSENT };
    match damage {
        Damage::Absent => return FILE_ABSENT,
        Damage::Unreadable => return FILE_FAILED,
        Damage::Nonsense => return 1,
        Damage::Long => target.fill(0x6B),
        Damage::None | Damage::Bit | Damage::Short => {}
    }
    let length = match damage {
        Damage::Short => server.place % (file.len() + 1),
        _ => file.len(),
    };
    let limit = offset.saturating_add(bytes);
    if limit > length as u64 && damage != Damage::Long {
        return FILE_FAILED;
    }
    for (at, byte) in (offset..limit).zip(target) {
        if let Some(value) = file.get(at as usize) {
            let is_flipped = damage == Damage::Bit && server.place % file.len() == at as usize;
            *byte = value ^ (u8::from(is_flipped) << (server.place / file.len() % 8));
        }
    }
    0
}

/// All places of a grid, the last axis fastest.
pub fn places(counts: &[u64]) -> Vec<Vec<u64>> {
    counts.iter().fold(vec![Vec::new()], |places, count| {
        let with = |place: &Vec<u64>, at: u64| place.iter().copied().chain([at]).collect();
        places.iter().flat_map(|place| (0..*count).map(move |at| with(place, at))).collect()
    })
}

pub fn zip(a: &[u64], b: &[u64], join: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| join(*a, *b)).collect()
}

pub fn element(spec: &Spec, at: &[u64]) -> Vec<u8> {
    let mixed = at.iter().fold(7u64, |mixed, at| (mixed ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // Numbers of floats, not their patterns: no NaN.
    let bytes = match spec.dtype {
        Dtype::F32 => ((mixed >> 40) as f32 / 16.0).to_le_bytes().to_vec(),
        _ => (mixed >> 33).to_le_bytes().to_vec(),
    };
    bytes[..spec.dtype.bytes() as usize].to_vec()
}

pub fn is_missing(spec: &Spec, chunk: &[u64]) -> bool {
    let number = chunk.iter().fold(0, |number, at| number * 3 + at);
    spec.missing > 0 && number % spec.missing == spec.missing - 1
}

/// Writes the files of an array.
pub fn write(spec: &Spec, files: &mut BTreeMap<String, Vec<u8>>) -> Array {
    files.insert(format!("{}/zarr.json", spec.uri), metadata(spec).into_bytes());
    let is_sharded = spec.file != spec.chunk;
    for file in places(&zip(spec.shape, spec.file, u64::div_ceil)) {
        let chunks = places(&zip(spec.file, spec.chunk, |file, chunk| file / chunk));
        let per_file = zip(spec.file, spec.chunk, |file, chunk| file / chunk);
        let encoded = chunks.iter().map(|inner| {
            let outer = zip(&file, &per_file, |file, count| file * count);
            let chunk = zip(&outer, inner, |outer, inner| outer + inner);
            (!is_missing(spec, &chunk)).then(|| encoded(spec, &chunk))
        });
        let encoded: Vec<Option<Vec<u8>>> = encoded.collect();
        let bytes = if is_sharded { Some(shard(spec, &encoded)) } else { encoded[0].clone() };
        let place: Vec<String> = file.iter().map(u64::to_string).collect();
        if let Some(bytes) = bytes {
            files.insert(format!("{}/c/{}", spec.uri, place.join("/")), bytes);
        }
    }
    let elements: u64 = spec.chunk.iter().product();
    // A chunk of nothing but elements is cut.
    let is_cut = !spec.has_zstd && !spec.has_crc;
    Array {
        uri: spec.uri,
        home: spec.uri,
        place: Place::Memory,
        parts: 0,
        image: image(spec),
        numbers: Some(numbers(spec)),
        has_missing: spec.missing > 0,
        is_checked: !is_sharded && (spec.has_zstd || spec.has_crc),
        chunk_bytes: if is_cut { 1 } else { elements * u64::from(spec.dtype.bytes()) },
        chunk_elements: elements,
    }
}

/// What an array holds.
pub fn image(spec: &Spec) -> Image {
    let fill = FILL.to_le_bytes()[..spec.dtype.bytes() as usize].to_vec();
    let pixels = places(spec.shape).into_iter().flat_map(|at| {
        let chunk = zip(&at, spec.chunk, |at, edge| at / edge);
        if is_missing(spec, &chunk) { fill.clone() } else { element(spec, &at) }
    });
    let pixels: Vec<u8> = pixels.collect();
    Image::new(spec.dtype, spec.shape.to_vec(), Arc::new(pixels), fill)
}

/// The value that is missing, scale_factor and add_offset.
fn packing(spec: &Spec) -> (Option<u64>, Option<f64>, Option<f64>) {
    match spec.dtype {
        Dtype::U16 => (Some(FILL), Some(0.3), Some(-7.0)),
        Dtype::U8 => (Some(u64::from(FILL as u8)), None, None),
        Dtype::I32 => (None, Some(-1e-3), None),
        Dtype::F32 => (None, None, Some(0.1)),
        _ => (None, None, None),
    }
}

/// What the elements of an array stand for.
fn numbers(spec: &Spec) -> Image {
    let (missing, scale, offset) = packing(spec);
    let number = |element: &[u8]| {
        let mut bits = [0; 8];
        bits[..element.len()].copy_from_slice(element);
        let bits = u64::from_le_bytes(bits);
        let number = match spec.dtype {
            Dtype::I32 => f64::from(bits as i32),
            Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => bits as f64,
        };
        let number = number * scale.unwrap_or(1.0) + offset.unwrap_or(-0.0);
        if missing == Some(bits) { f64::NAN } else { number }.to_le_bytes()
    };
    let image = image(spec);
    if (missing, scale, offset) == (None, None, None) {
        return image;
    }
    let elements = image.pixels.chunks_exact(spec.dtype.bytes() as usize);
    let pixels: Vec<u8> = elements.flat_map(number).collect();
    let fill = number(&image.fill).to_vec();
    Image::new(Dtype::F64, image.shape, Arc::new(pixels), fill)
}

fn encoded(spec: &Spec, chunk: &[u64]) -> Vec<u8> {
    let origin = zip(chunk, spec.chunk, |chunk, edge| chunk * edge);
    let raw = places(spec.chunk).into_iter().flat_map(|inner| {
        let mut element = element(spec, &zip(&origin, &inner, |origin, inner| origin + inner));
        if spec.is_big {
            element.reverse();
        }
        element
    });
    let mut bytes: Vec<u8> = raw.collect();
    if spec.has_zstd {
        let mut encoder = zstd::bulk::Compressor::new(1).expect("a level");
        encoder.include_checksum(true).expect("a flag");
        bytes = encoder.compress(&bytes).expect("memory");
    }
    if spec.has_crc {
        let checksum = ::crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
    }
    bytes
}

fn shard(spec: &Spec, chunks: &[Option<Vec<u8>>]) -> Vec<u8> {
    let index_bytes = chunks.len() * 16 + 4;
    let mut offset = if spec.index_at_start { index_bytes as u64 } else { 0 };
    let (mut index, mut body) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let entry = chunk.as_ref().map_or([u64::MAX; 2], |chunk| [offset, chunk.len() as u64]);
        index.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
        body.extend(chunk.iter().flatten());
        offset += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
    }
    let checksum = ::crc32c::crc32c(&index);
    index.extend(checksum.to_le_bytes());
    if spec.index_at_start { [index, body].concat() } else { [body, index].concat() }
}

fn metadata(spec: &Spec) -> String {
    let endian = if spec.is_big { "big" } else { "little" };
    let mut chain = format!(r#"{{"name":"bytes","configuration":{{"endian":"{endian}"}}}}"#);
    if spec.has_zstd {
        chain += r#",{"name":"zstd","configuration":{"level":1,"checksum":true}}"#;
    }
    if spec.has_crc {
        chain += r#",{"name":"crc32c"}"#;
    }
    if spec.file != spec.chunk {
        let location = if spec.index_at_start { "start" } else { "end" };
        chain = format!(
            r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{:?},
"codecs":[{chain}],"index_codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}},
{{"name":"crc32c"}}],"index_location":"{location}"}}}}"#,
            spec.chunk
        );
    }
    let fill = match spec.dtype {
        Dtype::F16 | Dtype::F32 => {
            format!("\"0x{:0width$x}\"", FILL, width = 2 * spec.dtype.bytes() as usize)
        }
        Dtype::U8 => (FILL as u8).to_string(),
        _ => FILL.to_string(),
    };
    let (missing, scale, offset) = packing(spec);
    let missing = missing.map(|bits| format!(r#""_FillValue":{bits}"#));
    let scale = scale.map(|scale| format!(r#""scale_factor":{scale:?}"#));
    let offset = offset.map(|offset| format!(r#""add_offset":{offset:?}"#));
    let attributes: Vec<_> = [missing, scale, offset].into_iter().flatten().collect();
    let attributes = attributes.join(",");
    format!(
        r#"{{"zarr_format":3,"node_type":"array","attributes":{{{attributes}}},"shape":{:?},"data_type":"{}","fill_value":{fill},
"chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{:?}}}}},
"chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
"codecs":[{chain}]}}"#,
        spec.shape, spec.name, spec.file
    )
}
