//! Why a call of the library failed.

/// Kind of a failure; `wk_trt_status` of the C ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A library is missing, or has the wrong version.
    Unavailable,
    /// No usable device, or CUDA reports an error.
    Device,
    /// A wrong shape, type or buffer.
    Argument,
    /// The ONNX file can't be parsed or built.
    Model,
    /// The engine can't be deserialised.
    Engine,
    Cancelled,
    /// Out of device or host memory.
    Memory,
    /// TensorRT or C++ threw, as it does when the system starts no thread.
    Exception,
    /// A number that this program does not know.
    Unknown(i32),
}

impl Status {
    pub(crate) const fn from_code(code: i32) -> Self {
        match code {
            -1 => Self::Unavailable,
            -2 => Self::Device,
            -3 => Self::Argument,
            -4 => Self::Model,
            -5 => Self::Engine,
            -6 => Self::Cancelled,
            -7 => Self::Memory,
            -8 => Self::Exception,
            other => Self::Unknown(other),
        }
    }
}

/// A failed call, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message }
    }
}
