//! examples/hdf5_source.cpp: every box that it gives is what h5py reads, and what it cannot read
//! is refused.
//!
//! Files are written by h5py, which has an HDF5 of its own; the program uses the system's. A
//! machine without either skips, and says so.

use crate::common::cc;
use crate::common::pack::example;
use crate::python::python;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Flags of the system's library, as pkg-config or its own compiler script tells them.
fn flags() -> Option<Vec<String>> {
    for package in ["hdf5-serial", "hdf5"] {
        let mut command = Command::new("pkg-config");
        let output = command.args(["--cflags", "--libs", package]).output();
        if let Some(output) = output.ok().filter(|output| output.status.success()) {
            let text = String::from_utf8(output.stdout).unwrap();
            return Some(text.split_whitespace().map(str::to_string).collect());
        }
    }
    println!("skipped: pkg-config knows no hdf5-serial and no hdf5: apt-get install libhdf5-dev");
    None
}

fn python_with_h5py() -> Option<Command> {
    let is_there = python()?.args(["-c", "import h5py, numpy"]).output().unwrap();
    if !is_there.status.success() {
        println!("skipped: python3 has no h5py: pip install h5py");
        return None;
    }
    python()
}

/// The program, or None where something is missing.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| example("hdf5_source", &flags()?));
    made.as_deref()
}

/// Writes the datasets to argv[1], and prints "name shape-of-a-box" of those that can be read.
const WRITE: &str = "
import sys, h5py, numpy
dice = numpy.random.default_rng(4)
def some(kind, shape):
    if kind == '?':
        return dice.integers(0, 2, shape).astype(kind)
    if 'f' in kind or 'c' in kind:
        data = dice.normal(size=shape)
        return (data + 1j * data[::-1] if 'c' in kind else data).astype(kind)
    info = numpy.iinfo(kind)
    return dice.integers(info.min, info.max, shape, kind[-2:], endpoint=True).astype(kind)
with h5py.File(sys.argv[1], 'w') as file:
    def put(name, kind, shape, box, **how):
        file.create_dataset(name, data=some(kind, shape), **how)
        print(name, box)
    packed = dict(compression='gzip', shuffle=True)
    volume, box = (37, 41, 53), '9x11x13'
    put('contiguous', '<f4', volume, box)
    put('image/raw', '<u2', volume, box, chunks=(8, 16, 32), **packed)
    put('image/deep/er', '<u2', volume, box, chunks=(5, 7, 53), compression='gzip')
    put('shuffled', '<i8', volume, box, chunks=(16, 16, 16), shuffle=True)
    put('checked', '<f8', volume, box, chunks=(10, 41, 10), fletcher32=True, **packed)
    put('one chunk', '<i2', volume, box, chunks=volume, **packed)
    put('larger chunks', '<u1', (20, 30), '20x7', chunks=(64, 64), maxshape=(None, None), **packed)
    for kind in ('<i1', '<u1', '<i2', '>u2', '>i4', '<u4', '>i8', '<u8', '<f2', '>f2', '>f4', '>f8',
                 '?', '<c8', '<c16', '>c8'):
        put('types/' + kind, kind, (50, 60), '7x8', chunks=(16, 16), **packed)
        put('plain types/' + kind, kind, (50, 60), '7x8')
    put('line', '<f4', (1000,), '100', chunks=(64,), **packed)
    put('deep', '<u1', (3, 4, 5, 6, 7, 8), '2x2x2x2x2x2', chunks=(2, 3, 4, 5, 6, 7), **packed)
    put('one', '<i4', (), '1')
    sparse = file.create_dataset('sparse', (64, 64), '<i4', chunks=(16, 16), fillvalue=-7, **packed)
    sparse[20:30, 20:30] = some('<i4', (10, 10))
    print('sparse', '40x40')
    empty = file.create_dataset('unwritten', (64, 64), '>f4', fillvalue=0.5)
    print('unwritten', '40x40')
    # What is refused.
    file['text'] = numpy.array([b'one', b'two'])
    file['words'] = ['one', 'two']
    file.create_dataset('null', dtype='f4')
    file['pair'] = numpy.zeros(4, [('x', 'f4'), ('y', 'i4')])
    # Of noise the filter would be left out.
    file.create_dataset('lzf', data=numpy.full(4096, 7), chunks=(1024,), compression='lzf')
    layout = h5py.VirtualLayout((37, 41, 53), '<f4')
    layout[:] = h5py.VirtualSource(file['contiguous'])
    file.create_virtual_dataset('virtual', layout)
    file['dangling'] = h5py.SoftLink('/nowhere')
    file['linked'] = h5py.SoftLink('/image/raw')
    print('linked', box)
";

/// Reads the boxes of stdin from dataset argv[2] of argv[1], and compares them with file argv[3].
const CHECK: &str = "
import sys, h5py, numpy
extents = [int(extent) for extent in sys.argv[4].split('x')]
with h5py.File(sys.argv[1]) as file:
    data = file[sys.argv[2]]
    native = data.dtype.newbyteorder('=')
    found = numpy.fromfile(sys.argv[3], native)
    boxes = [[int(word) for word in line.split()] for line in sys.stdin]
    found = found.reshape(len(boxes), *extents) if data.ndim else found.reshape(len(boxes))
    for number, begin in enumerate(boxes):
        wanted = data[tuple(slice(at, at + extent) for at, extent in zip(begin, extents))]
        wanted = numpy.asarray(wanted).astype(native)
        assert wanted.shape == found[number].shape, (wanted.shape, found[number].shape)
        assert wanted.tobytes() == found[number].tobytes(), (number, begin)
    print('same', len(boxes), len({tuple(begin) for begin in boxes}))
