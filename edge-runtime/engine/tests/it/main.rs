//! Suites that use the crate from outside.

mod blocks_document;
mod roboflow_oracle;
mod rules;
