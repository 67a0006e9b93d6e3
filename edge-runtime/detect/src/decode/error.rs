//! Why the outputs of a network can't be decoded.

/// Why outputs can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too few or too many tensors.
    #[error("the network answers {found} tensors, the {family} layout has {expected}")]
    Count {
        /// The family.
        family: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A tensor of another shape.
    #[error(
        "output `{name}` is {}, the {family} layout{} needs {expected}",
        shape(.found),
        of_classes(*.classes)
    )]
    Shape {
        /// The family.
        family: &'static str,
        /// Name of the tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape it should have, in words.
        expected: String,
        /// Number of classes in the manifest.
        classes: usize,
    },
    /// A tensor of the right shape with numbers that mean nothing.
    #[error("output `{name}` has a number that is none, which the {family} layout can't use")]
    NoNumber {
        /// The family.
        family: &'static str,
        /// Name of the tensor.
        name: String,
    },
}

impl DecodeError {
    /// The same for a family that borrows the decoder of another one.
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

/// A shape as people write it, such as `1x3x416x416`.
pub(crate) fn shape(dims: &[usize]) -> String {
    let dims: Vec<_> = dims.iter().map(usize::to_string).collect();
    dims.join("x")
}
