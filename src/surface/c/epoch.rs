//! Epochs of include/wavetrain_epoch.h, where the contract is: the sampler, for C.
//!
//! In: pointers and structs of the caller, which are copied in. Out: numbers, and structs that are
//! copied back. Invariant: a pointer is used only if it is not NULL and aligned, and what it leads
//! to fits the address space; an epoch whose numbers do not fit together is refused by every call,
//! and stays as it is.

use crate::sampler::{self, ChunkShuffle, Deal, Epoch, Misfit, Order, Place, State, Tail, Taken};
use core::slice;

const SHUFFLE: u32 = 1;
const BY_BATCH: u32 = 2;
const DROP: u32 = 4;
const PAD: u32 = 8;
const REPEAT: u32 = 16;

/// No such sample.
pub(super) const NO_INDEX: u64 = u64::MAX;

/// wavetrain_epoch
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EpochRecord {
    pub state: State,
    pub n: u64,
    pub rank: u32,
    pub world: u32,
    pub batch: u32,
    pub flags: u32,
    pub reserved: u64,
}

/// wavetrain_chunk_shuffle
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ShuffleRecord {
    pub run: u64,
    pub window: u64,
}

/// wavetrain_epoch_view
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EpochView {
    pub left: u64,
    pub window_samples: u64,
    pub is_wrong: u32,
    pub is_portable: u32,
}

/// An epoch in either order.
pub(super) enum Walk {
    Plain(Epoch),
    Chunks(ChunkShuffle),
}

impl Walk {
    /// At the beginning, where the numbers fit together.
    fn new(
        record: &EpochRecord,
        seed: u64,
        shuffle: Option<ShuffleRecord>,
    ) -> Result<Walk, Misfit> {
        let flags = record.flags;
        if shuffle.is_some() && flags & !(DROP | PAD) != 0 {
            return Err(Misfit::ChunkShuffle);
        }
        let order = if flags & SHUFFLE != 0 { Order::Shuffled } else { Order::Plain };
        let deal = if flags & BY_BATCH != 0 { Deal::ByBatch } else { Deal::BySample };
        let tail = match flags {
            _ if flags & REPEAT != 0 => Tail::Repeat,
            _ if flags & PAD != 0 => Tail::Pad,
            _ if flags & DROP != 0 => Tail::Drop,
            _ => Tail::Short,
        };
        let epoch = Epoch::new(record.n, seed, order)?;
        let epoch = epoch.with_ranks(record.rank, record.world, record.batch)?;
        let epoch = epoch.with_deal(deal).with_tail(tail);
        match shuffle {
            None => Ok(Walk::Plain(epoch)),
            Some(of) => ChunkShuffle::new(epoch, of.run, of.window).map(Walk::Chunks),
        }
    }

    /// Where the record stands.
    pub fn kept(record: &EpochRecord, shuffle: Option<ShuffleRecord>) -> Result<Walk, Misfit> {
        match Walk::new(record, record.state.seed, shuffle)? {
            Walk::Plain(epoch) => epoch.kept_at(record.state, record.reserved).map(Walk::Plain),
            Walk::Chunks(_) if record.reserved >= u64::from(record.batch) => Err(Misfit::State),
            Walk::Chunks(chunks) => chunks.kept_at(record.state).map(Walk::Chunks),
        }
    }

    /// Puts where it stands into its record.
    fn keep(&self, record: &mut EpochRecord) {
        (record.state, record.reserved) = match self {
            Walk::Plain(epoch) => (epoch.state(), epoch.given()),
            Walk::Chunks(chunks) => (chunks.state(), 0),
        };
    }

    fn view(&self) -> EpochView {
        let (left, window_samples, is_portable) = match self {
            Walk::Plain(epoch) => (epoch.left(), 0, true),
            Walk::Chunks(chunks) => (chunks.left(), chunks.window_samples(), chunks.is_portable()),
        };
        EpochView { left, window_samples, is_wrong: 0, is_portable: is_portable.into() }
    }

