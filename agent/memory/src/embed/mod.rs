//! What turns words into vectors: the seam, and the one that needs no model file.
//!
//! Invariant: the index asks for nothing but this trait, so a neural embedder (`neural`) takes the place of [`HashedEmbedder`] without a change to it.

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

    /// A name for what its vectors are made by, if making one takes so long that they are worth keeping: 1 to 64 of `a-z` and `0-9`, and another one whenever a
    /// text may get another vector. None: they are made when they are needed.
    fn kept_as(&self) -> Option<&str> {
        None
    }

    /// The vector of `text`, of length 1; of length 0 for a text without meaning. The same text has the same vector at any time.
    ///
    /// # Errors
    /// When the text can't be embedded. A note without a vector is still found by its words.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// The vector that a question is compared by, where that differs.
    ///
    /// # Errors
    /// As [`Embedder::embed`]; then notes are searched by their words alone.
    fn embed_question(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed(text)
    }
}
