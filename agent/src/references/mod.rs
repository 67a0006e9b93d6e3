//! Reference pictures: the source `reference NAME` of chains.
//!
//! - [`service`]: sets, their embeddings, the answer about an event.
//! - [`progress`]: which pictures have none, and why. [`record_picture`]: the picture of an event.
//!
//! Not here: the files and the comparison (`watchkeeper_evidence::reference`), computing embeddings
//! (`embedding`), the routes (`api`).

mod progress;
pub(crate) mod record_picture;
pub(crate) mod service;

pub(crate) use service::ReferenceService;
