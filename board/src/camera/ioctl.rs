//! The ioctls of V4L2 that the crate `v4l` offers only with a panic or without a bound. It wants
//! UTF-8 in names, knows thirteen of the kernel's kinds of controls, and lists sizes and rates
//! until the driver refuses.
//!
//! - The structs and request numbers are those of the crate, made from the kernel's header.
//! - Every index counts up until the driver refuses it; the caller bounds the count.

#![allow(
    unsafe_code,
    reason = "the crate's ioctl takes a pointer to the struct of the request"
)]

use std::io;
use std::mem::zeroed;

use v4l::Device;
use v4l::v4l_sys::{
    V4L2_CAP_DEVICE_CAPS, V4L2_CTRL_FLAG_NEXT_CTRL, v4l2_capability, v4l2_control, v4l2_fmtdesc,
    v4l2_fract, v4l2_frmivalenum, v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE, v4l2_frmsizeenum,
    v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE, v4l2_query_ext_ctrl, v4l2_querymenu,
};
use v4l::v4l2::{ioctl, vidioc};

/// Fills `about` by a request.
///
/// # Safety
/// `request` must be one that takes a `T`, and `T` a struct of integers, for which any bytes are
/// valid.
unsafe fn ask<T>(device: &Device, request: vidioc::_IOC_TYPE, about: &mut T) -> io::Result<()> {
    let about: *mut T = about;
    // SAFETY: the pointer is valid for the call, which keeps no copy of it; the rest is promised.
    unsafe { ioctl(device.handle().fd(), request, about.cast()) }
}

/// The driver's description of itself and of this node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capability {
    pub(super) driver: [u8; 16],
    pub(super) bus: [u8; 32],
    /// Bits `V4L2_CAP_*` of this node.
    pub(super) flags: u32,
}

pub(super) fn capability(device: &Device) -> io::Result<Capability> {
    // SAFETY: `v4l2_capability` is a struct of integers, and the one of this request.
    let about = unsafe {
        let mut about: v4l2_capability = zeroed();
        ask(device, vidioc::VIDIOC_QUERYCAP, &mut about)?;
        about
    };
    // Drivers from before Linux 3.4 describe all of their nodes as one.
    let has_own = about.capabilities & V4L2_CAP_DEVICE_CAPS != 0;
    Ok(Capability {
        driver: about.driver,
        bus: about.bus_info,
        flags: if has_own {
            about.device_caps
        } else {
            about.capabilities
        },
    })
}

/// Returns the code of the pixel format `index` of `buffers`, a `V4L2_BUF_TYPE_*`.
pub(super) fn format(device: &Device, buffers: u32, index: u32) -> io::Result<[u8; 4]> {
    // SAFETY: `v4l2_fmtdesc` is a struct of integers, and the one of this request.
    let about = unsafe {
        let mut about: v4l2_fmtdesc = zeroed();
        (about.index, about.type_) = (index, buffers);
        ask(device, vidioc::VIDIOC_ENUM_FMT, &mut about)?;
        about
    };
    Ok(about.pixelformat.to_le_bytes())
}

/// A size of pictures, or a range of sizes.
#[derive(Debug, Clone, Copy)]
pub(super) enum FrameSize {
    Discrete([u32; 2]),
    /// The smallest and the largest; the driver lists nothing else.
    Range([[u32; 2]; 2]),
}

/// Returns the size `index` of a pixel format.
pub(super) fn frame_size(device: &Device, format: [u8; 4], index: u32) -> io::Result<FrameSize> {
    // SAFETY: `v4l2_frmsizeenum` is the struct of this request. Both members of its union are
    // structs of integers, for which any bytes are valid.
    unsafe {
        let mut about: v4l2_frmsizeenum = zeroed();
        (about.index, about.pixel_format) = (index, u32::from_le_bytes(format));
        ask(device, vidioc::VIDIOC_ENUM_FRAMESIZES, &mut about)?;
        if about.type_ == v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE {
            let size = about.__bindgen_anon_1.discrete;
            return Ok(FrameSize::Discrete([size.width, size.height]));
        }
        let range = about.__bindgen_anon_1.stepwise;
        Ok(FrameSize::Range([
            [range.min_width, range.min_height],
            [range.max_width, range.max_height],
        ]))
    }
}

