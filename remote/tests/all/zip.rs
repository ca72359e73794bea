//! Zip archives that Python's zipfile wrote, on disk and behind a web server.

use crate::common::python::{has_module, python};
use crate::common::server::Server;
use crate::common::{open, painted, quick, read, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use wavetrain_remote::{Client, Config, Kind};

/// The folder with the archives; nothing where there is no Python.
fn archives() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        if !has_module("zipfile") {
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archives");
        std::fs::create_dir_all(&folder).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zip_files.py");
        assert!(Command::new(python()).arg(script).arg(&folder).status().unwrap().success());
        Some(folder)
    });
    made.as_deref()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(archives().unwrap().join(name)).unwrap()
}

/// The names that an archive has on disk and on a server.
fn places(server: &Server, archive: &str) -> [String; 3] {
    server.put(&format!("/{archive}"), &file(archive), "\"v\"");
    let path = archives().unwrap().join(archive);
    let url = server.url(&format!("/{archive}"));
    [path.to_str().unwrap().to_owned(), format!("zip:{url}"), url]
}

fn whole(client: &Client, name: &str) -> Vec<u8> {
    let size = client.size(name).unwrap();
    read(client, name, 0, size as usize).unwrap()
}

#[test]
fn entries_are_read_stored_and_deflated() {
    if archives().is_none() {
        return;
    }
    let server = Server::start();
    for place in places(&server, "plain.zip") {
        let client = open(quick());
        assert_eq!(whole(&client, &format!("{place}/zarr.json")), b"{}");
        assert_eq!(whole(&client, &format!("{place}/c/0/0")), file("painted"));
        assert_eq!(whole(&client, &format!("{place}/c/0/1")), file("text"));
        assert_eq!(whole(&client, &format!("{place}/c/0/empty")), b"");
        assert_eq!(whole(&client, &format!("{place}/c/0/empty_deflated")), b"");
        assert_eq!(whole(&client, &format!("{place}/unicode/\u{e4}\u{4e2d}")), b"u");
        let part = read(&client, &format!("{place}/c/0/0"), 100_000, 7).unwrap();
        assert_eq!(part, file("painted")[100_000..100_007]);
        let part = read(&client, &format!("{place}/c/0/1"), 30, 29).unwrap();
        assert_eq!(part, file("text")[..29]);
        let mut tail = [0; 9];
        let end = client.read_tail(&format!("{place}/c/0/1"), &mut tail).unwrap();
        assert_eq!((end.got, end.size), (9, 90_000));
        assert_eq!(&tail, b"nd again\n");
        let mut part = [0; 4];
        client.read_version(&format!("{place}/c/0/0"), end.version, 8, &mut part).unwrap();
        assert_eq!(part, file("painted")[8..12]);
        for absent in ["c/0/2", "folder", "c", ""] {
            let error = client.size(&format!("{place}/{absent}")).unwrap_err();
            assert_eq!(error.kind, Kind::Absent, "{absent}");
        }
        assert_eq!(client.view().inflated, 2, "each of the two deflated ones once");
    }
}

#[test]
fn an_entry_beyond_its_end_is_a_failure() {
    let Some(folder) = archives() else { return };
    let client = open(quick());
    let name = format!("{}/plain.zip/c/0/0", folder.display());
    for (offset, bytes) in [(200_000, 1), (0, 200_001), (u64::MAX, 1)] {
        assert_eq!(
            wavetrain_remote::code_of(&read(&client, &name, offset, bytes).unwrap_err()),
            -2
        );
    }
}

#[test]
fn folders_of_an_archive_are_listed() {
    let Some(folder) = archives() else { return };
    let client = open(quick());
    let place = format!("{}/plain.zip", folder.display());
    let owned = |list: &[(&str, bool)]| {
        list.iter().map(|(name, is_folder)| ((*name).to_owned(), *is_folder)).collect::<Vec<_>>()
    };
    let root = owned(&[("c", true), ("unicode", true), ("zarr.json", false)]);
    assert_eq!(client.list(&place).unwrap(), root);
    assert_eq!(client.list(&format!("zip:{place}/")).unwrap(), root);
    assert_eq!(client.list(&format!("{place}/c")).unwrap(), owned(&[("0", true)]));
    let files = owned(&[("0", false), ("1", false), ("empty", false), ("empty_deflated", false)]);
    assert_eq!(client.list(&format!("{place}/c/0")).unwrap(), files);
    assert_eq!(client.list(&format!("{place}/none")).unwrap_err().kind, Kind::Absent);
    let mut files = client.list(&format!("{}/folder.zip", folder.display())).unwrap();
    files.sort();
    assert_eq!(files, owned(&[("zarr.json", false)]));
}

#[test]
fn zip64_is_read() {
    if archives().is_none() {
        return;
    }
    let server = Server::start();
    for place in places(&server, "zip64.zip") {
        let client = open(quick());
        assert_eq!(whole(&client, &format!("{place}/big/0")), file("painted"));
        assert_eq!(whole(&client, &format!("{place}/big/1")), file("painted"));
    }
    for place in places(&server, "many.zip") {
        let client = open(quick());
        for number in [0, 1, 65_535, 65_999] {
            assert_eq!(
                whole(&client, &format!("{place}/c/{number}")),
                number.to_string().as_bytes()
            );
        }
        assert_eq!(client.list(&format!("{place}/c")).unwrap().len(), 66_000);
    }
}

