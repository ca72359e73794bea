//! The Rust surface: a [`Loader`] that opens, pushes, pops and closes. Over 500 lines, because each
//! call of it stands here with its contract.
//!
//! In: a config and requests. Out: batches that give their slot back when dropped. The same
//! instances and tokens as the C surface, whose contract is in include/wavetrain.h.

use crate::base::abi;
use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why, with_why};
use crate::base::text::Uri;
use crate::cuda::Event;
use crate::engine::Engine;
use crate::engine::calls::Popped;
use crate::engine::read::CallerMemory;
use crate::engine::requests;
use crate::fail;
use crate::os::{Os, SYSTEM};
use crate::setup::config::{Config, Hook, ShareName};
use crate::setup::share::socket_name;
use crate::source::zarr::{NodeKind, normalize_uri};
use crate::surface::handles::{self, Entered, attach_token, close_token, open_token};
use crate::surface::info::{fill_memory, fill_node, fit};
use crate::surface::metadata::look_up;
use core::marker::PhantomData;
use core::{ptr, slice};

pub use crate::base::status::Failure;
pub use crate::surface::affine::{AffineMap, Interpolation};
pub use crate::surface::augment::{Augmentation, Erasure};
pub use crate::surface::batch::{Batch, FieldView};
pub use crate::surface::entries::{EntryView, GroupView};
pub use crate::surface::feed::{Feed, Memory};
pub use crate::surface::info::SCRATCH_BYTES;
pub use crate::surface::part::Part;
use crate::surface::part::fill_request;
use crate::surface::table::push_rows;
pub use crate::surface::table::{Column, Rows, Source};

/// One sample: a half-open box in an array.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// A path or file:// uri.
    pub uri: &'a str,
    /// First element along each axis.
    pub begin: &'a [i64],
    /// One past the last element along each axis.
    pub end: &'a [i64],
    /// Comes back with the batch.
    pub tag: u64,
}

/// One sample of several boxes.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its boxes, one at least.
    pub parts: &'a [Part<'a>],
    /// Comes back with the batch.
    pub tag: u64,
}

/// The result of pop.
pub enum Pop<'a> {
    /// The next batch.
    Batch(Batch<'a>),
    /// None is ready, and none was waited for; why.
    Again(Why),
    /// None became ready in time; why.
    Starved(Why),
    /// Flushed, and every batch popped.
    End,
    /// On a consumer: the owner began its stream anew, and dropped batches that were not popped.
    Reset,
}

/// An open loader. All calls may come from any thread.
pub struct Loader {
    token: u64,
}

impl Loader {
    /// Takes all memory and starts the threads. A config with hooks, a stream or a driver, or
    /// that maps files, is INVALID: [`Loader::open_trusting`] takes one.
    pub fn open(config: &Config) -> Result<Loader, Failure> {
        with_why(|why| {
            refuse_trust(config, "Loader::open_trusting", why)?;
            open_token(&SYSTEM, config, why)
        })
        .map(|token| Loader { token })
    }

    /// Like `open`, for a config that leads to hooks, memory, a stream or a driver of the program,
    /// or that maps files.
    ///
    /// # Safety
    /// Each is NULL or what the config says of it, may be used by any thread, and stays until the
    /// loader is closed. Functions do what the header says of them. The driver is one of CUDA.
    /// With `map_uncompressed` nobody truncates or writes a file while samples of it are read.
    pub unsafe fn open_trusting(config: &Config) -> Result<Loader, Failure> {
        with_why(|why| open_token(&SYSTEM, config, why)).map(|token| Loader { token })
    }

    /// Like `open_trusting`, with a table of system calls of your own: for tests that inject
    /// faults, which promise the same.
    #[cfg(feature = "internals")]
    pub fn open_on(os: &'static Os, config: &Config) -> Result<Loader, Failure> {
        with_why(|why| open_token(os, config, why)).map(|token| Loader { token })
    }

