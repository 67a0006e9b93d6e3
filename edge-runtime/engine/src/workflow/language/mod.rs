//! The workflow language: definitions, selectors, kinds, block types, and what is wrong with a definition.
//!
//! - Knows no block and no value of a run; it depends on nothing else of [`workflow`](super).

pub(crate) mod definition;
pub(crate) mod error;
pub(crate) mod kinds;
pub(crate) mod selector;
pub(crate) mod subworkflow;
pub(crate) mod types;
