//! Keeps the object that holds this code loaded: a plugin that is unloaded while its threads run,
//! or while a tensor of it lives somewhere, ends the process at their next step.
//!
//! In: nothing. Out: whether it stays. In a program, rather than a library, there is nothing to do:
//! it is never unloaded, statically linked or not. The functions of the dynamic loader are looked
//! up by `dlsym`, for the reason that `cuda::library` has.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};

type DlAddr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;
type DlOpen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// Makes it stay until the process ends; false where the system refuses.
pub fn keep_loaded() -> bool {
    let own = (keep_loaded as fn() -> bool as *const c_void).addr();
    let mut search = Search { address: own, is_found: false };
    // SAFETY: `look` gets a valid record and the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.is_found || pin(own)
}

struct Search {
    address: usize,
    is_found: bool,
}

/// Looks whether the address is in the first object, which is the program, and at no other.
unsafe extern "C" fn look(
    object: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: libc passes a record with `dlpi_phnum` headers, and the pointer that `keep_loaded`
    // gave it.
    unsafe {
        let (object, search) = (&*object, &mut *search.cast::<Search>());
        for number in 0..usize::from(object.dlpi_phnum) {
            let header = &*object.dlpi_phdr.add(number);
            let first = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let is_inside = search.address.wrapping_sub(first) < header.p_memsz as usize;
            search.is_found |= header.p_type == libc::PT_LOAD && is_inside;
        }
    }
    1
}

/// Opens the object of an address once more, by the name that it was loaded by, never to be closed.
fn pin(address: usize) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the names have a NUL; each result is NULL, which is None, or the function of that
    // name, which has this type in every C library. The record is written where the first gives
    // other than 0, and its name has a NUL.
    unsafe {
        let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let name_of = transmute::<*mut c_void, Option<DlAddr>>(find(c"dladdr"));
        let open = transmute::<*mut c_void, Option<DlOpen>>(find(c"dlopen"));
        let (Some(name_of), Some(open)) = (name_of, open) else { return false };
        let place = core::ptr::without_provenance(address);
        if name_of(place, found.as_mut_ptr()) == 0 {
            return false;
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        !open(found.assume_init().dli_fname, flags).is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_stays_loaded_by_itself() {
        assert!(keep_loaded());
    }
}
