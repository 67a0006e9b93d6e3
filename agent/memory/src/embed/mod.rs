//! Embeddings: the trait [`Embedder`], and [`HashedEmbedder`], which needs no model file.
//!
//! The index depends on the trait only; `neural` has the other implementation.

mod concepts;
mod hashed;

use concepts::Concepts;
pub use hashed::HashedEmbedder;

/// A text without a vector, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the embedder {embedder} failed on a text: {why}")]
pub struct EmbedError {
    pub embedder: &'static str,
    pub why: String,
}

/// Computes vectors of texts; the cosine of two vectors is the similarity of the texts.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// Name for messages and logs.
    fn name(&self) -> &'static str;

    /// Length of every vector.
    fn dimension(&self) -> usize;

    /// Returns the cosine below which two texts are unrelated.
    fn floor(&self) -> f32;

    /// Returns a name for stored vectors, if computing one is slow.
    ///
    /// It has 1 to 64 characters of `a-z` and `0-9`, and changes whenever a text may get another
    /// vector.
    fn kept_as(&self) -> Option<&str> {
        None
    }

    /// Computes the vector of a note's text: of length 1, or 0 for a text without meaning.
    ///
    /// The same text always has the same vector.
    ///
    /// # Errors
    /// [`EmbedError`]; the note is still found by its words.
    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError>;

    /// Computes the vector of a query, if it differs from that of a note.
    ///
    /// # Errors
    /// [`EmbedError`]; then notes are searched by words only.
    fn embed_question(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.embed(text)
    }
}
