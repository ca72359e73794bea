//! Handles are tokens {generation, place} into a small static table, so that a late call is told
//! SHUTDOWN without touching memory that was given back. So is one with a token of another copy of
//! the library in this process, a second plugin's: where generations begin is told by where the
//! table lies and by when it was first used, which no two copies have in common.
//!
//! A place counts the calls that are inside its loader, and apart from them those that entered
//! after close had stopped it (ENDING): these find a loader that is being closed, and look at
//! nothing that a close gives back while slots are kept. A close that gives everything back first
//! makes the place refuse new calls, then waits until it is the last one. Everything is atomic and
//! sequentially consistent: a lock could be held by another thread at the moment of a fork.

use crate::base::cache::hash_words;
use crate::base::limits::INSTANCES_MAX;
use crate::base::status::{Status, Why};
use crate::batch::exports::Deleters;
use crate::cuda::HAS_DEVICES;
use crate::engine::Engine;
use crate::engine::attach::{Attached, attach, end_attached};
use crate::engine::numa::Numa;
use crate::engine::open::{self, Handle, Opened};
use crate::fail;
use crate::jobs::tensors;
use crate::os::cancel::Uncancelled;
use crate::os::loaded::keep_loaded;
use crate::os::memory::Paged;
use crate::os::sink::{Level, Sink};
use crate::os::{Os, SYSTEM, fatal};
use crate::setup::config::Config;
use crate::setup::settings::Settings;
use crate::surface::info::{checked, settle};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};

const FREE: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const ENDING: u32 = 3;
const CLOSING: u32 = 4;

/// Bits of a token that say the place, counted from 1; those above are the generation.
const PLACE_BITS: u32 = 8;
const _: () = assert!(INSTANCES_MAX < 1 << PLACE_BITS);

struct Place {
    /// FREE -> OPENING -> OPEN -> ENDING -> CLOSING -> FREE.
    state: AtomicU32,
    /// Changes with every open, so that old tokens stay dead.
    generation: AtomicU64,
    /// Calls inside the loader that entered while it was OPEN.
    users: AtomicU32,
    /// Those that entered while it was ENDING. One is among the users until it is among these.
    late: AtomicU32,
    /// The loader by which an owner takes batches of its own; 0: it takes none, or is not an owner.
    inner: AtomicU64,
    /// There while the place is OPEN, ENDING or CLOSING; zeros before, so that the table takes no
    /// bytes of the archive.
    opened: UnsafeCell<MaybeUninit<Opened>>,
}

// SAFETY: `opened` is written only in OPENING, by the opener, and read only while OPEN or ENDING
// with a call counted.
unsafe impl Sync for Place {}

static PLACES: [Place; INSTANCES_MAX] = [const {
    Place {
        state: AtomicU32::new(FREE),
        generation: AtomicU64::new(0),
        users: AtomicU32::new(0),
        late: AtomicU32::new(0),
        inner: AtomicU64::new(0),
        opened: UnsafeCell::new(MaybeUninit::zeroed()),
    }
}; INSTANCES_MAX];

/// Keeps a place: its number, and the token that its next loader will be known by. None when all
/// are taken.
fn reserve() -> Option<(usize, u64)> {
    let is_kept =
        |place: &Place| place.state.compare_exchange(FREE, OPENING, SeqCst, SeqCst).is_ok();
    let number = PLACES.iter().position(is_kept)?;
    let place = &PLACES[number];
    // Only the reserver of a place writes it.
    let generation = match place.generation.load(SeqCst) {
        0 => first_generation(place),
        generation => generation + 1,
    };
    place.generation.store(generation, SeqCst);
    Some((number, generation << PLACE_BITS | (number as u64 + 1)))
}

/// Where the generations of a place begin: 1 to 2^55, so that none is 0 or leaves its 56 bits.
fn first_generation(place: &'static Place) -> u64 {
    let address = core::ptr::from_ref(place).addr() as u64;
    1 + (hash_words(&[address, (SYSTEM.now_ns)()]) >> (PLACE_BITS + 1))
}

/// A call inside a loader. When it leaves, the work that it made is handed to the host, where
/// the host runs jobs. Its thread is not cancelled meanwhile.
pub struct Entered {
    number: usize,
    place: &'static Place,
    opened: Opened,
    /// It is the loader that was meant; else nothing of it is touched.
    is_inside: bool,
    is_late: bool,
    _uncancelled: Uncancelled,
}

impl Entered {
    /// The loader was stopped: this call counts as one that came after that.
    fn be_late(&mut self) {
        if !self.is_late {
            self.place.late.fetch_add(1, SeqCst);
            self.place.users.fetch_sub(1, SeqCst);
            self.is_late = true;
        }
    }
}

