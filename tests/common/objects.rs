//! A store of objects in memory, as an object store of a network is: each has a version, and every
//! request is counted.
//!
//! In: names and bytes, and which functions the hooks have. Out: a config that reads them, and the
//! requests that were made.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use wavetrain::abi::{FILE_ABSENT, FILE_CHANGED, FILE_FAILED, FilesHook, FoundChild, StoreHook};
use wavetrain::config::Config;
use wavetrain::surface::c::wavetrain_read_done;

/// The kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Size,
    Read,
    List,
    /// read_tail.
    Tail,
    /// read_version.
    Version,
    /// read_version_async, or read_async.
    Later,
}

/// A request that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub kind: Kind,
    pub name: String,
    pub offset: u64,
    pub bytes: u64,
    /// The version that was asked for; 0: any.
    pub asked: u64,
}

/// See the module.
#[derive(Default)]
pub struct Objects {
    objects: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
    requests: Mutex<Vec<Request>>,
    puts: AtomicU64,
    /// Children that `list` gives in place of those that there are.
    pub children: Mutex<Option<Vec<Vec<u8>>>>,
    /// Answers of `list`, the next first, before it lists anything.
    pub list_answers: Mutex<Vec<i64>>,
    /// Answers of reads of a version, the next last: one that is not 0 leaves other bytes in the
    /// target.
    pub read_answers: Mutex<Vec<i64>>,
    /// The ways of `read_tail` to lie.
    pub lie: Mutex<Lie>,
    /// The seed of calls that go wrong by chance, one in four; 0: none does.
    pub chaos: AtomicU64,
    /// Each version that is told is another one.
    pub tells_others: AtomicBool,
    /// Reads that end later and have not ended, and the most there were.
    pub later: AtomicUsize,
    pub later_most: AtomicUsize,
}

/// Ways in which a host may be wrong about the end of a file.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Lie {
    #[default]
    None,
    /// More bytes than were asked for.
    GotMore,
    /// Fewer than there are.
    GotLess,
    /// A size below what it gave.
    SizeLess,
    /// A size that no file has.
    SizeHuge,
    /// An answer that no host may give.
    Answer(i64),
}

impl Objects {
    /// Makes an object, or replaces it by another version.
    pub fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let version = self.puts.fetch_add(1, SeqCst) + 1;
        self.objects.lock().unwrap().insert(name.to_owned(), (version, bytes.into()));
    }

    pub fn remove(&self, name: &str) {
        self.objects.lock().unwrap().remove(name);
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// The config that reads these by size and read alone.
    pub fn files(&self, config: Config) -> Config {
        let user = std::ptr::from_ref(self).cast_mut().cast();
        let files = FilesHook { user, size: Some(size), read: Some(read), ..FilesHook::NONE };
        Config { files, ..config }
    }

    /// The same, with `list`.
    pub fn listed(&self, config: Config) -> Config {
        let config = self.files(config);
        Config { store: StoreHook { list: Some(list), ..config.store }, ..config }
    }

    /// The same, with the end of a file in one request, and versions.
    pub fn versioned(&self, config: Config) -> Config {
        let config = self.listed(config);
        let (read_tail, read_version) = (Some(read_tail as _), Some(read_version as _));
        Config { store: StoreHook { read_tail, read_version, ..config.store }, ..config }
    }

    /// The same, with reads that another thread ends.
    pub fn later(&self, config: Config) -> Config {
        let config = self.versioned(config);
        let store = StoreHook { read_version_async: Some(read_version_async), ..config.store };
        Config { store, ..config }
    }

    fn note(&self, kind: Kind, name: &str, (offset, bytes): (u64, u64), asked: u64) {
        let request = Request { kind, name: name.to_owned(), offset, bytes, asked };
        self.requests.lock().unwrap().push(request);
    }

    fn get(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        if let Some(object) = self.objects.lock().unwrap().get(name) {
            return Some(object.clone());
        }
        // Files of the system are objects that nobody replaces.
        let bytes = if name.starts_with('/') { std::fs::read(name).ok()? } else { return None };
        Some((u64::MAX, bytes))
    }

    /// The children of a folder, and whether each is one.
    fn children_of(&self, folder: &str) -> BTreeSet<(Vec<u8>, bool)> {
        let before = format!("{folder}/");
        let objects = self.objects.lock().unwrap();
        let below = objects.keys().filter_map(|name| name.strip_prefix(&before));
        below
            .map(|name| match name.split_once('/') {
                Some((child, _)) => (child.as_bytes().to_vec(), true),
                None => (name.as_bytes().to_vec(), false),
            })
            .collect()
    }
}

