//! Objects of Azure, as azurite serves them.

use crate::common::{open, painted, quick, read};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ObjectStoreExt, path::Path};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use wavetrain_remote::{Config, Kind};

/// The account and the key that azurite's documentation has.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

struct Azurite {
    process: Child,
    endpoint: String,
}

impl Azurite {
    /// Starts WAVETRAIN_AZURITE, or azurite-blob; None if both are missing.
    fn start() -> Option<Self> {
        let program = std::env::var("WAVETRAIN_AZURITE").unwrap_or("azurite-blob".into());
        let started = Command::new(&program)
            .args(["--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = started else {
            println!("skipped: {program} does not start (WAVETRAIN_AZURITE names azurite-blob)");
            return None;
        };
        // "Azurite Blob service successfully listens on http://127.0.0.1:PORT"
        let mut lines =
            BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.by_ref().find_map(|line| {
            line.contains("successfully listens")
                .then(|| line.split("http://").nth(1).unwrap().to_owned())
        });
        // It writes on, and ends where nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        let endpoint = format!("http://{}/{ACCOUNT}", address.unwrap().trim());
        Some(Self { process, endpoint })
    }

    fn options(&self) -> [(AzureConfigKey, &'static str, String); 3] {
        [
            (AzureConfigKey::AccountName, "azure_storage_account_name", ACCOUNT.to_owned()),
            (AzureConfigKey::AccessKey, "azure_storage_account_key", KEY.to_owned()),
            (AzureConfigKey::Endpoint, "azure_storage_endpoint", self.endpoint.clone()),
        ]
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a container by a request that is signed by Python's standard library.
const MAKE_CONTAINER: &str = r#"
import base64, email.utils, hashlib, hmac, sys, urllib.request
endpoint, account, key = sys.argv[1:4]
date = email.utils.formatdate(usegmt=True)
head = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
text = "PUT\n" + "\n" * 11 + head + f"/{account}/{account}/box\nrestype:container"
mark = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest())
request = urllib.request.Request(endpoint + "/box?restype=container", method="PUT", headers={
    "x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0",
    "Authorization": f"SharedKey {account}:{mark.decode()}"})
urllib.request.urlopen(request)
"#;

#[test]
fn azure_is_read_and_listed() {
    let Some(azurite) = Azurite::start() else { return };
    let made = Command::new(crate::common::python::python())
        .args(["-c", MAKE_CONTAINER, &azurite.endpoint, ACCOUNT, KEY])
        .status();
    assert!(made.unwrap().success());
    let data = painted(70_000);
    let mut builder = MicrosoftAzureBuilder::new().with_allow_http(true).with_container_name("box");
    for (key, _, value) in azurite.options() {
        builder = builder.with_config(key, value);
    }
    let store = builder.build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (path, bytes) in [("a.zarr/zarr.json", &b"{}"[..]), ("a.zarr/c/0", &data)] {
        runtime.block_on(store.put(&Path::from(path), bytes.to_vec().into())).unwrap();
    }
    let options = azurite.options().map(|(_, key, value)| (key.to_owned(), value)).into();
    let client = open(Config { allow_http: true, options, ..quick() });
    let name = "az://box/a.zarr/c/0";
    assert_eq!(client.size(name).unwrap(), 70_000);
    assert_eq!(read(&client, name, 5, 60_000).unwrap(), data[5..60_005]);
    let mut tail = [0; 100];
    let end = client.read_tail("abfs://box/a.zarr/c/0", &mut tail).unwrap();
    assert_eq!((end.got, end.size, &tail[..]), (100, 70_000, &data[69_900..]));
    assert_eq!(client.size("az://box/a.zarr/c/1").unwrap_err().kind, Kind::Absent);
    let mut children = client.list("az://box/a.zarr").unwrap();
    children.sort();
    assert_eq!(children, [("c".to_owned(), true), ("zarr.json".to_owned(), false)]);
    let next = painted(10);
    runtime.block_on(store.put(&Path::from("a.zarr/c/0"), next.into())).unwrap();
    assert_eq!(read(&client, name, 5, 1).unwrap_err().kind, Kind::Changed);
}
