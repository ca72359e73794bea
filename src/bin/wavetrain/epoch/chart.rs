//! The drawing of a sweep: what each window decodes and how it mixes, as bars below each other.

use crate::report;
use std::fmt::Write as _;

/// Columns of the longest bar.
const BAR: usize = 28;

/// A row of the chart.
pub struct Row {
    pub name: String,
    /// Decoded bytes, from 0 at the left.
    pub bytes: u64,
    /// They may be more: a window that does not fit, of which nothing was streamed.
    pub is_open: bool,
    /// As [`super::order::Mixing::meets`], on a logarithmic scale from a full shuffle at the left.
    pub meets: Option<f64>,
}

/// All rows on common scales.
pub fn draw(rows: &[Row], decoded: &str) -> String {
    let bytes_max = rows.iter().map(|row| row.bytes).max().unwrap_or(0).max(1);
    let doublings = |row: &Row| row.meets.map_or(0.0, f64::log2).max(0.0);
    let doublings_max = rows.iter().map(doublings).fold(1.0, f64::max);
    let bar = |part: f64| "#".repeat((part * BAR as f64).round() as usize);
    let head = format!("{decoded}, from 0");
    let mut text =
        format!("\n   window  {head:<width$}two of a chunk meet (log)\n", width = BAR + 14);
    for row in rows {
        let bytes = report::bytes_long(row.bytes) + if row.is_open { "+" } else { "" };
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{:>9}  {:<BAR$} {bytes:>11}  |{:<BAR$} {}",
            row.name,
            bar(row.bytes as f64 / bytes_max as f64),
            bar(doublings(row) / doublings_max),
            row.meets.map_or("-".to_owned(), |meets| format!("{meets:.2}")),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_on_common_scales_of_bytes_and_of_doublings() {
        let row = |bytes, meets| Row { name: "1".to_owned(), bytes, is_open: false, meets };
        let text =
            draw(&[row(4, Some(16.0)), row(2, Some(4.0)), row(1, Some(0.9)), row(0, None)], "d");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let lengths = |line: &str| -> Vec<usize> {
            line.split('|').map(|half| half.matches('#').count()).collect()
        };
        let expected = [[BAR, BAR], [BAR / 2, BAR / 2], [BAR / 4, 0], [0, 0]];
        assert_eq!(lines.iter().map(|line| lengths(line)).collect::<Vec<_>>(), expected);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
