//! The corners of zarr v3: extents of nothing and of one, short spellings, what may be ignored, and
//! what is refused by name before any data is read; all through the public API.

use crate::common::damage::{Bad, check, u16_config};
use crate::common::drive::{Job, config, stream};
use crate::common::fixtures::Scratch;
use crate::common::layers::{IndexForm, Layer, Layered};
use crate::common::synth::{Meta, write_text};
use wavetrain::abi::ArrayInfo;
use wavetrain::config::PAD_CONSTANT;
use wavetrain::loader::array_info;
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::info::SCRATCH_BYTES;

fn info(uri: &str) -> Result<ArrayInfo, (Status, String)> {
    let failure = |failure: wavetrain::loader::Failure| (failure.status, failure.text.to_string());
    array_info(uri, &mut vec![0; SCRATCH_BYTES]).map_err(failure)
}

/// What a document says of an array.
fn info_of(text: &str) -> Result<ArrayInfo, (Status, String)> {
    let scratch = Scratch::new();
    info(&write_text(&scratch, "array", text))
}

fn refused(text: &str, status: Status, says: &str) {
    let (found, text) = info_of(text).err().expect(says);
    assert_eq!(found, status, "{text}");
    assert!(text.contains(says), "{says}: {text}");
}

/// A sharded array in which `from` is replaced.
fn changed(from: &str, to: &str) -> String {
    let text = Meta::u16(&[8, 8], &[4, 4], Some(&[8, 8])).text();
    assert!(text.contains(from), "{from} in {text}");
    text.replace(from, to)
}

