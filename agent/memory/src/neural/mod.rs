//! Sentence embeddings by a neural network, instead of hashed vectors.
//!
//! - Owns the files ([`SentenceModel::load`]), the tokens ([`tokens`]) and the pooling
//!   ([`pooling`]).
//! - Files are those of sentence-transformers: `model.onnx` (or `onnx/model.onnx`),
//!   `tokenizer.json`, and optionally `1_Pooling/config.json`, `modules.json`,
//!   `sentence_bert_config.json` and `config_sentence_transformers.json`.
//! - Files are untrusted: each is read within a bound, and an error names file, problem and remedy.
//!   A panic of the library is such an error.
//! - A loaded model has run on the longest text and on the last token of its vocabulary.
//! - The same text has the same vector: one thread, no state.
//! - Everything but `folder` is sans-IO. Not here: the search for a model, and the fallback without
//!   one.

mod error;
mod folder;
mod model;
mod network;
pub mod pooling;
pub mod tokens;

pub use error::LoadError;
pub use folder::look;
pub use model::{MAX_DIMENSION, MAX_TOKENS, SentenceModel};
