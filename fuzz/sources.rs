//! Arrays that are no zarr folders: .npy and raw files, levels of an image, numbered files in a
//! folder of the system, and arrays that the host is asked for.
//!
//! In: nothing; the arrays are made once, those of the folder among the system's temporary files,
//! until the program ends. Out: their images, for the oracle, their files, and the hook that is
//! asked.
//! Checked on the way: what is asked for is a chunk of the array as the hook has described it, or a
//! box inside of it, and the target has as many bytes.

use super::memory_store::{
    Array, Damage, SPEC, Server, Spec, element, image, is_missing, places, write as write_zarr, zip,
};
use super::oracle::Image;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, SourceHook, SourceInfo};
use wavetrain::records::Dtype;

/// Where an array lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// In files of the hook.
    Memory,
    /// In files of the system.
    Disk,
    /// The host is asked for it.
    Host,
}

/// Arrays that the host is asked for. A chunk of no elements: any box is one read.
const ASKED: [Spec; 4] = [
    Spec { uri: "hook:u16", missing: 4, ..SPEC },
    Spec {
        uri: "hook:boxes",
        dtype: Dtype::F32,
        shape: &[5, 6, 7],
        chunk: &[0, 0, 0],
        missing: 0,
        ..SPEC
    },
    Spec {
        uri: "hook:line/of 8",
        dtype: Dtype::U8,
        shape: &[100],
        chunk: &[64],
        missing: 0,
        ..SPEC
    },
    Spec {
        uri: "hook:wide",
        dtype: Dtype::I64,
        shape: &[3, 40],
        chunk: &[1 << 40, 7],
        missing: 0,
        ..SPEC
    },
];

/// Uris of no array, in memory or at the host.
pub const BAD_URIS: [&str; 10] = [
    "hook:absent",
    "hook:failed",
    "hook:mixed",
    "hook:",
    "/n/long.npy",
    "/n/image#level=9",
    "/n/image#scale=0.001,0.001",
    "/n/image#half",
    "/n/image",
    "raw:/n/flat.bin?dtype=u16&shape=999",
];

/// Folders of files that are no sequence, which write_folders makes.
const BAD_FOLDERS: [&str; 5] = ["hole", "mixed", "rows", "short", "twice"];

/// The folder of all files of the system; it goes when the program ends.
fn folder() -> &'static str {
    static FOLDER: OnceLock<String> = OnceLock::new();
    extern "C" fn remove() {
        let _ = std::fs::remove_dir_all(folder());
    }
    FOLDER.get_or_init(|| {
        let name = format!("wavetrain-fuzz-{}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for files");
        // SAFETY: the function may run when the program ends.
        assert_eq!(unsafe { libc::atexit(remove) }, 0);
        path.to_str().expect("UTF-8").to_owned()
    })
}

/// A uri of no array in the folder.
pub fn bad_folder(number: u64) -> String {
    format!("{}/{}/s_*.npy", folder(), BAD_FOLDERS[number as usize % BAD_FOLDERS.len()])
}

/// A .npy file of version 1.0.
fn npy(descr: &str, is_fortran: bool, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let list: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let order = if is_fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({list}), }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(127, b' ');
    file.push(b'\n');
    file.extend_from_slice(data);
    file
}

/// Elements of rows `first..limit` in the order and with the bytes of a file.
fn data(spec: &Spec, (first, limit): (u64, u64), is_fortran: bool) -> Vec<u8> {
    let mut shape = spec.shape.to_vec();
    shape[0] = limit - first;
    if is_fortran {
        shape.reverse();
    }
    let elements = places(&shape).into_iter().flat_map(|mut at| {
        if is_fortran {
            at.reverse();
        }
        at[0] += first;
        let mut bytes = element(spec, &at);
        if spec.is_big {
            bytes.reverse();
        }
        bytes
    });
    elements.collect()
}

/// An array of complex numbers, which no field takes.
fn complex(shape: &[u64]) -> Image {
    let bytes = 8 * shape.iter().product::<u64>() as usize;
    Image::new(Dtype::C64, shape.to_vec(), Arc::new(vec![0; bytes]), vec![0; 8])
}

