use super::*;
use crate::base::abi::{FILE_ABSENT, FILE_FAILED};
use crate::os::SYSTEM;
use core::ffi::{CStr, c_char, c_void};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::vec::Vec;

fn file_of(name: *const c_char) -> Option<File> {
    // SAFETY: the store hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    File::open(name).ok()
}

unsafe extern "C" fn size(_: *mut c_void, name: *const c_char) -> i64 {
    let Some(file) = file_of(name) else { return FILE_ABSENT };
    let metadata = file.metadata().unwrap();
    if metadata.is_file() { metadata.len() as i64 } else { FILE_FAILED }
}

unsafe extern "C" fn read(
    _: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the target is writable for that many bytes.
    let target = unsafe { core::slice::from_raw_parts_mut(target.cast(), bytes as usize) };
    let Some(file) = file_of(name) else { return FILE_ABSENT };
    file.read_exact_at(target, offset).map_or(FILE_FAILED, |()| 0)
}

/// One of each kind.
fn stores() -> [Store; 2] {
    let hook = FilesHook { size: Some(size), read: Some(read), ..FilesHook::NONE };
    [FilesHook::NONE, hook].map(|hook| Store::new(&SYSTEM, hook, StoreHook::NONE))
}

fn path(below: &str) -> Path {
    let mut path = Path::new();
    write!(path, "{}/{below}", env!("CARGO_MANIFEST_DIR"));
    path
}

#[test]
fn every_store_does_what_its_properties_say() {
    let (file, folder, nothing) = (path("Cargo.toml"), path("src"), path("src/nothing"));
    let content = fs::read(file.as_str()).unwrap();
    for store in stores() {
        let of = store.row;
        let (fd, stat) = store.open(&file).unwrap();
        assert_eq!((stat.kind, stat.bytes), (FileKind::REGULAR, content.len() as u64));
        assert_eq!(fd != NO_FD, of.has_descriptors);
        assert_eq!(stat.modified_ns != 0, of.shows_changes);
        assert_eq!((store.stat(fd, &file), store.stat_path(&file)), (Ok(stat), Ok(stat)));
        // A descriptor is enough to read by.
        let name = if of.has_descriptors { &nothing } else { &file };
        let mut part = [0; 9];
        assert_eq!((of.read)(&store, (fd, stat), name, &mut part, 3, false), Ok(()));
        assert_eq!(part, content[3..12]);
        assert!(store.read_again((fd, stat), name, &mut part, stat.bytes - 3).is_err());
        store.close(fd);
        assert_eq!(store.stat_link(&file), if of.has_folders { Ok(stat) } else { NOTHING });
        assert_eq!(store.stat_link(&nothing), NOTHING);
        let is_folder = |stat: FileStat| stat.kind == FileKind::FOLDER;
        assert_eq!(store.stat_path(&folder).is_ok_and(is_folder), of.has_folders);
        let mut names = Vec::new();
        let listed = store.list(folder.as_str(), 1, &mut |entry| names.push(entry.name.to_vec()));
        let version = store.stat_path(&folder).map(|stat| (Listing::Cut, stat.version()));
        assert_eq!(listed, if of.has_folders { version } else { Err(Fault::Unlisted) });
        assert_eq!(names.len(), usize::from(of.has_folders));
        let whole = store.list(folder.as_str(), u32::MAX, &mut |_| {}).map(|(listing, _)| listing);
        assert_eq!(whole.is_ok_and(|listing| listing == Listing::Whole), of.has_folders);
        assert_eq!(store.refuse_scheme("s3://bucket", &mut Why::new()).is_err(), of.has_paths);
        assert_eq!(store.open(&nothing), Err(Fault::Absent));
        assert_eq!(store.stat_path(&nothing), Err(Fault::Absent));
    }
}

const NOTHING: Result<FileStat, Errno> = Err(Errno(libc::ENOENT));
