//! The suites over the whole of the engine, as a user of the crate.

mod blocks_document;
mod roboflow_oracle;
mod rules;
