//! The one place that turns a block of memory into typed, disjoint pieces.
//!
//! The same layout function runs twice: with no block it only adds up the bill, line by line; with
//! a block it carves. So the bill that `memory_need` prints is the memory that `open` uses.
//!
//! In: a block that lives until close. Out: slices, [`Table`]s and [`Region`]s into it, and
//! [`Claim`]s on what several threads fill. Invariant: no two pieces overlap, and none outlives the
//! loader, because the loader joins its threads and refuses late handles before the block is given
//! back.
//!
//! [`Rows`] and [`RowsMut`] are two-dimensional views for loops that step from row to row without
//! a check each: the bounds of all rows are asserted once, when the view is made.
//!
//! Over 500 lines because every view of raw memory stands in one place, to be checked as a whole.

use crate::base::bill::{Bill, Item, Kind};
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::math::{align_up, index};
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;

/// Most bytes that one copy repeats: they stay in a cache next to the core.
const REPEATED_BYTES: usize = 4096;

/// The addresses of a value.
pub fn span_of<T: ?Sized>(value: &T) -> Range<usize> {
    let start = core::ptr::from_ref(value).addr();
    start..start + size_of_val(value)
}

/// Takes pieces off a host block in order, or counts what they would take.
pub struct Carver {
    /// None while only counting.
    block: Option<NonNull<u8>>,
    block_bytes: u64,
    used: u64,
    bill: Bill,
}

impl Carver {
    /// A carver that only counts.
    pub fn counting() -> Carver {
        Carver { block: None, block_bytes: u64::MAX, used: 0, bill: Bill::default() }
    }

    /// A carver over `block`.
    ///
    /// # Safety
    /// `block` is valid for reads and writes of `block_bytes` bytes, is aligned to 4096, is used
    /// by nothing else, and stays so until every piece is gone.
    pub unsafe fn over(block: NonNull<u8>, block_bytes: u64) -> Carver {
        assert!((block.as_ptr() as usize).is_multiple_of(4096));
        Carver { block: Some(block), block_bytes, used: 0, bill: Bill::default() }
    }

    /// A carver over memory that nobody frees.
    #[cfg(test)]
    pub fn leaked(bytes: usize) -> Carver {
        let block = std::vec![0xEE; bytes + 4096].leak();
        let start = block.as_ptr().align_offset(4096);
        let block = NonNull::from(&mut block[start..][..bytes]);
        // SAFETY: the block is leaked, aligned, and used through this carver alone.
        unsafe { Carver::over(block.cast(), bytes as u64) }
    }

    /// Whether pieces are real.
    pub fn is_counting(&self) -> bool {
        self.block.is_none()
    }

    /// The bill so far.
    pub fn bill(&self) -> &Bill {
        &self.bill
    }

    fn take(&mut self, item: Item, bytes: u64, align: u64) -> Option<NonNull<u8>> {
        let start = align_up(self.used, align);
        let limit = start + bytes;
        self.bill.add(item, Kind::Host, limit - self.used);
        self.used = limit;
        assert!(limit <= self.block_bytes);
        // SAFETY: start <= limit <= block_bytes, so the pointer stays inside the block.
        self.block.map(|block| unsafe { block.add(index(start)) })
    }

