//! The settings of a loader whose batches other processes take.
//!
//! In: a config, or the facts of an owner. Out: the order, and the number of consumers; the name,
//! which is not a part of settings, since these stand on the stack of an open.

use crate::base::limits::{CONSUMERS_MAX, SHARE_NAME_BYTES_MAX, SOCKET_PATH_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::Text;
use crate::batch::shared::Order;
use crate::fail;
use crate::setup::config::{self, Config};
use core::ffi::{CStr, c_char};
use core::ptr;

/// A name, or the path of a socket, with a NUL.
pub type SocketName = Text<{ SOCKET_PATH_BYTES_MAX + 1 }>;

/// A name as a config has it: read while a call has the config, and not after.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareName(*const c_char);

impl ShareName {
    /// Nothing is shared.
    pub const NULL: ShareName = ShareName(ptr::null());

    /// A name that lives as long as the process.
    pub const fn from_static(name: &'static CStr) -> ShareName {
        ShareName(name.as_ptr())
    }

    /// A name as C hands it over.
    ///
    /// # Safety
    /// NULL, or a string with a NUL that stays where it is during every call that is given the
    /// config.
    pub const unsafe fn from_raw(name: *const c_char) -> ShareName {
        ShareName(name)
    }

    /// Whether nothing is shared.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The name, checked, of one that is not NULL.
    pub fn read(&self, why: &mut Why) -> Result<SocketName, Status> {
        // SAFETY: one that is not NULL has a NUL and is there, as its makers promise; for a config
        // of C the contract is the header's.
        let name = unsafe { CStr::from_ptr(self.0) };
        match name.to_str() {
            Ok(name) => socket_name(name, why),
            Err(_) => Err(fail!(why, Invalid, "share_name is not UTF-8")),
        }
    }
}

/// A name that was checked.
pub fn socket_name(name: &str, why: &mut Why) -> Result<SocketName, Status> {
    let most = if name.contains('/') { SOCKET_PATH_BYTES_MAX } else { SHARE_NAME_BYTES_MAX };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_written = name.contains('/') || name.bytes().all(is_plain);
    if name.is_empty() || name.len() > most || !is_written {
        return Err(fail!(
            why,
            Invalid,
            "share_name = \"{name}\": 1 to {SHARE_NAME_BYTES_MAX} letters, digits, '-', '_' and \
             '.', or the path of a socket, with '/', of at most {SOCKET_PATH_BYTES_MAX} bytes"
        ));
    }
    let mut text = SocketName::new();
    text.push_str(name);
    Ok(text)
}

/// The part that a loader has in sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Its batches are its own.
    None,
    /// It fills slots that consumers take.
    Owner,
    /// It takes batches of an owner.
    Consumer,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Share {
    /// Whether the loader is an owner, a consumer, or neither.
    pub part: Part,
    /// The number of consumers; for a consumer its own number.
    pub consumers: u32,
    /// Which consumer gets which batch.
    pub order: Order,
}

impl Share {
    /// Nothing is shared.
    pub const NONE: Share = Share { part: Part::None, consumers: 0, order: Order::Round };

    /// The part that a config asks for.
    pub fn of(config: &Config, why: &mut Why) -> Result<Share, Status> {
        let count = config.share_consumers;
        if config.share_name.is_null() {
            let asked = [
                ("share_consumers", count != 0),
                ("share_order", config.share_order != config::SHARE_ROUND),
                ("share_owner", config.share_owner != 0),
                ("on_consumer_lost", config.on_consumer_lost != config::LOST_FAIL),
            ];
            let asked = asked.into_iter().find_map(|(name, is_asked)| is_asked.then_some(name));
            let Some(name) = asked else { return Ok(Share::NONE) };
            return Err(fail!(why, Invalid, "{name} is set, but share_name is not: set both"));
        }
        config.share_name.read(why)?;
        if count == 0 {
            let text = format_args!("share_consumers = 0: must be 1 to {CONSUMERS_MAX}");
            return Err(fail!(why, Invalid, "{text} with share_name"));
        }
        if config.thread_mode != config::THREADS_OWN {
            let text = "share_name needs thread_mode = own: a thread answers consumers";
            return Err(fail!(why, Invalid, "{text}"));
        }
        if config.backend == config::BACKEND_CUDA {
            let text = "share_name: batches are shared in host memory: set backend to host or auto";
            return Err(fail!(why, Unsupported, "{text}"));
        }
        if config.lent_slots > 0 {
            return Err(fail!(
                why,
                Invalid,
                "lent_slots with share_name: lent memory is of one \
                process alone"
            ));
        }
        let order = Order::of(config.share_order).unwrap_or(Order::Round);
        Ok(Share { part: Part::Owner, consumers: count, order })
    }

    /// Whether batches lie in memory that processes share.
    pub fn is_shared(&self) -> bool {
        self.part != Part::None
    }
}
