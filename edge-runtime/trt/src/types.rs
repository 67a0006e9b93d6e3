//! What callers of the library pass and get, without pointers.

use crate::failure::{Failure, Status};

/// Versions as major * 10000 + minor * 100 + patch.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions {
    /// Headers that the library was built against.
    pub headers: i32,
    /// TensorRT on this machine; 0: none.
    pub library: i32,
}

/// The graphics processor that runs engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    /// Compute capability, such as 8 and 7.
    pub capability: (i32, i32),
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// An input or output of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    pub is_input: bool,
    /// Number of `nvinfer1::DataType`.
    pub data_type: i32,
    /// Lengths of its axes; `None` for one that is not fixed.
    pub axes: Vec<Option<usize>>,
}

impl TensorInfo {
    /// Lengths of all axes.
    #[must_use]
    pub fn shape(&self) -> Option<Vec<usize>> {
        self.axes.iter().copied().collect()
    }
}

/// Values of a tensor on the host, the last axis fastest.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Floats(Vec<f32>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

impl Values {
    pub(crate) fn zeros(info: &TensorInfo) -> Result<Self, Failure> {
        let refused = |why: &str| {
            let sentence = format!("tensor `{}` {why}", info.name);
            Failure::new(Status::Argument, sentence)
        };
        let shape = info.shape();
        let shape = shape.ok_or_else(|| refused("has a length that depends on the picture"))?;
        let count = shape
            .iter()
            .try_fold(1_usize, |n, axis| n.checked_mul(*axis));
        let count = count.ok_or_else(|| refused("is too large"))?;
        match info.data_type {
            0 => Ok(Self::Floats(vec![0.0; count])),
            3 => Ok(Self::Int32(vec![0; count])),
            8 => Ok(Self::Int64(vec![0; count])),
            1 | 7 => Err(refused(
                "has 16-bit values; export the file with 32-bit inputs and outputs",
            )),
            _ => Err(refused("is neither float32 nor int32 nor int64")),
        }
    }
}

/// How an engine is built.
#[derive(Debug, Clone, Copy)]
pub struct BuildOptions<'a> {
    /// Device memory that one layer may use.
    pub workspace_bytes: u64,
    /// Builder optimisation level, 0 to 5.
    pub level: i32,
    /// Timing cache of an earlier build; may be empty.
    pub timing_cache: &'a [u8],
}

/// What a build returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    Engine,
    TimingCache,
}

/// What a build asks its caller.
pub trait Answers: Send {
    /// Returns the lengths of all inputs; `None` cancels the build.
    fn fix_shapes(&mut self, inputs: &[TensorInfo]) -> Option<Vec<Vec<usize>>>;

    /// Whether to go on, at a step of a phase.
    fn progress(&mut self, phase: &str, step: i32, steps: i32) -> bool;

    /// Whether the product was taken.
    fn take(&mut self, product: Product, bytes: &[u8]) -> bool;
}
