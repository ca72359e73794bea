//! Consumers of shared batches that use a device: the samples are pinned for their context.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::PATIENCE_NS;
use crate::common::gpu::Gpu;
use wavetrain::config::{Config, SHARE_ALL, SHARE_ROUND};
use wavetrain::loader::{Feed, Loader, Part, Pop, Sample, memory_need};
use wavetrain::records::Dtype;

fn config(share_order: u32) -> Config {
    let mut config = Config {
        samples_per_batch: 1,
        sample_rank: 1,
        dtype: Dtype::U64 as u32,
        max_boxes_per_sample: 1,
        n_batch_slots: 4,
        share_order,
        ..Config::default()
    };
    config.sample_shape[0] = 8;
    config
}

/// The text of stats about the place of batches.
fn backend(loader: &Loader) -> String {
    let text = loader.stats().unwrap().backend_text;
    text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

#[test]
fn a_consumer_with_a_context_has_its_batches_pinned_and_gives_that_up() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let gpu = Gpu::new(&simulator, 0);
    for (order, name) in [(SHARE_ROUND, "round"), (SHARE_ALL, "all")] {
        let name = format!("pinned.{name}.{}", std::process::id());
        let owner = Loader::open_shared(&config(order), &name, 2).unwrap();
        let before = simulator.pinned_bytes();
        // A thread without a context.
        let plain = std::thread::scope(|scope| {
            scope.spawn(|| Loader::attach(&name, 0, PATIENCE_NS).unwrap()).join().unwrap()
        });
        assert_eq!(simulator.pinned_bytes(), before);
        assert!(!backend(&plain).contains("pinned"), "{}", backend(&plain));
        gpu.driver.ctx_push_current(gpu.context).unwrap();
        let pinned = Loader::attach(&name, 1, PATIENCE_NS).unwrap();
        gpu.driver.ctx_pop_current().unwrap();
        let bytes = 4 * 4096;
        assert_eq!(simulator.pinned_bytes(), before + bytes);
        assert_eq!(pinned.stats().unwrap().pinned_bytes_committed, bytes);
        assert!(backend(&pinned).ends_with(", pinned"), "{}", backend(&pinned));
        for tag in 0..2 {
            let feed = Feed::Value(Dtype::U64, &[8], &[9; 64]);
            let part = Part { feed, begin: &[0], end: &[8], ..Part::default() };
            owner.push_samples(&[Sample { parts: &[part], tag }], PATIENCE_NS).1.unwrap();
        }
        let Pop::Batch(batch) = pinned.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        assert_eq!(batch.data(), [9; 64]);
        drop(batch);
        for loader in [plain, pinned, owner] {
            loader.close(PATIENCE_NS).unwrap();
        }
        assert_eq!(simulator.pinned_bytes(), before);
    }
    assert_eq!(memory_need(&config(0)).unwrap().shared_bytes, 0);
}

#[test]
fn memory_that_cannot_be_pinned_is_taken_as_it_is_and_stats_report_it() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let gpu = Gpu::new(&simulator, 0);
    let name = format!("plain.{}", std::process::id());
    let owner = Loader::open_shared(&config(SHARE_ROUND), &name, 1).unwrap();
    gpu.driver.ctx_push_current(gpu.context).unwrap();
    simulator.fail(Some(c"cuMemHostRegister_v2"), 0, 2, 1);
    let consumer = Loader::attach(&name, 0, PATIENCE_NS).unwrap();
    gpu.driver.ctx_pop_current().unwrap();
    let text = backend(&consumer);
    assert!(text.contains("not pinned: cuMemHostRegister"), "{text}");
    assert_eq!(consumer.stats().unwrap().pinned_bytes_committed, 0);
    for loader in [consumer, owner] {
        loader.close(PATIENCE_NS).unwrap();
    }
}
