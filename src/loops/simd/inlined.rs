//! Functions that are always inlined into a kernel.
//!
//! They carry no features of their own: a function with features is not inlined where the compiler
//! sees fit, and one without is compiled with those of the kernel that it ends up in.

/// Makes each an unsafe function. Its caller has the instructions, and vouches for its pointers:
/// masked lanes are neither read nor written. Generic parameters stand in brackets.
macro_rules! inlined {
    ($($(#[$note:meta])* $visible:vis fn $name:ident$([$($generic:tt)*])?(
        $($argument:ident: $type:ty),* $(,)?
    ) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$note])*
        #[inline(always)]
        #[allow(unused_unsafe)] // of one that only says what is given
        $visible unsafe fn $name$(<$($generic)*>)?($($argument: $type),*) $(-> $result)? {
            // SAFETY: the kernel that this becomes a part of has the instructions, and its caller
            // vouches for what the pointers are valid for.
            unsafe { $body }
        }
    )*};
}

pub(super) use inlined;
