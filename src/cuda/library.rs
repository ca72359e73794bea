//! Finding the driver's library, once per process and path.
//!
//! In: the path of `wavetrain_config.cuda_driver`. Out: a [`Driver`] that lives as long as the
//! process, or a status whose text says what to install. Invariant: a driver that was loaded is
//! never unloaded, so its entries may be called for good.
//!
//! `dlopen` is itself looked up by `dlsym`. By its name it would make the linker warn of every
//! program that is linked with -static; so such a program links, and finds no driver.

use crate::base::limits::URI_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text};
use crate::cuda::driver::Driver;
use crate::cuda::entries::Entries;
use crate::cuda::handles::Context;
use crate::fail;
use crate::os::sync::Mutex;
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
type DlError = unsafe extern "C" fn() -> *mut c_char;
type DlClose = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The dynamic loader's functions.
struct Loader {
    open: DlOpen,
    error: DlError,
    close: DlClose,
}

impl Loader {
    /// None in a program that is linked without a dynamic loader.
    fn of_process() -> Option<Loader> {
        // SAFETY: the names have a NUL; each result is NULL, which is None, or the function of that
        // name, which has this type in every C library.
        unsafe {
            let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            Some(Loader {
                open: transmute::<*mut c_void, Option<DlOpen>>(find(c"dlopen"))?,
                error: transmute::<*mut c_void, Option<DlError>>(find(c"dlerror"))?,
                close: transmute::<*mut c_void, Option<DlClose>>(find(c"dlclose"))?,
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

/// Path of a driver as a config has it: a C string, or NULL for [`DEFAULT_PATH`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverPath(*const c_char);

impl DriverPath {
    /// libcuda.so.1, wherever the system has it.
    pub const NULL: DriverPath = DriverPath(core::ptr::null());

    /// A path that lives as long as the process.
    pub const fn from_static(path: &'static CStr) -> DriverPath {
        DriverPath(path.as_ptr())
    }

    /// A path as C hands it over.
    ///
    /// # Safety
    /// NULL, or a string with a NUL that stays where it is during every call that is given the
    /// config.
    pub const unsafe fn from_raw(path: *const c_char) -> DriverPath {
        DriverPath(path)
    }

    /// Whether it says nothing.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The path, checked.
    pub fn check(&self, why: &mut Why) -> Result<&CStr, Status> {
        if self.0.is_null() {
            return Ok(DEFAULT_PATH);
        }
        // SAFETY: one that is not NULL has a NUL and is there, as its makers say; in a config of C
        // it is the contract of the header.
        let path = unsafe { CStr::from_ptr(self.0) };
        let bytes = path.to_bytes();
        if bytes.is_empty() || bytes.len() > URI_BYTES_MAX || path.to_str().is_err() {
            let range = format_args!("1 to {URI_BYTES_MAX} bytes of UTF-8");
            let advice = "leave it NULL for libcuda.so.1";
            let len = bytes.len();
            let text = format_args!("a path has {range}, this one has {len}: {advice}");
            return Err(fail!(why, Invalid, "cuda_driver: {text}"));
        }
        Ok(path)
    }
}

impl Driver {
    /// The driver that the config's `cuda_driver` names, loaded and initialised; the same one each
    /// time.
    pub fn load(cuda_driver: DriverPath, why: &mut Why) -> Result<&'static Driver, Status> {
        let path = cuda_driver.check(why)?;
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
            let text = format_args!("this process has {DRIVERS_MAX} different drivers already");
            return Err(fail!(why, Invalid, "cuda_driver = {shown}: {text}"));
        };
        let driver = resolve(library, shown, why)?;
        Ok(forever(&drivers[place].insert(Loaded { library, driver }).driver))
    }
}

impl Driver {
    /// A driver that this process has loaded already, and in which the calling thread has a current
    /// context; that context. None: this thread uses no device.
    pub fn in_use() -> Option<(&'static Driver, Context)> {
        let current = |driver: &Driver| match driver.ctx_get_current() {
            Ok(context) if context != Context::NULL => Some(context),
            _ => None,
        };
        let known = DRIVERS.lock().iter().flatten().find_map(|loaded| {
            current(&loaded.driver).map(|context| (forever(&loaded.driver), context))
        });
        if known.is_some() {
            return known;
        }
        let loader = Loader::of_process()?;
        // SAFETY: the path has a NUL, and nothing is loaded by this.
        let library =
            unsafe { (loader.open)(DEFAULT_PATH.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        let driver = Driver::load(DriverPath::NULL, &mut Why::new());
        // SAFETY: this call's own reference is given back; one that was taken stays.
        unsafe { (loader.close)(library) };
        let driver = driver.ok()?;
        current(driver).map(|context| (driver, context))
    }
}

/// A driver of the table, which outlives the lock.
fn forever(driver: &Driver) -> &'static Driver {
    // SAFETY: an entry of the static table is written once and neither moved nor changed later.
    unsafe { &*core::ptr::from_ref(driver) }
}

/// The entries of a library that was just opened, its version checked, initialised.
fn resolve(library: *mut c_void, shown: Tail<'_>, why: &mut Why) -> Result<Driver, Status> {
    // SAFETY: the library is open, and stays so while its entries are in use.
    let entries = unsafe { Entries::resolve(|name| libc::dlsym(library, name.as_ptr())) };
    let entries = entries.map_err(|missing| {
        fail!(
            why,
            Unsupported,
            "{shown} has no {}: it is not an NVIDIA driver, or an older one than R525: update it, \
             or set backend = host",
            missing.to_str().unwrap_or("")
        )
    })?;
    let mut driver = Driver { entries, version: 0 };
    // Before cuInit: an old driver may fail there for a reason that only its age explains.
    driver.version = driver.driver_get_version().map_err(|code| {
        fail!(why, Cuda, "{shown}: cuDriverGetVersion returned {}", driver.named(code))
    })?;
    if driver.version < VERSION_MIN {
        return Err(fail!(
            why,
            Unsupported,
            "the CUDA driver {shown} is for CUDA {}.{}: 12.0 is the oldest that will do: update \
             the NVIDIA driver to R525 or later, or set backend = host",
            driver.version / 1000,
            driver.version % 1000 / 10
        ));
    }
    driver.init().map_err(|code| {
        let (named, advice) = (driver.named(code), code.init_advice());
        fail!(why, Cuda, "{shown}: cuInit returned {named}: {advice}, or set backend = host")
    })?;
    Ok(driver)
}
