//! The memory that processes share: an owner makes it, and a consumer maps the memory that it was
//! handed.
//!
//! In: settings, or descriptors and their memory. Out: records, samples and pages at addresses of
//! this process. Invariant: the memory that a consumer maps has the sizes of its facts, and no
//! process can make it smaller.

use crate::base::abi::{Blank, FieldSpec, NAME_BYTES};
use crate::base::arena::Region;
use crate::base::limits::{CONSUMERS_MAX, MEMORY_PAGE_BYTES};
use crate::base::status::{Status, Why};
use crate::batch::record::SlotRows;
use crate::batch::shared::{Facts, LAYOUT, MAGIC, Order, PAGE_BYTES, Page, Records, Sizes};
use crate::fail;
use crate::os::memory::Paged;
use crate::os::socket::{self, Descriptors, Peer};
use crate::os::{Errno, Os, segment};
use crate::records::Dtype;
use crate::setup::settings::Settings;
use crate::setup::share::SocketName;
use crate::state::attached::Attached;
use crate::state::owned::{Owned, Sharing};
use arrayvec::ArrayVec;
use core::sync::atomic::AtomicU64;

fn sizes(settings: &Settings) -> Sizes {
    let rows = SlotRows::words(settings.slot_counts(), &settings.per_sample);
    Sizes { consumers: settings.share.consumers, rows_bytes: 8 * rows }
}

/// Bytes that an owner and its consumers share.
pub fn shared_bytes(settings: &Settings) -> u64 {
    if !settings.is_owner() {
        return 0;
    }
    let pages = u64::from(settings.share.consumers) * PAGE_BYTES;
    sizes(settings).bytes() + settings.slots_bytes() + pages
}

/// Takes the name, and the memory.
#[inline(never)] // its values are not to stand on the stack of all that follows
pub fn take(os: &Os, settings: &Settings, why: &mut Why) -> Result<Option<Paged<Owned>>, Status> {
    if !settings.is_owner() {
        return Ok(None);
    }
    // The config is that of the call, as the name in it.
    let socket_name = settings.config.share_name.read(why)?;
    let name = socket_name.as_str();
    let listening = socket::listen(name).map_err(|errno| refuse_name(name, errno, why))?;
    let call = socket::call().map_err(|errno| {
        listening.end(name);
        fail!(why, OutOfMemory, "sharing batches: {errno}")
    })?;
    let (records, samples) = (None, None);
    let (pages, name) = (ArrayVec::new(), socket_name);
    let mut owned = Owned { name, listening, call, records, samples, pages };
    if let Err(status) = take_memory(os, settings, &mut owned, why) {
        give_back(os, &owned);
        return Err(status);
    }
    Paged::new(os, owned, |owned| give_back(os, owned))
        .map(Some)
        .map_err(|errno| fail!(why, OutOfMemory, "sharing: {errno}"))
}

fn refuse_name(name: &str, errno: Errno, why: &mut Why) -> Status {
    let owner = socket::connect(name).and_then(|fd| {
        let peer = socket::peer(fd);
        (crate::os::SYSTEM.close)(fd);
        peer
    });
    match (errno, owner) {
        (Errno(libc::EADDRINUSE), Ok(peer)) if socket::has_ended(peer.process) => fail!(
            why,
            Invalid,
            "share_name = \"{name}\" is in use by a child that {peer} forked before it \
             ended: choose another, or end that child"
        ),
        (Errno(libc::EADDRINUSE), Ok(peer)) => fail!(
            why,
            Invalid,
            "share_name = \"{name}\" is in use by {peer}: choose another, or close that \
             loader"
        ),
        (Errno(libc::EADDRINUSE), Err(_)) => fail!(
            why,
            Invalid,
            "share_name = \"{name}\" is in use, or a file that is not a socket lies there: choose \
             another"
        ),
        _ => fail!(why, Io, "share_name = \"{name}\": {errno}"),
    }
}