impl Deref for Entered {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        self.opened.loader
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_inside {
            self.opened.loader.hand_out();
        }
        let count = if self.is_late { &self.place.late } else { &self.place.users };
        count.fetch_sub(1, SeqCst);
    }
}

/// Enters the loader of a token. None where it is closed, was never opened, or belongs to the
/// process that this one was forked from.
pub fn enter(token: u64) -> Option<Entered> {
    let number = (token & ((1 << PLACE_BITS) - 1)).checked_sub(1)? as usize;
    enter_place(number, |place, _| place.generation.load(SeqCst) == token >> PLACE_BITS)
}

/// Enters the loader that has a tensor record at this address; None as for `enter`, and where no
/// loader has one. The address is compared and not followed: after a close that returned Ok the
/// memory behind it may be gone.
fn enter_by_tensor(address: usize) -> Option<Entered> {
    let is_open = |number: &usize| matches!(PLACES[*number].state.load(SeqCst), OPEN | ENDING);
    let has_tensor =
        |_: &Place, opened: &Opened| tensors::has_tensor(opened.loader.shared, address);
    (0..PLACES.len()).filter(is_open).find_map(|number| enter_place(number, has_tensor))
}

fn enter_place(number: usize, is_wanted: impl Fn(&Place, &Opened) -> bool) -> Option<Entered> {
    let place = PLACES.get(number)?;
    let uncancelled = Uncancelled::enter();
    place.users.fetch_add(1, SeqCst);
    let state = place.state.load(SeqCst);
    if !matches!(state, OPEN | ENDING) {
        place.users.fetch_sub(1, SeqCst);
        return None;
    }
    // SAFETY: the place was OPEN or ENDING with this call counted, so a close that gives memory
    // back waits for it; what OPEN was set behind is there.
    let opened = unsafe { (*place.opened.get()).assume_init() };
    let (is_inside, is_late) = (false, false);
    let mut entered =
        Entered { number, place, opened, is_inside, is_late, _uncancelled: uncancelled };
    if state == ENDING {
        entered.be_late();
    }
    let is_ours = opened.loader.shared.process_id == (SYSTEM.process_id)();
    entered.is_inside = is_ours && is_wanted(place, &opened);
    entered.is_inside.then_some(entered)
}

/// Opens a loader; its token.
pub fn open_token(os: &'static Os, config: &Config, why: &mut Why) -> Result<u64, Status> {
    let _uncancelled = Uncancelled::enter();
    let mut checked = checked(os, config, why);
    let token = open_settings(os, settle(&mut checked)?, None, why)?;
    if config.share_owner == 1 {
        attach_owner(os, (token, config), why).inspect_err(|_| {
            let closed = close_token(token, u64::MAX);
            assert!(closed.is_ok());
        })?;
    }
    Ok(token)
}

/// Attaches to the loader that shares `name`, as consumer `number`; the token of a loader that
/// takes its batches.
#[inline(never)] // its settings are not to stand on the stack of an open
pub fn attach_token(
    os: &'static Os,
    (name, number): (&str, u32),
    timeout_ns: u64,
    why: &mut Why,
) -> Result<u64, Status> {
    let _uncancelled = Uncancelled::enter();
    let (attached, settings) = attach(os, name, number, timeout_ns, why)?;
    let mut checked = Ok(settings);
    match settle(&mut checked) {
        Ok(settings) => open_settings(os, settings, Some(attached), why),
        Err(status) => {
            end_attached(os, &attached);
            Err(status)
        }
    }
}

/// The owner of a name attaches to itself, as consumer 0.
#[inline(never)] // as `attach_token`
fn attach_owner(
    os: &'static Os,
    (token, config): (u64, &Config),
    why: &mut Why,
) -> Result<(), Status> {
    let name = config.share_name.read(why)?;
    let inner = attach_token(os, (name.as_str(), 0), config.attach_timeout_ns, why)?;
    if let Some(place) = place_of(token) {
        place.inner.store(inner, SeqCst);
    }
    Ok(())
}

/// Enters the loader that gives batches to the caller with this token. For an owner that takes some
/// itself it is the owner's own consumer.
pub fn enter_taker(token: u64) -> Option<Entered> {
    let instance = enter(token)?;
    match instance.place.inner.load(SeqCst) {
        0 => Some(instance),
        inner => enter(inner),
    }
}

fn place_of(token: u64) -> Option<&'static Place> {
    PLACES.get(((token & ((1 << PLACE_BITS) - 1)) as usize).checked_sub(1)?)
}

#[cold]
#[inline(never)] // as `warn_of_unloading`
fn no_place(why: &mut Why) -> Status {
    fail!(
        why,
        OutOfMemory,
        "{INSTANCES_MAX} loaders are open, as many as one process may have: close one, or let one \
         loader stream what several do"
    )
}

