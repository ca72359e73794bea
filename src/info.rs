//! What can be known of an array without an instance: its record, its description, and the caps
//! that it needs.
//!
//! In: a uri and the caller's scratch block. Out: records. Nothing is kept.

use crate::abi::FilesHook;
use crate::arrays::Uri;
use crate::base::math::align_up;
use crate::config::Config;
use crate::fail;
use crate::limits::METADATA_BYTES_MAX;
use crate::meta::{array_from_document, normalize_uri};
use crate::os::SYSTEM;
use crate::os::store::Store;
use crate::pipeline;
use crate::read::read_document;
use crate::records::ArrayRecord;
use crate::settings::{Settings, settings_from_config};
use crate::simd::FloatEnvironment;
use crate::status::{Status, Why};

/// Bytes of scratch that the functions here take.
pub const SCRATCH_BYTES: usize = METADATA_BYTES_MAX + (64 << 10);

/// Reads and understands the metadata of an array.
pub fn load(
    uri: &str,
    files: &FilesHook,
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    if scratch.len() < SCRATCH_BYTES {
        return Err(fail!(
            why,
            Invalid,
            "scratch has {} bytes, {SCRATCH_BYTES} are needed",
            scratch.len()
        ));
    }
    let mut normal = Uri::new();
    normalize_uri(uri, &mut normal, why)?;
    let store = Store::new(&SYSTEM, *files, false);
    let Some(document) =
        read_document(&store, |path| store.open(path), normal.as_str(), scratch, why)?
    else {
        // The scratch holds the largest document that is read.
        return Err(fail!(why, Internal, "{normal}: the metadata outgrew its cap"));
    };
    let _float = FloatEnvironment::enter();
    array_from_document(document.kind, document.bytes, normal.as_str(), why)
}

/// Checks a config on this machine.
pub fn checked(config: &Config, why: &mut Why) -> Result<Settings, Status> {
    let mut settings = settings_from_config(config, (SYSTEM.cpu_count)(), why)?;
    settings.limit_derived_threads(pipeline::floor_bytes);
    Ok(settings)
}

/// Raises the caps of `config` to what the arrays need: the chunk cap, and the host memory cap
/// where one was set that is below the floor of the raised config.
pub fn fit<'a>(
    config: &mut Config,
    uris: impl Iterator<Item = Result<&'a str, Status>>,
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let mut fitted = *config;
    for uri in uris {
        let record = load(uri?, &config.files, scratch, why)?;
        fitted.max_chunk_uncompressed_bytes =
            fitted.max_chunk_uncompressed_bytes.max(record.chunk_bytes);
    }
    let settings = checked(&fitted, why)?;
    match pipeline::bill(&settings, why) {
        Ok(_) => {}
        Err(Status::Budget) => {
            let floor = pipeline::floor_bytes(&settings);
            fitted.max_host_memory_bytes = align_up(floor, 1 << 20);
            pipeline::bill(&checked(&fitted, why)?, why)?;
        }
        Err(status) => return Err(status),
    }
    *config = fitted;
    Ok(())
}
