//! Versions of objects and files.
//!
//! A version is the ETag, or where there is none the time of change and the size, hashed to the 32
//! bytes that the store hook has. It is never all zeros, which stand for "any version".

use object_store::ObjectMeta;
use sha2::{Digest, Sha256};

/// Bytes of a version in the store hook.
pub const VERSION_BYTES: usize = 32;

/// The identity of the bytes of an object.
#[derive(Clone, Debug)]
pub struct Version {
    /// The hash.
    pub digest: [u8; VERSION_BYTES],
    /// The ETag, for If-Match.
    etag: Option<String>,
    is_known: bool,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Version {
    /// A version of which only the hash is known, as a caller hands it back.
    pub fn from_digest(digest: [u8; VERSION_BYTES]) -> Self {
        Self { digest, etag: None, is_known: true }
    }

    /// A version that some text identifies.
    pub fn from_text(text: &str) -> Self {
        Self::from_digest(digest(text))
    }

    /// The value of If-Match. A weak ETag never matches there, so that it is compared only.
    pub fn if_match(&self) -> Option<String> {
        self.etag.clone().filter(|etag| !etag.starts_with("W/"))
    }

    /// True where two versions of one size would differ.
    pub fn is_known(&self) -> bool {
        self.is_known
    }
}

/// Size and version of an object.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Bytes of the object.
    pub size: u64,
    /// Its version.
    pub version: Version,
}

impl Meta {
    /// Size and version by the head of an answer.
    pub fn of(meta: &ObjectMeta) -> Self {
        let size = meta.size;
        let nanoseconds = meta.last_modified.timestamp_nanos_opt().unwrap_or(0);
        let text = match &meta.e_tag {
            Some(etag) => format!("etag {etag}"),
            None => format!("time {nanoseconds} size {size}"),
        };
        let is_known = meta.e_tag.is_some() || nanoseconds != 0;
        let version = Version { digest: digest(&text), etag: meta.e_tag.clone(), is_known };
        Self { size, version }
    }
}

fn digest(text: &str) -> [u8; VERSION_BYTES] {
    Sha256::digest(text.as_bytes()).into()
}