";

/// A file and its readable datasets, each with the shape of a box.
fn write_file(folder: &Path) -> Option<(PathBuf, Vec<(String, String)>)> {
    let file = folder.join("file.h5");
    let printed = cc::run(python_with_h5py()?.args(["-c", WRITE]).arg(&file));
    let pairs = printed.lines().map(|line| line.rsplit_once(' ').unwrap());
    let pairs = pairs.map(|(name, shape)| (name.to_string(), shape.to_string()));
    Some((file, pairs.collect()))
}

fn run_on(program: &Path, file: &Path, dataset: &str, shape: &str, count: u32) -> Output {
    let out = file.with_extension("out");
    let mut command = Command::new(program);
    command.arg(file).args([dataset, shape, &count.to_string()]).arg(out).output().unwrap()
}

#[test]
fn boxes_of_every_dataset_are_what_h5py_reads() {
    let Some(program) = program() else { return };
    let folder = cc::folder("hdf5");
    let Some((file, datasets)) = write_file(&folder) else { return };
    assert!(datasets.len() > 40, "{datasets:?}");
    for (name, shape) in &datasets {
        let output = run_on(program, &file, name, shape, 75);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{name}: {complaint}");
        fs::write(folder.join("boxes"), &output.stdout).unwrap();
        let mut check = python_with_h5py().unwrap();
        check.args(["-c", CHECK]).arg(&file).arg(name).arg(file.with_extension("out")).arg(shape);
        let said = cc::run(check.stdin(fs::File::open(folder.join("boxes")).unwrap()));
        let places = said.trim().strip_prefix("same 75 ").unwrap_or_else(|| panic!("{said}"));
        assert!(name == "one" || places.parse::<u32>().unwrap() > 10, "{name}: {said}");
    }
}

/// The status and both texts of a run that fails.
fn refusal(program: &Path, file: &Path, dataset: &str, shape: &str) -> String {
    let output = run_on(program, file, dataset, shape, 20);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{dataset}: {complaint}");
    complaint
}

#[test]
fn what_is_no_array_of_numbers_is_refused_by_name() {
    let Some(program) = program() else { return };
    let folder = cc::folder("hdf5-refused");
    let Some((file, _)) = write_file(&folder) else { return };
    let failed = "IO: hook:DATASET: source.describe reports a failure";
    for (name, shape, said, status) in [
        ("nowhere", "4", "", "NOT_FOUND: hook:DATASET: source.describe knows no such array"),
        ("nowhere/at/all", "4", "", "NOT_FOUND"),
        ("contiguous/below", "4", "", "NOT_FOUND"),
        ("dangling", "4", "", "NOT_FOUND"),
        ("image", "4", "is no dataset", failed),
        ("text", "2", "has elements of a type that batches have not", failed),
        ("words", "2", "has elements of a type that batches have not", failed),
        ("pair", "2", "has elements of a type that batches have not", failed),
        ("null", "2", "has no elements", failed),
        ("virtual", "9x11x13", "is virtual", failed),
        ("lzf", "16", "needs the filter 32000 (lzf), which this libhdf5 has not", failed),
    ] {
        let text = refusal(program, &file, name, shape);
        let status = status.replace("DATASET", name);
        assert!(text.contains(said) && text.contains(&status), "{name}: {text}");
    }
    let text = refusal(program, &folder.join("none.h5"), "contiguous", "9x11x13");
    assert!(text.contains("none.h5 cannot be opened"), "{text}");
}

#[test]
fn damaged_files_are_errors_and_never_data() {
    let Some(program) = program() else { return };
    let folder = cc::folder("hdf5-damaged");
    let Some((file, _)) = write_file(&folder) else { return };
    let whole = fs::read(&file).unwrap();
    // Half of a chunk of each dataset, whose place h5py tells.
    let place = "
import sys, h5py
with h5py.File(sys.argv[1]) as file:
    chunk = file[sys.argv[2]].id.get_chunk_info(0)
    print(chunk.byte_offset + chunk.size // 2)
";
    for name in ["checked", "image/raw"] {
        let mut command = python_with_h5py().unwrap();
        let at = cc::run(command.args(["-c", place]).arg(&file).arg(name));
        let at: usize = at.trim().parse().unwrap();
        let mut damaged = whole.clone();
        damaged[at..at + 8].fill(0xa5);
        fs::write(&file, damaged).unwrap();
        let shape = if name == "checked" { "37x41x53" } else { "37x40x50" };
        let text = refusal(program, &file, name, shape);
        assert!(text.contains(&format!("hdf5: {name} cannot be read")), "{text}");
        assert!(text.contains(&format!("IO: hook:{name}: elements [")), "{text}");
        fs::write(&file, &whole).unwrap();
    }
    for bytes in [0, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..bytes]).unwrap();
        let text = refusal(program, &file, "contiguous", "9x11x13");
        assert!(text.contains("hdf5: "), "{bytes}: {text}");
    }
}
