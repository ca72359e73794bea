//! The trace of a run, as Perfetto and chrome://tracing read it.
//!
//! In: the last events of a loader, while its threads are there. Out: a JSON file with an X event
//! for each, named by its stage, on the track of its thread. Events of no thread overlap: each
//! stage of these has tracks of its own, as many as overlap, with numbers that no thread has.

use crate::fault::{Fault, Outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use wavetrain::abi::{Event, NO_BATCH, NO_PLACE, Stats};
use wavetrain::base::stats::STAGES;
use wavetrain::loader::Loader;

/// Events that are kept if the command line does not say.
pub const EVENTS: u32 = 1 << 20;

/// The first number of a track that is of no thread: Linux has fewer processes.
const TRACK_FIRST: u32 = 1 << 23;

/// Writes the events that a loader keeps, `count` at most.
pub fn write(loader: &Loader, count: u32, path: &Path) -> Outcome<()> {
    let mut events = vec![blank(); count as usize];
    let kept = loader.trace(&mut events).map_err(|failure| Fault::library(&failure))?;
    events.truncate(kept);
    let text = json!({ "traceEvents": all(&mut events), "displayTimeUnit": "ns" }).to_string();
    std::fs::write(path, text).map_err(|error| Fault::path(path, &error))
}

fn blank() -> Event {
    let (batch, place) = (NO_BATCH, NO_PLACE);
    Event {
        begin_ns: 0,
        duration_ns: 0,
        bytes: 0,
        batch,
        kind: 0,
        thread: 0,
        wave: place,
        slot: place,
    }
}

/// The events, those that begin first first, before those that end first; then names of tracks.
fn all(events: &mut [Event]) -> Vec<Value> {
    events.sort_by_key(|event| (event.begin_ns, u64::MAX - event.duration_ns));
    let (mut tracks, mut threads) = (BTreeMap::<u32, Vec<u64>>::new(), BTreeSet::new());
    let mut values = Vec::new();
    for event in events.iter() {
        let mut track = event.thread;
        if track == 0 {
            let ends = tracks.entry(event.kind).or_default();
            let free = ends.iter().position(|end| *end <= event.begin_ns);
            let number = free.unwrap_or(ends.len());
            ends.resize(ends.len().max(number + 1), 0);
            ends[number] = event.begin_ns + event.duration_ns;
            track = TRACK_FIRST + (event.kind << 16) + number as u32;
        } else {
            threads.insert(track);
        }
        values.push(value_of(event, track));
    }
    values.extend(threads.into_iter().map(|thread| named(thread, &thread_name(thread))));
    for (kind, ends) in tracks {
        for number in 0..ends.len() as u32 {
            let name = format!("{} {number}", stage(kind));
            values.push(named(TRACK_FIRST + (kind << 16) + number, &name));
        }
    }
    values
}

fn stage(kind: u32) -> &'static str {
    STAGES.get(kind as usize).copied().unwrap_or("unknown")
}

/// Times are in microseconds, which is what the format has.
fn value_of(event: &Event, track: u32) -> Value {
    let mut arguments = json!({ "bytes": event.bytes });
    let numbers = [("wave", event.wave), ("slot", event.slot)];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != NO_PLACE) {
        arguments[name] = json!(number);
    }
    if event.batch != NO_BATCH {
        arguments["batch"] = json!(event.batch);
    }
    json!({
        "ph": "X",
        "name": stage(event.kind),
        "cat": "wavetrain",
        "pid": std::process::id(),
        "tid": track,
        "ts": event.begin_ns as f64 / 1e3,
        "dur": event.duration_ns as f64 / 1e3,
        "args": arguments,
    })
}

fn named(track: u32, name: &str) -> Value {
    let pid = std::process::id();
    let arguments = json!({ "name": name });
    json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": track, "args": arguments })
}

/// The name of a thread of this process, as debuggers show it.
fn thread_name(thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    name.map_or_else(|_| format!("thread {thread}"), |name| name.trim_end().to_owned())
}

/// A note on events that the ring has no place for any more; None if it has all.
pub fn lost(stats: &Stats, count: u32) -> Option<String> {
    let seen: u64 = crate::report::stages(stats).iter().map(|(_, metric)| metric.count).sum();
    (seen > u64::from(count))
        .then(|| format!("--trace has the last {count} of {seen} events: raise --trace-events"))
}
