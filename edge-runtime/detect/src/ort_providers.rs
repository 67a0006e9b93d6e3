//! Execution providers of ONNX Runtime: which are asked for, and in which order.
//!
//! - One provider runs a network; the CPU takes the operators that it does not have.
//! - Only providers that the library was built with are asked for, in the order of
//!   [`Provider::ORDER`].
//! - CUDA precedes TensorRT: ONNX Runtime's TensorRT builds an engine for minutes at every opening.
//! - Not here: the session, and what happens when a provider fails.

use std::num::NonZeroUsize;

use ort::ep::{CUDA, ExecutionProvider as _, OpenVINO, TensorRT, XNNPACK};
use ort::session::builder::SessionBuilder;

/// Name of the provider that every library has.
pub(crate) const CPU: &str = "CPU";

/// A provider that is faster than the CPU's on some machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Cuda,
    TensorRt,
    OpenVino,
    Xnnpack,
}

impl Provider {
    /// The order in which providers are asked for.
    pub(crate) const ORDER: [Self; 4] = [Self::Cuda, Self::TensorRt, Self::OpenVino, Self::Xnnpack];

    /// Lists the providers of the opened library, in the order of [`Self::ORDER`].
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        Self::ORDER.into_iter().filter(|provider| {
            let found = match provider {
                Self::Cuda => CUDA::is_available(),
                Self::TensorRt => TensorRT::is_available(),
                Self::OpenVino => OpenVINO::is_available(),
                Self::Xnnpack => XNNPACK::is_available(),
            };
            found.unwrap_or(false)
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::TensorRt => "TensorRT",
            Self::OpenVino => "OpenVINO",
            Self::Xnnpack => "XNNPACK",
        }
    }

    /// Adds this provider to a session that is not opened yet.
    ///
    /// # Errors
    /// The library's: the provider's own libraries or its device are missing.
    pub(crate) fn register(
        self,
        builder: &mut SessionBuilder,
        threads: usize,
    ) -> Result<(), ort::Error> {
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        match self {
            Self::Cuda => CUDA::default().register(builder),
            Self::TensorRt => TensorRT::default().register(builder),
            Self::OpenVino => OpenVINO::default()
                .with_num_threads(threads.get())
                .register(builder),
            // It has its own threads.
            Self::Xnnpack => XNNPACK::default()
                .with_intra_op_num_threads(threads)
                .register(builder),
        }
    }

    /// Copies of tensors between host and device in one run; absent if that is not known.
    pub(crate) fn tensor_copies(name: &str) -> Option<u32> {
        match name {
            CPU | "XNNPACK" => Some(0),
            "CUDA" | "TensorRT" => Some(2),
            _ => None,
        }
    }
}
