//! zarr.json as nobody should write it: refused by name before any data is read.

use crate::common::damage::{Bad, check, u16_config};
use crate::common::drive::{Job, first_failure, open, stream};
use crate::common::fixtures::Scratch;
use crate::common::synth::{Meta, write_text};
use std::fs;
use wavetrain::config::THREADS_PUMP;
use wavetrain::status::Status;

#[test]
fn a_folder_in_place_of_the_metadata_is_an_io_error() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("array/zarr.json")).expect("a folder");
    let bad = Bad {
        uri: scratch.uri("array"),
        span: (vec![0, 0], vec![4, 4]),
        status: Status::Io,
        chunk: None,
        says: "zarr.json",
    };
    check(&scratch, &bad);
}

/// Status and text of the first failure of a box of 4 x 4 of an array with this zarr.json and
/// without any data: whoever looks at data first takes it for missing and delivers fill.
fn metadata_failure(text: &str) -> (Status, String) {
    let scratch = Scratch::new();
    let uri = write_text(&scratch, "array", text);
    let loader = open(&u16_config(&[4, 4], 1));
    let job = Job::failing(&uri, (vec![0, 0], vec![4, 4]), Status::Decode);
    let (_, failure) = first_failure(&loader, &[job]);
    assert!(failure.text.as_str().contains(&uri), "the text names the array: {failure}");
    (failure.status, failure.text.as_str().replace(&uri, "ARRAY"))
}

/// Metadata of 8 x 8 in chunks of 4 x 4, changed in one place.
fn changed(sharded: bool, from: &str, to: &str) -> String {
    let shard: &[u64] = &[8, 8];
    let meta = Meta {
        codecs: r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#,
        ..Meta::u16(&[8, 8], &[4, 4], sharded.then_some(shard))
    };
    let text = meta.text();
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1)
}

#[test]
fn the_unchanged_metadata_reads_as_fill() {
    for sharded in [false, true] {
        let scratch = Scratch::new();
        let uri = write_text(&scratch, "array", &changed(sharded, "zarr_format", "zarr_format"));
        let want = 7u16.to_le_bytes().repeat(16);
        stream(&u16_config(&[4, 4], 1), &[Job::new(&uri, (vec![0, 0], vec![4, 4]), want)]);
    }
}

#[test]
fn a_fill_value_out_of_range_is_damaged() {
    let meta = |data_type, fill| {
        let text = Meta { data_type, fill, ..Meta::u16(&[8, 8], &[4, 4], None) }.text();
        metadata_failure(&text)
    };
    for (data_type, fill) in [
        ("uint8", "300"),
        ("uint8", "-1"),
        ("int8", "128"),
        ("int8", "-129"),
        ("uint16", "65536"),
        ("uint16", "0.5"),
        ("uint16", "null"),
        ("uint16", "true"),
        ("uint16", "\"7.5\""),
        ("uint16", "\"seven\""),
        ("int64", "9223372036854775808"),
        ("uint64", "18446744073709551616"),
        ("bool", "2"),
        ("float32", "\"0x7fc0\""),
        ("float32", "\"0x7fc00000ff\""),
        ("float32", "\"nan\""),
        ("float32", "true"),
        ("complex64", "[1.0]"),
        ("complex64", "1.0"),
    ] {
        let (status, text) = meta(data_type, fill);
        assert_eq!(status, Status::Decode, "{data_type} {fill}: {text}");
        assert!(text.contains("fill_value"), "{data_type} {fill}: {text}");
    }
}

#[test]
fn metadata_that_is_not_json_is_damaged() {
    let whole = changed(true, "zarr_format", "zarr_format");
    let mut texts: Vec<String> = vec![
        String::new(),
        " ".into(),
        "[]".into(),
        "7".into(),
        "\"zarr\"".into(),
        "null".into(),
        "{".into(),
        whole.replace("\"shape\":", "\"shape\""),
        whole.replace("[8, 8],\"data_type\"", "[8, 8,],\"data_type\""),
        format!("{whole}}}"),
        format!("{whole} {whole}"),
    ];
    texts.extend((1..whole.len()).step_by(13).map(|length| whole[..length].to_string()));
    for text in texts {
        let (status, said) = metadata_failure(&text);
        assert_eq!(status, Status::Decode, "{said} for {}", &text[..text.len().min(60)]);
    }
}

