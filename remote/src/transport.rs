//! The wire below `object_store`: requests are counted, and what an answer said is noted.
//!
//! In: the requests that object_store makes. Out: the same answers. A request that carries an
//! `Attempt` in its extensions, or in its task, leaves its status there, so that `retry` can decide by numbers and
//! not by texts; requests for credentials carry none. An address of http gets the query of its name
//! here, because object_store has no place for one. Invariant: the body of a failure is read up to
//! `FAILURE_BYTES_MAX` and for `idle_timeout` at most.

use crate::lock;
use crate::stats::{Stats, add};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Result};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes that are read of a failure's body: enough for the code of any cloud.
const FAILURE_BYTES_MAX: usize = 16 << 10;
/// A longer wait that a server asks for is not believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The outcome of one try of a request.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// The request was sent.
    pub sent: bool,
    /// Status of the answer; 0: there was none.
    pub status: u16,
    /// The answer is the whole object, although a range was asked for.
    pub is_whole: bool,
    /// The wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// The code that a cloud gives in the body of a failure, such as SlowDown.
    pub code: String,
}

/// The note of one try, shared by who makes it and the wire.
#[derive(Clone, Default)]
pub struct Attempt {
    met: Arc<Mutex<Met>>,
    /// The longest body of an answer that is read; nothing: who reads it has a bound of its own.
    body_bytes_max: Option<usize>,
}

impl Attempt {
    /// A try whose answer is read whole by object_store.
    pub fn with_body_of(bytes_max: u64) -> Self {
        let body_bytes_max = Some(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Self { body_bytes_max, ..Self::default() }
    }

    /// The outcome so far.
    pub fn met(&self) -> Met {
        lock(&self.met).clone()
    }

    /// Runs a request that cannot carry extensions, and is noted here.
    pub async fn around<T>(&self, request: impl Future<Output = T>) -> T {
        AROUND.scope(self.clone(), request).await
    }

    /// Extensions of a request that is noted here.
    pub fn extensions(&self) -> object_store::Extensions {
        let mut extensions = object_store::Extensions::new();
        extensions.insert(self.clone());
        extensions
    }
}

tokio::task_local! {
    /// The attempt of the request that the task makes now.
    static AROUND: Attempt;
}

/// Makes the wires of one store.
pub struct Connector {
    /// The figures that count requests.
    pub stats: Arc<Stats>,
    /// The query that each request gets; empty: none.
    pub query: String,
    /// The longest wait for a part of the body of a failure.
    pub idle_timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        let (stats, query) = (self.stats.clone(), self.query.clone());
        Ok(HttpClient::new(Wire { client, stats, query, idle_timeout: self.idle_timeout }))
    }
}

/// Passes requests to a client.
pub struct Wire {
    /// Sends them.
    pub client: HttpClient,
    /// As the connector has them.
    pub stats: Arc<Stats>,
    /// As the connector has it.
    pub query: String,
    /// As the connector has it.
    pub idle_timeout: Duration,
}

impl fmt::Debug for Wire {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Wire")
    }
}

#[async_trait::async_trait]
impl HttpService for Wire {
    async fn call(&self, mut request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        add(&self.stats.requests, 1);
        let attempt = request.extensions().get::<Attempt>().cloned();
        let attempt = attempt.or_else(|| AROUND.try_with(Attempt::clone).ok());
        let has_range = request.headers().contains_key(http::header::RANGE);
        if !self.query.is_empty() {
            add_query(&mut request, &self.query)?;
        }
        let Some(attempt) = attempt else { return self.client.execute(request).await };
        lock(&attempt.met).sent = true;
        let response = self.client.execute(request).await?;
        {
            let mut met = lock(&attempt.met);
            met.status = response.status().as_u16();
            met.is_whole = has_range && met.status == 200;
            met.retry_after = retry_after(&response);
        }
        if response.status().is_success() || response.status().is_redirection() {
            return Ok(match attempt.body_bytes_max {
                Some(bytes_max) => bounded(response, bytes_max),
                None => response,
            });
        }
        let (parts, body) = response.into_parts();
        let body = self.short_body(body).await;
        lock(&attempt.met).code = code_of(&body);
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

impl Wire {
    /// The first bytes of a failure's body. An error or a wait ends it: the status is what counts.
    async fn short_body(&self, mut body: HttpResponseBody) -> Bytes {
        let mut bytes = BytesMut::new();
        while bytes.len() < FAILURE_BYTES_MAX {
            let frame = tokio::time::timeout(self.idle_timeout, body.frame()).await;
            let Ok(Some(Ok(frame))) = frame else { break };
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data[..data.len().min(FAILURE_BYTES_MAX - bytes.len())]);
            }
        }
        bytes.freeze()
    }
}

/// An answer whose body is a failure after so many bytes.
fn bounded(response: HttpResponse, bytes_max: usize) -> HttpResponse {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, bytes_max);
    let body = body.map_err(|error| match error.downcast::<HttpError>() {
        Ok(error) => *error,
        Err(error) => HttpError::new_boxed(HttpErrorKind::Decode, error),
    });
    HttpResponse::from_parts(parts, HttpResponseBody::new(body))
}

fn add_query(request: &mut HttpRequest, query: &str) -> std::result::Result<(), HttpError> {
    let uri = request.uri();
    let target = match uri.query() {
        None => format!("{}?{query}", uri.path()),
        Some(first) => format!("{}?{first}&{query}", uri.path()),
    };
    let mut parts = uri.clone().into_parts();
    // The address is left out of the error: the query may be a signature.
    let refuse = || HttpError::new(HttpErrorKind::Request, NotAQuery);
    parts.path_and_query = Some(target.parse().map_err(|_| refuse())?);
    *request.uri_mut() = http::Uri::from_parts(parts).map_err(|_| refuse())?;
    Ok(())
}

#[derive(Debug)]
struct NotAQuery;

impl fmt::Display for NotAQuery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the query of the name is not one of an address")
    }
}

impl std::error::Error for NotAQuery {}

/// The seconds of Retry-After. Its dates are not read: the backoff serves as well.
fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let value = response.headers().get(http::header::RETRY_AFTER)?;
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// The text between `<Code>` and `</Code>` of a cloud's answer, if it is a plain word.
fn code_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    match code {
        Some((code, _)) if code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric()) => {
            code.to_owned()
        }
        _ => String::new(),
    }
}
