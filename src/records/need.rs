//! Which bytes of a decoded chunk somebody needs.

/// A half-open range of the bytes of a decoded chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First byte.
    pub first: u64,
    /// Behind the last byte.
    pub limit: u64,
}

impl Span {
    /// No bytes.
    pub const NONE: Span = Span { first: 0, limit: 0 };

    /// Number of bytes.
    pub fn bytes(self) -> u64 {
        self.limit - self.first
    }

    /// From the first byte of the two spans to the last.
    pub fn hull(self, other: Span) -> Span {
        Span { first: self.first.min(other.first), limit: self.limit.max(other.limit) }
    }
}

/// What is needed of a decoded chunk: equal strips at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// From the first byte of the first strip to behind the last of the last.
    pub span: Span,
    /// Number of strips, at least 1.
    pub strip_count: u32,
    /// Bytes from one strip to the next.
    pub strip_pitch: u32,
    /// Bytes of what boxes read, its rows side by side: of one box around all of them, or of each
    /// apart, rounded up to PART_ALIGN, whichever is less.
    pub box_bytes: u64,
}

impl Need {
    /// What boxes that are apart are rounded up to, so that the elements of each are aligned.
    pub const PART_ALIGN: u64 = 16;

    /// Nothing.
    pub const NONE: Need = Need::of(Span::NONE);

    /// All of a span.
    pub const fn of(span: Span) -> Need {
        Need { span, strip_count: 1, strip_pitch: 0, box_bytes: span.limit - span.first }
    }

    /// Bytes of a strip.
    pub fn strip_bytes(&self) -> u64 {
        self.span.bytes() - u64::from(self.strip_count - 1) * u64::from(self.strip_pitch)
    }

    /// Bytes of all strips.
    pub fn bytes(&self) -> u64 {
        u64::from(self.strip_count) * self.strip_bytes()
    }
}
