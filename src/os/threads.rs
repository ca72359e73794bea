//! Threads of ours: how one starts, what it stands on, and who goes first.
//!
//! In: a function, a stack in the arena. Out: a thread that blocks all signals. Invariant: a thread
//! begins its work only with as much of its stack left as the work needs.

use crate::base::arena::Region;
use crate::base::cpus::CpuSet;
use crate::os::cancel::Uncancelled;
use crate::os::{Errno, Os, system_call};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

/// A started thread.
#[derive(Clone, Copy)]
pub struct Thread(libc::pthread_t);

// SAFETY: it names a thread, which any thread may join; musl has a pointer for that.
unsafe impl Send for Thread {}

/// What a thread runs: a function and its argument, which outlive it.
pub type ThreadMain = extern "C" fn(*mut c_void) -> *mut c_void;

/// What a thread of ours runs, and on what. Lives in the arena until the thread was joined.
pub struct ThreadStart<T: 'static> {
    /// The function.
    pub main: fn(&'static T, u32),
    /// Called in its place where the stack is too small, with the bytes that are left of it.
    pub refuse: fn(&'static T, u64),
    /// Their first argument; None only while memory is being counted.
    pub argument: Option<&'static T>,
    /// The second argument of `main`.
    pub number: u32,
    /// The stack. Only that of the thread that calls a driver has a guard page below it.
    pub stack: Region,
    /// Bytes of the stack that `main` needs. libc takes the program's thread-local variables, of
    /// any size, out of the stack before the thread begins.
    pub need_bytes: u64,
}

extern "C" fn thread_entry<T: 'static>(start: *mut c_void) -> *mut c_void {
    let _uncancelled = Uncancelled::enter();
    // SAFETY: `start_thread` passes a ThreadStart<T> that outlives the thread.
    let start = unsafe { &*start.cast::<ThreadStart<T>>() };
    if let Some(argument) = start.argument {
        match stack_left(&start.stack) {
            Some(left) if left < start.need_bytes => (start.refuse)(argument, left),
            _ => (start.main)(argument, start.number),
        }
    }
    ptr::null_mut()
}

/// Bytes of the calling thread's stack that are left. None where locals lie somewhere else, as
/// under a sanitizer that keeps them apart.
#[inline(never)]
fn stack_left(stack: &Region) -> Option<u64> {
    let local = 0u8;
    let address = core::hint::black_box(&raw const local) as u64;
    address.checked_sub(stack.as_ptr() as u64).filter(|left| *left < stack.bytes())
}

/// Starts a thread on its stack.
pub fn start_thread<T: Sync + 'static>(
    os: &Os,
    start: &'static ThreadStart<T>,
) -> Result<Thread, Errno> {
    let argument = ptr::from_ref(start).cast_mut().cast();
    (os.thread_start)(thread_entry::<T>, argument, start.stack.as_ptr(), start.stack.bytes())
}

/// Starts a thread with all signals blocked, on a stack of so many bytes.
pub fn thread_start(
    main: ThreadMain,
    argument: *mut c_void,
    stack: *mut u8,
    stack_bytes: u64,
) -> Result<Thread, Errno> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before use and destroyed after; the stack is a block
    // of the arena that the loader keeps until it has joined the thread; the signal mask is
    // restored to what it was.
    unsafe {
        let failed = libc::pthread_attr_init(attributes.as_mut_ptr());
        if failed != 0 {
            return Err(Errno(failed));
        }
        let mut failed = libc::pthread_attr_setstack(
            attributes.as_mut_ptr(),
            stack.cast(),
            stack_bytes as usize,
        );
        if failed == 0 {
            let mut all = MaybeUninit::<libc::sigset_t>::uninit();
            let mut before = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            failed = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), main, argument);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        }
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if failed != 0 { Err(Errno(failed)) } else { Ok(Thread(thread.assume_init())) }
    }
}

/// Waits for a thread that is about to end.
pub fn thread_join(thread: Thread) {
    // SAFETY: the thread was started joinable and is joined once.
    let failed = unsafe { libc::pthread_join(thread.0, ptr::null_mut()) };
    assert!(failed == 0);
}

/// Makes the calling thread one that computes and lets others go first, where nobody chose another
/// policy for it.
pub fn be_batch() -> Result<(), Errno> {
    let priority: libc::c_int = 0; // the kernel's sched_param has no more
    let place = (&raw const priority).addr();
    // SAFETY: it asks for the policy of the calling thread, 0, and reads and writes nothing. Both
    // calls go by their numbers because musl refuses them.
    let policy = unsafe { system_call(libc::SYS_sched_getscheduler, [0; 5]) }?;
    if policy == libc::SCHED_OTHER as usize {
        let arguments = [0, libc::SCHED_BATCH as usize, place, 0, 0];
        // SAFETY: it reads the priority, which outlives the call.
        unsafe { system_call(libc::SYS_sched_setscheduler, arguments) }?;
    }
    Ok(())
}

/// Names the calling thread.
pub fn name_thread(name: &[u8]) -> Result<(), Errno> {
    assert!(name.last() == Some(&0));
    let arguments = [libc::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0];
    // SAFETY: the kernel reads the name up to its NUL.
    unsafe { system_call(libc::SYS_prctl, arguments) }.map(|_| ())
}

/// CPUs that the calling thread may run on; none if they are not known.
pub fn cpus() -> CpuSet {
    let mut cpus = CpuSet::EMPTY;
    let place = [0, size_of::<CpuSet>(), (&raw mut cpus.words).addr(), 0, 0];
    // SAFETY: the kernel writes at most the bytes of the set. By its number, because cpu_set_t of C
    // libraries has 1,024 CPUs, and the kernel refuses what is shorter than its own set.
    match unsafe { system_call(libc::SYS_sched_getaffinity, place) } {
        Ok(_) => cpus,
        Err(_) => CpuSet::EMPTY,
    }
}

/// Lets the calling thread run on these CPUs alone.
pub fn keep_to_cpus(cpus: &CpuSet) -> Result<(), Errno> {
    let place = [0, size_of::<CpuSet>(), (&raw const cpus.words).addr(), 0, 0];
    // SAFETY: the kernel reads the set, which outlives the call.
    unsafe { system_call(libc::SYS_sched_setaffinity, place) }.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of this thread.
    fn policy() -> i32 {
        // SAFETY: it reads and writes nothing.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_becomes_a_batch_thread_unless_its_policy_was_chosen() {
        for (chosen, then) in [
            (libc::SCHED_OTHER, libc::SCHED_BATCH),
            (libc::SCHED_BATCH, libc::SCHED_BATCH),
            (libc::SCHED_IDLE, libc::SCHED_IDLE),
        ] {
            let thread = std::thread::spawn(move || {
                let priority = libc::sched_param { sched_priority: 0 };
                // SAFETY: it reads the priority.
                let set = unsafe { libc::sched_setscheduler(0, chosen, &priority) };
                assert_eq!((set, be_batch(), policy()), (0, Ok(()), then));
            });
            thread.join().unwrap();
        }
    }
}
