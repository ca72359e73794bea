//! What may come of a fault, and whether it did.

use super::seam::{Call, Extent, Fault, Plan};
use super::world::World;
use super::{End, Outcome, SAMPLES_PER_BATCH};
use std::path::Path;
use wavetrain::config::{Config, ON_ERROR_FAIL, ON_ERROR_NAN};
use wavetrain::loader::Failure;
use wavetrain::status::Status;

/// What a fault may do to the samples that need its file.
enum Effect {
    /// Nothing: the library has another way.
    Nothing,
    /// Open is refused with one of these.
    Refused(&'static [Status]),
    /// The samples fail with one of these, or come out whole.
    Fails(&'static [Status]),
    /// A data file is taken to be absent: its elements are fill values. What was known to be there
    /// fails.
    Absent,
}

const IO: Effect = Effect::Fails(&[Status::Io]);

fn effect(plan: Plan) -> Effect {
    use Fault::*;
    match (plan.call, plan.fault) {
        (_, Slow | OneByte | Half | Interrupted(_)) => Effect::Nothing,
        (Call::Map | Call::Alloc, Misaligned) => Effect::Refused(&[Status::Invalid]),
        (Call::Map | Call::Reserve | Call::Thread | Call::Alloc, _) => {
            Effect::Refused(&[Status::OutOfMemory])
        }
        // It is read instead.
        (Call::MapFile, _) => Effect::Nothing,
        (Call::Probe, Fails(libc::EAGAIN | libc::EOPNOTSUPP)) => Effect::Nothing,
        // What the host did not bring is read once more, through files.read.
        (Call::HookReadAsync, _) => Effect::Nothing,
        // A server that forgot a file is asked once more.
        (_, Fails(libc::ESTALE)) if matches!(plan.extent, Extent::Once | Extent::Descriptor) => {
            Effect::Nothing
        }
        // A file that cannot be opened is looked at once more, and there: no data is missing.
        (Call::Open, Fails(libc::ENOENT | libc::ENOTDIR)) => {
            Effect::Fails(&[Status::Io, Status::NotFound])
        }
        // A file of which nothing is known is absent if this look says so.
        (Call::StatLink, Fails(libc::ENOENT)) => Effect::Absent,
        (Call::OpenDirectory, Fails(libc::ENOENT | libc::ENOTDIR)) => Effect::Absent,
        (Call::HookSize, Absent) => Effect::Absent,
        // A size that is not the file's is a change of the file, a place where no index is, or an
        // end before the last byte.
        (Call::Stat | Call::HookSize, Longer | Shorter) => {
            Effect::Fails(&[Status::Io, Status::Decode, Status::Unsupported])
        }
        _ => IO,
    }
}

/// Panics where a run did what it may not.
pub fn judge(world: &World, config: &Config, plan: Plan, is_cold: bool, outcome: &Outcome) {
    let effect = if outcome.record.hits == 0 { Effect::Nothing } else { effect(plan) };
    if let End::Refused(failure) = &outcome.end {
        let Effect::Refused(statuses) = effect else { panic!("open: {failure}") };
        assert!(statuses.contains(&failure.status), "{failure}");
        assert!(!failure.text.as_str().is_empty());
        return;
    }
    assert!(!matches!(effect, Effect::Refused(_)), "open did not notice");
    let skips = config.on_error != ON_ERROR_FAIL;
    for (job, (status, bytes)) in outcome.samples.iter().enumerate() {
        let is_nan = config.on_error == ON_ERROR_NAN;
        let elements = if is_nan { from_floats(bytes) } else { Vec::new() };
        if *status == Status::Ok {
            let whole: Option<Vec<[u8; 2]>> = elements.iter().copied().collect();
            let whole = whole.expect("an unmarked sample holds no NaN").concat();
            check_bytes(world, &effect, outcome, job, if is_nan { &whole } else { bytes });
            continue;
        }
        assert!(skips, "only skip and nan mark samples");
        check_blame(world, &effect, outcome, job, *status);
        if is_nan {
            let want = world.jobs[job].want.as_ref().expect("every job has its bytes");
            let mut pairs = elements.iter().zip(want.chunks(2));
            assert!(elements.contains(&None), "a marked sample holds NaN");
            let is_right = |(element, want): (&Option<[u8; 2]>, &[u8])| {
                element.is_none_or(|element| element == *want || element == [0; 2])
            };
            assert!(pairs.all(is_right), "sample {job} has wrong elements beside NaN");
        } else {
            assert!(bytes.iter().all(|byte| *byte == 0), "a marked sample holds pad_value");
        }
    }
    match &outcome.end {
        End::Failed(batches, failure) => {
            assert!(!skips, "skip goes on: {failure}");
            assert_eq!(outcome.samples.len(), batches * SAMPLES_PER_BATCH);
            assert_eq!(failure.batch_id, *batches as u64, "batches before it came out");
            check_failure(world, &effect, outcome, failure);
        }
        End::Held => assert!(outcome.samples.len() < world.jobs.len(), "a read is missing"),
        _ => assert_eq!(outcome.samples.len(), world.jobs.len()),
    }
    check_marked(world, config, plan, is_cold, outcome);
}

/// Floats as the u16 that they were; None for NaN.
pub fn from_floats(bytes: &[u8]) -> Vec<Option<[u8; 2]>> {
    let floats = bytes.chunks_exact(4).map(|float| f32::from_le_bytes(float.try_into().unwrap()));
    floats.map(|float| (!float.is_nan()).then_some((float as u16).to_le_bytes())).collect()
}

/// The bytes of the reference, or, where files were said to be absent, fill values in their place.
fn check_bytes(world: &World, effect: &Effect, outcome: &Outcome, job: usize, bytes: &[u8]) {
    let want = world.jobs[job].want.as_ref().expect("every job has its bytes");
    if want == bytes {
        return;
    }
    let Effect::Absent = effect else { panic!("sample {job} has wrong bytes") };
    // Each file that was hit was absent for the batch, or was not.
    let mut wants = vec![want.clone()];
    for path in outcome.record.hit.iter().filter(|path| world.needs(path, job)) {
        let without: Vec<Vec<u8>> =
            wants.iter().map(|want| world.without(path, job, want)).collect();
        wants.extend(without);
        // A folder that was looked at changes no bytes.
        wants.sort();
        wants.dedup();
        assert!(wants.len() <= 1 << 12);
    }
    assert!(wants.iter().any(|want| want == bytes), "sample {job} has wrong bytes");
}

/// A sample fails only where a file was hit that it needs.
fn check_blame(world: &World, effect: &Effect, outcome: &Outcome, job: usize, status: Status) {
    let hit = || outcome.record.hit.iter().filter(|path| world.needs(path, job));
    assert!(hit().next().is_some(), "sample {job} is {status:?} and needs none of the files");
    match effect {
        Effect::Fails(statuses) => assert!(statuses.contains(&status), "{status:?}"),
        Effect::Absent => {
            let is_metadata = hit().any(|path| World::is_metadata(path));
            // What was there before and is gone is an error; an array that is not there has a name
            // of its own.
            assert!(status == Status::Io || (is_metadata && status == Status::NotFound));
        }
        Effect::Nothing | Effect::Refused(_) => panic!("sample {job} is {status:?}"),
    }
}

/// The error of a stream blames a sample, a chunk and a file that was hit.
fn check_failure(world: &World, effect: &Effect, outcome: &Outcome, failure: &Failure) {
    let job = (failure.tag - 100) as usize;
    assert_eq!(failure.sample as usize, job % SAMPLES_PER_BATCH);
    assert_eq!(failure.batch_id as usize, job / SAMPLES_PER_BATCH);
    if let Effect::Nothing = effect {
        panic!("{failure}");
    }
    check_blame(world, effect, outcome, job, failure.status);
    let text = failure.text.as_str();
    let is_named = outcome.record.hit.iter().any(|path| {
        let is_place = failure.chunk.is_empty()
            || World::is_metadata(path)
            || world.holds_chunk(path, &failure.chunk);
        // A folder that was gone for one chunk makes other chunks of its batch errors, not missing.
        let uri = &world.jobs[job].uri;
        let is_after = text.contains("was gone before in the same batch")
            && path.strip_prefix(uri).is_some_and(|rest| rest.starts_with('/'));
        if is_after {
            return true;
        }
        // "ARRAY: chunk [0, 1] in KEY: ..."
        let key = path.strip_prefix(&world.jobs[job].uri).and_then(|key| key.strip_prefix('/'));
        let is_key = key.is_some_and(|key| text.contains(&format!(" in {key}: ")));
        is_place && world.needs(path, job) && (is_key || text.contains(path.as_str()))
    });
    assert!(is_named, "no file that was hit is named: {text}");
}

/// With skip or nan, a file that cannot be opened or read at all fails every sample that needs it.
/// One that is absent need not be opened: without a free descriptor its path alone is looked at.
fn check_marked(world: &World, config: &Config, plan: Plan, is_cold: bool, outcome: &Outcome) {
    let Fault::Fails(libc::EIO | libc::EACCES) = plan.fault else { return };
    let is_all = match plan.call {
        Call::Open => true,
        Call::Read => is_cold,
        _ => false,
    };
    let is_whole = plan.extent == Extent::File && outcome.record.is_first_of_file;
    if config.on_error == ON_ERROR_FAIL || !is_all || outcome.record.hits == 0 {
        return;
    }
    for path in outcome.record.hit.iter().filter(|path| Path::new(path).exists()) {
        for (job, (status, _)) in outcome.samples.iter().enumerate() {
            let must = is_whole && world.needs(path, job);
            assert!(!must || *status != Status::Ok, "sample {job} needs {path} and has it");
        }
    }
}
