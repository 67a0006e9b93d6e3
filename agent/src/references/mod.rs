//! Reference pictures: the source `reference NAME` of chains.
//!
//! - [`service`]: sets, their vectors, the answer about an event.
//! - [`embedder`]: who computes vectors.
//!
//! Not here: the files and the comparison (`watchkeeper_evidence::reference`), the routes (`api`).

pub mod embedder;
pub mod service;

pub use service::ReferenceService;
