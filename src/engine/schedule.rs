//! The choice of the next job.
//!
//! In: the state under the lock. Out: a job for a worker of a role. A worker takes the job that
//! keeps the stages behind it busy: planning, then decoding what is there, then reading.

use crate::base::limits::METADATA_BYTES_MAX;
use crate::batch::slots::SlotState;
use crate::cuda::HAS_DEVICES;
use crate::device::Need;
use crate::read::LeaseOutcome;
use crate::setup::geometry::SMALL_CHUNK_BYTES;
use crate::state::job::{Job, RUN_BYTES, Role};
use crate::state::needs::{fits_slab, pool_need};
use crate::state::shared::Instance;
use crate::state::{Life, State};
use crate::wave::ReadOp;

impl State {
    /// The next job for a worker of this role, or None while there is none.
    pub fn next_job(&mut self, instance: &Instance, role: Role) -> Option<Job> {
        if self.life != Life::Running {
            return None;
        }
        let job = match role {
            Role::Decode => self.next_decode_job(instance),
            Role::Io => self.next_io_job(instance),
            Role::Ring if !self.ring.has_room() => None,
            Role::Ring => self.next_waiting_read(instance, role),
            Role::Device => self.next_device_job(instance, role),
            Role::Both => self
                .next_device_job(instance, role)
                .or_else(|| self.next_decode_job(instance))
                .or_else(|| self.next_io_job(instance)),
        };
        self.running += job.is_some() as u32;
        job
    }

    /// Whether a worker of this role might find a job. It may be wrong where a file is busy; then
    /// whoever ends the lease looks again.
    pub fn has_job(&self, instance: &Instance, role: Role) -> bool {
        if self.life != Life::Running {
            return false;
        }
        if role == Role::Ring && !self.ring.has_room() {
            return false;
        }
        if matches!(role, Role::Device | Role::Both) && self.has_device_job(instance, role) {
            return true;
        }
        let has_room = self.async_reads.has_room();
        // What decodes needs room on its way to a device, and so do reads that decode at once: a
        // host's thread that was told of them would come in vain, again and again.
        let decodes_here = !HAS_DEVICES || !self.device.lacks_room;
        let waits_for_room = role == Role::Both && !decodes_here;
        let reader = if waits_for_room { Role::Io } else { role };
        let reads_here = self.reads_by(instance, reader) && has_room;
        let waits_here = self.ring.is_live == (role == Role::Ring) && has_room;
        let mut wave = self.waves.active.first();
        while let Some(at) = wave {
            let entry = &self.waves.waves[at as usize];
            let unissued = entry.unissued > 0 && reads_here;
            let found = match role {
                Role::Device => false,
                Role::Decode => decodes_here && (unissued || !entry.ready.is_empty()),
                Role::Ring => unissued || !entry.blocking.is_empty(),
                Role::Io | Role::Both => {
                    let blocking = waits_here && !entry.blocking.is_empty();
                    let ready = role == Role::Both && decodes_here && !entry.ready.is_empty();
                    unissued || blocking || ready || !entry.handed.is_empty()
                }
            };
            if found {
                return true;
            }
            wave = self.waves.active.next(at);
        }
        if matches!(role, Role::Ring | Role::Device) {
            return false;
        }
        let decodes = role != Role::Io
            && (self.plan_wanted && !self.planning || decodes_here && self.has_patch());
        let waits = role != Role::Decode && (self.has_load() || self.requests.has_queued());
        decodes || waits
    }

    /// Whether reads that nobody began go to workers of this role.
    fn reads_by(&self, instance: &Instance, role: Role) -> bool {
        let must_wait = self.is_cold || instance.store.uses_hook();
        match role {
            Role::Decode => !must_wait,
            Role::Io => must_wait && !self.ring.is_live,
            Role::Ring => must_wait && self.ring.is_live,
            Role::Both => true,
            Role::Device => false,
        }
    }

    /// Whether metadata can be loaded now: some is asked for, and descriptors are to be had.
    fn has_load(&self) -> bool {
        let is_short = self.loads_wait_since == Some(self.files.give_backs());
        self.arrays.has_queued() && !(is_short && self.files.leases() > 0)
    }

    fn has_patch(&self) -> bool {
        (0..self.slots.count()).any(|slot| {
            self.slots.state(slot) == SlotState::Patching && self.patching & (1 << slot) == 0
        })
    }

    fn next_decode_job(&mut self, instance: &Instance) -> Option<Job> {
        if self.plan_wanted && !self.planning {
            self.plan_wanted = false;
            self.planning = true;
            return Some(Job::Plan);
        }
        for slot in 0..self.slots.count() {
            let is_open = self.slots.state(slot) == SlotState::Patching;
            if is_open && self.patching & (1 << slot) == 0 {
                let need = Need::of(0, self.slots.failed_samples(slot));
                let Ok(part) = self.reserve(instance, need) else { break };
                self.patching |= 1 << slot;
                return Some(Job::Patch { slot, part });
            }
        }
        if let Some(job) = self.next_assemble(instance) {
            return Some(job);
        }
        if self.reads_by(instance, Role::Decode) { self.next_own_read(instance) } else { None }
    }

