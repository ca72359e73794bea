//! The augmentation of a box, as push copies it: arithmetic on its elements
//! ([`crate::base::abi::Augment`]), and a map from its places to voxels ([`Affine`]).
//!
//! In: numbers of the caller. Out: words, in which no address is, so that they may lie anywhere.
//! Invariant: the words are as long as what is set needs, and the first of them is their number.
//!
//! ```text
//! head | scale of each channel | bias of each | erased boxes: begin | end | count, values | map
//! ```
//!
//! A coordinate takes two words, a float its bits.

use super::affine::{AFFINE_WORDS, Affine};
use crate::base::abi::{CHANNELS_MAX, ERASES_MAX};
use crate::base::limits::RANK_MAX;
use arrayvec::ArrayVec;

/// Words of the head.
const HEAD: usize = 10;

/// Most words of the arithmetic on a box that goes to a field of `rank` axes.
pub const fn arithmetic_words(rank: usize) -> usize {
    HEAD + 2 * CHANNELS_MAX + ERASES_MAX * (4 * rank + 1 + CHANNELS_MAX)
}

/// The same with a map.
pub const fn augment_words(rank: usize) -> usize {
    arithmetic_words(rank) + AFFINE_WORDS
}

/// Most words of any box.
const WORDS_MAX: usize = augment_words(RANK_MAX);

const HAS_SCALE: u32 = 1;
const HAS_BIAS: u32 = 2;
const HAS_CLAMP: u32 = 4;
const PAD_GOES_THROUGH: u32 = 8;
const IS_CAST_ALONE: u32 = 16;
const HAS_AFFINE: u32 = 32;

/// What is not by channel or by erased box.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AugmentHead {
    /// Channels that scale, bias and erased values tell apart; 0 and 1: none.
    pub channels: u32,
    /// Axis of the field along which the channels lie.
    pub channel_axis: u32,
    /// Least and largest value.
    pub clamp: Option<(f32, f32)>,
    /// Standard deviation of the noise, and its key; a deviation of 0 is none.
    pub noise: (f32, u64),
    /// Padding goes through all of it.
    pub pad_goes_through: bool,
}

/// Words of one box that are being written; none of a box that is cast alone, place by place.
#[derive(Clone, Debug, Default)]
pub struct AugmentWords(ArrayVec<u32, WORDS_MAX>);

impl AugmentWords {
    /// No word.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The words; none of a box that is cast alone, place by place.
    pub fn words(&self) -> &[u32] {
        &self.0
    }

    /// The box as it was written, if something is to be done to its elements.
    pub fn view(&self) -> Option<Augment<'_>> {
        let words = (!self.0.is_empty()).then_some(Augment { words: &self.0 });
        words.filter(Augment::is_arithmetic)
    }

    /// Begins anew. `scale` and `bias` have as many numbers as there are channels, or none; a field
    /// of `rank` axes gets the elements. False if that is not so, or there are too many.
    pub fn begin(
        &mut self,
        head: &AugmentHead,
        rank: usize,
        scale: impl ExactSizeIterator<Item = f32>,
        bias: impl ExactSizeIterator<Item = f32>,
    ) -> bool {
        self.0.clear();
        let channels = head.channels as usize;
        let is_wrong = |count| count != 0 && count != channels;
        let is_large = channels > CHANNELS_MAX || rank > RANK_MAX;
        if is_large || is_wrong(scale.len()) || is_wrong(bias.len()) {
            return false;
        }
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(scale.len() > 0, HAS_SCALE)
            | flag(bias.len() > 0, HAS_BIAS)
            | flag(head.clamp.is_some(), HAS_CLAMP)
            | flag(head.pad_goes_through, PAD_GOES_THROUGH);
        let (low, high) = head.clamp.unwrap_or_default();
        let (sigma, key) = head.noise;
        self.0.extend([
            0,
            flags,
            head.channels,
            head.channel_axis,
            low.to_bits(),
            high.to_bits(),
            sigma.to_bits(),
            rank as u32, // and the erased boxes, in the upper half
            key as u32,
            (key >> 32) as u32,
        ]);
        self.0.extend(scale.chain(bias).map(f32::to_bits));
        self.0[0] = self.0.len() as u32;
        true
    }

    /// Adds a box that is erased, by axis of the field. False if there is no room for it.
    pub fn erase(
        &mut self,
        begin: &[u64],
        end: &[u64],
        values: impl ExactSizeIterator<Item = f32>,
    ) -> bool {
        let rank = self.rank();
        let is_full = self.0[7] >> 16 == ERASES_MAX as u32 || values.len() > CHANNELS_MAX;
        if is_full || begin.len() != rank || end.len() != rank {
            return false;
        }
        for place in begin.iter().chain(end) {
            self.0.extend([*place as u32, (*place >> 32) as u32]);
        }
        self.0.push(values.len() as u32);
        self.0.extend(values.map(f32::to_bits));
        self.0[7] += 1 << 16;
        self.0[0] = self.0.len() as u32;
        true
    }

    /// Adds a map, after all else.
    pub fn map(&mut self, affine: &Affine) {
        if self.0.is_empty() {
            let is_begun = self.begin(&AugmentHead::default(), 0, [].into_iter(), [].into_iter());
            assert!(is_begun);
            self.0[1] |= IS_CAST_ALONE;
        }
        self.0.extend(affine.words());
        self.0[1] |= HAS_AFFINE;
        self.0[0] = self.0.len() as u32;
    }

    /// The map, if there is one.
    pub fn affine(&self) -> Option<Affine> {
        (!self.0.is_empty()).then_some(Augment { words: &self.0 })?.affine()
    }

    /// Axes of the boxes that are erased.
    fn rank(&self) -> usize {
        (self.0[7] & 0xFFFF) as usize
    }
}

