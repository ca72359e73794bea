//! Damaged files: each gives a status and a text that names the array and the chunk, after the
//! batches before it; skipped, it costs one sample and nothing else.

use crate::common::damage::{Bad, Site, check, flips, outcomes, u16_config, variants};
use crate::common::drive::{Job, Span, first_failure, open, stream};
use crate::common::fixtures::{self, Scratch};
use crate::common::synth::{ABSENT, Meta, index_bytes, shard_bytes, zstd_bomb, zstd_unsized};
use std::fs;
use std::path::Path;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

#[test]
fn a_folder_in_place_of_a_shard_is_an_io_error() {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, "rank2_u16", "folder", 0);
    fs::remove_file(&site.file).expect("gone");
    fs::create_dir(&site.file).expect("a folder");
    check(&scratch, &Bad { status: Status::Io, chunk: None, ..site.bad("c/0/0") });
}

#[test]
fn a_shard_shorter_than_its_index_is_damaged() {
    for bytes in [0, 1, 67] {
        let scratch = Scratch::new();
        let site = Site::new(&scratch, "rank2_u16", "short", 0);
        let data = fs::read(&site.file).expect("the shard");
        fs::write(&site.file, &data[..bytes]).expect("shorter");
        check(&scratch, &Bad { chunk: None, ..site.bad("shorter than its index") });
    }
}

#[test]
fn a_shard_that_lost_its_last_byte_is_damaged() {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, "rank2_u16", "cut", 1);
    let data = fs::read(&site.file).expect("the shard");
    fs::write(&site.file, &data[..data.len() - 1]).expect("shorter");
    check(&scratch, &Bad { chunk: None, ..site.bad("index") });
}

#[test]
fn a_shard_with_its_index_in_front_that_lost_its_last_byte_is_damaged() {
    // Chunk bytes: 4 x 4 u16; the last chunk of the payload is cut by one byte.
    let scratch = Scratch::new();
    let meta = Meta { index_location: "start", ..Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8])) };
    let entries: Vec<(u64, u64)> = (0..4).map(|n| (68 + 32 * n, 32)).collect();
    let shard = [index_bytes(&entries), vec![3; 127]].concat();
    let uri = meta.write(&scratch, "cut", Some(&shard));
    let span = (vec![4, 4], vec![8, 8]);
    let chunk = Some(vec![1, 1]);
    check(&scratch, &Bad { uri: uri.clone(), span, status: Status::Decode, chunk, says: "" });
    let sound = Job::new(&uri, (vec![4, 0], vec![8, 4]), vec![3; 32]);
    stream(&u16_config(&[4, 4], 1), &[sound]);
}

#[test]
fn a_flipped_bit_anywhere_in_an_index_with_crc_is_found() {
    let store = fixtures::store("rank2_u16");
    let key = Path::new("c/0/0");
    let data = fs::read(Path::new(&store.uri).join(key)).expect("the shard");
    let index = data.len() - 68..data.len();
    let span: Span = (vec![0, 0], vec![8, 9]);
    let scratch = Scratch::new();
    let jobs = variants(&scratch, store, key, &span, flips(data, index));
    assert_eq!(jobs.len(), 68);
    for (n, (status, _)) in outcomes(&u16_config(&[8, 9], 4), &jobs).iter().enumerate() {
        assert_eq!(*status, Some(Status::Decode), "byte {n} of the index");
    }
}

#[test]
fn a_flipped_bit_in_an_index_is_told_with_the_shard() {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, "rank2_u16", "flip", 2);
    let mut data = fs::read(&site.file).expect("the shard");
    let at = data.len() - 40;
    data[at] ^= 4;
    fs::write(&site.file, data).expect("damaged");
    check(&scratch, &Bad { chunk: None, ..site.bad("c/0/0") });
}

/// Flips a bit of every byte of the second chunk; the box is one voxel, so that a loader which
/// decodes no more than it must would miss most of them.
fn chunk_flips(name: &str) -> Vec<(Option<Status>, bool)> {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, name, "template", 1);
    let (offset, length) = site.shard().entries[1];
    let data = fs::read(&site.file).expect("the shard");
    let (begin, _) = site.span();
    let span: Span = (begin.clone(), begin.iter().map(|b| b + 1).collect());
    let want = site.store.image.inside(&span.0, &span.1);
    let key = site.file.strip_prefix(&site.uri).expect("below the array").to_path_buf();
    let range = offset as usize..(offset + length) as usize;
    let jobs = variants(&scratch, site.store, &key, &span, flips(data, range));
    let shape = vec![1; span.0.len()];
    outcomes(&u16_config(&shape, 4), &jobs)
        .into_iter()
        .map(|(status, row)| (status, row == want))
        .collect()
}

