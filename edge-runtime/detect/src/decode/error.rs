//! The error of all decoders.

/// Why outputs can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The number of tensors is wrong.
    #[error("the network has {found} outputs, the {family} layout needs {expected}")]
    Count {
        family: &'static str,
        found: usize,
        expected: usize,
    },
    /// A tensor has another shape.
    #[error(
        "output `{name}` is {}, the {family} layout{} needs {expected}",
        shape(.found),
        of_classes(*.classes)
    )]
    Shape {
        family: &'static str,
        name: String,
        found: Vec<usize>,
        /// The expected shape, as text.
        expected: String,
        /// Number of classes in the manifest.
        classes: usize,
    },
    /// A tensor of the right shape holds NaN or infinity.
    #[error("output `{name}` holds NaN or infinity, which the {family} layout can't use")]
    NoNumber { family: &'static str, name: String },
}

impl DecodeError {
    /// Renames the family, for one that reuses another's decoder.
    #[must_use]
    pub(crate) fn of(mut self, of: &'static str) -> Self {
        match &mut self {
            Self::Count { family, .. }
            | Self::Shape { family, .. }
            | Self::NoNumber { family, .. } => *family = of,
        }
        self
    }
}

fn of_classes(classes: usize) -> String {
    match classes {
        0 => String::new(),
        n => format!(" with {n} classes"),
    }
}

/// A shape as text, such as `1x3x416x416`.
pub(crate) fn shape(dims: &[usize]) -> String {
    let dims: Vec<_> = dims.iter().map(usize::to_string).collect();
    dims.join("x")
}
