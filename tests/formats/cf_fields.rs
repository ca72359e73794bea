//! `cf = 1` of a field: its boxes read the numbers that their uris name with `#cf=1`, whichever
//! call they are given to. Arrays without attributes are refused, and what is fed stays as it is.

use super::cf::{spans, store, stores};
use crate::common::drive::{Job, PATIENCE_NS, config, open, stream};
use crate::common::fixtures::Scratch;
use std::fs;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::config::Config;
use wavetrain::loader::{
    Column, Feed, Loader, Part, Pop, Rows, SCRATCH_BYTES, Sample, Source, config_fit,
};
use wavetrain::records::{CF_MARK, Dtype};
use wavetrain::setup::field_table::FieldTable;
use wavetrain::status::{Failure, Status};

/// A uri without its mark.
fn bare(uri: &str) -> &str {
    uri.strip_suffix(CF_MARK).unwrap()
}

#[test]
fn a_config_with_cf_reads_what_marked_uris_name() {
    for (number, store) in stores("").into_iter().enumerate() {
        let dtype = [Dtype::F32, store.image.dtype, Dtype::F16, Dtype::Bf16][number % 4];
        for span in spans(&store) {
            let marked = Job::of(&store, span, dtype);
            let job = Job { uri: bare(&store.uri).to_string(), ..marked.clone() };
            let config = Config { cf: 1, ..config(dtype, &job.extents(), 1) };
            // A uri may have the mark as well: it is the same array.
            stream(&config, &[job, marked]);
        }
    }
}

fn field(name: &str, extents: &[u64], cf: u32) -> FieldSpec {
    let mut field = FieldSpec { dtype: Dtype::F64 as u32, cf, ..FieldSpec::BLANK };
    field.name[..name.len()].copy_from_slice(name.as_bytes());
    field.sample_shape[..extents.len()].copy_from_slice(extents);
    FieldSpec { sample_rank: extents.len() as u32, ..field }
}

/// A loader of two fields, the second of which has the cf.
fn two_fields(extents: &[u64], cf: u32) -> Loader {
    let fields = vec![field("stored", extents, 0), field("made", extents, cf)];
    let fields = FieldTable::from_static(fields.leak());
    let none = config(Dtype::F32, &[], 1);
    open(&Config { fields, n_readers: 1, max_boxes_per_sample: 2, ..none })
}

/// The bytes of both fields of the next batch.
fn popped(loader: &Loader) -> [Vec<u8>; 2] {
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => [0, 1].map(|field| batch.field(field).unwrap().data().to_vec()),
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
}

fn read(loader: &Loader, part: &Part<'_>, target: &mut [u8]) -> Result<(), Failure> {
    let place = (target.as_mut_ptr(), target.len() as u64);
    // SAFETY: nobody else has the target during the call.
    unsafe { loader.read_into(part, place, None, PATIENCE_NS) }
}

