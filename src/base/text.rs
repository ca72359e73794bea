//! Text of a fixed capacity: what error texts, paths and log lines are built in.
//!
//! Writing past the capacity cuts the text at a character boundary and never fails, so a long uri
//! cannot turn one error into another. The last byte is kept for the NUL that C reads.

use crate::base::limits::URI_BYTES_MAX;
use core::fmt;
use core::mem::MaybeUninit;

/// UTF-8 text of fewer than `N` bytes, NUL-terminated. Bytes that nobody wrote are not zeroed: a
/// path has 4 KB, and each file that is opened takes one.
pub type Text<const N: usize> = TextIn<[MaybeUninit<u8>; N]>;

/// A normalised uri.
pub type Uri = Text<{ URI_BYTES_MAX + 1 }>;

/// UTF-8 text in bytes of any number: functions that take `AnyText` are there once.
#[derive(Clone, Copy)]
pub struct TextIn<B: ?Sized> {
    len: u32,
    /// Set once something was cut; later pieces are then dropped as well.
    cut: bool,
    /// Those of the text and its NUL are written.
    bytes: B,
}

type AnyText = TextIn<[MaybeUninit<u8>]>;

impl<const N: usize> Text<N> {
    /// The empty text.
    pub const fn new() -> Self {
        let mut bytes = [MaybeUninit::uninit(); N];
        bytes[0] = MaybeUninit::new(0);
        TextIn { len: 0, cut: false, bytes }
    }

    /// Appends `piece`, or as many whole characters of it as fit.
    pub fn push_str(&mut self, piece: &str) {
        append(self, piece);
    }

    /// What `write!` calls.
    pub fn write_fmt(&mut self, args: fmt::Arguments<'_>) {
        format(self, args);
    }

    /// Writes what people read, a line of the log or an error's text: one line, whatever names a
    /// caller or a file gave.
    pub fn write_line(&mut self, args: fmt::Arguments<'_>) {
        // No writer fails here: a text is cut where it is full.
        let _ = fmt::write(&mut OneLine(self), args);
    }
}

/// Appends with an escape in the place of each character that ends a line, moves a terminal's
/// cursor or turns the order of those that follow: "\n", "\u{1b}". A backslash stays, so that what
/// was escaped once does not change when it goes from one text into another.
struct OneLine<'t>(&'t mut AnyText);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let mut rest = piece;
        while let Some((at, found)) = rest.char_indices().find(|(_, one)| is_escaped(*one)) {
            let (before, after) = rest.split_at(at);
            append(self.0, before);
            let mut escape = Text::<12>::new();
            write!(escape, "{}", found.escape_default());
            append(self.0, escape.as_str());
            rest = after.get(found.len_utf8()..).unwrap_or("");
        }
        append(self.0, rest);
        Ok(())
    }
}

/// Whether a text that people read has an escape in the character's place.
pub fn is_escaped(one: char) -> bool {
    let ends_a_line = matches!(one, '\u{2028}' | '\u{2029}');
    let turns_an_order = matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || ends_a_line || turns_an_order
}

impl<B: ?Sized + AsRef<[MaybeUninit<u8>]> + AsMut<[MaybeUninit<u8>]>> TextIn<B> {
    /// Forgets the text.
    pub fn clear(&mut self) {
        self.len = 0;
        self.cut = false;
        self.bytes.as_mut()[0] = MaybeUninit::new(0);
    }

    /// The text written so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// The bytes written so far, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        let (_, text) = self.as_bytes_nul().split_last().unwrap_or((&0, &[]));
        text
    }

    /// The bytes written so far and a NUL after them.
    pub fn as_bytes_nul(&self) -> &[u8] {
        let written = &self.bytes.as_ref()[..self.len as usize + 1];
        // SAFETY: `new`, `clear` and `append` write as many bytes as the text has, and its NUL.
        unsafe { written.assume_init_ref() }
    }

    /// Whether anything was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

#[inline(never)]
fn append(text: &mut AnyText, piece: &str) {
    if text.cut {
        return;
    }
    let start = text.len as usize;
    let room = text.bytes.len() - 1 - start;
    let take = if piece.len() <= room {
        piece.len()
    } else {
        text.cut = true;
        piece.floor_char_boundary(room)
    };
    text.bytes[start..start + take].write_copy_of_slice(&piece.as_bytes()[..take]);
    text.bytes[start + take] = MaybeUninit::new(0);
    text.len = (start + take) as u32;
}

