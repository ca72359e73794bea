//! Open stores, one for each bucket, container or server, the ones used last.
//!
//! In: a `StoreName`. Out: an `object_store` client for it, with the credentials that the cloud's
//! own users set. Invariant: at most `n_stores` are kept; one that is dropped lives on in the reads
//! that use it. object_store makes no retries of its own: `retry` does, and counts them.

use crate::config::{Config, OptionOf, option_of};
use crate::error::{Error, Result, Secrets, chain};
use crate::lock;
use crate::name::{Scheme, StoreName};
use crate::stats::Stats;
use crate::transport::Connector;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use lru::LruCache;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::{
    Certificate, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig,
    StaticCredentialProvider,
};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// The name that servers get; the option user_agent replaces it.
const USER_AGENT: &str = concat!("wavetrain-remote/", env!("CARGO_PKG_VERSION"));

/// How a store of Google is opened, after the text of a failure to do so.
const FIX_OF_GS: &str = ": let GOOGLE_APPLICATION_CREDENTIALS name the key file of a service account \
                         or of a user, or set anonymous for a public bucket";

/// A store that is open.
pub struct Store {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Reads.
    pub objects: Arc<dyn ObjectStore>,
    /// Lists folders page by page; nothing for web servers.
    pub pages: Option<Arc<dyn PaginatedListStore>>,
    /// The server answered a range with a whole object. Set by any reader, never cleared.
    pub has_no_ranges: AtomicBool,
}

impl Store {
    /// A store whose server has ranges, as far as is known.
    pub fn new(
        scheme: Scheme,
        objects: Arc<dyn ObjectStore>,
        pages: Option<Arc<dyn PaginatedListStore>>,
    ) -> Self {
        Self { scheme, objects, pages, has_no_ranges: AtomicBool::new(false) }
    }
}

/// The stores of a client.
pub struct Stores {
    config: Config,
    secrets: Secrets,
    stats: Arc<Stats>,
    certificates: Vec<Certificate>,
    open: Mutex<LruCache<StoreName, Arc<Store>>>,
}

impl Stores {
    /// No store is open yet. Reads the file of certificates.
    pub fn new(config: &Config, secrets: Secrets, stats: Arc<Stats>) -> Result<Self> {
        let certificates = match &config.ca_file {
            None => Vec::new(),
            Some(path) => certificates_from(path)?,
        };
        let count = NonZeroUsize::new(config.n_stores as usize).unwrap_or(NonZeroUsize::MIN);
        let open = Mutex::new(LruCache::new(count));
        Ok(Self { config: config.clone(), secrets, stats, certificates, open })
    }

    /// The store of that name. It is made here if it is not open; that waits for no network.
    pub fn get(&self, name: &StoreName) -> Result<Arc<Store>> {
        // The lock is held while a store is made, so that two reads make one.
        let mut open = lock(&self.open);
        if let Some(store) = open.get(name) {
            return Ok(store.clone());
        }
        let store = Arc::new(self.make(name)?);
        open.put(name.clone(), store.clone());
        Ok(store)
    }

    /// Puts a store in the place of one that would be made.
    #[cfg(any(test, fuzzing))]
    pub fn put(&self, name: StoreName, store: Store) {
        lock(&self.open).put(name, Arc::new(store));
    }

    fn make(&self, name: &StoreName) -> Result<Store> {
        let made = match name.scheme {
            Scheme::S3 => self.make_s3(name),
            Scheme::Gs => self.make_gs(name),
            Scheme::Azure => self.make_azure(name),
            Scheme::Http => self.make_http(name),
        };
        made.map_err(|error| {
            let (root, text) = (self.secrets.clean(&name.root), self.secrets.clean(&chain(&error)));
            let fix = if name.scheme == Scheme::Gs { FIX_OF_GS } else { "" };
            Error::failed(format!("{root}: the store cannot be opened: {text}{fix}"))
        })
    }

    fn make_s3(&self, name: &StoreName) -> object_store::Result<Store> {
        let config = &self.config;
        let mut builder = AmazonS3Builder::from_env()
            .with_client_options(self.client_options(name))
            .with_url(&name.root);
        if let Some(endpoint) = &config.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &config.region {
            builder = builder.with_region(region);
        }
        if let Some(path_style) = config.path_style {
            builder = builder.with_virtual_hosted_style_request(!path_style);
        }
        if config.anonymous {
            builder = builder.with_skip_signature(true);
        }
        for (key, value) in &config.options {
            if let Some(OptionOf::Aws(key)) = option_of(key) {
                builder = builder.with_config(key, value);
            }
        }
        builder = builder.with_retry(no_retries()).with_http_connector(self.connector(name));
        #[cfg(feature = "profiles")]
        let builder = self.with_profile(builder)?;
        let built = Arc::new(builder.build()?);
        Ok(Store::new(name.scheme, built.clone(), Some(built)))
    }

    /// With the region and the keys of the profile of AWS that the user has set, where the config
    /// and the environment have none.
    #[cfg(feature = "profiles")]
    fn with_profile(&self, builder: AmazonS3Builder) -> object_store::Result<AmazonS3Builder> {
        use crate::profiles;
        let config = &self.config;
        let has = |wanted: AmazonS3ConfigKey| {
            let mut options = config.options.iter();
            options.any(|(key, _)| option_of(key) == Some(OptionOf::Aws(wanted)))
        };
        let mut builder = builder;
        if config.region.is_none() && !has(AmazonS3ConfigKey::Region) {
            builder = match profiles::region() {
                Some(region) => builder.with_region(region),
                None => builder,
            };
        }
        if config.anonymous || has(AmazonS3ConfigKey::AccessKeyId) || !profiles::is_in_use() {
            return Ok(builder);
        }
        let machine = builder.clone().build()?.credentials().clone();
        Ok(builder.with_credentials(Arc::new(profiles::Profile::new(machine))))
    }