    fn resume(&mut self, state: &State) -> Result<(), Misfit> {
        match self {
            Walk::Plain(epoch) => epoch.resume(state),
            Walk::Chunks(chunks) => chunks.resume(state),
        }
    }

    fn turn(&mut self) {
        match self {
            Walk::Plain(epoch) => epoch.turn(),
            Walk::Chunks(chunks) => chunks.turn(),
        }
    }

    fn next_place(&mut self) -> Option<Taken> {
        match self {
            Walk::Plain(epoch) => epoch.next_place(),
            Walk::Chunks(chunks) => chunks.next_place(),
        }
    }

    fn at(&self, place: Place) -> u64 {
        let found = match self {
            Walk::Plain(epoch) => epoch.at(place),
            Walk::Chunks(chunks) => chunks.at(place),
        };
        found.unwrap_or(NO_INDEX)
    }
}

// ---- Pointers -----------------------------------------------------------------------------------

/// Whether `count` values may lie at a pointer.
pub(super) fn is_usable<T>(first: *const T, count: u64) -> bool {
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
    let fits = bytes.is_some_and(|bytes| bytes <= isize::MAX as usize);
    count == 0 || (fits && !first.is_null() && first.is_aligned())
}

/// # Safety
/// `count` values are readable at `first` if it is usable, and nothing writes them for 'a.
pub(super) unsafe fn values<'a, T>(first: *const T, count: u64) -> Option<&'a [T]> {
    if !is_usable(first, count) {
        return None;
    }
    // SAFETY: it is usable, so they are readable.
    Some(if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first, count as usize) } })
}

/// # Safety
/// `count` values are writable at `first` if it is usable, and nothing else uses them for 'a.
pub(super) unsafe fn values_mut<'a, T>(first: *mut T, count: u64) -> Option<&'a mut [T]> {
    if !is_usable(first, count) {
        return None;
    }
    if count == 0 {
        return Some(&mut []);
    }
    // SAFETY: it is usable, so they are writable, and ours alone.
    Some(unsafe { slice::from_raw_parts_mut(first, count as usize) })
}

/// A copy of one value.
///
/// # Safety
/// As of [`values`], but for 'a.
pub(super) unsafe fn copy_of<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: if it is usable, one value is readable.
    is_usable(at, 1).then(|| unsafe { at.read() })
}

/// Values that a caller may not want: none where the pointer is NULL.
///
/// # Safety
/// As of [`values_mut`].
pub(super) unsafe fn if_wanted<'a, T>(first: *mut T, count: u64) -> Option<&'a mut [T]> {
    // SAFETY: as said above.
    if first.is_null() { Some(&mut []) } else { unsafe { values_mut(first, count) } }
}

/// A shuffle that may be left out; None where its pointer cannot be used.
///
/// # Safety
/// As of [`copy_of`].
pub(super) unsafe fn shuffle_of(shuffle: *const ShuffleRecord) -> Option<Option<ShuffleRecord>> {
    // SAFETY: as said above.
    if shuffle.is_null() { Some(None) } else { unsafe { copy_of(shuffle) }.map(Some) }
}

/// Lets `change` work on an epoch, and stores where that left it, if it succeeds.
///
/// # Safety
/// Pointers are NULL or as the header says.
unsafe fn change<R>(
    epoch: *mut EpochRecord,
    shuffle: *const ShuffleRecord,
    change: impl FnOnce(&mut Walk) -> Option<R>,
) -> Option<R> {
    // SAFETY: as said above. The record is copied, so `change` may read what the caller has of it.
    unsafe {
        let mut record = copy_of(epoch)?;
        let mut walk = Walk::kept(&record, shuffle_of(shuffle)?).ok()?;
        let result = change(&mut walk)?;
        walk.keep(&mut record);
        epoch.write(record);
        Some(result)
    }
}

