//! Helpers that are written in Python: moto's server, and archives by zipfile.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The Python that tests use: WAVETRAIN_PYTHON, or python3.
pub fn python() -> String {
    std::env::var("WAVETRAIN_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// True if Python has a module; else the reason for a skipped test is printed.
pub fn has_module(module: &str) -> bool {
    let found = Command::new(python()).args(["-c", &format!("import {module}")]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        let python = python();
        println!("skipped: {python} has no module {module} (WAVETRAIN_PYTHON names another)");
    }
    is_there
}

/// Starts a script of tests/ that prints its port and ends with its standard input; the port.
pub fn serve<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> (Child, String) {
    let mut process = Command::new(python())
        .arg(format!("{}/tests/{script}", env!("CARGO_MANIFEST_DIR")))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (process, port.trim().to_owned())
}

/// moto's server, until it is dropped.
pub struct Moto {
    process: Child,
    pub endpoint: String,
}

impl Moto {
    /// None if Python has no moto.
    pub fn start() -> Option<Self> {
        if !has_module("moto.server") {
            return None;
        }
        let (process, port) = serve::<&str>("moto_server.py", &[]);
        let endpoint = format!("http://127.0.0.1:{port}");
        Some(Self { process, endpoint })
    }

    /// Settings of a client of it.
    pub fn config(&self) -> wavetrain_remote::Config {
        let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        wavetrain_remote::Config {
            endpoint: Some(self.endpoint.clone()),
            region: Some("us-east-1".into()),
            allow_http: true,
            options: vec![
                option("aws_access_key_id", "test"),
                option("aws_secret_access_key", "test-secret-key"),
            ],
            ..super::quick()
        }
    }

    /// Writes objects by another client.
    pub fn put(&self, objects: &[(&str, &[u8])]) {
        use object_store::{ObjectStoreExt, aws::AmazonS3Builder, path::Path};
        let store = AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name("bucket")
            .with_access_key_id("test")
            .with_secret_access_key("test-secret-key")
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (key, bytes) in objects {
            let path = Path::parse(key).unwrap();
            runtime.block_on(store.put(&path, bytes.to_vec().into())).unwrap();
        }
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