/// An array whose every element is there; of a flat file the missing ones would be 0.
fn flat(uri: &'static str, home: &'static str, spec: &Spec) -> Array {
    let zeros = vec![0; spec.dtype.bytes() as usize];
    let whole = image(spec);
    let image = Image::new(whole.dtype, whole.shape, whole.pixels, zeros);
    let place = if home.starts_with("/n/") { Place::Memory } else { Place::Disk };
    // It is cut below any cap.
    Array {
        uri,
        home,
        place,
        parts: 0,
        image,
        has_missing: false,
        is_checked: false,
        chunk_bytes: 1,
        chunk_elements: 0,
        numbers: None,
    }
}

/// Writes the files of all arrays; those.
pub fn write(files: &mut BTreeMap<String, Vec<u8>>) -> Vec<Array> {
    let mut arrays = write_files(files);
    arrays.extend(write_image(files));
    for spec in &ASKED {
        for call in ["describe", "read"] {
            files.insert(format!("{}/{call}", spec.uri), vec![0; 300]);
        }
        let elements: u64 =
            zip(spec.chunk, spec.shape, |chunk, extent| chunk.min(extent)).iter().product();
        let image = match spec.missing {
            0 => image(&Spec { chunk: &[1; 3], ..*spec }),
            _ => image(spec),
        };
        arrays.push(Array {
            uri: spec.uri,
            home: spec.uri,
            place: Place::Host,
            parts: 0,
            image,
            has_missing: spec.missing > 0,
            is_checked: false,
            chunk_bytes: (elements * u64::from(spec.dtype.bytes())).max(1),
            chunk_elements: 0,
            numbers: None,
        });
    }
    arrays.extend(write_folders());
    arrays
}

const FLAT: Spec = Spec { missing: 0, ..SPEC };
const BIG: Spec =
    Spec { dtype: Dtype::I32, is_big: true, shape: &[6, 5, 4], chunk: &[1; 3], missing: 0, ..SPEC };

fn write_files(files: &mut BTreeMap<String, Vec<u8>>) -> Vec<Array> {
    let whole = data(&FLAT, (0, 10), false);
    files.insert("/n/rows.npy".to_owned(), npy("<u2", false, FLAT.shape, &whole));
    files.insert("/n/big.npy".to_owned(), npy(">i4", true, BIG.shape, &data(&BIG, (0, 6), true)));
    files.insert("/n/long.npy".to_owned(), npy("<u2", false, &[11, 14], &whole));
    files.insert("/n/flat.bin".to_owned(), [&[0xA5; 3][..], &whole].concat());
    vec![
        flat("/n/rows.npy", "/n/rows.npy", &FLAT),
        flat("/n/big.npy", "/n/big.npy", &BIG),
        flat("raw:/n/flat.bin?dtype=u16&shape=10,14&offset=3", "/n/flat.bin", &FLAT),
    ]
}

/// An image of two levels, by their folders and by other uris.
fn write_image(files: &mut BTreeMap<String, Vec<u8>>) -> Vec<Array> {
    let fine = Spec { uri: "/n/image/s0", has_crc: true, ..SPEC };
    let coarse = Spec { uri: "/n/image/s1", shape: &[5, 7], file: &[5, 7], chunk: &[5, 7], ..fine };
    let level = |name: &str, scale: u32| {
        let transforms = format!(r#"[{{"type":"scale","scale":[{scale},{scale}]}}]"#);
        format!(r#"{{"path":"{name}","coordinateTransformations":{transforms}}}"#)
    };
    let group = format!(
        r#"{{"zarr_format":3,"node_type":"group","attributes":{{"ome":{{"version":"0.5",
"multiscales":[{{"axes":[{{"name":"y","type":"space"}},{{"name":"x","type":"space"}}],
"datasets":[{},{}]}}]}}}}}}"#,
        level("s0", 1),
        level("s1", 2)
    );
    files.insert("/n/image/zarr.json".to_owned(), group.into_bytes());
    let mut arrays = Vec::new();
    for (spec, uris) in [
        (fine, ["/n/image/s0", "/n/image#level=0", "/n/image/#scale=1.5,1"]),
        (coarse, ["/n/image/s1", "/n/image#level=1", "/n/image#scale=2,100"]),
    ] {
        for uri in uris {
            let array = write_zarr(&spec, files);
            arrays.push(Array { uri, home: "/n/image", ..array });
        }
    }
    arrays
}

