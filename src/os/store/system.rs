//! The row of the files of the system.

use crate::base::limits::DIRECTORY_READ_BYTES;
use crate::base::version::Version;
use crate::os::directory::Entries;
use crate::os::store::{Fault, Listing, Opened, Path, Row, STALE, Store, Visit, twice};
use crate::os::{Errno, FileKind, FileStat, uninterrupted};

pub const ROW: Row = Row {
    open,
    stat: |store, fd, _| store.stat_open(fd),
    stat_path,
    stat_link: |store, path| {
        twice(Errno(libc::ESTALE), || (store.os.stat_link)(path.as_bytes_nul()))
    },
    list,
    read,
    tail: |_, _, _| Err(Fault::HookFailed),
    begin_read: |_, _, _, _, _| Err(Fault::HookFailed),
    waits: false,
    has_descriptors: true,
    has_folders: true,
    has_paths: true,
    shows_changes: true,
    has_tails: false,
    asks_versions: false,
    merges: (0, 0),
};

fn fault_from(errno: Errno) -> Fault {
    match errno.0 {
        libc::ENOENT | libc::ENOTDIR => Fault::Absent,
        _ => Fault::Failed(errno),
    }
}

fn open(store: &Store, path: &Path) -> Result<Opened, Fault> {
    let fd = match uninterrupted(|| (store.os.open)(path.as_bytes_nul())) {
        // A socket, or a device without a driver, cannot be opened at all.
        Err(errno @ Errno(libc::ENXIO)) => {
            let kind = stat_path(store, path).map_or(FileKind::REGULAR, |stat| stat.kind);
            let is_odd = kind != FileKind::REGULAR;
            return Err(if is_odd { Fault::NotRegular(kind) } else { Fault::Failed(errno) });
        }
        opened => opened.map_err(fault_from)?,
    };
    match store.stat_open(fd) {
        Ok(stat) if stat.kind == FileKind::REGULAR => Ok((fd, stat)),
        looked => {
            (store.os.close)(fd);
            Err(looked.map_or_else(|fault| fault, |stat| Fault::NotRegular(stat.kind)))
        }
    }
}

fn stat_path(store: &Store, path: &Path) -> Result<FileStat, Fault> {
    uninterrupted(|| (store.os.stat_path)(path.as_bytes_nul())).map_err(fault_from)
}

fn list(
    store: &Store,
    folder: &str,
    names_max: u32,
    visit: &mut Visit<'_>,
) -> Result<(Listing, Version), Fault> {
    let (fd, version) = twice(STALE, || open_folder(store, folder))?;
    let (mut buffer, mut looked_at) = ([0; DIRECTORY_READ_BYTES], 0);
    // Ends: every turn looks at a name or breaks, and names are counted.
    let listed = 'names: loop {
        let got = match uninterrupted(|| (store.os.read_directory)(fd, &mut buffer)) {
            Ok(0) => break Ok(Listing::Whole),
            Ok(got) => got,
            Err(errno) => break Err(Fault::Failed(errno)),
        };
        let before = looked_at;
        for entry in Entries(buffer.get(..got).unwrap_or(&[])) {
            if looked_at == names_max {
                break 'names Ok(Listing::Cut);
            }
            looked_at += 1;
            visit(&entry);
        }
        if looked_at == before {
            break Ok(Listing::Cut);
        }
    };
    (store.os.close)(fd);
    Ok((listed?, version))
}

/// Opens a folder and looks at it.
#[inline(never)] // a path is not to stand on the stack while the names are visited
fn open_folder(store: &Store, folder: &str) -> Result<(i32, Version), Fault> {
    let mut path = Path::new();
    path.push_str(folder);
    let open = || (store.os.open_directory)(path.as_bytes_nul());
    let fd = uninterrupted(open).map_err(fault_from)?;
    let stat = store.stat_open(fd).inspect_err(|_| (store.os.close)(fd))?;
    Ok((fd, stat.version()))
}

fn read(
    store: &Store,
    (fd, _): Opened,
    _: &Path,
    target: &mut [u8],
    offset: u64,
    cached_only: bool,
) -> Result<(), Fault> {
    let mut done = 0usize;
    // Ends: every turn reads at least a byte, or returns.
    while done < target.len() {
        let at = offset.checked_add(done as u64).ok_or(Fault::Ended(u64::MAX))?;
        let rest = &mut target[done..];
        match uninterrupted(|| (store.os.read)(fd, rest, at, cached_only)) {
            Ok(0) => return Err(Fault::Ended(at)),
            Ok(got) => done += got,
            Err(Errno(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS)) if cached_only => {
                return Err(Fault::WouldBlock);
            }
            Err(errno) => return Err(Fault::Failed(errno)),
        }
    }
    Ok(())
}
