//! How much work the box does: less while it is hot, by a stated order, and all of it again.
//!
//! - [`policy`]: from temperatures to a [`Level`]; a state machine without clock and device.
//! - [`level`]: what each level sheds, and what it grants to one pipeline.
//!
//! Invariant: a pipeline whose priority is not `low` keeps at least [`MIN_FPS`] looks a second.

pub mod level;
pub mod policy;

pub use self::level::{Grant, Level, MIN_FPS};
pub use self::policy::{Cause, HeatPolicy, Step};

#[cfg(test)]
mod tests;
