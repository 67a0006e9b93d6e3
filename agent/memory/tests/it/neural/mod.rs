//! Models of sentences as files, and what becomes of them.

mod files;
mod memory;
mod tokens;
