//! Unit tests of the checks of a config: what is refused, and that the defaults are not.

use super::*;
use crate::base::abi::HostJob;
use crate::cuda::DriverPath;
use crate::setup::config::{BACKEND_AUTO, BACKEND_CUDA, BACKEND_HOST};
use core::ffi::{c_char, c_void};

fn config() -> Config {
    let mut config = Config { sample_rank: 2, ..Config::default() };
    config.sample_shape[..2].copy_from_slice(&[8, 16]);
    config
}

fn refused(config: &Config) -> (Status, std::string::String) {
    let mut why = Why::new();
    match settings_from_config(config, &Allotted::of(2), &mut why) {
        Ok(_) => panic!("accepted"),
        Err(status) => (status, std::string::String::from(why.as_str())),
    }
}

#[test]
fn the_defaults_validate_for_every_samples_per_batch() {
    for samples in [1, 2, 3, 8, 64, 1000, 4096, 65536] {
        let config = Config { samples_per_batch: samples, ..config() };
        let mut why = Why::new();
        let settings = settings_from_config(&config, &Allotted::of(2), &mut why).unwrap();
        assert_eq!(settings.lookahead_samples, (2 * samples).max(64));
    }
}

#[test]
fn a_value_out_of_range_is_refused_by_name() {
    let (status, text) = refused(&Config { host_buffer_waves: 1, ..config() });
    assert_eq!(status, Status::Invalid);
    assert!(text.contains("host_buffer_waves = 1: must be 2 to 64"), "{text}");
}

#[test]
fn an_unbuilt_feature_is_refused_by_name() {
    for (words, wrong) in [
        ("enable_gds = auto", Config { enable_gds: config::AUTO, ..config() }),
        ("enable_gds = on", Config { enable_gds: config::GDS_ON, ..config() }),
    ] {
        let (status, text) = refused(&wrong);
        assert_eq!(status, Status::Unsupported, "{words}");
        let expected = std::format!("{words} is not built into this version: leave it at its");
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn what_is_said_of_a_device_is_never_passed_over() {
    let nowhere = DriverPath::from_static(c"/nowhere/libcuda.so.1");
    let auto = Config { backend: BACKEND_AUTO, cuda_driver: nowhere, ..config() };
    let settings = settings_from_config(&auto, &Allotted::of(4), &mut Why::new()).unwrap();
    let reason = settings.backend_reason.as_str();
    assert!(!settings.is_cuda() && reason.contains("/nowhere/libcuda.so.1"), "{reason}");
    let (mut cap, mut stream, mut device, mut driver) = (config(), config(), config(), config());
    cap.max_gpu_memory_bytes = 1 << 30;
    stream.consumer_stream = core::ptr::without_provenance_mut(2);
    device.device = 0;
    driver.cuda_driver = nowhere;
    for (name, config) in [
        ("max_gpu_memory_bytes", cap),
        ("consumer_stream", stream),
        ("device", device),
        ("cuda_driver", driver),
    ] {
        let (status, text) = refused(&Config { backend: BACKEND_HOST, ..config });
        assert_eq!(status, Status::Invalid, "{name}");
        assert!(text.starts_with(&std::format!("{name} is set, but backend is host: ")), "{text}");
        let auto = Config { backend: BACKEND_AUTO, cuda_driver: nowhere, ..config };
        assert!(settings_from_config(&auto, &Allotted::of(4), &mut Why::new()).is_ok(), "{name}");
    }
}

#[test]
fn a_device_leaves_two_cpus_to_others_and_the_host_none() {
    let host = config();
    let device = Config { backend: BACKEND_CUDA, ..host };
    let threads = |config: &Config, cpus| {
        settings_from_config(config, &Allotted::of(cpus), &mut Why::new()).unwrap().decode_threads
    };
    for (cpus, beside_a_device) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (16, 14)] {
        assert_eq!(threads(&host, cpus), cpus.max(1), "{cpus} CPUs");
        assert_eq!(threads(&device, cpus), beside_a_device, "{cpus} CPUs");
        assert_eq!(threads(&Config { n_decode_threads: 5, ..device }, cpus), 5);
    }
    for config in [host, device] {
        assert_eq!(threads(&config, u32::MAX - 1), THREADS_MAX);
    }
}

#[test]
fn the_host_that_is_taken_for_a_device_decodes_on_all_cpus() {
    let device = Config { backend: BACKEND_CUDA, ..config() };
    let mut settings = settings_from_config(&device, &Allotted::of(16), &mut Why::new()).unwrap();
    settings.config.backend = BACKEND_AUTO;
    let no_device = (Status::Cuda, &Why::new());
    assert!(settings.take_the_host(no_device, |settings| Floor {
        bytes: settings.decode_threads.into(),
        tables_bytes: 0
    }));
    assert_eq!((settings.is_cuda(), settings.decode_threads), (false, 16));
}

unsafe extern "C" fn run(_: *mut c_void, _: HostJob, _: *mut c_void) {}
unsafe extern "C" fn begin(_: *mut c_void, _: *const c_char) {}
unsafe extern "C" fn read_async(
    _: *mut c_void,
    _: u64,
    _: u64,
    _: *const c_char,
    _: u64,
    _: *mut c_void,
    _: u64,
) -> i64 {
    0
}

#[test]
fn a_hook_without_what_it_needs_is_refused_by_name() {
    let mut wrong = [config(); 4];
    wrong[0].thread_mode = config::THREADS_HOOK;
    wrong[1].workers.run = Some(run);
    wrong[2].profiler.begin = Some(begin);
    wrong[3].files.read_async = Some(read_async);
    for (config, words) in wrong.iter().zip([
        "thread_mode = hook needs workers.run",
        "workers.run is set, but thread_mode is not hook",
        "profiler: begin and end",
        "files: read_async needs size and read",
    ]) {
        let (status, text) = refused(config);
        assert_eq!(status, Status::Invalid);
        assert!(text.contains(words), "{text}");
    }
}
