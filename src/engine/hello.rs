//! The messages of a consumer and an owner before memory is handed over.
//!
//! In: numbers and a text. Out: the bytes of a message, and the meaning of bytes that were
//! received.

use crate::base::status::{Status, Why};
use crate::base::text::Text;
use crate::batch::shared::{LAYOUT, MAGIC};

/// Bytes of a consumer's message: magic, layout, number.
pub const HELLO_BYTES: usize = 16;
/// Bytes of the answer: magic, status, bytes of the text, text.
pub const ANSWER_BYTES: usize = 16 + TEXT_BYTES;

const TEXT_BYTES: usize = 256;

/// The message of consumer `number`.
pub fn hello(number: u32) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The number in a message; None: it is of another version, or no message.
pub fn number_in(bytes: &[u8]) -> Option<u32> {
    let number = *bytes.last_chunk()?;
    let number = u32::from_le_bytes(number);
    (bytes == hello(number)).then_some(number)
}

/// The answer: OK, or why not.
pub fn answer(status: Status, why: &Why) -> [u8; ANSWER_BYTES] {
    let mut text = Text::<TEXT_BYTES>::new();
    text.push_str(why.as_str());
    let text = text.as_bytes();
    let mut bytes = [0; ANSWER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&(status as i32).to_le_bytes());
    bytes[12..16].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[16..16 + text.len()].copy_from_slice(text);
    bytes
}

/// Status and text of an answer; None: the bytes are not an answer.
pub fn status_in(bytes: &[u8]) -> Option<(Status, &str)> {
    let word = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let magic = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let text = bytes.get(16..)?.get(..word(12)? as usize)?;
    let status = Status::from_code(word(8)? as i32)?;
    let is_answer = magic == Some(MAGIC) && bytes.len() == ANSWER_BYTES;
    is_answer.then_some((status, core::str::from_utf8(text).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_mean_what_they_were_made_of_and_others_nothing() {
        assert_eq!(number_in(&hello(63)), Some(63));
        let mut other = hello(63);
        other[8] += 1;
        assert_eq!(
            (number_in(&other), number_in(&other[..15]), number_in(&[])),
            (None, None, None)
        );
        let mut why = Why::new();
        why.fail(Status::Invalid, format_args!("consumer 3 is process 7"));
        let mut bytes = answer(Status::Invalid, &why);
        assert_eq!(status_in(&bytes), Some((Status::Invalid, "consumer 3 is process 7")));
        assert_eq!((status_in(&bytes[..270]), status_in(&[])), (None, None));
        bytes[14] = 1;
        assert_eq!(status_in(&bytes), None);
    }
}
