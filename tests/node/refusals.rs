//! Refusals, with a text that names the fix; the processes that may attach; the memory that is
//! asked for.

use crate::common::alone::alone;
use crate::common::drive::PATIENCE_NS;
use crate::common::machine::read_of;
use crate::common::surface::text_of;
use crate::world::*;
use std::ffi::CString;
use std::time::{Duration, Instant};
use wavetrain::abi::Error;
use wavetrain::batch::exports::DlManagedTensorVersioned;
use wavetrain::config::{
    BACKEND_AUTO, BACKEND_CUDA, Config, LOST_SKIP, SHARE_ALL, SHARE_ROUND, ShareName, THREADS_PUMP,
};
use wavetrain::loader::{Failure, Loader, Part, Pop, memory_need};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::status::Status;
use wavetrain::surface::c::node::wavetrain_attach;
use wavetrain::surface::c::*;

/// Status and text of a loader that did not open.
fn refused(opened: Result<Loader, Failure>) -> (Status, String) {
    match opened {
        Ok(_) => panic!("it opened"),
        Err(failure) => (failure.status, failure.text.as_str().to_owned()),
    }
}

fn is_refused(config: &Config, name: &str, consumers: u32, status: Status, parts: &[&str]) {
    let (found, text) = refused(Loader::open_shared(config, name, consumers));
    assert_eq!(found, status, "{text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{part} in {text}"));
}

#[test]
fn configs_that_cannot_be_shared_are_refused_with_the_fix() {
    let name = own_name("refused");
    let base = config();
    use Status::{Invalid, Unsupported};
    is_refused(&base, "", 1, Invalid, &["share_name", "letters"]);
    is_refused(&base, "a b", 1, Invalid, &["\"a b\"", "letters"]);
    is_refused(&base, &"n".repeat(81), 1, Invalid, &["1 to 80"]);
    is_refused(&base, &format!("/{}", "n".repeat(107)), 1, Invalid, &["at most 107"]);
    is_refused(&base, "/absent/folder/name", 1, Status::Io, &["no such file"]);
    is_refused(&base, &name, 0, Invalid, &["share_consumers = 0", "1 to 64"]);
    is_refused(&base, &name, 65, Invalid, &["share_consumers = 65", "0 to 64"]);
    let pump = Config { thread_mode: THREADS_PUMP, ..base };
    is_refused(&pump, &name, 1, Invalid, &["thread_mode = own"]);
    let cuda = Config { backend: BACKEND_CUDA, ..base };
    is_refused(&cuda, &name, 1, Unsupported, &["host memory"]);
    let lent = Config { lent_slots: 2, ..base };
    is_refused(&lent, &name, 1, Invalid, &["lent_slots"]);
    for (part, config) in [
        ("share_consumers", Config { share_consumers: 2, ..base }),
        ("share_order", Config { share_order: SHARE_ALL, ..base }),
        ("share_owner", Config { share_owner: 1, ..base }),
        ("on_consumer_lost", Config { on_consumer_lost: LOST_SKIP, ..base }),
    ] {
        let (status, text) = refused(Loader::open(&config));
        assert_eq!(status, Invalid);
        assert!(text.contains(part) && text.contains("share_name"), "{text}");
    }
    let named = Config { share_name: ShareName::from_static(c"n"), share_consumers: 1, ..base };
    let (status, text) = refused(Loader::open(&named));
    assert!(status == Invalid && text.contains("share_name"), "{text}");
}

#[test]
fn auto_takes_the_host_and_reports_why() {
    let config = Config { backend: BACKEND_AUTO, ..config() };
    let owner = Loader::open_shared(&config, &own_name("auto"), 1).unwrap();
    let stats = owner.stats().unwrap();
    let text: String = stats
        .backend_text
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| *byte as u8 as char)
        .collect();
    assert!(text.contains("shared"), "{text}");
    close(owner);
}

