//! Digests of a run: `wavetrain bench --digest`, to a file and against one.
//!
//! In: batches of a list, in order. Out: the sum of each field; a line for each sample; the first
//! sample that is not as the file says. A file has one line of names, `# position tag image label`,
//! and below it a line for each sample: its position in the list, its tag, and in hexadecimal the
//! digest of each field.

use crate::fault::{Fault, Outcome, failed};
use crate::feed::List;
use crate::requests::lines;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wavetrain::loader::Batch;
use wavetrain::loops::digest::mix;

/// What batches are compared with.
pub struct Expected {
    path: PathBuf,
    digests: Digests,
}

/// Digests of a list, sample by sample.
#[derive(Default)]
pub struct Digests {
    tags: Vec<u64>,
    /// Of each sample those of its fields.
    digests: Vec<u64>,
    fields: usize,
}

/// What the only field of a list without a table of fields is called in a file.
const ONLY: &str = "digest";

/// Names of the fields of a list, in a file.
fn names(list: &impl List) -> Vec<&str> {
    match list.fields() {
        [] => vec![ONLY],
        fields => fields.iter().map(String::as_str).collect(),
    }
}

impl Digests {
    /// Of a list that has not begun.
    pub fn of(list: &impl List) -> Digests {
        Digests { fields: names(list).len(), ..Digests::default() }
    }

    /// Takes those of the next batch, and compares them.
    pub fn take<L: List>(
        &mut self,
        list: &L,
        batch: &Batch<'_>,
        expected: Option<&Expected>,
    ) -> Outcome<()> {
        let first = self.tags.len();
        let count = batch.tags().len();
        self.tags.extend(batch.tags().iter().map(|tag| list.own_tag((*tag - 1) as usize)));
        self.digests.resize((first + count) * self.fields, 0);
        for number in 0..self.fields {
            let field = batch.field(number as u32).map_err(|failure| Fault::library(&failure))?;
            let Some(digests) = field.digests() else { return failed("a batch has no digests") };
            for (sample, digest) in digests.iter().enumerate() {
                self.digests[(first + sample) * self.fields + number] = *digest;
            }
        }
        let Some(expected) = expected else { return Ok(()) };
        (first..first + count).try_for_each(|position| expected.compare(list, self, position))
    }

    fn row(&self, position: usize) -> &[u64] {
        &self.digests[position * self.fields..][..self.fields]
    }

    /// Of each field the sum over its samples of mix(position, digest).
    pub fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0u64; self.fields];
        for position in 0..self.tags.len() {
            for (sum, digest) in sums.iter_mut().zip(self.row(position)) {
                *sum = sum.wrapping_add(mix(position as u64, *digest));
            }
        }
        sums
    }

    /// Writes a file.
    pub fn write(&self, list: &impl List, path: &Path) -> Outcome<()> {
        let mut text = format!("# position tag {}\n", names(list).join(" "));
        for (position, tag) in self.tags.iter().enumerate() {
            // Writing into a String cannot fail.
            let _ = write!(text, "{position} {tag}");
            self.row(position).iter().for_each(|digest| {
                let _ = write!(text, " {digest:016x}");
            });
            text.push('\n');
        }
        std::fs::write(path, text).map_err(|error| Fault::path(path, &error))
    }
}

impl Expected {
    /// Reads a file of digests of such a list.
    pub fn read(path: &Path, list: &impl List) -> Outcome<Expected> {
        let mut digests = Digests::of(list);
        let head = format!("# position tag {}", names(list).join(" "));
        lines(path, |index, line| {
            let told = |reason: String| {
                failed(format!("{}, line {}: {reason}", path.display(), index + 1))
            };
            match line {
                Err(reason) => told(reason),
                Ok(line) if index == 0 => match line == head {
                    true => Ok(()),
                    false => told(format!("'{line}', not '{head}': a file of other fields")),
                },
                Ok(line) => digests.add(line).or_else(told),
            }
        })?;
        if digests.tags.len() != list.len() {
            let (has, count) = (digests.tags.len(), list.len());
            return failed(format!("{}: digests of {has} samples, not {count}", path.display()));
        }
        Ok(Expected { path: path.to_owned(), digests })
    }

    /// Fails with the first field in which a sample differs.
    fn compare(&self, list: &impl List, found: &Digests, position: usize) -> Outcome<()> {
        let path = self.path.display();
        let name = |number: usize| match list.fields().get(number) {
            Some(field) => format!("field {field} of {}", list.place(position, number)),
            None => list.name(position),
        };
        let (is, was) = (found.tags[position], self.digests.tags[position]);
        if is != was {
            return failed(format!(
                "sample {position}: tag {is}, and {was} in {path}: another list"
            ));
        }
        let pairs = found.row(position).iter().zip(self.digests.row(position));
        match pairs.enumerate().find(|(_, (is, was))| is != was) {
            None => Ok(()),
            Some((number, (is, was))) => failed(format!(
                "sample {position}, tag {}: {} differs: its digest is {is:016x}, and {was:016x} \
                 in {path}",
                found.tags[position],
                name(number)
            )),
        }
    }
}

impl Digests {
    /// Adds a line of a file.
    fn add(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let position = words.first().and_then(|word| word.parse::<usize>().ok());
        let tag = words.get(1).and_then(|word| word.parse().ok());
        let digests: Option<Vec<u64>> = words.get(2..).and_then(|words| {
            // All digits: of a file that was cut off in one the rest would accuse the data.
            let whole = |word: &&&str| word.len() == 16;
            words
                .iter()
                .map(|word| u64::from_str_radix(Some(word).filter(whole)?, 16).ok())
                .collect()
        });
        match (position, tag, digests) {
            (Some(position), Some(tag), Some(digests))
                if position == self.tags.len() && digests.len() == self.fields =>
            {
                self.tags.push(tag);
                self.digests.extend(digests);
                Ok(())
            }
            _ => Err(format!(
                "'{line}' is not '{} TAG' and {} digests",
                self.tags.len(),
                self.fields
            )),
        }
    }
}
