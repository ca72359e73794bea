//! The client: threads, calls from any thread, and their end.
//!
//! In: calls with names. Out: their results, on the calling thread or through a completion.
//! Threads: `n_threads` named wtremote-io move bytes, up to as many more, of the same name, read
//! local files and inflate, and one named wtremote-done calls completions, so that what a loader
//! does there, such as a read of its own, never holds up the bytes of others.
//!
//! A call lives between `enter` and the drop of its `Call`. `close` ends what is in flight, waits
//! until there is no call, and joins the threads. A child of fork has none of the threads: a call
//! there fails by itself, before it touches a lock that a thread of the parent may have held.

use crate::abi::ReadDone;
use crate::completer::{Completer, Done};
use crate::config::Config;
use crate::core::{Core, Expect};
use crate::error::{Error, Kind, Result};
use crate::fetch::Fetch;
use crate::gate::Gate;
use crate::name::{Name, Place};
use crate::stats::{Stats, StatsView, add};
use crate::stores::Stores;
use crate::target::Target;
use crate::version::{VERSION_BYTES, Version};
use crate::{file, lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// The text of failures in a child of fork.
pub const FORKED: &str = "this process is a child of fork, where the client has no threads: \
                          open a client of its own there, or start it by spawn";
/// How long `close` waits for threads that read a local file.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Reports a failure as it happens.
pub type OnError = Box<dyn Fn(&str) + Send + Sync>;

/// Functions of the host.
#[derive(Default)]
pub struct Callbacks {
    /// `wavetrain_read_done`; nothing: there are no asynchronous reads.
    pub read_done: Option<ReadDone>,
    /// Called with the text of each failure, on the thread that met it.
    pub on_error: Option<OnError>,
}

struct Calls {
    count: usize,
    is_closed: bool,
    /// Cancelled to end what is in flight.
    token: CancellationToken,
}

struct Shared {
    core: Arc<Core>,
    calls: Mutex<Calls>,
    /// Signalled when `calls.count` falls to 0.
    none_left: Condvar,
    last_error: Mutex<String>,
    on_error: Option<OnError>,
    completer: Completer,
    /// The process that opened the client.
    process: u32,
}

/// A client of remote stores. Any number of loaders and threads share one.
pub struct Client {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    has_read_done: bool,
}

/// The last bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Bytes that were written to the target.
    pub got: u64,
    /// Bytes of the object.
    pub size: u64,
    /// Its version.
    pub version: [u8; VERSION_BYTES],
}

/// A call in progress.
struct Call {
    shared: Arc<Shared>,
    token: CancellationToken,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = lock(&self.shared.calls);
        calls.count -= 1;
        if calls.count == 0 {
            self.shared.none_left.notify_all();
        }
    }
}

/// Sends the completion of a read exactly once, also if its task is dropped or panics.
struct Completion {
    loader: u64,
    ticket: u64,
    result: i64,
    call: Call,
}

impl Completion {
    /// The read is over. It takes itself, so that a task that ends it owns all of it.
    fn end(mut self, result: i64) {
        self.result = result;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let done = Done { loader: self.loader, ticket: self.ticket, result: self.result };
        self.call.shared.completer.send(done);
    }
}

impl Client {
    /// Opens a client: starts its threads, and makes no request.
    pub fn open(config: Config, callbacks: Callbacks) -> Result<Self> {
        config.check()?;
        let secrets = config.secrets();
        let stats = Arc::new(Stats::default());
        let stores = Stores::new(&config, secrets.clone(), stats.clone())?;
        let gate = Gate::new(config.reads_max);
        let threads = config.n_threads as usize;
        let core = Core::new(Fetch { config, secrets, stats, gate, stores });
        let number = AtomicUsize::new(0);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(threads)
            .thread_name_fn(move || {
                format!("wtremote-io-{}", number.fetch_add(1, Ordering::Relaxed))
            })
            .enable_all()
            .build()
            .map_err(|error| Error::failed(format!("the threads cannot be started: {error}")))?;
        let has_read_done = callbacks.read_done.is_some();
        let completer = Completer::start(callbacks.read_done)?;
        let calls = Calls { count: 0, is_closed: false, token: CancellationToken::new() };
        let shared = Arc::new(Shared {
            core,
            calls: Mutex::new(calls),
            none_left: Condvar::new(),
            last_error: Mutex::new(String::new()),
            on_error: callbacks.on_error,
            completer,
            process: std::process::id(),
        });
        Ok(Self { shared, runtime: Some(runtime), has_read_done })
    }

    /// True if asynchronous reads can be completed.
    pub fn has_read_done(&self) -> bool {
        self.has_read_done
    }

    /// True in a child of the process that opened the client.
    pub fn is_forked(&self) -> bool {
        self.shared.process != std::process::id()
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.shared.core.fetch.config
    }