#[test]
fn a_name_and_a_number_in_use_are_refused_with_the_process_that_has_them() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("node-names");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(own_name("p"));
    let path = path.to_str().unwrap();
    let me = format!("process {}", std::process::id());
    for name in [own_name("in-use").as_str(), path] {
        if name.len() > 107 {
            continue;
        }
        let owner = Loader::open_shared(&config(), name, 2).unwrap();
        is_refused(&config(), name, 2, Status::Invalid, &[name, "in use", &me]);
        let first = attach(name, 1);
        let (status, text) = refused(Loader::attach(name, 1, 0));
        assert_eq!(status, Status::Invalid);
        assert!(text.contains("consumer 1") && text.contains(&me), "{text}");
        let (status, text) = refused(Loader::attach(name, 2, 0));
        assert!(status == Status::Invalid && text.contains("there are 2"), "{text}");
        close(first);
        // A number is free once its consumer has closed, which the owner notices a moment later.
        let start = Instant::now();
        let again = loop {
            match Loader::attach(name, 1, 0) {
                Ok(again) => break again,
                Err(failure) => assert!(start.elapsed() < Duration::from_secs(5), "{failure}"),
            }
        };
        [again, owner].into_iter().for_each(close);
        assert!(!std::path::Path::new(name).exists());
        let (status, text) = refused(Loader::attach(name, 0, 20_000_000));
        assert!(status == Status::NotFound && text.contains(name), "{text}");
    }
}

#[test]
fn a_path_where_something_else_lies_is_refused_at_once() {
    let folder = std::env::temp_dir().join(own_name("no-socket"));
    let file = folder.join("file");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(&file, "bytes").unwrap();
    for (path, kind) in [(&folder, "a folder"), (&file, "a regular file")] {
        let path = path.to_str().unwrap();
        let (status, text) = refused(Loader::attach(path, 0, 5_000_000_000));
        assert_eq!(status, Status::Invalid, "{text}");
        assert!(text.contains(path) && text.contains(kind) && text.contains("owner"), "{text}");
    }
    // A file that is removed may be the place of a socket later.
    std::fs::remove_dir_all(&folder).unwrap();
    let (status, text) = refused(Loader::attach(file.to_str().unwrap(), 0, 20_000_000));
    assert_eq!(status, Status::NotFound, "{text}");
}

#[test]
fn a_name_that_is_not_utf_8_is_refused_by_its_own_name() {
    let (mut loader, mut error) = (0, Error::EMPTY);
    for (name, fix) in [(c"n\xff".as_ptr(), "share_name is not UTF-8"), (std::ptr::null(), "NULL")]
    {
        // SAFETY: the name has a NUL, and the others are writable.
        let status = unsafe { wavetrain_attach(name, 0, 0, &mut loader, &mut error) };
        let text = text_of(&error);
        assert_eq!((status, loader), (Status::Invalid as i32, 0), "{text}");
        assert!(text.contains(fix) && !text.contains("uri"), "{text}");
    }
}

#[test]
fn a_consumer_that_holds_all_slots_is_named_with_the_fix() {
    let (cube, name) = (cube("holds"), own_name("holds"));
    let config = Config { n_batch_slots: 2, ..config() };
    let owner = Loader::open_shared(&config, &name, 1).unwrap();
    let consumer = attach(&name, 0);
    let mut held = Vec::new();
    for (slots, fix) in [(1, "if the owner lacks slots, release"), (2, "slots: release a batch")] {
        push(&owner, &cube, 0..SAMPLES as u64);
        let Pop::Batch(batch) = consumer.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        held.push(batch);
        let Pop::Again(why) = consumer.pop(0).unwrap() else { panic!("another batch") };
        let holds = format!("for consumer 0, which holds {slots} of 2 batch slots");
        assert!(why.as_str().contains(&holds) && why.as_str().contains(fix), "{why}");
    }
    drop(held);
    [consumer, owner].into_iter().for_each(close);
}

