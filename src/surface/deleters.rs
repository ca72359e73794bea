//! The deleters that tensors carry.
//!
//! Invariant: a deleter finds its loader in the table of handles by the tensor's address alone, and
//! is counted there while it works. So it may be called on any thread at any time: the memory of a
//! loader does not go away under it, and after that, or in a forked child, or a second time, it
//! does nothing.

use crate::batch::exports::{Deleters, DlManagedTensor, DlManagedTensorVersioned};
use crate::jobs::tensors;
use crate::surface::handles::enter_by_tensor;

/// The deleters of every tensor.
pub const DELETERS: Deleters = Deleters { versioned: delete_versioned, legacy: delete_legacy };

unsafe extern "C" fn delete_versioned(tensor: *mut DlManagedTensorVersioned) {
    delete(tensor as usize);
}

unsafe extern "C" fn delete_legacy(tensor: *mut DlManagedTensor) {
    delete(tensor as usize);
}

fn delete(address: usize) {
    if let Some(instance) = enter_by_tensor(address) {
        tensors::delete_tensor(&instance.lock, address);
    }
}
