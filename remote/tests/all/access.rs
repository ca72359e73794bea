//! Credentials, endpoints, certificates and proxies.

use crate::common::python::{has_module, serve};
use crate::common::server::Server;
use crate::common::{alone, keys_of_a_machine, open, painted, quick, read, text};
use std::path::Path;
use std::process::Command;
use wavetrain_remote::Config;

/// A config of S3 whose endpoint is a plain server.
fn config_of(server: &Server) -> Config {
    Config {
        endpoint: Some(server.url("")),
        region: Some("eu-central-1".into()),
        allow_http: true,
        ..quick()
    }
}

fn server_with_bucket() -> Server {
    let server = Server::start();
    server.put("/bucket/a", &painted(100), "\"v\"");
    server
}

#[test]
fn keys_of_the_environment_sign_requests() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDFROMENVIRONMENT"),
        ("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment"),
        ("AWS_SESSION_TOKEN", "token-of-the-environment"),
    ];
    if !alone(module_path!(), "keys_of_the_environment_sign_requests", &variables) {
        return;
    }
    let server = server_with_bucket();
    let client = open(config_of(&server));
    assert_eq!(client.size("s3://bucket/a").unwrap(), 100);
    let request = &server.requests()[0];
    assert!(request.contains("Credential=AKIDFROMENVIRONMENT/"), "{request}");
    assert!(request.contains("eu-central-1/s3"), "{request}");
    assert!(request.contains("token-of-the-environment"), "{request}");
    server.fail(&[crate::common::server::Fault::Status(403, "")]);
    let error = text(client.size("s3://bucket/a"));
    assert!(!error.contains("-of-the-environment"), "{error}");
}

#[test]
fn the_environment_may_give_endpoint_and_http() {
    let Some(server) =
        std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_none().then(server_with_bucket)
    else {
        let client = open(Config { anonymous: true, ..quick() });
        assert_eq!(client.size("s3://bucket/a").unwrap(), 100);
        return;
    };
    let endpoint = server.url("");
    let variables =
        [("AWS_ENDPOINT_URL", &*endpoint), ("AWS_ALLOW_HTTP", "true"), ("AWS_REGION", "x")];
    alone(module_path!(), "the_environment_may_give_endpoint_and_http", &variables);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_instance_gives_keys_by_its_metadata() {
    let server = server_with_bucket();
    let option = keys_of_a_machine(&server);
    let client = open(Config { options: vec![option], ..config_of(&server) });
    for _ in 0..2 {
        assert_eq!(client.size("s3://bucket/a").unwrap(), 100);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 5, "the keys are asked for once: {requests:?}");
    assert!(requests[4].contains("Credential=AKIDOFTHEROLE/"), "{requests:?}");
    assert_eq!(client.view().requests, 5);
}

#[test]
fn anonymous_requests_are_not_signed() {
    let server = server_with_bucket();
    let client = open(Config { anonymous: true, ..config_of(&server) });
    assert_eq!(client.size("s3://bucket/a").unwrap(), 100);
    let request = server.requests()[0].to_lowercase();
    assert!(!request.contains("authorization"), "{request}");
}

#[test]
fn an_http_endpoint_has_to_be_allowed() {
    let server = server_with_bucket();
    let config = Config { anonymous: true, allow_http: false, ..config_of(&server) };
    let error = text(open(config).size("s3://bucket/a"));
    assert!(error.contains("s3://bucket"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_proxy_gets_the_requests() {
    let proxy = Server::start();
    proxy.put("http://far.invalid/a", &painted(100), "\"v\"");
    let address = proxy.address.clone();
    let proxy_url = Some(format!("http://me:proxy-password@{address}"));
    let client = open(Config { proxy_url, ..quick() });
    assert_eq!(client.size("http://far.invalid/a").unwrap(), 100);
    let request = &proxy.requests()[0];
    assert!(request.to_lowercase().contains("proxy-authorization: basic"), "{request}");
    drop(proxy);
    let proxy_url = Some("http://me:proxy-password@127.0.0.1:1".to_owned());
    let error = text(open(Config { proxy_url, ..quick() }).size("http://far.invalid/a"));
    assert!(!error.contains("proxy-password"), "{error}");
}

#[test]
fn a_certificate_of_ones_own_is_trusted_if_it_is_named() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("https");
    std::fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"])
        .args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|made| made.status.success()) || !has_module("ssl") {
        println!("skipped: openssl cannot make a certificate");
        return;
    }
    let (mut server, port) = serve("https_server.py", &[&folder, &certificate, &key]);
    let url = format!("https://127.0.0.1:{port}/certificate.pem");
    let wanted = std::fs::read(&certificate).unwrap();
    let refused = text(open(Config { retries_max: 0, ..quick() }).size(&url));
    let ca_file = Some(certificate.to_str().unwrap().to_owned());
    let client = open(Config { ca_file, whole_files: true, ..quick() });
    let size = client.size(&url);
    let got = read(&client, &url, 0, wanted.len());
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
    assert_eq!(size.unwrap(), wanted.len() as u64);
    assert_eq!(got.unwrap(), wanted);
}