// ---- Epochs -------------------------------------------------------------------------------------

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_begin(
    epoch: *mut EpochRecord,
    shuffle: *const ShuffleRecord,
    n: u64,
    seed: u64,
    flags: u32,
) -> i32 {
    if !is_usable(epoch, 1) {
        return 0;
    }
    let mut record = EpochRecord { n, world: 1, batch: 1, flags, ..EpochRecord::default() };
    // SAFETY: as the header says of both pointers, of which `epoch` is usable.
    unsafe {
        let begun = shuffle_of(shuffle).and_then(|of| Walk::new(&record, seed, of).ok());
        match &begun {
            Some(walk) => walk.keep(&mut record),
            // A world of none is wrong, whatever is done with it.
            None => record = EpochRecord::default(),
        }
        epoch.write(record);
        begun.is_some().into()
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_depends_on(
    epoch: *mut EpochRecord,
    numbers: *const u64,
    count: u64,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe {
        let (Some(mut record), Some(numbers)) = (copy_of(epoch), values(numbers, count)) else {
            return 0;
        };
        record.state.order_hash = sampler::hash_with(record.state.order_hash, numbers);
        epoch.write(record);
        1
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_look(
    epoch: *const EpochRecord,
    shuffle: *const ShuffleRecord,
    view: *mut EpochView,
) -> i32 {
    if !is_usable(view, 1) {
        return 0;
    }
    // SAFETY: as the header says of all pointers, of which `view` is usable.
    unsafe {
        let walk = copy_of(epoch).and_then(|record| Walk::kept(&record, shuffle_of(shuffle)?).ok());
        let wrong = EpochView { is_wrong: 1, ..EpochView::default() };
        view.write(walk.as_ref().map_or(wrong, Walk::view));
        walk.is_some().into()
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_resume(
    epoch: *mut EpochRecord,
    shuffle: *const ShuffleRecord,
    state: *const State,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    unsafe {
        let Some(state) = copy_of(state) else { return 0 };
        change(epoch, shuffle, |walk| walk.resume(&state).ok()).is_some().into()
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_turn(
    epoch: *mut EpochRecord,
    shuffle: *const ShuffleRecord,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe {
        let turned = change(epoch, shuffle, |walk| {
            walk.turn();
            Some(())
        });
        turned.is_some().into()
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_take_many(
    epoch: *mut EpochRecord,
    shuffle: *const ShuffleRecord,
    count: u64,
    places: *mut Place,
    indices: *mut u64,
    padding: *mut u8,
) -> i64 {
    let count = count.min(i64::MAX as u64);
    // SAFETY: as the header says of all pointers.
    let taken = unsafe {
        change(epoch, shuffle, |walk| {
            let (places, indices) = (if_wanted(places, count)?, if_wanted(indices, count)?);
            Some(take_many(walk, count, places, indices, if_wanted(padding, count)?))
        })
    };
    taken.map_or(-1, |taken| taken as i64)
}

/// Takes up to `count` samples; each list is empty or has a place for all.
fn take_many(
    walk: &mut Walk,
    count: u64,
    places: &mut [Place],
    indices: &mut [u64],
    padding: &mut [u8],
) -> u64 {
    for at in 0..count {
        let Some(taken) = walk.next_place() else { return at };
        let at = at as usize;
        if let Some(place) = places.get_mut(at) {
            *place = taken.place;
        }
        if let Some(index) = indices.get_mut(at) {
            *index = walk.at(taken.place);
        }
        if let Some(padding) = padding.get_mut(at) {
            *padding = taken.is_padding.into();
        }
    }
    count
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_at_many(
    epoch: *const EpochRecord,
    shuffle: *const ShuffleRecord,
    places: *const Place,
    count: u64,
    indices: *mut u64,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    let found = unsafe {
        (|| {
            let walk = Walk::kept(&copy_of(epoch)?, shuffle_of(shuffle)?).ok()?;
            let (places, indices) = (values(places, count)?, values_mut(indices, count)?);
            let each = places.iter().zip(indices);
            each.for_each(|(place, index)| *index = walk.at(*place));
            Some(())
        })()
    };
    found.is_some().into()
}
