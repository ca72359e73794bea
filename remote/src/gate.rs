//! Requests in flight, bounded, with turns for objects.
//!
//! In: an object's name. Out: a `Permit` for one request, given back when it is dropped. Invariant:
//! at most `count` permits exist. Objects that wait take turns, so that one file with a thousand
//! reads does not make the read of another wait for all of them. Within an object the order is that
//! of the calls. The lock is held for a few instructions and no other lock is taken under it.

use crate::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

type Waiting = VecDeque<oneshot::Sender<Permit>>;

#[derive(Default)]
struct State {
    free: u32,
    /// Objects that wait, each once, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, Waiting>,
}

/// The bound on requests in flight.
pub struct Gate {
    state: Mutex<State>,
    count: u32,
}

/// The right to have one request in flight.
pub struct Permit {
    gate: Arc<Gate>,
}

impl Gate {
    /// A gate of `count` permits.
    pub fn new(count: u32) -> Arc<Self> {
        let state = Mutex::new(State { free: count, ..State::default() });
        Arc::new(Self { state, count })
    }

    /// Waits for a permit.
    pub async fn acquire(self: &Arc<Self>, object: &str) -> Permit {
        loop {
            let receiver = {
                let mut state = lock(&self.state);
                if state.free > 0 {
                    state.free -= 1;
                    return Permit { gate: self.clone() };
                }
                state.enter(object)
            };
            // The sender is only dropped with its receiver, so that an error is not met.
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Requests that are in flight now.
    pub fn in_flight(&self) -> u32 {
        self.count - lock(&self.state).free
    }

    /// Hands the permit of a dropped one to the next that waits.
    fn give_back(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = lock(&self.state);
                match state.next() {
                    Some(next) => next,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Permit { gate: self.clone() }) {
                Ok(()) => return,
                // It was cancelled: its permit is the one that the next of the loop gets.
                Err(permit) => std::mem::forget(permit),
            }
        }
    }
}

impl State {
    fn enter(&mut self, object: &str) -> oneshot::Receiver<Permit> {
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.waiting.get_mut(object) {
            waiting.push_back(sender);
        } else {
            let object: Arc<str> = Arc::from(object);
            self.turns.push_back(object.clone());
            self.waiting.insert(object, VecDeque::from([sender]));
        }
        receiver
    }

    /// The first that waits of the object whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        let object = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&object)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&object);
        } else {
            self.turns.push_back(object);
        }
        first
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn objects_take_turns() {
        let gate = Gate::new(1);
        let first = poll(pin!(gate.acquire("a"))).unwrap();
        let mut second = pin!(gate.acquire("a"));
        let mut third = pin!(gate.acquire("a"));
        let mut other = pin!(gate.acquire("b"));
        assert!(poll(second.as_mut()).is_none());
        assert!(poll(third.as_mut()).is_none());
        assert!(poll(other.as_mut()).is_none());
        drop(first);
        let second = poll(second).unwrap();
        drop(second);
        assert!(poll(third.as_mut()).is_none(), "b has its turn before the third of a");
        drop(poll(other).unwrap());
        drop(poll(third).unwrap());
        assert_eq!(gate.in_flight(), 0);
    }

    #[test]
    fn a_cancelled_wait_passes_its_permit_on() {
        let gate = Gate::new(1);
        let first = poll(pin!(gate.acquire("a"))).unwrap();
        {
            let mut gone = pin!(gate.acquire("b"));
            assert!(poll(gone.as_mut()).is_none());
        }
        let mut last = pin!(gate.acquire("c"));
        assert!(poll(last.as_mut()).is_none());
        drop(first);
        drop(poll(last).unwrap());
        assert_eq!(gate.in_flight(), 0);
    }
}
