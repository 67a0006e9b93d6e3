//! Vectors of sentences by a neural network: what takes the place of the hashed vectors of the memory where a model's files are there.
//!
//! Owns: which files a model is ([`SentenceModel::load`]), what makes tokens of a text ([`tokens`]), and what makes one vector of what the network says of
//! each token ([`pooling`]). The files are those that sentence-transformers writes and that are published with such models: `model.onnx` (or `onnx/model.onnx`),
//! `tokenizer.json`, and beside them, where they are there, `1_Pooling/config.json`, `modules.json`, `sentence_bert_config.json` and
//! `config_sentence_transformers.json`.
//!
//! Invariants:
//! - the files come from anywhere: each is read within a bound, and whatever is wrong with one is an error that names it, what is wrong and what to do;
//!   a library that panics over one refuses that file, and nothing else happens;
//! - a model that is handed out has run, on the longest text that it will ever get and on the last token of its vocabulary;
//! - the same text has the same vector: one thread, no state.
//!
//! Everything but `folder` is sans-IO. Not here: where a model is looked for, and what is done without one.

mod error;
mod folder;
mod model;
mod network;
pub mod pooling;
pub mod tokens;

pub use error::LoadError;
pub use folder::look;
pub use model::{MAX_DIMENSION, MAX_TOKENS, SentenceModel};