    /// The token that the C surface knows this loader by. It dies with the loader.
    pub fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn enter(&self) -> Result<Entered, Failure> {
        handles::enter(self.token).ok_or_else(Failure::shutdown)
    }

    /// Like [`Loader::enter`], for batches.
    pub(crate) fn enter_taker(&self) -> Result<Entered, Failure> {
        handles::enter_taker(self.token).ok_or_else(Failure::shutdown)
    }

    /// Opens a loader whose batches `consumers` processes take, this one not among them unless the
    /// config has `share_owner`. Each attaches by `name`, and the config has the order in which
    /// they get batches.
    pub fn open_shared(config: &Config, name: &str, consumers: u32) -> Result<Loader, Failure> {
        Loader::open_shared_on(&SYSTEM, config, name, consumers)
    }

    /// Like `open_shared`, with a table of system calls of your own, as `open_on`.
    #[doc(hidden)]
    pub fn open_shared_on(
        os: &'static Os,
        config: &Config,
        name: &str,
        consumers: u32,
    ) -> Result<Loader, Failure> {
        with_why(|why| {
            refuse_trust(config, "Loader::open_trusting", why)?;
            let name = socket_name(name, why)?;
            // SAFETY: the name has a NUL, and outlives the call.
            let share_name = unsafe { ShareName::from_raw(name.as_bytes_nul().as_ptr().cast()) };
            let config = Config { share_name, share_consumers: consumers, ..*config };
            open_token(os, &config, why)
        })
        .map(|token| Loader { token })
    }

    /// Attaches to the loader that shares `name`, as consumer `number`, once it is there. Pop,
    /// batches and tensors, stats and close are as ever; calls that fill batches are the owner's,
    /// and INVALID here. Errors: NOT_FOUND after `timeout_ns`, INVALID for a number that another
    /// process has and for a name of another user; UNSUPPORTED for another version of wavetrain.
    pub fn attach(name: &str, number: u32, timeout_ns: u64) -> Result<Loader, Failure> {
        Loader::attach_on(&SYSTEM, name, number, timeout_ns)
    }

    /// Like `attach`, with a table of system calls of your own, as `open_on`.
    #[doc(hidden)]
    pub fn attach_on(
        os: &'static Os,
        name: &str,
        number: u32,
        timeout_ns: u64,
    ) -> Result<Loader, Failure> {
        with_why(|why| attach_token(os, (name, number), timeout_ns, why))
            .map(|token| Loader { token })
    }