/// Writes folders of numbered files; the arrays that they are.
fn write_folders() -> Vec<Array> {
    let root = folder();
    let put = |name: &str, bytes: Vec<u8>| {
        let path = PathBuf::from(format!("{root}/{name}"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for files");
        std::fs::write(path, bytes).expect("a file");
    };
    let leaked = |text: String| -> &'static str { text.leak() };
    // Rows of each file: one has none, and digits are outgrown.
    let edges = [0, 3, 3, 4, 8, 10];
    for (number, rows) in edges.windows(2).enumerate() {
        let rows = (rows[0], rows[1]);
        let shape = [rows.1 - rows.0, 14];
        let file = npy("<u2", false, &shape, &data(&FLAT, rows, false));
        put(&format!("five/s_{number:02}.npy"), file.clone());
        for folder in BAD_FOLDERS {
            let is_third = number == 2;
            match folder {
                "hole" if is_third => {}
                "mixed" if is_third => {
                    put("mixed/s_2.npy", npy("<i2", false, &shape, &data(&FLAT, rows, false)));
                }
                "rows" if is_third => put("rows/s_2.npy", npy("<u2", false, &[1, 13], &[0; 26])),
                "short" if number == 4 => {
                    put("short/s_4.npy", file[..file.len() - 1].to_vec());
                }
                _ => put(&format!("{folder}/s_{number}.npy"), file.clone()),
            }
        }
    }
    put("twice/s_02.npy", npy("<u2", false, &[1, 14], &[0; 28]));
    for number in 0u64..11 {
        let rows = (number / 2, number.div_ceil(2));
        let shape = [rows.1 - rows.0, 5, 4];
        put(&format!("many/{number}.npy"), npy(">i4", true, &shape, &data(&BIG, rows, true)));
    }
    put("many/notes.txt", b"others lie there, too".to_vec());
    put("one.npy", npy("<u2", false, FLAT.shape, &data(&FLAT, (0, 10), false)));
    let many = Spec { shape: &[5, 5, 4], ..BIG };
    let array = |name: &str, spec: &Spec, parts: u32| {
        let uri = leaked(format!("{root}/{name}"));
        Array { parts, ..flat(uri, uri, spec) }
    };
    vec![
        array("five/s_*.npy", &FLAT, 5),
        // Only a look at the folder tells that it has no attributes: no field takes its numbers.
        Array { numbers: Some(complex(FLAT.shape)), ..array("five", &FLAT, 5) },
        array("many/*.npy", &many, 11),
        array("one.npy", &FLAT, 0),
    ]
}

impl Server {
    pub fn source(&self) -> SourceHook {
        SourceHook {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            describe: Some(describe),
            read: Some(read),
            ..SourceHook::NONE
        }
    }

    /// What it says of an array, whole or damaged.
    fn info(&self, spec: &Spec) -> SourceInfo {
        let rank = spec.shape.len();
        let mut info = SourceInfo {
            rank: rank as u32,
            dtype: spec.dtype as u32,
            fill: std::array::from_fn(|at| (0x3C42u64.to_le_bytes()).get(at).copied().unwrap_or(0)),
            ..SourceInfo::EMPTY
        };
        info.shape[..rank].copy_from_slice(spec.shape);
        info.chunk_shape[..rank].copy_from_slice(spec.chunk);
        match self.find(&format!("{}/describe", spec.uri)) {
            Some((_, Damage::Short)) => info.shape[0] = self.place as u64 % (info.shape[0] + 1),
            Some((_, Damage::Long)) => info.shape[0] += 1 << (self.place % 64),
            Some((_, Damage::Bit)) => {
                let at = 8 + self.place / 8 % (size_of::<SourceInfo>() - 8);
                // SAFETY: a byte of the struct, which is plain old data.
                unsafe {
                    *std::ptr::from_mut(&mut info).cast::<u8>().add(at) ^= 1 << (self.place % 8);
                }
            }
            _ => {}
        }
        info
    }
}

unsafe fn asked<'a>(user: *mut c_void, name: *const c_char) -> (&'a Server, &'a str) {
    // SAFETY: the server outlives the loader; the name has a NUL and lives during the call.
    unsafe {
        let name = CStr::from_ptr(name).to_str().expect("names are UTF-8");
        (&*user.cast::<Server>(), name)
    }
}

fn spec_of(name: &str) -> Option<&'static Spec> {
    ASKED.iter().find(|spec| spec.uri.strip_prefix("hook:") == Some(name))
}

