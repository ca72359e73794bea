//! The packed stores of tests/data: unpacked once per build of the tests, read through a manifest.
//!
//! In: the packs of tests/data. Out: [`all`], one [`Store`] per store. Invariant: nobody writes to
//! the unpacked stores; a test that damages one takes its own copy ([`Scratch::copy_of`]).

use crate::common::oracle::Image;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wavetrain::records::{DTYPES, Dtype};

/// The packs by name.
const PACKS: &[(&str, &[u8])] = &[
    ("fixtures", include_bytes!("../data/fixtures.tar.zst")),
    ("cf", include_bytes!("../data/cf.tar.zst")),
    ("bz2", include_bytes!("../data/bz2.tar.zst")),
    ("codecs", include_bytes!("../data/codecs.tar.zst")),
    ("filters", include_bytes!("../data/filters.tar.zst")),
    ("forms", include_bytes!("../data/forms.tar.zst")),
    ("lzma", include_bytes!("../data/lzma.tar.zst")),
    ("ngff", include_bytes!("../data/ngff.tar.zst")),
    ("others", include_bytes!("../data/others.tar.zst")),
    ("packed", include_bytes!("../data/packed.tar.zst")),
    ("rectilinear", include_bytes!("../data/rectilinear.tar.zst")),
    ("samples", include_bytes!("../data/samples.tar.zst")),
    ("shards", include_bytes!("../data/shards.tar.zst")),
    ("small", include_bytes!("../data/small.tar.zst")),
    ("statistics", include_bytes!("../data/statistics.tar.zst")),
    ("structs", include_bytes!("../data/structs.tar.zst")),
    ("npy_structs", include_bytes!("../data/npy_structs.tar.zst")),
    ("values", include_bytes!("../data/values.tar.zst")),
    ("v2", include_bytes!("../data/v2.tar.zst")),
    ("zarrs", include_bytes!("../data/zarrs.tar.zst")),
];

/// One store and what it must read as.
pub struct Store {
    pub name: String,
    pub family: String,
    /// Whose software wrote it: "zarr" (zarr-python 3), "zarr2", "tensorstore", "zarrs", "gdal" ..
    pub writer: String,
    /// Path of the array.
    pub uri: String,
    pub chunk: Vec<u64>,
    pub shard: Option<Vec<u64>>,
    /// Lengths of the files along each axis, where they are not all equal; chunk and shard are then
    /// the largest.
    pub edges: Option<Vec<Vec<u64>>>,
    /// Names of the bytes-to-bytes codecs.
    pub codecs: Vec<String>,
    pub image: Image,
}

/// Reads every file of a store, so that all of them are in the page cache.
pub fn read_all(store: &Store) {
    let mut folders = vec![PathBuf::from(&store.uri)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { drop(fs::read(path).unwrap()) }
        }
    }
}

/// All stores, in the order of the packs and their manifests.
pub fn all() -> &'static [Store] {
    static STORES: OnceLock<Vec<Store>> = OnceLock::new();
    STORES.get_or_init(|| {
        let stores = PACKS.iter().filter(|(name, _)| !["samples", "statistics"].contains(name));
        let packs = stores.map(|(name, packed)| unpacked(name, packed));
        packs.flat_map(|root| read_manifest(&root, "manifest.json")).collect()
    })
}

/// The stores of a pack that stand in a manifest of their own, because they are no pictures.
pub fn apart(pack: &str) -> Vec<Store> {
    read_manifest(&folder(pack), "apart.json")
}

/// The folder of a pack.
fn folder(pack: &str) -> PathBuf {
    let (name, packed) = PACKS.iter().find(|(name, _)| *name == pack).expect("a pack");
    unpacked(name, packed)
}

/// The folder of tests/data/make_samples.py.
pub fn samples() -> PathBuf {
    folder("samples")
}

/// The folder of tests/data/make_statistics.py.
pub fn statistics() -> PathBuf {
    folder("statistics")
}

/// The groups of tests/data/make_ngff.py: uri, and what their writers say of them.
pub fn groups() -> Vec<(String, Value)> {
    let text = fs::read_to_string(folder("ngff").join("groups.json")).expect("the list is there");
    let groups: Vec<Value> = serde_json::from_str(&text).expect("the list is JSON");
    groups
        .into_iter()
        .map(|group| (group_uri(group["name"].as_str().expect("a name")), group))
        .collect()
}

/// The packing that xarray finds in the stores of tests/data/make_packed.py, by their names.
pub fn packing() -> Value {
    let text =
        fs::read_to_string(folder("packed").join("packing.json")).expect("the list is there");
    serde_json::from_str(&text).expect("the list is JSON")
}

/// The uri of a group of tests/data/make_ngff.py, or of an array in it.
pub fn group_uri(name: &str) -> String {
    folder("ngff").join("stores").join(name).to_str().expect("UTF-8").to_string()
}

/// Whether a path, up to its NUL if it has one, is that of a chunk or a shard: `c` and numbers are
/// its last names. Folders above the array may be named `c`.
pub fn is_chunk_path(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let is_number = |name: &&[u8]| !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let mut names = path.rsplit(|byte| *byte == b'/').peekable();
    let has_number = names.peek().is_some_and(is_number);
    has_number && names.find(|name| !is_number(name)) == Some(b"c")
}