    /// `count` elements, each set to `init`. Empty while counting.
    // The slice is carved off the block, not borrowed from `init`.
    #[allow(clippy::mut_from_ref)]
    pub fn slice<T: Copy>(&mut self, item: Item, count: u64, init: &T) -> &'static mut [T] {
        let bytes = (NonNull::from(init).cast(), size_of::<T>(), align_of::<T>());
        // SAFETY: `init` can be read, and its bytes are a value wherever they are aligned for it:
        // it is Copy. So many values are there, and nobody else has them.
        unsafe {
            let (start, count) = self.take_repeated(item, count, bytes);
            core::slice::from_raw_parts_mut(start.cast().as_ptr(), count)
        }
    }

    /// The same for a table of boxes, of which the rows for index lists have their own line.
    #[allow(clippy::mut_from_ref)]
    pub fn slice_of_boxes<T: Copy>(
        &mut self,
        item: Item,
        (count, listed): (u64, u64),
        init: &T,
    ) -> &'static mut [T] {
        let slice = self.slice(item, count, init);
        self.bill.shift(item, Item::IndexLists, listed * size_of::<T>() as u64);
        slice
    }

    /// `count` elements that each carve pieces of their own. Empty while counting.
    // The slice is carved off the block, not borrowed from an argument.
    #[allow(clippy::mut_from_ref)]
    pub fn slice_from<T>(
        &mut self,
        item: Item,
        count: u64,
        mut make: impl FnMut(&mut Carver) -> T,
    ) -> &'static mut [T] {
        let align = (align_of::<T>() as u64).max(64);
        let start = self.take(item, count * size_of::<T>() as u64, align).map(NonNull::cast::<T>);
        for position in 0..index(count) {
            let element = make(self);
            if let Some(start) = start {
                // SAFETY: position < count elements were taken above, aligned for T.
                unsafe { start.add(position).write(element) };
            }
        }
        let Some(start) = start else { return &mut [] };
        // SAFETY: `take` gave these bytes to nobody else, they are aligned for T and initialised.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), index(count)) }
    }

    /// A table of `count` elements, each set to `init`. Empty while counting.
    pub fn table<T: Copy + 'static>(&mut self, item: Item, count: u64, init: &T) -> Table<T> {
        Table::of(self.slice(item, count, init))
    }

    /// Takes `count` times the bytes at an address, of a size and an alignment; none while
    /// counting. One function for all types: a loop for each would be a tenth of the code that runs
    /// at open.
    ///
    /// # Safety
    /// The bytes can be read.
    #[inline(never)]
    unsafe fn take_repeated(
        &mut self,
        item: Item,
        count: u64,
        (init, bytes, align): (NonNull<u8>, usize, usize),
    ) -> (NonNull<u8>, usize) {
        // None are where the value is, as good as anywhere else, and are not padded to a line.
        if count == 0 {
            return (init, 0);
        }
        let taken = self.take(item, count * bytes as u64, align.max(64) as u64);
        let Some(start) = taken else { return (init, 0) };
        let limit = index(count) * bytes;
        let (mut source, mut at, mut piece) = (init, 0, bytes);
        while at < limit {
            // SAFETY: `at + piece` is at most the bytes that were taken. The source is the value,
            // or as many of its copies as lie in front of `at`.
            unsafe { start.add(at).copy_from_nonoverlapping(source, piece) };
            at += piece;
            (source, piece) =
                (start, at.min(REPEATED_BYTES.next_multiple_of(bytes)).min(limit - at));
        }
        (start, index(count))
    }

    /// One value, which stays where it is until close. None while counting. Never inlined: a large
    /// value would be written member by member, in more code than whatever makes it, and stand on
    /// the stack of the caller for as long as that runs.
    #[inline(never)]
    pub fn place<T>(&mut self, item: Item, make: impl FnOnce() -> T) -> Option<&'static T> {
        let align = (align_of::<T>() as u64).max(64);
        let start = self.take(item, size_of::<T>() as u64, align)?.cast::<T>();
        // SAFETY: the bytes are ours alone and aligned for T.
        unsafe {
            start.write(make());
            Some(start.as_ref())
        }
    }

    /// Raw bytes from a multiple of `align` on. One byte of each page is written, so that none is
    /// taken later; what the rest holds is the block's affair. Empty while counting.
    // The slice is carved off the block, not borrowed from an argument.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes(&mut self, item: Item, bytes: u64, align: u64) -> &'static mut [u8] {
        let Some(start) = self.take(item, bytes, align) else { return &mut [] };
        for at in (0..bytes).step_by(MEMORY_PAGE_BYTES as usize).chain(bytes.checked_sub(1)) {
            // SAFETY: the bytes were just taken and nobody else has them. Volatile, because the
            // compiler may not leave out a write for its effect on the page.
            unsafe { start.as_ptr().add(index(at)).write_volatile(0) };
        }
        // SAFETY: `take` gave these bytes to nobody else, and they live until close.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), index(bytes)) }
    }

    /// Pieces of `sizes` bytes, whole pages, from a page on, below each of them a guard. `close`
    /// gets the address of each guard after all bytes were touched: guards cut the block into parts
    /// that are too small for huge pages. Empty while counting.
    pub fn guarded(
        &mut self,
        item: Item,
        guard_bytes: u64,
        sizes: impl Iterator<Item = u64> + Clone,
        mut close: impl FnMut(NonNull<u8>),
    ) -> Region {
        let bytes = sizes.clone().map(|bytes| guard_bytes + bytes).sum();
        let Some(start) = self.take(item, bytes, MEMORY_PAGE_BYTES) else {
            return Region::of(&mut []);
        };
        let mut at = 0;
        for size in sizes.clone() {
            for page in (guard_bytes..guard_bytes + size).step_by(MEMORY_PAGE_BYTES as usize) {
                // SAFETY: these bytes were taken and are above a guard. Volatile, because they are
                // written for the effect on the page.
                unsafe { start.as_ptr().add(index(at + page)).write_volatile(0) };
            }
            at += guard_bytes + size;
        }
        at = 0;
        for size in sizes {
            // SAFETY: the guard is of the bytes that were just taken.
            close(unsafe { start.add(index(at)) });
            at += guard_bytes + size;
        }
        Region { start, bytes }
    }

    /// Raw bytes from a page on, as a region.
    pub fn region(&mut self, item: Item, bytes: u64) -> Region {
        Region::of(self.bytes(item, bytes, MEMORY_PAGE_BYTES))
    }
}

