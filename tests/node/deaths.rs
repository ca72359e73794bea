//! Owners and consumers that are killed at any moment, and before any store into memory that others
//! read. Processes are forked, each of which has no other thread of the test's.

use crate::common::alone::alone;
use crate::common::drive::PATIENCE_NS;
use crate::world::*;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use wavetrain::config::{Config, LOST_SKIP, SHARE_ALL, SHARE_FIRST, SHARE_ROUND};
use wavetrain::loader::{Loader, Pop};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::status::Status;

/// Consumers of an owner.
const CONSUMERS: u32 = 3;
/// The time in which a survivor is to notice a death.
const HEARS: Duration = Duration::from_secs(1);
/// Kills by chance and by number; WAVETRAIN_KILLS asks for more.
const KILLS: u64 = 48;

fn kills() -> u64 {
    std::env::var("WAVETRAIN_KILLS").ok().map_or(KILLS, |text| text.parse().unwrap())
}

/// Stores into shared memory that are left to a process; it ends at the first it has not.
static STORES_LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// The system of a process that is killed before one of its stores.
static MORTAL: Os = Os {
    before_store: || {
        if STORES_LEFT.fetch_sub(1, SeqCst) <= 0 {
            kill(std::process::id() as i32);
        }
    },
    ..SYSTEM
};

fn kill(process: i32) {
    // SAFETY: kill has no preconditions.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

/// A process that was forked.
struct Child(i32);

/// Runs `body` in a forked process, which ends with it.
fn fork(body: impl FnOnce()) -> Child {
    // SAFETY: the test has no other thread.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: it runs nothing of the test program's.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        child => Child(child),
    }
}

impl Child {
    /// How it ended, if it did: an exit status, or 256 and the signal.
    fn ended(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: it writes the status.
        let ended = unsafe { libc::waitpid(self.0, &mut status, libc::WNOHANG) };
        if ended != self.0 {
            return None;
        }
        Some(if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            256 + libc::WTERMSIG(status)
        })
    }

    /// Waits for its end.
    fn end(&self, patience: Duration) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(start.elapsed() < patience, "process {} did not end in {patience:?}", self.0);
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Both ends of a pipe, that to read first.
fn pipe() -> (fs::File, fs::File) {
    let mut ends = [0; 2];
    // SAFETY: it writes two descriptors, which no other code has.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let [read, write] = ends.map(|end| fs::File::from(OwnedFd::from_raw_fd(end)));
        (read, write)
    }
}

/// Writes the report of a consumer: its number and a batch.
fn tell(pipe: &fs::File, consumer: u32, batch: u64) {
    let line = [u64::from(consumer), batch].map(u64::to_le_bytes).concat();
    let mut pipe = pipe;
    pipe.write_all(&line).unwrap();
}

/// The reports of all, once all ends to write are closed.
fn told(mut pipe: fs::File) -> Vec<(u64, u64)> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks(16).map(|line| (word(&line[..8]), word(&line[8..]))).collect()
}

/// How long a consumer waits for an owner, which may be dead by then.
const ATTACH: Duration = Duration::from_secs(2);

/// The consumers that are attached, in memory that forked processes share.
type Flags = [AtomicBool; CONSUMERS as usize];

fn flags() -> &'static Flags {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of zeros, which stays; zeros are a value of atomics.
    unsafe { &*libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0).cast() }
}

/// Pops and checks until the owner has ended, or the stream.
fn consume(os: &'static Os, name: &str, number: u32, pipe: &fs::File, attached: &Flags) {
    let consumer = match Loader::attach_on(os, name, number, ATTACH.as_nanos() as u64) {
        Ok(consumer) => consumer,
        Err(failure) => {
            // The owner was killed before.
            assert_eq!(failure.status, Status::NotFound, "{failure}");
            return;
        }
    };
    attached[number as usize].store(true, SeqCst);
    loop {
        match consumer.pop(PATIENCE_NS) {
            Ok(Pop::Batch(batch)) => {
                let (id, _) = check(&batch);
                tell(pipe, number, id);
            }
            Ok(Pop::End) => break,
            Err(failure) if failure.status == Status::Shutdown => break,
            Ok(Pop::Reset | Pop::Again(_) | Pop::Starved(_)) => panic!("nothing to pop"),
            Err(failure) => panic!("{failure}"),
        }
    }
    consumer.close(PATIENCE_NS).unwrap();
}

/// Pushes until it is killed, or all batches are taken.
fn own(os: &'static Os, name: &str, cube: &Path, order: u32, batches: u64, pipe: &fs::File) {
    let config = Config {
        share_order: order,
        on_consumer_lost: LOST_SKIP,
        // One that is killed before it attached is lost by then.
        attach_timeout_ns: 500_000_000,
        ..config()
    };
    let owner = Loader::open_shared_on(os, &config, name, CONSUMERS).unwrap();
    push(&owner, cube, 0..batches * SAMPLES as u64);
    owner.flush().unwrap();
    assert!(matches!(owner.pop(PATIENCE_NS).unwrap(), Pop::End));
    tell(pipe, u32::MAX, owner.stats().unwrap().batches_lost);
    owner.close(PATIENCE_NS).unwrap();
}

