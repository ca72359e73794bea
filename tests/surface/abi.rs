//! The header and the Rust structs are one ABI: names, order, offsets, sizes and values.
//!
//! A C program is made from the header's own names, compiled, run, and its answers are compared
//! with what the Rust compiler says. A struct, field or constant that only one side knows fails
//! too.

use crate::common::{cc, header};
use core::mem::{offset_of, size_of};
use std::collections::BTreeMap;
use wavetrain::abi::*;
use wavetrain::base::limits::{
    ERROR_TEXT_BYTES, FIELDS_MAX, RANK_MAX, SHORT_TEXT_BYTES, TENSORS_PER_SLOT, URI_BYTES_MAX,
};
use wavetrain::base::stats::STAGES;
use wavetrain::config::*;
use wavetrain::device::ByWorker;
use wavetrain::recipes::{Field as RecipeField, Motion, Room};
use wavetrain::records::{CODECS, DTYPES};
use wavetrain::sampler::{Cost, End, Place, Share, State};
use wavetrain::source::zarr::NodeKind;
use wavetrain::status;
use wavetrain::surface::c::draws::BoxesRecord;
use wavetrain::surface::c::epoch::{EpochRecord, EpochView, ShuffleRecord};
use wavetrain::surface::c::recipes::AugmentedRecord;

/// What both compilers must agree on: "wavetrain_box.rank" is its offset, "sizeof wavetrain_box" a
/// size, "WAVETRAIN_OK" a value.
type Facts = BTreeMap<String, i64>;