fn take_memory(
    os: &Os,
    settings: &Settings,
    owned: &mut Owned,
    why: &mut Why,
) -> Result<(), Status> {
    let need = shared_bytes(settings);
    let mut refused = |bytes: u64, errno: Errno| {
        fail!(why, OutOfMemory, "sharing {bytes} bytes, of {need} in all: {errno}")
    };
    let mut make = |bytes: u64, is_for_reading: bool| -> Result<(i32, Region), Status> {
        let fd = (os.share_memory)(bytes).map_err(|errno| refused(bytes, errno))?;
        let mapped = segment::map_segment(fd, bytes, true).and_then(|place| {
            let sealed = segment::seal(fd, is_for_reading);
            sealed.map(|()| place).inspect_err(|_| (os.unmap)(place.start(), place.bytes()))
        });
        match mapped {
            Ok(place) => Ok((fd, place)),
            Err(errno) => {
                (os.close)(fd);
                Err(refused(bytes, errno))
            }
        }
    };
    let is_for_all = settings.share.order == Order::All;
    owned.records = Some(make(sizes(settings).bytes(), true)?);
    owned.samples = Some(make(settings.slots_bytes(), is_for_all)?);
    for _ in 0..settings.share.consumers {
        owned.pages.push(make(PAGE_BYTES, false)?);
    }
    Ok(())
}

/// Gives the name and the memory back.
pub fn give_back(os: &Os, owned: &Owned) {
    owned.listening.end(owned.name.as_str());
    (os.close)(owned.call);
    for (fd, place) in owned.records.iter().chain(&owned.samples).chain(&owned.pages) {
        (os.unmap)(place.start(), place.bytes());
        (os.close)(*fd);
    }
}

/// The records of an owner, with the facts in them.
#[inline(never)] // facts are not to stand on the stack of all that is laid out
fn records_of(os: &Os, settings: &Settings, owned: &Owned) -> Option<Records> {
    let (_, place) = owned.records?;
    // SAFETY: the mapping has these sizes, and stays until the loader has given everything back.
    // This is the one value of this process that writes.
    let records = unsafe { Records::over(place, sizes(settings), os.before_store) };
    let config = &settings.config;
    let mut facts = Facts {
        order: settings.share.order as u32,
        consumers: settings.share.consumers,
        slots: settings.batch_records(),
        samples: config.samples_per_batch,
        n_fields: settings.fields.len() as u32,
        digest: config.digest,
        pop_timeout_ns: config.pop_timeout_ns,
        rows_bytes: sizes(settings).rows_bytes,
        slot_bytes: settings.slot_bytes,
        places: u64::from(config.n_batch_slots),
        ..Facts::NONE
    };
    for (target, field) in facts.fields.iter_mut().zip(&settings.fields) {
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(field.name_nul());
        // A field without a name is the only one.
        facts.n_fields -= u32::from(name[0] == 0);
        *target = FieldSpec {
            name,
            sample_rank: field.rank,
            dtype: field.dtype as u32,
            dtype_bytes: if field.dtype == Dtype::Raw { field.dtype_bytes } else { 0 },
            sample_shape: field.shape,
            ..FieldSpec::BLANK
        };
    }
    records.write_facts(&facts);
    Some(records)
}

/// The records of a loader whose batches processes share.
pub fn shared_records(os: &Os, settings: &Settings, sharing: &Sharing) -> Option<Records> {
    let owned = sharing.owned.as_ref().and_then(|owned| records_of(os, settings, owned));
    owned.or(sharing.attached.as_ref().map(|attached| attached.records))
}

/// The page of a consumer, and its descriptor.
pub fn page_of(os: &Os, owned: &Owned, number: usize) -> (i32, Page) {
    let (fd, place) = owned.pages[number];
    // SAFETY: the page is mapped until the loader has given everything back.
    (fd, unsafe { Page::over(place, os.before_store) })
}

