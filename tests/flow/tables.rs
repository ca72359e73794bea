//! Tables: their rows are the samples that push takes one by one, in bytes, tags, order and errors.

use crate::common::drive::PATIENCE_NS;
use crate::common::fixtures::Scratch;
use crate::common::npy;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::config::*;
use wavetrain::loader::{
    AffineMap, Augmentation, Column, Feed, Interpolation, Loader, Part, Pop, Rows, Sample, Source,
};
use wavetrain::records::Dtype;
use wavetrain::setup::field_table::FieldTable;
use wavetrain::status::Status;

const ROWS: usize = 103;
const BATCH: usize = 8;

/// What came out: tags, and the bytes of each field, batch by batch.
type Stream = Vec<(Vec<u64>, Vec<Vec<u8>>)>;

pub fn field(name: &str, dtype: Dtype, extents: &[u64]) -> FieldSpec {
    let mut field = FieldSpec { sample_rank: extents.len() as u32, ..FieldSpec::BLANK };
    field.name[..name.len()].copy_from_slice(name.as_bytes());
    field.sample_shape[..extents.len()].copy_from_slice(extents);
    FieldSpec { dtype: dtype as u32, pad_mode: PAD_REFLECT, ..field }
}

/// A loader of an image of two halves, a number and a few more of them.
fn open(lookahead: u32) -> Loader {
    let table = vec![
        field("x", Dtype::F32, &[4, 10]),
        field("y", Dtype::I64, &[]),
        field("z", Dtype::F32, &[2, 2]),
    ];
    let config = Config {
        fields: FieldTable::from_static(table.leak()),
        samples_per_batch: BATCH as u32,
        max_boxes_per_sample: 4,
        lookahead_samples: lookahead,
        backend: BACKEND_HOST,
        augment: 1,
        max_chunk_uncompressed_bytes: 1 << 20,
        max_host_memory_bytes: 40 << 20,
        ..Config::default()
    };
    Loader::open(&config).unwrap_or_else(|why| panic!("open: {why}"))
}

