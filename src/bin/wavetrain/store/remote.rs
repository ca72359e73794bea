//! The client of stores far away, one for the process.
//!
//! In: the flags of access; what they leave out is the environment's, as each cloud's own tools
//! read it. Out: hooks, documents, names, and the reasons of failures, which the library does not
//! know. Invariant: the client lives as long as the process, so that hooks may lead to it.

use crate::fault::{Outcome, usage};
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use wavetrain::abi::{FilesHook, StoreHook};
use wavetrain::config::Config;
use wavetrain::loader::Failure;
use wavetrain::status::{Status, with_why};
use wavetrain_remote::{Callbacks, Client, Config as Settings, Kind, statuses_from_text};

/// The lines of a command's help.
pub const HELP: &str = "
Stores far away (s3://, gs://, az://, http(s)://, zip: and .zip before any of them). Credentials are
those of the environment (AWS_*, GOOGLE_*, AZURE_*), of the machine's role, or none:
      --region R             of s3 (AWS_REGION)
      --endpoint URL         of s3; http:// is taken, too (AWS_ENDPOINT_URL)
      --anonymous            requests are not signed: public buckets
      --allow-http           an endpoint of the environment may be http://
      --path-style BOOL      1: the bucket stands in the path; 0: in the host's name
      --ca-file FILE         certificates (PEM) that are trusted too
      --proxy URL            the proxy of all requests (HTTPS_PROXY, HTTP_PROXY)
      --absent LIST          statuses that mean absent (404); 404,403 where keys cannot be listed
      --store-option K=V     any option of the crate object_store, as azure_storage_account_name=..
";

/// Tries after the first one.
const RETRIES_MAX: u32 = 4;

/// Reasons that are kept: as many as reads can fail before anybody asks.
const REASONS_MAX: usize = 256;

/// The words of the library for a failure whose reason only the hook knows.
const HOOK_FAILED: &str = "the files hook reports a failure";

static CLIENT: OnceLock<Client> = OnceLock::new();

/// The last failures of the client, the youngest last.
static REASONS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// How stores are entered: the flags that were given.
pub struct Access {
    region: Option<String>,
    endpoint: Option<String>,
    ca_file: Option<String>,
    proxy_url: Option<String>,
    absent: Option<Vec<u16>>,
    path_style: Option<bool>,
    is_anonymous: bool,
    allows_http: bool,
    options: Vec<(String, String)>,
}

impl Access {
    /// Nothing was given.
    pub const NONE: Access = Access {
        region: None,
        endpoint: None,
        ca_file: None,
        proxy_url: None,
        absent: None,
        path_style: None,
        is_anonymous: false,
        allows_http: false,
        options: Vec::new(),
    };

    /// Takes a flag; false: `--name` is none of these.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Outcome<bool> {
        let mut text = || Ok::<_, lexopt::Error>(parser.value()?.to_string_lossy().into_owned());
        match name {
            "region" => self.region = Some(text()?),
            "endpoint" => self.endpoint = Some(text()?),
            "ca-file" => self.ca_file = Some(text()?),
            "proxy" => self.proxy_url = Some(text()?),
            "anonymous" => self.is_anonymous = true,
            "allow-http" => self.allows_http = true,
            "path-style" => match text()?.as_str() {
                "1" => self.path_style = Some(true),
                "0" => self.path_style = Some(false),
                other => return usage(format!("--path-style {other}: take 0 or 1")),
            },
            "absent" => match statuses_from_text(&text()?) {
                Ok(statuses) => self.absent = Some(statuses),
                Err(error) => return usage(format!("--{error}")),
            },
            "store-option" => {
                let option = text()?;
                // The value may be a secret, and is not repeated.
                let Some((key, value)) = option.split_once('=') else {
                    return usage("--store-option: take KEY=VALUE, as aws_region=us-east-1");
                };
                self.options.push((key.to_owned(), value.to_owned()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn settings(&self) -> Settings {
        let defaults = Settings::default();
        let is_plain = |url: &String| url.starts_with("http://");
        Settings {
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            ca_file: self.ca_file.clone(),
            proxy_url: self.proxy_url.clone(),
            absent: self.absent.clone().unwrap_or(defaults.absent),
            path_style: self.path_style,
            anonymous: self.is_anonymous,
            allow_http: self.allows_http || self.endpoint.as_ref().is_some_and(is_plain),
            options: self.options.clone(),
            // A person waits: a server that is down is a matter of seconds.
            retries_max: RETRIES_MAX,
            ..Settings::default()
        }
    }
}

/// Whether a client is open.
pub fn is_in_use() -> bool {
    CLIENT.get().is_some()
}

/// A config whose files are the client's, which is opened if it is not.
pub fn with_hooks(config: &Config, access: &Access) -> Result<Config, Failure> {
    let client = match CLIENT.get() {
        Some(client) => client,
        None => {
            let opened = Client::open(access.settings(), callbacks());
            let opened = with_why(|why| {
                opened.map_err(|error| why.fail(Status::Invalid, format_args!("{error}")))
            })?;
            CLIENT.get_or_init(|| opened)
        }
    };
    let (files, store) = (client.files_hook(), client.store_hook());
    Ok(Config {
        files: FilesHook {
            struct_size: size_of::<FilesHook>(),
            user: files.user,
            size: files.size,
            read: files.read,
            read_async: files.read_async,
        },
        store: StoreHook {
            struct_size: size_of::<StoreHook>(),
            read_tail: store.read_tail,
            read_version: store.read_version,
            read_version_async: store.read_version_async,
            list: store.list,
            merge_gap_bytes: store.merge_gap_bytes,
            merge_bytes_max: store.merge_bytes_max,
            reads_max: store.reads_max,
            retries_itself: store.retries_itself,
        },
        ..*config
    })
}

fn callbacks() -> Callbacks {
    let keep = |text: &str| {
        let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
        if reasons.len() == REASONS_MAX {
            reasons.pop_front();
        }
        reasons.push_back(text.to_owned());
    };
    Callbacks {
        read_done: Some(wavetrain::surface::c::wavetrain_read_done),
        on_error: Some(Box::new(keep)),
    }
}

/// A text of the library, with the client's reason in place of the words for one that is unknown.
pub fn explained(text: &str) -> String {
    let Some(at) = text.find(HOOK_FAILED) else { return text.to_owned() };
    let reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    // "IO: s3://b/a/zarr.json: the files hook .."; a reason begins with the name of its object.
    let before = text[..at].trim_end_matches([':', ' ']);
    let name = before.rsplit(' ').next().unwrap_or(before);
    let is_of =
        |reason: &&String| !name.is_empty() && reason.contains(name.trim_start_matches(".."));
    let found = reasons.iter().rev().find(is_of).or_else(|| reasons.back());
    match found {
        Some(reason) => text.replacen(HOOK_FAILED, reason, 1),
        None => text.to_owned(),
    }
}

/// A document, of `bytes_max` bytes at most; None: it is absent.
pub fn read(name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, String> {
    let Some(client) = CLIENT.get() else { return Err("no client is open".to_owned()) };
    let mut bytes = vec![0; bytes_max];
    match client.read_tail(name, &mut bytes) {
        Err(error) if error.kind == Kind::Absent => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(tail) if tail.size > bytes_max as u64 => {
            Err(format!("{} bytes are more than {bytes_max}", tail.size))
        }
        Ok(tail) => {
            bytes.truncate(tail.got as usize);
            Ok(Some(bytes))
        }
    }
}

/// The names of folders in a folder.
pub fn children(name: &str) -> Result<Vec<String>, String> {
    let Some(client) = CLIENT.get() else { return Err("no client is open".to_owned()) };
    match client.list(name) {
        Err(error) if error.kind == Kind::Absent => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
        Ok(children) => {
            let folders = children.into_iter().filter(|(_, is_folder)| *is_folder);
            Ok(folders.map(|(name, _)| name).collect())
        }
    }
}
