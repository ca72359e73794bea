//! What a host has been given to do and threads of it wait for.

use std::sync::{Condvar, Mutex};

struct Items<T> {
    waiting: Vec<T>,
    is_over: bool,
}

/// See the module.
pub struct Mailbox<T> {
    items: Mutex<Items<T>>,
    ready: Condvar,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        let items = Items { waiting: Vec::new(), is_over: false };
        Mailbox { items: Mutex::new(items), ready: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    /// Adds one; how many wait now.
    pub fn put(&self, item: T) -> usize {
        let items = &mut *self.items.lock().unwrap();
        items.waiting.push(item);
        self.ready.notify_one();
        items.waiting.len()
    }

    /// Looks at all that waits.
    pub fn with<R>(&self, look: impl FnOnce(&mut Vec<T>) -> R) -> R {
        look(&mut self.items.lock().unwrap().waiting)
    }

    /// Waits for one, and takes that which `which` chooses of so many; None at the end.
    pub fn wait(&self, which: impl FnOnce(usize) -> usize) -> Option<T> {
        let mut items = self.items.lock().unwrap();
        while items.waiting.is_empty() && !items.is_over {
            items = self.ready.wait(items).unwrap();
        }
        let count = items.waiting.len();
        (count > 0).then(|| items.waiting.remove(which(count)))
    }

    /// What waits is the last; threads that find nothing go.
    pub fn end(&self) {
        self.items.lock().unwrap().is_over = true;
        self.ready.notify_all();
    }
}