/// Time between two frames as a fraction of a second, or a range of such times.
#[derive(Debug, Clone, Copy)]
pub(super) enum FrameInterval {
    Discrete([u32; 2]),
    /// The shortest and the longest; the driver lists nothing else.
    Range([[u32; 2]; 2]),
}

/// Returns the frame interval `index` of a pixel format and size.
pub(super) fn frame_interval(
    device: &Device,
    format: [u8; 4],
    [width, height]: [u32; 2],
    index: u32,
) -> io::Result<FrameInterval> {
    let parts = |fraction: v4l2_fract| [fraction.numerator, fraction.denominator];
    // SAFETY: `v4l2_frmivalenum` is the struct of this request. Both members of its union are
    // structs of integers, for which any bytes are valid.
    unsafe {
        let mut about: v4l2_frmivalenum = zeroed();
        (about.index, about.pixel_format) = (index, u32::from_le_bytes(format));
        (about.width, about.height) = (width, height);
        ask(device, vidioc::VIDIOC_ENUM_FRAMEINTERVALS, &mut about)?;
        if about.type_ == v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE {
            return Ok(FrameInterval::Discrete(parts(
                about.__bindgen_anon_1.discrete,
            )));
        }
        let range = about.__bindgen_anon_1.stepwise;
        Ok(FrameInterval::Range([parts(range.min), parts(range.max)]))
    }
}

/// A control as the kernel describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    pub(super) id: u32,
    /// One of the constants `V4L2_CTRL_TYPE_*`.
    pub(super) kind: u32,
    pub(super) name: [u8; 32],
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) step: u64,
    pub(super) default: i64,
    /// Bits of the constants `V4L2_CTRL_FLAG_*`.
    pub(super) flags: u32,
}

/// Returns the first control whose id is over `after`.
pub(super) fn next_control(device: &Device, after: u32) -> io::Result<Description> {
    // SAFETY: `v4l2_query_ext_ctrl` is a struct of integers, and the one of this request.
    let about = unsafe {
        let mut about: v4l2_query_ext_ctrl = zeroed();
        about.id = after | V4L2_CTRL_FLAG_NEXT_CTRL;
        ask(device, vidioc::VIDIOC_QUERY_EXT_CTRL, &mut about)?;
        about
    };
    Ok(Description {
        id: about.id,
        kind: about.type_,
        name: about.name.map(|byte| byte as u8),
        min: about.minimum,
        max: about.maximum,
        step: about.step,
        default: about.default_value,
        flags: about.flags,
    })
}

/// Returns the name of an entry of a menu.
pub(super) fn menu_name(device: &Device, control: u32, index: u32) -> io::Result<[u8; 32]> {
    // SAFETY: `v4l2_querymenu` is the struct of this request. Its union has two members of
    // integers, for which any bytes are valid; the kernel writes the name for a menu of texts.
    unsafe {
        let mut about: v4l2_querymenu = zeroed();
        (about.id, about.index) = (control, index);
        ask(device, vidioc::VIDIOC_QUERYMENU, &mut about)?;
        Ok(about.__bindgen_anon_1.name)
    }
}

pub(super) fn value(device: &Device, control: u32) -> io::Result<i32> {
    // SAFETY: `v4l2_control` is a struct of integers, and the one of this request.
    let about = unsafe {
        let mut about: v4l2_control = zeroed();
        about.id = control;
        ask(device, vidioc::VIDIOC_G_CTRL, &mut about)?;
        about
    };
    Ok(about.value)
}

pub(super) fn set_value(device: &Device, control: u32, value: i32) -> io::Result<()> {
    let mut about = v4l2_control { id: control, value };
    // SAFETY: `v4l2_control` is a struct of integers, and the one of this request.
    unsafe { ask(device, vidioc::VIDIOC_S_CTRL, &mut about) }
}
