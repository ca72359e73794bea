//! Damage in shards of shards, at either level: each gives a status and a text that names the
//! array, the chunk, its file and the inner shard, and costs nobody else anything.

use crate::common::damage::{Bad, check, outcomes, u16_config};
use crate::common::drive::{Job, Span, stream};
use crate::common::fixtures::Scratch;
use crate::common::layers::{IndexForm, Layer, Layered};
use crate::common::synth;
use std::fs;
use wavetrain::loader::array_info;
use wavetrain::status::Status;
use wavetrain::surface::info::SCRATCH_BYTES;

const INNER_BYTES: u64 = 100;

/// One file of 8 x 8 u16: four inner shards of 4 x 4, each of four chunks of 2 x 2 (8 bytes). An
/// inner shard has 32 bytes of chunks and 68 of index; so has the file behind 400 of them.
struct File {
    inner: [Vec<(u64, u64)>; 4],
    outer: Vec<(u64, u64)>,
}

impl File {
    fn sound() -> File {
        let entries = |bytes: u64| (0..4).map(|n| (n * bytes, bytes)).collect::<Vec<_>>();
        File { inner: std::array::from_fn(|_| entries(8)), outer: entries(INNER_BYTES) }
    }

    fn bytes(&self) -> Vec<u8> {
        let form = IndexForm::USUAL;
        let inner = |n: usize| [vec![n as u8 + 1; 32], form.index(&self.inner[n])].concat();
        [(0..4).flat_map(inner).collect(), form.index(&self.outer)].concat()
    }
}

fn store(scratch: &Scratch, name: &str, file: &[u8]) -> String {
    let layered = Layered {
        shape: vec![8, 8],
        cell: vec![8, 8],
        layers: vec![
            Layer::Shard(vec![4, 4], IndexForm::USUAL),
            Layer::Shard(vec![2, 2], IndexForm::USUAL),
        ],
        data_type: "\"uint16\"",
        fill: "7",
        tail: r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        pixel: &|_| vec![0, 0],
        encode: &|raw| raw,
        is_there: &|_| true,
    };
    let uri = layered.write(scratch, name);
    fs::write(scratch.path(name).join("c/0/0"), file).expect("the file");
    uri
}

/// The box of the chunk.
fn span(chunk: [i64; 2]) -> Span {
    (chunk.map(|at| at * 2).to_vec(), chunk.map(|at| at * 2 + 2).to_vec())
}

/// The chunk [2, 3], number 1 of inner shard 3, gives `says`; the first inner shard is sound.
fn refused_bytes(file: &[u8], says: &'static str) {
    let scratch = Scratch::new();
    let uri = store(&scratch, "damaged", file);
    let bad = Bad {
        uri: uri.clone(),
        span: span([2, 3]),
        status: Status::Decode,
        chunk: Some(vec![2, 3]),
        says,
    };
    check(&scratch, &bad);
    check(&scratch, &Bad { says: "chunk [2, 3] in c/0/0", ..bad });
}

fn refused(says: &'static str, damage: impl Fn(&mut File)) {
    let mut file = File::sound();
    damage(&mut file);
    refused_bytes(&file.bytes(), says);
    let scratch = Scratch::new();
    let uri = store(&scratch, "neighbour", &file.bytes());
    stream(&u16_config(&[2, 2], 1), &[Job::new(&uri, span([0, 1]), vec![1; 8])]);
}

#[test]
fn the_sound_file_is_read() {
    let scratch = Scratch::new();
    let uri = store(&scratch, "sound", &File::sound().bytes());
    let chunks = [([0, 0], 1), ([0, 3], 2), ([3, 1], 3), ([2, 3], 4)];
    let jobs = chunks.map(|(chunk, value)| Job::new(&uri, span(chunk), vec![value; 8]));
    stream(&u16_config(&[2, 2], 2), &jobs);
}

#[test]
fn an_inner_entry_past_its_shard_but_inside_the_file_is_damaged() {
    let says = "index of inner shard 3 (100 bytes at 300) entry (offset 100, 8 bytes) lies beyond";
    refused(says, |file| file.inner[3][1] = (100, 8));
    refused("lies beyond its shard of 100 bytes", |file| file.inner[3][1] = (160, 8));
}

