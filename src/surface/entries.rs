//! The nodes of a group in the caller's scratch block: written for C, read back for Rust.
//!
//! In: entries as `source` hands them out. Out: [`GroupEntry`] structs, one behind the other from
//! the low end of the block, whose pointers lead to texts and axes that grow down from the high
//! end. Invariant: low and high never meet; every pointer of an entry was written before the entry,
//! into the same block, and every text ends with a NUL.

use crate::base::abi::{ArrayInfo, AxisInfo, Blank, GroupEntry};
use crate::base::limits::RANK_MAX;
use crate::source::json::Str;
use crate::source::zarr::{Axes, Detail, Entry, Level, NodeKind};
use core::ffi::{CStr, c_char};
use core::marker::PhantomData;
use core::slice;

/// `has_transform` of a level whose transformation is not read.
const TRANSFORM_REFUSED: u32 = 2;

/// Bytes of a block, cut from both ends.
struct Block<'s> {
    start: *mut u8,
    low: usize,
    high: usize,
    borrow: PhantomData<&'s mut [u8]>,
}

impl<'s> Block<'s> {
    fn new(bytes: &'s mut [u8]) -> Block<'s> {
        let skipped = bytes.as_ptr().align_offset(align_of::<GroupEntry>()).min(bytes.len());
        let (start, high) = (bytes.as_mut_ptr(), bytes.len());
        Block { start, low: skipped, high, borrow: PhantomData }
    }

    /// Appends an entry at the low end; whether there was room.
    fn push(&mut self, entry: GroupEntry) -> bool {
        if self.high - self.low < size_of::<GroupEntry>() {
            return false;
        }
        // SAFETY: the bytes from low on are in the block, nothing else was written there, and low
        // is aligned: it starts so, and moves by whole entries.
        unsafe { self.start.add(self.low).cast::<GroupEntry>().write(entry) };
        self.low += size_of::<GroupEntry>();
        true
    }

    /// Takes bytes at the high end.
    fn take_high(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        let mut place = self.high.checked_sub(bytes)?;
        // The block may start anywhere, so addresses are aligned, not places.
        place = place.checked_sub((self.start as usize + place) % align)?;
        if place < self.low {
            return None;
        }
        self.high = place;
        // SAFETY: the place is inside the block.
        Some(unsafe { self.start.add(place) })
    }

    /// Copies a text and a NUL to the high end.
    fn put_text(&mut self, chars: impl Iterator<Item = char> + Clone) -> Option<*const c_char> {
        let bytes = chars.clone().map(char::len_utf8).sum::<usize>();
        let target = self.take_high(bytes + 1, 1)?;
        // SAFETY: that many bytes were just taken, and nothing else refers to them.
        let text = unsafe { slice::from_raw_parts_mut(target, bytes + 1) };
        let mut at = 0;
        for character in chars {
            at += character.encode_utf8(&mut text[at..bytes]).len();
        }
        text[bytes] = 0;
        Some(target.cast_const().cast())
    }

    fn put_axes(&mut self, axes: &Axes<'_>) -> Option<*const AxisInfo> {
        let target = self.take_high(axes.len() * size_of::<AxisInfo>(), align_of::<AxisInfo>())?;
        let target = target.cast::<AxisInfo>();
        for (place, axis) in axes.iter().enumerate() {
            let name = self.put_text(axis.name.chars())?;
            let kind = self.put_text(axis.kind.chars())?;
            let unit = self.put_text(axis.unit.chars())?;
            // SAFETY: one of the axes that were taken, aligned.
            unsafe { target.add(place).write(AxisInfo { name, kind, unit }) };
        }
        Some(target)
    }
}

/// Writes entries into a block, and counts those that find no room.
pub struct EntryWriter<'s> {
    block: Block<'s>,
    first: usize,
    count: u32,
    total: u64,
    /// Number, name and axes of the image that the last level is of.
    image: Option<(u32, *const c_char, *const AxisInfo)>,
}

impl<'s> EntryWriter<'s> {
    /// A writer into this block, of any alignment.
    pub fn new(bytes: &'s mut [u8]) -> EntryWriter<'s> {
        let block = Block::new(bytes);
        EntryWriter { first: block.low, block, count: 0, total: 0, image: None }
    }

    /// Takes an entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        self.total += 1;
        // Once one was left out all are, so that the caller has the first ones.
        if self.total - 1 == u64::from(self.count) && self.write(entry).is_some() {
            self.count += 1;
        }
    }

    fn write(&mut self, entry: &Entry<'_>) -> Option<()> {
        let block = &mut self.block;
        let mut target = GroupEntry {
            path: block.put_text(entry.path.chars())?,
            image_name: c"".as_ptr(),
            kind: entry.kind as u32,
            ..GroupEntry::BLANK
        };
        match &entry.detail {
            Detail::None | Detail::Well(None) | Detail::Field(None) => {}
            Detail::Well(Some([row, column])) => (target.row, target.column) = (*row, *column),
            Detail::Field(Some(acquisition)) => target.acquisition = *acquisition,
            Detail::Level(level) => self.write_level(level, &mut target)?,
        }
        self.block.push(target).then_some(())
    }

