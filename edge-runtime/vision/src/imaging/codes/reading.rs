//! A code that was read, and the call of a reader that may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::geometry::BBox;

#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    pub text: String,
    pub is_qr: bool,
    /// Upright bounding box.
    pub bbox: BBox,
}

/// Calls a reader; a panic counts as nothing read.
pub(super) fn guarded<T>(read: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok().flatten()
}