/// Two arrays of images, [40, 8, 12] of u16, and one of numbers.
fn arrays(scratch: &Scratch) -> [String; 3] {
    ["a", "b", "numbers"].map(|name| {
        let path = scratch.path(&format!("{name}.npy"));
        let seed = name.len() as u16 * 7 + u16::from(name.as_bytes()[0]);
        let (dtype, shape, data): (&str, &[u64], Vec<u8>) = match name {
            "numbers" => ("<i8", &[40], (0..40i64).flat_map(|n| (n * 31).to_le_bytes()).collect()),
            _ => {
                let value = |n: u16| n.wrapping_mul(seed).wrapping_add(n >> 3).to_le_bytes();
                ("<u2", &[40, 8, 12], (0..40 * 8 * 12).flat_map(value).collect())
            }
        };
        std::fs::write(&path, npy::file(dtype, false, shape, &data)).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

/// The numbers of a table and the samples that its rows are.
struct Table {
    uris: [String; 3],
    which: Vec<u32>,
    begins: Vec<i64>,
    steps: Vec<i64>,
    ats: Vec<u64>,
    halves: Vec<u64>,
    numbers: Vec<i64>,
    values: Vec<u8>,
    tags: Vec<u64>,
}

/// Places of each half of an image.
const HALF: [u64; 3] = [1, 4, 5];

impl Table {
    fn new(scratch: &Scratch) -> Table {
        let mut state = 1u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % limit) as i64
        };
        let mut table = Table {
            uris: arrays(scratch),
            which: Vec::new(),
            begins: Vec::new(),
            steps: Vec::new(),
            ats: Vec::new(),
            halves: Vec::new(),
            numbers: Vec::new(),
            values: Vec::new(),
            tags: Vec::new(),
        };
        for row in 0..ROWS as u64 {
            let step = [1, -1, 2, -2, 0][below(5) as usize];
            table.which.push(below(2) as u32);
            table.begins.extend([below(40), below(9) - 2, below(4)]);
            table.steps.extend([1, 1, step]);
            let swap = below(2) as u64 * 5;
            table.ats.extend([0, swap]);
            table.halves.extend([0, 5 - swap]);
            table.numbers.push(below(40));
            let bytes = (0..4).flat_map(|_| (below(1000) as f32).to_ne_bytes());
            table.values.extend(bytes.collect::<Vec<u8>>());
            table.tags.push(row * row);
        }
        table
    }

    /// Both halves of the image, the number, and the few.
    fn columns<'a>(&'a self, uris: &'a [&'a str], numbers: &'a [&'a str]) -> [Column<'a>; 4] {
        let left = Column {
            field: 0,
            rank: 3,
            source: Source::Uris(uris, Rows::Each(&self.which)),
            begin: Rows::Each(&self.begins),
            shape: Rows::One(&HALF),
            step: Rows::Each(&self.steps),
            at: Rows::Each(&self.ats),
            augment: Rows::None,
            affine: Rows::None,
        };
        // In no steps, from one array, to where the other half is not.
        let right = Column {
            source: Source::Uris(uris, Rows::One(&[1])),
            begin: Rows::One(&[39, 4, 7]),
            step: Rows::None,
            at: Rows::Each(&self.halves),
            ..left
        };
        let (step, at) = (Rows::None, Rows::None);
        let number = Column {
            field: 1,
            rank: 1,
            source: Source::Uris(numbers, Rows::None),
            begin: Rows::Each(&self.numbers),
            shape: Rows::One(&[1]),
            step,
            at,
            augment: Rows::None,
            affine: Rows::None,
        };
        let few = Column {
            field: 2,
            rank: 2,
            source: Source::Values(Dtype::F32, 16, Rows::Each(&self.values)),
            begin: Rows::None,
            shape: Rows::One(&[2, 2]),
            step,
            at,
            augment: Rows::None,
            affine: Rows::None,
        };
        [left, right, number, few]
    }

    fn push_one(&self, loader: &Loader, row: usize) -> Result<(), wavetrain::loader::Failure> {
        let begin = &self.begins[3 * row..][..3];
        let step = &self.steps[3 * row..][..3];
        let span = 4 * step[2].abs().max(1) + 1;
        let end = [begin[0] + 1, begin[1] + 4, begin[2] + span];
        let uri = &self.uris[self.which[row] as usize];
        let at = &self.ats[2 * row..][..2];
        let left = Part { uri, begin, end: &end, step, at, ..Part::default() };
        let at = [0, 5 - at[1]];
        let (uri, begin, end) = (&self.uris[1], &[39, 4, 7], &[40, 8, 12]);
        let right = Part { uri, begin, end, at: &at, ..Part::default() };
        let (begin, end) = (&[self.numbers[row]], &[self.numbers[row] + 1]);
        let number = Part { uri: &self.uris[2], begin, end, field: 1, ..Part::default() };
        let feed = Feed::Value(Dtype::F32, &[2, 2], &self.values[16 * row..][..16]);
        let few = Part { feed, begin: &[0, 0], end: &[2, 2], field: 2, ..Part::default() };
        let sample = Sample { parts: &[left, right, number, few], tag: self.tags[row] };
        loader.push_samples(&[sample], PATIENCE_NS).1
    }
}

fn popped(loader: &Loader, stream: &mut Stream, timeout_ns: u64) -> bool {
    match loader.pop(timeout_ns).unwrap_or_else(|why| panic!("pop: {why}")) {
        Pop::Batch(batch) => {
            let fields = (0..3).map(|field| {
                let field = batch.field(field).unwrap();
                let mut bytes = vec![0xA5; field.bytes() as usize];
                field.copy_to(&mut bytes).unwrap();
                bytes
            });
            stream.push((batch.tags().to_vec(), fields.collect()));
            true
        }
        Pop::Starved(why) | Pop::Again(why) if timeout_ns > 0 => panic!("{}", why.as_str()),
        _ => false,
    }
}