    /// Bytes of an object.
    pub fn size(&self, name: &str) -> Result<u64> {
        let call = self.enter()?;
        add(&self.stats().sizes, 1);
        let core = self.shared.core.clone();
        self.finish(Name::parse(name).and_then(|name| match plain_file(&name) {
            Some(path) => Ok(file::head(path)?.size),
            None => self.run(&call, async move { core.size(name).await }),
        }))
    }

    /// Fills `target` from `offset` on, with bytes of the version whose size was asked for last.
    pub fn read(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<()> {
        // SAFETY: `read_into` returns when nothing writes to the target any more.
        let target = unsafe { Target::of(target) };
        self.read_into(name, offset, target, Expect::Known).map(|_| ())
    }

    /// As `read`, of one version; all zeros: of any, which is returned.
    pub fn read_version(
        &self,
        name: &str,
        version: [u8; VERSION_BYTES],
        offset: u64,
        target: &mut [u8],
    ) -> Result<[u8; VERSION_BYTES]> {
        // SAFETY: as in `read`.
        let target = unsafe { Target::of(target) };
        self.read_into(name, offset, target, expect_from(version))
    }

    /// Fills a target; it is not written any more when this returns.
    pub fn read_into(
        &self,
        name: &str,
        offset: u64,
        mut target: Target,
        expect: Expect,
    ) -> Result<[u8; VERSION_BYTES]> {
        let call = self.enter()?;
        add(&self.stats().reads, 1);
        let bytes = target.bytes() as u64;
        let core = self.shared.core.clone();
        let read = Name::parse(name).and_then(|name| match plain_file(&name) {
            Some(path) => {
                let expect = version_of(&expect);
                Ok(file::read(path, offset, &mut target, expect)?.version)
            }
            None => self.run(&call, async move { core.read(name, offset, target, expect).await }),
        });
        let version = self.finish(read)?;
        add(&self.stats().bytes_read, bytes);
        Ok(version.digest)
    }

    /// The last bytes of an object, as many as `target` has at most, in one request.
    pub fn read_tail(&self, name: &str, target: &mut [u8]) -> Result<Tail> {
        // SAFETY: `read_tail_into` returns when nothing writes to the target any more.
        self.read_tail_into(name, unsafe { Target::of(target) })
    }

    /// As `read_tail`, into a target that is not written any more when this returns.
    pub fn read_tail_into(&self, name: &str, target: Target) -> Result<Tail> {
        let call = self.enter()?;
        add(&self.stats().reads, 1);
        let core = self.shared.core.clone();
        let end = Name::parse(name)
            .and_then(|name| self.run(&call, async move { core.read_end(name, target).await }));
        let end = self.finish(end)?;
        add(&self.stats().bytes_read, end.bytes);
        let (size, version) = (end.meta.size, end.meta.version.digest);
        Ok(Tail { got: end.bytes, size, version })
    }

    /// The children of a folder, and whether each is a folder.
    pub fn list(&self, name: &str) -> Result<Vec<(String, bool)>> {
        let call = self.enter()?;
        add(&self.stats().lists, 1);
        let core = self.shared.core.clone();
        let list = Name::parse(name)
            .and_then(|name| self.run(&call, async move { core.list(name).await }));
        self.finish(list)
    }

    /// Begins a read. Its completion follows exactly once if this succeeds.
    pub fn read_async(
        &self,
        loader: u64,
        ticket: u64,
        name: &str,
        offset: u64,
        target: Target,
        expect: Expect,
    ) -> Result<()> {
        let call = self.enter()?;
        add(&self.stats().reads, 1);
        let Some(runtime) = &self.runtime else { return self.finish(Err(closed())) };
        let name = self.finish(Name::parse(name))?;
        let (shared, token) = (self.shared.clone(), call.token.clone());
        let result = crate::abi::FILE_FAILED;
        let completion = Completion { loader, ticket, result, call };
        if let Some(path) = plain_file(&name) {
            // It is not cancelled half-way: the job owns the target to its end.
            let (path, mut target) = (path.to_owned(), target);
            runtime.spawn_blocking(move || {
                let bytes = target.bytes() as u64;
                let read = file::read(&path, offset, &mut target, version_of(&expect));
                completion.end(shared.result_of(bytes, read.map(|_| ())));
            });
            return Ok(());
        }
        runtime.spawn(async move {
            let bytes = target.bytes() as u64;
            let core = shared.core.clone();
            let read = async move { core.read(name, offset, target, expect).await.map(|_| ()) };
            let read = cancellable(token, read).await;
            completion.end(shared.result_of(bytes, read));
        });
        Ok(())
    }

    /// Ends what is in flight with a failure. Later calls work.
    pub fn cancel(&self) {
        if !self.is_forked() {
            let mut calls = lock(&self.shared.calls);
            calls.token.cancel();
            calls.token = CancellationToken::new();
        }
    }

    /// The figures.
    pub fn view(&self) -> StatsView {
        let mut view = self.stats().view();
        // The lock of the gate may be held by a thread that a child of fork does not have.
        if !self.is_forked() {
            view.in_flight = self.shared.core.fetch.gate.in_flight().into();
        }
        view
    }

    /// The text of the last failure; empty: there was none.
    pub fn last_error(&self) -> String {
        if self.is_forked() { FORKED.to_owned() } else { lock(&self.shared.last_error).clone() }
    }

    fn stats(&self) -> &Stats {
        &self.shared.core.fetch.stats
    }

    fn enter(&self) -> Result<Call> {
        if self.is_forked() {
            return Err(Error::failed(FORKED));
        }
        let mut calls = lock(&self.shared.calls);
        if calls.is_closed {
            return Err(closed());
        }
        calls.count += 1;
        Ok(Call { shared: self.shared.clone(), token: calls.token.clone() })
    }

    /// Runs work on the client's threads and waits for its end. The work is over when this returns.
    fn run<T: Send + 'static>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Some(runtime) = &self.runtime else { return Err(closed()) };
        let (sender, receiver) = mpsc::sync_channel(1);
        let token = call.token.clone();
        runtime.spawn(async move {
            let result = cancellable(token, work).await;
            // Whoever called waits for it.
            let _ = sender.send(result);
        });
        match receiver.recv() {
            Ok(result) => result,
            Err(_) => Err(Error::failed("defect: a read ended without a result")),
        }
    }