    /// Pushes requests in order; how many were taken. Fewer than given: the lookahead is full. A
    /// request that is refused is not taken, nor any after it; those before it are.
    pub fn push(&self, requests: &[Request<'_>], timeout_ns: u64) -> Result<usize, Failure> {
        let (taken, result) = self.push_counted(requests, timeout_ns);
        result.map(|()| taken)
    }

    /// Like `push`, with the number taken also if a request was refused.
    pub fn push_counted(
        &self,
        requests: &[Request<'_>],
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let part = |number: usize, _: u32| {
            let Request { uri, begin, end, tag } = requests[number];
            (Some(Part { uri, begin, end, ..Part::default() }), 1, tag)
        };
        self.push_parts(requests.len(), part, timeout_ns)
    }

    /// Like `push_counted` for samples of any number of boxes, up to max_boxes_per_sample.
    pub fn push_samples(
        &self,
        samples: &[Sample<'_>],
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let part = |number: usize, at: u32| {
            let Sample { parts, tag } = samples[number];
            (parts.get(at as usize).copied(), parts.len(), tag)
        };
        self.push_parts(samples.len(), part, timeout_ns)
    }

    /// Like `push_samples` for the `count` rows of a table: sample n has a box of each column, from
    /// row n of its numbers, and tag n. No tags: all are 0. The text of a failure names the row,
    /// which is the number taken, and of several columns the column.
    pub fn push_table(
        &self,
        columns: &[Column<'_>],
        count: usize,
        tags: Rows<'_, u64>,
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let instance = match self.enter() {
            Ok(instance) => instance,
            Err(failure) => return (0, Err(failure)),
        };
        let fill = |place: (usize, u32), target: &mut requests::Request<'_>, why: &mut Why| {
            let column = &columns[place.1 as usize];
            let uris = match column.source {
                Source::Uris(uris, _) => uris,
                Source::Values(..) => &[],
            };
            let uri = |which: usize, _: &mut Why| Ok(uris[which]);
            column.fill(&instance, place, target, (uris.len(), uri), why)
        };
        let boxes = u32::try_from(columns.len()).unwrap_or(u32::MAX);
        push_rows(&instance, (boxes, count), tags, timeout_ns, fill)
    }

    /// `part` gives a box of a sample, how many it has, and its tag.
    fn push_parts<'a>(
        &self,
        count: usize,
        part: impl Fn(usize, u32) -> (Option<Part<'a>>, usize, u64),
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let instance = match self.enter() {
            Ok(instance) => instance,
            Err(failure) => return (0, Err(failure)),
        };
        let fill = |number: usize, at: u32, target: &mut requests::Request<'a>| {
            let (source, boxes, tag) = part(number, at);
            (target.boxes, target.tag) = (u32::try_from(boxes).unwrap_or(u32::MAX), tag);
            // A sample without boxes is refused by push.
            let Some(source) = source else { return Ok(()) };
            with_why(|why| fill_request(target, &source, why))
                .map_err(|failure| Failure { tag, ..failure })
        };
        instance.push(count, fill, timeout_ns)
    }

    /// Reads one box into memory of the program, from any thread, and waits for it: no slot, batch
    /// or order has a part in it. The field of the box gives the element type and the padding; of
    /// RAW each array's own bytes are taken. `target` is where its first place goes; `bytes`: how
    /// many may be written, from the lowest place on; `strides`: bytes from one place to the next
    /// along each axis of the box, row-major if there are none. `n_readers` calls work at a time,
    /// others wait in order. An error of the stream is none of a read. Errors: INVALID of a box or
    /// strides that will not do, AGAIN or STARVED after `timeout_ns`, AGAIN if a reset ends it,
    /// what a store says, as of pop, SHUTDOWN.
    ///
    /// # Safety
    /// The memory of the places can be written, and nobody else uses it before this returns. Then
    /// nothing of the loader writes there any more.
    pub unsafe fn read_into(
        &self,
        part: &Part<'_>,
        (target, bytes): (*mut u8, u64),
        strides: Option<&[i64]>,
        timeout_ns: u64,
    ) -> Result<(), Failure> {
        let instance = self.enter()?;
        let mut request = requests::Request::empty();
        with_why(|why| {
            fill_request(&mut request, part, why)?;
            let axes = strides.map_or(request.rank, <[i64]>::len);
            if axes == request.rank && !target.is_null() {
                return Ok(());
            }
            let rank = request.rank;
            Err(fail!(why, Invalid, "{axes} strides of a box of rank {rank}, or no target"))
        })?;
        let strides = strides.map(|given| {
            let mut strides = [0; RANK_MAX];
            strides[..given.len()].copy_from_slice(given);
            strides
        });
        let address = target.expose_provenance();
        let memory = CallerMemory { address, bytes, strides: strides.as_ref() };
        instance.read_into(&mut request, &memory, timeout_ns)
    }

    /// Lends memory for one batch: of each field the address and how many bytes there are, as
    /// many as a full batch takes, aligned as its elements; of host memory, or on a device of that.
    /// The batches that get memory next take what was lent in that order, and the loader's own
    /// where nothing is lent. `event`: one of a device behind which the memory may be written.
    /// `tag` comes back as [`Batch::lend_tag`]. Errors: AGAIN if `lent_slots`, or as many as
    /// `n_batch_slots`, are lent, or a reset is under way; INVALID of memory that will not do, or
    /// is lent already; UNSUPPORTED: an event on the host; CUDA; SHUTDOWN.
    ///
    /// # Safety
    /// The memory can be written, and nobody else uses it until its batch was popped; and it stays
    /// until that batch is dropped and its tensors are deleted, or, where no popped batch lies in
    /// it, until a reset or close has returned OK.
    pub unsafe fn lend(
        &self,
        targets: &[(*mut u8, u64)],
        event: Option<Event>,
        tag: u64,
    ) -> Result<(), Failure> {
        let target = |number: usize, _: &mut Why| {
            let (data, bytes) = targets[number];
            Ok((data.expose_provenance(), bytes))
        };
        self.enter()?.lend(targets.len(), target, event, tag)
    }

    /// Ends the current batch after the last request.
    pub fn flush(&self) -> Result<(), Failure> {
        self.enter()?.flush()
    }

    /// The next batch in push order. `timeout_ns`: 0 does not wait, u64::MAX waits forever.
    pub fn pop(&self, timeout_ns: u64) -> Result<Pop<'_>, Failure> {
        let instance = self.enter_taker()?;
        Ok(match instance.pop(timeout_ns)? {
            Popped::Again(why) => Pop::Again(why),
            Popped::Starved(why) => Pop::Starved(why),
            Popped::End => Pop::End,
            Popped::Reset => Pop::Reset,
            Popped::Batch(token) => {
                let first = FieldView::new(self, &instance, (token, 0))?;
                Pop::Batch(Batch { first })
            }
        })
    }

    /// Drops everything that is not popped and clears the error that ended the stream.
    pub fn reset(&self) -> Result<(), Failure> {
        self.enter()?.reset()
    }

    /// Forgets what is cached of the array at a uri, or of all: metadata, descriptors, indexes and
    /// decoded chunks. The next sample that names it finds it as it is then; what is planned keeps
    /// what it has. Errors: INVALID, UNSUPPORTED as push gives them of a uri; SHUTDOWN.
    pub fn forget(&self, uri: Option<&str>) -> Result<(), Failure> {
        forget_at(&*self.enter()?, uri)
    }

    /// Works for `budget_ns` (thread_mode = pump or hook); whether anything was to be done.
    pub fn pump(&self, budget_ns: u64) -> Result<bool, Failure> {
        self.enter()?.pump(budget_ns)
    }

    /// All figures now.
    pub fn stats(&self) -> Result<abi::Stats, Failure> {
        let mut stats = abi::Stats::EMPTY;
        self.enter()?.read_stats(&mut stats);
        Ok(stats)
    }

    /// Starts the figures again from nothing.
    pub fn stats_reset(&self) -> Result<(), Failure> {
        self.enter()?.reset_stats();
        Ok(())
    }

    /// Why a chunk could not be read: number `number` of those that failed, from 0, each once with
    /// the first sample that needed it; None if there are not so many. The first 64 are kept, until
    /// reset, and none with on_error = fail. Errors: SHUTDOWN.
    pub fn bad_chunk(&self, number: u32) -> Result<Option<Failure>, Failure> {
        Ok(self.enter()?.bad_chunk(number))
    }

    /// Copies the last events of stages (trace_events) to `events`, the oldest first; how many
    /// there were, and were not being written meanwhile. Errors: INVALID if trace_events = 0;
    /// SHUTDOWN.
    pub fn trace(&self, events: &mut [abi::Event]) -> Result<usize, Failure> {
        let (mut count, most) = (0, events.len());
        self.enter()?.trace(most, |event| {
            if let Some(place) = events.get_mut(count) {
                *place = event;
                count += 1;
            }
        })?;
        Ok(count)
    }

    /// Stops, waits for reads in flight, and gives all memory back.
    pub fn close(self, timeout_ns: u64) -> Result<(), Failure> {
        let closed = close_token(self.token, timeout_ns);
        if closed.is_ok() {
            core::mem::forget(self);
        }
        closed.map_err(|(status, held)| match (status, held) {
            (Status::Again, 0) => {
                Failure::of(status, format_args!("work is still in flight: close again"))
            }
            (Status::Again, held) => {
                let kept = "batch slots are kept by batches or tensors";
                Failure::of(status, format_args!("{held} {kept}: give them back, then close"))
            }
            _ => Failure::shutdown(),
        })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Batches borrow the loader, so none is held unless it was leaked on purpose; but tensors
        // may live on. Memory that either points to must then stay. Reads in flight are waited for.
        while let Err((Status::Again, 0)) = close_token(self.token, 1_000_000_000) {}
    }
}

/// Refuses what leads to functions, memory, streams or drivers of the program: nobody can check
/// that they are what they are to be. `instead`: the function that takes them on its word.
fn refuse_trust(config: &Config, instead: &str, why: &mut Why) -> Result<(), Status> {
    let mut named = None;
    config.each_hook(|hook| {
        let is_set = bytes_of_hook(config, &hook) != bytes_of_hook(&Config::DEFAULT, &hook);
        named = named.or(is_set.then_some(hook.name));
        Ok(())
    })?;
    let stream = (!config.consumer_stream.is_null()).then_some("consumer_stream");
    let driver = (!config.cuda_driver.is_null()).then_some("cuda_driver");
    let mapping = (config.map_uncompressed != 0).then_some("map_uncompressed");
    let sharing = (!config.share_name.is_null()).then_some("share_name");
    let Some(name) = named.or(stream).or(driver).or(mapping).or(sharing) else { return Ok(()) };
    Err(fail!(why, Invalid, "{name} is set, which only {instead} takes, an unsafe function"))
}

fn bytes_of_hook<'c>(config: &'c Config, hook: &Hook) -> &'c [u8] {
    let start = ptr::from_ref(config).cast::<u8>();
    // SAFETY: a hook lies there, without padding: what is smaller than a word comes in pairs.
    unsafe { slice::from_raw_parts(start.add(hook.offset), hook.known) }
}