fn of<'a>(user: *mut c_void) -> &'a Objects {
    // SAFETY: `user` is a store that outlives its loaders.
    unsafe { &*user.cast::<Objects>() }
}

fn text<'a>(name: *const c_char) -> &'a str {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8")
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    of(user).note(Kind::Size, text(name), (0, 0), 0);
    of(user).get(text(name)).map_or(FILE_ABSENT, |(_, bytes)| bytes.len() as i64)
}

/// Copies a range of an object, if it has that.
fn copy(bytes: &[u8], offset: u64, target: *mut c_void, count: u64) -> i64 {
    let limit = offset.checked_add(count).map(|limit| limit as usize);
    let Some(part) = limit.and_then(|limit| bytes.get(offset as usize..limit)) else {
        return FILE_FAILED;
    };
    // SAFETY: the target is the library's, so many bytes long, and nobody else's during the call.
    unsafe { target.cast::<u8>().copy_from_nonoverlapping(part.as_ptr(), part.len()) };
    0
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    count: u64,
) -> i64 {
    of(user).note(Kind::Read, text(name), (offset, count), 0);
    let Some((_, bytes)) = of(user).get(text(name)) else { return FILE_ABSENT };
    copy(&bytes, offset, target, count)
}

unsafe extern "C" fn list(
    user: *mut c_void,
    name: *const c_char,
    found: FoundChild,
    context: *mut c_void,
) -> i64 {
    let (objects, found) = (of(user), found.expect("a function"));
    objects.note(Kind::List, text(name), (0, 0), 0);
    if let Some(answer) = objects.list_answers.lock().unwrap().pop() {
        return answer;
    }
    let give = |child: &[u8], is_folder: bool| {
        let child = CString::new(child).expect("no NUL");
        // SAFETY: the child is a text with a NUL, borrowed during the call.
        unsafe { found(context, child.as_ptr(), i32::from(is_folder)) };
    };
    if let Some(children) = &*objects.children.lock().unwrap() {
        children.iter().for_each(|child| give(child, true));
        return 0;
    }
    let children = objects.children_of(text(name));
    children.iter().for_each(|(child, is_folder)| give(child, *is_folder));
    if children.is_empty() { FILE_ABSENT } else { 0 }
}

/// A version as the hooks tell it: its number in the first and the last of four words, because a
/// part of it is no version.
fn told(number: u64) -> [u8; 32] {
    let mut told = [0x5A; 32];
    told[..8].copy_from_slice(&number.to_le_bytes());
    told[24..].copy_from_slice(&number.to_le_bytes());
    told
}

/// The number of a version that is asked for; 0: any is.
fn number(version: &[u8; 32]) -> u64 {
    let number = u64::from_le_bytes(version[..8].try_into().unwrap());
    assert_eq!(*version, if number == 0 { [0; 32] } else { told(number) });
    number
}

impl Objects {
    /// A number for a call that goes wrong.
    fn chance(&self) -> Option<u64> {
        let next = |seed: u64| {
            let seed = seed ^ (seed << 13);
            let seed = seed ^ (seed >> 7);
            seed ^ (seed << 17)
        };
        let seed = next(self.chaos.fetch_update(SeqCst, SeqCst, |seed| Some(next(seed))).unwrap());
        (seed != 0 && seed % 4 == 0).then_some(seed >> 8)
    }

    /// The version to tell of an object that has this one.
    fn tell(&self, version: u64) -> [u8; 32] {
        let is_other = self.tells_others.load(SeqCst);
        told(if is_other { 1000 + self.puts.fetch_add(1, SeqCst) } else { version })
    }
}