#[test]
fn metadata_nested_a_hundred_thousand_deep_is_refused() {
    let nested = format!("\"attributes\":{}", "[".repeat(100_000));
    let (status, text) = metadata_failure(&changed(true, "\"attributes\":{}", &nested));
    assert!(matches!(status, Status::Unsupported | Status::Decode), "{text}");
}

#[test]
fn metadata_with_a_wrong_or_absent_member_is_damaged() {
    for (from, to) in [
        ("\"shape\":[8, 8],", ""),
        ("\"shape\":[8, 8],", "\"shape\":8,"),
        ("\"shape\":[8, 8],", "\"shape\":[8, -8],"),
        ("\"shape\":[8, 8],", "\"shape\":[8, 8.5],"),
        ("\"shape\":[8, 8],", "\"shape\":[8, 99999999999999999999],"),
        ("\"shape\":[8, 8],", "\"shape\":[8, \"8\"],"),
        ("\"data_type\":\"uint16\",", ""),
        ("\"data_type\":\"uint16\",", "\"data_type\":7,"),
        ("\"fill_value\":7,", ""),
        ("\"zarr_format\":3,", ""),
        ("\"node_type\":\"array\",", ""),
        ("\"chunk_shape\":[8, 8]", "\"chunk_shape\":[8]"),
        ("\"chunk_shape\":[8, 8]", "\"chunk_shape\":[8, 8, 8]"),
        ("\"chunk_shape\":[8, 8]", "\"chunk_shape\":[8, 0]"),
        ("\"chunk_shape\":[8, 8]", "\"chunk_shape\":[8, 6]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4, 3]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4, 0]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4, 16]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4]"),
        ("\"endian\":\"little\"", "\"endian\":\"middle\""),
        ("\"index_location\":\"end\"", "\"index_location\":\"middle\""),
        ("\"separator\":\"/\"", "\"separator\":\"-\""),
        ("\"codecs\":[{\"name\":\"sharding", "\"codecz\":[{\"name\":\"sharding"),
    ] {
        let (status, text) = metadata_failure(&changed(true, from, to));
        let is_refused = matches!(status, Status::Decode | Status::Unsupported);
        assert!(is_refused, "{from} -> {to}: {status} {text}");
    }
}

#[test]
fn chunks_and_shards_too_large_to_count_are_refused() {
    for (from, to) in [
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[9223372036854775807, 9223372036854775807]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4294967296, 4294967296]"),
    ] {
        let (status, text) = metadata_failure(&changed(false, from, to));
        let is_refused = matches!(status, Status::Decode | Status::Unsupported | Status::Budget);
        assert!(is_refused, "{to}: {status} {text}");
    }
    let shards = "\"chunk_shape\":[4611686018427387904, 4611686018427387904]";
    let (status, text) = metadata_failure(&changed(true, "\"chunk_shape\":[8, 8]", shards));
    assert!(matches!(status, Status::Decode | Status::Unsupported | Status::Budget), "{text}");
}

