//! Unit tests of shards that are decoded whole: what their metadata becomes, and what is refused.

use super::describe;
use super::tests::{plain, read, refused, shard, sound, transpose, with};
use crate::base::limits::CHUNK_BYTES_MAX;
use crate::base::status::Status;
use crate::records::{ByteOrder, Codec, Filter, IndexLayout};
use serde_json::{Value, json};
use std::string::ToString;

fn bytes() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

const fn whole(number: u8) -> Codec {
    Codec::Filter(Filter::Shard(number))
}

#[test]
fn a_shard_that_codecs_follow_is_a_chunk() {
    let inner = sound()["codecs"][0].clone();
    let record = read(&plain(json!([inner, "crc32c", "zstd"]))).unwrap();
    assert_eq!((record.shard_levels, record.shard_count()), (0, 1));
    assert_eq!((&record.chunk_shape[..2], record.chunk_bytes), (&[8, 64][..], 1024));
    assert_eq!(&record.shard_shape[0][..2], &[4, 16]);
    assert_eq!(record.codecs[..], [Codec::Zstd, whole(0), Codec::Crc32c, Codec::Zstd]);
    let layout = IndexLayout { at_start: true, has_crc: true, byte_order: ByteOrder::Little };
    assert_eq!(record.index[0], layout);
    assert_eq!([0, 1, 2, 4].map(|count| record.unit_bytes(count)), [128, 128, 1024, 1024]);
    let line = "sharding_indexed[bytes(little) zstd](index at start, crc32c) crc32c zstd";
    assert_eq!(describe(&record).codecs.as_str(), line);
}

#[test]
fn what_lies_around_a_whole_shard_is_read_by_ranges() {
    let inner = shard(json!([4, 16]), json!([bytes(), "zstd"]));
    let mut document = with("/codecs/0/configuration/codecs", json!([inner, "crc32c"]));
    document["codecs"][0]["configuration"]["chunk_shape"] = json!([8, 32]);
    let record = read(&document).unwrap();
    assert_eq!((record.shard_levels, record.shard_count()), (1, 2));
    assert_eq!((&record.chunk_shape[..2], record.chunks_per_file()), (&[8, 32][..], 2));
    assert_eq!(
        (&record.shard_shape[0][..2], &record.shard_shape[1][..2]),
        (&[8, 64][..], &[4, 16][..])
    );
    assert_eq!(record.codecs[..], [Codec::Zstd, whole(1), Codec::Crc32c]);
    let line = "sharding_indexed[sharding_indexed[bytes(little) zstd](index at end, big) crc32c]\
                (index at start, crc32c)";
    assert_eq!(describe(&record).codecs.as_str(), line);
}

#[test]
fn a_third_and_a_fourth_level_of_shards_are_chunks_and_a_fifth_is_refused_by_name() {
    let one = shard(json!([1, 4]), json!([bytes()]));
    let two = shard(json!([2, 8]), json!([one]));
    let three = shard(json!([4, 16]), json!([two]));
    let four = shard(json!([8, 32]), json!([three]));
    let record = read(&plain(json!([three]))).unwrap();
    assert_eq!((record.shard_levels, &record.chunk_shape[..2]), (2, &[2, 8][..]));
    assert_eq!((&record.codecs[..], &record.shard_shape[2][..2]), (&[whole(2)][..], &[1, 4][..]));
    let record = read(&plain(json!([four]))).unwrap();
    assert_eq!((record.shard_levels, &record.chunk_shape[..2]), (2, &[4, 16][..]));
    assert_eq!(record.codecs[..], [whole(3), whole(2)]);
    assert_eq!(
        (&record.shard_shape[2][..2], &record.shard_shape[3][..2]),
        (&[2, 8][..], &[1, 4][..])
    );
    let five = plain(json!([shard(json!([8, 64]), json!([four]))]));
    let way = "codecs[0].configuration.codecs[0].configuration.codecs[0].configuration.codecs[0]";
    let way = [way, ".configuration.codecs[0]"].concat();
    let says = "more than 4 levels of shards are not read: write the array again with fewer";
    refused(&five, Status::Unsupported, &[&way, says]);
}