    fn write_level(&mut self, level: &Level<'_>, target: &mut GroupEntry) -> Option<()> {
        let image = match self.image {
            Some(image) if image.0 == level.image => image,
            _ => {
                let name = self.block.put_text(level.name.chars())?;
                *self.image.insert((level.image, name, self.block.put_axes(level.axes)?))
            }
        };
        (_, target.image_name, target.axes) = image;
        target.rank = level.axes.len() as u32;
        (target.image, target.level) = (level.image, level.level);
        target.has_transform = level.transform.is_given as u32;
        target.scale = level.transform.scale;
        target.translation = level.transform.translation;
        if !level.transform.refused.is_empty() {
            // For callers that look at nothing but whether the store gives one.
            target.has_transform = TRANSFORM_REFUSED;
            (target.scale, target.translation) = ([f64::NAN; RANK_MAX], [f64::NAN; RANK_MAX]);
        }
        Some(())
    }

    /// Says in `info` what was written; `sorted`: in the order of the paths.
    pub fn finish(self, info: &mut ArrayInfo, sorted: bool) {
        info.entry_total = self.total;
        info.entry_count = self.count;
        if self.count == 0 {
            return;
        }
        // SAFETY: `count` entries were written one behind the other from `first` on, which is
        // aligned; the writer is gone, so nothing else refers to them.
        let entries = unsafe {
            let first = self.block.start.add(self.first).cast::<GroupEntry>();
            slice::from_raw_parts_mut(first, self.count as usize)
        };
        if sorted {
            // SAFETY: the paths were written with a NUL.
            let path = |entry: &GroupEntry| unsafe { CStr::from_ptr(entry.path) };
            entries.sort_unstable_by(|a, b| path(a).cmp(path(b)));
        }
        info.entries = entries.as_ptr();
    }
}

/// What is in a group, in a scratch block that it borrows.
pub struct GroupView<'s> {
    info: ArrayInfo,
    scratch: PhantomData<&'s [u8]>,
}

impl<'s> GroupView<'s> {
    /// The view of what a writer of a block of this lifetime has finished into `info`.
    pub(crate) fn new(info: ArrayInfo, _scratch: PhantomData<&'s [u8]>) -> GroupView<'s> {
        GroupView { info, scratch: PhantomData }
    }

    /// What the group says of itself: everything but `entries`.
    pub fn info(&self) -> &ArrayInfo {
        &self.info
    }

    /// Group, Image, Plate or Well.
    pub fn kind(&self) -> NodeKind {
        NodeKind::from_code(self.info.kind)
    }

    /// The nodes in it, as many as the scratch block has room for.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = EntryView<'s>> + use<'s> {
        // SAFETY: the writer left that many entries there, in a block that lives for 's.
        let entries: &'s [_] = unsafe { slice_of(self.info.entries, self.info.entry_count) };
        entries.iter().map(EntryView)
    }
}

/// A node in a group.
#[derive(Clone, Copy)]
pub struct EntryView<'s>(&'s GroupEntry);

/// What a writer left at a pointer; nothing where it is NULL.
///
/// # Safety
/// `first` is NULL, or `count` values lie there for 's.
unsafe fn slice_of<'s, T>(first: *const T, count: u32) -> &'s [T] {
    // SAFETY: the values are there.
    if first.is_null() { &[] } else { unsafe { slice::from_raw_parts(first, count as usize) } }
}

/// The text at a pointer that a writer left.
///
/// # Safety
/// A text that ends with a NUL lies there for 's.
unsafe fn text<'s>(text: *const c_char) -> &'s str {
    // SAFETY: the text is there.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

impl<'s> EntryView<'s> {
    /// The numbers: level, row, scale and the rest. Its pointers are the C surface's.
    pub fn raw(&self) -> &'s GroupEntry {
        self.0
    }

    /// Its path below the group.
    pub fn path(&self) -> &'s str {
        // SAFETY: the writer left the text in the block that the entry borrows for 's.
        unsafe { text(self.0.path) }
    }

    /// What it is.
    pub fn kind(&self) -> NodeKind {
        NodeKind::from_code(self.0.kind)
    }

    /// Name of the image that a level is of; empty where it has none.
    pub fn image_name(&self) -> &'s str {
        // SAFETY: the writer left the text in the block that the entry borrows for 's.
        unsafe { text(self.0.image_name) }
    }

    /// The axes of a level: name, type, unit; none for others.
    pub fn axes(&self) -> impl ExactSizeIterator<Item = [&'s str; 3]> + use<'s> {
        // SAFETY: the writer left `rank` axes there, in a block that lives for 's.
        let axes: &'s [_] = unsafe { slice_of(self.0.axes, self.0.rank) };
        // SAFETY: the writer left each axis three texts, in the same block.
        axes.iter().map(|axis| unsafe { [text(axis.name), text(axis.kind), text(axis.unit)] })
    }

    /// Physical units per element, of each axis of a level.
    pub fn scale(&self) -> &'s [f64] {
        &self.0.scale[..self.0.rank as usize]
    }

    /// Physical units of element 0, of each axis of a level.
    pub fn translation(&self) -> &'s [f64] {
        &self.0.translation[..self.0.rank as usize]
    }
}

/// The text of a [`Str`] in a fixed field of C, cut at a character to fit.
pub(crate) fn write_str<const N: usize>(target: &mut [c_char; N], source: Str<'_>) {
    crate::base::abi::write_text(target, source.to_text::<N>().as_str());
}
