//! TensorRT, reached through `libwk_trt.so`.
//!
//! - [`Shim`] opens the library and checks its ABI; [`Engine`] runs one network on device 0.
//! - All unsafe code is in `ffi`. What it hands out is safe: buffers are owned and sized here.
//! - Every failure is one sentence of the library, with its [`Status`].
//!
//! Not here: where the library and engines lie, and processes that keep a crash away
//! (`watchkeeper_detect::trt`). The library's source is in `cpp/`, its C ABI in `include/`.

mod failure;
mod ffi;
mod types;

pub use failure::{Failure, Status};
pub use ffi::{Engine, Shim};
pub use types::{Answers, BuildOptions, Device, Product, TensorInfo, Values, Versions};