#[test]
fn an_array_smaller_than_its_chunk_is_read_at_every_level() {
    let scratch = Scratch::new();
    let pixels: Vec<u8> = (0..32).collect();
    let part = [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13];
    let span = || (vec![0, 0], vec![2, 3]);
    let shard = |chunk: [u64; 2]| Layer::Shard(chunk.to_vec(), IndexForm::USUAL);
    for (n, layers) in [
        vec![],
        vec![shard([4, 4])],
        vec![shard([8, 8]), shard([4, 4])],
        vec![
            Layer::Transpose(vec![1, 0]),
            shard([8, 8]),
            Layer::Transpose(vec![1, 0]),
            shard([4, 4]),
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let layered = Layered {
            shape: vec![2, 3],
            cell: if layers.is_empty() { vec![4, 4] } else { vec![16, 16] },
            layers,
            data_type: "\"uint16\"",
            fill: "7",
            tail: r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
            pixel: &|at| match (at[0] * 8 + at[1] * 2) as usize {
                place if at[0] < 4 && at[1] < 4 => pixels[place..place + 2].to_vec(),
                _ => vec![0xEE; 2],
            },
            encode: &|raw| raw,
            is_there: &|_| true,
        };
        let uri = layered.write(&scratch, &n.to_string());
        stream(&u16_config(&[2, 3], 1), &[Job::new(&uri, span(), part.to_vec())]);
    }
}

#[test]
fn chunks_of_one_element_are_read() {
    let scratch = Scratch::new();
    let meta = Meta::u16(&[1, 1], &[1, 1], None);
    let uri = meta.write(&scratch, "one", Some(&[3, 4]));
    stream(&u16_config(&[1, 1], 1), &[Job::new(&uri, (vec![0, 0], vec![1, 1]), vec![3, 4])]);
}

#[test]
fn an_extent_of_zero_has_padding_alone() {
    let scratch = Scratch::new();
    for (name, shard) in [("plain", None), ("shard", Some(&[8, 8][..]))] {
        let uri = Meta::u16(&[0, 8], &[4, 4], shard).write(&scratch, name, None);
        let found = info(&uri).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(found.shape[..2], [0, 8]);
        let mut config = config(Dtype::U16, &[2, 2], 1);
        config.pad_mode = PAD_CONSTANT;
        let fill = 7u16.to_le_bytes().repeat(4);
        stream(&config, &[Job::new(&uri, (vec![0, 3], vec![2, 5]), fill)]);
        let bad = Bad {
            uri,
            span: (vec![0, 0], vec![1, 1]),
            status: Status::Invalid,
            chunk: None,
            says: "axis 0: box [0, 1) of an extent of 0",
        };
        check(&scratch, &bad);
    }
}

#[test]
fn an_array_of_rank_0_is_described_and_has_a_box_without_axes_alone() {
    let scratch = Scratch::new();
    let uri = Meta::u16(&[], &[], None).write(&scratch, "scalar", None);
    let found = info(&uri).unwrap_or_else(|failure| panic!("{failure:?}"));
    assert_eq!((found.rank, found.dtype, found.chunk_bytes), (0, Dtype::U16 as u32, 2));
    let fill = Job::new(&uri, (vec![], vec![]), 7u16.to_le_bytes().to_vec());
    stream(&config(Dtype::U16, &[1], 1), &[fill]);
    let (span, says) = ((vec![0], vec![1]), "the box has 1 axes, the array 0: shape []");
    check(&scratch, &Bad { uri, span, status: Status::Rank, chunk: None, says });
    let shard = Meta::u16(&[], &[], Some(&[])).write(&scratch, "shard", None);
    assert_eq!(info(&shard).map(|info| info.shard_levels), Ok(1));
    let fill = Job::new(&shard, (vec![], vec![]), 7u16.to_le_bytes().to_vec());
    stream(&config(Dtype::U16, &[1], 1), &[fill]);
    let layered = r#"{"name":"transpose","configuration":{"order":[]}},{"name":"bytes""#;
    let turned = Meta::u16(&[], &[], None).text().replace(r#"{"name":"bytes""#, layered);
    assert!(info_of(&turned).is_ok());
}

#[test]
fn bare_names_stand_for_extensions_without_configuration() {
    for (from, to) in [
        (r#""data_type":"uint16""#, r#""data_type":{"name":"uint16"}"#),
        (r#"{"name":"default","configuration":{"separator":"/"}}"#, r#""default""#),
        (r#"{"name":"crc32c"}"#, r#""crc32c""#),
        (r#"{"name":"crc32c"}"#, r#"{"name":"crc32c","configuration":{}}"#),
    ] {
        assert!(info_of(&changed(from, to)).is_ok(), "{to}");
    }
    let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
    let eight = changed("uint16", "uint8").replacen(bytes, "\"bytes\"", 1);
    assert!(info_of(&eight).is_ok());
    for (from, to, says) in [
        (
            r#"{"name":"regular","configuration":{"chunk_shape":[8, 8]}}"#,
            "\"regular\"",
            "chunk_shape",
        ),
        (bytes, "\"bytes\"", "endian"),
    ] {
        refused(&changed(from, to), Status::Decode, says);
    }
}

/// Every extension point: where it is, and its value.
const POINTS: [(&str, &str); 5] = [
    ("data_type", r#""uint16""#),
    ("chunk_grid", r#"{"name":"regular","configuration":{"chunk_shape":[8, 8]}}"#),
    ("chunk_key_encoding", r#"{"name":"default","configuration":{"separator":"/"}}"#),
    ("codecs", r#"{"name":"bytes","configuration":{"endian":"little"}}"#),
    ("index_codecs", r#"{"name":"crc32c"}"#),
];

#[test]
fn must_understand_changes_nothing_for_what_is_known() {
    for (point, value) in POINTS {
        for word in ["true", "false"] {
            let body = match value.strip_prefix('{') {
                Some(body) => body.to_string(),
                None => format!("\"name\":{value}}}"),
            };
            let with = format!("{{\"must_understand\":{word},{body}");
            assert!(info_of(&changed(value, &with)).is_ok(), "{point}: {with}");
        }
        let with = format!("{{\"must_understand\":1,\"name\":{}}}", "\"x\"");
        refused(&changed(value, &with), Status::Decode, "must_understand");
    }
}

#[test]
fn must_understand_excuses_nothing_that_is_unknown() {
    for (point, value) in POINTS {
        for word in ["true", "false"] {
            let with = format!("{{\"name\":\"shiny.thing\",\"must_understand\":{word}}}");
            refused(&changed(value, &with), Status::Unsupported, "\"shiny.thing\"");
        }
        let more = r#"{"name":"shiny.thing","flavour":2}"#;
        refused(&changed(value, more), Status::Unsupported, "\"flavour\" = 2");
        assert!(!point.is_empty());
    }
}

#[test]
fn storage_transformers_are_refused_unless_there_are_none() {
    let with = |list: &str| {
        changed(
            "\"attributes\":{}",
            &format!("\"storage_transformers\":{list},\"attributes\":{{}}"),
        )
    };
    assert!(info_of(&with("[]")).is_ok());
    for list in [r#"["shiny"]"#, r#"[{"name":"shiny","must_understand":false}]"#] {
        refused(&with(list), Status::Unsupported, "storage transformer \"shiny\"");
    }
    refused(&with("{}"), Status::Decode, "storage_transformers");
}

#[test]
fn names_attributes_and_consolidated_metadata_say_nothing_about_the_data() {
    for member in [
        r#""dimension_names":["y",null]"#,
        r#""dimension_names":null"#,
        r#""consolidated_metadata":{"kind":"inline","must_understand":true,"metadata":{"x":[]}}"#,
        r#""consolidated_metadata":null"#,
        r#""attributes":{"shape":[1],"codecs":[]}"#,
        r#""shiny":{"must_understand":false,"codecs":[]}"#,
    ] {
        assert!(info_of(&changed("\"attributes\":{}", member)).is_ok(), "{member}");
    }
    for member in [r#""shiny":null"#, r#""shiny":{"must_understand":true}"#, r#""Shape":[1]"#] {
        let says = "is not known, and \"must_understand\" is not false: remove it";
        refused(&changed("\"attributes\":{}", member), Status::Unsupported, says);
    }
}

#[test]
fn whole_numbers_are_spelled_as_whole_numbers() {
    for (from, to) in [
        ("\"shape\":[8, 8]", "\"shape\":[8.0, 8]"),
        ("\"shape\":[8, 8]", "\"shape\":[8e0, 8]"),
        ("\"chunk_shape\":[8, 8]", "\"chunk_shape\":[8, 8.0]"),
        ("\"chunk_shape\":[4, 4]", "\"chunk_shape\":[4.0, 4]"),
        ("\"zarr_format\":3", "\"zarr_format\":3.0"),
        ("\"fill_value\":7", "\"fill_value\":7.5"),
        ("\"shape\":[8, 8]", "\"shape\":[\"8\", 8]"),
        ("\"shape\":[8, 8]", "\"shape\":[true, 8]"),
    ] {
        let (status, text) = info_of(&changed(from, to)).err().expect(to);
        assert_eq!(status, Status::Decode, "{to}: {text}");
    }
}

#[test]
fn numbers_beyond_their_range_are_refused() {
    let shard = |order: &str| {
        let bytes = r#"{"name":"bytes","configuration":{"endian":"little"}}"#;
        let turn = format!(r#"{{"name":"transpose","configuration":{{"order":{order}}}}},{bytes}"#);
        Meta::u16(&[8, 8], &[4, 4], None).text().replace(bytes, &turn)
    };
    assert!(info_of(&shard("[1,0]")).is_ok());
    for order in ["[0,18446744073709551616]", "[0,99999999999999999999999999]", "[0,1e400]"] {
        let (status, text) = info_of(&shard(order)).err().expect(order);
        assert!(matches!(status, Status::Decode | Status::Unsupported), "{order}: {text}");
    }
    for extent in ["9223372036854775808", "1e999", "-9223372036854775809"] {
        let text = changed("\"chunk_shape\":[4, 4]", &format!("\"chunk_shape\":[{extent}, 4]"));
        let (status, text) = info_of(&text).err().expect(extent);
        assert!(matches!(status, Status::Decode | Status::Unsupported), "{extent}: {text}");
    }
}

#[test]
fn types_without_numbers_are_copied_bit_for_bit() {
    for (data_type, fill, dtype, bytes) in [
        ("bool", "true", Dtype::Bool, 1),
        ("bfloat16", "0", Dtype::Bf16, 2),
        ("complex64", "[0,0]", Dtype::C64, 8),
        ("complex128", "[0,0]", Dtype::C128, 16),
        ("r8", "[1]", Dtype::Raw, 1),
        ("r40", "[1,2,3,4,5]", Dtype::Raw, 5),
        ("r128", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", Dtype::Raw, 16),
    ] {
        let scratch = Scratch::new();
        let meta = Meta { data_type, fill, ..Meta::u16(&[3, 2], &[3, 2], None) };
        let values =
            (0..6 * bytes as u8).map(|n| if bytes == 1 { n % 2 } else { 0xF9 ^ n.wrapping_mul(7) });
        let pixels: Vec<u8> = values.collect();
        let uri = meta.write(&scratch, "array", Some(&pixels));
        let job = || [Job::new(&uri, (vec![0, 0], vec![3, 2]), pixels.clone())];
        let mut raw = config(Dtype::Raw, &[3, 2], 1);
        raw.dtype_bytes = bytes;
        stream(&raw, &job());
        if dtype != Dtype::Raw {
            stream(&config(dtype, &[3, 2], 1), &job());
        }
    }
}

#[test]
fn types_that_are_no_plain_elements_are_refused_by_name() {
    for data_type in [
        "\"string\"",
        "\"variable_length_utf8\"",
        "\"variable_length_bytes\"",
        "\"bytes\"",
        r#"{"name":"numpy.datetime32","configuration":{"unit":"s","scale_factor":1}}"#,
        r#"{"name":"fixed_length_utf32","configuration":{"length_bytes":8}}"#,
        r#"{"name":"null_terminated_bytes","configuration":{"length_bytes":8}}"#,
    ] {
        let name = data_type.split('"').find(|part| part.len() > 4 && *part != "name");
        let text = changed("\"uint16\"", data_type);
        refused(&text, Status::Unsupported, &format!("data type \"{}\"", name.unwrap()));
    }
}
