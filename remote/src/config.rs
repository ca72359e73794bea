//! The settings of a client, their defaults and limits.

use crate::error::{Error, Result, Secrets};
use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use std::fmt;
use std::time::Duration;

/// Most threads of a client.
pub const THREADS_MAX: u32 = 64;
/// Most requests in flight of a client.
pub const READS_MAX: u32 = 4096;

/// The settings of a client. `Config::default()` has the defaults of the C header.
#[derive(Clone)]
pub struct Config {
    /// Threads that move bytes; as many again read local files and inflate.
    pub n_threads: u32,
    /// Requests in flight, those for sizes and listings included.
    pub reads_max: u32,
    /// Bytes that may be cached: directories and inflated entries of archives, whole files.
    pub cache_bytes: u64,
    /// Largest entry that is inflated, and largest file that is read whole.
    pub max_entry_bytes: u64,
    /// Objects whose size and version are remembered.
    pub n_objects: u32,
    /// Buckets, containers and servers that are kept open.
    pub n_stores: u32,
    /// Tries after the first one.
    pub retries_max: u32,
    /// The least wait before a retry; it doubles with each.
    pub backoff_min: Duration,
    /// The most that a wait grows to.
    pub backoff_max: Duration,
    /// For a connection.
    pub connect_timeout: Duration,
    /// For the first byte of an answer, and between two parts of it.
    pub idle_timeout: Duration,
    /// For all tries of one read together.
    pub total_timeout: Duration,
    /// For so long a size is not asked for again.
    pub max_age: Duration,
    /// As `max_age`, of archives.
    pub archive_max_age: Duration,
    /// Handed on to the store hook.
    pub merge_gap_bytes: u64,
    /// Handed on to the store hook.
    pub merge_bytes_max: u64,
    /// Servers without ranges: files are read whole and cached, else refused.
    pub whole_files: bool,
    /// Requests are not signed.
    pub anonymous: bool,
    /// Endpoints may be http://.
    pub allow_http: bool,
    /// S3 buckets stand in the path, not in the host's name. `None`: as the environment says.
    pub path_style: Option<bool>,
    /// The endpoint of s3.
    pub endpoint: Option<String>,
    /// The region of s3.
    pub region: Option<String>,
    /// A file of certificates (PEM) that are trusted too.
    pub ca_file: Option<String>,
    /// The proxy of all requests.
    pub proxy_url: Option<String>,
    /// Statuses that mean that an object does not exist.
    pub absent: Vec<u16>,
    /// Settings of object_store by their names: aws_, azure_, google_, or of all clients.
    pub options: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            n_threads: 2,
            reads_max: 256,
            cache_bytes: 256 << 20,
            max_entry_bytes: 64 << 20,
            n_objects: 65536,
            n_stores: 64,
            retries_max: 10,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(180),
            max_age: Duration::ZERO,
            archive_max_age: Duration::from_secs(1),
            merge_gap_bytes: 64 << 10,
            merge_bytes_max: 8 << 20,
            whole_files: false,
            anonymous: false,
            allow_http: false,
            path_style: None,
            endpoint: None,
            region: None,
            ca_file: None,
            proxy_url: None,
            absent: vec![404],
            options: Vec::new(),
        }
    }
}

impl fmt::Debug for Config {
    /// Only what cannot be a secret: values of options are left out.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.options.iter().map(|(key, _)| key.as_str()).collect();
        out.debug_struct("Config")
            .field("n_threads", &self.n_threads)
            .field("reads_max", &self.reads_max)
            .field("cache_bytes", &self.cache_bytes)
            .field("max_entry_bytes", &self.max_entry_bytes)
            .field("retries_max", &self.retries_max)
            .field("anonymous", &self.anonymous)
            .field("region", &self.region)
            .field("absent", &self.absent)
            .field("option_keys", &keys)
            .finish_non_exhaustive()
    }
}

/// Whose client an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionOf {
    /// The client of s3.
    Aws(AmazonS3ConfigKey),
    /// The client of az.
    Azure(AzureConfigKey),
    /// The client of gs.
    Google(GoogleConfigKey),
    /// All clients.
    All(ClientConfigKey),
}