/// No batch is given twice; with SHARE_ALL none is given twice to one consumer.
fn check_told(told: &[(u64, u64)], order: u32) {
    let mut seen = BTreeSet::new();
    for (consumer, batch) in told.iter().filter(|(consumer, _)| *consumer < u64::from(CONSUMERS)) {
        let by = if order == SHARE_ALL { *consumer } else { 0 };
        assert!(seen.insert((by, *batch)), "batch {batch} is given twice, last to {consumer}");
        let is_mine = order != SHARE_ROUND || batch % u64::from(CONSUMERS) == *consumer;
        assert!(is_mine, "batch {batch} is not consumer {consumer}'s");
    }
}

/// Numbers that look like chance.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

const ORDERS: [u32; 3] = [SHARE_ROUND, SHARE_FIRST, SHARE_ALL];

/// The process that is killed.
#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Owner,
    Consumer(u32),
}

/// One death, at a moment or before a store, and its effect on the others.
fn one_death(cube: &Path, name: &str, kill_number: u64) {
    let chance = mix(kill_number);
    let order = ORDERS[(kill_number % 3) as usize];
    let victim = match chance % 2 {
        0 => Victim::Owner,
        _ => Victim::Consumer((chance >> 8) as u32 % CONSUMERS),
    };
    let by_store = chance >> 16 & 1 == 1;
    let stores = (chance >> 20) % if victim == Victim::Owner { 1200 } else { 200 };
    let os_of = |who: Victim| -> &'static Os {
        if who == victim && by_store {
            STORES_LEFT.store(stores as i64, SeqCst);
            return &MORTAL;
        }
        &SYSTEM
    };
    let (read, write) = pipe();
    let (batches, attached) = (60, flags());
    let owner = fork(|| own(os_of(Victim::Owner), name, cube, order, batches, &write));
    let consumers: Vec<_> = (0..CONSUMERS)
        .map(|number| {
            fork(|| consume(os_of(Victim::Consumer(number)), name, number, &write, attached))
        })
        .collect();
    drop(write);
    let process = match victim {
        Victim::Owner => &owner,
        Victim::Consumer(number) => &consumers[number as usize],
    };
    if !by_store {
        thread::sleep(Duration::from_micros((chance >> 20) % 12_000));
        kill(process.0);
    }
    let status = process.end(Duration::from_secs(20));
    // A victim that was done before that has ended by itself.
    assert!(status == 256 + libc::SIGKILL || status == 0, "the victim: {status}");
    let is_dead = status != 0;
    // All others end by themselves: consumers of a dead owner at once.
    let is_owner = victim == Victim::Owner;
    let was_attached = attached.each_ref().map(|flag| flag.load(SeqCst));
    let owner_status = if is_owner { status } else { owner.end(Duration::from_secs(20)) };
    for (number, consumer) in (0..).zip(&consumers) {
        if victim == Victim::Consumer(number) {
            continue;
        }
        let patience = match was_attached[number as usize] {
            _ if !is_owner => Duration::from_secs(20),
            true => HEARS,
            false => ATTACH + HEARS,
        };
        assert_eq!(consumer.end(patience), 0, "consumer {number} after {kill_number}");
    }
    let told = told(read);
    check_told(&told, order);
    if victim == Victim::Owner {
        return;
    }
    assert_eq!(owner_status, 0, "the owner after {kill_number}");
    let lost = told.iter().find(|(who, _)| *who == u64::from(u32::MAX)).map(|(_, lost)| *lost);
    let lost = lost.expect("the owner reports its lost batches");
    let got = |number: u64| told.iter().filter(|(who, _)| *who == number).count() as u64;
    let all: u64 = (0..u64::from(CONSUMERS)).map(got).sum();
    let due = if order == SHARE_ALL { batches * u64::from(CONSUMERS) } else { batches };
    // A batch that its consumer reported, and could not give back, is counted twice.
    assert!(all + lost >= due.min(all + lost) && all <= due, "{all} and {lost} of {due}");
    if order != SHARE_ALL {
        assert!(all + lost >= batches && all + lost <= batches + 3, "{all} + {lost} of {batches}");
    }
    assert!(is_dead || lost == 0 || by_store);
}

/// Sockets of the names of this test that are left.
fn sockets(name: &str) -> usize {
    fs::read_to_string("/proc/net/unix").unwrap().lines().filter(|line| line.contains(name)).count()
}

#[test]
fn deaths_at_any_moment_and_before_any_store_leave_the_others_whole() {
    let cube = cube("deaths");
    alone(|| {
        let name = own_name("deaths");
        let before = fs::read_dir("/proc/self/fd").unwrap().count();
        for kill_number in 0..kills() {
            one_death(&cube, &name, kill_number);
            assert_eq!(sockets(&name), 0, "after {kill_number}");
        }
        assert_eq!(fs::read_dir("/proc/self/fd").unwrap().count(), before);
    });
}