#[inline(never)]
fn format(mut text: &mut AnyText, args: fmt::Arguments<'_>) {
    // No writer fails here: a text is cut where it is full.
    let _ = fmt::write(&mut text, args);
}

impl fmt::Write for AnyText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        append(self, piece);
        Ok(())
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text::new()
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

/// Part `number` of a list: one text for many keeps the pointers to each out of the archive. Empty
/// behind the last.
#[inline(never)] // one of it, as small as the lists that it is for
pub fn part_of(list: &str, separator: char, number: usize) -> &str {
    list.split(separator).nth(number).unwrap_or("")
}

/// A list of numbers as an error text shows it: "[3, 0, 17]".
pub struct List<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "[";
        for item in self.0 {
            write!(f, "{separator}{item}")?;
            separator = ", ";
        }
        f.write_str(if self.0.is_empty() { "[]" } else { "]" })
    }
}

/// Bytes of a text in a line that people read, where some characters are escaped.
pub fn line_bytes(text: &str) -> usize {
    text.chars().map(char_bytes).sum()
}

fn char_bytes(one: char) -> usize {
    if is_escaped(one) { one.escape_default().len() } else { one.len_utf8() }
}

/// A long name as an error text shows it: whole, or "..." and about its last bytes, so that the
/// reason behind the name still fits. The bytes are those of a line.
#[derive(Clone, Copy)]
pub struct Tail<'a>(pub &'a str, pub usize);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tail(name, mut room) = *self;
        let shown = name.char_indices().rev().take_while(|(_, one)| {
            let bytes = char_bytes(*one);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let start = shown.last().map_or(name.len(), |(at, _)| at);
        f.write_str(if start > 0 { "..." } else { "" })?;
        f.write_str(&name[start..])
    }
}

/// A number of bytes as an error text shows it: "165482616 bytes (157.8 MiB)".
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        write!(f, "{bytes} bytes")?;
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
            return Ok(());
        };
        match (bytes / unit, bytes % unit * 10 / unit) {
            (whole, _) if bytes % unit == 0 => write!(f, " ({whole} {name})"),
            (whole, tenths) => write!(f, " ({whole}.{tenths} {name})"),
        }
    }
}

/// A float as an error text shows it: with up to 9 decimals, or exactly as "3 * 2^-80" where those
/// show nothing of it. core's own printing is 12 KB of code.
pub struct Float(pub f64);

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMALS: usize = 9;
        const UNIT: u64 = 10u64.pow(DECIMALS as u32);
        let bits = self.0.to_bits();
        let (field, low) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        if field == 0x7ff && low > 0 {
            return f.write_str("NaN");
        }
        f.write_str(if bits >> 63 == 1 { "-" } else { "" })?;
        if field == 0x7ff {
            return f.write_str("inf");
        }
        // The number is odd * 2^power.
        let (mantissa, power) = if field == 0 { (low, 1) } else { (low | 1 << 52, field) };
        let zeros = mantissa.trailing_zeros();
        let odd = mantissa.checked_shr(zeros).unwrap_or(0);
        let power = power as i64 - 1075 + i64::from(zeros);
        if odd == 0 {
            return f.write_str("0");
        }
        if (0..=i64::from(odd.leading_zeros())).contains(&power) {
            return write!(f, "{}", odd << power);
        }
        if !(-127..0).contains(&power) {
            return write!(f, "{odd} * 2^{power}");
        }
        let wide = u128::from(odd);
        let mut whole = (wide >> -power) as u64;
        let scaled = (wide & ((1 << -power) - 1)) * u128::from(UNIT);
        let mut decimals = ((scaled + (1 << (-power - 1))) >> -power) as u64;
        if decimals == UNIT {
            (whole, decimals) = (whole + 1, 0);
        }
        if decimals == 0 {
            return if whole == 0 { write!(f, "{odd} * 2^{power}") } else { write!(f, "{whole}") };
        }
        let mut width = DECIMALS;
        while decimals.is_multiple_of(10) {
            decimals /= 10;
            width -= 1;
        }
        write!(f, "{whole}.{decimals:0width$}")
    }
}