/// An address range: batch slots, staging slabs, scratch. It only checks bounds; who may look into
/// which part of it says a [`Claim`], or the protocol of those who call [`Region::view`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: u64,
}

// SAFETY: a region is an address and a length, and safe code reads and writes nothing through it.
unsafe impl Send for Region {}
// SAFETY: a shared region gives out no more than an own one: numbers.
unsafe impl Sync for Region {}

impl Region {
    /// A region over a caller's block.
    ///
    /// # Safety
    /// As for [`Carver::over`], without the alignment.
    pub unsafe fn over(start: NonNull<u8>, bytes: u64) -> Region {
        Region { start, bytes }
    }

    /// The region of bytes that their owner gives up for good.
    pub fn of(bytes: &'static mut [u8]) -> Region {
        Region { bytes: bytes.len() as u64, start: NonNull::from(bytes).cast() }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The same.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The addresses.
    pub fn span(&self) -> Range<usize> {
        let start = self.as_ptr().addr();
        start..start + index(self.bytes)
    }

    /// A part of the region as a region of its own.
    pub fn part(&self, offset: u64, bytes: u64) -> Region {
        assert!(offset.checked_add(bytes).is_some_and(|limit| limit <= self.bytes));
        // SAFETY: offset <= bytes by the assertion, so the pointer stays in the region.
        Region { start: unsafe { self.start.add(index(offset)) }, bytes }
    }

    /// The bytes, to be read, by several threads too.
    ///
    /// # Safety
    /// They lie in memory of this process that lives until close, and nobody writes them for as
    /// long as the slice is used.
    pub unsafe fn view(&self) -> &'static [u8] {
        // SAFETY: the region is valid for its bytes, and the caller promises the rest.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), index(self.bytes)) }
    }
}

