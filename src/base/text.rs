//! Text of a fixed capacity: what error texts, paths and log lines are built in.
//!
//! Writing past the capacity cuts the text at a character boundary and never fails, so a long uri
//! cannot turn one error into another. The last byte is kept for the NUL that C reads.

use core::fmt;

/// UTF-8 text of fewer than `N` bytes, NUL-terminated.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: u32,
    /// Set once something was cut; later pieces are then dropped as well.
    cut: bool,
}

impl<const N: usize> Text<N> {
    /// The empty text.
    pub const fn new() -> Self {
        Text { bytes: [0; N], len: 0, cut: false }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.len = 0;
        self.cut = false;
        self.bytes[0] = 0;
    }

    /// The text written so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// The bytes written so far, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// The bytes written so far and a NUL after them.
    pub fn as_bytes_nul(&self) -> &[u8] {
        &self.bytes[..self.len as usize + 1]
    }

    /// Whether anything was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Appends `piece`, or as many whole characters of it as fit.
    pub fn push_str(&mut self, piece: &str) {
        if self.cut {
            return;
        }
        let room = N - 1 - self.len as usize;
        let take = if piece.len() <= room {
            piece.len()
        } else {
            self.cut = true;
            piece.floor_char_boundary(room)
        };
        let start = self.len as usize;
        self.bytes[start..start + take].copy_from_slice(&piece.as_bytes()[..take]);
        self.len += take as u32;
        self.bytes[self.len as usize] = 0;
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text::new()
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.push_str(piece);
        Ok(())
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A list of numbers as an error text shows it: "[3, 0, 17]".
pub struct List<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (position, item) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            item.fmt(f)?;
        }
        f.write_str("]")
    }
}

/// A long name as an error text shows it: whole, or "..." and about its last bytes, so that the
/// reason behind the name still fits.
#[derive(Clone, Copy)]
pub struct Tail<'a>(pub &'a str, pub usize);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tail(name, bytes_max) = *self;
        if name.len() <= bytes_max {
            return f.write_str(name);
        }
        f.write_str("...")?;
        f.write_str(&name[name.ceil_char_boundary(name.len() - bytes_max)..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn text_is_cut_at_a_character_boundary_and_stays_terminated() {
        let mut text = Text::<6>::new();
        write!(text, "abčšž").unwrap();
        assert_eq!(text.as_str(), "abč");
        assert!(text.is_cut());
        text.push_str("x");
        assert_eq!(text.as_bytes_nul(), "abč\0".as_bytes());
    }

    #[test]
    fn list_prints_like_the_field_does() {
        let mut text = Text::<32>::new();
        write!(text, "{}", List(&[3u64, 0, 17])).unwrap();
        assert_eq!(text.as_str(), "[3, 0, 17]");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let mut text = Text::<64>::new();
        write!(text, "{} {} {}", Tail("abcd", 4), Tail("abcde", 4), Tail("ačde", 4)).unwrap();
        assert_eq!(text.as_str(), "abcd ...bcde ...čde");
    }
}