#[test]
fn a_flipped_bit_anywhere_in_a_chunk_with_crc32c_is_found_even_for_one_voxel() {
    for name in ["variant_crc_shard", "variant_blosc_crc_shard"] {
        for (n, (status, _)) in chunk_flips(name).into_iter().enumerate() {
            assert_eq!(status, Some(Status::Decode), "{name}: byte {n} of the chunk");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_zstd_frame_with_checksum_is_found_even_for_one_voxel() {
    // A few bits of a frame's header change nothing that a decoder uses.
    let outcomes = chunk_flips("variant_checksum_shard");
    let harmless = outcomes.iter().filter(|(status, _)| *status == Some(Status::Ok)).count();
    assert!(harmless <= 2, "{harmless} of {} flips were not found", outcomes.len());
    for (n, (status, is_right)) in outcomes.into_iter().enumerate() {
        assert!(status == Some(Status::Decode) || is_right, "byte {n}: {status:?}");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_chunk_without_checksum_gives_an_answer() {
    for name in ["rank3_u16", "blosc_u16_shuffle", "blosc_u16_bitshuffle"] {
        for (n, (status, _)) in chunk_flips_of_first(name).into_iter().enumerate() {
            assert!(
                matches!(status, Some(Status::Ok | Status::Decode | Status::Unsupported)),
                "{name}: byte {n}: {status:?}"
            );
        }
    }
}

/// Flips a bit of each of the first 300 bytes of the first chunk; the box is the chunk.
fn chunk_flips_of_first(name: &str) -> Vec<(Option<Status>, Vec<u8>)> {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, name, "template", 0);
    let (offset, length) = site.shard().entries[0];
    let data = fs::read(&site.file).expect("the shard");
    let key = site.file.strip_prefix(&site.uri).expect("below the array").to_path_buf();
    let range = offset as usize..(offset + length.min(300)) as usize;
    let span = site.span();
    let jobs = variants(&scratch, site.store, &key, &span, flips(data, range));
    outcomes(&u16_config(&jobs[0].extents(), 4), &jobs)
}

#[test]
fn a_wrong_field_of_a_blosc_header_is_found() {
    let store = fixtures::store("blosc_tail_u16_shuffle");
    let key = Path::new("c/0");
    let data = fs::read(Path::new(&store.uri).join(key)).expect("the chunk");
    let length = data.len() as u32;
    let word = |at: usize, value: u32| (at, value.to_le_bytes().to_vec());
    // (offset, bytes): version, codec, reserved flag, both shuffles, typesize, nbytes, blocksize,
    // cbytes, block starts, the first stream's length.
    let wrong: Vec<(usize, Vec<u8>)> = vec![
        (0, vec![3]),
        (2, vec![0x31]),
        (2, vec![0x99]),
        (2, vec![0x95]),
        (3, vec![0]),
        word(4, 99_999),
        word(4, 100_001),
        word(4, 0),
        word(4, u32::MAX),
        word(8, 0),
        word(8, 1),
        word(8, u32::MAX),
        word(8, 1 << 31),
        word(12, 0),
        word(12, 15),
        word(12, length - 1),
        word(12, length + 1),
        word(12, u32::MAX),
        word(16, 0),
        word(16, 15),
        word(16, length),
        word(16, length - 3),
        word(16, u32::MAX),
        word(16, 1 << 31),
        word(32, 0),
        word(32, u32::MAX),
        word(32, 1 << 31),
        word(32, length),
    ];
    let contents = wrong.clone().into_iter().map(|(at, bytes)| {
        let mut damaged = data.clone();
        damaged[at..at + bytes.len()].copy_from_slice(&bytes);
        damaged
    });
    let scratch = Scratch::new();
    let jobs = variants(&scratch, store, key, &(vec![0], vec![50_000]), contents);
    let seen = outcomes(&u16_config(&[50_000], 4), &jobs);
    for ((at, bytes), (status, _)) in wrong.iter().zip(seen) {
        let is_found = matches!(status, Some(Status::Decode | Status::Unsupported));
        assert!(is_found, "{bytes:02x?} at {at}: {status:?}");
    }
}

#[test]
fn a_damaged_blosc_header_is_told_with_its_chunk() {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, "blosc_u16_shuffle", "blosc", 0);
    let mut shard = site.shard();
    shard.chunk(0)[4] ^= 1;
    shard.save();
    check(&scratch, &site.bad("blosc"));
}

#[test]
fn a_truncated_blosc_chunk_is_damaged_at_any_length() {
    let store = fixtures::store("blosc_tail_u16_bitshuffle");
    let key = Path::new("c/0");
    let data = fs::read(Path::new(&store.uri).join(key)).expect("the chunk");
    let lengths = [0, 1, 15, 16, 17, 31, 32, 35, 36, data.len() / 2, data.len() - 1];
    let contents = lengths.iter().map(|length| data[..*length].to_vec());
    let scratch = Scratch::new();
    let jobs = variants(&scratch, store, key, &(vec![0], vec![50_000]), contents);
    for (length, (status, _)) in lengths.iter().zip(outcomes(&u16_config(&[50_000], 4), &jobs)) {
        assert_eq!(status, Some(Status::Decode), "{length} bytes");
    }
}

/// Sets one index entry of a copy of rank2_u16 and checks that its chunk is blamed.
fn check_entry(name: &str, entry: impl Fn(u64, (u64, u64)) -> (u64, u64)) {
    let scratch = Scratch::new();
    let site = Site::new(&scratch, "rank2_u16", name, 3);
    let mut shard = site.shard();
    let payload_bytes = shard.payload.len() as u64;
    shard.entries[3] = entry(payload_bytes, shard.entries[3]);
    shard.save();
    check(&scratch, &site.bad("index entry"));
    // The neighbours are sound.
    let mut sound = Job::of(site.store, (vec![0, 0], vec![8, 9]), Dtype::U16);
    sound.uri = site.uri.clone();
    stream(&u16_config(&[8, 9], 1), &[sound]);
}

#[test]
fn an_index_entry_beyond_the_file_is_damaged() {
    check_entry("beyond", |payload, (_, length)| (payload + 1000, length));
    check_entry("far", |_, (_, length)| (1 << 62, length));
}

#[test]
fn an_index_entry_that_ends_beyond_the_file_is_damaged() {
    check_entry("long", |payload, (offset, _)| (offset, payload + 1000));
}

#[test]
fn an_index_entry_whose_end_overflows_is_damaged() {
    check_entry("wrap", |_, (_, length)| (u64::MAX - length / 2, length));
    check_entry("wrap_length", |_, (offset, _)| (offset, u64::MAX - offset));
    check_entry("wrap_both", |_, _| (u64::MAX - 1, u64::MAX - 1));
}

#[test]
fn a_half_empty_index_entry_is_damaged() {
    check_entry("no_offset", |_, (_, length)| (u64::MAX, length));
    check_entry("no_length", |_, (offset, _)| (offset, u64::MAX));
}

#[test]
fn an_index_entry_that_points_into_the_index_is_damaged() {
    check_entry("in_index", |payload, (_, _)| (payload, 68));
    check_entry("into_index", |payload, (_, _)| (payload - 4, 40));
}

#[test]
fn an_index_entry_of_no_bytes_is_damaged() {
    check_entry("nothing", |_, (offset, _)| (offset, 0));
}

#[test]
fn an_index_entry_that_points_into_an_index_in_front_is_damaged() {
    let scratch = Scratch::new();
    let meta = Meta { index_location: "start", ..Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8])) };
    let entries = [(36, 32), (68, 32), ABSENT, (0, 32)];
    let uri = meta.write(&scratch, "front", Some(&[index_bytes(&entries), vec![3; 32]].concat()));
    for (span, chunk) in [((vec![0, 0], vec![4, 4]), [0, 0]), ((vec![4, 4], vec![8, 8]), [1, 1])] {
        let chunk = Some(chunk.to_vec());
        check(
            &scratch,
            &Bad { uri: uri.clone(), span, status: Status::Decode, chunk, says: "index" },
        );
    }
}

