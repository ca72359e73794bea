//! The ring of events: each observation of a stage is one, so that both add up to the same.

use crate::common::drive::{Job, config, mixed_jobs, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::store::{self, Spec, value};
use std::collections::BTreeMap;
use wavetrain::abi::{Event, Metric, NO_BATCH, NO_PLACE, Stats};
use wavetrain::base::stats::Stage;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const NOTHING: Event =
    Event { begin_ns: 0, duration_ns: 0, bytes: 0, batch: 0, kind: 0, thread: 0, wave: 0, slot: 0 };

/// The stages of the host, by their numbers.
fn stages(stats: &Stats) -> [(Stage, &Metric); 8] {
    [
        (Stage::Plan, &stats.plan),
        (Stage::Meta, &stats.meta),
        (Stage::Io, &stats.io),
        (Stage::Decode, &stats.decode),
        (Stage::DecodeGap, &stats.decode_gap),
        (Stage::Assemble, &stats.assemble),
        (Stage::BindWait, &stats.bind_wait),
        (Stage::Digest, &stats.digest),
    ]
}

fn events(loader: &Loader, count: usize) -> Vec<Event> {
    let mut events = vec![NOTHING; count];
    let kept = loader.trace(&mut events).unwrap();
    events.truncate(kept);
    events
}

/// Events of a thread lie apart, or one in another.
fn check_nesting(events: &[Event]) {
    let mut threads: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.thread != 0) {
        let span = (event.begin_ns, event.begin_ns + event.duration_ns);
        threads.entry(event.thread).or_default().push(span);
    }
    assert!(!threads.is_empty());
    for (thread, mut spans) in threads {
        spans.sort_by_key(|(begin, end)| (*begin, u64::MAX - end));
        let mut open: Vec<u64> = Vec::new();
        for (begin, end) in spans {
            while open.last().is_some_and(|last| *last <= begin) {
                open.pop();
            }
            let outer = open.last().copied().unwrap_or(u64::MAX);
            assert!(end <= outer, "thread {thread}: {begin} to {end} goes beyond {outer}");
            open.push(end);
        }
    }
}

#[test]
fn events_add_up_to_the_figures_and_are_nested() {
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let mut config = config(Dtype::F32, &[16, 16], 3);
        config.thread_mode = thread_mode;
        config.trace_events = 1 << 16;
        config.digest = 1;
        let loader = Loader::open_on(&SYSTEM, &config).unwrap();
        let jobs = mixed_jobs(60);
        stream_through(&loader, &config, &jobs, 0);
        // Planning may go on after the last pop: it ends before the threads do.
        let found = settled(&loader, 1 << 16);
        let stats = loader.stats().unwrap();
        for (stage, metric) in stages(&stats) {
            let of: Vec<&Event> = found.iter().filter(|e| e.kind == stage as u32).collect();
            let sum = |get: fn(&Event) -> u64| of.iter().map(|event| get(event)).sum::<u64>();
            assert_eq!(of.len() as u64, metric.count, "{stage:?}");
            assert_eq!(sum(|event| event.duration_ns), metric.ns, "{stage:?}");
            assert_eq!(sum(|event| event.bytes), metric.output_bytes, "{stage:?}");
        }
        check_nesting(&found);
        let of = |stage: Stage| found.iter().filter(move |event| event.kind == stage as u32);
        assert!(of(Stage::Decode).count() > 0 && of(Stage::Assemble).count() > 0);
        assert!(of(Stage::Assemble).all(|event| event.batch < 20 && event.wave != NO_PLACE));
        assert!(of(Stage::Plan).all(|event| event.batch == NO_BATCH && event.thread != 0));
        assert!(of(Stage::DecodeGap).count() > 0, "{thread_mode}");
        assert!(of(Stage::BindWait).all(|event| event.thread == 0 && event.wave != NO_PLACE));
    }
}

/// The events once no job runs any more.
fn settled(loader: &Loader, count: usize) -> Vec<Event> {
    let mut before = loader.stats().unwrap().worker_steps;
    loop {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = loader.stats().unwrap().worker_steps;
        if now == before {
            return events(loader, count);
        }
        before = now;
    }
}

fn small(scratch: &Scratch) -> (Config, Vec<Job>) {
    let spec = Spec { seed: 1, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: false };
    store::write(&scratch.path("a"), &spec);
    let want: Vec<u8> = store::places(16).flat_map(|at| value(1, at).to_le_bytes()).collect();
    let job = Job::new(&scratch.uri("a"), (vec![0; 3], vec![16; 3]), want);
    let mut config = config(Dtype::U16, &[16, 16, 16], 1);
    config.thread_mode = THREADS_PUMP;
    (config, vec![job; 3])
}

#[test]
fn a_full_ring_has_the_last_events_and_a_reset_empties_it() {
    let scratch = Scratch::new();
    let (mut config, jobs) = small(&scratch);
    config.trace_events = 40;
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs, 0);
    let last = events(&loader, 40);
    assert_eq!(last.len(), 40);
    let ends: Vec<u64> = last.iter().map(|event| event.begin_ns + event.duration_ns).collect();
    assert!(ends.windows(2).all(|pair| pair[0] <= pair[1]), "one thread keeps them as they end");
    let newest = events(&loader, 7);
    assert_eq!(newest.len(), 7);
    assert!(newest == last[33..]);
    loader.stats_reset().unwrap();
    assert!(events(&loader, 40).is_empty());
}

#[test]
fn without_a_ring_a_trace_is_invalid_and_takes_no_memory() {
    let scratch = Scratch::new();
    let (mut config, _) = small(&scratch);
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let failure = loader.trace(&mut [NOTHING; 4]).unwrap_err();
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("trace_events = 0"), "{failure}");
    let bytes = |config: &Config| {
        let need = wavetrain::loader::memory_need(config).unwrap();
        need.host_bytes + need.pinned_bytes
    };
    let without = bytes(&config);
    config.trace_events = 1000;
    let taken = bytes(&config) - without;
    assert!((56_000..60_000).contains(&taken), "{taken}");
}