#[test]
fn the_last_entry_of_a_name_counts_also_behind_a_prefix() {
    if archives().is_none() {
        return;
    }
    let server = Server::start();
    for archive in ["twice.zip", "prefixed.zip"] {
        for place in places(&server, archive) {
            let client = open(quick());
            assert_eq!(whole(&client, &format!("{place}/a")), b"second, which counts");
            assert_eq!(whole(&client, &format!("{place}/b")), b"other");
        }
    }
}

#[test]
fn what_cannot_be_read_is_a_failure_by_name() {
    let Some(folder) = archives() else { return };
    let client = open(quick());
    let fails = |name: &str, wanted: &str| {
        let name = format!("{}/{name}", folder.display());
        let size = client.size(&name).unwrap_or(1);
        let error = text(read(&client, &name, 0, size as usize));
        assert!(error.contains(wanted), "{name}: {error}");
        assert!(error.contains(folder.to_str().unwrap()), "{error}");
    };
    fails("encrypted.zip/zarr.json", "encrypted");
    fails("lzma.zip/a", "compression method 14");
    fails("flipped.zip/c/0/0", "CRC-32");
    fails("crc.zip/c/0/1", "CRC-32");
    fails("overlap.zip/zarr.json", "reaches into");
    fails("broken.zip/a", "no zip archive");
    fails("empty.zip/a", "no zip archive");
    fails("none.zip/a", "no such object");
    let small = open(Config { max_entry_bytes: 89_999, ..quick() });
    let name = format!("{}/plain.zip/c/0/1", folder.display());
    assert!(text(read(&small, &name, 0, 1)).contains("max_entry_bytes = 89999"));
}

#[test]
fn a_folder_of_that_name_is_a_folder() {
    let Some(folder) = archives() else { return };
    let client = open(quick());
    let name = format!("{}/folder.zip/zarr.json", folder.display());
    assert_eq!(whole(&client, &name), b"in a folder");
}

#[test]
fn an_archive_costs_few_requests() {
    if archives().is_none() {
        return;
    }
    let server = Server::start();
    let [_, place, _] = places(&server, "plain.zip");
    let client = open(quick());
    client.size(&format!("{place}/c/0/0")).unwrap();
    assert_eq!(server.requests().len(), 2, "its size and its end");
    for _ in 0..3 {
        read(&client, &format!("{place}/c/0/1"), 0, 90_000).unwrap();
    }
    assert_eq!(server.requests().len(), 4, "the header and all of a deflated entry, once");
    read(&client, &format!("{place}/c/0/0"), 0, 5000).unwrap();
    assert_eq!(server.requests().len(), 5, "header and data at once");
    read(&client, &format!("{place}/c/0/0"), 150_000, 5000).unwrap();
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn a_changed_archive_fails_until_a_size_is_asked_for() {
    if archives().is_none() {
        return;
    }
    let server = Server::start();
    let [_, place, _] = places(&server, "plain.zip");
    let name = format!("{place}/c/0/0");
    let client = open(quick());
    client.size(&name).unwrap();
    server.put("/plain.zip", &file("twice.zip"), "\"w\"");
    for _ in 0..2 {
        assert_eq!(read(&client, &name, 0, 10).unwrap_err().kind, Kind::Changed);
    }
    assert_eq!(client.size(&name).unwrap_err().kind, Kind::Absent);
    assert_eq!(whole(&client, &format!("{place}/b")), b"other");
}

#[test]
fn the_cache_is_bounded() {
    let Some(folder) = archives() else { return };
    let client = open(Config { cache_bytes: 100_000, ..quick() });
    let name = format!("{}/plain.zip/c/0/1", folder.display());
    assert_eq!(whole(&client, &name), file("text"));
    assert!(client.view().cached_bytes <= 100_000);
    let tiny = open(Config { cache_bytes: 1000, ..quick() });
    assert_eq!(whole(&tiny, &name), file("text"));
    assert!(tiny.view().cached_bytes <= 1000);
    assert!(
        text(tiny.list(&format!("{}/many.zip", folder.display()))).contains("cache_bytes = 1000")
    );
}

#[test]
fn broken_directories_never_panic() {
    let Some(folder) = archives() else { return };
    let honest = file("twice.zip");
    let path = folder.join("hostile.zip");
    let name = format!("{}/a", path.display());
    let client = open(quick());
    let chance = painted(4000);
    for round in 0..600 {
        let mut data = honest.clone();
        for pair in chance[round * 6..round * 6 + 6].chunks(2) {
            let at = (usize::from(pair[0]) * 7 + round) % data.len();
            data[at] = pair[1];
        }
        data.truncate(data.len() - usize::from(round % 7 == 0) * (round % data.len()));
        std::fs::write(&path, &data).unwrap();
        let read =
            client.size(&name).and_then(|size| read(&client, &name, 0, size.min(1 << 20) as usize));
        if let Err(error) = read {
            assert!(!error.to_string().contains("defect"), "round {round}: {error}");
        }
    }
}