#[test]
fn a_lost_consumer_ends_the_stream_for_all_until_a_reset() {
    let cube = cube("fails");
    alone(|| {
        let name = own_name("fails");
        let owner = Loader::open_shared(&config(), &name, 2).unwrap();
        let (read, write) = pipe();
        let victim = fork(|| {
            let consumer = attach(&name, 1);
            let Pop::Batch(held) = consumer.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
            tell(&write, 1, held.batch_id());
            thread::sleep(Duration::from_secs(60));
        });
        let other = attach(&name, 0);
        push(&owner, &cube, 0..40);
        let mut one = [0; 16];
        (&read).read_exact(&mut one).unwrap();
        kill(victim.0);
        victim.end(Duration::from_secs(10));
        let text = loop {
            match other.pop(PATIENCE_NS) {
                Ok(Pop::Batch(batch)) => assert_eq!(check(&batch).0 % 2, 0),
                Err(failure) => {
                    assert_eq!(failure.status, Status::Shutdown);
                    break failure.text.as_str().to_owned();
                }
                _ => panic!("nothing"),
            }
        };
        assert!(text.contains(&format!("consumer 1 (process {})", victim.0)), "{text}");
        assert_eq!(owner.pop(PATIENCE_NS).err().unwrap().status, Status::Shutdown);
        // The one that it held, and those that waited for it.
        assert!(owner.stats().unwrap().batches_lost >= 1);
        owner.reset().unwrap();
        assert_eq!(next(&other), Got::Reset);
        let again = attach(&name, 1);
        push(&owner, &cube, 0..8);
        owner.flush().unwrap();
        // Lost batches are not given to a consumer that attaches later.
        assert_eq!(next(&again), Got::Batch(1, vec![2, 3]));
        assert_eq!(next(&other), Got::Batch(0, vec![0, 1]));
        let _ = read.as_raw_fd();
        [again, other, owner].into_iter().for_each(close);
    });
}

#[test]
fn a_child_that_keeps_the_socket_of_a_dead_process_hides_no_death() {
    let cube = cube("keeps");
    alone(|| {
        for dies_first in ["owner", "consumer"] {
            let name = own_name("keeps");
            let (read, write) = pipe();
            if dies_first == "owner" {
                let owner = fork(|| {
                    let owner = Loader::open_shared(&config(), &name, 1).unwrap();
                    let keeper = fork(|| thread::sleep(Duration::from_secs(20)));
                    tell(&write, 0, keeper.0 as u64);
                    push(&owner, &cube, 0..2);
                    thread::sleep(Duration::from_secs(60));
                });
                let consumer = attach(&name, 0);
                assert_eq!(next(&consumer), Got::Batch(0, vec![0, 1]));
                let mut one = [0; 16];
                (&read).read_exact(&mut one).unwrap();
                kill(owner.0);
                owner.end(Duration::from_secs(10));
                let start = Instant::now();
                assert_eq!(next(&consumer), Got::Failed(Status::Shutdown));
                assert!(start.elapsed() < HEARS);
                kill(u64::from_le_bytes(one[8..].try_into().unwrap()) as i32);
                close(consumer);
                continue;
            }
            let settings = Config { on_consumer_lost: LOST_SKIP, ..config() };
            let owner = Loader::open_shared(&settings, &name, 1).unwrap();
            push(&owner, &cube, 0..2);
            let consumer = fork(|| {
                let consumer = attach(&name, 0);
                let Pop::Batch(_held) = consumer.pop(PATIENCE_NS).unwrap() else { panic!() };
                let keeper = fork(|| thread::sleep(Duration::from_secs(20)));
                tell(&write, 0, keeper.0 as u64);
                thread::sleep(Duration::from_secs(60));
            });
            let mut one = [0; 16];
            (&read).read_exact(&mut one).unwrap();
            kill(consumer.0);
            consumer.end(Duration::from_secs(10));
            let start = Instant::now();
            while owner.stats().unwrap().batches_lost == 0 {
                assert!(start.elapsed() < HEARS);
                thread::sleep(Duration::from_millis(1));
            }
            kill(u64::from_le_bytes(one[8..].try_into().unwrap()) as i32);
            close(owner);
        }
    });
}

#[test]
fn an_owner_that_closes_leaves_what_it_published_and_what_is_held() {
    let (cube, name) = (cube("closes"), own_name("closes"));
    let owner = Loader::open_shared(&config(), &name, 1).unwrap();
    let consumer = attach(&name, 0);
    push(&owner, &cube, 0..4);
    let Pop::Batch(held) = consumer.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
    let start = Instant::now();
    while owner.stats().unwrap().batches_emitted < 2 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    close(owner);
    assert_eq!(next(&consumer), Got::Batch(1, vec![2, 3]));
    assert_eq!(next(&consumer), Got::Failed(Status::Shutdown));
    assert_eq!(check(&held), (0, vec![0, 1]));
    drop(held);
    close(consumer);
    close(Loader::open_shared(&config(), &name, 1).unwrap());
}
