//! Figures of a client. Each is written by whoever does the thing, read by `view`, and orders
//! nothing, so that all accesses are relaxed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The figures while they are counted.
        #[derive(Default)]
        pub struct Stats { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// A copy of the figures, as the C struct `wavetrain_remote_stats` has them.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StatsView {
            /// Bytes of the struct.
            pub struct_size: usize,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// The figures now; they are read one by one.
            pub fn view(&self) -> StatsView {
                StatsView {
                    struct_size: size_of::<StatsView>(),
                    $($name: self.$name.load(Relaxed),)*
                }
            }
        }
    };
}

figures! {
    /// HTTP requests, those for credentials included.
    requests,
    /// Tries after the first one of a read, a size or a listing.
    retries,
    /// Bytes of objects that came over connections.
    bytes_received,
    /// Bytes that were handed to callers.
    bytes_read,
    /// Reads that were asked for: read, read_async, read_tail and their versions.
    reads,
    /// Sizes that were asked for.
    sizes,
    /// Listings that were asked for.
    lists,
    /// Calls that ended with "absent".
    absent,
    /// Calls that failed.
    failed,
    /// Failures because an object was another version.
    changed,
    /// Calls that were answered without a request.
    cache_hits,
    /// Bytes that are cached now.
    cached_bytes,
    /// Entries of archives that were inflated.
    inflated,
    /// Requests in flight now.
    in_flight,
    /// The most requests that were in flight.
    in_flight_max,
    /// Calls among those of `absent` that met another status than 404.
    denied,
}

/// Adds to a figure.
pub fn add(figure: &AtomicU64, more: u64) {
    figure.fetch_add(more, Relaxed);
}
