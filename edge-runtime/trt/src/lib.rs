//! TensorRT, reached through `libwk_trt.so`, and CUDA.
//!
//! - [`Shim`] opens the library and checks its ABI and the version of TensorRT; [`Engine`] runs one
//!   network on device 0.
//! - Unsafe code is in `ffi` (the library), `cuda` and `symbols`. What they hand out is safe:
//!   buffers are owned and sized here.
//! - Every failure is one sentence, with its [`Status`].
//! - Messages of TensorRT go to one receiver, with the name of their engine.
//!
//! Not here: where the library and engines lie, and processes that keep a crash away
//! (`watchkeeper_detect::trt`). The library's source is in `cpp/`, its C ABI in `include/`.

mod cuda;
mod failure;
mod ffi;
mod log;
mod symbols;
mod types;

pub use cuda::Cuda;
pub use failure::{Failure, Status};
pub use ffi::{Engine, Shim};
pub use log::{Level, Message, Receiver};
pub use types::{Answers, BuildOptions, Device, Product, TensorInfo, Values, Version};
