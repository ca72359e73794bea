//! A box outside its array reads as numpy.pad says, in every mode and rank; where the mode has no
//! answer it is refused.

use crate::common::drive::{
    Dice, Job, PATIENCE_NS, Span, config, first_failure, open, stream, stream_boxes,
};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::oracle::{Image, Pad, cast};
use crate::common::synth::Meta;
use std::sync::Arc;
use wavetrain::config::{Config, PAD_CONSTANT, PAD_EDGE, PAD_NONE, PAD_REFLECT};
use wavetrain::loader::Loader;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// The store as f32, so that pad_value and pixels have one type.
fn as_f32(store: &Store) -> Image {
    let image = &store.image;
    let pixels = cast(image.dtype, Dtype::F32, &image.pixels);
    let fill = cast(image.dtype, Dtype::F32, &image.fill);
    Image::new(Dtype::F32, image.shape.clone(), Arc::new(pixels), fill)
}

fn padding(shape: &[u64], samples_per_batch: usize, mode: u32) -> Config {
    Config { pad_mode: mode, ..config(Dtype::F32, shape, samples_per_batch) }
}

/// Boxes of `extents` that reach up to `reach` elements past every face of the array; those that
/// `keep` accepts.
fn random_spans(
    shape: &[u64],
    extents: &[u64],
    reach: i64,
    count: usize,
    keep: impl Fn(i64, i64, i64) -> bool,
) -> Vec<Span> {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1 ^ shape.len() as u64);
    let mut spans = Vec::new();
    while spans.len() < count {
        let span: Span = (0..shape.len())
            .map(|axis| {
                let (n, length) = (shape[axis] as i64, extents[axis] as i64);
                let begin = dice.range(-reach - length, n + reach);
                (begin, begin + length)
            })
            .unzip();
        if (0..shape.len()).all(|axis| keep(span.0[axis], span.1[axis], shape[axis] as i64)) {
            spans.push(span);
        }
    }
    spans
}

/// Random boxes of ranks 1 to 4, smaller and larger than the array, against the oracle.
fn check_random(mode: u32, pad: Pad, outside: Option<f32>, keep: impl Fn(i64, i64, i64) -> bool) {
    for rank in 1..=4 {
        let rectilinear = ["rect_1_list", "rect_2_mixed", "zr_shard_3", "zr_4_list"][rank - 1];
        let regular = |dtype| format!("rank{rank}_{dtype}");
        let names = [(regular("u16"), false), (regular("f32"), true), (rectilinear.into(), true)];
        for (name, large) in names {
            let store = fixtures::store(&name);
            let image = as_f32(store);
            let extents: Vec<u64> =
                image.shape.iter().map(|n| if large { n + 7 } else { n / 2 + 1 }).collect();
            let mut config = padding(&extents, 4, mode);
            config.pad_value_set = u32::from(outside.is_some());
            config.pad_value = outside.unwrap_or(0.0).into();
            let element = outside.map_or(image.fill.clone(), |x| x.to_le_bytes().to_vec());
            let job = |span: Span| {
                let want = image.crop(&span.0, &span.1, pad, &element);
                Job::new(&store.uri, span, want)
            };
            let spans = random_spans(&image.shape, &extents, 6, 14, &keep);
            stream(&config, &spans.into_iter().map(job).collect::<Vec<_>>());
        }
    }
}

#[test]
fn constant_padding_takes_pad_value() {
    check_random(PAD_CONSTANT, Pad::Constant, Some(-3.5), |_, _, _| true);
}

#[test]
fn constant_padding_without_pad_value_takes_the_fill_of_the_array() {
    check_random(PAD_CONSTANT, Pad::Constant, None, |_, _, _| true);
}

#[test]
fn edge_padding_repeats_the_nearest_element() {
    check_random(PAD_EDGE, Pad::Edge, None, |_, _, _| true);
}

#[test]
fn reflect_padding_mirrors_without_the_edge() {
    check_random(PAD_REFLECT, Pad::Reflect, None, |begin, end, n| begin < n && end > 0);
}

