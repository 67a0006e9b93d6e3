//! Calls of the C library. Unsafe code of this crate is here and in `camera::ioctl` only.

#![allow(
    unsafe_code,
    reason = "adjtimex(2) and malloc_trim(3) have no safe wrapper among our dependencies"
)]

use std::ffi::c_long;
use std::mem::MaybeUninit;

/// The kernel's bound on the error of the wall clock, in microseconds (`maxerror` of adjtimex(2)).
/// `None` if a sandbox forbids the call.
pub(crate) fn max_error_us() -> Option<c_long> {
    let mut answer = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all zeros is a valid `timex`, an integer struct; with `modes` 0 the call only reads.
    // The pointer is valid for the call, which keeps no copy of it.
    let (state, answer) = unsafe {
        let state = libc::adjtimex(answer.as_mut_ptr());
        (state, answer.assume_init())
    };
    (state >= 0).then_some(answer.maxerror)
}

/// Returns freed memory of all arenas to the kernel, where the allocator is glibc's.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call has no precondition, and takes the lock of each arena.
    unsafe {
        libc::malloc_trim(0);
    }
}
