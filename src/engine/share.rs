//! The owner's side of batches that processes share: the memory, the sockets, and a thread of its
//! own that answers consumers.
//!
//! In: settings. Out: memory that is mapped and sealed; consumers that attach, call and hang up.
//! The thread alone reads sockets and pages; whoever gives up the lock publishes (`state::publish`).
//!
//! ```text
//!  consumer                         owner's thread
//!  hello {number} ───────────────▶  may it? ──▶ answer {text} │ records, samples, page
//!  call, after a take or a release ▶ collect: slots are free
//!  leave, or a hang-up ──────────▶  lose: its batches go to the next, are dropped, or end all
//! ```

use crate::base::abi::{Blank, FieldSpec, NAME_BYTES};
use crate::base::arena::Region;
use crate::base::indexes::BatchSlot;
use crate::base::limits::CONSUMERS_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::Text;
use crate::batch::record::SlotRows;
use crate::batch::shared::{
    Facts, LAYOUT, MAGIC, Order, PAGE_BYTES, Page, Records, Sizes,
};
use crate::engine::Engine;
use crate::fail;
use crate::os::sink::Level;
use crate::os::socket::{self, Descriptors, Peer, Watched};
use crate::os::{Errno, Os, futex, segment};
use crate::records::Dtype;
use crate::setup::settings::Settings;
use crate::state::attached::{CALL, LEAVE};
use crate::state::consumers::{Loss, Stage};
use crate::state::device::bits;
use crate::state::owned::Owned;
use crate::state::Life;
use arrayvec::ArrayVec;

/// Descriptors that the thread waits for: a socket and a process of each consumer, those who
/// connect, and its own call.
const WATCHED_MAX: usize = 2 * CONSUMERS_MAX + 2;
/// How long the thread sleeps if nothing happens: consumers may be late.
const LOOK_MS: i32 = 100;
/// Tags of a lost batch that the log gets.
const TAGS_LOGGED: usize = 8;

/// What a consumer sends first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Hello {
    /// As of the facts.
    pub magic: u64,
    /// As of the facts.
    pub layout: u32,
    /// The consumer.
    pub number: u32,
}

/// What it is answered.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Answer {
    /// As of the facts.
    pub magic: u64,
    /// 0, or why not.
    pub status: i32,
    /// Bytes of the text.
    pub text_bytes: u32,
    /// Why not.
    pub text: [u8; 256],
}

/// The bytes of a message.
pub fn bytes_of<T: Copy>(message: &T) -> &[u8] {
    // SAFETY: messages have no padding, and are read for as long as they are borrowed.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(message).cast(), size_of::<T>()) }
}

/// A message in these bytes, if they are as many.
pub fn message_of<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: of messages any bytes are a value.
    (bytes.len() == size_of::<T>())
        .then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn sizes(settings: &Settings) -> Sizes {
    let rows = SlotRows::words(settings.slot_counts(), &settings.per_sample);
    Sizes { consumers: settings.share.consumers, rows_bytes: 8 * rows }
}

/// Bytes that an owner's consumers have in common with it.
pub fn shared_bytes(settings: &Settings) -> u64 {
    if !settings.is_owner() {
        return 0;
    }
    let pages = u64::from(settings.share.consumers) * PAGE_BYTES;
    sizes(settings).bytes() + settings.slots_bytes() + pages
}

/// Takes the name, and the memory.
pub fn take(os: &Os, settings: &Settings, why: &mut Why) -> Result<Option<Owned>, Status> {
    if !settings.is_owner() {
        return Ok(None);
    }
    let name = settings.share.name.as_str();
    let listening = socket::listen(name).map_err(|errno| refuse_name(name, errno, why))?;
    let call = socket::call().map_err(|errno| {
        listening.end(name);
        fail!(why, OutOfMemory, "sharing batches: {errno}")
    })?;
    let (records, samples) = (None, None);
    let mut owned = Owned { listening, call, records, samples, pages: ArrayVec::new() };
    if let Err(status) = take_memory(os, settings, &mut owned, why) {
        give_back(os, settings, &owned);
        return Err(status);
    }
    Ok(Some(owned))
}

