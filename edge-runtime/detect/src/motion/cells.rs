//! Labels of cells: the first three by appearance, the others by object.

/// Looks like the background.
pub(super) const BACK: u8 = 0;
/// Looks like the background in shadow.
pub(super) const SHADOW: u8 = 1;
/// Looks different from the background.
pub(super) const FORE: u8 = 2;

/// Belongs to no object that moved.
pub(super) const NOTHING: u8 = 0;
/// Belongs to an object that moved but still overlaps its first place.
pub(super) const MOVED: u8 = 3;
/// Belongs to an object that has left its first place.
pub(super) const OBJECT: u8 = 1;
/// Seems to be uncovered background.
pub(super) const GHOST: u8 = 2;
