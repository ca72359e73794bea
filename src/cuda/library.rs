//! Finding the driver's library, once per process and path.
//!
//! In: the path of `wavetrain_config.cuda_driver`. Out: a [`Driver`] that lives as long as the
//! process, or a status whose text says what to install. Invariant: a driver that was loaded is
//! never unloaded, so its entries may be called for good.
//!
//! `dlopen` is asked for weakly in the archive. A program that is linked with -static then links
//! without a warning, and finds no driver; one that has a dynamic loader, has `dlopen` too.

use crate::base::text::{Tail, Text};
use crate::cuda::driver::Driver;
use crate::cuda::entries::Entries;
use crate::fail;
use crate::limits::URI_BYTES_MAX;
use crate::os::sync::Mutex;
use crate::status::{Status, Why};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;

/// What is opened where the config names nothing.
pub const DEFAULT_PATH: &CStr = c"libcuda.so.1";

/// Different drivers in one process: one, and those of tests.
const DRIVERS_MAX: usize = 8;

/// Oldest driver: our kernels are PTX of ISA 8.0.
pub const VERSION_MIN: i32 = 12_000;

/// Bytes of a path that an error text shows.
const PATH_SHOWN_BYTES: usize = 120;

type DlOpen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
type DlSym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type DlError = unsafe extern "C" fn() -> *mut c_char;
type DlClose = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The dynamic loader's functions; NULL in a program that is linked without one.
#[repr(C)]
struct Dynamic {
    open: *const c_void,
    symbol: *const c_void,
    error: *const c_void,
    close: *const c_void,
}

// SAFETY: addresses of functions, written before the program starts and never after.
unsafe impl Sync for Dynamic {}

core::arch::global_asm!(
    ".weak dlopen",
    ".weak dlsym",
    ".weak dlerror",
    ".weak dlclose",
    ".pushsection .data.rel.ro.wavetrain_dynamic, \"aw\"",
    ".balign 8",
    ".globl wavetrain_dynamic",
    ".hidden wavetrain_dynamic",
    ".type wavetrain_dynamic, %object",
    ".size wavetrain_dynamic, 32",
    "wavetrain_dynamic:",
    ".quad dlopen, dlsym, dlerror, dlclose",
    ".popsection",
);

unsafe extern "C" {
    static wavetrain_dynamic: Dynamic;
}

/// The same, callable.
struct Loader {
    open: DlOpen,
    symbol: DlSym,
    error: DlError,
    close: DlClose,
}

impl Loader {
    fn of_process() -> Option<Loader> {
        // SAFETY: the assembly above defines it with this layout.
        let dynamic = unsafe { &wavetrain_dynamic };
        // SAFETY: each is NULL, which is None, or the function of that name, which has this type
        // in every C library.
        unsafe {
            Some(Loader {
                open: transmute::<*const c_void, Option<DlOpen>>(dynamic.open)?,
                symbol: transmute::<*const c_void, Option<DlSym>>(dynamic.symbol)?,
                error: transmute::<*const c_void, Option<DlError>>(dynamic.error)?,
                close: transmute::<*const c_void, Option<DlClose>>(dynamic.close)?,
            })
        }
    }

    /// What went wrong last in this thread.
    fn last_error(&self) -> Text<256> {
        let mut text = Text::new();
        // SAFETY: NULL, or a string that stays until the next call of this thread.
        unsafe {
            let message = (self.error)();
            if !message.is_null() {
                text.push_str(CStr::from_ptr(message).to_str().unwrap_or("no reason is given"));
            }
        }
        text
    }
}

/// A loaded driver, by what dlopen calls it: two paths of one file are one driver.
struct Loaded {
    library: *mut c_void,
    driver: Driver,
}

// SAFETY: the word is compared and handed back to dlclose, from any thread.
unsafe impl Send for Loaded {}

static DRIVERS: Mutex<[Option<Loaded>; DRIVERS_MAX]> = Mutex::new([const { None }; DRIVERS_MAX]);

