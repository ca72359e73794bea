//! Elements of few bits, as tensorstore and zarrs write them: as the type that holds them, and as
//! every type that this one becomes, on each backend.

use crate::common::drive::{Job, config, stream, stream_boxes};
use crate::common::fixtures::{self, Store};
use crate::common::oracle::clamped;
use wavetrain::config::Config;
use wavetrain::records::Dtype;

fn stores() -> Vec<&'static Store> {
    let stores: Vec<&Store> = fixtures::family("small").collect();
    assert_eq!(stores.len(), 30);
    stores
}

type Span = (Vec<i64>, Vec<i64>);

/// The whole, and boxes across the borders of chunks.
fn spans(store: &Store) -> Vec<Span> {
    let [rows, columns] = [0, 1].map(|axis| store.image.shape[axis] as i64);
    let inner = |row: i64, column: i64| (vec![row, column], vec![row + 8, column + 10]);
    vec![(vec![0, 0], vec![rows, columns]), inner(0, 0), inner(3, 4), inner(rows - 8, columns - 10)]
}

#[test]
fn elements_of_few_bits_are_those_of_the_type_that_holds_them() {
    let stores = stores();
    assert_eq!(stream_boxes(stores.iter().copied(), spans, None), 4 * stores.len());
}

#[test]
fn they_become_floats_and_wider_integers() {
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::I32, Dtype::I64] {
        assert!(stream_boxes(stores().into_iter(), spans, Some(dtype)) > 0);
    }
}

#[test]
fn floats_of_few_bits_become_integers_that_clamp() {
    for store in stores().iter().filter(|store| store.image.dtype == Dtype::F16) {
        for dtype in [Dtype::U8, Dtype::I8, Dtype::I32] {
            let jobs = spans(store).into_iter().skip(1).map(|span| {
                let source = store.image.inside(&span.0, &span.1);
                Job::new(&store.uri, span, clamped(Dtype::F16, dtype, &source))
            });
            let jobs: Vec<Job> = jobs.collect();
            stream(&Config { saturate: 1, ..config(dtype, &[8, 10], 2) }, &jobs);
        }
    }
}