/// The words of one box, at the front of others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Augment<'a> {
    words: &'a [u32],
}

/// A box of the field that is overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Erased<'a> {
    places: &'a [u32],
    values: &'a [u32],
}

impl<'a> Augment<'a> {
    /// The box whose words lie at the front of `words`; it has some.
    pub fn of(words: &'a [u32]) -> Augment<'a> {
        Augment { words: &words[..words[0] as usize] }
    }

    /// Whether something is done to the elements.
    pub fn is_arithmetic(&self) -> bool {
        !self.has(IS_CAST_ALONE)
    }

    /// The map from places to voxels, if there is one.
    pub fn affine(&self) -> Option<Affine> {
        let words = self.words.last_chunk::<AFFINE_WORDS>();
        words.filter(|_| self.has(HAS_AFFINE)).map(|words| Affine::of(words))
    }

    /// All of its words.
    pub fn words(&self) -> &'a [u32] {
        self.words
    }

    fn has(&self, flag: u32) -> bool {
        self.words[1] & flag != 0
    }

    fn float(&self, word: usize) -> f32 {
        f32::from_bits(self.words[word])
    }

    /// Channels that scale, bias and erased values tell apart; 0 and 1: none.
    pub fn channels(&self) -> u32 {
        self.words[2]
    }

    /// Axis of the field along which the channels lie.
    pub fn channel_axis(&self) -> usize {
        self.words[3] as usize
    }

    /// The factor of a channel.
    pub fn scale(&self, channel: usize) -> Option<f32> {
        self.has(HAS_SCALE).then(|| self.float(HEAD + channel))
    }

    /// The term of a channel.
    pub fn bias(&self, channel: usize) -> Option<f32> {
        let first = if self.has(HAS_SCALE) { self.channels() as usize } else { 0 };
        self.has(HAS_BIAS).then(|| self.float(HEAD + first + channel))
    }

    /// Least and largest value.
    pub fn clamp(&self) -> Option<(f32, f32)> {
        self.has(HAS_CLAMP).then(|| (self.float(4), self.float(5)))
    }

    /// Standard deviation of the noise, which is not 0, and its key.
    pub fn noise(&self) -> Option<(f32, u64)> {
        let sigma = self.float(6);
        (sigma != 0.0).then(|| (sigma, long(&self.words[8..])))
    }

    /// Whether padding goes through all of it.
    pub fn pad_goes_through(&self) -> bool {
        self.has(PAD_GOES_THROUGH)
    }

    /// Axes of the boxes that are overwritten.
    pub fn rank(&self) -> usize {
        (self.words[7] & 0xFFFF) as usize
    }

    /// The boxes that are overwritten, in order.
    pub fn erased(&self) -> impl Iterator<Item = Erased<'a>> + use<'a> {
        let tables = [HAS_SCALE, HAS_BIAS].iter().filter(|flag| self.has(**flag)).count();
        let rank = self.rank();
        let mut rest = &self.words[HEAD + tables * self.channels() as usize..];
        (0..self.words[7] >> 16).map(move |_| {
            let (places, after) = rest.split_at(4 * rank);
            let (values, after) = after[1..].split_at(after[0] as usize);
            rest = after;
            Erased { places, values }
        })
    }
}

impl Erased<'_> {
    /// First place along an axis of the field, and one past the last.
    pub fn range(&self, axis: usize) -> (u64, u64) {
        let rank = self.places.len() / 4;
        (long(&self.places[2 * axis..]), long(&self.places[2 * (rank + axis)..]))
    }

    /// Channels that the values tell apart.
    pub fn channels(&self) -> usize {
        self.values.len()
    }

    /// The value of a channel.
    pub fn value(&self, channel: usize) -> f32 {
        f32::from_bits(self.values[channel])
    }
}