/// The right to write bytes of a region. Owned, never copied: the only way from a region to `&mut`.
///
/// Several claims may lie over one another where their owners take disjoint parts of them: types
/// cannot prove that two chunks of an array never cover the same voxel of a batch, the plan does.
#[derive(Debug)]
pub struct Claim<'a> {
    region: Region,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a> Claim<'a> {
    /// A claim on bytes that are borrowed for it.
    #[cfg(any(test, feature = "internals"))]
    pub fn on(bytes: &'a mut [u8]) -> Claim<'a> {
        let region = Region { bytes: bytes.len() as u64, start: NonNull::from(bytes).cast() };
        Claim { region, bytes: PhantomData }
    }

    /// A claim on a region.
    ///
    /// # Safety
    /// The region lies in memory of this process that lives until close, and nobody else reads or
    /// writes a byte that is taken through this claim, from then on until the claim is gone.
    pub unsafe fn new(region: Region) -> Claim<'a> {
        Claim { region, bytes: PhantomData }
    }

    /// The addresses, for those whom the kernel or a driver writes for.
    pub fn region(&self) -> Region {
        self.region
    }

    /// All bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: valid until close and ours alone, as the maker of the claim promised.
        unsafe {
            core::slice::from_raw_parts_mut(self.region.start.as_ptr(), index(self.region.bytes))
        }
    }

    /// All bytes, for as long as they are there.
    pub fn into_bytes(mut self) -> &'a mut [u8] {
        // SAFETY: as in `bytes`; and the claim is gone, so this is the last slice of it.
        unsafe { &mut *core::ptr::from_mut(self.bytes()) }
    }

    /// The part `[offset, offset + bytes)`.
    pub fn part(&mut self, offset: u64, bytes: u64) -> &mut [u8] {
        let part = self.region.part(offset, bytes);
        // SAFETY: a part of what is ours, borrowed from us, so there is no other slice of it.
        unsafe { core::slice::from_raw_parts_mut(part.start.as_ptr(), index(bytes)) }
    }

    /// Cuts the first `bytes` bytes off, as a claim of their own.
    pub fn take_front(&mut self, bytes: u64) -> Claim<'a> {
        let front = Claim { region: self.region.part(0, bytes), bytes: PhantomData };
        self.region = self.region.part(bytes, self.region.bytes - bytes);
        front
    }

    /// `count` rows of `row_bytes` bytes, `pitch` bytes apart, the first at `offset`. The bytes
    /// between rows may be others' and are never touched.
    pub fn row_grid(&mut self, offset: u64, row_bytes: u64, count: u64, pitch: u64) -> RowsMut<'_> {
        let limit = limit_of_rows(offset, row_bytes, count, pitch);
        assert!(limit.is_some_and(|limit| limit <= self.region.bytes));
        RowsMut {
            // SAFETY: offset <= limit <= bytes, so the pointer stays inside the region.
            start: unsafe { self.region.start.add(index(offset)) },
            row_bytes: index(row_bytes),
            count: index(count),
            pitch: index(pitch),
            bytes: PhantomData,
        }
    }
}

/// Cuts `count` elements, each set to `init`, off the end of a block of any alignment, and hands
/// out the bytes before them. None where the block is too small.
pub fn split_end<T: Copy>(
    block: &mut [u8],
    count: usize,
    init: T,
) -> Option<(&mut [u8], &mut [T])> {
    let wanted = block.len().checked_sub(count * size_of::<T>() + align_of::<T>())?;
    let (before, behind) = block.split_at_mut(wanted);
    let skipped = behind.as_ptr().align_offset(align_of::<T>());
    let behind = behind.get_mut(skipped..)?;
    let start = behind.as_mut_ptr().cast::<T>();
    for position in 0..count {
        // SAFETY: what is behind the skipped bytes has room for `count` elements and is aligned.
        unsafe { start.add(position).write(init) };
    }
    // SAFETY: those were just written, and nobody else has the bytes that they lie in.
    Some((before, unsafe { core::slice::from_raw_parts_mut(start, count) }))
}

/// The byte behind the last of `count` rows; None where rows overlap or numbers do.
pub(super) fn limit_of_rows(offset: u64, row_bytes: u64, count: u64, pitch: u64) -> Option<u64> {
    let steps = count.checked_sub(1)?;
    if steps > 0 && pitch < row_bytes {
        return None;
    }
    offset.checked_add(pitch.checked_mul(steps)?)?.checked_add(row_bytes)
}

/// Equal rows at equal distances, to be read: row `i` starts at byte `first + i * pitch`.
/// Invariant: all rows lie inside `bytes`. They may overlap, run backwards, or be one and the same.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    bytes: &'a [u8],
    first: usize,
    row_bytes: usize,
    count: usize,
    pitch: isize,
}

