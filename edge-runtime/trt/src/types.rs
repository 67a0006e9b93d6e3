//! What callers of the library pass and get, without pointers.

use std::ffi::c_void;

use crate::failure::{Failure, Status};

/// Oldest major version that the library is written for.
const OLDEST: i32 = 10;

/// A version of TensorRT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub major: i32,
    pub minor: i32,
    pub patch: i32,
}

impl Version {
    /// Splits a version as `getInferLibVersion` has it.
    pub(crate) const fn from_number(number: i32) -> Self {
        // Since 10.0 the major version is in the ten thousands, before in the thousands.
        let unit = if number >= 100_000 { 10_000 } else { 1000 };
        Self {
            major: number / unit,
            minor: number % unit / 100,
            patch: number % 100,
        }
    }

    /// Checks that a library built against `headers` may use this version.
    pub(crate) fn check(self, headers: Self) -> Result<(), Failure> {
        let Self { major, minor, .. } = self;
        let why = if major < OLDEST {
            format!(
                "TensorRT {major}.{minor} is too old, {OLDEST}.0 is needed; install JetPack 6 or \
                 newer"
            )
        } else if major != headers.major {
            format!(
                "TensorRT {major}.{minor} is installed, but libwk_trt.so was built for {}.{}; \
                 build it again",
                headers.major, headers.minor
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(Status::Unavailable, why))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The graphics processor that runs engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    /// Compute capability, such as 8 and 7.
    pub capability: (i32, i32),
    pub total_bytes: u64,
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
    /// Address and bytes.
    pub(crate) fn buffer(&mut self) -> (*mut c_void, usize) {
        match self {
            Self::Floats(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
            Self::Int32(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
            Self::Int64(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
        }
    }

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
    /// Name in the log.
    pub name: &'a str,
    /// Device memory that one layer may use.
    pub workspace_bytes: u64,
    /// Builder optimisation level, 0 to 5.
    pub level: i32,
    /// Timing cache of an earlier build; may be empty.
    pub timing_cache: &'a [u8],
}

/// Result of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    Engine,
    TimingCache,
}

/// Callbacks of a build.
pub trait Answers: Send {
    /// Returns the lengths of all inputs; `None` cancels the build.
    fn fix_shapes(&mut self, inputs: &[TensorInfo]) -> Option<Vec<Vec<usize>>>;

    /// Whether to continue, at a step of a phase.
    fn progress(&mut self, phase: &str, step: i32, steps: i32) -> bool;

    /// Whether the product was taken.
    fn take(&mut self, product: Product, bytes: &[u8]) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_ten_are_split_by_thousands() {
        let text = |number| Version::from_number(number).to_string();
        assert_eq!(text(101_602), "10.16.2");
        assert_eq!(text(8601), "8.6.1");
    }

    #[test]
    fn only_the_major_version_of_the_headers_is_taken() {
        let version = Version::from_number;
        assert_eq!(version(100_300).check(version(101_600)), Ok(()));
        for (library, said) in [
            (110_000, "11.0 is installed, but"),
            (8601, "8.6 is too old"),
        ] {
            let refused = version(library).check(version(101_600));
            assert!(refused.is_err_and(|failure| failure.message.contains(said)));
        }
    }
}