/// What stands before "://", if it has the form of a scheme (RFC 3986, section 3.1).
pub fn scheme(uri: &str) -> Option<&str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let (name, rest) = uri.split_at_checked(uri.bytes().position(|byte| !is_part(byte))?)?;
    let is_scheme = rest.starts_with("://") && name.as_bytes().first()?.is_ascii_alphabetic();
    is_scheme.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_is_cut_at_a_character_boundary_and_stays_terminated() {
        let mut text = Text::<6>::new();
        write!(text, "abčšž");
        assert_eq!(text.as_str(), "abč");
        assert!(text.is_cut());
        text.push_str("x");
        assert_eq!(text.as_bytes_nul(), "abč\0".as_bytes());
    }

    #[test]
    fn a_size_has_bytes_and_the_largest_unit() {
        let shown = |bytes| Size(bytes).to_string();
        assert_eq!(shown(1023), "1023 bytes");
        assert_eq!(shown(1024), "1024 bytes (1 KiB)");
        assert_eq!(shown(165_482_616), "165482616 bytes (157.8 MiB)");
        assert_eq!(shown(u64::MAX), "18446744073709551615 bytes (17179869183.9 GiB)");
    }

    #[test]
    fn a_line_stays_one_line_and_is_escaped_once() {
        let mut text = Text::<128>::new();
        text.write_line(format_args!(
            "{}: \"{}\" \\",
            "a\nb\r\n\0\t", "\x1b[2J\x7f\u{85}č\u{2028}"
        ));
        let shown = "a\\nb\\r\\n\\u{0}\\t: \"\\u{1b}[2J\\u{7f}\\u{85}č\\u{2028}\" \\";
        assert_eq!(text.as_str(), shown);
        let mut again = Text::<128>::new();
        again.write_line(format_args!("{text}"));
        assert_eq!(again.as_str(), shown);
        let mut turned = Text::<64>::new();
        turned.write_line(format_args!("\u{202e}a\u{2066}"));
        assert_eq!(turned.as_str(), "\\u{202e}a\\u{2066}");
    }

    #[test]
    fn a_list_gives_its_parts_by_number() {
        let parts = [0, 1, 2].map(|number| part_of("one two", ' ', number));
        assert_eq!(parts, ["one", "two", ""]);
    }

    #[test]
    fn list_prints_like_the_field_does() {
        let mut text = Text::<32>::new();
        write!(text, "{}", List(&[3u64, 0, 17]));
        assert_eq!(text.as_str(), "[3, 0, 17]");
    }

    #[test]
    fn a_scheme_is_what_its_rfc_says() {
        for (uri, name) in [("s3://a", "s3"), ("gs+x.y-1://a", "gs+x.y-1"), ("A://", "A")] {
            assert_eq!(scheme(uri), Some(name));
        }
        for path in ["", "/data/a", "./s3://bucket", "1a://x", "://x", "file:/x", "a b://x", "s3"] {
            assert_eq!(scheme(path), None, "{path}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let mut text = Text::<64>::new();
        write!(text, "{} {} {}", Tail("abcd", 4), Tail("abcde", 4), Tail("ačde", 4));
        assert_eq!(text.as_str(), "abcd ...bcde ...čde");
        let (fits, long) = ("a\nb\u{2028}", "é\nb\u{2028}");
        assert_eq!((line_bytes(fits), line_bytes(long)), (12, 13));
        let mut line = Text::<64>::new();
        line.write_line(format_args!("{} {}", Tail(fits, 12), Tail(long, 12)));
        assert_eq!(line.as_str(), "a\\nb\\u{2028} ...\\nb\\u{2028}");
    }

    #[test]
    fn a_float_of_few_decimals_prints_like_core_prints_it() {
        let mut state = 9u64;
        let check = |value: f64| assert_eq!(Float(value).to_string(), value.to_string());
        for value in [0.0, -0.0, 1.0, 0.1, 0.3, -2.5, 255.0, 1e-9, 9007199254740993.0, 0.999999999]
        {
            check(value);
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, (1u64 << 53) as f64] {
            check(value);
        }
        for _ in 0..20_000 {
            state = crate::base::cache::hash_words(&[state]);
            check((state >> 40) as f64 / 10f64.powi((state % 9) as i32));
            check(-((state >> 11) as f64));
        }
    }

    #[test]
    fn a_float_beyond_decimals_prints_exactly_or_rounded() {
        for (value, text) in [
            (2f64.powi(63), "9223372036854775808"),
            (2f64.powi(64), "1 * 2^64"),
            (-3e300, "-5043654821435445 * 2^946"),
            (f64::from_bits(1), "1 * 2^-1074"),
            (2f64.powi(-40), "1 * 2^-40"),
            (-3.0001e-5, "-0.000030001"),
            (core::f64::consts::PI, "3.141592654"),
            (1.9999999999, "2"),
        ] {
            assert_eq!(Float(value).to_string(), text);
        }
    }
}