#[test]
fn reflect_padding_mirrors_as_often_as_it_must() {
    let store = fixtures::store("rank4_f32");
    let image = as_f32(store);
    let span = (vec![-20, -3, -40, -11], vec![14, 19, 33, 12]);
    let want = image.crop(&span.0, &span.1, Pad::Reflect, &[]);
    let job = Job::new(&store.uri, span, want);
    stream(&padding(&job.extents(), 1, PAD_REFLECT), &[job]);
}

#[test]
fn reflect_padding_of_an_axis_of_one_element_repeats_it() {
    let store = fixtures::store("variant_one_element_axis");
    let image = as_f32(store);
    let span = (vec![2, -2, -1], vec![6, 3, 5]);
    let want = image.crop(&span.0, &span.1, Pad::Reflect, &[]);
    let job = Job::new(&store.uri, span, want);
    stream(&padding(&job.extents(), 1, PAD_REFLECT), &[job]);
}

#[test]
fn padding_works_on_bit_copies_of_every_type() {
    for store in fixtures::family("matrix").filter(|store| store.name.ends_with("zstd_shard")) {
        let image = &store.image;
        let span: Span = image.shape.iter().map(|&n| (-2, n as i64 + 1)).unzip();
        for (mode, pad) in
            [(PAD_CONSTANT, Pad::Constant), (PAD_EDGE, Pad::Edge), (PAD_REFLECT, Pad::Reflect)]
        {
            let want = image.crop(&span.0, &span.1, pad, &image.fill);
            let job = Job::new(&store.uri, span.clone(), want);
            let config = Config { pad_mode: mode, ..config(image.dtype, &job.extents(), 1) };
            stream(&config, &[job]);
        }
    }
}

#[test]
fn any_pad_mode_leaves_boxes_inside_alone() {
    for mode in [PAD_NONE, PAD_CONSTANT, PAD_EDGE, PAD_REFLECT] {
        let store = fixtures::store("rank3_f32");
        let image = as_f32(store);
        let spans =
            random_spans(&image.shape, &[4, 5, 3], 0, 9, |begin, end, n| begin >= 0 && end <= n);
        let jobs: Vec<Job> =
            spans.into_iter().map(|span| Job::of(store, span, Dtype::F32)).collect();
        stream(&padding(&[4, 5, 3], 3, mode), &jobs);
    }
}

/// Boxes of 4 x 6 far outside a 37 x 29 array, the numbers that overflow most easily among them.
fn far_spans() -> Vec<Span> {
    vec![
        (vec![-9, -9], vec![-5, -3]),
        (vec![37, 0], vec![41, 6]),
        (vec![10, 29], vec![14, 35]),
        (vec![1_000_000_000_000, -5], vec![1_000_000_000_004, 1]),
        (vec![i64::MIN, 3], vec![i64::MIN + 4, 9]),
        (vec![i64::MAX - 4, i64::MIN], vec![i64::MAX, i64::MIN + 6]),
    ]
}

#[test]
fn a_box_wholly_outside_is_legal_for_constant_and_edge() {
    let store = fixtures::store("rank2_u16");
    let image = as_f32(store);
    for (mode, pad) in [(PAD_CONSTANT, Pad::Constant), (PAD_EDGE, Pad::Edge)] {
        let jobs: Vec<Job> = far_spans()
            .into_iter()
            .map(|span| {
                let want = image.crop(&span.0, &span.1, pad, &image.fill);
                Job::new(&store.uri, span, want)
            })
            .collect();
        stream(&padding(&[4, 6], 4, mode), &jobs);
    }
}

#[test]
fn a_box_wholly_outside_is_refused_for_reflect() {
    let store = fixtures::store("rank2_u16");
    for span in far_spans() {
        let loader = open(&padding(&[4, 6], 1, PAD_REFLECT));
        let (before, failure) =
            first_failure(&loader, &[Job::failing(&store.uri, span, Status::Invalid)]);
        assert_eq!((before, failure.status), (0, Status::Invalid), "{failure}");
        assert!(failure.text.as_str().contains(&store.uri), "{failure}");
    }
}