fn drained(loader: &Loader, mut stream: Stream) -> Stream {
    loader.flush().unwrap();
    while popped(loader, &mut stream, PATIENCE_NS) {}
    stream
}

#[test]
fn rows_are_the_same_samples_as_their_boxes_pushed_one_by_one() {
    let scratch = Scratch::new();
    let table = Table::new(&scratch);
    let loader = open(ROWS as u32 + 1);
    for row in 0..ROWS {
        table.push_one(&loader, row).unwrap_or_else(|why| panic!("row {row}: {why}"));
    }
    let want = drained(&loader, Stream::new());
    let (uris, numbers) = (table.uris.each_ref().map(String::as_str), [&table.uris[2][..]]);
    let columns = table.columns(&uris, &numbers);
    let tags = Rows::Each(&table.tags[..]);
    let (taken, result) = loader.push_table(&columns, ROWS, tags, 0);
    assert!(taken == ROWS && result.is_ok());
    assert_eq!(drained(&loader, Stream::new()), want);

    // A queue that is full takes as many rows as it has room for; the caller goes on behind them.
    let loader = open(BATCH as u32);
    let (mut first, mut calls, mut stream) = (0, 0, Stream::new());
    while first < ROWS {
        let rest = columns.map(|column| from_row(&column, first));
        let tags = Rows::Each(&table.tags[first..]);
        let (taken, result) = loader.push_table(&rest, ROWS - first, tags, 0);
        result.unwrap_or_else(|why| panic!("row {first}+{taken}: {why}"));
        (first, calls) = (first + taken, calls + 1);
        while popped(&loader, &mut stream, 0) {}
    }
    assert!(calls > 1, "the queue was never full");
    assert_eq!(drained(&loader, stream), want);
}

/// Maps of image rows: halves of voxels, turned, and each row another way.
fn map_of(row: usize) -> AffineMap<'static> {
    let (turn, shift) = (row as f64 / 8.0 - 6.0, (row % 5) as f64 / 2.0 - 1.0);
    let matrix = [[0.5, turn / 16.0, 0.0, shift], [-0.25, 1.5, 0.0, 3.0 - shift], [0.0; 4]];
    let filter = [Interpolation::Linear, Interpolation::Nearest][row % 2];
    AffineMap { axes: &[1, 2], matrix, filter, ..AffineMap::default() }
}

#[test]
fn rows_have_maps_of_their_own_or_one_as_boxes_do() {
    let scratch = Scratch::new();
    let uris = arrays(&scratch);
    let loader = open(ROWS as u32 + 1);
    let maps: Vec<_> = (0..ROWS).map(map_of).collect();
    let begins: Vec<i64> = (0..ROWS as i64).flat_map(|row| [row % 40, 0, 0]).collect();
    let tags: Vec<u64> = (0..ROWS as u64).collect();
    let scaled = |scale| Augmentation { channels: 1, scale, ..Augmentation::default() };
    let scaled: Vec<_> = [&[0.5f32], &[2.0]].map(|scale| scaled(scale)).repeat(ROWS);
    let mut streams: Vec<Stream> = Vec::new();
    for (affine, augment) in [
        (Rows::Each(&maps[..]), Rows::None),
        (Rows::One(&maps[3..4]), Rows::Each(&scaled[..])),
        (Rows::Each(&maps[..]), Rows::One(&scaled[1..2])),
    ] {
        for row in 0..ROWS {
            let begin = &begins[3 * row..][..3];
            let end = &[begin[0] + 1, 4, 10];
            let (affine, augment) = (row_of(&affine, row), row_of(&augment, row));
            let part = Part { uri: &uris[0], begin, end, affine, augment, ..Part::default() };
            let sample = Sample { parts: &[part], tag: tags[row] };
            let result = loader.push_samples(&[sample], PATIENCE_NS).1;
            result.unwrap_or_else(|why| panic!("row {row}: {why}"));
        }
        let want = drained(&loader, Stream::new());
        let column = Column {
            field: 0,
            rank: 3,
            source: Source::Uris(&[&uris[0]], Rows::None),
            begin: Rows::Each(&begins),
            shape: Rows::One(&[1, 4, 10]),
            step: Rows::None,
            at: Rows::None,
            augment,
            affine,
        };
        let (taken, result) = loader.push_table(&[column], ROWS, Rows::Each(&tags), 0);
        assert!(taken == ROWS && result.is_ok());
        assert_eq!(drained(&loader, Stream::new()), want);
        assert!(!streams.contains(&want));
        streams.push(want);
    }
}

