//! Objects of S3, as moto serves it.

use crate::common::python::Moto;
use crate::common::{open, painted, read, text};
use wavetrain_remote::{Config, Kind};

#[test]
fn objects_are_read_and_listed() {
    let Some(moto) = Moto::start() else { return };
    let data = painted(70_000);
    let odd = "a b%+&.zarr/c/0";
    let keys: Vec<String> = (0..2500).map(|number| format!("many/{number}")).collect();
    let mut objects: Vec<(&str, &[u8])> =
        vec![("a.zarr/zarr.json", b"{}"), ("a.zarr/c/0/0", &data), (odd, b"odd")];
    objects.extend(keys.iter().take(30).map(|key| (key.as_str(), &b"x"[..])));
    moto.put(&objects);
    let client = open(moto.config());
    let name = "s3://bucket/a.zarr/c/0/0";
    assert_eq!(client.size(name).unwrap(), 70_000);
    assert_eq!(read(&client, name, 123, 60_000).unwrap(), data[123..60_123]);
    assert_eq!(read(&client, &format!("s3://bucket/{odd}"), 0, 3).unwrap(), b"odd");
    let mut tail = [0; 100];
    let end = client.read_tail(name, &mut tail).unwrap();
    assert_eq!((end.got, end.size), (100, 70_000));
    assert_eq!(tail, data[69_900..]);
    assert_eq!(client.size("s3://bucket/a.zarr/c/0/1").unwrap_err().kind, Kind::Absent);

    let mut children = client.list("s3://bucket/a.zarr").unwrap();
    children.sort();
    assert_eq!(children, [("c".to_owned(), true), ("zarr.json".to_owned(), false)]);
    assert_eq!(client.list("s3://bucket/many").unwrap().len(), 30);
    assert_eq!(client.list("s3://bucket").unwrap().len(), 3);
    assert_eq!(client.list("s3://bucket/none").unwrap_err().kind, Kind::Absent);
    let error = text(read(&client, "s3://nobucket/a", 0, 1));
    assert!(error.contains("no such bucket"), "{error}");
}

#[test]
fn a_changed_object_is_found() {
    let Some(moto) = Moto::start() else { return };
    moto.put(&[("a", b"first")]);
    let client = open(moto.config());
    assert_eq!(client.size("s3://bucket/a").unwrap(), 5);
    moto.put(&[("a", b"other")]);
    assert_eq!(read(&client, "s3://bucket/a", 0, 5).unwrap_err().kind, Kind::Changed);
    client.size("s3://bucket/a").unwrap();
    assert_eq!(read(&client, "s3://bucket/a", 0, 5).unwrap(), b"other");
}

#[test]
fn no_secret_is_in_texts() {
    let Some(moto) = Moto::start() else { return };
    let client = open(moto.config());
    let debug = format!("{:?}", moto.config());
    let endpoint = Some("http://127.0.0.1:1".to_owned());
    let away = open(Config { endpoint, retries_max: 1, ..moto.config() });
    let refused = text(away.size("s3://bucket/a"));
    assert!(refused.contains("s3://bucket/a"), "{refused}");
    let absent = text(client.size("s3://bucket/a"));
    for text in [debug, refused, absent] {
        assert!(!text.contains("test-secret-key"), "{text}");
        assert!(!text.contains("Signature"), "{text}");
    }
}