#[test]
fn a_box_that_reaches_outside_is_refused_without_a_pad_mode() {
    let store = fixtures::store("rank2_u16");
    let out_by_one = [
        (vec![-1, 0], vec![3, 6]),
        (vec![0, -1], vec![4, 5]),
        (vec![34, 0], vec![38, 6]),
        (vec![33, 24], vec![37, 30]),
    ];
    for span in out_by_one.into_iter().chain(far_spans()) {
        let loader = open(&padding(&[4, 6], 1, PAD_NONE));
        let (before, failure) =
            first_failure(&loader, &[Job::failing(&store.uri, span, Status::Invalid)]);
        assert_eq!((before, failure.status), (0, Status::Invalid), "{failure}");
        assert!(failure.text.as_str().contains(&store.uri), "{failure}");
    }
    let inside = |_: &Store| vec![(vec![33, 23], vec![37, 29])];
    stream_boxes([store].into_iter(), inside, Some(Dtype::F32));
}

#[test]
fn padding_and_missing_chunks_are_two_things() {
    let scratch = Scratch::new();
    let uri = Meta { fill: "42", ..Meta::u16(&[6, 6], &[2, 2], Some(&[4, 4])) }
        .write(&scratch, "missing", None);
    let image = Image::new(
        Dtype::F32,
        vec![6, 6],
        Arc::new(42f32.to_le_bytes().repeat(36)),
        42f32.to_le_bytes().to_vec(),
    );
    let span = (vec![-2, 3], vec![3, 8]);
    let want = image.crop(&span.0, &span.1, Pad::Constant, &9f32.to_le_bytes());
    let config = Config { pad_value_set: 1, pad_value: 9.0, ..padding(&[5, 5], 1, PAD_CONSTANT) };
    stream(&config, &[Job::new(&uri, span, want)]);
}

#[test]
fn a_dropped_axis_may_lie_outside() {
    let store = fixtures::store("rank3_f32");
    let image = as_f32(store);
    for (mode, pad) in [(PAD_CONSTANT, Pad::Constant), (PAD_EDGE, Pad::Edge)] {
        let span = (vec![-1, 2, 1], vec![0, 8, 7]);
        let want = image.crop(&span.0, &span.1, pad, &image.fill);
        stream(&padding(&[6, 6], 1, mode), &[Job::new(&store.uri, span, want)]);
    }
}

#[test]
fn an_array_without_elements_is_all_padding() {
    let scratch = Scratch::new();
    let meta = Meta::u16(&[0, 5], &[2, 2], Some(&[4, 4]));
    let uri = meta.write(&scratch, "empty", None);
    let span = (vec![-1, 1], vec![2, 3]);
    let want = 7f32.to_le_bytes().repeat(6);
    stream(&padding(&[3, 2], 1, PAD_CONSTANT), &[Job::new(&uri, span.clone(), want)]);
    for mode in [PAD_EDGE, PAD_REFLECT, PAD_NONE] {
        let loader = open(&padding(&[3, 2], 1, mode));
        let job = Job::failing(&uri, span.clone(), Status::Invalid);
        let (_, failure) = first_failure(&loader, &[job]);
        assert_eq!(failure.status, Status::Invalid, "{failure}");
    }
}

#[test]
fn a_pad_value_that_the_output_type_cannot_hold_is_refused_at_open() {
    for (dtype, value) in [(Dtype::U8, 256.0), (Dtype::I16, 0.5), (Dtype::U16, -1.0)] {
        let mut config = Config {
            pad_value_set: 1,
            pad_value: value,
            pad_mode: PAD_CONSTANT,
            ..config(dtype, &[4], 1)
        };
        let failure = Loader::open(&config).err().expect("refused");
        assert_eq!(failure.status, Status::Invalid);
        assert!(failure.text.as_str().contains("pad_value"), "{failure}");
        config.pad_value = 1.0;
        open(&config).close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
