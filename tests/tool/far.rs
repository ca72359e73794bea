//! Stores far away: what a tool without the feature `remote` refuses, and what one with it reads.
//!
//!     cargo test --features cli,remote --test tool far::
//!
//! Servers are those of tests/python/far_servers.py: WAVETRAIN_PYTHON names a Python with moto.

use crate::common::fixtures::Scratch;
use std::process::{Command, Output};

#[cfg(not(feature = "remote"))]
fn tool(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wavetrain")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_tool_without_the_feature_names_it() {
    for uri in ["s3://bucket/a.zarr", "https://host/a.zarr", "gs://bucket/a", "az://box/a"] {
        let output = tool(&["inspect", uri]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("--features cli,remote"), "{error}");
    }
    let output = tool(&["inspect", "--region", "x", "s3://bucket/a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("feature remote"), "{output:?}");
    let scratch = Scratch::new();
    let archive = scratch.uri("a.zip");
    std::fs::write(&archive, b"PK\x03\x04 and so on").unwrap();
    let output = tool(&["inspect", &archive]);
    assert!(text(&output.stderr).contains("feature remote"), "{output:?}");
}

#[cfg(feature = "remote")]
mod with_the_feature {
    use super::*;
    use crate::common::fixtures::{copy_folder, group_uri, store};
    use serde_json::Value;
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Stdio};

    /// Servers of a folder, until they are dropped.
    struct Servers {
        process: Child,
        s3: Option<String>,
        http: String,
        folder: PathBuf,
        _scratch: Scratch,
    }

    impl Servers {
        /// Nothing where there is no Python.
        fn start() -> Option<Servers> {
            let scratch = Scratch::new();
            let folder = scratch.path("far");
            copy_folder(Path::new(&store("sparse_u16_42_some_shard").uri), &folder.join("a.zarr"));
            copy_folder(Path::new(&group_uri("ome_zarr_0.5")), &folder.join("image.zarr"));
            let python = std::env::var("WAVETRAIN_PYTHON").unwrap_or("python3".to_owned());
            let root = env!("CARGO_MANIFEST_DIR");
            let zip = "import shutil,sys; shutil.make_archive(sys.argv[1]+'/p','zip',sys.argv[1])";
            let zipped = Command::new(&python).args(["-c", zip]).arg(&folder).status();
            if !zipped.is_ok_and(|status| status.success()) {
                println!("skipped: there is no {python}");
                return None;
            }
            let mut process = Command::new(&python)
                .arg(format!("{root}/tests/python/far_servers.py"))
                .arg(&folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let places: Value = serde_json::from_str(&line).unwrap();
            let s3 = places["s3"].as_str().map(str::to_owned);
            if s3.is_none() {
                println!("skipped: s3, because {python} has no moto[server]");
            }
            let http = places["http"].as_str().unwrap().to_owned();
            Some(Servers { process, s3, http, folder, _scratch: scratch })
        }

        /// The tool, with the keys of moto in its environment.
        fn tool(&self, arguments: &[&str]) -> Output {
            let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
            command.env("AWS_ACCESS_KEY_ID", "test-key-id");
            command.env("AWS_SECRET_ACCESS_KEY", "test-secret-key");
            command.env("AWS_REGION", "us-east-1");
            command.args(arguments);
            if let Some(endpoint) = &self.s3 {
                command.args(["--endpoint", endpoint]);
            }
            command.output().unwrap()
        }

        fn local(&self, name: &str) -> String {
            self.folder.join(name).to_str().unwrap().to_owned()
        }

        /// The places that stand for the same folder.
        fn places(&self) -> Vec<String> {
            let mut places = vec![self.http.clone(), self.local("p.zip")];
            places.push(format!("zip:{}/p.zip", self.http));
            if self.s3.is_some() {
                places.extend(["s3://bucket".to_owned(), "s3://bucket/p.zip".to_owned()]);
            }
            places
        }
    }

    impl Drop for Servers {
        fn drop(&mut self) {
            drop(self.process.stdin.take());
            let _ = self.process.wait();
        }
    }

    fn value(output: &Output) -> Value {
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    fn arrays_far_away_are_those_on_disk() {
        let Some(servers) = Servers::start() else { return };
        let local = value(&servers.tool(&["inspect", "--json", &servers.local("a.zarr")]));
        let checked = value(&servers.tool(&["check", "--json", &servers.local("a.zarr")]));
        for place in servers.places() {
            let uri = format!("{place}/a.zarr");
            let mut found = value(&servers.tool(&["inspect", "--json", &uri]));
            found["uri"] = local["uri"].clone();
            assert_eq!(found, local, "{uri}");
            let found = value(&servers.tool(&["check", "--json", &uri]));
            for name in ["chunks", "sound", "missing", "bad", "bytes"] {
                assert_eq!(found[name], checked[name], "{uri}");
            }
        }
    }

    #[test]
    fn a_bench_of_arrays_far_away_has_the_checksums_of_those_on_disk() {
        let Some(servers) = Servers::start() else { return };
        let shape = value(&servers.tool(&["inspect", "--json", &servers.local("a.zarr")]));
        let ends = shape["shape"].as_array().unwrap().iter();
        let extents = ends.map(|end| format!("[0,{}]", end.as_u64().unwrap().min(4)));
        let extents = extents.collect::<Vec<_>>().join(",");
        let crcs = |uri: &str| {
            let list = servers.local("requests.jsonl");
            std::fs::write(&list, format!("{{\"uri\":\"{uri}\",\"box\":[{extents}]}}\n")).unwrap();
            value(&servers.tool(&["bench", "--requests", &list, "--verify", "--json"]))["crcs"]
                .clone()
        };
        let want = crcs(&servers.local("a.zarr"));
        for place in servers.places() {
            assert_eq!(crcs(&format!("{place}/a.zarr")), want, "{place}");
        }
    }

    #[test]
    fn groups_are_listed_where_a_store_lists_and_else_by_their_metadata() {
        let Some(servers) = Servers::start() else { return };
        let inspect = |uri: &str| {
            let output = servers.tool(&["inspect", uri]);
            text(&output.stdout).replace(uri, "image.zarr")
        };
        let want = inspect(&servers.local("image.zarr"));
        for place in servers.places() {
            let found = inspect(&format!("{place}/image.zarr"));
            let end = if place.starts_with("http") { found.len() } else { want.len() };
            assert!(found.contains("OME-NGFF 0.5"), "{found}");
            assert!(place.starts_with("http") || found == want, "{place}\n{found}\n{end}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_the_reason() {
        let Some(servers) = Servers::start() else { return };
        let output = servers.tool(&["inspect", &format!("{}/none.zarr", servers.http)]);
        assert!(text(&output.stderr).contains("NOT_FOUND"), "{output:?}");
        let output = servers.tool(&["inspect", "http://127.0.0.1:9/a.zarr"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("127.0.0.1:9") && !error.contains("the files hook"), "{error}");
        let output =
            servers.tool(&["inspect", "s3://bucket/a", "--store-option", "colour=crimson"]);
        let error = text(&output.stderr);
        assert!(error.contains("colour") && !error.contains("crimson"), "{error}");
    }
}