#[test]
fn an_inner_entry_whose_end_overflows_is_damaged() {
    refused("lies beyond its shard of 100 bytes", |file| file.inner[3][1] = (u64::MAX - 3, 8));
    refused("lies beyond its shard of 100 bytes", |file| file.inner[3][1] = (8, u64::MAX - 3));
}

#[test]
fn a_half_empty_inner_entry_is_damaged() {
    refused("index of inner shard 3", |file| file.inner[3][1] = (u64::MAX, 8));
    refused("entry is half empty", |file| file.inner[3][1] = (8, u64::MAX));
}

#[test]
fn an_inner_entry_into_its_index_is_damaged() {
    let says = "entry (offset 28, 8 bytes) lies in the index itself, 68 bytes at 32";
    refused(says, |file| file.inner[3][1] = (28, 8));
}

#[test]
fn an_inner_entry_of_no_bytes_is_damaged() {
    refused("inner shard 3 (100 bytes at 300) entry at offset 8 has 0 bytes", |file| {
        file.inner[3][1] = (8, 0);
    });
}

#[test]
fn an_inner_entry_of_another_size_than_its_chunk_is_damaged() {
    refused("has 7 bytes where an uncompressed chunk has 8", |file| file.inner[3][1] = (8, 7));
    refused("has 9 bytes where an uncompressed chunk has 8", |file| file.inner[3][1] = (8, 9));
}

#[test]
fn an_inner_shard_shorter_than_its_index_is_damaged() {
    let says = "inner shard 3 of 67 bytes at 300 is shorter than its index of 68 bytes";
    refused(says, |file| file.outer[3] = (300, 67));
}

#[test]
fn an_inner_shard_that_ends_elsewhere_fails_its_crc() {
    refused("index of inner shard 3 (99 bytes at 300) crc mismatch", |file| {
        file.outer[3] = (300, 99);
    });
}

#[test]
fn a_flipped_bit_anywhere_in_an_inner_index_is_found() {
    let scratch = Scratch::new();
    let job = |at: usize| {
        let mut bytes = File::sound().bytes();
        bytes[at] ^= 1 << (at % 8);
        let uri = store(&scratch, &at.to_string(), &bytes);
        Job::failing(&uri, span([2, 3]), Status::Decode)
    };
    let jobs: Vec<Job> = (332..400).map(job).collect();
    for (n, (status, _)) in outcomes(&u16_config(&[2, 2], 4), &jobs).iter().enumerate() {
        assert_eq!(*status, Some(Status::Decode), "byte {n} of the inner index");
    }
}

#[test]
fn a_damaged_inner_index_is_told_with_its_shard() {
    let mut bytes = File::sound().bytes();
    bytes[340] ^= 4;
    refused_bytes(&bytes, "index of inner shard 3 (100 bytes at 300) crc mismatch in");
}

#[test]
fn a_damaged_index_around_inner_shards_is_told() {
    let mut bytes = File::sound().bytes();
    bytes[410] ^= 4;
    refused_bytes(&bytes, "shard index crc mismatch in");
}

#[test]
fn an_outer_entry_that_no_writer_makes_is_damaged() {
    refused(
        "shard index entry (offset 450, 100 bytes) lies beyond its shard of 468 bytes",
        |file| {
            file.outer[3] = (450, 100);
        },
    );
    refused("lies beyond its shard of 468 bytes", |file| file.outer[3] = (u64::MAX - 9, 100));
    refused("shard index entry is half empty", |file| file.outer[3] = (u64::MAX, 100));
    refused("shard index entry is half empty", |file| file.outer[3] = (300, u64::MAX));
    refused("lies in the index itself, 68 bytes at 400", |file| file.outer[3] = (301, 100));
    refused("shard index entry at offset 300 has 0 bytes", |file| file.outer[3] = (300, 0));
    refused("has 133 bytes where an inner shard of this array takes at most 132", |file| {
        file.outer[3] = (200, 133);
    });
}

#[test]
fn a_file_shorter_than_its_outer_index_is_damaged() {
    refused_bytes(&[3; 67], "shard of 67 bytes is shorter than its index of 68 bytes");
}