#[test]
fn two_fields_of_one_array_have_it_as_stored_and_decoded_in_every_call() {
    let store = store("v3/whole_scale");
    let (begin, end, extents) = ([3, 2], [11, 13], [8, 11]);
    let made = store.image.inside(&begin, &end);
    let numbers = made.as_chunks().0.iter().map(|number| f64::from_le_bytes(*number));
    let stored: Vec<u8> = numbers.flat_map(|number| ((number - 1.0) / 2.0).to_le_bytes()).collect();
    assert_ne!(stored, made);
    let (loader, uri) = (two_fields(&extents, 1), bare(&store.uri));
    let part = |field| Part { uri, begin: &begin, end: &end, field, ..Part::default() };
    let parts = [part(0), part(1)];
    let (taken, pushed) = loader.push_samples(&[Sample { parts: &parts, tag: 1 }], PATIENCE_NS);
    assert!(taken == 1 && pushed.is_ok());
    assert_eq!(popped(&loader), [stored.clone(), made.clone()]);
    let uris = [uri];
    let column = |field| Column {
        field,
        rank: 2,
        source: Source::Uris(&uris, Rows::None),
        begin: Rows::One(&[3, 2]),
        shape: Rows::One(&[8, 11]),
        step: Rows::None,
        at: Rows::None,
        augment: Rows::None,
        affine: Rows::None,
    };
    // The second row finds the names of the first.
    let columns = [column(1), column(0)];
    let (taken, pushed) = loader.push_table(&columns, 2, Rows::None, PATIENCE_NS);
    assert!(taken == 2 && pushed.is_ok());
    for _ in 0..2 {
        assert_eq!(popped(&loader), [stored.clone(), made.clone()]);
    }
    for (field, want) in [&stored, &made].into_iter().enumerate() {
        let mut target = vec![0xEE; want.len()];
        read(&loader, &part(field as u32), &mut target).unwrap();
        assert_eq!(&target, want);
    }
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn arrays_without_attributes_are_refused_by_push_and_what_is_fed_stays() {
    let scratch = Scratch::new();
    fs::write(scratch.path("a.npy"), b"no header is read").unwrap();
    let long = format!("/{}", "a/".repeat(2045) + "bcd");
    assert_eq!(long.len(), 4094);
    let loader = two_fields(&[3], 1);
    let no_attributes = "cf = 1 needs attributes, which only zarr arrays have";
    for (uri, status, says) in [
        (&*scratch.uri("a.npy"), Status::Unsupported, no_attributes),
        ("/nowhere/a_*.npy", Status::Unsupported, no_attributes),
        ("raw:/a?dtype=u1&shape=3", Status::Unsupported, no_attributes),
        ("hook:a", Status::Unsupported, no_attributes),
        ("hook:a#cf=1", Status::Unsupported, no_attributes),
        (&*long, Status::Invalid, "uri of 4099 bytes with the #cf=1 of cf = 1, limit 4095"),
    ] {
        let part = Part { uri, begin: &[0], end: &[3], field: 1, ..Part::default() };
        let (taken, pushed) = loader.push_samples(&[Sample { parts: &[part], tag: 7 }], 0);
        let failure = pushed.expect_err(uri);
        assert!(taken == 0 && failure.status == status && failure.tag == 7, "{failure}");
        assert!(failure.text.as_str().starts_with("field made: "), "{failure}");
        assert!(failure.text.as_str().contains(says), "{failure}");
        let failure = read(&loader, &part, &mut [0; 24]).expect_err(uri);
        assert!(failure.text.as_str().contains(says), "{failure}");
    }
    let bytes: Vec<u8> = [1f64, -32768.0, f64::NAN].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let feed = Feed::Value(Dtype::F64, &[3], &bytes);
    let part = Part { feed, begin: &[0], end: &[3], field: 1, ..Part::default() };
    let (taken, pushed) = loader.push_samples(&[Sample { parts: &[part], tag: 8 }], 0);
    assert!(taken == 1 && pushed.is_ok());
    assert_eq!(popped(&loader)[1], bytes);
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_cf_that_is_no_switch_is_refused_by_its_name() {
    let plain = config(Dtype::F64, &[3], 1);
    for (config, says) in [
        (Config { cf: 2, ..plain }, "cf = 2: must be 0 to 1"),
        (Config { fields: one("x", 2), ..config(Dtype::F32, &[], 1) }, "field x: cf = 2: must be"),
        (
            Config { fields: one("x", 1), cf: 1, ..config(Dtype::F32, &[], 1) },
            "cf is set, and so is fields: each field has its own cf",
        ),
    ] {
        let failure = Loader::open(&config).map(|_| ()).expect_err(says);
        assert_eq!(failure.status, Status::Invalid);
        assert!(failure.text.as_str().contains(says), "{failure}");
    }
}

fn one(name: &str, cf: u32) -> FieldTable {
    FieldTable::from_static(vec![field(name, &[3], cf)].leak())
}

#[test]
fn fit_makes_room_for_the_numbers_of_the_fields_that_decode() {
    let store = store("v3/i16");
    let uri = bare(&store.uri);
    let fitted = |plain: Config, uri: &str| {
        let mut config = Config { max_chunk_uncompressed_bytes: 1, ..plain };
        let fitted = config_fit(&mut config, &[uri], &mut vec![0; SCRATCH_BYTES]);
        fitted.map(|()| config.max_chunk_uncompressed_bytes)
    };
    let plain = Config { max_host_memory_bytes: 0, ..config(Dtype::F32, &[3], 1) };
    let decoding = Config { cf: 1, ..plain };
    let mixed = vec![field("x", &[3], 0), field("y", &[3], 1)];
    let mixed = Config { fields: FieldTable::from_static(mixed.leak()), ..plain };
    let mixed = Config { sample_rank: 0, sample_shape: [0; 16], ..mixed };
    let want = fitted(plain, &store.uri).unwrap();
    assert!(want > fitted(plain, uri).unwrap());
    assert_eq!(fitted(decoding, uri).unwrap(), want);
    assert_eq!(fitted(mixed, uri).unwrap(), want);
    // Another field may read what cannot be decoded.
    let raw = "raw:/dev/zero?dtype=u1&shape=3";
    let failure = fitted(decoding, raw).unwrap_err();
    assert!(failure.text.as_str().contains("only zarr arrays have: "), "{failure}");
    let of_stored = fitted(plain, raw).map_err(|failure| failure.status);
    assert_eq!(fitted(mixed, raw).map_err(|failure| failure.status), of_stored);
}

#[test]
fn forget_reaches_an_array_by_the_name_without_the_mark() {
    let scratch = Scratch::new();
    let store = store("v3/whole_scale");
    crate::common::fixtures::copy_folder(bare(&store.uri).as_ref(), &scratch.path("a"));
    let (uri, document) = (scratch.uri("a"), scratch.path("a/zarr.json"));
    let loader = two_fields(&[8, 11], 1);
    let part = Part { uri: &uri, begin: &[3, 2], end: &[11, 13], field: 1, ..Part::default() };
    let made = || {
        let mut target = vec![0; 8 * 11 * 8];
        read(&loader, &part, &mut target).unwrap();
        target
    };
    assert_eq!(made(), store.image.inside(&[3, 2], &[11, 13]));
    let text = fs::read_to_string(&document).unwrap();
    let other = text.replace("\"scale_factor\": 2", "\"scale_factor\": 4");
    assert_ne!(text, other, "{text}");
    fs::write(&document, other).unwrap();
    loader.forget(Some(&uri)).unwrap();
    assert_ne!(made(), store.image.inside(&[3, 2], &[11, 13]));
    loader.close(PATIENCE_NS).unwrap();
}
