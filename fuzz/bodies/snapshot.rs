//! Metadata that was looked up before: bytes of anything, and of a writer that got drawn files.

use wavetrain::base::snapshot::{Snapshot, SnapshotWriter, count};
use wavetrain::base::status::Why;
use wavetrain::base::version::Version;

fn path(number: u8) -> &'static [u8] {
    let paths: [&[u8]; 4] = [b"/a", b"/a/zarr.json", b"/b/c/0/0", b"/long/enough/for/words.npy"];
    paths[number as usize % 4]
}

fn look(bytes: &[u8]) {
    let Ok(_) = count(bytes, &mut Why::new()) else { return };
    let snapshot = Snapshot::of(bytes);
    for number in 0..4 {
        for (offset, count) in [(0, 1), (3, 40), (u64::MAX, 1), (1 << 40, usize::MAX)] {
            let found = snapshot.bytes(path(number), offset, count);
            assert!(found.is_none_or(|found| found.len() == count));
        }
    }
}

/// The first byte chooses: bytes as they are, or a writer that the others drive; what it wrote is
/// found, and changes of it are read without harm.
pub fn run(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    if kind & 1 == 0 {
        return look(data);
    }
    let mut room = vec![0xEE; usize::from(*kind) * 8];
    let mut writer = SnapshotWriter::new(&mut room);
    let mut noted: Vec<(u8, u64, Vec<u8>)> = Vec::new();
    for step in data.chunks(4) {
        let &[file, offset, count, value] = step else { break };
        let (offset, bytes) = (u64::from(offset), vec![value; usize::from(count % 40)]);
        let version = Version { bytes: u64::from(file % 4), ..Version::NONE };
        if writer.file(path(file), version).is_err() || writer.part(offset, &bytes).is_err() {
            break;
        }
        noted.push((file, offset, bytes));
    }
    let used = writer.used();
    let written = room[..used].to_vec();
    count(&written, &mut Why::new()).expect("what a writer writes");
    let snapshot = Snapshot::of(&written);
    // The first record of a file counts: those of others end it.
    for (at, (file, offset, bytes)) in noted.iter().enumerate() {
        let same = |other: &u8| other % 4 == file % 4;
        let begin = noted.iter().position(|(other, ..)| same(other)).expect("it is one of them");
        let is_first = noted[begin..at].iter().all(|(other, ..)| same(other));
        let found = snapshot.bytes(path(*file), *offset, bytes.len());
        assert!(!is_first || found.is_some(), "{at}");
        let version = Version { bytes: u64::from(file % 4), ..Version::NONE };
        assert!(!snapshot.has_changed(path(*file), version, false));
    }
    let mut changed = written;
    if let (Some(last), Some(at)) = (data.last(), data.first()) {
        let at = usize::from(*at) * 3 % changed.len().max(1);
        changed.get_mut(at).into_iter().for_each(|byte| *byte ^= last);
    }
    look(&changed);
}