/// The memory bill of a config.
pub fn memory_need(config: &Config) -> Result<abi::Memory, Failure> {
    let mut need = abi::Memory::EMPTY;
    with_why(|why| fill_memory(config, &mut need, why)).map(|()| need)
}

/// The facts of an array. `scratch` has at least SCRATCH_BYTES bytes. A group is NOT_FOUND, and the
/// text names what is in it: [`node_info`] describes it.
pub fn array_info(uri: &str, scratch: &mut [u8]) -> Result<abi::ArrayInfo, Failure> {
    node(uri, &Config::DEFAULT, (scratch, false))
}

fn node(uri: &str, config: &Config, scratch: (&mut [u8], bool)) -> Result<abi::ArrayInfo, Failure> {
    let mut info = abi::ArrayInfo::EMPTY;
    let hooks = (&config.files, &config.store, config.source, config.metadata);
    with_why(|why| fill_node(uri, hooks, scratch, &mut info, why)).map(|()| info)
}

/// Like [`array_info`], through hooks as [`node_info_trusting`].
///
/// # Safety
/// As of [`Loader::open_trusting`].
pub unsafe fn array_info_trusting(
    uri: &str,
    config: &Config,
    scratch: &mut [u8],
) -> Result<abi::ArrayInfo, Failure> {
    node(uri, config, (scratch, false))
}

