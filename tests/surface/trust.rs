//! A safe call of the Rust surface follows nothing that only the program knows to be what it is to
//! be: hooks, blocks of memory, streams, drivers.

use std::ptr;
use wavetrain::abi::{FatalHook, FilesHook, LogHook, MemoryHook, ProfilerHook, SourceHook};
use wavetrain::abi::{StoreHook, WorkersHook};
use wavetrain::config::Config;
use wavetrain::cuda::DriverPath;
use wavetrain::loader::{Loader, SCRATCH_BYTES, config_fit};
use wavetrain::status::Status;

/// Configs that lead somewhere, by the field that does.
fn trusting() -> Vec<(&'static str, Config)> {
    let (user, plain) = (ptr::dangling_mut(), Config { sample_rank: 1, ..Config::default() });
    let plain = Config { sample_shape: [1; 16], ..plain };
    vec![
        ("consumer_stream", Config { consumer_stream: user, ..plain }),
        ("memory", Config { memory: MemoryHook { host_block: user, ..MemoryHook::NONE }, ..plain }),
        ("files", Config { files: FilesHook { user, ..FilesHook::NONE }, ..plain }),
        ("log", Config { log: LogHook { user, ..LogHook::NONE }, ..plain }),
        ("fatal", Config { fatal: FatalHook { user, ..FatalHook::NONE }, ..plain }),
        ("workers", Config { workers: WorkersHook { user, ..WorkersHook::NONE }, ..plain }),
        ("profiler", Config { profiler: ProfilerHook { user, ..ProfilerHook::NONE }, ..plain }),
        ("cuda_driver", Config { cuda_driver: DriverPath::from_static(c"/driver.so"), ..plain }),
        ("source", Config { source: SourceHook { user, ..SourceHook::NONE }, ..plain }),
        ("store", Config { store: StoreHook { struct_size: 1, ..StoreHook::NONE }, ..plain }),
    ]
}

#[test]
fn what_only_the_program_can_know_is_refused_by_name() {
    for (name, mut config) in trusting() {
        let opened = Loader::open(&config).err().expect("it is refused");
        let fitted = config_fit(&mut config, &[], &mut vec![0; SCRATCH_BYTES]).unwrap_err();
        for (failure, instead) in [(opened, "open_trusting"), (fitted, "config_fit_trusting")] {
            let text = failure.to_string();
            assert_eq!(failure.status, Status::Invalid, "{text}");
            assert!(text.contains(&format!("{name} is set")) && text.contains(instead), "{text}");
        }
    }
}
