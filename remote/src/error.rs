//! Failures and their texts.
//!
//! In: names of objects and the texts of other crates. Out: an `Error` whose text has the object,
//! the reason and a fix, and no secret. Invariant: every text of another crate passes `Secrets`.

use std::fmt;
use std::sync::Arc;

/// How a caller has to treat a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object does not exist.
    Absent,
    /// The object is another version than the one that was asked for.
    Changed,
    /// The range lies beyond the end of the object.
    Beyond,
    /// The store has no listings.
    Unlisted,
    /// Everything else.
    Failed,
}

/// A failure. Clones are cheap, because several callers may wait for one request.
#[derive(Clone, Debug)]
pub struct Error {
    /// How to treat it.
    pub kind: Kind,
    /// The object is absent by a status other than 404, which the config names.
    pub is_denied: bool,
    text: Arc<str>,
}

/// The crate's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure that is neither of the two others.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Kind::Failed, text)
    }

    /// An object that does not exist.
    pub fn absent(name: &str) -> Self {
        Self::new(Kind::Absent, format!("{name}: there is no such object"))
    }

    /// An object that is taken for one that does not exist, because the config names the status.
    pub fn denied(text: String) -> Self {
        Self { is_denied: true, ..Self::new(Kind::Absent, text) }
    }

    /// An object that is not the version that was asked for.
    pub fn changed(name: &str) -> Self {
        let text = "the object changed after its size was read: \
                    stop writing to it, or reset the stream and read it anew";
        Self::new(Kind::Changed, format!("{name}: {text}"))
    }

    /// A range that lies beyond the end of the object.
    pub fn beyond(text: String) -> Self {
        Self::new(Kind::Beyond, text)
    }

    /// A folder of a store that has no listings.
    pub fn unlisted(text: String) -> Self {
        Self::new(Kind::Unlisted, text)
    }

    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, is_denied: false, text: Arc::from(text.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Texts that must appear in no message: keys, tokens, passwords.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// A secret of fewer bytes is not searched for: it would cut up plain words.
const SECRET_BYTES_MIN: usize = 6;

/// A key that has one of these words has a secret value.
const SECRET_WORDS: [&str; 8] =
    ["secret", "token", "password", "sas", "access_key", "account_key", "credential", "client_id"];

/// A key that ends so has the name of a file, which an error may show.
const NAMES_OF_FILES: [&str; 3] = ["_file", "_path", "application_credentials"];

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Adds the value of `key` if the key's name marks it as a secret.
    pub fn add(&mut self, key: &str, value: &str) {
        let key = key.to_ascii_lowercase();
        let is_path = NAMES_OF_FILES.iter().any(|end| key.ends_with(end));
        let is_secret = !is_path && SECRET_WORDS.iter().any(|word| key.contains(word));
        if is_secret && value.len() >= SECRET_BYTES_MIN {
            self.0.push(value.to_owned());
        }
    }

    /// Adds the user and the password of an address.
    pub fn add_address(&mut self, address: &str) {
        let Ok(url) = url::Url::parse(address) else { return };
        self.add("password", url.password().unwrap_or_default());
    }

    /// Adds what the environment gives to the clouds' clients.
    pub fn add_environment(&mut self) {
        for (key, value) in std::env::vars_os() {
            let (Some(key), Some(value)) = (key.to_str(), value.to_str()) else { continue };
            if ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|cloud| key.starts_with(cloud)) {
                self.add(key, value);
            }
            if key.to_ascii_lowercase().ends_with("_proxy") {
                self.add_address(value);
            }
        }
    }

    /// `text` on one line without the secrets, without users and queries of addresses.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), "***");
        }
        let words = text.split_ascii_whitespace().map(clean_word);
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A word of a text; an address in it loses its user and its query.
fn clean_word(word: &str) -> String {
    let Some(at) = word.find("://") else { return word.to_owned() };
    let (scheme, rest) = word.split_at(at + 3);
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = match path.find('?') {
        None => path.to_owned(),
        Some(query) => {
            let end =
                path[query..].find([')', '"', '\'', ',']).map_or(path.len(), |end| query + end);
            format!("{}?***{}", &path[..query], &path[end..])
        }
    };
    format!("{scheme}{host}{path}")
}

/// An error and its sources, joined by colons; a source that its parent repeats is left out.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_users_and_queries_are_removed() {
        let mut secrets = Secrets::default();
        secrets.add("aws_secret_access_key", "hunter2hunter2");
        let text = "GET (https://me:pw@h.x/a?sig=abc%2F&x=1) failed: hunter2hunter2\nnext";
        let clean = secrets.clean(text);
        assert_eq!(clean, "GET (https://h.x/a?***) failed: *** next");
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }

    #[test]
    fn plain_values_stay() {
        let mut secrets = Secrets::default();
        secrets.add("aws_region", "us-east-1");
        secrets.add("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json");
        secrets.add("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token");
        let text = "us-east-1 is far, /home/me/key.json and /run/token are files";
        assert_eq!(secrets.clean(text), text);
    }
}
