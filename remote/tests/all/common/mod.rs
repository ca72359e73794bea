//! Helpers that tests share.
#![allow(dead_code)]

pub mod python;
pub mod server;

use server::Server;
use std::process::Command;
use std::time::Duration;
use wavetrain_remote::{Callbacks, Client, Config};

/// Settings whose waits are short.
pub fn quick() -> Config {
    Config {
        retries_max: 4,
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(20),
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(1),
        total_timeout: Duration::from_secs(10),
        ..Config::default()
    }
}

pub fn open(config: Config) -> Client {
    Client::open(config, Callbacks::default()).unwrap()
}

/// Bytes that differ at each place.
pub fn painted(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(next).collect()
}

pub fn read(
    client: &Client,
    name: &str,
    offset: u64,
    bytes: usize,
) -> wavetrain_remote::Result<Vec<u8>> {
    let mut target = vec![0xA5; bytes];
    client.read(name, offset, &mut target)?;
    Ok(target)
}

/// The text of what had to fail.
pub fn text<T: std::fmt::Debug>(result: wavetrain_remote::Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// Makes a server answer as the metadata of a machine with a role, whose key is AKIDOFTHEROLE; the
/// option of a client that asks it.
pub fn keys_of_a_machine(server: &Server) -> (String, String) {
    let folder = "/latest/meta-data/iam/security-credentials/";
    let keys = r#"{"AccessKeyId": "AKIDOFTHEROLE", "SecretAccessKey": "s", "Token": "t",
        "Expiration": "2999-01-01T00:00:00Z", "Code": "Success", "Type": "AWS-HMAC",
        "LastUpdated": "2026-01-01T00:00:00Z"}"#;
    server.put("/latest/api/token", b"metadata-token", "");
    server.put(folder, b"role", "");
    server.put(&format!("{folder}role"), keys.as_bytes(), "");
    ("aws_metadata_endpoint".to_owned(), server.url(""))
}

/// Runs a test of a module again, in a process with these variables; true in that process.
pub fn alone(module: &str, test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os("WAVETRAIN_REMOTE_ALONE").is_some() {
        return true;
    }
    let module = module.split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture"]);
    command.env("WAVETRAIN_REMOTE_ALONE", "1").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    false
}