/// Descriptors that were handed over, before they are checked.
pub struct Handed {
    /// The socket to the owner.
    pub socket: i32,
    /// The owner.
    pub owner: Peer,
    /// Records, samples, a page.
    pub descriptors: Descriptors,
}

/// Maps the memory that was handed over.
pub fn map(
    os: &Os,
    handed: &Handed,
    number: u32,
    why: &mut Why,
) -> Result<(Attached, Facts), Status> {
    let wrong = |why: &mut Why, what: &str| {
        fail!(why, Unsupported, "{what} of the owner: it is another version of wavetrain")
    };
    let Handed { socket, owner, descriptors } = handed;
    let [records, samples, page] = descriptors[..] else {
        return Err(wrong(why, "the answer"));
    };
    let bytes = |fd: i32| match (os.stat)(fd) {
        Ok(stat) if segment::is_sealed(fd) => stat.bytes,
        _ => 0,
    };
    let (records_bytes, samples_bytes) = (bytes(records), bytes(samples));
    if records_bytes < MEMORY_PAGE_BYTES || samples_bytes == 0 || bytes(page) < PAGE_BYTES {
        return Err(wrong(why, "the memory"));
    }
    let mut maps = Maps { os, made: ArrayVec::new() };
    let records = maps.add(records, records_bytes, false, why)?;
    // SAFETY: a page is mapped there.
    let facts = unsafe { Records::facts_at(records) };
    let sizes = Sizes { consumers: facts.consumers, rows_bytes: facts.rows_bytes };
    let order = Order::of(facts.order).filter(|_| fits(&facts, records_bytes, samples_bytes));
    let Some(order) = order.filter(|_| number < facts.consumers) else {
        return Err(wrong(why, "the facts"));
    };
    let samples = maps.add(samples, samples_bytes, order != Order::All, why)?;
    let page = maps.add(page, PAGE_BYTES, true, why)?;
    maps.made.clear();
    // SAFETY: both are mapped, in these sizes, until the loader gives them back.
    let (records, page) = unsafe {
        (Records::over(records, sizes, os.before_store), Page::over(page, os.before_store))
    };
    let attached = Attached {
        records,
        page,
        samples,
        number,
        count: facts.consumers,
        order,
        socket: *socket,
        owner: *owner,
        watch: socket::watch_peer(*socket, *owner).unwrap_or(-1),
        name: SocketName::new(),
        registered: None,
        numbers: [const { AtomicU64::new(0) }; CONSUMERS_MAX],
        ends: AtomicU64::new(0),
    };
    Ok((attached, facts))
}

/// Whether the facts are sound, and memory of these sizes fits them.
fn fits(facts: &Facts, records_bytes: u64, samples_bytes: u64) -> bool {
    let sizes = Sizes { consumers: facts.consumers, rows_bytes: facts.rows_bytes };
    facts.magic == MAGIC
        && facts.layout == LAYOUT
        && (1..=CONSUMERS_MAX as u32).contains(&facts.consumers)
        && facts.rows_bytes <= records_bytes
        && sizes.bytes() == records_bytes
        && facts.slot_bytes.checked_mul(facts.places) == Some(samples_bytes)
}

/// Mappings that are undone if a later one is refused.
struct Maps<'a> {
    os: &'a Os,
    made: ArrayVec<Region, 3>,
}

impl Maps<'_> {
    fn add(
        &mut self,
        fd: i32,
        bytes: u64,
        is_writable: bool,
        why: &mut Why,
    ) -> Result<Region, Status> {
        let mapped = segment::map_segment(fd, bytes, is_writable);
        let region = mapped.map_err(|errno| {
            fail!(why, OutOfMemory, "mapping {bytes} bytes of the owner's: {errno}")
        })?;
        self.made.push(region);
        Ok(region)
    }
}

impl Drop for Maps<'_> {
    fn drop(&mut self) {
        self.made.iter().for_each(|region| (self.os.unmap)(region.start(), region.bytes()));
    }
}