fn long(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_OF_ALL: AugmentHead = AugmentHead {
        channels: 3,
        channel_axis: 2,
        clamp: Some((-1.5, f32::INFINITY)),
        noise: (0.25, 0x1234_5678_9ABC_DEF0),
        pad_goes_through: true,
    };

    #[test]
    fn what_was_written_is_read() {
        let mut words = AugmentWords::default();
        assert!(words.view().is_none());
        let (scale, bias) = ([1.0f32, 2.0, 3.0], [-1.0f32, -2.0, -3.0]);
        assert!(words.begin(&HEAD_OF_ALL, 3, scale.into_iter(), bias.into_iter()));
        assert!(words.erase(&[1, 2, 1 << 40], &[4, 5, (1 << 40) + 1], [7.0f32].into_iter()));
        assert!(words.erase(&[0; 3], &[9, 9, 9], [1.0f32, 2.0, 3.0].into_iter()));
        let mut table = std::vec::Vec::from(words.words());
        table.extend([0xFFFF_FFFF; 9]);
        let read = Augment::of(&table);
        assert_eq!((read.channels(), read.channel_axis()), (3, 2));
        for channel in 0..3 {
            assert_eq!(read.scale(channel), Some(scale[channel]));
            assert_eq!(read.bias(channel), Some(bias[channel]));
        }
        assert_eq!(read.clamp(), HEAD_OF_ALL.clamp);
        assert_eq!(read.noise(), Some(HEAD_OF_ALL.noise));
        assert!(read.pad_goes_through());
        let erased: std::vec::Vec<_> = read.erased().collect();
        assert_eq!(erased.len(), 2);
        assert_eq!((erased[0].range(0), erased[0].range(2)), ((1, 4), (1 << 40, (1 << 40) + 1)));
        assert_eq!((erased[0].channels(), erased[0].value(0)), (1, 7.0));
        assert_eq!((erased[1].range(1), erased[1].value(2)), ((0, 9), 3.0));
    }

    #[test]
    fn what_is_not_set_takes_no_words() {
        let mut words = AugmentWords::default();
        let head = AugmentHead { channels: 1, ..AugmentHead::default() };
        assert!(words.begin(&head, 4, [].into_iter(), [2.0f32].into_iter()));
        let read = words.view().unwrap();
        assert_eq!(words.words().len(), HEAD + 1);
        assert_eq!((read.scale(0), read.bias(0), read.clamp()), (None, Some(2.0), None));
        assert_eq!((read.noise(), read.erased().count()), (None, 0));
        assert!(!read.pad_goes_through());
    }

    #[test]
    fn a_map_stands_next_to_arithmetic_or_alone() {
        let row = |first: f64| [first, f64::NAN, f64::NEG_INFINITY, -0.0];
        let map = Affine {
            rank: 2,
            axes: [1, 3, 9],
            matrix: [row(1.5), row(-2.25), row(1e-300)],
            filter: 1,
            level: -1,
            has_units: true,
        };
        let bits = |map: Affine| map.words().collect::<std::vec::Vec<_>>();
        assert_eq!(bits(map).len(), AFFINE_WORDS);
        let mut words = AugmentWords::default();
        words.map(&map);
        assert!(words.view().is_none() && !Augment::of(words.words()).is_arithmetic());
        assert_eq!(words.affine().map(bits), Some(bits(map)));
        words.clear();
        assert!(words.begin(&HEAD_OF_ALL, 1, [1.0f32; 3].into_iter(), [].into_iter()));
        assert_eq!(words.affine(), None);
        assert!(words.erase(&[3], &[4], [2.0f32].into_iter()));
        words.map(&map);
        let read = words.view().unwrap();
        assert_eq!((read.scale(2), read.erased().count()), (Some(1.0), 1));
        assert_eq!(read.affine().map(bits), Some(bits(map)));
    }

    #[test]
    fn the_largest_fits_and_no_larger_one() {
        let many = [0.5f32; CHANNELS_MAX];
        let mut words = AugmentWords::default();
        let head = AugmentHead { channels: CHANNELS_MAX as u32, ..HEAD_OF_ALL };
        assert!(!words.begin(&HEAD_OF_ALL, RANK_MAX, many.into_iter(), many.into_iter()));
        assert!(words.begin(&head, RANK_MAX, many.into_iter(), many.into_iter()));
        for _ in 0..ERASES_MAX {
            assert!(words.erase(&[1; RANK_MAX], &[2; RANK_MAX], many.into_iter()));
        }
        words.map(&Affine::default());
        assert_eq!(words.words().len(), augment_words(RANK_MAX));
        assert!(!words.erase(&[1; RANK_MAX], &[2; RANK_MAX], [1.0f32].into_iter()));
        let more = [0.5f32; CHANNELS_MAX + 1];
        let head = AugmentHead { channels: CHANNELS_MAX as u32 + 1, ..HEAD_OF_ALL };
        assert!(!words.begin(&head, 1, more.into_iter(), [].into_iter()));
    }
}
