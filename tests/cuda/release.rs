//! How batches in device memory are given back through the Rust surface, on the simulated driver.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::{Job, PATIENCE_NS, config, open};
use crate::common::fixtures;
use crate::common::oracle::{Image, has_cast};
use crate::common::platform::Platform;
use std::ffi::c_int;
use std::ptr::NonNull;
use wavetrain::batch::exports::DlManagedTensorVersioned;
use wavetrain::config::{BACKEND_CUDA, Config};
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::handles::{EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING};
use wavetrain::cuda::{DeviceContext, Event, Stream};
use wavetrain::loader::{Batch, Loader, Pop};
use wavetrain::records::Dtype;
use wavetrain::status::{Status, Why};

const EDGE: u64 = 5;

/// A box that some store has.
fn job() -> Job {
    let fits = |image: &Image| {
        let is_wide = image.shape.iter().all(|extent| *extent >= EDGE);
        image.shape.len() == 2 && is_wide && has_cast(image.dtype, Dtype::F32)
    };
    let store = fixtures::all().iter().find(|store| fits(&store.image)).expect("a picture");
    Job::of(store, (vec![0; 2], vec![EDGE as i64; 2]), Dtype::F32)
}

/// A loader of one slot with `count` boxes pushed, and what they are.
fn loader(settings: Config, count: usize) -> (Loader, Job) {
    let job = job();
    let loader = open(&Config { n_batch_slots: 1, max_host_memory_bytes: 0, ..settings });
    let taken = loader.push(&vec![job.request(0); count], 0);
    assert_eq!(taken.unwrap_or_else(|failure| panic!("{failure}")), count);
    (loader, job)
}

fn on_device(simulator: &Simulator) -> Config {
    let cuda_driver = simulator.driver_path();
    Config { backend: BACKEND_CUDA, device: 0, cuda_driver, ..config(Dtype::F32, &[EDGE; 2], 1) }
}

fn popped(loader: &Loader) -> Batch<'_> {
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => batch,
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
}

/// A stream and an event of the consumer's, in the primary context of device 0.
struct Consumer {
    stream: Stream,
    event: Event,
    entered: Option<Entered>,
    context: DeviceContext,
}

impl Consumer {
    fn new(simulator: &Simulator) -> Consumer {
        let driver = simulator.driver();
        let context = DeviceContext::open(driver, 0, &mut Why::new()).unwrap();
        let entered = context.enter().unwrap();
        Consumer {
            stream: driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap(),
            event: driver.event_create(EVENT_DISABLE_TIMING).unwrap(),
            entered: Some(entered),
            context,
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let driver = self.context.driver;
        // SAFETY: they are this value's own, and loaders that were told of them are closed.
        unsafe {
            driver.event_destroy(self.event).unwrap();
            driver.stream_destroy(self.stream).unwrap();
            self.entered = None;
            self.context.close().unwrap();
        }
    }
}

/// How often a stream was made to wait while `work` ran; nothing else is under way.
fn waits(simulator: &Simulator, work: impl FnOnce()) -> u64 {
    let before = simulator.calls(Some(c"cuStreamWaitEvent"));
    work();
    simulator.calls(Some(c"cuStreamWaitEvent")) - before
}

#[test]
fn a_release_behind_an_event_makes_the_ready_stream_wait_unless_it_is_over() {
    let Some(simulator) = Simulator::take() else { return };
    let consumer = Consumer::new(&simulator);
    let (loader, _) = loader(on_device(&simulator), 2);
    for is_over in [false, true] {
        let batch = popped(&loader);
        simulator.hold_stream(consumer.stream.as_raw(), c_int::from(!is_over));
        simulator.driver().event_record(consumer.event, consumer.stream).unwrap();
        if is_over {
            simulator.driver().event_synchronize(consumer.event).unwrap();
        }
        let made = waits(&simulator, || batch.release(Some(consumer.event)).unwrap());
        assert_eq!(made, u64::from(!is_over));
        simulator.hold_stream(consumer.stream.as_raw(), 0);
    }
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_release_without_an_event_makes_no_stream_wait() {
    let Some(simulator) = Simulator::take() else { return };
    let (loader, _) = loader(on_device(&simulator), 1);
    let batch = popped(&loader);
    assert_eq!(waits(&simulator, || batch.release(None).unwrap()), 0);
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_slot_whose_event_did_not_come_is_not_filled_again() {
    let Some(simulator) = Simulator::take() else { return };
    let consumer = Consumer::new(&simulator);
    let (loader, job) = loader(on_device(&simulator), 2);
    let batch = popped(&loader);
    simulator.hold(1);
    simulator.driver().event_record(consumer.event, consumer.stream).unwrap();
    batch.release(Some(consumer.event)).unwrap();
    match loader.pop(20_000_000) {
        Ok(Pop::Starved(why)) => assert!(why.as_str().contains("wait for the work"), "{why}"),
        _ => panic!("a slot is filled although work on it is queued"),
    }
    simulator.hold(0);
    let batch = popped(&loader);
    let mut bytes = vec![0xA5; batch.bytes() as usize];
    batch.copy_to(&mut bytes).unwrap();
    assert_eq!(Ok(bytes), job.want);
    drop(batch);
    loader.close(PATIENCE_NS).unwrap();
}

/// Deletes a tensor as its consumer does.
fn delete(tensor: NonNull<DlManagedTensorVersioned>) {
    // SAFETY: the tensor lives until its deleter is called, here, once.
    unsafe {
        let deleter = tensor.as_ref().deleter.expect("a deleter");
        deleter(tensor.as_ptr());
    }
}

#[test]
fn a_slot_waits_for_the_stream_of_a_tensor_and_no_stream_of_ours_does() {
    let Some(simulator) = Simulator::take() else { return };
    let consumer = Consumer::new(&simulator);
    let (loader, _) = loader(on_device(&simulator), 2);
    let batch = popped(&loader);
    let tensor = batch.dlpack_on(consumer.stream).unwrap().expect("a tensor");
    assert_eq!(waits(&simulator, || batch.release(None).unwrap()), 0);
    // Work that was queued since the release counts too.
    simulator.hold_stream(consumer.stream.as_raw(), 1);
    simulator.driver().event_record(consumer.event, consumer.stream).unwrap();
    assert_eq!(waits(&simulator, || delete(tensor)), 0);
    match loader.pop(20_000_000) {
        Ok(Pop::Starved(why)) => assert!(why.as_str().contains("wait for the work"), "{why}"),
        _ => panic!("a slot is filled although work on it is queued"),
    }
    simulator.hold_stream(consumer.stream.as_raw(), 0);
    drop(popped(&loader));
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn an_event_or_a_stream_on_the_host_is_refused_and_the_batch_is_given_back() {
    let (loader, _) = loader(config(Dtype::F32, &[EDGE; 2], 1), 2);
    // SAFETY: neither is looked into on the host.
    let (event, stream) = unsafe {
        (
            Event::from_raw(NonNull::dangling().as_ptr()),
            Stream::from_raw(NonNull::dangling().as_ptr()),
        )
    };
    let batch = popped(&loader);
    let refused = batch.dlpack_on(stream).expect_err("a refusal");
    assert_eq!(refused.status, Status::Unsupported);
    let refused = batch.release(Some(event)).expect_err("a refusal");
    assert_eq!(refused.status, Status::Unsupported);
    assert!(refused.to_string().contains("an event"), "{refused}");
    popped(&loader).release(None).unwrap();
    loader.close(PATIENCE_NS).unwrap();
}