/// The path that a config names, checked. NULL is [`DEFAULT_PATH`].
///
/// The contract of the config, which comes from the caller's hands, is that it is NULL or points
/// to a string with a NUL.
pub fn path_from_config<'a>(cuda_driver: *const c_char, why: &mut Why) -> Result<&'a CStr, Status> {
    if cuda_driver.is_null() {
        return Ok(DEFAULT_PATH);
    }
    // SAFETY: the string has a NUL, and no byte behind it is read.
    let path = unsafe { CStr::from_ptr(cuda_driver) };
    let bytes = path.to_bytes();
    if bytes.is_empty() || bytes.len() > URI_BYTES_MAX || path.to_str().is_err() {
        return Err(fail!(
            why,
            Invalid,
            "cuda_driver: a path has 1 to {URI_BYTES_MAX} bytes of UTF-8, this one has {}: leave \
             it NULL for libcuda.so.1",
            bytes.len()
        ));
    }
    Ok(path)
}

impl Driver {
    /// The driver that the config's `cuda_driver` names, loaded and initialised; the same one each
    /// time.
    pub fn load(cuda_driver: *const c_char, why: &mut Why) -> Result<&'static Driver, Status> {
        let path = path_from_config(cuda_driver, why)?;
        let shown = Tail(path.to_str().unwrap_or(""), PATH_SHOWN_BYTES);
        let Some(loader) = Loader::of_process() else {
            return Err(fail!(
                why,
                Unsupported,
                "{shown} cannot be loaded: this program is linked statically, without dlopen: link \
                 it dynamically, or set backend = host"
            ));
        };
        let mut drivers = DRIVERS.lock();
        // SAFETY: the path has a NUL; what a library does as it is loaded is its maker's affair.
        let library = unsafe { (loader.open)(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(fail!(
                why,
                Cuda,
                "the CUDA driver {shown} cannot be loaded ({}): install the NVIDIA driver, R525 or \
                 later (into a container it is mounted by the NVIDIA container toolkit), or set \
                 backend = host",
                loader.last_error()
            ));
        }
        let known = |loaded: &&Loaded| loaded.library == library;
        if let Some(loaded) = drivers.iter().flatten().find(known) {
            // SAFETY: this call's own reference is given back; the first one stays.
            unsafe { (loader.close)(library) };
            return Ok(forever(&loaded.driver));
        }
        // From here on the library stays open, also where it is refused: it may run threads.
        let Some(place) = drivers.iter().position(Option::is_none) else {
            return Err(fail!(
                why,
                Invalid,
                "cuda_driver = {shown}: this process has {DRIVERS_MAX} different drivers already"
            ));
        };
        let driver = resolve(&loader, library, shown, why)?;
        Ok(forever(&drivers[place].insert(Loaded { library, driver }).driver))
    }
}

/// A driver of the table, which outlives the lock.
fn forever(driver: &Driver) -> &'static Driver {
    // SAFETY: an entry of the static table is written once and neither moved nor changed later.
    unsafe { &*core::ptr::from_ref(driver) }
}

/// The entries of a library that was just opened, its version checked, initialised.
fn resolve(
    loader: &Loader,
    library: *mut c_void,
    shown: Tail<'_>,
    why: &mut Why,
) -> Result<Driver, Status> {
    // SAFETY: the library is open, and stays so while its entries are in use.
    let entries = unsafe { Entries::resolve(|name| (loader.symbol)(library, name.as_ptr())) };
    let entries = entries.map_err(|missing| {
        fail!(
            why,
            Unsupported,
            "{shown} has no {}: it is no NVIDIA driver, or an older one than R525: update it, or \
             set backend = host",
            missing.to_str().unwrap_or("")
        )
    })?;
    let driver = Driver::new(entries);
    // Before cuInit: an old driver may fail there for a reason that only its age explains.
    let version = driver.driver_get_version().map_err(|code| {
        fail!(why, Cuda, "{shown}: cuDriverGetVersion says {}", driver.named(code))
    })?;
    if version < VERSION_MIN {
        return Err(fail!(
            why,
            Unsupported,
            "the CUDA driver {shown} is for CUDA {}.{}: 12.0 is the oldest that will do: update \
             the NVIDIA driver to R525 or later, or set backend = host",
            version / 1000,
            version % 1000 / 10
        ));
    }
    driver.init().map_err(|code| fail!(why, Cuda, "{shown}: {}", driver.init_refusal(code)))?;
    Ok(driver.with_version(version))
}