/// The client that an option's key is for; nothing for a key that is not known.
pub fn option_of(key: &str) -> Option<OptionOf> {
    let key = key.to_ascii_lowercase();
    if key.starts_with("aws_") {
        return key.parse().ok().map(OptionOf::Aws);
    }
    if key.starts_with("azure_") {
        return key.parse().ok().map(OptionOf::Azure);
    }
    if key.starts_with("google_") {
        return key.parse().ok().map(OptionOf::Google);
    }
    key.parse().ok().map(OptionOf::All)
}

impl Config {
    /// Checks the limits.
    pub fn check(&self) -> Result<()> {
        let in_range = |name: &str, value: u64, first: u64, last: u64| {
            if (first..=last).contains(&value) {
                return Ok(());
            }
            let text = format!("{name} = {value}: take {first} to {last}");
            Err(Error::failed(text))
        };
        in_range("n_threads", self.n_threads.into(), 1, THREADS_MAX.into())?;
        in_range("reads_max", self.reads_max.into(), 1, READS_MAX.into())?;
        in_range("n_objects", self.n_objects.into(), 1, 1 << 24)?;
        in_range("n_stores", self.n_stores.into(), 1, 4096)?;
        in_range("retries_max", self.retries_max.into(), 0, 1000)?;
        in_range("max_entry_bytes", self.max_entry_bytes, 1, u32::MAX.into())?;
        let times = [
            ("connect_timeout_ns", self.connect_timeout),
            ("idle_timeout_ns", self.idle_timeout),
            ("total_timeout_ns", self.total_timeout),
            ("backoff_min_ns", self.backoff_min),
            ("backoff_max_ns", self.backoff_max),
        ];
        for (name, time) in times {
            let limit = Duration::from_secs(86400);
            if time.is_zero() || time > limit {
                return Err(Error::failed(format!("{name} = {time:?}: take 1 ns to a day")));
            }
        }
        if self.backoff_min > self.backoff_max {
            return Err(Error::failed("backoff_min_ns is above backoff_max_ns"));
        }
        for (key, _) in &self.options {
            if option_of(key).is_none() {
                return Err(Error::failed(format!(
                    "option {key}: no client knows this key; keys are those of object_store, \
                     with aws_, azure_ or google_ before them where they are of one cloud"
                )));
            }
        }
        Ok(())
    }

    /// The secrets that a client of this config may meet.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add_environment();
        for (key, value) in &self.options {
            secrets.add(key, value);
            secrets.add_address(value);
        }
        for address in [&self.endpoint, &self.proxy_url].into_iter().flatten() {
            secrets.add_address(address);
        }
        secrets
    }
}

/// The statuses of a list such as "404,403".
pub fn statuses_from_text(text: &str) -> Result<Vec<u16>> {
    let status = |part: &str| match part.trim().parse() {
        Ok(status @ 400..=499) => Ok(status),
        _ => Err(Error::failed(format!(
            "absent = \"{text}\": take statuses of 400 to 499, as 404,403"
        ))),
    };
    text.split(',').map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_clouds_have_their_prefix() {
        assert!(matches!(option_of("aws_region"), Some(OptionOf::Aws(_))));
        assert!(matches!(option_of("azure_storage_account_name"), Some(OptionOf::Azure(_))));
        assert!(matches!(option_of("google_service_account"), Some(OptionOf::Google(_))));
        assert!(matches!(option_of("proxy_url"), Some(OptionOf::All(_))));
        assert_eq!(option_of("region"), None);
    }

    #[test]
    fn a_config_shows_no_secret() {
        let options = vec![("aws_secret_access_key".into(), "hunter2hunter2".into())];
        let proxy_url = Some("http://me:swordfish@proxy".into());
        let config = Config { options, proxy_url, ..Config::default() };
        let text = format!("{config:?}{:?}", config.secrets());
        assert!(!text.contains("hunter2") && !text.contains("swordfish"), "{text}");
    }

    #[test]
    fn limits_are_checked_by_name() {
        let config = Config { n_threads: 0, ..Config::default() };
        assert!(config.check().unwrap_err().to_string().contains("n_threads"));
        let config = Config { options: vec![("colour".into(), "x".into())], ..Config::default() };
        assert!(config.check().unwrap_err().to_string().contains("colour"));
        assert!(Config::default().check().is_ok());
        assert_eq!(statuses_from_text("404, 403").unwrap(), [404, 403]);
        assert!(statuses_from_text("200").is_err());
    }
}
