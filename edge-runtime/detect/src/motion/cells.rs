//! Labels of cells.

/// A cell that looks like the background.
pub(super) const BACK: u8 = 0;
/// A cell that looks like the background in shadow.
pub(super) const SHADOW: u8 = 1;
/// A cell that looks like something else.
pub(super) const FORE: u8 = 2;

/// A cell that belongs to no thing known to have moved.
pub(super) const NOTHING: u8 = 0;
/// A cell of a thing that has moved, but not yet away from where it was first seen.
pub(super) const MOVED: u8 = 3;
/// A cell of a thing that has left its first place.
pub(super) const OBJECT: u8 = 1;
/// A cell where background seems to have been uncovered.
pub(super) const GHOST: u8 = 2;