    fn next_io_job(&mut self, instance: &Instance) -> Option<Job> {
        if let Some(job) = self.next_load() {
            return Some(job);
        }
        for _ in 0..self.requests.queued() {
            let Some((request, question)) = self.requests.next_queued() else { break };
            let page = Some(question.index_page());
            match self.files.lease(question.array_id, question.file, page) {
                LeaseOutcome::Leased(lease) => {
                    return Some(Job::Locate { request, question, lease });
                }
                LeaseOutcome::Busy => self.requests.requeue(request),
            }
        }
        if let Some(job) = self.next_handed(instance) {
            return Some(job);
        }
        if self.ring.is_live { None } else { self.next_waiting_read(instance, Role::Io) }
    }

    /// The next read that has to be waited for.
    fn next_waiting_read(&mut self, instance: &Instance, role: Role) -> Option<Job> {
        if !self.async_reads.has_room() {
            return None;
        }
        let job = self.next_blocking(instance, role);
        if job.is_none() && self.reads_by(instance, role) {
            return self.next_alternating(instance, role);
        }
        job
    }

    /// The next read, of the oldest wave that has one, that the ring or the host did not bring.
    fn next_handed(&mut self, instance: &Instance) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            for _ in 0..self.waves.waves[wave as usize].handed.len() {
                let Some(op) = self.waves.waves[wave as usize].handed.pop() else { break };
                let read = self.rest_of_read(instance, wave, op);
                match self.files.lease(read.array_id, read.file, None) {
                    LeaseOutcome::Leased(lease) => {
                        let (cached_only, ticket) = (false, None);
                        return Some(Job::Read { wave, op, read, lease, cached_only, ticket });
                    }
                    LeaseOutcome::Busy => self.waves.waves[wave as usize].handed.push(op),
                }
            }
        }
        None
    }

    /// The next array whose metadata can be loaded now.
    fn next_load(&mut self) -> Option<Job> {
        if !self.has_load() {
            return None;
        }
        let has_large = self.pool.has_room(METADATA_BYTES_MAX as u64);
        let (array, is_large) = self.arrays.next_queued(has_large)?;
        let large = if is_large { self.pool.take(METADATA_BYTES_MAX as u64) } else { None };
        Some(Job::LoadArray { array, large })
    }

    /// The next read, of the oldest wave that has one, that was found to block.
    fn next_blocking(&mut self, instance: &Instance, role: Role) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            for _ in 0..self.waves.waves[wave as usize].blocking.len() {
                let Some(op) = self.waves.waves[wave as usize].blocking.pop() else { break };
                if let Some(job) = self.lease_waiting(instance, wave, op, role) {
                    return Some(job);
                }
            }
        }
        None
    }

    /// The next read that nobody began, for a thread that may wait: alternating across files.
    fn next_alternating(&mut self, instance: &Instance, role: Role) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            while let Some(op) = self.waves.next_by_order(wave, &instance.tables.order) {
                self.waves.issue(wave, op);
                if let Some(job) = self.lease_waiting(instance, wave, op, role) {
                    return Some(job);
                }
            }
        }
        None
    }

    /// The next reads that nobody began, for a thread that decodes what it reads: neighbours in one
    /// file, because what is in the page cache needs no order.
    fn next_own_read(&mut self, instance: &Instance) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            while let Some(first) = self.waves.next_by_place(wave) {
                self.waves.issue(wave, first);
                let read = instance.tables.ops.read(instance.wave_row(wave, first));
                let mut own = None;
                let record = instance.array_record(read.array).of_file(read.file, &mut own);
                let need = self.read_need(instance, wave, &read);
                // Of a chunk that is read partly a worker's place holds what is read.
                let is_small = record.working_bytes() <= SMALL_CHUNK_BYTES
                    || record.is_read_partly() && read.bytes <= SMALL_CHUNK_BYTES;
                if !is_small || !fits_slab(instance, need) {
                    if let Some(job) = self.lease_read(instance, wave, first, true) {
                        return Some(job);
                    }
                    continue;
                }
                if !self.has_room(instance, need) {
                    self.waves.unissue(wave, first);
                    return None;
                }
                let lease = match self.files.lease(read.array_id, read.file, None) {
                    LeaseOutcome::Leased(lease) => lease,
                    LeaseOutcome::Busy => {
                        self.waves.waves[wave as usize].blocking.push(first);
                        continue;
                    }
                };
                let (count, need) = self.join_reads(instance, wave, first, (&read, need));
                // There is room: nobody took of it since.
                let part = self.reserve(instance, need).ok().flatten();
                self.note_bound(instance, wave);
                return Some(Job::Stream { wave, first, count, lease, part });
            }
        }
        None
    }

    /// Issues the reads behind `first` that the same worker takes with it; how many they are
    /// together, and what they need of a slab.
    fn join_reads(
        &mut self,
        instance: &Instance,
        wave: u32,
        first: u32,
        (read, mut need): (&ReadOp, Need),
    ) -> (u32, Need) {
        let (mut count, mut bytes) = (1, read.decoded_bytes);
        while self.waves.is_unissued(wave, first + count) {
            let next = instance.tables.ops.read(instance.wave_row(wave, first + count));
            bytes += next.decoded_bytes;
            let is_same =
                (next.array_id, next.file, next.stat) == (read.array_id, read.file, read.stat);
            let more = need.and(self.read_need(instance, wave, &next));
            let is_enough = bytes > RUN_BYTES || !fits_slab(instance, more);
            if !is_same || is_enough || !self.has_room(instance, more) {
                break;
            }
            need = more;
            self.waves.issue(wave, first + count);
            count += 1;
        }
        (count, need)
    }

    /// A read for a thread that may wait. The ring thread opens no file: it hands the read on.
    fn lease_waiting(
        &mut self,
        instance: &Instance,
        wave: u32,
        op: u32,
        role: Role,
    ) -> Option<Job> {
        let read = instance.tables.ops.read(instance.wave_row(wave, op));
        if role == Role::Ring && self.files.is_closed(read.array_id, read.file) {
            self.waves.waves[wave as usize].handed.push(op);
            return None;
        }
        self.lease_read(instance, wave, op, false)
    }

    /// A read on its own, into the slab; where its file is busy it waits among the blocking ones.
    fn lease_read(
        &mut self,
        instance: &Instance,
        wave: u32,
        op: u32,
        cached_only: bool,
    ) -> Option<Job> {
        let read = self.rest_of_read(instance, wave, op);
        match self.files.lease(read.array_id, read.file, None) {
            LeaseOutcome::Leased(lease) => {
                let ticket = if cached_only { None } else { self.async_reads.take() };
                Some(Job::Read { wave, op, read, lease, cached_only, ticket })
            }
            LeaseOutcome::Busy => {
                self.waves.waves[wave as usize].blocking.push(op);
                None
            }
        }
    }

    /// A read without the chunks that are done. Chunks lie in the order of their offsets.
    fn rest_of_read(&self, instance: &Instance, wave: u32, op: u32) -> ReadOp {
        let row = self.waves.row(wave, op);
        let (read, next) = (instance.tables.ops.read(row), self.waves.op_next[row]);
        if next == 0 {
            return read;
        }
        let chunk_first = read.chunk_first + next;
        let task = instance.tables.chunks.read(instance.wave_row(wave, chunk_first));
        ReadOp {
            offset: task.offset,
            bytes: read.bytes - (task.offset - read.offset),
            slab_offset: task.slab_offset,
            chunk_first,
            chunk_count: read.chunk_count - next,
            ..read
        }
    }

    fn next_assemble(&mut self, instance: &Instance) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            let Some(op) = self.waves.waves[wave as usize].ready.front() else { continue };
            let row = self.waves.row(wave, op);
            let read = instance.tables.ops.read(row);
            let next = self.waves.op_next[row];
            let first = read.chunk_first + next;
            let task = instance.tables.chunks.read(instance.wave_row(wave, first));
            let room = self.task_need(instance, &task);
            if !self.has_room(instance, room) {
                return None;
            }
            let need = pool_need(instance, &task);
            let mut large = None;
            if need > 0 {
                large = self.pool.take(need);
                if large.is_none() {
                    continue;
                }
            }
            let most = if need > 0 { 1 } else { read.chunk_count - next };
            let (count, room) = self.run_length(instance, wave, (&task, room), first, most);
            // There is room: nobody took of it since.
            let part = self.reserve(instance, room).ok().flatten();
            self.waves.op_next[row] = next + count;
            if next + count == read.chunk_count {
                self.waves.waves[wave as usize].ready.pop();
            }
            self.note_bound(instance, wave);
            return Some(Job::Assemble { wave, first, count, large, part });
        }
        None
    }

    /// Measures how long a wave waited for its first worker.
    fn note_bound(&mut self, instance: &Instance, wave: u32) {
        let entry = &mut self.waves.waves[wave as usize];
        if !entry.is_bound {
            entry.is_bound = true;
            let waited_ns = (instance.os.now_ns)().saturating_sub(entry.activated_ns);
            instance.stats.bind_wait.observe(waited_ns, 0, 0);
        }
    }
}
