//! The choice of the backend.
//!
//! In: a config. Out: host or CUDA, and the reason, which stats show. Invariant: what a config says
//! of a device is never passed over in silence.

use crate::base::status::{Status, Why};
use crate::cuda::{Driver, HAS_DEVICES, HOST_ONLY, device};
use crate::fail;
use crate::setup::config::{BACKEND_AUTO, BACKEND_CUDA, BACKEND_HOST, Config};
use crate::setup::share::Share;

/// The field by which a config says something of a device, so that it cannot mean the host.
fn named_by(config: &Config) -> Option<&'static str> {
    let said = [
        ("max_gpu_memory_bytes", config.max_gpu_memory_bytes != 0),
        ("consumer_stream", !config.consumer_stream.is_null()),
        ("device", config.device != device::CURRENT),
        ("cuda_driver", !config.cuda_driver.is_null()),
    ];
    said.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
}

/// Whether a failure means that there is no device that would do, which auto takes the host for. A
/// config that is wrong in itself is an error, and so is memory that is short: smaller caps may
/// mend it, and the host is no small change.
fn has_no_device(status: Status) -> bool {
    matches!(status, Status::Cuda | Status::Unsupported)
}

/// Whether batches are made on a device, and why or why not. With backend = cuda nothing is looked
/// for: a bill can be had on a machine without a device.
pub fn choose(config: &Config, share: &Share, why: &mut Why) -> Result<(bool, Why), Status> {
    let mut reason = Why::new();
    match config.backend {
        BACKEND_AUTO if share.is_shared() => {
            reason.push_str("host: auto, batches are shared in host memory");
        }
        BACKEND_CUDA if !HAS_DEVICES => {
            return Err(fail!(why, Unsupported, "backend = cuda: {HOST_ONLY}, use host"));
        }
        BACKEND_CUDA => reason.push_str("cuda: asked for by the config"),
        BACKEND_HOST => {
            if let Some(name) = named_by(config) {
                let way_out = "set it to cuda, or to auto";
                return Err(fail!(why, Invalid, "{name} is set, but backend is host: {way_out}"));
            }
            reason.push_str("host: asked for by the config");
        }
        _ if !HAS_DEVICES => reason.push_str("host: made without CUDA"),
        _ => {
            let found = Driver::load(config.cuda_driver, why)
                .and_then(|driver| device::find(driver, config.device, why));
            match found {
                // A text that is cut at its capacity is still the best there is.
                Ok(Some(name)) => write!(reason, "cuda: auto, {name}"),
                Ok(None) => reason = host_because(why),
                Err(status) => reason = host_instead(config, status, why).ok_or(status)?,
            }
            why.clear();
            return Ok((matches!(found, Ok(Some(_))), reason));
        }
    }
    Ok((config.backend == BACKEND_CUDA, reason))
}

/// Why auto takes the host, where `status` ended the search for a device or the opening of the one
/// that was found. None where that is an error.
pub fn host_instead(config: &Config, status: Status, why: &Why) -> Option<Why> {
    if config.backend != BACKEND_AUTO || !has_no_device(status) {
        return None;
    }
    Some(host_because(why))
}

fn host_because(why: &Why) -> Why {
    let mut reason = Why::new();
    // A text that is cut at its capacity is still the best there is.
    write!(reason, "host: auto, {why}");
    reason
}
