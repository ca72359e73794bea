//! Objects of a web server, and its faults.

use crate::common::server::{Fault, Server};
use crate::common::{open, painted, quick, read, text};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wavetrain_remote::{Config, Kind};

fn served(bytes: usize) -> (Server, String, Vec<u8>) {
    let server = Server::start();
    let data = painted(bytes);
    server.put("/a", &data, "\"one\"");
    let url = server.url("/a");
    (server, url, data)
}

#[test]
fn a_size_and_ranges_are_those_of_the_object() {
    let (server, url, data) = served(100_000);
    let client = open(quick());
    assert_eq!(client.size(&url).unwrap(), 100_000);
    for (offset, bytes) in [(0, 100_000), (0, 1), (99_999, 1), (777, 4096)] {
        let got = read(&client, &url, offset, bytes).unwrap();
        assert_eq!(got, data[offset as usize..offset as usize + bytes]);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 5, "one request for each call");
    assert!(requests[1].to_lowercase().contains("if-match: \"one\""), "{}", requests[1]);
}

#[test]
fn odd_characters_of_a_path_are_encoded_once() {
    let server = Server::start();
    server.put("/a b/\u{e4}+[1].zarr/c", b"odd", "\"v\"");
    let client = open(quick());
    let url = server.url("/a%20b/%C3%A4+%5B1%5D.zarr/c");
    assert_eq!(client.size(&url).unwrap(), 3);
    assert_eq!(read(&client, &url, 0, 3).unwrap(), b"odd");
}

#[test]
fn a_server_that_refuses_head_is_asked_by_a_range() {
    let (server, url, _) = served(1000);
    let client = open(quick());
    for status in [405, 501] {
        server.fail(&[Fault::Status(status, "")]);
        assert_eq!(client.size(&url).unwrap(), 1000);
    }
    assert_eq!(client.view().retries, 0);
    server.fail(&[Fault::Status(405, ""), Fault::Status(405, "")]);
    assert!(text(client.size(&url)).contains("405"));
}

