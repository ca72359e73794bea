//! The meaning of names.
//!
//! In: the text that a hook gets, which is a uri, a slash and a key. Out: where the bytes lie, and
//! the entry of an archive if the name has one. Nothing is read here.
//!
//! `s3://b/a.zip/zarr.json` is the entry `zarr.json` of the archive `s3://b/a.zip`. The archive is
//! the first part of a path that ends with `.zip` and has another part after it; a local folder of
//! such a name is a folder (`file::archive_of` looks). An http address keeps its query: the name
//! `https://h/a.zarr?sig=x/zarr.json` is `https://h/a.zarr/zarr.json?sig=x`.

use crate::error::{Error, Result};
use object_store::path::Path;
use std::path::PathBuf;

/// The way to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Azure,
    /// A web server.
    Http,
}

/// One store: a bucket, a container or a web server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreName {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// The uri of its root, without a slash at its end.
    pub root: String,
    /// The query that each request has; empty where there is none.
    pub query: String,
}

/// The place of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of this machine.
    File(PathBuf),
    /// An object of a store.
    Object(StoreName, Path),
}

/// A name that was understood.
#[derive(Clone, Debug)]
pub struct Name {
    /// The file or object.
    pub place: Place,
    /// The entry in it if it is an archive; empty: the archive's root.
    pub entry: Option<String>,
    /// The name of the file or object for messages: it has no user and no query.
    pub shown: String,
    /// The key of tables. It is never shown, because it has the query.
    pub key: String,
}

/// Longest name that is taken. Keys of S3 have 1024 bytes at most, paths 4096.
const NAME_BYTES_MAX: usize = 16384;

impl Name {
    /// Takes a name apart.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > NAME_BYTES_MAX {
            let bytes = text.len();
            return Err(Error::failed(format!(
                "a name of {bytes} bytes is longer than {NAME_BYTES_MAX}"
            )));
        }
        let (is_zip, rest) = match text.strip_prefix("zip:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let name = match scheme_of(rest)? {
            None => Self::of_file(rest.strip_prefix("file://").unwrap_or(rest)),
            Some(scheme) => Self::of_object(scheme, rest)?,
        };
        if is_zip && name.entry.is_none() {
            let shown = &name.shown;
            return Err(Error::failed(format!(
                "zip:{shown}: no part of the path ends with .zip: name the archive so"
            )));
        }
        Ok(name)
    }

    /// The name of the whole, for messages.
    pub fn full(&self) -> String {
        match self.entry.as_deref() {
            None => self.shown.clone(),
            Some(entry) => format!("{}/{entry}", self.shown),
        }
    }

    fn of_file(path: &str) -> Self {
        let (archive, entry) = split_archive(path);
        let shown = archive.to_owned();
        let key = format!("file://{archive}");
        Self { place: Place::File(PathBuf::from(archive)), entry, shown, key }
    }

    fn of_object(scheme: Scheme, uri: &str) -> Result<Self> {
        let (uri, query) = if scheme == Scheme::Http { split_query(uri) } else { (uri.into(), "") };
        let root_end = uri.find("://").map_or(0, |at| at + 3);
        let path_at = uri[root_end..].find('/').map_or(uri.len(), |at| root_end + at);
        let (root, path) = uri.split_at(path_at);
        if root.len() == root_end {
            return Err(Error::failed(format!("{uri}: there is no bucket or host in this name")));
        }
        if scheme == Scheme::Http && path.contains('?') {
            // It is not repeated: it may be a signature.
            let root = without_user(root);
            return Err(Error::failed(format!(
                "{root}: the name has two queries: write the ? of a path as %3F"
            )));
        }
        let (archive, entry) = split_archive(path);
        let shown = format!("{}{archive}", without_user(root));
        let path = match scheme {
            Scheme::Http => Path::from_url_path(archive),
            _ => Path::parse(archive),
        };
        let path = path.map_err(|error| Error::failed(format!("{shown}: {error}")))?;
        let key = format!("{root}/{path}?{query}");
        let store = StoreName { scheme, root: root.to_owned(), query: query.to_owned() };
        Ok(Self { place: Place::Object(store, path), entry, shown, key })
    }
}

/// Takes a hostile name apart, and asserts what callers trust. For the fuzz target and its replay.
#[cfg(any(test, fuzzing))]
pub fn parse_hostile(text: &str) {
    let Ok(name) = Name::parse(text) else { return };
    assert!(name.entry.as_ref().is_none_or(|entry| !entry.starts_with('/')));
    let Place::Object(store, path) = &name.place else { return };
    assert!(store.root.contains("://") && !store.root.ends_with("://"));
    assert!(path.parts().all(|part| !matches!(part.as_ref(), "" | "." | "..")));
    if store.scheme == Scheme::Http {
        let host = name.shown.split("://").nth(1).unwrap_or("");
        let host = host.split('/').next().unwrap_or("");
        assert!(!host.contains('@') && !name.full().contains('?'), "{}", name.full());
    }
}

