//! The workflow language: definitions, selectors, kinds, block types and errors.
//!
//! - Knows no block and no run; it depends only on [`values`](super::values).

pub(crate) mod bounds;
pub(crate) mod definition;
pub(crate) mod error;
pub(crate) mod kinds;
pub(crate) mod selector;
pub(crate) mod subworkflow;
pub(crate) mod types;
