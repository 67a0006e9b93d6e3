//! Reference pictures: the source `reference NAME` of chains.
//!
//! - [`service`]: sets, their vectors, the answer about an event.
//!
//! Not here: the files and the comparison (`watchkeeper_evidence::reference`), who computes vectors
//! (`embedding`), the routes (`api`).

pub mod service;

pub use service::ReferenceService;