/// The scheme of a uri; nothing for files.
fn scheme_of(uri: &str) -> Result<Option<Scheme>> {
    let Some(at) = uri.find("://") else { return Ok(None) };
    let scheme = &uri[..at];
    match scheme {
        "file" => Ok(None),
        "s3" | "s3a" => Ok(Some(Scheme::S3)),
        "gs" => Ok(Some(Scheme::Gs)),
        "az" | "abfs" | "abfss" => Ok(Some(Scheme::Azure)),
        "http" | "https" => Ok(Some(Scheme::Http)),
        // A path may have such characters too, but then not before its first slash.
        _ if scheme.contains('/') => Ok(None),
        _ => Err(Error::failed(format!(
            "{scheme}://: this scheme is not known; take s3, gs, az, abfs, abfss, http, https, file"
        ))),
    }
}

/// An http uri without its query, and the query. The query ends at the first slash after it.
fn split_query(uri: &str) -> (String, &str) {
    let Some(at) = uri.find('?') else { return (uri.to_owned(), "") };
    let rest = &uri[at + 1..];
    let end = rest.find('/').unwrap_or(rest.len());
    (format!("{}{}", &uri[..at], &rest[end..]), &rest[..end])
}

/// `scheme://host` of a root that may have a user. Containers of abfs are no users.
fn without_user(root: &str) -> String {
    let is_http = root.starts_with("http");
    match (root.split_once("://"), is_http) {
        (Some((scheme, host)), true) => {
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        _ => root.to_owned(),
    }
}

/// The archive of a path and the entry in it, or the whole path.
fn split_archive(path: &str) -> (&str, Option<String>) {
    let Some(at) = path.find(".zip/") else { return (path, None) };
    let end = at + ".zip".len();
    (&path[..end], Some(path[end + 1..].trim_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> (String, String, String, Option<String>) {
        let name = Name::parse(text).unwrap();
        let Place::Object(store, path) = name.place else { panic!("{text} is a file") };
        (store.root, path.to_string(), store.query, name.entry)
    }

    #[test]
    fn objects_have_a_root_a_path_and_a_query() {
        let plain = object("s3://b/a%20b.zarr/c/0");
        assert_eq!(plain, ("s3://b".into(), "a%20b.zarr/c/0".into(), "".into(), None));
        let signed = object("https://h:1/x%20y.zarr?sig=a%2Fb&t=1/c/0");
        let path = "x y.zarr/c/0".to_owned();
        assert_eq!(signed, ("https://h:1".into(), path, "sig=a%2Fb&t=1".into(), None));
    }

    #[test]
    fn archives_stand_in_the_middle_of_a_path() {
        let (root, path, _, entry) = object("zip:s3://b/d/a.zip/x/zarr.json");
        assert_eq!((root.as_str(), path.as_str()), ("s3://b", "d/a.zip"));
        assert_eq!(entry.as_deref(), Some("x/zarr.json"));
        let name = Name::parse("/data/a.zip/zarr.json").unwrap();
        assert_eq!(name.place, Place::File("/data/a.zip".into()));
        assert_eq!(name.entry.as_deref(), Some("zarr.json"));
        assert!(Name::parse("/data/a.zip").unwrap().entry.is_none());
    }

    #[test]
    fn users_and_queries_are_not_shown() {
        let name = Name::parse("https://me:secret@h/a?sig=hidden/c").unwrap();
        assert_eq!(name.full(), "https://h/a/c");
    }

    #[test]
    fn hostile_names_keep_the_promises_of_the_fuzz_target() {
        for text in [
            "http://a?b?c/d",
            "http://u@v@h/a.zip//b?x/c",
            "https://h?x@y/z",
            "zip:s3://b/.zip/",
            "az://@/x",
            "http://?/",
            "s3://b/\u{0}",
            "http://hth%?/%?/",
        ] {
            parse_hostile(text);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let error = Name::parse("http://h?/a?sig=hidden").unwrap_err().to_string();
        assert!(error.contains("two queries") && !error.contains("hidden"), "{error}");
        for text in ["ftp://h/a", "s3:///a", "zip:/data/a.zarr/c", "s3://b/a//b", "s3://b/../c"] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }
}