#[test]
fn memory_that_is_short_is_refused_with_both_numbers_before_a_page_is_taken() {
    static SHORT: Os = Os {
        read_system: |_, target, offset| Ok(read_of(b"MemAvailable: 4 kB\n", target, offset)),
        share_memory: |_| panic!("a page was taken"),
        ..SYSTEM
    };
    static REFUSES: Os = Os { share_memory: |_| Err(Errno(libc::ENOSPC)), ..SYSTEM };
    let name = own_name("short");
    let share_name = CString::new(name.as_str()).unwrap();
    // SAFETY: the name outlives the call.
    let share_name = unsafe { ShareName::from_raw(share_name.as_ptr()) };
    let config = Config { share_name, share_consumers: 3, ..config() };
    let need = memory_need(&config).unwrap();
    let (bytes, all) = (need.shared_bytes, need.shared_bytes + need.host_bytes);
    let (status, text) = refused(Loader::open_on(&SHORT, &config));
    assert_eq!(status, Status::OutOfMemory);
    assert!(text.contains(&all.to_string()) && text.contains("4096"), "{text}");
    let (status, text) = refused(Loader::open_on(&REFUSES, &config));
    assert_eq!(status, Status::OutOfMemory);
    assert!(text.contains(&bytes.to_string()) && text.contains("no space"), "{text}");
    // The name was given back.
    close(Loader::open_on(&SYSTEM, &config).unwrap());
}

#[test]
fn the_bill_has_the_shared_bytes_and_slots_are_derived() {
    for (consumers, slots) in [(1, 3), (4, 9), (31, 63), (40, 64)] {
        let share_name = ShareName::from_static(c"bill");
        let need = |n_batch_slots| {
            let config =
                Config { share_name, share_consumers: consumers, n_batch_slots, ..config() };
            memory_need(&config).unwrap().shared_bytes
        };
        assert_eq!(need(3), need(slots), "{consumers} consumers");
        assert!(need(slots) >= need(1) || slots == 1);
    }
    let own = memory_need(&config()).unwrap();
    assert_eq!(own.shared_bytes, 0);
}

#[test]
fn calls_that_fill_batches_are_the_owners() {
    let (cube, name) = (cube("owners"), own_name("owners"));
    let owner = Loader::open_shared(&config(), &name, 1).unwrap();
    let consumer = attach(&name, 0);
    let uri = cube.to_str().unwrap();
    let part = Part { uri, begin: &[0; 3], end: &[2, 5, 16], ..Part::default() };
    let mut memory = vec![0u8; 4096];
    // SAFETY: the memory is this test's.
    let read = unsafe { consumer.read_into(&part, (memory.as_mut_ptr(), 4096), None, 0) };
    // SAFETY: it is refused.
    let lent = unsafe { consumer.lend(&[(memory.as_mut_ptr(), 4096)], None, 0) };
    for refused in [
        consumer.push(&[], 0).map(|_| ()),
        consumer.flush(),
        consumer.reset(),
        consumer.pump(0).map(|_| ()),
        consumer.forget(None),
        read,
        lent,
    ] {
        let failure = refused.unwrap_err();
        assert_eq!(failure.status, Status::Invalid);
        let text = failure.text.as_str();
        assert!(text.contains("owner") && text.contains(&std::process::id().to_string()), "{text}");
    }
    // SAFETY: it is refused.
    let lent = unsafe { owner.lend(&[(memory.as_mut_ptr(), 4096)], None, 0) };
    assert_eq!(lent.unwrap_err().status, Status::Invalid);
    // The owner may read boxes, apart from its stream. SAFETY: the memory is this test's.
    unsafe { owner.read_into(&part, (memory.as_mut_ptr(), 4096), None, PATIENCE_NS) }.unwrap();
    [consumer, owner].into_iter().for_each(close);
}