/// What a damaged hook answers.
fn answer(damage: Damage) -> i64 {
    match damage {
        Damage::Absent => FILE_ABSENT,
        Damage::Unreadable => FILE_FAILED,
        Damage::Nonsense => 1,
        Damage::None | Damage::Bit | Damage::Short | Damage::Long => 0,
    }
}

unsafe extern "C" fn describe(
    user: *mut c_void,
    name: *const c_char,
    info: *mut SourceInfo,
) -> i64 {
    // SAFETY: as the library promises.
    let (server, name, info) = unsafe {
        let (server, name) = asked(user, name);
        (server, name, &mut *info)
    };
    assert_eq!((info.struct_size, info.rank), (size_of::<SourceInfo>(), 0));
    let Some(spec) = spec_of(name) else {
        info.shape = [7; 16];
        (info.rank, info.chunk_shape) = (2, [0; 16]);
        info.chunk_shape[0] = 3;
        return match name {
            "failed" => FILE_FAILED,
            "mixed" => 0,
            _ => FILE_ABSENT,
        };
    };
    *info = server.info(spec);
    answer(server.find(&format!("{}/describe", spec.uri)).expect("a file").1)
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    begin: *const u64,
    end: *const u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as the library promises.
    let (server, name) = unsafe { asked(user, name) };
    let spec = spec_of(name).expect("an array that was described");
    let info = server.info(spec);
    let axes = info.rank as usize;
    // SAFETY: as many numbers as were said; the target is writable, and nobody else's.
    let (begin, end, target) = unsafe {
        (
            if axes == 0 { &[] } else { std::slice::from_raw_parts(begin, axes) },
            if axes == 0 { &[] } else { std::slice::from_raw_parts(end, axes) },
            std::slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize),
        )
    };
    let shape = &info.shape[..axes];
    for axis in 0..axes {
        let (first, limit) = (begin[axis], end[axis]);
        assert!(first < limit && limit <= shape[axis], "{name}: {begin:?}, {end:?} of {shape:?}");
        let edge = info.chunk_shape[axis];
        let chunk = first.checked_div(edge).unwrap_or(0);
        let behind = shape[axis].min((chunk + 1).saturating_mul(edge));
        assert!(edge == 0 || (first, limit) == (chunk * edge, behind), "{name}: no chunk");
    }
    let extents = zip(end, begin, |end, begin| end - begin);
    let count: u64 = extents.iter().product();
    let size = match Dtype::from_code(info.dtype).expect("it was taken") {
        Dtype::Raw => info.dtype_bytes,
        dtype => dtype.bytes(),
    };
    assert_eq!(count * u64::from(size), bytes);
    let damage = server.find(&format!("{}/read", spec.uri)).expect("a file").1;
    target.fill(0x6B);
    if damage != Damage::None && answer(damage) != 0 {
        return answer(damage);
    }
    let is_as_it_is = info.shape == server_shape(spec) && size == spec.dtype.bytes();
    if !is_as_it_is {
        return 0;
    }
    let chunk = zip(begin, &info.chunk_shape, |first, edge| first.checked_div(edge).unwrap_or(0));
    if is_missing(spec, &chunk) {
        return FILE_ABSENT;
    }
    for (at, place) in places(&extents).iter().zip(target.chunks_exact_mut(size as usize)) {
        place.copy_from_slice(&element(spec, &zip(begin, at, |begin, at| begin + at)));
    }
    if damage != Damage::None {
        target[server.place % bytes as usize] ^= 1;
    }
    0
}

/// Extents of an array as a record of the header has them.
fn server_shape(spec: &Spec) -> [u64; 16] {
    std::array::from_fn(|axis| spec.shape.get(axis).copied().unwrap_or(0))
}
