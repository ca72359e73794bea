//! Listings of a server that answers every request with the same bytes. For the fuzz target and its
//! replay, not in a build.

use crate::config::Config;
use crate::error::Secrets;
use crate::fetch::Fetch;
use crate::gate::Gate;
use crate::name::{Name, Place, Scheme, StoreName};
use crate::stats::Stats;
use crate::stores::{Store, Stores};
use crate::transport::Wire;
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::{ClientOptions, ObjectStore, Result};
use std::sync::Arc;
use std::time::Duration;

/// A server without a wire.
#[derive(Clone, Debug)]
struct Canned {
    status: u16,
    body: Bytes,
}

#[async_trait::async_trait]
impl HttpService for Canned {
    async fn call(&self, _: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let mut response = HttpResponse::new(self.body.clone().into());
        *response.status_mut() = http::StatusCode::from_u16(self.status).unwrap_or_default();
        Ok(response)
    }
}

impl HttpConnector for Canned {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        let (stats, query) = (Arc::new(Stats::default()), String::new());
        let client = HttpClient::new(self.clone());
        Ok(HttpClient::new(Wire { client, stats, query, idle_timeout: Duration::from_secs(1) }))
    }
}

/// A folder of each kind of store.
const FOLDERS: [&str; 4] = ["s3://b/a", "gs://b/a", "az://b/a", "http://h/a"];

/// Nobody's account, so that no file is looked for.
const GOOGLE: &str = r#"{"private_key": "", "private_key_id": "", "client_email": "",
    "disable_oauth": true}"#;

fn store_of(name: &StoreName, server: Canned) -> Result<Store> {
    let root = &name.root;
    match name.scheme {
        Scheme::S3 => {
            let s3 = AmazonS3Builder::new().with_url(root).with_region("x");
            let s3 = s3.with_skip_signature(true).with_http_connector(server);
            Ok(paged(name, s3.build()?))
        }
        Scheme::Gs => {
            let gs = GoogleCloudStorageBuilder::new().with_url(root);
            let gs = gs.with_service_account_key(GOOGLE).with_http_connector(server);
            Ok(paged(name, gs.build()?))
        }
        Scheme::Azure => {
            let azure = MicrosoftAzureBuilder::new().with_url(root).with_account("me");
            let azure = azure.with_skip_signature(true).with_http_connector(server);
            Ok(paged(name, azure.build()?))
        }
        Scheme::Http => {
            let options = ClientOptions::new().with_allow_http(true);
            let http = HttpBuilder::new().with_url(root).with_client_options(options);
            let http = http.with_http_connector(server).build()?;
            Ok(Store::new(name.scheme, Arc::new(http), None))
        }
    }
}

fn paged<T: ObjectStore + PaginatedListStore>(name: &StoreName, store: T) -> Store {
    let store = Arc::new(store);
    Store::new(name.scheme, store.clone(), Some(store))
}

/// Lists a folder of a server that answers with the bytes after the first, which chooses the kind of
/// store and the status. Asserts what callers trust.
pub fn list_hostile(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let folder = FOLDERS[usize::from(choice % 4)];
    let Ok(name) = Name::parse(folder) else { unreachable!() };
    let Place::Object(root, _) = &name.place else { unreachable!() };
    let status = match (choice / 128, root.scheme) {
        (0, Scheme::Http) => 207,
        (0, _) => 200,
        _ => 403,
    };
    let server = Canned { status, body: Bytes::copy_from_slice(body) };
    let config = Config { retries_max: 0, cache_bytes: 1 << 20, ..Config::default() };
    let (secrets, stats) = (Secrets::default(), Arc::new(Stats::default()));
    let Ok(stores) = Stores::new(&config, secrets.clone(), stats.clone()) else { unreachable!() };
    let Ok(store) = store_of(root, server) else { unreachable!() };
    stores.put(root.clone(), store);
    let gate = Gate::new(config.reads_max);
    let fetch = Fetch { config, secrets, stats, gate, stores };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { unreachable!() };
    match runtime.block_on(async { fetch.list(&fetch.object(&name)?).await }) {
        Ok(children) => {
            for (child, _) in children {
                assert!(!matches!(&*child, "" | "." | "..") && !child.contains('/'), "{child:?}");
            }
        }
        Err(error) => assert!(error.to_string().starts_with(folder), "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S3: &str = "<ListBucketResult><Contents><Key>a/one</Key><Size>1</Size>\
        <LastModified>2026-11-30T17:48:25Z</LastModified><ETag>x</ETag></Contents>\
        <CommonPrefixes><Prefix>a/two/</Prefix></CommonPrefixes></ListBucketResult>";

    #[test]
    fn listings_with_a_changed_byte_keep_the_promises_of_the_fuzz_target() {
        let web = include_str!("../tests/data/wsgidav_folder.xml").replace("/folder/", "/a/");
        for (choice, text) in [(0, S3), (1, S3), (2, S3), (3, &*web)] {
            let mut data = vec![choice];
            data.extend_from_slice(text.as_bytes());
            for at in 1..data.len() {
                data[at] ^= 0x20;
                list_hostile(&data);
                data[at] ^= 0x20;
            }
        }
    }
}