#[test]
fn a_consumer_that_does_not_attach_in_time_is_lost_and_named() {
    let (cube, name) = (cube("late"), own_name("late"));
    let config = Config { attach_timeout_ns: 150_000_000, share_order: SHARE_ROUND, ..config() };
    let owner = Loader::open_shared(&config, &name, 2).unwrap();
    let consumer = attach(&name, 0);
    push(&owner, &cube, 0..8);
    let Pop::Again(why) = consumer.pop(0).unwrap_or_else(|why| panic!("{why}")) else {
        // It had its batch at once.
        return [consumer, owner].into_iter().for_each(close);
    };
    assert!(why.as_str().contains("not attached yet: consumer 1"), "{why}");
    let text = loop {
        match consumer.pop(PATIENCE_NS) {
            Ok(Pop::Batch(batch)) => assert_eq!(check(&batch).0 % 2, 0),
            Err(failure) => break failure.text.as_str().to_owned(),
            _ => panic!("nothing"),
        }
    };
    assert!(text.contains("consumer 1 did not attach"), "{text}");
    [consumer, owner].into_iter().for_each(close);
}

#[test]
fn batches_for_all_are_read_only_and_have_the_flag() {
    let (cube, name) = (cube("read-only"), own_name("read-only"));
    for (order, flags, legacy) in
        [(SHARE_ALL, 1, Status::Unsupported), (SHARE_ROUND, 0, Status::Ok)]
    {
        let config = Config { share_order: order, ..config() };
        let owner = Loader::open_shared(&config, &name, 1).unwrap();
        let consumer = attach(&name, 0);
        push(&owner, &cube, 0..2);
        let Pop::Batch(batch) = consumer.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        let tensor = batch.dlpack().unwrap().unwrap();
        // SAFETY: the tensor lives until its deleter is called.
        unsafe {
            assert_eq!(tensor.as_ref().flags, flags);
            let deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)> =
                tensor.as_ref().deleter;
            deleter.unwrap()(tensor.as_ptr());
        }
        drop(batch);
        push(&owner, &cube, 2..4);
        let mut held = 0;
        // SAFETY: as the header says of each pointer.
        unsafe {
            let none = std::ptr::null_mut();
            assert_eq!(wavetrain_pop(consumer.token(), PATIENCE_NS, &mut held, none), 0);
            let mut tensor = std::ptr::null_mut();
            let stream = std::ptr::null_mut();
            let got = wavetrain_dlpack_legacy(consumer.token(), held, 0, stream, &mut tensor);
            assert_eq!(got, legacy as i32);
            if !tensor.is_null() {
                (*tensor).deleter.unwrap()(tensor);
            }
            assert_eq!(wavetrain_release(consumer.token(), held, std::ptr::null_mut()), 0);
        }
        [consumer, owner].into_iter().for_each(close);
    }
}

#[test]
fn another_user_and_a_forked_child_are_refused() {
    alone(|| {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            println!("only root can become another user: that part is left out");
        }
        let path = format!("/tmp/wavetrain-{}", own_name("user"));
        let owner = Loader::open_shared(&config(), &path, 1).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, mode).unwrap();
        let consumer = attach(&path, 0);
        // SAFETY: this process has only threads of the library, which the child does not use.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_dead = |popped: Result<Pop<'_>, Failure>| {
                popped.err().is_some_and(|failure| failure.status == Status::Shutdown)
            };
            let mut is_right = is_dead(consumer.pop(0)) && is_dead(owner.pop(0));
            // SAFETY: no preconditions.
            if unsafe { libc::setuid(65534) } == 0 {
                let attached = Loader::attach(&path, 0, 0).err();
                let text = attached.map(|failure| failure.text.as_str().to_owned());
                is_right &= text.is_some_and(|text| text.contains("another user: 0"));
            }
            // SAFETY: nothing of this process is to run.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        let mut status = 0;
        // SAFETY: it writes the status.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        [consumer, owner].into_iter().for_each(close);
        assert!(!std::path::Path::new(&path).exists());
    });
}
