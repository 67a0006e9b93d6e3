//! A property that a block reads.

/// A property of a block, by its place in the manifest. `arg!` makes it from the name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arg {
    /// Place in the manifest; beyond all of them if the version lacks the property.
    pub(super) index: usize,
    /// Its names in the versions of the block; empty if it was found by name at run time.
    names: &'static [&'static str],
}

impl Arg {
    pub(super) const fn at(index: usize, names: &'static [&'static str]) -> Self {
        Self { index, names }
    }

    /// Whether a property of this name may be at its place.
    pub(super) fn fits(self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(&name)
    }
}
