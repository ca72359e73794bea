//! The choice of the backend.
//!
//! In: a config. Out: host or CUDA, and the reason, which stats show. Invariant: what a config says
//! of a device is never passed over in silence.

use crate::abi::NAME_BYTES;
use crate::base::text::Text;
use crate::config::{BACKEND_CUDA, BACKEND_HOST, Config};
use crate::cuda::{Driver, DriverPath, HAS_DEVICES, HOST_ONLY, device};
use crate::fail;
use crate::status::{Status, Why};
use core::fmt::Write;

/// Whether the config says something of a device, so that it cannot mean the host.
fn names_device(config: &Config) -> bool {
    config.device != device::CURRENT
        || !config.consumer_stream.is_null()
        || config.cuda_driver != DriverPath::NULL
}

/// Whether batches are made on a device, and why or why not. With backend = auto whatever keeps a
/// device from being used is a reason for the host, unless the config says something of the device.
/// With backend = cuda nothing is looked for: a bill can be had on a machine without a device.
pub fn choose(config: &Config, why: &mut Why) -> Result<(bool, Text<NAME_BYTES>), Status> {
    let mut reason = Text::new();
    if !HAS_DEVICES {
        if config.backend == BACKEND_CUDA || names_device(config) {
            return Err(fail!(why, Unsupported, "backend = cuda: {HOST_ONLY}, use host"));
        }
        reason.push_str("host: made without CUDA");
        return Ok((false, reason));
    }
    match config.backend {
        BACKEND_CUDA => reason.push_str("cuda: asked for by the config"),
        BACKEND_HOST if names_device(config) => {
            return Err(fail!(
                why,
                Invalid,
                "device, consumer_stream or cuda_driver is set, but backend is host"
            ));
        }
        BACKEND_HOST => reason.push_str("host: asked for by the config"),
        _ => {
            let found = Driver::load(config.cuda_driver, why)
                .and_then(|driver| device::find(driver, config.device, why));
            // A text that is cut at its capacity is still the best there is.
            let _ = match found {
                Ok(name) => write!(reason, "cuda: auto, {name}"),
                Err(status) if names_device(config) => return Err(status),
                Err(_) => write!(reason, "host: auto, {why}"),
            };
            why.clear();
            return Ok((found.is_ok(), reason));
        }
    }
    Ok((config.backend == BACKEND_CUDA, reason))
}