/// One shard of four chunks of 4 x 4 u16 (32 bytes) in zstd frames; the second one is `frame`.
fn zstd_array(scratch: &Scratch, name: &str, frame: &[u8]) -> String {
    let sound = zstd::encode_all(&[9u8; 32][..], 3).expect("a frame");
    let at = sound.len() as u64;
    let payload = [&sound, frame].concat();
    let entries = [(0, at), (at, frame.len() as u64), (0, at), ABSENT];
    Meta {
        codecs: r#",{"name":"zstd","configuration":{"level":3,"checksum":false}}"#,
        ..Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8]))
    }
    .write(scratch, name, Some(&shard_bytes(&payload, &entries)))
}

fn check_frame(name: &str, frame: &[u8]) {
    let scratch = Scratch::new();
    let uri = zstd_array(&scratch, name, frame);
    let chunk = Some(vec![0, 1]);
    let span = (vec![0, 4], vec![4, 8]);
    check(&scratch, &Bad { uri: uri.clone(), span, status: Status::Decode, chunk, says: "zstd" });
    stream(&u16_config(&[4, 4], 1), &[Job::new(&uri, (vec![4, 0], vec![8, 4]), vec![9; 32])]);
}

#[test]
fn a_zstd_frame_of_the_right_size_is_read() {
    let data: Vec<u8> = (1..=32).collect();
    for frame in [zstd::encode_all(&data[..], 3).expect("a frame"), zstd_unsized(&data)] {
        let scratch = Scratch::new();
        let uri = zstd_array(&scratch, "sound", &frame);
        let job = Job::new(&uri, (vec![0, 4], vec![4, 8]), data.clone());
        stream(&u16_config(&[4, 4], 1), &[job]);
    }
}