#[test]
fn absent_is_told_from_failed() {
    let (server, url, _) = served(10);
    let client = open(quick());
    assert_eq!(client.size(&server.url("/b")).unwrap_err().kind, Kind::Absent);
    assert_eq!(read(&client, &server.url("/b"), 0, 1).unwrap_err().kind, Kind::Absent);
    for status in [400, 401, 403, 410] {
        server.fail(&[Fault::Status(status, "")]);
        let error = client.size(&url).unwrap_err();
        assert_eq!(error.kind, Kind::Failed, "{status}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
    }
    server.fail(&[Fault::Status(403, "")]);
    assert!(text(client.size(&url)).contains("absent = \"404,403\""));
}

const DENIED: Fault = Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>");
const BAD_KEY: Fault = Fault::Answer(403, "<Error><Code>InvalidAccessKeyId</Code></Error>");

#[test]
fn what_is_denied_is_absent_if_the_config_says_so_and_is_counted() {
    let (server, url, _) = served(10);
    let client = open(Config { absent: vec![404, 403], ..quick() });
    server.fail(&[DENIED]);
    let error = read(&client, &url, 0, 1).unwrap_err();
    assert!(error.kind == Kind::Absent && error.is_denied, "{error}");
    assert!(client.last_error().contains("403 (AccessDenied)"), "{}", client.last_error());
    // HEAD has no code: the object is asked for a byte.
    server.fail(&[DENIED, DENIED]);
    assert!(client.size(&url).unwrap_err().is_denied);
    let error = client.size(&server.url("/b")).unwrap_err();
    assert!(error.kind == Kind::Absent && !error.is_denied, "{error}");
    let view = client.view();
    assert_eq!((view.absent, view.denied, view.failed), (3, 2, 0));
}

#[test]
fn keys_that_are_wrong_are_a_failure_whatever_is_absent() {
    let (server, url, _) = served(10);
    let client = open(Config { absent: vec![404, 403], ..quick() });
    server.fail(&[BAD_KEY, DENIED, BAD_KEY]);
    let errors = [read(&client, &url, 0, 1).unwrap_err(), client.size(&url).unwrap_err()];
    for error in errors {
        assert_eq!(error.kind, Kind::Failed);
        assert!(error.to_string().contains("403 (InvalidAccessKeyId)"), "{error}");
    }
    assert_eq!(client.view().absent, 0);
}

#[test]
fn faults_of_a_moment_are_tried_again() {
    let faults = [
        Fault::Status(429, "Retry-After: 0\r\n"),
        Fault::Status(500, ""),
        Fault::Status(503, ""),
        Fault::Status(408, ""),
        Fault::Reset,
        Fault::Truncated(0),
        Fault::Truncated(1000),
        Fault::Late(Duration::from_millis(50)),
    ];
    for fault in faults {
        let (server, url, data) = served(5000);
        let client = open(quick());
        assert_eq!(client.size(&url).unwrap(), 5000);
        server.fail(std::slice::from_ref(&fault));
        assert_eq!(read(&client, &url, 10, 4000).unwrap(), data[10..4010], "{fault:?}");
        let retries = u64::from(!matches!(fault, Fault::Late(_)));
        assert_eq!(client.view().retries, retries, "{fault:?}");
    }
}

#[test]
fn a_body_that_breaks_off_is_continued() {
    let (server, url, data) = served(50_000);
    let client = open(quick());
    client.size(&url).unwrap();
    server.fail(&[Fault::Truncated(20_000), Fault::Truncated(10_000)]);
    assert_eq!(read(&client, &url, 0, 50_000).unwrap(), data);
    let received = client.view().bytes_received;
    assert_eq!(received, 50_000, "no byte is asked for twice");
}

#[test]
fn a_body_without_a_version_begins_anew() {
    let server = Server::start();
    let data = painted(9000);
    server.put("/a", &data, "");
    let client = open(quick());
    server.fail(&[Fault::Truncated(4000)]);
    assert_eq!(read(&client, &server.url("/a"), 0, 9000).unwrap(), data);
    assert_eq!(client.view().bytes_received, 13_000);
}

#[test]
fn faults_that_stay_end_with_the_object_and_the_reason() {
    let (server, url, _) = served(100);
    let client = open(Config { retries_max: 2, ..quick() });
    server.fail(&vec![Fault::Status(503, ""); 3]);
    let error = text(read(&client, &url, 0, 100));
    assert!(error.contains(&url) && error.contains("503") && error.contains("3 tries"), "{error}");
    server.fail(&vec![Fault::Reset; 3]);
    let error = text(read(&client, &url, 0, 100));
    assert!(error.contains(&url) && error.contains("no answer"), "{error}");
    let config = Config { total_timeout: Duration::from_millis(300), retries_max: 1000, ..quick() };
    let client = open(config);
    server.fail(&vec![Fault::Status(500, ""); 200]);
    let begin = Instant::now();
    let error = text(read(&client, &url, 0, 100));
    assert!(error.contains("total_timeout"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[test]
fn wrong_answers_are_never_data() {
    for fault in [Fault::WrongRange, Fault::Short] {
        let (server, url, data) = served(1000);
        let client = open(quick());
        server.fail(&vec![fault.clone(); 5]);
        let read = read(&client, &url, 100, 500);
        assert!(read.is_err(), "{fault:?} gave {:?}", read.map(|got| got == data[100..600]));
    }
}

#[test]
fn a_read_beyond_the_end_is_a_failure() {
    let (_server, url, _) = served(100);
    let client = open(quick());
    for (offset, bytes) in [(50, 51), (100, 1), (5000, 10), (u64::MAX, 2)] {
        let error = read(&client, &url, offset, bytes).unwrap_err();
        assert_eq!(wavetrain_remote::code_of(&error), -2, "{error}");
    }
}

#[test]
fn a_changed_object_fails_until_its_size_is_asked_for() {
    let (server, url, _) = served(1000);
    let client = open(quick());
    client.size(&url).unwrap();
    let next = painted(2000);
    server.put("/a", &next, "\"two\"");
    let count = server.requests().len();
    for _ in 0..3 {
        let error = read(&client, &url, 0, 1000).unwrap_err();
        assert_eq!(error.kind, Kind::Changed);
        assert!(error.to_string().contains(&url));
    }
    assert_eq!(server.requests().len(), count + 1, "what is known to be changed is not asked for");
    assert_eq!(client.size(&url).unwrap(), 2000);
    assert_eq!(read(&client, &url, 0, 2000).unwrap(), next);
    assert_eq!(client.view().changed, 3);
}

#[test]
fn an_object_that_changes_while_it_is_read_is_not_mixed() {
    let (server, url, data) = served(60_000);
    let pause = Duration::from_millis(500);
    let client = open(Config { backoff_min: pause, backoff_max: pause, ..quick() });
    let version = client.read_tail(&url, &mut [0; 1]).unwrap().version;
    server.fail(&[Fault::Truncated(30_000)]);
    let (started, target) = (server.requests().len(), &mut vec![0; 60_000]);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| client.read_version(&url, version, 0, target));
        while server.requests().len() == started {
            std::thread::yield_now();
        }
        server.put("/a", &data.iter().map(|byte| !byte).collect::<Vec<_>>(), "\"two\"");
        assert_eq!(read.join().unwrap().unwrap_err().kind, Kind::Changed);
    });
}

#[test]
fn a_tail_has_size_and_version_in_one_request() {
    let (server, url, data) = served(1000);
    let client = open(quick());
    let mut target = [0; 64];
    let tail = client.read_tail(&url, &mut target).unwrap();
    assert_eq!((tail.got, tail.size), (64, 1000));
    assert_eq!(target, data[936..]);
    assert_eq!(server.requests().len(), 1);
    let mut large = vec![0; 5000];
    assert_eq!(client.read_tail(&url, &mut large).unwrap().got, 1000);
    assert_eq!(large[..1000], data);
    let mut part = [0; 100];
    assert_eq!(client.read_version(&url, tail.version, 5, &mut part).unwrap(), tail.version);
    assert_eq!(part, data[5..105]);
    assert_eq!(client.read_version(&url, [0; 32], 5, &mut part).unwrap(), tail.version);
    let error = client.read_version(&url, [7; 32], 5, &mut part).unwrap_err();
    assert_eq!(error.kind, Kind::Changed);
    server.put("/empty", b"", "\"none\"");
    let tail = client.read_tail(&server.url("/empty"), &mut part).unwrap();
    assert_eq!((tail.got, tail.size), (0, 0));
}

#[test]
fn a_server_without_ranges_is_refused_or_read_whole() {
    let (server, url, data) = served(3000);
    server.ignores_ranges.store(true, Ordering::Relaxed);
    let client = open(quick());
    assert!(text(read(&client, &url, 5, 10)).contains("whole_files"));
    let client = open(Config { whole_files: true, ..quick() });
    assert_eq!(client.size(&url).unwrap(), 3000);
    assert_eq!(read(&client, &url, 5, 10).unwrap(), data[5..15]);
    let received = client.view().bytes_received;
    assert_eq!(read(&client, &url, 2000, 1000).unwrap(), data[2000..]);
    assert_eq!(client.view().bytes_received, received, "the second is from the cache");
    let mut tail = [0; 10];
    assert_eq!(client.read_tail(&url, &mut tail).unwrap().got, 10);
    assert_eq!(tail, data[2990..]);
    let client = open(Config { whole_files: true, max_entry_bytes: 2999, ..quick() });
    assert!(text(read(&client, &url, 5, 10)).contains("max_entry_bytes = 2999"));
}

#[test]
fn the_query_goes_with_each_request_and_is_never_shown() {
    let (server, _, data) = served(100);
    let url = server.url("?sig=a%2Fhidden&t=1/a");
    let client = open(quick());
    assert_eq!(client.size(&url).unwrap(), 100);
    assert_eq!(read(&client, &url, 0, 100).unwrap(), data);
    for request in server.requests() {
        assert!(request.contains(" /a?sig=a%2Fhidden&t=1 "), "{request}");
    }
    server.fail(&[Fault::Status(403, "")]);
    let first = text(client.size(&url));
    server.fail(&vec![Fault::Reset; 9]);
    let second = text(client.size(&url));
    for error in [first, second, client.last_error()] {
        assert!(!error.contains("hidden") && error.contains("/a"), "{error}");
    }
}

#[test]
fn the_user_of_an_address_is_a_header_and_is_never_shown() {
    let (server, _, data) = served(100);
    let url = format!("http://me:pa%20ss-word@{}/a", server.address);
    let client = open(quick());
    assert_eq!(client.size(&url).unwrap(), 100);
    assert_eq!(read(&client, &url, 0, 100).unwrap(), data);
    for request in server.requests() {
        assert!(request.contains("Basic bWU6cGEgc3Mtd29yZA=="), "{request}");
    }
    server.fail(&[Fault::Status(401, "")]);
    let error = text(client.size(&url));
    assert!(!error.contains("pa%20ss") && !error.contains("me:"), "{error}");
}

/// The answer of wsgidav 4.4.0 to PROPFIND with depth 1, of a folder with a file and a folder.
const FOLDER: &str = include_str!("../data/wsgidav_folder.xml");

#[test]
fn a_web_server_without_webdav_is_not_listed() {
    let (server, _, _) = served(1);
    let client = open(quick());
    for status in [400, 403, 404, 405, 501, 200] {
        let body = if status == 200 { "<html></html>" } else { "" };
        server.fail(&[Fault::Answer(status, body)]);
        let error = client.list(&server.url("/folder")).unwrap_err();
        assert_eq!(error.kind, Kind::Unlisted, "{status}: {error}");
        assert!(error.to_string().contains("WebDAV"), "{error}");
    }
    assert_eq!(server.requests().len(), 6, "none of them is tried again");
}

#[test]
fn a_web_server_with_webdav_is_listed() {
    let (server, _, _) = served(1);
    let client = open(quick());
    for fault in [Fault::Reset, Fault::Status(503, ""), Fault::HalfAnswer(207, FOLDER)] {
        server.fail(&[fault, Fault::Answer(207, FOLDER)]);
        let children = client.list(&server.url("/folder")).unwrap();
        assert_eq!(children, [("zarr.json".to_owned(), false), ("c".to_owned(), true)]);
    }
    assert_eq!(client.view().retries, 3);
}

#[test]
fn a_listing_has_a_bound() {
    let (server, _, _) = served(1);
    let client = open(Config { cache_bytes: 2000, retries_max: 0, ..quick() });
    server.fail(&[Fault::Answer(207, FOLDER)]);
    let text = text(client.list(&server.url("/folder")));
    assert!(text.contains("length limit"), "{text}");
}

#[test]
fn a_listing_that_fails_is_a_failure_with_the_reason() {
    let (server, _, _) = served(1);
    let client = open(Config { absent: vec![404, 403], retries_max: 1, ..quick() });
    let folder = server.url("/folder");
    let cases = [
        (Fault::Status(401, ""), "401"),
        (Fault::Status(500, ""), "500"),
        (Fault::Status(503, ""), "503"),
        (Fault::Reset, "no answer"),
        (Fault::HalfAnswer(207, FOLDER), "broke off"),
        (Fault::Answer(207, "<multistatus><response>"), "207"),
    ];
    for (fault, reason) in cases {
        let is_final = matches!(fault, Fault::Status(401, _) | Fault::Answer(..));
        server.fail(&vec![fault; if is_final { 1 } else { 2 }]);
        let error = client.list(&folder).unwrap_err();
        assert_eq!(error.kind, Kind::Failed, "{error}");
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains(&folder), "{text}");
    }
}

