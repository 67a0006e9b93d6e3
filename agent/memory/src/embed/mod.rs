//! What turns words into vectors: the seam, and the one that needs no model file.
//!
//! Invariant: the index asks for nothing but this trait, so a neural embedder takes the place of [`HashedEmbedder`] without a change to it.

mod concepts;
mod hashed;

pub use concepts::Concepts;
pub use hashed::HashedEmbedder;

/// Why a text has no vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the embedder {embedder} has no vector for a text: {why}")]
pub struct EmbedError {
    /// [`Embedder::name`].
    pub embedder: &'static str,
    /// What it said.
    pub why: String,
}

/// Turns words into vectors whose angle says how much they have to do with each other.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// For people and logs.
    fn name(&self) -> &'static str;

    /// Length of every vector.
    fn dimension(&self) -> usize;

    /// Cosine below which two texts have nothing to do with each other; chance alone gives less.
    fn floor(&self) -> f32;

    /// How much its order weighs in a search against that of the words, which weighs 1.
    fn weight(&self) -> f32;

    /// The vector of `text`, of length 1; of length 0 for a text without meaning. The same text has the same vector at any time.
    ///
    /// # Errors
    /// When the text can't be embedded. A note without a vector is still found by its words.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;
}
