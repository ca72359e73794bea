//! The thread of an owner, which answers its consumers.
//!
//! In: connections, calls and hang-ups. Out: consumers that are attached, slots that they gave
//! back, the loss of those that ended. This thread alone reads sockets and pages; each thread that
//! gives up the lock publishes (`state::publish`).
//!
//! ```text
//!  consumer                          owner's thread
//!  hello {number} ────────────────▶  may it? ──▶ answer {text} + records, samples, page
//!  call, after a take or a release ▶  collect: slots are free
//!  leave, or a hang-up ───────────▶  lose: its batches are for the next, dropped, or end all
//! ```

use crate::base::indexes::BatchSlot;
use crate::base::limits::CONSUMERS_MAX;
use crate::base::status::{Status, Why};
use crate::engine::Engine;
use crate::engine::hello::{HELLO_BYTES, answer, number_in};
use crate::engine::segments::page_of;
use crate::fail;
use crate::os::sink::Level;
use crate::os::socket::{self, Descriptors, Peer, Watched};
use crate::os::{Errno, futex};
use crate::state::Life;
use crate::state::attached::LEAVE;
use crate::state::consumers::{Consumer, Loss, Stage};
use crate::state::device::bits;
use crate::state::owned::Owned;
use arrayvec::ArrayVec;

/// Descriptors that the thread waits for: a socket and a process of each consumer, the socket for
/// connections, and its own call.
const WATCHED_MAX: usize = 2 * CONSUMERS_MAX + 2;
/// How long the thread sleeps if nothing happens: consumers may be late.
const LOOK_MS: i32 = 100;
/// Tags of a lost batch that the log gets.
const TAGS_LOGGED: usize = 8;

/// Sockets and processes of consumers, which the thread waits for.
struct Sockets {
    sockets: ArrayVec<i32, CONSUMERS_MAX>,
    watches: ArrayVec<i32, CONSUMERS_MAX>,
    opened_ns: u64,
}

impl Engine {
    /// Calls the thread that answers consumers.
    pub fn call_owner(&self) {
        self.shared.sharing.owned.iter().for_each(|owned| socket::ring(owned.call));
    }