#[test]
fn cancel_and_close_end_reads_of_a_silent_server_within_a_second() {
    let (server, url, _) = served(100);
    let slow = Config { idle_timeout: Duration::from_secs(60), ..quick() };
    let client = open(Config { total_timeout: Duration::from_secs(60), ..slow });
    server.fail(&[Fault::Silent, Fault::Slow(Duration::from_secs(5))]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| read(&client, &url, 0, 100));
        let second = scope.spawn(|| read(&client, &url, 0, 100));
        while server.requests().len() < 2 {
            std::thread::yield_now();
        }
        let begin = Instant::now();
        client.cancel();
        assert!(text(first.join().unwrap()).contains("cancelled"));
        assert!(text(second.join().unwrap()).contains("cancelled"));
        assert!(begin.elapsed() < Duration::from_secs(1));
    });
    assert_eq!(read(&client, &url, 0, 100).unwrap().len(), 100, "later calls work");
    let begin = Instant::now();
    drop(client);
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn sizes_that_are_asked_for_at_once_are_one_request() {
    let (server, url, _) = served(100);
    let client = open(quick());
    server.fail(&[Fault::Late(Duration::from_millis(1500))]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(client.size(&url).unwrap(), 100));
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_turn_that_is_long_in_coming_is_no_failure() {
    let (server, url, _) = served(100);
    let total_timeout = Duration::from_millis(600);
    let client = open(Config { reads_max: 1, total_timeout, ..quick() });
    server.fail(&vec![Fault::Late(Duration::from_millis(200)); 8]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (client, url) = (&client, &url);
            scope.spawn(move || read(client, url, number, 10).unwrap());
        }
    });
}

#[test]
fn requests_in_flight_are_bounded() {
    let (server, url, _) = served(100);
    let client = open(Config { reads_max: 3, ..quick() });
    server.fail(&vec![Fault::Late(Duration::from_millis(20)); 30]);
    std::thread::scope(|scope| {
        for number in 0..30 {
            let (client, url) = (&client, &url);
            scope.spawn(move || read(client, url, number, 10).unwrap());
        }
    });
    let view = client.view();
    assert_eq!((view.in_flight, view.in_flight_max), (0, 3));
}
