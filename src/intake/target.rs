//! The uri that an alias stands for. It begins as the alias does, so only what follows is kept.

use crate::base::limits::ENTRY_PATH_BYTES;
use crate::base::text::{Text, Uri};

/// See the module.
#[derive(Clone, Copy)]
pub struct Target {
    /// So many bytes of both are the same.
    shared: u32,
    /// The bytes behind them: the path of a node in its group, or the names of numbered files.
    rest: Text<{ ENTRY_PATH_BYTES + 1 }>,
}

impl Target {
    /// The empty uri.
    pub const NONE: Target = Target { shared: 0, rest: Text::new() };

    /// The target of the alias `uri`; None if there is no room for the bytes in which they differ.
    pub fn of(uri: &str, target: &str) -> Option<Target> {
        let pairs = uri.bytes().zip(target.bytes());
        let shared = target.floor_char_boundary(pairs.take_while(|(a, b)| a == b).count());
        let mut of = Target { shared: shared as u32, ..Target::NONE };
        of.rest.push_str(target.get(shared..).unwrap_or(""));
        if of.rest.is_cut() { None } else { Some(of) }
    }

    /// Gives the uri that `uri` stands for.
    pub fn read(&self, uri: &str, target: &mut Uri) {
        target.clear();
        target.push_str(uri.get(..self.shared as usize).unwrap_or(""));
        target.push_str(self.rest.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_alias_stands_for_comes_back() {
        let uri = "/data/img_\u{e4}#level=1";
        let nearly = "/data/img_\u{e5}/1"; // the first byte of its last letter is the same
        let long = std::format!("/data/img_\u{e4}/{}", "n".repeat(ENTRY_PATH_BYTES - 1));
        for target in ["/data/img_\u{e4}/1", nearly, uri, "/data", "", "other", &long] {
            let mut text = Uri::new();
            Target::of(uri, target).unwrap().read(uri, &mut text);
            assert_eq!(text.as_str(), target);
        }
        assert!(Target::of(uri, &"n".repeat(ENTRY_PATH_BYTES + 1)).is_none());
    }
}