#[test]
fn codecs_after_the_outermost_shard_make_a_chunk_of_all_that_is_in_it() {
    let inner = shard(json!([4, 16]), json!([transpose(json!([1, 0])), bytes()]));
    let outer = shard(json!([32, 8]), json!([inner, "crc32c"]));
    refused(&plain(json!([transpose(json!([1, 0])), outer, "zstd"])), Status::Decode, &["divide"]);
    let inner = shard(json!([16, 4]), json!([transpose(json!([1, 0])), bytes()]));
    let outer = shard(json!([32, 8]), json!([inner, "crc32c"]));
    let record = read(&plain(json!([transpose(json!([1, 0])), outer, "zstd"]))).unwrap();
    assert_eq!((record.shard_levels, record.shard_count()), (0, 2));
    assert_eq!(record.codecs[..], [whole(1), Codec::Crc32c, whole(0), Codec::Zstd]);
    // Elements lie as the innermost chunks have them, and each index counts in its own order.
    assert_eq!(record.chunk_strides[..2], [128, 2]);
    let orders = [0, 1, 2].map(|shard| [record.order_at(shard)[0], record.order_at(shard)[1]]);
    assert_eq!(orders, [[1, 0], [1, 0], [0, 1]]);
    let line = "transpose(1,0) sharding_indexed[sharding_indexed[transpose(1,0) bytes(little)]\
                (index at end, big) crc32c](index at end, big) zstd";
    assert_eq!(describe(&record).codecs.as_str(), line);
}

#[test]
fn what_follows_a_shard_and_is_not_read_names_a_way_out() {
    let inner = sound()["codecs"][0].clone();
    let shuffle = json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": 2}});
    for (codecs, status, says) in [
        (
            json!([inner, shuffle]),
            Status::Unsupported,
            "shuffle after sharding_indexed is not read: put",
        ),
        (
            json!([inner, "bytes"]),
            Status::Decode,
            "\"bytes\" cannot stand after \"sharding_indexed\"",
        ),
        (json!([inner, inner]), Status::Decode, "cannot stand after \"sharding_indexed\""),
        (json!([inner, "zstd", "gzip"]), Status::Unsupported, "gzip after another compressor"),
        (
            json!([inner, "crc32c", "crc32c", "crc32c", "crc32c", "crc32c"]),
            Status::Unsupported,
            "6 codecs",
        ),
    ] {
        refused(&plain(codecs), status, &[says]);
    }
}

#[test]
fn sizes_of_a_whole_shard_hold_its_cells_its_index_and_their_scratch() {
    let inner = sound()["codecs"][0].clone();
    let record = read(&plain(json!([inner, "zstd"]))).unwrap();
    // A cell of 128 bytes grows by 2 and 256; 8 of them, their entries and a checksum.
    let shard = 8 * (128 + 2 + 256) + 8 * 16 + 4;
    assert_eq!(record.sizes(2).encoded_max, shard);
    let line = |bytes: u64| (bytes + 24).next_multiple_of(64);
    assert_eq!(record.shard_scratch(1), [line(shard), line(128)]);
    assert_eq!(record.working_bytes(), line(shard) + 2 * line(128));
    // Nothing is undone in scratch.
    let plain_cells = shard_of_bytes();
    let record = read(&plain(json!([plain_cells, "crc32c"]))).unwrap();
    assert_eq!((record.shard_scratch(0), record.working_bytes()), ([0, 0], 1024));
}

fn shard_of_bytes() -> Value {
    shard(json!([4, 16]), json!([bytes()]))
}

#[test]
fn shards_that_may_be_too_large_to_be_decoded_whole_are_refused() {
    let mut document = plain(json!([shard(json!([1, 1]), json!([bytes(), "zstd"])), "zstd"]));
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([1 << 10, 1 << 14]);
    let most = format_args!("more than {CHUNK_BYTES_MAX}: use smaller chunks").to_string();
    refused(&document, Status::Unsupported, &["shards make ", &most]);
    document["codecs"][0] = shard(json!([1024, 1024]), json!([bytes(), "zstd"]));
    assert!(read(&document).is_ok());
}