impl<'a> Rows<'a> {
    /// `count` rows, at least one, of `row_bytes` bytes.
    pub fn new(bytes: &'a [u8], first: u64, row_bytes: u64, count: u64, pitch: i64) -> Rows<'a> {
        let distance = count.checked_sub(1).and_then(|steps| pitch.checked_mul(steps as i64));
        let last = distance.and_then(|distance| first.checked_add_signed(distance));
        // Places between the first and the last row lie between their ends.
        let limit = last.and_then(|last| first.max(last).checked_add(row_bytes));
        assert!(limit.is_some_and(|limit| limit <= bytes.len() as u64));
        assert!(count <= i64::MAX as u64);
        Rows {
            bytes,
            first: index(first),
            row_bytes: index(row_bytes),
            count: index(count),
            pitch: pitch as isize,
        }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes from one row to the next.
    pub fn pitch(&self) -> isize {
        self.pitch
    }

    /// Address of the first row; the others lie in the same allocation.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes[self.first..].as_ptr()
    }

    /// Row `number`.
    pub fn row(&self, number: usize) -> &'a [u8] {
        assert!(number < self.count);
        let start = self.first as isize + number as isize * self.pitch;
        &self.bytes[start as usize..][..self.row_bytes]
    }

    /// Bytes `[first_byte, first_byte + bytes)` of `count` rows, at least one, from `first_row` on.
    pub fn part(
        &self,
        first_row: usize,
        count: usize,
        first_byte: usize,
        bytes: usize,
    ) -> Rows<'a> {
        check_part((self.count, self.row_bytes), first_row, count, first_byte, bytes);
        let row = self.first as isize + first_row as isize * self.pitch;
        Rows { first: row as usize + first_byte, row_bytes: bytes, count, ..*self }
    }
}

/// Equal rows at equal distances, to be written. Invariant: the rows are disjoint, and they belong
/// to the one who has this view, who has nothing of the bytes between them.
pub struct RowsMut<'a> {
    start: NonNull<u8>,
    row_bytes: usize,
    count: usize,
    pitch: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a> RowsMut<'a> {
    /// Rows side by side that fill `bytes`.
    pub fn packed(bytes: &'a mut [u8], row_bytes: usize) -> RowsMut<'a> {
        assert!(row_bytes > 0 && bytes.len().is_multiple_of(row_bytes));
        let count = bytes.len() / row_bytes;
        let start = NonNull::from(bytes).cast();
        RowsMut { start, row_bytes, count, pitch: row_bytes, bytes: PhantomData }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes from one row to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Address of the first row; the others lie in the same allocation.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Row `number`.
    #[inline(always)] // loops over short rows ask for each
    pub fn row(&mut self, number: usize) -> &mut [u8] {
        assert!(number < self.count);
        // SAFETY: the rows are in bounds and ours by the invariant; the slice covers one row alone
        // and borrows the view, so there is no other.
        unsafe {
            let start = self.start.as_ptr().add(number * self.pitch);
            core::slice::from_raw_parts_mut(start, self.row_bytes)
        }
    }

    /// Bytes `[first_byte, first_byte + bytes)` of `count` rows, at least one, from `first_row` on.
    pub fn part(
        &mut self,
        first_row: usize,
        count: usize,
        first_byte: usize,
        bytes: usize,
    ) -> RowsMut<'_> {
        check_part((self.count, self.row_bytes), first_row, count, first_byte, bytes);
        // SAFETY: first_row < count and first_byte <= row_bytes by the check, so this lies in a row
        // or at its end.
        let start = unsafe { self.start.add(first_row * self.pitch + first_byte) };
        RowsMut { start, row_bytes: bytes, count, pitch: self.pitch, bytes: PhantomData }
    }
}

fn check_part(whole: (usize, usize), row: usize, count: usize, byte: usize, bytes: usize) {
    let (rows, row_bytes) = whole;
    assert!(count > 0 && row < rows && count <= rows - row);
    assert!(byte <= row_bytes && bytes <= row_bytes - byte);
}

