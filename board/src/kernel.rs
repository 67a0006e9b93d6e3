//! Calls of the C library; the only file of this crate with unsafe code.

#![allow(
    unsafe_code,
    reason = "adjtimex(2), malloc_trim(3) and one ioctl have no safe wrapper among our dependencies"
)]

use std::ffi::c_long;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel's bound on the error of the wall clock, in microseconds (`maxerror` of adjtimex(2)).
/// `None` where a sandbox forbids the call.
#[must_use]
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

/// Id of the control Brightness (`V4L2_CID_BASE` of videodev2.h).
const BRIGHTNESS: u32 = 0x0098_0900;

/// `VIDIOC_QUERYCTRL`: `_IOWR('V', 36, struct v4l2_queryctrl)`, on the architectures of
/// asm-generic/ioctl.h.
const VIDIOC_QUERYCTRL: u64 = 0xc044_5624;

/// `struct v4l2_queryctrl` of videodev2.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(dead_code, reason = "the layout is the kernel's")]
pub(crate) struct QueryControl {
    id: u32,
    kind: u32,
    name: [u8; 32],
    pub(crate) minimum: i32,
    pub(crate) maximum: i32,
    pub(crate) step: i32,
    pub(crate) default_value: i32,
    pub(crate) flags: u32,
    reserved: [u32; 2],
}

/// Returns the range of the control Brightness of a V4L2 device; `None` if it has none.
///
/// `linuxvideo` 0.3.5 lists the controls that follow this first one.
pub(crate) fn query_brightness(device: BorrowedFd<'_>) -> Option<QueryControl> {
    const { assert!(size_of::<QueryControl>() == 68) };
    let mut query = QueryControl {
        id: BRIGHTNESS,
        ..QueryControl::default()
    };
    // SAFETY: the request takes a pointer to the kernel's struct of this layout and size, which is
    // valid for the call; any bytes that it writes are a valid `QueryControl` of integers.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), VIDIOC_QUERYCTRL as _, &raw mut query) };
    (answer == 0).then_some(query)
}