#[cold]
#[inline(never)] // the log's line is not to stand on the stack of an open
fn warn_of_unloading(sink: &Sink) {
    let text = "keep_loaded: the system does not keep this library loaded: close the loader, and \
                delete its tensors, before it is unloaded";
    sink.log(Level::Warn, 0, format_args!("{text}"));
}

#[inline(never)] // one of it, for owners, consumers and loaders of one process
fn open_settings(
    os: &'static Os,
    settings: &mut Settings,
    attached: Option<Paged<Attached>>,
    why: &mut Why,
) -> Result<u64, Status> {
    let Some((number, token)) = reserve() else {
        attached.iter().for_each(|attached| end_attached(os, attached));
        return Err(no_place(why));
    };
    let place = &PLACES[number];
    let handle = Handle { token, job: host_job };
    let mut opened = open_placed(os, settings, handle, attached, why);
    if HAS_DEVICES
        && let Err(status) = opened
        && settings.take_the_host((status, why), open::floor)
    {
        why.clear();
        opened = open_placed(os, settings, handle, None, why);
    }
    let opened = opened.inspect_err(|_| place.state.store(FREE, SeqCst))?;
    let shared = opened.loader.shared;
    if shared.settings.config.keep_loaded == 1 && !keep_loaded() {
        warn_of_unloading(&shared.sink);
    }
    fatal::HOOKS.set(number, &shared.settings.config.fatal);
    // SAFETY: the place is OPENING, which only its reserver is.
    unsafe { (*place.opened.get()).write(opened) };
    place.inner.store(0, SeqCst);
    place.state.store(OPEN, SeqCst);
    Ok(token)
}

/// Opens on the NUMA node of the settings, with no more derived threads than that has CPUs.
#[inline(never)] // for device and host
fn open_placed(
    os: &'static Os,
    settings: &mut Settings,
    handle: Handle,
    attached: Option<Paged<Attached>>,
    why: &mut Why,
) -> Result<Opened, Status> {
    let mut numa = Numa::OFF;
    if let Err(status) = numa.find(os, settings, why) {
        attached.iter().for_each(|attached| end_attached(os, attached));
        return Err(status);
    }
    settings.keep_to(numa.cpu_count(), open::floor);
    open::open(os, settings, handle, attached, &mut numa, why)
}

/// Closes; on failure the status and the number of batches that are held.
pub fn close_token(token: u64, timeout_ns: u64) -> Result<(), (Status, u32)> {
    let _uncancelled = Uncancelled::enter();
    let Some(mut instance) = enter(token) else { return Err((Status::Shutdown, 0)) };
    let Entered { number, place, opened, .. } = &instance;
    let (number, place, opened) = (*number, *place, *opened);
    // Its own consumer is closed first: it may hold batches.
    let inner = place.inner.load(SeqCst);
    if inner != 0
        && let Err((Status::Again, held)) = close_token(inner, timeout_ns)
    {
        instance.stop();
        return Err((Status::Again, held));
    }
    instance.stop();
    // Another close came first if it was not OPEN.
    let _ = place.state.compare_exchange(OPEN, ENDING, SeqCst, SeqCst);
    instance.be_late();
    let have_left = || place.users.load(SeqCst) == 0;
    if let Err(held) = opened.close(timeout_ns, &have_left) {
        if held > 0 && instance.is_over() {
            fatal::HOOKS.clear(number);
        }
        return Err((Status::Again, held));
    }
    if place.state.compare_exchange(ENDING, CLOSING, SeqCst, SeqCst).is_err() {
        return Err((Status::Shutdown, 0));
    }
    drop(instance);
    // Ends: new calls are refused, and the calls inside were told to leave. In this order, because
    // a call that enters goes from the first count to the second.
    while place.users.load(SeqCst) > 0 || place.late.load(SeqCst) > 0 {
        (SYSTEM.yield_now)();
    }
    fatal::HOOKS.clear(number);
    opened.give_back();
    place.state.store(FREE, SeqCst);
    Ok(())
}

/// The job that `workers.run` is given. Its argument is the token of a loader and no address.
pub extern "C" fn host_job(argument: *mut c_void) {
    if let Some(instance) = enter(argument.addr() as u64) {
        instance.run_host_job();
    }
}

/// The deleters of every tensor, of either form. They may be called on any thread at any time:
/// where the loader is gone, or in a forked child, or a second time, they do nothing.
pub const DELETERS: Deleters = Deleters { versioned: delete, legacy: delete };

unsafe extern "C" fn delete<T>(tensor: *mut T) {
    let address = tensor.addr();
    if let Some(instance) = enter_by_tensor(address) {
        tensors::delete_tensor(&instance.lock, address);
    }
}