/// The store of that name.
pub fn store(name: &str) -> &'static Store {
    all().iter().find(|store| store.name == name).unwrap_or_else(|| panic!("no store {name}"))
}

/// The stores whose chunks lie in their files as they are.
pub fn uncompressed() -> impl Iterator<Item = &'static Store> {
    let has_filter = |store: &Store| {
        ["filters", "small"].contains(&store.family.as_str()) || store.name.contains("delta")
    };
    all().iter().filter(move |store| store.codecs.is_empty() && !has_filter(store))
}

/// The stores of a family.
pub fn family(name: &str) -> impl Iterator<Item = &'static Store> {
    all().iter().filter(move |store| store.family == name)
}

/// Where tests write: in the build folder, or, for programs that were carried to another machine,
/// where `WAVETRAIN_TEST_FOLDER` says.
fn temporary() -> PathBuf {
    let named = std::env::var_os("WAVETRAIN_TEST_FOLDER");
    named.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from)
}

/// The folder of an unpacked pack. Its name says which file it came from, and it appears whole or
/// not at all, so that test programs can share it.
fn unpacked(name: &str, packed: &[u8]) -> PathBuf {
    // Tests of one program are threads, which would share the partial folder.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tmp = temporary();
    let target = tmp.join(format!("{name}-{:08x}", crc32c::crc32c(packed)));
    if !target.exists() {
        let partial = tmp.join(format!("partial-{name}-{}", std::process::id()));
        let data = zstd::decode_all(packed).expect("the pack is a zstd frame");
        tar::Archive::new(&data[..]).unpack(&partial).expect("the fixtures unpack");
        // Where another program was faster, its folder is as good.
        if fs::rename(&partial, &target).is_err() {
            assert!(target.exists());
            fs::remove_dir_all(&partial).expect("the second copy goes away");
        }
    }
    target
}

fn read_manifest(root: &Path, file_name: &str) -> Vec<Store> {
    let text = fs::read_to_string(root.join(file_name)).expect("the manifest is there");
    let entries: Vec<Value> = serde_json::from_str(&text).expect("the manifest is JSON");
    let mut pixels: HashMap<String, Arc<Vec<u8>>> = HashMap::new();
    entries.iter().map(|entry| read_store(root, entry, &mut pixels)).collect()
}

fn read_store(root: &Path, entry: &Value, pixels: &mut HashMap<String, Arc<Vec<u8>>>) -> Store {
    let text = |key: &str| entry[key].as_str().expect("a string").to_string();
    let extents = |key: &str| -> Option<Vec<u64>> {
        entry[key].as_array().map(|list| list.iter().map(|n| n.as_u64().expect("u64")).collect())
    };
    let edges_of = |axis: &Value| -> Vec<u64> {
        axis.as_array().expect("edges").iter().map(|n| n.as_u64().expect("u64")).collect()
    };
    let raw = text("raw");
    let data = pixels
        .entry(raw.clone())
        .or_insert_with(|| Arc::new(fs::read(root.join("raw").join(raw)).expect("pixels")))
        .clone();
    let dtype_name = text("dtype");
    let dtype = *DTYPES.iter().find(|dtype| dtype.name() == dtype_name).expect("a known type");
    let fill = hex_bytes(&text("fill"));
    assert!(dtype == Dtype::Raw || fill.len() == dtype.bytes() as usize);
    let name = text("name");
    Store {
        uri: root.join("stores").join(&name).to_str().expect("UTF-8").to_string(),
        family: text("family"),
        writer: text("writer"),
        chunk: extents("chunk").expect("a chunk shape"),
        shard: extents("shard"),
        edges: entry["edges"].as_array().map(|axes| axes.iter().map(edges_of).collect()),
        codecs: entry["codecs"]
            .as_array()
            .expect("codecs")
            .iter()
            .map(|codec| codec.as_str().expect("a string").to_string())
            .collect(),
        image: Image::new(dtype, extents("shape").expect("a shape"), data, fill),
        name,
    }
}

fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// A folder that goes away with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch-{}-{number}", std::process::id());
        let path = temporary().join(name);
        fs::create_dir_all(&path).expect("a scratch folder");
        Scratch(path)
    }

    /// Path of an entry, existing or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text, to be used as a uri.
    pub fn uri(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_string()
    }

    /// A new folder whose uri has so many bytes.
    pub fn deep(&self, bytes: usize) -> String {
        let mut uri = self.uri("");
        while bytes - uri.len() > 200 {
            uri.push_str(&format!("{:099}/", bytes));
        }
        uri.push_str(&"d".repeat(bytes - uri.len()));
        fs::create_dir_all(&uri).expect("a folder");
        uri
    }

    /// A private copy of a store under a new name, to be damaged.
    pub fn copy_of(&self, store: &Store, name: &str) -> PathBuf {
        let target = self.path(name);
        copy_folder(Path::new(&store.uri), &target);
        target
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that a test made unreadable still go: the folders stay writable.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder and what is in it.
pub fn copy_folder(source: &Path, target: &Path) {
    fs::create_dir_all(target).expect("a folder");
    for entry in fs::read_dir(source).expect("a readable folder") {
        let entry = entry.expect("an entry");
        let to = target.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).expect("a copy");
        }
    }
}
