//! Reference pictures: named sets, and the likeness of an event's picture to them.
//!
//! - [`store`]: the sets as files. [`likeness`]: what follows from embeddings, sans-IO.
//!
//! Invariants:
//! - Embeddings of different models are never compared.
//! - Below the lowest likeness, and between two sets that are nearly equal, there is no answer.
//!
//! Not here: computing the embeddings (`agent`).

pub mod likeness;
pub mod store;