    /// Reports the failure of an argument, which no call has seen.
    pub fn checked<T>(&self, result: Result<T>) -> Result<T> {
        if self.is_forked() { result } else { self.finish(result) }
    }

    fn finish<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.shared.report(error);
        }
        result
    }

    /// Ends what is in flight, waits for it, and ends the threads.
    fn end(&mut self) {
        if self.is_forked() {
            // Its threads are the parent's: nothing of it can be waited for or dropped.
            std::mem::forget(self.runtime.take());
            std::mem::forget(self.shared.clone());
            return;
        }
        let mut calls = lock(&self.shared.calls);
        calls.is_closed = true;
        calls.token.cancel();
        while calls.count > 0 {
            calls = match self.shared.none_left.wait(calls) {
                Ok(calls) => calls,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        drop(calls);
        self.shared.completer.end();
        if let Some(runtime) = self.runtime.take() {
            // On a thread of its own: a host may close on a thread of another runtime, which must
            // not wait, and tokio would refuse it there.
            let end = move || runtime.shutdown_timeout(JOIN_TIMEOUT);
            if let Ok(ender) = std::thread::Builder::new().spawn(end) {
                let _ = ender.join();
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn report(&self, error: &Error) {
        let stats = &self.core.fetch.stats;
        match error.kind {
            Kind::Absent => {
                add(&stats.absent, 1);
                if error.is_denied {
                    // It is no failure, but the reason if a document is missed.
                    add(&stats.denied, 1);
                    *lock(&self.last_error) = error.to_string();
                }
                return;
            }
            Kind::Changed => add(&stats.changed, 1),
            // The caller asks for names then.
            Kind::Unlisted => return,
            Kind::Beyond | Kind::Failed => {}
        }
        add(&stats.failed, 1);
        let text = error.to_string();
        if let Some(on_error) = &self.on_error {
            on_error(&text);
        }
        *lock(&self.last_error) = text;
    }

    /// The result of a completion.
    fn result_of(&self, bytes: u64, read: Result<()>) -> i64 {
        match read {
            Ok(()) => {
                add(&self.core.fetch.stats.bytes_read, bytes);
                0
            }
            Err(error) => {
                self.report(&error);
                code_of(&error)
            }
        }
    }
}

/// The value that a hook returns for a failure.
pub fn code_of(error: &Error) -> i64 {
    match error.kind {
        Kind::Absent => crate::abi::FILE_ABSENT,
        Kind::Changed => crate::abi::FILE_CHANGED,
        Kind::Unlisted => crate::abi::FILE_UNLISTED,
        Kind::Beyond | Kind::Failed => crate::abi::FILE_FAILED,
    }
}

/// The version of a caller; all zeros: any.
pub fn expect_from(version: [u8; VERSION_BYTES]) -> Expect {
    if version == [0; VERSION_BYTES] {
        Expect::Any
    } else {
        Expect::This(Version::from_digest(version))
    }
}

fn version_of(expect: &Expect) -> Option<&Version> {
    match expect {
        Expect::This(version) => Some(version),
        Expect::Known | Expect::Any => None,
    }
}

/// The path of a name that is a file and in no archive.
fn plain_file(name: &Name) -> Option<&std::path::Path> {
    match (&name.place, &name.entry) {
        (Place::File(path), None) => Some(path),
        _ => None,
    }
}

fn closed() -> Error {
    Error::failed("the client is closed")
}

async fn cancellable<T>(
    token: CancellationToken,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        () = token.cancelled() => Err(Error::failed("cancelled: cancel or close was called")),
        result = work => result,
    }
}