/// An array or a group.
pub enum Node<'s> {
    /// An array.
    Array(abi::ArrayInfo),
    /// A group and what is in it.
    Group(GroupView<'s>),
}

/// The thing at a uri. `scratch` has at least SCRATCH_BYTES bytes; the nodes of a group lie in it,
/// so a larger one holds more.
pub fn node_info<'s>(uri: &str, scratch: &'s mut [u8]) -> Result<Node<'s>, Failure> {
    node_of(uri, &Config::DEFAULT, scratch)
}

/// Like [`node_info`], through the hooks of a config, `files`, `store` and `source`, and with its
/// `metadata`. Its other members are not looked at.
///
/// # Safety
/// As of [`Loader::open_trusting`].
pub unsafe fn node_info_trusting<'s>(
    uri: &str,
    config: &Config,
    scratch: &'s mut [u8],
) -> Result<Node<'s>, Failure> {
    node_of(uri, config, scratch)
}

fn node_of<'s>(uri: &str, config: &Config, scratch: &'s mut [u8]) -> Result<Node<'s>, Failure> {
    // The view lives as long as the borrow of the block that its entries lie in.
    let borrow: PhantomData<&'s [u8]> = PhantomData;
    node(uri, config, (scratch, true)).map(|info| match info.kind == NodeKind::Array as u32 {
        true => Node::Array(info),
        false => Node::Group(GroupView::new(info, borrow)),
    })
}