#[test]
fn values_of_rows_have_maps_too() {
    let loader = open(ROWS as u32 + 1);
    let values: Vec<f32> = (0..4 * ROWS).map(|at| (at * at % 1009) as f32).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    // The transposed square, half a voxel further down.
    let matrix = [[0.0, 1.0, 0.0, 0.5], [1.0, 0.0, 0.0, 0.0], [0.0; 4]];
    let filter = Interpolation::Linear;
    let map = [AffineMap { axes: &[0, 1], matrix, filter, ..AffineMap::default() }];
    let tags: Vec<u64> = (0..ROWS as u64).collect();
    let column = Column {
        field: 2,
        rank: 2,
        source: Source::Values(Dtype::F32, 16, Rows::Each(&bytes)),
        begin: Rows::None,
        shape: Rows::One(&[2, 2]),
        step: Rows::None,
        at: Rows::None,
        augment: Rows::None,
        affine: Rows::One(&map),
    };
    let (taken, result) = loader.push_table(&[column], ROWS, Rows::Each(&tags), 0);
    result.unwrap_or_else(|why| panic!("row {taken}: {why}"));
    let mut found = Vec::new();
    for (_, fields) in drained(&loader, Stream::new()) {
        found.extend(fields[2].as_chunks::<4>().0.iter().map(|word| f32::from_ne_bytes(*word)));
    }
    let between = |a: f32, b: f32| a + (b - a) * 0.5;
    let wanted = values.as_chunks::<4>().0.iter().flat_map(|[a, b, c, d]| {
        // Half a voxel outside is mirrored to half a voxel inside.
        [between(*a, *c), between(*a, *c), between(*b, *d), between(*b, *d)]
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

/// The item of a row.
fn row_of<T: Copy>(rows: &Rows<'_, T>, row: usize) -> Option<T> {
    match rows {
        Rows::None => None,
        Rows::One(one) => Some(one[0]),
        Rows::Each(all) => Some(all[row]),
    }
}

/// The rows of a column from one on.
fn from_row<'a>(column: &Column<'a>, row: usize) -> Column<'a> {
    fn skip<'a, T>(rows: &Rows<'a, T>, items: usize) -> Rows<'a, T> {
        match rows {
            Rows::Each(all) => Rows::Each(&all[items..]),
            Rows::One(one) => Rows::One(one),
            Rows::None => Rows::None,
        }
    }
    let source = match &column.source {
        Source::Uris(uris, which) => Source::Uris(uris, skip(which, row)),
        Source::Values(dtype, bytes, values) => {
            Source::Values(*dtype, *bytes, skip(values, row * bytes))
        }
    };
    let (begin, shape) = (skip(&column.begin, row * column.rank), column.shape);
    let (step, at) = (skip(&column.step, row * column.rank), skip(&column.at, row * 2));
    Column { source, begin, shape, step, at, ..*column }
}