#[test]
fn a_zstd_frame_that_decodes_to_too_little_is_damaged() {
    for bytes in [0usize, 1, 31] {
        check_frame("sized", &zstd::encode_all(&vec![5u8; bytes][..], 3).expect("a frame"));
        check_frame("unsized", &zstd_unsized(&vec![5u8; bytes]));
    }
}

#[test]
fn a_zstd_frame_that_decodes_to_too_much_is_damaged() {
    for bytes in [33usize, 64, 5000] {
        check_frame("sized", &zstd::encode_all(&vec![5u8; bytes][..], 3).expect("a frame"));
        check_frame("unsized", &zstd_unsized(&vec![5u8; bytes]));
    }
}

#[test]
fn a_zstd_frame_of_256_mib_in_8_kib_is_damaged() {
    check_frame("claimed", &zstd_bomb(2048, Some(256 << 20)));
    check_frame("unclaimed", &zstd_bomb(2048, None));
    check_frame("lying", &zstd_bomb(2048, Some(32)));
}

#[test]
fn bytes_behind_a_zstd_frame_are_damage() {
    let sound = zstd::encode_all(&[5u8; 32][..], 3).expect("a frame");
    check_frame("garbage", &[&sound[..], b"garbage"].concat());
    check_frame("second", &[&sound[..], &sound[..]].concat());
}

#[test]
fn a_truncated_zstd_frame_is_damaged_at_any_length() {
    let data: Vec<u8> = (1..=32).collect();
    let frame = zstd::encode_all(&data[..], 3).expect("a frame");
    for length in 1..frame.len() {
        let scratch = Scratch::new();
        let uri = zstd_array(&scratch, "cut", &frame[..length]);
        let loader = open(&u16_config(&[4, 4], 1));
        let job = Job::failing(&uri, (vec![0, 4], vec![4, 8]), Status::Decode);
        let (_, failure) = first_failure(&loader, &[job]);
        assert_eq!(failure.status, Status::Decode, "{length}: {failure}");
    }
}

#[test]
fn an_uncompressed_chunk_of_a_wrong_length_is_damaged() {
    for length in [1, 31, 33, 64] {
        let scratch = Scratch::new();
        let meta = Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8]));
        let entries = [(0, length), ABSENT, ABSENT, ABSENT];
        let shard = shard_bytes(&[6; 128], &entries);
        let uri = meta.write(&scratch, "length", Some(&shard));
        let span = (vec![0, 0], vec![4, 4]);
        let chunk = Some(vec![0, 0]);
        check(&scratch, &Bad { uri, span, status: Status::Decode, chunk, says: "" });
    }
    for length in [0usize, 31, 33] {
        let scratch = Scratch::new();
        let meta = Meta::u16(&[8, 8], &[4, 4], None);
        let uri = meta.write(&scratch, "plain", Some(&vec![6; length]));
        let span = (vec![0, 0], vec![1, 2]);
        let chunk = Some(vec![0, 0]);
        check(&scratch, &Bad { uri, span, status: Status::Decode, chunk, says: "" });
    }
}