/// Name in C, size, and the fields with their offsets.
type Layout = (&'static str, usize, &'static [(&'static str, usize)]);

fn rust_layouts() -> [Layout; 32] {
    macro_rules! layouts {
        ($($rust:ident: $c:literal),+ $(,)?) => {
            [$(($c, size_of::<$rust>(), $rust::FIELDS)),+]
        };
    }
    layouts! {
        Error: "wavetrain_error",
        MemoryLine: "wavetrain_memory_line",
        Memory: "wavetrain_memory",
        SampleBox: "wavetrain_box",
        Erase: "wavetrain_erase",
        IndexList: "wavetrain_index_list",
        Augment: "wavetrain_augment",
        Affine: "wavetrain_affine",
        Sample: "wavetrain_sample",
        TableColumn: "wavetrain_column",
        Target: "wavetrain_target",
        FieldSpec: "wavetrain_field",
        Tensor: "wavetrain_tensor",
        BatchInfo: "wavetrain_batch_view",
        Event: "wavetrain_event",
        Metric: "wavetrain_metric",
        Stats: "wavetrain_stats_view",
        ArrayInfo: "wavetrain_array_view",
        AxisInfo: "wavetrain_axis",
        GroupEntry: "wavetrain_group_entry",
        MetadataPart: "wavetrain_metadata_part",
        MemoryHook: "wavetrain_memory_hook",
        FilesHook: "wavetrain_files_hook",
        SourceInfo: "wavetrain_source_info",
        SourceHook: "wavetrain_source_hook",
        StoreHook: "wavetrain_store_hook",
        LogHook: "wavetrain_log_hook",
        FatalHook: "wavetrain_fatal_hook",
        WorkersHook: "wavetrain_workers_hook",
        ProfilerHook: "wavetrain_profiler_hook",
        MetadataLatency: "wavetrain_metadata_latency",
        Config: "wavetrain_config",
    }
}

/// Constants whose names the header makes from the Rust name by a prefix.
const CONSTANTS: [(&str, i64); 102] = [
    ("BOX_MEMORY", BOX_MEMORY as i64),
    ("BOX_VALUE", BOX_VALUE as i64),
    ("BOX_URI", BOX_URI as i64),
    ("BEGIN_IS_ONE", BEGIN_IS_ONE as i64),
    ("SHAPE_IS_ONE", SHAPE_IS_ONE as i64),
    ("STEP_IS_ONE", STEP_IS_ONE as i64),
    ("AT_IS_ONE", AT_IS_ONE as i64),
    ("WHICH_IS_ONE", WHICH_IS_ONE as i64),
    ("VALUES_IS_ONE", VALUES_IS_ONE as i64),
    ("AUGMENT_IS_ONE", AUGMENT_IS_ONE as i64),
    ("AFFINE_IS_ONE", AFFINE_IS_ONE as i64),
    ("NEAREST", NEAREST as i64),
    ("LINEAR", LINEAR as i64),
    ("FIELDS_MAX", FIELDS_MAX as i64),
    ("RANK_MAX", RANK_MAX as i64),
    ("URI_BYTES_MAX", URI_BYTES_MAX as i64),
    ("ERROR_TEXT_BYTES", ERROR_TEXT_BYTES as i64),
    ("SHORT_TEXT_BYTES", SHORT_TEXT_BYTES as i64),
    ("NAME_BYTES", NAME_BYTES as i64),
    ("CODECS_TEXT_BYTES", CODECS_TEXT_BYTES as i64),
    ("MEMORY_LINES", MEMORY_LINES as i64),
    ("HISTOGRAM_BUCKETS", HISTOGRAM_BUCKETS as i64),
    ("SCRATCH_BYTES", SCRATCH_BYTES as i64),
    ("FOREVER", u64::MAX as i64),
    ("TENSORS_PER_SLOT", TENSORS_PER_SLOT as i64),
    ("POP_TIMEOUT", POP_TIMEOUT as i64),
    ("UNTIL_RELEASED", UNTIL_RELEASED as i64),
    ("NGFF_VERSION_BYTES", NGFF_VERSION_BYTES as i64),
    ("NO_INDEX", NO_INDEX as i64),
    ("CODEC_PLACES", CODEC_PLACES as i64),
    ("CODEC_NONE", CODEC_NONE as i64),
    ("NODE_UNKNOWN", NodeKind::Unknown as i64),
    ("NODE_ARRAY", NodeKind::Array as i64),
    ("NODE_GROUP", NodeKind::Group as i64),
    ("NODE_IMAGE", NodeKind::Image as i64),
    ("NODE_PLATE", NodeKind::Plate as i64),
    ("NODE_WELL", NodeKind::Well as i64),
    ("PACKING_SCALE", PACKING_SCALE as i64),
    ("PACKING_OFFSET", PACKING_OFFSET as i64),
    ("PACKING_FILL", PACKING_FILL as i64),
    ("PACKING_UNSIGNED", PACKING_UNSIGNED as i64),
    ("PACKING_UNKNOWN", PACKING_UNKNOWN as i64),
    ("SOURCE_NGFF", SOURCE_NGFF as i64),
    ("SOURCE_CONSOLIDATED", SOURCE_CONSOLIDATED as i64),
    ("SOURCE_FOLDER", SOURCE_FOLDER as i64),
    ("MEMORY_HOST", MEMORY_HOST as i64),
    ("MEMORY_PINNED", MEMORY_PINNED as i64),
    ("MEMORY_DEVICE", MEMORY_DEVICE as i64),
    ("FILE_ABSENT", FILE_ABSENT),
    ("FILE_FAILED", FILE_FAILED),
    ("FILE_CHANGED", FILE_CHANGED),
    ("FILE_UNLISTED", FILE_UNLISTED),
    ("LOST_FAIL", LOST_FAIL as i64),
    ("LOST_SKIP", LOST_SKIP as i64),
    ("SHARE_ROUND", SHARE_ROUND as i64),
    ("SHARE_FIRST", SHARE_FIRST as i64),
    ("SHARE_ALL", SHARE_ALL as i64),
    ("BACKEND_AUTO", BACKEND_AUTO as i64),
    ("BACKEND_HOST", BACKEND_HOST as i64),
    ("BACKEND_CUDA", BACKEND_CUDA as i64),
    ("THREADS_OWN", THREADS_OWN as i64),
    ("THREADS_PUMP", THREADS_PUMP as i64),
    ("THREADS_HOOK", THREADS_HOOK as i64),
    ("ON_ERROR_FAIL", ON_ERROR_FAIL as i64),
    ("ON_ERROR_SKIP", ON_ERROR_SKIP as i64),
    ("ON_ERROR_NAN", ON_ERROR_NAN as i64),
    ("MISSING_FILL", MISSING_FILL as i64),
    ("MISSING_ERROR", MISSING_ERROR as i64),
    ("PAD_NONE", PAD_NONE as i64),
    ("PAD_CONSTANT", PAD_CONSTANT as i64),
    ("PAD_EDGE", PAD_EDGE as i64),
    ("PAD_REFLECT", PAD_REFLECT as i64),
    ("GDS_AUTO", AUTO as i64),
    ("GDS_OFF", GDS_OFF as i64),
    ("GDS_ON", GDS_ON as i64),
    ("DECODE_AUTO", DECODE_AUTO as i64),
    ("DECODE_OFF", DECODE_OFF as i64),
    ("DECODE_ON", DECODE_ON as i64),
    ("BY_WORKER_PLACES", BY_WORKER_PLACES as i64),
    ("BY_WORKER_OFF", ByWorker::Off as i64),
    ("BY_WORKER_CODEC", ByWorker::Codec as i64),
    ("BY_WORKER_KEPT", ByWorker::Kept as i64),
    ("BY_WORKER_UNNEEDED", ByWorker::Unneeded as i64),
    ("BY_WORKER_LARGE", ByWorker::Large as i64),
    ("BY_WORKER_ARRAY", ByWorker::Array as i64),
    ("BY_WORKER_BROKEN", ByWorker::Broken as i64),
    ("BY_WORKER_OTHER_CODEC", ByWorker::OtherCodec as i64),
    ("BY_WORKER_STREAMS", ByWorker::Streams as i64),
    ("BY_WORKER_ROOM", ByWorker::Room as i64),
    ("BY_WORKER_REFUSED", ByWorker::Refused as i64),
    ("NUMA_AUTO", AUTO as i64),
    ("NUMA_OFF", NUMA_OFF as i64),
    ("NUMA_PIN", NUMA_PIN as i64),
    ("LOG_TRACE", LOG_TRACE as i64),
    ("LOG_DEBUG", LOG_DEBUG as i64),
    ("LOG_INFO", LOG_INFO as i64),
    ("LOG_WARN", LOG_WARN as i64),
    ("LOG_ERROR", LOG_ERROR as i64),
    ("LOG_FATAL", LOG_FATAL as i64),
    ("LOG_OFF", LOG_OFF as i64),
    ("VERSION", version()),
    ("VERSION_MAJOR", version() >> 16),
];

/// The package's version as wavetrain_version packs it.
const fn version() -> i64 {
    const fn number(text: &str) -> i64 {
        let mut value = 0;
        let mut at = 0;
        while at < text.len() {
            value = value * 10 + (text.as_bytes()[at] - b'0') as i64;
            at += 1;
        }
        value
    }
    number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | number(env!("CARGO_PKG_VERSION_PATCH"))
}

fn rust_facts() -> Facts {
    let mut facts = Facts::new();
    for (name, size, fields) in rust_layouts() {
        facts.insert(format!("sizeof {name}"), size as i64);
        for (field, offset) in fields {
            facts.insert(format!("{name}.{field}"), *offset as i64);
        }
    }
    // In Rust the three members that are the table of fields are one, and so are those of CPUs and
    // of metadata.
    let tables = [
        ("fields", FieldTable::FIELDS),
        ("cpus", CpuTable::FIELDS),
        ("metadata", MetadataTable::FIELDS),
    ];
    for (name, members) in tables {
        let table = facts[&format!("wavetrain_config.{name}")];
        for (member, offset) in members {
            facts.insert(format!("wavetrain_config.{member}"), table + *offset as i64);
        }
    }
    for (name, value) in CONSTANTS {
        facts.insert(format!("WAVETRAIN_{name}"), value);
    }
    facts.insert("WAVETRAIN_VERSION_MINOR".into(), version() >> 8 & 255);
    facts.insert("WAVETRAIN_VERSION_PATCH".into(), version() & 255);
    for status in status::ALL {
        facts.insert(format!("WAVETRAIN_{}", status.name()), status as i64);
    }
    for row in CODECS.iter().filter(|row| row.number != CODEC_NONE) {
        facts.insert(format!("WAVETRAIN_CODEC_{}", row.name.to_uppercase()), row.number as i64);
    }
    for (number, stage) in STAGES.iter().enumerate() {
        facts.insert(format!("WAVETRAIN_STAGE_{}", stage.to_uppercase()), number as i64);
    }
    for dtype in DTYPES {
        facts.insert(format!("WAVETRAIN_{}", dtype.name().to_uppercase()), dtype as i64);
    }
    facts
}

/// The C program that prints one fact per line.
fn program(text: &str) -> String {
    let mut body = String::new();
    for item in header::structs(text) {
        let name = &item.name;
        body += &format!("    printf(\"%lld sizeof {name}\\n\", (long long)sizeof({name}));\n");
        for field in &item.fields {
            body += &format!(
                "    printf(\"%lld {name}.{field}\\n\", (long long)offsetof({name}, {field}));\n"
            );
        }
    }
    for name in header::enumerators(text).iter().chain(&header::macros(text)) {
        body += &format!("    printf(\"%lld {name}\\n\", (long long){name});\n");
    }
    format!(
        "#include \"wavetrain.h\"\n#include <stdio.h>\nint main(void) {{\n{body}    return 0;\n}}\n"
    )
}

/// What a C compiler says of the header in `folder`, a line each; None where there is none.
fn lines_of_header(test: &str, folder: &str) -> Option<String> {
    let compiler = cc::find("cc", &["gcc", "cc", "clang"])?;
    let place = cc::folder(test);
    let text = header::text_of(&format!("{folder}/wavetrain.h"));
    std::fs::write(place.join("facts.c"), program(&text)).unwrap();
    cc::run(
        std::process::Command::new(&compiler)
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(header::root().join(folder))
            .arg(place.join("facts.c"))
            .arg("-o")
            .arg(place.join("facts")),
    );
    Some(cc::run(&mut std::process::Command::new(place.join("facts"))))
}

fn facts_of_lines(lines: &str) -> Facts {
    let facts: Facts = lines
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(value, name)| (name.to_string(), value.parse().unwrap()))
        .collect();
    assert!(facts.len() > 250, "the header was not understood: {} facts", facts.len());
    facts
}

/// Structs that may grow at their end: the caller says how large its own are. All others lie in
/// one of these, or in arrays that the caller walks.
const GROWING: [&str; 13] = [
    "wavetrain_tensor",
    "wavetrain_field",
    "wavetrain_error",
    "wavetrain_memory",
    "wavetrain_box",
    "wavetrain_sample",
    "wavetrain_column",
    "wavetrain_target",
    "wavetrain_batch_view",
    "wavetrain_stats_view",
    "wavetrain_array_view",
    "wavetrain_metadata_part",
    "wavetrain_config",
];

/// Members that got another name, or a meaning where they had to be 0.
const RENAMED: [(&str, &str); 7] = [
    ("wavetrain_sample.n_fields", "wavetrain_sample.n_boxes"),
    ("wavetrain_box.reserved", "wavetrain_box.kind"),
    ("wavetrain_config.reader", "wavetrain_config.reserved6"),
    ("wavetrain_config.reserved3", "wavetrain_config.cf"),
    ("wavetrain_field.reserved", "wavetrain_field.cf"),
    ("wavetrain_stats_view.reader", "wavetrain_stats_view.reserved3"),
    ("wavetrain_stats_view.reader_reason", "wavetrain_stats_view.reserved_text"),
];

/// What a number was called that has no meaning any more: the config has to be 0 there.
const GONE: &str = "WAVETRAIN_READER_";

/// Whether a fact of a released header still holds in the next.
fn holds(name: &str, before: i64, now: Option<i64>) -> bool {
    let is_version = name.starts_with("WAVETRAIN_VERSION");
    let may_grow = name.strip_prefix("sizeof ").is_some_and(|name| GROWING.contains(&name));
    now.is_some_and(|now| now == before || (may_grow && now > before) || is_version)
}

/// The headers under tests/abi are those that programs out there were built with, each with what a
/// C compiler says of it.
#[test]
fn what_a_released_header_says_still_holds() {
    for version in ["0.1.0"] {
        let folder = format!("tests/abi/{version}");
        let Some(released) = lines_of_header(&format!("abi-{version}"), &folder) else { return };
        let kept = header::root().join(&folder).join("layout.txt");
        let kept = std::fs::read_to_string(kept).unwrap();
        assert_eq!(released, kept, "layout.txt is what its header says");
        let Some(now) = lines_of_header("abi-now", "include") else { return };
        let now = facts_of_lines(&now);
        let kept = facts_of_lines(&kept).into_iter();
        for (name, before) in kept.filter(|(name, _)| !name.starts_with(GONE)) {
            let renamed = RENAMED.iter().find(|(before, _)| *before == name);
            let now = now.get(renamed.map_or(&name[..], |(_, now)| now)).copied();
            assert!(holds(&name, before, now), "{version}: {name} was {before}, and is {now:?}");
        }
    }
}

#[test]
fn a_field_that_moves_and_a_struct_in_a_struct_that_grows_break_the_promise() {
    assert!(holds("sizeof wavetrain_box", 280, Some(288)));
    assert!(holds("WAVETRAIN_VERSION_MINOR", 1, Some(2)));
    for (name, before, now) in [
        ("sizeof wavetrain_box", 280, Some(272)),
        ("sizeof wavetrain_metric", 296, Some(304)),
        ("sizeof wavetrain_files_hook", 40, Some(48)),
        ("wavetrain_box.rank", 16, Some(24)),
        ("wavetrain_box.rank", 16, None),
        ("WAVETRAIN_IO", -5, Some(-6)),
    ] {
        assert!(!holds(name, before, now), "{name}");
    }
}

#[test]
fn header_and_rust_have_one_layout() {
    let Some(lines) = lines_of_header("abi", "include") else { return };
    let (c_facts, rust_facts) = (facts_of_lines(&lines), rust_facts());
    for name in c_facts.keys().chain(rust_facts.keys()) {
        assert_eq!(c_facts.get(name), rust_facts.get(name), "{name}: header, then Rust");
    }
}

/// Structs as Rust has them, with the offset of each field.
macro_rules! layouts {
    ($($rust:ident: $c:literal, $($field:ident)+;)+) => {
        vec![$(($c, size_of::<$rust>(), vec![$(offset_of!($rust, $field)),+])),+]
    };
}

/// Those of wavetrain_epoch.h.
fn layouts_of_epochs() -> Vec<(&'static str, usize, Vec<usize>)> {
    layouts! {
        State: "wavetrain_epoch_state", seed epoch position order_hash;
        EpochRecord: "wavetrain_epoch", state n rank world batch flags reserved;
        ShuffleRecord: "wavetrain_chunk_shuffle", run window;
        Place: "wavetrain_place", epoch position;
        EpochView: "wavetrain_epoch_view", left window_samples is_wrong is_portable;
        Share: "wavetrain_share", samples weight;
        BoxesRecord: "wavetrain_boxes", rank flags shape extents step margin chunk;
        End: "wavetrain_boxes_end", boxes chunks;
        Cost: "wavetrain_cost", distinct windows largest;
    }
}

/// Those of wavetrain_recipes.h. Members of the room are the library's own.
fn layouts_of_recipes() -> Vec<(&'static str, usize, Vec<usize>)> {
    layouts! {
        RecipeField: "wavetrain_recipe_field", rank channel_axis n_spatial pad_mode spatial
            box_spatial shape;
        Room: "wavetrain_recipe_room", scale bias values erase crops;
        AugmentedRecord: "wavetrain_augmented", struct_size seed place target augment affine field
            room;
        Motion: "wavetrain_motion", struct_size degrees zoom shear shift filter;
    }
}

#[test]
fn the_headers_of_epochs_and_recipes_and_rust_have_one_layout() {
    let Some(compiler) = cc::find("cc", &["gcc", "cc", "clang"]) else { return };
    for (stem, layouts) in [("epoch", layouts_of_epochs()), ("recipes", layouts_of_recipes())] {
        let name = format!("wavetrain_{stem}.h");
        let text = header::text_of(&format!("include/{name}"));
        let place = cc::folder(&format!("abi-{stem}"));
        let source = place.join("facts.c");
        std::fs::write(&source, program(&text).replace("wavetrain.h", &name)).unwrap();
        // Optimised, so that the inline functions, which nobody calls, ask for no archive.
        let mut command = std::process::Command::new(&compiler);
        command.args(["-std=c99", "-O2", "-I"]).arg(header::root().join("include")).arg(&source);
        cc::run(command.arg("-o").arg(place.join("facts")));
        let lines = cc::run(&mut std::process::Command::new(place.join("facts")));
        let structs = header::structs(&text);
        assert_eq!(structs.len(), layouts.len());
        for ((name, size, offsets), of) in layouts.into_iter().zip(structs) {
            assert_eq!(name, of.name);
            assert!(lines.contains(&format!("{size} sizeof {name}\n")), "{name}");
            // A member of padding has no field in Rust.
            assert!(of.fields.len() - offsets.len() <= usize::from(name == "wavetrain_share"));
            for (field, offset) in of.fields.iter().zip(offsets) {
                assert!(lines.contains(&format!("{offset} {name}.{field}\n")), "{name}.{field}");
            }
        }
    }
}

#[test]
fn header_is_warning_free_in_every_c_and_cxx() {
    let c = ["c99", "c11", "c17", "c2x"];
    let cxx = ["c++98", "c++11", "c++14", "c++17", "c++20", "c++2b"];
    let folder = cc::folder("matrix");
    let headers = ["", "_tiles", "_epoch", "_recipes", "_node"];
    let includes =
        headers.map(|name| format!("#include \"wavetrain{name}.h\"\n")).concat().repeat(2);
    let source = format!("{includes}int main(void) {{ return 0; }}\n");
    let compilers: [(&str, &str, &[&str]); 4] =
        [("gcc", "c", &c), ("g++", "c++", &cxx), ("clang", "c", &c), ("clang++", "c++", &cxx)];
    for (compiler, language, standards) in compilers {
        let Some(compiler) = cc::find(compiler, &[compiler]) else { continue };
        let file = folder.join(format!("matrix.{language}"));
        std::fs::write(&file, &source).unwrap();
        for standard in standards {
            cc::run(
                std::process::Command::new(&compiler)
                    .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wundef", "-Werror"])
                    .args(["-Wsign-conversion", "-Wshadow"])
                    .args((language == "c++").then_some("-Wold-style-cast"))
                    .args([&format!("-std={standard}"), "-fsyntax-only", "-x", language, "-I"])
                    .arg(header::root().join("include"))
                    .arg(&file),
            );
        }
    }
}