#[test]
fn a_wrong_row_ends_a_push_behind_those_before_it() {
    let scratch = Scratch::new();
    let table = Table::new(&scratch);
    let (uris, numbers) = (table.uris.each_ref().map(String::as_str), [&table.uris[2][..]]);
    let columns = table.columns(&uris, &numbers);
    let tags = Rows::Each(&table.tags[..]);
    let wrong = |change: &dyn Fn(&mut [Column<'_>; 4]), row: usize, status: Status, text: &str| {
        let loader = open(ROWS as u32 + 1);
        let mut columns = columns;
        change(&mut columns);
        let (taken, result) = loader.push_table(&columns, ROWS, tags, 0);
        let failure = result.unwrap_err();
        assert_eq!((taken, failure.status, failure.tag), (row, status, table.tags[row]));
        assert_eq!(failure.text.as_str(), format!("row {row}: {text}"));
        let tags: Vec<u64> =
            drained(&loader, Stream::new()).into_iter().flat_map(|(tags, _)| tags).collect();
        assert_eq!(tags, table.tags[..row], "{text}");
    };
    let mut shapes = HALF.repeat(ROWS);
    shapes[3 * 50 + 1] = 0;
    let at = table.begins[3 * 50 + 1];
    let text = format!("column 0: axis 1: box [{at}, {at}) is empty");
    wrong(&|c| c[0].shape = Rows::Each(shapes.clone().leak()), 50, Status::Invalid, &text);
    let mut begins = table.begins.clone();
    begins[3 * 20] = i64::MAX;
    let text = "column 0: axis 0: 1 places from 9223372036854775807 on in steps of 1: no such box";
    wrong(&|c| c[0].begin = Rows::Each(begins.clone().leak()), 20, Status::Invalid, text);
    let mut which = table.which.clone();
    which[ROWS - 1] = 3;
    let change = |c: &mut [Column<'_>; 4]| {
        let Source::Uris(uris, _) = columns[0].source else { unreachable!() };
        let uris: Vec<&'static str> = uris.iter().map(|uri| &*uri.to_string().leak()).collect();
        c[0].source = Source::Uris(uris.leak(), Rows::Each(which.clone().leak()));
    };
    let text = "column 0: which = 3: 3 uris, counted from 0";
    wrong(&change, ROWS - 1, Status::Invalid, text);
    let text = "column 1: at has 13 numbers: there must be 2 for each row";
    wrong(&|c| c[1].at = Rows::Each(table.halves[..13].to_vec().leak()), 6, Status::Invalid, text);
    let text = "column 0: begin is missing";
    wrong(&|c| c[0].begin = Rows::None, 0, Status::Invalid, text);
    let text = "column 3: field = 9: a batch has 3, counted from 0";
    wrong(&|c| c[3].field = 9, 0, Status::Invalid, text);
    let text = "column 2: a box of rank 17: must be 0 to 16";
    wrong(&|c| c[2].rank = 17, 0, Status::Rank, text);
    let text = "field x: boxes 0 and 1 overlap";
    wrong(&|c| c[1].at = c[0].at, 0, Status::Invalid, text);
    let text = "column 3: a value has no begin and step: it is whole";
    wrong(&|c| c[3].step = Rows::One(&[1, 1]), 0, Status::Invalid, text);
    let text = "column 3: a value of 16 bytes: must have those of its shape, at most 64";
    wrong(&|c| c[3].shape = Rows::One(&[2, 3]), 0, Status::Invalid, text);
}

#[test]
fn a_table_without_columns_or_rows_takes_nothing() {
    let loader = open(BATCH as u32);
    let (taken, result) = loader.push_table(&[], 0, Rows::None, 0);
    assert!(taken == 0 && result.is_ok());
    let (taken, result) = loader.push_table(&[], 2, Rows::None, 0);
    let failure = result.unwrap_err();
    let text = "row 0: a sample of 0 boxes: must have 1 to 4: raise max_boxes_per_sample";
    assert_eq!((taken, failure.text.as_str()), (0, text));
    let (taken, result) = loader.push_table(&[], 2, Rows::Each(&[]), 0);
    let text = "row 0: tags has 0 numbers: there must be 1 for each row";
    assert_eq!((taken, result.unwrap_err().text.as_str()), (0, text));
}