    fn make_gs(&self, name: &StoreName) -> object_store::Result<Store> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_client_options(self.client_options(name))
            .with_url(&name.root);
        if self.config.anonymous {
            // With keys that are nobody's the files of the machine are not read.
            let nobody = GcpCredential { bearer: String::new() };
            let nobody = Arc::new(StaticCredentialProvider::new(nobody));
            builder = builder.with_skip_signature(true).with_credentials(nobody);
        }
        for (key, value) in &self.config.options {
            if let Some(OptionOf::Google(key)) = option_of(key) {
                builder = builder.with_config(key, value);
            }
        }
        let built = builder.with_retry(no_retries()).with_http_connector(self.connector(name));
        let built = Arc::new(built.build()?);
        Ok(Store::new(name.scheme, built.clone(), Some(built)))
    }

    fn make_azure(&self, name: &StoreName) -> object_store::Result<Store> {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_client_options(self.client_options(name))
            .with_url(&name.root);
        if self.config.anonymous {
            builder = builder.with_skip_signature(true);
        }
        for (key, value) in &self.config.options {
            if let Some(OptionOf::Azure(key)) = option_of(key) {
                builder = builder.with_config(key, value);
            }
        }
        let built = builder.with_retry(no_retries()).with_http_connector(self.connector(name));
        let built = Arc::new(built.build()?);
        Ok(Store::new(name.scheme, built.clone(), Some(built)))
    }

    fn make_http(&self, name: &StoreName) -> object_store::Result<Store> {
        let mut options = self.client_options(name);
        let mut root = name.root.clone();
        if let Some((address, authorization)) = without_user(&name.root) {
            let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, authorization)]);
            options = options.with_default_headers(headers);
            root = address;
        }
        let built = HttpBuilder::new()
            .with_client_options(options)
            .with_url(root)
            .with_retry(no_retries())
            .with_http_connector(self.connector(name))
            .build()?;
        Ok(Store::new(name.scheme, Arc::new(built), None))
    }

    fn connector(&self, name: &StoreName) -> Connector {
        let (stats, query) = (self.stats.clone(), name.query.clone());
        Connector { stats, query, idle_timeout: self.config.idle_timeout }
    }

    /// Options of the HTTP client. There is no limit on the time of a whole request, because large
    /// reads take long: each part of an answer has a limit, and so have all tries together.
    fn client_options(&self, name: &StoreName) -> ClientOptions {
        let config = &self.config;
        // A name that begins with http:// says so itself.
        let allow_http = config.allow_http || name.root.starts_with("http://");
        let mut options = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(config.connect_timeout)
            .with_allow_http(allow_http)
            .with_config(ClientConfigKey::UserAgent, USER_AGENT);
        if let Some(proxy_url) = &config.proxy_url {
            options = options.with_proxy_url(proxy_url);
        }
        for certificate in &self.certificates {
            options = options.with_root_certificate(certificate.clone());
        }
        for (key, value) in options_of_environment(name.scheme) {
            options = options.with_config(key, value);
        }
        for (key, value) in &config.options {
            if let Some(OptionOf::All(key)) = option_of(key) {
                options = options.with_config(key, value);
            }
        }
        options
    }
}

/// Settings of the environment for the HTTP client of a cloud, such as AWS_ALLOW_HTTP.
fn options_of_environment(scheme: Scheme) -> Vec<(ClientConfigKey, String)> {
    let option = |(key, value): (OsString, OsString)| {
        let (key, value) =
            (key.into_string().ok()?.to_ascii_lowercase(), value.into_string().ok()?);
        let key = match (scheme, option_of(&key)?) {
            (Scheme::S3, OptionOf::Aws(AmazonS3ConfigKey::Client(key))) => key,
            (Scheme::Gs, OptionOf::Google(GoogleConfigKey::Client(key))) => key,
            (Scheme::Azure, OptionOf::Azure(AzureConfigKey::Client(key))) => key,
            _ => return None,
        };
        Some((key, value))
    };
    std::env::vars_os().filter_map(option).collect()
}

/// An address without its user, and the header that stands for the user; nothing without one.
fn without_user(root: &str) -> Option<(String, HeaderValue)> {
    let mut url = url::Url::parse(root).ok()?;
    let plain = |text: &str| {
        let bytes: Vec<u8> = percent_encoding::percent_decode_str(text).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let user = format!("{}:{}", plain(url.username()), plain(url.password().unwrap_or_default()));
    if user == ":" {
        return None;
    }
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    let mut header = HeaderValue::try_from(format!("Basic {}", BASE64.encode(user))).ok()?;
    header.set_sensitive(true);
    Some((url.to_string(), header))
}

fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn certificates_from(path: &str) -> Result<Vec<Certificate>> {
    let bytes = std::fs::read(path)
        .map_err(|error| Error::failed(format!("ca_file = {path}: it cannot be read: {error}")))?;
    let certificates = Certificate::from_pem_bundle(&bytes)
        .map_err(|error| Error::failed(format!("ca_file = {path}: {}", chain(&error))))?;
    if certificates.is_empty() {
        return Err(Error::failed(format!("ca_file = {path}: there is no certificate in it")));
    }
    Ok(certificates)
}