unsafe extern "C" fn read_tail(
    user: *mut c_void,
    name: *const c_char,
    target: *mut c_void,
    count: u64,
    got: *mut u64,
    size: *mut u64,
    version: *mut u8,
) -> i64 {
    let objects = of(user);
    objects.note(Kind::Tail, text(name), (0, count), 0);
    assert!(count > 0);
    let Some((number, bytes)) = objects.get(text(name)) else { return FILE_ABSENT };
    let all = bytes.len() as u64;
    let lie = match objects.chance() {
        None => *objects.lie.lock().unwrap(),
        Some(which) => match which % 5 {
            0 => Lie::GotMore,
            1 => Lie::GotLess,
            2 => Lie::SizeLess,
            3 => Lie::SizeHuge,
            _ => Lie::Answer([FILE_CHANGED, FILE_FAILED, 1, i64::MIN][which as usize / 5 % 4]),
        },
    };
    let least = all.min(count);
    let (told_got, told_size) = match lie {
        Lie::None => (least, all),
        Lie::GotMore => (count + 1, all),
        Lie::GotLess => (least - 1, all),
        Lie::SizeLess => (least, least - 1),
        Lie::SizeHuge => (count, u64::MAX),
        Lie::Answer(answer) => return answer,
    };
    // SAFETY: the numbers and the version are the library's.
    unsafe {
        *got = told_got;
        *size = told_size;
        version.cast::<[u8; 32]>().write(objects.tell(number));
    }
    copy(&bytes, all - least, target, least)
}

unsafe extern "C" fn read_version(
    user: *mut c_void,
    name: *const c_char,
    version: *mut u8,
    offset: u64,
    target: *mut c_void,
    count: u64,
) -> i64 {
    let objects = of(user);
    // SAFETY: the version is the library's.
    let version = unsafe { &mut *version.cast::<[u8; 32]>() };
    let asked = number(version);
    objects.note(Kind::Version, text(name), (offset, count), asked);
    objects.copy_version(text(name), version, (offset, count), target)
}

impl Objects {
    fn copy_version(
        &self,
        name: &str,
        version: &mut [u8; 32],
        (offset, count): (u64, u64),
        target: *mut c_void,
    ) -> i64 {
        let asked = number(version);
        let Some((there, bytes)) = self.get(name) else { return FILE_ABSENT };
        let answer = self.read_answers.lock().unwrap().pop();
        if let Some(answer) = answer.filter(|answer| *answer != 0) {
            copy(&vec![0xEE; count as usize], 0, target, count);
            return answer;
        }
        if let Some(which) = self.chance() {
            let answers = [FILE_CHANGED, FILE_FAILED, 77, i64::MAX];
            if which % 5 < 4 || asked == 0 {
                return answers[which as usize % 4];
            }
            // Bytes of another version, which is told.
            *version = told(asked + 1);
            return copy(&vec![0xEE; count as usize], 0, target, count);
        }
        let tells_others = self.tells_others.load(SeqCst);
        if asked != 0 && asked != there && !tells_others {
            return FILE_CHANGED;
        }
        *version = self.tell(there);
        copy(&bytes, offset, target, count)
    }
}

unsafe extern "C" fn read_version_async(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    version: *mut u8,
    offset: u64,
    target: *mut c_void,
    count: u64,
) -> i64 {
    let objects = of(user);
    // SAFETY: the version is the library's.
    let mut version = unsafe { *version.cast::<[u8; 32]>() };
    objects.note(Kind::Later, text(name), (offset, count), number(&version));
    let now = objects.later.fetch_add(1, SeqCst) + 1;
    objects.later_most.fetch_max(now, SeqCst);
    let (name, target) = (text(name).to_owned(), target.expose_provenance());
    let user = user.expose_provenance();
    std::thread::spawn(move || {
        let objects = of(std::ptr::with_exposed_provenance_mut(user));
        let target = std::ptr::with_exposed_provenance_mut(target);
        let asked = version;
        let result = objects.copy_version(&name, &mut version, (offset, count), target);
        // The version that was read is told to nobody.
        let result = if asked == version { result } else { FILE_CHANGED };
        objects.later.fetch_sub(1, SeqCst);
        assert_eq!(wavetrain_read_done(loader, ticket, result), 0);
    });
    0
}
