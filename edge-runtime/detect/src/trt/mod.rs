//! TensorRT as a back end, on machines with an NVIDIA graphics processor.
//!
//! - `libwk_trt.so` ([`watchkeeper_trt`]) is compiled on the box; without it nothing is started.
//! - A child process asks for the device first ([`probe`]), and another builds engines ([`build`]).
//!   So a broken driver or a crash of the builder costs one log line.
//! - An engine is built once per file, TensorRT, driver, device and options ([`cache`]).
//! - An engine has fixed shapes. A network whose inputs vary in length is refused.
//! - Outputs with values that are not finite are an error of the frame.
//! - Messages of TensorRT go to the log of the daemon, with the name of the model.

pub mod build;
mod cache;
mod engine;
mod load;
mod log;
pub mod probe;
mod settings;

pub use build::BuildProgress;
pub(crate) use cache::adopt_engines;
pub use engine::{NAME, TrtNetwork};
pub use probe::{TrtFacts, availability};
pub use settings::{StopFlag, TrtSettings};