/// Records that pass from one owner to the next by a state change under the lock: a wave's tasks
/// are written by the planner while the wave is being filled and read by workers once it is active.
///
/// Values are copied in and out, so no reference outlives a step of the protocol.
pub struct Table<T> {
    start: NonNull<T>,
    count: usize,
    element: PhantomData<T>,
}

// SAFETY: elements are moved by value, and only by the owner that the slot's state names.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: the lock that guards the state orders the accesses of one owner and the next.
unsafe impl<T: Send> Sync for Table<T> {}

impl<T: Clone + 'static> Table<T> {
    /// A table of elements that their owner gives up for good.
    pub fn of(elements: &'static mut [T]) -> Table<T> {
        Table { count: elements.len(), start: NonNull::from(elements).cast(), element: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[cfg(feature = "internals")]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *const T {
        self.start.as_ptr()
    }

    /// The addresses of elements `[first, first + count)`.
    pub fn span(&self, first: usize, count: usize) -> Range<usize> {
        assert!(first.checked_add(count).is_some_and(|limit| limit <= self.count));
        let start = self.as_ptr().addr();
        start + first * size_of::<T>()..start + (first + count) * size_of::<T>()
    }

    /// Where element `position` lies.
    pub fn place(&self, position: usize) -> NonNull<T> {
        assert!(position < self.count);
        // SAFETY: in bounds by the assertion.
        unsafe { self.start.add(position) }
    }

    /// A copy of element `position`, which no one writes at this time.
    pub fn read(&self, position: usize) -> T {
        // SAFETY: in bounds, initialised by the carver, not being written by the state protocol.
        unsafe { self.place(position).as_ref().clone() }
    }

    /// Replaces element `position`, which belongs to the caller at this time.
    pub fn write(&self, position: usize, value: T) {
        // SAFETY: in bounds, and exclusively the caller's by the state protocol.
        unsafe { *self.place(position).as_ptr() = value };
    }

    /// Elements `[first, first + count)`, which no one writes while the slice is used.
    pub fn rows(&self, first: usize, count: usize) -> &'static [T] {
        assert!(first.checked_add(count).is_some_and(|limit| limit <= self.count));
        // SAFETY: in bounds, initialised, alive until close, not written by the state protocol.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(first), count) }
    }

    /// The same elements, to be written.
    ///
    /// # Safety
    /// They belong to the caller, by the state protocol, for as long as the slice is used.
    // The slice is not borrowed from the table.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn rows_mut(&self, first: usize, count: usize) -> &'static mut [T] {
        assert!(first.checked_add(count).is_some_and(|limit| limit <= self.count));
        // SAFETY: in bounds, initialised, alive until close, and the caller's as it promises.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().add(first), count) }
    }

    /// Elements `[first, first + count)` as a table of their own.
    pub fn part(&self, first: usize, count: usize) -> Table<T> {
        assert!(first.checked_add(count).is_some_and(|limit| limit <= self.count));
        // SAFETY: in bounds, or at the end, by the assertion.
        Table { start: unsafe { self.start.add(first) }, count, element: PhantomData }
    }

    /// The same table under another name; the protocol holds for both together.
    pub fn share(&self) -> Table<T> {
        Table { start: self.start, count: self.count, element: PhantomData }
    }
}

impl Table<u64> {
    /// A table of the words of a region, which begins at a multiple of 8.
    ///
    /// # Safety
    /// As of [`Table::of`]: the words lie in memory that lives as long as the table, and belong to
    /// the owners of the table.
    pub unsafe fn over(region: Region) -> Table<u64> {
        assert!(region.as_ptr().addr().is_multiple_of(8));
        Table { start: region.start.cast(), count: index(region.bytes / 8), element: PhantomData }
    }

    /// The same memory as halves of the words.
    pub fn halves(&self) -> Table<i32> {
        Table { start: self.start.cast(), count: 2 * self.count, element: PhantomData }
    }
}