/// Raises the caps of `config` to what the arrays need. `scratch` has at least SCRATCH_BYTES. A
/// config that [`Loader::open`] does not take is INVALID: [`config_fit_trusting`] takes one.
pub fn config_fit(config: &mut Config, uris: &[&str], scratch: &mut [u8]) -> Result<(), Failure> {
    with_why(|why| refuse_trust(config, "config_fit_trusting", why))?;
    // SAFETY: the config leads to nothing of the program.
    unsafe { config_fit_trusting(config, uris, scratch) }
}

/// Like [`config_fit`], through the hooks of the config.
///
/// # Safety
/// As of [`Loader::open_trusting`].
pub unsafe fn config_fit_trusting(
    config: &mut Config,
    uris: &[&str],
    scratch: &mut [u8],
) -> Result<(), Failure> {
    let mut fitted = *config;
    with_why(|why| fit(&mut fitted, (uris.len(), |at, _: &mut Why| Ok(uris[at])), scratch, why))?;
    *config = fitted;
    Ok(())
}

/// The result of [`metadata`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Bytes of the target.
    pub written: usize,
    /// Shards that the array has; 0 if its files have no index.
    pub shards: u64,
}

/// Looks up what a loader reads of an array before its chunks, for loaders elsewhere, which take it
/// as [`Config::metadata`]: its documents if `shards` begins with 0, and indexes of those shards.
/// `scratch` has at least SCRATCH_BYTES bytes. BUDGET: `target` is too small.
pub fn metadata(
    uri: &str,
    config: &Config,
    shards: core::ops::Range<u64>,
    scratch: &mut [u8],
    target: &mut [u8],
) -> Result<Metadata, Failure> {
    with_why(|why| refuse_trust(config, "metadata_trusting", why))?;
    // SAFETY: the config leads to nothing of the program.
    unsafe { metadata_trusting(uri, config, shards, scratch, target) }
}

/// Like [`metadata`], through the hooks of the config.
///
/// # Safety
/// As of [`Loader::open_trusting`].
pub unsafe fn metadata_trusting(
    uri: &str,
    config: &Config,
    shards: core::ops::Range<u64>,
    scratch: &mut [u8],
    target: &mut [u8],
) -> Result<Metadata, Failure> {
    let (first_shard, shard_count) = (shards.start, shards.end.saturating_sub(shards.start));
    let mut part = abi::MetadataPart { first_shard, shard_count, ..abi::MetadataPart::EMPTY };
    with_why(|why| look_up(config, uri, (scratch, target), &mut part, why))?;
    Ok(Metadata { written: part.written as usize, shards: part.shards })
}

/// As [`Loader::forget`].
pub(super) fn forget_at(engine: &Engine, uri: Option<&str>) -> Result<(), Failure> {
    let (mut normal, mut why) = (Uri::new(), Why::new());
    if let Some(uri) = uri {
        normalize_uri(uri, &mut normal, &mut why)
            .map_err(|status| Failure::because(status, &why))?;
    }
    engine.forget(uri.map(|_| &mut normal))
}
