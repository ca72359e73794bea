//! Texts of the library in the words of the command line.
//!
//! In: a text that names settings as wavetrain.h does, "max_host_memory_bytes = 1: raise the cap".
//! Out: the same with flags, "--max-host-memory-bytes=1: raise the cap". Names in paths stay.

use crate::fields::flag_of;

/// Advice that a user of the tool cannot follow, and the advice in its place.
const PHRASES: [(&str, &str); 5] = [
    (
        "only config.source has such arrays, and it is not set: set it",
        "such arrays exist only inside of a program",
    ),
    ("or let config_fit set it", "or leave the flag out"),
    ("sample_rank = 0: must be 1 to 16", "give --sample-shape, such as --sample-shape 64,128,128"),
    ("set dtype to one of", "set --dtype to one of"),
    (", or set thread_mode = pump or hook", ""),
];

/// A text of the library for the terminal.
pub fn spelled(text: &str) -> String {
    let text = PHRASES.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old, new));
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./#".contains(c);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        let (name, end) = word.split_at(word.trim_end_matches('.').len());
        let value = after.strip_prefix(" = ").filter(|_| end.is_empty());
        out.push_str(before);
        // Names of one word are words of the language, too.
        match flag_of(name).filter(|_| name.contains('_') || value.is_some()) {
            Some(flag) => {
                out.push_str(&format!("--{flag}{end}{}", if value.is_some() { "=" } else { "" }));
                rest = value.unwrap_or(after);
            }
            None => {
                out.push_str(word);
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn settings_are_flags() {
        let text = "max_host_memory_bytes = 1: raise the cap, or lower samples_per_batch.";
        let flags = "--max-host-memory-bytes=1: raise the cap, or lower --samples-per-batch.";
        assert_eq!(spelled(text), flags);
        assert_eq!(spelled("or set backend = host"), "or set --backend=host");
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "/data/pad_mode/zarr.json: the backend of a device is not set",
            "s3://bucket/pad_mode: n_threads = 3",
            "šamples: pad_mode.zarr",
        ] {
            assert_eq!(spelled(text), text);
        }
    }

    #[test]
    fn advice_is_for_the_command_line() {
        let text = "hook:a: only config.source has such arrays, and it is not set: set it";
        let inside = "hook:a: such arrays exist only inside of a program";
        assert_eq!(spelled(text), inside);
    }
}
