//! Sentence models: their files, tokens and notes.

mod files;
mod memory;
mod tokens;