#[test]
fn an_outer_entry_of_two_empty_words_is_fill() {
    let mut file = File::sound();
    file.outer[3] = (u64::MAX, u64::MAX);
    file.inner[1][1] = (u64::MAX, u64::MAX);
    let scratch = Scratch::new();
    let uri = store(&scratch, "holes", &file.bytes());
    let fill = 7u16.to_le_bytes().repeat(4);
    let jobs = [
        Job::new(&uri, span([2, 3]), fill.clone()),
        Job::new(&uri, span([0, 3]), fill),
        Job::new(&uri, span([0, 2]), vec![2; 8]),
    ];
    stream(&u16_config(&[2, 2], 1), &jobs);
}

/// The refusal of an array of 2 axes in files of `grid` whose codecs are `layers` and `bytes`.
fn refused_metadata(grid: [u64; 2], layers: Vec<Layer>, says: &str) {
    let layered = Layered {
        shape: vec![1, 1],
        cell: grid.to_vec(),
        layers,
        data_type: "\"uint16\"",
        fill: "7",
        tail: r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        pixel: &|_| vec![0, 0],
        encode: &|raw| raw,
        is_there: &|_| false,
    };
    let scratch = Scratch::new();
    let uri = synth::write_text(&scratch, "array", &layered.metadata());
    let failure = array_info(&uri, &mut vec![0; SCRATCH_BYTES]).err().expect(says);
    assert!(matches!(failure.status, Status::Decode | Status::Unsupported), "{failure}");
    let text = failure.text.as_str();
    assert!(text.contains(&uri) && text.contains(says), "{says}: {text}");
}

fn shard(chunk: [u64; 2]) -> Layer {
    Layer::Shard(chunk.to_vec(), IndexForm::USUAL)
}

#[test]
fn chunks_that_do_not_divide_their_shard_are_refused_at_either_level() {
    refused_metadata(
        [8, 8],
        vec![shard([3, 4])],
        "chunks of [3, 4] do not divide shards of [8, 8]",
    );
    refused_metadata(
        [8, 8],
        vec![shard([4, 4]), shard([4, 3])],
        "chunks of [4, 3] do not divide shards of [4, 4]",
    );
    refused_metadata(
        [8, 4],
        vec![Layer::Transpose(vec![1, 0]), shard([8, 4])],
        "chunks of [8, 4] do not divide shards of [4, 8]",
    );
}

#[test]
fn more_than_2_to_the_30_entries_are_refused_at_either_level() {
    let (side, more) = (1 << 15, 1 << 16);
    refused_metadata([more, side], vec![shard([1, 1])], "more than 1073741824");
    refused_metadata([more, side], vec![shard([1, 1]), shard([1, 1])], "more than 1073741824");
    refused_metadata([more, side], vec![shard([more, side]), shard([1, 1])], "codecs[0]");
}

#[test]
fn a_fifth_level_is_refused_by_name() {
    let layers = Vec::from([8, 4, 2, 1, 1].map(|edge| shard([edge, edge])));
    refused_metadata([16, 16], layers, "more than 4 levels of shards are not read");
}

#[test]
fn an_order_that_is_no_permutation_is_refused() {
    for order in [vec![0, 2], vec![0, 0], vec![0], vec![0, 1, 2], vec![1, 1 << 40]] {
        refused_metadata([8, 8], vec![Layer::Transpose(order)], "does not name each of 2 axes");
    }
}

#[test]
fn an_inner_shard_of_2_to_the_30_missing_chunks_is_refused_by_its_length() {
    // The metadata is sound; the file would have to be 16 GiB.
    let layered = Layered {
        shape: vec![1 << 15, 1 << 15],
        cell: vec![1 << 15, 1 << 15],
        layers: vec![shard([1 << 15, 1 << 15]), shard([1, 1])],
        data_type: "\"uint16\"",
        fill: "7",
        tail: r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
        pixel: &|_| vec![0, 0],
        encode: &|raw| raw,
        is_there: &|_| false,
    };
    let scratch = Scratch::new();
    let uri = synth::write_text(&scratch, "array", &layered.metadata());
    fs::create_dir_all(scratch.path("array").join("c/0")).expect("folders");
    let file = [vec![1; 300], IndexForm::USUAL.index(&[(0, 300)])].concat();
    fs::write(scratch.path("array").join("c/0/0"), file).expect("the file");
    let chunk = Some(vec![5, 5]);
    let span = (vec![5, 5], vec![6, 6]);
    let says = "inner shard 0 of 300 bytes at 0 is shorter than its index of 17179869188 bytes";
    check(&scratch, &Bad { uri, span, status: Status::Decode, chunk, says });
}