    /// The work of that thread, until close.
    pub fn share_main(&self) {
        let Some(owned) = &self.shared.sharing.owned else { return };
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
            // A consumer that wrote to its page before it saw that does not call: it is seen here.
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
            let text = format_args!("consumer {number} wrote a number that is wrong: it is lost");
            self.shared.sink.log(Level::Error, 0, text);
            self.lose(sockets, number, true);
        }
    }

    /// Takes the messages of consumers, and loses those that hung up.
    fn hear(&self, watched: &[Watched], sockets: &mut Sockets) {
        let count = sockets.sockets.len();
        for number in 0..count {
            let (of_socket, of_process) = (&watched[2 + number], &watched[2 + count + number]);
            if !socket::is_ready(of_socket) && !socket::is_ready(of_process) {
                continue;
            }
            let (mut has_left, mut has_ended) = (false, socket::is_ready(of_process));
            // Ends: a consumer that sends without end is read again in the next turn.
            for _ in 0..64 {
                let mut byte = [0; 1];
                match socket::receive(sockets.sockets[number], &mut byte) {
                    Ok((0, _)) => has_ended = true,
                    Ok((_, descriptors)) => {
                        self.close_all(descriptors);
                        has_left |= byte[0] == LEAVE;
                        continue;
                    }
                    Err(Errno(libc::EAGAIN)) => {}
                    Err(_) => has_ended = true,
                }
                break;
            }
            if has_left {
                self.lose(sockets, number as u32, false);
            }
            if has_ended {
                self.lose(sockets, number as u32, true);
            }
        }
    }

    fn close_all(&self, descriptors: Descriptors) {
        descriptors.into_iter().for_each(self.shared.os.close);
    }

    /// Lets consumers attach that have connected.
    fn admit(&self, owned: &Owned, sockets: &mut Sockets) {
        // Ends: further connections are taken in the next turn.
        for _ in 0..CONSUMERS_MAX {
            let Ok(fd) = socket::accept(owned.listening.fd) else { return };
            let mut why = Why::new();
            match self.admit_one(owned, sockets, fd, &mut why) {
                Ok(()) => {}
                Err(status) => {
                    let _ = socket::send(fd, &answer(status, &why), &[]);
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
        let peer = socket::peer(fd);
        let peer = peer.map_err(|errno| fail!(why, Io, "the process that connects: {errno}"))?;
        if peer.user != socket::user() {
            return Err(fail!(why, Invalid, "the owner is of another user: {}", socket::user()));
        }
        let mut bytes = [0; HELLO_BYTES];
        socket::wait(&mut [socket::watched(fd)], LOOK_MS);
        let number = socket::receive(fd, &mut bytes).ok().and_then(|(got, descriptors)| {
            self.close_all(descriptors);
            number_in(&bytes[..got])
        });
        let Some(number) = number else {
            let text = "the consumer's wavetrain is another version: use one of both";
            return Err(fail!(why, Unsupported, "{text}"));
        };
        let count = owned.pages.len();
        if number as usize >= count {
            return Err(fail!(why, Invalid, "consumer = {number}: there are {count}, from 0 on"));
        }
        let at = number as usize;
        if socket::is_hung_up(fd) {
            return Err(fail!(why, Shutdown, "consumer {number} did not wait for the answer"));
        }
        if sockets.sockets[at] >= 0 && socket::is_hung_up(sockets.sockets[at]) {
            self.lose(sockets, number, true);
        }
        let Consumer { peer: other, has_closed, .. } = self.lock.lock().consumers.each()[at];
        if sockets.sockets[at] >= 0 && has_closed {
            let fix = "release them, and delete their tensors";
            return Err(fail!(
                why,
                Invalid,
                "consumer {number} is {other}, which has closed and keeps batches: {fix}"
            ));
        }
        if sockets.sockets[at] >= 0 {
            return Err(fail!(why, Invalid, "consumer {number} is {other}, which lives"));
        }
        let (Some((records, _)), Some((samples, _))) = (owned.records, owned.samples) else {
            return Err(fail!(why, Internal, "nothing is shared"));
        };
        let (page_fd, page) = page_of(self.shared.os, owned, at);
        self.lock.lock().consumers.attach(number, page, peer);
        let fds = [records, samples, page_fd];
        sockets.sockets[at] = fd;
        sockets.watches[at] = socket::watch_peer(fd, peer).unwrap_or(-1);
        if socket::send(fd, &answer(Status::Ok, why), &fds).is_err() {
            self.lose(sockets, number, true);
        }
        Ok(())
    }

    /// Closes the descriptors of a consumer, and loses its batches.
    fn lose(&self, sockets: &mut Sockets, number: u32, has_ended: bool) {
        let at = number as usize;
        for fd in [&mut sockets.sockets[at], &mut sockets.watches[at]] {
            if has_ended && *fd >= 0 {
                (self.shared.os.close)(*fd);
                *fd = -1;
            }
        }
        let (loss, peer) = {
            let state = &mut *self.lock.lock();
            (state.lose(self.shared, number, has_ended), state.consumers.each()[at].peer)
        };
        self.log_loss(number, peer, &loss);
        self.lock.lock().free_abandoned(self.shared);
    }

    /// Logs the tags of popped batches that no consumer has any more. Their slots are freed after
    /// that.
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
                "batch {batch} is lost with consumer {number} ({peer}): tags {shown:?}{rest}"
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

    /// Logs failures that were published with the lock held.
    fn tell_log(&self) {
        let failure = self.lock.lock().consumers.unlogged.first_mut().and_then(Option::take);
        if let Some(failure) = failure {
            self.shared.sink.log(Level::Error, failure.tag, format_args!("{failure}"));
        }
    }
}
