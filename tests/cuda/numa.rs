//! The NUMA node of a device: by the driver, else by the device's PCI address.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::PATIENCE_NS;
use crate::common::gpu::device_config;
use crate::common::two_nodes::{CPUS, OS, TwoNodes};
use wavetrain::config::{AUTO, Config, LOG_INFO};
use wavetrain::loader::Loader;

const HOST_NUMA_ID: u32 = 134;
const PCI: &str = "/sys/bus/pci/devices/0000:01:00.0/numa_node";

#[test]
fn auto_takes_the_node_of_the_device() {
    let Some(simulator) = Simulator::take() else { return };
    let machine = TwoNodes::take();
    let known = "NUMA node 1 of 2 by the device";
    let unknown = "the NUMA node of the device is not known";
    for (told, file, words) in [
        (1, (PCI, "0\n"), known),
        (-1, (PCI, "1\n"), known),
        (-1, (PCI, "-1\n"), unknown),
        (-1, (PCI, "node 1"), unknown),
        (-1, ("", ""), unknown),
        (7, (PCI, "1\n"), "NUMA node 7 of the device has no memory"),
    ] {
        simulator.set_attribute(HOST_NUMA_ID, told);
        // The thread that opens is on the other node.
        (machine.state().node, machine.state().more) = (0, file);
        let config = Config {
            numa_strategy: AUTO,
            n_decode_threads: 1,
            n_io_threads: 1,
            log_level: LOG_INFO,
            log: machine.log(),
            ..device_config(&simulator, 3)
        };
        Loader::open_on(&OS, &config).unwrap().close(PATIENCE_NS).unwrap();
        let state = &mut *machine.state();
        let lines = std::mem::take(&mut state.lines);
        assert!(matches!(&lines[..], [(LOG_INFO, line)] if line.ends_with(words)), "{lines:?}");
        let (calls, threads) =
            (std::mem::take(&mut state.calls), std::mem::take(&mut state.threads));
        if words == known {
            assert_eq!(calls, ["bind 1, 0 pages touched", "prefer 1", "prefer 77"]);
            assert_eq!(threads, [CPUS; 3]);
        } else {
            assert!(calls.is_empty() && threads.is_empty());
        }
    }
    // A driver that is older than the attribute.
    simulator.set_attribute(0, 0);
    machine.state().more = (PCI, "1\n");
    let config = Config {
        log: machine.log(),
        numa_strategy: AUTO,
        log_level: LOG_INFO,
        ..device_config(&simulator, 3)
    };
    Loader::open_on(&OS, &config).unwrap().close(PATIENCE_NS).unwrap();
    let lines = &machine.state().lines;
    assert!(matches!(&lines[..], [(LOG_INFO, line)] if line.ends_with(known)), "{lines:?}");
}
