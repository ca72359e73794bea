//! The meaning of a failed try, and the time of the next one.
//!
//! In: what a try met. Out: an answer, or a wait and another try. Invariant: all tries of one read
//! end within `total_timeout`, and there are at most `retries_max` after the first.

use crate::config::Config;
use crate::error::{Error, Result, Secrets, chain};
use crate::stats::{Stats, add};
use crate::transport::Met;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::Instant;

/// Retries where no request could be sent, as for want of credentials: the clients behind them try
/// and wait themselves.
const UNSENT_RETRIES_MAX: u32 = 2;

/// Why a try did not succeed.
#[derive(Debug)]
pub enum Fault {
    /// Another try would meet the same.
    Final(Error),
    /// The server has no ranges.
    NoRanges,
    /// Another try may succeed.
    Again {
        /// The failure if it does not.
        error: Error,
        /// The wait that the server asked for.
        after: Option<Duration>,
        /// A request was sent.
        sent: bool,
    },
}

impl Fault {
    /// A failure of the connection or of an answer, after which another try is worth it.
    pub fn again(text: String) -> Self {
        Self::Again { error: Error::failed(text), after: None, sent: true }
    }
}

/// The tries of one read.
#[derive(Default)]
pub struct Retry {
    deadline: Option<Instant>,
    tries: u32,
}

impl Retry {
    /// When all tries end; the clock begins with the first call.
    pub fn deadline(&mut self, config: &Config) -> Instant {
        *self.deadline.get_or_insert_with(|| Instant::now() + config.total_timeout)
    }

    /// Waits for the next try, or returns why there is none.
    pub async fn next(&mut self, config: &Config, stats: &Stats, fault: Fault) -> Result<()> {
        let (error, after, sent) = match fault {
            Fault::Final(error) => return Err(error),
            Fault::NoRanges => return Err(Error::failed("the server has no ranges")),
            Fault::Again { error, after, sent } => (error, after, sent),
        };
        self.tries += 1;
        let most =
            if sent { config.retries_max } else { config.retries_max.min(UNSENT_RETRIES_MAX) };
        let tries = self.tries;
        if tries > most {
            return Err(Error::failed(format!("{error} ({tries} tries, see retries_max)")));
        }
        let wait = backoff(config, tries).max(after.unwrap_or_default());
        let end = Instant::now() + wait;
        if end >= self.deadline(config) {
            let limit = config.total_timeout;
            return Err(Error::failed(format!(
                "{error} ({tries} tries, total_timeout_ns of {limit:?} leaves no time for another)"
            )));
        }
        tokio::time::sleep_until(end).await;
        add(&stats.retries, 1);
        Ok(())
    }

    /// The failure of a try that the total time ended.
    pub fn late(&self, config: &Config, shown: &str) -> Fault {
        let (limit, tries) = (config.total_timeout, self.tries + 1);
        Fault::Final(Error::failed(format!(
            "{shown}: not done within total_timeout_ns of {limit:?} ({tries} tries)"
        )))
    }
}

/// Doubles from `backoff_min` to `backoff_max`; between a half and all of that, by chance, so that
/// many readers do not come back at once.
fn backoff(config: &Config, tries: u32) -> Duration {
    let doubled = config.backoff_min.saturating_mul(1 << (tries - 1).min(20));
    let full = doubled.min(config.backoff_max);
    let chance = (RandomState::new().hash_one(tries) >> 40) as f64 / (1u64 << 24) as f64;
    full.mul_f64(0.5 + chance / 2.0)
}

/// The meaning of a request that failed. `absent` has the statuses of objects that do not exist.
pub fn fault_of(
    error: &object_store::Error,
    met: &Met,
    shown: &str,
    absent: &[u16],
    secrets: &Secrets,
) -> Fault {
    let code = if met.code.is_empty() { String::new() } else { format!(" ({})", met.code) };
    let status = met.status;
    let said = format!("{shown}: the server answered {status}{code}");
    let is_bucket = met.code == "NoSuchBucket" || met.code == "ContainerNotFound";
    match status {
        _ if met.is_whole => Fault::NoRanges,
        404 if is_bucket => Fault::Final(Error::failed(format!("{said}: there is no such bucket"))),
        404 if absent.contains(&404) => Fault::Final(Error::absent(shown)),
        // Other codes, such as InvalidAccessKeyId, are of requests that no key would be found by.
        _ if absent.contains(&status) && matches!(&*met.code, "" | "AccessDenied") => {
            Fault::Final(Error::denied(format!(
                "{said}, which the setting absent takes for an object that does not exist: if it \
                 does, check the credentials and the region"
            )))
        }
        501 => Fault::Final(Error::failed(said)),
        408 | 429 | 500..=599 => {
            Fault::Again { error: Error::failed(said), after: met.retry_after, sent: true }
        }
        400 if met.code == "RequestTimeout" => Fault::again(said),
        401 => Fault::Final(Error::failed(format!("{said}: set credentials, or anonymous"))),
        403 => Fault::Final(Error::failed(format!(
            "{said}: access is denied. S3 answers so for absent keys too where the caller may not \
             list the bucket: allow that, or set absent = \"404,403\""
        ))),
        412 => Fault::Final(Error::changed(shown)),
        416 => Fault::Final(Error::beyond(format!("{said}: the range lies beyond the object"))),
        300..=399 => Fault::Final(Error::failed(format!("{said}: check the region and endpoint"))),
        400..=499 => Fault::Final(Error::failed(said)),
        0 => unanswered(error, met, shown, secrets),
        _ if is_broken(error) => {
            let text = secrets.clean(&chain(error));
            Fault::again(format!("{shown}: the answer broke off: {text}"))
        }
        _ => {
            let text = secrets.clean(&chain(error));
            Fault::Final(Error::failed(format!("{said}, which cannot be used: {text}")))
        }
    }
}

/// True if the connection failed while the body of an answer was read.
fn is_broken(error: &object_store::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.any(|cause| cause.is::<object_store::client::HttpError>())
}

/// No answer: the connection failed, or there were no credentials to ask with.
fn unanswered(error: &object_store::Error, met: &Met, shown: &str, secrets: &Secrets) -> Fault {
    let text = secrets.clean(&chain(error));
    let fix =
        if met.sent { "" } else { ": set credentials, a region or an endpoint, or anonymous" };
    let what = if met.sent { "no answer" } else { "no request could be made" };
    let error = Error::failed(format!("{shown}: {what}: {text}{fix}"));
    Fault::Again { error, after: None, sent: met.sent }
}