fn refuse_name(name: &str, errno: Errno, why: &mut Why) -> Status {
    let owner = socket::connect(name).and_then(|fd| {
        let peer = socket::peer(fd);
        (crate::os::SYSTEM.close)(fd);
        peer
    });
    match (errno, owner) {
        (Errno(libc::EADDRINUSE), Ok(Peer { process, .. })) => fail!(
            why,
            Invalid,
            "share_name = \"{name}\" is in use by process {process}: choose another, or close that \
             loader"
        ),
        (Errno(libc::EADDRINUSE), Err(_)) => fail!(
            why,
            Invalid,
            "share_name = \"{name}\" is in use, or a file that is no socket lies there: choose \
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
    if let Some(left) = (os.memory_left)().filter(|left| *left < need) {
        return Err(fail!(
            why,
            OutOfMemory,
            "batches that processes share take {need} bytes, and the system has {left}: lower \
             n_batch_slots, samples_per_batch or sample_shape"
        ));
    }
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
pub fn give_back(os: &Os, settings: &Settings, owned: &Owned) {
    owned.listening.end(settings.share.name.as_str());
    (os.close)(owned.call);
    for (fd, place) in owned.records.iter().chain(&owned.samples).chain(&owned.pages) {
        (os.unmap)(place.start(), place.bytes());
        (os.close)(*fd);
    }
}

/// The records of an owner, with the facts in them.
pub fn records_of(os: &Os, settings: &Settings, owned: &Owned) -> Option<Records> {
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

/// What the thread waits for.
struct Sockets {
    sockets: ArrayVec<i32, CONSUMERS_MAX>,
    watches: ArrayVec<i32, CONSUMERS_MAX>,
    opened_ns: u64,
}

impl Engine {
    /// Calls the thread that answers consumers.
    pub fn call_owner(&self) {
        self.shared.owned.iter().for_each(|owned| socket::ring(owned.call));
    }

    /// What that thread does until close.
    pub fn share_main(&self) {
        let Some(owned) = &self.shared.owned else { return };
        let count = owned.pages.len();
        let mut sockets = Sockets {
            sockets: core::iter::repeat_n(-1, count).collect(),
            watches: core::iter::repeat_n(-1, count).collect(),
            opened_ns: (self.shared.os.now_ns)(),
        };
        let Some(records) = self.lock.lock().consumers.records else { return };
        loop {
            let life = self.lock.lock().life;
            if life == Life::Closing {
                break;
            }
            records.set_owner_sleeps(true);
            // Whoever wrote to a page before it saw that is seen here.
            self.collect_pages(&mut sockets);
            let mut watched = self.watch(owned, &sockets);
            socket::wait(&mut watched, LOOK_MS);
            records.set_owner_sleeps(false);
            socket::quiet(owned.call);
            self.hear(&watched, &mut sockets);
            if socket::is_ready(&watched[0]) {
                self.admit(owned, &mut sockets);
            }
            self.lose_late(&mut sockets);
            self.tell_log();
        }
        records.close();
        for number in 0..count as u32 {
            records.touch(number);
            futex::wake(records.signal(number));
        }
        self.lock.lock().end_sharing(self.shared);
        let open = sockets.sockets.iter().chain(&sockets.watches).filter(|fd| **fd >= 0);
        open.for_each(|fd| (self.shared.os.close)(*fd));
        self.lock.lock().end_thread();
    }

    fn watch(&self, owned: &Owned, sockets: &Sockets) -> ArrayVec<Watched, WATCHED_MAX> {
        let mut watched = ArrayVec::new();
        watched.push(socket::watched(owned.listening.fd));
        watched.push(socket::watched(owned.call));
        watched.extend(sockets.sockets.iter().map(|fd| socket::watched(*fd)));
        watched.extend(sockets.watches.iter().map(|fd| socket::watched(*fd)));
        watched
    }

    fn collect_pages(&self, sockets: &mut Sockets) {
        let mut state = self.lock.lock();
        let liars = state.collect(self.shared);
        state.signal();
        drop(state);
        for number in bits(liars) {
            let text = format_args!("consumer {number} wrote what no consumer writes: it is lost");
            self.shared.sink.log(Level::Error, 0, text);
            self.lose(sockets, number, false);
        }
    }

    /// What consumers sent, and who hung up.
    fn hear(&self, watched: &[Watched], sockets: &mut Sockets) {
        let count = sockets.sockets.len();
        for number in 0..count {
            let (of_socket, of_process) = (&watched[2 + number], &watched[2 + count + number]);
            if !socket::is_ready(of_socket) && !socket::is_ready(of_process) {
                continue;
            }
            let (mut has_left, mut has_ended) = (false, socket::is_ready(of_process));
            // Ends: a consumer that sends without end is heard again in the next turn.
            for _ in 0..64 {
                let mut byte = [0; 1];
                match socket::receive(sockets.sockets[number], &mut byte) {
                    Ok((0, _)) => has_ended = true,
                    Ok((_, descriptors)) => {
                        self.close_all(descriptors);
                        has_left |= byte[0] == LEAVE;
                        debug_assert!(matches!(byte[0], CALL | LEAVE) || !has_left);
                        continue;
                    }
                    Err(Errno(libc::EAGAIN)) => {}
                    Err(_) => has_ended = true,
                }
                break;
            }
            if has_left || has_ended {
                self.lose(sockets, number as u32, has_left);
            }
        }
    }

    fn close_all(&self, descriptors: Descriptors) {
        descriptors.into_iter().for_each(self.shared.os.close);
    }

    /// Lets those attach who connected.
    fn admit(&self, owned: &Owned, sockets: &mut Sockets) {
        // Ends: others who connect are let in in the next turn.
        for _ in 0..CONSUMERS_MAX {
            let Ok(fd) = socket::accept(owned.listening.fd) else { return };
            let mut why = Why::new();
            match self.admit_one(owned, sockets, fd, &mut why) {
                Ok(()) => {}
                Err(status) => {
                    let _ = socket::send(fd, bytes_of(&answer(status, &why)), &[]);
                    (self.shared.os.close)(fd);
                }
            }
        }
    }

    fn admit_one(
        &self,
        owned: &Owned,
        sockets: &mut Sockets,
        fd: i32,
        why: &mut Why,
    ) -> Result<(), Status> {
        let peer = socket::peer(fd).map_err(|errno| fail!(why, Io, "who connects: {errno}"))?;
        if peer.user != socket::user() {
            return Err(fail!(why, Invalid, "the owner is of another user: {}", socket::user()));
        }
        let mut bytes = [0; size_of::<Hello>()];
        let mut one = [socket::watched(fd)];
        socket::wait(&mut one, LOOK_MS);
        let received = socket::receive(fd, &mut bytes);
        let hello = received.ok().and_then(|(got, descriptors)| {
            self.close_all(descriptors);
            message_of::<Hello>(&bytes[..got])
        });
        let Some(hello) = hello.filter(|hello| hello.magic == MAGIC && hello.layout == LAYOUT)
        else {
            let text = "the consumer's wavetrain is another version: use one of both";
            return Err(fail!(why, Unsupported, "{text}"));
        };
        let (number, count) = (hello.number, owned.pages.len());
        if number as usize >= count {
            return Err(fail!(why, Invalid, "consumer = {number}: there are {count}, from 0 on"));
        }
        let at = number as usize;
        if sockets.sockets[at] >= 0 && socket::is_hung_up(sockets.sockets[at]) {
            self.lose(sockets, number, false);
        }
        let before = self.lock.lock().consumers.each()[at].peer;
        if sockets.sockets[at] >= 0 {
            let process = before.process;
            return Err(fail!(why, Invalid, "consumer {number} is process {process}, which lives"));
        }
        let (Some((records, _)), Some((samples, _))) = (owned.records, owned.samples) else {
            return Err(fail!(why, Internal, "nothing is shared"));
        };
        let (page_fd, place) = owned.pages[at];
        // SAFETY: the page is mapped until the loader gives everything back.
        let page = unsafe { Page::over(place, self.shared.os.before_store) };
        self.lock.lock().consumers.attach(number, page, peer);
        let fds = [records, samples, page_fd];
        sockets.sockets[at] = fd;
        sockets.watches[at] = socket::watch_process(peer.process).unwrap_or(-1);
        if socket::send(fd, bytes_of(&answer(Status::Ok, why)), &fds).is_err() {
            self.lose(sockets, number, false);
        }
        Ok(())
    }

    /// A consumer is gone.
    fn lose(&self, sockets: &mut Sockets, number: u32, has_closed: bool) {
        let at = number as usize;
        for fd in [&mut sockets.sockets[at], &mut sockets.watches[at]] {
            if *fd >= 0 {
                (self.shared.os.close)(*fd);
                *fd = -1;
            }
        }
        let (loss, peer) = {
            let state = &mut *self.lock.lock();
            (state.lose(self.shared, number, has_closed), state.consumers.each()[at].peer)
        };
        self.log_loss(number, peer, &loss);
        self.lock.lock().free_abandoned(self.shared);
    }

    /// The log gets the tags of popped batches that nobody has any more. Their slots wait for that.
    fn log_loss(&self, number: u32, peer: Peer, loss: &Loss) {
        let sink = &self.shared.sink;
        if let Some(failure) = &loss.failure {
            sink.log(Level::Error, 0, format_args!("{failure}"));
        }
        for slot in bits(loss.popped).map(BatchSlot) {
            let mut shown = ArrayVec::<u64, TAGS_LOGGED>::new();
            let (batch, samples) = {
                let state = &*self.lock.lock();
                let samples = state.slots.sample_count(slot) as usize;
                let tags = state.slots.rows.tags(slot);
                shown.extend((0..samples.min(TAGS_LOGGED)).map(|sample| tags.read(sample)));
                (state.slots.batch_id(slot), samples)
            };
            let rest = if shown.len() < samples { ", .." } else { "" };
            let text = format_args!(
                "batch {batch} is lost with consumer {number} (process {}): tags {shown:?}{rest}",
                peer.process
            );
            sink.log(Level::Warn, shown.first().copied().unwrap_or(0), text);
        }
    }

    /// Consumers that did not attach in time are lost.
    fn lose_late(&self, sockets: &mut Sockets) {
        let waited = (self.shared.os.now_ns)().saturating_sub(sockets.opened_ns);
        if waited < self.shared.settings.config.attach_timeout_ns {
            return;
        }
        let late = self.lock.lock().consumers.in_stage(Stage::New);
        bits(late).for_each(|number| self.lose(sockets, number, false));
    }

    /// Failures that were published with the lock held.
    fn tell_log(&self) {
        let failure = self.lock.lock().consumers.unlogged.take();
        if let Some(failure) = failure {
            self.shared.sink.log(Level::Error, failure.tag, format_args!("{failure}"));
        }
    }
}

fn answer(status: Status, why: &Why) -> Answer {
    let mut answer =
        Answer { magic: MAGIC, status: status as i32, text_bytes: 0, text: [0; 256] };
    let mut text = Text::<256>::new();
    text.push_str(why.as_str());
    let bytes = text.as_bytes().len();
    answer.text[..bytes].copy_from_slice(text.as_bytes());
    answer.text_bytes = bytes as u32;
    answer
}

/// Names consumers that have not attached.
pub fn write_numbers(why: &mut Why, numbers: u64) {
    for (place, number) in bits(numbers).enumerate() {
        let before = if place == 0 { "; not attached yet: consumer " } else { ", " };
        write!(why, "{before}{number}");
    }
}