#[test]
fn what_is_not_understood_is_named_before_any_data_is_read() {
    let zstd = "{\"name\":\"zstd\",\"configuration\":{\"level\":3,\"checksum\":false}}";
    let index = "\"index_codecs\":[";
    for (sharded, from, to, says) in [
        (true, zstd, "{\"name\":\"numcodecs.zfpy\",\"configuration\":{\"mode\":4}}", "zfpy"),
        (false, zstd, "{\"name\":\"numcodecs.zfpy\",\"configuration\":{\"mode\":4}}", "zfpy"),
        (true, zstd, "{\"name\":\"shiny.example/codec\"}", "shiny.example/codec"),
        (
            false,
            zstd,
            "{\"name\":\"blosc\",\"configuration\":{\"cname\":\"snappy\",\"clevel\":5,
              \"shuffle\":\"shuffle\",\"typesize\":2,\"blocksize\":0}}",
            "snappy",
        ),
        (
            false,
            "{\"name\":\"bytes\"",
            "{\"name\":\"shiny_filter\"},{\"name\":\"bytes\"",
            "shiny_filter",
        ),
        (false, "\"data_type\":\"uint16\"", "\"data_type\":\"string\"", "string"),
        (false, "\"data_type\":\"uint16\"", "\"data_type\":\"int3\"", "int3"),
        (
            false,
            "\"data_type\":\"uint16\"",
            "\"data_type\":{\"name\":\"struct\",\"configuration\":{\"fields\":\
             [[\"a\",\"string\"]]}}",
            "\"string\" is text",
        ),
        (false, "\"name\":\"regular\"", "\"name\":\"hexagonal\"", "hexagonal"),
        (false, "\"name\":\"default\"", "\"name\":\"hashed\"", "hashed"),
        (
            false,
            "\"attributes\":{}",
            "\"storage_transformers\":[{\"name\":\"encrypted\"}]",
            "storage_transformers",
        ),
        (false, "\"attributes\":{}", "\"holograms\":{\"depth\":2}", "holograms"),
        (false, "\"attributes\":{}", "\"holograms\":{\"must_understand\":true}", "holograms"),
        (true, index, "\"index_codecs\":[{\"name\":\"shiny_order\"},", "shiny_order"),
    ] {
        let (status, text) = metadata_failure(&changed(sharded, from, to));
        assert_eq!(status, Status::Unsupported, "{to}: {text}");
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn zarr_v2_metadata_under_the_v3_name_is_refused() {
    let (status, text) = metadata_failure(&changed(true, "\"zarr_format\":3", "\"zarr_format\":2"));
    assert!(matches!(status, Status::Unsupported | Status::Decode), "{text}");
    assert!(text.contains("zarr_format"), "{text}");
}

#[test]
fn what_may_be_ignored_is_ignored() {
    for (from, to) in [
        ("\"attributes\":{}", "\"holograms\":{\"must_understand\":false}"),
        ("\"attributes\":{}", "\"attributes\":{\"a\":[{\"zarr_format\":2}],\"shape\":[1]}"),
        ("\"attributes\":{}", "\"dimension_names\":[\"y\",null]"),
        ("\"attributes\":{}", "\"storage_transformers\":[]"),
    ] {
        let scratch = Scratch::new();
        let uri = write_text(&scratch, "array", &changed(true, from, to));
        let want = 7u16.to_le_bytes().repeat(16);
        stream(&u16_config(&[4, 4], 1), &[Job::new(&uri, (vec![0, 0], vec![4, 4]), want)]);
    }
}

/// Valid metadata of exactly `bytes` bytes.
fn metadata_of(bytes: usize) -> String {
    let text = changed(true, "\"attributes\":{}", "\"attributes\":{\"note\":\"\"}");
    let filler = "x".repeat(bytes - text.len());
    text.replace("\"note\":\"", &format!("\"note\":\"{filler}"))
}

#[test]
fn metadata_of_4_mib_is_read_and_a_byte_more_is_refused_with_both_sizes() {
    let (status, text) = metadata_failure(&metadata_of((4 << 20) + 1));
    assert_eq!(status, Status::Unsupported, "{text}");
    assert!(text.contains("4194305") && text.contains("4194304"), "{text}");
    // 64 KiB is where a worker's own buffer ends and the one large buffer begins.
    let scratch = Scratch::new();
    let want = 7u16.to_le_bytes().repeat(16);
    let sizes = [4 << 20, 65535, 65536, 65537, 1 << 20, 4 << 20];
    let job = |(n, bytes): (usize, usize)| {
        let uri = write_text(&scratch, &format!("array{n}"), &metadata_of(bytes));
        Job::new(&uri, (vec![0, 0], vec![4, 4]), want.clone())
    };
    let jobs: Vec<Job> = sizes.into_iter().enumerate().map(job).collect();
    let mut config = u16_config(&[4, 4], sizes.len());
    stream(&config, &jobs);
    config.thread_mode = THREADS_PUMP;
    stream(&config, &jobs);
}
